//! Path 9/13: from encoder.rs, for lossy photographs.
//! JPEG by libjpeg-turbo, without the headers that a viewer knows; codec-dec/jpeg.rs is the inverse
//! and has the layout.
//! Knows one rectangle of a snapshot and a profile; never whether it is a photograph.

use thinc_codec_dec::jpeg::{OWN_TABLES, Sampling};
use thinc_pixels::Snapshot;
use thinc_region::Rect;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use crate::settings::JpegProfile;

/// 4 Ki pixels: for a smaller image, its own Huffman tables take more bytes than they save.
const OWN_TABLES_AREA_MIN: u64 = 64 * 64;

impl JpegProfile {
    const fn quality(self) -> u8 {
        match self {
            JpegProfile::High => 95,
            JpegProfile::Medium => 80,
            JpegProfile::Low => 30,
        }
    }

    const fn sampling(self) -> (Sampling, Subsamp) {
        match self {
            JpegProfile::High => (Sampling::Full, Subsamp::None),
            JpegProfile::Medium => (Sampling::Half, Subsamp::Sub2x1),
            JpegProfile::Low => (Sampling::Quarter, Subsamp::Sub2x2),
        }
    }

    /// Its own tables make a photograph 4 (Medium) to 20 % (Low) smaller for twice the CPU time,
    /// which a path that is fast enough for High does not need.
    fn own_tables(self, rect: &Rect) -> bool {
        self != JpegProfile::High && rect.area() >= OWN_TABLES_AREA_MIN
    }
}

/// A complete JPEG file of a small picture: its pixels, rows without padding, and its size. `None`
/// if libjpeg-turbo fails.
///
/// # Panics
/// If the picture has not as many pixels.
pub fn thumbnail(pixels: &[u32], (width, height): (u32, u32)) -> Option<Vec<u8>> {
    let (width, height) = (width as usize, height as usize);
    assert_eq!(pixels.len(), width * height, "a picture of {width}x{height}");
    let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
    let mut compressor = Compressor::new().ok()?;
    compressor.set_quality(JpegProfile::Medium.quality().into()).ok()?;
    compressor.set_subsamp(JpegProfile::Medium.sampling().1).ok()?;
    let image =
        Image { pixels: &bytes[..], width, pitch: width * 4, height, format: PixelFormat::BGRX };
    compressor.compress_to_vec(image).ok()
}

/// Encodes photographs; it reuses libjpeg-turbo's state and its scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Photographs {
    /// Created for the first photograph.
    compressor: Option<Compressor>,
    /// The pixels, four bytes each, rows without padding.
    pixels: Vec<u8>,
    /// A complete JPEG file.
    file: Vec<u8>,
}

impl Photographs {
    /// Replaces `out` with the rectangle as `Encoding::Jpeg`; false if libjpeg-turbo fails.
    pub(crate) fn encode(
        &mut self,
        rect: &Rect,
        snapshot: &Snapshot,
        profile: JpegProfile,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        let Ok(len) = self.compress(rect, snapshot, profile) else { return false };
        let (sampling, _) = profile.sampling();
        let own_tables = profile.own_tables(rect);
        out.extend([sampling as u8 | if own_tables { OWN_TABLES } else { 0 }, profile.quality()]);
        strip(&self.file[..len], own_tables, out).is_some()
    }

    /// Writes a JPEG file to `file`, and returns its length.
    fn compress(
        &mut self,
        rect: &Rect,
        snapshot: &Snapshot,
        profile: JpegProfile,
    ) -> turbojpeg::Result<usize> {
        let (width, height) = (rect.width() as usize, rect.height() as usize);
        self.pixels.resize(width * height * 4, 0);
        for (to, row) in self.pixels.chunks_exact_mut(width * 4).zip(snapshot.rows(rect)) {
            for (to, pixel) in to.as_chunks_mut::<4>().0.iter_mut().zip(row) {
                *to = pixel.to_le_bytes();
            }
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new()?),
        };
        compressor.set_quality(profile.quality().into())?;
        compressor.set_subsamp(profile.sampling().1)?;
        compressor.set_optimize(profile.own_tables(rect))?;
        let bound = compressor.buf_len(width, height)?;
        if self.file.len() < bound {
            self.file.resize(bound, 0);
        }
        let image = Image {
            pixels: &self.pixels[..],
            width,
            pitch: width * 4,
            height,
            format: PixelFormat::BGRX,
        };
        compressor.compress_to_slice(image, &mut self.file)
    }
}

/// Appends the parts of a JPEG file of libjpeg-turbo that a viewer needs: its own Huffman tables,
/// if any, and its scan.
fn strip(file: &[u8], own_tables: bool, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = file.strip_prefix(&[0xff, START])?;
    loop {
        let [0xff, marker, high, low, ..] = *rest else { return None };
        let (segment, after) =
            rest[2..].split_at_checked(u16::from_be_bytes([high, low]).into())?;
        rest = after;
        match marker {
            // The segments have the order of the encoding: DC and AC of luma, DC and AC of chroma.
            HUFFMAN if own_tables => out.extend_from_slice(segment.get(3..)?),
            SCAN => break,
            _ => {}
        }
    }
    out.extend_from_slice(rest.strip_suffix(&[0xff, END])?);
    Some(())
}

/// Markers of T.81, table B.1, after 0xff.
const START: u8 = 0xd8;
const END: u8 = 0xd9;
const HUFFMAN: u8 = 0xc4;
const SCAN: u8 = 0xda;

#[cfg(test)]
mod tests {
    use thinc_codec_dec::jpeg::{STANDARD_TABLES, quantization};
    use thinc_codec_dec::{Decoder, RGB};
    use thinc_protocol::command::Encoding;

    use super::*;

    const PROFILES: [JpegProfile; 3] = [JpegProfile::High, JpegProfile::Medium, JpegProfile::Low];

    /// A synthetic photograph: smooth gradients with a little noise.
    fn photograph(width: i32, height: i32, seed: u32) -> Snapshot {
        let mut snapshot = Snapshot::new();
        let rect = Rect::at(3, 5, width, height);
        snapshot.fill(&rect.into(), |rect, to, stride| {
            let mut noise = seed | 1;
            for y in 0..rect.height() {
                for x in 0..rect.width() {
                    noise = noise.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
                    let (fx, fy) = (x as f32 / 23.0 + seed as f32, y as f32 / 31.0);
                    let wave = |phase: f32| {
                        (127.0 + 110.0 * (fx + phase).sin() * (fy - phase).cos()) as u32
                    };
                    let channel =
                        |phase: f32, shift: u32| (wave(phase) + (noise >> shift & 7)).min(255);
                    to[y as usize * stride + x as usize] = 0xab00_0000
                        | channel(0.0, 9) << 16
                        | channel(0.4, 14) << 8
                        | channel(1.9, 20);
                }
            }
        });
        snapshot
    }

    fn encoded(snapshot: &Snapshot, profile: JpegProfile) -> Vec<u8> {
        let mut out = vec![1, 2, 3];
        assert!(Photographs::default().encode(
            &snapshot.region().extents(),
            snapshot,
            profile,
            &mut out
        ));
        out
    }

    fn decoded(data: &[u8], width: usize, height: usize) -> Vec<u32> {
        let mut pixels = vec![0; width * height];
        Decoder::new()
            .raw(Encoding::Jpeg, data, (width, height), &mut pixels, width)
            .expect("the image must decode");
        pixels
    }

    /// A complete JPEG file with an image's scan.
    fn file(data: &[u8], width: usize, height: usize) -> Vec<u8> {
        let (head, quality) = (data[0], data[1]);
        let mut rest = &data[2..];
        let mut file = vec![0xff, START];
        for (i, table) in (0..).zip(quantization(quality)) {
            file.extend([0xff, 0xdb, 0, 67, i]);
            file.extend(table);
        }
        let [high, low] = (height as u16).to_be_bytes();
        let [left, right] = (width as u16).to_be_bytes();
        let sampling = [0x11, 0x21, 0x22][usize::from(head & 3)];
        file.extend([
            0xff, 0xc0, 0, 17, 8, high, low, left, right, 3, 1, sampling, 0, 2, 0x11, 1, 3, 0x11, 1,
        ]);
        let mut tables = if head & OWN_TABLES != 0 { rest } else { &STANDARD_TABLES };
        for class in [0, 0x10, 1, 0x11] {
            let len = 16 + tables[..16].iter().map(|&count| usize::from(count)).sum::<usize>();
            file.extend([0xff, HUFFMAN]);
            file.extend((len as u16 + 3).to_be_bytes());
            file.push(class);
            file.extend(&tables[..len]);
            tables = &tables[len..];
        }
        if head & OWN_TABLES != 0 {
            rest = tables;
        }
        file.extend([0xff, SCAN, 0, 12, 3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0]);
        file.extend(rest);
        file.extend([0xff, END]);
        file
    }

    #[test]
    fn decoded_pixels_equal_those_of_libjpeg_turbo() {
        for (width, height) in
            [(64, 64), (300, 200), (97, 61), (16, 16), (1, 1), (5, 200), (211, 7)]
        {
            for profile in PROFILES {
                let snapshot = photograph(width, height, 7);
                let data = encoded(&snapshot, profile);
                let (width, height) = (width as usize, height as usize);
                let own = decoded(&data, width, height);
                let theirs = turbojpeg::decompress(&file(&data, width, height), PixelFormat::BGRX)
                    .expect("a JPEG file");
                // Up to two chroma samples per row libjpeg-turbo repeats instead of interpolating.
                if width > 4 || profile == JpegProfile::High {
                    let theirs = theirs
                        .pixels
                        .as_chunks::<4>()
                        .0
                        .iter()
                        .map(|&pixel| u32::from_le_bytes(pixel) & RGB);
                    assert!(
                        own.iter().map(|pixel| pixel & RGB).eq(theirs),
                        "{width}x{height} {profile:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_photograph_is_similar_and_small() {
        let (width, height) = (320, 240);
        let snapshot = photograph(width, height, 3);
        for (profile, error_max, bytes_max) in [
            (JpegProfile::High, 2.5, 60_000),
            (JpegProfile::Medium, 4.0, 16_000),
            (JpegProfile::Low, 6.0, 4_000),
        ] {
            let data = encoded(&snapshot, profile);
            let pixels = decoded(&data, width as usize, height as usize);
            let rect = snapshot.region().extents();
            let source = snapshot.rows(&rect).flatten();
            let difference = |a: u32, b: u32| -> u32 {
                a.to_le_bytes()
                    .into_iter()
                    .zip(b.to_le_bytes())
                    .take(3)
                    .map(|(a, b)| u32::from(a.abs_diff(b)))
                    .sum()
            };
            let sum: u32 = pixels.iter().zip(source).map(|(&a, &b)| difference(a, b)).sum();
            let error = f64::from(sum) / (pixels.len() * 3) as f64;
            assert!(
                error < error_max && data.len() < bytes_max,
                "{profile:?}: {error:.2} a channel, {} bytes",
                data.len()
            );
        }
    }

    #[test]
    fn truncated_extended_and_damaged_data_is_an_error_or_an_image() {
        for profile in PROFILES {
            let data = encoded(&photograph(70, 70, 5), profile);
            let mut pixels = vec![0; 70 * 70];
            let mut decoder = Decoder::new();
            let mut decode =
                |data: &[u8]| decoder.raw(Encoding::Jpeg, data, (70, 70), &mut pixels, 70);
            for len in 0..data.len() {
                assert!(
                    decode(&data[..len]).is_err(),
                    "{profile:?} cut to {len} of {}",
                    data.len()
                );
            }
            for more in [&[0][..], &[0xff, 0], &[0xff, END], &[1, 2, 3, 4, 5]] {
                assert!(decode(&[&data[..], more].concat()).is_err(), "{profile:?} and {more:x?}");
            }
            for (len, size) in [(70, (70, 60)), (70, (60, 70)), (70, (70, 90)), (70, (90, 70))] {
                let mut pixels = vec![0; size.0 * size.1];
                let result = Decoder::new().raw(Encoding::Jpeg, &data, size, &mut pixels, size.0);
                assert!(result.is_err(), "{profile:?} of {len} as {size:?}");
            }
        }
    }
}
