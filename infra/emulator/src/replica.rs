//! The lagging region: which past state of the write region a stale read sees.
//!
//! Two replicas alternate. One serves reads while the other, updated from the write region in one step, waits until its state is
//! at least [`Lag::min`] old; then they change roles. So a stale read always sees the state of one moment in the past: no earlier
//! write is missing, no later one shows, and a batch shows as a whole or not at all. Time never runs backwards between two
//! stale reads; [`Faults::fresh`](crate::Faults::fresh) adds that.
//!
//! Writes and stale reads share the `gate`; an update has it exclusively, which makes it atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, RwLock, RwLockReadGuard};
use tokio::task::JoinHandle;

use crate::emulator::{Emulator, REPLICAS, Region};
use crate::options::Lag;

/// The lagging side of an account.
pub(crate) struct Replicas {
    inner: Arc<Inner>,
    schedule: JoinHandle<()>,
}

struct Inner {
    emulator: Arc<Emulator>,
    gate: RwLock<()>,
    /// A split moves documents in all regions: no update may run meanwhile.
    topology: Mutex<()>,
    serving: AtomicUsize,
}

impl Replicas {
    pub(crate) fn start(emulator: Arc<Emulator>, lag: Lag) -> Self {
        let inner = Arc::new(Inner {
            emulator,
            gate: RwLock::new(()),
            topology: Mutex::new(()),
            serving: AtomicUsize::new(0),
        });
        let schedule = tokio::spawn(follow(Arc::clone(&inner), lag));
        Self { inner, schedule }
    }

    /// Keeps the replicas unchanged while a write or a stale read is in progress.
    pub(crate) async fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.inner.gate.read().await
    }

    /// The region that stale reads go to; call it after [`enter`](Self::enter).
    pub(crate) fn serving(&self) -> Region {
        Region::Replica(self.inner.serving.load(Ordering::SeqCst))
    }

    /// Brings all replicas up to date.
    pub(crate) async fn catch_up(&self) {
        for replica in 0..REPLICAS {
            self.inner.catch_up(replica).await;
        }
    }

    /// Splits a partition in all regions.
    ///
    /// The emulator numbers the writes of the new partitions from the state of *some* region, the service from that of the write
    /// region. So no region may be behind at that moment, or consistency tokens of the old partition could never be satisfied.
    pub(crate) async fn split(&self, db: &str, container: &str, partition_id: u32) {
        let _topology = self.inner.topology.lock().await;
        let _alone = self.inner.gate.write().await;
        (0..REPLICAS).for_each(|replica| self.inner.emulator.catch_up(replica));
        self.inner.emulator.split(db, container, partition_id).await;
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.schedule.abort();
    }
}

impl Inner {
    async fn catch_up(&self, replica: usize) {
        let _topology = self.topology.lock().await;
        let _alone = self.gate.write().await;
        self.emulator.catch_up(replica);
    }
}

async fn follow(inner: Arc<Inner>, lag: Lag) {
    let mut rng = fastrand::Rng::with_seed(lag.seed);
    let slack = lag.max.saturating_sub(lag.min.saturating_mul(2));
    loop {
        let next = (inner.serving.load(Ordering::SeqCst) + 1) % REPLICAS;
        inner.catch_up(next).await;
        tokio::time::sleep(lag.min).await;
        inner.serving.store(next, Ordering::SeqCst);
        // A loop without a pause would keep one core busy.
        let pause = slack.mul_f64(rng.f64()).max(Duration::from_millis(1));
        tokio::time::sleep(pause).await;
    }
}
