//! Rewinding an instance in place: the same execution goes on from before its failure.
//!
//! ```text
//!   failed ──clean──> failed ──ONE commit──> [rewinding] ──settle the children──> running
//!           what the                head, counts, keys and status as they were at the cut,
//!           queue holds             messages, activities and timers again; a dead letter of the last turn is removed
//! ```
//!
//! The commit decides, fenced by the instance document; if it takes several batches it is staged, as that of a turn. History
//! documents after the cut stay, outside of the chain; if the cut is inside of a commit, its kept part is written again. The
//! execution stays the same, so an activity that runs again has the same id: what it calls sees a retry.
//!
//! Then no turn begins until the children are settled (`children`): any process completes that, a fetch or maintenance.
//!
//! The races, and who decides them:
//!
//! | race | decided by |
//! |---|---|
//! | a turn of the failed instance drops messages | the fence: the rewind begins anew |
//! | two operators | the fence: the second finds a running instance |
//! | a worker completes an activity that nobody had cancelled | what waits is read twice, with the newest consistency token: its item or its result is seen, and it is not scheduled again |
//! | a worker still runs an activity whose start is undone | its item is deleted in the version that was listed: it completes before that, or not at all |
//! | a message or a work item of what is undone waits | it is removed first; a failed instance would drop it as well |
//! | somebody redrives the dead letter of the last turn | its version: one of them gets the messages |
//! | a child reports its failure while it is rewound | its parent takes no turn until the children are settled; the message is replaced by its receipt, by the name of the child's last commit |
//! | a child completes meanwhile | its message is created again if it was dropped; duroxide drops a duplicate |

mod children;
mod cut;
mod fork;
mod load;
mod plan;
mod write;

pub(crate) use children::child_of;
pub(crate) use cut::{Cut, Order};
pub(crate) use fork::{Fork, fork};
pub(crate) use load::Loaded;

use super::outbox::deliver_owed;
use super::{Progress, apply, roll_forward};
use crate::due::Due;
use crate::error::Failure;
use crate::model::Status;
use crate::recovery::Queued;
use crate::store::{Fence, Store};
use cosmos::PartitionKey;
use std::time::Duration;

/// How often, and how long apart, an instance is tried while others write it.
const ATTEMPTS: u32 = 200;
const WAIT: Duration = Duration::from_millis(10);

/// What became of an instance.
#[derive(Debug)]
pub(crate) enum Done {
    /// It was rewound, by this call or by an earlier attempt of it.
    Rewound { due: Vec<Due> },
    /// It is not failed, or does not exist.
    NotFailed,
    /// It is being deleted.
    Deleting,
    /// The order refuses the cut.
    Refused(Refused),
}

/// Why a cut was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Children were started whose start would be undone.
    StartedChildren(Vec<String>),
    /// It cannot be rewound at all.
    Impossible(String),
}

/// The newest version of an instance in which nothing is unfinished; `None` when it is being deleted, or does not exist. Whom to wake for
/// what it has completed is added to `rolled`: the process that began it may find nothing left to do.
pub(crate) async fn clean_fence(
    store: &Store,
    pk: &PartitionKey,
    rolled: &mut Vec<Due>,
) -> Result<Option<Fence>, Failure> {
    for _ in 0..ATTEMPTS {
        // What is read after this is at least as new as what others have written so far.
        let fence = store.newest_fence(pk).await?;
        let Some(fence) = fence.filter(|fence| fence.doc.is_taken()) else {
            return Ok(None);
        };
        let is_deleting = fence.doc.lock.deleting.is_some();
        match Box::pin(roll_forward(store, pk, &fence)).await? {
            Progress::Clean => return Ok(Some(fence)),
            Progress::Underway { .. } if is_deleting => return Ok(None),
            Progress::Underway { .. } => tokio::time::sleep(WAIT).await,
            Progress::Changed { due } => rolled.extend(due),
        }
    }
    Err(Failure::busy(pk))
}

/// Rewinds one failed instance, and settles its children. A repetition with the same call does nothing. `rolled` as for [`clean_fence`].
pub(crate) async fn rewind(
    store: &Store,
    pk: &PartitionKey,
    order: &Order<'_>,
    rolled: &mut Vec<Due>,
) -> Result<Done, Failure> {
    for _ in 0..ATTEMPTS {
        let Some(fence) = clean_fence(store, pk, rolled).await? else {
            let marked = store
                .fence(pk)
                .await?
                .is_some_and(|fence| fence.doc.lock.deleting.is_some());
            return Ok(if marked { Done::Deleting } else { Done::NotFailed });
        };
        if fence.doc.rewinds.has(order.call) {
            let queued = Queued::read(store, pk).await?;
            let due = queued.due(&fence.doc, store.now(), &Default::default());
            return Ok(Done::Rewound { due });
        }
        if fence.doc.current.status != Status::Failed {
            return Ok(Done::NotFailed);
        }
        match attempt(store, pk, fence, order).await? {
            Attempt::Written => {
                // Whoever comes next settles the children; this is the next.
                let Some(now) = store.fence(pk).await? else { continue };
                let due = match children::settle(store, pk, &now).await? {
                    Some(due) => due,
                    // Others have settled them.
                    None => Queued::read(store, pk)
                        .await?
                        .due(&now.doc, store.now(), &Default::default()),
                };
                return Ok(Done::Rewound { due });
            }
            Attempt::Refused(why) => return Ok(Done::Refused(why)),
            Attempt::Again => tokio::time::sleep(WAIT).await,
        }
    }
    Err(Failure::busy(pk))
}

enum Attempt {
    Written,
    Again,
    Refused(Refused),
}

/// One attempt in the version that was read.
async fn attempt(store: &Store, pk: &PartitionKey, fence: Fence, order: &Order<'_>) -> Result<Attempt, Failure> {
    let etag = fence.etag.clone();
    let Some(loaded) = Loaded::read(store, pk, fence).await? else {
        return Ok(Attempt::Again);
    };
    let cut = match Cut::of(&loaded, order) {
        Ok(cut) => cut,
        Err(why) => return Ok(Attempt::Refused(why)),
    };
    let started = children::started(store, &loaded, &cut).await?;
    if !started.is_empty() {
        return Ok(Attempt::Refused(Refused::StartedChildren(started)));
    }
    let stale = cut.stale(&loaded, store.receipt_ttl)?;
    if !stale.is_empty() {
        let same = &loaded.fence.doc.with(|lock| lock.release(true));
        apply(store, pk, &loaded.fence, (same, same), stale).await?;
        return Ok(Attempt::Again);
    }
    // Its own failure, and cancellations of its children, must be where they belong before it goes on.
    deliver_owed(store, pk, |_| true).await?;
    children::check_cancelling(store, &loaded, &cut).await?;
    let commit = store.ids.unique();
    let plan = plan::Plan::make(&loaded, &cut, order, store, &commit)?;
    Ok(match write::write(store, pk, &etag, plan).await? {
        true => Attempt::Written,
        false => Attempt::Again,
    })
}

/// Completes a rewind that another process has begun. Returns who has something to do, or `None` when there was nothing to complete.
pub(super) async fn finish(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Option<Vec<Due>>, Failure> {
    children::settle(store, pk, fence).await
}
