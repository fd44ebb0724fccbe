//! The fixture of most tests here: intents that were committed and not delivered; and pages added up.

use cosmos::{Clock, PartitionKey};
use cosmos_emulator::{CrashPoint, Listener, Refusing, RequestKind, RequestRecord, ServerOptions};
use duroxide::providers::{ProviderError, WorkItem};
use duroxide_cosmos::{CosmosConfigBuilder, CosmosProvider, Outbox, PageRequest, PassOutcome};
use futures::StreamExt as _;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::{Decision, commit, enqueue, start_of, started, turn};
pub use tests::until_crash;
use tests::{ManualClock, World, connect};
use tokio::time::Instant;

/// The age from which on maintenance delivers an intent.
pub const OVERDUE: Duration = Duration::from_secs(11);
/// Longer than any retry interval and any lock.
pub const MUCH_LATER: Duration = Duration::from_secs(4_000);
pub const BOTH: [CrashPoint; 2] = [CrashPoint::BeforeApplied, CrashPoint::AfterApplied];
pub const PARTITIONS: u32 = 3;

/// Few attempts, and a cap that is soon reached.
pub fn few_attempts() -> Outbox {
    Outbox {
        base: Duration::from_secs(10),
        cap: Duration::from_secs(40),
        max_attempts: 5,
        patience: Duration::from_secs(5),
    }
}

pub struct Fixture {
    pub world: World,
    pub clock: Arc<ManualClock>,
    /// A healthy process, through the first listener.
    pub provider: Arc<CosmosProvider>,
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::on(PARTITIONS).await
    }

    /// A store of so many physical partitions.
    pub async fn on(partitions: u32) -> Fixture {
        let world = World::local(ServerOptions {
            partitions,
            ..ServerOptions::default()
        })
        .await;
        let clock = Arc::new(ManualClock::default());
        let provider = connect(configured(world.builder(), &clock)).await;
        Fixture { world, clock, provider }
    }

    /// One more process, with a listener of its own.
    pub async fn process(&self) -> (Listener, Arc<CosmosProvider>) {
        let listener = self.world.open_listener().await;
        let config = self.world.builder_through(&listener);
        let provider = connect(configured(config, &self.clock)).await;
        (listener, provider)
    }

    /// Commits the first turn of `source`, which sends these messages to others and reaches none of them.
    pub async fn leave_undelivered(&self, source: &str, messages: Vec<WorkItem>) {
        self.leave_all_undelivered(vec![(source.to_owned(), messages)]).await;
    }

    /// The same of several, some at once.
    pub async fn leave_all_undelivered(&self, sources: Vec<(String, Vec<WorkItem>)>) {
        let (listener, maker) = self.process().await;
        let own: Vec<String> = sources.iter().map(|(source, _)| header(source)).collect();
        listener.refuse_when(move |request| {
            let is_own = request.partition_key.as_ref().is_some_and(|pk| own.contains(pk));
            (is_creation(request) && !is_own).then(|| Refusing::with(403))
        });
        let turns = sources.into_iter().map(|(source, messages)| {
            let maker = &maker;
            async move {
                enqueue(&self.provider, start_of(&source)).await;
                let turn = turn(maker, &source).await;
                let decision = Decision {
                    events: vec![started(&source, 1)],
                    messages,
                    ..Decision::default()
                };
                commit(maker, &turn.lock_token, decision)
                    .await
                    .expect("the commit needs no delivery");
            }
        });
        futures::stream::iter(turns)
            .buffer_unordered(8)
            .collect::<Vec<()>>()
            .await;
    }

    /// The same, of starts of these instances.
    pub async fn leave_starts_undelivered(&self, source: &str, targets: &[&str]) {
        let starts = targets.iter().map(|target| start_of(target)).collect();
        self.leave_undelivered(source, starts).await;
        assert!(self.intents().await.len() >= targets.len(), "the messages are intents");
    }

    pub async fn intents(&self) -> Vec<Value> {
        self.world.documents_of("intent").await
    }

    pub async fn dead_letters(&self) -> Vec<Value> {
        self.world.documents_of("dead-letter").await
    }

    /// How many messages wait for an instance.
    pub async fn messages_of(&self, instance: &str) -> usize {
        let messages = self.world.documents_of("message").await;
        messages.iter().filter(|doc| doc["pk"] == instance).count()
    }

    /// Fails unless exactly one message waits for each of these instances.
    pub async fn assert_one_message_each(&self, targets: &[&str]) {
        let messages = self.world.documents_of("message").await;
        for target in targets {
            let count = messages.iter().filter(|doc| doc["pk"] == *target).count();
            assert_eq!(count, 1, "messages for {target}");
        }
    }

    /// Runs the turn that waits for an instance, if one does.
    pub async fn consume(&self, instance: &str) {
        if self.messages_of(instance).await == 0 {
            return;
        }
        let turn = turn(&self.provider, instance).await;
        let decision = Decision::of(vec![started(instance, 1)]);
        commit(&self.provider, &turn.lock_token, decision)
            .await
            .expect("the turn commits");
    }
}

pub fn configured(config: CosmosConfigBuilder, clock: &Arc<ManualClock>) -> CosmosConfigBuilder {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    config.clock(clock).outbox(few_attempts())
}

/// A partition key as it is sent.
pub fn header(pk: &str) -> String {
    PartitionKey::new(pk).expect("a valid partition key").header()
}

/// Whether a request may be a delivery: of one document, or of a start with its pending instance.
pub fn is_creation(request: &RequestRecord) -> bool {
    matches!(request.kind, RequestKind::Create | RequestKind::Batch)
}

/// Refuses deliveries to these partitions.
pub fn refuse(listener: &Listener, targets: &[&str], how: Refusing) {
    let targets: Vec<String> = targets.iter().map(|target| header(target)).collect();
    listener.refuse_when(move |request: &RequestRecord| {
        let pk = request.partition_key.as_ref()?;
        (is_creation(request) && targets.contains(pk)).then_some(how)
    });
}

/// One page, with enough time.
pub fn page_of(most: u32) -> PageRequest {
    PageRequest {
        most,
        cursor: None,
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

/// All pages of a pass, added up.
pub async fn all_pages<F>(most: u32, mut pass: impl FnMut(PageRequest) -> F) -> PassOutcome
where
    F: Future<Output = Result<PassOutcome, ProviderError>>,
{
    let (mut total, mut cursor) = (PassOutcome::default(), None);
    loop {
        let page = PageRequest {
            cursor,
            ..page_of(most)
        };
        let page = pass(page).await.expect("the store can be searched");
        assert!(
            page.found <= u64::from(most * PARTITIONS),
            "more than asked for: {page:?}"
        );
        total.found += page.found;
        total.done += page.done;
        total.failed += page.failed;
        total.dead += page.dead;
        total.due.extend(page.due);
        cursor = page.cursor;
        if cursor.is_none() {
            return total;
        }
    }
}

/// All pages of the outbox.
pub async fn deliver_all(provider: &CosmosProvider, most: u32) -> PassOutcome {
    all_pages(most, |page| provider.maintain_outbox(page)).await
}

/// All pages of what is unfinished.
pub async fn finish_all(provider: &CosmosProvider, most: u32) -> PassOutcome {
    all_pages(most, |page| provider.maintain_unfinished(page)).await
}

/// What was found, done, failed and given up.
pub fn totals(pass: &PassOutcome) -> (u64, u64, u64, u64) {
    (pass.found, pass.done, pass.failed, pass.dead)
}
