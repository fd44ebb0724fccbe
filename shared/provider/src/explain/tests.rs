//! Decisions from facts made by hand: which situation comes first, and how children are followed.

use super::cause::Cause;
use super::chain::{Child, follow};
use super::decide::decide;
use super::facts::{Facts, Queued};
use super::types::{ExplainSettings, Explanation};
use crate::model::{
    BlockCause, Blocked, Deleting, Envelope, InstanceDoc, MessageDoc, ParentCall, Receipt, Status, Unfinished,
};
use crate::store::Fence;
use cosmos::Etag;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

const NOW: u64 = 1_700_000_000_000;

fn running(instance: &str) -> InstanceDoc {
    let mut doc = InstanceDoc::pending(instance, "Order", NOW - 60_000);
    doc.lock.commit("c1", &[]);
    doc.current.status = Status::Running;
    (doc.name, doc.start_name, doc.updated_at) = (Some("Order".to_owned()), None, NOW - 50_000);
    doc
}

fn facts(doc: InstanceDoc, kinds: Vec<EventKind>) -> Facts {
    let events = (1..).zip(kinds).map(|(id, kind)| {
        let mut event = Event::with_event_id(id, &doc.pk, 1, None, kind);
        event.timestamp_ms = NOW - 40_000;
        event
    });
    Facts {
        instance: doc.pk.clone(),
        now_ms: NOW,
        events: events.collect(),
        fence: Some(Fence {
            doc,
            etag: Etag::new("\"1\""),
        }),
        ..Facts::default()
    }
}

/// An event that was queued so long ago, due at that time.
fn queued(first_due: u64, due_at: u64) -> Queued {
    let item = WorkItem::ExternalRaised {
        instance: "i".to_owned(),
        name: "go".to_owned(),
        data: String::new(),
    };
    let envelope = Envelope {
        id: "1".to_owned(),
        queued_at: first_due,
        arrival: "a".to_owned(),
        due_at: first_due,
        receipt: Receipt::None,
    };
    let doc = MessageDoc::new("i", envelope, &item).unwrap().due_from(due_at);
    Queued { doc, item: Some(item) }
}

fn waits_for(name: &str) -> EventKind {
    EventKind::ExternalSubscribed { name: name.to_owned() }
}

fn explained(facts: &Facts) -> Explanation {
    let draft = decide(facts, &ExplainSettings::default()).expect("there is an instance");
    draft.finish(facts, Vec::new())
}

#[test]
fn the_first_situation_that_applies_decides() {
    let mut doc = running("i");
    doc.lock.claim("t", NOW + 5_000, &["m:1".to_owned()]);
    doc.lock.deleting = Some(Deleting {
        group: "g".to_owned(),
        expires: NOW + 1_000,
    });
    doc.lock.unfinished = Some(Unfinished {
        commit: "c1".to_owned(),
        next: 1,
        total: 3,
    });
    doc.blocked = Some(Blocked {
        cause: BlockCause::Panic,
        reason: "it panicked".to_owned(),
        build: "b".to_owned(),
        since: NOW - 9_000,
        tries: 2,
        until: NOW + 1_000,
    });
    let mut all = facts(doc, vec![waits_for("go")]);
    all.messages = vec![queued(NOW - 9_000, NOW - 1_000), queued(NOW - 9_000, NOW + 2_000)];
    type Removal = fn(&mut InstanceDoc, &mut Vec<Queued>);
    let removals: [(&str, Removal); 7] = [
        ("deleting", |doc, _| doc.lock.deleting = None),
        ("turn-running", |doc, _| doc.lock.release(true)),
        ("commit-unfinished", |doc, _| doc.lock.unfinished = None),
        ("blocked-panic", |doc, _| doc.blocked = None),
        ("turn-due", |_, messages| drop(messages.remove(0))),
        ("backing-off", |_, messages| messages.clear()),
        ("event", |_, _| {}),
    ];
    for (cause, remove) in removals {
        assert_eq!(explained(&all).cause.name(), cause);
        let fence = all.fence.as_mut().unwrap();
        remove(&mut fence.doc, &mut all.messages);
    }
    // An end comes before all that is left of a turn.
    let fence = all.fence.as_mut().unwrap();
    fence.doc.current.status = Status::Completed;
    fence.doc.lock.claim("t", NOW + 5_000, &[]);
    assert_eq!(explained(&all).cause, Cause::Completed);
}

#[test]
fn a_document_that_only_fences_is_no_instance() {
    assert!(
        decide(
            &facts(InstanceDoc::absent("i", NOW), Vec::new()),
            &ExplainSettings::default()
        )
        .is_none()
    );
    assert!(decide(&Facts::default(), &ExplainSettings::default()).is_none());
}

#[test]
fn every_status_without_anything_else_is_explained_and_needs_attention() {
    for status in [
        Status::Pending,
        Status::Running,
        Status::ContinuedAsNew,
        Status::Other("Dreaming".to_owned()),
    ] {
        let mut doc = running("i");
        doc.current.status = status.clone();
        let found = explained(&facts(doc, Vec::new()));
        assert_eq!(
            (found.cause, found.needs_attention),
            (Cause::NothingOpen, true),
            "{status}"
        );
    }
}

#[test]
fn a_child_is_followed_to_what_it_says() {
    let parent = facts(
        running("p"),
        vec![EventKind::SubOrchestrationScheduled {
            name: "Ship".to_owned(),
            instance: "c".to_owned(),
            input: String::new(),
        }],
    );
    let settings = ExplainSettings::default();
    let wait = || decide(&parent, &settings).unwrap().waits.remove(0);
    let child_of = |instance: &str, call: u64| {
        let mut doc = running("c");
        doc.parent = Some(instance.to_owned());
        doc.parent_call = Some(ParentCall {
            execution: Some(1),
            id: call,
        });
        facts(doc, vec![waits_for("go")])
    };
    let (own, other, earlier) = (child_of("p", 1), child_of("x", 1), child_of("p", 9));
    let said: Vec<Explanation> = [&own, &other, &earlier].map(explained).into();
    let cases = [
        (
            Child::Found(&own, &said[0]),
            Cause::Child,
            false,
            "which waits for event `go`",
        ),
        (
            Child::Found(&other, &said[1]),
            Cause::ChildTaken,
            true,
            "belongs to `x`",
        ),
        (
            Child::Found(&earlier, &said[2]),
            Cause::ChildTaken,
            true,
            "does not answer",
        ),
        (Child::Absent, Cause::ChildMissing, true, "does not exist"),
        (Child::Cycle, Cause::ChildTaken, true, "waits for this instance in turn"),
        (Child::TooMany, Cause::Child, false, "was not looked at"),
    ];
    for (child, cause, needs_attention, words) in cases {
        let mut wait = wait();
        follow(&mut wait, &parent, &child, &settings);
        assert_eq!((wait.cause, wait.needs_attention), (cause, needs_attention), "{wait:?}");
        assert!(wait.text.contains(words) && !wait.next.is_empty(), "{wait:?}");
    }
}
