//! Path 11/13: from transport, to decode.rs; and the path back, from the window to outbox.rs.
//! The one type a shell holds: bytes, input and presents go in, bytes, events and pixels come out.
//! Knows what comes in and in which order; what a frame means is decode.rs.

use thinc_codec_dec::DecodeError;
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::viewer::{Input, InputEvent, Presented, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_protocol::wire::WireError;
use thinc_protocol::{Micros, VERSION, frame::Deframer};
use thinc_region::{Region, Size};

use crate::cache::{Cache, CacheError};
use crate::decode::{BARRIERS_LEN_MAX, State};
use crate::event::ViewerEvent;
use crate::framebuffer::Framebuffer;
use crate::inexact::Inexact;
use crate::stats::ViewerStats;

/// 1 s: a ping is sent with whatever happens, at most this often; nothing is sent where nothing happens.
const PING_INTERVAL_US: Micros = 1_000_000;

/// What a viewer says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerConfig {
    /// Program and version, for the session's log; cut at 64 bytes.
    pub name: String,
    /// The window in pixels; 0 × 0 keeps the session's size.
    pub size: Size,
    /// Bits of `thinc_protocol::viewer::ViewerCaps` that the shell decides; what this crate can do is always said.
    pub caps: u32,
}

/// Why a viewer gives up a connection: the session broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewerError {
    /// A message's bytes.
    #[error("the session's message is wrong: {0}")]
    Wire(#[from] WireError),
    /// A command's pixels.
    #[error("the session's pixels are wrong: {0}")]
    Decode(#[from] DecodeError),
    /// A slot.
    #[error("the session's use of the cache is wrong: {0}")]
    Cache(#[from] CacheError),
    /// A message that may not come here.
    #[error("the session's messages are out of order: {0}")]
    Order(&'static str),
    /// A version this viewer does not speak.
    #[error("the session speaks protocol version {theirs}, this viewer speaks {ours}")]
    Version {
        /// The session's.
        theirs: u16,
        /// This viewer's.
        ours: u16,
    },
    /// Bytes after the end.
    #[error("the connection has ended")]
    Ended,
}

/// One connection to one session, from the hello on.
///
/// `handle_*` takes what happened, `poll_*` gives what is to be done; after each `handle_*` poll both until they are dry.
/// Updates are applied, and acknowledged, as soon as they come; what is shown and when is the shell's business, which it
/// reports with [`handle_presented`](Viewer::handle_presented).
#[derive(Debug)]
pub struct Viewer {
    deframer: Deframer,
    state: State,
    last_input: u32,
    last_barrier: u32,
    last_ping: u32,
    next_ping_at: Micros,
}

impl Viewer {
    /// A viewer whose hello waits to be sent.
    pub fn new(config: &ViewerConfig) -> Viewer {
        let mut state = State::default();
        state.outbox.push(&ViewerMessage::Hello(ViewerHello {
            version: VERSION,
            caps: config.caps | ViewerCaps::PACKED | ViewerCaps::LOSSY,
            size: config.size,
            frame_bytes_max: SESSION_FRAME_BYTES_MAX as u32,
            name: config.name.clone(),
        }));
        Viewer {
            deframer: Deframer::new(SESSION_FRAME_BYTES_MAX),
            state,
            last_input: 0,
            last_barrier: 0,
            last_ping: 0,
            next_ping_at: 0,
        }
    }

    /// Offers to keep pixels that are to be shown again, in this cache, which may hold some from an earlier connection.
    ///
    /// # Panics
    /// After anything else but [`Viewer::new`]: the offer follows the hello.
    pub fn offer_cache(&mut self, cache: Cache) {
        assert!(self.state.cache.get().is_none() && !self.state.greeted, "a cache is offered once, after the hello");
        let offer = self.state.cache.offer(cache);
        self.state.outbox.push(&ViewerMessage::Cache(offer));
    }

    /// The cache as it is now, to be saved.
    pub fn cache(&self) -> Option<&Cache> {
        self.state.cache.get()
    }

    /// Takes the cache out of a connection that has ended, for the next.
    pub fn take_cache(&mut self) -> Option<Cache> {
        self.state.closed = true;
        self.state.cache.take()
    }

    /// The next bytes from the session, in chunks of any size.
    ///
    /// # Errors
    /// What the session did wrong; a `Close` that says so waits in `poll_transmit`, and nothing more is taken.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        if self.state.closed {
            return Err(ViewerError::Ended);
        }
        self.state.stats.bytes_in += bytes.len() as u64;
        self.deframer.push(bytes);
        let result = self.handle_frames(now);
        if let Err(error) = &result {
            self.state.closed = true;
            self.state.outbox.push(&ViewerMessage::Close(error.to_string()));
        }
        self.ping(now);
        result
    }

    fn handle_frames(&mut self, now: Micros) -> Result<(), ViewerError> {
        while !self.state.closed {
            let Some(frame) = self.deframer.next()? else { break };
            self.state.handle_frame(&frame, now)?;
        }
        Ok(())
    }

    /// Something a person did; gives its number, which the echo brings back.
    pub fn handle_input(&mut self, event: InputEvent, now: Micros) -> u32 {
        self.last_input = self.last_input.wrapping_add(1);
        let seq = self.last_input;
        self.state.stats.inputs += 1;
        // Only keys and buttons are echoed, so only they are remembered.
        if matches!(event, InputEvent::Key { .. } | InputEvent::Button { .. }) {
            self.state.stats.input_made(seq, now);
        }
        self.state.outbox.push_input(Input { seq, event });
        self.state.stats.inputs_dropped = self.state.outbox.dropped();
        self.ping(now);
        seq
    }

    /// The window has this size now.
    pub fn handle_resize(&mut self, size: Size) {
        self.state.outbox.push(&ViewerMessage::Resize(size));
    }

    /// Asks to be told, by a `ViewerEvent::Barrier`, when everything drawn until now has been applied; gives its number.
    ///
    /// # Panics
    /// With 8 of them unanswered: a shell waits for one.
    pub fn request_barrier(&mut self) -> u32 {
        let unanswered = self.state.barriers.len();
        assert!(unanswered < BARRIERS_LEN_MAX, "at most {BARRIERS_LEN_MAX} barriers wait for their answer");
        self.last_barrier = self.last_barrier.wrapping_add(1);
        self.state.barriers.push(self.last_barrier);
        self.state.outbox.push(&ViewerMessage::Barrier(self.last_barrier));
        self.last_barrier
    }

    /// Asks for everything anew.
    pub fn request_refresh(&mut self) {
        self.state.outbox.push(&ViewerMessage::Refresh);
    }

    /// The shell has shown everything applied until now; the moment is the best the shell knows.
    pub fn handle_presented(&mut self, now: Micros) {
        let Some((update, since)) = self.state.unpresented.take() else { return };
        let delay_us = now.saturating_sub(since);
        self.state.stats.presented(now);
        self.state.stats.present_delay_us = Some(delay_us);
        let delay_us = u32::try_from(delay_us).unwrap_or(u32::MAX);
        self.state.outbox.presented(self.state.last_seq, Presented { update, delay_us });
    }

    /// Says goodbye; `poll_transmit` gives the last bytes.
    pub fn handle_close(&mut self, reason: &str) {
        if !self.state.closed {
            self.state.closed = true;
            self.state.outbox.push(&ViewerMessage::Close(reason.to_owned()));
        }
    }

    /// Appends what is to be sent; false when there is nothing.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let any = self.state.outbox.poll(out);
        self.state.stats.bytes_out += (out.len() - before) as u64;
        any
    }

    /// The next thing the shell must know.
    pub fn poll_event(&mut self) -> Option<ViewerEvent> {
        self.state.events.poll()
    }

    /// What is to be shown.
    pub fn framebuffer(&self) -> &Framebuffer {
        &self.state.framebuffer
    }

    /// Which pixels of it are only nearly what the session's screen shows; empty as soon as all is exact.
    pub const fn inexact(&self) -> &Inexact {
        self.state.framebuffer.inexact()
    }

    /// What is to be shown anew since this was last called.
    pub fn take_damage(&mut self) -> Region {
        self.state.framebuffer.take_damage()
    }

    /// Something is to be shown anew.
    pub fn has_damage(&self) -> bool {
        !self.state.framebuffer.damage().is_empty()
    }

    /// Counts and measurements.
    pub fn stats(&self) -> &ViewerStats {
        &self.state.stats
    }

    /// The connection has ended, by either side.
    pub fn is_closed(&self) -> bool {
        self.state.closed
    }

    fn ping(&mut self, now: Micros) {
        if self.state.closed || !self.state.greeted || now < self.next_ping_at || self.state.ping.is_some() {
            return;
        }
        self.next_ping_at = now + PING_INTERVAL_US;
        self.last_ping = self.last_ping.wrapping_add(1);
        self.state.ping = Some((self.last_ping, now));
        self.state.outbox.push(&ViewerMessage::Ping(self.last_ping));
    }
}
