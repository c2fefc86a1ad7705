//! Path 1/13 and 2/13, made up: an X server and its driver whose pixels run ahead of their records.
//! From workload.rs, to world.rs, which reads records and pixels as the session does.
//! Knows its screen and its ring; never viewers.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind, VideoLayout};

use crate::history::History;
use crate::surface::{Fill, Made, RGB, Surface, over, pixels};

/// Edge of a dirty tile, as small to these screens as the driver's 64 is to real ones.
const TILE: i32 = 8;

/// What moves pixels from one drawable to another, or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blit {
    /// From here.
    pub src: DrawableId,
    /// To here.
    pub dst: DrawableId,
    /// Pixels right.
    pub dx: i32,
    /// Pixels down.
    pub dy: i32,
    /// Blended over what was there.
    pub over: bool,
}

/// The newest frame of a port.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Of its samples.
    pub source: Size,
    /// What it would show in all of its place, whatever lies over that.
    pub picture: Vec<u32>,
}

/// An op whose pixels are partly changed and whose records are not published.
#[derive(Debug)]
struct Drawing {
    dst: DrawableId,
    /// Pixels still to be written, in order.
    writes: VecDeque<(usize, u32, Made)>,
    records: Vec<DrawRecord>,
    area: Region,
}

/// The X server and its driver.
#[derive(Debug)]
pub struct XServer {
    fb: Surface,
    pixmaps: HashMap<DrawableId, Surface>,
    slots: HashMap<u16, Slot>,
    generation: u32,
    /// Framebuffers that X has left and the session may still read.
    old: Vec<(u32, Rc<Surface>)>,
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
    history: History,
}

impl XServer {
    /// A screen of black pixels, a ring of `ring_max` records.
    pub fn new(size: Size, ring_max: usize) -> XServer {
        XServer {
            fb: Surface::screen(size),
            pixmaps: HashMap::new(),
            slots: HashMap::new(),
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
            history: History::new(),
        }
    }

    /// The screen as X has it.
    pub fn framebuffer(&self) -> &Surface {
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

    /// Every value that a pixel of the screen has had.
    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    /// Counts framebuffers.
    pub fn current_generation(&self) -> u32 {
        self.generation
    }

    /// The framebuffer of a generation, which the session may still have mapped.
    pub fn generation(&self, generation: u32) -> Option<Rc<Surface>> {
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

    fn surface(&self, id: DrawableId) -> Option<&Surface> {
        if id == DrawableId::SCREEN { Some(&self.fb) } else { self.pixmaps.get(&id) }
    }

    /// A pixmap that holds anything.
    pub fn create_pixmap(&mut self, id: DrawableId, size: Size, opaque: bool) {
        if self.surface(id).is_some() {
            return;
        }
        self.finish();
        self.pixmaps.insert(id, Surface::pixmap(id.0, size, opaque));
        self.publish_other(RecordKind::PixmapCreate { id, width: size.width, height: size.height, opaque });
    }

    /// The pixmap goes, with all it held.
    pub fn free_pixmap(&mut self, id: DrawableId) {
        self.finish();
        if self.pixmaps.remove(&id).is_some() {
            self.publish_other(RecordKind::PixmapDestroy { id });
        }
    }

    /// Begins a drawing in `region`; its pixels change with `step` and `finish`. A drawable that does not exist is an
    /// error of the client's, and nothing happens.
    pub fn begin_draw(&mut self, dst: DrawableId, region: &Region, fill: Fill, what: Drawn, window: u32) {
        self.finish();
        let mut next = self.next_pixel;
        let Some(surface) = self.surface(dst) else { return };
        let region = clip(region, surface.rect());
        let mut writes = VecDeque::new();
        for (x, y) in region.rects().iter().flat_map(pixels) {
            let at = surface.at(x, y);
            if let Some(pixel) = fill.pixel((x, y), surface.read(at), &mut next) {
                let made = Made::by(what);
                let made = if fill.alpha() == Alpha::Kept { made.and(surface.made[at]) } else { made };
                writes.push_back((at, pixel, made));
            }
        }
        self.next_pixel = next;
        let kinds = region.rects().iter().map(|&rect| RecordKind::Draw { dst, rect, what, alpha: fill.alpha() });
        let kinds = kinds.collect();
        self.begin_op(dst, region, window, writes, kinds);
    }

    /// Begins to move what is `(dx, dy)` before `region` into it, all read before any is written. Where the source has
    /// nothing, X draws something else in the same op, as it does where a window's source is covered.
    pub fn begin_copy(&mut self, region: &Region, blit: &Blit, window: u32) {
        self.finish();
        let &Blit { src, dst, dx, dy, over: blends } = blit;
        let (Some(from), Some(to)) = (self.surface(src), self.surface(dst)) else { return };
        let region = clip(region, to.rect());
        let copied = clip(&region, from.rect().translate(dx, dy));
        let drawn = region.difference(&copied);
        let mut writes = VecDeque::new();
        // Written in an order that is safe, so that a half-done copy looks as one does.
        for (x, y) in copied.copy_order(dx, dy).flat_map(|rect| pixels(&rect)) {
            let (at, source) = (to.at(x, y), from.at(x - dx, y - dy));
            let (pixel, made) = (from.read(source), from.made[source]);
            writes.push_back(if blends && pixel >> 24 < 255 {
                (at, over(pixel, to.read(at)), made.and(to.made[at]).and(Made::by(Drawn::Composite)))
            } else {
                (at, pixel, made)
            });
        }
        for (x, y) in drawn.rects().iter().flat_map(pixels) {
            writes.push_back((to.at(x, y), 0x0044_4444, Made::by(Drawn::Other)));
        }
        let copies = copied.rects().iter().map(|&rect| RecordKind::Copy { src, dst, rect, dx, dy, over: blends });
        let (what, alpha) = (Drawn::Other, Alpha::Unknown);
        let draws = drawn.rects().iter().map(|&rect| RecordKind::Draw { dst, rect, what, alpha });
        let kinds = copies.chain(draws).collect();
        self.begin_op(dst, region, window, writes, kinds);
    }

    /// Begins to show a frame of XVideo in what is seen of its place. Its samples are there at once, for whoever reads them.
    pub fn begin_frame(&mut self, port: u16, source: Size, place: Rect, seen: &Region, window: u32) {
        self.finish();
        let mut seen = clip(seen, self.fb.rect());
        seen.intersect_rect(&place);
        if seen.is_empty() {
            return;
        }
        let mut next = self.next_pixel;
        let mut distinct = || Fill::Distinct.pixel((0, 0), 0, &mut next).unwrap_or_default() & RGB;
        let picture: Vec<u32> = (0..place.area()).map(|_| distinct()).collect();
        self.next_pixel = next;
        let (layout, crop) = (VideoLayout::Yuv420, source.rect());
        let what = Drawn::Video { port, layout, size: source, crop, place };
        let in_picture = |(x, y): (i32, i32)| ((y - place.y1) * place.width() + x - place.x1) as usize;
        let write = |at: (i32, i32)| (self.fb.at(at.0, at.1), picture[in_picture(at)], Made::by(what));
        let writes = seen.rects().iter().flat_map(pixels).map(write).collect();
        let (dst, alpha) = (DrawableId::SCREEN, Alpha::Opaque);
        let kinds = seen.rects().iter().map(|&rect| RecordKind::Draw { dst, rect, what, alpha }).collect();
        // A viewer may be shown all of it for a moment, where the frame before was seen.
        picture.iter().for_each(|&pixel| self.history.note(pixel));
        for (x, y) in pixels(&place.intersect(&self.fb.rect())) {
            self.changed[self.fb.at(x, y)] = self.begin + 1;
        }
        self.slots.insert(port, Slot { source, picture });
        self.begin_op(dst, seen, window, writes, kinds);
    }

    /// The newest frame of a port, as whoever reads it now finds it.
    pub fn slot(&self, port: u16) -> Option<&Slot> {
        self.slots.get(&port)
    }

    /// The port shows nothing any more.
    pub fn stop_port(&mut self, port: u16) {
        self.finish();
        if self.slots.remove(&port).is_some() {
            self.publish_other(RecordKind::VideoStopped { port });
        }
    }

    fn begin_op(
        &mut self,
        dst: DrawableId,
        area: Region,
        window: u32,
        writes: VecDeque<(usize, u32, Made)>,
        kinds: Vec<RecordKind>,
    ) {
        if kinds.is_empty() {
            return;
        }
        self.begin += 1;
        let (op, last) = (self.begin, kinds.len() - 1);
        let record = |(i, kind)| DrawRecord { op, more: i < last, window, kind };
        let records = kinds.into_iter().enumerate().map(record).collect();
        self.drawing = Some(Drawing { dst, writes, records, area });
    }

    /// Writes some pixels of the op that has begun.
    pub fn step(&mut self, pixels: usize) {
        let Some(drawing) = &mut self.drawing else { return };
        for _ in 0..pixels {
            let Some((at, pixel, made)) = drawing.writes.pop_front() else { return };
            if drawing.dst == DrawableId::SCREEN {
                self.fb.write(at, pixel, made);
                self.changed[at] = self.begin;
                self.history.note(pixel);
            } else if let Some(pixmap) = self.pixmaps.get_mut(&drawing.dst) {
                pixmap.write(at, pixel, made);
            }
        }
    }

    /// Writes the rest of them and publishes the op's records.
    pub fn finish(&mut self) {
        self.step(usize::MAX);
        let Some(drawing) = self.drawing.take() else { return };
        // Dirty tiles are the screen's.
        let area = Some(&drawing.area).filter(|_| drawing.dst == DrawableId::SCREEN);
        for record in drawing.records {
            self.publish(record, area);
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
        let mut fb = Surface::screen(size);
        for (x, y) in pixels(&size.rect().intersect(&self.fb.rect())) {
            let from = self.fb.at(x, y);
            fb.write(fb.at(x, y), self.fb.pixels[from], self.fb.made[from]);
        }
        let old = std::mem::replace(&mut self.fb, fb);
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

fn clip(region: &Region, to: Rect) -> Region {
    let mut region = region.clone();
    region.intersect_rect(&to);
    region
}
