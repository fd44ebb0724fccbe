//! Which orchestration an instance runs, for commands that show lines about instances.

use super::connection::Connection;
use std::collections::HashMap;

/// The most names that are kept.
const MOST: usize = 10_000;

/// The names of orchestrations by instance, from the API of a local cloud. They do not change, so each is asked for once; also one that the
/// API did not know, because its answer is a log line about the same instance.
pub(crate) struct Names {
    connection: Connection,
    known: HashMap<String, Option<String>>,
}

impl Names {
    /// # Errors
    /// When the address is none, with the reason.
    pub(crate) async fn at(url: &str) -> Result<Names, String> {
        let connection = Connection::at(url).await.map_err(|failure| failure.message)?;
        Ok(Names {
            connection,
            known: HashMap::new(),
        })
    }

    /// The orchestration of an instance; `None` if the API does not know it, or does not answer.
    pub(crate) async fn of(&mut self, instance: &str) -> Option<&str> {
        if !self.known.contains_key(instance) {
            let found = self.connection.get(instance).await.ok();
            if self.known.len() == MOST {
                self.known.clear();
            }
            self.known
                .insert(instance.to_owned(), found.map(|found| found.orchestration));
        }
        self.known.get(instance)?.as_deref()
    }
}
