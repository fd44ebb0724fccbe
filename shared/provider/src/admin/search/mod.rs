//! Search: instances by filter, newest first, one page at a time, at a price that does not grow with what is stored.
//!
//! ```text
//!   filter ──plan──> narrow: everything with this tag or prefix, if that is not much ──┐
//!          └───────> wide: one page of an index in the order of acceptance ────────────┴──> merge, match, cut ──> page, cursor
//! ```
//!
//! Each query goes to every physical range (`Container::sweep`), and the results are merged here. `plan` chooses the index; what it
//! does not decide is decided by [`InstanceFilter::matches`], within a limited number of instances per page: such a page may be
//! short, or even empty, and still continue. The cursor is a position in the order, so it stays valid when instances come and go and
//! when ranges split.

mod attention;
mod counts;
mod cursor;
mod filter;
mod merge;
mod plan;
mod row;

pub use attention::Attention;
pub(crate) use attention::Marked;
pub use counts::{Count, InstanceCounts};
pub(crate) use counts::{counts, instance_counts};
pub use filter::InstanceFilter;

use super::summary::InstanceSummary;
use crate::error::Failure;
use crate::store::Store;
use cursor::Cursor;
use duroxide::providers::ProviderError;
use merge::{Key, Page, Step};
use row::Row;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most instances of a page.
const MOST: usize = 1_000;
/// How many instances with a tag or prefix are sorted here. If there are more, pages are read in the order of acceptance.
const NARROW: u32 = 1_000;
/// How many instances of each range a step reads after one that did not fill the page, and how many steps a page takes.
const CHUNK: usize = 500;
const STEPS: usize = 4;

/// A page of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstancePage {
    /// The instances, newest first. There may be none, although there are more pages.
    pub instances: Vec<InstanceSummary>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<String>,
    /// Why each of them needs attention, if that was searched for.
    pub attention: BTreeMap<String, Vec<Attention>>,
    /// More instances may need attention than the search has looked at.
    pub is_truncated: bool,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The cursor is damaged, or belongs to another filter.
    #[error("this cursor cannot be used: {0}")]
    BadCursor(&'static str),
    /// No index serves the filter.
    #[error("this search is not supported: {0}")]
    Unsupported(String),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] ProviderError),
}

/// The same before the operation is named.
#[derive(Debug)]
pub(crate) enum SearchFailure {
    BadCursor(&'static str),
    Unsupported(String),
    Store(Failure),
}

impl From<Failure> for SearchFailure {
    fn from(failure: Failure) -> Self {
        SearchFailure::Store(failure)
    }
}

impl From<cosmos::Error> for SearchFailure {
    fn from(error: cosmos::Error) -> Self {
        SearchFailure::Store(error.into())
    }
}

/// One page of the instances that match. With `marked`, of those that need attention.
pub(crate) async fn search(
    store: &Store,
    filter: &InstanceFilter,
    marked: Option<&Marked>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<InstancePage, SearchFailure> {
    let limit = limit.clamp(1, MOST);
    let cursor = cursor.map(|text| Cursor::decode(text, filter)).transpose()?;
    let after = cursor.as_ref().map(Cursor::position);
    let is_wide = cursor.is_some_and(|cursor| cursor.is_wide);
    let mut page = Page::new(limit);
    let wanted = Wanted { filter, marked };
    let narrow = match plan::narrow(filter).filter(|_| !is_wide) {
        Some(narrow) => narrow_page(store, wanted, &narrow, after.as_ref(), &mut page).await?,
        None => false,
    };
    if !narrow {
        wide_page(store, wanted, after, &mut page).await?;
    }
    let is_wide = !narrow;
    let next = page
        .next
        .map(|position| Cursor::new(filter, position, is_wide).encode());
    let attention = marked.map(|marked| {
        let reasons = page.rows.iter().map(|row| (row.pk.clone(), marked.of(row)));
        reasons.collect()
    });
    let instances = page.rows.into_iter().filter_map(Row::into_summary);
    Ok(InstancePage {
        instances: instances.collect(),
        next,
        attention: attention.unwrap_or_default(),
        is_truncated: marked.is_some_and(|marked| marked.is_truncated),
    })
}

/// What a page is made of.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    filter: &'a InstanceFilter,
    marked: Option<&'a Marked>,
}

/// Fills the page from everything that an index of its own finds. Returns `false` when that is too much.
async fn narrow_page(
    store: &Store,
    wanted: Wanted<'_>,
    narrow: &plan::Narrow,
    after: Option<&Key>,
    page: &mut Page,
) -> Result<bool, Failure> {
    let Wanted { filter, marked } = wanted;
    let query = narrow.query(filter, after);
    let (rows, more) = store
        .container
        .first::<Row, _, _>(&query, NARROW, |row| Reverse(row.key()))
        .await?;
    if !more {
        let step = attention::narrowed(Step { rows, reached: None }, marked);
        page.take(step, filter, after);
    }
    Ok(!more)
}

/// Fills the page from indexes in the order of acceptance.
async fn wide_page(
    store: &Store,
    wanted: Wanted<'_>,
    mut after: Option<Key>,
    page: &mut Page,
) -> Result<(), SearchFailure> {
    let Wanted { filter, marked } = wanted;
    let legs = match marked {
        Some(_) => attention::legs(filter),
        None => plan::legs(filter),
    };
    let legs = legs.map_err(SearchFailure::Unsupported)?;
    let found = match marked {
        Some(marked) => attention::marked_rows(store, marked, after.as_ref()).await?,
        None => Vec::new(),
    };
    // Enough where an index decides the filter, and where most of what it finds matches.
    let mut size = page.limit;
    for _ in 0..STEPS {
        let mut steps = vec![Step {
            rows: found.clone(),
            reached: None,
        }];
        // One after the other: an instance that moves from the first to the second meanwhile is in one of them.
        for leg in &legs {
            let query = leg.query(filter, after.as_ref());
            let size = u32::try_from(size).unwrap_or(u32::MAX);
            let swept = store
                .container
                .sweep::<Row, _, _>(&query, size, None, |row| Reverse(row.key()))
                .await?;
            steps.push(Step {
                rows: swept.items,
                reached: swept.cursor.and(swept.reached).map(|Reverse(key)| key),
            });
        }
        let step = attention::narrowed(Step::merged(steps), marked);
        page.take(step, filter, after.as_ref());
        if page.is_full() || page.next.is_none() {
            return Ok(());
        }
        after.clone_from(&page.next);
        size = CHUNK.max(page.limit);
    }
    Ok(())
}
