//! What the code of an orchestration asks the runtime for, recorded or new. Pure.

use duroxide::{Action, EventKind};
use serde::{Deserialize, Serialize};

/// How many bytes of a payload are kept.
const MOST_INPUT: usize = 1_000;

/// One thing that code asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// What it is.
    pub kind: AskedKind,
    /// Its name: of an activity, a child, an event, a queue or a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The payload: an input, a value, an output or an error; at most its first 1,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Where it goes: the tag and the affinity session of an activity, the id of a started instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The kinds of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum AskedKind {
    Activity,
    Timer,
    Event,
    Queue,
    Child,
    /// An orchestration that is started and not waited for.
    Orchestration,
    CustomStatus,
    SetKey,
    ClearKey,
    ClearKeys,
    /// The cancellation of what was asked for and is not waited for any more.
    Cancellation,
    ContinueAsNew,
    Completed,
    Failed,
    /// It waits for what it has asked for before.
    Nothing,
}

impl Asked {
    pub(super) fn of(kind: AskedKind) -> Asked {
        Asked {
            kind,
            name: None,
            input: None,
            to: None,
        }
    }

    fn named(self, name: &str) -> Asked {
        Asked {
            name: Some(name.to_owned()),
            ..self
        }
    }

    pub(super) fn with(self, input: &str) -> Asked {
        Asked {
            input: Some(input.to_owned()),
            ..self
        }
    }

    fn to(self, to: Option<String>) -> Asked {
        Asked { to, ..self }
    }

    /// What an event has recorded; `None` if the event is not the code's.
    pub(super) fn recorded(event: &EventKind) -> Option<Asked> {
        let asked = match event {
            EventKind::ActivityScheduled {
                name,
                input,
                session_id,
                tag,
            } => activity(name, input, session_id.as_deref(), tag.as_deref()),
            EventKind::TimerCreated { .. } => Asked::of(AskedKind::Timer),
            EventKind::ExternalSubscribed { name } => Asked::of(AskedKind::Event).named(name),
            EventKind::QueueSubscribed { name } => Asked::of(AskedKind::Queue).named(name),
            // duroxide does not compare the ids of children.
            EventKind::SubOrchestrationScheduled { name, input, .. } => {
                Asked::of(AskedKind::Child).named(name).with(input)
            }
            EventKind::OrchestrationChained { name, instance, input } => Asked::of(AskedKind::Orchestration)
                .named(name)
                .with(input)
                .to(Some(instance.clone())),
            // Nor the texts of a custom status.
            EventKind::CustomStatusUpdated { .. } => Asked::of(AskedKind::CustomStatus),
            EventKind::KeyValueSet { key, value, .. } => Asked::of(AskedKind::SetKey).named(key).with(value),
            EventKind::KeyValueCleared { key } => Asked::of(AskedKind::ClearKey).named(key),
            EventKind::KeyValuesCleared => Asked::of(AskedKind::ClearKeys),
            _ => return None,
        };
        Some(asked)
    }

    /// What code asks for now.
    pub(super) fn new(action: &Action) -> Asked {
        match action {
            Action::CallActivity {
                name,
                input,
                session_id,
                tag,
                ..
            } => activity(name, input, session_id.as_deref(), tag.as_deref()),
            Action::CreateTimer { .. } => Asked::of(AskedKind::Timer),
            Action::WaitExternal { name, .. } => Asked::of(AskedKind::Event).named(name),
            Action::DequeueEvent { name, .. } => Asked::of(AskedKind::Queue).named(name),
            Action::StartSubOrchestration { name, input, .. } => Asked::of(AskedKind::Child).named(name).with(input),
            Action::StartOrchestrationDetached {
                name, instance, input, ..
            } => Asked::of(AskedKind::Orchestration)
                .named(name)
                .with(input)
                .to(Some(instance.clone())),
            Action::ContinueAsNew { input, .. } => Asked::of(AskedKind::ContinueAsNew).with(input),
            Action::UpdateCustomStatus { .. } => Asked::of(AskedKind::CustomStatus),
            Action::SetKeyValue { key, value, .. } => Asked::of(AskedKind::SetKey).named(key).with(value),
            Action::ClearKeyValue { key } => Asked::of(AskedKind::ClearKey).named(key),
            Action::ClearKeyValues => Asked::of(AskedKind::ClearKeys),
        }
    }

    /// The cancellation of something.
    pub(super) fn cancelled(of: &Asked) -> Asked {
        Asked::of(AskedKind::Cancellation).named(&of.words())
    }

    /// It in words, without payloads: what stands after "recorded" or "asks for".
    pub fn words(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        match self.kind {
            AskedKind::Activity => format!("activity {name}"),
            AskedKind::Timer => "a timer".to_owned(),
            AskedKind::Event => format!("event {name}"),
            AskedKind::Queue => format!("queue {name}"),
            AskedKind::Child => format!("child {name}"),
            AskedKind::Orchestration => format!("a start of {name}"),
            AskedKind::CustomStatus => "a custom status".to_owned(),
            AskedKind::SetKey => format!("a value of key {name}"),
            AskedKind::ClearKey => format!("clearing key {name}"),
            AskedKind::ClearKeys => "clearing all keys".to_owned(),
            AskedKind::Cancellation => format!("the cancellation of {name}"),
            AskedKind::ContinueAsNew => "continue-as-new".to_owned(),
            AskedKind::Completed => "the end (completed)".to_owned(),
            AskedKind::Failed => "the end (failed)".to_owned(),
            AskedKind::Nothing => "nothing after it".to_owned(),
        }
    }

    /// "recorded X, the new build asks for Y".
    pub(super) fn instead_of(&self, recorded: &Asked) -> String {
        let before = recorded.words();
        let now = match self.kind {
            AskedKind::Nothing => "asks for nothing".to_owned(),
            AskedKind::Completed | AskedKind::Failed if recorded.kind == self.kind => match self.kind {
                AskedKind::Completed => "ends with another output".to_owned(),
                _ => "ends with another error".to_owned(),
            },
            AskedKind::Completed => "ends (completed)".to_owned(),
            AskedKind::Failed => "ends (failed)".to_owned(),
            AskedKind::ContinueAsNew if recorded.kind == self.kind => "continues with another input".to_owned(),
            AskedKind::ContinueAsNew => "continues as new".to_owned(),
            _ if recorded.kind != self.kind => format!("asks for {}", self.words()),
            _ if recorded.name != self.name => {
                format!("asks for {}", self.name.as_deref().unwrap_or("another one"))
            }
            AskedKind::SetKey => "sets another value".to_owned(),
            _ if recorded.input != self.input => "asks for it with another input".to_owned(),
            AskedKind::Orchestration => "starts it with another id".to_owned(),
            _ => "asks for it with another tag or affinity session".to_owned(),
        };
        format!("recorded {before}, the new build {now}")
    }

    /// The same with a short payload.
    pub(super) fn cut(mut self) -> Asked {
        if let Some(input) = self.input.as_mut().filter(|input| input.len() > MOST_INPUT) {
            input.truncate(input.floor_char_boundary(MOST_INPUT));
            input.push('…');
        }
        self
    }
}

fn activity(name: &str, input: &str, session: Option<&str>, tag: Option<&str>) -> Asked {
    let to = match (tag, session) {
        (None, None) => None,
        (tag, session) => Some(format!(
            "tag {}, affinity session {}",
            tag.unwrap_or("none"),
            session.unwrap_or("none")
        )),
    };
    Asked::of(AskedKind::Activity).named(name).with(input).to(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: AskedKind, name: &str, input: &str) -> Asked {
        Asked::of(kind).named(name).with(input)
    }

    #[test]
    fn a_difference_is_said_in_one_sentence() {
        use AskedKind::*;
        let charge = of(Activity, "charge-card", "7");
        for (recorded, now, expected) in [
            (
                charge.clone(),
                of(Activity, "reserve-stock", "7"),
                "recorded activity charge-card, the new build asks for reserve-stock",
            ),
            (
                charge.clone(),
                of(Activity, "charge-card", "8"),
                "recorded activity charge-card, the new build asks for it with another input",
            ),
            (
                charge.clone(),
                activity("charge-card", "7", None, Some("gpu")),
                "recorded activity charge-card, the new build asks for it with another tag or affinity session",
            ),
            (
                Asked::of(Timer),
                charge.clone(),
                "recorded a timer, the new build asks for activity charge-card",
            ),
            (
                Asked::of(Timer),
                Asked::of(Nothing),
                "recorded a timer, the new build asks for nothing",
            ),
            (
                Asked::of(Nothing),
                Asked::of(Completed),
                "recorded nothing after it, the new build ends (completed)",
            ),
            (
                charge.clone(),
                Asked::of(ContinueAsNew).with("1"),
                "recorded activity charge-card, the new build continues as new",
            ),
            (
                Asked::of(Completed).with("1"),
                Asked::of(Completed).with("2"),
                "recorded the end (completed), the new build ends with another output",
            ),
            (
                of(SetKey, "k", "1"),
                of(SetKey, "k", "2"),
                "recorded a value of key k, the new build sets another value",
            ),
        ] {
            assert_eq!(now.instead_of(&recorded), expected);
        }
    }

    #[test]
    fn payloads_are_cut_at_a_character() {
        let long = of(AskedKind::Activity, "a", &"ø".repeat(800)).cut();
        assert_eq!(long.input.unwrap().chars().count(), 501);
    }
}
