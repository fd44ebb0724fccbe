//! The replay gate: the real command line, and real orchestrator binaries on histories of real instances.

mod binaries;
mod deployment;
mod differences;
mod files;
mod isolation;
mod kinds;
mod site;
mod volume;
