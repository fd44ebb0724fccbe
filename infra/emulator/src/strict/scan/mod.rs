//! Queries that scan: a query over several partitions whose filter or order no index serves is refused.
//!
//! The service answers such a query, and its price grows with everything that is stored. That is no error there, but it is one
//! in a sweep that runs every few seconds; so this server refuses it (`ServerOptions::allow_scans` permits it). A query of one
//! logical partition is never refused: its price is bounded by that partition. Nor is a query without filter: it returns
//! what it reads.
//!
//! # Rules
//!
//! The `WHERE` clause is a list of conditions joined by `AND`. A condition *seeks* when it says where in an index to look:
//!
//! | condition | seeks as |
//! |---|---|
//! | `c.a = value`, `c.a` alone, `ARRAY_CONTAINS(c.a, value)` (path `/a/[]`) | equality |
//! | `c.a IN (...)`, `ARRAY_CONTAINS(@list, c.a)`, `c.a = x OR c.a = y` | list |
//! | `<`, `<=`, `>`, `>=`, `BETWEEN`, `STARTSWITH(c.a, 'x')`, an `OR` or `AND` of these on one path | range |
//! | `IS_DEFINED(c.a)` and the type checks | presence |
//! | an `OR` of the above on several paths | union |
//! | `!=`, `NOT ...` | does not seek; it narrows what another condition finds |
//!
//! 1. Every path in the filter has a range index. A condition of any other form (arithmetic, other functions, `LIKE`, subqueries, a
//!    comparison of two properties) is served by no index.
//! 2. At least one condition seeks.
//! 3. With `ORDER BY` of one path, no other path has an equality, a list, a range or a union. An `ORDER BY` of several paths needs a
//!    composite index of exactly these (see `index`); the first has an equality, and a list or a range may be on the first path
//!    without one. Conditions on other paths then only narrow.
//!    A union on paths of such an order only is a position in it, as SDKs write it to continue (`c.b < 2 OR c.d < 3`): it seeks.
//!    So `WHERE c.a = 1 AND c.b > 2 ORDER BY c.b` is refused, and `ORDER BY c.a, c.b` is served by the composite index (a, b).
//! 4. Without `ORDER BY`, a range beside an equality or a list on another path needs a composite index that begins with paths of
//!    equalities or lists, followed by the path of the range.
//!
//! # Documents examined
//!
//! [`Seek::counting`] is a query for the number of documents that the seek finds: with an `ORDER BY`, those that meet the conditions on
//! its paths (the service reads one index in its order); without one, those that meet every condition that seeks (the service
//! intersects indexes). Conditions that only narrow do not count. A query that scans examines everything. A page of a query whose
//! conditions all seek, and that returns documents rather than an aggregate of them, examines what it returns ([`Seek::is_exact`]); of other
//! queries, a page that ends early examines fewer than are counted.

mod clause;
mod filter;
mod parser;

use std::collections::HashSet;

use filter::{Condition, Filter, Test, TestKind};

use super::Refusal;
use super::index::{IndexPolicy, OrderItem};
use super::tokens::tokens;

/// How an index serves a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seek {
    root: String,
    /// The texts of the conditions by which documents are found; none without a filter.
    conditions: Vec<String>,
    /// Every condition of the query is one of these.
    is_exact: bool,
}

impl Seek {
    /// What a query examines that no index serves.
    pub(super) fn everything(query: &str) -> Seek {
        Seek {
            root: clause::parse(query).root,
            conditions: Vec::new(),
            is_exact: false,
        }
    }

    /// Whether a page of documents examines only what it returns.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The same for a query that returns something else than documents.
    pub(super) fn of_aggregate(self) -> Seek {
        Seek {
            is_exact: false,
            ..self
        }
    }

    /// The text of a query for the number of documents that the seek finds.
    pub(crate) fn counting(&self) -> String {
        let root = &self.root;
        let filter = if self.conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", self.conditions.join(" AND "))
        };
        format!("SELECT VALUE COUNT(1) FROM {root}{filter}")
    }
}

/// The query for one document under the condition of a patch, `FROM c WHERE ...`; the id of the document is `@documentId`.
pub(crate) fn conditional_query(condition: &str) -> Result<String, Refusal> {
    let invalid = || {
        Refusal::bad_request(format!(
            "The condition '{condition}' is not of the form 'FROM c WHERE ...'."
        ))
    };
    let tokens = tokens(condition);
    let [from, root, clause, first, ..] = tokens.as_slice() else {
        return Err(invalid());
    };
    if !from.is_word("FROM") || !clause.is_word("WHERE") {
        return Err(invalid());
    }
    let (root, filter) = (root.text, &condition[first.start..]);
    Ok(format!(
        "SELECT * FROM {root} WHERE {root}.id = @documentId AND ({filter})"
    ))
}

/// How one condition of the filter helps to find documents.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Equality(Vec<String>),
    List(Vec<String>),
    Range(Vec<String>),
    Presence,
    Union,
    /// It does not seek.
    Narrows,
}

/// Refuses a query that no index serves. The index of the `ORDER BY` itself was checked before.
pub(super) fn check(policy: &IndexPolicy, query: &str, order: &[OrderItem]) -> Result<Seek, Refusal> {
    let parsed = clause::parse(query);
    let conditions = parsed.conditions.unwrap_or_default();
    if conditions.is_empty() {
        return Ok(Seek {
            root: parsed.root,
            conditions: Vec::new(),
            is_exact: true,
        });
    }
    for condition in &conditions {
        check_indexes(policy, condition)?;
    }
    let roles: Vec<(Role, &Condition)> = conditions.iter().map(|one| (role(one), one)).collect();
    if roles.iter().all(|(role, _)| *role == Role::Narrows) {
        return Err(scans("no condition of its filter says where in an index to look"));
    }
    let found = if order.is_empty() {
        check_ranges(policy, &roles)?;
        roles.iter().filter(|(role, _)| *role != Role::Narrows).collect()
    } else {
        check_order(&roles, order)?
    };
    let text = |(_, condition): &&(Role, &Condition)| match condition.filter {
        Filter::Or(_) => format!("({})", condition.text),
        _ => condition.text.clone(),
    };
    Ok(Seek {
        root: parsed.root,
        is_exact: found.len() == roles.len(),
        conditions: found.iter().map(text).collect(),
    })
}

fn scans(why: impl std::fmt::Display) -> Refusal {
    Refusal::bad_request(format!(
        "This query over several partitions would scan: {why}. Change the query or the index policy. (The service would answer, \
         at a price that grows with everything that is stored; start this server with --allow-scans to permit it.)"
    ))
}

fn shown(path: &[String]) -> String {
    format!("c.{}", path.join("."))
}

/// Rule 1.
fn check_indexes(policy: &IndexPolicy, condition: &Condition) -> Result<(), Refusal> {
    match &condition.filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().try_for_each(|part| check_indexes(policy, part)),
        Filter::Not(inner) => check_indexes(policy, inner),
        Filter::True => Ok(()),
        Filter::Test(test) if policy.indexes(&test.path) => Ok(()),
        Filter::Test(test) => Err(scans(format!(
            "its filter uses {}, which is not indexed",
            shown(&test.path)
        ))),
        Filter::Opaque => Err(scans(format!("no index serves the condition '{}'", condition.text))),
    }
}

fn role(condition: &Condition) -> Role {
    let mut tests = Vec::new();
    if !positive_tests(condition, &mut tests) {
        return Role::Narrows;
    }
    let [first, rest @ ..] = tests.as_slice() else {
        return Role::Narrows;
    };
    if rest.iter().any(|test| test.path != first.path) {
        // Of several conditions in a parenthesis that all must hold, none is needed to seek: the outer ones do.
        return if matches!(condition.filter, Filter::Or(_)) {
            Role::Union
        } else {
            Role::Narrows
        };
    }
    let path = first.path.clone();
    match first.kind {
        TestKind::One if rest.is_empty() => Role::Equality(path),
        TestKind::Defined if rest.is_empty() => Role::Presence,
        _ if tests
            .iter()
            .all(|test| matches!(test.kind, TestKind::One | TestKind::Many)) =>
        {
            Role::List(path)
        }
        _ => Role::Range(path),
    }
}

/// Collects the tests of a condition; `false` when one of them is negated.
fn positive_tests<'f>(condition: &'f Condition, tests: &mut Vec<&'f Test>) -> bool {
    match &condition.filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().all(|part| positive_tests(part, tests)),
        Filter::Test(test) => {
            tests.push(test);
            true
        }
        Filter::Not(_) | Filter::True | Filter::Opaque => false,
    }
}

/// Rule 3. Returns the conditions on the paths of the order: the others narrow.
fn check_order<'r, 'f>(
    roles: &'r [(Role, &'f Condition)],
    order: &[OrderItem],
) -> Result<Vec<&'r (Role, &'f Condition)>, Refusal> {
    let place = |path: &Vec<String>| order.iter().position(|item| item.path == *path);
    let equalities: HashSet<usize> = roles
        .iter()
        .filter_map(|(role, _)| match role {
            Role::Equality(path) => place(path),
            _ => None,
        })
        .collect();
    let leading = (0..order.len()).take_while(|at| equalities.contains(at)).count();
    let is_anchored = order.len() > 1 && leading > 0;
    let mut found = Vec::new();
    for one in roles {
        let path = match &one.0 {
            Role::Presence | Role::Narrows => continue,
            Role::Union if is_anchored => {
                found.extend(Some(one).filter(|(_, condition)| is_position(condition, order)));
                continue;
            }
            Role::Union => return Err(scans(format!("it orders, and '{}' is on several paths", one.1.text))),
            Role::Equality(path) | Role::List(path) | Role::Range(path) => path,
        };
        match place(path) {
            None if is_anchored => {}
            None => {
                return Err(scans(format!(
                    "it filters on {} and orders by {}: order by both, with a composite index of both",
                    shown(path),
                    shown(&order[0].path)
                )));
            }
            Some(at) if at > leading => {
                return Err(scans(format!(
                    "it filters on {}, and a path before it in the ORDER BY has no equality",
                    shown(path)
                )));
            }
            Some(_) => found.push(one),
        }
    }
    Ok(found)
}

/// Whether a union is a position in the order.
fn is_position(union: &Condition, order: &[OrderItem]) -> bool {
    let mut tests = Vec::new();
    positive_tests(union, &mut tests) && tests.iter().all(|test| order.iter().any(|item| item.path == test.path))
}

/// Rule 4.
fn check_ranges(policy: &IndexPolicy, roles: &[(Role, &Condition)]) -> Result<(), Refusal> {
    let mut equal: Vec<&[String]> = Vec::new();
    let mut ranges: Vec<&[String]> = Vec::new();
    for (role, _) in roles {
        match role {
            Role::Equality(path) | Role::List(path) => equal.push(path),
            Role::Range(path) => ranges.push(path),
            Role::Presence | Role::Union | Role::Narrows => {}
        }
    }
    if equal.is_empty() {
        return Ok(());
    }
    match ranges.iter().find(|range| !policy.seeks(&equal, range)) {
        None => Ok(()),
        Some(range) => Err(scans(format!(
            "it filters on {} and on a range of {}: no composite index has the former first and then the latter",
            shown(equal[0]),
            shown(range)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seek(query: &str, order: &[&str]) -> Result<Seek, String> {
        let policy = IndexPolicy::parse(&json!({
            "includedPaths": [{ "path": "/a/?" }, { "path": "/b/?" }, { "path": "/d/?" }],
            "excludedPaths": [{ "path": "/*" }],
            "compositeIndexes": [[{ "path": "/a" }, { "path": "/b" }], [{ "path": "/a" }, { "path": "/d" }, { "path": "/b" }]],
        }))
        .unwrap();
        let item = |name: &&str| OrderItem {
            path: vec![(*name).to_owned()],
            descending: false,
        };
        let order: Vec<OrderItem> = order.iter().map(item).collect();
        check(&policy, query, &order).map_err(|refusal| refusal.message)
    }

    #[test]
    fn a_query_that_an_index_serves_passes_and_its_seek_is_known() {
        for (filter, order, counted) in [
            ("", &[][..], ""),
            ("", &["a"], ""),
            ("c.a = 1", &[], "c.a = 1"),
            ("c.a = 1 AND c.d = 2", &[], "c.a = 1 AND c.d = 2"),
            ("c.a = 1 AND c.b > 2", &[], "c.a = 1 AND c.b > 2"),
            (
                "c.a IN (1, 2) AND c.b > 2 AND NOT IS_DEFINED(c.d)",
                &[],
                "c.a IN (1, 2) AND c.b > 2",
            ),
            (
                "c.a = 1 AND c.d = 3 AND c.b > 2",
                &[],
                "c.a = 1 AND c.d = 3 AND c.b > 2",
            ),
            (
                "c.a = 1 AND c.b > 2 AND NOT IS_DEFINED(c.d)",
                &["a", "b"],
                "c.a = 1 AND c.b > 2",
            ),
            ("c.b > 2 AND IS_DEFINED(c.d)", &["b"], "c.b > 2"),
            (
                "(c.b > 2 AND c.b < 3) OR (c.b > 5 AND c.b < 6)",
                &["b"],
                "((c.b > 2 AND c.b < 3) OR (c.b > 5 AND c.b < 6))",
            ),
            ("c.a = 1 OR c.d = 2", &[], "(c.a = 1 OR c.d = 2)"),
            ("c.a = 1 AND c.d = 3", &["a", "d", "b"], "c.a = 1 AND c.d = 3"),
            (
                "c.a = 1 AND c.b > 2 AND c.d IN (1, 2)",
                &["a", "b"],
                "c.a = 1 AND c.b > 2",
            ),
            ("IS_DEFINED(c.d)", &[], "IS_DEFINED(c.d)"),
            (
                "c.a = 1 AND c.d <= 3 AND (c.d < 3 OR c.b < 7)",
                &["a", "d", "b"],
                "c.a = 1 AND c.d <= 3 AND ((c.d < 3 OR c.b < 7))",
            ),
            ("c.a = 1 AND (c.b < 3 OR c.d < 7)", &["a", "b"], "c.a = 1"),
            ("c.id = 'x'", &[], "c.id = 'x'"),
            ("true", &["a"], ""),
            ("c.a = 1 AND (true)", &["a"], "c.a = 1"),
        ] {
            let clause = if filter.is_empty() {
                String::new()
            } else {
                format!(" WHERE {filter}")
            };
            let seek = seek(&format!("SELECT * FROM c{clause}"), order).unwrap_or_else(|why| panic!("{filter}: {why}"));
            let counted = if counted.is_empty() {
                String::new()
            } else {
                format!(" WHERE {counted}")
            };
            assert_eq!(seek.counting(), format!("SELECT VALUE COUNT(1) FROM c{counted}"));
        }
    }

    #[test]
    fn a_query_that_would_scan_is_refused_with_the_reason() {
        for (filter, order, why) in [
            ("c.x = 1", &[][..], "c.x, which is not indexed"),
            ("c.a = 1 AND IS_DEFINED(c.x.y)", &[], "c.x.y, which is not indexed"),
            ("c.a = 1 AND NOT (c.x = 2)", &[], "c.x, which is not indexed"),
            (
                "UPPER(c.a) = 'X'",
                &[],
                "no index serves the condition 'UPPER(c.a) = 'X''",
            ),
            ("c.a = 1 OR true", &[], "no condition of its filter says where"),
            ("c.a != 1", &[], "no condition of its filter says where"),
            ("NOT IS_DEFINED(c.a)", &[], "no condition of its filter says where"),
            ("c.a = 1 AND c.b > 2", &["b"], "it filters on c.a and orders by c.b"),
            (
                "c.a IN (1, 2) AND c.b > 2",
                &["b"],
                "it filters on c.a and orders by c.b",
            ),
            (
                "c.a IN (1, 2) AND c.b > 2",
                &["a", "b"],
                "a path before it in the ORDER BY has no equality",
            ),
            (
                "c.a > 1 AND c.b = 2",
                &["a", "b"],
                "a path before it in the ORDER BY has no equality",
            ),
            ("c.a = 1 OR c.b = 2", &["b"], "is on several paths"),
            ("c.d = 1 AND c.b > 2", &[], "no composite index has the former first"),
        ] {
            let refused = seek(&format!("SELECT * FROM c WHERE {filter}"), order).expect_err(filter);
            assert!(refused.contains(why), "{filter}: {refused}");
        }
    }
}
