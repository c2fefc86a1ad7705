//! The entry of shadow(5) of an account, by the system's name service. Beside the path: from libc,
//! to thinc-broker, which compares it. Knows one call; never what is kept of the answer.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Longest entry, with all its fields.
const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// The encrypted password of this account, with its marks of a locked one; `None` if the system's
/// name service has no such entry, as for accounts of many directories. Needs root.
///
/// # Errors
/// The name service fails, or this process may not read the entry.
pub fn shadow_password(user: &str) -> io::Result<Option<Vec<u8>>> {
    let Ok(name) = CString::new(user) else { return Ok(None) };
    let mut buffer = vec![0u8; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::spwd>::uninit();
        let mut found: *mut libc::spwd = null_mut();
        // SAFETY: the name ends with a zero, `entry` and `buffer` are valid for writing at their
        // sizes, and all live longer than the call.
        let status = unsafe {
            libc::getspnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        match status {
            0 | libc::ENOENT if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: with this status `found` is the address of `entry`, which the call has
                // filled; its texts are in `buffer` and end with a zero, or are null.
                let password = unsafe {
                    let text = (*found).sp_pwdp;
                    (!text.is_null()).then(|| CStr::from_ptr(text).to_bytes().to_vec())
                };
                return Ok(password);
            }
            libc::ERANGE if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(2 * buffer.len(), 0),
            libc::EINTR => {}
            other => return Err(io::Error::from_raw_os_error(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_by_root_and_there_is_none_of_nobody_known() {
        assert_eq!(shadow_password("no such account").unwrap_or_default(), None);
        assert_eq!(shadow_password("a\0b").unwrap(), None);
        // Everybody has an account of this name, which nobody logs in to.
        let of_daemon = shadow_password("daemon");
        let is_root = std::fs::read("/etc/shadow").is_ok();
        assert_eq!(of_daemon.is_ok_and(|entry| entry.is_some()), is_root);
    }
}
