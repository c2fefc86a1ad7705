//! Numbers for X displays. Abstract sockets are one set for each network namespace, but the sockets and locks in /tmp are
//! one set for all, and an X server that is told -displayfd looks at neither and takes what others already have.
//! Beside the path. Knows the lock files that X servers agree on; never which server a number is for.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::Error;

/// Above the numbers that people and `-displayfd` use; port 6000 and VNC's 5900 plus the last one are still ports.
const FIRST: u16 = 100;
const LAST: u16 = 999;

/// A display that is nobody else's on this machine, in whichever namespace, until this goes.
///
/// Start the X server with `:N` (and with `-displayfd` to learn when it is ready): servers that are not told `-displayfd`
/// refuse a display that is locked, and want [`DisplayNumber::unlock`] first.
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
                    // A server without a lock may be there all the same.
                    if UnixStream::connect(socket(number)).is_err() {
                        return Ok(reserved);
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("cannot lock an X display with {}: {error}", lock.display()).into()),
            }
        }
        Err(format!("no X display from :{FIRST} to :{LAST} is free: remove stale /tmp/.X*-lock files").into())
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// ":N".
    pub fn name(&self) -> String {
        format!(":{}", self.number)
    }

    /// Gives the lock to the X server that starts now and takes it itself.
    pub fn unlock(&mut self) {
        if std::mem::take(&mut self.locked) {
            let _ = fs::remove_file(lock_file(self.number));
        }
    }
}

impl Drop for DisplayNumber {
    fn drop(&mut self) {
        if self.locked {
            // A server that was killed leaves its socket, which would look taken to servers that do not try it.
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

/// Whether its owner is gone. A lock that says nothing may be one that is being written.
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
