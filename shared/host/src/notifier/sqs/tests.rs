use super::*;
use crate::aws::scripted::{Scripted, is_child, nobody, sdk};
use duroxide_cosmos::WorkTarget;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn queues() -> Queues {
    Queues {
        orchestrator: "http://q/1/turns".to_owned(),
        worker: "http://q/1/work".to_owned(),
        tagged: BTreeMap::from([("gpu".to_owned(), "http://q/1/gpu".to_owned())]),
    }
}

fn turns(count: usize) -> Vec<Delayed> {
    (0..count)
        .map(|n| Delayed::now(Wakeup::turn(format!("i{n}"))))
        .collect()
}

fn work(tag: Option<&str>) -> Wakeup {
    Wakeup::work(WorkTarget {
        instance: "i".to_owned(),
        execution: 1,
        activity: 2,
        tag: tag.map(str::to_owned),
        ..WorkTarget::default()
    })
}

fn notifier(server: &Scripted) -> Sqs {
    Sqs::with_client(Client::new(&server.sdk()), queues())
}

/// Takes every entry, except those whose body names one of `refused`.
fn answer(request: &Value, refused: &[&str]) -> (u16, Value) {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in request["Entries"].as_array().unwrap() {
        let body = entry["MessageBody"].as_str().unwrap();
        if refused.iter().any(|name| body.contains(name)) {
            failed.push(json!({
                "Id": entry["Id"], "Code": "InternalError", "Message": "not today", "SenderFault": false
            }));
        } else {
            successful.push(json!({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "x"}));
        }
    }
    (200, json!({"Successful": successful, "Failed": failed}))
}

fn sizes(server: &Scripted) -> Vec<usize> {
    let requests = server.requests();
    let mut sizes: Vec<_> = requests
        .iter()
        .map(|request| request["Entries"].as_array().unwrap().len())
        .collect();
    sizes.sort_unstable();
    sizes
}

fn instances(not_sent: &[NotSent]) -> BTreeSet<&str> {
    not_sent.iter().map(|not| not.wakeup.target.instance()).collect()
}

#[test]
fn a_wakeup_goes_to_the_queue_of_its_kind_and_tag() {
    for (wakeup, url) in [
        (Wakeup::turn("i"), "http://q/1/turns"),
        (work(None), "http://q/1/work"),
        (work(Some("gpu")), "http://q/1/gpu"),
        (work(Some("cpu")), "http://q/1/work"),
    ] {
        assert_eq!(queues().url_of(&wakeup), url);
    }
}

#[test]
fn a_delay_is_rounded_up_to_seconds_and_capped() {
    for (ms, expected) in [
        (0, 0),
        (1, 1),
        (999, 1),
        (1000, 1),
        (1001, 2),
        (900_000, 900),
        (900_001, 900),
        (u64::MAX, 900),
    ] {
        assert_eq!(seconds(Duration::from_millis(ms)), expected, "{ms} ms");
    }
}

#[tokio::test]
async fn wakeups_are_sent_ten_per_call_and_the_calls_side_by_side() {
    // No call is answered before all have come; if they come one by one, the first gives up waiting.
    let arrived = AtomicUsize::new(0);
    let server = Scripted::start(move |_, request| {
        let (started, _) = (Instant::now(), arrived.fetch_add(1, Ordering::SeqCst));
        while arrived.load(Ordering::SeqCst) < 3 && started.elapsed() < Duration::from_secs(15) {
            std::thread::sleep(Duration::from_millis(5));
        }
        answer(request, &[])
    });
    assert!(notifier(&server).notify(&turns(25)).await.is_empty());
    assert_eq!(sizes(&server), [5, 10, 10]);
    assert_eq!(server.peak(), 3);
    let mut sent = BTreeSet::new();
    for request in server.requests() {
        assert_eq!(request["QueueUrl"], "http://q/1/turns");
        for entry in request["Entries"].as_array().unwrap() {
            let wakeup = Wakeup::decode(entry["MessageBody"].as_str().unwrap()).unwrap();
            assert!(sent.insert(wakeup.target.instance().to_owned()), "each once");
        }
    }
    assert_eq!(sent.len(), 25);
}

#[tokio::test]
async fn a_large_fan_out_keeps_the_limit_of_calls_at_once() {
    let server = Scripted::start(|_, request| {
        std::thread::sleep(Duration::from_millis(30));
        answer(request, &[])
    });
    assert!(notifier(&server).notify(&turns(400)).await.is_empty());
    assert_eq!(server.requests().len(), 40);
    assert!((2..=MAX_CALLS).contains(&server.peak()), "{}", server.peak());
}

#[tokio::test]
async fn each_queue_gets_its_own_call_and_each_wakeup_its_delay() {
    let server = Scripted::start(|_, request| answer(request, &[]));
    let mut late = Delayed::now(Wakeup::turn("late"));
    late.delay = Duration::from_millis(1500);
    let mut never = Delayed::now(Wakeup::turn("never"));
    never.delay = Duration::from_secs(86_400);
    let wakeups = [late, Delayed::now(work(None)), never, Delayed::now(work(Some("gpu")))];
    assert!(notifier(&server).notify(&wakeups).await.is_empty());
    let requests = server.requests();
    let sent: BTreeMap<_, Vec<_>> = requests
        .iter()
        .map(|request| {
            let entries = request["Entries"].as_array().unwrap();
            let delays = entries.iter().map(|entry| entry["DelaySeconds"].as_i64().unwrap());
            (request["QueueUrl"].as_str().unwrap(), delays.collect())
        })
        .collect();
    let expected = [
        ("http://q/1/gpu", vec![0]),
        ("http://q/1/turns", vec![2, 900]),
        ("http://q/1/work", vec![0]),
    ];
    assert_eq!(sent, BTreeMap::from(expected));
}

#[tokio::test]
async fn a_call_carries_at_most_256_kb() {
    let server = Scripted::start(|_, request| {
        let bodies = request["Entries"].as_array().unwrap().iter();
        let bytes: usize = bodies.map(|entry| entry["MessageBody"].as_str().unwrap().len()).sum();
        assert!(bytes <= 256 * 1024, "{bytes}");
        answer(request, &[])
    });
    let wakeups: Vec<_> = (0..6)
        .map(|n| Delayed::now(Wakeup::turn(format!("{n}{}", "x".repeat(100_000)))))
        .collect();
    assert!(notifier(&server).notify(&wakeups).await.is_empty());
    assert_eq!(sizes(&server), [2, 2, 2]);
}

#[test]
fn bodies_up_to_the_limit_share_a_call_and_a_larger_one_is_alone() {
    let empty = Wakeup::turn("").encode().len();
    let of = |bytes: usize| Delayed::now(Wakeup::turn("x".repeat(bytes - empty)));
    let half = MAX_BYTES / 2;
    for (sizes, expected) in [
        (vec![half, half], vec![2]),
        (vec![half, half + 1], vec![1, 1]),
        (vec![100, MAX_BYTES + 1, 100], vec![1, 1, 1]),
    ] {
        let wakeups: Vec<_> = sizes.iter().map(|bytes| of(*bytes)).collect();
        let queues = queues();
        let counts: Vec<_> = calls(&queues, &wakeups).iter().map(|call| call.wakeups.len()).collect();
        assert_eq!(counts, expected, "{sizes:?}");
    }
}

#[tokio::test]
async fn only_entries_that_fail_are_returned_with_the_reason() {
    let server = Scripted::start(|_, request| answer(request, &["\"i3\"", "\"i11\""]));
    let failed = notifier(&server).notify(&turns(12)).await;
    assert_eq!(instances(&failed), BTreeSet::from(["i3", "i11"]));
    for not in &failed {
        for part in ["http://q/1/turns", "InternalError", "not today", "service fault"] {
            assert!(not.reason.contains(part), "{}", not.reason);
        }
    }
}

#[tokio::test]
async fn entries_that_the_answer_forgets_are_not_sent() {
    let server = Scripted::start(|_, _| {
        (
            200,
            json!({"Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}], "Failed": []}),
        )
    });
    let failed = notifier(&server).notify(&turns(3)).await;
    assert_eq!(instances(&failed), BTreeSet::from(["i1", "i2"]));
}

#[tokio::test]
async fn a_call_that_is_refused_fails_its_own_wakeups_only() {
    let server = Scripted::start(|_, request| {
        if request["QueueUrl"] == "http://q/1/work" {
            let refusal = "com.amazonaws.sqs#AccessDenied";
            return (403, json!({"__type": refusal, "message": "no sqs:SendMessage for you"}));
        }
        answer(request, &[])
    });
    let failed = notifier(&server)
        .notify(&[Delayed::now(Wakeup::turn("a")), Delayed::now(work(None))])
        .await;
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].wakeup, work(None));
    for part in ["http://q/1/work", "AccessDenied", "no sqs:SendMessage for you"] {
        assert!(failed[0].reason.contains(part), "{}", failed[0].reason);
    }
    assert!(failed[0].reason.len() < 300, "readable: {}", failed[0].reason);
    assert_eq!(server.requests().len(), 2, "a refusal is not tried again");
}

#[tokio::test]
async fn an_error_of_the_service_is_retried_once() {
    for (stumbles, failures) in [(1, 0), (2, 2)] {
        let server = Scripted::start(move |number, request| {
            if number < stumbles {
                (500, json!({"__type": "InternalFailure"}))
            } else {
                answer(request, &[])
            }
        });
        assert_eq!(notifier(&server).notify(&turns(2)).await.len(), failures);
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_dead_endpoint_fails_every_wakeup_soon() {
    let sqs = Sqs::with_client(Client::new(&sdk(&nobody())), queues());
    let started = Instant::now();
    let failed = sqs.notify(&turns(11)).await;
    assert_eq!(failed.len(), 11);
    assert!(failed[0].reason.contains("dispatch failure"), "{}", failed[0].reason);
    assert!(failed[0].reason.contains("onnect"), "{}", failed[0].reason);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_service_that_does_not_answer_times_out() {
    let server = Scripted::start(|_, request| {
        std::thread::sleep(Duration::from_secs(30));
        answer(request, &[])
    });
    let started = Instant::now();
    let hasty = Sqs::with_client(Client::new(&server.hasty_sdk()), queues());
    let failed = hasty.notify(&turns(1)).await;
    assert!(failed[0].reason.contains("timeout"), "{}", failed[0].reason);
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
}

#[tokio::test]
async fn without_wakeups_no_client_is_made() {
    let sqs = Sqs::new(queues());
    assert!(sqs.notify(&[]).await.is_empty());
    assert!(!sqs.client.initialized());
}

#[test]
fn the_client_is_made_from_the_environment_with_the_first_wakeup() {
    let server = Scripted::start(|_, request| answer(request, &[]));
    server.run_child(module_path!(), "child_that_notifies_by_its_environment");
    assert_eq!(sizes(&server), [1, 1]);
    // The child runs as deep in a chain of invocations as Lambda allows: its wakeups begin new chains.
    let traces = server.traces();
    assert_eq!(traces.len(), 2, "{traces:?}");
    assert_ne!(traces[0], traces[1]);
    for trace in traces {
        let root = trace.strip_prefix("root=1-").expect("a root");
        let parts: Vec<&str> = root.split(['-', ';']).collect();
        assert_eq!(
            (parts[0].len(), parts[1].len(), parts[2]),
            (8, 24, "sampled=0"),
            "{trace}"
        );
        assert!(!trace.contains("lineage") && !trace.contains("5759e988"), "{trace}");
    }
}

#[tokio::test]
async fn child_that_notifies_by_its_environment() {
    if !is_child() {
        return;
    }
    let sqs = Sqs::new(queues());
    assert!(!sqs.client.initialized());
    for _ in 0..2 {
        let failed = sqs.notify(&turns(1)).await;
        assert!(failed.is_empty(), "{failed:?}");
    }
    assert!(sqs.client.initialized());
}

#[tokio::test]
async fn the_depth_of_a_queue_is_what_the_service_answers() {
    let server = Scripted::start(|_, request| {
        let numbers = match request["QueueUrl"].as_str() {
            Some("http://q/1/work") => json!({
                "ApproximateNumberOfMessages": "7",
                "ApproximateNumberOfMessagesNotVisible": "3",
                "ApproximateNumberOfMessagesDelayed": "2",
            }),
            Some("http://q/1/gpu") => json!({ "ApproximateNumberOfMessages": "7" }),
            _ => {
                return (
                    403,
                    json!({"__type": "com.amazonaws.sqs#AccessDenied", "message": "no"}),
                );
            }
        };
        (200, json!({ "Attributes": numbers }))
    });
    let sqs = notifier(&server);
    let depth = Depth {
        waiting: 7,
        in_flight: 3,
        delayed: 2,
    };
    assert_eq!(sqs.depth(&QueueName::works()).await, Some(depth));
    assert_eq!(sqs.depth(&QueueName::tagged("gpu")).await, None, "not all of it");
    assert_eq!(sqs.depth(&QueueName::turns()).await, None, "it is refused");
    let asked = &server.requests()[0]["AttributeNames"];
    assert_eq!(asked.as_array().map(Vec::len), Some(3), "{asked}");
}

#[test]
fn each_target_has_the_queue_by_whose_name_its_depth_is_known() {
    let sqs = Sqs::new(queues());
    for (target, queue) in [
        (Wakeup::turn("i").target, QueueName::turns()),
        (work(None).target, QueueName::works()),
        (work(Some("gpu")).target, QueueName::tagged("gpu")),
        (work(Some("cpu")).target, QueueName::works()),
    ] {
        assert_eq!(sqs.queue_of(&target), queue);
        assert!(sqs.queues().contains(&queue), "{queue}");
        assert_eq!(queues().url(&queue), queues().url_of(&Wakeup::to(target)));
    }
    assert_eq!(queues().url(&QueueName::tagged("gone")), "http://q/1/work");
}
