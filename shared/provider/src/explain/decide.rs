//! From the facts to an explanation. Pure.
//!
//! The first situation that applies decides, in this order: what nobody can change (deleted, ended), a pause, who works on the instance now (a
//! claim, an unfinished commit), what keeps a turn from being run (blocked), what a turn would take (due or put off messages),
//! and last what the history leaves open. An instance with none of these is lost.
//!
//! A [`Draft`] has either a verdict or a list of waits: the children among these are looked at before it is finished (`chain`).

use super::activity::activity;
use super::cause::Cause;
use super::evidence::evidence;
use super::facts::Facts;
use super::open::Open;
use super::turns::{backing_off, blocked, due, paused, running, unfinished};
use super::types::{Advice, ExplainSettings, Explanation, Link, Wait, WaitKind};
use super::waits::{child, external, timer};
use super::words::{advice, ago, command, count, name, one_line, sentence, span};
use crate::admin::{InstanceStatus, Marks};
use crate::model::{DeadLetterDoc, DeadLetterKind, InstanceDoc, Status};

/// How many waits are shown, and how many of them a sentence names.
const MOST_WAITS: usize = 20;
const IN_SENTENCE: usize = 3;

/// One cause, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub cause: Cause,
    pub needs_attention: bool,
    pub since: Option<u64>,
    pub until: Option<u64>,
    /// What the instance does: "waits for ...".
    pub predicate: String,
    pub next: Vec<Advice>,
}

impl Verdict {
    pub(super) fn new(cause: Cause, predicate: impl Into<String>) -> Verdict {
        Verdict {
            cause,
            needs_attention: false,
            since: None,
            until: None,
            predicate: predicate.into(),
            next: Vec::new(),
        }
    }

    pub(super) fn attention(self, needs_attention: bool) -> Verdict {
        Verdict {
            needs_attention,
            ..self
        }
    }

    pub(super) fn since(self, since: impl Into<Option<u64>>) -> Verdict {
        let since = since.into();
        Verdict { since, ..self }
    }

    pub(super) fn until(self, until: impl Into<Option<u64>>) -> Verdict {
        let until = until.into();
        Verdict { until, ..self }
    }

    pub(super) fn next(self, next: Vec<Advice>) -> Verdict {
        Verdict { next, ..self }
    }
}

/// An explanation that lacks its children.
#[derive(Debug)]
pub(super) struct Draft {
    /// `None`: the waits decide.
    pub verdict: Option<Verdict>,
    pub waits: Vec<Wait>,
}

/// Why the instance is where it is, as far as its own partition knows; `None` when there is no instance.
pub(super) fn decide(facts: &Facts, settings: &ExplainSettings) -> Option<Draft> {
    if let Some(foreign) = &facts.foreign {
        let predicate = format!(
            "was written by a newer release, which this one cannot read: {}",
            one_line(&foreign.reason)
        );
        let next = vec![advice("Deploy the newer release to all functions, the API included.")];
        let verdict = Verdict::new(Cause::NewerRelease, predicate).attention(true).next(next);
        return Some(Draft::of(verdict));
    }
    let doc = facts.doc()?;
    let open = Open::of(&facts.instance, &facts.events);
    let verdict = deleting(facts, doc)
        .or_else(|| ended(facts, doc, &open))
        .or_else(|| paused(facts, doc))
        .or_else(|| running(facts, doc, settings))
        .or_else(|| unfinished(facts, doc, settings))
        .or_else(|| blocked(facts, doc))
        .or_else(|| due(facts, doc, settings))
        .or_else(|| backing_off(facts, doc, settings))
        .or_else(|| unreadable(facts));
    if let Some(verdict) = verdict {
        return Some(Draft::of(verdict));
    }
    let mut waits = waits(facts, &open, settings);
    if waits.is_empty() {
        return Some(Draft::of(nothing_open(facts, doc, &open)));
    }
    order(&mut waits);
    Some(Draft { verdict: None, waits })
}

impl Draft {
    fn of(verdict: Verdict) -> Draft {
        Draft {
            verdict: Some(verdict),
            waits: Vec::new(),
        }
    }

    /// The explanation, with what follows the instance on the way to the true cause.
    pub(super) fn finish(mut self, facts: &Facts, below: Vec<Link>) -> Explanation {
        order(&mut self.waits);
        let verdict = self.verdict.unwrap_or_else(|| of_waits(&self.waits));
        let doc = facts.doc();
        let status = match doc {
            Some(doc) => InstanceStatus::of(&doc.current.status, Marks::of(doc)),
            None => InstanceStatus::Other("Unknown".to_owned()),
        };
        let orchestration = doc.and_then(|doc| doc.name.as_ref().or(doc.start_name.as_ref()));
        let orchestration = orchestration.cloned().unwrap_or_default();
        let own = Link {
            instance: facts.instance.clone(),
            orchestration: orchestration.clone(),
            status: Some(status.clone()),
            cause: verdict.cause,
            sentence: sentence(&verdict.predicate),
        };
        let mut chain = vec![own];
        chain.extend(below);
        Explanation {
            instance: facts.instance.clone(),
            orchestration,
            version: doc.and_then(|doc| doc.version.clone()),
            status,
            at: facts.now_ms,
            sentence: sentence(&verdict.predicate),
            cause: verdict.cause,
            needs_attention: verdict.needs_attention,
            since: verdict.since,
            until: verdict.until,
            more_waits: self.waits.len().saturating_sub(MOST_WAITS),
            waits: self.waits.into_iter().take(MOST_WAITS).collect(),
            chain,
            evidence: evidence(facts),
            next: verdict.next,
        }
    }
}

/// The explanation of an instance that was changed whenever it was read: the parts that were read do not belong together.
pub(super) fn in_motion(of: Explanation) -> Explanation {
    let sentence = sentence("is being worked on: it changed each time that it was read");
    let own = of.chain.into_iter().take(1).map(|link| Link {
        cause: Cause::TurnRunning,
        sentence: sentence.clone(),
        ..link
    });
    Explanation {
        chain: own.collect(),
        cause: Cause::TurnRunning,
        sentence,
        needs_attention: false,
        since: None,
        until: None,
        waits: Vec::new(),
        more_waits: 0,
        next: vec![advice("Ask again.")],
        ..of
    }
}

fn deleting(facts: &Facts, doc: &InstanceDoc) -> Option<Verdict> {
    let mark = doc.lock.deleting.as_ref()?;
    let predicate = match mark.expires > facts.now_ms {
        true => "is being deleted".to_owned(),
        false => format!(
            "is marked for a deletion that was not completed, for {}",
            span(facts.now_ms - mark.expires)
        ),
    };
    let next = vec![advice(
        "Nothing: whoever meets the mark next, maintenance at the latest, completes the deletion or removes the mark.",
    )];
    Some(Verdict::new(Cause::Deleting, predicate).until(mark.expires).next(next))
}

fn ended(facts: &Facts, doc: &InstanceDoc, open: &Open) -> Option<Verdict> {
    let current = &doc.current;
    if !current.status.is_over() {
        return None;
    }
    let at = current.completed_at.unwrap_or(doc.updated_at);
    let when = ago(facts.now_ms, at);
    if current.status == Status::Completed {
        let took = span(at.saturating_sub(doc.created_at));
        return Some(Verdict::new(Cause::Completed, format!("completed {when}, {took} after its start")).since(at));
    }
    let error = current
        .output
        .clone()
        .or_else(|| open.error.clone())
        .unwrap_or_default();
    if current.cancelled {
        let reason = open.cancelled.as_deref().unwrap_or(&error);
        let predicate = format!("was cancelled {when}: {}", one_line(reason));
        return Some(Verdict::new(Cause::Cancelled, predicate).since(at));
    }
    let rewind = command(
        "Remove the cause, then let it go on from before its failure. Add --dry-run first: it lists what runs again.",
        &["rewind", rewound_with(facts)],
    );
    let mut predicate = format!("failed {when}: {}", one_line(&error));
    if let Some(step) = &open.last_failure {
        match &step.child {
            Some(child) => predicate = format!("{predicate} (child {} failed before)", name(child)),
            None => predicate = format!("{predicate} (activity {} failed before)", name(&step.name)),
        }
    }
    let mut next = vec![command("See what happened before.", &["history", &facts.instance])];
    next.insert(0, rewind);
    if let Some(child) = open.last_failure.as_ref().and_then(|step| step.child.as_deref()) {
        next.insert(0, command("Look at the child.", &["explain", child]));
    }
    let letter = given_up(facts, current.execution);
    let Some(letter) = letter else {
        return Some(
            Verdict::new(Cause::Failed, predicate)
                .attention(true)
                .since(at)
                .next(next),
        );
    };
    predicate = format!("{predicate}; given up: {}", one_line(&letter.given_up.reason));
    next.insert(
        0,
        command(
            "Remove the cause, then start it again as a new instance.",
            &["dead-letters", "redrive", &facts.instance, &letter.id],
        ),
    );
    Some(
        Verdict::new(Cause::GivenUp, predicate)
            .attention(true)
            .since(at)
            .next(next),
    )
}

/// The instance to rewind: a child goes on with its parent, which has its failure.
fn rewound_with(facts: &Facts) -> &str {
    let parent = facts.doc().and_then(|doc| doc.parent.as_deref());
    parent.unwrap_or(&facts.instance)
}

/// The dead letter of a turn or an activity of this execution.
fn given_up(facts: &Facts, execution: u64) -> Option<&DeadLetterDoc> {
    facts.letters.iter().rev().find(|letter| {
        let is_step = matches!(
            letter.given_up.cause,
            DeadLetterKind::PoisonTurn | DeadLetterKind::PoisonActivity
        );
        is_step && letter.given_up.execution.is_none_or(|of| of == execution)
    })
}

/// Messages that only a newer release can read, and nothing else that is due.
fn unreadable(facts: &Facts) -> Option<Verdict> {
    let foreign = facts.unreadable.iter().find(|foreign| foreign.id.starts_with("m:"))?;
    let predicate = format!(
        "has a message that a newer release wrote: {}",
        one_line(&foreign.reason)
    );
    let next = vec![advice("Deploy the newer release to all functions, the API included.")];
    Some(Verdict::new(Cause::NewerRelease, predicate).attention(true).next(next))
}

fn waits(facts: &Facts, open: &Open, settings: &ExplainSettings) -> Vec<Wait> {
    let activities = open
        .activities
        .iter()
        .map(|begun| activity(facts, open, begun, settings));
    let events = open
        .events
        .iter()
        .map(|begun| external(facts, open, begun, WaitKind::Event));
    let queues = open
        .queues
        .iter()
        .map(|begun| external(facts, open, begun, WaitKind::Queue));
    let children = open.children.iter().map(|begun| child(facts, begun, settings));
    let timers = open.timers.iter().map(|begun| timer(facts, begun, settings));
    activities
        .chain(children)
        .chain(events)
        .chain(queues)
        .chain(timers)
        .collect()
}

/// What needs attention first; what may be left over last.
fn order(waits: &mut [Wait]) {
    waits.sort_by_key(|wait| (wait.may_be_left_over, !wait.needs_attention));
}

/// The verdict about an instance that waits.
fn of_waits(waits: &[Wait]) -> Verdict {
    let (left_over, live): (Vec<&Wait>, Vec<&Wait>) = waits.iter().partition(|wait| wait.may_be_left_over);
    let named = if live.is_empty() { &left_over } else { &live };
    let mut predicate = match named.as_slice() {
        [one] => format!("waits for {}", one.text),
        several => {
            let texts: Vec<&str> = several
                .iter()
                .take(IN_SENTENCE)
                .map(|wait| wait.text.as_str())
                .collect();
            let more = several.len().saturating_sub(IN_SENTENCE);
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            format!(
                "waits for {} at once (only its code says whether for the first or for all): {}{more}",
                count(several.len(), "thing", "things"),
                texts.join("; ")
            )
        }
    };
    if !live.is_empty() && !left_over.is_empty() {
        let timers = count(left_over.len(), "older timer is", "older timers are");
        predicate = format!("{predicate}; {timers} open, maybe left over from a race");
    }
    let first = named.first();
    let cause = match named.as_slice() {
        [one] => one.cause,
        [first, ..] if first.needs_attention => first.cause,
        _ => Cause::Several,
    };
    Verdict::new(cause, predicate)
        .attention(waits.iter().any(|wait| wait.needs_attention))
        .since(named.iter().filter_map(|wait| wait.since).min())
        .until(waits.iter().filter_map(|wait| wait.due).min())
        .next(first.map(|wait| wait.next.clone()).unwrap_or_default())
}

fn nothing_open(facts: &Facts, doc: &InstanceDoc, open: &Open) -> Verdict {
    let since = doc.updated_at;
    let lasts = span(facts.now_ms.saturating_sub(since));
    let predicate = match (&doc.current.status, &facts.partial) {
        (_, Some(partial)) => format!("waits for something that its history does not show here ({partial})"),
        (Status::Pending, _) => format!(
            "was accepted {}, and its start is gone",
            ago(facts.now_ms, doc.created_at)
        ),
        (Status::ContinuedAsNew, _) => {
            format!("has continued as new for {lasts}, and the start of the next execution is gone")
        }
        (status @ Status::Other(_), _) => format!("has the status {status}, which this build does not know"),
        _ if open.cancelled.is_some() => format!("was asked to cancel, and has done nothing for {lasts}"),
        _ => format!(
            "waits for nothing that duroxide records, for {lasts}: its code awaits something else than the context offers, or its \
             state is lost"
        ),
    };
    let next = vec![
        advice("Compare the code with the history: an orchestration may await only what its context schedules."),
        command("See its events.", &["history", &facts.instance]),
        command("End it.", &["cancel", &facts.instance]),
    ];
    Verdict::new(Cause::NothingOpen, predicate)
        .attention(true)
        .since(since)
        .next(next)
}
