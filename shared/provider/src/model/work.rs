//! Work items: id `w:{execution}:{activity}`, one activity to run, in its instance's partition.
//!
//! The id is deterministic, so that cancelling is a point delete. The lock is part of the document: claim, renewal and
//! completion replace or delete it with `If-Match`, so a late worker fails when the item was cancelled or claimed by
//! another. While the item is claimed, `dueAt` is the end of the claim: an abandoned item becomes due by itself.
//!
//! `began` is the beginning of the attempt that has no end yet, and `log` has those that have ended (`attempts`). Only the first
//! claim is made without a read: it finds no attempt that it would have to end.
//!
//! The items of a paused instance have a mark. One that nobody runs is *parked*: it is due at the end of time, in another version
//! than any wakeup names. One that is claimed keeps its claim, and is parked when it is released or its claim expires.

use super::{Attempt, AttemptEnd, AttemptLog, Blocked, CompletedAttempts, Kind, PARKED_MS, Queue, Schema, Usage};
use cosmos::Patch;
use duroxide::providers::{ScheduledActivityIdentifier, WorkItem};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

/// Who runs the activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkClaim {
    pub token: String,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    queue: Queue,
    pub due_at: u64,
    queued_at: u64,
    pub sort_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default)]
    pub attempts: u32,
    #[serde(rename = "holder", default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<WorkClaim>,
    /// When the claim expires; 0 when there is none.
    #[serde(default)]
    pub until: u64,
    /// When the attempt began that has not ended yet, as far as anybody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<u64>,
    #[serde(default, skip_serializing_if = "AttemptLog::is_empty")]
    log: AttemptLog,
    /// What the attempts have used that were released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Why it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Its due time is the end of the pause of the build that has blocked it; another build takes it before. A claim ends this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
    /// Its instance is paused: nobody may begin it. It is set by methods, because it changes the schema version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    /// The orchestration that scheduled it, if the writer knew it: duroxide would read the whole history to learn it.
    #[serde(rename = "of", default, skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<Orchestration>,
    pub item: Box<RawValue>,
    #[serde(flatten)]
    schema: Schema,
}

/// The name and version of an orchestration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Orchestration {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl WorkDoc {
    /// The document of an activity, or `None` for an item that is no activity.
    pub(crate) fn new(item: &WorkItem, sort_key: &str, now_ms: u64) -> Result<Option<Self>, serde_json::Error> {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            session_id,
            tag,
            ..
        } = item
        else {
            return Ok(None);
        };
        Ok(Some(WorkDoc {
            id: Self::id(*execution_id, *id),
            pk: instance.clone(),
            kind: Kind::Work,
            queue: Queue::Work,
            due_at: now_ms,
            queued_at: now_ms,
            sort_key: sort_key.to_owned(),
            tag: tag.clone(),
            session: session_id.clone(),
            attempts: 0,
            claim: None,
            until: 0,
            began: None,
            log: AttemptLog::default(),
            usage: None,
            blocked: None,
            parked: false,
            paused: false,
            orchestration: None,
            item: serde_json::value::to_raw_value(item)?,
            schema: Schema::default(),
        }))
    }

    /// The same, with the orchestration that schedules it.
    pub(crate) fn scheduled_by(mut self, orchestration: Option<Orchestration>) -> Self {
        self.orchestration = orchestration;
        self
    }

    pub(crate) fn id(execution: u64, activity: u64) -> String {
        format!("w:{execution}:{activity}")
    }

    pub(crate) fn id_of(activity: &ScheduledActivityIdentifier) -> String {
        Self::id(activity.execution_id, activity.activity_id)
    }

    /// The execution and the activity that an id names.
    pub(crate) fn numbers_of(id: &str) -> Option<(u64, u64)> {
        let (execution, activity) = id.strip_prefix("w:")?.split_once(':')?;
        Some((execution.parse().ok()?, activity.parse().ok()?))
    }

    /// Whether the item is claimed now.
    pub(crate) fn is_claimed_at(&self, now_ms: u64) -> bool {
        self.claim.is_some() && self.until > now_ms
    }

    pub(crate) fn is_claimed_by(&self, token: &str) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.token == token)
    }

    /// The item with a new claim. An attempt that has no end is lost: its claim has expired.
    pub(crate) fn claimed(&self, token: &str, now_ms: u64, until: u64) -> WorkDoc {
        let mut next = self.clone();
        match &self.claim {
            Some(_) => next.end_attempt(self.until, AttemptEnd::Lost),
            // An older release, which does not know the field, has released it.
            None => next.end_attempt(now_ms, AttemptEnd::Released),
        }
        next.began = Some(now_ms);
        next.claim = Some(WorkClaim {
            token: token.to_owned(),
        });
        next.attempts += 1;
        next.parked = false;
        next.renewed(until)
    }

    /// The same claim of an item whose content is unknown.
    pub(crate) fn claim_of(token: &str, now_ms: u64, until: u64) -> Patch {
        Patch::new()
            .set("/holder", json!({ "token": token }))
            .increment("/attempts", 1)
            .set("/began", now_ms)
            .set("/until", until)
            .set("/dueAt", until)
    }

    /// The item claimed until a later time.
    pub(crate) fn renewed(&self, until: u64) -> WorkDoc {
        WorkDoc {
            until,
            due_at: until,
            ..self.clone()
        }
    }

    /// The item without its claim and its attempt, as a build leaves it that cannot run it.
    pub(crate) fn blocked(&self, now_ms: u64, blocked: Blocked) -> WorkDoc {
        WorkDoc {
            blocked: Some(blocked.clone()),
            parked: true,
            ..self.released(now_ms, blocked.until, None)
        }
    }

    /// The item without its claim, due from `due_at` on. Without an end, the attempt does not count.
    pub(crate) fn released(&self, now_ms: u64, due_at: u64, end: Option<AttemptEnd>) -> WorkDoc {
        let mut next = self.clone();
        match end {
            Some(end) => next.end_attempt(now_ms, end),
            None => {
                next.began = None;
                next.attempts = self.attempts.saturating_sub(1);
            }
        }
        WorkDoc {
            claim: None,
            until: 0,
            due_at: if self.paused { PARKED_MS } else { due_at },
            parked: false,
            ..next
        }
    }

    /// The same with what an attempt has used, which was released.
    pub(crate) fn having_used(self, usage: Usage) -> WorkDoc {
        WorkDoc {
            usage: Some(Box::new(self.usage.unwrap_or_default().plus(usage))),
            ..self
        }
    }

    /// Whether its instance is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether there is nothing left to do to pause it.
    pub(crate) fn is_parked_at(&self, now_ms: u64) -> bool {
        self.paused && (self.due_at == PARKED_MS || self.is_claimed_at(now_ms))
    }

    /// The item of an instance that is paused.
    pub(crate) fn paused_at(&self, now_ms: u64) -> WorkDoc {
        let mut next = self.clone();
        next.paused = true;
        next.schema.guard(true);
        if !self.is_claimed_at(now_ms) {
            next.due_at = PARKED_MS;
        }
        next
    }

    /// The item of an instance that is resumed: due now, unless somebody runs it or a build has just blocked it.
    pub(crate) fn resumed_at(&self, now_ms: u64) -> WorkDoc {
        let mut next = self.clone();
        next.paused = false;
        next.schema.guard(false);
        let blocked = self.blocked.as_ref().filter(|_| self.parked);
        next.due_at = match blocked {
            _ if self.is_claimed_at(now_ms) => self.until,
            Some(blocked) => blocked.until.max(now_ms),
            None => now_ms,
        };
        next
    }

    /// The attempts that have ended.
    pub(crate) fn log(&self) -> &AttemptLog {
        &self.log
    }

    /// All attempts of the activity, the last of which ends now like this; without an end, it was not begun.
    pub(crate) fn completed(&self, now_ms: u64, end: Option<AttemptEnd>) -> Option<CompletedAttempts> {
        let (execution, activity) = Self::numbers_of(&self.id)?;
        let mut last = self.clone();
        if let Some(end) = end {
            last.end_attempt(now_ms, end);
        }
        (!last.log.is_empty()).then_some(CompletedAttempts {
            execution,
            activity,
            log: last.log,
        })
    }

    /// When the attempt began that has not ended yet.
    pub(crate) fn began(&self) -> Option<u64> {
        self.began
    }

    fn end_attempt(&mut self, ended: u64, end: AttemptEnd) {
        if let Some(began) = self.began.take() {
            self.log.add(Attempt {
                number: self.attempts,
                began,
                ended,
                end,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BlockCause;

    fn item() -> WorkDoc {
        let item = WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 2,
            id: 7,
            name: "Charge".to_owned(),
            input: "{}".to_owned(),
            session_id: None,
            tag: None,
        };
        WorkDoc::new(&item, "o", 100).unwrap().unwrap()
    }

    #[test]
    fn a_claimed_item_is_due_again_when_its_claim_expires() {
        let claimed = item().claimed("t", 100, 500);
        assert_eq!((claimed.due_at, claimed.attempts), (500, 1));
        assert!(claimed.is_claimed_at(499) && !claimed.is_claimed_at(500));
    }

    #[test]
    fn the_id_is_that_of_the_activity() {
        let activity = ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 2,
            activity_id: 7,
        };
        assert_eq!(item().id, WorkDoc::id_of(&activity));
        assert_eq!(WorkDoc::numbers_of(&item().id), Some((2, 7)));
        for other in ["w:2", "w:x:7", "m:2:7", "w:2:7:1"] {
            assert_eq!(WorkDoc::numbers_of(other), None, "{other}");
        }
    }

    #[test]
    fn an_ignored_attempt_is_subtracted_and_never_below_zero() {
        assert_eq!(item().claimed("t", 100, 500).released(200, 0, None).attempts, 0);
        assert_eq!(item().released(200, 0, None).attempts, 0);
    }

    #[test]
    fn an_item_is_parked_until_it_is_claimed() {
        let blocked = Blocked {
            cause: BlockCause::UnknownName,
            reason: String::new(),
            build: "one".to_owned(),
            since: 200,
            tries: 1,
            until: 1_200,
        };
        let parked = item().claimed("t", 100, 500).blocked(200, blocked);
        assert!(parked.parked && parked.due_at == 1_200 && parked.attempts == 0);
        let claimed = parked.claimed("u", 300, 800);
        assert!(!claimed.parked && claimed.blocked.is_some());
        let released = claimed.released(400, 1_200, Some(AttemptEnd::Released));
        assert!(!released.parked, "it waits for its own time, though that is the same");
    }

    #[test]
    fn the_item_of_a_paused_instance_is_parked_when_nobody_runs_it() {
        let parked = item().paused_at(200);
        assert!(parked.is_paused() && parked.is_parked_at(200) && parked.due_at == PARKED_MS);
        assert_eq!(
            serde_json::to_value(&parked).unwrap()["v"],
            2,
            "older releases leave it alone"
        );
        let resumed = parked.resumed_at(300);
        assert_eq!((resumed.due_at, resumed.is_paused()), (300, false));
        assert_eq!(serde_json::to_value(&resumed).unwrap()["v"], 1);

        let claimed = item().claimed("t", 100, 500);
        let running = claimed.paused_at(200);
        assert_eq!((running.due_at, running.is_parked_at(200)), (500, true), "it goes on");
        assert_eq!(running.renewed(900).due_at, 900);
        assert_eq!(running.released(300, 310, Some(AttemptEnd::TimedOut)).due_at, PARKED_MS);
        assert!(!running.is_parked_at(500), "its claim has expired");
        assert_eq!(running.paused_at(500).due_at, PARKED_MS);
        assert_eq!(running.resumed_at(300).due_at, 500);
        assert_eq!(running.paused_at(500).resumed_at(600).due_at, 600);
    }

    #[test]
    fn a_patch_claims_as_a_replacement_does() {
        let mut patched = serde_json::to_value(item()).unwrap();
        let patch = serde_json::to_value(WorkDoc::claim_of("t", 100, 500)).unwrap();
        for operation in patch["operations"].as_array().unwrap() {
            let field = operation["path"].as_str().unwrap().trim_start_matches('/');
            patched[field] = match operation["op"].as_str() {
                Some("incr") => json!(patched[field].as_u64().unwrap() + operation["value"].as_u64().unwrap()),
                _ => operation["value"].clone(),
            };
        }
        assert_eq!(patched, serde_json::to_value(item().claimed("t", 100, 500)).unwrap());
    }

    #[test]
    fn attempts_are_noted_with_their_ends_and_one_without_an_end_is_lost() {
        let stopped = item()
            .claimed("t", 100, 500)
            .released(300, 400, Some(AttemptEnd::TimedOut));
        let given_back = stopped.claimed("u", 400, 900).released(450, 450, None);
        let killed = given_back.claimed("v", 500, 1_000).renewed(1_500);
        let last = killed.claimed("w", 2_000, 2_500);
        let completed = last.completed(2_100, Some(AttemptEnd::Completed)).unwrap();
        let ends = completed.log.attempts().iter();
        assert_eq!(
            ends.map(|attempt| (attempt.number, attempt.began, attempt.ended, attempt.end))
                .collect::<Vec<_>>(),
            [
                (1, 100, 300, AttemptEnd::TimedOut),
                (2, 500, 1_500, AttemptEnd::Lost),
                (3, 2_000, 2_100, AttemptEnd::Completed)
            ]
        );
        assert_eq!(completed.activity, 7);
        assert_eq!(
            last.completed(2_100, None).unwrap().log,
            *last.log(),
            "it was not begun"
        );
    }

    #[test]
    fn an_attempt_that_an_older_release_released_is_not_lost() {
        let mut released = item().claimed("t", 100, 500);
        (released.claim, released.until) = (None, 0);
        let next = released.claimed("u", 600, 900);
        let attempt = &next.log().attempts()[0];
        assert_eq!((attempt.ended, attempt.end), (600, AttemptEnd::Released));
    }

    #[test]
    fn an_item_of_an_older_release_has_no_attempts() {
        let mut old = serde_json::to_value(item().claimed("t", 100, 500)).unwrap();
        old.as_object_mut().unwrap().remove("began");
        let old: WorkDoc = serde_json::from_value(old).unwrap();
        assert!(old.claimed("u", 600, 900).log().is_empty());
        assert_eq!(old.completed(200, Some(AttemptEnd::Completed)), None);
    }
}
