//! Usage over HTTP.

use serde_json::json;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_answers_what_an_instance_has_used_and_lists_do_not() {
    let site = Site::start().await;
    site.started("Echo", "a", json!("x")).await;
    let pending = site.get("/v1/instances/a").await.is(200);
    assert_eq!(pending.get("usage"), None, "no turn has counted it");
    site.cloud.drain().await;
    let reply = site.get("/v1/instances/a").await;
    let usage = reply.is(200)["usage"].clone();
    assert_eq!(
        (&usage["turns"], &usage["activities"]),
        (&json!(1), &json!(0)),
        "{usage}"
    );
    assert_eq!(
        (&usage["requests"], &usage["wakeups"]),
        (&json!(3), &json!(1)),
        "{usage}"
    );
    for number in [
        "requestUnits",
        "turnSeconds",
        "activitySeconds",
        "elapsedSeconds",
        "waitingSeconds",
    ] {
        assert!(usage[number].is_f64(), "{number}: {usage}");
    }
    assert!(usage["requestUnits"].as_f64() > Some(1.0), "{usage}");
    let again = site.get("/v1/instances/a").await;
    assert_eq!(
        (again.header("etag"), &again.is(200)["usage"]),
        (reply.header("etag"), &usage)
    );
    let listed = site.get("/v1/instances").await.is(200);
    assert_eq!(listed["instances"][0].get("usage"), None, "{listed}");
}
