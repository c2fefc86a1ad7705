//! Between world.rs and one viewer: the steps of a job until the viewer shows its pixels, and the
//! messages back. From world.rs, to ids.rs or full.rs. Knows the steps; never their implementation.

use thinc_pixels::HintStats;
use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_protocol::session::CacheGrant;
use thinc_protocol::video::DecoderState;
use thinc_protocol::viewer::{CacheOffer, InputEvent, View, ViewerHello};
use thinc_region::{Rect, Region, Size};
use thinc_session_core::{
    CopyCommand, DeliveryOrder, Entropy, Job, JobId, JobOutcome, Packer, VideoFrame,
};

use crate::breakage::Breakage;

/// An event at a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An update was applied.
    Update {
        /// It ended a displayed frame.
        end_of_frame: bool,
    },
    /// This input was answered.
    Echo(u32),
    /// This barrier was answered.
    Barrier(u32),
    /// The geometry changed: what was shown before is gone.
    Geometry,
    /// A frame of a video is shown, which was drawn at this time.
    Frame(Micros),
}

/// The fate of an update that was sent as a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The viewer shows it.
    Applied,
    /// Something newer had been applied over it.
    Discarded,
}

/// Both ends of one connection: shadow, plan and encoders on the session's side, and a viewer.
pub trait Pipeline {
    /// A fresh connection, optionally with a broken rule.
    fn new(breakage: Option<Breakage>) -> Self;
    /// The viewer's first message.
    fn hello(&self) -> ViewerHello;
    /// Resets the shadow to unknown.
    fn reset_shadow(&mut self, size: Size);
    /// Applies a COPY that precedes the job's pixels.
    fn copy_shadow(&mut self, copy: &CopyCommand);
    /// Plans and encodes the job's pixels, which lie in `screen` at their positions on the screen;
    /// returns how many of the job's hints were confirmed.
    fn encode(&mut self, job: &Job, screen: &[u32], out: &mut Commands) -> HintStats;
    /// Encodes the job's pixels regardless of the shadow and without updating it: what must never
    /// be done.
    fn encode_all(&mut self, job: &Job, screen: &[u32], out: &mut Commands);
    /// Encodes a job that is a video frame; `picture` holds every pixel of its place.
    fn encode_frame(
        &mut self,
        _job: &Job,
        _frame: &VideoFrame,
        _picture: &[u32],
        _screen: &[u32],
        _out: &mut Commands,
    ) {
        unreachable!("this viewer has no video");
    }
    /// The viewer reports a decoder state of its newest video stream, if it has one.
    fn set_decoder_state(&mut self, _readiness: DecoderState) {}
    /// The packer of the viewer's updates, with session-core's present choice.
    fn packer(&mut self, entropy: Entropy) -> &mut dyn Packer;
    /// The same viewer on a new connection; everything in flight on the old one is lost.
    fn reconnected(self, breakage: Option<Breakage>) -> Self;
    /// The viewer offers a cache; returns the grant, if any.
    fn grant_cache(&mut self, _offer: &CacheOffer) -> Option<CacheGrant> {
        None
    }
    /// The outcome of a job, known when the viewer had acknowledged the update `acked`.
    fn handle_outcome(&mut self, _job: JobId, _fate: JobOutcome, _acked: u64) {}
    /// The viewer's cache is no longer reliable.
    fn distrust_cache(&mut self) {}
    /// How many pixels of the last encoded job the viewer showed already.
    fn take_retained(&mut self) -> u64 {
        0
    }
    /// How often pixels were recalled from the viewer's cache.
    fn recalled(&self) -> u64 {
        0
    }
    /// The viewer reads bytes.
    ///
    /// # Errors The viewer's error.
    fn handle_bytes(&mut self, bytes: &[u8], now: Micros) -> Result<(), String>;
    /// The order in which this viewer can accept updates if the transport loses some.
    fn delivery_order(&self) -> DeliveryOrder {
        DeliveryOrder::Ordered
    }
    /// A datagram arrived.
    ///
    /// # Errors The viewer's error.
    fn handle_datagram(&mut self, _bytes: &[u8], _now: Micros) -> Result<(), String> {
        unreachable!("this viewer accepts updates only in order");
    }
    /// The next update that the session sends as a datagram.
    fn poll_update_datagram(&mut self) -> Option<Vec<u8>> {
        None
    }
    /// The next datagram of the viewer, which may be lost.
    fn poll_datagram(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }
    /// The viewer's time advances.
    fn handle_time(&mut self, _now: Micros) {}
    /// The fates of updates that have arrived as datagrams.
    ///
    /// # Errors The viewer's error.
    fn poll_fates(
        &mut self,
        _now: Micros,
        _late_are_applied: bool,
    ) -> Result<Vec<(u64, Fate)>, String> {
        Ok(Vec::new())
    }
    /// Marks a region of the shadow as stale: the viewer does not show it.
    fn mark_stale(&mut self, region: &Region);
    /// Input at the viewer.
    fn handle_input(&mut self, event: InputEvent, now: Micros);
    /// The viewer requests a barrier; None if it may not now.
    fn request_barrier(&mut self) -> Option<u32>;
    /// The viewer requests this view.
    fn request_view(&mut self, view: View);
    /// The viewer requests a full refresh.
    fn request_refresh(&mut self);
    /// The viewer loses its pixels in `rect`; returns the newest update applied before. None if
    /// this viewer cannot lose any.
    fn lose_pixels(&mut self, rect: &Rect) -> Option<u64>;
    /// The viewer's messages, acknowledgements included.
    fn poll_transmit(&mut self, out: &mut Vec<u8>);
    /// The viewer's events.
    fn poll_notices(&mut self) -> Vec<Notice>;
    /// True if shown pixels wait for the end of a displayed frame.
    fn is_in_frame(&self) -> bool {
        false
    }
    /// How many of its pixels are lossy.
    fn lossy_pixels(&self) -> u64 {
        0
    }
    /// True if this pixel is lossy.
    fn is_lossy(&self, _place: (usize, usize)) -> bool {
        false
    }
    /// The shown pixels; the high byte of a pixel is ignored.
    fn shown(&self) -> (Size, &[u32]);
}

/// Splits commands into two parts, of which the second does not refer to the first; None if there
/// are too few.
pub(crate) fn halves(commands: &Commands) -> Option<(Commands, Commands)> {
    let count = commands.iter().count();
    let written = |from: usize, to: usize| {
        let mut out = Commands::default();
        let mut writer = out.writer();
        commands.iter().take(to).skip(from).for_each(|(command, _)| writer.put(&command));
        out
    };
    (count > 1).then(|| (written(0, count / 2), written(count / 2, count)))
}
