//! Path back, beside the pixels: under viewer.rs, between session/microphone.rs and one viewer's
//! messages about its microphone.
//! Knows what the viewer was told, and how many packets it may send; never samples, nor which
//! viewer is heard.

use thinc_protocol::Micros;
use thinc_protocol::limits::MICROPHONE_PACKETS_PER_SECOND_MAX;
use thinc_protocol::microphone::{MicrophoneState, MicrophoneWant};
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::sound::SoundFormat;
use thinc_protocol::viewer::ViewerCaps;

use super::{Viewer, Violation};
use crate::delivery::effects::DeliveryOrder;

/// Samples of a frame: 10 ms as a datagram, 20 ms on a stream, where each has more overhead.
const FRAME: u16 = 480;
const FRAME_ON_STREAM: u16 = 960;
/// One: a microphone is close to one mouth, and calls are mono.
const CHANNELS: u8 = 1;
/// One packet of those that a viewer may send in a second.
const PACKET_INTERVAL: Micros = 1_000_000 / MICROPHONE_PACKETS_PER_SECOND_MAX as Micros;
/// 5 s of them at once: what a path gives back that was blocked. A viewer drops what waits longer
/// than 60 ms, but the system below it does not.
const PACKET_BURST: Micros = 5_000_000;
/// 30 s: packets that arrive later after "not wanted" were sent after it; a blocked connection is
/// given up sooner.
const UNWANTED_TIME: Micros = 30_000_000;

/// What the viewer has answered to the newest want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing: its person is being asked.
    None,
    Given,
}

/// The microphone of a viewer that may give one, in a session that wants it.
#[derive(Debug)]
pub(crate) struct MicrophoneLane {
    want: MicrophoneWant,
    /// It was not sent yet.
    is_new: bool,
    answer: Answer,
    /// The person does not give it, or there is none.
    is_refused: bool,
    /// When the viewer was told that it is not wanted; None: it was never wanted, or it is.
    unwanted_at: Option<Micros>,
    /// When all packets so far would be over at one each [`PACKET_INTERVAL`].
    packets_until: Micros,
}

impl MicrophoneLane {
    /// Of a viewer with these capabilities.
    pub(crate) fn new(caps: u32, session_wants: bool) -> Option<MicrophoneLane> {
        let want =
            MicrophoneWant { generation: 0, wanted: false, channels: CHANNELS, frame: FRAME };
        (session_wants && caps & ViewerCaps::MICROPHONE != 0).then_some(MicrophoneLane {
            want,
            is_new: false,
            answer: Answer::None,
            is_refused: false,
            unwanted_at: None,
            packets_until: 0,
        })
    }

    /// It may be asked.
    pub(crate) fn is_candidate(&self) -> bool {
        !self.is_refused
    }

    /// It was told that its microphone is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.want.wanted
    }

    /// The format of what it sends, once its microphone is open.
    pub(crate) fn given(&self) -> Option<SoundFormat> {
        (self.want.wanted && self.answer == Answer::Given).then(|| self.want.format())
    }

    fn has_been_wanted(&self) -> bool {
        self.want.wanted || self.unwanted_at.is_some()
    }

    fn handle_state(&mut self, state: MicrophoneState) -> Result<(), Violation> {
        if !self.has_been_wanted() {
            return Err(Violation::Microphone);
        }
        if state.generation != self.want.generation {
            return Ok(());
        }
        self.is_refused = !state.given && self.want.wanted;
        self.answer = if state.given { Answer::Given } else { Answer::None };
        Ok(())
    }

    /// A packet; true if it answers what is wanted.
    fn handle_packet(&mut self, generation: u8, now: Micros) -> Result<bool, Violation> {
        let is_over = self.unwanted_at.is_some_and(|at| now > at + UNWANTED_TIME);
        if !self.has_been_wanted() || !self.want.wanted && is_over {
            return Err(Violation::Microphone);
        }
        self.packets_until = self.packets_until.max(now) + PACKET_INTERVAL;
        if self.packets_until - now > PACKET_BURST {
            return Err(Violation::MicrophoneFlood(MICROPHONE_PACKETS_PER_SECOND_MAX));
        }
        Ok(generation == self.want.generation && self.given().is_some())
    }
}

impl Viewer {
    /// The capability in the hello.
    pub(super) fn microphone_caps(&self) -> u32 {
        if self.channels.microphone.is_some() { SessionCaps::MICROPHONE } else { 0 }
    }

    /// Its microphone is wanted from now on, or not.
    pub(crate) fn want_microphone(&mut self, wanted: bool, now: Micros) {
        let is_mixed = self.delivery.ledger.delivery_order() == DeliveryOrder::Mixed;
        let Some(lane) =
            self.channels.microphone.as_mut().filter(|lane| lane.want.wanted != wanted)
        else {
            return;
        };
        lane.want = MicrophoneWant {
            generation: lane.want.generation.wrapping_add(1),
            wanted,
            channels: CHANNELS,
            frame: if is_mixed { FRAME } else { FRAME_ON_STREAM },
        };
        lane.is_new = true;
        lane.answer = Answer::None;
        lane.unwanted_at = (!wanted).then_some(now);
    }

    pub(crate) fn microphone_state(&mut self, state: MicrophoneState) -> Result<(), Violation> {
        self.channels.microphone.as_mut().ok_or(Violation::Microphone)?.handle_state(state)
    }

    /// A packet of its microphone; true if it is of the newest want.
    pub(crate) fn microphone_packet(
        &mut self,
        generation: u8,
        now: Micros,
    ) -> Result<bool, Violation> {
        self.channels
            .microphone
            .as_mut()
            .ok_or(Violation::Microphone)?
            .handle_packet(generation, now)
    }

    /// Tells the viewer what is wanted, if that is new.
    pub(super) fn transmit_microphone(&mut self, out: &mut Vec<u8>) {
        if let Some(lane) = self.channels.microphone.as_mut().filter(|lane| lane.is_new) {
            lane.is_new = false;
            SessionMessage::MicrophoneWant(lane.want).encode(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> MicrophoneLane {
        MicrophoneLane::new(ViewerCaps::MICROPHONE, true).unwrap()
    }

    #[test]
    fn a_viewer_has_a_lane_only_if_both_sides_have_said_so() {
        assert!(MicrophoneLane::new(ViewerCaps::MICROPHONE, false).is_none());
        assert!(MicrophoneLane::new(ViewerCaps::SOUND, true).is_none());
    }

    #[test]
    fn packets_are_taken_while_they_are_wanted_and_refused_before() {
        let mut lane = lane();
        assert_eq!(lane.handle_packet(0, 0), Err(Violation::Microphone));
        let state = |generation, given| MicrophoneState { generation, given };
        assert_eq!(lane.handle_state(state(0, true)), Err(Violation::Microphone));
        lane.want = MicrophoneWant { generation: 1, wanted: true, ..lane.want };
        assert_eq!(lane.handle_packet(1, 0), Ok(false), "before its answer");
        lane.handle_state(state(0, true)).unwrap();
        assert_eq!(lane.given(), None, "an answer to nothing");
        lane.handle_state(state(1, true)).unwrap();
        assert_eq!(lane.handle_packet(1, 0), Ok(true));
        assert_eq!(lane.handle_packet(0, 0), Ok(false));
        lane.handle_state(state(1, false)).unwrap();
        assert!(!lane.is_candidate() && lane.given().is_none());
        lane.want = MicrophoneWant { generation: 2, wanted: false, ..lane.want };
        lane.unwanted_at = Some(1_000_000);
        assert_eq!(lane.handle_packet(1, 31_000_000), Ok(false), "it was on its way");
        assert_eq!(lane.handle_packet(1, 31_000_001), Err(Violation::Microphone));
        lane.handle_state(state(2, true)).unwrap();
        assert!(lane.is_candidate(), "the person has changed their mind");
    }

    #[test]
    fn a_viewer_may_send_what_a_path_held_back_and_no_flood() {
        let mut lane = lane();
        lane.want.wanted = true;
        lane.answer = Answer::Given;
        // 100 a second for an hour, with a second that comes at once.
        for n in 0..360_000u64 {
            let now = (n * 10_000).next_multiple_of(if n % 6000 < 100 { 1_000_000 } else { 1 });
            assert_eq!(lane.handle_packet(0, now), Ok(true), "packet {n}");
        }
        let now = 3_700_000_000;
        let taken = (0..2000).take_while(|_| lane.handle_packet(0, now).is_ok()).count();
        assert!((1090..=1110).contains(&taken), "{taken} at once");
        assert!(lane.handle_packet(0, now).is_err());
    }
}
