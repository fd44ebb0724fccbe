//! What operators do with instances, one module per verb.

mod batches;
mod explain;
mod fork;
mod pause;
mod replay;
mod restart;
mod rewind;
mod usage;
