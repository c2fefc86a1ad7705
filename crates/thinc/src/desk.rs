//! What a session's programs find in place of devices: its sound server and its printer, in one
//! process, `thinc desk` (thinc-desk). Beside supervisor.rs, which starts and restarts it. Knows
//! which of them the session has; sound.rs and printing.rs know the rest.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;

use thinc_desk::Sockets;
use tokio::process::Command;

use crate::cli::{Serve, Switch};
use crate::printing::Printing;
use crate::runtime_dir::RuntimeDir;
use crate::serve_error::ServeError;
use crate::sound::SoundServer;

/// The process's services.
#[derive(Debug)]
pub(crate) struct Desk {
    sockets: Sockets,
    /// None with `--sound off`.
    pub(crate) sound: Option<SoundServer>,
    /// None with `--printing off`.
    pub(crate) printing: Option<Printing>,
}

impl Desk {
    /// Opens what the options want, in the session's folder and in that of the user's state.
    pub(crate) fn open(
        options: &Serve,
        folder: &RuntimeDir,
        state: &Path,
        name: &str,
    ) -> Result<Desk, ServeError> {
        let mut sockets = Sockets::default();
        let sound = match options.sound {
            Switch::On => {
                let (server, opened) = SoundServer::open(folder)?;
                sockets.sound = Some(opened);
                Some(server)
            }
            Switch::Off => None,
        };
        let printing = match options.printing {
            Switch::On => {
                let (printing, opened) = Printing::open(folder, state, name)?;
                sockets.printing = Some(opened);
                Some(printing)
            }
            Switch::Off => None,
        };
        Ok(Desk { sockets, sound, printing })
    }

    /// Makes `own_program` the command of the process; None if the session has no services.
    pub(crate) fn command(&self, mut own_program: Command) -> io::Result<Option<Command>> {
        if self.sound.is_none() && self.printing.is_none() {
            return Ok(None);
        }
        own_program.arg("desk").stdin(Stdio::from(self.sockets.to_stdin()?));
        if let Some(printing) = &self.printing {
            own_program.arg("--spool").arg(printing.spool());
        }
        // A terminal's hang-up or Ctrl-C is for the supervisor.
        own_program.process_group(0);
        Ok(Some(own_program))
    }

    /// What programs find the services by.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let sound = self.sound.iter().flat_map(SoundServer::environment);
        sound.chain(self.printing.iter().map(Printing::environment))
    }
}
