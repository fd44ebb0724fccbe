//! Internals for the tests of this workspace, behind the feature `internals`. Nothing here is stable.

pub use crate::budget::Budget;
pub use crate::environment::{Environment, Parts, Role};
pub use crate::event::{BatchItemFailure, BatchResponse, SqsAttributes, SqsEvent, SqsRecord};
pub use crate::gate::{Ended, Gate, Outcome, Step};
pub use crate::log::JsonLayer;
pub use crate::maintenance::dead_letters::{
    DeadLetterFailure, DeadLetterSelection, DeadLettersOutcome, DeadLettersReport,
};
pub use crate::maintenance::look::LookReport;
pub use crate::maintenance::{
    Answer, DeadLettersAnswer, DeadLettersRequest, Maintenance, MaintenanceError, MaintenanceRequest, PassName,
    PassReport, Report, RequestError, StoreReport,
};
pub use crate::metrics::{Metric, Metrics};
pub use crate::notifier::{BoundedNotifier, Memory};
pub use crate::notifier::{Depth, QueueName};
pub use crate::notifying_provider::NotifyingProvider;
pub use crate::secret::SecretKey;
#[cfg(feature = "testing")]
pub use crate::testing::MemoryStore;

/// What this crate requests of AWS STS.
pub mod web_identity {
    pub use crate::web_identity::{AUDIENCE, DURATION_SECONDS, SIGNING_ALGORITHM};
}
