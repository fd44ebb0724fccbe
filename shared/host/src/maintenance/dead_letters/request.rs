//! A request about dead letters: exactly one verb, checked as a whole before anything is done.
//!
//! ```json
//! {"deadLetters": {"list": {"limit": 20, "kind": "poison-turn", "after": "4:..."}}}
//! {"deadLetters": {"read": {"instance": "order-1", "id": "dead:t:..."}}}
//! {"deadLetters": {"redrive": {"instance": "order-1", "limit": 500}}}
//! {"deadLetters": {"discard": {"ids": [{"instance": "order-1", "id": "dead:t:..."}]}}}
//! ```

use super::fields::{Fields, id_of};
use crate::maintenance::request::{RequestError, kind_of, refused, shortened};
use duroxide_cosmos::{DeadLetterCursor, DeadLetterFilter, DeadLetterId};
use serde_json::Value;

/// Dead letters on one page of the list: the default, and the most.
const LISTED: u64 = 20;
const MOST_LISTED: u64 = 1_000;
/// Dead letters that one request redrives: the default, and the most.
const REDRIVEN: u64 = 100;
const MOST_REDRIVEN: u64 = 10_000;

const VERBS: &str = "one of list, read, redrive, discard";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLettersRequest {
    /// A page of the list.
    List {
        /// Which dead letters.
        filter: DeadLetterFilter,
        /// The most of them.
        limit: u32,
        /// The end of the page before.
        after: Option<DeadLetterCursor>,
    },
    /// One dead letter, with its work items.
    Read(DeadLetterId),
    /// Run what was given up again.
    Redrive {
        /// Which dead letters.
        which: DeadLetterSelection,
        /// The most of them.
        limit: u32,
        /// The end of the page before.
        after: Option<DeadLetterCursor>,
    },
    /// Delete these dead letters.
    Discard(Vec<DeadLetterId>),
}

/// Some dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetterSelection {
    /// By their ids.
    Ids(Vec<DeadLetterId>),
    /// All that match.
    Filter(DeadLetterFilter),
}

/// The request about dead letters in a payload, if that is all there is.
pub(in crate::maintenance) fn of_payload(payload: &Value) -> Option<&Value> {
    let is_alone = payload.as_object().is_some_and(|fields| fields.len() == 1);
    payload.get("deadLetters").filter(|_| is_alone)
}

impl DeadLettersRequest {
    /// Reads the field `deadLetters` of a payload.
    ///
    /// # Errors
    /// When it has a mistake.
    pub fn read(request: &Value) -> Result<DeadLettersRequest, RequestError> {
        let verbs = request.as_object().filter(|verbs| verbs.len() == 1);
        let Some((verb, value)) = verbs.and_then(|verbs| verbs.iter().next()) else {
            let reason = format!("is {}: send an object with {VERBS}", kind_of(request));
            return refused("deadLetters", reason);
        };
        let field = format!("deadLetters.{}", shortened(verb));
        let Value::Object(map) = value else {
            return refused(&field, format!("is {}: send an object", kind_of(value)));
        };
        let fields = Fields { field: &field, map };
        match verb.as_str() {
            "list" => list(&fields),
            "read" => {
                fields.only(&["instance", "id"])?;
                Ok(DeadLettersRequest::Read(id_of(&field, value)?))
            }
            "redrive" => redrive(&fields),
            "discard" => {
                fields.only(&["ids"])?;
                Ok(DeadLettersRequest::Discard(fields.ids()?))
            }
            _ => refused(&field, format!("is not a verb: send {VERBS}")),
        }
    }
}

fn list(fields: &Fields<'_>) -> Result<DeadLettersRequest, RequestError> {
    fields.only(&["limit", "after", "kind", "instance"])?;
    Ok(DeadLettersRequest::List {
        filter: fields.filter()?,
        limit: fields.limit(LISTED, MOST_LISTED)?,
        after: fields.after()?,
    })
}

fn redrive(fields: &Fields<'_>) -> Result<DeadLettersRequest, RequestError> {
    fields.only(&["ids", "all", "kind", "instance", "limit", "after"])?;
    let has = |name: &str| fields.map.contains_key(name);
    let ways = [has("ids"), has("all"), has("kind") || has("instance")];
    if ways.into_iter().filter(|way| *way).count() != 1 || (has("all") && fields.map["all"] != true) {
        return refused(
            fields.field,
            "must select dead letters in one way: send ids (a list), or kind, instance or both, or \"all\": true",
        );
    }
    if has("ids") && (has("limit") || has("after")) {
        return refused(fields.field, "has ids: send it without limit and after");
    }
    let which = if has("ids") {
        DeadLetterSelection::Ids(fields.ids()?)
    } else {
        DeadLetterSelection::Filter(fields.filter()?)
    };
    Ok(DeadLettersRequest::Redrive {
        which,
        limit: fields.limit(REDRIVEN, MOST_REDRIVEN)?,
        after: fields.after()?,
    })
}

#[cfg(test)]
mod tests;
