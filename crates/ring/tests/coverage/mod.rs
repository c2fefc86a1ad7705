//! The model that the driver's tests compare with: a reader like a session's, and drawables as
//! records alone describe them. Every changed pixel lies in a DRAW record or follows from COPY
//! records taken literally; solid colours and alpha are as recorded. Knows records and pixels;
//! never who drew.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "each test binary that includes this uses its own part"
)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thinc_region::Rect;
use thinc_ring::{
    Alpha, Attachment, ControlEvent, DrawHint, DrawRecord, DrawableId, Framebuffer, OutputRequest,
    RecordKind,
};

use crate::xserver::wait_readable;

/// 120 s: longer than an X server takes to answer on a busy machine. Only a lost wake-up lasts so
/// long.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The reading side of a session, without a viewer.
pub struct Reader {
    pub attachment: Attachment,
    pub barriers: u32,
    /// Framebuffers received, until a record names them.
    pub announced: Vec<Framebuffer>,
    pub applied: u32,
    pub errors: Vec<String>,
}

impl Reader {
    pub fn new(attachment: Attachment) -> Reader {
        Reader { attachment, barriers: 0, announced: Vec::new(), applied: 0, errors: Vec::new() }
    }

    pub fn control_events(&mut self) {
        while let Some(event) =
            self.attachment.control.poll_event().expect("the control socket works")
        {
            match event {
                ControlEvent::Framebuffer(framebuffer) => self.announced.push(framebuffer),
                ControlEvent::OutputsApplied { serial } => self.applied = serial,
                ControlEvent::Error(words) => self.errors.push(words),
            }
        }
    }

    /// Records up to but not including `until`; sleeps like a session.
    pub fn read_until(&mut self, mut until: impl FnMut(&DrawRecord) -> bool) -> Vec<DrawRecord> {
        let mut records = Vec::new();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            while let Some(record) = self.attachment.ring.poll() {
                let record = record.expect("records parse");
                if until(&record) {
                    return records;
                }
                if let RecordKind::Geometry { generation } = record.kind
                    && generation != self.attachment.framebuffer.generation()
                {
                    self.control_events();
                    let at = self.announced.iter().position(|fb| fb.generation() == generation);
                    let at =
                        at.expect("a framebuffer is announced before the record that names it");
                    self.attachment.framebuffer = self.announced.swap_remove(at);
                }
                records.push(record);
            }
            assert!(
                Instant::now() < deadline,
                "the record did not arrive; {} others were read",
                records.len()
            );
            if self.attachment.ring.prepare_sleep() {
                wait_readable(self.attachment.ring.wake_fd(), TIMEOUT);
                self.attachment.ring.clear_wake();
            }
        }
    }

    /// Everything that X has drawn so far.
    pub fn drain(&mut self) -> Vec<DrawRecord> {
        self.barriers += 1;
        let id = self.barriers;
        self.attachment.control.barrier(id).unwrap();
        self.read_until(|record| record.kind == RecordKind::Barrier { id })
    }

    pub fn pixels(&self) -> Vec<u32> {
        let (width, height) = self.attachment.framebuffer.size();
        let mut pixels = vec![0; (width * height) as usize];
        let all = Rect::new(0, 0, width.cast_signed(), height.cast_signed());
        self.attachment.framebuffer.read_rect(all, &mut pixels, width as usize);
        pixels
    }

    pub fn set_outputs(&mut self, outputs: &[OutputRequest]) -> Result<(), String> {
        let before = self.applied;
        self.attachment.control.set_outputs(outputs).unwrap();
        loop {
            assert!(wait_readable(self.attachment.control.fd(), TIMEOUT), "the driver answers");
            self.control_events();
            if let Some(words) = self.errors.pop() {
                return Err(words);
            }
            if self.applied != before {
                return Ok(());
            }
        }
    }
}

/// Unknown; any other value of a pixel's alpha is known.
const ALPHA_UNKNOWN: u16 = 256;
const OPAQUE: u16 = 255;

/// A drawable as records alone describe it.
pub struct Canvas {
    pub width: usize,
    pub height: usize,
    /// Colours, 0xRRGGBB.
    pub pixels: Vec<u32>,
    /// True if only X knows the colour: the pixel was drawn, or copied from such a pixel.
    pub pending: Vec<bool>,
    /// None: the drawable has no alpha, so all of it is opaque.
    alpha: Option<Vec<u16>>,
    /// Pixels touched by records.
    pub covered: Vec<bool>,
}

/// A copied pixel: colour, whether that is pending, and alpha.
type Pixel = (u32, bool, u16);

impl Canvas {
    fn new(width: usize, height: usize, opaque: bool) -> Canvas {
        let count = width * height;
        Canvas {
            width,
            height,
            pixels: vec![0; count],
            pending: vec![true; count],
            alpha: (!opaque).then(|| vec![ALPHA_UNKNOWN; count]),
            covered: vec![false; count],
        }
    }

    pub fn clip(&self, rect: Rect) -> Rect {
        rect.intersect(&Rect::new(0, 0, self.width as i32, self.height as i32))
    }

    fn pixel(&self, at: usize) -> Pixel {
        (self.pixels[at], self.pending[at], self.alpha.as_ref().map_or(OPAQUE, |alpha| alpha[at]))
    }

    fn set(&mut self, at: usize, (pixel, pending, alpha): Pixel) {
        self.pixels[at] = pixel;
        self.pending[at] = pending;
        self.covered[at] = true;
        if let Some(all) = &mut self.alpha {
            all[at] = alpha;
        }
    }

    fn draw(&mut self, rect: Rect, hint: DrawHint, alpha: Alpha) {
        assert!(
            self.alpha.is_some() || alpha == Alpha::Opaque,
            "a drawable without alpha is opaque"
        );
        let rect = self.clip(rect);
        for y in rect.y1..rect.y2 {
            for at in y as usize * self.width + rect.x1 as usize
                ..y as usize * self.width + rect.x2 as usize
            {
                let was = self.pixel(at).2;
                let alpha = match alpha {
                    Alpha::Opaque => OPAQUE,
                    Alpha::Kept if was == OPAQUE => OPAQUE,
                    Alpha::Kept | Alpha::Unknown => ALPHA_UNKNOWN,
                };
                let (pixel, pending) = match hint {
                    DrawHint::Solid(rgb) => (rgb, false),
                    _ => (self.pixels[at], true),
                };
                self.set(at, (pixel, pending, alpha));
            }
        }
    }

    /// Compares with X: pixels that no record covers must be unchanged; copies, colours and alpha
    /// must be true.
    fn settle(&mut self, now: &[u32]) -> Result<Verified, String> {
        assert_eq!(now.len(), self.pixels.len(), "a drawable keeps its size");
        let mut verified = Verified::default();
        let mut wrong = 0usize;
        let mut first = None;
        let mut around = Rect::default();
        for (at, &is) in now.iter().enumerate() {
            let (pixel, pending, alpha) = self.pixel(at);
            let alpha_known = self.alpha.is_some() && alpha != ALPHA_UNKNOWN;
            verified.colours += u64::from(self.covered[at] && !pending);
            verified.alphas += u64::from(self.covered[at] && alpha_known && alpha == OPAQUE);
            if (!pending && pixel != is & 0x00ff_ffff)
                || (alpha_known && u32::from(alpha) != is >> 24)
            {
                let (x, y) = ((at % self.width) as i32, (at / self.width) as i32);
                wrong += 1;
                around = around.bound(&Rect::at(x, y, 1, 1));
                first.get_or_insert((x, y, (pixel, pending, alpha), is, self.covered[at]));
            }
            self.set(at, (is & 0x00ff_ffff, false, (is >> 24) as u16));
        }
        match first {
            None => Ok(verified),
            Some(first) => Err(format!(
                "{wrong} pixels in {around:?} differ from the records; \
                 first (x, y, (colour, pending, alpha) verified, is, covered): {first:x?}"
            )),
        }
    }

    pub fn take_covered(&mut self) -> u64 {
        let count = self.covered.iter().filter(|&&covered| covered).count() as u64;
        self.covered.fill(false);
        count
    }
}

/// Covered pixels whose recorded colour or alpha was compared with X.
#[derive(Debug, Default)]
pub struct Verified {
    pub colours: u64,
    pub alphas: u64,
}

/// The screen and every announced pixmap, as records alone describe them.
pub struct Shadow {
    pub screen: Canvas,
    pixmaps: HashMap<DrawableId, Canvas>,
    /// Records were lost: a later one may name a pixmap that was announced before.
    lost: bool,
    /// Recorded area on the screen.
    pub drawn_area: u64,
    /// Pixels copied to the screen whose source was known.
    pub literal_copies: u64,
    /// Of these, pixels copied from a pixmap.
    pub literal_shows: u64,
}

impl Shadow {
    pub fn new(reader: &Reader) -> Shadow {
        let (width, height) = reader.attachment.framebuffer.size();
        let mut screen = Canvas::new(width as usize, height as usize, true);
        screen.pixels = reader.pixels();
        screen.pending.fill(false);
        Shadow {
            screen,
            pixmaps: HashMap::new(),
            lost: false,
            drawn_area: 0,
            literal_copies: 0,
            literal_shows: 0,
        }
    }

    fn get(&self, id: DrawableId) -> Option<&Canvas> {
        if id == DrawableId::SCREEN { Some(&self.screen) } else { self.pixmaps.get(&id) }
    }

    /// Applies the records of one op: copies read what was before all of them.
    fn apply_op(&mut self, records: &[DrawRecord]) {
        let mut moved: Vec<(usize, Pixel, bool)> = Vec::new();
        let mut target = None;
        let mut literal = (0, 0);
        for record in records {
            let (dst, rect) = match record.kind {
                RecordKind::Draw { dst, rect, .. } | RecordKind::Copy { dst, rect, .. } => {
                    (dst, rect)
                }
                RecordKind::PixmapCreate { id, width, height, opaque } => {
                    let before = self
                        .pixmaps
                        .insert(id, Canvas::new(width as usize, height as usize, opaque));
                    assert!(before.is_none(), "{id:?} is announced once");
                    continue;
                }
                RecordKind::PixmapDestroy { id } => {
                    assert!(self.pixmaps.remove(&id).is_some(), "{id:?} was announced");
                    continue;
                }
                RecordKind::Overflow => {
                    self.pixmaps.clear();
                    self.lost = true;
                    continue;
                }
                _ => continue,
            };
            assert!(target.is_none_or(|target| target == dst), "an op draws on one drawable");
            target = Some(dst);
            if dst == DrawableId::SCREEN {
                self.drawn_area += rect.area();
            }
            let RecordKind::Copy { src, dx, dy, over, .. } = record.kind else { continue };
            let Some(to) = self.get(dst) else { continue };
            assert_eq!(to.clip(rect), rect, "a COPY lies in its drawable");
            let from = self.get(src);
            for y in rect.y1..rect.y2 {
                for x in rect.x1..rect.x2 {
                    let mut pixel = (0, true, ALPHA_UNKNOWN);
                    if let Some(from) = from {
                        let inside =
                            ((y - dy) as usize) < from.height && ((x - dx) as usize) < from.width;
                        assert!(inside, "a COPY reads from its drawable");
                        pixel = from.pixel((y - dy) as usize * from.width + (x - dx) as usize);
                        if dst == DrawableId::SCREEN && !pixel.1 && (!over || pixel.2 == OPAQUE) {
                            literal.0 += 1;
                            literal.1 += u64::from(src != DrawableId::SCREEN);
                        }
                    }
                    moved.push((y as usize * to.width + x as usize, pixel, over));
                }
            }
        }
        self.literal_copies += literal.0;
        self.literal_shows += literal.1;
        let Some(dst) = target else { return };
        let to = if dst == DrawableId::SCREEN {
            Some(&mut self.screen)
        } else {
            self.pixmaps.get_mut(&dst)
        };
        let Some(to) = to else {
            assert!(self.lost, "{dst:?} was announced before it was drawn on");
            return;
        };
        for (at, mut pixel, over) in moved {
            if over && pixel.2 != OPAQUE {
                // A blend over an opaque pixel leaves it opaque.
                let was = to.pixel(at);
                pixel = (was.0, true, if was.2 == OPAQUE { OPAQUE } else { ALPHA_UNKNOWN });
            }
            to.set(at, pixel);
        }
        for record in records {
            if let RecordKind::Draw { rect, hint, alpha, .. } = record.kind {
                to.draw(rect, hint, alpha);
            }
        }
    }

    pub fn apply(&mut self, records: &[DrawRecord]) {
        let mut start = 0;
        for (i, record) in records.iter().enumerate() {
            if let Some(next) = records.get(i + 1).filter(|_| record.more) {
                assert_eq!(next.op, record.op, "after MORE comes another record of the same op");
                continue;
            }
            self.apply_op(&records[start..=i]);
            start = i + 1;
        }
    }

    /// Compares the screen with the framebuffer.
    pub fn settle(&mut self, now: &[u32]) -> Result<(), String> {
        // take_covered() also returns what this comparison would reset.
        let covered = self.screen.covered.clone();
        let settled = self.screen.settle(now);
        self.screen.covered = covered;
        settled.map(drop)
    }

    /// Compares an announced pixmap with its pixels, as returned by X.
    pub fn settle_pixmap(&mut self, id: DrawableId, now: &[u32]) -> Result<Verified, String> {
        let drawn = self.pixmaps.get_mut(&id).expect("the pixmap was announced");
        let settled = drawn.settle(now);
        drawn.covered.fill(false);
        settled
    }

    pub fn follows(&self, id: DrawableId) -> bool {
        self.pixmaps.contains_key(&id)
    }
}

/// The last fifty records, one per line.
pub fn brief(records: &[DrawRecord]) -> String {
    records.iter().rev().take(50).map(|r| format!("\n{} {:?}", r.op, r.kind)).collect()
}
