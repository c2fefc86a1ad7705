//! The X server's cookie, in the file format that Xlib and XCB read (libXau's Xauth(7)). From
//! supervisor.rs, to Xorg's -auth and the XAUTHORITY of COMMAND and the session process. Knows the
//! bytes of its entries; written with mode 0600 in a folder of mode 0700.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Matches every address: for Xlib and XCB.
const FAMILY_WILD: u16 = 0xffff;
/// Matches this host's name: python-xlib, and what builds on it, knows no other.
const FAMILY_LOCAL: u16 = 256;
const METHOD: &[u8] = b"MIT-MAGIC-COOKIE-1";
/// Linux lets a program wait here until the name changes (proc_sys_poll).
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Appends an entry: address, display number and method, each with a 16-bit big-endian length, then
/// the cookie.
fn entry(bytes: &mut Vec<u8>, family: u16, address: &[u8], cookie: &[u8; 16]) {
    bytes.extend_from_slice(&family.to_be_bytes());
    // An empty display number matches every display: the X server chooses its number after it has
    // read this file.
    for field in [address, b"", METHOD, cookie] {
        bytes.extend_from_slice(&(field.len() as u16).to_be_bytes());
        bytes.extend_from_slice(field);
    }
}

fn entries(host: &[u8], cookie: &[u8; 16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry(&mut bytes, FAMILY_LOCAL, host, cookie);
    entry(&mut bytes, FAMILY_WILD, b"", cookie);
    bytes
}

/// The file of one session.
#[derive(Debug)]
pub(crate) struct Xauthority {
    path: PathBuf,
    cookie: [u8; 16],
}

impl Xauthority {
    /// Writes a new file, readable by its owner only.
    pub(crate) fn write(path: &Path, cookie: [u8; 16]) -> io::Result<Xauthority> {
        let file = Xauthority { path: path.to_owned(), cookie };
        file.create(path)?;
        Ok(file)
    }

    /// Writes it again, for the host's present name. A program that reads it meanwhile finds the
    /// old one or the new one.
    pub(crate) fn rewrite(&self) -> io::Result<()> {
        let mut new = OsString::from(&self.path);
        new.push(".new");
        let _ = std::fs::remove_file(&new);
        self.create(Path::new(&new))?;
        std::fs::rename(&new, &self.path)
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        let name = rustix::system::uname();
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?
            .write_all(&entries(name.nodename().to_bytes(), &self.cookie))
    }
}

/// Waits for changes of the host's name.
#[derive(Debug)]
pub(crate) struct HostName {
    /// None: the system does not tell.
    changes: Option<AsyncFd<OwnedFd>>,
}

impl HostName {
    // tokio deprecated it because some types report a wrong descriptor; an OwnedFd cannot, and the
    // successor is unsafe to call.
    #[expect(deprecated)]
    pub(crate) fn watch() -> HostName {
        let wanted = Interest::PRIORITY | Interest::ERROR;
        let changes = File::open(HOST_NAME)
            .and_then(|file| AsyncFd::with_interest(OwnedFd::from(file), wanted));
        HostName { changes: changes.ok() }
    }

    /// Returns once it has changed since the last call.
    pub(crate) async fn changed(&self) {
        let wanted = Interest::PRIORITY | Interest::ERROR;
        if let Some(changes) = &self.changes
            && let Ok(mut ready) = changes.ready(wanted).await
        {
            return ready.clear_ready();
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_golden_bytes() {
        let mut golden = Vec::new();
        for address in [&b"\x01\x00\x00\x04host"[..], b"\xff\xff\x00\x00"] {
            golden.extend_from_slice(address);
            golden.extend_from_slice(b"\x00\x00\x00\x12MIT-MAGIC-COOKIE-1\x00\x10");
            golden.extend_from_slice(&[9; 16]);
        }
        assert_eq!(entries(b"host", &[9; 16]), golden);
    }

    #[test]
    fn a_file_that_is_written_again_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("thinc-xauthority-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("Xauthority");
        let file = Xauthority::write(&path, [9; 16]).unwrap();
        let first = std::fs::read(&path).unwrap();
        assert!(Xauthority::write(&path, [8; 16]).is_err(), "a file that is there is kept");
        file.rewrite().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
