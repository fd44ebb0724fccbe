//! Instances that cannot go on: one that no build knows, a child whose activity no worker knows, and work that was given up.

use super::workflows;
use duroxide_lambda::{Target, Wakeup};
use serde_json::json;
use std::collections::HashSet;
use tests::api::{GivingUp, Site};

/// Blocked: no build has its orchestration.
pub const UNKNOWN: &str = "import-1";
/// Its child waits for an activity that no worker has.
pub const INVOICE: &str = "invoice-1";

/// Starts them, and runs them as far as they go.
pub async fn seed(site: &Site) {
    for (id, reason) in [
        ("mail-1", "mail.example.org did not answer: connection timed out"),
        (
            "mail-2",
            "the worker was killed 10 times while it ran this activity: out of memory",
        ),
    ] {
        site.started(workflows::MAIL, id, json!("ada@example.org")).await;
        site.give_up(GivingUp {
            instance: id,
            activity: workflows::DELIVER,
            reason,
        })
        .await;
    }
    site.cloud.drain().await;
    site.started("import-catalogue", UNKNOWN, json!("spring")).await;
    site.started(workflows::INVOICE, INVOICE, json!("order-1041")).await;
    // One turn of each, and one attempt: what is blocked is tried again later, for ever.
    let mut woken = HashSet::new();
    let first = |wakeup: Wakeup| {
        let what = match &wakeup.target {
            Target::Turn { instance } => ("turn", instance.clone()),
            Target::Work(work) => ("work", work.instance.clone()),
            Target::Batch { id } => ("batch", id.clone()),
        };
        if woken.insert(what) { vec![wakeup] } else { Vec::new() }
    };
    site.cloud.drain_through(first).await;
}
