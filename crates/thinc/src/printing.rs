//! The printer of a session: its sockets, the folder of its documents, and what programs have to
//! know to find it. Beside supervisor.rs, which starts and restarts the process `thinc desk`
//! (thinc-desk). Knows paths and variables; never documents.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thinc_desk::ServiceSockets;
use thinc_session_server::PrintingConfig;

use crate::log::create_folder;
use crate::runtime_dir::{IPP_SOCKET, PRINT_SOCKET, RuntimeDir};
use crate::serve_error::ServeError;

/// Printers of the user's own session. Without a printer of this one, programs keep them.
const SERVER_VARIABLE: &str = "CUPS_SERVER";

/// Where the printer's sockets are, and its documents, which end with the session.
#[derive(Debug)]
pub(crate) struct Printing {
    /// For programs.
    ipp: PathBuf,
    link: PathBuf,
    spool: PathBuf,
}

impl Printing {
    /// Opens the sockets in a session's folder, and empties the folder of its documents, which is
    /// on the disk: the session's folder may be in memory.
    pub(crate) fn open(
        folder: &RuntimeDir,
        state: &Path,
        name: &str,
    ) -> Result<(Printing, ServiceSockets), ServeError> {
        let spool = state.join("print").join(name);
        // What a session that was killed has left.
        remove(&spool).and_then(|()| create_folder(&spool)).map_err(|error| ServeError::File {
            what: "create",
            path: spool.clone(),
            error,
        })?;
        let sockets = ServiceSockets {
            programs: folder.listen(IPP_SOCKET)?,
            link: folder.listen(PRINT_SOCKET)?,
        };
        let (ipp, link) = (folder.join(IPP_SOCKET), folder.join(PRINT_SOCKET));
        Ok((Printing { ipp, link, spool }, sockets))
    }

    /// What the session process has to know.
    pub(crate) fn config(&self) -> PrintingConfig {
        PrintingConfig { socket: self.link.clone(), spool: self.spool.clone() }
    }

    /// The folder of the documents.
    pub(crate) fn spool(&self) -> &Path {
        &self.spool
    }

    /// What programs find the printer by.
    pub(crate) fn environment(&self) -> (&'static str, OsString) {
        (SERVER_VARIABLE, self.ipp.clone().into_os_string())
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        // What cannot be removed is found by the next session of this name.
        let _ = remove(&self.spool);
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
