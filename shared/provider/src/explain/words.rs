//! Durations, names and texts as they stand in a sentence, and arguments of the command line. Pure.

use super::types::Advice;

/// How many characters of an error or a reason a sentence has.
const MOST: usize = 300;

/// A duration in the largest sensible unit.
pub(super) fn span(ms: u64) -> String {
    match ms / 1_000 {
        0 => format!("{ms} ms"),
        seconds @ 1..=99 => format!("{seconds} s"),
        seconds @ 100..=5_999 => format!("{} min", seconds / 60),
        seconds @ 6_000..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// How long ago something was.
pub(super) fn ago(now_ms: u64, at: u64) -> String {
    format!("{} ago", span(now_ms.saturating_sub(at)))
}

/// How long something lasts so far.
pub(super) fn lasts(now_ms: u64, since: u64) -> String {
    span(now_ms.saturating_sub(since))
}

/// In how much time something comes.
pub(super) fn left(now_ms: u64, until: u64) -> String {
    span(until.saturating_sub(now_ms))
}

/// A name in a sentence.
pub(super) fn name(text: &str) -> String {
    format!("`{}`", one_line(text))
}

/// A foreign text in a sentence: one line, not too long, and without its own full stop.
pub(super) fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MOST) {
        line.truncate(end);
        line.push('…');
    }
    line.trim_end_matches('.').to_owned()
}

/// A predicate as a sentence.
pub(super) fn sentence(predicate: &str) -> String {
    let mut characters = predicate.chars();
    let first = characters.next().map(char::to_uppercase);
    let first: String = first.into_iter().flatten().collect();
    format!("{first}{}.", characters.as_str())
}

/// So many of these.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// An attempt and how many are allowed.
pub(super) fn attempt_of(number: u32, most: u32) -> String {
    format!("attempt {number} of {most}")
}

/// Advice without a command.
pub(super) fn advice(text: impl Into<String>) -> Advice {
    Advice {
        text: text.into(),
        command: None,
    }
}

/// Advice with the arguments of the command line.
pub(super) fn command(text: impl Into<String>, arguments: &[&str]) -> Advice {
    Advice {
        text: text.into(),
        command: Some(arguments.iter().map(|argument| (*argument).to_owned()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_largest_sensible_unit() {
        let spans = [0, 999, 1_000, 99_999, 100_000, 5_999_999, 6_000_000, 172_800_000];
        assert_eq!(
            spans.map(span),
            ["0 ms", "999 ms", "1 s", "99 s", "1 min", "99 min", "1 h", "2 d"]
        );
        assert_eq!(ago(5, 9), "0 ms ago", "clocks differ");
    }

    #[test]
    fn a_foreign_text_is_one_line_of_limited_length() {
        assert_eq!(one_line("a\n  b.\r\n"), "a b");
        let long = one_line(&"語".repeat(1_000));
        assert!(long.chars().count() == MOST + 1 && long.ends_with('…'));
    }

    #[test]
    fn a_predicate_becomes_a_sentence() {
        assert_eq!(sentence("waits for `x`"), "Waits for `x`.");
    }
}
