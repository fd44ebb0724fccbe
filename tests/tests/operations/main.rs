//! What operators do to instances, each on each state of an instance.

mod explain;
