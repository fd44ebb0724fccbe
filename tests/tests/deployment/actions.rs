//! Every AWS action that the functions need, and on which resource. `permissions` holds the template's roles to it.
//!
//! The first four are called by the host's own code (`notifier/sqs.rs`, `secret.rs`, `web_identity.rs`), the others by Lambda
//! on behalf of the function: the event source mapping polls its queue, the runtime writes its log.

use Deployed::{Api, Maintenance, Orchestrator, Worker};

/// Who needs permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deployed {
    /// The function that runs turns.
    Orchestrator,
    /// A function that runs activities.
    Worker,
    /// The scheduled function.
    Maintenance,
    /// The HTTP API, which also runs maintenance on request.
    Api,
}

/// The resource of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// All queues of wakeups.
    WakeupQueues,
    /// The queue whose wakeups the function serves.
    OwnQueue,
    /// The secret with the store's key, or with the application's secret.
    Secret,
    /// The role itself, if an application of Entra ID trusts it.
    OwnRole,
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
}

/// All of them.
pub const PERMISSIONS: &[Permission] = &[
    // Wakeups are sent with SendMessageBatch, which has no action of its own.
    Permission {
        action: "sqs:SendMessage",
        on: On::WakeupQueues,
        by: &[Orchestrator, Worker, Maintenance, Api],
    },
    // Maintenance asks for the depth of the queues when something is overdue.
    Permission {
        action: "sqs:GetQueueAttributes",
        on: On::WakeupQueues,
        by: &[Maintenance, Api],
    },
    // The store's key is read once per environment, and again when it is refused.
    Permission {
        action: "secretsmanager:GetSecretValue",
        on: On::Secret,
        by: &[Orchestrator, Worker, Maintenance, Api],
    },
    // The role is proved once per token, so about once an hour in each environment.
    Permission {
        action: "sts:GetWebIdentityToken",
        on: On::OwnRole,
        by: &[Orchestrator, Worker, Maintenance, Api],
    },
    // The event source mapping polls.
    Permission {
        action: "sqs:ReceiveMessage",
        on: On::OwnQueue,
        by: &[Orchestrator, Worker],
    },
    // The event source mapping deletes what was served.
    Permission {
        action: "sqs:DeleteMessage",
        on: On::OwnQueue,
        by: &[Orchestrator, Worker],
    },
    // The event source mapping scales by the queue's depth.
    Permission {
        action: "sqs:GetQueueAttributes",
        on: On::OwnQueue,
        by: &[Orchestrator, Worker],
    },
    // Each environment has a stream of its own; the group is made by the deployment.
    Permission {
        action: "logs:CreateLogStream",
        on: On::OwnLog,
        by: &[Orchestrator, Worker, Maintenance, Api],
    },
    // Logs, and the metrics that stand in them.
    Permission {
        action: "logs:PutLogEvents",
        on: On::OwnLog,
        by: &[Orchestrator, Worker, Maintenance, Api],
    },
];

impl Deployed {
    /// The actions that it needs.
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

    /// Every call of an AWS client in the host's code, as `service:Operation`.
    fn calls(directory: &Path, found: &mut Vec<String>) {
        const OPERATIONS: [(&str, &str); 4] = [
            (".send_message_batch()", "sqs:SendMessage"),
            (".get_queue_attributes()", "sqs:GetQueueAttributes"),
            (".get_secret_value()", "secretsmanager:GetSecretValue"),
            (".get_web_identity_token()", "sts:GetWebIdentityToken"),
        ];
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                calls(&path, found);
            } else if !["tests.rs", "scripted.rs"].contains(&name.as_str()) {
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
    fn the_list_has_every_call_in_the_code() {
        let mut found = Vec::new();
        calls(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/host/src")),
            &mut found,
        );
        found.sort();
        found.dedup();
        // Lambda itself writes the log; everything else that maintenance is allowed is called by the code.
        let allowed = Maintenance.permissions();
        let called = allowed.filter(|permission| permission.on != On::OwnLog);
        let mut listed: Vec<_> = called.map(|permission| permission.action).collect();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(found, listed);
    }
}
