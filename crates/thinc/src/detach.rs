//! `thinc serve --detach`: runs the same command line again in a process of its own, and passes on
//! its output until it is ready. From the user's shell, to a supervisor that no terminal can hang
//! up. Knows one pipe and the marker that ends it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::terminal::print;
use crate::{MainError, search};

/// A line that no message can be: the session is ready and runs by itself from here on.
const READY_MARKER: &str = "\u{4}";

/// Starts the supervisor, prints its output until it is ready, and leaves it running.
pub(crate) fn serve_detached() -> Result<ExitCode, MainError> {
    let mut arguments = std::env::args_os().skip(1);
    let serve = arguments.next().ok_or("no subcommand")?;
    // Standard error stays shared until the supervisor is ready: errors before that are for the
    // waiting user.
    let mut child = Command::new(search::installed_program())
        .arg(serve)
        .arg("--supervise")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let status = wait_until_ready(&mut child, print)?;
    Ok(status.map_or(ExitCode::SUCCESS, |status| {
        status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8))
    }))
}

/// Passes on a supervisor's piped standard output until it is ready. Returns its exit status if it
/// ended before that.
pub(crate) fn wait_until_ready(
    child: &mut Child,
    mut handle_line: impl FnMut(&str),
) -> Result<Option<ExitStatus>, MainError> {
    let out = child.stdout.take().ok_or("no pipe")?;
    for line in BufReader::new(out).lines() {
        let line = line?;
        if line == READY_MARKER {
            return Ok(None);
        }
        handle_line(&line);
    }
    Ok(Some(child.wait()?))
}

/// In the supervisor, before it starts anything: leaves the terminal.
pub(crate) fn leave_terminal() -> Result<(), MainError> {
    setsid()?;
    Ok(())
}

/// In the supervisor, before it starts anything: the socket that it was given as standard input,
/// which no other process inherits then.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(socket)
}

/// In the supervisor, when it is ready: releases the waiting process, and redirects its own output
/// to a log.
pub(crate) fn release(log: &std::path::Path) -> Result<(), MainError> {
    // Emptied for each session: it only gets a line whenever a session process dies.
    std::fs::write(log, "")?;
    let file = std::fs::OpenOptions::new().append(true).open(log)?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{READY_MARKER}").and_then(|()| out.flush());
    dup2_stdout(&file)?;
    dup2_stderr(&file)?;
    Ok(())
}
