//! The code of docs/testing.md: the last test compares the two.

#![allow(missing_docs, reason = "tests")]

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Either2, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::testing::{Crash, Simulation, at_every_crash};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Sends an invoice, waits 30 days for the payment, then sends a reminder.
async fn invoice(ctx: OrchestrationContext, customer: String) -> Result<String, String> {
    let number = ctx.schedule_activity("send-invoice", customer).await?;
    ctx.set_custom_status("waiting for the payment");
    let deadline = ctx.schedule_timer(30 * DAY);
    match ctx.select2(ctx.schedule_wait("paid"), deadline).await {
        Either2::First(amount) => Ok(format!("{number}: {amount} received")),
        Either2::Second(()) => ctx.schedule_activity("send-reminder", number).await,
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder().register("invoice", invoice).build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder().build()
}

/// The workflow with its activities replaced.
fn simulation() -> Simulation {
    Simulation::of(orchestrations(), activities())
        .activity("send-invoice", |customer| Ok(format!("invoice of {customer}")))
        .activity("send-reminder", |number| Ok(format!("reminded of {number}")))
}

#[test]
fn a_paid_invoice_is_not_reminded_of() {
    let ended = simulation()
        .raise_after(10 * DAY, "paid", "42.00")
        .run("invoice", "ada");
    assert_eq!(ended.expect_completed(), "invoice of ada: 42.00 received");
    assert_eq!(ended.inputs_of("send-invoice"), ["ada"]);
    assert_eq!(ended.runs_of("send-reminder"), 0);
}

#[test]
fn a_reminder_is_sent_after_thirty_days() {
    let ended = simulation().run("invoice", "ada");
    assert_eq!(ended.expect_completed(), "reminded of invoice of ada");
    assert_eq!(ended.elapsed(), 30 * DAY);
}

#[test]
fn a_customer_who_pays_on_the_last_day_is_left_alone() {
    let mut simulation = simulation();
    simulation.start("a", "invoice", "ada");
    simulation.advance(29 * DAY);
    let waiting = simulation.instance("a");
    assert_eq!(waiting.custom_status(), Some("waiting for the payment"));
    assert_eq!(waiting.expect_waiting(), ["timer due in 1d", "event paid"]);
    simulation.raise("a", "paid", "42.00");
    simulation.run_to_end("a").expect_completed();
}

#[test]
fn an_invoice_that_cannot_be_sent_fails() {
    let ended = simulation()
        .fail_activity("send-invoice", 1, "the mail server is down")
        .run("invoice", "ada");
    assert_eq!(ended.expect_failed(), "the mail server is down");
}

#[test]
fn a_slow_activity_takes_virtual_time() {
    let ended = simulation()
        .activity_takes("send-invoice", Duration::from_secs(600))
        .run("invoice", "ada");
    assert_eq!(ended.elapsed(), 30 * DAY + Duration::from_secs(600));
}

#[test]
fn an_invoice_may_be_sent_twice_by_a_crash() {
    let ended = simulation()
        .crash(Crash::activity("send-invoice"))
        .run("invoice", "ada");
    ended.expect_completed();
    assert_eq!(ended.inputs_of("send-invoice"), ["ada", "ada"]);
    assert_eq!(ended.activities(), ["send-invoice", "send-reminder"]);
}

#[test]
fn a_crash_at_any_step_does_not_change_the_outcome() {
    at_every_crash(|crash| {
        let ended = simulation().crashes(crash).run("invoice", "ada");
        assert_eq!(ended.expect_completed(), "reminded of invoice of ada");
        ended
    });
}

#[test]
fn the_code_is_deterministic() {
    let ended = simulation().run("invoice", "ada");
    ended.expect_deterministic();
    assert_eq!(ended.activities(), ["send-invoice", "send-reminder"]);
    assert_eq!(ended.timers(), [30 * DAY]);
    println!("{}", ended.history());
}

/// The next release sends a copy first.
async fn invoice_with_copy(ctx: OrchestrationContext, customer: String) -> Result<String, String> {
    ctx.schedule_activity("send-copy", customer.clone()).await?;
    invoice(ctx, customer).await
}

#[test]
fn running_invoices_go_on_as_they_began() {
    let next = OrchestrationRegistry::builder()
        .register_versioned("invoice", "1.0.0", invoice)
        .register_versioned("invoice", "2.0.0", invoice_with_copy)
        .build();
    let mut simulation = simulation().activity("send-copy", |_| Ok(String::new()));
    simulation.start("old", "invoice", "ada");
    simulation.advance(DAY);
    simulation.upgrade(next, activities());
    simulation.start("new", "invoice", "bob");
    assert_eq!(simulation.run_to_end("old").version(), Some("1.0.0"));
    assert_eq!(simulation.run_to_end("new").runs_of("send-copy"), 1);
}

#[test]
fn a_change_in_place_would_block_running_invoices() {
    let changed = OrchestrationRegistry::builder()
        .register("invoice", invoice_with_copy)
        .build();
    let mut simulation = simulation();
    simulation.start("a", "invoice", "ada");
    simulation.advance(DAY);
    simulation.upgrade(changed, activities());
    simulation.raise("a", "paid", "42.00");
    let reason = simulation.run_to_end("a").expect_blocked();
    assert!(reason.contains("does not do what its history says"));
}

#[test]
fn the_document_shows_this_code() {
    let guide = include_str!("../../../docs/testing.md");
    let code = include_str!("kit.rs");
    let mut blocks = 0;
    for block in guide.split("```rust\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default().trim();
        assert!(code.contains(block), "this block is not in kit.rs:\n{block}");
        blocks += 1;
    }
    assert!(blocks >= 8, "{blocks} blocks were compared");
}
