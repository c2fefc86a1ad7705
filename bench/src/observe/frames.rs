//! The frames that a screen shows: after each damage the bar codes at the top and the bottom edge
//! are read. From the framebuffer file of an Xvfb to the numbers and times of whole frames. Knows
//! bar codes and times; never the player.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::barcode;
use super::damage::{Damage, DamageThread, lock};
use super::picture::Rect;
use super::screen::{ClientScreen, Framebuffer};
use crate::Error;

/// Most frames, nearly five hours of 60 a second; beyond it the count ends with an error.
const FRAMES_MAX: usize = 1 << 20;

/// A running count; dropping it ends it.
pub struct FrameWatch {
    damage_thread: DamageThread,
    tally: Arc<Mutex<Tally>>,
}

/// The result of a [`FrameWatch`].
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// Each whole frame (both codes equal) when its number was first seen after another one.
    pub seen: Vec<(Instant, u32)>,
    /// Numbers that were seen at one edge and never at both.
    pub torn: usize,
    /// Readings after damage that found the same whole frame as before.
    pub repeated: usize,
}

impl FrameWatch {
    /// Begins to count frames that are shown at `area` with codes at [`super::barcode::top`] and
    /// [`super::barcode::bottom`] of it. A frame that is already shown is the first.
    pub fn start(screen: &ClientScreen, area: Rect) -> Result<FrameWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let (width, height) = framebuffer.size();
        if area.intersect(&Rect::new(0, 0, width, height)) != Some(area) {
            return Err(format!(
                "frames at {area} are not wholly on the screen of {width}x{height}"
            )
            .into());
        }
        if area.width < barcode::WIDTH_MIN || area.height < 2 * barcode::HEIGHT {
            let least = format!("{}x{}", barcode::WIDTH_MIN, 2 * barcode::HEIGHT);
            return Err(format!(
                "frames at {area} are too small for their codes: {least} at least"
            )
            .into());
        }
        let damage = Damage::listen(screen.connect()?)?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let counter = Counter { framebuffer, area, tally: Arc::clone(&tally) };
        counter.handle_damage(Instant::now())?;
        let damage_thread = DamageThread::start("frames", damage, move |drawn| {
            if drawn.is_last || drawn.touches(&counter.area) {
                counter.handle_damage(drawn.at)?;
            }
            Ok(())
        })?;
        Ok(FrameWatch { damage_thread, tally })
    }

    /// When the last new whole frame was seen so far, and its number.
    pub fn last(&self) -> Option<(Instant, u32)> {
        lock(&self.tally).frames.seen.last().copied()
    }

    /// How many frames were seen at one edge so far and never at both.
    pub fn torn(&self) -> usize {
        lock(&self.tally).torn()
    }

    /// Ends it, after everything that the X server has drawn until now is counted.
    pub fn finish(mut self) -> Result<Frames, Error> {
        self.damage_thread.end()?;
        Ok(std::mem::take(&mut *lock(&self.tally)).finish())
    }
}

/// The thread's side.
struct Counter {
    framebuffer: Framebuffer,
    area: Rect,
    tally: Arc<Mutex<Tally>>,
}

impl Counter {
    fn handle_damage(&self, at: Instant) -> Result<(), Error> {
        let code = |rect: Rect| -> Result<Option<u32>, Error> {
            let picture = self.framebuffer.picture_of(rect)?;
            Ok(barcode::read(&picture, picture.rect()))
        };
        // The upper edge is read twice: if it changed while the lower one was read, the two are
        // from different times.
        let top = code(barcode::top(self.area))?;
        let bottom = code(barcode::bottom(self.area))?;
        let again = code(barcode::top(self.area))?;
        let mut tally = lock(&self.tally);
        tally.handle_codes(at, if top == again { top } else { None }, bottom)
    }
}

/// Counts readings of a frame's two codes.
#[derive(Debug, Default)]
struct Tally {
    frames: Frames,
    whole: HashSet<u32>,
    partial: HashSet<u32>,
}

impl Tally {
    fn handle_codes(
        &mut self,
        at: Instant,
        top: Option<u32>,
        bottom: Option<u32>,
    ) -> Result<(), Error> {
        if let (Some(number), true) = (top, top == bottom) {
            if self.frames.seen.last().is_some_and(|last| last.1 == number) {
                self.frames.repeated += 1;
            } else {
                self.frames.seen.push((at, number));
                self.whole.insert(number);
            }
        } else {
            self.partial.extend(top.into_iter().chain(bottom));
        }
        if self.frames.seen.len().max(self.partial.len()) > FRAMES_MAX {
            return Err(format!("more than {FRAMES_MAX} frames: count shorter stretches").into());
        }
        Ok(())
    }

    fn torn(&self) -> usize {
        self.partial.difference(&self.whole).count()
    }

    fn finish(self) -> Frames {
        Frames { torn: self.torn(), ..self.frames }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_frames_count_once_and_torn_ones_do_not() {
        let mut tally = Tally::default();
        let looks = [
            (None, None),       // nothing plays yet
            (Some(1), Some(1)), // whole
            (Some(1), Some(1)), // the same again
            (Some(2), Some(1)), // on its way ...
            (Some(2), Some(2)), // ... and whole
            (Some(3), Some(2)), // on its way ...
            (Some(4), Some(3)), // ... and overtaken: 3 was never whole
            (Some(4), Some(4)),
            (None, Some(5)),    // 5 was never whole either
            (Some(1), Some(1)), // from the beginning
        ];
        let at = Instant::now();
        for (top, bottom) in looks {
            tally.handle_codes(at, top, bottom).unwrap();
        }
        let frames = tally.finish();
        let numbers: Vec<u32> = frames.seen.iter().map(|frame| frame.1).collect();
        assert_eq!((numbers, frames.torn, frames.repeated), (vec![1, 2, 4, 1], 2, 1));
    }

    #[test]
    fn an_endless_count_is_an_error() {
        let mut tally = Tally::default();
        let at = Instant::now();
        let failed =
            (0..).find(|&number| tally.handle_codes(at, Some(number), Some(number)).is_err());
        assert_eq!(failed, Some(FRAMES_MAX as u32));
    }
}
