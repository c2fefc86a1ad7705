//! The running link: one thread for each direction reads packets from one TUN device, asks the
//! model for the fate of each, and writes them to the other device when they are due. Beside the
//! path, between end.rs and trace.rs. Knows descriptors, clocks and threads; makes no decision
//! itself.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::Error;
use crate::net::capture::Capture;
use crate::net::emulator::{Emulator, Verdict};
use crate::net::end::MTU;
use crate::net::link::Link;
use crate::net::nettest::FLOW_PORT;
use crate::net::schedule::Schedule;
use crate::net::testbed::{Direction, Packet, Side};
use crate::net::trace::{Trace, has_port, is_udp, payload};

/// Most packets that are read before due ones are delivered: half a millisecond of work at most.
const BURST_PACKETS: usize = 64;

/// A packet that is due within this time is sent at once: sleeping and waking takes longer.
const SEND_AHEAD: Duration = Duration::from_micros(10);

/// While traffic is dense, a thread wakes up periodically and not for each packet, like the
/// interrupt moderation of network cards: most of the cost of a packet is the wake-up. A packet is
/// then read up to this late, or delivered up to half of this early. With iperf3 on a link of 400
/// Mbit/s both threads together take 0.36 of a core with it and 0.44 without (medians of three runs
/// in turn on a busy machine of two virtual cores, AMD EPYC); without a limit 2 to 3.6 Gbit/s pass
/// and take half a core.
const TICK: Duration = Duration::from_micros(100);

/// Traffic is dense if packets arrive at shorter intervals: full ones at more than 30 Mbit/s. A
/// packet after a longer pause, as every response to a key, is handled at once.
const DENSE_GAP: Duration = Duration::from_micros(400);

/// Retry interval for packets that could not be recorded because another thread was reading the
/// trace.
const TRACE_RETRY: Duration = Duration::from_millis(1);

/// Packets in flight in one direction: 600 ms of full packets at 3 Gbit/s. More are dropped and
/// counted.
const IN_FLIGHT_MAX: usize = 1 << 17;

/// Most buffers that are kept for reuse.
const SPARE_MAX: usize = 4096;

enum Request {
    Link(Box<Link>),
    Schedule(Schedule),
    Cut(bool),
    Capture(Option<Arc<Capture>>),
    Stop,
}

/// Requests to a direction's thread, each with the channel that reports its completion.
struct Requests {
    list: Mutex<Vec<(Request, Sender<()>)>>,
    wake: OwnedFd,
}

/// A direction's thread; its result is an error if it stopped by itself.
type Runs = JoinHandle<Result<(), Error>>;

/// Both directions.
pub(crate) struct Wire {
    lanes: Vec<(Arc<Requests>, Runs)>,
    trace: Arc<Mutex<Trace>>,
    in_flight: Arc<AtomicUsize>,
    real_time: bool,
}

impl Wire {
    /// Joins the two devices, whose descriptors do not block.
    pub(crate) fn start(server: OwnedFd, client: OwnedFd, link: &Link) -> Result<Wire, Error> {
        let (server, client) = (Arc::new(server), Arc::new(client));
        let mut wire = Wire {
            lanes: vec![],
            trace: Arc::default(),
            in_flight: Arc::default(),
            real_time: true,
        };
        let origin = Instant::now();
        for (direction, input, output) in
            [(Direction::Down, &server, &client), (Direction::Up, &client, &server)]
        {
            let requests = Arc::new(Requests {
                list: Mutex::default(),
                wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            });
            let lane = DirectionThread {
                direction,
                input: input.clone(),
                output: output.clone(),
                requests: requests.clone(),
                emulator: Emulator::new(link, direction, Duration::ZERO),
                blocks_udp: link.blocks_udp,
                origin,
                read_last: Duration::ZERO,
                dense: false,
                more: false,
                line: VecDeque::new(),
                spare: vec![],
                trace: wire.trace.clone(),
                unrecorded: vec![],
                lost: vec![],
                in_flight: wire.in_flight.clone(),
                capture: None,
            };
            let (sender, receiver) = channel();
            let name = format!("link {direction:?}").to_lowercase();
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                let _ = sender.send(rustix::thread::gettid());
                lane.run()
            })?;
            wire.lanes.push((requests, thread));
            let thread = receiver.recv().map_err(|_| "a thread of the link ended at once")?;
            wire.real_time &= raise_priority(thread);
        }
        Ok(wire)
    }

    /// Makes it another link.
    pub(crate) fn set_link(&self, link: &Link) {
        self.order(|| Request::Link(Box::new(link.clone())));
    }

    /// Lets it change from now on.
    pub(crate) fn play(&self, schedule: &Schedule) {
        self.order(|| Request::Schedule(schedule.clone()));
    }

    /// Cuts or restores the link.
    pub(crate) fn cut(&self, cut: bool) {
        self.order(|| Request::Cut(cut));
    }

    /// Copies every packet from now on, or no more.
    pub(crate) fn set_capture(&self, capture: Option<Arc<Capture>>) {
        self.order(|| Request::Capture(capture.clone()));
    }

    /// What passed.
    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets that were sent and have not arrived yet, in both directions.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Whether both threads run before every ordinary process, so that a busy machine does not slow
    /// the link.
    pub(crate) fn real_time(&self) -> bool {
        self.real_time
    }

    /// An error when a direction has stopped.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.lanes.iter().find(|(_, thread)| thread.is_finished()) {
            Some((_, thread)) => Err(format!(
                "the thread `{}` of the testbed stopped",
                thread.thread().name().unwrap_or("link")
            )
            .into()),
            None => Ok(()),
        }
    }

    /// Asks both directions, and returns when both have done it.
    fn order(&self, order: impl Fn() -> Request) {
        let (sender, done) = channel();
        for (requests, _) in &self.lanes {
            requests
                .list
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((order(), sender.clone()));
            // It holds a counter that cannot be full: each order adds one, each look takes all.
            let _ = rustix::io::write(&requests.wake, &1u64.to_ne_bytes());
        }
        drop(sender);
        for _ in &self.lanes {
            // A direction that has stopped has dropped its list or never looks again; `check`
            // tells.
            let _ = done.recv_timeout(Duration::from_secs(1));
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.order(|| Request::Stop);
        for (_, thread) in self.lanes.drain(..) {
            let name = thread.thread().name().unwrap_or("link").to_owned();
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    eprintln!("thinc-bench: the thread `{name}` of the testbed stopped: {error}")
                }
                Err(_) => eprintln!("thinc-bench: the thread `{name}` of the testbed panicked"),
            }
        }
    }
}

/// Gives a thread real-time priority: a CPU hog on the same processor is part of a workload, the
/// link is not. Without the permission it gets a higher nice level. True if it is real-time.
fn raise_priority(thread: rustix::thread::Pid) -> bool {
    let mut chrt = Command::new("chrt");
    chrt.args(["--rr", "--pid", "1", &thread.as_raw_nonzero().to_string()]).stdin(Stdio::null());
    let real_time = chrt
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !real_time {
        let _ = rustix::process::setpriority_process(Some(thread), -10);
    }
    real_time
}

/// A packet in flight.
struct InFlightPacket {
    departs: Duration,
    at: Duration,
    packet: Vec<u8>,
}

/// One direction.
struct DirectionThread {
    direction: Direction,
    input: Arc<OwnedFd>,
    output: Arc<OwnedFd>,
    requests: Arc<Requests>,
    emulator: Emulator,
    blocks_udp: bool,
    origin: Instant,
    /// When packets were last read, and whether traffic is dense.
    read_last: Duration,
    dense: bool,
    /// Whether a burst was longer than one read takes.
    more: bool,
    /// In order of arrival.
    line: VecDeque<InFlightPacket>,
    spare: Vec<Vec<u8>>,
    trace: Arc<Mutex<Trace>>,
    /// Packets and losses that are not yet in the trace.
    unrecorded: Vec<Packet>,
    lost: Vec<Instant>,
    in_flight: Arc<AtomicUsize>,
    capture: Option<Arc<Capture>>,
}

impl DirectionThread {
    fn run(mut self) -> Result<(), Error> {
        // The default of 50 µs would be a quarter of a LAN's round trip. Without effect on a
        // real-time thread, which has none.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let requests = self.requests.clone();
        let (input, wake) = (self.input.clone(), &requests.wake);
        loop {
            // A sleep by the clock still ends for an order.
            let mut ready = [PollFd::new(wake, PollFlags::IN), PollFd::new(&*input, PollFlags::IN)];
            let (watched, timeout) = match (self.dense, self.more) {
                (_, true) => (2, Some(Duration::ZERO)),
                (true, false) => (1, Some(TICK)),
                (false, false) => (2, self.time_to_next()),
            };
            let timeout = timeout.map(|time| Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: time.subsec_nanos().into(),
            });
            match poll(&mut ready[..watched], timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !ready[0].revents().is_empty() && !self.handle_requests() {
                return Ok(());
            }
            if self.dense || !ready[1].revents().is_empty() {
                self.read_burst()?;
            }
            self.deliver_due();
            self.flush_trace();
        }
    }

    /// Longest time to sleep.
    fn time_to_next(&self) -> Option<Duration> {
        let now = self.origin.elapsed();
        let due = self.line.front().map(|flying| flying.at.saturating_sub(now));
        let retry = (!self.unrecorded.is_empty() || !self.lost.is_empty()).then_some(TRACE_RETRY);
        due.into_iter().chain(retry).min()
    }

    /// False if the thread is to end.
    fn handle_requests(&mut self) -> bool {
        let _ = rustix::io::read(&self.requests.wake, &mut [0; 8]);
        let requests =
            std::mem::take(&mut *self.requests.list.lock().unwrap_or_else(PoisonError::into_inner));
        let mut goes_on = true;
        for (order, done) in requests {
            let now = self.origin.elapsed();
            match order {
                Request::Link(link) => {
                    self.emulator.handle_link(&link, now);
                    self.blocks_udp = link.blocks_udp;
                }
                Request::Schedule(schedule) => {
                    self.emulator.handle_schedule(&schedule, now);
                    self.blocks_udp = schedule.last().blocks_udp;
                }
                Request::Cut(cut) => {
                    self.emulator.handle_cut(cut, now);
                    if cut {
                        self.lose_waiting(now);
                    }
                }
                Request::Capture(capture) => self.capture = capture,
                Request::Stop => goes_on = false,
            }
            let _ = done.send(());
        }
        goes_on
    }

    /// Drops the packets that have not departed: the link was cut.
    fn lose_waiting(&mut self, now: Duration) {
        let line = std::mem::take(&mut self.line);
        let (departed, waiting): (VecDeque<_>, VecDeque<_>) =
            line.into_iter().partition(|flying| flying.departs <= now);
        self.line = departed;
        for flying in waiting {
            self.in_flight.fetch_sub(1, Ordering::Release);
            self.lost.push(self.origin + now);
            self.recycle(flying.packet);
        }
    }

    fn read_burst(&mut self) -> Result<(), Error> {
        let now = self.origin.elapsed();
        let dense = now.saturating_sub(self.read_last) < DENSE_GAP;
        self.dense &= dense;
        self.more = false;
        for n in 0..BURST_PACKETS {
            let mut packet = self.spare.pop().unwrap_or_else(|| vec![0; usize::from(MTU)]);
            packet.resize(usize::from(MTU), 0);
            let len = match rustix::io::read(self.input.as_fd(), &mut packet[..]) {
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.recycle(packet);
                    return Ok(());
                }
                Err(error) => {
                    return Err(format!("cannot read from the TUN device: {error}").into());
                }
            };
            packet.truncate(len);
            self.handle_packet(packet);
            if n == 0 {
                self.dense = dense;
                self.read_last = now;
            }
        }
        self.more = true;
        Ok(())
    }

    fn handle_packet(&mut self, packet: Vec<u8>) {
        let sent = Instant::now();
        let (side, up) = match self.direction {
            Direction::Down => (Side::Server, false),
            Direction::Up => (Side::Client, true),
        };
        if let Some(capture) = &self.capture {
            capture.handle_packet(side, sent, &packet);
        }
        if self.blocks_udp && is_udp(&packet) {
            // Dropped before the link, and the sender is not told.
            self.lost.push(sent);
            return self.recycle(packet);
        }
        match self.emulator.handle_packet(sent - self.origin, packet.len() as u32) {
            Verdict::Deliver { departs, at } if self.line.len() < IN_FLIGHT_MAX => {
                if up {
                    self.record(sent, &packet);
                }
                self.in_flight.fetch_add(1, Ordering::Release);
                // At the end, unless it overtakes packets that are held back.
                let behind = self.line.iter().rev().take_while(|flying| flying.at > at).count();
                let place = self.line.len() - behind;
                self.line.insert(place, InFlightPacket { departs, at, packet });
            }
            Verdict::Deliver { .. } | Verdict::Drop(_) => {
                self.lost.push(sent);
                self.recycle(packet);
            }
        }
    }

    fn deliver_due(&mut self) {
        let soon = if self.dense { TICK / 2 } else { SEND_AHEAD };
        loop {
            let now = Instant::now();
            let due = now - self.origin + soon;
            let Some(flying) = self.line.pop_front_if(|flying| flying.at <= due) else { return };
            let written = loop {
                match rustix::io::write(self.output.as_fd(), &flying.packet) {
                    Err(Errno::INTR) => {}
                    other => break other,
                }
            };
            self.in_flight.fetch_sub(1, Ordering::Release);
            match written {
                Ok(_) => {
                    let side = match self.direction {
                        Direction::Down => {
                            self.record(now, &flying.packet);
                            Side::Client
                        }
                        Direction::Up => Side::Server,
                    };
                    if let Some(capture) = &self.capture {
                        capture.handle_packet(side, now, &flying.packet);
                    }
                }
                // The other end takes no packet now: the kernel is out of memory, or the device is
                // down.
                Err(_) => self.lost.push(now),
            }
            self.recycle(flying.packet);
        }
    }

    fn record(&mut self, at: Instant, packet: &[u8]) {
        if has_port(packet, FLOW_PORT) {
            return;
        }
        let bytes = packet.len() as u32;
        self.unrecorded.push(Packet {
            at,
            direction: self.direction,
            bytes,
            payload: payload(packet),
        });
    }

    /// Moves records into the trace, unless another thread is reading it: a reader of a long trace
    /// must not delay packets.
    fn flush_trace(&mut self) {
        if self.unrecorded.is_empty() && self.lost.is_empty() {
            return;
        }
        let mut trace = match self.trace.try_lock() {
            Ok(trace) => trace,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        for packet in self.unrecorded.drain(..) {
            trace.handle_packet(packet);
        }
        for at in self.lost.drain(..) {
            trace.handle_drop(at);
        }
    }

    fn recycle(&mut self, packet: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(packet);
        }
    }
}
