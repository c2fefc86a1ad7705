//! Path beside the pixels, both ways: under end.rs, at both ends of a transfer.
//! Whether bytes are what their format says, as far as whoever pastes them relies on it.
//! Knows bytes; never decodes a picture.

use thinc_protocol::clip::ClipFormat;

/// First bytes of every PNG (RFC 2083 §3.1).
const PNG_SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// The bytes are text of the protocol's form, or at least begin as a PNG does.
pub(crate) fn is_content(format: ClipFormat, bytes: &[u8]) -> bool {
    match format {
        ClipFormat::Text | ClipFormat::Html => std::str::from_utf8(bytes).is_ok(),
        ClipFormat::Png => bytes.starts_with(&PNG_SIGNATURE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_its_format_is_told() {
        assert!(is_content(ClipFormat::Text, "grün".as_bytes()) && is_content(ClipFormat::Text, b""));
        assert!(!is_content(ClipFormat::Text, b"gr\xfcn") && !is_content(ClipFormat::Html, b"\xff\xfe<\0"));
        assert!(is_content(ClipFormat::Png, b"\x89PNG\r\n\x1a\nrest"));
        assert!(!is_content(ClipFormat::Png, b"\x89PNG") && !is_content(ClipFormat::Png, b"GIF89a"));
    }
}
