//! What keeps this build from going on with a turn: decisions only. No I/O.
//!
//! duroxide ends an orchestration that its code no longer fits, and gives one up that nobody registers. Here such a turn is
//! not committed: the instance is *blocked*, its state stays as it is, and another build (a rollback, or a fix) goes on.
//!
//! What duroxide does not notice cannot be blocked: code that returns earlier than its history did completes.

use crate::canary;
use crate::config::{Limits, OnDefect};
use duroxide::providers::{OrchestrationItem, WorkItem};
use duroxide::runtime::registry::Registry;
use duroxide::{AppErrorKind, ConfigErrorKind, ErrorDetails, Event, EventKind, OrchestrationRegistry};
use duroxide_cosmos::{Block, BlockCause, TurnDecision, TurnItem};

/// A build that has crashed too often runs the turn again after so many pauses: they are five minutes long then.
const TRIES_BEFORE_ANOTHER_CRASH: u32 = 10;
/// How many registered names a reason lists.
const MOST_NAMES: usize = 20;
/// The activities that duroxide registers itself begin with this.
const BUILT_IN: &str = "__duroxide_syscall:";
/// How many bytes of an error of duroxide or of user code a reason keeps.
const MOST_TEXT: usize = 600;

/// Why the turn must not be run. `blocked_here`: this build has blocked it before.
pub(super) fn before(
    turn: &TurnItem,
    orchestrations: &OrchestrationRegistry,
    limits: &Limits,
    blocked_here: bool,
) -> Option<Block> {
    let item = &turn.item;
    // A crash may have been the store's outage, so the build tries again, when its pauses have grown long.
    if let Some(blocked) = turn.blocked.as_ref().filter(|_| blocked_here)
        && blocked.cause == BlockCause::Crash
        && blocked.tries < TRIES_BEFORE_ANOTHER_CRASH
    {
        return Some(Block {
            cause: blocked.cause,
            reason: blocked.reason.clone(),
        });
    }
    let is_over = item.history.iter().any(is_over);
    if turn.attempt > limits.max_attempts && !is_over {
        let reason = format!(
            "turn {} of orchestration `{}` was begun {} times and never committed: it kills its process (out of memory?), or \
             outlives its invocation; the log has these invocations; a build that gets through goes on",
            turn.turn, item.orchestration_name, limits.max_attempts
        );
        return Some(Block {
            cause: BlockCause::Crash,
            reason,
        });
    }
    if let Some(error) = &item.history_error {
        let reason = format!("its history cannot be read by this build: {}", cut(error));
        return Some(Block {
            cause: BlockCause::History,
            reason,
        });
    }
    unknown(item, orchestrations)
}

/// Why the orchestration of a turn cannot be run: nobody registers it.
pub(crate) fn unknown(item: &OrchestrationItem, orchestrations: &OrchestrationRegistry) -> Option<Block> {
    let (name, version) = orchestration(item)?;
    unknown_orchestration(orchestrations, name, version)
}

/// Why the turn that was run must not be committed.
pub(super) fn after(decision: &TurnDecision, limits: &Limits) -> Option<Block> {
    defect(&decision.events, limits)
}

/// The same, from the events of the turn.
pub(crate) fn defect(events: &[Event], limits: &Limits) -> Option<Block> {
    let details = events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationFailed { details } => Some(details),
        _ => None,
    })?;
    // It fails with the error of a child, which no build can change.
    let is_of_child =
        |event: &Event| matches!(&event.kind, EventKind::SubOrchestrationFailed { details: of } if of == details);
    if events.iter().any(is_of_child) {
        return None;
    }
    match details {
        ErrorDetails::Configuration {
            kind: ConfigErrorKind::Nondeterminism,
            message,
            ..
        } if limits.on_nondeterminism == OnDefect::Block => {
            let message = without_payloads(message.as_deref().unwrap_or("no details"));
            let reason = format!(
                "the orchestration's code does not do what its history says that it did ({}): roll back, or deploy a build \
                 that keeps the old code for running instances",
                cut(&message)
            );
            Some(Block {
                cause: BlockCause::Nondeterminism,
                reason,
            })
        }
        ErrorDetails::Application {
            kind: AppErrorKind::Panicked,
            message,
            ..
        } if limits.on_panic == OnDefect::Block => Some(Block {
            cause: BlockCause::Panic,
            reason: format!(
                "the orchestration's code panicked: {}; roll back, or deploy a fix",
                cut(message)
            ),
        }),
        _ => None,
    }
}

/// Why an activity cannot be run.
pub(crate) fn unknown_activity<H: ?Sized>(activities: &Registry<H>, name: &str) -> Option<Block> {
    if activities.has(name) || name.starts_with(BUILT_IN) {
        return None;
    }
    Some(Block {
        cause: BlockCause::UnknownName,
        reason: format!(
            "no deployed function registers activity `{name}`; registered here: {}",
            listed(activities.list_names())
        ),
    })
}

fn unknown_orchestration(orchestrations: &OrchestrationRegistry, name: &str, version: Option<&str>) -> Option<Block> {
    let is_known = match version {
        None => orchestrations.has(name),
        Some(version) => semver::Version::parse(version)
            .is_ok_and(|version| orchestrations.resolve_handler_exact(name, &version).is_some()),
    };
    if is_known {
        return None;
    }
    Some(Block {
        cause: BlockCause::UnknownName,
        reason: not_registered(orchestrations, name, version, "no deployed function registers"),
    })
}

/// The reason why an orchestration cannot be run. `who` is the beginning of the sentence.
pub(crate) fn not_registered(
    orchestrations: &OrchestrationRegistry,
    name: &str,
    version: Option<&str>,
    who: &str,
) -> String {
    let versions = orchestrations
        .list_versions(name)
        .into_iter()
        .map(|version| version.to_string());
    match version {
        Some(version) if orchestrations.has(name) => format!(
            "{who} version {version} of orchestration `{name}`; versions registered here: {}",
            listed(versions.collect())
        ),
        _ => format!(
            "{who} orchestration `{name}`; registered here: {}",
            listed(orchestrations.list_names())
        ),
    }
}

/// The orchestration that the turn would run, as duroxide finds it; `None` if it would run none.
fn orchestration(item: &OrchestrationItem) -> Option<(&str, Option<&str>)> {
    if item.history.iter().any(is_over) {
        return None;
    }
    let started = item.messages.iter().find_map(|message| match message {
        WorkItem::ContinueAsNew {
            orchestration, version, ..
        } => Some((orchestration.as_str(), version.as_deref())),
        WorkItem::StartOrchestration {
            orchestration, version, ..
        } if item.history.is_empty() => Some((orchestration.as_str(), version.as_deref())),
        _ => None,
    });
    started.or_else(|| {
        item.history.iter().rev().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted { name, version, .. } => Some((name.as_str(), Some(version.as_str()))),
            _ => None,
        })
    })
}

/// Whether the instance has ended with this event.
pub(crate) fn is_over(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::OrchestrationCompleted { .. } | EventKind::OrchestrationFailed { .. }
    )
}

fn listed(mut names: Vec<String>) -> String {
    names.retain(|name| !canary::is_reserved(name));
    if names.is_empty() {
        return "none".to_owned();
    }
    names.sort();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let mut text = names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// An error's text, shortened.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= MOST_TEXT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MOST_TEXT)])
}

/// duroxide's text without its quoted parts, which may be inputs and results. Names stay.
pub(crate) fn without_payloads(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(begin) = rest.find('"') {
        let quoted = &rest[begin + 1..];
        let mut is_escaped = false;
        let end = quoted.find(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        let end = end.unwrap_or(quoted.len());
        kept.push_str(&rest[..begin]);
        match rest[..begin].ends_with("name: ") {
            true => kept.push_str(&format!("\"{}\"", &quoted[..end])),
            false => kept.push('…'),
        }
        rest = quoted.get(end + 1..).unwrap_or_default();
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::OrchestrationContext;

    fn orchestrations() -> OrchestrationRegistry {
        let run = |_: OrchestrationContext, input: String| async move { Ok::<_, String>(input) };
        OrchestrationRegistry::builder()
            .register("Order", run)
            .register_versioned("Order", "2.0.0", run)
            .register("Refund", run)
            .build()
    }

    #[test]
    fn unknown_names_and_versions_are_told_apart() {
        let all = orchestrations();
        assert!(unknown_orchestration(&all, "Order", None).is_none());
        assert!(unknown_orchestration(&all, "Order", Some("2.0.0")).is_none());
        let reason = |name, version| unknown_orchestration(&all, name, version).unwrap().reason;
        assert_eq!(
            reason("Ordr", None),
            "no deployed function registers orchestration `Ordr`; registered here: `Order`, `Refund`"
        );
        assert!(
            reason("Order", Some("3.0.0")).contains("version 3.0.0 of orchestration `Order`; versions registered here")
        );
        assert!(reason("Order", Some("latest")).contains("version latest"));
    }

    #[test]
    fn many_names_are_cut() {
        let names = (0..25).map(|n| format!("n{n:02}")).collect();
        assert!(listed(names).ends_with("`n19` and 5 more"));
        assert_eq!(listed(Vec::new()), "none");
    }

    #[test]
    fn payloads_of_a_mismatch_are_not_kept() {
        let text = "schedule mismatch: action=CallActivity { name: \"Charge\", input: \"{\\\"card\\\":\\\"4111\\\"}\" } vs \
                    event=TimerCreated";
        assert_eq!(
            without_payloads(text),
            "schedule mismatch: action=CallActivity { name: \"Charge\", input: … } vs event=TimerCreated"
        );
        assert_eq!(without_payloads("a \"never closed"), "a …");
        assert_eq!(without_payloads("plain"), "plain");
    }
}
