//! Each way in which an activity of an order can fail or be given up, on the functions: the saga undoes what was done.
//!
//! The activity has its effect before it goes wrong, where it runs at all: so that there is something to undo of which nobody
//! has heard.

use crate::site::{order, to};
use duroxide::providers::TagFilter;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_cosmos::Fetched;
use duroxide_lambda::{ActivityLimits, Limits, Target, Wakeup};
use futures::{StreamExt as _, stream};
use std::sync::Arc;
use std::time::Duration;
use tests::ShiftedClock;
use tests::cloud::{Cloud, CloudOptions, Function};
use workflows::ledger::Ledger;
use workflows::{
    CHARGE_CARD, FULFIL_ORDER, Order, Outcome, PICK_UP_PARCEL, REFUND_CARD, RESERVE_STOCK, SHIP_PARCEL, Why,
};

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const ATTEMPTS: u32 = 2;

/// What goes wrong, each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Error,
    Panic,
    HugeResult,
    Hang,
    ProcessDies,
    UnknownForDays,
}

impl Cause {
    const ALL: [Cause; 6] = [
        Cause::Error,
        Cause::Panic,
        Cause::HugeResult,
        Cause::Hang,
        Cause::ProcessDies,
        Cause::UnknownForDays,
    ];
    /// What an order says of it that gets no answer.
    fn reason(self) -> &'static str {
        match self {
            Cause::Error => "no answer",
            Cause::Panic => "panicked: a bug",
            Cause::HugeResult => "over the limit",
            Cause::Hang => "timed out once",
            Cause::ProcessDies => "killed its process 2 times",
            Cause::UnknownForDays => "nobody did within 7 days",
        }
    }
}

/// The activities of the shop, of which one goes wrong.
fn activities(ledger: &Ledger, victim: &'static str, cause: Cause) -> ActivityRegistry {
    let sound = workflows::activities_on(ledger.clone());
    let mut all = ActivityRegistry::builder();
    for name in sound.list_names() {
        let Some((_, handler)) = sound.resolve_handler(&name) else {
            continue;
        };
        let is_victim = name == victim;
        if is_victim && cause == Cause::UnknownForDays {
            continue;
        }
        all = all.register(name, move |ctx: ActivityContext, input: String| {
            let handler = Arc::clone(&handler);
            async move {
                let done = handler.invoke(ctx, input).await?;
                match cause {
                    Cause::Error if is_victim => Err("no answer".to_owned()),
                    Cause::Panic if is_victim => panic!("a bug"),
                    Cause::HugeResult if is_victim => Ok("x".repeat(3_000_000)),
                    Cause::Hang if is_victim => std::future::pending().await,
                    _ => Ok(done),
                }
            }
        });
    }
    all.build()
}

/// The orchestrations of the sample, without one of them.
fn orchestrations(without: Option<&str>) -> OrchestrationRegistry {
    let sound = workflows::orchestrations();
    let mut all = OrchestrationRegistry::builder();
    for name in sound.list_names() {
        let handler = sound.resolve_handler(&name);
        let Some((_, handler)) = handler.filter(|_| Some(name.as_str()) != without) else {
            continue;
        };
        all = all.register(name, move |ctx: OrchestrationContext, input: String| {
            let handler = Arc::clone(&handler);
            async move { handler.invoke(ctx, input).await }
        });
    }
    all.build()
}

/// One order on the functions.
struct Shopfront {
    cloud: Cloud,
    clock: Arc<ShiftedClock>,
    victim: &'static str,
    cause: Cause,
}

impl Shopfront {
    async fn open(ledger: &Ledger, victim: &'static str, cause: Cause) -> Shopfront {
        let clock = Arc::new(ShiftedClock::default());
        let late = ActivityLimits::default()
            .attempts(victim, 1)
            .time(victim, Duration::from_secs(1));
        let options = CloudOptions {
            limits: Limits {
                max_attempts: ATTEMPTS,
                cancel_grace: Duration::from_millis(100),
                activities: match cause {
                    Cause::Hang => late,
                    _ => ActivityLimits::default(),
                },
                ..Limits::default()
            },
            clock: Arc::clone(&clock) as Arc<dyn cosmos::Clock>,
            ..CloudOptions::default()
        };
        let without = Some(victim).filter(|_| cause == Cause::UnknownForDays);
        let cloud = Cloud::with(options, orchestrations(without), activities(ledger, victim, cause)).await;
        Shopfront {
            cloud,
            clock,
            victim,
            cause,
        }
    }

    /// Has an order fulfilled, as far as it goes.
    async fn fulfil(&self, order: &Order) -> OrchestrationStatus {
        let started = self
            .cloud
            .client
            .start_orchestration_typed(&order.id, FULFIL_ORDER, order);
        started.await.expect("the order is taken");
        for _ in 0..200 {
            let sent = self.cloud.queue.take();
            if sent.is_empty() {
                let status = self.cloud.client.get_orchestration_status(&order.id).await;
                return status.expect("a status");
            }
            for sent in sent {
                self.serve(sent.wakeup, sent.delay).await;
            }
        }
        panic!("wakeups go on for ever");
    }

    async fn serve(&self, wakeup: Wakeup, delay: Duration) {
        // What is blocked is tried again after a pause: nobody registers it for a week.
        let is_paused = delay > Duration::ZERO && self.cause == Cause::UnknownForDays && self.is_victim(&wakeup);
        self.clock.advance(if is_paused { WEEK } else { delay });
        match &wakeup.target {
            Target::Turn { .. } | Target::Batch { .. } => served(&self.cloud.orchestrator, &wakeup).await,
            Target::Work(work) if self.cause == Cause::ProcessDies && self.is_victim(&wakeup) => {
                let (lock, tags) = (Duration::from_secs(60), TagFilter::DefaultOnly);
                for _ in 0..ATTEMPTS {
                    let fetched = self
                        .cloud
                        .silent
                        .fetch_work(&work.identifier(), lock, None, &tags)
                        .await;
                    assert!(matches!(fetched, Ok(Fetched::Ready(_))), "{fetched:?}");
                    self.clock.advance(lock);
                }
                served(&self.cloud.worker, &Wakeup::to(wakeup.target.without_version())).await;
            }
            Target::Work(_) => served(&self.cloud.worker, &wakeup).await,
        }
    }

    fn is_victim(&self, wakeup: &Wakeup) -> bool {
        match wakeup.target.activity_name() {
            Some(name) => name == self.victim,
            None => self.victim == SHIP_PARCEL && wakeup.target.instance() != "a",
        }
    }
}

async fn served(function: &Function, wakeup: &Wakeup) {
    let response = function.invoke(std::slice::from_ref(wakeup)).await;
    assert!(response.batch_item_failures.is_empty(), "{wakeup:?}: {response:?}");
}

/// An order whose activity `victim` goes wrong: it is refused, and all that happened is undone.
async fn check(victim: &'static str, cause: Cause, undone: &[&str]) {
    let ledger = Ledger::default();
    let shop = Shopfront::open(&ledger, victim, cause).await;
    let OrchestrationStatus::Completed { output, .. } = shop.fulfil(&order("a")).await else {
        panic!("{victim}, {cause:?}: the order has ended");
    };
    match serde_json::from_str(&output).expect("an outcome") {
        Outcome::Refused {
            why,
            reason,
            undone: by,
            ..
        } => {
            assert_eq!(
                (why, by),
                (Why::NoAnswer, undone.iter().map(|name| (*name).to_owned()).collect())
            );
            assert!(reason.contains(cause.reason()), "{victim}, {cause:?}: {reason}");
        }
        other => panic!("{victim}, {cause:?}: {other:?}"),
    }
    let parcel = "a::sub::parcel-1/pick-up";
    for (done, undone, key) in [
        ("reserve", "release", "a/reserve"),
        ("charge", "refund", "a/charge"),
        ("pick-up", "recall", parcel),
    ] {
        let count = |effect: &str| ledger.count(&format!("{effect} {key}"));
        assert!(count(done) <= 1, "{victim}, {cause:?}: {:?}", ledger.effects());
        assert_eq!(
            count(done),
            count(undone),
            "{victim}, {cause:?}: {:?}",
            ledger.effects()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_undone_whatever_befalls_its_activities() {
    let steps: [(&str, &[&str]); 3] = [
        (RESERVE_STOCK, &["refund-card", "release-stock"]),
        (CHARGE_CARD, &["refund-card", "release-stock"]),
        (PICK_UP_PARCEL, &["recall-parcel", "refund-card", "release-stock"]),
    ];
    let rows = steps
        .into_iter()
        .flat_map(|(victim, undone)| Cause::ALL.map(|cause| (victim, cause, undone)));
    let all: Vec<_> = rows
        .map(|(victim, cause, undone)| check(victim, cause, undone))
        .collect();
    stream::iter(all).buffer_unordered(6).collect::<()>().await;
}

/// The child itself is given up, not an activity of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_undone_when_nobody_registers_its_child() {
    let undone = ["recall-parcel", "refund-card", "release-stock"];
    check(SHIP_PARCEL, Cause::UnknownForDays, &undone).await;
}

/// What cannot be undone is named, and the rest is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compensation_that_is_given_up_is_left_to_a_person() {
    for cause in [Cause::Panic, Cause::ProcessDies] {
        let ledger = Ledger::default();
        let shop = Shopfront::open(&ledger, REFUND_CARD, cause).await;
        let unshippable = Order {
            parcels: vec![to("nowhere")],
            ..order("a")
        };
        let OrchestrationStatus::Failed { details, .. } = shop.fulfil(&unshippable).await else {
            panic!("{cause:?}: the order has failed");
        };
        let error = details.display_message();
        assert!(
            error.contains("Do by hand: refund 4200 cents") && error.contains(cause.reason()),
            "{cause:?}: {error}"
        );
        assert_eq!(
            ledger.count("release a/reserve"),
            1,
            "{cause:?}: {:?}",
            ledger.effects()
        );
    }
}
