//! What goes wrong is told on stderr, in time, with an exit code that says which kind it is.

use crate::world::{LONG, World, dead_address};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_nobody_knows_is_not_found() {
    let world = World::moving().await;
    for command in [
        &["status", "nobody"][..],
        &["history", "nobody"],
        &["tree", "nobody"],
        &["delete", "nobody"],
        &["delete", "nobody", "--force"],
        &["prune", "nobody"],
        &["wait", "nobody", "--timeout", "0.2"],
        &["raise", "nobody", "go"],
        &["enqueue", "nobody", "notes", "x"],
        &["cancel", "nobody"],
        &["status", "--json", "nobody"],
        &["status", "no\u{1b}[2Jbody"],
    ] {
        let ran = world.run(command).await.is(5).says("was not found");
        assert_eq!(ran.out, "", "{command:?}");
        assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    }
    assert_eq!(
        world.json(&["stats"]).await["queues"]["orchestrator"],
        0,
        "nothing was queued for nobody"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_reach_nobody_is_refused_unless_forced() {
    let world = World::moving().await;
    world.json(&["start", "Echo", "--id", "over", "--wait", "120"]).await;
    for command in [
        &["raise", "over", "go"][..],
        &["enqueue", "over", "notes"],
        &["cancel", "over"],
    ] {
        world.run(command).await.is(1).says("is over (Completed)");
    }
    world.json(&["raise", "over", "go", "--force"]).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_over_in_time_is_timed_out_and_not_deleted() {
    let world = World::moving().await;
    let ran = world
        .run(&["start", "Await", "--id", "w", "--wait", "1", "--json"])
        .await
        .is(4);
    assert_eq!(ran.out, "");
    world.json(&["raise", "--force", "nobody-yet", "go"]).await;
    world.until_listed(1).await;
    world
        .run(&["wait", "w", "--timeout", "0.1"])
        .await
        .is(4)
        .says("is not over after 0.1 s: Running");
    world.run(&["delete", "w"]).await.is(1).says("delete it with force");
    assert_eq!(world.json(&["delete", "w", "--force"]).await["instances"], 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_2_and_touches_nothing() {
    let world = World::still().await;
    world.server.listener().reset();
    for command in [
        &["status", ""][..],
        &["start"],
        &["start", "", "--id", "x"],
        &["raise", "i"],
        &["wait", "i", "--timeout", "-1"],
        &["list", "--limit", "many"],
        &["dead-letters", "redrive", "i"],
        &["nonsense"],
    ] {
        let ran = world.run(command).await.is(2);
        assert!(ran.out.is_empty() && ran.err.contains("error:"), "{ran:?}");
    }
    assert_eq!(world.server.listener().counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_ids_that_the_store_refuses_are_told_in_its_words() {
    let world = World::still().await;
    let huge = "x".repeat(3 << 20);
    let ran = world
        .run_with(&["start", "Echo", "--id", "huge", "--input", "-"], &huge)
        .await;
    ran.is(1).says("keep large payloads outside");
    let long = "i".repeat(2_100);
    world.run(&["start", "Echo", "--id", &long]).await.is(1).says("2048");
    world
        .run(&["start", "Echo", "--id", "sub::1"])
        .await
        .is(1)
        .says("reserved");
    world
        .run(&["start", "Echo", "--input", "@/no/such/file"])
        .await
        .is(1)
        .says("cannot be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_endpoint_and_a_wrong_key_are_told_in_time() {
    let mut world = World::still().await;
    let good = world.variables.clone();
    world.set("COSMOS_ENDPOINT", dead_address());
    let begun = Instant::now();
    world
        .run(&["status", "i"])
        .await
        .is(1)
        .says("no connection to http://127.0.0.1");
    world
        .run(&["wait", "i", "--timeout", "3600"])
        .await
        .is(1)
        .says("no connection to");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    world.variables = good.clone();
    world.set("COSMOS_KEY", "YW5vdGhlciBrZXk=");
    for command in [&["list"][..], &["start", "Echo"], &["wait", "i"]] {
        let ran = world.run(command).await.is(1).says("refuses the key");
        assert!(!ran.err.contains("YW5vdGhlciBrZXk"), "{ran:?}");
    }
    world.variables = good;
    world.set("COSMOS_CONTAINER", "elsewhere");
    world.run(&["list"]).await.is(1).says("elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_does_not_hold_the_terminal() {
    let mut world = World::still().await;
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.set("COSMOS_ENDPOINT", format!("http://{}", silent.local_addr().unwrap()));
    let begun = Instant::now();
    world.run(&["status", "i"]).await.is(1).says("time limit");
    assert!(
        begun.elapsed() < LONG && begun.elapsed() > Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}
