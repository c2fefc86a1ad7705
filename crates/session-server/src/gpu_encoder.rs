//! Path 9/13: beside video/encoders.rs, from its frames to gpu-video's process and back: encoding
//! one codec on a GPU. Nothing runs before the first video, or before somebody wants what the codec
//! has. Then a process is started and tried with a few frames, on a thread of its own; until it has
//! passed, and whenever it fails, the library encodes. The process ends some time after the last
//! video. Knows streams and one process; never what is encoded.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thinc_gpu_video::{Coded, Lost, NotStarted, Process, Purpose, Rates, Settings, av1, program};
use thinc_h264::{Codes, Decoder, EncodeError, Encoded, EncoderSettings, coded_size};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef};
use tracing::{info, warn};

/// 10 s: how long a process stays without a stream. It holds a GPU's memory, 0.2 GiB of NVIDIA's.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// 30 s: pause after a process is lost.
const LOST_PAUSE: Duration = Duration::from_secs(30);
/// So many processes may be lost; then the session encodes without a GPU for good.
const LOST_MAX: u32 = 3;
/// Frames of the trial: 640 x 480 samples at a rate that leaves them recognizable.
const TRIAL: EncoderSettings = EncoderSettings {
    size: Size { width: 640, height: 480 },
    bits_per_second: 8_000_000,
    frames_per_second: 30,
};
/// What the trial's frames are to be: a keyframe or not, twice.
const TRIAL_FRAMES: [bool; 4] = [true, false, false, true];
/// 6: greatest mean difference of a trial's samples. Encoders here have 1 to 2.
const DIFFERENCE_MAX: f64 = 6.0;
/// 320 x 240: the smallest frame that goes to a GPU. The library is as fast with smaller ones,
/// which some GPUs refuse.
const AREA_MIN: u64 = 320 * 240;
/// 100 ms: longest time for a frame of the trial, but for the first, for which memory is allocated.
/// The library needs 5 ms.
const TRIAL_FRAME_TIME_MAX: Duration = Duration::from_millis(100);

/// Which GPU may encode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuEncoding {
    /// Its render node; any if None.
    pub node: Option<PathBuf>,
}

/// Called with what encodes, the element and the GPU, or why none does, whenever that has changed;
/// on a thread that may wait.
pub(crate) type Report = Box<dyn Fn(Result<&str, &str>) + Send + Sync>;

/// The GPU's encoders of a session.
#[derive(Clone)]
pub(crate) struct GpuEncoders {
    shared: Arc<Shared>,
}

struct Shared {
    codec: FrameCodec,
    settings: GpuEncoding,
    program: PathBuf,
    limits: Limits,
    state: Mutex<State>,
    /// The process is lost.
    changed: Condvar,
    /// Streams that have ended, by process and number. They end on the event loop, which must not
    /// wait for a frame that is being encoded.
    ended: Mutex<Vec<(u64, u64)>>,
    report: Report,
}

/// Times that tests change.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How long a process stays without a stream.
    idle: Duration,
    /// Longest time for a frame of the trial, but for the first.
    trial_frame: Duration,
}

struct State {
    stage: Stage,
    /// Elements that have failed their trial.
    failed: Vec<String>,
    lost: u32,
    why_lost: String,
    /// Streams with an encoder of the process, and the number of the next one.
    streams: usize,
    next: u64,
    /// Counts processes.
    process: u64,
    /// When the last of them ended.
    idle_since: Instant,
}

enum Stage {
    /// No process runs.
    Rest,
    /// A thread starts one.
    Starting,
    /// It encodes.
    Running(Process),
    /// It was lost; none is started before this time.
    Lost(Instant),
    /// The GPU does not encode.
    Never,
}

/// What a new stream gets.
pub(crate) enum Opened {
    /// An encoder of the GPU.
    Stream(GpuStream),
    /// Nothing yet: a process starts.
    Starting,
    /// Nothing for some time: it may be asked again.
    Paused,
    /// Nothing: frames of this size are encoded by the library.
    Refused,
}

/// One stream's encoder.
pub(crate) struct GpuStream {
    shared: Arc<Shared>,
    number: u64,
    /// Which process has it.
    process: u64,
    /// A frame was encoded as it should be.
    has_begun: bool,
}

impl std::fmt::Debug for GpuEncoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuEncoders").field("settings", &self.shared.settings).finish()
    }
}

impl GpuEncoders {
    pub(crate) fn new(codec: FrameCodec, settings: &GpuEncoding, report: Report) -> GpuEncoders {
        let limits = Limits { idle: IDLE_TIME, trial_frame: TRIAL_FRAME_TIME_MAX };
        GpuEncoders::by((codec, program()), limits, settings, report)
    }

    fn by(
        (codec, program): (FrameCodec, PathBuf),
        limits: Limits,
        settings: &GpuEncoding,
        report: Report,
    ) -> GpuEncoders {
        let state = State {
            stage: Stage::Rest,
            failed: Vec::new(),
            lost: 0,
            why_lost: String::new(),
            streams: 0,
            next: 0,
            process: 0,
            idle_since: Instant::now(),
        };
        GpuEncoders {
            shared: Arc::new(Shared {
                codec,
                settings: settings.clone(),
                program,
                limits,
                state: Mutex::new(state),
                changed: Condvar::new(),
                ended: Mutex::default(),
                report,
            }),
        }
    }

    /// What they encode.
    pub(crate) fn codec(&self) -> FrameCodec {
        self.shared.codec
    }

    /// An encoder for a stream. If no process runs, one is started if `may_start` is true.
    pub(crate) fn open(&self, settings: &EncoderSettings, may_start: bool) -> Opened {
        if settings.size.area() < AREA_MIN {
            return Opened::Refused;
        }
        let mut state = self.shared.lock();
        let (number, process_number) = (state.next, state.process);
        let size = coded_size(settings.size);
        match &mut state.stage {
            Stage::Running(process) => match process.begin(number, size, rates(settings)) {
                Ok(Coded::Done { .. }) => {
                    state.next += 1;
                    state.streams += 1;
                    let shared = self.shared.clone();
                    let process = process_number;
                    Opened::Stream(GpuStream { shared, number, process, has_begun: false })
                }
                Ok(Coded::Failed | Coded::Refused) => Opened::Refused,
                Err(error) => {
                    self.shared.lose(&mut state, &error.to_string());
                    Opened::Paused
                }
            },
            Stage::Lost(until) if *until > Instant::now() => Opened::Paused,
            Stage::Rest | Stage::Lost(_) if !may_start => Opened::Paused,
            Stage::Rest | Stage::Lost(_) => self.start_process(&mut state),
            Stage::Starting => Opened::Starting,
            Stage::Never => Opened::Refused,
        }
    }

    /// Starts a process if none runs and one may: what becomes of it is reported. Waits for no
    /// frame that is being encoded, since there is none then.
    pub(crate) fn start(&self) {
        let mut state = self.shared.lock();
        match state.stage {
            Stage::Lost(until) if until > Instant::now() => {}
            Stage::Rest | Stage::Lost(_) => {
                self.start_process(&mut state);
            }
            Stage::Starting | Stage::Running(_) | Stage::Never => {}
        }
    }

    fn start_process(&self, state: &mut State) -> Opened {
        state.stage = Stage::Starting;
        let shared = self.shared.clone();
        let run = move || shared.run();
        if let Err(error) = thread::Builder::new().name("gpu-encoder".into()).spawn(run) {
            warn!("no thread for the GPU's encoder: {error}");
            state.stage = Stage::Lost(Instant::now() + LOST_PAUSE);
            return Opened::Paused;
        }
        Opened::Starting
    }
}

impl Shared {
    /// The state, in which streams that have ended are gone.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ended = std::mem::take(&mut *self.ended());
        for (process, number) in ended {
            let Some(process) = state.running(process) else { continue };
            if let Err(error) = process.end(number) {
                self.lose(&mut state, &error.to_string());
                continue;
            }
            state.streams = state.streams.saturating_sub(1);
            state.idle_since = Instant::now();
        }
        state
    }

    fn ended(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The thread of a process: starts it, and ends it once no stream needs it.
    fn run(&self) {
        let started = self.start();
        let mut state = self.lock();
        let (reason, stage) = match started {
            Ok(process) => {
                let name = process.name().to_owned();
                state.idle_since = Instant::now();
                state.process += 1;
                state.streams = 0;
                state.stage = Stage::Running(process);
                let number = state.process;
                drop(state);
                info!("videos are encoded on the GPU, by {name}");
                (self.report)(Ok(&name));
                let Some(lost) = self.keep(number) else { return };
                lost
            }
            Err(NoProcess::ForNow(reason)) => {
                self.lose(&mut state, &reason);
                drop(state);
                (reason, "for now")
            }
            Err(NoProcess::ForGood(reason)) => {
                state.stage = Stage::Never;
                drop(state);
                (reason, "here")
            }
        };
        info!("videos are not encoded on the GPU {stage}: {reason}");
        (self.report)(Err(&reason));
    }

    /// Keeps a process as long as streams need it, and ends it. Returns why it was lost, if it was.
    fn keep(&self, number: u64) -> Option<(String, &'static str)> {
        let mut state = self.lock();
        let process = loop {
            if state.running(number).is_none() {
                return Some((state.why_lost.clone(), "for now"));
            }
            let idle = state.idle_since.elapsed();
            if state.streams == 0 && idle >= self.limits.idle {
                break std::mem::replace(&mut state.stage, Stage::Rest);
            }
            let most = self.limits.idle;
            let wait = if state.streams == 0 { most - idle } else { most };
            let waited = self.changed.wait_timeout(state, wait);
            drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
            state = self.lock();
        };
        drop(state);
        // It may take a moment to end.
        drop(process);
        None
    }

    /// A process whose encoder has passed the trial.
    fn start(&self) -> Result<Process, NoProcess> {
        loop {
            let settings = Settings {
                purpose: Purpose::Encode,
                codec: self.codec,
                node: self.settings.node.clone(),
                without: self.lock().failed.clone(),
            };
            let mut process = match Process::start(&self.program, &settings) {
                Ok(process) => process,
                Err(NotStarted::Nothing(reason)) if !settings.without.is_empty() => {
                    let failed = settings.without.join(", ");
                    return Err(NoProcess::ForGood(format!("{failed} failed; {reason}")));
                }
                Err(error @ (NotStarted::Nothing(_) | NotStarted::NotInstalled(_))) => {
                    return Err(NoProcess::ForGood(error.to_string()));
                }
                Err(error @ (NotStarted::System(_) | NotStarted::Lost(_))) => {
                    return Err(NoProcess::ForNow(error.to_string()));
                }
            };
            let element = process.name().split(':').next().unwrap_or_default().to_owned();
            let layout = self.codec.layout();
            match try_out((&mut process, layout), self.judge()?, self.limits.trial_frame) {
                Ok(()) => return Ok(process),
                Err(NoProcess::ForNow(reason)) => {
                    return Err(NoProcess::ForNow(format!("{element}: {reason}")));
                }
                Err(NoProcess::ForGood(reason)) if settings.without.contains(&element) => {
                    return Err(NoProcess::ForGood(format!("{element}: {reason}")));
                }
                Err(NoProcess::ForGood(reason)) => {
                    warn!("the GPU's encoder {element} failed its trial: {reason}");
                    self.lock().failed.push(element);
                }
            }
        }
    }

    /// The process is of no further use.
    fn lose(&self, state: &mut State, why: &str) {
        state.lost += 1;
        state.streams = 0;
        state.why_lost = why.to_owned();
        let goes_on = state.lost < LOST_MAX;
        state.stage = match goes_on {
            true => Stage::Lost(Instant::now() + LOST_PAUSE),
            false => Stage::Never,
        };
        let until = if goes_on { "for some time" } else { "from now on" };
        warn!("{why}; the library encodes videos {until}");
        self.changed.notify_all();
    }
}

/// Why no process encodes.
#[derive(Debug)]
enum NoProcess {
    /// It may be tried again.
    ForNow(String),
    /// There is none, or what it does is wrong.
    ForGood(String),
}

impl State {
    /// The process of this number, if it still runs.
    fn running(&mut self, number: u64) -> Option<&mut Process> {
        match &mut self.stage {
            Stage::Running(process) if number == self.process => Some(process),
            _ => None,
        }
    }
}

impl Codes for GpuStream {
    fn encode(
        &mut self,
        frame: &PlanesRef<'_>,
        settings: &EncoderSettings,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError> {
        let mut state = self.shared.lock();
        let failed = |why: &str| EncodeError::Library(format!("the GPU's encoder {why}"));
        let Some(process) = state.running(self.process) else { return Err(failed("is gone")) };
        let at = out.len();
        let why = match process.encode(self.number, frame, rates(settings), keyframe, out) {
            Ok(Coded::Done { keyframe }) => {
                match is_keyframe(self.shared.codec, &out[at..], frame.size()) {
                    Ok(found) if found == keyframe => {
                        self.has_begun = true;
                        return Ok(Encoded { keyframe });
                    }
                    Ok(_) => "called a frame a keyframe, or none, that is not".to_owned(),
                    Err(error) => format!("made what no viewer decodes: {error}"),
                }
            }
            Ok(Coded::Failed | Coded::Refused) => "made no frame".to_owned(),
            Err(error) => {
                self.shared.lose(&mut state, &error.to_string());
                return Err(EncodeError::Library(error.to_string()));
            }
        };
        out.truncate(at);
        let error = failed(&why);
        // Some encode no frames of this size, or larger ones instead: others may be right.
        if self.has_begun {
            self.shared.lose(&mut state, &error.to_string());
        }
        Err(error)
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        self.shared.ended().push((self.process, self.number));
    }
}

fn rates(settings: &EncoderSettings) -> Rates {
    let &EncoderSettings { bits_per_second, frames_per_second, .. } = settings;
    Rates { bits_per_second, frames_per_second }
}

/// Whether an access unit is a keyframe; an error if it is not what the protocol allows.
fn is_keyframe(codec: FrameCodec, unit: &[u8], size: Size) -> Result<bool, String> {
    match codec {
        FrameCodec::H264 => {
            thinc_h264::check(unit, size).map(|unit| unit.is_keyframe).map_err(|e| e.to_string())
        }
        FrameCodec::H264Yuv444 => {
            let checked = thinc_h264::check_yuv444(unit, size);
            checked.map(|unit| unit.is_keyframe).map_err(|e| e.to_string())
        }
        FrameCodec::Av1 => {
            av1::check(unit, size).map(|unit| unit.is_keyframe).map_err(|e| e.to_string())
        }
    }
}

/// The trial's stream: no stream of a viewer has this number.
const NUMBER: u64 = u64::MAX;

/// What decodes the trial's frames.
enum Judge {
    H264(Decoder),
    /// The GPU, or what the system has: a GPU that encodes AV1 decodes it too, and 4:4:4 is
    /// decoded by FFmpeg.
    Other(FrameCodec, Process),
}

impl Shared {
    fn judge(&self) -> Result<Judge, NoProcess> {
        let none = |reason: &dyn std::fmt::Display| format!("nothing decodes it: {reason}");
        match self.codec {
            FrameCodec::H264 => Decoder::new(TRIAL.size)
                .map(Judge::H264)
                .map_err(|error| NoProcess::ForGood(none(&error))),
            FrameCodec::Av1 | FrameCodec::H264Yuv444 => {
                let node = self.settings.node.clone();
                let settings = Settings { node, ..Settings::new(Purpose::Decode, self.codec) };
                let started = Process::start(&self.program, &settings);
                started.map(|process| Judge::Other(self.codec, process)).map_err(
                    |error| match error {
                        NotStarted::Nothing(_) | NotStarted::NotInstalled(_) => {
                            NoProcess::ForGood(none(&error))
                        }
                        NotStarted::System(_) | NotStarted::Lost(_) => {
                            NoProcess::ForNow(none(&error))
                        }
                    },
                )
            }
        }
    }
}

impl Judge {
    /// Decodes the next unit, as a viewer does.
    fn decode(&mut self, unit: &[u8], shown: &mut Planes) -> Result<(), NoProcess> {
        let wrong = NoProcess::ForGood;
        match self {
            Judge::H264(decoder) => {
                decoder.decode(unit, shown).map_err(|error| wrong(error.to_string()))
            }
            Judge::Other(codec, process) => {
                is_keyframe(*codec, unit, TRIAL.size).map_err(wrong)?;
                match process.decode(NUMBER, TRIAL.size, unit, shown) {
                    Ok(Coded::Done { .. }) => Ok(()),
                    Ok(Coded::Failed | Coded::Refused) => Err(wrong("is not decoded".to_owned())),
                    Err(error) => Err(NoProcess::ForNow(error.to_string())),
                }
            }
        }
    }
}

/// Encodes a few frames, and decodes them as a viewer does: the stream must be what the protocol
/// allows, its keyframes where they are requested, and its frames those that were encoded.
fn try_out(
    (process, layout): (&mut Process, SampleLayout),
    mut judge: Judge,
    frame_time_max: Duration,
) -> Result<(), NoProcess> {
    let wrong = |reason: String| Err(NoProcess::ForGood(reason));
    let lost = |error: Lost| NoProcess::ForNow(error.to_string());
    let (size, rates) = (TRIAL.size, rates(&TRIAL));
    match process.begin(NUMBER, size, rates).map_err(lost)? {
        Coded::Done { .. } => {}
        Coded::Failed | Coded::Refused => return wrong("refuses a stream".to_owned()),
    }
    let (mut frame, mut unit, mut shown) = (Planes::new(), Vec::new(), Planes::new());
    for (number, wants_keyframe) in TRIAL_FRAMES.into_iter().enumerate() {
        draw(&mut frame, (size, layout), number);
        unit.clear();
        let started = Instant::now();
        let coded = process.encode(NUMBER, &frame.as_ref(), rates, wants_keyframe, &mut unit);
        let took = started.elapsed();
        let Coded::Done { keyframe } = coded.map_err(lost)? else {
            return wrong(format!("does not encode frame {number}"));
        };
        if keyframe != wants_keyframe {
            let what = if keyframe { "a keyframe" } else { "none" };
            return wrong(format!("made {what} of frame {number}"));
        }
        judge.decode(&unit, &mut shown).map_err(|error| match error {
            NoProcess::ForGood(error) => NoProcess::ForGood(format!("frame {number}: {error}")),
            lost @ NoProcess::ForNow(_) => lost,
        })?;
        let difference = difference(&frame, &shown);
        if difference > DIFFERENCE_MAX {
            return wrong(format!("frame {number} differs by {difference:.0} of 255"));
        }
        if number > 0 && took > frame_time_max {
            return Err(NoProcess::ForNow(format!("takes {} ms for a frame", took.as_millis())));
        }
    }
    process.end(NUMBER).map_err(lost)
}

/// Ramps, and a square that moves. Chroma of full resolution takes turns by columns, which half of
/// it could not show.
fn draw(frame: &mut Planes, (size, layout): (Size, SampleLayout), number: usize) {
    frame.reset(size, layout);
    let left = 64 + 32 * number;
    let widths = [0, 1, 2].map(|plane| frame.as_ref().plane_size(plane).width as usize);
    for (samples, (plane, width)) in frame.planes_mut().into_iter().zip((0..).zip(widths)) {
        for (y, row) in samples.chunks_exact_mut(width).enumerate() {
            for (x, sample) in row.iter_mut().enumerate() {
                let inside =
                    plane == 0 && (64..192).contains(&y) && (left..left + 128).contains(&x);
                let turn =
                    if layout == SampleLayout::Yuv444 && plane > 0 { 40 * (x % 2) } else { 0 };
                *sample = if inside { 200 } else { (40 + turn + x * 100 / width + y / 8) as u8 };
            }
        }
    }
}

/// Mean difference of luma samples; with chroma of full resolution, the greatest of all planes'.
fn difference(one: &Planes, other: &Planes) -> f64 {
    let (one, other) = (one.as_ref(), other.as_ref());
    let of_plane = |plane: usize| {
        let rows = one.rows(plane).zip(other.rows(plane));
        let sum: u64 = rows
            .flat_map(|(one, other)| one.iter().zip(other))
            .map(|(one, other)| u64::from(one.abs_diff(*other)))
            .sum();
        sum as f64 / one.plane_size(plane).area() as f64
    };
    let planes = if one.layout() == SampleLayout::Yuv444 { 3 } else { 1 };
    (0..planes).map(of_plane).fold(0.0, f64::max)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::mpsc;

    use super::*;

    /// Longest wait for what happens at once.
    const WAIT: Duration = Duration::from_secs(60);

    /// A GPU's encoders that are GStreamer's stubs, and what they report.
    pub(crate) struct Stubs {
        pub(crate) encoders: GpuEncoders,
        pub(crate) reports: mpsc::Receiver<Result<String, String>>,
        folder: PathBuf,
    }

    impl Stubs {
        /// Elements of gpu-codec's examples/gststub.rs, in the order in which they are tried.
        pub(crate) fn new(name: &str, elements: &[&str]) -> Stubs {
            let elements: Vec<String> =
                elements.iter().map(|element| format!("stub/{element}enc")).collect();
            let idle = Duration::from_millis(200);
            Stubs::with((FrameCodec::H264, idle), name, &elements.join(","))
        }

        /// These elements, for this codec; their process stays.
        pub(crate) fn of(codec: FrameCodec, name: &str, elements: &str) -> Stubs {
            Stubs::with((codec, Duration::from_secs(600)), name, elements)
        }

        fn with((codec, idle): (FrameCodec, Duration), name: &str, elements: &str) -> Stubs {
            let built = std::env::current_exe().unwrap();
            let built = built.parent().unwrap().parent().unwrap();
            let (coder, stubs) = (built.join("thinc-gpu-codec"), built.join("examples"));
            for needed in [coder.clone(), stubs.join("libgststub.so")] {
                let how = "cargo build -p thinc-gpu-codec --bins --examples";
                assert!(needed.is_file(), "{} is missing: {how}", needed.display());
            }
            let folder =
                std::env::temp_dir().join(format!("thinc-encoders-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!(
                "#!/bin/sh\nGST_PLUGIN_PATH={} \
                 THINC_VIDEO_ELEMENTS=openh264/none,aom/none,{elements} exec {} \"$@\"\n",
                stubs.display(),
                coder.display()
            );
            let program = folder.join("program");
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
            let (sender, reports) = mpsc::channel();
            let report = move |encoder: Result<&str, &str>| {
                let _ = sender.send(encoder.map(str::to_owned).map_err(str::to_owned));
            };
            // A busy machine takes long for a frame.
            let limits = Limits { idle, trial_frame: Duration::from_secs(10) };
            let settings = GpuEncoding { node: None };
            let encoders = GpuEncoders::by((codec, program), limits, &settings, Box::new(report));
            Stubs { encoders, reports, folder }
        }

        /// Asks for a first encoder, and waits for what becomes of it.
        pub(crate) fn start(&self) -> Result<String, String> {
            assert!(matches!(self.encoders.open(&TRIAL, true), Opened::Starting));
            self.reports.recv_timeout(WAIT).expect("a report")
        }

        /// What is started.
        pub(crate) fn program(&self) -> PathBuf {
            self.folder.join("program")
        }

        pub(crate) fn process(&self) -> Option<u32> {
            match &self.encoders.shared.lock().stage {
                Stage::Running(process) => Some(process.id()),
                _ => None,
            }
        }
    }

    impl Drop for Stubs {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn encode(stream: &mut GpuStream, number: usize) -> Result<Encoded, EncodeError> {
        let mut frame = Planes::new();
        draw(&mut frame, (TRIAL.size, SampleLayout::Yuv420), number);
        stream.encode(&frame.as_ref(), &TRIAL, false, &mut Vec::new())
    }

    #[test]
    fn an_encoder_that_passes_its_trial_is_used_until_nobody_needs_it() {
        let stubs = Stubs::new("good", &["good"]);
        assert!(stubs.process().is_none(), "nothing runs before the first video");
        assert!(stubs.start().unwrap().starts_with("goodenc: "));
        let Opened::Stream(mut stream) = stubs.encoders.open(&TRIAL, true) else {
            panic!("no stream")
        };
        assert!(encode(&mut stream, 0).unwrap().keyframe);
        assert!(!encode(&mut stream, 1).unwrap().keyframe);
        let small = EncoderSettings { size: Size { width: 5000, height: 16 }, ..TRIAL };
        assert!(matches!(stubs.encoders.open(&small, true), Opened::Refused));
        drop(stream);
        // Its thread ends with the process.
        let until = Instant::now() + WAIT;
        while Arc::strong_count(&stubs.encoders.shared) > 1 {
            assert!(Instant::now() < until, "the process stays");
            thread::yield_now();
        }
        assert!(stubs.process().is_none());
        assert!(stubs.start().is_ok(), "the next video starts another one");
    }

    #[test]
    fn encoders_that_fail_their_trial_are_passed_over() {
        for (element, reason) in [
            ("closed", "closedenc: its GPU does not open"),
            ("silent", "silentenc failed; GStreamer has no encoder"),
            ("garbage", "garbageenc failed; GStreamer has no encoder"),
            ("nokeyframes", "nokeyframesenc failed; GStreamer has no encoder"),
            ("onlykeyframes", "onlykeyframesenc failed; GStreamer has no encoder"),
            ("black", "blackenc failed; GStreamer has no encoder"),
        ] {
            let stubs = Stubs::new(element, &[element]);
            let report = stubs.start().unwrap_err();
            assert!(report.starts_with(reason), "{element}: {report}");
            assert!(matches!(stubs.encoders.open(&TRIAL, true), Opened::Refused), "{element}");
        }
        let stubs = Stubs::new("second", &["black", "garbage", "good"]);
        assert!(stubs.start().unwrap().starts_with("goodenc: "));
    }

    #[test]
    fn a_process_that_is_lost_is_replaced_after_a_pause_and_not_forever() {
        let stubs = Stubs::new("lost", &["abortlater"]);
        for lost in 1..=LOST_MAX {
            assert!(stubs.start().is_ok());
            let Opened::Stream(mut stream) = stubs.encoders.open(&TRIAL, true) else {
                panic!("no stream")
            };
            let coded = (0..20).find_map(|number| encode(&mut stream, number).err());
            assert!(coded.unwrap().to_string().contains("signal: 6"));
            // The next stream of a process that has replaced it is not this one's.
            assert!(encode(&mut stream, 0).is_err());
            drop(stream);
            let report = stubs.reports.recv_timeout(WAIT).expect("a report");
            assert!(report.unwrap_err().contains("signal: 6"));
            let opened = stubs.encoders.open(&TRIAL, true);
            assert!(matches!(opened, Opened::Paused | Opened::Refused), "no pause");
            let mut state = stubs.encoders.shared.lock();
            match &mut state.stage {
                Stage::Lost(until) if lost < LOST_MAX => *until = Instant::now(),
                Stage::Never => assert_eq!(lost, LOST_MAX),
                _ => panic!("neither lost nor given up"),
            }
        }
    }

    #[test]
    fn where_the_program_is_missing_the_library_encodes() {
        let (sender, reports) = mpsc::channel();
        let report = move |encoder: Result<&str, &str>| {
            let _ = sender.send(encoder.map(str::to_owned).map_err(str::to_owned));
        };
        let program = PathBuf::from("/nonexistent/thinc-gpu-codec");
        let settings = GpuEncoding { node: None };
        let limits = Limits { idle: IDLE_TIME, trial_frame: TRIAL_FRAME_TIME_MAX };
        let encoders =
            GpuEncoders::by((FrameCodec::H264, program), limits, &settings, Box::new(report));
        assert!(matches!(encoders.open(&TRIAL, true), Opened::Starting));
        let report = reports.recv_timeout(WAIT).unwrap().unwrap_err();
        assert_eq!(report, "/nonexistent/thinc-gpu-codec is not installed");
        assert!(matches!(encoders.open(&TRIAL, true), Opened::Refused));
    }
}
