//! Settling the items of a page: some side by side, each with a part of the page's time.
//!
//! Invariant: no item hides another. One that takes longer than its part is left, as are those of its partition, and what
//! is behind it has its turn; a page that goes on with the same page passes by what failed before. Items of one
//! partition are taken one after the other: they are often parts of one whole.

use super::Cursor;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use tokio::time::{Instant, timeout_at};

/// How many partitions are settled side by side.
const SIDE_BY_SIDE: usize = 4;
/// Into how many parts a page is divided, of which one item gets one.
const PARTS: u32 = 2;

/// What became of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate<T> {
    /// It came to an end, good or bad.
    Settled(T),
    /// It took longer than its part of the time, or is in the partition of one that did.
    Slow,
    /// The page ended before it.
    Cut,
}

/// The items, each with what became of it.
pub(super) type Fates<'a, I, T> = Vec<(&'a I, Fate<T>)>;

/// The time of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    deadline: Instant,
    patience: std::time::Duration,
}

impl Time {
    /// From now until then.
    pub(super) fn until(deadline: Instant) -> Time {
        Time {
            deadline,
            patience: deadline.saturating_duration_since(Instant::now()) / PARTS,
        }
    }

    /// Until when an item that begins now may take.
    fn limit(self) -> Instant {
        self.deadline.min(Instant::now() + self.patience)
    }
}

/// Settles items. `pk` tells the partition of each; `work` settles one, until the time that it is told.
pub(super) async fn settle<'a, I: Sync, T: Send>(
    items: Vec<&'a I>,
    time: Time,
    pk: impl Fn(&I) -> &str,
    work: impl Fn(&'a I, Instant) -> BoxFuture<'a, T> + Sync,
) -> Fates<'a, I, T> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<&I>> = Vec::new();
    for item in items {
        let place = *places.entry(pk(item).to_owned()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    let work = &work;
    let groups: Vec<BoxFuture<'_, Fates<'_, I, T>>> = groups
        .into_iter()
        .map(|group| -> BoxFuture<'_, _> { Box::pin(one_by_one(group, time, work)) })
        .collect();
    let settled: Vec<Fates<'_, I, T>> = futures::stream::iter(groups)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await;
    settled.into_iter().flatten().collect()
}

async fn one_by_one<'a, I: Sync, T: Send>(
    group: Vec<&'a I>,
    time: Time,
    work: &(impl Fn(&'a I, Instant) -> BoxFuture<'a, T> + Sync),
) -> Fates<'a, I, T> {
    let (mut fates, mut is_slow) = (Vec::with_capacity(group.len()), false);
    for item in group {
        let limit = time.limit();
        let fate = if is_slow {
            Fate::Slow
        } else if Instant::now() >= time.deadline {
            Fate::Cut
        } else {
            match timeout_at(limit, work(item, limit)).await {
                Ok(settled) => Fate::Settled(settled),
                Err(_) if limit < time.deadline => Fate::Slow,
                Err(_) => Fate::Cut,
            }
        };
        is_slow |= matches!(fate, Fate::Slow);
        fates.push((item, fate));
    }
    fates
}

impl Cursor {
    /// Whether a former page of the same page failed with this item.
    pub(super) fn passes_by(&self, key: &str) -> bool {
        self.failed.contains(key)
    }

    /// The same page again, without what failed.
    pub(super) fn without(mut self, failed: impl IntoIterator<Item = String>) -> Self {
        self.failed.extend(failed);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3_600);

    async fn settled(items: &[(&'static str, u64)]) -> Vec<(&'static str, u64, Fate<u64>)> {
        let time = Time::until(Instant::now() + HOUR);
        let fates = settle(
            items.iter().collect(),
            time,
            |item| item.0,
            |(_, minutes), _| {
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
                    *minutes
                })
            },
        )
        .await;
        let mut fates: Vec<_> = fates.into_iter().map(|(item, fate)| (item.0, item.1, fate)).collect();
        fates.sort_by_key(|(pk, minutes, _)| (*pk, *minutes));
        fates
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_slow_hides_only_its_own_partition() {
        let fates = settled(&[("a", 50), ("a", 51), ("b", 1), ("c", 2), ("d", 3), ("e", 4)]).await;
        let done = |pk, minutes| (pk, minutes, Fate::Settled(minutes));
        assert_eq!(
            fates,
            [
                ("a", 50, Fate::Slow),
                ("a", 51, Fate::Slow),
                done("b", 1),
                done("c", 2),
                done("d", 3),
                done("e", 4),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_are_slow_the_time_ends_and_those_behind_have_theirs_in_the_next_page() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let begun = Instant::now();
        let fates = settled(&names.map(|name| (name, 50))).await;
        assert_eq!(begun.elapsed(), HOUR);
        let slow = fates.iter().filter(|(_, _, fate)| *fate == Fate::Slow).count();
        assert_eq!(slow, SIDE_BY_SIDE, "{fates:?}");
        assert!(
            fates[SIDE_BY_SIDE..].iter().all(|(_, _, fate)| *fate == Fate::Cut),
            "{fates:?}"
        );
    }
}
