//! The parsers of records and of the protocol: each reads bytes like its part of thinc, and checks
//! what the part promises. Beside the path. A promise is an assertion; an error is a valid answer
//! to invalid bytes. Knows the public interfaces only.

use thinc_priority::paged::{Budget, Machine, mappings};
use thinc_priority::{self as priority, Plan, Process, Table};
use thinc_protocol::arrived::Arrived;
use thinc_protocol::auth::{Auth, AuthAnswers, AuthOk, AuthPrompt, AuthPrompts, PromptStyle};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::command::{Command, CommandReader, CommandWriter, Compression, Encoding};
use thinc_protocol::device_auth::{AuthChallenge, DeviceAuth};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_protocol::limits::{
    CACHE_TOKEN_BYTES, PREAUTH_MESSAGE_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX,
    VIEWER_MESSAGE_BYTES_MAX,
};
use thinc_protocol::microphone::{MicrophonePacket, MicrophoneState, MicrophoneWant};
use thinc_protocol::pen::PenSample;
use thinc_protocol::people::{
    Invite, InviteRights, OpenInvitation, People, Person, PersonPointer, Share, ShareAction, Shared,
};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::retained::RetainedTiles;
use thinc_protocol::session::{
    CacheGrant, Close, CloseCode, CursorBits, CursorColors, Geometry, Packed, ScreenPart,
    SessionHello, SessionMessage, Update,
};
use thinc_protocol::sound::{
    SoundCodec, SoundFormat, SoundFrame, SoundPacket, SoundState, SoundWant,
};
use thinc_protocol::video::{
    Codec, DecoderState, Eye, FrameCodec, FrameData, SampleLayout, Source, VideoCommand,
    VideoStatus,
};
use thinc_protocol::viewer::{CacheOffer, Early, Input, InputEvent, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, RecordKind};

/// The screen for which commands are read.
pub(crate) const SCREEN: Size = Size { width: 1024, height: 768 };

/// Bytes of one record of the ring, as in the type of `DrawRecord::parse`.
const RECORD_BYTES: usize = 64;

/// Passes each frame of a stream to `read`. The stream is pushed in two pieces, so that a frame cut
/// in the middle is tested too.
pub(crate) fn each_frame(
    input: &[u8],
    message_bytes_max: usize,
    mut read: impl FnMut(&MessageFrame<'_>),
) {
    let mut deframer = Deframer::new(message_bytes_max);
    let (first, second) = input.split_at(input.len() / 2);
    for piece in [first, second] {
        deframer.push(piece);
        loop {
            match deframer.next() {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() <= message_bytes_max, "a frame exceeds its limit");
                    read(&frame);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Reads the one frame that `encode` appends.
pub(crate) fn with_frame<R>(
    encode: impl FnOnce(&mut Vec<u8>),
    read: impl FnOnce(&MessageFrame<'_>) -> R,
) -> R {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    let mut deframer = Deframer::new(SESSION_MESSAGE_BYTES_MAX);
    deframer.push(&bytes);
    let result = read(
        &deframer.next().expect("a written frame is valid").expect("a written frame is complete"),
    );
    assert_eq!(deframer.buffered_len(), 0, "a message is longer than one frame");
    result
}

/// A record of the ring: whatever its bytes, its rectangles lie within the limits of drawables.
pub fn draw_record(input: &[u8]) {
    for bytes in input.chunks_exact(RECORD_BYTES) {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().expect("chunks have this length");
        let Ok(record) = DrawRecord::parse(bytes) else { continue };
        match record.kind {
            RecordKind::Draw { rect, .. } => {
                assert!(!rect.is_empty() && rect.x1 >= 0 && rect.y1 >= 0)
            }
            RecordKind::Copy { rect, dx, dy, .. } => {
                assert!(!rect.is_empty() && rect.x1 >= 0 && rect.y1 >= 0);
                assert!(
                    rect.x1 - dx >= 0 && rect.y1 - dy >= 0,
                    "a copy reads outside every drawable"
                );
            }
            _ => {}
        }
    }
}

/// One record of each kind, with a rectangle that fits, and of each kind of frame.
pub fn draw_record_seeds() -> Vec<Vec<u8>> {
    (1..=13u8)
        .map(|kind| {
            let mut bytes = vec![0; RECORD_BYTES];
            bytes[8] = kind;
            for (at, value) in [(24, 8i32), (28, 8), (32, 24), (36, 24), (40, 4), (44, -4)] {
                bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            bytes
        })
        .chain([6, 7].map(|hint| frame_record(hint, if hint == 6 { 1 } else { 2 })))
        .collect()
}

/// A drawing of a frame of XVideo, or of a stereo frame, with this hint and layout.
fn frame_record(hint: u8, layout: u32) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    (bytes[8], bytes[10]) = (1, hint);
    let size = 16 | 16 << 16;
    for (at, value) in [(24, 8), (28, 8), (32, 24), (36, 24), (40, 8), (44, 8)].into_iter().chain([
        (48, 3 | layout << 8),
        (52, size),
        (56, size),
        (60, size),
    ]) {
        bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
    }
    bytes
}

/// The first frame of a connection and its answer.
pub fn auth(input: &[u8]) {
    each_frame(input, PREAUTH_MESSAGE_BYTES_MAX, |frame| {
        if let Ok(auth) = Auth::decode(frame) {
            with_frame(|out| auth.encode(out), |again| assert!(Auth::decode(again) == Ok(auth)));
        }
        if let Ok(answer) = AuthOk::decode(frame) {
            with_frame(
                |out| answer.encode(out),
                |again| assert!(AuthOk::decode(again) == Ok(answer)),
            );
        }
        if let Ok(prompts) = AuthPrompts::decode(frame) {
            with_frame(
                |out| prompts.encode(out),
                |again| assert!(AuthPrompts::decode(again).as_ref() == Ok(&prompts)),
            );
        }
        if let Ok(message) = DeviceAuth::decode(frame) {
            with_frame(
                |out| message.encode(out),
                |again| assert!(DeviceAuth::decode(again) == Ok(message)),
            );
        }
        if let Ok(challenge) = AuthChallenge::decode(frame) {
            with_frame(
                |out| challenge.encode(out),
                |again| assert!(AuthChallenge::decode(again) == Ok(challenge)),
            );
        }
        if let Ok(answers) = AuthAnswers::decode(frame) {
            with_frame(
                |out| answers.encode(out),
                |again| assert!(AuthAnswers::decode(again).as_ref() == Ok(&answers)),
            );
        }
    });
}

/// Each form of credential, questions and answers.
pub fn auth_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(); 11];
    Auth::Token(&[7; 32]).encode(&mut seeds[0]);
    Auth::SessionCredential(&[9; 32]).encode(&mut seeds[1]);
    AuthOk { session_credential: &[9; 32] }.encode(&mut seeds[2]);
    Auth::Account(b"anna").encode(&mut seeds[3]);
    let prompt = AuthPrompt { style: PromptStyle::Hidden, text: "Password:" };
    AuthPrompts(vec![prompt]).encode(&mut seeds[4]);
    AuthAnswers(vec![b"secret", b""]).encode(&mut seeds[5]);
    Auth::Guest { token: &[7; 57], name: "Ada", password: "secret" }.encode(&mut seeds[6]);
    let (session_credential, key) = (&[9; 64], &[4; 65]);
    DeviceAuth::Remember { session_credential, key, name: "laptop" }.encode(&mut seeds[7]);
    DeviceAuth::Device { id: &[3; 16], earlier: &[9; 64] }.encode(&mut seeds[8]);
    DeviceAuth::Signature(&[5; 64]).encode(&mut seeds[9]);
    AuthChallenge(&[6; 32]).encode(&mut seeds[10]);
    seeds
}

/// Messages from a viewer to a session.
pub fn viewer_message(input: &[u8]) {
    each_frame(input, VIEWER_MESSAGE_BYTES_MAX, |frame| {
        if let Ok(message) = ViewerMessage::decode(frame) {
            with_frame(
                |out| message.encode(out),
                |again| assert_eq!(ViewerMessage::decode(again), Ok(message.clone())),
            );
        }
    });
}

/// A viewer's first messages, and one frame of every kind with a short body.
pub fn viewer_message_seeds() -> Vec<Vec<u8>> {
    let messages = [
        ViewerMessage::Hello(ViewerHello {
            version: thinc_protocol::VERSION,
            caps: 3,
            size: SCREEN,
            message_bytes_max: SESSION_MESSAGE_BYTES_MAX as u32,
            name: "thinc-view".to_owned(),
        }),
        ViewerMessage::Arrived(Arrived { applied: vec![290..=300, 1..=280], discarded: vec![285] }),
        ViewerMessage::Early(Early { offset: 300, bytes: vec![5, 1, 7] }),
        ViewerMessage::Input(Input { seq: 300, event: InputEvent::MotionBy { dx: -10, dy: 300 } }),
        ViewerMessage::Input(Input {
            seq: 301,
            event: InputEvent::Pen(PenSample {
                x: 6432,
                y: 12800,
                pressure: 40_000,
                tilt_x: -30,
                tilt_y: 45,
                buttons: 1,
                eraser: true,
                near: true,
            }),
        }),
        ViewerMessage::Ping(300),
        ViewerMessage::Resize(SCREEN),
        ViewerMessage::Barrier(1),
        ViewerMessage::Resync,
        ViewerMessage::PictureQuality(PictureQuality::Low),
        ViewerMessage::ExactFrame,
        ViewerMessage::Stereo(true),
        ViewerMessage::VideoCodecs(4),
        ViewerMessage::Share(Share {
            request: 1,
            action: ShareAction::Invite(Invite {
                rights: InviteRights { control: true, ..InviteRights::default() },
                life_s: 7200,
                uses: 1,
                name: "talk".to_owned(),
                password: "secret".to_owned(),
                ..Invite::default()
            }),
        }),
        ViewerMessage::Share(Share { request: 2, action: ShareAction::EndVisit(1) }),
        ViewerMessage::Share(Share { request: 3, action: ShareAction::Revoke(1) }),
        ViewerMessage::SoundWant(SoundWant {
            codecs: 2,
            bitrate_max: 64_000,
            ..SoundWant::default()
        }),
        ViewerMessage::SoundState(SoundState {
            heard: 300,
            received: 500,
            lost: 2,
            lag_us: Some(-300),
            ..SoundState::default()
        }),
        ViewerMessage::Microphone(MicrophonePacket::new(&SoundPacket {
            generation: 1,
            number: 300,
            time: 10_000,
            silence_follows: false,
            discontinuity: true,
            frames: vec![
                SoundFrame { back: 0, bytes: &[1, 2] },
                SoundFrame { back: 1, bytes: &[3] },
            ],
        })),
        ViewerMessage::MicrophoneState(MicrophoneState { generation: 1, given: true }),
        ViewerMessage::Instance([7; 16]),
        ViewerMessage::Cache(CacheOffer {
            bytes: 64 << 20,
            token: [7; CACHE_TOKEN_BYTES],
            update: 300,
        }),
        ViewerMessage::RetainedTiles(RetainedTiles {
            size: SCREEN,
            part: SCREEN.rect(),
            edge_log: 7,
            key: [7; 32],
            tiles: vec![7; 48],
        }),
        ViewerMessage::Close("done".to_owned()),
    ];
    let mut seeds = plain_frames();
    for message in messages {
        let mut seed = Vec::new();
        message.encode(&mut seed);
        seeds.push(seed);
    }
    seeds.push(clip_conversation());
    seeds.push(crate::files::sending());
    seeds.push(video_conversation());
    seeds
}

/// A viewer whose decoders become ready, request keyframes, and refuse in the end.
pub(crate) fn video_conversation() -> Vec<u8> {
    let mut seed = Vec::new();
    for turn in 0..40 {
        let decoder = match turn {
            0..25 => DecoderState::Ready,
            25..38 => DecoderState::NeedsKeyframe,
            _ => DecoderState::Refused,
        };
        ViewerMessage::Video(VideoStatus { id: turn % 2, decoder }).encode(&mut seed);
    }
    seed
}

/// Messages from a session to a viewer, with the commands of its updates.
pub fn session_message(input: &[u8]) {
    each_frame(input, SESSION_MESSAGE_BYTES_MAX, |frame| {
        let Ok(message) = SessionMessage::decode(frame) else { return };
        with_frame(
            |out| message.encode(out),
            |again| assert_eq!(SessionMessage::decode(again), Ok(message.clone())),
        );
        if let SessionMessage::Update(update) = &message {
            commands(update.commands);
        }
    });
    // The commands without the frame, which mutations would have to keep valid.
    commands(input);
}

fn commands(bytes: &[u8]) {
    let screen = SCREEN.rect();
    let inside = |rect: &Rect| {
        assert!(!rect.is_empty() && screen.contains(rect), "{rect:?} is outside the screen")
    };
    let read: Vec<Command<'_>> = CommandReader::new(bytes, SCREEN).map_while(Result::ok).collect();
    for command in &read {
        match command {
            Command::Copy { region, dx, dy } => {
                region.rects().iter().for_each(|rect| {
                    inside(rect);
                    inside(&Rect {
                        x1: rect.x1 - dx,
                        y1: rect.y1 - dy,
                        x2: rect.x2 - dx,
                        y2: rect.y2 - dy,
                    });
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
    let again: Vec<Command<'_>> = CommandReader::new(&written, SCREEN)
        .collect::<Result<_, _>>()
        .expect("written commands are valid");
    assert_eq!(again, read, "commands change when they are written and read");
}

/// A stream with frames of every kind, moved, resized and ended, and one of plain frames that
/// continues.
pub(crate) fn videos() -> Vec<VideoCommand<'static>> {
    let source = |width, height| {
        let size = Size { width, height };
        Source { size, crop: size.rect() }
    };
    let clip = || Region::from_iter([Rect::at(4, 4, 9, 2), Rect::at(6, 6, 20, 10)]);
    let next = |id, time, picture| VideoCommand::Next { id, time, clip: clip(), frame: picture };
    let plain = FrameData::Plain { layout: SampleLayout::Yuv422, data: &[0x70; 32] };
    vec![
        VideoCommand::Init {
            id: 3,
            codec: Codec::H264,
            eye: Eye::Left,
            source: source(64, 36),
            place: Rect::at(-10, 4, 50, 40),
        },
        next(3, 1_000, FrameData::h264(true, &[0, 0, 0, 1, 0x65, 0x88])),
        next(3, 2_000, FrameData::h264(false, &[1, 0, 0, 1, 0x41])),
        VideoCommand::Init {
            id: 4,
            codec: Codec::None,
            eye: Eye::Left,
            source: source(4, 4),
            place: Rect::at(0, 0, 64, 64),
        },
        next(4, 3_000, plain),
        VideoCommand::Init {
            id: 5,
            codec: Codec::H264,
            eye: Eye::Right,
            source: source(32, 16),
            place: Rect::at(0, 0, 32, 16),
        },
        next(5, 3_000, FrameData::h264(true, &[7, 0, 0, 1, 0x65])),
        next(5, 3_500, FrameData::Pixels { data: &[0x60; 32 * 16 * 4] }),
        VideoCommand::Move { id: 3, x: 2, y: -3 },
        VideoCommand::PlaceSize { id: 3, size: Size { width: 40, height: 64 } },
        VideoCommand::SourceSize { id: 3, source: source(32, 32) },
        next(3, 4_000, FrameData::h264(true, &[3, 0, 0, 1, 0x65])),
        next(3, 4_500, FrameData::Coded { keyframe: Some(FrameCodec::Av1), data: &[0x12, 0] }),
        VideoCommand::End { id: 3 },
    ]
}

/// A session's first messages, an update with every kind of command, and one frame of every kind
/// with a short body.
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
            message_bytes_max: VIEWER_MESSAGE_BYTES_MAX as u32,
        }),
        SessionMessage::Geometry(Geometry { epoch: 1, size: SCREEN, shown: None }),
        SessionMessage::Geometry(Geometry {
            epoch: 2,
            size: Size { width: 40, height: 30 },
            shown: Some(ScreenPart { screen: SCREEN, part: Rect::at(100, 90, 400, 300) }),
        }),
        SessionMessage::Displays(vec![Rect::at(0, 0, 640, 768), Rect::at(640, 0, 384, 768)]),
        SessionMessage::CursorMove { x: 5, y: 600 },
        SessionMessage::RelativeWanted(true),
        SessionMessage::Gamma(vec![
            GammaArea { rect: Rect::at(0, 0, 640, 768), table: GammaTable::default() },
            GammaArea { rect: WHOLE_SCREEN, table: GammaTable { channels: [[200; 256]; 3] } },
        ]),
        SessionMessage::People(People {
            own: 1,
            people: vec![
                Person { number: 1, has_control: true, ..Person::default() },
                Person { number: 2, guest: 1, name: "Ada".to_owned(), ..Person::default() },
            ],
        }),
        SessionMessage::Shared(Shared { request: 1, result: Ok("https://host/#t=x".to_owned()) }),
        SessionMessage::Shared(Shared { request: 2, result: Err("no port".to_owned()) }),
        SessionMessage::PersonPointer(PersonPointer { number: 2, x: 5, y: 600 }),
        SessionMessage::Invitations(vec![OpenInvitation {
            number: 1,
            has_password: true,
            used: 1,
            uses: 300,
            expiry_s: 1_800_000_000,
            name: "talk".to_owned(),
            ..OpenInvitation::default()
        }]),
        SessionMessage::Notice("This server restarts at six.".into()),
        SessionMessage::BriefNotice("Received report.pdf".into()),
        SessionMessage::Name("Work at home".into()),
        SessionMessage::Graphics("3D: software (llvmpipe), no GPU here".into()),
        SessionMessage::ClipPolicy(ClipDirections { to_session: true, to_viewer: false }),
        SessionMessage::SoundFormat(SoundFormat {
            generation: 1,
            codec: SoundCodec::Opus,
            channels: 2,
            frame: 480,
        }),
        SessionMessage::Sound(SoundPacket {
            generation: 1,
            number: 300,
            time: 10_000,
            silence_follows: true,
            discontinuity: false,
            frames: vec![
                SoundFrame { back: 0, bytes: &[1, 2] },
                SoundFrame { back: 3, bytes: &[3] },
            ],
        }),
        SessionMessage::MicrophoneWant(MicrophoneWant {
            generation: 1,
            wanted: true,
            channels: 1,
            frame: 480,
        }),
        SessionMessage::SoundPlayers(vec!["Firefox".into(), "mpv".into()]),
        SessionMessage::CursorBits(CursorBits {
            size: Size { width: 9, height: 1 },
            hot_x: 1,
            hot_y: 0,
            colors: CursorColors { fore: 0x12_3456, back: 0xff_ffff },
            compression: Compression::Plain,
            planes: &[0x80, 0, 0xff, 0x80],
        }),
        SessionMessage::CursorColor(CursorColors { fore: 0, back: 0x00_ff00 }),
        SessionMessage::Pong(300),
        SessionMessage::InputReceived(300),
        SessionMessage::Cache(CacheGrant { token: [7; CACHE_TOKEN_BYTES], resumed: true }),
        SessionMessage::Update(Update {
            seq: 300,
            after: 299,
            epoch: 1,
            echo: Some(5),
            end_of_frame: true,
            packed: Some(Packed { len: 70_000, reset: true }),
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
    seeds.push(crate::files::sending());
    seeds
}

/// A clipboard conversation of one side: it pastes the other's content, cancels a transfer, copies
/// something, and provides it on request. The other side offers its content first, and requests
/// everything that is offered.
fn clip_conversation() -> Vec<u8> {
    let (copied, marked) = (Selection::Clipboard, Selection::Primary);
    let request =
        |id| ClipMessage::Request { id, selection: copied, serial: 1, format: ClipFormat::Text };
    let messages = [
        request(3),
        ClipMessage::Received { id: 3, bytes: 0 },
        request(4),
        ClipMessage::End { id: 4, by_requester: true, why: ClipEnd::Cancelled },
        ClipMessage::Offer {
            selection: marked,
            serial: 1,
            seen: 1,
            formats: ClipFormats::NONE.with(ClipFormat::Text).with(ClipFormat::Png),
        },
        // Numbers 1 and 2 are those of the other side's requests.
        ClipMessage::Data { id: 3, last: false, bytes: b"some ".to_vec() },
        ClipMessage::Data { id: 3, last: true, bytes: b"text".to_vec() },
        ClipMessage::End {
            id: 4,
            by_requester: false,
            why: ClipEnd::TooLarge { bytes: 300, limit: 5 },
        },
        ClipMessage::Offer { selection: marked, serial: 2, seen: 1, formats: ClipFormats::NONE },
    ];
    let mut seed = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut seed));
    seed
}

/// Frames of every kind, known or not, with an empty body and with one of small numbers.
fn plain_frames() -> Vec<Vec<u8>> {
    (1..48u8).flat_map(|kind| [vec![kind, 0], vec![kind, 6, 1, 2, 3, 4, 5, 6]]).collect()
}

/// What the kernel tells of processes, whose names are their own: each line one, read twice with a
/// second between. Whatever it says, each process has one place.
pub fn processes(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut plan = Plan::new(100);
    for (half, now_us) in text.split("\n\n").zip([0, 1_000_000]) {
        let table = Table::new(half.lines().filter_map(Process::parse));
        let servers: Vec<u32> = table.iter().take(1).map(|process| process.pid).collect();
        let typed = table.iter().last().map(|process| process.pid);
        let root = servers.first().copied().unwrap_or(1);
        let machine = Machine { total: 100, available: 5, swap_used: 0 };
        let memory = Some(priority::Memory { machine, page_bytes: 4096 });
        let servers = &servers;
        let idle_us = Some(0);
        let input =
            priority::Input { table: &table, root, servers, typed, memory, now_us, idle_us };
        let moves = plan.update(&input);
        assert!(moves.len() <= table.len());
        assert_eq!(plan.placed().count(), table.len());
    }
}

/// A supervisor, an X server, a terminal with a shell, and a job in it; then the same, later.
pub fn processes_seeds() -> Vec<Vec<u8>> {
    let line = |pid: u32, name: &str, parent: u32, terminal: &str, ticks: u32| {
        format!(
            "{pid} ({name}) S {parent} {pid} {pid} {terminal} 0 9 0 0 0 {ticks} 0 0 0 20 0 1 0 \
             {pid} 0 0\n"
        )
    };
    let all = |ticks| {
        [
            line(10, "thinc", 1, "0 -1", 1),
            line(11, "Xorg", 10, "0 -1", 2),
            line(20, "a (b) c", 10, "0 -1", 3),
            line(21, "sh", 20, "34816 22", 4),
            line(22, "make", 21, "34816 22", ticks),
        ]
        .concat()
    };
    vec![format!("{}\n{}", all(5), all(500)).into_bytes()]
}

/// What the kernel tells of a process's pages, up to a byte of 0, behind which are entries of its
/// pagemap. Whatever it says, no page outside of a mapping is read, and no more than the budget.
pub fn paged(input: &[u8]) {
    const PAGE_BYTES: u64 = 4096;
    let end = input.iter().position(|&byte| byte == 0).unwrap_or(input.len());
    let (text, entries) = input.split_at(end);
    let entries = entries.get(1..).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let _ = Machine::parse(&text);
    let mut budget = Budget::new(8 * PAGE_BYTES, PAGE_BYTES);
    let mut read = 0;
    for mapping in mappings(&text) {
        assert!(mapping.start < mapping.end && mapping.swapped > 0);
        let mut left = mapping.swapped.div_ceil(PAGE_BYTES);
        let mut last = mapping.start;
        for range in budget.take(&mapping, mapping.start, entries, &mut left) {
            assert!(last <= range.start && range.start < range.end && range.end <= mapping.end);
            read += (range.end - range.start) / PAGE_BYTES;
            last = range.end;
        }
    }
    assert!(read <= 8, "the budget is kept");
}

/// A heap and shared memory in swap, beside a file that is not.
pub fn paged_seeds() -> Vec<Vec<u8>> {
    let mapping = |head: &str, rss: u32, swap: u32| {
        format!("{head}\nSize: 16 kB\nRss: {rss} kB\nSwap: {swap} kB\nVmFlags: rd wr mr \n")
    };
    let text = [
        mapping("1000-5000 rw-p 00000000 00:00 0 [heap]", 4, 12),
        mapping("7f00000000-7f00004000 r-xp 00000000 fe:00 24 /usr/lib/a b.so", 16, 0),
        mapping("7f10000000-7f10004000 rw-s 00000000 00:01 24 /memfd:a (deleted)", 8, 8),
        "MemTotal: 8 kB\nMemAvailable: 4 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\n".to_owned(),
    ]
    .concat();
    let entries = [1u64 << 62, 1 << 63, 0, 1 << 62].map(u64::to_le_bytes).concat();
    vec![[text.as_bytes(), &[0], &entries].concat()]
}
