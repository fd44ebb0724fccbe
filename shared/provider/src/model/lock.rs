//! The lock document: id `lock`, one per instance. It is the fence of the whole partition.
//!
//! Every commit, and every other change of the instance, replaces this document with `If-Match`; a writer that lost the
//! lock fails as a whole. The document stays small, because each turn writes it twice: it lists the claimed messages with
//! their attempt counts, so that the messages themselves are not rewritten.

use super::{Kind, Lane, Queue, Schema};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// How many commit ids the lock keeps, so that a writer whose response was lost can see whether its commit was applied.
const REMEMBERED_COMMITS: usize = 8;

/// How many unclaimed messages may have an attempt count.
const MOST_ATTEMPTS: usize = 500;

/// An exclusive claim on the instance, valid until [`LockDoc::until`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Claim {
    pub token: String,
    /// The ids of the fetched messages: only these are consumed by the commit.
    pub messages: Vec<String>,
}

/// A commit that happened but whose staged operations are not all published yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unfinished {
    pub commit: String,
    /// The next staged document to publish.
    pub next: u32,
    pub total: u32,
}

/// The group deletion that has marked this partition. Its decision, if it was taken, is in the partition `root`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deleting {
    pub group: String,
    pub root: String,
    /// From then on any process may abort the deletion, unless it was decided.
    pub expires: u64,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    sort_key: String,
    #[serde(rename = "holder", default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// When the claim expires; 0 when there is none. A free lock stores no time: no query for claims must examine it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub until: u64,
    /// How many messages are claimed, so that the service can sum queue depths.
    #[serde(rename = "held", default)]
    claimed_count: u32,
    /// How often each message that is still queued has been fetched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<String, u32>,
    /// The latest commits, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Messages came while the instance did not exist, and were set aside (see `recovery::aside`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<Deleting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane: Option<Lane>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<u64>,
    #[serde(flatten)]
    schema: Schema,
}

fn is_zero(time: &u64) -> bool {
    *time == 0
}

impl LockDoc {
    pub(crate) const ID: &str = "lock";

    /// A free lock for a partition that has none.
    pub(crate) fn new(pk: &str) -> Self {
        LockDoc {
            id: Self::ID.to_owned(),
            pk: pk.to_owned(),
            kind: Kind::Lock,
            sort_key: "0".to_owned(),
            claim: None,
            until: 0,
            claimed_count: 0,
            attempts: BTreeMap::new(),
            commits: Vec::new(),
            aside: false,
            unfinished: None,
            deleting: None,
            queue: None,
            lane: None,
            due_at: None,
            schema: Schema::default(),
        }
    }

    /// The claim, unless it has expired.
    pub(crate) fn claim_at(&self, now_ms: u64) -> Option<&Claim> {
        self.claim.as_ref().filter(|_| self.until > now_ms)
    }

    /// The ids of the claimed messages.
    pub(crate) fn claimed_messages(&self) -> &[String] {
        self.claim.as_ref().map_or(&[], |claim| &claim.messages)
    }

    /// The newest commit; empty before the first.
    pub(crate) fn last_commit(&self) -> &str {
        self.commits.last().map_or("", String::as_str)
    }

    /// Whether that commit was applied, as far as the lock remembers.
    pub(crate) fn remembers(&self, commit: &str) -> bool {
        self.commits.iter().any(|known| known == commit)
    }

    /// Whether this token has the claim. It may have expired, but nobody else has claimed since.
    pub(crate) fn is_claimed_by(&self, token: &str) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.token == token)
    }

    /// Whether both versions are the same claim: recognises the own write after a lost response.
    pub(crate) fn same_claim(&self, other: &LockDoc) -> bool {
        self.claim == other.claim && self.commits == other.commits && self.deleting == other.deleting
    }

    /// The lock with a new claim: each fetched message has one more attempt.
    pub(crate) fn claimed(&self, token: &str, until: u64, messages: &[String]) -> LockDoc {
        let mut next = self.clone();
        for id in messages {
            *next.attempts.entry(id.clone()).or_insert(0) += 1;
        }
        next.forget_attempts(messages);
        next.claim = Some(Claim {
            token: token.to_owned(),
            messages: messages.to_vec(),
        });
        next.until = until;
        next.claimed_count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        next
    }

    /// The lock without its claim; the messages stay queued.
    pub(crate) fn released(&self, ignore_attempt: bool) -> LockDoc {
        let mut next = self.clone();
        if let (true, Some(claim)) = (ignore_attempt, next.claim.as_ref()) {
            for id in &claim.messages {
                if let Some(count) = next.attempts.get_mut(id) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        next.clear_claim();
        next
    }

    /// The lock after a commit that consumed `consumed`.
    pub(crate) fn committed(&self, commit: &str, consumed: &[String]) -> LockDoc {
        let mut next = self.clone();
        for id in consumed {
            next.attempts.remove(id);
        }
        next.commits.push(commit.to_owned());
        let surplus = next.commits.len().saturating_sub(REMEMBERED_COMMITS);
        next.commits.drain(..surplus);
        next.clear_claim();
        next
    }

    /// Limits the attempt counts of unclaimed messages, to keep the document small. A dropped count starts again at 0.
    fn forget_attempts(&mut self, claimed: &[String]) {
        let mut surplus = self.attempts.len().saturating_sub(claimed.len() + MOST_ATTEMPTS);
        if surplus > 0 {
            let claimed: HashSet<&String> = claimed.iter().collect();
            self.attempts.retain(|id, _| {
                let drop = surplus > 0 && !claimed.contains(id);
                surplus -= usize::from(drop);
                !drop
            });
        }
    }

    /// Whether this group deletion has marked the partition.
    pub(crate) fn is_marked(&self, group: &str) -> bool {
        self.deleting.as_ref().is_some_and(|mark| mark.group == group)
    }

    /// Puts the lock into the recovery queue, due at that time, or takes it out.
    pub(crate) fn mark_due(&mut self, due_at: Option<u64>) {
        self.queue = due_at.map(|_| Queue::Repair);
        self.lane = due_at.map(|_| Lane::Turn);
        self.due_at = due_at;
    }

    fn clear_claim(&mut self) {
        self.claim = None;
        self.until = 0;
        self.claimed_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn attempts_count_per_message_and_survive_a_release() {
        let first = LockDoc::new("i").claimed("t1", 10, &ids(&["a"])).released(false);
        let second = first.claimed("t2", 20, &ids(&["a", "b"]));
        assert_eq!((second.attempts["a"], second.attempts["b"]), (2, 1));
    }

    #[test]
    fn attempt_counts_of_unclaimed_messages_are_bounded() {
        let many: Vec<String> = (0..2_000).map(|n| format!("m{n}")).collect();
        let lock = LockDoc::new("i").claimed("t1", 10, &many).released(false);
        let next = lock.claimed("t2", 20, &ids(&["m7"]));
        assert_eq!(next.attempts.len(), MOST_ATTEMPTS + 1);
        assert_eq!(next.attempts["m7"], 2);
    }

    #[test]
    fn an_ignored_attempt_never_goes_below_zero() {
        let mut lock = LockDoc::new("i").claimed("t1", 10, &ids(&["a"]));
        lock.attempts.insert("a".to_owned(), 0);
        assert_eq!(lock.released(true).attempts["a"], 0);
    }

    #[test]
    fn a_commit_drops_the_attempts_of_what_it_consumed_and_keeps_the_rest() {
        let lock = LockDoc::new("i")
            .claimed("t1", 10, &ids(&["a"]))
            .released(false)
            .claimed("t2", 20, &ids(&["b"]));
        let after = lock.committed("c1", &ids(&["b"]));
        assert!(after.attempts.contains_key("a") && !after.attempts.contains_key("b"));
        assert!(after.claim.is_none() && after.remembers("c1"));
    }

    #[test]
    fn only_the_latest_commits_are_remembered() {
        let lock = (0..20).fold(LockDoc::new("i"), |lock, n| lock.committed(&format!("c{n}"), &[]));
        assert!(lock.remembers("c19") && !lock.remembers("c0"));
        assert_eq!(lock.last_commit(), "c19");
    }

    #[test]
    fn a_free_lock_stores_no_time() {
        let free = LockDoc::new("i").claimed("t", 10, &[]).committed("c", &[]);
        let stored = serde_json::to_string(&free).unwrap();
        assert!(!stored.contains("until"), "{stored}");
        assert_eq!(serde_json::from_str::<LockDoc>(&stored).unwrap().until, 0);
    }

    #[test]
    fn a_claim_ends_exactly_at_its_expiry() {
        let lock = LockDoc::new("i").claimed("t", 10, &[]);
        assert!(lock.claim_at(9).is_some() && lock.claim_at(10).is_none());
    }
}
