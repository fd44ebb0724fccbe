//! Functions whose activities fail until they are repaired, and count what they do.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RetryPolicy,
};
use duroxide_cosmos::{InstanceStatus, InstanceSummary, RewindOutcome, RewindRequest, RewindResult};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::cloud::Cloud;

/// What the activities do.
#[derive(Clone, Default)]
pub struct Shop {
    /// The inputs that fail.
    broken: Arc<Mutex<BTreeSet<String>>>,
    done: Arc<Mutex<BTreeMap<String, u32>>>,
    tried: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Shop {
    pub fn break_down(&self, input: &str) {
        self.broken.lock().expect("no panic").insert(input.to_owned());
    }

    pub fn repair(&self, input: &str) {
        self.broken.lock().expect("no panic").remove(input);
    }

    /// How often each input had its effect.
    pub fn done(&self) -> BTreeMap<String, u32> {
        self.done.lock().expect("no panic").clone()
    }

    pub fn tried(&self, input: &str) -> u32 {
        let tried = self.tried.lock().expect("no panic");
        tried.get(input).copied().unwrap_or_default()
    }

    /// Fails unless each of these, and nothing else, was done once.
    #[track_caller]
    pub fn assert_once(&self, inputs: &[&str]) {
        let expected: BTreeMap<String, u32> = inputs.iter().map(|input| ((*input).to_owned(), 1)).collect();
        assert_eq!(self.done(), expected);
    }

    pub fn activities(&self) -> ActivityRegistry {
        let shop = self.clone();
        let act = move |_: ActivityContext, input: String| {
            let shop = shop.clone();
            async move {
                *shop.tried.lock().expect("no panic").entry(input.clone()).or_default() += 1;
                if shop.broken.lock().expect("no panic").contains(&input) {
                    return Err(format!("{input} is broken"));
                }
                *shop.done.lock().expect("no panic").entry(input.clone()).or_default() += 1;
                Ok(input)
            }
        };
        ActivityRegistry::builder().register("Act", act).build()
    }

    pub async fn cloud(&self) -> Cloud {
        Cloud::start(orchestrations(), self.activities()).await
    }
}

fn retries() -> RetryPolicy {
    let delay = Duration::from_millis(5);
    RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed { delay })
}

pub fn orchestrations() -> OrchestrationRegistry {
    let steps = |ctx: OrchestrationContext, input: String| async move {
        let mut all = Vec::new();
        for step in input.split(',') {
            all.push(ctx.schedule_activity("Act", step).await?);
        }
        Ok(all.join(","))
    };
    let retry = |ctx: OrchestrationContext, _: String| async move {
        let paid = ctx.schedule_activity("Act", "pay").await?;
        let sent = ctx.schedule_activity_with_retry("Act", "ship", retries()).await?;
        Ok(format!("{paid},{sent}"))
    };
    // What failed is reported at the end, after the others were done.
    let saga = |ctx: OrchestrationContext, input: String| async move {
        let mut errors = Vec::new();
        for step in input.split(',') {
            if let Err(error) = ctx.schedule_activity_with_retry("Act", step, retries()).await {
                errors.push(error);
            }
        }
        if errors.is_empty() {
            Ok("undone".to_owned())
        } else {
            Err(format!("by hand: {}", errors.join(", ")))
        }
    };
    let fan = |ctx: OrchestrationContext, input: String| async move {
        let calls = input.split(',').map(|step| ctx.schedule_activity("Act", step));
        let results = ctx.join(calls.collect::<Vec<_>>()).await;
        let results: Result<Vec<String>, String> = results.into_iter().collect();
        Ok(results?.len().to_string())
    };
    let parent = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Act", "pay").await?;
        let (name, rest) = input.split_once(':').ok_or("no child")?;
        let result = ctx.schedule_sub_orchestration(name, rest).await?;
        ctx.schedule_activity("Act", "thank").await?;
        Ok(result)
    };
    let again = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Act", format!("step-{input}")).await?;
        if input == "0" {
            ctx.set_kv_value("seen", "0");
            return ctx.continue_as_new("1").await;
        }
        Ok(format!("{:?}", ctx.get_kv_value("seen")))
    };
    let keys = |ctx: OrchestrationContext, _: String| async move {
        ctx.set_kv_value("tag:stage", "begun");
        ctx.set_custom_status("begun");
        ctx.schedule_activity("Act", "pay").await?;
        ctx.set_kv_value("tag:stage", "shipping");
        ctx.set_kv_value("key", "kept");
        ctx.set_custom_status("shipping");
        if let Err(error) = ctx.schedule_activity("Act", "ship").await {
            ctx.set_kv_value("tag:stage", "failed");
            ctx.set_kv_value("key", "failed");
            ctx.set_kv_value("new", "failed");
            ctx.set_custom_status("failed");
            return Err(error);
        }
        let value = ctx.get_kv_value("key").unwrap_or_default();
        Ok(format!("{value} {:?}", ctx.get_kv_value("new")))
    };
    let wait = |ctx: OrchestrationContext, _: String| async move {
        let first = ctx.schedule_wait("go").await;
        ctx.schedule_timer(Duration::from_millis(5)).await;
        let second = ctx.dequeue_event("more").await;
        ctx.schedule_activity("Act", "ship").await?;
        let third = ctx.schedule_wait("go").await;
        Ok(format!("{first},{second},{third}"))
    };
    let first = |_: OrchestrationContext, _: String| async move { Err::<String, String>("at once".to_owned()) };
    OrchestrationRegistry::builder()
        .register("Steps", steps)
        .register("Retry", retry)
        .register("Saga", saga)
        .register("Fan", fan)
        .register("Parent", parent)
        .register("Again", again)
        .register("Keys", keys)
        .register("Wait", wait)
        .register("First", first)
        .build()
}

/// Starts an instance, and lets everything run.
pub async fn run(cloud: &Cloud, instance: &str, orchestration: &str, input: &str) {
    let started = cloud.client.start_orchestration(instance, orchestration, input).await;
    started.expect("it starts");
    cloud.drain().await;
}

pub async fn rewind(cloud: &Cloud, instance: &str) -> RewindResult {
    let request = RewindRequest {
        instance,
        reason: Some("repaired"),
        ..RewindRequest::default()
    };
    cloud.notifying.rewind(&request).await.expect("the store answers")
}

/// Rewinds, which must happen, and lets everything run.
pub async fn rewound(cloud: &Cloud, instance: &str) -> RewindResult {
    let result = rewind(cloud, instance).await;
    assert_eq!(result.outcome, RewindOutcome::Rewound, "{result:?}");
    cloud.drain().await;
    result
}

pub async fn summary(cloud: &Cloud, instance: &str) -> InstanceSummary {
    let summary = cloud.silent.instance_summary(instance).await;
    summary.expect("the store answers").expect("it is there")
}

#[track_caller]
pub fn assert_failed(summary: &InstanceSummary) {
    assert_eq!(summary.status, InstanceStatus::Failed, "{summary:?}");
}

pub async fn output(cloud: &Cloud, instance: &str) -> String {
    match cloud.client.get_orchestration_status(instance).await {
        Ok(OrchestrationStatus::Completed { output, .. }) => output,
        other => panic!("{instance} did not complete: {other:?}"),
    }
}
