//! One audit line for each call that changes something, without payloads.

use serde_json::{Value, json};
use tests::api::*;
use tests::log::LogLines;

fn audited(lines: &LogLines) -> Vec<Value> {
    lines
        .read()
        .into_iter()
        .filter(|line| line["target"] == "audit")
        .collect()
}

// On one thread: the capture is the thread's.
#[tokio::test]
async fn each_call_that_changes_something_writes_one_line_without_its_payload() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    let (lines, _guard) = LogLines::capture();
    let post =
        |path: &str, body: Value, role: &str| signed_by(request("POST", path, Some(body)), &format!("arn:test:{role}"));
    let secret = json!({"id": "a/1", "input": "hush-hush"});
    let start = "/v1/orchestrations/Event/instances";
    site.send(post(start, secret.clone(), "client")).await.is(202);
    let unnamed = site
        .send(post(start, json!({"input": "hush-hush"}), "client"))
        .await
        .is(202);
    site.send(post(start, secret, "client")).await.is(409);
    site.send(post(
        "/v1/instances/a%2F1/events/Go",
        json!({"data": "hush-hush"}),
        "client",
    ))
    .await
    .is(202);
    site.send(post("/v1/instances/a%2F1:cancel", json!({}), "client"))
        .await
        .is(403);
    site.send(post(
        "/v1/instances/a%2F1:cancel",
        json!({"reason": "hush-hush"}),
        "operator",
    ))
    .await
    .is(202);
    site.send(request("DELETE", "/v1/instances/a%2F1", None)).await.is(401);
    let get = |path: &str| signed_by(request("GET", path, None), "arn:test:reader");
    site.send(get("/v1/instances/a%2F1")).await.is(200);
    let found: Vec<Value> = audited(&lines)
        .iter()
        .map(|line| {
            json!([
                line["who"],
                line["role"],
                line["action"],
                line["instance"],
                line["status"],
                line["outcome"]
            ])
        })
        .collect();
    let start = "POST /v1/orchestrations/{name}/instances";
    let cancel = "POST /v1/instances/{id}:cancel";
    assert_eq!(
        found,
        [
            json!(["arn:test:client", "client", start, "a/1", 202, "done"]),
            json!(["arn:test:client", "client", start, unnamed["instance"], 202, "done"]),
            json!(["arn:test:client", "client", start, "", 409, "refused"]),
            json!([
                "arn:test:client",
                "client",
                "POST /v1/instances/{id}/events/{name}",
                "a/1",
                202,
                "done"
            ]),
            json!(["arn:test:client", "client", cancel, "a/1", 403, "refused"]),
            json!(["arn:test:operator", "operator", cancel, "a/1", 202, "done"]),
            json!(["unknown", "none", "DELETE /v1/instances/{id}", "a/1", 401, "refused"]),
        ]
    );
    let all = lines.read().iter().map(Value::to_string).collect::<String>();
    assert!(!all.contains("hush"), "no payload is logged");
}
