//! The service's limits on requests: entries and bytes of a call, delays, names, characters. Pure.

use super::protocol::{Refusal, refused};
use std::collections::HashSet;
use std::time::Duration;

const MOST_ENTRIES: usize = 10;
const MOST_BYTES: usize = 1024 * 1024;
const LONGEST_DELAY: u32 = 900;
const LONGEST_WAIT: u32 = 20;
const LONGEST_VISIBILITY: u32 = 43_200;

/// A queue's name is the last part of its URL, whatever host the URL names.
pub(super) fn queue_name(queue_url: &str) -> Result<&str, Refusal> {
    let name = queue_url.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        return refused(
            "InvalidAddress",
            format!("The address {queue_url:?} is not valid for this endpoint."),
        );
    }
    Ok(name)
}

/// The entries of a batch: one to ten, with distinct ids.
pub(super) fn check_ids<'a>(ids: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let (mut seen, mut count) = (HashSet::new(), 0);
    for id in ids {
        count += 1;
        if !seen.insert(id) {
            return refused("BatchEntryIdsNotDistinct", format!("Id {id} repeated."));
        }
    }
    match count {
        0 => refused(
            "EmptyBatchRequest",
            "There should be at least one entry in the request.",
        ),
        1..=MOST_ENTRIES => Ok(()),
        _ => refused(
            "TooManyEntriesInBatchRequest",
            format!("Maximum number of entries per request are {MOST_ENTRIES}. You have sent {count}."),
        ),
    }
}

pub(super) fn check_body(body: &str) -> Result<(), Refusal> {
    // The service takes what XML 1.0 can hold.
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if body.is_empty() {
        return refused(
            "MissingParameter",
            "The request must contain the parameter MessageBody.",
        );
    }
    if !body.chars().all(allowed) {
        return refused("InvalidMessageContents", "Invalid characters in the message.");
    }
    if body.len() > MOST_BYTES {
        let message =
            format!("One or more parameters are invalid. Reason: Message must be shorter than {MOST_BYTES} bytes.");
        return refused("InvalidParameterValue", message);
    }
    Ok(())
}

pub(super) fn check_batch_bytes<'a>(bodies: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let bytes: usize = bodies.map(str::len).sum();
    if bytes > MOST_BYTES {
        let message = format!("Batch requests cannot be longer than {MOST_BYTES} bytes. You have sent {bytes} bytes.");
        return refused("BatchRequestTooLong", message);
    }
    Ok(())
}

pub(super) fn message_count(value: Option<usize>) -> Result<usize, Refusal> {
    match value.unwrap_or(1) {
        count @ 1..=MOST_ENTRIES => Ok(count),
        _ => refused("InvalidParameterValue", "MaxNumberOfMessages must be from 1 to 10."),
    }
}

pub(super) fn delay(value: u32) -> Result<Duration, Refusal> {
    seconds(value, LONGEST_DELAY, "DelaySeconds")
}

pub(super) fn wait_time(value: u32) -> Result<Duration, Refusal> {
    seconds(value, LONGEST_WAIT, "WaitTimeSeconds")
}

pub(super) fn visibility(value: u32) -> Result<Duration, Refusal> {
    seconds(value, LONGEST_VISIBILITY, "VisibilityTimeout")
}

fn seconds(value: u32, most: u32, name: &str) -> Result<Duration, Refusal> {
    if value > most {
        let message = format!("Value {value} for parameter {name} is invalid. Reason: must be from 0 to {most}.");
        return refused("InvalidParameterValue", message);
    }
    Ok(Duration::from_secs(value.into()))
}
