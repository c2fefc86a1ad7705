//! Path back: from a viewer's pen, to session-core's input.
//! What a pen does at one instant, and its bytes. Every sample that the tablet reports is one
//! input, so that a stroke is as smooth as it was drawn. Knows fields and limits; never devices.

use crate::limits::SCREEN_EDGE_MAX;
use crate::wire::{Reader, WireError, put_varint};

/// Parts of a pixel of the session's screen in a pen's position: tablets are finer than screens.
pub const PEN_FRACTION: u32 = 64;
/// Degrees from upright: flat on the tablet.
pub const PEN_TILT_MAX: i8 = 90;

const BUTTONS: u8 = 7;
const NEAR: u8 = 8;
const ERASER: u8 = 16;

/// One sample of a pen; the session has one, with two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PenSample {
    /// From the left, in 1/64 of a pixel of the session's screen.
    pub x: u32,
    /// From the top, likewise.
    pub y: u32,
    /// 0 to 65535, the most that the pen measures.
    pub pressure: u16,
    /// Degrees from upright, positive to the right.
    pub tilt_x: i8,
    /// Degrees from upright, positive towards the user.
    pub tilt_y: i8,
    /// Bit 0: the tip touches, as X button 1; bits 1 and 2: the barrel's buttons, as X buttons 2
    /// and 3.
    pub buttons: u8,
    /// It is the end that erases.
    pub eraser: bool,
    /// The pen is near enough to be seen. Otherwise it has left, and no button is pressed.
    pub near: bool,
}

impl PenSample {
    /// The pen as it leaves from here.
    pub fn leaving(self) -> PenSample {
        PenSample { pressure: 0, buttons: 0, near: false, ..self }
    }

    /// It presses, releases and is the same as the other one; only its position, pressure and tilt
    /// may differ.
    pub fn has_state_of(&self, other: &PenSample) -> bool {
        (self.buttons, self.eraser, self.near) == (other.buttons, other.eraser, other.near)
    }

    /// The pixel that it is over.
    pub fn pixel(&self) -> (u16, u16) {
        let pixel = |at: u32| u16::try_from(at / PEN_FRACTION).unwrap_or(u16::MAX);
        (pixel(self.x), pixel(self.y))
    }

    /// ```text
    /// state u8 (1 tip, 2 X button 2, 4 X button 3, 8 near, 16 eraser) | x varint | y varint |
    /// pressure varint | tilt x i8 | tilt y i8
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        let (near, eraser) = (u8::from(self.near) * NEAR, u8::from(self.eraser) * ERASER);
        out.push(self.buttons & BUTTONS | near | eraser);
        put_varint(out, u64::from(self.x));
        put_varint(out, u64::from(self.y));
        put_varint(out, u64::from(self.pressure));
        out.extend([self.tilt_x, self.tilt_y].map(i8::cast_unsigned));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<PenSample, WireError> {
        let state = reader.u8("a pen's state")?;
        let (buttons, near) = (state & BUTTONS, state & NEAR != 0);
        if state & !(BUTTONS | NEAR | ERASER) != 0 || buttons != 0 && !near {
            return Err(WireError::Unknown { what: "a pen's state", value: u64::from(state) });
        }
        let edge = u64::from(SCREEN_EDGE_MAX * PEN_FRACTION);
        let tilt = |reader: &mut Reader<'_>| {
            let degrees = reader.u8("a pen's tilt")?.cast_signed();
            let valid = (-PEN_TILT_MAX..=PEN_TILT_MAX).contains(&degrees);
            valid.then_some(degrees).ok_or(WireError::Outside("a pen's tilt"))
        };
        Ok(PenSample {
            x: reader.at_most("a pen's x", edge)? as u32,
            y: reader.at_most("a pen's y", edge)? as u32,
            pressure: reader.u16("a pen's pressure")?,
            tilt_x: tilt(reader)?,
            tilt_y: tilt(reader)?,
            buttons,
            eraser: state & ERASER != 0,
            near,
        })
    }
}
