//! What a fetch does with a paused instance: nothing, unless a message cancels it.
//!
//! The view that every fetch reads has the instance document, so this costs no request, and the commit's fence keeps a turn from
//! being written that was fetched before the pause. Messages stay queued, parked or not (`recovery::park`).
//!
//! A cancellation takes effect at once: who cancels a paused instance wants it to end, and must not have to let it go on for that. Its
//! turn takes the parked messages with it, in their order; the functions commit it without running the orchestration's code (host
//! `gate/turn.rs`). The commit ends the pause with the instance.

use crate::error::Failure;
use crate::model::{MessageDoc, PARKED_MS};
use crate::read::{self, Asked, View};
use crate::store::Store;
use cosmos::PartitionKey;

/// What a fetch does with an instance that may be paused.
#[derive(Debug)]
pub(super) enum Hold {
    /// It is not paused: run what is due.
    No(Box<View>),
    /// It is paused, and a message cancels it: run everything that waits, as it was read.
    Cancelled(Box<View>),
    /// It is paused. Says whether something is due that is not parked.
    Yes { is_late: bool },
    /// Another process has written the instance meanwhile: look again.
    Changed,
}

/// Looks whether the instance is paused. Whoever began that, or ends it, has completed it before.
pub(super) async fn hold_of(
    store: &Store,
    pk: &PartitionKey,
    view: View,
    asked: Asked,
    now_ms: u64,
) -> Result<Hold, Failure> {
    let Some(fence) = view.fence.as_ref().filter(|fence| fence.doc.paused().is_some()) else {
        return Ok(Hold::No(Box::new(view)));
    };
    let cancels: Vec<MessageDoc> = view
        .messages
        .iter()
        .filter(|message| message.cancels())
        .cloned()
        .collect();
    if cancels.is_empty() {
        let is_late = !view.messages.is_empty();
        return Ok(Hold::Yes { is_late });
    }
    let mut all = read::view(store, pk, PARKED_MS, asked).await?;
    if all.fence.as_ref().is_none_or(|now| now.etag != fence.etag) || all.foreign.is_some() {
        return Ok(Hold::Changed);
    }
    // What is parked is due if its place among the messages says so; timers that are not due end with the instance.
    all.messages.retain(|message| message.first_due_ms() <= now_ms);
    // A turn takes a page of messages. A cancellation behind it must not wait for the others.
    for cancel in cancels {
        if all.messages.iter().all(|message| message.id != cancel.id) {
            all.messages.push(cancel);
        }
    }
    Ok(Hold::Cancelled(Box::new(all)))
}
