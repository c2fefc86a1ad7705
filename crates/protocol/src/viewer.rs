//! Messages from a viewer to a session.
//! Path back: from the viewer's window, to session-core/input.rs.

use thinc_region::Size;

/// Everything a viewer may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerMessage {
    /// First message after authentication.
    Hello(ViewerHello),
    /// An update was applied.
    Ack(Ack),
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
    /// The viewer ends the connection, and why in words.
    Close(String),
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

/// Bits of `ViewerHello::caps`.
pub struct ViewerCaps;

impl ViewerCaps {
    /// May control the session's size.
    pub const RESIZE: u32 = 1 << 0;
    /// Draws the cursor itself.
    pub const LOCAL_CURSOR: u32 = 1 << 1;
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

/// One input event with its number; numbers grow by one from 1 and wrap.
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
