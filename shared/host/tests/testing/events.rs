//! Events, queues and cancellation.

use crate::support::{DAY, of, panic_of};
use duroxide::{Either2, OrchestrationContext};
use std::time::Duration;

async fn approval(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let deadline = ctx.schedule_timer(7 * DAY);
    match ctx.select2(ctx.schedule_wait("approval"), deadline).await {
        Either2::First(answer) => Ok(answer),
        Either2::Second(()) => Err("too late".to_owned()),
    }
}

#[test]
fn an_event_comes_when_it_is_waited_for() {
    let ended = of(approval).raise_when_waiting("approval", "yes").run("flow", "");
    assert_eq!(ended.expect_completed(), "yes");
    assert_eq!(ended.received(), [("approval".to_owned(), "yes".to_owned())]);
    assert_eq!(ended.elapsed(), Duration::ZERO);
}

#[test]
fn an_event_comes_at_its_time() {
    let ended = of(approval).raise_after(3 * DAY, "approval", "yes").run("flow", "");
    assert_eq!((ended.expect_completed().as_str(), ended.elapsed()), ("yes", 3 * DAY));
    let late = of(approval).raise_after(8 * DAY, "approval", "yes").run("flow", "");
    assert_eq!((late.expect_failed().as_str(), late.elapsed()), ("too late", 7 * DAY));
}

#[test]
fn an_event_is_raised_by_hand() {
    let mut simulation = of(approval);
    simulation.start("a", "flow", "");
    simulation.advance(DAY);
    assert_eq!(
        simulation.instance("a").expect_waiting(),
        ["timer due in 6d", "event approval"]
    );
    simulation.raise("a", "approval", "no");
    assert_eq!(simulation.run_to_end("a").expect_completed(), "no");
}

async fn paid_after_sending(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("send", "").await?;
    Ok(ctx.schedule_wait("paid").await)
}

#[test]
fn an_event_that_comes_before_its_wait_is_dropped_and_the_wait_stays() {
    let mut simulation = of(paid_after_sending).activity("send", Ok);
    simulation.start("a", "flow", "");
    simulation.raise("a", "paid", "42");
    let hangs = simulation.run_to_end("a");
    assert_eq!(hangs.expect_waiting(), ["event paid"]);
    assert_eq!(hangs.received(), []);
    let text = panic_of(|| drop(hangs.expect_completed()));
    for said in [
        "it waits for event paid",
        "event paid came, and nobody waited for it: dropped (42)",
    ] {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    simulation.raise("a", "paid", "43");
    let ended = simulation.run_to_end("a");
    assert_eq!(ended.expect_completed(), "43");
    assert_eq!(ended.received(), [("paid".to_owned(), "43".to_owned())]);
}

async fn orders(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let (first, second) = (ctx.dequeue_event("orders").await, ctx.dequeue_event("orders").await);
    Ok(format!("{first}, {second}"))
}

#[test]
fn messages_of_a_queue_keep_their_order_and_wait() {
    let mut simulation = of(orders)
        .enqueue_after(DAY, "orders", "late")
        .enqueue_when_waiting("orders", "early");
    assert_eq!(simulation.run("flow", "").expect_completed(), "early, late");
    let mut simulation = of(orders);
    simulation.start("a", "flow", "");
    simulation.enqueue("a", "orders", "1");
    simulation.enqueue("a", "orders", "2");
    assert_eq!(simulation.run_to_end("a").expect_completed(), "1, 2");
}

#[test]
fn each_scripted_event_serves_one_wait() {
    let ended = of(orders).enqueue_when_waiting("orders", "only one").run("flow", "");
    assert_eq!(ended.expect_waiting(), ["queue orders"]);
}

#[test]
fn an_instance_is_cancelled_at_its_time() {
    let ended = of(approval).cancel_after(DAY, "changed my mind").run("flow", "");
    assert!(ended.expect_failed().contains("changed my mind"));
    assert_eq!(ended.elapsed(), DAY);
    let mut simulation = of(approval);
    simulation.start("a", "flow", "");
    simulation.advance(DAY);
    simulation.cancel("a", "now");
    assert!(simulation.run_to_end("a").expect_failed().contains("now"));
}
