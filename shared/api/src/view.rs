//! What the store returns, as answers. Pure.

mod batch;
mod doctor;
mod explain;
mod usage;

pub(crate) use batch::{batch, batch_failure};
pub(crate) use doctor::diagnosis;
pub(crate) use explain::explanation;

use crate::types::time::rfc3339;
use crate::types::{
    ActivityAttempts, Blocked, DeadLetterSummary, EndedAttempt, Execution, ForkedFrom, Instance, InstanceList,
    OverdueItem, OverdueKind, Overview, Paused, Payload, Rewind, Role, Status, StatusCount, ThroughputHour,
};
use duroxide::providers::ExecutionInfo;
use duroxide_cosmos as store;
use duroxide_cosmos::{DeadLetterKind, HourCounts, InstanceStatus, InstanceSummary};
use duroxide_lambda::config::ApiRole;
use std::collections::BTreeMap;

pub(crate) fn role(role: ApiRole) -> Role {
    match role {
        ApiRole::Reader => Role::Reader,
        ApiRole::Client => Role::Client,
        ApiRole::Operator => Role::Operator,
    }
}

pub(crate) fn hour(counts: &HourCounts) -> ThroughputHour {
    ThroughputHour {
        from: rfc3339(counts.from_ms),
        started: counts.started,
        ended: counts.ended,
        failed: counts.failed,
    }
}

pub(crate) fn overdue(item: store::OverdueItem) -> OverdueItem {
    OverdueItem {
        instance: item.instance,
        kind: match item.kind {
            store::OverdueKind::Message => OverdueKind::Message,
            store::OverdueKind::Activity => OverdueKind::Activity,
            store::OverdueKind::Timer => OverdueKind::Timer,
        },
        name: item.name,
        due_at: rfc3339(item.due_ms),
    }
}

pub(crate) fn status(status: &InstanceStatus) -> Status {
    match status {
        InstanceStatus::Pending => Status::Pending,
        InstanceStatus::Running => Status::Running,
        InstanceStatus::Blocked => Status::Blocked,
        InstanceStatus::Paused => Status::Paused,
        InstanceStatus::Completed => Status::Completed,
        InstanceStatus::Failed => Status::Failed,
        InstanceStatus::Cancelled => Status::Cancelled,
        InstanceStatus::ContinuedAsNew => Status::ContinuedAsNew,
        InstanceStatus::Other(_) => Status::Unknown,
    }
}

/// A status to search for.
pub(crate) fn wanted(status: Status) -> InstanceStatus {
    match status {
        Status::Pending => InstanceStatus::Pending,
        Status::Running => InstanceStatus::Running,
        Status::Blocked => InstanceStatus::Blocked,
        Status::Paused => InstanceStatus::Paused,
        Status::Completed => InstanceStatus::Completed,
        Status::Failed => InstanceStatus::Failed,
        Status::Cancelled => InstanceStatus::Cancelled,
        Status::ContinuedAsNew => InstanceStatus::ContinuedAsNew,
        Status::Unknown => InstanceStatus::Other(String::new()),
    }
}

/// An instance; with `raw` its input and output as strings, whatever they are.
pub(crate) fn instance(summary: &InstanceSummary, raw: bool) -> Instance {
    let payload = |text: &String| match raw {
        true => Payload::string(text),
        false => Payload::of_text(text),
    };
    Instance {
        instance: summary.instance.clone(),
        orchestration: summary.orchestration.clone(),
        version: summary.version.clone(),
        status: status(&summary.status),
        custom_status: summary.custom_status.clone(),
        custom_status_version: summary.custom_status_version,
        input: summary.input.as_ref().map(payload),
        output: summary.output.as_ref().map(payload),
        error: summary.error.clone(),
        blocked: summary.blocked.as_ref().map(blocked),
        paused: summary.paused.as_ref().map(|paused| Paused {
            since: rfc3339(paused.since),
            reason: paused.reason.clone(),
        }),
        restarted_from: summary.restarted_from.clone(),
        execution: summary.execution,
        events: summary.events,
        created_at: rfc3339(summary.accepted_at),
        updated_at: rfc3339(summary.updated_at),
        started_at: summary.started_at.map(rfc3339),
        completed_at: summary.completed_at.map(rfc3339),
        duration_ms: summary.took_ms(),
        parent: summary.parent.clone(),
        tags: summary.tags.clone(),
        rewinds: summary.rewinds.iter().map(rewind).collect(),
        forked_from: summary.forked_from.as_ref().map(|from| ForkedFrom {
            instance: from.instance.clone(),
            execution: from.execution,
            event: from.event,
            at: rfc3339(from.at),
        }),
        usage: usage::usage(summary),
        attention: Vec::new(),
        explanation: None,
    }
}

pub(crate) fn rewind(rewind: &store::Rewind) -> Rewind {
    Rewind {
        number: rewind.number,
        at: rfc3339(rewind.at),
        reason: rewind.reason.clone(),
        execution: rewind.execution,
        before: rewind.before,
        undone: rewind.undone,
        error: rewind.error.clone(),
        cancelled: rewind.cancelled,
    }
}

/// A page of instances, with why they need attention if that was searched for.
pub(crate) fn page(page: store::InstancePage) -> InstanceList {
    let shown = |summary: &InstanceSummary| {
        let reasons = page.attention.get(&summary.instance).into_iter().flatten();
        Instance {
            attention: reasons.map(|why| why.name().to_owned()).collect(),
            ..instance(summary, false)
        }
    };
    InstanceList {
        instances: page.instances.iter().map(shown).collect(),
        next_cursor: page.next,
        truncated: page.is_truncated,
    }
}

fn blocked(blocked: &store::Blocked) -> Blocked {
    Blocked {
        cause: blocked.cause.name().to_owned(),
        reason: blocked.reason.clone(),
        build: blocked.build.clone(),
        since: rfc3339(blocked.since),
        tries: blocked.tries,
        next_try: rfc3339(blocked.until),
    }
}

pub(crate) fn attempts(of: &store::ActivityAttempts) -> ActivityAttempts {
    let ended = of.ended.iter().map(|attempt| EndedAttempt {
        number: attempt.number,
        began_at: rfc3339(attempt.began),
        ended_at: rfc3339(attempt.ended),
        end: attempt.end.name().to_owned(),
    });
    let last = of.ended.last().map_or(0, |attempt| attempt.number);
    let open = of.open.as_ref();
    ActivityAttempts {
        activity: of.activity,
        open: open.is_some(),
        name: open.map(|open| open.name.clone()),
        attempts: open.map_or(last, |open| open.attempts),
        running_since: open.and_then(|open| open.began).map(rfc3339),
        ended: ended.collect(),
        blocked: open.and_then(|open| open.blocked.as_ref()).map(blocked),
    }
}

pub(crate) fn execution(info: &ExecutionInfo) -> Execution {
    Execution {
        execution: info.execution_id,
        status: info.status.parse().unwrap_or(Status::Unknown),
        events: info.event_count as u64,
        started_at: rfc3339(info.started_at),
        completed_at: info.completed_at.map(rfc3339),
    }
}

pub(crate) fn overview(overview: &store::Overview) -> Overview {
    let mut counts = BTreeMap::new();
    for count in &overview.counts {
        *counts.entry(status(&count.status)).or_default() += count.count;
    }
    let backlog = &overview.backlog;
    Overview {
        at: rfc3339(overview.now_ms),
        recent_since: rfc3339(overview.recent_since_ms),
        started_recently: overview.started_recently,
        ended_recently: overview.ended_recently,
        failed_recently: overview.failed_recently,
        blocked: counts.get(&Status::Blocked).copied().unwrap_or_default(),
        paused: counts.get(&Status::Paused).copied().unwrap_or_default(),
        counts: counts
            .into_iter()
            .map(|(status, count)| StatusCount { status, count })
            .collect(),
        stuck: backlog.stuck_instances,
        overdue_timers: backlog.overdue_timers,
        messages_due: backlog.turns_due,
        activities_due: backlog.works_due,
        timers_pending: backlog.timers_pending,
        oldest_due_at: backlog.oldest_due_ms.map(rfc3339),
        outbox: backlog.outbox,
        dead_letters: backlog.dead_letters,
    }
}

pub(crate) fn dead_letter(summary: store::DeadLetterSummary) -> DeadLetterSummary {
    DeadLetterSummary {
        instance: summary.id.instance,
        id: summary.id.id,
        kind: kind(summary.kind).to_owned(),
        reason: summary.reason,
        attempts: summary.attempts,
        given_up_at: rfc3339(summary.at_ms),
        execution: summary.execution,
        name: summary.name,
        target: summary.target,
    }
}

/// The kinds of dead letters that can be asked for.
pub(crate) const KINDS: [DeadLetterKind; 4] = [
    DeadLetterKind::Undeliverable,
    DeadLetterKind::NoInstance,
    DeadLetterKind::PoisonTurn,
    DeadLetterKind::PoisonActivity,
];

pub(crate) fn kind(kind: DeadLetterKind) -> &'static str {
    match kind {
        DeadLetterKind::Undeliverable => "undeliverable",
        DeadLetterKind::NoInstance => "no-instance",
        DeadLetterKind::PoisonTurn => "poison-turn",
        DeadLetterKind::PoisonActivity => "poison-activity",
        DeadLetterKind::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_found_as_it_is_shown() {
        for shown in Status::ALL {
            assert_eq!(status(&wanted(shown)), shown);
            assert_eq!(wanted(shown).name(), shown.name());
        }
    }
}
