//! Path 9/13: a frame of samples becomes an access unit. A stream is a pipeline of one encoder; a
//! frame is pushed, its access unit pulled before the next. Knows rates and keyframes; never what a
//! frame shows.

use std::io;
use std::os::fd::BorrowedFd;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::{AppSink, AppSrc};
use gstreamer_video as gst_video;
use gstreamer_video::prelude::*;
use thinc_gpu_video::message::{Answer, Rates, UNIT_AT, UNIT_BYTES_MAX};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;

use crate::elements::{Element, choice, formats, media, profiles, set, set_number};
use crate::memory;
use crate::stream::{Coder, FRAME_WAIT, Pipeline};
use crate::units::Headers;

/// A stream's rate is changed when the one that is wanted is this much above, or below, since some
/// encoders begin with a keyframe then.
const RATE_ABOVE: f64 = 1.5;
const RATE_BELOW: f64 = 0.8;
/// 1024 frames, the largest distance between keyframes that VA-API's encoders take: one is
/// requested when it is needed.
const KEYFRAME_DISTANCE: &str = "1024";

/// The samples' meaning, doc/protocol.md, section 9.
const COLOURS: &str = "bt601";

/// Half a second of the rate, the least that VA-API's encoders take, is in the buffer that bounds
/// what one frame may have; two frames with NVENC.
const VA_BUFFER_SECONDS: f64 = 0.5;
const NVENC_BUFFER_FRAMES: f64 = 2.0;
/// Rate controls of VA-API that follow no rate. A driver without others is of no use here.
const WITHOUT_RATE: [&str; 2] = ["cqp", "icq"];

/// What all these encoders have in common: one reference frame, no reordering, no frame that is not
/// shown, parameter sets with each keyframe. Each maker's element has some of these. A constant
/// rate would be filled up with nothing by AMD's: with VA-API it is a variable one whose peak is
/// the rate, where there is that.
const PROPERTIES: [(&str, &str); 33] = [
    ("rate-control", "cbr"),
    ("rate-control", "vbr"),
    ("target-percentage", "100"),
    ("repeat-sequence-header", "true"),
    ("rc-mode", "cbr"),
    ("preset", "low-latency-hq"),
    ("tune", "ultra-low-latency"),
    ("tune", "zerolatency"),
    ("speed-preset", "veryfast"),
    ("zerolatency", "true"),
    ("zero-reorder-delay", "true"),
    ("b-frames", "0"),
    ("bframes", "0"),
    ("rc-lookahead", "0"),
    ("ref-frames", "1"),
    ("num-slices", "1"),
    ("cabac", "false"),
    ("dct8x8", "false"),
    ("key-int-max", KEYFRAME_DISTANCE),
    ("gop-size", "-1"),
    ("strict-gop", "true"),
    ("aud", "false"),
    ("cc-insert", "false"),
    ("complexity", "low"),
    ("enable-frame-skip", "false"),
    // Of AV1's alone.
    ("gf-group-size", "1"),
    ("hierarchical-level", "1"),
    ("usage-profile", "realtime"),
    ("cpu-used", "8"),
    ("end-usage", "cbr"),
    ("max-quantizer", "60"),
    ("lag-in-frames", "0"),
    ("keyframe-max-dist", KEYFRAME_DISTANCE),
];

/// Encoders of streams.
pub(crate) struct Encoders {
    element: Element,
    format: gst_video::VideoFormat,
    layout: SampleLayout,
    /// Working memory: the planes of chroma.
    chroma: Vec<u8>,
}

/// The pipeline of one stream.
pub(crate) struct Stream {
    pipeline: Pipeline,
    source: AppSrc,
    encoder: gst::Element,
    sink: AppSink,
    info: gst_video::VideoInfo,
    /// Frames that were pushed.
    frames: u64,
    /// Frames a second that the encoder reckons with.
    frames_per_second: u32,
    /// The rate that it has, in bits a second.
    bits_per_second: f64,
    headers: Headers,
}

impl Encoders {
    pub(crate) fn new(element: Element) -> Encoders {
        let formats = formats(element.codec());
        let format = formats.iter().find(|format| element.takes(format)).or(formats.last());
        let format = gst_video::VideoFormat::from_string(format.copied().unwrap_or_default());
        let layout = element.codec().layout();
        Encoders { element, format, layout, chroma: Vec::new() }
    }
}

impl Coder for Encoders {
    type Stream = Stream;

    fn open(&mut self, size: Size, rates: Rates) -> Option<Stream> {
        let frames_per_second = rates.frames_per_second.clamp(1, 60);
        let info = gst_video::VideoInfo::builder(self.format, size.width, size.height)
            .fps(gst::Fraction::new(frames_per_second.cast_signed(), 1))
            .colorimetry(&COLOURS.parse().ok()?)
            .build()
            .ok()?;
        let source = AppSrc::builder()
            .caps(&info.to_caps().ok()?)
            .format(gst::Format::Time)
            .is_live(true)
            .build();
        let encoder = self.element.make()?;
        for (property, value) in PROPERTIES {
            set(&encoder, property, value);
        }
        let codec = self.element.codec();
        let coded = gst::Caps::builder(media(codec));
        let coded = match codec {
            FrameCodec::H264 | FrameCodec::H264Yuv444 => coded
                .field("stream-format", "byte-stream")
                .field("alignment", "au")
                .field("profile", gst::List::new(profiles(codec).iter().copied())),
            // libaom's does not say its format, and who asked checks each unit.
            FrameCodec::Av1 => coded.field("alignment", "tu"),
        };
        let coded = coded.build();
        let sink = AppSink::builder().caps(&coded).sync(false).build();
        let pipeline = Pipeline::of(&[source.upcast_ref(), &encoder, sink.upcast_ref()])?;
        let mut stream = Stream {
            pipeline,
            source,
            encoder,
            sink,
            info,
            frames: 0,
            frames_per_second,
            bits_per_second: 0.0,
            headers: Headers::of(codec),
        };
        let control = choice(&stream.encoder, "rate-control");
        if control.is_some_and(|control| WITHOUT_RATE.contains(&&*control)) {
            return None;
        }
        stream.set_rate(rates);
        stream.pipeline.play()?;
        Some(stream)
    }

    fn next(
        &mut self,
        stream: &mut Stream,
        memory: BorrowedFd<'_>,
        _bytes: usize,
        rates: Rates,
        keyframe: bool,
    ) -> Option<Answer> {
        if keyframe || stream.is_off(rates) {
            stream.set_rate(rates);
        }
        if keyframe && stream.frames > 0 {
            let event = gst_video::UpstreamForceKeyUnitEvent::builder().all_headers(true).build();
            stream.encoder.static_pad("src")?.send_event(event);
        }
        let buffer = self.read(stream, memory).ok()?;
        stream.source.push_buffer(buffer).ok()?;
        let sample = stream.sink.try_pull_sample(FRAME_WAIT)?;
        let unit = sample.buffer()?;
        let bytes = unit.map_readable().ok()?;
        let keyframe = !unit.flags().contains(gst::BufferFlags::DELTA_UNIT);
        let bytes = stream.headers.complete(&bytes);
        if bytes.is_empty() || bytes.len() > UNIT_BYTES_MAX {
            return None;
        }
        memory::write(memory, bytes, UNIT_AT).ok()?;
        Some(Answer::Done { bytes: bytes.len() as u32, keyframe })
    }
}

impl Encoders {
    /// The frame in the memory, as the encoder takes it.
    fn read(&mut self, stream: &mut Stream, memory: BorrowedFd<'_>) -> io::Result<gst::Buffer> {
        let failed = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let (width, height) = (stream.info.width() as usize, stream.info.height() as usize);
        let mut buffer = gst::Buffer::with_size(stream.info.size()).map_err(failed)?;
        let writable = buffer.get_mut().expect("a new buffer has one owner");
        let at = |frames: u64| {
            gst::ClockTime::SECOND.mul_div_floor(frames, stream.frames_per_second.into())
        };
        writable.set_pts(at(stream.frames));
        writable.set_duration(at(1));
        stream.frames += 1;
        let mut frame = gst_video::VideoFrameRef::from_buffer_ref_writable(writable, &stream.info)
            .map_err(failed)?;
        let stride = frame.plane_stride()[0] as usize;
        let luma = frame.plane_data_mut(0).map_err(failed)?;
        if stride == width {
            memory::read(memory, &mut luma[..width * height], 0)?;
        } else {
            for (y, row) in luma.chunks_mut(stride).take(height).enumerate() {
                memory::read(memory, &mut row[..width], (y * width) as u64)?;
            }
        }
        let chroma = self.layout.chroma(Size { width: width as u32, height: height as u32 });
        let (across, plane) = (chroma.width as usize, chroma.area() as usize);
        self.chroma.resize(2 * plane, 0);
        memory::read(memory, &mut self.chroma, (width * height) as u64)?;
        let (blue, red) = self.chroma.split_at(plane);
        if self.format == gst_video::VideoFormat::Nv12 {
            let stride = frame.plane_stride()[1] as usize;
            let both = frame.plane_data_mut(1).map_err(failed)?;
            let rows = blue.chunks_exact(across).zip(red.chunks_exact(across));
            for (out, (blue, red)) in both.chunks_mut(stride).zip(rows) {
                for (out, (&blue, &red)) in
                    out.as_chunks_mut().0.iter_mut().zip(blue.iter().zip(red))
                {
                    *out = [blue, red];
                }
            }
        } else {
            for (number, from) in [(1, blue), (2, red)] {
                let stride = frame.plane_stride()[number] as usize;
                let plane = frame.plane_data_mut(number as u32).map_err(failed)?;
                for (out, row) in plane.chunks_mut(stride).zip(from.chunks_exact(across)) {
                    out[..across].copy_from_slice(row);
                }
            }
        }
        drop(frame);
        Ok(buffer)
    }
}

impl Stream {
    /// The encoder reckons with the frame rate of its beginning: at another one it gets the rate
    /// at which a frame has as many bits.
    fn rate(&self, rates: Rates) -> f64 {
        let wanted = rates.frames_per_second.clamp(1, 60);
        rates.bits_per_second as f64 * f64::from(self.frames_per_second) / f64::from(wanted)
    }

    fn is_off(&self, rates: Rates) -> bool {
        let change = self.rate(rates) / self.bits_per_second;
        !(RATE_BELOW..RATE_ABOVE).contains(&change)
    }

    fn set_rate(&mut self, rates: Rates) {
        self.bits_per_second = self.rate(rates);
        // openh264enc counts bits, the others thousands of them.
        let in_bits = self.encoder.factory().is_some_and(|factory| factory.name() == "openh264enc");
        let unit = if in_bits { 1.0 } else { 1000.0 };
        let rate = self.bits_per_second / unit;
        set_number(&self.encoder, "cpb-size", rate * VA_BUFFER_SECONDS);
        let frames = NVENC_BUFFER_FRAMES / f64::from(self.frames_per_second);
        set_number(&self.encoder, "vbv-buffer-size", rate * frames);
        set_number(&self.encoder, "bitrate", rate);
        set_number(&self.encoder, "target-bitrate", rate);
    }
}
