//! One consistency token: its text, and which of two is newer.

use std::collections::BTreeMap;
use std::fmt;

/// The most regions of a token: more than Azure has.
const MOST_REGIONS: usize = 100;
/// The longest id of a range. The service counts them.
const LONGEST_RANGE: usize = 20;

/// A token without its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Simple(u64),
    Vector {
        version: i64,
        global: u64,
        regions: BTreeMap<u64, i64>,
    },
}

impl Token {
    pub(super) fn lsn(&self) -> u64 {
        match self {
            Token::Simple(lsn) => *lsn,
            Token::Vector { global, .. } => *global,
        }
    }

    pub(super) fn merge(&mut self, other: Token) {
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
                    let room = same_version && regions.len() < MOST_REGIONS;
                    match regions.get_mut(&region) {
                        Some(known) => *known = (*known).max(lsn),
                        None if room => {
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

/// The range and the token of `range:token`.
pub(super) fn parse(text: &str) -> Option<(&str, Token)> {
    let (range, token) = text.split_once(':')?;
    let is_range = (1..=LONGEST_RANGE).contains(&range.len());
    if !is_range || !range.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
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
        .collect::<Option<BTreeMap<_, _>>>()?;
    if regions.len() > MOST_REGIONS {
        return None;
    }
    Some((
        range,
        Token::Vector {
            version: first.parse().ok()?,
            global: global.parse().ok()?,
            regions,
        },
    ))
}
