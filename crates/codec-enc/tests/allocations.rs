//! Does the encoding of text allocate?
//! Counts allocations while text is encoded for a packed stream, after the buffers have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thinc_codec_enc::{EncodeSettings, Encoder, Entropy};
use thinc_pixels::{Content, Planned, Snapshot};
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_region::{Rect, Region, Size};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller upholds `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds `dealloc`'s contract, and `pointer` is from the system's
        // allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SIZE: Size = Size { width: 640, height: 480 };
const PAPER: u32 = 0x00ff_ffff;

fn noise(seed: u32, n: u32) -> u32 {
    let mut n = seed ^ n.wrapping_mul(0x9e37_79b1);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}

/// A panel beside lines of text of 12 rows, in more shades than there are codes of one byte.
fn text() -> Snapshot {
    let pixel = |x: u32, y: u32| {
        let (glyph, line) = (x / 8, y / 12);
        let is_ink = x % 8 < 7 && (1..11).contains(&(y % 12)) && noise(line, glyph) % 6 < 5;
        match x {
            0..100 => 0x00f0_f0f4,
            120..600 if is_ink => {
                noise(noise(line, glyph) % 40, x % 8 * 16 + y % 12) % 700 * 0x0101
            }
            _ => PAPER,
        }
    };
    let mut snapshot = Snapshot::new();
    snapshot.fill(&Region::from(SIZE.rect()), |rect, dst, stride| {
        for (y, row) in (0..rect.height() as u32).zip(dst.chunks_mut(stride)) {
            row.iter_mut().zip(0..rect.width() as u32).for_each(|(dst, x)| *dst = pixel(x, y));
        }
    });
    snapshot
}

#[test]
fn the_allocator_is_counted() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

#[test]
fn text_does_not_allocate() {
    let snapshot = text();
    let rects = [SIZE.rect(), Rect::new(0, 24, 640, 300), Rect::new(110, 5, 500, 200)];
    let planned = rects.map(|rect| Planned::Pixels { rect, content: Content::Unknown });
    let settings = EncodeSettings { entropy: Entropy::Stream, ..EncodeSettings::default() };
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    let mut encode = || {
        out.clear();
        let before = ALLOCATIONS.get();
        encoder.encode_with(&planned, &snapshot, &settings, &mut out);
        ALLOCATIONS.get() - before
    };
    encode();
    assert_eq!(encode(), 0);
    let commands: Vec<_> = CommandReader::new(&out, SIZE)
        .map(|command| command.expect("an encoded command must be valid"))
        .collect();
    let in_columns = |command: &Command<'_>| match command {
        Command::Raw { encoding: Encoding::Columns, data, .. } => data[1] > 0,
        _ => false,
    };
    assert_eq!(commands.len(), rects.len());
    assert!(commands.iter().all(in_columns), "the text must be encoded by columns");
}
