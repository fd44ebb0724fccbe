//! Prints the requests of a run, to find superfluous ones.

use std::time::Instant;

use cosmos_emulator::RequestRecord;

/// Prints each request with its time since `origin`.
pub fn print(log: &[RequestRecord], origin: Instant) {
    for record in log {
        let at = record.started.saturating_duration_since(origin);
        let took = record.finished.saturating_duration_since(record.started);
        eprintln!(
            "{:9.2} ms {:6.2} ms  {:<20} {:>4} {:>4} ops {:8.2} RU  {} {}",
            at.as_secs_f64() * 1e3,
            took.as_secs_f64() * 1e3,
            format!("{:?}", record.kind),
            record
                .status
                .map_or_else(|| "-".to_owned(), |status| status.to_string()),
            record.operations,
            record.charge,
            record.partition_key.as_deref().unwrap_or("-"),
            record.path.rsplit('/').next().unwrap_or_default(),
        );
    }
}
