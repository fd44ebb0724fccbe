//! The section `Rules`: CloudFormation allows fewer functions there than elsewhere, and refuses the whole template otherwise.
//!
//! Linters and `sam` do not check it, so that a mistake would be found only when the stack is deployed.

use super::yaml::function;
use serde_json::{Map, Value};

/// What a rule may use.
const ALLOWED: [&str; 11] = [
    "Fn::And",
    "Fn::Contains",
    "Fn::EachMemberEquals",
    "Fn::EachMemberIn",
    "Fn::Equals",
    "Fn::Not",
    "Fn::Or",
    "Fn::RefAll",
    "Fn::ValueOf",
    "Fn::ValueOfAll",
    "Ref",
];

/// A rule with a function that CloudFormation does not allow there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule {rule} uses {function}; CloudFormation allows only these in Rules: {allowed}", allowed = ALLOWED.join(", "))]
pub(in crate::deploy) struct RuleError {
    rule: String,
    function: String,
}

/// Checks the rules of a template.
pub(in crate::deploy) fn check(template: &Map<String, Value>) -> Result<(), RuleError> {
    let rules = template.get("Rules").and_then(Value::as_object);
    for (rule, content) in rules.into_iter().flatten() {
        if let Some(function) = refused(content) {
            let (rule, function) = (rule.clone(), function.to_owned());
            return Err(RuleError { rule, function });
        }
    }
    Ok(())
}

/// The first function that is not allowed.
fn refused(value: &Value) -> Option<&str> {
    match function(value) {
        Some((name, _)) if !ALLOWED.contains(&name) => Some(name),
        _ => match value {
            Value::Array(items) => items.iter().find_map(refused),
            Value::Object(map) => map.values().find_map(refused),
            _ => None,
        },
    }
}
