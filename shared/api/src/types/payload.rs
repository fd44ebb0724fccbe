//! An input or output: a text for duroxide, a JSON value here if that text is JSON, else a string.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Any JSON value, exactly as it was written. Its `Debug` does not show it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(Box<RawValue>);

impl Payload {
    /// The value of a text: itself if it is JSON, else a string.
    pub fn of_text(text: &str) -> Payload {
        // The empty text and texts that are no JSON.
        let json = serde_json::from_str::<&RawValue>(text).ok();
        json.map_or_else(|| Payload::string(text), |json| Payload(json.to_owned()))
    }

    /// The text as a JSON string, whether or not it is JSON itself.
    pub fn string(text: &str) -> Payload {
        Payload(serde_json::value::to_raw_value(text).expect("a string has a JSON form"))
    }

    /// The JSON text of the value.
    pub fn json(&self) -> &str {
        self.0.get()
    }

    /// The text of a string, else the JSON text: the opposite of [`Self::of_text`] as far as it can be known.
    pub fn text(&self) -> Cow<'_, str> {
        match serde_json::from_str::<String>(self.json()) {
            Ok(text) => Cow::Owned(text),
            Err(_) => Cow::Borrowed(self.json()),
        }
    }
}

/// For an optional field, where `null` is a value and not its absence.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.json().len())
    }
}

impl PartialSchema for Payload {
    fn schema() -> RefOr<Schema> {
        let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        any.description(Some("any JSON value")).into()
    }
}

impl ToSchema for Payload {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_itself_if_it_is_json_and_a_string_if_not() {
        for (text, json) in [
            ("{\"a\": 1.50}", "{\"a\": 1.50}"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("\"quoted\"", "\"quoted\""),
            ("null", "null"),
            ("", "\"\""),
            ("plain", "\"plain\""),
            ("{\"a\":", "\"{\\\"a\\\":\""),
            ("[1] [2]", "\"[1] [2]\""),
            ("NaN", "\"NaN\""),
            ("😀\n", "\"😀\\n\""),
        ] {
            assert_eq!(Payload::of_text(text).json(), json, "{text}");
        }
    }

    #[test]
    fn a_string_gives_its_text_and_other_values_their_json() {
        for text in ["plain", "{\"a\": 1}", "", "7"] {
            assert_eq!(Payload::of_text(text).text(), text);
            assert_eq!(Payload::string(text).text(), text);
        }
    }

    #[test]
    fn null_is_a_value() {
        let request: crate::types::StartRequest = serde_json::from_str("{\"input\": null}").unwrap();
        assert_eq!(request.input, Some(Payload::of_text("null")));
    }

    #[test]
    fn debug_does_not_show_the_payload() {
        assert_eq!(format!("{:?}", Payload::of_text("hush")), "Payload(6 bytes)");
    }
}
