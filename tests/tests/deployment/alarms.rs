//! Alarms and dashboard look at metrics that the code really writes.

use crate::cost::maintenance;
use crate::deploy::Stack;
use crate::template::{parameters, text};
use ::cosmos::{Key, StaticKey};
use anyhow::Result;
use cosmos_emulator::{Faults, ServerOptions};
use duroxide::providers::Provider;
use duroxide_cosmos::CosmosConfig;
use duroxide_lambda::internals::Budget;
use duroxide_lambda::internals::{Answer, PassName, PassReport, Report, StoreReport};
use duroxide_lambda::internals::{Metric, Metrics};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tests::World;

/// Namespace, name, and the one dimension with its value.
type Series = (String, String, String, String);

fn metric(namespace: &str, name: &str, dimension: &str, value: &str) -> Series {
    (
        namespace.to_owned(),
        name.to_owned(),
        dimension.to_owned(),
        value.to_owned(),
    )
}

/// What CloudWatch makes of a line in its embedded format.
pub fn extracted(line: &str) -> Vec<Series> {
    let line: Value = serde_json::from_str(line).unwrap();
    let mut metrics = Vec::new();
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
        for dimensions in directive["Dimensions"].as_array().unwrap() {
            let [dimension] = dimensions.as_array().unwrap().as_slice() else {
                panic!("one dimension: {dimensions}");
            };
            let dimension = text(dimension);
            for defined in directive["Metrics"].as_array().unwrap() {
                let name = text(&defined["Name"]);
                assert!(line[&name].is_number(), "{name} has a value");
                let value = text(&line[&dimension]);
                metrics.push(metric(&text(&directive["Namespace"]), &name, &dimension, &value));
            }
        }
    }
    metrics
}

/// The report of a run that found something of each kind.
fn busy() -> Report {
    let failed = PassReport {
        error: Some("no answer".to_owned()),
        ..PassReport::default()
    };
    Report {
        passes: PassName::ALL.map(|pass| (pass, failed.clone())).into(),
        store: Some(StoreReport {
            outbox_depth: 1,
            oldest_intent_seconds: 1,
            messages_due: 1,
            activities_due: 1,
            oldest_due_seconds: 1,
            overdue_timers: 1,
            timers_pending: 1,
            stuck_instances: 1,
            dead_letters: 1,
        }),
        ..Report::default()
    }
}

/// All that the functions of this stack can write, by having their metrics count everything once.
async fn written(stack: &Stack) -> Result<BTreeSet<Series>> {
    let mut names = BTreeSet::new();
    for function in ["orchestrator", "worker", "worker-tagged", "maintenance"] {
        let name = text(&stack.function(function)["FunctionName"]);
        let namespace = stack
            .variables(function)
            .into_iter()
            .find(|(name, _)| name == "METRICS_NAMESPACE");
        let metrics = Arc::new(Metrics::new(namespace.map(|(_, value)| value)));
        throttle(Arc::clone(&metrics)).await?;
        metrics.count(Metric::WakeupsSent, 1);
        metrics.count(Metric::WakeupsFailed, 1);
        match function {
            "orchestrator" => {
                for metric in [
                    Metric::Turns,
                    Metric::Failed,
                    Metric::OrchestrationsFailed,
                    Metric::GivenUp,
                    Metric::Blocked,
                ] {
                    metrics.count(metric, 1);
                }
            }
            "maintenance" => {
                busy().measure(&metrics);
            }
            _ => {
                for metric in [Metric::Activities, Metric::Failed, Metric::GivenUp, Metric::Blocked] {
                    metrics.count(metric, 1);
                }
            }
        }
        names.extend(extracted(&metrics.flush(&name, Duration::from_millis(1), 0).unwrap()));
    }
    Ok(names)
}

/// A request that the store turns away once.
async fn throttle(metrics: Arc<Metrics>) -> Result<()> {
    let world = World::local(ServerOptions::default()).await;
    let (database, container) = world.names();
    let key = StaticKey::new(Key::from_base64(&world.listener().key())?);
    let config = CosmosConfig::builder(world.listener().endpoint(), key)
        .database(database)
        .container(container)
        .observer(metrics);
    let provider = tests::connect(config).await;
    world.listener().set_faults(Faults {
        throttled: 1.0,
        retry_after: Duration::from_millis(1),
        limit: Some(1),
        ..Faults::default()
    });
    provider.read("nobody").await?;
    assert!(world.listener().counts().requests >= 2, "it was tried again");
    Ok(())
}

/// The metrics of AWS's own services that this stack has.
fn of_services(stack: &Stack) -> BTreeSet<Series> {
    let mut metrics = BTreeSet::new();
    for function in stack.made["functions"].as_object().unwrap().keys() {
        for name in ["Errors", "Duration", "Invocations", "Throttles", "ConcurrentExecutions"] {
            metrics.insert(metric("AWS/Lambda", name, "FunctionName", function));
        }
    }
    // The function with a URL has these, too.
    for name in ["UrlRequestCount", "Url4xxCount", "Url5xxCount"] {
        metrics.insert(metric("AWS/Lambda", name, "FunctionName", "flow-api"));
    }
    for url in stack.made["queues"].as_object().unwrap().keys() {
        let queue = url.rsplit('/').next().unwrap();
        metrics.insert(metric(
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            "QueueName",
            queue,
        ));
    }
    metrics
}

fn looked_at(alarm: &Value) -> Series {
    let [dimension] = alarm["Dimensions"].as_array().unwrap().as_slice() else {
        panic!("one dimension: {alarm}");
    };
    let [namespace, name] = ["Namespace", "MetricName"].map(|field| text(&alarm[field]));
    metric(&namespace, &name, &text(&dimension["Name"]), &text(&dimension["Value"]))
}

/// The titles of what a dashboard shows of a tag's own worker.
pub fn of_tags(dashboard: &Value) -> Vec<String> {
    let widgets = dashboard["widgets"].as_array().unwrap().iter();
    let titles = widgets.map(|widget| text(&widget["properties"]["title"]));
    titles.filter(|title| title.starts_with("Tag ")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn alarms_and_dashboard_look_at_metrics_that_are_written() -> Result<()> {
    let stack = Stack::create(&parameters(&[("WorkerTag", "gpu"), ("MetricsNamespace", "my/flow")])).await?;
    let mut there = written(&stack).await?;
    there.extend(of_services(&stack));
    let mut shown = 0;
    for alarm in stack.made["alarms"].as_array().unwrap() {
        let at = looked_at(alarm);
        assert!(
            there.contains(&at),
            "{} looks at {at:?}, which nobody writes",
            alarm["AlarmName"]
        );
        shown += 1;
    }
    // The region distinguishes stacks of one name: dashboards belong to an account, not to a region.
    let dashboard = &stack.made["dashboards"]["flow-eu-central-1"];
    for widget in dashboard["widgets"].as_array().unwrap() {
        for row in widget["properties"]["metrics"].as_array().unwrap() {
            let [namespace, name, dimension, value] = [0, 1, 2, 3].map(|place| text(&row[place]));
            let at = metric(&namespace, &name, &dimension, &value);
            assert!(
                there.contains(&at),
                "{} shows {at:?}, which nobody writes",
                widget["properties"]["title"]
            );
            shown += 1;
        }
    }
    assert!(shown > 50, "{shown}");
    assert_eq!(
        of_tags(dashboard),
        [
            "Tag gpu: activities",
            "Tag gpu: waiting and given up",
            "Tag gpu: longest invocation in ms, and errors"
        ]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn each_problem_has_an_alarm_that_says_what_to_do() -> Result<()> {
    let stack = Stack::create(&parameters(&[("WorkerTag", "gpu"), ("WorkerTimeout", "300")])).await?;
    let alarms = stack.made["alarms"].as_array().unwrap();
    let on = |name: &str, value: &str| {
        let found = alarms.iter().find(|alarm| {
            let (_, is, dimension, of) = looked_at(alarm);
            // CloudFormation adds to the names of queues.
            let is_queue = dimension == "QueueName" && of.starts_with(&format!("{value}-"));
            is == name && (of == value || is_queue)
        });
        found.unwrap_or_else(|| panic!("no alarm on {name} of {value}"))
    };
    for queue in [
        "OrchestratorDeadLetters",
        "WorkerDeadLetters",
        "TaggedWorkerDeadLetters",
    ] {
        on("ApproximateNumberOfMessagesVisible", &format!("flow-{queue}"));
    }
    for name in [
        "OldestIntentSeconds",
        "OverdueTimers",
        "StuckInstances",
        "DeadLetters",
        "PassesFailed",
        "Invocations",
    ] {
        on(name, "flow-maintenance");
    }
    for function in [
        "flow-orchestrator",
        "flow-worker",
        "flow-worker-tagged",
        "flow-maintenance",
    ] {
        for name in ["CosmosThrottled", "Errors", "Duration"] {
            on(name, function);
        }
    }
    for name in ["Errors", "Throttles", "Url5xxCount"] {
        on(name, "flow-api");
    }
    // A store that hangs fails no invocation, and a wakeup is given up only after many deliveries.
    for function in ["flow-orchestrator", "flow-worker", "flow-worker-tagged"] {
        let failed = on("Failed", function);
        assert_eq!(
            (text(&failed["Statistic"]).as_str(), failed["Threshold"].as_f64()),
            ("Sum", Some(0.0))
        );
        assert_eq!(
            (&failed["DatapointsToAlarm"], &failed["EvaluationPeriods"]),
            (&3.into(), &3.into())
        );
    }
    // The first failed orchestration is seen, though no invocation failed.
    let failed = on("OrchestrationsFailed", "flow-orchestrator");
    assert_eq!(
        (text(&failed["Statistic"]).as_str(), failed["Threshold"].as_f64()),
        ("Sum", Some(0.0))
    );
    assert_eq!(
        (&failed["DatapointsToAlarm"], text(&failed["ComparisonOperator"])),
        (&1.into(), "GreaterThanThreshold".into())
    );
    assert_eq!(on("Duration", "flow-worker")["Threshold"].as_f64(), Some(240_000.0));
    // Maintenance does not write what is zero: for every alarm but this one, no data is no problem.
    for alarm in alarms {
        let (_, name, _, of) = looked_at(alarm);
        let is_silence = (name.as_str(), of.as_str()) == ("Invocations", "flow-maintenance");
        let expected = if is_silence { "breaching" } else { "notBreaching" };
        assert_eq!(text(&alarm["TreatMissingData"]), expected, "{alarm}");
    }
    let dead_letters = text(&on("DeadLetters", "flow-maintenance")["AlarmDescription"]);
    for payload in [
        json!({"deadLetters": {"list": {}}}),
        json!({"deadLetters": {"redrive": {"all": true}}}),
    ] {
        assert!(dead_letters.contains(&payload.to_string()), "{dead_letters}");
        let (maintenance, _world, _) = maintenance().await;
        let answer = maintenance.handle(&payload, Budget::of(Duration::from_secs(60))).await;
        assert!(matches!(answer, Ok(Answer::DeadLetters(_))), "{answer:?}");
    }
    for alarm in alarms {
        let description = text(&alarm["AlarmDescription"]);
        assert!(
            description.len() > 80 && description.matches(". ").count() + description.matches(": ").count() > 0,
            "{description}"
        );
        assert!(description.len() <= 1024);
    }
    Ok(())
}
