//! Blocking: this build cannot go on with an instance, and another one may.
//!
//! Nothing of the turn is committed. One fenced write notes in the instance document why, which build it was, and when the same
//! build tries again; the same write moves the messages to that time (*parks* them), so that neither a sweep nor maintenance
//! takes them for overdue. The pauses grow from a second to five minutes. Another build does not wait: it takes the parked
//! messages at once. So does a turn with a cancellation, which can be committed without the orchestration's code. The next
//! commit ends the block.
//!
//! What can go wrong: the process ends between the batches of many messages (the rest is parked by whoever comes next); a message
//! comes during the pause (whoever fetches it parks it); another process commits first (nothing is written).

use super::release::due_from;
use crate::batch::{extend, pack, write_fenced};
use crate::error::Failure;
use crate::model::{Block, BlockCause, Blocked, MessageDoc, noted};
use crate::read::{self, Asked, View};
use crate::store::{Fence, Store};
use cosmos::{Batch, PartitionKey, Retry};

/// Blocks an instance with these messages, instead of committing a turn that takes them.
pub(crate) async fn block(
    store: &Store,
    pk: &PartitionKey,
    fence: &Fence,
    messages: &[MessageDoc],
    block: &Block,
) -> Result<Blocked, Failure> {
    let build = store.build_name()?;
    let instance = &fence.doc;
    let blocked = noted(instance.blocked.as_ref(), block, build, store.now());
    let mut next = instance.with(|lock| {
        lock.release(true);
        if block.cause == BlockCause::Crash {
            // Another build begins to count anew; this one does not run it again.
            messages.iter().for_each(|message| lock.forget(&message.id));
        }
    });
    next.blocked = Some(blocked.clone());
    let mut groups = pack(due_from(messages.iter(), blocked.until)?);
    if groups.is_empty() {
        groups.push(Vec::new());
    }
    let mut fence = fence.clone();
    for group in groups {
        match write_fenced(store, pk, &fence, &next, group).await? {
            Some(written) => fence = written.fence,
            None => return Err(Failure::raced(pk)),
        }
    }
    Ok(blocked)
}

/// What a fetch does with a blocked instance.
#[derive(Debug)]
pub(super) enum Pause {
    /// Run what is due, as it was read.
    Over(View),
    /// The build waits until then.
    Until(u64),
}

/// Looks whether this build waits.
pub(super) async fn pause_of(
    store: &Store,
    pk: &PartitionKey,
    view: View,
    asked: Asked,
    now_ms: u64,
) -> Result<Pause, Failure> {
    let blocked = view.fence.as_ref().and_then(|fence| fence.doc.blocked.clone());
    let (Some(blocked), Some(build)) = (blocked, store.build.get()) else {
        return Ok(Pause::Over(view));
    };
    if blocked.until <= now_ms {
        return Ok(Pause::Over(view));
    }
    if blocked.build == build.name() && !view.messages.iter().any(MessageDoc::cancels) {
        park(store, pk, &view.messages, blocked.until).await?;
        return Ok(Pause::Until(blocked.until));
    }
    // What is parked is due in fact: its place among the messages says since when.
    let mut view = read::view(store, pk, blocked.until, asked).await?;
    view.messages.retain(|message| message.first_due_ms() <= now_ms);
    Ok(Pause::Over(view))
}

/// Parks messages that came during the pause. Whoever has written one since was faster: it is parked by the next fetch.
async fn park(store: &Store, pk: &PartitionKey, messages: &[MessageDoc], until_ms: u64) -> Result<(), Failure> {
    for group in pack(due_from(messages.iter(), until_ms)?) {
        let batch = extend(Batch::new(), &group)?;
        match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(_) => {}
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                tracing::debug!(instance = pk.as_str(), %error, "a message was written before it was parked");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
