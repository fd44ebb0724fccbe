//! Blocking: this build cannot go on with an instance, and another one may.
//!
//! Nothing of the turn is committed. One fenced write notes in the instance document why, which build it was, and when the same
//! build tries again; the same write moves the messages to that time (*parks* them), so that neither a sweep nor maintenance
//! takes them for overdue. The pauses grow from a second to five minutes. Another build does not wait: it takes the parked
//! messages at once. So does a turn with a cancellation, which can be committed without the orchestration's code, and without its
//! history (`unread`). The next commit that leaves no parked message behind ends the block.
//!
//! What can go wrong: the process ends between the batches of many messages (the rest is parked by whoever comes next); a message
//! comes during the pause (whoever fetches it parks it); another process commits first (nothing is written).

use super::release::due_from;
use crate::batch::{pack, write_fenced};
use crate::error::Failure;
use crate::model::{Block, BlockCause, Blocked, MessageDoc, noted};
use crate::read::{self, Asked, View};
use crate::store::{Fence, Store};
use cosmos::PartitionKey;

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
            // Whoever tries it next begins to count anew.
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
            // Our own write, whose response was lost, or another turn.
            None => match store.fence(pk).await? {
                Some(now) if now.doc.blocked.as_ref() == Some(&blocked) => fence = now,
                _ => return Err(Failure::raced(pk)),
            },
        }
    }
    Ok(blocked)
}

/// What a fetch does with a blocked instance.
#[derive(Debug)]
pub(super) enum Pause {
    /// Run what is due, as it was read.
    Over(Box<View>),
    /// The build waits until then.
    Until(u64),
    /// Another process has written the instance meanwhile: look again.
    Changed,
}

/// Looks whether this build waits. A process without a build (duroxide's polling runtime) waits for nobody.
pub(super) async fn pause_of(
    store: &Store,
    pk: &PartitionKey,
    view: View,
    asked: Asked,
    now_ms: u64,
) -> Result<Pause, Failure> {
    let Some(fence) = view.fence.clone() else {
        return Ok(Pause::Over(Box::new(view)));
    };
    let Some(blocked) = fence.doc.blocked.as_ref().filter(|blocked| blocked.until > now_ms) else {
        return Ok(Pause::Over(Box::new(view)));
    };
    let is_here = store.build.get().is_some_and(|build| build.name() == blocked.build);
    let cancels: Vec<MessageDoc> = view
        .messages
        .iter()
        .filter(|message| message.cancels())
        .cloned()
        .collect();
    if is_here && cancels.is_empty() {
        return Ok(match park(store, pk, &fence, &view.messages, blocked.until).await? {
            true => Pause::Until(blocked.until),
            false => Pause::Changed,
        });
    }
    // What is parked is due in fact: its place among the messages says since when.
    let mut parked = read::view(store, pk, blocked.until, asked).await?;
    if parked.fence.as_ref().is_none_or(|now| now.etag != fence.etag) || parked.foreign.is_some() {
        return Ok(Pause::Changed);
    }
    parked.messages.retain(|message| message.first_due_ms() <= now_ms);
    // A turn takes a page of messages. A cancellation behind it must not wait for the others.
    for cancel in cancels {
        if parked.messages.iter().all(|message| message.id != cancel.id) {
            parked.messages.push(cancel);
        }
    }
    Ok(Pause::Over(Box::new(parked)))
}

/// Parks messages that came during the pause. Returns `false` when another process has written the instance: it may take them.
async fn park(
    store: &Store,
    pk: &PartitionKey,
    fence: &Fence,
    messages: &[MessageDoc],
    until_ms: u64,
) -> Result<bool, Failure> {
    let mut fence = fence.clone();
    for group in pack(due_from(messages.iter(), until_ms)?) {
        let same = fence.doc.clone();
        match write_fenced(store, pk, &fence, &same, group).await? {
            Some(written) => fence = written.fence,
            None => return Ok(false),
        }
    }
    Ok(true)
}
