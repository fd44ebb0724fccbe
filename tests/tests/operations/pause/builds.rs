//! Releases that do not know what a paused instance is: they leave it alone, and go on with everything else.

use super::support::*;
use duroxide_cosmos::testing::build_without_pause;
use duroxide_cosmos::{Fetched, PauseOutcome};
use tests::turns::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_release_runs_nothing_of_a_paused_instance_and_goes_on_after_it_is_resumed() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, 2, named()).await;
    begin_with(&scene.provider, "other", 1, named()).await;
    let running = build_without_pause(work(&scene.provider, INSTANCE, 3)).await;
    assert_eq!(scene.pause().await, PauseOutcome::Changed);
    build_without_pause(async {
        enqueue(&scene.provider, raised(INSTANCE, "1")).await;
        let turn = fetch_turn(&scene.provider, INSTANCE).await;
        assert!(matches!(turn, Fetched::Foreign { .. }), "{turn:?}");
        let item = fetch_work(&scene.provider, 2).await;
        assert!(matches!(item, Fetched::Foreign { .. }), "{item:?}");
        let others = work(&scene.provider, "other", 2).await;
        let completed =
            duroxide::providers::Provider::ack_work_item(&*scene.provider, &others.lock_token, Some(done("other", 2)));
        completed.await.expect("everything else goes on");
    })
    .await;
    scene.assert_held("its message is kept").await;
    drop(running);
    assert_eq!(scene.resume().await, PauseOutcome::Changed);
    scene.assert_consistent(false, "resumed").await;
    let turn = build_without_pause(turn(&scene.provider, INSTANCE)).await;
    assert_eq!(events_of(&turn.item.messages), ["1"]);
    build_without_pause(work(&scene.provider, INSTANCE, 2)).await;
}
