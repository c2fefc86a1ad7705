//! What a host without this version of thinc says of itself, before the viewer decides whether it
//! copies thinc there. From thinc-view's install/bootstrap.sh on the host, to install.rs. Knows
//! text; never ssh, and nothing of what the values mean.

use thinc_protocol::wire::is_deceptive;
use thiserror::Error;

/// What the report begins with. Output before it belongs to start-up files of the shell.
const HEAD: &[u8] = b"\x1ethinc host 1\n";
/// The line after the last value.
const END: &str = "end";
/// 16 KiB: longest report; one has about 400 bytes.
const REPORT_BYTES_MAX: usize = 16 * 1024;
/// Longest value, in characters; a path that is longer is shown in part. The user reads them in a
/// question.
const VALUE_CHARS_MAX: usize = 200;

/// The report. A value that the host does not know is empty. None holds control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostReport {
    /// As `uname -s` says: Linux.
    pub system: String,
    /// As `uname -m` says: x86_64.
    pub machine: String,
    /// Name and version of the C library: glibc 2.36.
    pub libc: String,
    /// Identifiers of the distribution and of those it is derived from: ubuntu debian.
    pub os: String,
    /// The distribution's name for people.
    pub os_name: String,
    /// Name and version of the thinc in PATH, which is another one.
    pub other: Option<String>,
    /// Where this version belongs.
    pub folder: String,
    /// Free space there, in KiB.
    pub free_kib: Option<u64>,
    /// Version of the X server: 1.21.1.7.
    pub xorg: Option<String>,
    /// Folders from which thinc was removed, if that was requested.
    pub removed: Vec<String>,
}

/// The report cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an invalid report about the host")]
pub struct ReportError;

impl HostReport {
    /// Searches for a report in all bytes received so far. `None`: there is none yet, or it is not
    /// complete.
    ///
    /// # Errors
    /// The report is longer than 16 KiB.
    pub fn find(bytes: &[u8]) -> Result<Option<HostReport>, ReportError> {
        let Some(at) = begins_at(bytes) else { return Ok(None) };
        let rest = &bytes[at + HEAD.len()..];
        let mut report = HostReport::default();
        let mut length = 0;
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            length += line.len();
            let Some(line) = line.strip_suffix(b"\n") else { break };
            if length > REPORT_BYTES_MAX {
                return Err(ReportError);
            }
            let line = plain(line);
            if line == END {
                return Ok(Some(report));
            }
            let (name, value) = line.split_once(' ').unwrap_or((&line, ""));
            report.take(name, value.trim());
        }
        if length > REPORT_BYTES_MAX { Err(ReportError) } else { Ok(None) }
    }

    /// Whether a report has begun.
    pub fn has_begun(bytes: &[u8]) -> bool {
        begins_at(bytes).is_some()
    }

    /// A later version may say more.
    fn take(&mut self, name: &str, value: &str) {
        let value = value.to_owned();
        match name {
            "system" => self.system = value,
            "machine" => self.machine = value,
            "libc" => self.libc = value,
            "os" => self.os = value,
            "name" => self.os_name = value,
            "other" => self.other = Some(value),
            "folder" => self.folder = value,
            "free" => self.free_kib = value.parse().ok(),
            "xorg" => self.xorg = Some(value),
            "removed" => self.removed.push(value),
            _ => {}
        }
    }
}

fn begins_at(bytes: &[u8]) -> Option<usize> {
    bytes.windows(HEAD.len()).position(|window| window == HEAD)
}

/// Text that can be shown: no terminal takes any of it for a command.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.chars().filter(|c| !is_deceptive(*c)).take(VALUE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &[u8] =
        b"Welcome!\n\x1ethinc host 1\nsystem Linux\nmachine x86_64\nlibc glibc 2.36\n\
        os debian \nname Debian GNU/Linux 12 (bookworm)\nother thinc 0.0.9\nnews of later\n\
        folder /home/me and you/.local/share/thinc/0.1.0\nfree 1234\nxorg 1.21.1.7\nend\n";

    #[test]
    fn a_report_is_found_once_it_is_complete() {
        for end in 0..REPORT.len() {
            assert_eq!(HostReport::find(&REPORT[..end]), Ok(None), "{end}");
        }
        let report = HostReport::find(REPORT).unwrap().unwrap();
        let expected = HostReport {
            system: "Linux".into(),
            machine: "x86_64".into(),
            libc: "glibc 2.36".into(),
            os: "debian".into(),
            os_name: "Debian GNU/Linux 12 (bookworm)".into(),
            other: Some("thinc 0.0.9".into()),
            folder: "/home/me and you/.local/share/thinc/0.1.0".into(),
            free_kib: Some(1234),
            xorg: Some("1.21.1.7".into()),
            removed: Vec::new(),
        };
        assert_eq!(report, expected);
        assert!(HostReport::has_begun(REPORT) && !HostReport::has_begun(&REPORT[..20]));
    }

    #[test]
    fn what_is_missing_or_strange_is_left_empty_and_nothing_speaks_to_a_terminal() {
        let report = HostReport::find(b"\x1ethinc host 1\nfree \nfolder /\x1b[2Ja\xff\n\nend\n");
        let report = report.unwrap().unwrap();
        assert_eq!((report.free_kib, report.xorg), (None, None));
        assert_eq!(report.folder, "/[2Ja\u{fffd}");
    }

    #[test]
    fn an_endless_report_is_an_error() {
        let head = b"\x1ethinc host 1\n";
        let lines = [&head[..], &b"name a\n".repeat(REPORT_BYTES_MAX / 7 + 1)].concat();
        assert_eq!(HostReport::find(&lines), Err(ReportError));
        let line = [&head[..], &vec![b'x'; REPORT_BYTES_MAX + 1]].concat();
        assert_eq!(HostReport::find(&line), Err(ReportError));
    }
}
