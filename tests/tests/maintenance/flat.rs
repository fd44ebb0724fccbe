//! What finished instances cost: nothing. An idle maintenance run and an idle sweep send the same requests and examine the same
//! documents, however much is stored.
//!
//! The emulator counts as examined what an index seek would touch, and refuses a query that no index serves.

use crate::function::*;
use crate::support::*;
use cosmos_emulator::ServerOptions;
use duroxide::providers::{Provider, TagFilter};
use duroxide_cosmos::{CosmosProvider, Retention};
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::{Budget, Maintenance, MaintenanceRequest, PassName, Report};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::turns::{LOCK, begin_with, ended};
use tests::{ManualClock, World, connect};

/// Longer than the emulator takes for a run at any size.
const LONG: Duration = Duration::from_secs(2 * 3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// More executions are pruned.
const KEPT: u64 = 3;

/// Requests, and documents that they examined.
type Cost = (u64, u64);

/// What is idle at one size of the store.
#[derive(Debug, PartialEq, Eq)]
struct Idle {
    maintenance: Cost,
    /// A run in which retention and sessions search on their own.
    searches: Cost,
    turns: Cost,
    works: Cost,
    sessions: Cost,
}

/// A store with finished instances, and the processes that find nothing to do in it.
struct Stored {
    world: World,
    clock: Arc<ManualClock>,
    provider: Arc<CosmosProvider>,
    maintenance: Maintenance,
    /// The same, with searches in every run.
    searching: Maintenance,
    /// The documents of one finished instance.
    template: Vec<Value>,
    instances: usize,
}

impl Stored {
    async fn new() -> Stored {
        let world = World::local(ServerOptions {
            partitions: PARTITIONS,
            count_examined: true,
            keep_log: false,
            ..ServerOptions::default()
        })
        .await;
        let clock = Arc::new(ManualClock::default());
        // Each fetch sweeps. The emulator reads everything for each query, whatever the service would read.
        let config = configured(world.builder(), &clock)
            .sweep_interval(Duration::ZERO)
            .operation_timeout(LONG)
            .request_timeout(LONG);
        let provider = connect(config).await;
        let settings = MaintenanceSettings {
            retention: Retention {
                delete_after: Some(30 * DAY),
                keep_executions: Some(KEPT),
            },
            ..MaintenanceSettings::default()
        };
        let often = MaintenanceSettings {
            search_interval: PERIOD,
            ..settings.clone()
        };
        let (searching, _) = maintenance(&provider, &clock, often);
        let (maintenance, _) = maintenance(&provider, &clock, settings);
        let template = finished(&world, &provider).await;
        let stored = Stored {
            world,
            clock,
            provider,
            maintenance,
            searching,
            template,
            instances: 1,
        };
        // The first run writes its state, and the first fetch examines what this process has queued.
        run(&stored.maintenance).await;
        stored.idle().await;
        stored
    }

    /// Adds finished instances until there are so many. Each third one is a child, each third one was pruned.
    async fn grow(&mut self, instances: usize) {
        let template = &self.template;
        let copies = (self.instances..instances).flat_map(|n| {
            let pk = format!("finished-{n}");
            let receipt = json!({ "id": "m:receipt", "pk": pk, "type": "receipt", "ttl": 3_600 });
            let receipt = Some(receipt).filter(|_| n % 3 == 1);
            let documents = template.iter().map(move |document| {
                let mut copy = document.clone();
                copy["pk"] = json!(format!("finished-{n}"));
                if copy["type"] == "instance" && n % 3 == 1 {
                    copy["parent"] = json!("finished-0");
                } else if copy["type"] == "instance" && n % 3 == 2 {
                    copy["execution"] = json!(20_000);
                    copy["executions"] = json!(KEPT);
                }
                copy
            });
            documents.chain(receipt)
        });
        let (db, container) = self.world.names();
        let loaded = self.world.server().load(db, container, copies).await;
        loaded.expect("the documents are written");
        self.instances = instances;
    }

    async fn idle(&self) -> Idle {
        let pages = |report: &Report| report.passes[&PassName::Retention].pages;
        self.clock.advance(PERIOD);
        let run = self.searching.run(MaintenanceRequest::default(), Budget::of(LONG));
        let searches = self.cost(run).await;
        assert_complete(&searches.0);
        assert!(pages(&searches.0) > 0, "{:#?}", searches.0);
        self.clock.advance(PERIOD);
        let run = self.maintenance.run(MaintenanceRequest::default(), Budget::of(LONG));
        let maintenance = self.cost(run).await;
        assert_complete(&maintenance.0);
        assert_eq!(pages(&maintenance.0), 0, "{:#?}", maintenance.0);
        let turns = self.provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
        let turns = self.cost(turns).await;
        assert!(turns.0.expect("the fetch succeeds").is_none());
        let filter = TagFilter::tags(["gpu"]);
        let works = self.provider.fetch_work_item(LOCK, Duration::ZERO, None, &filter);
        let works = self.cost(works).await;
        assert!(works.0.expect("the fetch succeeds").is_none());
        let sessions = self.provider.renew_session_lock(&["somebody"], LOCK, DAY);
        let sessions = self.cost(sessions).await;
        assert_eq!(sessions.0.expect("the renewal succeeds"), 0);
        Idle {
            maintenance: maintenance.1,
            searches: searches.1,
            turns: turns.1,
            works: works.1,
            sessions: sessions.1,
        }
    }

    async fn cost<T>(&self, what: impl Future<Output = T>) -> (T, Cost) {
        self.world.listener().reset();
        let result = what.await;
        let counts = self.world.listener().counts();
        (result, (counts.requests, counts.examined))
    }
}

/// The documents of an instance that has ended with its first turn.
async fn finished(world: &World, provider: &CosmosProvider) -> Vec<Value> {
    begin_with(provider, "finished-0", 0, ended("Completed", "done")).await;
    let mut documents = world.documents().await;
    for document in &mut documents {
        let fields = document.as_object_mut().expect("a document is an object");
        fields.retain(|field, _| !field.starts_with('_'));
    }
    let kinds: Vec<&Value> = documents.iter().map(|document| &document["type"]).collect();
    assert!(kinds.contains(&&json!("instance")), "{kinds:?}");
    documents
}

async fn measure(sizes: &[usize]) -> Vec<Idle> {
    let mut stored = Stored::new().await;
    let mut costs = Vec::new();
    for &size in sizes {
        let begun = Instant::now();
        stored.grow(size).await;
        let idle = stored.idle().await;
        println!(
            "{size} finished instances, {:?}: {idle:?} (requests, examined)",
            begun.elapsed()
        );
        costs.push(idle);
    }
    costs
}

#[track_caller]
fn assert_flat(costs: &[Idle]) {
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:#?}");
    // A run examines nothing of what has ended.
    let examined = costs[0].maintenance.1 + costs[0].searches.1 + costs[0].turns.1 + costs[0].works.1;
    assert_eq!(examined, 0, "{costs:#?}");
    assert_eq!(costs[0].maintenance.0, 3 * u64::from(PARTITIONS) + 2, "{costs:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_run_and_an_idle_sweep_examine_the_same_with_50_and_500_finished_instances() {
    assert_flat(&measure(&[50, 500]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 10,000 finished instances; FLAT_INSTANCES sets another number"]
async fn an_idle_run_and_an_idle_sweep_examine_the_same_with_10_000_finished_instances() {
    let most = std::env::var("FLAT_INSTANCES").map_or(10_000, |count| count.parse().expect("a number"));
    assert_flat(&measure(&[1_000, most]).await);
}
