//! The local cloud: the real `duroxide-lambda` binary with real function binaries.

mod attached;
mod builds;
mod children;
mod dashboard;
mod demo;
mod dev;
mod doctor;
mod documents;
mod environment;
mod fan_out;
mod function_errors;
mod function_url;
mod keyless;
mod lambda;
mod mistakes;
mod projects;
mod readme;
mod replaced;
mod restart;
mod sqs;
mod support;
mod timers;
mod web_pages;
