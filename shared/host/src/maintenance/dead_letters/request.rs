//! What an operator asks of the dead letters: exactly one verb, judged as a whole before anything is done.
//!
//! ```json
//! {"deadLetters": {"list": {"most": 20, "kind": "poison-turn", "after": "4:..."}}}
//! {"deadLetters": {"read": {"instance": "order-1", "id": "dead:t:..."}}}
//! {"deadLetters": {"redrive": {"instance": "order-1", "most": 500}}}
//! {"deadLetters": {"discard": {"ids": [{"instance": "order-1", "id": "dead:t:..."}]}}}
//! ```

use super::super::request::{RequestError, check_names, kind_of, number, refused, shortened};
use duroxide_cosmos::{DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterKind};
use serde_json::{Map, Value};

/// Letters of one page of the list, at most and unless told otherwise.
const MOST_LISTED: u64 = 1_000;
const LISTED: u64 = 20;
/// Letters that one request redrives, at most and unless told otherwise.
const MOST_REDRIVEN: u64 = 10_000;
const REDRIVEN: u64 = 100;
/// Letters that one request may name.
const MOST_NAMED: usize = 1_000;

const VERBS: &str = "one of list, read, redrive, discard";
const KINDS: [(&str, DeadLetterKind); 3] = [
    ("undeliverable", DeadLetterKind::Undeliverable),
    ("poison-turn", DeadLetterKind::PoisonTurn),
    ("poison-activity", DeadLetterKind::PoisonActivity),
];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLettersRequest {
    /// A part of the list.
    List {
        /// Which.
        filter: DeadLetterFilter,
        /// At most so many.
        most: u32,
        /// Where the part before ended.
        after: Option<DeadLetterCursor>,
    },
    /// One dead letter, with its items.
    Read(DeadLetterId),
    /// Letters whose subjects run again.
    Redrive {
        /// Which.
        which: DeadLetterSelection,
        /// At most so many.
        most: u32,
        /// Where the page before ended.
        after: Option<DeadLetterCursor>,
    },
    /// Letters that go for good.
    Discard(Vec<DeadLetterId>),
}

/// Letters that are named, or that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetterSelection {
    /// These.
    These(Vec<DeadLetterId>),
    /// All that match.
    Like(DeadLetterFilter),
}

impl DeadLettersRequest {
    /// Reads the field `deadLetters` of a payload.
    ///
    /// # Errors
    /// When it is no request.
    pub fn read(asked: &Value) -> Result<DeadLettersRequest, RequestError> {
        let verb = asked.as_object().filter(|verbs| verbs.len() == 1);
        let Some((verb, what)) = verb.and_then(|verbs| verbs.iter().next()) else {
            let reason = format!("is {}: send an object with {VERBS}", kind_of(asked));
            return refused("deadLetters", reason);
        };
        let field = format!("deadLetters.{verb}");
        let Value::Object(fields) = what else {
            return refused(&field, format!("is {}: send an object", kind_of(what)));
        };
        let fields = Fields { field: &field, fields };
        match verb.as_str() {
            "list" => fields.list(),
            "read" => {
                fields.only(&["instance", "id"])?;
                Ok(DeadLettersRequest::Read(dead_letter(&field, what)?))
            }
            "redrive" => fields.redrive(),
            "discard" => {
                fields.only(&["ids"])?;
                Ok(DeadLettersRequest::Discard(fields.ids()?))
            }
            _ => refused(
                &format!("deadLetters.{}", shortened(verb)),
                format!("is not known here: send {VERBS}"),
            ),
        }
    }
}

/// The fields of one verb.
struct Fields<'a> {
    field: &'a str,
    fields: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn list(&self) -> Result<DeadLettersRequest, RequestError> {
        self.only(&["most", "after", "kind", "instance"])?;
        Ok(DeadLettersRequest::List {
            filter: self.filter()?,
            most: self.most(LISTED, MOST_LISTED)?,
            after: self.after()?,
        })
    }

    fn redrive(&self) -> Result<DeadLettersRequest, RequestError> {
        self.only(&["ids", "all", "kind", "instance", "most", "after"])?;
        let has = |name: &str| self.fields.contains_key(name);
        let is_like = has("kind") || has("instance");
        let ways = [has("ids"), has("all"), is_like].into_iter().filter(|way| *way).count();
        if ways != 1 || (has("all") && self.fields["all"] != true) {
            return refused(
                self.field,
                "must say which dead letters, in one way: send ids (a list), or kind, instance or both, or \"all\": true",
            );
        }
        if has("ids") && (has("most") || has("after")) {
            return refused(self.field, "names its dead letters: send ids without most and after");
        }
        let which = if has("ids") {
            DeadLetterSelection::These(self.ids()?)
        } else {
            DeadLetterSelection::Like(self.filter()?)
        };
        Ok(DeadLettersRequest::Redrive {
            which,
            most: self.most(REDRIVEN, MOST_REDRIVEN)?,
            after: self.after()?,
        })
    }

    fn only(&self, known: &[&str]) -> Result<(), RequestError> {
        check_names(self.fields, &format!("{}.", self.field), known)
    }

    fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.field)
    }

    fn filter(&self) -> Result<DeadLetterFilter, RequestError> {
        let kind = match self.fields.get("kind") {
            None => None,
            Some(asked) => {
                let known = KINDS.iter().find(|(name, _)| asked == name);
                let Some((_, kind)) = known else {
                    let names = KINDS.map(|(name, _)| name).join(", ");
                    return refused(
                        &self.name("kind"),
                        format!("is {}: send one of {names}", kind_of(asked)),
                    );
                };
                Some(*kind)
            }
        };
        let instance = self
            .fields
            .get("instance")
            .map(|asked| text(&self.name("instance"), asked));
        Ok(DeadLetterFilter {
            kind,
            instance: instance.transpose()?,
        })
    }

    fn most(&self, usual: u64, limit: u64) -> Result<u32, RequestError> {
        let asked = self
            .fields
            .get("most")
            .map(|most| number(&self.name("most"), most, limit));
        Ok(u32::try_from(asked.transpose()?.unwrap_or(usual)).unwrap_or(u32::MAX))
    }

    fn after(&self) -> Result<Option<DeadLetterCursor>, RequestError> {
        let Some(asked) = self.fields.get("after").filter(|asked| !asked.is_null()) else {
            return Ok(None);
        };
        match serde_json::from_value(asked.clone()) {
            Ok(cursor) => Ok(Some(cursor)),
            Err(_) => refused(
                &self.name("after"),
                format!(
                    "is {}: send the next of an earlier answer, or leave it out",
                    kind_of(asked)
                ),
            ),
        }
    }

    fn ids(&self) -> Result<Vec<DeadLetterId>, RequestError> {
        let field = self.name("ids");
        let asked = self.fields.get("ids").unwrap_or(&Value::Null);
        let ids = asked.as_array().filter(|ids| (1..=MOST_NAMED).contains(&ids.len()));
        let Some(ids) = ids else {
            let reason = format!(
                "is {}: send a list of 1 to {MOST_NAMED} objects with instance and id",
                kind_of(asked)
            );
            return refused(&field, reason);
        };
        let read = ids
            .iter()
            .enumerate()
            .map(|(n, id)| dead_letter(&format!("{field}[{n}]"), id));
        read.collect()
    }
}

fn dead_letter(field: &str, asked: &Value) -> Result<DeadLetterId, RequestError> {
    let Some(fields) = asked.as_object() else {
        return refused(
            field,
            format!("is {}: send an object with instance and id", kind_of(asked)),
        );
    };
    check_names(fields, &format!("{field}."), &["instance", "id"])?;
    let part = |name: &str| text(&format!("{field}.{name}"), fields.get(name).unwrap_or(&Value::Null));
    Ok(DeadLetterId {
        instance: part("instance")?,
        id: part("id")?,
    })
}

fn text(field: &str, asked: &Value) -> Result<String, RequestError> {
    match asked.as_str().filter(|text| !text.is_empty()) {
        Some(text) => Ok(text.to_owned()),
        None => refused(
            field,
            format!("is {}: send a text, as the list shows it", kind_of(asked)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLACE: &str = "4:001760000000000:0123456789abcdef";

    fn read(asked: Value) -> DeadLettersRequest {
        DeadLettersRequest::read(&asked).unwrap()
    }

    fn id() -> DeadLetterId {
        DeadLetterId {
            instance: "a".to_owned(),
            id: "dead:t:1".to_owned(),
        }
    }

    #[test]
    fn each_verb_is_understood() {
        let cursor: DeadLetterCursor = serde_json::from_value(json!(PLACE)).unwrap();
        let list = read(json!({"list": {"most": 7, "after": PLACE, "kind": "undeliverable", "instance": "a"}}));
        let filter = DeadLetterFilter {
            kind: Some(DeadLetterKind::Undeliverable),
            instance: Some("a".to_owned()),
        };
        let after = Some(cursor);
        assert_eq!(
            list,
            DeadLettersRequest::List {
                filter,
                most: 7,
                after: after.clone()
            }
        );
        let everything = DeadLettersRequest::List {
            filter: DeadLetterFilter::default(),
            most: 20,
            after: None,
        };
        assert_eq!(read(json!({"list": {}})), everything);
        assert_eq!(
            read(json!({"list": {"after": null}})),
            everything,
            "as the last page says it"
        );
        assert_eq!(
            read(json!({"read": {"instance": "a", "id": "dead:t:1"}})),
            DeadLettersRequest::Read(id())
        );
        let named = json!({"ids": [{"instance": "a", "id": "dead:t:1"}]});
        assert_eq!(read(json!({"discard": named})), DeadLettersRequest::Discard(vec![id()]));
        for (asked, which) in [
            (named, DeadLetterSelection::These(vec![id()])),
            (
                json!({"all": true}),
                DeadLetterSelection::Like(DeadLetterFilter::default()),
            ),
        ] {
            let redrive = DeadLettersRequest::Redrive {
                which,
                most: 100,
                after: None,
            };
            assert_eq!(read(json!({"redrive": asked})), redrive);
        }
        let DeadLettersRequest::Redrive {
            most: 9, after: there, ..
        } = read(json!({"redrive": {"kind": "poison-activity", "most": 9, "after": PLACE}}))
        else {
            panic!("limits are read")
        };
        assert_eq!(there, after);
    }

    #[test]
    fn what_cannot_be_understood_is_refused_with_its_field_and_what_to_send() {
        let many: Vec<Value> = vec![json!({"instance": "a", "id": "dead:t:1"}); 1_001];
        for (asked, field, send) in [
            (json!(null), "deadLetters", "one of list, read"),
            (json!("list"), "deadLetters", "one of list, read"),
            (json!({}), "deadLetters", "one of list, read"),
            (
                json!({"list": {}, "redrive": {"all": true}}),
                "deadLetters",
                "one of list, read",
            ),
            (
                json!({"purge": {}}),
                "deadLetters.purge",
                "list, read, redrive, discard",
            ),
            (json!({"list": []}), "deadLetters.list", "an object"),
            (json!({"list": {"count": 3}}), "deadLetters.list.count", "most, after"),
            (json!({"list": {"most": -3}}), "deadLetters.list.most", "1 to 1000"),
            (json!({"list": {"most": 1_001}}), "deadLetters.list.most", "1 to 1000"),
            (json!({"list": {"after": 3}}), "deadLetters.list.after", "the next"),
            (
                json!({"list": {"after": "yesterday"}}),
                "deadLetters.list.after",
                "the next",
            ),
            (
                json!({"list": {"kind": "strange"}}),
                "deadLetters.list.kind",
                "poison-turn",
            ),
            (json!({"list": {"instance": ""}}), "deadLetters.list.instance", "a text"),
            (json!({"read": {}}), "deadLetters.read.instance", "a text"),
            (json!({"read": {"instance": "a"}}), "deadLetters.read.id", "a text"),
            (
                json!({"read": {"instance": "a", "id": 7}}),
                "deadLetters.read.id",
                "a text",
            ),
            (json!({"redrive": {}}), "deadLetters.redrive", "\"all\": true"),
            (json!({"redrive": {"most": 5}}), "deadLetters.redrive", "\"all\": true"),
            (
                json!({"redrive": {"all": false}}),
                "deadLetters.redrive",
                "\"all\": true",
            ),
            (
                json!({"redrive": {"all": true, "kind": "poison-turn"}}),
                "deadLetters.redrive",
                "in one way",
            ),
            (
                json!({"redrive": {"ids": [], "all": true}}),
                "deadLetters.redrive",
                "in one way",
            ),
            (json!({"redrive": {"ids": []}}), "deadLetters.redrive.ids", "1 to 1000"),
            (
                json!({"redrive": {"ids": many}}),
                "deadLetters.redrive.ids",
                "1 to 1000",
            ),
            (
                json!({"redrive": {"ids": ["x"]}}),
                "deadLetters.redrive.ids[0]",
                "instance and id",
            ),
            (
                json!({"redrive": {"ids": [{"instance": "a", "id": "dead:t:1"}], "most": 1}}),
                "deadLetters.redrive",
                "without most",
            ),
            (
                json!({"redrive": {"all": true, "most": 10_001}}),
                "deadLetters.redrive.most",
                "1 to 10000",
            ),
            (json!({"discard": {"all": true}}), "deadLetters.discard.all", "ids"),
            (json!({"discard": {}}), "deadLetters.discard.ids", "1 to 1000"),
        ] {
            let error = DeadLettersRequest::read(&asked).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            let text = error.to_string();
            assert!(text.contains(send) && text.contains("nothing was changed"), "{text}");
        }
    }
}
