//! Merging what the ranges returned into a page: pure.

use super::InstanceFilter;
use super::row::Row;
use std::collections::HashSet;

/// A position in the order: by acceptance, then by id. The newest is the greatest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) created_at: u64,
    pub(super) pk: String,
}

/// What one step has read.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) rows: Vec<Row>,
    /// Everything down to this position was read; `None`: everything.
    pub(super) reached: Option<Key>,
}

impl Step {
    /// Several reads of the same stretch as one.
    pub(super) fn merged(steps: Vec<Step>) -> Step {
        let reached = steps.iter().filter_map(|step| step.reached.clone()).max();
        let rows = steps.into_iter().flat_map(|step| step.rows).collect();
        Step { rows, reached }
    }
}

/// A page as it grows.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) limit: usize,
    pub(super) rows: Vec<Row>,
    /// Where the rest begins; `None`: there is none.
    pub(super) next: Option<Key>,
}

impl Page {
    pub(super) fn new(limit: usize) -> Page {
        Page {
            limit,
            rows: Vec::new(),
            next: None,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= self.limit
    }

    /// Takes what matches, newest first, as far as the step has read everything.
    pub(super) fn take(&mut self, step: Step, filter: &InstanceFilter, after: Option<&Key>) {
        let Step { mut rows, reached } = step;
        rows.sort_by_cached_key(|row| std::cmp::Reverse(row.key()));
        let mut seen = HashSet::new();
        let is_new = |row: &Row| {
            let key = row.key();
            after.is_none_or(|after| key < *after) && reached.as_ref().is_none_or(|reached| key >= *reached)
        };
        let mut matching = rows
            .into_iter()
            .filter(is_new)
            .filter(|row| filter.matches(row))
            .filter(|row| seen.insert(row.pk.clone()));
        let room = self.limit.saturating_sub(self.rows.len());
        self.rows.extend(matching.by_ref().take(room));
        let has_rest = self.is_full() && (matching.next().is_some() || reached.is_some());
        self.next = match self.rows.last() {
            Some(last) if has_rest => Some(last.key()),
            _ if self.is_full() => None,
            _ => reached,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(at: u64, pk: &str, name: &str) -> Row {
        serde_json::from_value(json!({
            "pk": pk, "status": "Running", "name": name, "createdAt": at, "updatedAt": at, "startedAt": at, "execution": 1,
            "events": 1, "_etag": "\"1\"",
        }))
        .unwrap()
    }

    fn key(at: u64, pk: &str) -> Key {
        let pk = pk.to_owned();
        Key { created_at: at, pk }
    }

    fn taken(page: &Page) -> Vec<&str> {
        page.rows.iter().map(|row| row.pk.as_str()).collect()
    }

    #[test]
    fn what_is_older_than_all_ranges_have_reached_waits_for_the_next_page() {
        let mut page = Page::new(10);
        let rows = vec![row(5, "a", "N"), row(9, "b", "N"), row(5, "c", "N"), row(3, "d", "N")];
        let reached = Some(key(5, "b"));
        page.take(
            Step {
                rows,
                reached: reached.clone(),
            },
            &InstanceFilter::default(),
            None,
        );
        assert_eq!((taken(&page), page.next.clone()), (vec!["b", "c"], reached));
    }

    #[test]
    fn a_full_page_ends_at_its_last_instance_and_the_last_page_has_no_next() {
        let rows = || vec![row(3, "c", "N"), row(2, "b", "N"), row(2, "a", "N")];
        let all = InstanceFilter::default();
        let whole = || Step {
            rows: rows(),
            reached: None,
        };
        let mut page = Page::new(2);
        page.take(whole(), &all, None);
        assert_eq!((taken(&page), page.next.clone()), (vec!["c", "b"], Some(key(2, "b"))));
        let mut last = Page::new(2);
        last.take(whole(), &all, page.next.as_ref());
        assert_eq!((taken(&last), last.next.clone()), (vec!["a"], None));
        let mut exact = Page::new(3);
        exact.take(whole(), &all, None);
        assert_eq!((exact.rows.len(), exact.next), (3, None));
    }

    #[test]
    fn an_instance_that_moved_between_two_reads_is_taken_once() {
        let step = |rows, reached| Step { rows, reached };
        let merged = Step::merged(vec![
            step(vec![row(5, "a", "N")], Some(key(5, "a"))),
            step(vec![row(5, "a", "N"), row(4, "b", "N")], Some(key(4, "b"))),
        ]);
        let mut page = Page::new(10);
        page.take(merged, &InstanceFilter::default(), None);
        assert_eq!((taken(&page), page.next.clone()), (vec!["a"], Some(key(5, "a"))));
    }

    #[test]
    fn a_page_without_a_match_still_goes_on() {
        let filter = InstanceFilter {
            name: Some("other".to_owned()),
            ..InstanceFilter::default()
        };
        let mut page = Page::new(10);
        let reached = Some(key(5, "a"));
        page.take(
            Step {
                rows: vec![row(5, "a", "N")],
                reached: reached.clone(),
            },
            &filter,
            None,
        );
        assert_eq!((page.rows.len(), page.next), (0, reached));
    }
}
