//! As VNC's Tight encodes without JPEG: one colour, two colours with a bit a pixel, up to 96 with a byte, else three bytes,
//! with a zlib context for each of the last three. What a rectangle's head would cost is not counted.
//! Knows Tight's rules (RFC 6143's registry, TightVNC's "fast" settings); never RFB's messages.

use thinc_bench::Error;

use crate::codec::Codec;
use crate::samples::{Sample, pixels_of_rgb};
use crate::zlib::Stream;

/// TigerVNC and TightVNC at their usual level.
const COLOURS_MAX: usize = 96;
/// Larger rectangles are cut into bands of at most this many pixels.
const AREA_MAX: usize = 65536;
/// Fewer bytes are not packed.
const PACKED_MIN: usize = 12;

/// Which of the ways a band took; two colours and more are followed by how many, less one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Fill = 0x80,
    Full = 0,
    Mono = 0x50,
    Palette = 0x60,
}

/// Both ends.
pub(crate) struct Tight {
    full: Stream,
    mono: Stream,
    indexed: Stream,
    plain: Vec<u8>,
    packed: Vec<u8>,
    palette: Palette,
}

impl Tight {
    pub(crate) fn new() -> Tight {
        Tight {
            full: Stream::new(),
            mono: Stream::new(),
            indexed: Stream::new(),
            plain: Vec::new(),
            packed: Vec::new(),
            palette: Palette::default(),
        }
    }

    /// Appends a band of pixels.
    fn encode_band(&mut self, pixels: &[u32], width: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let few = self.palette.fill(pixels);
        self.plain.clear();
        let way = match self.palette.colours.len() {
            _ if !few => Way::Full,
            1 => Way::Fill,
            2 => Way::Mono,
            _ => Way::Palette,
        };
        out.push(way as u8);
        if way != Way::Full && way != Way::Fill {
            out.push((self.palette.colours.len() - 1) as u8);
        }
        if way != Way::Full {
            out.extend(self.palette.colours.iter().flat_map(|&colour| rgb(colour)));
        }
        match way {
            Way::Fill => return Ok(()),
            Way::Full => self.plain.extend(pixels.iter().flat_map(|&pixel| rgb(pixel))),
            Way::Palette => {
                let palette = &self.palette;
                self.plain.extend(pixels.iter().map(|&pixel| palette.place(pixel)));
            }
            Way::Mono => {
                for row in pixels.chunks(width) {
                    for eight in row.chunks(8) {
                        let bit = |(at, &pixel): (usize, &u32)| u8::from(pixel == self.palette.colours[1]) << (7 - at);
                        self.plain.push(eight.iter().enumerate().map(bit).fold(0, |byte, bit| byte | bit));
                    }
                }
            }
        }
        if self.plain.len() < PACKED_MIN {
            out.extend_from_slice(&self.plain);
            return Ok(());
        }
        let stream = match way {
            Way::Mono => &mut self.mono,
            Way::Palette => &mut self.indexed,
            _ => &mut self.full,
        };
        self.packed.clear();
        stream.pack(&self.plain, &mut self.packed)?;
        compact_length(self.packed.len(), out);
        out.extend_from_slice(&self.packed);
        Ok(())
    }

    /// Decodes a band from the front of `bytes`, and gives what follows it.
    fn decode_band<'a>(&mut self, bytes: &'a [u8], width: usize, pixels: &mut [u32]) -> Result<&'a [u8], Error> {
        let (&way, mut bytes) = bytes.split_first().ok_or("a band is missing")?;
        let mut count = usize::from(way == Way::Fill as u8);
        if way == Way::Mono as u8 || way == Way::Palette as u8 {
            count = usize::from(bytes[0]) + 1;
            bytes = &bytes[1..];
        }
        let (colours, bytes) = bytes.split_at_checked(count * 3).ok_or("colours are missing")?;
        self.palette.colours.resize(count, 0);
        pixels_of_rgb(colours, &mut self.palette.colours);
        if way == Way::Fill as u8 {
            pixels.fill(self.palette.colours[0]);
            return Ok(bytes);
        }
        let height = pixels.len() / width;
        let (stream, len) = match way {
            w if w == Way::Mono as u8 => (&mut self.mono, width.div_ceil(8) * height),
            w if w == Way::Palette as u8 => (&mut self.indexed, pixels.len()),
            _ => (&mut self.full, pixels.len() * 3),
        };
        let rest = if len < PACKED_MIN {
            self.plain.clear();
            self.plain.extend_from_slice(&bytes[..len]);
            &bytes[len..]
        } else {
            let (packed_len, bytes) = read_compact_length(bytes)?;
            stream.unpack(bytes.get(..packed_len).ok_or("packed bytes are missing")?, len, &mut self.plain)?;
            &bytes[packed_len..]
        };
        if way == Way::Full as u8 {
            pixels_of_rgb(&self.plain, pixels);
        } else if way == Way::Palette as u8 {
            for (pixel, &place) in pixels.iter_mut().zip(&self.plain) {
                *pixel = self.palette.colours[usize::from(place)];
            }
        } else {
            for (row, bits) in pixels.chunks_mut(width).zip(self.plain.chunks(width.div_ceil(8))) {
                for (x, pixel) in row.iter_mut().enumerate() {
                    *pixel = self.palette.colours[usize::from(bits[x / 8] >> (7 - x % 8) & 1)];
                }
            }
        }
        Ok(rest)
    }
}

/// Rows of one band.
fn band_rows(width: usize) -> usize {
    (AREA_MAX / width).max(1)
}

impl Codec for Tight {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        for band in sample.pixels.chunks(sample.width * band_rows(sample.width)) {
            self.encode_band(band, sample.width, out)?;
        }
        Ok(())
    }

    fn decode(&mut self, mut bytes: &[u8], width: usize, _height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        for band in pixels.chunks_mut(width * band_rows(width)) {
            bytes = self.decode_band(bytes, width, band)?;
        }
        if bytes.is_empty() { Ok(()) } else { Err("something follows the last band".into()) }
    }
}

fn rgb(pixel: u32) -> [u8; 3] {
    [(pixel >> 16) as u8, (pixel >> 8) as u8, pixel as u8]
}

/// Seven bits a byte, the lowest first.
fn compact_length(len: usize, out: &mut Vec<u8>) {
    let mut left = len;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn read_compact_length(bytes: &[u8]) -> Result<(usize, &[u8]), Error> {
    let mut len = 0;
    for (at, &byte) in bytes.iter().take(3).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok((len, &bytes[at + 1..]));
        }
    }
    Err("no length".into())
}

/// The colours of a band, in the order in which they come, and where each is found again.
#[derive(Default)]
struct Palette {
    colours: Vec<u32>,
    /// Places of colours by their hash, one more than the place; 0 is empty.
    slots: Vec<u8>,
}

/// Four times the colours, so that few share a slot.
const SLOTS: usize = 512;

impl Palette {
    /// Takes up the colours of these pixels; false as soon as there are too many.
    fn fill(&mut self, pixels: &[u32]) -> bool {
        self.colours.clear();
        self.slots.clear();
        self.slots.resize(SLOTS, 0);
        let mut last = None;
        for &pixel in pixels {
            if last == Some(pixel) {
                continue;
            }
            last = Some(pixel);
            let slot = self.slot(pixel);
            if self.slots[slot] == 0 {
                if self.colours.len() == COLOURS_MAX {
                    return false;
                }
                self.colours.push(pixel);
                self.slots[slot] = self.colours.len() as u8;
            }
        }
        true
    }

    /// Where a colour is, or the empty slot where it would be.
    fn slot(&self, pixel: u32) -> usize {
        let mut slot = (pixel.wrapping_mul(0x9e37_79b1) >> 23) as usize % SLOTS;
        while self.slots[slot] != 0 && self.colours[usize::from(self.slots[slot]) - 1] != pixel {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    /// Of a colour that was taken up.
    fn place(&self, pixel: u32) -> u8 {
        self.slots[self.slot(pixel)] - 1
    }
}
