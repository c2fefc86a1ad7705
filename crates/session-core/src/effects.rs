//! Path 7/13: beside update.rs, which remembers what its updates do until they are known to be applied; from parts.rs.
//! What commands make of pixels that their viewer lacks: COPYs carry them on, and all others mend them.
//! Knows the rectangles of commands; never their pixels.

use thinc_region::Region;

use crate::copies::CopyCommand;

/// What is worth remembering of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Updates arrive as they were sent, all of them: what COPYs carry on is enough.
    #[default]
    Ordered,
    /// Updates may be lost, and the viewer applies what does not depend on another in any order.
    Unordered,
    /// Small updates go alone: they may be lost, and come in any order. All others arrive as they were sent.
    Mixed,
}

#[derive(Debug)]
enum Effect {
    Copy(CopyCommand),
    Write(Region),
    /// Commands that cannot be read: any pixel may come from any other.
    Unknown(Region),
}

/// What commands do, one by one.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    pub(crate) fn push_copy(&mut self, copy: CopyCommand) {
        self.list.push(Effect::Copy(copy));
    }

    /// These pixels were changed, and made of nothing that the viewer shows.
    pub(crate) fn push_write(&mut self, region: &Region) {
        if let Some(Effect::Write(written)) = self.list.last_mut() {
            written.add(region);
        } else if !region.is_empty() {
            self.list.push(Effect::Write(region.clone()));
        }
    }

    /// Nobody knows what was done to these, which were made of each other.
    pub(crate) fn push_unknown(&mut self, region: &Region) {
        self.list.push(Effect::Unknown(region.clone()));
    }

    /// `lacking` of what came before this update, after it.
    pub(crate) fn follow(&self, lacking: &mut Region) {
        for effect in &self.list {
            match effect {
                Effect::Copy(copy) => *lacking = copy.follow(lacking),
                Effect::Write(region) => lacking.subtract(region),
                Effect::Unknown(region) => spread(lacking, region),
            }
        }
    }

    /// What it takes to remember it.
    pub(crate) fn rects(&self) -> usize {
        let rects = |effect: &Effect| match effect {
            Effect::Copy(copy) => copy.region.rect_count(),
            Effect::Write(region) | Effect::Unknown(region) => region.rect_count(),
        };
        self.list.iter().map(rects).sum()
    }
}

/// Pixels of `region` were made from each other nobody knows how: where one lacks, all do.
pub(crate) fn spread(lacking: &mut Region, region: &Region) {
    if lacking.overlaps(region) {
        lacking.add(region);
    }
}
