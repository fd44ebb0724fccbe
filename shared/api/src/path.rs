//! Ids and verbs in paths.
//!
//! An id is one percent-encoded segment, so that every id can be written: `a%2Fb`, `%F0%9F%98%80`. A verb follows the *last*
//! literal colon of the last segment. Only POST has verbs, and it always has one, so an id that ends like a verb is no
//! exception: `x:cancel:cancel` and `x%3Acancel:cancel` both cancel `x:cancel`.

use crate::refusal::Refusal;
use crate::types::ProblemType;
use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stays as it is in a segment: the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The decoded segment of the path with this number; 0 is the first after the leading slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment<const N: usize>(pub String);

/// A segment that ends with a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verbed<const N: usize> {
    pub id: String,
    pub verb: String,
}

/// A segment as it was sent.
pub(crate) fn raw_segment(path: &str, number: usize) -> Option<&str> {
    path.strip_prefix('/')?.split('/').nth(number)
}

pub(crate) fn decoded(segment: &str) -> Result<String, Refusal> {
    let text = percent_decode_str(segment).decode_utf8();
    let text = text.map_err(|_| Refusal::invalid("the path is not percent-encoded UTF-8"))?;
    Ok(text.into_owned())
}

pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The id and the verb of a segment as it was sent.
pub(crate) fn verbed(segment: &str) -> Result<(String, String), Refusal> {
    let found = segment.rsplit_once(':').filter(|(id, _)| !id.is_empty());
    let Some((id, verb)) = found else {
        let detail = "a POST to this path names a verb after a colon, like order-7:cancel";
        return Err(Refusal::new(ProblemType::NoSuchRoute, detail));
    };
    Ok((decoded(id)?, decoded(verb)?))
}

impl<const N: usize, S: Sync> FromRequestParts<S> for Segment<N> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let segment = raw_segment(parts.uri.path(), N).unwrap_or_default();
        Ok(Segment(decoded(segment)?))
    }
}

impl<const N: usize, S: Sync> FromRequestParts<S> for Verbed<N> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let (id, verb) = verbed(raw_segment(parts.uri.path(), N).unwrap_or_default())?;
        Ok(Verbed { id, verb })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_can_be_written() {
        for id in [
            "order-7",
            "a/b",
            "x:cancel",
            "😀",
            "100%",
            "a b+c",
            "\"quoted\"",
            "..",
            "?#",
            "\u{0}",
        ] {
            let sent = encoded(id);
            assert!(
                sent.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'),
                "{sent}"
            );
            assert_eq!(decoded(&sent).unwrap(), id);
            let (back, verb) = verbed(&format!("{sent}:cancel")).unwrap();
            assert_eq!((back.as_str(), verb.as_str()), (id, "cancel"));
        }
    }

    #[test]
    fn the_last_literal_colon_begins_the_verb() {
        for (segment, id, verb) in [
            ("x:cancel", "x", "cancel"),
            ("x:cancel:cancel", "x:cancel", "cancel"),
            ("x%3Acancel:prune", "x:cancel", "prune"),
            ("dead:t:1:redrive", "dead:t:1", "redrive"),
        ] {
            assert_eq!(verbed(segment).unwrap(), (id.to_owned(), verb.to_owned()));
        }
        for without in ["x", "x%3Acancel", ":cancel", ""] {
            assert_eq!(verbed(without).unwrap_err().kind, ProblemType::NoSuchRoute, "{without}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_is_refused() {
        assert_eq!(decoded("%FF").unwrap_err().kind, ProblemType::InvalidRequest);
    }
}
