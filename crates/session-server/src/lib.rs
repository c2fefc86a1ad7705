//! The session process, path 3/13 to 10/13: the shell around session-core, between the driver's
//! ring and the viewers. From `thinc serve`, which restarts it when it dies, to X server, viewers
//! and browsers; it owns none of them. Decides nothing that session-core could decide; knows
//! sockets, clocks, threads and authentication.
#![forbid(unsafe_code)]

mod actor;
pub mod answer;
pub mod assets;
mod caches;
mod clipboard;
mod connection;
mod cursor;
mod drops;
mod expiry;
pub mod figures;
mod files;
pub mod front;
pub mod gate;
mod gpu_encoder;
mod guests;
mod http;
mod keyboard;
mod listeners;
mod local;
pub mod log;
mod memory;
mod microphone;
pub mod monitor;
mod native;
mod opening;
mod packing;
pub mod pages;
pub mod preferences;
mod printing;
mod quic_port;
mod rate;
mod recorder;
mod render;
mod share;
pub mod sound;
mod sound_encoders;
mod title;
mod typed;
mod video;
pub mod websocket;
mod webtransport;
mod worker;
mod xsettings;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use thinc_realtime::{Policy, set_policy};
use thinc_transport::base64url;
use thinc_transport::identity::{Identity, IdentityError};
use thinc_transport::invitation::Invitations;
use thinc_transport::quic::QuicListener;
use thinc_transport::renewal::IdentityFiles;
use thinc_transport::token::{SessionSecret, TokenVerifier};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

pub use clipboard::ClipboardConfig;
pub use files::FilesConfig;
pub use gpu_encoder::GpuEncoding;
pub use listeners::Listeners;
pub use opening::{OPENINGS, Opening};
pub use printing::PrintingConfig;
pub use rate::{RATE_RULE, parse_rate};
pub use share::{
    ANSWER_BYTES_MAX, InvitationStatus, REQUEST_BYTES_MAX, ShareAnswer, ShareRequest, ViewerStatus,
};
pub use thinc_gpu_video::ELEMENTS as VIDEO_ELEMENTS;
pub use thinc_h264::Library as VideoEncoder;
pub use thinc_ring::XorgConf;
pub use title::{TITLE_RULE, title};
pub use typed::{NEWS_BYTES_MAX, SessionNews};
pub use video::VideoConfig;

/// What the session process prints once viewers can connect.
pub const READY_LINE: &str = "ready\n";

/// The session process's configuration, in a file that the supervisor writes, readable by their
/// user only.
#[derive(Clone, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The session's name.
    pub name: String,
    /// What its person calls it, if they have said; see [`title`].
    pub title: Option<String>,
    /// What draws 3D programs, for people, once it is known.
    pub graphics: Option<String>,
    /// Where the driver listens.
    pub driver_socket: PathBuf,
    /// The X display.
    pub display: String,
    /// The file that lets X clients in.
    pub xauthority: PathBuf,
    /// The secrets and names of the session's port, and of its UDP ports on demand.
    pub port: PortConfig,
    /// First in, first out, instead of shortest remaining first; for comparison.
    pub fifo: bool,
    /// Track what applications draw into pixmaps.
    pub offscreen: bool,
    /// Nothing is sent lossy, however slow the path.
    pub lossless: bool,
    /// How videos are sent.
    pub video: VideoConfig,
    /// The library that encodes videos, by its name.
    pub video_encoder: String,
    /// The GPU that encodes them where it can; None: none.
    pub gpu_encoding: Option<GpuEncoding>,
    /// The clipboard.
    pub clipboard: ClipboardConfig,
    /// Which files may be sent.
    pub files: FilesConfig,
    /// What programs print; None with `--printing off`.
    pub printing: Option<PrintingConfig>,
    /// Socket of the sound server; none with `--sound off`.
    pub desk_socket: Option<PathBuf>,
    /// Programs may hear the microphone of the owner's viewers, if there is a sound server.
    pub microphone: bool,
    /// Socket on which a trace can be requested.
    pub trace_socket: PathBuf,
    /// Socket on which `thinc share` and `thinc send` make requests.
    pub share_socket: PathBuf,
    /// File for a trace from the first record on.
    pub trace: Option<PathBuf>,
    /// When a person opens the session, and it is shown elsewhere; what they prefer, and what a
    /// broker's administrator has chosen, go before it.
    pub opening: Opening,
    /// Tell the supervisor who is there, and which program they type into; see [`SessionNews`].
    pub priority: bool,
    /// Bytes a second that all viewers together are sent at most.
    pub max_rate: Option<u64>,
    /// The session ends after so long without input.
    pub end_idle: Option<Duration>,
    /// The session ends after so long without a viewer.
    pub end_disconnected: Option<Duration>,
    /// Where figures for monitoring are served; none if they are not.
    pub metrics: Option<SocketAddr>,
}

/// Exit status of a session process where the session is to end, because nobody uses it.
pub const EXIT_UNUSED: u8 = 66;

/// The configuration of the session's ports. A session without a port (`--listen none`) has UDP
/// ports on demand only.
#[derive(Clone, Serialize, Deserialize)]
pub struct PortConfig {
    /// 32 bytes as base64url; tokens and session credentials are made under it.
    pub secret: String,
    /// Record of used tokens, which outlives this process.
    pub used_tokens: PathBuf,
    /// Record of invitations and guests, which outlives this process.
    pub invitations: PathBuf,
    /// The session's link without a token; none without a port.
    pub link: Option<String>,
    /// List of the open UDP ports on demand, which outlives this process; none if there are no such
    /// ports (`--quic off`).
    pub udp_ports: Option<PathBuf>,
    /// Certificate chain.
    pub tls_cert: PathBuf,
    /// Its key.
    pub tls_key: PathBuf,
    /// They are the administrator's, and may be renewed at any time.
    pub is_renewed: bool,
    /// Path of the session's URLs; begins and ends with `/`.
    pub base_path: String,
    /// `host:port` as in links; a WebSocket's origin may be this, or the requested `Host`.
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
    /// Nobody uses the session.
    #[error("the session ends: {0}")]
    Unused(String),
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

/// `thinc session`: receives the listening sockets on standard input, and prints READY_LINE on
/// standard output.
pub fn main(config: &Path) -> Result<ExitCode, SessionError> {
    // A killed supervisor must not leave a session that nobody can list or stop.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|error| SessionError::System("set the parent death signal", error.into()))?;
    let file = |error| SessionError::Config { path: config.to_owned(), error };
    let text = std::fs::read(config).map_err(file)?;
    let parsed: SessionConfig =
        serde_json::from_slice(&text).map_err(|error| file(error.into()))?;
    let user = std::env::var("USER").ok();
    log::start(log::Process { part: "session", user, session: Some(parsed.name.clone()) });
    // After a panic in one thread the others would wait for it: abort, and the supervisor restarts
    // the process.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let listeners = Listeners::take(io::stdin().as_fd())
        .map_err(|error| SessionError::System("receive the listening sockets", error))?;
    let end = run(&parsed, listeners, || {
        // Fails only if the supervisor has stopped reading; it does not need the line then.
        let mut out = io::stdout().lock();
        let _ = out.write_all(READY_LINE.as_bytes()).and_then(|()| out.flush());
    });
    match end {
        Err(SessionError::Unused(why)) => {
            tracing::info!("the session ends: {why}");
            Ok(ExitCode::from(EXIT_UNUSED))
        }
        end => end.map(|()| ExitCode::SUCCESS),
    }
}

/// Microseconds of a real-time thread without a pause: 100 ms until the signal comes, and 2 s until
/// the kernel kills the process.
const LONGEST_RUN: Rlimit = Rlimit { current: Some(100_000), maximum: Some(2_000_000) };

/// A broker may make this thread real-time, and has the kernel send SIGXCPU when it runs for too
/// long without a pause: it is ordinary from then on, and the process goes on.
async fn end_long_runs() {
    let number = rustix::process::Signal::XCPU.as_raw();
    let Ok(mut signals) = signal(SignalKind::from_raw(number)) else { return };
    loop {
        // As a broker sets them too, where it may; the kernel makes the first one longer each time.
        let _ = setrlimit(Resource::Rttime, LONGEST_RUN);
        if signals.recv().await.is_none() {
            return;
        }
        // Everybody may do that.
        let _ = set_policy(None, Policy::Ordinary);
    }
}

/// Serves viewers until the process is asked to end or the driver is gone.
pub fn run(
    config: &SessionConfig,
    listeners: Listeners,
    ready: impl FnOnce(),
) -> Result<(), SessionError> {
    let (events, inbox) = connection::channel();
    let ids = connection::ConnectionIds::default();
    let mut files = IdentityFiles::new(&config.port.tls_cert, &config.port.tls_key);
    let identity = files.load()?.identity;
    let (front, secret) = open_port(&config.port, &identity, ids.clone(), events.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| SessionError::System("start the event loop", error))?;
    runtime.block_on(async {
        tokio::spawn(end_long_runs());
        let attachment = thinc_ring::attach(&config.driver_socket)?;
        let keyboard = keyboard::start(&config.display, events.clone());
        if let Err(error) = recorder::listen(&config.trace_socket, events.clone()) {
            // The session works without traces.
            tracing::warn!(
                "cannot listen for trace requests on {}: {error}",
                config.trace_socket.display()
            );
        }
        let sharing = Arc::new(share::Sharing {
            front: front.clone(),
            broker: Mutex::default(),
            guests: front.guests(),
            link: config.port.link.as_deref().and_then(|link| link.parse().ok()),
            identity: identity.clone(),
            events: events.clone(),
        });
        if let Err(error) = share::listen(&config.share_socket, sharing.clone()) {
            // The session works for its owner.
            tracing::warn!(
                "cannot listen for requests to share on {}: {error}",
                config.share_socket.display()
            );
        }
        if config.port.is_renewed {
            tokio::spawn(show_renewed(files, identity.clone()));
        }
        if let Some(tcp) = listeners.tcp {
            let listener = tokio::net::TcpListener::from_std(tcp)
                .map_err(|error| SessionError::System("listen", error))?;
            match listeners
                .udp
                .map(|udp| QuicListener::new(udp, &identity, &secret, front::since_1970()))
            {
                Some(Ok(listener)) => drop(tokio::spawn(front.clone().serve_quic(listener))),
                // The session works over TCP alone.
                Some(Err(error)) => tracing::warn!("viewers cannot connect over QUIC: {error}"),
                None => {}
            }
            tokio::spawn(front.clone().serve(listener));
        }
        if let Some(address) = config.metrics {
            tokio::spawn(monitor::serve_own(address, config.name.clone(), events.clone()));
        }
        let opener =
            quic_port::PortOpener::new(front, identity, secret, config.port.udp_ports.clone());
        tokio::spawn(opener.serve(listeners.port_requests));
        tokio::spawn(local::serve(listeners.local, ids, events.clone()));
        ready();
        // Spawned, so that tokio wakes it like other tasks, without polling the system for events
        // first.
        let actor = actor::Actor::new(config, attachment, keyboard, sharing, events)?;
        match tokio::spawn(actor.run(inbox)).await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    })
}

/// Shows each certificate that the files come to hold, without end.
async fn show_renewed(mut files: IdentityFiles, identity: Identity) {
    loop {
        match files.changed().await {
            Ok(new) => {
                identity.replace(&new.identity);
                let path = files.certificates().display();
                tracing::info!("new connections get the new certificate of {path}");
            }
            Err(error) => tracing::warn!("the certificate stays the old one: {error}"),
        }
    }
}

/// The TLS front end, with its secret.
fn open_port(
    config: &PortConfig,
    identity: &Identity,
    ids: connection::ConnectionIds,
    events: connection::Events,
) -> Result<(front::Front, SessionSecret), SessionError> {
    let secret: [u8; 32] = base64url::decode(&config.secret)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the secret is not 32 bytes");
            SessionError::Config { path: config.used_tokens.clone(), error }
        })?;
    let tokens = TokenVerifier::open(SessionSecret(secret), &config.used_tokens)
        .map_err(|error| SessionError::Config { path: config.used_tokens.clone(), error })?;
    let guests = Invitations::open(SessionSecret(secret), &config.invitations)
        .map_err(|error| SessionError::Config { path: config.invitations.clone(), error })?;
    Ok((
        front::Front::new(config, (tokens, guests), identity.server_config()?, ids, events),
        SessionSecret(secret),
    ))
}
