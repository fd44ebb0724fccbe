//! What operators do to instances, one module per verb.

mod explain;
mod replay;
