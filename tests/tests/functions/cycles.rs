//! Exactly one cycle per ring.

use duroxide::runtime::OrchestrationStatus;
use tests::cloud::Cloud;
use tests::workload;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_runs_to_its_end_by_rings_alone() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    cloud
        .client
        .start_orchestration("HelloCities-1", "HelloCities", "1")
        .await
        .expect("it starts");
    cloud.settle().await;
    let status = cloud
        .client
        .get_orchestration_status("HelloCities-1")
        .await
        .expect("a status");
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    println!(
        "{:?} {:?} rings {}",
        cloud.orchestrator.door.counts(),
        cloud.worker.door.counts(),
        cloud.bell.count()
    );
}
