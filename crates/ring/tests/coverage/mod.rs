//! What the driver's tests hold records against: a reader as a session has one, and the screen as records alone would have it.
//! Whatever was drawn on the screen lies in a DRAW record or follows from COPY records taken literally.
//! Knows records and pixels; never who drew.
#![allow(unreachable_pub, dead_code, reason = "each test binary that includes this uses its own part")]

use std::time::{Duration, Instant};

use thinc_region::Rect;
use thinc_ring::{Attachment, ControlEvent, DrawRecord, DrawableId, Framebuffer, OutputRequest, RecordKind};

use crate::xserver::wait_readable;

/// Longer than any X server takes to answer on a busy machine: only a lost wake-up lasts that long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a session does with an attachment, without a viewer.
pub struct Reader {
    pub attachment: Attachment,
    pub barriers: u32,
    /// Framebuffers that were announced, until the record names them.
    pub announced: Vec<Framebuffer>,
    pub applied: u32,
    pub errors: Vec<String>,
}

impl Reader {
    pub fn new(attachment: Attachment) -> Reader {
        Reader { attachment, barriers: 0, announced: Vec::new(), applied: 0, errors: Vec::new() }
    }

    pub fn control_events(&mut self) {
        while let Some(event) = self.attachment.control.poll_event().expect("the control socket works") {
            match event {
                ControlEvent::Framebuffer(framebuffer) => self.announced.push(framebuffer),
                ControlEvent::OutputsApplied { serial } => self.applied = serial,
                ControlEvent::Error(words) => self.errors.push(words),
            }
        }
    }

    /// Records up to and without `until`; sleeps as a session does.
    pub fn read_until(&mut self, mut until: impl FnMut(&DrawRecord) -> bool) -> Vec<DrawRecord> {
        let mut records = Vec::new();
        let deadline = Instant::now() + PATIENCE;
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
                    let at = at.expect("a framebuffer is announced before the record that names it");
                    self.attachment.framebuffer = self.announced.swap_remove(at);
                }
                records.push(record);
            }
            assert!(Instant::now() < deadline, "no such record came: {} records read", records.len());
            if self.attachment.ring.prepare_sleep() {
                wait_readable(self.attachment.ring.wake_fd(), PATIENCE);
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
            assert!(wait_readable(self.attachment.control.fd(), PATIENCE), "the driver answers");
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

/// The screen as records alone would have it, and what they cover.
pub struct Shadow {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u32>,
    /// True where only the framebuffer knows the pixel: a drawing covered it, or a copy from there did.
    pub pending: Vec<bool>,
    pub drawn_area: u64,
    pub covered: Vec<bool>,
    pub literal_copies: u64,
}

impl Shadow {
    pub fn new(reader: &Reader) -> Shadow {
        let (width, height) = reader.attachment.framebuffer.size();
        let count = (width * height) as usize;
        Shadow {
            width: width as usize,
            height: height as usize,
            pixels: reader.pixels(),
            pending: vec![false; count],
            drawn_area: 0,
            covered: vec![false; count],
            literal_copies: 0,
        }
    }

    pub fn clip(&self, rect: Rect) -> Rect {
        rect.intersect(&Rect::new(0, 0, self.width as i32, self.height as i32))
    }

    /// Applies the records of one op: copies read what was before all of them.
    pub fn apply_op(&mut self, records: &[DrawRecord]) {
        let mut moved = Vec::new();
        for record in records {
            let RecordKind::Copy { src, dst: DrawableId::SCREEN, rect, dx, dy, .. } = record.kind else { continue };
            if src != DrawableId::SCREEN {
                continue;
            }
            let clipped = self.clip(rect);
            assert_eq!(clipped, rect, "a COPY lies on the screen");
            for y in rect.y1..rect.y2 {
                for x in rect.x1..rect.x2 {
                    let from = (y - dy) as usize * self.width + (x - dx) as usize;
                    let inside = ((y - dy) as usize) < self.height && ((x - dx) as usize) < self.width;
                    assert!(inside, "a COPY reads from the screen");
                    moved.push((y as usize * self.width + x as usize, self.pixels[from], self.pending[from]));
                }
            }
        }
        for (to, pixel, pending) in moved {
            self.literal_copies += u64::from(!pending);
            self.pixels[to] = pixel;
            self.pending[to] = pending;
            self.covered[to] = true;
        }
        for record in records {
            let rect = match record.kind {
                RecordKind::Draw { dst: DrawableId::SCREEN, rect, .. } => rect,
                RecordKind::Copy { src, dst: DrawableId::SCREEN, rect, .. } if src != DrawableId::SCREEN => rect,
                RecordKind::Copy { dst: DrawableId::SCREEN, rect, .. } => {
                    self.drawn_area += rect.area();
                    continue;
                }
                _ => continue,
            };
            self.drawn_area += rect.area();
            let rect = self.clip(rect);
            for y in rect.y1..rect.y2 {
                let row = y as usize * self.width;
                self.pending[row + rect.x1 as usize..row + rect.x2 as usize].fill(true);
                self.covered[row + rect.x1 as usize..row + rect.x2 as usize].fill(true);
            }
        }
    }

    pub fn apply(&mut self, records: &[DrawRecord]) {
        let mut start = 0;
        for (i, record) in records.iter().enumerate() {
            if let Some(next) = records.get(i + 1).filter(|_| record.more) {
                assert_eq!(next.op, record.op, "MORE promises another record of the same op");
                continue;
            }
            self.apply_op(&records[start..=i]);
            start = i + 1;
        }
    }

    /// Settles with the framebuffer: pixels nobody covered must not have changed, and copies must be true.
    pub fn settle(&mut self, now: &[u32]) -> Result<(), String> {
        let mut wrong = 0usize;
        let mut first = None;
        let mut around = Rect::default();
        for (i, &pixel) in now.iter().enumerate() {
            if !self.pending[i] && self.pixels[i] != pixel {
                wrong += 1;
                around = around.bound(&Rect::at((i % self.width) as i32, (i / self.width) as i32, 1, 1));
                first.get_or_insert((i % self.width, i / self.width, self.pixels[i], pixel, self.covered[i]));
            }
        }
        self.pixels.copy_from_slice(now);
        self.pending.fill(false);
        match first {
            None => Ok(()),
            Some(first) => Err(format!(
                "{wrong} pixels in {around:?} differ from what records say; first (x, y, said, is, covered): {first:x?}"
            )),
        }
    }

    pub fn take_covered(&mut self) -> u64 {
        let count = self.covered.iter().filter(|&&covered| covered).count() as u64;
        self.covered.fill(false);
        count
    }
}

/// One line a record, the last fifty.
pub fn brief(records: &[DrawRecord]) -> String {
    records.iter().rev().take(50).map(|r| format!("\n{} {:?}", r.op, r.kind)).collect()
}
