//! The painter compared with the driver: a real Xorg has written golden.bin (`THINC_TEST_WRITE=1
//! cargo test -p thinc-ring --test video`). Each case has layout, image size, crop, place, the part
//! of the place on the screen, samples and pixels.

use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, PlanesRef, SampleLayout, Source};

const GOLDEN: &[u8] = include_bytes!("golden.bin");

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> i32 {
        i32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn rect(&mut self) -> Rect {
        let [x, y, width, height] = [(); 4].map(|()| self.number());
        Rect::at(x, y, width, height)
    }
}

#[test]
fn painted_pixels_equal_those_of_the_driver() {
    let (mut reader, mut painter, mut cases) = (Reader(GOLDEN), Painter::new(), 0);
    while !reader.0.is_empty() {
        let layout = if reader.number() == 0 { SampleLayout::Yuv420 } else { SampleLayout::Yuv422 };
        let size = Size { width: reader.number() as u32, height: reader.number() as u32 };
        let (crop, place, shown) = (reader.rect(), reader.rect(), reader.rect());
        let planes =
            PlanesRef::packed(size, layout, reader.take(layout.bytes(size) as usize)).unwrap();
        let drawn = reader.take(shown.area() as usize * 4).as_chunks::<4>().0;
        let drawn: Vec<u32> =
            drawn.iter().map(|&pixel| u32::from_le_bytes(pixel) & 0xff_ffff).collect();
        // Only the part on the screen was recorded.
        let (width, place) = (shown.width() as usize, place.translate(-shown.x1, -shown.y1));
        let mut painted = vec![0; drawn.len()];
        let clip = Region::from(Rect::at(0, 0, shown.width(), shown.height()));
        painter.paint(&planes, &Source { size, crop }, place, &clip, &mut painted, width);
        painted.iter_mut().for_each(|pixel| *pixel &= 0xff_ffff);
        let wrong = painted.iter().zip(&drawn).position(|(painted, drawn)| painted != drawn);
        if let Some(at) = wrong {
            let (is, was) = (painted[at], drawn[at]);
            panic!(
                "case {cases}: {size:?} {layout:?} {crop:?} in {place:?}: {is:06x} for {was:06x} \
                    at {}, {}",
                at % width,
                at / width
            );
        }
        cases += 1;
    }
    assert!(cases >= 10, "{cases} cases are too few");
}
