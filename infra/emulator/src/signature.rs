//! The authorization of every request: the master-key signature or a token (`token`), the date and the version.
//!
//! The signed string names the verb, the resource type, the resource link (decoded, with its case) and the date. A refusal
//! shows that string, as the service does, because it helps to find the mistake. The key is never shown.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use sha2::Sha256;

use crate::http::{Call, Refusal};
use crate::token::{self, TokenIssuer};

const ALLOWED_SKEW: Duration = Duration::from_secs(15 * 60);

/// Who may use the account.
pub(crate) struct Trusted<'a> {
    pub(crate) key: &'a [u8],
    /// Whether the key is refused (`disableLocalAuth`).
    pub(crate) tokens_only: bool,
    pub(crate) issuer: &'a TokenIssuer,
}

/// Refuses a request that is not signed with the key and has no token, or whose date is too far off.
pub(crate) fn check(call: &Call, trusted: &Trusted<'_>) -> Result<(), Refusal> {
    if !call.headers.contains_key("x-ms-version") {
        return Err(Refusal::bad_request("The required header 'x-ms-version' is missing."));
    }
    let authorization = call.header("authorization").ok_or_else(|| {
        unauthorized("Required Header authorization is missing. Ensure a valid Authorization token is passed.")
    })?;
    let date = check_date(call)?;
    let authorization = percent_decode_str(authorization).decode_utf8_lossy();
    if let Some(token) = authorization.strip_prefix("type=aad&ver=1.0&sig=") {
        trusted.issuer.check(token)?;
        return token::check_allowed(call);
    }
    let signature = authorization.strip_prefix("type=master&ver=1.0&sig=").ok_or_else(|| {
        unauthorized("The authorization is neither a signature (type=master&ver=1.0) nor a token (type=aad&ver=1.0).")
    })?;
    if trusted.tokens_only {
        let message = "Local Authorization is disabled. Use an AAD token to authorize all requests.";
        return Err(unauthorized(message).with_substatus(5202));
    }
    check_signature(call, trusted.key, signature, date)
}

fn check_signature(call: &Call, key: &[u8], signature: &str, date: &str) -> Result<(), Refusal> {
    let payload = string_to_sign(call, date);
    let given = STANDARD.decode(signature).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(payload.as_bytes());
    mac.verify_slice(&given).map_err(|_| {
        unauthorized(&format!(
            "The input authorization token can't serve the request. Please check that the expected payload is built \
             as per the protocol, and check the key being used. Server used the following payload to sign: '{}'",
            payload.replace('\n', "\\n")
        ))
    })
}

fn check_date(call: &Call) -> Result<&str, Refusal> {
    let invalid = |what: &str| {
        Refusal::new(
            StatusCode::FORBIDDEN,
            format!("The authorization token is not valid at the current time. {what}"),
        )
    };
    let date = call
        .header("x-ms-date")
        .ok_or_else(|| invalid("The header x-ms-date is missing."))?;
    let then = httpdate::parse_http_date(date).map_err(|_| invalid("The header x-ms-date is not an RFC 7231 date."))?;
    let now = now();
    let skew = now.duration_since(then).unwrap_or_else(|ahead| ahead.duration());
    if skew > ALLOWED_SKEW {
        return Err(invalid("It is more than 15 minutes away from the server's clock."));
    }
    Ok(date)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the service's own clock, which a client cannot inject"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

fn string_to_sign(call: &Call, date: &str) -> String {
    let (resource_type, link) = resource(&call.segments);
    format!(
        "{}\n{}\n{}\n{}\n\n",
        call.method.as_str().to_ascii_lowercase(),
        resource_type.to_ascii_lowercase(),
        link,
        date.to_ascii_lowercase()
    )
}

/// The resource type and link in the signature of a path: a path that ends in a type is signed by its parent.
fn resource(segments: &[String]) -> (&str, String) {
    match segments {
        [] => ("", String::new()),
        [parent @ .., resource_type] if segments.len() % 2 == 1 => (resource_type, parent.join("/")),
        // The signature of an offer has its resource id alone, in lower case.
        [offers, id] if offers == "offers" => (offers, id.to_ascii_lowercase()),
        [.., resource_type, _] => (resource_type, segments.join("/")),
        [_] => unreachable!("one segment is an odd number of segments"),
    }
}

fn unauthorized(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource_of(path: &str) -> (String, String) {
        let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let (resource_type, link) = resource(&segments);
        (resource_type.to_owned(), link)
    }

    #[test]
    fn an_item_is_signed_by_its_path_and_a_feed_by_its_parent() {
        for (path, resource_type, link) in [
            ("/", "", ""),
            ("/dbs", "dbs", ""),
            ("/dbs/D", "dbs", "dbs/D"),
            ("/dbs/D/colls", "colls", "dbs/D"),
            ("/dbs/D/colls/C/docs", "docs", "dbs/D/colls/C"),
            ("/dbs/D/colls/C/pkranges", "pkranges", "dbs/D/colls/C"),
            ("/dbs/D/colls/C/docs/x", "docs", "dbs/D/colls/C/docs/x"),
        ] {
            assert_eq!(resource_of(path), (resource_type.to_owned(), link.to_owned()), "{path}");
        }
    }
}
