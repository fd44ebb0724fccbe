//! Pages of a query: 100 items by default, at most 1,000 items and 4 MB.
//!
//! The emulator continues a plain query after the last document that it has returned. It continues a query with `ORDER BY`, `JOIN`
//! or `TOP` by counting, so that a document deleted between two pages would make the next page skip another one. The results of
//! such a query are therefore kept if they fill more than one page, and its later pages are cut from them: every result comes
//! once, as it was when the query began.
//!
//! The emulator copies a whole physical partition for every query, so an ordered query is executed once for all its pages. Of a query
//! that the index answers, the candidates are kept instead, and evaluated page by page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::emulator::{Emulator, Region};
use crate::http::{CONTINUATION, Call, ITEM_COUNT, MAX_ITEM_COUNT, RANGE_ID, Reply};
use crate::index::Found;

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1_000;
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Room for the JSON around the documents of a page.
const ENVELOPE_BYTES: usize = 1024;
/// How many queries can be unfinished at the same time.
const KEPT_QUERIES: usize = 256;
/// The total size of their results. Beyond it the oldest are dropped: their clients get 400 and start again.
const KEPT_BYTES: usize = 256 * 1024 * 1024;

/// The queries with further pages.
#[derive(Default)]
pub(crate) struct Pages {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    next: u64,
    results: VecDeque<(u64, Arc<First>)>,
    /// The size of all results.
    bytes: usize,
}

/// A query with further pages, and the headers of its reply.
struct First {
    results: Results,
    headers: HeaderMap,
    bytes: usize,
}

/// Where pages are cut from.
enum Results {
    /// All results.
    Feed(Feed),
    /// What the index has found.
    Found(Box<Found>),
}

#[derive(Deserialize, Serialize)]
struct Feed {
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(rename = "Documents")]
    documents: Vec<Box<RawValue>>,
    #[serde(rename = "_count")]
    count: usize,
}

/// Where a later page begins.
struct Position {
    query: u64,
    offset: usize,
}

impl Pages {
    /// The next page of a query or a listing.
    pub(crate) async fn page(&self, emulator: &Emulator, region: Region, call: &Call) -> Reply {
        let count = page_size(call);
        if let Some(position) = call.header(CONTINUATION).and_then(Position::parse) {
            return self.later_page(emulator, region, call, position, count).await;
        }
        if call.is_query() && is_ordered(&call.body) {
            return self.first_page(emulator, region, call, count).await;
        }
        let reply = first_fitting(emulator, region, call, count).await;
        let continues_by_counting = reply
            .headers
            .get(CONTINUATION)
            .is_some_and(|token| token.as_bytes().iter().all(u8::is_ascii_digit));
        if !call.is_query() || !continues_by_counting {
            return reply;
        }
        self.first_page(emulator, region, call, count).await
    }

    /// Executes a query completely, and keeps its results if they do not fit one page.
    async fn first_page(&self, emulator: &Emulator, region: Region, call: &Call, count: usize) -> Reply {
        match emulator.find(region, call).await {
            Some(Ok(found)) if found.is_ordered() => return self.first_found(found, count),
            Some(Err(reply)) => return reply,
            _ => {}
        }
        let mut whole = call.clone();
        whole.headers.remove(MAX_ITEM_COUNT);
        let mut reply = emulator.execute(region, &whole).await;
        let Ok(feed) = serde_json::from_slice::<Feed>(&reply.body) else {
            return reply;
        };
        if feed.documents.len() > count || reply.body.len() > MAX_PAGE_BYTES {
            let headers = reply.headers.clone();
            let bytes = reply.body.len();
            let results = Results::Feed(feed);
            let first = Arc::new(First {
                results,
                headers,
                bytes,
            });
            let query = self.keep(Arc::clone(&first));
            cut(&mut reply, &first.results, &Position { query, offset: 0 }, count);
        }
        reply
    }

    /// The first page of what the index has found, which is kept if there are more.
    fn first_found(&self, found: Found, count: usize) -> Reply {
        let mut reply = found.reply().clone();
        let page = Page::of_found(&found, 0, count);
        let next = page.next.map(|offset| {
            let (headers, bytes) = (reply.headers.clone(), found.bytes());
            let results = Results::Found(Box::new(found));
            let query = self.keep(Arc::new(First {
                results,
                headers,
                bytes,
            }));
            Position { query, offset }
        });
        page.write(&mut reply, next);
        reply
    }

    async fn later_page(
        &self,
        emulator: &Emulator,
        region: Region,
        call: &Call,
        position: Position,
        count: usize,
    ) -> Reply {
        let Some(first) = self.find(position.query) else {
            return Reply::error(StatusCode::BAD_REQUEST, None, "The continuation token is too old.");
        };
        let mut reply = Reply {
            status: StatusCode::OK,
            headers: first.headers.clone(),
            body: Bytes::new(),
        };
        if region != Region::Write || !is_in_a_range(emulator, call).await {
            // The query may not be possible any more: its range may have been split, its replica may be behind.
            let mut probe = call.clone();
            probe.headers.remove(CONTINUATION);
            probe.set_header(MAX_ITEM_COUNT, HeaderValue::from(1));
            reply = emulator.execute(region, &probe).await;
            if !reply.is_success() {
                return reply;
            }
        }
        cut(&mut reply, &first.results, &position, count);
        reply
    }

    fn keep(&self, first: Arc<First>) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.next += 1;
        let query = kept.next;
        kept.bytes += first.bytes;
        kept.results.push_back((query, first));
        // The newest stays, whatever its size: its second page is about to be requested.
        while kept.results.len() > KEPT_QUERIES || kept.bytes > KEPT_BYTES && kept.results.len() > 1 {
            let oldest = kept.results.pop_front();
            kept.bytes -= oldest.map_or(0, |(_, first)| first.bytes);
        }
        query
    }

    fn find(&self, query: u64) -> Option<Arc<First>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.results.iter().find(|(id, _)| *id == query);
        found.map(|(_, first)| Arc::clone(first))
    }
}

impl Position {
    fn parse(token: &str) -> Option<Self> {
        let (query, offset) = token.strip_prefix("kept:")?.split_once(':')?;
        Some(Self {
            query: query.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    }
}

/// Whether the emulator would sort the results of this query. A false positive (the words in a string) costs only time.
fn is_ordered(body: &[u8]) -> bool {
    let words = b"ORDER BY";
    body.windows(words.len())
        .any(|window| window.eq_ignore_ascii_case(words))
}

/// Whether the physical partition that a query names exists. This is much cheaper than executing the query.
async fn is_in_a_range(emulator: &Emulator, call: &Call) -> bool {
    let (Some(range), Some(container)) = (call.header(RANGE_ID), call.path.strip_suffix("/docs")) else {
        return false;
    };
    let ranges = Call::new(
        Method::GET,
        &format!("{container}/pkranges"),
        HeaderMap::new(),
        Bytes::new(),
    );
    let reply = emulator.execute(Region::Write, &ranges).await;
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let ids = body["PartitionKeyRanges"].as_array();
    ids.is_some_and(|ids| ids.iter().any(|found| found["id"] == range))
}

fn page_size(call: &Call) -> usize {
    match call
        .header(MAX_ITEM_COUNT)
        .and_then(|count| count.trim().parse::<i64>().ok())
    {
        None => DEFAULT_PAGE,
        Some(count) => {
            let asked = usize::try_from(count).ok().filter(|&count| count > 0);
            asked.unwrap_or(MAX_PAGE).min(MAX_PAGE)
        }
    }
}

/// Requests fewer and fewer items until they fit one page.
async fn first_fitting(emulator: &Emulator, region: Region, call: &Call, count: usize) -> Reply {
    let mut page = call.clone();
    let mut count = count;
    loop {
        page.set_header(MAX_ITEM_COUNT, HeaderValue::from(count));
        let reply = emulator.execute(region, &page).await;
        if !reply.is_success() || reply.body.len() <= MAX_PAGE_BYTES || count == 1 {
            return reply;
        }
        let returned = reply
            .headers
            .get(ITEM_COUNT)
            .and_then(|n| n.to_str().ok()?.parse().ok());
        count = (returned.unwrap_or(count).min(count) / 2).max(1);
    }
}

/// Makes `reply` the page of a kept query that begins at `position`.
fn cut(reply: &mut Reply, results: &Results, position: &Position, count: usize) {
    let page = match results {
        Results::Feed(feed) => Page::of_feed(feed, position.offset, count),
        Results::Found(found) => Page::of_found(found, position.offset, count),
    };
    let query = position.query;
    let next = page.next.map(|offset| Position { query, offset });
    page.write(reply, next);
}

/// One page of a query.
struct Page {
    feed: Feed,
    /// Where the next one begins.
    next: Option<usize>,
}

impl Page {
    fn of_feed(feed: &Feed, offset: usize, count: usize) -> Page {
        let rest = feed.documents.get(offset..).unwrap_or_default();
        let mut bytes = ENVELOPE_BYTES;
        let fitting = rest
            .iter()
            .take(count)
            .take_while(|document| {
                bytes += document.get().len() + 1;
                bytes <= MAX_PAGE_BYTES
            })
            .count()
            .max(1)
            .min(rest.len());
        Page {
            feed: Feed {
                rid: feed.rid.clone(),
                documents: rest[..fitting].to_vec(),
                count: fitting,
            },
            next: (fitting < rest.len()).then_some(offset + fitting),
        }
    }

    fn of_found(found: &Found, offset: usize, count: usize) -> Page {
        let results = found.results(offset, count, MAX_PAGE_BYTES - ENVELOPE_BYTES);
        Page {
            feed: Feed {
                rid: found.rid().to_owned(),
                count: results.documents.len(),
                documents: results.documents,
            },
            next: results.next,
        }
    }

    fn write(self, reply: &mut Reply, next: Option<Position>) {
        reply.headers.insert(ITEM_COUNT, HeaderValue::from(self.feed.count));
        reply.body = Bytes::from(serde_json::to_vec(&self.feed).expect("JSON that was read can be written"));
        reply.headers.remove(CONTINUATION);
        if let Some(Position { query, offset }) = next {
            let token = HeaderValue::from_str(&format!("kept:{query}:{offset}"));
            let token = token.expect("letters, digits and colons make a header value");
            reply.headers.insert(CONTINUATION, token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_queries_are_bounded_in_number_and_size() {
        let first = |bytes: usize| {
            let feed = Feed {
                rid: String::new(),
                documents: Vec::new(),
                count: 0,
            };
            Arc::new(First {
                results: Results::Feed(feed),
                headers: HeaderMap::new(),
                bytes,
            })
        };
        let pages = Pages::default();
        let light: Vec<u64> = (0..KEPT_QUERIES + 1).map(|_| pages.keep(first(1))).collect();
        assert!(pages.find(light[0]).is_none() && pages.find(light[1]).is_some());
        let heavy = pages.keep(first(KEPT_BYTES));
        assert!(pages.find(heavy).is_some() && pages.find(light[KEPT_QUERIES]).is_none());
        let next = pages.keep(first(10));
        assert!(pages.find(next).is_some() && pages.find(heavy).is_none());
    }
}
