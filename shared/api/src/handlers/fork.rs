//! Forking an instance.

use super::rewind::steps;
use super::{Answer, answer, ok};
use crate::api::Api;
use crate::body::text_of;
use crate::refusal::Refusal;
use crate::types::{ForkRequest, Forked, ProblemType};
use duroxide_cosmos::{ForkOutcome, ForkResult};
use http::StatusCode;

/// How many results may be edited.
const MOST_RESULTS: usize = 100;

/// Makes a new instance from a point of another one's history, to try a fix beside production.
///
/// Results, the input and the version may be edited. What is open at that point runs again in the fork, with its effects: with `dryRun`
/// nothing is made, and the answer lists these (200). The source is only read.
#[utoipa::path(post, path = "/v1/instances/{id}:fork", tag = "operators", operation_id = "fork",
    params(("id" = String, Path, description = "The source")),
    request_body = ForkRequest,
    responses(
        (status = 200, description = "What the fork would do (`dryRun`)", body = Forked),
        (status = 202, description = "The fork runs", body = Forked),
        (status = 404, description = "There is no such instance or execution"),
        (status = 409, description = "The new id is taken, or that execution cannot be forked"),
    ))]
pub(crate) async fn fork(api: &Api, id: &str, request: ForkRequest) -> Answer {
    if request.results.len() > MOST_RESULTS {
        return Err(Refusal::invalid(format!(
            "at most {MOST_RESULTS} results can be edited"
        )));
    }
    if request.new_id.is_empty() {
        return Err(Refusal::invalid("newId is missing"));
    }
    let input = match (&request.input, &request.input_text) {
        (None, None) => None,
        _ => Some(text_of("input", request.input, request.input_text)?),
    };
    let mut results = Vec::new();
    for edited in request.results {
        results.push((edited.event, text_of("result", edited.result, edited.result_text)?));
    }
    let order = duroxide_cosmos::ForkRequest {
        instance: id,
        new_id: &request.new_id,
        execution: request.execution,
        at: request.at,
        results,
        input: input.as_deref(),
        version: request.version.as_deref(),
        dry_run: request.dry_run,
    };
    let result = api.connection().fork(&order).await?;
    forked(id, &request.new_id, request.dry_run, &result)
}

fn forked(id: &str, new_id: &str, dry_run: bool, result: &ForkResult) -> Answer {
    let plan = result.plan.clone().unwrap_or_default();
    let shown = Forked {
        instance: new_id.to_owned(),
        source: id.to_owned(),
        dry_run,
        execution: plan.execution,
        at: plan.at,
        delivered: steps(&plan.delivered),
        activities: steps(&plan.activities),
        timers: steps(&plan.timers),
        children: steps(&plan.children),
        reused: steps(&plan.reused),
    };
    match &result.outcome {
        ForkOutcome::Forked => answer(StatusCode::ACCEPTED, &shown),
        ForkOutcome::Planned => ok(&shown),
        ForkOutcome::NotFound => Err(Refusal::no_instance(id)),
        ForkOutcome::Taken => {
            let detail = format!("an instance '{new_id}' exists: choose another id");
            Err(Refusal::new(ProblemType::InstanceExists, detail))
        }
        ForkOutcome::Invalid(why) => Err(Refusal::invalid(why.clone())),
        ForkOutcome::Impossible(why) => Err(Refusal::new(ProblemType::WrongState, why.clone())),
    }
}
