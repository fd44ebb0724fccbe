//! The `Authorization` header: a signature with the account key, or a token of Entra ID.
//!
//! With a key, the service recomputes an HMAC over verb, resource type, resource link and date. The link keeps its case and is
//! not percent-encoded, even when the URL is. `send.rs` signs each attempt, because the date is part of it.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use crate::credential::Credential;
use crate::key::Key;
use crate::resource::Resource;

const QUERY_VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The date of `x-ms-date`, as RFC 7231 writes it.
pub(crate) fn http_date(now_ms: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now_ms))
}

/// The value of the `Authorization` header.
pub(crate) fn authorization(credential: &Credential, verb: &str, resource: &Resource, date: &str) -> String {
    let token = match credential {
        Credential::Key(key) => format!("type=master&ver=1.0&sig={}", signature(key, verb, resource, date)),
        Credential::Token(token) => format!("type=aad&ver=1.0&sig={}", token.text()),
    };
    utf8_percent_encode(&token, QUERY_VALUE).to_string()
}

fn signature(key: &Key, verb: &str, resource: &Resource, date: &str) -> String {
    let text = format!(
        "{}\n{}\n{}\n{}\n\n",
        verb.to_lowercase(),
        resource.kind,
        resource.link,
        date.to_lowercase()
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::Token;
    use crate::resource::{ContainerName, databases};

    /// The expected values were computed with Python's `hmac` and `urllib.parse.quote(.., safe='')`.
    const NOW_MS: u64 = 1_700_000_000_123;

    fn key() -> Credential {
        let text = "dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZw==";
        Credential::Key(Key::from_base64(text).unwrap())
    }

    #[test]
    fn a_token_is_sent_as_it_is_whatever_the_request() {
        let token = Credential::Token(Token::new("aGVhZA.Ym9k-eV8.c2ln").unwrap());
        assert_eq!(
            authorization(&token, "POST", &databases(), &http_date(NOW_MS)),
            "type%3Daad%26ver%3D1.0%26sig%3DaGVhZA.Ym9k-eV8.c2ln"
        );
    }

    #[test]
    fn the_date_is_in_http_form() {
        assert_eq!(http_date(NOW_MS), "Tue, 14 Nov 2023 22:13:20 GMT");
    }

    #[test]
    fn the_signature_agrees_with_an_independent_implementation() {
        let document = ContainerName::new("Db", "Coll").document("a%b c").unwrap();
        assert_eq!(
            authorization(&key(), "GET", &document, &http_date(NOW_MS)),
            "type%3Dmaster%26ver%3D1.0%26sig%3DcceLaO%2FBKfeSmpoBP5ZCUFqmp%2FK%2BoDVCRUvfuRktQv8%3D"
        );
    }

    #[test]
    fn creating_a_database_signs_an_empty_link() {
        assert_eq!(
            authorization(&key(), "POST", &databases(), &http_date(NOW_MS)),
            "type%3Dmaster%26ver%3D1.0%26sig%3DCk6Pj4NzcLDniW57F4IZbLjXReP3VAV%2FWOnLsx4%2B6TM%3D"
        );
    }
}
