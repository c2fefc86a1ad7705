//! Path 11/13: from client/video.rs, to video_decoder.rs or gpu-video, and back: which decoder has
//! a stream.
//! The processor's has every stream at first. Where there is a graphics processor, a stream is
//! tried there from a keyframe on (video_decoding/hardware.rs): the same units are decoded by both,
//! and what the person sees is the processor's. Once enough frames were the same to the bit, and
//! took less time (trial.rs), the graphics processor has the same state, and the stream is its
//! alone. If it fails later, the stream goes on in the processor with its next keyframe. AV1, and
//! H.264 with chroma of full resolution, are decoded by other processes from the start
//! (by_process.rs). Knows streams and their keyframes; never what a frame covers.

mod by_process;
mod hardware;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use thinc_protocol::video::FrameCodec;
use thinc_region::Size;
use thinc_video::Planes;

use crate::client::DecoderReport;
use crate::decoder_choice::DecoderChoice;
use crate::video_decoder::{Decoded, Decoders};
use by_process::{ByProcess, Wake};
use hardware::{Hardware, Over, Progress};

/// 1280 × 720: pixels of the smallest frame that is tried by itself. The processor decodes that in
/// 2 to 3 ms. Below, copies and waits of another process take as long as what they save, and each
/// stream costs a graphics processor memory of its own.
const TRIED_AREA_MIN: u64 = 1280 * 720;
/// 8 MiB: the longest access unit.
const UNIT_BYTES_MAX: usize = thinc_gpu_video::message::UNIT_BYTES_MAX;
/// What decodes in the processor.
const SOFTWARE: &str = "openh264";

/// The decoders of a connection's streams.
#[derive(Debug)]
pub struct VideoDecoding {
    software: Decoders,
    choice: DecoderChoice,
    /// The program that decodes by a graphics processor; None: it is not, or no longer, of use.
    program: Option<PathBuf>,
    /// Since the first stream that was tried.
    hardware: Option<Hardware>,
    /// The program that decodes other codecs, by a graphics processor or without one.
    other_program: Option<PathBuf>,
    /// AV1 since the first stream of a session that takes it; 4:4:4 while a person wants it.
    others: Vec<ByProcess>,
    streams: BTreeMap<u64, Stream>,
    report: DecoderReport,
    /// The report has changed since it was taken.
    is_news: bool,
    last: Option<Last>,
}

/// What has decoded the last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Software,
    Hardware,
    Other(FrameCodec),
}

#[derive(Debug)]
struct Stream {
    size: Size,
    by: By,
    /// The graphics processor does not decode it.
    is_refused: bool,
}

/// Which decoders have a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Software,
    /// Both: it is tried.
    Both,
    /// The graphics processor. `in_sync`: it takes the next frame, keyframe or not.
    Hardware {
        in_sync: bool,
    },
}

impl Stream {
    fn new(size: Size) -> Stream {
        Stream { size, by: By::Software, is_refused: false }
    }
}

impl VideoDecoding {
    /// `program` becomes the processor's decoder when it is executed with
    /// [`ARGUMENT`](crate::video_decoder::ARGUMENT).
    pub fn new(program: &Path, choice: DecoderChoice) -> VideoDecoding {
        let asks = choice != DecoderChoice::Software;
        VideoDecoding::with(program, choice, asks.then(hardware_program).flatten())
    }

    /// The same with the program that decodes by a graphics processor; None: there is none here.
    pub fn with(program: &Path, choice: DecoderChoice, hardware: Option<PathBuf>) -> VideoDecoding {
        let other = hardware.clone().unwrap_or_else(thinc_gpu_video::program);
        let asks = choice != DecoderChoice::Software;
        let mut decoding = VideoDecoding {
            software: Decoders::new(program),
            choice,
            program: hardware.filter(|_| asks),
            hardware: None,
            other_program: Some(other).filter(|_| asks),
            others: Vec::new(),
            streams: BTreeMap::new(),
            report: DecoderReport::default(),
            is_news: false,
            last: None,
        };
        let why = match (choice, &decoding.program) {
            (DecoderChoice::Software, _) => Some("by --decoder software"),
            (_, None) => Some("there is none here (/dev/dri/renderD*, /dev/nvidia*)"),
            _ => None,
        };
        if let (DecoderChoice::Hardware, Some(why)) = (choice, why) {
            crate::error::report(format_args!(
                "videos are not decoded by a graphics processor: {why}"
            ));
        }
        decoding.set_failure(why.map(str::to_owned));
        decoding
    }

    /// A stream starts; false if it cannot be decoded.
    pub fn start(&mut self, stream: u64, size: Size) -> bool {
        self.forget(stream);
        self.software.start(stream, size)
    }

    /// The session may send AV1: whether it is decoded here is found out, unless that is known.
    pub fn try_av1(&mut self) {
        let program = self.program.clone();
        self.try_codec(FrameCodec::Av1, program, None);
    }

    /// The person wants chroma of full resolution, and the session may send it: whether it is
    /// decoded here is found out, unless that is known. `wake` is called on another thread when it
    /// is.
    pub fn try_full_colour(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        let program = self.other_program.clone();
        self.try_codec(FrameCodec::H264Yuv444, program, Some(Wake(Arc::new(wake))));
    }

    /// Nobody wants chroma of full resolution for now.
    pub fn stop_full_colour(&mut self) {
        if let Some(other) = self.other(FrameCodec::H264Yuv444) {
            other.stop();
        }
    }

    fn try_codec(&mut self, codec: FrameCodec, program: Option<PathBuf>, wake: Option<Wake>) {
        if let (None, Some(program)) = (self.other(codec), program) {
            self.others.push(ByProcess::new(codec, &program));
        }
        if let Some(other) = self.other(codec) {
            wake.into_iter().for_each(|wake| other.set_wake(wake));
            other.start();
        }
    }

    fn other(&mut self, codec: FrameCodec) -> Option<&mut ByProcess> {
        self.others.iter_mut().find(|other| other.codec() == codec)
    }

    /// Codecs beside H.264 that are decoded now: bits of `FrameCodec`.
    pub fn codecs(&mut self) -> u32 {
        let bit = |other: &mut ByProcess| if other.decodes() { other.codec().bit() } else { 0 };
        self.others.iter_mut().map(bit).sum()
    }

    /// Sets `out` to the frame of a stream's next access unit, with edges rounded up to even
    /// numbers; leaves it alone if there is none.
    pub fn decode(
        &mut self,
        (stream, codec): (u64, FrameCodec),
        size: Size,
        unit: &[u8],
        out: &mut Planes,
    ) -> Decoded {
        for other in self.others.iter_mut().filter(|other| other.codec() != codec) {
            other.end(stream);
        }
        if codec != FrameCodec::H264 {
            return self.by_other((stream, codec), size, unit, out);
        }
        match self.follow(stream, size) {
            By::Hardware { in_sync } => self.by_hardware(stream, size, unit, in_sync, out),
            By::Software | By::Both => self.by_software(stream, size, unit, out),
        }
    }

    /// A stream has ended.
    pub fn end(&mut self, stream: u64) {
        self.forget(stream);
        self.software.end(stream);
    }

    /// All streams have ended.
    pub fn end_all(&mut self) {
        while let Some(&stream) = self.streams.keys().next() {
            self.forget(stream);
        }
        self.others.iter_mut().for_each(ByProcess::end_all);
        self.software.end_all();
    }

    /// What decodes, if that has changed since the last call.
    pub fn take_report(&mut self) -> Option<DecoderReport> {
        std::mem::take(&mut self.is_news).then(|| self.report.clone())
    }

    /// What decodes.
    pub fn report(&self) -> &DecoderReport {
        &self.report
    }

    /// The id of the process that decodes by a graphics processor, if one runs.
    pub fn hardware_process_id(&self) -> Option<u32> {
        self.hardware.as_ref()?.process_id()
    }

    /// The same of the process that decodes this codec beside H.264.
    pub fn other_process_id(&self, codec: FrameCodec) -> Option<u32> {
        self.others.iter().find(|other| other.codec() == codec)?.process_id()
    }

    /// True while it is found out whether a codec beside H.264 is decoded.
    pub fn is_other_tried(&self) -> bool {
        self.others.iter().any(ByProcess::is_tried)
    }

    /// True while the graphics processor is behind the processor in what both decode.
    pub fn is_hardware_behind(&self) -> bool {
        self.hardware.as_ref().is_some_and(Hardware::is_behind)
    }

    /// Which decoder has the stream's next frame, of this size, by what its trial says.
    fn follow(&mut self, stream: u64, size: Size) -> By {
        if self.streams.get(&stream).is_some_and(|known| known.size != size) {
            // It begins with a keyframe, in the processor.
            self.forget(stream);
        }
        let known = self.streams.entry(stream).or_insert_with(|| Stream::new(size));
        let Some(hardware) = &self.hardware else { return known.by };
        match hardware.progress(stream) {
            Some(Progress::Passed) if known.by == By::Both => {
                known.by = By::Hardware { in_sync: true };
                self.software.end(stream);
            }
            Some(Progress::Again) if known.by == By::Both => {
                known.by = By::Software;
                hardware.end(stream);
            }
            Some(Progress::Refused) if known.by == By::Both => {
                (known.by, known.is_refused) = (By::Software, true);
                let name = hardware.name().unwrap_or_default();
                let name = short(&name);
                let Size { width, height } = size;
                let why = format!("{name} does not decode frames of {width} × {height} here");
                hardware.end(stream);
                self.set_failure(Some(why));
            }
            _ => {}
        }
        self.leave_hardware();
        self.streams.get(&stream).map_or(By::Software, |known| known.by)
    }

    /// If there are no further trials, and no stream is the graphics processor's, it is left.
    fn leave_hardware(&mut self) {
        let Some(Over { why, at_once }) = self.hardware.as_ref().and_then(Hardware::over) else {
            return;
        };
        if !at_once && self.streams.values().any(|stream| stream.by != By::Software) {
            return;
        }
        for stream in self.streams.values_mut().filter(|stream| stream.by == By::Both) {
            stream.by = By::Software;
        }
        // Streams that are its learn with their next frame that it is gone.
        (self.hardware, self.program) = (None, None);
        self.set_failure(Some(why));
    }

    fn by_software(&mut self, stream: u64, size: Size, unit: &[u8], out: &mut Planes) -> Decoded {
        let began = Instant::now();
        let decoded = self.software.decode(stream, size, unit, out);
        let took = began.elapsed();
        if decoded != Decoded::Frame {
            // What the graphics processor makes of it is of no interest.
            if let Some(hardware) = &self.hardware {
                hardware.end(stream);
            }
            self.set_by(stream, By::Software);
            return decoded;
        }
        self.set_last(Last::Software);
        let coded = thinc_h264::coded_size(size);
        if self.starts_trial(stream, coded, unit)
            && let Some(hardware) = &self.hardware
        {
            hardware.begin(stream, coded);
            self.set_by(stream, By::Both);
            self.set_failure(None);
        }
        if let Some(hardware) = &self.hardware
            && self.streams.get(&stream).is_some_and(|known| known.by == By::Both)
        {
            hardware.try_unit(stream, coded, unit, out, took);
        }
        decoded
    }

    /// Whether a trial starts with this unit, which the processor has decoded.
    fn starts_trial(&mut self, stream: u64, size: Size, unit: &[u8]) -> bool {
        let Some(program) = &self.program else { return false };
        let known = self.streams.get(&stream);
        if known.is_none_or(|known| known.by != By::Software || known.is_refused) {
            return false;
        }
        if self.choice == DecoderChoice::Auto && size.area() < TRIED_AREA_MIN {
            if self.hardware.is_none() {
                self.set_failure(Some("videos below 1280 × 720 gain nothing".to_owned()));
            }
            return false;
        }
        if !thinc_h264::check(unit, size).is_ok_and(|unit| unit.is_keyframe)
            || self.hardware.as_ref().is_some_and(|hardware| hardware.over().is_some())
        {
            return false;
        }
        if self.hardware.is_none() {
            let by_time = self.choice == DecoderChoice::Auto;
            match Hardware::start(program, by_time) {
                Ok(hardware) => self.hardware = Some(hardware),
                Err(error) => {
                    self.program = None;
                    self.set_failure(Some(error.to_string()));
                }
            }
        }
        self.hardware.is_some()
    }

    fn by_hardware(
        &mut self,
        stream: u64,
        size: Size,
        unit: &[u8],
        in_sync: bool,
        out: &mut Planes,
    ) -> Decoded {
        let coded = thinc_h264::coded_size(size);
        // Its parsers are not memory-safe either.
        let is_keyframe = match thinc_h264::check(unit, coded) {
            Ok(checked) if unit.len() <= UNIT_BYTES_MAX => checked.is_keyframe,
            _ => {
                self.set_by(stream, By::Hardware { in_sync: false });
                return Decoded::Failed;
            }
        };
        if !in_sync && !is_keyframe {
            return Decoded::Failed;
        }
        if let Some(hardware) = &mut self.hardware {
            if hardware.decode(stream, coded, unit, out) {
                if !in_sync {
                    self.set_by(stream, By::Hardware { in_sync: true });
                }
                self.set_last(Last::Hardware);
                return Decoded::Frame;
            }
            hardware.end(stream);
        }
        self.set_by(stream, By::Software);
        self.leave_hardware();
        if is_keyframe { self.by_software(stream, size, unit, out) } else { Decoded::Failed }
    }

    fn by_other(
        &mut self,
        (stream, codec): (u64, FrameCodec),
        size: Size,
        unit: &[u8],
        out: &mut Planes,
    ) -> Decoded {
        let Some(other) = self.other(codec) else { return Decoded::Failed };
        let begins = !other.has(stream);
        let decoded = other.decode(stream, thinc_h264::coded_size(size), unit, out);
        if decoded == Decoded::Frame {
            if begins {
                // Others have it no longer.
                self.forget_h264(stream);
                self.software.end(stream);
            }
            self.set_last(Last::Other(codec));
            if codec == FrameCodec::Av1 {
                self.set_failure(None);
            }
        }
        decoded
    }

    fn set_by(&mut self, stream: u64, by: By) {
        if let Some(known) = self.streams.get_mut(&stream) {
            known.by = by;
        }
    }

    /// The graphics processor, if it has the stream, has it no longer.
    fn forget(&mut self, stream: u64) {
        self.others.iter_mut().for_each(|other| other.end(stream));
        self.forget_h264(stream);
    }

    fn forget_h264(&mut self, stream: u64) {
        let known = self.streams.remove(&stream);
        if let (Some(hardware), Some(_)) =
            (&self.hardware, known.filter(|it| it.by != By::Software))
        {
            hardware.end(stream);
        }
    }

    fn set_last(&mut self, last: Last) {
        if self.last.replace(last) == Some(last) {
            return;
        }
        let hardware = || self.hardware.as_ref().and_then(Hardware::name).unwrap_or_default();
        let named = |codec| self.others.iter().find(|other| other.codec() == codec);
        let other = |codec| named(codec).map_or_else(String::new, |other| other.name().to_owned());
        self.report.decoder = Some(match last {
            Last::Software => SOFTWARE.to_owned(),
            Last::Hardware => hardware(),
            Last::Other(codec) => other(codec),
        });
        self.is_news = true;
    }

    fn set_failure(&mut self, why: Option<String>) {
        if self.report.hardware_failure != why {
            self.report.hardware_failure = why;
            self.is_news = true;
        }
    }
}

/// An element's name, without what it is.
fn short(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The program that decodes by a graphics processor, if there is one here, or a person has named
/// elements that decode.
fn hardware_program() -> Option<PathBuf> {
    let begins = |folder: &str, begin: &str, rest: fn(&str) -> bool| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        let mut names = names.filter_map(|name| name.into_string().ok());
        names.any(|name| name.strip_prefix(begin).is_some_and(rest))
    };
    let is_number = |rest: &str| rest.parse::<u32>().is_ok();
    let is_here = std::env::var_os(thinc_gpu_video::ELEMENTS).is_some()
        || begins("/dev/dri", "renderD", is_number)
        || begins("/dev", "nvidia", is_number);
    is_here.then(thinc_gpu_video::program)
}
