//! The table: one row for each side, and a line of ratios (ours / peer) below each pair.

use crate::arena::Side;
use crate::measure::{End, Measure};

const HEAD: [&str; 9] = [
    "workload",
    "provider",
    "units",
    "requests/unit",
    "cross/unit",
    "docs written",
    "KB",
    "seconds",
    "end",
];

/// Formats rows that stand in the order of their workloads.
pub fn format(rows: &[Measure]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    for (index, row) in rows.iter().enumerate() {
        lines.push(cells(row));
        if row.side == Side::Peer
            && let Some(ours) = rows[..index].iter().find(|other| pairs(other, row))
        {
            lines.push(ratios(ours, row));
        }
    }
    let mut widths = [0; HEAD.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.len());
        }
    }
    let mut text = String::new();
    for line in &lines {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let cell = if column < 2 {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            };
            text.push_str(&cell);
            text.push_str("  ");
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// Whether `ours` is what `peer` is compared with.
pub fn pairs(ours: &Measure, peer: &Measure) -> bool {
    ours.side == Side::Ours && ours.how.is_empty() && ours.workload == peer.workload
}

fn cells(row: &Measure) -> [String; HEAD.len()] {
    let provider = match (row.side, row.how) {
        (Side::Ours, "") => "ours".to_owned(),
        (Side::Ours, how) => format!("ours, {how}"),
        (Side::Peer, "") => "peer".to_owned(),
        (Side::Peer, how) => format!("peer, {how}"),
    };
    let end = match &row.end {
        End::Right => "right".to_owned(),
        End::Wrong(_) => "WRONG".to_owned(),
        End::DidNotFinish => "did not finish".to_owned(),
    };
    [
        row.workload.clone(),
        provider,
        row.units.to_string(),
        format!("{:.1}", row.each(row.requests)),
        format!("{:.1}", row.each(row.cross_partition_queries)),
        row.documents_written.to_string(),
        format!("{:.1}", row.bytes as f64 / 1024.0),
        format!("{:.4}", row.seconds),
        end,
    ]
}

fn ratios(ours: &Measure, peer: &Measure) -> [String; HEAD.len()] {
    let percent = |ours: f64, peer: f64| {
        if peer > 0.0 {
            format!("{:.1} %", 100.0 * ours / peer)
        } else {
            "-".to_owned()
        }
    };
    let count = |of: fn(&Measure) -> u64| percent(ours.each(of(ours)), peer.each(of(peer)));
    [
        String::new(),
        "ours/peer".to_owned(),
        String::new(),
        count(|row| row.requests),
        count(|row| row.cross_partition_queries),
        count(|row| row.documents_written),
        count(|row| row.bytes),
        percent(ours.seconds, peer.seconds),
        String::new(),
    ]
}
