//! Which processes are killed, and when. A seed decides. Pure.

use fastrand::Rng;
use std::time::Duration;

/// Kills one function process during an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    /// When it is planned, after the start of the demo.
    pub(super) at: Duration,
    /// It applies to the next invocation of this function,
    pub(super) function: &'static str,
    /// and happens this long after that invocation began.
    pub(super) into: Duration,
}

/// The pause between two kills.
const PAUSE_MS: std::ops::Range<u64> = 300..1_100;
/// Most invocations take some milliseconds: kills come before the commit, after it, and between invocations.
const INTO_MS: std::ops::Range<u64> = 0..25;

/// This many kills, in the order of their time.
pub(super) fn plan(count: usize, seed: u64) -> Vec<Kill> {
    let mut rng = Rng::with_seed(seed);
    let mut at = Duration::ZERO;
    (0..count)
        .map(|_| {
            at += Duration::from_millis(rng.u64(PAUSE_MS));
            let functions = ["orchestrator", "orchestrator", "worker", "worker", "maintenance"];
            Kill {
                at,
                function: functions[rng.usize(..functions.len())],
                into: Duration::from_millis(rng.u64(INTO_MS)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_which_processes_are_killed() {
        let kills = plan(50, 7);
        assert_eq!(kills, plan(50, 7));
        assert_ne!(kills, plan(50, 8));
        assert!(kills.windows(2).all(|pair| pair[0].at < pair[1].at));
        for function in ["orchestrator", "worker", "maintenance"] {
            assert!(kills.iter().any(|kill| kill.function == function), "{function}");
        }
    }
}
