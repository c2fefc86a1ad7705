//! What stands between a viewer and a session behind ssh, before the protocol begins: words that any shell leaves as they
//! are, on the way there, and a greeting that nothing else prints, on the way back.
//! From thinc-view's command line, to `thinc session --stdio`. Knows text; never ssh.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What `thinc session --stdio` prints before the session's first byte. What comes before is not ours: shells print what
/// their owners wrote into start-up files. It begins with a control character that no message holds.
pub const GREETING: &[u8] = b"\x1ethinc stdio 1\n";
/// The part of it that every version has; a number and a line break follow.
const GREETING_HEAD: &[u8] = b"\x1ethinc stdio ";
/// The longest number of a version, with its line break.
const GREETING_TAIL_MAX: usize = 8;
/// 64 KiB: most that may come before it.
pub const NOISE_BYTES_MAX: usize = 64 * 1024;

/// The exit code of `thinc session --stdio --attach` where there is no such session (any more).
pub const EXIT_NO_SESSION: u8 = 8;

/// What has come from the other side so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// More is to come.
    Incomplete,
    /// The protocol begins at this byte.
    At(usize),
    /// It is greeted in words of another version.
    Foreign,
    /// Too much came before it.
    Noise,
}

/// Looks for the greeting in all that came.
pub fn find_greeting(bytes: &[u8]) -> Greeting {
    let at = bytes.windows(GREETING_HEAD.len()).position(|window| window == GREETING_HEAD);
    let Some(at) = at else {
        return if bytes.len() > NOISE_BYTES_MAX { Greeting::Noise } else { Greeting::Incomplete };
    };
    let rest = &bytes[at..];
    if rest.starts_with(GREETING) {
        return Greeting::At(at + GREETING.len());
    }
    let tail = &rest[GREETING_HEAD.len()..];
    if tail.contains(&b'\n') || tail.len() > GREETING_TAIL_MAX { Greeting::Foreign } else { Greeting::Incomplete }
}

/// Bytes that no shell does anything with: not sh, bash, zsh, fish or csh.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"./_-,:@".contains(&byte)
}

/// A word of a command line as any shell hands it on: every other byte as `+` and two hexadecimal digits.
pub fn escape(word: &OsStr) -> String {
    let mut escaped = String::new();
    for &byte in word.as_bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("+{byte:02x}"));
        }
    }
    // An empty word would be none.
    if escaped.is_empty() { "+".to_owned() } else { escaped }
}

/// The word again; `None` for what [`escape`] does not write.
pub fn unescape(word: &str) -> Option<OsString> {
    if word == "+" {
        return Some(OsString::new());
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'+' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
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
    fn every_word_comes_back_and_no_shell_sees_anything_in_it() {
        for word in ["", "xterm", "-e", "a b", "it's $HOME; rm -rf `x` \\ ! \n\t\" ~ * {a,b} = + é", "=ls", "%1", "#"]
        {
            let escaped = escape(word.as_ref());
            assert!(!escaped.is_empty() && escaped.bytes().all(|byte| is_plain(byte) || byte == b'+'), "{escaped}");
            assert_eq!(unescape(&escaped).unwrap(), word);
        }
        let odd = OsString::from_vec(vec![0xff, b'a', 0x80]);
        assert_eq!(unescape(&escape(&odd)).unwrap(), odd);
        for bad in ["+4", "+zz", "++1", "a b", "$x", "+4+"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_greeting_is_found_behind_whatever_a_shell_prints() {
        let mut bytes = b"Welcome!\nthinc stdio 1\nfortune: ".to_vec();
        assert_eq!(find_greeting(&bytes), Greeting::Incomplete);
        bytes.extend(GREETING);
        let begins = bytes.len();
        bytes.extend(b"\x02\x03abc");
        for end in 0..bytes.len() {
            let expected = if end < begins { Greeting::Incomplete } else { Greeting::At(begins) };
            assert_eq!(find_greeting(&bytes[..end]), expected, "{end}");
        }
        assert_eq!(find_greeting(b"\x1ethinc stdio 22\n"), Greeting::Foreign);
        assert_eq!(find_greeting(b"\x1ethinc stdio 123456789"), Greeting::Foreign);
        assert_eq!(find_greeting(&vec![b'x'; NOISE_BYTES_MAX + 1]), Greeting::Noise);
    }
}
