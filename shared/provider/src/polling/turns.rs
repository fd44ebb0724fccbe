//! Polling for turns. Its sweep also recovers what is due in the recovery queue.

use super::candidates::{Candidates, Place};
use super::{PAGE, Search, Source, begin_sweep, end_sweep, handover, park_late, skip};
use crate::due::{Due, Target};
use crate::error::Failure;
use crate::model::Queue;
use crate::model::sql::TURN_LANE;
use crate::recovery::{self, DueDocument};
use crate::store::Store;
use crate::turn::{self, ClaimedTurns, DueTurn, Looked, Reservation, TurnRequest};
use crate::types::{Fetched, TurnItem};
use cosmos::{PartitionKey, Query};
use futures::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;

/// How long a caller that will not wait gives another fetch of this process, which examines the same instance, to claim
/// or leave it: longer than a fetch takes, with an end in case that one hangs.
const EXAMINE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Turns<'a> {
    pub store: &'a Arc<Store>,
    pub claimed: &'a Arc<ClaimedTurns>,
    pub candidates: &'a Arc<Candidates<String>>,
    pub request: TurnRequest<'a>,
}

impl Source for Turns<'_> {
    type Candidate = String;
    type Item = TurnItem;

    fn store(&self) -> &Store {
        self.store
    }

    fn candidates(&self) -> &Candidates<String> {
        self.candidates
    }

    fn serves(&self, _: &Search, _: &String) -> bool {
        true
    }

    fn key(instance: &String) -> String {
        instance.clone()
    }

    async fn attempt(&self, search: &Search, instance: &String) -> Result<Option<TurnItem>, Failure> {
        // Declared before the reservation, so that it is dropped after it: whoever takes the candidate next must not find
        // the instance reserved.
        let taken = self.candidates.taken(instance);
        self.let_others_examine(search, instance).await;
        let Some(reservation) = self.claimed.reserve(instance, self.store.now()) else {
            taken.done();
            if !self.park_if_running(instance) {
                self.candidates.push(instance.clone());
            }
            return Ok(None);
        };
        let pk = PartitionKey::new(instance)?;
        let store = Arc::new(self.store.step(self.store.spent.take_spare(instance)));
        let looked = turn::look(&store, &pk, self.request, self.claimed).await;
        taken.done();
        let fetched = match looked {
            Ok(Looked::Due(due)) => self.claim(&store, pk, *due, reservation).await,
            Ok(Looked::NotDue(fetched)) => self.leave(instance, reservation, Ok(*fetched)),
            Err(failure) => self.leave(instance, reservation, Err(failure)),
        };
        if !matches!(fetched, Ok(Fetched::Ready(_) | Fetched::GivenUp(_))) {
            store.spare_step(instance);
        }
        match fetched {
            Ok(Fetched::Ready(item)) => return Ok(Some(item)),
            Ok(Fetched::GivenUp(given_up)) => {
                let targets = given_up.due.iter().map(|due| due.target.instance());
                let again = given_up.more.then_some(instance.as_str());
                targets
                    .chain(again)
                    .for_each(|target| self.candidates.push(target.to_owned()));
            }
            // The activities among them are found by the workers' sweep.
            Ok(Fetched::RolledForward { due }) => self.add(due.into_iter().chain([Due::turn(instance)])),
            Ok(
                Fetched::Nothing
                | Fetched::Busy { .. }
                | Fetched::Blocked(_)
                | Fetched::StillBlocked { .. }
                | Fetched::Paused { is_late: false }
                | Fetched::Foreign { .. },
            ) => {}
            // The next sweep would find it again.
            Ok(Fetched::Paused { is_late: true }) => park_late(self.store, instance).await?,
            Err(failure) => skip(instance, failure)?,
        }
        Ok(None)
    }

    async fn sweep(&self, search: &mut Search) -> Result<(), Failure> {
        let Some((alone, place)) = begin_sweep(self.store, self.candidates, search).await else {
            return Ok(());
        };
        let query = Query::new(format!(
            "SELECT c.id, c.pk, c.type, c.queue, c.dueAt FROM c \
             WHERE c.lane = {TURN_LANE} AND c.dueAt <= @now ORDER BY c.lane, c.dueAt"
        ))
        .param("@now", place.now_ms);
        let container = &self.store.container;
        let page = container
            .sweep::<DueDocument, _, _>(&query, PAGE, place.cursor, |due| due.due_at)
            .await?;
        self.candidates.note_sweep();
        // Recovery takes its time; others may sweep meanwhile.
        drop(alone);
        let mut found = false;
        for due in page.items {
            if due.queue != Queue::Turn {
                found |= self.recover(&due).await;
                continue;
            }
            if search.tried.contains(&due.pk) || (search.waits && self.candidates.is_left(&due.pk, place.now_ms)) {
                continue;
            }
            self.let_others_examine(search, &due.pk).await;
            if !self.park_if_running(&due.pk) {
                self.candidates.push(due.pk);
                found = true;
            }
        }
        let next = page.cursor.map(|cursor| Place {
            now_ms: place.now_ms,
            cursor: Some(cursor),
        });
        end_sweep(self.candidates, search, next, found);
        Ok(())
    }
}

impl Turns<'_> {
    /// Claims the turn, or gives it back if the caller is gone by then.
    async fn claim(
        &self,
        step: &Arc<Store>,
        pk: PartitionKey,
        due: DueTurn,
        reservation: Reservation,
    ) -> Result<Fetched<TurnItem>, Failure> {
        let (store, claimed) = (Arc::clone(step), Arc::clone(self.claimed));
        let candidates = Arc::clone(self.candidates);
        let lock_timeout = self.request.lock_timeout;
        // The reservation lasts until the claim is taken or given back. A caller that does not wait must not learn of a claim
        // that may still be given back.
        let claiming = async move {
            let fetched = turn::claim(&store, &pk, due, lock_timeout, &claimed).await;
            let is_claimed = matches!(fetched, Ok(Fetched::Ready(_)));
            let fetched = fetched.map(|fetched| fetched.map(|item| (item, reservation)));
            if !is_claimed {
                // Another fetch may have parked the candidate meanwhile.
                candidates.wake(&pk.as_str().to_owned());
            }
            fetched
        };
        let (store, claimed) = (Arc::clone(self.store), Arc::clone(self.claimed));
        let candidates = Arc::clone(self.candidates);
        let give_back = move |(item, reservation): (TurnItem, Reservation)| {
            async move {
                let instance = item.item.instance;
                turn::give_back(&store, &item.lock_token, &claimed).await;
                drop(reservation);
                candidates.wake(&instance);
                candidates.push(instance);
            }
            .boxed()
        };
        let fetched = handover::claim(claiming, give_back).await?;
        Ok(fetched.map(|(item, _)| item))
    }

    /// Ends a look that claims nothing.
    fn leave<T>(&self, instance: &String, reservation: Reservation, fetched: T) -> T {
        drop(reservation);
        // Another fetch may have parked the candidate meanwhile.
        self.candidates.wake(instance);
        fetched
    }

    /// Before a caller that will not wait skips an instance, the fetch that examines it ends.
    async fn let_others_examine(&self, search: &Search, instance: &str) {
        let examined = self.claimed.unreserved(instance);
        if !search.waits && tokio::time::timeout(EXAMINE, examined).await.is_err() {
            tracing::warn!(
                instance,
                "another fetch of this process takes very long; its instance is skipped"
            );
        }
    }

    /// A candidate whose instance has a turn under way in this process waits for the end of that turn.
    fn park_if_running(&self, instance: &String) -> bool {
        if !self.claimed.is_running(instance, self.store.now()) {
            return false;
        }
        self.candidates.park(instance.clone());
        // The turn may have ended in between, and would not wake the candidate again.
        if !self.claimed.is_running(instance, self.store.now()) {
            self.candidates.wake(instance);
        }
        true
    }

    /// Recovers one document. Returns whether an instance became due by it.
    async fn recover(&self, due: &DueDocument) -> bool {
        let recovered = recovery::recover(self.store, due).await.unwrap_or_else(|error| {
            tracing::warn!(instance = due.pk, id = due.id, %error, "recovery failed; the document stays due");
            Default::default()
        });
        let found = !recovered.due.is_empty();
        self.add(recovered.due);
        found
    }

    /// Adds the instances among those who have something to do.
    fn add(&self, due: impl IntoIterator<Item = Due>) {
        let now = self.store.now();
        for Due { target, at_ms, .. } in due {
            if let Target::Turn { instance } = target {
                self.candidates.push_at(at_ms.unwrap_or(now), now, instance);
            }
        }
    }
}
