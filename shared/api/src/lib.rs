//! `duroxide-lambda-api`: the HTTP API for clients, operators and the command line.
//!
//! ```text
//!   request ─> CORS, headers ─> who is it (auth) ─> which role (access) ─> path, query, body ─> handler ─> store, wakeups
//!                                    └ 401             └ 403                 └ 400, 413, 415       └ audit line
//! ```
//!
//! Nothing is read from the store, and no body is read, before the caller's role is known to suffice. The router does not know where
//! it is hosted: a host puts an [`Invocation`] into the extensions of each request and calls the [`router`]. `lambda::run`, behind the
//! feature `lambda`, is that host as a Lambda function.
//!
//! | module | role |
//! |---|---|
//! | [`types`] | requests and answers; all that is left without the feature `server` |
//! | `api`, `router`, `routes` | the parts of the API; the router; the table of its routes with their roles |
//! | `auth` | who calls: IAM, JWT, or a program on this machine |
//! | `access`, `audit`, `headers` | layers: the role of a route; the audit line; CORS and security headers |
//! | `refusal` | errors as RFC 9457 documents |
//! | `body`, `path`, `query`, `idempotency` | what comes in: bodies, percent-encoded ids and verbs, query parameters, keys |
//! | `handlers` | one file per group of routes |
//! | `view` | pure: what the store returns, as answers |
//! | `throughput` | the counts of hours that are over, remembered |
//! | `wait` | pure: when a long poll reads; the long poll itself |
//! | `openapi` | the OpenAPI document |
//! | `lambda` | the API as a Lambda function, behind the feature `lambda` |
//! | `dashboard` | the dashboard's files, embedded by the build script; their sources are in the folder `dashboard` |

// docs.rs labels what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod types;

#[cfg(feature = "server")]
mod access;
#[cfg(feature = "server")]
mod api;
#[cfg(feature = "server")]
mod audit;
#[cfg(feature = "server")]
mod auth;
#[cfg(feature = "server")]
mod body;
#[cfg(feature = "server")]
mod dashboard;
#[cfg(feature = "server")]
mod handlers;
#[cfg(feature = "server")]
mod headers;
#[cfg(feature = "server")]
mod idempotency;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "server")]
mod openapi;
#[cfg(feature = "server")]
mod path;
#[cfg(feature = "server")]
mod query;
#[cfg(feature = "server")]
mod refusal;
#[cfg(feature = "server")]
mod router;
#[cfg(feature = "server")]
pub mod routes;
#[cfg(feature = "server")]
mod throughput;
#[cfg(feature = "server")]
mod view;
#[cfg(feature = "server")]
mod wait;

#[cfg(feature = "server")]
pub use api::{Api, Invocation};
#[cfg(feature = "server")]
pub use body::{MAX_BODY, MAX_TEXT};
#[cfg(feature = "server")]
pub use openapi::document;
#[cfg(feature = "server")]
pub use router::router;
#[cfg(feature = "server")]
pub use wait::{MAX_WAIT, Timer, TokioTimer};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
