//! `duroxide-lambda tree`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{BlockedView, id_parser, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, left};
use clap::Args;
use duroxide_cosmos::InstanceSummary;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Show an instance and its descendants.
#[derive(Debug, Args)]
#[command(after_help = examples(&["tree order-7"]))]
pub struct Tree {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Tree {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let root = connection.get(&self.instance).await?;
        let tree = connection.client().get_instance_tree(&self.instance).await?;
        let others: Vec<String> = tree.all_ids.into_iter().filter(|id| *id != self.instance).collect();
        let infos = connection.find_all(&others).await?;
        let lines = ordered(root, infos);
        let mut table = Table::new([
            left("INSTANCE"),
            left("ORCHESTRATION"),
            left("VERSION").optional(),
            left("STATUS"),
        ]);
        let mut instances: Vec<Value> = Vec::new();
        for (depth, branch, summary) in &lines {
            table.row([
                format!("{branch}{}", summary.instance).into(),
                summary.orchestration.as_str().into(),
                version_of(summary).into(),
                Cell::from(summary.status.name()).coloured(status_colour(&summary.status)),
            ]);
            instances.push(json!({
                "instance": summary.instance,
                "parent": summary.parent,
                "depth": depth,
                "orchestration": summary.orchestration,
                "version": summary.version,
                "status": summary.status.name(),
                "blocked": summary.blocked.as_ref().map(BlockedView::from),
            }));
        }
        Ok(Answer::done(
            json!({ "root": self.instance, "instances": instances }),
            table.render(connection.look),
        ))
    }
}

/// Each instance after its parent, with its depth and the branch that is drawn before it.
fn ordered(root: InstanceSummary, others: Vec<InstanceSummary>) -> Vec<(usize, String, InstanceSummary)> {
    let mut children: BTreeMap<String, Vec<InstanceSummary>> = BTreeMap::new();
    for summary in others {
        let parent = summary.parent.clone().unwrap_or_default();
        children.entry(parent).or_default().push(summary);
    }
    let mut lines = Vec::new();
    // A stack instead of recursion, because a chain of children may be long. Removing children prevents endless loops.
    let mut open = vec![(0, String::new(), String::new(), root)];
    while let Some((depth, branch, beneath, summary)) = open.pop() {
        let mut below = children.remove(&summary.instance).unwrap_or_default();
        below.sort_by(|a, b| {
            let by_age = a.accepted_at.cmp(&b.accepted_at);
            by_age.then_with(|| a.instance.cmp(&b.instance))
        });
        let last = below.len().saturating_sub(1);
        for (index, child) in below.into_iter().enumerate().rev() {
            let (tee, line) = if index == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            open.push((depth + 1, format!("{beneath}{tee}"), format!("{beneath}{line}"), child));
        }
        lines.push((depth, branch, summary));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_cosmos::InstanceStatus;

    fn summary(id: &str, parent: Option<&str>) -> InstanceSummary {
        InstanceSummary {
            instance: id.to_owned(),
            orchestration: String::new(),
            version: None,
            status: InstanceStatus::Running,
            custom_status: None,
            custom_status_version: 0,
            input: None,
            output: None,
            error: None,
            blocked: None,
            execution: 1,
            accepted_at: 0,
            started_at: None,
            updated_at: 0,
            completed_at: None,
            events: 0,
            parent: parent.map(str::to_owned),
            tags: Default::default(),
            etag: String::new(),
        }
    }

    #[test]
    fn children_follow_their_parents() {
        let others = vec![
            summary("b", Some("root")),
            summary("a", Some("root")),
            summary("a2", Some("a")),
            summary("a1", Some("a")),
            summary("b1", Some("b")),
        ];
        let lines = ordered(summary("root", Some("elsewhere")), others);
        let shown: Vec<String> = lines
            .iter()
            .map(|(depth, branch, summary)| format!("{depth} {branch}{}", summary.instance))
            .collect();
        let expected = ["0 root", "1 ├─ a", "2 │  ├─ a1", "2 │  └─ a2", "1 └─ b", "2    └─ b1"];
        assert_eq!(shown, expected);
    }
}
