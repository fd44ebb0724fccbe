//! Evaluates a query on one document: whether it matches, and what is returned of it. Conditions are true, false or undefined (`None`).

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::query::{Column, Comparison, Filter, Operand, Query, Select};
use super::value::{compare, equal};

/// Whether a document is a result.
pub(super) fn matches(query: &Query, document: &Value) -> bool {
    query
        .filter
        .as_ref()
        .is_none_or(|filter| holds(filter, document) == Some(true))
}

/// What the query returns of a result.
pub(super) fn projected(query: &Query, document: &Value) -> Value {
    match &query.select {
        // What counts is counted elsewhere.
        Select::All | Select::Count(_) => document.clone(),
        Select::Value(path) => property(document, path).map_or(Value::Null, as_computed),
        Select::List(columns) => {
            let mut row = Map::new();
            for (name, column) in columns {
                let value = match column {
                    Column::Property(path) => property(document, path).map(as_computed),
                    Column::IsDefined(path) => Some(Value::Bool(property(document, path).is_some())),
                };
                if let Some(value) = value {
                    row.insert(name.clone(), value);
                }
            }
            Value::Object(row)
        }
    }
}

/// A property of a document.
pub(super) fn property<'d>(document: &'d Value, path: &[String]) -> Option<&'d Value> {
    path.iter()
        .try_fold(document, |value, name| value.as_object()?.get(name))
}

/// A value as a projection returns it: an integer beyond 64 bits with a sign becomes a fraction.
fn as_computed(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            let near = number.as_f64().and_then(Number::from_f64);
            near.map_or(Value::Null, Value::Number)
        }
        Value::Array(items) => items.iter().map(as_computed).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), as_computed(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn holds(filter: &Filter, document: &Value) -> Option<bool> {
    let of = |operand| value(operand, document);
    match filter {
        Filter::And(parts) => all(parts.iter().map(|part| holds(part, document))),
        Filter::Or(parts) => all(parts.iter().map(|part| holds(part, document).map(|holds| !holds))).map(|none| !none),
        Filter::Not(part) => holds(part, document).map(|holds| !holds),
        Filter::Compare(left, comparison, right) => compared(of(left)?, *comparison, of(right)?),
        Filter::In {
            operand,
            values,
            negated,
        } => {
            let found = |left: &Value| {
                values
                    .iter()
                    .any(|right| of(right).is_some_and(|right| is_equal(left, right)))
            };
            Some(of(operand).is_some_and(found) != *negated)
        }
        Filter::Between {
            operand,
            low,
            high,
            negated,
        } => {
            let is_at_least = |left, right| compare(left, right).map(Ordering::is_ge);
            let found = || {
                let (value, low, high) = (of(operand)?, of(low)?, of(high)?);
                Some(is_at_least(value, low)? && is_at_least(high, value)?)
            };
            Some(found().unwrap_or(false) != *negated)
        }
        Filter::IsDefined(operand) => Some(of(operand).is_some()),
        Filter::ArrayContains(array, item) => {
            let (array, item) = (of(array)?.as_array()?, of(item));
            Some(item.is_some_and(|item| array.iter().any(|one| is_equal(one, item))))
        }
        Filter::StartsWith(text, prefix) => Some(of(text)?.as_str()?.starts_with(of(prefix)?.as_str()?)),
        Filter::Is(operand) => of(operand)?.as_bool(),
    }
}

/// `AND` of three-valued conditions: one that is false decides.
fn all(conditions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for condition in conditions {
        match condition {
            Some(false) => return Some(false),
            Some(true) => {}
            None => result = None,
        }
    }
    result
}

fn value<'v>(operand: &'v Operand, document: &'v Value) -> Option<&'v Value> {
    match operand {
        Operand::Property(path) => property(document, path),
        Operand::Constant(value) => Some(value),
    }
}

fn is_equal(left: &Value, right: &Value) -> bool {
    equal(left, right) == Some(true)
}

fn compared(left: &Value, comparison: Comparison, right: &Value) -> Option<bool> {
    let order = || compare(left, right);
    match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => equal(left, right).map(|equal| !equal),
        Comparison::Less => order().map(Ordering::is_lt),
        Comparison::LessOrEqual => order().map(Ordering::is_le),
        Comparison::Greater => order().map(Ordering::is_gt),
        Comparison::GreaterOrEqual => order().map(Ordering::is_ge),
    }
}
