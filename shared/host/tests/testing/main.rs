//! The testing kit for users' workflows, used as its users do.

#![allow(missing_docs, reason = "tests")]

mod crashes;
mod events;
mod families;
mod order;
mod outcomes;
mod plans;
mod store;
mod support;
mod time;
mod versions;
