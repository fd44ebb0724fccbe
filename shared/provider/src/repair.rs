//! Finding and repairing what a crash left behind: intents, unfinished commits, staged orphans, begun deletions.
//!
//! Everything of this kind is due in the `repair` queue some seconds after it was begun. Whoever repairs does what
//! its maker would have done; all of it is idempotent, so two may repair at once. `maintain` does the same in pages
//! that a budget can interrupt; both count the failed deliveries of an intent, and give it up in the end.

use crate::error::Failure;
use crate::model::{DeletionDoc, IntentDoc, Kind, LockDoc};
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use serde::Deserialize;
use serde_json::value::RawValue;

/// How many pages one pass looks at when it finds nothing that it can repair.
const PAGES: u32 = 10;

/// What one pass of repairs did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Intents that reached their target.
    pub intents: u64,
    /// Commits that were rolled forward, or whose orphans were removed.
    pub commits: u64,
    /// Deletions that were finished, or given up before they were decided.
    pub deletions: u64,
    /// What could not be repaired this time.
    pub failed: u64,
    /// Intents that were given up, and became dead letters.
    pub dead: u64,
    /// The instances that have something to do now.
    pub targets: Vec<String>,
}

impl Repaired {
    /// Whether the pass changed anything.
    pub fn is_idle(&self) -> bool {
        self.intents + self.commits + self.deletions + self.dead == 0
    }
}

/// A due document, of whatever kind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Due {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub due_at: u64,
}

impl Store {
    /// What is due, oldest first, page by page of every physical range, until a page has something that could be repaired,
    /// and at most some pages.
    pub(crate) async fn repair_page(&self, most: u32) -> Result<Repaired, Failure> {
        let query = Query::new(
            "SELECT c.id, c.pk, c.type, c.dueAt FROM c WHERE c.queue = 'repair' AND c.dueAt <= @now ORDER BY c.dueAt",
        )
        .param("@now", self.now());
        let mut done = Repaired::default();
        let mut cursor = None;
        for _ in 0..PAGES {
            let page = self
                .container
                .sweep::<Due, _, _>(&query, most, cursor, |due| due.due_at)
                .await?;
            for due in page.items {
                if let Err(error) = self.repair(&due, &mut done).await {
                    tracing::warn!(instance = due.pk, id = due.id, %error, "a repair failed; it stays due");
                    done.failed += 1;
                }
            }
            cursor = page.cursor;
            // What cannot be repaired must not hide what can.
            if !done.is_idle() || cursor.is_none() {
                break;
            }
        }
        Ok(done)
    }

    /// Repairs one due document.
    pub(crate) async fn repair(&self, due: &Due, done: &mut Repaired) -> Result<(), Failure> {
        let pk = PartitionKey::new(&due.pk)?;
        let Some(found) = self.container.read::<Box<RawValue>>(&pk, &due.id).await? else {
            return Ok(());
        };
        let text = found.doc.get();
        match due.kind {
            Kind::Intent => {
                let intent: IntentDoc = serde_json::from_str(text)?;
                let paid = self.pay(std::slice::from_ref(&intent), None).await;
                done.intents += paid.targets.len() as u64;
                done.failed += paid.failed;
                done.dead += paid.dead;
                done.targets.extend(paid.targets);
            }
            Kind::StagedHead | Kind::Staged => {
                #[derive(Deserialize)]
                struct Part {
                    commit: String,
                }
                let Part { commit } = serde_json::from_str(text)?;
                done.commits += u64::from(self.settle_staged(&pk, &commit, &due.id).await?);
                done.targets.push(due.pk.clone());
            }
            Kind::Lock => {
                let doc: LockDoc = serde_json::from_str(text)?;
                let was_deleting = doc.deleting.is_some();
                let lock = crate::store::Locked { doc, etag: found.etag };
                if self.finish(&pk, &lock).await? == crate::finish::Finish::Changed {
                    *if was_deleting {
                        &mut done.deletions
                    } else {
                        &mut done.commits
                    } += 1;
                    done.targets.push(due.pk.clone());
                }
            }
            Kind::Deletion => {
                let deletion: DeletionDoc = serde_json::from_str(text)?;
                self.carry_out(&deletion).await?;
                done.deletions += 1;
            }
            _ => {}
        }
        Ok(())
    }
}
