//! Path 9/13: jobs too large for the event loop, from actor.rs to codec-enc on threads, and back as
//! events.
//! The pixels were copied and planned by actor.rs before; nothing here reads shared memory. Knows
//! one job at a time; session-core keeps the order of a viewer's jobs, and bounds how much waits
//! here.
//!
//! A job's plan is divided into slices, which depend on the plan only, and its commands are those
//! of the slices in that order: the bytes do not depend on the number or the speed of the threads.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use thinc_codec_enc::{EncodeSettings, Encoder};
use thinc_h264::EncodeError;
use thinc_pixels::{Planned, Snapshot};
use thinc_protocol::commands::Commands;
use thinc_session_core::{Job, JobId, ViewerId};

use crate::connection::{Event, Events};
use crate::video::FrameEncoder;

/// More threads would take the machine from the applications.
const THREADS_MAX: usize = 4;
/// Pixels of a slice, which has at most twice as many: 1.5 ms of a core, worth waking another one
/// for.
pub(crate) const SLICE_PIXELS: u64 = 1 << 17;

/// A job's pixels and plan; its memory is reused.
#[derive(Debug)]
pub(crate) struct EncodeJob {
    pub(crate) viewer: ViewerId,
    pub(crate) id: JobId,
    pub(crate) snapshot: Snapshot,
    pub(crate) planned: Vec<Planned>,
    pub(crate) settings: EncodeSettings,
    /// The commands of a plain video frame, which follow the planned ones.
    pub(crate) plain: Commands,
    /// A video frame that is to be encoded, and its stream's encoder.
    pub(crate) frame: Option<Box<FrameEncoder>>,
}

impl EncodeJob {
    pub(crate) fn new() -> EncodeJob {
        EncodeJob {
            viewer: ViewerId(0),
            id: JobId(0),
            snapshot: Snapshot::new(),
            planned: Vec::new(),
            settings: EncodeSettings::default(),
            plain: Commands::default(),
            frame: None,
        }
    }

    /// Encodes the whole plan on this thread. Returns the time that took.
    pub(crate) fn encode(&self, encoder: &mut Encoder, out: &mut Commands) -> Duration {
        let took = self.encode_slice(&self.planned, encoder, out);
        out.append(&self.plain);
        took
    }

    /// Encoding takes too little time to wake a thread for it.
    pub(crate) fn is_inline(&self, job: &Job) -> bool {
        (self.planned.is_empty() || job.hints.inline) && self.frame.is_none()
    }

    fn encode_slice(
        &self,
        planned: &[Planned],
        encoder: &mut Encoder,
        out: &mut Commands,
    ) -> Duration {
        let started = Instant::now();
        encoder.write(planned, &self.snapshot, &self.settings, &mut out.writer());
        started.elapsed()
    }

    /// Pixels whose encoding takes time.
    pub(crate) fn pixels(&self) -> u64 {
        self.planned.iter().map(pixels).sum()
    }

    /// The slices of the plan, which are encoded independently.
    fn slices(&self) -> Vec<Range<usize>> {
        let mut slices = Vec::new();
        let (mut start, mut pixels_in_slice) = (0, 0);
        for (at, planned) in self.planned.iter().enumerate() {
            pixels_in_slice += pixels(planned);
            if pixels_in_slice >= SLICE_PIXELS {
                slices.push(start..at + 1);
                (start, pixels_in_slice) = (at + 1, 0);
            }
        }
        // An empty job has one empty slice, so that it completes too.
        if start < self.planned.len() || slices.is_empty() && self.frame.is_none() {
            slices.push(start..self.planned.len());
        }
        slices
    }
}

/// Solid and already shown areas take almost no time.
fn pixels(planned: &Planned) -> u64 {
    match planned {
        Planned::TwoColor { rect, .. }
        | Planned::Coverage { rect, .. }
        | Planned::Pixels { rect, .. }
        | Planned::Photo { rect }
        | Planned::Frame { rect } => rect.area(),
        Planned::Shift { .. }
        | Planned::Solid { .. }
        | Planned::Pattern { .. }
        | Planned::Recall { .. }
        | Planned::Keep { .. } => 0,
    }
}

/// A slice of a job to be encoded.
#[derive(Debug)]
struct Task {
    job: Arc<EncodeJob>,
    index: usize,
    kind: TaskKind,
}

#[derive(Debug)]
enum TaskKind {
    /// A range of the plan.
    Planned(Range<usize>),
    /// The job's video frame, with its stream's encoder.
    Frame(Box<FrameEncoder>),
}

/// An encoded slice of a job.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) job: Arc<EncodeJob>,
    pub(crate) index: usize,
    pub(crate) commands: Commands,
    pub(crate) took: Duration,
    /// The encoder of a video frame, which returns to its stream.
    pub(crate) frame: Option<Box<FrameEncoder>>,
    /// Why the video frame could not be encoded.
    pub(crate) failed: Option<EncodeError>,
}

/// Puts the slices of one job back in order as they arrive.
#[derive(Debug)]
pub(crate) struct OrderedSlices {
    slices: Vec<Option<Commands>>,
    /// All slices before this one were taken.
    next: usize,
    /// The sum of their encoding times, on all threads.
    pub(crate) took: Duration,
    /// Its video frame could not be encoded.
    pub(crate) failed: bool,
    /// Video samples that were encoded.
    pub(crate) samples: u64,
}

impl OrderedSlices {
    pub(crate) fn new(count: usize) -> OrderedSlices {
        OrderedSlices {
            slices: vec![None; count],
            next: 0,
            took: Duration::ZERO,
            failed: false,
            samples: 0,
        }
    }

    pub(crate) fn put(&mut self, index: usize, commands: Commands, took: Duration) {
        self.slices[index] = Some(commands);
        self.took += took;
    }

    /// The commands of the next slice, once they have arrived.
    pub(crate) fn take(&mut self) -> Option<Commands> {
        let commands = self.slices.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(commands)
    }

    /// The last slice was taken.
    pub(crate) fn is_complete(&self) -> bool {
        self.next == self.slices.len()
    }
}

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<Task>,
    closed: bool,
}

/// State shared by the threads and the event loop.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no holder of this lock can panic")
    }

    /// Waits for a slice; `None`: the queue is closed.
    fn next(&self) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(task) = queue.tasks.pop_front() {
                return Some(task);
            }
            queue = self.more.wait(queue).expect("no holder of this lock can panic");
        }
    }
}

/// The encoding threads, which start with the first job.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Option<Arc<Shared>>,
    events: Events,
}

impl Workers {
    pub(crate) fn new(events: Events) -> Workers {
        Workers { shared: None, events }
    }

    /// Submits a job; its slices return as `Event::Encoded`, in any order. Returns how many there
    /// are. The queue has no bound of its own: session-core commits no more than a frame time of
    /// work, and a few jobs for each viewer.
    pub(crate) fn submit(&mut self, mut job: EncodeJob) -> usize {
        let events = &self.events;
        let shared = self.shared.get_or_insert_with(|| start(events));
        let slices = job.slices();
        let frame = job.frame.take();
        let count = slices.len() + usize::from(frame.is_some());
        let job = Arc::new(job);
        let task = |index, kind| Task { job: job.clone(), index, kind };
        // The video frame takes longest and is sent last: the lossless part need not wait for it.
        let frame = frame.map(|frame| task(count - 1, TaskKind::Frame(frame)));
        let tasks = slices
            .into_iter()
            .enumerate()
            .map(|(index, planned)| task(index, TaskKind::Planned(planned)));
        shared.queue().tasks.extend(frame.into_iter().chain(tasks));
        for _ in 0..count {
            shared.more.notify_one();
        }
        count
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.queue().closed = true;
            shared.more.notify_all();
        }
    }
}

fn start(events: &Events) -> Arc<Shared> {
    let shared = Arc::new(Shared::default());
    let threads =
        thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS_MAX);
    for _ in 0..threads {
        let (shared, events) = (shared.clone(), events.clone());
        thread::spawn(move || run(&shared, &events));
    }
    shared
}

fn run(shared: &Shared, events: &Events) {
    let mut encoder = Encoder::new();
    while let Some(Task { job, index, kind }) = shared.next() {
        let mut commands = Commands::default();
        let (took, frame, failed) = match kind {
            TaskKind::Planned(planned) => {
                (job.encode_slice(&job.planned[planned], &mut encoder, &mut commands), None, None)
            }
            TaskKind::Frame(mut frame) => {
                let started = Instant::now();
                let failed = frame.encode(&mut commands).err();
                (started.elapsed(), Some(frame), failed)
            }
        };
        let encoded = Encoded { job, index, commands, took, frame, failed };
        if events.blocking_send(Event::Encoded(encoded)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use thinc_pixels::Content;
    use thinc_region::{Rect, Region};

    use super::*;

    /// A job of bands whose pixels repeat little, with a solid line between them.
    fn job() -> EncodeJob {
        let mut job = EncodeJob::new();
        let screen = Rect::new(0, 0, 640, 640);
        job.snapshot.fill(&Region::from(screen), |rect, dst, _| {
            for (i, pixel) in dst.iter_mut().enumerate() {
                *pixel = (i as u32 + rect.x1 as u32).wrapping_mul(0x9e37_79b9) >> 8;
            }
        });
        for y in (0..640).step_by(32) {
            let (rect, line) = (Rect::new(0, y, 640, y + 30), Rect::new(0, y + 30, 640, y + 32));
            job.planned.push(Planned::Pixels { rect, content: Content::Image });
            job.planned.push(Planned::Solid { region: Region::from(line), color: y as u32 });
        }
        job
    }

    #[test]
    fn slices_cover_the_plan_in_order() {
        let job = job();
        let slices = job.slices();
        assert!(slices.len() > 2, "{slices:?}");
        assert_eq!(
            slices.iter().cloned().flatten().collect::<Vec<_>>(),
            (0..job.planned.len()).collect::<Vec<_>>()
        );
        assert_eq!(EncodeJob::new().slices().len(), 1, "an empty job has one slice");
    }

    #[test]
    fn the_bytes_do_not_depend_on_the_speed_of_the_threads() {
        let (events, mut inbox) = crate::connection::channel();
        let mut workers = Workers::new(events);
        let mut joined = Vec::new();
        for _ in 0..8 {
            let mut ordered = OrderedSlices::new(workers.submit(job()));
            let mut commands = Commands::default();
            loop {
                let Some(Event::Encoded(encoded)) = inbox.blocking_recv() else {
                    panic!("only jobs were submitted")
                };
                ordered.put(encoded.index, encoded.commands, encoded.took);
                std::iter::from_fn(|| ordered.take()).for_each(|slice| commands.append(&slice));
                if ordered.is_complete() {
                    assert!(Arc::into_inner(encoded.job).is_some(), "the last slice owns the job");
                    break;
                }
            }
            joined.push(commands.as_bytes().to_vec());
        }
        assert!(joined.iter().all(|commands| *commands == joined[0]));
        let mut sequential = Commands::default();
        let (job, mut encoder) = (job(), Encoder::new());
        for slice in job.slices() {
            job.encode_slice(&job.planned[slice], &mut encoder, &mut sequential);
        }
        assert!(sequential.as_bytes() == joined[0], "one thread gives the same bytes");
    }
}
