//! Texts that would be code if a page took them for markup, an address or a template, in every place that a workflow can fill.

use duroxide::runtime::registry::{ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::{ActivityContext, OrchestrationContext};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::api::{GivingUp, Site};

/// What all of them begin with: `at` names the place, so that a scenario knows where each must be shown.
pub fn text(at: &str) -> String {
    format!("{at}<script>window.hacked='{at}'</script><img src=x onerror=\"window.hacked=1\">'\"`${{window.hacked=2}}")
}

/// An address that would be code.
pub const ADDRESS: &str = "javascript:window.hacked=3";

pub fn name() -> String {
    text("name")
}

fn failing() -> String {
    text("failing")
}

pub fn orchestrations(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register(name(), |ctx: OrchestrationContext, input: String| async move {
            ctx.set_custom_status(text("status"));
            ctx.set_kv_value(text("key"), text("value"));
            let result = ctx.schedule_activity(text("activity"), input).await?;
            let child = format!("{}/{}", ctx.instance_id(), text("child"));
            ctx.schedule_sub_orchestration_with_id(failing(), child, result)
                .await
                .ok();
            Ok(ctx.schedule_wait(text("event")).await)
        })
        .register(failing(), |_: OrchestrationContext, _: String| async move {
            Err::<String, _>(format!("{} {ADDRESS}", text("error")))
        })
}

pub fn activities(builder: ActivityRegistryBuilder) -> ActivityRegistryBuilder {
    builder.register(text("activity"), |_: ActivityContext, _: String| async move {
        Ok(text("result"))
    })
}

/// The id of the instance that waits for an event, and of the one that has failed.
pub fn ids() -> [String; 2] {
    [text("id"), text("failed-id")]
}

/// Starts and runs them, and leaves a dead letter.
pub async fn seed(site: &Site) {
    let start = async |orchestration: String, id: &str| {
        let tags = json!({ text("tag").replace(':', ";"): text("tag-value"), "link": ADDRESS });
        let body = json!({ "id": id, "input": { "a": text("input"), "b": ADDRESS }, "tags": tags });
        let path = format!("/v1/orchestrations/{}/instances", encoded(&orchestration));
        site.post(&path, body).await.is(202);
    };
    let [waiting, failed] = ids();
    start(name(), &waiting).await;
    start(failing(), &failed).await;
    site.cloud.drain().await;
    let given_up = text("given-up");
    start(name(), &given_up).await;
    site.give_up(GivingUp {
        instance: &given_up,
        activity: &text("activity"),
        reason: &format!("{} {ADDRESS}", text("reason")),
    })
    .await;
    site.cloud.drain().await;
}

/// A segment of a path.
pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// What the scenario has to know.
pub fn world() -> Value {
    let [waiting, failed] = ids();
    let places = [
        "status",
        "key",
        "value",
        "activity",
        "event",
        "error",
        "input",
        "result",
        "tag-value",
        "reason",
        "child",
    ];
    let texts: BTreeMap<&str, String> = places.into_iter().map(|at| (at, text(at))).collect();
    json!({
        "waiting": waiting, "failed": failed, "givenUp": text("given-up"), "name": name(), "address": ADDRESS, "texts": texts,
    })
}
