//! Values of documents: how a filter compares them, and how an index orders them. Both agree with Microsoft's emulator.
//!
//! | | different types | numbers | texts | arrays, objects |
//! |---|---|---|---|---|
//! | a filter ([`equal`], [`compare`]) | undefined | as integers if both are, otherwise as `f64` | by UTF-16 | equal by their parts, not ordered |
//! | an index ([`Key`]) | undefined, null, booleans, numbers, texts, others | by their exact value | by UTF-16 | not ordered |

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two values are equal; `None` is undefined.
pub(super) fn equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(true),
        (Value::Bool(left), Value::Bool(right)) => Some(left == right),
        (Value::Number(left), Value::Number(right)) => Some(order_of_numbers(left, right) == Some(Ordering::Equal)),
        (Value::String(left), Value::String(right)) => Some(left == right),
        (Value::Array(left), Value::Array(right)) => {
            let mut pairs = left.iter().zip(right);
            Some(left.len() == right.len() && pairs.all(|(left, right)| equal(left, right) == Some(true)))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_same = |(name, value): (&String, &Value)| {
                let other = right.get(name);
                other.is_some_and(|other| equal(value, other) == Some(true))
            };
            Some(left.len() == right.len() && left.iter().all(is_same))
        }
        _ => None,
    }
}

/// The order of two values; `None` is undefined.
pub(super) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => order_of_numbers(left, right),
        (Value::String(left), Value::String(right)) => Some(order_of_texts(left, right)),
        _ => None,
    }
}

fn order_of_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn order_of_texts(left: &str, right: &str) -> Ordering {
    if left.is_ascii() && right.is_ascii() {
        return left.cmp(right);
    }
    left.encode_utf16().cmp(right.encode_utf16())
}

/// The place of a value in an index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Undefined,
    Null,
    Bool(bool),
    Number(Exact),
    Text(Text),
    /// An array or an object: an index cannot order these.
    Complex,
    /// After everything: the end of a range.
    End,
}

/// A number: near numbers differ in their exact part only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    near: f64,
    exact: i128,
}

/// A text in the order of UTF-16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl Key {
    pub(super) fn of(value: Option<&Value>) -> Key {
        match value {
            None => Key::Undefined,
            Some(Value::Null) => Key::Null,
            Some(Value::Bool(value)) => Key::Bool(*value),
            Some(Value::Number(number)) => Key::Number(Exact::of(number)),
            Some(Value::String(text)) => Key::Text(Text(text.clone())),
            Some(Value::Array(_) | Value::Object(_)) => Key::Complex,
        }
    }

    /// The first key that a filter may take for the same value: it compares some numbers as `f64`.
    pub(super) fn first_like(self) -> Key {
        self.with_exact(i128::MIN)
    }

    /// The last one.
    pub(super) fn last_like(self) -> Key {
        self.with_exact(i128::MAX)
    }

    fn with_exact(self, exact: i128) -> Key {
        match self {
            Key::Number(number) => Key::Number(Exact { exact, ..number }),
            other => other,
        }
    }
}

impl Exact {
    fn of(number: &Number) -> Exact {
        match number.as_i64() {
            Some(integer) => Exact {
                near: integer as f64,
                exact: i128::from(integer),
            },
            None => {
                // The addition makes zero of a negative zero.
                let near = number.as_f64().unwrap_or_default() + 0.0;
                Exact {
                    near,
                    exact: near as i128,
                }
            }
        }
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        self.near.total_cmp(&other.near).then(self.exact.cmp(&other.exact))
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exact {}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        order_of_texts(&self.0, &other.0)
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_have_the_order_of_the_service() {
        let values = [
            None,
            Some(json!(null)),
            Some(json!(false)),
            Some(json!(true)),
            Some(json!(-1.5)),
            Some(json!(0)),
            Some(json!(9_007_199_254_740_992_i64)),
            Some(json!(9_007_199_254_740_993_i64)),
            Some(json!(u64::MAX)),
            Some(json!("")),
            Some(json!("a")),
            // As UTF-16 the surrogates of U+10000 come before U+E000.
            Some(json!("\u{10000}")),
            Some(json!("\u{e000}")),
        ];
        let keys: Vec<Key> = values.iter().map(|value| Key::of(value.as_ref())).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
        assert_eq!(Key::of(Some(&json!(1.0))), Key::of(Some(&json!(1))));
        assert_eq!(Key::of(Some(&json!(-0.0))), Key::of(Some(&json!(0))));
        let (near, far) = (keys[6].clone(), keys[7].clone());
        assert!(near.clone().first_like() < near && far < near.last_like());
    }

    #[test]
    fn values_of_different_types_are_neither_equal_nor_ordered() {
        let values = [
            json!(null),
            json!(true),
            json!(1),
            json!("1"),
            json!([1]),
            json!({"a": 1}),
        ];
        for (n, left) in values.iter().enumerate() {
            for (m, right) in values.iter().enumerate() {
                assert_eq!(equal(left, right), (n == m).then_some(true), "{left} {right}");
            }
        }
        assert_eq!(equal(&json!([1, 2.0]), &json!([1.0, 2])), Some(true));
        assert_eq!(equal(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})), Some(true));
        assert_eq!(equal(&json!({"a": 1}), &json!({"b": 1})), Some(false));
        assert_eq!(compare(&json!([1]), &json!([2])), None);
        assert_eq!(compare(&json!(1), &json!(1.5)), Some(Ordering::Less));
    }
}
