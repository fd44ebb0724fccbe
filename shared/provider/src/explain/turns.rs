//! What a turn of the instance waits for, or does. Pure.

use super::cause::Cause;
use super::decide::Verdict;
use super::facts::{Facts, Queued};
use super::types::{Advice, ExplainSettings};
use super::waits::{Lateness, TROUBLED, lateness};
use super::words::{advice, ago, attempt_of, command, count, lasts, left, name, one_line, span};
use crate::model::{BlockCause, InstanceDoc, PausePhase, Status};
use crate::store::millis;
use duroxide::providers::WorkItem;

/// An operator has paused the instance. A cancellation ends it all the same, so a queued one decides instead.
pub(super) fn paused(facts: &Facts, doc: &InstanceDoc) -> Option<Verdict> {
    let paused = doc.paused()?;
    if facts.messages.iter().any(|message| message.doc.cancels()) {
        return None;
    }
    let now = facts.now_ms;
    let running = facts.works.iter().filter(|work| work.is_claimed_at(now)).count();
    let waiting = facts
        .messages
        .iter()
        .filter(|message| message.doc.first_due_ms() <= now)
        .count();
    let reason = paused
        .reason
        .as_deref()
        .map(|reason| format!(" ({})", one_line(reason)))
        .unwrap_or_default();
    let mut predicate = match paused.phase {
        PausePhase::Parking => format!("is being paused{reason}, begun {}", ago(now, paused.since)),
        PausePhase::Resuming => format!("is being resumed; it was paused {}{reason}", ago(now, paused.since)),
        PausePhase::Parked => format!("has been paused for {}{reason}", lasts(now, paused.since)),
    };
    if waiting > 0 {
        predicate = format!(
            "{predicate}; {} for its next turn",
            count(waiting, "message waits", "messages wait")
        );
    }
    if running > 0 {
        predicate = format!(
            "{predicate}; {} to the end",
            count(running, "activity runs", "activities run")
        );
    }
    let (cause, next) = match paused.phase {
        PausePhase::Parked => (
            Cause::Paused,
            vec![
                command("Let it go on.", &["resume", &facts.instance]),
                command("Or end it.", &["cancel", &facts.instance]),
            ],
        ),
        PausePhase::Parking | PausePhase::Resuming => (
            Cause::Pausing,
            vec![advice(
                "Nothing: whoever meets the instance next, maintenance at the latest, completes it.",
            )],
        ),
    };
    Some(Verdict::new(cause, predicate).since(paused.since).next(next))
}

/// A turn has claimed the instance.
pub(super) fn running(facts: &Facts, doc: &InstanceDoc, settings: &ExplainSettings) -> Option<Verdict> {
    let claim = doc.lock.claim_at(facts.now_ms)?;
    let attempts = attempts(doc, claim.messages.iter().map(String::as_str));
    let (until, now) = (doc.lock.until, facts.now_ms);
    let attempt = match attempts {
        0 | 1 => String::new(),
        attempts => format!(" ({})", attempt_of(attempts, settings.max_attempts)),
    };
    let predicate = format!(
        "is in a turn{attempt} that has claimed it for {} more, with {}",
        left(now, until),
        count(claim.messages.len(), "message", "messages")
    );
    let next = match attempts >= TROUBLED {
        true => vec![crash_advice()],
        false => vec![advice(
            "Nothing: if the process of the turn died, the claim ends by itself.",
        )],
    };
    let verdict = Verdict::new(Cause::TurnRunning, predicate).until(until).next(next);
    Some(verdict.attention(attempts >= TROUBLED))
}

/// The last commit is published in parts.
pub(super) fn unfinished(facts: &Facts, doc: &InstanceDoc, settings: &ExplainSettings) -> Option<Verdict> {
    let unfinished = doc.lock.unfinished.as_ref()?;
    let parts = format!("{} of {} parts are published", unfinished.next, unfinished.total);
    if let Some(until) = doc.lock.publishing_until(facts.now_ms) {
        let predicate = format!("is in the middle of a large commit: {parts}");
        return Some(
            Verdict::new(Cause::CommitUnfinished, predicate)
                .since(doc.updated_at)
                .until(until),
        );
    }
    let since = doc.updated_at;
    let predicate = format!(
        "has a commit that its process did not finish, for {}: {parts}",
        lasts(facts.now_ms, since)
    );
    let is_stuck = lateness(facts.now_ms, since, settings) == Lateness::Stuck;
    let next = vec![advice(
        "Nothing yet: the next turn or the next run of maintenance publishes the rest. If it stays, check that maintenance runs.",
    )];
    Some(
        Verdict::new(Cause::CommitUnfinished, predicate)
            .since(since)
            .attention(is_stuck)
            .next(next),
    )
}

/// No deployed build can go on.
pub(super) fn blocked(facts: &Facts, doc: &InstanceDoc) -> Option<Verdict> {
    let blocked = doc.blocked.as_ref()?;
    let again = match blocked.until > facts.now_ms {
        true => format!("it tries again in {}", left(facts.now_ms, blocked.until)),
        false => "its next try is due".to_owned(),
    };
    let predicate = format!(
        "has been blocked for {} ({}, build {}, tried {}; {again}): {}",
        lasts(facts.now_ms, blocked.since),
        blocked.cause.name(),
        name(&blocked.build),
        count(blocked.tries as usize, "time", "times"),
        one_line(&blocked.reason)
    );
    let what = match blocked.cause {
        BlockCause::UnknownName => {
            let orchestration = doc.name.as_ref().or(doc.start_name.as_ref());
            let orchestration = orchestration.map_or_else(|| "it".to_owned(), |orchestration| name(orchestration));
            let version = doc.version.as_ref().map(|version| format!(" in version {version}")).unwrap_or_default();
            format!("Deploy a build that registers {orchestration}{version}: it goes on by itself then.")
        }
        BlockCause::Nondeterminism => {
            "Roll back to the build that began it, or deploy one that keeps the old code for running instances: it goes on by itself then."
                .to_owned()
        }
        BlockCause::Panic => "Roll back, or deploy a fix: it goes on by itself then. The log of the orchestrator has the panic.".to_owned(),
        BlockCause::Crash => {
            "Look for `out of memory` and timeouts in the orchestrator's log; give the function more memory or time, or deploy a fix."
                .to_owned()
        }
        BlockCause::History => {
            "Give the orchestrator more memory or raise DUROXIDE_HISTORY_LIMIT_BYTES, or deploy a build with the duroxide that it needs: \
             the reason says which."
                .to_owned()
        }
        BlockCause::Unknown => "Deploy the newer release everywhere: this one does not know the cause.".to_owned(),
    };
    let mut next = vec![advice(what)];
    if matches!(blocked.cause, BlockCause::Nondeterminism | BlockCause::Panic) {
        next.push(command(
            "Or start a new instance with its input on the deployed code; cancel this one then.",
            &["restart", &facts.instance],
        ));
    }
    next.push(command("Or end it.", &["cancel", &facts.instance]));
    let verdict = Verdict::new(Cause::Blocked(blocked.cause), predicate);
    Some(
        verdict
            .attention(true)
            .since(blocked.since)
            .until(blocked.until)
            .next(next),
    )
}

/// Messages are due, and no turn has taken them.
pub(super) fn due(facts: &Facts, doc: &InstanceDoc, settings: &ExplainSettings) -> Option<Verdict> {
    let now = facts.now_ms;
    let due: Vec<&Queued> = facts
        .messages
        .iter()
        .filter(|message| message.doc.due_at <= now && !message.doc.is_aside())
        .collect();
    let since = due.iter().map(|message| message.doc.due_at).min()?;
    let is = |wanted: fn(&WorkItem) -> bool| move |message: &&Queued| message.item.as_ref().is_some_and(wanted);
    let is_start = is(|item| matches!(item, WorkItem::StartOrchestration { .. }));
    let is_timer = is(|item| matches!(item, WorkItem::TimerFired { .. }));
    let is_cancel = is(|item| matches!(item, WorkItem::CancelInstance { .. }));
    if due.iter().all(|message| message.item.is_none()) {
        let predicate = "has messages that cannot be decoded: a newer release wrote them".to_owned();
        let next = vec![advice("Deploy that release to all functions, the API included.")];
        return Some(
            Verdict::new(Cause::NewerRelease, predicate)
                .attention(true)
                .since(since)
                .next(next),
        );
    }
    let lateness = lateness(now, since, settings);
    let (cause, mut predicate) = match &doc.current.status {
        Status::Pending if due.iter().any(is_start) => (
            Cause::FirstTurnDue,
            format!(
                "was accepted {}, and its first turn has not begun",
                ago(now, doc.created_at)
            ),
        ),
        Status::ContinuedAsNew => (
            Cause::NextExecutionDue,
            format!(
                "has continued as new {}, and its next execution has not begun",
                ago(now, doc.updated_at)
            ),
        ),
        _ if due.iter().all(is_timer) && lateness != Lateness::Fresh => (
            Cause::TimerOverdue,
            format!("has a timer that should have fired {}", ago(now, since)),
        ),
        _ => (
            Cause::TurnDue,
            format!(
                "has {} due for {}, and no turn has taken {} yet",
                count(due.len(), "message", "messages"),
                lasts(now, since),
                if due.len() == 1 { "it" } else { "them" }
            ),
        ),
    };
    if due.iter().any(is_cancel) {
        predicate.push_str("; a cancellation is among them");
    }
    let attempts = attempts(doc, due.iter().map(|message| message.doc.id.as_str()));
    if attempts > 0 {
        let attempt = attempt_of(attempts, settings.max_attempts);
        predicate = format!("{predicate}; {attempt} ended without a commit");
    }
    predicate.push_str(meaning(lateness));
    let next = match attempts >= TROUBLED {
        true => vec![crash_advice()],
        false => due_advice(lateness, settings),
    };
    let verdict = Verdict::new(cause, predicate).since(since).next(next);
    Some(verdict.attention(lateness == Lateness::Stuck || attempts >= TROUBLED))
}

/// Messages were put off after a turn that was not committed.
pub(super) fn backing_off(facts: &Facts, doc: &InstanceDoc, settings: &ExplainSettings) -> Option<Verdict> {
    let now = facts.now_ms;
    let is_put_off = |message: &&Queued| {
        let due_at = message.doc.due_at;
        due_at > now && message.doc.first_due_ms() <= now && !message.doc.is_aside()
    };
    let put_off: Vec<&Queued> = facts.messages.iter().filter(is_put_off).collect();
    let until = put_off.iter().map(|message| message.doc.due_at).min()?;
    let since = put_off.iter().map(|message| message.doc.first_due_ms()).min()?;
    let attempts = attempts(doc, put_off.iter().map(|message| message.doc.id.as_str()));
    let attempt = match attempts {
        0 => "a turn".to_owned(),
        attempts => format!("{} of a turn", attempt_of(attempts, settings.max_attempts)),
    };
    let predicate = format!(
        "goes on in {}: {attempt} gave {} back, which {} due {}",
        left(now, until),
        count(put_off.len(), "message", "messages"),
        if put_off.len() == 1 { "was" } else { "were" },
        ago(now, since)
    );
    let next = match attempts >= TROUBLED {
        true => vec![crash_advice()],
        false => vec![advice(
            "Nothing yet: it is tried again by itself. The log of the orchestrator says why it was given back.",
        )],
    };
    let verdict = Verdict::new(Cause::BackingOff, predicate)
        .since(since)
        .until(until)
        .next(next);
    Some(verdict.attention(attempts >= TROUBLED))
}

/// How often the most tried of these messages was fetched.
fn attempts<'a>(doc: &InstanceDoc, messages: impl Iterator<Item = &'a str>) -> u32 {
    messages
        .filter_map(|id| doc.lock.attempts.get(id).copied())
        .max()
        .unwrap_or_default()
}

fn meaning(lateness: Lateness) -> &'static str {
    match lateness {
        Lateness::Fresh => "",
        Lateness::Late => ": its wakeup is lost, or waits in a long queue",
        Lateness::Stuck => ": several wakeups did not help",
    }
}

fn due_advice(lateness: Lateness, settings: &ExplainSettings) -> Vec<Advice> {
    match lateness {
        Lateness::Fresh => vec![advice("Nothing: its wakeup is on its way.")],
        Lateness::Late => vec![advice(format!(
            "Nothing yet: maintenance sends another wakeup within {}.",
            span(millis(settings.period))
        ))],
        Lateness::Stuck => vec![
            advice(
                "Check that the orchestrator function is deployed, that its queue has an enabled event source mapping, and that Lambda \
                 does not throttle it; then filter its log by this instance.",
            ),
            advice("Check that maintenance runs: without it lost wakeups stay lost."),
        ],
    }
}

fn crash_advice() -> Advice {
    advice(
        "Look for `out of memory`, timeouts and errors of the store in the orchestrator's log, filtered by this instance: its turns \
         begin and are not committed.",
    )
}
