//! Retention while processes crash and others start what it deletes.

use crate::retention::{AGE, OLD, left, plant, retain, set};
use crate::support::*;
use tests::turns::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn a_run_that_crashes_at_any_write_is_completed_by_the_next() {
    let mut crashes = 0;
    for point in BOTH {
        for n in 1.. {
            let context = format!("{point:?} {n}");
            let fixture = Fixture::new().await;
            plant(&fixture.provider, "root", None, Some("Completed")).await;
            plant(&fixture.provider, "child", Some("root"), Some("Completed")).await;
            plant(&fixture.provider, "alone", None, Some("Failed")).await;
            plant(&fixture.provider, "stays", None, None).await;
            fixture.clock.advance(AGE + AGE);
            let (listener, crashing) = fixture.process().await;
            listener.crash_at_write(n, point);
            until_crash(&listener, crashing.maintain_retention(&OLD, page_of(10))).await;
            fixture.clock.advance(MUCH_LATER);
            let pass = fixture
                .provider
                .maintain_unfinished(page_of(10))
                .await
                .expect("it can be searched");
            assert_eq!(pass.failed, 0, "{context}: {pass:?}");
            let pass = retain(&fixture.provider, &OLD, 10).await;
            assert_eq!(pass.failed, 0, "{context}: {pass:?}");
            assert_eq!(left(&fixture).await, set(&["stays"]), "{context}");
            if !listener.crashed() {
                break;
            }
            crashes += 1;
            assert!(n < 40, "it writes for ever");
        }
    }
    assert!(crashes >= 10, "{crashes} crashes");
}

/// A run has found an old instance; before each of its further requests another run deletes it and a client starts an
/// instance of the same name, which must stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn an_instance_that_was_started_again_under_its_name_is_never_deleted() {
    let mut met = 0;
    for n in 1..60 {
        let fixture = Fixture::new().await;
        plant(&fixture.provider, "again", None, Some("Completed")).await;
        fixture.clock.advance(AGE + AGE);
        let (listener, slow) = fixture.process().await;
        let pause = listener.pause_when(move |log| log.len() == n);
        let run = tokio::spawn(async move { slow.maintain_retention(&OLD, page_of(10)).await });
        if !tests::is_paused(&pause, &run).await {
            break;
        }
        met += 1;
        retain(&fixture.provider, &OLD, 10).await;
        enqueue(&fixture.provider, start_of("again")).await;
        drop(pause);
        run.await.expect("no panic").expect("the other run ends well");
        fixture.clock.advance(MUCH_LATER);
        let repaired = fixture.provider.maintain_unfinished(page_of(10)).await;
        assert_eq!(repaired.expect("it can be searched").failed, 0, "request {n}");
        assert_eq!(fixture.messages_of("again").await, 1, "request {n}: the start is lost");
        fixture.consume("again").await;
    }
    assert!(met > 8, "only {met} requests were met");
}
