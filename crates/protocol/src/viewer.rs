//! Path back: from the viewer's window through viewer-core and transport, to session-core/input.rs.
//! Messages from a viewer to a session, and their bytes.
//! Knows fields and limits; never what a session does with them.

use thinc_region::{Rect, Size};

use crate::arrived::Arrived;
use crate::clip::ClipMessage;
use crate::frame::{Frame, put_frame};
use crate::held::Held;
use crate::limits::{
    CACHE_BYTES_MAX, CACHE_TOKEN_BYTES, DISPLAYS_MAX, EARLY_BYTES_MAX, INSTANCE_BYTES, LAYOUT_NAME_BYTES_MAX,
    NAME_BYTES_MAX, SCREEN_AREA_MAX, SCREEN_EDGE_MAX, TEXT_BYTES_MAX, TOUCH_IDS_MAX,
};
use crate::video::VideoState;
use crate::wire::{Reader, WireError, put_text, put_varint, put_zigzag};

/// Everything a viewer may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerMessage {
    /// First message after authentication.
    Hello(ViewerHello),
    /// An update was applied.
    Ack(Ack),
    /// What became of updates, where some of them go alone; in place of `Ack`, but for what that says of presenting.
    Arrived(Arrived),
    /// Some of this stream, beside it; never on it.
    Early(Early),
    /// A key, button, motion, scroll or touch.
    Input(Input),
    /// Asks for a `Pong` with the same number.
    Ping(u32),
    /// The controlling viewer's window has this size now; the session resizes to it.
    Resize(Size),
    /// Asks to be told when everything drawn until now has been sent.
    Barrier(u32),
    /// The viewer lacks these pixels (it dropped an update, or was reset) and wants what is there now.
    Refresh,
    /// Offers memory for pixels that are to be shown again; once, after the hello.
    Cache(CacheOffer),
    /// The viewer's keyboard is laid out like this, where the viewer knows.
    Layout(Layout),
    /// Which viewer this is, on whatever connection: a number that nobody can guess. An older connection of it is over.
    Instance([u8; INSTANCE_BYTES]),
    /// How its decoder for a stream of video stands.
    Video(VideoState),
    /// What it wants to be sent of the screen, and how large.
    View(View),
    /// Its displays, for a session whose size it controls: the screen becomes all of them. Says more than `Resize`.
    Displays(Displays),
    /// What it still shows of an earlier connection; once, where its hello says that this follows.
    Held(Held),
    /// Something about the clipboard.
    Clip(ClipMessage),
    /// The viewer ends the connection, and why in words.
    Close(String),
}

/// Bytes of the viewer's stream, which may come before it brings them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Early {
    /// How many of the stream go before them; its first is the hello's.
    pub offset: u64,
    /// `EARLY_BYTES_MAX` at most, from anywhere to anywhere in a frame.
    pub bytes: Vec<u8>,
}

/// What a viewer shows: a part of the screen, made to fit. The session scales, so that a small window costs a small window's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The viewer's picture in its own pixels; 0 × 0: all of the screen, at its own size.
    pub size: Size,
    /// The part of the screen, in the screen's pixels, cut to the screen; empty: all of it.
    pub part: Rect,
}

/// The displays of a viewer that controls the session's size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Displays {
    /// How large things are to be drawn, in percent; 100 is 96 dots an inch.
    pub scale_percent: u16,
    /// In the order of their importance: the first is the primary one. At most `DISPLAYS_MAX`.
    pub displays: Vec<Display>,
}

/// One display, or a window that stands for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Display {
    /// Where it lies among the others, in the screen's pixels; x and y are 0 or more.
    pub rect: Rect,
    /// Its size in millimetres, 0 × 0 where that is not known.
    pub millimetres: Size,
}

/// A keyboard's layout as X's rules name it (`setxkbmap -layout us,de -variant ,nodeadkeys`); lists go by commas, and
/// what is empty is not said. Letters, digits and `_-,:()+` only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `pc105`, …
    pub model: String,
    /// `us`, `de,us`, …
    pub layout: String,
    /// `nodeadkeys`, …; as many as layouts.
    pub variant: String,
    /// `compose:caps`, …
    pub options: String,
}

/// Who the viewer is and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerHello {
    /// Highest protocol version it speaks.
    pub version: u16,
    /// Bits of [`ViewerCaps`].
    pub caps: u32,
    /// Size of its window in pixels; 0 × 0: keep the session's size.
    pub size: Size,
    /// Longest frame it takes, in bytes.
    pub frame_bytes_max: u32,
    /// Name and version of the program, for logs; at most 64 bytes.
    pub name: String,
}

/// Memory for pixels that are to be shown again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOffer {
    /// Most bytes the viewer keeps, counted as 4 a pixel; 0 for none.
    pub bytes: u64,
    /// Names what it holds already, as the session named it; zeros for nothing.
    pub token: [u8; CACHE_TOKEN_BYTES],
    /// What it holds is what it held after this update of the connection that the token is from.
    pub update: u64,
}

/// Bits of `ViewerHello::caps`.
pub struct ViewerCaps;

impl ViewerCaps {
    /// May control the session's size.
    pub const RESIZE: u32 = 1 << 0;
    /// Draws the cursor itself.
    pub const LOCAL_CURSOR: u32 = 1 << 1;
    /// Takes packed updates.
    pub const PACKED: u32 = 1 << 2;
    /// Takes RAWs that are not exact yet (`Encoding::Jpeg`).
    pub const LOSSY: u32 = 1 << 3;
    /// Takes the session's clipboard: wants its offers.
    pub const CLIPBOARD: u32 = 1 << 4;
    /// Takes streams of video of plain samples.
    pub const VIDEO: u32 = 1 << 5;
    /// Takes streams of video in H.264 too; only with `VIDEO`.
    pub const H264: u32 = 1 << 6;
    /// Shows something of an earlier connection still, and says what: nothing but the session's hello is sent before that.
    pub const HELD: u32 = 1 << 8;
    /// Says which viewer it is, goes on counting its input from connection to connection, and is told what was taken of it.
    pub const TYPED: u32 = 1 << 9;
    /// Takes updates that come alone, as datagrams, in any order, and of which some are lost.
    pub const ALONE: u32 = 1 << 7;
}

/// Which updates are on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Number of the newest update such that it and all before it have been applied.
    pub update: u64,
    /// Update most recently shown to the person, and how long after it was received, where known (hidden tabs show nothing).
    pub presented: Option<Presented>,
}

/// A fact apart from applying: what was shown, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presented {
    /// Number of the newest update that was on screen.
    pub update: u64,
    /// Microseconds from its receipt to its present.
    pub delay_us: u32,
}

/// One input event with its number; numbers grow from 1 and wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Number, for `echo`.
    pub seq: u32,
    /// What happened.
    pub event: InputEvent,
}

/// What happened at the viewer; positions are pixels of the session's screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEvent {
    /// A key: physical place and meaning.
    Key {
        /// evdev key code (`KEY_*` of linux/input-event-codes.h), 0 when unknown.
        code: u16,
        /// X keysym the viewer's layout gives it, 0 when unknown.
        keysym: u32,
        /// Pressed or released; a repeat is the server's work and is not sent.
        down: bool,
    },
    /// The pointer is here now.
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
    /// Smooth scroll in 1/120 of a wheel notch; positive is right and down.
    Scroll {
        /// Horizontal.
        dx: i16,
        /// Vertical.
        dy: i16,
    },
    /// A finger.
    Touch {
        /// Which finger, 0 to 15.
        id: u8,
        /// What it did.
        phase: TouchPhase,
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// The viewer lost the keyboard: nothing is held any more.
    ReleaseAll,
    /// A character that an input method, a dead key or a screen's keyboard made: no key is held for it.
    Char(char),
    /// The lock keys of the viewer's keyboard are like this.
    Locks {
        /// Caps Lock.
        caps: bool,
        /// Num Lock.
        num: bool,
    },
}

/// What a finger did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchPhase {
    /// It touched.
    Begin,
    /// It moved.
    Update,
    /// It left.
    End,
}

/// Kinds of a viewer's frames; 0x01 is `Auth`.
mod kind {
    pub(super) const HELLO: u8 = 0x02;
    pub(super) const ACK: u8 = 0x03;
    pub(super) const INPUT: u8 = 0x04;
    pub(super) const PING: u8 = 0x05;
    pub(super) const RESIZE: u8 = 0x06;
    pub(super) const BARRIER: u8 = 0x07;
    pub(super) const REFRESH: u8 = 0x08;
    pub(super) const CLOSE: u8 = 0x09;
    pub(super) const CACHE: u8 = 0x0a;
    pub(super) const LAYOUT: u8 = 0x0b;
    pub(super) const INSTANCE: u8 = 0x0c;
    pub(super) const VIDEO: u8 = 0x0d;
    pub(super) const VIEW: u8 = 0x0e;
    pub(super) const DISPLAYS: u8 = 0x0f;
    pub(super) const HELD: u8 = 0x16;
    pub(super) const EARLY: u8 = 0x17;
    pub(super) const ARRIVED: u8 = 0x15;
}

/// What happened, first byte of an input's body; what has two states has two numbers.
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
}

impl ViewerMessage {
    /// Appends the frame.
    ///
    /// ```text
    /// 0x02 HELLO    version varint | caps varint | width varint | height varint | frame_bytes_max varint | name text
    /// 0x03 ACK      update varint [ | update − presented zigzag | delay_us varint ]
    /// 0x04 INPUT    event u8 | seq varint | fields, see `Input`
    /// 0x05 PING     number varint
    /// 0x06 RESIZE   width varint | height varint
    /// 0x07 BARRIER  number varint
    /// 0x08 REFRESH
    /// 0x09 CLOSE    reason text
    /// 0x0a CACHE    bytes varint | token 16 bytes | update varint
    /// 0x0b LAYOUT   model text | layout text | variant text | options text
    /// 0x0c INSTANCE number 16 bytes
    /// 0x0d VIDEO    id varint | readiness u8
    /// 0x0e VIEW     width varint | height varint | x varint | y varint | width varint | height varint
    /// 0x0f DISPLAYS scale varint | count varint | for each: x | y | width | height | mm width | mm height, all varint
    /// 0x10 to 0x14  see `ClipMessage::encode`
    /// 0x16 HELD     width | height | x | y | part width | part height, all varint | edge u8 | key 32 bytes | hashes, 8 bytes each
    /// 0x15 ARRIVED  see `Arrived`
    /// 0x17 EARLY    offset varint64 | count varint | bytes
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ViewerMessage::Hello(hello) => put_frame(out, kind::HELLO, |out| {
                put_varint(out, u64::from(hello.version));
                put_varint(out, u64::from(hello.caps));
                put_size(out, hello.size);
                put_varint(out, u64::from(hello.frame_bytes_max));
                put_text(out, &hello.name, NAME_BYTES_MAX);
            }),
            ViewerMessage::Ack(ack) => put_frame(out, kind::ACK, |out| {
                put_varint(out, ack.update);
                if let Some(presented) = ack.presented {
                    put_zigzag(out, ack.update.wrapping_sub(presented.update) as i64);
                    put_varint(out, u64::from(presented.delay_us));
                }
            }),
            ViewerMessage::Arrived(arrived) => put_frame(out, kind::ARRIVED, |out| arrived.encode_body(out)),
            ViewerMessage::Early(early) => put_frame(out, kind::EARLY, |out| {
                put_varint(out, early.offset);
                put_varint(out, early.bytes.len() as u64);
                out.extend_from_slice(&early.bytes);
            }),
            ViewerMessage::Input(input) => put_frame(out, kind::INPUT, |out| input.encode_body(out)),
            ViewerMessage::Ping(number) => put_frame(out, kind::PING, |out| put_varint(out, u64::from(*number))),
            ViewerMessage::Resize(size) => put_frame(out, kind::RESIZE, |out| put_size(out, *size)),
            ViewerMessage::Barrier(number) => put_frame(out, kind::BARRIER, |out| put_varint(out, u64::from(*number))),
            ViewerMessage::Refresh => put_frame(out, kind::REFRESH, |_| {}),
            ViewerMessage::Cache(offer) => put_frame(out, kind::CACHE, |out| {
                put_varint(out, offer.bytes);
                out.extend_from_slice(&offer.token);
                put_varint(out, offer.update);
            }),
            ViewerMessage::Layout(layout) => put_frame(out, kind::LAYOUT, |out| {
                for name in [&layout.model, &layout.layout, &layout.variant, &layout.options] {
                    put_text(out, name, LAYOUT_NAME_BYTES_MAX);
                }
            }),
            ViewerMessage::Video(state) => put_frame(out, kind::VIDEO, |out| state.encode_body(out)),
            ViewerMessage::View(view) => put_frame(out, kind::VIEW, |out| {
                put_size(out, view.size);
                put_part(out, &view.part);
            }),
            ViewerMessage::Displays(displays) => put_frame(out, kind::DISPLAYS, |out| {
                put_varint(out, u64::from(displays.scale_percent));
                put_varint(out, displays.displays.len() as u64);
                for display in &displays.displays {
                    put_part(out, &display.rect);
                    put_size(out, display.millimetres);
                }
            }),
            ViewerMessage::Held(held) => put_frame(out, kind::HELD, |out| held.encode_body(out)),
            ViewerMessage::Clip(message) => message.encode(out),
            ViewerMessage::Instance(number) => put_frame(out, kind::INSTANCE, |out| out.extend_from_slice(number)),
            ViewerMessage::Close(reason) => put_frame(out, kind::CLOSE, |out| put_text(out, reason, TEXT_BYTES_MAX)),
        }
    }

    /// Reads a frame that came from a viewer after authentication.
    pub fn decode(frame: &Frame<'_>) -> Result<ViewerMessage, WireError> {
        let mut reader = Reader::new(frame.body);
        let (message, what) = match frame.kind {
            kind::HELLO => (ViewerMessage::Hello(decode_hello(&mut reader)?), "a viewer's hello"),
            kind::ACK => (ViewerMessage::Ack(decode_ack(&mut reader)?), "an ack"),
            kind::ARRIVED => (ViewerMessage::Arrived(Arrived::decode_body(&mut reader)?), "what has arrived"),
            kind::EARLY => {
                let offset = reader.varint("an offset in the stream")?;
                let count = reader.at_most("a count of bytes of the stream", EARLY_BYTES_MAX as u64)?;
                let bytes = reader.take("bytes of the stream", count as usize)?.to_vec();
                (ViewerMessage::Early(Early { offset, bytes }), "bytes of the stream")
            }
            kind::INPUT => (ViewerMessage::Input(Input::decode_body(&mut reader)?), "an input"),
            kind::PING => (ViewerMessage::Ping(reader.u32("a ping's number")?), "a ping"),
            kind::RESIZE => (ViewerMessage::Resize(read_size(&mut reader)?), "a resize"),
            kind::BARRIER => (ViewerMessage::Barrier(reader.u32("a barrier's number")?), "a barrier"),
            kind::REFRESH => (ViewerMessage::Refresh, "a refresh"),
            kind::CACHE => {
                let bytes = reader.at_most("a cache's bytes", CACHE_BYTES_MAX)?;
                let (token, update) = (read_cache_token(&mut reader)?, reader.varint("a cache's update")?);
                (ViewerMessage::Cache(CacheOffer { bytes, token, update }), "a cache's offer")
            }
            kind::LAYOUT => (ViewerMessage::Layout(decode_layout(&mut reader)?), "a keyboard's layout"),
            kind::INSTANCE => {
                let number = reader.take("a viewer's number", INSTANCE_BYTES)?;
                (ViewerMessage::Instance(number.try_into().expect("it has this length")), "a viewer's number")
            }
            kind::VIDEO => (ViewerMessage::Video(VideoState::decode_body(&mut reader)?), "a stream's state"),
            kind::VIEW => {
                let size = read_size(&mut reader)?;
                (ViewerMessage::View(View { size, part: read_part(&mut reader)? }), "a view")
            }
            kind::DISPLAYS => (ViewerMessage::Displays(decode_displays(&mut reader)?), "displays"),
            kind::HELD => (ViewerMessage::Held(Held::decode_body(&mut reader)?), "what a viewer holds"),
            clip if ClipMessage::is_kind(clip) => return ClipMessage::decode(frame).map(ViewerMessage::Clip),
            kind::CLOSE => {
                (ViewerMessage::Close(reader.text("a reason", TEXT_BYTES_MAX)?.to_owned()), "a viewer's close")
            }
            other => return Err(WireError::Unknown { what: "a viewer's frame of kind", value: u64::from(other) }),
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
        frame_bytes_max: reader.u32("a viewer's longest frame")?,
        name: reader.text("a viewer's name", NAME_BYTES_MAX)?.to_owned(),
    })
}

fn decode_layout(reader: &mut Reader<'_>) -> Result<Layout, WireError> {
    let mut name = |what| {
        let name = reader.text(what, LAYOUT_NAME_BYTES_MAX)?;
        // They become arguments and properties of the X server's: nothing in them may mean anything to a shell or a path.
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-,:()+".contains(&byte)) {
            return Err(WireError::Outside(what));
        }
        Ok(name.to_owned())
    };
    Ok(Layout {
        model: name("a keyboard's model")?,
        layout: name("a keyboard's layout")?,
        variant: name("a keyboard's variant")?,
        options: name("a keyboard's options")?,
    })
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

/// A rectangle of a screen, which may be empty.
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
    // Every empty part is the same one, as it is when it is said again.
    Ok(if width == 0 || height == 0 { Rect::at(x, y, 0, 0) } else { Rect::at(x, y, width, height) })
}

fn decode_ack(reader: &mut Reader<'_>) -> Result<Ack, WireError> {
    let update = reader.varint("an ack's update")?;
    let presented = if reader.is_empty() {
        None
    } else {
        let back = reader.varint("an ack's presented update")?;
        let back = (back >> 1) as i64 ^ -((back & 1) as i64);
        Some(Presented { update: update.wrapping_sub(back as u64), delay_us: reader.u32("a present's delay")? })
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
            InputEvent::Scroll { dx, dy } => {
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
            event::MOTION => InputEvent::Motion { x: reader.u16("a motion's x")?, y: reader.u16("a motion's y")? },
            event::BUTTON_UP | event::BUTTON_DOWN => {
                InputEvent::Button { button: reader.u8("a button")?, down: event == event::BUTTON_DOWN }
            }
            event::SCROLL => {
                InputEvent::Scroll { dx: reader.zigzag16("a scroll's dx")?, dy: reader.zigzag16("a scroll's dy")? }
            }
            event::TOUCH_BEGIN | event::TOUCH_UPDATE | event::TOUCH_END => {
                let id = reader.u8("a finger")?;
                if id >= TOUCH_IDS_MAX {
                    let (value, limit) = (u64::from(id), u64::from(TOUCH_IDS_MAX - 1));
                    return Err(WireError::TooMuch { what: "a finger", value, limit });
                }
                let phase = match event {
                    event::TOUCH_BEGIN => TouchPhase::Begin,
                    event::TOUCH_UPDATE => TouchPhase::Update,
                    _ => TouchPhase::End,
                };
                InputEvent::Touch { id, phase, x: reader.u16("a touch's x")?, y: reader.u16("a touch's y")? }
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
            other => return Err(WireError::Unknown { what: "an input's event", value: u64::from(other) }),
        };
        Ok(Input { seq, event })
    }
}

fn put_point(out: &mut Vec<u8>, x: u16, y: u16) {
    put_varint(out, u64::from(x));
    put_varint(out, u64::from(y));
}

/// A token of a cache, as its bytes.
pub(crate) fn read_cache_token(reader: &mut Reader<'_>) -> Result<[u8; CACHE_TOKEN_BYTES], WireError> {
    let bytes = reader.take("a cache's token", CACHE_TOKEN_BYTES)?;
    Ok(bytes.try_into().expect("as many bytes were taken as a token has"))
}

/// A size as two varints.
pub(crate) fn put_size(out: &mut Vec<u8>, size: Size) {
    put_varint(out, u64::from(size.width));
    put_varint(out, u64::from(size.height));
}

/// A size within the limits of a screen; 0 is allowed here and means what the message says.
pub(crate) fn read_size(reader: &mut Reader<'_>) -> Result<Size, WireError> {
    let edge = u64::from(SCREEN_EDGE_MAX);
    let width = reader.at_most("a width", edge)? as u32;
    let height = reader.at_most("a height", edge)? as u32;
    let size = Size { width, height };
    if size.area() > SCREEN_AREA_MAX {
        return Err(WireError::TooMuch { what: "a screen's area", value: size.area(), limit: SCREEN_AREA_MAX });
    }
    Ok(size)
}
