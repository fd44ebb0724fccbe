//! What this crate needs of its deployment, for templates to be checked against: permissions and timing.
//!
//! Nothing here runs in a function. It stands beside the code that it is about, so that who adds a call to AWS or a
//! limit of time finds the list to extend.

mod permissions;
mod timing;

pub use permissions::{Deployed, On, PERMISSIONS, Permission};
pub use timing::{Timing, VISIBILITY_FACTOR, near_timeout, timeout_problem};
