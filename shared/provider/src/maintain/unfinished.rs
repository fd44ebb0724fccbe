//! Unfinished commits and deletions: whatever is due in the `repair` queue and is no intent.
//!
//! Each is ended by the same code that a fetch uses when it meets one (`finish`). One may have a thousand operations to
//! publish, and what it has published when its time ends is done: the next try goes on.

use super::settle::{Fate, Time, settle};
use super::{Cursor, PageRequest, PassOutcome};
use crate::error::Failure;
use crate::repair::{Due, Repaired};
use crate::store::Store;
use cosmos::Query;
use tokio::time::Instant;

impl Store {
    pub(crate) async fn unfinished_pass(&self, request: PageRequest) -> Result<PassOutcome, Failure> {
        let place = request.cursor.unwrap_or_else(|| Cursor::begin(self.now()));
        if Instant::now() >= request.deadline {
            return Ok(PassOutcome::untouched(place));
        }
        let time = Time::until(request.deadline);
        let query = Query::new(
            "SELECT c.id, c.pk, c.type, c.dueAt FROM c \
             WHERE c.queue = 'repair' AND c.type != 'intent' AND c.dueAt <= @now ORDER BY c.dueAt",
        )
        .param("@now", place.now_ms);
        let page = self
            .container
            .within(request.deadline)
            .sweep::<Due, _, _>(&query, request.most, place.sweep.clone(), |due| due.due_at)
            .await?;
        let items = page.items.iter().filter(|due| !place.passes_by(&key_of(due)));
        let work = settle(
            items.collect(),
            time,
            |due| &due.pk,
            |due, _| Box::pin(self.repaired(due)),
        );
        let fates = work.await;
        let (mut pass, mut failed, mut is_cut) = (PassOutcome::default(), Vec::new(), false);
        for (due, fate) in fates {
            let done = match fate {
                Fate::Settled(Ok(done)) => done,
                Fate::Settled(Err(error)) => {
                    tracing::warn!(instance = due.pk, id = due.id, %error, "a repair failed; it stays due");
                    failed.push(key_of(due));
                    continue;
                }
                Fate::Slow => {
                    tracing::warn!(instance = due.pk, id = due.id, "a repair took too long; it stays due");
                    failed.push(key_of(due));
                    continue;
                }
                Fate::Cut => {
                    is_cut = true;
                    continue;
                }
            };
            pass.done += done.commits + done.deletions;
            pass.found += 1;
            pass.targets.extend(done.targets);
        }
        pass.failed = failed.len() as u64;
        pass.found += pass.failed;
        pass.cursor = if is_cut {
            Some(place.without(failed))
        } else {
            place.after(page.cursor)
        };
        Ok(pass)
    }

    async fn repaired(&self, due: &Due) -> Result<Repaired, Failure> {
        let mut done = Repaired::default();
        self.repair(due, &mut done).await?;
        Ok(done)
    }
}

/// Names a due document within a page. A partition's name may have any character, a document's id has no line break.
fn key_of(due: &Due) -> String {
    format!("{}\n{}", due.id, due.pk)
}
