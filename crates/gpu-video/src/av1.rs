//! Beside process.rs: the headers of AV1's temporal units, so that what a codec process has encoded
//! is what the protocol allows (doc/protocol.md, section 9), and so is what a viewer gives to one.
//! Knows the syntax of open bitstream units (AV1 Bitstream & Decoding Process Specification, 5.3 to
//! 5.9.2); never samples.

use thinc_region::Size;

/// Types of units (6.2.2).
mod kind {
    pub(super) const SEQUENCE_HEADER: u8 = 1;
    pub(super) const TEMPORAL_DELIMITER: u8 = 2;
    pub(super) const FRAME_HEADER: u8 = 3;
    pub(super) const TILE_GROUP: u8 = 4;
    pub(super) const FRAME: u8 = 6;
    pub(super) const PADDING: u8 = 15;
}

/// `frame_type` of a keyframe (6.8.2).
const KEY_FRAME: u32 = 0;
/// `seq_profile` of 4:2:0 (6.4.1).
const MAIN_PROFILE: u32 = 0;
/// A level above it is followed by its tier (5.5.1).
const LEVEL_WITHOUT_TIER_MAX: u32 = 7;

/// 64: units of a temporal unit, most of them groups of tiles.
const UNITS_MAX: usize = 64;

/// What a temporal unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its frame is a keyframe.
    pub is_keyframe: bool,
}

/// Why a temporal unit is not what the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends within a unit or a header.
    #[error("it is cut off")]
    CutOff,
    /// A unit without size, of another type than frames need, or with a forbidden bit; or too many.
    #[error("it has a unit that is not allowed")]
    Unit,
    /// Units in another order.
    #[error("its units are not in their order")]
    Order,
    /// Another profile, bit depth or chroma.
    #[error("it is not of 8 bits in 4:2:0")]
    Profile,
    /// Frames of another size.
    #[error("its frames are of {} by {}", .0.width, .0.height)]
    Size(Size),
    /// It shows no frame, several, or an earlier one.
    #[error("it does not show one frame of its own")]
    Frames,
    /// A keyframe without a sequence header, or another frame with one.
    #[error("it has a sequence header without a keyframe, or a keyframe without one")]
    SequenceHeader,
}

/// One open bitstream unit.
#[derive(Clone, Copy, Debug)]
pub struct Obu<'a> {
    kind: u8,
    /// With its header.
    whole: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Obu<'a> {
    /// The unit with its header.
    pub fn bytes(&self) -> &'a [u8] {
        self.whole
    }

    /// It says how a sequence is decoded.
    pub fn is_sequence_header(&self) -> bool {
        self.kind == kind::SEQUENCE_HEADER
    }

    /// It begins a temporal unit.
    pub fn is_temporal_delimiter(&self) -> bool {
        self.kind == kind::TEMPORAL_DELIMITER
    }

    /// Frames are decoded without it: padding, metadata, or what a later version defines.
    pub fn is_needless(&self) -> bool {
        !matches!(
            self.kind,
            kind::TEMPORAL_DELIMITER
                | kind::SEQUENCE_HEADER
                | kind::FRAME_HEADER
                | kind::TILE_GROUP
                | kind::FRAME
        )
    }

    /// It begins a keyframe.
    pub fn begins_keyframe(&self) -> bool {
        matches!(self.kind, kind::FRAME | kind::FRAME_HEADER)
            && frame(self.payload).is_ok_and(|frame| frame.is_keyframe)
    }
}

/// The units of a temporal unit; after an error there are no more.
pub fn obus(mut rest: &[u8]) -> impl Iterator<Item = Result<Obu<'_>, Malformed>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = next_obu(rest);
        rest = read.map_or(&[], |obu| &rest[obu.whole.len()..]);
        Some(read)
    })
}

fn next_obu(bytes: &[u8]) -> Result<Obu<'_>, Malformed> {
    let (&head, mut rest) = bytes.split_first().ok_or(Malformed::CutOff)?;
    let (forbidden, kind) = (head & 0x80, head >> 3 & 0xf);
    let (has_extension, has_size) = (head & 4 != 0, head & 2 != 0);
    // Layers would be frames that are not shown.
    if forbidden != 0 || has_extension || !has_size {
        return Err(Malformed::Unit);
    }
    let mut len: u64 = 0;
    for at in 0.. {
        let (&byte, behind) = rest.split_first().ok_or(Malformed::CutOff)?;
        rest = behind;
        len |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
        if at == 7 {
            return Err(Malformed::Unit);
        }
    }
    let payload = usize::try_from(len).ok().and_then(|len| rest.get(..len));
    let payload = payload.ok_or(Malformed::CutOff)?;
    let whole = &bytes[..bytes.len() - rest.len() + payload.len()];
    Ok(Obu { kind, whole, payload })
}

/// Checks a temporal unit for frames of this size. Of a frame's own header only the beginning is
/// read: a frame that is no keyframe may be smaller.
pub fn check(unit: &[u8], size: Size) -> Result<Unit, Malformed> {
    let mut has_sequence_header = false;
    let mut shown: Option<Unit> = None;
    // A header alone has its tiles in units behind it.
    let (mut lacks_tiles, mut takes_tiles) = (false, false);
    for (at, obu) in obus(unit).enumerate() {
        let obu = obu?;
        if at == UNITS_MAX {
            return Err(Malformed::Unit);
        }
        match obu.kind {
            kind::TEMPORAL_DELIMITER if at == 0 && obu.payload.is_empty() => {}
            kind::SEQUENCE_HEADER if !has_sequence_header && shown.is_none() => {
                let of = sequence(obu.payload)?;
                if of != size {
                    return Err(Malformed::Size(of));
                }
                has_sequence_header = true;
            }
            kind::FRAME | kind::FRAME_HEADER if shown.is_none() => {
                shown = Some(frame(obu.payload)?);
                takes_tiles = obu.kind == kind::FRAME_HEADER;
                lacks_tiles = takes_tiles;
            }
            kind::FRAME | kind::FRAME_HEADER => return Err(Malformed::Frames),
            kind::TILE_GROUP if takes_tiles => lacks_tiles = false,
            kind::PADDING => {}
            kind::TEMPORAL_DELIMITER | kind::SEQUENCE_HEADER | kind::TILE_GROUP => {
                return Err(Malformed::Order);
            }
            _ => return Err(Malformed::Unit),
        }
    }
    let shown = shown.filter(|_| !lacks_tiles).ok_or(Malformed::Frames)?;
    if shown.is_keyframe != has_sequence_header {
        return Err(Malformed::SequenceHeader);
    }
    Ok(shown)
}

/// Reads the beginning of a frame's header (5.9.2).
fn frame(payload: &[u8]) -> Result<Unit, Malformed> {
    let mut bits = Bits::new(payload);
    let shows_existing = bits.flag()?;
    let frame_type = bits.take(2)?;
    let is_shown = bits.flag()?;
    if shows_existing || !is_shown {
        return Err(Malformed::Frames);
    }
    Ok(Unit { is_keyframe: frame_type == KEY_FRAME })
}

/// Reads a sequence header (5.5); returns the largest size of its frames.
fn sequence(payload: &[u8]) -> Result<Size, Malformed> {
    let mut bits = Bits::new(payload);
    let profile = bits.take(3)?;
    let (is_still, is_reduced) = (bits.flag()?, bits.flag()?);
    if profile != MAIN_PROFILE || is_still || is_reduced {
        return Err(Malformed::Profile);
    }
    let delay_bits = timing(&mut bits)?;
    let has_display_delay = bits.flag()?;
    for _ in 0..=bits.take(5)? {
        bits.take(12)?;
        if bits.take(5)? > LEVEL_WITHOUT_TIER_MAX {
            bits.flag()?;
        }
        if let Some(delay_bits) = delay_bits
            && bits.flag()?
        {
            bits.take(delay_bits)?;
            bits.take(delay_bits)?;
            bits.flag()?;
        }
        if has_display_delay && bits.flag()? {
            bits.take(4)?;
        }
    }
    let edges = (bits.take(4)? + 1, bits.take(4)? + 1);
    let size = Size { width: bits.take(edges.0)? + 1, height: bits.take(edges.1)? + 1 };
    if bits.flag()? {
        // Numbers of frames.
        bits.take(4 + 3)?;
    }
    tools(&mut bits)?;
    is_8_bit_420(&mut bits)?;
    // No grain is added to what was drawn.
    if bits.flag()? { Err(Malformed::Profile) } else { Ok(size) }
}

/// Reads the timing information (5.5.3, 5.5.4): bits of a decoder's delays, if there are any.
fn timing(bits: &mut Bits<'_>) -> Result<Option<u32>, Malformed> {
    if !bits.flag()? {
        return Ok(None);
    }
    bits.take(32)?;
    bits.take(32)?;
    if bits.flag()? {
        // Ticks of a picture, in a code of variable length.
        let mut zeros = 0;
        while !bits.flag()? {
            zeros += 1;
        }
        bits.take(if zeros < 32 { zeros } else { 0 })?;
    }
    if !bits.flag()? {
        return Ok(None);
    }
    let delay_bits = bits.take(5)? + 1;
    bits.take(32)?;
    bits.take(5 + 5)?;
    Ok(Some(delay_bits))
}

/// Skips the flags of coding tools.
fn tools(bits: &mut Bits<'_>) -> Result<(), Malformed> {
    // Superblocks of 128, and four tools without further fields.
    bits.take(3 + 4)?;
    let has_order_hint = bits.flag()?;
    if has_order_hint {
        bits.take(2)?;
    }
    let chooses_screen_content = bits.flag()?;
    let may_be_screen_content = chooses_screen_content || bits.flag()?;
    if may_be_screen_content && !bits.flag()? {
        bits.flag()?;
    }
    if has_order_hint {
        bits.take(3)?;
    }
    bits.take(3)?;
    Ok(())
}

/// Reads the colour configuration (5.5.2).
fn is_8_bit_420(bits: &mut Bits<'_>) -> Result<(), Malformed> {
    let (is_deep, is_monochrome) = (bits.flag()?, bits.flag()?);
    if is_deep || is_monochrome {
        return Err(Malformed::Profile);
    }
    if bits.flag()? {
        let colours = [bits.take(8)?, bits.take(8)?, bits.take(8)?];
        // sRGB without conversion has no range and no place of chroma.
        if colours == [1, 13, 0] {
            return Err(Malformed::Profile);
        }
    }
    // The range, the place of chroma, and quantizers of its own for each.
    bits.take(1 + 2 + 1)?;
    Ok(())
}

/// Bits of a header, the highest of a byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits that were read.
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, at: 0 }
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        let byte = self.bytes.get(self.at / 8).ok_or(Malformed::CutOff)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Ok(bit == 1)
    }

    /// At most 32 bits.
    fn take(&mut self, count: u32) -> Result<u32, Malformed> {
        let mut value = 0;
        for _ in 0..count {
            value = value << 1 | u32::from(self.flag()?);
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a header, each with its count of bits.
    fn pack(fields: &[(u32, u32)]) -> Vec<u8> {
        let bits = fields
            .iter()
            .flat_map(|&(value, count)| (0..count).rev().map(move |bit| (value >> bit & 1) as u8));
        let bits: Vec<u8> = bits.collect();
        let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | bit);
        bits.chunks(8).map(|bits| byte(bits) << (8 - bits.len())).collect()
    }

    fn obu(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind << 3 | 2, payload.len() as u8], payload].concat()
    }

    /// A sequence header with all that one may have.
    const FULL: &[(u32, u32)] = &[
        (0, 3), // profile
        (0, 2), // neither still nor reduced
        (1, 1), // timing
        (1001, 32),
        (60000, 32),
        (1, 1),
        (0b00101, 5), // a number of variable length: 4
        (1, 1),       // decoder model
        (7, 5),       // delays have 8 bits
        (90000, 32),
        (3, 5),
        (4, 5),
        (1, 1), // display delays
        (1, 5), // two operating points
        (0x101, 12),
        (8, 5), // with a tier
        (1, 1),
        (1, 1),
        (17, 8),
        (34, 8),
        (0, 1),
        (1, 1),
        (9, 4),
        (0x102, 12),
        (7, 5), // without a tier
        (0, 1),
        (0, 1),
        (9, 4), // widths have 10 bits
        (8, 4), // heights have 9
        (641, 10),
        (359, 9),
        (1, 1), // numbers of frames
        (5, 4),
        (2, 3),
        (0b101, 3),
        (0b1011, 4),
        (1, 1), // order hints
        (0b10, 2),
        (0, 1), // no choice of screen content, but it is
        (1, 1),
        (0, 1), // no choice of whole motion vectors
        (1, 1),
        (6, 3),
        (0b011, 3),
        (0, 1), // 8 bits
        (0, 1),
        (1, 1), // colours
        (5, 8),
        (6, 8),
        (6, 8),
        (0, 1), // range
        (2, 2),
        (0, 1),
        (0, 1), // no grain
    ];
    const SIZE: Size = Size { width: 642, height: 360 };
    const KEY: &[u8] = &[0x10, 1, 2];

    /// The header with another value in one field.
    fn changed(at: usize, value: u32) -> Result<Unit, Malformed> {
        let mut fields = FULL.to_vec();
        fields[at].0 = value;
        check(&[obu(1, &pack(&fields)), obu(6, KEY)].concat(), SIZE)
    }

    fn field(value: (u32, u32), count: usize) -> usize {
        let mut found = FULL.iter().enumerate().filter(|(_, field)| **field == value);
        found.nth(count).expect("there is such a field").0
    }

    #[test]
    fn a_header_with_all_parts_is_read_to_its_end() {
        let key = Ok(Unit { is_keyframe: true });
        assert_eq!(changed(0, 0), key);
        for profile in [1, 2, 7] {
            assert_eq!(changed(0, profile), Err(Malformed::Profile));
        }
        let width = field((641, 10), 0);
        let other = Size { width: 641, height: 360 };
        assert_eq!(changed(width, 640), Err(Malformed::Size(other)));
        // From the end: grain, chroma's quantizers, place, range, three colours.
        let last = FULL.len() - 1;
        assert_eq!(changed(last, 1), Err(Malformed::Profile), "grain");
        assert_eq!(changed(last - 1, 1), key);
        let deep = last - 9;
        assert_eq!(FULL[deep..deep + 3], [(0, 1), (0, 1), (1, 1)]);
        assert_eq!(changed(deep, 1), Err(Malformed::Profile), "10 bits");
        assert_eq!(changed(deep + 1, 1), Err(Malformed::Profile), "no colours");
        let mut srgb = FULL.to_vec();
        for (at, value) in [(deep + 3, 1), (deep + 4, 13), (deep + 5, 0)] {
            srgb[at].0 = value;
        }
        let unit = [obu(1, &pack(&srgb)), obu(6, KEY)].concat();
        assert_eq!(check(&unit, SIZE), Err(Malformed::Profile), "sRGB");
        for cut in 1..pack(FULL).len() {
            let unit = [obu(1, &pack(FULL)[..cut]), obu(6, KEY)].concat();
            assert_eq!(check(&unit, SIZE), Err(Malformed::CutOff), "{cut}");
        }
    }

    #[test]
    fn a_frame_is_whole_and_has_nothing_beside_it() {
        let next = |parts: &[Vec<u8>]| check(&parts.concat(), SIZE);
        let delta = Ok(Unit { is_keyframe: false });
        let [header, tiles, frame] = [obu(3, &[0x30, 1]), obu(4, &[1, 2, 3]), obu(6, &[0x30, 9])];
        assert_eq!(next(&[header.clone(), tiles.clone()]), delta);
        assert_eq!(next(&[header.clone(), tiles.clone(), tiles.clone()]), delta);
        assert_eq!(next(std::slice::from_ref(&header)), Err(Malformed::Frames), "no tiles");
        assert_eq!(next(&[tiles.clone(), header]), Err(Malformed::Order));
        assert_eq!(next(&[frame.clone(), tiles]), Err(Malformed::Order), "it has its tiles");
        assert_eq!(next(&[frame.clone(), obu(15, &[0, 0x80])]), delta);
        assert_eq!(next(&[frame.clone(), obu(5, &[3, 0])]), Err(Malformed::Unit), "metadata");
        let many = vec![obu(15, &[]); 63];
        assert_eq!(next(&[many.concat(), frame.clone()]), delta);
        assert_eq!(next(&[many.concat(), obu(15, &[]), frame]), Err(Malformed::Unit));
        // A length without end, and one that is not as short as it may be.
        let endless = [[0x32].as_slice(), &[0xff; 9]].concat();
        assert_eq!(check(&endless, SIZE), Err(Malformed::Unit));
        assert_eq!(check(&[0x32, 0x81, 0x80, 0, 0x30], SIZE), delta);
    }
}
