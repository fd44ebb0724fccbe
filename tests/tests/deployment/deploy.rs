//! The stack that moto's CloudFormation makes of the transformed template, and all that is then in the account.

use crate::template::{Parameters, Template, run, script};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::process::Command;
use tests::real::{Moto, Venv};

/// A stack, and the account that has nothing else.
pub struct Stack {
    pub moto: Moto,
    venv: Venv,
    ask: Value,
    /// What there is, by kind.
    pub made: Value,
}

impl Stack {
    pub async fn create(given: &Parameters) -> Result<Stack> {
        let template = Template::read(given).await?;
        let venv = Venv::ready().await?;
        let moto = Moto::deployable(&venv).await?;
        let ask = json!({"template": template.transformed, "parameters": template.complete(given)});
        let mut stack = Stack {
            moto,
            venv,
            ask,
            made: Value::Null,
        };
        stack.made = stack.act("create")?;
        Ok(stack)
    }

    /// Deletes it, and answers what is left.
    pub fn delete(&self) -> Result<Value> {
        self.act("delete")
    }

    fn act(&self, what: &str) -> Result<Value> {
        let mut python = Command::new(self.venv.python());
        python.arg(script("stack.py")).arg(what).envs(self.moto.env());
        let found = run(&mut python, &serde_json::to_vec(&self.ask)?).with_context(|| format!("{what} the stack"))?;
        Ok(serde_json::from_slice(&found)?)
    }

    /// The function whose name ends so.
    pub fn function(&self, suffix: &str) -> &Value {
        &self.made["functions"][format!("flow-{suffix}")]
    }

    /// The variables of a function.
    pub fn variables(&self, suffix: &str) -> Vec<(String, String)> {
        let variables = self.function(suffix)["Environment"]["Variables"].as_object().unwrap();
        let pair = |(name, value): (&String, &Value)| (name.clone(), crate::template::text(value));
        variables.iter().map(pair).collect()
    }

    /// The attributes of the queue with this logical name, which moto puts into the physical one.
    pub fn queue(&self, logical: &str) -> &Value {
        let queues = self.made["queues"].as_object().unwrap();
        let found = queues
            .iter()
            .find(|(url, _)| url.contains(&format!("/flow-{logical}-")));
        found.unwrap_or_else(|| panic!("there is no {logical}")).1
    }

    /// The ARN of that queue.
    pub fn queue_arn(&self, logical: &str) -> &str {
        self.queue(logical)["QueueArn"].as_str().unwrap()
    }
}
