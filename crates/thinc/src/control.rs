//! Requests of `thinc list`, `link`, `rename`, `top` and `stop` to a supervisor, and the answers:
//! one line of JSON each. From clients.rs, over a Unix socket in the session's private folder, to
//! supervisor.rs. Knows requests, answers and limits; the kernel tells that the client is the same
//! user (SO_PEERCRED).

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::priority::PriorityStatus;
use crate::terminal::print_error;

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8192;
/// Longest answer, in bytes: to `Priority`, with all that it lists. A new socket's buffer takes it
/// whole.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most connections on the control socket at one time, and how long a request may take to arrive.
const CONNECTIONS_MAX: usize = 16;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept: without descriptors the next one would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// The session's status.
    Status,
    /// A new link.
    Link {
        /// `thinc://` instead of `https://`.
        native: bool,
    },
    /// A new link, after everything that opened the session before was made invalid.
    Revoke {
        /// `thinc://` instead of `https://`.
        native: bool,
    },
    /// The person calls the session this from now on; none: by its name.
    Rename {
        /// As `thinc_session_server::title` keeps it.
        title: Option<String>,
    },
    /// Which processes answer, which compute.
    Priority,
    /// End the session; the connection closes once everything has ended.
    Stop,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// To `Status`.
    Status(Status),
    /// To `Link` and `Revoke`.
    Link(String),
    /// To `Rename`.
    Renamed,
    /// To `Priority`.
    Priority(PriorityStatus),
    /// To `Stop`.
    Stopping,
    /// The request was invalid, or could not be met.
    Error(String),
}

/// A session's status, as `thinc list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its name.
    pub(crate) name: String,
    /// What its person calls it, if they have said.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// Address and port that it listens on; none if it can be reached through ssh only.
    pub(crate) listen: Option<String>,
    /// The X display.
    pub(crate) display: String,
    /// The file with the X server's cookie.
    pub(crate) xauthority: String,
    /// The command that runs in it.
    pub(crate) command: String,
    /// What draws its 3D programs, in words; unknown at first.
    #[serde(default)]
    pub(crate) graphics: Option<String>,
    /// Seconds since 1970.
    pub(crate) started_s: u64,
    /// How often the session process was restarted.
    pub(crate) restarts: u32,
    /// Process IDs.
    pub(crate) pids: Pids,
}

/// Process IDs; 0 for a process that is not running at the moment.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pids {
    pub(crate) supervisor: u32,
    pub(crate) xorg: u32,
    pub(crate) session: u32,
    pub(crate) command: u32,
    /// The sound server and printer. A supervisor of an earlier build has none.
    #[serde(default)]
    pub(crate) desk: u32,
}

/// The content of the `--ready-json` file.
#[derive(Debug, Serialize)]
pub(crate) struct Ready<'a> {
    /// Opens the session once, in a browser or in thinc-view; none without a port.
    pub(crate) link: Option<String>,
    /// The same for thinc-view, with a token of its own.
    pub(crate) native_link: Option<String>,
    #[serde(flatten)]
    pub(crate) status: &'a Status,
}

/// Listens on the control socket; the channel delivers requests, each with the stream for its
/// answer.
pub(crate) fn open(path: &Path) -> io::Result<mpsc::Receiver<(Request, UnixStream)>> {
    // The folder's mode keeps other users out; this mode does so again.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    let (sender, receiver) = mpsc::channel(CONNECTIONS_MAX);
    tokio::spawn(async move {
        let free_connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Of failures in a row the first is told: the log of a detached session has no limit.
        let mut is_failing = false;
        while let Ok(permit) = free_connections.clone().acquire_owned().await {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Probably out of descriptors. The request waits in the kernel's queue.
                    if !is_failing {
                        print_error(&format!("thinc: cannot accept a request: {error}"));
                    }
                    is_failing = true;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            is_failing = false;
            let sender = sender.clone();
            tokio::spawn(async move {
                if let Ok(Some(request)) = timeout(REQUEST_TIMEOUT, read_request(stream)).await {
                    let _ = sender.send(request).await;
                }
                drop(permit);
            });
        }
    });
    Ok(receiver)
}

/// Reads one line from the same user; anything else is answered with an error, or not at all.
async fn read_request(stream: UnixStream) -> Option<(Request, UnixStream)> {
    let own = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().ok()?.uid();
    if peer != own && peer != 0 {
        return None;
    }
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    (&mut reader).take(REQUEST_BYTES_MAX as u64).read_line(&mut line).await.ok()?;
    match serde_json::from_str(&line) {
        Ok(request) => Some((request, reader.into_inner())),
        Err(error) => {
            let answer =
                serde_json::to_vec(&Answer::Error(format!("invalid request: {error}"))).ok()?;
            let _ = reader.into_inner().try_write(&answer);
            None
        }
    }
}
