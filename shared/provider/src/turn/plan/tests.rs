//! Table tests of the planner: the same turn, time and ids always make the same operations.

use super::*;
use crate::model::{Attempt, AttemptEnd, AttemptLog, InstanceDoc, StagedOpKind};
use crate::model::{CompletedAttempts, HistoryDoc, KvDoc};
use crate::store::Fence;
use cosmos::Etag;
use duroxide::{AppErrorKind, ErrorDetails};

const NOW: u64 = 1_000;
const ACCEPTED: u64 = 900;

fn turn(instance: Option<InstanceDoc>, kv: Vec<KvDoc>) -> ClaimedTurn {
    let message = |id: &str, receipt| {
        let envelope = Envelope {
            id: id.trim_start_matches("m:").to_owned(),
            queued_at: ACCEPTED,
            arrival: String::new(),
            due_at: ACCEPTED,
            receipt,
        };
        let cancel = WorkItem::CancelInstance {
            instance: "i".to_owned(),
            reason: String::new(),
        };
        let mut message = MessageDoc::new("i", envelope, &cancel).unwrap();
        message.etag = format!("\"{id}\"");
        message
    };
    ClaimedTurn {
        pk: PartitionKey::new("i").unwrap(),
        nonce: "c1".to_owned(),
        fence: Fence {
            doc: instance.unwrap_or_else(|| InstanceDoc::pending("i", "Hello", ACCEPTED)),
            etag: Etag::new("\"seen\""),
        },
        kv,
        messages: vec![
            message("m:own", Receipt::None),
            message("m:foreign", Receipt::Long),
            message("m:client", Receipt::Brief),
        ],
        more: false,
        until: NOW + 1,
        expires: tokio::time::Instant::now(),
        spending: Default::default(),
    }
}

fn plan_for(turn: &ClaimedTurn, decision: TurnDecision) -> Result<Plan, Failure> {
    plan_using(turn, decision, TurnUsage::default())
}

fn plan_using(turn: &ClaimedTurn, decision: TurnDecision, usage: TurnUsage<'_>) -> Result<Plan, Failure> {
    let sequence = Sequence::default();
    let context = PlanContext {
        now_ms: NOW,
        repair_due: NOW + 10,
        commit: "c1",
        dead_letter_ttl: 60,
        receipt_ttl: 600,
        sequence: &sequence,
        given_up: None,
        earlier: None,
        kept: Vec::new(),
        usage,
    };
    Plan::make(turn, decision, context)
}

fn plan(decision: TurnDecision) -> Plan {
    plan_for(&turn(None, vec![]), decision).expect("a plan is made")
}

fn event(id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, "i", 1, None, kind)
}

fn set(id: u64, key: &str, value: &str) -> Event {
    event(
        id,
        EventKind::KeyValueSet {
            key: key.to_owned(),
            value: value.to_owned(),
            last_updated_at_ms: NOW,
        },
    )
}

fn activity(id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        name: "A".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

fn child_start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "O".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: Some("i".to_owned()),
        parent_id: Some(1),
        parent_execution_id: Some(1),
        execution_id: 1,
    }
}

fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("O".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

fn decided(events: Vec<Event>) -> TurnDecision {
    TurnDecision {
        execution: 1,
        events,
        ..TurnDecision::default()
    }
}

fn first(execution: u64) -> TurnDecision {
    TurnDecision {
        execution,
        events: vec![set(1, "k", "v")],
        metadata: named(),
        ..TurnDecision::default()
    }
}

fn ids(ops: &[StagedOp]) -> Vec<&str> {
    ops.iter().map(|op| op.id.as_str()).collect()
}

#[test]
fn a_consumed_message_is_deleted_and_one_from_elsewhere_leaves_a_receipt() {
    let plan = plan(decided(vec![]));
    let kinds: Vec<&StagedOpKind> = plan.rest.iter().map(|op| &op.op).collect();
    assert!(
        matches!(
            kinds[..],
            [
                StagedOpKind::Delete { .. },
                StagedOpKind::Replace { .. },
                StagedOpKind::Replace { .. }
            ]
        ),
        "{kinds:?}"
    );
    for (op, ttl) in plan.rest[1..].iter().zip(["\"ttl\":600", "\"ttl\":3600"]) {
        let receipt = op.body.as_ref().expect("a receipt is written").get();
        assert!(receipt.contains("\"receipt\"") && receipt.contains(ttl), "{receipt}");
    }
}

#[test]
fn a_message_to_this_instance_is_a_document_and_one_to_another_is_an_intent() {
    let timer = WorkItem::TimerFired {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms: NOW + 500,
    };
    let plan = plan(TurnDecision {
        messages: vec![timer, child_start("child")],
        ..decided(vec![])
    });
    assert_eq!(ids(&plan.rest)[..2], ["m:t:1:2", "o:c1-1"]);
    let [intent] = &plan.intents[..] else {
        panic!("one intent")
    };
    assert_eq!(
        (intent.message.pk.as_str(), intent.message.id.as_str()),
        ("child", "m:c1-1")
    );
    assert!(intent.message.receipt == Receipt::Long && intent.due_at == NOW + 10);
}

#[test]
fn an_activity_that_is_scheduled_and_cancelled_in_one_turn_is_neither() {
    let cancelled = |activity_id| ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id,
    };
    let plan = plan(TurnDecision {
        work: vec![activity(2), activity(3)],
        cancelled: vec![cancelled(3), cancelled(9)],
        ..decided(vec![])
    });
    assert_eq!(ids(&plan.rest)[..2], ["w:1:2", "w:1:9"]);
    assert!(matches!(plan.rest[1].op, StagedOpKind::Discard));
    assert_eq!(plan.work.len(), 1);
}

#[test]
fn events_are_counted_and_chained_to_the_commit_before() {
    let one = plan(first(1)).instance;
    assert_eq!(
        (one.current.events, one.current.head.as_str(), one.current.last_event_id),
        (1, "c1", 1)
    );
    let mut before = one;
    before.current.head = "c0".to_owned();
    let decision = decided(vec![set(2, "k", "w"), set(3, "k", "x")]);
    let next = plan_for(&turn(Some(before), vec![]), decision).unwrap();
    let doc: HistoryDoc = serde_json::from_str(next.history[0].body.as_ref().unwrap().get()).unwrap();
    assert_eq!((doc.offset, doc.commit.as_str(), doc.prev.as_str()), (1, "c1", "c0"));
    assert_eq!(next.instance.current.events, 3);
}

#[test]
fn an_event_without_an_id_or_with_one_that_is_recorded_is_refused() {
    let before = plan(first(1)).instance;
    let again = decided(vec![set(1, "k", "v")]);
    let refused = plan_for(&turn(Some(before), vec![]), again);
    assert!(
        matches!(refused, Err(Failure::DuplicateEvent { event: 1, .. })),
        "{refused:?}"
    );
    let unnumbered = decided(vec![set(0, "k", "v")]);
    assert!(matches!(
        plan_for(&turn(None, vec![]), unnumbered),
        Err(Failure::EventWithoutId { .. })
    ));
}

#[test]
fn a_newer_execution_archives_the_state_of_the_last_one() {
    let mut before = plan(first(1)).instance;
    before.current.status = Status::ContinuedAsNew;
    before.current.output = Some("next input".to_owned());
    let next = plan_for(&turn(Some(before), vec![]), first(2)).unwrap();
    let instance = next.instance;
    assert_eq!(
        (instance.current.execution, instance.executions, instance.earlier_events),
        (2, 2, 1)
    );
    assert_eq!(
        (instance.current.status, instance.current.started_at),
        (Status::Running, NOW)
    );
    let archived: ExecutionDoc = serde_json::from_str(next.state[0].body.as_ref().unwrap().get()).unwrap();
    assert_eq!(
        (archived.state.execution, archived.state.output.as_deref()),
        (1, Some("next input"))
    );
}

#[test]
fn the_parent_is_set_once_and_the_status_with_the_metadata() {
    let mut metadata = named();
    metadata.parent_instance_id = Some("p".to_owned());
    metadata.status = Some("Completed".to_owned());
    metadata.output = Some("done".to_owned());
    let one = plan(TurnDecision {
        metadata: metadata.clone(),
        ..decided(vec![])
    });
    let one = one.instance;
    assert_eq!(
        (one.parent.as_deref(), one.current.completed_at),
        (Some("p"), Some(NOW))
    );
    metadata.parent_instance_id = Some("other".to_owned());
    let again = TurnDecision {
        metadata,
        ..decided(vec![])
    };
    let again = plan_for(&turn(Some(one), vec![]), again).unwrap().instance;
    assert_eq!(again.parent.as_deref(), Some("p"));
}

#[test]
fn the_custom_status_counts_one_version_per_turn_and_the_last_one_wins() {
    let status = |id, text: Option<&str>| {
        event(
            id,
            EventKind::CustomStatusUpdated {
                status: text.map(str::to_owned),
            },
        )
    };
    let events = vec![status(1, Some("a")), status(2, None), status(3, Some("b"))];
    let instance = plan(decided(events)).instance;
    assert_eq!(
        (instance.custom_status.as_deref(), instance.custom_status_version),
        (Some("b"), 1)
    );
}

#[test]
fn changed_keys_share_the_revision_of_the_instance_and_clearing_touches_all() {
    let known = vec![KvDoc::new("i", "old")];
    let events = vec![
        set(1, "new", "v"),
        event(2, EventKind::KeyValuesCleared),
        set(3, "new", "w"),
    ];
    let decision = decided(events);
    let plan = plan_for(&turn(None, known), decision).unwrap();
    let docs: Vec<KvDoc> = plan
        .state
        .iter()
        .map(|op| serde_json::from_str(op.body.as_ref().unwrap().get()).unwrap())
        .collect();
    let shown: Vec<_> = docs
        .iter()
        .map(|doc| (doc.key.as_str(), doc.rev, doc.newest()))
        .collect();
    assert_eq!(shown, [("new", 1, Some("w")), ("old", 1, None)]);
    assert_eq!(plan.instance.kv_rev, 1);
}

#[test]
fn a_long_history_is_cut_into_documents_that_fit_and_one_event_that_does_not_is_refused() {
    let data = "x".repeat(500 * 1024);
    let events = (1..=6).map(|id| {
        event(
            id,
            EventKind::ExternalEvent {
                name: "e".to_owned(),
                data: data.clone(),
            },
        )
    });
    let plan = plan(decided(events.collect()));
    let offsets: Vec<u64> = plan
        .history
        .iter()
        .map(|op| {
            serde_json::from_str::<HistoryDoc>(op.body.as_ref().unwrap().get())
                .unwrap()
                .offset
        })
        .collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5]);
    let huge = event(
        1,
        EventKind::ExternalEvent {
            name: "e".to_owned(),
            data: "x".repeat(3 << 20),
        },
    );
    let refused = plan_for(&turn(None, vec![]), decided(vec![huge]));
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("ExternalEvent") && message.contains("'i'") && message.contains("3145"),
        "{message}"
    );
}

#[test]
fn a_child_or_session_that_no_partition_can_hold_is_refused() {
    let long = "x".repeat(2_049);
    let child = TurnDecision {
        messages: vec![child_start(&long)],
        ..decided(vec![])
    };
    assert!(plan_for(&turn(None, vec![]), child).is_err());
    let mut work = activity(2);
    if let WorkItem::ActivityExecute { session_id, .. } = &mut work {
        *session_id = Some(String::new());
    }
    let session = TurnDecision {
        work: vec![work],
        ..decided(vec![])
    };
    assert!(plan_for(&turn(None, vec![]), session).is_err());
}

#[test]
fn a_first_turn_keeps_the_time_of_acceptance_and_an_instance_without_a_start_begins_with_it() {
    let one = plan(first(1)).instance;
    assert_eq!((one.created_at, one.current.started_at), (ACCEPTED, NOW));
    assert_eq!((one.start_name, one.current.status), (None, Status::Running));
    assert!(one.lock.remembers("c1"), "it exists from now on");
    let absent = turn(Some(InstanceDoc::absent("i", ACCEPTED)), vec![]);
    assert_eq!(plan_for(&absent, first(1)).unwrap().instance.created_at, NOW);
}

#[test]
fn a_long_output_or_custom_status_has_a_document_of_its_own() {
    let long = "x".repeat(9 * 1024);
    for (text, written) in [("short", vec![]), (long.as_str(), vec!["output:1", "custom-status"])] {
        let mut metadata = named();
        metadata.status = Some("Completed".to_owned());
        metadata.output = Some(text.to_owned());
        let status = EventKind::CustomStatusUpdated {
            status: Some(text.to_owned()),
        };
        let plan = plan(TurnDecision {
            metadata,
            ..decided(vec![event(1, status)])
        });
        assert_eq!(ids(&plan.state), written);
        let instance = &plan.instance;
        let inline = written.is_empty().then_some(text);
        assert_eq!(
            (instance.current.output.as_deref(), instance.custom_status.as_deref()),
            (inline, inline)
        );
        assert!(serde_json::to_string(instance).unwrap().len() < 8 * 1024);
    }
}

#[test]
fn the_attempts_of_an_activity_are_in_the_history_document_of_its_completion() {
    let mut turn = turn(None, Vec::new());
    let of = |execution, activity| {
        let mut log = AttemptLog::default();
        log.add(Attempt {
            number: 1,
            began: 5,
            ended: 6,
            end: AttemptEnd::Completed,
        });
        CompletedAttempts {
            execution,
            activity,
            log,
        }
    };
    turn.messages[0].attempts = Some(of(9, 2));
    turn.messages[1].attempts = Some(of(1, 2));
    turn.messages[2].attempts = Some(of(1, 3));
    let completed = EventKind::ActivityCompleted { result: String::new() };
    let events = vec![
        event(1, EventKind::KeyValuesCleared),
        Event::with_event_id(2, "i", 1, Some(2), completed),
    ];
    let plan = plan_for(&turn, decided(events)).unwrap();
    let document = serde_json::to_value(plan.history[0].body.as_ref().unwrap()).unwrap();
    assert_eq!(document["attempts"], serde_json::json!([of(1, 2)]), "{document}");
}

fn timer(id: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        fire_at_ms: NOW + 500,
    }
}

fn ending(status: &str, events: Vec<Event>) -> TurnDecision {
    TurnDecision {
        metadata: ExecutionMetadata {
            status: Some(status.to_owned()),
            ..named()
        },
        ..decided(events)
    }
}

/// A turn of an instance with these open timers, which consumes the first of them.
fn turn_with_timers(timers: &[u64]) -> ClaimedTurn {
    let messages = timers.iter().map(|id| timer(*id)).collect();
    let created = plan(TurnDecision { messages, ..first(1) });
    let mut turn = turn(Some(created.instance), vec![]);
    turn.messages[0].id = MessageDoc::timer_id(1, timers[0]);
    turn
}

#[test]
fn the_last_turn_deletes_the_open_timers_and_writes_no_new_ones() {
    for status in ["Completed", "Failed", "ContinuedAsNew"] {
        let decision = TurnDecision {
            messages: vec![timer(5)],
            ..ending(status, vec![])
        };
        assert_eq!(decision.due(), [], "{status}");
        let mut turn = turn_with_timers(&[2, 3, 4]);
        turn.fence.doc.lock.attempts.insert("m:t:1:3".to_owned(), 1);
        let plan = plan_for(&turn, decision).unwrap();
        assert_eq!(
            ids(&plan.rest),
            ["m:t:1:2", "m:foreign", "m:client", "m:t:1:3", "m:t:1:4"],
            "{status}"
        );
        assert!(matches!(plan.rest[3].op, StagedOpKind::Discard), "{status}");
        assert!(plan.instance.current.open_timers.is_empty(), "{status}");
        assert!(plan.instance.lock.attempts.is_empty(), "{status}");
    }
}

#[test]
fn a_cancelled_execution_is_marked_and_has_failed_for_duroxide() {
    let failed = |kind| {
        let details = ErrorDetails::Application {
            kind,
            message: String::new(),
            retryable: false,
        };
        ending("Failed", vec![event(1, EventKind::OrchestrationFailed { details })])
    };
    let reason = "enough".to_owned();
    for (kind, cancelled) in [
        (AppErrorKind::Cancelled { reason }, true),
        (AppErrorKind::OrchestrationFailed, false),
    ] {
        let state = plan(failed(kind)).instance.current;
        assert_eq!((state.status, state.cancelled), (Status::Failed, cancelled));
    }
}

#[test]
fn a_turn_counts_what_it_has_spent_and_what_its_messages_bring_and_awaits_the_rest() {
    let mut turn = turn(None, vec![]);
    let activity = Usage {
        activities: 1,
        attempts: 2,
        ..Usage::REQUEST
    };
    turn.messages[0].usage = Some(Box::new(activity));
    turn.messages[0].late = vec![LateUsage::of("c0", Usage::REQUEST)];
    turn.messages[1].usage = Some(Box::new(Usage::of_wakeups(1)));
    let late = [
        LateUsage::of("m:own", Usage::REQUEST),
        LateUsage::of("m:foreign", Usage::REQUEST),
        LateUsage::of("c0", Usage::REQUEST),
    ];
    let mut before = crate::model::InstanceUsage::default();
    before.await_late("c0");
    turn.fence.doc.usage = Some(Box::new(before));
    let usage = TurnUsage {
        spent: Usage {
            turn_ms: 40,
            ..Usage::REQUEST
        },
        wakeups: 3,
        late: &late,
        announced: Usage::of_wakeups(1),
    };
    let plan = plan_using(&turn, TurnDecision::default(), usage).expect("a plan is made");
    let counted = plan.instance.usage.expect("it is counted");
    assert_eq!(
        counted.total,
        Usage {
            turns: 1,
            activities: 1,
            attempts: 2,
            wakeups: 4,
            // Its own, that of the activity, and the late ones of the activity and of the commit before, each once. Nobody counted the
            // request of the other message in advance.
            requests: 4,
            turn_ms: 40,
            ..Usage::default()
        }
    );
    assert_eq!(plan.counted_late.len(), 2);
    assert!(counted.awaits(&LateUsage::of("c1", Usage::default())), "its own commit");
    assert!(!counted.awaits(&late[0]) && !counted.awaits(&late[2]));
}

#[test]
fn the_usage_goes_on_in_the_next_execution() {
    let first = plan(TurnDecision {
        execution: 1,
        events: vec![set(1, "k", "v")],
        ..TurnDecision::default()
    });
    let turn = turn(Some(first.instance), vec![]);
    let next = plan_for(
        &turn,
        TurnDecision {
            execution: 2,
            ..TurnDecision::default()
        },
    );
    let usage = next.expect("a plan is made").instance.usage.expect("it is counted");
    assert_eq!(usage.total.turns, 2);
}
