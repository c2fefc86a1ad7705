//! Path 6/13 to 7/13: under viewer.rs, from a viewer that reconnects and reports the tiles it
//! retains, to the jobs that compare with them.
//! Which tiles a viewer may show already: those that nothing was written over since its report.
//! Knows tiles and their hashes; never pixels, which the shell reads and compares.

use thinc_protocol::Micros;
use thinc_protocol::retained::RetainedTiles;
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Region, Size};

use super::received::ReceivedInput;
use super::{SessionContext, Viewer};
use crate::delivery::job::RetainedHashes;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::copies::CopyCommand;

/// 1 s: how long nothing is sent to a viewer that is still to report its tiles. The report, at most
/// a thirtieth of a megabyte, takes less on all but the slowest paths, and a whole screen takes
/// longer.
const WAIT_MAX: Micros = 1_000_000;

/// What a viewer retains from an earlier connection.
#[derive(Debug)]
pub(super) struct Retained {
    /// The report is awaited until then, and nothing else is sent.
    awaited: Option<Micros>,
    /// The report, while some of it is valid.
    tiles: Option<TileHashes>,
    /// A geometry was sent on this connection.
    geometry_sent: bool,
    /// The input that was received on earlier connections.
    pub(super) input: ReceivedInput,
}

impl Retained {
    pub(super) fn new(caps: u32, now: Micros) -> Retained {
        let awaited = (caps & ViewerCaps::RETAINED != 0).then_some(now + WAIT_MAX);
        Retained { awaited, tiles: None, geometry_sent: false, input: ReceivedInput::new(caps) }
    }

    /// Until when nothing is sent.
    pub(super) fn awaited(&self) -> Option<Micros> {
        self.awaited
    }

    /// The report is no longer valid, nor would a later one be.
    pub(super) fn forget(&mut self) {
        (self.awaited, self.tiles) = (None, None);
    }
}

/// Hashes of tiles that were not written over.
#[derive(Debug)]
pub(super) struct TileHashes {
    size: Size,
    part: Rect,
    edge: i32,
    columns: usize,
    message: RetainedTiles,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl TileHashes {
    fn new(message: RetainedTiles) -> TileHashes {
        let edge = 1 << message.edge_log;
        let columns = (message.size.width as usize).div_ceil(edge as usize);
        TileHashes {
            size: message.size,
            part: message.part,
            edge,
            columns,
            message,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.message.tiles.iter().all(|&hash| hash == 0)
    }

    /// Tiles that a rectangle of the view touches, with their indexes.
    fn touched(&self, rect: &Rect) -> impl Iterator<Item = (usize, Rect)> + use<> {
        let (edge, columns, view) = (self.edge, self.columns, self.size.rect());
        let rect = rect.intersect(&view);
        let rows = rect.y1.div_euclid(edge)..(rect.y2 + edge - 1).div_euclid(edge);
        rows.flat_map(move |y| {
            (rect.x1.div_euclid(edge)..(rect.x2 + edge - 1).div_euclid(edge)).map(move |x| (x, y))
        })
        .map(move |(x, y)| {
            (
                y as usize * columns + x as usize,
                Rect::at(x * edge, y * edge, edge, edge).intersect(&view),
            )
        })
    }

    /// These pixels are written over, or lost.
    fn forget(&mut self, region: &Region) {
        if mutated!(self.mutation, RetainedTilesOutliveWrites) {
            return;
        }
        for rect in region.rects() {
            for (at, _) in self.touched(rect) {
                self.message.tiles[at] = 0;
            }
        }
    }

    /// Takes the tiles inside a region that is about to be read.
    fn take(&mut self, region: &Region) -> Vec<(Rect, u64)> {
        let mut taken = Vec::new();
        for (at, tile) in self.touched(&region.extents()) {
            if self.message.tiles[at] != 0 && region.contains_rect(&tile) {
                taken.push((tile, std::mem::take(&mut self.message.tiles[at])));
            }
        }
        self.forget(region);
        taken
    }
}

impl Viewer {
    /// The viewer's report. One that is late or repeated is ignored.
    pub(crate) fn set_retained(&mut self, message: &RetainedTiles) {
        if self.retained.awaited.take().is_some() {
            self.retained.tiles = Some(TileHashes::new(message.clone()));
            #[cfg(feature = "mutations")]
            self.retained.tiles.iter_mut().for_each(|tiles| tiles.mutation = self.mutation);
            self.delivery.ledger.show_next_at_once = true;
        }
    }

    /// True while the report is awaited.
    pub(super) fn awaits_retained(&mut self, now: Micros) -> bool {
        self.retained.awaited = self.retained.awaited.filter(|&until| now < until);
        self.retained.awaited.is_some()
    }

    /// A geometry is sent. If it differs from the report's, the viewer changes what it shows.
    pub(super) fn first_geometry(&mut self, size: Size, part: Rect) {
        self.retained.geometry_sent = true;
        let other = |tiles: &mut TileHashes| (tiles.size, tiles.part) != (size, part);
        if !mutated!(self.mutation, RetainedTilesOutliveGeometry) {
            self.retained.tiles.take_if(other);
        }
    }

    /// A new geometry follows, in which pixels have other places; unless no geometry was sent
    /// before.
    pub(super) fn next_geometry(&mut self) {
        if self.retained.geometry_sent && !mutated!(self.mutation, RetainedTilesOutliveGeometry) {
            self.retained.tiles = None;
        }
    }

    /// The viewer no longer shows these pixels.
    pub(super) fn forget_retained(&mut self, region: &Region) {
        self.retained.tiles.iter_mut().for_each(|tiles| tiles.forget(region));
    }

    /// Cuts a region at the end of a row of tiles if the rest of the next row is pending: a tile is
    /// compared as a whole.
    pub(super) fn whole_tiles(&self, mut region: Region) -> Region {
        let Some(tiles) = &self.retained.tiles else { return region };
        let extents = region.extents();
        let edge = extents.y2 - extents.y2.rem_euclid(tiles.edge);
        let rest = Rect { y1: extents.y2, y2: edge + tiles.edge, ..extents };
        if edge - tiles.edge >= extents.y1
            && edge < extents.y2
            && self.pending.queue.pending().overlaps_rect(&rest)
        {
            region.intersect_rect(&Rect { y2: edge, ..extents });
        }
        region
    }

    /// The retained tiles among the pixels that a job reads, after these COPYs.
    pub(super) fn take_retained(
        &mut self,
        region: &Region,
        copies: &[CopyCommand],
        screen: &SessionContext<'_>,
    ) -> Option<RetainedHashes> {
        let geometry = self.geometry(screen);
        let (size, part) =
            (geometry.size, geometry.shown.map_or(geometry.size.rect(), |shown| shown.part));
        let tiles = self.retained.tiles.as_mut()?;
        let shown = (tiles.size, tiles.part) == (size, part)
            || mutated!(self.mutation, RetainedTilesOutliveGeometry);
        copies.iter().for_each(|copy| tiles.forget(&copy.region));
        let found = if shown && tiles.size == size { tiles.take(region) } else { Vec::new() };
        let key = tiles.message.key;
        if !shown || tiles.is_empty() {
            self.retained.tiles = None;
        }
        (!found.is_empty()).then_some(RetainedHashes { key, tiles: found })
    }

    /// So many of the job's pixels were retained: they tell nothing about the cost of their kind.
    pub(crate) fn found_retained(&mut self, job: crate::delivery::ledger::JobId, pixels: u64) {
        self.delivery.ledger.leave_out(job, pixels);
        self.counts.stats.retained_pixels += pixels;
    }
}
