//! Everything that ends a viewer, in words for a person and as an exit code for a script.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use thinc_protocol::session::CloseCode;
use thinc_transport::{ConnectError, LinkError};
use thiserror::Error;

use crate::ssh::SshError;

/// Why the viewer ended.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The link cannot be read.
    #[error("this is no link: {0}")]
    Link(#[from] LinkError),
    /// A command for a session that runs already.
    #[error("a command can be given with ssh:// only: what is behind a link runs already")]
    NoCommand,
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No connection through ssh.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The session ended the connection and said why.
    #[error("the session closed the connection: {reason}")]
    Closed {
        /// For programs.
        code: CloseCode,
        /// For people.
        reason: String,
    },
    /// The connection broke, and the viewer was told not to come back or could not.
    #[error("the connection is lost: {0}")]
    Lost(String),
    /// The session sent what is not the protocol.
    #[error("the session sent something that is not thinc's protocol: {0}")]
    Protocol(String),
    /// It took too long.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: Duration,
    },
    /// A file could not be written or read.
    #[error("cannot use {path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line of a script makes no sense.
    #[error("{0}")]
    Script(String),
    /// There is no window to be had.
    #[error("cannot open a window: {0}")]
    Window(String),
}

impl ViewError {
    /// Exit codes, as `thinc-view --help` lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            ViewError::Link(_) | ViewError::NoCommand => 2,
            ViewError::Connect(error) => match error {
                ConnectError::WrongKey { .. }
                | ConnectError::ChangedKey { .. }
                | ConnectError::NoPin
                | ConnectError::Tls(..) => 4,
                ConnectError::Refused { code: CloseCode::Unauthorized, .. } | ConnectError::NoToken => 5,
                ConnectError::Refused { .. } | ConnectError::Protocol(..) | ConnectError::NotThinc(_) => 6,
                ConnectError::KnownHosts(..) => 1,
                _ => 3,
            },
            ViewError::Ssh(error) => match error {
                SshError::Address(..) | SshError::ThincPath(_) | SshError::NoProgram => 2,
                SshError::Refused { .. } => 5,
                SshError::Version(..) | SshError::Noise(_) => 6,
                SshError::Timeout(..) => 7,
                SshError::NoSession(_) => 8,
                SshError::Start(..)
                | SshError::Unreachable { .. }
                | SshError::NoThinc { .. }
                | SshError::Remote { .. } => 3,
            },
            ViewError::Closed { code: CloseCode::Unauthorized, .. } => 5,
            ViewError::Closed { code: CloseCode::SessionEnded, .. } => 8,
            ViewError::Closed { .. } | ViewError::Protocol(_) => 6,
            ViewError::Lost(_) => 3,
            ViewError::Timeout { .. } => 7,
            ViewError::File { .. } | ViewError::Script(_) | ViewError::Window(_) => 1,
        }
    }

    /// True where coming back later, with the session key, can help.
    pub fn is_passing(&self) -> bool {
        match self {
            ViewError::Lost(_) | ViewError::Closed { code: CloseCode::Restart | CloseCode::TooSlow, .. } => true,
            ViewError::Connect(error) => matches!(
                error,
                ConnectError::Resolve(..)
                    | ConnectError::Connect(..)
                    | ConnectError::Broken(..)
                    | ConnectError::Refused { code: CloseCode::Restart, .. }
            ),
            ViewError::Ssh(error) => error.is_passing(),
            _ => false,
        }
    }
}

impl ViewError {
    /// True where nobody has answered: no network on the way, or one that drops everything.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, ViewError::Connect(error) if is_unanswered(error))
    }
}

/// The attempt ended because its time was over.
pub(crate) fn is_unanswered(error: &ConnectError) -> bool {
    // A socket's own time ends with `WouldBlock`.
    let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
    matches!(error, ConnectError::Connect(_, error) | ConnectError::Broken(_, error) if kinds.contains(&error.kind()))
}

impl From<&ViewError> for ExitCode {
    fn from(error: &ViewError) -> ExitCode {
        ExitCode::from(error.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wait_can_heal_is_told_from_what_it_cannot() {
        let closed = |code| ViewError::Closed { code, reason: String::new() };
        assert!(closed(CloseCode::Restart).is_passing());
        assert!(closed(CloseCode::TooSlow).is_passing());
        for code in [CloseCode::SessionEnded, CloseCode::Replaced, CloseCode::Protocol, CloseCode::Version] {
            assert!(!closed(code).is_passing(), "{code:?}");
        }
        assert!(ViewError::Lost("reset".into()).is_passing());
        assert!(
            ViewError::Connect(ConnectError::Connect("h:1".into(), io::ErrorKind::ConnectionRefused.into()))
                .is_passing()
        );
        assert!(!ViewError::Connect(ConnectError::NoPin).is_passing());
        let refused = ConnectError::Refused { code: CloseCode::Unauthorized, reason: "the token was used".into() };
        assert_eq!(ViewError::Connect(refused).exit_code(), 5);
    }
}
