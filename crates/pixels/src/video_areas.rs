//! Path 8/13: from motion.rs, to session-server with each plan.
//! The video areas of a screen. Their rectangles stay constant as long as they fit, because
//! restarting a video stream costs a keyframe.
//! Knows rectangles and times; never pixels.

use thinc_region::Rect;

use crate::motion::REST_MAX;

/// Most video areas at a time.
pub const VIDEO_AREAS_MAX: usize = 4;
/// 96 x 96 pixels: a smaller area is not worth a video stream.
const AREA_MIN: u64 = 96 * 96;
/// 1 s: an area is reshaped after the detected rectangle has differed from it for so long.
const RESHAPE_AFTER: u64 = 1_000_000;
/// Half: an area of which less is detected is reduced to that.
const FILLED_MIN: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Area {
    rect: Rect,
    /// Since when the detected rectangle does not fit it.
    differs: Option<u64>,
    /// When it was last detected.
    detected: u64,
}

impl Area {
    fn fits(&self, found: &Rect) -> bool {
        self.rect.contains(found) && found.area() * FILLED_MIN >= self.rect.area()
    }
}

/// Tracks video areas from plan to plan.
#[derive(Debug, Default)]
pub(crate) struct VideoAreas {
    areas: Vec<Area>,
    rects: Vec<Rect>,
}

impl VideoAreas {
    /// Disjoint, at most `VIDEO_AREAS_MAX`, in the order of their detection.
    pub(crate) fn rects(&self) -> &[Rect] {
        &self.rects
    }

    pub(crate) fn overlap(&self, rect: &Rect) -> bool {
        self.areas.iter().any(|area| area.rect.overlaps(rect))
    }

    /// Updates the areas with the rectangles that change like a video now.
    pub(crate) fn update(&mut self, mut found: Vec<Rect>, now: u64) {
        if found.is_empty() && self.areas.is_empty() {
            return;
        }
        join(&mut found);
        found.retain(|rect| rect.area() >= AREA_MIN);
        found.sort_unstable_by_key(|rect| std::cmp::Reverse(rect.area()));
        for area in &mut self.areas {
            // The largest rectangle that overlaps it continues it.
            let Some(at) = found.iter().position(|found| found.overlaps(&area.rect)) else {
                continue;
            };
            area.detected = now;
            if area.fits(&found[at]) {
                area.differs = None;
            } else if now.saturating_sub(*area.differs.get_or_insert(now)) >= RESHAPE_AFTER {
                *area = Area { rect: found[at], differs: None, detected: now };
            }
        }
        self.areas.retain(|area| now.saturating_sub(area.detected) <= REST_MAX);
        // If an area has grown over another, the older one stays.
        let mut at = 0;
        while at < self.areas.len() {
            let rect = self.areas[at].rect;
            if self.areas[..at].iter().any(|other| other.rect.overlaps(&rect)) {
                self.areas.remove(at);
            } else {
                at += 1;
            }
        }
        for rect in found {
            if self.areas.len() < VIDEO_AREAS_MAX && !self.overlap(&rect) {
                self.areas.push(Area { rect, differs: None, detected: now });
            }
        }
        self.rects.clear();
        self.rects.extend(self.areas.iter().map(|area| area.rect));
    }
}

/// Joins overlapping rectangles until none overlap.
fn join(rects: &mut Vec<Rect>) {
    let mut at = 0;
    while at < rects.len() {
        match (0..at).find(|&other| rects[other].overlaps(&rects[at])) {
            Some(other) => {
                rects[other] = rects[other].bound(&rects[at]);
                rects.swap_remove(at);
                at = 0;
            }
            None => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;
    const PLAYER: Rect = Rect::new(100, 100, 740, 460);

    fn update(areas: &mut VideoAreas, now: u64, found: &[Rect]) -> Vec<Rect> {
        areas.update(found.to_vec(), now * MS);
        areas.rects().to_vec()
    }

    #[test]
    fn an_area_keeps_its_shape_until_another_has_lasted() {
        let mut areas = VideoAreas::default();
        assert_eq!(update(&mut areas, 0, &[PLAYER]), [PLAYER]);
        let head = Rect::new(120, 110, 600, 460);
        let wider = Rect::new(100, 100, 748, 460);
        for now in 1..40 {
            assert_eq!(
                update(&mut areas, now * 30, &[if now % 2 == 0 { head } else { PLAYER }]),
                [PLAYER]
            );
        }
        for now in 40..60 {
            assert_eq!(update(&mut areas, now * 30, &[wider]), [PLAYER], "it may be for a moment");
        }
        assert_eq!(update(&mut areas, 40 * 30 + 1000, &[wider]), [wider]);
        let corner = Rect::new(100, 100, 300, 300);
        assert_eq!(update(&mut areas, 2300, &[corner]), [wider]);
        assert_eq!(update(&mut areas, 3300, &[corner]), [corner], "the rest of it has rested");
        assert_eq!(update(&mut areas, 3900, &[]), [corner], "a player may stutter");
        assert!(update(&mut areas, 4000, &[]).is_empty());
    }

    #[test]
    fn areas_are_few_large_and_disjoint() {
        let mut areas = VideoAreas::default();
        let squares: Vec<Rect> = (0..6).map(|i| Rect::at(i * 200, 0, 100 + i, 100)).collect();
        let found = update(&mut areas, 0, &squares);
        assert_eq!(found, [squares[5], squares[4], squares[3], squares[2]], "the largest");
        let mut areas = VideoAreas::default();
        let joined = update(
            &mut areas,
            0,
            &[Rect::at(0, 0, 200, 200), Rect::at(100, 100, 200, 200), Rect::at(900, 0, 90, 90)],
        );
        assert_eq!(joined, [Rect::new(0, 0, 300, 300)], "and the small one is none");
        // The first grows over the second.
        let mut areas = VideoAreas::default();
        let (left, right) = (Rect::at(0, 0, 200, 200), Rect::at(300, 0, 200, 200));
        assert_eq!(update(&mut areas, 0, &[left, right]), [left, right]);
        let both = left.bound(&right);
        update(&mut areas, 100, &[both]);
        assert_eq!(update(&mut areas, 1100, &[both]), [both]);
    }
}
