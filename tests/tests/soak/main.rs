//! A soak: thousands of random orchestrations, while everything around them fails.
//!
//! ```text
//!   driver ── starts, events, cancellations ──> client ── faults ──┐
//!   queue ─── loses, repeats, delays wakeups ─> environments ──────┼── one store, three physical partitions
//!             (killed at random; two builds)    maintenance ───────┘
//!   check ─── predicts every output without running anything, and reads the store without faults
//! ```
//!
//! `script` holds the random orchestrations and the model that predicts what they return; `fleet` the environments, the
//! queue between them and their deaths; `driver` what clients do, and when. The model knows nothing of duroxide or of the
//! store. A run comes in waves with a store and a seed of their own, so that a failure can be repeated alone.

mod check;
mod driver;
mod fleet;
mod script;

use driver::Driver;
use fleet::Fleet;
use std::sync::Arc;
use std::time::Instant;

/// One wave: so many orchestrations with this seed. Returns how many there were, children included, and how many faults.
async fn wave(count: usize, seed: u64) -> (usize, usize) {
    let begun = Instant::now();
    let jobs = Arc::new(script::jobs(count, seed));
    let fleet = Fleet::start(seed).await;
    let driver = Driver::new(fleet.client(), Arc::clone(fleet.calm_provider()), seed);
    let accepted = fleet.run_while(driver.drive(&jobs)).await;
    let faults = fleet.faults();
    fleet.calm().await;
    let orchestrations = check::everything(&fleet, &jobs, &accepted).await;
    println!(
        "seed {seed}: {orchestrations} orchestrations, {faults}, {:.1?}",
        begun.elapsed()
    );
    faults.assert_each();
    (orchestrations, faults.total())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_start_event_and_result_takes_effect_once() {
    wave(40, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 1,000 orchestrations; SOAK_ORCHESTRATIONS sets another number"]
async fn a_thousand_orchestrations_survive_faults_kills_and_two_builds() {
    let least = std::env::var("SOAK_ORCHESTRATIONS").map_or(1_000, |count| count.parse().expect("a number"));
    let (mut orchestrations, mut faults, mut seed) = (0, 0, 100);
    while orchestrations < least {
        // Two at once: each waits for locks and timers much of the time.
        let waves = futures::join!(wave(500, seed), wave(500, seed + 1));
        orchestrations += waves.0.0 + waves.1.0;
        faults += waves.0.1 + waves.1.1;
        seed += 2;
    }
    println!("{orchestrations} orchestrations, {faults} faults");
}
