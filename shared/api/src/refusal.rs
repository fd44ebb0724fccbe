//! Why a request has no other answer: a problem document, with the headers that belong to it.

use crate::types::{Problem, ProblemType};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use duroxide::ClientError;
use duroxide::providers::ProviderError;
use http::{HeaderValue, StatusCode, header};

/// What a caller of a store that is busy should wait.
const RETRY_SECONDS: u64 = 1;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub kind: ProblemType,
    detail: String,
}

impl Refusal {
    pub(crate) fn new(kind: ProblemType, detail: impl Into<String>) -> Refusal {
        let detail = detail.into();
        Refusal { kind, detail }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Refusal {
        Refusal::new(ProblemType::InvalidRequest, detail)
    }

    pub(crate) fn no_instance(instance: &str) -> Refusal {
        Refusal::new(ProblemType::NotFound, format!("there is no instance '{instance}'"))
    }

    /// Not said in more detail: an answer must not help to find a token that works.
    pub(crate) fn unauthenticated() -> Refusal {
        let detail = "send the credentials that this API asks for: a signature of AWS, or a valid bearer token";
        Refusal::new(ProblemType::Unauthenticated, detail)
    }

    pub(crate) fn forbidden() -> Refusal {
        let detail = "your role does not suffice for this request; roles are a matter of the API's configuration";
        Refusal::new(ProblemType::Forbidden, detail)
    }

    /// A defect, whose reason is in the log only.
    pub(crate) fn internal() -> Refusal {
        let detail = "the log of the API has the reason; the same request may fail again";
        Refusal::new(ProblemType::Internal, detail)
    }

    fn retry_after(&self) -> Option<u64> {
        let is_temporary = matches!(
            self.kind,
            ProblemType::StoreUnavailable | ProblemType::IssuerUnavailable
        );
        is_temporary.then_some(RETRY_SECONDS)
    }
}

impl From<ProviderError> for Refusal {
    fn from(error: ProviderError) -> Refusal {
        // The text may name the account: it is for the log.
        if error.is_retryable() {
            tracing::warn!(%error, "the store does not answer in time");
            let detail = "the store is busy or cannot be reached: repeat the request, with the same Idempotency-Key if it changes something";
            return Refusal::new(ProblemType::StoreUnavailable, detail);
        }
        tracing::error!(%error, "the store refused a request");
        Refusal::internal()
    }
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Refusal {
        match error {
            ClientError::Provider(error) => error.into(),
            ClientError::InstanceNotFound { instance_id } => Refusal::no_instance(&instance_id),
            ClientError::InstanceStillRunning { instance_id } => Refusal::new(
                ProblemType::StillRunning,
                format!(
                    "instance '{instance_id}' has not ended: cancel it and wait for its end, or delete it with force=true"
                ),
            ),
            ClientError::CannotDeleteSubOrchestration { instance_id } => Refusal::new(
                ProblemType::IsChild,
                format!(
                    "instance '{instance_id}' is a child: delete the root instance, which deletes its children too"
                ),
            ),
            other => {
                tracing::error!(error = %other, "the client of duroxide failed");
                Refusal::internal()
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = Problem::new(self.kind, self.detail.clone());
        let body = serde_json::to_vec(&problem).expect("texts have a JSON form");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.kind.status()).expect("each problem has a status of HTTP");
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.kind == ProblemType::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_store_is_503_with_retry_after_and_without_the_reason() {
        let busy = ProviderError::retryable("start", "429 of https://account");
        let refusal = Refusal::from(busy);
        assert!(!refusal.detail.contains("account"));
        let response = refusal.into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }

    #[test]
    fn a_refusing_store_is_500_without_the_reason() {
        let refusal = Refusal::from(ProviderError::permanent("start", "hush"));
        assert_eq!(
            (refusal.kind, refusal.detail.contains("hush")),
            (ProblemType::Internal, false)
        );
        assert!(!refusal.into_response().headers().contains_key("retry-after"));
    }
}
