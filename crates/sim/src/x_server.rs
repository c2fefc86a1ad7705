//! Path 1/13 and 2/13, made up: an X server and its driver whose pixels run ahead of their records.
//! From workload.rs, to world.rs, which reads records and pixels as the session does.
//! Knows its screen and its ring; never viewers.

use std::collections::VecDeque;
use std::rc::Rc;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind};

/// Edge of a dirty tile, as small to these screens as the driver's 64 is to real ones.
const TILE: i32 = 8;

/// What fills a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Every pixel different from every other ever drawn.
    Distinct,
    /// One colour.
    Solid(u32),
    /// Rows that repeat.
    Pattern(u32),
    /// Two colours in no order.
    Text(u32),
}

/// Memory that a geometry's pixels lie in; what is unmapped by X stays readable for whoever holds it.
#[derive(Clone, Debug)]
pub struct Framebuffer {
    /// In pixels.
    pub size: Size,
    /// Rows of `size.width`.
    pub pixels: Vec<u32>,
}

impl Framebuffer {
    fn at(&self, x: i32, y: i32) -> usize {
        y as usize * self.size.width as usize + x as usize
    }
}

/// An op whose pixels are partly changed and whose records are not published.
#[derive(Debug)]
struct Drawing {
    /// Pixels still to be written, in order.
    writes: VecDeque<(usize, u32)>,
    records: Vec<DrawRecord>,
    area: Region,
}

/// The X server and its driver.
#[derive(Debug)]
pub struct XServer {
    fb: Framebuffer,
    generation: u32,
    /// Framebuffers that X has left and the session may still read.
    old: Vec<(u32, Rc<Framebuffer>)>,
    begin: u64,
    drawing: Option<Drawing>,
    ring: VecDeque<DrawRecord>,
    ring_max: usize,
    overflow_pending: bool,
    /// The next record is the first of its op.
    op_begins: bool,
    dirty: Region,
    next_pixel: u32,
    /// The op that changed each pixel last.
    changed: Vec<u64>,
}

impl XServer {
    /// A screen of black pixels, a ring of `ring_max` records.
    pub fn new(size: Size, ring_max: usize) -> XServer {
        XServer {
            fb: Framebuffer { size, pixels: vec![0; size.area() as usize] },
            generation: 1,
            old: Vec::new(),
            begin: 0,
            drawing: None,
            ring: VecDeque::new(),
            ring_max,
            overflow_pending: false,
            op_begins: true,
            dirty: Region::new(),
            next_pixel: 1,
            changed: vec![0; size.area() as usize],
        }
    }

    /// The screen as X has it.
    pub fn framebuffer(&self) -> &Framebuffer {
        &self.fb
    }

    /// The newest op that may have changed pixels.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// The op that changed each pixel last.
    pub fn changed(&self) -> &[u64] {
        &self.changed
    }

    /// Counts framebuffers.
    pub fn current_generation(&self) -> u32 {
        self.generation
    }

    /// The framebuffer of a generation, which the session may still have mapped.
    pub fn generation(&self, generation: u32) -> Option<Rc<Framebuffer>> {
        if generation == self.generation {
            return Some(Rc::new(self.fb.clone()));
        }
        self.old.iter().find(|(old, _)| *old == generation).map(|(_, fb)| fb.clone())
    }

    /// A pixel of a generation.
    pub fn pixel(&self, generation: u32, at: usize) -> u32 {
        if generation == self.generation {
            return self.fb.pixels[at];
        }
        self.old.iter().find(|(old, _)| *old == generation).map_or(0, |(_, fb)| fb.pixels[at])
    }

    /// True while an op has begun and its records are not published.
    pub fn is_drawing(&self) -> bool {
        self.drawing.is_some()
    }

    /// Begins a drawing in `region`; its pixels change with `step` and `finish`.
    pub fn begin_draw(&mut self, region: &Region, fill: Fill, what: Drawn, window: u32) {
        let region = self.clip(region);
        let mut writes = VecDeque::new();
        for rect in region.rects() {
            for (x, y) in pixels(rect) {
                let color = match fill {
                    Fill::Distinct => {
                        self.next_pixel = (self.next_pixel + 1) & 0x00ff_ffff;
                        self.next_pixel
                    }
                    Fill::Solid(color) => color,
                    Fill::Pattern(color) => color ^ (x as u32 & 3) << 8,
                    Fill::Text(color) => {
                        if (x * 7 + y * 13 + (x * y) % 5) % 3 == 0 {
                            color
                        } else {
                            !color & 0x00ff_ffff
                        }
                    }
                };
                writes.push_back((self.fb.at(x, y), color));
            }
        }
        let kind = |rect| RecordKind::Draw { dst: DrawableId::SCREEN, rect, what, alpha: Alpha::Opaque };
        self.begin_op(region, window, writes, kind);
    }

    /// Begins to move what is `(dx, dy)` before `region` into it, all read before any is written.
    pub fn begin_copy(&mut self, region: &Region, dx: i32, dy: i32, window: u32) {
        self.finish();
        let mut region = self.clip(region);
        region.intersect_rect(&self.fb.size.rect().translate(dx, dy));
        let mut writes = VecDeque::new();
        // Written in an order that is safe, so that a half-done copy looks as one does.
        for rect in region.copy_order(dx, dy) {
            for (x, y) in pixels(&rect) {
                writes.push_back((self.fb.at(x, y), self.fb.pixels[self.fb.at(x - dx, y - dy)]));
            }
        }
        let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
        let kind = |rect| RecordKind::Copy { src, dst, rect, dx, dy, over: false };
        self.begin_op(region, window, writes, kind);
    }

    fn begin_op(
        &mut self,
        region: Region,
        window: u32,
        writes: VecDeque<(usize, u32)>,
        kind: impl Fn(Rect) -> RecordKind,
    ) {
        self.finish();
        if region.is_empty() {
            return;
        }
        self.begin += 1;
        let op = self.begin;
        let last = region.rect_count() - 1;
        let records = region
            .rects()
            .iter()
            .enumerate()
            .map(|(i, &rect)| DrawRecord { op, more: i < last, window, kind: kind(rect) })
            .collect();
        self.drawing = Some(Drawing { writes, records, area: region });
    }

    fn clip(&self, region: &Region) -> Region {
        let mut region = region.clone();
        region.intersect_rect(&self.fb.size.rect());
        region
    }

    /// Writes some pixels of the op that has begun.
    pub fn step(&mut self, pixels: usize) {
        let Some(drawing) = &mut self.drawing else { return };
        for _ in 0..pixels {
            let Some((at, color)) = drawing.writes.pop_front() else { return };
            self.fb.pixels[at] = color;
            self.changed[at] = self.begin;
        }
    }

    /// Writes the rest of them and publishes the op's records.
    pub fn finish(&mut self) {
        self.step(usize::MAX);
        let Some(drawing) = self.drawing.take() else { return };
        for record in drawing.records {
            self.publish(record, Some(&drawing.area));
        }
    }

    fn publish(&mut self, record: DrawRecord, area: Option<&Region>) {
        // Between ops, so that OVERFLOW does not come inside one whose first records were lost.
        if self.ring.len() <= self.ring_max / 2 && self.op_begins {
            self.resume();
        }
        self.op_begins = !record.more;
        if self.overflow_pending || self.ring.len() >= self.ring_max {
            self.overflow_pending = true;
            for rect in area.into_iter().flat_map(Region::rects) {
                let tiles = Rect::new(
                    rect.x1 / TILE * TILE,
                    rect.y1 / TILE * TILE,
                    (rect.x2 + TILE - 1) / TILE * TILE,
                    (rect.y2 + TILE - 1) / TILE * TILE,
                );
                self.dirty.add_rect(tiles);
            }
            return;
        }
        self.ring.push_back(record);
    }

    /// Publishes a record that is no drawing; one that is lost in an overflow is lost.
    pub fn publish_other(&mut self, kind: RecordKind) {
        self.finish();
        self.publish(DrawRecord { op: self.begin, more: false, window: 0, kind }, None);
    }

    /// Publishes a record that the driver repeats until there is room.
    pub fn publish_surely(&mut self, kind: RecordKind) {
        self.finish();
        self.resume();
        self.ring.push_back(DrawRecord { op: self.begin, more: false, window: 0, kind });
    }

    /// The next record for the session.
    pub fn read(&mut self) -> Option<DrawRecord> {
        let record = self.ring.pop_front();
        if self.ring.is_empty() {
            self.resume();
        }
        record
    }

    /// There is room again: OVERFLOW comes before anything else.
    fn resume(&mut self) {
        if std::mem::take(&mut self.overflow_pending) {
            self.ring.push_back(DrawRecord { op: self.begin, more: false, window: 0, kind: RecordKind::Overflow });
        }
    }

    /// The dirty tiles, which are clean after this.
    pub fn take_dirty(&mut self) -> Region {
        self.dirty.take()
    }

    /// Records published and not read.
    pub fn unread(&self) -> usize {
        self.ring.len()
    }

    /// RandR: another framebuffer, with what was on the screen in its corner, and a record that names it.
    pub fn resize(&mut self, size: Size) {
        self.finish();
        let mut pixels = vec![0; size.area() as usize];
        for y in 0..size.height.min(self.fb.size.height) as usize {
            let width = size.width.min(self.fb.size.width) as usize;
            let (to, from) = (y * size.width as usize, y * self.fb.size.width as usize);
            pixels[to..to + width].copy_from_slice(&self.fb.pixels[from..from + width]);
        }
        let old = std::mem::replace(&mut self.fb, Framebuffer { size, pixels });
        self.old.push((self.generation, Rc::new(old)));
        if self.old.len() > 8 {
            self.old.remove(0);
        }
        self.generation += 1;
        self.begin += 1;
        self.changed = vec![self.begin; size.area() as usize];
        let generation = self.generation;
        self.publish_surely(RecordKind::Geometry { generation });
    }

    /// A session attaches: a fresh ring.
    pub fn attach(&mut self) -> (u32, Size) {
        self.finish();
        self.ring.clear();
        self.overflow_pending = false;
        self.dirty.clear();
        (self.generation, self.fb.size)
    }
}

/// The pixels of a rectangle, row by row.
pub(crate) fn pixels(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
    let rect = *rect;
    (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
}
