//! Work in a process of its own, to measure its memory: the emulator, which is in the process of the test, must not count.
//!
//! The child is the test itself once more. It finds the world of its parent in the environment, works, and prints what the parent
//! reads.

use crate::World;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use tokio::process::Command;

const WORLD: &str = "TESTS_PARENT_WORLD";
const TASK: &str = "TESTS_PARENT_TASK";
const MARK: &str = "measured: ";

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// When the measurement began.
    pub before: u64,
    /// The most since then.
    pub peak: u64,
}

impl Memory {
    /// How much more than before.
    pub fn growth(&self) -> u64 {
        self.peak.saturating_sub(self.before)
    }
}

/// The world and the task of a child; `None` in a parent.
pub fn task<T: DeserializeOwned>() -> Option<(World, T)> {
    let world = World::joined(&std::env::var(WORLD).ok()?);
    let task = serde_json::from_str(&std::env::var(TASK).ok()?).expect("the task is JSON");
    Some((world, task))
}

/// Runs the test with this name as a child with a task, and returns its memory.
pub async fn measured(test: &str, world: &World, task: &impl Serialize) -> Memory {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(WORLD, world.handle())
        .env(TASK, serde_json::to_string(task).expect("the task is JSON"))
        .output()
        .await
        .expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| line.split_once(MARK));
    let (_, json) = found.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(json).expect("the child prints its memory")
}

/// Does the work of a child, and prints how much memory it took.
pub async fn measure(work: impl Future<Output = ()>) {
    let before = status("VmRSS:");
    // From now on the peak counts.
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    work.await;
    let memory = Memory {
        before,
        peak: status("VmHWM:"),
    };
    println!("{MARK}{}", serde_json::to_string(&memory).expect("numbers are JSON"));
}

fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a number");
    let kib: u64 = line
        .split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number");
    kib * 1024
}
