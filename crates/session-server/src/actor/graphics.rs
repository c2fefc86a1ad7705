//! Beside actor.rs: the line that viewers show of the session's GPU: what draws 3D programs, from
//! the supervisor, and what encodes videos, from gpu_encoder.rs. Knows texts; never GPUs.

use thinc_protocol::limits::NOTICE_BYTES_MAX;
use thinc_protocol::video::FrameCodec;
use thinc_session_core::Session;

/// What encodes where no GPU does.
const PROCESSOR: &str = "the processor";

/// Both parts, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct GraphicsLine {
    drawing: Option<String>,
    /// What encodes 4:4:4, AV1, and H.264.
    encoding: [Option<String>; 3],
    /// A GPU has encoded.
    has_encoded: bool,
}

impl GraphicsLine {
    /// `drawing`: what an earlier session process was told.
    pub(super) fn new(drawing: Option<String>, core: &mut Session) -> GraphicsLine {
        let line = GraphicsLine { drawing, ..GraphicsLine::default() };
        line.tell(core);
        line
    }

    pub(super) fn set_drawing(&mut self, line: String, core: &mut Session) {
        self.drawing = Some(line);
        self.tell(core);
    }

    pub(super) fn set_encoding(
        &mut self,
        codec: FrameCodec,
        name: Option<String>,
        core: &mut Session,
    ) {
        let known = match codec {
            FrameCodec::H264Yuv444 => &mut self.encoding[0],
            FrameCodec::Av1 => &mut self.encoding[1],
            FrameCodec::H264 => &mut self.encoding[2],
        };
        if codec == FrameCodec::H264Yuv444 {
            core.set_full_colour(name.is_some());
        }
        let name = match codec {
            FrameCodec::H264Yuv444 => name.map(|name| format!("{name} (4:4:4)")),
            _ => name,
        };
        if *known != name {
            self.has_encoded |= name.is_some();
            *known = name;
            self.tell(core);
        }
    }

    fn tell(&self, core: &mut Session) {
        if let Some(line) = self.text() {
            core.set_graphics(&line);
        }
    }

    fn text(&self) -> Option<String> {
        let names: Vec<&str> = self.encoding.iter().flatten().map(|name| &**name).collect();
        let encoding = match (names.is_empty(), self.has_encoded) {
            (false, _) => Some(format!("videos are encoded by {}", names.join(" and "))),
            // Where a GPU has encoded, it is said that it does no longer.
            (true, true) => Some(format!("videos are encoded by {PROCESSOR}")),
            (true, false) => None,
        };
        let parts: Vec<&str> =
            [&self.drawing, &encoding].into_iter().flatten().map(|part| &**part).collect();
        let mut line = parts.join("; ");
        line.truncate(line.floor_char_boundary(NOTICE_BYTES_MAX));
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_what_is_known_and_fits_its_message() {
        let line = |drawing: Option<&str>, encoding: Option<&str>| {
            let (drawing, h264) = (drawing.map(str::to_owned), encoding.map(str::to_owned));
            GraphicsLine { drawing, encoding: [None, None, h264], has_encoded: false }.text()
        };
        assert_eq!(line(None, None), None);
        assert_eq!(line(Some("3D: llvmpipe"), None).unwrap(), "3D: llvmpipe");
        let both = line(Some("3D: radeonsi"), Some("vah264enc: VA-API")).unwrap();
        assert_eq!(both, "3D: radeonsi; videos are encoded by vah264enc: VA-API");
        let encoding =
            |encoding| GraphicsLine { drawing: None, encoding, has_encoded: true }.text();
        let two = ["vaav1enc: AV1", "vah264enc: H.264"].map(|name| Some(name.to_owned()));
        let said = encoding([None].into_iter().chain(two).collect::<Vec<_>>().try_into().unwrap());
        let said = said.unwrap();
        assert_eq!(said, "videos are encoded by vaav1enc: AV1 and vah264enc: H.264");
        assert_eq!(encoding([None, None, None]).unwrap(), "videos are encoded by the processor");
        let long = line(Some(&"é".repeat(400)), Some(&"é".repeat(400))).unwrap();
        assert_eq!(long.len(), NOTICE_BYTES_MAX);
    }
}
