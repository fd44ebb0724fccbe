//! The table: one row for each side, and a row of ratios (ours / peer) below each pair. SQLite has a time only.

use comfy_table::{CellAlignment, presets};

use crate::arena::Side;
use crate::measure::{End, Measure};

const HEAD: [&str; 11] = [
    "workload",
    "provider",
    "units",
    "requests/unit",
    "cross/unit",
    "RU/unit",
    "docs written/unit",
    "KB written/unit",
    "KB read/unit",
    "seconds",
    "end",
];

/// Formats rows, which are sorted by workload.
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
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).add_rows(lines);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        column.set_cell_alignment(match column.index {
            0 | 1 => CellAlignment::Left,
            _ => CellAlignment::Right,
        });
    }
    table.trim_fmt()
}

/// Whether `peer` is compared with `ours`.
pub fn pairs(ours: &Measure, peer: &Measure) -> bool {
    ours.side == Side::Ours && ours.how.is_empty() && ours.workload == peer.workload
}

fn cells(row: &Measure) -> [String; HEAD.len()] {
    let provider = match (row.side, row.how) {
        (Side::Ours, "") => "ours".to_owned(),
        (Side::Ours, how) => format!("ours, {how}"),
        (Side::Peer, "") => "peer".to_owned(),
        (Side::Peer, how) => format!("peer, {how}"),
        (Side::Sqlite, _) => "sqlite".to_owned(),
    };
    let end = match &row.end {
        End::Right => "right".to_owned(),
        End::Wrong(_) => "WRONG".to_owned(),
        End::DidNotFinish => "did not finish".to_owned(),
    };
    let each = |number: f64| match row.side {
        Side::Sqlite => "-".to_owned(),
        Side::Ours | Side::Peer => format!("{:.1}", row.each(number)),
    };
    [
        row.workload.clone(),
        provider,
        row.units.to_string(),
        each(row.requests as f64),
        each(row.cross_partition_queries as f64),
        each(row.request_units),
        each(row.documents_written as f64),
        each(row.bytes_written as f64 / 1024.0),
        each(row.bytes_read as f64 / 1024.0),
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
    let count = |of: fn(&Measure) -> f64| percent(ours.each(of(ours)), peer.each(of(peer)));
    [
        String::new(),
        "ours/peer".to_owned(),
        String::new(),
        count(|row| row.requests as f64),
        count(|row| row.cross_partition_queries as f64),
        count(|row| row.request_units),
        count(|row| row.documents_written as f64),
        count(|row| row.bytes_written as f64),
        count(|row| row.bytes_read as f64),
        percent(ours.seconds, peer.seconds),
        String::new(),
    ]
}
