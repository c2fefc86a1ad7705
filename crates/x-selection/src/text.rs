//! Path beside the pixels: under fetch.rs and paste.rs, between what X programs say and the protocol's UTF-8.
//! Encodings, byte order marks, line ends and the zero that some programs put behind their text.
//! Knows bytes; never X.

use std::borrow::Cow;

/// Said before HTML that does not name its encoding: several browsers take it for something else (Chromium says the same).
const HTML_HEAD: &[u8] = b"<meta http-equiv=\"content-type\" content=\"text/html; charset=utf-8\">";
/// Where an encoding is named, if it is (HTML §4.2.5.4).
const HTML_HEAD_BYTES: usize = 1024;

/// How bytes of text came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Latin1,
}

/// Text as the protocol has it.
pub(crate) fn text(bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let text: Cow<'_, str> = match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
        Encoding::Latin1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
    };
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n").into_bytes()
    } else {
        text.into_owned().into_bytes()
    }
}

/// HTML as the protocol has it. Some programs give UTF-16, with a byte order mark or without.
pub(crate) fn html(bytes: &[u8]) -> Vec<u8> {
    let wide = |bytes: &[u8], read: fn([u8; 2]) -> u16| {
        let units = bytes.as_chunks::<2>().0.iter().map(|&unit| read(unit));
        let text: String = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        text.trim_end_matches('\0').as_bytes().to_vec()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        // HTML begins with a letter or `<`, and no text has a zero there.
        [1..=255, 0, ..] if bytes.len().is_multiple_of(2) => wide(bytes, u16::from_le_bytes),
        [0, 1..=255, ..] if bytes.len().is_multiple_of(2) => wide(bytes, u16::from_be_bytes),
        _ => {
            let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            String::from_utf8_lossy(bytes).into_owned().into_bytes()
        }
    }
}

/// Text for programs that know Latin-1 only; what it lacks is a question mark there.
pub(crate) fn latin1(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect()
}

/// HTML for X programs: it says that it is UTF-8, which is how it came here.
pub(crate) fn html_for_x(html: &[u8]) -> Option<Vec<u8>> {
    let head = html[..html.len().min(HTML_HEAD_BYTES)].to_ascii_lowercase();
    let named = head.windows(b"charset".len()).any(|word| word == b"charset");
    (!named).then(|| [HTML_HEAD, html].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_form() {
        let utf8 = |bytes: &[u8]| String::from_utf8(text(bytes, Encoding::Utf8)).expect("text is UTF-8");
        assert_eq!(utf8("a\r\nb\rc\n".as_bytes()), "a\nb\nc\n");
        assert_eq!(utf8(b"\xef\xbb\xbfgr\xc3\xbcn\0"), "grün");
        assert_eq!(utf8(b"not \xff UTF-8"), "not \u{fffd} UTF-8");
        assert_eq!(text(b"gr\xfcn", Encoding::Latin1), "grün".as_bytes());
        assert_eq!(latin1("grün 日".as_bytes()), b"gr\xfcn ?");
    }

    #[test]
    fn html_has_one_form_whatever_it_came_in() {
        let page = "<p>grün 日本 𝄞</p>";
        let units: Vec<u16> = page.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let marked = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        for bytes in [page.as_bytes(), &little, &big, &marked(&[0xff, 0xfe], &little), &marked(&[0xfe, 0xff], &big)] {
            assert_eq!(html(bytes), page.as_bytes());
        }
        assert_eq!(html(&marked(&little, &[0, 0])), page.as_bytes());
        assert_eq!(html(b""), b"");
    }

    #[test]
    fn html_says_its_encoding_once() {
        let said = html_for_x("<p>日本</p>".as_bytes()).expect("nothing was said");
        assert!(said.starts_with(HTML_HEAD) && said.ends_with("日本</p>".as_bytes()));
        assert_eq!(html_for_x(&said), None);
        assert_eq!(html_for_x(b"<META CHARSET=utf-8>"), None);
    }
}
