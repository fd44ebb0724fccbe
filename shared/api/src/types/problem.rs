//! Problems: RFC 9457 documents (`application/problem+json`).

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Begins every problem's `type`.
const PREFIX: &str = "urn:duroxide-lambda:problem:";

/// The kinds of problems. Each has a stable `type`, which `docs/api.md` explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "`title` says what each is")]
pub enum ProblemType {
    InvalidRequest,
    Unauthenticated,
    Forbidden,
    NotFound,
    NoSuchRoute,
    MethodNotAllowed,
    InstanceExists,
    StillRunning,
    IsChild,
    WrongState,
    InstanceEnded,
    TooLarge,
    UnsupportedMediaType,
    KeyReused,
    Internal,
    StoreUnavailable,
    IssuerUnavailable,
}

impl ProblemType {
    /// All of them.
    pub const ALL: [ProblemType; 17] = [
        ProblemType::InvalidRequest,
        ProblemType::Unauthenticated,
        ProblemType::Forbidden,
        ProblemType::NotFound,
        ProblemType::NoSuchRoute,
        ProblemType::MethodNotAllowed,
        ProblemType::InstanceExists,
        ProblemType::StillRunning,
        ProblemType::IsChild,
        ProblemType::WrongState,
        ProblemType::InstanceEnded,
        ProblemType::TooLarge,
        ProblemType::UnsupportedMediaType,
        ProblemType::KeyReused,
        ProblemType::Internal,
        ProblemType::StoreUnavailable,
        ProblemType::IssuerUnavailable,
    ];

    /// The last part of its `type`.
    pub fn name(self) -> &'static str {
        self.parts().0
    }

    /// The HTTP status.
    pub fn status(self) -> u16 {
        self.parts().1
    }

    /// What it means, the same each time.
    pub fn title(self) -> &'static str {
        self.parts().2
    }

    /// Its `type`.
    pub fn uri(self) -> String {
        format!("{PREFIX}{}", self.name())
    }

    /// The problem with this `type`.
    pub fn of_uri(uri: &str) -> Option<ProblemType> {
        let name = uri.strip_prefix(PREFIX)?;
        ProblemType::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn parts(self) -> (&'static str, u16, &'static str) {
        use ProblemType::*;
        match self {
            InvalidRequest => ("invalid-request", 400, "The request has a mistake"),
            Unauthenticated => ("unauthenticated", 401, "The caller is not known"),
            Forbidden => ("forbidden", 403, "The caller may not do this"),
            NotFound => ("not-found", 404, "There is no such thing"),
            NoSuchRoute => ("no-such-route", 404, "The API has no such path"),
            MethodNotAllowed => ("method-not-allowed", 405, "The path does not have this method"),
            InstanceExists => ("instance-exists", 409, "The id belongs to another instance"),
            StillRunning => ("still-running", 409, "The instance has not ended"),
            IsChild => ("is-a-child", 409, "The instance belongs to another one"),
            WrongState => ("wrong-state", 409, "The instance is in another state"),
            InstanceEnded => ("instance-ended", 410, "The instance has ended"),
            TooLarge => ("too-large", 413, "The request is too large"),
            UnsupportedMediaType => ("unsupported-media-type", 415, "The body is not JSON"),
            KeyReused => ("key-reused", 422, "The idempotency key was used for another request"),
            Internal => ("internal", 500, "The API has failed"),
            StoreUnavailable => ("store-unavailable", 503, "The store does not answer in time"),
            IssuerUnavailable => ("issuer-unavailable", 503, "The keys of the token issuer cannot be read"),
        }
    }
}

impl fmt::Display for ProblemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A problem, as RFC 9457 describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem it is: `urn:duroxide-lambda:problem:...`, stable.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, and what to do.
    pub detail: String,
}

impl Problem {
    /// A problem with its detail.
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Problem {
        Problem {
            kind: kind.uri(),
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: detail.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_found_by_its_type() {
        for kind in ProblemType::ALL {
            assert_eq!(ProblemType::of_uri(&kind.uri()), Some(kind));
        }
        assert_eq!(ProblemType::of_uri("about:blank"), None);
        assert_eq!(ProblemType::NotFound.uri(), "urn:duroxide-lambda:problem:not-found");
    }
}
