//! Path 1/13 and 2/13, simulated: an X server and its driver whose pixels are ahead of their
//! records.
//! From workload.rs, to world.rs, which reads records and pixels like the session. Knows its screen
//! and its ring; never viewers.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind, VideoLayout};

use crate::history::History;
use crate::surface::{Fill, Made, RGB, Surface, over, pixels};

/// Edge of a dirty tile: as small for these screens as 64 is for real ones.
const TILE: i32 = 8;

/// A copy of pixels from one drawable to another, or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blit {
    /// The source.
    pub src: DrawableId,
    /// The destination.
    pub dst: DrawableId,
    /// Pixels right.
    pub dx: i32,
    /// Pixels down.
    pub dy: i32,
    /// Blended over the destination.
    pub over: bool,
}

/// The newest frame of a port.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Size in luma samples.
    pub source: Size,
    /// The pixels of its whole place, whatever covers it.
    pub picture: Vec<u32>,
}

/// An op whose pixels are partly written and whose records are not published yet.
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
    /// Old framebuffers that the session may still read.
    old: Vec<(u32, Rc<Surface>)>,
    begin: u64,
    drawing: Option<Drawing>,
    ring: VecDeque<DrawRecord>,
    ring_max: usize,
    overflow_pending: bool,
    /// True if the next record is the first of its op.
    op_begins: bool,
    dirty: Region,
    next_pixel: u32,
    /// The op that last changed each pixel.
    changed: Vec<u64>,
    history: History,
}

impl XServer {
    /// A black screen, and a ring of `ring_max` records.
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

    /// X's framebuffer.
    pub fn framebuffer(&self) -> &Surface {
        &self.fb
    }

    /// The newest op that may have changed pixels.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// The op that last changed each pixel.
    pub fn changed(&self) -> &[u64] {
        &self.changed
    }

    /// Every value that a pixel of the screen has had.
    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    /// Counts framebuffers.
    pub(crate) fn current_generation(&self) -> u32 {
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

    fn surface(&self, id: DrawableId) -> Option<&Surface> {
        if id == DrawableId::SCREEN { Some(&self.fb) } else { self.pixmaps.get(&id) }
    }

    /// Creates a pixmap with arbitrary contents.
    pub fn create_pixmap(&mut self, id: DrawableId, size: Size, opaque: bool) {
        if self.surface(id).is_some() {
            return;
        }
        self.finish();
        self.pixmaps.insert(id, Surface::pixmap(id.0, size, opaque));
        self.publish_other(RecordKind::PixmapCreate {
            id,
            width: size.width,
            height: size.height,
            opaque,
        });
    }

    /// Frees the pixmap.
    pub fn free_pixmap(&mut self, id: DrawableId) {
        self.finish();
        if self.pixmaps.remove(&id).is_some() {
            self.publish_other(RecordKind::PixmapDestroy { id });
        }
    }

    /// Begins to draw in `region`; pixels change with `step` and `finish`. If the drawable does not
    /// exist, it is a client's error, and nothing happens.
    pub(crate) fn begin_draw(
        &mut self,
        dst: DrawableId,
        region: &Region,
        fill: Fill,
        hint: DrawHint,
        window: u32,
    ) {
        self.finish();
        let mut next = self.next_pixel;
        let Some(surface) = self.surface(dst) else { return };
        let region = clip(region, surface.rect());
        let mut writes = VecDeque::new();
        for (x, y) in region.rects().iter().flat_map(pixels) {
            let at = surface.at(x, y);
            if let Some(pixel) = fill.pixel((x, y), surface.read(at), &mut next) {
                let made = Made::by(hint);
                let made =
                    if fill.alpha() == Alpha::Kept { made.and(surface.made[at]) } else { made };
                writes.push_back((at, pixel, made));
            }
        }
        self.next_pixel = next;
        let kinds = region.rects().iter().map(|&rect| RecordKind::Draw {
            dst,
            rect,
            hint,
            alpha: fill.alpha(),
        });
        let kinds = kinds.collect();
        self.begin_op(dst, region, window, writes, kinds);
    }

    /// Begins to copy the pixels at `region - (dx, dy)` to `region`, all read before any is
    /// written. Where the source has none, X draws other pixels in the same op, as for a window
    /// whose source is obscured.
    pub(crate) fn begin_copy(&mut self, region: &Region, blit: &Blit, window: u32) {
        self.finish();
        let &Blit { src, dst, dx, dy, over: blends } = blit;
        let (Some(from), Some(to)) = (self.surface(src), self.surface(dst)) else { return };
        let region = clip(region, to.rect());
        let copied = clip(&region, from.rect().translate(dx, dy));
        let drawn = region.difference(&copied);
        let mut writes = VecDeque::new();
        // Written in a safe order, so that a half-done copy looks like a real one.
        for (x, y) in copied.copy_order(dx, dy).flat_map(|rect| pixels(&rect)) {
            let (at, source) = (to.at(x, y), from.at(x - dx, y - dy));
            let (pixel, made) = (from.read(source), from.made[source]);
            writes.push_back(if blends && pixel >> 24 < 255 {
                (
                    at,
                    over(pixel, to.read(at)),
                    made.and(to.made[at]).and(Made::by(DrawHint::Composite)),
                )
            } else {
                (at, pixel, made)
            });
        }
        for (x, y) in drawn.rects().iter().flat_map(pixels) {
            writes.push_back((to.at(x, y), 0x0044_4444, Made::by(DrawHint::Other)));
        }
        let copies = copied.rects().iter().map(|&rect| RecordKind::Copy {
            src,
            dst,
            rect,
            dx,
            dy,
            over: blends,
        });
        let (hint, alpha) = (DrawHint::Other, Alpha::Unknown);
        let draws = drawn.rects().iter().map(|&rect| RecordKind::Draw { dst, rect, hint, alpha });
        let kinds = copies.chain(draws).collect();
        self.begin_op(dst, region, window, writes, kinds);
    }

    /// Begins to show a frame of XVideo in the visible part of its place. Its samples can be read
    /// at once.
    pub(crate) fn begin_frame(
        &mut self,
        port: u16,
        source: Size,
        place: Rect,
        seen: &Region,
        window: u32,
    ) {
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
        let hint = DrawHint::Video { port, layout, size: source, crop, place };
        let in_picture =
            |(x, y): (i32, i32)| ((y - place.y1) * place.width() + x - place.x1) as usize;
        let write =
            |at: (i32, i32)| (self.fb.at(at.0, at.1), picture[in_picture(at)], Made::by(hint));
        let writes = seen.rects().iter().flat_map(pixels).map(write).collect();
        let (dst, alpha) = (DrawableId::SCREEN, Alpha::Opaque);
        let kinds =
            seen.rects().iter().map(|&rect| RecordKind::Draw { dst, rect, hint, alpha }).collect();
        // A viewer may show all of it for a moment where the last frame was visible.
        picture.iter().for_each(|&pixel| self.history.note(pixel));
        for (x, y) in pixels(&place.intersect(&self.fb.rect())) {
            self.changed[self.fb.at(x, y)] = self.begin + 1;
        }
        self.slots.insert(port, Slot { source, picture });
        self.begin_op(dst, seen, window, writes, kinds);
    }

    /// The newest frame of a port, as read now.
    pub fn slot(&self, port: u16) -> Option<&Slot> {
        self.slots.get(&port)
    }

    /// The port stops.
    pub(crate) fn stop_port(&mut self, port: u16) {
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

    /// Writes some pixels of the current op.
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

    /// Writes the remaining pixels and publishes the op's records.
    pub fn finish(&mut self) {
        self.step(usize::MAX);
        let Some(drawing) = self.drawing.take() else { return };
        // Only the screen has dirty tiles.
        let area = Some(&drawing.area).filter(|_| drawing.dst == DrawableId::SCREEN);
        for record in drawing.records {
            self.publish(record, area);
        }
    }

    fn publish(&mut self, record: DrawRecord, area: Option<&Region>) {
        // Only between ops: OVERFLOW must not come within an op whose first records were lost.
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

    /// Publishes a record that is not a drawing; in an overflow it is lost.
    pub(crate) fn publish_other(&mut self, kind: RecordKind) {
        self.finish();
        self.publish(DrawRecord { op: self.begin, more: false, window: 0, kind }, None);
    }

    /// Publishes a record that the driver repeats until there is room.
    pub(crate) fn publish_reliably(&mut self, kind: RecordKind) {
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

    /// There is room again: OVERFLOW comes first.
    fn resume(&mut self) {
        if std::mem::take(&mut self.overflow_pending) {
            self.ring.push_back(DrawRecord {
                op: self.begin,
                more: false,
                window: 0,
                kind: RecordKind::Overflow,
            });
        }
    }

    /// Takes the dirty tiles.
    pub fn take_dirty(&mut self) -> Region {
        self.dirty.take()
    }

    /// Number of published records that are not read.
    pub fn unread(&self) -> usize {
        self.ring.len()
    }

    /// A resize by RandR: another framebuffer with the old contents in its corner, and a record
    /// with its generation.
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
        self.publish_reliably(RecordKind::Geometry { generation });
    }

    /// A session attaches and gets a fresh ring.
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
