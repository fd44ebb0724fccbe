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
//! name writes that a failover lost (`send.rs` decides). After a split the children start with the parent's token
//! ([`inherit`](ConsistencyTokens::inherit)), because they continue its LSNs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The newest token of each range.
#[derive(Debug, Default)]
pub(crate) struct ConsistencyTokens {
    by_range: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    tokens: BTreeMap<String, Latest>,
    answers: u64,
}

/// A range's token, and the number of the last answer that had it.
#[derive(Debug)]
struct Latest {
    token: Token,
    updated: u64,
}

impl ConsistencyTokens {
    /// Merges one token or a comma-joined list. Logs and ignores what is not a token.
    pub(crate) fn absorb(&self, header: &str) {
        for part in header.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match parse(part) {
                Some((range, token)) => self.merge(range, token),
                None => tracing::warn!(token = part, "ignored what is not a consistency token"),
            }
        }
    }

    /// All tokens, in the header's form.
    pub(crate) fn joined(&self) -> Option<String> {
        let seen = self.lock();
        let parts: Vec<String> = seen.tokens.iter().map(shown).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    /// As many tokens as fit into `most` bytes, the most recently updated first.
    pub(crate) fn recent(&self, most: usize) -> Option<String> {
        let seen = self.lock();
        let mut latest: Vec<_> = seen.tokens.iter().collect();
        latest.sort_by_key(|(_, latest)| std::cmp::Reverse(latest.updated));
        let mut text = String::new();
        for part in latest.into_iter().map(shown) {
            let comma = usize::from(!text.is_empty());
            if text.len() + comma + part.len() > most {
                break;
            }
            text.extend((comma == 1).then_some(','));
            text.push_str(&part);
        }
        (!text.is_empty()).then_some(text)
    }

    /// The token of one range, in the header's form.
    pub(crate) fn of_range(&self, range: &str) -> Option<String> {
        self.lock().tokens.get_key_value(range).map(shown)
    }

    /// A range came from `parents`: it starts with their tokens.
    pub(crate) fn inherit(&self, range: &str, parents: &[String]) {
        for parent in parents {
            let token = self.lock().tokens.get(parent).map(|latest| latest.token.clone());
            if let Some(token) = token {
                self.merge(range, token);
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

    fn merge(&self, range: &str, token: Token) {
        let mut seen = self.lock();
        seen.answers += 1;
        let updated = seen.answers;
        match seen.tokens.get_mut(range) {
            Some(known) => {
                known.token.merge(token);
                known.updated = updated;
            }
            None => {
                seen.tokens.insert(range.to_owned(), Latest { token, updated });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.by_range.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown((range, latest): (&String, &Latest)) -> String {
    format!("{range}:{}", latest.token)
}

/// A token without its range.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Simple(u64),
    Vector {
        version: i64,
        global: u64,
        regions: BTreeMap<u64, i64>,
    },
}

impl Token {
    fn lsn(&self) -> u64 {
        match self {
            Token::Simple(lsn) => *lsn,
            Token::Vector { global, .. } => *global,
        }
    }

    fn merge(&mut self, other: Token) {
        use Token::Vector;
        match (self, other) {
            (
                Vector {
                    version,
                    global,
                    regions,
                },
                Vector {
                    version: v,
                    global: g,
                    regions: r,
                },
            ) => {
                *global = (*global).max(g);
                // The regions of the newer version are the account's current ones: they replace the older list. A region
                // in both keeps the greater LSN.
                let (kept, other) = if v > *version {
                    (r, std::mem::take(regions))
                } else {
                    (std::mem::take(regions), r)
                };
                let same_version = v == *version;
                *version = (*version).max(v);
                *regions = kept;
                for (region, lsn) in other {
                    match regions.get_mut(&region) {
                        Some(known) => *known = (*known).max(lsn),
                        None if same_version => {
                            regions.insert(region, lsn);
                        }
                        None => {}
                    }
                }
            }
            (known, other) => {
                if other.lsn() > known.lsn() {
                    *known = other;
                }
            }
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Simple(lsn) => write!(f, "{lsn}"),
            Token::Vector {
                version,
                global,
                regions,
            } => {
                write!(f, "{version}#{global}")?;
                regions
                    .iter()
                    .try_for_each(|(region, lsn)| write!(f, "#{region}={lsn}"))
            }
        }
    }
}

fn parse(text: &str) -> Option<(&str, Token)> {
    let (range, token) = text.split_once(':')?;
    if range.is_empty() || !range.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let mut parts = token.split('#');
    let first = parts.next()?;
    let Some(global) = parts.next() else {
        return Some((range, Token::Simple(first.parse().ok()?)));
    };
    let regions = parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (region, lsn) = part.split_once('=')?;
            Some((region.parse().ok()?, lsn.parse().ok()?))
        })
        .collect::<Option<_>>()?;
    Some((
        range,
        Token::Vector {
            version: first.parse().ok()?,
            global: global.parse().ok()?,
            regions,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(tokens: &[&str]) -> Option<String> {
        let seen = ConsistencyTokens::default();
        tokens.iter().for_each(|token| seen.absorb(token));
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
            .for_each(|token| tokens.absorb(token));
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
        tokens.absorb("0:1#10#1=5");
        tokens.inherit("1", &["0".to_owned()]);
        assert_eq!(tokens.joined().unwrap(), "0:1#10#1=5,1:1#10#1=5");
        assert_eq!(tokens.of_range("1").unwrap(), "1:1#10#1=5");
        assert_eq!(tokens.of_range("2"), None);
    }
}
