//! Path back: from session-core's input.rs, to driver/src/input.c.
//! Each packet is one message, on a socket that X's input thread reads: keys and clicks keep their
//! order. Knows X keycodes and screen pixels; never layouts.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::SendFlags;

/// User input in screen pixels and X keycodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMessage {
    /// The pointer moved to this position.
    PointerMove {
        /// Identifies this input in `InputDelivered`.
        seq: u32,
        /// Screen pixel.
        x: i32,
        /// Screen pixel.
        y: i32,
    },
    /// The user moved the pointer this far, from wherever it is.
    PointerMoveBy {
        /// Names this input.
        seq: u32,
        /// Screen pixels, right is positive.
        dx: i32,
        /// Screen pixels, down is positive.
        dy: i32,
    },
    /// A button: 1 left, 2 middle, 3 right, 8 back, 9 forward.
    Button {
        /// Names this input.
        seq: u32,
        /// 1 to 32; use `Scroll` instead of 4 to 7, the wheel.
        button: u8,
        /// Pressed or released.
        down: bool,
    },
    /// The wheel, or a scroll gesture.
    Scroll {
        /// Names this input.
        seq: u32,
        /// 1/120 of a notch, right is positive.
        dx: i32,
        /// 1/120 of a notch, down is positive.
        dy: i32,
    },
    /// A key.
    Key {
        /// Names this input.
        seq: u32,
        /// X keycode: evdev's plus 8.
        keycode: u8,
        /// Pressed or released.
        down: bool,
    },
    /// The viewer that pressed this key still holds it. X repeats a key for 300 ms after this or
    /// its press.
    StillHeld {
        /// X keycode.
        keycode: u8,
    },
    /// A finger on a touch screen.
    Touch {
        /// Names this input.
        seq: u32,
        /// Identifies the finger while it touches.
        id: u32,
        /// Phase of the touch.
        phase: TouchPhase,
        /// Screen pixel.
        x: i32,
        /// Screen pixel.
        y: i32,
    },
    /// One sample of the pen.
    Pen {
        /// Names this input; a press of the tip or a button is delivered under it.
        seq: u32,
        /// The sample.
        sample: PenSample,
    },
    /// Releases all keys, buttons and touches; the pen leaves.
    ReleaseAll {
        /// Names this input.
        seq: u32,
    },
}

/// Parts of a screen pixel in a pen's position.
pub const PEN_FRACTION: u32 = 64;

/// What a pen does at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PenSample {
    /// 1/64 of a screen pixel.
    pub x: u32,
    /// 1/64 of a screen pixel.
    pub y: u32,
    /// 0 to 65535, the most that the pen measures.
    pub pressure: u16,
    /// Degrees from upright, positive to the right.
    pub tilt_x: i8,
    /// Degrees from upright, positive towards the user.
    pub tilt_y: i8,
    /// Bit 0: the tip touches, X button 1; bits 1 and 2: X buttons 2 and 3.
    pub buttons: u8,
    /// It is the other end of the pen.
    pub eraser: bool,
    /// It is near enough to be seen; otherwise it has left.
    pub near: bool,
}

/// Phase of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchPhase {
    /// The finger touches the screen.
    Begin,
    /// It moves.
    Update,
    /// It is lifted.
    End,
}

impl InputMessage {
    /// `struct thinc_input`.
    fn bytes(self) -> [u8; 32] {
        let (kind, seq, code, state, x, y) = match self {
            InputMessage::PointerMove { seq, x, y } => (1, seq, 0, 0, x, y),
            InputMessage::Button { seq, button, down } => {
                (2, seq, u32::from(button), u32::from(down), 0, 0)
            }
            InputMessage::Scroll { seq, dx, dy } => (3, seq, 0, 0, dx, dy),
            InputMessage::Key { seq, keycode, down } => {
                (4, seq, u32::from(keycode), u32::from(down), 0, 0)
            }
            InputMessage::StillHeld { keycode } => (4, 0, u32::from(keycode), 2, 0, 0),
            InputMessage::Touch { seq, id, phase, x, y } => {
                let state = match phase {
                    TouchPhase::End => 0,
                    TouchPhase::Begin => 1,
                    TouchPhase::Update => 2,
                };
                (5, seq, id, state, x, y)
            }
            InputMessage::ReleaseAll { seq } => (6, seq, 0, 0, 0, 0),
            InputMessage::PointerMoveBy { seq, dx, dy } => (7, seq, 0, 0, dx, dy),
            InputMessage::Pen { seq, sample } => return pen_bytes(seq, sample),
        };
        packet([kind, seq, code, state, x.cast_unsigned(), y.cast_unsigned(), 0, 0])
    }
}

fn pen_bytes(seq: u32, pen: PenSample) -> [u8; 32] {
    let state = u32::from(pen.buttons & 7) | u32::from(pen.near) << 3 | u32::from(pen.eraser) << 4;
    let half = |tilt: i8| u32::from(i16::from(tilt).cast_unsigned());
    let tilt = half(pen.tilt_x) | half(pen.tilt_y) << 16;
    packet([8, seq, 0, state, pen.x, pen.y, u32::from(pen.pressure), tilt])
}

fn packet(words: [u32; 8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (slot, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *slot = word.to_le_bytes();
    }
    out
}

/// The session's end of the input socket.
#[derive(Debug)]
pub struct InputSender {
    socket: OwnedFd,
}

impl InputSender {
    pub(crate) fn new(socket: OwnedFd) -> InputSender {
        InputSender { socket }
    }

    /// Sends without waiting. `WouldBlock`: the socket is full; motion may then be dropped, any
    /// other message must be sent again when [`InputSender::fd`] is writable. `BrokenPipe`: X
    /// ended, or another session attached.
    pub fn send(&self, message: InputMessage) -> io::Result<()> {
        rustix::net::send(
            &self.socket,
            &message.bytes(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Writable once the socket has room.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
