//! The age of the pixels on a screen: bar codes with the time of their drawing are read after each
//! damage. From the framebuffer file of an Xvfb to the age of the oldest part at any time. Knows
//! bar codes and times; never which application draws them.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::damage::{Damage, DamageThread, Drawn, lock};
use super::picture::Rect;
use super::screen::{ClientScreen, Framebuffer};
use super::{barcode, clock};
use crate::Error;

/// Most readings: an hour of sixteen codes at 60 a second; beyond it the watch ends with an error.
const READINGS_MAX: usize = 1 << 22;
/// Interval at which ages are sampled for the median and the percentiles; the maximum is exact.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// A running watch of codes; dropping it ends it.
pub struct StampWatch {
    damage_thread: DamageThread,
    shared: Arc<Mutex<Stamps>>,
}

/// The result of a [`StampWatch`].
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// The newest stamp of each part, once it has been seen.
    now: Vec<Option<u32>>,
    /// When a part was seen with another stamp than before, in the order of time.
    readings: Vec<(Instant, usize, u32)>,
}

/// Ages of the shown parts, ms.
#[derive(Clone, Debug)]
pub struct Ages {
    /// Samples at regular intervals from begin to end.
    pub moments_ms: Vec<f64>,
    /// The maximum at any time.
    pub max_ms: f64,
}

impl StampWatch {
    /// Begins to read the codes at `parts` of the screen.
    pub fn start(screen: &ClientScreen, parts: Vec<Rect>) -> Result<StampWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let damage = Damage::listen(screen.connect()?)?;
        let stamps = Stamps { now: vec![None; parts.len()], readings: Vec::new() };
        let shared = Arc::new(Mutex::new(stamps));
        let reader = Reader { framebuffer, parts, shared: Arc::clone(&shared) };
        reader.handle_damage(None)?;
        let damage_thread =
            DamageThread::start("stamps", damage, move |drawn| reader.handle_damage(Some(drawn)))?;
        Ok(StampWatch { damage_thread, shared })
    }

    /// The time since which every part shows a stamp of `since` or later; None if a part does not
    /// yet.
    pub fn whole_since(&self, since: u32) -> Option<Instant> {
        lock(&self.shared).whole_since(since)
    }

    /// Ends it, after everything that the X server has drawn until now is read.
    pub fn finish(mut self) -> Result<Stamps, Error> {
        self.damage_thread.end()?;
        Ok(std::mem::take(&mut *lock(&self.shared)))
    }
}

impl Stamps {
    fn handle_reading(&mut self, at: Instant, part: usize, stamp: u32) -> Result<(), Error> {
        if self.now[part] != Some(stamp) {
            self.now[part] = Some(stamp);
            self.readings.push((at, part, stamp));
        }
        if self.readings.len() > READINGS_MAX {
            return Err(
                format!("more than {READINGS_MAX} readings: watch shorter stretches").into()
            );
        }
        Ok(())
    }

    fn whole_since(&self, since: u32) -> Option<Instant> {
        let new = |stamp: u32| clock::between_ms(since, stamp) >= 0.0;
        if !self.now.iter().all(|stamp| stamp.is_some_and(new)) {
            return None;
        }
        // The part that changed last.
        let firsts = (0..self.now.len()).map(|part| {
            let old = |&&(_, of, stamp): &&(Instant, usize, u32)| of == part && !new(stamp);
            let after = self.readings.iter().rev().find(old).map(|reading| reading.0);
            let mut own = self.readings.iter().filter(|reading| reading.1 == part);
            own.find(|reading| after.is_none_or(|after| reading.0 > after)).map(|reading| reading.0)
        });
        firsts.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The age of the oldest part from `begin` to `end`. `stamp_of` gives the stamp of a time.
    ///
    /// # Errors
    /// A part that had not been seen by `begin`.
    pub fn ages(
        &self,
        begin: Instant,
        end: Instant,
        stamp_of: impl Fn(Instant) -> u32,
    ) -> Result<Ages, Error> {
        self.ages_of(0..self.now.len(), begin, end, stamp_of)
    }

    /// As [`Stamps::ages`], of some parts only.
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
            return Err(
                format!("the code of part {part} was not seen on the client's screen").into()
            );
        }
        let age = |shown: &[Option<u32>], at: Instant| {
            let now = stamp_of(at);
            shown[parts.clone()]
                .iter()
                .flatten()
                .map(|&stamp| clock::between_ms(stamp, now))
                .fold(0.0, f64::max)
        };
        let mut ages = Ages { moments_ms: Vec::new(), max_ms: 0.0 };
        let mut moment = begin;
        loop {
            let next = readings.next_if(|reading| reading.0 < end);
            // Until the next reading the age increases with time.
            let until = next.map_or(end, |reading| reading.0);
            while moment < until {
                ages.moments_ms.push(age(&shown, moment));
                moment += SAMPLE_INTERVAL;
            }
            ages.max_ms = ages.max_ms.max(age(&shown, until));
            match next {
                Some((_, part, stamp)) => shown[*part] = Some(*stamp),
                None => return Ok(ages),
            }
        }
    }

    /// Number of whole pictures, with all parts from one time, shown from `begin` to `end`.
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
    framebuffer: Framebuffer,
    parts: Vec<Rect>,
    shared: Arc<Mutex<Stamps>>,
}

impl Reader {
    /// Reads the damaged codes, or all. A half drawn code is invalid, and its part keeps its age.
    fn handle_damage(&self, drawn: Option<&Drawn>) -> Result<(), Error> {
        let touched = |part: &Rect| drawn.is_none_or(|drawn| drawn.is_last || drawn.touches(part));
        for (index, &part) in self.parts.iter().enumerate().filter(|(_, part)| touched(part)) {
            let picture = self.framebuffer.picture_of(part)?;
            // The time after the reading, so that no age is too small.
            let at = Instant::now();
            if let Some(stamp) = barcode::read(&picture, picture.rect()) {
                lock(&self.shared).handle_reading(at, index, stamp)?;
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
    fn the_oldest_part_counts_until_it_is_drawn_again() {
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
        assert!(
            seen.ages(at(11), at(140), clock_from(begin)).is_err(),
            "the second part had not been seen"
        );
        assert_eq!(seen.whole_pictures(at(0), at(140)), 2);
        assert_eq!(seen.whole_pictures(at(20), at(130)), 0);
    }

    #[test]
    fn a_picture_is_whole_once_its_last_part_is_shown() {
        let begin = Instant::now();
        let readings =
            [(1, 0, 10), (1, 1, 10), (100, 0, 900), (120, 1, 800), (125, 0, 950), (130, 1, 960)];
        let seen = stamps(begin, 2, &readings);
        let at = |ms| Some(begin + Duration::from_millis(ms));
        assert_eq!(seen.whole_since(800), at(120));
        assert_eq!(seen.whole_since(900), at(130), "the second part was of 80 ms until then");
        assert_eq!(seen.whole_since(951), None);
    }
}
