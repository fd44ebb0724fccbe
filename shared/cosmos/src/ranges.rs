//! The physical ranges of a container: their list, checked and cached. No I/O: `range_list.rs` fetches it.
//!
//! A range is an interval of the hash of the partition key.
//!
//! Invariant: a list in the cache covers the whole hash space without gap or overlap. A query that is sent to each of
//! its ranges therefore misses nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

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

/// The list that was fetched last, if it is still believed.
#[derive(Debug, Default)]
pub(crate) struct RangeCache(Mutex<Option<Arc<[Range]>>>);

impl RangeCache {
    pub(crate) fn get(&self) -> Option<Arc<[Range]>> {
        self.lock().clone()
    }

    pub(crate) fn set(&self, ranges: Arc<[Range]>) {
        *self.lock() = Some(ranges);
    }

    pub(crate) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<[Range]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ranges in order, without those that have split, if they cover the whole hash space.
pub(crate) fn complete(found: &[Range]) -> Option<Vec<Range>> {
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
