//! How many instances were started and have ended, hour by hour, for operators.
//!
//! The service counts by an index, and a count of nothing is nearly free. So a span of hours is counted as a whole, and divided while it
//! has something in it: the second half is the difference. Each kind of count (started, ended, failed) takes at most as many queries
//! as there are hours, and one if there is nothing. Whoever asks again should remember the hours that are over.

use crate::error::Failure;
use crate::model::Status;
use crate::model::sql::{ENDED, INSTANCE};
use crate::store::Store;
use cosmos::Query;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::ops::Range;

/// The length of an hour.
const HOUR_MS: u64 = 3_600_000;
/// How many queries of one kind run side by side. Each is a request to every physical range.
const SIDE_BY_SIDE: usize = 4;

/// What happened in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HourCounts {
    /// When it began (Unix ms).
    pub from_ms: u64,
    /// Instances whose start was accepted.
    pub started: u64,
    /// Instances that have ended.
    pub ended: u64,
    /// Those of them that have failed, without those that were cancelled.
    pub failed: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Started,
    Ended,
    Failed,
}

impl Counted {
    /// The time that counts, and what else must be true.
    fn condition(self) -> (&'static str, String) {
        match self {
            // A document that only fences is no instance.
            Counted::Started => (
                "createdAt",
                "(IS_DEFINED(c.name) OR IS_DEFINED(c.startName))".to_owned(),
            ),
            Counted::Ended => ("completedAt", format!("c.status IN ({ENDED})")),
            Counted::Failed => (
                "completedAt",
                format!("c.status = '{}' AND NOT IS_DEFINED(c.cancelled)", Status::Failed),
            ),
        }
    }
}

/// Some hours, and how many were counted in them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    /// Hours since 1970.
    hours: Range<u64>,
    count: u64,
}

impl Span {
    /// The first half.
    fn first(&self) -> Range<u64> {
        let middle = self.hours.start + (self.hours.end - self.hours.start) / 2;
        self.hours.start..middle
    }

    /// Both halves, when the first has so many. Something may have been written between the two counts.
    fn divided(&self, first: u64) -> [Span; 2] {
        let hours = self.first();
        let rest = hours.end..self.hours.end;
        [
            Span { hours, count: first },
            Span {
                hours: rest,
                count: self.count.saturating_sub(first),
            },
        ]
    }
}

/// The counts of these hours (since 1970), in their order.
pub(crate) async fn throughput(store: &Store, hours: Range<u64>) -> Result<Vec<HourCounts>, Failure> {
    let (started, (ended, failed)) = futures::try_join!(by_hour(store, Counted::Started, hours.clone()), async {
        let ended = by_hour(store, Counted::Ended, hours.clone()).await?;
        let failed = match ended.iter().any(|count| *count > 0) {
            true => by_hour(store, Counted::Failed, hours.clone()).await?,
            false => ended.clone(),
        };
        Ok((ended, failed))
    })?;
    let counts = hours.zip(started.into_iter().zip(ended.into_iter().zip(failed)));
    let counts = counts.map(|(hour, (started, (ended, failed)))| HourCounts {
        from_ms: hour * HOUR_MS,
        started,
        ended,
        failed,
    });
    Ok(counts.collect())
}

async fn by_hour(store: &Store, counted: Counted, hours: Range<u64>) -> Result<Vec<u64>, Failure> {
    let mut counts = vec![0; usize::try_from(hours.end.saturating_sub(hours.start)).unwrap_or(0)];
    if counts.is_empty() {
        return Ok(counts);
    }
    let first = hours.start;
    let count = count(store, counted, hours.clone()).await?;
    let mut spans = vec![Span { hours, count }];
    while !spans.is_empty() {
        let mut wide = Vec::new();
        for span in spans.drain(..).filter(|span| span.count > 0) {
            match span.hours.end - span.hours.start {
                1 => counts[usize::try_from(span.hours.start - first).unwrap_or(0)] = span.count,
                _ => wide.push(span),
            }
        }
        let firsts: Vec<_> = wide
            .iter()
            .map(|span| self::count(store, counted, span.first()))
            .collect();
        let firsts: Vec<u64> = stream::iter(firsts).buffered(SIDE_BY_SIDE).try_collect().await?;
        let halves = wide.iter().zip(firsts).flat_map(|(span, first)| span.divided(first));
        spans.extend(halves);
    }
    Ok(counts)
}

async fn count(store: &Store, counted: Counted, hours: Range<u64>) -> Result<u64, Failure> {
    let (time, condition) = counted.condition();
    let query = Query::new(format!(
        "SELECT VALUE COUNT(1) FROM c WHERE c.type = {INSTANCE} AND c.{time} >= @from AND c.{time} < @until AND {condition}"
    ))
    .param("@from", hours.start * HOUR_MS)
    .param("@until", hours.end * HOUR_MS);
    Ok(store.sum(query).await? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_divided_into_halves_that_add_up() {
        let span = Span {
            hours: 10..15,
            count: 7,
        };
        let [first, rest] = span.divided(3);
        assert_eq!((first.hours, first.count), (10..12, 3));
        assert_eq!((rest.hours, rest.count), (12..15, 4));
        let [_, rest] = span.divided(9);
        assert_eq!(rest.count, 0, "more were written meanwhile");
    }
}
