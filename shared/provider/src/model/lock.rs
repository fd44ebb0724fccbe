//! The lock document: id `lock`, one per instance. It is the fence of the whole partition.
//!
//! Every commit, and everything else that changes the instance, replaces this document with `If-Match`; whoever lost
//! the lock fails as a whole. It is kept small, because it is written twice per turn: the messages that a holder
//! fetched are named here (with their attempt counts) instead of being tagged one by one.

use super::{Kind, Queue, slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// How many commit ids the lock remembers, to answer "was mine applied?" after a lost answer.
const REMEMBERED_COMMITS: usize = 8;

/// How many messages that are not held may have an attempt count.
const MOST_ATTEMPTS: usize = 500;

/// An exclusive, timed hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
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
    /// From when on anybody may decide against it, if nobody has decided for it.
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
    slot: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// Until when the holder holds; 0 when free.
    #[serde(default)]
    pub until: u64,
    /// How many messages are held, so that queue depths can be summed by the server.
    #[serde(default)]
    pub held: u32,
    /// How often each still queued message has been fetched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<String, u32>,
    /// The latest commits, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<Deleting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<u64>,
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
            slot: slot(pk),
            holder: None,
            until: 0,
            held: 0,
            attempts: BTreeMap::new(),
            commits: Vec::new(),
            unfinished: None,
            deleting: None,
            queue: None,
            due_at: None,
        }
    }

    /// The holder, while its time lasts.
    pub(crate) fn held_at(&self, now_ms: u64) -> Option<&Holder> {
        self.holder.as_ref().filter(|_| self.until > now_ms)
    }

    /// The commit that made the partition what it is.
    pub(crate) fn last_commit(&self) -> &str {
        self.commits.last().map_or("", String::as_str)
    }

    /// Whether that commit was applied, as far as the lock remembers.
    pub(crate) fn remembers(&self, commit: &str) -> bool {
        self.commits.iter().any(|known| known == commit)
    }

    /// Whether this token holds the lock (its time may be over, but nobody took it).
    pub(crate) fn is_held_by(&self, token: &str) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.token == token)
    }

    /// Whether two versions are the same claim, for telling one's own write after a lost answer.
    pub(crate) fn same_claim(&self, other: &LockDoc) -> bool {
        self.holder == other.holder && self.commits == other.commits && self.deleting == other.deleting
    }

    /// The lock as the next holder writes it: each fetched message has one attempt more.
    pub(crate) fn claimed(&self, token: &str, until: u64, messages: &[String]) -> LockDoc {
        let mut next = self.clone();
        for id in messages {
            *next.attempts.entry(id.clone()).or_insert(0) += 1;
        }
        next.forget_attempts(messages);
        next.holder = Some(Holder {
            token: token.to_owned(),
            messages: messages.to_vec(),
        });
        next.until = until;
        next.held = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        next
    }

    /// The lock given back with its messages still queued.
    pub(crate) fn released(&self, ignore_attempt: bool) -> LockDoc {
        let mut next = self.clone();
        if let (true, Some(holder)) = (ignore_attempt, next.holder.as_ref()) {
            for id in &holder.messages {
                if let Some(count) = next.attempts.get_mut(id) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        next.free();
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
        next.free();
        next
    }

    /// Keeps the document small: of messages that were fetched once and given back, only so many counts are kept. A
    /// forgotten one begins anew.
    fn forget_attempts(&mut self, held: &[String]) {
        let mut surplus = self.attempts.len().saturating_sub(held.len() + MOST_ATTEMPTS);
        if surplus > 0 {
            let held: HashSet<&String> = held.iter().collect();
            self.attempts.retain(|id, _| {
                let drop = surplus > 0 && !held.contains(id);
                surplus -= usize::from(drop);
                !drop
            });
        }
    }

    /// Marks or unmarks what a repair sweep must find.
    pub(crate) fn owe(&mut self, due_at: Option<u64>) {
        self.queue = due_at.map(|_| Queue::Repair);
        self.due_at = due_at;
    }

    fn free(&mut self) {
        self.holder = None;
        self.until = 0;
        self.held = 0;
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
    fn counts_of_messages_that_are_not_held_are_bounded() {
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
    fn a_commit_forgets_what_it_consumed_and_keeps_the_rest() {
        let lock = LockDoc::new("i")
            .claimed("t1", 10, &ids(&["a"]))
            .released(false)
            .claimed("t2", 20, &ids(&["b"]));
        let after = lock.committed("c1", &ids(&["b"]));
        assert!(after.attempts.contains_key("a") && !after.attempts.contains_key("b"));
        assert!(after.holder.is_none() && after.remembers("c1"));
    }

    #[test]
    fn only_the_latest_commits_are_remembered() {
        let lock = (0..20).fold(LockDoc::new("i"), |lock, n| lock.committed(&format!("c{n}"), &[]));
        assert!(lock.remembers("c19") && !lock.remembers("c0"));
        assert_eq!(lock.last_commit(), "c19");
    }

    #[test]
    fn a_lock_is_held_until_its_time_and_not_at_it() {
        let lock = LockDoc::new("i").claimed("t", 10, &[]);
        assert!(lock.held_at(9).is_some() && lock.held_at(10).is_none());
    }
}
