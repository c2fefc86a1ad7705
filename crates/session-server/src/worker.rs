//! Path 9/13: jobs too large for the event loop, from actor.rs to codec-enc on threads, and back as events.
//! From actor.rs, with pixels already copied and planned; nothing here reads shared memory.
//! Knows one job at a time; never viewers' order, which session-core keeps.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thinc_codec_enc::{EncodeSettings, Encoder};
use thinc_pixels::{Planned, Snapshot};
use thinc_session_core::{JobId, ViewerId};

use crate::connection::{Event, Events};

/// More threads than this would take the machine from the applications.
const THREADS_MAX: usize = 4;
/// Jobs that wait for a thread; past it viewers wait, each with one job of its own.
const WAITING_MAX: usize = 8;

/// A job's pixels and what becomes of them; its memory goes round.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) viewer: ViewerId,
    pub(crate) job: JobId,
    pub(crate) snapshot: Snapshot,
    pub(crate) planned: Vec<Planned>,
    pub(crate) settings: EncodeSettings,
    pub(crate) commands: Vec<u8>,
    /// How long that took.
    pub(crate) took: Duration,
}

/// Work whose `commands` are complete.
pub(crate) type Encoded = Work;

impl Work {
    pub(crate) fn new() -> Work {
        let (viewer, job) = (ViewerId(0), JobId(0));
        Work {
            viewer,
            job,
            snapshot: Snapshot::new(),
            planned: Vec::new(),
            settings: EncodeSettings::default(),
            commands: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// Fills `commands`.
    pub(crate) fn encode(&mut self, encoder: &mut Encoder) {
        let begun = Instant::now();
        self.commands.clear();
        encoder.encode_with(&self.planned, &self.snapshot, &self.settings, &mut self.commands);
        self.took = begun.elapsed();
    }

    /// Pixels whose encoding takes time: what is of one colour, or there already, takes none to speak of.
    pub(crate) fn pixels(&self) -> u64 {
        let area = |planned: &Planned| match planned {
            Planned::TwoColor { rect, .. }
            | Planned::Coverage { rect, .. }
            | Planned::Pixels { rect, .. }
            | Planned::Photo { rect } => rect.area(),
            _ => 0,
        };
        self.planned.iter().map(area).sum()
    }
}

/// The threads, which start with the first job.
#[derive(Debug)]
pub(crate) struct Workers {
    jobs: Option<SyncSender<Work>>,
    events: Events,
}

impl Workers {
    pub(crate) fn new(events: Events) -> Workers {
        Workers { jobs: None, events }
    }

    /// Hands a job over; it comes back as `Event::Encoded`. Given back at once where all threads have enough to do.
    pub(crate) fn submit(&mut self, work: Work) -> Option<Work> {
        let events = &self.events;
        let jobs = self.jobs.get_or_insert_with(|| start(events));
        match jobs.try_send(work) {
            Ok(()) => None,
            Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => Some(work),
        }
    }
}

fn start(events: &Events) -> SyncSender<Work> {
    let (jobs, receiver) = sync_channel(WAITING_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS_MAX);
    for _ in 0..threads {
        let (receiver, events) = (receiver.clone(), events.clone());
        thread::spawn(move || run(&receiver, &events));
    }
    jobs
}

fn run(jobs: &Mutex<Receiver<Work>>, events: &Events) {
    let mut encoder = Encoder::new();
    loop {
        // Held while waiting: the next thread then waits for this one to have got its job.
        let next = jobs.lock().expect("no holder of this lock can panic").recv();
        let Ok(mut work) = next else { return };
        work.encode(&mut encoder);
        if events.blocking_send(Event::Encoded(work)).is_err() {
            return;
        }
    }
}
