//! A desktop's control group where systemd owns version 2 of them: a scope (systemd.scope(5)) in
//! the slice of its user, delegated, so that systemd leaves what is below it to session_groups.rs.
//! Beside the path: from there, to systemd by its own commands. Knows units and weights; never a
//! process of the desktop.
//!
//! Desktops stay in the slices of their users, not in one of thinc's: logind and polkit tell by the
//! slice whose a process is. So the user's slice is what goes before or behind those of others.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::cgroup::Home;
use crate::limits::at;

/// Before a name of a desktop, in that of its scope.
const PREFIX: &str = "thinc-";
/// Longest text of an error of systemd's commands, in bytes.
const ERROR_BYTES_MAX: usize = 512;
/// A command of systemd that takes longer is ended: a person waits for their desktop. systemd
/// answers within 0.1 s, and within seconds while it reads its units again.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The kernel ends a process that finds no memory, not systemd the desktop. Versions before 253 do
/// not know the property, and do so.
const OOM_POLICY: &str = "OOMPolicy=continue";

/// What siblings weigh (`CPUWeight`), of a desktop in its user's slice, and of that slice.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    pub(crate) scope: u32,
    pub(crate) slice: u32,
}

/// The scope of one desktop.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    unit: String,
    slice: String,
    pub(crate) folder: PathBuf,
}

/// A process in a new scope, which ends with this: a scope without processes ends.
pub(crate) struct Holder {
    pub(crate) process: u32,
    // Closed when it is dropped, upon which the process ends.
    _input: ChildStdin,
}

impl Scope {
    /// Starts the scope of a desktop of this user, with properties as systemd-run(1) takes them.
    /// `home` is any group of the hierarchy.
    pub(crate) fn start(
        home: &Home,
        name: &str,
        uid: u32,
        properties: &[String],
    ) -> Result<(Scope, Holder), String> {
        let (unit, slice) = (format!("{PREFIX}{name}.scope"), slice_of(uid));
        let with = [properties, &[OOM_POLICY.to_owned()]].concat();
        let holder = match Holder::start(&unit, &slice, &with) {
            Err(error) if error.contains("OOMPolicy") => Holder::start(&unit, &slice, properties),
            started => started,
        }?;
        let path = PathBuf::from(format!("/proc/{}/cgroup", holder.process));
        let own = fs::read_to_string(&path).map_err(at(&path))?;
        let folder = home
            .folder_of(&own, "")
            .filter(|folder| folder.file_name().is_some_and(|found| found == unit.as_str()))
            .ok_or_else(|| {
                format!("systemd has not put {unit} into a group of its own: {own:?}")
            })?;
        Ok((Scope { unit, slice, folder }, holder))
    }

    /// Its user's slice gets the weight of the user's heaviest desktop. A new scope has the usual
    /// one.
    pub(crate) fn weigh_slice(&self, all: &[Weights]) -> Result<(), String> {
        let _lock = self.lock()?;
        self.weigh_slice_with(None, all)
    }

    /// This desktop gets a weight, and its user's slice that of the user's heaviest desktop.
    pub(crate) fn weigh(&self, weight: u32, all: &[Weights]) -> Result<(), String> {
        let _lock = self.lock()?;
        set_weight(&self.unit, Some(weight))?;
        // systemd answers before the kernel knows it.
        self.weigh_slice_with(Some(Own::Weighs(weight)), all)
    }

    /// This desktop has ended: the slice gets the weight of the heaviest one that is left.
    pub(crate) fn leave_slice(&self, all: &[Weights]) -> Result<(), String> {
        let _lock = self.lock()?;
        self.weigh_slice_with(Some(Own::HasEnded), all)
    }

    fn weigh_slice_with(&self, own: Option<Own>, all: &[Weights]) -> Result<(), String> {
        let Some(folder) = self.folder.parent() else { return Ok(()) };
        let heaviest = fs::read_dir(folder)
            .map_err(at(folder))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|scope| is_populated(scope))
            .filter_map(|scope| match own {
                Some(Own::Weighs(weight)) if scope == self.folder => Some(weight),
                Some(Own::HasEnded) if scope == self.folder => None,
                _ => weight_of(&scope),
            })
            .max();
        let weight = heaviest.and_then(|heaviest| {
            let lighter = all.iter().filter(|weights| weights.scope <= heaviest);
            lighter.map(|weights| weights.slice).max()
        });
        set_weight(&self.slice, weight)
    }

    /// Each login of a user has a process of its own, which changes the same slice. Only root can
    /// open the file, so nobody else keeps the others waiting.
    fn lock(&self) -> Result<File, String> {
        let path = PathBuf::from(format!("/run/thinc-{}.lock", self.slice));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(&path).map_err(at(&path))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| at(&path)(error.into()))?;
        Ok(file)
    }
}

/// Of a scope, what the kernel does not say yet.
#[derive(Clone, Copy)]
enum Own {
    Weighs(u32),
    HasEnded,
}

impl Holder {
    fn start(unit: &str, slice: &str, properties: &[String]) -> Result<Holder, String> {
        let mut command = Command::new("systemd-run");
        command.args(["--scope", "--quiet", "--collect", "--unit", unit, "--slice", slice]).args([
            "--description",
            "A desktop of thinc",
            "--property",
            "Delegate=yes",
        ]);
        for property in properties {
            command.args(["--property", property]);
        }
        // It answers once systemd has put it into the scope.
        command.args(["--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start(&mut command)?;
        let process = child.id();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(mut input), Some(mut output)) = (input, output) else {
            return Err("systemd-run has no standard input".to_owned());
        };
        let until = Instant::now() + ANSWER_TIME_MAX;
        // Where it has ended, it says why on its standard error.
        let _ = input.write_all(b"\n");
        match read(&mut output, 1, until) {
            Ok(answer) if !answer.is_empty() => Ok(Holder { process, _input: input }),
            _ => {
                drop(input);
                Err(format!("systemd-run {unit}: {}", error_of(&mut child, until)))
            }
        }
    }
}

fn slice_of(uid: u32) -> String {
    format!("user-{uid}.slice")
}

/// Whether this is the scope of a desktop, with processes.
fn is_populated(scope: &Path) -> bool {
    let name = scope.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let events = || fs::read_to_string(scope.join("cgroup.events")).unwrap_or_default();
    name.starts_with(PREFIX) && name.ends_with(".scope") && events().contains("populated 1")
}

fn weight_of(group: &Path) -> Option<u32> {
    fs::read_to_string(group.join("cpu.weight")).ok()?.trim().parse().ok()
}

/// `None` is the usual weight.
fn set_weight(unit: &str, weight: Option<u32>) -> Result<(), String> {
    let weight = weight.map(|weight| weight.to_string()).unwrap_or_default();
    let mut command = Command::new("systemctl");
    command.args(["--quiet", "set-property", "--runtime", unit, &format!("CPUWeight={weight}")]);
    let mut child = start(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    match error_of(&mut child, Instant::now() + ANSWER_TIME_MAX) {
        error if error.is_empty() => Ok(()),
        error => Err(format!("systemctl set-property {unit}: {error}")),
    }
}

fn start(command: &mut Command) -> Result<Child, String> {
    let program = PathBuf::from(command.get_program());
    command.stderr(Stdio::piped()).spawn().map_err(at(&program))
}

/// Waits until a program has ended, and returns what it had to say about an error; one that has not
/// ended by then is killed. Another thread of a login process waits for all its children, and may
/// have got the status.
fn error_of(child: &mut Child, until: Instant) -> String {
    let Some(mut errors) = child.stderr.take() else { return String::new() };
    let read = read(&mut errors, ERROR_BYTES_MAX, until);
    if read.is_err() {
        // It has its standard error open, so it is this one.
        let _ = child.kill();
    }
    let status = child.wait();
    let text = match read {
        Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(why) => return why,
    };
    match status {
        Ok(status) if status.success() => String::new(),
        Ok(status) if text.is_empty() => status.to_string(),
        _ => text,
    }
}

/// Reads up to so many bytes, or to the end.
fn read(
    from: &mut (impl Read + AsFd),
    bytes_max: usize,
    until: Instant,
) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; bytes_max];
    let mut count = 0;
    while count < bytes_max {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(format!("no answer for {} s", ANSWER_TIME_MAX.as_secs())),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.to_string()),
        }
        match from.read(&mut bytes[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;

    #[test]
    fn only_scopes_of_desktops_with_processes_count() {
        let folder = std::env::temp_dir().join(format!("thinc-scopes-{}", std::process::id()));
        let scope = |name: &str, events: &str, weight: &str| {
            let scope = folder.join(name);
            fs::create_dir_all(&scope).unwrap();
            fs::write(scope.join("cgroup.events"), events).unwrap();
            fs::write(scope.join("cpu.weight"), weight).unwrap();
            (is_populated(&scope), weight_of(&scope))
        };
        assert_eq!(scope("thinc-7-1-1.scope", "populated 1\n", "5\n"), (true, Some(5)));
        assert_eq!(scope("thinc-7-1-2.scope", "populated 0\n", "100\n"), (false, Some(100)));
        assert_eq!(scope("session-1.scope", "populated 1\n", "100\n"), (false, Some(100)));
        assert_eq!(scope("thinc-x.slice", "populated 1\n", "max\n"), (false, None));
        let home = Home::find(
            &format!("30 1 0:1 / {} rw - cgroup2 cgroup rw\n", folder.display()),
            "0::/\n",
            "cpu",
            false,
        );
        assert_eq!(home.map(|home| home.version), None::<Version>, "no list of controllers");
        let _ = fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_command_that_does_not_answer_is_ended() {
        let mut sleep = Command::new("sleep");
        let mut child = start(sleep.arg("1000").stdin(Stdio::null())).unwrap();
        let error = error_of(&mut child, Instant::now() + Duration::from_millis(10));
        assert!(error.starts_with("no answer"), "{error}");
        assert!(!child.wait().unwrap().success(), "it was killed");
        let mut ends = Command::new("sh");
        let mut child = start(ends.args(["-c", "echo no >&2; exit 1"])).unwrap();
        assert_eq!(error_of(&mut child, Instant::now() + ANSWER_TIME_MAX), "no");
        let mut child = start(Command::new("false").stdin(Stdio::null())).unwrap();
        assert_eq!(error_of(&mut child, Instant::now() + ANSWER_TIME_MAX), "exit status: 1");
        let mut warns = Command::new("sh");
        let mut child = start(warns.args(["-c", "echo well >&2"])).unwrap();
        assert_eq!(error_of(&mut child, Instant::now() + ANSWER_TIME_MAX), "");
    }
}
