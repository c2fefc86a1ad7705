//! Path back: from the viewer's window through viewer-core and transport, to session-core's
//! input/keyboard.rs.
//! Messages from a viewer to a session, and their bytes.
//! Knows fields and limits; never what a session does with them.

use thinc_region::{Rect, Size};

use crate::arrived::Arrived;
use crate::clip::ClipMessage;
use crate::clip_policy::ClipDirections;
use crate::file::FileMessage;
use crate::framing::{MessageFrame, put_message};
use crate::limits::{
    CACHE_BYTES_MAX, CACHE_TOKEN_BYTES, DISPLAYS_MAX, EARLY_BYTES_MAX, INSTANCE_BYTES,
    LAYOUT_NAME_BYTES_MAX, NAME_BYTES_MAX, SCREEN_AREA_MAX, SCREEN_EDGE_MAX, TEXT_BYTES_MAX,
    TOUCH_IDS_MAX,
};
use crate::microphone::{MicrophonePacket, MicrophoneState};
use crate::pen::PenSample;
use crate::people::Share;
use crate::picture_quality::PictureQuality;
use crate::retained::RetainedTiles;
use crate::sound::{SoundState, SoundWant};
use crate::video::VideoStatus;
use crate::wire::{Reader, WireError, put_text, put_varint, put_zigzag};

/// Every message of a viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerMessage {
    /// The first message after authentication.
    Hello(ViewerHello),
    /// Updates were applied.
    Ack(Ack),
    /// Selective acknowledgement of updates, if some are sent as datagrams. It replaces `Ack`,
    /// except for `Ack::presented`.
    Arrived(Arrived),
    /// A copy of part of this stream, sent as a datagram; never on the stream.
    Early(Early),
    /// A key, button, motion, scroll, touch or pen.
    Input(Input),
    /// Requests a `Pong` with the same number.
    Ping(u32),
    /// The controlling viewer's window has this size now; the session resizes its screen to it.
    Resize(Size),
    /// Requests a `Barrier` after everything drawn until now has been sent.
    Barrier(u32),
    /// Requests all pixels again: the viewer has dropped an update or was reset.
    Resync,
    /// Offers memory for a cache of pixels; once, after the hello.
    Cache(CacheOffer),
    /// The layout of the viewer's keyboard, if the viewer knows it.
    KeyboardLayout(KeyboardLayout),
    /// Identifies the viewer across connections: a number that nobody can guess. The session ends
    /// an older connection with the same number.
    Instance([u8; INSTANCE_BYTES]),
    /// State of the viewer's decoder for a video stream.
    Video(VideoStatus),
    /// Which part of the screen the viewer shows, and at what size.
    View(View),
    /// The monitors of a viewer that controls the session's size: the screen becomes all of them.
    /// In place of `Resize`.
    Displays(Displays),
    /// Hashes of the tiles that the viewer still shows from its last connection; once, if its hello
    /// announces it.
    RetainedTiles(RetainedTiles),
    /// A clipboard message.
    Clip(ClipMessage),
    /// How good pictures that move are from now on; to a session with `SessionCaps::QUALITY`, as is
    /// the next.
    PictureQuality(PictureQuality),
    /// Requests what is shown now lossless, also while it moves.
    ExactFrame,
    /// Whether the viewer wants the right eye's pictures of stereo programs from now on, none at
    /// first; to a session with `SessionCaps::STEREO`.
    Stereo(bool),
    /// What the viewer decodes from now on beside the codecs of its hello, none at first: bits of
    /// [`FrameCodec`](crate::video::FrameCodec). To a session with `SessionCaps::VIDEO_CODECS`.
    VideoCodecs(u32),
    /// What sound the viewer wants; to a session with `SessionCaps::SOUND`, as is the next.
    SoundWant(SoundWant),
    /// What it plays.
    SoundState(SoundState),
    /// What its microphone hears; as a datagram, or on the stream, while the session wants it.
    Microphone(MicrophonePacket),
    /// Whether it gives its microphone; after a `MicrophoneWant`.
    MicrophoneState(MicrophoneState),
    /// The owner asks to share the session, or to change what a guest may do.
    Share(Share),
    /// The owner chooses in which directions the clipboard is shared with their viewers; only after
    /// the session has told them.
    ClipPolicy(ClipDirections),
    /// A message about files.
    File(FileMessage),
    /// The viewer ends the connection, for this reason.
    Close(String),
}

/// A copy of bytes of the viewer's stream, which may arrive before the stream delivers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Early {
    /// Position of the first byte in the stream; the hello begins at 0.
    pub offset: u64,
    /// At most `EARLY_BYTES_MAX`; they need not begin or end at a message.
    pub bytes: Vec<u8>,
}

/// The part of the screen that a viewer shows. The session scales it to the viewer's window, so
/// that a small window costs few bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Size of the viewer's framebuffer; 0 × 0: the whole screen at its own size.
    pub size: Size,
    /// The part of the screen in its pixels, clipped to it; empty: the whole screen.
    pub part: Rect,
}

/// The monitors of a viewer that controls the session's size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Displays {
    /// Scale at which applications should draw, in percent; 100 is 96 dots per inch.
    pub scale_percent: u16,
    /// At most `DISPLAYS_MAX`; the first is the primary one.
    pub displays: Vec<Display>,
}

/// One monitor, or a window that acts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Display {
    /// Its rectangle in the screen's pixels; x and y are 0 or more.
    pub rect: Rect,
    /// Its size in millimetres; 0 × 0 if unknown.
    pub millimetres: Size,
}

/// A keyboard's layout as XKB rules name it (`setxkbmap -layout us,de -variant ,nodeadkeys`).
/// Commas separate list items; an empty name is unspecified. Allowed are a-z, A-Z, 0-9, `_-,` and,
/// in options, `:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyboardLayout {
    /// `pc105`, …
    pub model: String,
    /// `us`, `de,us`, …
    pub layout: String,
    /// `nodeadkeys`, …; one item per layout.
    pub variant: String,
    /// `compose:caps`, …
    pub options: String,
}

/// Describes the viewer and its capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerHello {
    /// Highest protocol version that it supports.
    pub version: u16,
    /// Bits of [`ViewerCaps`].
    pub caps: u32,
    /// Size of its window in pixels; 0 × 0 keeps the session's size.
    pub size: Size,
    /// Longest message that it accepts, in bytes.
    pub message_bytes_max: u32,
    /// Name and version of the program, for logs; at most 64 bytes.
    pub name: String,
}

/// Memory that the viewer offers for a cache of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOffer {
    /// Size of the cache in bytes, at 4 bytes per pixel; 0 for none.
    pub bytes: u64,
    /// The session's token for the cache's present contents; zeros if it is empty.
    pub token: [u8; CACHE_TOKEN_BYTES],
    /// The contents are those after this update of the connection that issued the token.
    pub update: u64,
}

/// Bits of `ViewerHello::caps`.
pub struct ViewerCaps;

impl ViewerCaps {
    /// May control the session's size.
    pub const RESIZE: u32 = 1 << 0;
    /// Draws the cursor itself.
    pub const LOCAL_CURSOR: u32 = 1 << 1;
    /// Accepts packed updates.
    pub const PACKED: u32 = 1 << 2;
    /// Accepts lossy RAWs (`Encoding::Jpeg`).
    pub const LOSSY: u32 = 1 << 3;
    /// Accepts clipboard offers from the session.
    pub const CLIPBOARD: u32 = 1 << 4;
    /// Accepts video streams of plain samples.
    pub const VIDEO: u32 = 1 << 5;
    /// Accepts video streams in H.264 too; only with `VIDEO`.
    pub const H264: u32 = 1 << 6;
    /// Still shows tiles from its last connection and sends `RetainedTiles`; the session sends
    /// nothing but its hello before it has received them.
    pub const RETAINED: u32 = 1 << 8;
    /// Sends `Instance`, numbers its input across connections, and wants `InputReceived`, so that
    /// each input takes effect once.
    pub const RESUME_INPUT: u32 = 1 << 9;
    /// Accepts updates as datagrams, unordered and unreliable.
    pub const DATAGRAMS: u32 = 1 << 7;
    /// Repairs its stream from `Parity` messages; only with `DATAGRAMS`.
    pub const PARITY: u32 = 1 << 10;
    /// Accepts `RelativeWanted`.
    pub const RELATIVE: u32 = 1 << 11;
    /// Accepts offers of files from the session.
    pub const FILES: u32 = 1 << 12;
    /// Accepts `People`, `Shared` and `PersonPointer`.
    pub const PEOPLE: u32 = 1 << 13;
    /// Accepts `Notice`.
    pub const NOTICE: u32 = 1 << 14;
    /// Accepts `BriefNotice`.
    pub const BRIEF_NOTICE: u32 = 1 << 24;
    /// Shows what draws the session's 3D programs: `SessionMessage::Graphics`.
    pub const GRAPHICS: u32 = 1 << 26;
    /// Accepts `Invitations`, and may send `ShareAction::Revoke` once it got them.
    pub const INVITATIONS: u32 = 1 << 15;
    /// Accepts `Name`.
    pub const NAME: u32 = 1 << 16;
    /// Its person opens the session; without this bit it only reconnects. Where the session is
    /// shown at another viewer of theirs, its policy says what happens, unless the next bits do.
    pub const OPENS: u32 = 1 << 17;
    /// With `OPENS`: the other viewers are closed, with `CloseCode::Replaced`.
    pub const TAKES_OVER: u32 = 1 << 18;
    /// With `OPENS`: they stay.
    pub const JOINS: u32 = 1 << 19;
    /// Accepts `ClipPolicy`, and may send one then.
    pub const CLIP_POLICY: u32 = 1 << 20;
    /// Plays sound: accepts `SoundFormat` and `Sound` once it has sent `SoundWant`.
    pub const SOUND: u32 = 1 << 21;
    /// May give a microphone: accepts `MicrophoneWant`.
    pub const MICROPHONE: u32 = 1 << 22;
    /// Prints what programs of the session print: accepts offers of files for that.
    pub const PRINTS: u32 = 1 << 23;
    /// Shows colours as the session wants them: accepts `Gamma`.
    pub const GAMMA: u32 = 1 << 25;
}

/// Acknowledges updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// This update and all before it have been applied.
    pub update: u64,
    /// The last present, if there was one: hidden tabs present nothing.
    pub presented: Option<Presented>,
}

/// A present, which is independent of applying: which update the viewer showed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presented {
    /// The newest update on the screen.
    pub update: u64,
    /// Microseconds from its receipt to the present.
    pub delay_us: u32,
}

/// One input event with its number; numbers increase from 1 and wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Number, to which `Update::echo` refers.
    pub seq: u32,
    /// What happened.
    pub event: InputEvent,
}

/// A user's input; positions are pixels of the session's screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEvent {
    /// A key.
    Key {
        /// Physical key: evdev key code (`KEY_*` of linux/input-event-codes.h), 0 if unknown.
        code: u16,
        /// Its X keysym in the viewer's layout, 0 if unknown.
        keysym: u32,
        /// Pressed or released. The session generates repeats; they are not sent.
        down: bool,
    },
    /// The pointer's position.
    Motion {
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// X button number: 1 left, 2 middle, 3 right, 8 back, 9 forward. Scrolling is `Scroll`.
    Button {
        /// Number.
        button: u8,
        /// Pressed or released.
        down: bool,
    },
    /// Smooth scrolling in 1/120 of a wheel notch; positive is right and down.
    Scroll {
        /// Horizontal.
        dx: i16,
        /// Vertical.
        dy: i16,
    },
    /// A touch point.
    Touch {
        /// Which touch point, 0 to 15.
        id: u8,
        /// Its phase.
        phase: TouchPhase,
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// The viewer lost the keyboard focus: no key or button is pressed any more.
    ReleaseAll,
    /// A character from an input method, a dead key or an on-screen keyboard, without a key.
    Char(char),
    /// State of the viewer's lock keys.
    Locks {
        /// Caps Lock.
        caps: bool,
        /// Num Lock.
        num: bool,
    },
    /// The user moved the pointer this far, from wherever it is in the session; only to a session
    /// with `SessionCaps::RELATIVE`.
    MotionBy {
        /// Pixels, right is positive.
        dx: i16,
        /// Pixels, down is positive.
        dy: i16,
    },
    /// A sample of the pen; only to a session with `SessionCaps::PEN`.
    Pen(PenSample),
}

/// Phase of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchPhase {
    /// The finger touched the screen.
    Begin,
    /// The finger moved.
    Update,
    /// The finger left the screen.
    End,
}

/// Kinds of a viewer's messages; 0x01 is `Auth`.
mod kind {
    pub(super) const HELLO: u8 = 0x02;
    pub(super) const ACK: u8 = 0x03;
    pub(super) const INPUT: u8 = 0x04;
    pub(super) const PING: u8 = 0x05;
    pub(super) const RESIZE: u8 = 0x06;
    pub(super) const BARRIER: u8 = 0x07;
    pub(super) const RESYNC: u8 = 0x08;
    pub(super) const CLOSE: u8 = 0x09;
    pub(super) const CACHE: u8 = 0x0a;
    pub(super) const LAYOUT: u8 = 0x0b;
    pub(super) const INSTANCE: u8 = 0x0c;
    pub(super) const VIDEO: u8 = 0x0d;
    pub(super) const VIEW: u8 = 0x0e;
    pub(super) const DISPLAYS: u8 = 0x0f;
    pub(super) const ARRIVED: u8 = 0x15;
    pub(super) const RETAINED: u8 = 0x16;
    pub(super) const EARLY: u8 = 0x17;
    pub(super) const SOUND_WANT: u8 = 0x18;
    pub(super) const SOUND_STATE: u8 = 0x19;
    pub(super) const MIC: u8 = 0x1a;
    pub(super) const MIC_STATE: u8 = 0x1b;
    pub(super) const QUALITY: u8 = 0x1c;
    pub(super) const EXACT_FRAME: u8 = 0x1d;
    pub(super) const STEREO: u8 = 0x1e;
    pub(super) const VIDEO_CODECS: u8 = 0x1f;
    pub(super) const SHARE: u8 = 0x20;
    pub(super) const CLIP_POLICY: u8 = 0x21;
}

/// First byte of an input's body; pressed and released are separate values.
mod event {
    pub(super) const KEY_UP: u8 = 0;
    pub(super) const KEY_DOWN: u8 = 1;
    pub(super) const MOTION: u8 = 2;
    pub(super) const BUTTON_UP: u8 = 3;
    pub(super) const BUTTON_DOWN: u8 = 4;
    pub(super) const SCROLL: u8 = 5;
    pub(super) const TOUCH_BEGIN: u8 = 6;
    pub(super) const TOUCH_UPDATE: u8 = 7;
    pub(super) const TOUCH_END: u8 = 8;
    pub(super) const RELEASE_ALL: u8 = 9;
    pub(super) const CHAR: u8 = 10;
    pub(super) const LOCKS: u8 = 11;
    pub(super) const MOTION_BY: u8 = 12;
    pub(super) const PEN: u8 = 13;
}

impl ViewerMessage {
    /// Appends the message.
    ///
    /// ```text
    /// 0x02 HELLO    version varint | caps varint | width varint | height varint |
    ///               message_bytes_max varint | name text
    /// 0x03 ACK      update varint [ | update − presented zigzag | delay_us varint ]
    /// 0x04 INPUT    event u8 | seq varint | fields, see `Input`
    /// 0x05 PING     number varint
    /// 0x06 RESIZE   width varint | height varint
    /// 0x07 BARRIER  number varint
    /// 0x08 RESYNC
    /// 0x09 CLOSE    reason text
    /// 0x0a CACHE    bytes varint | token 16 bytes | update varint
    /// 0x0b LAYOUT   model text | layout text | variant text | options text
    /// 0x0c INSTANCE number 16 bytes
    /// 0x0d VIDEO    id varint | decoder u8
    /// 0x0e VIEW     width varint | height varint | x varint | y varint | part width varint |
    ///               part height varint
    /// 0x0f DISPLAYS scale varint | count varint | for each: x | y | width | height | mm width |
    ///               mm height, all varint
    /// 0x10 to 0x14  see `ClipMessage::encode`
    /// 0x15 ARRIVED  see `Arrived`
    /// 0x16 RETAINED width | height | x | y | part width | part height, all varint | edge u8 |
    ///               key 32 bytes | hashes, 8 bytes each
    /// 0x17 EARLY    offset varint64 | count varint | bytes
    /// 0x18 SOUND WANT  see `SoundWant`
    /// 0x19 SOUND STATE  see `SoundState`
    /// 0x1a MIC      see `SoundPacket`
    /// 0x1b MIC STATE  see `MicrophoneState`
    /// 0x1c QUALITY  see `PictureQuality`
    /// 0x1d EXACT FRAME
    /// 0x1e STEREO   u8 (0 not wanted, 1 wanted)
    /// 0x20 SHARE    request varint | action u8 | 0 invite: bits u8 (1 control, 2 clipboard to the
    ///               session, 4 to the guest, 8 native link) | life_s varint | uses varint |
    ///               name text | password text; 1 give control, 2 take it, 3 end visit:
    ///               guest varint; 4 revoke: invitation varint
    /// 0x21 CLIP POLICY bits u8 (1 to the session, 2 to the viewer)
    /// 0x28 to 0x2c  see `FileMessage::encode`
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ViewerMessage::Hello(hello) => put_message(out, kind::HELLO, |out| {
                put_varint(out, u64::from(hello.version));
                put_varint(out, u64::from(hello.caps));
                put_size(out, hello.size);
                put_varint(out, u64::from(hello.message_bytes_max));
                put_text(out, &hello.name, NAME_BYTES_MAX);
            }),
            ViewerMessage::Ack(ack) => put_message(out, kind::ACK, |out| {
                put_varint(out, ack.update);
                if let Some(presented) = ack.presented {
                    put_zigzag(out, ack.update.wrapping_sub(presented.update) as i64);
                    put_varint(out, u64::from(presented.delay_us));
                }
            }),
            ViewerMessage::Arrived(arrived) => {
                put_message(out, kind::ARRIVED, |out| arrived.encode_body(out))
            }
            ViewerMessage::Early(early) => put_message(out, kind::EARLY, |out| {
                put_varint(out, early.offset);
                put_varint(out, early.bytes.len() as u64);
                out.extend_from_slice(&early.bytes);
            }),
            ViewerMessage::Input(input) => {
                put_message(out, kind::INPUT, |out| input.encode_body(out))
            }
            ViewerMessage::Ping(number) => {
                put_message(out, kind::PING, |out| put_varint(out, u64::from(*number)))
            }
            ViewerMessage::Resize(size) => {
                put_message(out, kind::RESIZE, |out| put_size(out, *size))
            }
            ViewerMessage::Barrier(number) => {
                put_message(out, kind::BARRIER, |out| put_varint(out, u64::from(*number)))
            }
            ViewerMessage::Resync => put_message(out, kind::RESYNC, |_| {}),
            ViewerMessage::Cache(offer) => put_message(out, kind::CACHE, |out| {
                put_varint(out, offer.bytes);
                out.extend_from_slice(&offer.token);
                put_varint(out, offer.update);
            }),
            ViewerMessage::KeyboardLayout(layout) => put_message(out, kind::LAYOUT, |out| {
                for name in [&layout.model, &layout.layout, &layout.variant, &layout.options] {
                    put_text(out, name, LAYOUT_NAME_BYTES_MAX);
                }
            }),
            ViewerMessage::Video(state) => {
                put_message(out, kind::VIDEO, |out| state.encode_body(out))
            }
            ViewerMessage::View(view) => put_message(out, kind::VIEW, |out| {
                put_size(out, view.size);
                put_part(out, &view.part);
            }),
            ViewerMessage::Displays(displays) => put_message(out, kind::DISPLAYS, |out| {
                put_varint(out, u64::from(displays.scale_percent));
                put_varint(out, displays.displays.len() as u64);
                for display in &displays.displays {
                    put_part(out, &display.rect);
                    put_size(out, display.millimetres);
                }
            }),
            ViewerMessage::RetainedTiles(held) => {
                put_message(out, kind::RETAINED, |out| held.encode_body(out))
            }
            ViewerMessage::Clip(message) => message.encode(out),
            ViewerMessage::File(message) => message.encode(out),
            ViewerMessage::SoundWant(want) => {
                put_message(out, kind::SOUND_WANT, |out| want.encode_body(out))
            }
            ViewerMessage::SoundState(state) => {
                put_message(out, kind::SOUND_STATE, |out| state.encode_body(out))
            }
            ViewerMessage::Microphone(packet) => {
                put_message(out, kind::MIC, |out| packet.encode_body(out))
            }
            ViewerMessage::MicrophoneState(state) => {
                put_message(out, kind::MIC_STATE, |out| state.encode_body(out))
            }
            ViewerMessage::PictureQuality(quality) => {
                put_message(out, kind::QUALITY, |out| out.push(quality.byte()))
            }
            ViewerMessage::ExactFrame => put_message(out, kind::EXACT_FRAME, |_| {}),
            ViewerMessage::Stereo(wanted) => {
                put_message(out, kind::STEREO, |out| out.push(u8::from(*wanted)))
            }
            ViewerMessage::VideoCodecs(codecs) => put_message(out, kind::VIDEO_CODECS, |out| {
                put_varint(out, u64::from(*codecs));
            }),
            ViewerMessage::Share(share) => {
                put_message(out, kind::SHARE, |out| share.encode_body(out))
            }
            ViewerMessage::ClipPolicy(directions) => {
                put_message(out, kind::CLIP_POLICY, |out| out.push(directions.bits()))
            }
            ViewerMessage::Instance(number) => {
                put_message(out, kind::INSTANCE, |out| out.extend_from_slice(number))
            }
            ViewerMessage::Close(reason) => {
                put_message(out, kind::CLOSE, |out| put_text(out, reason, TEXT_BYTES_MAX))
            }
        }
    }

    /// Reads a message of a viewer after authentication.
    pub fn decode(frame: &MessageFrame<'_>) -> Result<ViewerMessage, WireError> {
        let mut reader = Reader::new(frame.body);
        let (message, what) = match frame.kind {
            kind::HELLO => (ViewerMessage::Hello(decode_hello(&mut reader)?), "a viewer's hello"),
            kind::ACK => (ViewerMessage::Ack(decode_ack(&mut reader)?), "an ack"),
            kind::ARRIVED => {
                (ViewerMessage::Arrived(Arrived::decode_body(&mut reader)?), "an arrived")
            }
            kind::EARLY => {
                let offset = reader.varint("an offset in the stream")?;
                let count =
                    reader.at_most("a count of bytes of the stream", EARLY_BYTES_MAX as u64)?;
                let bytes = reader.take("bytes of the stream", count as usize)?.to_vec();
                (ViewerMessage::Early(Early { offset, bytes }), "bytes of the stream")
            }
            kind::INPUT => (ViewerMessage::Input(Input::decode_body(&mut reader)?), "an input"),
            kind::PING => (ViewerMessage::Ping(reader.u32("a ping's number")?), "a ping"),
            kind::RESIZE => (ViewerMessage::Resize(read_size(&mut reader)?), "a resize"),
            kind::BARRIER => {
                (ViewerMessage::Barrier(reader.u32("a barrier's number")?), "a barrier")
            }
            kind::RESYNC => (ViewerMessage::Resync, "a resync"),
            kind::CACHE => {
                let bytes = reader.at_most("a cache's bytes", CACHE_BYTES_MAX)?;
                let (token, update) =
                    (read_cache_token(&mut reader)?, reader.varint("a cache's update")?);
                (ViewerMessage::Cache(CacheOffer { bytes, token, update }), "a cache's offer")
            }
            kind::LAYOUT => {
                (ViewerMessage::KeyboardLayout(decode_layout(&mut reader)?), "a keyboard's layout")
            }
            kind::INSTANCE => {
                let number = reader.take("a viewer's number", INSTANCE_BYTES)?;
                (
                    ViewerMessage::Instance(number.try_into().expect("it has this length")),
                    "a viewer's number",
                )
            }
            kind::CLIP_POLICY => (
                ViewerMessage::ClipPolicy(ClipDirections::decode_body(&mut reader)?),
                "a clipboard's policy",
            ),
            kind::SOUND_WANT => {
                (ViewerMessage::SoundWant(SoundWant::decode_body(&mut reader)?), "a wanted sound")
            }
            kind::SOUND_STATE => (
                ViewerMessage::SoundState(SoundState::decode_body(&mut reader)?),
                "a state of sound",
            ),
            kind::MIC => (
                ViewerMessage::Microphone(MicrophonePacket::decode_body(&mut reader)?),
                "a microphone's sound",
            ),
            kind::MIC_STATE => (
                ViewerMessage::MicrophoneState(MicrophoneState::decode_body(&mut reader)?),
                "a microphone's state",
            ),
            kind::QUALITY => (
                ViewerMessage::PictureQuality(PictureQuality::decode_body(&mut reader)?),
                "a quality of pictures",
            ),
            kind::EXACT_FRAME => (ViewerMessage::ExactFrame, "a request for an exact frame"),
            kind::STEREO => match reader.u8("whether stereo is wanted")? {
                wanted @ 0..=1 => (ViewerMessage::Stereo(wanted == 1), "whether stereo is wanted"),
                other => {
                    return Err(WireError::Unknown {
                        what: "whether stereo is wanted",
                        value: u64::from(other),
                    });
                }
            },
            kind::VIDEO_CODECS => {
                (ViewerMessage::VideoCodecs(reader.u32("a viewer's codecs")?), "a viewer's codecs")
            }
            kind::SHARE => {
                (ViewerMessage::Share(Share::decode_body(&mut reader)?), "a request to share")
            }
            kind::VIDEO => {
                (ViewerMessage::Video(VideoStatus::decode_body(&mut reader)?), "a decoder's state")
            }
            kind::VIEW => {
                let size = read_size(&mut reader)?;
                (ViewerMessage::View(View { size, part: read_part(&mut reader)? }), "a view")
            }
            kind::DISPLAYS => (ViewerMessage::Displays(decode_displays(&mut reader)?), "displays"),
            kind::RETAINED => (
                ViewerMessage::RetainedTiles(RetainedTiles::decode_body(&mut reader)?),
                "retained tiles",
            ),
            clip if ClipMessage::is_kind(clip) => {
                return ClipMessage::decode(frame).map(ViewerMessage::Clip);
            }
            file if FileMessage::is_kind(file) => {
                return FileMessage::decode(frame).map(ViewerMessage::File);
            }
            kind::CLOSE => (
                ViewerMessage::Close(reader.text("a reason", TEXT_BYTES_MAX)?.to_owned()),
                "a viewer's close",
            ),
            other => {
                return Err(WireError::Unknown {
                    what: "a viewer's message of kind",
                    value: u64::from(other),
                });
            }
        };
        reader.end(what)?;
        Ok(message)
    }
}

fn decode_hello(reader: &mut Reader<'_>) -> Result<ViewerHello, WireError> {
    Ok(ViewerHello {
        version: reader.u16("a viewer's version")?,
        caps: reader.u32("a viewer's capabilities")?,
        size: read_size(reader)?,
        message_bytes_max: reader.u32("a viewer's longest message")?,
        name: reader.text("a viewer's name", NAME_BYTES_MAX)?.to_owned(),
    })
}

fn decode_layout(reader: &mut Reader<'_>) -> Result<KeyboardLayout, WireError> {
    let mut name = |what| {
        let name = reader.text(what, LAYOUT_NAME_BYTES_MAX)?;
        // They become arguments and properties of the X server, so no character may be special to a
        // shell or in a path.
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-,:()+".contains(&byte)) {
            return Err(WireError::Outside(what));
        }
        Ok(name.to_owned())
    };
    let mut layout = KeyboardLayout {
        model: name("a keyboard's model")?,
        layout: name("a keyboard's layout")?,
        variant: name("a keyboard's variant")?,
        options: name("a keyboard's options")?,
    };
    // XKB's rules put these names into expressions like `pc+us(intl)+inet(evdev)`. A name that
    // brings such a part itself, or is none of a layout, could map a key that ends the X server: it
    // counts as unknown.
    let is_expression = |name: &str| name.contains([':', '(', ')', '+']);
    let is_no_layout = |name: &str| matches!(name, "terminate" | "srvr_ctrl");
    if is_expression(&layout.layout)
        || is_expression(&layout.variant)
        || layout.layout.split(',').any(is_no_layout)
    {
        layout.layout.clear();
        layout.variant.clear();
    }
    if is_expression(&layout.model) {
        layout.model.clear();
    }
    if layout.options.contains(['(', ')', '+']) {
        layout.options.clear();
    }
    Ok(layout)
}

fn decode_displays(reader: &mut Reader<'_>) -> Result<Displays, WireError> {
    let scale_percent = reader.u16("a display's scale")?;
    let count = reader.at_most("a count of displays", DISPLAYS_MAX as u64)?;
    let mut displays = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let rect = read_part(reader)?;
        if rect.is_empty() {
            return Err(WireError::Outside("a display"));
        }
        displays.push(Display { rect, millimetres: read_size(reader)? });
    }
    Ok(Displays { scale_percent, displays })
}

/// Appends a rectangle of a screen, which may be empty.
pub(crate) fn put_part(out: &mut Vec<u8>, rect: &Rect) {
    for edge in [rect.x1, rect.y1, rect.width(), rect.height()] {
        put_varint(out, edge as u64);
    }
}

pub(crate) fn read_part(reader: &mut Reader<'_>) -> Result<Rect, WireError> {
    let mut edge = |what| reader.at_most(what, u64::from(SCREEN_EDGE_MAX)).map(|edge| edge as i32);
    let (x, y) = (edge("a part's x")?, edge("a part's y")?);
    let (width, height) = (edge("a part's width")?, edge("a part's height")?);
    if width > SCREEN_EDGE_MAX as i32 - x || height > SCREEN_EDGE_MAX as i32 - y {
        return Err(WireError::Outside("a part of a screen"));
    }
    // An empty part decodes to the same rectangle that encoding it again yields.
    Ok(if width == 0 || height == 0 { Rect::at(x, y, 0, 0) } else { Rect::at(x, y, width, height) })
}

fn decode_ack(reader: &mut Reader<'_>) -> Result<Ack, WireError> {
    let update = reader.varint("an ack's update")?;
    let presented = if reader.is_empty() {
        None
    } else {
        let back = reader.varint("an ack's presented update")?;
        let back = (back >> 1) as i64 ^ -((back & 1) as i64);
        Some(Presented {
            update: update.wrapping_sub(back as u64),
            delay_us: reader.u32("a present's delay")?,
        })
    };
    Ok(Ack { update, presented })
}

impl Input {
    /// ```text
    /// 0 KEY UP, 1 KEY DOWN          seq | code varint | keysym varint
    /// 2 MOTION                      seq | x varint | y varint
    /// 3 BUTTON UP, 4 BUTTON DOWN    seq | button u8
    /// 5 SCROLL                      seq | dx zigzag | dy zigzag
    /// 6 TOUCH BEGIN, 7 UPDATE, 8 END    seq | id u8 | x varint | y varint
    /// 9 RELEASE ALL                 seq
    /// 10 CHAR                       seq | character varint
    /// 11 LOCKS                      seq | locks u8
    /// 12 MOTION BY                  seq | dx zigzag | dy zigzag
    /// 13 PEN                        seq | see `PenSample`
    /// ```
    fn encode_body(&self, out: &mut Vec<u8>) {
        let event = match self.event {
            InputEvent::Key { down: false, .. } => event::KEY_UP,
            InputEvent::Key { down: true, .. } => event::KEY_DOWN,
            InputEvent::Motion { .. } => event::MOTION,
            InputEvent::Button { down: false, .. } => event::BUTTON_UP,
            InputEvent::Button { down: true, .. } => event::BUTTON_DOWN,
            InputEvent::Scroll { .. } => event::SCROLL,
            InputEvent::Touch { phase: TouchPhase::Begin, .. } => event::TOUCH_BEGIN,
            InputEvent::Touch { phase: TouchPhase::Update, .. } => event::TOUCH_UPDATE,
            InputEvent::Touch { phase: TouchPhase::End, .. } => event::TOUCH_END,
            InputEvent::ReleaseAll => event::RELEASE_ALL,
            InputEvent::Char(_) => event::CHAR,
            InputEvent::Locks { .. } => event::LOCKS,
            InputEvent::MotionBy { .. } => event::MOTION_BY,
            InputEvent::Pen(_) => event::PEN,
        };
        out.push(event);
        put_varint(out, u64::from(self.seq));
        match self.event {
            InputEvent::Key { code, keysym, .. } => {
                put_varint(out, u64::from(code));
                put_varint(out, u64::from(keysym));
            }
            InputEvent::Motion { x, y } => put_point(out, x, y),
            InputEvent::Button { button, .. } => out.push(button),
            InputEvent::Scroll { dx, dy } | InputEvent::MotionBy { dx, dy } => {
                put_zigzag(out, i64::from(dx));
                put_zigzag(out, i64::from(dy));
            }
            InputEvent::Touch { id, x, y, .. } => {
                out.push(id);
                put_point(out, x, y);
            }
            InputEvent::ReleaseAll => {}
            InputEvent::Char(character) => put_varint(out, u64::from(u32::from(character))),
            InputEvent::Locks { caps, num } => out.push(u8::from(caps) | u8::from(num) << 1),
            InputEvent::Pen(sample) => sample.encode_body(out),
        }
    }

    fn decode_body(reader: &mut Reader<'_>) -> Result<Input, WireError> {
        let event = reader.u8("an input's event")?;
        let seq = reader.u32("an input's number")?;
        let event = match event {
            event::KEY_UP | event::KEY_DOWN => InputEvent::Key {
                code: reader.u16("a key's code")?,
                keysym: reader.u32("a key's keysym")?,
                down: event == event::KEY_DOWN,
            },
            event::MOTION => InputEvent::Motion {
                x: reader.u16("a motion's x")?,
                y: reader.u16("a motion's y")?,
            },
            event::BUTTON_UP | event::BUTTON_DOWN => InputEvent::Button {
                button: reader.u8("a button")?,
                down: event == event::BUTTON_DOWN,
            },
            event::SCROLL => InputEvent::Scroll {
                dx: reader.zigzag16("a scroll's dx")?,
                dy: reader.zigzag16("a scroll's dy")?,
            },
            event::TOUCH_BEGIN | event::TOUCH_UPDATE | event::TOUCH_END => {
                let id = reader.u8("a touch point")?;
                if id >= TOUCH_IDS_MAX {
                    let (value, limit) = (u64::from(id), u64::from(TOUCH_IDS_MAX - 1));
                    return Err(WireError::OverLimit { what: "a touch point", value, limit });
                }
                let phase = match event {
                    event::TOUCH_BEGIN => TouchPhase::Begin,
                    event::TOUCH_UPDATE => TouchPhase::Update,
                    _ => TouchPhase::End,
                };
                InputEvent::Touch {
                    id,
                    phase,
                    x: reader.u16("a touch's x")?,
                    y: reader.u16("a touch's y")?,
                }
            }
            event::RELEASE_ALL => InputEvent::ReleaseAll,
            event::CHAR => {
                let value = reader.u32("a character")?;
                let unknown = WireError::Unknown { what: "a character", value: u64::from(value) };
                InputEvent::Char(char::from_u32(value).ok_or(unknown)?)
            }
            event::LOCKS => match reader.u8("locks")? {
                locks @ 0..=3 => InputEvent::Locks { caps: locks & 1 != 0, num: locks & 2 != 0 },
                other => return Err(WireError::Unknown { what: "locks", value: u64::from(other) }),
            },
            event::MOTION_BY => InputEvent::MotionBy {
                dx: reader.zigzag16("a motion's dx")?,
                dy: reader.zigzag16("a motion's dy")?,
            },
            event::PEN => InputEvent::Pen(PenSample::decode_body(reader)?),
            other => {
                return Err(WireError::Unknown {
                    what: "an input's event",
                    value: u64::from(other),
                });
            }
        };
        Ok(Input { seq, event })
    }
}

fn put_point(out: &mut Vec<u8>, x: u16, y: u16) {
    put_varint(out, u64::from(x));
    put_varint(out, u64::from(y));
}

/// Reads the token of a cache.
pub(crate) fn read_cache_token(
    reader: &mut Reader<'_>,
) -> Result<[u8; CACHE_TOKEN_BYTES], WireError> {
    let bytes = reader.take("a cache's token", CACHE_TOKEN_BYTES)?;
    Ok(bytes.try_into().expect("as many bytes were taken as a token has"))
}

/// Appends a size as two varints.
pub(crate) fn put_size(out: &mut Vec<u8>, size: Size) {
    put_varint(out, u64::from(size.width));
    put_varint(out, u64::from(size.height));
}

/// Reads a size within the limits of a screen; the message defines what 0 means.
pub(crate) fn read_size(reader: &mut Reader<'_>) -> Result<Size, WireError> {
    let edge = u64::from(SCREEN_EDGE_MAX);
    let width = reader.at_most("a width", edge)? as u32;
    let height = reader.at_most("a height", edge)? as u32;
    let size = Size { width, height };
    if size.area() > SCREEN_AREA_MAX {
        return Err(WireError::OverLimit {
            what: "a screen's area",
            value: size.area(),
            limit: SCREEN_AREA_MAX,
        });
    }
    Ok(size)
}
