//! Photographs at a viewer on a slow link: lossy at once, and refreshed as soon as they are at
//! rest. From drawings on virtual time, through a shell, links and viewers made of pixel numbers,
//! to what is shown and when. Knows session-core's public interface; bytes are made up, but every
//! pixel is followed to the screen of each viewer.

use std::collections::{BTreeMap, VecDeque};

use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Config, DeliveryOrder, Job, JobResult, NoPixels, Session, Unpacked, ViewerId,
};

const SIZE: Size = Size { width: 640, height: 480 };
const WIDTH: usize = SIZE.width as usize;
const MBIT: u64 = 125_000;
const MS: u64 = 1_000;
/// One way.
const DELAY: u64 = 20 * MS;
/// The transport takes no more while it holds so many unsent bytes (TCP_NOTSENT_LOWAT).
const NOT_SENT_BYTES: u64 = 8 * 1024;
/// Pixels are compared and sent in such cells.
const CELL: i32 = 16;
/// Bytes of a photograph's pixel: lossless 1.5, lossy a sixth of it.
const EXACT_BYTES_PER_2_PIXELS: u64 = 3;
const LOSSY_PIXELS_PER_BYTE: u64 = 4;

const PHOTO: Rect = Rect::at(64, 64, 400, 300);
const PHOTO_WINDOW: u32 = 1;
const TERMINAL: Rect = Rect::at(480, 400, 160, 80);
const TERMINAL_WINDOW: u32 = 2;

/// A screen's pixels by the op that drew them, or a viewer's, with whether they are lossless.
#[derive(Clone, PartialEq)]
struct Pixels(Vec<Pixel>);

type Pixel = (u32, bool);

impl Pixels {
    fn new() -> Pixels {
        Pixels(vec![(0, true); WIDTH * SIZE.height as usize])
    }

    fn row(&self, rect: &Rect, y: i32) -> &[Pixel] {
        &self.0[y as usize * WIDTH..][rect.x1 as usize..rect.x2 as usize]
    }

    fn row_mut(&mut self, rect: &Rect, y: i32) -> &mut [Pixel] {
        &mut self.0[y as usize * WIDTH..][rect.x1 as usize..rect.x2 as usize]
    }

    fn fill(&mut self, rect: &Rect, pixel: Pixel) {
        (rect.y1..rect.y2).for_each(|y| self.row_mut(rect, y).fill(pixel));
    }

    fn copy(&mut self, region: &Region, dx: i32, dy: i32) {
        let before = self.clone();
        for rect in region.rects() {
            for y in rect.y1..rect.y2 {
                self.row_mut(rect, y)
                    .copy_from_slice(before.row(&rect.translate(-dx, -dy), y - dy));
            }
        }
    }
}

/// A viewer, its link, and its shadow in the shell.
struct Peer {
    id: ViewerId,
    bytes_per_second: u64,
    unordered: bool,
    /// Lost updates in a hundred.
    loses: u64,
    chance: u64,
    shadow: Pixels,
    shown: Pixels,
    /// The pixels of each job's rectangles.
    snapshots: BTreeMap<u64, (Rect, Vec<Pixel>)>,
    deframer: Deframer,
    free_at: u64,
    /// When an update arrives, its number and commands.
    in_flight: VecDeque<(u64, u64, Vec<u8>)>,
    acks: VecDeque<(u64, u64, bool)>,
    lossy_bytes: u64,
    exact_bytes: u64,
    /// When it last applied something lossy, and a refresh; when all that was drawn was shown.
    lossy_at: u64,
    exact_at: u64,
}

struct World {
    session: Session,
    now: u64,
    op: u64,
    screen: Pixels,
    /// Where pixels are a photograph's.
    photos: Region,
    peers: Vec<Peer>,
    /// Glyphs not yet shown by the first viewer, and the delays of the others.
    glyphs: Vec<(u64, u32, Rect)>,
    answers: Vec<u64>,
}

impl World {
    fn new() -> World {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("refresh", SIZE) });
        session.handle_attach(SIZE);
        let (screen, photos) = (Pixels::new(), Region::from(PHOTO));
        World {
            session,
            now: 0,
            op: 0,
            screen,
            photos,
            peers: vec![],
            glyphs: vec![],
            answers: vec![],
        }
    }

    /// A world with one viewer, whose rate is known.
    fn with(mbit: u64) -> World {
        let mut world = World::new();
        world.join(mbit, ViewerCaps::LOSSY, 0);
        world.learn();
        world
    }

    fn join(&mut self, mbit: u64, caps: u32, loses: u64) {
        let hello = ViewerHello {
            version: 1,
            caps,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: "refresh".into(),
        };
        let id = self.session.add_viewer(&hello, self.now);
        let unordered = loses > 0;
        if unordered {
            self.session.set_delivery_order(id, DeliveryOrder::Unordered);
        }
        self.peers.push(Peer {
            id,
            bytes_per_second: mbit * MBIT,
            unordered,
            loses,
            chance: 1,
            shadow: unknown(),
            shown: unknown(),
            snapshots: BTreeMap::new(),
            deframer: Deframer::new(1 << 24),
            free_at: 0,
            in_flight: VecDeque::new(),
            acks: VecDeque::new(),
            lossy_bytes: 0,
            exact_bytes: 0,
            lossy_at: 0,
            exact_at: 0,
        });
    }

    /// Photographs until the rate is known, and then rest.
    fn learn(&mut self) {
        for _ in 0..4 {
            self.photograph();
            self.run(700 * MS);
        }
        self.rest();
        for peer in &mut self.peers {
            (peer.lossy_bytes, peer.exact_bytes) = (0, 0);
        }
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
    }

    fn draw(&mut self, window: u32, rect: Rect, what: DrawHint) {
        self.record(
            window,
            RecordKind::Draw { dst: DrawableId::SCREEN, rect, hint: what, alpha: Alpha::Opaque },
        );
        self.screen.fill(&rect, (self.op as u32, true));
        self.record(0, RecordKind::Idle);
    }

    fn photograph(&mut self) {
        self.draw(PHOTO_WINDOW, PHOTO, DrawHint::Image);
    }

    /// The screen's pixels of `to` are copied from there less the vector, photographs or not.
    fn copy(&mut self, to: Rect, dx: i32, dy: i32) {
        let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
        self.record(PHOTO_WINDOW, RecordKind::Copy { src, dst, rect: to, dx, dy, over: false });
        self.screen.copy(&Region::from(to), dx, dy);
        let mut moved = self.photos.translated(dx, dy);
        moved.intersect_rect(&to);
        self.photos.subtract_rect(&to);
        self.photos.add(&moved);
        self.record(0, RecordKind::Idle);
    }

    /// A key is delivered, and the terminal draws its glyph.
    fn key(&mut self, key: i32) {
        self.record(
            TERMINAL_WINDOW,
            RecordKind::InputDelivered { seq: 0, window: TERMINAL_WINDOW },
        );
        let glyph = Rect::at(TERMINAL.x1 + key % 20 * 8, TERMINAL.y1 + key / 20 % 5 * 16, 8, 16);
        self.draw(TERMINAL_WINDOW, glyph, DrawHint::Glyphs);
        self.glyphs.push((self.now, self.screen.row(&glyph, glyph.y1)[0].0, glyph));
    }

    fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.tick();
        }
    }

    /// Runs until everything is lossless, for a minute at most, and returns how long that took.
    fn rest(&mut self) -> u64 {
        let begun = self.now;
        while !self.session.is_drained() {
            self.tick();
            assert!(self.now < begun + 60_000 * MS, "it is never lossless");
        }
        for peer in &self.peers {
            assert!(peer.shown == self.screen, "every pixel is right, and lossless");
        }
        self.now - begun
    }

    /// A millisecond passes.
    fn tick(&mut self) {
        self.now += MS;
        for at in 0..self.peers.len() {
            self.arrive(at);
            self.acknowledge(at);
            let id = self.peers[at].id;
            while let Some(job) = self.session.poll_job(id, self.now) {
                self.encode(at, job);
            }
            let mut out = Vec::new();
            loop {
                let peer = &mut self.peers[at];
                if peer.free_at.saturating_sub(self.now) * peer.bytes_per_second / 1_000_000
                    >= NOT_SENT_BYTES
                {
                    break;
                }
                out.clear();
                if !self.session.poll_transmit(id, self.now, &mut Unpacked, &mut out) {
                    break;
                }
                peer.send(&out, self.now);
            }
        }
        self.session.check_invariants();
    }

    /// Plans like thinc-pixels: pixels that differ are sent; lossy ones only if everything must be
    /// lossless.
    fn encode(&mut self, at: usize, job: Job) {
        let peer = &mut self.peers[at];
        for rect in job.forget.rects() {
            peer.shadow.fill(rect, (u32::MAX, true));
        }
        for copy in &job.copies {
            peer.shadow.copy(&copy.region, copy.dx, copy.dy);
        }
        let lossy = job.hints.quality.lossy.is_some();
        let mut sent = Region::new();
        let extents = job.region.extents();
        let cells = (extents.y1 / CELL..=extents.y2 / CELL).flat_map(|y| {
            (extents.x1 / CELL..=extents.x2 / CELL)
                .map(move |x| Rect::at(x * CELL, y * CELL, CELL, CELL))
        });
        for cell in cells {
            for rect in job.region.intersection(&Region::from(cell)).rects() {
                let same = |y| {
                    let pairs = peer.shadow.row(rect, y).iter().zip(self.screen.row(rect, y));
                    pairs.into_iter().all(|(had, is)| had.0 == is.0 && (had.1 || lossy))
                };
                if !(rect.y1..rect.y2).all(same) {
                    sent.add_rect(*rect);
                }
            }
        }
        let mut commands = Commands::default();
        let mut writer = commands.writer();
        let photo = sent.intersection(&self.photos);
        let plain = sent.difference(&self.photos);
        for rect in photo.rects().iter().flat_map(|rect| pieces(rect, job.hints.piece_area)) {
            let area = rect.area();
            let (encoding, bytes) = if lossy {
                (Encoding::Jpeg, area / LOSSY_PIXELS_PER_BYTE + 8)
            } else {
                (Encoding::Predicted, area * EXACT_BYTES_PER_2_PIXELS / 2 + 8)
            };
            let mut data = vec![0; bytes as usize];
            data[..8].copy_from_slice(&job.id.0.to_le_bytes());
            writer.raw(rect, encoding, &data);
            *(if lossy { &mut peer.lossy_bytes } else { &mut peer.exact_bytes }) += bytes;
            for y in rect.y1..rect.y2 {
                for (had, is) in
                    peer.shadow.row_mut(&rect, y).iter_mut().zip(self.screen.row(&rect, y))
                {
                    *had = (is.0, !lossy);
                }
            }
        }
        for rect in plain.rects() {
            for y in rect.y1..rect.y2 {
                peer.shadow.row_mut(rect, y).copy_from_slice(self.screen.row(rect, y));
            }
        }
        if !plain.is_empty() {
            writer.sfill(&plain, job.id.0 as u32);
        }
        if !sent.is_empty() {
            let bounds = sent.extents();
            let rows =
                (bounds.y1..bounds.y2).flat_map(|y| self.screen.row(&bounds, y).iter().copied());
            peer.snapshots.insert(job.id.0, (bounds, rows.collect()));
        }
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
    }

    fn arrive(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        while peer.in_flight.front().is_some_and(|&(at, ..)| at <= self.now) {
            let (arrived, seq, commands) = peer.in_flight.pop_front().unwrap();
            // Knuth's MMIX generator: its upper bits are random enough.
            peer.chance = peer
                .chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let lost = (peer.chance >> 33) % 100 < peer.loses;
            if !lost {
                peer.apply(&commands, self.now);
            }
            peer.acks.push_back((arrived + DELAY, seq, lost));
        }
        if at == 0 {
            let (peer, answers) = (&self.peers[0], &mut self.answers);
            self.glyphs.retain(|(typed, op, glyph)| {
                let seen = peer.shown.row(glyph, glyph.y1)[0].0 >= *op;
                if seen {
                    answers.push(self.now - typed);
                }
                !seen
            });
        }
    }

    fn acknowledge(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        while peer.acks.front().is_some_and(|&(at, ..)| at <= self.now) {
            let (_, update, lost) = peer.acks.pop_front().unwrap();
            match (peer.unordered, lost) {
                (false, _) => {
                    let ack = ViewerMessage::Ack(Ack { update, presented: None });
                    self.session.handle_message(peer.id, &ack, self.now).unwrap();
                }
                (true, false) => {
                    self.session.handle_applied(peer.id, update..=update, self.now).unwrap()
                }
                (true, true) => {
                    self.session.handle_lost(peer.id, update, self.now);
                }
            }
        }
    }
}

/// The rows of a rectangle in groups of about so many pixels.
fn pieces(rect: &Rect, area: u64) -> impl Iterator<Item = Rect> {
    let rows = (area / rect.width() as u64).max(1) as i32;
    let rect = *rect;
    (rect.y1..rect.y2).step_by(rows as usize).map(move |y| Rect {
        y1: y,
        y2: rect.y2.min(y + rows),
        ..rect
    })
}

/// Updates whose fate is unknown.
fn unknown() -> Pixels {
    let mut pixels = Pixels::new();
    pixels.fill(&SIZE.rect(), (u32::MAX, true));
    pixels
}

impl Peer {
    fn send(&mut self, frames: &[u8], now: u64) {
        self.deframer.push(frames);
        while let Some(frame) = self.deframer.next().unwrap() {
            self.free_at =
                self.free_at.max(now) + frame.body.len() as u64 * 1_000_000 / self.bytes_per_second;
            if let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() {
                self.in_flight.push_back((
                    self.free_at + DELAY,
                    update.seq,
                    update.commands.to_vec(),
                ));
            }
        }
    }

    fn apply(&mut self, commands: &[u8], now: u64) {
        for command in CommandReader::new(commands, SIZE) {
            match command.unwrap() {
                Command::Copy { region, dx, dy } => self.shown.copy(&region, dx, dy),
                Command::Sfill { region, color } => {
                    for rect in region.rects() {
                        self.show(u64::from(color), rect, true);
                    }
                }
                Command::Raw { rect, encoding, data } => {
                    let job = u64::from_le_bytes(*data.first_chunk().unwrap());
                    let exact = encoding != Encoding::Jpeg;
                    self.show(job, &rect, exact);
                    *(if exact { &mut self.exact_at } else { &mut self.lossy_at }) = now;
                }
                other => panic!("the session sends no {other:?}"),
            }
        }
    }

    fn show(&mut self, job: u64, rect: &Rect, exact: bool) {
        let (bounds, snapshot) = &self.snapshots[&job];
        for y in rect.y1..rect.y2 {
            let from = (y - bounds.y1) * bounds.width() + rect.x1 - bounds.x1;
            for (shown, is) in
                self.shown.row_mut(rect, y).iter_mut().zip(&snapshot[from as usize..])
            {
                *shown = (is.0, exact);
            }
        }
        // At 1 Mbit/s at most some hundred small jobs are in flight.
        while self.snapshots.len() > 256 {
            self.snapshots.pop_first();
        }
    }

    fn is_exact(&self) -> bool {
        self.shown.0.iter().all(|pixel| pixel.1)
    }
}

fn percentile(mut times: Vec<u64>, percent: usize) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

#[test]
fn a_photograph_is_lossy_first_and_lossless_once_it_is_at_rest() {
    for mbit in [1, 5, 10] {
        let mut world = World::with(mbit);
        let drawn = world.now;
        world.photograph();
        world.rest();
        let peer = &world.peers[0];
        let exact = PHOTO.area() * EXACT_BYTES_PER_2_PIXELS / 2;
        let passes = exact * 1_000_000 / (mbit * MBIT);
        let (whole, refreshed) = (peer.lossy_at - drawn, peer.exact_at - peer.lossy_at);
        println!(
            "{mbit} Mbit/s: whole after {whole} us, lossless {refreshed} us later; its lossless \
                bytes pass in {passes} us"
        );
        assert!(
            whole <= passes / 3 + DELAY + 30 * MS,
            "{mbit} Mbit/s: whole after {whole} us only"
        );
        assert!(
            refreshed <= passes + 200 * MS,
            "{mbit} Mbit/s: lossless {refreshed} us later, for {passes}"
        );
        // The last few rows were lossless at once; the rest was sent again, once.
        assert!(
            peer.exact_bytes <= exact + exact / 20,
            "{} bytes refreshed {exact}",
            peer.exact_bytes
        );
    }
}

#[test]
fn on_a_fast_link_nothing_is_lossy() {
    let mut world = World::with(100);
    world.photograph();
    world.rest();
    assert_eq!(world.peers[0].lossy_bytes, 0);
}

#[test]
fn small_updates_elsewhere_do_not_delay_a_refresh() {
    for mbit in [1, 10] {
        let mut world = World::with(mbit);
        world.photograph();
        let (drawn, mut ticks) = (world.now, 0);
        while !world.peers[0].is_exact() || world.peers[0].lossy_at < drawn {
            // A clock, a spinner and a log: 60 changes a second.
            if ticks % 16 == 0 {
                world.draw(TERMINAL_WINDOW, TERMINAL.translate(0, -ticks % 160), DrawHint::Glyphs);
            }
            ticks += 1;
            world.tick();
            assert!(world.now < drawn + 20_000 * MS, "it is never lossless");
        }
        let peer = &world.peers[0];
        let passes = PHOTO.area() * EXACT_BYTES_PER_2_PIXELS / 2 * 1_000_000 / (mbit * MBIT);
        let refreshed = peer.exact_at - peer.lossy_at;
        assert!(
            refreshed <= passes * 5 / 4 + 200 * MS,
            "{mbit} Mbit/s: lossless after {refreshed} us, for {passes}"
        );
    }
}

#[test]
fn a_video_elsewhere_leaves_a_refresh_its_share() {
    let mut world = World::with(2);
    let video = Rect::at(480, 0, 160, 240);
    world.photos.add_rect(video);
    world.photograph();
    world.run(500 * MS);
    let drawn = world.now;
    let refreshed = |world: &World| {
        (PHOTO.y1..PHOTO.y2).all(|y| world.peers[0].shown.row(&PHOTO, y).iter().all(|p| p.1))
    };
    while !refreshed(&world) {
        world.draw(3, video, DrawHint::Image);
        world.run(33 * MS);
        assert!(world.now < drawn + 20_000 * MS, "the video uses the whole path without limit");
    }
    let took = world.now - drawn;
    let passes = PHOTO.area() * EXACT_BYTES_PER_2_PIXELS / 2 * 1_000_000 / (2 * MBIT);
    println!("beside a video: lossless after {took} us, for {passes} us of the path");
    assert!(took > passes * 3 / 2, "the video has a share too: it was drawn all the time");
    let frames = world.peers[0].lossy_at;
    assert!(world.now - frames <= 500 * MS, "and is shown meanwhile");
}

#[test]
fn echoes_overtake_a_refresh() {
    // 10 keys a second, on an idle link, and then during a refresh.
    let mut quiet = World::with(1);
    let mut loaded = World::with(1);
    loaded.photograph();
    // The photograph is shown lossy; only the refresh follows.
    loaded.run(400 * MS);
    let bytes_before = loaded.peers[0].exact_bytes;
    for key in 0..10 {
        for world in [&mut quiet, &mut loaded] {
            world.key(key);
            world.run(100 * MS);
        }
    }
    assert!(loaded.peers[0].exact_bytes > bytes_before + 50_000, "the refresh went on meanwhile");
    assert!(!loaded.peers[0].is_exact(), "to the end");
    quiet.run(500 * MS);
    loaded.run(500 * MS);
    assert!(quiet.glyphs.is_empty() && loaded.glyphs.is_empty(), "all glyphs are shown");
    let (alone, beside) = (percentile(quiet.answers, 95), percentile(loaded.answers, 95));
    println!("a glyph at 1 Mbit/s: {alone} us without load, {beside} us beside a refresh (95 %)");
    assert!(beside <= alone + 40 * MS, "{alone} us without load, and {beside} us beside a refresh");
}

#[test]
fn content_that_changes_all_the_time_is_not_refreshed_in_between() {
    let mut world = World::with(5);
    for _ in 0..20 {
        world.photograph();
        world.run(90 * MS);
    }
    let peer = &world.peers[0];
    // The last rows of each photograph may be few enough to be lossless at once.
    assert!(
        peer.exact_bytes < peer.lossy_bytes / 2,
        "{} bytes were refreshed in vain",
        peer.exact_bytes
    );
    world.rest();
}

#[test]
fn a_new_photograph_replaces_a_refresh() {
    let mut world = World::with(1);
    world.photograph();
    world.run(700 * MS);
    let peer = &world.peers[0];
    let refreshed = peer.exact_bytes;
    assert!(refreshed > 20_000 && !peer.is_exact(), "it is being refreshed");
    world.photograph();
    world.run(100 * MS);
    let more = world.peers[0].exact_bytes - refreshed;
    assert!(more < 10_000, "{more} bytes refreshed what was replaced already");
    world.rest();
}

#[test]
fn lossy_pixels_are_followed_along_copies() {
    for after in [0, 150, 300, 500, 700] {
        let mut world = World::with(2);
        world.photograph();
        world.run(after * MS);
        // Half of it to the right of itself, then all of it down by some rows, over itself.
        world.copy(Rect::at(464, 64, 160, 300), 200, 0);
        world.run(40 * MS);
        world.copy(Rect::at(0, 80, 640, 300), 0, 16);
        world.rest();
        assert!(world.peers[0].lossy_bytes > 0);
    }
}

#[test]
fn a_scroll_of_lossy_pixels_starts_their_rest_again() {
    let mut world = World::with(1);
    world.photograph();
    world.run(450 * MS);
    let refreshed = world.peers[0].exact_bytes;
    for _ in 0..20 {
        world.copy(Rect::at(64, 60, 400, 300), 0, -4);
        world.copy(Rect::at(64, 64, 400, 300), 0, 4);
        world.run(50 * MS);
    }
    let more = world.peers[0].exact_bytes - refreshed;
    assert!(more < 20_000, "{more} bytes refreshed what moved on");
    world.rest();
}

#[test]
fn a_lost_update_is_repaired_whatever_it_contained() {
    for loses in [5, 20, 50] {
        let mut world = World::new();
        world.join(5, ViewerCaps::LOSSY, loses);
        world.learn();
        for i in 0..6 {
            world.photograph();
            world.run(60 * MS);
            world.copy(Rect::at(64, 80, 400, 284), 0, 16);
            world.run((i * 70) * MS);
        }
        world.rest();
        assert!(world.peers[0].lossy_bytes > 0);
    }
}

#[test]
fn a_new_geometry_forgets_lossy_pixels() {
    let mut world = World::with(1);
    world.photograph();
    world.run(400 * MS);
    assert!(!world.peers[0].is_exact());
    world.session.handle_geometry(SIZE);
    let peer = &mut world.peers[0];
    // Updates in flight belong to the earlier geometry, and the viewer shows nothing of them.
    peer.in_flight.iter_mut().for_each(|(.., commands)| commands.clear());
    (peer.shadow, peer.shown) = (unknown(), unknown());
    world.rest();
}

#[test]
fn a_resynced_viewer_becomes_lossless_as_well() {
    let mut world = World::with(1);
    world.photograph();
    world.run(400 * MS);
    let gone = world.peers.remove(0);
    assert!(!gone.is_exact());
    world.session.remove_viewer(gone.id);
    world.join(1, ViewerCaps::LOSSY, 0);
    world.rest();
}

#[test]
fn each_viewer_gets_the_quality_of_its_own_link() {
    let mut world = World::with(1);
    world.join(100, ViewerCaps::LOSSY, 0);
    // This viewer takes no lossy pixels.
    world.join(1, 0, 0);
    world.learn();
    let drawn = world.now;
    world.photograph();
    world.rest();
    let [slow, fast, plain] = &world.peers[..] else { panic!("three viewers") };
    assert!(slow.lossy_bytes > 0 && slow.exact_bytes > 0);
    assert_eq!((fast.lossy_bytes, plain.lossy_bytes), (0, 0));
    assert!(fast.exact_at < slow.lossy_at, "and none waits for another");
    assert!(plain.exact_at - drawn < PHOTO.area() * EXACT_BYTES_PER_2_PIXELS / 2 * 8 + 200 * MS);
}
