//! Counts of a trace's contents. From file.rs event by event, to `thinc trace info` and the tests.
//! Knows records and sizes; replays nothing.

use thinc_protocol::Micros;
use thinc_region::Size;
use thinc_ring::{DrawHint, DrawRecord, DrawableId, RecordKind};

use crate::event::{End, Event};

/// A kind of records, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(usize);

/// In the order of [`Summary::records`].
const KINDS: [&str; 19] = [
    "fills",
    "patterns",
    "glyphs",
    "images",
    "blends",
    "video frames",
    "other drawings",
    "copies on the screen",
    "copies to the screen",
    "copies from the screen",
    "copies off the screen",
    "pixmaps created",
    "pixmaps freed",
    "cursor changes",
    "geometry changes",
    "pauses (IDLE)",
    "turns to other requests (YIELD)",
    "overflows",
    "inputs, barriers and ends of videos",
];

impl Kind {
    fn of(record: &DrawRecord) -> Kind {
        Kind(match record.kind {
            RecordKind::Draw { hint, .. } => match hint {
                DrawHint::Solid(_) => 0,
                DrawHint::Pattern => 1,
                DrawHint::Glyphs => 2,
                DrawHint::Image | DrawHint::Stereo { .. } => 3,
                DrawHint::Composite => 4,
                DrawHint::Video { .. } => 5,
                DrawHint::Other => 6,
            },
            RecordKind::Copy { src: DrawableId::SCREEN, dst: DrawableId::SCREEN, .. } => 7,
            RecordKind::Copy { dst: DrawableId::SCREEN, .. } => 8,
            RecordKind::Copy { src: DrawableId::SCREEN, .. } => 9,
            RecordKind::Copy { .. } => 10,
            RecordKind::PixmapCreate { .. } => 11,
            RecordKind::PixmapDestroy { .. } => 12,
            RecordKind::Cursor => 13,
            RecordKind::Geometry { .. } => 14,
            RecordKind::Idle => 15,
            RecordKind::Yield => 16,
            RecordKind::Overflow => 17,
            RecordKind::Barrier { .. }
            | RecordKind::InputDelivered { .. }
            | RecordKind::Gamma
            | RecordKind::VideoStopped { .. } => 18,
        })
    }

    /// Its name, plural.
    pub fn name(self) -> &'static str {
        KINDS[self.0]
    }
}

/// Counts of a trace's contents.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    counts: [u64; KINDS.len()],
    /// Polls of the ring.
    pub polls: u64,
    /// Time of the last poll.
    pub duration: Micros,
    /// Sizes of the screen, in order.
    pub sizes: Vec<Size>,
    /// Recorded pixels.
    pub pixels: u64,
    /// Records that were lost.
    pub gaps: u64,
    /// How it ended; None if it is incomplete.
    pub end: Option<End>,
}

impl Summary {
    /// Counts an event.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Poll(at) => {
                self.polls += 1;
                self.duration = *at;
            }
            Event::Records(records) => {
                for record in records.iter().filter_map(|bytes| DrawRecord::parse(bytes).ok()) {
                    self.counts[Kind::of(&record).0] += 1;
                }
            }
            Event::Geometry { size, .. } => self.sizes.push(*size),
            Event::Pixels(rect, _) => self.pixels += rect.area(),
            Event::Gap { records, .. } => self.gaps += records,
            Event::End(end) => self.end = Some(*end),
            Event::Cursor(_) | Event::Dirty(_) | Event::Read(_) => {}
        }
    }

    /// Records by kind; kinds that do not occur are left out.
    pub fn records(&self) -> impl Iterator<Item = (Kind, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(kind, &count)| (Kind(kind), count))
    }

    /// All records.
    pub fn records_total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
