//! Path 5/13: from translate.rs, to scheduler.rs.
//! What is still to be sent to one viewer: pending pixels, queued COPYs, pixels to compare when
//! there is time, and reads that may contain later ops.
//! Knows rectangles, op numbers and ages; never pixels, bytes or sockets.
//!
//! The invariant of the rules (doc/scheduling.md): let V be what the viewer will show once
//! everything committed and then every queued COPY is applied, and S(n) the screen after op n, the
//! newest translated one. Then V equals S(n) on every pixel that is neither pending nor inside a
//! read tagged later than n. Pixels in doubt are no exception as long as the drawable maps are
//! right; they are compared to make sure.

use thinc_protocol::Micros;
use thinc_protocol::limits::COPIES_SCREENS_MAX;
use thinc_region::{Rect, Region, Size};

#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::copies::{COPIES_MAX, Copies, CopyCommand, Proof, TakenCopies};

/// Most items of pending pixels; past it they are joined.
pub(crate) const ITEMS_MAX: usize = 32;
/// Most rectangles of all pending pixels. Past it they become coarser, so that equal pixels are
/// read and not sent.
pub(crate) const PENDING_RECTS_MAX: usize = 1024;
/// Neighbours join if their ages differ by no more than this: a frame of a 60 Hz screen.
const NEIGHBOURS_APART: Micros = 16_667;
/// Neighbours with so many pixels together are one small item, whatever their sizes.
const NEIGHBOURS_AREA_SMALL: u64 = 16 * 1024;
/// Most rectangles in doubt. Past it they become coarser, so that equal pixels are compared.
pub(crate) const DOUBT_RECTS_MAX: usize = 128;
/// Most reads that are remembered; past it two finished ones join under the later tag. More than
/// there are jobs waiting for pixels.
const READS_MAX: usize = 16;
/// The tag of pixels that will be read at an unknown time.
const TAG_UNKNOWN: u64 = u64::MAX;

/// What pending pixels were drawn as: a set of hints, to estimate their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// One colour.
    pub(crate) const SOLID: Kinds = Kinds(1 << 0);
    /// A tile or stipple.
    pub(crate) const PATTERN: Kinds = Kinds(1 << 1);
    /// Text.
    pub(crate) const GLYPHS: Kinds = Kinds(1 << 2);
    /// A RENDER operation.
    pub(crate) const COMPOSITE: Kinds = Kinds(1 << 3);
    /// Anything else.
    pub(crate) const OTHER: Kinds = Kinds(1 << 4);
    /// Not drawn but stale: a new viewer, a new size, an overflow.
    pub(crate) const STALE: Kinds = Kinds(1 << 5);
    /// An application's pixels.
    pub(crate) const IMAGE: Kinds = Kinds(1 << 6);
    /// XVideo.
    pub(crate) const VIDEO: Kinds = Kinds(1 << 7);
    /// The number of kinds.
    pub(crate) const COUNT: usize = 8;

    /// Both sets.
    pub(crate) fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Index of the most expensive kind in the set; the constants are in order of cost.
    pub(crate) fn most_expensive(self) -> usize {
        7 - (self.0 | 1).leading_zeros() as usize
    }
}

/// The input to which an item is the first response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    /// The viewer's number of the input.
    pub(crate) seq: u32,
    /// The top-level window that received it.
    pub(crate) window: u32,
    /// When the driver reported its delivery.
    pub(crate) delivered: Micros,
}

impl Echo {
    /// The later of two.
    pub(crate) fn later(a: Option<Echo>, b: Option<Echo>) -> Option<Echo> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.delivered >= a.delivered { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// The lane in which pixels wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A small input response: before everything else, within a cap.
    RealTime,
    /// By size and age.
    Normal,
}

/// What is known about a drawing besides its region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Top-level window, 0 if unknown.
    pub(crate) window: u32,
    /// Hints.
    pub(crate) kinds: Kinds,
    /// When it was translated.
    pub(crate) since: Micros,
    /// Its lane.
    pub(crate) lane: Lane,
    /// The input it responds to.
    pub(crate) echo: Option<Echo>,
}

/// Pending pixels, all to be read from the framebuffer when they are committed.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Disjoint from every other item's.
    pub(crate) region: Region,
    /// Bounds of `region`.
    pub(crate) bounds: Rect,
    /// Area of `region`, in pixels.
    pub(crate) area: u64,
    /// What it was drawn as, and when; `since` is the oldest of what it replaced, so that redrawing
    /// does not starve.
    pub(crate) origin: Origin,
    /// Where it was cut last, if one update cannot contain it: an item that is redrawn faster than
    /// it is sent is sent all round, not only its top.
    pub(crate) sweep: Sweep,
    /// All of it belongs to the newest frame of this video stream, which is sent instead of pixels.
    pub(crate) stream: Option<u16>,
}

/// How far an item that is sent in parts has come, from its top to its bottom and round again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    /// The next part begins at this row or below.
    pub(crate) next_y: i32,
    /// When this round began, or earlier: later drawings are not part of it.
    began: Micros,
}

impl Pending {
    fn new(region: Region, origin: Origin) -> Pending {
        let sweep = Sweep { next_y: i32::MIN, began: origin.since };
        Pending {
            bounds: region.extents(),
            area: region.area(),
            region,
            origin,
            sweep,
            stream: None,
        }
    }

    /// It may be joined with others. A frame may not, or it would be shown where it is not visible.
    fn is_pixels(&self) -> bool {
        self.stream.is_none()
    }

    /// `part` of it is committed; nothing was drawn after `newest`.
    fn cut(&mut self, part: &Region, newest: Micros) {
        let part = part.extents();
        if part.y1 < self.sweep.next_y {
            // A new round: everything pending when the last one began was sent, and the rest is no
            // older.
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

    /// Neighbours in one window, drawn alike at about the same time, whose union has fewer
    /// rectangles. A small item does not wait with a large one, a partly sent one does not join,
    /// nor does an input response.
    fn belongs_to(&self, other: &Pending) -> bool {
        let (one, two) = (&self.origin, &other.origin);
        let alike = (one.window, one.kinds, one.lane) == (two.window, two.kinds, two.lane);
        let (small, large) = (self.area.min(other.area), self.area.max(other.area));
        if !alike
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

/// What happens to a stream's frame that is pending already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameMerge {
    /// The new frame replaces it: pixels that it no longer covers are sent as pixels.
    Replace,
    /// Both belong to one frame, which is captured when it is committed.
    Extend,
}

/// Pixels that were or will be read at a time when later ops may already have changed them.
#[derive(Clone, Debug)]
struct TaggedRead {
    job: u64,
    region: Region,
    /// Newest op that may be in them.
    tag: u64,
}

static EMPTY: Region = Region::new();

/// One viewer's queue.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    screen: Rect,
    items: Vec<Pending>,
    /// Committed pixels that were not sent: each item sends its pending part of them first. And
    /// since when the oldest of them has waited.
    withdrawn: Region,
    withdrawn_since: Micros,
    /// When something was drawn last.
    newest: Micros,
    copies: Copies,
    /// Since when the oldest queued COPY waits, and the input it responds to.
    copies_since: Micros,
    copies_echo: Option<Echo>,
    copies_kinds: Origin,
    /// Most rectangles of all queued COPYs, which one update must contain.
    copies_rects_max: usize,
    /// Pixels that the viewer shows once every queued COPY is applied, if the drawable maps are
    /// right.
    doubt: Region,
    /// Since when the oldest of them is in doubt, and the newest.
    doubt_since: Micros,
    doubt_newest: Micros,
    reads: Vec<TaggedRead>,
    /// Dirty tiles of overflows: when they were taken, later ops may already have been in them, and
    /// no record tells of such an op.
    dirty: Option<TaggedRead>,
    /// Newest op whose last record was translated.
    passed: u64,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl CommandQueue {
    /// An empty queue for a screen of this size.
    pub(crate) fn new(size: Size, copies_rects_max: usize) -> CommandQueue {
        CommandQueue {
            screen: size.rect(),
            items: Vec::new(),
            withdrawn: Region::new(),
            withdrawn_since: 0,
            newest: 0,
            copies: Copies::default(),
            copies_since: 0,
            copies_echo: None,
            copies_kinds: Origin {
                window: 0,
                kinds: Kinds::OTHER,
                since: 0,
                lane: Lane::Normal,
                echo: None,
            },
            copies_rects_max,
            doubt: Region::new(),
            doubt_since: 0,
            doubt_newest: 0,
            reads: Vec::new(),
            dirty: None,
            passed: 0,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
        self.copies.set_mutation(mutation);
    }

    /// Rule 9. A new geometry or a new ring: the queue is stale, and the whole screen is pending.
    pub(crate) fn reset(&mut self, size: Size, now: Micros) {
        self.screen = size.rect();
        self.items.clear();
        self.withdrawn.clear();
        self.copies.clear();
        self.copies_echo = None;
        self.doubt.clear();
        self.reads.clear();
        self.dirty = None;
        self.passed = 0;
        self.stale(&Region::from(self.screen), now);
    }

    /// Size of the screen.
    pub(crate) fn size(&self) -> Size {
        Size { width: self.screen.width() as u32, height: self.screen.height() as u32 }
    }

    /// True if nothing is pending; pixels in doubt do not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.copies.is_empty()
    }

    /// The pending items, in no order.
    pub(crate) fn items(&self) -> &[Pending] {
        &self.items
    }

    /// What each item sends first; some of it may not be pending.
    pub(crate) fn withdrawn(&self) -> &Region {
        &self.withdrawn
    }

    /// Withdrawn pixels no longer go before the rest.
    pub(crate) fn forget_withdrawn(&mut self) {
        self.withdrawn.clear();
    }

    /// Since when the part that an item sends first has waited. The rest is as old as its own
    /// drawing, or an item that is redrawn all the time would stay the oldest of all.
    pub(crate) fn since(&self, item: &Pending) -> Micros {
        let first = item.region.overlaps(&self.withdrawn);
        if first { item.origin.since.min(self.withdrawn_since) } else { item.origin.since }
    }

    /// The queued COPYs, oldest first.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &CopyCommand> {
        self.copies.iter()
    }

    /// Pixels in doubt; some may be pending as well.
    pub(crate) fn in_doubt(&self) -> &Region {
        &self.doubt
    }

    /// Pixels in doubt that are not pending: those will be read anyway.
    pub(crate) fn doubted(&mut self) -> &Region {
        for item in &self.items {
            self.doubt.subtract(&item.region);
        }
        &self.doubt
    }

    /// Since when the oldest and the newest pixels are in doubt.
    pub(crate) fn doubt_ages(&self) -> (Micros, Micros) {
        (self.doubt_since, self.doubt_newest)
    }

    /// Newest op whose last record was translated.
    pub(crate) fn passed_op(&self) -> u64 {
        self.passed
    }

    /// Since when the oldest item or COPY waits.
    pub(crate) fn oldest(&self) -> Option<Micros> {
        let copies = (!self.copies.is_empty()).then_some(self.copies_since);
        self.items.iter().map(|item| item.origin.since).chain(copies).min()
    }

    /// All pending pixels.
    pub(crate) fn pending(&self) -> Region {
        let mut all = Region::new();
        for item in &self.items {
            all.add(&item.region);
        }
        all
    }

    /// Rule 1. Pixels were drawn: they are pending once, as the newest drawing.
    pub(crate) fn draw(&mut self, region: &Region, origin: Origin) {
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
        if mutated!(self.mutation, CopyIsClipped) {
            self.copies.clip(&region);
        }
        self.doubt.subtract(&region);
        self.bound_doubt();
        self.newest = self.newest.max(origin.since);
        let mut sweep = None;
        let mut i = if mutated!(self.mutation, DrawingsOverlap) { self.items.len() } else { 0 };
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
                    // Nothing of it is left that could be the echo.
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

    /// Pixels of a stream's frame were drawn: they are pending like a drawing, and are sent as its
    /// frame.
    pub(crate) fn draw_frame(
        &mut self,
        region: &Region,
        origin: Origin,
        stream: u16,
        newer: FrameMerge,
    ) {
        let mut whole = std::borrow::Cow::Borrowed(region);
        if let Some(before) = self.items.iter_mut().find(|item| item.stream == Some(stream)) {
            if newer == FrameMerge::Extend || mutated!(self.mutation, OldFramesAreShown) {
                whole.to_mut().add(&before.region);
            }
            before.stream = None;
        }
        self.place(&whole, origin, Some(stream));
    }

    /// A frame of this stream is pending.
    pub(crate) fn waits(&self, stream: u16) -> bool {
        self.items.iter().any(|item| item.stream == Some(stream))
    }

    /// The pending frame of this stream is sent as pixels.
    pub(crate) fn end_stream(&mut self, stream: u16) {
        for item in self.items.iter_mut().filter(|item| item.stream == Some(stream)) {
            item.stream = None;
        }
    }

    /// All pending pixels except those of frames.
    pub(crate) fn pending_pixels(&self) -> Region {
        let mut all = Region::new();
        for item in self.items.iter().filter(|item| item.stream.is_none()) {
            all.add(&item.region);
        }
        all
    }

    /// Pixels of a video that may show another frame: they are read and sent as pixels.
    pub(crate) fn stale_video(&mut self, region: &Region, now: Micros) {
        if !region.is_empty() {
            let origin = Origin {
                window: 0,
                kinds: Kinds::VIDEO,
                since: now,
                lane: Lane::Normal,
                echo: None,
            };
            self.draw(region, origin);
        }
    }

    /// The viewer shows these pixels once every queued COPY is applied, if the drawable maps are
    /// right: they are compared when there is time.
    pub(crate) fn doubt(&mut self, region: &Region, now: Micros) {
        if self.doubt.is_empty() {
            self.doubt_since = now;
        }
        self.doubt_newest = now;
        self.doubt.add(region);
        self.doubt.intersect_rect(&self.screen);
        self.bound_doubt();
    }

    /// A coarser region includes known or pending pixels, which are then compared too, or read
    /// anyway.
    fn bound_doubt(&mut self) {
        if self.doubt.rect_count() > DOUBT_RECTS_MAX {
            self.doubt = self.doubt.simplified(DOUBT_RECTS_MAX / 4);
        }
    }

    /// Rule 5, second case. The viewer lacks these pixels of what it would show after everything
    /// queued.
    pub(crate) fn stale(&mut self, region: &Region, now: Micros) {
        let origin =
            Origin { window: 0, kinds: Kinds::STALE, since: now, lane: Lane::Normal, echo: None };
        self.draw(region, origin);
    }

    /// Rule 5. Follows the queued COPYs, then calls `stale`: for pixels that the viewer lacks after
    /// everything committed.
    pub(crate) fn stale_before_copies(&mut self, region: &Region, now: Micros) {
        let mut stale = region.clone();
        for copy in
            self.copies.iter().filter(|_| !mutated!(self.mutation, StaleDoesNotFollowCopies))
        {
            stale = copy.follow(&stale);
        }
        // Pending pixels keep the kind they were drawn as.
        self.items.iter().for_each(|item| stale.subtract(&item.region));
        self.stale(&stale, now);
    }

    /// Rule 4. These pixels were committed, have waited since `since`, and will not be sent. They
    /// are pending, and go before the rest of their items, or an item that is redrawn faster than
    /// it is sent would never be sent whole.
    pub(crate) fn withdraw(&mut self, region: &Region, since: Micros, echo: Option<Echo>) {
        self.withdrawn_since =
            if self.withdrawn.is_empty() { since } else { self.withdrawn_since.min(since) };
        self.withdrawn.add(region);
        if self.withdrawn.rect_count() > DOUBT_RECTS_MAX {
            self.withdrawn = self.withdrawn.simplified(DOUBT_RECTS_MAX / 4);
        }
        let mut echo = echo;
        for item in self.items.iter_mut().filter(|item| item.region.overlaps(region)) {
            item.origin.echo = Echo::later(item.origin.echo, echo.take());
        }
    }

    /// Rule 9. Records are missing, and this part of the screen changed meanwhile.
    pub(crate) fn overflow(&mut self, dirty: &Region, now: Micros) {
        if mutated!(self.mutation, OverflowIsIgnored) {
            return;
        }
        self.stale(dirty, now);
        if dirty.is_empty() || mutated!(self.mutation, OverflowHasNoTag) {
            return;
        }
        let read = self.dirty.get_or_insert_with(|| TaggedRead {
            job: 0,
            region: Region::new(),
            tag: TAG_UNKNOWN,
        });
        read.region.add(dirty);
        read.region.intersect_rect(&self.screen);
        read.tag = TAG_UNKNOWN;
    }

    /// Rules 2 and 3. Op `op` copied: a COPY where the viewer has the source, pending pixels
    /// elsewhere.
    pub(crate) fn copy(&mut self, copy: CopyCommand, op: u64, proof: Proof, origin: Origin) {
        let extents = copy.region.extents();
        let inside = self.screen.contains(&extents)
            && self.screen.contains(&extents.translate(-copy.dx, -copy.dy));
        if !inside || self.copies.rects() + copy.region.rect_count() > self.copies_rects_max {
            // The viewer cannot have a source outside the screen.
            return self.draw(&copy.region, origin);
        }
        let source = copy.source();
        let source_bounds = source.extents();

        // `pending_area` may count a pixel twice: then a COPY that would move only a few pixels
        // becomes pixels, which is right too.
        let mut pending_area = 0;
        for item in &self.items {
            if item.bounds.overlaps(&source_bounds) {
                pending_area += item.region.overlap_area(&source);
            }
        }
        let area = copy.region.area();
        if pending_area >= area {
            return self.draw(&copy.region, origin);
        }
        // Pixels that may already contain a later op than this COPY (rule 3), and those that will
        // be read later (rule 4).
        let mut stale = Region::new();
        for read in &self.reads {
            if read.tag == TAG_UNKNOWN && mutated!(self.mutation, CopyIgnoresCommitted) {
                continue;
            }
            if read.tag >= op && read.region.overlaps(&source) {
                stale.add(&read.region.intersection(&source));
                if pending_area + stale.area() >= area {
                    return self.draw(&copy.region, origin);
                }
            }
        }
        let is_full = self.copies.len() >= COPIES_MAX
            || self.copies.area() + area > COPIES_SCREENS_MAX * self.screen.area();
        if is_full {
            if mutated!(self.mutation, CopiesPastTheBoundAreForgotten) {
                return;
            }
            self.collapse_copies();
            return self.draw(&copy.region, origin);
        }

        let mut carried = Region::new();
        let mut i = if mutated!(self.mutation, CopyIgnoresPending) { self.items.len() } else { 0 };
        while i < self.items.len() {
            let item = &mut self.items[i];
            if item.bounds.overlaps(&source_bounds) || item.bounds.overlaps(&extents) {
                if item.stream.is_some() && !mutated!(self.mutation, FramesFollowCopies) {
                    // Its destination is sent as pixels: the stream shows nothing there.
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
        if !stale.is_empty() {
            stale.translate(copy.dx, copy.dy);
            self.draw(&stale, Origin { kinds: Kinds::OTHER, ..origin });
        }
        if let Some(dirty) = self.dirty.as_ref().filter(|dirty| dirty.tag >= op) {
            // A later op, for which there will be no record, may have changed what this COPY wrote.
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

    /// Every queued COPY's destination becomes pending, since the viewer would not have it without
    /// them.
    fn collapse_copies(&mut self) {
        let mut moved = Region::new();
        for copy in self.copies.iter() {
            moved.add(&copy.region);
        }
        self.copies.clear();
        let origin =
            Origin { since: self.copies_since, echo: self.copies_echo.take(), ..self.copies_kinds };
        self.draw(&moved, origin);
    }

    /// Rule 3. Every record of `op` was translated: reads without a later op are like any other
    /// pixels.
    pub(crate) fn passed(&mut self, op: u64) {
        // No op has that number, but shared memory may contain anything, and no read would ever be
        // later.
        self.passed = self.passed.max(op.min(TAG_UNKNOWN - 1));
        if self.dirty.as_ref().is_some_and(|dirty| dirty.tag <= self.passed) {
            self.dirty = None;
        }
        if !self.reads.is_empty() {
            let forgotten = mutated!(self.mutation, TagsAreForgottenEarly);
            self.reads
                .retain(|read| read.tag > self.passed && (read.tag == TAG_UNKNOWN || !forgotten));
        }
    }

    /// Rule 4. Commits these pixels, which will be read soon, and every queued COPY, which is sent
    /// before them. Those of `verify`, a part of `region`, are read to be compared, so the COPYs
    /// must still write them.
    pub(crate) fn commit(
        &mut self,
        job: u64,
        region: &Region,
        verify: &Region,
    ) -> (TakenCopies, Option<Echo>) {
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
        self.withdrawn.subtract(region);
        self.doubt.subtract(region);
        self.bound_doubt();
        if !region.is_empty() {
            self.remember_read(TaggedRead { job, region: region.clone(), tag: TAG_UNKNOWN });
        }
        if mutated!(self.mutation, CopiesSentAfterPixels) && !region.is_empty() {
            return (TakenCopies::default(), echo);
        }
        if self.copies.is_empty() {
            return (TakenCopies::default(), Echo::later(echo, self.copies_echo.take()));
        }
        let mut unwanted = region.difference(verify);
        for item in &self.items {
            unwanted.add(&item.region);
        }
        (self.copies.take(unwanted), Echo::later(echo, self.copies_echo.take()))
    }

    fn remember_read(&mut self, read: TaggedRead) {
        if self.reads.len() >= READS_MAX {
            // Two finished reads join under the later tag. Unfinished ones are at most as many as
            // jobs, so there are two.
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
    pub(crate) fn read_done(&mut self, job: u64, tag: u64) {
        // No op has that number, but shared memory may contain anything, and a read must end.
        let tag = tag.min(TAG_UNKNOWN - 1);
        if let Some(dirty) = self.dirty.as_mut().filter(|dirty| dirty.tag == TAG_UNKNOWN) {
            // `begin` only grows: loaded now, it is no earlier than when the tiles were taken.
            dirty.tag = tag;
        }
        for read in &mut self.reads {
            if read.job == job {
                read.tag = if mutated!(self.mutation, TagsAreIgnored) { 0 } else { tag };
            }
        }
        self.reads.retain(|read| read.tag > self.passed);
    }

    /// The job was cancelled before its pixels were read.
    pub(crate) fn read_cancelled(&mut self, job: u64) {
        self.reads.retain(|read| read.job != job);
    }

    fn push(&mut self, new: Pending) {
        let may_join = |item: &Pending| {
            item.is_pixels() && new.is_pixels() || mutated!(self.mutation, FramesJoin)
        };
        match self.items.iter_mut().find(|item| may_join(item) && item.belongs_to(&new)) {
            Some(item) => item.join(&new),
            None => self.items.push(new),
        }
        if self.items.len() > ITEMS_MAX {
            self.join_two();
        }
        self.bound_pending();
    }

    /// Joins the two smallest items of one window, or else the two smallest: large ones are worth
    /// keeping apart.
    fn join_two(&mut self) {
        let mut best: Option<(bool, u64, usize, usize)> = None;
        for a in 0..self.items.len() {
            for b in a + 1..self.items.len() {
                let (one, two) = (&self.items[a], &self.items[b]);
                if !(one.is_pixels() && two.is_pixels() || mutated!(self.mutation, FramesJoin)) {
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
        // Too many rectangles. Additional pixels are read, found equal and not sent; frames are
        // sent as pixels this once.
        let Some(mut all) = self.items.pop() else { return };
        all.stream = None;
        for item in self.items.drain(..) {
            all.join(&item);
        }
        all.region = all.region.simplified(PENDING_RECTS_MAX / 4);
        all.measure();
        self.items.push(all);
    }

    /// Checks the invariants of this file; for tests.
    ///
    /// # Panics
    /// If an invariant does not hold; the message states it.
    pub(crate) fn check_invariants(&self) {
        assert!(self.items.len() <= ITEMS_MAX, "at most {ITEMS_MAX} items are pending");
        assert!(self.copies.len() <= COPIES_MAX, "at most {COPIES_MAX} COPYs are queued");
        assert!(
            self.copies.area() <= COPIES_SCREENS_MAX * self.screen.area(),
            "the queued COPYs write at most {COPIES_SCREENS_MAX} screens"
        );
        assert!(self.reads.len() <= READS_MAX, "at most {READS_MAX} reads are remembered");
        let mut rects = 0;
        for (i, item) in self.items.iter().enumerate() {
            item.region.check_invariants();
            rects += item.region.rect_count();
            assert!(!item.region.is_empty(), "an item has pixels");
            assert!(self.screen.contains(&item.bounds), "an item lies on the screen");
            assert_eq!(item.bounds, item.region.extents(), "an item's bounds are up to date");
            assert_eq!(item.area, item.region.area(), "an item's area is up to date");
            let same = |other: &Pending| item.stream.is_some() && other.stream == item.stream;
            assert!(
                !self.items[i + 1..].iter().any(same),
                "at most one frame of a stream is pending"
            );
            for other in &self.items[i + 1..] {
                assert!(!item.region.overlaps(&other.region), "a pixel is pending once (rule 1)");
            }
        }
        assert!(rects <= PENDING_RECTS_MAX, "at most {PENDING_RECTS_MAX} rectangles are pending");
        let mut copies_rects = 0;
        for copy in self.copies() {
            let extents = copy.region.extents();
            copies_rects += copy.region.rect_count();
            assert!(self.screen.contains(&extents), "a COPY's destination lies on the screen");
            assert!(
                self.screen.contains(&extents.translate(-copy.dx, -copy.dy)),
                "a COPY's source lies on the screen"
            );
        }
        assert_eq!(copies_rects, self.copies.rects(), "the rectangles of queued COPYs are counted");
        assert!(copies_rects <= self.copies_rects_max, "queued COPYs fit an update");
        self.doubt.check_invariants();
        assert!(
            self.doubt.rect_count() <= DOUBT_RECTS_MAX,
            "at most {DOUBT_RECTS_MAX} rectangles are in doubt"
        );
        assert!(self.screen.contains(&self.doubt.extents()), "pixels in doubt lie on the screen");
        for read in &self.reads {
            assert!(
                read.tag > self.passed,
                "a read is remembered only while later ops may be in it (rule 3)"
            );
        }
    }
}

#[cfg(test)]
mod tests;
