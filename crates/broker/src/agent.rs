//! What the front asks a user's agent, and the agent's side of it. Beside the path: from front/, to
//! thinc/src/agent.rs, which knows sessions. The agent runs as the user and can do what the user
//! can; the front trusts no byte of its answers. Knows messages; never sessions.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thinc_session_server::figures::SessionFigures;
use thinc_session_server::log::{self, Process};
use tracing::warn;

pub use thinc_session_server::preferences::{PREFERENCES_BYTES_MAX, Preferences};

use crate::admission::Waiting;
use crate::limits::Starts;
use crate::{BrokerError, packets};

/// Longest request, and longest answer, in bytes.
pub const REQUEST_BYTES_MAX: usize = 4096;
/// See [`REQUEST_BYTES_MAX`].
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most sessions in an answer.
pub const SESSIONS_MAX: usize = 64;
/// Most desktops in an answer.
pub const CHOICES_MAX: usize = 64;
/// Longest ID or name of a desktop, and longest command line of a program, in bytes.
pub const CHOSEN_BYTES_MAX: usize = 1024;

/// A request; the descriptor that comes with it is where the answer goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRequest {
    /// The user's sessions.
    List,
    /// Start the default desktop unless it runs.
    Start,
    /// The desktops that can be started.
    Choices,
    /// Start another session; an error if one of its name runs.
    StartChosen {
        /// What runs in it.
        what: Chosen,
        /// Its name; none: that of the desktop or the program.
        name: Option<String>,
    },
    /// A connection to this session.
    Open(String),
    /// A small picture of this session's screen.
    Thumbnail(String),
    /// What the user prefers.
    Preferences,
    /// The user prefers this from now on, on every device.
    Prefer(Preferences),
    /// Call this session something else.
    Rename {
        /// The session's name.
        name: String,
        /// What it is called.
        title: String,
    },
    /// End this session.
    End(String),
    /// The figures of all sessions, for monitoring.
    Figures,
    /// Guests may come to this session through the broker, or may not.
    Share {
        /// The session's name.
        name: String,
        /// The broker's link, without a token; none if guests are not allowed.
        origin: Option<String>,
        /// 16 hexadecimal digits that name the user to the front.
        owner: String,
    },
    /// Let a guest in.
    Admit {
        /// The session's name.
        name: String,
        /// Of an invitation, base64url.
        token: String,
        /// What the guest calls itself.
        guest: String,
        /// Empty without one.
        password: String,
        /// The guest's address.
        from: SocketAddr,
    },
    /// A connection to this session for a guest.
    Visit {
        /// The session's name.
        name: String,
        /// The guest's, base64url.
        credential: String,
        /// The guest's address.
        from: SocketAddr,
    },
    /// A guest ends its visit.
    Leave {
        /// The session's name.
        name: String,
        /// The guest's, base64url.
        credential: String,
    },
}

/// What a person wants to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// The default desktop.
    Default,
    /// The desktop of this ID.
    Desktop(String),
    /// A program and its arguments, as they were typed.
    Program(String),
}

/// A desktop that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopInfo {
    /// Names it in [`Chosen::Desktop`].
    pub id: String,
    /// For people.
    pub name: String,
}

/// A session of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Its name.
    pub name: String,
    /// What the user calls it, if they have said.
    #[serde(default)]
    pub title: Option<String>,
    /// What runs in it.
    pub command: String,
    /// When it started, in seconds since 1970.
    pub started_s: u64,
}

/// Most sessions whose figures an answer has: each has at most 2 KiB.
pub const FIGURES_MAX: usize = 32;

/// A session of the user, for monitoring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesktopFigures {
    /// Its name.
    pub name: String,
    /// When it started, in seconds since 1970.
    pub started_s: u64,
    /// What its session process says; `None` from one of an earlier version.
    pub figures: Option<SessionFigures>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentAnswer {
    /// To `List`.
    Sessions(Vec<SessionInfo>),
    /// To `Choices`.
    Choices(Vec<DesktopInfo>),
    /// To `Start` and `StartChosen`.
    Started {
        /// Its name.
        name: String,
        /// It did not run before.
        is_new: bool,
    },
    /// To the same: not yet, and who asks again in time keeps their place.
    Waiting(Waiting),
    /// To `Open` and `Visit`; the connection comes along as a descriptor.
    Opened,
    /// To `Preferences` and `Prefer`.
    Preferences(Preferences),
    /// To `Rename`.
    Renamed,
    /// To `End` and `Leave`.
    Ended,
    /// To `Thumbnail`.
    Thumbnail {
        /// The screen's width and height.
        screen: (u32, u32),
        /// A JPEG file, base64url.
        jpeg: String,
    },
    /// To `Figures`.
    Figures(Vec<DesktopFigures>),
    /// To `Share`.
    Shared {
        /// 16 hexadecimal digits that name the session.
        id: String,
    },
    /// To `Admit`.
    Admitted {
        /// Base64url.
        credential: String,
    },
    /// To `Admit`, `Visit` and `Leave`: there is no such invitation or guest.
    NotInvited,
    /// What went wrong, for the person.
    Error(String),
}

/// An answer, with the descriptor that comes along.
pub type Answered = (AgentAnswer, Option<OwnedFd>);

/// True for names that a session can have.
pub fn is_session_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// Becomes the user, and answers requests until the front and the helper have closed the socket on
/// standard input. Each request is answered by `answer` in a thread of its own. What the login
/// process allows comes over the socket in the first packet.
pub fn serve(
    uid: u32,
    gid: u32,
    answer: impl Fn(AgentRequest, &Starts) -> Answered + Clone + Send + 'static,
) -> Result<(), BrokerError> {
    let user = std::env::var("USER").ok();
    log::start(Process { part: "agent", user, ..Process::default() });
    let socket = crate::take_socket()?;
    crate::login::become_user(uid, gid)?;
    // A session must not end with the terminal or the service that the broker was started from.
    rustix::process::setsid()
        .map_err(|error| BrokerError::System("start a process session", error.into()))?;
    let home = std::env::var_os("HOME").unwrap_or_default();
    if let Err(error) = std::env::set_current_dir(&home) {
        warn!("{}: {error}", home.to_string_lossy());
        std::env::set_current_dir("/").map_err(|error| BrokerError::System("go to /", error))?;
    }
    let failed = |error| BrokerError::System("receive what is allowed", error);
    let first = packets::receive(&socket, 1).map_err(failed)?;
    let starts = first.descriptors.into_iter().next();
    let starts = starts.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    let starts = Arc::new(Starts::new(starts));
    loop {
        let packet = packets::receive(&socket, REQUEST_BYTES_MAX)
            .map_err(|error| BrokerError::System("receive a request", error))?;
        if packet.bytes.is_empty() {
            return Ok(());
        }
        let request = serde_json::from_slice(&packet.bytes);
        let (Ok(request), Some(to)) = (request, packet.descriptors.into_iter().next()) else {
            warn!("an invalid request of the front");
            continue;
        };
        let (answer, starts) = (answer.clone(), starts.clone());
        std::thread::spawn(move || {
            let (answer, connection) = answer(request, &starts);
            if let Err(error) = send_answer(&to, &answer, connection.as_ref()) {
                warn!("an answer to the front failed: {error}");
            }
        });
    }
}

fn send_answer(to: &OwnedFd, answer: &AgentAnswer, connection: Option<&OwnedFd>) -> io::Result<()> {
    let text = serde_json::to_vec(answer)?;
    let descriptors: Vec<BorrowedFd<'_>> =
        connection.into_iter().map(|connection| connection.as_fd()).collect();
    packets::send(to, &text, &descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_names_are_no_paths() {
        assert!(["xfce", "a.b-c_9", &"x".repeat(64)].iter().all(|name| is_session_name(name)));
        let bad = ["", ".", "..", ".hidden", "a/b", "a b", "ü", &"x".repeat(65)];
        assert!(!bad.iter().any(|name| is_session_name(name)));
    }
}
