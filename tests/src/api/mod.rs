//! The HTTP API on the real provider and the emulator, with the functions beside it.
//!
//! ```text
//!   test ── Site::get, post ──────────> router ─> Cosmos DB <─ functions (drained by the test, or by `Served`)
//!   browser, client ── HTTP ─> Web ──────┘
//! ```
//!
//! | module | role |
//! |---|---|
//! | `site` | a router and the cloud behind it |
//! | `calls` | requests and answers |
//! | `workflows` | small workflows |
//! | `served` | a site on a port, whose functions run by themselves |
//! | `web` | an HTTP server for browsers |
//! | `given_up` | activities that were tried as often as allowed |
//! | `signer` | keys and tokens of an OpenID Connect issuer |

mod calls;
mod given_up;
mod served;
mod signer;
mod site;
mod web;
mod workflows;

pub use calls::{Reply, iam, request, signed_by, with};
pub use given_up::GivingUp;
pub use served::Served;
pub use signer::Signer;
pub use site::{Options, Paused, Site};
pub use web::Web;
