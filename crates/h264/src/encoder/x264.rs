//! Beside encoder.rs: x264 at the preset that OpenH264 is measured by, superfast without latency, held to what the protocol allows.
//! x264.c stands between, for only C reads the layout of its settings.
//! Knows its rates and units; never what a picture shows.
#![expect(
    unsafe_code,
    reason = "calls of C, which this file alone makes, and an encoder that may go from thread to thread"
)]

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use thinc_video::PlanesRef;

use super::{Codes, EncodeError, Encoded, EncoderSettings};

/// 8: pictures whose bits it may spend on one, and so about the delay that a difficult one brings. A key takes most of them.
const PICTURES_HELD: u64 = 8;

/// `struct thinc_x264` of x264.c.
#[repr(C)]
struct Stream {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn thinc_x264_open(
        width: c_int,
        height: c_int,
        frames_per_second: c_int,
        kbits_per_second: c_int,
        kbits_held: c_int,
    ) -> *mut Stream;
    fn thinc_x264_set_rate(stream: *mut Stream, kbits_per_second: c_int, kbits_held: c_int) -> c_int;
    fn thinc_x264_encode(
        stream: *mut Stream,
        planes: *const [*const u8; 3],
        strides: *const [c_int; 3],
        key: *mut c_int,
        heads: *mut *const u8,
        heads_bytes: *mut c_int,
        data: *mut *const u8,
    ) -> c_int;
    fn thinc_x264_close(stream: *mut Stream);
}

/// One stream.
pub(super) struct X264 {
    stream: NonNull<Stream>,
    /// x264 reckons with one count of pictures a second for as long as it lives: another one becomes another rate.
    frames_per_second: u32,
    applied: EncoderSettings,
}

// SAFETY: an encoder of x264's with one thread keeps nothing of the thread that opened it, and `&mut self` lets one thread call it at a time.
unsafe impl Send for X264 {}

// SAFETY: nothing can be done with a shared one.
unsafe impl Sync for X264 {}

impl X264 {
    pub(super) fn new(settings: &EncoderSettings) -> Result<X264, EncodeError> {
        let size = crate::coded_size(settings.size);
        let frames_per_second = settings.frames_per_second;
        let (rate, held) = rates(settings, frames_per_second);
        // SAFETY: takes numbers alone, within what x264 takes: `fits` said so of the size, `within` of the rates.
        let stream = unsafe {
            thinc_x264_open(size.width as c_int, size.height as c_int, frames_per_second as c_int, rate, held)
        };
        let stream = NonNull::new(stream).ok_or_else(|| EncodeError::Library("x264 does not begin".into()))?;
        Ok(X264 { stream, frames_per_second, applied: *settings })
    }
}

impl Codes for X264 {
    fn encode(
        &mut self,
        picture: &PlanesRef<'_>,
        settings: &EncoderSettings,
        key: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError> {
        if self.applied != *settings {
            let (rate, held) = rates(settings, self.frames_per_second);
            // SAFETY: the stream is open until it is dropped, and `&mut self` keeps others out.
            let status = unsafe { thinc_x264_set_rate(self.stream.as_ptr(), rate, held) };
            if status < 0 {
                return Err(EncodeError::Library(format!("x264: a rate of {rate} kbit/s: status {status}")));
            }
            self.applied = *settings;
        }
        assert_eq!(picture.size(), crate::coded_size(settings.size), "a picture of the stream's size");
        let planes = [0, 1, 2].map(|plane| picture.plane(plane));
        let strides = planes.map(|(_, stride)| stride as c_int);
        let planes = planes.map(|(samples, _)| samples.as_ptr());
        let mut key = c_int::from(key);
        let (mut heads, mut heads_bytes, mut data) = (ptr::null(), 0, ptr::null());
        // SAFETY: the stream is open; it was opened for pictures of this size, and a `PlanesRef` has checked that each plane has all samples of it with its
        // stride, of which x264 makes a copy. The rest are places for what it gives back.
        let bytes = unsafe {
            thinc_x264_encode(
                self.stream.as_ptr(),
                &planes,
                &strides,
                &mut key,
                &mut heads,
                &mut heads_bytes,
                &mut data,
            )
        };
        if bytes < 0 {
            return Err(EncodeError::Library(format!("x264: status {bytes}")));
        }
        if bytes == 0 {
            return Err(EncodeError::NoPicture);
        }
        let key = key != 0;
        if key {
            // SAFETY: so many bytes lie there for as long as the stream is open.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(heads, heads_bytes as usize) });
        }
        // SAFETY: x264 gives a picture's units one behind the other, this many bytes together, and leaves them until its next call.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(data, bytes as usize) });
        Ok(Encoded { key })
    }
}

impl Drop for X264 {
    fn drop(&mut self) {
        // SAFETY: it was opened, and nothing calls it again.
        unsafe { thinc_x264_close(self.stream.as_ptr()) }
    }
}

/// kbit/s, and kbits that may come at once, for an encoder that reckons with so many pictures a second.
fn rates(settings: &EncoderSettings, frames_per_second: u32) -> (c_int, c_int) {
    let told = settings.bits_per_second * u64::from(frames_per_second) / u64::from(settings.frames_per_second);
    let held = settings.bits_per_second * PICTURES_HELD / u64::from(settings.frames_per_second);
    let kbits = |bits: u64| (bits / 1000).clamp(1, 2_000_000) as c_int;
    (kbits(told), kbits(held))
}
