//! The service's header names, and how to write and read headers.

use std::str::FromStr;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::error::Error;

pub(crate) const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
pub(crate) const DATE: HeaderName = HeaderName::from_static("x-ms-date");
pub(crate) const PARTITION_KEY: HeaderName = HeaderName::from_static("x-ms-documentdb-partitionkey");
pub(crate) const RANGE_ID: HeaderName = HeaderName::from_static("x-ms-documentdb-partitionkeyrangeid");
pub(crate) const CROSS_PARTITION: HeaderName = HeaderName::from_static("x-ms-documentdb-query-enablecrosspartition");
pub(crate) const IS_QUERY: HeaderName = HeaderName::from_static("x-ms-documentdb-isquery");
pub(crate) const IS_BATCH: HeaderName = HeaderName::from_static("x-ms-cosmos-is-batch-request");
pub(crate) const BATCH_ATOMIC: HeaderName = HeaderName::from_static("x-ms-cosmos-batch-atomic");
pub(crate) const BATCH_CONTINUE: HeaderName = HeaderName::from_static("x-ms-cosmos-batch-continue-on-error");
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(crate) const MAX_ITEMS: HeaderName = HeaderName::from_static("x-ms-max-item-count");
pub(crate) const CONTINUATION: HeaderName = HeaderName::from_static("x-ms-continuation");
pub(crate) const CONSISTENCY_TOKEN: HeaderName = HeaderName::from_static("x-ms-session-token");
pub(crate) const SUBSTATUS: HeaderName = HeaderName::from_static("x-ms-substatus");
pub(crate) const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("x-ms-retry-after-ms");
pub(crate) const CHARGE: HeaderName = HeaderName::from_static("x-ms-request-charge");
pub(crate) const THROUGHPUT: HeaderName = HeaderName::from_static("x-ms-offer-throughput");
pub(crate) const AUTOSCALE: HeaderName = HeaderName::from_static("x-ms-cosmos-offer-autopilot-settings");
pub(crate) const START_EPK: HeaderName = HeaderName::from_static("x-ms-start-epk");
pub(crate) const END_EPK: HeaderName = HeaderName::from_static("x-ms-end-epk");
pub(crate) const READ_KEY_TYPE: HeaderName = HeaderName::from_static("x-ms-read-key-type");

/// Adds a value from outside, which may have characters that a header cannot carry.
pub(crate) fn insert(map: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), Error> {
    let value = HeaderValue::from_str(value).map_err(|_| Error::InvalidHeader { name: name.to_string() })?;
    map.insert(name, value);
    Ok(())
}

/// Adds a constant.
pub(crate) fn flag(map: &mut HeaderMap, name: HeaderName, value: &'static str) {
    map.insert(name, HeaderValue::from_static(value));
}

/// A header's text, if present and readable.
pub(crate) fn text<'a>(map: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    map.get(name)?.to_str().ok()
}

/// A header's number, if present and readable.
pub(crate) fn number<T: FromStr>(map: &HeaderMap, name: &HeaderName) -> Option<T> {
    text(map, name)?.parse().ok()
}

/// How long the service asks to wait.
pub(crate) fn retry_after(map: &HeaderMap) -> Option<Duration> {
    number(map, &RETRY_AFTER_MS).and_then(milliseconds)
}

/// A wait as the service writes it: milliseconds, some with fractions.
pub(crate) fn milliseconds(ms: f64) -> Option<Duration> {
    (ms.is_finite() && ms >= 0.0).then(|| Duration::from_micros((ms * 1_000.0) as u64))
}
