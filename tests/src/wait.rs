//! Waiting for what must come. The limits are generous: they distinguish a hang from a slow machine.

use cosmos_emulator::{Listener, Pause};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// No sound program comes near this.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Asks until the answer is yes.
pub async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks until the answer is `Ok`; an error says what is missing.
pub async fn until_ok(what: &str, mut ask: impl AsyncFnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(missing) = ask().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {missing}");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Waits until a task has come to a pause of its listener. Answers `false` when the task ends without it.
pub async fn is_paused<T>(pause: &Pause, task: &JoinHandle<T>) -> bool {
    while !pause.is_reached() {
        if task.is_finished() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

/// Lets a process work behind a listener that is to crash. Answers its result, or `None` when the listener crashed.
pub async fn until_crash<T>(listener: &Listener, work: impl Future<Output = T>) -> Option<T> {
    let crash = async {
        while !listener.crashed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let result = tokio::select! {
        result = work => Some(result),
        () = crash => None,
    };
    // What the store was about to apply when the listener crashed is applied before anybody looks. A request under way
    // is logged as ending just now, whenever that is.
    let ends = || {
        listener
            .log()
            .iter()
            .map(|request| request.finished)
            .collect::<Vec<_>>()
    };
    let mut before = Vec::new();
    while before != ends() {
        before = ends();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    result.filter(|_| !listener.crashed())
}
