//! The parser of a filter: what the emulator has accepted, as far as the check needs it.

use super::filter::{Condition, Filter, Test, TestKind};
use crate::strict::tokens::{Token, TokenKind};

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

/// The name of all elements of an array, as in an index path.
const ELEMENTS: &str = "[]";

/// One side of a comparison.
enum Operand {
    Property(Vec<String>),
    Constant,
    Other,
}

pub(super) struct Parser<'q> {
    pub(super) query: &'q str,
    /// The name of the document.
    pub(super) root: &'q str,
    pub(super) tokens: &'q [Token<'q>],
    /// The next token.
    pub(super) at: usize,
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

    pub(super) fn text_from(&self, from: usize, to: usize) -> String {
        match (self.tokens.get(from), self.tokens.get(to.saturating_sub(1))) {
            (Some(first), Some(last)) if from < to => self.query[first.start..last.end()].to_owned(),
            _ => String::new(),
        }
    }

    pub(super) fn or(&mut self) -> Condition {
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
            // An array of the document that has a value: the index of its elements (`/a/[]/?`).
            [Operand::Property(path), Operand::Constant] if is("ARRAY_CONTAINS") => {
                let elements = path.iter().cloned().chain([ELEMENTS.to_owned()]);
                test(&elements.collect::<Vec<_>>(), TestKind::One)
            }
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
