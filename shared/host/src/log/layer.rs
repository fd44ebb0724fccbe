//! The layer that writes one line per event.

use super::fields::{Fields, MAX_TEXT, cut};
use super::{CURRENT, Current, superseded};
use cosmos::Clock;
use serde_json::Value;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The longest line. CloudWatch cuts an event at 256 KB, and no query finds a JSON text without its end.
const MAX_LINE: usize = 240 * 1024;

/// Writes each event as a line of JSON.
pub struct JsonLayer<W> {
    writer: Mutex<W>,
    clock: Arc<dyn Clock>,
    current: &'static Current,
}

impl<W: Write> JsonLayer<W> {
    /// Writes to `writer`, with the times of `clock`.
    pub fn new(writer: W, clock: Arc<dyn Clock>) -> JsonLayer<W> {
        Self::with_current(writer, clock, &CURRENT)
    }

    pub(super) fn with_current(writer: W, clock: Arc<dyn Clock>, current: &'static Current) -> JsonLayer<W> {
        JsonLayer {
            writer: Mutex::new(writer),
            clock,
            current,
        }
    }

    fn write(&self, metadata: &Metadata<'_>, fields: &Fields) {
        let timestamp = rfc3339(self.clock.now_ms());
        // Escaping may make a text six times longer, and there may be many: they are cut until the line fits.
        let mut limit = MAX_TEXT + 64;
        let mut line = line(&timestamp, metadata, fields, limit);
        while line.len() > MAX_LINE && limit > 64 {
            limit /= 4;
            line = self::line(&timestamp, metadata, fields, limit);
        }
        // The line was made before locking: a field's `Debug` may log too.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed stdout means that nobody reads the log, and there is no other place to report that.
        drop(writer.write_all(&line).and_then(|()| writer.flush()));
    }
}

impl<W> fmt::Debug for JsonLayer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLayer").finish_non_exhaustive()
    }
}

impl<S, W> Layer<S> for JsonLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        if let Some(request_id) = self.current.request_id() {
            fields.set("requestId", Value::from(&*request_id));
        }
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.extend(outer);
            }
        }
        event.record(&mut fields);
        if superseded::is_superseded(event.metadata().target(), fields.text("message")) {
            return;
        }
        self.write(event.metadata(), &fields);
    }
}

fn line(timestamp: &str, metadata: &Metadata<'_>, fields: &Fields, limit: usize) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    line.extend_from_slice(b"{\"timestamp\":\"");
    line.extend_from_slice(timestamp.as_bytes());
    line.extend_from_slice(b"\",\"level\":\"");
    line.extend_from_slice(metadata.level().as_str().as_bytes());
    line.push(b'"');
    member(&mut line, "target", metadata.target());
    // The message comes first of the fields: people read the lines too.
    let (message, others): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| *name == "message");
    for (name, value) in message.into_iter().chain(others) {
        match value {
            Value::String(text) if text.len() > limit => member(&mut line, name, &cut(text, limit)),
            other => member(&mut line, name, other),
        }
    }
    line.extend_from_slice(b"}\n");
    line
}

fn member(line: &mut Vec<u8>, name: &str, value: &(impl serde::Serialize + ?Sized)) {
    line.push(b',');
    serde_json::to_writer(&mut *line, name).expect("a string has a JSON form, and a vector takes it");
    line.push(b':');
    serde_json::to_writer(line, value).expect("strings and numbers have a JSON form, and a vector takes it");
}

/// A time as RFC 3339 with milliseconds.
pub fn rfc3339(ms: u64) -> String {
    let (days, within) = (ms / 86_400_000, ms % 86_400_000);
    // Howard Hinnant's civil_from_days: years begin in March, so that the leap day is a year's last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (within / 3_600_000, within / 60_000 % 60);
    let (second, milli) = (within / 1000 % 60, within % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
        }
    }
}
