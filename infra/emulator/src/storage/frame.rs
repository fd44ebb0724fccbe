//! Frames: how one record is told from the next, and a whole one from a torn one.
//!
//! ```text
//!   0xFF 'R' 0xFE 'C'   length u32   crc32 u32   payload
//! ```
//!
//! Numbers are little-endian; the checksum is of the length and the payload. The payload is JSON, in which the bytes 0xFE and
//! 0xFF never occur: after damage, a frame that follows is found by its mark.

const MARK: [u8; 4] = [0xFF, b'R', 0xFE, b'C'];
const HEAD: usize = 12;

/// Appends a payload to a buffer, in its frame.
pub(super) fn put(buffer: &mut Vec<u8>, payload: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(payload.len())
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidInput, "the record is over 4 GB"))?;
    buffer.reserve(HEAD + payload.len());
    buffer.extend_from_slice(&MARK);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&checksum(length, payload).to_le_bytes());
    buffer.extend_from_slice(payload);
    Ok(())
}

/// The frames of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan<'a> {
    pub(super) payloads: Vec<&'a [u8]>,
    /// Where the last whole frame ends. What follows is a torn tail.
    pub(super) end: usize,
}

/// A frame is broken, and whole ones follow it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged {
    pub(super) at: usize,
}

/// Reads frames from `start` on, up to the end or to a torn tail.
pub(super) fn scan(bytes: &[u8], start: usize) -> Result<Scan<'_>, Damaged> {
    let mut payloads = Vec::new();
    let mut end = start;
    while let Some(payload) = whole(bytes, end) {
        end += HEAD + payload.len();
        payloads.push(payload);
    }
    let follows = (end + 1..bytes.len()).any(|at| bytes[at] == MARK[0] && whole(bytes, at).is_some());
    if follows {
        return Err(Damaged { at: end });
    }
    Ok(Scan { payloads, end })
}

/// The payload of the whole frame at a place, if there is one.
fn whole(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at.checked_add(HEAD)?)?;
    let number = |from: usize| Some(u32::from_le_bytes(head[from..from + 4].try_into().ok()?));
    if head[..4] != MARK {
        return None;
    }
    let length = number(4)?;
    let payload = &bytes[at + HEAD..];
    let payload = payload.get(..usize::try_from(length).ok()?)?;
    (number(8)? == checksum(length, payload)).then_some(payload)
}

fn checksum(length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<u8> {
        let mut bytes = b"head".to_vec();
        for payload in [&b"{\"first\":1}"[..], b"{}", b"{\"third\":[3]}"] {
            put(&mut bytes, payload).unwrap();
        }
        bytes
    }

    #[test]
    fn whatever_is_cut_off_the_end_leaves_whole_frames() {
        let bytes = three();
        let ends = [4, 4 + HEAD + 11, 4 + 2 * HEAD + 13, bytes.len()];
        for cut in 4..=bytes.len() {
            let scan = scan(&bytes[..cut], 4).unwrap();
            let whole = ends[1..].iter().filter(|&&end| end <= cut).count();
            assert_eq!((scan.payloads.len(), scan.end), (whole, ends[whole]), "cut at {cut}");
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed_and_only_at_the_end_taken_for_a_torn_tail() {
        let good = three();
        let last = 4 + 2 * HEAD + 13;
        for at in 4..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                match scan(&bytes, 4) {
                    Err(damaged) => assert!(damaged.at <= at && at < last, "bit {bit} of {at}"),
                    Ok(scan) => assert!(
                        at >= last && scan.payloads.len() == 2 && scan.end == last,
                        "bit {bit} of {at}"
                    ),
                }
            }
        }
    }

    #[test]
    fn zeros_after_the_end_are_a_torn_tail() {
        let mut bytes = three();
        let end = bytes.len();
        bytes.resize(end + 5_000, 0);
        assert_eq!(scan(&bytes, 4).unwrap().end, end);
    }
}
