//! Beside encoder.rs: x264 with the preset superfast and the tuning zerolatency, restricted to what
//! the protocol allows. It is called through x264.c, because only C knows the layout of its
//! settings. Knows its rates and units; never what a frame shows.
#![expect(
    unsafe_code,
    reason = "calls of C, which this file alone makes, and an encoder that may go from thread to \
        thread"
)]

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use thinc_video::PlanesRef;

use super::{Codes, EncodeError, Encoded, EncoderSettings};

/// 8 frames: size of the rate control's buffer, and so about the delay that a difficult frame
/// causes. A keyframe takes most of it.
const BUFFER_FRAMES: u64 = 8;

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
        buffer_kbits: c_int,
    ) -> *mut Stream;
    fn thinc_x264_set_rate(
        stream: *mut Stream,
        kbits_per_second: c_int,
        buffer_kbits: c_int,
    ) -> c_int;
    fn thinc_x264_encode(
        stream: *mut Stream,
        planes: *const [*const u8; 3],
        strides: *const [c_int; 3],
        keyframe: *mut c_int,
        headers: *mut *const u8,
        headers_bytes: *mut c_int,
        data: *mut *const u8,
    ) -> c_int;
    fn thinc_x264_close(stream: *mut Stream);
}

/// One stream's encoder.
pub(super) struct X264 {
    stream: NonNull<Stream>,
    /// x264 has a fixed frame rate during its life; another frame rate is converted to another bit
    /// rate.
    frames_per_second: u32,
    applied: EncoderSettings,
}

// SAFETY: an x264 encoder with one thread keeps no state of the thread that opened it, and `&mut
// self` lets one thread call it at a time.
unsafe impl Send for X264 {}

// SAFETY: there is no method on a shared reference.
unsafe impl Sync for X264 {}

impl X264 {
    pub(super) fn new(settings: &EncoderSettings) -> Result<X264, EncodeError> {
        let size = crate::coded_size(settings.size);
        let frames_per_second = settings.frames_per_second;
        let (rate, held) = rates(settings, frames_per_second);
        // SAFETY: it takes only numbers, within x264's limits: `fits` has checked the size,
        // `within` the rates.
        let stream = unsafe {
            thinc_x264_open(
                size.width as c_int,
                size.height as c_int,
                frames_per_second as c_int,
                rate,
                held,
            )
        };
        let stream = NonNull::new(stream)
            .ok_or_else(|| EncodeError::Library("x264 does not begin".into()))?;
        Ok(X264 { stream, frames_per_second, applied: *settings })
    }
}

impl Codes for X264 {
    fn encode(
        &mut self,
        frame: &PlanesRef<'_>,
        settings: &EncoderSettings,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError> {
        if self.applied != *settings {
            let (rate, held) = rates(settings, self.frames_per_second);
            // SAFETY: the stream is open until it is dropped, and `&mut self` excludes other calls.
            let status = unsafe { thinc_x264_set_rate(self.stream.as_ptr(), rate, held) };
            if status < 0 {
                return Err(EncodeError::Library(format!(
                    "x264: a rate of {rate} kbit/s: status {status}"
                )));
            }
            self.applied = *settings;
        }
        assert_eq!(frame.size(), crate::coded_size(settings.size), "a frame of the stream's size");
        let planes = [0, 1, 2].map(|plane| frame.plane(plane));
        let strides = planes.map(|(_, stride)| stride as c_int);
        let planes = planes.map(|(samples, _)| samples.as_ptr());
        let mut keyframe = c_int::from(keyframe);
        let (mut headers, mut headers_bytes, mut data) = (ptr::null(), 0, ptr::null());
        // SAFETY: the stream is open, for frames of this size; `PlanesRef` has checked that each
        // plane has all its samples with its stride, and x264 copies them. The other pointers are
        // to outputs.
        let bytes = unsafe {
            thinc_x264_encode(
                self.stream.as_ptr(),
                &planes,
                &strides,
                &mut keyframe,
                &mut headers,
                &mut headers_bytes,
                &mut data,
            )
        };
        if bytes < 0 {
            return Err(EncodeError::Library(format!("x264: status {bytes}")));
        }
        if bytes == 0 {
            return Err(EncodeError::NoFrame);
        }
        let keyframe = keyframe != 0;
        if keyframe {
            // SAFETY: so many bytes are there while the stream is open.
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(headers, headers_bytes as usize)
            });
        }
        // SAFETY: x264 returns a frame's units contiguously, this many bytes in total, and keeps
        // them until its next call.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(data, bytes as usize) });
        Ok(Encoded { keyframe })
    }
}

impl Drop for X264 {
    fn drop(&mut self) {
        // SAFETY: it is open, and nothing calls it again.
        unsafe { thinc_x264_close(self.stream.as_ptr()) }
    }
}

/// Bit rate in kbit/s and buffer size in kbit, for an encoder with this fixed frame rate.
fn rates(settings: &EncoderSettings, frames_per_second: u32) -> (c_int, c_int) {
    let told = settings.bits_per_second * u64::from(frames_per_second)
        / u64::from(settings.frames_per_second);
    let held = settings.bits_per_second * BUFFER_FRAMES / u64::from(settings.frames_per_second);
    let kbits = |bits: u64| (bits / 1000).clamp(1, 2_000_000) as c_int;
    (kbits(told), kbits(held))
}
