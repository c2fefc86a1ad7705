//! QUIC over a path that drops, delays and reorders: what is lost is made up for, and the view is the screen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_e2e::Desktop;

#[path = "../../crates/ring/tests/xdraw/mod.rs"]
mod xdraw;

use xdraw::{Drawer, Kinds};

/// Half a round trip, and how much more a packet may take: those that leave together come in any order.
const DELAY: Duration = Duration::from_millis(8);
const JITTER_MS: u64 = 6;

/// A path in front of a session's UDP port.
struct Path {
    at: SocketAddr,
    dropped: Arc<AtomicU64>,
}

/// What a direction of it does with packets.
struct Fate {
    percent: u64,
    random: u64,
    dropped: Arc<AtomicU64>,
}

impl Fate {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// When it arrives; None: never.
    fn arrival(&mut self) -> Option<Instant> {
        if self.below(100) < self.percent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Instant::now() + DELAY + Duration::from_millis(self.below(JITTER_MS + 1)))
    }
}

impl Path {
    /// To the session's port, losing so many packets of a hundred each way.
    fn to(port: u16, percent: u64) -> Result<Path, Error> {
        let near = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
        let far = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
        far.connect(("127.0.0.1", port))?;
        let (at, dropped) = (near.local_addr()?, Arc::new(AtomicU64::new(0)));
        let viewer = Arc::new(Mutex::new(None));
        let fate = |random| Fate { percent, random, dropped: dropped.clone() };
        // The threads end with the process: nothing tells them that a test is over.
        let (up, down) = (
            queue({
                let far = far.clone();
                move |packet| drop(far.send(packet))
            }),
            {
                let (near, viewer) = (near.clone(), viewer.clone());
                queue(move |packet| {
                    if let Some(viewer) = *viewer.lock().expect("no holder panics") {
                        let _ = near.send_to(packet, viewer);
                    }
                })
            },
        );
        carry(fate(0x5eed), up, move |buffer| {
            let (count, from) = near.recv_from(buffer).ok()?;
            *viewer.lock().expect("no holder panics") = Some(from);
            Some(count)
        });
        // A port that is closed says so by an error, which is nothing to end for.
        carry(fate(0xfeed), down, move |buffer| Some(far.recv(buffer).unwrap_or(0)));
        Ok(Path { at, dropped })
    }
}

fn carry(
    mut fate: Fate,
    to: Sender<(Instant, Vec<u8>)>,
    receive: impl Fn(&mut [u8]) -> Option<usize> + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Some(count) = receive(&mut buffer) {
            if let Some(at) = fate.arrival().filter(|_| count > 0)
                && to.send((at, buffer[..count].to_vec())).is_err()
            {
                return;
            }
        }
    });
}

/// Packets wait here until they arrive.
fn queue(deliver: impl Fn(&[u8]) + Send + 'static) -> Sender<(Instant, Vec<u8>)> {
    let (send, receive): (_, Receiver<(Instant, Vec<u8>)>) = channel();
    std::thread::spawn(move || {
        let mut waiting = BinaryHeap::new();
        loop {
            let now = Instant::now();
            while waiting.peek().is_some_and(|Reverse((at, _))| *at <= now) {
                waiting
                    .pop()
                    .into_iter()
                    .for_each(|Reverse((_, packet)): Reverse<(Instant, Vec<u8>)>| deliver(&packet));
            }
            let next =
                waiting.peek().map_or(Duration::from_secs(1), |Reverse((at, _))| at.saturating_duration_since(now));
            match receive.recv_timeout(next) {
                Ok(packet) => waiting.push(Reverse(packet)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    send
}

/// A desktop whose viewer comes through such a path.
fn desktop(name: &str, percent: u64, application: &[&str]) -> Result<(Desktop, Arc<AtomicU64>), Error> {
    let mut dropped = None;
    let way = |link: &str| {
        let (head, rest) = link.split_once("127.0.0.1:").ok_or("a session listens on 127.0.0.1")?;
        let (port, tail) = rest.split_once('/').ok_or("a link has a path")?;
        let path = Path::to(port.parse()?, percent)?;
        dropped = Some(path.dropped);
        Ok(format!("{head}{}/{tail}", path.at))
    };
    let desktop = Desktop::start_through(name, "700x500", application, way, &["--transport", "quic"])?;
    Ok((desktop, dropped.ok_or("a viewer has a way")?))
}

fn typing(percent: u64) -> Result<(), Error> {
    let (mut desktop, dropped) = desktop(&format!("loss-typing-{percent}"), percent, &["xterm", "-e", "cat"])?;
    desktop.settle()?;
    for letter in 0..40 {
        // Each when what came before has arrived, as a person types, and now and then many at once.
        let text = if letter % 10 == 9 { "and all of a line at once\\n" } else { "x" };
        desktop.viewer.say(&format!("type {text}"))?;
        desktop.viewer.say("wait-quiet")?;
        if letter % 10 == 9 {
            desktop.assert_identical(&format!("{percent} % lost, letter {letter}"))?;
        }
    }
    let stats = desktop.stats()?;
    println!(
        "{percent} % lost: {} of {} updates alone, {} late; {} packets dropped",
        stats["updates_alone"],
        stats["updates"],
        stats["updates_late"],
        dropped.load(Ordering::Relaxed)
    );
    assert!(stats["updates_alone"].as_u64() > Some(10), "{stats}");
    assert!(dropped.load(Ordering::Relaxed) > 20, "the path loses");
    Ok(())
}

fn drawing(percent: u64) -> Result<(), Error> {
    let (mut desktop, _) = desktop(&format!("loss-drawing-{percent}"), percent, &["sleep", "infinity"])?;
    let mut drawer = Drawer::new(desktop.connect_x()?, 0, percent, Kinds::All)?;
    for batch in 0..8 {
        for _ in 0..drawer.random.within(1, if batch % 4 == 0 { 200 } else { 12 }) {
            drawer.step()?;
        }
        drawer.sync()?;
        desktop.assert_identical(&format!("{percent} % lost, batch {batch}"))?;
    }
    Ok(())
}

#[test]
fn one_packet_in_ten_is_lost() -> Result<(), Error> {
    typing(10)?;
    drawing(10)
}

#[test]
fn three_in_ten_are_lost() -> Result<(), Error> {
    typing(30)?;
    drawing(30)
}
