//! Enqueueing from outside a turn: one request, and the answer may be lost without harm.

use crate::due::Due;
use crate::error::Failure;
use crate::model::{Envelope, MessageDoc, WorkDoc};
use crate::store::{Store, check_size, millis};
use crate::turn::check_session;
use cosmos::{PartitionKey, Retry};
use duroxide::providers::WorkItem;
use std::time::Duration;

impl Store {
    /// Queues a message for its instance; answers the instance, and when the message is due.
    pub(crate) async fn enqueue_message(
        &self,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<(String, u64), Failure> {
        let now = self.now();
        let visible_ms = delay.map(|delay| now.saturating_add(millis(delay)));
        let due = Due::message(item, visible_ms)
            .ok_or_else(|| Failure::Refused("an activity is queued for workers, not for a turn".to_owned()))?;
        let (target, due_at) = (due.target.instance(), due.at_ms.unwrap_or(now).max(now));
        let pk = PartitionKey::new(target)?;
        let envelope = Envelope {
            id: self.ids.unique(),
            sort_key: self.sequence.next(now),
            due_at,
            receipt: false,
        };
        let message = MessageDoc::new(target, envelope, item)?;
        check_size("the input or event", target, &message)?;
        match self.container.create(&pk, &message, Retry::Idempotent).await {
            Ok(_) => {}
            // The id is ours alone: the conflict is the echo of our own first attempt.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        Ok((target.to_owned(), due_at))
    }

    /// Queues an activity outside a turn.
    pub(crate) async fn enqueue_work(&self, item: &WorkItem) -> Result<WorkDoc, Failure> {
        let now = self.now();
        let doc = WorkDoc::new(item, &self.sequence.next(now), now)?
            .ok_or_else(|| Failure::Refused("only an activity is queued for workers".to_owned()))?;
        let pk = PartitionKey::new(&doc.pk)?;
        check_session(&doc)?;
        check_size("the input of the activity", &doc.pk, &doc)?;
        match self.container.create(&pk, &doc, Retry::Idempotent).await {
            Ok(_) => Ok(doc),
            // The activity is queued already, by us or by its turn: it must not lose its holder or its attempts.
            Err(error) if error.is_conflict() => Ok(doc),
            Err(error) => Err(error.into()),
        }
    }
}
