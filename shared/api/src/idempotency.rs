//! The header `Idempotency-Key`: a request that is repeated with the same key has its effect once.

use crate::refusal::Refusal;
use axum::extract::FromRequestParts;
use http::request::Parts;

/// The longest key, in bytes.
const MOST: usize = 255;

/// The key of a request, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let (first, second) = (values.next(), values.next());
        let Some(value) = first else { return Ok(Key(None)) };
        let key = value
            .to_str()
            .ok()
            .filter(|key| (1..=MOST).contains(&key.len()) && second.is_none());
        let wrong = || {
            Refusal::invalid(format!(
                "Idempotency-Key is given once, with 1 to {MOST} printable ASCII characters"
            ))
        };
        key.map(|key| Key(Some(key.to_owned()))).ok_or_else(wrong)
    }
}
