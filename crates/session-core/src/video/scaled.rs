//! Path 5/13: under video.rs, for viewers whose view is scaled or a part of the screen.
//! A frame of XVideo in such a view: where it is visible, and at which size it should be coded
//! (THINC §4). Knows rectangles and sizes; never samples, which the shell shrinks.

use thinc_protocol::video::Source;
use thinc_region::{Rect, Size};

use super::{PortFrame, VideoOrigin, Videos};
use crate::mutation::mutated;
use crate::screen::view::Transform;

/// Shortest edge that an encoder takes: smaller frames cost little as pixels.
const EDGE_MIN: u32 = 16;

impl PortFrame {
    /// The frame in the coordinates of a view. In a scaled view the coded size need not exceed the
    /// place, so frames are shrunk before coding, and are never plain, since the screen's pixels
    /// passed another filter. `known` is the current size of its stream.
    pub(crate) fn scaled(&self, by: &Transform, known: Option<Size>) -> PortFrame {
        let place = by.place(&self.place);
        if by.is_whole() {
            return PortFrame { place, ..*self };
        }
        let size = coded_size(size_of(&self.source.crop), size_of(&place), known);
        // A frame without a place is sent as pixels.
        let place = if size.width.min(size.height) < EDGE_MIN { Rect::default() } else { place };
        let bytes = if mutated!(by.mutation, ScaledFrameIsPlain) { self.bytes } else { 0 };
        PortFrame { source: Source { size, crop: size.rect() }, place, bytes, ..*self }
    }
}

impl Videos {
    /// The current coded size of the stream that shows this frame's port.
    pub(crate) fn stream_size(&self, frame: &PortFrame) -> Option<Size> {
        let origin = VideoOrigin::Port(frame.port);
        self.streams.iter().find(|stream| stream.origin == origin).map(|stream| stream.source.size)
    }
}

fn size_of(rect: &Rect) -> Size {
    Size { width: rect.width().max(0) as u32, height: rect.height().max(0) as u32 }
}

/// No larger than the crop, about as large as the place. A window that is moved is a pixel wider at
/// one place than at the next, and one that is resized has many sizes: each new coded size requires
/// a keyframe, so a size that is nearly right stays.
fn coded_size(crop: Size, place: Size, known: Option<Size>) -> Size {
    let wanted = Size { width: crop.width.min(place.width), height: crop.height.min(place.height) };
    let near = |known: u32, wanted: u32, most: u32| {
        known <= most && known * 8 >= wanted * 7 && known * 4 <= wanted * 5
    };
    match known {
        Some(known)
            if near(known.width, wanted.width, crop.width)
                && near(known.height, wanted.height, crop.height) =>
        {
            known
        }
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use thinc_ring::{DrawHint, VideoLayout};

    use super::*;

    const fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    fn port_frame(of: Size, crop: Rect, place: Rect) -> PortFrame {
        let what = DrawHint::Video { port: 3, layout: VideoLayout::Yuv420, size: of, crop, place };
        PortFrame::of(what, 1).expect("a video drawing makes a frame")
    }

    #[test]
    fn a_frame_is_coded_as_large_as_it_is_shown_and_no_larger_than_its_crop() {
        let small = Transform::new(Rect::new(0, 0, 1024, 768), size(320, 240));
        let frame =
            port_frame(size(352, 240), Rect::new(0, 0, 352, 240), Rect::new(0, 0, 1024, 768))
                .scaled(&small, None);
        assert_eq!(
            (frame.source.size, frame.place, frame.bytes),
            (size(320, 240), Rect::new(0, 0, 320, 240), 0)
        );
        assert!(frame.is_representable());
        // Half as large as it is shown.
        let large = Transform::new(Rect::new(0, 0, 512, 384), size(1024, 768));
        let frame =
            port_frame(size(352, 240), Rect::new(0, 0, 176, 120), Rect::new(0, 0, 400, 300))
                .scaled(&large, None);
        let source = Source { size: size(176, 120), crop: Rect::new(0, 0, 176, 120) };
        assert_eq!((frame.source, frame.place), (source, Rect::new(0, 0, 800, 600)));
        let thumbnail =
            port_frame(size(352, 240), Rect::new(0, 0, 352, 240), Rect::new(10, 10, 58, 50));
        assert!(!thumbnail.scaled(&small, None).is_representable(), "15 x 13 pixels are not coded");
    }

    #[test]
    fn an_unscaled_part_of_the_screen_keeps_its_frames() {
        let part = Transform::new(Rect::new(100, 50, 740, 530), size(640, 480));
        let place = Rect::new(90, 60, 442, 300);
        let frame = port_frame(size(352, 240), Rect::new(0, 0, 352, 240), place);
        let seen = frame.scaled(&part, Some(size(10, 10)));
        assert_eq!(seen, PortFrame { place: place.translate(-100, -50), ..frame });
    }

    #[test]
    fn a_coded_size_stays_while_it_is_nearly_right_and_within_the_crop() {
        let crop = size(352, 240);
        let known = Some(size(110, 75));
        assert_eq!(coded_size(crop, size(111, 75), known), size(110, 75), "a window was moved");
        assert_eq!(coded_size(crop, size(90, 70), known), size(110, 75), "or is a little smaller");
        assert_eq!(coded_size(crop, size(80, 70), known), size(80, 70));
        assert_eq!(coded_size(crop, size(130, 75), known), size(130, 75));
        assert_eq!(
            coded_size(size(100, 75), size(110, 75), known),
            size(100, 75),
            "nothing is enlarged"
        );
    }
}
