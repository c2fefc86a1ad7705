//! Path beside the pixels: under viewer.rs.
//! A viewer's ends of the channels beside its display, each of which it has only if it announced
//! it, the session has it and its rights allow it. Knows that they are there; never their content.

use thinc_clipboard::{Endpoint, Side};
use thinc_protocol::viewer::{ViewerCaps, ViewerHello};

use super::SessionContext;
use super::background::Background;
use super::microphone::MicrophoneLane;
use super::sound::SoundLane;
use crate::rights::Rights;

/// The channels of one viewer.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) clipboard: Endpoint,
    /// If it plays the session's sound.
    pub(super) sound: Option<SoundLane>,
    /// If it may give a microphone.
    pub(crate) microphone: Option<MicrophoneLane>,
    /// Its end of the files channel, and what else is sent behind the display.
    pub(crate) background: Background,
}

impl Channels {
    pub(super) fn new(
        hello: &ViewerHello,
        screen: &SessionContext<'_>,
        rights: &Rights,
    ) -> Channels {
        let caps = hello.caps;
        let mut clipboard = Endpoint::new(Side::Session, rights.clipboard(screen.clipboard));
        clipboard.set_offers_wanted(caps & ViewerCaps::CLIPBOARD != 0);
        Channels {
            clipboard,
            sound: SoundLane::new(caps, screen.has_sound && rights.sound),
            microphone: MicrophoneLane::new(caps, screen.wants_microphones && rights.microphone),
            background: Background::new(rights.files(screen.files, caps), caps),
        }
    }

    /// Something of them waits to be sent.
    pub(super) fn have_waiting(&self) -> bool {
        self.background.waits() || self.sound.as_ref().is_some_and(SoundLane::has_waiting)
    }
}
