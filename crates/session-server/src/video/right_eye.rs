//! Path 7/13: under video.rs, from the driver's memory to a picture of a view.
//! The right eye's picture of a stereo frame, as a viewer shows it: the part that its view has, in
//! the size that it has there, by the same filter as the framebuffer's. Knows pixels and
//! rectangles; never a codec.

use thinc_pixels::Resampler;
use thinc_region::Rect;
use thinc_ring::{VideoInfo, VideoLayout};
use thinc_session_core::{RightEyeFrame, Transform};

use super::FrameReplaced;

/// The pixels of a view's part; it reuses its memory.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pixels: Vec<u32>,
    bytes: Vec<u8>,
}

impl Picture {
    /// 0x00RRGGBB, in rows without gaps.
    pub(super) fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// The same as bytes: blue, green, red, 0.
    pub(super) fn bytes(&mut self) -> &[u8] {
        self.bytes.clear();
        self.bytes.extend(self.pixels.iter().flat_map(|pixel| pixel.to_le_bytes()));
        &self.bytes
    }

    /// Takes the part `place` of a view from a port's newest picture, which may be a later one than
    /// `shown` if it is in the same place.
    pub(super) fn read(
        &mut self,
        (info, data): (&VideoInfo, &[u8]),
        shown: &RightEyeFrame,
        place: Rect,
        (view, resampler): (Option<&Transform>, &mut Resampler),
    ) -> Result<(), FrameReplaced> {
        let source = Source { info, data, at: shown.screen_place };
        let view_rect = view.map(|view| view.size().rect());
        let same = info.op == shown.op || info.place == shown.screen_place;
        if info.layout != VideoLayout::RightEye
            || !same
            || (info.crop.width(), info.crop.height())
                != (shown.screen_place.width(), shown.screen_place.height())
            || place.is_empty()
            || view_rect.is_some_and(|view| !view.contains(&place))
        {
            return Err(FrameReplaced);
        }
        let width = place.width() as usize;
        self.pixels.clear();
        self.pixels.resize(place.area() as usize, 0);
        match view {
            None => source.read(place, &mut self.pixels, width),
            Some(view) => {
                let read = |rect: Rect, to: &mut [u32], stride: usize| {
                    source.read(rect, to, stride);
                };
                resampler.resample((&view.x, &view.y), place, &mut self.pixels, width, read);
            }
        }
        Ok(())
    }
}

/// A picture on the screen.
struct Source<'a> {
    info: &'a VideoInfo,
    data: &'a [u8],
    /// Where all of its crop is.
    at: Rect,
}

impl Source<'_> {
    /// Copies the pixels of a rectangle of the screen; outside of the picture those of its edge are
    /// repeated, as a filter at the edge needs them.
    fn read(&self, rect: Rect, to: &mut [u32], stride: usize) {
        let VideoInfo { size, crop, .. } = self.info;
        let (dx, dy) = (crop.x1 - self.at.x1, crop.y1 - self.at.y1);
        let row_bytes = size.width as usize * 4;
        for (y, out) in (rect.y1..rect.y2).zip(to.chunks_mut(stride)) {
            let row = (y + dy).clamp(crop.y1, crop.y2 - 1) as usize;
            let row = &self.data[row * row_bytes..][..row_bytes];
            for (x, out) in (rect.x1..rect.x2).zip(out) {
                let at = (x + dx).clamp(crop.x1, crop.x2 - 1) as usize * 4;
                let [blue, green, red] = [row[at], row[at + 1], row[at + 2]];
                *out = u32::from_le_bytes([blue, green, red, 0]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Size;
    use thinc_ring::DrawableId;

    use super::*;

    const PLACE: Rect = Rect::new(100, 50, 164, 98);

    fn pixel(x: i32, y: i32) -> u32 {
        (x * 3 + y * 0x200 + 0x0a_0000) as u32 & 0xff_ffff
    }

    /// A picture of 80 x 60 of which 64 x 48 are shown, from (7, 5).
    fn picture() -> (VideoInfo, Vec<u8>) {
        let size = Size { width: 80, height: 60 };
        let info = VideoInfo {
            serial: 1,
            op: 9,
            dst: DrawableId::SCREEN,
            layout: VideoLayout::RightEye,
            size,
            crop: Rect::at(7, 5, 64, 48),
            place: PLACE,
        };
        let pixels = (0..60).flat_map(|y| (0..80).map(move |x| pixel(x, y) | 0xee00_0000));
        (info, pixels.flat_map(u32::to_le_bytes).collect())
    }

    fn shown(op: u64, screen_place: Rect) -> RightEyeFrame {
        RightEyeFrame { op, screen_place, clip: screen_place.into() }
    }

    #[test]
    fn a_part_of_the_screen_has_the_pixels_that_were_drawn() {
        let ((info, data), mut picture) = (picture(), Picture::default());
        let part = Rect::new(110, 60, 120, 64);
        let read =
            picture.read((&info, &data), &shown(9, PLACE), part, (None, &mut Resampler::new()));
        assert_eq!(read, Ok(()));
        let expected: Vec<u32> =
            (60..64).flat_map(|y| (110..120).map(move |x| pixel(x - 93, y - 45))).collect();
        assert_eq!(picture.pixels(), expected);
        let bytes: Vec<u8> = expected.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        assert_eq!(picture.bytes(), bytes, "the undefined byte is 0");
    }

    #[test]
    fn a_moved_picture_is_the_same_and_another_place_or_size_is_not() {
        let ((info, data), mut picture) = (picture(), Picture::default());
        let mut resampler = Resampler::new();
        let moved = PLACE.translate(-90, 10);
        let mut read = |info: &VideoInfo, shown: &RightEyeFrame, place: Rect| {
            picture.read((info, &data), shown, place, (None, &mut resampler))
        };
        assert_eq!(read(&info, &shown(9, moved), moved), Ok(()), "the same frame");
        assert_eq!(read(&info, &shown(8, PLACE), PLACE), Ok(()), "a later one, in the same place");
        assert_eq!(read(&info, &shown(8, moved), moved), Err(FrameReplaced));
        let larger = Rect { x2: PLACE.x2 + 1, ..PLACE };
        assert_eq!(read(&info, &shown(9, larger), larger), Err(FrameReplaced));
        assert_eq!(read(&info, &shown(9, PLACE), Rect::default()), Err(FrameReplaced));
        let video = VideoInfo { layout: VideoLayout::Yuv420, ..info };
        assert_eq!(read(&video, &shown(9, PLACE), PLACE), Err(FrameReplaced));
    }
}
