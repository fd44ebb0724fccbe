//! Judging what depends on real time, on a machine that may stall.
//!
//! Some of duroxide's own tests allow a provider 100 or 200 ms between two calls. A machine that stops for so long makes a
//! sound provider fail. So the stalls are measured beside the test: what fails while the machine stood still proves
//! nothing and is tried again; what fails while it did not is a failure, at once. Something that is really wrong fails each
//! time, whatever the machine does.

use futures::FutureExt as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A stall of this length may be the reason of a failure.
const STALL: Duration = Duration::from_millis(30);
/// How often a scene is tried.
const TRIES: u32 = 5;
/// How often the watch looks at the time.
const TICK: Duration = Duration::from_millis(5);

/// Runs a scene, and again if it fails on a machine that stalled.
///
/// # Panics
/// As the scene does: when the machine did not stall, or with the last try.
pub async fn judged(scene: impl AsyncFn()) {
    for attempt in 1.. {
        let watch = Watch::begin();
        let Err(panic) = AssertUnwindSafe(scene()).catch_unwind().await else {
            return;
        };
        let stall = watch.longest();
        if stall < STALL || attempt == TRIES {
            resume_unwind(panic);
        }
        eprintln!(
            "the machine stood still for {stall:?}: the failure above proves nothing, and the scene is tried again"
        );
    }
}

/// Measures for how long the machine gives this process no time: on a thread of its own, and on the threads of the test.
struct Watch {
    worst_ms: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn begin() -> Watch {
        let watch = Watch {
            worst_ms: Arc::default(),
            over: Arc::default(),
        };
        let (worst, over) = (Arc::clone(&watch.worst_ms), Arc::clone(&watch.over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                std::thread::sleep(TICK);
                note(&worst, asleep);
            }
        });
        let (worst, over) = (Arc::clone(&watch.worst_ms), Arc::clone(&watch.over));
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                tokio::time::sleep(TICK).await;
                note(&worst, asleep);
            }
        });
        watch
    }

    fn longest(&self) -> Duration {
        Duration::from_millis(self.worst_ms.load(Ordering::Relaxed))
    }
}

fn note(worst_ms: &AtomicU64, asleep: Instant) {
    let late = asleep.elapsed().saturating_sub(TICK);
    worst_ms.fetch_max(late.as_millis() as u64, Ordering::Relaxed);
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[tokio::test]
    async fn a_failure_on_a_machine_that_stood_still_is_tried_again() {
        let tries = AtomicU32::new(0);
        judged(async || {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                tokio::time::sleep(2 * TICK).await;
                // The one thread of the test stands still.
                std::thread::sleep(10 * STALL);
                tokio::time::sleep(2 * TICK).await;
                panic!("too late");
            }
        })
        .await;
        assert_eq!(tries.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn what_is_wrong_fails_in_the_end_with_its_own_words() {
        let tries = AtomicU32::new(0);
        let wrong = AssertUnwindSafe(judged(async || {
            tries.fetch_add(1, Ordering::SeqCst);
            panic!("wrong");
        }));
        let panic = wrong.catch_unwind().await.expect_err("it fails");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"wrong"));
        // Once on a machine that runs freely; this one may not.
        assert!((1..=TRIES).contains(&tries.load(Ordering::SeqCst)));
    }
}
