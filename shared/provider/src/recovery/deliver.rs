//! Delivering intents: writing each message into its target's partition, then removing the intent.
//!
//! Delivery is idempotent. The message's id derives from the intent, so a second delivery conflicts with the message, or
//! with the receipt that it left when it was consumed: either way it was delivered.
//!
//! The maker of an intent delivers it right after its commit and counts no attempts. All of it has one time limit (the
//! outbox's patience): the commit has happened, its caller waits, and one target that does not respond must not hold it.
//! `outbox` delivers what is left, and counts.

use crate::batch;
use crate::enqueue;
use crate::error::Failure;
use crate::model::IntentDoc;
use crate::store::Store;
use cosmos::{Container, PartitionKey};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How many deliveries are under way at once.
pub(crate) const AT_ONCE: usize = 16;
/// Which part of the time is kept for removing what was delivered.
const REMOVAL: u32 = 5;

/// Delivers what can be delivered within the outbox's patience, and returns the targets that were reached. What fails or is
/// not reached in time stays due for the outbox pass.
pub(crate) async fn deliver(store: &Store, pk: &PartitionKey, intents: &[IntentDoc]) -> Vec<String> {
    if intents.is_empty() {
        return Vec::new();
    }
    let patience = store.outbox.patience;
    let end = Instant::now() + patience;
    // Boxed and collected first, as in `page`.
    let deliveries: Vec<BoxFuture<'_, _>> = intents
        .iter()
        .map(|intent| -> BoxFuture<'_, _> {
            Box::pin(async move { (intent, deliver_one(store, &store.container, intent).await) })
        })
        .collect();
    let mut outcomes = futures::stream::iter(deliveries)
        .buffer_unordered(AT_ONCE)
        .take_until(Box::pin(sleep_until(end - patience / REMOVAL)));
    let (mut delivered, mut targets) = (Vec::new(), Vec::new());
    while let Some((intent, outcome)) = outcomes.next().await {
        match outcome {
            Ok(()) => {
                delivered.push(intent.id.clone());
                targets.push(intent.message.pk.clone());
            }
            Err(error) => {
                tracing::warn!(instance = pk.as_str(), target = intent.message.pk, %error,
                    "an intent is not delivered yet; maintenance will try again");
            }
        }
    }
    drop(outcomes);
    if targets.len() < intents.len() {
        let left = intents.len() - targets.len();
        tracing::warn!(
            instance = pk.as_str(),
            left,
            "the outbox pass of maintenance delivers the rest of a commit's messages"
        );
    }
    if timeout_at(end, forget(store, pk.as_str(), delivered)).await.is_err() {
        tracing::warn!(
            instance = pk.as_str(),
            "delivered intents were not removed in time; they will be delivered again, without effect"
        );
    }
    targets
}

/// Writes the message of one intent.
pub(crate) async fn deliver_one(store: &Store, container: &Container, intent: &IntentDoc) -> Result<(), Failure> {
    let target = PartitionKey::new(&intent.message.pk)?;
    let message = intent.message.delivered_at(store.now());
    enqueue::create(store, container, &target, &message).await
}

/// Removes delivered intents. One that stays is delivered again, without effect.
pub(super) async fn forget(store: &Store, pk: &str, ids: Vec<String>) {
    let removed = async { batch::discard_all(store, &PartitionKey::new(pk)?, ids).await };
    if let Err(error) = removed.await {
        tracing::warn!(instance = pk, %error,
            "delivered intents could not be removed; they will be delivered again, without effect");
    }
}
