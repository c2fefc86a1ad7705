//! The parsers: each reads bytes as its part of thinc does, and checks what the part promises.
//! Beside the path. A promise is an assertion; an error is a fine answer to bytes that make no sense.
//! Knows the public interfaces only.

use std::future::Future as _;
use std::pin::pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};

use thinc_protocol::arrived::Arrived;
use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::command::{Command, CommandReader, CommandWriter, Encoding, Packing};
use thinc_protocol::frame::{Deframer, Frame};
use thinc_protocol::held::Held;
use thinc_protocol::limits::{
    CACHE_TOKEN_BYTES, PREAUTH_FRAME_BYTES_MAX, SESSION_FRAME_BYTES_MAX, VIEWER_FRAME_BYTES_MAX,
};
use thinc_protocol::session::{
    CacheGrant, Close, CloseCode, CursorBits, CursorColors, Geometry, Packed, SessionHello, SessionMessage, Shows,
    Update,
};
use thinc_protocol::video::{Codec, Layout, Picture, Readiness, Source, VideoCommand, VideoState};
use thinc_protocol::viewer::{CacheOffer, Early, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, RecordKind};
use thinc_transport::link::{Link, LinkError};
use thinc_transport::quic::Connect;
use web_transport_proto::ConnectRequest;
use web_transport_proto::http::HeaderValue;
use web_transport_proto::http::header::ORIGIN;

/// The screen on which commands are read.
pub(crate) const SCREEN: Size = Size { width: 1024, height: 768 };

/// Bytes of one record of the ring; the type of `DrawRecord::parse` says so too.
const RECORD_BYTES: usize = 64;

/// Gives each frame of a stream to `read`, pushed in two pieces so that a frame cut in the middle is met too.
pub(crate) fn each_frame(input: &[u8], frame_bytes_max: usize, mut read: impl FnMut(&Frame<'_>)) {
    let mut deframer = Deframer::new(frame_bytes_max);
    let (first, second) = input.split_at(input.len() / 2);
    for piece in [first, second] {
        deframer.push(piece);
        loop {
            match deframer.next() {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() <= frame_bytes_max, "a frame passes its limit");
                    read(&frame);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// The one frame that `encode` appends.
fn with_frame<R>(encode: impl FnOnce(&mut Vec<u8>), read: impl FnOnce(&Frame<'_>) -> R) -> R {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    let mut deframer = Deframer::new(SESSION_FRAME_BYTES_MAX);
    deframer.push(&bytes);
    let result = read(&deframer.next().expect("what we write is well-formed").expect("what we write is whole"));
    assert_eq!(deframer.buffered_len(), 0, "one message is one frame");
    result
}

/// A record of the ring: whatever it says, its rectangles lie where drawables can be.
pub fn draw_record(input: &[u8]) {
    for bytes in input.chunks_exact(RECORD_BYTES) {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().expect("chunks have this length");
        let Ok(record) = DrawRecord::parse(bytes) else { continue };
        match record.kind {
            RecordKind::Draw { rect, .. } => assert!(!rect.is_empty() && rect.x1 >= 0 && rect.y1 >= 0),
            RecordKind::Copy { rect, dx, dy, .. } => {
                assert!(!rect.is_empty() && rect.x1 >= 0 && rect.y1 >= 0);
                assert!(rect.x1 - dx >= 0 && rect.y1 - dy >= 0, "a copy reads outside every drawable");
            }
            _ => {}
        }
    }
}

/// One record of each kind, with a rectangle that fits.
pub fn draw_record_seeds() -> Vec<Vec<u8>> {
    (1..=11u8)
        .map(|kind| {
            let mut bytes = vec![0; RECORD_BYTES];
            bytes[8] = kind;
            for (at, value) in [(24, 8i32), (28, 8), (32, 24), (36, 24), (40, 4), (44, -4)] {
                bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            bytes
        })
        .collect()
}

/// The first frame of a connection and its answer.
pub fn auth(input: &[u8]) {
    each_frame(input, PREAUTH_FRAME_BYTES_MAX, |frame| {
        if let Ok(auth) = Auth::decode(frame) {
            with_frame(|out| auth.encode(out), |again| assert!(Auth::decode(again) == Ok(auth)));
        }
        if let Ok(answer) = AuthOk::decode(frame) {
            with_frame(|out| answer.encode(out), |again| assert!(AuthOk::decode(again) == Ok(answer)));
        }
    });
}

/// Both forms of credential.
pub fn auth_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(), Vec::new(), Vec::new()];
    Auth::Token(&[7; 32]).encode(&mut seeds[0]);
    Auth::SessionKey(&[9; 32]).encode(&mut seeds[1]);
    AuthOk { session_key: &[9; 32] }.encode(&mut seeds[2]);
    seeds
}

/// What a viewer says to a session.
pub fn viewer_message(input: &[u8]) {
    each_frame(input, VIEWER_FRAME_BYTES_MAX, |frame| {
        if let Ok(message) = ViewerMessage::decode(frame) {
            with_frame(
                |out| message.encode(out),
                |again| assert_eq!(ViewerMessage::decode(again), Ok(message.clone())),
            );
        }
    });
}

/// A viewer's first words, and one frame of every kind with a short body.
pub fn viewer_message_seeds() -> Vec<Vec<u8>> {
    let messages = [
        ViewerMessage::Hello(ViewerHello {
            version: thinc_protocol::VERSION,
            caps: 3,
            size: SCREEN,
            frame_bytes_max: SESSION_FRAME_BYTES_MAX as u32,
            name: "thinc-view".to_owned(),
        }),
        ViewerMessage::Arrived(Arrived { applied: vec![290..=300, 1..=280], discarded: vec![285] }),
        ViewerMessage::Early(Early { offset: 300, bytes: vec![5, 1, 7] }),
        ViewerMessage::Ping(300),
        ViewerMessage::Resize(SCREEN),
        ViewerMessage::Barrier(1),
        ViewerMessage::Refresh,
        ViewerMessage::Instance([7; 16]),
        ViewerMessage::Cache(CacheOffer { bytes: 64 << 20, token: [7; CACHE_TOKEN_BYTES], update: 300 }),
        ViewerMessage::Held(Held { size: SCREEN, part: SCREEN.rect(), edge_log: 7, key: [7; 32], tiles: vec![7; 48] }),
        ViewerMessage::Close("done".to_owned()),
    ];
    let mut seeds = plain_frames();
    for message in messages {
        let mut seed = Vec::new();
        message.encode(&mut seed);
        seeds.push(seed);
    }
    seeds.push(clip_conversation());
    seeds.push(video_conversation());
    seeds
}

/// A viewer whose decoders are ready, get lost, and refuse at last.
pub(crate) fn video_conversation() -> Vec<u8> {
    let mut seed = Vec::new();
    for turn in 0..40 {
        let readiness = match turn {
            0..25 => Readiness::Ready,
            25..38 => Readiness::Lost,
            _ => Readiness::Refused,
        };
        ViewerMessage::Video(VideoState { id: turn % 2, readiness }).encode(&mut seed);
    }
    seed
}

/// What a session says to a viewer, the commands of its updates included.
pub fn session_message(input: &[u8]) {
    each_frame(input, SESSION_FRAME_BYTES_MAX, |frame| {
        let Ok(message) = SessionMessage::decode(frame) else { return };
        with_frame(|out| message.encode(out), |again| assert_eq!(SessionMessage::decode(again), Ok(message.clone())));
        if let SessionMessage::Update(update) = &message {
            commands(update.commands);
        }
    });
    // The commands alone, without the frame that the mutations would have to keep whole.
    commands(input);
}

fn commands(bytes: &[u8]) {
    let screen = SCREEN.rect();
    let inside = |rect: &Rect| assert!(!rect.is_empty() && screen.contains(rect), "{rect:?} is outside the screen");
    let read: Vec<Command<'_>> = CommandReader::new(bytes, SCREEN).map_while(Result::ok).collect();
    for command in &read {
        match command {
            Command::Copy { region, dx, dy } => {
                region.rects().iter().for_each(|rect| {
                    inside(rect);
                    inside(&Rect { x1: rect.x1 - dx, y1: rect.y1 - dy, x2: rect.x2 - dx, y2: rect.y2 - dy });
                });
            }
            Command::Sfill { region, .. } => region.rects().iter().for_each(inside),
            Command::Pfill { rect, .. }
            | Command::Bitmap { rect, .. }
            | Command::Raw { rect, .. }
            | Command::Keep { rect, .. }
            | Command::Recall { rect, .. } => inside(rect),
            Command::Video(VideoCommand::Next { clip, .. }) => clip.rects().iter().for_each(inside),
            Command::Video(_) => {}
        }
    }
    let mut written = Vec::new();
    let mut writer = CommandWriter::new(&mut written);
    read.iter().for_each(|command| writer.put(command));
    let again: Vec<Command<'_>> =
        CommandReader::new(&written, SCREEN).collect::<Result<_, _>>().expect("what we write is well-formed");
    assert_eq!(again, read, "commands read back differ");
}

/// A stream with pictures of every kind, moved, resized and ended, and one of plain pictures that goes on.
pub(crate) fn videos() -> Vec<VideoCommand<'static>> {
    let source = |width, height| {
        let size = Size { width, height };
        Source { size, crop: size.rect() }
    };
    let clip = || Region::from_iter([Rect::at(4, 4, 9, 2), Rect::at(6, 6, 20, 10)]);
    let next = |id, time, picture| VideoCommand::Next { id, time, clip: clip(), picture };
    let plain = Picture::Plain { layout: Layout::Yuv422, data: &[0x70; 32] };
    vec![
        VideoCommand::Init { id: 3, codec: Codec::H264, source: source(64, 36), place: Rect::at(-10, 4, 50, 40) },
        next(3, 1_000, Picture::Coded { key: true, data: &[0, 0, 0, 1, 0x65, 0x88] }),
        next(3, 2_000, Picture::Coded { key: false, data: &[1, 0, 0, 1, 0x41] }),
        VideoCommand::Init { id: 4, codec: Codec::None, source: source(4, 4), place: Rect::at(0, 0, 64, 64) },
        next(4, 3_000, plain),
        VideoCommand::Move { id: 3, x: 2, y: -3 },
        VideoCommand::PlaceSize { id: 3, size: Size { width: 40, height: 64 } },
        VideoCommand::SourceSize { id: 3, source: source(32, 32) },
        next(3, 4_000, Picture::Coded { key: true, data: &[3, 0, 0, 1, 0x65] }),
        VideoCommand::End { id: 3 },
    ]
}

/// A session's first words, an update with every kind of command, and one frame of every kind with a short body.
pub fn session_message_seeds() -> Vec<Vec<u8>> {
    let mut update = Vec::new();
    let mut writer = CommandWriter::new(&mut update);
    let rect = Rect { x1: 16, y1: 32, x2: 20, y2: 34 };
    writer.sfill(&Region::from(rect), 0x00ff_8000);
    writer.copy(&Region::from(rect), 8, -8);
    writer.raw(rect, Encoding::Plain, &[0x55; 24]);
    writer.pfill(Rect { x1: 0, y1: 0, x2: 64, y2: 64 }, 2, 2, Encoding::Plain, &[0x33; 12]);
    writer.keep(rect, 300);
    writer.recall(rect, 300);
    videos().iter().for_each(|command| writer.video(command));
    let messages = [
        SessionMessage::Hello(SessionHello {
            version: thinc_protocol::VERSION,
            caps: 0,
            name: "demo".to_owned(),
            frame_bytes_max: VIEWER_FRAME_BYTES_MAX as u32,
        }),
        SessionMessage::Geometry(Geometry { epoch: 1, size: SCREEN, shows: None }),
        SessionMessage::Geometry(Geometry {
            epoch: 2,
            size: Size { width: 40, height: 30 },
            shows: Some(Shows { screen: SCREEN, part: Rect::at(100, 90, 400, 300) }),
        }),
        SessionMessage::Displays(vec![Rect::at(0, 0, 640, 768), Rect::at(640, 0, 384, 768)]),
        SessionMessage::CursorMove { x: 5, y: 600 },
        SessionMessage::CursorBits(CursorBits {
            size: Size { width: 9, height: 1 },
            hot_x: 1,
            hot_y: 0,
            colors: CursorColors { fore: 0x12_3456, back: 0xff_ffff },
            packing: Packing::Plain,
            planes: &[0x80, 0, 0xff, 0x80],
        }),
        SessionMessage::CursorColor(CursorColors { fore: 0, back: 0x00_ff00 }),
        SessionMessage::Pong(300),
        SessionMessage::Seen(300),
        SessionMessage::Cache(CacheGrant { token: [7; CACHE_TOKEN_BYTES], resumed: true }),
        SessionMessage::Update(Update {
            seq: 300,
            after: 299,
            epoch: 1,
            echo: Some(5),
            end_of_frame: true,
            packed: Some(Packed { len: 70_000, anew: true }),
            commands: &[0x28, 0xb5, 0x2f, 0xfd],
        }),
        SessionMessage::Close(Close { code: CloseCode::SessionEnded, reason: "done" }),
    ];
    let mut seeds = plain_frames();
    for message in messages {
        let mut seed = Vec::new();
        message.encode(&mut seed);
        seeds.push(seed);
    }
    seeds.push(update);
    seeds.push(clip_conversation());
    seeds
}

/// A clipboard as either side uses it: it pastes the other's and cancels, copies something, and gives it when it is asked.
/// The other offers its own first, and asks for all that is offered.
fn clip_conversation() -> Vec<u8> {
    let (copied, marked) = (Selection::Clipboard, Selection::Primary);
    let request = |id| ClipMessage::Request { id, selection: copied, serial: 1, format: ClipFormat::Text };
    let messages = [
        request(3),
        ClipMessage::Taken { id: 3, bytes: 0 },
        request(4),
        ClipMessage::End { id: 4, asker: true, why: ClipEnd::Cancelled },
        ClipMessage::Offer {
            selection: marked,
            serial: 1,
            seen: 1,
            formats: ClipFormats::NONE.with(ClipFormat::Text).with(ClipFormat::Png),
        },
        // Numbers 1 and 2 are those of its requests.
        ClipMessage::Data { id: 3, last: false, bytes: b"some ".to_vec() },
        ClipMessage::Data { id: 3, last: true, bytes: b"text".to_vec() },
        ClipMessage::End { id: 4, asker: false, why: ClipEnd::TooLarge { bytes: 300, limit: 5 } },
        ClipMessage::Offer { selection: marked, serial: 2, seen: 1, formats: ClipFormats::NONE },
    ];
    let mut seed = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut seed));
    seed
}

/// Every kind of frame there is or may be, with bodies of nothing and of small numbers.
fn plain_frames() -> Vec<Vec<u8>> {
    (1..24u8).flat_map(|kind| [vec![kind, 0], vec![kind, 6, 1, 2, 3, 4, 5, 6]]).collect()
}

/// A link as a person pastes it.
pub fn link(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(link) = text.parse::<Link>() {
        assert!(link.port != 0 && !link.host.is_empty(), "a link without a place");
        match link.to_string().parse::<Link>() {
            Ok(again) => assert_eq!(again, link, "a link reads back as another"),
            // Written out, a link at the limit may pass it by the port it left to the default.
            Err(LinkError::Long(_)) => assert!(text.len() > 2000, "a short link grows long"),
            Err(error) => panic!("a link does not read back: {error}"),
        }
    }
}

/// Links for both kinds of viewer, with names and addresses.
pub fn link_seeds() -> Vec<Vec<u8>> {
    let pin = "A".repeat(43);
    [
        format!("https://127.0.0.1:7300/#t=AAAA&k={pin}"),
        format!("thinc://[::1]:7300/base/path/#t=AAAA&k={pin}"),
        "https://example.org/".to_owned(),
        "thinc://[fe80::1%eth0]:1/#x=y&t=AAAA".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// What asks for a session of WebTransport before anybody is let in.
pub fn connect(input: &[u8]) {
    let mut stream = input;
    let mut read = pin!(Connect::read(&mut stream));
    let mut context = Context::from_waker(Waker::noop());
    // Bytes that lie there are waited for no longer than tokio lets anybody read at once.
    let connect = loop {
        if let Poll::Ready(connect) = read.as_mut().poll(&mut context) {
            break connect;
        }
    };
    if let Ok(connect) = connect {
        let asked = connect.asked();
        assert!(!asked.authority.is_empty() && asked.path.starts_with('/'), "a request without a place: {asked:?}");
        assert!(asked.origin.is_none_or(|origin| origin.is_ascii()), "a page of bytes: {asked:?}");
    }
}

/// Requests as browsers make them, one behind a frame that is there to be skipped (RFC 9114, 7.2.8).
pub fn connect_seeds() -> Vec<Vec<u8>> {
    let plain = |place: &str| {
        let mut seed = Vec::new();
        let request = ConnectRequest::new(url(place, |request| request.url));
        let origin = HeaderValue::from_static("https://127.0.0.1:7300");
        request.with_header(ORIGIN, origin).encode(&mut seed).expect("a request of a few bytes");
        seed
    };
    let first = plain("https://127.0.0.1:7300/webtransport?key=a-_b");
    let skipped = [&[0x21, 3, 1, 2, 3][..], &first].concat();
    vec![first, plain("https://user@[::1]/desk/webtransport"), skipped]
}

/// A text as the `url` of a request, whose type has no name here.
fn url<U: FromStr<Err: std::fmt::Debug>>(text: &str, _: fn(ConnectRequest) -> U) -> U {
    text.parse().expect("a URL")
}
