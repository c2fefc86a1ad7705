//! The key with which a broker signs this device's person in: one file for each server, for this
//! person only. Beside the path: used by client/sign_in.rs. Knows files and the server's key;
//! never the network.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use thinc_protocol::limits::NAME_BYTES_MAX;
use thinc_transport::device::DeviceKey;
use thinc_transport::{SpkiPin, base64url};
use xxhash_rust::xxh3::xxh3_64;

/// First line of a file.
const HEADER: &str = "thinc device 1";
/// Longest file; one has about 300 bytes.
const FILE_BYTES_MAX: u64 = 2048;
/// Characters of the server's name in a file's name.
const SHOWN_CHARS_MAX: usize = 64;

/// Whether a server is to remember this device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remember {
    /// The person is asked after a login.
    #[default]
    Ask,
    /// After each login.
    Yes,
    /// Never, and a key that there is is deleted.
    No,
}

/// Whether and where keys are kept.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Whether the server is to remember this device.
    pub remember: Remember,
    /// The folder of the keys; `None`: there are none.
    pub folder: Option<PathBuf>,
}

/// The file for one server.
#[derive(Debug)]
pub(crate) struct KeyFile {
    path: PathBuf,
    pin: SpkiPin,
}

/// A key that is written, and takes the place of an earlier one once the server remembers it.
#[derive(Debug)]
#[must_use = "dropping it deletes the key"]
pub(crate) struct NewKey {
    part: PathBuf,
    path: PathBuf,
}

impl NewKey {
    /// From now on it is the key for its server.
    ///
    /// # Errors
    /// It cannot be renamed; an earlier one stays.
    pub(crate) fn keep(self) -> io::Result<()> {
        fs::rename(&self.part, &self.path)
    }
}

impl Drop for NewKey {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

impl KeyFile {
    /// For the server at `authority`, which has shown this key; `None` if the person wants no keys.
    pub(crate) fn new(options: &DeviceOptions, authority: &str, pin: SpkiPin) -> Option<KeyFile> {
        if options.remember == Remember::No { None } else { KeyFile::at(options, authority, pin) }
    }

    fn at(options: &DeviceOptions, authority: &str, pin: SpkiPin) -> Option<KeyFile> {
        let shown: String = authority
            .chars()
            .take(SHOWN_CHARS_MAX)
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
            .collect();
        let name = format!("{shown}-{:016x}", xxh3_64(authority.as_bytes()));
        Some(KeyFile { path: options.folder.as_ref()?.join(name), pin })
    }

    /// For messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The key, unless it is for a server with another key, or there is none.
    ///
    /// # Errors
    /// The file cannot be read, is not what this program wrote, or others could have done.
    pub(crate) fn load(&self) -> io::Result<Option<DeviceKey>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&self.path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let found = file.metadata()?;
        let mode = found.mode() & 0o7777;
        if !found.is_file() || found.uid() != geteuid().as_raw() || mode & 0o077 != 0 {
            let text = format!("it has to be a file of yours alone, and has mode {mode:o}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it is no key of thinc-view");
        let (pin, key) = parse(&text).ok_or_else(invalid)?;
        if pin != self.pin {
            return Ok(None);
        }
        DeviceKey::from_pkcs8(&key).map(Some)
    }

    /// Writes a key beside an earlier one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn prepare(&self, key: &DeviceKey) -> io::Result<NewKey> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let found = fs::metadata(folder)?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            let text = format!("{} is not yours alone to write to", folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let part = folder.join(format!("{name}.{}.part", std::process::id()));
        // What a process of the same number has left that was killed.
        remove(&part)?;
        let new = NewKey { part, path: self.path.clone() };
        let text = format!("{HEADER}\n{}\n{}\n", self.pin, base64url::encode(key.pkcs8()));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new.part)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))?;
        Ok(new)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Deletes the key for this server, if the person wants none; the error names the file.
pub(crate) fn delete_unwanted(
    options: &DeviceOptions,
    authority: &str,
) -> Result<(), (PathBuf, io::Error)> {
    match KeyFile::at(options, authority, SpkiPin([0; 32])) {
        Some(file) if options.remember == Remember::No => {
            remove(&file.path).map_err(|error| (file.path, error))
        }
        _ => Ok(()),
    }
}

/// Whether there is a key for this server that may be used, whatever key the server shows.
pub(crate) fn has_key(options: &DeviceOptions, authority: &str) -> bool {
    let file = KeyFile::new(options, authority, SpkiPin([0; 32]));
    file.is_some_and(|file| file.path.exists())
}

fn parse(text: &str) -> Option<(SpkiPin, Vec<u8>)> {
    let mut lines = text.lines();
    let (header, pin, key) = (lines.next()?, lines.next()?, lines.next()?);
    let is_whole = header == HEADER && lines.next().is_none() && text.ends_with('\n');
    is_whole.then_some(())?;
    Some((pin.parse().ok()?, base64url::decode(key)?))
}

/// This device, as its person sees it in the list of the server.
pub(crate) fn device_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("thinc-view, {}", thinc_protocol::wire::printable(&host));
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn options(name: &str) -> (DeviceOptions, PathBuf) {
        let folder =
            std::env::temp_dir().join(format!("thinc-device-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        (DeviceOptions { remember: Remember::Yes, folder: Some(folder.clone()) }, folder)
    }

    #[test]
    fn a_key_is_for_one_server_with_one_key_and_for_one_person() {
        let (options, folder) = options("own");
        let file = |authority: &str, pin: u8| {
            KeyFile::new(&options, authority, SpkiPin([pin; 32])).unwrap()
        };
        let own = file("desk.example:8443", 1);
        assert!(own.load().unwrap().is_none());
        let key = DeviceKey::generate().unwrap();
        own.prepare(&key).unwrap().keep().unwrap();
        assert_eq!(own.load().unwrap().unwrap().id(), key.id());
        // One that the server does not remember leaves the earlier one.
        drop(own.prepare(&DeviceKey::generate().unwrap()).unwrap());
        assert_eq!(own.load().unwrap().unwrap().id(), key.id());
        assert!(file("desk.example:8443", 2).load().unwrap().is_none(), "another key");
        assert!(file("desk.example:8444", 1).load().unwrap().is_none(), "another port");
        assert!(file("desk_example:8443", 1).load().unwrap().is_none(), "another name");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(own.path()), mode(&folder)), (0o600, 0o700));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left half written");

        let whole = fs::read(own.path()).unwrap();
        for bad in [&b""[..], &whole[..whole.len() - 1], b"#!/bin/sh\n"] {
            fs::write(own.path(), bad).unwrap();
            assert_eq!(own.load().unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        fs::write(own.path(), &whole).unwrap();
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(own.load().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(own.prepare(&key).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir_all(folder).unwrap();
        assert!(KeyFile::new(&DeviceOptions::default(), "a", SpkiPin([0; 32])).is_none());
    }

    #[test]
    fn who_wants_no_key_has_none_even_if_it_cannot_be_deleted() {
        let (wanted, folder) = options("unwanted");
        let pin = SpkiPin([1; 32]);
        let file = KeyFile::new(&wanted, "desk.example", pin).unwrap();
        file.prepare(&DeviceKey::generate().unwrap()).unwrap().keep().unwrap();
        delete_unwanted(&wanted, "desk.example").unwrap();
        assert!(has_key(&wanted, "desk.example") && file.load().unwrap().is_some());
        let unwanted = DeviceOptions { remember: Remember::No, ..wanted.clone() };
        assert!(!has_key(&unwanted, "desk.example"));
        assert!(KeyFile::new(&unwanted, "desk.example", pin).is_none());
        for _ in 0..2 {
            delete_unwanted(&unwanted, "desk.example").unwrap();
            assert!(!has_key(&wanted, "desk.example"));
        }
        fs::create_dir(file.path()).unwrap();
        assert_eq!(delete_unwanted(&unwanted, "desk.example").unwrap_err().0, file.path());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_device_has_a_name_that_a_server_accepts() {
        let name = device_name();
        assert!(name.starts_with("thinc-view") && name.len() <= NAME_BYTES_MAX, "{name}");
    }
}
