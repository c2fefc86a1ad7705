//! Path 10/13, beside the pixels: under viewer.rs, from the shell's encoder, to one viewer's
//! messages.
//! Sound goes before pixels, and takes a share of the path that an input response does not notice.
//! thinc-sound knows the packets; this knows the path they share. Knows coded frames; never
//! samples.

use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::sound::{SoundState, SoundWant};
use thinc_protocol::viewer::ViewerCaps;
use thinc_sound::quality::{Carriage, PathRate, QualityChoice};
use thinc_sound::redundancy::Redundancy;
use thinc_sound::sender::{CodedFrame, Room, Sender};

use super::{Viewer, Violation};
use crate::delivery::effects::DeliveryOrder;
use crate::delivery::packer::Packer;
use crate::quality::RateEstimate;

/// The sound of a viewer that can play it, in a session that has it.
#[derive(Debug, Default)]
pub(crate) struct SoundLane {
    want: SoundWant,
    choice: QualityChoice,
    redundancy: Redundancy,
    sender: Sender,
    /// By how many microseconds sound is heard later than the picture of the same moment is seen,
    /// as the viewer said last.
    lag: Option<i64>,
    /// The viewer has said what it wants.
    has_asked: bool,
    /// Programs that play, of which it is to be told.
    players: Option<Arc<[String]>>,
}

impl SoundLane {
    /// Of a viewer with these capabilities.
    pub(crate) fn new(caps: u32, session_has_sound: bool) -> Option<SoundLane> {
        (session_has_sound && caps & ViewerCaps::SOUND != 0).then(SoundLane::default)
    }

    /// Something waits to be sent.
    pub(crate) fn has_waiting(&self) -> bool {
        self.sender.has_waiting()
    }
}

impl Viewer {
    /// The capability in the hello.
    pub(super) fn sound_caps(&self) -> u32 {
        if self.channels.sound.is_some() { SessionCaps::SOUND } else { 0 }
    }

    /// `players`: the programs that play.
    pub(crate) fn want_sound(
        &mut self,
        want: &SoundWant,
        players: &Arc<[String]>,
    ) -> Result<(), Violation> {
        let lane = self.channels.sound.as_mut().ok_or(Violation::Sound)?;
        lane.want = *want;
        if !std::mem::replace(&mut lane.has_asked, true) {
            lane.players = Some(players.clone());
        }
        if want.muted || want.codecs == 0 {
            lane.sender.clear();
        }
        Ok(())
    }

    pub(crate) fn sound_state(&mut self, state: &SoundState, now: Micros) -> Result<(), Violation> {
        let lane = self.channels.sound.as_mut().ok_or(Violation::Sound)?;
        lane.redundancy.handle_state(state, now);
        if state.heard > 0 {
            // While no video is shown: pixels are seen when they arrive.
            let lag = state.lag_us.map_or(i64::from(state.delay_us), i64::from);
            lane.lag = Some(lag);
        }
        Ok(())
    }

    /// Other programs play now.
    pub(crate) fn tell_players(&mut self, players: &Arc<[String]>) {
        if let Some(lane) = self.channels.sound.as_mut().filter(|lane| lane.has_asked) {
            lane.players = Some(players.clone());
        }
    }

    /// By how much sound is heard later than pictures are seen.
    pub(crate) fn sound_lag(&self) -> Option<i64> {
        self.channels.sound.as_ref()?.lag
    }

    /// Whether it plays sound now.
    pub(crate) fn wants_sound(&self) -> bool {
        self.channels.sound.as_ref().is_some_and(|lane| lane.want.codecs != 0 && !lane.want.muted)
    }

    fn sound_carriage(&self) -> Carriage {
        match self.delivery.ledger.delivery_order() {
            DeliveryOrder::Mixed => Carriage::Datagrams,
            _ => Carriage::Stream,
        }
    }

    /// How sound is coded for this viewer now; None: it is sent none.
    pub(crate) fn sound_quality(&mut self, now: Micros) -> Option<thinc_sound::Quality> {
        let carriage = self.sound_carriage();
        let rate = match self.delivery.flow.measured_rate() {
            RateEstimate::Unknown => PathRate::Unknown,
            RateEstimate::AtLeast(rate) => PathRate::AtLeast(rate),
            RateEstimate::Measured(rate) => PathRate::Measured(rate),
        };
        let lane = self.channels.sound.as_mut()?;
        lane.choice.choose(&lane.want, rate, carriage, now)
    }

    /// A coded frame of that quality.
    pub(crate) fn push_sound(&mut self, frame: CodedFrame, now: Micros) {
        let carriage = self.sound_carriage();
        let is_lossy = self.delivery.is_path_lossy();
        let Some(lane) = &mut self.channels.sound else { return };
        if is_lossy {
            lane.redundancy.expect_loss(now);
        }
        lane.sender.push(frame, carriage);
    }

    fn sound_rate(&self) -> Option<u64> {
        match self.delivery.flow.measured_rate() {
            RateEstimate::Measured(rate) => Some(rate),
            RateEstimate::Unknown | RateEstimate::AtLeast(_) => None,
        }
    }

    /// Sends what may go: as datagrams, or appended to the stream's next chunk.
    pub(super) fn transmit_sound(
        &mut self,
        packer: &mut dyn Packer,
        now: Micros,
        out: &mut Vec<u8>,
    ) {
        let Some(lane) = &mut self.channels.sound else { return };
        let before = out.len();
        if let Some(players) = lane.players.take() {
            SessionMessage::SoundPlayers(players.to_vec()).encode(out);
        }
        if let Some(format) = lane.sender.poll_format() {
            SessionMessage::SoundFormat(format).encode(out);
        }
        self.delivery.flow.control_sent((out.len() - before) as u64, now);
        match self.sound_carriage() {
            Carriage::Datagrams => {
                let _ = self.transmit_sound_datagrams(packer, now);
            }
            Carriage::Stream => {
                let room = Room { bytes: usize::MAX, rate: self.sound_rate() };
                while self.poll_sound(room, &[], now, out).is_some() {}
            }
        }
    }

    /// Sends datagrams of the format that the viewer was told of last; true if there were any.
    pub(crate) fn transmit_sound_datagrams(
        &mut self,
        packer: &mut dyn Packer,
        now: Micros,
    ) -> bool {
        if self.control.is_closed() || self.sound_carriage() != Carriage::Datagrams {
            return false;
        }
        let (mut any, mut datagram) = (false, Vec::new());
        while let Some(lane) = self.channels.sound.as_ref().filter(|lane| lane.sender.has_waiting())
        {
            let backs = lane.redundancy.backs();
            let room = Room { bytes: packer.datagram_bytes(), rate: self.sound_rate() };
            datagram.clear();
            let Some(bytes) = self.poll_sound(room, backs, now, &mut datagram) else { break };
            packer.put_datagram(&datagram);
            self.counts.stats.bytes += bytes as u64;
            any = true;
        }
        any
    }

    fn poll_sound(
        &mut self,
        room: Room,
        backs: &[u8],
        now: Micros,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        if !self.delivery.flow.may_send_real_time(now) {
            return None;
        }
        let lane = self.channels.sound.as_mut()?;
        let bytes = lane.sender.poll(room, backs, now, out)?;
        self.counts.stats.sounds += 1;
        self.delivery.flow.control_sent(bytes as u64, now);
        self.delivery.flow.sent_in_real_time(bytes as u64, now);
        Some(bytes)
    }

    /// When sound may be sent that waits for its share of the path.
    pub(super) fn sound_deadline(&self) -> Option<Micros> {
        self.channels.sound.as_ref()?.sender.deadline(self.sound_rate())
    }
}
