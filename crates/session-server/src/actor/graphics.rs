//! Beside actor.rs: the line that viewers show of the session's GPU: what draws 3D programs, from
//! the supervisor, and what encodes videos, from gpu_encoder.rs. Knows texts; never GPUs.

use thinc_protocol::limits::NOTICE_BYTES_MAX;
use thinc_session_core::Session;

/// What encodes where no GPU does.
const PROCESSOR: &str = "the processor";

/// Both parts, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct GraphicsLine {
    drawing: Option<String>,
    encoding: Option<String>,
}

impl GraphicsLine {
    /// `drawing`: what an earlier session process was told.
    pub(super) fn new(drawing: Option<String>, core: &mut Session) -> GraphicsLine {
        let line = GraphicsLine { drawing, encoding: None };
        line.tell(core);
        line
    }

    pub(super) fn set_drawing(&mut self, line: String, core: &mut Session) {
        self.drawing = Some(line);
        self.tell(core);
    }

    pub(super) fn set_encoding(&mut self, name: Option<String>, core: &mut Session) {
        // Where a GPU has encoded, it is said that it does no longer.
        let name = name.or_else(|| self.encoding.as_ref().map(|_| PROCESSOR.to_owned()));
        if self.encoding != name {
            self.encoding = name;
            self.tell(core);
        }
    }

    fn tell(&self, core: &mut Session) {
        if let Some(line) = self.text() {
            core.set_graphics(&line);
        }
    }

    fn text(&self) -> Option<String> {
        let encoding = self.encoding.as_ref().map(|name| format!("videos are encoded by {name}"));
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
            let (drawing, encoding) = (drawing.map(str::to_owned), encoding.map(str::to_owned));
            GraphicsLine { drawing, encoding }.text()
        };
        assert_eq!(line(None, None), None);
        assert_eq!(line(Some("3D: llvmpipe"), None).unwrap(), "3D: llvmpipe");
        let both = line(Some("3D: radeonsi"), Some("vah264enc: VA-API")).unwrap();
        assert_eq!(both, "3D: radeonsi; videos are encoded by vah264enc: VA-API");
        let long = line(Some(&"é".repeat(400)), Some(&"é".repeat(400))).unwrap();
        assert_eq!(long.len(), NOTICE_BYTES_MAX);
    }
}
