//! How old what a screen shows is: bar codes that hold the time of their drawing, read on each damage.
//! From the framebuffer file of an Xvfb to the age of the oldest part at any moment.
//! Knows bar codes and times; never who draws them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::damage::{Bell, Damage, Woken};
use super::picture::Rect;
use super::screen::{ClientScreen, Framebuffer};
use super::{barcode, clock};
use crate::Error;

/// Readings that are kept: an hour of sixteen codes at 60 a second; beyond it the watch is given up with an error.
const READINGS_MAX: usize = 1 << 22;
/// Between two moments at which an age is taken for the median and the percentiles; the maximum is exact.
const MOMENT: Duration = Duration::from_millis(5);

/// Codes that are read; dropped, it ends.
pub struct StampWatch {
    bell: Bell,
    shared: Arc<Mutex<Stamps>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// What a [`StampWatch`] has read.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// The newest stamp of each part, once it has been seen.
    now: Vec<Option<u32>>,
    /// When a part was seen with another stamp than before, in the order of time.
    readings: Vec<(Instant, usize, u32)>,
}

/// Ages of what was shown, ms.
#[derive(Clone, Debug)]
pub struct Ages {
    /// At moments that lie evenly between begin and end.
    pub moments_ms: Vec<f64>,
    /// The greatest at any moment.
    pub max_ms: f64,
}

impl StampWatch {
    /// Begins to read the codes at `parts` of the screen.
    pub fn start(screen: &ClientScreen, parts: Vec<Rect>) -> Result<StampWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let (damage, bell) = Damage::listen(screen.connect()?)?;
        let stamps = Stamps { now: vec![None; parts.len()], readings: Vec::new() };
        let shared = Arc::new(Mutex::new(stamps));
        let reader = Reader { damage, framebuffer, parts, shared: Arc::clone(&shared) };
        reader.look(None)?;
        let thread = std::thread::Builder::new().name("stamps".into()).spawn(move || reader.run())?;
        Ok(StampWatch { bell, shared, thread: Some(thread) })
    }

    /// Since when every part shows a stamp of `since` or later; nothing where one does not yet.
    pub fn whole_since(&self, since: u32) -> Option<Instant> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).whole_since(since)
    }

    /// Ends it, after everything that the X server has drawn until now is read.
    pub fn finish(mut self) -> Result<Stamps, Error> {
        self.end()?;
        Ok(std::mem::take(&mut *self.shared.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // Where the X server is gone, the thread has ended by itself and says so better.
        let rung = self.bell.ring();
        thread.join().map_err(|_| "the thread that reads stamps has panicked")??;
        rung
    }
}

impl Drop for StampWatch {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Stamps {
    fn handle_reading(&mut self, at: Instant, part: usize, stamp: u32) -> Result<(), Error> {
        if self.now[part] != Some(stamp) {
            self.now[part] = Some(stamp);
            self.readings.push((at, part, stamp));
        }
        if self.readings.len() > READINGS_MAX {
            return Err(format!("more than {READINGS_MAX} readings: watch shorter stretches").into());
        }
        Ok(())
    }

    fn whole_since(&self, since: u32) -> Option<Instant> {
        let new = |stamp: u32| clock::between_ms(since, stamp) >= 0.0;
        if !self.now.iter().all(|stamp| stamp.is_some_and(new)) {
            return None;
        }
        // The last part to have come.
        let firsts = (0..self.now.len()).map(|part| {
            let old = |&&(_, of, stamp): &&(Instant, usize, u32)| of == part && !new(stamp);
            let after = self.readings.iter().rev().find(old).map(|reading| reading.0);
            let mut own = self.readings.iter().filter(|reading| reading.1 == part);
            own.find(|reading| after.is_none_or(|after| reading.0 > after)).map(|reading| reading.0)
        });
        firsts.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// How old the oldest part was from `begin` to `end`. `stamp_of` says which stamp a moment has.
    ///
    /// # Errors
    /// A part that had not been seen by `begin`.
    pub fn ages(&self, begin: Instant, end: Instant, stamp_of: impl Fn(Instant) -> u32) -> Result<Ages, Error> {
        self.ages_of(0..self.now.len(), begin, end, stamp_of)
    }

    /// As [`Stamps::ages`], of some parts alone.
    ///
    /// # Errors
    /// A part that had not been seen by `begin`.
    pub fn ages_of(
        &self,
        parts: Range<usize>,
        begin: Instant,
        end: Instant,
        stamp_of: impl Fn(Instant) -> u32,
    ) -> Result<Ages, Error> {
        let mut shown: Vec<Option<u32>> = vec![None; self.now.len()];
        let mut readings = self.readings.iter().peekable();
        while let Some((_, part, stamp)) = readings.next_if(|reading| reading.0 <= begin) {
            shown[*part] = Some(*stamp);
        }
        if let Some(part) = shown.iter().position(Option::is_none) {
            return Err(format!("the code of part {part} was not seen on the client's screen").into());
        }
        let age = |shown: &[Option<u32>], at: Instant| {
            let now = stamp_of(at);
            shown[parts.clone()].iter().flatten().map(|&stamp| clock::between_ms(stamp, now)).fold(0.0, f64::max)
        };
        let mut ages = Ages { moments_ms: Vec::new(), max_ms: 0.0 };
        let mut moment = begin;
        loop {
            let next = readings.next_if(|reading| reading.0 < end);
            // Until the next reading, what is shown only grows older.
            let until = next.map_or(end, |reading| reading.0);
            while moment < until {
                ages.moments_ms.push(age(&shown, moment));
                moment += MOMENT;
            }
            ages.max_ms = ages.max_ms.max(age(&shown, until));
            match next {
                Some((_, part, stamp)) => shown[*part] = Some(*stamp),
                None => return Ok(ages),
            }
        }
    }

    /// Whole pictures of a single moment that came from `begin` to `end`.
    pub fn whole_pictures(&self, begin: Instant, end: Instant) -> usize {
        let mut shown: Vec<Option<u32>> = vec![None; self.now.len()];
        let mut whole = 0;
        for (at, part, stamp) in &self.readings {
            shown[*part] = Some(*stamp);
            if (begin..end).contains(at) && shown.iter().all(|shown| *shown == Some(*stamp)) {
                whole += 1;
            }
        }
        whole
    }
}

/// The thread's side.
struct Reader {
    damage: Damage,
    framebuffer: Framebuffer,
    parts: Vec<Rect>,
    shared: Arc<Mutex<Stamps>>,
}

impl Reader {
    fn run(self) -> Result<(), Error> {
        loop {
            let woken = self.damage.wait();
            match woken.map_err(|error| format!("the client's screen, while stamps are read: {error}"))? {
                Woken::Drawn(_, damage) => self.look(Some(&damage))?,
                Woken::Rung(..) => return self.look(None),
            }
        }
    }

    /// Reads the codes that were drawn upon, or all. What is half drawn is no code, and its part stays as old as it was.
    fn look(&self, damage: Option<&[Rect]>) -> Result<(), Error> {
        let touched = |part: &Rect| damage.is_none_or(|rects| rects.iter().any(|rect| rect.intersect(part).is_some()));
        for (index, &part) in self.parts.iter().enumerate().filter(|(_, part)| touched(part)) {
            let picture = self.framebuffer.picture_of(part)?;
            // After the reading, so that nothing looks younger than it is.
            let at = Instant::now();
            if let Some(stamp) = barcode::read(&picture, picture.rect()) {
                self.shared.lock().unwrap_or_else(PoisonError::into_inner).handle_reading(at, index, stamp)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings at these milliseconds: time, part, stamp.
    fn stamps(begin: Instant, parts: usize, readings: &[(u64, usize, u32)]) -> Stamps {
        let mut stamps = Stamps { now: vec![None; parts], readings: Vec::new() };
        for &(ms, part, stamp) in readings {
            stamps.handle_reading(begin + Duration::from_millis(ms), part, stamp).unwrap();
        }
        stamps
    }

    /// Stamps are tenths of milliseconds since `begin`.
    fn clock_from(begin: Instant) -> impl Fn(Instant) -> u32 {
        move |at| (at.duration_since(begin).as_micros() / 100) as u32
    }

    #[test]
    fn the_oldest_part_counts_until_it_is_drawn_anew() {
        let begin = Instant::now();
        // Drawn at 0; the second picture, of 50 ms, comes in two halves at 100 and 130 ms.
        let seen = stamps(begin, 2, &[(10, 0, 0), (12, 1, 0), (100, 0, 500), (130, 1, 500)]);
        let at = |ms| begin + Duration::from_millis(ms);
        let ages = seen.ages(at(20), at(140), clock_from(begin)).unwrap();
        assert_eq!(ages.max_ms, 130.0, "the lower half was of 0 ms until 130 ms");
        assert_eq!(ages.moments_ms.len(), 24, "every 5 ms");
        assert_eq!((ages.moments_ms[0], ages.moments_ms[23]), (20.0, 85.0));
        let upper = seen.ages_of(0..1, at(20), at(140), clock_from(begin)).unwrap();
        assert_eq!(upper.max_ms, 100.0, "until the new one came; then it was of 50 ms");
        assert!(seen.ages(at(11), at(140), clock_from(begin)).is_err(), "the second part had not been seen");
        assert_eq!(seen.whole_pictures(at(0), at(140)), 2);
        assert_eq!(seen.whole_pictures(at(20), at(130)), 0);
    }

    #[test]
    fn a_picture_is_whole_when_its_last_part_has_come() {
        let begin = Instant::now();
        let readings = [(1, 0, 10), (1, 1, 10), (100, 0, 900), (120, 1, 800), (125, 0, 950), (130, 1, 960)];
        let seen = stamps(begin, 2, &readings);
        let at = |ms| Some(begin + Duration::from_millis(ms));
        assert_eq!(seen.whole_since(800), at(120));
        assert_eq!(seen.whole_since(900), at(130), "the second part was of 80 ms until then");
        assert_eq!(seen.whole_since(951), None);
    }
}
