//! Path back: from a viewer's menu, to session-core's quality/choice.rs.
//! How good pictures are that move, as the person at one viewer has chosen. Knows choices and their
//! bytes; never what a codec makes of them.

use crate::wire::{Reader, WireError};

/// How good what moves is, and photographs that the path would take long for. All else is always
/// lossless, and so is all of it as soon as it rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PictureQuality {
    /// As the path allows.
    #[default]
    Auto,
    /// Lossless, at as many frames a second as the path carries.
    Exact,
    /// JPEG of 4:4:4 at quality 95; of videos, H.264 at all of the bits that one sees.
    High,
    /// JPEG of 4:2:2 at quality 80, or H.264 at two fifths of those bits.
    Medium,
    /// JPEG of 4:2:0 at quality 30, or H.264 at a seventh of those bits.
    Low,
}

impl PictureQuality {
    /// Every choice, in the order of menus; its place is its byte in messages.
    pub const ALL: [PictureQuality; 5] = [
        PictureQuality::Auto,
        PictureQuality::Exact,
        PictureQuality::High,
        PictureQuality::Medium,
        PictureQuality::Low,
    ];

    /// ```text
    /// choice u8 (0 auto, 1 exact, 2 high, 3 medium, 4 low)
    /// ```
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The choice of this byte; none if there are fewer.
    pub fn of_byte(byte: u8) -> Option<PictureQuality> {
        PictureQuality::ALL.get(usize::from(byte)).copied()
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<PictureQuality, WireError> {
        let byte = reader.u8("a quality of pictures")?;
        let unknown = WireError::Unknown { what: "a quality of pictures", value: u64::from(byte) };
        PictureQuality::of_byte(byte).ok_or(unknown)
    }
}
