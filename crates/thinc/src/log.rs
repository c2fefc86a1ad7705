//! Logs of the output of the X server, the session process and COMMAND, of limited size. From their
//! pipes, to $XDG_STATE_HOME/thinc/log/NAME/. Knows bytes and a limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// 2 MiB: past the limit the file is renamed to NAME.old, so that each log takes at most twice
/// that.
const LOG_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Creates the folder, accessible by this user only.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// One log file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Log {
    pub(crate) fn create(path: PathBuf) -> io::Result<Log> {
        let file = open(&path)?;
        Ok(Log { path, file, bytes: 0 })
    }

    /// Continues an earlier log.
    pub(crate) fn append(path: PathBuf) -> io::Result<Log> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Log { path, file, bytes })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes + bytes.len() as u64 > LOG_BYTES_MAX {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            match fs::rename(&self.path, old) {
                // Renamed before, by an attempt that could not create the new file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
            self.file = open(&self.path)?;
            self.bytes = 0;
        }
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Copies a pipe until its end. On a full disk lines are lost, but the program that prints them
    /// is not blocked.
    pub(crate) async fn copy_from(mut self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let _ = self.write(&buffer[..count]);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The last lines of a log that `choose` accepts, for an error message; empty if there are none.
pub(crate) fn last_lines(path: &Path, count: usize, choose: impl Fn(&str) -> bool) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| choose(line)).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| format!("\n    {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_stays_below_twice_its_limit_and_keeps_the_newest() {
        let folder = std::env::temp_dir().join(format!("thinc-log-{}", std::process::id()));
        create_folder(&folder).unwrap();
        let mut log = Log::create(folder.join("x.log")).unwrap();
        let line = [b'x'; 4096];
        for _ in 0..(LOG_BYTES_MAX * 3 / 4096) {
            log.write(&line).unwrap();
        }
        log.write(b"the end\n").unwrap();
        let size = |name: &str| fs::metadata(folder.join(name)).unwrap().len();
        assert!(size("x.log") <= LOG_BYTES_MAX && size("x.log.old") <= LOG_BYTES_MAX);
        assert!(last_lines(&folder.join("x.log"), 1, |_| true).ends_with("the end"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_log_whose_new_file_could_not_be_created_continues_later() {
        let folder = std::env::temp_dir().join(format!("thinc-log-lost-{}", std::process::id()));
        create_folder(&folder).unwrap();
        let mut log = Log::create(folder.join("x.log")).unwrap();
        // As after an attempt that was out of descriptors once the file had been renamed.
        log.bytes = LOG_BYTES_MAX;
        fs::rename(folder.join("x.log"), folder.join("x.log.old")).unwrap();
        log.write(b"the end\n").unwrap();
        assert!(last_lines(&folder.join("x.log"), 1, |_| true).ends_with("the end"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
