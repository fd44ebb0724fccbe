//! A store that throttles, loses answers, is unavailable or shows the past: whole workloads, and single writes.

mod lost_answers;
mod storms;
