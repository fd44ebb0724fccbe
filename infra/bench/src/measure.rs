//! The numbers of one side in one workload, as the emulator's listener counted them.

use std::time::Duration;

use cosmos_emulator::Counts;
use serde::Serialize;

use crate::arena::Side;

/// How a workload ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Every result was right.
    Right,
    /// The first wrong result or failed orchestration.
    Wrong(String),
    /// The limit was reached.
    DidNotFinish,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// The workload.
    pub workload: String,
    /// Which provider ran it.
    pub side: Side,
    /// The variant, if there are several.
    pub how: &'static str,
    /// Orchestrations or fetches.
    pub units: usize,
    /// All requests.
    pub requests: u64,
    /// Queries over more than one logical partition.
    pub cross_partition_queries: u64,
    /// Documents created, replaced or deleted.
    pub documents_written: u64,
    /// The estimated charge in request units, by the emulator's model (`docs/emulator.md`).
    pub request_units: f64,
    /// Bytes of request bodies.
    pub bytes_written: u64,
    /// Bytes of reply bodies.
    pub bytes_read: u64,
    /// The whole time, or the median of one fetch.
    pub seconds: f64,
    /// Processor seconds of the emulator, and of everything else.
    pub processor_seconds: (f64, f64),
    /// Activity runs, repeated ones included.
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
            request_units: counts.request_units(),
            bytes_written: counts.request_bytes,
            bytes_read: counts.response_bytes,
            seconds: 0.0,
            processor_seconds: (0.0, 0.0),
            activities_run: 0,
            end: End::Right,
        }
    }

    /// Sets the variant.
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
    pub fn each(&self, number: f64) -> f64 {
        number / self.units.max(1) as f64
    }
}
