//! Judges findings, without any request. Each check says what was found, what is promised, and what to do.

use super::{Check, CheckState, OperationCost, QueueFinding};
use crate::config::{Limits, MaintenanceSettings};
use duroxide_cosmos::{ClockReading, MeasuredOperation};
use std::fmt;
use std::time::Duration;

/// The visibility timeout of a queue is this many times the timeout of its function, as AWS recommends: a record must not be
/// delivered again while it is served, nor while the mapping retries a throttled function.
pub const VISIBILITY_FACTOR: u32 = 6;

/// Up to here the clouds are near each other: a step has two round trips to the store.
const NEAR: Duration = Duration::from_millis(30);
/// A clock that is off by more makes timers late or early.
const CLOCK_OFF: u64 = 2_000;
/// The account refuses requests whose date is off by 15 minutes.
const CLOCK_REFUSED: u64 = 10 * 60 * 1_000;

/// The value below or at which so many of 100 values are, by the nearest rank.
pub fn percentile<T: Copy + Ord>(values: &[T], percent: usize) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn check(
    name: impl Into<String>,
    state: CheckState,
    found: impl Into<String>,
    expected: impl Into<String>,
    advice: impl Into<String>,
) -> Check {
    let advice = advice.into();
    Check {
        name: name.into(),
        state,
        found: found.into(),
        expected: expected.into(),
        advice: Some(advice).filter(|advice| !advice.is_empty()),
    }
}

/// The container's definition.
pub(super) fn container(found: &Result<Option<Vec<cosmos::Difference>>, String>) -> Check {
    let expected = "partition key, indexes and TTL as this release defines them";
    let differences = match found {
        Err(error) => {
            let advice = "check COSMOS_ENDPOINT, the credential, the firewall of the account and COSMOS_DATABASE";
            return check("container", CheckState::Failed, error, expected, advice);
        }
        Ok(None) => {
            let advice = "create it with infra/azure/cosmos.bicep, or `provision ensure`";
            return check("container", CheckState::Failed, "there is none", expected, advice);
        }
        Ok(Some(differences)) => differences,
    };
    if differences.is_empty() {
        return check("container", CheckState::Ok, "as defined", expected, "");
    }
    let listed: Vec<String> = differences.iter().map(ToString::to_string).collect();
    let (state, advice) = match differences.iter().all(|difference| difference.is_changeable()) {
        true => (
            CheckState::Failed,
            "change it in place: deploy infra/azure/cosmos.bicep, then run `provision verify`. Without an index a search or a \
             sweep of maintenance is refused or expensive; without a TTL old documents stay",
        ),
        false => (
            CheckState::Failed,
            "a partition key cannot be changed in place: choose another container name and provision it",
        ),
    };
    check("container", state, listed.join("; "), expected, advice)
}

/// Whether every kind of operation is permitted. If one did not end within the time limit, or failed for another reason, nothing is known of its
/// permission.
pub(super) fn permissions(operations: &[MeasuredOperation], limit: Duration) -> Check {
    let failed = operations.iter().find_map(|operation| match &operation.error {
        Some(error) if !operation.denied => Some(format!("{}: {error}", operation.name)),
        None if operation.timed_out => Some(format!(
            "{}: the time limit of {} was over",
            operation.name,
            Seconds(limit)
        )),
        _ => None,
    });
    if let Some(found) = failed {
        let expected = "each kind of operation succeeds within the time limit";
        let advice = "check the network between the function and the account, and whether the account throttles, then repeat the check";
        return check("store operations", CheckState::Failed, found, expected, advice);
    }
    let expected = "batch, read, query, patch and delete are permitted";
    let refused = operations.iter().find_map(|operation| {
        let error = operation.error.as_ref()?;
        Some(format!("{}: {error}", operation.name))
    });
    match refused {
        None if operations.is_empty() => check("store permissions", CheckState::Failed, "not tried", expected, ""),
        None => check("store permissions", CheckState::Ok, "all were made", expected, ""),
        Some(refused) => {
            let advice = "with Entra ID, give the application the role of infra/azure/cosmos.bicep; with a key, use a read-write key";
            check("store permissions", CheckState::Failed, refused, expected, advice)
        }
    }
}

/// A queue against the settings of the functions. `None` for a notifier that has no such settings.
pub(super) fn queue(queue: &QueueFinding, limits: &Limits) -> Option<Check> {
    let name = format!("queue {}", queue.name);
    let lock = match queue.name.is_of_turns() {
        true => limits.turn_lock,
        false => limits.work_lock.max(limits.session_lock),
    };
    let least = limits.least_timeout().max(lock);
    let expected = format!(
        "hidden for at least {} (locks, shortest timeout of a function), dead letters after more than {} receives",
        Seconds(least),
        limits.max_attempts
    );
    let settings = match &queue.settings {
        Ok(settings) => (*settings)?,
        Err(error) => {
            let advice = "the role of the API needs sqs:GetQueueAttributes on the queue; check its URL in the function's variables";
            return Some(check(name, CheckState::Failed, error, expected, advice));
        }
    };
    let receives = match settings.max_receives {
        Some(most) => format!("dead letters after {most} receives"),
        None => "no dead-letter queue".to_owned(),
    };
    let found = format!("hidden for {}, {receives}", Seconds(settings.visibility));
    let (state, advice) = if settings.visibility < least {
        let advice = "set the visibility timeout to 6 times the timeout of its function: a wakeup is delivered again while it is served";
        (CheckState::Failed, advice)
    } else if settings.max_receives.is_some_and(|most| most <= limits.max_attempts) {
        let advice =
            "raise maxReceiveCount above MaxAttempts: a wakeup becomes a dead letter before its step is given up";
        (CheckState::Failed, advice)
    } else if settings.max_receives.is_none() {
        let advice = "add a redrive policy: a wakeup that cannot be served is delivered until it expires";
        (CheckState::Warning, advice)
    } else {
        (CheckState::Ok, "")
    };
    Some(check(name, state, found, expected, advice))
}

/// This process's clock.
pub(super) fn clock(reading: Option<&ClockReading>) -> Check {
    let expected = "within 2 s of the store's clock";
    let Some(reading) = reading else {
        let advice = "the store has not answered with its time";
        return check("clock", CheckState::Warning, "not known", expected, advice);
    };
    let (off, accuracy) = (reading.ahead_ms.unsigned_abs(), reading.accuracy_ms);
    let surely = off.saturating_sub(accuracy);
    let side = if reading.ahead_ms < 0 { "behind" } else { "ahead" };
    let found = format!(
        "{:.1} s {side}, accurate to {:.1} s",
        off as f64 / 1e3,
        accuracy as f64 / 1e3
    );
    let advice = "correct the clock of this machine: timers fire by it, and the account refuses requests that are 15 minutes off";
    match surely {
        0..=CLOCK_OFF => check("clock", CheckState::Ok, found, expected, ""),
        _ if surely > CLOCK_REFUSED => check("clock", CheckState::Failed, found, expected, advice),
        _ => check("clock", CheckState::Warning, found, expected, advice),
    }
}

/// How far away the store is: the time of a point read, which is one round trip.
pub(super) fn distance(operations: &[OperationCost]) -> Option<Check> {
    let read = operations.iter().find(|operation| operation.name == "read")?;
    let found = format!("median {}, p99 {}", Millis(read.median), Millis(read.p99));
    let expected = format!(
        "up to {} in the median; a turn and an activity take two each",
        Millis(NEAR)
    );
    let (state, advice) = match read.median > NEAR {
        true => {
            let advice = "choose a region of the account near that of the functions, or the other way round: every step waits for it twice";
            (CheckState::Warning, advice)
        }
        false => (CheckState::Ok, ""),
    };
    Some(check("round trip to the store", state, found, expected, advice))
}

/// How often maintenance runs.
pub(super) fn schedule(maintenance: &MaintenanceSettings, limits: &Limits) -> Option<Check> {
    let period = maintenance.period;
    let most = limits.wakeup_reach / 2;
    let (state, advice) = match period > most {
        true => {
            let advice = "run it more often: a timer beyond the reach of a delayed wakeup is found by two runs";
            (CheckState::Failed, advice)
        }
        false => (CheckState::Ok, ""),
    };
    let found = format!("every {}", Seconds(period));
    let expected = format!("at least every {}", Seconds(most));
    Some(check("maintenance period", state, found, expected, advice))
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms", self.0.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests;
