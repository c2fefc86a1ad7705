//! What a codec is here, and which there are.
//! Between the measurements and each codec. Knows pixels and bytes; never clocks.

use thinc_bench::Error;

use crate::samples::Sample;
use crate::{images, thinc, tight, zlib};

/// Both ends of a connection: what encoded and what decodes. A new one has seen nothing.
///
/// Pixels are `0x00RRGGBB` in a framebuffer of four bytes each. What a codec wants them as, it makes of them itself, in the time
/// that is measured: every display system has to.
pub(crate) trait Codec {
    /// Replaces `out` with one picture; those before it may be leant on.
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Decodes what was encoded, in the same order, into `pixels`, which has room for exactly this picture; the byte that means
    /// nothing may come out as anything.
    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error>;
}

/// A codec that can be asked for.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) new: fn() -> Box<dyn Codec>,
}

/// Every codec, thinc's first, in the order of tables.
#[rustfmt::skip] // A table is read by its columns.
pub(crate) fn all() -> Vec<Entry> {
    let entry = |name, about, new| Entry { name, about, new };
    vec![
        entry("thinc-none", "thinc, operations alone (links of 300 Mbit/s and more)", || Box::new(thinc::Thinc::plain())),
        entry("thinc-stream-1", "thinc, then one zstd-1 context (20 to 300 Mbit/s)", || Box::new(thinc::Thinc::stream(1))),
        entry("thinc-stream-3", "thinc, then one zstd-3 context (below 20 Mbit/s)", || Box::new(thinc::Thinc::stream(3))),
        entry("thinc-block-1", "thinc, each picture by itself with zstd-1 (unordered)", || Box::new(thinc::Thinc::block(1))),
        entry("thinc-block-3", "thinc, each picture by itself with zstd-3 (unordered)", || Box::new(thinc::Thinc::block(3))),
        entry("zlib-1-stream", "three bytes a pixel, zlib's level 1, one context (Tight and ZRLE pack so)", || Box::new(zlib::Zlib::new())),
        entry("zlib-ng-1-stream", "the same with the level 1 of zlib-ng (zlib-rs), which is faster and larger", || Box::new(zlib::ZlibNg::new())),
        entry("tight-like", "palettes of 2 and of 96 colours, else three bytes, a zlib-1 context for each", || Box::new(tight::Tight::new())),
        entry("qoi", "Quite OK Image", || Box::new(images::Qoi::default())),
        entry("png-fast", "PNG with adaptive filters and the fastest deflate", || Box::new(images::Png::default())),
        entry("webp-lossless", "libwebp, lossless, its fastest method", || Box::new(images::WebP::default())),
        entry("jxl-fast", "JPEG XL lossless, effort 1 (zune-jpegxl; decoded by jxl-oxide)", || Box::new(images::Jxl::default())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::testing;

    #[test]
    fn every_codec_gives_back_what_it_was_given() {
        let samples = testing::samples();
        for entry in all() {
            let (mut encoder, mut decoder) = ((entry.new)(), (entry.new)());
            let mut bytes = Vec::new();
            for (number, sample) in samples.iter().enumerate() {
                encoder.encode(sample, &mut bytes).unwrap();
                let mut pixels = vec![0; sample.pixels.len()];
                decoder.decode(&bytes, sample.width, sample.height, &mut pixels).unwrap();
                assert!(sample.equals(&pixels), "{}, picture {number}", entry.name);
            }
        }
    }

    #[test]
    fn streams_remember_and_blocks_do_not() {
        // Which of the samples repeats nothing within itself.
        const NOISE: usize = 3;
        let samples = testing::samples();
        let twice = |name: &str| {
            let entry = all().into_iter().find(|entry| entry.name == name).unwrap();
            let (mut codec, mut first, mut second) = ((entry.new)(), Vec::new(), Vec::new());
            codec.encode(&samples[NOISE], &mut first).unwrap();
            codec.encode(&samples[NOISE], &mut second).unwrap();
            (first.len(), second.len())
        };
        for name in ["thinc-stream-1", "zlib-1-stream", "zlib-ng-1-stream", "tight-like"] {
            let (first, second) = twice(name);
            assert!(second * 2 < first, "{name}: {first} bytes, then {second}");
        }
        for name in ["thinc-none", "thinc-block-1", "qoi", "png-fast", "webp-lossless", "jxl-fast"] {
            let (first, second) = twice(name);
            assert_eq!(first, second, "{name}");
        }
    }
}
