//! Path 12/13, on disk: what a viewer keeps of the pixels it was shown, from one start of the program to the next.
//! From client.rs when it ends, and back when it connects; only where a person named a folder for it.
//! Knows files and who the server is. Whatever goes wrong here costs bytes on the network, and is said.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thinc_protocol::limits::CACHE_BYTES_MAX;
use thinc_viewer_core::{CACHE_BYTES_DEFAULT, Cache};

/// Files kept in the folder; the oldest go.
const FILES_MAX: usize = 8;
const SUFFIX: &str = ".thinc-cache";
/// Heads of pieces beside their pixels; a file is never longer than this and its pixels.
const HEADS_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// What may be kept, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of memory offered to the session; 0 for none.
    pub bytes: u64,
    /// A folder; `None` keeps nothing beyond the program's end.
    pub dir: Option<PathBuf>,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions { bytes: CACHE_BYTES_DEFAULT, dir: None }
    }
}

/// The file of one session on one server.
///
/// Its name holds the server's key: no other server is told what is in it, nor that it is there. The token inside is known
/// to that server's session alone, which takes it once.
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

    /// What was saved; an empty cache where there is nothing, or nothing of use, which is said.
    pub(crate) fn load(&self) -> Cache {
        match self.read() {
            Ok(cache) => cache,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    eprintln!("thinc-view: the cache {} is not used: {error}", self.path.display());
                }
                Cache::new(self.bytes_max)
            }
        }
    }

    fn read(&self) -> io::Result<Cache> {
        let limit = self.bytes_max.min(CACHE_BYTES_MAX) + HEADS_BYTES_MAX;
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(limit).read_to_end(&mut bytes)?;
        Cache::load(&bytes, self.bytes_max).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Saves it, whole or not at all; where that does not work, it is said and nothing else happens.
    pub(crate) fn save(&self, cache: &Cache) {
        if let Err(error) = self.write(cache) {
            eprintln!("thinc-view: the cache is not saved as {}: {error}", self.path.display());
        }
    }

    fn write(&self, cache: &Cache) -> io::Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
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

/// Leaves the newest files of ours in a folder.
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
            let path = std::env::temp_dir().join(format!("thinc-saved-{name}-{}", std::process::id()));
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
            assert_eq!(folder.file(server, port).read().unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        let path = folder.file(1, 4000).path;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.0)), (0o600, 0o700), "it holds a person's screen");
    }

    #[test]
    fn what_cannot_be_used_is_an_empty_cache() {
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
    fn a_folder_that_cannot_be_written_loses_nothing_else() {
        let folder = Folder::new("file");
        fs::write(&folder.0, "a file where a folder should be").unwrap();
        let file = folder.file(1, 4000);
        file.save(&Cache::new(1 << 20));
        assert_eq!(file.load(), Cache::new(1 << 20));
        fs::remove_file(&folder.0).unwrap();
    }

    #[test]
    fn old_files_go() {
        let folder = Folder::new("old");
        for server in 0..FILES_MAX as u8 + 3 {
            folder.file(server, 4000).save(&Cache::new(1 << 20));
        }
        assert_eq!(folder.names().len(), FILES_MAX);
        assert!(folder.file(FILES_MAX as u8 + 2, 4000).read().is_ok(), "the newest stays");
        assert!(folder.names().iter().all(|name| name.ends_with(SUFFIX)), "nothing is left half written");
    }
}
