//! Paying intents: writing each owed message into its target's partition, then forgetting the intent.
//!
//! Delivery is idempotent. The message's id is derived from the intent, so a second delivery conflicts, with the
//! message itself or with the receipt that it left when it was consumed: either way it has been delivered.
//!
//! This is what the maker of an intent does, right after its commit; it counts no attempts. Whoever finds an intent that
//! is still there later counts them: see `maintain::outbox`.

use crate::error::Failure;
use crate::model::IntentDoc;
use crate::store::Store;
use cosmos::{Container, PartitionKey, Retry};
use futures::future::join_all;

/// How many deliveries are under way at once.
pub(crate) const AT_ONCE: usize = 16;

impl Store {
    /// Delivers what can be delivered, and answers the targets that were reached. What fails stays owed: the repair
    /// sweep finds it when it is due.
    pub(crate) async fn deliver(&self, pk: &PartitionKey, intents: &[IntentDoc]) -> Vec<String> {
        let (mut paid, mut targets) = (Vec::new(), Vec::new());
        for group in intents.chunks(AT_ONCE) {
            let outcomes = join_all(group.iter().map(|intent| self.deliver_one(&self.container, intent))).await;
            for (intent, outcome) in group.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => {
                        paid.push(intent.id.clone());
                        targets.push(intent.message.pk.clone());
                    }
                    Err(error) => {
                        tracing::warn!(instance = pk.as_str(), target = intent.message.pk, %error,
                            "an intent is not delivered yet; maintenance will try again");
                    }
                }
            }
        }
        if let Err(error) = self.discard_all(pk, paid).await {
            tracing::warn!(instance = pk.as_str(), %error,
                "delivered intents could not be removed; they will be delivered again, without effect");
        }
        targets
    }

    /// Writes the owed message.
    pub(crate) async fn deliver_one(&self, container: &Container, intent: &IntentDoc) -> Result<(), Failure> {
        let target = PartitionKey::new(&intent.message.pk)?;
        let message = intent.message.delivered_at(self.now());
        match container.create(&target, &*message, Retry::Idempotent).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
