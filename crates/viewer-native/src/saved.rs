//! Path 12/13: from client.rs when it ends, to a file, and back when it connects.
//! The pixel cache on disk, from one run of the program to the next, if the user named a folder for
//! it. Knows files and the server's key. An error here only costs bytes on the network, and is
//! reported.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use thinc_protocol::limits::CACHE_BYTES_MAX;
use thinc_viewer_core::{CACHE_BYTES_DEFAULT, Cache};

use crate::error::report;

/// 8: most files kept in the folder; the oldest are removed.
const FILES_MAX: usize = 8;
const SUFFIX: &str = ".thinc-cache";
/// 2 MiB for the headers of pieces; a longer file than this and its pixels is invalid.
const HEADS_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Size and folder of the pixel cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of memory offered to the session; 0 for none.
    pub bytes: u64,
    /// A folder; `None` saves nothing when the program ends.
    pub dir: Option<PathBuf>,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions { bytes: CACHE_BYTES_DEFAULT, dir: None }
    }
}

/// The file of one session on one server.
///
/// Its name holds the server's key, so another server learns nothing about it. Only that server's
/// session knows the token inside, and accepts it once.
#[derive(Debug)]
pub(crate) struct CacheFile {
    path: PathBuf,
    bytes_max: u64,
}

impl CacheFile {
    pub(crate) fn new(options: &CacheOptions, name: &str) -> Option<CacheFile> {
        let dir = options.dir.as_ref().filter(|_| options.bytes > 0)?;
        Some(CacheFile { path: dir.join(format!("{name}{SUFFIX}")), bytes_max: options.bytes })
    }

    /// Loads the saved cache; an empty one if there is none or if it is unusable, which is
    /// reported.
    pub(crate) fn load(&self) -> Cache {
        match self.read() {
            Ok(cache) => cache,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    report(format_args!("cannot use the cache {}: {error}", self.path.display()));
                }
                Cache::new(self.bytes_max)
            }
        }
    }

    /// Opens the file, if nobody else can have put it there.
    fn open(&self) -> io::Result<File> {
        check_owner("its folder", &fs::metadata(self.dir())?)?;
        // A link would lead to a file of another folder, and to open a pipe would wait for a
        // writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&self.path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        check_owner("it", &found)?;
        Ok(file)
    }

    fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn read(&self) -> io::Result<Cache> {
        let limit = self.bytes_max.min(CACHE_BYTES_MAX) + HEADS_BYTES_MAX;
        let mut bytes = Vec::new();
        self.open()?.take(limit).read_to_end(&mut bytes)?;
        Cache::load(&bytes, self.bytes_max)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Saves the cache atomically; an error is only reported.
    pub(crate) fn save(&self, cache: &Cache) {
        if let Err(error) = self.write(cache) {
            report(format_args!("cannot save the cache as {}: {error}", self.path.display()));
        }
    }

    fn write(&self, cache: &Cache) -> io::Result<()> {
        let dir = self.dir();
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // Another user who may write there could take the files away, or put others in their place.
        check_owner("its folder", &fs::metadata(dir)?)?;
        let part = self.path.with_extension(format!("{}.part", std::process::id()));
        let mut bytes = Vec::new();
        cache.save(&mut bytes);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)
            .and_then(|mut file| file.write_all(&bytes))
            .and_then(|()| fs::rename(&part, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written?;
        remove_oldest(dir)
    }
}

/// Checks that a file or folder is the user's own, and that no other user can change it.
fn check_owner(what: &str, found: &Metadata) -> io::Result<()> {
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner == geteuid().as_raw() && mode & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{what} belongs to user {owner} with mode {mode:o}; it must be yours, and nobody else \
             may write to it (chmod go-w)"
        ),
    ))
}

/// Removes all but the newest cache files of a folder.
fn remove_oldest(dir: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    files.sort_unstable();
    let surplus = files.len().saturating_sub(FILES_MAX);
    files.drain(..surplus).try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use thinc_transport::{Link, SpkiPin};

    use super::*;
    use crate::target::Target;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("thinc-saved-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn file(&self, server: u8, port: u16) -> CacheFile {
            let options = CacheOptions { bytes: 1 << 20, dir: Some(self.0.clone()) };
            let link: Link = format!("thinc://localhost:{port}/#t=AAAA").parse().unwrap();
            let name = Target::from(link).cache_name(Some(&SpkiPin([server; 32])));
            CacheFile::new(&options, &name).expect("a folder was named")
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_server_finds_its_own_file_and_no_other() {
        let folder = Folder::new("own");
        folder.file(1, 4000).save(&Cache::new(1 << 20));
        assert!(folder.file(1, 4000).read().is_ok());
        for (server, port) in [(2, 4000), (1, 4001)] {
            assert_eq!(
                folder.file(server, port).read().unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
        }
        let path = folder.file(1, 4000).path;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.0)), (0o600, 0o700), "it holds a person's screen");
    }

    #[test]
    fn an_unusable_file_is_an_empty_cache() {
        let folder = Folder::new("broken");
        let file = folder.file(1, 4000);
        file.save(&Cache::new(1 << 20));
        let good = fs::read(&file.path).unwrap();
        for bad in [&b"#!/bin/sh"[..], &good[..good.len() - 1], b""] {
            fs::write(&file.path, bad).unwrap();
            assert_eq!(file.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(file.load().pieces(), 0);
        }
    }

    #[test]
    fn what_another_user_may_have_put_there_is_not_used() {
        let folder = Folder::new("foreign");
        let file = folder.file(1, 4000);
        file.save(&Cache::new(1 << 20));
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o770, 0o707, 0o1777] {
            set(&folder.0, mode);
            assert_eq!(
                file.read().unwrap_err().kind(),
                io::ErrorKind::PermissionDenied,
                "{mode:o}"
            );
            assert_eq!(
                file.write(&Cache::new(1 << 20)).unwrap_err().kind(),
                io::ErrorKind::PermissionDenied
            );
        }
        set(&folder.0, 0o755);
        assert!(file.read().is_ok(), "who can only read the names of the files changes none");
        set(&file.path, 0o622);
        assert_eq!(file.read().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        set(&file.path, 0o600);
        let elsewhere = folder.0.join("elsewhere");
        fs::rename(&file.path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file.path).unwrap();
        assert!(file.read().is_err(), "a link");
        if geteuid().is_root() {
            fs::remove_file(&file.path).unwrap();
            fs::rename(&elsewhere, &file.path).unwrap();
            std::os::unix::fs::chown(&file.path, Some(65534), None).unwrap();
            assert_eq!(file.read().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_pipe_of_the_files_name_is_not_waited_for() {
        let folder = Folder::new("pipe");
        let file = folder.file(1, 4000);
        DirBuilder::new().mode(0o700).create(&folder.0).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file.path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(file.read().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(file.load().pieces(), 0);
    }

    #[test]
    fn an_unwritable_folder_has_no_other_effect() {
        let folder = Folder::new("file");
        fs::write(&folder.0, "a file where a folder should be").unwrap();
        let file = folder.file(1, 4000);
        file.save(&Cache::new(1 << 20));
        assert_eq!(file.load(), Cache::new(1 << 20));
        fs::remove_file(&folder.0).unwrap();
    }

    #[test]
    fn old_files_are_removed() {
        let folder = Folder::new("old");
        for server in 0..FILES_MAX as u8 + 3 {
            folder.file(server, 4000).save(&Cache::new(1 << 20));
        }
        assert_eq!(folder.names().len(), FILES_MAX);
        assert!(folder.file(FILES_MAX as u8 + 2, 4000).read().is_ok(), "the newest stays");
        assert!(
            folder.names().iter().all(|name| name.ends_with(SUFFIX)),
            "nothing is left half written"
        );
    }
}
