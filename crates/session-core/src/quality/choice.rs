//! Path 6/13: under quality.rs, from the messages of one viewer, to the ladders and to video.rs.
//! How good pictures that move are to be, as the person has chosen; and their wish for an exact
//! frame, which makes all that is sent exact until it was shown. Knows regions and times; never
//! pixels, rates or codecs.

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_region::Region;

/// For so long everything is exact, so that a person sees it: a single frame of a program that
/// draws on is replaced before. And no choice is left earlier, as video streams end and begin.
const EXACT_TIME: Micros = 1_000_000;
/// And at most so long, where the path takes longer for one exact frame.
const EXACT_TIME_MAX: Micros = 5_000_000;
/// Most rectangles of what was not sent exact; past it the set becomes coarser, and the frame takes
/// longer.
const RECTS_MAX: usize = 256;

/// A wish for an exact frame.
#[derive(Debug)]
struct ExactFrame {
    /// What was lossy and is not on its way exact.
    left: Region,
    until: Micros,
    latest: Micros,
}

/// The choice of one viewer.
#[derive(Debug, Default)]
pub(crate) struct QualityChoice {
    chosen: PictureQuality,
    /// An exact frame is wanted, from the next poll on: a message costs nothing.
    is_wanted: bool,
    exact_frame: Option<ExactFrame>,
    /// Since when everything is exact.
    exact_since: Option<Micros>,
}

impl QualityChoice {
    /// The person has chosen this.
    pub(crate) fn choose(&mut self, quality: PictureQuality) {
        self.chosen = quality;
    }

    /// They want an exact frame.
    pub(crate) fn want_exact_frame(&mut self) {
        self.is_wanted = true;
    }

    /// Begins the wanted frame, if there is one; `lossy` gives what is lossy.
    pub(crate) fn begin_exact_frame(&mut self, lossy: impl FnOnce() -> Region, now: Micros) {
        if std::mem::take(&mut self.is_wanted) {
            let (until, latest) = (now + EXACT_TIME, now + EXACT_TIME_MAX);
            self.exact_frame = Some(ExactFrame { left: lossy(), until, latest });
        }
    }

    /// This was committed, and nothing of it is lossy.
    pub(crate) fn exact_committed(&mut self, region: &Region) {
        if let Some(frame) = &mut self.exact_frame {
            frame.left.subtract(region);
        }
    }

    /// This was committed, and is not sent or was lost.
    pub(crate) fn not_sent(&mut self, region: &Region) {
        if let Some(frame) = &mut self.exact_frame {
            frame.left.add(region);
            if frame.left.rect_count() > RECTS_MAX {
                frame.left = frame.left.simplified(RECTS_MAX / 4);
            }
        }
    }

    /// A new geometry: all of it is sent.
    pub(crate) fn reset(&mut self) {
        if let Some(frame) = &mut self.exact_frame {
            frame.left.clear();
        }
    }

    /// How good pictures are to be now.
    pub(crate) fn current(&mut self, now: Micros) -> PictureQuality {
        let is_over = |frame: &mut ExactFrame| {
            now >= frame.latest || now >= frame.until && frame.left.is_empty()
        };
        self.exact_frame.take_if(is_over);
        if self.exact_frame.is_some() || self.chosen == PictureQuality::Exact {
            self.exact_since.get_or_insert(now);
            return PictureQuality::Exact;
        }
        if self.exact_since.is_some_and(|since| now < since + EXACT_TIME) {
            return PictureQuality::Exact;
        }
        self.exact_since = None;
        self.chosen
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Rect;

    use super::*;

    const ALL: Rect = Rect::at(0, 0, 100, 100);

    /// Everything is lossy, and an exact frame is wanted.
    fn wish(choice: &mut QualityChoice, lossy: Region, now: Micros) {
        choice.want_exact_frame();
        choice.begin_exact_frame(|| lossy, now);
    }

    #[test]
    fn an_exact_frame_lasts_until_it_was_sent_and_seen() {
        let mut choice = QualityChoice::default();
        choice.choose(PictureQuality::Low);
        choice.begin_exact_frame(|| unreachable!("nobody wants it"), 0);
        let [left, right] = [Rect::at(0, 0, 50, 100), Rect::at(50, 0, 50, 100)].map(Region::from);
        wish(&mut choice, ALL.into(), 10);
        assert_eq!(choice.current(10), PictureQuality::Exact);
        choice.exact_committed(&left);
        let end = 10 + EXACT_TIME;
        assert_eq!(choice.current(end), PictureQuality::Exact, "half was not committed");
        choice.exact_committed(&right);
        choice.not_sent(&left);
        assert_eq!(choice.current(end), PictureQuality::Exact, "half was withdrawn");
        choice.exact_committed(&left);
        assert_eq!(choice.current(end), PictureQuality::Low);
        wish(&mut choice, Region::new(), 0);
        assert_eq!(choice.current(EXACT_TIME - 1), PictureQuality::Exact, "nobody saw it");
        assert_eq!(choice.current(EXACT_TIME - 1 + EXACT_TIME), PictureQuality::Low);
    }

    #[test]
    fn an_exact_frame_that_does_not_pass_ends() {
        let mut choice = QualityChoice::default();
        wish(&mut choice, ALL.into(), 0);
        assert_eq!(choice.current(0), PictureQuality::Exact);
        assert_eq!(choice.current(EXACT_TIME_MAX - 1), PictureQuality::Exact);
        assert_eq!(choice.current(EXACT_TIME_MAX), PictureQuality::Auto);
        wish(&mut choice, ALL.into(), 0);
        choice.reset();
        assert_eq!(choice.current(EXACT_TIME), PictureQuality::Auto, "another screen");
    }

    #[test]
    fn who_changes_their_mind_all_the_time_ends_no_streams_all_the_time() {
        let (mut choice, mut changes, mut before) = (QualityChoice::default(), 0, None);
        for at in 0..1000 {
            let exact = at % 2 == 0;
            choice.choose(if exact { PictureQuality::Exact } else { PictureQuality::Auto });
            let now = choice.current(at * 5_000);
            changes += u32::from(before != Some(now));
            before = Some(now);
        }
        assert!((2..=11).contains(&changes), "{changes} in 5 s");
    }
}
