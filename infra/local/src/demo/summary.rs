//! What the demo found, as a table; and whether all is well.

use super::audit::Audit;
use crate::term::table::{Fields, Look, Tone};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the demo found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub orders: usize,
    /// How many ended so.
    pub outcomes: BTreeMap<String, usize>,
    pub turns: usize,
    pub audit: Audit,
    /// Orders that were not charged exactly once.
    pub mischarged: usize,
    /// Processes killed, by function.
    pub kills: BTreeMap<String, u64>,
    pub wakeups: u64,
    pub wakeups_lost: u64,
    pub cosmos_requests: Option<u64>,
    pub dead_letters: u64,
    pub elapsed: Duration,
    /// What is not as it must be, besides what the audit found.
    pub problems: Vec<String>,
}

impl Summary {
    pub fn is_well(&self) -> bool {
        self.problems.is_empty() && self.audit.problems.is_empty()
    }

    pub fn render(&self, look: Look) -> String {
        let mut fields = Fields::default();
        fields.add("orders", self.orders.to_string());
        fields.add("outcomes", listed(&self.outcomes));
        fields.add(
            "turns",
            format!("{} (as far as killed processes could tell)", self.turns),
        );
        let once = match self.audit.problems.len() {
            0 => "each recorded once".to_owned(),
            wrong => format!("NOT each recorded once: {wrong} problems"),
        };
        fields.add("activities", format!("{}, {once}", self.audit.activities));
        let charged = match self.mischarged {
            0 => "one for each order".to_owned(),
            wrong => format!("NOT one for each order: {wrong} are wrong"),
        };
        fields.add("charges", format!("{}, {charged}", self.audit.charges));
        let killed: u64 = self.kills.values().sum();
        fields.add("kills survived", format!("{killed} ({})", listed(&self.kills)));
        fields.add(
            "wakeups",
            format!("{}, {} of them lost on purpose", self.wakeups, self.wakeups_lost),
        );
        fields.add("timer lateness", self.lateness());
        if let Some(requests) = self.cosmos_requests {
            let each = requests as f64 / self.orders.max(1) as f64;
            fields.add(
                "Cosmos requests",
                format!("{requests}: {each:.1} per order, maintenance included"),
            );
        }
        fields.add("dead letters", self.dead_letters.to_string());
        fields.add("time", format!("{:.1} s", self.elapsed.as_secs_f64()));
        let mut problems = self.problems.iter().chain(&self.audit.problems);
        match problems.next() {
            None => fields.toned("verdict", "all is well", Tone::Good),
            Some(first) => {
                let rest: String = problems.map(|problem| format!("\n{problem}")).collect();
                fields.toned("verdict", format!("NOT well:\n{first}{rest}"), Tone::Bad);
            }
        }
        fields.render(look)
    }

    fn lateness(&self) -> String {
        let mut sorted = self.audit.lateness_ms.clone();
        sorted.sort_unstable();
        let Some(worst) = sorted.last() else {
            return "no timer fired".to_owned();
        };
        let seconds = |ms: u64| ms as f64 / 1000.0;
        format!(
            "median {:.2} s, worst {:.2} s, of {} timers",
            seconds(sorted[sorted.len() / 2]),
            seconds(*worst),
            sorted.len()
        )
    }
}

fn listed<N: std::fmt::Display>(counts: &BTreeMap<String, N>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_and_makes_the_demo_fail() {
        let mut summary = Summary {
            orders: 2,
            cosmos_requests: Some(90),
            ..Summary::default()
        };
        summary.audit.lateness_ms = vec![900, 100, 200];
        assert!(summary.is_well());
        let text = summary.render(Look::default());
        assert!(
            text.contains("45.0 per order") && text.contains("median 0.20 s, worst 0.90 s"),
            "{text}"
        );
        let praise = ["all is well", ", each recorded once", ", one for each order"];
        for part in praise {
            assert!(text.contains(part), "{part}: {text}");
        }
        summary.audit.problems.push("order-1: charged twice".to_owned());
        summary.mischarged = 1;
        assert!(!summary.is_well());
        let text = summary.render(Look::default());
        assert!(text.contains("NOT well"), "{text}");
        for part in praise {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }
}
