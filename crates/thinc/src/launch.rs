//! The last step before Xorg or COMMAND: a process session of its own, and an end that does not outlive the supervisor.
//! From supervisor.rs, which starts `thinc launch`, to the program itself, which takes its place by exec.
//! Knows one program and its arguments.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

use crate::MainError;
use crate::cli::Launch;

/// Never returns when the program could be started.
pub(crate) fn launch(launch: &Launch) -> Result<ExitCode, MainError> {
    // A process group leader cannot become a session leader, but the supervisor's child never is one.
    setsid()?;
    // The kernel keeps this across exec: a supervisor that is killed takes X server and command with it, so that
    // nothing is left that no `thinc list` would show.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(launch.parent) {
        return Err("the supervisor ended first".into());
    }
    let error = Command::new(&launch.command[0]).args(&launch.command[1..]).exec();
    Err(format!("cannot run {}: {error}", launch.command[0].to_string_lossy()).into())
}
