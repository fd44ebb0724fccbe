//! The payload of an invocation: the schedule's event, or a direct request with passes and limits.
//!
//! ```json
//! {"passes": ["outbox", "sweep"], "pageSize": 50, "retention": {"deleteAfterDays": 30, "keepExecutions": 5}}
//! ```
//!
//! A request about dead letters has the field `deadLetters` alone (see `dead_letters`).
//!
//! A request is checked as a whole before anything is done: one with a mistake changes nothing. Each error names the field
//! and what to send.

use duroxide_cosmos::Retention;
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;
use tracing::Span;

/// The largest page.
const MOST_ITEMS: u64 = 10_000;
/// A hundred years.
const MOST_DAYS: u64 = 36_500;
const DAY: u64 = 24 * 60 * 60;

/// The fields of a request.
const OWN_FIELDS: [&str; 4] = ["passes", "pageSize", "retention", "deadLetters"];

/// One pass of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PassName {
    /// Delivers intents: messages to other instances.
    Outbox,
    /// Rolls forward commits and deletions that were begun.
    Unfinished,
    /// Removes expired affinity sessions.
    Sessions,
    /// Wakes what no wakeup reached.
    Sweep,
    /// Deletes instances and executions that are old enough.
    Retention,
    /// Counts the items in the store.
    Report,
}

impl PassName {
    /// All of them, in their order.
    pub const ALL: [PassName; 6] = [
        PassName::Outbox,
        PassName::Unfinished,
        PassName::Sessions,
        PassName::Sweep,
        PassName::Retention,
        PassName::Report,
    ];

    /// Its name in requests and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            PassName::Outbox => "outbox",
            PassName::Unfinished => "unfinished",
            PassName::Sessions => "sessions",
            PassName::Sweep => "sweep",
            PassName::Retention => "retention",
            PassName::Report => "report",
        }
    }

    /// The span of its pages: log lines inside carry the name.
    pub(super) fn span(self) -> Span {
        tracing::info_span!("pass", pass = self.as_str())
    }
}

/// A request for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceRequest {
    /// The passes in their order, each once.
    pub passes: Vec<PassName>,
    /// The most items of each physical partition on one page; `None` for the setting.
    pub page_size: Option<u32>,
    /// What is deleted; `None` for the setting.
    pub retention: Option<Retention>,
}

impl Default for MaintenanceRequest {
    /// All passes with the settings of the environment, as the schedule requests them.
    fn default() -> Self {
        MaintenanceRequest {
            passes: PassName::ALL.to_vec(),
            page_size: None,
            retention: None,
        }
    }
}

/// A mistake in a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the maintenance request is refused, and nothing was changed: {field} {reason}")]
pub struct RequestError {
    /// The field.
    pub field: String,
    /// What is wrong, and what to send.
    pub reason: String,
}

pub(super) fn refused<T>(field: &str, reason: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError {
        field: field.to_owned(),
        reason: reason.into(),
    })
}

impl MaintenanceRequest {
    /// Reads the payload of an invocation.
    ///
    /// # Errors
    /// When it is neither the schedule's event nor a request.
    pub fn from_payload(payload: &Value) -> Result<MaintenanceRequest, RequestError> {
        let Value::Object(fields) = payload else {
            let reason = format!(
                "is {}: send {{}} for all passes, or an object with passes, pageSize or retention, or with deadLetters",
                kind_of(payload)
            );
            return refused("the payload", reason);
        };
        if is_of_schedule(fields) {
            let own = OWN_FIELDS.into_iter().find(|name| fields.contains_key(*name));
            return match own {
                Some(name) => refused(name, "is set in an event of the schedule: send it without source"),
                None => Ok(MaintenanceRequest::default()),
            };
        }
        if fields.contains_key("deadLetters") {
            return refused(
                "deadLetters",
                "is set beside other fields: send it alone, or leave it out",
            );
        }
        check_names(fields, "", &OWN_FIELDS)?;
        let passes = match fields.get("passes") {
            Some(passes) => read_passes(passes)?,
            None => PassName::ALL.to_vec(),
        };
        let page_size = fields.get("pageSize").map(|size| number("pageSize", size, MOST_ITEMS));
        let retention = fields.get("retention").map(read_retention).transpose()?;
        if retention.is_some() && !passes.contains(&PassName::Retention) {
            return refused(
                "retention",
                "is set, but passes does not name it: send both, or neither",
            );
        }
        Ok(MaintenanceRequest {
            passes,
            page_size: page_size
                .transpose()?
                .map(|size| u32::try_from(size).unwrap_or(u32::MAX)),
            retention,
        })
    }
}

/// Whether this is the event of an EventBridge rule or schedule. Other events are not requests: a rule that sends them here
/// is a mistake.
fn is_of_schedule(fields: &Map<String, Value>) -> bool {
    let source = fields.get("source");
    source.is_some_and(|source| source == "aws.events" || source == "aws.scheduler")
        && fields.get("detail-type").is_none_or(|kind| kind == "Scheduled Event")
}

fn read_passes(passes: &Value) -> Result<Vec<PassName>, RequestError> {
    let all = PassName::ALL.map(PassName::as_str).join(", ");
    let Some(names) = passes.as_array().filter(|names| !names.is_empty()) else {
        return refused(
            "passes",
            format!("is {}: send a list of some of {all}", kind_of(passes)),
        );
    };
    let mut read = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let known = PassName::ALL.into_iter().find(|pass| name == pass.as_str());
        let Some(pass) = known else {
            let reason = format!("is {}, which is not a pass: send some of {all}", kind_of(name));
            return refused(&format!("passes[{index}]"), reason);
        };
        read.push(pass);
    }
    read.sort_unstable();
    read.dedup();
    Ok(read)
}

fn read_retention(retention: &Value) -> Result<Retention, RequestError> {
    let fields = retention.as_object().filter(|fields| !fields.is_empty());
    let Some(fields) = fields else {
        let reason = format!(
            "is {}: send an object with deleteAfterDays, keepExecutions or both, or leave it out",
            kind_of(retention)
        );
        return refused("retention", reason);
    };
    check_names(fields, "retention.", &["deleteAfterDays", "keepExecutions"])?;
    let read = |name: &str, most| {
        let value = fields.get(name);
        value
            .map(|value| number(&format!("retention.{name}"), value, most))
            .transpose()
    };
    Ok(Retention {
        delete_after: read("deleteAfterDays", MOST_DAYS)?.map(|days| Duration::from_secs(days * DAY)),
        keep_executions: read("keepExecutions", u64::from(u32::MAX))?,
    })
}

pub(super) fn check_names(fields: &Map<String, Value>, prefix: &str, known: &[&str]) -> Result<(), RequestError> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => refused(
            &format!("{prefix}{}", shortened(name)),
            format!("is not a field of this request: send only {}", known.join(", ")),
        ),
        None => Ok(()),
    }
}

pub(super) fn number(field: &str, value: &Value, most: u64) -> Result<u64, RequestError> {
    match value.as_u64() {
        Some(number) if (1..=most).contains(&number) => Ok(number),
        _ => refused(
            field,
            format!("is {}: send a whole number from 1 to {most}", kind_of(value)),
        ),
    }
}

/// A value for an error message: short, whatever was sent.
pub(super) fn kind_of(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => format!("an object of {} fields", fields.len()),
        Value::String(text) => format!("{:?}", shortened(text)),
        other => other.to_string(),
    }
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
