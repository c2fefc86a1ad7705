//! The ear: a sound card at the viewer's end with a PulseAudio server in front of it, which every
//! viewer finds where PulseAudio is by default. From the viewers' sockets, to heard.rs: samples
//! with the time at which each was heard, by the clock of the whole machine. Knows PulseAudio's
//! protocol and time; never which system plays, nor what.
//!
//! The card has periods of 5 ms, of which it holds two: one is heard while the next is filled. So a
//! sample that is fetched at the start of a period is heard 5 ms later at the earliest, and the
//! card fetches by its own clock, never because something was written. Programs are told of these
//! 5 ms. Volumes are not applied, and nothing is resampled: each stream is kept as it was played.

mod program;
mod stream;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pulseaudio::protocol::{self, Command, ProtocolError, Request, Underflow};

use super::clock::now_ns;
use crate::Error;
use stream::Stream;

/// Of a card that is set up for low latency, as those of desktops are for games and calls.
pub const PERIOD_NS: u64 = 5_000_000;
/// From the fetch of a sample to the moment when it is heard: the period before is heard meanwhile.
pub const DELAY_NS: u64 = PERIOD_NS;
/// A machine that stood still for longer leaves time out, instead of playing faster.
const LATE_PERIODS_MAX: u64 = 40;
/// Samples beyond this are not silent: more than what a codec leaves of silence.
const LOUD: f32 = 0.02;
/// A program that reads nothing for so long is disconnected: all others would wait for it.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// Sound of one stream without a gap in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// When its first sample was heard, by CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Samples a second.
    pub rate: u32,
    /// The first channel, from -1 to 1.
    pub samples: Vec<f32>,
}

impl Piece {
    /// When a sample was heard.
    pub fn time_ns(&self, sample: usize) -> u64 {
        self.start_ns + sample as u64 * 1_000_000_000 / u64::from(self.rate.max(1))
    }
}

/// What was heard, and how well the ear itself has worked.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// In the order in which they began.
    pub pieces: Vec<Piece>,
    /// Periods for which a program had written too little.
    pub underruns: u64,
    /// How late the ear fetched each period, ms: the machine was busy. A card would have missed
    /// what was written meanwhile.
    pub late_ms: Vec<f64>,
}

/// A running ear; it ends with its owner.
pub struct Ear {
    shared: Arc<Shared>,
    socket: PathBuf,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// A stream may play now, or the ear ends.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    /// Programs and streams are numbered together.
    next_index: u32,
    programs: BTreeMap<u32, Arc<Program>>,
    streams: BTreeMap<u32, Stream>,
    /// Start of the card's clock, and periods since then.
    clock: Option<(u64, u64)>,
    heard: Heard,
    /// Of streams that have ended, samples that were not silent.
    ended_loud: u64,
}

/// A program's connection, as it is written to.
struct Program {
    index: u32,
    stream: UnixStream,
    /// Of the protocol; the least until it has authenticated.
    version: Mutex<u16>,
}

impl Program {
    fn version(&self) -> u16 {
        *lock(&self.version)
    }

    /// Writes one message. A program that does not read is disconnected.
    fn write(&self, message: impl FnOnce(&mut Vec<u8>, u16) -> Result<(), ProtocolError>) {
        let mut bytes = Vec::new();
        let written = message(&mut bytes, self.version()).is_ok();
        if !written || (&self.stream).write_all(&bytes).is_err() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// A message that answers nothing.
    fn tell(&self, command: &Command) {
        self.write(|bytes, version| {
            protocol::write_command_message(bytes, u32::MAX, command, version)
        });
    }
}

impl Ear {
    /// Listens where programs with this runtime folder (XDG_RUNTIME_DIR) look for PulseAudio.
    pub fn start(runtime: &Path) -> Result<Ear, Error> {
        let folder = runtime.join("pulse");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let socket = folder.join("native");
        let listener = UnixListener::bind(&socket)
            .map_err(|error| format!("the ear cannot listen on {}: {error}", socket.display()))?;
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Condvar::new() });
        let (card, accepting) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            std::thread::Builder::new().name("ear".into()).spawn(move || card.keep_time())?,
            std::thread::Builder::new()
                .name("ear-accepts".into())
                .spawn(move || accepting.accept(&listener))?,
        ];
        Ok(Ear { shared, socket, threads })
    }

    /// Forgets what was heard until now.
    pub fn clear(&self) {
        let mut state = self.shared.state();
        state.heard = Heard::default();
        state.streams.values_mut().for_each(Stream::clear);
    }

    /// What was heard since the last call of [`Ear::clear`], or since the start.
    pub fn heard(&self) -> Heard {
        let state = self.shared.state();
        let mut heard = state.heard.clone();
        heard.pieces.extend(state.streams.values().flat_map(Stream::pieces).cloned());
        heard.pieces.sort_by_key(|piece| piece.start_ns);
        heard
    }

    /// How many samples were not silent since the start: whether anything is heard, at no cost.
    pub fn loud_samples(&self) -> u64 {
        let state = self.shared.state();
        state.ended_loud + state.streams.values().map(Stream::loud_samples).sum::<u64>()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.has_ended = true;
            for program in state.programs.values() {
                let _ = program.stream.shutdown(Shutdown::Both);
            }
        }
        self.shared.wake.notify_all();
        // Ends the wait for a program.
        let _ = UnixStream::connect(&self.socket);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn accept(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            let mut state = self.state();
            if state.has_ended {
                return;
            }
            let Ok(reader) = stream.try_clone() else { continue };
            let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
            let index = state.take_index();
            let version = Mutex::new(protocol::MIN_VERSION);
            let program = Arc::new(Program { index, stream, version });
            state.programs.insert(index, Arc::clone(&program));
            drop(state);
            let shared = Arc::clone(&self);
            // It ends with its connection, which the ear's end shuts down.
            std::thread::spawn(move || {
                program::serve(&shared, &program, reader);
                let mut state = shared.state();
                state.programs.remove(&program.index);
                let gone = state.streams.iter().filter(|(_, stream)| stream.owner == program.index);
                let gone: Vec<u32> = gone.map(|(&index, _)| index).collect();
                gone.into_iter().for_each(|index| state.end_stream(index));
            });
        }
    }

    /// The card's clock: fetches each period when it is due, and sleeps while nothing plays.
    fn keep_time(&self) {
        let mut state = self.state();
        while !state.has_ended {
            if !state.streams.values_mut().any(Stream::plays) {
                state.clock = None;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = now_ns();
            let (started, periods) = *state.clock.get_or_insert((now, 0));
            let due = started + periods * PERIOD_NS;
            if now < due {
                drop(state);
                std::thread::sleep(Duration::from_nanos(due - now));
                state = self.state();
                continue;
            }
            if now > due + LATE_PERIODS_MAX * PERIOD_NS {
                state.clock = None;
                continue;
            }
            state.heard.late_ms.push((now - due) as f64 / 1e6);
            state.fetch(due, periods);
            state.clock = Some((started, periods + 1));
        }
    }
}

impl State {
    fn take_index(&mut self) -> u32 {
        self.next_index += 1;
        self.next_index
    }

    /// Forgets a stream, and keeps what was heard of it.
    fn end_stream(&mut self, index: u32) {
        if let Some(stream) = self.streams.remove(&index) {
            self.ended_loud += stream.loud_samples();
            self.heard.pieces.extend(stream.into_pieces());
        }
    }

    /// Asks a program for what its streams lack, as after a flush: it may wait for that while
    /// nothing is fetched.
    fn ask(&mut self, program: &Program) {
        for (&channel, stream) in &mut self.streams {
            if stream.owner != program.index {
                continue;
            }
            if let Some(length) = stream.take_request() {
                program.tell(&Command::Request(Request { channel, length }));
            }
        }
    }

    /// Fetches a period of every stream, and asks programs for more.
    fn fetch(&mut self, due_ns: u64, period: u64) {
        for (&channel, stream) in &mut self.streams {
            let fetched = stream.fetch(due_ns + DELAY_NS, period);
            let Some(program) = self.programs.get(&stream.owner) else { continue };
            if fetched.has_started {
                program.tell(&Command::Started(channel));
            }
            if fetched.has_underrun {
                self.heard.underruns += 1;
                let offset = stream.read_offset();
                program.tell(&Command::Underflow(Underflow { channel, offset }));
            }
            for number in fetched.drained {
                program.write(|bytes, _| protocol::write_ack_message(bytes, number));
            }
            if let Some(length) = stream.take_request() {
                program.tell(&Command::Request(Request { channel, length }));
            }
        }
    }
}
