//! Batches: one action on every instance that a filter finds, as a durable job that is done in steps.
//!
//! ```text
//!   start ──> job ──wakeup──> step: handle the planned page ──> search the next page ──> write both (fenced) ──wakeup, later──> step ...
//!                                    (each instance once)        (newest first)          progress, failures
//! ```
//!
//! One document is the job (`model::batch_job`). It has the page of instances that the next step handles, so a step begins with what is
//! decided, and ends with one fenced write: what became of this page, and the next page. The search goes from the newest instance that was
//! accepted before the batch to the oldest, by position, so what the batch changes does not disturb its walk, and what is started meanwhile is
//! not in it. The filter decides when a page is searched, one step before it is handled; each action checks by itself what it finds then.
//!
//! **Each instance once.** A step that dies is repeated with the same page. So each action has its effect once for a batch and an instance:
//!
//! | action | what makes a repetition harmless | how a repetition counts it as changed |
//! |---|---|---|
//! | cancel, raise | the receipt of a key of the batch, in the batch that creates the message | the receipt |
//! | pause | it is paused already | the pause names the batch |
//! | resume | it is not paused any more | it was when the page was planned |
//! | delete | it is gone | it was there when the page was planned |
//! | rewind | the name of the call, which the instance remembers (of its last ten rewinds) | the name |
//! | restart as a new instance | the new id derives from batch and instance, and the start has a key | the receipt |
//! | restart in place | the receipt of a key of the batch, in the batch that restarts | the receipt |
//!
//! What can go wrong:
//! - **Two steps at once** (a wakeup came twice): both handle the page, one writes; the other finds another version and stops, without a
//!   wakeup. A step that comes well before its time does nothing: another wakeup is under way.
//! - **The wakeup is lost, or the function dies**: the job is due in the queue `repair`, and maintenance wakes it.
//! - **The store does not answer** for an instance: it stays in the page for the next step, and fails after [`MOST_TRIES`] of them. If the
//!   job itself cannot be written, the step fails and its wakeup comes again.
//! - **The answer to the write is lost**: its nonce tells that the job has it.
//! - **An operator cancels the batch** while a step is under way: the step counts its page, and ends the batch. If the function has died
//!   within its page just before, what it had changed of that page is not counted.
//! - **An operator resumes an instance** that the batch has paused, in the seconds between the death of a step and its repetition: it is paused
//!   again. Pausing by hand and by a batch at once is the same.
//! - **An older release** ignores the job, and answers its wakeups with nothing: they are those of a turn of an instance that does not exist.
//!
//! `pace` decides how fast, `action` what an action means for an instance in a certain state, `apply` does it, `step` is one step, `jobs`
//! begins, lists and cancels.

mod action;
mod apply;
mod jobs;
mod pace;
mod step;
mod view;

pub use action::{BatchAction, BatchRequest};
pub use jobs::{BatchCancelled, BatchStarted, batch_id_of_key};
pub(crate) use jobs::{batch, batches, cancel, failures, start};
pub(crate) use step::step;
pub use step::{BatchStep, StepContext};
pub use view::{Batch, BatchCursor, BatchFailurePage, BatchPage};

/// How often an instance is tried while the store does not answer.
const MOST_TRIES: u32 = 5;
