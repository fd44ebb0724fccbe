//! The counts of hours that are over, remembered by this process: a repeated request counts only the hours that can still change.

use duroxide_cosmos::HourCounts;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The most hours of one request: a week. No more are remembered.
pub(crate) const MOST_HOURS: u64 = 168;
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// So long after its end an hour may still change: what was accepted in it may be written later, and clocks differ.
const SETTLED_MS: u64 = 5 * 60 * 1000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KnownHours {
    /// By hour since 1970.
    hours: Mutex<BTreeMap<u64, HourCounts>>,
}

impl KnownHours {
    /// Those of these hours that are remembered.
    pub(crate) fn known(&self, hours: &Range<u64>) -> BTreeMap<u64, HourCounts> {
        let known = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .range(hours.clone())
            .map(|(hour, counts)| (*hour, *counts))
            .collect()
    }

    /// Remembers the hours that are over, and forgets those that nobody can ask for any more.
    pub(crate) fn remember(&self, counts: &[HourCounts], now_ms: u64) {
        let mut known = self.hours.lock().unwrap_or_else(PoisonError::into_inner);
        let over = counts
            .iter()
            .filter(|counts| counts.from_ms + HOUR_MS + SETTLED_MS <= now_ms);
        known.extend(over.map(|counts| (counts.from_ms / HOUR_MS, *counts)));
        let oldest = (now_ms / HOUR_MS).saturating_sub(MOST_HOURS);
        *known = known.split_off(&oldest);
    }
}

/// The hours that are not known, as few spans.
pub(crate) fn unknown(hours: Range<u64>, known: &BTreeMap<u64, HourCounts>) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for hour in hours.filter(|hour| !known.contains_key(hour)) {
        match spans.last_mut() {
            Some(span) if span.end == hour => span.end = hour + 1,
            _ => spans.push(hour..hour + 1),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(hour: u64) -> HourCounts {
        HourCounts {
            from_ms: hour * HOUR_MS,
            started: hour,
            ..HourCounts::default()
        }
    }

    #[test]
    fn an_hour_is_remembered_when_it_can_no_longer_change() {
        let hours = KnownHours::default();
        let all = [counts(999), counts(1_000), counts(1_001)];
        let end_of_1000 = 1_001 * HOUR_MS;
        hours.remember(&all, end_of_1000 + SETTLED_MS - 1);
        assert_eq!(hours.known(&(0..2_000)).into_keys().collect::<Vec<_>>(), [999]);
        hours.remember(&all, end_of_1000 + SETTLED_MS);
        assert_eq!(hours.known(&(0..2_000)).into_keys().collect::<Vec<_>>(), [999, 1_000]);
        assert_eq!(
            hours.known(&(1_000..1_001)).into_values().collect::<Vec<_>>(),
            [counts(1_000)]
        );
    }

    #[test]
    fn no_more_than_a_week_is_remembered() {
        let hours = KnownHours::default();
        for hour in 0..1_000 {
            hours.remember(&[counts(hour)], (hour + 2) * HOUR_MS);
        }
        let known = hours.known(&(0..2_000));
        assert!(known.len() as u64 <= MOST_HOURS, "{}", known.len());
        assert!(known.contains_key(&999) && !known.contains_key(&800));
    }

    #[test]
    fn what_is_not_known_is_counted_in_few_spans() {
        let known = BTreeMap::from([12, 13, 16].map(|hour| (hour, counts(hour))));
        assert_eq!(unknown(10..18, &known), [10..12, 14..16, 17..18]);
        assert_eq!(unknown(12..14, &known), []);
        assert_eq!(unknown(20..24, &known), [Range { start: 20, end: 24 }]);
    }
}
