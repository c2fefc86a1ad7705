//! Path 11/13: from viewer-core/decode.rs, to viewer-core/framebuffer.rs.
//! Decodes pixels for viewers into rows of a framebuffer. Any bytes yield an error or fill exactly
//! their rectangle.
//! Knows bytes and one rectangle's size; never where the rectangle lies.
#![forbid(unsafe_code)]

pub mod bitmap;
pub mod columns;
pub mod context;
pub mod cursor;
pub mod jpeg;
pub mod predicted;
pub mod residuals;
pub mod stream;

use thinc_protocol::command::{BitmapDepth, Compression, Encoding};

pub use stream::StreamUnpacker;

/// The top byte of a decoded pixel: opaque, so that rows can be presented unchanged.
pub const OPAQUE: u32 = 0xff00_0000;
/// Mask of the significant bits of a pixel.
pub const RGB: u32 = 0x00ff_ffff;

/// Why encoded pixels are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The data ends before the rectangle is full.
    #[error("the data of a rectangle's pixels is truncated")]
    Truncated,
    /// Data is left after the rectangle is full.
    #[error("the data of a rectangle's pixels is longer than the rectangle")]
    Trailing,
    /// A run exceeds the rectangle, or there are more pixels of a kind than declared.
    #[error("a run of pixels exceeds its rectangle")]
    Run,
    /// An operation that this version does not define.
    #[error("the pixel operation {0:#04x} is not defined")]
    Operation(u8),
    /// Not an image, or not of this size.
    #[error("the JPEG image is damaged")]
    Jpeg,
    /// Not one complete zstd frame, or one that does not declare its size.
    #[error("the zstd frame is damaged")]
    Zstd,
    /// The zstd frame declares more or fewer bytes than allowed.
    #[error("the zstd frame declares {value} bytes; the limit is {limit}")]
    ZstdSize {
        /// The declared size.
        value: u64,
        /// The largest size allowed.
        limit: u64,
    },
    /// A packed update does not continue its connection's stream.
    #[error("the packed update is damaged, or an earlier one is missing")]
    Stream,
    /// A packed update declares no bytes, or more than allowed.
    #[error("the packed update declares {0} bytes")]
    StreamSize(u64),
}

/// Decodes pixels; it reuses its scratch memory and the zstd context.
///
/// Every destination is `dst` with `stride` pixels from one row to the next, the rectangle's first
/// pixel at `dst[0]`; pixels are 0xFFRRGGBB. On an error some rows may have been written.
pub struct Decoder {
    zstd: zstd_safe::DCtx<'static>,
    /// Content of a zstd frame.
    bytes: Vec<u8>,
    /// One rectangle's pixels without a stride, after the black ones before the first pixel.
    pixels: Vec<u32>,
    contexts: context::Contexts,
    rows: residuals::Rows,
    tables: columns::Tables,
    /// Samples of JPEG images.
    images: jpeg::Images,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Decoder({} bytes, {} pixels of scratch)",
            self.bytes.capacity(),
            self.pixels.capacity()
        )
    }
}

/// 5 MiB: most scratch memory kept after a larger rectangle; codec-enc splits above 1 Mi pixels.
const SCRATCH_BYTES_KEPT: usize = 5 * 1024 * 1024;

impl Decoder {
    /// Allocates no scratch memory yet.
    pub fn new() -> Decoder {
        Decoder {
            zstd: zstd_safe::DCtx::create(),
            bytes: Vec::new(),
            pixels: Vec::new(),
            contexts: context::Contexts::default(),
            rows: residuals::Rows::default(),
            tables: columns::Tables::default(),
            images: jpeg::Images::default(),
        }
    }

    /// Decodes a RAW of `width` × `height` pixels.
    ///
    /// # Errors
    /// If the data is not exactly this many pixels.
    ///
    /// # Panics
    /// If `dst` is too small for the rectangle: the caller has to check it against the framebuffer.
    pub fn raw(
        &mut self,
        encoding: Encoding,
        data: &[u8],
        (width, height): (usize, usize),
        dst: &mut [u32],
        stride: usize,
    ) -> Result<(), DecodeError> {
        assert_fits(width, height, dst.len(), stride);
        if encoding == Encoding::Plain {
            return plain(data, width, rows_mut(dst, width, height, stride));
        }
        // Operations continue across row ends, so rows with a stride are decoded to scratch memory
        // first.
        let mut scratch = std::mem::take(&mut self.pixels);
        let result = self.pixels(encoding, data, (width, height), &mut scratch).map(|pixels| {
            for (row, pixels) in
                rows_mut(dst, width, height, stride).zip(pixels.chunks_exact(width.max(1)))
            {
                row.copy_from_slice(pixels);
            }
        });
        self.pixels = scratch;
        self.trim();
        result
    }

    /// Replaces `tile` with the decoded tile of `width` × `height` pixels of a PFILL.
    ///
    /// # Errors
    /// If the data is not exactly this many pixels.
    pub fn tile(
        &mut self,
        encoding: Encoding,
        data: &[u8],
        (width, height): (usize, usize),
        tile: &mut Vec<u32>,
    ) -> Result<(), DecodeError> {
        let mut scratch = std::mem::take(&mut self.pixels);
        let result = self.pixels(encoding, data, (width, height), &mut scratch).map(|pixels| {
            tile.clear();
            tile.extend_from_slice(pixels);
        });
        self.pixels = scratch;
        result
    }

    /// Decodes a BITMAP of `width` × `height` pixels; `colors` are foreground and background.
    ///
    /// # Errors
    /// If the data is not exactly this many pixels.
    ///
    /// # Panics
    /// If `dst` is too small for the rectangle.
    pub fn bitmap(
        &mut self,
        depth: BitmapDepth,
        compression: Compression,
        data: &[u8],
        colors: (u32, u32),
        (width, height): (usize, usize),
        dst: &mut [u32],
        stride: usize,
    ) -> Result<(), DecodeError> {
        assert_fits(width, height, dst.len(), stride);
        let row_len = match depth {
            BitmapDepth::One => width.div_ceil(8),
            BitmapDepth::Eight => width,
        };
        let mut bytes = std::mem::take(&mut self.bytes);
        let data = match compression {
            Compression::Plain => Ok(data),
            Compression::Zstd => {
                self.unzstd(data, row_len * height, &mut bytes).map(|()| &bytes[..])
            }
        };
        let result = data.and_then(|data| {
            exact_len(data, row_len * height)?;
            let rows = rows_mut(dst, width, height, stride).zip(data.chunks_exact(row_len.max(1)));
            match depth {
                BitmapDepth::One => rows.for_each(|(row, bits)| bitmap::choose(bits, colors, row)),
                BitmapDepth::Eight => {
                    let blend = bitmap::Blend::new(colors.0, colors.1);
                    rows.for_each(|(row, coverage)| blend.row(coverage, row));
                }
            }
            Ok(())
        });
        self.bytes = bytes;
        self.trim();
        result
    }

    /// Replaces `planes` with the decoded planes of a two-colour cursor.
    ///
    /// # Errors
    /// If the data is not exactly two planes of this size.
    pub fn cursor_planes(
        &mut self,
        compression: Compression,
        data: &[u8],
        size: (usize, usize),
        planes: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let len = cursor::planes_len(size);
        match compression {
            Compression::Plain => {
                exact_len(data, len)?;
                planes.clear();
                planes.extend_from_slice(data);
                Ok(())
            }
            Compression::Zstd => self.unzstd(data, len, planes),
        }
    }

    /// Replaces `out` with the content of one zstd frame of exactly `len` bytes.
    ///
    /// # Errors
    /// If it is not one complete frame that declares that size in its header.
    pub fn unzstd(
        &mut self,
        data: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let held = self.unzstd_at_most(data, len, out)?;
        if held != len {
            return Err(DecodeError::ZstdSize { value: held as u64, limit: len as u64 });
        }
        Ok(())
    }

    /// The same for a frame of at most `limit` bytes; returns its length.
    fn unzstd_at_most(
        &mut self,
        data: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, DecodeError> {
        let Ok(Some(value)) = zstd_safe::get_frame_content_size(data) else {
            return Err(DecodeError::Zstd);
        };
        // Checked before memory is allocated.
        let len = usize::try_from(value).ok().filter(|&len| len <= limit);
        let len = len.ok_or(DecodeError::ZstdSize { value, limit: limit as u64 })?;
        if zstd_safe::find_frame_compressed_size(data) != Ok(data.len()) {
            return Err(DecodeError::Zstd);
        }
        out.resize(len, 0);
        match self.zstd.decompress(&mut out[..], data) {
            Ok(written) if written == len => Ok(len),
            _ => Err(DecodeError::Zstd),
        }
    }

    /// Decodes to rows without padding, and lends them.
    fn pixels<'s>(
        &mut self,
        encoding: Encoding,
        data: &[u8],
        (width, height): (usize, usize),
        scratch: &'s mut Vec<u32>,
    ) -> Result<&'s [u32], DecodeError> {
        let lead = match encoding {
            Encoding::Predicted | Encoding::PredictedZstd => context::padding_len(width),
            Encoding::Plain | Encoding::Residuals | Encoding::Jpeg | Encoding::Columns => 0,
        };
        scratch.resize(lead + width * height, 0);
        let mut bytes = std::mem::take(&mut self.bytes);
        let result = match encoding {
            Encoding::Plain => plain(data, width, scratch.chunks_exact_mut(width.max(1))),
            Encoding::Predicted => predicted::decode(data, width, &mut self.contexts, scratch),
            Encoding::Columns => self.tables.decode(data, width, scratch),
            Encoding::Jpeg => self.images.decode(data, width, scratch),
            Encoding::PredictedZstd => {
                let limit = width * height * predicted::PIXEL_BYTES_MAX;
                self.unzstd_at_most(data, limit, &mut bytes)
                    .and_then(|_| predicted::decode(&bytes, width, &mut self.contexts, scratch))
            }
            Encoding::Residuals => residuals::Head::read(data, width * height).and_then(|head| {
                self.unzstd_at_most(
                    &data[head.len..],
                    width * height * residuals::PIXEL_BYTES_MAX,
                    &mut bytes,
                )?;
                self.rows.decode(&head, &bytes, width, scratch)
            }),
        };
        self.bytes = bytes;
        result.map(|()| &scratch[lead..])
    }

    /// Frees the memory that an unusually large rectangle needed.
    fn trim(&mut self) {
        if self.bytes.capacity() > SCRATCH_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        if self.pixels.capacity() > SCRATCH_BYTES_KEPT / 4 {
            self.pixels = Vec::new();
        }
        if self.images.capacity() > SCRATCH_BYTES_KEPT {
            self.images = jpeg::Images::default();
        }
    }
}

fn assert_fits(width: usize, height: usize, len: usize, stride: usize) {
    let needed = if height == 0 { 0 } else { (height - 1) * stride + width };
    assert!(
        width <= stride && needed <= len,
        "{width}x{height} pixels fit {len} with a stride of {stride}"
    );
}

fn exact_len(data: &[u8], len: usize) -> Result<(), DecodeError> {
    match data.len().cmp(&len) {
        std::cmp::Ordering::Less => Err(DecodeError::Truncated),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(DecodeError::Trailing),
    }
}

/// The rows of a rectangle.
fn rows_mut(
    dst: &mut [u32],
    width: usize,
    height: usize,
    stride: usize,
) -> impl ExactSizeIterator<Item = &mut [u32]> {
    dst.chunks_mut(stride.max(1)).take(height).map(move |row| &mut row[..width])
}

/// Decodes three bytes per pixel: blue, green, red.
fn plain<'d>(
    data: &[u8],
    width: usize,
    rows: impl ExactSizeIterator<Item = &'d mut [u32]>,
) -> Result<(), DecodeError> {
    exact_len(data, rows.len() * width * 3)?;
    for (row, bytes) in rows.zip(data.chunks_exact((width * 3).max(1))) {
        for (pixel, bgr) in row.iter_mut().zip(bytes.as_chunks::<3>().0) {
            *pixel = OPAQUE | u32::from_le_bytes([bgr[0], bgr[1], bgr[2], 0]);
        }
    }
    Ok(())
}
