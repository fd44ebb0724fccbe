//! The sample, order fulfilment, on the real runtime of duroxide and the real provider, on an emulator in this process.
//!
//! The shop is a [`ledger`](ledger::Ledger): the simulated one, with a memory of what it did and faults on demand. No test
//! relies on how long anything takes: each waits for a condition, and only waiting for minutes is a failure.

mod approval;
mod causes;
mod compensation;
mod happy;
mod input;
mod ledger;
mod restarts;
mod retries;
mod rewind;
mod site;
