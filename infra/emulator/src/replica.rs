//! The schedule by which reads without freshness follow the write region.
//!
//! Two replicas take turns. One is read while the other, having caught up to the write region in one step, waits
//! until its picture is at least [`Lag::min`] old; then it takes over. So a stale read always sees the state of
//! one single moment in the past: no write before it is missing, none after it shows, and a batch shows whole or
//! not at all. Time never runs backwards between two stale reads (see
//! [`Faults::fresh`](crate::Faults::fresh) for that).
//!
//! Writes and stale reads share the `gate`; catching up has it alone, which is what makes the step a step.

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
    /// A split moves documents about in all regions: no catching up meanwhile.
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

    /// Holds the replicas still while a write or a stale read is under way.
    pub(crate) async fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.inner.gate.read().await
    }

    /// The region that stale reads go to; ask for it with the gate held.
    pub(crate) fn serving(&self) -> Region {
        Region::Replica(self.inner.serving.load(Ordering::SeqCst))
    }

    /// Brings all replicas up to now.
    pub(crate) async fn catch_up(&self) {
        for replica in 0..REPLICAS {
            self.inner.catch_up(replica).await;
        }
    }

    /// Splits a partition in all regions.
    ///
    /// The emulator numbers the children's writes from where *some* region stands, the service from where the write
    /// region stands: so no region may be behind at that moment, or the sessions of the parent could never be met.
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
        // A schedule without any pause would keep one core busy for nothing.
        let pause = slack.mul_f64(rng.f64()).max(Duration::from_millis(1));
        tokio::time::sleep(pause).await;
    }
}
