//! Watches the orders until all are over: approves those that wait for it, cancels those whose customer thinks again.

use super::AT_ONCE;
use super::orders::Placed;
use super::progress::{Moment, Progress};
use crate::cloud::Cloud;
use anyhow::bail;
use duroxide::Client;
use duroxide::runtime::OrchestrationStatus;
use futures::StreamExt as _;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use workflows::progress::Stage;
use workflows::{APPROVAL, CANCELLATION, Outcome};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Where an order is.
enum State {
    Open(String),
    Over(String),
}

/// Answers the outcome of each order, in their sequence.
pub(super) async fn until_over(
    client: &Client,
    orders: &[Placed],
    cloud: &Cloud,
    limit: Duration,
) -> anyhow::Result<Vec<String>> {
    let begun = Instant::now();
    let mut progress = Progress::of_stdout();
    let mut outcomes: Vec<Option<String>> = vec![None; orders.len()];
    let mut told = BTreeSet::new();
    loop {
        let open: Vec<usize> = (0..orders.len()).filter(|index| outcomes[*index].is_none()).collect();
        let looks: Vec<_> = open
            .iter()
            .map(|index| async move { (*index, state(client, &orders[*index]).await) })
            .collect();
        let states: Vec<_> = futures::stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
        let mut moment = Moment {
            elapsed: begun.elapsed(),
            orders: orders.len(),
            kills: killed(cloud),
            ..Moment::default()
        };
        for (index, state) in states {
            match state? {
                State::Over(outcome) => outcomes[index] = Some(outcome),
                State::Open(stage) => {
                    answer(client, &orders[index], &stage, &mut told).await?;
                    *moment.stages.entry(stage).or_default() += 1;
                }
            }
        }
        for outcome in outcomes.iter().flatten() {
            match outcome.as_str() {
                "shipped" => moment.shipped += 1,
                failed if failed.starts_with("failed") => moment.failed += 1,
                _ => moment.refused += 1,
            }
        }
        progress.show(&moment);
        let missing: Vec<&str> = outcomes
            .iter()
            .zip(orders)
            .filter(|(outcome, _)| outcome.is_none())
            .map(|(_, placed)| placed.order.id.as_str())
            .collect();
        if missing.is_empty() {
            progress.clear();
            return Ok(outcomes.into_iter().flatten().collect());
        }
        if begun.elapsed() >= limit {
            progress.clear();
            bail!(
                "these orders are not over after {} s: {}",
                limit.as_secs(),
                missing.join(", ")
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn state(client: &Client, placed: &Placed) -> anyhow::Result<State> {
    let status = client.get_orchestration_status(&placed.order.id).await?;
    Ok(match status {
        OrchestrationStatus::Completed { output, .. } => State::Over(outcome_of(&output)),
        OrchestrationStatus::Failed { details, .. } => State::Over(format!("failed: {}", details.display_message())),
        OrchestrationStatus::Running { custom_status, .. } => {
            State::Open(custom_status.unwrap_or_else(|| "placed".to_owned()))
        }
        OrchestrationStatus::NotFound => State::Open("placed".to_owned()),
    })
}

fn outcome_of(output: &str) -> String {
    match serde_json::from_str(output) {
        Ok(Outcome::Shipped { .. }) => "shipped".to_owned(),
        Ok(Outcome::Refused { why, .. }) => {
            let name = serde_json::to_value(why).ok();
            let name = name.as_ref().and_then(|name| name.as_str());
            name.unwrap_or("refused").to_owned()
        }
        Err(error) => format!("failed: its outcome cannot be read: {error}"),
    }
}

/// What people do when an order has come to this stage: once for each order.
async fn answer<'a>(
    client: &Client,
    placed: &'a Placed,
    stage: &str,
    told: &mut BTreeSet<&'a str>,
) -> anyhow::Result<()> {
    let id = placed.order.id.as_str();
    let (queue, message) = if stage == Stage::AwaitingApproval.name() {
        (APPROVAL, r#"{"approved": true, "by": "grace"}"#)
    } else if stage == Stage::CoolingOff.name() && placed.cancelled {
        (CANCELLATION, "I have one already")
    } else {
        return Ok(());
    };
    if told.insert(id) {
        client.enqueue_event(id, queue, message).await?;
    }
    Ok(())
}

fn killed(cloud: &Cloud) -> u64 {
    cloud.status().functions.values().map(|function| function.killed).sum()
}
