//! Both ends of a stream: the output of each encoder in the build is what the protocol allows; the
//! decoder returns frames of the stream's size or errors.
#![cfg(all(any(feature = "openh264", feature = "x264"), feature = "decoder"))]

use proptest::prelude::*;
use thinc_h264::{
    Codes, DecodeError, Decoder, EncodeError, Encoded, Encoder, EncoderSettings, Library, check,
    check_yuv444, coded_size, fits,
};
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef, SampleLayout, to_420};

const SIZE: Size = Size { width: 176, height: 144 };

/// A gradient that moves to the left, with constant noise.
fn frame(size: Size, layout: SampleLayout, time: usize, out: &mut Planes) {
    out.reset(size, layout);
    let widths = [0, 1, 2].map(|plane| out.as_ref().plane_size(plane).width as usize);
    for (plane, data) in out.planes_mut().into_iter().enumerate() {
        for (i, sample) in data.iter_mut().enumerate() {
            let (x, y) = (i % widths[plane], i / widths[plane]);
            let grain = ((x * 7919) ^ (y * 104_729)) % 8;
            *sample = (40 + (x + time * 2 + y / 2) % 160 + grain) as u8;
        }
    }
}

fn settings(size: Size, bits_per_second: u64) -> EncoderSettings {
    EncoderSettings { size, bits_per_second, frames_per_second: 24 }
}

/// Encodes frames one by one, the ones in `keys` as keyframes.
fn encode(
    encoder: &mut Encoder,
    size: Size,
    times: std::ops::Range<usize>,
    keys: &[usize],
) -> Vec<(bool, Vec<u8>)> {
    let mut planes = Planes::new();
    times
        .map(|time| {
            frame(size, SampleLayout::Yuv420, time, &mut planes);
            let mut unit = Vec::new();
            let encoded =
                encoder.encode(&planes.as_ref(), keys.contains(&time), &mut unit).unwrap();
            (encoded.keyframe, unit)
        })
        .collect()
}

/// Units of a byte stream: type and bytes.
fn units(data: &[u8]) -> Vec<(u8, &[u8])> {
    let starts: Vec<usize> =
        (0..data.len().saturating_sub(2)).filter(|&i| data[i..].starts_with(&[0, 0, 1])).collect();
    let ends = starts.iter().skip(1).copied().chain([data.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| (data[start + 3] & 0x1f, &data[start + 3..end]))
        .collect()
}

fn mean_square(a: &Planes, b: &Planes) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.as_ref().rows(0).zip(b.as_ref().rows(0)) {
        sum += a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>();
    }
    sum / a.size().area() as f64
}

#[test]
fn encoders_have_names_and_the_first_is_the_default() {
    for &library in Library::ALL {
        assert_eq!(library.name().parse(), Ok(library));
    }
    assert_eq!(Library::default(), Library::ALL[0]);
    #[cfg(feature = "openh264")]
    assert_eq!(Library::default().name(), "openh264");
    assert_eq!(
        "h265".parse::<Library>().unwrap_err().to_string(),
        "this program has no encoder h265"
    );
}

#[test]
fn keyframes_are_made_on_request_and_no_frame_is_delayed() {
    Library::ALL.iter().for_each(|&library| check_keyframes(library));
}

fn check_keyframes(library: Library) {
    let mut encoder = Encoder::with(library, settings(SIZE, 800_000)).unwrap();
    let mut decoder = Decoder::new(SIZE).unwrap();
    let (mut shown, mut expected) = (Planes::new(), Planes::new());
    // Every fortieth frame is a new scene, which is no reason for a keyframe.
    for time in 0..200 {
        let scene = time + 1000 * (time / 40);
        frame(SIZE, SampleLayout::Yuv420, scene, &mut expected);
        if (time / 40) % 2 == 1 {
            expected.data_mut().iter_mut().for_each(|sample| *sample = 250 - *sample);
        }
        let mut unit = Vec::new();
        let encoded = encoder.encode(&expected.as_ref(), time == 90, &mut unit).unwrap();
        assert_eq!(encoded.keyframe, time == 0 || time == 90, "frame {time} of {library:?}");
        decoder.decode(&unit, &mut shown).unwrap();
        let error = mean_square(&shown, &expected);
        assert!(
            error < 150.0 || time % 40 < 5,
            "frame {time} of {library:?} differs by {error} from the source: another frame"
        );
    }
}

#[test]
fn units_are_those_of_constrained_baseline() {
    for &library in Library::ALL {
        let mut encoder = Encoder::with(library, settings(SIZE, 500_000)).unwrap();
        for (key, unit) in encode(&mut encoder, SIZE, 0..30, &[13]) {
            let units = units(&unit);
            let kinds: Vec<u8> = units.iter().map(|(kind, _)| *kind).collect();
            assert_eq!(kinds, if key { vec![7, 8, 5] } else { vec![1] }, "{library:?}");
            if key {
                let sequence = units[0].1;
                assert_eq!(
                    (sequence[1], sequence[2] & 0x40),
                    (66, 0x40),
                    "profile and its constraint"
                );
            }
        }
    }
}

#[test]
fn a_rate_is_kept_and_changes_without_a_keyframe() {
    Library::ALL.iter().for_each(|&library| check_rates(library));
}

fn check_rates(library: Library) {
    let size = Size { width: 352, height: 240 };
    let mut encoder = Encoder::with(library, settings(size, 300_000)).unwrap();
    let mut planes = Planes::new();
    let mut state = 1u64;
    let mut at = |bits: u64, frames: u32, encoder: &mut Encoder| {
        encoder.set_rate(bits, frames);
        let mut taken = 0;
        for second in 0..4 {
            for time in 0..frames as usize {
                frame(size, SampleLayout::Yuv420, time, &mut planes);
                // Unpredictable noise, which can always use more bits.
                for sample in planes.data_mut() {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    *sample = sample.wrapping_add((state >> 59) as u8);
                }
                let mut unit = Vec::new();
                let encoded = encoder.encode(&planes.as_ref(), false, &mut unit).unwrap();
                assert!(!encoded.keyframe || taken == 0, "no keyframe without a request");
                // The rate control settles in the first second.
                taken += if second == 0 { 0 } else { 8 * unit.len() as u64 };
            }
        }
        taken / 3
    };
    encode_first(&mut encoder, size);
    for (bits, frames) in [
        (400_000, 24),
        (1_600_000, 24),
        (300_000, 24),
        (3_000_000, 24),
        (800_000, 10),
        (800_000, 50),
    ] {
        let taken = at(bits, frames, &mut encoder);
        let wanted = bits * 7 / 10..bits * 13 / 10;
        assert!(
            wanted.contains(&taken),
            "{library:?}: {taken} bits per second for {bits} and {frames} frames"
        );
    }
}

/// The first frame is a keyframe in any case.
fn encode_first(encoder: &mut Encoder, size: Size) {
    assert!(encode(encoder, size, 0..1, &[])[0].0);
}

#[test]
fn odd_sizes_and_other_layouts_round_trip() {
    for (width, height) in [(17, 16), (177, 143), (352, 241), (33, 98)] {
        let layouts = [SampleLayout::Yuv420, SampleLayout::Yuv422, SampleLayout::Yuv444];
        for (&library, layout) in
            Library::ALL.iter().flat_map(|library| layouts.map(|layout| (library, layout)))
        {
            let size = Size { width, height };
            let mut encoder = Encoder::with(library, settings(size, 2_000_000)).unwrap();
            let mut decoder = Decoder::new(size).unwrap();
            let (mut planes, mut shown) = (Planes::new(), Planes::new());
            for time in 0..5 {
                frame(size, layout, time, &mut planes);
                let mut unit = Vec::new();
                encoder.encode(&planes.as_ref(), false, &mut unit).unwrap();
                decoder.decode(&unit, &mut shown).unwrap();
            }
            assert_eq!(shown.size(), coded_size(size));
            let mut error = 0.0;
            for (is, was) in shown.as_ref().rows(0).zip(planes.as_ref().rows(0)) {
                error += is
                    .iter()
                    .zip(was)
                    .map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2))
                    .sum::<f64>();
            }
            let error = error / size.area() as f64;
            assert!(error < 60.0, "{library:?}, {width} by {height}: {error}");
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    for (width, height) in [(15, 100), (100, 15), (3842, 100), (2162, 2162), (8192, 8192), (0, 0)] {
        let size = Size { width, height };
        assert!(!fits(size));
        assert_eq!(Encoder::new(settings(size, 1)).unwrap_err(), EncodeError::Size(size));
        assert_eq!(Decoder::new(size).unwrap_err(), DecodeError::Size(size));
    }
    let mut encoder = Encoder::new(settings(SIZE, 1)).unwrap();
    let mut other = Planes::new();
    other.reset(Size { width: 178, height: 144 }, SampleLayout::Yuv420);
    assert!(matches!(
        encoder.encode(&other.as_ref(), false, &mut Vec::new()),
        Err(EncodeError::OtherSize(..))
    ));
}

/// A frame that refers to a missing one is an error, and so are all after it up to a keyframe.
#[test]
fn after_an_error_only_a_keyframe_decodes() {
    Library::ALL.iter().for_each(|&library| check_only_keyframes_decode(library));
}

fn check_only_keyframes_decode(library: Library) {
    let mut encoder = Encoder::with(library, settings(SIZE, 800_000)).unwrap();
    let units = encode(&mut encoder, SIZE, 0..12, &[9]);
    let mut decoder = Decoder::new(SIZE).unwrap();
    let mut shown = Planes::new();
    assert_eq!(decoder.decode(&units[1].1, &mut shown), Err(DecodeError::NoKeyframe));
    decoder.decode(&units[0].1, &mut shown).unwrap();
    decoder.decode(&units[1].1, &mut shown).unwrap();
    let before = shown.clone();
    assert!(decoder.decode(b"what is this", &mut shown).is_err());
    assert_eq!(shown, before, "the last frame must stay");
    for (_, unit) in &units[2..9] {
        assert_eq!(decoder.decode(unit, &mut shown), Err(DecodeError::NoKeyframe));
    }
    for (_, unit) in &units[9..] {
        decoder.decode(unit, &mut shown).unwrap();
    }
}

/// A gap in the frame numbers is an error, and not concealed.
#[test]
fn a_lost_frame_is_an_error() {
    for &library in Library::ALL {
        let mut encoder = Encoder::with(library, settings(SIZE, 800_000)).unwrap();
        let units = encode(&mut encoder, SIZE, 0..8, &[]);
        let mut decoder = Decoder::new(SIZE).unwrap();
        let mut shown = Planes::new();
        for (_, unit) in &units[..3] {
            decoder.decode(unit, &mut shown).unwrap();
        }
        assert!(decoder.decode(&units[4].1, &mut shown).is_err(), "{library:?}");
    }
}

/// A stream that declares a larger size is refused before the library allocates memory for it.
#[test]
fn frames_larger_than_the_stream_are_refused() {
    let sizes =
        [(SIZE, Size { width: 3840, height: 2160 }), (Size { width: 640, height: 480 }, SIZE)];
    for (&library, (size, other)) in
        Library::ALL.iter().flat_map(|library| sizes.map(|sizes| (library, sizes)))
    {
        let mut encoder = Encoder::with(library, settings(other, 800_000)).unwrap();
        let (_, unit) = encode(&mut encoder, other, 0..1, &[]).remove(0);
        let mut decoder = Decoder::new(size).unwrap();
        let refused = decoder.decode(&unit, &mut Planes::new());
        assert_eq!(
            refused,
            Err(DecodeError::OtherSize { width: other.width, height: other.height })
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Flipped bits and missing, repeated or foreign units yield an error or a frame of the
    /// stream's size.
    #[test]
    fn damaged_units_yield_errors_or_frames(
        library in prop::sample::select(Library::ALL),
        damage in prop::collection::vec(
            (0..10usize, any::<prop::sample::Index>(), 0..8u32, 0..4u8),
            1..8,
        ),
    ) {
        let mut encoder = Encoder::with(library, settings(SIZE, 600_000)).unwrap();
        let encoded = encode(&mut encoder, SIZE, 0..10, &[5]);
        let mut units: Vec<Vec<u8>> = encoded.into_iter().map(|(_, unit)| unit).collect();
        for (which, at, bit, how) in damage {
            let other = units[(which + 3) % 10].clone();
            let unit = &mut units[which];
            if unit.is_empty() {
                continue;
            }
            let at = at.index(unit.len());
            match how {
                0 => unit[at] ^= 1 << bit,
                1 => unit.truncate(at),
                2 => { unit.drain(..at); }
                _ => unit.splice(at..at, other).for_each(drop),
            }
        }
        let mut decoder = Decoder::new(SIZE).unwrap();
        let mut shown = Planes::new();
        for unit in &units {
            if decoder.decode(unit, &mut shown).is_ok() {
                prop_assert_eq!((shown.size(), shown.layout()), (SIZE, SampleLayout::Yuv420));
            }
        }
    }
}

/// A keyframe of x264's of the profile High 4:4:4 Predictive.
const YUV444: &[u8] = include_bytes!("../../viewer-native/src/video_decoding/h264-yuv444.bin");
const YUV444_SIZE: Size = Size { width: 256, height: 256 };

#[test]
fn each_profile_is_accepted_where_it_is_expected_and_only_there() {
    assert!(check_yuv444(YUV444, YUV444_SIZE).unwrap().is_keyframe);
    assert_eq!(check(YUV444, YUV444_SIZE), Err(DecodeError::Unsupported("a profile")));
    let mut encoder = Encoder::new(settings(SIZE, 800_000)).unwrap();
    for (keyframe, unit) in encode(&mut encoder, SIZE, 0..2, &[]) {
        assert_eq!(check(&unit, SIZE).unwrap().is_keyframe, keyframe);
        let checked = check_yuv444(&unit, SIZE);
        // What refers to a keyframe says nothing of its profile.
        assert_eq!(checked.is_err(), keyframe, "{checked:?}");
    }
    let other = Size { width: 256, height: 254 };
    let Size { width, height } = YUV444_SIZE;
    assert_eq!(check_yuv444(YUV444, other), Err(DecodeError::OtherSize { width, height }));
}

#[test]
fn what_no_frame_of_4_4_4_may_have_is_found() {
    // Behind the level are: the set's number, the format of chroma, separate planes, the depth of
    // luma; then the depth of chroma, lossless macroblocks, matrices.
    assert_eq!(YUV444[7..10], [0x0d, 0x91, 0x96]);
    let with = |at: usize, byte: u8| {
        let mut unit = YUV444.to_vec();
        unit[at] = byte;
        check_yuv444(&unit, YUV444_SIZE).map(|unit| unit.is_keyframe)
    };
    assert_eq!(with(9, 0xd6), Ok(true), "lossless macroblocks");
    for (at, byte, what) in [
        (5, 110, DecodeError::Unsupported("a profile")),
        (8, 0x93, DecodeError::Unsupported("a format of chroma")),
        (8, 0x90, DecodeError::Malformed("a depth of luma")),
        (9, 0x16, DecodeError::Malformed("a depth of chroma")),
        (9, 0xb6, DecodeError::Unsupported("matrices of quantizers")),
    ] {
        assert_eq!(with(at, byte), Err(what), "{at}: {byte:#x}");
    }
    // Ends of picture parameter sets, behind the flag of redundant pictures: nothing more, 8 × 8
    // transforms, and matrices; with all their zeros.
    let parameters = YUV444.windows(4).position(|bytes| bytes == [0, 0, 1, 0x68]).unwrap() + 3;
    let picture = |end: u8| {
        // Numbers 0; CAVLC; one group of slices; one reference; no prediction; quantizers 0;
        // three flags 0: 1 1 0 0 1 1 1 0 | 00 1 1 1 0 0 0, and then the end.
        let body = [0x68, 0b1100_1110, 0b0011_1000, end];
        let mut unit = YUV444[..parameters].to_vec();
        unit.extend(body);
        unit.extend(&YUV444[YUV444.windows(4).rposition(|b| b == [0, 0, 1, 0x65]).unwrap()..]);
        check_yuv444(&unit, YUV444_SIZE).map(|unit| unit.is_keyframe)
    };
    let matrices = Err(DecodeError::Unsupported("matrices of quantizers"));
    assert_eq!(picture(0b1000_0000), Ok(true), "nothing");
    assert_eq!(picture(0b0011_0000), Ok(true), "three fields, and the end");
    assert_eq!(picture(0b1011_0000), Ok(true), "transforms of 8 x 8");
    assert_eq!(picture(0b0111_0000), matrices);
    assert_eq!(picture(0b0100_0000), matrices, "the end would be its flag");
    let slice = YUV444.windows(4).rposition(|bytes| bytes == [0, 0, 1, 0x65]).unwrap();
    for cut in 0..slice {
        assert!(check_yuv444(&YUV444[..cut], YUV444_SIZE).is_err(), "cut to {cut}");
    }
    // Whatever one wrong bit makes of the headers, it is read to an end.
    for (at, byte) in YUV444.iter().enumerate().take(slice) {
        for bit in 0..8 {
            let _ = with(at, byte ^ 1 << bit);
        }
    }
}

/// Writes the frames that it is given.
struct Written;

impl Codes for Written {
    fn encode(
        &mut self,
        frame: &PlanesRef<'_>,
        _settings: &EncoderSettings,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError> {
        frame.write_packed(out);
        Ok(Encoded { keyframe })
    }
}

#[test]
fn an_encoder_gets_frames_of_its_layout_with_even_edges() {
    let odd = Size { width: 33, height: 17 };
    let (mut full, mut half, mut out) = (Planes::new(), Planes::new(), Vec::new());
    frame(odd, SampleLayout::Yuv444, 3, &mut full);
    to_420(&full.as_ref(), &mut half);
    let by = |layout| Encoder::by(Box::new(Written), settings(odd, 800_000), layout).unwrap();
    by(SampleLayout::Yuv444).encode(&full.as_ref(), true, &mut out).unwrap();
    let even = coded_size(odd);
    let padded = PlanesRef::packed(even, SampleLayout::Yuv444, &out).expect("34 x 18 samples");
    for plane in 0..3 {
        for (y, row) in padded.rows(plane).enumerate() {
            let expected = full.as_ref().row(plane, y.min(16));
            assert_eq!((&row[..33], row[33]), (expected, expected[32]), "plane {plane}, row {y}");
        }
    }
    let mut halved = [Vec::new(), Vec::new()];
    for (frame, out) in [&full, &half].into_iter().zip(&mut halved) {
        by(SampleLayout::Yuv420).encode(&frame.as_ref(), true, out).unwrap();
    }
    assert_eq!(halved[0], halved[1], "chroma is averaged for who does not take all of it");
    let refused = by(SampleLayout::Yuv444).encode(&half.as_ref(), true, &mut out);
    assert_eq!(refused, Err(EncodeError::OtherLayout));
}
