//! What operators do with instances, one module per verb.

mod explain;
mod fork;
mod pause;
mod replay;
mod rewind;
