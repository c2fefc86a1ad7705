//! Beside decoder.rs: what of an access unit is read before a library that is not memory-safe sees any of it.
//! Lets through what the protocol allows, constrained baseline at the stream's size, and says what else it met.
//! Knows heads, parameter sets and nothing of slices (ITU-T H.264, 7.3 and Annex B).

use thinc_region::Size;

use crate::decoder::DecodeError;

/// 64: of one picture. A slice is at least a row of macroblocks at what sessions send.
const UNITS_MAX: usize = 64;
/// 4: more than any encoder here keeps; each is a picture's memory.
const REFERENCES_MAX: u32 = 4;

/// Kinds of units.
mod kind {
    pub(super) const SLICE: u8 = 1;
    pub(super) const KEY_SLICE: u8 = 5;
    pub(super) const INFORMATION: u8 = 6;
    pub(super) const SEQUENCE: u8 = 7;
    pub(super) const PICTURE: u8 = 8;
    pub(super) const DELIMITER: u8 = 9;
}

/// What an access unit may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessUnit {
    /// It brings parameter sets and a picture that leans on none.
    pub(crate) is_key: bool,
}

/// Reads all heads of an access unit, and its parameter sets whole.
pub(crate) fn check(data: &[u8], size: Size) -> Result<AccessUnit, DecodeError> {
    let mut unit = AccessUnit::default();
    let (mut slices, mut sequences, mut pictures) = (0, 0, 0);
    for (count, nal) in Units::new(data)?.enumerate() {
        let (&head, body) = nal.split_first().ok_or(DecodeError::Malformed("an empty unit"))?;
        if count >= UNITS_MAX {
            return Err(DecodeError::Malformed("more units than a picture has"));
        }
        if head & 0x80 != 0 {
            return Err(DecodeError::Malformed("a unit's forbidden bit"));
        }
        match head & 0x1f {
            kind::SLICE | kind::KEY_SLICE if body.is_empty() => return Err(DecodeError::Malformed("an empty slice")),
            kind::SLICE => slices += 1,
            kind::KEY_SLICE => {
                unit.is_key = true;
                slices += 1;
            }
            kind::SEQUENCE => {
                check_sequence(body, size)?;
                sequences += 1;
            }
            kind::PICTURE => {
                check_picture(body)?;
                pictures += 1;
            }
            kind::INFORMATION | kind::DELIMITER => {}
            _ => return Err(DecodeError::Unsupported("a kind of unit")),
        }
    }
    if slices == 0 {
        return Err(DecodeError::Malformed("no picture"));
    }
    if (unit.is_key && (sequences, pictures) != (1, 1)) || (!unit.is_key && (sequences, pictures) != (0, 0)) {
        return Err(DecodeError::Malformed("parameter sets that are not one of each with a key"));
    }
    Ok(unit)
}

/// The units of a byte stream, without the codes before and the zeros behind them (Annex B).
struct Units<'a> {
    rest: &'a [u8],
}

impl<'a> Units<'a> {
    /// `data` begins with a start code.
    fn new(data: &'a [u8]) -> Result<Units<'a>, DecodeError> {
        match start_code(data) {
            Some((at, behind)) if data[..at].iter().all(|&byte| byte == 0) => Ok(Units { rest: &data[behind..] }),
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

/// Where the next one begins and ends.
fn start_code(data: &[u8]) -> Option<(usize, usize)> {
    data.windows(3).position(|window| window == [0, 0, 1]).map(|at| (at, at + 3))
}

/// The parameter set of a sequence (7.3.2.1.1).
fn check_sequence(body: &[u8], size: Size) -> Result<(), DecodeError> {
    let mut bits = Bits::new(body);
    let profile = bits.bits(8)?;
    let constraints = bits.bits(8)?;
    // Constrained: no flexible order of macroblocks, no arbitrary one of slices, no redundant pictures.
    if profile != 66 || constraints & 0x40 == 0 {
        return Err(DecodeError::Unsupported("a profile"));
    }
    let _level = bits.bits(8)?;
    bits.at_most("a parameter set's number", 31)?;
    bits.at_most("a length of frame numbers", 12)?;
    match bits.at_most("a kind of picture order", 2)? {
        0 => {
            bits.at_most("a length of picture orders", 12)?;
        }
        2 => {}
        _ => return Err(DecodeError::Unsupported("a picture order in cycles")),
    }
    bits.at_most("pictures leaned on", REFERENCES_MAX)?;
    let _gaps = bits.bits(1)?;
    let across = bits.at_most("a picture's width", 512)? + 1;
    let down = bits.at_most("a picture's height", 512)? + 1;
    if bits.bits(1)? == 0 {
        return Err(DecodeError::Unsupported("fields"));
    }
    let _direct = bits.bits(1)?;
    // In units of two samples, as colour has.
    let [left, right, top, bottom] = if bits.bits(1)? == 1 {
        let mut edge = || bits.at_most("a crop", 8);
        [edge()?, edge()?, edge()?, edge()?]
    } else {
        [0; 4]
    };
    let shown = |blocks: u32, before: u32, behind: u32| (16 * blocks).checked_sub(2 * (before + behind));
    let width = shown(across, left, right).ok_or(DecodeError::Malformed("a crop"))?;
    let height = shown(down, top, bottom).ok_or(DecodeError::Malformed("a crop"))?;
    if (Size { width, height }) != size {
        return Err(DecodeError::OtherSize { width, height });
    }
    if 16 * across >= width + 16 || 16 * down >= height + 16 {
        return Err(DecodeError::Malformed("more macroblocks than a picture has"));
    }
    Ok(())
}

/// The parameter set of a picture (7.3.2.2).
fn check_picture(body: &[u8]) -> Result<(), DecodeError> {
    let mut bits = Bits::new(body);
    bits.at_most("a parameter set's number", 255)?;
    bits.at_most("a parameter set's number", 31)?;
    if bits.bits(1)? == 1 {
        return Err(DecodeError::Unsupported("arithmetic coding"));
    }
    let _order = bits.bits(1)?;
    bits.at_most("groups of slices", 0)?;
    bits.at_most("pictures leaned on", REFERENCES_MAX - 1)?;
    bits.at_most("pictures leaned on", REFERENCES_MAX - 1)?;
    if bits.bits(3)? != 0 {
        return Err(DecodeError::Unsupported("weighted prediction"));
    }
    // Signed numbers, as their places: -26 to 25, and -12 to 12.
    bits.at_most("a quantizer", 52)?;
    bits.at_most("a quantizer", 52)?;
    bits.at_most("a quantizer of colour", 24)?;
    let _deblocking = bits.bits(1)?;
    let _constrained_intra = bits.bits(1)?;
    if bits.bits(1)? == 1 {
        return Err(DecodeError::Unsupported("redundant pictures"));
    }
    Ok(())
}

/// Bits of a unit, of which a 3 behind two zeros is none (7.4.1.1).
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    zeros: u32,
    /// The byte that is being read, and how many of its bits are left.
    byte: u8,
    left: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0, zeros: 0, byte: 0, left: 0 }
    }

    fn next_byte(&mut self) -> Result<u8, DecodeError> {
        let mut next = || {
            let byte = self.bytes.get(self.at).copied().ok_or(DecodeError::Malformed("a cut parameter set"));
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

    /// A number of the length that itself tells (9.1).
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
