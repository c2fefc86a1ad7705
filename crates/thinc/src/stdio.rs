//! `thinc session --stdio`: ssh starts it for a remote viewer. Finds or starts the session, then
//! copies bytes between ssh and the session process until one of them closes. From sshd's pipes,
//! to the session's private socket. Before the protocol begins it prints a greeting, the answer
//! about a UDP port if the viewer asked for one, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thinc_transport::offer::{self, OfferRequest, UdpPorts};
use thinc_transport::stdio::{EXIT_NO_SESSION, GREETING, unescape};

use crate::cli::{Session, name_from};
use crate::desktop::Program;
use crate::terminal::print_error;
use crate::{MainError, detach, runtime_dir, search};

/// 64 KiB, the capacity of a pipe.
const BUFFER_BYTES: usize = 64 * 1024;
/// A session of that name that is just ending is waited for: its name is free once it has ended.
const ENDING_TIMEOUT: Duration = Duration::from_secs(10);
const ENDING_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// 2 s: how long the session process may take to answer a request for a UDP port. It answers within
/// a millisecond, except while it is restarted.
const OFFER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the session process may take to close a connection whose viewer has gone.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns when the viewer or the session has closed.
pub(crate) fn stdio(options: &Session) -> Result<ExitCode, MainError> {
    let command = command(options)?;
    let name = match (&options.name, command.first()) {
        (Some(name), _) => name.clone(),
        (None, Some(program)) => name_from(program),
        // The default name of `thinc serve`.
        (None, None) => Program::find(&[], None)?.name,
    };
    let session = match (connect(&name), options.attach) {
        (Some(session), _) => session,
        (None, true) => {
            print_error(&format!("thinc: no session called {name} is running (any more)"));
            return Ok(ExitCode::from(EXIT_NO_SESSION));
        }
        (None, false) => start(&name, options.size, &Runs::Command(&command), None)?,
    };
    let offer = options.udp_ports.map(|ports| request_port(&name, ports));
    relay(session, offer)?;
    Ok(ExitCode::SUCCESS)
}

/// The session process's answer for the viewer, and the connection that it came over: as long as
/// that is open, the session knows that the tunnel exists.
struct PortAnswer {
    line: String,
    _request: Option<UnixStream>,
}

/// Requests a UDP port on the address that ssh came to. Whatever goes wrong, the tunnel works; the
/// viewer is told the reason.
fn request_port(name: &str, ports: UdpPorts) -> PortAnswer {
    let connection = std::env::var("SSH_CONNECTION").ok();
    let answer = offer::ssh_address(connection.as_deref()).and_then(|address| {
        let request = OfferRequest { address, ports };
        ask(name, &request).map_err(|error| format!("the session offers no UDP port: {error}"))
    });
    match answer {
        Ok((line, stream)) => PortAnswer { line, _request: Some(stream) },
        Err(reason) => PortAnswer { line: offer::answer_line(&Err(reason)), _request: None },
    }
}

/// The answer as a line that is valid.
fn ask(name: &str, request: &OfferRequest) -> io::Result<(String, UnixStream)> {
    // A session that an older thinc started has no such socket.
    let mut stream = runtime_dir::connect(&runtime_dir::port_socket(name))?;
    let until = Instant::now() + OFFER_TIMEOUT;
    stream.write_all(request.to_line().as_bytes())?;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') && line.len() < offer::LINE_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        // Zero would mean no time-out.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let _valid = offer::parse_answer(&line).map_err(|error| invalid(error.to_string()))?;
    let line = String::from_utf8(line).map_err(|error| invalid(error.to_string()))?;
    Ok((line, stream))
}

/// COMMAND, unescaped.
fn command(options: &Session) -> Result<Vec<OsString>, MainError> {
    if !options.escaped {
        return Ok(options.command.clone());
    }
    let output = options.command.iter().map(|word| unescape(word.to_str()?));
    output
        .collect::<Option<_>>()
        .ok_or_else(|| "the words of the command are not escaped correctly".into())
}

/// The socket accepts connections as long as the supervisor lives, even while the session process
/// is restarted.
pub(crate) fn connect(name: &str) -> Option<UnixStream> {
    runtime_dir::connect(&runtime_dir::viewer_socket(name)).ok()
}

/// What a session that is started here runs.
pub(crate) enum Runs<'a> {
    /// This, or the default desktop if it is empty.
    Command(&'a [OsString]),
    /// The desktop of this name.
    Desktop(&'a str),
}

/// Starts the session, in the background and without a port. If several do so at the same moment,
/// all connect to one of them. The supervisor gets the socket `priority`, if there is one
/// (priority_groups.rs), as standard input.
pub(crate) fn start(
    name: &str,
    size: Option<(u32, u32)>,
    runs: &Runs<'_>,
    priority: Option<BorrowedFd<'_>>,
) -> Result<UnixStream, MainError> {
    let until = Instant::now() + ENDING_TIMEOUT;
    loop {
        let mut serve = Command::new(search::installed_program());
        serve.args(["serve", "--supervise", "--listen", "none", "--name", name]);
        if priority.is_some() {
            serve.arg("--priority-socket");
        }
        if let Some((width, height)) = size {
            serve.arg("--size").arg(format!("{width}x{height}"));
        }
        match runs {
            Runs::Command(command) => serve.arg("--").args(*command),
            Runs::Desktop(name) => serve.arg(format!("--desktop={name}")),
        };
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(socket) = priority {
            serve.stdin(socket.try_clone_to_owned()?);
        }
        let mut supervisor = serve.spawn()?;
        let mut output = supervisor.stderr.take().ok_or("no pipe")?;
        // The supervisor closes both pipes when it is ready.
        let output = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = output.read_to_end(&mut text);
            text
        });
        let failed = detach::wait_until_ready(&mut supervisor, |_| ())?;
        if let Some(session) = connect(name) {
            return Ok(session);
        }
        let output = output.join().unwrap_or_default();
        // Another session of that name is just starting or ending.
        if failed.is_some() && runtime_dir::is_taken(name)? && Instant::now() < until {
            thread::sleep(ENDING_POLL_INTERVAL);
            if let Some(session) = connect(name) {
                return Ok(session);
            }
            continue;
        }
        let output = String::from_utf8_lossy(&output);
        return Err(match output.trim_start_matches("thinc: ").trim_end() {
            "" => format!("the session {name} ended right after its start").into(),
            output => output.into(),
        });
    }
}

/// Copies bytes in both directions, with blocking threads: the session process decides what waits.
fn relay(session: UnixStream, offer: Option<PortAnswer>) -> Result<(), MainError> {
    // As files: std's standard output would buffer the last incomplete line.
    let mut input = File::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let mut output = File::from(rustix::stdio::stdout().try_clone_to_owned()?);
    output.write_all(GREETING)?;
    if let Some(offer) = &offer {
        output.write_all(offer.line.as_bytes())?;
    }
    let (mut reader, mut writer) = (session.try_clone()?, session);
    thread::spawn(move || {
        let _ = copy(&mut input, &mut writer);
        // The viewer has gone: the session closes the other direction, which ends this process; if
        // it does not, the time-out does.
        let _ = writer.shutdown(Shutdown::Write);
        thread::sleep(CLOSE_TIMEOUT);
        let _ = writer.shutdown(Shutdown::Both);
    });
    // An error of either end: the other one sees the end of its stream.
    let _ = copy(&mut reader, &mut output);
    Ok(())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
