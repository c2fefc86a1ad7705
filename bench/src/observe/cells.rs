//! Cells of a grid as they fill: a terminal's characters, each with the time at which the client's screen showed it.
//! Woken by damage, like the recorder of changes; keeps times instead of pixels, so that minutes of typing stay small.
//! Knows a grid and what a full cell holds; never which key filled it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::damage::{Bell, Damage, Woken};
use super::picture::{Picture, Rect};
use super::screen::{ClientScreen, Framebuffer};
use crate::Error;

/// Where the cells lie on the client's screen: row after row from the upper left.
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
    /// How many cells there are.
    pub fn count(&self) -> usize {
        (self.columns * self.rows) as usize
    }

    /// All of it.
    pub fn area(&self) -> Rect {
        Rect::new(self.at.0, self.at.1, self.columns * self.cell.0, self.rows * self.cell.1)
    }

    /// The cell of this place.
    pub fn rect(&self, place: usize) -> Rect {
        let (column, row) = (place as u32 % self.columns, place as u32 / self.columns);
        let (x, y) = (self.at.0 + (column * self.cell.0) as i32, self.at.1 + (row * self.cell.1) as i32);
        Rect::new(x, y, self.cell.0, self.cell.1)
    }
}

/// A pixel that differs from the empty cell by as much, in any channel, is ink: more than the shadows that lossy
/// encodings leave around a glyph, less than the edge of black on white.
const INK: u8 = 96;

/// Pixels of `now` that are ink on `empty`.
pub fn ink(empty: &Picture, now: &Picture) -> usize {
    let differs =
        |(a, b): (&u32, &u32)| a.to_be_bytes().iter().zip(b.to_be_bytes()).any(|(&a, b)| a.abs_diff(b) >= INK);
    empty.pixels.iter().zip(&now.pixels).filter(|&pair| differs(pair)).count()
}

/// A recording that runs; dropped, it ends.
pub struct CellWatch {
    shared: Arc<Mutex<Shared>>,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
    first: usize,
}

#[derive(Default)]
struct Shared {
    filled: Vec<Option<Instant>>,
    last: Option<Instant>,
    failed: Option<String>,
    ending: bool,
}

impl CellWatch {
    /// Watches the cells from place `first` on, which are empty now; one is full with half of `full` pixels of ink.
    pub fn start(screen: &ClientScreen, grid: Grid, first: usize, full: usize) -> Result<CellWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let (damage, bell) = Damage::listen(screen.connect()?)?;
        let empty = framebuffer.picture_of(grid.area())?;
        if (empty.width, empty.height) != (grid.area().width, grid.area().height) {
            return Err(format!("the grid {grid:?} is not all on the client's screen").into());
        }
        let shared = Arc::new(Mutex::new(Shared { filled: vec![None; grid.count()], ..Shared::default() }));
        let recorder = Recorder { framebuffer, grid, empty, full: full.max(1), frontier: first };
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("cells".into()).spawn(move || record(recorder, &damage, &theirs))?;
        Ok(CellWatch { shared, bell, thread: Some(thread), first })
    }

    /// How many cells are full, and when the last of them became so.
    pub fn filled(&self) -> (usize, Option<Instant>) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (shared.filled.iter().flatten().count(), shared.last)
    }

    /// Ends it, after everything that the X server has drawn until now; gives the times of the cells from the first on.
    pub fn finish(mut self) -> Result<Vec<Option<Instant>>, Error> {
        self.end()?;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.failed.take() {
            Some(error) => Err(format!("the recorder of cells ended: {error}").into()),
            None => Ok(shared.filled.drain(..).skip(self.first).collect()),
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).ending = true;
        // A bell that cannot be rung means that the connection is gone, and the thread with it.
        let rung = self.bell.ring();
        thread.join().map_err(|_| "the recorder of cells panicked")?;
        rung
    }
}

impl Drop for CellWatch {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn record(mut recorder: Recorder, damage: &Damage, shared: &Mutex<Shared>) {
    loop {
        let woken = damage.wait();
        let result = woken.and_then(|woken| {
            let (rects, rung) = match woken {
                Woken::Drawn(_, rects) => (rects, false),
                Woken::Rung(_, rects) => (rects, true),
            };
            let area = recorder.grid.area();
            let touched = rects.iter().any(|rect| rect.intersect(&area).is_some());
            Ok((if touched { Some(recorder.look()?) } else { None }, rung))
        });
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok((found, rung)) => {
                if let Some((at, places)) = found {
                    for place in places {
                        if shared.filled[place].is_none() {
                            shared.filled[place] = Some(at);
                            shared.last = Some(at);
                        }
                    }
                    while shared.filled.get(recorder.frontier).is_some_and(Option::is_some) {
                        recorder.frontier += 1;
                    }
                }
                if rung && shared.ending {
                    return;
                }
            }
            Err(error) => {
                shared.failed = Some(error.to_string());
                return;
            }
        }
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
    /// Which cells are full now, from the frontier to the end of the next row, and when that was read.
    fn look(&self) -> Result<(Instant, Vec<usize>), Error> {
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
            let within = |from_x: i32, from_y: i32| Rect { x: rect.x - from_x, y: rect.y - from_y, ..rect };
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
        x.create_window(24, window, root, 10, 20, 100, 60, 0, WindowClass::INPUT_OUTPUT, 0, &attributes)?;
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
            wait_for("a cell is seen", Duration::from_secs(5), || (watch.filled().0 >= place as usize).then_some(()))?;
        }
        // A light shadow over the rest is no ink, and a thin stroke is not half a character.
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
