//! Does a record allocate? Counts the allocations while records of text, of a toolkit's frames and
//! of a compositor are handled, once the buffers have grown to their size.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thinc_protocol::viewer::ViewerHello;
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{Config, Session};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and `pointer` came from the system's
        // allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SIZE: Size = Size { width: 1024, height: 768 };
const SCREEN: DrawableId = DrawableId::SCREEN;
const CACHE: DrawableId = DrawableId(1);
const PICTURE: DrawableId = DrawableId(2);

struct Records {
    session: Session,
    op: u64,
    next: u32,
}

impl Records {
    fn new() -> Records {
        let config = Config::new("allocations", SIZE);
        let mut session = Session::new(config);
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: 0,
            size: SIZE,
            message_bytes_max: 1 << 24,
            name: String::new(),
        };
        session.add_viewer(&hello, 0);
        let mut records = Records { session, op: 0, next: 100 };
        for id in [CACHE, PICTURE] {
            records.record(RecordKind::PixmapCreate {
                id,
                width: 1024,
                height: 768,
                opaque: false,
            });
            records.draw(id, SIZE.rect(), DrawHint::Solid(0xff_ffff));
        }
        records
    }

    fn record(&mut self, kind: RecordKind) {
        self.op += 1;
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, 0);
    }

    fn draw(&mut self, dst: DrawableId, rect: Rect, what: DrawHint) {
        self.record(RecordKind::Draw { dst, rect, hint: what, alpha: Alpha::Opaque });
    }

    fn copy(&mut self, src: DrawableId, dst: DrawableId, rect: Rect, (dx, dy): (i32, i32)) {
        self.record(RecordKind::Copy { src, dst, rect, dx, dy, over: true });
    }

    /// A line of text on the screen.
    fn text(&mut self) {
        for i in 0..40 {
            let what = if i % 2 == 0 { DrawHint::Solid(0xff_ffff) } else { DrawHint::Glyphs };
            self.draw(SCREEN, Rect::at(i / 2 * 40, 700, 40, 18), what);
        }
    }

    /// A toolkit's frame through a buffer of its own and a compositor's pixmap; the screen shows
    /// new pixels.
    fn frame(&mut self) {
        self.next += 1;
        let (id, view) = (DrawableId(self.next), Rect::new(0, 0, 600, 400));
        self.record(RecordKind::PixmapCreate { id, width: 600, height: 400, opaque: false });
        self.draw(id, view, DrawHint::Solid(0xf6_f5f4));
        self.draw(CACHE, Rect::new(0, 0, 600, 500), DrawHint::Solid(self.next & 0xff_ffff));
        self.copy(CACHE, id, view, (0, -40));
        for i in 0..20 {
            self.draw(id, Rect::at(10, 20 * i, 500, 14), DrawHint::Glyphs);
        }
        self.copy(id, PICTURE, view.translate(100, 100), (100, 100));
        // Scrolled within the compositor's pixmap too, with an overlap.
        self.copy(PICTURE, PICTURE, view.translate(100, 90), (0, -10));
        self.copy(PICTURE, SCREEN, view.translate(100, 90), (0, 0));
        self.record(RecordKind::PixmapDestroy { id });
    }
}

/// Allocations once `work` was repeated until every buffer has its size.
fn allocations(work: fn(&mut Records)) -> u64 {
    let mut records = Records::new();
    (0..100).for_each(|_| work(&mut records));
    let before = ALLOCATIONS.get();
    (0..1000).for_each(|_| work(&mut records));
    ALLOCATIONS.get() - before
}

#[test]
fn the_allocator_is_counted() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

#[test]
fn records_of_text_do_not_allocate() {
    assert_eq!(allocations(Records::text), 0);
}

#[test]
fn records_of_pixmaps_do_not_allocate() {
    assert_eq!(allocations(Records::frame), 0);
}
