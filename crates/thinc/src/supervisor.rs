//! `thinc serve`: owns the listening sockets, the X server, COMMAND and the session process, and
//! ends them together. From the user's shell; the session process that it starts stands between the
//! X server and the viewers (path 3 to 10). Knows processes and files; restarts the session
//! process, never the others; parses nothing from the network.

use std::ffi::OsString;
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use thinc_session_server::log;
use thinc_session_server::{EXIT_UNUSED, Listeners, SessionConfig, TITLE_RULE, title as title_of};
use thinc_transport::Scheme;
use thinc_transport::token::{SessionSecret, random};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::cli::{Lossy, Scheduler, Serve, Switch, WindowManager};
use crate::control::{self, Answer, Pids, Ready, Request, Status};
use crate::desk::Desk;
use crate::desktop::Program;
use crate::gpu::Found;
use crate::graphics::{self, Environment, Graphics, Report};
use crate::log::{Log, create_folder, last_lines};
use crate::pipewire::PipeWire;
use crate::port::{Port, now_s, portless_config};
use crate::printing::Printing;
use crate::priority::Priority;
use crate::processes::{Process, Processes, TERMINATE_TIMEOUT, wait};
use crate::restarts::Restarts;
use crate::runtime_dir::{DESK_SOCKET, RuntimeDir, SHARE_SOCKET, TRACE_SOCKET};
use crate::search;
use crate::send::SOCKET_VARIABLE;
use crate::serve_error::ServeError;
use crate::sound;
use crate::terminal::{print, print_error};
use crate::xauthority::{HostName, Xauthority};
use crate::{MainError, descendants, detach, display, window_manager};

/// Xorg starts in 0.1 s on an idle machine and may take long on a loaded one; a broken one ends by
/// itself.
const XORG_START_TIMEOUT: Duration = Duration::from_secs(30);
/// The session process attaches to the driver and reads a certificate.
const SESSION_START_TIMEOUT: Duration = Duration::from_secs(15);
/// The file in the runtime folder with the session process's configuration, which contains the
/// session's secret.
const SESSION_CONFIG: &str = "session.json";
const NEW_SESSION_CONFIG: &str = "session.json.new";

/// Variables of the user's own session, which applications in this one must not see.
const REMOVED_ENVIRONMENT: [&str; 20] = [
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

/// How a session ended in order.
enum SessionEnd {
    /// A signal or `thinc stop`.
    Requested,
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
        SessionEnd::Requested => ExitCode::SUCCESS,
        SessionEnd::Command(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
    })
}

/// Everything that stays the same while the session runs.
struct SessionContext {
    options: Serve,
    name: String,
    folder: RuntimeDir,
    logs: PathBuf,
    desk: Desk,
    listeners: Listeners,
    port: Option<Port>,
    xorg: PathBuf,
    module_path: OsString,
    /// The GPU that 3D programs should draw on.
    gpu: Found,
    command: Vec<OsString>,
    /// What COMMAND's desktop expects.
    environment: Vec<(&'static str, String)>,
    manages_windows: bool,
    /// `--trace` as an absolute path.
    trace: Option<PathBuf>,
    started_s: u64,
}

async fn run(options: Serve) -> Result<SessionEnd, ServeError> {
    let stop = |kind| signal(kind).map_err(ServeError::Signals);
    let (mut term, mut int) = (stop(SignalKind::terminate())?, stop(SignalKind::interrupt())?);
    // Caught and ignored: a broken terminal connection must not end the session.
    let _hang_up = stop(SignalKind::hangup())?;

    descendants::adopt();
    let detached = options.supervise;
    let priority = match options.priority_socket {
        true => Some(detach::take_stdin().map_err(ServeError::PrioritySocket)?),
        false => None,
    };
    let priority = Priority::open(options.priority, priority);
    let context = prepare(options)?;
    let mut processes = Processes { priority, ..Processes::default() };
    if context.desk.sound.is_some() {
        processes.pipewire = PipeWire::open(&context.folder)?;
    }
    let mut stop_clients = Vec::new();
    let result = tokio::select! {
        result = run_processes(&context, &mut processes, &mut stop_clients, detached) => result,
        _ = term.recv() => Ok(SessionEnd::Requested),
        _ = int.recv() => Ok(SessionEnd::Requested),
    };
    // From now on viewers find no session, instead of one that is about to end.
    context.folder.close_viewer_socket();
    processes.end().await;
    // `thinc stop` waits for these to close; by then the folder is removed and the name is free.
    drop(context);
    drop(stop_clients);
    result
}

fn prepare(options: Serve) -> Result<SessionContext, ServeError> {
    // Report missing programs before creating anything.
    let Program { name, command, environment, manages_windows } =
        Program::find(&options.command, options.desktop.as_deref())?;
    let xorg = search::xorg()?;
    let module_path = search::module_path()?;
    let gpu = options.gpu.find()?;
    let name = options.name.clone().unwrap_or(name);

    let state = state_folder()?;
    let logs = state.join("log").join(&name);
    create_folder(&logs).map_err(|error| ServeError::File {
        what: "create",
        path: logs.clone(),
        error,
    })?;
    let (folder, local, port_requests) = RuntimeDir::claim(&name)?;
    let desk = Desk::open(&options, &folder, &state, &name)?;
    let port = Port::open(&options, &state)?;
    // The session process listens there each time that it starts; here the user learns why not.
    if let Some(address) = options.metrics {
        let free = std::net::TcpListener::bind(address);
        drop(free.map_err(|error| ServeError::Listen(address, error))?);
    }
    let start = |error| ServeError::Start("the session process", error);
    let tcp = port.as_ref().map(|port| port.listener.try_clone()).transpose().map_err(start)?;
    let udp = port
        .as_ref()
        .and_then(|port| port.udp.as_ref())
        .map(UdpSocket::try_clone)
        .transpose()
        .map_err(start)?;
    let trace = options.trace.as_deref().map(new_trace).transpose()?;
    let started_s = now_s();
    Ok(SessionContext {
        options,
        name,
        folder,
        logs,
        desk,
        listeners: Listeners { local, port_requests, tcp, udp },
        port,
        xorg,
        module_path,
        gpu,
        command,
        environment,
        manages_windows,
        trace,
        started_s,
    })
}

/// Checks that a trace can be written there; an existing file is not overwritten.
fn new_trace(path: &Path) -> Result<PathBuf, ServeError> {
    let path = absolute(path)?;
    let error = match path.parent().is_some_and(Path::is_dir) {
        true if !path.exists() => return Ok(path),
        true => io::Error::new(io::ErrorKind::AlreadyExists, "the file exists already"),
        false => io::Error::new(io::ErrorKind::NotFound, "its folder does not exist"),
    };
    Err(ServeError::File { what: "write", path, error })
}

fn state_folder() -> Result<PathBuf, ServeError> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    Ok(base.ok_or(ServeError::NoStateHome)?.join("thinc"))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, ServeError> {
    std::path::absolute(path).map_err(|error| ServeError::File {
        what: "find",
        path: path.to_owned(),
        error,
    })
}

impl SessionContext {
    /// The command of our own binary, for another role: by its path, so that process lists name it,
    /// unless a build has replaced the file; then by the kernel's link to the running program.
    fn own_program(&self) -> Command {
        let path = std::env::current_exe().ok().filter(|path| path.exists());
        Command::new(path.unwrap_or_else(|| "/proc/self/exe".into()))
    }

    /// The command of a program in a process session of its own (see launch.rs).
    fn launch(&self, program: &[OsString]) -> Command {
        let mut command = self.own_program();
        command
            .arg("launch")
            .arg("--parent")
            .arg(std::process::id().to_string())
            .arg("--")
            .args(program);
        command.stdin(Stdio::null());
        command
    }

    /// The log of a process. A restart must not erase the output of the last one.
    fn open_log(&self, name: &str, restarts: u32) -> Result<Log, ServeError> {
        let path = self.logs.join(name);
        let log = match restarts {
            0 => Log::create(path.clone()),
            _ => Log::append(path.clone()),
        };
        log.map_err(|error| ServeError::File { what: "write", path, error })
    }

    /// Starts a program whose output goes to a log.
    fn spawn_logged(
        &self,
        what: &'static str,
        log: Log,
        command: &mut Command,
    ) -> Result<Process, ServeError> {
        // One pipe for both, so that lines keep their order.
        let start = |error| ServeError::Start(what, error);
        let (read, write) = io::pipe().map_err(start)?;
        let second = write.try_clone().map_err(start)?;
        let child = command.stdout(write).stderr(second).spawn().map_err(start)?;
        // Drops our copies of the writing end, so that the log ends with the program.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let read = tokio::net::unix::pipe::Receiver::from_owned_fd(read.into()).map_err(start)?;
        Ok(Process { child, log: tokio::spawn(log.copy_from(read)) })
    }

    async fn start_xorg(&self, processes: &mut Processes) -> Result<(), ServeError> {
        let (conf, auth) = (self.folder.join("xorg.conf"), self.folder.join("Xauthority"));
        let write = |path: &Path, result: io::Result<()>| {
            result.map_err(|error| ServeError::File { what: "write", path: path.to_owned(), error })
        };
        let (width, height) = self.options.size;
        let socket = self.folder.join("driver.sock");
        let text = thinc_session_server::XorgConf {
            socket: &socket,
            width,
            height,
            pace: self.options.pace == Switch::On,
            render_node: self.gpu.node(),
            oracle: self.options.oracle,
        };
        write(&conf, std::fs::write(&conf, text.to_text()))?;
        let xauthority = Xauthority::write(&auth, random());
        let written = xauthority.map(|file| processes.xauthority = Some(file));
        write(&auth, written)?;
        // Another X server may take the number at the same moment.
        let mut number = display::FIRST;
        loop {
            number = display::free(number).ok_or(ServeError::NoDisplay)?;
            let result = self.start_xorg_as(number, processes).await;
            let ended = processes.xorg.as_ref().is_some_and(|xorg| xorg.child.id().is_none());
            if result.is_ok() || !ended || !display::taken(number) {
                return result;
            }
            number += 1;
        }
    }

    /// Starts the X server with this display number; the configuration is written.
    async fn start_xorg_as(
        &self,
        number: u32,
        processes: &mut Processes,
    ) -> Result<(), ServeError> {
        let (conf, auth) = (self.folder.join("xorg.conf"), self.folder.join("Xauthority"));
        let log = self.logs.join("xorg.log");

        // The only descriptor that Xorg inherits besides the standard ones; no other process is
        // started meanwhile.
        let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty())?;
            Ok((read, write))
        };
        let (read, write) = pipe().map_err(|error| ServeError::Start("the X server", error))?;
        let display_fd = std::os::fd::AsRawFd::as_raw_fd(&write).to_string();
        let mut arguments: Vec<OsString> = vec![self.xorg.clone().into()];
        arguments.extend([format!(":{number}").into(), "-config".into(), conf.into()]);
        arguments.extend([
            "-modulepath".into(),
            self.module_path.clone(),
            "-auth".into(),
            auth.into(),
        ]);
        // Its log goes over standard error to one of ours: Xorg's own file grows without limit
        // (without a system bus, by a line every ten seconds).
        arguments.extend([
            "-displayfd".into(),
            display_fd.into(),
            "-logfile".into(),
            "/dev/null".into(),
        ]);
        arguments.extend(["-verbose", "3"].map(Into::into));
        // Without -noreset the server would reset when its last client ends.
        arguments.extend(
            ["-nolisten", "tcp", "-noreset", "-novtswitch", "-sharevts", "-background", "none"]
                .map(Into::into),
        );
        let mut command = self.launch(&arguments);
        command.env_clear();
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "LD_LIBRARY_PATH",
            "ASAN_OPTIONS",
            "UBSAN_OPTIONS",
            "LSAN_OPTIONS",
            "LD_PRELOAD",
        ] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("XDG_RUNTIME_DIR", self.folder.join(""));
        let log_file = self.open_log("xorg.log", 0)?;
        processes.xorg = Some(self.spawn_logged("xorg", log_file, &mut command)?);
        drop(write);

        let mut display = String::new();
        let pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(read)
            .map_err(|error| ServeError::Start("the X server", error))?;
        let mut pipe = BufReader::new(pipe.take(16));
        let status = match timeout(XORG_START_TIMEOUT, pipe.read_line(&mut display)).await {
            Ok(Ok(1..)) if display.trim().parse::<u32>().is_ok() => {
                processes.display = format!(":{}", display.trim());
                return Ok(());
            }
            Ok(_) => match timeout(TERMINATE_TIMEOUT, wait(&mut processes.xorg)).await {
                Ok(status) => status.to_string(),
                Err(_) => "it printed no display number".to_owned(),
            },
            Err(_) => format!("no display number within {XORG_START_TIMEOUT:?}"),
        };
        Err(ServeError::XorgStart { status, lines: xorg_lines(&log), log })
    }

    /// Writes the session process's configuration, which stays the same across restarts until
    /// something is revoked.
    fn write_session_config(&self, processes: &Processes) -> Result<(), ServeError> {
        let path = self.folder.join(SESSION_CONFIG);
        let config = SessionConfig {
            name: self.name.clone(),
            title: processes.title.clone(),
            graphics: processes.graphics.line.clone(),
            driver_socket: self.folder.join("driver.sock"),
            display: processes.display.clone(),
            xauthority: self.folder.join("Xauthority"),
            port: match &self.port {
                Some(port) => port.config(&self.folder),
                None => portless_config(&self.options, &self.folder)?,
            },
            fifo: self.options.scheduler == Scheduler::Fifo,
            offscreen: self.options.offscreen == Switch::On,
            lossless: self.options.lossy == Lossy::Never,
            video: self.options.video.config(),
            video_encoder: self.options.video_encoder.library().name().to_owned(),
            gpu_encoding: self.options.video_encoder.gpu(&self.gpu),
            clipboard: self.options.clipboard(),
            files: self.options.files.config(),
            printing: self.desk.printing.as_ref().map(Printing::config),
            microphone: self.options.microphone == Switch::On,
            desk_socket: self.desk.sound.as_ref().map(|_| self.folder.join(DESK_SOCKET)),
            trace_socket: self.folder.join(TRACE_SOCKET),
            share_socket: self.folder.join(SHARE_SOCKET),
            trace: self.trace.clone(),
            opening: self.options.opening,
            priority: processes.priority.is_on(),
            max_rate: self.options.max_rate,
            end_idle: self.options.end_idle,
            end_disconnected: self.options.end_disconnected,
            metrics: self.options.metrics,
        };
        let text = serde_json::to_vec(&config).expect("strings and paths are JSON");
        // A session process that starts meanwhile reads the old one or the new one, whole.
        let new = self.folder.join(NEW_SESSION_CONFIG);
        let _ = std::fs::remove_file(&new);
        write_private(&new, &text)
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| ServeError::File { what: "write", path, error })
    }

    /// Makes everything that opened the session so far invalid, and ends the session process, which
    /// believes in it, with its connections. Viewers through ssh need none of it and reconnect.
    fn revoke(&self, processes: &mut Processes, scheme: Scheme) -> Answer {
        let Some(port) = &self.port else { return self.answer_link(scheme) };
        let old = port.replace_secret(SessionSecret::generate());
        if let Err(error) = self.write_session_config(processes) {
            port.replace_secret(old);
            return Answer::Error(format!("nothing is revoked: {error}"));
        }
        if let Some(session) = &mut processes.session {
            processes.revoked = true;
            // It may have ended by itself, which is as good.
            let _ = session.child.start_kill();
        }
        self.answer_link(scheme)
    }

    /// Keeps what the session's person calls it, also for the next session process.
    fn rename(&self, processes: &mut Processes, title: Option<String>) -> Answer {
        let is_valid = title.as_deref().is_none_or(|text| title_of(text) == title);
        if !is_valid {
            return Answer::Error(TITLE_RULE.to_owned());
        }
        let old = std::mem::replace(&mut processes.title, title);
        match self.write_session_config(processes) {
            Ok(()) => Answer::Renamed,
            Err(error) => {
                processes.title = old;
                Answer::Error(format!("the session is not renamed: {error}"))
            }
        }
    }

    /// Starts a session process. Viewers may connect from now on: they wait in the open socket.
    fn spawn_session(
        &self,
        processes: &mut Processes,
    ) -> Result<BufReader<ChildStdout>, ServeError> {
        let log = self.open_log("session.log", processes.restarts)?;
        let start = |error| ServeError::Start("the session process", error);
        let mut command = self.own_program();
        // The sockets are passed through standard input: no other descriptor has to stay open
        // across exec.
        let sockets = self.listeners.to_stdin().map_err(start)?;
        command
            .arg("session")
            .arg("--config")
            .arg(self.folder.join(SESSION_CONFIG))
            .stdin(Stdio::from(sockets));
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("XAUTHORITY", self.folder.join("Xauthority"))
            .envs(self.options.log_format.map(|format| (log::FORMAT, format.name())));
        // A terminal's hang-up or Ctrl-C is sent to the whole foreground group: only the supervisor
        // acts on it.
        command.process_group(0);
        let mut child = command.spawn().map_err(start)?;
        let (out, err) = (
            child.stdout.take().expect("its output is piped"),
            child.stderr.take().expect("its output is piped"),
        );
        processes.session = Some(Process { child, log: tokio::spawn(log.copy_from(err)) });
        Ok(BufReader::new(out))
    }

    /// Starts a desk. Its sockets are open already: nobody has to wait for it.
    fn spawn_desk(&self, processes: &mut Processes) -> Result<(), ServeError> {
        let what = "the sound server and the printer";
        let command = self.desk.command(self.own_program());
        let Some(mut command) = command.map_err(|error| ServeError::Start(what, error))? else {
            return Ok(());
        };
        let log = self.open_log("desk.log", processes.desk_restarts)?;
        processes.desk = Some(self.spawn_logged(what, log, &mut command)?);
        Ok(())
    }

    /// Starts PipeWire; a program waits for it in its socket.
    fn spawn_pipewire(&self, pipewire: &PipeWire) -> Result<Process, ServeError> {
        let what = "PipeWire";
        let command = pipewire.command(|words| self.launch(words));
        let (mut command, restarts) = command.map_err(|error| ServeError::Start(what, error))?;
        self.spawn_logged(what, self.open_log("pipewire.log", restarts)?, &mut command)
    }

    /// Starts the first session process and waits until it serves viewers.
    async fn start_session(&self, processes: &mut Processes) -> Result<(), ServeError> {
        self.write_session_config(processes)?;
        let mut out = self.spawn_session(processes)?;
        let mut line = String::new();
        let mut first = (&mut out).take(64);
        let status = match timeout(SESSION_START_TIMEOUT, first.read_line(&mut line)).await {
            Ok(Ok(1..)) if line == thinc_session_server::READY_LINE => {
                processes.priority.listen(out);
                return Ok(());
            }
            Ok(_) => match timeout(TERMINATE_TIMEOUT, wait(&mut processes.session)).await {
                Ok(status) => status.to_string(),
                Err(_) => "it did not report that it is ready".to_owned(),
            },
            Err(_) => format!("not ready within {SESSION_START_TIMEOUT:?}"),
        };
        let log = self.logs.join("session.log");
        Err(ServeError::SessionStart { status, lines: last_lines(&log, 8, |_| true), log })
    }

    /// Gives COMMAND a window manager, unless it brings its own; without one the session is usable
    /// too.
    fn start_window_manager(
        &self,
        processes: &mut Processes,
    ) -> Result<Option<ChildStdout>, ServeError> {
        match self.options.window_manager {
            WindowManager::None => return Ok(None),
            WindowManager::Auto if self.manages_windows => return Ok(None),
            WindowManager::Auto | WindowManager::On => {}
        }
        let Some(program) = window_manager::program() else {
            print_error(window_manager::MISSING);
            return Ok(None);
        };
        let config = self.folder.join("openbox.xml");
        let words = window_manager::command(program, &config)
            .map_err(|error| ServeError::File { what: "write", path: config, error })?;
        let mut command = self.application(&words, &processes.display)?;
        let log = self.open_log("window-manager.log", 0)?;
        let (child, out, err) = window_manager::spawn(&mut command)
            .map_err(|error| ServeError::Start("the window manager", error))?;
        processes.window_manager = Some(Process { child, log: tokio::spawn(log.copy_from(err)) });
        Ok(Some(out))
    }

    /// A program that finds the session's display, and nothing of the user's own session.
    fn application(&self, words: &[OsString], display: &str) -> Result<Command, ServeError> {
        let own_runtime = self.folder.join("xdg");
        create_folder(&own_runtime).map_err(|error| ServeError::File {
            what: "create",
            path: own_runtime.clone(),
            error,
        })?;
        let mut command = self.launch(words);
        for name in REMOVED_ENVIRONMENT.into_iter().chain(sound::REMOVED_ENVIRONMENT) {
            command.env_remove(name);
        }
        command
            .env("DISPLAY", display)
            .env("XAUTHORITY", self.folder.join("Xauthority"))
            .env("XDG_RUNTIME_DIR", own_runtime)
            .env("XDG_SESSION_TYPE", "x11")
            .env("THINC_SESSION", &self.name)
            .env(SOCKET_VARIABLE, self.folder.join(SHARE_SOCKET))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(self.desk.environment());
        Ok(command)
    }

    fn start_command(&self, processes: &mut Processes) -> Result<(), ServeError> {
        let mut arguments = Vec::new();
        if let (Some(run), Some(_)) =
            (search::program("dbus-run-session".as_ref()), search::program("dbus-daemon".as_ref()))
        {
            arguments.extend([run.into_os_string(), "--".into()]);
        }
        arguments.extend(self.command.iter().cloned());
        let mut command = self.application(&arguments, &processes.display)?;
        command.envs(processes.graphics.environment.iter().copied());
        command.envs(search::virtualgl_transport());
        let log = self.open_log("command.log", 0)?;
        let process = self.spawn_logged("command", log, &mut command)?;
        process.child.id().iter().for_each(|&pid| processes.priority.begin(pid));
        processes.graphics.begin();
        processes.command = Some(process);
        Ok(())
    }

    /// Starts the program that draws a frame in the session, to see what draws it; `log` is its
    /// file, and `more` are its options.
    fn spawn_gl_probe(
        &self,
        display: &str,
        (log, more, environment): (&str, &[&str], Environment),
    ) -> Result<Child, ServeError> {
        let own = self.own_program();
        let mut words = vec![own.as_std().get_program().to_owned(), "gl-probe".into()];
        words.extend(more.iter().map(Into::into));
        let mut command = self.application(&words, display)?;
        let log = self.open_log(log, 0)?;
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = |error| ServeError::Start("the program that tries OpenGL", error);
        let mut child = command.spawn().map_err(start)?;
        let err = child.stderr.take().expect("its output is piped");
        tokio::spawn(log.copy_from(err));
        Ok(child)
    }

    /// Says what draws 3D programs, here and at viewers.
    fn show_graphics(&self, processes: &mut Processes, report: &Report) {
        let line = graphics::line(report, &self.gpu, &self.logs.join("xorg.log"));
        print(&line);
        processes.graphics.line = Some(line.clone());
        // For the next session process.
        if let Err(error) = self.write_session_config(processes) {
            print_error(&format!("thinc: {error}"));
        }
        graphics::tell(&self.folder.join(SHARE_SOCKET), &line);
    }

    fn answer_link(&self, scheme: Scheme) -> Answer {
        match &self.port {
            Some(port) => Answer::Link(port.link(scheme)),
            None => Answer::Error(format!(
                "the session {0} has no port, and so no link: open it through ssh: thinc-view \
                    ssh://HOST/{0}",
                self.name
            )),
        }
    }

    fn status(&self, processes: &Processes) -> Status {
        let pid = |process: &Option<Process>| {
            process.as_ref().and_then(|process| process.child.id()).unwrap_or(0)
        };
        Status {
            name: self.name.clone(),
            title: processes.title.clone(),
            listen: self.port.as_ref().map(|port| port.listen.to_string()),
            display: processes.display.clone(),
            xauthority: self.folder.join("Xauthority").display().to_string(),
            command: self
                .command
                .iter()
                .map(|process| process.to_string_lossy())
                .collect::<Vec<_>>()
                .join(" "),
            graphics: processes.graphics.line.clone(),
            started_s: self.started_s,
            restarts: processes.restarts,
            pids: Pids {
                supervisor: std::process::id(),
                xorg: pid(&processes.xorg),
                session: pid(&processes.session),
                command: pid(&processes.command),
                desk: pid(&processes.desk),
            },
        }
    }

    /// Tells the user and scripts that viewers can connect.
    fn print_links(&self, processes: &Processes) -> Result<(), ServeError> {
        if let Some(path) = &self.options.ready_json {
            let status = self.status(processes);
            let link = |scheme| self.port.as_ref().map(|port| port.link(scheme));
            let ready = Ready {
                link: link(Scheme::Https),
                native_link: link(Scheme::Thinc),
                status: &status,
            };
            let text = serde_json::to_vec_pretty(&ready).expect("strings and numbers are JSON");
            // Renamed when it is complete: a script waits for the name.
            let process = path.with_file_name(format!(
                ".{}.{}",
                path.file_name().unwrap_or_default().to_string_lossy(),
                std::process::id()
            ));
            write_private(&process, &text)
                .and_then(|()| std::fs::rename(&process, path))
                .map_err(|error| ServeError::File { what: "write", path: path.clone(), error })?;
        }
        let command = self
            .command
            .iter()
            .map(|process| process.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        print(&format!(
            "The session {} is ready, on display {} with {command}.\n",
            self.name, processes.display
        ));
        let Some(port) = &self.port else {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            print(&format!(
                "  From another machine, through ssh:\n    thinc-view ssh://{host}/{}",
                self.name
            ));
            return Ok(());
        };
        print(&format!(
            "  In a browser:\n    {}\n\n  In a window:\n    echo '{}' | {} -\n\n\
             Each link opens it once, within {} minutes; `thinc link {}` prints another one.",
            port.link(Scheme::Https),
            port.link(Scheme::Thinc),
            search::viewer_command().display(),
            thinc_transport::token::TOKEN_LIFE_S / 60,
            self.name,
        ));
        if let Some(pin) = port.self_signed_key() {
            // As browsers show it, so that it can be compared.
            let hex: String = pin.0.iter().map(|byte| format!("{byte:02x}")).collect();
            print(&format!(
                "Browsers warn of the certificate, which is self-signed. The SHA-256 of its public \
                    key is\n  {hex}"
            ));
        }
        Ok(())
    }
}

/// Writes a new file of that name: an existing one may be a link, or readable by others
/// (`--ready-json` in /tmp).
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

/// Starts the processes in order, then waits until something ends the session.
async fn run_processes(
    context: &SessionContext,
    processes: &mut Processes,
    stop_clients: &mut Vec<UnixStream>,
    detached: bool,
) -> Result<SessionEnd, ServeError> {
    // Before anything that could change it.
    let host_name = HostName::watch();
    context.spawn_desk(processes)?;
    context.start_xorg(processes).await?;
    // Both need only X.
    let starting = context.start_window_manager(processes)?;
    context.start_session(processes).await?;
    window_manager::wait_until_ready(starting).await;
    if let Some(nvidia) = Graphics::nvidia(&context.gpu) {
        let how = ("gl-probe-nvidia.log", &["--at-once"][..], nvidia);
        match context.spawn_gl_probe(&processes.display, how) {
            Ok(child) => processes.graphics.try_nvidia(child).await,
            Err(error) => print_error(&format!("thinc: {error}")),
        }
    }
    context.start_command(processes)?;
    let path = context.folder.join("control.sock");
    let mut requests =
        control::open(&path).map_err(|error| ServeError::File { what: "create", path, error })?;
    context.print_links(processes)?;
    if detached {
        let log = context.logs.join("supervisor.log");
        detach::release(&log).map_err(|error| ServeError::File {
            what: "write",
            path: log,
            error: io::Error::other(error.to_string()),
        })?;
    } else {
        print("\nCtrl-C ends the session; closing the terminal does not.");
    }

    let (mut restarts, mut desk_restarts) = (Restarts::new(), Restarts::new());
    let mut child_ended = signal(SignalKind::child()).map_err(ServeError::Signals)?;
    loop {
        let (xorg, session) = (&mut processes.xorg, &mut processes.session);
        let (desk, pipewire) = (&mut processes.desk, &mut processes.pipewire);
        let graphics = &mut processes.graphics;
        let (window_manager, command) = (&mut processes.window_manager, &mut processes.command);
        let priority = &mut processes.priority;
        let measure = priority.due();
        tokio::select! {
            status = wait(window_manager) => {
                processes.window_manager = None;
                print_error(&format!("thinc: the window manager ended ({status})"));
            }
            status = wait(xorg) => {
                let log = context.logs.join("xorg.log");
                return Err(ServeError::XorgEnd { status, lines: xorg_lines(&log), log });
            }
            status = wait(command) => {
                if !status.success() {
                    let lines = last_lines(&context.logs.join("command.log"), 8, |_| true);
                    let name = context.command[0].to_string_lossy();
                    print_error(&format!("thinc: {name} ended ({status}){lines}"));
                }
                return Ok(SessionEnd::Command(status));
            }
            status = wait(session) => {
                processes.session = None;
                if status.code() == Some(i32::from(EXIT_UNUSED)) {
                    print_error("thinc: the session ends, because nobody has used it for too long");
                    return Ok(SessionEnd::Requested);
                }
                if std::mem::take(&mut processes.revoked) {
                    print_error("thinc: links and logins were revoked; restarting");
                    restarts.ended();
                    continue;
                }
                let pause = restarts.died();
                let log = context.logs.join("session.log");
                print_error(&match pause {
                    Duration::ZERO => {
                        format!("thinc: the session process ended ({status}); restarting it")
                    }
                    _ => format!(
                        "thinc: the session process ended ({status}), {} times in a row; \
                         restarting it in {pause:?}. See {}",
                        restarts.in_row,
                        log.display()
                    ),
                });
            }
            status = wait(desk) => {
                processes.desk = None;
                processes.pipewire.end();
                let pause = desk_restarts.died();
                print_error(&format!(
                    "thinc: the sound server and printer ended ({status}); restarting it in \
                     {pause:?}. Programs have sound again once they are restarted. See {}",
                    context.logs.join("desk.log").display()
                ));
            }
            () = pipewire.needed() => {
                let process = context.spawn_pipewire(&processes.pipewire);
                processes.pipewire.started(process);
            }
            () = desk_restarts.due() => {
                processes.desk_restarts += 1;
                if let Err(error) = context.spawn_desk(processes) {
                    print_error(&format!("thinc: {error}"));
                    desk_restarts.failed();
                }
            }
            () = restarts.due() => {
                processes.restarts += 1;
                match context.spawn_session(processes) {
                    Ok(out) => processes.priority.listen(out),
                    Err(error) => {
                        print_error(&format!("thinc: {error}"));
                        restarts.failed();
                    }
                }
            }
            event = graphics.event() => {
                match event {
                    graphics::Event::Due => {
                        let how = ("gl-probe.log", &[][..], processes.graphics.environment);
                        match context.spawn_gl_probe(&processes.display, how) {
                            Ok(child) => processes.graphics.started(child),
                            Err(error) => print_error(&format!("thinc: {error}")),
                        }
                    }
                    graphics::Event::Reported(report) => context.show_graphics(processes, &report),
                }
            }
            event = priority.event() => {
                let servers = processes.servers();
                processes.priority.handle(event, &servers);
            }
            () = measure => {
                let servers = processes.servers();
                processes.priority.measure(&servers);
            }
            _ = child_ended.recv() => {
                let id = |process: &Option<Process>| process.as_ref()?.child.id();
                let Processes { xorg, session, desk, window_manager, command, .. } = &*processes;
                let own = [xorg, session, desk, window_manager, command].map(id);
                let others = [processes.pipewire.id(), processes.graphics.id()];
                descendants::reap(&[&own[..], &others].concat());
            }
            () = host_name.changed() => {
                let rewritten = processes.xauthority.as_ref().map_or(Ok(()), Xauthority::rewrite);
                if let Err(error) = rewritten {
                    print_error(&format!("thinc: cannot write the X cookie's file again: {error}"));
                }
            }
            Some((request, stream)) = requests.recv() => {
                let answer = match request {
                    Request::Status => Answer::Status(context.status(processes)),
                    Request::Link { native: true } => context.answer_link(Scheme::Thinc),
                    Request::Link { native: false } => context.answer_link(Scheme::Https),
                    Request::Revoke { native: true } => context.revoke(processes, Scheme::Thinc),
                    Request::Revoke { native: false } => context.revoke(processes, Scheme::Https),
                    Request::Rename { title } => context.rename(processes, title),
                    Request::Priority => Answer::Priority(processes.priority.status()),
                    Request::Stop => Answer::Stopping,
                };
                let mut line = serde_json::to_vec(&answer).expect("strings and numbers are JSON");
                line.push(b'\n');
                // The first bytes fit into a new socket's buffer; a client that has left does not
                // need them.
                let _ = stream.try_write(&line);
                if let Answer::Stopping = answer {
                    stop_clients.push(stream);
                    return Ok(SessionEnd::Requested);
                }
            }
        }
    }
}

/// The errors in Xorg's log, or its last lines if there are none.
fn xorg_lines(log: &Path) -> String {
    // Errors that do not matter: no system bus, and no input drivers for hardware.
    let harmless = ["dbus-core", "module does not exist", "No input driver matching"];
    let is_harmless = |line: &str| harmless.iter().any(|words| line.contains(words));
    // The log's head explains its markers, "(WW) warning, (EE) error, …", and is not an error.
    let is_error =
        |line: &str| line.contains("(EE)") && !line.contains("(WW) warning") && !is_harmless(line);
    let lines = last_lines(log, 8, is_error);
    if lines.is_empty() { last_lines(log, 8, |_| true) } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_written_to_an_existing_file_or_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("thinc-private-{}", std::process::id()));
        create_folder(&folder).unwrap();
        let (path, other) = (folder.join("ready.json"), folder.join("other"));
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write_private(&path, b"secret").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs", "a link is not followed");
        std::fs::remove_file(&path).unwrap();
        // Created by somebody else before, and open to all.
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
    fn errors_of_the_x_server_are_shown_and_not_the_legend_of_its_log() {
        let log = std::env::temp_dir().join(format!("thinc-xorg-lines-{}", std::process::id()));
        let legend = "\t(WW) warning, (EE) error, (NI) not implemented, (??) unknown.";
        std::fs::write(
            &log,
            format!("X.Org X Server\n{legend}\n(EE) no screens found\nlast words\n"),
        )
        .unwrap();
        assert_eq!(xorg_lines(&log), "\n    (EE) no screens found");
        std::fs::write(&log, format!("{legend}\nlast words\n")).unwrap();
        assert!(
            xorg_lines(&log).ends_with("last words"),
            "without errors the last lines are shown"
        );
        std::fs::remove_file(&log).unwrap();
    }
}
