//! Path 11/13: an access unit becomes a frame of samples. A stream is a pipeline of one decoder; a
//! unit is pushed, its frame pulled before the next. The unit was checked in Rust before it came
//! here (h264/src/syntax.rs, gpu-video/src/av1.rs). Knows formats of samples; never what a frame
//! shows.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::{AppSink, AppSrc};
use gstreamer_video as gst_video;
use gstreamer_video::prelude::*;
use rustix::io::pwritev;
use thinc_gpu_video::message::{Answer, Rates, UNIT_AT};
use thinc_protocol::video::FrameCodec;
use thinc_region::Size;

use crate::elements::{Element, formats, media, profiles, raw, set};
use crate::memory;
use crate::stream::{Coder, FRAME_WAIT, Pipeline};

/// 40 ms between the times that units get: they only tell the frames apart.
const UNIT_TIME: gst::ClockTime = gst::ClockTime::from_mseconds(40);
/// 1024: rows that one system call writes (IOV_MAX of Linux).
const ROWS_MAX: usize = 1024;

/// What makes a decoder return each frame with its unit; each maker's element has some of these.
const PROPERTIES: [(&str, &str); 5] = [
    // FFmpeg's, which keeps back a frame for each thread otherwise.
    ("thread-type", "slice"),
    ("compliance", "flexible"),
    ("max-display-delay", "0"),
    ("automatic-request-sync-points", "false"),
    ("max-errors", "0"),
];

/// Decoders of streams.
pub(crate) struct Decoders {
    element: Element,
    /// Working memory: the planes of chroma.
    chroma: Vec<u8>,
}

/// The pipeline of one stream.
pub(crate) struct Stream {
    /// Held as long as the stream: it ends when it is dropped.
    _pipeline: Pipeline,
    source: AppSrc,
    sink: AppSink,
    size: Size,
    /// Units that were pushed.
    units: u64,
}

impl Decoders {
    pub(crate) fn new(element: Element) -> Decoders {
        Decoders { element, chroma: Vec::new() }
    }
}

impl Coder for Decoders {
    type Stream = Stream;

    fn open(&mut self, size: Size, _rates: Rates) -> Option<Stream> {
        let codec = self.element.codec();
        let coded = gst::Caps::builder(media(codec));
        let (coded, parser) = match codec {
            FrameCodec::H264 | FrameCodec::H264Yuv444 => {
                let coded = coded.field("stream-format", "byte-stream").field("alignment", "au");
                (coded.field("profile", profiles(codec)[0]), "h264parse")
            }
            FrameCodec::Av1 => {
                let coded = coded.field("stream-format", "obu-stream").field("alignment", "tu");
                (coded.field("profile", "main"), "av1parse")
            }
        };
        let coded = coded
            .field("parsed", true)
            .field("width", size.width.cast_signed())
            .field("height", size.height.cast_signed())
            .field("framerate", gst::Fraction::new(0, 1))
            .build();
        let source = AppSrc::builder().caps(&coded).format(gst::Format::Time).is_live(true).build();
        // Some elements want to know more of a stream than is said above.
        let parser = match self.element.takes_coded(&coded) {
            true => None,
            false => Some(gst::ElementFactory::make(parser).build().ok()?),
        };
        let decoder = self.element.make()?;
        for (property, value) in PROPERTIES {
            set(&decoder, property, value);
        }
        // Of the system's memory: what is in a GPU's is copied out by the decoder.
        let sink = AppSink::builder().caps(&raw(formats(codec))).sync(false).build();
        let elements: Vec<&gst::Element> = [Some(source.upcast_ref()), parser.as_ref()]
            .into_iter()
            .flatten()
            .chain([&decoder, sink.upcast_ref()])
            .collect();
        let pipeline = Pipeline::of(&elements)?;
        pipeline.play()?;
        Some(Stream { _pipeline: pipeline, source, sink, size, units: 0 })
    }

    fn next(
        &mut self,
        stream: &mut Stream,
        memory: BorrowedFd<'_>,
        bytes: usize,
        _rates: Rates,
        _keyframe: bool,
    ) -> Option<Answer> {
        let time = UNIT_TIME * stream.units;
        stream.units += 1;
        stream.source.push_buffer(read(memory, bytes, time)?).ok()?;
        let Some(sample) = stream.sink.try_pull_sample(FRAME_WAIT) else {
            // A decoder that has failed ends the pipeline; another one keeps frames back.
            return (!stream.sink.is_eos()).then_some(Answer::Refused);
        };
        if sample.buffer()?.pts() != Some(time) {
            return None;
        }
        self.write(&sample, stream.size, memory)?;
        Some(Answer::Done { bytes: 0, keyframe: false })
    }
}

impl Decoders {
    /// Writes a frame's planes without padding; None if it is not of this size.
    fn write(&mut self, sample: &gst::Sample, size: Size, memory: BorrowedFd<'_>) -> Option<()> {
        let buffer = sample.buffer()?;
        let info = gst_video::VideoInfo::from_caps(sample.caps()?).ok()?;
        let crop = buffer.meta::<gst_video::VideoCropMeta>().map(|crop| crop.rect());
        let (x, y, width, height) = crop.unwrap_or((0, 0, info.width(), info.height()));
        if (Size { width, height }) != size || (x | y) & 1 != 0 {
            return None;
        }
        let frame = gst_video::VideoFrameRef::from_buffer_ref_readable(buffer, &info).ok()?;
        let [x, y, width, height] = [x, y, width, height].map(|edge| edge as usize);
        let plane = |number: u32, (x, y): (usize, usize), (bytes, rows): (usize, usize)| {
            let stride = usize::try_from(*frame.plane_stride().get(number as usize)?).ok()?;
            let data = frame.plane_data(number).ok()?;
            Some(Plane { data, stride, x, y, bytes, rows })
        };
        let (half, luma) = ((width / 2, height / 2), (width * height) as u64);
        plane(0, (x, y), (width, height))?.write(memory, 0)?;
        match frame.format() {
            gst_video::VideoFormat::Nv12 => {
                let both = plane(1, (x, y / 2), (width, half.1))?;
                self.chroma.resize(2 * half.0 * half.1, 0);
                let (blue, red) = self.chroma.split_at_mut(half.0 * half.1);
                let out = blue.chunks_exact_mut(half.0).zip(red.chunks_exact_mut(half.0));
                for (y, (blue, red)) in out.enumerate() {
                    let pairs = both.row(y)?.as_chunks().0;
                    for (&pair, (blue, red)) in pairs.iter().zip(blue.iter_mut().zip(red)) {
                        [*blue, *red] = pair;
                    }
                }
                let (bytes, data) = (self.chroma.len(), &self.chroma[..]);
                Plane { data, stride: bytes, x: 0, y: 0, bytes, rows: 1 }.write(memory, luma)
            }
            gst_video::VideoFormat::I420 => {
                let red = luma + (half.0 * half.1) as u64;
                plane(1, (x / 2, y / 2), half)?.write(memory, luma)?;
                plane(2, (x / 2, y / 2), half)?.write(memory, red)
            }
            gst_video::VideoFormat::Y444 => {
                plane(1, (x, y), (width, height))?.write(memory, luma)?;
                plane(2, (x, y), (width, height))?.write(memory, 2 * luma)
            }
            _ => None,
        }
    }
}

/// The part of a plane that is shown.
struct Plane<'a> {
    data: &'a [u8],
    /// Bytes from a row to the next.
    stride: usize,
    /// Its first byte and row.
    x: usize,
    y: usize,
    /// Bytes of a row, and rows.
    bytes: usize,
    rows: usize,
}

impl<'a> Plane<'a> {
    /// None if the plane does not reach there.
    fn row(&self, row: usize) -> Option<&'a [u8]> {
        let at = (self.y + row).checked_mul(self.stride)?.checked_add(self.x)?;
        self.data.get(at..)?.get(..self.bytes)
    }

    /// Writes the rows to the memory without padding, straight from the decoder's own picture.
    fn write(&self, memory: BorrowedFd<'_>, mut at: u64) -> Option<()> {
        let mut rows = [IoSlice::new(&[]); ROWS_MAX];
        for first in (0..self.rows).step_by(ROWS_MAX) {
            let count = (self.rows - first).min(ROWS_MAX);
            for (slice, row) in rows[..count].iter_mut().zip(first..) {
                *slice = IoSlice::new(self.row(row)?);
            }
            let bytes = count * self.bytes;
            // Memory takes all of it, or there is no more memory.
            let written = pwritev(memory, &rows[..count], at).ok()?;
            at += (written == bytes).then_some(bytes as u64)?;
        }
        Some(())
    }
}

/// The unit in the memory.
fn read(memory: BorrowedFd<'_>, bytes: usize, time: gst::ClockTime) -> Option<gst::Buffer> {
    let mut buffer = gst::Buffer::with_size(bytes).ok()?;
    let writable = buffer.get_mut().expect("a new buffer has one owner");
    writable.set_pts(time);
    memory::read(memory, &mut writable.map_writable().ok()?, UNIT_AT).ok()?;
    Some(buffer)
}
