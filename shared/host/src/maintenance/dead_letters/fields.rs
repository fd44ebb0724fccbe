//! The fields of one verb, read one by one. Each error names its field and what to send.

use crate::maintenance::request::{RequestError, check_names, kind_of, number, refused};
use duroxide_cosmos::{DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterKind};
use serde_json::{Map, Value};

/// The most dead letters that one request may name.
const MOST_IDS: usize = 1_000;

const KINDS: [DeadLetterKind; 4] = [
    DeadLetterKind::Undeliverable,
    DeadLetterKind::NoInstance,
    DeadLetterKind::PoisonTurn,
    DeadLetterKind::PoisonActivity,
];

/// The fields of one verb.
pub(super) struct Fields<'a> {
    /// The verb's own place in the payload.
    pub(super) field: &'a str,
    pub(super) map: &'a Map<String, Value>,
}

impl Fields<'_> {
    /// Refuses fields that are not known.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), RequestError> {
        check_names(self.map, &format!("{}.", self.field), known)
    }

    pub(super) fn filter(&self) -> Result<DeadLetterFilter, RequestError> {
        let instance = self.map.get("instance");
        Ok(DeadLetterFilter {
            kind: self.map.get("kind").map(|value| self.kind(value)).transpose()?,
            instance: instance.map(|value| text(&self.name("instance"), value)).transpose()?,
        })
    }

    fn kind(&self, value: &Value) -> Result<DeadLetterKind, RequestError> {
        let name_of = |kind: DeadLetterKind| serde_json::to_value(kind).unwrap_or_default();
        match KINDS.into_iter().find(|kind| name_of(*kind) == *value) {
            Some(kind) => Ok(kind),
            None => {
                let names = KINDS.map(|kind| name_of(kind).as_str().unwrap_or_default().to_owned());
                let reason = format!("is {}: send one of {}", kind_of(value), names.join(", "));
                refused(&self.name("kind"), reason)
            }
        }
    }

    pub(super) fn limit(&self, default: u64, most: u64) -> Result<u32, RequestError> {
        let limit = self.map.get("limit");
        let limit = limit.map(|limit| number(&self.name("limit"), limit, most));
        Ok(u32::try_from(limit.transpose()?.unwrap_or(default)).unwrap_or(u32::MAX))
    }

    pub(super) fn after(&self) -> Result<Option<DeadLetterCursor>, RequestError> {
        let Some(after) = self.map.get("after").filter(|after| !after.is_null()) else {
            return Ok(None);
        };
        serde_json::from_value(after.clone()).map(Some).or_else(|_| {
            let reason = format!(
                "is {}: send the next of an earlier answer, or leave it out",
                kind_of(after)
            );
            refused(&self.name("after"), reason)
        })
    }

    pub(super) fn ids(&self) -> Result<Vec<DeadLetterId>, RequestError> {
        let field = self.name("ids");
        let value = self.map.get("ids").unwrap_or(&Value::Null);
        let Some(ids) = value.as_array().filter(|ids| (1..=MOST_IDS).contains(&ids.len())) else {
            let reason = format!(
                "is {}: send a list of 1 to {MOST_IDS} objects with instance and id",
                kind_of(value)
            );
            return refused(&field, reason);
        };
        let ids = ids.iter().enumerate();
        ids.map(|(n, id)| id_of(&format!("{field}[{n}]"), id)).collect()
    }

    fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.field)
    }
}

/// The id of one dead letter.
pub(super) fn id_of(field: &str, value: &Value) -> Result<DeadLetterId, RequestError> {
    let Some(fields) = value.as_object() else {
        let reason = format!("is {}: send an object with instance and id", kind_of(value));
        return refused(field, reason);
    };
    check_names(fields, &format!("{field}."), &["instance", "id"])?;
    let part = |name: &str| text(&format!("{field}.{name}"), fields.get(name).unwrap_or(&Value::Null));
    Ok(DeadLetterId {
        instance: part("instance")?,
        id: part("id")?,
    })
}

fn text(field: &str, value: &Value) -> Result<String, RequestError> {
    match value.as_str().filter(|text| !text.is_empty()) {
        Some(text) => Ok(text.to_owned()),
        None => refused(
            field,
            format!("is {}: send a text, as the list shows it", kind_of(value)),
        ),
    }
}
