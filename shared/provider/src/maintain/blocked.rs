//! What other builds have blocked: a build that goes on with one of them may go on with the others.

use crate::due::{Target, WorkTarget};
use crate::error::Failure;
use crate::model::{Blocked, Kind, WorkDoc};
use crate::store::Store;
use cosmos::Query;
use serde::Deserialize;

/// An instance or an activity that is blocked.
#[derive(Debug, Deserialize)]
struct BlockedDoc {
    id: String,
    pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    tag: Option<String>,
    blocked: Blocked,
}

impl BlockedDoc {
    fn target(self) -> Option<Target> {
        match self.kind {
            Kind::Instance => Some(Target::Turn { instance: self.pk }),
            Kind::Work => {
                let (execution, activity) = WorkDoc::numbers_of(&self.id)?;
                Some(Target::Work(WorkTarget {
                    instance: self.pk,
                    execution,
                    activity,
                    tag: self.tag,
                    ..WorkTarget::default()
                }))
            }
            _ => None,
        }
    }
}

/// What other builds than this process's have blocked, and try again later: longest blocked first, at most so many of each physical
/// range. One request for each of these.
pub(crate) async fn blocked_by_others(store: &Store, most: u32) -> Result<Vec<Target>, Failure> {
    let (build, now) = (store.build_name()?, store.now());
    let query = Query::new(
        "SELECT c.id, c.pk, c.type, c.tag, c.blocked FROM c WHERE c.blocked.since > 0 ORDER BY c.blocked.since",
    );
    let page = store
        .container
        .sweep::<BlockedDoc, _, _>(&query, most, None, |doc| doc.blocked.since)
        .await?;
    let is_others = |doc: &BlockedDoc| doc.blocked.build != build && doc.blocked.until > now;
    let others = page.items.into_iter().filter(is_others);
    Ok(others.filter_map(BlockedDoc::target).collect())
}
