//! A trace that can be shared: what was drawn where and in which order, without its content. From
//! file.rs event by event, to another file. doc/trace.md states what is promised and what is not.
//! Every kept event is rebuilt from known fields; unknown bytes are dropped.

use std::collections::{HashMap, HashSet};

use thinc_protocol::Micros;
use thinc_ring::{DrawHint, DrawRecord, RecordKind};

use crate::event::{Cursor, Event, RecordBytes};

/// 1 s: within it only the order of events is kept, not their times.
const TIME_STEP: Micros = 1_000_000;
/// 1 ms: between two polls of one second; those past the thousandth get the same time.
const POLL_STEP: Micros = 1_000;
/// 64 pixels: grid to which pointer positions are rounded.
const POINTER_STEP: i32 = 64;

/// Treatment of the colours of plain areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// Each colour is replaced by another, in the order of appearance.
    #[default]
    Replaced,
    /// They are kept.
    Kept,
}

/// Removes the content of events.
#[derive(Debug, Default)]
pub struct Redactor {
    colors: Colors,
    windows: HashMap<u32, u32>,
    drawables: HashMap<u32, u32>,
    palette: HashMap<u32, u32>,
    second: Micros,
    polls_in_second: u64,
    /// Windows that received input in this second.
    touched: HashSet<u32>,
}

impl Redactor {
    /// A redactor for a new trace.
    pub fn new(colors: Colors) -> Redactor {
        Redactor { colors, ..Redactor::default() }
    }

    /// The redacted event; None if nothing is left.
    pub fn event(&mut self, event: &Event) -> Option<Event> {
        match event {
            Event::Poll(at) => Some(Event::Poll(self.coarse(*at))),
            Event::Records(records) => {
                let left: Vec<RecordBytes> =
                    records.iter().filter_map(|bytes| self.record(bytes)).collect();
                (!left.is_empty()).then_some(Event::Records(left))
            }
            Event::Pixels(..) => None,
            Event::Cursor(cursor) => Some(Event::Cursor(plain_cursor(cursor))),
            Event::Geometry { .. }
            | Event::Dirty(_)
            | Event::Read(_)
            | Event::Gap { .. }
            | Event::End(_) => Some(event.clone()),
        }
    }

    fn coarse(&mut self, at: Micros) -> Micros {
        let second = at / TIME_STEP * TIME_STEP;
        if second != self.second {
            self.second = second;
            self.polls_in_second = 0;
            self.touched.clear();
        }
        let at = second + (self.polls_in_second * POLL_STEP).min(TIME_STEP - POLL_STEP);
        self.polls_in_second += 1;
        at
    }

    /// Rebuilds a record from its known fields.
    fn record(&mut self, bytes: &RecordBytes) -> Option<RecordBytes> {
        let record = DrawRecord::parse(bytes).ok()?;
        let mut out = [0; size_of::<RecordBytes>()];
        let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let window = number(&mut self.windows, record.window);
        put(12, window);
        match record.kind {
            RecordKind::Draw { dst, hint, .. } => {
                put(16, number(&mut self.drawables, dst.0));
                match hint {
                    DrawHint::Solid(color) => put(48, self.color(color)),
                    // Every field of it is known, and none is content.
                    DrawHint::Video { .. } | DrawHint::Stereo { .. } => {
                        for at in [20, 40, 44, 48, 52, 56, 60] {
                            put(
                                at,
                                u32::from_le_bytes([
                                    bytes[at],
                                    bytes[at + 1],
                                    bytes[at + 2],
                                    bytes[at + 3],
                                ]),
                            );
                        }
                    }
                    _ => {}
                }
            }
            RecordKind::Copy { src, dst, dx, dy, .. } => {
                put(16, number(&mut self.drawables, dst.0));
                put(20, number(&mut self.drawables, src.0));
                put(40, dx.cast_unsigned());
                put(44, dy.cast_unsigned());
            }
            RecordKind::PixmapCreate { id, width, height, .. } => {
                put(16, number(&mut self.drawables, id.0));
                put(48, width);
                put(52, height);
            }
            RecordKind::PixmapDestroy { id } => put(16, number(&mut self.drawables, id.0)),
            RecordKind::Geometry { generation } => put(48, generation),
            RecordKind::Barrier { id } => put(48, id),
            RecordKind::VideoStopped { port } => put(48, u32::from(port)),
            // Several keys look like one, and all keys look alike.
            RecordKind::InputDelivered { .. } if !self.touched.insert(window) => return None,
            RecordKind::InputDelivered { .. }
            | RecordKind::Cursor
            | RecordKind::Gamma
            | RecordKind::Idle
            | RecordKind::Yield
            | RecordKind::Overflow => {}
        }
        if let RecordKind::Draw { rect, .. } | RecordKind::Copy { rect, .. } = record.kind {
            for (at, edge) in (24..).step_by(4).zip([rect.x1, rect.y1, rect.x2, rect.y2]) {
                put(at, edge.cast_unsigned());
            }
        }
        // Op, kind and flags; the hint if there is one.
        out[..10].copy_from_slice(&bytes[..10]);
        if let RecordKind::Draw { .. } = record.kind {
            out[10..12].copy_from_slice(&bytes[10..12]);
        }
        Some(out)
    }

    fn color(&mut self, color: u32) -> u32 {
        if self.colors == Colors::Kept {
            return color;
        }
        let next = self.palette.len() as u32;
        // Successive colours differ clearly, so that a person can distinguish them; the first is
        // white, as on most screens.
        *self
            .palette
            .entry(color)
            .or_insert(next.wrapping_mul(0x009e_3779).wrapping_neg().wrapping_sub(1) & 0x00ff_ffff)
    }
}

/// A separate number for each, in order of appearance; 0 stays 0.
fn number(numbers: &mut HashMap<u32, u32>, id: u32) -> u32 {
    let next = numbers.len() as u32 + 1;
    if id == 0 { 0 } else { *numbers.entry(id).or_insert(next) }
}

/// A cursor of the same size in one colour.
fn plain_cursor(cursor: &Cursor) -> Cursor {
    let coarse = |value: i32| value.div_euclid(POINTER_STEP).saturating_mul(POINTER_STEP);
    let pixel = if cursor.two_colors.is_some() { 1 } else { 0xff80_8080 };
    Cursor {
        at: (coarse(cursor.at.0), coarse(cursor.at.1)),
        two_colors: cursor.two_colors.map(|_| (0, 0x00ff_ffff)),
        pixels: vec![pixel; cursor.pixels.len()],
        ..*cursor
    }
}
