//! Long polls: when they read, and the loop that does.
//!
//! A wait reads the instance a fixed number of times, however long it is, at growing intervals: often at the beginning, when short
//! workflows end, and rarely later. Each read is conditional on the ETag, so an instance that has not changed costs the least that
//! a read can.

use crate::api::{Api, Invocation};
use crate::refusal::Refusal;
use async_trait::async_trait;
use duroxide_cosmos::{InstanceSummary, SummaryChange};
use std::fmt::Debug;
use std::time::Duration;

/// The longest wait: API Gateway ends a request after 30 s.
pub const MAX_WAIT: Duration = Duration::from_secs(25);

/// When a wait reads again, in milliseconds after its beginning; the last read is at its end. With the read at the beginning
/// these are at most 8.
const READS_AT_MS: [u64; 6] = [300, 1_000, 2_500, 5_500, 10_500, 17_000];

/// How a long poll pauses. Tests replace it.
#[async_trait]
pub trait Timer: Debug + Send + Sync {
    /// Returns after this time.
    async fn pause(&self, time: Duration);
}

/// The runtime's own timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

#[async_trait]
impl Timer for TokioTimer {
    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// The pauses before each further read of a wait. Pure.
pub(crate) fn pauses(wait: Duration) -> Vec<Duration> {
    let wait = wait.min(MAX_WAIT);
    let mut reads: Vec<Duration> = READS_AT_MS.map(Duration::from_millis).into();
    reads.retain(|at| *at < wait);
    if !wait.is_zero() {
        reads.push(wait);
    }
    let mut before = Duration::ZERO;
    let pause = |at: &Duration| {
        let pause = *at - before;
        before = *at;
        pause
    };
    reads.iter().map(pause).collect()
}

/// How long a request may wait: as long as it asks, and as its host lets it.
pub(crate) fn allowed(asked: Option<u64>, invocation: &Invocation) -> Duration {
    let asked = Duration::from_secs(asked.unwrap_or_default());
    asked.min(MAX_WAIT).min(invocation.time_left())
}

/// What a read of an instance found.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Unchanged,
    Changed(Box<InstanceSummary>),
    Missing,
}

/// Reads an instance, unless it has this ETag.
pub(crate) async fn read(api: &Api, instance: &str, etag: Option<&str>) -> Result<Seen, Refusal> {
    // No document has the empty ETag.
    let seen = api
        .store()
        .instance_summary_if_changed(instance, etag.unwrap_or_default());
    Ok(match seen.await? {
        SummaryChange::Unchanged => Seen::Unchanged,
        SummaryChange::Changed(summary) => Seen::Changed(summary),
        SummaryChange::Missing => Seen::Missing,
    })
}

/// Waits until the instance is as `is_over` wants it, and returns what was seen last; `None` when it is missing. `first` is what
/// was read at the beginning.
pub(crate) async fn until(
    api: &Api,
    instance: &str,
    first: Option<Box<InstanceSummary>>,
    wait: Duration,
    is_over: impl Fn(&InstanceSummary) -> bool,
) -> Result<Option<Box<InstanceSummary>>, Refusal> {
    let mut last = first;
    for pause in pauses(wait) {
        if last.as_ref().is_some_and(|summary| is_over(summary)) {
            break;
        }
        api.parts.timer.pause(pause).await;
        let etag = last.as_ref().map(|summary| summary.etag.as_str());
        match read(api, instance, etag).await? {
            Seen::Unchanged => {}
            Seen::Changed(summary) => last = Some(summary),
            Seen::Missing => return Ok(None),
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(wait_ms: u64) -> Vec<u64> {
        let pauses = pauses(Duration::from_millis(wait_ms));
        pauses.iter().map(|pause| pause.as_millis() as u64).collect()
    }

    #[test]
    fn a_wait_reads_at_growing_intervals_and_at_its_end() {
        for (wait, expected) in [
            (0, &[] as &[u64]),
            (200, &[200]),
            (300, &[300]),
            (1_000, &[300, 700]),
            (5_000, &[300, 700, 1_500, 2_500]),
            (25_000, &[300, 700, 1_500, 3_000, 5_000, 6_500, 8_000]),
            (60_000, &[300, 700, 1_500, 3_000, 5_000, 6_500, 8_000]),
        ] {
            assert_eq!(ms(wait), expected, "{wait}");
        }
    }

    #[test]
    fn the_longest_wait_is_eight_reads_with_the_first() {
        for wait in 0..=30 {
            let pauses = pauses(Duration::from_secs(wait));
            assert!(pauses.len() < 8, "{wait}");
            assert_eq!(pauses.iter().sum::<Duration>(), Duration::from_secs(wait.min(25)));
        }
        assert!(ms(25_000).is_sorted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_before_its_host_does() {
        let within = |seconds: u64| Invocation {
            caller: None,
            deadline: Some(tokio::time::Instant::now() + Duration::from_secs(seconds)),
        };
        assert_eq!(allowed(Some(25), &within(10)), Duration::from_secs(8));
        assert_eq!(allowed(Some(25), &within(1)), Duration::ZERO);
        assert_eq!(allowed(Some(5), &within(30)), Duration::from_secs(5));
        assert_eq!(allowed(Some(99), &Invocation::default()), Duration::from_secs(25));
        assert_eq!(allowed(None, &within(30)), Duration::ZERO);
    }
}
