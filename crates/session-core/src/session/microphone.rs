//! Path back, beside the pixels: under session.rs, between what programs record and the viewers
//! that may give a microphone. One is heard at a time: that of the viewer that typed last, or else
//! the one that is heard already, or else of the newest. Where somebody has refused, nobody is
//! asked who does not type. Knows which viewer that is; never samples or programs.

use thinc_protocol::Micros;
use thinc_protocol::microphone::MicrophonePacket;
use thinc_protocol::sound::SoundFormat;
use thinc_protocol::viewer::ViewerMessage;

use super::Session;
use crate::viewer::{Viewer, ViewerId, Violation};

/// Who records, and who is heard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Microphone {
    /// The session may want viewers' microphones.
    pub(super) is_on: bool,
    /// A program records.
    is_recorded: bool,
    /// The viewer that is heard.
    heard: Option<ViewerId>,
    /// A person has refused, or turned theirs off: no microphone opens where nobody is, until
    /// somebody types there, or the next recording.
    is_refused: bool,
}

impl Session {
    /// Whether the session may want viewers' microphones; for viewers that connect from now on.
    pub fn set_microphone(&mut self, is_on: bool) {
        self.sound.microphone.is_on = is_on;
    }

    /// A program records the microphone, or none does any more.
    pub fn handle_recorded(&mut self, is_recorded: bool, now: Micros) {
        self.now = self.now.max(now);
        self.sound.microphone.is_recorded = is_recorded;
        self.sound.microphone.is_refused &= is_recorded;
        self.update_microphone();
    }

    /// The viewer whose microphone is heard, and how its packets are coded.
    pub fn heard_microphone(&self) -> Option<(ViewerId, SoundFormat)> {
        let id = self.sound.microphone.heard?;
        Some((id, self.viewer(id)?.channels.microphone.as_ref()?.given()?))
    }

    /// A packet of a viewer's microphone; true if it is to be played. A violation ends that
    /// viewer's connection and nothing else.
    pub fn handle_microphone(
        &mut self,
        id: ViewerId,
        packet: &MicrophonePacket,
        now: Micros,
    ) -> Result<bool, Violation> {
        self.now = self.now.max(now);
        let is_heard = self.sound.microphone.heard == Some(id);
        let generation = packet.packet().generation;
        let viewer = self.viewer_mut(id).ok_or(Violation::Unknown(id.0))?;
        Ok(viewer.microphone_packet(generation, now)? && is_heard)
    }

    pub(super) fn handle_microphone_message(
        &mut self,
        at: usize,
        message: &ViewerMessage,
        now: Micros,
    ) -> Result<(), Violation> {
        match message {
            ViewerMessage::MicrophoneState(state) => {
                let was_asked = is_asked(&self.viewers[at]);
                self.viewers[at].microphone_state(*state)?;
                self.sound.microphone.is_refused = if state.given {
                    false
                } else {
                    self.sound.microphone.is_refused
                        || was_asked && !is_candidate(&self.viewers[at])
                };
            }
            // The shell has passed it to `handle_microphone`.
            ViewerMessage::Microphone(_) => return Ok(()),
            _ => {}
        }
        self.now = self.now.max(now);
        self.update_microphone();
        Ok(())
    }

    /// The candidate that is to be heard.
    fn preferred_microphone(&self) -> Option<ViewerId> {
        if !self.sound.microphone.is_recorded {
            return None;
        }
        let Microphone { heard, is_refused, .. } = self.sound.microphone;
        let candidates = || self.viewers.iter().filter(|viewer| is_candidate(viewer));
        let candidate = |id: Option<ViewerId>| candidates().find(|viewer| Some(viewer.id) == id);
        // A guest may have typed last, who is never heard.
        let preferred = candidate(self.requests.keyboard.typed_last()).or_else(|| candidate(heard));
        let newest = || candidates().next_back().filter(|_| !is_refused);
        preferred.or_else(newest).map(|viewer| viewer.id)
    }

    /// Asks the viewer that is preferred now. The one that is heard goes on until that gives its
    /// microphone, or does not.
    pub(super) fn update_microphone(&mut self) {
        let Microphone { is_recorded, heard, .. } = self.sound.microphone;
        if !is_recorded && heard.is_none() && !self.viewers.iter().any(is_asked) {
            return;
        }
        let preferred = self.preferred_microphone();
        let gives = |viewer: &Viewer| {
            viewer.rights.microphone
                && viewer.channels.microphone.as_ref().is_some_and(|lane| lane.given().is_some())
        };
        let given = |id: Option<ViewerId>| {
            id.filter(|&id| self.viewer(id).is_some_and(gives) && preferred.is_some())
        };
        let heard = given(preferred).or_else(|| given(self.sound.microphone.heard));
        self.sound.microphone.heard = heard;
        let now = self.now;
        for viewer in self.viewers.iter_mut() {
            let id = Some(viewer.id);
            viewer.want_microphone(preferred.is_some() && (id == preferred || id == heard), now);
        }
    }
}

/// It may be heard, and its person has not refused.
fn is_candidate(viewer: &Viewer) -> bool {
    viewer.rights.microphone
        && viewer.channels.microphone.as_ref().is_some_and(|lane| lane.is_candidate())
}

fn is_asked(viewer: &Viewer) -> bool {
    viewer.channels.microphone.as_ref().is_some_and(|lane| lane.is_wanted())
}

#[cfg(test)]
mod tests {
    use thinc_protocol::framing::Deframer;
    use thinc_protocol::microphone::MicrophoneState;
    use thinc_protocol::session::{Packed, SessionMessage};
    use thinc_protocol::sound::{SoundFrame, SoundPacket};
    use thinc_protocol::viewer::{Input, InputEvent, ViewerCaps, ViewerHello};
    use thinc_region::Size;

    use super::*;
    use crate::{Config, Packer, Rights};

    struct NoPacker;

    impl Packer for NoPacker {
        fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Packed> {
            None
        }

        fn datagram_bytes(&self) -> usize {
            0
        }

        fn put_datagram(&mut self, _: &[u8]) {}
    }

    struct World {
        session: Session,
        now: Micros,
    }

    impl World {
        fn new() -> World {
            let size = Size { width: 64, height: 64 };
            let mut session = Session::new(Config::new("microphone", size));
            session.handle_attach(size);
            session.set_microphone(true);
            World { session, now: 0 }
        }

        fn viewer(&mut self, rights: Rights) -> ViewerId {
            let hello = ViewerHello {
                version: 1,
                caps: ViewerCaps::MICROPHONE,
                size: Size::default(),
                message_bytes_max: 1 << 20,
                name: "talker".into(),
            };
            let id = self.session.add_guest(&hello, rights, self.now);
            self.say(id, &ViewerMessage::Ping(1));
            id
        }

        fn say(&mut self, id: ViewerId, message: &ViewerMessage) {
            self.session.handle_message(id, message, self.now).unwrap();
            while self.session.poll_request(self.now).is_some() {}
        }

        /// What the viewer is told of its microphone now: the generation, and whether it is wanted.
        fn told(&mut self, id: ViewerId) -> Vec<(u8, bool)> {
            let (mut out, mut told) = (Vec::new(), Vec::new());
            while self.session.poll_transmit(id, self.now, &mut NoPacker, &mut out) {}
            let mut deframer = Deframer::new(1 << 20);
            deframer.push(&out);
            while let Some(frame) = deframer.next().unwrap() {
                if let SessionMessage::MicrophoneWant(want) =
                    SessionMessage::decode(&frame).unwrap()
                {
                    told.push((want.generation, want.wanted));
                }
            }
            told
        }

        fn answer(&mut self, id: ViewerId, generation: u8, given: bool) {
            let state = MicrophoneState { generation, given };
            self.say(id, &ViewerMessage::MicrophoneState(state));
        }

        fn types(&mut self, id: ViewerId) {
            let event = InputEvent::Key { code: 30, keysym: 0x61, down: true };
            self.say(id, &ViewerMessage::Input(Input { seq: 1, event }));
            self.say(id, &ViewerMessage::Ping(2));
        }

        fn heard(&self) -> Option<ViewerId> {
            self.session.heard_microphone().map(|(id, _)| id)
        }

        fn sends(&mut self, id: ViewerId, generation: u8) -> Result<bool, Violation> {
            let packet = MicrophonePacket::new(&SoundPacket {
                generation,
                number: 0,
                time: 0,
                silence_follows: false,
                discontinuity: false,
                frames: vec![SoundFrame { back: 0, bytes: &[1] }],
            });
            self.session.handle_microphone(id, &packet, self.now)
        }
    }

    #[test]
    fn a_microphone_is_wanted_only_while_a_program_records() {
        let mut world = World::new();
        let id = world.viewer(Rights::ALL);
        assert_eq!(world.told(id), []);
        world.session.handle_recorded(true, 0);
        assert_eq!(world.told(id), [(1, true)]);
        assert_eq!(world.heard(), None, "the person is asked");
        world.answer(id, 1, true);
        assert_eq!((world.heard(), world.sends(id, 1)), (Some(id), Ok(true)));
        world.session.handle_recorded(false, 0);
        assert_eq!(world.told(id), [(2, false)]);
        assert_eq!((world.heard(), world.sends(id, 1)), (None, Ok(false)));
        world.session.handle_recorded(true, 0);
        world.session.handle_recorded(false, 0);
        assert_eq!(world.told(id), [(4, false)], "the newest only");
        // A viewer that comes while a program records.
        world.session.handle_recorded(true, 0);
        let second = world.viewer(Rights::ALL);
        assert_eq!((world.told(second), world.told(id)), (vec![(1, true)], vec![(6, false)]));
    }

    #[test]
    fn guests_and_sessions_without_the_policy_are_not_asked() {
        let mut world = World::new();
        let guest = world.viewer(Rights::VIEW);
        world.session.handle_recorded(true, 0);
        assert_eq!(world.told(guest), []);
        assert_eq!(world.sends(guest, 0), Err(Violation::Microphone));
        let mut world = World::new();
        world.session.set_microphone(false);
        let id = world.viewer(Rights::ALL);
        world.session.handle_recorded(true, 0);
        assert_eq!(world.told(id), []);
        assert_eq!(world.sends(id, 0), Err(Violation::Microphone));
    }

    #[test]
    fn one_is_heard_at_a_time_the_typist_or_else_the_newest() {
        let mut world = World::new();
        let (first, second) = (world.viewer(Rights::ALL), world.viewer(Rights::ALL));
        world.session.handle_recorded(true, 0);
        assert_eq!((world.told(first), world.told(second)), (vec![], vec![(1, true)]));
        world.answer(second, 1, true);
        assert_eq!(world.heard(), Some(second));
        // Another viewer is typed at: the old one is heard until the new one gives its microphone.
        world.types(first);
        assert_eq!((world.told(first), world.heard()), (vec![(1, true)], Some(second)));
        world.answer(first, 1, true);
        assert_eq!((world.heard(), world.told(second)), (Some(first), vec![(2, false)]));
        // The person stops it there: no other opens where nobody is.
        world.answer(first, 1, false);
        assert_eq!(world.heard(), None);
        assert_eq!((world.told(first), world.told(second)), (vec![(2, false)], vec![]));
        world.types(second);
        assert_eq!(world.told(second), [(3, true)]);
        world.answer(second, 3, true);
        assert_eq!(world.heard(), Some(second));
        world.session.remove_viewer(second);
        assert_eq!((world.heard(), world.told(first)), (None, vec![]), "it was refused");
        world.answer(first, 2, true);
        assert_eq!(world.told(first), [(3, true)], "the person has changed their mind");
    }

    #[test]
    fn after_a_refusal_nobody_else_is_asked_until_the_next_recording() {
        let mut world = World::new();
        let (first, second) = (world.viewer(Rights::ALL), world.viewer(Rights::ALL));
        world.session.handle_recorded(true, 0);
        world.answer(second, 1, false);
        assert_eq!((world.told(first), world.heard()), (vec![], None), "one refusal is enough");
        world.session.handle_recorded(false, 0);
        world.session.handle_recorded(true, 0);
        assert_eq!(world.told(first), [(1, true)], "another recording");
    }

    #[test]
    fn a_guest_that_types_changes_nothing() {
        let mut world = World::new();
        let (first, second) = (world.viewer(Rights::ALL), world.viewer(Rights::ALL));
        let guest = world.viewer(Rights { microphone: false, ..Rights::ALL });
        world.types(first);
        world.session.handle_recorded(true, 0);
        assert_eq!((world.told(first), world.told(second)), (vec![(1, true)], vec![]));
        world.answer(first, 1, true);
        world.types(guest);
        assert_eq!((world.heard(), world.told(second)), (Some(first), vec![]));
    }
}
