//! The stack as CloudFormation describes it, by the AWS CLI.

use super::tools::Tools;
use anyhow::{Context as _, bail};
use serde::Deserialize;

/// A parameter that our template has in every release, and hardly any other.
const MARK: &str = "CosmosContainer";

/// A stack.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Stack {
    pub(super) stack_name: String,
    stack_status: String,
    parameters: Vec<Parameter>,
    pub(super) outputs: Vec<Output>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Parameter {
    parameter_key: String,
    parameter_value: String,
}

/// The description of a stack.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Output {
    pub(super) output_key: String,
    pub(super) output_value: String,
    pub(super) description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    stacks: Vec<Stack>,
}

impl Stack {
    /// The stack of this name, if there is one.
    pub(super) async fn describe(tools: &Tools, name: &str) -> anyhow::Result<Option<Stack>> {
        let arguments = [
            "cloudformation",
            "describe-stacks",
            "--stack-name",
            name,
            "--output",
            "json",
        ];
        match tools.read("aws", &arguments).await? {
            Ok(answer) => {
                let described: Described = parse(&answer)?;
                Ok(described.stacks.into_iter().next())
            }
            // Other things may be missing, too: a token of single sign-on "does not exist" before a login.
            Err(said) if said.contains("ValidationError") && said.contains("does not exist") => Ok(None),
            Err(said) => bail!("the stack '{name}' cannot be described: {}", said.trim()),
        }
    }

    /// Fails if it was not made from our template: a deployment would replace all that it has.
    pub(super) fn check_ours(&self) -> anyhow::Result<()> {
        // What was only begun is empty, and may have no parameters yet.
        if self.stack_status != "REVIEW_IN_PROGRESS" && self.parameter(MARK).is_none() {
            bail!(
                "the stack '{}' exists and is none of duroxide-lambda: choose another name with --stack, or in duroxide-lambda.toml",
                self.stack_name
            );
        }
        Ok(())
    }

    /// All stacks of the account and region, or why they are not known.
    pub(super) async fn all(tools: &Tools) -> anyhow::Result<Result<Vec<Stack>, String>> {
        let arguments = ["cloudformation", "describe-stacks", "--output", "json"];
        match tools.read("aws", &arguments).await? {
            Ok(answer) => Ok(Ok(parse::<Described>(&answer)?.stacks)),
            Err(said) => Ok(Err(said.trim().to_owned())),
        }
    }

    /// Deletes it, and waits until it is gone.
    pub(super) async fn delete(tools: &Tools, name: &str) -> anyhow::Result<()> {
        tools
            .run("aws", &["cloudformation", "delete-stack", "--stack-name", name])
            .await?;
        let wait = ["cloudformation", "wait", "stack-delete-complete", "--stack-name", name];
        tools.run("aws", &wait).await.with_context(|| {
            format!("the stack '{name}' is not deleted: its events in the console of CloudFormation show why")
        })
    }

    /// Whether it is a deployment: one that was never started, or whose first creation failed, is none.
    pub(super) fn is_deployed(&self) -> bool {
        !matches!(self.stack_status.as_str(), "REVIEW_IN_PROGRESS" | "ROLLBACK_COMPLETE")
    }

    /// Whether it is what a failed first creation leaves: empty, and it can only be deleted.
    pub(super) fn is_failed_creation(&self) -> bool {
        self.stack_status == "ROLLBACK_COMPLETE"
    }

    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let found = self.parameters.iter().find(|it| it.parameter_key == name);
        found.map(|it| it.parameter_value.clone())
    }

    /// Names and values of all parameters; those of secrets are masked.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let each = self.parameters.iter();
        each.map(|it| (it.parameter_key.as_str(), it.parameter_value.as_str()))
    }

    pub(super) fn output(&self, name: &str) -> Option<&str> {
        let found = self.outputs.iter().find(|it| it.output_key == name);
        found.map(|it| it.output_value.as_str())
    }

    /// The roles that the application must trust now and did not have to trust before: those of a first deployment, and of new tags. A
    /// stack with a key or a secret has none.
    pub(super) fn new_roles(&self, before: Option<&Stack>) -> Vec<&str> {
        let known = before.and_then(|stack| stack.output("RoleArns")).unwrap_or_default();
        let now = self.output("RoleArns").unwrap_or_default();
        let is_new = |role: &&str| known.split_whitespace().all(|known| known != *role);
        now.split_whitespace().filter(is_new).collect()
    }
}

fn parse<T: serde::de::DeserializeOwned>(answer: &str) -> anyhow::Result<T> {
    serde_json::from_str(answer).context("the answer of `aws cloudformation describe-stacks` cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stacks_of_our_template_are_changed() {
        let of = |status: &str, parameters: Vec<Parameter>| Stack {
            stack_name: "payments".to_owned(),
            stack_status: status.to_owned(),
            parameters,
            outputs: Vec::new(),
        };
        let mark = || Parameter {
            parameter_key: MARK.to_owned(),
            parameter_value: "workflows".to_owned(),
        };
        for status in [
            "CREATE_COMPLETE",
            "UPDATE_ROLLBACK_COMPLETE",
            "ROLLBACK_COMPLETE",
            "DELETE_FAILED",
        ] {
            of(status, vec![mark()]).check_ours().unwrap();
            let refused = of(status, Vec::new()).check_ours().unwrap_err().to_string();
            assert!(
                refused.contains("'payments' exists") && refused.contains("--stack"),
                "{refused}"
            );
        }
        of("REVIEW_IN_PROGRESS", Vec::new()).check_ours().unwrap();
    }
    #[test]
    fn roles_that_the_application_does_not_trust_yet_are_new() {
        let of = |roles: Option<&str>| Stack {
            outputs: roles
                .map(|roles| Output {
                    output_key: "RoleArns".to_owned(),
                    output_value: roles.to_owned(),
                    description: String::new(),
                })
                .into_iter()
                .collect(),
            ..Stack::default()
        };
        let now = of(Some("arn:orchestrator arn:worker arn:gpu"));
        let all = ["arn:orchestrator", "arn:worker", "arn:gpu"];
        assert_eq!(now.new_roles(None), all);
        // It used a key before.
        assert_eq!(now.new_roles(Some(&of(None))), all);
        assert_eq!(
            now.new_roles(Some(&of(Some("arn:worker arn:orchestrator")))),
            ["arn:gpu"]
        );
        assert!(now.new_roles(Some(&now)).is_empty());
        assert!(of(None).new_roles(Some(&now)).is_empty());
    }
}
