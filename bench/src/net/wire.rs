//! The link at work: one thread for each direction reads packets from one TUN device, asks the model what becomes of each,
//! and writes them to the other device when they are due.
//! Beside the path, between end.rs and trace.rs. Knows descriptors, clocks and threads; decides nothing itself.

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
use crate::net::testbed::{Direction, Packet, Side};
use crate::net::trace::{Trace, is_udp, payload};

/// Packets read before those that are due are looked after: half a millisecond of work at most.
const BURST_PACKETS: usize = 64;

/// What is due within this time goes out at once: less than it takes to sleep and wake up again.
const DUE_SOON: Duration = Duration::from_micros(10);

/// While traffic is dense, a thread wakes up by the clock and not for each packet, as network cards do: most of the cost of
/// a packet is waking up for it. One is then seen up to so much late, or delivered up to half of it early. With iperf3 on a
/// link of 400 Mbit/s both threads together take 0.36 of a core so and 0.44 without it (medians of three runs in turn on a
/// busy machine of two virtual cores, AMD EPYC); without a limit 2 to 3.6 Gbit/s pass and take half a core.
const TICK: Duration = Duration::from_micros(100);

/// Traffic is dense when packets come at shorter distances: full ones at more than 30 Mbit/s. A packet after a longer pause,
/// as every one that answers a key, is handled at once.
const DENSE_GAP: Duration = Duration::from_micros(400);

/// How soon packets that could not be put down, because someone read the trace, are put down.
const TRACE_RETRY: Duration = Duration::from_millis(1);

/// Packets under way in one direction: 600 ms of full packets at 3 Gbit/s. More are dropped and counted.
const UNDER_WAY_MAX: usize = 1 << 17;

/// Buffers kept for the next packets.
const SPARE_MAX: usize = 4096;

enum Order {
    Link(Link),
    Cut(bool),
    Capture(Option<Arc<Capture>>),
    Stop,
}

/// What is asked of a direction's thread, with who wants to know when it has been done.
struct Orders {
    list: Mutex<Vec<(Order, Sender<()>)>>,
    wake: OwnedFd,
}

/// A direction's thread; an error is why it stopped by itself.
type Runs = JoinHandle<Result<(), Error>>;

/// Both directions.
pub(crate) struct Wire {
    lanes: Vec<(Arc<Orders>, Runs)>,
    trace: Arc<Mutex<Trace>>,
    under_way: Arc<AtomicUsize>,
    real_time: bool,
}

impl Wire {
    /// Joins the two devices, whose descriptors do not block.
    pub(crate) fn start(server: OwnedFd, client: OwnedFd, link: &Link) -> Result<Wire, Error> {
        let (server, client) = (Arc::new(server), Arc::new(client));
        let mut wire = Wire { lanes: vec![], trace: Arc::default(), under_way: Arc::default(), real_time: true };
        let origin = Instant::now();
        for (direction, input, output) in [(Direction::Down, &server, &client), (Direction::Up, &client, &server)] {
            let orders = Arc::new(Orders {
                list: Mutex::default(),
                wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            });
            let lane = Lane {
                direction,
                input: input.clone(),
                output: output.clone(),
                orders: orders.clone(),
                emulator: Emulator::new(link, direction, Duration::ZERO),
                blocks_udp: link.blocks_udp,
                origin,
                read_last: Duration::ZERO,
                dense: false,
                more: false,
                line: VecDeque::new(),
                spare: vec![],
                trace: wire.trace.clone(),
                noted: vec![],
                lost: vec![],
                under_way: wire.under_way.clone(),
                capture: None,
            };
            let (sender, receiver) = channel();
            let name = format!("link {direction:?}").to_lowercase();
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                let _ = sender.send(rustix::thread::gettid());
                lane.run()
            })?;
            wire.lanes.push((orders, thread));
            let thread = receiver.recv().map_err(|_| "a thread of the link ended at once")?;
            wire.real_time &= raise_priority(thread);
        }
        Ok(wire)
    }

    /// Makes it another link.
    pub(crate) fn set_link(&self, link: &Link) {
        self.order(|| Order::Link(link.clone()));
    }

    /// Cuts it or mends it.
    pub(crate) fn cut(&self, cut: bool) {
        self.order(|| Order::Cut(cut));
    }

    /// Copies every packet from now on, or no more.
    pub(crate) fn set_capture(&self, capture: Option<Arc<Capture>>) {
        self.order(|| Order::Capture(capture.clone()));
    }

    /// What passed.
    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets that were sent and have not arrived yet, in both directions.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Acquire)
    }

    /// Whether both threads run before every ordinary process, so that a busy machine does not slow the link.
    pub(crate) fn real_time(&self) -> bool {
        self.real_time
    }

    /// An error when a direction has stopped.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.lanes.iter().find(|(_, thread)| thread.is_finished()) {
            Some((_, thread)) => {
                Err(format!("the thread `{}` of the testbed stopped", thread.thread().name().unwrap_or("link")).into())
            }
            None => Ok(()),
        }
    }

    /// Asks both directions, and returns when both have done it.
    fn order(&self, order: impl Fn() -> Order) {
        let (sender, done) = channel();
        for (orders, _) in &self.lanes {
            orders.list.lock().unwrap_or_else(PoisonError::into_inner).push((order(), sender.clone()));
            // It holds a counter that cannot be full: each order adds one, each look takes all.
            let _ = rustix::io::write(&orders.wake, &1u64.to_ne_bytes());
        }
        drop(sender);
        for _ in &self.lanes {
            // A direction that has stopped has dropped its list or never looks again; `check` tells.
            let _ = done.recv_timeout(Duration::from_secs(1));
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.order(|| Order::Stop);
        for (_, thread) in self.lanes.drain(..) {
            let name = thread.thread().name().unwrap_or("link").to_owned();
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("thinc-bench: the thread `{name}` of the testbed stopped: {error}"),
                Err(_) => eprintln!("thinc-bench: the thread `{name}` of the testbed panicked"),
            }
        }
    }
}

/// Puts a thread before all ordinary ones: a hog on the same processor is part of a workload, the link is not. Without the
/// right to do so, it is at least asked to be a little ahead. Whether it is ahead of all.
fn raise_priority(thread: rustix::thread::Pid) -> bool {
    let mut chrt = Command::new("chrt");
    chrt.args(["--rr", "--pid", "1", &thread.as_raw_nonzero().to_string()]).stdin(Stdio::null());
    let real_time = chrt.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !real_time {
        let _ = rustix::process::setpriority_process(Some(thread), -10);
    }
    real_time
}

/// A packet under way.
struct Flying {
    departs: Duration,
    at: Duration,
    packet: Vec<u8>,
}

/// One direction.
struct Lane {
    direction: Direction,
    input: Arc<OwnedFd>,
    output: Arc<OwnedFd>,
    orders: Arc<Orders>,
    emulator: Emulator,
    blocks_udp: bool,
    origin: Instant,
    /// When packets were last read, and whether they come densely.
    read_last: Duration,
    dense: bool,
    /// Whether a burst was longer than is read at once.
    more: bool,
    /// In the order in which they arrive.
    line: VecDeque<Flying>,
    spare: Vec<Vec<u8>>,
    trace: Arc<Mutex<Trace>>,
    /// Not yet in the trace.
    noted: Vec<Packet>,
    lost: Vec<Instant>,
    under_way: Arc<AtomicUsize>,
    capture: Option<Arc<Capture>>,
}

impl Lane {
    fn run(mut self) -> Result<(), Error> {
        // The default of 50 µs would be a quarter of a LAN's round trip. Without effect on a real-time thread, which has none.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let orders = self.orders.clone();
        let (input, wake) = (self.input.clone(), &orders.wake);
        loop {
            // A sleep by the clock still ends for an order.
            let mut ready = [PollFd::new(wake, PollFlags::IN), PollFd::new(&*input, PollFlags::IN)];
            let (watched, timeout) = match (self.dense, self.more) {
                (_, true) => (2, Some(Duration::ZERO)),
                (true, false) => (1, Some(TICK)),
                (false, false) => (2, self.time_to_next()),
            };
            let timeout =
                timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
            match poll(&mut ready[..watched], timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !ready[0].revents().is_empty() && !self.take_orders() {
                return Ok(());
            }
            if self.dense || !ready[1].revents().is_empty() {
                self.read_burst()?;
            }
            self.deliver_due();
            self.put_down();
        }
    }

    /// How long it may sleep.
    fn time_to_next(&self) -> Option<Duration> {
        let now = self.origin.elapsed();
        let due = self.line.front().map(|flying| flying.at.saturating_sub(now));
        let retry = (!self.noted.is_empty() || !self.lost.is_empty()).then_some(TRACE_RETRY);
        due.into_iter().chain(retry).min()
    }

    /// False when it shall end.
    fn take_orders(&mut self) -> bool {
        let _ = rustix::io::read(&self.orders.wake, &mut [0; 8]);
        let orders = std::mem::take(&mut *self.orders.list.lock().unwrap_or_else(PoisonError::into_inner));
        let mut goes_on = true;
        for (order, done) in orders {
            let now = self.origin.elapsed();
            match order {
                Order::Link(link) => {
                    self.emulator.handle_link(&link, now);
                    self.blocks_udp = link.blocks_udp;
                }
                Order::Cut(cut) => {
                    self.emulator.handle_cut(cut, now);
                    if cut {
                        self.lose_waiting(now);
                    }
                }
                Order::Capture(capture) => self.capture = capture,
                Order::Stop => goes_on = false,
            }
            let _ = done.send(());
        }
        goes_on
    }

    /// What has not departed yet is lost with the link.
    fn lose_waiting(&mut self, now: Duration) {
        let departed = self.line.iter().take_while(|flying| flying.departs <= now).count();
        for flying in self.line.split_off(departed) {
            self.under_way.fetch_sub(1, Ordering::Release);
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
                Err(error) => return Err(format!("cannot read from the TUN device: {error}").into()),
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
            // Dropped before the link, without a word to whoever sent it.
            self.lost.push(sent);
            return self.recycle(packet);
        }
        match self.emulator.handle_packet(sent - self.origin, packet.len() as u32) {
            Verdict::Deliver { departs, at } if self.line.len() < UNDER_WAY_MAX => {
                if up {
                    self.note(sent, &packet);
                }
                self.under_way.fetch_add(1, Ordering::Release);
                self.line.push_back(Flying { departs, at, packet });
            }
            Verdict::Deliver { .. } | Verdict::Drop(_) => {
                self.lost.push(sent);
                self.recycle(packet);
            }
        }
    }

    fn deliver_due(&mut self) {
        let soon = if self.dense { TICK / 2 } else { DUE_SOON };
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
            self.under_way.fetch_sub(1, Ordering::Release);
            match written {
                Ok(_) => {
                    let side = match self.direction {
                        Direction::Down => {
                            self.note(now, &flying.packet);
                            Side::Client
                        }
                        Direction::Up => Side::Server,
                    };
                    if let Some(capture) = &self.capture {
                        capture.handle_packet(side, now, &flying.packet);
                    }
                }
                // The other end takes no packet now: the kernel is out of memory, or the device is down.
                Err(_) => self.lost.push(now),
            }
            self.recycle(flying.packet);
        }
    }

    fn note(&mut self, at: Instant, packet: &[u8]) {
        let bytes = packet.len() as u32;
        self.noted.push(Packet { at, direction: self.direction, bytes, payload: payload(packet) });
    }

    /// Into the trace, unless someone reads it just now: a reader of a long trace must not delay packets.
    fn put_down(&mut self) {
        if self.noted.is_empty() && self.lost.is_empty() {
            return;
        }
        let mut trace = match self.trace.try_lock() {
            Ok(trace) => trace,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        for packet in self.noted.drain(..) {
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
