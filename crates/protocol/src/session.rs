//! Path 10/13: from session-core/delivery/ledger.rs through transport, to viewer-core.
//! Messages from a session to a viewer, and their bytes; `command.rs` has the commands of an
//! update. Knows fields and limits; never what a screen holds.

use thinc_region::{Rect, Size};

use crate::clip::ClipMessage;
use crate::clip_policy::ClipDirections;
use crate::command::Compression;
use crate::file::FileMessage;
use crate::framing::{MessageFrame, put_message, put_message_parts};
use crate::gamma::{GammaArea, decode_areas, encode_areas};
use crate::limits::{
    CACHE_TOKEN_BYTES, CURSOR_EDGE_MAX, DISPLAYS_MAX, NAME_BYTES_MAX, NOTICE_BYTES_MAX,
    TEXT_BYTES_MAX, UNPACKED_BYTES_MAX,
};
use crate::microphone::MicrophoneWant;
use crate::people::{
    OpenInvitation, People, PersonPointer, Shared, decode_invitations, encode_invitations,
};
use crate::sound::{self, SoundFormat, SoundPacket};
use crate::viewer::{put_part, put_size, read_cache_token, read_part, read_size};
use crate::wire::{Reader, WireError, put_color, put_text, put_varint};

/// Every message of a session. `command::CommandReader` reads the commands of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionMessage<'a> {
    /// Answers the viewer's hello.
    Hello(SessionHello),
    /// The viewer's framebuffer has this size from now on. Updates of this epoch fill it; all of it
    /// counts as lossy until they do.
    Geometry(Geometry),
    /// Commands that are sent together.
    Update(Update<'a>),
    /// The cursor's image as premultiplied ARGB; 0 × 0 without pixels hides it.
    Cursor(CursorImage<'a>),
    /// The cursor's image in two colours.
    CursorBits(CursorBits<'a>),
    /// New colours of the last two-colour image.
    CursorColor(CursorColors),
    /// An application moved the pointer.
    CursorMove {
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// Shows or hides the cursor; its image stays.
    CursorShow(bool),
    /// What the screen's colours are shown as from now on, and nowhere else: at most
    /// `DISPLAYS_MAX` tables, none at first; to a viewer with `ViewerCaps::GAMMA`.
    Gamma(Vec<GammaArea>),
    /// Whether an application wants to know how far the user moves the pointer, and not where it
    /// is; to a viewer with `ViewerCaps::RELATIVE`.
    RelativeWanted(bool),
    /// Answers a ping.
    Pong(u32),
    /// Answers the viewer's barrier of this number, after everything that was drawn before it has
    /// been sent.
    Barrier(u32),
    /// Answers the viewer's offer of a cache; precedes the first KEEP.
    Cache(CacheGrant),
    /// The session's monitors within its screen, the primary one first; sent to a viewer that has
    /// announced its own.
    Displays(Vec<Rect>),
    /// The newest input that the session received from this viewer on any connection; directly
    /// after the hello, if the session knows the viewer.
    InputReceived(u32),
    /// A clipboard message.
    Clip(ClipMessage),
    /// Who shows the session now; to a viewer with `ViewerCaps::PEOPLE`, as are the next two.
    People(People),
    /// Answers the viewer's `Share`.
    Shared(Shared),
    /// Another viewer's pointer is there now, while there are guests.
    PersonPointer(PersonPointer),
    /// The owner's invitations, the oldest first, at most `INVITATIONS_TOLD_MAX`; to a viewer of
    /// the owner's with `ViewerCaps::INVITATIONS`.
    Invitations(Vec<OpenInvitation>),
    /// What the people at this viewer should read; to a viewer with `ViewerCaps::NOTICE`.
    Notice(String),
    /// What they may like to know and need not close; to a viewer with `ViewerCaps::BRIEF_NOTICE`.
    BriefNotice(String),
    /// The session's name from now on, as in its hello; to a viewer with `ViewerCaps::NAME`.
    Name(String),
    /// What draws the session's 3D programs, for people, at most `NOTICE_BYTES_MAX`; to a viewer
    /// with `ViewerCaps::GRAPHICS`.
    Graphics(String),
    /// In which directions the clipboard is shared with the owner's viewers; to those with
    /// `ViewerCaps::CLIP_POLICY`.
    ClipPolicy(ClipDirections),
    /// How the sound from here on is coded; to a viewer that has sent `SoundWant`.
    SoundFormat(SoundFormat),
    /// Sound; as a datagram, or on the stream.
    Sound(SoundPacket<'a>),
    /// Names of the programs that play now, at most `SOUND_PLAYERS_MAX`; to a viewer that has sent
    /// `SoundWant`.
    SoundPlayers(Vec<String>),
    /// Whether the viewer's microphone is wanted; to a viewer with `ViewerCaps::MICROPHONE`.
    MicrophoneWant(MicrophoneWant),
    /// A message about files.
    File(FileMessage),
    /// The session ends the connection.
    Close(Close<'a>),
}

/// A datagram that only elicits an acknowledgement from QUIC, for a tail loss probe. It is not
/// empty because Chromium 156 delivers no more datagrams to a page after an empty one.
pub const PROBE: [u8; 1] = [0];

/// The session's answer to a cache offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheGrant {
    /// Identifies the cache's contents from now on; the viewer presents it when it reconnects. It
    /// cannot be guessed.
    pub token: [u8; CACHE_TOKEN_BYTES],
    /// True if the contents under the viewer's token stay valid; otherwise all slots are empty.
    pub resumed: bool,
}

/// Describes the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHello {
    /// Protocol version that both ends use.
    pub version: u16,
    /// Bits of [`SessionCaps`].
    pub caps: u32,
    /// The session's name, at most 64 bytes.
    pub name: String,
    /// Longest message that the session accepts, in bytes.
    pub message_bytes_max: u32,
}

/// Bits of `SessionHello::caps`.
pub struct SessionCaps;

impl SessionCaps {
    /// Accepts clipboard offers from the viewer.
    pub const CLIPBOARD: u32 = 1 << 0;
    /// Sends updates as datagrams to a viewer with `ViewerCaps::DATAGRAMS`, which answers with
    /// `Arrived`.
    pub const DATAGRAMS: u32 = 1 << 1;
    /// Accepts copies of the viewer's stream in datagrams: `Early`.
    pub const EARLY: u32 = 1 << 2;
    /// Accepts `InputEvent::MotionBy`.
    pub const RELATIVE: u32 = 1 << 3;
    /// Has sound, and accepts `SoundWant`, if the viewer has `ViewerCaps::SOUND`.
    pub const SOUND: u32 = 1 << 4;
    /// May want the microphone of a viewer with `ViewerCaps::MICROPHONE`.
    pub const MICROPHONE: u32 = 1 << 5;
    /// Accepts offers of files from the viewer.
    pub const FILES: u32 = 1 << 6;
    /// May offer what its programs print, if the viewer has `ViewerCaps::PRINTS`.
    pub const PRINTS: u32 = 1 << 7;
    /// Sends pictures lossy, and accepts `PictureQuality` and `ExactFrame`.
    pub const QUALITY: u32 = 1 << 8;
    /// Accepts `InputEvent::Pen`.
    pub const PEN: u32 = 1 << 9;
    /// Accepts `ViewerMessage::Stereo`.
    pub const STEREO: u32 = 1 << 10;
    /// Accepts `ViewerMessage::VideoCodecs`.
    pub const VIDEO_CODECS: u32 = 1 << 11;
}

/// Size of the viewer's framebuffer, and the epoch that identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Increases by one with every change; updates carry it.
    pub epoch: u32,
    /// Pixels.
    pub size: Size,
    /// The part of the screen that the framebuffer shows, for a viewer that has sent a view. None:
    /// the whole screen at its own size.
    pub shown: Option<ScreenPart>,
}

/// The part of the screen that a viewer's framebuffer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenPart {
    /// Size of the session's screen; positions of input are in its pixels.
    pub screen: Size,
    /// The part that is scaled to the framebuffer.
    pub part: Rect,
}

/// Commands that are sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// Number, from 1 upwards.
    pub seq: u64,
    /// Newest earlier update whose pixels this one writes or copies from, which must be applied
    /// first; 0 for none.
    pub after: u64,
    /// Epoch of its geometry. A viewer drops updates of another epoch and acknowledges them.
    pub epoch: u32,
    /// The input whose echo this update is the first to contain.
    pub echo: Option<u32>,
    /// True if it completes what was drawn at its time: the viewer should present now.
    pub end_of_frame: bool,
    /// How `commands` are packed; None: they are not.
    pub packed: Option<Packed>,
    /// The commands back to back, or their packed form.
    pub commands: &'a [u8],
}

/// The commands are the next part of the connection's zstd stream, which is flushed after each
/// part. A viewer unpacks every update in the order of arrival, also those of another epoch,
/// because each part refers to the parts before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Length of the commands after unpacking, at most `UNPACKED_BYTES_MAX`.
    pub len: u32,
    /// The zstd stream restarts here: this part refers to nothing before it.
    pub reset: bool,
}

/// An ARGB cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorImage<'a> {
    /// Pixels.
    pub size: Size,
    /// Column of the hot spot.
    pub hot_x: u16,
    /// Row of the hot spot.
    pub hot_y: u16,
    /// Premultiplied ARGB, 4 bytes a pixel little-endian (B, G, R, A), zstd-compressed.
    pub pixels: &'a [u8],
}

/// A two-colour cursor, as in X's core protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorBits<'a> {
    /// Pixels; not empty.
    pub size: Size,
    /// Column of the hot spot.
    pub hot_x: u16,
    /// Row of the hot spot.
    pub hot_y: u16,
    /// Its colours.
    pub colors: CursorColors,
    /// How `planes` is compressed.
    pub compression: Compression,
    /// Two planes of one bit per pixel, rows padded to bytes, the first pixel in the highest bit:
    /// first X's source (1 is foreground), then its mask (1 is opaque).
    pub planes: &'a [u8],
}

/// Colours of a two-colour cursor, 0x00RRGGBB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorColors {
    /// Foreground: where the source plane is 1.
    pub fore: u32,
    /// Background: elsewhere in the mask.
    pub back: u32,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// The reason for a program.
    pub code: CloseCode,
    /// The reason for a person: names the thing, the value and the limit.
    pub reason: &'a str,
}

/// Reasons that a program can distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CloseCode {
    /// The session ended.
    SessionEnded = 1,
    /// There is no common protocol version.
    Version = 2,
    /// The token was wrong, used or expired.
    Unauthorized = 3,
    /// A message violated the protocol or a limit.
    Protocol = 4,
    /// The viewer did not read for too long.
    TooSlow = 5,
    /// Another connection replaced this one.
    Replaced = 6,
    /// The session process restarts; the viewer should reconnect at once.
    Restart = 7,
    /// The session is shown elsewhere, and the person has to choose what happens: the viewer says
    /// so with `ViewerCaps::TAKES_OVER` or `ViewerCaps::JOINS`.
    Elsewhere = 8,
}

/// Kinds of a session's messages; 0x01 is `AuthOk`.
mod kind {
    pub(super) const HELLO: u8 = 0x02;
    pub(super) const GEOMETRY: u8 = 0x03;
    pub(super) const UPDATE: u8 = 0x04;
    pub(super) const CURSOR: u8 = 0x05;
    pub(super) const CURSOR_MOVE: u8 = 0x06;
    pub(super) const CURSOR_SHOW: u8 = 0x07;
    pub(super) const PONG: u8 = 0x08;
    pub(super) const BARRIER: u8 = 0x09;
    pub(super) const CLOSE: u8 = 0x0a;
    pub(super) const CURSOR_BITS: u8 = 0x0b;
    pub(super) const CURSOR_COLOR: u8 = 0x0c;
    pub(super) const CACHE: u8 = 0x0d;
    pub(super) const DISPLAYS: u8 = 0x0e;
    pub(super) const INPUT_RECEIVED: u8 = 0x0f;
    pub(super) const RELATIVE_WANTED: u8 = 0x16;
    pub(super) const SOUND_FORMAT: u8 = 0x17;
    pub(super) const SOUND: u8 = 0x18;
    pub(super) const SOUND_PLAYERS: u8 = 0x19;
    pub(super) const MIC_WANT: u8 = 0x1b;
    pub(super) const GAMMA: u8 = 0x1c;
    pub(super) const PEOPLE: u8 = 0x20;
    pub(super) const SHARED: u8 = 0x21;
    pub(super) const PERSON_POINTER: u8 = 0x22;
    pub(super) const NOTICE: u8 = 0x23;
    pub(super) const INVITATIONS: u8 = 0x24;
    pub(super) const NAME: u8 = 0x25;
    pub(super) const CLIP_POLICY: u8 = 0x26;
    pub(super) const BRIEF_NOTICE: u8 = 0x27;
    pub(super) const GRAPHICS: u8 = 0x2d;
}

/// Bits of an update's first byte.
mod flag {
    pub(super) const ECHO: u8 = 1 << 0;
    pub(super) const END_OF_FRAME: u8 = 1 << 1;
    pub(super) const AFTER: u8 = 1 << 2;
    pub(super) const PACKED: u8 = 1 << 3;
    pub(super) const RESET: u8 = 1 << 4;
    pub(super) const ALL: u8 = ECHO | END_OF_FRAME | AFTER | PACKED | RESET;
}

impl<'a> SessionMessage<'a> {
    /// Appends the message.
    ///
    /// ```text
    /// 0x02 HELLO        version varint | caps varint | message_bytes_max varint | name text
    /// 0x03 GEOMETRY     epoch varint | width varint | height varint [ | screen width varint |
    ///                   screen height varint | x varint | y varint | width varint |
    ///                   height varint ]
    /// 0x04 UPDATE       flags u8 | seq varint | [seq − after varint] | epoch varint |
    ///                   [echo varint] | [length varint] | commands (packed, if length is present)
    /// 0x05 CURSOR       width varint | height varint | hot x varint | hot y varint | zstd frame
    /// 0x06 CURSOR MOVE  x varint | y varint
    /// 0x07 CURSOR SHOW  u8 (0 hidden, 1 shown)
    /// 0x08 PONG         number varint
    /// 0x09 BARRIER      number varint
    /// 0x0a CLOSE        code u8 | reason text
    /// 0x0b CURSOR BITS  width varint | height varint | hot x varint | hot y varint |
    ///                   fore color | back color | compression u8 (0 plain, 1 zstd) | planes
    /// 0x0c CURSOR COLOR fore color | back color
    /// 0x0d CACHE        resumed u8 (0, 1) | token 16 bytes
    /// 0x0e DISPLAYS     count varint | for each: x | y | width | height, all varint
    /// 0x0f INPUT RECEIVED  input varint
    /// 0x16 RELATIVE WANTED u8 (0 not wanted, 1 wanted)
    /// 0x17 SOUND FORMAT see `SoundFormat`
    /// 0x18 SOUND        see `SoundPacket`
    /// 0x19 SOUND PLAYERS   count varint | for each: name text
    /// 0x1b MIC WANT     see `MicrophoneWant`
    /// 0x1c GAMMA        see `gamma::encode_areas`
    /// 0x20 PEOPLE       own number varint | count varint | for each: number varint |
    ///                   guest varint | bits u8 (1 control, 2 pointer) | name text
    /// 0x21 SHARED       request varint | u8 (0 done, 1 refused) | text: link, or reason
    /// 0x22 PERSON POINTER  number varint | x varint | y varint
    /// 0x23 NOTICE       text
    /// 0x27 BRIEF NOTICE text
    /// 0x24 INVITATIONS  count varint | for each: number varint | bits u8 (1 control, 2 clipboard
    ///                   to the session, 4 to the guest, 16 password, 32 locked) |
    ///                   used varint | uses varint | expiry varint (seconds since 1970) | name text
    /// 0x25 NAME         text
    /// 0x26 CLIP POLICY  bits u8 (1 to the session, 2 to the viewer)
    /// 0x28 to 0x2c      see `FileMessage::encode`
    /// 0x2d GRAPHICS     text
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SessionMessage::Hello(hello) => put_message(out, kind::HELLO, |out| {
                put_varint(out, u64::from(hello.version));
                put_varint(out, u64::from(hello.caps));
                put_varint(out, u64::from(hello.message_bytes_max));
                put_text(out, &hello.name, NAME_BYTES_MAX);
            }),
            SessionMessage::Geometry(geometry) => put_message(out, kind::GEOMETRY, |out| {
                put_varint(out, u64::from(geometry.epoch));
                put_size(out, geometry.size);
                if let Some(shown) = geometry.shown {
                    put_size(out, shown.screen);
                    put_part(out, &shown.part);
                }
            }),
            SessionMessage::Update(update) => update.encode(out),
            SessionMessage::Cursor(cursor) => put_message(out, kind::CURSOR, |out| {
                put_size(out, cursor.size);
                put_varint(out, u64::from(cursor.hot_x));
                put_varint(out, u64::from(cursor.hot_y));
                out.extend_from_slice(cursor.pixels);
            }),
            SessionMessage::CursorBits(cursor) => put_message(out, kind::CURSOR_BITS, |out| {
                put_size(out, cursor.size);
                put_varint(out, u64::from(cursor.hot_x));
                put_varint(out, u64::from(cursor.hot_y));
                put_colors(out, cursor.colors);
                out.push(cursor.compression as u8);
                out.extend_from_slice(cursor.planes);
            }),
            SessionMessage::CursorColor(colors) => {
                put_message(out, kind::CURSOR_COLOR, |out| put_colors(out, *colors));
            }
            SessionMessage::CursorMove { x, y } => put_message(out, kind::CURSOR_MOVE, |out| {
                put_varint(out, u64::from(*x));
                put_varint(out, u64::from(*y));
            }),
            SessionMessage::CursorShow(shown) => {
                put_message(out, kind::CURSOR_SHOW, |out| out.push(u8::from(*shown)))
            }
            SessionMessage::RelativeWanted(wanted) => {
                put_message(out, kind::RELATIVE_WANTED, |out| out.push(u8::from(*wanted)))
            }
            SessionMessage::SoundFormat(format) => {
                put_message(out, kind::SOUND_FORMAT, |out| format.encode_body(out))
            }
            SessionMessage::Sound(packet) => {
                put_message(out, kind::SOUND, |out| packet.encode_body(out))
            }
            SessionMessage::SoundPlayers(players) => {
                put_message(out, kind::SOUND_PLAYERS, |out| sound::put_players(out, players))
            }
            SessionMessage::MicrophoneWant(want) => {
                put_message(out, kind::MIC_WANT, |out| want.encode_body(out))
            }
            SessionMessage::Notice(text) => {
                put_message(out, kind::NOTICE, |out| put_text(out, text, NOTICE_BYTES_MAX))
            }
            SessionMessage::BriefNotice(text) => {
                put_message(out, kind::BRIEF_NOTICE, |out| put_text(out, text, NOTICE_BYTES_MAX))
            }
            SessionMessage::Graphics(text) => {
                put_message(out, kind::GRAPHICS, |out| put_text(out, text, NOTICE_BYTES_MAX))
            }
            SessionMessage::Name(text) => {
                put_message(out, kind::NAME, |out| put_text(out, text, NAME_BYTES_MAX))
            }
            SessionMessage::ClipPolicy(directions) => {
                put_message(out, kind::CLIP_POLICY, |out| out.push(directions.bits()))
            }
            SessionMessage::Gamma(areas) => {
                put_message(out, kind::GAMMA, |out| encode_areas(areas, out))
            }
            SessionMessage::Pong(number) => {
                put_message(out, kind::PONG, |out| put_varint(out, u64::from(*number)))
            }
            SessionMessage::Barrier(number) => {
                put_message(out, kind::BARRIER, |out| put_varint(out, u64::from(*number)))
            }
            SessionMessage::InputReceived(input) => {
                put_message(out, kind::INPUT_RECEIVED, |out| put_varint(out, u64::from(*input)))
            }
            SessionMessage::Clip(message) => message.encode(out),
            SessionMessage::File(message) => message.encode(out),
            SessionMessage::People(people) => {
                put_message(out, kind::PEOPLE, |out| people.encode_body(out))
            }
            SessionMessage::Shared(shared) => {
                put_message(out, kind::SHARED, |out| shared.encode_body(out))
            }
            SessionMessage::Invitations(invitations) => {
                put_message(out, kind::INVITATIONS, |out| encode_invitations(invitations, out))
            }
            SessionMessage::PersonPointer(pointer) => {
                put_message(out, kind::PERSON_POINTER, |out| pointer.encode_body(out))
            }
            SessionMessage::Cache(grant) => put_message(out, kind::CACHE, |out| {
                out.push(u8::from(grant.resumed));
                out.extend_from_slice(&grant.token);
            }),
            SessionMessage::Displays(rects) => put_message(out, kind::DISPLAYS, |out| {
                put_varint(out, rects.len() as u64);
                rects.iter().for_each(|rect| put_part(out, rect));
            }),
            SessionMessage::Close(close) => put_message(out, kind::CLOSE, |out| {
                out.push(close.code as u8);
                put_text(out, close.reason, TEXT_BYTES_MAX);
            }),
        }
    }

    /// Reads a message of a session after authentication; pixels and commands stay borrowed.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<SessionMessage<'a>, WireError> {
        let mut reader = Reader::new(frame.body);
        let (message, what) = match frame.kind {
            kind::HELLO => (SessionMessage::Hello(decode_hello(&mut reader)?), "a session's hello"),
            kind::GEOMETRY => {
                let epoch = reader.u32("a geometry's epoch")?;
                let size = read_size(&mut reader)?;
                if size.area() == 0 {
                    return Err(WireError::Outside("a geometry"));
                }
                let shown = if reader.is_empty() {
                    None
                } else {
                    let (screen, part) = (read_size(&mut reader)?, read_part(&mut reader)?);
                    if part.is_empty() || screen.rect().intersect(&part) != part {
                        return Err(WireError::Outside("a geometry's part"));
                    }
                    Some(ScreenPart { screen, part })
                };
                (SessionMessage::Geometry(Geometry { epoch, size, shown }), "a geometry")
            }
            kind::UPDATE => (SessionMessage::Update(Update::decode(&mut reader)?), "an update"),
            kind::CURSOR => (SessionMessage::Cursor(decode_cursor(&mut reader)?), "a cursor"),
            kind::CURSOR_BITS => (
                SessionMessage::CursorBits(decode_cursor_bits(&mut reader)?),
                "a two-colour cursor",
            ),
            kind::CURSOR_COLOR => {
                (SessionMessage::CursorColor(read_colors(&mut reader)?), "a cursor's colours")
            }
            kind::CURSOR_MOVE => {
                let (x, y) = (reader.u16("a cursor's x")?, reader.u16("a cursor's y")?);
                (SessionMessage::CursorMove { x, y }, "a cursor's move")
            }
            kind::CURSOR_SHOW => match reader.u8("a cursor's show")? {
                shown @ 0..=1 => (SessionMessage::CursorShow(shown == 1), "a cursor's show"),
                other => {
                    return Err(WireError::Unknown {
                        what: "a cursor's show",
                        value: u64::from(other),
                    });
                }
            },
            kind::RELATIVE_WANTED => match reader.u8("whether relative motion is wanted")? {
                wanted @ 0..=1 => {
                    (SessionMessage::RelativeWanted(wanted == 1), "whether motion is wanted")
                }
                other => {
                    return Err(WireError::Unknown {
                        what: "whether relative motion is wanted",
                        value: u64::from(other),
                    });
                }
            },
            kind::SOUND_FORMAT => (
                SessionMessage::SoundFormat(SoundFormat::decode_body(&mut reader)?),
                "a sound format",
            ),
            kind::SOUND => {
                (SessionMessage::Sound(SoundPacket::decode_body(&mut reader)?), "a sound")
            }
            kind::SOUND_PLAYERS => (
                SessionMessage::SoundPlayers(sound::read_players(&mut reader)?),
                "a list of programs that play",
            ),
            kind::MIC_WANT => (
                SessionMessage::MicrophoneWant(MicrophoneWant::decode_body(&mut reader)?),
                "a wanted microphone",
            ),
            kind::GAMMA => (SessionMessage::Gamma(decode_areas(&mut reader)?), "gamma tables"),
            kind::PEOPLE => {
                (SessionMessage::People(People::decode_body(&mut reader)?), "a list of people")
            }
            kind::SHARED => (
                SessionMessage::Shared(Shared::decode_body(&mut reader)?),
                "an answer to a request to share",
            ),
            kind::PERSON_POINTER => (
                SessionMessage::PersonPointer(PersonPointer::decode_body(&mut reader)?),
                "a person's pointer",
            ),
            kind::INVITATIONS => (
                SessionMessage::Invitations(decode_invitations(&mut reader)?),
                "a list of invitations",
            ),
            kind::NOTICE => (
                SessionMessage::Notice(reader.text("a notice", NOTICE_BYTES_MAX)?.to_owned()),
                "a notice",
            ),
            kind::BRIEF_NOTICE => (
                SessionMessage::BriefNotice(
                    reader.text("a brief notice", NOTICE_BYTES_MAX)?.to_owned(),
                ),
                "a brief notice",
            ),
            kind::GRAPHICS => (
                SessionMessage::Graphics(
                    reader.text("what draws 3D programs", NOTICE_BYTES_MAX)?.to_owned(),
                ),
                "what draws 3D programs",
            ),
            kind::NAME => (
                SessionMessage::Name(reader.text("a session's name", NAME_BYTES_MAX)?.to_owned()),
                "a name",
            ),
            kind::CLIP_POLICY => (
                SessionMessage::ClipPolicy(ClipDirections::decode_body(&mut reader)?),
                "a clipboard's policy",
            ),
            kind::PONG => (SessionMessage::Pong(reader.u32("a pong's number")?), "a pong"),
            kind::BARRIER => {
                (SessionMessage::Barrier(reader.u32("a barrier's number")?), "a barrier")
            }
            kind::INPUT_RECEIVED => (
                SessionMessage::InputReceived(reader.u32("a received input's number")?),
                "a received input",
            ),
            kind::CACHE => {
                let resumed = match reader.u8("a cache's state")? {
                    resumed @ 0..=1 => resumed == 1,
                    other => {
                        return Err(WireError::Unknown {
                            what: "a cache's state",
                            value: u64::from(other),
                        });
                    }
                };
                let token = read_cache_token(&mut reader)?;
                (SessionMessage::Cache(CacheGrant { token, resumed }), "a cache")
            }
            kind::DISPLAYS => {
                let count = reader.at_most("a count of displays", DISPLAYS_MAX as u64)?;
                let rects = (0..count)
                    .map(|_| read_part(&mut reader))
                    .collect::<Result<Vec<Rect>, WireError>>()?;
                (SessionMessage::Displays(rects), "displays")
            }
            clip if ClipMessage::is_kind(clip) => {
                return ClipMessage::decode(frame).map(SessionMessage::Clip);
            }
            file if FileMessage::is_kind(file) => {
                return FileMessage::decode(frame).map(SessionMessage::File);
            }
            kind::CLOSE => {
                let code = CloseCode::from_byte(reader.u8("a close's code")?)?;
                let reason = reader.text("a reason", TEXT_BYTES_MAX)?;
                (SessionMessage::Close(Close { code, reason }), "a session's close")
            }
            other => {
                return Err(WireError::Unknown {
                    what: "a session's message of kind",
                    value: u64::from(other),
                });
            }
        };
        reader.end(what)?;
        Ok(message)
    }
}

/// Most bytes of an update before its commands: flags, two varints of 64 bits and three of 32.
const UPDATE_HEAD_BYTES_MAX: usize = 1 + 10 + 10 + 5 + 5 + 5;

impl<'a> Update<'a> {
    /// Appends the message; the commands are copied once, after a separately built head.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut head = Vec::with_capacity(UPDATE_HEAD_BYTES_MAX);
        let mut flags = 0;
        for (set, bit) in [
            (self.echo.is_some(), flag::ECHO),
            (self.end_of_frame, flag::END_OF_FRAME),
            (self.after != 0, flag::AFTER),
            (self.packed.is_some(), flag::PACKED),
            (self.packed.is_some_and(|packed| packed.reset), flag::RESET),
        ] {
            flags |= if set { bit } else { 0 };
        }
        head.push(flags);
        put_varint(&mut head, self.seq);
        if self.after != 0 {
            assert!(
                self.after < self.seq,
                "an update follows an earlier one: {} follows {}",
                self.seq,
                self.after
            );
            put_varint(&mut head, self.seq - self.after);
        }
        put_varint(&mut head, u64::from(self.epoch));
        if let Some(echo) = self.echo {
            put_varint(&mut head, u64::from(echo));
        }
        if let Some(packed) = self.packed {
            put_varint(&mut head, u64::from(packed.len));
        }
        put_message_parts(out, kind::UPDATE, &head, self.commands);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Update<'a>, WireError> {
        let flags = reader.u8("an update's flags")?;
        if flags & !flag::ALL != 0 {
            return Err(WireError::Unknown { what: "an update's flags", value: u64::from(flags) });
        }
        let seq = reader.varint("an update's number")?;
        let after = if flags & flag::AFTER != 0 {
            let back = reader.varint("an update's predecessor")?;
            match seq.checked_sub(back) {
                Some(after) if back > 0 && after > 0 => after,
                _ => {
                    return Err(WireError::Unknown {
                        what: "an update's predecessor",
                        value: back,
                    });
                }
            }
        } else {
            0
        };
        let epoch = reader.u32("an update's epoch")?;
        let echo = if flags & flag::ECHO != 0 { Some(reader.u32("an echo")?) } else { None };
        let reset = flags & flag::RESET != 0;
        let packed = if flags & flag::PACKED != 0 {
            let len =
                reader.at_most("an update's unpacked length", UNPACKED_BYTES_MAX as u64)? as u32;
            Some(Packed { len, reset })
        } else if reset {
            return Err(WireError::Unknown { what: "an update's flags", value: u64::from(flags) });
        } else {
            None
        };
        let end_of_frame = flags & flag::END_OF_FRAME != 0;
        Ok(Update { seq, after, epoch, echo, end_of_frame, packed, commands: reader.rest() })
    }
}

fn decode_hello(reader: &mut Reader<'_>) -> Result<SessionHello, WireError> {
    Ok(SessionHello {
        version: reader.u16("a session's version")?,
        caps: reader.u32("a session's capabilities")?,
        message_bytes_max: reader.u32("a session's longest message")?,
        name: reader.text("a session's name", NAME_BYTES_MAX)?.to_owned(),
    })
}

fn decode_cursor<'a>(reader: &mut Reader<'a>) -> Result<CursorImage<'a>, WireError> {
    let (size, hot_x, hot_y) = read_cursor_shape(reader)?;
    let pixels = reader.rest();
    if (size.area() == 0) != pixels.is_empty() {
        return Err(WireError::Outside("a cursor"));
    }
    Ok(CursorImage { size, hot_x, hot_y, pixels })
}

fn decode_cursor_bits<'a>(reader: &mut Reader<'a>) -> Result<CursorBits<'a>, WireError> {
    let (size, hot_x, hot_y) = read_cursor_shape(reader)?;
    let colors = read_colors(reader)?;
    let compression = match reader.u8("a cursor's compression")? {
        0 => Compression::Plain,
        1 => Compression::Zstd,
        other => {
            return Err(WireError::Unknown {
                what: "a cursor's compression",
                value: u64::from(other),
            });
        }
    };
    let planes = reader.rest();
    if size.area() == 0 || planes.is_empty() {
        return Err(WireError::Outside("a cursor"));
    }
    Ok(CursorBits { size, hot_x, hot_y, colors, compression, planes })
}

fn read_cursor_shape(reader: &mut Reader<'_>) -> Result<(Size, u16, u16), WireError> {
    let edge = u64::from(CURSOR_EDGE_MAX);
    let width = reader.at_most("a cursor's width", edge)? as u32;
    let height = reader.at_most("a cursor's height", edge)? as u32;
    let hot_x = reader.u16("a cursor's hot x")?;
    let hot_y = reader.u16("a cursor's hot y")?;
    // Some themes put the hot spot one pixel beyond the right or bottom edge; no further.
    if u32::from(hot_x) > width || u32::from(hot_y) > height {
        return Err(WireError::Outside("a cursor"));
    }
    Ok((Size { width, height }, hot_x, hot_y))
}

fn put_colors(out: &mut Vec<u8>, colors: CursorColors) {
    put_color(out, colors.fore);
    put_color(out, colors.back);
}

fn read_colors(reader: &mut Reader<'_>) -> Result<CursorColors, WireError> {
    Ok(CursorColors {
        fore: reader.color("a cursor's foreground")?,
        back: reader.color("a cursor's background")?,
    })
}

impl CloseCode {
    fn from_byte(byte: u8) -> Result<CloseCode, WireError> {
        Ok(match byte {
            1 => CloseCode::SessionEnded,
            2 => CloseCode::Version,
            3 => CloseCode::Unauthorized,
            4 => CloseCode::Protocol,
            5 => CloseCode::TooSlow,
            6 => CloseCode::Replaced,
            7 => CloseCode::Restart,
            8 => CloseCode::Elsewhere,
            other => {
                return Err(WireError::Unknown { what: "a close's code", value: u64::from(other) });
            }
        })
    }
}
