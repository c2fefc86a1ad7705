//! Beside path 10/13: from ssh.rs, which has read the report of a host that lacks this version of
//! thinc, and back to it with an answer: use what is there, copy thinc there, or give up and say
//! what to do. The copy lies in ~/.local/share/thinc/VERSION and is found again the next time.
//! Knows what a server needs of a host; the script that does it there is install/bootstrap.sh.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use thinc_transport::host::HostReport;

use crate::question;
use crate::ssh::SshError;

mod files;

use files::{ServerFile, ServerFiles};

/// The version of thinc that this viewer brings, and looks for.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const SCRIPT: &str = include_str!("install/bootstrap.sh");
/// The package that has the server.
const PACKAGE: &str = "thinc-desktop-server";
/// 64 KiB: a piece of a file, after which the progress is shown.
const PIECE_BYTES: usize = 64 * 1024;
/// 0.2 s between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// 1 MiB beside the files, for folders.
const SPARE_KIB: u64 = 1024;

/// Whether thinc may be copied to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstallMode {
    /// Nothing is copied.
    Never,
    /// If the user says yes on the terminal.
    #[default]
    Ask,
    /// Without a question.
    Always,
}

/// Whether and from where thinc is copied to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallOptions {
    /// Whether.
    pub mode: InstallMode,
    /// Folder of the server's files on this machine; `None`: where its package has them.
    pub from: Option<PathBuf>,
}

/// What a script that starts thinc on a host is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// `thinc session --stdio`.
    Session,
    /// Remove what was copied.
    Remove,
}

/// What is copied, and why nothing else is used.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The driver, then the program.
    files: [ServerFile; 2],
    folder: String,
    other: Option<String>,
}

/// What the host is answered.
#[derive(Clone, Debug)]
enum Decision {
    /// Use the thinc of another version there.
    Use,
    Ask(Plan),
    Copy(Plan),
    /// There is no thinc; the reason if it could not be copied either.
    Refuse(Option<String>),
}

/// A version, compared number by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version(Vec<u32>);

impl Version {
    /// Numbers with points between them.
    fn parse(text: &str) -> Option<Version> {
        text.split('.').map(|number| number.parse().ok()).collect::<Option<_>>().map(Version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// The command line that runs the script on the host, with these arguments of thinc, whose
/// characters no shell interprets.
pub(crate) fn command_line(task: Task, arguments: &[String]) -> String {
    let task = match task {
        Task::Session => "session",
        Task::Remove => "remove",
    };
    let mut script = format!("version={VERSION} task={task}\nset -- {}\n", arguments.join(" "));
    for line in SCRIPT.lines().map(str::trim_start) {
        if !line.is_empty() && !line.starts_with('#') {
            script += line;
            script.push('\n');
        }
    }
    // In single quotes, sh, fish and csh leave all but these characters as they are; the backslash
    // is left too, if none of them follows. The sh that is started here reads the rest in double
    // quotes, and its printf restores the characters.
    let mut encoded = String::with_capacity(2 * script.len());
    for byte in script.bytes() {
        match byte {
            b'\'' | b'"' | b'\\' | b'!' | b'$' | b'`' => encoded += &format!("\\0{byte:03o}"),
            b' '..=b'~' => encoded.push(char::from(byte)),
            _ => encoded += &format!("\\0{byte:03o}"),
        }
    }
    format!("sh -c 'eval \"$(printf %b \"{encoded}\")\"'")
}

/// What the host is told: `None`, to use what is there; or the plan of a copy that the user wants.
///
/// # Errors
/// There is no thinc, and none is copied.
pub(crate) fn answer(
    host: &str,
    options: &InstallOptions,
    is_reconnect: bool,
    report: &HostReport,
) -> Result<Option<Plan>, SshError> {
    let can_ask = question::can_ask();
    // In the middle of a session nobody expects a question, or a copy.
    let mode = match options.mode {
        _ if is_reconnect => InstallMode::Never,
        InstallMode::Ask if !can_ask => InstallMode::Never,
        mode => mode,
    };
    let planned = || plan(report, ServerFiles::read(options.from.as_deref())?);
    match decide(mode, report.other.is_some(), planned) {
        Decision::Use => Ok(None),
        Decision::Copy(plan) => {
            let _ = writeln!(io::stderr(), "thinc-view: copying {}", plan.what(host));
            Ok(Some(plan))
        }
        Decision::Ask(plan) => {
            let _ = writeln!(io::stderr(), "{}", plan.explanation(host));
            match (question::ask("Copy it?"), &plan.other) {
                (true, _) => Ok(Some(plan)),
                (false, Some(_)) => Ok(None),
                (false, None) => {
                    let advice = format!(
                        "nothing was copied. Install the package {PACKAGE} there, or connect again \
                            and answer y"
                    );
                    Err(SshError::NotInstalled { host: host.to_owned(), advice })
                }
            }
        }
        Decision::Refuse(Some(why)) if mode != InstallMode::Never => {
            Err(SshError::CannotInstall { host: host.to_owned(), why })
        }
        Decision::Refuse(why) => {
            let or = match (why, planned()) {
                (Some(why), _) | (None, Err(why)) => {
                    format!(" (thinc-view cannot copy its own there: {why})")
                }
                (None, Ok(plan)) => format!(
                    ", or add --install always to copy {} there, into {}",
                    plan.name(),
                    plan.folder
                ),
            };
            let advice = format!("install the package {PACKAGE} there{or}");
            Err(SshError::NotInstalled { host: host.to_owned(), advice })
        }
    }
}

/// `planned` reads the files, and is called only if they might be copied.
fn decide(
    mode: InstallMode,
    has_other: bool,
    planned: impl FnOnce() -> Result<Plan, String>,
) -> Decision {
    if mode == InstallMode::Never {
        return if has_other { Decision::Use } else { Decision::Refuse(None) };
    }
    match planned() {
        Ok(plan) if mode == InstallMode::Ask => Decision::Ask(plan),
        Ok(plan) => Decision::Copy(plan),
        Err(_) if has_other => Decision::Use,
        Err(why) => Decision::Refuse(Some(why)),
    }
}

/// Which of the files this host gets.
///
/// # Errors
/// Why they would not work there, and what helps.
fn plan(report: &HostReport, files: ServerFiles) -> Result<Plan, String> {
    let HostReport { system, machine, libc, .. } = report;
    if system != "Linux" {
        return Err(format!("the host's system is {system:?}, and thinc needs Linux"));
    }
    let package = xorg_package(&report.os);
    let on = match report.os_name.as_str() {
        "" => String::new(),
        name => format!(" ({name})"),
    };
    let server = report
        .xorg
        .as_deref()
        .ok_or_else(|| format!("the host{on} has no Xorg. Install it there: {package}"))?;
    let abi = video_abi(server).ok_or_else(|| {
        format!(
            "thinc-view does not know the drivers of the host's Xorg {server}. A {PACKAGE} built \
                on that system brings its own"
        )
    })?;
    let driver = files.drivers.iter().find(|(of, _)| *of == abi).map(|(_, driver)| driver);
    let Some(driver) = driver.cloned() else {
        let have: Vec<String> = files.drivers.iter().map(|(abi, _)| abi.to_string()).collect();
        return Err(format!(
            "the host's Xorg {server}{on} loads drivers of video ABI {abi}, and the drivers here \
                are for {}. Update Xorg there ({package}), or name a folder with a driver for it \
                (--install-from)",
            have.join(", ")
        ));
    };
    let needs = files.needs(&driver);
    if needs.machine != machine {
        return Err(format!(
            "the host is a machine of type {machine}, and the thinc here is for {}. Unpack a \
                {PACKAGE} for {machine} and add --install-from FOLDER",
            needs.machine
        ));
    }
    // "glibc 2.36", "ldd (Debian GLIBC 2.36-9) 2.36", or "ldd (GNU libc) 2.36".
    let words = libc.to_ascii_lowercase();
    let is_glibc = words.contains("glibc") || words.contains("gnu libc");
    let has = is_glibc.then_some(libc);
    let has = has.and_then(|libc| Version::parse(libc.rsplit(' ').next()?));
    if has.as_ref().is_none_or(|has| *has < needs.glibc) {
        let has = has.map_or_else(|| format!("no glibc ({libc:?})"), |has| format!("glibc {has}"));
        return Err(format!(
            "the host has {has}, and the thinc here needs glibc {} or newer. Unpack a {PACKAGE} \
                for that system and add --install-from FOLDER",
            needs.glibc
        ));
    }
    let plan = Plan {
        files: [driver, files.program],
        folder: report.folder.clone(),
        other: report.other.clone(),
    };
    let need_kib = plan.bytes().div_ceil(1024) + SPARE_KIB;
    match report.free_kib {
        Some(free) if free < need_kib => Err(format!(
            "{} needs {need_kib} KiB in {}, and {free} KiB are free there",
            plan.name(),
            report.folder
        )),
        _ => Ok(plan),
    }
}

/// The package with the X server, and how it is installed.
fn xorg_package(os: &str) -> &'static str {
    for id in os.split_whitespace() {
        match id {
            "debian" | "ubuntu" => return "sudo apt install xserver-xorg-core",
            "fedora" | "rhel" | "centos" => return "sudo dnf install xorg-x11-server-Xorg",
            "arch" => return "sudo pacman -S xorg-server",
            "suse" | "opensuse" => return "sudo zypper install xorg-x11-server",
            "alpine" => return "apk add xorg-server",
            _ => {}
        }
    }
    "the package with Xorg, often called xorg-server"
}

/// Major version of the video ABI of an X server (hw/xfree86/common/xf86Module.h of each release).
fn video_abi(server: &str) -> Option<u32> {
    let mut numbers = server.split(['.', ' ']);
    match (numbers.next()?, numbers.next()?) {
        ("1", "17") => Some(19),
        ("1", "18") => Some(20),
        ("1", "19") => Some(23),
        ("1", "20") => Some(24),
        // Called 21.1 by its packages.
        ("1", "21") => Some(25),
        _ => None,
    }
}

impl Plan {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// `thinc 0.1.0 (10.8 MB)`.
    fn name(&self) -> String {
        format!("thinc {VERSION} ({:.1} MB)", self.bytes() as f64 / 1e6)
    }

    fn what(&self, host: &str) -> String {
        format!("{} to {} on {host}", self.name(), self.folder)
    }

    /// What the question is about.
    fn explanation(&self, host: &str) -> String {
        let (there, otherwise) = match &self.other {
            Some(other) => {
                let there = format!("{host} has {other}, and this is thinc-view {VERSION}.");
                (there, format!("\nIf you answer n, {other} is used."))
            }
            None => (format!("{host} has no thinc."), String::new()),
        };
        format!(
            "{there} thinc-view can copy its own there, for your account only:\n  {}\n\
             It stays there for the next time; thinc-view --uninstall ssh://{host} removes it.\
             {otherwise}",
            self.what(host)
        )
    }

    /// Sends the files. `next` waits until the host is ready for what follows, and returns what
    /// went wrong if it never is. It is told how long what precedes took to write: much of it may
    /// still be on its way, at the pace at which it was taken. `lost` says why nothing more can be
    /// written.
    pub(crate) fn send(
        &self,
        mut to: impl Write,
        mut next: impl FnMut(Duration) -> Result<(), SshError>,
        lost: impl Fn(io::Error) -> SshError,
    ) -> Result<(), SshError> {
        let mut progress = Progress::new(self.bytes());
        for ServerFile { name, mode, bytes, .. } in &self.files {
            let sum: String =
                Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("put {name} {} {sum} {mode}\n", bytes.len());
            to.write_all(line.as_bytes()).map_err(&lost)?;
            next(Duration::ZERO)?;
            let started = Instant::now();
            for piece in bytes.chunks(PIECE_BYTES) {
                to.write_all(piece).map_err(&lost)?;
                progress.show(piece.len());
            }
            next(started.elapsed())?;
        }
        progress.finish();
        to.write_all(b"run\n").map_err(&lost)
    }
}

/// Bytes sent so far, on a terminal.
struct Progress {
    sent: usize,
    bytes: u64,
    /// `None`: nobody watches.
    shown: Option<Instant>,
}

impl Progress {
    fn new(bytes: u64) -> Progress {
        let shown = io::stderr().is_terminal().then(Instant::now);
        Progress { sent: 0, bytes, shown }
    }

    fn show(&mut self, more: usize) {
        self.sent += more;
        if self.shown.is_some_and(|shown| shown.elapsed() >= PROGRESS_INTERVAL) {
            self.shown = Some(Instant::now());
            let (sent, all) = (self.sent as f64 / 1e6, self.bytes as f64 / 1e6);
            let _ = write!(io::stderr(), "\r{sent:.1} of {all:.1} MB ");
        }
    }

    fn finish(&self) {
        if self.shown.is_some() {
            let _ = writeln!(io::stderr(), "\r{:.1} MB copied.      ", self.bytes as f64 / 1e6);
        }
    }
}

#[cfg(test)]
mod tests;
