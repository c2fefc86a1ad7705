//! Both ends of a stream: what leaves an encoder, each that was built in, is what the protocol allows; what enters the decoder is what it says or an error.
#![cfg(all(any(feature = "openh264", feature = "x264"), feature = "decoder"))]

use proptest::prelude::*;
use thinc_h264::{DecodeError, Decoder, EncodeError, Encoder, EncoderSettings, Library, coded_size, fits};
use thinc_region::Size;
use thinc_video::{Layout, Planes};

const SIZE: Size = Size { width: 176, height: 144 };

/// A slope that moves to the left, with noise that does not.
fn picture(size: Size, layout: Layout, time: usize, out: &mut Planes) {
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

/// `count` pictures, encoded one by one; a key where `keys` says so.
fn encode(encoder: &mut Encoder, size: Size, times: std::ops::Range<usize>, keys: &[usize]) -> Vec<(bool, Vec<u8>)> {
    let mut planes = Planes::new();
    times
        .map(|time| {
            picture(size, Layout::Yuv420, time, &mut planes);
            let mut unit = Vec::new();
            let encoded = encoder.encode(&planes.as_ref(), keys.contains(&time), &mut unit).unwrap();
            (encoded.key, unit)
        })
        .collect()
}

/// Units of a byte stream: kind and bytes.
fn units(data: &[u8]) -> Vec<(u8, &[u8])> {
    let starts: Vec<usize> = (0..data.len().saturating_sub(2)).filter(|&i| data[i..].starts_with(&[0, 0, 1])).collect();
    let ends = starts.iter().skip(1).copied().chain([data.len()]);
    starts.iter().zip(ends).map(|(&start, end)| (data[start + 3] & 0x1f, &data[start + 3..end])).collect()
}

fn mean_square(a: &Planes, b: &Planes) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.as_ref().rows(0).zip(b.as_ref().rows(0)) {
        sum += a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>();
    }
    sum / a.size().area() as f64
}

#[test]
fn encoders_have_names_and_the_first_is_taken() {
    for &library in Library::ALL {
        assert_eq!(library.name().parse(), Ok(library));
    }
    assert_eq!(Library::default(), Library::ALL[0]);
    #[cfg(feature = "openh264")]
    assert_eq!(Library::default().name(), "openh264");
    assert_eq!("h265".parse::<Library>().unwrap_err().to_string(), "there is no encoder h265 in this program");
}

#[test]
fn keys_come_when_asked_for_and_each_picture_at_once() {
    Library::ALL.iter().for_each(|&library| keys_come_from(library));
}

fn keys_come_from(library: Library) {
    let mut encoder = Encoder::with(library, settings(SIZE, 800_000)).unwrap();
    let mut decoder = Decoder::new(SIZE).unwrap();
    let (mut shown, mut expected) = (Planes::new(), Planes::new());
    // Every fortieth picture is another scene altogether: no reason for a key.
    for time in 0..200 {
        let scene = time + 1000 * (time / 40);
        picture(SIZE, Layout::Yuv420, scene, &mut expected);
        if (time / 40) % 2 == 1 {
            expected.data_mut().iter_mut().for_each(|sample| *sample = 250 - *sample);
        }
        let mut unit = Vec::new();
        let encoded = encoder.encode(&expected.as_ref(), time == 90, &mut unit).unwrap();
        assert_eq!(encoded.key, time == 0 || time == 90, "picture {time} of {library:?}");
        decoder.decode(&unit, &mut shown).unwrap();
        let error = mean_square(&shown, &expected);
        assert!(
            error < 150.0 || time % 40 < 5,
            "picture {time} of {library:?} is {error} away from what was encoded: another picture"
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
                assert_eq!((sequence[1], sequence[2] & 0x40), (66, 0x40), "profile and its constraint");
            }
        }
    }
}

#[test]
fn a_rate_is_held_and_changes_without_a_key() {
    Library::ALL.iter().for_each(|&library| rates_are_held_by(library));
}

fn rates_are_held_by(library: Library) {
    let size = Size { width: 352, height: 240 };
    let mut encoder = Encoder::with(library, settings(size, 300_000)).unwrap();
    let mut planes = Planes::new();
    let mut state = 1u64;
    let mut at = |bits: u64, frames: u32, encoder: &mut Encoder| {
        encoder.set_rate(bits, frames);
        let mut taken = 0;
        for second in 0..4 {
            for time in 0..frames as usize {
                picture(size, Layout::Yuv420, time, &mut planes);
                // Grain that nothing foretells: there are always more bits to spend.
                for sample in planes.data_mut() {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    *sample = sample.wrapping_add((state >> 59) as u8);
                }
                let mut unit = Vec::new();
                let encoded = encoder.encode(&planes.as_ref(), false, &mut unit).unwrap();
                assert!(!encoded.key || taken == 0, "no key by itself");
                // The first second is for finding it.
                taken += if second == 0 { 0 } else { 8 * unit.len() as u64 };
            }
        }
        taken / 3
    };
    encode_first(&mut encoder, size);
    for (bits, frames) in [(400_000, 24), (1_600_000, 24), (300_000, 24), (3_000_000, 24), (800_000, 10), (800_000, 50)]
    {
        let taken = at(bits, frames, &mut encoder);
        let wanted = bits * 7 / 10..bits * 13 / 10;
        assert!(wanted.contains(&taken), "{library:?}: {taken} bits a second for {bits} and {frames} pictures");
    }
}

/// The first is a key whatever is asked for.
fn encode_first(encoder: &mut Encoder, size: Size) {
    assert!(encode(encoder, size, 0..1, &[])[0].0);
}

#[test]
fn odd_sizes_and_other_layouts_come_back() {
    for (width, height) in [(17, 16), (177, 143), (352, 241), (33, 98)] {
        let layouts = [Layout::Yuv420, Layout::Yuv422];
        for (&library, layout) in Library::ALL.iter().flat_map(|library| layouts.map(|layout| (library, layout))) {
            let size = Size { width, height };
            let mut encoder = Encoder::with(library, settings(size, 2_000_000)).unwrap();
            let mut decoder = Decoder::new(size).unwrap();
            let (mut planes, mut shown) = (Planes::new(), Planes::new());
            for time in 0..5 {
                picture(size, layout, time, &mut planes);
                let mut unit = Vec::new();
                encoder.encode(&planes.as_ref(), false, &mut unit).unwrap();
                decoder.decode(&unit, &mut shown).unwrap();
            }
            assert_eq!(shown.size(), coded_size(size));
            let mut error = 0.0;
            for (is, was) in shown.as_ref().rows(0).zip(planes.as_ref().rows(0)) {
                error += is.iter().zip(was).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>();
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
    other.reset(Size { width: 178, height: 144 }, Layout::Yuv420);
    assert!(matches!(encoder.encode(&other.as_ref(), false, &mut Vec::new()), Err(EncodeError::OtherSize(..))));
}

/// A picture that leans on one that never came is an error, and so is all behind it up to a key.
#[test]
fn after_an_error_nothing_but_a_key_decodes() {
    Library::ALL.iter().for_each(|&library| keys_alone_decode_after_errors(library));
}

fn keys_alone_decode_after_errors(library: Library) {
    let mut encoder = Encoder::with(library, settings(SIZE, 800_000)).unwrap();
    let units = encode(&mut encoder, SIZE, 0..12, &[9]);
    let mut decoder = Decoder::new(SIZE).unwrap();
    let mut shown = Planes::new();
    assert_eq!(decoder.decode(&units[1].1, &mut shown), Err(DecodeError::NoKey));
    decoder.decode(&units[0].1, &mut shown).unwrap();
    decoder.decode(&units[1].1, &mut shown).unwrap();
    let before = shown.clone();
    assert!(decoder.decode(b"what is this", &mut shown).is_err());
    assert_eq!(shown, before, "what was shown stays");
    for (_, unit) in &units[2..9] {
        assert_eq!(decoder.decode(unit, &mut shown), Err(DecodeError::NoKey));
    }
    for (_, unit) in &units[9..] {
        decoder.decode(unit, &mut shown).unwrap();
    }
}

/// A gap in the numbers of pictures is seen, and not hidden with what happens to be there.
#[test]
fn a_lost_picture_is_an_error() {
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

/// A stream that announces more than its size is stopped before the library takes memory for it.
#[test]
fn pictures_larger_than_the_stream_are_refused() {
    let sizes = [(SIZE, Size { width: 3840, height: 2160 }), (Size { width: 640, height: 480 }, SIZE)];
    for (&library, (size, other)) in Library::ALL.iter().flat_map(|library| sizes.map(|sizes| (library, sizes))) {
        let mut encoder = Encoder::with(library, settings(other, 800_000)).unwrap();
        let (_, unit) = encode(&mut encoder, other, 0..1, &[]).remove(0);
        let mut decoder = Decoder::new(size).unwrap();
        let refused = decoder.decode(&unit, &mut Planes::new());
        assert_eq!(refused, Err(DecodeError::OtherSize { width: other.width, height: other.height }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Bits that fall over, pieces that are missing, doubled or from elsewhere: an error or a picture of the stream's size, never more.
    #[test]
    fn damaged_units_are_errors_or_pictures(
        library in prop::sample::select(Library::ALL),
        damage in prop::collection::vec((0..10usize, any::<prop::sample::Index>(), 0..8u32, 0..4u8), 1..8),
    ) {
        let mut encoder = Encoder::with(library, settings(SIZE, 600_000)).unwrap();
        let mut units: Vec<Vec<u8>> = encode(&mut encoder, SIZE, 0..10, &[5]).into_iter().map(|(_, unit)| unit).collect();
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
                prop_assert_eq!((shown.size(), shown.layout()), (SIZE, Layout::Yuv420));
            }
        }
    }
}
