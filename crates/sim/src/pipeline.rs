//! Between world.rs and one viewer: what happens to a job on its way to the viewer's pixels, and back.
//! From world.rs, to ids.rs or full.rs.
//! Knows the steps; never their insides.

use thinc_pixels::Verdict;
use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, CommandWriter};
use thinc_protocol::session::CacheGrant;
use thinc_protocol::video::Readiness;
use thinc_protocol::viewer::{CacheOffer, InputEvent, View, ViewerHello};
use thinc_region::{Rect, Region, Size};
use thinc_session_core::{Arrival, CopyCommand, Entropy, Fate as JobFate, Job, JobId, Packer, VideoFrame};

use crate::breakage::Breakage;

/// What a viewer noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An update came.
    Update {
        /// It ended a frame.
        end_of_frame: bool,
    },
    /// This input was answered.
    Echo(u32),
    /// This barrier was answered.
    Barrier(u32),
    /// Another geometry: what it showed before is gone.
    Geometry,
}

/// What became of an update that came by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The viewer shows it.
    Applied,
    /// Something newer had been applied over it.
    Discarded,
}

/// Both ends of one connection: shadow, plan and encoders on this side, a viewer on the other.
pub trait Pipeline {
    /// A connection on which nothing has been said, with a rule that does not hold there.
    fn new(breakage: Option<Breakage>) -> Self;
    /// The viewer's first message.
    fn hello(&self) -> ViewerHello;
    /// The shadow knows nothing any more.
    fn reset_shadow(&mut self, size: Size);
    /// A COPY goes before the job's pixels.
    fn copy_shadow(&mut self, copy: &CopyCommand);
    /// Plans and encodes the job's pixels, which stand in `screen` where they stand on the screen; says how many of them
    /// were what the job said.
    fn encode(&mut self, job: &Job, screen: &[u32], out: &mut Vec<u8>) -> Verdict;
    /// Encodes the job's pixels whatever the shadow says, and tells it nothing: what must never be done.
    fn encode_all(&mut self, job: &Job, screen: &[u32], out: &mut Vec<u8>);
    /// Encodes a job that is a frame, whose `picture` holds what each pixel of its place shows.
    fn encode_frame(&mut self, _job: &Job, _frame: &VideoFrame, _picture: &[u32], _screen: &[u32], _out: &mut Vec<u8>) {
        unreachable!("this viewer takes no videos");
    }
    /// The viewer says something of its newest stream, where it has one.
    fn say(&mut self, _readiness: Readiness) {}
    /// What packs the viewer's updates, where session-core wants them packed so now.
    fn packer(&mut self, entropy: Entropy) -> &mut dyn Packer;
    /// The same viewer, on a new connection: what was under way on the old one is lost.
    fn reconnected(self, breakage: Option<Breakage>) -> Self;
    /// The viewer offers to keep pixels; what it is answered, if anything.
    fn grant_cache(&mut self, _offer: &CacheOffer) -> Option<CacheGrant> {
        None
    }
    /// What became of a job, known when the viewer had said that it applied the update `acked`.
    fn settle_job(&mut self, _job: JobId, _fate: JobFate, _acked: u64) {}
    /// What the viewer keeps is not to be relied on.
    fn distrust_cache(&mut self) {}
    /// How many pixels of the job that was encoded last the viewer showed already.
    fn take_shown(&mut self) -> u64 {
        0
    }
    /// Times that pixels were shown again from what the viewer keeps.
    fn recalled(&self) -> u64 {
        0
    }
    /// The viewer reads bytes.
    ///
    /// # Errors
    /// What it found wrong.
    fn handle_bytes(&mut self, bytes: &[u8], now: Micros) -> Result<(), String>;
    /// How this viewer can take updates where the transport loses some.
    fn arrival(&self) -> Arrival {
        Arrival::Ordered
    }
    /// One has come alone.
    ///
    /// # Errors
    /// What it found wrong.
    fn handle_datagram(&mut self, _bytes: &[u8], _now: Micros) -> Result<(), String> {
        unreachable!("this viewer takes updates in their order only");
    }
    /// The next that its session sends alone.
    fn poll_alone(&mut self) -> Option<Vec<u8>> {
        None
    }
    /// What it says that may be lost.
    fn poll_datagram(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }
    /// So late it is.
    fn handle_time(&mut self, _now: Micros) {}
    /// What became of those that have come.
    ///
    /// # Errors
    /// What it found wrong.
    fn settle(&mut self, _now: Micros, _late_are_applied: bool) -> Result<Vec<(u64, Fate)>, String> {
        Ok(Vec::new())
    }
    /// The viewer does not show what the shadow says of `region`.
    fn forget(&mut self, region: &Region);
    /// The viewer's hand.
    fn handle_input(&mut self, event: InputEvent, now: Micros);
    /// The viewer asks for a barrier; None where it may not now.
    fn request_barrier(&mut self) -> Option<u32>;
    /// The viewer wishes to see this from now on.
    fn request_view(&mut self, view: View);
    /// The viewer asks for everything.
    fn request_refresh(&mut self);
    /// The viewer's pixels in `rect` go bad; after which update. None where this viewer cannot.
    fn lose(&mut self, rect: &Rect) -> Option<u64>;
    /// What the viewer says, acknowledgements included.
    fn poll_transmit(&mut self, out: &mut Vec<u8>);
    /// What it noticed.
    fn poll_heard(&mut self) -> Vec<Heard>;
    /// Whether some of what it shows waits for the end of a frame.
    fn is_in_frame(&self) -> bool {
        false
    }
    /// How many pixels it shows only nearly.
    fn inexact_len(&self) -> u64 {
        0
    }
    /// Whether it says so of this one.
    fn is_inexact(&self, _place: (usize, usize)) -> bool {
        false
    }
    /// What it shows; the high byte of a pixel counts for nothing.
    fn shown(&self) -> (Size, &[u32]);
}

/// Commands as two stretches, of which the second leans on nothing in the first; None where they are too few.
pub(crate) fn halves(commands: &[u8], screen: Size) -> Option<(Vec<u8>, Vec<u8>)> {
    let commands: Vec<_> = CommandReader::new(commands, screen).collect::<Result<_, _>>().ok()?;
    let (first, rest) = commands.split_at(commands.len() / 2);
    let written = |commands: &[Command<'_>]| {
        let mut out = Vec::new();
        let mut writer = CommandWriter::new(&mut out);
        commands.iter().for_each(|command| writer.put(command));
        out
    };
    (!first.is_empty()).then(|| (written(first), written(rest)))
}
