//! The command queue against a bitmap: whatever is merged, clipped or dropped, the viewer shows the
//! screen in the end. From random drawings and COPYs, to what a viewer would show. Knows
//! command_queue.rs's interface and a screen so small that rectangles meet.

use proptest::prelude::*;
use thinc_region::{Rect, Region, Size};

use super::{CommandQueue, Kinds, Lane, Origin};
use crate::queue::copies::{CopyCommand, Proof};

const SIZE: Size = Size { width: 20, height: 16 };

#[derive(Clone, Debug)]
enum Op {
    /// New pixels.
    Draw(Region),
    /// The screen's own pixels move.
    Copy(Region, i32, i32),
    /// The maps claim that the drawn pixels are on the screen already, and are right.
    Derived(Region, i32, i32),
    /// The maps claim that, and the drawn pixels are others.
    Mistaken(Region, i32, i32),
    /// The maps claim that these pixels are shown already.
    Doubt(Region),
    /// All pending pixels in there are committed, and every COPY.
    Commit(Rect),
    /// Some of the pixels in doubt are compared.
    Verify(Rect),
    /// The viewer lost pixels.
    Lose(Rect),
}

type Pixels = Vec<u32>;

fn places(region: &Region) -> impl Iterator<Item = (i32, i32)> {
    let rects = region.rects().to_vec();
    rects
        .into_iter()
        .flat_map(|r| (r.y1..r.y2).flat_map(move |y| (r.x1..r.x2).map(move |x| (x, y))))
}

fn at(x: i32, y: i32) -> usize {
    y as usize * SIZE.width as usize + x as usize
}

/// All are read before any is written; pixels from outside the screen stay.
fn copy(pixels: &mut Pixels, copy: &CopyCommand) {
    let inside = |x, y| SIZE.rect().contains_point(x, y);
    let moved: Vec<(usize, u32)> = places(&copy.region)
        .filter(|&(x, y)| inside(x - copy.dx, y - copy.dy))
        .map(|(x, y)| (at(x, y), pixels[at(x - copy.dx, y - copy.dy)]))
        .collect();
    moved.into_iter().for_each(|(at, pixel)| pixels[at] = pixel);
}

struct QueueModel {
    queue: CommandQueue,
    screen: Pixels,
    viewer: Pixels,
    next: u32,
    op: u64,
    job: u64,
    reported: usize,
    sent: usize,
}

impl QueueModel {
    fn new() -> QueueModel {
        let pixels: Pixels = (1..=SIZE.area() as u32).collect();
        let mut queue = CommandQueue::new(SIZE, 4096);
        queue.passed(0);
        let next = pixels.len() as u32 + 1;
        QueueModel {
            queue,
            viewer: pixels.clone(),
            screen: pixels,
            next,
            op: 0,
            job: 0,
            reported: 0,
            sent: 0,
        }
    }

    fn origin(&self) -> Origin {
        let window = self.op as u32 % 3;
        Origin { window, kinds: Kinds::OTHER, since: self.op, lane: Lane::Normal, echo: None }
    }

    fn draw(&mut self, region: &Region) {
        for (x, y) in places(region) {
            self.screen[at(x, y)] = self.next;
            self.next += 1;
        }
    }

    fn queue_copy(&mut self, command: CopyCommand, proof: Proof) {
        self.reported += 1;
        self.queue.copy(command, self.op, proof, self.origin());
    }

    fn apply(&mut self, op: &Op) {
        self.op += 1;
        match op {
            Op::Draw(region) => {
                self.draw(region);
                self.queue.draw(region, self.origin());
            }
            Op::Copy(region, dx, dy) | Op::Derived(region, dx, dy) => {
                let command = CopyCommand { region: region.clone(), dx: *dx, dy: *dy };
                copy(&mut self.screen, &command);
                let proof =
                    if matches!(op, Op::Copy(..)) { Proof::Recorded } else { Proof::Derived };
                self.queue_copy(command, proof);
            }
            Op::Mistaken(region, dx, dy) => {
                self.draw(region);
                self.queue_copy(
                    CopyCommand { region: region.clone(), dx: *dx, dy: *dy },
                    Proof::Derived,
                );
            }
            Op::Doubt(region) => {
                self.draw(region);
                self.queue.doubt(region, self.op);
            }
            Op::Commit(rect) => {
                let mut region = self.queue.pending();
                region.intersect_rect(rect);
                self.commit(&region, &Region::new());
            }
            Op::Verify(rect) => {
                let mut region = self.queue.doubted().clone();
                region.intersect_rect(rect);
                self.commit(&region, &region);
            }
            Op::Lose(rect) => {
                for (x, y) in places(&Region::from(*rect)) {
                    self.viewer[at(x, y)] = 0;
                }
                self.queue.stale_before_copies(&Region::from(*rect), self.op);
            }
        }
        self.queue.passed(self.op);
        self.check();
    }

    fn commit(&mut self, region: &Region, verify: &Region) {
        self.job += 1;
        let (taken, _) = self.queue.commit(self.job, region, verify);
        self.queue.read_done(self.job, self.op);
        self.sent += taken.copies.len();
        taken.copies.iter().for_each(|command| copy(&mut self.viewer, command));
        for (x, y) in places(region) {
            self.viewer[at(x, y)] = self.screen[at(x, y)];
        }
    }

    /// The invariant at the top of command_queue.rs.
    fn check(&mut self) {
        self.queue.check_invariants();
        let mut shown = self.viewer.clone();
        self.queue.copies().for_each(|command| copy(&mut shown, command));
        let mut excepted = self.queue.pending();
        excepted.add(self.queue.in_doubt());
        for (x, y) in places(&Region::from(SIZE.rect())) {
            let right = shown[at(x, y)] == self.screen[at(x, y)];
            assert!(
                right || excepted.contains_point(x, y),
                "({x}, {y}) is neither pending nor right, after op {}",
                self.op
            );
        }
    }

    fn drain(&mut self) {
        self.apply(&Op::Commit(SIZE.rect()));
        self.apply(&Op::Verify(SIZE.rect()));
        assert_eq!(self.viewer, self.screen);
        assert!(self.queue.is_empty() && self.queue.in_doubt().is_empty());
    }
}

fn rect() -> impl Strategy<Value = Rect> {
    let (width, height) = (SIZE.width as i32, SIZE.height as i32);
    let any = (0..width, 0..height, 1..=width, 1..=height)
        .prop_map(|(x, y, w, h)| Rect::at(x, y, w, h).intersect(&SIZE.rect()));
    // A few rectangles that share edges, so that one is often all of what another wrote or read.
    let tile = (0..width / 4, 0..height / 4).prop_map(|(x, y)| Rect::at(x * 4, y * 4, 4, 4));
    prop_oneof![any, tile]
}

fn region() -> impl Strategy<Value = Region> {
    prop_oneof![
        rect().prop_map(Region::from),
        (rect(), rect()).prop_map(|(a, b)| [a, b].into_iter().collect())
    ]
}

/// Few vectors, so that COPYs meet others by the same one.
fn vector() -> impl Strategy<Value = (i32, i32)> {
    prop_oneof![Just((0, -2)), Just((0, 3)), Just((4, 0)), Just((0, -4)), (-6..=6, -6..=6)]
        .prop_filter("moves", |&v| v != (0, 0))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => region().prop_map(Op::Draw),
        9 => (region(), vector()).prop_map(|(region, (dx, dy))| Op::Copy(region, dx, dy)),
        3 => (region(), vector())
            .prop_map(|(region, (dx, dy))| Op::Derived(inside(region, dx, dy), dx, dy)),
        1 => (region(), vector())
            .prop_map(|(region, (dx, dy))| Op::Mistaken(inside(region, dx, dy), dx, dy)),
        1 => region().prop_map(Op::Doubt),
        2 => rect().prop_map(Op::Commit),
        1 => rect().prop_map(Op::Verify),
        1 => rect().prop_map(Op::Lose),
    ]
}

/// A derived COPY has its source on the screen.
fn inside(mut region: Region, dx: i32, dy: i32) -> Region {
    region.intersect_rect(&SIZE.rect().translate(dx, dy));
    region
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn pixels_neither_pending_nor_in_doubt_are_shown(
        ops in proptest::collection::vec(op(), 1..40),
    ) {
        let mut model = QueueModel::new();
        ops.iter().for_each(|op| model.apply(op));
        model.drain();
    }
}

/// A terminal's lines: the text moves up, and the last line is drawn.
fn scroll(model: &mut QueueModel, lines: usize, text: Rect) {
    for _ in 0..lines {
        model.apply(&Op::Copy(Region::from(Rect { y2: text.y2 - 1, ..text }), 0, -1));
        model.apply(&Op::Draw(Region::from(Rect { y1: text.y2 - 1, ..text })));
    }
}

#[test]
fn many_lines_of_a_terminal_are_one_copy() {
    let mut model = QueueModel::new();
    scroll(&mut model, 5, Rect::new(2, 1, 18, 15));
    assert_eq!(model.queue.copies().map(|copy| (copy.dx, copy.dy)).collect::<Vec<_>>(), [(0, -5)]);
    assert_eq!(model.queue.pending(), Region::from(Rect::new(2, 10, 18, 15)));
    model.drain();
    assert_eq!((model.reported, model.sent), (5, 1));
}

#[test]
fn a_terminal_that_scrolled_by_a_screen_has_no_copy_left() {
    let mut model = QueueModel::new();
    scroll(&mut model, 20, Rect::new(2, 1, 18, 15));
    model.drain();
    assert_eq!((model.reported, model.sent), (20, 0));
}

#[test]
fn two_terminals_that_scroll_at_once_are_two_copies() {
    let mut model = QueueModel::new();
    for _ in 0..4 {
        scroll(&mut model, 1, Rect::new(0, 0, 9, 16));
        scroll(&mut model, 2, Rect::new(11, 0, 20, 16));
    }
    assert_eq!(
        model.queue.copies().map(|copy| (copy.dx, copy.dy)).collect::<Vec<_>>(),
        [(0, -4), (0, -8)]
    );
    model.drain();
    assert_eq!((model.reported, model.sent), (12, 2));
}

#[test]
fn two_terminals_that_scroll_alike_stay_apart() {
    let mut model = QueueModel::new();
    for _ in 0..4 {
        scroll(&mut model, 1, Rect::new(0, 0, 9, 16));
        scroll(&mut model, 1, Rect::new(11, 0, 20, 16));
    }
    assert_eq!(
        model.queue.copies().map(|copy| (copy.dx, copy.dy)).collect::<Vec<_>>(),
        [(0, -4), (0, -4)]
    );
    model.drain();
}

#[test]
fn parts_of_a_window_that_move_alike_are_one_copy() {
    let mut model = QueueModel::new();
    for x in [0, 5, 10] {
        model.apply(&Op::Copy(Region::from(Rect::at(x, 6, 5, 4)), 0, 4));
    }
    model.drain();
    assert_eq!((model.reported, model.sent), (3, 1));
}

#[test]
fn columns_that_meet_rows_do_not_become_one_copy() {
    // Ten columns move down, and four rows of them move up again, a pixel to the right: as one COPY
    // they have 40 rectangles.
    const RECTS_MAX: usize = 20;
    let columns: Region = (0..10).map(|i| Rect::at(2 * i, 8, 1, 8)).collect();
    let rows: Region = (0..4).map(|i| Rect::at(1, 2 * i, 19, 1)).collect();
    let mut unseen = rows.difference(&columns.translated(1, -8));
    unseen.add(&columns);
    let mut queue = CommandQueue::new(SIZE, RECTS_MAX);
    let origin =
        Origin { window: 1, kinds: Kinds::OTHER, since: 0, lane: Lane::Normal, echo: None };
    queue.copy(CopyCommand { region: columns, dx: 0, dy: 8 }, 1, Proof::Recorded, origin);
    queue.copy(CopyCommand { region: rows, dx: 1, dy: -8 }, 2, Proof::Recorded, origin);
    queue.draw(&unseen, origin);
    queue.check_invariants();
    let (taken, _) = queue.commit(1, &unseen, &Region::new());
    let rects: usize = taken.copies.iter().map(|copy| copy.region.rect_count()).sum();
    assert!(
        !taken.copies.is_empty() && rects <= RECTS_MAX,
        "{rects} rectangles in {:?}",
        taken.copies
    );
}

#[test]
fn copies_that_write_the_screen_many_times_become_pixels() {
    let mut queue = CommandQueue::new(SIZE, 4096);
    let origin =
        Origin { window: 1, kinds: Kinds::OTHER, since: 0, lane: Lane::Normal, echo: None };
    // Left and right, so that no two of them are one.
    let (width, height) = (SIZE.width as i32, SIZE.height as i32);
    let right = Rect::at(1, 0, width - 1, height);
    let mut most = 0;
    for op in 0..60 {
        let (region, dx) = if op % 2 == 0 { (right, 1) } else { (right.translate(-1, 0), -1) };
        let copy = CopyCommand { region: region.into(), dx, dy: 0 };
        queue.copy(copy, op + 1, Proof::Recorded, origin);
        queue.check_invariants();
        most = most.max(queue.copies.len());
    }
    // Without a limit of their area all of them would be sent: ten screens of copying.
    assert!((2..=8).contains(&most), "{most} COPYs of the whole screen");
}

const LARGE: Size = Size { width: 1024, height: 768 };

/// So many places that do not touch.
fn scattered(len: i32) -> impl Iterator<Item = Rect> {
    (0..len).map(|i| Rect::at(i % 20 * 50, i / 20 * 30, 10, 10))
}

#[test]
fn doubt_stays_few_rectangles_whatever_is_drawn_over_it() {
    let mut queue = CommandQueue::new(LARGE, 4096);
    let origin =
        Origin { window: 1, kinds: Kinds::GLYPHS, since: 0, lane: Lane::Normal, echo: None };
    queue.doubt(&Region::from(LARGE.rect()), 0);
    for (i, rect) in scattered(400).enumerate() {
        queue.draw(&Region::from(rect), origin);
        queue.check_invariants();
        let to = rect.translate(20, 0);
        queue.copy(
            CopyCommand { region: to.into(), dx: 20, dy: 0 },
            i as u64,
            Proof::Recorded,
            origin,
        );
        queue.check_invariants();
    }
    let mut certain = queue.pending();
    for job in 0.. {
        let verify = queue.doubted().clone();
        if verify.is_empty() {
            break;
        }
        assert!(!verify.overlaps(&queue.pending()), "pending pixels are read anyway");
        queue.commit(job, &verify, &verify);
        queue.read_done(job, u64::from(u32::MAX));
        queue.check_invariants();
        certain.add(&verify);
    }
    assert_eq!(certain, Region::from(LARGE.rect()), "all of it was compared, or is pending");
}

#[test]
fn pending_pixels_stay_few_rectangles_whatever_is_committed() {
    // Columns, of which rows in the middle are committed.
    let size = Size { width: 2048, height: 600 };
    let mut queue = CommandQueue::new(size, 4096);
    let origin =
        Origin { window: 1, kinds: Kinds::IMAGE, since: 0, lane: Lane::Normal, echo: None };
    let columns: Region = (0..1000).map(|i| Rect::at(2 * i, 0, 1, 600)).collect();
    queue.draw(&columns, origin);
    let mut middle = columns.clone();
    middle.intersect_rect(&Rect::new(0, 200, 2048, 400));
    queue.commit(1, &middle, &Region::new());
    queue.check_invariants();
    assert!(
        columns.difference(&middle).difference(&queue.pending()).is_empty(),
        "the rest is still pending"
    );
}
