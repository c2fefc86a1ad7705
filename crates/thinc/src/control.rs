//! What `thinc list`, `link` and `stop` ask a supervisor, and what it answers: one line of JSON each way.
//! From clients.rs, over a Unix socket in the session's private folder, to supervisor.rs.
//! Knows requests and answers; that the asker is the same user, the kernel says (SO_PEERCRED).

use serde::{Deserialize, Serialize};

/// Longest line either way, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 8192;

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
    /// Address and port it listens on.
    pub(crate) listen: String,
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
    /// Opens the session once, in a browser or in thinc-view.
    pub(crate) link: String,
    /// The same for thinc-view, with a token of its own.
    pub(crate) native_link: String,
    #[serde(flatten)]
    pub(crate) status: &'a Status,
}
