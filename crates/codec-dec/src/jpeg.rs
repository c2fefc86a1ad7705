//! Path 11/13: from lib.rs, for a lossy RAW; the inverse of codec-enc/jpeg.rs.
//! The scan of a baseline JPEG image without the headers that both ends know, decoded in integers
//! with the same result on every machine.
//! Knows bytes and one rectangle's size; memory is a few bytes per pixel, and no input panics.
//!
//! ```text
//! head      bits 0-1: 0 4:4:4, 1 4:2:2, 2 4:2:0; bit 2: tables follow, otherwise those of
//!           ITU T.81, K.3; bits 3-7: 0
//! quality   1 .. 100: scales the quantization tables of T.81, K.1, as libjpeg does
//! tables    for DC and AC of luma, DC and AC of chroma: 16 counts, one for each length of a code,
//!           and the symbols
//! scan      one interleaved scan of Y, Cb and Cr: each 0xff is followed by 0, no markers, the last
//!           byte is padded with 1s
//! ```

use crate::{DecodeError, OPAQUE};

/// 1 Mi pixels: most of one image; codec-enc splits at half of it.
pub const AREA_MAX: usize = 1 << 20;
/// Bit of the head: tables follow.
pub const OWN_TABLES: u8 = 4;

/// Chroma subsampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// 4:4:4: one sample per pixel.
    Full = 0,
    /// 4:2:2: one sample for two pixels of a row.
    Half = 1,
    /// 4:2:0: one sample for 2 x 2 pixels.
    Quarter = 2,
}

impl Sampling {
    /// Columns and rows of pixels that share a chroma sample.
    const fn shared(self) -> (usize, usize) {
        match self {
            Sampling::Full => (1, 1),
            Sampling::Half => (2, 1),
            Sampling::Quarter => (2, 2),
        }
    }
}

/// Decodes images; it reuses its scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// Samples of Y, Cb and Cr, of whole MCUs.
    planes: [Vec<u8>; 3],
    /// One row of Cb and Cr at the pixels' resolution.
    chroma: [Vec<u8>; 2],
    /// One row of chroma during upsampling.
    sums: Vec<u16>,
}

impl Images {
    /// Scratch memory in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.planes.iter().chain(&self.chroma).map(Vec::capacity).sum()
    }

    /// Decodes an image of `width` pixels per row that fills `pixels`, rows without padding.
    pub(crate) fn decode(
        &mut self,
        data: &[u8],
        width: usize,
        pixels: &mut [u32],
    ) -> Result<(), DecodeError> {
        if pixels.is_empty() || pixels.len() > AREA_MAX {
            return Err(DecodeError::Jpeg);
        }
        let size = Size { width, height: pixels.len() / width };
        let [head, quality, rest @ ..] = data else { return Err(DecodeError::Truncated) };
        let sampling = match head & 3 {
            0 => Sampling::Full,
            1 => Sampling::Half,
            2 => Sampling::Quarter,
            _ => return Err(DecodeError::Jpeg),
        };
        if head >> 3 != 0 || !(1..=100).contains(quality) {
            return Err(DecodeError::Jpeg);
        }
        let (tables, scan) =
            if head & OWN_TABLES != 0 { Tables::read(rest)? } else { (Tables::standard(), rest) };
        let quants = quantization(*quality);
        self.decode_scan(scan, &tables, &quants, size, sampling)?;
        self.convert(size, sampling, pixels);
        Ok(())
    }

    /// Decodes the scan into planes of samples.
    fn decode_scan(
        &mut self,
        scan: &[u8],
        tables: &Tables,
        quants: &[[u8; 64]; 2],
        size: Size,
        sampling: Sampling,
    ) -> Result<(), DecodeError> {
        let (across, down) = sampling.shared();
        let (columns, rows) = (size.width.div_ceil(8 * across), size.height.div_ceil(8 * down));
        // Blocks of each component in an MCU, and their plane, whose rows are whole MCUs.
        let shapes = [(across, down), (1, 1), (1, 1)];
        for (plane, (across, down)) in self.planes.iter_mut().zip(shapes) {
            plane.resize(columns * across * rows * down * 64, 0);
        }
        let mut bits = Bits::new(scan);
        let mut before = [0; 3];
        for row in 0..rows {
            for column in 0..columns {
                for (component, (across, down)) in shapes.into_iter().enumerate() {
                    let kind = component.min(1);
                    let plane = &mut self.planes[component];
                    let stride = columns * across * 8;
                    for v in 0..down {
                        for h in 0..across {
                            let at = (row * down + v) * 8 * stride + (column * across + h) * 8;
                            let block = Block::decode(
                                &mut bits,
                                tables,
                                kind,
                                &quants[kind],
                                &mut before[component],
                            )?;
                            block.samples(&mut plane[at..], stride);
                        }
                    }
                }
            }
        }
        bits.end()
    }

    /// Converts planes of samples to pixels.
    fn convert(&mut self, size: Size, sampling: Sampling, pixels: &mut [u32]) {
        let (across, down) = sampling.shared();
        let [luma, cb, cr] = &self.planes;
        let luma_stride = size.width.div_ceil(8 * across) * across * 8;
        let chroma_stride = luma_stride / across;
        // Samples outside the image are undefined, so the last ones inside are repeated.
        let (columns, rows) = (size.width.div_ceil(across), size.height.div_ceil(down));
        for (y, pixels) in pixels.chunks_exact_mut(size.width).enumerate() {
            let luma = &luma[y * luma_stride..][..size.width];
            let near = y / down;
            let far = if y % 2 == 0 { near.saturating_sub(1) } else { (near + 1).min(rows - 1) };
            for (plane, to) in [cb, cr].into_iter().zip(&mut self.chroma) {
                let row = |y: usize| &plane[y * chroma_stride..][..columns];
                to.resize(columns * across, 0);
                match sampling {
                    Sampling::Full => to.copy_from_slice(row(y)),
                    Sampling::Half => {
                        with_ends(&mut self.sums, row(y).iter().map(|&sample| sample.into()));
                        double::<2>(&self.sums, [1, 2], to);
                    }
                    Sampling::Quarter => {
                        // The row of samples of these pixels, and the next nearest one.
                        let both = row(near).iter().zip(row(far));
                        with_ends(
                            &mut self.sums,
                            both.map(|(&near, &far)| u16::from(near) * 3 + u16::from(far)),
                        );
                        double::<4>(&self.sums, [8, 7], to);
                    }
                }
            }
            let [cb, cr] = &self.chroma;
            for (((pixel, &y), &cb), &cr) in pixels.iter_mut().zip(luma).zip(cb).zip(cr) {
                *pixel = color(y, cb, cr);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Size {
    width: usize,
    height: usize,
}

/// Upsamples by two: each output is three quarters of the nearest sample and one quarter of the
/// next nearest. `sums` are samples, or sums of them, with the first and last one repeated; `SHIFT`
/// divides them, and the two outputs of each sample are rounded in different directions.
#[inline(always)]
fn double<const SHIFT: u32>(sums: &[u16], round: [u16; 2], out: &mut [u8]) {
    let (before, this, after) = (sums, &sums[1..], &sums[2..]);
    let triples = before.iter().zip(this).zip(after);
    for (pair, ((before, this), after)) in out.as_chunks_mut::<2>().0.iter_mut().zip(triples) {
        *pair = [(this * 3 + before + round[0]) >> SHIFT, (this * 3 + after + round[1]) >> SHIFT]
            .map(|new| new as u8);
    }
}

/// Copies samples, with the first and the last one repeated.
fn with_ends(sums: &mut Vec<u16>, samples: impl ExactSizeIterator<Item = u16>) {
    let len = samples.len();
    sums.resize(len + 2, 0);
    for (to, sample) in sums[1..].iter_mut().zip(samples) {
        *to = sample;
    }
    (sums[0], sums[len + 1]) = (sums[1], sums[len]);
}

/// ITU T.871's colour conversion with 16 fractional bits.
#[inline(always)]
fn color(y: u8, cb: u8, cr: u8) -> u32 {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((91_881 * cr + HALF) >> 16);
    let green = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
    let blue = y + ((116_130 * cb + HALF) >> 16);
    let byte = |channel: i32| channel.clamp(0, 255) as u32;
    OPAQUE | byte(red) << 16 | byte(green) << 8 | byte(blue)
}

/// Position of each coefficient in a block, in the order of the scan (by frequency).
#[rustfmt::skip]
const ZIGZAG: [u8; 64] = [
     0,  1,  8, 16,  9,  2,  3, 10, 17, 24, 32, 25, 18, 11,  4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,  6,  7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Coefficients of 8 x 8 samples, rows without padding.
struct Block {
    coefficients: [i32; 64],
    /// All but the first, the mean, are 0.
    flat: bool,
}

/// 2047: largest dequantized coefficient of 8-bit samples; larger ones are damaged, and clamped.
const COEFFICIENT_MAX: i32 = 2047;

impl Block {
    fn decode(
        bits: &mut Bits<'_>,
        tables: &Tables,
        kind: usize,
        quant: &[u8; 64],
        before: &mut i32,
    ) -> Result<Block, DecodeError> {
        let (dc, ac) = (&tables.0[kind * 2], &tables.0[kind * 2 + 1]);
        let mut coefficients = [0; 64];
        let mut flat = true;
        bits.refill()?;
        let size = bits.symbol(dc)?;
        *before += bits.value(size)?;
        if before.abs() > COEFFICIENT_MAX {
            return Err(DecodeError::Jpeg);
        }
        let scale = |value: i32, i: usize| {
            (value * i32::from(quant[i])).clamp(-COEFFICIENT_MAX, COEFFICIENT_MAX)
        };
        coefficients[0] = scale(*before, 0);
        let mut i = 1;
        while i < 64 {
            bits.refill()?;
            let symbol = bits.symbol(ac)?;
            let (zeros, size) = (usize::from(symbol >> 4), symbol & 15);
            match (zeros, size) {
                (0, 0) => break,
                (15, 0) => i += 16,
                _ => {
                    i += zeros;
                    let to = *ZIGZAG.get(i).ok_or(DecodeError::Jpeg)? as usize;
                    coefficients[to] = scale(bits.value(size)?, i);
                    flat = false;
                    i += 1;
                }
            }
        }
        if i > 64 {
            return Err(DecodeError::Jpeg);
        }
        Ok(Block { coefficients, flat })
    }

    /// Computes the samples, eight rows `stride` apart, with libjpeg's accurate integer transform
    /// (Loeffler, Ligtenberg and Moschytz 1989), so that the results equal libjpeg-turbo's.
    fn samples(&self, out: &mut [u8], stride: usize) {
        let sample = |value: i32| (value + 128).clamp(0, 255) as u8;
        if self.flat {
            let mean = sample((self.coefficients[0] + 4) >> 3);
            return out.chunks_mut(stride).take(8).for_each(|row| row[..8].fill(mean));
        }
        let mut columns = [[0; 8]; 8];
        let row = |y: usize| -> [i32; 8] {
            self.coefficients[y * 8..][..8].try_into().expect("a row has 8 of 64 coefficients")
        };
        transform::<11>([0, 1, 2, 3, 4, 5, 6, 7].map(row), &mut columns);
        let mut rows = [[0; 8]; 8];
        transform::<18>(transposed(&columns), &mut rows);
        for (row, samples) in out.chunks_mut(stride).zip(transposed(&rows)) {
            let row: &mut [u8; 8] = row.first_chunk_mut().expect("rows must have whole blocks");
            for x in 0..8 {
                row[x] = sample(samples[x]);
            }
        }
    }
}

/// Transposes a block.
#[inline(always)]
fn transposed(rows: &[[i32; 8]; 8]) -> [[i32; 8]; 8] {
    let mut out = [[0; 8]; 8];
    for (y, row) in rows.iter().enumerate() {
        for (x, value) in row.iter().enumerate() {
            out[x][y] = *value;
        }
    }
    out
}

/// Eight inverse transforms side by side: `out[k][i]` is sample k of the one whose coefficients are
/// `rows[0 .. 8][i]`, shifted down by `SHIFT`. Overflows by damaged data wrap in every build.
#[inline(always)]
fn transform<const SHIFT: u32>(rows: [[i32; 8]; 8], out: &mut [[i32; 8]; 8]) {
    use std::num::Wrapping as W;
    for i in 0..8 {
        let c = |k: usize| W(rows[k][i]);
        let z1 = (c(2) + c(6)) * W(4433);
        let (even2, even3) = (z1 - c(6) * W(15137), z1 + c(2) * W(6270));
        let (even0, even1) = ((c(0) + c(4)) << 13, (c(0) - c(4)) << 13);
        let even = [even0 + even3, even1 + even2, even1 - even2, even0 - even3];
        let (z1, z2, z3, z4) = (c(7) + c(1), c(5) + c(3), c(7) + c(3), c(5) + c(1));
        let z5 = (z3 + z4) * W(9633);
        let (z1, z2) = (z1 * W(-7373), z2 * W(-20995));
        let (z3, z4) = (z3 * W(-16069) + z5, z4 * W(-3196) + z5);
        let odd = [
            c(1) * W(12299) + z1 + z4,
            c(3) * W(25172) + z2 + z3,
            c(5) * W(16819) + z2 + z4,
            c(7) * W(2446) + z1 + z3,
        ];
        let round = W(1 << (SHIFT - 1));
        for k in 0..4 {
            out[k][i] = (even[k] + odd[k] + round).0 >> SHIFT;
            out[7 - k][i] = (even[k] - odd[k] + round).0 >> SHIFT;
        }
    }
}

/// Reads a scan bit by bit.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    /// The next bits, from the highest one down, followed by zeros.
    buffer: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    fn new(data: &'a [u8]) -> Bits<'a> {
        Bits { data, at: 0, buffer: 0, count: 0 }
    }

    /// Afterwards there are at least 32 bits, or all that are left; a symbol and its value have at
    /// most 27.
    #[inline(always)]
    fn refill(&mut self) -> Result<(), DecodeError> {
        if self.count >= 32 {
            return Ok(());
        }
        if let Some(&bytes) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<4>()) {
            let word = u32::from_be_bytes(bytes);
            // True if no byte is 0xff: no byte of the complement is 0.
            let zeros = !word;
            if zeros.wrapping_sub(0x0101_0101) & !zeros & 0x8080_8080 == 0 {
                self.buffer |= u64::from(word) << (32 - self.count);
                self.count += 32;
                self.at += 4;
                return Ok(());
            }
        }
        self.refill_slowly()
    }

    fn refill_slowly(&mut self) -> Result<(), DecodeError> {
        while self.count <= 56
            && let Some(&byte) = self.data.get(self.at)
        {
            self.at += 1;
            if byte == 0xff {
                if self.data.get(self.at) != Some(&0) {
                    return Err(DecodeError::Jpeg);
                }
                self.at += 1;
            }
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self, count: u32) -> Result<u64, DecodeError> {
        if count > self.count {
            return Err(DecodeError::Truncated);
        }
        // In two steps, because a count of 0 would shift by 64.
        let taken = self.buffer >> 1 >> (63 - count);
        self.buffer <<= count;
        self.count -= count;
        Ok(taken)
    }

    #[inline(always)]
    fn symbol(&mut self, table: &Table) -> Result<u8, DecodeError> {
        let mut entry = table.short[(self.buffer >> (64 - SHORT_BITS)) as usize];
        if entry.length == 0 {
            entry = table.long((self.buffer >> 48) as u16).ok_or(DecodeError::Jpeg)?;
        }
        self.take(entry.length.into())?;
        Ok(entry.symbol)
    }

    /// A signed value of `size` bits, the first of which is its sign.
    #[inline(always)]
    fn value(&mut self, size: u8) -> Result<i32, DecodeError> {
        let bits = self.take(size.into())? as i32;
        let half = (1 << size) >> 1;
        Ok(if bits < half { bits - (1 << size) + 1 } else { bits })
    }

    /// Checks that only the padding of the last byte is left.
    fn end(&mut self) -> Result<(), DecodeError> {
        self.refill_slowly()?;
        if self.count >= 8 {
            return Err(DecodeError::Trailing);
        }
        let count = self.count;
        if self.take(count)? + 1 == 1 << count { Ok(()) } else { Err(DecodeError::Jpeg) }
    }
}

/// 9 bits: codes up to this length are looked up in one step; longer ones are rare.
const SHORT_BITS: u32 = 9;

/// A code's length, 0 if there is none, and its symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    length: u8,
    symbol: u8,
}

/// A Huffman table.
struct Table {
    /// Entries by the next nine bits.
    short: [Entry; 1 << SHORT_BITS],
    /// For each length of a code: the end of its codes, shifted to 16 bits, and the index of the
    /// first one's symbol.
    lengths: [(u32, i32); 17],
    symbols: [u8; 256],
}

impl Table {
    /// Builds the table from the number of codes of each length and their symbols.
    fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<Table, DecodeError> {
        let mut table =
            Table { short: [Entry::default(); 512], lengths: [(0, 0); 17], symbols: [0; 256] };
        table.symbols.get_mut(..symbols.len()).ok_or(DecodeError::Jpeg)?.copy_from_slice(symbols);
        let (mut code, mut place) = (0u32, 0usize);
        for (length, &count) in (1u32..).zip(counts) {
            let end = code + u32::from(count);
            if end > 1 << length {
                return Err(DecodeError::Jpeg);
            }
            table.lengths[length as usize] = (end << (16 - length), place as i32 - code as i32);
            for code in code..end {
                if length <= SHORT_BITS {
                    let entry = Entry { length: length as u8, symbol: symbols[place] };
                    let spare = SHORT_BITS - length;
                    table.short[(code << spare) as usize..][..1 << spare].fill(entry);
                }
                place += 1;
            }
            code = end << 1;
        }
        Ok(table)
    }

    /// Looks up a code of more than 9 bits.
    #[cold]
    fn long(&self, bits: u16) -> Option<Entry> {
        let bits = u32::from(bits);
        let length =
            (SHORT_BITS as usize + 1..=16).find(|&length| bits < self.lengths[length].0)?;
        let place = (bits >> (16 - length)) as i32 + self.lengths[length].1;
        Some(Entry { length: length as u8, symbol: self.symbols[usize::try_from(place).ok()?] })
    }
}

/// DC and AC of luma, DC and AC of chroma.
struct Tables([Table; 4]);

impl Tables {
    /// Reads four tables, and returns the bytes after them.
    fn read(data: &[u8]) -> Result<(Tables, &[u8]), DecodeError> {
        let mut rest = data;
        let mut next = |size_max: u8| {
            let (counts, after) = rest.split_first_chunk::<16>().ok_or(DecodeError::Truncated)?;
            let len = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, after) = after.split_at_checked(len).ok_or(DecodeError::Truncated)?;
            // 8-bit samples have no values of more bits, and only some symbols have a bit count of
            // 0.
            let sound = |&symbol: &u8| match size_max {
                DC_SIZE_MAX => symbol <= DC_SIZE_MAX,
                _ => symbol & 15 <= size_max && (symbol & 15 != 0 || matches!(symbol >> 4, 0 | 15)),
            };
            if !symbols.iter().all(sound) {
                return Err(DecodeError::Jpeg);
            }
            rest = after;
            Table::new(counts, symbols)
        };
        let tables =
            [next(DC_SIZE_MAX)?, next(AC_SIZE_MAX)?, next(DC_SIZE_MAX)?, next(AC_SIZE_MAX)?];
        Ok((Tables(tables), rest))
    }

    /// The tables of T.81, K.3.
    fn standard() -> Tables {
        let (tables, _) =
            Tables::read(&STANDARD_TABLES).expect("the standard tables must be valid");
        tables
    }
}

const DC_SIZE_MAX: u8 = 11;
const AC_SIZE_MAX: u8 = 10;

/// Quantization tables of T.81, K.1 and K.2, row by row.
#[rustfmt::skip]
const LUMA: [u8; 64] = [
    16, 11, 10, 16,  24,  40,  51,  61,
    12, 12, 14, 19,  26,  58,  60,  55,
    14, 13, 16, 24,  40,  57,  69,  56,
    14, 17, 22, 29,  51,  87,  80,  62,
    18, 22, 37, 56,  68, 109, 103,  77,
    24, 35, 55, 64,  81, 104, 113,  92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103,  99,
];
#[rustfmt::skip]
const CHROMA: [u8; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
];

/// A table scaled to a quality, in the order of the scan.
fn scaled(table: &[u8; 64], quality: u8) -> [u8; 64] {
    let quality = u32::from(quality);
    let percent = if quality < 50 { 5000 / quality } else { 200 - quality * 2 };
    ZIGZAG.map(|i| ((u32::from(table[i as usize]) * percent + 50) / 100).clamp(1, 255) as u8)
}

/// The quantization tables of luma and chroma for a quality, 1 .. 100, as in a DQT segment.
pub fn quantization(quality: u8) -> [[u8; 64]; 2] {
    [LUMA, CHROMA].map(|table| scaled(&table, quality))
}

/// The Huffman tables of an image without its own, in the form of own tables.
#[rustfmt::skip]
pub const STANDARD_TABLES: [u8; 16 + 12 + 16 + 162 + 16 + 12 + 16 + 162] = [
    // DC of luma
    0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
    // AC of luma
    0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125,
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
    0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
    0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
    0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
    0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
    0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5,
    0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
    0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
    // DC of chroma
    0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
    // AC of chroma
    0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
    0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
    0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
    0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
    0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
    0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
    0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
    0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
    0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];
