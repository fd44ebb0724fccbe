//! The fields of an event or a span, with their JSON types.

use serde_json::Value;
use std::error::Error;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};

/// The longest text of a field. CloudWatch accepts 256 KB per event.
pub(super) const MAX_TEXT: usize = 32 * 1024;

/// Fields in the order in which they were recorded, each name once.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Adds the fields of an inner scope, which win.
    pub(super) fn extend(&mut self, inner: &Fields) {
        for (name, value) in &inner.0 {
            self.set(name, value.clone());
        }
    }

    pub(super) fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// The text of a field; empty if it has none.
    pub(super) fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn record(&mut self, field: &Field, value: impl Into<Value>) {
        self.set(name_of(field.name()), value.into());
    }
}

/// The name in the log. A library's field does not replace a member of the line itself.
fn name_of(name: &'static str) -> &'static str {
    match name {
        "instance_id" => "instance",
        "execution_id" => "execution",
        "request_id" => "requestId",
        "timestamp" => "event.timestamp",
        "level" => "event.level",
        "target" => "event.target",
        _ => name.strip_prefix("r#").unwrap_or(name),
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match serde_json::Number::from_f64(value) {
            Some(number) => self.record(field, number),
            // JSON has no NaN and no infinity.
            None => self.record(field, value.to_string()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, text(&value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = Bounded::default();
        // A bounded text does not fail; if a `Display` does, the text so far is logged.
        let mut written = write!(text, "{value}");
        let mut source = value.source();
        while let (Ok(()), Some(error)) = (written, source) {
            written = write!(text, ": {error}");
            source = error.source();
        }
        self.record(field, text.finish());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record(field, text(&format_args!("{value:?}")));
    }
}

fn text(value: &dyn fmt::Display) -> String {
    let mut text = Bounded::default();
    match write!(text, "{value}") {
        Ok(()) => text.finish(),
        // The `Debug` of a library failed; `format!` would panic on it.
        Err(fmt::Error) => text.finish() + "…[its Debug failed]",
    }
}

/// A text that stops growing at the limit, however long the value's form is.
#[derive(Default)]
struct Bounded {
    text: String,
    bytes: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // After a cut nothing more is added, or the text would have a gap.
        if self.bytes == self.text.len() {
            self.text.push_str(head(part, MAX_TEXT - self.text.len()));
        }
        self.bytes += part.len();
        Ok(())
    }
}

impl Bounded {
    fn finish(self) -> String {
        if self.bytes == self.text.len() {
            self.text
        } else {
            self.text + &mark(self.bytes)
        }
    }
}

/// The text, cut at a limit with a mark.
pub(super) fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        text.to_owned()
    } else {
        head(text, limit).to_owned() + &mark(text.len())
    }
}

fn mark(bytes: usize) -> String {
    format!("…[cut, {bytes} bytes]")
}

fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
