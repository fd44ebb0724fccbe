//! What operators do to instances, one module per verb.

mod replay;
