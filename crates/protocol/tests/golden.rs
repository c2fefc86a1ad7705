//! The bytes of every message of `doc/protocol.md`, checked in both directions. A change here is a
//! change of the protocol and needs a new version.

use thinc_protocol::arrived::Arrived;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::command::{
    BitmapDepth, Command, CommandReader, CommandWriter, Compression, Encoding,
};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::microphone::{MicrophonePacket, MicrophoneState, MicrophoneWant};
use thinc_protocol::people::{
    Invite, InviteRights, OpenInvitation, People, Person, PersonPointer, Share, ShareAction, Shared,
};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::retained::RetainedTiles;
use thinc_protocol::session::{
    CacheGrant, Close, CloseCode, CursorBits, CursorColors, CursorImage, Geometry, Packed,
    ScreenPart, SessionHello, SessionMessage, Update,
};
use thinc_protocol::sound::{
    SoundCodec, SoundFormat, SoundFrame, SoundPacket, SoundState, SoundWant,
};
use thinc_protocol::video::{DecoderState, FrameCodec, VideoStatus};
use thinc_protocol::viewer::{
    Ack, CacheOffer, Display, Displays, Early, Input, InputEvent, KeyboardLayout, Presented,
    TouchPhase, View, ViewerCaps, ViewerHello, ViewerMessage,
};
use thinc_region::{Rect, Region, Size};

fn frame(bytes: &[u8]) -> (u8, Vec<u8>) {
    let mut deframer = Deframer::new(1 << 20);
    deframer.push(bytes);
    let frame = deframer.next().unwrap().expect("one whole frame");
    let found = (frame.kind, frame.body.to_vec());
    assert_eq!(deframer.buffered_len(), 0, "one message and nothing after it");
    found
}

#[test]
fn viewer_messages_have_these_bytes() {
    let hello = ViewerHello {
        version: 1,
        caps: ViewerCaps::RESIZE | ViewerCaps::LOCAL_CURSOR,
        size: Size { width: 1024, height: 768 },
        message_bytes_max: 16 * 1024 * 1024,
        name: "thinc".into(),
    };
    let input = |event| ViewerMessage::Input(Input { seq: 300, event });
    let cases: Vec<(ViewerMessage, Vec<u8>)> = vec![
        (
            ViewerMessage::Hello(hello),
            vec![
                2, 16, 1, 3, 0x80, 8, 0x80, 6, 0x80, 0x80, 0x80, 8, 5, b't', b'h', b'i', b'n', b'c',
            ],
        ),
        (ViewerMessage::Ack(Ack { update: 5, presented: None }), vec![3, 1, 5]),
        (
            ViewerMessage::Ack(Ack {
                update: 300,
                presented: Some(Presented { update: 299, delay_us: 4000 }),
            }),
            vec![3, 5, 0xac, 2, 2, 0xa0, 0x1f],
        ),
        (
            input(InputEvent::Key { code: 30, keysym: 0x61, down: true }),
            vec![4, 5, 1, 0xac, 2, 30, 0x61],
        ),
        (
            input(InputEvent::Key { code: 0, keysym: 0x0100_20ac, down: false }),
            vec![4, 8, 0, 0xac, 2, 0, 0xac, 0xc1, 0x80, 8],
        ),
        (input(InputEvent::Motion { x: 1, y: 767 }), vec![4, 6, 2, 0xac, 2, 1, 0xff, 5]),
        (input(InputEvent::Button { button: 1, down: false }), vec![4, 4, 3, 0xac, 2, 1]),
        (input(InputEvent::Button { button: 9, down: true }), vec![4, 4, 4, 0xac, 2, 9]),
        (input(InputEvent::Scroll { dx: 0, dy: -120 }), vec![4, 6, 5, 0xac, 2, 0, 0xef, 1]),
        (
            input(InputEvent::Touch { id: 0, phase: TouchPhase::Begin, x: 1, y: 2 }),
            vec![4, 6, 6, 0xac, 2, 0, 1, 2],
        ),
        (
            input(InputEvent::Touch { id: 15, phase: TouchPhase::Update, x: 1, y: 2 }),
            vec![4, 6, 7, 0xac, 2, 15, 1, 2],
        ),
        (
            input(InputEvent::Touch { id: 1, phase: TouchPhase::End, x: 1, y: 2 }),
            vec![4, 6, 8, 0xac, 2, 1, 1, 2],
        ),
        (input(InputEvent::ReleaseAll), vec![4, 3, 9, 0xac, 2]),
        (input(InputEvent::Char('\u{20ac}')), vec![4, 5, 10, 0xac, 2, 0xac, 0x41]),
        (input(InputEvent::Locks { caps: false, num: true }), vec![4, 4, 11, 0xac, 2, 2]),
        (
            input(InputEvent::MotionBy { dx: -10, dy: i16::MAX }),
            vec![4, 7, 12, 0xac, 2, 19, 0xfe, 0xff, 3],
        ),
        (
            ViewerMessage::KeyboardLayout(KeyboardLayout {
                layout: "de,us".into(),
                variant: "neo,".into(),
                ..KeyboardLayout::default()
            }),
            vec![11, 13, 0, 5, b'd', b'e', b',', b'u', b's', 4, b'n', b'e', b'o', b',', 0],
        ),
        (
            ViewerMessage::Instance(*b"0123456789abcdef"),
            [&[12, 16][..], b"0123456789abcdef"].concat(),
        ),
        (
            ViewerMessage::Video(VideoStatus { id: 3, decoder: DecoderState::NeedsKeyframe }),
            vec![13, 2, 3, 2],
        ),
        (
            ViewerMessage::View(View {
                size: Size { width: 320, height: 240 },
                part: Rect::at(16, 8, 512, 384),
            }),
            vec![14, 10, 0xc0, 2, 0xf0, 1, 16, 8, 0x80, 4, 0x80, 3],
        ),
        (
            ViewerMessage::Displays(Displays {
                scale_percent: 200,
                displays: vec![Display {
                    rect: Rect::at(0, 0, 100, 90),
                    millimetres: Size { width: 50, height: 45 },
                }],
            }),
            vec![15, 9, 0xc8, 1, 1, 0, 0, 100, 90, 50, 45],
        ),
        (
            ViewerMessage::RetainedTiles(RetainedTiles {
                size: Size { width: 100, height: 64 },
                part: Rect::at(1, 2, 200, 128),
                edge_log: 6,
                key: *b"0123456789abcdef0123456789ABCDEF",
                tiles: vec![0, 0x0807_0605_0403_0201],
            }),
            [
                &[22, 57, 100, 64, 1, 2, 0xc8, 1, 0x80, 1, 6][..],
                b"0123456789abcdef0123456789ABCDEF",
                &[0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            ]
            .concat(),
        ),
        (
            ViewerMessage::Arrived(Arrived { applied: vec![1..=300], discarded: vec![] }),
            vec![21, 6, 0xac, 2, 0xac, 2, 0, 0],
        ),
        (
            ViewerMessage::Arrived(Arrived {
                applied: vec![299..=300, 296..=296, 1..=290],
                discarded: vec![297, 292],
            }),
            vec![21, 12, 0xac, 2, 2, 2, 2, 1, 5, 0xa2, 2, 2, 3, 8],
        ),
        (
            ViewerMessage::Early(Early { offset: 300, bytes: vec![5, 1, 7] }),
            vec![23, 6, 0xac, 2, 3, 5, 1, 7],
        ),
        (ViewerMessage::Ping(7), vec![5, 1, 7]),
        (ViewerMessage::Resize(Size { width: 800, height: 600 }), vec![6, 4, 0xa0, 6, 0xd8, 4]),
        (ViewerMessage::Barrier(128), vec![7, 2, 0x80, 1]),
        (ViewerMessage::Resync, vec![8, 0]),
        (
            ViewerMessage::Share(Share {
                request: 1,
                action: ShareAction::Invite(Invite {
                    rights: InviteRights {
                        control: true,
                        clipboard_to_session: false,
                        clipboard_to_guest: true,
                        without_sound: false,
                    },
                    native: true,
                    life_s: 7200,
                    uses: 2,
                    name: "talk".into(),
                    password: "pw".into(),
                }),
            }),
            vec![32, 14, 1, 0, 13, 0xa0, 0x38, 2, 4, b't', b'a', b'l', b'k', 2, b'p', b'w'],
        ),
        (
            ViewerMessage::Share(Share { request: 2, action: ShareAction::GiveControl(300) }),
            vec![32, 4, 2, 1, 0xac, 2],
        ),
        (
            ViewerMessage::Share(Share { request: 3, action: ShareAction::TakeControl(4) }),
            vec![32, 3, 3, 2, 4],
        ),
        (
            ViewerMessage::Share(Share { request: 4, action: ShareAction::EndVisit(4) }),
            vec![32, 3, 4, 3, 4],
        ),
        (
            ViewerMessage::ClipPolicy(ClipDirections { to_session: true, to_viewer: true }),
            vec![33, 1, 3],
        ),
        (ViewerMessage::PictureQuality(PictureQuality::Auto), vec![28, 1, 0]),
        (ViewerMessage::PictureQuality(PictureQuality::Low), vec![28, 1, 4]),
        (ViewerMessage::ExactFrame, vec![29, 0]),
        (ViewerMessage::Stereo(false), vec![30, 1, 0]),
        (ViewerMessage::Stereo(true), vec![30, 1, 1]),
        (ViewerMessage::VideoCodecs(0), vec![31, 1, 0]),
        (ViewerMessage::VideoCodecs(FrameCodec::Av1.bit()), vec![31, 1, 4]),
        (
            ViewerMessage::Share(Share { request: 5, action: ShareAction::Revoke(300) }),
            vec![32, 4, 5, 4, 0xac, 2],
        ),
        (
            ViewerMessage::SoundWant(SoundWant {
                codecs: SoundCodec::S16.bit() | SoundCodec::Opus.bit(),
                frame_min: 480,
                bitrate_max: 128_000,
                muted: false,
            }),
            vec![24, 7, 3, 0xe0, 3, 0x80, 0xe8, 7, 0],
        ),
        (
            ViewerMessage::SoundState(SoundState {
                heard: 300,
                delay_us: 20_000,
                received: 500,
                lost: 2,
                concealed: 1,
                runs: 0,
                lag_us: None,
            }),
            vec![25, 10, 0xac, 2, 0xa0, 0x9c, 1, 0xf4, 3, 2, 1, 0],
        ),
        (
            ViewerMessage::SoundState(SoundState {
                heard: 300,
                lag_us: Some(-2),
                ..SoundState::default()
            }),
            vec![25, 8, 0xac, 2, 0, 0, 0, 0, 0, 3],
        ),
        (
            ViewerMessage::Microphone(MicrophonePacket::new(&SoundPacket {
                generation: 7,
                number: 300,
                time: 10_000,
                silence_follows: false,
                discontinuity: true,
                frames: vec![
                    SoundFrame { back: 0, bytes: &[1, 2] },
                    SoundFrame { back: 1, bytes: &[3] },
                ],
            })),
            vec![26, 14, 7, 0xac, 2, 0x90, 0x4e, 2, 2, 0, 2, 1, 2, 1, 1, 3],
        ),
        (
            ViewerMessage::MicrophoneState(MicrophoneState { generation: 7, given: true }),
            vec![27, 2, 7, 1],
        ),
        (ViewerMessage::Close("bye".into()), vec![9, 4, 3, b'b', b'y', b'e']),
        (
            ViewerMessage::Cache(CacheOffer {
                bytes: 64 << 20,
                token: *b"0123456789abcdef",
                update: 300,
            }),
            [&[10, 22, 0x80, 0x80, 0x80, 0x20], &b"0123456789abcdef"[..], &[0xac, 2]].concat(),
        ),
    ];
    for (message, golden) in cases {
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, golden, "{message:?}");
        let (kind, body) = frame(&golden);
        assert_eq!(ViewerMessage::decode(&MessageFrame { kind, body: &body }), Ok(message));
        for cut in 0..body.len() {
            // Only these have a shorter form: an ack of one field, and a state of sound without
            // its last field.
            let short = ViewerMessage::decode(&MessageFrame { kind, body: &body[..cut] });
            let is_short_form = matches!((kind, cut), (3, 2) | (25, 7));
            assert!(short.is_err() || is_short_form, "cut to {cut}: {short:?}");
        }
        // After the short form of a state of sound, the first byte would be its last field.
        let surplus: &[u8] = if kind == 25 { &[0, 0] } else { &[0] };
        let long = [&body[..], surplus].concat();
        assert!(
            ViewerMessage::decode(&MessageFrame { kind, body: &long }).is_err(),
            "one byte too many: {long:?}"
        );
    }
}

#[test]
fn arrived_has_runs_of_numbers_from_1_upwards() {
    let refused = |body: &[u8], why: &str| {
        assert!(ViewerMessage::decode(&MessageFrame { kind: 21, body }).is_err(), "{why}")
    };
    refused(&[0, 0, 0, 0], "a run of none");
    refused(&[5, 6, 0, 0], "a run that begins before 1");
    refused(&[5, 1, 1, 0, 1, 0], "two runs with no gap between them");
    refused(&[5, 1, 1, 4, 1, 0], "a gap down to 0");
    refused(&[5, 1, 0, 1, 0], "the newest update is applied, and not discarded");
    refused(&[5, 1, 0, 1, 5], "nor is 0");
    refused(&[&[100, 1, 32][..], &[1; 64], &[0]].concat(), "more runs than the limit");
    refused(&[&[100, 1, 0, 33][..], &[1; 33]].concat(), "more discarded updates than the limit");
}

#[test]
fn session_messages_have_these_bytes() {
    let hello = SessionHello { version: 1, caps: 0, name: "demo".into(), message_bytes_max: 65536 };
    let update = Update {
        seq: 300,
        after: 0,
        epoch: 2,
        echo: None,
        end_of_frame: false,
        packed: None,
        commands: &[9, 9],
    };
    let cases: Vec<(SessionMessage<'_>, Vec<u8>)> = vec![
        (SessionMessage::Hello(hello), vec![2, 10, 1, 0, 0x80, 0x80, 4, 4, b'd', b'e', b'm', b'o']),
        (
            SessionMessage::Geometry(Geometry {
                epoch: 2,
                size: Size { width: 1024, height: 768 },
                shown: None,
            }),
            vec![3, 5, 2, 0x80, 8, 0x80, 6],
        ),
        (
            SessionMessage::Geometry(Geometry {
                epoch: 2,
                size: Size { width: 32, height: 24 },
                shown: Some(ScreenPart {
                    screen: Size { width: 100, height: 90 },
                    part: Rect::at(4, 2, 64, 48),
                }),
            }),
            vec![3, 9, 2, 32, 24, 100, 90, 4, 2, 64, 48],
        ),
        (SessionMessage::Displays(vec![Rect::at(1, 0, 100, 90)]), vec![14, 5, 1, 1, 0, 100, 90]),
        (SessionMessage::Update(update), vec![4, 6, 0, 0xac, 2, 2, 9, 9]),
        (
            SessionMessage::Update(Update {
                after: 299,
                echo: Some(5),
                end_of_frame: true,
                packed: None,
                commands: &[],
                ..update
            }),
            vec![4, 6, 7, 0xac, 2, 1, 2, 5],
        ),
        (
            SessionMessage::Update(Update {
                packed: Some(Packed { len: 300, reset: false }),
                ..update
            }),
            vec![4, 8, 8, 0xac, 2, 2, 0xac, 2, 9, 9],
        ),
        (
            SessionMessage::Update(Update {
                packed: Some(Packed { len: 2, reset: true }),
                ..update
            }),
            vec![4, 7, 24, 0xac, 2, 2, 2, 9, 9],
        ),
        (
            SessionMessage::Cache(CacheGrant { token: *b"0123456789abcdef", resumed: true }),
            [&[13, 17, 1], &b"0123456789abcdef"[..]].concat(),
        ),
        (
            SessionMessage::Cursor(CursorImage {
                size: Size { width: 16, height: 24 },
                hot_x: 3,
                hot_y: 4,
                pixels: &[0xaa, 0xbb],
            }),
            vec![5, 6, 16, 24, 3, 4, 0xaa, 0xbb],
        ),
        (
            SessionMessage::Cursor(CursorImage {
                size: Size::default(),
                hot_x: 0,
                hot_y: 0,
                pixels: &[],
            }),
            vec![5, 4, 0, 0, 0, 0],
        ),
        (SessionMessage::CursorMove { x: 5, y: 300 }, vec![6, 3, 5, 0xac, 2]),
        (
            SessionMessage::CursorBits(CursorBits {
                size: Size { width: 9, height: 1 },
                hot_x: 3,
                hot_y: 1,
                colors: CursorColors { fore: 0x12_3456, back: 0xff_ff00 },
                compression: Compression::Plain,
                planes: &[0x80, 0, 0xff, 0x80],
            }),
            vec![11, 15, 9, 1, 3, 1, 0x56, 0x34, 0x12, 0, 0xff, 0xff, 0, 0x80, 0, 0xff, 0x80],
        ),
        (
            SessionMessage::CursorColor(CursorColors { fore: 0x12_3456, back: 0xff_ff00 }),
            vec![12, 6, 0x56, 0x34, 0x12, 0, 0xff, 0xff],
        ),
        (SessionMessage::CursorShow(true), vec![7, 1, 1]),
        (SessionMessage::CursorShow(false), vec![7, 1, 0]),
        (SessionMessage::RelativeWanted(false), vec![22, 1, 0]),
        (SessionMessage::RelativeWanted(true), vec![22, 1, 1]),
        (
            SessionMessage::People(People {
                own: 300,
                people: vec![
                    Person {
                        number: 300,
                        has_control: true,
                        has_pointer: true,
                        ..Person::default()
                    },
                    Person { number: 7, guest: 1, name: "Ada".into(), ..Person::default() },
                ],
            }),
            vec![32, 15, 0xac, 2, 2, 0xac, 2, 0, 3, 0, 7, 1, 0, 3, b'A', b'd', b'a'],
        ),
        (SessionMessage::People(People::default()), vec![32, 2, 0, 0]),
        (
            SessionMessage::Shared(Shared { request: 5, result: Ok("x:/".into()) }),
            vec![33, 6, 5, 0, 3, b'x', b':', b'/'],
        ),
        (
            SessionMessage::Shared(Shared { request: 6, result: Err("no".into()) }),
            vec![33, 5, 6, 1, 2, b'n', b'o'],
        ),
        (
            SessionMessage::PersonPointer(PersonPointer { number: 7, x: 5, y: 300 }),
            vec![34, 4, 7, 5, 0xac, 2],
        ),
        (SessionMessage::Invitations(Vec::new()), vec![36, 1, 0]),
        (
            SessionMessage::Invitations(vec![OpenInvitation {
                number: 300,
                rights: InviteRights {
                    control: true,
                    clipboard_to_session: false,
                    clipboard_to_guest: true,
                    without_sound: true,
                },
                has_password: true,
                is_locked: true,
                used: 1,
                uses: 2,
                expiry_s: 1_800_000_000,
                name: "talk".into(),
            }]),
            vec![
                36, 16, 1, 0xac, 2, 117, 1, 2, 0x80, 0xa4, 0xa7, 0xda, 6, 4, b't', b'a', b'l', b'k',
            ],
        ),
        (
            SessionMessage::SoundFormat(SoundFormat {
                generation: 7,
                codec: SoundCodec::Opus,
                channels: 2,
                frame: 480,
            }),
            vec![23, 5, 7, 1, 2, 0xe0, 3],
        ),
        (
            SessionMessage::Sound(SoundPacket {
                generation: 7,
                number: 300,
                time: 10_000,
                silence_follows: false,
                discontinuity: true,
                frames: vec![
                    SoundFrame { back: 0, bytes: &[1, 2] },
                    SoundFrame { back: 1, bytes: &[3] },
                    SoundFrame { back: 3, bytes: &[4] },
                ],
            }),
            vec![24, 17, 7, 0xac, 2, 0x90, 0x4e, 2, 3, 0, 2, 1, 2, 1, 1, 3, 3, 1, 4],
        ),
        (
            SessionMessage::Sound(SoundPacket {
                generation: 0,
                number: 0,
                time: 0,
                silence_follows: true,
                discontinuity: false,
                frames: vec![SoundFrame { back: 0, bytes: &[9] }],
            }),
            vec![24, 8, 0, 0, 0, 1, 1, 0, 1, 9],
        ),
        (
            SessionMessage::MicrophoneWant(MicrophoneWant {
                generation: 7,
                wanted: true,
                channels: 1,
                frame: 480,
            }),
            vec![27, 5, 7, 1, 1, 0xe0, 3],
        ),
        (
            SessionMessage::SoundPlayers(vec!["mpv".into(), String::new()]),
            vec![25, 6, 2, 3, b'm', b'p', b'v', 0],
        ),
        (SessionMessage::Notice("hi".into()), vec![35, 3, 2, b'h', b'i']),
        (SessionMessage::BriefNotice("hi".into()), vec![39, 3, 2, b'h', b'i']),
        (SessionMessage::Name("hi".into()), vec![37, 3, 2, b'h', b'i']),
        (SessionMessage::Graphics("hi".into()), vec![45, 3, 2, b'h', b'i']),
        (
            SessionMessage::ClipPolicy(ClipDirections { to_session: false, to_viewer: true }),
            vec![38, 1, 2],
        ),
        (SessionMessage::Pong(7), vec![8, 1, 7]),
        (SessionMessage::InputReceived(0), vec![15, 1, 0]),
        (SessionMessage::InputReceived(300), vec![15, 2, 0xac, 2]),
        (SessionMessage::InputReceived(u32::MAX), vec![15, 5, 0xff, 0xff, 0xff, 0xff, 15]),
        (SessionMessage::Barrier(8), vec![9, 1, 8]),
        (
            SessionMessage::Close(Close { code: CloseCode::Unauthorized, reason: "no" }),
            vec![10, 4, 3, 2, b'n', b'o'],
        ),
    ];
    for (message, golden) in cases {
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, golden, "{message:?}");
        let (kind, body) = frame(&golden);
        assert_eq!(SessionMessage::decode(&MessageFrame { kind, body: &body }), Ok(message));
    }
}

#[test]
fn session_messages_out_of_bounds_are_refused() {
    for (kind, body, why) in [
        (3u8, &[0u8, 0, 5][..], "an empty screen"),
        (3, &[0, 0x81, 0x80, 1, 1], "a screen wider than the limit"),
        (3, &[0, 0x80, 0x80, 1, 0x80, 0x80, 1], "a screen larger than the limit"),
        (4, &[8, 1, 1], "an unknown flag"),
        (4, &[4, 5, 0, 1], "an update after itself"),
        (4, &[4, 5, 5, 1], "an update that follows update 0"),
        (4, &[4, 5, 6, 1], "an update that follows one before the first"),
        (5, &[0, 0, 0, 0, 1], "pixels for an empty cursor"),
        (5, &[1, 1, 0, 0], "no pixels for a cursor"),
        (5, &[1, 1, 2, 0, 1], "a hot spot outside"),
        (5, &[0x81, 2, 1, 0, 0, 1], "a cursor too wide"),
        (7, &[2], "neither shown nor hidden"),
        (22, &[2], "neither wanted nor not"),
        (10, &[0, 0], "no such close"),
        (11, &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], "no planes for a cursor"),
        (11, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "planes for an empty cursor"),
        (11, &[1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1], "a hot spot outside"),
        (11, &[1, 0x81, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "a cursor too high"),
        (11, &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1], "no such compression"),
        (12, &[0, 0, 0, 0, 0], "a colour cut off"),
        (12, &[0, 0, 0, 0, 0, 0, 0], "a colour too many"),
        (4, &[16, 1, 1], "a reset of the packed stream without a packed update"),
        (4, &[8, 1, 1, 0x81, 0x80, 0x80, 8], "an unpacked update over the limit"),
        (
            13,
            &[2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            "a cache neither resumed nor new",
        ),
        (3, &[2, 32, 24, 100, 90, 60, 2, 64, 48], "a part past the screen"),
        (3, &[2, 32, 24, 100, 90, 4, 2, 0, 48], "a part of nothing"),
        (14, &[17], "displays too many"),
        (15, &[], "what was seen, cut off"),
        (15, &[0xff, 0xff, 0xff, 0xff, 16], "an input number over 32 bits"),
        (15, &[1, 1], "more than what was seen"),
        (32, &[0, 65], "people too many"),
        (32, &[0, 1, 1, 0, 4, 0], "an unknown bit of a person"),
        (32, &[0, 1, 1, 0, 0, 1, 27], "a control character in a name"),
        (33, &[1, 2, 0], "neither done nor refused"),
        (34, &[1, 0x80, 0x80, 4, 0], "a pointer outside any screen"),
        (23, &[1, 2, 2, 0xe0, 3], "no such codec"),
        (23, &[1, 1, 3, 0xe0, 3], "three channels"),
        (23, &[1, 1, 2, 0xe1, 3], "no such length of a frame"),
        (23, &[1, 0, 2, 0xe0, 3], "a plain frame longer than a packet"),
        (24, &[1, 9, 1, 4, 1, 0, 1, 9], "an unknown flag of a sound"),
        (24, &[1, 9, 1, 0, 0], "a sound of nothing"),
        (24, &[1, 9, 1, 0, 4, 0, 1, 9, 1, 1, 9, 2, 1, 9, 3, 1, 9], "frames too many"),
        (24, &[1, 9, 1, 0, 1, 1, 1, 9], "a packet without its own frame"),
        (24, &[1, 9, 1, 0, 2, 0, 1, 9, 0, 1, 9], "its own frame twice"),
        (24, &[1, 9, 1, 0, 2, 0, 1, 9, 9, 1, 9], "a repeat too far back"),
        (24, &[1, 9, 1, 0, 3, 0, 1, 9, 2, 1, 9, 1, 1, 9], "repeats out of order"),
        (24, &[1, 0, 1, 0, 2, 0, 1, 9, 1, 1, 9], "a frame before the first"),
        (24, &[1, 9, 1, 0, 1, 0, 0], "an empty frame"),
        (24, &[1, 9, 1, 0, 1, 0, 2, 9], "a frame cut off"),
        (24, &[1, 9, 1, 0, 1, 0, 1, 9, 9], "more than a sound"),
        (24, &[1, 9, 1, 0, 1, 0, 0xb1, 9], "a frame over the limit"),
        (27, &[1, 2, 1, 0xe0, 3], "a microphone neither wanted nor not"),
        (27, &[1, 1, 3, 0xe0, 3], "a microphone of three channels"),
        (27, &[1, 1, 1, 0xe1, 3], "no such length of a microphone's frame"),
        (25, &[17], "programs too many"),
        (25, &[1, 1, 7], "a control character in a program's name"),
        (25, &[1, 0, 0], "more than the programs"),
        (22, &[], "no such message"),
        (0, &[], "no such message"),
    ] {
        assert!(SessionMessage::decode(&MessageFrame { kind, body }).is_err(), "{why}");
    }
}

const SCREEN: Size = Size { width: 1024, height: 768 };

/// Two commands of each kind by one writer: the second refers to the first if that is shorter.
fn commands() -> (Vec<Command<'static>>, Vec<u8>) {
    let band: Region = [Rect::at(10, 20, 30, 4), Rect::at(50, 20, 30, 4), Rect::at(0, 30, 100, 1)]
        .into_iter()
        .collect();
    let commands = vec![
        Command::Copy { region: Rect::at(0, 100, 1024, 600).into(), dx: 0, dy: -13 },
        Command::Copy { region: band.clone(), dx: -5, dy: 1 },
        Command::Sfill { region: Rect::at(11, 21, 6, 13).into(), color: 0x0012_3456 },
        Command::Sfill { region: band, color: 0 },
        Command::Pfill {
            rect: Rect::at(700, 400, 64, 64),
            tile_width: 2,
            tile_height: 1,
            encoding: Encoding::Plain,
            data: &[1, 2, 3, 4, 5, 6],
        },
        Command::Pfill {
            rect: Rect::at(700, 464, 64, 64),
            tile_width: 4,
            tile_height: 4,
            encoding: Encoding::PredictedZstd,
            data: &[7, 8],
        },
        Command::Bitmap {
            rect: Rect::at(706, 464, 6, 2),
            depth: BitmapDepth::One,
            fg: 0x00ff_0000,
            bg: 0x0000_00ff,
            compression: Compression::Plain,
            data: &[0xa0, 0x50],
        },
        Command::Bitmap {
            rect: Rect::at(712, 464, 3, 1),
            depth: BitmapDepth::Eight,
            fg: 0x00ff_0000,
            bg: 0x0000_00ff,
            compression: Compression::Plain,
            data: &[0, 128, 255],
        },
        Command::Bitmap {
            rect: Rect::at(712, 470, 300, 100),
            depth: BitmapDepth::One,
            fg: 0x00ff_0000,
            bg: 0x0000_00fe,
            compression: Compression::Zstd,
            data: &[1],
        },
        Command::Raw { rect: Rect::at(1, 1, 1, 1), encoding: Encoding::Plain, data: &[1, 2, 3] },
        Command::Raw {
            rect: Rect::at(1023, 767, 1, 1),
            encoding: Encoding::Predicted,
            data: &[0xc0],
        },
        Command::Raw {
            rect: Rect::at(1023, 767, 1, 1),
            encoding: Encoding::Jpeg,
            data: &[0xff, 0xd8],
        },
        Command::Keep { rect: Rect::at(1023, 767, 1, 1), slot: 300 },
        Command::Recall { rect: Rect::at(0, 0, 1, 1), slot: 300 },
    ];
    #[rustfmt::skip]
    let golden = vec![
        0x00, 0, 0xc8, 1, 0x80, 8, 0xd8, 4, 0, 25,
        0x10, 3, 20, 40, 30, 4, 80, 0, 30, 4, 99, 20, 100, 1, 9, 2,
        0x01, 22, 42, 6, 13, 0x56, 0x34, 0x12,
        0x11, 3, 20, 40, 30, 4, 80, 0, 30, 4, 99, 20, 100, 1, 0, 0, 0,
        0x02, 0xf8, 10, 0xa0, 6, 64, 64, 2, 1, 1, 2, 3, 4, 5, 6,
        0x2a, 0, 0x80, 1, 64, 64, 4, 4, 2, 7, 8,
        0x0b, 12, 0, 6, 2, 0, 0, 0xff, 0xff, 0, 0, 0xa0, 0x50,
        0x5b, 12, 0, 3, 1, 0, 128, 255,
        0x2b, 0, 12, 0xac, 2, 100, 0, 0, 0xff, 0xfe, 0, 0, 1, 1,
        0x04, 2, 2, 1, 1, 1, 2, 3,
        0x14, 0xfe, 15, 0xfe, 11, 1, 1, 1, 0xc0,
        0x3c, 0, 0, 1, 1, 2, 0xff, 0xd8,
        0x0d, 0, 0, 1, 1, 0xac, 2,
        0x06, 0, 0, 1, 1, 0xac, 2,
    ];
    (commands, golden)
}

#[test]
fn commands_have_these_bytes() {
    let (commands, golden) = commands();
    let mut out = Vec::new();
    let mut writer = CommandWriter::new(&mut out);
    for command in &commands {
        writer.put(command);
    }
    assert_eq!(out, golden);
    let read: Result<Vec<_>, _> = CommandReader::new(&golden, SCREEN).collect();
    assert_eq!(read.as_ref(), Ok(&commands));
}

#[test]
fn commands_that_refer_to_none_may_follow_anything() {
    let (commands, golden) = commands();
    let mut out = golden.clone();
    for command in commands.iter().rev() {
        command.encode(&mut out);
    }
    let read: Vec<_> = CommandReader::new(&out, SCREEN).collect::<Result<_, _>>().unwrap();
    assert!(read.iter().eq(commands.iter().chain(commands.iter().rev())));
}

#[test]
fn truncated_commands_yield_an_error_or_the_commands_before() {
    let (commands, golden) = commands();
    for cut in 0..golden.len() {
        let read: Vec<_> = CommandReader::new(&golden[..cut], SCREEN).collect();
        let whole = read.iter().take_while(|c| c.is_ok()).count();
        assert!(read.len() - whole <= 1, "nothing is read after an error");
        for (read, command) in read.iter().zip(&commands).take(whole) {
            assert_eq!(read.as_ref(), Ok(command));
        }
    }
}

#[test]
fn commands_out_of_bounds_are_refused() {
    for (bytes, why) in [
        (&[0x0fu8, 0, 0, 1, 1][..], "a video command relative to another"),
        (&[0xa7, 0, 5, 1, 0, 0, 1, 1, 2, 0], "a coded frame with the bit of the right eye"),
        (&[0xa7, 0, 5, 1, 0, 0, 1, 1, 0], "a coded frame with that bit"),
        (&[0xb7, 0, 0, 0], "a move with that bit"),
        (&[0xc7, 0, 8, 8, 0, 0, 8, 8], "a frame's size with that bit"),
        (&[0xd7, 0, 8, 8], "a place's size with that bit"),
        (&[0xe7, 0], "an end with that bit"),
        (&[0xf7, 0, 5, 1, 0, 0, 1, 1, 0], "a keyframe with that bit"),
        (&[0x67, 16], "a stream too many"),
        (&[0x07, 0, 2, 8, 8, 0, 0, 8, 8, 0, 0, 8, 8], "no such codec"),
        (&[0x07, 0, 1, 8, 8, 1, 0, 8, 8, 0, 0, 8, 8], "a crop beyond its frame"),
        (&[0x07, 0, 1, 8, 8, 0, 0, 8, 0, 0, 0, 8, 8], "a crop of nothing"),
        (&[0x07, 0, 1, 8, 8, 0, 0, 8, 8, 0, 0, 0, 8], "a place of nothing"),
        (&[0x07, 0, 1, 0x81, 0x40, 8, 0, 0, 8, 8, 0, 0, 8, 8], "a frame over the width limit"),
        (&[0x37, 0, 0x82, 0x80, 4, 0], "a place too far away"),
        (&[0x57, 0, 0, 8], "a place of no width"),
        (&[0x17, 0, 5, 0, 0, 1, 0], "a clip of nothing"),
        (&[0x17, 0, 5, 1, 0, 0, 1, 1, 3, 0], "no such layout"),
        (&[0x27, 0, 5, 1, 0, 0, 0x81, 8, 1, 0], "a clip past the screen"),
        (&[0x27, 0, 5, 2, 0, 0, 4, 4, 2, 2, 4, 4, 0], "a clip that overlaps itself"),
        (&[0x27, 0, 5, 1, 0, 0, 1, 1, 2, 9], "a truncated frame"),
        (&[0x81, 0, 0, 1, 1, 0, 0, 0], "a bit without meaning"),
        (&[0xf4, 0, 0, 1, 1, 0], "no such encoding"),
        (&[0x32, 0, 0, 1, 1, 1, 1, 0], "a tile that is not exact"),
        (&[0x15, 0, 0, 1, 1, 0], "an undefined bit in a KEEP"),
        (&[0x05, 0, 0, 1, 1, 0x80, 0x80, 4], "a slot too many"),
        (&[0x06, 0, 0, 1, 1, 0x80, 0x80, 4], "a slot too many"),
        (&[0x09, 0, 0, 1, 1, 0, 0, 0], "relative to nothing"),
        (&[0x43, 0, 0, 1, 1, 0], "colours of no bitmap"),
        (&[0x01, 0, 0, 0, 1, 0, 0, 0], "an empty rectangle"),
        (&[0x01, 1, 0, 1, 1, 0, 0, 0], "left of the screen"),
        (&[0x01, 0x80, 16, 0, 1, 1, 0, 0, 0], "right of the screen"),
        (&[0x01, 0, 0, 1, 0x81, 6, 0, 0, 0], "below the screen"),
        (&[0x01, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 1, 1, 0, 0, 0], "at the largest coordinate"),
        (&[0x11, 0, 0, 0, 0], "a region of nothing"),
        (&[0x11, 2, 0, 0, 4, 4, 2, 2, 4, 4, 0, 0, 0], "rectangles that overlap"),
        (&[0x11, 0x81, 0x20, 0, 0, 1, 1], "too many rectangles"),
        (&[0x00, 0, 0, 1, 1, 2, 0], "a copy from left of the screen"),
        (
            &[0x00, 0, 0, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f],
            "a copy from the largest coordinate",
        ),
        (&[0x02, 0, 0, 1, 1, 0, 1], "a tile of no width"),
        (&[0x02, 0, 0, 1, 1, 0x81, 2, 1], "a tile too wide"),
        (
            &[0x14, 0, 0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "data without end",
        ),
    ] {
        let read: Vec<_> = CommandReader::new(bytes, SCREEN).collect();
        assert!(matches!(read.as_slice(), [Err(_)]), "{why}: {read:?}");
    }
    let many = [0x01u8, 0, 0, 1, 1, 0, 0, 0].repeat(4097);
    let read: Vec<_> = CommandReader::new(&many, SCREEN).collect();
    assert_eq!(read.len(), 4097);
    assert!(read[4096].is_err(), "one command more than the limit");
}

/// The echo of a keystroke in xterm is the glyph, and the block cursor one cell further: at most 60
/// bytes above TLS.
#[test]
fn the_echo_of_a_keystroke_takes_at_most_60_bytes() {
    let glyph = Command::Bitmap {
        rect: Rect::at(702, 405, 6, 13),
        depth: BitmapDepth::One,
        fg: 0,
        bg: 0x00ff_ffff,
        compression: Compression::Plain,
        data: &[0x55; 13],
    };
    let solid = Command::Sfill { region: Rect::at(708, 405, 6, 13).into(), color: 0 };
    let outlined = Command::Bitmap {
        rect: Rect::at(708, 405, 6, 13),
        depth: BitmapDepth::One,
        fg: 0,
        bg: 0x00ff_ffff,
        compression: Compression::Plain,
        data: &[0xaa; 13],
    };
    for cursor in [solid, outlined] {
        let mut commands = Vec::new();
        let mut writer = CommandWriter::new(&mut commands);
        writer.put(&glyph);
        writer.put(&cursor);
        let mut out = Vec::new();
        let update = Update {
            seq: 1_000_000,
            after: 999_999,
            epoch: 3,
            echo: Some(70_000),
            end_of_frame: true,
            packed: None,
            commands: &commands,
        };
        SessionMessage::Update(update).encode(&mut out);
        assert!(out.len() <= 60, "{} bytes", out.len());
    }
}

/// The example at the end of `doc/protocol.md`.
#[test]
fn the_example_of_the_document_has_these_bytes() {
    let mut out = Vec::new();
    let event = InputEvent::Key { code: 30, keysym: 0x61, down: true };
    ViewerMessage::Input(Input { seq: 7, event }).encode(&mut out);
    assert_eq!(out, [4, 4, 1, 7, 0x1e, 0x61]);
    let mut commands = Vec::new();
    Command::Bitmap {
        rect: Rect::at(702, 405, 12, 13),
        depth: BitmapDepth::One,
        fg: 0x00ff_ffff,
        bg: 0,
        compression: Compression::Plain,
        data: &[0x55; 26],
    }
    .encode(&mut commands);
    out.clear();
    let update = Update {
        seq: 1234,
        after: 0,
        epoch: 1,
        echo: Some(7),
        end_of_frame: true,
        packed: None,
        commands: &commands,
    };
    SessionMessage::Update(update).encode(&mut out);
    assert_eq!(out[..7], [4, 0x2c, 3, 0xd2, 9, 1, 7]);
    assert_eq!(out[7..20], [3, 0xfc, 0x0a, 0xaa, 6, 0xc, 0xd, 0xff, 0xff, 0xff, 0, 0, 0]);
    assert_eq!(out.len(), 46);
    out.clear();
    ViewerMessage::Ack(Ack { update: 1234, presented: None }).encode(&mut out);
    assert_eq!(out, [3, 2, 0xd2, 9]);
    assert!(
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/protocol.md"))
            .is_ok_and(|text| text.contains("04 2c 03 d2 09 01 07")
                && text.contains("03 fc 0a aa 06 0c 0d"))
    );
}

/// Both directions use the same bytes.
#[test]
fn clipboard_messages_have_these_bytes() {
    let (selection, formats) =
        (Selection::Primary, ClipFormats::NONE.with(ClipFormat::Text).with(ClipFormat::Png));
    let end = |why| ClipMessage::End { id: 9, by_requester: true, why };
    let cases: Vec<(ClipMessage, Vec<u8>)> = vec![
        (
            ClipMessage::Offer { selection, serial: 300, seen: 6, formats },
            vec![16, 5, 1, 0xac, 2, 6, 5],
        ),
        (
            ClipMessage::Request {
                id: 7,
                selection: Selection::Clipboard,
                serial: 300,
                format: ClipFormat::Html,
            },
            vec![17, 5, 7, 0, 0xac, 2, 1],
        ),
        (
            ClipMessage::Data { id: 7, last: true, bytes: b"hello".to_vec() },
            b"\x12\x07\x07\x01hello".to_vec(),
        ),
        (ClipMessage::Data { id: 7, last: false, bytes: Vec::new() }, vec![18, 2, 7, 0]),
        (ClipMessage::Received { id: 7, bytes: 16384 }, vec![19, 4, 7, 0x80, 0x80, 1]),
        (end(ClipEnd::Cancelled), vec![20, 3, 9, 1, 0]),
        (
            ClipMessage::End { id: 9, by_requester: false, why: ClipEnd::Unavailable },
            vec![20, 3, 9, 0, 1],
        ),
        (end(ClipEnd::TooLarge { bytes: 300, limit: 5 }), vec![20, 6, 9, 1, 2, 0xac, 2, 5]),
        (end(ClipEnd::Failed), vec![20, 3, 9, 1, 3]),
    ];
    for (message, golden) in cases {
        let (from_viewer, from_session) =
            (ViewerMessage::Clip(message.clone()), SessionMessage::Clip(message));
        let (mut viewer, mut session) = (Vec::new(), Vec::new());
        from_viewer.encode(&mut viewer);
        from_session.encode(&mut session);
        assert_eq!((&viewer, &session), (&golden, &golden), "{from_viewer:?}");
        let (kind, body) = frame(&golden);
        let frame = MessageFrame { kind, body: &body };
        assert_eq!(ViewerMessage::decode(&frame), Ok(from_viewer));
        assert_eq!(SessionMessage::decode(&frame), Ok(from_session));
    }
}

#[test]
fn invalid_clipboard_and_keyboard_messages_are_refused() {
    for (kind, body) in [
        (0x10, vec![2, 1, 1]),
        (0x11, vec![1, 0, 1, 4]),
        (0x12, vec![1, 2]),
        (0x12, [vec![1, 1], vec![0; 16 * 1024 + 1]].concat()),
        (0x13, vec![1]),
        (0x14, vec![1, 0, 4]),
        (0x14, vec![1, 0, 0, 0]),
        (0x0b, b"\x00\x05us;ls\x00\x00".to_vec()),
        (0x0b, b"\x00\x05../us\x00\x00".to_vec()),
        (4, vec![10, 1, 0x80, 0xb0, 3]),
        (4, vec![11, 1, 4]),
    ] {
        assert!(
            ViewerMessage::decode(&MessageFrame { kind, body: &body }).is_err(),
            "{kind:#x} {body:?}"
        );
    }
}
