//! `duroxide-lambda tree`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{id_parser, status_colour, version_of};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, left};
use clap::Args;
use duroxide_lambda_api::types::Instance;
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
        let mut all = connection.tree(&self.instance).await?;
        let root = all.iter().position(|one| one.instance == self.instance);
        let root = root.ok_or_else(|| Failure::unknown(&self.instance))?;
        let root = all.swap_remove(root);
        let lines = ordered(root, all);
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
                Cell::from(summary.status.name()).coloured(status_colour(summary.status)),
            ]);
            instances.push(json!({
                "instance": summary.instance,
                "parent": summary.parent,
                "depth": depth,
                "orchestration": summary.orchestration,
                "version": summary.version,
                "status": summary.status.name(),
                "blocked": summary.blocked,
            }));
        }
        Ok(Answer::done(
            json!({ "root": self.instance, "instances": instances }),
            table.render(connection.look),
        ))
    }
}

/// Each instance after its parent, with its depth and the branch that is drawn before it.
fn ordered(root: Instance, others: Vec<Instance>) -> Vec<(usize, String, Instance)> {
    let mut children: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
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
            let by_age = a.created_at.cmp(&b.created_at);
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

    fn summary(id: &str, parent: Option<&str>) -> Instance {
        let json = json!({
            "instance": id, "orchestration": "o", "status": "Running", "execution": 1, "events": 0,
            "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z", "parent": parent,
        });
        serde_json::from_value(json).unwrap()
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
