//! What people see: text, tables, and the name of this program in hints.
//!
//! Invariant: nothing of a workflow's data reaches a terminal unescaped. [`table`] escapes every cell; other text goes through
//! [`text::escape`].

pub(crate) mod table;
pub(crate) mod text;

use std::env;

/// How the user runs this program: `cargo run --` in the project's folder, or the installed binary.
pub(crate) fn program() -> &'static str {
    // Cargo sets the variable for what it runs; other programs of cargo may have set it to another package.
    match env::var("CARGO_PKG_NAME") {
        Ok(package) if package == env!("CARGO_PKG_NAME") => "cargo run --",
        _ => "duroxide-lambda",
    }
}

/// A text as one word of a shell.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
