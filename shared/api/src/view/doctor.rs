//! An examination, as it is answered.

use crate::types::{Check, CheckState, Decimal, Diagnosis, FunctionFacts, OperationCost, QueueFinding};
use duroxide_lambda::doctor as host;
use std::time::Duration;

pub(crate) fn diagnosis(found: host::Diagnosis) -> Diagnosis {
    Diagnosis {
        checks: found.checks.into_iter().map(check).collect(),
        operations: found.operations.iter().map(operation).collect(),
        queues: found.queues.iter().map(queue).collect(),
        function: FunctionFacts {
            version: found.function.version,
            build: found.function.build,
            region: found.function.region,
            architecture: found.function.architecture.to_owned(),
            memory_mb: found.function.memory_mb,
        },
    }
}

fn check(check: host::Check) -> Check {
    Check {
        name: check.name,
        state: match check.state {
            host::CheckState::Ok => CheckState::Ok,
            host::CheckState::Warning => CheckState::Warning,
            host::CheckState::Failed => CheckState::Failed,
        },
        found: check.found,
        expected: check.expected,
        advice: check.advice,
    }
}

fn operation(cost: &host::OperationCost) -> OperationCost {
    OperationCost {
        name: cost.name.to_owned(),
        samples: cost.samples,
        requests: cost.requests,
        median_ms: millis(cost.median),
        p99_ms: millis(cost.p99),
        request_units: Decimal::of_thousandths(cost.milli_request_units),
    }
}

fn queue(queue: &host::QueueFinding) -> QueueFinding {
    let settings = queue.settings.as_ref().ok().and_then(Option::as_ref);
    QueueFinding {
        name: queue.name.to_string(),
        visibility_seconds: settings.map(|settings| settings.visibility.as_secs()),
        max_receives: settings.and_then(|settings| settings.max_receives),
        round_trip_ms: millis(queue.round_trip),
    }
}

/// Milliseconds with three decimals.
fn millis(time: Duration) -> Decimal {
    Decimal::of_thousandths(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}
