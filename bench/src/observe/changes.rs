//! A log of the changes of a screen, and queries on it. From the rows that a watch has read to the
//! times of the first change, of a visible picture and of an exact one. Knows the pixels and times
//! passed in; has no clock, file or thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::picture::{Picture, Rect, channels};

/// 384 MiB: overwritten pixels that are kept, 128 whole screens of 1024x768. Beyond it the pixels
/// of the oldest changes are dropped and only time and place are kept, which [`Changes::truncated`]
/// reports.
pub(super) const LOG_BYTES_MAX: usize = 384 << 20;
/// Most changes, two hours of 60 a second; beyond it the oldest are dropped, which
/// [`Changes::truncated`] also reports.
const CHANGES_MAX: usize = 1 << 19;
/// Largest difference from the final pixel, in each channel, of a pixel that counts as right.
const VISIBLE_LEVELS: u8 = 16;
/// One in so many pixels may be wrong in a picture that counts as visible: 1 %.
const VISIBLE_SHARE: u64 = 100;

/// Pixels of one row that changed at once.
#[derive(Clone, Copy, Debug)]
struct Span {
    y: u16,
    x: u16,
    length: u16,
}

/// The changes that one reading of the screen found.
#[derive(Debug)]
struct Change {
    at: Instant,
    bounds: Rect,
    spans: Vec<Span>,
    /// The earlier pixels of the spans, one span after another.
    old: Vec<u32>,
}

impl Change {
    fn bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.old.capacity() * size_of::<u32>()
    }

    /// Whether its pixels were dropped to save memory.
    fn lacks_pixels(&self) -> bool {
        self.spans.is_empty()
    }
}

/// The last reading of a screen, and the changes that led to it.
pub(super) struct Log {
    now: Picture,
    changes: VecDeque<Change>,
    bytes: usize,
    bytes_max: usize,
    /// Number of the oldest changes without pixels.
    bare: usize,
    truncated: bool,
    spans: Vec<Span>,
    old: Vec<u32>,
}

impl Log {
    /// A log that begins with this picture.
    pub(super) fn new(now: Picture, bytes_max: usize) -> Log {
        let (spans, old) = (Vec::new(), Vec::new());
        Log {
            now,
            changes: VecDeque::new(),
            bytes: 0,
            bytes_max,
            bare: 0,
            truncated: false,
            spans,
            old,
        }
    }

    /// The current picture of the screen.
    pub(super) fn picture(&self) -> &Picture {
        &self.now
    }

    /// Records a row as it is now. Differences are part of the change that [`Log::end_change`]
    /// ends.
    pub(super) fn handle_row(&mut self, y: usize, row: &[u32]) {
        let width = self.now.width as usize;
        let before = &mut self.now.pixels[y * width..(y + 1) * width];
        if before == row {
            return;
        }
        let mut x = 0;
        while let Some(from) = (x..width).find(|&x| before[x] != row[x]) {
            // Exact spans: a query of a part must not see the pixels between them.
            let to = (from..width).find(|&x| before[x] == row[x]).unwrap_or(width);
            self.spans.push(Span { y: y as u16, x: from as u16, length: (to - from) as u16 });
            self.old.extend_from_slice(&before[from..to]);
            x = to;
        }
        before.copy_from_slice(row);
    }

    /// Ends a change: dates the rows that were handled since the last one. True if any of them
    /// differed.
    pub(super) fn end_change(&mut self, at: Instant) -> bool {
        if self.spans.is_empty() {
            return false;
        }
        let left = self.spans.iter().map(|span| span.x).min().unwrap_or(0);
        let right = self.spans.iter().map(|span| span.x + span.length).max().unwrap_or(0);
        let top = self.spans.iter().map(|span| span.y).min().unwrap_or(0);
        let bottom = self.spans.iter().map(|span| span.y + 1).max().unwrap_or(0);
        let bounds =
            Rect::new(left.into(), top.into(), (right - left).into(), (bottom - top).into());
        let change = Change {
            at,
            bounds,
            spans: self.spans.as_slice().into(),
            old: self.old.as_slice().into(),
        };
        self.spans.clear();
        self.old.clear();
        self.bytes += change.bytes();
        self.changes.push_back(change);
        while self.bytes > self.bytes_max && self.bare < self.changes.len() {
            let oldest = &mut self.changes[self.bare];
            self.bytes -= oldest.bytes();
            (oldest.spans, oldest.old) = (Vec::new(), Vec::new());
            self.bare += 1;
            self.truncated = true;
        }
        if self.changes.len() > CHANGES_MAX {
            self.bytes -= self.changes.pop_front().map_or(0, |oldest| oldest.bytes());
            self.bare = self.bare.saturating_sub(1);
            self.truncated = true;
        }
        true
    }

    /// The log, closed.
    pub(super) fn finish(self) -> Changes {
        let within = self.now.rect();
        Changes { log: Arc::new(self), within, without: Vec::new() }
    }
}

/// The changes of the whole screen, or of a part of it, while a [`super::watch::Watch`] ran.
#[derive(Clone)]
pub struct Changes {
    log: Arc<Log>,
    within: Rect,
    without: Vec<Rect>,
}

/// The time from which on a picture was right.
enum Settled {
    /// Before the first change.
    Always,
    /// After the change at this time.
    At(Instant),
    /// It is not right at the end.
    Never,
}

impl Changes {
    /// The same recording, restricted to `rect`.
    pub fn within(&self, rect: Rect) -> Changes {
        Changes { within: self.within.intersect(&rect).unwrap_or_default(), ..self.clone() }
    }

    /// The same recording without `rect`: a clock, or a pointer that a viewer draws itself.
    pub fn without(&self, rect: Rect) -> Changes {
        let mut changes = self.clone();
        changes.without.push(rect);
        changes
    }

    /// Number of changes: readings of the screen that found a difference.
    pub fn count(&self) -> usize {
        self.seen().count()
    }

    /// When the first pixel changed.
    pub fn first(&self) -> Option<Instant> {
        self.seen().next()
    }

    /// When the first pixel changed from this time on. Before an input the screen may change for
    /// other reasons: a viewer dims it while a busy machine lets the session wait.
    pub fn first_from(&self, time: Instant) -> Option<Instant> {
        self.seen().find(|&at| at >= time)
    }

    /// When the last pixel changed.
    pub fn last(&self) -> Option<Instant> {
        self.seen().next_back()
    }

    /// The times of all changes.
    pub fn times(&self) -> Vec<Instant> {
        self.seen().collect()
    }

    /// From when on at least 99 % of the pixels stay within 16 levels, in each channel, of the
    /// final picture. If they always were, because little changed, it is the time of the first
    /// change. If the log was truncated, it may have been earlier.
    pub fn visible(&self) -> Option<Instant> {
        let last = &self.log.now;
        let near = |a: u8, b: u8| a.abs_diff(b) <= VISIBLE_LEVELS;
        let wrong = |x: usize, y: usize, pixel: u32| {
            let last = channels(last.pixels[y * last.width as usize + x]);
            !channels(pixel).into_iter().zip(last).all(|(a, b)| near(a, b))
        };
        let all: usize = self.rows().map(|y| self.columns(y).count()).sum();
        match self.settled(self.within, wrong, all as u64 / VISIBLE_SHARE) {
            Settled::Always => self.first(),
            Settled::At(at) => Some(at),
            Settled::Never => None,
        }
    }

    /// From when on every pixel equals `reference`, whose top left pixel lies at `offset` of the
    /// screen; None if it never does, or if it did before the recording began. Pixels outside of
    /// `reference` are ignored. If the log was truncated, it may have been earlier.
    pub fn exact(&self, reference: &Picture, offset: (i32, i32)) -> Option<Instant> {
        let area = Rect::new(offset.0, offset.1, reference.width, reference.height);
        let area = self.within.intersect(&area)?;
        let wrong = |x: usize, y: usize, pixel: u32| {
            let (x, y) = (x as i32 - offset.0, y as i32 - offset.1);
            reference.pixels[y as usize * reference.width as usize + x as usize] & 0xff_ffff
                != pixel
        };
        match self.settled(area, wrong, 0) {
            Settled::At(at) => Some(at),
            Settled::Always | Settled::Never => None,
        }
    }

    /// The whole screen at the end, also if these changes are restricted to a part.
    pub fn picture(&self) -> Picture {
        self.log.now.clone()
    }

    /// Whether the log outgrew its memory and dropped its oldest pixels: times are then bounds, see
    /// each method.
    pub fn truncated(&self) -> bool {
        self.log.truncated
    }

    /// Times of the changes that touch a counted pixel.
    fn seen(&self) -> impl DoubleEndedIterator<Item = Instant> + '_ {
        let touches = |change: &&Change| {
            let within = |span: &Span| {
                let rect = Rect::new(span.x.into(), span.y.into(), span.length.into(), 1);
                rect.intersect(&self.within)
                    .is_some_and(|rect| (rect.x..rect.right()).any(|x| self.counts(x, rect.y)))
            };
            change.bounds.intersect(&self.within).is_some()
                && (change.lacks_pixels() || change.spans.iter().any(within))
        };
        self.log.changes.iter().filter(touches).map(|change| change.at)
    }

    /// Whether a pixel within the area is not hidden.
    fn counts(&self, x: i32, y: i32) -> bool {
        !self
            .without
            .iter()
            .any(|rect| (rect.x..rect.right()).contains(&x) && (rect.y..rect.bottom()).contains(&y))
    }

    fn rows(&self) -> std::ops::Range<i32> {
        self.within.y..self.within.bottom()
    }

    fn columns(&self, y: i32) -> impl Iterator<Item = i32> + '_ {
        (self.within.x..self.within.right()).filter(move |&x| self.counts(x, y))
    }

    /// Undoes change after change from the end, until more than `allowed` pixels of `area` are
    /// wrong.
    fn settled(
        &self,
        area: Rect,
        wrong: impl Fn(usize, usize, u32) -> bool,
        allowed: u64,
    ) -> Settled {
        let width = self.log.now.width as usize;
        let mut now = self.log.now.pixels.clone();
        let area_of = Changes { within: area, ..self.clone() };
        let mut count = 0_u64;
        for y in area_of.rows() {
            let wrong_here =
                |&x: &i32| wrong(x as usize, y as usize, now[y as usize * width + x as usize]);
            count += area_of.columns(y).filter(wrong_here).count() as u64;
        }
        if count > allowed {
            return Settled::Never;
        }
        for change in self.log.changes.iter().rev() {
            if change.bounds.intersect(&area).is_none() {
                continue;
            }
            if change.lacks_pixels() {
                return Settled::At(change.at);
            }
            let mut old = change.old.as_slice();
            for span in &change.spans {
                let (before, rest) = old.split_at(span.length.into());
                old = rest;
                let (x, y) = (i32::from(span.x), i32::from(span.y));
                let Some(part) = Rect::new(x, y, span.length.into(), 1).intersect(&area) else {
                    continue;
                };
                for at_x in (part.x..part.right()).filter(|&x| self.counts(x, y)) {
                    let (column, row) = (at_x as usize, y as usize);
                    let pixel = &mut now[row * width + column];
                    count -= u64::from(wrong(column, row, *pixel));
                    *pixel = before[(at_x - x) as usize];
                    count += u64::from(wrong(column, row, *pixel));
                }
            }
            if count > allowed {
                return Settled::At(change.at);
            }
        }
        Settled::Always
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const SIZE: (u32, u32) = (40, 12);

    /// A screen's whole history, picture by picture: the reference of the tests.
    struct History {
        began: Instant,
        pictures: Vec<Picture>,
    }

    impl History {
        fn play(
            began: Instant,
            operations: &[(Rect, u32)],
            bytes_max: usize,
        ) -> (History, Changes) {
            let mut picture = Picture::new(SIZE.0, SIZE.1, 0x40_40_40);
            let mut pictures = vec![picture.clone()];
            let mut log = Log::new(picture.clone(), bytes_max);
            for &(rect, pixel) in operations {
                let rect = rect.intersect(&picture.rect()).unwrap_or_default();
                for y in rect.y..rect.bottom() {
                    for x in rect.x..rect.right() {
                        picture.pixels[y as usize * SIZE.0 as usize + x as usize] = pixel;
                    }
                }
                let differs = Some(&picture) != pictures.last();
                for y in 0..SIZE.1 as usize {
                    log.handle_row(y, picture.row(y));
                }
                let at = began + Duration::from_millis(pictures.len() as u64);
                assert_eq!(
                    log.end_change(at),
                    differs,
                    "what differs is a change, and nothing else is"
                );
                assert_eq!(log.picture(), &picture);
                pictures.push(picture.clone());
            }
            (History { began, pictures }, log.finish())
        }

        fn time(&self, step: usize) -> Instant {
            self.began + Duration::from_millis(step as u64)
        }

        /// The first step of the last stretch of pictures that are all right, where there is one
        /// after the beginning.
        fn settled(&self, right: impl Fn(&Picture) -> bool) -> Option<usize> {
            let wrong = self.pictures.iter().rposition(|picture| !right(picture));
            wrong.map(|wrong| wrong + 1).filter(|&step| step < self.pictures.len())
        }

        fn changed(&self, area: Rect, hidden: Rect) -> Vec<usize> {
            let differs = |&step: &usize| {
                let pair = |x: i32, y: i32| {
                    let at = y as usize * SIZE.0 as usize + x as usize;
                    self.pictures[step].pixels[at] != self.pictures[step - 1].pixels[at]
                };
                counted(area, hidden).any(|(x, y)| pair(x, y))
            };
            (1..self.pictures.len()).filter(differs).collect()
        }
    }

    fn counted(area: Rect, hidden: Rect) -> impl Iterator<Item = (i32, i32)> {
        let area = area.intersect(&Rect::new(0, 0, SIZE.0, SIZE.1)).unwrap_or_default();
        let all =
            (area.y..area.bottom()).flat_map(move |y| (area.x..area.right()).map(move |x| (x, y)));
        all.filter(move |&(x, y)| Rect::new(x, y, 1, 1).intersect(&hidden).is_none())
    }

    fn visible(history: &History, area: Rect, hidden: Rect) -> Option<usize> {
        let last = &history.pictures[history.pictures.len() - 1];
        let all = counted(area, hidden).count() as u64;
        history.settled(|picture| {
            let wrong = |&(x, y): &(i32, i32)| {
                let at = y as usize * SIZE.0 as usize + x as usize;
                let (a, b) = (channels(picture.pixels[at]), channels(last.pixels[at]));
                (0..3).any(|i| a[i].abs_diff(b[i]) > 16)
            };
            counted(area, hidden).filter(wrong).count() as u64 <= all / 100
        })
    }

    fn rect() -> impl Strategy<Value = Rect> {
        (-3_i32..44, -3_i32..14, 1_u32..45, 1_u32..15)
            .prop_map(|(x, y, width, height)| Rect::new(x, y, width, height))
    }

    fn operations() -> impl Strategy<Value = Vec<(Rect, u32)>> {
        // Few colours, some of them near each other, so that pixels come back to what they were.
        let pixel = prop::sample::select(vec![0x40_40_40, 0x4f_40_40, 0x51_40_40, 0xff_ffff, 0]);
        prop::collection::vec((rect(), pixel), 0..20)
    }

    proptest! {
        #[test]
        fn answers_are_those_of_the_whole_history(
            operations in operations(),
            area in rect(),
            hidden in rect(),
            at in 0_usize..20,
        ) {
            let (history, changes) = History::play(Instant::now(), &operations, LOG_BYTES_MAX);
            let changes = changes.within(area).without(hidden);
            let changed = history.changed(area, hidden);
            let times: Vec<Instant> = changed.iter().map(|&step| history.time(step)).collect();
            prop_assert_eq!(changes.times(), times.clone());
            prop_assert_eq!(changes.first(), times.first().copied());
            prop_assert_eq!(changes.last(), times.last().copied());
            prop_assert_eq!(changes.count(), times.len());
            prop_assert!(!changes.truncated());
            prop_assert_eq!(&changes.picture(), &history.pictures[history.pictures.len() - 1]);

            let wanted = visible(&history, area, hidden).or(changed.first().copied());
            prop_assert_eq!(changes.visible(), wanted.map(|step| history.time(step)));

            let reference = &history.pictures[at % history.pictures.len()];
            let exact = history.settled(|picture| counted(area, hidden).all(|(x, y)| {
                let at = y as usize * SIZE.0 as usize + x as usize;
                picture.pixels[at] == reference.pixels[at]
            }));
            prop_assert_eq!(changes.exact(reference, (0, 0)), exact.map(|step| history.time(step)));
            // A reference of a part, at its offset, is compared with that part only.
            let part = area.intersect(&reference.rect()).unwrap_or_default();
            let everywhere = changes.within(Rect::new(0, 0, SIZE.0, SIZE.1));
            let cropped = everywhere.exact(&reference.crop(part), (part.x, part.y));
            prop_assert_eq!(cropped, changes.exact(reference, (0, 0)));
        }

        #[test]
        fn a_full_log_gives_bounds_and_reports_it(
            operations in operations(),
            bytes_max in 0_usize..4000,
        ) {
            let began = Instant::now();
            let (history, whole) = History::play(began, &operations, LOG_BYTES_MAX);
            let (_, full) = History::play(began, &operations, bytes_max);
            prop_assert!(full.log.bytes <= bytes_max);
            prop_assert_eq!((full.first(), full.last()), (whole.first(), whole.last()));
            prop_assert_eq!(full.count(), whole.count());
            let last = &history.pictures[history.pictures.len() - 1];
            for (full_at, whole_at) in [
                (full.visible(), whole.visible()),
                (full.exact(last, (0, 0)), whole.exact(last, (0, 0))),
            ] {
                let whole_at = whole_at.or(full_at.filter(|_| full.truncated()).and(whole.first()));
                prop_assert!(full_at.is_some() == whole_at.is_some() && full_at >= whole_at);
                prop_assert!(full.truncated() || full_at == whole_at);
            }
        }
    }

    #[test]
    fn a_lossy_picture_is_visible_before_it_is_exact() {
        let whole = Rect::new(0, 0, SIZE.0, SIZE.1);
        let (history, changes) = History::play(
            Instant::now(),
            &[(whole, 0x80_80_80), (whole, 0xf8_f0_f0), (whole, 0xff_ff_ff)],
            LOG_BYTES_MAX,
        );
        assert_eq!(changes.first(), Some(history.time(1)));
        let from = [1, 2, 3].map(|at| changes.first_from(history.time(at)));
        assert_eq!(from, [1, 2, 3].map(|at| Some(history.time(at))));
        assert_eq!(changes.first_from(history.time(3) + Duration::from_nanos(1)), None);
        assert_eq!(changes.visible(), Some(history.time(2)));
        assert_eq!(
            changes.exact(&Picture::new(SIZE.0, SIZE.1, 0xff_ffff), (0, 0)),
            Some(history.time(3))
        );
        assert_eq!(changes.exact(&Picture::new(SIZE.0, SIZE.1, 0), (0, 0)), None);
    }
}
