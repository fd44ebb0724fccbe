//! `duroxide-lambda tree`.

use super::answer::{Answer, Failure};
use super::connection::Connection;
use super::instance::{id_parser, status_colour};
use super::{Common, examples};
use crate::terminal::table::{Cell, Table, left};
use clap::Args;
use duroxide::providers::InstanceInfo;
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
        for (depth, branch, info) in &lines {
            table.row([
                format!("{branch}{}", info.instance_id).into(),
                info.orchestration_name.as_str().into(),
                info.orchestration_version.as_str().into(),
                Cell::from(&info.status).coloured(status_colour(&info.status)),
            ]);
            instances.push(json!({
                "instance": info.instance_id,
                "parent": info.parent_instance_id,
                "depth": depth,
                "orchestration": info.orchestration_name,
                "version": info.orchestration_version,
                "status": info.status,
            }));
        }
        Ok(Answer::done(
            json!({ "root": self.instance, "instances": instances }),
            table.render(connection.look),
        ))
    }
}

/// Each instance after its parent, with its depth and the branch that is drawn before it.
fn ordered(root: InstanceInfo, infos: Vec<InstanceInfo>) -> Vec<(usize, String, InstanceInfo)> {
    let mut children: BTreeMap<String, Vec<InstanceInfo>> = BTreeMap::new();
    for info in infos {
        let parent = info.parent_instance_id.clone().unwrap_or_default();
        children.entry(parent).or_default().push(info);
    }
    let mut lines = Vec::new();
    // A stack instead of recursion, because a chain of children may be long. Removing children prevents endless loops.
    let mut open = vec![(0, String::new(), String::new(), root)];
    while let Some((depth, branch, beneath, info)) = open.pop() {
        let mut below = children.remove(&info.instance_id).unwrap_or_default();
        below.sort_by(|a, b| {
            a.created_at
                .cmp(&b.created_at)
                .then_with(|| a.instance_id.cmp(&b.instance_id))
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
        lines.push((depth, branch, info));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: &str, parent: Option<&str>) -> InstanceInfo {
        InstanceInfo {
            instance_id: id.to_owned(),
            orchestration_name: String::new(),
            orchestration_version: String::new(),
            current_execution_id: 1,
            status: String::new(),
            output: None,
            created_at: 0,
            updated_at: 0,
            parent_instance_id: parent.map(str::to_owned),
        }
    }

    #[test]
    fn children_follow_their_parents() {
        let infos = vec![
            info("b", Some("root")),
            info("a", Some("root")),
            info("a2", Some("a")),
            info("a1", Some("a")),
            info("b1", Some("b")),
        ];
        let lines = ordered(info("root", Some("elsewhere")), infos);
        let shown: Vec<String> = lines
            .iter()
            .map(|(depth, branch, info)| format!("{depth} {branch}{}", info.instance_id))
            .collect();
        let expected = ["0 root", "1 ├─ a", "2 │  ├─ a1", "2 │  └─ a2", "1 └─ b", "2    └─ b1"];
        assert_eq!(shown, expected);
    }
}
