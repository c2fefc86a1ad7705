//! Path 1/13, simulated: random actions of applications, users and networks.
//! From a seed, to world.rs. Knows operations; never what the session makes of them.

use thinc_protocol::pen::{PEN_FRACTION, PenSample};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::viewer::{InputEvent, View};
use thinc_region::{Rect, Region, Size};
use thinc_ring::DrawHint;

use crate::apps::Apps;
use crate::link::Path;
use crate::op::Op;
use crate::players::Players;
use crate::random::Random;
use crate::surface::Fill;

/// Largest screen of a run: small, so that operations often overlap.
const SCREEN: Size = Size { width: 56, height: 40 };

/// Largest screen of a run with photographs: smaller photographs are never sent lossy.
const ALBUM: Size = Size { width: 190, height: 130 };

/// A seed's operations and the parameters of their world.
#[derive(Debug)]
pub struct Workload {
    random: Random,
    /// The current screen.
    pub size: Size,
    /// Capacity of the ring in records.
    pub ring_max: usize,
    /// Operations that come next, before a new random one.
    script: std::collections::VecDeque<Op>,
    /// Where the same few images are shown repeatedly.
    frame: Rect,
    /// Photographs are shown on a larger screen, in some runs.
    album: bool,
    /// An area that changes permanently, in some runs.
    video: Option<Rect>,
    /// Applications that draw offscreen, and how often in a thousand operations one acts.
    apps: Apps,
    apps_share: u64,
    /// Applications that play videos, and how often in a thousand operations one acts.
    players: Players,
    players_share: u64,
}

impl Workload {
    /// The operations of this seed.
    pub fn new(seed: u64) -> Workload {
        let mut random = Random::new(seed ^ 0x5eed);
        let album = random.one_in(10);
        let size = random_size(&mut random, album);
        let ring_max = if random.one_in(3) { 6 + random.below(20) as usize } else { 4096 };
        // Mostly a mixture; at times nothing offscreen, or little else.
        let apps_share = [0, 40, 40, 40, 200][random.below(5) as usize];
        let apps = Apps::new(size);
        let players_share = [0, 20, 60][random.below(3) as usize];
        let mut workload = Workload {
            random,
            size,
            ring_max,
            script: [].into(),
            album,
            frame: size.rect(),
            video: None,
            apps,
            apps_share,
            players: Players::new(size),
            players_share,
        };
        if workload.random.one_in(4) {
            workload.video = Some(workload.rect(20));
        }
        workload.frame = workload.rect(45);
        let path = workload.path();
        workload.script.push_back(Op::Join(path));
        if workload.random.one_in(4) {
            // Several viewers, each with its own path.
            let (second, third) = (workload.join(), workload.join());
            workload.script.extend([second, third]);
        }
        if workload.random.one_in(4) {
            let view = workload.view();
            workload.script.push_back(Op::View(workload.random.below(3) as usize, view));
        }
        workload
    }

    fn path(&mut self) -> Path {
        let random = &mut self.random;
        let bytes_per_second =
            [20_000, 125_000, 2_000_000, 1_000_000_000][random.below(4) as usize];
        Path { bytes_per_second, delay: random.below(40_000), jitter: random.below(5_000) }
    }

    fn join(&mut self) -> Op {
        let path = self.path();
        if self.random.one_in(2) {
            Op::JoinLossy(path, [0, 20, 100, 400][self.random.below(4) as usize])
        } else {
            Op::Join(path)
        }
    }

    fn rect(&mut self, edge_max: i32) -> Rect {
        let (width, height) = (self.size.width as i32, self.size.height as i32);
        let random = &mut self.random;
        let w = random.between(1, edge_max.min(width));
        let h = random.between(1, edge_max.min(height));
        Rect::at(random.between(0, width - w), random.between(0, height - h), w, h)
    }

    fn region(&mut self, edge_max: i32) -> Region {
        // At times one op has several records.
        let rects = if self.random.one_in(3) { self.random.between(2, 5) } else { 1 };
        let mut region = Region::new();
        for _ in 0..rects {
            region.add_rect(self.rect(edge_max));
        }
        region
    }

    /// A part of the screen or all of it, at an unrelated size.
    fn view(&mut self) -> View {
        let part = if self.random.one_in(2) { Rect::default() } else { self.rect(i32::MAX) };
        let of = if part.is_empty() { self.size.rect() } else { part };
        let width = self.scaled(of.width());
        let height = if self.random.one_in(2) {
            self.scaled(of.height())
        } else {
            width * of.height() / of.width()
        };
        View { size: Size { width: width as u32, height: height.max(1) as u32 }, part }
    }

    /// A scaled edge: mostly by ratios of small numbers, so that some COPYs move by whole pixels.
    fn scaled(&mut self, edge: i32) -> i32 {
        let scales = [(1, 1), (2, 1), (3, 1), (3, 2), (16, 5), (7, 3), (1, 2), (2, 3)];
        match scales.get(self.random.below(10) as usize) {
            Some((from, to)) => (edge * to / from).max(1),
            None => self.random.between(1, 60),
        }
    }

    fn window(&mut self) -> u32 {
        0x20_0000 + self.random.below(3) as u32
    }

    fn draw(&mut self) -> Op {
        let edge_max = if self.random.one_in(5) { 56 } else { 16 };
        let region = self.region(edge_max);
        let color = self.random.bits() as u32 & 0x00ff_ffff;
        let (fill, hint) = match self.random.below(8) {
            0 => (Fill::Solid(color), DrawHint::Solid(color)),
            1 => (Fill::Pattern(color), DrawHint::Pattern),
            2 => (Fill::Text(color), DrawHint::Glyphs),
            3 => (Fill::Distinct, DrawHint::Composite),
            4 => (Fill::Solid(0x00ff_ffff), DrawHint::Other),
            _ => (Fill::Distinct, DrawHint::Image),
        };
        Op::Draw { region, fill, hint, window: self.window() }
    }

    fn copy(&mut self) -> Op {
        let region = self.region(30);
        let random = &mut self.random;
        let (dx, dy) = match random.below(4) {
            0 => (0, random.between(-6, 6)),
            1 => (random.between(-6, 6), 0),
            _ => (random.between(-30, 30), random.between(-30, 30)),
        };
        Op::Copy { region, dx, dy, window: self.window() }
    }

    /// So many operations, and drains among them.
    pub fn operations(&mut self, len: usize) -> Vec<Op> {
        let mut operations = Vec::with_capacity(len + 4);
        // Compared in the middle too: wrong pixels may be drawn over before the end.
        for round in 0..4 {
            operations.extend(std::iter::repeat_with(|| self.next_op()).take(len / 4));
            operations.push(Op::Drain);
            if round == 1 {
                // A reconnected viewer shows all of it already.
                operations.push(Op::Reconnect(0));
            }
        }
        operations
    }

    /// The next operation.
    pub(crate) fn next_op(&mut self) -> Op {
        if let Some(op) = self.script.pop_front() {
            return op;
        }
        if self.random.below(1000) < self.apps_share {
            self.apps.act(&mut self.random, &mut self.script);
            return self.script.pop_front().unwrap_or(Op::Finish);
        }
        if self.random.below(1000) < self.players_share {
            self.players.act(&mut self.random, &mut self.script);
            return self.script.pop_front().unwrap_or(Op::Finish);
        }
        let viewer = self.random.below(3) as usize;
        match self.random.below(1000) {
            0..6 => self.animation(),
            6..20 if self.album => self.photograph(),
            6..200 => {
                let op = self.draw();
                self.publish(op)
            }
            200..330 => {
                let op = self.copy();
                self.publish(op)
            }
            330..400 => Op::Step(self.random.below(200) as usize),
            400..450 => Op::Finish,
            450..510 => Op::Idle,
            510..520 => Op::Yield,
            520..530 => self.two_jobs(viewer),
            530..630 => Op::Read(1 + self.random.below(6) as usize),
            630..690 => Op::Commit(viewer),
            690..750 => {
                let meanwhile = match self.random.below(4) {
                    0 => Some(Box::new(self.draw())),
                    1 => Some(Box::new(self.copy())),
                    _ => None,
                };
                Op::Snapshot(viewer, self.random.below(120) as usize, meanwhile)
            }
            750..800 => Op::Encode(viewer, self.random.below(4) as usize),
            800..810 => Op::EncodeHalf(viewer, self.random.below(4) as usize),
            810..815 => Op::Cancel(viewer),
            815..870 => Op::Transmit(viewer),
            870..930 => Op::Wait(self.random.below(8_000)),
            930..950 => Op::Shell,
            950..954 => Op::Stall(viewer),
            954..960 => Op::Resume(viewer),
            960..963 => Op::LosePixels(viewer, self.rect(20)),
            963..964 => Op::Refresh(viewer),
            964..972 => Op::Barrier(viewer),
            972..980 => Op::Input(viewer, self.input()),
            980..986 => Op::Deliver(self.window()),
            986 => Op::Cursor(self.random.below(30) as u16),
            987 if self.random.one_in(4) => Op::ExactFrame(viewer),
            987 => {
                let choice = self.random.below(PictureQuality::ALL.len() as u64) as usize;
                Op::Quality(viewer, PictureQuality::ALL[choice])
            }
            988..990 => self.join(),
            990 => Op::Leave(viewer),
            991 => Op::Reconnect(viewer),
            992..994 => {
                self.size = random_size(&mut self.random, self.album);
                self.video = None;
                self.apps.resized(self.size);
                self.players = Players::new(self.size);
                Op::Resize(self.size)
            }
            994..995 => Op::Attach,
            995 if self.ring_max < 100 => self.storm(),
            995 => self.shuffle(),
            996 => self.scroll(),
            997 => Op::View(viewer, self.view()),
            _ => self.frame(),
        }
    }

    /// The op, in most cases followed by the operations that publish it.
    fn publish(&mut self, op: Op) -> Op {
        if self.random.below(3) > 0 {
            self.script.push_back(Op::Finish);
        }
        if self.random.one_in(3) {
            self.script.push_back(Op::Read(usize::MAX));
        }
        op
    }

    /// A terminal that prints: the window scrolls by a line and the last line is drawn, often
    /// several times per flush.
    fn scroll(&mut self) -> Op {
        let window = self.window();
        let area = self.rect(40);
        let line = self.random.between(1, 4).min(area.height());
        let lines = if self.random.one_in(3) { 80 } else { self.random.between(2, 10) };
        for _ in 0..lines {
            let above = Rect { y2: area.y2 - line, ..area };
            let last = Rect { y1: area.y2 - line, ..area };
            if !above.is_empty() {
                self.script.push_back(Op::Copy { region: above.into(), dx: 0, dy: -line, window });
            }
            let (fill, hint) = (Fill::Distinct, DrawHint::Glyphs);
            self.script.push_back(Op::Draw { region: last.into(), fill, hint, window });
            self.script.push_back(Op::Finish);
            match self.random.below(8) {
                0 => self.script.push_back(Op::Shell),
                1 => self.script.push_back(Op::Wait(3_000)),
                2 => self.script.push_back(Op::Read(2)),
                _ => {}
            }
        }
        Op::Finish
    }

    /// An animation: a loop of the same images.
    fn animation(&mut self) -> Op {
        let (place, window) = (self.frame.intersect(&self.size.rect()), self.window());
        for turn in 0..self.random.between(4, 12) as u32 {
            let (fill, hint) = (Fill::Photograph(turn % 3), DrawHint::Image);
            self.script.push_back(Op::Draw { region: place.into(), fill, hint, window });
            self.script.extend([
                Op::Finish,
                Op::Idle,
                Op::Shell,
                Op::Wait(self.random.below(60_000)),
            ]);
        }
        Op::Finish
    }

    /// A page of an album: a photograph with a line of text below or across it, shown for a while,
    /// perhaps scrolled.
    fn photograph(&mut self) -> Op {
        let (place, seed, window) = (self.rect(120), self.random.bits() as u32, self.window());
        let draw = |rect: Rect, fill, hint| Op::Draw { region: rect.into(), fill, hint, window };
        self.script.push_back(draw(place, Fill::Photograph(seed), DrawHint::Image));
        let y = self.random.between(place.y1, place.y2 - 1);
        let line = Rect { y1: y, y2: (y + 9).min(place.y2), ..place };
        match self.random.below(3) {
            0 => self.script.push_back(draw(line, Fill::Text(seed), DrawHint::Glyphs)),
            1 => self.script.push_back(draw(line, Fill::Ink(seed), DrawHint::Glyphs)),
            _ => {}
        }
        self.script.extend([Op::Finish, Op::Idle, Op::Shell]);
        for _ in 0..self.random.below(4) {
            let (dx, dy) = (self.random.between(-3, 3), self.random.between(-20, 20));
            self.script.push_back(Op::Wait(self.random.below(150_000)));
            self.script.push_back(Op::Copy { region: place.into(), dx, dy, window });
            self.script.extend([Op::Finish, Op::Idle, Op::Shell]);
        }
        Op::Finish
    }

    /// Windows move without drawing, more often than the limit of waiting COPYs.
    fn shuffle(&mut self) -> Op {
        for _ in 0..self.random.between(60, 90) {
            let (from, window) = (self.rect(6), self.window());
            let to = self.rect(6);
            let (dx, dy) = (to.x1 - from.x1, to.y1 - from.y1);
            self.script.push_back(Op::Copy {
                region: from.translate(dx, dy).into(),
                dx,
                dy,
                window,
            });
        }
        self.script.push_back(Op::Finish);
        self.script.push_back(Op::Read(usize::MAX));
        Op::Finish
    }

    /// More drawings than the ring holds, and more while the session begins to read.
    fn storm(&mut self) -> Op {
        for _ in 0..self.ring_max + 2 {
            let (region, hint) = (self.rect(6).into(), DrawHint::Image);
            self.script.push_back(Op::Draw {
                region,
                fill: Fill::Distinct,
                hint,
                window: 0x20_0001,
            });
        }
        self.script
            .extend([Op::Finish, Op::Read(self.ring_max / 2 + self.random.below(3) as usize)]);
        for _ in 0..self.random.between(1, 4) {
            let op = if self.random.one_in(2) { self.copy() } else { self.draw() };
            self.script.push_back(op);
        }
        self.script.extend([Op::Finish, Op::Read(usize::MAX)]);
        Op::Finish
    }

    /// Two jobs in progress, the later one encoded first.
    fn two_jobs(&mut self, viewer: usize) -> Op {
        for _ in 0..2 {
            let drawing = if self.random.one_in(3) { self.copy() } else { self.draw() };
            self.script.push_back(drawing);
            self.script.extend([Op::Finish, Op::Idle, Op::Read(usize::MAX), Op::Commit(viewer)]);
        }
        self.script.extend([Op::Snapshot(viewer, 0, None), Op::Snapshot(viewer, 0, None)]);
        self.script.extend([Op::Encode(viewer, 1), Op::Transmit(viewer)]);
        Op::Read(usize::MAX)
    }

    /// A frame of a video, or a window moved as one region.
    fn frame(&mut self) -> Op {
        if let Some(video) = self.video {
            let hint = DrawHint::Image;
            return Op::Draw {
                region: video.into(),
                fill: Fill::Distinct,
                hint,
                window: 0x20_0009,
            };
        }
        let mut region = Region::from(self.rect(24));
        region.subtract_rect(&self.rect(10));
        let (dx, dy) = (self.random.between(-9, 9), self.random.between(-9, 9));
        Op::Copy { region, dx, dy, window: self.window() }
    }

    fn input(&mut self) -> InputEvent {
        let (x, y) = (self.random.below(60) as u16, self.random.below(60) as u16);
        match self.random.below(6) {
            0 if x & 1 != 0 => InputEvent::MotionBy { dx: x as i16 - 30, dy: y as i16 - 30 },
            0 => InputEvent::Motion { x, y },
            1 if x & 1 != 0 => {
                let (near, draws) = (y & 7 != 0, y & 1 != 0);
                let (x, y) = (u32::from(x) * PEN_FRACTION, u32::from(y) * PEN_FRACTION);
                let buttons = u8::from(near && draws);
                InputEvent::Pen(PenSample { x, y, near, buttons, ..PenSample::default() })
            }
            1 => InputEvent::Button { button: 1, down: self.random.one_in(2) },
            2 => InputEvent::Scroll { dx: 0, dy: 120 },
            3 => InputEvent::ReleaseAll,
            _ => InputEvent::Key { code: 30 + (x & 7), keysym: 0, down: self.random.one_in(2) },
        }
    }
}

fn random_size(random: &mut Random, album: bool) -> Size {
    let Size { width, height } = if album { ALBUM } else { SCREEN };
    let (width, height) = (random.between(16, width as i32), random.between(16, height as i32));
    Size { width: width as u32, height: height as u32 }
}
