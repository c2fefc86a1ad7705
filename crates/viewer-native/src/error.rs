//! Every error that ends a viewer, as a message for the user and an exit code for scripts.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use thinc_protocol::session::CloseCode;
use thinc_protocol::wire::printable;
use thinc_transport::{ConnectError, LinkError};
use thiserror::Error;

use crate::ssh::SshError;

/// Prints a message for the user. It may quote anything: an address that a web page opened, a
/// file's name.
pub fn report(message: impl std::fmt::Display) {
    let text = format!("thinc-view: {message}");
    let _ = writeln!(io::stderr().lock(), "{}", printable(&text));
}

/// Ends the program with clap's message, which may quote such an argument.
pub fn exit_with(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    match printable(&text) {
        Cow::Borrowed(_) => error.exit(),
        Cow::Owned(text) => {
            let _ = write!(io::stderr().lock(), "{text}");
            std::process::exit(error.exit_code())
        }
    }
}

/// Why the viewer ended.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The command line names no session.
    #[error(
        "no address: name ssh://HOST, or give a link on standard input (thinc-view -), in a file \
         (--link-file FILE) or in THINC_LINK"
    )]
    NoAddress,
    /// The address was to be read there.
    #[error("no address in {0}: its first line is empty")]
    EmptyAddress(String),
    /// The link cannot be parsed.
    #[error("invalid link: {0}")]
    Link(#[from] LinkError),
    /// A person who was invited did not give the password.
    #[error(
        "the invitation has a password, and there is none: {0}; type it on a terminal, or give it \
            as a line of standard input"
    )]
    NoPassword(io::Error),
    /// A command was given for a session that runs already.
    #[error("a command can be given with ssh:// only: the session of a link runs already")]
    NoCommand,
    /// A transport that ssh does not have.
    #[error(
        "--transport tcp needs a link to a session's port; with ssh:// choose auto, quic or tunnel"
    )]
    NoTcp,
    /// A transport that a link does not have.
    #[error("--transport tunnel needs an ssh:// address; with a link choose auto, quic or tcp")]
    NoTunnel,
    /// Over ssh, with `--transport quic`: the host offers no port.
    #[error("QUIC is not possible: {0} (--transport auto stays in ssh's tunnel then)")]
    NoQuic(String),
    /// A choice of desktops without a login.
    #[error(
        "--list, --desktop and --new need the address of a server that you log in to, such as \
            https://SERVER: a link, or a session over ssh, is one desktop"
    )]
    NoDesktops,
    /// `--uninstall` with a link.
    #[error("--uninstall needs an ssh:// address: thinc-view copies thinc through ssh only")]
    NoUninstall,
    /// No connection to a link's port.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No connection through ssh.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The session closed the connection with a reason.
    #[error("the session closed the connection: {reason}")]
    Closed {
        /// The reason as a code.
        code: CloseCode,
        /// The reason for the user.
        reason: String,
    },
    /// The connection was lost, and the viewer does not reconnect or could not.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The session violated the protocol.
    #[error("the session violated the protocol: {0}")]
    Protocol(String),
    /// A wait timed out.
    #[error("time-out after {limit:?}: {what}")]
    Timeout {
        /// What the viewer waited for.
        what: &'static str,
        /// The time-out.
        limit: Duration,
    },
    /// A file could not be written or read.
    #[error("cannot use {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A command of a script is invalid or failed.
    #[error("{0}")]
    Script(String),
    /// No window can be opened.
    #[error("cannot open a window: {0}")]
    Window(String),
}

impl ViewError {
    /// Exit codes, as `thinc-view --help` lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            ViewError::NoAddress
            | ViewError::EmptyAddress(_)
            | ViewError::Link(_)
            | ViewError::NoPassword(_)
            | ViewError::NoCommand
            | ViewError::NoTcp
            | ViewError::NoTunnel
            | ViewError::NoDesktops
            | ViewError::NoUninstall => 2,
            ViewError::Connect(error) => match error {
                ConnectError::WrongKey { .. }
                | ConnectError::ChangedKey { .. }
                | ConnectError::NoPin
                | ConnectError::NotConfirmed(_)
                | ConnectError::Tls(..) => 4,
                ConnectError::Refused { code: CloseCode::Unauthorized, .. }
                | ConnectError::NotLoggedIn(_)
                | ConnectError::NoToken => 5,
                ConnectError::Refused { code: CloseCode::Restart, .. } => 3,
                ConnectError::Refused { .. }
                | ConnectError::Protocol(..)
                | ConnectError::NotThinc(_) => 6,
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
                | SshError::NotInstalled { .. }
                | SshError::CannotInstall { .. }
                | SshError::Remote { .. } => 3,
            },
            ViewError::Closed { code: CloseCode::Unauthorized, .. } => 5,
            ViewError::Closed { code: CloseCode::SessionEnded, .. } => 8,
            ViewError::Closed { .. } | ViewError::Protocol(_) => 6,
            ViewError::Lost(_) | ViewError::NoQuic(_) => 3,
            ViewError::Timeout { .. } => 7,
            ViewError::File { .. } | ViewError::Script(_) | ViewError::Window(_) => 1,
        }
    }

    /// True if reconnecting later, with the session credential, can help.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            ViewError::Lost(_)
            | ViewError::Closed { code: CloseCode::Restart | CloseCode::TooSlow, .. } => true,
            ViewError::Connect(error) => matches!(
                error,
                ConnectError::Resolve(..)
                    | ConnectError::Connect(..)
                    | ConnectError::Broken(..)
                    | ConnectError::Refused { code: CloseCode::Restart, .. }
            ),
            ViewError::Ssh(error) => error.is_transient(),
            _ => false,
        }
    }
}

impl ViewError {
    /// True if nothing has answered: there is no network, or it drops everything.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, ViewError::Connect(error) if is_unanswered(error))
    }
}

/// The attempt timed out.
pub(crate) fn is_unanswered(error: &ConnectError) -> bool {
    // A socket's own time-out is `WouldBlock`.
    let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
    matches!(error, ConnectError::Connect(_, error) | ConnectError::Broken(_, error)
        if kinds.contains(&error.kind()))
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
    fn transient_errors_are_distinguished_from_permanent_ones() {
        let closed = |code| ViewError::Closed { code, reason: String::new() };
        assert!(closed(CloseCode::Restart).is_transient());
        assert!(closed(CloseCode::TooSlow).is_transient());
        for code in
            [CloseCode::SessionEnded, CloseCode::Replaced, CloseCode::Protocol, CloseCode::Version]
        {
            assert!(!closed(code).is_transient(), "{code:?}");
        }
        assert!(ViewError::Lost("reset".into()).is_transient());
        assert!(
            ViewError::Connect(ConnectError::Connect(
                "h:1".into(),
                io::ErrorKind::ConnectionRefused.into()
            ))
            .is_transient()
        );
        assert!(!ViewError::Connect(ConnectError::NoPin).is_transient());
        let refused = ConnectError::Refused {
            code: CloseCode::Unauthorized,
            reason: "the token was used".into(),
        };
        assert_eq!(ViewError::Connect(refused).exit_code(), 5);
        let busy = ConnectError::Refused { code: CloseCode::Restart, reason: "busy".into() };
        let busy = ViewError::Connect(busy);
        assert!(busy.is_transient() && busy.exit_code() == 3);
    }
}
