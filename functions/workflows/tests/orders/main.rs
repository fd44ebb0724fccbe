//! The sample's workflow, on the testing kit: weeks of orders in no time, without a store.
//!
//! The shop is a [`Ledger`](workflows::ledger::Ledger): the simulated one, with a memory of what it did and faults on demand. What
//! needs the real store or the functions is in `tests/tests/sample` of the workspace.

#![allow(missing_docs, reason = "tests")]

mod approval;
mod compensation;
mod crashes;
mod happy;
mod input;
mod retries;
mod support;
