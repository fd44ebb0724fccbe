//! Every action of AWS that the functions need, and on what.
//!
//! The first group is called by this crate's own code (`notifier/sqs.rs`, `secret.rs`), the second by Lambda in the
//! function's name: the event source mapping polls its queue, the runtime writes its log.

use Deployed::{Client, Maintenance, Orchestrator, Worker};

/// Who needs permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deployed {
    /// The function that runs turns.
    Orchestrator,
    /// A function that runs activities.
    Worker,
    /// The scheduled function.
    Maintenance,
    /// A program with [`client`](crate::client).
    Client,
}

/// What an action is allowed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// All queues that wakeups go to.
    Notifiers,
    /// The queue whose wakeups the function serves.
    OwnQueue,
    /// The secret with the store's key.
    KeySecret,
    /// The streams of the function's log group.
    OwnLog,
}

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Its name in a policy.
    pub action: &'static str,
    /// What it is needed on.
    pub on: On,
    /// Who needs it.
    pub by: &'static [Deployed],
    /// What for.
    pub why: &'static str,
}

/// All of them.
pub const PERMISSIONS: &[Permission] = &[
    Permission {
        action: "sqs:SendMessage",
        on: On::Notifiers,
        by: &[Orchestrator, Worker, Maintenance, Client],
        why: "wakeups are sent with SendMessageBatch, which has no action of its own",
    },
    Permission {
        action: "secretsmanager:GetSecretValue",
        on: On::KeySecret,
        by: &[Orchestrator, Worker, Maintenance, Client],
        why: "the store's key is read once per environment, and again when it is refused",
    },
    Permission {
        action: "sqs:ReceiveMessage",
        on: On::OwnQueue,
        by: &[Orchestrator, Worker],
        why: "the event source mapping polls",
    },
    Permission {
        action: "sqs:DeleteMessage",
        on: On::OwnQueue,
        by: &[Orchestrator, Worker],
        why: "the event source mapping deletes what was served",
    },
    Permission {
        action: "sqs:GetQueueAttributes",
        on: On::OwnQueue,
        by: &[Orchestrator, Worker],
        why: "the event source mapping scales by the queue's depth",
    },
    Permission {
        action: "logs:CreateLogStream",
        on: On::OwnLog,
        by: &[Orchestrator, Worker, Maintenance],
        why: "each environment has a stream of its own; the group is made by the deployment",
    },
    Permission {
        action: "logs:PutLogEvents",
        on: On::OwnLog,
        by: &[Orchestrator, Worker, Maintenance],
        why: "logs, and the metrics that stand in them",
    },
];

impl Deployed {
    /// What it needs.
    pub fn permissions(self) -> impl Iterator<Item = &'static Permission> {
        PERMISSIONS
            .iter()
            .filter(move |permission| permission.by.contains(&self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Every fluent call of an AWS client in this crate's code, as `service:Operation`.
    fn calls(directory: &Path, found: &mut Vec<String>) {
        const OPERATIONS: [(&str, &str); 2] = [
            (".send_message_batch()", "sqs:SendMessage"),
            (".get_secret_value()", "secretsmanager:GetSecretValue"),
        ];
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                calls(&path, found);
            } else if !["tests.rs", "scripted.rs", "permissions.rs"].contains(&name.as_str()) {
                let text = std::fs::read_to_string(&path).unwrap();
                let code: String = text.split_whitespace().collect();
                let known = OPERATIONS.iter().filter(|(call, _)| code.contains(call));
                let before = found.len();
                found.extend(known.map(|(_, action)| (*action).to_owned()));
                // A file that names an SDK calls something: it must be something that the table above knows.
                let sends = text.contains("aws_sdk_") && code.contains(".send()");
                assert!(
                    !sends || found.len() > before,
                    "{name} calls AWS: add its action to the lists"
                );
            }
        }
    }

    #[test]
    fn the_calls_in_the_code_are_those_that_a_client_is_allowed() {
        let mut found = Vec::new();
        calls(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
        found.sort();
        found.dedup();
        let mut listed: Vec<_> = Client.permissions().map(|permission| permission.action).collect();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }
}
