//! The handshake over ssh, before the protocol begins: an escaped command line in one direction,
//! which no login shell changes, and a magic greeting in the other, which nothing else prints.
//! From thinc-view's command line, to `thinc session --stdio`. Knows text; never ssh.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What `thinc session --stdio` prints before the session's first byte. Output before it belongs to
/// start-up files of the shell. It begins with a control character that no such output contains.
pub const GREETING: &[u8] = b"\x1ethinc stdio 1\n";
/// The part that all versions share; a number and a line break follow.
const GREETING_HEAD: &[u8] = b"\x1ethinc stdio ";
/// Longest version number, with its line break.
const GREETING_TAIL_MAX: usize = 8;
/// 64 KiB: most bytes before the greeting.
const PREAMBLE_BYTES_MAX: usize = 64 * 1024;

/// Exit code of `thinc session --stdio --attach` if there is no such session (any more).
pub const EXIT_NO_SESSION: u8 = 8;

/// The result of the search for the greeting in the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Not found yet.
    Incomplete,
    /// The protocol begins at this byte.
    At(usize),
    /// The greeting has another version.
    OtherVersion,
    /// More than PREAMBLE_BYTES_MAX came before it.
    PreambleTooLong,
}

/// Searches for the greeting in all bytes received so far.
pub fn find_greeting(bytes: &[u8]) -> Greeting {
    let at = bytes.windows(GREETING_HEAD.len()).position(|window| window == GREETING_HEAD);
    let Some(at) = at else {
        return if bytes.len() > PREAMBLE_BYTES_MAX {
            Greeting::PreambleTooLong
        } else {
            Greeting::Incomplete
        };
    };
    let rest = &bytes[at..];
    if rest.starts_with(GREETING) {
        return Greeting::At(at + GREETING.len());
    }
    let tail = &rest[GREETING_HEAD.len()..];
    if tail.contains(&b'\n') || tail.len() > GREETING_TAIL_MAX {
        Greeting::OtherVersion
    } else {
        Greeting::Incomplete
    }
}

/// Bytes without special meaning in any shell: sh, bash, zsh, fish or csh.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"./_-,:@".contains(&byte)
}

/// A word of a command line that any shell passes on unchanged: every special byte becomes `+` and
/// two hexadecimal digits.
pub fn escape(word: &OsStr) -> String {
    let mut escaped = String::new();
    for &byte in word.as_bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("+{byte:02x}"));
        }
    }
    // An empty word would vanish from the command line.
    if escaped.is_empty() { "+".to_owned() } else { escaped }
}

/// Reverses [`escape`]; `None` for anything that it does not write.
pub fn unescape(word: &str) -> Option<OsString> {
    if word == "+" {
        return Some(OsString::new());
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'+' {
            let digits = std::str::from_utf8(tail.get(..2)?)
                .ok()
                .filter(|digits| !digits.starts_with('+'))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(Some(first).filter(|&byte| is_plain(byte))?);
        }
    }
    Some(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_survives_escaping_and_has_no_special_characters() {
        for word in [
            "",
            "xterm",
            "-e",
            "a b",
            "it's $HOME; rm -rf `x` \\ ! \n\t\" ~ * {a,b} = + é",
            "=ls",
            "%1",
            "#",
        ] {
            let escaped = escape(word.as_ref());
            assert!(
                !escaped.is_empty() && escaped.bytes().all(|byte| is_plain(byte) || byte == b'+'),
                "{escaped}"
            );
            assert_eq!(unescape(&escaped).unwrap(), word);
        }
        let odd = OsString::from_vec(vec![0xff, b'a', 0x80]);
        assert_eq!(unescape(&escape(&odd)).unwrap(), odd);
        for bad in ["+4", "+zz", "++1", "a b", "$x", "+4+"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_greeting_is_found_after_output_of_a_shell() {
        let mut bytes = b"Welcome!\nthinc stdio 1\nfortune: ".to_vec();
        assert_eq!(find_greeting(&bytes), Greeting::Incomplete);
        bytes.extend(GREETING);
        let begins = bytes.len();
        bytes.extend(b"\x02\x03abc");
        for end in 0..bytes.len() {
            let expected = if end < begins { Greeting::Incomplete } else { Greeting::At(begins) };
            assert_eq!(find_greeting(&bytes[..end]), expected, "{end}");
        }
        assert_eq!(find_greeting(b"\x1ethinc stdio 22\n"), Greeting::OtherVersion);
        assert_eq!(find_greeting(b"\x1ethinc stdio 123456789"), Greeting::OtherVersion);
        assert_eq!(find_greeting(&vec![b'x'; PREAMBLE_BYTES_MAX + 1]), Greeting::PreambleTooLong);
    }
}
