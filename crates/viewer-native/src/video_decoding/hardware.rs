//! Path 11/13: from video_decoding.rs, to gpu-video's process, and back: a thread that has the
//! process in which a graphics processor decodes.
//! It takes one unit after the other. Those of a trial come with the frame that the processor has
//! decoded, and nobody waits for them; for the others the caller waits, at most as long as the
//! process may take for an answer. Knows streams and frames; never when a stream is tried.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thinc_gpu_video::{Coded, NotStarted, Process, Purpose, Rates, Settings};
use thinc_protocol::video::FrameCodec;
use thinc_region::Size;
use thinc_video::Planes;

use super::short;
use super::trial::{Trial, Verdict};
use crate::error::report;

/// 600 units and 8 MiB wait for the thread at most: some seconds of a video, in which the process
/// starts. A stream with more is tried again from its next keyframe on.
const WAITING_MAX: usize = 600;
const WAITING_BYTES_MAX: usize = 8 << 20;
/// 2 frames of the processor's wait for their twins; units in between are decoded and not compared.
const COMPARED_WAITING_MAX: usize = 2;
/// 2: failures of the graphics processor, after which it is left alone.
const FAILURES_MAX: u32 = 2;
/// 60 s without a stream: then the process ends, since it may keep a graphics processor awake.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The graphics processor that decodes.
#[derive(Debug)]
pub(super) struct Hardware {
    orders: Sender<Order>,
    results: Receiver<Answer>,
    shared: Arc<Mutex<Shared>>,
    by_time: bool,
    /// Working memory of the last unit.
    unit: Vec<u8>,
}

/// How the trial of a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Too few frames were compared.
    Tried,
    /// The graphics processor may take over, and has the same state.
    Passed,
    /// It has lost its state: the stream may be tried from a keyframe on.
    Again,
    /// It does not decode this stream.
    Refused,
}

/// Why there are no further trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) why: String,
    /// Streams that it decodes end too.
    pub(super) at_once: bool,
}

/// What the thread has found.
#[derive(Debug, Default)]
struct Shared {
    /// What decodes.
    name: Option<String>,
    process: Option<u32>,
    trials: BTreeMap<u64, Progress>,
    /// Of trials: units that wait for the thread or are decoded by it, and their bytes.
    waiting: usize,
    waiting_bytes: usize,
    failures: u32,
    over: Option<Over>,
}

#[derive(Debug)]
enum Order {
    /// A trial starts: a keyframe follows.
    Begin {
        stream: u64,
        size: Size,
    },
    /// The next unit of a trial; with the processor's frame, and how long that took.
    Try {
        stream: u64,
        size: Size,
        unit: Vec<u8>,
        expected: Option<(Planes, Duration)>,
    },
    /// The next unit of a stream that has passed; answered.
    Decode {
        stream: u64,
        size: Size,
        unit: Vec<u8>,
        planes: Planes,
    },
    End {
        stream: u64,
    },
}

#[derive(Debug)]
struct Answer {
    is_decoded: bool,
    unit: Vec<u8>,
    planes: Planes,
}

impl Hardware {
    /// `by_time`: only where it is faster than the processor.
    pub(super) fn start(program: &Path, by_time: bool) -> std::io::Result<Hardware> {
        let shared = Arc::<Mutex<Shared>>::default();
        let (orders, taken) = channel();
        let (done, results) = channel();
        let mut worker = Worker {
            program: program.to_owned(),
            by_time,
            shared: shared.clone(),
            process: None,
            trials: BTreeMap::new(),
            planes: Planes::new(),
        };
        let thread = std::thread::Builder::new()
            .name("thinc-gpu-video".into())
            .spawn(move || worker.run(&taken, &done))?;
        // Nobody waits for its end: it may be waiting for a process that starts or hangs.
        drop(thread);
        Ok(Hardware { orders, results, shared, by_time, unit: Vec::new() })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// What decodes, once that is known.
    pub(super) fn name(&self) -> Option<String> {
        self.shared().name.clone()
    }

    pub(super) fn process_id(&self) -> Option<u32> {
        self.shared().process
    }

    /// True if units of trials wait.
    pub(super) fn is_behind(&self) -> bool {
        self.shared().waiting > 0
    }

    /// How the stream's trial goes; passed only once nothing waits.
    pub(super) fn progress(&self, stream: u64) -> Option<Progress> {
        let shared = self.shared();
        let progress = shared.trials.get(&stream).copied();
        match progress {
            Some(Progress::Passed) if shared.waiting > 0 => Some(Progress::Tried),
            other => other,
        }
    }

    /// Whether there are no further trials, and why.
    pub(super) fn over(&self) -> Option<Over> {
        self.shared().over.clone()
    }

    /// A stream is tried, from its keyframe on, which follows.
    pub(super) fn begin(&self, stream: u64, size: Size) {
        self.shared().trials.insert(stream, Progress::Tried);
        self.order(Order::Begin { stream, size });
    }

    /// The next unit of a stream that is tried, with the processor's frame and how long that took.
    pub(super) fn try_unit(
        &self,
        stream: u64,
        size: Size,
        unit: &[u8],
        frame: &Planes,
        took: Duration,
    ) {
        let mut shared = self.shared();
        if shared.waiting >= WAITING_MAX || shared.waiting_bytes + unit.len() > WAITING_BYTES_MAX {
            shared.trials.insert(stream, Progress::Again);
            if self.by_time
                && shared.over.is_none()
                && let Some(name) = &shared.name
            {
                let why = format!("{} does not keep up", short(name));
                shared.over = Some(Over { why, at_once: false });
            }
            drop(shared);
            self.order(Order::End { stream });
            return;
        }
        let compares = shared.name.is_some() && shared.waiting < COMPARED_WAITING_MAX;
        shared.waiting += 1;
        shared.waiting_bytes += unit.len();
        drop(shared);
        let expected = compares.then(|| (frame.clone(), took));
        self.order(Order::Try { stream, size, unit: unit.to_vec(), expected });
    }

    /// Sets `out` to the frame of the next unit of a stream that has passed, and returns true;
    /// otherwise the stream has no state here any more.
    pub(super) fn decode(
        &mut self,
        stream: u64,
        size: Size,
        unit: &[u8],
        out: &mut Planes,
    ) -> bool {
        let mut copy = std::mem::take(&mut self.unit);
        copy.clear();
        copy.extend_from_slice(unit);
        self.order(Order::Decode { stream, size, unit: copy, planes: std::mem::take(out) });
        let Ok(Answer { is_decoded, unit, planes }) = self.results.recv() else { return false };
        (self.unit, *out) = (unit, planes);
        is_decoded
    }

    /// A stream has ended, here.
    pub(super) fn end(&self, stream: u64) {
        self.shared().trials.remove(&stream);
        self.order(Order::End { stream });
    }

    fn order(&self, order: Order) {
        // A thread that has panicked decodes nothing more, which its callers see.
        let _ = self.orders.send(order);
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        // What still waits for the thread is not worth decoding.
        self.shared().over = Some(Over { why: "closed".to_owned(), at_once: true });
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no holder of this lock can panic")
}

/// The thread.
struct Worker {
    program: PathBuf,
    by_time: bool,
    shared: Arc<Mutex<Shared>>,
    process: Option<Process>,
    /// Streams that the process has.
    trials: BTreeMap<u64, Trial>,
    /// Working memory: a frame of a trial.
    planes: Planes,
}

impl Worker {
    fn run(&mut self, orders: &Receiver<Order>, results: &Sender<Answer>) {
        while let Some(order) = self.next(orders) {
            match order {
                Order::Begin { stream, size } => self.begin(stream, size),
                Order::Try { stream, size, unit, expected } => {
                    self.try_unit(stream, size, &unit, expected);
                    let mut shared = lock(&self.shared);
                    shared.waiting -= 1;
                    shared.waiting_bytes -= unit.len();
                }
                Order::Decode { stream, size, unit, mut planes } => {
                    let is_decoded = self.decode(stream, size, &unit, &mut planes);
                    let _ = results.send(Answer { is_decoded, unit, planes });
                }
                Order::End { stream } => self.end(stream),
            }
        }
    }

    /// None once nobody has orders any more.
    fn next(&mut self, orders: &Receiver<Order>) -> Option<Order> {
        if self.process.is_some() && self.trials.is_empty() {
            match orders.recv_timeout(IDLE_MAX) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.end_process(),
            }
        }
        orders.recv().ok()
    }

    fn begin(&mut self, stream: u64, size: Size) {
        // Another trial of the stream may have ended since the order was given.
        self.set_progress(stream, Progress::Tried);
        if lock(&self.shared).over.is_some() {
            return;
        }
        if self.process.is_none() {
            let settings = Settings::new(Purpose::Decode, FrameCodec::H264);
            match Process::start(&self.program, &settings) {
                Ok(process) => {
                    let mut shared = lock(&self.shared);
                    shared.name = Some(process.name().to_owned());
                    shared.process = Some(process.id());
                    self.process = Some(process);
                }
                Err(error) => {
                    // Most computers have no such program, or a GPU that decodes nothing.
                    let is_usual = !matches!(error, NotStarted::System(_));
                    self.give_up(error.to_string(), true, is_usual);
                    return;
                }
            }
        }
        let Some(process) = &mut self.process else { return };
        match process.begin(stream, size, Rates::default()) {
            Ok(Coded::Done { .. }) => {
                self.trials.insert(stream, Trial::default());
            }
            Ok(Coded::Failed | Coded::Refused) => self.set_progress(stream, Progress::Refused),
            Err(lost) => self.lost(&lost.to_string()),
        }
    }

    fn try_unit(
        &mut self,
        stream: u64,
        size: Size,
        unit: &[u8],
        expected: Option<(Planes, Duration)>,
    ) {
        if lock(&self.shared).over.as_ref().is_some_and(|over| over.at_once) {
            return;
        }
        let Some((process, trial)) = self.process.as_mut().zip(self.trials.get_mut(&stream)) else {
            return;
        };
        let began = Instant::now();
        let decoded = process.decode(stream, size, unit, &mut self.planes);
        let hardware = began.elapsed();
        match (decoded, expected) {
            (Ok(Coded::Done { .. }), None) => {}
            (Ok(Coded::Done { .. }), Some((frame, _))) if frame != self.planes => {
                let why = format!("frames of {} are not exact", self.name());
                self.give_up(why, true, false);
            }
            (Ok(Coded::Done { .. }), Some((_, software))) => {
                match trial.handle_equal(hardware, software, self.by_time) {
                    Verdict::Open => {}
                    Verdict::Passed => self.set_progress(stream, Progress::Passed),
                    Verdict::Slower { hardware, software } => {
                        let [hardware, software] =
                            [hardware, software].map(|time| time.as_secs_f64() * 1e3);
                        let name = self.name();
                        let why = format!(
                            "{name} takes {hardware:.1} ms a frame, the processor {software:.1} ms"
                        );
                        self.give_up(why, false, true);
                        self.leave(stream, Progress::Again);
                    }
                }
            }
            (Ok(Coded::Refused), _) => self.leave(stream, Progress::Refused),
            (Ok(Coded::Failed), _) => self.failed(stream),
            (Err(lost), _) => self.lost(&lost.to_string()),
        }
    }

    fn decode(&mut self, stream: u64, size: Size, unit: &[u8], out: &mut Planes) -> bool {
        let Some(process) = self.process.as_mut().filter(|_| self.trials.contains_key(&stream))
        else {
            return false;
        };
        match process.decode(stream, size, unit, out) {
            Ok(Coded::Done { .. }) => return true,
            Ok(Coded::Failed | Coded::Refused) => self.failed(stream),
            Err(lost) => self.lost(&lost.to_string()),
        }
        false
    }

    fn end(&mut self, stream: u64) {
        if self.trials.remove(&stream).is_some()
            && let Some(process) = &mut self.process
            && let Err(lost) = process.end(stream)
        {
            self.lost(&lost.to_string());
        }
    }

    /// The stream is not decoded here any more.
    fn leave(&mut self, stream: u64, progress: Progress) {
        self.end(stream);
        self.set_progress(stream, progress);
    }

    /// A unit was not decoded that the processor decodes, or that was checked.
    fn failed(&mut self, stream: u64) {
        self.leave(stream, Progress::Again);
        self.count_failure(&format!("{} does not decode a frame", self.name()));
    }

    /// The process is gone.
    fn lost(&mut self, why: &str) {
        self.end_process();
        self.count_failure(why);
    }

    fn count_failure(&mut self, why: &str) {
        let failures = {
            let mut shared = lock(&self.shared);
            shared.failures += 1;
            shared.failures
        };
        if failures >= FAILURES_MAX {
            self.give_up(why.to_owned(), true, false);
        } else {
            report(format_args!("{why}; its videos continue without it"));
        }
    }

    /// There are no further trials. Who has asked for a graphics processor is told in any case.
    fn give_up(&mut self, why: String, at_once: bool, is_usual: bool) {
        if at_once {
            self.end_process();
        }
        let mut shared = lock(&self.shared);
        if shared.over.as_ref().is_some_and(|over| over.at_once || !at_once) {
            return;
        }
        if !is_usual || !self.by_time {
            report(format_args!("videos are not decoded by a graphics processor: {why}"));
        }
        shared.over = Some(Over { why, at_once });
    }

    fn end_process(&mut self) {
        self.process = None;
        self.trials.clear();
        let mut shared = lock(&self.shared);
        shared.process = None;
        shared.trials.values_mut().for_each(|progress| *progress = Progress::Again);
    }

    fn set_progress(&self, stream: u64, progress: Progress) {
        // The stream may have ended since.
        if let Some(known) = lock(&self.shared).trials.get_mut(&stream) {
            *known = progress;
        }
    }

    fn name(&self) -> &str {
        self.process.as_ref().map_or("it", |process| short(process.name()))
    }
}
