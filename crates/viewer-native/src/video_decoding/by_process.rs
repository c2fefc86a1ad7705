//! Path 11/13: from video_decoding.rs, to gpu-video's process, and back: codecs that only that
//! process decodes here: AV1, by a graphics processor, and H.264 with chroma of full resolution.
//! Whether it does is found out with one frame: beside the first video, or once the person wants
//! full colours; then the session is told, and may send keyframes of that codec. It is told so only
//! while a process runs: nobody waits for one that starts. AV1's process ends some time after the
//! last such stream. Once one has failed twice, the session is told that its codec is decoded no
//! longer. Knows streams and one process; never what a frame covers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thinc_gpu_video::{Coded, Process, Purpose, Rates, Settings, av1};
use thinc_protocol::video::FrameCodec;
use thinc_region::Size;
use thinc_video::Planes;

use super::{UNIT_BYTES_MAX, short};
use crate::error::report;
use crate::video_decoder::Decoded;

/// 2: failures, after which the graphics processor is left alone.
const FAILURES_MAX: u32 = 2;
/// 60 s without a stream: then the process ends, since it may keep a graphics processor awake.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The frame of AV1's trial: grey, made by `ffmpeg -f lavfi -i color=gray:size=256x256 -frames:v 1
/// -pix_fmt yuv420p -c:v libaom-av1 -usage realtime -lag-in-frames 0 -still-picture 0 -f obu`.
const AV1_TRIAL: [u8; 50] = [
    0x12, 0x00, 0x0a, 0x0b, 0x00, 0x00, 0x00, 0x03, 0xbf, 0xff, 0xf9, 0xb5, 0xf2, 0x00, 0x80, 0x32,
    0x21, 0x10, 0x00, 0x84, 0x00, 0x02, 0x08, 0x20, 0x88, 0x00, 0x00, 0xc1, 0xb4, 0xd0, 0xc1, 0x4d,
    0xf5, 0x10, 0x89, 0x44, 0x27, 0x67, 0x3e, 0xa4, 0x10, 0x27, 0x00, 0x82, 0x2e, 0x5b, 0xe3, 0x95,
    0x21, 0x7e,
];
/// The frame of H.264's: one colour, made by `ffmpeg -f lavfi -i
/// nullsrc=size=256x256,format=yuv444p,geq=lum=126:cb=90:cr=170 -frames:v 1 -c:v libx264 -tune
/// zerolatency -x264-params sliced-threads=0:threads=1:cabac=0 -qp 4 -profile:v high444 -bsf:v
/// filter_units=remove_types=6 -f h264`.
const H264_YUV444_TRIAL: &[u8] = include_bytes!("h264-yuv444.bin");
const TRIAL_SIZE: Size = Size { width: 256, height: 256 };
/// No stream of a viewer has it.
const TRIAL_STREAM: u64 = u64::MAX;

/// Called on another thread once a trial has ended.
#[derive(Clone)]
pub(super) struct Wake(pub(super) Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wake")
    }
}

/// The decoder of one codec.
#[derive(Debug)]
pub(super) struct ByProcess {
    codec: FrameCodec,
    program: PathBuf,
    stage: Stage,
    name: String,
    /// Streams that it decodes.
    streams: BTreeSet<u64>,
    failures: u32,
    wake: Option<Wake>,
}

#[derive(Debug)]
enum Stage {
    /// No process runs; one may be tried.
    Rest,
    /// A thread starts one and tries it.
    Tried(Receiver<Result<Kept, String>>),
    /// It decodes.
    Works(Kept),
    /// It decodes, and has no stream: a thread ends it after [`IDLE_MAX`], unless the sender is
    /// dropped before.
    Idle { process: Arc<Mutex<Option<Kept>>>, _wake: Sender<()> },
    /// It does not decode, or no longer.
    Over,
}

/// A process. It would end with the thread that has started it, which stays as long as this.
#[derive(Debug)]
struct Kept {
    process: Process,
    _thread: Sender<()>,
}

impl ByProcess {
    pub(super) fn new(codec: FrameCodec, program: &Path) -> ByProcess {
        let (program, name) = (program.to_owned(), String::new());
        let (stage, streams) = (Stage::Rest, BTreeSet::new());
        ByProcess { codec, program, stage, name, streams, failures: 0, wake: None }
    }

    /// What it decodes.
    pub(super) fn codec(&self) -> FrameCodec {
        self.codec
    }

    /// Who is woken by the end of each trial.
    pub(super) fn set_wake(&mut self, wake: Wake) {
        self.wake = Some(wake);
    }

    /// Begins the trial of a process if none runs. Nobody waits for it.
    pub(super) fn start(&mut self) {
        self.poll();
        if !matches!(self.stage, Stage::Rest) {
            return;
        }
        let (sender, receiver) = channel();
        let (codec, program, wake) = (self.codec, self.program.clone(), self.wake.clone());
        let run = move || {
            let (thread, ended) = channel::<()>();
            let tried = try_out(codec, &program);
            let kept = tried.map(|process| Kept { process, _thread: thread });
            let taken = sender.send(kept).is_ok();
            if let Some(Wake(wake)) = wake {
                wake();
            }
            if taken {
                let _ = ended.recv();
            }
        };
        let spawned = std::thread::Builder::new().name("thinc-gpu-trial".into()).spawn(run);
        self.stage = if spawned.is_ok() { Stage::Tried(receiver) } else { Stage::Over };
    }

    /// Ends the process: nobody wants the codec for now. When somebody does, it is tried again even
    /// if it did not work: a library may have been installed.
    pub(super) fn stop(&mut self) {
        if self.failures < FAILURES_MAX {
            self.stage = Stage::Rest;
        }
        self.streams.clear();
    }

    /// True if the session may send the codec.
    pub(super) fn decodes(&mut self) -> bool {
        self.poll();
        matches!(self.stage, Stage::Works(_) | Stage::Idle { .. })
    }

    /// What other threads have done.
    fn poll(&mut self) {
        match &self.stage {
            Stage::Tried(trial) => match trial.try_recv() {
                Ok(Ok(kept)) => {
                    self.name = kept.process.name().to_owned();
                    self.stage = Stage::Works(kept);
                    self.rest_if_idle();
                }
                Err(TryRecvError::Empty) => {}
                // Most graphics processors do not.
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => self.stage = Stage::Over,
            },
            Stage::Idle { process, .. } if lock(process).is_none() => self.stage = Stage::Rest,
            _ => {}
        }
    }

    /// What decodes.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// True until the trial ends.
    pub(super) fn is_tried(&self) -> bool {
        matches!(self.stage, Stage::Tried(_))
    }

    /// The id of the process, if one runs.
    pub(super) fn process_id(&self) -> Option<u32> {
        match &self.stage {
            Stage::Works(kept) => Some(kept.process.id()),
            Stage::Idle { process, .. } => lock(process).as_ref().map(|kept| kept.process.id()),
            Stage::Rest | Stage::Tried(_) | Stage::Over => None,
        }
    }

    /// True if it has the stream.
    pub(super) fn has(&self, stream: u64) -> bool {
        self.streams.contains(&stream)
    }

    /// Sets `out` to the frame of a stream's next unit, of this size with even edges.
    pub(super) fn decode(
        &mut self,
        stream: u64,
        size: Size,
        unit: &[u8],
        out: &mut Planes,
    ) -> Decoded {
        // Its parsers are not memory-safe.
        let checked = is_keyframe(self.codec, unit, size).filter(|_| unit.len() <= UNIT_BYTES_MAX);
        let Some(is_keyframe) = checked else {
            // The session's are of another kind: it would send the same again.
            self.end(stream);
            self.failed(&format!("a frame is not {} as it should be", name_of(self.codec)));
            return Decoded::Failed;
        };
        if !self.has(stream) && !is_keyframe || !self.decodes() {
            return Decoded::Failed;
        }
        self.wake();
        let Stage::Works(kept) = &mut self.stage else { return Decoded::Failed };
        match kept.process.decode(stream, size, unit, out) {
            Ok(Coded::Done { .. }) => {
                self.streams.insert(stream);
                return Decoded::Frame;
            }
            Ok(Coded::Failed | Coded::Refused) => {
                self.end(stream);
                self.failed(&format!("{} does not decode a frame", short(&self.name)));
            }
            Err(lost) => self.lost(&lost.to_string()),
        }
        Decoded::Failed
    }

    /// The stream has ended, or goes on in another codec.
    pub(super) fn end(&mut self, stream: u64) {
        if !self.streams.remove(&stream) {
            return;
        }
        if let Stage::Works(kept) = &mut self.stage
            && let Err(lost) = kept.process.end(stream)
        {
            self.lost(&lost.to_string());
        }
        self.rest_if_idle();
    }

    /// All streams have ended.
    pub(super) fn end_all(&mut self) {
        while let Some(&stream) = self.streams.first() {
            self.end(stream);
        }
    }

    /// Without streams, the process of AV1 ends after some time; that of 4:4:4 stays as long as the
    /// person wants it.
    fn rest_if_idle(&mut self) {
        if self.codec == FrameCodec::H264Yuv444 {
            return;
        }
        if !self.streams.is_empty() || !matches!(self.stage, Stage::Works(_)) {
            return;
        }
        let Stage::Works(kept) = std::mem::replace(&mut self.stage, Stage::Rest) else { return };
        let shared = Arc::new(Mutex::new(Some(kept)));
        let (sender, woken) = channel::<()>();
        let of = shared.clone();
        let run = move || {
            if woken.recv_timeout(IDLE_MAX) == Err(RecvTimeoutError::Timeout) {
                drop(lock(&of).take());
            }
        };
        if std::thread::Builder::new().name("thinc-gpu-idle".into()).spawn(run).is_ok() {
            self.stage = Stage::Idle { process: shared, _wake: sender };
        }
    }

    /// A stream needs the process.
    fn wake(&mut self) {
        if let Stage::Idle { process, .. } = &self.stage {
            let kept = lock(process).take();
            self.stage = kept.map_or(Stage::Rest, Stage::Works);
        }
    }

    /// The process is gone. Another one is tried, unless that was the last.
    fn lost(&mut self, why: &str) {
        self.stage = Stage::Rest;
        self.streams.clear();
        self.failed(why);
        if self.failures < FAILURES_MAX {
            self.start();
        }
    }

    fn failed(&mut self, why: &str) {
        self.failures += 1;
        if self.failures < FAILURES_MAX {
            report(format_args!("{why}; its videos go on with their next keyframes"));
            return;
        }
        let codec = name_of(self.codec);
        report(format_args!("videos are no longer decoded as {codec}: {why}"));
        self.stage = Stage::Over;
        self.streams.clear();
    }
}

fn lock(process: &Mutex<Option<Kept>>) -> MutexGuard<'_, Option<Kept>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The codec's name for people.
fn name_of(codec: FrameCodec) -> &'static str {
    match codec {
        FrameCodec::H264 => "H.264",
        FrameCodec::Av1 => "AV1",
        FrameCodec::H264Yuv444 => "H.264 4:4:4",
    }
}

/// Whether a unit is a keyframe; None if it is not what the protocol allows.
fn is_keyframe(codec: FrameCodec, unit: &[u8], size: Size) -> Option<bool> {
    match codec {
        FrameCodec::H264 => Some(thinc_h264::check(unit, size).ok()?.is_keyframe),
        FrameCodec::Av1 => Some(av1::check(unit, size).ok()?.is_keyframe),
        FrameCodec::H264Yuv444 => Some(thinc_h264::check_yuv444(unit, size).ok()?.is_keyframe),
    }
}

/// A process that has decoded the frame of the trial to the bit.
fn try_out(codec: FrameCodec, program: &Path) -> Result<Process, String> {
    let settings = Settings::new(Purpose::Decode, codec);
    let mut process = Process::start(program, &settings).map_err(|error| error.to_string())?;
    let (mut frame, mut expected) = (Planes::new(), Planes::new());
    let (unit, samples): (&[u8], [u8; 3]) = match codec {
        FrameCodec::H264Yuv444 => (H264_YUV444_TRIAL, [126, 90, 170]),
        FrameCodec::H264 | FrameCodec::Av1 => (&AV1_TRIAL, [126, 128, 128]),
    };
    expected.reset(TRIAL_SIZE, codec.layout());
    for (plane, sample) in expected.planes_mut().into_iter().zip(samples) {
        plane.fill(sample);
    }
    let begun = process.begin(TRIAL_STREAM, TRIAL_SIZE, Rates::default());
    let decoded = begun.and_then(|_| process.decode(TRIAL_STREAM, TRIAL_SIZE, unit, &mut frame));
    match decoded {
        Ok(Coded::Done { .. }) if frame == expected => {}
        Ok(Coded::Done { .. }) => return Err("its frames are not exact".to_owned()),
        Ok(Coded::Failed | Coded::Refused) => return Err("it does not decode a frame".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    process.end(TRIAL_STREAM).map_err(|error| error.to_string())?;
    Ok(process)
}
