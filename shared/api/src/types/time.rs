//! Times as RFC 3339 texts, to and from Unix milliseconds. Pure.

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A moment as RFC 3339 in UTC with milliseconds, like `2026-01-31T12:00:00.250Z`.
pub fn rfc3339(ms: u64) -> String {
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    let (year, month, day) = date_of(days);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Reads an RFC 3339 text with any offset as Unix milliseconds. `None` when it is none, or before 1970.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        digits.parse().ok()
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| bytes[*at] != *byte) || !b"Tt ".contains(&bytes[10]) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_date =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (milli, zone) = match text[19..].strip_prefix('.') {
        None => (0, &text[19..]),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let fraction: String = rest[..digits].chars().chain("000".chars()).take(3).collect();
            (fraction.parse().ok().filter(|_| digits > 0)?, &rest[digits..])
        }
    };
    let local = days_since_1970(year, month, day) * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1000 + milli;
    let utc = i64::try_from(local).ok()? - offset_ms(zone)?;
    u64::try_from(utc).ok()
}

/// The milliseconds that a zone is ahead of UTC.
fn offset_ms(zone: &str) -> Option<i64> {
    if zone == "Z" || zone == "z" {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':').filter(|_| rest.len() == 5)?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let is_offset =
        (0..24).contains(&hours) && (0..60).contains(&minutes) && rest.bytes().all(|b| b != b'-' && b != b'+');
    is_offset.then_some(sign * (hours * 60 + minutes) * 60_000)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let before = |year: u64| year * 365 + year / 4 - year / 100 + year / 400;
    let years = before(year - 1) - before(1969);
    let months: u64 = (1..month).map(|month| days_in(year, month)).sum();
    years + months + day - 1
}

fn date_of(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let mut month = 1;
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_and_read() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_769_860_800_250, "2026-01-31T12:00:00.250Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
            assert_eq!(parse_rfc3339(text), Some(ms));
        }
    }

    #[test]
    fn every_form_of_rfc_3339_is_read() {
        for text in [
            "2026-01-31T12:00:00Z",
            "2026-01-31t12:00:00z",
            "2026-01-31 12:00:00.0Z",
            "2026-01-31T13:30:00+01:30",
            "2026-01-30T23:00:00-13:00",
            "2026-01-31T12:00:00.000999999Z",
        ] {
            assert_eq!(parse_rfc3339(text), Some(1_769_860_800_000), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "yesterday",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+1:30",
            "2026-01-31T12:00:00+01:-3",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "+026-01-31T12:00:00Z",
            "2026-01-31T12:00:00Zjunk",
            "２026-01-31T12:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
