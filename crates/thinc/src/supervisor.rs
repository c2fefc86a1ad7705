//! `thinc serve`: owns the listening socket, the X server, COMMAND and the session process, and ends them together.
//! From the person's shell; the session process it starts stands between the X server and the viewers (path 3 to 10).
//! Knows processes and files; restarts the session process, never the others; parses nothing from the network.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use thinc_session_server::{Listeners, SessionConfig};
use thinc_transport::Scheme;
use thinc_transport::identity::IdentityError;
use thinc_transport::token::random;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use crate::cli::{Lossy, Scheduler, Serve, Switch, name_from};
use crate::control::{self, Answer, Pids, Ready, Request, Status};
use crate::log::{Log, last_lines, make_folder};
use crate::port::{Port, now_s};
use crate::runtime_dir::{RuntimeDir, RuntimeError, TRACE_SOCKET};
use crate::search::{self, SearchError};
use crate::terminal::{complain, say};
use crate::{MainError, detach, xauthority};

/// Xorg answers in 0.1 s on an idle machine; a loaded one may take long, a broken one ends by itself.
const XORG_START_TIME: Duration = Duration::from_secs(30);
/// The session process attaches to the driver and reads a certificate.
const SESSION_START_TIME: Duration = Duration::from_secs(15);
/// What a part gets between "please end" and being killed.
const END_TIME: Duration = Duration::from_secs(3);
/// What a program printed before it ended is read within this time.
const LAST_WORDS_TIME: Duration = Duration::from_millis(300);
/// A session process that lived this long was well: its death starts a new count.
const WELL_AFTER: Duration = Duration::from_secs(10);
/// Wait before the second, third, … start in a row; the first is at once.
const RESTART_WAIT: Duration = Duration::from_millis(200);
const RESTART_WAIT_MAX: Duration = Duration::from_secs(10);
/// Name of the file in the runtime folder that the session process reads; it holds the session's secret.
const SESSION_CONFIG: &str = "session.json";

/// Of the person's own session; an application in this one must not find its way there.
const FOREIGN_ENVIRONMENT: [&str; 20] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SESSION_MANAGER",
    "DESKTOP_STARTUP_ID",
    "XDG_ACTIVATION_TOKEN",
    "XDG_SESSION_ID",
    "XDG_SEAT",
    "XDG_VTNR",
    "XDG_CURRENT_DESKTOP",
    "XDG_SESSION_DESKTOP",
    "DESKTOP_SESSION",
    "GNOME_SETUP_DISPLAY",
    "WINDOWID",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_ORIGINAL_COMMAND",
    "SSH_TTY",
];

/// Why there is no session, or why it ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The runtime folder.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Something that has to be installed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The key and the certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The environment says nowhere where to keep things.
    #[error("neither XDG_STATE_HOME nor HOME says where to keep the key and the logs")]
    NoStateHome,
    /// A file cannot be written.
    #[error("cannot {what} {}: {error}", .path.display())]
    File {
        /// "write", "make", …
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The port given is taken.
    #[error("{0} is in use by another program (or another session: `thinc list`); choose another port with --listen")]
    PortInUse(SocketAddr),
    /// All default ports are taken.
    #[error("the ports {0} to {1} on 127.0.0.1 are all in use; choose one with --listen")]
    PortsInUse(u16, u16),
    /// The address cannot be listened on otherwise.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// `--public` is no host.
    #[error("--public {0}: {1}")]
    Public(String, thinc_transport::LinkError),
    /// A program could not be started.
    #[error("cannot start {0}: {1}")]
    Start(&'static str, io::Error),
    /// Xorg did not come up.
    #[error("the X server did not start ({status}); the end of {}:{lines}", .log.display())]
    XorgStart {
        /// How it ended, or that it did not.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        lines: String,
    },
    /// Xorg ended while the session ran.
    #[error("the X server ended by itself ({status}); the end of {}:{lines}", .log.display())]
    XorgEnd {
        /// How.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        lines: String,
    },
    /// The session process did not come up.
    #[error("the session process did not start ({status}); the end of {}:{lines}", .log.display())]
    SessionStart {
        /// How it ended, or that it did not.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        lines: String,
    },
    /// Signals cannot be caught.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

/// How a session ended, when nothing was wrong.
enum End {
    /// A signal or `thinc stop`.
    Asked,
    /// COMMAND ended.
    Command(ExitStatus),
}

/// Runs a session until it ends.
pub(crate) fn serve(options: Serve) -> Result<ExitCode, MainError> {
    if options.supervise {
        detach::leave_terminal()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(run(options))?;
    Ok(match end {
        End::Asked => ExitCode::SUCCESS,
        End::Command(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
    })
}

/// Everything that stays the same while the session runs.
struct Place {
    options: Serve,
    name: String,
    folder: RuntimeDir,
    logs: PathBuf,
    listeners: Listeners,
    port: Option<Port>,
    xorg: PathBuf,
    module_path: OsString,
    command: Vec<OsString>,
    /// `--trace`, whatever folder the session process has.
    trace: Option<PathBuf>,
    started_s: u64,
}

/// A process, and the task that keeps what it prints.
struct Part {
    child: Child,
    log: JoinHandle<()>,
}

/// The processes. Whatever happens, `end` is called on them before the supervisor ends.
#[derive(Default)]
struct Parts {
    xorg: Option<Part>,
    session: Option<Part>,
    command: Option<Part>,
    display: String,
    restarts: u32,
}

async fn run(options: Serve) -> Result<End, ServeError> {
    let stop = |kind| signal(kind).map_err(ServeError::Signals);
    let (mut term, mut int) = (stop(SignalKind::terminate())?, stop(SignalKind::interrupt())?);
    // Taken so that it ends nothing: a connection that breaks must not end what runs behind it.
    let _hang_up = stop(SignalKind::hangup())?;

    let detached = options.supervise;
    let place = prepare(options)?;
    let mut parts = Parts::default();
    let mut stopping = Vec::new();
    let result = tokio::select! {
        result = start_and_watch(&place, &mut parts, &mut stopping, detached) => result,
        _ = term.recv() => Ok(End::Asked),
        _ = int.recv() => Ok(End::Asked),
    };
    // Whoever comes now finds nobody, and not a session that is about to end.
    place.folder.close_viewer_socket();
    parts.end().await;
    // `thinc stop` waits for these to close; by then the folder is gone too and the name is free.
    drop(place);
    drop(stopping);
    result
}

fn prepare(options: Serve) -> Result<Place, ServeError> {
    // What is missing is said before anything is made.
    let command = search::command(&options.command)?;
    let xorg = search::xorg()?;
    let module_path = search::module_path()?;
    let name = options.name.clone().unwrap_or_else(|| name_from(&command[0]));

    let state = state_folder()?;
    let logs = state.join("log").join(&name);
    make_folder(&logs).map_err(|error| ServeError::File { what: "make", path: logs.clone(), error })?;
    let (folder, local) = RuntimeDir::take(&name)?;
    let port = Port::open(&options, &state)?;
    let start = |error| ServeError::Start("the session process", error);
    let tcp = port.as_ref().map(|port| port.listener.try_clone()).transpose().map_err(start)?;
    let udp = port.as_ref().and_then(|port| port.udp.as_ref()).map(UdpSocket::try_clone).transpose().map_err(start)?;
    let trace = options.trace.as_deref().map(new_trace).transpose()?;
    let started_s = now_s();
    Ok(Place {
        options,
        name,
        folder,
        logs,
        listeners: Listeners { local, tcp, udp },
        port,
        xorg,
        module_path,
        command,
        trace,
        started_s,
    })
}

/// Where a trace can be written; one that is there is not written over.
fn new_trace(path: &Path) -> Result<PathBuf, ServeError> {
    let path = absolute(path)?;
    let error = match path.parent().is_some_and(Path::is_dir) {
        true if !path.exists() => return Ok(path),
        true => io::Error::new(io::ErrorKind::AlreadyExists, "there is such a file already"),
        false => io::Error::new(io::ErrorKind::NotFound, "there is no such folder"),
    };
    Err(ServeError::File { what: "write", path, error })
}

fn state_folder() -> Result<PathBuf, ServeError> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    Ok(base.ok_or(ServeError::NoStateHome)?.join("thinc"))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, ServeError> {
    std::path::absolute(path).map_err(|error| ServeError::File { what: "find", path: path.to_owned(), error })
}

impl Place {
    /// Our own binary again, in another role: by its path, so that process lists name it, unless a build has replaced
    /// the file; then by the kernel's name for what is running.
    fn ourselves(&self) -> Command {
        let path = std::env::current_exe().ok().filter(|path| path.exists());
        Command::new(path.unwrap_or_else(|| "/proc/self/exe".into()))
    }

    /// A program in a process session of its own (see launch.rs).
    fn launch(&self, program: &[OsString]) -> Command {
        let mut command = self.ourselves();
        command.arg("launch").arg("--parent").arg(std::process::id().to_string()).arg("--").args(program);
        command.stdin(Stdio::null());
        command
    }

    /// Starts a program whose words go to a log.
    fn spawn_logged(&self, what: &'static str, log: &str, command: &mut Command) -> Result<Part, ServeError> {
        let path = self.logs.join(log);
        let log = Log::create(path.clone()).map_err(|error| ServeError::File { what: "write", path, error })?;
        // One pipe for both, so that lines stay in the order in which they were said.
        let start = |error| ServeError::Start(what, error);
        let (read, write) = io::pipe().map_err(start)?;
        let second = write.try_clone().map_err(start)?;
        let child = command.stdout(write).stderr(second).spawn().map_err(start)?;
        // Our copies of the writing end go with the command, so that the log ends with the program.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let read = tokio::net::unix::pipe::Receiver::from_owned_fd(read.into()).map_err(start)?;
        Ok(Part { child, log: tokio::spawn(log.keep(read)) })
    }

    async fn start_xorg(&self, parts: &mut Parts) -> Result<(), ServeError> {
        let (conf, auth) = (self.folder.join("xorg.conf"), self.folder.join("Xauthority"));
        let write = |path: &Path, result: io::Result<()>| {
            result.map_err(|error| ServeError::File { what: "write", path: path.to_owned(), error })
        };
        let (width, height) = self.options.size;
        let socket = self.folder.join("driver.sock");
        let text = thinc_session_server::XorgConf { socket: &socket, width, height, oracle: self.options.oracle };
        write(&conf, std::fs::write(&conf, text.to_text()))?;
        write(&auth, xauthority::write(&auth, &random()))?;
        let log = self.logs.join("xorg.log");

        // The one descriptor that Xorg inherits besides the standard ones; no other process starts in between.
        let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty())?;
            Ok((read, write))
        };
        let (read, write) = pipe().map_err(|error| ServeError::Start("the X server", error))?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&write).to_string();
        let mut arguments: Vec<OsString> = vec![self.xorg.clone().into(), "-config".into(), conf.into()];
        arguments.extend(["-modulepath".into(), self.module_path.clone(), "-auth".into(), auth.into()]);
        // Its log comes over standard error into one of ours: Xorg's own file grows without end (where there is no
        // system bus, by a line every ten seconds).
        arguments.extend(["-displayfd".into(), number.into(), "-logfile".into(), "/dev/null".into()]);
        arguments.extend(["-verbose", "3"].map(Into::into));
        // Without -noreset the last client's end would make the server begin anew.
        arguments.extend(
            ["-nolisten", "tcp", "-noreset", "-novtswitch", "-sharevts", "-background", "none"].map(Into::into),
        );
        let mut command = self.launch(&arguments);
        command.env_clear();
        for name in
            ["PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LD_PRELOAD"]
        {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("XDG_RUNTIME_DIR", self.folder.join(""));
        parts.xorg = Some(self.spawn_logged("xorg", "xorg.log", &mut command)?);
        drop(write);

        let mut display = String::new();
        let pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(read)
            .map_err(|error| ServeError::Start("the X server", error))?;
        let mut pipe = BufReader::new(pipe.take(16));
        let status = match timeout(XORG_START_TIME, pipe.read_line(&mut display)).await {
            Ok(Ok(1..)) if display.trim().parse::<u32>().is_ok() => {
                parts.display = format!(":{}", display.trim());
                return Ok(());
            }
            Ok(_) => match timeout(END_TIME, wait(&mut parts.xorg)).await {
                Ok(status) => status.to_string(),
                Err(_) => "it named no display".to_owned(),
            },
            Err(_) => format!("no display within {XORG_START_TIME:?}"),
        };
        Err(ServeError::XorgStart { status, lines: xorg_lines(&log), log })
    }

    /// Writes down what the session process has to know; it is the same for every one of them.
    fn write_session_config(&self, parts: &Parts) -> Result<(), ServeError> {
        let path = self.folder.join(SESSION_CONFIG);
        let config = SessionConfig {
            name: self.name.clone(),
            driver_socket: self.folder.join("driver.sock"),
            display: parts.display.clone(),
            xauthority: self.folder.join("Xauthority"),
            port: self.port.as_ref().map(|port| port.config(self.folder.join("used-tokens"))),
            fifo: self.options.scheduler == Scheduler::Fifo,
            offscreen: self.options.offscreen == Switch::On,
            lossless: self.options.lossy == Lossy::Never,
            video: self.options.video.config(),
            video_encoder: self.options.video_encoder.name().to_owned(),
            clipboard: self.options.clipboard(),
            trace_socket: self.folder.join(TRACE_SOCKET),
            trace: self.trace.clone(),
        };
        let text = serde_json::to_vec(&config).expect("strings and paths are JSON");
        write_private(&path, &text).map_err(|error| ServeError::File { what: "write", path: path.clone(), error })
    }

    /// Starts a session process. Viewers may connect from now on: the socket is open, whoever comes waits in it.
    fn spawn_session(&self, parts: &mut Parts) -> Result<ChildStdout, ServeError> {
        let path = self.logs.join("session.log");
        // A restart must not wipe what the last one said: the log goes on.
        let log = if parts.restarts == 0 { Log::create(path.clone()) } else { Log::append(path.clone()) };
        let log = log.map_err(|error| ServeError::File { what: "write", path, error })?;
        let start = |error| ServeError::Start("the session process", error);
        let mut command = self.ourselves();
        // The sockets come through standard input: no other descriptor has to be left open across exec.
        let sockets = self.listeners.hand_over().map_err(start)?;
        command.arg("session").arg("--config").arg(self.folder.join(SESSION_CONFIG)).stdin(Stdio::from(sockets));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).env("XAUTHORITY", self.folder.join("Xauthority"));
        // A terminal's hang-up or Ctrl-C goes to the whole group in front: the supervisor alone says what it means here.
        command.process_group(0);
        let mut child = command.spawn().map_err(start)?;
        let (out, err) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
        parts.session = Some(Part { child, log: tokio::spawn(log.keep(err)) });
        Ok(out)
    }

    /// Starts the first session process and waits until it serves viewers.
    async fn start_session(&self, parts: &mut Parts) -> Result<(), ServeError> {
        self.write_session_config(parts)?;
        let out = self.spawn_session(parts)?;
        let mut line = String::new();
        let status = match timeout(SESSION_START_TIME, BufReader::new(out.take(64)).read_line(&mut line)).await {
            Ok(Ok(1..)) if line == thinc_session_server::READY_LINE => return Ok(()),
            Ok(_) => match timeout(END_TIME, wait(&mut parts.session)).await {
                Ok(status) => status.to_string(),
                Err(_) => "it did not say that it is ready".to_owned(),
            },
            Err(_) => format!("not ready within {SESSION_START_TIME:?}"),
        };
        let log = self.logs.join("session.log");
        Err(ServeError::SessionStart { status, lines: last_lines(&log, 8, |_| true), log })
    }

    fn start_command(&self, parts: &mut Parts) -> Result<(), ServeError> {
        let own_runtime = self.folder.join("xdg");
        make_folder(&own_runtime).map_err(|error| ServeError::File {
            what: "make",
            path: own_runtime.clone(),
            error,
        })?;
        let mut arguments = Vec::new();
        if let (Some(run), Some(_)) =
            (search::program("dbus-run-session".as_ref()), search::program("dbus-daemon".as_ref()))
        {
            arguments.extend([run.into_os_string(), "--".into()]);
        }
        arguments.extend(self.command.iter().cloned());
        let mut command = self.launch(&arguments);
        for name in FOREIGN_ENVIRONMENT {
            command.env_remove(name);
        }
        command
            .env("DISPLAY", &parts.display)
            .env("XAUTHORITY", self.folder.join("Xauthority"))
            .env("XDG_RUNTIME_DIR", own_runtime)
            .env("XDG_SESSION_TYPE", "x11")
            .env("THINC_SESSION", &self.name);
        parts.command = Some(self.spawn_logged("command", "command.log", &mut command)?);
        Ok(())
    }

    fn answer_link(&self, scheme: Scheme) -> Answer {
        match &self.port {
            Some(port) => Answer::Link(port.link(scheme)),
            None => Answer::Error(format!(
                "the session {0} has no port, and so no link: open it with thinc-view ssh://HOST/{0}",
                self.name
            )),
        }
    }

    fn status(&self, parts: &Parts) -> Status {
        let pid = |part: &Option<Part>| part.as_ref().and_then(|part| part.child.id()).unwrap_or(0);
        Status {
            name: self.name.clone(),
            listen: self.port.as_ref().map(|port| port.listen.to_string()),
            display: parts.display.clone(),
            xauthority: self.folder.join("Xauthority").display().to_string(),
            command: self.command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" "),
            started_s: self.started_s,
            restarts: parts.restarts,
            pids: Pids {
                supervisor: std::process::id(),
                xorg: pid(&parts.xorg),
                session: pid(&parts.session),
                command: pid(&parts.command),
            },
        }
    }

    /// Tells the person and the scripts that viewers can come.
    fn announce(&self, parts: &Parts) -> Result<(), ServeError> {
        if let Some(path) = &self.options.ready_json {
            let status = self.status(parts);
            let link = |scheme| self.port.as_ref().map(|port| port.link(scheme));
            let ready = Ready { link: link(Scheme::Https), native_link: link(Scheme::Thinc), status: &status };
            let text = serde_json::to_vec_pretty(&ready).expect("strings and numbers are JSON");
            // Complete from the moment it is there: a script waits for the name.
            let part = path.with_file_name(format!(
                ".{}.{}",
                path.file_name().unwrap_or_default().to_string_lossy(),
                std::process::id()
            ));
            write_private(&part, &text)
                .and_then(|()| std::fs::rename(&part, path))
                .map_err(|error| ServeError::File { what: "write", path: path.clone(), error })?;
        }
        let command = self.command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        say(&format!("The session {} is ready, on display {} with {command}.\n", self.name, parts.display));
        let Some(port) = &self.port else {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            say(&format!("  From another machine, where ssh leads here:\n    thinc-view ssh://{host}/{}", self.name));
            return Ok(());
        };
        say(&format!(
            "  In a browser:\n    {}\n\n  In a window:\n    {} '{}'\n\n\
             Each link opens it once, within {} minutes; `thinc link {}` prints another one.",
            port.link(Scheme::Https),
            search::viewer().display(),
            port.link(Scheme::Thinc),
            thinc_transport::token::TOKEN_LIFE_S / 60,
            self.name,
        ));
        if let Some(pin) = port.unknown_key() {
            // As browsers write it, so that it can be compared.
            let hex: String = pin.0.iter().map(|byte| format!("{byte:02x}")).collect();
            say(&format!(
                "A browser warns of the certificate, which this machine made itself. Its public key has the SHA-256\n  {hex}"
            ));
        }
        Ok(())
    }
}

/// A new file of that name: one that is there already may be a link, or somebody else's to read (`--ready-json` in /tmp).
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

/// Starts the parts in order, then lets the session live until something ends it.
async fn start_and_watch(
    place: &Place,
    parts: &mut Parts,
    stopping: &mut Vec<UnixStream>,
    detached: bool,
) -> Result<End, ServeError> {
    place.start_xorg(parts).await?;
    place.start_session(parts).await?;
    place.start_command(parts)?;
    let path = place.folder.join("control.sock");
    let mut requests = control::open(&path).map_err(|error| ServeError::File { what: "make", path, error })?;
    place.announce(parts)?;
    if detached {
        let log = place.logs.join("supervisor.log");
        detach::release(&log).map_err(|error| ServeError::File {
            what: "write",
            path: log,
            error: io::Error::other(error.to_string()),
        })?;
    } else {
        say("\nCtrl-C ends the session; a terminal that hangs up does not.");
    }

    let mut started = Instant::now();
    let mut deaths_in_row = 0u32;
    let mut restart_at: Option<Instant> = None;
    loop {
        let (xorg, session, command) = (&mut parts.xorg, &mut parts.session, &mut parts.command);
        tokio::select! {
            status = wait(xorg) => {
                let log = place.logs.join("xorg.log");
                return Err(ServeError::XorgEnd { status, lines: xorg_lines(&log), log });
            }
            status = wait(command) => {
                if !status.success() {
                    let lines = last_lines(&place.logs.join("command.log"), 8, |_| true);
                    complain(&format!("thinc: {} ended ({status}){lines}", place.command[0].to_string_lossy()));
                }
                return Ok(End::Command(status));
            }
            status = wait(session) => {
                parts.session = None;
                deaths_in_row = if started.elapsed() >= WELL_AFTER { 1 } else { deaths_in_row + 1 };
                let pause = restart_wait(deaths_in_row);
                let log = place.logs.join("session.log");
                complain(&match pause {
                    Duration::ZERO => format!("thinc: the session process ended ({status}); starting it again"),
                    _ => format!(
                        "thinc: the session process ended ({status}), {deaths_in_row} times in a row; starting it \
                         again in {pause:?}. See {}", log.display()
                    ),
                });
                restart_at = Some(Instant::now() + pause);
            }
            () = until(restart_at) => {
                restart_at = None;
                parts.restarts += 1;
                started = Instant::now();
                match place.spawn_session(parts) {
                    // Whatever it says on this pipe, somebody has to hold the other end.
                    Ok(mut out) => drop(tokio::spawn(async move { out.read_to_end(&mut Vec::new()).await })),
                    Err(error) => {
                        complain(&format!("thinc: {error}"));
                        deaths_in_row += 1;
                        restart_at = Some(Instant::now() + restart_wait(deaths_in_row));
                    }
                }
            }
            Some((request, stream)) = requests.recv() => {
                let answer = match request {
                    Request::Status => Answer::Status(place.status(parts)),
                    Request::Link { native } => place.answer_link(if native { Scheme::Thinc } else { Scheme::Https }),
                    Request::Stop => Answer::Stopping,
                };
                let mut line = serde_json::to_vec(&answer).expect("strings and numbers are JSON");
                line.push(b'\n');
                // The first bytes on a fresh socket fit into its buffer; an asker who left misses them.
                let _ = stream.try_write(&line);
                if let Answer::Stopping = answer {
                    stopping.push(stream);
                    return Ok(End::Asked);
                }
            }
        }
    }
}

/// What Xorg complained about; the end of what it said where it complained of nothing.
fn xorg_lines(log: &Path) -> String {
    // What is missing and not missed: a system bus, and input drivers for hardware.
    let harmless = ["dbus-core", "module does not exist", "No input driver matching"];
    let is_harmless = |line: &str| harmless.iter().any(|words| line.contains(words));
    // The log's head explains its marks, "(WW) warning, (EE) error, …", and complains of nothing.
    let complaint = |line: &str| line.contains("(EE)") && !line.contains("(WW) warning") && !is_harmless(line);
    let lines = last_lines(log, 8, complaint);
    if lines.is_empty() { last_lines(log, 8, |_| true) } else { lines }
}

/// At once after one death; then longer and longer.
fn restart_wait(deaths_in_row: u32) -> Duration {
    match deaths_in_row {
        0 | 1 => Duration::ZERO,
        n => (RESTART_WAIT * 2u32.saturating_pow((n - 2).min(16))).min(RESTART_WAIT_MAX),
    }
}

/// Never returns where there is no such moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// How a part ended, once its last words are in its log; never returns for one that is not there.
async fn wait(part: &mut Option<Part>) -> ExitStatus {
    let Some(Part { child, log }) = part else { return std::future::pending().await };
    // The process is ours and waited for here only: the kernel has no other answer than its status.
    let status = child.wait().await.expect("a child can be waited for");
    if !log.is_finished() {
        // A grandchild may hold the pipe open; its words are not waited for.
        let _ = timeout(LAST_WORDS_TIME, log).await;
    }
    status
}

impl Parts {
    /// Ends all of them: viewers are told, applications are asked, the X server goes last.
    async fn end(&mut self) {
        let command = self.command.as_ref().and_then(|part| part.child.id());
        let session = end(&mut self.session, "session", Signal::TERM);
        let applications = end(&mut self.command, "command", Signal::TERM);
        tokio::join!(session, applications);
        // Programs that COMMAND started in groups of their own (a shell's jobs) share its process session.
        if let Some(leader) = command {
            for pid in members_of_session(leader) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        end(&mut self.xorg, "xorg", Signal::TERM).await;
        if let Some(leader) = command {
            for pid in members_of_session(leader) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Asks a part and its process group to end, then makes it.
async fn end(part: &mut Option<Part>, name: &str, signal: Signal) {
    let Some(Part { mut child, log: _ }) = part.take() else { return };
    let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) else { return };
    // Each leads a group of its own.
    let send = |signal| kill_process_group(pid, signal);
    // A program that has not come as far as its own group yet is asked alone.
    if send(signal).is_err() {
        let _ = kill_process(pid, signal);
    }
    if timeout(END_TIME, child.wait()).await.is_err() {
        complain(&format!("thinc: {name} (process {pid}) did not end within {END_TIME:?}; killing it"));
        let _ = send(Signal::KILL);
        let _ = kill_process(pid, Signal::KILL);
        let _ = child.wait().await;
    }
    // The rest of its group: the leader's number cannot be given away while members of the group live.
    let _ = send(Signal::KILL);
}

/// Processes whose session (in the kernel's sense) is this one; from /proc, which is right at the moment of reading.
fn members_of_session(leader: u32) -> Vec<Pid> {
    let mut members = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "pid (any name) state ppid pgrp session …"
        let session = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(3)?.parse::<u32>().ok());
        if session == Some(leader) {
            members.extend(Pid::from_raw(pid));
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_wait_longer_and_longer_but_the_first_is_at_once() {
        let waits: Vec<Duration> = (1..=20).map(restart_wait).collect();
        assert_eq!(waits[0], Duration::ZERO);
        assert_eq!(waits[1], RESTART_WAIT);
        assert!(waits.is_sorted());
        assert_eq!(waits[19], RESTART_WAIT_MAX);
    }

    #[test]
    fn a_secret_goes_into_no_file_that_waits_for_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("thinc-private-{}", std::process::id()));
        make_folder(&folder).unwrap();
        let (path, other) = (folder.join("ready.json"), folder.join("other"));
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write_private(&path, b"secret").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs", "a link is not followed");
        std::fs::remove_file(&path).unwrap();
        // Opened by somebody before us, and open to all.
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let mut early = std::fs::File::open(&path).unwrap();
        write_private(&path, b"secret").unwrap();
        let mut seen = String::new();
        io::Read::read_to_string(&mut early, &mut seen).unwrap();
        assert_eq!(seen, "");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"secret");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_x_servers_complaints_are_shown_and_not_the_legend_of_its_log() {
        let log = std::env::temp_dir().join(format!("thinc-xorg-lines-{}", std::process::id()));
        let legend = "\t(WW) warning, (EE) error, (NI) not implemented, (??) unknown.";
        std::fs::write(&log, format!("X.Org X Server\n{legend}\n(EE) no screens found\nlast words\n")).unwrap();
        assert_eq!(xorg_lines(&log), "\n    (EE) no screens found");
        std::fs::write(&log, format!("{legend}\nlast words\n")).unwrap();
        assert!(xorg_lines(&log).ends_with("last words"), "a server that was killed complains of nothing");
        std::fs::remove_file(&log).unwrap();
    }

    #[test]
    fn our_own_process_session_has_us_in_it() {
        let own = rustix::process::getsid(None).unwrap().as_raw_nonzero().get() as u32;
        let me = Pid::from_raw(std::process::id() as i32).unwrap();
        assert!(members_of_session(own).contains(&me));
    }
}
