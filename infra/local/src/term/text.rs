//! Texts for terminals: escaped, cut to a width, times and spans in words. Pure.

use duroxide_lambda::log::rfc3339;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How much of a value is shown in a line of its own kind, unless all of it is asked for.
pub const SHORT: usize = 100;

/// The text in one line, with everything that a terminal would obey or be misled by shown as an escape: control
/// characters, line ends, marks that turn the direction of writing or take no room.
pub fn escape(text: &str) -> String {
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

/// The same line by line: line ends stay.
pub fn escape_lines(text: &str) -> String {
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

/// How many columns of a terminal the text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text cut to so many columns, with an ellipsis for what is left out. Nothing is left out that fits.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let mut out = String::new();
    let mut taken = 0;
    for character in text.chars() {
        taken += character.width().unwrap_or(0);
        if taken > room {
            break;
        }
        out.push(character);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// The same with the ellipsis in the middle: ids often differ at their end.
pub fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let tail_room = columns.saturating_sub(1) / 2;
    let mut taken = 0;
    let tail = text.char_indices().rev().take_while(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken <= tail_room
    });
    let start = tail.last().map_or(text.len(), |(index, _)| index);
    let (head, tail) = text.split_at(start);
    format!("{}{tail}", cut(head, columns - width(tail)))
}

/// A value in one line, shortened: a payload may have megabytes, of which nobody wants to wait for the width.
pub fn short(text: &str, full: bool) -> String {
    if full {
        return escape(text);
    }
    let head: String = text.chars().take(SHORT + 1).collect();
    cut(&escape(&head), SHORT)
}

/// A moment (Unix ms) to the second, as RFC 3339.
pub fn moment(ms: u64) -> String {
    let text = rfc3339(ms);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A span of time in the largest unit that says enough.
pub fn span(ms: u64) -> String {
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
    fn nothing_that_a_terminal_obeys_comes_through() {
        assert_eq!(escape("a\u{1b}[2Jb\r\n\tc"), "a\\u{1b}[2Jb\\r\\n\\tc");
        assert_eq!(escape("\u{9b}31m\u{7f}\0"), "\\u{9b}31m\\u{7f}\\u{0}");
        assert_eq!(escape("in\u{202e}txt.exe\u{2066}"), "in\\u{202e}txt.exe\\u{2066}");
        assert_eq!(escape("Tromsø 京都 👩‍🚀 \"x\" \\"), "Tromsø 京都 👩‍🚀 \"x\" \\");
        assert_eq!(escape_lines("a\nb\u{7}"), "a\nb\\u{7}");
    }

    #[test]
    fn texts_are_cut_to_columns_not_to_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("京都府", 6), "京都府");
        assert_eq!(cut("京都府", 5), "京都…");
        assert_eq!(cut("京都府", 4), "京…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn ids_keep_both_ends() {
        assert_eq!(cut_middle("order-12345", 11), "order-12345");
        assert_eq!(cut_middle("order-12345", 8), "orde…345");
        assert_eq!(cut_middle("京都府京都市", 8), "京都…市");
        let tiny = ["…", "o…", "o…5"];
        assert_eq!([1, 2, 3].map(|columns| cut_middle("order-12345", columns)), tiny);
        assert_eq!(cut_middle("order", 0), "");
    }

    #[test]
    fn a_value_is_shortened_unless_all_of_it_is_wanted() {
        let long = "x\n".repeat(1_000_000);
        let shown = short(&long, false);
        assert_eq!(width(&shown), SHORT);
        assert!(shown.starts_with("x\\nx") && shown.ends_with('…'), "{shown}");
        assert_eq!(short(&long, true).len(), 3_000_000);
        assert_eq!(short(&"x".repeat(SHORT), false), "x".repeat(SHORT));
    }

    #[test]
    fn times_are_in_words() {
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
