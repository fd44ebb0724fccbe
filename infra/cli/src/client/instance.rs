//! What the verbs ask of an instance: whether it is there, and whether it is over.

use super::answer::Fail;
use super::connect::Session;
use clap::builder::NonEmptyStringValueParser;
use duroxide::ClientError;
use duroxide::providers::{InstanceInfo, ProviderError};
use futures::{StreamExt as _, TryStreamExt as _, stream};

/// How many instances are read at once.
const AT_ONCE: usize = 8;

/// What takes an id on the command line.
pub(super) fn id_parser() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

impl Session {
    /// The instance, if a turn of it has run.
    pub(super) async fn find(&self, instance: &str) -> Result<Option<InstanceInfo>, ClientError> {
        match self.client().get_instance_info(instance).await {
            Ok(info) => Ok(Some(info)),
            Err(ClientError::Provider(error)) if is_unknown(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The instance, which must be there.
    pub(super) async fn known(&self, instance: &str) -> Result<InstanceInfo, Fail> {
        self.find(instance).await?.ok_or_else(|| Fail::unknown(instance))
    }

    /// These instances, in their order. One that has gone meanwhile is left out.
    pub(super) async fn find_all(&self, instances: &[String]) -> Result<Vec<InstanceInfo>, Fail> {
        let asked: Vec<_> = instances.iter().map(|instance| self.find(instance)).collect();
        let found: Vec<Option<InstanceInfo>> = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// Whether the provider says that it does not know the instance. duroxide has no kind of error for it, only words.
fn is_unknown(error: &ProviderError) -> bool {
    error.operation == "get_instance_info" && !error.retryable && error.message.ends_with("' not found")
}

/// Whether nothing more will happen to it. One that continued as new goes on in its next execution.
pub(super) fn is_over(info: &InstanceInfo) -> bool {
    matches!(info.status.as_str(), "Completed" | "Failed")
}
