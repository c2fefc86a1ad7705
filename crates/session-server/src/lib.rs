//! The session process, path 3/13 to 10/13: the shell round session-core, between the driver's ring and the viewers.
//! From `thinc serve`, which starts it again when it dies, to X server, viewers and browsers; it owns none of them.
//! Decides nothing that session-core could decide; knows sockets, clocks, threads and who may come in.
#![forbid(unsafe_code)]

mod actor;
mod assets;
mod caches;
mod connection;
mod cursor;
mod front;
mod gate;
mod http;
mod keyboard;
mod native;
mod packing;
mod recorder;
mod render;
mod websocket;
mod worker;

use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use thinc_transport::base64url;
use thinc_transport::identity::{Identity, IdentityError};
use thinc_transport::token::{SessionSecret, TokenGate};
use thiserror::Error;

pub use thinc_ring::XorgConf;

/// What the session process prints once viewers can connect.
pub const READY_LINE: &str = "ready\n";

/// What the supervisor tells the session process, in a file for their user alone.
#[derive(Clone, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The session's name.
    pub name: String,
    /// Where the driver listens.
    pub driver_socket: PathBuf,
    /// The X display.
    pub display: String,
    /// The file that lets X clients in.
    pub xauthority: PathBuf,
    /// 32 bytes as base64url; tokens and session keys are made under it.
    pub secret: String,
    /// Record of used tokens, which outlives this process.
    pub used_tokens: PathBuf,
    /// Certificate chain.
    pub tls_cert: PathBuf,
    /// Its key.
    pub tls_key: PathBuf,
    /// Path under which browsers see the session; begins and ends with `/`.
    pub base_path: String,
    /// First in, first out, instead of shortest remaining first; for comparison.
    pub fifo: bool,
    /// Follow what is drawn into pixmaps.
    pub offscreen: bool,
    /// Nothing is sent lossy, however slow the link.
    pub lossless: bool,
    /// Where somebody may ask for a trace.
    pub trace_socket: PathBuf,
    /// Where one is written from the first record on.
    pub trace: Option<PathBuf>,
    /// `host:port` as links name the session; a WebSocket's origin may be this beside the `Host` it asks.
    pub authority: String,
}

/// Why the session process ends; the supervisor starts another one.
#[derive(Debug, Error)]
pub enum SessionError {
    /// A file the supervisor wrote.
    #[error("cannot read {}: {error}", .path.display())]
    Config {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Key and certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// TLS does not take them.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The driver.
    #[error("cannot attach to the X server's driver: {0}")]
    Attach(#[from] thinc_ring::AttachError),
    /// The driver's memory or sockets.
    #[error("the X server's driver is gone: {0}")]
    Driver(io::Error),
    /// The system.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// `thinc session`: standard input is the listening socket, standard output tells the supervisor that it is served.
pub fn main(config: &Path) -> Result<ExitCode, SessionError> {
    // A supervisor that was killed must not leave a session that nobody can list or stop.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|error| SessionError::System("ask for the supervisor's end", error.into()))?;
    start_log();
    // A bug in one part must not leave the others waiting for it: the supervisor starts all of it again at once.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let file = |error| SessionError::Config { path: config.to_owned(), error };
    let text = std::fs::read(config).map_err(file)?;
    let parsed: SessionConfig = serde_json::from_slice(&text).map_err(|error| file(error.into()))?;
    let listener =
        io::stdin().as_fd().try_clone_to_owned().map_err(|error| SessionError::System("take the socket", error))?;
    run(&parsed, listener.into(), || {
        // The supervisor may have stopped listening; it then knows already.
        let mut out = io::stdout().lock();
        let _ = out.write_all(READY_LINE.as_bytes()).and_then(|()| out.flush());
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves viewers until the process is asked to end or the driver is gone.
pub fn run(config: &SessionConfig, listener: TcpListener, ready: impl FnOnce()) -> Result<(), SessionError> {
    let identity = Identity::load(&config.tls_cert, &config.tls_key)?;
    let secret = base64url::decode(&config.secret)
        .and_then(|bytes| bytes.try_into().ok())
        .map(SessionSecret)
        .ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the secret is not 32 bytes");
            SessionError::Config { path: config.used_tokens.clone(), error }
        })?;
    let tokens = TokenGate::open(secret, &config.used_tokens)
        .map_err(|error| SessionError::Config { path: config.used_tokens.clone(), error })?;
    let tls = identity.server_config()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| SessionError::System("start the event loop", error))?;
    runtime.block_on(async {
        let listener =
            tokio::net::TcpListener::from_std(listener).map_err(|error| SessionError::System("listen", error))?;
        let attachment = thinc_ring::attach(&config.driver_socket)?;
        let (events, inbox) = connection::channel();
        let keyboard = keyboard::start(&config.display, events.clone());
        if let Err(error) = recorder::listen(&config.trace_socket, events.clone()) {
            // A session without traces is a session.
            tracing::warn!("no trace can be asked for: {}: {error}", config.trace_socket.display());
        }
        let front = front::Front::new(config, tokens, tls, events.clone());
        tokio::spawn(front.serve(listener));
        ready();
        // A task like the others, which the event loop wakes without asking the system for events first.
        let actor = actor::Actor::new(config, attachment, keyboard, events)?;
        match tokio::spawn(actor.run(inbox)).await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    })
}

fn start_log() {
    let level = std::env::var("THINC_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(tracing::Level::INFO);
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(false)
        // A log that cannot be written is nothing to write about.
        .log_internal_errors(false)
        .init();
}
