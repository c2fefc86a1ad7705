//! The audit log: who logged in or out, from where, which desktop, how long; one JSON object a
//! line. Beside the path: from helper.rs, to a file of root and to the journal. Knows names and
//! addresses; never a secret, nor a name that no account has: it may be a password in the wrong
//! field.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use thinc_session_server::log::{self, LogFormat};
use tracing::{info, warn};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// Somebody has proved who they are, and may log in.
    Login,
    /// An attempt was refused, or given up after a password was tried.
    Refusal,
    /// A device of a person is remembered from now on.
    Remembered,
    /// It is not any more; `reason` says why.
    Forgotten,
    /// A login has ended; `reason` says why.
    Logout,
    /// The last process of a login has ended.
    ProcessesEnded,
    /// A desktop was started.
    SessionStarted,
    /// A viewer was connected with a desktop.
    SessionOpened,
    /// A guest's viewer was connected with a desktop of this user.
    GuestCame,
    /// The viewer of a person or a guest was disconnected.
    SessionLeft,
    /// A person or the administrator has ended a desktop.
    SessionEnded,
    /// The administrator has shown a message on a desktop.
    Message,
    /// Earlier events could not be written; `count` says how many.
    Lost,
}

/// An event with what is known of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry<'a> {
    pub(crate) event: Event,
    /// Counts the logins of this broker process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<u64>,
    /// `None` if no account has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<IpAddr>,
    /// How somebody has logged in, if not with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) how: Option<&'a str>,
    /// A remembered device's ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    /// The user ID with which the administrator logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(event: Event) -> Entry<'a> {
        Entry {
            event,
            login: None,
            user: None,
            from: None,
            how: None,
            device: None,
            session: None,
            seconds: None,
            reason: None,
            by: None,
            count: None,
        }
    }

    /// How long that lasted.
    pub(crate) fn lasted(self, time: Duration) -> Entry<'a> {
        Entry { seconds: Some(time.as_secs()), ..self }
    }
}

/// A line, without its end.
#[derive(Serialize)]
struct Line<'a> {
    /// RFC 3339, in UTC.
    time: String,
    #[serde(flatten)]
    entry: &'a Entry<'a>,
}

/// Where events go: to the journal, and to a file if there is one.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<AuditFile>,
}

impl Audit {
    /// Into this file too; it is created for root alone.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Audit> {
        Ok(Audit { file: path.map(AuditFile::open).transpose()? })
    }

    /// Never fails: people go on working while a disk is full. The journal then has the event.
    pub(crate) fn record(&mut self, entry: &Entry<'_>) {
        let line = line(entry, SystemTime::now());
        // Whatever the log's level. The line goes on where nobody reads it any more.
        let prefix = match log::format() {
            LogFormat::Text => "thinc: audit: ",
            LogFormat::Json => "",
        };
        let _ = writeln!(io::stderr(), "{prefix}{line}");
        if let Some(file) = &mut self.file {
            file.append(&line);
        }
    }
}

fn line(entry: &Entry<'_>, now: SystemTime) -> String {
    let time = humantime::format_rfc3339_millis(now).to_string();
    let json = serde_json::to_string(&Line { time, entry });
    log::escaped(&json.expect("texts, numbers and addresses have a JSON form"))
}

/// A file to which whole lines are appended.
#[derive(Debug)]
struct AuditFile {
    path: PathBuf,
    file: File,
    /// It ends within a line: a disk was full, or the machine lost power.
    is_torn: bool,
    /// Events that it lacks.
    lost: u64,
}

impl AuditFile {
    fn open(path: &Path) -> io::Result<AuditFile> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            // What is there must not be a link of somebody else, nor a pipe that blocks.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        file.set_permissions(Permissions::from_mode(0o600))?;
        let mut is_torn = false;
        if file.seek(SeekFrom::End(0))? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            is_torn = last != *b"\n";
        }
        Ok(AuditFile { path: path.to_owned(), file, is_torn, lost: 0 })
    }

    fn append(&mut self, line: &str) {
        let result = self.reopen_if_rotated().and_then(|()| {
            if self.lost > 0 {
                let entry = Entry { count: Some(self.lost), ..Entry::new(Event::Lost) };
                let lost = self::line(&entry, SystemTime::now());
                self.write_line(&lost)?;
                info!("{}: written again", self.path.display());
                self.lost = 0;
            }
            self.write_line(line)
        });
        if let Err(error) = result {
            if self.lost == 0 {
                warn!("{}: {error}; events are lost there", self.path.display());
            }
            self.lost += 1;
        }
    }

    /// A part of a line that could be written ends where the next line begins.
    fn write_line(&mut self, line: &str) -> io::Result<()> {
        let start = if self.is_torn { "\n" } else { "" };
        let bytes = format!("{start}{line}\n").into_bytes();
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    written += count;
                    self.is_torn = bytes[written - 1] != b'\n';
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A program such as logrotate has renamed or removed it.
    fn reopen_if_rotated(&mut self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        let there = std::fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(());
        }
        let lost = self.lost;
        *self = AuditFile { lost, ..AuditFile::open(&self.path)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("thinc-audit-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    fn login(user: &str) -> Entry<'_> {
        Entry { user: Some(user), ..Entry::new(Event::Login) }
    }

    /// The users of the lines that are whole.
    fn users(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter_map(|line: serde_json::Value| Some(line["user"].as_str()?.to_owned()))
            .collect()
    }

    #[test]
    fn a_line_has_what_is_known_and_no_control_character() {
        let entry = Entry {
            login: Some(3),
            from: Some([192, 0, 2, 7].into()),
            session: Some("desk"),
            ..login("a\n\u{1b}[2K\u{9b}\u{202e}\"ü")
        };
        let text = line(&entry.lasted(Duration::from_millis(61_900)), SystemTime::UNIX_EPOCH);
        assert_eq!(
            text,
            r#"{"time":"1970-01-01T00:00:00.000Z","event":"login","login":3,"#.to_owned()
                + r#""user":"a\n\u001b[2K\u009b\u202e\"ü","from":"192.0.2.7","session":"desk","#
                + r#""seconds":61}"#
        );
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["user"], "a\n\u{1b}[2K\u{9b}\u{202e}\"ü");
    }

    #[test]
    fn a_partial_line_never_joins_the_next() {
        let folder = folder("torn");
        let path = folder.join("log");
        std::fs::write(&path, r#"{"event":"login","us"#).unwrap();
        let mut audit = Audit::open(Some(&path)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        audit.record(&login("anna"));
        audit.record(&login("otto"));
        assert_eq!(users(&path), ["anna", "otto"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_full_disk_loses_events_and_says_how_many() {
        let folder = folder("full");
        let path = folder.join("log");
        let mut audit = Audit::open(Some(&path)).unwrap();
        // It refuses every byte as a full disk does.
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = audit.file.as_mut().unwrap();
        let real = std::mem::replace(&mut file.file, full);
        assert!(file.write_line("x").is_err());
        file.file = real;
        file.lost = 2;
        audit.record(&login("anna"));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains(r#""event":"lost","count":2"#), "{text}");
        assert_eq!((lines.len(), users(&path)), (2, vec!["anna".to_owned()]));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_rotated_file_is_followed_by_a_new_one_and_a_link_is_not() {
        let folder = folder("rotated");
        let path = folder.join("log");
        let mut audit = Audit::open(Some(&path)).unwrap();
        audit.record(&login("anna"));
        std::fs::rename(&path, folder.join("log.1")).unwrap();
        audit.record(&login("otto"));
        assert_eq!(users(&folder.join("log.1")), ["anna"]);
        assert_eq!(users(&path), ["otto"]);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.join("elsewhere"), &path).unwrap();
        assert!(Audit::open(Some(&path)).is_err());
        audit.record(&login("emma"));
        assert!(!folder.join("elsewhere").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
