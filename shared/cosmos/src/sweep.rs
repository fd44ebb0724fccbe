//! Queries over all logical partitions: one query per physical range, merged by the client.
//!
//! The gateway refuses ORDER BY, TOP and aggregates over several partitions, so this is the only way to have them.
//! A *leg* is the part of such a walk in one range: an interval of the hash space, the range that has it now, and the
//! continuation.
//!
//! A range may split (or merge) between two pages. The walk then replaces the leg by one for each range that overlaps
//! its interval. How the new legs start depends on what the continuation means:
//!
//! - Unordered ([`Container::scan`]): it is a position in the hash space, valid in each new leg.
//! - Ordered ([`Container::sweep`], [`Container::first`]): it may be a mere count, which means nothing in another
//!   range. The new legs start from the beginning, and skip what the old leg has returned.
//!
//! Invariant: the intervals of the legs never overlap, and together cover everything not yet returned. No item is
//! missed and none is returned twice.

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::container::Container;
use crate::error::Error;
use crate::headers;
use crate::observe::RequestKind;
use crate::query::{Page, Query, query_headers, read_page};
use crate::request::{Consistency, Request};
use crate::resource::Subject;
use crate::retry::Backoff;
use crate::walk::{Leg, Manner, Walk};

/// How many ranges are queried at a time.
const PARALLEL: usize = 32;

/// One step of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep<T, K> {
    /// The items of one page of every range, in the order of the key.
    pub items: Vec<T>,
    /// The key that *all* ranges have reached: every item with a smaller key was returned by this step or an earlier
    /// one. `None` after the last step.
    pub reached: Option<K>,
    /// Where the next step starts; `None` after the last step.
    pub cursor: Option<SweepCursor>,
}

/// Where a sweep continues.
#[derive(Clone, Debug)]
pub struct SweepCursor {
    walk: Walk,
}

/// What a walk returned.
struct Walked<T> {
    items: Vec<T>,
    /// The legs that have more.
    rest: Walk,
    /// The index in `items` of the last item of each of them.
    last: Vec<usize>,
}

enum Step {
    Page(Page<Box<RawValue>>),
    Gone(Error),
}

impl Container {
    /// One page of at most `page_size` items from *every* physical range, in parallel, merged in the order of `key`
    /// (the query's text must ORDER BY the same). `cursor` continues an earlier step.
    pub async fn sweep<T, K, F>(
        &self,
        query: &Query,
        page_size: u32,
        cursor: Option<SweepCursor>,
        key: F,
    ) -> Result<Sweep<T, K>, Error>
    where
        T: DeserializeOwned,
        K: Ord,
        F: Fn(&T) -> K,
    {
        let walk = match cursor {
            Some(cursor) => cursor.walk,
            None => self.start().await?,
        };
        let manner = Manner::Page(page_size);
        let Walked { mut items, rest, last } = self.walk(query.body()?, walk, manner).await?;
        let reached = last.into_iter().map(|index| key(&items[index])).min();
        items.sort_by_cached_key(&key);
        Ok(Sweep {
            items,
            reached,
            cursor: (!rest.legs.is_empty()).then_some(SweepCursor { walk: rest }),
        })
    }

    /// The first `most` items of all ranges together, in the order of `key` (the query's text must ORDER BY the same),
    /// and whether there are more. Each range is read until it has returned `most` items or ended.
    pub async fn first<T, K, F>(&self, query: &Query, most: u32, key: F) -> Result<(Vec<T>, bool), Error>
    where
        T: DeserializeOwned,
        K: Ord,
        F: Fn(&T) -> K,
    {
        let walk = self.start().await?;
        let Walked { mut items, rest, .. } = self.walk(query.body()?, walk, Manner::First(most)).await?;
        items.sort_by_cached_key(&key);
        let more = !rest.legs.is_empty() || items.len() as u64 > u64::from(most);
        items.truncate(most as usize);
        Ok((items, more))
    }

    /// All pages of all ranges, unordered. An aggregate has one value per range and page: the caller adds them up.
    pub async fn scan<T: DeserializeOwned>(&self, query: &Query) -> Result<Vec<T>, Error> {
        let walk = self.start().await?;
        Ok(self.walk(query.body()?, walk, Manner::All).await?.items)
    }

    async fn start(&self) -> Result<Walk, Error> {
        Ok(Walk::over(&self.ranges().await?))
    }

    /// Reads pages until each leg has ended or may rest (see [`Manner`]).
    async fn walk<T: DeserializeOwned>(&self, body: Bytes, mut walk: Walk, manner: Manner) -> Result<Walked<T>, Error> {
        let mut items = Vec::new();
        let (mut resting, mut last) = (Vec::new(), Vec::new());
        let mut moving = Moving::default();
        while !walk.legs.is_empty() {
            let mut gone = Vec::new();
            for (mut leg, step) in self.next_pages(&body, std::mem::take(&mut walk.legs), manner).await? {
                let page = match step {
                    Step::Gone(error) => {
                        gone.push((leg, error));
                        continue;
                    }
                    Step::Page(page) => page,
                };
                moving = Moving::default();
                let fresh = walk.fresh(&mut leg, page.items, manner);
                let count = fresh.len();
                for item in fresh {
                    items.push(decode(&item, &leg)?);
                }
                leg.continuation = page.continuation;
                match leg.continuation {
                    None => {}
                    Some(_) if leg.may_rest(count, manner) => {
                        resting.push(leg);
                        last.extend(items.len().checked_sub(1));
                    }
                    Some(_) => walk.legs.push(leg),
                }
            }
            self.replace_gone(&mut walk, gone, manner, &mut moving).await?;
        }
        walk.legs = resting;
        let rest = walk;
        Ok(Walked { items, rest, last })
    }

    /// The next page of each leg.
    async fn next_pages(&self, body: &Bytes, legs: Vec<Leg>, manner: Manner) -> Result<Vec<(Leg, Step)>, Error> {
        // Collected first: the compiler cannot prove `Send` for a lazy iterator of borrowing futures.
        let pages: Vec<_> = legs
            .into_iter()
            .map(|leg| self.leg_page(body.clone(), leg, manner))
            .collect();
        let results: Vec<_> = futures::stream::iter(pages).buffered(PARALLEL).collect().await;
        results.into_iter().collect()
    }

    async fn leg_page(&self, body: Bytes, leg: Leg, manner: Manner) -> Result<(Leg, Step), Error> {
        let mut map = query_headers(manner.page_size(), leg.continuation.as_deref())?;
        headers::insert(&mut map, headers::RANGE_ID, &leg.range.id)?;
        headers::flag(&mut map, headers::CROSS_PARTITION, "True");
        if leg.min != leg.range.min || leg.max != leg.range.max {
            headers::flag(&mut map, headers::READ_KEY_TYPE, "EffectivePartitionKeyRange");
            headers::insert(&mut map, headers::START_EPK, &leg.min)?;
            headers::insert(&mut map, headers::END_EPK, &leg.max)?;
        }
        let subject = Subject::Range {
            container: self.name(),
            range: &leg.range.id,
        };
        let request = Request {
            headers: map,
            body: Some(body),
            consistency: Consistency::Range(self.consistency(), &leg.range.id),
            ..Request::new(RequestKind::RangeQuery, Method::POST, self.name().documents(), subject)
        };
        let step = match self.send(&request).await {
            Ok(answer) => Step::Page(read_page(&request, &answer)?),
            Err(error @ Error::RangeGone { .. }) => Step::Gone(error),
            Err(error) => return Err(error),
        };
        Ok((leg, step))
    }

    /// Continues the legs whose ranges are gone in the ranges that have their intervals now.
    async fn replace_gone(
        &self,
        walk: &mut Walk,
        gone: Vec<(Leg, Error)>,
        manner: Manner,
        moving: &mut Moving,
    ) -> Result<(), Error> {
        if gone.is_empty() {
            return Ok(());
        }
        self.range_cache().clear();
        let ranges = self.fetch_ranges().await?;
        let mut still_listed = None;
        for (leg, error) in gone {
            if ranges.iter().any(|range| range.id == leg.range.id) {
                // Still listed: the split is in progress, or the range is moving to another machine.
                tracing::debug!(range = leg.range.id, %error, "waiting for a range that moves");
                walk.legs.push(leg);
                still_listed = Some(error);
            } else {
                tracing::debug!(range = leg.range.id, "a range is gone; continuing in its successors");
                walk.succeed(leg, &ranges, manner);
            }
        }
        match still_listed {
            Some(error) => moving.wait(self.deadline(), error).await,
            None => Ok(()),
        }
    }
}

/// Waiting for ranges that move, for at most the time of one operation.
#[derive(Debug, Default)]
struct Moving {
    backoff: Backoff,
    until: Option<Instant>,
}

impl Moving {
    async fn wait(&mut self, deadline: Instant, error: Error) -> Result<(), Error> {
        let until = *self.until.get_or_insert(deadline);
        let wait = self.backoff.range_moving();
        if Instant::now() + wait >= until {
            return Err(error);
        }
        sleep(wait).await;
        Ok(())
    }
}

fn decode<T: DeserializeOwned>(item: &RawValue, leg: &Leg) -> Result<T, Error> {
    serde_json::from_str(item.get()).map_err(|source| Error::Decode {
        what: format!("an item from physical range {}", leg.range.id),
        source,
    })
}
