//! What the functions' logs tell: the cycles that they committed. The lines are kept in a file, for who wants to know more.

use crate::lambda::{LogLine, LogSink};
use serde::Deserialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    /// Instance, execution and number of each turn: one that is logged twice is one.
    turns: HashSet<(String, u64, u64)>,
    log: Option<File>,
}

/// As `duroxide-lambda` logs a cycle.
#[derive(Deserialize)]
struct Cycle {
    message: String,
    outcome: String,
    instance: String,
    execution: u64,
    turn: u64,
}

impl Tally {
    /// Counts, and keeps the lines in this file.
    pub fn new(log: Option<File>) -> Tally {
        let counted = Counted {
            log,
            ..Counted::default()
        };
        Tally(Arc::new(Mutex::new(counted)))
    }

    /// Where the functions' lines go.
    pub fn sink(&self) -> LogSink {
        let tally = self.clone();
        LogSink::new(move |line| tally.take(line))
    }

    /// How many turns were committed, as far as their processes lived to tell.
    pub fn turns(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).turns.len()
    }

    fn take(&self, line: &LogLine) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &mut counted.log
            && let Err(error) = writeln!(log, "{}#{} {}", line.function, line.environment, line.text)
        {
            tracing::error!(%error, "the log of the functions cannot be written any more");
            counted.log = None;
        }
        let cycle = serde_json::from_str::<Cycle>(&line.text).ok();
        let committed = |cycle: &Cycle| cycle.message == "a step ended" && cycle.outcome == "Committed";
        if let Some(cycle) = cycle.filter(committed) {
            counted.turns.insert((cycle.instance, cycle.execution, cycle.turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_turns_are_counted_once() {
        let tally = Tally::default();
        for (turn, outcome) in [(1, "Committed"), (1, "Committed"), (2, "Committed"), (3, "Busy")] {
            let text = format!(
                r#"{{"message":"a step ended","outcome":"{outcome}","instance":"a","execution":1,"turn":{turn},"x":1}}"#
            );
            tally.take(&LogLine {
                function: "orchestrator".to_owned(),
                environment: 1,
                text,
                report: false,
            });
        }
        assert_eq!(tally.turns(), 2);
    }
}
