//! The video decoder: two access units, one after another, become frames of the stream's size or
//! are errors. Beside the path. The decoder is C++ (doc/security.md); this tests what passes the
//! checks before it. Knows the public interfaces only.

use thinc_h264::{Decoder, Encoder, EncoderSettings, coded_size};
use thinc_region::Size;
use thinc_video::{Planes, SampleLayout};

const SIZE: Size = Size { width: 48, height: 33 };
/// Separates the access units; no unit of Annex B contains it.
const SEPARATOR: [u8; 4] = [0, 0, 0, 0];

/// A keyframe, four zeros, and a frame that refers to it.
pub fn access_units(input: &[u8]) {
    decode(input);
}

/// The number of decoded frames.
fn decode(input: &[u8]) -> usize {
    let at = input.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
    let (first, second) =
        at.map_or((input, &[][..]), |at| (&input[..at], &input[at + SEPARATOR.len()..]));
    let mut decoder = Decoder::new(SIZE).expect("the size fits");
    let mut shown = Planes::new();
    let mut decoded = 0;
    for unit in [first, second] {
        if decoder.decode(unit, &mut shown).is_ok() {
            assert_eq!((shown.size(), shown.layout()), (coded_size(SIZE), SampleLayout::Yuv420));
            decoded += 1;
        }
    }
    decoded
}

/// The encoder's output for two frames.
pub fn access_units_seeds() -> Vec<Vec<u8>> {
    let settings = EncoderSettings { size: SIZE, bits_per_second: 200_000, frames_per_second: 24 };
    let mut encoder = Encoder::new(settings).expect("the size fits");
    let mut planes = Planes::new();
    planes.reset(SIZE, SampleLayout::Yuv420);
    let mut encode = |time: usize| {
        for (i, sample) in planes.data_mut().iter_mut().enumerate() {
            *sample = (i * 3 + time * 11) as u8;
        }
        let mut unit = Vec::new();
        encoder
            .encode(&planes.as_ref(), false, &mut unit)
            .expect("the frame has the stream's size");
        unit
    };
    // Start codes of four bytes begin with three zeros: the separator would be found too early.
    let seed = [encode(0), SEPARATOR.to_vec(), encode(1)].concat();
    assert_eq!(decode(&seed), 2, "the seed must decode to two frames");
    vec![seed]
}
