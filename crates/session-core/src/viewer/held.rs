//! Path 6/13 to 7/13: under viewer.rs, from a viewer that comes back with what it still shows, to the jobs that read it first.
//! Which tiles a viewer may show already: those that nothing has been written to since it said so.
//! Knows tiles and their hashes; never pixels, which the shell reads and compares.

use thinc_protocol::Micros;
use thinc_protocol::held::Held;
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Region, Size};

use super::Viewer;
use super::seen::Seen;
use crate::copies::CopyCommand;
use crate::job::Shown;
use crate::mutation::{Broken, Mutation};

/// 1 s: how long nothing is sent to a viewer that has yet to say what it shows. A thirtieth of a megabyte, at most, has come by then over
/// all but the slowest paths, and a whole screen takes longer.
const WAIT_MAX: Micros = 1_000_000;

/// What a viewer has to say of an earlier connection.
#[derive(Debug)]
pub(super) struct Holding {
    /// It has not yet, and nothing is sent until then.
    awaited: Option<Micros>,
    /// It has, and some of it is still of use.
    tiles: Option<Tiles>,
    /// It was told of a picture.
    geometry_told: bool,
    /// What was taken of its input there.
    pub(super) seen: Seen,
}

impl Holding {
    pub(super) fn new(caps: u32, now: Micros) -> Holding {
        let awaited = (caps & ViewerCaps::HELD != 0).then_some(now + WAIT_MAX);
        Holding { awaited, tiles: None, geometry_told: false, seen: Seen::new(caps) }
    }

    /// Until when nothing is sent.
    pub(super) fn awaited(&self) -> Option<Micros> {
        self.awaited
    }

    /// Nothing that it said is of use any more, nor what it may still say.
    pub(super) fn forget(&mut self) {
        (self.awaited, self.tiles) = (None, None);
    }
}

/// Hashes of tiles that were not written since.
#[derive(Debug)]
pub(super) struct Tiles {
    size: Size,
    part: Rect,
    edge: i32,
    columns: usize,
    said: Held,
    broken: Broken,
}

impl Tiles {
    fn new(said: Held, broken: Broken) -> Tiles {
        let edge = 1 << said.edge_log;
        let columns = (said.size.width as usize).div_ceil(edge as usize);
        Tiles { size: said.size, part: said.part, edge, columns, said, broken }
    }

    fn is_empty(&self) -> bool {
        self.said.tiles.iter().all(|&hash| hash == 0)
    }

    /// Tiles that a rectangle of the picture touches, by their numbers.
    fn touched(&self, rect: &Rect) -> impl Iterator<Item = (usize, Rect)> + use<> {
        let (edge, columns, picture) = (self.edge, self.columns, self.size.rect());
        let rect = rect.intersect(&picture);
        let rows = rect.y1.div_euclid(edge)..(rect.y2 + edge - 1).div_euclid(edge);
        rows.flat_map(move |y| (rect.x1.div_euclid(edge)..(rect.x2 + edge - 1).div_euclid(edge)).map(move |x| (x, y)))
            .map(move |(x, y)| {
                (y as usize * columns + x as usize, Rect::at(x * edge, y * edge, edge, edge).intersect(&picture))
            })
    }

    /// Something is written here, or lost.
    fn forget(&mut self, region: &Region) {
        if self.broken.is(Mutation::HeldOutlivesWrites) {
            return;
        }
        for rect in region.rects() {
            for (at, _) in self.touched(rect) {
                self.said.tiles[at] = 0;
            }
        }
    }

    /// The tiles inside of what is about to be read, for the last time.
    fn take(&mut self, region: &Region) -> Vec<(Rect, u64)> {
        let mut taken = Vec::new();
        for (at, tile) in self.touched(&region.extents()) {
            if self.said.tiles[at] != 0 && region.contains_rect(&tile) {
                taken.push((tile, std::mem::take(&mut self.said.tiles[at])));
            }
        }
        self.forget(region);
        taken
    }
}

impl Viewer {
    /// It still shows this. What comes too late for that, or twice, is of no use.
    pub(crate) fn holds(&mut self, held: &Held) {
        if self.held.awaited.take().is_some() {
            self.held.tiles = Some(Tiles::new(held.clone(), self.broken));
            self.updates.is_awaited = true;
        }
    }

    /// True while it is waited for what it shows.
    pub(super) fn waits_for_held(&mut self, now: Micros) -> bool {
        self.held.awaited = self.held.awaited.filter(|&until| now < until);
        self.held.awaited.is_some()
    }

    /// It is told of a picture: where that is another than the one it speaks of, what it shows will be changed.
    pub(super) fn first_geometry(&mut self, size: Size, part: Rect) {
        self.held.geometry_told = true;
        let other = |tiles: &mut Tiles| (tiles.size, tiles.part) != (size, part);
        if !self.broken.is(Mutation::HeldOutlivesGeometry) {
            self.held.tiles.take_if(other);
        }
    }

    /// Another picture follows, in which nothing is where it was; unless this viewer has not heard of the one before.
    pub(super) fn next_geometry(&mut self) {
        if self.held.geometry_told && !self.broken.is(Mutation::HeldOutlivesGeometry) {
            self.held.tiles = None;
        }
    }

    /// It does not show that any more.
    pub(super) fn forget_held(&mut self, region: &Region) {
        self.held.tiles.iter_mut().for_each(|tiles| tiles.forget(region));
    }

    /// Cut at the end of a row of tiles, where the rest of the next would follow: a tile is compared as a whole.
    pub(super) fn whole_tiles(&self, mut region: Region) -> Region {
        let Some(tiles) = &self.held.tiles else { return region };
        let extents = region.extents();
        let edge = extents.y2 - extents.y2.rem_euclid(tiles.edge);
        let rest = Rect { y1: extents.y2, y2: edge + tiles.edge, ..extents };
        if edge - tiles.edge >= extents.y1 && edge < extents.y2 && self.queue.pending().overlaps_rect(&rest) {
            region.intersect_rect(&Rect { y2: edge, ..extents });
        }
        region
    }

    /// What it may show already of the pixels that a job reads, behind these COPYs. `size` and `part` are of the picture.
    pub(super) fn take_held(
        &mut self,
        region: &Region,
        copies: &[CopyCommand],
        (size, part): (Size, Rect),
    ) -> Option<Shown> {
        let tiles = self.held.tiles.as_mut()?;
        let shown = (tiles.size, tiles.part) == (size, part) || self.broken.is(Mutation::HeldOutlivesGeometry);
        copies.iter().for_each(|copy| tiles.forget(&copy.region));
        let found = if shown && tiles.size == size { tiles.take(region) } else { Vec::new() };
        let key = tiles.said.key;
        if !shown || tiles.is_empty() {
            self.held.tiles = None;
        }
        (!found.is_empty()).then_some(Shown { key, tiles: found })
    }

    /// So many of the job's pixels it showed already: they tell nothing of what their kind takes.
    pub(crate) fn showed(&mut self, job: crate::update::JobId, pixels: u64) {
        self.updates.leave_out(job, pixels);
        self.stats.held_pixels += pixels;
    }
}
