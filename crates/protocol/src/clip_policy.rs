//! Beside the path, in both directions: in which directions the clipboard is shared with the
//! viewers of a session's owner, as they have chosen. From a viewer's menu to the session, which
//! keeps and enforces it, and to all viewers of the owner's. Knows bits; never contents.

use crate::wire::{Reader, WireError};

/// Directions of copying and pasting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipDirections {
    /// The session takes what is copied at the viewer.
    pub to_session: bool,
    /// The viewer is offered what is copied in the session.
    pub to_viewer: bool,
}

impl ClipDirections {
    /// ```text
    /// bits u8 (1 to the session, 2 to the viewer)
    /// ```
    pub fn bits(self) -> u8 {
        u8::from(self.to_session) | u8::from(self.to_viewer) << 1
    }

    /// The directions of these bits; none if there are others.
    pub fn of_bits(bits: u8) -> Option<ClipDirections> {
        (bits <= 3)
            .then_some(ClipDirections { to_session: bits & 1 != 0, to_viewer: bits & 2 != 0 })
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<ClipDirections, WireError> {
        let bits = reader.u8("directions of the clipboard")?;
        let unknown =
            WireError::Unknown { what: "directions of the clipboard", value: u64::from(bits) };
        ClipDirections::of_bits(bits).ok_or(unknown)
    }
}
