//! Blocked instances cost next to nothing.

use crate::support::*;
use tests::cost::cost_of;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_takes_two_requests_and_one_wakeup_and_a_wakeup_during_the_pause_one_request() {
    let (cloud, clock, _) = waiting_order().await;
    let careless = cloud.another_build(limits("two"), careless_build()).await;
    let wakeup = raise(&cloud, "order", "tuesday").await;
    let mut pauses = Vec::new();
    let mut next = wakeup.clone();
    for _ in 0..12 {
        let ((), cost) = cost_of(&careless.listener, serve(&careless, &next)).await;
        assert!(cost.counts.requests <= 2, "{:?}", cost.kinds);
        let (again, delay) = only_delayed(&cloud);
        let ((), cost) = cost_of(&careless.listener, serve(&careless, &wakeup)).await;
        assert_eq!(cost.counts.requests, 1, "{:?}", cost.kinds);
        assert!(cloud.queue.take().is_empty(), "the pause has its wakeup");
        pauses.push(delay.as_millis().div_ceil(1000));
        clock.advance(delay);
        next = again;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}
