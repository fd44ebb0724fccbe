//! Counts committed turns in the functions' logs, and keeps the logs in a file.

use crate::lambda::{LogLine, LogSink};
use serde::Deserialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct TurnCounter(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    /// Instance, execution and number of each turn: a turn that is logged twice counts once.
    turns: HashSet<(String, u64, u64)>,
    log: Option<File>,
}

/// The fields of the line that the host logs at the end of a turn.
#[derive(Deserialize)]
struct TurnLine {
    outcome: String,
    instance: String,
    execution: u64,
    turn: u64,
}

impl TurnCounter {
    /// Counts turns and writes all lines to this file.
    pub fn new(log: Option<File>) -> TurnCounter {
        let turns = HashSet::new();
        TurnCounter(Arc::new(Mutex::new(Counted { turns, log })))
    }

    /// Takes the functions' log lines.
    pub fn sink(&self) -> LogSink {
        let counter = self.clone();
        LogSink::new(move |line| counter.take(line))
    }

    /// How many turns were logged as committed. A process that is killed after a commit does not log it.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).turns.len()
    }

    fn take(&self, line: &LogLine) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &mut counted.log
            && let Err(error) = writeln!(log, "{}#{} {}", line.function, line.environment, line.text)
        {
            tracing::error!(%error, "the log file of the functions cannot be written any more");
            counted.log = None;
        }
        if let Ok(line) = serde_json::from_str::<TurnLine>(&line.text)
            && line.outcome == "Committed"
        {
            counted.turns.insert((line.instance, line.execution, line.turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_committed_turn_counts_once() {
        let turns = TurnCounter::default();
        for (turn, outcome) in [(1, "Committed"), (1, "Committed"), (2, "Committed"), (3, "Busy")] {
            let text =
                format!(r#"{{"message":"m","outcome":"{outcome}","instance":"a","execution":1,"turn":{turn},"x":1}}"#);
            turns.take(&LogLine {
                function: "orchestrator".to_owned(),
                environment: 1,
                text,
                report: false,
            });
        }
        assert_eq!(turns.count(), 2);
    }
}
