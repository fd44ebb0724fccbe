//! A turn that kills its process, again and again, is blocked for that build.

use crate::support::*;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_kills_its_process_is_blocked_for_that_build() {
    let (cloud, clock, effects) = waiting_order().await;
    let lock = Duration::from_secs(5);
    raise(&cloud, "order", "tuesday").await;
    for _ in 0..3 {
        // A process that fetches the turn, and is gone.
        let fetched = cloud.silent.fetch_turn("order", lock, None).await;
        assert!(matches!(fetched, Ok(duroxide_cosmos::Fetched::Ready(_))), "{fetched:?}");
        clock.advance(lock);
    }
    let overdue = duroxide_lambda::Wakeup::to(duroxide_lambda::Target::Turn {
        instance: "order".to_owned(),
    });
    serve(&cloud.orchestrator, &overdue).await;
    let block = block_of(&cloud, "order").await;
    assert_eq!(block["cause"], "crash");
    assert!(
        block["reason"].as_str().expect("a reason").contains("begun 3 times"),
        "{block}"
    );
    assert_eq!(effects.all().get("Ship"), None, "it was not run again");
    // Nor at the end of the pauses.
    for _ in 0..5 {
        let (again, delay) = only_delayed(&cloud);
        clock.advance(delay);
        serve(&cloud.orchestrator, &again).await;
    }
    assert_eq!(effects.all().get("Ship"), None);
    let counts = cloud.orchestrator.counted();
    assert_eq!((counts.get("BlockedCrash"), counts.get("Committed")), (Some(&6), None));
    cloud.queue.take();
    let other = cloud.another_build(limits("two"), first_build()).await;
    serve(&other, &overdue).await;
    completes(&cloud, "order", "Ship(tuesday)").await;
}
