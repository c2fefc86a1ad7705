//! Path 5/13: under video.rs, for viewers that show the screen smaller or larger, or a part of it.
//! What a frame of XVideo is in such a picture: where it is seen, and how large its own pictures had better be (THINC §4).
//! Knows rectangles and sizes; never samples, which the shell makes smaller.

use thinc_protocol::video::Source;
use thinc_region::{Rect, Size};

use super::{PortFrame, VideoOrigin, Videos};
use crate::mutation::{Broken, Mutation};
use crate::view::Transform;

/// Shortest edge that an encoder takes: what is smaller costs little as pixels.
const EDGE_MIN: u32 = 16;

impl PortFrame {
    /// As it is in a picture that `by` makes of the screen. Where that is scaled, pictures need not be larger than the place they are seen in: they are made smaller
    /// before they are coded, and are never plain, for the screen's pixels have been through another filter. `known` is how large those of its stream are
    /// by now.
    pub(crate) fn scaled(&self, by: &Transform, known: Option<Size>, broken: Broken) -> PortFrame {
        let place = by.place(&self.place);
        if by.is_whole() {
            return PortFrame { place, ..*self };
        }
        let size = coded_size(size_of(&self.source.crop), size_of(&place), known);
        // Nothing can be said to be shown nowhere: it is pixels.
        let place = if size.width.min(size.height) < EDGE_MIN { Rect::default() } else { place };
        let bytes = if broken.is(Mutation::ScaledIsPlain) { self.bytes } else { 0 };
        PortFrame { source: Source { size, crop: size.rect() }, place, bytes, ..*self }
    }
}

impl Videos {
    /// How large the pictures are that show this frame's port.
    pub(crate) fn known_size(&self, frame: &PortFrame) -> Option<Size> {
        let origin = VideoOrigin::Port(frame.port);
        self.streams.iter().find(|stream| stream.origin == origin).map(|stream| stream.source.size)
    }
}

fn size_of(rect: &Rect) -> Size {
    Size { width: rect.width().max(0) as u32, height: rect.height().max(0) as u32 }
}

/// No larger than the crop, about as large as the place. A window that is moved is a pixel wider at one place than at the next, and one whose size
/// is pulled has many: each size begins with a picture that leans on none, so what is a little off stays.
fn coded_size(crop: Size, place: Size, known: Option<Size>) -> Size {
    let wanted = Size { width: crop.width.min(place.width), height: crop.height.min(place.height) };
    let near = |known: u32, wanted: u32, most: u32| known <= most && known * 8 >= wanted * 7 && known * 4 <= wanted * 5;
    match known {
        Some(known)
            if near(known.width, wanted.width, crop.width) && near(known.height, wanted.height, crop.height) =>
        {
            known
        }
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use thinc_ring::{Drawn, VideoLayout};

    use super::*;

    const fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    fn frame(of: Size, crop: Rect, place: Rect) -> PortFrame {
        let what = Drawn::Video { port: 3, layout: VideoLayout::Yuv420, size: of, crop, place };
        PortFrame::of(what, 1).expect("it is one")
    }

    #[test]
    fn a_frame_is_coded_as_large_as_it_is_seen_and_no_larger_than_it_is() {
        let small = Transform::new(Rect::new(0, 0, 1024, 768), size(320, 240));
        let film = frame(size(352, 240), Rect::new(0, 0, 352, 240), Rect::new(0, 0, 1024, 768)).scaled(
            &small,
            None,
            Broken::default(),
        );
        assert_eq!((film.source.size, film.place, film.bytes), (size(320, 240), Rect::new(0, 0, 320, 240), 0));
        assert!(film.is_sayable());
        // Half as large as it is shown.
        let large = Transform::new(Rect::new(0, 0, 512, 384), size(1024, 768));
        let film = frame(size(352, 240), Rect::new(0, 0, 176, 120), Rect::new(0, 0, 400, 300)).scaled(
            &large,
            None,
            Broken::default(),
        );
        let source = Source { size: size(176, 120), crop: Rect::new(0, 0, 176, 120) };
        assert_eq!((film.source, film.place), (source, Rect::new(0, 0, 800, 600)));
        let thumbnail = frame(size(352, 240), Rect::new(0, 0, 352, 240), Rect::new(10, 10, 58, 50));
        assert!(!thumbnail.scaled(&small, None, Broken::default()).is_sayable(), "15 x 13 pixels are not coded");
    }

    #[test]
    fn a_part_at_its_own_size_has_frames_as_they_are() {
        let part = Transform::new(Rect::new(100, 50, 740, 530), size(640, 480));
        let place = Rect::new(90, 60, 442, 300);
        let film = frame(size(352, 240), Rect::new(0, 0, 352, 240), place);
        let seen = film.scaled(&part, Some(size(10, 10)), Broken::default());
        assert_eq!(seen, PortFrame { place: place.translate(-100, -50), ..film });
    }

    #[test]
    fn a_size_stays_while_it_is_near_and_no_larger_than_what_is_shown() {
        let crop = size(352, 240);
        let known = Some(size(110, 75));
        assert_eq!(coded_size(crop, size(111, 75), known), size(110, 75), "a window was moved");
        assert_eq!(coded_size(crop, size(90, 70), known), size(110, 75), "or is a little smaller");
        assert_eq!(coded_size(crop, size(80, 70), known), size(80, 70));
        assert_eq!(coded_size(crop, size(130, 75), known), size(130, 75));
        assert_eq!(coded_size(size(100, 75), size(110, 75), known), size(100, 75), "nothing is made larger");
    }
}
