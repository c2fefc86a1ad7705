//! The X server's cookie, in the file format that Xlib and XCB read (libXau's Xauth(7)).
//! From supervisor.rs, to Xorg's -auth and the XAUTHORITY of COMMAND and the session process.
//! Knows bytes of one entry; who may read the file is the writer's care: 0600 in a folder 0700.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Matches every address, so that the file is right wherever the host name changes to.
const FAMILY_WILD: u16 = 0xffff;
const METHOD: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// One entry: address, display number and method, each with a 16-bit big-endian length, then the cookie.
fn entry(cookie: &[u8; 16]) -> Vec<u8> {
    let mut bytes = FAMILY_WILD.to_be_bytes().to_vec();
    // An empty display number matches every display: the X server chooses its number after it has read this file.
    for field in [&b""[..], b"", METHOD, cookie] {
        bytes.extend_from_slice(&(field.len() as u16).to_be_bytes());
        bytes.extend_from_slice(field);
    }
    bytes
}

/// Writes a fresh file, for its owner alone.
pub(crate) fn write(path: &Path, cookie: &[u8; 16]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(&entry(cookie))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut golden = vec![0xff, 0xff, 0, 0, 0, 0, 0, 18];
        golden.extend_from_slice(b"MIT-MAGIC-COOKIE-1");
        golden.extend_from_slice(&[0, 16]);
        golden.extend_from_slice(&[9; 16]);
        assert_eq!(entry(&[9; 16]), golden);
    }
}
