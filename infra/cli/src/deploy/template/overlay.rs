//! The overlay of a project: YAML in the form of a template, merged over ours.
//!
//! | in the overlay | effect |
//! |---|---|
//! | a mapping | its keys are merged |
//! | a list | its items are added to the end |
//! | null | the key is removed |
//! | a function of CloudFormation, or anything else | replaces what is there |
//!
//! A resource that the template does not have needs a `Type`: then it is added. Without one it is a spelling mistake.

use super::yaml::function;
use serde_json::{Map, Value};

/// The sections that an overlay may have.
const SECTIONS: [&str; 7] = [
    "Conditions",
    "Globals",
    "Mappings",
    "Outputs",
    "Parameters",
    "Resources",
    "Rules",
];

/// Why an overlay does not fit the template.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::deploy) enum OverlayError {
    #[error("it must be a mapping with sections like Resources")]
    Form,
    #[error("it has the section {0}; it may have: {sections}", sections = SECTIONS.join(", "))]
    Section(String),
    #[error("the section {0} must be a mapping")]
    NotMapping(String),
    #[error("the template has no resource {name}{}; a resource of your own needs a Type", nearest(.name, .known))]
    Resource { name: String, known: Vec<String> },
    #[error("{name}: a resource cannot change its Type from {from} to {to}")]
    Type { name: String, from: String, to: String },
}

/// Merges an overlay over a template. Null is an empty overlay.
pub(in crate::deploy) fn merge(template: &mut Map<String, Value>, overlay: Value) -> Result<(), OverlayError> {
    let sections = match overlay {
        Value::Null => return Ok(()),
        Value::Object(sections) => sections,
        _ => return Err(OverlayError::Form),
    };
    for (section, content) in sections {
        if !SECTIONS.contains(&section.as_str()) {
            return Err(OverlayError::Section(section));
        }
        let content = match content {
            Value::Null => continue,
            Value::Object(content) => content,
            _ => return Err(OverlayError::NotMapping(section)),
        };
        let into = template.entry(section.clone()).or_insert_with(|| Map::new().into());
        let Value::Object(into) = into else {
            return Err(OverlayError::NotMapping(section));
        };
        if section == "Resources" {
            check_resources(into, &content)?;
        }
        merge_map(into, content);
    }
    Ok(())
}

fn check_resources(known: &Map<String, Value>, given: &Map<String, Value>) -> Result<(), OverlayError> {
    for (name, resource) in given {
        let kind = |of: &Value| of.get("Type").and_then(Value::as_str).map(str::to_owned);
        match (known.get(name).and_then(kind), kind(resource)) {
            (Some(from), Some(to)) if from != to => {
                let name = name.clone();
                return Err(OverlayError::Type { name, from, to });
            }
            (None, None) => {
                return Err(OverlayError::Resource {
                    name: name.clone(),
                    known: known.keys().cloned().collect(),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn merge_map(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        if value.is_null() {
            into.remove(&name);
            continue;
        }
        match into.get_mut(&name) {
            Some(there) => merge_value(there, value),
            None => {
                into.insert(name, value);
            }
        }
    }
}

fn merge_value(there: &mut Value, given: Value) {
    let replaces = function(there).is_some() || is_function_in_place_of(there, &given);
    match (there, given) {
        (Value::Object(there), Value::Object(given)) if !replaces => merge_map(there, given),
        (Value::Array(there), Value::Array(given)) => there.extend(given),
        (there, given) => *there = given,
    }
}

/// Whether what is given is a function. `Condition` alone may also be the key of a resource or an output, which it must not replace.
fn is_function_in_place_of(there: &Value, given: &Value) -> bool {
    match function(given) {
        Some(("Condition", _)) => !there.is_object(),
        other => other.is_some(),
    }
}

/// A resource with a similar name, as a part of the message.
fn nearest(name: &str, known: &[String]) -> String {
    let common = |other: &str| {
        let same = |(one, other): &(char, char)| one.eq_ignore_ascii_case(other);
        let start = name.chars().zip(other.chars()).take_while(same).count();
        let end = name.chars().rev().zip(other.chars().rev()).take_while(same).count();
        start + end
    };
    let best = known.iter().max_by_key(|other| common(other));
    best.filter(|best| common(best) >= 4)
        .map_or_else(String::new, |best| format!(" (did you mean {best}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template() -> Map<String, Value> {
        let template = json!({"Resources": {
            "WorkerFunction": {"Type": "T", "Properties": {
                "MemorySize": {"Ref": "WorkerMemory"}, "Layers": ["a"],
                "Environment": {"Variables": {"A": "1", "B": "2"}},
                "VpcConfig": {"Fn::If": ["InVpc", {"SubnetIds": []}, {"Ref": "AWS::NoValue"}]},
            }},
        }});
        template.as_object().unwrap().clone()
    }

    #[test]
    fn mappings_are_merged_lists_are_extended_and_functions_are_replaced() {
        let mut merged = template();
        let overlay = json!({"Resources": {
            "WorkerFunction": {"Properties": {
                "MemorySize": 512, "Layers": ["b"], "Environment": {"Variables": {"A": null, "C": {"Ref": "Bucket"}}},
                "VpcConfig": {"SubnetIds": ["s"]},
            }},
            "Bucket": {"Type": "AWS::S3::Bucket"},
        }, "Outputs": {"Bucket": {"Value": {"Ref": "Bucket"}}}});
        merge(&mut merged, overlay).unwrap();
        let expected = json!({
            "Resources": {
                "WorkerFunction": {"Type": "T", "Properties": {
                    "MemorySize": 512, "Layers": ["a", "b"],
                    "Environment": {"Variables": {"B": "2", "C": {"Ref": "Bucket"}}},
                    "VpcConfig": {"SubnetIds": ["s"]},
                }},
                "Bucket": {"Type": "AWS::S3::Bucket"},
            },
            "Outputs": {"Bucket": {"Value": {"Ref": "Bucket"}}},
        });
        assert_eq!(Value::Object(merged), expected);
    }

    #[test]
    fn a_condition_is_added_to_a_resource_and_replaces_another_condition() {
        let mut merged = template();
        merged.insert("Conditions".to_owned(), json!({"Big": {"Condition": "InVpc"}}));
        let overlay = json!({
            "Resources": {"WorkerFunction": {"Condition": "Mine"}},
            "Conditions": {"Mine": {"Fn::Not": [{"Condition": "Big"}]}, "Big": {"Condition": "Mine"}},
        });
        merge(&mut merged, overlay.clone()).unwrap();
        let mut expected = template()["Resources"]["WorkerFunction"].clone();
        expected["Condition"] = json!("Mine");
        assert_eq!(merged["Resources"]["WorkerFunction"], expected);
        assert_eq!(merged["Conditions"], overlay["Conditions"]);
    }

    #[test]
    fn an_empty_overlay_changes_nothing() {
        for overlay in [Value::Null, json!({}), json!({"Resources": null})] {
            let mut merged = template();
            merge(&mut merged, overlay).unwrap();
            assert_eq!(merged, template());
        }
    }

    #[test]
    fn mistakes_are_refused_with_what_to_write() {
        for (overlay, said) in [
            (
                json!({"Resources": {"WorkersFunction": {"Properties": {}}}}),
                "did you mean WorkerFunction?",
            ),
            (
                json!({"Resources": {"Zz": {}}}),
                "no resource Zz; a resource of your own",
            ),
            (json!({"Resources": {"Zz": null}}), "no resource Zz"),
            (json!({"Resources": {"WorkerFunction": {"Type": "U"}}}), "from T to U"),
            (json!({"WorkerFunction": {}}), "the section WorkerFunction; it may have"),
            (json!({"Resources": []}), "must be a mapping"),
            (json!(["Resources"]), "must be a mapping"),
        ] {
            let error = merge(&mut template(), overlay).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
