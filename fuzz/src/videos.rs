//! The decoder of a stream's pictures: two access units, one after another, become pictures of the stream's size or are errors.
//! Beside the path. What is behind the door is C++ (doc/security.md): what gets through to it is what this asks about.
//! Knows the public interfaces only.

use thinc_h264::{Decoder, Encoder, EncoderSettings, coded_size};
use thinc_region::Size;
use thinc_video::{Layout, Planes};

const SIZE: Size = Size { width: 48, height: 33 };
/// Ends the first access unit; no unit of Annex B holds it.
const BETWEEN: [u8; 4] = [0, 0, 0, 0];

/// A key, four zeros, and a picture that leans on it.
pub fn access_units(input: &[u8]) {
    decode(input);
}

/// How many became pictures.
fn decode(input: &[u8]) -> usize {
    let at = input.windows(BETWEEN.len()).position(|window| window == BETWEEN);
    let (first, second) = at.map_or((input, &[][..]), |at| (&input[..at], &input[at + BETWEEN.len()..]));
    let mut decoder = Decoder::new(SIZE).expect("the size fits");
    let mut shown = Planes::new();
    let mut decoded = 0;
    for unit in [first, second] {
        if decoder.decode(unit, &mut shown).is_ok() {
            assert_eq!((shown.size(), shown.layout()), (coded_size(SIZE), Layout::Yuv420));
            decoded += 1;
        }
    }
    decoded
}

/// What the encoder makes of two pictures.
pub fn access_units_seeds() -> Vec<Vec<u8>> {
    let settings = EncoderSettings { size: SIZE, bits_per_second: 200_000, frames_per_second: 24 };
    let mut encoder = Encoder::new(settings).expect("the size fits");
    let mut planes = Planes::new();
    planes.reset(SIZE, Layout::Yuv420);
    let mut encode = |time: usize| {
        for (i, sample) in planes.data_mut().iter_mut().enumerate() {
            *sample = (i * 3 + time * 11) as u8;
        }
        let mut unit = Vec::new();
        encoder.encode(&planes.as_ref(), false, &mut unit).expect("a picture of the stream's size");
        unit
    };
    // Start codes of four bytes begin with three zeros, and four would be found in the wrong place.
    let seed = [encode(0), BETWEEN.to_vec(), encode(1)].concat();
    assert_eq!(decode(&seed), 2, "the seed is two pictures");
    vec![seed]
}
