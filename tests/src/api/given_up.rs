//! Gives up activities, as the worker does with one that was tried as often as allowed: a dead letter is left.

use super::site::Site;
use duroxide::providers::{TagFilter, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails};
use duroxide_cosmos::{Fetched, GivenUpWork};
use duroxide_lambda::{Target, Wakeup};
use std::time::Duration;

/// Which activity is given up, and why.
#[derive(Clone, Copy, Debug)]
pub struct GivingUp<'a> {
    /// The instance, which was started, and whose functions have not run.
    pub instance: &'a str,
    /// The name that the dead letter has.
    pub activity: &'a str,
    /// The reason that the dead letter shows.
    pub reason: &'a str,
}

impl Site {
    /// Lets the instance take its first turn, gives up the activity that it scheduled last, and lets it take the next turn.
    pub async fn give_up(&self, what: GivingUp<'_>) {
        let taken = self.cloud.queue.take().into_iter();
        let turns: Vec<Wakeup> = taken.map(|delayed| delayed.wakeup).collect();
        self.cloud.orchestrator.invoke(&turns).await;
        self.cloud.queue.take();
        let wakeups = self.cloud.world.work_wakeups().await;
        let mut works = wakeups.iter().filter_map(|wakeup| match &wakeup.target {
            Target::Work(work) if work.instance == what.instance => Some(work),
            _ => None,
        });
        let work = works.next_back().expect("an activity is queued");
        let store = &self.cloud.silent;
        let lock = Duration::from_secs(600);
        let fetched = store.fetch_written_work(work, lock, None, &TagFilter::Any).await;
        let Ok(Fetched::Ready(claimed)) = fetched else {
            panic!("the activity can be claimed: {fetched:?}");
        };
        let failure = WorkItem::ActivityFailed {
            instance: work.instance.clone(),
            execution_id: work.execution,
            id: work.activity,
            details: ErrorDetails::Application {
                kind: AppErrorKind::ActivityFailed,
                message: "given up".to_owned(),
                retryable: false,
            },
        };
        let given_up = GivenUpWork {
            name: what.activity.to_owned(),
            reason: what.reason.to_owned(),
            attempts: 10,
            end: None,
        };
        let done = store.give_up_work(&claimed.lock_token, failure, given_up).done;
        done.await.expect("it is given up");
        self.cloud.orchestrator.invoke(&[Wakeup::turn(what.instance)]).await;
    }
}
