//! Programs under measurement: started, found, read through /proc, and ended by their process id.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Error;

/// 5 s: a browser writes its profile and xrdp logs its user out within it; a slower process is
/// killed.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// A child that is asked to end, waited for, and killed if it does not, when it goes out of scope.
pub struct Running {
    name: &'static str,
    child: Child,
    /// What the child needs to be open, such as the other end of its terminal.
    _held: Option<fs::File>,
}

impl Running {
    /// Starts `command` in a process group of its own.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Running, Error> {
        let child = command
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start {name} ({command:?}): {e}"))?;
        Ok(Running { name, child, _held: None })
    }

    /// The same, which also keeps this open.
    pub(crate) fn holding(self, file: fs::File) -> Running {
        let mut holding = self;
        holding._held = Some(file);
        holding
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, if its command has a pipe there; once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if its command has a pipe there; once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// An error when it has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait()? {
            Some(status) => Err(format!("{} ended: {status}", self.name).into()),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(group) = group else { return };
        // The whole group: what it has started ends with it. An error means that all of it has
        // ended already.
        let _ = kill_process_group(group, Signal::TERM);
        if !self.ends_within(END_TIME_MAX) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Running {
    fn ends_within(&mut self, limit: Duration) -> bool {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return true;
        }
        // Until it is waited for, no other process gets its id.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(Ok(descriptor)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return false;
        };
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                result => return result.is_ok_and(|ready| ready > 0),
            }
        }
    }
}

/// A folder that is removed with its owner.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one in the system's temporary folder.
    pub fn new(name: &str) -> Result<Folder, Error> {
        let path = std::env::temp_dir().join(format!("thinc-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Set by the first SIGINT, SIGTERM or SIGHUP.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first SIGINT, SIGTERM or SIGHUP ends every wait, so that everything started is
/// ended as well; the second one ends this program at once.
///
/// # Errors
/// The system refuses a signal handler.
pub fn end_well_when_interrupted() -> Result<(), Error> {
    let flag = Arc::clone(INTERRUPTED.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(())
}

/// Whether a signal has asked this program to end.
pub fn interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Whether a command can be run by its name.
pub fn on_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// Polls `ready` until it returns something, at most for `limit`.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if interrupted() {
            return Err(format!("{what}: interrupted").into());
        }
        if start.elapsed() > limit {
            return Err(format!("{what}: not within {} s", limit.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running `thinc serve`.
pub struct Session {
    _folder: Folder,
    _supervisor: Running,
    /// Its name in `thinc list`.
    pub name: String,
    /// Opens it in a viewer, once.
    pub link: String,
    /// The X server's display.
    pub display: String,
    /// The X server's authority file.
    pub xauthority: String,
    /// Process ids by name: supervisor, xorg, session, command.
    pub pids: Vec<(String, u32)>,
}

impl Session {
    /// Starts one of this size with `application`, and waits until a viewer can connect.
    pub fn start(name: &str, size: &str, application: &[&str]) -> Result<Session, Error> {
        Session::start_with(name, size, &[], application)
    }

    /// The same with more options of `thinc serve`.
    pub fn start_with(
        name: &str,
        size: &str,
        options: &[&str],
        application: &[&str],
    ) -> Result<Session, Error> {
        let thinc = Command::new(binary("thinc")?);
        Session::start_by(thinc, "127.0.0.1:0", (name, size), options, application)
    }

    /// The same by this command, which runs `thinc`, maybe in a namespace, and at this address;
    /// with a name and a size.
    pub fn start_by(
        mut command: Command,
        listen: &str,
        (name, size): (&str, &str),
        options: &[&str],
        application: &[&str],
    ) -> Result<Session, Error> {
        let folder = Folder::new(&format!("session-{name}"))?;
        let ready = folder.path().join("ready.json");
        let log = fs::File::create(folder.path().join("log"))?;
        command.args(["serve", "--listen", listen, "--size", size, "--name"]);
        let name = format!("bench-{name}-{}", std::process::id());
        command.arg(&name).arg("--ready-json").arg(&ready).args(options);
        if !options.contains(&"--window-manager") {
            // Windows are where and as large as the application asks.
            command.args(["--window-manager", "none"]);
        }
        command.arg("--").args(application);
        // Its memory may be read, and with it measured.
        command.env("THINC_CORE_DUMPS", "1");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut supervisor = Running::start("thinc serve", &mut command)?;
        let text = wait_for("thinc serve is ready", Duration::from_secs(30), || {
            if supervisor.check().is_err() {
                return Some(String::new());
            }
            fs::read_to_string(&ready).ok().filter(|text| !text.is_empty())
        })?;
        if text.is_empty() {
            return Err(fs::read_to_string(folder.path().join("log")).unwrap_or_default().into());
        }
        let json: serde_json::Value = serde_json::from_str(&text)?;
        let text = |key: &str| {
            Ok::<_, Error>(
                json[key]
                    .as_str()
                    .ok_or_else(|| format!("the ready file has no {key}"))?
                    .to_owned(),
            )
        };
        let (link, display, xauthority) = (text("link")?, text("display")?, text("xauthority")?);
        let pids = json["pids"].as_object().ok_or("the ready file has no pids")?;
        let pids = pids
            .iter()
            .filter_map(|(name, pid)| Some((name.clone(), u32::try_from(pid.as_u64()?).ok()?)))
            .collect();
        Ok(Session {
            _folder: folder,
            _supervisor: supervisor,
            name,
            link,
            display,
            xauthority,
            pids,
        })
    }

    /// A link for one more viewer: each opens the session once.
    pub fn another_link(&self) -> Result<String, Error> {
        let output = Command::new(binary("thinc")?).args(["link", &self.name]).output()?;
        match (output.status.success(), String::from_utf8(output.stdout)) {
            (true, Ok(link)) => Ok(link.trim().to_owned()),
            _ => {
                Err(format!("thinc link: {}", String::from_utf8_lossy(&output.stderr).trim())
                    .into())
            }
        }
    }

    /// Process id of one part.
    pub fn pid(&self, part: &str) -> Result<u32, Error> {
        let found = self.pids.iter().find(|(name, _)| name == part);
        Ok(found.ok_or_else(|| format!("the ready file names no process `{part}`"))?.1)
    }
}

/// A headless viewer driven line by line.
pub struct Headless {
    running: Running,
    commands: fs::File,
    stdout: BufReader<ChildStdout>,
}

impl Headless {
    /// Connects.
    pub fn start(link: &str) -> Result<Headless, Error> {
        Headless::start_with(link, &[])
    }

    /// Connects, with more options.
    pub fn start_with(link: &str, options: &[&str]) -> Result<Headless, Error> {
        Headless::start_by(Command::new(binary("thinc-view")?), link, options)
    }

    /// The same by this command, which runs `thinc-view`, maybe in a namespace.
    pub fn start_by(mut command: Command, link: &str, options: &[&str]) -> Result<Headless, Error> {
        command
            .args([link, "--headless", "--script", "-"])
            .args(options)
            .env("THINC_CORE_DUMPS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut running = Running::start("thinc-view", &mut command)?;
        let stdin = running.take_stdin().ok_or("thinc-view has no input")?;
        let stdout = running.take_stdout().ok_or("thinc-view has no output")?;
        Ok(Headless::driven(running, OwnedFd::from(stdin).into(), stdout))
    }

    /// One that reads its script from the other end of `commands`.
    pub(crate) fn driven(running: Running, commands: fs::File, stdout: ChildStdout) -> Headless {
        Headless { running, commands, stdout: BufReader::new(stdout) }
    }

    /// Sends one line of its script and returns the answer after `ok`.
    pub fn say(&mut self, line: &str) -> Result<String, Error> {
        writeln!(self.commands, "{line}")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        match answer.trim_end().strip_prefix("ok") {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(format!("thinc-view answered `{}` to `{line}`", answer.trim_end()).into()),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Ends its script; returns when the process has ended by itself.
    pub fn finish(self) -> Result<(), Error> {
        let Headless { mut running, commands, .. } = self;
        drop(commands);
        if running.ends_within(END_TIME_MAX) {
            Ok(())
        } else {
            Err("thinc-view did not end".into())
        }
    }
}

/// A finished binary: beside this one, or named by `THINC_BIN_DIR`.
pub fn binary(name: &str) -> Result<PathBuf, Error> {
    let folder = match std::env::var_os("THINC_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let program = std::env::current_exe()?;
            let folder = program.parent().ok_or("this program lies in no folder")?;
            // Cargo puts tests one folder below the binaries.
            if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder }
                .to_owned()
        }
    };
    let path = folder.join(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(format!(
            "{} is not there: run `./dev build`, or name its folder in THINC_BIN_DIR",
            path.display()
        )
        .into())
    }
}

/// Proportional set size of a process, in megabytes (10^6 bytes).
pub fn pss_mb(pid: u32) -> Result<f64, Error> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line =
        text.lines().find(|line| line.starts_with("Pss:")).ok_or("smaps_rollup has no Pss")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("Pss has no value")?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}
