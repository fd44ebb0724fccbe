use super::*;
use crate::notifier::{QueueName, QueueSettings};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn of_queue(name: QueueName, visibility: u64, max_receives: Option<u32>) -> Check {
    let finding = QueueFinding {
        name,
        settings: Ok(Some(QueueSettings {
            visibility: seconds(visibility),
            max_receives,
            retention: None,
        })),
        round_trip: Duration::ZERO,
    };
    queue(&finding, &Limits::default()).expect("it has settings")
}

#[test]
fn a_percentile_is_one_of_the_values() {
    let hundred: Vec<u32> = (1..=100).rev().collect();
    assert_eq!(percentile(&hundred, 50), Some(50));
    assert_eq!(percentile(&hundred, 99), Some(99));
    assert_eq!(percentile(&[7], 99), Some(7));
    assert_eq!(percentile::<u32>(&[], 50), None);
}

#[test]
fn a_queue_must_hide_a_wakeup_for_longer_than_a_lock_and_deliver_it_more_often_than_a_step_is_tried() {
    let limits = Limits::default();
    let enough = Some(limits.max_attempts + 5);
    for name in [QueueName::turns(), QueueName::works(), QueueName::tagged("gpu")] {
        assert_eq!(of_queue(name.clone(), 180, enough).state, CheckState::Ok, "{name}");
        let short = of_queue(name.clone(), 5, enough);
        assert_eq!(short.state, CheckState::Failed, "{name}");
        assert!(short.advice.is_some_and(|advice| advice.contains("visibility timeout")));
        let few = of_queue(name.clone(), 180, Some(limits.max_attempts));
        assert_eq!(few.state, CheckState::Failed, "{name}");
        assert!(few.advice.is_some_and(|advice| advice.contains("maxReceiveCount")));
        assert_eq!(of_queue(name, 180, None).state, CheckState::Warning);
    }
}

#[test]
fn settings_that_cannot_be_read_are_a_failure_and_a_notifier_without_queues_is_none() {
    let finding = |settings| QueueFinding {
        name: QueueName::turns(),
        settings,
        round_trip: Duration::ZERO,
    };
    let limits = Limits::default();
    let denied = queue(&finding(Err("AccessDenied".to_owned())), &limits).expect("a check");
    assert_eq!(
        (denied.state, denied.found.as_str()),
        (CheckState::Failed, "AccessDenied")
    );
    assert_eq!(queue(&finding(Ok(None)), &limits), None);
}

#[test]
fn a_clock_is_off_only_if_that_is_certain() {
    let state = |ahead_ms, accuracy_ms| clock(Some(&ClockReading { ahead_ms, accuracy_ms })).state;
    assert_eq!(state(2_400, 500), CheckState::Ok);
    assert_eq!(state(-2_400, 500), CheckState::Ok);
    assert_eq!(state(-3_000, 500), CheckState::Warning);
    assert_eq!(state(700_000, 500), CheckState::Failed);
    assert_eq!(clock(None).state, CheckState::Warning);
}

#[test]
fn a_store_that_is_far_away_is_a_warning() {
    let read = |millis| OperationCost {
        name: "read",
        samples: 1,
        requests: 1,
        median: Duration::from_millis(millis),
        p99: Duration::from_millis(millis),
        milli_request_units: 1_000,
    };
    assert_eq!(distance(&[read(10)]).expect("a check").state, CheckState::Ok);
    assert_eq!(distance(&[read(90)]).expect("a check").state, CheckState::Warning);
    assert_eq!(distance(&[]), None);
}

#[test]
fn maintenance_runs_twice_before_a_far_timer_is_due() {
    let limits = Limits::default();
    let every = |period| {
        let settings = MaintenanceSettings {
            period,
            ..MaintenanceSettings::default()
        };
        schedule(&settings, &limits).expect("a check").state
    };
    assert_eq!(every(seconds(60)), CheckState::Ok);
    assert_eq!(every(limits.wakeup_reach), CheckState::Failed);
}

#[test]
fn a_missing_container_and_missing_permissions_are_failures() {
    assert_eq!(container(&Ok(Some(Vec::new()))).state, CheckState::Ok);
    for bad in [Ok(None), Err("403".to_owned())] {
        assert_eq!(container(&bad).state, CheckState::Failed);
    }
    assert_eq!(permissions(&[], seconds(10)).state, CheckState::Failed);
    let made = MeasuredOperation::default();
    assert_eq!(
        permissions(std::slice::from_ref(&made), seconds(10)).state,
        CheckState::Ok
    );
    let mut refused = made.clone();
    (refused.error, refused.denied) = (Some("403".to_owned()), true);
    let refused = permissions(&[made, refused], seconds(10));
    assert_eq!(
        (refused.name.as_str(), refused.state),
        ("store permissions", CheckState::Failed)
    );
}

#[test]
fn an_operation_that_did_not_end_in_time_is_no_missing_permission() {
    let mut late = MeasuredOperation::default();
    (late.name, late.timed_out) = ("read", true);
    let mut throttled = MeasuredOperation::default();
    (throttled.name, throttled.error) = ("commit", Some("429".to_owned()));
    let cases = [
        (late, "read: the time limit of 10 s was over"),
        (throttled, "commit: 429"),
    ];
    for (operation, found) in cases {
        let check = permissions(&[MeasuredOperation::default(), operation], seconds(10));
        assert_eq!(
            (check.name.as_str(), check.state, check.found.as_str()),
            ("store operations", CheckState::Failed, found)
        );
        assert!(check.advice.is_some_and(|advice| !advice.contains("role")));
    }
}
