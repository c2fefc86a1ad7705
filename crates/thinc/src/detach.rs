//! `thinc serve --detach`: the same command line again in a process of its own, whose first words are passed on.
//! From the person's shell, to a supervisor that no terminal can hang up.
//! Knows one pipe and the mark that ends it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::MainError;
use crate::terminal::say;

/// A line that no message is: from here on the session runs by itself.
const READY_MARK: &str = "\u{4}";

/// Starts the supervisor, repeats what it says until it is ready, and leaves it.
pub(crate) fn serve_detached() -> Result<ExitCode, MainError> {
    let mut arguments = std::env::args_os().skip(1);
    let serve = arguments.next().ok_or("no subcommand")?;
    // Standard error stays shared until the supervisor is ready: what goes wrong before is for the person who waits.
    let mut child = Command::new(std::env::current_exe()?)
        .arg(serve)
        .arg("--supervise")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let status = wait_until_ready(&mut child, say)?;
    Ok(status
        .map_or(ExitCode::SUCCESS, |status| status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8))))
}

/// Hands on what a supervisor says on its piped standard output, until it is ready; how it ended where it never was.
pub(crate) fn wait_until_ready(child: &mut Child, mut hear: impl FnMut(&str)) -> Result<Option<ExitStatus>, MainError> {
    let out = child.stdout.take().ok_or("no pipe")?;
    for line in BufReader::new(out).lines() {
        let line = line?;
        if line == READY_MARK {
            return Ok(None);
        }
        hear(&line);
    }
    Ok(Some(child.wait()?))
}

/// In the supervisor, before it starts anything: away from the terminal.
pub(crate) fn leave_terminal() -> Result<(), MainError> {
    setsid()?;
    Ok(())
}

/// In the supervisor, when it is ready: lets the waiting one go, and speaks to a log from here on.
pub(crate) fn release(log: &std::path::Path) -> Result<(), MainError> {
    // Begun anew with each session: it gets a line when a session process dies, and nothing else.
    std::fs::write(log, "")?;
    let file = std::fs::OpenOptions::new().append(true).open(log)?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{READY_MARK}").and_then(|()| out.flush());
    dup2_stdout(&file)?;
    dup2_stderr(&file)?;
    Ok(())
}
