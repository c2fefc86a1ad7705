//! Path back, beside the pixels: from the shell, which records and codes what a microphone hears,
//! to outbox.rs's connection. The session says when it is wanted, and the shell whether its person
//! gives it. Knows coded frames and when they may be sent; never samples or devices.
//!
//! It must never delay input: as a datagram it has no queue, and on the stream it goes behind
//! input, and is dropped while the path is blocked.

use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::limits::SOUND_BYTES_MAX;
use thinc_protocol::microphone::{MicrophoneState, MicrophoneWant};
use thinc_protocol::session::SessionCaps;
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_sound::quality::{Carriage, Quality};
use thinc_sound::sender::{CodedFrame, Room, Sender};

use crate::event::ViewerEvent;
use crate::viewer::{Viewer, ViewerError};

/// The rate that shells code with, in bits a second: speech as Opus has no better one.
pub const MICROPHONE_BITRATE: u32 = 32_000;
/// Each datagram repeats the frame before it: at this rate that costs less than asking the session
/// what is lost.
const BACKS: [u8; 1] = [1];
/// 0.2 s beyond the least round trip: a path that has not answered by then is blocked, and what is
/// sent would wait before the next key.
const ANSWER_TIME: Micros = 200_000;

/// The microphone of one connection.
#[derive(Debug, Default)]
pub(crate) struct MicrophoneChannel {
    /// The hello announces it.
    announced: bool,
    /// The session may want it.
    is_on: bool,
    /// The newest; None before the first.
    want: Option<MicrophoneWant>,
    /// The shell gives it, for the newest want.
    is_given: bool,
    sender: Sender,
    /// The next frame does not continue the last one.
    is_broken: bool,
}

impl MicrophoneChannel {
    pub(crate) fn new(caps: u32) -> MicrophoneChannel {
        let announced = caps & ViewerCaps::MICROPHONE != 0;
        MicrophoneChannel { announced, ..MicrophoneChannel::default() }
    }

    /// The session's hello has these capabilities.
    pub(crate) fn handle_hello(&mut self, caps: u32) {
        self.is_on = self.announced && caps & SessionCaps::MICROPHONE != 0;
    }

    /// What the shell is told.
    pub(crate) fn handle_want(&mut self, want: MicrophoneWant) -> Result<ViewerEvent, ViewerError> {
        if !self.is_on {
            return Err(ViewerError::Order("a wanted microphone, which was not announced"));
        }
        self.want = Some(want);
        self.is_given = false;
        self.sender = Sender::of_microphone(want.generation);
        Ok(ViewerEvent::MicrophoneWanted(Some(want).filter(|want| want.wanted)))
    }

    fn wanted(&self) -> Option<MicrophoneWant> {
        self.want.filter(|want| want.wanted && self.is_given)
    }

    fn push(&mut self, frame: &[u8], time: Micros, carriage: Carriage) {
        let Some(want) = self.wanted() else { return };
        if frame.is_empty() || frame.len() > SOUND_BYTES_MAX / 2 {
            self.is_broken = true;
            return;
        }
        let quality = Quality {
            plain: false,
            frame: want.frame,
            bitrate: MICROPHONE_BITRATE,
            channels: want.channels,
        };
        let frame = CodedFrame {
            quality,
            time,
            bytes: Arc::from(frame),
            last: false,
            discontinuity: std::mem::take(&mut self.is_broken),
        };
        self.sender.push(frame, carriage);
    }

    /// Appends the next packet.
    fn poll(&mut self, backs: &[u8], out: &mut Vec<u8>) -> bool {
        // MIC WANT has said the format.
        let _ = self.sender.poll_format();
        let room = Room { bytes: SOUND_BYTES_MAX, rate: None };
        self.sender.poll(room, backs, 0, out).is_some()
    }

    /// Appends the next packet as a datagram.
    pub(crate) fn poll_datagram(&mut self, out: &mut Vec<u8>) -> bool {
        self.sender.has_waiting() && self.poll(&BACKS, out)
    }

    /// Appends what waits to the stream.
    pub(crate) fn poll_stream(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        while self.sender.has_waiting() && self.poll(&[], out) {}
        out.len() > before
    }
}

impl Viewer {
    /// What a program of the session wants to record, if any does.
    pub fn microphone_wanted(&self) -> Option<MicrophoneWant> {
        self.state.microphone.want.filter(|want| want.wanted && !self.state.closed)
    }

    /// The session may want a microphone, and this viewer has announced one.
    pub fn may_give_microphone(&self) -> bool {
        self.state.microphone.is_on && !self.state.closed
    }

    /// What its shell gives is sent.
    pub fn gives_microphone(&self) -> bool {
        self.state.microphone.is_given
    }

    /// Answers the newest [`ViewerEvent::MicrophoneWanted`]: the microphone is open now, or it is
    /// not given; also when its person changes their mind.
    pub fn give_microphone(&mut self, given: bool) {
        let state = &mut self.state;
        let Some(want) = state.microphone.want.filter(|_| !state.closed) else { return };
        state.microphone.is_given = given && want.wanted;
        state.microphone.sender.clear();
        let answer = MicrophoneState { generation: want.generation, given };
        state.outbox.push(&ViewerMessage::MicrophoneState(answer));
    }

    /// An Opus packet of the wanted length and channels, whose first sample was heard at `time`, on
    /// any clock. Without [`Viewer::give_microphone`] it is dropped, as it is while the stream is
    /// blocked that would carry it.
    pub fn handle_microphone_frame(&mut self, frame: &[u8], time: Micros, now: Micros) {
        if self.state.closed {
            return;
        }
        if self.state.order.is_on {
            self.state.microphone.push(frame, time, Carriage::Datagrams);
            return;
        }
        self.ping(now);
        if self.is_path_blocked(now) {
            self.state.microphone.sender.clear();
        } else {
            self.state.microphone.push(frame, time, Carriage::Stream);
        }
    }

    /// A frame is missing: what follows does not continue the last one.
    pub fn handle_microphone_gap(&mut self) {
        self.state.microphone.is_broken = true;
    }

    /// The path does not answer: what is written to the stream waits there before the next key.
    fn is_path_blocked(&self, now: Micros) -> bool {
        let usual = self.state.stats.rtt_min_us.unwrap_or(0) + ANSWER_TIME;
        self.state.pings.front().is_some_and(|&(_, sent)| now > sent + usual)
    }
}
