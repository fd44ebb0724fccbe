//! `duroxide-lambda rewind`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::id_parser;
use super::{Common, examples};
use crate::terminal::text::escape;
use clap::Args;
use duroxide_lambda_api::types::{RewindRequest, Rewound, Step};

/// How many steps of a kind are printed.
const MOST_STEPS: usize = 20;

/// Let a failed or cancelled instance go on from before its failure.
///
/// Failed activities run again, failed children are rewound, results that were obtained are kept. `history --undone` shows what was
/// undone. Use --dry-run first: it lists what runs again.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "rewind order-7 --dry-run",
    "rewind order-7 --reason 'the shop is repaired'",
    "rewind order-7 --before 12 --discard-results",
    "history order-7 --undone 1",
]))]
pub struct Rewind {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Rewind to before this event [default: to before the failure]
    #[arg(long, value_name = "EVENT", value_parser = clap::value_parser!(u64).range(1..))]
    before: Option<u64>,
    /// Run activities again whose results were obtained after that event
    #[arg(long)]
    discard_results: bool,
    /// Rewind a child without its parent, which does not get the new result
    #[arg(long)]
    alone: bool,
    /// Only list what would happen
    #[arg(long)]
    dry_run: bool,
    /// The reason, which is kept with what was undone
    #[arg(long, value_name = "TEXT", value_parser = id_parser())]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Rewind {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let request = RewindRequest {
            before: self.before,
            discard_results: self.discard_results,
            alone: self.alone,
            reason: self.reason.clone(),
            dry_run: self.dry_run,
        };
        let rewound = connection.rewind(&self.instance, &request).await?;
        let json = serde_json::to_value(&rewound).map_err(|error| Failure::error(error.to_string()))?;
        Ok(Answer::done(json, text(&rewound)))
    }
}

fn text(rewound: &Rewound) -> String {
    let instance = escape(&rewound.instance);
    let mut lines = vec![match rewound.dry_run {
        true => format!(
            "{instance} would go on from before event {}: {} events undone, {} kept",
            rewound.before, rewound.undone, rewound.kept
        ),
        false => format!(
            "rewound {instance} to before event {}: {} events undone, {} kept",
            rewound.before, rewound.undone, rewound.kept
        ),
    }];
    let verb = |would: &'static str, does: &'static str| if rewound.dry_run { would } else { does };
    lines.extend(list(verb("would run again", "runs again"), &rewound.activities));
    lines.extend(list(verb("would be settled", "settled"), &rewound.children));
    lines.extend(list("kept, delivered again", &rewound.delivered));
    lines.extend(list("waited for again", &rewound.timers));
    lines.extend(list("kept, used when it is scheduled again", &rewound.reused));
    lines.extend(list("failure kept", &rewound.kept_failures));
    lines.join("\n")
}

/// A line for each step, up to a limit.
pub(super) fn list(what: &str, steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| {
        let name = if step.name.is_empty() {
            String::new()
        } else {
            format!(" {}", escape(&step.name))
        };
        let failures = match step.failures {
            0 => String::new(),
            1 => ", failed once".to_owned(),
            n => format!(", failed {n} times"),
        };
        format!("  {what}: {}{name} (event {}{failures})", step.kind, step.event)
    };
    let mut lines: Vec<String> = steps.iter().take(MOST_STEPS).map(line).collect();
    if steps.len() > MOST_STEPS {
        lines.push(format!("  {what}: {} more", steps.len() - MOST_STEPS));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_lists_what_runs_again() {
        let step = |event: u64, failures: u64| Step {
            kind: "activity".to_owned(),
            event,
            name: "Ship".to_owned(),
            failures,
        };
        let rewound = Rewound {
            instance: "a".to_owned(),
            before: 5,
            undone: 3,
            kept: 4,
            activities: vec![step(4, 2)],
            delivered: vec![step(6, 0)],
            ..Rewound::default()
        };
        assert_eq!(
            text(&rewound),
            "rewound a to before event 5: 3 events undone, 4 kept\n  runs again: activity Ship (event 4, failed 2 times)\n  \
             kept, delivered again: activity Ship (event 6)"
        );
        let many: Vec<Step> = (0..25).map(|n| step(n, 0)).collect();
        assert_eq!(list("x", &many).len(), MOST_STEPS + 1);
    }
}
