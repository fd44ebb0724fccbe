//! Queries over all logical partitions: each physical range is asked by itself, and the client merges.
//!
//! The gateway refuses ORDER BY, TOP and aggregates over several partitions, so this is the only way to have them.
//! A *leg* is the part of such a walk that lies in one range: an interval of the hash space, the range that holds it
//! now, and how far the leg has come.
//!
//! A range may split (or merge) between two pages. The walk then replaces the leg by one for each range that overlaps
//! its interval. How the new legs start depends on what the continuation means:
//!
//! - Unordered ([`Container::scan`]): it is a position in the hash space, and is handed over as it is.
//! - Ordered ([`Container::sweep`], [`Container::scan_ordered`]): it may be a mere count, which means nothing in a
//!   child. The new legs start from the beginning, and what the old leg has delivered already is left out.
//!
//! Invariant: the intervals of the legs never overlap, and together cover all that is not delivered: nothing is
//! dropped and nothing comes twice.

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::container::Container;
use crate::observe::RequestKind;
use crate::query::{Page, Query, query_headers, read_page};
use crate::request::{Consistency, Request};
use crate::resource::Subject;
use crate::retry::{Backoff, Retry};
use crate::walk::{Leg, Manner, Rest, Walk};
use crate::{Error, headers};

/// How many ranges are asked at once.
const PARALLEL: usize = 32;

/// One round of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep<T, K> {
    /// The items of one page of every range, in the order of the key.
    pub items: Vec<T>,
    /// How far *all* ranges have come: nothing that this round or a former one has not given has a smaller key. `None` when
    /// there is nothing more.
    pub reached: Option<K>,
    /// Where the next round starts; `None` when there is nothing more.
    pub cursor: Option<SweepCursor>,
}

/// Where a sweep goes on.
#[derive(Clone, Debug)]
pub struct SweepCursor {
    walk: Walk,
}

/// What a walk gave.
struct Walked<T> {
    items: Vec<T>,
    /// The legs that rest.
    rest: Walk,
    /// Where in `items` the last one of each resting leg is.
    last: Vec<usize>,
}

enum Step {
    Page(Page<Box<RawValue>>),
    Gone(Error),
}

impl Container {
    /// One page of at most `page_size` items from *every* physical range, in parallel, merged in the order of `key`
    /// (the query's text must ORDER BY the same). `cursor` continues a former sweep.
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
        let manner = Manner {
            page_size: Some(page_size),
            ordered: true,
            rest: Rest::AfterPage,
        };
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
    /// and whether there are more. No range is left before it has given as many, so nothing that comes earlier is
    /// missing.
    pub async fn first<T, K, F>(&self, query: &Query, most: u32, key: F) -> Result<(Vec<T>, bool), Error>
    where
        T: DeserializeOwned,
        K: Ord,
        F: Fn(&T) -> K,
    {
        let walk = self.start().await?;
        let manner = Manner {
            page_size: Some(most),
            ordered: true,
            rest: Rest::WhenFull,
        };
        let Walked { mut items, rest, .. } = self.walk(query.body()?, walk, manner).await?;
        items.sort_by_cached_key(&key);
        let more = !rest.legs.is_empty() || items.len() as u64 > u64::from(most);
        items.truncate(most as usize);
        Ok((items, more))
    }

    /// All pages of all ranges, unordered. Of an aggregate this gives one value per range and page: the caller sums.
    pub async fn scan<T: DeserializeOwned>(&self, query: &Query) -> Result<Vec<T>, Error> {
        let walk = self.start().await?;
        let manner = Manner {
            page_size: None,
            ordered: false,
            rest: Rest::Never,
        };
        Ok(self.walk(query.body()?, walk, manner).await?.items)
    }

    /// All pages of all ranges in the order of `key` (the query's text should ORDER BY the same).
    pub async fn scan_ordered<T, K, F>(&self, query: &Query, key: F) -> Result<Vec<T>, Error>
    where
        T: DeserializeOwned,
        K: Ord,
        F: Fn(&T) -> K,
    {
        let walk = self.start().await?;
        let manner = Manner {
            page_size: None,
            ordered: true,
            rest: Rest::Never,
        };
        let Walked { mut items, .. } = self.walk(query.body()?, walk, manner).await?;
        items.sort_by_cached_key(&key);
        Ok(items)
    }

    async fn start(&self) -> Result<Walk, Error> {
        Ok(Walk::over(&self.ranges().await?))
    }

    /// Goes on until each leg has ended, or has given something if one page is asked for.
    async fn walk<T: DeserializeOwned>(&self, body: Bytes, mut walk: Walk, manner: Manner) -> Result<Walked<T>, Error> {
        let mut items = Vec::new();
        let (mut resting, mut last) = (Vec::new(), Vec::new());
        let mut settling = Settling::default();
        while !walk.legs.is_empty() {
            let mut gone = Vec::new();
            for (mut leg, step) in self.round(&body, std::mem::take(&mut walk.legs), manner).await? {
                let page = match step {
                    Step::Gone(error) => {
                        gone.push((leg, error));
                        continue;
                    }
                    Step::Page(page) => page,
                };
                settling = Settling::default();
                let fresh = walk.fresh(&mut leg, page.items, manner);
                let gave = fresh.len();
                for item in fresh {
                    items.push(decode(&item, &leg)?);
                }
                leg.continuation = page.continuation;
                match leg.continuation {
                    None => {}
                    Some(_) if leg.may_rest(gave, manner) => {
                        resting.push(leg);
                        last.extend(items.len().checked_sub(1));
                    }
                    Some(_) => walk.legs.push(leg),
                }
            }
            self.replace_gone(&mut walk, gone, manner, &mut settling).await?;
        }
        walk.legs = resting;
        let rest = walk;
        Ok(Walked { items, rest, last })
    }

    /// The next page of each leg.
    async fn round(&self, body: &Bytes, legs: Vec<Leg>, manner: Manner) -> Result<Vec<(Leg, Step)>, Error> {
        // Collected first: a lazy iterator of borrowing futures is too much for the compiler's proof of `Send`.
        let pages: Vec<_> = legs
            .into_iter()
            .map(|leg| self.leg_page(body.clone(), leg, manner))
            .collect();
        let results: Vec<_> = futures::stream::iter(pages).buffered(PARALLEL).collect().await;
        results.into_iter().collect()
    }

    async fn leg_page(&self, body: Bytes, leg: Leg, manner: Manner) -> Result<(Leg, Step), Error> {
        let mut map = query_headers(manner.page_size, leg.continuation.as_deref())?;
        headers::insert(&mut map, headers::RANGE_ID, &leg.range.id)?;
        headers::flag(&mut map, headers::CROSS_PARTITION, "True");
        if leg.min != leg.range.min || leg.max != leg.range.max {
            headers::flag(&mut map, headers::READ_KEY_TYPE, "EffectivePartitionKeyRange");
            headers::insert(&mut map, headers::START_EPK, &leg.min)?;
            headers::insert(&mut map, headers::END_EPK, &leg.max)?;
        }
        let request = Request {
            kind: RequestKind::RangeQuery,
            method: Method::POST,
            resource: self.name().documents(),
            headers: map,
            body: Some(body),
            retry: Retry::Idempotent,
            subject: Subject::Range {
                container: self.name(),
                range: &leg.range.id,
            },
            consistency: Consistency::Range(self.consistency(), &leg.range.id),
        };
        let step = match self.send(&request).await {
            Ok(answer) => Step::Page(read_page(&request, &answer)?),
            Err(error @ Error::RangeGone { .. }) => Step::Gone(error),
            Err(error) => return Err(error),
        };
        Ok((leg, step))
    }

    /// Finds where the legs that are gone go on.
    async fn replace_gone(
        &self,
        walk: &mut Walk,
        gone: Vec<(Leg, Error)>,
        manner: Manner,
        settling: &mut Settling,
    ) -> Result<(), Error> {
        if gone.is_empty() {
            return Ok(());
        }
        self.shared().drop_ranges();
        let ranges = self.fetch_ranges().await?;
        let mut moving = None;
        for (leg, error) in gone {
            if ranges.iter().any(|range| range.id == leg.range.id) {
                // Still listed: the split is under way, or the range is moving to another machine.
                tracing::debug!(range = leg.range.id, %error, "waiting for a range to settle");
                walk.legs.push(leg);
                moving = Some(error);
            } else {
                tracing::debug!(range = leg.range.id, "a range has gone; going on in its successors");
                walk.succeed(leg, &ranges, manner);
            }
        }
        match moving {
            Some(error) => settling.wait(self.deadline(), error).await,
            None => Ok(()),
        }
    }
}

/// Waiting for ranges to settle, bounded like one operation.
#[derive(Debug, Default)]
struct Settling {
    backoff: Backoff,
    until: Option<Instant>,
}

impl Settling {
    async fn wait(&mut self, deadline: Instant, error: Error) -> Result<(), Error> {
        let until = *self.until.get_or_insert(deadline);
        let wait = self.backoff.settle();
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
