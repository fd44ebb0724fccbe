//! The summary of the demo, as a list of fields.

use crate::terminal::table::{Fields, Look};
use comfy_table::Color;
use local_cloud::demo::Report;
use std::collections::BTreeMap;
use std::fmt::Display;

pub(super) fn render(report: &Report, look: Look) -> String {
    let mut fields = Fields::default();
    let kills: u64 = report.kills.values().sum();
    fields.add("orders", report.orders.to_string());
    fields.add("outcomes", listed(&report.outcomes));
    fields.add(
        "turns",
        format!("{} (killed processes may not have logged theirs)", report.turns),
    );
    let once = match report.audit.problems.len() {
        0 => "each recorded once".to_owned(),
        wrong => format!("NOT each recorded once: {wrong} problems"),
    };
    fields.add("activities", format!("{}, {once}", report.audit.activities));
    let charged = match report.mischarged {
        0 => "one for each order".to_owned(),
        wrong => format!("NOT one for each order: {wrong} are wrong"),
    };
    fields.add("charges", format!("{}, {charged}", report.audit.charges));
    fields.add("kills survived", format!("{kills} ({})", listed(&report.kills)));
    fields.add(
        "wakeups",
        format!("{}, {} of them lost on purpose", report.wakeups, report.wakeups_lost),
    );
    fields.add("timer lateness", lateness(report));
    if let Some(requests) = report.cosmos_requests {
        let each = requests as f64 / report.orders.max(1) as f64;
        fields.add(
            "Cosmos requests",
            format!("{requests}: {each:.1} per order, maintenance included"),
        );
    }
    fields.add("dead letters", report.dead_letters.to_string());
    let late = report.answered_late;
    fields.maybe(
        "answered late",
        (late > 0).then(|| format!("{late} orders: the machine is slow, their timers were due first")),
    );
    fields.add("time", format!("{:.1} s", report.elapsed.as_secs_f64()));
    match report.all_well() {
        true => fields.coloured("result", "all well", Color::Green),
        false => fields.coloured(
            "result",
            format!("NOT well:\n{}", report.problems.join("\n")),
            Color::Red,
        ),
    }
    fields.render(look)
}

fn lateness(report: &Report) -> String {
    let Some((median, worst)) = report.timer_lateness() else {
        return "no timer fired".to_owned();
    };
    let timers = report.audit.lateness_ms.len();
    let (median, worst) = (median.as_secs_f64(), worst.as_secs_f64());
    format!("median {median:.2} s, worst {worst:.2} s, of {timers} timers")
}

fn listed<N: Display>(counts: &BTreeMap<String, N>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_instead_of_praise() {
        let mut report = Report {
            orders: 2,
            cosmos_requests: Some(90),
            ..Report::default()
        };
        report.audit.lateness_ms = vec![900, 100, 200];
        let text = render(&report, Look::default());
        let praise = [
            "result           all well",
            ", each recorded once",
            ", one for each order",
        ];
        for part in ["45.0 per order", "median 0.20 s, worst 0.90 s"].iter().chain(&praise) {
            assert!(text.contains(part), "{part}: {text}");
        }
        report.problems.push("order-1: charged twice".to_owned());
        report.audit.problems.push("order-1: charged twice".to_owned());
        report.mischarged = 1;
        let text = render(&report, Look::default());
        assert!(
            text.contains("NOT well:\n                 order-1: charged twice"),
            "{text}"
        );
        for part in praise {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }
}
