//! What can go wrong, and the one place where a [`ProviderError`] is made.
//!
//! duroxide knows two kinds: *retryable* (try the same call again) and *permanent* (it will never succeed). The
//! runtime fails an orchestration whose commit keeps failing, so transient trouble is retried inside the provider
//! for as long as the lock lasts, and a lost lock is permanent: the turn belongs to somebody else.

use duroxide::providers::ProviderError;

/// Why a provider could not be made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A required environment variable is missing or empty.
    #[error("{name} is not set: {hint}")]
    MissingVariable {
        /// The variable.
        name: &'static str,
        /// What to set it to.
        hint: &'static str,
    },
    /// The service, the key or the container said no.
    #[error(transparent)]
    Cosmos(#[from] cosmos::Error),
}

/// Why an operation on an instance failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Cosmos(#[from] cosmos::Error),
    #[error("a document cannot be serialised: {0}")]
    Serialise(#[from] serde_json::Error),
    #[error("Invalid lock token: it is not one that this provider gave out")]
    InvalidToken,
    #[error("the lock on instance '{instance}' is lost: it expired, was taken over, or the instance was deleted")]
    LockLost { instance: String },
    #[error(
        "the lock on activity {work} of instance '{instance}' is lost: \
         it was cancelled, completed, taken over, or the lock expired"
    )]
    WorkLost { instance: String, work: String },
    #[error(
        "{what} of instance '{instance}' takes {bytes} bytes as a document, over the limit of {limit}: \
         keep large payloads outside (in a blob store) and pass a reference"
    )]
    TooLarge {
        what: String,
        instance: String,
        bytes: usize,
        limit: usize,
    },
    #[error("event {event} of instance '{instance}' execution {execution} is recorded already")]
    DuplicateEvent {
        instance: String,
        execution: u64,
        event: u64,
    },
    #[error("an event of instance '{instance}' has no event id: the runtime must assign one")]
    EventWithoutId { instance: String },
    #[error("instance '{instance}': {reason}")]
    Corrupt { instance: String, reason: String },
    #[error("instance '{instance}': the replica that answers lags behind ({reason})")]
    Stale { instance: String, reason: String },
    #[error("instance '{0}' not found")]
    NoInstance(String),
    #[error("execution {execution} of instance '{instance}' not found")]
    NoExecution { instance: String, execution: u64 },
    #[error("instance '{0}' is locked by a running turn: try again when it has ended")]
    Busy(String),
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    /// Whether the same call may succeed later. A refused key counts: it is being rotated, or an operator will mend it,
    /// and to take it for the end would fail an orchestration or stop an activity that has nothing to do with it.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Failure::Cosmos(error) => error.is_transient() || error.is_access(),
            Failure::Stale { .. } | Failure::Busy(_) => true,
            _ => false,
        }
    }

    /// Whether the request itself can never succeed, whoever sends it and whenever. Much that is not transient may still be
    /// mended from outside (a key, a firewall, a container that is missing), and is then not the message's fault.
    pub(crate) fn is_hopeless(&self) -> bool {
        use cosmos::Error::*;
        match self {
            Failure::Cosmos(error) => matches!(
                error,
                BadRequest { .. }
                    | PartitionFull { .. }
                    | ItemTooLarge { .. }
                    | BatchTooLarge { .. }
                    | InvalidPartitionKey { .. }
                    | InvalidId { .. }
                    | InvalidHeader { .. }
                    | Encode { .. }
            ),
            Failure::Serialise(_) | Failure::TooLarge { .. } => true,
            _ => false,
        }
    }

    /// The error as duroxide wants it, naming the operation.
    pub(crate) fn of(self, operation: &'static str) -> ProviderError {
        if self.is_transient() {
            ProviderError::retryable(operation, self.to_string())
        } else {
            ProviderError::permanent(operation, self.to_string())
        }
    }
}
