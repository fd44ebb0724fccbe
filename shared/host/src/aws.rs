//! The configuration that the AWS clients of this crate share, made on first use.
//!
//! Making it reads the root certificates and the credentials. A cold start that sends nothing does not pay for that, and
//! one that uses two services pays once. The neighbours are `notifier/sqs.rs`, `secret.rs` and
//! `web_identity.rs`.
//!
//! Endpoint, region and credentials come from the environment as usual in AWS, or from given variables with the same names;
//! `AWS_ENDPOINT_URL` points to a local service.

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::sync::OnceCell;

static SHARED: OnceCell<SdkConfig> = OnceCell::const_new();

/// The configuration from the environment.
pub(crate) async fn shared() -> &'static SdkConfig {
    SHARED
        .get_or_init(|| async {
            aws_config::defaults(BehaviorVersion::latest())
                .retry_config(retry())
                .timeout_config(timeouts())
                .load()
                .await
        })
        .await
}

/// The configuration for SQS from given variables only, named as in the environment.
pub(crate) fn given(get: impl Fn(&str) -> Option<String>) -> SdkConfig {
    let get = |name: &str| {
        get(name)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .retry_config(retry())
        .timeout_config(timeouts());
    config.set_region(get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION")).map(Region::new));
    config.set_endpoint_url(get("AWS_ENDPOINT_URL_SQS").or_else(|| get("AWS_ENDPOINT_URL")));
    if let (Some(id), Some(secret)) = (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")) {
        let credentials = Credentials::new(id, secret, get("AWS_SESSION_TOKEN"), None, "given variables");
        config.set_credentials_provider(Some(SharedCredentialsProvider::new(credentials)));
    }
    config.build()
}

/// One quick retry: it covers a connection that died while Lambda had the process frozen. More would only use up the
/// invocation.
pub(crate) fn retry() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(2)
        .with_initial_backoff(Duration::from_millis(50))
        .with_max_backoff(Duration::from_millis(100))
}

/// The services are in the same region: an answer that takes longer than this will not come. Two attempts fit into the
/// notify timeout (2 s by default), or the retry would never happen.
pub(crate) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_millis(700))
        .operation_attempt_timeout(Duration::from_millis(900))
        .build()
}

/// Why a call failed, in one line: the chain of sources, then the service's own code and message. Without the `Debug` form
/// of the SDK's error, which has the whole answer: an answer may contain a secret.
pub(crate) fn reason<E, R>(error: &SdkError<E, R>) -> String
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    for part in [error.code(), error.message()].into_iter().flatten() {
        if !text.contains(part) {
            write!(text, ": {part}").expect("writing to a string does not fail");
        }
    }
    text
}

/// Whether the same call may succeed later: there was no answer, or the service is busy.
pub(crate) fn is_transient<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let throttled = |code: &str| code.starts_with("Throttl") || code == "TooManyRequestsException";
    match error {
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => true,
        SdkError::ServiceError(refused) => {
            let status = refused.raw().status().as_u16();
            status == 429 || status >= 500 || error.code().is_some_and(throttled)
        }
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod scripted;

#[cfg(test)]
mod tests {
    use super::given;

    fn config(pairs: &[(&str, &str)]) -> aws_config::SdkConfig {
        given(|name| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_the_given_variables_are_used() {
        let some = config(&[
            ("AWS_REGION", " eu-west-1 "),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ]);
        assert_eq!(some.region().map(AsRef::as_ref), Some("eu-west-1"));
        assert_eq!(some.endpoint_url(), Some("http://127.0.0.1:1"));
        assert!(some.credentials_provider().is_some());
        assert!(!format!("{some:?}").contains("hidden"));
        // An empty variable counts as not set, and the process's environment is not used instead.
        let none = config(&[
            ("AWS_REGION", ""),
            ("AWS_ENDPOINT_URL", " "),
            ("AWS_ACCESS_KEY_ID", "id"),
        ]);
        assert!(none.region().is_none() && none.endpoint_url().is_none() && none.credentials_provider().is_none());
        let two = config(&[
            ("AWS_ENDPOINT_URL", "http://all"),
            ("AWS_ENDPOINT_URL_SQS", "http://sqs"),
        ]);
        assert_eq!(two.endpoint_url(), Some("http://sqs"));
    }
}
