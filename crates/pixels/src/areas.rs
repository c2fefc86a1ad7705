//! Path 8/13: from motion.rs, to session-server with each plan.
//! The moving areas of a screen: rectangles that stay as they are for as long as they serve, because a video that is begun anew costs a picture
//! that leans on none. Knows rectangles and times; never pixels.

use thinc_region::Rect;

use crate::motion::REST;

/// Most moving areas at a time.
pub const AREAS_MAX: usize = 4;
/// 96 x 96 pixels: a smaller one is worth no stream of its own.
const AREA_MIN: u64 = 96 * 96;
/// 1 s: so long what is found has to be of another shape than its area before the area is given that shape.
const SETTLES: u64 = 1_000_000;
/// Half: an area of which less moves is cut down to that.
const FILLED_MIN: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Area {
    rect: Rect,
    /// What moves is of another shape since then.
    differs: Option<u64>,
    /// When it was last found.
    found: u64,
}

impl Area {
    fn fits(&self, found: &Rect) -> bool {
        self.rect.contains(found) && found.area() * FILLED_MIN >= self.rect.area()
    }
}

/// Areas that are followed.
#[derive(Debug, Default)]
pub(crate) struct Areas {
    areas: Vec<Area>,
    rects: Vec<Rect>,
}

impl Areas {
    /// Disjoint, at most `AREAS_MAX`, in the order in which they began.
    pub(crate) fn rects(&self) -> &[Rect] {
        &self.rects
    }

    pub(crate) fn overlap(&self, rect: &Rect) -> bool {
        self.areas.iter().any(|area| area.rect.overlaps(rect))
    }

    /// These move now.
    pub(crate) fn follow(&mut self, mut found: Vec<Rect>, now: u64) {
        if found.is_empty() && self.areas.is_empty() {
            return;
        }
        join(&mut found);
        found.retain(|rect| rect.area() >= AREA_MIN);
        found.sort_unstable_by_key(|rect| std::cmp::Reverse(rect.area()));
        for area in &mut self.areas {
            // The largest of what is found in it is what it has become.
            let Some(at) = found.iter().position(|found| found.overlaps(&area.rect)) else { continue };
            area.found = now;
            if area.fits(&found[at]) {
                area.differs = None;
            } else if now.saturating_sub(*area.differs.get_or_insert(now)) >= SETTLES {
                *area = Area { rect: found[at], differs: None, found: now };
            }
        }
        self.areas.retain(|area| now.saturating_sub(area.found) <= REST);
        // One that has grown may have grown over another, and the older one stays.
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
            if self.areas.len() < AREAS_MAX && !self.overlap(&rect) {
                self.areas.push(Area { rect, differs: None, found: now });
            }
        }
        self.rects.clear();
        self.rects.extend(self.areas.iter().map(|area| area.rect));
    }
}

/// Makes one of those that overlap, until none do.
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

    fn follow(areas: &mut Areas, now: u64, found: &[Rect]) -> Vec<Rect> {
        areas.follow(found.to_vec(), now * MS);
        areas.rects().to_vec()
    }

    #[test]
    fn an_area_keeps_its_shape_until_another_has_lasted() {
        let mut areas = Areas::default();
        assert_eq!(follow(&mut areas, 0, &[PLAYER]), [PLAYER]);
        let head = Rect::new(120, 110, 600, 460);
        let wider = Rect::new(100, 100, 748, 460);
        for now in 1..40 {
            assert_eq!(follow(&mut areas, now * 30, &[if now % 2 == 0 { head } else { PLAYER }]), [PLAYER]);
        }
        for now in 40..60 {
            assert_eq!(follow(&mut areas, now * 30, &[wider]), [PLAYER], "it may be for a moment");
        }
        assert_eq!(follow(&mut areas, 40 * 30 + 1000, &[wider]), [wider]);
        let corner = Rect::new(100, 100, 300, 300);
        assert_eq!(follow(&mut areas, 2300, &[corner]), [wider]);
        assert_eq!(follow(&mut areas, 3300, &[corner]), [corner], "the rest of it has rested");
        assert_eq!(follow(&mut areas, 3900, &[]), [corner], "a player may stutter");
        assert!(follow(&mut areas, 4000, &[]).is_empty());
    }

    #[test]
    fn areas_are_few_large_and_disjoint() {
        let mut areas = Areas::default();
        let squares: Vec<Rect> = (0..6).map(|i| Rect::at(i * 200, 0, 100 + i, 100)).collect();
        let found = follow(&mut areas, 0, &squares);
        assert_eq!(found, [squares[5], squares[4], squares[3], squares[2]], "the largest");
        let mut areas = Areas::default();
        let joined =
            follow(&mut areas, 0, &[Rect::at(0, 0, 200, 200), Rect::at(100, 100, 200, 200), Rect::at(900, 0, 90, 90)]);
        assert_eq!(joined, [Rect::new(0, 0, 300, 300)], "and the small one is none");
        // The first grows over the second.
        let mut areas = Areas::default();
        let (left, right) = (Rect::at(0, 0, 200, 200), Rect::at(300, 0, 200, 200));
        assert_eq!(follow(&mut areas, 0, &[left, right]), [left, right]);
        let both = left.bound(&right);
        follow(&mut areas, 100, &[both]);
        assert_eq!(follow(&mut areas, 1100, &[both]), [both]);
    }
}
