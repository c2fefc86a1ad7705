//! One session's bytes, with every command and every encoding, and the resulting screen, identical
//! on every machine. From golden/session, a file, through a viewer to golden/screen, a checksum;
//! web/test/golden.test.mjs decodes the same file with the same code compiled to WASM. After a
//! change of the format, THINC_WRITE_GOLDEN=1 writes both. Knows viewer-core's public interface,
//! and an encoder to make the file with.

use std::path::PathBuf;

use thinc_codec_enc::{EncodeSettings, Encoder, Entropy, JpegProfile, StreamPacker};
use thinc_pixels::coverage::Line;
use thinc_pixels::{Content, Planned, Snapshot};
use thinc_protocol::command::{Command, CommandReader, CommandWriter, Encoding};
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 320, height: 240 };

fn noise(seed: i32, x: i32, y: i32) -> u32 {
    let mut n =
        (seed as u32) ^ (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}

/// A photograph without floating point, whose rounding differs between machines: smooth hills with
/// grain.
fn photograph(x: i32, y: i32) -> u32 {
    let hill = |at: i32, len: i32| ((at % len) * (len - at % len) * 400 / (len * len) + 60) as u32;
    let grain = noise(1, x, y);
    (hill(x + y, 97) + (grain & 3)) << 16
        | (hill(x + 31, 61) + (grain >> 4 & 3)) << 8
        | (hill(y + 11, 53) + (grain >> 8 & 3))
}

fn screen(x: i32, y: i32) -> u32 {
    let glyphs = |seed: i32| noise(seed, x % 9, y % 12) % 5 < 2 && x % 9 < 7 && y % 12 < 9;
    match (x / 80, y / 80) {
        (0, 0) => [0x00ff_ffff, 0x0010_2030][usize::from(glyphs(2))],
        (1, 0) => Line::new(0x0020_2124, 0x00ff_ffff).pixel(if glyphs(3) {
            noise(3, x % 9, y % 12) as u8
        } else {
            0
        }),
        (2, 0) => noise(4, x % 8, y % 8) & 0x00ff_ffff,
        (3, 0) => noise(5, x, y) & 0x00ff_ffff,
        (0 | 1, _) => photograph(x, y),
        // Sixteen glyphs, each antialiased and in one of three colours.
        _ if x % 9 < 7 && y % 12 < 9 => {
            let shade = noise((noise(6, x / 9, y / 12) % 16) as i32, x % 9, y % 12) % 5;
            [0x00b0_0000, 0x0000_00b0, 0x0030_7030][(x / 63 % 3) as usize] + shade * 0x000f_0f0f
        }
        _ => (0xf0 - y as u32 / 8) * 0x0001_0101,
    }
}

/// Parts of the screen, each with its plan and the link it is encoded for.
fn parts() -> Vec<(Planned, EncodeSettings)> {
    let with = |entropy: Entropy| EncodeSettings { entropy, ..EncodeSettings::default() };
    let pixels = |rect: Rect| Planned::Pixels { rect, content: Content::Unknown };
    let cell = |x: i32, y: i32| Rect::at(x * 80, y * 80, 80, 80);
    vec![
        (
            Planned::TwoColor { rect: cell(0, 0), fg: 0x0010_2030, bg: 0x00ff_ffff },
            with(Entropy::None),
        ),
        (
            Planned::Coverage { rect: Rect::at(80, 0, 80, 40), fg: 0x0020_2124, bg: 0x00ff_ffff },
            with(Entropy::Block { level: 1 }),
        ),
        (pixels(Rect::at(80, 40, 80, 40)), with(Entropy::Stream)),
        (Planned::Pattern { rect: cell(2, 0), tile_width: 8, tile_height: 8 }, with(Entropy::None)),
        (pixels(Rect::at(250, 20, 40, 30)), with(Entropy::Block { level: 3 })),
        (pixels(Rect::at(0, 80, 160, 80)), with(Entropy::Stream)),
        (
            Planned::Photo { rect: Rect::at(0, 160, 160, 80) },
            EncodeSettings { jpeg: Some(JpegProfile::Medium), ..EncodeSettings::default() },
        ),
        (pixels(Rect::at(160, 80, 160, 80)), with(Entropy::Block { level: 1 })),
        (pixels(Rect::at(160, 160, 160, 80)), with(Entropy::Stream)),
        (pixels(Rect::at(160, 84, 160, 156)), with(Entropy::Stream)),
        (
            Planned::Solid { region: Rect::at(5, 5, 9, 9).into(), color: 0x00ab_cdef },
            with(Entropy::None),
        ),
        (
            Planned::Shift { region: Rect::at(200, 100, 60, 50).into(), dx: 7, dy: -13 },
            with(Entropy::None),
        ),
    ]
}

/// The session's messages: each part unpacked, then all of them twice as one packed update; and the
/// encodings used.
fn session() -> (Vec<u8>, Vec<Encoding>) {
    let mut snapshot = Snapshot::new();
    snapshot.fill(&Region::from(SIZE.rect()), |rect, dst, stride| {
        for (y, row) in (rect.y1..rect.y2).zip(dst.chunks_mut(stride)) {
            row.iter_mut().zip(rect.x1..).for_each(|(pixel, x)| *pixel = screen(x, y));
        }
    });
    let mut bytes = Vec::new();
    SessionMessage::Hello(SessionHello {
        version: 1,
        caps: 0,
        name: "golden".into(),
        message_bytes_max: 1 << 20,
    })
    .encode(&mut bytes);
    SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }).encode(&mut bytes);
    let (mut encoder, mut packer) = (Encoder::new(), StreamPacker::new(1));
    let (mut seq, mut all, mut used) = (0, Vec::new(), Vec::new());
    let mut update = |packed, commands: &[u8]| {
        seq += 1;
        let update =
            Update { seq, after: 0, epoch: 1, echo: None, end_of_frame: true, packed, commands };
        SessionMessage::Update(update).encode(&mut bytes);
    };
    for (planned, settings) in parts() {
        let mut commands = Vec::new();
        encoder.encode_with(&[planned], &snapshot, &settings, &mut commands);
        used.extend(CommandReader::new(&commands, SIZE).filter_map(|command| match command {
            Ok(Command::Raw { encoding, .. } | Command::Pfill { encoding, .. }) => Some(encoding),
            _ => None,
        }));
        update(None, &commands);
        all.extend_from_slice(&commands);
    }
    for _ in 0..2 {
        let mut out = Vec::new();
        let packed = packer.pack(&all, &mut out).expect("most of it is not packed");
        update(Some(packed), &out);
    }
    let mut kept = Vec::new();
    let mut writer = CommandWriter::new(&mut kept);
    writer.copy(&Rect::at(0, 0, 40, 40).into(), -160, -80);
    update(None, &kept);
    (bytes, used)
}

/// FNV-1a over the pixels, a word at a time, which is as easily written in JavaScript.
fn checksum(session: &[u8]) -> String {
    let mut viewer = Viewer::new(&ViewerConfig {
        name: "golden".to_owned(),
        size: SIZE,
        caps: ViewerCaps::LOSSY,
        clipboard: ClipboardPolicy::OFF,
    });
    viewer.handle_bytes(session, 0).expect("the session's bytes are well-formed");
    assert_eq!(viewer.framebuffer().size(), SIZE);
    let sum = viewer
        .framebuffer()
        .pixels()
        .iter()
        .fold(0x811c_9dc5u32, |sum, pixel| (sum ^ pixel).wrapping_mul(0x0100_0193));
    format!("{sum:08x}\n")
}

#[test]
fn the_golden_session_shows_the_golden_screen() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (made, used) = session();
    for encoding in [
        Encoding::Plain,
        Encoding::Predicted,
        Encoding::PredictedZstd,
        Encoding::Residuals,
        Encoding::Jpeg,
        Encoding::Columns,
    ] {
        assert!(used.contains(&encoding), "{encoding:?} is not in the session");
    }
    if std::env::var_os("THINC_WRITE_GOLDEN").is_some() {
        std::fs::write(folder.join("session"), &made).unwrap();
        std::fs::write(folder.join("screen"), checksum(&made)).unwrap();
    }
    let golden = std::fs::read(folder.join("session")).expect("the file is in the tree");
    let screen = std::fs::read_to_string(folder.join("screen")).expect("the file is in the tree");
    assert_eq!(checksum(&golden), screen, "the bytes of the file");
    assert_eq!(checksum(&made), screen, "the encoder's bytes may change, the pixels may not");
}
