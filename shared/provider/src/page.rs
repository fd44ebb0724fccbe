//! Pages: a pass works on one page of every physical range at a time, oldest first, and can stop after any of them.
//!
//! Invariant: no item hides another. An item gets a part of the page's time. One that takes longer is left, with the
//! other items of its partition, and those behind it follow; the next call for the same page skips what failed. Items of
//! one partition are taken one after the other, because they are often parts of one commit.

use crate::due::Due;
use crate::error::Failure;
use crate::store::Store;
use cosmos::{Query, SweepCursor};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How many partitions are worked on side by side.
const SIDE_BY_SIDE: usize = 4;
/// Into how many parts a page's time is divided; one item gets one part.
const PARTS: u32 = 2;

/// How much of a pass to do.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// At most so many items of each physical range.
    pub most: u32,
    /// Where the page before ended; `None` begins at the oldest.
    pub cursor: Option<Cursor>,
    /// When to stop, at the latest.
    pub deadline: Instant,
}

/// Where a pass continues. It is valid for minutes, not for days: a later pass begins again.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// The time that "due" refers to: an item that a pass defers does not come again in the same pass.
    pub(crate) now_ms: u64,
    /// Which search, for a pass that has several.
    pub(crate) search: u8,
    pub(crate) sweep: Option<SweepCursor>,
    /// What failed before on this page.
    failed: BTreeSet<String>,
}

/// What one page of a pass did.
#[derive(Clone, Debug, Default)]
pub struct PassOutcome {
    /// Items that were examined. The next page examines an item again that the deadline cut short.
    pub found: u64,
    /// Items that are done.
    pub done: u64,
    /// Items of which a part is done, because the time ended. The next run continues with them.
    pub partial: u64,
    /// Items that failed and stay due.
    pub failed: u64,
    /// Items that were given up, and became dead letters.
    pub dead: u64,
    /// Who has something to do now: wake them.
    pub due: Vec<Due>,
    /// Where to continue; `None` when nothing is left for now.
    pub cursor: Option<Cursor>,
}

/// What a page is made of.
pub(crate) trait Item: Clone + Send + Sync {
    /// What the query orders by.
    type Order: Ord + Send;

    fn order(&self) -> Self::Order;

    fn pk(&self) -> &str;

    /// Identifies the item within its page.
    fn key(&self) -> String {
        self.pk().to_owned()
    }
}

/// Finds one page of items and works on each. What fails is logged, counted, and stays due.
pub(crate) async fn run<'s, I: Item + DeserializeOwned>(
    store: &'s Store,
    query: &Query,
    request: PageRequest,
    work: impl Fn(I, Instant) -> BoxFuture<'s, Result<PassOutcome, Failure>> + Sync,
) -> Result<PassOutcome, Failure> {
    let place = request.place(store);
    if Instant::now() >= request.deadline {
        return Ok(PassOutcome::untouched(place));
    }
    let time = Time::until(request.deadline);
    let page = store
        .container
        .within(request.deadline)
        .sweep::<I, _, _>(query, request.most, place.sweep.clone(), I::order)
        .await?;
    let items = page
        .items
        .into_iter()
        .filter(|item| !place.failed.contains(&item.key()));
    let (mut pass, mut failed, mut is_cut) = (PassOutcome::default(), Vec::new(), false);
    for (item, outcome) in each(items.collect(), time, work).await {
        match outcome {
            Outcome::Ended(Ok(one)) => pass.add(one),
            Outcome::Ended(Err(failure)) => {
                tracing::warn!(instance = item.pk(), key = item.key(), %failure, "an item of a pass failed; it stays due");
                failed.push(item.key());
            }
            Outcome::Slow => {
                tracing::warn!(
                    instance = item.pk(),
                    key = item.key(),
                    "an item of a pass took too long; it stays due"
                );
                failed.push(item.key());
            }
            Outcome::Cut => {
                is_cut = true;
                continue;
            }
        }
        pass.found += 1;
    }
    pass.failed += failed.len() as u64;
    pass.cursor = if is_cut {
        Some(place.without(failed))
    } else {
        place.after(page.cursor)
    };
    Ok(pass)
}

/// How the work on an item ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome<T> {
    Ended(T),
    /// It took longer than its part of the time, or is in the partition of one that did.
    Slow,
    /// The page ended before it.
    Cut,
}

/// The items, each with how it ended.
type Outcomes<I, T> = Vec<(I, Outcome<T>)>;

/// The time of a page.
#[derive(Clone, Copy, Debug)]
struct Time {
    deadline: Instant,
    part: Duration,
}

impl Time {
    fn until(deadline: Instant) -> Time {
        Time {
            deadline,
            part: deadline.saturating_duration_since(Instant::now()) / PARTS,
        }
    }

    /// The limit of an item that begins now.
    fn limit(self) -> Instant {
        self.deadline.min(Instant::now() + self.part)
    }
}

/// Works on items, some partitions side by side.
async fn each<'s, I: Item, T: Send>(
    items: Vec<I>,
    time: Time,
    work: impl Fn(I, Instant) -> BoxFuture<'s, T> + Sync,
) -> Outcomes<I, T> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<I>> = Vec::new();
    for item in items {
        let place = *places.entry(item.pk().to_owned()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    let work = &work;
    // Boxed and collected first: a lazy iterator of borrowing futures is too much for the compiler's proof of `Send`.
    let groups: Vec<BoxFuture<'_, Outcomes<I, T>>> = groups
        .into_iter()
        .map(|group| -> BoxFuture<'_, _> { Box::pin(one_by_one(group, time, work)) })
        .collect();
    let outcomes = futures::stream::iter(groups).buffer_unordered(SIDE_BY_SIDE);
    outcomes.collect::<Vec<_>>().await.into_iter().flatten().collect()
}

async fn one_by_one<'s, I: Item, T: Send>(
    group: Vec<I>,
    time: Time,
    work: &(impl Fn(I, Instant) -> BoxFuture<'s, T> + Sync),
) -> Outcomes<I, T> {
    let (mut outcomes, mut is_slow) = (Vec::with_capacity(group.len()), false);
    for item in group {
        let limit = time.limit();
        let outcome = if is_slow {
            Outcome::Slow
        } else if Instant::now() >= time.deadline {
            Outcome::Cut
        } else {
            match timeout_at(limit, work(item.clone(), limit)).await {
                Ok(ended) => Outcome::Ended(ended),
                Err(_) if limit < time.deadline => Outcome::Slow,
                Err(_) => Outcome::Cut,
            }
        };
        is_slow |= matches!(outcome, Outcome::Slow);
        outcomes.push((item, outcome));
    }
    outcomes
}

impl PageRequest {
    /// Where this page begins.
    pub(crate) fn place(&self, store: &Store) -> Cursor {
        self.cursor.clone().unwrap_or_else(|| Cursor::begin(store.now()))
    }

    /// The same request for another place.
    pub(crate) fn at(self, place: Cursor) -> Self {
        PageRequest {
            cursor: Some(place),
            ..self
        }
    }
}

impl Cursor {
    fn begin(now_ms: u64) -> Self {
        Cursor {
            now_ms,
            search: 0,
            sweep: None,
            failed: BTreeSet::new(),
        }
    }

    pub(crate) fn after(&self, sweep: Option<SweepCursor>) -> Option<Self> {
        sweep.map(|sweep| Cursor {
            sweep: Some(sweep),
            ..self.next_search(self.search)
        })
    }

    /// The beginning of another search of the same pass.
    pub(crate) fn next_search(&self, search: u8) -> Self {
        Cursor {
            search,
            ..Cursor::begin(self.now_ms)
        }
    }

    /// The same page again, without what failed.
    fn without(mut self, failed: impl IntoIterator<Item = String>) -> Self {
        self.failed.extend(failed);
        self
    }
}

impl PassOutcome {
    /// Nothing was done, because there was no time.
    pub(crate) fn untouched(place: Cursor) -> Self {
        PassOutcome {
            cursor: Some(place),
            ..PassOutcome::default()
        }
    }

    /// Adds what was done to some items.
    pub(crate) fn add(&mut self, some: PassOutcome) {
        self.found += some.found;
        self.done += some.done;
        self.partial += some.partial;
        self.failed += some.failed;
        self.dead += some.dead;
        self.due.extend(some.due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    type Minutes = (&'static str, u64);

    impl Item for Minutes {
        type Order = u64;

        fn order(&self) -> u64 {
            self.1
        }

        fn pk(&self) -> &str {
            self.0
        }
    }

    async fn outcomes(items: &[Minutes]) -> Vec<(Minutes, Outcome<u64>)> {
        let time = Time::until(Instant::now() + HOUR);
        let mut outcomes = each(items.to_vec(), time, |(_, minutes), _| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
                minutes
            })
        })
        .await;
        outcomes.sort_by_key(|(item, _)| *item);
        outcomes
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_item_hides_only_its_own_partition() {
        let outcomes = outcomes(&[("a", 50), ("a", 51), ("b", 1), ("c", 2), ("d", 3), ("e", 4)]).await;
        let done = |pk, minutes| ((pk, minutes), Outcome::Ended(minutes));
        assert_eq!(
            outcomes,
            [
                (("a", 50), Outcome::Slow),
                (("a", 51), Outcome::Slow),
                done("b", 1),
                done("c", 2),
                done("d", 3),
                done("e", 4),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_are_slow_the_page_ends_in_time_and_the_next_one_takes_those_behind() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let begun = Instant::now();
        let outcomes = outcomes(&names.map(|name| (name, 50))).await;
        assert_eq!(begun.elapsed(), HOUR);
        let slow = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Slow).count();
        assert_eq!(slow, SIDE_BY_SIDE, "{outcomes:?}");
        let behind = &outcomes[SIDE_BY_SIDE..];
        assert!(
            behind.iter().all(|(_, outcome)| *outcome == Outcome::Cut),
            "{outcomes:?}"
        );
    }
}
