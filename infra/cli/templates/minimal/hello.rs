//! The orchestration `hello` on a simulated cloud: no server, no network, and time that skips.

use duroxide_lambda::testing::Simulation;
use workflows::{activities, orchestrations};

#[test]
fn hello_greets_whom_its_input_names() {
    let ended = Simulation::of(orchestrations(), activities()).run("hello", "world");
    assert_eq!(ended.expect_completed(), "Hello world!");
    assert_eq!(ended.inputs_of("greet"), ["world"]);
}

#[test]
fn hello_fails_when_nobody_can_be_greeted() {
    let mut cloud = Simulation::of(orchestrations(), activities())
        .activity("greet", |_| Err("nobody is there".to_owned()));
    let error = cloud.run("hello", "world").expect_failed();
    assert!(error.contains("nobody is there"), "{error}");
}
