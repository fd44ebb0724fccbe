//! The errors of this crate, and the one place that makes a [`ProviderError`].
//!
//! duroxide knows two kinds: *retryable* (the same call may succeed later) and *permanent*. The runtime fails an
//! orchestration whose commit keeps failing, so the provider itself retries transient errors until the claim expires; a
//! lost claim is permanent, because the turn belongs to another process.

use cosmos::PartitionKey;
use duroxide::providers::ProviderError;
use std::time::Duration;

/// Why a provider could not connect.
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
    /// Cosmos DB refused the request, or the endpoint or key is malformed.
    #[error(transparent)]
    Cosmos(#[from] cosmos::Error),
}

/// Why an operation on an instance failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Cosmos(#[from] cosmos::Error),
    #[error("a document cannot be encoded or decoded: {0}")]
    Serialise(#[from] serde_json::Error),
    #[error("Invalid lock token: it was not issued by this provider")]
    InvalidToken,
    #[error(
        "the lock on instance '{instance}' is lost: it expired, another process claimed it, or the instance was deleted"
    )]
    LockLost { instance: String },
    #[error("another turn of instance '{instance}' was committed first: this one has written nothing")]
    Raced { instance: String },
    #[error("the commit of a turn of instance '{instance}' takes several batches: claim the instance first")]
    Unclaimed { instance: String },
    #[error(
        "the lock on activity {work} of instance '{instance}' is lost: \
         it expired, or the activity was cancelled, completed or claimed by another process"
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
    #[error("event {event} of instance '{instance}', execution {execution}, is already recorded")]
    DuplicateEvent {
        instance: String,
        execution: u64,
        event: u64,
    },
    #[error("an event of instance '{instance}' has no event id: the runtime must assign one")]
    EventWithoutId { instance: String },
    /// A document that this build cannot decode, and that the operation cannot do without.
    #[error("document '{id}' of instance '{instance}': {reason}")]
    Foreign {
        instance: String,
        id: String,
        reason: String,
    },
    #[error("instance '{instance}': {reason}")]
    Corrupt { instance: String, reason: String },
    #[error("instance '{instance}': the replica that answered lags behind ({reason}); try again")]
    Stale { instance: String, reason: String },
    #[error("instance '{0}' not found")]
    NoInstance(String),
    #[error("execution {execution} of instance '{instance}' not found")]
    NoExecution { instance: String, execution: u64 },
    #[error("instance '{0}' is locked by a running turn: try again when it has ended")]
    Busy(String),
    #[error("the call took longer than {} s: call it again, and it continues where it ended", .0.as_secs_f32())]
    OutOfTime(Duration),
    /// A call that prunes did a part of it.
    #[error("{executions} executions with {events} events are deleted, and the rest is left: {why}")]
    Partly {
        executions: u64,
        events: u64,
        why: Box<Failure>,
    },
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    pub(crate) fn lock_lost(pk: &PartitionKey) -> Self {
        let instance = pk.as_str().to_owned();
        Failure::LockLost { instance }
    }

    pub(crate) fn raced(pk: &PartitionKey) -> Self {
        let instance = pk.as_str().to_owned();
        Failure::Raced { instance }
    }

    pub(crate) fn busy(pk: &PartitionKey) -> Self {
        Failure::Busy(pk.as_str().to_owned())
    }

    pub(crate) fn stale(pk: &PartitionKey, reason: impl Into<String>) -> Self {
        Failure::Stale {
            instance: pk.as_str().to_owned(),
            reason: reason.into(),
        }
    }

    /// Whether the same call may succeed later. A refused key counts: it is being rotated, or an operator will correct
    /// it, and no orchestration or activity must fail because of it.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Failure::Cosmos(error) => error.is_transient() || error.is_access(),
            Failure::Stale { .. } | Failure::Busy(_) | Failure::OutOfTime(_) => true,
            Failure::Partly { why, .. } => why.is_transient(),
            _ => false,
        }
    }

    /// Whether the request itself can never succeed. Other errors that are not transient may still be corrected from
    /// outside (a key, a firewall, a missing container), and are not the message's fault.
    pub(crate) fn can_never_succeed(&self) -> bool {
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

    /// The error for duroxide, with the name of the operation.
    pub(crate) fn of(self, operation: &'static str) -> ProviderError {
        if self.is_transient() {
            ProviderError::retryable(operation, self.to_string())
        } else {
            ProviderError::permanent(operation, self.to_string())
        }
    }
}
