//! Watches the orders until all have finished; approves those that wait for it, and cancels those of customers who change
//! their mind.

use super::orders::{FAILED, PlacedOrder};
use super::{CONCURRENT_CALLS, DemoError};
use crate::cloud::Cloud;
use cosmos::{Clock as _, SystemClock};
use duroxide::Client;
use duroxide::runtime::OrchestrationStatus;
use futures::{StreamExt as _, TryStreamExt as _};
use std::collections::BTreeMap;
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

/// How one order ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// `shipped`, why it was refused, or [`FAILED`].
    pub outcome: String,
    /// The error of an order that has failed.
    pub error: Option<String>,
    /// When the approval or the cancellation was accepted at the latest (Unix ms).
    pub answered_ms: Option<u64>,
}

/// One order under watch.
struct Watched {
    state: State,
    answered_ms: Option<u64>,
}

/// Waits for all orders; returns how each ended, in the same order.
pub(super) async fn until_finished(
    client: &Client,
    orders: &[PlacedOrder],
    cloud: &Cloud,
    limit: Duration,
    mut show: impl FnMut(&Progress),
) -> Result<Vec<Ended>, DemoError> {
    let begun = Instant::now();
    let mut watched: Vec<Watched> = orders.iter().map(|_| Watched::new()).collect();
    loop {
        read_open(client, orders, &mut watched).await?;
        let mut progress = Progress {
            elapsed: begun.elapsed(),
            orders: orders.len(),
            kills: cloud.status().functions.values().map(|function| function.killed).sum(),
            ..Progress::default()
        };
        progress.count(&watched);
        show(&progress);
        if progress.stages.is_empty() {
            return Ok(watched.into_iter().map(Watched::ended).collect());
        }
        if begun.elapsed() >= limit {
            let open = orders
                .iter()
                .zip(&watched)
                .filter(|(_, watched)| matches!(watched.state, State::Open { .. }));
            let orders = open.map(|(placed, _)| placed.order.id.clone()).collect();
            return Err(DemoError::TimedOut { limit, orders });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Progress {
    fn count(&mut self, watched: &[Watched]) {
        for watched in watched {
            match &watched.state {
                State::Open { stage } => *self.stages.entry(stage.clone()).or_default() += 1,
                State::Shipped => self.shipped += 1,
                State::Refused(_) => self.refused += 1,
                State::Failed(_) => self.failed += 1,
            }
        }
    }
}

impl Watched {
    fn new() -> Watched {
        Watched {
            state: placed(),
            answered_ms: None,
        }
    }

    /// Reads the order, and does what people do when it reaches this stage: once, and at once.
    async fn look(&mut self, client: &Client, placed: &PlacedOrder) -> Result<(), DemoError> {
        let id = placed.order.id.as_str();
        self.state = read(client, id).await?;
        let State::Open { stage } = &self.state else {
            return Ok(());
        };
        if let (None, Some((queue, message))) = (self.answered_ms, answer(placed, stage)) {
            let sent = client.enqueue_event(id, queue, message).await;
            sent.map_err(DemoError::of(id))?;
            self.answered_ms = Some(SystemClock.now_ms());
        }
        Ok(())
    }

    fn ended(self) -> Ended {
        let (outcome, error) = match self.state {
            State::Shipped => ("shipped".to_owned(), None),
            State::Refused(why) => (why, None),
            State::Failed(error) => (FAILED.to_owned(), Some(error)),
            State::Open { stage } => (stage, None),
        };
        Ended {
            outcome,
            error,
            answered_ms: self.answered_ms,
        }
    }
}

/// Reads the orders that have not finished.
async fn read_open(client: &Client, orders: &[PlacedOrder], watched: &mut [Watched]) -> Result<(), DemoError> {
    let open: Vec<_> = orders
        .iter()
        .zip(watched)
        .filter(|(_, watched)| matches!(watched.state, State::Open { .. }))
        .map(|(placed, watched)| watched.look(client, placed))
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

/// What people say when an order reaches this stage.
fn answer(placed: &PlacedOrder, stage: &str) -> Option<(&'static str, &'static str)> {
    if stage == Stage::AwaitingApproval.name() {
        Some((APPROVAL, r#"{"approved": true, "by": "grace"}"#))
    } else if stage == Stage::CoolingOff.name() && placed.cancelled {
        Some((CANCELLATION, "I have one already"))
    } else {
        None
    }
}
