//! Images of odd sizes and of the worst kinds for a codec round-trip bit by bit with all settings;
//! truncated, flipped and extended data is an error.

use thinc_codec_dec::{Decoder, OPAQUE, RGB};
use thinc_codec_enc::{EncodeSettings, Encoder, Entropy};
use thinc_pixels::{Content, Planned, Snapshot};
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_region::{Rect, Region, Size};

const ENTROPIES: [Entropy; 4] =
    [Entropy::None, Entropy::Stream, Entropy::Block { level: 1 }, Entropy::Block { level: 3 }];

fn noise(seed: u32, x: u32, y: u32) -> u32 {
    let mut n = seed ^ x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}

/// An image's name, and its pixels by position.
type Image = (&'static str, fn(u32, u32) -> u32);

const IMAGES: [Image; 10] = [
    ("noise", |x, y| noise(1, x, y)),
    ("one colour", |_, _| 0x0012_3456),
    ("black", |_, _| 0),
    ("chess", |x, y| if (x + y) % 2 == 0 { 0x00ff_ffff } else { 0x0000_0001 }),
    ("columns", |x, _| x % 3 * 0x0055_1133),
    ("rows", |_, y| y.wrapping_mul(0x0012_5677)),
    ("grey ramp", |x, y| ((x + y * 2) & 0xff) * 0x0001_0101),
    ("photograph", |x, y| {
        let wave = |f: f32| ((x as f32 / f).sin() * (y as f32 / 19.0).cos() * 100.0 + 120.0) as u32;
        wave(31.0) << 16 | wave(47.0) << 8 | (wave(23.0) + (noise(2, x, y) & 3))
    }),
    ("text", |x, y| if noise(3, x % 9, y % 12) % 5 < 2 { 0x0020_2124 } else { 0x00ff_ffff }),
    ("few colours", |x, y| noise(4, x / 3, y / 2) % 17 * 0x000f_1e2d),
];

const SIZES: [(u32, u32); 26] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 7),
    (7, 1),
    (1, 300),
    (300, 1),
    (2, 2),
    (2, 129),
    (129, 2),
    (3, 3),
    (3, 5),
    (5, 3),
    (13, 11),
    (15, 16),
    (16, 15),
    (16, 16),
    (17, 16),
    (17, 17),
    (18, 37),
    (31, 32),
    (64, 64),
    (65, 63),
    (127, 61),
    (16, 256),
    (211, 97),
];

fn snapshot(size: (u32, u32), pixel: impl Fn(u32, u32) -> u32) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let size = Size { width: size.0, height: size.1 };
    snapshot.fill(&Region::from(size.rect()), |rect, dst, stride| {
        for (y, row) in (0..rect.height() as u32).zip(dst.chunks_mut(stride)) {
            row.iter_mut().zip(0..rect.width() as u32).for_each(|(dst, x)| *dst = pixel(x, y));
        }
    });
    snapshot
}

fn encoded(snapshot: &Snapshot, entropy: Entropy, encoder: &mut Encoder) -> Vec<u8> {
    let planned =
        [Planned::Pixels { rect: snapshot.region().extents(), content: Content::Unknown }];
    let settings = EncodeSettings { entropy, ..EncodeSettings::default() };
    let mut commands = Vec::new();
    encoder.encode_with(&planned, snapshot, &settings, &mut commands);
    commands
}

/// The RAWs of an image: one, or several if part of it is like a photograph.
fn raws(commands: &[u8], (width, height): (u32, u32)) -> Vec<(Rect, Encoding, &[u8])> {
    let raw = |command| match command {
        Ok(Command::Raw { rect, encoding, data }) => (rect, encoding, data),
        other => panic!("{other:?} is no RAW"),
    };
    CommandReader::new(commands, Size { width, height }).map(raw).collect()
}

#[test]
fn pictures_of_all_sizes_come_back() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut used = Vec::new();
    for size in SIZES {
        for (name, pixel) in IMAGES {
            let snapshot = snapshot(size, pixel);
            for entropy in ENTROPIES {
                let commands = encoded(&snapshot, entropy, &mut encoder);
                let stride = size.0 as usize + 3;
                let mut dst = vec![7; stride * size.1 as usize];
                for (rect, encoding, data) in raws(&commands, size) {
                    assert!(
                        data.len() as u64 <= rect.area() * 3,
                        "{name} of {size:?} takes more than it has"
                    );
                    let at = rect.y1 as usize * stride + rect.x1 as usize;
                    let extent = (rect.width() as usize, rect.height() as usize);
                    decoder.raw(encoding, data, extent, &mut dst[at..], stride).unwrap();
                    used.push(encoding);
                }
                for (row, y) in dst.chunks(stride).zip(0..) {
                    for (&got, x) in row.iter().zip(0..) {
                        let wanted = if x < size.0 { pixel(x, y) & RGB | OPAQUE } else { 7 };
                        assert_eq!(
                            got, wanted,
                            "{name} of {size:?} with {entropy:?} at ({x}, {y})"
                        );
                    }
                }
            }
        }
    }
    for encoding in
        [Encoding::Plain, Encoding::Predicted, Encoding::PredictedZstd, Encoding::Residuals]
    {
        assert!(used.contains(&encoding), "{encoding:?} was never chosen");
    }
}

/// Where every pixel is a part of its own, columns say more than there is, and yet pack better than
/// operations.
#[test]
fn columns_never_take_more_than_the_pixels() {
    let size = (1, 16_384);
    let snapshot = snapshot(size, |_, y| noise(1, 0, y) % 4000 * 67);
    let commands = encoded(&snapshot, Entropy::Stream, &mut Encoder::new());
    for (rect, encoding, data) in raws(&commands, size) {
        assert!(data.len() as u64 <= rect.area() * 3, "{} bytes by {encoding:?}", data.len());
    }
}

#[test]
fn padding_costs_nothing() {
    let mut encoder = Encoder::new();
    for size in SIZES {
        for (name, pixel) in IMAGES {
            let clean = snapshot(size, |x, y| pixel(x, y) & RGB);
            let dirty = snapshot(size, |x, y| pixel(x, y) & RGB | noise(9, x, y) << 24);
            for entropy in ENTROPIES {
                let both =
                    [&clean, &dirty].map(|snapshot| encoded(snapshot, entropy, &mut encoder));
                assert_eq!(both[0], both[1], "{name} of {size:?}");
            }
        }
    }
}

/// What an encoder did before must not show in its bytes: two workers, or one, and a viewer sees
/// the same.
#[test]
fn an_encoder_remembers_nothing() {
    let mut used = Encoder::new();
    for size in SIZES.into_iter().rev() {
        for (name, pixel) in IMAGES {
            let snapshot = snapshot(size, pixel);
            for entropy in ENTROPIES {
                let fresh = encoded(&snapshot, entropy, &mut Encoder::new());
                assert_eq!(fresh, encoded(&snapshot, entropy, &mut used), "{name} of {size:?}");
            }
        }
    }
}

#[test]
fn what_is_cut_or_too_long_is_an_error() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    for size in [(64, 64), (127, 61), (1, 7), (17, 17)] {
        for (name, pixel) in IMAGES {
            let snapshot = snapshot(size, pixel);
            for entropy in ENTROPIES {
                let commands = encoded(&snapshot, entropy, &mut encoder);
                for (rect, encoding, data) in raws(&commands, size) {
                    let (width, height) = (rect.width() as usize, rect.height() as usize);
                    let mut dst = vec![0; width * height];
                    let mut decode =
                        |data: &[u8]| decoder.raw(encoding, data, (width, height), &mut dst, width);
                    for cut in (0..data.len()).step_by(1 + data.len() / 50) {
                        assert!(
                            decode(&data[..cut]).is_err(),
                            "{name} by {encoding:?}, {cut} of {} bytes",
                            data.len()
                        );
                    }
                    assert!(
                        decode(&[data, &[0]].concat()).is_err(),
                        "{name} by {encoding:?} and a byte more"
                    );
                }
            }
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut dst = vec![0; 127 * 61];
    for (_, pixel) in IMAGES {
        let snapshot = snapshot((127, 61), pixel);
        for entropy in ENTROPIES {
            let commands = encoded(&snapshot, entropy, &mut encoder);
            for (rect, encoding, data) in raws(&commands, (127, 61)) {
                let mut data = data.to_vec();
                let (width, height) = (rect.width() as usize, rect.height() as usize);
                for i in 0..200u32 {
                    let bit = noise(i, 5, 6) as usize % (data.len() * 8);
                    data[bit / 8] ^= 1 << (bit % 8);
                    // Another image or an error: both are fine, because the transport detects
                    // damage.
                    let _ = decoder.raw(encoding, &data, (width, height), &mut dst, width);
                    data[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
    }
}
