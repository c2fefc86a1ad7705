//! Path 10/13, beside the pixels: between session-core and viewer-core, what X clients want the
//! screen's colours to be shown as (night colours, gamma, brightness), and its bytes.
//! The framebuffer keeps the session's pixels; a viewer applies the tables to what it shows. Knows
//! tables and places; never a screen's pixels.

use thinc_region::Rect;

use crate::limits::{DISPLAYS_MAX, SCREEN_EDGE_MAX};
use crate::viewer::{put_part, read_part};
use crate::wire::{Reader, WireError, put_varint};

/// Entries of a channel: one for each value that a pixel may have.
pub const GAMMA_ENTRIES: usize = 256;
/// Bytes of the codes of a channel: two bits for each entry but the first.
const CODES_BYTES: usize = GAMMA_ENTRIES / 4;
/// The code of an increase that is a byte of its own.
const ESCAPE: u8 = 3;

/// What each value of a channel is shown as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GammaTable {
    /// Red, green and blue.
    pub channels: [[u8; GAMMA_ENTRIES]; 3],
}

/// A table and the part of the session's screen that is shown by it: of several, the first that
/// has the pixel. Where there is none, pixels are shown as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GammaArea {
    /// Not empty; it may extend beyond the screen.
    pub rect: Rect,
    /// What its colours are shown as.
    pub table: GammaTable,
}

impl Default for GammaTable {
    fn default() -> GammaTable {
        GammaTable { channels: [std::array::from_fn(|value| value as u8); 3] }
    }
}

impl GammaTable {
    /// It changes no colour.
    pub fn is_identity(&self) -> bool {
        self.channels
            .iter()
            .all(|channel| channel.iter().enumerate().all(|(value, &to)| value == usize::from(to)))
    }

    /// The colour, 0xRRGGBB, as it is shown; other bits stay.
    #[inline]
    pub fn apply(&self, pixel: u32) -> u32 {
        let [red, green, blue] = &self.channels;
        let [b, g, r, rest] = pixel.to_le_bytes();
        let shown = |channel: &[u8; GAMMA_ENTRIES], value: u8| channel[usize::from(value)];
        u32::from_le_bytes([shown(blue, b), shown(green, g), shown(red, r), rest])
    }

    /// The same of a pixel of a cursor, premultiplied 0xAARRGGBB: of the colour that it would have
    /// without its alpha.
    pub fn apply_premultiplied(&self, pixel: u32) -> u32 {
        let alpha = pixel >> 24;
        if alpha == 0 || alpha == 255 {
            return if alpha == 0 { pixel } else { self.apply(pixel) };
        }
        let each =
            |shift: u32, of: &dyn Fn(u32) -> u32| of(pixel >> shift & 0xff).min(255) << shift;
        let plain = |value: u32| (value * 255 + alpha / 2) / alpha;
        let straight = each(16, &plain) | each(8, &plain) | each(0, &plain);
        let shown = self.apply(straight);
        let times = |shift: u32| (((shown >> shift & 0xff) * alpha + 127) / 255) << shift;
        alpha << 24 | times(16) | times(8) | times(0)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for channel in &self.channels {
            out.push(channel[0]);
            let codes_at = out.len();
            out.resize(codes_at + CODES_BYTES, 0);
            for (index, pair) in channel.windows(2).enumerate() {
                let increase = pair[1].wrapping_sub(pair[0]);
                out[codes_at + index / 4] |= increase.min(ESCAPE) << (2 * (index % 4));
                if increase >= ESCAPE {
                    out.push(increase);
                }
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<GammaTable, WireError> {
        let mut table = GammaTable::default();
        for channel in &mut table.channels {
            let mut value = reader.u8("a gamma table's first entry")?;
            let codes = reader.take("a gamma table", CODES_BYTES)?;
            channel[0] = value;
            for (index, entry) in channel[1..].iter_mut().enumerate() {
                let mut increase = codes[index / 4] >> (2 * (index % 4)) & ESCAPE;
                if increase == ESCAPE {
                    increase = reader.u8("an increase of a gamma table")?;
                    if increase < ESCAPE {
                        return Err(WireError::Unknown {
                            what: "an increase of a gamma table",
                            value: increase.into(),
                        });
                    }
                }
                value = value.wrapping_add(increase);
                *entry = value;
            }
            if codes[CODES_BYTES - 1] >> 6 != 0 {
                let value = codes[CODES_BYTES - 1].into();
                return Err(WireError::Unknown { what: "the end of a gamma table", value });
            }
        }
        Ok(table)
    }
}

/// All that a screen may have: for a table that applies to every pixel, whatever its size.
pub const WHOLE_SCREEN: Rect = Rect::at(0, 0, SCREEN_EDGE_MAX as i32, SCREEN_EDGE_MAX as i32);

/// ```text
/// count varint | count × (x | y | width | height, all varint | table)
/// table: red | green | blue, each: first u8 | 255 codes of 2 bits, 64 bytes | escapes
/// ```
pub(crate) fn encode_areas(areas: &[GammaArea], out: &mut Vec<u8>) {
    put_varint(out, areas.len() as u64);
    for area in areas {
        put_part(out, &area.rect);
        area.table.encode(out);
    }
}

pub(crate) fn decode_areas(reader: &mut Reader<'_>) -> Result<Vec<GammaArea>, WireError> {
    let count = reader.at_most("a count of gamma tables", DISPLAYS_MAX as u64)?;
    let mut areas = Vec::new();
    for _ in 0..count {
        let rect = read_part(reader)?;
        if rect.is_empty() {
            return Err(WireError::Outside("a gamma table's area"));
        }
        areas.push(GammaArea { rect, table: GammaTable::decode(reader)? });
    }
    Ok(areas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(of: impl Fn(usize, usize) -> u8) -> GammaTable {
        GammaTable {
            channels: std::array::from_fn(|channel| {
                std::array::from_fn(|value| of(channel, value))
            }),
        }
    }

    fn bytes_of(table: &GammaTable) -> Vec<u8> {
        let mut out = Vec::new();
        table.encode(&mut out);
        out
    }

    /// As redshift computes them at this brightness: linear ramps.
    fn night(shares: [f64; 3]) -> GammaTable {
        table(|channel, value| (value as f64 * shares[channel]) as u8)
    }

    #[test]
    fn tables_come_back_and_usual_ones_take_few_bytes() {
        let mut state = 1u32;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..768).map(|_| random()).collect();
        let power = |value: usize, by: f64| ((value as f64 / 255.0).powf(by) * 255.0) as u8;
        for (table, bytes_max) in [
            (GammaTable::default(), 195),
            (table(|_, _| 0), 195),
            (night([1.0, 0.77, 0.55]), 195),
            (table(|channel, value| power(value, [0.5, 1.0, 2.2][channel])), 260),
            // Inverted colours: every step is one down, which has no short code.
            (table(|_, value| 255 - value as u8), 960),
            (table(|channel, value| noise[channel * 256 + value]), 960),
        ] {
            let bytes = bytes_of(&table);
            assert!(bytes.len() <= bytes_max, "{} of {bytes_max} bytes", bytes.len());
            let mut reader = Reader::new(&bytes);
            assert_eq!(GammaTable::decode(&mut reader), Ok(table));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(
                    GammaTable::decode(&mut Reader::new(&bytes[..cut])).is_err(),
                    "cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn there_is_one_way_to_write_a_table() {
        let mut bytes = bytes_of(&GammaTable::default());
        bytes[CODES_BYTES] |= 0xc0;
        assert!(GammaTable::decode(&mut Reader::new(&bytes)).is_err(), "bits behind the last code");
        // An increase of 1 as an escape.
        let mut bytes = bytes_of(&GammaTable::default());
        bytes[1] |= 3;
        bytes.insert(1 + CODES_BYTES, 1);
        assert!(GammaTable::decode(&mut Reader::new(&bytes)).is_err(), "it has a shorter code");
        bytes[1 + CODES_BYTES] = 3;
        let longer = GammaTable::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(longer.channels[0][..3], [0, 3, 4]);
    }

    #[test]
    fn colours_are_shown_by_the_table_and_alpha_stays() {
        let inverted = table(|_, value| 255 - value as u8);
        assert!(GammaTable::default().is_identity() && !inverted.is_identity());
        assert_eq!(inverted.apply(0xff00_1020), 0xffff_efdf);
        assert_eq!(night([1.0, 0.5, 0.0]).apply(0x00ff_8040), 0x00ff_4000);
        for pixel in [0x0000_0000, 0x8040_2000, 0xff12_3456, 0x0100_0100] {
            assert_eq!(GammaTable::default().apply_premultiplied(pixel), pixel);
        }
        assert_eq!(inverted.apply_premultiplied(0xff00_1020), 0xffff_efdf);
        assert_eq!(inverted.apply_premultiplied(0), 0, "what is transparent stays so");
        assert_eq!(inverted.apply_premultiplied(0x8000_0000), 0x8080_8080);
    }
}
