//! Instances as we show them, and the requests of our API: what duroxide's own calls do not answer.

use super::{CosmosProvider, Operation as _};
use crate::admin::{
    self, Count, InstanceCounts, InstanceFilter, InstancePage, InstanceSummary, SearchError, SearchFailure,
    SummaryChange,
};
use crate::enqueue::{self, EventRequest, Raised, StartRequest, Started};
use crate::examine::{self, Examination};
use crate::explain::{self, ExplainSettings, Explanation};
use crate::maintain::{self, HourCounts, Overdue, Overview, OverviewQuery};
use crate::read::{self, KeysAtStart};
use cosmos::PartitionKey;
use duroxide::providers::ProviderError;
use std::ops::Range;
use tokio::time::Instant;

impl CosmosProvider {
    /// Examines the store: the container's definition, the service's clock, and what the usual operations cost, with so many samples
    /// of each. It writes to partitions of its own and deletes what it wrote. What fails is a part of the findings.
    pub async fn examine(&self, samples: u32, deadline: Instant) -> Examination {
        Box::pin(examine::examine(&self.store, samples, deadline)).await
    }

    /// Starts an instance, if its id is free: one request. With a key, a repetition within a day is recognised, whatever became of the
    /// instance.
    ///
    /// # Errors
    /// When the store cannot be reached, the id or the input is too long, or the instance of that id is being deleted.
    pub async fn start(&self, request: StartRequest<'_>) -> Result<Started, ProviderError> {
        let started = Box::pin(enqueue::start(&self.store, &request)).await.of("start")?;
        if started == Started::Accepted {
            self.queued(request.instance);
        }
        Ok(started)
    }

    /// Raises an event, or puts it into a queue, if the instance is there and has not ended: one request. With a key, a repetition
    /// within a day is recognised.
    ///
    /// # Errors
    /// When the store cannot be reached, or the event is too large.
    pub async fn raise(&self, request: EventRequest<'_>) -> Result<Raised, ProviderError> {
        let raised = Box::pin(enqueue::raise(&self.store, &request)).await.of("raise")?;
        if raised == Raised::Accepted {
            self.queued(request.instance);
        }
        Ok(raised)
    }

    /// For the polling runtime of this process.
    pub(super) fn queued(&self, instance: &str) {
        let now = self.store.now();
        self.turn_candidates.push_at(now, now, instance.to_owned());
    }

    /// One instance, from the moment that its start was accepted; `None` when there is none. One request, one more for the
    /// input of a pending instance, and one for each long text.
    pub async fn instance_summary(&self, instance: &str) -> Result<Option<InstanceSummary>, ProviderError> {
        // An id that cannot be a partition key is that of no instance.
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        admin::instance_summary(&self.store, &pk).await.of("instance_summary")
    }

    /// The same, if it is not as it was when its summary had this `etag`, and without the input of a pending instance: one request, and
    /// one for each long text. For those who wait.
    pub async fn instance_summary_if_changed(
        &self,
        instance: &str,
        etag: &str,
    ) -> Result<SummaryChange, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(SummaryChange::Missing);
        };
        admin::instance_summary_if_changed(&self.store, &pk, etag)
            .await
            .of("instance_summary_if_changed")
    }

    /// The keys of an instance as its current execution found them when it began; `None` when it has had no turn. One request.
    ///
    /// # Errors
    /// When the store cannot be read, or holds a document of a newer release.
    pub async fn keys_at_start(&self, instance: &str) -> Result<Option<KeysAtStart>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        read::keys_at_start(&self.store, &pk).await.of("keys_at_start")
    }

    /// A page of the instances that match, newest first; `cursor` continues after another page of the same filter. One request per
    /// physical partition where an index decides the filter, and a limited number otherwise: then a page may be short, or empty, and
    /// still continue. The list has no inputs and outputs. Instances that need attention take three to five more requests per physical
    /// partition, and one for each hundred that have something overdue, a blocked activity or a dead letter.
    ///
    /// # Errors
    /// When the cursor cannot be used, no index serves the filter, or the store cannot be read.
    pub async fn search(
        &self,
        filter: &InstanceFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<InstancePage, SearchError> {
        let found = async {
            let marked = match filter.needs_attention {
                true => Some(maintain::marked(&self.store, &OverviewQuery::default(), filter.completed_from).await?),
                false => None,
            };
            admin::search(&self.store, filter, marked.as_ref(), cursor, limit).await
        };
        found.await.map_err(|failure| match failure {
            SearchFailure::BadCursor(why) => SearchError::BadCursor(why),
            SearchFailure::Unsupported(why) => SearchError::Unsupported(why),
            SearchFailure::Store(failure) => SearchError::Store(failure.of("search")),
        })
    }

    /// How many instances there are, by name and status. Two requests per physical partition; the service reads the indexed fields of
    /// every instance.
    pub async fn counts(&self) -> Result<Vec<Count>, ProviderError> {
        admin::counts(&self.store).await.of("counts")
    }

    /// How many instances of each status there are, and what they keep. It costs as much as [`counts`](Self::counts).
    pub async fn instance_counts(&self) -> Result<InstanceCounts, ProviderError> {
        admin::instance_counts(&self.store).await.of("instance_counts")
    }

    /// What needs attention. Each number is counted by an index, in one request per physical partition.
    pub async fn overview(&self, query: &OverviewQuery) -> Result<Overview, ProviderError> {
        maintain::overview(&self.store, query).await.of("overview")
    }

    /// Why an instance is where it is, since when, until when, and what to do; `None` when there is none. It never writes. Two requests
    /// if its history and what waits take a page each, one for each affinity session that a queued activity waits for, and the same
    /// for each child on the way to the true cause, at most 24 instances. A state that looks lost is read again before it is called so.
    pub async fn explain(
        &self,
        instance: &str,
        settings: &ExplainSettings,
    ) -> Result<Option<Explanation>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        explain::explain(&self.store, &pk, settings).await.of("explain")
    }

    /// What has been due the longest, of what the overview calls stuck or an overdue timer; the oldest first. One request per physical
    /// partition, and one more if something is there.
    pub async fn overdue(&self, query: &OverviewQuery, most: u32) -> Result<Overdue, ProviderError> {
        maintain::overdue(&self.store, query, most).await.of("overdue")
    }

    /// How many instances were started and have ended in each of these hours since 1970. At most three counts by an index for each hour
    /// and physical partition, and two for all hours if nothing happened in them.
    pub async fn throughput(&self, hours: Range<u64>) -> Result<Vec<HourCounts>, ProviderError> {
        maintain::throughput(&self.store, hours).await.of("throughput")
    }
}
