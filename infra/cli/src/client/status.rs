//! `duroxide-lambda status`, and the view of an instance that `wait` answers too.

use super::answer::{Answer, Failure};
use super::attempts::open_line;
use super::connection::Connection;
use super::explain::hint;
use super::instance::{blocked_lines, id_parser, ms_of, paused_line, status_colour, version_of};
use super::list::every_child;
use super::usage::usage_lines;
use super::{Common, examples};
use crate::terminal::table::{Fields, Look};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use duroxide_lambda_api::types::{
    ActivityAttempts, Blocked, ForkedFrom, Instance, Paused, Payload, Rewind, Status, Usage,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How many children or keys are shown without --full.
const FEW: usize = 10;

/// Show one instance: its status, output and children.
///
/// It is shown from the moment that its start is accepted. What keeps a blocked or paused one from going on is part of its status.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "status order-7",
    "status order-7 --json | jq -r .output",
    "status -- -an-id-that-begins-with-a-dash",
]))]
pub struct ShowStatus {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// Do not shorten long values and lists
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

impl ShowStatus {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let instance = connection.get(&self.instance).await?;
        let view = View::read(connection, instance).await?;
        let mut text = view.render(connection.now_ms(), connection.look, self.full);
        if !view.now.status.is_finished() {
            text = format!("{}\n\n{}", text.trim_end(), hint(&self.instance));
        }
        Ok(Answer::done(view.json()?, text))
    }
}

/// All about an instance. Its JSON is an interface: fields may be added, not renamed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    pub instance: String,
    pub orchestration: String,
    /// `null` while it is pending.
    pub version: Option<String>,
    /// `Pending`, `Running`, `Blocked`, `Paused`, `Completed`, `Failed`, `Cancelled` or `ContinuedAsNew`.
    pub status: String,
    pub custom_status: Option<String>,
    /// What a pending instance was started with: text.
    pub input: Option<String>,
    /// The output of a completed instance: text.
    pub output: Option<String>,
    /// The error of a failed instance, or the reason of a cancelled one.
    pub error: Option<String>,
    /// Why it is blocked.
    pub blocked: Option<Blocked>,
    /// Since when it is paused, and why.
    pub paused: Option<Paused>,
    pub execution: u64,
    /// The executions that still exist.
    pub executions: Vec<u64>,
    /// When its start was accepted. RFC 3339, as all times.
    pub created_at: String,
    pub updated_at: String,
    /// When the current execution began; `null` while it is pending.
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    /// From its acceptance to its end.
    pub duration_ms: Option<u64>,
    pub events: u64,
    pub history_bytes: Option<u64>,
    /// Queued messages that the previous execution left to this one.
    pub carried_messages: Option<u64>,
    pub parent: Option<String>,
    /// The instance whose input it repeats.
    pub restarted_from: Option<String>,
    /// The point of another instance's history that it begins with.
    pub forked_from: Option<ForkedFrom>,
    /// Its newest rewinds, the oldest first.
    pub rewinds: Vec<Rewind>,
    pub tags: BTreeMap<String, String>,
    pub children: Vec<String>,
    pub key_values: BTreeMap<String, String>,
    /// The activities of the current execution that have not completed.
    pub activities: Vec<ActivityAttempts>,
    /// What it has used, as the API answers it; `null` before its first turn.
    pub usage: Option<Usage>,
    #[serde(skip)]
    now: Instance,
}

impl View {
    pub(super) async fn read(connection: &Connection, now: Instance) -> Result<View, Failure> {
        let id = now.instance.as_str();
        let has_begun = now.started_at.is_some();
        let (executions, children, key_values, stats, activities) = futures::try_join!(
            connection.executions(id),
            every_child(connection, id),
            connection.key_values(id),
            connection.stats(id),
            open_activities(connection, &now),
        )?;
        let text = |payload: &Option<Payload>| payload.as_ref().map(|payload| payload.text().into_owned());
        Ok(View {
            instance: now.instance.clone(),
            orchestration: now.orchestration.clone(),
            version: now.version.clone(),
            status: now.status.to_string(),
            custom_status: now.custom_status.clone(),
            input: text(&now.input),
            output: text(&now.output),
            error: now.error.clone(),
            blocked: now.blocked.clone(),
            paused: now.paused.clone(),
            execution: now.execution,
            executions: executions.iter().map(|execution| execution.execution).collect(),
            created_at: now.created_at.clone(),
            updated_at: now.updated_at.clone(),
            started_at: now.started_at.clone(),
            completed_at: now.completed_at.clone(),
            duration_ms: now.duration_ms,
            events: now.events,
            history_bytes: has_begun.then_some(stats.history_bytes),
            carried_messages: has_begun.then_some(stats.carried_messages),
            parent: now.parent.clone(),
            restarted_from: now.restarted_from.clone(),
            forked_from: now.forked_from.clone(),
            rewinds: now.rewinds.clone(),
            tags: now.tags.clone(),
            children,
            key_values,
            activities,
            usage: now.usage.clone(),
            now,
        })
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::to_value(self)
            .map_err(|error| Failure::error(format!("the status cannot be written as JSON: {error}")))
    }

    pub(super) fn render(&self, now_ms: u64, look: Look, full: bool) -> String {
        let ago = |ms: u64| format!("{} ({} ago)", moment(ms), span(now_ms.saturating_sub(ms)));
        let mut fields = Fields::default();
        fields.add("instance", escape(&self.instance));
        fields.add(
            "orchestration",
            escape(format!("{} {}", self.orchestration, version_of(&self.now)).trim_end()),
        );
        fields.coloured("status", &self.status, status_colour(self.now.status));
        let paused = self.paused.as_ref();
        fields.maybe("paused", paused.map(|paused| paused_line(paused, now_ms)));
        let blocked = self.blocked.as_ref();
        fields.maybe("blocked", blocked.map(|blocked| blocked_lines(blocked, now_ms)));
        fields.maybe(
            "custom status",
            self.custom_status.as_ref().map(|text| short(text, full)),
        );
        // For a pending instance this is all that has happened.
        let accepted = if self.started_at.is_none() {
            "accepted"
        } else {
            "created"
        };
        fields.add(accepted, ago(ms_of(&self.created_at)));
        if self.started_at.is_some() {
            fields.add("updated", ago(ms_of(&self.updated_at)));
        }
        fields.maybe("took", self.duration_ms.map(span));
        if self.execution > 1 {
            let kept = self.executions.len();
            fields.add("execution", format!("{} ({kept} kept)", self.execution));
        }
        let bytes = self.history_bytes.map(|bytes| format!(", {bytes} bytes"));
        fields.add(
            "history",
            format!("{} events{}", self.events, bytes.unwrap_or_default()),
        );
        let carried = self.carried_messages.filter(|count| *count > 0);
        fields.maybe("carried over", carried.map(|count| format!("{count} messages")));
        fields.maybe("parent", self.parent.as_ref().map(|parent| escape(parent)));
        fields.maybe("restarted from", self.restarted_from.as_ref().map(|from| escape(from)));
        let forked = self.forked_from.as_ref();
        fields.maybe(
            "forked from",
            forked.map(|from| {
                let (id, execution, event) = (escape(&from.instance), from.execution, from.event);
                format!("{id}, execution {execution}, event {event}")
            }),
        );
        fields.maybe("usage", self.usage.as_ref().map(usage_lines));
        self.lists(&mut fields, now_ms, full);
        fields.maybe("input", self.input.as_ref().map(|text| readable(text, full)));
        fields.maybe("error", self.error.as_ref().map(|text| readable(text, full)));
        fields.maybe("output", self.output.as_ref().map(|text| readable(text, full)));
        fields.render(look)
    }

    fn lists(&self, fields: &mut Fields, now_ms: u64, full: bool) {
        let most = if full { usize::MAX } else { FEW };
        let values = self.key_values.iter();
        let values = values.map(|(key, value)| format!("{} = {}", escape(key), short(value, full)));
        let children = self.children.iter().map(|child| escape(child));
        let activities = self.activities.iter().map(|activity| open_line(activity, now_ms));
        let tags = self.tags.iter();
        let tags = tags.map(|(key, value)| format!("{} = {}", escape(key), escape(value)));
        let rewinds = self.rewinds.iter().rev().map(|rewind| rewind_line(rewind, now_ms));
        let lists: [(_, Vec<String>); 5] = [
            ("rewinds", rewinds.collect()),
            ("tags", tags.collect()),
            ("activities", activities.collect()),
            ("children", children.collect()),
            ("key-values", values.collect()),
        ];
        for (label, lines) in lists.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let more = lines.len().saturating_sub(most);
            let mut shown = lines.into_iter().take(most).collect::<Vec<_>>();
            if more > 0 {
                shown.push(format!("and {more} more: --full shows all"));
            }
            fields.add(label, shown.join("\n"));
        }
    }
}

/// One rewind: when, to where, and why.
fn rewind_line(rewind: &Rewind, now_ms: u64) -> String {
    let ago = span(now_ms.saturating_sub(ms_of(&rewind.at)));
    let reason = rewind.reason.as_ref().map(|reason| format!(": {}", escape(reason)));
    let (number, before, undone) = (rewind.number, rewind.before, rewind.undone);
    format!(
        "{number}, {ago} ago, to before event {before}, {undone} events undone{}",
        reason.unwrap_or_default()
    )
}

/// The activities of the current execution that have not completed. A finished instance has none.
async fn open_activities(connection: &Connection, now: &Instance) -> Result<Vec<ActivityAttempts>, Failure> {
    if now.status.is_finished() || now.status == Status::Pending || now.events == 0 {
        return Ok(Vec::new());
    }
    let history = connection.history(&now.instance, Some(now.execution)).await?;
    Ok(history.attempts.into_iter().filter(|of| of.open).collect())
}

/// A value for people: JSON with indentation, other text as it is; shortened unless `full`.
pub(super) fn readable(text: &str, full: bool) -> String {
    const LINES: usize = 40;
    const CHARACTERS: usize = 2_000;
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    let parsed = serde_json::from_str::<Value>(text).ok();
    let structured = parsed.filter(|value| value.is_object() || value.is_array());
    let pretty = structured.map_or_else(|| text.to_owned(), |value| format!("{value:#}"));
    if full {
        return pretty;
    }
    let lines = pretty.split('\n').take(LINES).collect::<Vec<_>>().join("\n");
    let cut: String = lines.chars().take(CHARACTERS).collect();
    if cut.len() < pretty.len() {
        return format!("{cut}…\n({} bytes in all: --full shows all)", text.len());
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_long_values_are_shortened() {
        assert_eq!(readable("", false), "(empty)");
        assert_eq!(readable("{\"a\":[1]}", false), "{\n  \"a\": [\n    1\n  ]\n}");
        assert_eq!(readable("12345678901234567890123", false), "12345678901234567890123");
        assert_eq!(readable("a\nb {", false), "a\nb {");
        let long = "x".repeat(5_000);
        let shown = readable(&long, false);
        assert!(shown.ends_with("(5000 bytes in all: --full shows all)"), "{shown}");
        assert_eq!(readable(&long, true), long);
        assert!(readable(&"l\n".repeat(100), false).lines().count() < 50);
    }
}
