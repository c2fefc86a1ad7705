//! Path back: from the shell's decoders, to outbox.rs.
//! Which codecs beside H.264 the shell decodes on one connection: it may find out only after the
//! hello, and change its mind. Knows bits and whether the session takes them; never decoders.

use thinc_protocol::session::SessionCaps;
use thinc_protocol::viewer::ViewerMessage;

use crate::outbox::Outbox;
use crate::viewer::Viewer;

/// The codecs of one connection.
#[derive(Debug, Default)]
pub(crate) struct VideoCodecs {
    /// The session takes them.
    is_on: bool,
    /// Bits of `FrameCodec`.
    decoded: u32,
}

impl VideoCodecs {
    /// The session's hello has these capabilities. Returns what it is told.
    pub(crate) fn handle_hello(&mut self, caps: u32, outbox: &mut Outbox) -> u32 {
        self.is_on = caps & SessionCaps::VIDEO_CODECS != 0;
        if !self.is_on || self.decoded == 0 {
            return 0;
        }
        outbox.push(&ViewerMessage::VideoCodecs(self.decoded));
        self.decoded
    }
}

impl Viewer {
    /// True if the session may send other codecs than H.264.
    pub fn takes_video_codecs(&self) -> bool {
        self.state.video_codecs.is_on
    }

    /// The shell decodes these codecs from now on, beside H.264: bits of `FrameCodec`. The session
    /// is told, once it has said that it takes them; frames of a codec that is taken back may still
    /// come, and the shell reports them as failed.
    pub fn set_video_codecs(&mut self, codecs: u32) {
        let state = &mut self.state;
        if state.video_codecs.decoded == codecs {
            return;
        }
        state.video_codecs.decoded = codecs;
        if state.video_codecs.is_on && !state.closed {
            state.outbox.push(&ViewerMessage::VideoCodecs(codecs));
            state.videos.announce(codecs);
        }
    }
}
