//! An instance as lists need it: the part of its document that a query returns.

use super::merge::Key;
use crate::admin::summary::Marks;
use crate::admin::{InstanceStatus, InstanceSummary};
use crate::model::{Blocked, Paused, Status, Tags};
use serde::Deserialize;

/// The fields of [`Row`].
pub(super) const FIELDS: &str = "c.pk, c.status, c.name, c.startName, c.version, c.parent, c.cancelled, c.blocked, c.paused, \
    c.createdAt, c.updatedAt, c.startedAt, c.completedAt, c.execution, c.events, c.customStatus, c.customStatusVersion, c.tags, \
    c.restartedFrom, c._etag";

/// See the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) pk: String,
    status: Status,
    name: Option<String>,
    start_name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) parent: Option<String>,
    #[serde(default)]
    cancelled: bool,
    blocked: Option<Blocked>,
    paused: Option<Paused>,
    pub(super) created_at: u64,
    updated_at: u64,
    started_at: u64,
    pub(super) completed_at: Option<u64>,
    execution: u64,
    events: u64,
    custom_status: Option<String>,
    #[serde(default)]
    custom_status_version: u64,
    #[serde(default)]
    pub(super) tags: Tags,
    #[serde(default)]
    restarted_from: Option<String>,
    #[serde(rename = "_etag")]
    etag: String,
}

impl Row {
    pub(super) fn key(&self) -> Key {
        Key {
            created_at: self.created_at,
            pk: self.pk.clone(),
        }
    }

    pub(super) fn status(&self) -> InstanceStatus {
        let marks = Marks {
            cancelled: self.cancelled,
            blocked: self.blocked.is_some(),
            paused: self.paused.is_some(),
        };
        InstanceStatus::of(&self.status, marks)
    }

    /// `None`: the document only fences.
    pub(super) fn orchestration(&self) -> Option<&str> {
        self.name.as_deref().or(self.start_name.as_deref())
    }

    pub(super) fn into_summary(self) -> Option<InstanceSummary> {
        let status = self.status();
        let is_begun = self.status != Status::Pending;
        Some(InstanceSummary {
            orchestration: self.name.or(self.start_name)?,
            instance: self.pk,
            version: self.version,
            custom_status: self.custom_status,
            custom_status_version: self.custom_status_version,
            input: None,
            output: None,
            error: None,
            blocked: self.blocked.filter(|_| status.is_held()),
            paused: self.paused.filter(|_| status == InstanceStatus::Paused),
            status,
            restarted_from: self.restarted_from,
            execution: self.execution,
            accepted_at: self.created_at,
            started_at: is_begun.then_some(self.started_at),
            updated_at: self.updated_at,
            completed_at: self.completed_at,
            events: self.events,
            parent: self.parent,
            tags: self.tags.into_map(),
            rewinds: Vec::new(),
            forked_from: None,
            usage: None,
            etag: self.etag,
        })
    }
}
