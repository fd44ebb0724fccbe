//! The parser: recursive descent over the tokens of the text. Every function returns `None` at what it does not know.

use serde_json::Value;

use super::{Column, Comparison, Filter, Operand, Order, Path, Query, Select};
use crate::strict::tokens::{Token, TokenKind, tokens};

/// Parses a query that the emulator accepts; `None` if the index does not know all of it.
pub(in crate::index) fn parse(text: &str, parameters: &[(String, Value)]) -> Option<Query> {
    let tokens = tokens(text);
    let root = tokens.iter().position(|token| token.is_word("FROM"))? + 1;
    let root = tokens.get(root).filter(|token| token.kind == TokenKind::Word)?.text;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        root,
        parameters,
    };
    let query = parser.query()?;
    (parser.at == tokens.len()).then_some(query)
}

struct Parser<'q> {
    tokens: &'q [Token<'q>],
    at: usize,
    root: &'q str,
    parameters: &'q [(String, Value)],
}

impl<'q> Parser<'q> {
    fn query(&mut self) -> Option<Query> {
        self.word("SELECT")?;
        let select = self.select()?;
        self.word("FROM")?;
        // An alias or a join is followed by something else than the next clause.
        self.at += 1;
        let filter = match self.takes_word("WHERE") {
            true => Some(self.or()?),
            false => None,
        };
        let order = match self.takes_word("ORDER") {
            true => self.order()?,
            false => Vec::new(),
        };
        let is_count = matches!(select, Select::Count(_));
        (!is_count || order.is_empty()).then_some(Query { select, filter, order })
    }

    fn select(&mut self) -> Option<Select> {
        if self.takes_symbol("*") {
            return Some(Select::All);
        }
        if self.takes_word("VALUE") {
            return match self.takes_count() {
                true => Some(Select::Count(None)),
                false => self.path().map(Select::Value),
            };
        }
        if self.takes_count() {
            self.word("AS")?;
            return self.name().map(|name| Select::Count(Some(name)));
        }
        let mut columns = Vec::new();
        loop {
            columns.push(self.column()?);
            if !self.takes_symbol(",") {
                return Some(Select::List(columns));
            }
        }
    }

    /// `COUNT(1)`.
    fn takes_count(&mut self) -> bool {
        let found = match self.tokens.get(self.at..self.at + 4) {
            Some([name, open, one, close]) => {
                name.is_word("COUNT") && open.is_symbol("(") && one.text == "1" && close.is_symbol(")")
            }
            _ => false,
        };
        self.at += if found { 4 } else { 0 };
        found
    }

    fn column(&mut self) -> Option<(String, Column)> {
        let (name, column) = match self.takes_function("IS_DEFINED") {
            true => {
                let path = self.path()?;
                self.symbol(")")?;
                (None, Column::IsDefined(path))
            }
            false => {
                let path = self.path()?;
                (path.last().cloned(), Column::Property(path))
            }
        };
        let alias = match self.takes_word("AS") {
            true => Some(self.name()?),
            false => None,
        };
        Some((alias.or(name)?, column))
    }

    fn order(&mut self) -> Option<Vec<Order>> {
        self.word("BY")?;
        let mut order = Vec::new();
        loop {
            let path = self.path()?;
            let descending = self.takes_word("DESC");
            if !descending {
                self.takes_word("ASC");
            }
            order.push(Order { path, descending });
            if !self.takes_symbol(",") {
                return Some(order);
            }
        }
    }

    fn or(&mut self) -> Option<Filter> {
        self.joined("OR", Self::and, Filter::Or)
    }

    fn and(&mut self) -> Option<Filter> {
        self.joined("AND", Self::condition, Filter::And)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Option<Filter>,
        join: fn(Vec<Filter>) -> Filter,
    ) -> Option<Filter> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.takes_word(word) {
            parts.push(part(self)?);
        }
        match parts.len() {
            1 => parts.pop(),
            _ => Some(join(parts)),
        }
    }

    /// One condition, up to the next `AND`, `OR`, closing parenthesis or clause.
    fn condition(&mut self) -> Option<Filter> {
        let filter = if self.takes_word("NOT") {
            // Of `NOT c.a = 1` it is not obvious what is negated.
            let is_closed = self.peek(0)?.is_symbol("(") || self.peek(1)?.is_symbol("(");
            let negated = is_closed.then(|| self.condition())??;
            Filter::Not(Box::new(negated))
        } else if self.takes_symbol("(") {
            let inner = self.or()?;
            self.symbol(")")?;
            inner
        } else if self.peek(1).is_some_and(|token| token.is_symbol("(")) {
            self.function()?
        } else {
            self.comparison()?
        };
        let ends = match self.peek(0) {
            None => true,
            Some(token) => ["AND", "OR", "ORDER"].iter().any(|word| token.is_word(word)) || token.is_symbol(")"),
        };
        ends.then_some(filter)
    }

    fn function(&mut self) -> Option<Filter> {
        if self.takes_function("IS_DEFINED") {
            let path = self.path()?;
            self.symbol(")")?;
            return Some(Filter::IsDefined(Operand::Property(path)));
        }
        let make = if self.takes_function("ARRAY_CONTAINS") {
            Filter::ArrayContains
        } else if self.takes_function("STARTSWITH") {
            Filter::StartsWith
        } else {
            return None;
        };
        let first = self.operand()?;
        self.symbol(",")?;
        let second = self.operand()?;
        self.symbol(")")?;
        Some(make(first, second))
    }

    fn comparison(&mut self) -> Option<Filter> {
        let left = self.operand()?;
        let Some(next) = self.peek(0) else {
            return Some(Filter::Is(left));
        };
        let comparison = match next.text {
            "=" => Some(Comparison::Equal),
            "!=" | "<>" => Some(Comparison::NotEqual),
            "<" => Some(Comparison::Less),
            "<=" => Some(Comparison::LessOrEqual),
            ">" => Some(Comparison::Greater),
            ">=" => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        if let Some(comparison) = comparison {
            self.at += 1;
            return Some(Filter::Compare(left, comparison, self.operand()?));
        }
        let negated = self.takes_word("NOT");
        if self.takes_word("IN") {
            return Some(Filter::In {
                operand: left,
                values: self.list()?,
                negated,
            });
        }
        if self.takes_word("BETWEEN") {
            let low = self.operand()?;
            self.word("AND")?;
            return Some(Filter::Between {
                operand: left,
                low,
                high: self.operand()?,
                negated,
            });
        }
        (!negated).then_some(Filter::Is(left))
    }

    fn list(&mut self) -> Option<Vec<Operand>> {
        self.symbol("(")?;
        let mut values = Vec::new();
        loop {
            values.push(self.operand()?);
            if !self.takes_symbol(",") {
                self.symbol(")")?;
                return Some(values);
            }
        }
    }

    fn operand(&mut self) -> Option<Operand> {
        let token = self.peek(0)?;
        let constant = match token.kind {
            TokenKind::Word if token.text == self.root => return self.path().map(Operand::Property),
            TokenKind::Word if token.is_word("true") => Value::from(true),
            TokenKind::Word if token.is_word("false") => Value::from(false),
            TokenKind::Word if token.is_word("null") => Value::Null,
            TokenKind::Text if token.text.starts_with('\'') && !token.text.contains('\\') => {
                Value::from(token.text.get(1..token.text.len() - 1)?)
            }
            TokenKind::Number => Value::from(token.text.parse::<i64>().ok()?),
            TokenKind::Parameter => {
                let found = self.parameters.iter().find(|(name, _)| name == token.text);
                found?.1.clone()
            }
            _ => return None,
        };
        self.at += 1;
        Some(Operand::Constant(constant))
    }

    /// `c.a.b`.
    fn path(&mut self) -> Option<Path> {
        let root = self.peek(0)?;
        if root.kind != TokenKind::Word || root.text != self.root {
            return None;
        }
        self.at += 1;
        let mut path = Path::new();
        while self.takes_symbol(".") {
            path.push(self.name()?);
        }
        // What `c[` begins is not known here.
        let ends = !self.peek(0).is_some_and(|token| token.is_symbol("["));
        (ends && !path.is_empty()).then_some(path)
    }

    fn name(&mut self) -> Option<String> {
        let token = self.peek(0).filter(|token| token.kind == TokenKind::Word)?;
        self.at += 1;
        Some(token.text.to_owned())
    }

    fn peek(&self, ahead: usize) -> Option<Token<'q>> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn takes(&mut self, found: bool) -> bool {
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.peek(0).is_some_and(|token| token.is_word(word));
        self.takes(found)
    }

    fn takes_symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek(0).is_some_and(|token| token.is_symbol(symbol));
        self.takes(found)
    }

    /// The name of a function and its opening parenthesis.
    fn takes_function(&mut self, name: &str) -> bool {
        let is_named = self.peek(0).is_some_and(|token| token.is_word(name));
        let found = is_named && self.peek(1).is_some_and(|token| token.is_symbol("("));
        self.at += if found { 2 } else { 0 };
        found
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.takes_word(word).then_some(())
    }

    fn symbol(&mut self, symbol: &str) -> Option<()> {
        self.takes_symbol(symbol).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_of_this_project_are_known() {
        let parameters = [("@now".to_owned(), json!(7)), ("@ids".to_owned(), json!(["a"]))];
        for text in [
            "SELECT * FROM c",
            "SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'dead'",
            "SELECT COUNT(1) AS part0 FROM c WHERE c.type = 'instance' AND c.status IN ('a', 'b')",
            "SELECT c.id, c.a.b AS d, IS_DEFINED(c.timer) AS isTimer FROM c WHERE c.dueAt <= @now ORDER BY c.dueAt",
            "SELECT VALUE c.pk FROM c WHERE ARRAY_CONTAINS(@ids, c.pk) AND NOT (c.status IN ('a'))",
            "SELECT * FROM c WHERE (c.a < 1 OR c.b < 2) AND NOT IS_DEFINED(c.session) ORDER BY c.a DESC, c.b DESC",
            "SELECT * FROM root WHERE root.a BETWEEN 1 AND @now AND root.b AND STARTSWITH(root.pk, 'x')",
        ] {
            assert!(parse(text, &parameters).is_some(), "{text}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_emulator() {
        for text in [
            "SELECT TOP 1 * FROM c",
            "SELECT DISTINCT VALUE c.pk FROM c",
            "SELECT VALUE MAX(c.a) FROM c",
            "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a",
            "SELECT * FROM c OFFSET 0 LIMIT 1",
            "SELECT * FROM c JOIN t IN c.tags",
            "SELECT * FROM c AS d",
            "SELECT * FROM c.tags",
            "SELECT * FROM c WHERE c.a + 1 = 2",
            "SELECT * FROM c WHERE c['a'] = 2",
            "SELECT * FROM c WHERE c.a[0] = 2",
            "SELECT * FROM c WHERE c.a = 'it''s'",
            "SELECT * FROM c WHERE c.a = 1.5",
            "SELECT * FROM c WHERE c.a = -1",
            "SELECT * FROM c WHERE c.a = @missing",
            "SELECT * FROM c WHERE NOT c.a = 1",
            "SELECT * FROM c WHERE c.a = undefined",
            "SELECT * FROM c WHERE UPPER(c.a) = 'A'",
            "SELECT * FROM c WHERE ARRAY_CONTAINS(c.a, 1, true)",
            "SELECT * FROM c WHERE c.a = 1 = true",
            "SELECT VALUE c FROM c",
        ] {
            assert_eq!(parse(text, &[]), None, "{text}");
        }
    }
}
