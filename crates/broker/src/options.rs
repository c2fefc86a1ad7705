//! What an administrator chooses, and what can go wrong before anybody can log in. Beside the path:
//! from the command line and config.rs, to helper.rs. Knows names and paths; starts nothing.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thinc_session_server::Opening;
use thinc_session_server::log::LogFormat;
use thiserror::Error;

use crate::acme::AcmeOptions;
use crate::config::{Config, ConfigError};
use crate::limits::{Limits, Rates};
use crate::proxy::TrustedProxies;

/// The account of the front, the rules for PAM and the folder of the certificate, unless others are
/// named.
const FRONT_USER: &str = "thinc-front";
/// See [`FRONT_USER`].
const PAM_SERVICE: &str = "thinc";
/// See [`FRONT_USER`].
const STATE: &str = "/var/lib/thinc";
/// 30 days: how long devices are remembered, unless the configuration says another time.
const REMEMBER: Duration = Duration::from_secs(30 * 86_400);

/// As other systems of remote desktops do: who opens their desktop here wants to work here, at the
/// size of this screen, and wants nobody to read along on the one that they left.
pub const DEFAULT_OPENING: Opening = Opening::TakeOver;
/// Tells agents and sessions of it.
pub const OPENING_VARIABLE: &str = "THINC_OPENING";

/// The broker's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerOptions {
    /// Addresses and ports; without any, port 443 of all addresses.
    pub listen: Vec<SocketAddr>,
    /// Certificate chain and key as PEM files; without them a self-signed one is made in `state`.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A certificate by ACME.
    pub acme: AcmeOptions,
    /// People may invite guests.
    pub sharing: bool,
    /// When a person opens a desktop that is shown elsewhere, unless they have chosen.
    pub opening: Opening,
    /// How long devices are remembered; zero: none is.
    pub remember: Duration,
    /// Desktops have sound.
    pub sound: bool,
    /// Desktops have a printer.
    pub printing: bool,
    /// Desktops may hear microphones of their people's viewers.
    pub microphone: bool,
    /// QUIC, on the UDP ports of the same numbers.
    pub quic: bool,
    /// Reverse proxies whose word on the client's address counts.
    pub trusted_proxies: TrustedProxies,
    /// The account that the front runs as.
    pub front_user: String,
    /// The rules of /etc/pam.d.
    pub pam_service: String,
    /// Where key and certificate are kept.
    pub state: PathBuf,
    /// Where the audit log is written, besides the journal.
    pub audit_log: Option<PathBuf>,
    /// Desktops end after so long without input.
    pub end_idle: Option<Duration>,
    /// Desktops end after so long without a viewer.
    pub end_disconnected: Option<Duration>,
    /// How many desktops there may be, and what each may use.
    pub limits: Limits,
    /// What may be sent to viewers.
    pub rates: Rates,
    /// A file with what everybody reads before a login.
    pub banner: Option<PathBuf>,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// Where figures for monitoring are served; none if they are not.
    pub metrics: Option<SocketAddr>,
}

impl BrokerOptions {
    /// What the command line says, then what the file says, then the defaults.
    pub fn new(command_line: Config, file: Config) -> BrokerOptions {
        BrokerOptions {
            listen: command_line.listen.or(file.listen).unwrap_or_default(),
            certificate: command_line.certificate.or(file.certificate),
            acme: file.acme,
            sharing: file.sharing.unwrap_or(true),
            opening: file.opening.unwrap_or(DEFAULT_OPENING),
            remember: file.remember.unwrap_or(REMEMBER),
            sound: file.sound.unwrap_or(true),
            printing: file.printing.unwrap_or(true),
            microphone: file.microphone.unwrap_or(true),
            quic: file.quic.unwrap_or(true),
            trusted_proxies: command_line
                .trusted_proxies
                .or(file.trusted_proxies)
                .unwrap_or_default(),
            front_user: command_line
                .front_user
                .or(file.front_user)
                .unwrap_or_else(|| FRONT_USER.to_owned()),
            pam_service: command_line
                .pam_service
                .or(file.pam_service)
                .unwrap_or_else(|| PAM_SERVICE.to_owned()),
            state: command_line.state.or(file.state).unwrap_or_else(|| STATE.into()),
            audit_log: command_line.audit_log.or(file.audit_log),
            end_idle: command_line.end_idle.or(file.end_idle),
            end_disconnected: command_line.end_disconnected.or(file.end_disconnected),
            limits: Limits { priority: file.priority.unwrap_or(true), ..file.limits },
            rates: file.rates,
            banner: file.banner,
            metrics: file.metrics,
            log_format: command_line.log_format.or(file.log_format).unwrap_or_default(),
        }
    }
}

/// Why the broker does not run.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// The folder of the sockets of login processes.
    #[error("cannot look for logins in {path}: {1}", path = .0.display())]
    Logins(PathBuf, #[source] io::Error),
    /// The configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not started by root.
    #[error(
        "thinc broker has to be started by root: it checks passwords and becomes other users. \
            Without root, `thinc serve` shares a session of your own"
    )]
    NotRoot,
    /// The front's account.
    #[error(
        "there is no account {0} for the part that speaks with the network: make one (adduser \
            --system --group {0}), or name another with --front-user"
    )]
    NoFrontUser(String),
    /// It is root.
    #[error("--front-user {0}: this account is root; the front must have no privileges")]
    FrontIsRoot(String),
    /// No rules for PAM.
    #[error(
        "there is no {}: without PAM's rules nobody may log in. doc/hosting.md has a file for it",
        .0.display()
    )]
    NoPamService(PathBuf),
    /// Key and certificate.
    #[error(transparent)]
    Identity(#[from] thinc_transport::identity::IdentityError),
    /// Key and certificate are too long together.
    #[error("certificate and key have {0} bytes; {1} is the limit")]
    LongIdentity(usize, usize),
    /// ACME.
    #[error("no certificate by ACME: {0}")]
    Acme(String),
    /// ACME beside files.
    #[error("acme in the configuration, and --tls-cert: only one of both can be shown")]
    AcmeAndFiles,
    /// TLS does not take them.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The port.
    #[error("cannot listen on {0}: {1}{hint}", hint = listen_hint(.1))]
    Listen(SocketAddr, io::Error),
    /// The port over UDP.
    #[error(
        "cannot listen on UDP {0}: {1}; viewers connect over TCP, which is slower on a path that \
            loses packets. Stop the other program, or say quic = false"
    )]
    ListenUdp(SocketAddr, io::Error),
    /// The administrator's socket.
    #[error("{path}: {1}; is the broker running, and this its state folder?", path = .0.display())]
    Admin(PathBuf, io::Error),
    /// The audit log.
    #[error("cannot write the audit log {path}: {1}", path = .0.display())]
    Audit(PathBuf, io::Error),
    /// Limits that the system cannot enforce.
    #[error("{0}")]
    Limits(String),
    /// The file of the text before a login.
    #[error("banner: {0}")]
    Banner(String),
    /// The sandbox.
    #[error("the front has no sandbox, and does not run without: {0}")]
    Sandbox(String),
    /// The user's processes would keep privileges.
    #[error("cannot become the user {0}: {1}")]
    User(String, String),
    /// A device that nobody knows.
    #[error("its device is not remembered, or not any more")]
    UnknownDevice,
    /// A device that has another key, or was asked by another server.
    #[error("its device has not signed what it was asked to")]
    NotSigned,
    /// A device of an account that is not found now.
    #[error("the system has no such account at this moment; its device stays remembered")]
    NoAccount,
    /// A device of an account that has changed.
    #[error(
        "its device was remembered for another user ID or password, or before the account was \
            locked; it is forgotten"
    )]
    ChangedAccount,
    /// PAM.
    #[error(transparent)]
    Pam(#[from] thinc_pam::PamError),
    /// The system.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; stop the other program, or choose a port with --listen",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_goes_before_the_file_and_the_file_before_the_defaults() {
        let file = Config {
            listen: Some(vec!["127.0.0.1:1".parse().unwrap()]),
            state: Some("/file".into()),
            ..Config::default()
        };
        let command_line = Config { state: Some("/line".into()), ..Config::default() };
        let options = BrokerOptions::new(command_line, file.clone());
        assert_eq!(options.state, PathBuf::from("/line"));
        assert_eq!(Some(options.listen), file.listen);
        assert_eq!(options.front_user, FRONT_USER);
        assert!(options.limits.priority);
        let file = Config { priority: Some(false), ..Config::default() };
        assert!(!BrokerOptions::new(Config::default(), file).limits.priority);
    }
}
