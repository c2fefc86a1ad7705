//! Beside main.rs: the memory that is shared with who asks, as a file. Knows bytes; never frames.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{pread, pwrite};

/// Reads as many bytes from `at` on as `out` has.
pub(crate) fn read(memory: BorrowedFd<'_>, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
    while !out.is_empty() {
        let count = pread(memory, &mut *out, at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += count as u64;
        out = &mut out[count..];
    }
    Ok(())
}

/// Writes all bytes from `at` on.
pub(crate) fn write(memory: BorrowedFd<'_>, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = pwrite(memory, bytes, at)?;
        at += count as u64;
        bytes = &bytes[count..];
    }
    Ok(())
}
