//! The physical ranges of a container, which a query over all partitions is sent to one by one.
//!
//! A range is an interval of the hash of the partition key. The list is cached per container and fetched anew when
//! the service says that a range has gone (410).
//!
//! Invariant: a list that is handed out covers the whole hash space without gap or overlap. A query that is sent to
//! each of its ranges therefore misses nothing.

use std::sync::{Arc, PoisonError};

use reqwest::Method;
use reqwest::header::{ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;

use crate::container::{Container, Shared};
use crate::observe::RequestKind;
use crate::request::{Consistency, Request};
use crate::resource::Subject;
use crate::retry::Retry;
use crate::{Error, headers};

const A_IM: HeaderName = HeaderName::from_static("a-im");

/// A physical range, as the service lists it. The bounds are hexadecimal and compare as text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Range {
    pub(crate) id: String,
    #[serde(rename = "minInclusive")]
    pub(crate) min: String,
    #[serde(rename = "maxExclusive")]
    pub(crate) max: String,
    #[serde(default)]
    pub(crate) parents: Option<Vec<String>>,
}

impl Range {
    pub(crate) fn overlaps(&self, min: &str, max: &str) -> bool {
        self.min.as_str() < max && min < self.max.as_str()
    }
}

impl Container {
    /// The ranges, from the cache where it has them.
    pub(crate) async fn ranges(&self) -> Result<Arc<[Range]>, Error> {
        let cached = self
            .shared()
            .ranges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match cached {
            Some(ranges) => Ok(ranges),
            None => self.fetch_ranges().await,
        }
    }

    /// The ranges as they are now.
    pub(crate) async fn fetch_ranges(&self) -> Result<Arc<[Range]>, Error> {
        let mut found: Vec<Range> = Vec::new();
        let mut position = None;
        loop {
            let mut page = self.range_page(position.as_ref()).await?;
            page.ranges.retain(|range| !found.contains(range));
            // A page that brings nothing new would bring it for ever.
            let grew = !page.ranges.is_empty();
            found.append(&mut page.ranges);
            if let Some(ranges) = complete(&found) {
                return Ok(self.remember(ranges));
            }
            position = page.next;
            if !grew || position.is_none() {
                return Err(page.gap);
            }
        }
    }

    fn remember(&self, ranges: Vec<Range>) -> Arc<[Range]> {
        for range in &ranges {
            self.consistency()
                .inherit(&range.id, range.parents.as_deref().unwrap_or_default());
        }
        let ranges: Arc<[Range]> = ranges.into();
        *self.shared().ranges.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&ranges));
        ranges
    }

    async fn range_page(&self, position: Option<&Position>) -> Result<RangePage, Error> {
        let mut map = HeaderMap::new();
        headers::flag(&mut map, headers::MAX_ITEMS, "-1");
        match position {
            None => {}
            Some(Position::Continuation(value)) => {
                map.insert(headers::CONTINUATION, value.clone());
            }
            Some(Position::Changes(value)) => {
                headers::flag(&mut map, A_IM, "Incremental feed");
                map.insert(IF_NONE_MATCH, value.clone());
            }
        }
        let request = Request {
            kind: RequestKind::Ranges,
            method: Method::GET,
            resource: self.name().ranges(),
            headers: map,
            body: None,
            retry: Retry::Idempotent,
            subject: Subject::Container(self.name()),
            consistency: Consistency::Apart,
        };
        let answer = self.send(&request).await?;
        let ranges = match answer.status {
            304 => Vec::new(),
            _ => read_ranges(&answer.body)?,
        };
        let value = |name: &HeaderName| answer.headers.get(name).filter(|value| !value.is_empty()).cloned();
        // SDKs read this list as a feed of changes, whose position is the ETag; a plain read has a continuation.
        let next = value(&headers::CONTINUATION)
            .map(Position::Continuation)
            .or_else(|| value(&ETAG).map(Position::Changes));
        let gap = self
            .transport()
            .protocol(&request, &answer, "the physical ranges leave a gap");
        Ok(RangePage { ranges, next, gap })
    }
}

impl Shared {
    /// The ranges may have changed.
    pub(crate) fn drop_ranges(&self) {
        *self.ranges.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

enum Position {
    Continuation(HeaderValue),
    Changes(HeaderValue),
}

struct RangePage {
    ranges: Vec<Range>,
    next: Option<Position>,
    /// The error should there be no more.
    gap: Error,
}

fn read_ranges(body: &[u8]) -> Result<Vec<Range>, Error> {
    #[derive(Deserialize)]
    struct Feed {
        #[serde(rename = "PartitionKeyRanges")]
        ranges: Vec<Range>,
    }
    let feed: Feed = serde_json::from_slice(body).map_err(|source| Error::Decode {
        what: "the list of physical ranges".to_owned(),
        source,
    })?;
    Ok(feed.ranges)
}

/// The ranges in order, without those that have split, if they cover everything.
fn complete(found: &[Range]) -> Option<Vec<Range>> {
    let gone = |id: &String| {
        found
            .iter()
            .any(|range| range.parents.iter().flatten().any(|parent| parent == id))
    };
    let mut ranges: Vec<Range> = found.iter().filter(|range| !gone(&range.id)).cloned().collect();
    ranges.sort_by(|a, b| a.min.cmp(&b.min));
    ranges.dedup_by(|a, b| a.id == b.id);
    let mut reached = "";
    for range in &ranges {
        if range.min != reached {
            return None;
        }
        reached = &range.max;
    }
    (reached == "FF").then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: &str, min: &str, max: &str, parents: &[&str]) -> Range {
        let parents = Some(parents.iter().map(|parent| (*parent).to_owned()).collect());
        Range {
            id: id.into(),
            min: min.into(),
            max: max.into(),
            parents,
        }
    }

    #[test]
    fn a_list_with_a_gap_is_not_complete() {
        let whole = [range("1", "3F", "FF", &[]), range("0", "", "3F", &[])];
        let ids: Vec<String> = complete(&whole).unwrap().into_iter().map(|range| range.id).collect();
        assert_eq!(ids, ["0", "1"]);
        assert_eq!(complete(&whole[..1]), None);
        assert_eq!(complete(&whole[1..]), None);
        assert_eq!(complete(&[]), None);
    }

    #[test]
    fn a_range_that_has_split_gives_way_to_its_children() {
        let listed = [
            range("0", "", "FF", &[]),
            range("1", "", "7F", &["0"]),
            range("2", "7F", "FF", &["0"]),
        ];
        let ids: Vec<String> = complete(&listed).unwrap().into_iter().map(|range| range.id).collect();
        assert_eq!(ids, ["1", "2"]);
    }
}
