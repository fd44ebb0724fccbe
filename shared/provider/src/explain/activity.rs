//! An activity that an instance waits for. Pure.

use super::cause::Cause;
use super::facts::Facts;
use super::open::{Begun, Open, ScheduledActivity};
use super::types::{ExplainSettings, Wait, WaitKind};
use super::waits::{Lateness, TROUBLED, lateness, wait};
use super::words::{advice, ago, attempt_of, command, lasts, left, name, one_line};
use crate::model::{AttemptEnd, WorkDoc};

/// The wait for one activity.
pub(super) fn activity(
    facts: &Facts,
    open: &Open,
    begun: &Begun<ScheduledActivity>,
    settings: &ExplainSettings,
) -> Wait {
    let scheduled = &begun.what;
    let execution = facts.doc().map_or(0, |doc| doc.current.execution);
    let id = WorkDoc::id(execution, begun.id);
    let mut found = wait(WaitKind::Activity, Cause::ActivityQueued, begun.id, begun.since);
    found.name = Some(scheduled.name.clone());
    found.tag.clone_from(&scheduled.tag);
    found.session.clone_from(&scheduled.session);
    found.last_error = open.failures.get(&scheduled.name).map(|(_, error)| one_line(error));
    let most = settings.activity_attempts.get(&scheduled.name);
    found.max_attempts = Some(most.copied().unwrap_or(settings.max_attempts));
    match facts.works.iter().find(|work| work.id == id) {
        Some(work) => {
            found.attempt = Some(work.attempts).filter(|attempts| *attempts > 0);
            found.last_end = work.log().attempts().last().map(|attempt| attempt.end);
            queued(facts, work, settings, &mut found);
        }
        None => missing(facts, &id, &mut found),
    }
    if let (Some((times, error)), false) = (
        open.failures.get(&scheduled.name),
        found.cause == Cause::ActivityBlocked,
    ) {
        let times = super::words::count(*times as usize, "earlier call", "earlier calls");
        found.text = format!("{} ({times} failed, the last with: {})", found.text, one_line(error));
    }
    found
}

fn queued(facts: &Facts, work: &WorkDoc, settings: &ExplainSettings, found: &mut Wait) {
    let now = facts.now_ms;
    let activity = format!("activity {}", name(found.name.as_deref().unwrap_or_default()));
    let most = found.max_attempts.unwrap_or(settings.max_attempts);
    let attempt = attempt_of(work.attempts, most);
    let troubled = work.log().attempts().len() as u32 >= TROUBLED;
    if work.is_claimed_at(now) {
        let began = work.began().unwrap_or(work.due_at);
        found.cause = Cause::ActivityRunning;
        found.since = Some(began);
        found.claimed_until = Some(work.until);
        found.due = Some(work.until);
        found.needs_attention = troubled;
        found.text = format!(
            "{activity}, whose {attempt} has been running for {} (claimed for {} more{})",
            lasts(now, began),
            left(now, work.until),
            ended(found.last_end)
        );
        return;
    }
    if let Some(blocked) = work.blocked.as_ref().filter(|_| work.parked) {
        found.cause = Cause::ActivityBlocked;
        found.needs_attention = true;
        found.since = Some(blocked.since);
        found.due = Some(blocked.until);
        found.blocked = Some(blocked.clone());
        found.text = format!(
            "{activity}, which no deployed worker has been able to run for {} ({}, build {}): {}",
            lasts(now, blocked.since),
            blocked.cause.name(),
            name(&blocked.build),
            one_line(&blocked.reason)
        );
        found.next = vec![advice(
            "Deploy a worker that registers this activity, or give it the name that the orchestration uses; it goes on by itself then.",
        )];
        return;
    }
    found.due = Some(work.due_at);
    if work.claim.is_some() {
        found.cause = Cause::ActivityLost;
        found.since = Some(work.until);
        found.text = format!(
            "{activity}: the process of {attempt} died or was frozen, its lock ended {}, and the next attempt is due",
            ago(now, work.until)
        );
        found.next = vec![advice(
            "If it happens again, look for `out of memory` and timeouts in the worker's log.",
        )];
        found.needs_attention = troubled;
        late(facts, work.until, settings, found);
        return;
    }
    if work.attempts > 0 || work.due_at > now {
        found.cause = Cause::ActivityRetrying;
        found.needs_attention = troubled;
        let next = match work.due_at > now {
            true => format!("the next one comes in {}", left(now, work.due_at)),
            false => format!("the next one has been due for {}", lasts(now, work.due_at)),
        };
        let end = found.last_end.map_or("ended", past_tense);
        found.text = format!("{activity}: {attempt} {end}, and {next}");
        found.next = vec![command("See how its attempts ended.", &["history", &facts.instance])];
        late(facts, work.due_at, settings, found);
        return;
    }
    never_begun(facts, work, settings, found);
}

/// It was queued, and nobody has claimed it.
fn never_begun(facts: &Facts, work: &WorkDoc, settings: &ExplainSettings, found: &mut Wait) {
    let now = facts.now_ms;
    let activity = format!("activity {}", name(found.name.as_deref().unwrap_or_default()));
    let since = found.since.unwrap_or(work.due_at).min(work.due_at);
    found.since = Some(since);
    let is_session = |id: &String| facts.sessions.iter().find(|session| session.pk == *id);
    if let Some(session) = work
        .session
        .as_ref()
        .and_then(is_session)
        .filter(|session| session.until > now)
    {
        found.cause = Cause::ActivitySession;
        found.claimed_until = Some(session.until);
        found.text = format!(
            "{activity} of affinity session {}, which environment {} owns for {} more",
            name(&session.pk),
            name(&session.owner),
            left(now, session.until)
        );
        found.next = vec![advice(
            "Nothing: its wakeups are repeated until one reaches the owner, or the owner's lock ends.",
        )];
        late(facts, since, settings, found);
        return;
    }
    let has_queue = |tag: &String| settings.tag_queues.as_ref().is_none_or(|tags| tags.contains(tag));
    let is_late = lateness(now, since, settings) != Lateness::Fresh;
    found.text = format!("{activity}, queued {} and not begun", ago(now, since));
    match work.tag.as_ref() {
        Some(tag) if is_late && !has_queue(tag) => {
            found.cause = Cause::ActivityWithoutQueue;
            found.needs_attention = true;
            found.text = format!(
                "{activity}, queued {} under tag {}, which has no queue of its own",
                ago(now, since),
                name(tag)
            );
            found.next = vec![advice(format!(
                "Add {} to WORKER_TAGS of the worker, or give the tag a queue and a worker of its own (WORKER_TAG_QUEUE_URLS).",
                name(tag)
            ))];
        }
        _ => late(facts, since, settings, found),
    }
}

/// Adds what it means that nobody has taken it so far.
fn late(facts: &Facts, due: u64, settings: &ExplainSettings, found: &mut Wait) {
    match lateness(facts.now_ms, due, settings) {
        Lateness::Fresh => {}
        Lateness::Late => {
            found.text.push_str("; its wakeup is lost, or waits in a long queue");
            found
                .next
                .push(advice("Nothing yet: maintenance sends another wakeup at its next run."));
        }
        Lateness::Stuck => {
            found.needs_attention = true;
            found.text.push_str("; several wakeups did not help");
            found.next.push(advice(
                "Check that the worker function is deployed, that its queue has an enabled event source mapping, and that Lambda \
                 does not throttle it; then filter its log by this instance.",
            ));
        }
    }
}

fn missing(facts: &Facts, id: &str, found: &mut Wait) {
    let activity = name(found.name.as_deref().unwrap_or_default());
    if facts.unreadable.iter().any(|foreign| foreign.id == id) {
        found.cause = Cause::NewerRelease;
        found.text = format!("activity {activity}, which a newer release has claimed");
        return;
    }
    if facts.more {
        found.text = format!("activity {activity}, whose state was not read");
        return;
    }
    found.cause = Cause::ActivityMissing;
    found.needs_attention = true;
    found.text = format!("activity {activity}, which is neither queued nor completed");
    found.next = vec![advice(
        "The state of this instance is lost. Report it with the answer of this command and the history.",
    )];
}

fn past_tense(end: AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Completed => "completed",
        AttemptEnd::Failed => "failed",
        AttemptEnd::TimedOut => "timed out",
        AttemptEnd::Released => "was released without a result",
        AttemptEnd::Lost => "ended with its process",
        AttemptEnd::Unknown => "ended",
    }
}

fn ended(last: Option<AttemptEnd>) -> String {
    last.map_or_else(String::new, |end| format!("; the attempt before {}", past_tense(end)))
}
