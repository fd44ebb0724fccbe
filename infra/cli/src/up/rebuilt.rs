//! Binaries of `up` that are built again while it runs: their functions are replaced.

use super::Output;
use crate::dev::watch::{Changes, Sources};
use crate::terminal::text::escape_lines;
use local_cloud::{Cloud, Functions};
use std::path::PathBuf;

/// Watches the binaries of a cloud.
pub(super) struct Rebuilt {
    functions: Vec<(&'static str, PathBuf)>,
    sources: Sources,
    changes: Changes,
}

impl Rebuilt {
    /// Of these binaries as they are now.
    pub(super) fn of(functions: &Functions) -> Rebuilt {
        let named = [
            ("worker", Some(&functions.worker)),
            ("maintenance", Some(&functions.maintenance)),
            ("api", functions.api.as_ref()),
            // The last: an activity must be there before a turn asks for it.
            ("orchestrator", Some(&functions.orchestrator)),
        ];
        let functions: Vec<(&str, PathBuf)> = named
            .into_iter()
            .filter_map(|(name, binary)| Some((name, binary?.clone())))
            .collect();
        let sources = Sources {
            files: functions.iter().map(|(_, binary)| binary.clone()).collect(),
            ..Sources::default()
        };
        Rebuilt {
            changes: Changes::since(sources.look()),
            functions,
            sources,
        }
    }

    /// Replaces functions until it is dropped.
    pub(super) async fn follow(mut self, cloud: &Cloud, stdout: &Output) {
        loop {
            let changed = self.changes.next(&self.sources).await;
            for (name, binary) in &self.functions {
                // One that was removed may be on its way: a linker removes the old file first.
                if !changed.contains(binary) || !binary.exists() {
                    continue;
                }
                let said = match cloud.replace(name, binary).await {
                    Ok(()) => format!("{name}: {} has changed. New invocations use it.", binary.display()),
                    Err(error) => format!(
                        "{name}: {} has changed and does not start; processes of the old one go on as long as they have work: {}",
                        binary.display(),
                        escape_lines(&error.to_string())
                    ),
                };
                stdout.line(&said);
            }
        }
    }
}
