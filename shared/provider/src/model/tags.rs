//! Tags of an instance: short names and values by which operators find it. They are part of the instance document (`tags`), as
//! texts `name:value`, so that one index path serves a search for any of them.
//!
//! A start sets them. A workflow sets its own through keys: `ctx.set_kv_value("tag:customer", "ada")`; clearing the key removes
//! the tag. A turn never fails because of a tag: what is over a limit is left out, with a warning in the log.

use duroxide::{Event, EventKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// How many tags an instance has at most.
const MOST_TAGS: usize = 16;
/// How many bytes a name or a value has at most.
const MOST_BYTES: usize = 128;
/// Between name and value; no name has it.
const SEPARATOR: char = ':';
/// A key of this form is a tag.
const KEY_PREFIX: &str = "tag:";

/// The tags of an instance, which keep the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(BTreeMap<String, String>);

/// Why something cannot be a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TagError {
    /// There are more than 16.
    #[error("{count} tags are too many: an instance has at most {MOST_TAGS}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A name is empty, longer than 128 bytes, or has a colon.
    #[error("'{name}' cannot be the name of a tag: it must have 1 to {MOST_BYTES} bytes and no colon")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// A value is empty or longer than 128 bytes.
    #[error("the value of tag '{name}' has {bytes} bytes: it must have 1 to {MOST_BYTES}")]
    Value {
        /// The name of the tag.
        name: String,
        /// The size of the value.
        bytes: usize,
    },
}

impl Tags {
    /// Takes tags that keep the limits: at most 16, names and values of 1 to 128 bytes, no colon in a name.
    ///
    /// # Errors
    /// The first limit that is not kept.
    pub fn new(tags: BTreeMap<String, String>) -> Result<Tags, TagError> {
        tags.iter().try_for_each(|(name, value)| check(name, value))?;
        if tags.len() > MOST_TAGS {
            return Err(TagError::TooMany { count: tags.len() });
        }
        Ok(Tags(tags))
    }

    /// Names and values.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Names and values.
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text by which a tag is stored and found.
    pub(crate) fn text(name: &str, value: &str) -> String {
        format!("{name}{SEPARATOR}{value}")
    }

    /// The same with the tag of a key as it is now; without it if the key has no value. Other keys change nothing.
    pub(crate) fn with_key(mut self, instance: &str, key: &str, value: Option<&str>) -> Tags {
        match (tag_of(key), value) {
            (Some(name), Some(value)) => self.set(instance, name, value),
            (Some(name), None) => {
                self.0.remove(name);
            }
            (None, _) => {}
        }
        self
    }

    /// The tags after these events. `keys` are the keys of the instance before them: clearing all keys removes their tags.
    pub(crate) fn after<'e>(&self, instance: &str, events: &'e [Event], keys: impl Iterator<Item = &'e str>) -> Tags {
        let mut next = self.clone();
        let mut keys: BTreeSet<&str> = keys.filter_map(tag_of).collect();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet { key, value, .. } => {
                    if let Some(name) = tag_of(key) {
                        keys.insert(name);
                        next.set(instance, name, value);
                    }
                }
                EventKind::KeyValueCleared { key } => {
                    if let Some(name) = tag_of(key) {
                        next.0.remove(name);
                    }
                }
                EventKind::KeyValuesCleared => next.0.retain(|name, _| !keys.contains(name.as_str())),
                _ => {}
            }
        }
        next
    }

    /// Sets a tag, unless it would be over a limit.
    fn set(&mut self, instance: &str, name: &str, value: &str) {
        let is_new = !self.0.contains_key(name);
        let problem = match check(name, value) {
            Err(problem) => Some(problem),
            Ok(()) if is_new && self.0.len() >= MOST_TAGS => Some(TagError::TooMany {
                count: self.0.len() + 1,
            }),
            Ok(()) => None,
        };
        match problem {
            Some(problem) => tracing::warn!(
                instance,
                %problem,
                "a workflow sets a key that cannot be a tag; the key is set, and the tags stay as they are"
            ),
            None => {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

fn tag_of(key: &str) -> Option<&str> {
    key.strip_prefix(KEY_PREFIX)
}

fn check(name: &str, value: &str) -> Result<(), TagError> {
    let fits = |text: &str| (1..=MOST_BYTES).contains(&text.len());
    if !fits(name) || name.contains(SEPARATOR) {
        let shown = name.floor_char_boundary(MOST_BYTES.min(name.len()));
        let name = name[..shown].to_owned();
        return Err(TagError::Name { name });
    }
    if !fits(value) {
        return Err(TagError::Value {
            name: name.to_owned(),
            bytes: value.len(),
        });
    }
    Ok(())
}

impl Serialize for Tags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(name, value)| Tags::text(name, value)))
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let pairs = texts.iter().filter_map(|text| text.split_once(SEPARATOR));
        Ok(Tags(
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        Tags(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect())
    }

    fn event(kind: EventKind) -> Event {
        Event::with_event_id(1, "i", 1, None, kind)
    }

    fn set(key: &str, value: &str) -> Event {
        event(EventKind::KeyValueSet {
            key: key.to_owned(),
            value: value.to_owned(),
            last_updated_at_ms: 1,
        })
    }

    fn cleared(key: &str) -> Event {
        event(EventKind::KeyValueCleared { key: key.to_owned() })
    }

    #[test]
    fn limits_are_kept() {
        let long = "x".repeat(128);
        let of = |name: &str, value: &str| Tags::new(BTreeMap::from([(name.to_owned(), value.to_owned())]));
        assert!(of(&long, &long).is_ok());
        let too_long = "x".repeat(129);
        for (name, value) in [("", "v"), (&*too_long, "v"), ("a:b", "v"), ("n", ""), ("n", &*too_long)] {
            assert!(of(name, value).is_err(), "{name} {value}");
        }
        let many = |count: usize| Tags::new((0..count).map(|n| (n.to_string(), "v".to_owned())).collect());
        assert!(many(16).is_ok());
        assert_eq!(many(17), Err(TagError::TooMany { count: 17 }));
    }

    #[test]
    fn a_tag_is_stored_as_one_text_and_read_back() {
        let some = tags(&[("customer", "a:da"), ("ort", "Köln")]);
        let stored = serde_json::to_string(&some).unwrap();
        assert_eq!(stored, r#"["customer:a:da","ort:Köln"]"#);
        assert_eq!(serde_json::from_str::<Tags>(&stored).unwrap(), some);
    }

    #[test]
    fn keys_of_a_workflow_set_and_clear_tags() {
        let start = tags(&[("customer", "ada"), ("kept", "1")]);
        let events = [
            set("tag:customer", "bob"),
            set("other", "x"),
            set("tag:new", "1"),
            cleared("tag:kept"),
        ];
        let after = start.after("i", &events, std::iter::empty());
        assert_eq!(after, tags(&[("customer", "bob"), ("new", "1")]));
        // Clearing all keys removes the tags of keys, also of those that were set before; that of the start stays.
        let all = [set("tag:new", "2"), event(EventKind::KeyValuesCleared)];
        let after = start.after("i", &all, ["tag:customer", "else"].into_iter());
        assert_eq!(after, tags(&[("kept", "1")]));
    }

    #[test]
    fn what_is_over_a_limit_changes_nothing() {
        let full: BTreeMap<String, String> = (0..16).map(|n| (n.to_string(), "v".to_owned())).collect();
        let full = Tags::new(full).unwrap();
        let long = "x".repeat(129);
        let events = [
            set("tag:another", "v"),
            set("tag:", "v"),
            set("tag:a:b", "v"),
            set("tag:1", &long),
        ];
        assert_eq!(full.after("i", &events, std::iter::empty()), full);
        let replaced = full.after("i", &[set("tag:1", "w")], std::iter::empty());
        assert_eq!(replaced.as_map()["1"], "w");
    }
}
