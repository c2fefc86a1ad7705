//! Path 9/13: jobs too large for the event loop, from actor.rs to codec-enc on threads, and back as events.
//! From actor.rs, with pixels already copied and planned; nothing here reads shared memory.
//! Knows one job at a time; never viewers' order, which session-core keeps, and which bounds how much waits here.
//!
//! A job's plan is shared out in stretches, which depend on nothing but the plan, and its commands are theirs in that order:
//! however many threads there are, and whichever is faster, the same bytes leave.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use thinc_codec_enc::{EncodeSettings, Encoder};
use thinc_h264::EncodeError;
use thinc_pixels::{Planned, Snapshot};
use thinc_session_core::{JobId, ViewerId};

use crate::connection::{Event, Events};
use crate::video::Picture;

/// More threads than this would take the machine from the applications.
const THREADS_MAX: usize = 4;
/// About so many pixels are a stretch, and at most twice as many: a millisecond and a half of a core, worth waking another for.
pub(crate) const STRETCH_PIXELS: u64 = 1 << 17;

/// A job's pixels and what is to be said of them; its memory goes round.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) viewer: ViewerId,
    pub(crate) job: JobId,
    pub(crate) snapshot: Snapshot,
    pub(crate) planned: Vec<Planned>,
    pub(crate) settings: EncodeSettings,
    /// A video's plain picture, which follows what was planned.
    pub(crate) plain: Vec<u8>,
    /// A picture that is to be coded, for the same place.
    pub(crate) picture: Option<Box<Picture>>,
}

impl Work {
    pub(crate) fn new() -> Work {
        Work {
            viewer: ViewerId(0),
            job: JobId(0),
            snapshot: Snapshot::new(),
            planned: Vec::new(),
            settings: EncodeSettings::default(),
            plain: Vec::new(),
            picture: None,
        }
    }

    /// All of it, encoded here and now. Gives the time that took.
    pub(crate) fn encode(&self, encoder: &mut Encoder, out: &mut Vec<u8>) -> Duration {
        let took = self.encode_stretch(&self.planned, encoder, out);
        out.extend_from_slice(&self.plain);
        took
    }

    /// Nothing of it takes so long that a thread is woken for it.
    pub(crate) fn is_done_at_once(&self) -> bool {
        self.planned.is_empty() && self.picture.is_none()
    }

    fn encode_stretch(&self, planned: &[Planned], encoder: &mut Encoder, out: &mut Vec<u8>) -> Duration {
        let begun = Instant::now();
        encoder.encode_with(planned, &self.snapshot, &self.settings, out);
        begun.elapsed()
    }

    /// Pixels whose encoding takes time.
    pub(crate) fn pixels(&self) -> u64 {
        self.planned.iter().map(pixels).sum()
    }

    /// The plan in parts that are encoded apart.
    fn stretches(&self) -> Vec<Range<usize>> {
        let mut stretches = Vec::new();
        let (mut start, mut held) = (0, 0);
        for (at, planned) in self.planned.iter().enumerate() {
            held += pixels(planned);
            if held >= STRETCH_PIXELS {
                stretches.push(start..at + 1);
                (start, held) = (at + 1, 0);
            }
        }
        // A job of nothing comes back as well.
        if start < self.planned.len() || stretches.is_empty() && self.picture.is_none() {
            stretches.push(start..self.planned.len());
        }
        stretches
    }
}

/// What is of one colour, or there already, takes no time to speak of.
fn pixels(planned: &Planned) -> u64 {
    match planned {
        Planned::TwoColor { rect, .. }
        | Planned::Coverage { rect, .. }
        | Planned::Pixels { rect, .. }
        | Planned::Photo { rect } => rect.area(),
        Planned::Shift { .. }
        | Planned::Solid { .. }
        | Planned::Pattern { .. }
        | Planned::Recall { .. }
        | Planned::Keep { .. } => 0,
    }
}

/// A stretch of a job to be encoded.
#[derive(Debug)]
struct Task {
    work: Arc<Work>,
    /// Its place, and how many there are.
    index: usize,
    count: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A part of what was planned.
    Planned(Range<usize>),
    /// The job's picture, with its stream's encoder.
    Picture(Box<Picture>),
}

/// A stretch of a job that is encoded.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) work: Arc<Work>,
    pub(crate) index: usize,
    pub(crate) count: usize,
    pub(crate) commands: Vec<u8>,
    pub(crate) took: Duration,
    /// The stretch was a picture: its encoder comes back.
    pub(crate) picture: Option<Box<Picture>>,
    /// That could not be coded, for this reason.
    pub(crate) failed: Option<EncodeError>,
}

/// The stretches of one job that have come, until all before them have.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) job: JobId,
    stretches: Vec<Option<Vec<u8>>>,
    /// All before this one were taken.
    next: usize,
    /// What they took, on however many threads.
    pub(crate) took: Duration,
    /// The stream whose picture could not be coded: what is here of the job is shown, and no more.
    pub(crate) failed: Option<u16>,
    /// Samples that were coded.
    pub(crate) samples: u64,
}

impl Gathered {
    pub(crate) fn new(job: JobId, count: usize) -> Gathered {
        Gathered { job, stretches: vec![None; count], next: 0, took: Duration::ZERO, failed: None, samples: 0 }
    }

    pub(crate) fn put(&mut self, index: usize, commands: Vec<u8>, took: Duration) {
        self.stretches[index] = Some(commands);
        self.took += took;
    }

    /// The commands of the next stretch, once they are here.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let commands = self.stretches.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(commands)
    }

    /// The last was taken.
    pub(crate) fn is_whole(&self) -> bool {
        self.next == self.stretches.len()
    }
}

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<Task>,
    closed: bool,
}

/// What threads and the event loop share.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no holder of this lock can panic")
    }

    /// Waits for a stretch; None: there will be no more.
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

/// The threads, which start with the first job.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Option<Arc<Shared>>,
    events: Events,
}

impl Workers {
    pub(crate) fn new(events: Events) -> Workers {
        Workers { shared: None, events }
    }

    /// Hands a job over; its stretches come back as `Event::Encoded`, in any order. The queue has no bound of its own:
    /// session-core commits no more than a frame time of work, and a few jobs for each viewer.
    pub(crate) fn submit(&mut self, mut work: Work) {
        let events = &self.events;
        let shared = self.shared.get_or_insert_with(|| start(events));
        let stretches = work.stretches();
        let picture = work.picture.take();
        let count = stretches.len() + usize::from(picture.is_some());
        let work = Arc::new(work);
        let task = |index, what| Task { work: work.clone(), index, count, what };
        // The picture takes longest and leaves last: what is exact need not wait for it.
        let picture = picture.map(|picture| task(count - 1, What::Picture(picture)));
        let tasks = stretches.into_iter().enumerate().map(|(index, planned)| task(index, What::Planned(planned)));
        shared.queue().tasks.extend(picture.into_iter().chain(tasks));
        for _ in 0..count {
            shared.more.notify_one();
        }
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
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS_MAX);
    for _ in 0..threads {
        let (shared, events) = (shared.clone(), events.clone());
        thread::spawn(move || run(&shared, &events));
    }
    shared
}

fn run(shared: &Shared, events: &Events) {
    let mut encoder = Encoder::new();
    while let Some(Task { work, index, count, what }) = shared.next() {
        let mut commands = Vec::new();
        let (took, picture, failed) = match what {
            What::Planned(planned) => {
                (work.encode_stretch(&work.planned[planned], &mut encoder, &mut commands), None, None)
            }
            What::Picture(mut picture) => {
                let begun = Instant::now();
                let failed = picture.encode(&mut commands).err();
                (begun.elapsed(), Some(picture), failed)
            }
        };
        let encoded = Encoded { work, index, count, commands, took, picture, failed };
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

    /// A job of bands whose pixels repeat little, with a line of one colour between.
    fn work() -> Work {
        let mut work = Work::new();
        let screen = Rect::new(0, 0, 640, 640);
        work.snapshot.fill(&Region::from(screen), |rect, dst, _| {
            for (i, pixel) in dst.iter_mut().enumerate() {
                *pixel = (i as u32 + rect.x1 as u32).wrapping_mul(0x9e37_79b9) >> 8;
            }
        });
        for y in (0..640).step_by(32) {
            let (rect, line) = (Rect::new(0, y, 640, y + 30), Rect::new(0, y + 30, 640, y + 32));
            work.planned.push(Planned::Pixels { rect, content: Content::Image });
            work.planned.push(Planned::Solid { region: Region::from(line), color: y as u32 });
        }
        work
    }

    #[test]
    fn stretches_are_all_of_the_plan_in_its_order() {
        let work = work();
        let stretches = work.stretches();
        assert!(stretches.len() > 2, "{stretches:?}");
        assert_eq!(
            stretches.iter().cloned().flatten().collect::<Vec<_>>(),
            (0..work.planned.len()).collect::<Vec<_>>()
        );
        assert_eq!(Work::new().stretches().len(), 1, "a job of nothing comes back as well");
    }

    #[test]
    fn the_same_bytes_leave_whichever_thread_is_faster() {
        let (events, mut inbox) = crate::connection::channel();
        let mut workers = Workers::new(events);
        let mut joined = Vec::new();
        for _ in 0..8 {
            workers.submit(work());
            let mut gathered: Option<Gathered> = None;
            let mut commands = Vec::new();
            loop {
                let Some(Event::Encoded(encoded)) = inbox.blocking_recv() else { panic!("only jobs were given") };
                let gathered = gathered.get_or_insert_with(|| Gathered::new(encoded.work.job, encoded.count));
                gathered.put(encoded.index, encoded.commands, encoded.took);
                commands.extend(std::iter::from_fn(|| gathered.take()).flatten());
                if gathered.is_whole() {
                    assert!(Arc::into_inner(encoded.work).is_some(), "the last that comes back is the only one");
                    break;
                }
            }
            joined.push(commands);
        }
        assert!(joined.iter().all(|commands| *commands == joined[0]));
        let mut alone = Vec::new();
        let (work, mut encoder) = (work(), Encoder::new());
        for stretch in work.stretches() {
            work.encode_stretch(&work.planned[stretch], &mut encoder, &mut alone);
        }
        assert!(alone == joined[0], "and those of one thread");
    }
}
