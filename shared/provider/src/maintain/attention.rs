//! Which instances have something that needs attention, as far as their own documents do not say it: overdue work, blocked activities,
//! dead letters. `admin::search` adds what instance documents say, failed and blocked, and makes pages of it.
//!
//! Three queries by an index per physical range, and one more if something is overdue. Each reads a limited number of documents; if
//! there are more, the answer says so.

use super::dead_letters::{DeadLetterFilter, dead_letters};
use super::overdue::overdue;
use super::overview::OverviewQuery;
use crate::admin::{Attention, Marked};
use crate::error::Failure;
use crate::model::sql::WORK;
use crate::store::{Store, millis};
use cosmos::Query;
use serde::Deserialize;

/// So many documents of each kind are read.
const MOST: u32 = 200;

/// An activity that a build has blocked once.
#[derive(Debug, Deserialize)]
struct BlockedWork {
    pk: String,
    /// It still is.
    #[serde(default)]
    parked: bool,
}

/// The instances that have something that needs attention.
pub(crate) async fn marked(store: &Store, query: &OverviewQuery, failed_since: Option<u64>) -> Result<Marked, Failure> {
    let every = DeadLetterFilter::default();
    let (late, letters, (works, more_works)) = futures::try_join!(
        overdue(store, query, MOST),
        dead_letters(store, &every, MOST, None),
        blocked_works(store),
    )?;
    let mut marked = Marked {
        failed_since: failed_since.unwrap_or(late.now_ms.saturating_sub(millis(query.recent))),
        is_truncated: late.items.len() >= MOST as usize || letters.next.is_some() || more_works,
        ..Marked::default()
    };
    for item in late.items {
        marked.add(item.instance, Attention::Overdue);
    }
    for letter in letters.dead_letters {
        marked.add(letter.id.instance, Attention::DeadLetter);
    }
    for work in works.into_iter().filter(|work| work.parked) {
        marked.add(work.pk, Attention::BlockedActivity);
    }
    Ok(marked)
}

async fn blocked_works(store: &Store) -> Result<(Vec<BlockedWork>, bool), Failure> {
    // In any order: an index of both paths would serve nothing else.
    let query = Query::new(format!(
        "SELECT c.pk, c.parked FROM c WHERE c.queue = {WORK} AND IS_DEFINED(c.blocked.since)"
    ));
    Ok(store.container.first::<BlockedWork, _, _>(&query, MOST, |_| ()).await?)
}
