//! Explain: why an instance is where it is, since when, until when, and what to do. It reads and never writes.
//!
//! ```text
//!   read (2 requests) ─> Facts ─> decide ─> Draft ─> children: the same for each, down to the leaf ─> Explanation
//!                                 pure               follow: pure                                     pure
//! ```
//!
//! | module | role |
//! |---|---|
//! | `types`, `cause` | the answer; its causes |
//! | `facts` | reads one partition; documents without a decision |
//! | `open` | pure: what the events of an execution leave open |
//! | `decide`, `turns`, `activity`, `waits`, `chain` | pure: from facts to a verdict; the verdicts about turns; about activities; about other waits; about children |
//! | `evidence`, `similar`, `words` | pure: the facts for people; names that were probably meant; texts |
//!
//! The two reads are not one snapshot: a commit between them makes an instance look lost. So a verdict that would need attention only
//! because something is missing is confirmed by another read of the same version of the instance document.

mod activity;
mod cause;
mod chain;
mod decide;
mod evidence;
mod facts;
mod open;
mod similar;
#[cfg(test)]
mod tests;
mod turns;
mod types;
mod waits;
mod words;

pub use cause::Cause;
pub use types::{Advice, Evidence, ExplainSettings, Explanation, Link, Similar, Wait, WaitKind, WokenBy};

use crate::error::Failure;
use crate::store::Store;
use chain::{Child, follow};
use cosmos::{Etag, PartitionKey};
use decide::{Draft, decide, in_motion};
use facts::Facts;
use std::collections::HashSet;
use std::time::Duration;

/// How many instances one explanation looks at, and how many children of one of them.
const MOST_INSTANCES: usize = 24;
const MOST_CHILDREN: usize = 5;
/// How often a doubtful verdict is looked at again, and the pause before.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);

/// Explains an instance; `None` when there is none. Two requests for each instance on the way to the true cause, more where a
/// partition has more than a page.
pub(crate) async fn explain(
    store: &Store,
    pk: &PartitionKey,
    settings: &ExplainSettings,
) -> Result<Option<Explanation>, Failure> {
    let mut seen = HashSet::new();
    let mut doubtful: Option<(Option<Etag>, Explanation)> = None;
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        seen.clear();
        let Some((facts, explanation)) = one(store, pk, settings, &mut seen).await? else {
            return Ok(None);
        };
        let etag = facts.fence.map(|fence| fence.etag);
        let is_same = doubtful.as_ref().is_some_and(|(before, _)| *before == etag);
        if is_same || !explanation.chain.iter().any(|link| link.cause.is_doubtful()) {
            return Ok(Some(explanation));
        }
        doubtful = Some((etag, explanation));
    }
    // Nothing is lost that changes all the time.
    Ok(doubtful.map(|(_, explanation)| in_motion(explanation)))
}

/// One instance, with its children.
async fn one(
    store: &Store,
    pk: &PartitionKey,
    settings: &ExplainSettings,
    seen: &mut HashSet<String>,
) -> Result<Option<(Facts, Explanation)>, Failure> {
    seen.insert(pk.as_str().to_owned());
    let facts = facts::read(store, pk).await?;
    let Some(mut draft) = decide(&facts, settings) else {
        return Ok(None);
    };
    let below = children(store, &facts, &mut draft, settings, seen).await?;
    let explanation = draft.finish(&facts, below);
    Ok(Some((facts, explanation)))
}

/// Looks at the children that the instance waits for. Returns the chain of the one that matters most: what needs attention, then what
/// waits longest.
async fn children(
    store: &Store,
    facts: &Facts,
    draft: &mut Draft,
    settings: &ExplainSettings,
    seen: &mut HashSet<String>,
) -> Result<Vec<Link>, Failure> {
    let waits = draft.waits.iter_mut().filter(|wait| wait.cause == Cause::Child);
    let mut below: Option<(bool, Option<u64>, Vec<Link>)> = None;
    for (place, wait) in waits.enumerate() {
        let id = wait.instance.clone().unwrap_or_default();
        let found;
        let child = if place >= MOST_CHILDREN || seen.len() >= MOST_INSTANCES {
            Child::TooMany
        } else if seen.contains(&id) {
            Child::Cycle
        } else {
            // A commit refuses a child whose id cannot be a partition key.
            found = match PartitionKey::new(&id) {
                Ok(pk) => Box::pin(one(store, &pk, settings, seen)).await?,
                Err(_) => None,
            };
            match &found {
                Some((facts, explanation)) => Child::Found(facts, explanation),
                None => Child::Absent,
            }
        };
        let links = follow(wait, facts, &child, settings);
        let is_worse = below
            .as_ref()
            .is_none_or(|(attention, since, _)| (!wait.needs_attention, wait.since) < (!attention, *since));
        if !links.is_empty() && is_worse {
            below = Some((wait.needs_attention, wait.since, links));
        }
    }
    Ok(below.map(|(_, _, links)| links).unwrap_or_default())
}
