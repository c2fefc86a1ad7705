//! Path 10/13, beside the pixels: under session.rs, from the shell's encoders, to the viewers'
//! lanes of sound; and back, how late programs are told that they are heard. Knows which viewer
//! plays what; never samples or codecs.

use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::limits::SOUND_PLAYERS_MAX;
use thinc_protocol::viewer::ViewerMessage;
use thinc_sound::Quality;
use thinc_sound::sender::CodedFrame;

use super::Session;
use super::microphone::Microphone;
use crate::delivery::packer::Packer;
use crate::viewer::{Viewer, ViewerId, Violation};

/// 1 s: longest latency that programs are told; players delay their pictures by it.
const LATENCY_MAX: i64 = 1_000_000;
/// 15 ms: a smaller change is not seen, and players need seconds to follow each.
const LATENCY_STEP: u64 = 15_000;
/// 2 s: least time between two changes.
const LATENCY_INTERVAL: Micros = 2_000_000;

/// The session's sound.
#[derive(Debug, Default)]
pub(super) struct SessionSound {
    /// The session has sound.
    pub(super) is_on: bool,
    latency: SoundLatency,
    /// Programs that play.
    players: Arc<[String]>,
    pub(super) microphone: Microphone,
}

/// What programs are told of how much later sound is heard than pictures are seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SoundLatency {
    latency: Micros,
    changed_at: Option<Micros>,
}

impl SoundLatency {
    fn follow(&mut self, lag: i64, now: Micros) {
        let latency = lag.clamp(0, LATENCY_MAX).unsigned_abs();
        let is_due = self.changed_at.is_none_or(|at| now >= at + LATENCY_INTERVAL);
        if is_due && latency.abs_diff(self.latency) > LATENCY_STEP {
            (self.latency, self.changed_at) = (latency, Some(now));
        }
    }
}

impl Session {
    /// Whether the session has sound; for viewers that connect from now on.
    pub fn set_sound(&mut self, has_sound: bool) {
        self.sound.is_on = has_sound;
    }

    /// These programs play now: viewers that play sound are told.
    pub fn handle_players(&mut self, mut players: Vec<String>) {
        players.truncate(SOUND_PLAYERS_MAX);
        self.sound.players = players.into();
        let players = &self.sound.players;
        self.viewers.iter_mut().for_each(|viewer| viewer.tell_players(players));
    }

    /// Whether any viewer wants to hear sound.
    pub fn is_heard(&self) -> bool {
        self.viewers.iter().any(|viewer| viewer.wants_sound())
    }

    /// How a viewer's sound is to be coded now; None: it plays none.
    pub fn sound_quality(&mut self, id: ViewerId, now: Micros) -> Option<Quality> {
        self.viewer_mut(id)?.sound_quality(now)
    }

    /// A frame for a viewer, coded as it is to be. It goes before pixels; if the path takes none,
    /// the oldest is dropped.
    pub fn handle_sound(&mut self, id: ViewerId, frame: CodedFrame, now: Micros) {
        self.now = self.now.max(now);
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.push_sound(frame, now);
        }
    }

    /// Sends a viewer's sound as datagrams, also while a chunk of its stream is being sent; true if
    /// there was any. On streams, and if its format changes, `poll_transmit` sends it.
    pub fn poll_sound(&mut self, id: ViewerId, now: Micros, packer: &mut dyn Packer) -> bool {
        self.now = self.now.max(now);
        let any =
            self.viewer_mut(id).is_some_and(|viewer| viewer.transmit_sound_datagrams(packer, now));
        self.count_rate(id, now);
        any
    }

    /// How much later sound is heard than the picture of the same moment is seen, in microseconds,
    /// as programs are to be told; they delay their pictures by it. That of the viewer that typed
    /// last, if it plays sound.
    pub fn sound_latency(&self) -> Micros {
        self.sound.latency.latency
    }

    /// The viewer whose lag programs are told: the one that typed last, or else the newest.
    fn leading_listener(&self) -> Option<&Viewer> {
        let typed_last = self.requests.keyboard.typed_last();
        let listeners = || self.viewers.iter().filter(|viewer| viewer.wants_sound());
        let typist = listeners().find(|viewer| Some(viewer.id) == typed_last);
        typist.or_else(|| listeners().next_back())
    }

    pub(super) fn handle_sound_message(
        &mut self,
        at: usize,
        message: &ViewerMessage,
        now: Micros,
    ) -> Result<(), Violation> {
        let viewer = &mut self.viewers[at];
        match message {
            ViewerMessage::SoundWant(want) => viewer.want_sound(want, &self.sound.players),
            ViewerMessage::SoundState(state) => {
                viewer.sound_state(state, now)?;
                if let Some(lag) = self.leading_listener().and_then(Viewer::sound_lag) {
                    self.sound.latency.follow(lag, now);
                }
                Ok(())
            }
            _ => self.handle_microphone_message(at, message, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::sound::{SoundCodec, SoundState, SoundWant};
    use thinc_protocol::viewer::{Input, InputEvent, ViewerCaps, ViewerHello};
    use thinc_region::Size;

    use super::*;
    use crate::Config;

    struct World {
        session: Session,
        now: Micros,
    }

    impl World {
        fn say(&mut self, id: ViewerId, message: &ViewerMessage) {
            self.session.handle_message(id, message, self.now).unwrap();
        }

        fn listener(&mut self) -> ViewerId {
            let id = self.session.add_viewer(
                &ViewerHello {
                    version: 1,
                    caps: ViewerCaps::SOUND,
                    size: Size::default(),
                    message_bytes_max: 1 << 20,
                    name: "listener".into(),
                },
                self.now,
            );
            self.want(id, false);
            id
        }

        fn want(&mut self, id: ViewerId, muted: bool) {
            let want = SoundWant { codecs: SoundCodec::Opus.bit(), muted, ..Default::default() };
            self.say(id, &ViewerMessage::SoundWant(want));
        }

        /// What programs are told after this report.
        fn report(&mut self, id: ViewerId, lag_us: Option<i32>) -> Micros {
            self.now += LATENCY_INTERVAL;
            let state = SoundState { heard: 1, delay_us: 50_000, lag_us, ..Default::default() };
            self.say(id, &ViewerMessage::SoundState(state));
            self.session.sound_latency()
        }
    }

    #[test]
    fn the_viewer_that_typed_last_decides_or_else_the_newest_that_hears() {
        let size = Size { width: 64, height: 64 };
        let mut session = Session::new(Config::new("sound", size));
        session.handle_attach(size);
        session.set_sound(true);
        let mut world = World { session, now: 0 };
        let (first, second) = (world.listener(), world.listener());
        assert_eq!(world.report(first, Some(100_000)), 0);
        assert_eq!(world.report(second, Some(200_000)), 200_000);
        assert_eq!(world.report(first, Some(100_000)), 200_000);
        let event = InputEvent::Key { code: 30, keysym: 0x61, down: true };
        world.say(first, &ViewerMessage::Input(Input { seq: 1, event }));
        while world.session.poll_request(world.now).is_some() {}
        assert_eq!(world.report(second, Some(200_000)), 100_000);
        // No video is shown: the delay from arrival to ear stands for the lag.
        assert_eq!(world.report(first, None), 50_000);
        world.want(first, true);
        assert_eq!(world.report(second, Some(200_000)), 200_000);
    }

    #[test]
    fn programs_are_told_of_changes_that_are_seen_and_seldom() {
        let mut told = SoundLatency::default();
        let mut follow = |lag, now| {
            told.follow(lag, now);
            told.latency
        };
        assert_eq!(follow(14_000, 0), 0);
        assert_eq!(follow(40_000, 1_000_000), 40_000);
        assert_eq!(follow(200_000, 2_900_000), 40_000, "2 s have not passed");
        assert_eq!(follow(200_000, 3_000_000), 200_000);
        assert_eq!(follow(185_000, 9_000_000), 200_000);
        assert_eq!(follow(3_000_000_000, 10_000_000), 1_000_000);
        assert_eq!(follow(-50_000, 20_000_000), 0, "sound cannot be said to be early");
    }
}
