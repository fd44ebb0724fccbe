//! Activities and affinity sessions.

use super::state::{Lock, Session, State, Work};
use duroxide::providers::{ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem};
use std::time::Duration;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn gone(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "the work item is gone, or its lock has expired")
}

impl Work {
    fn session(&self) -> Option<&str> {
        match &self.item {
            WorkItem::ActivityExecute { session_id, .. } => session_id.as_deref(),
            _ => None,
        }
    }

    fn tag(&self) -> Option<&str> {
        match &self.item {
            WorkItem::ActivityExecute { tag, .. } => tag.as_deref(),
            _ => None,
        }
    }

    fn is(&self, activity: &ScheduledActivityIdentifier) -> bool {
        matches!(&self.item, WorkItem::ActivityExecute { instance, execution_id, id, .. }
            if *instance == activity.instance && *execution_id == activity.execution_id && *id == activity.activity_id)
    }

    /// Its number and why nobody runs it, if it is of this instance.
    pub fn blocked_for(&self, of: &str) -> Option<(u64, String)> {
        match &self.item {
            WorkItem::ActivityExecute { instance, id, .. } if instance == of => Some((*id, self.blocked.clone()?)),
            _ => None,
        }
    }

    pub fn is_held(&self, now: u64) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.holds(now))
    }
}

impl State {
    pub fn schedule(&mut self, now: u64, item: WorkItem) {
        let work = Work {
            item,
            number: self.number(),
            due: now,
            attempts: 0,
            lock: None,
            since: now,
            blocked: None,
        };
        self.work.push(work);
        self.news_for_work();
    }

    pub fn next_work_due(&self, now: u64) -> Option<u64> {
        let later = self.work.iter().map(|work| work.due);
        later.filter(|due| *due > now).min()
    }

    /// Takes the first activity that is due and free.
    pub fn claim_work(
        &mut self,
        now: u64,
        lock: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Option<(WorkItem, String, u32)> {
        let sessions = &self.sessions;
        let is_free = |work: &&Work| {
            let is_mine = match (work.session(), session) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(id), Some(config)) => sessions
                    .get(id)
                    .is_none_or(|session| session.until <= now || session.owner == config.owner_id),
            };
            work.due <= now && work.blocked.is_none() && !work.is_held(now) && tags.matches(work.tag()) && is_mine
        };
        let number = self.work.iter().filter(is_free).map(|work| work.number).min()?;
        let token = self.token();
        let work = self.work.iter_mut().find(|work| work.number == number)?;
        work.attempts += 1;
        work.since = now;
        work.lock = Some(Lock {
            token: token.clone(),
            until: now.saturating_add(millis(lock)),
        });
        let (item, attempts) = (work.item.clone(), work.attempts);
        let id = work.session().map(str::to_owned);
        if let (Some(id), Some(config)) = (id, session) {
            let claimed = Session {
                owner: config.owner_id.clone(),
                until: now.saturating_add(millis(config.lock_timeout)),
                active: now,
            };
            self.sessions.insert(id, claimed);
        }
        Some((item, token, attempts))
    }

    /// The activity under this lock.
    pub fn work_of(&self, token: &str) -> Option<&Work> {
        let is_mine = |work: &&Work| work.lock.as_ref().is_some_and(|lock| lock.token == token);
        self.work.iter().find(is_mine)
    }

    /// Gives an activity to nobody until [`unblock`](State::unblock).
    pub fn block_work(&mut self, token: &str, reason: String) {
        let is_mine = |work: &&mut Work| work.lock.as_ref().is_some_and(|lock| lock.token == token);
        if let Some(work) = self.work.iter_mut().find(is_mine) {
            work.lock = None;
            work.attempts = 0;
            work.blocked = Some(reason);
        }
    }

    /// Whether an activity runs, or may run now or later.
    pub fn has_work(&self) -> bool {
        self.work.iter().any(|work| work.blocked.is_none())
    }

    /// Another build may go on with what was blocked.
    pub fn unblock(&mut self) {
        self.blocked.clear();
        for work in &mut self.work {
            work.blocked = None;
        }
        for _ in 0..self.work.len() {
            self.news_for_work();
        }
        self.news_for_turns();
    }

    fn held(&mut self, now: u64, token: &str, operation: &str) -> Result<&mut Work, ProviderError> {
        let is_mine = |work: &&mut Work| {
            let lock = work.lock.as_ref();
            lock.is_some_and(|lock| lock.token == token && lock.holds(now))
        };
        self.work.iter_mut().find(is_mine).ok_or_else(|| gone(operation))
    }

    fn touch(&mut self, now: u64, session: Option<String>) {
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.active = now;
        }
    }

    pub fn commit_work(&mut self, now: u64, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        let work = self.held(now, token, "ack_work_item")?;
        let (number, session) = (work.number, work.session().map(str::to_owned));
        self.work.retain(|work| work.number != number);
        self.touch(now, session);
        match completion {
            Some(completion) => self.send(now, completion, None),
            None => Ok(()),
        }
    }

    pub fn renew_work(&mut self, now: u64, token: &str, extend: Duration) -> Result<(), ProviderError> {
        let work = self.held(now, token, "renew_work_item_lock")?;
        if let Some(lock) = &mut work.lock {
            lock.until = now.saturating_add(millis(extend));
        }
        let session = work.session().map(str::to_owned);
        self.touch(now, session);
        Ok(())
    }

    pub fn abandon_work(
        &mut self,
        now: u64,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let is_mine = |work: &&mut Work| work.lock.as_ref().is_some_and(|lock| lock.token == token);
        let work = self.work.iter_mut().find(is_mine);
        let work = work.ok_or_else(|| gone("abandon_work_item"))?;
        work.lock = None;
        if let Some(delay) = delay {
            work.due = now.saturating_add(millis(delay));
        }
        if ignore_attempt {
            work.attempts = work.attempts.saturating_sub(1);
        }
        self.news_for_work();
        Ok(())
    }

    pub fn cancel_work(&mut self, cancelled: &[ScheduledActivityIdentifier]) {
        self.work
            .retain(|work| !cancelled.iter().any(|activity| work.is(activity)));
    }

    pub fn renew_sessions(&mut self, now: u64, owners: &[&str], extend: Duration, idle: Duration) -> usize {
        let is_live = |session: &&mut Session| {
            owners.contains(&session.owner.as_str())
                && session.until > now
                && session.active.saturating_add(millis(idle)) > now
        };
        let live = self.sessions.values_mut().filter(is_live);
        live.map(|session| session.until = now.saturating_add(millis(extend)))
            .count()
    }

    pub fn drop_unused_sessions(&mut self, now: u64) -> usize {
        let before = self.sessions.len();
        let work = &self.work;
        self.sessions
            .retain(|id, session| session.until > now || work.iter().any(|work| work.session() == Some(id)));
        before - self.sessions.len()
    }
}
