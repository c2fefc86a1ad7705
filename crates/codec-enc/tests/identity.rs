//! Planned and encoded pixels decode to the same pixels, and small changes take few bytes.

use proptest::prelude::*;
use thinc_codec_dec::bitmap::blend;
use thinc_codec_dec::context::{Contexts, padding_len};
use thinc_codec_dec::{Decoder, OPAQUE, RGB, cursor, predicted};
use thinc_codec_enc::{EncodeSettings, Encoder, JpegProfile, Predictor};
use thinc_pixels::coverage::Line;
use thinc_pixels::{Content, Planned, Shadow, Snapshot, plan};
use thinc_protocol::command::{Command, CommandReader, Compression, Encoding};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 160, height: 120 };

fn noise(seed: u32, x: i32, y: i32) -> u32 {
    let mut n = seed ^ (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}

/// Images of the usual kinds.
fn image(kind: u8, seed: u32, x: i32, y: i32) -> u32 {
    match kind {
        0 => seed,
        1 => [seed, !seed][(noise(seed, x, y) & 1) as usize],
        2 => Line::new(seed, !seed).pixel(noise(seed, x / 2, y) as u8 & 0xf0),
        3 => noise(seed, x % 9, y % 6),
        // A gradient with a little noise, as photographs have.
        4 => (((x * 2 + y) as u32 & 0xff) * 0x01_0101) ^ (noise(seed, x, y) & 0x03_0103),
        5 => noise(seed, x, y),
        // Few colours in runs, as icons have.
        _ => noise(seed, noise(seed, x / 5, y / 3) as i32 % 7, 0),
    }
}

fn snapshot_of(screen: &[u32], region: &Region) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let width = SIZE.width as usize;
    snapshot.fill(region, |rect, dst, stride| {
        for (i, row) in dst.chunks_mut(stride).take(rect.height() as usize).enumerate() {
            let start = (rect.y1 as usize + i) * width + rect.x1 as usize;
            row[..rect.width() as usize].copy_from_slice(&screen[start..][..rect.width() as usize]);
        }
    });
    snapshot
}

/// Decodes commands as a viewer does.
fn show(commands: &[u8], viewer: &mut [u32], decoder: &mut Decoder) {
    let stride = SIZE.width as usize;
    let mut tile = Vec::new();
    for command in CommandReader::new(commands, SIZE) {
        let command = command.expect("encoded commands must be valid");
        let place = |rect: &Rect| rect.y1 as usize * stride + rect.x1 as usize;
        let extent = |rect: &Rect| (rect.width() as usize, rect.height() as usize);
        match &command {
            Command::Copy { region, dx, dy } => {
                let before = viewer.to_vec();
                for rect in region.rects() {
                    for y in rect.y1..rect.y2 {
                        let source = (y - dy) as usize * stride + (rect.x1 - dx) as usize;
                        let target = y as usize * stride + rect.x1 as usize;
                        let width = rect.width() as usize;
                        viewer[target..target + width]
                            .copy_from_slice(&before[source..source + width]);
                    }
                }
            }
            Command::Sfill { region, color } => {
                for rect in region.rects() {
                    for y in rect.y1..rect.y2 {
                        viewer[y as usize * stride..][rect.x1 as usize..rect.x2 as usize]
                            .fill(OPAQUE | color);
                    }
                }
            }
            Command::Pfill { rect, tile_width, tile_height, encoding, data } => {
                let (width, height) = (usize::from(*tile_width), usize::from(*tile_height));
                decoder.tile(*encoding, data, (width, height), &mut tile).unwrap();
                for y in 0..rect.height() as usize {
                    for x in 0..rect.width() as usize {
                        viewer[place(rect) + y * stride + x] = tile[y % height * width + x % width];
                    }
                }
            }
            Command::Bitmap { rect, depth, fg, bg, compression, data } => {
                let at = place(rect);
                decoder
                    .bitmap(
                        *depth,
                        *compression,
                        data,
                        (*fg, *bg),
                        extent(rect),
                        &mut viewer[at..],
                        stride,
                    )
                    .unwrap();
            }
            Command::Raw { rect, encoding, data } => {
                let at = place(rect);
                decoder.raw(*encoding, data, extent(rect), &mut viewer[at..], stride).unwrap();
            }
            Command::Keep { .. } | Command::Recall { .. } => {
                panic!("nothing may be kept without a cache")
            }
            Command::Video(_) => panic!("there must be no video commands"),
        }
    }
}

fn same(viewer: &[u32], screen: &[u32], region: &Region) {
    for rect in region.rects() {
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                let at = y as usize * SIZE.width as usize + x as usize;
                assert_eq!(viewer[at], screen[at] | OPAQUE, "pixel ({x}, {y})");
            }
        }
    }
}

#[test]
fn both_ends_blend_equally() {
    for (fg, bg) in [(0, 0xff_ffff), (0xff_ffff, 0), (0x12_3456, 0xab_cdef), (0x80_8080, 0x7f_8081)]
    {
        for coverage in 0..=255 {
            assert_eq!(Line::new(fg, bg).pixel(coverage), blend(fg, bg, coverage));
        }
    }
}

/// The keystroke of the protocol's test, from pixels: a glyph and the moved block cursor.
#[test]
fn the_echo_of_a_keystroke_takes_few_bytes() {
    let mut screen = vec![0x00ff_ffff; SIZE.area() as usize];
    let mut draw = |rect: Rect, black: &dyn Fn(i32, i32) -> bool| {
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                let color = if black(x - rect.x1, y - rect.y1) { 0 } else { 0x00ff_ffff };
                screen[y as usize * SIZE.width as usize + x as usize] = color;
            }
        }
        screen.clone()
    };
    let before = draw(Rect::at(100, 52, 6, 13), &|_, _| true);
    draw(Rect::at(100, 52, 6, 13), &|x, y| (x + y * 3) % 4 == 0 && y > 2);
    let after = draw(Rect::at(106, 52, 6, 13), &|_, _| true);
    let all = Region::from(SIZE.rect());
    let (mut shadow, mut encoder, mut decoder) =
        (Shadow::new(SIZE), Encoder::new(), Decoder::new());
    let mut viewer = vec![0; SIZE.area() as usize];
    for (screen, most) in [(&before, 50), (&after, 44)] {
        let (mut planned, mut commands) = (Vec::new(), Vec::new());
        let snapshot = snapshot_of(screen, &all);
        plan(&snapshot, &mut shadow, &mut planned);
        encoder.encode(&planned, &snapshot, &mut commands);
        assert!(commands.len() <= most, "{} bytes: {planned:?}", commands.len());
        show(&commands, &mut viewer, &mut decoder);
        same(&viewer, screen, &all);
    }
}

#[test]
fn a_cursor_round_trips() {
    let argb: Vec<u32> = (0..24 * 24).map(|i| noise(1, i % 24, i / 24)).collect();
    let (mut packed, mut bytes) = (Vec::new(), Vec::new());
    Encoder::new().cursor(&argb, &mut packed);
    Decoder::new().unzstd(&packed, argb.len() * 4, &mut bytes).unwrap();
    assert!(bytes.chunks_exact(4).zip(&argb).all(|(b, p)| b == p.to_le_bytes()));
}

#[test]
fn a_two_colour_cursor_round_trips_in_any_colours() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut packings = Vec::new();
    for (width, height) in [(1, 1), (8, 2), (9, 3), (16, 16), (64, 64), (256, 256), (255, 7)] {
        // A wedge whose edge has the background colour, like X's arrows.
        let inside: Vec<bool> = (0..width * height).map(|i| i % width <= i / width).collect();
        let fore: Vec<bool> =
            (0..width * height).map(|i| i % width < i / width && i % 3 > 0).collect();
        let (mut packed, mut planes, mut pixels) = (Vec::new(), vec![7; 5], vec![7; 5]);
        let compression = encoder.cursor_planes(width, &fore, &inside, &mut packed);
        packings.push(compression);
        decoder.cursor_planes(compression, &packed, (width, height), &mut planes).unwrap();
        for (fg, bg) in [(0xff_0000, 0xff), (0xff, 0xff)] {
            cursor::paint(&planes, (width, height), (fg, bg), &mut pixels);
            let wanted = inside.iter().zip(&fore).map(|(&inside, &fore)| match (inside, fore) {
                (false, _) => 0,
                (true, true) => 0xff00_0000 | fg,
                (true, false) => 0xff00_0000 | bg,
            });
            assert!(pixels.iter().copied().eq(wanted), "{width}x{height}");
        }
        assert!(
            decoder.cursor_planes(compression, &packed[1..], (width, height), &mut planes).is_err()
        );
        assert!(
            decoder.cursor_planes(compression, &packed, (width, height + 1), &mut planes).is_err()
        );
    }
    assert!(
        packings.contains(&Compression::Plain) && packings.contains(&Compression::Zstd),
        "both compressions must occur"
    );
}

#[test]
fn pixels_outside_a_cursor_do_not_change_its_bytes() {
    let (inside, mut encoder) = ([true, false, true, false], Encoder::new());
    let (mut one, mut other) = (Vec::new(), Vec::new());
    encoder.cursor_planes(2, &[true, false, false, false], &inside, &mut one);
    encoder.cursor_planes(2, &[true, true, false, true], &inside, &mut other);
    assert_eq!(one, [0x80, 0, 0x80, 0x80]);
    assert_eq!(one, other);
}

#[test]
fn large_images_are_split_into_several_commands() {
    let size = Size { width: 1500, height: 1000 };
    let mut snapshot = Snapshot::new();
    let rect = size.rect();
    snapshot.fill(&rect.into(), |_, dst, stride| {
        for (i, pixel) in dst.iter_mut().enumerate() {
            *pixel = noise(7, (i % stride) as i32, (i / stride) as i32) & RGB;
        }
    });
    let mut commands = Vec::new();
    Encoder::new().encode(
        &[Planned::Pixels { rect, content: Content::Unknown }],
        &snapshot,
        &mut commands,
    );
    let read: Vec<_> = CommandReader::new(&commands, size).collect::<Result<_, _>>().unwrap();
    let mut covered = Region::new();
    for command in &read {
        let Command::Raw { rect, encoding, .. } = command else { panic!("{command:?}") };
        assert_eq!(*encoding, Encoding::Plain, "noise is smallest as plain pixels");
        covered.add_rect(*rect);
    }
    assert_eq!((read.len(), covered), (2, Region::from(rect)));
}

/// The length of a planned photograph, and the encodings of its parts.
fn photo(settings: &EncodeSettings, snapshot: &Snapshot) -> (usize, Vec<Encoding>) {
    let (mut commands, rect) = (Vec::new(), snapshot.region().extents());
    Encoder::new().encode_with(&[Planned::Photo { rect }], snapshot, settings, &mut commands);
    let encodings =
        CommandReader::new(&commands, Size { width: 2000, height: 2000 }).map(|command| {
            match command {
                Ok(Command::Raw { encoding, .. }) => encoding,
                other => panic!("{other:?}"),
            }
        });
    (commands.len(), encodings.collect())
}

#[test]
fn a_photograph_is_lossy_only_if_that_is_much_smaller() {
    let mut snapshot = Snapshot::new();
    let mut fill = |size: Size, pixel: &dyn Fn(i32, i32) -> u32| {
        snapshot.fill(&size.rect().into(), |rect, to, stride| {
            for (y, row) in (0..rect.height()).zip(to.chunks_mut(stride)) {
                row.iter_mut().zip(0..rect.width()).for_each(|(to, x)| *to = pixel(x, y));
            }
        });
        std::mem::take(&mut snapshot)
    };
    let soft = |x: i32, y: i32| {
        let channel = |a: i32| {
            ((a as f32 / 40.0).sin() * 100.0 + 120.0) as u32 + (noise(9, x, y) >> (a & 7) & 3)
        };
        channel(x + y) << 16 | channel(x - 2 * y) << 8 | channel(3 * x + 5)
    };
    let photograph = fill(Size { width: 1500, height: 1100 }, &soft);
    let drawing = fill(Size { width: 300, height: 200 }, &|x, y| {
        if (x / 20 + y / 20) % 2 == 0 { 0x00ff_ffff } else { 0 }
    });
    let exact = photo(&EncodeSettings::default(), &photograph);
    assert!(exact.1.iter().all(|encoding| *encoding != Encoding::Jpeg));
    let mut before = exact.0;
    for profile in [JpegProfile::High, JpegProfile::Medium, JpegProfile::Low] {
        let settings = EncodeSettings { jpeg: Some(profile), ..EncodeSettings::default() };
        let (len, encodings) = photo(&settings, &photograph);
        assert_eq!(encodings, [Encoding::Jpeg; 4], "1.6 million pixels in parts of half a million");
        assert!(len * 2 < before, "{profile:?} {len} after {before}");
        before = len;
        assert_eq!(
            photo(&settings, &drawing),
            photo(&EncodeSettings::default(), &drawing),
            "{profile:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn operations_round_trip(
        kind in 0u8..7,
        seed in any::<u32>(),
        width in 1usize..70,
        height in 1usize..40,
    ) {
        let pixels: Vec<u32> = (0..(width * height) as i32)
            .map(|i| image(kind, seed, i % width as i32, i / width as i32) & RGB)
            .collect();
        let mut framed = vec![OPAQUE; padding_len(width)];
        framed.extend(pixels.iter().map(|pixel| pixel | OPAQUE));
        let (mut ops, mut contexts) = (Vec::new(), Contexts::default());
        Predictor::default().encode(&framed, width, &mut ops);
        prop_assert!(ops.len() <= pixels.len() * predicted::PIXEL_BYTES_MAX);
        let mut decoded = vec![0; framed.len()];
        prop_assert_eq!(predicted::decode(&ops, width, &mut contexts, &mut decoded), Ok(()));
        prop_assert!(decoded == framed);
        for cut in 0..ops.len().min(100) {
            let result = predicted::decode(&ops[..cut], width, &mut contexts, &mut decoded);
            prop_assert!(result.is_err(), "cut to {}", cut);
        }
    }

    #[test]
    fn garbage_never_panics(
        data in proptest::collection::vec(prop_oneof![any::<u8>(), 0xc0u8..=0xff], 0..300),
        width in 1usize..40,
        height in 1usize..20,
        encoding in prop_oneof![
            Just(Encoding::Plain),
            Just(Encoding::Predicted),
            Just(Encoding::PredictedZstd),
            Just(Encoding::Residuals),
            Just(Encoding::Columns),
        ],
    ) {
        let mut dst = vec![7; 50 * 20];
        let _ = Decoder::new().raw(encoding, &data, (width, height), &mut dst, 50);
        for (i, pixel) in dst.iter().enumerate() {
            prop_assert!(*pixel == 7 || (i % 50 < width && i / 50 < height), "nothing is written \
                outside");
        }
    }

    #[test]
    fn damaged_frames_never_panic(
        kind in 0u8..7,
        seed in any::<u32>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let screen: Vec<u32> =
            (0..SIZE.area() as i32).map(|i| image(kind, seed, i % 160, i / 160) & RGB).collect();
        let region = Region::from(Rect::at(10, 10, 70, 60));
        let snapshot = snapshot_of(&screen, &region);
        let mut commands = Vec::new();
        let rect = Rect::at(10, 10, 70, 60);
        let planned = [Planned::Pixels { rect, content: Content::Unknown }];
        Encoder::new().encode(&planned, &snapshot, &mut commands);
        for (index, value) in flips {
            let at = index.index(commands.len());
            commands[at] = value;
        }
        let mut decoder = Decoder::new();
        let mut dst = vec![0; SIZE.area() as usize];
        for command in CommandReader::new(&commands, SIZE) {
            let Ok(Command::Raw { rect, encoding, data }) = command else { break };
            let (width, height) = (rect.width() as usize, rect.height() as usize);
            let _ = decoder.raw(encoding, data, (width, height), &mut dst, width);
        }
    }

    #[test]
    fn planned_and_encoded_pixels_are_shown(
        parts in proptest::collection::vec(
            (0u8..7, any::<u32>(), 0i32..160, 0i32..120, 1i32..160, 1i32..120), 1..8),
        regions in proptest::collection::vec((0i32..160, 0i32..120, 1i32..120, 1i32..90), 1..5),
    ) {
        let mut screen = vec![0x0088_8888; SIZE.area() as usize];
        let mut viewer = vec![OPAQUE; SIZE.area() as usize];
        let mut shadow = Shadow::new(SIZE);
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for (kind, seed, x, y, width, height) in parts {
            for py in y..(y + height).min(120) {
                for px in x..(x + width).min(160) {
                    screen[(py * 160 + px) as usize] = image(kind, seed, px - x, py - y) & RGB;
                }
            }
            let region: Region = regions
                .iter()
                .map(|&(x, y, w, h)| Rect::at(x, y, w, h).intersect(&SIZE.rect()))
                .collect();
            let (mut planned, mut commands) = (Vec::new(), Vec::new());
            let snapshot = snapshot_of(&screen, &region);
            plan(&snapshot, &mut shadow, &mut planned);
            encoder.encode(&planned, &snapshot, &mut commands);
            show(&commands, &mut viewer, &mut decoder);
            same(&viewer, &screen, &region);
        }
    }
}
