//! The part of the instance document that fences its partition.
//!
//! Every commit, and every other change of the instance, replaces the document with `If-Match`; a writer that has seen an
//! older version fails as a whole. A turn on the function path needs no more than that. Who must be alone for a while
//! (duroxide's polling runtime, a turn that may have killed its process before, a commit of many batches, maintenance)
//! *claims*: it writes its token and the end of its time here, with the messages that it takes and how often each was
//! taken, so that the messages themselves are not rewritten.

use super::{Lane, Queue};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// How many commit ids are kept, so that a writer whose response was lost can see whether its commit was applied.
const REMEMBERED_COMMITS: usize = 8;

/// How many unclaimed messages may have an attempt count.
const MOST_ATTEMPTS: usize = 500;

/// An exclusive claim on the instance, valid until [`Lock::until`].
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

/// The group deletion that has marked this partition. It is short: a full partition takes it in place of commit names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deleting {
    pub group: String,
    /// From then on any process may abort the deletion, unless it was decided.
    pub expires: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    #[serde(rename = "holder", default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// When the claim expires; 0 when there is none. Without a claim no time is stored: no query for claims must examine it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub until: u64,
    /// How many messages are claimed, so that the service can sum queue depths.
    #[serde(rename = "held", default, skip_serializing_if = "is_none")]
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
}

fn is_zero(time: &u64) -> bool {
    *time == 0
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Lock {
    /// The claim, unless it has expired.
    pub(crate) fn claim_at(&self, now_ms: u64) -> Option<&Claim> {
        self.claim.as_ref().filter(|_| self.until > now_ms)
    }

    /// Whether there is nothing to remember: no claim, attempt, mark, unfinished commit or message aside.
    pub(crate) fn is_free(&self) -> bool {
        let is_claimed = self.claim.is_some() || !self.attempts.is_empty();
        let is_marked = self.deleting.is_some() || self.unfinished.is_some();
        !is_claimed && !is_marked && !self.aside
    }

    /// The ids of the claimed messages.
    pub(crate) fn claimed_messages(&self) -> &[String] {
        self.claim.as_ref().map_or(&[], |claim| &claim.messages)
    }

    /// The newest commit; empty before the first.
    pub(crate) fn last_commit(&self) -> &str {
        self.commits.last().map_or("", String::as_str)
    }

    /// Whether that commit was applied, as far as is remembered.
    pub(crate) fn remembers(&self, commit: &str) -> bool {
        self.commits.iter().any(|known| known == commit)
    }

    /// Whether this token has the claim. It may have expired, but nobody else has claimed since.
    pub(crate) fn is_claimed_by(&self, token: &str) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.token == token)
    }

    /// Whether both versions are the same claim: recognises the own write after a lost response.
    pub(crate) fn same_claim(&self, other: &Lock) -> bool {
        self.claim == other.claim && self.commits == other.commits && self.deleting == other.deleting
    }

    /// Forgets how often a message was fetched.
    pub(crate) fn forget(&mut self, message: &str) {
        self.attempts.remove(message);
    }

    /// Claims: each fetched message has one more attempt.
    pub(crate) fn claim(&mut self, token: &str, until: u64, messages: &[String]) {
        for id in messages {
            *self.attempts.entry(id.clone()).or_insert(0) += 1;
        }
        self.forget_attempts(messages);
        self.claim = Some(Claim {
            token: token.to_owned(),
            messages: messages.to_vec(),
        });
        self.until = until;
        self.claimed_count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    }

    /// Ends the claim; the messages stay queued.
    pub(crate) fn release(&mut self, ignore_attempt: bool) {
        if let (true, Some(claim)) = (ignore_attempt, self.claim.as_ref()) {
            for id in &claim.messages {
                if let Some(count) = self.attempts.get_mut(id) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        self.clear_claim();
    }

    /// Notes a commit that consumed `consumed`, and ends the claim.
    pub(crate) fn commit(&mut self, commit: &str, consumed: &[String]) {
        for id in consumed {
            self.attempts.remove(id);
        }
        self.commits.push(commit.to_owned());
        let surplus = self.commits.len().saturating_sub(REMEMBERED_COMMITS);
        self.commits.drain(..surplus);
        self.clear_claim();
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

    /// Keeps less, for a full partition, which refuses a larger version: no attempt counts, and the name of the newest
    /// commit only. A process that still looks for an earlier one of its own takes it for lost, and maintenance does what
    /// would have followed.
    pub(crate) fn shorten(&mut self) {
        self.attempts.clear();
        self.commits.drain(..self.commits.len().saturating_sub(1));
    }

    /// Until when an unfinished commit is left to its maker, which probably still publishes it.
    pub(crate) fn publishing_until(&self, now_ms: u64) -> Option<u64> {
        let due_at = self.unfinished.as_ref().and(self.due_at);
        due_at.filter(|due_at| *due_at > now_ms)
    }

    /// Puts the document into the recovery queue, due at that time, or takes it out.
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

    fn claimed(names: &[&str]) -> Lock {
        let mut lock = Lock::default();
        lock.claim("t1", 10, &ids(names));
        lock
    }

    #[test]
    fn attempts_count_per_message_and_survive_a_release() {
        let mut lock = claimed(&["a"]);
        lock.release(false);
        lock.claim("t2", 20, &ids(&["a", "b"]));
        assert_eq!((lock.attempts["a"], lock.attempts["b"]), (2, 1));
    }

    #[test]
    fn attempt_counts_of_unclaimed_messages_are_bounded() {
        let many: Vec<String> = (0..2_000).map(|n| format!("m{n}")).collect();
        let mut lock = Lock::default();
        lock.claim("t1", 10, &many);
        lock.release(false);
        lock.claim("t2", 20, &ids(&["m7"]));
        assert_eq!(lock.attempts.len(), MOST_ATTEMPTS + 1);
        assert_eq!(lock.attempts["m7"], 2);
    }

    #[test]
    fn an_ignored_attempt_never_goes_below_zero() {
        let mut lock = claimed(&["a"]);
        lock.attempts.insert("a".to_owned(), 0);
        lock.release(true);
        assert_eq!(lock.attempts["a"], 0);
    }

    #[test]
    fn a_commit_drops_the_attempts_of_what_it_consumed_and_keeps_the_rest() {
        let mut lock = claimed(&["a"]);
        lock.release(false);
        lock.claim("t2", 20, &ids(&["b"]));
        lock.commit("c1", &ids(&["b"]));
        assert!(lock.attempts.contains_key("a") && !lock.attempts.contains_key("b"));
        assert!(lock.claim.is_none() && lock.remembers("c1"));
    }

    #[test]
    fn only_the_latest_commits_are_remembered() {
        let mut lock = Lock::default();
        (0..20).for_each(|n| lock.commit(&format!("c{n}"), &[]));
        assert!(lock.remembers("c19") && !lock.remembers("c0"));
        assert_eq!(lock.last_commit(), "c19");
    }

    #[test]
    fn without_a_claim_no_time_is_stored() {
        let mut free = claimed(&[]);
        free.commit("c", &[]);
        let stored = serde_json::to_string(&free).unwrap();
        assert!(!stored.contains("until"), "{stored}");
        assert_eq!(serde_json::from_str::<Lock>(&stored).unwrap().until, 0);
    }

    #[test]
    fn a_claim_ends_exactly_at_its_expiry() {
        let lock = claimed(&[]);
        assert!(lock.claim_at(9).is_some() && lock.claim_at(10).is_none());
    }
}
