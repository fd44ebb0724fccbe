//! What needs attention, for operators: how many instances have which status, what has begun and ended recently, and the backlog.
//!
//! The service counts each number by an index; what waits is read, if it is little, as maintenance does (`look`). Eight requests per
//! physical range, fifteen with a backlog. Only the counts by status read something of every instance (see `admin::counts`).

use super::backlog::{Backlog, BacklogQuery};
use super::look::{LookRequest, look};
use super::numbers::backlog_of_look;
use crate::admin::{self, Count};
use crate::error::Failure;
use crate::model::Status;
use crate::model::sql::INSTANCE;
use crate::store::{Store, millis};
use cosmos::Query;
use std::time::Duration;
use tokio::time::Instant;

/// How much of what waits is read. If there is more, each number is counted by a query of its own.
const MOST_WAITING: u32 = 200;
/// How long that may take.
const LOOK_TIME: Duration = Duration::from_secs(30);

/// What an overview calls recent and late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverviewQuery {
    /// How far back what has begun and ended is counted.
    pub recent: Duration,
    /// A timer is overdue when it should have fired so long ago.
    pub overdue: Duration,
    /// An instance is stuck when something of it has been due for so long.
    pub stuck: Duration,
}

impl Default for OverviewQuery {
    fn default() -> Self {
        OverviewQuery {
            recent: Duration::from_secs(24 * 3_600),
            overdue: Duration::from_secs(120),
            stuck: Duration::from_secs(600),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// When it was made (Unix ms).
    pub now_ms: u64,
    /// Since when something is recent (Unix ms).
    pub recent_since_ms: u64,
    /// How many instances there are, by name and status.
    pub counts: Vec<Count>,
    /// Instances that were accepted recently.
    pub started_recently: u64,
    /// Instances that have ended recently.
    pub ended_recently: u64,
    /// Those of them that have failed, without those that were cancelled.
    pub failed_recently: u64,
    /// What waits, what is overdue and since when, what is stuck, and how many dead letters there are.
    pub backlog: Backlog,
}

/// What needs attention now.
pub(crate) async fn overview(store: &Store, query: &OverviewQuery) -> Result<Overview, Failure> {
    let now_ms = store.now();
    let before = |time: Duration| now_ms.saturating_sub(millis(time));
    let since = before(query.recent);
    let ask = BacklogQuery {
        overdue_ms: before(query.overdue),
        stuck_ms: before(query.stuck),
    };
    let count = |condition: String| {
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE c.type = {INSTANCE} AND {condition}");
        store.sum(Query::new(text).param("@since", since))
    };
    let failed = Status::Failed;
    let (counts, started, ended, failed, backlog) = futures::try_join!(
        admin::counts(store),
        // A document that only fences is no instance.
        count("c.createdAt >= @since AND (IS_DEFINED(c.name) OR IS_DEFINED(c.startName))".to_owned()),
        count(format!(
            "c.completedAt >= @since AND c.status IN ('{}','{failed}')",
            Status::Completed
        )),
        count(format!(
            "c.completedAt >= @since AND c.status = '{failed}' AND NOT IS_DEFINED(c.cancelled)"
        )),
        waiting(store, now_ms, &ask),
    )?;
    Ok(Overview {
        now_ms,
        recent_since_ms: since,
        counts,
        started_recently: started as u64,
        ended_recently: ended as u64,
        failed_recently: failed as u64,
        backlog,
    })
}

async fn waiting(store: &Store, now_ms: u64, ask: &BacklogQuery) -> Result<Backlog, Failure> {
    let request = LookRequest {
        now_ms,
        until_ms: now_ms,
        most: MOST_WAITING,
        deadline: Instant::now() + LOOK_TIME,
    };
    backlog_of_look(store, &look(store, &request).await?, ask).await
}
