//! A queue of a notifier by its name, how many wakeups it holds, and its settings.

use duroxide_cosmos::Target;
use std::fmt;
use std::time::Duration;

/// One of a notifier's queues: `turn`, `work`, or `work:` and a tag that has a queue of its own.
///
/// The name is kept in the store and in wakeups, so it does not change when a queue is created anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(String);

impl QueueName {
    /// The queue of all turns.
    pub fn turns() -> QueueName {
        QueueName("turn".to_owned())
    }

    /// The queue of all activities whose tag has no queue of its own.
    pub fn works() -> QueueName {
        QueueName("work".to_owned())
    }

    /// The queue of the activities of a tag.
    pub fn tagged(tag: &str) -> QueueName {
        QueueName(format!("work:{tag}"))
    }

    /// The queue of a target where no tag has a queue of its own.
    pub fn of(target: &Target) -> QueueName {
        match target {
            // A batch waits with the turns: so it learns when they are late.
            Target::Turn { .. } | Target::Batch { .. } => QueueName::turns(),
            Target::Work(_) => QueueName::works(),
        }
    }

    /// A name that was kept.
    pub(crate) fn from_kept(name: &str) -> QueueName {
        QueueName(name.to_owned())
    }

    /// Whether wakeups for turns go there.
    pub fn is_of_turns(&self) -> bool {
        self.0 == "turn"
    }

    /// The tag, if the queue has only its activities.
    pub fn tag(&self) -> Option<&str> {
        self.0.strip_prefix("work:")
    }

    /// The name as it is kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many wakeups a queue holds, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// To be received now.
    pub waiting: u64,
    /// Received, and neither served nor failed yet.
    pub in_flight: u64,
    /// To be received later.
    pub delayed: u64,
}

/// The settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// How long a received wakeup is hidden.
    pub visibility: Duration,
    /// After so many receives a wakeup goes to the dead-letter queue; `None` without such a queue.
    pub max_receives: Option<u32>,
    /// How long a wakeup is kept, if the service says so.
    pub retention: Option<Duration>,
}
