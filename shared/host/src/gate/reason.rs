//! Why an activity is given up, for its orchestration and its dead letter: told from its attempts. No I/O.

use duroxide_cosmos::{Attempt, AttemptEnd};
use std::time::Duration;

/// What an attempt may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// The activity has a time limit.
    Limit(Duration),
    /// The function's timeout, less its reserves.
    WorkerTimeout(Duration),
}

/// The reason of an activity whose process died each time.
#[cfg(feature = "testing")]
pub(crate) fn killed(name: &str, tried: u32) -> String {
    let lost = |number| Attempt {
        number,
        began: 0,
        ended: 0,
        end: AttemptEnd::Lost,
    };
    let attempts: Vec<Attempt> = (1..=tried).map(lost).collect();
    reason(name, tried, &attempts, Allowed::WorkerTimeout(Duration::ZERO))
}

/// The reason in one sentence. `attempts` may lack the older ones of the `tried`, which nobody has kept.
pub(super) fn reason(name: &str, tried: u32, attempts: &[Attempt], allowed: Allowed) -> String {
    let of = |end: AttemptEnd| attempts.iter().filter(move |attempt| attempt.end == end);
    let count = |end: AttemptEnd| u32::try_from(of(end).count()).unwrap_or(u32::MAX);
    let (timed_out, lost, released) = (
        count(AttemptEnd::TimedOut),
        count(AttemptEnd::Lost),
        count(AttemptEnd::Released),
    );
    let times = |count: u32| match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let tried_times = times(tried);
    if tried > 0 && timed_out == tried {
        let longest = of(AttemptEnd::TimedOut)
            .map(|attempt| attempt.ended.saturating_sub(attempt.began))
            .max()
            .unwrap_or_default();
        let after = seconds(Duration::from_millis(longest));
        let allowed = match allowed {
            Allowed::Limit(limit) => format!("time limit {}", seconds(limit)),
            Allowed::WorkerTimeout(timeout) => format!("worker timeout {}", seconds(timeout)),
        };
        return format!("activity `{name}` timed out {tried_times} after {after} ({allowed})");
    }
    if tried > 0 && lost == tried {
        return format!("activity `{name}` killed its process {tried_times} (out of memory?)");
    }
    if tried > 0 && released == tried {
        return format!("activity `{name}` was released {tried_times} without a result (is it registered?)");
    }
    let killed = if lost == 1 {
        "killed its process"
    } else {
        "killed their process"
    };
    let ends: Vec<String> = [
        (timed_out, "timed out"),
        (lost, killed),
        (released, "released without a result"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    let known = timed_out + lost + released;
    match (ends.is_empty(), known < tried) {
        (true, _) => format!("activity `{name}` was tried {tried_times} without a result"),
        (false, true) => format!(
            "activity `{name}` was tried {tried_times}, of the last {known}: {}",
            ends.join(", ")
        ),
        (false, false) => format!("activity `{name}` was tried {tried_times}: {}", ends.join(", ")),
    }
}

/// Whole seconds, or tenths of a short time.
fn seconds(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    match (tenths % 10, tenths < 100) {
        (0, _) => format!("{} s", tenths / 10),
        (rest, true) => format!("{}.{rest} s", tenths / 10),
        (_, false) => format!("{} s", (time.as_millis() + 500) / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AttemptEnd::{Lost, Released, TimedOut};

    const LIMIT: Allowed = Allowed::Limit(Duration::from_secs(2));
    const TIMEOUT: Allowed = Allowed::WorkerTimeout(Duration::from_secs(60));

    fn attempts(ends: &[AttemptEnd]) -> Vec<Attempt> {
        let numbered = (1..).zip(ends);
        let attempt = |(number, end): (u32, &AttemptEnd)| Attempt {
            number,
            began: 1_000,
            ended: 59_040,
            end: *end,
        };
        numbered.map(attempt).collect()
    }

    #[test]
    fn the_reason_says_how_the_attempts_ended() {
        for (ends, tried, allowed, expected) in [
            (
                &[TimedOut; 10][..],
                10,
                TIMEOUT,
                "timed out 10 times after 58 s (worker timeout 60 s)",
            ),
            (&[TimedOut], 1, LIMIT, "timed out once after 58 s (time limit 2 s)"),
            (&[Lost; 3], 3, TIMEOUT, "killed its process 3 times (out of memory?)"),
            (&[Lost], 1, TIMEOUT, "killed its process once (out of memory?)"),
            (
                &[Released; 2],
                2,
                TIMEOUT,
                "was released 2 times without a result (is it registered?)",
            ),
            (
                &[TimedOut, Lost, TimedOut, Lost, TimedOut],
                5,
                LIMIT,
                "was tried 5 times: 3 timed out, 2 killed their process",
            ),
            (
                &[Lost, Released],
                2,
                LIMIT,
                "was tried 2 times: 1 killed its process, 1 released without a result",
            ),
            (
                &[TimedOut; 20],
                30,
                TIMEOUT,
                "was tried 30 times, of the last 20: 20 timed out",
            ),
            (&[], 4, TIMEOUT, "was tried 4 times without a result"),
        ] {
            let reason = reason("Charge", tried, &attempts(ends), allowed);
            assert_eq!(reason, format!("activity `Charge` {expected}"));
        }
    }

    #[test]
    fn short_times_have_tenths() {
        for (millis, expected) in [
            (1_000, "1 s"),
            (1_540, "1.5 s"),
            (9_960, "10 s"),
            (58_040, "58 s"),
            (59_960, "60 s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }
}
