//! What operators do with instances, one module per verb.

mod explain;
mod pause;
mod replay;
mod usage;
