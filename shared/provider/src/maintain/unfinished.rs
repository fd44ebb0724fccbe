//! Unfinished commits and deletions: whatever is due in the `repair` queue and is no intent.
//!
//! Each is ended by the same code that a fetch uses when it meets one (`finish`). They are taken one after the other: one
//! commit may have a thousand operations to publish.

use super::{Cursor, Pass, Portion};
use crate::error::Failure;
use crate::repair::{Due, Repaired};
use crate::store::Store;
use cosmos::Query;
use tokio::time::Instant;

impl Store {
    pub(crate) async fn unfinished_pass(&self, portion: Portion) -> Result<Pass, Failure> {
        let place = portion.cursor.unwrap_or_else(|| Cursor::begin(self.now()));
        if Instant::now() >= portion.deadline {
            return Ok(Pass::untouched(place));
        }
        let query = Query::new(
            "SELECT c.id, c.pk, c.type, c.dueAt FROM c \
             WHERE c.queue = 'repair' AND c.type != 'intent' AND c.dueAt <= @now ORDER BY c.dueAt",
        )
        .param("@now", place.now_ms);
        let page = self
            .container
            .within(portion.deadline)
            .sweep::<Due, _, _>(&query, portion.most, place.sweep.clone(), |due| due.due_at)
            .await?;
        let mut pass = Pass {
            found: page.items.len() as u64,
            ..Pass::default()
        };
        for due in &page.items {
            let mut done = Repaired::default();
            match tokio::time::timeout_at(portion.deadline, self.repair(due, &mut done)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(instance = due.pk, id = due.id, %error, "a repair failed; it stays due");
                    pass.failed += 1;
                }
                Err(_) => tracing::debug!(instance = due.pk, id = due.id, "a repair was cut short; it stays due"),
            }
            pass.done += done.commits + done.deletions;
            pass.targets.extend(done.targets);
            if Instant::now() >= portion.deadline {
                pass.cursor = Some(place);
                return Ok(pass);
            }
        }
        pass.cursor = place.after(page.cursor);
        Ok(pass)
    }
}
