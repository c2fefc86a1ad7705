//! The video decoder: two access units, one after another, become frames of the stream's size or
//! are errors. Beside the path. The decoder is C++ (doc/security.md); this tests what passes the
//! checks before it. Knows the public interfaces only.

use thinc_gpu_video::av1;
use thinc_h264::{Decoder, Encoder, EncoderSettings, check, check_yuv444, coded_size};
use thinc_region::Size;
use thinc_video::{Planes, SampleLayout};

const SIZE: Size = Size { width: 48, height: 33 };
/// Separates the access units; no unit of Annex B contains it.
const SEPARATOR: [u8; 4] = [0, 0, 0, 0];

/// A keyframe, four zeros, and a frame that refers to it.
pub fn access_units(input: &[u8]) {
    decode(input);
}

/// A temporal unit of AV1, whose headers are checked before a graphics processor's decoder gets it.
pub fn av1_units(input: &[u8]) {
    let units: Vec<_> = av1::obus(input).collect();
    let read: Vec<u8> = units.iter().flatten().flat_map(|obu| obu.bytes()).copied().collect();
    assert!(input.starts_with(&read), "a unit is not what was read");
    assert!(units.iter().rev().skip(1).all(Result::is_ok), "something follows an error");
    if av1::check(input, GREY_SIZE).is_ok() {
        assert_eq!(read, input, "all of it was read");
    }
}

/// An access unit with chroma of full resolution, whose headers are checked before another library
/// gets it.
pub fn yuv444_units(input: &[u8]) {
    let is_keyframe = |checked: Result<thinc_h264::AccessUnit, _>| match checked {
        Ok(unit) => unit.is_keyframe,
        Err::<_, thinc_h264::DecodeError>(_) => false,
    };
    let both = is_keyframe(check_yuv444(input, GREY_SIZE)) && is_keyframe(check(input, GREY_SIZE));
    assert!(!both, "a keyframe of two profiles");
}

/// A keyframe of x264's.
pub fn yuv444_units_seeds() -> Vec<Vec<u8>> {
    let key =
        include_bytes!("../../../crates/viewer-native/src/video_decoding/h264-yuv444.bin").to_vec();
    assert!(check_yuv444(&key, GREY_SIZE).is_ok_and(|unit| unit.is_keyframe));
    vec![key]
}

const GREY_SIZE: Size = Size { width: 256, height: 256 };

/// A keyframe of libaom's; the same without its sequence header; and a frame that refers to it.
pub fn av1_units_seeds() -> Vec<Vec<u8>> {
    const DELIMITER: [u8; 2] = [0x12, 0];
    const SEQUENCE: [u8; 13] = [0x0a, 0x0b, 0, 0, 0, 3, 0xbf, 0xff, 0xf9, 0xb5, 0xf2, 0, 0x80];
    const KEY: [u8; 6] = [0x32, 4, 0x10, 0, 0x84, 0];
    const NEXT: [u8; 6] = [0x32, 4, 0x30, 3, 0x80, 0x80];
    let key = [&DELIMITER[..], &SEQUENCE, &KEY].concat();
    let next = [&DELIMITER[..], &NEXT].concat();
    assert!(av1::check(&key, GREY_SIZE).is_ok_and(|unit| unit.is_keyframe));
    assert!(av1::check(&next, GREY_SIZE).is_ok_and(|unit| !unit.is_keyframe));
    vec![key, [&DELIMITER[..], &KEY].concat(), next]
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
