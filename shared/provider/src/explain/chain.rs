//! A wait for a child, and what its child says. Pure.
//!
//! A parent's history says only that a child was started. The child's own partition says why it has not answered: the true cause is
//! at the end of the chain of children, or it is the message between two of them.

use super::cause::Cause;
use super::facts::Facts;
use super::types::{ExplainSettings, Explanation, Link, Wait};
use super::waits::{Lateness, TROUBLED, lateness};
use super::words::{advice, ago, command, name, one_line};
use crate::model::{DeadLetterKind, InstanceDoc};

/// What became of the look at a child.
#[derive(Debug)]
pub(super) enum Child<'a> {
    /// There is no such instance.
    Absent,
    /// It is there.
    Found(&'a Facts, &'a Explanation),
    /// It is an instance that was looked at before.
    Cycle,
    /// Too many instances were looked at.
    TooMany,
}

/// Completes the wait of `parent` for a child. Returns the rest of the chain.
pub(super) fn follow(wait: &mut Wait, parent: &Facts, child: &Child<'_>, settings: &ExplainSettings) -> Vec<Link> {
    let id = wait.instance.clone().unwrap_or_default();
    let what = format!("child {}", name(&id));
    match child {
        Child::TooMany => {
            wait.text = format!("{what}, which was not looked at: the chain of children is long");
            wait.next = vec![command("Look at it.", &["explain", &id])];
            Vec::new()
        }
        Child::Cycle => {
            wait.cause = Cause::ChildTaken;
            wait.needs_attention = true;
            wait.text = format!("{what}, which waits for this instance in turn");
            wait.next = vec![command("End one of them.", &["cancel", &id])];
            Vec::new()
        }
        Child::Absent => {
            wait.cause = Cause::ChildMissing;
            wait.needs_attention = true;
            wait.text = format!("{what}, which does not exist: it was deleted");
            wait.next = vec![command(
                "End the parent: nothing can answer it any more.",
                &["cancel", &parent.instance],
            )];
            vec![Link {
                instance: id,
                orchestration: wait.name.clone().unwrap_or_default(),
                status: None,
                cause: Cause::ChildMissing,
                sentence: "Does not exist.".to_owned(),
            }]
        }
        Child::Found(facts, explained) => {
            found(wait, parent, facts, explained, settings);
            explained.chain.clone()
        }
    }
}

fn found(wait: &mut Wait, parent: &Facts, facts: &Facts, explained: &Explanation, settings: &ExplainSettings) {
    let id = explained.instance.as_str();
    let what = format!("child {}", name(id));
    let Some(doc) = facts.doc() else {
        wait.text = format!("{what}, which {}", predicate(&explained.sentence));
        (wait.needs_attention, wait.next) = (explained.needs_attention, explained.next.clone());
        return;
    };
    if !is_child_of(doc, parent, wait.id) {
        let whose = doc.parent.as_deref();
        let whose = whose.map_or_else(
            || "was started without a parent".to_owned(),
            |of| format!("belongs to {}", name(of)),
        );
        wait.cause = Cause::ChildTaken;
        wait.needs_attention = true;
        wait.text = format!("{what}, whose id was in use: that instance {whose} and does not answer this one");
        wait.next = vec![command(
            "End the parent, and start it again with another id for its child.",
            &["cancel", &parent.instance],
        )];
        return;
    }
    if !doc.current.status.is_over() {
        wait.needs_attention = explained.needs_attention;
        wait.due = explained.until;
        wait.text = below(&what, explained);
        wait.next.clone_from(&explained.next);
        return;
    }
    undelivered(wait, parent, facts, (doc, what), settings);
}

/// What the child does. Of a long chain only its end is named.
fn below(what: &str, explained: &Explanation) -> String {
    match explained.chain.as_slice() {
        [_, between @ .., leaf] if !between.is_empty() => format!(
            "{what}, and {} levels below it {} {}",
            between.len() + 1,
            name(&leaf.instance),
            predicate(&leaf.sentence)
        ),
        _ => format!("{what}, which {}", predicate(&explained.sentence)),
    }
}

/// The child has ended: its result is on its way, or not.
fn undelivered(
    wait: &mut Wait,
    parent: &Facts,
    facts: &Facts,
    (doc, what): (&InstanceDoc, String),
    settings: &ExplainSettings,
) {
    let (now, to) = (facts.now_ms, parent.instance.as_str());
    let at = doc.current.completed_at.unwrap_or(doc.updated_at);
    let ended = format!("{what}, which ended {}", ago(now, at));
    if let Some(intent) = facts.intents.iter().find(|intent| intent.message.pk == to) {
        wait.cause = Cause::ChildResultUndelivered;
        wait.due = Some(intent.due_at);
        wait.attempt = Some(intent.attempts).filter(|attempts| *attempts > 0);
        wait.last_error = intent.last_error.as_deref().map(one_line);
        let error = wait
            .last_error
            .as_ref()
            .map(|error| format!(" ({error})"))
            .unwrap_or_default();
        wait.needs_attention = intent.attempts >= TROUBLED || lateness(now, intent.due_at, settings) == Lateness::Stuck;
        wait.text = format!("{ended}, and whose result is not delivered yet{error}");
        wait.next = vec![advice(
            "Nothing yet: the next run of maintenance delivers it. If it stays, check that maintenance runs.",
        )];
        return;
    }
    let letter = facts.letters.iter().rev().find(|letter| {
        let given_up = &letter.given_up;
        given_up.cause == DeadLetterKind::Undeliverable && given_up.target.as_deref() == Some(to)
    });
    wait.needs_attention = true;
    match letter {
        Some(letter) => {
            wait.cause = Cause::ChildResultGivenUp;
            wait.text = format!(
                "{ended}, and whose result was given up: {}",
                one_line(&letter.given_up.reason)
            );
            wait.next = vec![command(
                "Remove the cause, then deliver the result again.",
                &["dead-letters", "redrive", &facts.instance, &letter.id],
            )];
        }
        None => {
            wait.cause = Cause::ChildResultMissing;
            wait.text = format!("{ended}, and whose result is neither delivered nor on its way");
            wait.next = vec![command(
                "End the parent: nothing can answer it any more.",
                &["cancel", to],
            )];
        }
    }
}

/// Whether the instance answers that call of the parent. A pending child does not say so yet.
fn is_child_of(doc: &InstanceDoc, parent: &Facts, call: u64) -> bool {
    if doc.name.is_none() {
        return true;
    }
    let execution = parent.doc().map(|doc| doc.current.execution);
    let is_call = doc
        .parent_call
        .as_ref()
        .is_none_or(|made| made.id == call && made.execution.is_none_or(|made| Some(made) == execution));
    doc.parent.as_deref() == Some(parent.instance.as_str()) && is_call
}

/// A sentence as a part of another.
fn predicate(sentence: &str) -> String {
    let mut characters = sentence.trim_end_matches('.').chars();
    let first = characters.next().map(char::to_lowercase);
    let first: String = first.into_iter().flatten().collect();
    format!("{first}{}", characters.as_str())
}
