//! The targets, and whether the rows reach them.

use crate::arena::Side;
use crate::measure::{End, Measure};
use crate::table::pairs;
use crate::workload::{CONCURRENT_HELLO, HELLO};

const REQUESTS: f64 = 0.40;
const HELLO_REQUESTS: f64 = 0.10;
const REQUEST_UNITS: f64 = 0.50;
const DOCUMENTS: f64 = 0.50;
const CONCURRENT_SPEED: f64 = 25.0;

/// One line for each target that applies to the rows.
pub fn targets(rows: &[Measure]) -> Vec<String> {
    let mut lines = Vec::new();
    for peer in rows.iter().filter(|row| row.side == Side::Peer) {
        let Some(ours) = rows.iter().find(|row| pairs(row, peer)) else {
            continue;
        };
        lines.extend(compare(ours, peer));
    }
    let sqlite = rows
        .iter()
        .filter(|row| row.side == Side::Sqlite && row.workload == CONCURRENT_HELLO);
    for sqlite in sqlite {
        let ours = rows.iter().find(|row| pairs(row, sqlite));
        lines.extend(ours.map(|ours| compare_speed(ours, sqlite)));
        lines.extend(ours.map(|ours| profile(ours, sqlite)));
    }
    let directed: Vec<_> = rows
        .iter()
        .filter(|row| row.side == Side::Ours && !row.how.is_empty())
        .collect();
    if !directed.is_empty() {
        let crossing: u64 = directed.iter().map(|row| row.cross_partition_queries).sum();
        lines.push(line(
            Some(crossing == 0),
            &format!("directed paths: {crossing} cross-partition queries (target 0)"),
        ));
    }
    lines
}

fn compare(ours: &Measure, peer: &Measure) -> Vec<String> {
    let name = match peer.how {
        "" => ours.workload.clone(),
        how => format!("{} (peer {how})", ours.workload),
    };
    if ours.end == End::DidNotFinish {
        return vec![line(Some(false), &format!("{name}: ours did not finish"))];
    }
    let share_of = |of: fn(&Measure) -> f64| ours.each(of(ours)) / peer.each(of(peer).max(1.0));
    let is_concurrent = ours.workload == CONCURRENT_HELLO;
    let is_hello = ours.workload.starts_with(HELLO);
    let most = if is_hello { HELLO_REQUESTS } else { REQUESTS };
    // A peer that did not finish would have made more requests and taken longer: a target that is reached stays reached,
    // another one is undecided.
    let judge = |reached: bool| (reached || peer.end != End::DidNotFinish).then_some(reached);
    let note = if peer.end == End::DidNotFinish {
        ", and the peer did not finish"
    } else {
        ""
    };
    let within = |share: f64, most: f64, what: &str| {
        let (percent, target) = (share * 100.0, most * 100.0);
        let text = format!("{name}: {percent:.1} % of the peer's {what} (target {target:.0} %){note}");
        line(judge(share <= most), &text)
    };
    let mut lines = vec![
        within(share_of(|row| row.requests as f64), most, "requests"),
        within(share_of(|row| row.request_units), REQUEST_UNITS, "request units"),
        within(
            share_of(|row| row.documents_written as f64),
            DOCUMENTS,
            "documents written",
        ),
    ];
    if is_concurrent {
        let speed = peer.seconds / ours.seconds.max(f64::EPSILON);
        let text = format!("{name}: {speed:.1} times the peer's throughput (target {CONCURRENT_SPEED:.0}){note}");
        lines.push(line(judge(speed >= CONCURRENT_SPEED), &text));
    }
    lines
}

/// SQLite in the process has no requests to send: to be as fast is the target.
fn compare_speed(ours: &Measure, sqlite: &Measure) -> String {
    let speed = sqlite.seconds / ours.seconds.max(f64::EPSILON);
    let text = format!(
        "{}: {speed:.2} times the throughput of SQLite (target 1)",
        ours.workload
    );
    line(Some(speed >= 1.0), &text)
}

/// Where the time goes.
fn profile(ours: &Measure, sqlite: &Measure) -> String {
    let ((emulator, rest), (_, sqlite)) = (ours.processor_seconds, sqlite.processor_seconds);
    format!(
        "profile  {}: processor seconds {:.2}, of which the emulator {emulator:.2}, provider and runtime {rest:.2}; with \
         SQLite {sqlite:.2}",
        ours.workload,
        emulator + rest
    )
}

fn line(reached: Option<bool>, text: &str) -> String {
    let result = match reached {
        Some(true) => "reached",
        Some(false) => "MISSED ",
        None => "open   ",
    };
    format!("{result}  {text}")
}
