//! duroxide's stress tests, briefly.

use crate::Factory;
use async_trait::async_trait;
use duroxide::provider_stress_tests::StressTestConfig;
use duroxide::provider_stress_tests::large_payload::{LargePayloadConfig, run_large_payload_test_with_config};
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::providers::Provider;
use std::sync::Arc;

#[async_trait]
impl ProviderStressFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.fresh_provider().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: duroxide's stress tests, under load for seconds"]
async fn parallel_orchestrations_all_complete() {
    let config = StressTestConfig {
        duration_secs: 5,
        wait_timeout_secs: 600,
        ..StressTestConfig::default()
    };
    let factory = Factory::default();
    let result = run_parallel_orchestrations_test_with_config(&factory, config)
        .await
        .expect("the stress runs");
    assert!(result.completed > 0 && result.failed == 0, "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: duroxide's stress tests, under load for seconds"]
async fn large_payloads_all_complete() {
    let mut config = LargePayloadConfig::default();
    config.base.duration_secs = 5;
    config.base.wait_timeout_secs = 600;
    let factory = Factory::default();
    let result = run_large_payload_test_with_config(&factory, config)
        .await
        .expect("the stress runs");
    assert!(result.completed > 0 && result.failed == 0, "{result:?}");
}
