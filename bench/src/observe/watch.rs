//! Records every change of a screen with its time: a thread that is woken by damage reads the rows
//! that changed. From the framebuffer file of an Xvfb to a log of changes. Knows pixels and times;
//! never why they changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::changes::{LOG_BYTES_MAX, Log};
use super::damage::{Damage, DamageThread, lock};
use super::picture::{Picture, Rect};
use super::screen::{ClientScreen, Framebuffer, pixels_of};
use crate::Error;

pub use super::changes::Changes;

/// A running recording; dropping it ends it.
pub struct Watch {
    damage_thread: DamageThread,
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    /// Nanoseconds from `began` to the last change, plus one; 0: none.
    last_change: AtomicU64,
    log: Mutex<Option<Log>>,
}

impl Watch {
    /// Begins to record what changes on `screen` after this returns.
    pub(super) fn start(screen: &ClientScreen) -> Result<Watch, Error> {
        let framebuffer = screen.framebuffer()?;
        // Damage is requested before the first picture is read, so that no change is missed.
        let damage = Damage::listen(screen.connect()?)?;
        let log = Mutex::new(Some(Log::new(framebuffer.picture()?, LOG_BYTES_MAX)));
        let shared =
            Arc::new(Shared { began: Instant::now(), last_change: AtomicU64::new(0), log });
        let (rows, row, theirs) = (Vec::new(), Vec::new(), Arc::clone(&shared));
        let mut recorder = Recorder { framebuffer, shared: theirs, rows, row };
        let damage_thread = DamageThread::start("changes", damage, move |drawn| {
            recorder.handle_damage(drawn.at, &drawn.rects)
        })?;
        Ok(Watch { damage_thread, shared })
    }

    /// When the last change was seen so far.
    pub fn last_change(&self) -> Option<Instant> {
        let nanoseconds = self.shared.last_change.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.shared.began + Duration::from_nanos(nanoseconds))
    }

    /// Whether anything has changed so far.
    pub fn changed(&self) -> bool {
        self.last_change().is_some()
    }

    /// The current picture of the screen according to the recording.
    pub fn picture(&self) -> Picture {
        let log = lock(&self.shared.log);
        log.as_ref().map_or(Picture::new(0, 0, 0), |log| log.picture().clone())
    }

    /// Ends it, after everything that the X server has drawn until now is recorded.
    pub fn finish(mut self) -> Result<Changes, Error> {
        self.damage_thread.end()?;
        let log = lock(&self.shared.log).take();
        Ok(log.ok_or("a watch that has ended cannot end again")?.finish())
    }
}

/// The thread's side.
struct Recorder {
    framebuffer: Framebuffer,
    shared: Arc<Shared>,
    rows: Vec<u8>,
    row: Vec<u32>,
}

impl Recorder {
    /// Reads the damaged rows and logs what differs.
    fn handle_damage(&mut self, at: Instant, damage: &[Rect]) -> Result<(), Error> {
        let mut log = lock(&self.shared.log);
        let Some(log) = log.as_mut() else { return Ok(()) };
        for (from, to) in bands(damage, self.framebuffer.height) {
            self.framebuffer.read_rows(from, to, &mut self.rows)?;
            for (y, bytes) in (from..to).zip(self.rows.chunks_exact(self.framebuffer.line_bytes()))
            {
                self.row.clear();
                self.row.extend(pixels_of(bytes).take(self.framebuffer.width));
                log.handle_row(y, &self.row);
            }
        }
        if log.end_change(at) {
            let nanoseconds = at.saturating_duration_since(self.shared.began).as_nanos() as u64;
            self.shared.last_change.store(nanoseconds + 1, Ordering::Release);
        }
        Ok(())
    }
}

/// Rows that rectangles cover, as bands that neither touch nor overlap, from the top.
fn bands(rects: &[Rect], height: usize) -> Vec<(usize, usize)> {
    let row = |y: i32| usize::try_from(y).unwrap_or(0).min(height);
    let mut all: Vec<(usize, usize)> =
        rects.iter().map(|rect| (row(rect.y), row(rect.bottom()))).collect();
    all.sort_unstable();
    let mut bands: Vec<(usize, usize)> = Vec::new();
    for (from, to) in all.into_iter().filter(|(from, to)| from < to) {
        match bands.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => bands.push((from, to)),
        }
    }
    bands
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bands_cover_the_rows_of_the_rectangles_and_no_others(
            rects in prop::collection::vec(
                (-5_i32..40, 0_u32..10).prop_map(|(y, height)| Rect::new(0, y, 3, height)),
                0..12,
            )
        ) {
            let bands = bands(&rects, 30);
            prop_assert!(bands.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for y in 0..30_usize {
                let wanted = rects.iter().any(|rect| (rect.y..rect.bottom()).contains(&(y as i32)));
                let covered = bands.iter().any(|&(from, to)| (from..to).contains(&y));
                prop_assert_eq!(covered, wanted, "row {}", y);
            }
        }
    }
}
