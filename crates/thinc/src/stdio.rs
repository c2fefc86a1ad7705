//! `thinc session --stdio`: what ssh starts for a viewer that is elsewhere. Finds the session or starts it, then carries
//! bytes between ssh and the session process until one of them has had enough.
//! From sshd's pipes, to the session's private socket. Prints a greeting, and nothing else, before the protocol begins.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thinc_transport::stdio::{EXIT_NO_SESSION, GREETING, unescape};

use crate::cli::{Session, name_from};
use crate::terminal::complain;
use crate::{MainError, detach, runtime_dir, search};

/// 64 KiB, what a pipe holds.
const PIECE_BYTES: usize = 64 * 1024;
/// A session of that name that is just ending is waited for: its name is free when all of it has ended.
const ENDING_TIME: Duration = Duration::from_secs(10);
const ENDING_LOOK: Duration = Duration::from_millis(20);
/// What a session process gets to close a connection whose viewer has gone.
const FAREWELL_TIME: Duration = Duration::from_secs(5);

/// Returns when the viewer or the session has gone.
pub(crate) fn stdio(options: &Session) -> Result<ExitCode, MainError> {
    let command = command(options)?;
    let name = match (&options.name, command.first()) {
        (Some(name), _) => name.clone(),
        (None, Some(program)) => name_from(program),
        // As `thinc serve` would call it.
        (None, None) => name_from(&search::command(&[])?[0]),
    };
    let session = match (connect(&name), options.attach) {
        (Some(session), _) => session,
        (None, true) => {
            complain(&format!("thinc: no session called {name} is running (any more)"));
            return Ok(ExitCode::from(EXIT_NO_SESSION));
        }
        (None, false) => start(&name, options, &command)?,
    };
    relay(session)?;
    Ok(ExitCode::SUCCESS)
}

/// COMMAND, as it was before it was made fit for a shell.
fn command(options: &Session) -> Result<Vec<OsString>, MainError> {
    if !options.escaped {
        return Ok(options.command.clone());
    }
    let words = options.command.iter().map(|word| unescape(word.to_str()?));
    words.collect::<Option<_>>().ok_or_else(|| "the command's words are not escaped as they should be".into())
}

/// Somebody listens as long as the session's supervisor lives, whether or not the session process does at the moment.
fn connect(name: &str) -> Option<UnixStream> {
    runtime_dir::connect(&runtime_dir::viewer_socket(name)).ok()
}

/// Starts the session, in the background and without a port. Whoever else does so at this moment meets us in one of them.
fn start(name: &str, options: &Session, command: &[OsString]) -> Result<UnixStream, MainError> {
    let until = Instant::now() + ENDING_TIME;
    loop {
        let mut serve = Command::new(std::env::current_exe()?);
        serve.args(["serve", "--supervise", "--listen", "none", "--name", name]);
        if let Some((width, height)) = options.size {
            serve.arg("--size").arg(format!("{width}x{height}"));
        }
        serve.arg("--").args(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut supervisor = serve.spawn()?;
        let mut words = supervisor.stderr.take().ok_or("no pipe")?;
        // It lets go of both pipes when it is ready.
        let words = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = words.read_to_end(&mut text);
            text
        });
        let failed = detach::wait_until_ready(&mut supervisor, |_| ())?;
        if let Some(session) = connect(name) {
            return Ok(session);
        }
        let words = words.join().unwrap_or_default();
        // Another one of that name is just beginning, or just ending.
        if failed.is_some() && runtime_dir::is_taken(name)? && Instant::now() < until {
            thread::sleep(ENDING_LOOK);
            if let Some(session) = connect(name) {
                return Ok(session);
            }
            continue;
        }
        let words = String::from_utf8_lossy(&words);
        return Err(match words.trim_start_matches("thinc: ").trim_end() {
            "" => format!("the session {name} ended as soon as it had begun").into(),
            words => words.into(),
        });
    }
}

/// Carries bytes both ways. Blocking threads: nothing here decides what waits, the session does.
fn relay(session: UnixStream) -> Result<(), MainError> {
    // Files, because the library's own standard output would keep the end of a line to itself.
    let mut input = File::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let mut output = File::from(rustix::stdio::stdout().try_clone_to_owned()?);
    output.write_all(GREETING)?;
    let (mut reader, mut writer) = (session.try_clone()?, session);
    thread::spawn(move || {
        let _ = carry(&mut input, &mut writer);
        // The viewer has gone; the session closes the other direction, which ends this process. If it does not, we do.
        let _ = writer.shutdown(Shutdown::Write);
        thread::sleep(FAREWELL_TIME);
        let _ = writer.shutdown(Shutdown::Both);
    });
    // Whichever end broke: the one who is left notices by the end of its stream.
    let _ = carry(&mut reader, &mut output);
    Ok(())
}

fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
