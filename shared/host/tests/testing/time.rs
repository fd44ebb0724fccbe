//! The clock that skips.

use crate::support::{DAY, of};
use duroxide::Either2;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[test]
fn a_timer_of_thirty_days_takes_no_time() {
    let began = Instant::now();
    let mut simulation = of(|ctx, _| async move {
        ctx.schedule_timer(30 * DAY).await;
        Ok("done".to_owned())
    });
    let ended = simulation.run("flow", "");
    assert_eq!(ended.expect_completed(), "done");
    assert_eq!(ended.timers(), [30 * DAY]);
    assert_eq!(ended.elapsed(), 30 * DAY);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn utc_now_follows_the_clock() {
    let start = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut simulation = of(|ctx, _| async move {
        let before = ctx.utc_now().await?;
        ctx.schedule_timer(Duration::from_millis(1_234)).await;
        ctx.schedule_timer(3 * DAY).await;
        let after = ctx.utc_now().await?;
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_millis();
        Ok(format!("{} {}", since(before), since(after) - since(before)))
    })
    .starting_at(start);
    let ended = simulation.run("flow", "");
    assert_eq!(ended.expect_completed(), "1000000000000 259201234");
    assert_eq!(simulation.now(), start + 3 * DAY + Duration::from_millis(1_234));
}

#[test]
fn timers_fire_in_the_order_of_their_delays_and_not_of_their_creation() {
    for _ in 0..20 {
        let mut simulation = of(|ctx, _| async move {
            let delays = [5_u64, 1, 3, 2, 4];
            let waits = delays.map(|ms| {
                let timer = ctx.schedule_timer(Duration::from_millis(ms));
                let ctx = ctx.clone();
                async move {
                    timer.await;
                    ctx.set_custom_status(ms.to_string());
                }
            });
            ctx.join(waits.into()).await;
            Ok(String::new())
        });
        let ended = simulation.run("flow", "");
        ended.expect_completed();
        assert_eq!(ended.custom_statuses(), ["1", "2", "3", "4", "5"]);
        assert_eq!(ended.timers(), [5, 1, 3, 2, 4].map(Duration::from_millis));
    }
}

#[test]
fn time_within_activities_is_virtual_and_activities_run_side_by_side() {
    let slow = |ctx: duroxide::OrchestrationContext, _: String| async move {
        let all = (0..40).map(|n| ctx.schedule_activity("slow", n.to_string())).collect();
        ctx.join(all).await;
        Ok("done".to_owned())
    };
    let mut simulation = of(slow)
        .activity("slow", Ok)
        .activity_takes("slow", Duration::from_secs(20));
    let ended = simulation.run("flow", "");
    ended.expect_completed();
    assert_eq!(ended.elapsed(), Duration::from_secs(20));
}

#[test]
fn a_slow_activity_loses_against_a_timer() {
    let race = |ctx: duroxide::OrchestrationContext, _: String| async move {
        let timer = ctx.schedule_timer(Duration::from_secs(10));
        match ctx.select2(ctx.schedule_activity("slow", ""), timer).await {
            Either2::First(_) => Ok("activity".to_owned()),
            Either2::Second(()) => Ok("timer".to_owned()),
        }
    };
    for (takes, winner) in [(9, "activity"), (11, "timer")] {
        let takes = Duration::from_secs(takes);
        let mut simulation = of(race).activity("slow", Ok).activity_takes("slow", takes);
        assert_eq!(simulation.run("flow", "").expect_completed(), winner);
    }
}

#[test]
fn time_moves_step_by_step() {
    let mut simulation = of(|ctx, _| async move {
        for day in 1..=3 {
            ctx.schedule_timer(DAY).await;
            ctx.set_custom_status(format!("day {day}"));
        }
        Ok("over".to_owned())
    });
    simulation.start("a", "flow", "");
    simulation.advance(Duration::ZERO);
    assert_eq!(simulation.instance("a").expect_waiting(), ["timer due in 1d"]);
    simulation.advance(DAY);
    assert_eq!(simulation.instance("a").custom_status(), Some("day 1"));
    simulation.advance(DAY / 2);
    assert_eq!(simulation.instance("a").custom_status(), Some("day 1"));
    simulation.advance(DAY / 2);
    assert_eq!(simulation.instance("a").custom_status(), Some("day 2"));
    simulation.run_to_end("a").expect_completed();
}

#[test]
fn retries_back_off_on_the_clock() {
    let mut simulation = of(|ctx, _| async move {
        let backoff = duroxide::BackoffStrategy::Exponential {
            base: Duration::from_secs(60),
            multiplier: 2.0,
            max: Duration::from_secs(3_600),
        };
        let policy = duroxide::RetryPolicy::new(4).with_backoff(backoff);
        ctx.schedule_activity_with_retry("flaky", "", policy).await
    })
    .activity("flaky", |_| Ok("at last".to_owned()))
    .fail_activity("flaky", 1..=3, "no answer");
    let ended = simulation.run("flow", "");
    assert_eq!(ended.expect_completed(), "at last");
    assert_eq!(ended.runs_of("flaky"), 4);
    assert_eq!(ended.timers(), [60, 120, 240].map(Duration::from_secs));
    assert_eq!(ended.elapsed(), Duration::from_secs(420));
}

#[test]
fn a_timer_of_ten_years_is_no_problem() {
    let mut simulation = of(|ctx, _| async move {
        ctx.schedule_timer(3_652 * DAY).await;
        Ok(String::new())
    });
    assert_eq!(simulation.run("flow", "").elapsed(), 3_652 * DAY);
}

/// duroxide reads the wall clock for a timer. Where it moves while the code is polled, the turn is run again.
#[test]
fn a_timer_is_exact_though_the_code_is_slow_at_first() {
    let polls = Arc::new(AtomicU32::new(0));
    let slow = {
        let polls = Arc::clone(&polls);
        move |ctx: duroxide::OrchestrationContext, _: String| {
            let polls = Arc::clone(&polls);
            async move {
                if polls.fetch_add(1, Ordering::Relaxed) < 3 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                ctx.schedule_timer(DAY).await;
                Ok(String::new())
            }
        }
    };
    let ended = of(slow).run("flow", "");
    assert_eq!(ended.timers(), [DAY]);
    assert!(polls.load(Ordering::Relaxed) >= 4, "the first turn was repeated");
}
