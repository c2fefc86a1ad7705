//! Path 5/13: from translate.rs, to scheduler.rs.
//! What is still to be sent to one viewer: pending pixels, queued COPYs, what is to be compared when there is time, and the
//! reads that may hold later ops.
//! Knows rectangles, op numbers and ages; never pixels, bytes or sockets.
//!
//! What the rules (doc/scheduling.md) keep true, with V for what the viewer will show once everything committed and then
//! every queued COPY is applied, and S(n) for the screen after op n, the newest translated one: V equals S(n) on every
//! pixel that is neither pending nor inside a read tagged later than n. Pixels in doubt are no exception as long as the
//! drawable maps are right, which is what they are compared for.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region, Size};

use crate::copies::{COPIES_MAX, Copies, CopyCommand, Proof, Taken};
use crate::mutation::{Broken, Mutation};

/// Most sets of pending pixels told apart; past it they join.
pub const ITEMS_MAX: usize = 32;
/// Most rectangles of all pending pixels; past it they become coarser, which costs equal pixels that are not sent.
pub const PENDING_RECTS_MAX: usize = 1024;
/// Neighbours join when one is no older than the other by more than this: a frame of a 60 Hz screen.
const NEIGHBOURS_APART: Micros = 16_667;
/// Neighbours of so many pixels together are one small item whatever their sizes.
const NEIGHBOURS_AREA_SMALL: u64 = 16 * 1024;
/// Most rectangles in doubt; past it they become coarser, which costs equal pixels that are compared.
pub const DOUBT_RECTS_MAX: usize = 128;
/// Most reads remembered; past it two that are done join under the later tag. More than jobs can wait for pixels.
const READS_MAX: usize = 16;
/// A tag for pixels that will be read at a moment not yet known.
const TAG_UNKNOWN: u64 = u64::MAX;

/// What pending pixels were drawn as: a set of hints, for the estimate of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// One colour.
    pub const SOLID: Kinds = Kinds(1 << 0);
    /// A tile or stipple.
    pub const PATTERN: Kinds = Kinds(1 << 1);
    /// Text.
    pub const GLYPHS: Kinds = Kinds(1 << 2);
    /// A RENDER operation.
    pub const COMPOSITE: Kinds = Kinds(1 << 3);
    /// Anything else.
    pub const OTHER: Kinds = Kinds(1 << 4);
    /// Not drawn but lacking: a new viewer, a new size, an overflow.
    pub const STALE: Kinds = Kinds(1 << 5);
    /// A client's pixels.
    pub const IMAGE: Kinds = Kinds(1 << 6);
    /// XVideo.
    pub const VIDEO: Kinds = Kinds(1 << 7);
    /// How many there are.
    pub const COUNT: usize = 8;

    /// Both sets.
    pub fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Index of the dearest kind in the set; the constants stand in order of cost.
    pub fn dearest(self) -> usize {
        7 - (self.0 | 1).leading_zeros() as usize
    }
}

/// Which input an item is the first answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The viewer's number.
    pub seq: u32,
    /// The top-level window that received it.
    pub window: u32,
    /// When the driver said it was delivered.
    pub delivered: Micros,
}

impl Echo {
    /// The later of two.
    pub fn later(a: Option<Echo>, b: Option<Echo>) -> Option<Echo> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.delivered >= a.delivered { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// Which lane pixels wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A small answer to a hand: before everything else, within a cap.
    RealTime,
    /// By size and age.
    Normal,
}

/// What is known about a drawing besides its region.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Top-level window, 0 when unknown.
    pub window: u32,
    /// Hints.
    pub kinds: Kinds,
    /// When it was translated.
    pub since: Micros,
    /// Where it waits.
    pub lane: Lane,
    /// The input it answers.
    pub echo: Option<Echo>,
}

/// Pixels that wait, all to be read from the framebuffer when they are committed.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Disjoint from every other item's.
    pub region: Region,
    /// Of `region`.
    pub bounds: Rect,
    /// Of `region`, in pixels.
    pub area: u64,
    /// What it was drawn as, since when; `since` is the oldest of what it took over, so that redrawing does not starve.
    pub origin: Origin,
    /// Where it was cut last, where it is more than one update holds, so that what is drawn anew faster than it leaves is
    /// sent all round and not its top alone.
    pub sweep: Sweep,
    /// All of it is of the newest frame of this stream of video, which shows it instead of pixels.
    pub stream: Option<u16>,
}

/// How far an item that leaves in parts has come, from its top to its bottom and round again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The next part begins at this row, or below it.
    pub next_y: i32,
    /// When this round began, or earlier: what is pending after it came later.
    began: Micros,
}

impl Pending {
    fn new(region: Region, origin: Origin) -> Pending {
        let sweep = Sweep { next_y: i32::MIN, began: origin.since };
        Pending { bounds: region.extents(), area: region.area(), region, origin, sweep, stream: None }
    }

    /// It may be joined with others: what a stream shows may not, or its picture would be shown where it is not.
    fn is_pixels(&self, broken: Broken) -> bool {
        self.stream.is_none() || broken.is(Mutation::FramesJoin)
    }

    /// `part` of it has left; nothing was drawn after `newest`.
    fn cut(&mut self, part: &Region, newest: Micros) {
        let part = part.extents();
        if part.y1 < self.sweep.next_y {
            // From its top again: all that waited when the last round began has left, and the rest is no older.
            self.origin.since = self.origin.since.max(self.sweep.began);
            self.sweep.began = newest;
        }
        self.sweep.next_y = part.y2;
    }

    fn measure(&mut self) {
        self.bounds = self.region.extents();
        self.area = self.region.area();
    }

    fn join(&mut self, other: &Pending) {
        self.region.add(&other.region);
        self.measure();
        self.origin.kinds = self.origin.kinds.with(other.origin.kinds);
        self.origin.since = self.origin.since.min(other.origin.since);
        self.origin.echo = Echo::later(self.origin.echo, other.origin.echo);
        if other.origin.lane == Lane::Normal {
            self.origin.lane = Lane::Normal;
        }
        if self.origin.window != other.origin.window {
            self.origin.window = 0;
        }
    }

    /// Neighbours of one window that were drawn alike, at about one time, and whose rectangles together are fewer. A small
    /// one is not made to wait with a large one, one of which a part has left not with another, and the answer to a hand
    /// with nothing.
    fn belongs_to(&self, other: &Pending, broken: Broken) -> bool {
        let (one, two) = (&self.origin, &other.origin);
        let alike = (one.window, one.kinds, one.lane) == (two.window, two.kinds, two.lane);
        let (small, large) = (self.area.min(other.area), self.area.max(other.area));
        if !alike
            || !self.is_pixels(broken)
            || !other.is_pixels(broken)
            || one.echo.or(two.echo).is_some()
            || one.since.abs_diff(two.since) > NEIGHBOURS_APART
            || self.sweep.next_y.max(other.sweep.next_y) > i32::MIN
            || !self.bounds.grow(1).overlaps(&other.bounds)
            || small + large > NEIGHBOURS_AREA_SMALL && small * 4 < large
        {
            return false;
        }
        let mut both = self.region.clone();
        both.add(&other.region);
        both.rect_count() < self.region.rect_count() + other.region.rect_count()
    }
}

/// What becomes of the frame of a stream that waits already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// The new one replaces it: what is not seen of it any more is pixels.
    Replaces,
    /// Both are of one picture, which is made when it goes.
    Adds,
}

/// Pixels that were or will be read at a moment when later ops may already have changed them.
#[derive(Clone, Debug)]
struct Read {
    job: u64,
    region: Region,
    /// Newest op that may be in them.
    tag: u64,
}

static EMPTY: Region = Region::new();

/// One viewer's queue.
#[derive(Debug)]
pub struct CommandQueue {
    screen: Rect,
    items: Vec<Pending>,
    /// Was committed and has not left: of what is pending of it, each item sends that first; and since when the oldest of
    /// it has waited.
    taken_back: Region,
    taken_since: Micros,
    /// When something was drawn last.
    newest: Micros,
    copies: Copies,
    /// Since when the oldest queued COPY waits, and the input it answers.
    copies_since: Micros,
    copies_echo: Option<Echo>,
    copies_kinds: Origin,
    /// Most rectangles of all queued COPYs, which one update must hold.
    copies_rects_max: usize,
    /// What the viewer shows once every queued COPY is applied, if the drawable maps are right.
    doubt: Region,
    /// Since when the oldest of it is in doubt, and the newest.
    doubt_since: Micros,
    doubt_newest: Micros,
    reads: Vec<Read>,
    /// Dirty tiles of overflows: they were taken when later ops may already have been in them, and such an op tells of
    /// itself by nothing else.
    dirty: Option<Read>,
    /// Newest op whose last record has been translated.
    passed: u64,
    broken: Broken,
}

impl CommandQueue {
    /// An empty queue for a screen of this size.
    pub fn new(size: Size, copies_rects_max: usize, broken: Broken) -> CommandQueue {
        CommandQueue {
            screen: size.rect(),
            items: Vec::new(),
            taken_back: Region::new(),
            taken_since: 0,
            newest: 0,
            copies: Copies::new(broken),
            copies_since: 0,
            copies_echo: None,
            copies_kinds: Origin { window: 0, kinds: Kinds::OTHER, since: 0, lane: Lane::Normal, echo: None },
            copies_rects_max,
            doubt: Region::new(),
            doubt_since: 0,
            doubt_newest: 0,
            reads: Vec::new(),
            dirty: None,
            passed: 0,
            broken,
        }
    }

    /// Rule 9. A new geometry or a new ring: what waited is void, and everything is pending.
    pub fn reset(&mut self, size: Size, now: Micros) {
        self.screen = size.rect();
        self.items.clear();
        self.taken_back.clear();
        self.copies.clear();
        self.copies_echo = None;
        self.doubt.clear();
        self.reads.clear();
        self.dirty = None;
        self.passed = 0;
        self.stale(&Region::from(self.screen), now);
    }

    /// The screen.
    pub fn size(&self) -> Size {
        Size { width: self.screen.width() as u32, height: self.screen.height() as u32 }
    }

    /// True when nothing waits; what is in doubt does not count.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.copies.is_empty()
    }

    /// What waits, in no order.
    pub fn items(&self) -> &[Pending] {
        &self.items
    }

    /// What each item sends first; some of it may not be pending.
    pub fn taken_back(&self) -> &Region {
        &self.taken_back
    }

    /// It goes before the rest no longer.
    pub(crate) fn forget_taken_back(&mut self) {
        self.taken_back.clear();
    }

    /// Since when what an item sends first has waited. The rest of it is as old as its own drawing, or what is redrawn all
    /// the time would stay the oldest of all.
    pub fn since(&self, item: &Pending) -> Micros {
        let first = item.region.overlaps(&self.taken_back);
        if first { item.origin.since.min(self.taken_since) } else { item.origin.since }
    }

    /// The COPYs that wait, oldest first.
    pub fn copies(&self) -> impl Iterator<Item = &CopyCommand> {
        self.copies.iter()
    }

    /// What is in doubt; some of it may be pending as well.
    pub fn in_doubt(&self) -> &Region {
        &self.doubt
    }

    /// What is in doubt and not pending, which will be read anyway.
    pub fn doubted(&mut self) -> &Region {
        for item in &self.items {
            self.doubt.subtract(&item.region);
        }
        &self.doubt
    }

    /// Since when the oldest of what is in doubt is, and since when the newest.
    pub fn doubt_ages(&self) -> (Micros, Micros) {
        (self.doubt_since, self.doubt_newest)
    }

    /// Newest op whose last record has been translated.
    pub fn passed_op(&self) -> u64 {
        self.passed
    }

    /// Since when the oldest of all waits.
    pub fn oldest(&self) -> Option<Micros> {
        let copies = (!self.copies.is_empty()).then_some(self.copies_since);
        self.items.iter().map(|item| item.origin.since).chain(copies).min()
    }

    /// All pending pixels.
    pub fn pending(&self) -> Region {
        let mut all = Region::new();
        for item in &self.items {
            all.add(&item.region);
        }
        all
    }

    /// Rule 1. Pixels were drawn: they wait once, as the newest drawing.
    pub fn draw(&mut self, region: &Region, origin: Origin) {
        self.place(region, origin, None);
    }

    fn place(&mut self, region: &Region, mut origin: Origin, stream: Option<u16>) {
        let mut region = std::borrow::Cow::Borrowed(region);
        let mut bounds = region.extents();
        if !self.screen.contains(&bounds) {
            region.to_mut().intersect_rect(&self.screen);
            bounds = region.extents();
        }
        if bounds.is_empty() {
            return;
        }
        if self.broken.is(Mutation::CopyIsClipped) {
            self.copies.clip(&region);
        }
        self.doubt.subtract(&region);
        self.bound_doubt();
        self.newest = self.newest.max(origin.since);
        let mut sweep = None;
        let mut i = if self.broken.is(Mutation::DrawingsOverlap) { self.items.len() } else { 0 };
        while i < self.items.len() {
            let item = &mut self.items[i];
            if item.bounds.overlaps(&bounds) && item.region.overlaps(&region) {
                origin.since = origin.since.min(item.origin.since);
                if item.sweep.next_y > i32::MIN {
                    sweep = Some(item.sweep);
                }
                item.region.subtract(&region);
                item.measure();
                if item.region.is_empty() {
                    // Nothing is left of it that could answer the hand.
                    origin.echo = Echo::later(origin.echo, item.origin.echo);
                    self.items.swap_remove(i);
                    continue;
                }
            }
            i += 1;
        }
        let mut item = Pending::new(region.into_owned(), origin);
        item.sweep = sweep.unwrap_or(item.sweep);
        item.stream = stream;
        self.push(item);
    }

    /// Pixels of a stream's frame were drawn: they wait as a drawing does, and go as its picture.
    pub fn draw_frame(&mut self, region: &Region, origin: Origin, stream: u16, newer: Newer) {
        let mut whole = std::borrow::Cow::Borrowed(region);
        if let Some(before) = self.items.iter_mut().find(|item| item.stream == Some(stream)) {
            if newer == Newer::Adds || self.broken.is(Mutation::OldFramesAreShown) {
                whole.to_mut().add(&before.region);
            }
            before.stream = None;
        }
        self.place(&whole, origin, Some(stream));
    }

    /// A frame of this stream waits.
    pub fn waits(&self, stream: u16) -> bool {
        self.items.iter().any(|item| item.stream == Some(stream))
    }

    /// What waits of this stream is pixels from now on.
    pub fn end_stream(&mut self, stream: u16) {
        for item in self.items.iter_mut().filter(|item| item.stream == Some(stream)) {
            item.stream = None;
        }
    }

    /// All pending pixels but those of frames.
    pub fn pending_pixels(&self) -> Region {
        let mut all = Region::new();
        for item in self.items.iter().filter(|item| item.stream.is_none()) {
            all.add(&item.region);
        }
        all
    }

    /// What was shown of a video may be another frame's: it is read and sent as pixels.
    pub(crate) fn stale_video(&mut self, region: &Region, now: Micros) {
        if !region.is_empty() {
            let origin = Origin { window: 0, kinds: Kinds::VIDEO, since: now, lane: Lane::Normal, echo: None };
            self.draw(region, origin);
        }
    }

    /// The viewer shows these pixels once every queued COPY is applied, if the drawable maps are right: they are compared
    /// when there is time.
    pub fn doubt(&mut self, region: &Region, now: Micros) {
        if self.doubt.is_empty() {
            self.doubt_since = now;
        }
        self.doubt_newest = now;
        self.doubt.add(region);
        self.doubt.intersect_rect(&self.screen);
        self.bound_doubt();
    }

    /// What has become too fine takes in pixels that are known, or wait: those are compared too, or read anyway.
    fn bound_doubt(&mut self) {
        if self.doubt.rect_count() > DOUBT_RECTS_MAX {
            self.doubt = self.doubt.simplified(DOUBT_RECTS_MAX / 4);
        }
    }

    /// Rule 5, second way in. The viewer lacks these pixels of what it would show after everything queued.
    pub fn stale(&mut self, region: &Region, now: Micros) {
        let origin = Origin { window: 0, kinds: Kinds::STALE, since: now, lane: Lane::Normal, echo: None };
        self.draw(region, origin);
    }

    /// Rule 5. Follows the queued COPYs, then `stale`: for what the viewer lacks after everything committed.
    pub fn stale_before_copies(&mut self, region: &Region, now: Micros) {
        let mut lacking = region.clone();
        for copy in self.copies.iter().filter(|_| !self.broken.is(Mutation::StaleDoesNotFollowCopies)) {
            lacking = copy.follow(&lacking);
        }
        // What waits already is known better, by what it was drawn as.
        self.items.iter().for_each(|item| lacking.subtract(&item.region));
        self.stale(&lacking, now);
    }

    /// Rule 4. These pixels were committed, have waited `since` then, and will not be sent. They are pending, and go before
    /// the rest of what waits with them, or what is redrawn faster than it leaves would never be sent whole.
    pub fn take_back(&mut self, region: &Region, since: Micros, echo: Option<Echo>) {
        self.taken_since = if self.taken_back.is_empty() { since } else { self.taken_since.min(since) };
        self.taken_back.add(region);
        if self.taken_back.rect_count() > DOUBT_RECTS_MAX {
            self.taken_back = self.taken_back.simplified(DOUBT_RECTS_MAX / 4);
        }
        let mut echo = echo;
        for item in self.items.iter_mut().filter(|item| item.region.overlaps(region)) {
            item.origin.echo = Echo::later(item.origin.echo, echo.take());
        }
    }

    /// Rule 9. Records are missing, and this is where the screen changed meanwhile.
    pub fn overflow(&mut self, dirty: &Region, now: Micros) {
        if self.broken.is(Mutation::OverflowIsIgnored) {
            return;
        }
        self.stale(dirty, now);
        if dirty.is_empty() || self.broken.is(Mutation::OverflowHasNoTag) {
            return;
        }
        let read = self.dirty.get_or_insert_with(|| Read { job: 0, region: Region::new(), tag: TAG_UNKNOWN });
        read.region.add(dirty);
        read.region.intersect_rect(&self.screen);
        read.tag = TAG_UNKNOWN;
    }

    /// Rules 2 and 3. Op `op` copied: a COPY where the viewer has the source, pending pixels where it has not.
    pub fn copy(&mut self, copy: CopyCommand, op: u64, proof: Proof, origin: Origin) {
        let extents = copy.region.extents();
        let inside = self.screen.contains(&extents) && self.screen.contains(&extents.translate(-copy.dx, -copy.dy));
        if !inside || self.copies.rects() + copy.region.rect_count() > self.copies_rects_max {
            // A source outside the screen holds nothing the viewer could have.
            return self.draw(&copy.region, origin);
        }
        let source = copy.source();
        let source_bounds = source.extents();

        // `lacks` may count a pixel twice: then a COPY that would move only a little becomes pixels, which is right too.
        let mut lacks = 0;
        for item in &self.items {
            if item.bounds.overlaps(&source_bounds) {
                lacks += item.region.overlap_area(&source);
            }
        }
        let area = copy.region.area();
        if lacks >= area {
            return self.draw(&copy.region, origin);
        }
        // What may already hold a later op than this COPY saw (rule 3), and what will be read later (rule 4).
        let mut lacking = Region::new();
        for read in &self.reads {
            if read.tag == TAG_UNKNOWN && self.broken.is(Mutation::CopyIgnoresCommitted) {
                continue;
            }
            if read.tag >= op && read.region.overlaps(&source) {
                lacking.add(&read.region.intersection(&source));
                if lacks + lacking.area() >= area {
                    return self.draw(&copy.region, origin);
                }
            }
        }
        if self.copies.len() >= COPIES_MAX {
            if self.broken.is(Mutation::CopiesPastTheBoundAreForgotten) {
                return;
            }
            self.collapse_copies();
            return self.draw(&copy.region, origin);
        }

        let mut carried = Region::new();
        let mut i = if self.broken.is(Mutation::CopyIgnoresPending) { self.items.len() } else { 0 };
        while i < self.items.len() {
            let item = &mut self.items[i];
            if item.bounds.overlaps(&source_bounds) || item.bounds.overlaps(&extents) {
                if item.stream.is_some() && !self.broken.is(Mutation::FramesAreCarriedAlong) {
                    // Where it is moved to it is pixels: the stream shows nothing there.
                    let mut moved = item.region.translated(copy.dx, copy.dy);
                    moved.intersect(&copy.region);
                    carried.add(&moved);
                    item.region.subtract(&copy.region);
                } else {
                    item.region = copy.follow(&item.region);
                }
                item.measure();
                if item.region.is_empty() {
                    self.copies_echo = Echo::later(self.copies_echo, item.origin.echo);
                    self.items.swap_remove(i);
                    continue;
                }
            }
            i += 1;
        }
        if self.copies.is_empty() {
            self.copies_since = origin.since;
        }
        self.copies_kinds = origin;
        self.copies_echo = Echo::later(self.copies_echo, origin.echo);
        if !carried.is_empty() {
            self.draw(&carried, Origin { kinds: Kinds::VIDEO, echo: None, ..origin });
        }
        if !lacking.is_empty() {
            lacking.translate(copy.dx, copy.dy);
            self.draw(&lacking, Origin { kinds: Kinds::OTHER, ..origin });
        }
        if let Some(dirty) = self.dirty.as_ref().filter(|dirty| dirty.tag >= op) {
            // A later op, of which no record will tell, may have changed what this COPY wrote.
            let kept = dirty.region.intersection(&copy.region);
            self.draw(&kept, Origin { kinds: Kinds::OTHER, ..origin });
        }
        if self.doubt.overlaps_rect(&source_bounds) || self.doubt.overlaps_rect(&extents) {
            self.doubt = copy.follow(&self.doubt);
            self.bound_doubt();
        }
        if proof == Proof::Derived {
            self.doubt(&copy.region, origin.since);
        }
        let mut unwanted: [&Region; ITEMS_MAX] = [&EMPTY; ITEMS_MAX];
        for (unwanted, item) in unwanted.iter_mut().zip(&self.items) {
            *unwanted = &item.region;
        }
        self.copies.push(copy, proof, &unwanted[..self.items.len()]);
        self.bound_pending();
    }

    /// Every queued COPY's destination becomes pending: without them, it is what the viewer would not have.
    fn collapse_copies(&mut self) {
        let mut moved = Region::new();
        for copy in self.copies.iter() {
            moved.add(&copy.region);
        }
        self.copies.clear();
        let origin = Origin { since: self.copies_since, echo: self.copies_echo.take(), ..self.copies_kinds };
        self.draw(&moved, origin);
    }

    /// Rule 3. Every record of `op` has been translated: reads that hold nothing later are like any other pixels.
    pub fn passed(&mut self, op: u64) {
        // No op has that number, but shared memory may say anything, and no read would ever be later.
        self.passed = self.passed.max(op.min(TAG_UNKNOWN - 1));
        if self.dirty.as_ref().is_some_and(|dirty| dirty.tag <= self.passed) {
            self.dirty = None;
        }
        if !self.reads.is_empty() {
            let forgotten = self.broken.is(Mutation::TagsAreForgottenEarly);
            self.reads.retain(|read| read.tag > self.passed && (read.tag == TAG_UNKNOWN || !forgotten));
        }
    }

    /// Rule 4. Takes these pixels, which will be read soon, and every queued COPY, which goes before them. Those of
    /// `verify`, a part of `region`, are read to be compared, and what the COPYs bring there is wanted.
    pub fn commit(&mut self, job: u64, region: &Region, verify: &Region) -> (Taken, Option<Echo>) {
        let mut echo = None;
        for item in &mut self.items {
            if item.region.overlaps(region) {
                item.region.subtract(region);
                item.measure();
                item.cut(region, self.newest);
                echo = Echo::later(echo, item.origin.echo.take());
            }
        }
        self.items.retain(|item| !item.region.is_empty());
        self.bound_pending();
        self.taken_back.subtract(region);
        self.doubt.subtract(region);
        self.bound_doubt();
        if !region.is_empty() {
            self.remember_read(Read { job, region: region.clone(), tag: TAG_UNKNOWN });
        }
        if self.broken.is(Mutation::CopiesLeaveAfterPixels) && !region.is_empty() {
            return (Taken::default(), echo);
        }
        if self.copies.is_empty() {
            return (Taken::default(), Echo::later(echo, self.copies_echo.take()));
        }
        let mut unwanted = region.difference(verify);
        for item in &self.items {
            unwanted.add(&item.region);
        }
        (self.copies.take(unwanted), Echo::later(echo, self.copies_echo.take()))
    }

    fn remember_read(&mut self, read: Read) {
        if self.reads.len() >= READS_MAX {
            // Two that are done join under the later tag. Those not yet done are as many as jobs at most, so there are two.
            let mut done = (0..self.reads.len()).filter(|&i| self.reads[i].tag != TAG_UNKNOWN);
            let (Some(a), Some(b)) = (done.next(), done.next()) else {
                panic!("fewer jobs wait for their pixels than reads are remembered");
            };
            let other = self.reads.swap_remove(b);
            self.reads[a].region.add(&other.region);
            self.reads[a].tag = self.reads[a].tag.max(other.tag);
        }
        self.reads.push(read);
    }

    /// Rule 3. The job's pixels were read, and ops up to `tag` may be in them.
    pub fn read_done(&mut self, job: u64, tag: u64) {
        // No op has that number, but shared memory may say anything, and a read that never ends is one too many.
        let tag = tag.min(TAG_UNKNOWN - 1);
        if let Some(dirty) = self.dirty.as_mut().filter(|dirty| dirty.tag == TAG_UNKNOWN) {
            // `begin` only grows: loaded now, it is no earlier than when the tiles were taken.
            dirty.tag = tag;
        }
        for read in &mut self.reads {
            if read.job == job {
                read.tag = if self.broken.is(Mutation::TagsAreIgnored) { 0 } else { tag };
            }
        }
        self.reads.retain(|read| read.tag > self.passed);
    }

    /// The job was given up before its pixels were read.
    pub fn read_cancelled(&mut self, job: u64) {
        self.reads.retain(|read| read.job != job);
    }

    fn push(&mut self, new: Pending) {
        let broken = self.broken;
        match self.items.iter_mut().find(|item| item.belongs_to(&new, broken)) {
            Some(item) => item.join(&new),
            None => self.items.push(new),
        }
        if self.items.len() > ITEMS_MAX {
            self.join_two();
        }
        self.bound_pending();
    }

    /// Joins the two smallest items of one window, or else the two smallest: large ones are worth telling apart.
    fn join_two(&mut self) {
        let mut best: Option<(bool, u64, usize, usize)> = None;
        for a in 0..self.items.len() {
            for b in a + 1..self.items.len() {
                let (one, two) = (&self.items[a], &self.items[b]);
                if !one.is_pixels(self.broken) || !two.is_pixels(self.broken) {
                    continue;
                }
                let rank = (one.origin.window != two.origin.window, one.area + two.area, a, b);
                if best.is_none_or(|found| rank < found) {
                    best = Some(rank);
                }
            }
        }
        if let Some((_, _, a, b)) = best {
            let other = self.items.swap_remove(b);
            self.items[a].join(&other);
        }
    }

    fn bound_pending(&mut self) {
        let rects: usize = self.items.iter().map(|item| item.region.rect_count()).sum();
        if rects <= PENDING_RECTS_MAX {
            return;
        }
        // Too fine to be worth telling apart. A pixel too many is read, found equal and not sent; frames are pixels this once.
        let Some(mut all) = self.items.pop() else { return };
        all.stream = None;
        for item in self.items.drain(..) {
            all.join(&item);
        }
        all.region = all.region.simplified(PENDING_RECTS_MAX / 4);
        all.measure();
        self.items.push(all);
    }

    /// Checks what this file promises; for tests.
    ///
    /// # Panics
    /// When a promise is broken, with the promise in words.
    pub fn check_invariants(&self) {
        assert!(self.items.len() <= ITEMS_MAX, "at most {ITEMS_MAX} items wait");
        assert!(self.copies.len() <= COPIES_MAX, "at most {COPIES_MAX} COPYs wait");
        assert!(self.reads.len() <= READS_MAX, "at most {READS_MAX} reads are remembered");
        let mut rects = 0;
        for (i, item) in self.items.iter().enumerate() {
            item.region.check_invariants();
            rects += item.region.rect_count();
            assert!(!item.region.is_empty(), "an item has pixels");
            assert!(self.screen.contains(&item.bounds), "an item lies on the screen");
            assert_eq!(item.bounds, item.region.extents(), "an item knows its bounds");
            assert_eq!(item.area, item.region.area(), "an item knows its area");
            let same = |other: &Pending| item.stream.is_some() && other.stream == item.stream;
            assert!(!self.items[i + 1..].iter().any(same), "one frame of a stream waits");
            for other in &self.items[i + 1..] {
                assert!(!item.region.overlaps(&other.region), "a pixel waits once (rule 1)");
            }
        }
        assert!(rects <= PENDING_RECTS_MAX, "at most {PENDING_RECTS_MAX} rectangles wait");
        let mut copies_rects = 0;
        for copy in self.copies() {
            let extents = copy.region.extents();
            copies_rects += copy.region.rect_count();
            assert!(self.screen.contains(&extents), "a COPY's destination lies on the screen");
            assert!(self.screen.contains(&extents.translate(-copy.dx, -copy.dy)), "a COPY's source lies on the screen");
        }
        assert_eq!(copies_rects, self.copies.rects(), "the queue knows how many rectangles its COPYs have");
        assert!(copies_rects <= self.copies_rects_max, "queued COPYs fit an update");
        self.doubt.check_invariants();
        assert!(self.doubt.rect_count() <= DOUBT_RECTS_MAX, "at most {DOUBT_RECTS_MAX} rectangles are in doubt");
        assert!(self.screen.contains(&self.doubt.extents()), "what is in doubt lies on the screen");
        for read in &self.reads {
            assert!(read.tag > self.passed, "a read is remembered only while later ops may be in it (rule 3)");
        }
    }
}
