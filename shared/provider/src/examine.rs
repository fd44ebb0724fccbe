//! Examines the store for a person who wants to know whether a deployment is sound: the container's definition, the service's
//! clock, and what the usual operations cost in time and request units.
//!
//! ```text
//!   describe the container ──> differences, clock
//!   samples times: commit (a batch), read, query, claim (a patch), complete (a batch)   in a partition of its own
//! ```
//!
//! It judges nothing: the host compares the findings with what is promised. A refused operation is a finding, too. One that the
//! deadline cut off is not refused: it ends the samples, and is a finding only if none of its kind was complete.
//!
//! Invariant: it leaves nothing behind. The documents are deleted by the last operation of each sample, again after an error,
//! and expire by themselves if the process ends in between.

use crate::model::ScratchDoc;
use crate::schema::container_spec;
use crate::store::Store;
use cosmos::{Batch, Difference, Error, Etag, PageOptions, PartitionKey, Patch, Query, Retry, Tally, Throughput};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The documents of one sample: as many as the commit of a turn that schedules an activity writes.
const DOCUMENTS: usize = 3;

/// How long deleting may take after an error. It is more than the deadline permits, and bounded, so that a store that hangs does
/// not keep the findings back.
const REMOVAL: Duration = Duration::from_secs(2);

/// What an examination found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examination {
    /// Where the container differs from its definition; `None` if there is no container. Or why it cannot be described.
    pub container: Result<Option<Vec<Difference>>, String>,
    /// The service's clock, if it has answered with its time.
    pub clock: Option<ClockReading>,
    /// The operations, in their order. Those after one that was refused or timed out are missing.
    pub operations: Vec<MeasuredOperation>,
}

/// The clock of this process beside that of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// How far this process is ahead of the service, in ms; negative if it is behind.
    pub ahead_ms: i64,
    /// How wrong that may be, in ms: the service gives whole seconds, and its answer takes time.
    pub accuracy_ms: u64,
}

/// One kind of operation.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MeasuredOperation {
    /// Its name.
    pub name: &'static str,
    /// How long each took, with its retries.
    pub times: Vec<Duration>,
    /// Requests of all, repetitions included.
    pub requests: u64,
    /// Thousandths of a request unit of all.
    pub milli_request_units: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// It failed because the account does not permit it.
    pub denied: bool,
    /// The deadline passed before one was complete.
    pub timed_out: bool,
}

/// The operations of a sample, in their order.
const NAMES: [&str; 5] = ["commit", "read", "query", "claim", "complete"];

/// Examines the store with so many samples, or fewer if the time ends; at least one.
pub(crate) async fn examine(store: &Store, samples: u32, deadline: Instant) -> Examination {
    let began_ms = store.now();
    let described = store.container.within(deadline).describe().await;
    let ended_ms = store.now();
    let clock = match &described {
        Ok(Some(found)) => found.server_ms.map(|server_ms| reading(began_ms, ended_ms, server_ms)),
        _ => None,
    };
    let spec = container_spec("", Throughput::Serverless);
    let container = described.map(|found| found.map(|found| spec.differences(&found.description)));
    let container = container.map_err(|error| error.to_string());
    let mut operations = Vec::new();
    if matches!(&container, Ok(Some(_))) {
        let mut measured = NAMES.map(|name| MeasuredOperation {
            name,
            ..MeasuredOperation::default()
        });
        for number in 0..samples.max(1) {
            let is_over = number > 0 && Instant::now() >= deadline;
            if is_over || !sample(store, deadline, &mut measured).await {
                break;
            }
        }
        operations = measured.into_iter().filter(was_tried).collect();
    }
    Examination {
        container,
        clock,
        operations,
    }
}

fn was_tried(operation: &MeasuredOperation) -> bool {
    operation.error.is_some() || operation.timed_out || !operation.times.is_empty()
}

/// The service's time lies within the second that it names, and somewhere between our two looks at the clock.
fn reading(began_ms: u64, ended_ms: u64, server_ms: u64) -> ClockReading {
    let here = i64::try_from(began_ms / 2 + ended_ms / 2).unwrap_or(i64::MAX);
    let there = i64::try_from(server_ms.saturating_add(500)).unwrap_or(i64::MAX);
    ClockReading {
        ahead_ms: here.saturating_sub(there),
        accuracy_ms: 500 + ended_ms.saturating_sub(began_ms) / 2,
    }
}

/// Whether an operation that ends now with this error was cut off by the deadline, and not refused.
fn is_cut_off(error: &Error, deadline: Instant) -> bool {
    // A throttled request fails before the deadline if the wait for its repetition does not fit.
    let wait = match error {
        Error::Throttled { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    error.is_transient() && Instant::now() + wait >= deadline
}

/// One of each operation. Returns false if it is the last: after a refusal, or at the deadline.
async fn sample(store: &Store, deadline: Instant, measured: &mut [MeasuredOperation; 5]) -> bool {
    let name = ScratchDoc::partition(&store.ids.unique());
    let pk = match PartitionKey::new(&name) {
        Ok(pk) => pk,
        Err(error) => {
            measured[0].error = Some(error.to_string());
            return false;
        }
    };
    let scratch = Scratch { store, pk, deadline };
    let outcome = scratch.run(measured).await;
    if outcome.is_err() {
        // Whatever exists of it goes with its TTL if this is refused as well.
        scratch.remove().await.unwrap_or_default();
    }
    outcome.is_ok()
}

/// The partition of one sample.
struct Scratch<'a> {
    store: &'a Store,
    pk: PartitionKey,
    deadline: Instant,
}

/// The operation was refused or cut off: the sample ends.
struct Ended;

impl Scratch<'_> {
    async fn run(&self, measured: &mut [MeasuredOperation; 5]) -> Result<(), Ended> {
        let [commit, read, query, claim, complete] = measured;
        let docs: Vec<ScratchDoc> = (0..DOCUMENTS)
            .map(|number| ScratchDoc::new(self.pk.as_str(), number))
            .collect();
        let written = self.measure(commit, async |container| {
            let mut batch = Batch::new();
            for doc in &docs {
                batch.create(&doc.id, doc)?;
            }
            container.batch(&self.pk, &batch, Retry::Idempotent).await
        });
        let written = written.await?;
        let found = self.measure(read, async |container| {
            container.read::<Value>(&self.pk, &docs[1].id).await
        });
        let found = found.await?;
        let all = self.measure(query, async |container| {
            let query = Query::new("SELECT * FROM c");
            container
                .query_page::<Value>(&self.pk, &query, &PageOptions::default())
                .await
        });
        all.await?;
        let etag = found.map(|found| found.etag);
        let etag = etag.or_else(|| written.get(1)?.etag.clone());
        let etag = etag.unwrap_or_else(|| Etag::new("\"unknown\""));
        let claimed = self.measure(claim, async |container| {
            let patch = Patch::new().set("/text", "claimed");
            let claimed = container.patch::<Value>(&self.pk, &docs[1].id, &patch, &etag, Retry::Idempotent);
            claimed.await
        });
        claimed.await?;
        self.measure(complete, async |container| {
            let mut batch = Batch::new();
            for doc in &docs {
                batch.delete(&doc.id, None)?;
            }
            container.batch(&self.pk, &batch, Retry::Idempotent).await
        })
        .await
        .map(drop)
    }

    async fn measure<T>(
        &self,
        measured: &mut MeasuredOperation,
        work: impl AsyncFnOnce(cosmos::Container) -> Result<T, Error>,
    ) -> Result<T, Ended> {
        let tally = Arc::<Tally>::default();
        let container = self.store.container.within(self.deadline).tallied(&tally);
        let began = Instant::now();
        let outcome = work(container).await;
        if outcome.as_ref().is_err_and(|error| is_cut_off(error, self.deadline)) {
            measured.timed_out = measured.times.is_empty();
            return Err(Ended);
        }
        let total = tally.total();
        measured.requests += total.requests;
        measured.milli_request_units += total.milli_request_units;
        match outcome {
            Ok(value) => {
                measured.times.push(began.elapsed());
                Ok(value)
            }
            Err(error) => {
                measured.denied = error.is_access();
                measured.error = Some(error.to_string());
                Err(Ended)
            }
        }
    }

    /// Deletes what a sample has left, by their ids: the operation that was refused may be the query.
    async fn remove(&self) -> Result<(), Error> {
        let container = self.store.container.within(Instant::now() + REMOVAL);
        let mut outcome = Ok(());
        for number in 0..DOCUMENTS {
            let id = ScratchDoc::id(number);
            let deleted = container.delete(&self.pk, &id, None, Retry::Idempotent).await;
            if let Err(error) = deleted
                && !error.is_not_found()
            {
                outcome = Err(error);
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_second_that_the_service_names() {
        let same = reading(10_400, 10_600, 10_000);
        assert_eq!((same.ahead_ms, same.accuracy_ms), (0, 600));
        assert_eq!(reading(70_400, 70_600, 10_000).ahead_ms, 60_000);
        assert_eq!(reading(400, 600, 10_000).ahead_ms, -10_000);
    }
}
