//! Path 10/13 through the system's ssh: starts it, waits for the greeting of `thinc session --stdio` behind it, and hands
//! out its two pipes. What ssh asks the person, it asks on the terminal or by SSH_ASKPASS, as it always does.
//! From client.rs, to a program of the system's. Knows ssh's options and exit codes; never keys or passwords.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thinc_region::Size;
use thinc_transport::stdio::{EXIT_NO_SESSION, Greeting, escape, find_greeting};
use thiserror::Error;

use crate::process::Process;

/// 150 s: what sshd gives a person to log in (LoginGraceTime), and half a minute for a session to start.
pub const LOGIN_TIME: Duration = Duration::from_secs(150);
/// ssh notices a dead path within 15 s, where its configuration does not say otherwise. We notice sooner, while something
/// happens; this ends ssh itself.
const ALIVE_INTERVAL_S: u32 = 5;
const ALIVE_COUNT: u32 = 3;
/// From the end of ssh's output to its end. One that carries others as well goes on.
const END_TIME: Duration = Duration::from_secs(1);
/// As `thinc serve --name` takes them.
const NAME_BYTES_MAX: usize = 32;

/// A place where ssh leads, and the session there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    name: Option<String>,
    /// What runs in the session; nothing: the desktop.
    pub command: Vec<OsString>,
    /// Size of the screen of a session that has to be started.
    pub size: Option<Size>,
    /// The program `ssh` and its first arguments.
    pub program: Vec<String>,
    /// The program `thinc` on the other side.
    pub thinc: String,
}

/// Why ssh leads nowhere, in words a person can act on.
#[derive(Debug, Error)]
pub enum SshError {
    /// The address.
    #[error("{0:?} is no place for ssh ({1}): expected ssh://[USER@]HOST[:PORT][/SESSION]")]
    Address(String, &'static str),
    /// A name of `thinc` that a shell might read otherwise.
    #[error("--thinc {0:?}: a path of letters, digits and ./_-~ is needed")]
    ThincPath(String),
    /// `--ssh` without a word in it.
    #[error("--ssh names no program: expected for example \"ssh -F FILE\"")]
    NoProgram,
    /// No ssh.
    #[error("cannot run {0}: {1}")]
    Start(String, io::Error),
    /// It ended without a connection.
    #[error("ssh does not reach {host}: {words}")]
    Unreachable {
        /// Where.
        host: String,
        /// What it said last.
        words: String,
    },
    /// It reached the host and was not let in, or would not go in.
    #[error("{host} does not let you in, or is not the host it was: {words}")]
    Refused {
        /// Where.
        host: String,
        /// What it said last.
        words: String,
    },
    /// No `thinc` there.
    #[error("there is no {thinc} on {host}: install thinc there, or say where it is with --thinc ({words})")]
    NoThinc {
        /// Where.
        host: String,
        /// What was called.
        thinc: String,
        /// What the shell said.
        words: String,
    },
    /// The `thinc` there does not know what it is asked.
    #[error("the thinc on {0} is another version than this thinc-view: {1}")]
    Version(String, String),
    /// It runs, and has no session for us.
    #[error("{host}: {words}")]
    Remote {
        /// Where.
        host: String,
        /// What it said.
        words: String,
    },
    /// The session has ended.
    #[error("the session on {0} has ended")]
    NoSession(String),
    /// Something prints too much.
    #[error("{0} prints what is no session: does a start-up file of its shell (.bashrc, …) do so?")]
    Noise(String),
    /// The login never ended.
    #[error("no session on {0} within {1:?}")]
    Timeout(String, Duration),
}

impl SshError {
    /// True where the same may work a little later.
    pub fn is_passing(&self) -> bool {
        matches!(self, SshError::Unreachable { .. } | SshError::Timeout(..))
    }
}

impl SshTarget {
    pub(crate) const SCHEME: &str = "ssh://";

    /// What follows `ssh://`.
    pub fn parse(place: &str) -> Result<SshTarget, SshError> {
        let bad = |why| SshError::Address(format!("{}{place}", SshTarget::SCHEME), why);
        let (authority, name) = place.split_once('/').unwrap_or((place, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| bad("its port"))?)),
            None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
        };
        // What ssh could take for an option, and what a ProxyCommand's shell could take for something else.
        let fine = |text: &str, signs: &[u8]| {
            !text.is_empty()
                && text.len() <= 255
                && !text.starts_with('-')
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte))
        };
        if !fine(host, b"._-:%") {
            return Err(bad("its host"));
        }
        if user.is_some_and(|user| !fine(user, b"._-+@")) {
            return Err(bad("its user"));
        }
        let port = match port {
            None => None,
            Some(digits) => Some(
                digits
                    .parse()
                    .ok()
                    .filter(|&port: &u16| port != 0 && digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .ok_or_else(|| bad("its port"))?,
            ),
        };
        let name = name.strip_suffix('/').unwrap_or(name);
        if !name.is_empty() && (!fine(name, b"._-") || name.starts_with('.') || name.len() > NAME_BYTES_MAX) {
            return Err(bad("its session's name"));
        }
        Ok(SshTarget {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
            name: Some(name).filter(|name| !name.is_empty()).map(str::to_owned),
            command: Vec::new(),
            size: None,
            program: vec!["ssh".to_owned()],
            thinc: "thinc".to_owned(),
        })
    }

    /// Where ssh goes.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Checks what the command line said besides the address.
    pub fn check(&self) -> Result<(), SshError> {
        // A tilde is for the shell there; everything else stays as it is.
        let path = self.thinc.strip_prefix("~/").unwrap_or(&self.thinc);
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"./_-".contains(&byte);
        if path.is_empty() || path.starts_with('-') || !path.bytes().all(fine) {
            return Err(SshError::ThincPath(self.thinc.clone()));
        }
        if self.program.is_empty() {
            return Err(SshError::NoProgram);
        }
        Ok(())
    }

    /// The command line for the other side's shell, whichever that is: no word of it means anything to one.
    fn remote(&self, attach: bool) -> String {
        let mut words = vec![self.thinc.clone(), "session".into(), "--stdio".into()];
        if let Some(name) = &self.name {
            words.extend(["--name".into(), name.clone()]);
        }
        if attach {
            words.push("--attach".into());
        }
        if let Some(Size { width, height }) = self.size {
            words.extend(["--size".into(), format!("{width}x{height}")]);
        }
        if !self.command.is_empty() {
            words.extend(["--escaped".into(), "--".into()]);
            words.extend(self.command.iter().map(|word| escape(word)));
        }
        words.join(" ")
    }

    /// ssh without its options for us: program, place.
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

    /// What ssh is told besides where to go: bytes pass as they are, nothing else is carried, and a path that has died is
    /// noticed. Where a person's configuration says something of the latter, that holds.
    fn options(&self) -> Vec<String> {
        let mut options: Vec<String> = ["-T", "-x", "-e", "none"].map(str::to_owned).into();
        for option in ["PermitLocalCommand=no", "ClearAllForwardings=yes", "RemoteCommand=none"] {
            options.push(format!("-o{option}"));
        }
        let mut asking = self.command(&["-G".to_owned()]);
        let output = asking.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let is_set = |option: &str, unset: &str| said.lines().any(|line| line == format!("{option} {unset}"));
        if is_set("serveraliveinterval", "0") {
            options.push(format!("-oServerAliveInterval={ALIVE_INTERVAL_S}"));
            options.push(format!("-oServerAliveCountMax={ALIVE_COUNT}"));
        }
        if is_set("connecttimeout", "none") {
            options.push(format!("-oConnectTimeout={}", ALIVE_INTERVAL_S * ALIVE_COUNT));
        }
        options
    }
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

/// How ssh is started this time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempt {
    /// The session was there before: none is started in its place.
    pub(crate) again: bool,
    /// The path died in silence: a shared connection that goes the same way must not be used.
    pub(crate) alone: bool,
}

/// A running ssh that has not greeted yet.
pub(crate) struct Login {
    target: SshTarget,
    attempt: Attempt,
    writer: Writer,
}

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: UnixStream,
    early: Vec<u8>,
    process: Arc<Process>,
}

/// The half that writes, and ends it all.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    stream: Arc<UnixStream>,
    process: Arc<Process>,
    greeted: Arc<AtomicBool>,
}

impl Login {
    /// Starts ssh.
    pub(crate) fn start(target: &SshTarget, attempt: Attempt) -> Result<Login, SshError> {
        let failed = |error| SshError::Start(target.program[0].clone(), error);
        let mut options = target.options();
        if attempt.alone {
            options.extend(["-S", "none"].map(str::to_owned));
        }
        let mut command = target.command(&options);
        command.arg(target.remote(attempt.again));
        let (near, far) = UnixStream::pair().map_err(failed)?;
        let input: std::os::fd::OwnedFd = far.try_clone().map_err(failed)?.into();
        command.stdin(input).stdout(std::os::fd::OwnedFd::from(far));
        // A person who waits for the first picture reads what ssh says; later the window has words of its own.
        let process = Process::start(&mut command, !attempt.again).map_err(failed)?;
        // Our copies of the far end go with the command: the end of ssh has to be the end of the stream.
        drop(command);
        let writer = Writer { stream: Arc::new(near), process, greeted: Arc::default() };
        Ok(Login { target: target.clone(), attempt, writer })
    }

    /// Ends it when it takes too long for whoever waits.
    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// Waits for the session behind it.
    pub(crate) fn greet(self) -> Result<(Reader, Writer), SshError> {
        let deadline = Instant::now() + LOGIN_TIME;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 4096];
        let result = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut stream = &*self.writer.stream;
            let count = match stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))) {
                Ok(()) if left.is_zero() => break Err(self.timeout()),
                Ok(()) => stream.read(&mut buffer),
                Err(error) => Err(error),
            };
            match count {
                Ok(0) => break Err(self.ended(&bytes)),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Err(self.timeout()),
                Err(_) => break Err(self.ended(&bytes)),
            }
            let host = || self.target.host.clone();
            match find_greeting(&bytes) {
                Greeting::Incomplete => {}
                Greeting::At(at) => break Ok(bytes.split_off(at)),
                Greeting::Foreign => break Err(SshError::Version(host(), "it greets in another way".into())),
                Greeting::Noise => break Err(SshError::Noise(host())),
            }
        };
        let stream = self.writer.stream.set_read_timeout(None).and_then(|()| self.writer.stream.try_clone());
        match (result, stream) {
            (Ok(early), Ok(stream)) => {
                self.writer.greeted.store(true, Ordering::Release);
                Ok((Reader { stream, early, process: self.writer.process.clone() }, self.writer))
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

    fn timeout(&self) -> SshError {
        SshError::Timeout(self.target.host.clone(), LOGIN_TIME)
    }

    /// Why ssh ended, from its exit code and what was said.
    fn ended(&self, printed: &[u8]) -> SshError {
        let code = self.writer.process.wait_for(END_TIME).and_then(|status| status.code());
        let words = self.writer.process.last_words().or_else(|| last_line(printed));
        explain(&self.target, self.attempt, code, words)
    }
}

/// What was printed where the greeting should be: an account that may not log in says so there.
fn last_line(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().filter(|c| !c.is_control()).take(200).collect())
}

/// ssh exits with the code of what it ran, or with 255 where it could not.
fn explain(target: &SshTarget, attempt: Attempt, code: Option<i32>, words: Option<String>) -> SshError {
    let host = target.host.clone();
    let said = words.clone().unwrap_or_else(|| match code {
        Some(code) => format!("it ended with exit code {code} and said nothing"),
        None => "it was killed".to_owned(),
    });
    let has = |any: &[&str]| any.iter().any(|part| said.contains(part));
    match code {
        Some(code) if code == i32::from(EXIT_NO_SESSION) && attempt.again => SshError::NoSession(host),
        // csh has no exit code for it.
        Some(126 | 127) => SshError::NoThinc { host, thinc: target.thinc.clone(), words: said },
        Some(1) if has(&["ommand not found"]) => SshError::NoThinc { host, thinc: target.thinc.clone(), words: said },
        Some(2) if said.starts_with("error: ") => SshError::Version(host, said),
        // What no second try changes; anything else may be the network.
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
        Some(_) => SshError::Remote { host, words: said.strip_prefix("thinc: ").map_or(said.clone(), str::to_owned) },
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
    /// Where ssh itself failed, that is the reason of the end.
    fn end(&self) -> io::Result<usize> {
        let failed = self.process.wait_for(END_TIME).is_some_and(|status| status.code() == Some(255));
        match self.process.last_words().filter(|_| failed) {
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
    /// Ends the connection both ways. ssh ends by itself then, once what was said has left: it may carry others, where a
    /// configuration has it share connections. One that still logs in has nothing to say and is told to end.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if !self.greeted.load(Ordering::Acquire) {
            self.process.end();
        }
    }

    /// The same where the path has died: nobody else's bytes get through either.
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
    fn places_are_read_and_written_the_same() {
        for text in
            ["ssh://host", "ssh://me@host", "ssh://me@corp@host:2222/work", "ssh://[::1]:22", "ssh://[fe80::1%eth0]"]
        {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let target = parse("ssh://a.b+c@host.example:2222/work.1").unwrap();
        assert_eq!((target.user.as_deref(), target.host(), target.port), (Some("a.b+c"), "host.example", Some(2222)));
        assert_eq!(target.name.as_deref(), Some("work.1"));
        assert_eq!(parse("ssh://host/").unwrap(), parse("ssh://host").unwrap());
    }

    #[test]
    fn what_ssh_or_a_shell_could_take_for_something_else_is_refused() {
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
        let with = |thinc: &str| SshTarget { thinc: thinc.into(), ..parse("ssh://h").unwrap() };
        assert!(["thinc", "/opt/t-1/thinc", "~/bin/thinc"].iter().all(|path| with(path).check().is_ok()));
        assert!(["", "-x", "a b", "$x", "a;b", "~me/thinc", "a~"].iter().all(|path| with(path).check().is_err()));
        let nothing = SshTarget { program: Vec::new(), ..parse("ssh://h").unwrap() };
        assert!(matches!(nothing.check(), Err(SshError::NoProgram)));
    }

    #[test]
    fn the_other_side_gets_words_that_mean_nothing_to_a_shell() {
        let mut target = parse("ssh://host/work").unwrap();
        assert_eq!(target.remote(false), "thinc session --stdio --name work");
        target.command = vec!["sh".into(), "-c".into(), "echo 'a b' $HOME; \"x\"!".into()];
        target.size = Some(Size { width: 800, height: 600 });
        let remote = target.remote(true);
        assert!(remote.starts_with("thinc session --stdio --name work --attach --size 800x600 --escaped -- sh -c "));
        assert!(remote.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ./_-,:@+".contains(&byte)), "{remote}");
    }

    #[test]
    fn options_come_before_a_host_that_can_be_none() {
        let target = parse("ssh://me@host:2222").unwrap();
        let words: Vec<String> =
            target.command(&["-T".into()]).get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words, ["-T", "-p", "2222", "-l", "me", "--", "host"]);
    }

    #[test]
    fn what_went_wrong_is_told_apart() {
        let target = parse("ssh://host").unwrap();
        let (first, again) = (Attempt::default(), Attempt { again: true, alone: false });
        let error = |code, words: &str| explain(&target, first, Some(code), Some(words.to_owned()));
        assert!(matches!(error(127, "bash: line 1: thinc: command not found"), SshError::NoThinc { .. }));
        assert!(matches!(error(1, "thinc: Command not found."), SshError::NoThinc { .. }));
        assert!(matches!(error(2, "error: unexpected argument '--stdio' found"), SshError::Version(..)));
        assert_eq!(error(1, "thinc: there is no X server").to_string(), "host: there is no X server");
        let refused = error(255, "me@host: Permission denied (publickey).");
        assert!(matches!(refused, SshError::Refused { .. }) && !refused.is_passing());
        assert!(error(255, "ssh: connect to host host port 22: No route to host").is_passing());
        assert!(explain(&target, first, None, None).is_passing());
        let ended = |attempt| explain(&target, attempt, Some(8), Some("thinc: no session".into()));
        assert!(matches!(ended(again), SshError::NoSession(_)));
        assert!(matches!(ended(first), SshError::Remote { .. }));
        assert_eq!(last_line(b"\nThis account is\x07 not available.\n\n").unwrap(), "This account is not available.");
    }
}
