//! Which instance or work item to try next, for callers that no notifier tells (duroxide's polling runtime).
//!
//! This process knows of most work before any query could: it committed it. Such *hints* are tried first. A *sweep*
//! (one small page from every physical range, oldest due first) finds what other processes enqueued, at a steady
//! interval while there are hints and at once when a caller has none. Hints are only hints: each leads to a directed
//! fetch, which finds nothing at the price of one request when the hint was stale. Forgetting hints costs time, never
//! work, so their number is bounded.
//!
//! Timers are hints with a time. A hint for an instance whose turn is under way in this process waits for the end of
//! that turn instead of being spent on a held lock. A hint that was taken by a fetch which is dropped before it knows
//! (a runtime that shuts down) goes to the next.

use crate::error::Failure;
use crate::hints::{Hints, Place, WorkHint};
use crate::model::Kind;
use crate::provider::{ClaimedWork, CosmosProvider, Fetched, TurnItem};
use crate::repair::{Due, Repaired};
use crate::turn::TurnRequest;
use crate::work::WorkRequest;
use cosmos::{PartitionKey, Query};
use duroxide::providers::TagFilter;
use serde::Deserialize;
use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// Documents that a sweep takes from each physical range.
const PAGE: u32 = 100;
/// How long a caller that will not wait gives another of this process, which looks at the same instance, to claim it or to
/// leave it: longer than a look takes, and an end should that other be dead to the world.
const LOOK: Duration = Duration::from_secs(10);

/// One undirected fetch under way.
struct Search {
    deadline: Instant,
    /// The caller will come back for what it is not given now. Else "nothing" is an answer about the store, and an instance
    /// that another of this process only looks at may still be free.
    waits: bool,
    /// A caller that will not wait must have looked itself, to the end of the queue if need be: all that the first pages
    /// name may be held by others. One that waits looks when a sweep is due.
    must_sweep: bool,
    place: Option<Place>,
    tried: HashSet<String>,
}

impl Search {
    fn new(poll_timeout: Duration) -> Self {
        Search {
            deadline: Instant::now() + poll_timeout,
            waits: !poll_timeout.is_zero(),
            must_sweep: poll_timeout.is_zero(),
            place: None,
            tried: HashSet::new(),
        }
    }
}

impl CosmosProvider {
    /// The next turn of any instance.
    pub(crate) async fn next_turn(
        &self,
        request: TurnRequest<'_>,
        poll_timeout: Duration,
    ) -> Result<Option<TurnItem>, Failure> {
        if request
            .filter
            .is_some_and(|filter| filter.supported_duroxide_versions.is_empty())
        {
            return Ok(None);
        }
        let mut search = Search::new(poll_timeout);
        loop {
            let mut trouble = None;
            if self.turn_hints.is_sweep_due(self.sweep_interval) {
                trouble = self.sweep_turns(&mut search).await.err();
            }
            while let Some(instance) = self.turn_hints.pop(self.store.now(), |_| true) {
                if let Some(item) = self.try_turn(&search, &instance, request).await? {
                    return Ok(Some(item));
                }
                search.tried.insert(instance);
            }
            // A range that cannot be swept does not keep us from what we know of.
            if let Some(failure) = trouble {
                return Err(failure);
            }
            if search.must_sweep {
                self.sweep_turns(&mut search).await?;
                continue;
            }
            if Instant::now() >= search.deadline {
                return Ok(None);
            }
            self.turn_hints
                .wait(search.deadline, self.sweep_interval, self.store.now())
                .await;
            search.tried.clear();
        }
    }

    /// Spends a hint.
    async fn try_turn(
        &self,
        search: &Search,
        instance: &String,
        request: TurnRequest<'_>,
    ) -> Result<Option<TurnItem>, Failure> {
        // Given back after the instance is, should this be dropped: else whoever takes the hint would find it reserved.
        let unspent = self.turn_hints.unspent(instance);
        self.let_look(search, instance).await;
        let Some(opening) = self.turns.open(instance, self.store.now()) else {
            unspent.spend();
            if !self.park_if_running(instance) {
                self.turn_hints.push(instance.clone());
            }
            return Ok(None);
        };
        let pk = PartitionKey::new(instance)?;
        let fetched = self.store.fetch_turn(&pk, request, &self.turns).await;
        unspent.spend();
        drop(opening);
        match fetched {
            Ok(Fetched::Ready(item)) => return Ok(Some(item)),
            Ok(Fetched::Nothing | Fetched::Busy { .. } | Fetched::Foreign { .. }) => {}
            Err(failure) => pass_over(instance, failure)?,
        }
        // Somebody may have left a hint while we looked.
        self.turn_hints.wake(instance);
        Ok(None)
    }

    /// Before a caller that will not wait passes over an instance, whoever looks at it finishes.
    async fn let_look(&self, search: &Search, instance: &str) {
        if !search.waits && tokio::time::timeout(LOOK, self.turns.opened(instance)).await.is_err() {
            tracing::warn!(
                instance,
                "another fetch of this process takes very long; its instance is passed over"
            );
        }
    }

    /// A hint for an instance that this process runs already waits for the end of that turn.
    fn park_if_running(&self, instance: &String) -> bool {
        if !self.turns.is_running(instance, self.store.now()) {
            return false;
        }
        self.turn_hints.park(instance.clone());
        // The turn may have ended in between, and would not wake us again.
        if !self.turns.is_running(instance, self.store.now()) {
            self.turn_hints.wake(instance);
        }
        true
    }

    /// Makes hints of due messages, and repairs what is due.
    async fn sweep_turns(&self, search: &mut Search) -> Result<(), Failure> {
        let Some((alone, place)) = self.begin_sweep(&self.turn_hints, search).await else {
            return Ok(());
        };
        let query = Query::new(format!(
            "SELECT c.id, c.pk, c.type, c.dueAt FROM c \
             WHERE c.queue IN ('turn', 'repair') AND c.dueAt <= @now{} ORDER BY c.dueAt",
            self.slot_clause()
        ));
        let query = self.slot_params(query.param("@now", place.now_ms));
        let container = &self.store.container;
        let page = container
            .sweep::<Due, _, _>(&query, PAGE, place.cursor, |due| due.due_at)
            .await?;
        self.turn_hints.note_sweep();
        // Repairs take their time; others may sweep meanwhile.
        drop(alone);
        let mut found = false;
        for due in page.items {
            if due.kind != Kind::Message {
                found |= self.repair_found(&due).await;
                continue;
            }
            if search.tried.contains(&due.pk) {
                continue;
            }
            self.let_look(search, &due.pk).await;
            if !self.park_if_running(&due.pk) {
                self.turn_hints.push(due.pk);
                found = true;
            }
        }
        let next = page.cursor.map(|cursor| Place {
            now_ms: place.now_ms,
            cursor: Some(cursor),
        });
        end_sweep(&self.turn_hints, search, next, found);
        Ok(())
    }

    async fn repair_found(&self, due: &Due) -> bool {
        let mut done = Repaired::default();
        if let Err(error) = self.store.repair(due, &mut done).await {
            tracing::warn!(instance = due.pk, id = due.id, %error, "a repair failed; it stays due");
        }
        let found = !done.targets.is_empty();
        for target in done.targets {
            self.turn_hints.push(target);
        }
        found
    }

    /// Whether and from where to sweep. Of callers that only keep the interval, one sweeps and the others go on.
    async fn begin_sweep<'a, H: Clone + Eq + Hash>(
        &self,
        hints: &'a Hints<H>,
        search: &mut Search,
    ) -> Option<(MutexGuard<'a, ()>, Place)> {
        let (alone, place) = if search.must_sweep {
            (hints.sweeping.lock().await, search.place.take())
        } else {
            let alone = hints.sweeping.try_lock().ok()?;
            hints.is_sweep_due(self.sweep_interval).then_some(())?;
            (alone, hints.take_place())
        };
        // Noted before it is known to succeed: if it fails, not every call must fail before it looks at its hints.
        hints.note_sweep();
        Some((
            alone,
            place.unwrap_or_else(|| Place {
                now_ms: self.store.now(),
                cursor: None,
            }),
        ))
    }

    /// The next activity of any instance.
    pub(crate) async fn next_work(
        &self,
        request: WorkRequest<'_>,
        poll_timeout: Duration,
    ) -> Result<Option<ClaimedWork>, Failure> {
        if matches!(request.tags, TagFilter::None) {
            return Ok(None);
        }
        let mut search = Search::new(poll_timeout);
        loop {
            let mut trouble = None;
            if self.work_hints.is_sweep_due(self.sweep_interval) {
                trouble = self.sweep_work(&mut search, request).await.err();
            }
            let suits = |hint: &WorkHint| request.serves(hint.tag.as_deref(), hint.session.as_deref());
            while let Some(hint) = self.work_hints.pop(self.store.now(), suits) {
                let pk = PartitionKey::new(&hint.pk)?;
                let unspent = self.work_hints.unspent(&hint);
                let fetched = self.store.fetch_hinted_work(&pk, &hint, request, &self.works).await;
                unspent.spend();
                match fetched {
                    Ok(Fetched::Ready(claimed)) => return Ok(Some(claimed)),
                    Ok(Fetched::Nothing | Fetched::Busy { .. } | Fetched::Foreign { .. }) => {}
                    Err(failure) => pass_over(&hint.pk, failure)?,
                }
                search.tried.insert(work_key(&hint.pk, &hint.id));
            }
            // A range that cannot be swept does not keep us from what we know of.
            if let Some(failure) = trouble {
                return Err(failure);
            }
            if search.must_sweep {
                self.sweep_work(&mut search, request).await?;
                continue;
            }
            if Instant::now() >= search.deadline {
                return Ok(None);
            }
            self.work_hints
                .wait(search.deadline, self.sweep_interval, self.store.now())
                .await;
            search.tried.clear();
        }
    }

    /// Makes hints of due activities that the caller serves.
    async fn sweep_work(&self, search: &mut Search, request: WorkRequest<'_>) -> Result<(), Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct DueWork {
            id: String,
            pk: String,
            due_at: u64,
            sort_key: String,
            tag: Option<String>,
            session: Option<String>,
        }
        let Some((_alone, place)) = self.begin_sweep(&self.work_hints, search).await else {
            return Ok(());
        };
        let (tag_clause, tags) = match request.tags {
            TagFilter::Any | TagFilter::None => ("", Vec::new()),
            TagFilter::DefaultOnly => (" AND NOT IS_DEFINED(c.tag)", Vec::new()),
            TagFilter::Tags(tags) => (" AND ARRAY_CONTAINS(@tags, c.tag)", tags.iter().collect()),
            TagFilter::DefaultAnd(tags) => (
                " AND (NOT IS_DEFINED(c.tag) OR ARRAY_CONTAINS(@tags, c.tag))",
                tags.iter().collect(),
            ),
        };
        let session_clause = if request.session.is_some() {
            ""
        } else {
            " AND NOT IS_DEFINED(c.session)"
        };
        let query = Query::new(format!(
            "SELECT c.id, c.pk, c.dueAt, c.sortKey, c.tag, c.session FROM c \
             WHERE c.queue = 'work' AND c.dueAt <= @now{tag_clause}{session_clause}{} ORDER BY c.dueAt",
            self.slot_clause()
        ));
        let query = self.slot_params(query.param("@now", place.now_ms).param("@tags", &tags));
        let key = |due: &DueWork| (due.due_at, due.sort_key.clone());
        let container = &self.store.container;
        let page = container
            .sweep::<DueWork, _, _>(&query, PAGE, place.cursor, key)
            .await?;
        self.work_hints.note_sweep();
        let mut items = page.items;
        items.sort_by_key(key);
        let mut found = false;
        for DueWork {
            id, pk, tag, session, ..
        } in items
        {
            if !search.tried.contains(&work_key(&pk, &id)) {
                self.work_hints.push(WorkHint {
                    pk,
                    id,
                    tag,
                    session,
                    written: None,
                });
                found = true;
            }
        }
        let next = page.cursor.map(|cursor| Place {
            now_ms: place.now_ms,
            cursor: Some(cursor),
        });
        end_sweep(&self.work_hints, search, next, found);
        Ok(())
    }

    fn slot_clause(&self) -> &'static str {
        if self.slots == (0..=255) {
            ""
        } else {
            " AND c.slot BETWEEN @first AND @last"
        }
    }

    fn slot_params(&self, query: Query) -> Query {
        if self.slots == (0..=255) {
            return query;
        }
        query
            .param("@first", self.slots.start())
            .param("@last", self.slots.end())
    }
}

/// Notes where to go on: the caller itself if it must look, else whoever sweeps next, at once if this page named nothing
/// new.
fn end_sweep<H: Clone + Eq + Hash>(hints: &Hints<H>, search: &mut Search, next: Option<Place>, found: bool) {
    if search.must_sweep {
        search.must_sweep = next.is_some();
        search.place = next;
    } else {
        hints.keep_place(next, found);
    }
}

/// One instance whose documents cannot be read must not stand before all others: it is passed over, loudly. Trouble with
/// the store itself is everybody's.
fn pass_over(instance: &str, failure: Failure) -> Result<(), Failure> {
    if failure.is_transient() && !matches!(failure, Failure::Stale { .. } | Failure::Busy(_)) {
        return Err(failure);
    }
    tracing::error!(instance, %failure, "an instance is passed over");
    Ok(())
}

fn work_key(pk: &str, id: &str) -> String {
    format!("{id} {pk}")
}
