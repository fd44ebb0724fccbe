//! What one side did in one workload, as the server's listener counted it.

use std::time::Duration;

use cosmos_emulator::Counts;
use serde::Serialize;

use crate::arena::Side;

/// How a workload ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Every answer was right.
    Right,
    /// An answer was wrong, or an orchestration failed; the first one.
    Wrong(String),
    /// The time was up first.
    DidNotFinish,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// The workload.
    pub workload: String,
    /// Who ran it.
    pub side: Side,
    /// How they ran it, if there are several ways.
    pub how: &'static str,
    /// Orchestrations, or fetches: what the numbers are divided by.
    pub units: usize,
    /// All requests.
    pub requests: u64,
    /// Those that ask more than one logical partition.
    pub cross_partition_queries: u64,
    /// Documents that were created, replaced or deleted.
    pub documents_written: u64,
    /// Bytes of bodies, both ways.
    pub bytes: u64,
    /// The whole time, or the median of one fetch.
    pub seconds: f64,
    /// Activities that ran, those that ran twice included.
    pub activities_run: u64,
    /// How it ended.
    pub end: End,
}

impl Measure {
    /// A row without activities.
    pub fn new(workload: &str, side: Side, units: usize, counts: &Counts) -> Measure {
        Measure {
            workload: workload.to_owned(),
            side,
            how: "",
            units,
            requests: counts.requests,
            cross_partition_queries: counts.cross_partition_queries,
            documents_written: counts.documents_written,
            bytes: counts.request_bytes + counts.response_bytes,
            seconds: 0.0,
            activities_run: 0,
            end: End::Right,
        }
    }

    /// Names the way it was run.
    pub fn how(mut self, how: &'static str) -> Measure {
        self.how = how;
        self
    }

    /// Sets the time.
    pub fn took(mut self, time: Duration) -> Measure {
        self.seconds = time.as_secs_f64();
        self
    }

    /// A number for each orchestration or fetch.
    pub fn each(&self, number: u64) -> f64 {
        number as f64 / self.units.max(1) as f64
    }
}
