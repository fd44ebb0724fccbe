//! `doctor`: what the API finds, without functions beside it.

use crate::fixture::{Fixture, binary, dead_address};

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_store_passes_and_each_check_has_its_line() {
    let fixture = Fixture::idle().await;
    let ran = fixture.run(&["doctor", "--runs", "0", "--samples", "2"]).await.exits(0);
    for part in [
        "container",
        "as defined",
        "clock",
        "commit",
        "REQUEST UNITS",
        "0 failed",
    ] {
        assert!(ran.out.contains(part), "{part:?}: {ran:?}");
    }
    let found = fixture.json(&["doctor", "--runs", "0", "--samples", "2"]).await;
    assert_eq!(found["operations"].as_array().unwrap().len(), 5);
    assert_eq!(found["operations"][0]["samples"], 2);
    assert!(found["canary"].is_null() && found["state"] != "failed", "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_nobody_runs_fails_and_is_deleted() {
    let fixture = Fixture::idle().await;
    let arguments = ["doctor", "--runs", "2", "--samples", "1", "--timeout", "1"];
    let ran = fixture.run(&arguments).await.exits(1);
    assert!(
        ran.out.contains("0 of 2 completed") && ran.out.contains("1 failed"),
        "{ran:?}"
    );
    assert!(ran.out.contains("dead-letter queues"), "it says what to do: {ran:?}");
    assert_eq!(fixture.wakeups.take().len(), 2, "both were started");
    assert_eq!(fixture.json(&["stats"]).await["instances"]["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_cannot_be_reached_is_no_finding() {
    let mut fixture = Fixture::idle().await;
    for wrong in [&["--runs", "-1"][..], &["--samples", "0"], &["--timeout", "soon"]] {
        fixture.run(&[&["doctor"], wrong].concat()).await.exits(2);
    }
    fixture.set("DUROXIDE_LAMBDA_URL", dead_address());
    let ran = binary(&fixture.variables, &["doctor"], "").await.exits(6);
    assert!(ran.out.is_empty() && ran.err.contains("error:"), "{ran:?}");
}
