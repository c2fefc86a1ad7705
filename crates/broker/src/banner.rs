//! What everybody reads before a login. Beside the path: from the administrator's file, which the
//! helper reads, to front/, which shows it in the page and in native viewers. Knows text and its
//! limits; never who reads it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::limits::at;

/// Longest text, in bytes: it has to fit into the first packet to a front.
pub const BANNER_BYTES_MAX: usize = 2000;
/// Most lines: more would move the form out of a small screen.
pub const BANNER_LINES_MAX: usize = 24;
/// Longest line, in bytes: that of a prompt on the wire.
pub const BANNER_LINE_BYTES_MAX: usize = 500;

/// Reads a file; the error names it.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(at(path))?;
    file.take(BANNER_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(at(path))?;
    parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// The text without empty lines at both ends.
pub fn parse(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() > BANNER_BYTES_MAX {
        return Err(format!("a banner has at most {BANNER_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("byte {} of the banner is not UTF-8", error.valid_up_to()))?;
    let lines: Vec<&str> = text.trim_matches(['\r', '\n']).lines().collect();
    if lines.len() > BANNER_LINES_MAX {
        return Err(format!(
            "the banner has {} lines; {BANNER_LINES_MAX} is the limit",
            lines.len()
        ));
    }
    for (number, line) in lines.iter().enumerate() {
        let number = number + 1;
        if line.len() > BANNER_LINE_BYTES_MAX {
            return Err(format!(
                "line {number} of the banner has {} bytes; {BANNER_LINE_BYTES_MAX} is the limit",
                line.len()
            ));
        }
        if line.contains(char::is_control) {
            return Err(format!("line {number} of the banner contains control characters"));
        }
    }
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_short_text_and_an_error_names_the_line() {
        assert_eq!(parse(b"\nFor staff.\r\n\nNo games.\n\n").unwrap(), "For staff.\n\nNo games.");
        assert_eq!(parse(b"").unwrap(), "");
        assert!(parse(&[b'x'; BANNER_LINE_BYTES_MAX]).is_ok());
        let cases = [
            (vec![b'x'; BANNER_BYTES_MAX + 1], "2000 bytes"),
            (b"a\nb".repeat(BANNER_LINES_MAX), "lines; 24"),
            (vec![b'x'; BANNER_LINE_BYTES_MAX + 1], "line 1 of the banner has 501 bytes"),
            (b"a\nb\x1b[2J".to_vec(), "line 2 of the banner contains control"),
            (b"ab\xff".to_vec(), "byte 2 of the banner"),
        ];
        for (bytes, part) in cases {
            let error = parse(&bytes).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
