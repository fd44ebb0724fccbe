//! Where the next page of a search begins: a position in the order of acceptance, as an opaque text.
//!
//! It names no physical range and no continuation of the service, so it means the same after a split, on another machine, and when
//! instances came or went. It has a digest of its filter: a cursor of another search is refused.

use super::merge::Key;
use super::{InstanceFilter, SearchFailure};
use crate::model::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;
/// A longer text is no cursor: an id has at most 2,048 bytes, each of which may take six in JSON.
const MOST_BYTES: usize = 20_000;
/// How many digits of the filter's digest are kept.
const DIGITS: usize = 16;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    v: u32,
    at: u64,
    pk: String,
    filter: String,
    /// There is too much with the tag or prefix to sort it here.
    #[serde(rename = "wide")]
    pub(super) is_wide: bool,
}

impl Cursor {
    pub(super) fn new(filter: &InstanceFilter, position: Key, is_wide: bool) -> Cursor {
        Cursor {
            v: VERSION,
            at: position.created_at,
            pk: position.pk,
            filter: digest_of(filter),
            is_wide,
        }
    }

    pub(super) fn position(&self) -> Key {
        Key {
            created_at: self.at,
            pk: self.pk.clone(),
        }
    }

    pub(super) fn encode(&self) -> String {
        let text = serde_json::json!({
            "v": self.v, "at": self.at, "pk": self.pk, "filter": self.filter, "wide": self.is_wide,
        });
        BASE64.encode(text.to_string())
    }

    pub(super) fn decode(text: &str, filter: &InstanceFilter) -> Result<Cursor, SearchFailure> {
        let damaged = SearchFailure::BadCursor("it is damaged, or of another release; begin again without it");
        if text.len() > MOST_BYTES {
            return Err(damaged);
        }
        let decoded = BASE64.decode(text).ok();
        let cursor: Option<Cursor> = decoded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match cursor.filter(|cursor| cursor.v == VERSION) {
            None => Err(damaged),
            Some(cursor) if cursor.filter != digest_of(filter) => Err(SearchFailure::BadCursor(
                "it belongs to another filter; send it with the filter of the page that it came with",
            )),
            Some(cursor) => Ok(cursor),
        }
    }
}

fn digest_of(filter: &InstanceFilter) -> String {
    digest(&filter.text())[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_is_refused_elsewhere() {
        let filter = InstanceFilter {
            name: Some("fulfil".to_owned()),
            ..InstanceFilter::default()
        };
        let position = Key {
            created_at: 7,
            pk: "a/b \u{1F600}".to_owned(),
        };
        let cursor = Cursor::new(&filter, position.clone(), true);
        let text = cursor.encode();
        let decoded = Cursor::decode(&text, &filter).unwrap();
        assert_eq!((decoded.position(), decoded.is_wide), (position, true));
        assert!(matches!(
            Cursor::decode(&text, &InstanceFilter::default()),
            Err(SearchFailure::BadCursor(why)) if why.contains("another filter")
        ));
        let longest = "A".repeat(MOST_BYTES + 1);
        for damaged in [
            "",
            "x",
            "e30",
            &text[1..],
            &text[..text.len() - 2],
            &*longest,
            "\u{1F600}",
        ] {
            assert!(Cursor::decode(damaged, &filter).is_err(), "{damaged}");
        }
    }
}
