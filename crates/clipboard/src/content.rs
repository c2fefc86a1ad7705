//! Path beside the pixels, in both directions: under endpoint.rs, at both ends of a transfer.
//! Checks that bytes have their declared format, as far as a pasting application relies on it.
//! Knows bytes; never decodes an image.

use thinc_protocol::clip::ClipFormat;
use thinc_protocol::file_bundle;

/// First bytes of every PNG (RFC 2083 §3.1).
const PNG_SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// True if text is valid UTF-8, an image starts with the PNG signature, and files are
/// whole and their paths lead nowhere else.
pub(crate) fn is_content(format: ClipFormat, bytes: &[u8]) -> bool {
    match format {
        ClipFormat::Text | ClipFormat::Html => std::str::from_utf8(bytes).is_ok(),
        ClipFormat::Png => bytes.starts_with(&PNG_SIGNATURE),
        ClipFormat::Files => file_bundle::decode(bytes).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_another_format_are_detected() {
        assert!(
            is_content(ClipFormat::Text, "grün".as_bytes()) && is_content(ClipFormat::Text, b"")
        );
        assert!(
            !is_content(ClipFormat::Text, b"gr\xfcn")
                && !is_content(ClipFormat::Html, b"\xff\xfe<\0")
        );
        assert!(is_content(ClipFormat::Png, b"\x89PNG\r\n\x1a\nrest"));
        assert!(
            !is_content(ClipFormat::Png, b"\x89PNG") && !is_content(ClipFormat::Png, b"GIF89a")
        );
    }
}
