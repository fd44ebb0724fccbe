//! The parts of a query's text that the check needs: the name of the document, and the conditions of the `WHERE` clause.

use super::filter::{Condition, Filter};
use super::parser::Parser;
use crate::strict::tokens::{Token, TokenKind, tokens};

/// The parts of a query's text that the check needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    /// The name of the document in the query: `c`.
    pub(super) root: String,
    /// The conditions of the `WHERE` clause that all must hold; `None` without the clause.
    pub(super) conditions: Option<Vec<Condition>>,
}

/// Parses a query that the emulator accepts.
pub(super) fn parse(query: &str) -> Parsed {
    let tokens = tokens(query);
    let clause = |word: &str| outer(&tokens, word);
    let from = clause("FROM").map_or(&[][..], |at| &tokens[at + 1..]);
    let root = match from {
        [_, keyword, alias, ..] if keyword.is_word("AS") => alias.text,
        [_, alias, ..] if alias.kind == TokenKind::Word && !is_clause(alias) => alias.text,
        [root, ..] => root.text,
        [] => "",
    };
    let conditions = clause("WHERE").map(|start| {
        let after = ["GROUP", "ORDER", "OFFSET"].iter().filter_map(|word| clause(word));
        let end = after.filter(|&at| at > start).min().unwrap_or(tokens.len());
        let mut parser = Parser {
            query,
            root,
            tokens: &tokens[start + 1..end],
            at: 0,
        };
        let whole = parser.or();
        // What the parser did not understand, it did not read to its end.
        if parser.at < parser.tokens.len() {
            let text = parser.text_from(0, parser.tokens.len());
            return vec![Condition {
                filter: Filter::Opaque,
                text,
            }];
        }
        let mut conditions = Vec::new();
        flatten(whole, &mut conditions);
        conditions
    });
    Parsed {
        root: root.to_owned(),
        conditions,
    }
}

/// Splits conditions that all must hold.
fn flatten(condition: Condition, into: &mut Vec<Condition>) {
    match condition.filter {
        Filter::And(parts) => parts.into_iter().for_each(|part| flatten(part, into)),
        Filter::True => {}
        _ => into.push(condition),
    }
}

/// Where a keyword stands outside of all parentheses.
fn outer(tokens: &[Token<'_>], word: &str) -> Option<usize> {
    let mut depth = 0_i32;
    let mut after_dot = false;
    tokens.iter().position(|token| {
        match token.text {
            "(" | "[" | "{" if token.kind == TokenKind::Symbol => depth += 1,
            ")" | "]" | "}" if token.kind == TokenKind::Symbol => depth -= 1,
            _ => {}
        }
        let found = depth == 0 && !after_dot && token.is_word(word);
        after_dot = token.is_symbol(".");
        found
    })
}

fn is_clause(token: &Token<'_>) -> bool {
    ["WHERE", "GROUP", "ORDER", "OFFSET", "JOIN", "IN"]
        .iter()
        .any(|word| token.is_word(word))
}

#[cfg(test)]
mod tests {
    use super::super::filter::TestKind;
    use super::*;

    fn conditions(filter: &str) -> Vec<Condition> {
        parse(&format!("SELECT * FROM c WHERE {filter} ORDER BY c.z"))
            .conditions
            .unwrap()
    }

    fn tests(filter: &str) -> Vec<(String, TestKind)> {
        let one = |condition: Condition| match condition.filter {
            Filter::Test(test) => (test.path.join("/"), test.kind),
            other => panic!("{other:?}"),
        };
        conditions(filter).into_iter().map(one).collect()
    }

    #[test]
    fn conditions_that_an_index_serves_are_understood() {
        let found = tests(
            "c.a = 1 AND 'x' <= c.b.c AND c['d'] IN ('y', @p) AND ARRAY_CONTAINS(@q, c.e) AND IS_DEFINED(c.f) \
             AND c.g BETWEEN -1 AND @r AND (c.h = true) AND c.i AND ARRAY_CONTAINS(['a', 'b'], c.j) AND STARTSWITH(c.k, 'x') \
             AND ARRAY_CONTAINS(c.l, @s)",
        );
        let found: Vec<(&str, TestKind)> = found.iter().map(|(path, kind)| (path.as_str(), *kind)).collect();
        use TestKind::*;
        assert_eq!(
            found,
            [
                ("a", One),
                ("b/c", Range),
                ("d", Many),
                ("e", Many),
                ("f", Defined),
                ("g", Range),
                ("h", One),
                ("i", One),
                ("j", Many),
                ("k", Range),
                ("l/[]", One)
            ]
        );
    }

    #[test]
    fn the_structure_and_the_text_of_conditions_are_kept() {
        let found = conditions("c.a = 1 AND (c.b > 1 AND c.b < 2 OR c.b = 5) AND NOT (c.d IN (1, 2)) AND c.e != 'x'");
        let texts: Vec<&str> = found.iter().map(|condition| condition.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "c.a = 1",
                "(c.b > 1 AND c.b < 2 OR c.b = 5)",
                "NOT (c.d IN (1, 2))",
                "c.e != 'x'"
            ]
        );
        assert!(matches!(&found[1].filter, Filter::Or(parts) if parts.len() == 2));
        assert!(matches!(found[2].filter, Filter::Not(_)) && matches!(found[3].filter, Filter::Not(_)));
    }

    #[test]
    fn what_no_index_serves_is_opaque_and_hides_nothing_else() {
        for opaque in [
            "c.a + 1 = 2",
            "UPPER(c.a) = 'X'",
            "c.a = c.b",
            "c.a LIKE '%x'",
            "LENGTH(c.a) > 3",
            "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'x' OR t = 'y')",
            "t.a = 1",
            "c.a NOT LIKE 'x'",
            "(c.a) = 1",
            "c.a[0] = 1",
            "c.a = 1 + @p",
        ] {
            let found = conditions(&format!("c.x = 1 AND {opaque} AND c.y = 2"));
            assert_eq!(found.len(), 3, "{opaque}: {found:?}");
            assert_eq!((&found[1].filter, found[1].text.as_str()), (&Filter::Opaque, opaque));
        }
    }

    #[test]
    fn the_name_of_the_document_is_found() {
        for (from, root) in [
            ("FROM c", "c"),
            ("FROM Families f WHERE f.a = 1", "f"),
            ("FROM x AS y WHERE y.a = 1", "y"),
            ("FROM c ORDER BY c.a", "c"),
            ("FROM c JOIN t IN c.tags WHERE t = 1", "c"),
        ] {
            assert_eq!(parse(&format!("SELECT * {from}")).root, root, "{from}");
        }
        assert_eq!(parse("SELECT c.from FROM c").conditions, None);
    }
}
