//! The answer of a function as an HTTP response. Pure.
//!
//! An answer with a `statusCode` is a response. Any other JSON is the body of a response with status 200; of a string, its
//! text. What is neither is [`Invalid`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE};
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Headers about the connection, which is this server's.
const OF_THE_CONNECTION: [&str; 5] = [
    "connection",
    "content-length",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
];
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why an answer is no response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Invalid {
    #[error("it is not JSON")]
    NotJson,
    #[error("{0}")]
    Shape(String),
    #[error("statusCode is {0}")]
    Status(u16),
    #[error("the header {0} cannot be sent")]
    Header(String),
    #[error("the body is not base64")]
    Base64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    headers: Option<Map<String, Value>>,
    cookies: Option<Vec<String>>,
    body: Option<String>,
    is_base64_encoded: Option<bool>,
}

pub(super) fn of(answer: &Bytes) -> Result<Response<Full<Bytes>>, Invalid> {
    let answer: Value = serde_json::from_slice(answer).map_err(|_| Invalid::NotJson)?;
    if answer.get("statusCode").is_none() {
        let body = match answer {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        return Ok(response);
    }
    let answer: Answer = serde_json::from_value(answer).map_err(|error| Invalid::Shape(error.to_string()))?;
    let body = body_of(&answer)?;
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status_of(answer.status_code)?;
    for (name, value) in answer.headers.iter().flatten() {
        if OF_THE_CONNECTION.contains(&name.to_ascii_lowercase().as_str()) {
            continue;
        }
        let (name, value) = header(name, value).ok_or_else(|| Invalid::Header(name.clone()))?;
        response.headers_mut().insert(name, value);
    }
    for cookie in answer.cookies.iter().flatten() {
        let value = HeaderValue::from_str(cookie).map_err(|_| Invalid::Header(SET_COOKIE.to_string()))?;
        response.headers_mut().append(SET_COOKIE, value);
    }
    response.headers_mut().entry(CONTENT_TYPE).or_insert(JSON);
    Ok(response)
}

fn status_of(code: u16) -> Result<StatusCode, Invalid> {
    let status = StatusCode::from_u16(code).ok();
    // An informational status would not end the request.
    status
        .filter(|_| (200..600).contains(&code))
        .ok_or(Invalid::Status(code))
}

fn body_of(answer: &Answer) -> Result<Bytes, Invalid> {
    let body = answer.body.clone().unwrap_or_default();
    match answer.is_base64_encoded {
        Some(true) => STANDARD.decode(body).map(Bytes::from).map_err(|_| Invalid::Base64),
        _ => Ok(Bytes::from(body)),
    }
}

fn header(name: &str, value: &Value) -> Option<(HeaderName, HeaderValue)> {
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return None,
    };
    Some((
        HeaderName::from_bytes(name.as_bytes()).ok()?,
        HeaderValue::from_str(&value).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use serde_json::json;

    async fn replied(answer: Value) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let response = of(&Bytes::from(answer.to_string())).unwrap();
        let (parts, body) = response.into_parts();
        let headers = parts.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        (
            parts.status.as_u16(),
            headers.collect(),
            body.collect().await.unwrap().to_bytes().to_vec(),
        )
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[tokio::test]
    async fn an_answer_with_a_status_is_a_response() {
        let answer = json!({
            "statusCode": 202,
            "headers": { "Location": "/v1/instances/a%2Fb", "X-Count": 3, "Content-Length": "999" },
            "cookies": ["a=1; Path=/", "b=2"],
            "body": "AP8=",
            "isBase64Encoded": true,
        });
        let (status, mut headers, body) = replied(answer).await;
        headers.sort();
        assert_eq!((status, body), (202, vec![0, 0xff]));
        let expected = [
            pair("content-type", "application/json"),
            pair("location", "/v1/instances/a%2Fb"),
            pair("set-cookie", "a=1; Path=/"),
            pair("set-cookie", "b=2"),
            pair("x-count", "3"),
        ];
        assert_eq!(headers, expected);
        let (status, headers, body) = replied(json!({ "statusCode": 204, "headers": { "content-type": "x/y" } })).await;
        assert_eq!(
            (status, headers, body),
            (204, vec![pair("content-type", "x/y")], vec![])
        );
    }

    #[tokio::test]
    async fn any_other_json_is_the_body_of_a_response() {
        for (answer, expected) in [
            (json!("Hello"), "Hello"),
            (json!({ "message": "Hello" }), r#"{"message":"Hello"}"#),
            (json!([1, 2]), "[1,2]"),
            (json!(null), "null"),
        ] {
            let (status, headers, body) = replied(answer).await;
            assert_eq!((status, body), (200, expected.as_bytes().to_vec()));
            assert_eq!(headers, [pair("content-type", "application/json")]);
        }
    }

    #[test]
    fn what_cannot_be_sent_is_invalid() {
        let invalid = |answer: &str| of(&Bytes::from(answer.to_owned())).unwrap_err();
        assert_eq!(invalid("Hello"), Invalid::NotJson);
        assert_eq!(invalid(""), Invalid::NotJson);
        for shape in [
            r#"{"statusCode": "200"}"#,
            r#"{"statusCode": 200, "body": {"a": 1}}"#,
            r#"{"statusCode": 200, "headers": []}"#,
        ] {
            assert!(matches!(invalid(shape), Invalid::Shape(_)), "{shape}");
        }
        assert_eq!(invalid(r#"{"statusCode": 42}"#), Invalid::Status(42));
        assert_eq!(invalid(r#"{"statusCode": 101}"#), Invalid::Status(101));
        let header = r#"{"statusCode": 200, "headers": {"a b": "x"}}"#;
        assert_eq!(invalid(header), Invalid::Header("a b".to_owned()));
        let value = r#"{"statusCode": 200, "headers": {"a": "x\ny"}}"#;
        assert_eq!(invalid(value), Invalid::Header("a".to_owned()));
        let body = r#"{"statusCode": 200, "body": "!", "isBase64Encoded": true}"#;
        assert_eq!(invalid(body), Invalid::Base64);
    }
}
