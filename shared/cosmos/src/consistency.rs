//! Consistency tokens (Cosmos DB's session tokens): what this client has seen of a container, so that it never reads
//! something older.
//!
//! Each answer has the token of the physical range that it came from: `range:version#globalLSN#region=lsn...`, or
//! `range:LSN`. Reads and queries send tokens back, and a replica that has not caught up answers 404/1002.
//!
//! A request for one logical partition sends the tokens of *all* known ranges, joined by commas, because the client
//! does not compute which range has the partition. The gateway, like the emulator, takes the token of the range that
//! answers and ignores the rest. A query of one range sends that range's token only.
//! (`tests/consistency.rs` tests this on the emulator; Microsoft's SDKs rely on it with the hosted gateway.)
//!
//! Invariants: a token never decreases. It disappears only when no replica has reached it for so long that it must
//! name writes that a failover lost, or when the service refuses it (`send.rs` decides both). After a split the children
//! start with the parent's token ([`inherit`](ConsistencyTokens::inherit)), because they continue its LSNs.
//!
//! Tokens also come from others ([`absorb`](ConsistencyTokens::absorb)), in messages that somebody may have forged. So
//! what one text brings in, what is remembered and what is sent are all bounded, and a token that only others have seen
//! is sent to the service but never passed on: a forged one ends with the client that got it.

mod token;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use token::{Token, parse};

/// The most bytes of tokens that are sent, or taken from others, at once. Gateways refuse headers of 16 KB, and these
/// are the tokens of more than a hundred ranges.
const MOST_BYTES: usize = 8_000;
/// The most ranges that are remembered. Those that changed last stay.
const MOST_RANGES: usize = 256;

/// The newest token of each range.
#[derive(Debug, Default)]
pub(crate) struct ConsistencyTokens {
    by_range: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    tokens: BTreeMap<String, Latest>,
    changes: u64,
}

/// What is known of a range.
#[derive(Debug)]
struct Latest {
    /// The newest token, whoever has seen it.
    token: Token,
    /// The newest token that an answer of the service had.
    answered: Option<Token>,
    /// The number of the last change.
    updated: u64,
}

/// Where a token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Answer,
    Other,
}

impl ConsistencyTokens {
    /// Merges the token of an answer.
    pub(crate) fn learn(&self, header: &str) {
        self.merge_all(header, Source::Answer);
    }

    /// Merges one token or a comma-joined list that somebody else has seen. Logs and ignores what is not a token, and a
    /// text that is too long.
    pub(crate) fn absorb(&self, text: &str) {
        if text.len() > MOST_BYTES {
            tracing::warn!(
                bytes = text.len(),
                "ignored consistency tokens of over {MOST_BYTES} bytes"
            );
            return;
        }
        self.merge_all(text, Source::Other);
    }

    /// All tokens, in the header's form; if they are too long for a header, those that changed last.
    pub(crate) fn joined(&self) -> Option<String> {
        let seen = self.lock();
        let mut all: Vec<_> = seen.tokens.iter().collect();
        let bytes: usize = all
            .iter()
            .map(|(range, latest)| shown(range, &latest.token).len() + 1)
            .sum();
        if bytes > MOST_BYTES {
            all.sort_by_key(|(_, latest)| std::cmp::Reverse(latest.updated));
        }
        fitting(
            MOST_BYTES,
            all.into_iter().map(|(range, latest)| shown(range, &latest.token)),
        )
    }

    /// As many tokens from answers as fit into `most` bytes, the most recently updated first.
    pub(crate) fn recent(&self, most: usize) -> Option<String> {
        let seen = self.lock();
        let mut latest: Vec<_> = seen.tokens.iter().collect();
        latest.sort_by_key(|(_, latest)| std::cmp::Reverse(latest.updated));
        let answered = latest
            .into_iter()
            .filter_map(|(range, latest)| Some(shown(range, latest.answered.as_ref()?)));
        fitting(most, answered)
    }

    /// The token of one range, in the header's form.
    pub(crate) fn of_range(&self, range: &str) -> Option<String> {
        self.lock().tokens.get(range).map(|latest| shown(range, &latest.token))
    }

    /// A range came from `parents`: it starts with their tokens.
    pub(crate) fn inherit(&self, range: &str, parents: &[String]) {
        let mut seen = self.lock();
        for parent in parents {
            let Some(latest) = seen.tokens.get(parent) else {
                continue;
            };
            let (token, answered) = (latest.token.clone(), latest.answered.clone());
            seen.merge(range, token, Source::Other);
            if let Some(answered) = answered {
                seen.merge(range, answered, Source::Answer);
            }
        }
    }

    /// Forgets what was seen of one range.
    pub(crate) fn forget(&self, range: &str) {
        self.lock().tokens.remove(range);
    }

    /// Forgets all tokens: the container was created again or has lost writes, so the LSNs are invalid.
    pub(crate) fn clear(&self) {
        self.lock().tokens.clear();
    }

    fn merge_all(&self, text: &str, source: Source) {
        let mut seen = self.lock();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match parse(part) {
                Some((range, token)) => seen.merge(range, token, source),
                None => tracing::warn!(token = part, "ignored what is not a consistency token"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.by_range.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn merge(&mut self, range: &str, token: Token, source: Source) {
        self.changes += 1;
        let answered = (source == Source::Answer).then(|| token.clone());
        match self.tokens.get_mut(range) {
            Some(known) => {
                known.token.merge(token);
                known.updated = self.changes;
                match (&mut known.answered, answered) {
                    (Some(known), Some(newer)) => known.merge(newer),
                    (known @ None, newer) => *known = newer,
                    (Some(_), None) => {}
                }
            }
            None => {
                let updated = self.changes;
                self.make_room();
                let latest = Latest {
                    token,
                    answered,
                    updated,
                };
                self.tokens.insert(range.to_owned(), latest);
            }
        }
    }

    /// Forgets the range that has not changed for longest, if there are too many.
    fn make_room(&mut self) {
        if self.tokens.len() < MOST_RANGES {
            return;
        }
        let oldest = self.tokens.iter().min_by_key(|(_, latest)| latest.updated);
        if let Some(range) = oldest.map(|(range, _)| range.clone()) {
            self.tokens.remove(&range);
        }
    }
}

fn shown(range: &str, token: &Token) -> String {
    format!("{range}:{token}")
}

/// The first parts that fit into `most` bytes, joined by commas.
fn fitting(most: usize, parts: impl Iterator<Item = String>) -> Option<String> {
    let mut text = String::new();
    for part in parts {
        let comma = usize::from(!text.is_empty());
        if text.len() + comma + part.len() > most {
            break;
        }
        text.extend((comma == 1).then_some(','));
        text.push_str(&part);
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(tokens: &[&str]) -> Option<String> {
        let seen = ConsistencyTokens::default();
        tokens.iter().for_each(|token| seen.learn(token));
        seen.joined()
    }

    #[test]
    fn the_newest_token_of_each_range_is_kept_whatever_the_order() {
        assert_eq!(after(&["0:-1#12", "1:-1#7", "0:-1#9"]).unwrap(), "0:-1#12,1:-1#7");
        assert_eq!(after(&["0:5", "0:7", "0:6"]).unwrap(), "0:7");
        assert_eq!(after(&["0:-1#12,1:-1#7", "1:-1#8,2:3"]).unwrap(), "0:-1#12,1:-1#8,2:3");
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn regions_of_one_version_keep_their_greatest_lsn() {
        assert_eq!(after(&["0:1#10#1=5#2=9", "0:1#11#1=7#2=3"]).unwrap(), "0:1#11#1=7#2=9");
        assert_eq!(after(&["0:1#10#1=5", "0:1#9#2=3"]).unwrap(), "0:1#10#1=5#2=3");
    }

    #[test]
    fn the_newer_version_decides_the_regions_whatever_the_order() {
        assert_eq!(after(&["0:1#10#1=9#2=9", "0:2#8#1=5"]).unwrap(), "0:2#10#1=9");
        assert_eq!(after(&["0:2#8#1=5", "0:1#10#1=9#2=9"]).unwrap(), "0:2#10#1=9");
    }

    #[test]
    fn the_most_recent_tokens_come_first_when_bytes_are_limited() {
        let tokens = ConsistencyTokens::default();
        ["0:-1#12", "1:-1#7", "2:-1#9", "0:-1#13"]
            .iter()
            .for_each(|token| tokens.learn(token));
        assert_eq!(tokens.recent(1000).unwrap(), "0:-1#13,2:-1#9,1:-1#7");
        assert_eq!(tokens.recent("0:-1#13,2:-1#9".len()).unwrap(), "0:-1#13,2:-1#9");
        assert_eq!(tokens.recent("0:-1#13,2:-1#9".len() - 1).unwrap(), "0:-1#13");
        assert_eq!(tokens.recent(3), None);
    }

    #[test]
    fn text_that_is_no_token_is_ignored() {
        assert_eq!(
            after(&["0:5", "nonsense", "1:", ":4", "2:x#y", "3:1#2#z", "0:\r\n9", ",,"]).unwrap(),
            "0:5"
        );
    }

    #[test]
    fn children_of_a_split_start_with_the_token_of_their_parent() {
        let tokens = ConsistencyTokens::default();
        tokens.learn("0:1#10#1=5");
        tokens.inherit("1", &["0".to_owned()]);
        assert_eq!(tokens.joined().unwrap(), "0:1#10#1=5,1:1#10#1=5");
        assert_eq!(tokens.of_range("1").unwrap(), "1:1#10#1=5");
        assert_eq!(tokens.of_range("2"), None);
    }
    #[test]
    fn what_others_bring_in_is_bounded() {
        let tokens = ConsistencyTokens::default();
        tokens.learn("0:-1#12");
        let many = |from: u32, to: u32| (from..to).map(|n| format!("{n}:-1#7")).collect::<Vec<_>>().join(",");
        tokens.absorb(&many(1, 100_000));
        assert_eq!(
            tokens.joined().unwrap(),
            "0:-1#12",
            "a text that is too long brings nothing"
        );
        for start in (1_000..100_000).step_by(500) {
            tokens.absorb(&many(start, start + 500));
            tokens.learn("0:-1#12");
        }
        assert_eq!(tokens.lock().tokens.len(), MOST_RANGES);
        assert!(tokens.joined().unwrap().len() <= MOST_BYTES);
        assert_eq!(tokens.of_range("0").unwrap(), "0:-1#12", "what is in use stays");
        // Regions of one range.
        for start in (0..100_000).step_by(90) {
            let regions: String = (start..start + 90).map(|region| format!("#{region}=1")).collect();
            tokens.absorb(&format!("0:-1#12{regions}"));
        }
        assert!(tokens.of_range("0").unwrap().len() < MOST_BYTES / 2);
        tokens.absorb(&format!(
            "0:-1#12{}",
            (0..200).map(|region| format!("#{region}=9")).collect::<String>()
        ));
        tokens.absorb(&format!("{}:1", "9".repeat(21)));
        assert!(!tokens.joined().unwrap().contains("=9") && !tokens.joined().unwrap().contains("999999999"));
    }

    #[test]
    fn tokens_that_do_not_fit_a_header_are_sent_by_recency() {
        let tokens = ConsistencyTokens::default();
        for n in 0..MOST_RANGES {
            tokens.learn(&format!("{n}:-1#1000000000#1=1000000000#2=1000000000"));
        }
        let sent = tokens.joined().unwrap();
        assert!(
            sent.len() <= MOST_BYTES && sent.len() > MOST_BYTES - 100,
            "{}",
            sent.len()
        );
        assert!(sent.starts_with("255:") && !sent.contains(",0:"));
    }

    #[test]
    fn a_token_that_only_others_have_seen_is_sent_and_not_passed_on() {
        let tokens = ConsistencyTokens::default();
        tokens.learn("0:-1#12");
        tokens.absorb("0:-1#99,1:-1#7");
        assert_eq!(tokens.joined().unwrap(), "0:-1#99,1:-1#7");
        assert_eq!(tokens.recent(100).unwrap(), "0:-1#12");
        tokens.learn("1:-1#8");
        assert_eq!(tokens.recent(100).unwrap(), "1:-1#8,0:-1#12");
    }
}
