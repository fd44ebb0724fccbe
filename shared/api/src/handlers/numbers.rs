//! Numbers over all instances, what is overdue, and maintenance on request.

use super::{Answer, ok};
use crate::api::{Api, Invocation};
use crate::body::Body;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::throughput::{HOUR_MS, MOST_HOURS, unknown};
use crate::types::time::rfc3339;
use crate::types::{
    Count, Counts, MaintenanceReport, MaintenanceRequest, OverdueList, Overview, StoreStats, Throughput,
};
use crate::view;
use axum::Extension;
use axum::extract::{RawQuery, State};
use duroxide::providers::ProviderAdmin as _;
use duroxide_cosmos::OverviewQuery;

/// The hours of a request that names none.
const HOURS: u64 = 24;
/// Overdue items: the default, and the most.
const OVERDUE: (usize, usize) = (20, 100);

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

/// How many instances were started and have ended, hour by hour.
///
/// The counts of hours that are over are remembered.
#[utoipa::path(get, path = "/v1/throughput", tag = "numbers", operation_id = "getThroughput",
    params(("hours" = Option<u64>, Query, description = "How many hours, with the one that is not over; 24 by default", minimum = 1, maximum = 168)),
    responses((status = 200, description = "The hours", body = Throughput)))]
pub(crate) async fn throughput(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["hours"])?;
    let wanted = query.number("hours", 1..=MOST_HOURS)?.unwrap_or(HOURS);
    let now_ms = api.parts.clock.now_ms();
    let end = now_ms / HOUR_MS + 1;
    let hours = end.saturating_sub(wanted)..end;
    let mut counts = api.parts.known_hours.known(&hours);
    for span in unknown(hours, &counts) {
        let counted = api.store().throughput(span).await?;
        api.parts.known_hours.remember(&counted, now_ms);
        counts.extend(counted.into_iter().map(|hour| (hour.from_ms / HOUR_MS, hour)));
    }
    ok(&Throughput {
        at: rfc3339(now_ms),
        hours: counts.values().map(view::hour).collect(),
    })
}

/// What has been due the longest: the items behind `stuck` and `overdueTimers` of the overview.
#[utoipa::path(get, path = "/v1/overdue", tag = "numbers", operation_id = "listOverdue",
    params(("limit" = Option<u64>, Query, description = "The most items; 20 by default", minimum = 1, maximum = 100)),
    responses((status = 200, description = "The items, the oldest first", body = OverdueList)))]
pub(crate) async fn overdue(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["limit"])?;
    let limit = query.limit(OVERDUE.0, OVERDUE.1)?;
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let found = api.store().overdue(&OverviewQuery::default(), most).await?;
    ok(&OverdueList {
        at: rfc3339(found.now_ms),
        overdue: found.items.into_iter().map(view::overdue).collect(),
    })
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
