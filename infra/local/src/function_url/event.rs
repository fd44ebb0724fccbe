//! A request as the event of a function URL: payload format 2.0. Pure.
//!
//! The path and the query string keep their percent-encoding. (An API Gateway HTTP API decodes the path.)

use crate::net::Call;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duroxide_lambda::log::rfc3339;
use hyper::header::{CONTENT_TYPE, COOKIE, HeaderMap};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Content types, besides `text/*`, whose bodies are passed on as text.
const TEXTS: [&str; 3] = ["application/json", "application/javascript", "application/xml"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const CLIENT: &str = "127.0.0.1";

/// What an event says besides the request.
#[derive(Debug)]
pub(super) struct Context {
    /// The id of the request.
    pub(super) id: String,
    pub(super) now_ms: u64,
    /// The name that is the first label of the URL's host on Lambda.
    pub(super) name: String,
    /// The host and port of the URL.
    pub(super) authority: String,
}

pub(super) fn of(call: &Call, context: &Context) -> Value {
    let headers = headers(call, context);
    let query = call.query.as_deref().unwrap_or_default();
    let http = json!({
        "method": call.method.as_str(),
        "path": call.path,
        "protocol": "HTTP/1.1",
        "sourceIp": CLIENT,
        "userAgent": headers.get("user-agent").cloned().unwrap_or_default(),
    });
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": call.path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "accountId": "anonymous",
            "apiId": context.name,
            "domainName": context.authority,
            "domainPrefix": context.name,
            "http": http,
            "requestId": context.id,
            "routeKey": "$default",
            "stage": "$default",
            "time": log_time(context.now_ms),
            "timeEpoch": context.now_ms,
        },
        "isBase64Encoded": false,
    });
    let cookies = cookies(&call.headers);
    if !cookies.is_empty() {
        event["cookies"] = json!(cookies);
    }
    if !query.is_empty() {
        event["queryStringParameters"] = Value::Object(parameters(query));
    }
    if !call.body.is_empty() {
        let text = is_text(call).then(|| std::str::from_utf8(&call.body).ok()).flatten();
        event["isBase64Encoded"] = json!(text.is_none());
        event["body"] = json!(text.map_or_else(|| STANDARD.encode(&call.body), str::to_owned));
    }
    event
}

/// Header names in lower case; the values of a header that occurs repeatedly are joined. Cookies have a field of their own.
fn headers(call: &Call, context: &Context) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in call.headers.iter().filter(|(name, _)| *name != COOKIE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        headers
            .entry(name.as_str().to_owned())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    // Whatever the client says of itself, as on Lambda.
    let port = context.authority.rsplit(':').next().unwrap_or_default();
    for (name, value) in [
        ("x-forwarded-for", CLIENT),
        ("x-forwarded-port", port),
        ("x-forwarded-proto", "http"),
    ] {
        headers.insert(name.to_owned(), value.to_owned());
    }
    headers
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(COOKIE).iter();
    let texts: Vec<String> = all
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    let cookies = texts.iter().flat_map(|text| text.split(';')).map(str::trim);
    cookies.filter(|cookie| !cookie.is_empty()).map(str::to_owned).collect()
}

/// The parameters of a query string, decoded; the values of one that occurs repeatedly are joined.
fn parameters(query: &str) -> Map<String, Value> {
    let decoded = |text: &str| {
        let spaces = text.replace('+', " ");
        percent_decode_str(&spaces).decode_utf8_lossy().into_owned()
    };
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = decoded(value);
        parameters
            .entry(decoded(name))
            .and_modify(|all| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert(value);
    }
    parameters
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)))
        .collect()
}

fn is_text(call: &Call) -> bool {
    let kind = call.header(CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.starts_with("text/") || TEXTS.contains(&kind.as_str())
}

/// A moment as web servers log it: `09/Feb/2026:08:01:02 +0000`.
fn log_time(ms: u64) -> String {
    let text = rfc3339(ms);
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse().ok().and_then(|month: usize| MONTHS.get(month - 1));
    format!(
        "{}/{}/{}:{} +0000",
        part(8, 10),
        month.copied().unwrap_or_default(),
        part(0, 4),
        part(11, 19)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::Request;

    fn event(request: Request<&'static [u8]>) -> Value {
        let context = Context {
            id: "r1".to_owned(),
            now_ms: 951_782_399_999,
            name: "api".to_owned(),
            authority: "127.0.0.1:9401".to_owned(),
        };
        of(&Call::new(request.map(Bytes::from_static)), &context)
    }

    #[test]
    fn a_request_keeps_its_path_and_its_query_as_they_are() {
        let request = Request::get("/v1/instances/a%2Fb%20%F0%9F%8E%81?x=1%2C2&y=a+b&x=3&flag&%C3%B8=")
            .header("host", "127.0.0.1:9401")
            .header("user-agent", "curl/8")
            .header("x-forwarded-for", "10.0.0.1");
        let event = event(request.body(b"".as_slice()).unwrap());
        assert_eq!(event["version"], "2.0");
        assert_eq!(event["rawPath"], "/v1/instances/a%2Fb%20%F0%9F%8E%81");
        assert_eq!(event["rawQueryString"], "x=1%2C2&y=a+b&x=3&flag&%C3%B8=");
        let parameters = json!({ "x": "1,2,3", "y": "a b", "flag": "", "ø": "" });
        assert_eq!(event["queryStringParameters"], parameters);
        let http = &event["requestContext"]["http"];
        assert_eq!(
            (&http["method"], &http["path"], &http["userAgent"]),
            (&json!("GET"), &event["rawPath"], &json!("curl/8"))
        );
        assert_eq!(event["requestContext"]["time"], "28/Feb/2000:23:59:59 +0000");
        assert_eq!(event["headers"]["x-forwarded-for"], CLIENT, "not what the client says");
        assert_eq!(event["headers"]["x-forwarded-port"], "9401");
        assert_eq!(event.get("body"), None);
        assert_eq!(event.get("cookies"), None);
    }

    #[test]
    fn repeated_headers_are_joined_and_cookies_are_apart() {
        let request = Request::get("/")
            .header("X-Many", "a")
            .header("X-Many", "b, c")
            .header("Cookie", "one=1; two=\"2;\"")
            .header("Cookie", "three=3");
        let event = event(request.body(b"".as_slice()).unwrap());
        assert_eq!(event["headers"]["x-many"], "a,b, c");
        assert_eq!(event["headers"].get("cookie"), None);
        assert_eq!(event["cookies"], json!(["one=1", "two=\"2", "\"", "three=3"]));
    }

    #[test]
    fn a_body_is_text_only_if_its_type_and_its_bytes_are() {
        let cases: [(&str, &'static [u8], bool); 7] = [
            ("application/json", "{\"a\": \"ø\"}".as_bytes(), true),
            ("Application/JSON; charset=utf-8", b"1", true),
            ("text/plain", b"x", true),
            ("text/plain", &[0xff, 0xfe], false),
            ("application/octet-stream", b"x", false),
            ("application/x-www-form-urlencoded", b"a=1", false),
            ("", b"x", false),
        ];
        for (kind, body, is_text) in cases {
            let request = Request::post("/").header("content-type", kind);
            let event = event(request.body(body).unwrap());
            assert_eq!(event["isBase64Encoded"], !is_text, "{kind}");
            let sent = event["body"].as_str().unwrap();
            let sent = match is_text {
                true => sent.as_bytes().to_vec(),
                false => STANDARD.decode(sent).unwrap(),
            };
            assert_eq!(sent, body, "{kind}");
        }
    }
}
