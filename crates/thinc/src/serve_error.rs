//! Why a session does not start, or ends. Beside supervisor.rs; its texts are for the user.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

use thinc_transport::identity::IdentityError;
use thiserror::Error;

use crate::gpu::GpuError;
use crate::runtime_dir::RuntimeError;
use crate::search::SearchError;

/// Why there is no session, or why it ended.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// The runtime folder.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Something is not installed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The GPU that `--gpu` names.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The key and the certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The environment names no folder for the state.
    #[error(
        "neither XDG_STATE_HOME nor HOME is set to an absolute path: no folder for the key and \
            the logs"
    )]
    NoStateHome,
    /// A file cannot be written.
    #[error("cannot {what} {}: {error}", .path.display())]
    File {
        /// "write", "create", …
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The given port is in use.
    #[error(
        "{0} is in use by another program (or another session: see `thinc list`); choose another \
            port with --listen"
    )]
    PortInUse(SocketAddr),
    /// All default ports are in use.
    #[error("the ports {0} to {1} on 127.0.0.1 are all in use; choose one with --listen")]
    PortsInUse(u16, u16),
    /// Listening failed otherwise.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// `--public` is not a host.
    #[error("--public {0}: {1}")]
    Public(String, thinc_transport::LinkError),
    /// A program could not be started.
    #[error("cannot start {0}: {1}")]
    Start(&'static str, io::Error),
    /// Each display number is taken.
    #[error("no display number for the X server: see /tmp/.X*-lock")]
    NoDisplay,
    /// Xorg did not start.
    #[error("the X server did not start ({status}); the end of {}:{lines}", .log.display())]
    XorgStart {
        /// How it ended, or that it did not.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        lines: String,
    },
    /// Xorg ended while the session ran.
    #[error("the X server ended by itself ({status}); the end of {}:{lines}", .log.display())]
    XorgEnd {
        /// How.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        lines: String,
    },
    /// The session process did not start.
    #[error("the session process did not start ({status}); the end of {}:{lines}", .log.display())]
    SessionStart {
        /// How it ended, or that it did not.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        lines: String,
    },
    /// `--priority-socket` is for a login process.
    #[error("cannot take the socket to the login process from standard input: {0}")]
    PrioritySocket(io::Error),
    /// Signals cannot be caught.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}
