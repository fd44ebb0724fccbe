//! The hash of a partition key (version 2): where a document stands in the order of the key space.
//!
//! The emulator keeps this function to itself, but its ranges and its continuation tokens are made of these hashes. Only text is hashed
//! here; the index does not serve a container with other keys.

/// The hash of one partition key. A shorter bound is filled up with zeros, which does not change its place.
pub(super) type HashedKey = [u8; 16];

/// Marks text in what is hashed.
const TEXT: u8 = 0x08;
const AFTER_TEXT: u8 = 0xFF;

/// The hash of a key.
pub(super) fn of_text(key: &str) -> HashedKey {
    let mut bytes = Vec::with_capacity(key.len() + 2);
    bytes.push(TEXT);
    bytes.extend_from_slice(key.as_bytes());
    bytes.push(AFTER_TEXT);
    let mut hash = murmur3_128(&bytes).to_be_bytes();
    hash[0] &= 0x3F;
    hash
}

/// The bound of a range; `None` if it is longer than a hash.
pub(super) fn from_hex(hex: &str) -> Option<HashedKey> {
    if !hex.len().is_multiple_of(2) || hex.len() > 32 || !hex.is_ascii() {
        return None;
    }
    let mut key = HashedKey::default();
    for (n, byte) in key.iter_mut().enumerate().take(hex.len() / 2) {
        *byte = u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(key)
}

pub(super) fn to_hex(key: &HashedKey) -> String {
    key.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// MurmurHash3 for 64-bit machines, with seed 0.
fn murmur3_128(bytes: &[u8]) -> u128 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let blocks = bytes.chunks_exact(16);
    let rest = blocks.remainder();
    for block in blocks {
        h1 = (h1 ^ first(word(&block[..8]))).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ second(word(&block[8..]))).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    h2 ^= second(word(rest.get(8..).unwrap_or_default()));
    h1 ^= first(word(&rest[..rest.len().min(8)]));
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = mix(h1);
    h2 = mix(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (u128::from(h2) << 64) | u128::from(h1)
}

fn mix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_murmur3() {
        // The value that Microsoft's driver tests for.
        let hash = murmur3_128(b"sample-test");
        assert_eq!(hash as u64, 9_863_137_013_172_825_203);
        assert_eq!((hash >> 64) as u64, 15_859_947_107_521_786_564);
    }

    #[test]
    fn bounds_are_read_and_written() {
        assert_eq!(from_hex(""), Some([0; 16]));
        assert_eq!(from_hex("FF").map(|key| key[0]), Some(0xFF));
        let key = of_text("日本");
        assert_eq!(from_hex(&to_hex(&key)), Some(key));
        assert_eq!(from_hex("ABC"), None);
        assert_eq!(from_hex(&"00".repeat(17)), None);
    }
}
