//! Recovery as maintenance does it: the outbox and the unfinished commits, all pages.

use duroxide_cosmos::{CosmosProvider, PageRequest};
use std::time::Duration;
use tokio::time::Instant;

/// What recovery did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Intents that were delivered.
    pub intents: u64,
    /// Commits and deletions that were finished or removed.
    pub unfinished: u64,
    /// What failed, and stays due.
    pub failed: u64,
    /// Intents that were given up.
    pub dead: u64,
}

impl Recovered {
    /// Whether nothing was changed.
    pub fn is_idle(&self) -> bool {
        self.intents + self.unfinished + self.dead == 0
    }
}

/// Recovers all that is due, once.
pub async fn recover(provider: &CosmosProvider) -> Recovered {
    let mut recovered = Recovered::default();
    for is_outbox in [true, false] {
        let mut cursor = None;
        loop {
            let request = PageRequest {
                most: 100,
                cursor,
                deadline: Instant::now() + Duration::from_secs(3_600),
            };
            let pass = if is_outbox {
                provider.maintain_outbox(request).await
            } else {
                provider.maintain_unfinished(request).await
            };
            let pass = pass.expect("the pass runs");
            *if is_outbox {
                &mut recovered.intents
            } else {
                &mut recovered.unfinished
            } += pass.done;
            recovered.failed += pass.failed;
            recovered.dead += pass.dead;
            cursor = pass.cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    recovered
}
