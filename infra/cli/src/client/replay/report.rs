//! What the gate has found. Pure.

use super::Checked;
use crate::client::answer::{Answer, Code};
use crate::terminal::text::escape;
use duroxide_lambda::replay::{Asked, Effect, Fault, Recording, Replayed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How many faults the text shows.
const SHOWN: usize = 100;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Report {
    replayed: usize,
    events: u64,
    faults: Vec<Found>,
    unreadable: Vec<(Unreadable, String)>,
    /// Instances that have no history, or are between two executions.
    pub not_begun: usize,
    /// Instances that ended or were deleted since they were listed.
    pub gone: usize,
    /// Whether there are more instances than the limit.
    pub more: bool,
}

/// What holds no history that can be replayed.
#[derive(Debug)]
pub(super) enum Unreadable {
    File(PathBuf),
    Instance(String),
}

impl Unreadable {
    fn kind_and_name(&self) -> (&'static str, String) {
        match self {
            Unreadable::File(path) => ("file", path.display().to_string()),
            Unreadable::Instance(id) => ("instance", id.clone()),
        }
    }
}

#[derive(Debug)]
struct Found {
    instance: String,
    execution: u64,
    orchestration: String,
    version: String,
    fault: Fault,
}

impl Report {
    pub(super) fn add(&mut self, recording: &Recording, replayed: Replayed) {
        self.replayed += 1;
        self.events += replayed.events;
        if let Some(fault) = replayed.fault {
            self.faults.push(Found {
                instance: replayed.instance,
                execution: replayed.execution,
                orchestration: recording.orchestration.clone(),
                version: recording.version.clone(),
                fault,
            });
        }
    }

    pub(super) fn unreadable(&mut self, what: Unreadable, why: String) {
        self.unreadable.push((what, why));
    }

    fn count(&self, effect: Effect) -> usize {
        self.faults.iter().filter(|found| found.fault.effect == effect).count()
    }

    pub(super) fn checked(&self, unchecked: usize) -> Checked {
        Checked {
            replayed: self.replayed,
            faults: self.faults.len(),
            unreadable: self.unreadable.len(),
            unchecked,
            text: self.text(false).trim_end().to_owned(),
        }
    }

    pub(super) fn answer(&self, orchestrator: &Path, payloads: bool) -> Answer {
        let passes = self.faults.is_empty() && self.unreadable.is_empty();
        Answer {
            code: if passes { Code::Done } else { Code::Error },
            json: self.json(orchestrator, payloads),
            text: self.text(payloads),
        }
    }

    fn json(&self, orchestrator: &Path, payloads: bool) -> Value {
        let unreadable = self.unreadable.iter().map(|(what, why)| {
            let (kind, name) = what.kind_and_name();
            json!({ kind: name, "reason": why })
        });
        json!({
            "orchestrator": orchestrator.display().to_string(),
            "replayed": self.replayed,
            "events": self.events,
            "ok": self.replayed - self.faults.len(),
            "wouldBlock": self.count(Effect::Blocks),
            "wouldDiverge": self.count(Effect::Diverges),
            "skipped": { "notBegun": self.not_begun, "gone": self.gone },
            "more": self.more,
            "faults": self.faults.iter().map(|found| found.json(payloads)).collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }

    fn text(&self, payloads: bool) -> String {
        let mut text: String = self
            .faults
            .iter()
            .take(SHOWN)
            .map(|found| found.text(payloads))
            .collect();
        if self.faults.len() > SHOWN {
            text.push_str(&format!("and {} more: see --json\n", self.faults.len() - SHOWN));
        }
        for (what, why) in &self.unreadable {
            let (kind, name) = what.kind_and_name();
            text.push_str(&escape(&format!("{kind} {name}: {why}")));
            text.push('\n');
        }
        let mut parts = vec![format!("{} ok", self.replayed - self.faults.len())];
        let counts = [
            (self.count(Effect::Blocks), "would block"),
            (self.count(Effect::Diverges), "would go on differently"),
        ];
        parts.extend(
            counts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}")),
        );
        text.push_str(&format!(
            "{}: {}\n",
            counted(self.replayed, "history", "histories"),
            parts.join(", ")
        ));
        let left = [
            (self.unreadable.len(), "history", "histories", "cannot be read"),
            (self.not_begun, "instance", "instances", "skipped: no history yet"),
            (
                self.gone,
                "instance",
                "instances",
                "skipped: ended or deleted meanwhile",
            ),
        ];
        for (count, one, many, what) in left.into_iter().filter(|(count, ..)| *count > 0) {
            text.push_str(&format!("{} {what}\n", counted(count, one, many)));
        }
        if self.more {
            text.push_str("there are more instances than --limit\n");
        }
        text
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Found {
    fn json(&self, payloads: bool) -> Value {
        let asked = |asked: &Option<Asked>| {
            let mut asked = asked.clone();
            if let Some(asked) = asked.as_mut().filter(|_| !payloads) {
                asked.input = None;
            }
            json!(asked)
        };
        json!({
            "instance": self.instance,
            "execution": self.execution,
            "orchestration": self.orchestration,
            "version": self.version,
            "cause": self.fault.cause,
            "effect": self.fault.effect,
            "event": self.fault.event,
            "expected": asked(&self.fault.expected),
            "actual": asked(&self.fault.actual),
            "reason": self.fault.reason,
        })
    }

    fn text(&self, payloads: bool) -> String {
        let execution = match self.execution {
            1 => String::new(),
            execution => format!(", execution {execution}"),
        };
        let event = self
            .fault
            .event
            .map(|event| format!("event {event}: "))
            .unwrap_or_default();
        let mut lines = format!(
            "{}\n",
            escape(&format!(
                "instance {} ({} {}{execution}): {event}{}",
                self.instance, self.orchestration, self.version, self.fault.reason
            ))
        );
        let both = [("recorded", &self.fault.expected), ("new", &self.fault.actual)];
        for (whose, asked) in both.into_iter().filter(|_| payloads) {
            if let Some(input) = asked.as_ref().and_then(|asked| asked.input.as_ref()) {
                lines.push_str(&format!("  {whose}: {}\n", escape(input)));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_lambda::replay::{AskedKind, Cause};

    fn asked(name: &str) -> Option<Asked> {
        Some(Asked {
            kind: AskedKind::Activity,
            name: Some(name.to_owned()),
            input: Some(format!("secret of {name}")),
            to: None,
        })
    }

    fn report() -> Report {
        let fault = Fault {
            event: Some(12),
            expected: asked("charge-card"),
            actual: asked("reserve-stock"),
            ..Fault::new(
                Cause::Nondeterminism,
                "recorded activity charge-card, the new build asks for reserve-stock",
            )
        };
        let found = |instance: &str, execution, fault| Found {
            instance: instance.to_owned(),
            execution,
            orchestration: "fulfil-order".to_owned(),
            version: "1.2.0".to_owned(),
            fault,
        };
        Report {
            replayed: 12,
            faults: vec![
                found("order-7", 1, fault),
                found("a\u{1b}", 3, Fault::new(Cause::Divergence, "why")),
            ],
            not_begun: 1,
            ..Report::default()
        }
    }

    #[test]
    fn a_fault_is_one_line_without_payloads_and_the_counts_come_last() {
        let expected = "\
instance order-7 (fulfil-order 1.2.0): event 12: recorded activity charge-card, the new build asks for reserve-stock
instance a\\u{1b} (fulfil-order 1.2.0, execution 3): why
12 histories: 10 ok, 1 would block, 1 would go on differently
1 instance skipped: no history yet
";
        assert_eq!(report().text(false), expected);
        assert!(
            report()
                .text(true)
                .contains("\n  recorded: secret of charge-card\n  new: secret of reserve-stock\n")
        );
        for (payloads, shown) in [(false, false), (true, true)] {
            assert_eq!(
                report().json(Path::new("b"), payloads).to_string().contains("secret"),
                shown
            );
        }
    }

    #[test]
    fn the_gate_passes_only_without_faults_and_damaged_files() {
        let code = |report: &Report| report.answer(Path::new("b"), false).code;
        assert_eq!(code(&report()), Code::Error);
        let mut passing = Report::default();
        assert_eq!(code(&passing), Code::Done);
        passing.unreadable(Unreadable::File("x.json".into()), "it is damaged".to_owned());
        assert_eq!(passing.json(Path::new("b"), false)["unreadable"][0]["file"], "x.json");
        assert_eq!(code(&passing), Code::Error);
    }
}
