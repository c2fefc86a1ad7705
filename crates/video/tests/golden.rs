//! What the driver drew, by the driver: golden.bin is written by a real Xorg (`THINC_TEST_WRITE=1 cargo test -p thinc-ring --test video`), case after
//! case: layout, image size, crop, place, the part of the place on the screen, samples, pixels.

use thinc_region::{Rect, Region, Size};
use thinc_video::{Layout, Painter, PlanesRef, Source};

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
fn what_is_painted_is_what_the_driver_draws() {
    let (mut reader, mut painter, mut cases) = (Reader(GOLDEN), Painter::new(), 0);
    while !reader.0.is_empty() {
        let layout = if reader.number() == 0 { Layout::Yuv420 } else { Layout::Yuv422 };
        let size = Size { width: reader.number() as u32, height: reader.number() as u32 };
        let (crop, place, shown) = (reader.rect(), reader.rect(), reader.rect());
        let planes = PlanesRef::packed(size, layout, reader.take(layout.bytes(size) as usize)).unwrap();
        let drawn = reader.take(shown.area() as usize * 4).as_chunks::<4>().0;
        let drawn: Vec<u32> = drawn.iter().map(|&pixel| u32::from_le_bytes(pixel) & 0xff_ffff).collect();
        // The part that was on the screen is the whole of ours.
        let (width, place) = (shown.width() as usize, place.translate(-shown.x1, -shown.y1));
        let mut painted = vec![0; drawn.len()];
        let clip = Region::from(Rect::at(0, 0, shown.width(), shown.height()));
        painter.paint(&planes, &Source { size, crop }, place, &clip, &mut painted, width);
        painted.iter_mut().for_each(|pixel| *pixel &= 0xff_ffff);
        let wrong = painted.iter().zip(&drawn).position(|(painted, drawn)| painted != drawn);
        if let Some(at) = wrong {
            let (is, was) = (painted[at], drawn[at]);
            panic!(
                "case {cases}: {size:?} {layout:?} {crop:?} in {place:?}: {is:06x} for {was:06x} at {}, {}",
                at % width,
                at / width
            );
        }
        cases += 1;
    }
    assert!(cases >= 10, "{cases} cases say little");
}
