//! Stores that hang, or one of whose partitions does: a run ends in time, does what it can, and tells.

use crate::function::*;
use crate::hand::{enqueue, start_of};
use crate::support::*;
use duroxide_lambda::maintenance::PassName;
use duroxide_lambda::{Budget, MaintenanceRequest};
use local::{Refusing, RequestKind};
use std::time::{Duration, Instant};

/// A budget of which two seconds are for the passes.
const SHORT: Duration = Duration::from_secs(5);
/// Far more than a short run takes, on any machine; less than an operation would wait for the store.
const TOO_LONG: Duration = Duration::from_secs(25);

#[tokio::test]
async fn a_state_that_cannot_be_read_costs_a_run_no_more_than_its_budget() {
    let debts = Debts::new().await;
    enqueue(&debts.provider, start_of("forgotten")).await;
    debts.clock.advance(Duration::from_secs(40));
    let (door, provider) = debts.process().await;
    let (maintenance, bell) = maintenance(&provider, &debts.clock, settings());
    let sweep = MaintenanceRequest {
        passes: vec![PassName::Sweep],
        ..MaintenanceRequest::default()
    };
    // The state document is the only single read of a run.
    door.reset();
    door.refuse_when(|request| (request.kind == RequestKind::Read).then(|| Refusing::with(503)));
    let begun = Instant::now();
    let report = maintenance.run(sweep.clone(), Budget::of(SHORT)).await;
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    assert!(door.counts().requests > 0, "it was asked for");
    assert!(report.left_over && bell.count() == 0, "{report:?}");
    door.refuse_nothing();
    assert_complete(&maintenance.run(sweep, Budget::of(ENOUGH)).await);
    assert_eq!(rung(&bell), ["forgotten"]);
}
