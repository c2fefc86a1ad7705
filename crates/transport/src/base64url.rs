//! Secrets and hashes as text that needs no escaping in a URL (RFC 4648 §5, no padding). Stands
//! beside link.rs and token.rs; decodes only what it encodes. Knows bytes; never what they mean.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `bytes` as text.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            (0..3).fold(0u32, |sum, i| sum << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(group >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

/// The bytes that `text` encodes; `None` for a text that `encode` does not write (equal bytes have
/// one text).
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut group = 0u32;
        for (digit, character) in chunk.iter().enumerate() {
            let value = match character {
                b'A'..=b'Z' => character - b'A',
                b'a'..=b'z' => character - b'a' + 26,
                b'0'..=b'9' => character - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            group |= u32::from(value) << (18 - 6 * digit);
        }
        let whole = chunk.len() - 1;
        bytes.extend_from_slice(&group.to_be_bytes()[1..1 + whole]);
        if group.to_be_bytes()[1 + whole..].iter().any(|&rest| rest != 0) {
            return None;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648_match() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn bytes_of_every_length_survive_encoding() {
        for length in 0..70u8 {
            let bytes: Vec<u8> =
                (0..length).map(|i| i.wrapping_mul(37).wrapping_add(length)).collect();
            assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }

    #[test]
    fn text_that_encode_never_writes_is_refused() {
        for text in ["Z", "Zh", "Zm9", "Zg==", "Zm+v", "Zm/v", "Zm 9", "é"] {
            let refused = decode(text).is_none_or(|bytes| encode(&bytes) == text);
            assert!(refused, "{text}");
        }
        assert!(decode("Zh").is_none(), "bits beyond the last byte must be zero");
    }
}
