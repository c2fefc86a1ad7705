//! The times at which the cells of a grid fill: a terminal's characters, as the client's screen
//! shows them. Woken by damage, like the recorder of changes; stores times instead of pixels, so
//! that minutes of typing need little memory. Knows a grid and the ink of a full cell; never which
//! key filled it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::damage::{Damage, DamageThread, lock};
use super::picture::{Picture, Rect};
use super::screen::{ClientScreen, Framebuffer};
use crate::Error;

/// The cells on the client's screen: row after row from the upper left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Upper left corner of the first cell, pixels.
    pub at: (i32, i32),
    /// Size of a cell, pixels.
    pub cell: (u32, u32),
    /// Cells of a row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
}

impl Grid {
    /// Number of cells.
    pub fn count(&self) -> usize {
        (self.columns * self.rows) as usize
    }

    /// Its whole area.
    pub fn area(&self) -> Rect {
        Rect::new(self.at.0, self.at.1, self.columns * self.cell.0, self.rows * self.cell.1)
    }

    /// The cell with this index.
    pub fn rect(&self, place: usize) -> Rect {
        let (column, row) = (place as u32 % self.columns, place as u32 / self.columns);
        let (x, y) =
            (self.at.0 + (column * self.cell.0) as i32, self.at.1 + (row * self.cell.1) as i32);
        Rect::new(x, y, self.cell.0, self.cell.1)
    }
}

/// Least difference from the empty cell, in any channel, that counts as ink: more than the
/// artefacts of lossy encodings around a glyph, less than black on white.
const INK: u8 = 96;

/// Pixels of `now` that are ink on `empty`.
pub fn ink(empty: &Picture, now: &Picture) -> usize {
    let differs = |(a, b): (&u32, &u32)| {
        a.to_be_bytes().iter().zip(b.to_be_bytes()).any(|(&a, b)| a.abs_diff(b) >= INK)
    };
    empty.pixels.iter().zip(&now.pixels).filter(|&pair| differs(pair)).count()
}

/// A running recording; dropping it ends it.
pub struct CellWatch {
    damage_thread: DamageThread,
    shared: Arc<Mutex<Shared>>,
    first: usize,
}

#[derive(Default)]
struct Shared {
    filled: Vec<Option<Instant>>,
    last: Option<Instant>,
}

impl CellWatch {
    /// Watches the cells from index `first` on, which are empty now; a cell is full if it has half
    /// of `full` pixels of ink.
    pub fn start(
        screen: &ClientScreen,
        grid: Grid,
        first: usize,
        full: usize,
    ) -> Result<CellWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let damage = Damage::listen(screen.connect()?)?;
        let empty = framebuffer.picture_of(grid.area())?;
        if (empty.width, empty.height) != (grid.area().width, grid.area().height) {
            return Err(format!("the grid {grid:?} is not all on the client's screen").into());
        }
        let shared = Arc::new(Mutex::new(Shared { filled: vec![None; grid.count()], last: None }));
        let (full, theirs) = (full.max(1), Arc::clone(&shared));
        let mut recorder = Recorder { framebuffer, grid, empty, full, frontier: first };
        let damage_thread = DamageThread::start("cells", damage, move |drawn| {
            if drawn.touches(&recorder.grid.area()) {
                let (at, places) = recorder.handle_damage()?;
                recorder.handle_full(at, &places, &mut lock(&theirs));
            }
            Ok(())
        })?;
        Ok(CellWatch { damage_thread, shared, first })
    }

    /// Number of full cells, and the time of the last one.
    pub fn filled(&self) -> (usize, Option<Instant>) {
        let shared = lock(&self.shared);
        (shared.filled.iter().flatten().count(), shared.last)
    }

    /// Ends it after everything that the X server has drawn until now; returns the times of the
    /// cells in order.
    pub fn finish(mut self) -> Result<Vec<Option<Instant>>, Error> {
        self.damage_thread.end()?;
        Ok(lock(&self.shared).filled.drain(..).skip(self.first).collect())
    }
}

struct Recorder {
    framebuffer: Framebuffer,
    grid: Grid,
    empty: Picture,
    full: usize,
    /// The first cell that is not full.
    frontier: usize,
}

impl Recorder {
    fn handle_full(&mut self, at: Instant, places: &[usize], shared: &mut Shared) {
        for &place in places {
            if shared.filled[place].is_none() {
                shared.filled[place] = Some(at);
                shared.last = Some(at);
            }
        }
        while shared.filled.get(self.frontier).is_some_and(Option::is_some) {
            self.frontier += 1;
        }
    }

    /// The cells that are full now, from the frontier to the end of the next row, and the time of
    /// the reading.
    fn handle_damage(&self) -> Result<(Instant, Vec<usize>), Error> {
        let (columns, count) = (self.grid.columns as usize, self.grid.count());
        let row = self.frontier / columns;
        let end = ((row + 2) * columns).min(count);
        if self.frontier >= end {
            return Ok((Instant::now(), vec![]));
        }
        let rows = (end - row * columns).div_ceil(columns) as u32;
        let area = self.grid.area();
        let top = self.grid.rect(self.frontier).y;
        let strip = Rect { y: top, height: rows * self.grid.cell.1, ..area };
        let now = self.framebuffer.picture_of(strip)?;
        let at = Instant::now();
        let full = |&place: &usize| {
            let rect = self.grid.rect(place);
            let within =
                |from_x: i32, from_y: i32| Rect { x: rect.x - from_x, y: rect.y - from_y, ..rect };
            let empty = self.empty.crop(within(area.x, area.y));
            2 * ink(&empty, &now.crop(within(strip.x, strip.y))) >= self.full
        };
        Ok((at, (self.frontier..end).filter(full).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::wait_for;
    use std::time::Duration;
    use x11rb::connection::Connection as _;
    use x11rb::protocol::xproto::{
        ChangeGCAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, Rectangle, WindowClass,
    };

    #[test]
    fn cells_fill_in_their_time_and_shadows_do_not_count() -> Result<(), Error> {
        let screen = ClientScreen::alone("cells", (320, 200))?;
        let x = screen.connect()?;
        let (window, gc) = (x.generate_id()?, x.generate_id()?);
        let root = x.setup().roots[0].root;
        let attributes = CreateWindowAux::new().background_pixel(0xff_ffff).override_redirect(1);
        x.create_window(
            24,
            window,
            root,
            10,
            20,
            100,
            60,
            0,
            WindowClass::INPUT_OUTPUT,
            0,
            &attributes,
        )?;
        x.create_gc(gc, window, &CreateGCAux::new())?;
        x.map_window(window)?;
        let fill = |column: i16, row: i16, width: u16, colour: u32| -> Result<(), Error> {
            x.change_gc(gc, &ChangeGCAux::new().foreground(colour))?;
            let area = Rectangle { x: column * 10, y: row * 20, width, height: 20 };
            x.poly_fill_rectangle(window, gc, &[area])?;
            x.get_input_focus()?.reply()?;
            Ok(())
        };
        fill(0, 0, 1, 0xff_ffff)?;
        let grid = Grid { at: (10, 20), cell: (10, 20), columns: 4, rows: 2 };
        assert_eq!(grid.rect(5), Rect::new(20, 40, 10, 20));
        // The first cell is full already.
        fill(0, 0, 8, 0)?;
        let watch = CellWatch::start(&screen, grid, 1, 160)?;
        let begun = Instant::now();
        for place in 1..6 {
            fill(place % 4, place / 4, 8, 0)?;
            wait_for("a cell is seen", Duration::from_secs(120), || {
                (watch.filled().0 >= place as usize).then_some(())
            })?;
        }
        // Slight artefacts over the rest are no ink, and a thin stroke is not half a character.
        fill(2, 1, 10, 0xd0_d0d0)?;
        fill(3, 1, 2, 0)?;
        let cells = watch.finish()?;
        assert_eq!(cells.len(), 7);
        let times: Vec<Instant> = cells.iter().map_while(|at| *at).collect();
        assert_eq!(times.len(), 5, "{cells:?}");
        assert!(times.is_sorted() && times[0] >= begun && times[0] < times[4], "{times:?}");
        assert!(cells[5..].iter().all(Option::is_none), "{cells:?}");
        Ok(())
    }
}
