//! What a simulation plans, and what has happened of it.

use crate::testing::faults::{Crash, Planned, Run};
use duroxide::providers::WorkItem;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// What a simulation plans, and what has happened of it. It outlives the stage of one build.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub crashes: Vec<Planned>,
    /// After what time a lost step is delivered again, unless the crash says that.
    pub redelivery: Option<Duration>,
    /// Whether all is delivered twice.
    pub twice: bool,
    /// What is sent to an instance that waits for it.
    pub when_waiting: Vec<Sent>,
    /// Committed turns, and deliveries of activities.
    pub turns: u32,
    pub runs: u32,
    /// An activity that does not end.
    pub hangs: Option<String>,
    pub runs_of: BTreeMap<String, u32>,
    pub repeats: u32,
    pub is_repeated: bool,
    pub guids: u64,
    pub open: HashMap<String, Run>,
    pub copies: BTreeSet<u64>,
}

/// An event or a message for a queue.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub is_queued: bool,
    pub name: String,
    pub data: String,
}

impl Sent {
    pub fn to(self, instance: String) -> WorkItem {
        let Sent { name, data, .. } = self;
        match self.is_queued {
            true => WorkItem::QueueMessage { instance, name, data },
            false => WorkItem::ExternalRaised { instance, name, data },
        }
    }
}

impl Script {
    /// After what time the next turn is delivered again, if it is lost.
    pub fn loses_turn(&mut self) -> Option<Duration> {
        let turn = self.turns + 1;
        let lost = self.crashes.iter_mut().find_map(|planned| planned.hits_turn(turn))?;
        Some(self.redelivery.unwrap_or(lost))
    }

    /// Counts a delivery of an activity. Returns after what time it is delivered again, if it is lost before it runs.
    pub fn deliver(&mut self, token: &str, name: &str) -> Option<Duration> {
        self.runs += 1;
        let of_name = self.runs_of.entry(name.to_owned()).or_default();
        *of_name += 1;
        let run = Run {
            name: name.to_owned(),
            number_of_name: *of_name,
            number: self.runs,
        };
        let lost = self.loses(&run, true);
        self.open.insert(token.to_owned(), run);
        lost
    }

    /// An activity has ended: after what time it is delivered again, if its result is lost.
    pub fn loses_result(&mut self, token: &str) -> Option<Duration> {
        let run = self.open.remove(token)?;
        self.loses(&run, false)
    }

    fn loses(&mut self, run: &Run, before: bool) -> Option<Duration> {
        let mut planned = self.crashes.iter_mut();
        let lost = planned.find_map(|planned| planned.hits_activity(run, before))?;
        Some(self.redelivery.unwrap_or(lost))
    }

    /// The crashes that have happened.
    pub fn happened(&self) -> Vec<Crash> {
        let happened = self.crashes.iter().filter(|planned| planned.has_hit);
        happened.map(|planned| planned.crash.clone()).collect()
    }

    /// The crashes that have not happened.
    pub fn unused(&self) -> Vec<String> {
        self.crashes.iter().filter_map(Planned::unused).collect()
    }

    /// Why the simulation does not go on, though something could happen.
    pub fn stopped(&self, most_turns: u32) -> Option<String> {
        if let Some(activity) = &self.hangs {
            return Some(format!(
                "activity `{activity}` has not ended within 15 minutes. A function ends by then, and the activity is tried again; to test \
                 a time limit, use `fail_activity`"
            ));
        }
        (self.turns > most_turns).then(|| {
            format!(
                "it needs more than {most_turns} turns (`most_turns`). Does a workflow continue for ever? Then use `start` and `advance`, \
                 and advance less"
            )
        })
    }

    pub fn guid(&mut self) -> String {
        self.guids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.guids)
    }

    /// What is sent to an instance that waits for this now.
    pub fn for_subscription(&mut self, is_queued: bool, name: &str) -> Option<Sent> {
        let fits = |sent: &Sent| sent.is_queued == is_queued && sent.name == name;
        let at = self.when_waiting.iter().position(fits)?;
        Some(self.when_waiting.remove(at))
    }
}
