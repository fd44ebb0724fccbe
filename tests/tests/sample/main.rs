//! The sample, order fulfilment, on the real runtime of duroxide and the real provider, on an emulator in this process.
//!
//! What the workflow does is tested in its own crate, on the testing kit. Here is what needs the store or the functions.
//!
//! The shop is a [`Ledger`](workflows::ledger::Ledger): the simulated one, with a memory of what it did and faults on demand. No test
//! relies on how long anything takes: each waits for a condition, and only waiting for minutes is a failure.

mod causes;
mod happy;
mod restarts;
mod rewind;
mod site;
