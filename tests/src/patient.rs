//! Tests of others that give the store windows of real time, on a machine that may stall.
//!
//! A test that failed while the machine itself came too late is repeated: it has shown nothing. One that failed on a machine
//! that kept its time has failed.

use futures::FutureExt as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a test is tried at most.
const MOST: u32 = 5;
/// The shortest windows of duroxide's suite are 90 ms: what stalls for much less is no excuse.
const STALL: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a test, and again, at most some times, when it fails while the machine stalls.
///
/// # Panics
/// As the test does.
pub async fn patiently(test: impl AsyncFn()) {
    for attempt in 1.. {
        let watch = Watch::begin();
        let outcome = AssertUnwindSafe(test()).catch_unwind().await;
        let stall = watch.end().await;
        match outcome {
            Ok(()) => return,
            Err(_) if is_repeated(attempt, stall) => {
                eprintln!("attempt {attempt} failed while the machine stalled for {stall:?}")
            }
            // Its message was written when it panicked.
            Err(panic) => resume_unwind(panic),
        }
    }
}

fn is_repeated(attempt: u32, stall: Duration) -> bool {
    attempt < MOST && stall > STALL
}

/// Measures how much too late the machine is, beside a test.
struct Watch {
    is_over: Arc<AtomicBool>,
    watching: tokio::task::JoinHandle<()>,
    longest_us: Arc<AtomicU64>,
}

impl Watch {
    fn begin() -> Watch {
        let (is_over, longest_us) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, longest) = (Arc::clone(&is_over), Arc::clone(&longest_us));
        let watching = tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                tokio::time::sleep(PAUSE).await;
                let late = begun.elapsed().saturating_sub(PAUSE);
                longest.fetch_max(late.as_micros() as u64, Ordering::SeqCst);
            }
        });
        Watch {
            is_over,
            watching,
            longest_us,
        }
    }

    /// The longest that a pause took too long. It waits for the pause under way.
    async fn end(self) -> Duration {
        self.is_over.store(true, Ordering::SeqCst);
        self.watching.await.expect("it only sleeps");
        Duration::from_micros(self.longest_us.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_failure_is_repeated_only_on_a_machine_that_stalled_and_not_for_ever() {
        for (attempt, stall, repeated) in [
            (1, 31, true),
            (4, 31, true),
            (5, 31, false),
            (1, 30, false),
            (1, 0, false),
        ] {
            let stall = Duration::from_millis(stall);
            assert_eq!(is_repeated(attempt, stall), repeated, "{attempt} {stall:?}");
        }
    }

    /// Fails so many times on a machine that stalls; answers how often it was tried, and whether it failed.
    async fn failing(times: u32) -> (u32, bool) {
        let tried = AtomicU32::new(0);
        let test = async || {
            tokio::time::sleep(PAUSE * 2).await;
            // There is one thread: nobody else gets on.
            std::thread::sleep(STALL * 3);
            assert!(tried.fetch_add(1, Ordering::SeqCst) >= times, "the test's own words");
        };
        let failed = AssertUnwindSafe(patiently(test)).catch_unwind().await.is_err();
        (tried.load(Ordering::SeqCst), failed)
    }

    #[tokio::test]
    async fn a_test_that_failed_by_a_stall_is_tried_again() {
        assert_eq!(failing(0).await, (1, false));
        assert_eq!(failing(2).await, (3, false));
        assert_eq!(failing(MOST).await, (MOST, true));
    }
}
