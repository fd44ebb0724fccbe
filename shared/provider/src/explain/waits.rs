//! What an instance waits for, besides activities: events, queues, timers and children. Pure.

use super::cause::Cause;
use super::facts::Facts;
use super::open::{Arrival, Begun, CreatedTimer, Open, StartedChild};
use super::similar::is_similar;
use super::types::{ExplainSettings, Similar, Wait, WaitKind, WokenBy};
use super::words::{advice, ago, command, count, lasts, left, name, one_line};
use crate::model::{DeadLetterKind, MessageDoc};
use crate::store::millis;
use duroxide::providers::WorkItem;

/// From this many attempts without a result on, somebody should look.
pub(super) const TROUBLED: u32 = 3;

/// How late something is that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// Its wakeup is on its way.
    Fresh,
    /// Its wakeup is lost, or waits in a long queue. Maintenance wakes it again.
    Late,
    /// Several wakeups did not help.
    Stuck,
}

pub(super) fn lateness(now_ms: u64, due_at: u64, settings: &ExplainSettings) -> Lateness {
    match now_ms.saturating_sub(due_at) {
        age if age >= millis(settings.stuck) => Lateness::Stuck,
        age if age >= millis(settings.overdue) => Lateness::Late,
        _ => Lateness::Fresh,
    }
}

/// A wait of which nothing more is known.
pub(super) fn wait(kind: WaitKind, cause: Cause, id: u64, since: u64) -> Wait {
    Wait {
        kind,
        cause,
        id,
        name: None,
        instance: None,
        text: String::new(),
        needs_attention: false,
        since: Some(since),
        due: None,
        attempt: None,
        max_attempts: None,
        last_end: None,
        last_error: None,
        claimed_until: None,
        blocked: None,
        tag: None,
        session: None,
        woken_by: None,
        may_be_left_over: false,
        similar: Vec::new(),
        next: Vec::new(),
    }
}

/// The wait for an event, or for a message in a queue.
pub(super) fn external(facts: &Facts, open: &Open, begun: &Begun<String>, kind: WaitKind) -> Wait {
    let is_queue = kind == WaitKind::Queue;
    let (cause, missed, verb) = match is_queue {
        true => (Cause::Queue, Cause::QueueMissed, "enqueue"),
        false => (Cause::Event, Cause::EventMissed, "raise"),
    };
    let mut found = wait(kind, cause, begun.id, begun.since);
    let wanted = begun.what.as_str();
    found.name = Some(begun.what.clone());
    found.similar = similar(facts, open, wanted, is_queue);
    found.text = format!(
        "{} {} for {}",
        if is_queue { "a message in queue" } else { "event" },
        name(wanted),
        lasts(facts.now_ms, begun.since)
    );
    if let Some(first) = found.similar.first() {
        found.cause = missed;
        found.needs_attention = true;
        found.text = format!("{}, but {}", found.text, first.why);
    }
    let what = if is_queue {
        "Send the message."
    } else {
        "Raise the event."
    };
    let arguments = [verb, facts.instance.as_str(), wanted, "DATA"];
    found.next = vec![command(what, &arguments)];
    found
}

/// What arrived and may have been meant for this wait: under a similar name, as the other kind, too early, or as a dead letter.
fn similar(facts: &Facts, open: &Open, wanted: &str, is_queue: bool) -> Vec<Similar> {
    let fits = |arrival: &&Arrival| arrival.name == wanted || is_similar(wanted, &arrival.name);
    let arrived = open.arrivals.iter().filter(fits).map(|arrival| Similar {
        kind: kind_of(arrival.is_queued),
        name: arrival.name.clone(),
        at: Some(arrival.at),
        why: why(facts, arrival, wanted, is_queue),
    });
    let dead = facts.letters.iter().filter_map(|letter| {
        let message = letter.given_up.message.as_ref()?;
        let (found, is_queued) = named(message)?;
        (found == wanted || is_similar(wanted, &found)).then(|| Similar {
            kind: kind_of(is_queued),
            why: format!(
                "{} {} became a dead letter {}",
                article(is_queued),
                name(&found),
                ago(facts.now_ms, letter.at)
            ),
            name: found,
            at: Some(letter.at),
        })
    });
    arrived.chain(dead).collect()
}

fn why(facts: &Facts, arrival: &Arrival, wanted: &str, is_queue: bool) -> String {
    let when = ago(facts.now_ms, arrival.at);
    let what = format!("{} {} arrived {when}", article(arrival.is_queued), name(&arrival.name));
    match (arrival.name == wanted, arrival.is_queued == is_queue) {
        (true, true) => format!("{what}, before the orchestration waited for it, and was lost"),
        (true, false) if is_queue => format!("{what}: it was raised as an event instead of enqueued"),
        (true, false) => format!("{what}: it was enqueued instead of raised as an event"),
        (false, _) => what,
    }
}

fn kind_of(is_queued: bool) -> WaitKind {
    match is_queued {
        true => WaitKind::Queue,
        false => WaitKind::Event,
    }
}

fn article(is_queued: bool) -> &'static str {
    match is_queued {
        true => "a message in queue",
        false => "an event",
    }
}

/// The name of an event or queue message, and whether it was queued.
fn named(message: &MessageDoc) -> Option<(String, bool)> {
    match serde_json::from_str(message.item.get()).ok()? {
        WorkItem::ExternalRaised { name, .. } => Some((name, false)),
        WorkItem::QueueMessage { name, .. } => Some((name, true)),
        _ => None,
    }
}

/// The wait for a timer.
pub(super) fn timer(facts: &Facts, begun: &Begun<CreatedTimer>, settings: &ExplainSettings) -> Wait {
    let (now, created) = (facts.now_ms, &begun.what);
    let mut found = wait(WaitKind::Timer, Cause::Timer, begun.id, begun.since);
    found.due = Some(created.fire_at);
    found.may_be_left_over = created.may_be_left_over;
    let is_near = created.fire_at.saturating_sub(begun.since) <= millis(settings.wakeup_reach);
    found.woken_by = Some(if is_near { WokenBy::Wakeup } else { WokenBy::Maintenance });
    let how = match is_near {
        true => "its wakeup was sent",
        false => "maintenance wakes it when it is near",
    };
    found.text = format!("a timer that fires in {} ({how})", left(now, created.fire_at));
    if let Some(failed) = &created.after_failure {
        let times = count(failed.times as usize, "time", "times");
        found.name = Some(failed.name.clone());
        found.last_error = Some(one_line(&failed.error));
        found.text = format!(
            "{}, after activity {} failed {times}, the last with: {}",
            found.text,
            name(&failed.name),
            one_line(&failed.error)
        );
    }
    let execution = facts.doc().map_or(0, |doc| doc.current.execution);
    let is_message = |item: &Option<WorkItem>| matches!(item, Some(WorkItem::TimerFired { id, execution_id, .. }) if *id == begun.id && *execution_id == execution);
    let is_queued = facts.messages.iter().any(|message| is_message(&message.item));
    if !is_queued && !facts.more && facts.unreadable.is_empty() {
        found.cause = Cause::TimerMissing;
        found.needs_attention = !created.may_be_left_over;
        found.text = "a timer that is neither queued nor has fired".to_owned();
        found.next = vec![advice(
            "The state of this instance is lost. Report it with the answer of this command and the history.",
        )];
    }
    found
}

/// The wait for a child, as far as the partition of its parent knows.
pub(super) fn child(facts: &Facts, begun: &Begun<StartedChild>, settings: &ExplainSettings) -> Wait {
    let (now, started) = (facts.now_ms, &begun.what);
    let mut found = wait(WaitKind::Child, Cause::Child, begun.id, begun.since);
    found.name = Some(started.name.clone());
    found.instance = Some(started.instance.clone());
    let what = format!("child {}", name(&started.instance));
    found.text = format!("{what} for {}", lasts(now, begun.since));
    let intent = facts
        .intents
        .iter()
        .find(|intent| intent.message.pk == started.instance);
    let letter = facts.letters.iter().find(|letter| {
        let given_up = &letter.given_up;
        let is_start = given_up
            .message
            .as_ref()
            .is_none_or(|message| message.starts().is_some());
        given_up.cause == DeadLetterKind::Undeliverable
            && given_up.target.as_deref() == Some(started.instance.as_str())
            && is_start
            && letter.at >= begun.since
    });
    if let Some(intent) = intent.filter(|intent| intent.message.starts().is_some()) {
        found.cause = Cause::ChildStartUndelivered;
        found.attempt = Some(intent.attempts).filter(|attempts| *attempts > 0);
        found.due = Some(intent.due_at);
        found.last_error = intent.last_error.as_deref().map(one_line);
        found.needs_attention =
            intent.attempts >= TROUBLED || lateness(now, intent.due_at, settings) == Lateness::Stuck;
        let error = found.last_error.as_ref().map(|error| format!(", last error: {error}"));
        found.text = format!(
            "{what}, whose start is not delivered yet (queued {}{})",
            ago(now, intent.queued_at),
            error.unwrap_or_default()
        );
        found.next = vec![advice(
            "Nothing yet: the next run of maintenance delivers it. If it stays, check that maintenance runs.",
        )];
    } else if let Some(letter) = letter {
        found.cause = Cause::ChildStartGivenUp;
        found.needs_attention = true;
        found.text = format!(
            "{what}, whose start was given up {}: {}",
            ago(now, letter.at),
            one_line(&letter.given_up.reason)
        );
        found.next = vec![command(
            "Remove the cause, then deliver the start again.",
            &["dead-letters", "redrive", &facts.instance, &letter.id],
        )];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_late_after_a_reminder_and_stuck_after_several() {
        let settings = ExplainSettings::default();
        for (age, expected) in [
            (0, Lateness::Fresh),
            (29_999, Lateness::Fresh),
            (30_000, Lateness::Late),
            (299_999, Lateness::Late),
            (300_000, Lateness::Stuck),
        ] {
            assert_eq!(lateness(1_000_000 + age, 1_000_000, &settings), expected, "{age}");
        }
        assert_eq!(lateness(5, 10, &settings), Lateness::Fresh, "it is not due");
    }
}
