//! Where in an index to look: the range of keys that a query's conditions leave of one path, or of the paths of an `ORDER BY`.
//!
//! A range may hold more than the query finds, never less: every candidate is then evaluated.

use std::ops::Bound;

use serde_json::Value;

use super::query::{Comparison, Filter, Operand, Path, Query};
use super::value::{Key, Text};

/// The entries of an index: its keys, and the number of the document among all that were ever created.
pub(super) type Entry = (Vec<Key>, u64);

/// A range of entries.
pub(super) type Range = (Bound<Entry>, Bound<Entry>);

/// The keys that conditions leave of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    low: Key,
    high: Key,
}

/// The range of an index of these paths; `None` if no condition says where to look in the first of them.
///
/// A document without the first property is in no range: an index leaves it out.
pub(super) fn range(query: &Query, paths: &[Path]) -> Option<Range> {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for path in paths {
        let Some(interval) = interval(query, path) else { break };
        let is_one = interval.low.clone().last_like() == interval.high;
        low.push(interval.low);
        high.push(interval.high);
        if !is_one {
            break;
        }
    }
    if low.is_empty() {
        return None;
    }
    high.push(Key::End);
    // Conditions that exclude each other would leave a range that ends before it begins.
    if low > high {
        high.clone_from(&low);
    }
    Some((Bound::Included((low, 0)), Bound::Included((high, u64::MAX))))
}

/// The paths by which conditions find documents.
pub(super) fn paths(query: &Query) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for (path, _) in query.conditions().iter().filter_map(found_by) {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

fn interval(query: &Query, path: &Path) -> Option<Interval> {
    let conditions = query.conditions().iter().filter_map(found_by);
    let intervals = conditions.filter(|(of, _)| *of == path).map(|(_, interval)| interval);
    intervals.reduce(|one, other| Interval {
        low: one.low.max(other.low),
        high: one.high.min(other.high),
    })
}

/// The path of a condition, and the keys that it leaves.
fn found_by(condition: &Filter) -> Option<(&Path, Interval)> {
    match condition {
        Filter::Compare(Operand::Property(path), comparison, Operand::Constant(value)) => {
            Some((path, compared(*comparison, value)?))
        }
        Filter::In {
            operand: Operand::Property(path),
            values,
            negated: false,
        } => {
            let values = values.iter().map(|value| match value {
                Operand::Constant(value) => Some(value),
                Operand::Property(_) => None,
            });
            Some((path, around(values.collect::<Option<Vec<_>>>()?)?))
        }
        Filter::ArrayContains(Operand::Constant(Value::Array(values)), Operand::Property(path)) => {
            Some((path, around(values.iter().collect())?))
        }
        Filter::StartsWith(Operand::Property(path), Operand::Constant(Value::String(prefix))) => {
            let low = Key::Text(Text(prefix.clone()));
            Some((
                path,
                Interval {
                    low,
                    high: Key::Complex,
                },
            ))
        }
        Filter::Is(Operand::Property(path)) => Some((path, compared(Comparison::Equal, &Value::Bool(true))?)),
        _ => None,
    }
}

/// From the smallest of some values to the largest.
fn around(values: Vec<&Value>) -> Option<Interval> {
    let intervals = values.into_iter().map(|value| compared(Comparison::Equal, value));
    let intervals = intervals.collect::<Option<Vec<_>>>()?;
    intervals.into_iter().reduce(|one, other| Interval {
        low: one.low.min(other.low),
        high: one.high.max(other.high),
    })
}

fn compared(comparison: Comparison, value: &Value) -> Option<Interval> {
    let key = Key::of(Some(value));
    // The first key of this type, and the first of the next one.
    let (first, end) = match &key {
        Key::Null => (Key::Null, Key::Bool(false)),
        Key::Bool(_) => (Key::Bool(false), Key::Bool(true)),
        Key::Number(_) => (Key::Bool(true), Key::Text(Text(String::new()))),
        Key::Text(_) => (Key::Text(Text(String::new())), Key::Complex),
        Key::Undefined | Key::Complex | Key::End => return None,
    };
    let (low, high) = (key.clone().first_like(), key.last_like());
    match comparison {
        Comparison::Equal => Some(Interval { low, high }),
        Comparison::Less | Comparison::LessOrEqual => Some(Interval { low: first, high }),
        Comparison::Greater | Comparison::GreaterOrEqual => Some(Interval { low, high: end }),
        Comparison::NotEqual => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::query::parse;
    use super::*;

    fn range_of(filter: &str, paths: &[&str]) -> Option<(Vec<Key>, Vec<Key>)> {
        let text = format!("SELECT * FROM c WHERE {filter}");
        let query = parse(&text, &[("@list".to_owned(), json!(["m", "b"]))]).expect("a known query");
        let paths: Vec<Path> = paths.iter().map(|name| vec![(*name).to_owned()]).collect();
        match range(&query, &paths)? {
            (Bound::Included((low, 0)), Bound::Included((high, u64::MAX))) => Some((low, high)),
            other => panic!("{other:?}"),
        }
    }

    fn text(text: &str) -> Key {
        Key::Text(Text(text.to_owned()))
    }

    #[test]
    fn equalities_and_then_a_range_are_a_place_in_an_index() {
        let number = |number: i64| Key::of(Some(&json!(number)));
        assert_eq!(
            range_of("c.a = 'x' AND c.b <= 5 AND c.z = 1", &["a", "b", "c"]),
            Some((
                vec![text("x"), Key::Bool(true)],
                vec![text("x"), number(5).last_like(), Key::End]
            ))
        );
        assert_eq!(
            range_of("c.a > 3 AND c.b = 5", &["a", "b"]),
            Some((vec![number(3).first_like()], vec![text(""), Key::End]))
        );
        assert_eq!(
            range_of("ARRAY_CONTAINS(@list, c.a)", &["a"]),
            Some((vec![text("b")], vec![text("m"), Key::End]))
        );
        assert_eq!(
            range_of("STARTSWITH(c.a, 'x')", &["a"]),
            Some((vec![text("x")], vec![Key::Complex, Key::End]))
        );
        // Nothing is both; the range is empty and in order.
        assert_eq!(
            range_of("c.a = 'x' AND c.a = 'b'", &["a"]),
            Some((vec![text("x")], vec![text("x")]))
        );
        for nowhere in [
            "c.b = 1",
            "c.a != 1",
            "(c.a = 1 OR c.b = 1)",
            "IS_DEFINED(c.a)",
            "NOT (c.a = 1)",
        ] {
            assert_eq!(range_of(nowhere, &["a"]), None, "{nowhere}");
        }
    }
}
