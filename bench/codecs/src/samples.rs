//! What is encoded: whole screens of the corpus, and rectangles of them as updates have them.
//! From a corpus to the sets of samples of a table. Knows pixels and a seed; never codecs.

use thinc_bench::corpus::{Index, Kind};
use thinc_bench::observe::picture::{Picture, Rect};
use thinc_bench::workloads::content::Random;
use thinc_pixels::Snapshot;
use thinc_region::Region;

/// One picture to be encoded.
pub(crate) struct Sample {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// `0x00RRGGBB`, rows without gaps.
    pub(crate) pixels: Vec<u32>,
    /// The same as thinc's encoder takes it: copied out of a framebuffer once.
    pub(crate) snapshot: Snapshot,
}

impl Sample {
    fn new(picture: &Picture) -> Sample {
        let (width, height) = (picture.width as usize, picture.height as usize);
        let mut snapshot = Snapshot::new();
        snapshot.fill(&Region::from(rect(width, height)), |_, dst, stride| {
            for (dst, row) in dst.chunks_mut(stride).zip(picture.pixels.chunks(width)) {
                dst[..width].copy_from_slice(row);
            }
        });
        Sample { width, height, pixels: picture.pixels.clone(), snapshot }
    }

    /// Where it lies on a screen of its own.
    pub(crate) fn rect(&self) -> thinc_region::Rect {
        rect(self.width, self.height)
    }

    /// Whether these pixels are its own.
    pub(crate) fn equals(&self, pixels: &[u32]) -> bool {
        self.pixels.len() == pixels.len() && self.pixels.iter().zip(pixels).all(|(a, b)| (a ^ b) & 0xff_ffff == 0)
    }

    /// Three bytes a pixel: red, green, blue.
    pub(crate) fn rgb(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend(self.pixels.iter().flat_map(|pixel| [(pixel >> 16) as u8, (pixel >> 8) as u8, *pixel as u8]));
    }
}

fn rect(width: usize, height: usize) -> thinc_region::Rect {
    thinc_region::Rect::new(0, 0, width as i32, height as i32)
}

/// Pixels of three bytes each: red, green, blue.
pub(crate) fn pixels_of_rgb(rgb: &[u8], pixels: &mut [u32]) {
    for (pixel, &[red, green, blue]) in pixels.iter_mut().zip(rgb.as_chunks::<3>().0) {
        *pixel = u32::from_be_bytes([0, red, green, blue]);
    }
}

/// Samples that are counted together, through one context where a codec has one.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) samples: Vec<Sample>,
}

/// Width and height of rectangles, and how many of each: a picture of a page, a line of text, a letter.
const RECTANGLES: [(u32, u32, usize); 3] = [(300, 200, 350), (400, 18, 720), (16, 20, 3600)];
/// Tries before a place that is not of one colour is given up: some screens are mostly white.
const TRIES_MAX: usize = 200;

/// Whole screens: all, and those of each kind.
pub(crate) fn screens(index: &Index, pictures: &[Picture]) -> Vec<Set> {
    let set = |name: &str, kind: Option<Kind>| Set {
        name: name.to_owned(),
        samples: of_kind(index, pictures, kind).into_iter().map(Sample::new).collect(),
    };
    vec![set("all", None), set("ui", Some(Kind::Ui)), set("mix", Some(Kind::Mix)), set("photo", Some(Kind::Photo))]
}

/// Rectangles at random places of all screens and of pure UI.
pub(crate) fn rectangles(index: &Index, pictures: &[Picture]) -> Vec<Set> {
    let mut sets = Vec::new();
    for (width, height, count) in RECTANGLES {
        for (suffix, kind) in [("", None), (" ui", Some(Kind::Ui))] {
            let from = of_kind(index, pictures, kind);
            let samples = cut(&from, width, height, count).iter().map(Sample::new).collect();
            sets.push(Set { name: format!("{width}x{height}{suffix}"), samples });
        }
    }
    sets
}

fn of_kind<'a>(index: &Index, pictures: &'a [Picture], kind: Option<Kind>) -> Vec<&'a Picture> {
    let chosen = index.captures.iter().zip(pictures);
    chosen.filter(|(capture, _)| kind.is_none_or(|kind| kind == capture.kind)).map(|(_, picture)| picture).collect()
}

/// `count` rectangles that are not of one colour, from each picture as many, picture after picture.
fn cut(from: &[&Picture], width: u32, height: u32, count: usize) -> Vec<Picture> {
    let mut random = Random::new(u64::from(width) << 32 | u64::from(height));
    let mut found = Vec::with_capacity(count);
    for (place, picture) in from.iter().enumerate() {
        let wanted = count * (place + 1) / from.len();
        for _ in 0..wanted * TRIES_MAX {
            if found.len() >= wanted || picture.width < width || picture.height < height {
                break;
            }
            let x = random.below((picture.width - width + 1) as usize) as i32;
            let y = random.below((picture.height - height + 1) as usize) as i32;
            let part = picture.crop(Rect::new(x, y, width, height));
            if part.pixels.iter().any(|&pixel| pixel != part.pixels[0]) {
                found.push(part);
            }
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Small pictures of every character, of odd sizes: one colour, two colours, a gradient, noise, few colours.
    pub(crate) fn samples() -> Vec<Sample> {
        let mut random = Random::new(5);
        let picture = |width: u32, height: u32, pixel: &mut dyn FnMut(u32, u32) -> u32| {
            let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| pixel(x, y)).collect();
            Sample::new(&Picture { width, height, pixels })
        };
        vec![
            picture(97, 61, &mut |x, y| if (x * 7 + y * 13) % 11 < 3 { 0x20_2020 } else { 0xff_ffff }),
            picture(16, 20, &mut |_, _| 0x12_3456),
            picture(301, 43, &mut |x, y| x << 16 | (y * 5) << 8 | (x + y) & 0xff),
            picture(53, 29, &mut |_, _| random.bits() as u32 & 0xff_ffff),
            picture(200, 3, &mut |x, y| {
                [0xff_0000, 0x00_ff00, 0x33_3333, 0xff_ffff, 0x80_8080][(x / 3 + y) as usize % 5]
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_are_the_same_again_and_none_is_of_one_colour() {
        let flat = Picture::new(64, 64, 7);
        let mut busy = flat.clone();
        for (place, pixel) in busy.pixels.iter_mut().enumerate().filter(|(place, _)| place % 64 > 32) {
            *pixel = place as u32;
        }
        let pictures = [&flat, &busy];
        let first = cut(&pictures, 16, 20, 40);
        assert_eq!(first, cut(&pictures, 16, 20, 40));
        assert_eq!(first.len(), 40, "what one picture has not, the next gives");
        assert!(first.iter().all(|part| part.pixels.iter().any(|&pixel| pixel != part.pixels[0])));
        assert!(cut(&pictures, 65, 5, 3).is_empty(), "none is larger than its picture");
    }
}
