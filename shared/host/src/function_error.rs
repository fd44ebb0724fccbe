//! The errors of functions, as Lambda reports them: a stable name, `errorType`, and a text for people.
//!
//! Callers, alarms and log queries may compare the names, so a name never changes its meaning. An error of an invocation
//! goes to Lambda through `lambda_runtime`. One before the first invocation would end the process without an answer, and
//! callers would see `Runtime.ExitError` only, so [`report_start`] sends it to the Runtime API first.

use crate::maintenance::MaintenanceError;
use duroxide::providers::ProviderError;
use futures::FutureExt as _;
use lambda_runtime::{Diagnostic, Error};
use serde::Serialize;
use std::any::Any;
use std::env;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// How long the report of a failed start may take. The process ends anyway.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum ErrorType {
    /// The environment variables cannot be used.
    Configuration,
    /// The event is not what this function takes; nothing was changed.
    InvalidEvent,
    /// The store did not answer, or is throttled: try again.
    StoreUnavailable,
    /// The store refused, and will again.
    StoreRefused,
    /// A defect: the function's code panicked.
    Panic,
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why an invocation failed.
#[derive(Debug, thiserror::Error)]
#[error("{error_type}: {message}")]
pub(crate) struct FunctionError {
    error_type: ErrorType,
    message: String,
}

impl FunctionError {
    fn new(error_type: ErrorType, message: String) -> FunctionError {
        FunctionError { error_type, message }
    }

    /// The event of an orchestrator or worker is no batch of SQS messages.
    pub(crate) fn no_batch(error: &serde_json::Error) -> FunctionError {
        let message = format!(
            "the event is not a batch of SQS messages ({error}); this function is invoked by the event source mapping of \
             its queue"
        );
        FunctionError::new(ErrorType::InvalidEvent, message)
    }

    fn panicked(panic: &(dyn Any + Send)) -> FunctionError {
        FunctionError::new(
            ErrorType::Panic,
            format!("the function panicked: {}", panic_text(panic)),
        )
    }
}

/// What code said when it panicked.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text")
}

impl From<MaintenanceError> for FunctionError {
    fn from(error: MaintenanceError) -> FunctionError {
        let error_type = match &error {
            MaintenanceError::Request(_) => ErrorType::InvalidEvent,
            MaintenanceError::Store(store) => of_store(store),
        };
        FunctionError::new(error_type, error.to_string())
    }
}

fn of_store(error: &ProviderError) -> ErrorType {
    if error.is_retryable() {
        ErrorType::StoreUnavailable
    } else {
        ErrorType::StoreRefused
    }
}

impl From<FunctionError> for Diagnostic {
    fn from(error: FunctionError) -> Diagnostic {
        Diagnostic {
            error_type: error.error_type.to_string(),
            error_message: error.message,
        }
    }
}

/// Serves one invocation; a panic of it becomes an error with a name.
pub(crate) async fn guarded<T>(invocation: impl Future<Output = Result<T, FunctionError>>) -> Result<T, FunctionError> {
    match AssertUnwindSafe(invocation).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => Err(FunctionError::panicked(panic.as_ref())),
    }
}

/// Reports to the Runtime API why the function does not start.
pub(crate) fn report_start(error: &Error) {
    let Ok(api) = env::var("AWS_LAMBDA_RUNTIME_API") else {
        return;
    };
    let error = Diagnostic {
        error_type: ErrorType::Configuration.to_string(),
        error_message: error.to_string(),
    };
    if let Err(problem) = post_start(&api, &error) {
        // The process ends with the error in its log: Lambda reports its exit instead.
        tracing::warn!(%problem, "the error of the start was not reported to Lambda");
    }
}

/// One request of a few lines: the Runtime API is plain HTTP, and the process is about to end.
fn post_start(api: &str, error: &Diagnostic) -> std::io::Result<()> {
    let body = serde_json::to_vec(error)?;
    let mut stream = TcpStream::connect(api)?;
    stream.set_read_timeout(Some(REPORT_TIMEOUT))?;
    stream.set_write_timeout(Some(REPORT_TIMEOUT))?;
    write!(
        stream,
        "POST /2018-06-01/runtime/init/error HTTP/1.1\r\nhost: {api}\r\nconnection: close\r\n\
         content-type: application/json\r\nlambda-runtime-function-error-type: {}\r\ncontent-length: {}\r\n\r\n",
        error.error_type,
        body.len()
    )?;
    stream.write_all(&body)?;
    // Waits for the answer: the process must not end before Lambda has the report.
    stream.read_exact(&mut [0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::net::TcpListener;

    fn reported(error: impl Into<FunctionError>) -> Value {
        serde_json::to_value(Diagnostic::from(error.into())).unwrap()
    }

    #[test]
    fn errors_have_stable_names() {
        let no_batch = serde_json::from_value::<crate::event::SqsEvent>(json!({})).unwrap_err();
        assert_eq!(
            reported(FunctionError::no_batch(&no_batch))["errorType"],
            "InvalidEvent"
        );
        for (store, name) in [
            (ProviderError::retryable("list", "no answer"), "StoreUnavailable"),
            (ProviderError::permanent("list", "forbidden"), "StoreRefused"),
        ] {
            assert_eq!(reported(MaintenanceError::Store(store))["errorType"], name);
        }
        let request = crate::maintenance::MaintenanceRequest::from_payload(&json!({"passes": ["everything"]}));
        let request = reported(MaintenanceError::Request(request.unwrap_err()));
        assert_eq!(request["errorType"], "InvalidEvent");
        assert!(
            request["errorMessage"].as_str().unwrap().contains("passes[0]"),
            "{request}"
        );
    }

    #[tokio::test]
    async fn a_panic_is_an_error_with_a_name_and_its_text() {
        let text = "out of cheese".to_owned();
        let error = guarded::<()>(async move { panic!("{text}") }).await.unwrap_err();
        let error = reported(error);
        assert_eq!(error["errorType"], "Panic");
        assert_eq!(error["errorMessage"], "the function panicked: out of cheese");
    }

    #[test]
    fn a_failed_start_is_reported_to_the_runtime_api() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"}") {
                let mut buffer = [0; 1024];
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
            }
            stream
                .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            String::from_utf8(seen).unwrap()
        });
        let error = Diagnostic {
            error_type: ErrorType::Configuration.to_string(),
            error_message: "COSMOS_ENDPOINT is missing".to_owned(),
        };
        post_start(&api, &error).unwrap();
        let seen = server.join().unwrap();
        assert!(
            seen.starts_with("POST /2018-06-01/runtime/init/error HTTP/1.1\r\n"),
            "{seen}"
        );
        let body: Value = serde_json::from_str(seen.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(
            body,
            json!({"errorType": "Configuration", "errorMessage": "COSMOS_ENDPOINT is missing"})
        );
    }
}
