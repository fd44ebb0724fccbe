//! Judges the runs of the canary against what the documents promise. Pure.
//!
//! Numbers of requests are promised exactly (`docs/architecture.md`, `docs/benchmarks.md`). Times were measured on a local cloud only,
//! so the limits here are where something must be wrong, not where it could be faster.

use super::canary::Outcome;
use super::measure::Run;
use duroxide_lambda::canary::{REQUESTS, STEPS, TURNS};
use duroxide_lambda::doctor::{VISIBILITY_FACTOR, percentile};
use duroxide_lambda_api::types::{Check, CheckState, QueueFinding};
use std::collections::BTreeSet;

/// A wakeup that takes longer in the median did not come from SQS at once: maintenance, or a fleet that is too small.
const SLOW_MS: u64 = 1_000;

fn check(name: &str, state: CheckState, found: String, expected: String, advice: &str) -> Check {
    Check {
        name: name.to_owned(),
        state,
        found,
        expected,
        advice: (state != CheckState::Ok && !advice.is_empty()).then(|| advice.to_owned()),
    }
}

/// The checks of these runs; none without runs.
pub(super) fn of_runs(outcomes: &[Outcome], queues: &[QueueFinding], is_local: bool) -> Vec<Check> {
    if outcomes.is_empty() {
        return Vec::new();
    }
    let runs: Vec<&Run> = outcomes.iter().flatten().collect();
    let mut checks = vec![completed(outcomes)];
    if runs.is_empty() {
        return checks;
    }
    checks.push(requests(&runs));
    let series = |of: fn(&Run) -> &Vec<u64>| -> Vec<u64> { runs.iter().flat_map(|run| of(run)).copied().collect() };
    let usual = "some 30 ms on a busy local cloud; not measured on hosted accounts";
    let exact = "some 10 ms on a local cloud; not measured on hosted accounts";
    let waits = "is the event source mapping enabled, and its maximum concurrency or the account's quota not reached?";
    checks.extend(times(
        "wakeup of an activity",
        &series(|run| &run.to_activity),
        usual,
        waits,
    ));
    checks.extend(times("wakeup of a turn", &series(|run| &run.to_turn), usual, waits));
    let late = "the wakeup of a timer came late: see the two lines above, and the log of the orchestrator";
    checks.extend(times("lateness of a timer", &series(|run| &run.late), exact, late));
    checks.extend(cold_starts(&runs));
    checks.extend(visibility(&runs, queues, is_local));
    checks
}

fn completed(outcomes: &[Outcome]) -> Check {
    let failures: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let done = outcomes.len() - failures.len();
    let mut found = format!("{done} of {} completed", outcomes.len());
    let state = match failures.first() {
        None => CheckState::Ok,
        Some(first) => {
            found = format!("{found}; the first that did not: {first}");
            CheckState::Failed
        }
    };
    let expected = format!("all: {TURNS} turns, {STEPS} activities, a timer, an event");
    let advice = "blocked: deploy functions that are built with this release. Not done: look for errors in the logs of the functions, \
                  and for wakeups in the dead-letter queues";
    check("canary", state, found, expected, advice)
}

fn requests(runs: &[&Run]) -> Check {
    let counts: Vec<u64> = runs.iter().map(|run| run.usage.requests).collect();
    let (median, most) = (
        percentile(&counts, 50).unwrap_or_default(),
        percentile(&counts, 100).unwrap_or_default(),
    );
    let state = match median <= REQUESTS {
        true => CheckState::Ok,
        false => CheckState::Warning,
    };
    check(
        "requests of a run",
        state,
        format!("median {median}, at most {most}"),
        format!("{REQUESTS}: start 1, event 1, each turn and activity 2"),
        "throttled or repeated requests, or wakeups that were delivered twice: look at Throttled and Busy in the metrics",
    )
}

/// Times in ms, against the limit.
fn times(name: &str, times: &[u64], expected: &str, advice: &str) -> Option<Check> {
    let (median, p99) = (percentile(times, 50)?, percentile(times, 99)?);
    let state = match median > SLOW_MS {
        true => CheckState::Warning,
        false => CheckState::Ok,
    };
    Some(check(
        name,
        state,
        format!("median {median} ms, p99 {p99} ms, of {}", times.len()),
        expected.to_owned(),
        advice,
    ))
}

/// How many activities began in a new environment of the worker, and how old that was.
fn cold_starts(runs: &[&Run]) -> Option<Check> {
    let reports: Vec<_> = runs.iter().flat_map(|run| &run.reports).collect();
    if reports.is_empty() {
        return None;
    }
    let cold: Vec<_> = reports.iter().filter(|report| report.invocation == 1).collect();
    let ages: Vec<u64> = cold.iter().map(|report| report.environment_ms).collect();
    let environments: BTreeSet<&str> = reports.iter().map(|report| report.environment.as_str()).collect();
    let age = match percentile(&ages, 50) {
        Some(median) => format!("; their runtime was {median} ms old in the median"),
        None => String::new(),
    };
    Some(check(
        "cold starts of the worker",
        CheckState::Ok,
        format!(
            "{} of {} activities, {} environments{age}",
            cold.len(),
            reports.len(),
            environments.len()
        ),
        "about one per environment; Lambda's own part, and the orchestrator's, are in the REPORT lines of the logs"
            .to_owned(),
        "",
    ))
}

/// The worker's timeout, which only the worker knows, against its queue.
fn visibility(runs: &[&Run], queues: &[QueueFinding], is_local: bool) -> Option<Check> {
    let reports = runs.iter().flat_map(|run| &run.reports);
    let timeout_ms = reports.map(|report| report.timeout_ms).max()?;
    // An invocation learns of its deadline some ms after its beginning.
    let timeout = timeout_ms.div_ceil(1_000);
    let hidden = queues.iter().find(|queue| queue.name == "work")?.visibility_seconds?;
    let factor = if is_local { 1 } else { u64::from(VISIBILITY_FACTOR) };
    let state = match hidden {
        _ if hidden < timeout => CheckState::Failed,
        _ if hidden < timeout * factor => CheckState::Warning,
        _ => CheckState::Ok,
    };
    Some(check(
        "worker's queue and timeout",
        state,
        format!("hidden for {hidden} s, timeout {timeout} s"),
        match factor {
            1 => format!("hidden for at least the timeout; {VISIBILITY_FACTOR} times in a deployment"),
            _ => format!("hidden for {factor} times the timeout: {} s", timeout * factor),
        },
        "raise the visibility timeout of the worker's queue, or lower the function's timeout: an activity runs twice if its wakeup \
         is delivered while it runs",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_lambda::canary::StepReport;
    use duroxide_lambda_api::types::{Decimal, Usage};

    fn run(requests: u64, wait: u64) -> Outcome {
        Ok(Run {
            usage: Usage {
                requests,
                ..Usage::default()
            },
            to_activity: vec![wait; 3],
            to_turn: vec![wait; 3],
            late: vec![wait],
            reports: vec![StepReport {
                environment: "e".to_owned(),
                invocation: 1,
                timeout_ms: 29_990,
                ..StepReport::default()
            }],
        })
    }

    fn queue(hidden: u64) -> [QueueFinding; 1] {
        [QueueFinding {
            name: "work".to_owned(),
            visibility_seconds: Some(hidden),
            max_receives: None,
            round_trip_ms: Decimal::default(),
        }]
    }

    #[track_caller]
    fn state(checks: &[Check], name: &str) -> CheckState {
        let found = checks.iter().find(|check| check.name == name);
        found.unwrap_or_else(|| panic!("{name}: {checks:#?}")).state
    }

    #[test]
    fn a_run_as_promised_is_ok() {
        let checks = of_runs(&[run(REQUESTS, 20), run(REQUESTS, 30)], &queue(180), false);
        assert_eq!(checks.len(), 7, "{checks:#?}");
        assert!(checks.iter().all(|check| check.state == CheckState::Ok), "{checks:#?}");
        assert!(of_runs(&[], &queue(180), false).is_empty());
    }

    #[test]
    fn too_many_requests_and_slow_wakeups_are_warnings_and_a_run_that_does_not_end_is_a_failure() {
        let checks = of_runs(&[run(REQUESTS + 1, 5_000)], &queue(180), false);
        for name in [
            "requests of a run",
            "wakeup of an activity",
            "wakeup of a turn",
            "lateness of a timer",
        ] {
            assert_eq!(state(&checks, name), CheckState::Warning, "{name}");
        }
        let checks = of_runs(&[run(REQUESTS, 20), Err("blocked: old build".to_owned())], &[], false);
        assert_eq!(state(&checks, "canary"), CheckState::Failed);
        assert!(
            checks[0].found.contains("1 of 2") && checks[0].found.contains("old build"),
            "{checks:?}"
        );
        assert_eq!(of_runs(&[Err("no".to_owned())], &[], false).len(), 1);
    }

    #[test]
    fn a_queue_hides_a_wakeup_for_longer_than_the_worker_may_run() {
        let name = "worker's queue and timeout";
        for (hidden, is_local, expected) in [
            (180, false, CheckState::Ok),
            (179, false, CheckState::Warning),
            (35, true, CheckState::Ok),
            (29, false, CheckState::Failed),
            (29, true, CheckState::Failed),
        ] {
            let checks = of_runs(&[run(REQUESTS, 20)], &queue(hidden), is_local);
            assert_eq!(state(&checks, name), expected, "{hidden} {is_local}");
        }
    }
}
