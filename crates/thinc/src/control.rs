//! What `thinc list`, `link` and `stop` ask a supervisor, and what it answers: one line of JSON each way.
//! From clients.rs, over a Unix socket in the session's private folder, to supervisor.rs.
//! Knows requests, answers and how many wait; that the asker is the same user, the kernel says (SO_PEERCRED).

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

/// Longest line either way, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 8192;
/// Requests on the control socket answered at one time, and how long each may take to arrive.
const CONNECTIONS_MAX: usize = 16;
const TIME: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Who and what the session is.
    Status,
    /// A new link.
    Link {
        /// `thinc://` instead of `https://`.
        native: bool,
    },
    /// End it; the connection closes when all of it has ended.
    Stop,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// To `Status`.
    Status(Status),
    /// To `Link`.
    Link(String),
    /// To `Stop`.
    Stopping,
    /// The request was not understood, or could not be met.
    Error(String),
}

/// A session as `thinc list` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its name.
    pub(crate) name: String,
    /// Address and port it listens on; none where it can be reached by ssh alone.
    pub(crate) listen: Option<String>,
    /// The X display.
    pub(crate) display: String,
    /// The file that lets X clients in.
    pub(crate) xauthority: String,
    /// What runs in it.
    pub(crate) command: String,
    /// Seconds since 1970.
    pub(crate) started_s: u64,
    /// Times the session process was started again.
    pub(crate) restarts: u32,
    /// Process ids.
    pub(crate) pids: Pids,
}

/// Process ids; 0 for one that is not running at the moment.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pids {
    pub(crate) supervisor: u32,
    pub(crate) xorg: u32,
    pub(crate) session: u32,
    pub(crate) command: u32,
}

/// What `--ready-json` writes.
#[derive(Debug, Serialize)]
pub(crate) struct Ready<'a> {
    /// Opens the session once, in a browser or in thinc-view; none without a port.
    pub(crate) link: Option<String>,
    /// The same for thinc-view, with a token of its own.
    pub(crate) native_link: Option<String>,
    #[serde(flatten)]
    pub(crate) status: &'a Status,
}

/// Listens on the control socket; requests come through the channel, each with the stream that waits for its answer.
pub(crate) fn open(path: &Path) -> io::Result<mpsc::Receiver<(Request, UnixStream)>> {
    // Others are kept out by the folder's mode; this file's own says the same.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    let (sender, receiver) = mpsc::channel(CONNECTIONS_MAX);
    tokio::spawn(async move {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while let Ok(permit) = room.clone().acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else { return };
            let sender = sender.clone();
            tokio::spawn(async move {
                if let Ok(Some(request)) = timeout(TIME, read_request(stream)).await {
                    let _ = sender.send(request).await;
                }
                drop(permit);
            });
        }
    });
    Ok(receiver)
}

/// One line from the same user; anything else is answered with why not, or with nothing.
async fn read_request(stream: UnixStream) -> Option<(Request, UnixStream)> {
    let own = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().ok()?.uid();
    if peer != own && peer != 0 {
        return None;
    }
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    (&mut reader).take(LINE_BYTES_MAX as u64).read_line(&mut line).await.ok()?;
    match serde_json::from_str(&line) {
        Ok(request) => Some((request, reader.into_inner())),
        Err(error) => {
            let answer = serde_json::to_vec(&Answer::Error(format!("not understood: {error}"))).ok()?;
            let _ = reader.into_inner().try_write(&answer);
            None
        }
    }
}
