//! Path 11/13, beside page.rs: which codecs the browser decodes, from web/engine/video.ts to
//! viewer-core. Knows bits; never frames.

use thinc_protocol::video::FrameCodec;
use thinc_protocol::viewer::ViewerCaps;
use thinc_viewer_core::Viewer;

use super::Page;

impl Page {
    /// Bits of `FrameCodec`: H.264 for the connections after it, others at once.
    pub(crate) fn set_codecs(&mut self, codecs: u32) {
        self.codecs = codecs;
        if let Some(viewer) = &mut self.viewer {
            viewer.set_video_codecs(others(codecs));
        }
    }

    /// What the next hello announces.
    pub(super) fn codec_caps(&self) -> u32 {
        if self.codecs & FrameCodec::H264.bit() != 0 { ViewerCaps::H264 } else { 0 }
    }

    /// A new connection's viewer is told what comes after its hello.
    pub(super) fn tell_codecs(&self, viewer: &mut Viewer) {
        viewer.set_video_codecs(others(self.codecs));
    }
}

/// Without H.264, which the hello has.
fn others(codecs: u32) -> u32 {
    codecs & !FrameCodec::H264.bit()
}
