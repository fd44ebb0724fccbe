//! Maintenance for a client: the same run, in the client's own process.

use super::{Answer, Maintenance, MaintenanceError, Report, RequestError};
use crate::budget::Budget;
use crate::config::MaintenanceSettings;
use crate::connection::Connection;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

impl Connection {
    /// Runs maintenance now, for at most so long: all passes with `{}`, or those that the request names, as for the
    /// maintenance function. A scheduled run at the same time does no harm.
    ///
    /// # Errors
    /// When the request has a mistake; nothing was changed then.
    pub async fn maintain(
        &self,
        request: &Value,
        settings: &MaintenanceSettings,
        time: Duration,
    ) -> Result<Report, RequestError> {
        let (store, clock) = (Arc::clone(self.store()), Arc::clone(&self.parts.clock));
        let maintenance = Maintenance::new(store, self.parts.notifier(), clock, settings.clone());
        match maintenance.handle(request, Budget::of(time)).await {
            Ok(Answer::Report(report)) => Ok(report),
            Err(MaintenanceError::Request(error)) => Err(error),
            // Dead letters are requested from the store itself.
            Ok(Answer::DeadLetters(_)) | Err(MaintenanceError::Store(_)) => {
                super::request::refused("deadLetters", "is not a pass: use the store's own methods")
            }
        }
    }
}
