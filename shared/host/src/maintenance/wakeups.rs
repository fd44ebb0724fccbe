//! The wakeups of one run, sent in slices as long as there is time.

use super::Maintenance;
use super::queues::Queues;
use super::reminders::{Coming, Decision, Overdue};
use crate::due::{Schedule, delay_before, listing};
use crate::notifier::BoundedNotifier;
use crate::notifier::Delayed;
use crate::wakeup::{Wakeup, recent_consistency_token};
use cosmos::Clock;
use duroxide_cosmos::{CosmosProvider, Due, DueItem, Target};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most wakeups of one call of the notifier.
const SLICE: usize = 500;

/// Sends the wakeups of a run, and remembers whom it woke.
#[derive(Debug)]
pub(super) struct RunWakeups {
    notifier: BoundedNotifier,
    provider: Arc<CosmosProvider>,
    clock: Arc<dyn Clock>,
    until: Instant,
    /// How far ahead a wakeup can be sent.
    reach: Duration,
    /// The targets that were woken without delay in this run: the sweep need not wake them again.
    pub(super) woken: HashSet<Target>,
    pub(super) sent: u64,
    pub(super) failed: u64,
}

/// What became of some wakeups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentWakeups {
    pub sent: u64,
    pub failed: u64,
    /// There was no time to send these.
    pub left: u64,
}

impl RunWakeups {
    /// Wakeups that are sent until that moment.
    pub(super) fn new(maintenance: &Maintenance, until: Instant) -> RunWakeups {
        RunWakeups {
            notifier: maintenance.notifier.clone(),
            provider: Arc::clone(&maintenance.provider),
            clock: Arc::clone(&maintenance.clock),
            until,
            reach: maintenance.settings.wakeup_reach,
            woken: HashSet::new(),
            sent: 0,
            failed: 0,
        }
    }

    /// Wakes these, even those that were woken before: they may have got a new message since.
    pub(super) async fn due(&mut self, due: Vec<Due>) -> SentWakeups {
        let schedule = Schedule {
            // A message is due since its delivery by this clock; the function's clock may be behind.
            written_ms: self.clock.now_ms(),
            reach: self.reach,
            consistency_token: None,
        };
        let wakeups = schedule.wakeups(due);
        let now = wakeups.iter().filter(|delayed| delayed.delay.is_zero());
        self.woken.extend(now.map(|delayed| delayed.wakeup.target.clone()));
        let sent = self.notify(wakeups).await;
        // The sweep reports by itself what it had no time for.
        self.failed += sent.left;
        sent
    }

    /// Sends wakeups. A target whose wakeup is not sent stays due, and a later sweep finds it.
    pub(super) async fn notify(&mut self, mut wakeups: Vec<Delayed>) -> SentWakeups {
        let token = recent_consistency_token(&self.provider);
        for delayed in &mut wakeups {
            delayed.wakeup.consistency_token.clone_from(&token);
        }
        let mut sent = SentWakeups::default();
        for slice in wakeups.chunks(SLICE) {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                sent.left += slice.len() as u64;
                continue;
            }
            let failed = self.notifier.notify_within(left, slice.to_vec()).await.len() as u64;
            sent.failed += failed;
            sent.sent += slice.len() as u64 - failed;
        }
        self.sent += sent.sent;
        self.failed += sent.failed;
        sent
    }
}

/// The wakeups to send now for overdue items: one for each target that this run has not woken yet.
pub(super) fn overdue_wakeups(
    items: &[DueItem],
    overdue: &Overdue,
    now_ms: u64,
    queues: &mut Queues,
    woken: &mut HashSet<Target>,
) -> Vec<Delayed> {
    let mut wakeups = Vec::new();
    for item in items.iter().filter(|item| overdue.is_candidate(item)) {
        let queue = queues.queue_of(&item.target);
        match overdue.decide(item, &queues.view(&queue)) {
            Decision::Held if !woken.contains(&item.target) => queues.hold(&queue, item),
            Decision::Wake if woken.insert(item.target.clone()) => {
                let reminder = reminder(item, overdue.wait_ms(item, now_ms));
                wakeups.extend(queues.remind(&queue, item.due_ms, reminder));
            }
            Decision::Later | Decision::Held | Decision::Wake => {}
        }
    }
    wakeups
}

/// The wakeup for an overdue item.
pub(super) fn reminder(item: &DueItem, delay_ms: u64) -> Delayed {
    let mut delayed = delayed(item, delay_ms);
    delayed.wakeup.overdue = true;
    delayed
}

/// The wakeups for coming timers: one for each second in which a target has some, as after a commit. Targets whose timer is
/// late already count as woken.
pub(super) fn coming_wakeups(
    items: &[DueItem],
    coming: &Coming,
    now_ms: u64,
    woken: &mut HashSet<Target>,
) -> Vec<Delayed> {
    let mut wakeups: BTreeMap<(Duration, Target), Vec<u64>> = BTreeMap::new();
    for item in items.iter().filter(|item| coming.wakes(item)) {
        if item.due_ms <= now_ms {
            woken.insert(item.target.clone());
        }
        let delay = delay_before(item.due_ms.saturating_sub(now_ms));
        wakeups
            .entry((delay, item.target.clone()))
            .or_default()
            .push(item.due_ms);
    }
    let listed = |((delay, target), dues)| {
        let wakeup = Wakeup::to(target);
        listing(&Delayed { wakeup, delay }, dues)
    };
    wakeups.into_iter().flat_map(listed).collect()
}

fn delayed(item: &DueItem, delay_ms: u64) -> Delayed {
    let mut wakeup = Wakeup::to(item.target.clone());
    // Also for overdue items: the function's clock may be behind.
    wakeup.due_ms = Some(item.due_ms);
    Delayed {
        wakeup,
        delay: Duration::from_millis(delay_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue_view::RunTimes;
    use super::*;
    use crate::metrics::Metrics;
    use crate::notifier::memory::Memory;
    use duroxide_cosmos::WorkTarget;

    const NOW: u64 = 1_760_000_000_000;

    /// Queues of which nothing is known.
    fn queues() -> Queues {
        let metrics = Arc::new(Metrics::new(None));
        let notifier = BoundedNotifier::new(Arc::new(Memory::new()), Duration::from_secs(1), metrics);
        let run = RunTimes {
            now_ms: NOW,
            last_run_ms: 0,
            period_ms: 60_000,
            threshold_ms: 30_000,
        };
        Queues::new(BTreeMap::new(), run, notifier)
    }

    fn turn(instance: &str, due_ms: u64) -> DueItem {
        DueItem {
            target: Target::Turn {
                instance: instance.to_owned(),
            },
            due_ms,
            queued_ms: None,
            is_timer: false,
        }
    }

    fn work(instance: &str, activity: u64) -> DueItem {
        DueItem {
            target: Target::Work(WorkTarget {
                instance: instance.to_owned(),
                execution: 1,
                activity,
                tag: Some("gpu".to_owned()),
                ..WorkTarget::default()
            }),
            ..turn(instance, NOW - 60_000)
        }
    }

    #[test]
    fn an_overdue_target_is_woken_once_a_run() {
        let overdue = Overdue {
            threshold_ms: 30_000,
            period_ms: 60_000,
            last_run_ms: 0,
            now_ms: NOW,
            after_ms: 0,
        };
        let (mut woken, mut queues) = (HashSet::new(), queues());
        let page = [
            turn("a", NOW - 60_000),
            turn("a", NOW - 50_000),
            turn("b", NOW - 10_000),
            work("a", 2),
            work("a", 3),
        ];
        let wakeups = overdue_wakeups(&page, &overdue, NOW, &mut queues, &mut woken);
        assert_eq!(wakeups.len(), 3, "{wakeups:?}");
        assert!(wakeups.iter().all(|delayed| delayed.delay.is_zero()));
        assert_eq!(wakeups[0].wakeup.due_ms, Some(NOW - 60_000));
        let Target::Work(of) = &wakeups[1].wakeup.target else {
            panic!("{wakeups:?}")
        };
        assert_eq!((of.activity, of.tag.as_deref()), (2, Some("gpu")));
        assert!(
            overdue_wakeups(&page, &overdue, NOW, &mut queues, &mut woken).is_empty(),
            "woken already"
        );
    }

    #[test]
    fn a_timer_whose_wakeup_may_be_in_flight_is_woken_a_little_later() {
        let overdue = Overdue {
            threshold_ms: 30_000,
            period_ms: 60_000,
            last_run_ms: NOW - 60_000,
            now_ms: NOW,
            after_ms: 0,
        };
        let timer = DueItem {
            queued_ms: Some(NOW - 90_000),
            ..turn("a", NOW - 500)
        };
        let one = std::slice::from_ref(&timer);
        let wakeups = overdue_wakeups(one, &overdue, NOW, &mut queues(), &mut HashSet::new());
        assert_eq!(wakeups[0].delay, Duration::from_millis(1_500));
        let wakeups = overdue_wakeups(one, &overdue, NOW + 9_000, &mut queues(), &mut HashSet::new());
        assert_eq!(wakeups[0].delay, Duration::ZERO, "the run took its time");
        // Unless it was late when its wakeup was sent, a moment ago.
        let mut woken = HashSet::new();
        let coming = Coming::new(0, NOW, 60_000, 10_000);
        assert_eq!(
            coming_wakeups(std::slice::from_ref(&timer), &coming, NOW, &mut woken).len(),
            1
        );
        assert!(overdue_wakeups(&[timer], &overdue, NOW, &mut queues(), &mut woken).is_empty());
    }

    #[test]
    fn coming_timers_of_one_second_are_one_wakeup_for_the_first_and_other_seconds_have_their_own() {
        let coming = Coming::new(0, NOW, 60_000, 10_000);
        let page = [
            turn("a", NOW + 4_100),
            turn("a", NOW + 4_900),
            turn("b", NOW + 4_900),
            turn("a", NOW + 9_000),
            turn("late", NOW + 500),
            turn("late", NOW - 500),
        ];
        let mut woken = HashSet::new();
        let wakeups = coming_wakeups(&page, &coming, NOW, &mut woken);
        let late: Vec<&str> = woken.iter().map(Target::instance).collect();
        assert_eq!(late, ["late"]);
        let of = |delayed: &Delayed| {
            let dues: Vec<u64> = delayed.wakeup.dues().collect();
            (delayed.wakeup.target.instance().to_owned(), dues, delayed.delay)
        };
        let sent: Vec<_> = wakeups.iter().map(of).collect();
        let seconds = Duration::from_secs;
        assert_eq!(
            sent,
            [
                ("late".to_owned(), vec![NOW - 500, NOW + 500], seconds(0)),
                ("a".to_owned(), vec![NOW + 4_100, NOW + 4_900], seconds(4)),
                ("b".to_owned(), vec![NOW + 4_900], seconds(4)),
                ("a".to_owned(), vec![NOW + 9_000], seconds(8)),
            ]
        );
    }
}
