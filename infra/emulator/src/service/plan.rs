//! Aggregates over several partitions: the query that a client sends to each of them, and its answer.
//!
//! The client adds up what the partitions return, so they must return parts of the result: for an average its sum and its count.
//! The emulator leaves this query out of its plans, and does not evaluate an aggregate inside an array. Without both, clients cannot
//! tell a part of a result from a document.
//!
//! ```text
//!   SELECT VALUE COUNT(1) FROM c          SELECT VALUE [{"item": COUNT(1)}] FROM c
//!   SELECT VALUE AVG(c.n) FROM c          SELECT VALUE [{"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}] FROM c
//! ```

use bytes::Bytes;
use serde_json::{Value, json};

use crate::http::{Call, Reply};
use crate::strict::tokens::{Token, TokenKind, tokens};

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
        // The service's name, by which clients choose how to add up.
        if info["aggregates"][0] == "Avg" {
            info["aggregates"][0] = json!("Average");
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
    let close = &tokens[2..][call_length(&tokens[2..])? - 1];
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

/// A query for a part of a result, in a form that the emulator evaluates.
pub(super) struct Part {
    pub(super) call: Call,
    /// The names of the part's values; one without a name is the part itself.
    names: Vec<Option<String>>,
}

impl Part {
    /// Recognises what [`with_rewritten_query`] has written.
    pub(super) fn of(call: &Call) -> Option<Part> {
        let mut body: Value = serde_json::from_slice(&call.body).ok()?;
        let (query, names) = evaluable(body["query"].as_str()?)?;
        body["query"] = Value::from(query);
        let call = Call {
            body: Bytes::from(body.to_string()),
            ..call.clone()
        };
        Some(Part { call, names })
    }

    /// Turns the emulator's reply into the part: `[{"item": ...}]`. A value that does not exist is left out.
    pub(super) fn restore(&self, mut reply: Reply) -> Reply {
        let Ok(mut feed) = serde_json::from_slice::<Value>(&reply.body) else {
            return reply;
        };
        let Some(documents) = feed["Documents"].as_array_mut() else {
            return reply;
        };
        for document in documents {
            let mut item = json!({});
            for (n, name) in self.names.iter().enumerate() {
                let Some(value) = document.get(format!("part{n}")).cloned() else {
                    continue;
                };
                match name {
                    Some(name) => item["item"][name.as_str()] = value,
                    None => item["item"] = value,
                }
            }
            *document = json!([item]);
        }
        reply.body = Bytes::from(feed.to_string());
        reply
    }
}

/// `SELECT VALUE [{"item": SUM(c.n)}] FROM c` as `SELECT SUM(c.n) AS part0 FROM c`, and the names of its values.
fn evaluable(query: &str) -> Option<(String, Vec<Option<String>>)> {
    let tokens = tokens(query);
    let [select, value, list, object, item, colon, rest @ ..] = tokens.as_slice() else {
        return None;
    };
    let is_part = select.is_word("SELECT") && value.is_word("VALUE") && list.is_symbol("[") && object.is_symbol("{");
    if !is_part || item.text != "\"item\"" || !colon.is_symbol(":") {
        return None;
    }
    let mut names = Vec::new();
    let mut columns = Vec::new();
    let mut at = rest;
    let is_named = at.first().is_some_and(|token| token.is_symbol("{"));
    at = &at[usize::from(is_named)..];
    loop {
        let name = match at {
            [name, colon, ..] if is_named && name.kind == TokenKind::Text && colon.is_symbol(":") => {
                at = &at[2..];
                Some(name.text.trim_matches('"').to_owned())
            }
            _ if is_named => return None,
            _ => None,
        };
        let length = call_length(at)?;
        let text = &query[at[0].start..at[length - 1].end()];
        columns.push(format!("{text} AS part{}", names.len()));
        names.push(name);
        at = &at[length..];
        match at {
            [comma, ..] if is_named && comma.is_symbol(",") => at = &at[1..],
            _ => break,
        }
    }
    let closing = if is_named { &["}", "}", "]"][..] } else { &["}", "]"] };
    let closes = at.len() >= closing.len() && at.iter().zip(closing).all(|(token, symbol)| token.is_symbol(symbol));
    let last = at.get(closing.len() - 1).filter(|_| closes)?;
    Some((format!("SELECT {}{}", columns.join(", "), &query[last.end()..]), names))
}

/// The number of tokens of a function call.
fn call_length(tokens: &[Token<'_>]) -> Option<usize> {
    let [name, open, ..] = tokens else { return None };
    if name.kind != TokenKind::Word || !open.is_symbol("(") {
        return None;
    }
    let mut depth = 0;
    let close = tokens.iter().skip(1).position(|token| {
        depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
        depth == 0
    })?;
    Some(close + 2)
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
        let average = for_each_partition("SELECT VALUE AVG(c.n) FROM c WHERE c.n > 1").unwrap();
        let name = |name: &str| Some(name.to_owned());
        let columns = "SELECT SUM(c.n) AS part0, COUNT(c.n) AS part1 FROM c WHERE c.n > 1";
        let names = vec![name("sum"), name("count")];
        assert_eq!(evaluable(&average), Some((columns.to_owned(), names)));
        let count = for_each_partition("SELECT VALUE COUNT(1) FROM c").unwrap();
        let columns = "SELECT COUNT(1) AS part0 FROM c".to_owned();
        assert_eq!(evaluable(&count), Some((columns, vec![None])));
        assert_eq!(evaluable("SELECT VALUE [{\"item\": c.n}] FROM c"), None);
        for other in [
            "SELECT COUNT(1) AS n FROM c",
            "SELECT VALUE c.n FROM c",
            "SELECT * FROM c",
        ] {
            assert_eq!(for_each_partition(other), None, "{other}");
        }
    }
}
