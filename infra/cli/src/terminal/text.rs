//! Text for terminals: escaped, cut to a width; times and durations. Pure.

use duroxide_lambda_api::types::time::rfc3339;

/// The most columns of a value that is shown in one line.
const SHORT: usize = 100;

/// The text in one line. Whatever could control a terminal or mislead the reader becomes an escape: control characters, line
/// ends, marks that change the direction of writing or have no width.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if misleads(character) => out.extend(character.escape_unicode()),
            _ => out.push(character),
        }
    }
    out
}

/// The same for each line: line ends stay.
pub(crate) fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text cut to this many columns of a terminal, with an ellipsis if something is left out.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    console::truncate_str(text, columns, "…").into_owned()
}

/// A value in one line, shortened unless `full`. Only its beginning is measured: a payload may have megabytes.
pub(crate) fn short(text: &str, full: bool) -> String {
    if full {
        return escape(text);
    }
    let head: String = text.chars().take(SHORT + 1).collect();
    cut(&escape(&head), SHORT)
}

/// A moment (Unix ms) to the second, as RFC 3339.
pub(crate) fn moment(ms: u64) -> String {
    let text = rfc3339(ms);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A duration in the largest sensible unit.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds / 60),
        6_000..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_misleading_marks_are_escaped() {
        assert_eq!(escape("a\u{1b}[2Jb\r\n\tc"), "a\\u{1b}[2Jb\\r\\n\\tc");
        assert_eq!(escape("\u{9b}31m\u{7f}\0"), "\\u{9b}31m\\u{7f}\\u{0}");
        assert_eq!(escape("in\u{202e}txt.exe\u{2066}"), "in\\u{202e}txt.exe\\u{2066}");
        assert_eq!(escape("Tromsø 京都 👩‍🚀 \"x\" \\"), "Tromsø 京都 👩‍🚀 \"x\" \\");
        assert_eq!(escape_lines("a\nb\u{7}"), "a\nb\\u{7}");
    }

    #[test]
    fn text_is_cut_by_the_width_of_its_characters() {
        assert_eq!(
            [cut("abc", 3), cut("abcd", 3), cut("京都府", 5)],
            ["abc", "ab…", "京都…"]
        );
    }

    #[test]
    fn a_value_is_shortened_unless_full() {
        let long = "x\n".repeat(1_000_000);
        let shown = short(&long, false);
        assert_eq!(console::measure_text_width(&shown), SHORT);
        assert!(shown.starts_with("x\\nx") && shown.ends_with('…'), "{shown}");
        assert_eq!(short(&long, true).len(), 3_000_000);
        assert_eq!(short(&"x".repeat(SHORT), false), "x".repeat(SHORT));
    }

    #[test]
    fn times_and_durations_are_readable() {
        assert_eq!(moment(951_782_399_999), "2000-02-28T23:59:59Z");
        let spans = [
            0,
            999,
            1_000,
            9_999,
            10_000,
            99_999,
            100_000,
            5_999_999,
            6_000_000,
            172_799_999,
            172_800_000,
        ];
        let words = spans.map(span);
        let expected = [
            "0 ms", "999 ms", "1.0 s", "9.9 s", "10 s", "99 s", "1 min", "99 min", "1 h", "47 h", "2 d",
        ];
        assert_eq!(words, expected);
    }
}
