//! Path back, beside the pixels: under page.rs, from web/engine/microphone.ts, to viewer-core's
//! microphone. Passes frames and answers on; the browser records and codes them.

use thinc_protocol::Micros;
use thinc_protocol::viewer::ViewerCaps;
use thinc_viewer_core::Viewer;

use super::Page;

impl Page {
    /// The browser can record and code; announced from the next connection on.
    pub(crate) fn announce_microphone(&mut self) {
        self.has_microphone = true;
    }

    /// The capability of a new connection.
    pub(super) fn microphone_caps(&self) -> u32 {
        if self.has_microphone { ViewerCaps::MICROPHONE } else { 0 }
    }

    /// The session may want the microphone.
    pub(crate) fn may_give_microphone(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::may_give_microphone)
    }

    /// The microphone is open, or it is not given.
    pub(crate) fn give_microphone(&mut self, given: bool) {
        if let Some(viewer) = &mut self.viewer {
            viewer.give_microphone(given);
        }
    }

    /// A coded frame, in the buffer, whose first sample was heard at `time`.
    pub(crate) fn microphone_frame(&mut self, bytes: usize, time: Micros, now: Micros) {
        let frame = self.buffer.get(..bytes).unwrap_or_default();
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_microphone_frame(frame, time, now);
        }
    }
}
