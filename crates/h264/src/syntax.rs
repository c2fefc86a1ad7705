//! Beside decoder.rs: checks an access unit before the library, which is not memory-safe, reads it;
//! and for viewer-native before a GPU's driver or FFmpeg does.
//! Accepts only what the protocol allows: constrained baseline, or High 4:4:4 Predictive with 8
//! bits, at the stream's size.
//! Knows headers and parameter sets; never the contents of slices (ITU-T H.264, 7.3 and Annex B).

use thinc_region::Size;

use crate::decoder::DecodeError;

/// 64 units of one frame; in a session's frames a slice has at least a row of macroblocks.
const UNITS_MAX: usize = 64;
/// 4 reference frames: more than any encoder here uses; each takes the memory of a frame.
const REFERENCES_MAX: u32 = 4;

/// Types of NAL units.
mod kind {
    pub(super) const SLICE: u8 = 1;
    pub(super) const IDR_SLICE: u8 = 5;
    pub(super) const SUPPLEMENTAL: u8 = 6;
    pub(super) const SEQUENCE_PARAMETERS: u8 = 7;
    pub(super) const PICTURE_PARAMETERS: u8 = 8;
    pub(super) const DELIMITER: u8 = 9;
}

/// Properties of a valid access unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessUnit {
    /// It has parameter sets and is a keyframe.
    pub is_keyframe: bool,
}

/// What a stream's parameter sets may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    ConstrainedBaseline,
    /// Chroma of full resolution, in the same planes and with the same depth as luma.
    High444,
}

/// Checks all headers of an access unit of frames of this size, with even edges, and its parameter
/// sets completely. For constrained baseline.
pub fn check(data: &[u8], size: Size) -> Result<AccessUnit, DecodeError> {
    check_as(Profile::ConstrainedBaseline, data, size)
}

/// The same for the profile High 4:4:4 Predictive, 8 bits, 4:4:4.
pub fn check_yuv444(data: &[u8], size: Size) -> Result<AccessUnit, DecodeError> {
    check_as(Profile::High444, data, size)
}

fn check_as(profile: Profile, data: &[u8], size: Size) -> Result<AccessUnit, DecodeError> {
    let mut unit = AccessUnit::default();
    let (mut slices, mut sequences, mut pictures) = (0, 0, 0);
    for (count, nal) in Units::new(data)?.enumerate() {
        let (&head, body) = nal.split_first().ok_or(DecodeError::Malformed("an empty unit"))?;
        if count >= UNITS_MAX {
            return Err(DecodeError::Malformed("more units than a frame has"));
        }
        if head & 0x80 != 0 {
            return Err(DecodeError::Malformed("a unit's forbidden bit"));
        }
        match head & 0x1f {
            kind::SLICE | kind::IDR_SLICE if body.is_empty() => {
                return Err(DecodeError::Malformed("an empty slice"));
            }
            kind::SLICE => slices += 1,
            kind::IDR_SLICE => {
                unit.is_keyframe = true;
                slices += 1;
            }
            kind::SEQUENCE_PARAMETERS => {
                check_sequence(profile, body, size)?;
                sequences += 1;
            }
            kind::PICTURE_PARAMETERS => {
                check_picture(profile, body)?;
                pictures += 1;
            }
            kind::SUPPLEMENTAL | kind::DELIMITER => {}
            _ => return Err(DecodeError::Unsupported("a unit of this type")),
        }
    }
    if slices == 0 {
        return Err(DecodeError::Malformed("no frame"));
    }
    if (unit.is_keyframe && (sequences, pictures) != (1, 1))
        || (!unit.is_keyframe && (sequences, pictures) != (0, 0))
    {
        return Err(DecodeError::Malformed(
            "a keyframe without one parameter set of each kind, or others with any",
        ));
    }
    Ok(unit)
}

/// The units of a byte stream, without start codes and trailing zeros (Annex B).
struct Units<'a> {
    rest: &'a [u8],
}

impl<'a> Units<'a> {
    /// `data` begins with a start code.
    fn new(data: &'a [u8]) -> Result<Units<'a>, DecodeError> {
        match start_code(data) {
            Some((at, behind)) if data[..at].iter().all(|&byte| byte == 0) => {
                Ok(Units { rest: &data[behind..] })
            }
            _ => Err(DecodeError::Malformed("no start code")),
        }
    }
}

impl<'a> Iterator for Units<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (unit, rest) = match start_code(self.rest) {
            Some((at, behind)) => (&self.rest[..at], &self.rest[behind..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        let end = unit.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Some(&unit[..end])
    }
}

/// Start and end of the next start code.
fn start_code(data: &[u8]) -> Option<(usize, usize)> {
    data.windows(3).position(|window| window == [0, 0, 1]).map(|at| (at, at + 3))
}

/// Checks a sequence parameter set (7.3.2.1.1).
fn check_sequence(profile: Profile, body: &[u8], size: Size) -> Result<(), DecodeError> {
    let mut bits = Bits::new(body);
    let (number, constraints) = (bits.bits(8)?, bits.bits(8)?);
    let fits = match profile {
        // Constrained: no flexible macroblock ordering, no arbitrary slice ordering, no redundant
        // slices.
        Profile::ConstrainedBaseline => number == 66 && constraints & 0x40 != 0,
        Profile::High444 => number == 244,
    };
    if !fits {
        return Err(DecodeError::Unsupported("a profile"));
    }
    let _level = bits.bits(8)?;
    bits.at_most("a parameter set's number", 31)?;
    if profile == Profile::High444 {
        check_high(&mut bits)?;
    }
    bits.at_most("a length of frame numbers", 12)?;
    match bits.at_most("a picture order count type", 2)? {
        0 => {
            bits.at_most("a length of picture order counts", 12)?;
        }
        2 => {}
        _ => return Err(DecodeError::Unsupported("a cyclic picture order count")),
    }
    bits.at_most("a count of reference frames", REFERENCES_MAX)?;
    let _gaps = bits.bits(1)?;
    let across = bits.at_most("a frame's width", 512)? + 1;
    let down = bits.at_most("a frame's height", 512)? + 1;
    if bits.bits(1)? == 0 {
        return Err(DecodeError::Unsupported("fields"));
    }
    let _direct = bits.bits(1)?;
    // Cropping in units of two samples, because of chroma at half the width and height.
    let unit = match profile {
        Profile::ConstrainedBaseline => 2,
        Profile::High444 => 1,
    };
    let [left, right, top, bottom] = if bits.bits(1)? == 1 {
        let mut edge = || bits.at_most("a crop", 16 / unit);
        [edge()?, edge()?, edge()?, edge()?]
    } else {
        [0; 4]
    };
    let shown =
        |blocks: u32, before: u32, behind: u32| (16 * blocks).checked_sub(unit * (before + behind));
    let width = shown(across, left, right).ok_or(DecodeError::Malformed("a crop"))?;
    let height = shown(down, top, bottom).ok_or(DecodeError::Malformed("a crop"))?;
    if (Size { width, height }) != size {
        return Err(DecodeError::OtherSize { width, height });
    }
    if 16 * across >= width + 16 || 16 * down >= height + 16 {
        return Err(DecodeError::Malformed("more macroblocks than the frame"));
    }
    Ok(())
}

/// Checks what a sequence parameter set has of high profiles.
fn check_high(bits: &mut Bits<'_>) -> Result<(), DecodeError> {
    if bits.at_most("a format of chroma", 3)? != 3 || bits.bits(1)? == 1 {
        return Err(DecodeError::Unsupported("a format of chroma"));
    }
    bits.at_most("a depth of luma", 0)?;
    bits.at_most("a depth of chroma", 0)?;
    // Lossless macroblocks are as good as others.
    let _transform_bypass = bits.bits(1)?;
    if bits.bits(1)? == 1 {
        return Err(DecodeError::Unsupported("matrices of quantizers"));
    }
    Ok(())
}

/// Checks a picture parameter set (7.3.2.2).
fn check_picture(profile: Profile, body: &[u8]) -> Result<(), DecodeError> {
    let mut bits = Bits::new(body);
    bits.at_most("a parameter set's number", 255)?;
    bits.at_most("a parameter set's number", 31)?;
    if bits.bits(1)? == 1 && profile == Profile::ConstrainedBaseline {
        return Err(DecodeError::Unsupported("arithmetic coding"));
    }
    let _order = bits.bits(1)?;
    bits.at_most("groups of slices", 0)?;
    bits.at_most("a count of reference frames", REFERENCES_MAX - 1)?;
    bits.at_most("a count of reference frames", REFERENCES_MAX - 1)?;
    // For pictures that refer to one, and to two others.
    let (one, two) = (bits.bits(1)?, bits.bits(2)?);
    if two > 2 || profile == Profile::ConstrainedBaseline && one | two != 0 {
        return Err(DecodeError::Unsupported("weighted prediction"));
    }
    // Signed numbers as code numbers: -26 to 25, and -12 to 12.
    bits.at_most("a quantizer", 52)?;
    bits.at_most("a quantizer", 52)?;
    bits.at_most("a quantizer of colour", 24)?;
    let _deblocking = bits.bits(1)?;
    let _constrained_intra = bits.bits(1)?;
    if bits.bits(1)? == 1 {
        return Err(DecodeError::Unsupported("redundant pictures"));
    }
    if profile == Profile::High444 && bits.has_more() {
        let _transform_8x8 = bits.bits(1)?;
        if bits.bits(1)? == 1 {
            return Err(DecodeError::Unsupported("matrices of quantizers"));
        }
        bits.at_most("a quantizer of colour", 24)?;
    }
    Ok(())
}

/// Bits of a unit without emulation prevention bytes: a 3 after two zeros (7.4.1.1).
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    zeros: u32,
    /// The current byte, and the number of its unread bits.
    byte: u8,
    left: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0, zeros: 0, byte: 0, left: 0 }
    }

    fn next_byte(&mut self) -> Result<u8, DecodeError> {
        let mut next = || {
            let byte = self
                .bytes
                .get(self.at)
                .copied()
                .ok_or(DecodeError::Malformed("a truncated parameter set"));
            self.at += 1;
            byte
        };
        let mut byte = next()?;
        if self.zeros >= 2 && byte == 3 {
            self.zeros = 0;
            byte = next()?;
        }
        self.zeros = if byte == 0 { self.zeros + 1 } else { 0 };
        Ok(byte)
    }

    fn bits(&mut self, count: u32) -> Result<u32, DecodeError> {
        let mut value = 0;
        for _ in 0..count {
            if self.left == 0 {
                self.byte = self.next_byte()?;
                self.left = 8;
            }
            self.left -= 1;
            value = value << 1 | u32::from(self.byte >> self.left & 1);
        }
        Ok(value)
    }

    /// True if a bit precedes the one that ends a unit (7.2).
    fn has_more(&self) -> bool {
        let unread = self.byte & u8::MAX.checked_shr(8 - self.left).unwrap_or(0);
        match (self.left, self.bytes[self.at..].iter().rposition(|&byte| byte != 0)) {
            (0, None) => false,
            (0, Some(last)) => last > 0 || self.bytes[self.at] != 0x80,
            (left, None) => unread != 1 << (left - 1),
            (_, Some(_)) => true,
        }
    }

    /// An Exp-Golomb code number (9.1) of at most `limit`.
    fn at_most(&mut self, what: &'static str, limit: u32) -> Result<u32, DecodeError> {
        let mut zeros = 0;
        while self.bits(1)? == 0 {
            zeros += 1;
            if zeros > 16 {
                return Err(DecodeError::Malformed(what));
            }
        }
        let value = (1 << zeros) - 1 + self.bits(zeros)?;
        if value > limit { Err(DecodeError::Malformed(what)) } else { Ok(value) }
    }
}
