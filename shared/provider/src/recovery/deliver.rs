//! Delivering intents: writing each message into its target's partition, then removing the intent.
//!
//! Delivery is idempotent. The message's id derives from the intent, so a second delivery conflicts with the message, or
//! with the receipt that it left when it was consumed: either way it was delivered.
//!
//! The maker of an intent delivers it right after its commit and counts no attempts. `outbox` delivers what is found
//! later, and counts.

use crate::batch;
use crate::error::Failure;
use crate::model::IntentDoc;
use crate::store::Store;
use cosmos::{Container, PartitionKey, Retry};
use futures::future::join_all;

/// How many deliveries are under way at once.
pub(crate) const AT_ONCE: usize = 16;

/// Delivers what can be delivered, and returns the targets that were reached. What fails stays due for the outbox pass.
pub(crate) async fn deliver(store: &Store, pk: &PartitionKey, intents: &[IntentDoc]) -> Vec<String> {
    let (mut delivered, mut targets) = (Vec::new(), Vec::new());
    for group in intents.chunks(AT_ONCE) {
        let outcomes = join_all(group.iter().map(|intent| deliver_one(store, &store.container, intent))).await;
        for (intent, outcome) in group.iter().zip(outcomes) {
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
    }
    forget(store, pk.as_str(), delivered).await;
    targets
}

/// Writes the message of one intent.
pub(crate) async fn deliver_one(store: &Store, container: &Container, intent: &IntentDoc) -> Result<(), Failure> {
    let target = PartitionKey::new(&intent.message.pk)?;
    let message = intent.message.delivered_at(store.now());
    match container.create(&target, &*message, Retry::Idempotent).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes delivered intents. One that stays is delivered again, without effect.
pub(super) async fn forget(store: &Store, pk: &str, ids: Vec<String>) {
    let removed = async { batch::discard_all(store, &PartitionKey::new(pk)?, ids).await };
    if let Err(error) = removed.await {
        tracing::warn!(instance = pk, %error,
            "delivered intents could not be removed; they will be delivered again, without effect");
    }
}
