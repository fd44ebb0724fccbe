//! Sends requests to the API: one place that signs, retries, and reads problems.

use super::access::{Access, LOCAL, Target};
use super::answer::{Code, Failure};
use super::sign::{Signer, Unsigned};
use crate::ambient;
use crate::terminal::program;
use bytes::Bytes;
use duroxide_lambda_api::types::{Problem, ProblemType};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use url::Url;

/// What stays as it is in a segment of a path: the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How long a request may take, besides the time that it waits on purpose. A cold start of the function is a part of it.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The longest time that the API waits for a change.
const LONGEST_WAIT: Duration = Duration::from_secs(25);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request is sent, if sending it again has no other effect.
const MOST_TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The way to one API.
pub(super) struct Transport {
    http: Client,
    base: String,
    access: Sender,
    is_default: bool,
}

enum Sender {
    Nobody,
    Bearer(HeaderValue),
    Aws(Box<Signer>),
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Vec<u8>,
    if_none_match: Option<HeaderValue>,
    key: Option<String>,
    /// Repeating it has no other effect.
    repeatable: bool,
    /// It is repeated without a connection, too.
    insistent: bool,
    waits: Duration,
}

/// A request of a browser.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) method: Method,
    /// The path and the query, as they were sent.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What the API answered.
#[derive(Debug)]
pub(super) enum Reply<T> {
    /// The answer and its ETag.
    Value(T, Option<HeaderValue>),
    /// As the ETag in the request says.
    Unchanged,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The API has refused the request.
    Problem { kind: Option<ProblemType>, detail: String },
    /// There is no API, or not this one.
    Failure(Failure),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Failure(failure) => failure,
            Refused::Problem {
                kind: Some(ProblemType::NotFound),
                detail,
            } => Failure::new(Code::NotFound, detail),
            Refused::Problem { detail, .. } => Failure::error(detail),
        }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failure(failure)
    }
}

/// The path of these segments, each encoded.
pub(super) fn path(segments: &[&str]) -> String {
    let encoded = segments
        .iter()
        .map(|segment| utf8_percent_encode(segment, ENCODED).to_string());
    encoded.fold("/v1".to_owned(), |path, segment| path + "/" + &segment)
}

impl Request {
    fn new(method: Method, path: String) -> Request {
        Request {
            method,
            path,
            query: Vec::new(),
            body: Vec::new(),
            if_none_match: None,
            key: None,
            repeatable: false,
            insistent: false,
            waits: Duration::ZERO,
        }
    }

    pub(super) fn get(segments: &[&str]) -> Request {
        Request::new(Method::GET, path(segments))
    }

    pub(super) fn delete(segments: &[&str]) -> Request {
        Request::new(Method::DELETE, path(segments))
    }

    pub(super) fn post(segments: &[&str], body: &impl Serialize) -> Result<Request, Failure> {
        let mut request = Request::new(Method::POST, path(segments));
        request.body = serde_json::to_vec(body)
            .map_err(|error| Failure::error(format!("the request cannot be written as JSON: {error}")))?;
        Ok(request)
    }

    /// A POST to something, with a verb.
    pub(super) fn verb(segments: &[&str], verb: &str, body: &impl Serialize) -> Result<Request, Failure> {
        let mut request = Request::post(segments, body)?;
        request.path.push(':');
        request.path.push_str(verb);
        Ok(request)
    }

    pub(super) fn query(mut self, name: &'static str, value: impl ToString) -> Request {
        self.query.push((name, value.to_string()));
        self
    }

    pub(super) fn maybe(self, name: &'static str, value: Option<impl ToString>) -> Request {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Unless it is still as this ETag says.
    pub(super) fn unless(mut self, etag: Option<&HeaderValue>) -> Request {
        self.if_none_match = etag.cloned();
        self
    }

    /// Waits so long for a change.
    pub(super) fn wait(mut self, time: Duration) -> Request {
        self.waits = time;
        match time.as_secs() {
            0 => self,
            seconds => self.query("wait", seconds),
        }
    }

    /// With a key, by which a repeated request has its effect once.
    pub(super) fn once(mut self, key: String) -> Request {
        self.key = Some(key);
        self
    }

    /// With a verb that has no other effect when it is repeated.
    pub(super) fn repeatable(mut self) -> Request {
        self.repeatable = true;
        self
    }

    /// Repeatable, also while there is no connection: for what must be done at an end.
    pub(super) fn insistent(mut self) -> Request {
        self.insistent = true;
        self.repeatable()
    }

    /// Whether sending it twice has no other effect than once.
    fn is_repeatable(&self) -> bool {
        self.method == Method::GET || self.key.is_some() || self.repeatable
    }
}

impl Transport {
    /// Whether the API is on this machine: plain HTTP goes nowhere else.
    pub(super) fn is_local(&self) -> bool {
        self.base.starts_with("http:")
    }

    pub(super) async fn connect(target: Target) -> Result<Transport, Failure> {
        let http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("duroxide-lambda/", env!("CARGO_PKG_VERSION")));
        // Plain HTTP stays on this machine.
        let http = if target.url.scheme() == "https" {
            http
        } else {
            http.no_proxy()
        };
        let http = http
            .build()
            .map_err(|error| Failure::error(format!("the HTTP client cannot be created: {error}")))?;
        let access = match target.access {
            Access::None => Sender::Nobody,
            Access::Bearer(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.secret()))
                    .map_err(|_| Failure::new(Code::Usage, "the token cannot be sent"))?;
                value.set_sensitive(true);
                Sender::Bearer(value)
            }
            Access::Aws {
                region,
                service,
                profile,
            } => Sender::Aws(Box::new(Signer::load(region, service, profile).await?)),
        };
        Ok(Transport {
            http,
            base: target.url.as_str().trim_end_matches('/').to_owned(),
            access,
            is_default: target.is_default,
        })
    }

    /// Sends a request whose answer has a body.
    pub(super) async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Refused> {
        match self.send(request).await? {
            Reply::Value(value, _) => Ok(value),
            Reply::Unchanged => Err(self.unexpected("304 without a condition").into()),
        }
    }

    /// Sends a request, and sends it again while the API is overloaded or unreachable for a moment.
    pub(super) async fn send<T: DeserializeOwned>(&self, request: Request) -> Result<Reply<T>, Refused> {
        let url = self.url_of(&request)?;
        let mut pause = FIRST_PAUSE;
        for tries in 1..=MOST_TRIES {
            let is_last = tries == MOST_TRIES || !request.is_repeatable();
            let response = self.send_once(&url, &request).await;
            let (status, headers, body) = match response {
                Ok(response) => response,
                // Before a connection was made nothing was sent; afterwards nobody knows.
                Err(error) if is_last || (error.is_connect() && !request.insistent) => {
                    return Err(self.unreachable(&error).into());
                }
                Err(_) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            if is_last || !is_transient(status) {
                return self.reply(status, &headers, &body);
            }
            tokio::time::sleep(retry_after(&headers).unwrap_or(pause).min(LONGEST_PAUSE)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(self.unexpected("nothing").into())
    }

    fn url_of(&self, request: &Request) -> Result<Url, Failure> {
        let mut url = Url::parse(&format!("{}{}", self.base, request.path))
            .map_err(|error| Failure::error(format!("the request has no URL: {error}")))?;
        if !request.query.is_empty() {
            url.set_query(Some(&query_of(&request.query)));
        }
        Ok(url)
    }

    /// Sends a request of a browser once: the page itself repeats it.
    pub(super) async fn pass(&self, request: Passed) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
        let Passed {
            method,
            target,
            headers,
            body,
        } = request;
        let url = Url::parse(&format!("{}{}", self.base, as_signed(&target)))
            .map_err(|error| Failure::error(format!("the request has no URL: {error}")))?;
        let passed = async {
            let sending = self
                .prepared(&method, &url, &body)
                .await?
                .timeout(TIMEOUT + LONGEST_WAIT);
            read(sending.headers(headers).body(body).send().await).await
        };
        passed.await.map_err(|error| self.unreachable(&error))
    }

    /// A request that proves who sends it.
    async fn prepared(&self, method: &Method, url: &Url, body: &[u8]) -> Result<RequestBuilder, SendError> {
        let mut sending = self.http.request(method.clone(), url.clone());
        match &self.access {
            Sender::Nobody => {}
            Sender::Bearer(value) => sending = sending.header(AUTHORIZATION, value.clone()),
            Sender::Aws(signer) => {
                let unsigned = Unsigned {
                    method: method.as_str(),
                    url: url.as_str(),
                    body,
                };
                let headers = signer
                    .headers(unsigned, ambient::now())
                    .await
                    .map_err(SendError::Signing)?;
                for (name, value) in headers {
                    sending = sending.header(name, value);
                }
            }
        }
        Ok(sending)
    }

    async fn send_once(&self, url: &Url, request: &Request) -> Result<(StatusCode, HeaderMap, Bytes), SendError> {
        let sending = self.prepared(&request.method, url, &request.body).await?;
        let mut sending = sending.timeout(TIMEOUT + request.waits);
        if let Some(etag) = &request.if_none_match {
            sending = sending.header(IF_NONE_MATCH, etag.clone());
        }
        if let Some(key) = &request.key {
            sending = sending.header("idempotency-key", key);
        }
        if request.method == Method::POST {
            sending = sending
                .header(CONTENT_TYPE, "application/json")
                .body(request.body.clone());
        }
        read(sending.send().await).await
    }

    fn reply<T: DeserializeOwned>(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Reply<T>, Refused> {
        if status == StatusCode::NOT_MODIFIED {
            return Ok(Reply::Unchanged);
        }
        if status.is_success() {
            let value = serde_json::from_slice(body)
                .map_err(|error| self.unexpected(&format!("an answer that cannot be read: {error}")))?;
            return Ok(Reply::Value(value, headers.get(ETAG).cloned()));
        }
        if let Ok(problem) = serde_json::from_slice::<Problem>(body) {
            return Err(Refused::Problem {
                kind: ProblemType::of_uri(&problem.kind),
                detail: problem.detail,
            });
        }
        Err(self.answered_by_another(status).into())
    }

    /// An answer that does not come from our function.
    fn answered_by_another(&self, status: StatusCode) -> Failure {
        let what = match status {
            StatusCode::FORBIDDEN => {
                "refuses the request (403): the credentials need the policy ClientPolicyArn of the stack".to_owned()
            }
            StatusCode::UNAUTHORIZED => "does not know who you are (401)".to_owned(),
            StatusCode::TOO_MANY_REQUESTS => "is overloaded (429): try again later, or raise ApiConcurrency".to_owned(),
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                format!(
                    "has failed ({}): the log of its function has the reason",
                    status.as_u16()
                )
            }
            StatusCode::PAYLOAD_TOO_LARGE => {
                "refuses a request of that size (413): keep large payloads outside, and pass a reference".to_owned()
            }
            other => return self.unexpected(&other.to_string()),
        };
        Failure::error(format!("the API at {} {what}", self.base))
    }

    fn unexpected(&self, what: &str) -> Failure {
        Failure::error(format!(
            "{} is not the API of a deployment, or has another version (it answers {what}): check --url, --profile and \
             DUROXIDE_LAMBDA_URL",
            self.base
        ))
    }

    fn unreachable(&self, error: &SendError) -> Failure {
        let what = match error {
            SendError::Signing(failure) => return Failure::new(failure.code, failure.message.clone()),
            SendError::Http(error) if error.is_timeout() => "does not answer in time",
            SendError::Http(_) => "does not answer",
        };
        if self.is_default {
            let advice = format!(
                "start one with `{0} dev` in a project, or with `{0} up`, or give the address of a deployment with --url, DUROXIDE_LAMBDA_URL or --profile",
                program()
            );
            return Failure::error(format!("no local cloud answers at {LOCAL}: {advice}"));
        }
        Failure::error(format!(
            "the API at {} {what}: check --url, --profile and DUROXIDE_LAMBDA_URL, and the network",
            self.base
        ))
    }
}

async fn read(response: reqwest::Result<Response>) -> Result<(StatusCode, HeaderMap, Bytes), SendError> {
    let response = response.map_err(SendError::Http)?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.map_err(SendError::Http)?;
    Ok((status, headers, body))
}

/// A query in which a space is `%20`: signatures know no `+`.
fn query_of(parameters: &[(&'static str, String)]) -> String {
    let encoded = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ENCODED)));
    encoded.collect::<Vec<_>>().join("&")
}

/// A path and a query, the query encoded as signatures want it: browsers write `+` for a space, and leave some characters as they are.
fn as_signed(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target.to_owned();
    };
    let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let pairs: Vec<String> = url::form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)))
        .collect();
    format!("{path}?{}", pairs.join("&"))
}

/// Why a request has no answer.
enum SendError {
    Signing(Failure),
    Http(reqwest::Error),
}

impl SendError {
    fn is_connect(&self) -> bool {
        match self {
            SendError::Signing(_) => true,
            SendError::Http(error) => error.is_connect(),
        }
    }
}

fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_the_path() {
        assert_eq!(
            path(&["instances", "a/b \"☃\"?#%", "kv"]),
            "/v1/instances/a%2Fb%20%22%E2%98%83%22%3F%23%25/kv"
        );
        let cancel = Request::verb(&["instances", "x:y"], "cancel", &()).unwrap();
        assert_eq!(cancel.path, "/v1/instances/x%3Ay:cancel");
    }

    #[test]
    fn a_query_is_encoded_as_signatures_want_it() {
        let parameters = [("prefix", "a b+c".to_owned()), ("tag", "k:ø&x=1".to_owned())];
        assert_eq!(query_of(&parameters), "prefix=a%20b%2Bc&tag=k%3A%C3%B8%26x%3D1");
    }

    #[test]
    fn a_query_of_a_browser_is_encoded_as_signatures_want_it() {
        for (sent, signed) in [
            ("/v1/instances/a%2Fb", "/v1/instances/a%2Fb"),
            (
                "/v1/instances?prefix=a+b%2Bc&tag=k:v",
                "/v1/instances?prefix=a%20b%2Bc&tag=k%3Av",
            ),
            ("/v1/x?tag=%C3%B8&wait", "/v1/x?tag=%C3%B8&wait="),
        ] {
            assert_eq!(as_signed(sent), signed);
        }
    }

    #[test]
    fn only_requests_without_a_second_effect_are_repeated() {
        assert!(Request::get(&["instances"]).is_repeatable());
        assert!(!Request::delete(&["instances", "a"]).is_repeatable());
        let post = || Request::post(&["instances"], &()).unwrap();
        assert!(!post().is_repeatable());
        assert!(post().once("key".to_owned()).is_repeatable());
        assert!(post().repeatable().is_repeatable());
    }

    #[test]
    fn a_problem_becomes_an_exit_code() {
        let code = |kind| {
            let detail = String::new();
            Failure::from(Refused::Problem { kind, detail }).code
        };
        assert_eq!(code(Some(ProblemType::NotFound)), Code::NotFound);
        assert_eq!(code(Some(ProblemType::Forbidden)), Code::Error);
        assert_eq!(code(None), Code::Error);
    }
}
