//! Path 11/13, beside the pixels: from decode.rs, to the shell's player (thinc-sound), which runs
//! where the audio device pulls; and back, what the viewer wants and reports.
//! Checks that sound was announced and wanted. Knows messages; never samples, nor when they are
//! played.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::sound::{SoundFormat, SoundPacket, SoundState, SoundWant};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};

use crate::outbox::Outbox;
use crate::viewer::{Viewer, ViewerError};

/// 64 messages that the shell has not polled; past the limit the oldest are lost.
const QUEUE_LEN_MAX: usize = 64;

/// A message for the player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SoundEvent {
    /// How packets of a generation are coded.
    Format(SoundFormat),
    /// A packet.
    Packet {
        /// The whole message, which [`SessionMessage::decode`] reads as `Sound`.
        message: Vec<u8>,
        /// When it arrived.
        arrived: Micros,
    },
}

/// The sound of one connection.
#[derive(Debug, Default)]
pub(crate) struct SoundChannel {
    /// The hello announces it.
    announced: bool,
    /// The session has sound.
    is_on: bool,
    want: Option<SoundWant>,
    queue: VecDeque<SoundEvent>,
}

impl SoundChannel {
    pub(crate) fn new(caps: u32) -> SoundChannel {
        SoundChannel { announced: caps & ViewerCaps::SOUND != 0, ..SoundChannel::default() }
    }

    /// The session's hello has these capabilities.
    pub(crate) fn handle_hello(&mut self, caps: u32, outbox: &mut Outbox) {
        self.is_on = self.announced && caps & SessionCaps::SOUND != 0;
        self.tell(outbox);
    }

    fn tell(&self, outbox: &mut Outbox) {
        if let Some(want) = self.want.filter(|_| self.is_on) {
            outbox.push(&ViewerMessage::SoundWant(want));
        }
    }

    /// Messages of sound may come.
    pub(crate) fn check(&self) -> Result<(), ViewerError> {
        if self.is_on && self.want.is_some() {
            return Ok(());
        }
        Err(ViewerError::Order("sound that this viewer has not asked for"))
    }

    pub(crate) fn handle_format(&mut self, format: SoundFormat) -> Result<(), ViewerError> {
        self.check()?;
        self.push(SoundEvent::Format(format));
        Ok(())
    }

    pub(crate) fn handle_packet(
        &mut self,
        packet: SoundPacket<'_>,
        arrived: Micros,
    ) -> Result<(), ViewerError> {
        self.check()?;
        let mut message = Vec::new();
        SessionMessage::Sound(packet).encode(&mut message);
        self.push(SoundEvent::Packet { message, arrived });
        Ok(())
    }

    fn push(&mut self, event: SoundEvent) {
        if self.queue.len() == QUEUE_LEN_MAX {
            // A format is needed by all packets that follow it.
            let packet = |event: &SoundEvent| matches!(event, SoundEvent::Packet { .. });
            let at = self.queue.iter().position(packet).unwrap_or(0);
            self.queue.remove(at);
        }
        self.queue.push_back(event);
    }
}

impl Viewer {
    /// What sound the viewer wants from now on. It is sent once the session has said that it has
    /// sound; without a call it sends none.
    pub fn want_sound(&mut self, want: SoundWant) {
        let state = &mut self.state;
        if state.sound.want != Some(want) && !state.closed {
            state.sound.want = Some(want);
            state.sound.tell(&mut state.outbox);
        }
    }

    /// True if the session has sound, and this viewer has announced that it plays it.
    pub fn has_sound(&self) -> bool {
        self.state.sound.is_on
    }

    /// The next message for the player; to be polled after each `handle_bytes` and
    /// `handle_datagram`.
    pub fn poll_sound(&mut self) -> Option<SoundEvent> {
        self.state.sound.queue.pop_front()
    }

    /// Tells the session what is played at `now`, every second while there is sound; the lag is
    /// measured here. Returns how much later than jitter asks for the player is to make sound, in
    /// microseconds.
    pub fn report_sound(&mut self, state: SoundState, now: Micros) -> Micros {
        if self.state.sound.is_on && !self.state.closed {
            let lag_us = self.state.lip_sync.handle_heard(state.heard, now);
            self.state.outbox.push(&ViewerMessage::SoundState(SoundState { lag_us, ..state }));
        }
        self.state.lip_sync.extra()
    }
}
