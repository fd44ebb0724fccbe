//! More than one tag: each tag of the project gets the resources that the template has for `WorkerTag`.
//!
//! The template's own parts are the pattern: every resource and output with the condition `HasTaggedWorker`, and the parameters
//! `TaggedWorker...`. For the tag `gpu` they become `GpuWorkerQueue`, `GpuWorkerFunction`, `GpuWorkerMemory` and so on; the pattern itself
//! is removed, with `WorkerTag`. What refers to it (permissions, variables, dashboard, outputs) refers to those of all tags.

use super::yaml::function;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const CONDITION: &str = "HasTaggedWorker";
const PREFIX: &str = "TaggedWorker";
/// What Lambda allows as the name of a function.
const LONGEST_NAME: usize = 64;
/// Where the widgets of the pattern are on the dashboard, and how high they are.
const FIRST_ROW: &str = "\"y\": 24";
const ROW: (usize, usize) = (24, 6);

/// Why a tag cannot have a worker of its own.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::deploy) enum TagError {
    #[error("the tag '{0}' must have at most 63 letters, digits and _ . -, and begin with a letter or a digit")]
    Form(String),
    #[error("the tag 'default' means activities without a tag, which the worker serves anyway: remove it")]
    Default,
    #[error("the tag '{0}' differs from another tag or name of the template by punctuation only: rename it")]
    Collides(String),
    #[error("the function {stack}-worker-{tag} would have more than 64 characters: choose a shorter stack or tag")]
    Long { stack: String, tag: String },
}

/// A tag, with the names that its resources have.
struct Tag<'a> {
    tag: &'a str,
    /// `HighMemWorker` for `high-mem`.
    prefix: String,
    /// `worker-high-mem`: after the stack's name, it is no function of another stack like `greeter-high-mem`.
    function: String,
    archive: String,
}

/// Gives each tag its own resources. `tags` names the archive of each.
pub(in crate::deploy) fn expand(
    template: &mut Map<String, Value>,
    tags: &BTreeMap<String, String>,
    stack: &str,
) -> Result<(), TagError> {
    if tags.is_empty() {
        return Ok(());
    }
    let tags = named(tags, stack)?;
    for section in ["Resources", "Outputs"] {
        let pattern = take(template, section, |_, it| it["Condition"] == CONDITION);
        for tag in &tags {
            let copies = pattern.iter().map(|(name, it)| (tag.text(name), tag.copy(it, &tags)));
            insert(template, section, tag, copies)?;
        }
    }
    let pattern = take(template, "Parameters", |name, _| name.starts_with(PREFIX));
    for tag in &tags {
        let copies = pattern.iter().map(|(name, it)| (tag.text(name), it.clone()));
        insert(template, "Parameters", tag, copies)?;
    }
    take(template, "Parameters", |name, _| name == "WorkerTag");
    take(template, "Rules", |name, _| name == "RealTag");
    take(template, "Conditions", |name, _| name == CONDITION);
    group_parameters(template, &tags, &pattern);
    for value in template.values_mut() {
        let it = std::mem::take(value);
        *value = refer(it, &tags);
    }
    Ok(())
}

fn named<'a>(tags: &'a BTreeMap<String, String>, stack: &str) -> Result<Vec<Tag<'a>>, TagError> {
    let mut names = BTreeSet::new();
    tags.iter()
        .map(|(tag, archive)| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            let begins = tag.starts_with(|c: char| c.is_ascii_alphanumeric());
            if !begins || tag.len() > 63 || !tag.chars().all(allowed) {
                return Err(TagError::Form(tag.clone()));
            }
            if tag == "default" {
                return Err(TagError::Default);
            }
            let function = format!("worker-{}", tag.replace('.', "-"));
            if stack.len() + 1 + function.len() > LONGEST_NAME {
                let (stack, tag) = (stack.to_owned(), tag.clone());
                return Err(TagError::Long { stack, tag });
            }
            let prefix = camel_case(tag) + "Worker";
            if !names.insert(prefix.clone()) {
                return Err(TagError::Collides(tag.clone()));
            }
            Ok(Tag {
                tag,
                prefix,
                function,
                archive: archive.clone(),
            })
        })
        .collect()
}

fn camel_case(tag: &str) -> String {
    let parts = tag.split(|c: char| !c.is_ascii_alphanumeric());
    parts
        .map(|part| {
            let mut chars = part.chars();
            let first = chars.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(chars).collect::<String>()
        })
        .collect()
}

impl Tag<'_> {
    /// A text of the pattern as it is for this tag.
    fn text(&self, text: &str) -> String {
        text.replace(PREFIX, &self.prefix)
            .replace("TaggedNotifier", &format!("{}Notifier", self.prefix))
            .replace("worker-tagged", &self.function)
            .replace("${WorkerTag}", self.tag)
    }

    /// A value of the pattern as it is for this tag.
    fn value(&self, value: &Value) -> Value {
        if function(value) == Some(("Ref", &json!("WorkerTag"))) {
            return json!(self.tag);
        }
        match value {
            Value::String(text) => json!(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => map.iter().map(|(name, it)| (name.clone(), self.value(it))).collect(),
            other => other.clone(),
        }
    }

    /// A resource or an output of the pattern as it is for this tag.
    fn copy(&self, value: &Value, all: &[Tag<'_>]) -> Value {
        // Each worker may send to the queues of all tags, and receive from its own.
        let value = match value["Type"] == "AWS::IAM::Role" {
            true => refer_in_lists(value.clone(), all),
            false => value.clone(),
        };
        let mut copy = self.value(&value);
        if let Some(copy) = copy.as_object_mut() {
            copy.remove("Condition");
        }
        if let Some(archive) = copy.pointer_mut("/Properties/CodeUri") {
            *archive = json!(self.archive);
        }
        copy
    }
}

/// Takes the entries of a section that are chosen.
fn take(
    template: &mut Map<String, Value>,
    section: &str,
    is_chosen: impl Fn(&str, &Value) -> bool,
) -> Map<String, Value> {
    let Some(Value::Object(entries)) = template.get_mut(section) else {
        return Map::new();
    };
    let (chosen, left) = std::mem::take(entries)
        .into_iter()
        .partition(|(name, it)| is_chosen(name, it));
    *entries = left;
    chosen
}

fn insert(
    template: &mut Map<String, Value>,
    section: &str,
    tag: &Tag<'_>,
    copies: impl Iterator<Item = (String, Value)>,
) -> Result<(), TagError> {
    if let Some(Value::Object(entries)) = template.get_mut(section) {
        for (name, copy) in copies {
            if entries.insert(name, copy).is_some() {
                return Err(TagError::Collides(tag.tag.to_owned()));
            }
        }
    }
    Ok(())
}

/// Replaces the group of the pattern's parameters by one for each tag.
fn group_parameters(template: &mut Map<String, Value>, tags: &[Tag<'_>], pattern: &Map<String, Value>) {
    let path = "/AWS::CloudFormation::Interface/ParameterGroups";
    let groups = template
        .get_mut("Metadata")
        .and_then(|metadata| metadata.pointer_mut(path));
    if let Some(Value::Array(groups)) = groups {
        groups.retain(|group| {
            let names = group["Parameters"].as_array();
            !names.is_some_and(|names| names.contains(&json!("WorkerTag")))
        });
        groups.extend(tags.iter().map(|tag| {
            let names: Vec<String> = pattern.keys().map(|name| tag.text(name)).collect();
            json!({"Label": {"default": format!("Worker of the tag {}", tag.tag)}, "Parameters": names})
        }));
    }
}

/// What refers to the pattern refers to all tags.
fn refer(value: Value, tags: &[Tag<'_>]) -> Value {
    if let Some(("Fn::If", Value::Array(parts))) = function(&value)
        && parts.first() == Some(&json!(CONDITION))
    {
        return match parts.get(1) {
            Some(text) if function(text).is_some_and(|(name, _)| name == "Fn::Sub") => joined(text, tags),
            Some(yes) => refer(yes.clone(), tags),
            None => value,
        };
    }
    match value {
        Value::Array(items) => Value::Array(items.into_iter().flat_map(|item| of_all(item, tags)).collect()),
        Value::Object(map) => map
            .into_iter()
            .map(|(name, it)| match name == "WORKER_TAG_QUEUE_URLS" {
                true => (name, queue_urls(tags)),
                false => (name, refer(it, tags)),
            })
            .collect(),
        other => other,
    }
}

/// The same within lists only: what stands alone refers to the tag's own.
fn refer_in_lists(value: Value, tags: &[Tag<'_>]) -> Value {
    match value {
        Value::Array(items) => {
            let each = items.into_iter().flat_map(|item| match function(&item) {
                Some(_) => of_all(item, tags),
                None => vec![refer_in_lists(item, tags)],
            });
            Value::Array(each.collect())
        }
        Value::Object(map) if function(&Value::Object(map.clone())).is_none() => map
            .into_iter()
            .map(|(name, it)| (name, refer_in_lists(it, tags)))
            .collect(),
        other => other,
    }
}

/// An item of a list: one for each tag if it refers to the pattern.
fn of_all(item: Value, tags: &[Tag<'_>]) -> Vec<Value> {
    let of_pattern = match function(&item) {
        Some(("Fn::If", Value::Array(parts))) if parts.first() == Some(&json!(CONDITION)) => parts.get(1).cloned(),
        Some(("Ref", Value::String(name))) if name.starts_with(PREFIX) => Some(item.clone()),
        Some(("Fn::GetAtt", Value::Array(path))) => {
            let of = path.first().and_then(Value::as_str).unwrap_or_default();
            of.starts_with(PREFIX).then(|| item.clone())
        }
        _ => None,
    };
    match of_pattern {
        Some(pattern) => tags.iter().map(|tag| tag.value(&pattern)).collect(),
        None => vec![refer(item, tags)],
    }
}

/// The texts of all tags, one after the other; widgets of the dashboard go to rows of their own.
fn joined(text: &Value, tags: &[Tag<'_>]) -> Value {
    let (first, height) = ROW;
    let each = tags.iter().enumerate().map(|(n, tag)| {
        let row = format!("\"y\": {}", first + n * height);
        match function(&tag.value(text)) {
            Some((name, Value::String(text))) => json!({ name: text.replace(FIRST_ROW, &row) }),
            _ => tag.value(text),
        }
    });
    json!({"Fn::Join": ["", each.collect::<Vec<_>>()]})
}

/// JSON with the queue of each tag.
fn queue_urls(tags: &[Tag<'_>]) -> Value {
    let pairs: Vec<String> = tags
        .iter()
        .map(|tag| format!("\"{}\":\"${{{}Queue}}\"", tag.tag, tag.prefix))
        .collect();
    json!({"Fn::Sub": format!("{{{}}}", pairs.join(","))})
}
