//! Certificate and key in files that are renewed while a server uses them: by certbot, which moves
//! a symbolic link, by a copy over the old file, by an administrator. From files, to identity.rs.
//! A pair that is half written, or does not belong together, is reported once and not used. Knows
//! files and their metadata; never who connects.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::identity::{Identity, IdentityError};

/// How often the files' metadata are read, which costs microseconds. No notification by the kernel:
/// it would have to watch every folder on the way of every symbolic link, and network file systems
/// send none. Files are read once they have stayed the same for one interval.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Readings of files that change meanwhile, before the next interval is waited for.
const READINGS_MAX: usize = 3;
/// Longest file; chains have less than 10 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What changes when a file is written, or another one takes its place: device, inode, size, and
/// the times of content and inode in seconds and nanoseconds. `None`: it cannot be read.
type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// The files of a certificate chain and its key; both may be one file.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    certificates: PathBuf,
    key: PathBuf,
    /// Of the files that were read last, whether they were used or not.
    read: [Stamp; 2],
}

/// What the files hold.
#[derive(Debug)]
pub struct Loaded {
    /// As it is shown.
    pub identity: Identity,
    /// The same as PEM, for another process.
    pub pem: Vec<u8>,
}

impl IdentityFiles {
    /// These files, not read yet.
    pub fn new(certificates: &Path, key: &Path) -> IdentityFiles {
        let (certificates, key) = (certificates.to_owned(), key.to_owned());
        IdentityFiles { certificates, key, read: [None, None] }
    }

    /// The chain's file.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    /// Reads the files.
    pub fn load(&mut self) -> Result<Loaded, IdentityError> {
        let mut readings = 0;
        loop {
            let before = self.stamps();
            self.read = before;
            let result = self.read();
            readings += 1;
            // Files that change while they are read may be halves of two pairs.
            if self.stamps() == before || readings >= READINGS_MAX {
                return result;
            }
        }
    }

    /// Reads the files if they have changed since they were last read.
    pub fn load_if_changed(&mut self) -> Option<Result<Loaded, IdentityError>> {
        (self.stamps() != self.read).then(|| self.load())
    }

    /// Waits until the files have changed, and reads them. Needs an event loop.
    pub async fn changed(&mut self) -> Result<Loaded, IdentityError> {
        let mut seen = self.read;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            // A file system that does not answer blocks a thread of its own.
            let files = self.clone();
            let now = match tokio::task::spawn_blocking(move || files.stamps()).await {
                Ok(now) => now,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            if now != self.read && now == seen {
                return self.load();
            }
            seen = now;
        }
    }

    fn stamps(&self) -> [Stamp; 2] {
        [&self.certificates, &self.key].map(|path| {
            // Of what the link points to, wherever that is now.
            let metadata = fs::metadata(path).ok()?;
            let times =
                [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
            Some((metadata.dev(), metadata.ino(), metadata.size(), times))
        })
    }

    fn read(&self) -> Result<Loaded, IdentityError> {
        let chain = read_file(&self.certificates, |_| Ok(()))?;
        let key = read_file(&self.key, |file| {
            // One that others can read is none.
            let mode = file.metadata().map_err(failed(&self.key))?.mode();
            if mode & 0o077 != 0 {
                return Err(IdentityError::Mode { path: self.key.clone(), mode: mode & 0o777 });
            }
            Ok(())
        })?;
        let identity = Identity::from_pem((&self.certificates, &chain), (&self.key, &key))?;
        let mut pem = chain;
        if self.certificates != self.key {
            pem.push(b'\n');
            pem.extend(key);
        }
        Ok(Loaded { identity, pem })
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = path.to_owned();
    move |error| IdentityError::File { what: "read", path, error }
}

fn read_file(
    path: &Path,
    check: impl FnOnce(&fs::File) -> Result<(), IdentityError>,
) -> Result<Vec<u8>, IdentityError> {
    let file = fs::File::open(path).map_err(failed(path))?;
    check(&file)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed(path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let error = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(IdentityError::Content { what: "PEM", path: path.to_owned(), error });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Two pairs in a folder, each in one file and as two files.
    struct Pairs(PathBuf);

    impl Pairs {
        fn make(name: &str) -> Pairs {
            let folder = std::env::temp_dir().join(format!("thinc-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            for pair in ["1", "2"] {
                drop(Identity::load_or_create(&folder.join(pair)).unwrap());
                let text = fs::read_to_string(folder.join(pair).join("identity.pem")).unwrap();
                let at = text.find("-----BEGIN CERTIFICATE").unwrap();
                fs::write(folder.join(pair).join("chain"), &text[at..]).unwrap();
                fs::write(folder.join(pair).join("key"), &text[..at]).unwrap();
                let private = fs::Permissions::from_mode(0o600);
                fs::set_permissions(folder.join(pair).join("key"), private).unwrap();
            }
            Pairs(folder)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn pin(&self, pair: &str) -> crate::SpkiPin {
            let path = self.path(pair).join("identity.pem");
            Identity::load(&path, &path).unwrap().pin()
        }
    }

    impl Drop for Pairs {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_moved_link_brings_the_other_pair_and_nothing_changes_meanwhile() {
        let pairs = Pairs::make("renewal-link");
        symlink("1", pairs.path("live")).unwrap();
        let live = pairs.path("live");
        let mut files = IdentityFiles::new(&live.join("chain"), &live.join("key"));
        let first = files.load().unwrap();
        assert_eq!(first.identity.pin(), pairs.pin("1"));
        assert!(files.load_if_changed().is_none());
        symlink("2", pairs.path("new")).unwrap();
        fs::rename(pairs.path("new"), &live).unwrap();
        let second = files.load_if_changed().unwrap().unwrap();
        assert_eq!(second.identity.pin(), pairs.pin("2"));
        assert!(files.load_if_changed().is_none());
        // What goes to another process is the same.
        let path = Path::new("both");
        let passed = Identity::from_pem((path, &second.pem), (path, &second.pem)).unwrap();
        assert_eq!(passed.pin(), pairs.pin("2"));
        // What was made from the first one shows the second from now on.
        let shown = first.identity.clone();
        first.identity.replace(&second.identity);
        assert_eq!(shown.pin(), pairs.pin("2"));
    }

    #[test]
    fn half_of_a_pair_is_refused_once_and_the_other_half_makes_it_whole() {
        let pairs = Pairs::make("renewal-half");
        fs::create_dir(pairs.path("used")).unwrap();
        let (chain, key) = (pairs.path("used/chain"), pairs.path("used/key"));
        let copy = |pair: &str, name: &str| {
            // A new file in its place, as with `mv`.
            fs::copy(pairs.path(pair).join(name), pairs.path("copy")).unwrap();
            fs::rename(pairs.path("copy"), pairs.path("used").join(name)).unwrap();
        };
        copy("1", "chain");
        copy("1", "key");
        let mut files = IdentityFiles::new(&chain, &key);
        assert_eq!(files.load().unwrap().identity.pin(), pairs.pin("1"));

        copy("2", "chain");
        let error = files.load_if_changed().unwrap().unwrap_err().to_string();
        assert!(error.contains("pair of certificate and key"), "{error}");
        assert!(files.load_if_changed().is_none(), "it is reported once");
        copy("2", "key");
        assert_eq!(files.load_if_changed().unwrap().unwrap().identity.pin(), pairs.pin("2"));

        // Cut off, readable by others, and gone.
        let whole = fs::read(&chain).unwrap();
        fs::write(&chain, &whole[..whole.len() / 2]).unwrap();
        let error = files.load_if_changed().unwrap().unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
        fs::write(&chain, &whole).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let error = files.load_if_changed().unwrap().unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::remove_file(&key).unwrap();
        let error = files.load_if_changed().unwrap().unwrap_err().to_string();
        assert!(error.contains(key.to_str().unwrap()), "{error}");
        assert!(files.load_if_changed().is_none());
    }
}
