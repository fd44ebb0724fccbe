//! Watches the orders until all have finished; approves those that wait for it, and cancels those of customers who change
//! their mind.

use super::orders::PlacedOrder;
use super::{CONCURRENT_CALLS, DemoError};
use crate::cloud::Cloud;
use duroxide::Client;
use duroxide::runtime::OrchestrationStatus;
use futures::{StreamExt as _, TryStreamExt as _};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use workflows::progress::Stage;
use workflows::{APPROVAL, CANCELLATION, Outcome};

/// The pause between two looks at the orders.
const PAUSE: Duration = Duration::from_millis(250);

/// The state of all orders at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since the first order.
    pub elapsed: Duration,
    /// All orders.
    pub orders: usize,
    /// Orders that were shipped.
    pub shipped: usize,
    /// Orders that were refused.
    pub refused: usize,
    /// Orders whose workflow failed.
    pub failed: usize,
    /// Orders that have not finished, by their stage.
    pub stages: BTreeMap<String, usize>,
    /// Function processes killed.
    pub kills: u64,
}

/// The state of one order.
enum State {
    Open { stage: String },
    Shipped,
    Refused(String),
    Failed(String),
}

/// Waits for all orders; returns the outcome of each, in the same order.
pub(super) async fn until_finished(
    client: &Client,
    orders: &[PlacedOrder],
    cloud: &Cloud,
    limit: Duration,
    mut show: impl FnMut(&Progress),
) -> Result<Vec<String>, DemoError> {
    let begun = Instant::now();
    let mut states: Vec<State> = orders.iter().map(|_| placed()).collect();
    let mut answered = BTreeSet::new();
    loop {
        read_open(client, orders, &mut states).await?;
        for (placed, state) in orders.iter().zip(&states) {
            if let State::Open { stage } = state {
                answer(client, placed, stage, &mut answered).await?;
            }
        }
        let mut progress = Progress {
            elapsed: begun.elapsed(),
            orders: orders.len(),
            kills: cloud.status().functions.values().map(|function| function.killed).sum(),
            ..Progress::default()
        };
        progress.count(&states);
        show(&progress);
        if progress.stages.is_empty() {
            return Ok(states.into_iter().map(outcome).collect());
        }
        if begun.elapsed() >= limit {
            let open = orders
                .iter()
                .zip(&states)
                .filter(|(_, state)| matches!(state, State::Open { .. }));
            let orders = open.map(|(placed, _)| placed.order.id.clone()).collect();
            return Err(DemoError::TimedOut { limit, orders });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Progress {
    fn count(&mut self, states: &[State]) {
        for state in states {
            match state {
                State::Open { stage } => *self.stages.entry(stage.clone()).or_default() += 1,
                State::Shipped => self.shipped += 1,
                State::Refused(_) => self.refused += 1,
                State::Failed(_) => self.failed += 1,
            }
        }
    }
}

/// Reads the orders that have not finished.
async fn read_open(client: &Client, orders: &[PlacedOrder], states: &mut [State]) -> Result<(), DemoError> {
    let open: Vec<_> = orders
        .iter()
        .zip(states)
        .filter(|(_, state)| matches!(state, State::Open { .. }))
        .map(|(placed, state)| async move {
            *state = read(client, &placed.order.id).await?;
            Ok(())
        })
        .collect();
    futures::stream::iter(open)
        .buffer_unordered(CONCURRENT_CALLS)
        .try_collect()
        .await
}

async fn read(client: &Client, order: &str) -> Result<State, DemoError> {
    let status = client
        .get_orchestration_status(order)
        .await
        .map_err(DemoError::of(order))?;
    Ok(match status {
        OrchestrationStatus::Completed { output, .. } => finished(&output),
        OrchestrationStatus::Failed { details, .. } => State::Failed(details.display_message()),
        OrchestrationStatus::Running { custom_status, .. } => {
            custom_status.map_or_else(placed, |stage| State::Open { stage })
        }
        OrchestrationStatus::NotFound => placed(),
    })
}

fn placed() -> State {
    State::Open {
        stage: "placed".to_owned(),
    }
}

fn finished(output: &str) -> State {
    match serde_json::from_str(output) {
        Ok(Outcome::Shipped { .. }) => State::Shipped,
        Ok(Outcome::Refused { why, .. }) => {
            let name = serde_json::to_value(why).ok();
            let name = name.as_ref().and_then(|name| name.as_str());
            State::Refused(name.unwrap_or("refused").to_owned())
        }
        Err(error) => State::Failed(format!("its outcome cannot be read: {error}")),
    }
}

fn outcome(state: State) -> String {
    match state {
        State::Shipped => "shipped".to_owned(),
        State::Refused(why) => why,
        State::Failed(why) => format!("failed: {why}"),
        State::Open { stage } => stage,
    }
}

/// Does what people do when an order reaches this stage, once for each order.
async fn answer<'a>(
    client: &Client,
    placed: &'a PlacedOrder,
    stage: &str,
    answered: &mut BTreeSet<&'a str>,
) -> Result<(), DemoError> {
    let id = placed.order.id.as_str();
    let (queue, message) = if stage == Stage::AwaitingApproval.name() {
        (APPROVAL, r#"{"approved": true, "by": "grace"}"#)
    } else if stage == Stage::CoolingOff.name() && placed.cancelled {
        (CANCELLATION, "I have one already")
    } else {
        return Ok(());
    };
    if answered.insert(id) {
        let sent = client.enqueue_event(id, queue, message).await;
        sent.map_err(DemoError::of(id))?;
    }
    Ok(())
}
