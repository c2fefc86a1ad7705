//! Three bytes a pixel through one zlib context that is flushed after each picture, as VNC's encodings do it.
//! Knows deflate; never pictures.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use thinc_bench::Error;
use zlib_rs::{Deflate, DeflateFlush};

use crate::codec::Codec;
use crate::samples::{Sample, pixels_of_rgb};

/// A context at each end, of the zlib that VNC's servers are linked with.
pub(crate) struct Stream {
    deflate: Compress,
    inflate: Inflate,
}

impl Stream {
    pub(crate) fn new() -> Stream {
        Stream { deflate: Compress::new(Compression::new(1), true), inflate: Inflate::new() }
    }

    /// Appends `bytes`, packed and flushed.
    pub(crate) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let begun = self.deflate.total_in();
        loop {
            out.reserve(bytes.len() / 4 + 64);
            let at = (self.deflate.total_in() - begun) as usize;
            self.deflate.compress_vec(&bytes[at..], out, FlushCompress::Sync)?;
            // A flush that found room left over has written everything.
            if (self.deflate.total_in() - begun) as usize == bytes.len() && out.len() < out.capacity() {
                return Ok(());
            }
        }
    }

    /// Replaces `out` with the next `len` bytes.
    pub(crate) fn unpack(&mut self, bytes: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        self.inflate.next(bytes, len, out)
    }
}

/// The receiving end.
struct Inflate(Decompress);

impl Inflate {
    fn new() -> Inflate {
        Inflate(Decompress::new(true))
    }

    fn next(&mut self, bytes: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let begun = self.0.total_in();
        out.clear();
        // A byte more than is wanted: what comes too much shows itself, and a flush's last bits are read.
        out.reserve(len + 1);
        self.0.decompress_vec(bytes, out, FlushDecompress::Sync)?;
        let read = (self.0.total_in() - begun) as usize;
        if out.len() == len && read == bytes.len() { Ok(()) } else { Err("not what was packed".into()) }
    }
}

/// zlib itself.
pub(crate) struct Zlib {
    stream: Stream,
    rgb: Vec<u8>,
}

impl Zlib {
    pub(crate) fn new() -> Zlib {
        Zlib { stream: Stream::new(), rgb: Vec::new() }
    }
}

impl Codec for Zlib {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        sample.rgb(&mut self.rgb);
        out.clear();
        self.stream.pack(&self.rgb, out)
    }

    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        self.stream.unpack(bytes, width * height * 3, &mut self.rgb)?;
        pixels_of_rgb(&self.rgb, pixels);
        Ok(())
    }
}

/// zlib-ng's way to deflate, as zlib-rs has it.
pub(crate) struct ZlibNg {
    deflate: Deflate,
    inflate: Inflate,
    rgb: Vec<u8>,
}

/// 32 KiB: deflate's largest window, and zlib's default.
const WINDOW_BITS: u8 = 15;

impl ZlibNg {
    pub(crate) fn new() -> ZlibNg {
        ZlibNg { deflate: Deflate::new(1, true, WINDOW_BITS), inflate: Inflate::new(), rgb: Vec::new() }
    }
}

impl Codec for ZlibNg {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        sample.rgb(&mut self.rgb);
        let (begun_in, begun_out) = (self.deflate.total_in(), self.deflate.total_out());
        out.clear();
        loop {
            let read = (self.deflate.total_in() - begun_in) as usize;
            let written = (self.deflate.total_out() - begun_out) as usize;
            if read == self.rgb.len() && written < out.len() {
                out.truncate(written);
                return Ok(());
            }
            out.resize(written + self.rgb.len() / 4 + 64, 0);
            self.deflate
                .compress(&self.rgb[read..], &mut out[written..], DeflateFlush::SyncFlush)
                .map_err(DeflateError)?;
        }
    }

    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        self.inflate.next(bytes, width * height * 3, &mut self.rgb)?;
        pixels_of_rgb(&self.rgb, pixels);
        Ok(())
    }
}

/// In words.
#[derive(Debug)]
struct DeflateError(zlib_rs::DeflateError);

impl std::fmt::Display for DeflateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl std::error::Error for DeflateError {}
