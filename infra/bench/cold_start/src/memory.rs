//! Resident memory and processor time of a process, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Resident memory, in KiB.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// All of it.
    pub total: u64,
    /// The part that is not backed by a file: heap, stacks, relocated data.
    pub anonymous: u64,
}

/// The resident memory of a process.
pub fn resident(pid: u32) -> Result<Resident> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(value.with_context(|| format!("no {name} of {pid}"))?.parse()?)
    };
    Ok(Resident {
        total: field("VmRSS:")?,
        anonymous: field("RssAnon:")?,
    })
}

/// The processor time of all threads of a process so far.
pub fn processor_time(pid: u32) -> Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the read.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        nanos += text
            .split_whitespace()
            .next()
            .and_then(|first| first.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
