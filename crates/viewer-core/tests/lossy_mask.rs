//! The viewer's lossy mask: photographs that were sent lossy, wherever COPYs move them, until they
//! are refreshed. From commands as a session's encoder writes them, to the set of pixels. Knows
//! viewer-core's public interface.

use thinc_codec_enc::{EncodeSettings, Encoder, Entropy, JpegProfile};
use thinc_pixels::{Planned, Snapshot};
use thinc_protocol::command::{BitmapDepth, Command, Compression, Encoding};
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage, Update};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 96, height: 64 };

struct Shown {
    viewer: Viewer,
    seq: u64,
}

impl Shown {
    fn new() -> Shown {
        let viewer = Viewer::new(&ViewerConfig {
            name: "test".into(),
            size: SIZE,
            caps: 0,
            clipboard: ClipboardPolicy::OFF,
        });
        let mut shown = Shown { viewer, seq: 0 };
        shown.say(&SessionMessage::Hello(SessionHello {
            version: 1,
            caps: 0,
            name: String::new(),
            message_bytes_max: 65536,
        }));
        shown.say(&SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }));
        shown
    }

    fn say(&mut self, message: &SessionMessage<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.viewer.handle_bytes(&bytes, 0).unwrap();
    }

    fn update(&mut self, commands: &[u8]) {
        self.seq += 1;
        let (seq, after, epoch) = (self.seq, 0, 1);
        let update =
            Update { seq, after, epoch, echo: None, end_of_frame: true, packed: None, commands };
        self.say(&SessionMessage::Update(update));
    }

    fn command(&mut self, command: &Command<'_>) {
        let mut commands = Vec::new();
        command.encode(&mut commands);
        self.update(&commands);
    }

    fn is(&self, region: &Region) {
        assert_eq!(self.viewer.lossy().region(), *region);
        assert_eq!(self.viewer.lossy().pixels(), region.area());
    }
}

fn color(x: i32, y: i32) -> u32 {
    (x * 2) as u32 | ((y * 3) as u32) << 8 | ((x + y) as u32) << 16
}

/// Commands that show a photograph lossy.
fn photograph(rect: Rect) -> Vec<u8> {
    let mut snapshot = Snapshot::new();
    snapshot.fill(&rect.into(), |part, to, stride| {
        for y in part.y1..part.y2 {
            for x in part.x1..part.x2 {
                to[(y - part.y1) as usize * stride + (x - part.x1) as usize] = color(x, y);
            }
        }
    });
    let settings =
        EncodeSettings { entropy: Entropy::None, jpeg: Some(JpegProfile::Low), frames: None };
    let mut commands = Vec::new();
    Encoder::new().encode_with(&[Planned::Photo { rect }], &snapshot, &settings, &mut commands);
    commands
}

#[test]
fn lossy_pixels_are_tracked_through_copies_until_refreshed() {
    let mut shown = Shown::new();
    let (photo, elsewhere) = (Rect::at(8, 8, 32, 24), Rect::at(48, 16, 32, 24));
    let screen = Region::from(SIZE.rect());
    shown.is(&screen);
    shown.command(&Command::Sfill { region: screen, color: 0 });
    shown.update(&photograph(photo));
    let mut expected = Region::from(photo);
    shown.is(&expected);
    let near = shown.viewer.framebuffer().row(20)[20] & 0x00ff_ffff;
    assert!(near != color(20, 20) && near != 0, "a photograph of low quality differs: {near:06x}");

    // A COPY moves the lossy bits, and lossless pixels copied over them clear them.
    shown.command(&Command::Copy { region: elsewhere.into(), dx: 40, dy: 8 });
    expected.add_rect(elsewhere);
    shown.is(&expected);
    let part = Rect::at(10, 30, 50, 4);
    shown.command(&Command::Copy { region: part.into(), dx: 0, dy: 26 });
    expected.subtract_rect(&part);
    shown.is(&expected);

    // Each lossless command refreshes what it writes.
    let fill = Region::from_iter([Rect::at(8, 8, 4, 4), Rect::at(20, 8, 4, 4)]);
    shown.command(&Command::Sfill { region: fill.clone(), color: 1 });
    expected.subtract(&fill);
    shown.is(&expected);
    let rects = [Rect::at(50, 18, 4, 4), Rect::at(60, 18, 4, 4), Rect::at(70, 18, 4, 4)];
    let [raw, bits, tile] = rects;
    shown.command(&Command::Raw { rect: raw, encoding: Encoding::Plain, data: &[7; 48] });
    let (depth, compression) = (BitmapDepth::One, Compression::Plain);
    shown.command(&Command::Bitmap {
        rect: bits,
        depth,
        fg: 1,
        bg: 2,
        compression,
        data: &[0xf0; 4],
    });
    let (tile_width, tile_height, encoding) = (2, 1, Encoding::Plain);
    shown.command(&Command::Pfill { rect: tile, tile_width, tile_height, encoding, data: &[3; 6] });
    rects.iter().for_each(|rect| expected.subtract_rect(rect));
    shown.is(&expected);

    shown.command(&Command::Sfill { region: SIZE.rect().into(), color: 0 });
    assert!(shown.viewer.lossy().is_empty());
    shown.update(&photograph(photo));
    let smaller = Size { width: 20, height: 20 };
    let was = shown.viewer.framebuffer().row(15)[15];
    shown.say(&SessionMessage::Geometry(Geometry { epoch: 2, size: smaller, shown: None }));
    shown.is(&smaller.rect().into());
    assert_eq!(
        shown.viewer.framebuffer().row(15)[15],
        was,
        "old pixels stay visible, and are lossy"
    );
}
