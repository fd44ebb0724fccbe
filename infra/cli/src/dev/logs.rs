//! The functions' log lines, each after the instance that it is about; and which of them are shown.

use crate::client::Names;
use crate::terminal::text::{cut, escape};
use crate::up::Output;
use crate::up::log_lines::{self, OfInstance};
use clap::Args;
use local_cloud::{LogLine, LogSink};
use tokio::sync::mpsc;

/// The columns of an instance's id.
const COLUMNS: usize = 20;
/// The colours of instances on a terminal.
const COLOURS: [u8; 6] = [2, 3, 4, 5, 6, 14];

/// Which lines are shown.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Only log lines about this instance and its children without ids of their own; may be repeated
    #[arg(long = "instance", value_name = "ID")]
    instances: Vec<String>,
    /// Only log lines about instances of this orchestration; may be repeated
    #[arg(long = "name", value_name = "ORCHESTRATION")]
    names: Vec<String>,
    /// Do not show the functions' logs, only their failed invocations
    #[arg(long, conflicts_with_all = ["instances", "names"])]
    quiet: bool,
}

/// Whether to show a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Show,
    Hide,
    /// If its instance is of an orchestration that is shown.
    IfNamed,
}

impl Shown {
    fn decide(&self, line: &LogLine, instance: Option<&str>) -> Decision {
        let filtered = !self.instances.is_empty() || !self.names.is_empty();
        match instance {
            _ if line.report => Decision::Show,
            _ if self.quiet || log_lines::is_idle(line) => Decision::Hide,
            _ if !filtered => Decision::Show,
            Some(id) if self.instances.iter().any(|wanted| is_of(id, wanted)) => Decision::Show,
            Some(_) if !self.names.is_empty() => Decision::IfNamed,
            _ => Decision::Hide,
        }
    }
}

/// Whether an instance is this one, or a child that duroxide has named after it.
fn is_of(id: &str, wanted: &str) -> bool {
    id.strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Takes lines, and shows them when [`Lines::show`] runs.
pub(super) struct Lines {
    shown: Shown,
    lines: mpsc::UnboundedReceiver<LogLine>,
}

/// The sink of a cloud, and what shows its lines in their order.
pub(super) fn lines(shown: Shown) -> (LogSink, Lines) {
    let (sender, lines) = mpsc::unbounded_channel();
    // Without a receiver the program is about to end.
    let sink = LogSink::new(move |line| sender.send(line.clone()).unwrap_or_default());
    (sink, Lines { shown, lines })
}

impl Lines {
    /// Shows lines until the cloud ends. The API at this address knows which orchestration an instance runs.
    pub(super) async fn show(mut self, api: &str, stdout: &Output) -> Result<(), String> {
        let mut names = match self.shown.names.is_empty() {
            true => None,
            false => Some(Names::at(api).await?),
        };
        while let Some(line) = self.lines.recv().await {
            let OfInstance {
                instance,
                text,
                is_routine,
            } = log_lines::of_instance(&line);
            if is_routine {
                continue;
            }
            let shows = match (self.shown.decide(&line, instance.as_deref()), &mut names, &instance) {
                (Decision::IfNamed, Some(names), Some(instance)) => {
                    let name = names.of(instance).await;
                    name.is_none_or(|name| self.shown.names.iter().any(|wanted| wanted == name))
                }
                (decision, ..) => decision == Decision::Show,
            };
            if shows {
                stdout.line(&prefixed(instance.as_deref(), &text));
            }
        }
        Ok(())
    }
}

/// The line after the id of its instance, in a colour of that instance's own.
fn prefixed(instance: Option<&str>, text: &str) -> String {
    let shown = instance
        .map(|id| cut(&escape(id), COLUMNS))
        .unwrap_or_else(|| "-".to_owned());
    let column = console::pad_str(&shown, COLUMNS, console::Alignment::Left, None).into_owned();
    let Some(id) = instance else {
        return format!("{column} {text}");
    };
    let sum = id
        .bytes()
        .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!(
        "{} {text}",
        console::style(column).color256(COLOURS[sum % COLOURS.len()])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, report: bool) -> LogLine {
        LogLine {
            function: "worker".to_owned(),
            environment: 1,
            text: text.to_owned(),
            report,
        }
    }

    #[test]
    fn filters_choose_lines_by_instance_and_failed_invocations_are_always_shown() {
        let of = |instances: &[&str], names: &[&str], quiet| Shown {
            instances: instances.iter().map(|id| (*id).to_owned()).collect(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            quiet,
        };
        use Decision::{Hide, IfNamed, Show};
        for (shown, instance, expected) in [
            (of(&[], &[], false), Some("a"), Show),
            (of(&[], &[], false), None, Show),
            (of(&[], &[], true), Some("a"), Hide),
            (of(&["a"], &[], false), Some("a"), Show),
            (of(&["a"], &[], false), Some("a::sub::2"), Show),
            (of(&["a"], &[], false), Some("ab"), Hide),
            (of(&["a"], &[], false), None, Hide),
            (of(&["a"], &["Order"], false), Some("b"), IfNamed),
            (of(&[], &["Order"], false), None, Hide),
        ] {
            assert_eq!(
                shown.decide(&line("text", false), instance),
                expected,
                "{shown:?} {instance:?}"
            );
            assert_eq!(shown.decide(&line("REPORT", true), instance), Show);
        }
    }

    #[test]
    fn a_line_begins_with_its_instance() {
        console::set_colors_enabled(false);
        assert_eq!(prefixed(Some("order-7"), "text"), "order-7              text");
        assert_eq!(prefixed(None, "text"), "-                    text");
        assert!(prefixed(Some(&"x".repeat(30)), "text").contains("x… text"));
    }
}
