//! Numbers over all instances, and maintenance on request.

use super::{Answer, ok};
use crate::api::{Api, Invocation};
use crate::body::Body;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Count, Counts, MaintenanceReport, MaintenanceRequest, Overview, StoreStats};
use crate::view;
use axum::Extension;
use axum::extract::{RawQuery, State};
use duroxide::providers::ProviderAdmin as _;
use duroxide_cosmos::OverviewQuery;

/// How many instances there are, by orchestration and status.
#[utoipa::path(get, path = "/v1/counts", tag = "numbers", operation_id = "getCounts",
    responses((status = 200, description = "The counts", body = Counts)))]
pub(crate) async fn counts(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let counts = api.store().counts().await?;
    let counts = counts.into_iter().map(|count| Count {
        status: view::status(&count.status),
        name: count.name,
        count: count.count,
    });
    let mut counts: Vec<Count> = counts.collect();
    counts.sort_by(|a, b| a.name.cmp(&b.name).then(a.status.cmp(&b.status)));
    ok(&Counts {
        total: counts.iter().map(|count| count.count).sum(),
        counts,
    })
}

/// What needs attention: failed, blocked, stuck, overdue, dead letters.
#[utoipa::path(get, path = "/v1/overview", tag = "numbers", operation_id = "getOverview",
    responses((status = 200, description = "The overview", body = Overview)))]
pub(crate) async fn overview(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let overview = api.store().overview(&OverviewQuery::default()).await?;
    ok(&view::overview(&overview))
}

/// Numbers over the whole store: instances, executions, events, queues.
#[utoipa::path(get, path = "/v1/stats", tag = "numbers", operation_id = "getStoreStats",
    responses((status = 200, description = "The numbers", body = StoreStats)))]
pub(crate) async fn stats(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let store = api.store();
    let (counts, queues, dead_letters) = futures::try_join!(
        store.instance_counts(),
        store.get_queue_depths(),
        store.dead_letter_count(),
    )?;
    ok(&StoreStats {
        total: counts.total as u64,
        pending: counts.pending as u64,
        running: counts.running as u64,
        blocked: counts.blocked as u64,
        paused: counts.paused as u64,
        completed: counts.completed as u64,
        failed: counts.failed as u64,
        cancelled: counts.cancelled as u64,
        executions: counts.executions,
        events: counts.events,
        messages_due: queues.orchestrator_queue as u64,
        activities_due: queues.worker_queue as u64,
        timers_pending: queues.timer_queue as u64,
        dead_letters,
    })
}

/// Runs maintenance now, and answers its report.
///
/// It ends in time for the answer; `leftOver` says whether there is more to do. The scheduled function continues anyway.
#[utoipa::path(post, path = "/v1/maintenance", tag = "operators", operation_id = "runMaintenance",
    request_body = MaintenanceRequest,
    responses((status = 200, description = "What it did", body = MaintenanceReport)))]
pub(crate) async fn maintenance(
    State(api): State<Api>,
    invocation: Option<Extension<Invocation>>,
    RawQuery(query): RawQuery,
    Body(request): Body<MaintenanceRequest>,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let invocation = invocation.map(|Extension(invocation)| invocation).unwrap_or_default();
    let failed = |error: serde_json::Error| {
        tracing::error!(%error, "a report of maintenance cannot be written");
        Refusal::internal()
    };
    let request = serde_json::to_value(&request).map_err(failed)?;
    let report = api
        .connection()
        .maintain(&request, &api.parts.maintenance, invocation.time_left())
        .await
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    let report = serde_json::to_value(&report).map_err(failed)?;
    let report: MaintenanceReport = serde_json::from_value(report).map_err(failed)?;
    ok(&report)
}
