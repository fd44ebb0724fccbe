//! The tokens of a query's text.

/// One token, with its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'q> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'q str,
    pub(crate) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// With its quotes.
    Text,
    Number,
    /// With its `@`.
    Parameter,
    Symbol,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether this is the keyword, in any case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }
}

/// Splits a text into tokens. The emulator has parsed it already, so every text is well formed.
pub(crate) fn tokens(query: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = query;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return found;
        };
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let (kind, length) = match first {
            '\'' | '"' => (TokenKind::Text, text_length(rest, first)),
            '@' => (TokenKind::Parameter, 1 + word_length(&rest[1..])),
            _ if first.is_ascii_digit() => (TokenKind::Number, number_length(rest)),
            _ if is_word(first) => (TokenKind::Word, word_length(rest)),
            _ => (TokenKind::Symbol, symbol_length(rest, first)),
        };
        found.push(Token {
            kind,
            text: &rest[..length],
            start: query.len() - rest.len(),
        });
        rest = &rest[length..];
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !is_word(c)).unwrap_or(text.len())
}

fn number_length(text: &str) -> usize {
    let mut before = ' ';
    let end = text.find(|c: char| {
        let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
        before = c;
        !(c.is_ascii_alphanumeric() || c == '.' || is_sign)
    });
    end.unwrap_or(text.len())
}

/// The length of a quoted text, with its quotes. A backslash escapes the next character.
fn text_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + quote.len_utf8())
}

fn symbol_length(text: &str, first: char) -> usize {
    let long = ["<=", ">=", "!=", "<>", "||", "??"];
    if long.iter().any(|symbol| text.starts_with(symbol)) {
        2
    } else {
        first.len_utf8()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_its_tokens() {
        let query = "SELECT c.id -- all\nFROM c WHERE c['a b'] >= 1.5e-3 AND c.x IN (@p, \"it\\\"s\")";
        let texts: Vec<&str> = tokens(query).iter().map(|token| token.text).collect();
        assert_eq!(
            texts,
            [
                "SELECT",
                "c",
                ".",
                "id",
                "FROM",
                "c",
                "WHERE",
                "c",
                "[",
                "'a b'",
                "]",
                ">=",
                "1.5e-3",
                "AND",
                "c",
                ".",
                "x",
                "IN",
                "(",
                "@p",
                ",",
                "\"it\\\"s\"",
                ")"
            ]
        );
        assert!(
            tokens(query)
                .iter()
                .all(|token| &query[token.start..token.end()] == token.text)
        );
    }
}
