//! QUIC over a path that drops, delays and reorders packets: lost content is retransmitted, and the
//! viewer shows the screen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_e2e::Desktop;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, ImageFormat, SubwindowMode};

#[path = "../../crates/ring/tests/xdraw/mod.rs"]
mod xdraw;

use xdraw::{Drawer, Kinds};

/// Half a round trip, and the jitter, which reorders packets.
const DELAY: Duration = Duration::from_millis(8);
const JITTER_MS: u64 = 6;

/// A path in front of a session's UDP port.
struct Path {
    at: SocketAddr,
    dropped: Arc<AtomicU64>,
}

/// One direction of the path.
struct Direction {
    percent: u64,
    random: u64,
    dropped: Arc<AtomicU64>,
}

impl Direction {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// When the packet arrives; `None`: it is dropped.
    fn arrival(&mut self) -> Option<Instant> {
        if self.below(100) < self.percent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Instant::now() + DELAY + Duration::from_millis(self.below(JITTER_MS + 1)))
    }
}

impl Path {
    /// A path to the session's port that loses this percentage of packets in each direction.
    fn to(port: u16, percent: u64) -> Result<Path, Error> {
        let near = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
        let far = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
        far.connect(("127.0.0.1", port))?;
        let (at, dropped) = (near.local_addr()?, Arc::new(AtomicU64::new(0)));
        let viewer = Arc::new(Mutex::new(None));
        let direction = |random| Direction { percent, random, dropped: dropped.clone() };
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
        forward(direction(0x5eed), up, move |buffer| {
            let (count, from) = near.recv_from(buffer).ok()?;
            *viewer.lock().expect("no holder panics") = Some(from);
            Some(count)
        });
        // A closed port is reported as an error, which is ignored.
        forward(direction(0xfeed), down, move |buffer| Some(far.recv(buffer).unwrap_or(0)));
        Ok(Path { at, dropped })
    }
}

fn forward(
    mut direction: Direction,
    to: Sender<(Instant, Vec<u8>)>,
    receive: impl Fn(&mut [u8]) -> Option<usize> + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Some(count) = receive(&mut buffer) {
            if let Some(at) = direction.arrival().filter(|_| count > 0)
                && to.send((at, buffer[..count].to_vec())).is_err()
            {
                return;
            }
        }
    });
}

/// Delays packets until they arrive.
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
            let next = waiting.peek().map_or(Duration::from_secs(1), |Reverse((at, _))| {
                at.saturating_duration_since(now)
            });
            match receive.recv_timeout(next) {
                Ok(packet) => waiting.push(Reverse(packet)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    send
}

/// A desktop whose viewer connects through such a path.
fn desktop(
    name: &str,
    percent: u64,
    application: &[&str],
) -> Result<(Desktop, Arc<AtomicU64>), Error> {
    let mut dropped = None;
    let link_for_viewer = |link: &str| {
        let (head, rest) = link.split_once("127.0.0.1:").ok_or("a session listens on 127.0.0.1")?;
        let (port, tail) = rest.split_once('/').ok_or("a link has a path")?;
        let path = Path::to(port.parse()?, percent)?;
        dropped = Some(path.dropped);
        Ok(format!("{head}{}/{tail}", path.at))
    };
    let desktop = Desktop::start_through(
        name,
        "700x500",
        application,
        link_for_viewer,
        &["--transport", "quic"],
    )?;
    Ok((desktop, dropped.ok_or("the viewer has a link")?))
}

fn typing(percent: u64) -> Result<(), Error> {
    let (mut desktop, dropped) =
        desktop(&format!("loss-typing-{percent}"), percent, &["xterm", "-e", "cat"])?;
    desktop.settle_once_drawn()?;
    for character in 0..40 {
        // One key at a time, like a user, and now and then many at once.
        let text = if character % 10 == 9 { "and all of a line at once\\n" } else { "x" };
        desktop.viewer.say(&format!("type {text}"))?;
        desktop.viewer.say("wait-quiet")?;
        if character % 10 == 9 {
            desktop.assert_identical(&format!("{percent} % lost, character {character}"))?;
        }
    }
    let stats = desktop.stats()?;
    println!(
        "{percent} % lost: {} of {} updates as datagrams, {} late; {} packets dropped",
        stats["datagram_updates"],
        stats["updates"],
        stats["updates_late"],
        dropped.load(Ordering::Relaxed)
    );
    assert!(stats["datagram_updates"].as_u64() > Some(10), "{stats}");
    assert!(dropped.load(Ordering::Relaxed) > 20, "the path loses");
    Ok(())
}

fn drawing(percent: u64) -> Result<(), Error> {
    let (mut desktop, _) =
        desktop(&format!("loss-drawing-{percent}"), percent, &["sleep", "infinity"])?;
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

/// Pictures whose last packets are lost now and then: the viewer computes them from parities.
#[test]
fn lost_packets_at_the_end_of_a_burst_are_repaired() -> Result<(), Error> {
    let (mut desktop, _) = desktop("loss-parity", 10, &["sleep", "infinity"])?;
    let x = desktop.connect_x()?;
    let root = x.setup().roots[0].root;
    let gc = x.generate_id()?;
    x.create_gc(gc, root, &CreateGCAux::new().subwindow_mode(SubwindowMode::INCLUDE_INFERIORS))?;
    let mut random = xdraw::Random::new(7);
    // Noise, since each picture is then a hundred packets.
    for picture in 0..40 {
        let pixels: Vec<u8> = (0..200 * 160 * 4).map(|_| random.next() as u8).collect();
        x.put_image(ImageFormat::Z_PIXMAP, root, gc, 200, 160, 50, 50, 0, 24, &pixels)?;
        x.get_input_focus()?.reply()?;
        desktop.assert_identical(&format!("picture {picture}"))?;
        if desktop.stats()?["repaired_bytes"].as_u64() > Some(0) {
            return Ok(());
        }
    }
    Err("no byte was repaired".into())
}

#[test]
fn typing_and_drawing_work_with_10_percent_loss() -> Result<(), Error> {
    typing(10)?;
    drawing(10)
}

#[test]
fn typing_and_drawing_work_with_30_percent_loss() -> Result<(), Error> {
    typing(30)?;
    drawing(30)
}
