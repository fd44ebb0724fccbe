//! The local cloud: the real `duroxide-lambda` binary with real function binaries.

mod demo;
mod environment;
mod lambda;
mod processes;
mod readme;
mod restart;
mod sqs;
mod start_errors;
mod support;
