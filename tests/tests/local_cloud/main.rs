//! The local cloud: the real `duroxide-lambda` binary with real function binaries.

mod children;
mod demo;
mod documents;
mod environment;
mod function_errors;
mod keyless;
mod lambda;
mod mistakes;
mod readme;
mod restart;
mod sqs;
mod support;
mod timers;
mod web_pages;
