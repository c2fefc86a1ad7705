//! The decoder yields the same pixels as in a page's WebAssembly, and damaged data is an error.

use proptest::prelude::*;
use thinc_codec_dec::jpeg::AREA_MAX;
use thinc_codec_dec::{DecodeError, Decoder};
use thinc_protocol::command::Encoding;

struct Photograph {
    size: (usize, usize),
    sum: u32,
    data: Vec<u8>,
}

/// The test images; web/test/page.test.mjs reads the same file.
fn photographs() -> Vec<Photograph> {
    let lines = include_str!("photographs.txt").lines().filter(|line| !line.starts_with('#'));
    let photograph = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, width, height, sum, hex] = words[..] else { panic!("five words a line") };
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        Photograph {
            size: (width.parse().expect("a number"), height.parse().expect("a number")),
            sum: u32::from_str_radix(sum, 16).expect("eight digits"),
            data: (0..hex.len()).step_by(2).map(byte).collect(),
        }
    };
    lines.map(photograph).collect()
}

fn decode(data: &[u8], (width, height): (usize, usize)) -> Result<Vec<u32>, DecodeError> {
    let mut pixels = vec![0; width * height];
    Decoder::new().raw(Encoding::Jpeg, data, (width, height), &mut pixels, width).map(|()| pixels)
}

#[test]
fn pixels_are_the_same_everywhere() {
    for photograph in photographs() {
        let pixels = decode(&photograph.data, photograph.size).expect("it is sound");
        let bytes = pixels.iter().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(3));
        let sum = bytes
            .fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        assert_eq!(sum, photograph.sum, "{:?}", photograph.size);
    }
}

#[test]
fn another_size_is_an_error() {
    for Photograph { size: (width, height), data, .. } in photographs() {
        for size in [
            (width, height + 16),
            (width + 16, height),
            (width, height - 16),
            (width - 16, height),
            (1, 1),
        ] {
            assert!(decode(&data, size).is_err(), "{width}x{height} as {size:?}");
        }
        // A large declared size must not reserve memory.
        assert_eq!(decode(&data, (AREA_MAX / 1024 + 1, 1024)), Err(DecodeError::Jpeg));
    }
}

#[test]
fn truncated_and_extended_data_is_an_error() {
    for Photograph { size, data, .. } in photographs() {
        for len in 0..data.len() {
            assert!(decode(&data[..len], size).is_err(), "{size:?} cut to {len} of {}", data.len());
        }
        for more in
            [&[0][..], &[0xff], &[0xff, 0], &[0xff, 0xd9], &[0xff, 0xd0, 1], &[1, 2, 3, 4, 5]]
        {
            assert!(decode(&[&data[..], more].concat(), size).is_err(), "{size:?} and {more:x?}");
        }
    }
}

#[test]
fn invalid_heads_and_tables_are_errors() {
    let photographs = photographs();
    let [high, _, low] = &photographs[..] else { panic!("three of them") };
    let with = |photograph: &Photograph, at: usize, value: u8| {
        let mut data = photograph.data.clone();
        data[at] = value;
        decode(&data, photograph.size)
    };
    for head in (0..=255).filter(|&head| head != high.data[0]) {
        assert!(with(high, 0, head).is_err(), "head {head}");
    }
    for quality in [0, 101, 255] {
        assert_eq!(with(high, 1, quality), Err(DecodeError::Jpeg));
    }
    // Three codes of one bit; more symbols than the data has; values of more bits than 8-bit
    // samples have.
    assert_eq!(with(low, 2, 3), Err(DecodeError::Jpeg));
    assert!(with(low, 17, 255).is_err());
    assert_eq!(with(low, 18, 12), Err(DecodeError::Jpeg));
}

proptest! {
    #[test]
    fn damaged_data_never_panics(
        which in 0usize..3,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let Photograph { size, mut data, .. } = photographs().swap_remove(which);
        for (at, value) in flips {
            let at = at.index(data.len());
            data[at] = value;
        }
        if let Ok(pixels) = decode(&data, size) {
            prop_assert!(pixels.iter().all(|pixel| pixel >> 24 == 0xff));
        }
    }

    #[test]
    fn garbage_never_panics(
        head in 0u8..8,
        quality in 1u8..=100,
        scan in proptest::collection::vec(any::<u8>(), 0..600),
        own in any::<bool>(),
        width in 1usize..70, height in 1usize..70,
    ) {
        let tables = if own { &[][..] } else { &photographs()[2].data[2..][..100] };
        let _ = decode(&[&[head, quality], tables, &scan].concat(), (width, height));
    }
}
