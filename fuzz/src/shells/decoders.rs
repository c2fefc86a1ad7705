//! The decoders: bytes from a session become pixels, of one rectangle and of a whole viewer. Beside
//! the path. On success exactly the rectangle is filled; in any case nothing outside it is written.
//! Knows the public interfaces only; limits sizes so that a run stays short.

use thinc_codec_dec::{Decoder, OPAQUE, StreamUnpacker};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::command::{BitmapDepth, CommandWriter, Compression, Encoding};
use thinc_protocol::framing::{Deframer, MessageFrame, put_message};
use thinc_protocol::limits::{CACHE_TOKEN_BYTES, SESSION_MESSAGE_BYTES_MAX, VIDEO_STREAMS_MAX};
use thinc_protocol::session::{
    CacheGrant, Geometry, Packed, SessionCaps, SessionHello, SessionMessage, Update,
};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::Planes;
use thinc_viewer_core::{
    Cache, ClipboardPolicy, StereoMode, VideoEvent, Viewer, ViewerConfig, ViewerEvent,
};
use xxhash_rust::xxh3::xxh3_64;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, InBuffer, OutBuffer, ResetDirective};

use crate::parsers::each_frame;

/// Value between the rows of the destination, which must not change.
const BESIDE: u32 = 0x0011_2233;
/// Pixels of destination between one row's end and the next row's start.
const GAP: usize = 3;

/// First byte: the encoding, modulo 10. Second and third: width and height, from 1. Then the data.
pub fn pixels(input: &[u8]) {
    decode_pixels(input);
}

/// True if the data are valid.
fn decode_pixels(input: &[u8]) -> bool {
    let [form, width, height, data @ ..] = input else { return false };
    let (width, height) = (usize::from(*width) + 1, usize::from(*height) + 1);
    let stride = width + GAP;
    let mut dst = vec![BESIDE; stride * height];
    let mut decoder = Decoder::new();
    let compression = if form & 1 == 0 { Compression::Plain } else { Compression::Zstd };
    let colors = (0x00ff_ffff, 0x0012_3456);
    let mut bitmap =
        |depth| decoder.bitmap(depth, compression, data, colors, (width, height), &mut dst, stride);
    let result = match form % 10 {
        0 | 1 => bitmap(BitmapDepth::One),
        2 | 3 => bitmap(BitmapDepth::Eight),
        4 => decoder.raw(Encoding::Plain, data, (width, height), &mut dst, stride),
        5 => decoder.raw(Encoding::Predicted, data, (width, height), &mut dst, stride),
        6 => decoder.raw(Encoding::PredictedZstd, data, (width, height), &mut dst, stride),
        7 => decoder.raw(Encoding::Jpeg, data, (width, height), &mut dst, stride),
        8 => decoder.raw(Encoding::Residuals, data, (width, height), &mut dst, stride),
        _ => decoder.raw(Encoding::Columns, data, (width, height), &mut dst, stride),
    };
    for row in dst.chunks_exact(stride) {
        let (inside, beside) = row.split_at(width);
        assert!(
            beside.iter().all(|pixel| *pixel == BESIDE),
            "pixels outside the rectangle were written"
        );
        if result.is_ok() {
            assert!(inside.iter().all(|pixel| pixel & OPAQUE == OPAQUE), "a pixel was not written");
        }
    }
    result.is_ok()
}

/// `data` as one zstd frame that states its size.
fn zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let len =
        zstd_safe::compress(&mut out[..], data, 1).expect("the buffer has the size of the bound");
    out.truncate(len);
    out
}

/// A photograph of 8 by 4 pixels.
const JPEG: [u8; 9] = [0x02, 0x1e, 0xc6, 0x5a, 0x28, 0xa2, 0xba, 0xd9, 0x91];

/// Every encoding on 8 by 4 pixels, with valid data.
pub fn pixels_seeds() -> Vec<Vec<u8>> {
    let seed = |form: u8, data: &[u8]| [&[form, 7, 3], data].concat();
    // Two colours and a run of 30 pixels, in the byte operations of doc/protocol.md.
    let operations = [0xff, 1, 2, 3, 0xff, 9, 9, 9, 0xf9, 13];
    // Black, white and a colour of two bytes; columns of one colour, some equal, and others split
    // into a row and pixels.
    let palette = [2, 1, 0, 255, 35, 0, 0, 239, 0, 0, 17];
    let columns =
        [&palette[..], &[3, 8, 15, 9, 0, 15, 254, 6, 0, 19, 2, 4, 0, 14], &[15; 12]].concat();
    vec![
        seed(0, &[0x55; 4]),
        seed(1, &zstd(&[0x55; 4])),
        seed(2, &[0x80; 32]),
        seed(3, &zstd(&[0x80; 32])),
        seed(4, &[0x33; 96]),
        seed(5, &operations),
        seed(6, &zstd(&operations)),
        // The first row has grade 3; there are no differences, so all others have grade 0. 122 is
        // the symbol of none.
        seed(8, &[&[0, 24, 0, 0, 8, 0, 0], &zstd(&[122; 32])[..]].concat()),
        seed(7, &JPEG),
        seed(9, &columns),
    ]
}

/// Updates of one packed stream. Each is: a byte whose bit 0 resets the stream, the unpacked and
/// the packed length (u16, lowest byte first), then the packed bytes.
pub fn packed(input: &[u8]) {
    unpack_all(input);
}

/// True if all of them are valid.
fn unpack_all(mut input: &[u8]) -> bool {
    let mut unpacker = StreamUnpacker::new();
    let mut unpacked = Vec::new();
    let (mut all, mut longest) = (true, 0);
    while let [flags, len_low, len_high, data_low, data_high, rest @ ..] = input {
        let how =
            Packed { len: u16::from_le_bytes([*len_low, *len_high]).into(), reset: flags & 1 == 1 };
        let (data, rest) =
            rest.split_at(rest.len().min(u16::from_le_bytes([*data_low, *data_high]).into()));
        let result = unpacker.unpack(how, data, &mut unpacked);
        longest = longest.max(how.len as usize);
        assert!(
            result.is_err() || unpacked.len() == how.len as usize,
            "the unpacked length differs from the stated one"
        );
        // A vector grows by doubling, from at least eight.
        assert!(
            unpacked.capacity() <= 2 * longest + 8,
            "more memory is allocated than the stated lengths need"
        );
        all &= result.is_ok();
        input = rest;
    }
    all
}

/// Three updates in a row, of which the third repeats the first; and the same with a reset before
/// the third.
pub fn packed_seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 3] = [
        b"The quick brown fox jumps over the lazy dog",
        &[9; 700],
        b"The quick brown fox jumps again",
    ];
    let stream = |resets: &[usize]| {
        let mut zstd = CCtx::create();
        let mut seed = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let reset = resets.contains(&i);
            if reset {
                zstd.reset(ResetDirective::SessionOnly).expect("a context can always be reset");
            }
            let mut data = vec![0; 256];
            let mut output = OutBuffer::around(&mut data[..]);
            let left = zstd.compress_stream2(
                &mut output,
                &mut InBuffer::around(text),
                ZSTD_EndDirective::ZSTD_e_flush,
            );
            assert_eq!(left, Ok(0), "256 bytes are enough");
            let end = output.pos();
            data.truncate(end);
            seed.push(reset.into());
            seed.extend((text.len() as u16).to_le_bytes());
            seed.extend((data.len() as u16).to_le_bytes());
            seed.extend(data);
        }
        seed
    };
    vec![stream(&[0]), stream(&[0, 2])]
}

/// 1 Mi: largest tested screen, in pixels; a larger one is only slower.
const SCREEN_AREA_TRIED_MAX: u64 = 1 << 20;
/// 64 KiB: size of the viewer's cache, so that the limit is reached.
const CACHE_TRIED: u64 = 1 << 16;

/// 64 KiB: longest clipboard content, so that the limit is reached.
const CLIP_TRIED: usize = 1 << 16;

/// 1 Mi: largest frame that a decoder here pretends to decode, in samples.
const FRAME_AREA_TRIED_MAX: u64 = 1 << 20;
/// The limit of waiting frames in doc/protocol.md.
const FRAMES_WAITING_MAX: usize = 64;

/// A viewer that receives the input after a valid hello.
pub fn viewer(input: &[u8]) {
    feed_viewer(input, 0);
}

/// The same, but updates with odd numbers arrive as datagrams, and so does half of the invalid
/// messages.
pub fn viewer_datagrams(input: &[u8]) {
    feed_viewer(input, SessionCaps::DATAGRAMS);
}

/// True if the viewer accepted all of it.
fn feed_viewer(input: &[u8], session: u32) -> bool {
    let mut viewer = Viewer::new(&ViewerConfig {
        name: "fuzz".to_owned(),
        size: Size::default(),
        caps: ViewerCaps::VIDEO
            | ViewerCaps::H264
            | if session == 0 { 0 } else { ViewerCaps::DATAGRAMS },
        clipboard: ClipboardPolicy { bytes_max: CLIP_TRIED as u64, ..ClipboardPolicy::default() },
    });
    let mut decoders = Decoders::default();
    // Each input has one of those that show the right eye.
    viewer.set_video_codecs(FrameCodec::Av1.bit());
    viewer.choose_stereo(StereoMode::ALL[1 + input.len() % (StereoMode::ALL.len() - 1)]);
    viewer.offer_cache(Cache::new(CACHE_TRIED));
    viewer.offer_clipboard(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Text));
    let mut now = 1_000;
    let mut bytes = Vec::new();
    hello_messages(session | SessionCaps::STEREO | SessionCaps::VIDEO_CODECS)
        .iter()
        .for_each(|message| message.encode(&mut bytes));
    let mut alive = viewer.handle_bytes(&bytes, now).is_ok();
    assert!(alive, "a valid hello is refused");
    each_frame(input, SESSION_MESSAGE_BYTES_MAX, |frame| {
        if let Ok(SessionMessage::Geometry(geometry)) = SessionMessage::decode(frame)
            && geometry.size.area() > SCREEN_AREA_TRIED_MAX
        {
            return;
        }
        now += 1_000;
        bytes.clear();
        put_message(&mut bytes, frame.kind, |out| out.extend_from_slice(frame.body));
        let odd = match SessionMessage::decode(frame) {
            Ok(SessionMessage::Update(update)) => update.seq & 1 == 1,
            Ok(_) => false,
            Err(_) => frame.body.len() & 1 == 1,
        };
        alive &= if session != 0 && odd {
            viewer.handle_datagram(&bytes, now).is_ok()
        } else {
            viewer.handle_bytes(&bytes, now).is_ok()
        };
        // Every other time, waiting updates time out.
        if frame.body.len() & 1 == 1
            && let Some(due) = viewer.poll_deadline()
        {
            now = now.max(due);
            viewer.handle_timeout(now);
        }
        bytes.clear();
        if viewer.poll_datagram(&mut bytes) {
            let frame =
                MessageFrame::from_datagram(&bytes).expect("a viewer's frames are well-formed");
            ViewerMessage::decode(&frame).expect("a viewer's messages decode");
        }
        serve_clipboard(&mut viewer, now);
        decoders.serve(&mut viewer, now);
        check_viewer(&mut viewer);
    });
    alive
}

/// Decoders that decode nothing: a frame's first byte chooses its fate.
#[derive(Default)]
struct Decoders {
    /// Streams that have begun and not ended.
    streams: Vec<u64>,
    /// Frames that are returned one message later, the last first.
    late: Vec<(u64, Size)>,
}

impl Decoders {
    fn serve(&mut self, viewer: &mut Viewer, now: u64) {
        while let Some((serial, size)) = self.late.pop() {
            self.answer(viewer, serial, size, now);
        }
        while let Some(event) = viewer.poll_video() {
            match event {
                VideoEvent::Started { stream, size, .. } => {
                    assert!(!self.streams.contains(&stream), "a stream begins twice");
                    self.streams.push(stream);
                    if size.area() > FRAME_AREA_TRIED_MAX {
                        viewer.handle_video_refused(stream);
                    } else {
                        viewer.handle_video_ready(stream);
                    }
                }
                VideoEvent::Frame { stream, serial, size, data, .. } => {
                    assert!(
                        self.streams.contains(&stream),
                        "a frame of a stream that has not begun"
                    );
                    assert!(
                        size.width % 2 == 0 && size.height % 2 == 0,
                        "a frame with an odd width or height"
                    );
                    match data.first() {
                        Some(2) => viewer.handle_video_frame_failed(serial),
                        Some(3) => self.late.push((serial, size)),
                        Some(4) => viewer.handle_video_refused(stream),
                        // It is never returned.
                        Some(5) => {}
                        _ => self.answer(viewer, serial, size, now),
                    }
                    viewer.reuse_video_buffer(data);
                }
                VideoEvent::Ended { stream } => {
                    let at = self.streams.iter().position(|begun| *begun == stream);
                    self.streams.swap_remove(at.expect("a stream that ends has begun"));
                }
            }
        }
        assert!(
            self.streams.len() <= usize::from(VIDEO_STREAMS_MAX),
            "more streams than the limit"
        );
        assert!(
            viewer.video_frames_waiting() <= FRAMES_WAITING_MAX,
            "more frames wait than the limit"
        );
    }

    fn answer(&mut self, viewer: &mut Viewer, serial: u64, size: Size, now: u64) {
        if !viewer.is_video_frame_visible(serial) {
            return viewer.handle_video_frame_skipped(serial);
        }
        if size.area() > FRAME_AREA_TRIED_MAX {
            return viewer.handle_video_frame_failed(serial);
        }
        let mut planes = Planes::new();
        planes.reset(size, SampleLayout::Yuv420);
        viewer.handle_video_frame(serial, &planes.as_ref(), now);
    }
}

/// Pastes everything that is offered, in every format, and provides 40 KiB on request.
fn serve_clipboard(viewer: &mut Viewer, now: u64) {
    while let Some(event) = viewer.poll_event() {
        match event {
            ViewerEvent::ClipOffer { selection, formats } => formats.iter().for_each(|format| {
                viewer.request_clipboard(selection, format, now);
            }),
            ViewerEvent::ClipWanted { id, format, .. } => {
                let text = format == ClipFormat::Text;
                viewer.provide_clipboard(
                    id,
                    if text { Ok(vec![b'x'; 40_000]) } else { Err(ClipEnd::Unavailable) },
                    now,
                );
            }
            ViewerEvent::ClipReceived { content, .. } => {
                assert!(content.len() <= CLIP_TRIED, "more is pasted than the limit");
            }
            _ => {}
        }
    }
}

fn check_viewer(viewer: &mut Viewer) {
    let size = viewer.framebuffer().size();
    assert_eq!(
        viewer.framebuffer().pixels().len() as u64,
        size.area(),
        "the framebuffer has another size"
    );
    let damage = viewer.take_damage();
    assert!(
        damage.rects().iter().all(|rect| size.rect().contains(rect)),
        "damage lies outside the screen"
    );
    for rect in damage.rects() {
        let row = viewer.framebuffer().row(rect.y1 as usize);
        assert!(row.iter().all(|pixel| pixel & OPAQUE == OPAQUE), "a pixel is not opaque");
    }
    for shown in [viewer.picture()].into_iter().chain(viewer.right_picture()) {
        assert_eq!(shown.len() as u64, size.area(), "what is presented has another size");
        assert!(shown.iter().all(|pixel| pixel & OPAQUE == OPAQUE), "it is not opaque");
    }
    for region in viewer.right_eye().regions() {
        region.check_invariants();
        assert!(size.rect().contains(&region.extents()), "the right eye sees beyond the screen");
    }
    assert!(viewer.lossy().pixels() <= size.area(), "more pixels are lossy than there are");
    let lossy = viewer.lossy().region();
    assert_eq!(lossy.is_empty(), viewer.lossy().is_empty(), "lossy region and count disagree");
    assert!(
        lossy.is_empty() || size.rect().contains(&lossy.extents()),
        "lossy pixels lie outside the screen"
    );
    if let Some(cache) = viewer.cache() {
        assert!(cache.bytes() <= CACHE_TRIED, "the cache exceeds the offered size");
    }
    let mut sent = Vec::new();
    while viewer.poll_transmit(&mut sent) {}
    let mut deframer = Deframer::new(SESSION_MESSAGE_BYTES_MAX);
    deframer.push(&sent);
    while let Some(frame) = deframer.next().expect("a viewer's frames are well-formed") {
        ViewerMessage::decode(&frame).expect("a viewer's messages decode");
    }
    assert_eq!(deframer.buffered_len(), 0, "a viewer's last message is incomplete");
}

fn hello_messages(caps: u32) -> [SessionMessage<'static>; 3] {
    [
        SessionMessage::Hello(SessionHello {
            version: thinc_protocol::VERSION,
            caps: SessionCaps::CLIPBOARD | caps,
            name: "demo".to_owned(),
            message_bytes_max: 65_536,
        }),
        SessionMessage::Geometry(Geometry {
            epoch: 1,
            size: Size { width: 64, height: 64 },
            shown: None,
        }),
        SessionMessage::Cache(CacheGrant { token: [7; CACHE_TOKEN_BYTES], resumed: false }),
    ]
}

/// Updates with every kind of command, one after the other and all in one, and the other messages
/// of a session.
pub fn viewer_seeds() -> Vec<Vec<u8>> {
    let rect = Rect { x1: 16, y1: 32, x2: 24, y2: 36 };
    let mut all = Vec::new();
    let mut updates = Vec::new();
    let mut update = |seq: u64, write: &dyn Fn(&mut CommandWriter<'_>)| {
        let mut commands = Vec::new();
        write(&mut CommandWriter::new(&mut commands));
        let mut bytes = Vec::new();
        let update = Update {
            seq,
            after: 0,
            epoch: 1,
            echo: None,
            end_of_frame: true,
            packed: None,
            commands: &commands,
        };
        SessionMessage::Update(update).encode(&mut bytes);
        updates.push(bytes);
    };
    update(1, &|writer| writer.sfill(&Region::from(rect), 0x00ff_8000));
    update(2, &|writer| writer.raw(rect, Encoding::Plain, &[0x55; 96]));
    update(3, &|writer| {
        writer.raw(rect, Encoding::PredictedZstd, &zstd(&[0xff, 1, 2, 3, 0xf9, 14]))
    });
    update(4, &|writer| {
        writer.bitmap(rect, BitmapDepth::One, (0x00ff_ffff, 0), Compression::Plain, &[0x5a; 4])
    });
    update(5, &|writer| {
        writer.bitmap(
            rect,
            BitmapDepth::Eight,
            (0x00ff_ffff, 0),
            Compression::Zstd,
            &zstd(&[0x5a; 32]),
        )
    });
    update(6, &|writer| {
        writer.pfill(Rect { x1: 0, y1: 0, x2: 64, y2: 64 }, 2, 2, Encoding::Plain, &[0x33; 12])
    });
    update(7, &|writer| writer.copy(&Region::from(rect), 8, -8));
    update(8, &|writer| writer.raw(rect, Encoding::Jpeg, &JPEG));
    update(9, &|writer| {
        writer.keep(rect, 300);
        writer.recall(Rect { x1: 40, y1: 3, x2: 48, y2: 7 }, 300);
    });
    update(10, &|writer| crate::parsers::videos().iter().for_each(|command| writer.video(command)));
    updates.iter().for_each(|update| all.extend_from_slice(update));
    updates.push(packed_updates(rect));
    updates.push(all);
    updates.extend(crate::parsers::session_message_seeds());
    updates
}

/// Updates by stream and by datagram in an order that no path keeps: reordered, duplicated, one
/// whose predecessor never arrives, and one for a geometry that comes later.
pub fn viewer_datagrams_seeds() -> Vec<Vec<u8>> {
    let update = |(seq, after): (u64, u64), epoch: u32, x: i32| {
        let mut commands = Vec::new();
        CommandWriter::new(&mut commands).sfill(&Region::from(Rect::at(x, 8, 16, 16)), 0x00ff_8000);
        let mut bytes = Vec::new();
        let update = Update {
            seq,
            after,
            epoch,
            echo: None,
            end_of_frame: true,
            packed: None,
            commands: &commands,
        };
        SessionMessage::Update(update).encode(&mut bytes);
        bytes
    };
    let (one, two, three) = (update((1, 0), 1, 0), update((2, 1), 1, 8), update((3, 2), 1, 16));
    let (lost, next) = (update((7, 5), 1, 0), update((9, 0), 2, 0));
    let mut later = Vec::new();
    SessionMessage::Geometry(Geometry {
        epoch: 2,
        size: Size { width: 48, height: 48 },
        shown: None,
    })
    .encode(&mut later);
    vec![
        [&one[..], &two, &three].concat(),
        [&three[..], &one, &two, &one].concat(),
        [&lost[..], &two, &three].concat(),
        [&next[..], &one, &later, &three].concat(),
    ]
}

/// Two packed updates, of which the second refers to the first.
fn packed_updates(rect: Rect) -> Vec<u8> {
    let mut stream = CCtx::create();
    let mut updates = Vec::new();
    for seq in 1..3 {
        let mut commands = Vec::new();
        CommandWriter::new(&mut commands).raw(rect, Encoding::Plain, &[0x55; 96]);
        let mut data = vec![0; 256];
        let mut output = OutBuffer::around(&mut data[..]);
        let left = stream.compress_stream2(
            &mut output,
            &mut InBuffer::around(&commands),
            ZSTD_EndDirective::ZSTD_e_flush,
        );
        assert_eq!(left, Ok(0), "256 bytes are enough");
        let end = output.pos();
        let packed = Some(Packed { len: commands.len() as u32, reset: seq == 1 });
        let update = Update {
            seq,
            after: seq - 1,
            epoch: 1,
            echo: None,
            end_of_frame: true,
            packed,
            commands: &data[..end],
        };
        SessionMessage::Update(update).encode(&mut updates);
    }
    updates
}

/// A cache as saved in a file, but without the hash at its end, which no mutation would get right.
pub fn saved_cache(input: &[u8]) {
    load_cache(input);
}

/// True if it is valid.
fn load_cache(input: &[u8]) -> bool {
    let saved = [input, &xxh3_64(input).to_le_bytes()[..]].concat();
    let Ok(cache) = Cache::load(&saved, CACHE_TRIED) else { return false };
    assert!(cache.bytes() <= CACHE_TRIED, "the cache exceeds its limit");
    let mut again = Vec::new();
    cache.save(&mut again);
    let mut twice = Vec::new();
    Cache::load(&again, CACHE_TRIED).expect("a saved cache can be loaded").save(&mut twice);
    assert!(again == twice, "a cache changes when it is saved and loaded");
    true
}

/// An empty cache, and one with two tiles.
pub fn saved_cache_seeds() -> Vec<Vec<u8>> {
    let mut viewer = Viewer::new(&ViewerConfig {
        name: "fuzz".to_owned(),
        size: Size::default(),
        caps: 0,
        clipboard: ClipboardPolicy::OFF,
    });
    viewer.offer_cache(Cache::new(CACHE_TRIED));
    let mut bytes = Vec::new();
    hello_messages(0).iter().for_each(|message| message.encode(&mut bytes));
    let mut commands = Vec::new();
    let mut writer = CommandWriter::new(&mut commands);
    writer.keep(Rect::at(3, 4, 5, 2), 7);
    writer.keep(Rect::at(0, 0, 1, 9), 65_535);
    let update = Update {
        seq: 1,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &commands,
    };
    SessionMessage::Update(update).encode(&mut bytes);
    viewer.handle_bytes(&bytes, 0).expect("the hello and the tiles are valid");
    [Cache::new(CACHE_TRIED), viewer.take_cache().expect("the viewer has a cache")]
        .map(|cache| {
            let mut saved = Vec::new();
            cache.save(&mut saved);
            saved.truncate(saved.len() - 8);
            saved
        })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that is refused at once is a useless start for mutations.
    #[test]
    fn the_seeds_are_well_formed() {
        for (index, seed) in pixels_seeds().iter().enumerate() {
            assert!(decode_pixels(seed), "pixels seed {index}");
        }
        for (index, seed) in packed_seeds().iter().enumerate() {
            assert!(unpack_all(seed), "packed seed {index}");
        }
        for (index, seed) in saved_cache_seeds().iter().enumerate() {
            assert!(load_cache(seed), "saved cache seed {index}");
        }
        // After the updates come single messages, some of them out of order.
        for (index, seed) in viewer_seeds().iter().take(12).enumerate() {
            assert!(feed_viewer(seed, 0), "viewer seed {index}");
        }
        for (index, seed) in viewer_datagrams_seeds().iter().enumerate() {
            assert!(feed_viewer(seed, SessionCaps::DATAGRAMS), "viewer-datagrams seed {index}");
            assert!(
                !feed_viewer(seed, 0) || index == 0,
                "seed {index} is valid as an ordered stream"
            );
        }
    }
}
