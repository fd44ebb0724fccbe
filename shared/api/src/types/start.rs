//! Starting an instance.

use super::payload::present;
use super::{Instance, Payload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartRequest {
    /// The id of the new instance, 1 to 1024 bytes. Without one it derives from `Idempotency-Key`, else it is random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub id: Option<String>,
    /// The input, any JSON value: the workflow gets its JSON text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// The input as the very text that the workflow gets, which need not be JSON. Instead of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_text: Option<String>,
    /// The version of the orchestration, such as `1.2.0`; without one, the newest that the functions register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub version: Option<String>,
    /// Tags to find it by: at most 16, keys and values of 1 to 128 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// A start that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The id of the instance.
    pub instance: String,
    /// Whether an earlier request with the same key had started it.
    pub repeated: bool,
    /// The instance, if the request waited (`Prefer: wait=N`) and it has ended in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Instance>,
}
