//! The clock and random ids of this program. Everything else gets them from here.

#![allow(
    clippy::disallowed_methods,
    reason = "a command line has nobody to inject them; this is the one place"
)]

use std::time::{Duration, SystemTime};

/// The time.
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// The time as Unix ms.
pub(crate) fn now_ms() -> u64 {
    let since = now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.unwrap_or(Duration::ZERO).as_millis();
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// A text that nobody has used: hexadecimal digits.
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
