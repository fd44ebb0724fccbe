//! The medians, their ratios to the bare function, and the limits.

use std::fs;

use anyhow::Result;

use crate::binaries::Binary;
use crate::start::Start;

const MAX_INIT_RATIO: f64 = 3.0;
const MAX_RESIDENT_RATIO: f64 = 3.0;
const MAX_BINARY_MB: f64 = 15.0;

/// The medians of one function.
#[derive(Debug)]
pub struct Row {
    name: String,
    /// Milliseconds: the median, the least and the most.
    init: (f64, f64, f64),
    processor_ms: f64,
    resident_mb: f64,
    anonymous_mb: f64,
    binary_mb: f64,
    invocation_ms: f64,
    resident_after_mb: f64,
}

impl Row {
    /// The medians of a function's starts.
    pub fn new(binary: &Binary, starts: &[Start]) -> Result<Row> {
        let sorted = |value: &dyn Fn(&Start) -> f64| {
            let mut values: Vec<f64> = starts.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let median = |value: &dyn Fn(&Start) -> f64| middle(&sorted(value));
        let init = sorted(&|start| start.init.as_secs_f64() * 1e3);
        let (least, most) = (init.first().copied(), init.last().copied());
        Ok(Row {
            name: binary.name.clone(),
            init: (middle(&init), least.unwrap_or(f64::NAN), most.unwrap_or(f64::NAN)),
            processor_ms: median(&|start| start.processor.as_secs_f64() * 1e3),
            resident_mb: median(&|start| megabytes(start.resident.total)),
            anonymous_mb: median(&|start| megabytes(start.resident.anonymous)),
            binary_mb: fs::metadata(&binary.path)?.len() as f64 / 1e6,
            invocation_ms: median(&|start| start.invocation.as_secs_f64() * 1e3),
            resident_after_mb: median(&|start| megabytes(start.resident_after.total)),
        })
    }

    /// The limits that this row exceeds, compared with the bare one.
    fn exceeded(&self, bare: &Row) -> Vec<String> {
        [
            ("init", self.init.0 / bare.init.0, MAX_INIT_RATIO, "x bare"),
            (
                "resident memory",
                self.resident_mb / bare.resident_mb,
                MAX_RESIDENT_RATIO,
                "x bare",
            ),
            ("binary", self.binary_mb, MAX_BINARY_MB, "MB"),
        ]
        .into_iter()
        // Not `value > limit`: a value that is not a number must not pass.
        .filter(|(_, value, limit, _)| value.partial_cmp(limit).is_none_or(|order| order.is_gt()))
        .map(|(what, value, limit, unit)| format!("{}: {what} {value:.2} {unit}, limit {limit}", self.name))
        .collect()
    }
}

/// Prints the table and the limits; the first row is the bare function. Returns whether all limits hold.
pub fn print(rows: &[Row], starts: usize) -> bool {
    let Some((bare, functions)) = rows.split_first() else {
        return false;
    };
    println!("Medians of {starts} cold starts each, interleaved; in brackets the ratio to bare. MB = 10^6 bytes.\n");
    println!(
        "| function | init ms | least-most | cpu ms | RSS MB | anonymous MB | binary MB | 1st call ms | RSS after MB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let (init, least, most) = row.init;
        println!(
            "| {} | {} | {least:.1}-{most:.1} | {} | {} | {} | {:.2} | {} | {} |",
            row.name,
            ratio(init, bare.init.0),
            ratio(row.processor_ms, bare.processor_ms),
            ratio(row.resident_mb, bare.resident_mb),
            ratio(row.anonymous_mb, bare.anonymous_mb),
            row.binary_mb,
            ratio(row.invocation_ms, bare.invocation_ms),
            ratio(row.resident_after_mb, bare.resident_after_mb),
        );
    }
    let exceeded: Vec<String> = functions.iter().flat_map(|row| row.exceeded(bare)).collect();
    println!();
    for line in &exceeded {
        println!("EXCEEDED {line}");
    }
    if exceeded.is_empty() {
        println!(
            "ok: init and RSS at most {MAX_INIT_RATIO}x, {MAX_RESIDENT_RATIO}x bare, binaries at most {MAX_BINARY_MB} MB"
        );
    }
    exceeded.is_empty()
}

fn ratio(value: f64, bare: f64) -> String {
    format!("{value:.2} ({:.2}x)", value / bare)
}

fn megabytes(kibibytes: u64) -> f64 {
    kibibytes as f64 * 1024.0 / 1e6
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}
