//! All errors of the crate, classified once.
//!
//! A caller needs neither HTTP statuses nor texts: variants and predicates say what an [`Error`] means. Every error
//! about a request has a [`Context`] with the operation, the document or partition, and the service's answer.
//!
//! Invariants: no variant and no message has a key or a token. An error that says "nothing was written" is true of *all*
//! attempts of the operation; if one of them had an unknown outcome the error is [`Error::Ambiguous`], or its
//! [`after_ambiguity`](Error::after_ambiguity) is true.

use std::fmt;
use std::time::Duration;

/// The request that an error is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The operation, such as `create`.
    pub operation: &'static str,
    /// Its target, such as ``document `a` of partition `p` in `db/container` ``.
    pub target: String,
    /// The last HTTP status, or `None` when no answer came.
    pub status: Option<u16>,
    /// The service's substatus.
    pub substatus: Option<u32>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Whether an earlier attempt had an unknown outcome.
    pub after_ambiguity: bool,
    /// The message of the service or the network.
    pub detail: String,
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (", self.operation, self.target)?;
        match (self.status, self.substatus) {
            (Some(status), Some(substatus)) => write!(f, "status {status}/{substatus}")?,
            (Some(status), None) => write!(f, "status {status}")?,
            (None, _) => f.write_str("no answer")?,
        }
        match self.attempts {
            0 => f.write_str(", not sent")?,
            1 => {}
            n => write!(f, ", {n} attempts")?,
        }
        if self.after_ambiguity {
            f.write_str(", the outcome of an earlier attempt is unknown")?;
        }
        f.write_str(")")
    }
}

impl Context {
    fn quoted(&self) -> String {
        if self.detail.is_empty() {
            String::new()
        } else {
            format!(" [{}]", self.detail)
        }
    }
}

/// Another crate's error, for [`Error::CredentialSource`].
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the fields are named for what they are, and each variant says what it means"
)]
pub enum Error {
    /// A document with this id exists (409).
    #[error("{context}: a document with this id exists already{}", context.quoted())]
    Conflict { context: Box<Context> },
    /// The document is no longer the one whose ETag was given (412).
    #[error("{context}: the document has changed since its ETag was read{}", context.quoted())]
    PreconditionFailed { context: Box<Context> },
    /// The document does not exist (404).
    #[error("{context}: it does not exist{}", context.quoted())]
    NotFound { context: Box<Context> },
    /// One operation of a batch failed, so nothing of the batch was written.
    #[error(
        "{context}: operation {index} ({operation}) failed with status {status}, so the batch wrote nothing{}",
        context.quoted()
    )]
    BatchFailed {
        index: usize,
        status: u16,
        operation: String,
        context: Box<Context>,
    },
    /// The account's request units are used up (429), and waiting longer does not fit the deadline.
    #[error(
        "{context}: the container's throughput is used up and waiting does not fit the time limit; try later, or \
         give the container more request units{}",
        context.quoted()
    )]
    Throttled {
        retry_after: Option<Duration>,
        context: Box<Context>,
    },
    /// The service cannot process the request now; nothing was written.
    #[error("{context}: the service is not available now; try later{}", context.quoted())]
    Unavailable { context: Box<Context> },
    /// Whether the write was applied is unknown: read before deciding.
    #[error("{context}: whether this write was applied is unknown; read it back before deciding{}", context.quoted())]
    Ambiguous { context: Box<Context> },
    /// No answer within the time limit; nothing was written.
    #[error("{context}: no answer within the time limit; try later{}", context.quoted())]
    Timeout { context: Box<Context> },
    /// No connection to the endpoint; nothing was sent.
    #[error(
        "{context}: no connection to {endpoint}; check the endpoint, the name resolution and the network{}",
        context.quoted()
    )]
    Unreachable { endpoint: String, context: Box<Context> },
    /// The service refuses the key (401).
    #[error(
        "{context}: the account refuses the key; check that the key belongs to the account at {endpoint}, that it is \
         a read-write key and was not regenerated since, and that key authentication is not disabled there{}",
        context.quoted()
    )]
    Unauthorized { endpoint: String, context: Box<Context> },
    /// The service refuses the token of Entra ID (401).
    #[error(
        "{context}: the account refuses the token; check that it has not expired, that it was issued for Cosmos DB \
         (https://cosmos.azure.com) by the tenant of the account at {endpoint}, and this machine's clock{}",
        context.quoted()
    )]
    TokenRefused { endpoint: String, context: Box<Context> },
    /// A token may not do this (403/5300): databases, containers and throughput.
    #[error(
        "{context}: a token of Entra ID may read and write documents, but not create or change databases, containers \
         and their throughput; create them by a template or the Azure CLI{}",
        context.quoted()
    )]
    NotByToken { context: Box<Context> },
    /// The service refuses the date of the signature (403).
    #[error(
        "{context}: this machine's clock and the service's differ by over 15 minutes (here {here}, there {there}); \
         set this machine's clock{}",
        context.quoted()
    )]
    ClockSkew {
        here: String,
        there: String,
        context: Box<Context>,
    },
    /// The service forbids it (403).
    #[error(
        "{context}: forbidden; check the account's firewall and network rules, and what the key, or the role of the \
         token's principal, may do{}",
        context.quoted()
    )]
    Forbidden { context: Box<Context> },
    /// The logical partition has reached its 20 GB (403/1014).
    #[error(
        "{context}: the logical partition is full (20 GB); delete documents of this partition key value{}",
        context.quoted()
    )]
    PartitionFull { context: Box<Context> },
    /// The document is over the limit of the service.
    #[error("document `{id}` has {bytes} bytes, and at most {limit} are allowed; nothing was sent")]
    ItemTooLarge { id: String, bytes: usize, limit: usize },
    /// The batch is over a limit of the service.
    #[error(
        "the batch for partition `{partition}` has {operations} operations and {bytes} bytes, and may have \
         at most {max_operations} and {max_bytes}; nothing was sent"
    )]
    BatchTooLarge {
        partition: String,
        operations: usize,
        bytes: usize,
        max_operations: usize,
        max_bytes: usize,
    },
    /// The partition key value is empty or too long.
    #[error("a partition key value of {bytes} bytes is not allowed; it must have 1 to {limit} bytes")]
    InvalidPartitionKey { bytes: usize, limit: usize },
    /// The document id cannot be addressed.
    #[error("`{id}` cannot be a document's id: {reason}")]
    InvalidId { id: String, reason: &'static str },
    /// The endpoint cannot be used.
    #[error("this Cosmos DB endpoint cannot be used: {reason}")]
    InvalidEndpoint { reason: String },
    /// The key cannot be used.
    #[error("this Cosmos DB account key cannot be used: {reason}; copy it again from the account's page `Keys`")]
    InvalidKey { reason: &'static str },
    /// A value cannot be sent in a header.
    #[error("the value for header {name} has characters that a header cannot carry; nothing was sent")]
    InvalidHeader { name: String },
    /// The token cannot be used.
    #[error(
        "this token cannot be used: {reason}; get one with \
         `az account get-access-token --resource https://cosmos.azure.com --query accessToken --output tsv`"
    )]
    InvalidToken { reason: &'static str },
    /// The source of the key or token failed; nothing was sent with a new one. `transient` says that it may succeed later
    /// without a change.
    #[error("there is no key or token for the account: {source}")]
    CredentialSource { source: BoxedError, transient: bool },
    /// The database or container does not exist.
    #[error("{context}: the database or container does not exist; create it first (bootstrap){}", context.quoted())]
    ContainerMissing { context: Box<Context> },
    /// The container exists with another partition key.
    #[error(
        "container `{container}` exists with the partition key `{found}`, and `{expected}` is needed, which cannot be \
         changed: delete it or choose another container name"
    )]
    ContainerMismatch {
        container: String,
        found: String,
        expected: String,
    },
    /// The service does not accept the request (400, 413 and others).
    #[error("{context}: the service refuses the request{}", context.quoted())]
    BadRequest { context: Box<Context> },
    /// No replica has caught up with the consistency token in time (404/1002).
    #[error("{context}: no replica has caught up with the consistency token within the time limit; try later{}", context.quoted())]
    ReplicaBehind { context: Box<Context> },
    /// The physical range has split or moved (410), and this did not end within the time limit.
    #[error("{context}: the physical partition is moving; try later{}", context.quoted())]
    RangeGone { context: Box<Context> },
    /// The answer, or a document in it, does not have the expected form.
    #[error("{what} cannot be read: {source}")]
    Decode { what: String, source: serde_json::Error },
    /// The answer lacks a documented part.
    #[error("{context}: the answer is not what the service documents: {problem}")]
    Protocol { problem: String, context: Box<Context> },
    /// A document or parameter cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {source}")]
    Encode { what: String, source: serde_json::Error },
    /// The HTTP client could not be created, for instance because the machine has no root certificates.
    #[error(
        "the HTTPS client could not be created: {source}; check that the machine's root certificates are installed"
    )]
    HttpClient { source: reqwest::Error },
}

impl Error {
    /// The error of a [`CredentialSource`](crate::CredentialSource) that an operator must correct.
    pub fn credential_source(source: impl Into<BoxedError>) -> Error {
        Error::CredentialSource {
            source: source.into(),
            transient: false,
        }
    }

    /// The error of a [`CredentialSource`](crate::CredentialSource) that may succeed later.
    pub fn credential_unavailable(source: impl Into<BoxedError>) -> Error {
        Error::CredentialSource {
            source: source.into(),
            transient: true,
        }
    }

    /// A document with this id exists. Also true of a batch.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. } | Error::BatchFailed { status: 409, .. })
    }

    /// The document has another ETag than the given one. Also true of a batch.
    pub fn is_precondition_failed(&self) -> bool {
        matches!(
            self,
            Error::PreconditionFailed { .. } | Error::BatchFailed { status: 412, .. }
        )
    }

    /// The document does not exist. Also true of a batch. (A missing container is [`Error::ContainerMissing`].)
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound { .. } | Error::BatchFailed { status: 404, .. })
    }

    /// Which operation of the batch failed.
    pub fn batch_index(&self) -> Option<usize> {
        match self {
            Error::BatchFailed { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// An earlier attempt of the same operation had an unknown outcome, so this conflict, changed ETag or missing
    /// document may be its result.
    pub fn after_ambiguity(&self) -> bool {
        self.context().is_some_and(|context| context.after_ambiguity)
    }

    /// The same request may succeed later.
    pub fn is_transient(&self) -> bool {
        use Error::*;
        matches!(
            self,
            Throttled { .. }
                | Unavailable { .. }
                | Ambiguous { .. }
                | Timeout { .. }
                | Unreachable { .. }
                | ReplicaBehind { .. }
                | RangeGone { .. }
                | CredentialSource { transient: true, .. }
        )
    }

    /// The account refuses this client: a wrong or rotated key, a token without a role, a firewall, a wrong clock, a
    /// source of keys or tokens that fails. An operator can correct this; the request itself is valid.
    pub fn is_access(&self) -> bool {
        use Error::*;
        matches!(
            self,
            Unauthorized { .. }
                | TokenRefused { .. }
                | ClockSkew { .. }
                | Forbidden { .. }
                | NotByToken { .. }
                | CredentialSource { .. }
        )
    }

    /// The request, if the error is about one.
    pub fn context(&self) -> Option<&Context> {
        use Error::*;
        match self {
            Conflict { context }
            | PreconditionFailed { context }
            | NotFound { context }
            | BatchFailed { context, .. }
            | Throttled { context, .. }
            | Unavailable { context }
            | Ambiguous { context }
            | Timeout { context }
            | Unreachable { context, .. }
            | Unauthorized { context, .. }
            | TokenRefused { context, .. }
            | NotByToken { context }
            | ClockSkew { context, .. }
            | Forbidden { context }
            | PartitionFull { context }
            | ContainerMissing { context }
            | BadRequest { context }
            | ReplicaBehind { context }
            | RangeGone { context }
            | Protocol { context, .. } => Some(context),
            _ => None,
        }
    }
}
