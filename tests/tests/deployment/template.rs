//! `infra/aws/template.yaml` as JSON, and what it says for given parameters.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::real::Venv;

/// Given parameters; those that are not given have their defaults.
pub type Parameters = BTreeMap<String, String>;

/// The template, as written and as it is transformed.
pub struct Template {
    pub source: Value,
    pub transformed: Value,
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file of this directory.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/deployment")
        .join(name)
}

/// Runs a program with some input, and answers its output; it must succeed.
pub fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let program = command.get_program().to_owned();
    let mut child = command
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} does not start", program.display()))?;
    let mut stdin = child.stdin.take().context("stdin was piped")?;
    let input = input.to_owned();
    // A program that ends early closes the pipe: its exit code says more than that.
    let writer = std::thread::spawn(move || stdin.write_all(&input).ok());
    let output = child.wait_with_output()?;
    writer.join().ok();
    if !output.status.success() {
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("{} failed ({})\n{out}{err}", program.display(), output.status);
    }
    Ok(output.stdout)
}

/// Parameters with which the template can be deployed, and those given here.
pub fn parameters(more: &[(&str, &str)]) -> Parameters {
    let key = format!("{}==", "A".repeat(86));
    let least = [
        ("CosmosEndpoint", "https://my-account.documents.azure.com"),
        ("CosmosKey", key.as_str()),
    ];
    let all = least.iter().chain(more);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// An application of Entra ID.
pub const TENANT: &str = "contoso.onmicrosoft.com";
pub const CLIENT: &str = "0f3b7f3e-1111-2222-3333-444444444444";

/// The same without a key: with an application.
pub fn keyless(more: &[(&str, &str)]) -> Parameters {
    let mut all = parameters(&[
        ("CosmosKey", ""),
        ("CosmosTenantId", TENANT),
        ("CosmosClientId", CLIENT),
    ]);
    all.extend(
        more.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    all
}

impl Template {
    /// Reads and transforms it, as CloudFormation does with these parameters.
    pub async fn read(given: &Parameters) -> Result<Template> {
        let venv = Venv::sam().await?;
        let mut python = Command::new(venv.python());
        python
            .arg(script("transform.py"))
            .arg("infra/aws/template.yaml")
            .env("AWS_DEFAULT_REGION", "eu-central-1");
        let both = run(&mut python, &serde_json::to_vec(given)?)?;
        let mut both: Value = serde_json::from_slice(&both)?;
        Ok(Template {
            source: both["source"].take(),
            transformed: both["transformed"].take(),
        })
    }

    /// All parameters: those given, the others by default.
    pub fn complete(&self, given: &Parameters) -> Parameters {
        let declared = self.section("Parameters");
        let default = |(name, parameter): (&String, &Value)| Some((name.clone(), text(parameter.get("Default")?)));
        let mut all: Parameters = declared.iter().filter_map(default).collect();
        all.extend(given.clone());
        all
    }

    /// One section of the template as written.
    pub fn section(&self, name: &str) -> &Map<String, Value> {
        self.source[name].as_object().unwrap()
    }

    /// The resources of the transformed template that are of a type, by name.
    pub fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let all = self.transformed["Resources"].as_object().unwrap().iter();
        all.filter(move |(_, resource)| resource["Type"] == kind)
    }

    /// What a value is for these parameters: references to parameters, tables and conditions are followed, the rest is
    /// left as it is.
    pub fn resolve(&self, value: &Value, all: &Parameters) -> Value {
        let Some((function, argument)) = call(value) else {
            return value.clone();
        };
        match (function, argument) {
            ("Ref", Value::String(name)) => all.get(name).map_or_else(|| value.clone(), |value| json!(value)),
            ("Fn::FindInMap", Value::Array(path)) => {
                let path: Vec<String> = path.iter().map(|part| text(&self.resolve(part, all))).collect();
                let found = path.iter().fold(&self.source["Mappings"], |table, key| &table[key]);
                assert!(!found.is_null(), "no table has {path:?}");
                found.clone()
            }
            // In conditions; rules may not use it. A list of parameters is one text with commas.
            ("Fn::Join", Value::Array(parts)) if parts[1].is_object() => {
                let separator = text(&parts[0]);
                json!(text(&self.resolve(&parts[1], all)).replace(',', &separator))
            }
            ("Fn::If", Value::Array(parts)) => {
                let condition = &self.source["Conditions"][parts[0].as_str().unwrap()];
                let chosen = if self.holds(condition, all) {
                    &parts[1]
                } else {
                    &parts[2]
                };
                self.resolve(chosen, all)
            }
            _ => value.clone(),
        }
    }

    /// Whether a condition, or the assertion of a rule, holds.
    pub fn holds(&self, condition: &Value, all: &Parameters) -> bool {
        if let Some(name) = condition.get("Condition").and_then(Value::as_str) {
            return self.holds(&self.source["Conditions"][name], all);
        }
        let (function, argument) = call(condition).unwrap_or_else(|| panic!("no condition: {condition}"));
        let parts = argument.as_array().unwrap();
        match function {
            "Fn::Equals" => text(&self.resolve(&parts[0], all)) == text(&self.resolve(&parts[1], all)),
            // The first is a list of parameters, which is one text with commas.
            "Fn::Contains" => {
                let sought = text(&self.resolve(&parts[1], all));
                text(&self.resolve(&parts[0], all)).split(',').any(|one| one == sought)
            }
            "Fn::Not" => !self.holds(&parts[0], all),
            "Fn::And" => parts.iter().all(|part| self.holds(part, all)),
            "Fn::Or" => parts.iter().any(|part| self.holds(part, all)),
            other => panic!("{other} is not known here"),
        }
    }
}

fn call(value: &Value) -> Option<(&str, &Value)> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let (function, argument) = object.iter().next()?;
    (function == "Ref" || function.starts_with("Fn::")).then_some((function, argument))
}

/// A scalar as text: CloudFormation does not distinguish numbers from texts.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
