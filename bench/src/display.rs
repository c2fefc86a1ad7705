//! Numbers for X displays. Abstract sockets are per network namespace, but the sockets and locks in
//! /tmp are shared, and an X server with -displayfd checks neither and takes a number that is in
//! use. Knows the lock files of X servers; never which server a number is for.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::Error;

/// Above the numbers that people and `-displayfd` use; port 6000 and VNC's 5900 plus the last one
/// are still ports.
const FIRST: u16 = 100;
const LAST: u16 = 999;

/// A display number that is reserved on this machine, in all namespaces, until this is dropped.
///
/// Start the X server with `:N` (and with `-displayfd` to learn when it is ready): servers without
/// `-displayfd` refuse a locked display, and need [`DisplayNumber::unlock`] first.
#[derive(Debug)]
pub struct DisplayNumber {
    number: u16,
    locked: bool,
}

impl DisplayNumber {
    /// The first that is free, locked as an X server would do it.
    pub fn reserve() -> Result<DisplayNumber, Error> {
        for number in FIRST..=LAST {
            let lock = lock_file(number);
            if is_stale(&lock) {
                let _ = fs::remove_file(&lock);
            }
            match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(mut file) => {
                    let reserved = DisplayNumber { number, locked: true };
                    // Ten characters and a newline, as X servers read it.
                    writeln!(file, "{:>10}", std::process::id())?;
                    // A server without a lock may still use the number.
                    if UnixStream::connect(socket(number)).is_err() {
                        return Ok(reserved);
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(format!(
                        "cannot lock an X display with {}: {error}",
                        lock.display()
                    )
                    .into());
                }
            }
        }
        Err(format!(
            "no X display from :{FIRST} to :{LAST} is free: remove stale /tmp/.X*-lock files"
        )
        .into())
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// ":N".
    pub fn name(&self) -> String {
        format!(":{}", self.number)
    }

    /// Releases the lock for an X server that is started now and locks the display itself.
    pub fn unlock(&mut self) {
        if std::mem::take(&mut self.locked) {
            let _ = fs::remove_file(lock_file(self.number));
        }
    }
}

impl Drop for DisplayNumber {
    fn drop(&mut self) {
        if self.locked {
            // A server that was killed leaves its socket, and servers that do not try to connect
            // would think it in use.
            if UnixStream::connect(socket(self.number)).is_err() {
                let _ = fs::remove_file(socket(self.number));
            }
            self.unlock();
        }
    }
}

fn lock_file(number: u16) -> PathBuf {
    format!("/tmp/.X{number}-lock").into()
}

fn socket(number: u16) -> PathBuf {
    format!("/tmp/.X11-unix/X{number}").into()
}

/// Whether its owner has ended. An empty lock may be one that is being written.
fn is_stale(lock: &PathBuf) -> bool {
    let owner = fs::read_to_string(lock).ok().and_then(|text| text.trim().parse::<u32>().ok());
    owner.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_never_the_same_and_leave_nothing() -> Result<(), Error> {
        let (first, second) = (DisplayNumber::reserve()?, DisplayNumber::reserve()?);
        assert_ne!(first.number(), second.number());
        let locks = [lock_file(first.number()), lock_file(second.number())];
        assert!(locks.iter().all(|lock| lock.exists()), "{locks:?}");
        assert!(!is_stale(&locks[0]), "this process is alive");
        drop((first, second));
        assert!(!locks.iter().any(|lock| lock.exists()), "{locks:?}");
        Ok(())
    }

    #[test]
    fn a_lock_of_the_dead_is_stale() -> Result<(), Error> {
        let folder = crate::process::Folder::new("stale-lock")?;
        let lock = folder.path().join("lock");
        fs::write(&lock, "")?;
        assert!(!is_stale(&lock), "an empty one may be just being written");
        // Above the kernel's highest process id.
        fs::write(&lock, "   4194305\n")?;
        assert!(is_stale(&lock));
        Ok(())
    }
}
