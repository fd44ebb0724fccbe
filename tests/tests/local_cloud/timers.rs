//! Exact timers on the local cloud: the real functions, SQS with its whole seconds, processes that die.

use crate::support::*;
use anyhow::{Result, ensure};
use duroxide::{Client, Event, EventKind};
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use local_cloud::{Cloud, CloudOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workflows::FULFIL_ORDER;

/// A cloud with so many environments of each function, whose maintenance does not run.
async fn cloud(concurrency: usize) -> Result<(Cloud, Connection)> {
    let mut options = CloudOptions::of(Binaries::built().await?.functions);
    options.concurrency = concurrency;
    options.schedule = Duration::from_secs(3_600);
    (options.timeout, options.visibility) = (Duration::from_secs(10), Duration::from_secs(12));
    let cloud = Cloud::start(options).await?;
    let variables = cloud.variables().clone();
    let get = |name: &str| variables.get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    let connection = Connection::new(config.cosmos_config(), notifier, config.limits).await?;
    Ok((cloud, connection))
}

/// Starts an order that waits for so many ms, and whose carrier answers at the third attempt, after 100 and 200 ms.
async fn place(client: &Client, id: &str, cooling_off_ms: u64) -> Result<()> {
    let order = format!(
        r#"{{"id": "{id}", "customer": "ada", "total_cents": 4200, "cooling_off_ms": {cooling_off_ms},
            "lines": [{{"sku": "teapot", "quantity": 1}}], "parcels": [{{"address": "flaky"}}], "retry_delay_ms": 100}}"#
    );
    client.start_orchestration(id, FULFIL_ORDER, order).await?;
    Ok(())
}

async fn expect_shipped(client: &Client, id: &str) -> Result<()> {
    let status = client.wait_for_orchestration(id, PATIENCE).await?;
    let status = format!("{status:?}");
    ensure!(
        status.starts_with("Completed") && status.contains("shipped"),
        "{id}: {status}"
    );
    Ok(())
}

async fn history(client: &Client, instance: &str) -> Result<Vec<Event>> {
    Ok(client.read_execution_history(instance, 1).await?)
}

/// How late each timer of a history fired, in ms.
fn lateness(history: &[Event]) -> Result<Vec<u64>> {
    let mut late = Vec::new();
    for event in history {
        if let EventKind::TimerFired { fire_at_ms } = event.kind {
            ensure!(event.timestamp_ms >= fire_at_ms, "before its time: {event:?}");
            late.push(event.timestamp_ms - fire_at_ms);
        }
    }
    Ok(late)
}

/// Runs these orders at once, and answers the length and the lateness of their timers and of those of their retries.
async fn run(client: &Client, name: &str, lengths: &[u64]) -> Result<Vec<(u64, u64)>> {
    let ids: Vec<String> = (0..lengths.len()).map(|n| format!("{name}-{n}")).collect();
    for (id, length) in ids.iter().zip(lengths) {
        place(client, id, *length).await?;
    }
    let mut late = Vec::new();
    for (id, length) in ids.iter().zip(lengths) {
        expect_shipped(client, id).await?;
        let waited = lateness(&history(client, id).await?)?;
        let retried = lateness(&history(client, &format!("{id}::sub::parcel-1")).await?)?;
        ensure!((waited.len(), retried.len()) == (1, 2), "{id}: {waited:?}, {retried:?}");
        late.extend([*length, 100, 200].into_iter().zip([waited, retried].concat()));
    }
    Ok(late)
}

fn median_and_most(mut late: Vec<u64>) -> (u64, u64) {
    late.sort_unstable();
    (late[late.len() / 2], late[late.len() - 1])
}

/// Prints the figures of `docs/benchmarks.md`. Rounded to whole seconds, the short ones would be late by 800 ms and more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: measures timers in real time"]
async fn timers_of_any_length_are_late_by_much_less_than_a_second() -> Result<()> {
    const LENGTHS: [u64; 6] = [100, 200, 999, 1_000, 1_500, 5_000];
    let (cloud, connection) = cloud(10).await?;
    let client = connection.client();
    // The first ones pay for cold starts.
    run(client, "cold", &LENGTHS).await?;
    let mut by_length: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut all = Vec::new();
    for round in 0..8 {
        for (length, late) in run(client, &format!("round-{round}"), &LENGTHS).await? {
            by_length.entry(length).or_default().push(late);
            all.push(late);
        }
    }
    for (length, late) in by_length {
        let timers = late.len();
        let (median, most) = median_and_most(late);
        println!("{length} ms: {timers} timers, late by {median} ms (median), {most} ms (at most)");
    }
    let (median, most) = median_and_most(all);
    println!("all: late by {median} ms (median), {most} ms (at most)");
    let status = cloud.status();
    println!("orchestrator: {:?}", status.functions["orchestrator"].counts);
    ensure!(median < 400, "as late as with wakeups at whole seconds: {median} ms");
    cloud.shutdown().await?;
    Ok(())
}

/// More timers than the functions can wait for at once: they are late, and nothing is lost or stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: measures timers in real time"]
async fn many_timers_and_few_functions_are_late_and_not_lost() -> Result<()> {
    let (cloud, connection) = cloud(2).await?;
    let client = connection.client();
    run(client, "cold", &[100]).await?;
    let lengths: Vec<u64> = (0..60).map(|n| 300 + 37 * n).collect();
    let begun = Instant::now();
    let late: Vec<u64> = run(client, "many", &lengths)
        .await?
        .into_iter()
        .map(|(_, late)| late)
        .collect();
    let timers = late.len();
    let (median, most) = median_and_most(late);
    println!(
        "{timers} timers, 2 functions, {:?}: late by {median} ms (median), {most} ms (at most)",
        begun.elapsed()
    );
    cloud.shutdown().await?;
    Ok(())
}

/// Its records were not deleted: SQS delivers them again after the visibility timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for the visibility timeout in real time"]
async fn a_function_that_is_killed_while_it_waits_for_a_timer_loses_nothing() -> Result<()> {
    let (cloud, connection) = cloud(4).await?;
    let client = connection.client();
    let limit = Instant::now() + PATIENCE;
    for attempt in 0.. {
        ensure!(Instant::now() < limit, "no function was found waiting");
        let id = format!("order-{attempt}");
        place(client, &id, 900).await?;
        let is_waiting = |event: &Event| matches!(event.kind, EventKind::TimerCreated { .. });
        while !history(client, &id).await?.iter().any(is_waiting) {
            ensure!(Instant::now() < limit, "there is no timer");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The turn that made the timer has ended after this, and the next invocation waits.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let status = cloud.status();
        let environments = &status.functions["orchestrator"].environments;
        let busy: Vec<u32> = environments.iter().filter(|one| one.busy).map(|one| one.pid).collect();
        for pid in &busy {
            signal(*pid, "KILL")?;
        }
        let fired = lateness(&history(client, &id).await?)?;
        expect_shipped(client, &id).await?;
        // On a machine that stalls it may have fired before.
        if busy.is_empty() || !fired.is_empty() {
            continue;
        }
        let late = lateness(&history(client, &id).await?)?;
        println!("killed {busy:?}; late, in ms: {late:?}");
        ensure!(late.iter().any(|late| *late > 1_000), "nobody died: {late:?}");
        break;
    }
    cloud.shutdown().await?;
    Ok(())
}
