//! The local cloud: the command line, the function binaries, and what may happen to them.

mod children;
mod demo;
mod environment;
mod lambda;
mod mistakes;
mod readme;
mod restart;
mod sqs;
mod support;
