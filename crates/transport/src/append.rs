//! Appends lines to files that others depend on: used tokens and keys of first visits. Beside the
//! path, from token.rs and pin.rs, to the file system. Knows lines; never what they mean.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

/// Appends a line to a file that was opened for reading and appending.
///
/// A full disk or a crash may have left part of an earlier line, which a reader skips: that is
/// ended first, or this line would become part of it and be skipped too. It is one write, so that
/// the lines of two processes cannot mix.
pub(crate) fn append_line(file: &mut File, line: &str) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut last = *b"\n";
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    let end_of_earlier = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{end_of_earlier}{line}\n").as_bytes())
}

/// Files that fill up while a test writes them.
#[cfg(test)]
pub(crate) mod tests {
    use std::process::Command;

    /// Runs the test of this name again in a process of its own, whose files cannot grow past
    /// `bytes`: a write beyond that is cut there, as on a full disk. Returns false there, where the
    /// test goes on, and true outside, where it has passed.
    pub(crate) fn passes_with_file_limit(test: &str, bytes: u64) -> bool {
        use rustix::process::{Resource, Rlimit, setrlimit};
        const MARK: &str = "THINC_TEST_FILE_LIMIT";
        if std::env::var_os(MARK).is_some() {
            let limit = Rlimit { current: Some(bytes), maximum: None };
            setrlimit(Resource::Fsize, limit).unwrap();
            return false;
        }
        // The shell ignores the signal of a file that is too large, and so does what it starts.
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(MARK, "1")
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && words.contains("1 passed"), "{words}");
        true
    }

    /// Lifts the limit: the disk has room again.
    pub(crate) fn lift_file_limit() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        setrlimit(Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
    }
}
