//! The query plan of an aggregate over several partitions: the query that a client sends to each of them.
//!
//! The client adds up what the partitions return, so they must return parts of the result: for an average its sum and its count.
//! The emulator leaves this query out of its plans; without it, clients cannot tell a part of a result from a document.
//!
//! ```text
//!   SELECT VALUE COUNT(1) FROM c          SELECT VALUE [{"item": COUNT(1)}] FROM c
//!   SELECT VALUE AVG(c.n) FROM c          SELECT VALUE [{"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}] FROM c
//! ```

use bytes::Bytes;
use serde_json::Value;

use crate::http::{Call, Reply};
use crate::strict::tokens::tokens;

/// Adds the query for each partition to the plan of an aggregate.
pub(super) fn with_rewritten_query(call: &Call, mut reply: Reply) -> Reply {
    let rewritten = || -> Option<Value> {
        let mut plan: Value = serde_json::from_slice(&reply.body).ok()?;
        let info = plan.get_mut("queryInfo")?;
        let has_none = info["rewrittenQuery"].as_str().unwrap_or_default().is_empty();
        let is_aggregate = info["aggregates"].as_array().is_some_and(|all| all.len() == 1);
        if !is_aggregate || !has_none {
            return None;
        }
        let body: Value = serde_json::from_slice(&call.body).ok()?;
        info["rewrittenQuery"] = Value::from(for_each_partition(body["query"].as_str()?)?);
        Some(plan)
    };
    if let Some(plan) = rewritten() {
        reply.body = Bytes::from(plan.to_string());
        reply.headers.remove("content-length");
    }
    reply
}

/// The query for each partition; `None` if this is not `SELECT VALUE` of one aggregate.
fn for_each_partition(query: &str) -> Option<String> {
    let tokens = tokens(query);
    let [select, value, function, open, ..] = tokens.as_slice() else {
        return None;
    };
    if !select.is_word("SELECT") || !value.is_word("VALUE") || !open.is_symbol("(") {
        return None;
    }
    let mut depth = 0;
    let close = tokens.iter().skip(3).find(|token| {
        depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
        depth == 0
    })?;
    let whole = &query[function.start..close.end()];
    let arguments = &query[open.start..close.end()];
    let rest = &query[close.end()..];
    let item = if function.is_word("AVG") {
        format!(r#"{{"sum": SUM{arguments}, "count": COUNT{arguments}}}"#)
    } else {
        whole.to_owned()
    };
    Some(format!(r#"SELECT VALUE [{{"item": {item}}}]{rest}"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_becomes_a_part_of_the_result() {
        for (query, expected) in [
            (
                "SELECT VALUE COUNT(1) FROM c WHERE c.n > 1",
                r#"SELECT VALUE [{"item": COUNT(1)}] FROM c WHERE c.n > 1"#,
            ),
            (
                "select value AVG(c.inner[\"a)\"]) from c",
                r#"SELECT VALUE [{"item": {"sum": SUM(c.inner["a)"]), "count": COUNT(c.inner["a)"])}}] from c"#,
            ),
            (
                "SELECT VALUE MAX(ABS(c.n)) FROM c",
                r#"SELECT VALUE [{"item": MAX(ABS(c.n))}] FROM c"#,
            ),
        ] {
            assert_eq!(for_each_partition(query).as_deref(), Some(expected));
        }
        for other in [
            "SELECT COUNT(1) AS n FROM c",
            "SELECT VALUE c.n FROM c",
            "SELECT * FROM c",
        ] {
            assert_eq!(for_each_partition(other), None, "{other}");
        }
    }
}
