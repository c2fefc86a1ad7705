//! The figures of a session, for monitoring. Beside the path: from actor.rs, by share.rs and the
//! user's agent, to the process of the broker that serves figures. What they say is the user's own
//! word: every list has a fixed length or a limit. Knows numbers; never people or pixels.

use serde::{Deserialize, Serialize};
pub use thinc_session_core::{BOUNDS_US, COMMAND_KINDS};
use thinc_session_core::{Figures, Histogram};
use tokio::sync::oneshot;

/// Most viewers that are told of: as many as a session has.
pub const VIEWERS_TOLD_MAX: usize = 16;

/// Times, by how long they are: buckets as in [`BOUNDS_US`], then those that are longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How many are in each bucket.
    pub counts: [u64; BOUNDS_US.len() + 1],
    /// Their sum.
    pub sum_us: u64,
}

impl From<Histogram> for Times {
    fn from(Histogram { counts, sum_us }: Histogram) -> Times {
        Times { counts, sum_us }
    }
}

/// What a session has counted since its process was started. Nothing ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// From the delivery of an input until the first update that responds to it is sent.
    pub echo: Times,
    /// From an update that is sent until a viewer has applied it.
    pub round_trip: Times,
    /// Encoding a job.
    pub encode: Times,
    /// Bytes of each of [`COMMAND_KINDS`], before the connections' compression.
    pub command_bytes: [u64; COMMAND_KINDS.len()],
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Updates sent.
    pub updates: u64,
}

impl From<Figures> for Counts {
    fn from(figures: Figures) -> Counts {
        Counts {
            echo: figures.echo.into(),
            round_trip: figures.round_trip.into(),
            encode: figures.encode.into(),
            command_bytes: figures.command_bytes,
            sent_bytes: figures.sent_bytes,
            updates: figures.updates,
        }
    }
}

/// A viewer that is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerFigures {
    /// It is a guest's.
    pub is_guest: bool,
    /// Smoothed round trip, including the viewer's work.
    pub round_trip_us: u64,
}

/// The clock that programs are held to which draw frames without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameClock {
    /// Frames a second.
    pub rate: u32,
    /// Times that a program was held to it since the session process was started.
    pub holds: u64,
}

/// All of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFigures {
    /// The screen's width and height.
    pub screen: (u32, u32),
    /// At most [`VIEWERS_TOLD_MAX`].
    pub viewers: Vec<ViewerFigures>,
    /// What was counted.
    pub counts: Counts,
    /// The clock of frames; 0 a second from a session before this field.
    #[serde(default)]
    pub frames: FrameClock,
}

/// Where the actor answers.
pub(crate) type FiguresAnswer = oneshot::Sender<SessionFigures>;
