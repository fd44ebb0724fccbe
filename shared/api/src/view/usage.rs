//! What an instance has used, with the times that follow from its own.
//!
//! Nothing here depends on the time of the request: an answer with the same ETag is the same answer.

use crate::types::{Decimal, Usage};
use duroxide_cosmos::InstanceSummary;

pub(super) fn usage(summary: &InstanceSummary) -> Option<Usage> {
    let used = summary.usage?;
    let ended_at = summary.completed_at.filter(|_| summary.status.is_finished());
    let elapsed_ms = ended_at
        .unwrap_or(summary.updated_at)
        .saturating_sub(summary.accepted_at);
    let active_ms = used.turn_ms.saturating_add(used.activity_ms);
    Some(Usage {
        turns: used.turns,
        activities: used.activities,
        attempts: used.attempts,
        wakeups: used.wakeups,
        requests: used.requests,
        request_units: Decimal::of_thousandths(used.milli_request_units),
        bytes_read: used.bytes_read,
        bytes_written: used.bytes_written,
        turn_seconds: Decimal::of_thousandths(used.turn_ms),
        activity_seconds: Decimal::of_thousandths(used.activity_ms),
        elapsed_seconds: Decimal::of_thousandths(elapsed_ms),
        waiting_seconds: Decimal::of_thousandths(elapsed_ms.saturating_sub(active_ms)),
    })
}
