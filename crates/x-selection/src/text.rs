//! Path beside the pixels: under fetch.rs and paste.rs, from the encodings of X clients to the
//! protocol's UTF-8, and back.
//! Encodings, byte order marks, line ends and the zero byte that some applications append. Knows
//! bytes; never X.

use std::borrow::Cow;

/// Prepended to HTML that does not name its encoding; several browsers would guess another one
/// (Chromium does the same).
const HTML_HEAD: &[u8] = b"<meta http-equiv=\"content-type\" content=\"text/html; charset=utf-8\">";
/// The prefix in which HTML names its encoding (HTML §4.2.5.4).
const HTML_HEAD_BYTES: usize = 1024;

/// Encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Latin1,
}

/// Converts text to the protocol's form.
pub(crate) fn text(bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let text: Cow<'_, str> = match encoding {
        Encoding::Utf8 => {
            String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
        }
        Encoding::Latin1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
    };
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n").into_bytes()
    } else {
        text.into_owned().into_bytes()
    }
}

/// Converts HTML to the protocol's form. Some applications send UTF-16, with a byte order mark or
/// without.
pub(crate) fn html(bytes: &[u8]) -> Vec<u8> {
    let wide = |bytes: &[u8], read: fn([u8; 2]) -> u16| {
        let units = bytes.as_chunks::<2>().0.iter().map(|&unit| read(unit));
        let text: String = char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        text.trim_end_matches('\0').as_bytes().to_vec()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        // HTML starts with a character other than zero, so a zero byte means UTF-16.
        [1..=255, 0, ..] if bytes.len().is_multiple_of(2) => wide(bytes, u16::from_le_bytes),
        [0, 1..=255, ..] if bytes.len().is_multiple_of(2) => wide(bytes, u16::from_be_bytes),
        _ => {
            let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            String::from_utf8_lossy(bytes).into_owned().into_bytes()
        }
    }
}

/// Converts text to Latin-1; other characters become a question mark.
pub(crate) fn latin1(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text)
        .chars()
        .map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?'))
        .collect()
}

/// Declares UTF-8 in HTML for X clients, unless it names an encoding.
pub(crate) fn html_for_x(html: &[u8]) -> Option<Vec<u8>> {
    let head = html[..html.len().min(HTML_HEAD_BYTES)].to_ascii_lowercase();
    let named = head.windows(b"charset".len()).any(|word| word == b"charset");
    (!named).then(|| [HTML_HEAD, html].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_normalised() {
        let utf8 =
            |bytes: &[u8]| String::from_utf8(text(bytes, Encoding::Utf8)).expect("text is UTF-8");
        assert_eq!(utf8("a\r\nb\rc\n".as_bytes()), "a\nb\nc\n");
        assert_eq!(utf8(b"\xef\xbb\xbfgr\xc3\xbcn\0"), "grün");
        assert_eq!(utf8(b"not \xff UTF-8"), "not \u{fffd} UTF-8");
        assert_eq!(text(b"gr\xfcn", Encoding::Latin1), "grün".as_bytes());
        assert_eq!(latin1("grün 日".as_bytes()), b"gr\xfcn ?");
    }

    #[test]
    fn html_is_converted_from_any_encoding() {
        let page = "<p>grün 日本 𝄞</p>";
        let units: Vec<u16> = page.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let marked = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        for bytes in [
            page.as_bytes(),
            &little,
            &big,
            &marked(&[0xff, 0xfe], &little),
            &marked(&[0xfe, 0xff], &big),
        ] {
            assert_eq!(html(bytes), page.as_bytes());
        }
        assert_eq!(html(&marked(&little, &[0, 0])), page.as_bytes());
        assert_eq!(html(b""), b"");
    }

    #[test]
    fn html_declares_its_encoding_once() {
        let declared = html_for_x("<p>日本</p>".as_bytes()).expect("no encoding was declared");
        assert!(declared.starts_with(HTML_HEAD) && declared.ends_with("日本</p>".as_bytes()));
        assert_eq!(html_for_x(&declared), None);
        assert_eq!(html_for_x(b"<META CHARSET=utf-8>"), None);
    }
}
