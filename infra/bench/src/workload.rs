//! The workloads: which orchestrations, how many at once, and what each must answer.

use crate::workflows::{self, CITIES, FAN_OUT, HELLO_CITIES, PARENT};

/// Some orchestrations that are started at once.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name on the command line and in the table.
    pub name: String,
    /// The orchestration's name.
    pub orchestration: &'static str,
    /// Its input.
    pub input: String,
    /// How many are started.
    pub instances: usize,
    /// How many activities each runs.
    pub activities: usize,
    /// What each must answer.
    pub answer: String,
}

/// The workloads with the strictest targets begin with this.
pub const HELLO: &str = "hello-cities";
/// The one whose throughput has a target.
pub const CONCURRENT_HELLO: &str = "hello-cities x50";

impl Workload {
    fn hello(instances: usize) -> Self {
        Workload {
            name: format!("{HELLO} x{instances}"),
            orchestration: HELLO_CITIES,
            input: String::new(),
            instances,
            activities: CITIES.len(),
            answer: workflows::hello_cities_answer(),
        }
    }

    fn fan_out(width: usize) -> Self {
        Workload {
            name: format!("fan-out {width}"),
            orchestration: FAN_OUT,
            input: width.to_string(),
            instances: 1,
            activities: width,
            answer: workflows::fan_out_answer(width),
        }
    }

    fn parent_and_child(instances: usize) -> Self {
        Workload {
            name: format!("parent-child x{instances}"),
            orchestration: PARENT,
            input: "child".to_owned(),
            instances,
            activities: 1,
            answer: workflows::parent_answer("child"),
        }
    }
}

/// All of them, or the small ones.
pub fn workloads(quick: bool) -> Vec<Workload> {
    let mut all = vec![
        Workload::hello(1),
        Workload::fan_out(20),
        Workload::parent_and_child(10),
    ];
    if !quick {
        all.insert(1, Workload::hello(50));
        all.insert(3, Workload::fan_out(150));
        all.insert(4, Workload::fan_out(1_000));
    }
    all
}

/// The backlogs under which a fetch is measured.
pub fn backlogs(quick: bool) -> Vec<usize> {
    if quick {
        vec![10, 1_000]
    } else {
        vec![10, 1_000, 10_000]
    }
}
