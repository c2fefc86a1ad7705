//! What the X server, the session process and COMMAND print, kept in files that cannot grow without end.
//! From their pipes, to $XDG_STATE_HOME/thinc/log/NAME/.
//! Knows bytes and a limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// 2 MiB: past it the file becomes NAME.old, so that each log takes at most twice that.
const LOG_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Makes the folder, for this user alone.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// One log, begun anew.
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

    /// Goes on where an earlier one ended.
    pub(crate) fn append(path: PathBuf) -> io::Result<Log> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Log { path, file, bytes })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes + bytes.len() as u64 > LOG_BYTES_MAX {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            fs::rename(&self.path, old)?;
            self.file = open(&self.path)?;
            self.bytes = 0;
        }
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Copies a pipe until its end. A full disk loses lines; it does not stop the one who prints them.
    pub(crate) async fn keep(mut self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let _ = self.write(&buffer[..count]);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The last lines of a log that `choose` picks, for an error message; empty when there are none.
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
        make_folder(&folder).unwrap();
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
}
