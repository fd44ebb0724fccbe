//! Fetches the list of a container's physical ranges.
//!
//! The list is cached per container (`ranges.rs`) and fetched again when the service says that a range is gone (410).

use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;

use crate::container::Container;
use crate::error::Error;
use crate::failure::protocol;
use crate::headers;
use crate::observe::RequestKind;
use crate::ranges::{Range, complete};
use crate::request::Request;
use crate::resource::Subject;

const A_IM: HeaderName = HeaderName::from_static("a-im");

impl Container {
    /// The ranges, from the cache if it has them.
    pub(crate) async fn ranges(&self) -> Result<Arc<[Range]>, Error> {
        match self.range_cache().get() {
            Some(ranges) => Ok(ranges),
            None => self.fetch_ranges().await,
        }
    }

    /// The ranges as the service lists them now.
    pub(crate) async fn fetch_ranges(&self) -> Result<Arc<[Range]>, Error> {
        let mut found: Vec<Range> = Vec::new();
        let mut position = None;
        loop {
            let mut page = self.range_page(position.as_ref()).await?;
            page.ranges.retain(|range| !found.contains(range));
            // After a page without anything new there would be more of the same.
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
        self.range_cache().set(Arc::clone(&ranges));
        ranges
    }

    async fn range_page(&self, position: Option<&Position>) -> Result<RangePage, Error> {
        let name = self.name();
        let mut request = Request::new(
            RequestKind::Ranges,
            Method::GET,
            name.ranges(),
            Subject::Container(name),
        );
        let map = &mut request.headers;
        headers::flag(map, headers::MAX_ITEMS, "-1");
        match position {
            None => {}
            Some(Position::Continuation(value)) => {
                map.insert(headers::CONTINUATION, value.clone());
            }
            Some(Position::Changes(value)) => {
                headers::flag(map, A_IM, "Incremental feed");
                map.insert(IF_NONE_MATCH, value.clone());
            }
        }
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
        let gap = protocol(&request, &answer, "the physical ranges leave a gap");
        Ok(RangePage { ranges, next, gap })
    }
}

enum Position {
    Continuation(HeaderValue),
    Changes(HeaderValue),
}

struct RangePage {
    ranges: Vec<Range>,
    next: Option<Position>,
    /// The error if this is the last page and the list has a gap.
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
