//! Path 10/13: from client.rs, to the system's ssh.
//! Starts ssh, waits for the greeting of `thinc session --stdio` behind it and for its offer of a
//! UDP port (client/switch.rs uses it), and returns its two pipes. A host without this version of
//! thinc says so before (install.rs has the answer). ssh prompts on the terminal or by SSH_ASKPASS,
//! as usual. Knows ssh's options and exit codes; never keys or passwords.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thinc_protocol::wire::is_deceptive;
use thinc_region::Size;
use thinc_transport::host::HostReport;
use thinc_transport::offer::{self, Offer, UdpPorts};
use thinc_transport::stdio::{EXIT_NO_SESSION, Greeting, escape, find_greeting};
use thiserror::Error;

use crate::install::{self, InstallOptions, Plan, Task};
use crate::process::Process;

/// 150 s: sshd's LoginGraceTime of 120 s, and half a minute for a session to start.
pub(crate) const LOGIN_TIME: Duration = Duration::from_secs(150);
/// 5 s and 3: ssh detects a dead path within 15 s, unless its configuration sets another limit. The
/// viewer notices sooner while there is input; this ends ssh itself.
const ALIVE_INTERVAL_S: u32 = 5;
const ALIVE_COUNT: u32 = 3;
/// 1 s: from the end of ssh's output to its exit. A shared ssh that carries other connections goes
/// on.
const END_TIME: Duration = Duration::from_secs(1);
/// What the script on the host prints when it is ready for the next piece.
const NEXT: &[u8] = b"next\n";
/// As for `thinc serve --name`.
const NAME_BYTES_MAX: usize = 32;

/// A host reached through ssh, and the session on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    name: Option<String>,
    /// Command of a new session; empty: the desktop.
    pub command: Vec<OsString>,
    /// Screen size of a new session.
    pub size: Option<Size>,
    /// The ssh program and its first arguments.
    pub program: Vec<String>,
    /// Path of `thinc` on the host; `None`: the one of this version in PATH, or that thinc-view has
    /// copied there, or copies there.
    pub thinc: Option<String>,
    /// Whether it copies thinc there.
    pub install: InstallOptions,
    /// What carries the session after the login.
    pub transport: SshTransport,
    /// UDP ports of the host, one of which the session may open for this viewer.
    pub udp_ports: UdpPorts,
}

/// What carries a session whose viewer has logged in with ssh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SshTransport {
    /// The tunnel, and QUIC in its place once it gets through.
    #[default]
    Auto,
    /// QUIC only; ssh is used for the login alone.
    Quic,
    /// The tunnel only; the host opens no UDP port.
    Tunnel,
}

/// Errors of a connection through ssh, in words that a user can act on.
#[derive(Debug, Error)]
pub enum SshError {
    /// The address is invalid.
    #[error("invalid ssh address {0:?} ({1}): expected ssh://[USER@]HOST[:PORT][/SESSION]")]
    Address(String, &'static str),
    /// The path of `thinc` has characters that a shell might interpret.
    #[error("--thinc {0:?}: only A-Z, a-z, 0-9 and ./_-~ are allowed in the path")]
    ThincPath(String),
    /// `--ssh` is empty.
    #[error("--ssh is empty: expected a program, for example \"ssh -F FILE\"")]
    NoProgram,
    /// ssh cannot be started.
    #[error("cannot run {0}: {1}")]
    Start(String, io::Error),
    /// ssh ended without a connection.
    #[error("ssh cannot reach {host}: {words}")]
    Unreachable {
        /// The host.
        host: String,
        /// ssh's last message.
        words: String,
    },
    /// The host refused the login, or ssh refused the host.
    #[error("{host} refused the login, or its host key has changed: {words}")]
    Refused {
        /// The host.
        host: String,
        /// ssh's last message.
        words: String,
    },
    /// `thinc` is not installed on the host.
    #[error(
        "{thinc} was not found on {host}: install thinc there, or give its path with --thinc \
            ({words})"
    )]
    NoThinc {
        /// The host.
        host: String,
        /// The path that was tried.
        thinc: String,
        /// The shell's message.
        words: String,
    },
    /// No thinc is on the host, and none was copied there.
    #[error("thinc is not installed on {host}: {advice}")]
    NotInstalled {
        /// The host.
        host: String,
        /// What to do.
        advice: String,
    },
    /// No thinc is on the host, and the one on this machine would not work there.
    #[error("thinc is not installed on {host}, and thinc-view cannot copy it there: {why}")]
    CannotInstall {
        /// The host.
        host: String,
        /// The reason, and what to do.
        why: String,
    },
    /// The host's `thinc` does not know a command or option.
    #[error("thinc on {0} has another version than this thinc-view: {1}")]
    Version(String, String),
    /// The host's `thinc` reported an error.
    #[error("{host}: {words}")]
    Remote {
        /// The host.
        host: String,
        /// Its message.
        words: String,
    },
    /// The session has ended.
    #[error("the session on {0} has ended")]
    NoSession(String),
    /// The host printed something before the session's greeting.
    #[error(
        "unexpected output from {0}: does a start-up file of its shell (.bashrc, …) print \
            something?"
    )]
    Noise(String),
    /// The login timed out.
    #[error("no session on {0} within {1:?}")]
    Timeout(String, Duration),
}

impl SshError {
    /// True if a later attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, SshError::Unreachable { .. } | SshError::Timeout(..))
    }
}

impl SshTarget {
    pub(crate) const SCHEME: &str = "ssh://";

    /// Parses what follows `ssh://`.
    pub fn parse(place: &str) -> Result<SshTarget, SshError> {
        let bad = |why| SshError::Address(format!("{}{place}", SshTarget::SCHEME), why);
        let (authority, name) = place.split_once('/').unwrap_or((place, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| bad("port"))?)),
            None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
        };
        // Excludes what ssh could take for an option, and what a ProxyCommand's shell could
        // interpret.
        let is_valid = |text: &str, signs: &[u8]| {
            !text.is_empty()
                && text.len() <= 255
                && !text.starts_with('-')
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte))
        };
        if !is_valid(host, b"._-:%") {
            return Err(bad("host"));
        }
        if user.is_some_and(|user| !is_valid(user, b"._-+@")) {
            return Err(bad("user"));
        }
        let port = match port {
            None => None,
            Some(digits) => Some(
                digits
                    .parse()
                    .ok()
                    .filter(|&port: &u16| {
                        port != 0 && digits.bytes().all(|byte| byte.is_ascii_digit())
                    })
                    .ok_or_else(|| bad("port"))?,
            ),
        };
        let name = name.strip_suffix('/').unwrap_or(name);
        if !name.is_empty()
            && (!is_valid(name, b"._-") || name.starts_with('.') || name.len() > NAME_BYTES_MAX)
        {
            return Err(bad("session name"));
        }
        Ok(SshTarget {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
            name: Some(name).filter(|name| !name.is_empty()).map(str::to_owned),
            command: Vec::new(),
            size: None,
            program: vec!["ssh".to_owned()],
            thinc: None,
            install: InstallOptions::default(),
            transport: SshTransport::default(),
            udp_ports: UdpPorts::default(),
        })
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Checks the options besides the address.
    pub fn check(&self) -> Result<(), SshError> {
        if let Some(thinc) = &self.thinc {
            // The remote shell expands the tilde; everything else is passed unchanged.
            let path = thinc.strip_prefix("~/").unwrap_or(thinc);
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"./_-".contains(&byte);
            if path.is_empty() || path.starts_with('-') || !path.bytes().all(is_valid) {
                return Err(SshError::ThincPath(thinc.clone()));
            }
        }
        if self.program.is_empty() {
            return Err(SshError::NoProgram);
        }
        Ok(())
    }

    /// The command line for the remote shell, whichever that is: it interprets none of the words.
    fn remote(&self, attempt: Attempt) -> String {
        let mut words: Vec<String> = vec!["session".into(), "--stdio".into()];
        if let Some(name) = &self.name {
            words.extend(["--name".into(), name.clone()]);
        }
        if attempt.is_reconnect {
            words.push("--attach".into());
        }
        if attempt.wants_offer {
            words.extend(["--udp-ports".into(), self.udp_ports.to_string()]);
        }
        if let Some(Size { width, height }) = self.size {
            words.extend(["--size".into(), format!("{width}x{height}")]);
        }
        if !self.command.is_empty() {
            words.extend(["--escaped".into(), "--".into()]);
            words.extend(self.command.iter().map(|word| escape(word)));
        }
        match &self.thinc {
            Some(thinc) => format!("{thinc} {}", words.join(" ")),
            None => install::command_line(Task::Session, &words),
        }
    }

    /// The ssh command: program, given options, address.
    fn command(&self, options: &[String]) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).args(options);
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        if let Some(user) = &self.user {
            command.arg("-l").arg(user);
        }
        command.arg("--").arg(&self.host);
        command
    }

    /// ssh options: bytes pass unchanged, nothing is forwarded (not the agent either, which the
    /// session's programs could use), and a dead path is detected. The user's configuration has
    /// precedence for the latter. And the host that ssh connects to, if
    /// there is no proxy between.
    fn options(&self) -> (Vec<String>, Option<String>) {
        let mut options: Vec<String> = ["-T", "-a", "-x", "-e", "none"].map(str::to_owned).into();
        for option in ["PermitLocalCommand=no", "ClearAllForwardings=yes", "RemoteCommand=none"] {
            options.push(format!("-o{option}"));
        }
        let mut asking = self.command(&["-G".to_owned()]);
        let output = asking.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let said = output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default();
        let is_set = |option: &str, unset: &str| {
            said.lines().any(|line| line == format!("{option} {unset}"))
        };
        if is_set("serveraliveinterval", "0") {
            options.push(format!("-oServerAliveInterval={ALIVE_INTERVAL_S}"));
            options.push(format!("-oServerAliveCountMax={ALIVE_COUNT}"));
        }
        if is_set("connecttimeout", "none") {
            options.push(format!("-oConnectTimeout={}", ALIVE_INTERVAL_S * ALIVE_COUNT));
        }
        (options, direct_host(&said))
    }
}

/// The host name in ssh's configuration (`ssh -G`), unless a proxy is between.
fn direct_host(configuration: &str) -> Option<String> {
    let value = |option: &str| {
        let mut lines = configuration.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == option).map(|(_, value)| value)
    };
    let is_none = |option| value(option).is_none_or(|value| value == "none");
    let name = value("hostname").filter(|_| is_none("proxyjump") && is_none("proxycommand"))?;
    Some(name.to_owned())
}

impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SshTarget::SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match (&self.name, self.command.first()) {
            (Some(name), _) => write!(f, "/{name}"),
            (None, Some(command)) => write!(f, "/ -- {}", command.to_string_lossy()),
            (None, None) => Ok(()),
        }
    }
}

/// How ssh is started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempt {
    /// Reconnect: the session existed before, and none is started in its place.
    pub(crate) is_reconnect: bool,
    /// The last connection was unresponsive: do not use a shared ssh connection over the same path.
    pub(crate) unshared: bool,
    /// Ask for a UDP port.
    pub(crate) wants_offer: bool,
}

/// The answer about a UDP port, if one was asked for; `Err`: why there is none.
type OfferAnswer = Option<Result<Offer, String>>;

/// A login whose session has sent its greeting.
pub(crate) struct Greeted {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) offer: OfferAnswer,
    /// The host that ssh connects to, if there is no proxy between: the offered port may be
    /// reached there too.
    pub(crate) direct_host: Option<String>,
}

/// What a host prints first.
enum Found {
    /// Its session's greeting.
    Greeting(OfferAnswer),
    /// It lacks this version of thinc.
    Report(Box<HostReport>),
}

/// A running ssh, before the session's greeting.
pub(crate) struct Login {
    target: SshTarget,
    attempt: Attempt,
    writer: Writer,
    direct_host: Option<String>,
}

/// The reading half; blocks until bytes arrive.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: UnixStream,
    early: Vec<u8>,
    process: Arc<Process>,
    closed: Arc<AtomicBool>,
}

/// The writing half, which also ends ssh.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    stream: Arc<UnixStream>,
    process: Arc<Process>,
    greeted: Arc<AtomicBool>,
    /// This viewer has closed the connection: nobody waits for ssh's reason.
    closed: Arc<AtomicBool>,
}

impl Login {
    /// Starts ssh.
    pub(crate) fn start(target: &SshTarget, attempt: Attempt) -> Result<Login, SshError> {
        Login::start_with(target, attempt, &target.remote(attempt))
    }

    /// The same with this command line for the remote shell.
    fn start_with(target: &SshTarget, attempt: Attempt, remote: &str) -> Result<Login, SshError> {
        let failed = |error| SshError::Start(target.program[0].clone(), error);
        let (mut options, direct_host) = target.options();
        if attempt.unshared {
            options.extend(["-S", "none"].map(str::to_owned));
        }
        let mut command = target.command(&options);
        command.arg(remote);
        let (near, far) = UnixStream::pair().map_err(failed)?;
        let input: std::os::fd::OwnedFd = far.try_clone().map_err(failed)?.into();
        command.stdin(input).stdout(std::os::fd::OwnedFd::from(far));
        // While the user waits for the first connection, ssh's messages are shown; later the window
        // has its own.
        let process = Process::start(&mut command, !attempt.is_reconnect).map_err(failed)?;
        // Closes our copies of the far end, so that ssh's exit ends the stream.
        drop(command);
        let writer = Writer {
            stream: Arc::new(near),
            process,
            greeted: Arc::default(),
            closed: Arc::default(),
        };
        Ok(Login { target: target.clone(), attempt, writer, direct_host })
    }

    /// A handle to end the login early.
    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// Waits for the session's greeting, and for the answer about a UDP port behind it. Where thinc
    /// is missing, it may be copied before; `hold` is told when a question and the copy begin
    /// (true), and when they have ended.
    pub(crate) fn greet(self, hold: &dyn Fn(bool)) -> Result<Greeted, SshError> {
        let mut bytes = Vec::new();
        let mut result = self.find_greeting(&mut bytes);
        // With --thinc no script runs there that could ask for a copy.
        if let Ok(Found::Report(report)) = &result
            && self.target.thinc.is_none()
        {
            hold(true);
            let answered = self.answer(report);
            hold(false);
            bytes.clear();
            result = answered.and_then(|()| self.find_greeting(&mut bytes));
        }
        let result = result.and_then(|found| match found {
            Found::Greeting(offer) => Ok((bytes, offer)),
            Found::Report(_) => {
                let words = "it says without being asked that thinc is missing".to_owned();
                Err(SshError::Version(self.target.host.clone(), words))
            }
        });
        let stream =
            self.writer.stream.set_read_timeout(None).and_then(|()| self.writer.stream.try_clone());
        match (result, stream) {
            (Ok((early, offer)), Ok(stream)) => {
                self.writer.greeted.store(true, Ordering::Release);
                let (process, closed) = (self.writer.process.clone(), self.writer.closed.clone());
                let reader = Reader { stream, early, process, closed };
                Ok(Greeted { reader, writer: self.writer, offer, direct_host: self.direct_host })
            }
            (Ok(_), Err(error)) => {
                self.writer.close();
                Err(SshError::Start(self.target.program[0].clone(), error))
            }
            (Err(error), _) => {
                self.writer.close();
                Err(error)
            }
        }
    }

    /// Waits until one of both is complete; leaves what follows it in `bytes`.
    fn find_greeting(&self, bytes: &mut Vec<u8>) -> Result<Found, SshError> {
        let deadline = Instant::now() + LOGIN_TIME;
        let host = || self.target.host.clone();
        loop {
            match find_greeting(bytes) {
                Greeting::At(at) => {
                    if let Some(taken) = self.take_offer(&bytes[at..]) {
                        let (offer, length) = taken?;
                        bytes.drain(..at + length);
                        return Ok(Found::Greeting(offer));
                    }
                }
                Greeting::OtherVersion => {
                    return Err(SshError::Version(host(), "it sends another greeting".into()));
                }
                Greeting::Incomplete | Greeting::PreambleTooLong => match HostReport::find(bytes) {
                    Ok(Some(report)) => return Ok(Found::Report(Box::new(report))),
                    Ok(None) if HostReport::has_begun(bytes) => {}
                    Ok(None) if find_greeting(bytes) == Greeting::Incomplete => {}
                    Ok(None) => return Err(SshError::Noise(host())),
                    Err(error) => return Err(SshError::Version(host(), error.to_string())),
                },
            }
            self.read_more(bytes, deadline)?;
        }
    }

    fn read_more(&self, bytes: &mut Vec<u8>, deadline: Instant) -> Result<(), SshError> {
        let mut buffer = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut stream = &*self.writer.stream;
            let count = match stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))) {
                Ok(()) if left.is_zero() => return Err(self.timeout()),
                Ok(()) => stream.read(&mut buffer),
                Err(error) => Err(error),
            };
            match count {
                Ok(0) => return Err(self.ended(bytes)),
                Ok(count) => {
                    bytes.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(self.timeout());
                }
                Err(_) => return Err(self.ended(bytes)),
            }
        }
    }

    /// Answers a host that lacks this version of thinc: uses another, or copies this one.
    fn answer(&self, report: &HostReport) -> Result<(), SshError> {
        let SshTarget { host, install, .. } = &self.target;
        let plan = install::answer(host, install, self.attempt.is_reconnect, report)?;
        let stream = &*self.writer.stream;
        // A host that reads nothing must not keep the viewer.
        stream.set_write_timeout(Some(LOGIN_TIME)).map_err(|error| self.not_written(&error))?;
        match plan {
            Some(plan) => self.copy(&plan)?,
            None => (&*stream).write_all(b"use\n").map_err(|error| self.not_written(&error))?,
        }
        stream.set_write_timeout(None).map_err(|error| self.not_written(&error))
    }

    fn copy(&self, plan: &Plan) -> Result<(), SshError> {
        let mut printed = Vec::new();
        let next = |writing: Duration| {
            let deadline = Instant::now() + LOGIN_TIME + writing;
            while printed.len() < NEXT.len() {
                self.read_more(&mut printed, deadline)?;
            }
            if printed == NEXT {
                printed.clear();
                return Ok(());
            }
            let words = "it answers a copy in another way".to_owned();
            Err(SshError::Version(self.target.host.clone(), words))
        };
        plan.send(&*self.writer.stream, next, |error| self.not_written(&error))
    }

    /// Why the host was not told something.
    fn not_written(&self, error: &io::Error) -> SshError {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.timeout(),
            _ => self.ended(&[]),
        }
    }

    /// The answer about a UDP port in the bytes after the greeting, and its length; `None` if it is
    /// not complete yet.
    fn take_offer(&self, bytes: &[u8]) -> Option<Result<(OfferAnswer, usize), SshError>> {
        if !self.attempt.wants_offer {
            return Some(Ok((None, 0)));
        }
        let invalid = || {
            let words = "it sends an invalid answer about UDP ports";
            Some(Err(SshError::Version(self.target.host.clone(), words.to_owned())))
        };
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => match offer::parse_answer(&bytes[..=end]) {
                Ok(answer) => Some(Ok((Some(answer), end + 1))),
                Err(_) => invalid(),
            },
            None if bytes.len() >= offer::LINE_BYTES_MAX => invalid(),
            None => None,
        }
    }

    fn timeout(&self) -> SshError {
        SshError::Timeout(self.target.host.clone(), LOGIN_TIME)
    }

    /// Why ssh ended, from its exit code and its output.
    fn ended(&self, printed: &[u8]) -> SshError {
        let code = self.writer.process.wait_for(END_TIME).and_then(|status| status.code());
        let words = self.writer.process.last_message().or_else(|| last_line(printed));
        explain(&self.target, self.attempt, code, words)
    }
}

/// Removes what `thinc-view` has copied to the host; returns the folders.
///
/// # Errors
/// The login has failed, or a file cannot be removed.
pub fn uninstall(target: &SshTarget) -> Result<Vec<String>, SshError> {
    let remote = install::command_line(Task::Remove, &[]);
    let login = Login::start_with(target, Attempt::default(), &remote)?;
    let found = login.find_greeting(&mut Vec::new());
    let result = match found {
        Ok(Found::Report(report)) => Ok(report.removed),
        Ok(Found::Greeting(_)) => {
            let words = "it runs thinc, whatever is requested".to_owned();
            Err(SshError::Version(target.host.clone(), words))
        }
        Err(error) => Err(error),
    };
    login.writer.close();
    result
}

/// The last line printed in place of the greeting: an account without a login shell explains itself
/// there.
fn last_line(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().filter(|c| !is_deceptive(*c)).take(200).collect())
}

/// ssh exits with the remote command's code, or with 255 if it failed itself.
fn explain(
    target: &SshTarget,
    attempt: Attempt,
    code: Option<i32>,
    words: Option<String>,
) -> SshError {
    let host = target.host.clone();
    let said = words.clone().unwrap_or_else(|| match code {
        Some(code) => format!("it ended with exit code {code} and no message"),
        None => "it was killed".to_owned(),
    });
    let has = |any: &[&str]| any.iter().any(|part| said.contains(part));
    let thinc = || target.thinc.clone().unwrap_or_else(|| "thinc".to_owned());
    match code {
        Some(code) if code == i32::from(EXIT_NO_SESSION) && attempt.is_reconnect => {
            SshError::NoSession(host)
        }
        // csh has no exit code for a missing command.
        Some(126 | 127) => SshError::NoThinc { host, thinc: thinc(), words: said },
        Some(1) if has(&["ommand not found"]) => {
            SshError::NoThinc { host, thinc: thinc(), words: said }
        }
        Some(2) if said.starts_with("error: ") => SshError::Version(host, said),
        // Retrying does not help against these; anything else may be the network.
        Some(255)
            if has(&[
                "Permission denied",
                "Host key verification failed",
                "Too many authentication failures",
                "Bad configuration option",
                "no matching host key",
                "no matching key exchange",
                "no matching cipher",
            ]) =>
        {
            SshError::Refused { host, words: said }
        }
        Some(255) | None => SshError::Unreachable { host, words: said },
        Some(_) => SshError::Remote {
            host,
            words: said.strip_prefix("thinc: ").map_or(said.clone(), str::to_owned),
        },
    }
}

impl Read for Reader {
    /// Bytes of the session; 0 when ssh has ended.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.early.is_empty() {
            return match self.stream.read(into) {
                Ok(0) => self.end(),
                other => other,
            };
        }
        let count = into.len().min(self.early.len());
        into[..count].copy_from_slice(&self.early[..count]);
        self.early.drain(..count);
        Ok(count)
    }
}

impl Reader {
    /// If ssh itself failed, its message is the reason.
    fn end(&self) -> io::Result<usize> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(0);
        }
        let failed =
            self.process.wait_for(END_TIME).is_some_and(|status| status.code() == Some(255));
        match self.process.last_message().filter(|_| failed) {
            Some(words) => Err(io::Error::other(words)),
            None => Ok(0),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// Closes the connection in both directions. ssh then exits by itself, once everything is sent;
    /// it may carry others if the configuration shares connections. An ssh that still logs in is
    /// told to end.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _ = self.stream.shutdown(Shutdown::Both);
        if !self.greeted.load(Ordering::Acquire) {
            self.process.end();
        }
    }

    /// Closes an unresponsive connection: shared connections over the same path are dead too.
    pub(crate) fn abort(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.process.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SshTarget, SshError> {
        SshTarget::parse(text.strip_prefix(SshTarget::SCHEME).unwrap())
    }

    #[test]
    fn addresses_round_trip() {
        for text in [
            "ssh://host",
            "ssh://me@host",
            "ssh://me@corp@host:2222/work",
            "ssh://[::1]:22",
            "ssh://[fe80::1%eth0]",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let target = parse("ssh://a.b+c@host.example:2222/work.1").unwrap();
        assert_eq!(
            (target.user.as_deref(), target.host(), target.port),
            (Some("a.b+c"), "host.example", Some(2222))
        );
        assert_eq!(target.name.as_deref(), Some("work.1"));
        assert_eq!(parse("ssh://host/").unwrap(), parse("ssh://host").unwrap());
    }

    #[test]
    fn words_that_ssh_or_a_shell_could_interpret_are_refused() {
        for bad in [
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-l@host",
            "ssh://me@-host",
            "ssh://ho st",
            "ssh://host;ls",
            "ssh://$(ls)@host",
            "ssh://`ls`",
            "ssh://@host",
            "ssh://host:",
            "ssh://host:0",
            "ssh://host:+1",
            "ssh://host:22x",
            "ssh://[::1]22",
            "ssh://host/a/b",
            "ssh://host/-a",
            "ssh://host/.a",
            "ssh://host/a b",
            "ssh://host/$x",
            "ssh://host\n",
        ] {
            assert!(matches!(parse(bad), Err(SshError::Address(..))), "{bad}");
        }
        let with =
            |thinc: &str| SshTarget { thinc: Some(thinc.into()), ..parse("ssh://h").unwrap() };
        assert!(
            ["thinc", "/opt/t-1/thinc", "~/bin/thinc"]
                .iter()
                .all(|path| with(path).check().is_ok())
        );
        assert!(
            ["", "-x", "a b", "$x", "a;b", "~me/thinc", "a~"]
                .iter()
                .all(|path| with(path).check().is_err())
        );
        let nothing = SshTarget { program: Vec::new(), ..parse("ssh://h").unwrap() };
        assert!(matches!(nothing.check(), Err(SshError::NoProgram)));
    }

    #[test]
    fn the_remote_command_has_no_shell_syntax() {
        let mut target = parse("ssh://host/work").unwrap();
        target.thinc = Some("thinc".to_owned());
        let (first, again) =
            (Attempt::default(), Attempt { is_reconnect: true, ..Attempt::default() });
        assert_eq!(target.remote(first), "thinc session --stdio --name work");
        assert_eq!(
            target.remote(Attempt { wants_offer: true, ..first }),
            "thinc session --stdio --name work --udp-ports 60000-61000"
        );
        target.command = vec!["sh".into(), "-c".into(), "echo 'a b' $HOME; \"x\"!".into()];
        target.size = Some(Size { width: 800, height: 600 });
        let remote = target.remote(again);
        assert!(remote.starts_with(
            "thinc session --stdio --name work --attach --size 800x600 --escaped -- sh -c "
        ));
        assert!(
            remote.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ./_-,:@+".contains(&byte)),
            "{remote}"
        );
    }

    #[test]
    fn options_precede_a_host_that_cannot_be_an_option() {
        let target = parse("ssh://me@host:2222").unwrap();
        let words: Vec<String> = target
            .command(&["-T".into()])
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert_eq!(words, ["-T", "-p", "2222", "-l", "me", "--", "host"]);
    }

    #[test]
    fn nothing_is_forwarded_whatever_the_users_configuration_says() {
        let options = parse("ssh://host").unwrap().options().0;
        for option in ["-a", "-x", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no"] {
            assert!(options.iter().any(|other| other == option), "{option}: {options:?}");
        }
    }

    #[test]
    fn the_host_behind_a_proxy_is_not_addressed_directly() {
        assert_eq!(direct_host("user me\nhostname a.example\nport 22\n").unwrap(), "a.example");
        assert_eq!(direct_host("hostname ::1\nproxycommand none\n").unwrap(), "::1");
        assert_eq!(direct_host("hostname h\nproxyjump there\n"), None);
        assert_eq!(direct_host("hostname h\nproxycommand nc %h %p\n"), None);
        assert_eq!(direct_host(""), None);
    }

    #[test]
    fn errors_are_distinguished() {
        let target = parse("ssh://host").unwrap();
        let (first, again) =
            (Attempt::default(), Attempt { is_reconnect: true, ..Attempt::default() });
        let error = |code, words: &str| explain(&target, first, Some(code), Some(words.to_owned()));
        assert!(matches!(
            error(127, "bash: line 1: thinc: command not found"),
            SshError::NoThinc { .. }
        ));
        assert!(matches!(error(1, "thinc: Command not found."), SshError::NoThinc { .. }));
        assert!(matches!(
            error(2, "error: unexpected argument '--stdio' found"),
            SshError::Version(..)
        ));
        assert_eq!(
            error(1, "thinc: there is no X server").to_string(),
            "host: there is no X server"
        );
        let refused = error(255, "me@host: Permission denied (publickey).");
        assert!(matches!(refused, SshError::Refused { .. }) && !refused.is_transient());
        assert!(error(255, "ssh: connect to host host port 22: No route to host").is_transient());
        assert!(explain(&target, first, None, None).is_transient());
        let ended = |attempt| explain(&target, attempt, Some(8), Some("thinc: no session".into()));
        assert!(matches!(ended(again), SshError::NoSession(_)));
        assert!(matches!(ended(first), SshError::Remote { .. }));
        assert_eq!(
            last_line(b"\nThis account is\x07 not available.\n\n").unwrap(),
            "This account is not available."
        );
    }
}
