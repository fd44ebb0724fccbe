//! The binary of the local cloud: see `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else, and before there are threads: this process may be about to become a function.
    if let Some(code) = local::become_child() {
        return code;
    }
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(local::cli::run()),
        Err(error) => {
            eprintln!("error: no threads can be started: {error}");
            ExitCode::FAILURE
        }
    }
}
