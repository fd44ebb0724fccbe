//! The local cloud: Lambda, SQS and a schedule on one machine, around the real function binaries.
//!
//! | module | what it is |
//! |---|---|
//! | [`cloud`] | the whole cloud: the Cosmos DB emulator, SQS, Lambda, the schedule |
//! | [`lambda`], [`sqs`] | the parts of it |
//! | [`binaries`] | builds the function binaries |
//! | [`demo`] | orders that run through the functions while processes are killed |
//! | [`term`] | tables and text for terminals |

pub mod binaries;
pub mod cloud;
pub mod demo;
pub mod lambda;
mod net;
pub mod sqs;
pub mod term;

pub use cloud::{Cloud, CloudError, CloudOptions, CloudStatus, Functions, Store};
pub use lambda::become_child;
