//! Recovery: delivering intents, rolling commits, deletions and pauses forward, removing what undecided commits staged, giving up
//! messages of instances that do not exist.
//!
//! Everything that a process begins and may not end is due in the `repair` queue some seconds later (`repair_after`).
//! Any process may then do what its maker would have done. All of it is idempotent, so two may do it at once.
//!
//! ```text
//!   polling's sweep ──────────────> recover(one document) <── unfinished_page (maintenance)
//!                                     ├─ intent            ──> outbox    <── outbox_page (maintenance)
//!   a fetch that meets one    ────────┼─ lock              ──> roll_forward, deletion, park
//!   a commit that staged ─────────────┼─ staged document   ──> orphans
//!   a fetch without an instance ──────┼─ message           ──> aside
//!                                     └─ decided deletion  ──> erase
//! ```

mod aside;
mod deletion;
mod deliver;
mod erase;
mod orphans;
mod outbox;
mod park;
mod rewind;
mod roll_forward;

pub(crate) use aside::{put_back, set_aside};
pub(crate) use deletion::{abort, decide};
pub(crate) use deliver::deliver;
pub(crate) use erase::{AT_ONCE, ATTEMPTS, add, carry_out, check_versions, remains, tally};
pub(crate) use outbox::{deliver_starts, outbox_page};
pub(crate) use park::{Late, Queued, apply, park_late};
pub(crate) use rewind::{Cut, Done, Fork, Loaded, Order, Refused, child_of, clean_fence, fork, rewind};
pub(crate) use roll_forward::{Progress, StagedOps, publish, roll_forward};

use crate::due::Due;
use crate::error::Failure;
use crate::model::sql::{INTENT, REPAIR};
use crate::model::{BatchJobDoc, DeletionDoc, Header, InstanceDoc, IntentDoc, Kind, Queue, check_version};
use crate::page::{self, Item, PageRequest, PassOutcome};
use crate::store::{Fence, Store, Stored};
use cosmos::{PartitionKey, Query};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A due document of any type.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DueDocument {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub queue: Queue,
    pub due_at: u64,
}

impl Item for DueDocument {
    type Order = u64;

    fn order(&self) -> u64 {
        self.due_at
    }

    fn pk(&self) -> &str {
        &self.pk
    }

    /// An instance id may have any character, a document id has no line break.
    fn key(&self) -> String {
        format!("{}\n{}", self.id, self.pk)
    }
}

/// Does what the maker of a due document would have done.
pub(crate) async fn recover(store: &Store, due: &DueDocument) -> Result<PassOutcome, Failure> {
    let pk = PartitionKey::new(&due.pk)?;
    let Some(found) = store.container.read::<Box<RawValue>>(&pk, &due.id).await? else {
        return Ok(PassOutcome::default());
    };
    let text = found.doc.get();
    // A document of a newer release stays as it is, whatever kind it is.
    check_version(&pk, &due.id, serde_json::from_str::<Header>(text)?.v.as_ref())?;
    // Whoever recovers does not know what else waits for the instance: its turn is due in any case.
    let done = |also: Option<Vec<Due>>| PassOutcome {
        done: u64::from(also.is_some()),
        due: also.into_iter().flatten().chain([Due::turn(&due.pk)]).collect(),
        ..PassOutcome::default()
    };
    match due.kind {
        Kind::Intent => {
            let intent: IntentDoc = serde_json::from_str(text)?;
            Ok(outbox::deliver_found(store, &[intent], None).await)
        }
        Kind::Message => {
            // It may be a receipt by now, or put back.
            match Stored::decode(&found.doc)? {
                Stored::Message(message) if message.is_aside() && message.due_at <= store.now() => {
                    aside::give_up(store, &pk).await
                }
                _ => Ok(PassOutcome::default()),
            }
        }
        Kind::StagedHead | Kind::Staged => {
            #[derive(Deserialize)]
            struct Part {
                commit: String,
            }
            let Part { commit } = serde_json::from_str(text)?;
            Ok(done(orphans::recover_staged(store, &pk, &commit, &due.id).await?))
        }
        Kind::Instance => {
            let doc: InstanceDoc = serde_json::from_str(text)?;
            let fence = Fence { doc, etag: found.etag };
            match roll_forward(store, &pk, &fence).await? {
                Progress::Changed { due } => Ok(done(Some(due))),
                Progress::Clean | Progress::Underway { .. } => Ok(PassOutcome::default()),
            }
        }
        // It is late: its wakeup was lost, or its function has died.
        Kind::BatchJob => Ok(match serde_json::from_str::<BatchJobDoc>(text)?.due() {
            Some(at_ms) if at_ms <= store.now() => PassOutcome {
                done: 1,
                due: vec![Due::batch(BatchJobDoc::name_of(&due.id), None)],
                ..PassOutcome::default()
            },
            _ => PassOutcome::default(),
        }),
        Kind::Deletion => {
            let deletion: DeletionDoc = serde_json::from_str(text)?;
            carry_out(store, &deletion).await?;
            Ok(PassOutcome {
                done: 1,
                ..PassOutcome::default()
            })
        }
        _ => Ok(PassOutcome::default()),
    }
}

/// Recovers one page of what is due and is no intent. A commit may have a thousand operations to publish: what it has
/// published when its time ends is done, and the next attempt continues there.
pub(crate) async fn unfinished_page(store: &Store, request: PageRequest) -> Result<PassOutcome, Failure> {
    let place = request.place(store);
    let query = Query::new(format!(
        "SELECT c.id, c.pk, c.type, c.queue, c.dueAt FROM c \
         WHERE c.queue = {REPAIR} AND c.type != {INTENT} AND c.dueAt <= @now ORDER BY c.queue, c.dueAt"
    ))
    .param("@now", place.now_ms);
    page::run(store, &query, request.at(place), |due: DueDocument, _| {
        Box::pin(async move { recover(store, &due).await })
    })
    .await
}
