//! The state of a walk over all physical ranges: pure bookkeeping, no I/O.
//!
//! `sweep.rs` fetches the pages; this decides which items are new, and where a leg continues when its range is gone.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;

use crate::ranges::Range;

/// The state of a walk over all ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    pub(crate) legs: Vec<Leg>,
    /// What legs that are gone had returned, and their successors will read again: hash of the text, and how often.
    replay: HashMap<u64, u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) range: Range,
    /// The leg's interval, which is all of the range unless ranges have merged.
    pub(crate) min: String,
    pub(crate) max: String,
    pub(crate) continuation: Option<String>,
    /// The hashes of what an ordered leg has returned.
    returned: Vec<u64>,
    /// It started again, and reads what was returned before.
    replaying: bool,
}

/// How a walk reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// Everything, in any order.
    All,
    /// In order. A leg rests after a page with a new item; a page has at most this many.
    Page(u32),
    /// In order. A leg rests after this many items, on several pages if the service returns short ones.
    First(u32),
}

impl Manner {
    pub(crate) fn page_size(self) -> Option<u32> {
        match self {
            Manner::All => None,
            Manner::Page(size) | Manner::First(size) => Some(size),
        }
    }

    /// After a split ordered legs start again; others keep their continuation.
    fn is_ordered(self) -> bool {
        !matches!(self, Manner::All)
    }
}

impl Walk {
    /// The start of a walk: a leg for each range.
    pub(crate) fn over(ranges: &[Range]) -> Walk {
        let legs = ranges
            .iter()
            .map(|range| Leg::new(range, &range.min, &range.max))
            .collect();
        Walk {
            legs,
            replay: HashMap::new(),
        }
    }

    /// The items of a page that were not returned before.
    pub(crate) fn fresh(&mut self, leg: &mut Leg, page: Vec<Box<RawValue>>, manner: Manner) -> Vec<Box<RawValue>> {
        if !manner.is_ordered() {
            return page;
        }
        page.into_iter()
            .filter(|item| {
                let hash = hash_of(item.get());
                leg.returned.push(hash);
                match self.replay.get_mut(&hash) {
                    Some(count) if leg.replaying && *count > 0 => {
                        *count -= 1;
                        false
                    }
                    _ => true,
                }
            })
            .collect()
    }

    /// Replaces a leg whose range is gone by legs in the ranges that have its interval now.
    pub(crate) fn succeed(&mut self, leg: Leg, ranges: &[Range], manner: Manner) {
        for hash in &leg.returned {
            *self.replay.entry(*hash).or_default() += 1;
        }
        for range in ranges.iter().filter(|range| range.overlaps(&leg.min, &leg.max)) {
            let min = (&range.min).max(&leg.min);
            let max = (&range.max).min(&leg.max);
            self.legs.push(Leg {
                continuation: if manner.is_ordered() {
                    None
                } else {
                    leg.continuation.clone()
                },
                replaying: leg.replaying || !leg.returned.is_empty(),
                ..Leg::new(range, min, max)
            });
        }
    }
}

impl Leg {
    /// Whether a leg that has just returned `fresh` items may rest.
    pub(crate) fn may_rest(&self, fresh: usize, manner: Manner) -> bool {
        match manner {
            Manner::All => false,
            Manner::Page(_) => fresh > 0,
            Manner::First(most) => self.returned.len() as u64 >= u64::from(most),
        }
    }

    pub(crate) fn new(range: &Range, min: &str, max: &str) -> Leg {
        Leg {
            range: range.clone(),
            min: min.to_owned(),
            max: max.to_owned(),
            continuation: None,
            returned: Vec::new(),
            replaying: false,
        }
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERED: Manner = Manner::Page(2);

    fn range(id: &str, min: &str, max: &str) -> Range {
        Range {
            id: id.into(),
            min: min.into(),
            max: max.into(),
            parents: None,
        }
    }

    fn page(items: &[&str]) -> Vec<Box<RawValue>> {
        items
            .iter()
            .map(|item| serde_json::value::to_raw_value(item).unwrap())
            .collect()
    }

    fn texts(items: &[Box<RawValue>]) -> Vec<&str> {
        items.iter().map(|item| item.get().trim_matches('"')).collect()
    }

    #[test]
    fn successors_of_an_ordered_leg_skip_exactly_what_it_had_returned() {
        let mut walk = Walk::default();
        let mut parent = Leg::new(&range("0", "", "FF"), "", "FF");
        assert_eq!(
            texts(&walk.fresh(&mut parent, page(&["a", "b", "b"]), ORDERED)),
            ["a", "b", "b"]
        );
        walk.succeed(parent, &[range("1", "", "7F"), range("2", "7F", "FF")], ORDERED);
        let mut second = walk.legs.pop().unwrap();
        let mut first = walk.legs.pop().unwrap();
        assert_eq!((first.continuation.as_deref(), first.replaying), (None, true));
        // The same text is in both children: it was returned twice, and exists three times.
        assert_eq!(texts(&walk.fresh(&mut first, page(&["a", "b", "c"]), ORDERED)), ["c"]);
        assert_eq!(
            texts(&walk.fresh(&mut second, page(&["b", "b", "d"]), ORDERED)),
            ["b", "d"]
        );
    }

    #[test]
    fn successors_of_an_unordered_leg_keep_its_continuation() {
        let mut walk = Walk::default();
        let mut parent = Leg::new(&range("0", "", "FF"), "", "FF");
        parent.continuation = Some("here".into());
        walk.succeed(parent, &[range("1", "", "7F"), range("2", "7F", "FF")], Manner::All);
        assert!(
            walk.legs
                .iter()
                .all(|leg| leg.continuation.as_deref() == Some("here") && !leg.replaying)
        );
    }

    #[test]
    fn a_leg_that_must_be_full_does_not_rest_after_a_short_page() {
        let full = Manner::First(2);
        let (mut walk, mut leg) = (Walk::default(), Leg::new(&range("0", "", "FF"), "", "FF"));
        let fresh = walk.fresh(&mut leg, page(&["a"]), full).len();
        assert!(!leg.may_rest(fresh, full) && leg.may_rest(fresh, ORDERED));
        let fresh = walk.fresh(&mut leg, page(&["b"]), full).len();
        assert!(leg.may_rest(fresh, full));
    }

    #[test]
    fn a_leg_whose_range_merged_with_another_keeps_its_interval() {
        let mut walk = Walk::default();
        walk.succeed(
            Leg::new(&range("1", "", "7F"), "", "7F"),
            &[range("3", "", "FF")],
            ORDERED,
        );
        let leg = &walk.legs[0];
        assert_eq!(
            (leg.range.id.as_str(), leg.min.as_str(), leg.max.as_str()),
            ("3", "", "7F")
        );
    }
}
