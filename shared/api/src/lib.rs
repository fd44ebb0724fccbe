//! `duroxide-lambda-api`: the HTTP API for clients, operators and the command line.
//!
//! ```text
//!   request ─> headers, CORS ─> who is it (auth) ─> which role (access) ─> body, path, query ─> handler ─> store, wakeups
//!                                      └ 401           └ 403                  └ 400, 413, 415       └ audit line
//! ```
//!
//! Nothing is read from the store, and no body is read, before the caller's role is known to suffice. The crate does not know where
//! it is hosted: a host puts an [`Invocation`] into each request and calls the [`router`].
//!
//! | module | role |
//! |---|---|
//! | [`types`] | requests and answers; all that is left without the feature `server` |
//! | `router`, `routes` | the router; the table of its routes with their roles |
//! | `auth` | who calls: IAM, JWT, or a program on this machine |
//! | `access`, `audit`, `headers`, `cors` | layers: the role of a route, the audit line, security headers, CORS |
//! | `problem` | errors as RFC 9457 documents |
//! | `extract`, `path`, `query`, `idempotency` | bodies, percent-encoded ids and verbs, query parameters, keys |
//! | `handlers` | one file per group of routes |
//! | `view` | pure: what the store returns, as answers |
//! | `wait` | pure: when a long poll reads; the long poll |
//! | `openapi` | the OpenAPI document |

pub mod types;
