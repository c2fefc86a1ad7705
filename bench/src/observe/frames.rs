//! Frames as they reach a screen: on each damage the bar codes at the top and the bottom edge are read.
//! From the framebuffer file of an Xvfb to the numbers and times of whole frames.
//! Knows bar codes and times; never what plays.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::barcode;
use super::damage::{Bell, Damage, Woken};
use super::picture::Rect;
use super::screen::{ClientScreen, Framebuffer};
use crate::Error;

/// Frames that are kept, nearly five hours of 60 a second; beyond it the count is given up with an error.
const FRAMES_MAX: usize = 1 << 20;

/// A count that runs; dropped, it ends.
pub struct FrameWatch {
    bell: Bell,
    tally: Arc<Mutex<Tally>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// What a [`FrameWatch`] saw.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// Each whole frame (both codes equal) when its number was first seen after another one.
    pub seen: Vec<(Instant, u32)>,
    /// Numbers that were seen at one edge and never at both.
    pub torn: usize,
    /// Looks, each after damage, at which the whole frame was the one before.
    pub repeated: usize,
}

impl FrameWatch {
    /// Begins to count frames that are shown at `area` with codes at [`super::barcode::top`] and
    /// [`super::barcode::bottom`] of it. A frame that is there already is the first.
    pub fn start(screen: &ClientScreen, area: Rect) -> Result<FrameWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let (width, height) = framebuffer.size();
        if area.intersect(&Rect::new(0, 0, width, height)) != Some(area) {
            return Err(format!("frames at {area} are not wholly on the screen of {width}x{height}").into());
        }
        if area.width < barcode::WIDTH_MIN || area.height < 2 * barcode::HEIGHT {
            let least = format!("{}x{}", barcode::WIDTH_MIN, 2 * barcode::HEIGHT);
            return Err(format!("frames at {area} are too small for their codes: {least} at least").into());
        }
        let (damage, bell) = Damage::listen(screen.connect()?)?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let counter = Counter { damage, framebuffer, area, tally: Arc::clone(&tally) };
        counter.look(Instant::now())?;
        let thread = std::thread::Builder::new().name("frames".into()).spawn(move || counter.run())?;
        Ok(FrameWatch { bell, tally, thread: Some(thread) })
    }

    /// When the last new whole frame was seen so far, and its number.
    pub fn last(&self) -> Option<(Instant, u32)> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).frames.seen.last().copied()
    }

    /// How often the codes were read so far.
    pub fn looks(&self) -> usize {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).looks
    }

    /// Ends it, after everything that the X server has drawn until now is counted.
    pub fn finish(mut self) -> Result<Frames, Error> {
        self.end()?;
        Ok(std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner)).finish())
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // Where the X server is gone, the thread has ended by itself and says so better.
        let rung = self.bell.ring();
        thread.join().map_err(|_| "the thread that counts frames has panicked")??;
        rung
    }
}

impl Drop for FrameWatch {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The thread's side.
struct Counter {
    damage: Damage,
    framebuffer: Framebuffer,
    area: Rect,
    tally: Arc<Mutex<Tally>>,
}

impl Counter {
    fn run(self) -> Result<(), Error> {
        loop {
            match self
                .damage
                .wait()
                .map_err(|error| format!("the client's screen, while frames are counted: {error}"))?
            {
                Woken::Drawn(at, damage) => {
                    if damage.iter().any(|rect| rect.intersect(&self.area).is_some()) {
                        self.look(at)?;
                    }
                }
                Woken::Rung(at, _) => return self.look(at),
            }
        }
    }

    fn look(&self, at: Instant) -> Result<(), Error> {
        let code = |rect: Rect| -> Result<Option<u32>, Error> {
            let picture = self.framebuffer.picture_of(rect)?;
            Ok(barcode::read(&picture, picture.rect()))
        };
        // The upper edge twice: when it has changed while the lower one was read, the two are of no one moment.
        let top = code(barcode::top(self.area))?;
        let bottom = code(barcode::bottom(self.area))?;
        let again = code(barcode::top(self.area))?;
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.handle_look(at, if top == again { top } else { None }, bottom)
    }
}

/// Counts looks at a frame's two codes.
#[derive(Debug, Default)]
struct Tally {
    looks: usize,
    frames: Frames,
    whole: HashSet<u32>,
    partial: HashSet<u32>,
}

impl Tally {
    fn handle_look(&mut self, at: Instant, top: Option<u32>, bottom: Option<u32>) -> Result<(), Error> {
        self.looks += 1;
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

    fn finish(self) -> Frames {
        Frames { torn: self.partial.difference(&self.whole).count(), ..self.frames }
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
            tally.handle_look(at, top, bottom).unwrap();
        }
        let frames = tally.finish();
        let numbers: Vec<u32> = frames.seen.iter().map(|frame| frame.1).collect();
        assert_eq!((numbers, frames.torn, frames.repeated), (vec![1, 2, 4, 1], 2, 1));
    }

    #[test]
    fn a_count_without_end_is_given_up() {
        let mut tally = Tally::default();
        let at = Instant::now();
        let failed = (0..).find(|&number| tally.handle_look(at, Some(number), Some(number)).is_err());
        assert_eq!(failed, Some(FRAMES_MAX as u32));
    }
}
