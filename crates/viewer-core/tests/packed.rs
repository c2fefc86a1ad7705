//! Packed updates at a viewer: applied, dropped, and malformed. From the packer a session uses, or
//! bytes that the test damages, to the framebuffer, the statistics and the connection's end. Knows
//! viewer-core's public interface.

use thinc_codec_enc::StreamPacker;
use thinc_protocol::command::Command;
use thinc_protocol::limits::UNPACKED_BYTES_MAX;
use thinc_protocol::session::{Geometry, Packed, SessionHello, SessionMessage, Update};
use thinc_region::{Rect, Size};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerError};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

const SIZE: Size = Size { width: 64, height: 48 };

/// A viewer with a screen, and the session's end of the stream.
struct Connection {
    viewer: Viewer,
    packer: StreamPacker,
    seq: u64,
    epoch: u32,
}

impl Connection {
    fn new() -> Connection {
        let viewer = Viewer::new(&ViewerConfig {
            name: "test".into(),
            size: SIZE,
            caps: 0,
            clipboard: ClipboardPolicy::OFF,
        });
        let mut connection = Connection { viewer, packer: StreamPacker::new(1), seq: 0, epoch: 0 };
        let hello =
            SessionHello { version: 1, caps: 0, name: String::new(), message_bytes_max: 65536 };
        connection.say(&SessionMessage::Hello(hello)).unwrap();
        connection.geometry();
        connection
    }

    fn say(&mut self, message: &SessionMessage<'_>) -> Result<(), ViewerError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.viewer.handle_bytes(&bytes, 0)
    }

    fn geometry(&mut self) {
        self.epoch += 1;
        let epoch = self.epoch;
        self.say(&SessionMessage::Geometry(Geometry { epoch, size: SIZE, shown: None })).unwrap();
    }

    fn update(
        &mut self,
        epoch: u32,
        packed: Option<Packed>,
        commands: &[u8],
    ) -> Result<(), ViewerError> {
        self.seq += 1;
        let (seq, after) = (self.seq, 0);
        self.say(&SessionMessage::Update(Update {
            seq,
            after,
            epoch,
            echo: None,
            end_of_frame: true,
            packed,
            commands,
        }))
    }

    /// Packs commands and sends them for an epoch.
    fn pack(&mut self, epoch: u32, commands: &[u8]) -> Result<usize, ViewerError> {
        let mut bytes = Vec::new();
        let packed =
            self.packer.pack(commands, &mut bytes).expect("these commands shrink when packed");
        self.update(epoch, Some(packed), &bytes).map(|()| bytes.len())
    }

    fn at(&self, x: usize, y: usize) -> u32 {
        self.viewer.framebuffer().row(y)[x] & 0x00ff_ffff
    }
}

/// Fills that give every row its own colour.
fn rows(seed: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for y in 0..SIZE.height {
        let region = Rect::at(0, y as i32, SIZE.width as i32, 1).into();
        Command::Sfill { region, color: color(seed, y) }.encode(&mut out);
    }
    out
}

fn color(seed: u32, y: u32) -> u32 {
    (seed * 1000 + y).wrapping_mul(0x9e37_79b1) >> 8
}

/// The first bytes of a zstd stream with this window, flushed.
fn stream_of(commands: &[u8], window_log: u32) -> Vec<u8> {
    let mut zstd = CCtx::create();
    zstd.set_parameter(CParameter::WindowLog(window_log)).unwrap();
    let mut out = vec![0; zstd_safe::compress_bound(commands.len()) + 64];
    let mut output = OutBuffer::around(&mut out[..]);
    zstd.compress_stream(&mut output, &mut InBuffer::around(commands)).unwrap();
    while zstd.flush_stream(&mut output).unwrap() > 0 {}
    let len = output.pos();
    out.truncate(len);
    out
}

fn whole_frame_of(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
    let len = zstd_safe::compress(&mut out[..], bytes, 1).unwrap();
    out.truncate(len);
    out
}

#[test]
fn packed_and_unpacked_updates_alternate() {
    let mut connection = Connection::new();
    let (mut wire, mut unpacked) = (0, 0);
    for seed in 0..10 {
        let commands = rows(seed);
        if seed % 3 == 2 {
            connection.update(1, None, &commands).unwrap();
        } else {
            wire += connection.pack(1, &commands).unwrap();
            unpacked += commands.len();
        }
        for y in 0..SIZE.height {
            assert_eq!(connection.at(5, y as usize), color(seed, y), "update {seed}, row {y}");
        }
    }
    let stats = connection.viewer.stats();
    assert_eq!(
        (stats.packed_updates, stats.packed_bytes, stats.unpacked_bytes),
        (7, wire as u64, unpacked as u64)
    );
    assert_eq!(
        stats.commands[1].bytes,
        (unpacked + 3 * rows(0).len()) as u64,
        "kinds are counted unpacked"
    );
    assert!(stats.bytes_in > wire as u64 && wire < unpacked);
}

#[test]
fn updates_of_another_epoch_are_unpacked_and_dropped() {
    let mut connection = Connection::new();
    connection.pack(1, &rows(1)).unwrap();
    connection.geometry();
    connection.pack(1, &rows(2)).unwrap();
    assert_eq!(connection.at(0, 7), color(1, 7), "made for the previous geometry");
    // It refers to the dropped one.
    let later = connection.pack(2, &rows(2)).unwrap();
    assert!(later < 64, "{later} bytes: sent before, in the dropped update");
    assert_eq!(connection.at(0, 7), color(2, 7));
    assert_eq!(connection.viewer.stats().updates_dropped, 1);
}

#[test]
fn a_restarted_packed_stream_refers_to_nothing_earlier() {
    let mut connection = Connection::new();
    connection.pack(1, &rows(1)).unwrap();
    // An update that the viewer never gets.
    connection.packer.pack(&rows(2), &mut Vec::new()).unwrap();
    connection.packer.restart();
    connection.pack(1, &rows(2)).unwrap();
    assert_eq!(connection.at(0, 7), color(2, 7));
}

#[test]
fn malformed_packed_updates_end_the_connection() {
    let commands = rows(1);
    let len = commands.len() as u32;
    let mut first = Vec::new();
    let packed = StreamPacker::new(1).pack(&commands, &mut first).unwrap();
    assert!(packed.reset && packed.len == len);
    let cut = &first[..first.len() - 3];
    let whole_frame = whole_frame_of(&commands);
    let large_window = stream_of(&commands, 23);
    let garbage: Vec<u8> = (0..500u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    for (name, len, reset, bytes) in [
        ("a stream that was never started", len, false, &first[..]),
        ("more bytes than announced", len - 1, true, &first),
        ("fewer bytes than announced", len + 1, true, &first),
        ("far fewer bytes than announced", UNPACKED_BYTES_MAX as u32, true, &first),
        ("the end is missing", len, true, cut),
        ("nothing at all", len, true, &[]),
        ("a stream that ends", len, true, &whole_frame),
        ("a window larger than the viewer's", len, true, &large_window),
        ("garbage", len, true, &garbage),
    ] {
        let mut connection = Connection::new();
        let error = connection.update(1, Some(Packed { len, reset }), bytes).expect_err(name);
        assert!(matches!(error, ViewerError::Decode(_)), "{name}: {error}");
        assert_eq!(connection.at(5, 0), 0, "{name}: nothing of it is shown");
        assert!(connection.viewer.is_closed(), "{name}");
    }
    // The same bytes with the right lengths.
    let mut connection = Connection::new();
    connection.update(1, Some(packed), &first).unwrap();
    assert_eq!(connection.at(5, 9), color(1, 9));
}

#[test]
fn a_gap_in_the_packed_stream_is_detected() {
    let mut connection = Connection::new();
    connection.pack(1, &rows(1)).unwrap();
    connection.packer.pack(&rows(2), &mut Vec::new()).unwrap();
    let next = connection.pack(1, &rows(2));
    let shown = connection.at(0, 7);
    assert!(next.is_err() || shown != color(2, 7), "it refers to missing bytes");
    // If its bytes happen to decode, they are commands of the wrong update: only the stream's order
    // prevents that, which TCP keeps.
}

#[test]
fn commands_are_bounded_and_a_bomb_costs_no_memory() {
    // 16 MiB of zeros pack into a few bytes; they are not commands, and the viewer keeps none of
    // them.
    let zeros = vec![0u8; UNPACKED_BYTES_MAX];
    let bytes = stream_of(&zeros, 20);
    assert!(bytes.len() < 10_000);
    let mut connection = Connection::new();
    let packed = Packed { len: UNPACKED_BYTES_MAX as u32, reset: true };
    assert!(connection.update(1, Some(packed), &bytes).is_err());
}
