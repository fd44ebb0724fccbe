//! Bodies: bounded before they are parsed, JSON, without unknown fields.

use crate::refusal::Refusal;
use crate::types::{Payload, ProblemType};
use axum::body::Body as HttpBody;
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

/// The largest body, in bytes. A larger one is refused before it is parsed.
pub const MAX_BODY: usize = 2 * 1024 * 1024;
/// The longest input, event or queue message, in bytes of its JSON string: a document of the store has at most 2 MB, and the
/// text is a string in it.
pub const MAX_TEXT: usize = 1_900_000;

/// A JSON body. An empty one counts as `{}`.
#[derive(Debug)]
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body).await?;
        if bytes.is_empty() {
            return parsed(b"{}").map(Body);
        }
        check_type(&parts.headers)?;
        parsed(&bytes).map(Body)
    }
}

async fn read(headers: &HeaderMap, body: HttpBody) -> Result<Vec<u8>, Refusal> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Refusal::invalid("the body ended early")),
    }
}

fn too_large() -> Refusal {
    let detail = format!("the body has more than {MAX_BODY} bytes: keep large data elsewhere and send a reference");
    Refusal::new(ProblemType::TooLarge, detail)
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match media.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Refusal::new(
            ProblemType::UnsupportedMediaType,
            "send the body with the header Content-Type: application/json",
        )),
    }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // A list of no fields would do for serde.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Refusal::invalid("the body is a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid(format!("the body cannot be used: {error}")))
}

/// The text of a payload, given as a JSON value or as itself; the empty text without either.
pub(crate) fn text_of(name: &str, value: Option<Payload>, text: Option<String>) -> Result<String, Refusal> {
    let text = match (value, text) {
        (Some(_), Some(_)) => {
            return Err(Refusal::invalid(format!("send {name} or {name}Text, not both")));
        }
        (Some(value), None) => value.json().to_owned(),
        (None, text) => text.unwrap_or_default(),
    };
    // Most texts are far below the limit, even if every byte were escaped.
    if text.len() > MAX_TEXT / 6 {
        let bytes = serde_json::to_string(&text).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_TEXT {
            let detail = format!(
                "{name} takes {bytes} bytes as a JSON string, and at most {MAX_TEXT} can be stored: keep large data elsewhere and \
                 send a reference"
            );
            return Err(Refusal::new(ProblemType::TooLarge, detail));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CancelRequest, StartRequest};

    async fn read_as<T: DeserializeOwned>(media: &str, body: &str) -> Result<T, Refusal> {
        let request = Request::builder()
            .header("content-type", media)
            .body(HttpBody::from(body.to_owned()));
        let read = Body::<T>::from_request(request.unwrap(), &()).await;
        read.map(|Body(body)| body)
    }

    #[tokio::test]
    async fn unknown_fields_other_media_and_broken_json_are_refused() {
        for (media, body, kind) in [
            ("application/json", "{\"reasons\": \"x\"}", ProblemType::InvalidRequest),
            ("application/json", "{\"reason\": \"x\"", ProblemType::InvalidRequest),
            ("application/json", "[]", ProblemType::InvalidRequest),
            (
                "application/json",
                "{\"reason\": \"x\", \"reason\": \"y\"}",
                ProblemType::InvalidRequest,
            ),
            ("text/plain", "{}", ProblemType::UnsupportedMediaType),
        ] {
            let refused = read_as::<CancelRequest>(media, body).await.unwrap_err();
            assert_eq!(refused.kind, kind, "{body}");
        }
        let media = "Application/JSON; charset=utf-8";
        let read = read_as::<CancelRequest>(media, "{\"reason\": \"x\"}").await.unwrap();
        assert_eq!(read.reason.as_deref(), Some("x"));
        assert_eq!(
            read_as::<CancelRequest>("", "").await.unwrap(),
            CancelRequest::default()
        );
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_before_it_is_parsed() {
        let body = "x".repeat(MAX_BODY + 1);
        let refused = read_as::<StartRequest>("text/plain", &body).await.unwrap_err();
        assert_eq!(refused.kind, ProblemType::TooLarge);
    }

    #[test]
    fn a_payload_is_given_once_and_fits_a_document() {
        let value = || Some(Payload::of_text("{\"a\": 1}"));
        assert_eq!(text_of("input", value(), None).unwrap(), "{\"a\": 1}");
        assert_eq!(text_of("input", None, Some("plain".to_owned())).unwrap(), "plain");
        assert_eq!(text_of("input", None, None).unwrap(), "");
        assert!(text_of("input", value(), Some(String::new())).is_err());
        let quotes = "\"".repeat(MAX_TEXT / 2 + 1);
        let refused = text_of("input", None, Some(quotes)).unwrap_err();
        assert_eq!(refused.kind, ProblemType::TooLarge);
        assert!(text_of("input", None, Some("x".repeat(MAX_TEXT - 2))).is_ok());
    }
}
