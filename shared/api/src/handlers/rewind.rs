//! Rewinding an instance that has failed.

use super::{Answer, answer, ok};
use crate::api::Api;
use crate::refusal::Refusal;
use crate::types::{ProblemType, RewindRequest, Rewound, Step};
use duroxide_cosmos::{PlannedStep, RewindOutcome, RewindPlan, RewindResult};
use http::StatusCode;

/// The longest reason, in bytes: it is a part of the instance.
const MOST_REASON: usize = 1024;
/// How many children a refusal names.
const MOST_NAMED: usize = 5;

/// Rewinds an instance that has failed or was cancelled: it goes on from before its failure.
///
/// Failed activities run again, failed children are rewound, results that were obtained are kept. What was undone is shown by
/// `GET .../history?undone=`. With `dryRun` nothing changes, and the answer says what would happen (200).
#[utoipa::path(post, path = "/v1/instances/{id}:rewind", tag = "operators", operation_id = "rewind",
    params(("id" = String, Path, description = "The instance")),
    request_body = RewindRequest,
    responses(
        (status = 200, description = "What a rewind would do (`dryRun`)", body = Rewound),
        (status = 202, description = "It goes on", body = Rewound),
        (status = 404, description = "There is no such instance"),
        (status = 409, description = "It has not failed, is being deleted, or has a parent that has its failure"),
    ))]
pub(crate) async fn rewind(api: &Api, id: &str, request: RewindRequest) -> Answer {
    let reason = request.reason.as_deref();
    if reason.is_some_and(|reason| reason.len() > MOST_REASON) {
        return Err(Refusal::invalid(format!("reason has at most {MOST_REASON} bytes")));
    }
    if request.before == Some(0) {
        return Err(Refusal::invalid("before is the id of an event, from 1 on"));
    }
    let order = duroxide_cosmos::RewindRequest {
        instance: id,
        before: request.before,
        discard_results: request.discard_results,
        alone: request.alone,
        reason,
        call: None,
        dry_run: request.dry_run,
    };
    let result = api.connection().rewind(&order).await?;
    rewound(id, request.dry_run, &result)
}

fn rewound(id: &str, dry_run: bool, result: &RewindResult) -> Answer {
    let wrong_state = |why: String| {
        let detail = format!("instance '{id}' {why}");
        Err(Refusal::new(ProblemType::WrongState, detail))
    };
    let plan = result.plan.clone().unwrap_or_default();
    match &result.outcome {
        RewindOutcome::Rewound | RewindOutcome::Repeated => answer(StatusCode::ACCEPTED, &shown(id, dry_run, &plan)),
        RewindOutcome::Planned => ok(&shown(id, dry_run, &plan)),
        RewindOutcome::NotFound => Err(Refusal::no_instance(id)),
        RewindOutcome::NotFailed => wrong_state("has not failed".to_owned()),
        RewindOutcome::Deleting => wrong_state("is being deleted".to_owned()),
        RewindOutcome::HasParent(parent) => wrong_state(format!(
            "is a child of '{parent}', which has its failure: rewind that one, or set alone"
        )),
        RewindOutcome::StartedChildren(children) => {
            let some: Vec<&str> = children.iter().take(MOST_NAMED).map(String::as_str).collect();
            wrong_state(format!(
                "has started children after that event ({}): rewind less far",
                some.join(", ")
            ))
        }
        RewindOutcome::Impossible(why) => wrong_state(format!("cannot be rewound: {why}")),
    }
}

fn shown(id: &str, dry_run: bool, plan: &RewindPlan) -> Rewound {
    Rewound {
        instance: id.to_owned(),
        dry_run,
        execution: plan.execution,
        before: plan.before,
        kept: plan.kept,
        undone: plan.undone,
        delivered: steps(&plan.delivered),
        activities: steps(&plan.activities),
        timers: steps(&plan.timers),
        children: steps(&plan.children),
        reused: steps(&plan.reused),
        kept_failures: steps(&plan.kept_failures),
    }
}

pub(super) fn steps(steps: &[PlannedStep]) -> Vec<Step> {
    let step = |step: &PlannedStep| Step {
        kind: step.kind.name().to_owned(),
        event: step.event,
        name: step.name.clone(),
        failures: step.failures,
    };
    steps.iter().map(step).collect()
}
