//! The last step before Xorg or COMMAND: moves to a process session of its own, which ends with the
//! supervisor. From supervisor.rs, which starts `thinc launch`, to the program, which replaces it
//! by exec. Knows one program and its arguments.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

use crate::MainError;
use crate::cli::Launch;

/// Returns only if the program could not be started.
pub(crate) fn launch(launch: &Launch) -> Result<ExitCode, MainError> {
    // A process group leader cannot become a session leader, but a child of the supervisor is not
    // one.
    setsid()?;
    // The kernel keeps this across exec: if the supervisor is killed, X server and command end too,
    // so that nothing remains that `thinc list` does not show.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(launch.parent) {
        return Err("the supervisor ended first".into());
    }
    let error = Command::new(&launch.command[0]).args(&launch.command[1..]).exec();
    Err(format!("cannot run {}: {error}", launch.command[0].to_string_lossy()).into())
}
