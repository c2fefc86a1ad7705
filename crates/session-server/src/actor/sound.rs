//! Path 9/13, and path back, beside the pixels: under actor.rs, between sound.rs's connection to
//! the sound server, session-core and the encoders. Knows when to call them; session-core decides
//! who hears, and who is heard.

use std::path::Path;
use std::time::{Duration, Instant};

use thinc_protocol::Micros;
use thinc_protocol::microphone::MicrophonePacket;
use thinc_session_core::{Session, ViewerId, Violation};

use super::Actor;
use crate::connection::Events;
use crate::microphone::Microphone;
use crate::sound::{self, SoundControl, SoundFrame};
use crate::sound_encoders::SoundEncoders;

/// The session's sound, and the microphone of its viewers.
pub(super) struct SoundState {
    encoders: SoundEncoders,
    /// None with `--sound off`.
    control: Option<SoundControl>,
    /// None with `--microphone off`, or without a sound server.
    microphone: Option<Microphone>,
    /// What the sound server was told last.
    is_heard: bool,
    latency: Micros,
}

impl SoundState {
    /// Connects to the sound server, if there is one.
    pub(super) fn start(
        socket: Option<&Path>,
        takes_microphones: bool,
        core: &mut Session,
        zero: Instant,
        events: &Events,
    ) -> SoundState {
        let microphone = socket.filter(|_| takes_microphones).map(|_| Microphone::new());
        core.set_sound(socket.is_some());
        core.set_microphone(microphone.is_some());
        let control =
            socket.map(|socket| sound::connect(socket, zero, microphone.clone(), events.clone()));
        SoundState {
            encoders: SoundEncoders::default(),
            control,
            microphone,
            is_heard: false,
            latency: 0,
        }
    }
}

impl Actor {
    pub(super) fn handle_sound(&mut self, frame: &SoundFrame) {
        let now = self.now();
        self.sound.encoders.handle_frame(frame, &mut self.core, now);
    }

    /// A program records the microphone, or none does any more.
    pub(super) fn handle_recorded(&mut self, is_recorded: bool) {
        let now = self.now();
        self.core.handle_recorded(is_recorded, now);
        if !is_recorded {
            self.sound.microphone.iter().for_each(Microphone::forget);
        }
    }

    /// A packet of a viewer's microphone.
    pub(super) fn handle_microphone(
        &mut self,
        viewer: ViewerId,
        packet: &MicrophonePacket,
    ) -> Result<(), Violation> {
        let now = self.now();
        if self.core.handle_microphone(viewer, packet, now)?
            && let Some(from) = self.core.heard_microphone()
            && let Some(microphone) = &self.sound.microphone
        {
            microphone.handle_packet(from, packet, now);
        }
        Ok(())
    }

    /// Without a listener the sound server sends nothing; programs are told how late they are
    /// heard.
    pub(super) fn update_listening(&mut self) {
        let Some(control) = &self.sound.control else { return };
        let is_heard = self.core.is_heard();
        // After every message: the control has a lock.
        if std::mem::replace(&mut self.sound.is_heard, is_heard) != is_heard {
            control.set_listening(is_heard);
        }
        let latency = self.core.sound_latency();
        if std::mem::replace(&mut self.sound.latency, latency) != latency {
            control.set_latency(Duration::from_micros(latency));
        }
    }
}
