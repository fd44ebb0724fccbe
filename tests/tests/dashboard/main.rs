//! The dashboard in a real Chromium.
//!
//! ```text
//!   test ── starts ──> world: local cloud, or API in this process with a loaded store, or API and issuer
//!     └──── runs ────> node browser/run.mjs SCENARIO... ──> Chromium ──> world
//! ```
//!
//! A scenario is an ES module in `browser`; `browser/kit` has what they share. Several scenarios share a world and a browser, and each has
//! a browser context of its own. In every scenario, an error of the console or the page, a violation of the content security policy and
//! a request to another origin fail the test.
//!
//! | module | world |
//! |---|---|
//! | `flows` | the local cloud with the real functions |
//! | `loaded` | the API in this process, with much and with hostile data; its server can be killed |
//! | `explained` | the API in this process, with instances that wait, are blocked, failed, or can be paused |
//! | `sign_in` | the API with tokens of an issuer of this test (`issuer`), or with IAM |
//! | `pictures` | the API in this process, with sample orders: accessibility and screenshots |
//! | `checks` | none: the compiler, the unit tests of the modules, and the document with the screenshots |

mod browser;
mod checks;
mod explained;
mod flows;
mod issuer;
mod loaded;
mod pictures;
mod seed;
mod sign_in;
