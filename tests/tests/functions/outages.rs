//! A store that is unreachable while a step commits: it costs time, and the workflow does not notice.

use crate::activities::*;
use cosmos::Clock;
use cosmos_emulator::Faults;
use duroxide_lambda::{Limits, Target, Wakeup};
use std::slice::from_ref;
use std::time::Duration;
use tests::cloud::Function;

const LOCK: Duration = Duration::from_secs(8);

fn limits() -> Limits {
    Limits {
        concurrency: 1,
        work_lock: LOCK,
        turn_lock: LOCK,
        ..Limits::default()
    }
}

/// Makes the store unreachable after the workflow code that runs next.
fn leaves(stage: &Stage, function: &Function) {
    let listener = function.listener.clone();
    stage.then(move || {
        listener.set_faults(Faults {
            unavailable: 1.0,
            ..Faults::default()
        });
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_of_the_store_only_delays_a_commit() {
    let (cloud, stage, _) = cloud(limits()).await;
    let wakeup = start(&cloud, "order", "Run", "Quick").await;
    leaves(&stage, &cloud.orchestrator);
    let comes_back = async {
        until(|| cloud.orchestrator.listener.counts().batches >= 3).await;
        cloud.orchestrator.listener.clear_faults();
    };
    let (response, ()) = futures::join!(cloud.orchestrator.invoke(from_ref(&wakeup)), comes_back);
    served(&response);
    assert_outcomes(&cloud.orchestrator, &[("Committed", 1)]);

    let wakeup = only(cloud.queue.take()).wakeup;
    leaves(&stage, &cloud.worker);
    let comes_back = async {
        until(|| cloud.worker.listener.counts().batches >= 3).await;
        cloud.worker.listener.clear_faults();
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), comes_back);
    served(&response);
    assert_outcomes(&cloud.worker, &[("Committed", 1)]);
    assert_output(&conclude(&cloud, "order").await, "quick");
    assert_eq!(stage.count("began", "order"), 1);
}

/// It is back when the lock has expired. The runtime then tries to fail the orchestration instead of the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn an_outage_longer_than_the_lock_does_not_fail_the_orchestration() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let mut wakeup = start(&cloud, "order", "Turn", "").await;
    // It was sent again, so it claims.
    wakeup.tries = 1;
    leaves(&stage, &cloud.orchestrator);
    let comes_back = async {
        until(|| stage.count("began", "order") == 1).await;
        let lock = cloud.world.document("order", "instance").await.expect("a lock");
        let over = lock["until"].as_u64().expect("a time");
        until(|| clock.now_ms() > over).await;
        cloud.orchestrator.listener.clear_faults();
    };
    let (response, ()) = futures::join!(cloud.orchestrator.invoke(from_ref(&wakeup)), comes_back);
    // The renewal may get through first, and then the commit does as well. Else the record is delivered again.
    let committed = response.batch_item_failures.is_empty();
    assert_outcomes(
        &cloud.orchestrator,
        &[(if committed { "Committed" } else { "Failed" }, 1)],
    );
    clock.advance(LOCK);
    served(&cloud.orchestrator.invoke(&[wakeup]).await);
    assert_output(&status(&cloud, "order").await, "turned");
    let history = cloud.client.read_execution_history("order", 1).await;
    assert_eq!(history.expect("a history").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn an_outage_longer_than_the_lock_loses_no_activity() {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Quick").await;
    leaves(&stage, &cloud.worker);
    let comes_back = async {
        until(|| stage.count("began", "order") == 1).await;
        let item = work_item(&cloud, "order").await.expect("a work item");
        let over = item["until"].as_u64().expect("a time");
        until(|| clock.now_ms() > over).await;
        cloud.worker.listener.clear_faults();
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&wakeup)), comes_back);
    let lost = !response.batch_item_failures.is_empty();
    // It is abandoned, or its record is delivered again; or a renewal got through first, and it is complete.
    let again = cloud.queue.take().into_iter().map(|delayed| delayed.wakeup);
    let again: Vec<Wakeup> = again.chain(lost.then_some(wakeup)).collect();
    assert!(!again.is_empty());
    clock.advance(LOCK);
    let (turns, works): (Vec<Wakeup>, Vec<Wakeup>) = again
        .into_iter()
        .partition(|wakeup| matches!(wakeup.target, Target::Turn { .. }));
    served(&cloud.orchestrator.invoke(&turns).await);
    served(&cloud.worker.invoke(&works).await);
    assert_output(&conclude(&cloud, "order").await, "quick");
}
