//! The filter of a query: its `WHERE` clause as far as an index can serve it.
//!
//! ```text
//!   c.queue = 'turn'                One       AND, OR, NOT keep their structure
//!   c.queue IN ('a', @b)            Many      everything else (arithmetic, other functions, subqueries, joined aliases)
//!   ARRAY_CONTAINS(@list, c.pk)     Many      is Opaque: no index serves it
//!   c.dueAt <= @now                 Range
//!   IS_DEFINED(c.name)              Defined
//! ```

use crate::strict::tokens::{Token, TokenKind, tokens};

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Test(Test),
    /// SDKs write it where a query without a continuation has no condition.
    True,
    Opaque,
}

/// A condition and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) filter: Filter,
    pub(super) text: String,
}

/// What a property is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// The names that lead to the property.
    pub(super) path: Vec<String>,
    pub(super) kind: TestKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestKind {
    /// Equal to one value.
    One,
    /// Equal to one of several values.
    Many,
    /// In a range of values.
    Range,
    /// Present, or of some type.
    Defined,
}

/// The parts of a query's text that the check needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    /// The name of the document in the query: `c`.
    pub(super) root: String,
    /// The conditions of the `WHERE` clause that all must hold; `None` without the clause.
    pub(super) conditions: Option<Vec<Condition>>,
}

/// Functions of one property that are served by its index.
const DEFINED: [&str; 9] = [
    "IS_DEFINED",
    "IS_NULL",
    "IS_STRING",
    "IS_NUMBER",
    "IS_BOOL",
    "IS_ARRAY",
    "IS_OBJECT",
    "IS_PRIMITIVE",
    "IS_INTEGER",
];

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

/// One side of a comparison.
enum Operand {
    Property(Vec<String>),
    Constant,
    Other,
}

struct Parser<'q> {
    query: &'q str,
    root: &'q str,
    tokens: &'q [Token<'q>],
    at: usize,
}

impl<'q> Parser<'q> {
    fn peek(&self, ahead: usize) -> Option<&'q Token<'q>> {
        self.tokens.get(self.at + ahead)
    }

    fn next_is_symbol(&self, symbol: &str) -> bool {
        self.peek(0).is_some_and(|token| token.is_symbol(symbol))
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.next_is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek(0).is_some_and(|token| token.is_word(word));
        self.at += usize::from(found);
        found
    }

    fn text_from(&self, from: usize, to: usize) -> String {
        match (self.tokens.get(from), self.tokens.get(to.saturating_sub(1))) {
            (Some(first), Some(last)) if from < to => self.query[first.start..last.end()].to_owned(),
            _ => String::new(),
        }
    }

    fn or(&mut self) -> Condition {
        self.list("OR", Self::and, Filter::Or)
    }

    fn and(&mut self) -> Condition {
        self.list("AND", Self::not, Filter::And)
    }

    fn list(&mut self, word: &str, part: fn(&mut Self) -> Condition, join: fn(Vec<Condition>) -> Filter) -> Condition {
        let from = self.at;
        let first = part(self);
        let mut all = vec![first];
        while self.take_word(word) {
            all.push(part(self));
        }
        if all.len() == 1 {
            return all.swap_remove(0);
        }
        Condition {
            filter: join(all),
            text: self.text_from(from, self.at),
        }
    }

    fn not(&mut self) -> Condition {
        let from = self.at;
        if self.take_word("NOT") {
            let inner = self.not();
            return Condition {
                filter: Filter::Not(Box::new(inner)),
                text: self.text_from(from, self.at),
            };
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Condition {
        let from = self.at;
        // A parenthesis may hold a condition or a value; a condition is followed by nothing that compares it.
        if self.take_symbol("(") {
            let inner = self.or();
            if self.take_symbol(")") && self.is_at_end_of_condition() {
                return Condition {
                    text: self.text_from(from, self.at),
                    ..inner
                };
            }
            self.at = from;
        }
        let filter = self.comparison();
        Condition {
            filter,
            text: self.text_from(from, self.at),
        }
    }

    fn is_at_end_of_condition(&self) -> bool {
        self.peek(0)
            .is_none_or(|token| token.is_word("AND") || token.is_word("OR") || token.is_symbol(")"))
    }

    fn comparison(&mut self) -> Filter {
        let from = self.at;
        let function = self.peek(0).zip(self.peek(1));
        let function = function.filter(|(name, open)| name.kind == TokenKind::Word && open.is_symbol("("));
        let filter = match function {
            Some((name, _)) if !name.is_word("NOT") => self.function(name.text),
            _ => self.operator(),
        };
        if filter != Filter::Opaque && self.is_at_end_of_condition() {
            return filter;
        }
        self.at = from;
        self.skip_condition();
        Filter::Opaque
    }

    /// `IS_DEFINED(c.a)`, `ARRAY_CONTAINS(@list, c.a)`, `STARTSWITH(c.a, 'x')`.
    fn function(&mut self, name: &str) -> Filter {
        self.at += 2;
        let mut arguments = Vec::new();
        while !self.next_is_symbol(")") && self.peek(0).is_some() {
            arguments.push(self.operand());
            if !self.take_symbol(",") {
                break;
            }
        }
        if !self.take_symbol(")") {
            return Filter::Opaque;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match arguments.as_slice() {
            [Operand::Property(path)] if DEFINED.iter().any(|known| is(known)) => test(path, TestKind::Defined),
            [Operand::Constant, Operand::Property(path)] if is("ARRAY_CONTAINS") => test(path, TestKind::Many),
            [Operand::Property(path), Operand::Constant] if is("STARTSWITH") => test(path, TestKind::Range),
            _ => Filter::Opaque,
        }
    }

    fn operator(&mut self) -> Filter {
        let is_true = self.peek(0).is_some_and(|token| token.is_word("true"));
        let left = self.operand();
        if self.is_at_end_of_condition() {
            // A property that is true.
            return match left {
                Operand::Property(path) => test(&path, TestKind::One),
                _ if is_true => Filter::True,
                _ => Filter::Opaque,
            };
        }
        let negated = self.take_word("NOT");
        let found = if self.take_word("IN") {
            self.list_of_constants().then_some((left, TestKind::Many))
        } else if self.take_word("BETWEEN") {
            let low = self.operand();
            let both = self.take_word("AND") && matches!((low, self.operand()), (Operand::Constant, Operand::Constant));
            both.then_some((left, TestKind::Range))
        } else {
            return self.symbol(left);
        };
        let filter = match found {
            Some((Operand::Property(path), kind)) => test(&path, kind),
            _ => return Filter::Opaque,
        };
        if negated { not(filter) } else { filter }
    }

    /// `left = right` and its relatives.
    fn symbol(&mut self, left: Operand) -> Filter {
        let Some(symbol) = self.peek(0) else {
            return Filter::Opaque;
        };
        self.at += 1;
        let right = self.operand();
        let path = match (left, right) {
            (Operand::Property(path), Operand::Constant) | (Operand::Constant, Operand::Property(path)) => path,
            _ => return Filter::Opaque,
        };
        match symbol.text {
            "=" => test(&path, TestKind::One),
            "!=" | "<>" => not(test(&path, TestKind::One)),
            "<" | "<=" | ">" | ">=" => test(&path, TestKind::Range),
            _ => Filter::Opaque,
        }
    }

    fn list_of_constants(&mut self) -> bool {
        if !self.take_symbol("(") {
            return false;
        }
        loop {
            if !matches!(self.operand(), Operand::Constant) {
                return false;
            }
            if self.take_symbol(")") {
                return true;
            }
            if !self.take_symbol(",") {
                return false;
            }
        }
    }

    /// A property of the document, a constant, or something else, of which only the first token is read.
    fn operand(&mut self) -> Operand {
        let Some(token) = self.peek(0) else {
            return Operand::Other;
        };
        self.at += 1;
        match token.kind {
            TokenKind::Text | TokenKind::Number | TokenKind::Parameter => Operand::Constant,
            TokenKind::Word if token.text == self.root => self.property(),
            TokenKind::Word => {
                let constants = ["true", "false", "null", "undefined"];
                if constants.iter().any(|word| token.is_word(word)) {
                    Operand::Constant
                } else {
                    Operand::Other
                }
            }
            TokenKind::Symbol if token.text == "-" => self.operand(),
            TokenKind::Symbol if token.text == "[" => self.array(),
            TokenKind::Symbol => Operand::Other,
        }
    }

    fn array(&mut self) -> Operand {
        loop {
            if self.take_symbol("]") {
                return Operand::Constant;
            }
            if !matches!(self.operand(), Operand::Constant) {
                return Operand::Other;
            }
            self.take_symbol(",");
        }
    }

    fn property(&mut self) -> Operand {
        let mut path = Vec::new();
        loop {
            let name = if self.take_symbol(".") {
                self.peek(0).map(|token| token.text.to_owned())
            } else if self.take_symbol("[") {
                let name = self.peek(0).filter(|token| token.kind == TokenKind::Text);
                let name = name.map(|token| token.text[1..token.text.len() - 1].to_owned());
                if !self.peek(1).is_some_and(|token| token.is_symbol("]")) {
                    return Operand::Other;
                }
                self.at += 1;
                name
            } else if path.is_empty() {
                return Operand::Other;
            } else {
                return Operand::Property(path);
            };
            let Some(name) = name else { return Operand::Other };
            self.at += 1;
            path.push(name);
        }
    }

    /// Skips a condition that was not understood.
    fn skip_condition(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.peek(0) {
            let ends = token.is_word("AND") || token.is_word("OR") || token.is_symbol(")");
            if depth == 0 && ends {
                return;
            }
            depth +=
                i32::from(matches!(token.text, "(" | "[" | "{")) - i32::from(matches!(token.text, ")" | "]" | "}"));
            self.at += 1;
        }
    }
}

fn test(path: &[String], kind: TestKind) -> Filter {
    Filter::Test(Test {
        path: path.to_vec(),
        kind,
    })
}

fn not(filter: Filter) -> Filter {
    let text = String::new();
    Filter::Not(Box::new(Condition { filter, text }))
}

#[cfg(test)]
mod tests {
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
             AND c.g BETWEEN -1 AND @r AND (c.h = true) AND c.i AND ARRAY_CONTAINS(['a', 'b'], c.j) AND STARTSWITH(c.k, 'x')",
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
                ("k", Range)
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
