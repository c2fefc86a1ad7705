//! Path 7/13: beside ledger.rs, which remembers the effects of its updates until they are known to
//! be applied; from parts.rs.
//! What commands do to stale pixels of their viewer: COPYs move them along, all other commands
//! repair them. Knows the rectangles of commands; never their pixels.

use thinc_region::Region;

use crate::queue::copies::CopyCommand;

/// How a transport delivers updates, and so which effects must be remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryOrder {
    /// All updates arrive, in order: the effects of COPYs are enough.
    #[default]
    Ordered,
    /// Updates may be lost, and the viewer applies independent ones in any order.
    Unordered,
    /// Small updates are sent as datagrams: they may be lost, and arrive in any order. All others
    /// arrive in order.
    Mixed,
}

#[derive(Debug)]
enum Effect {
    Copy(CopyCommand),
    Write(Region),
}

/// The effects of commands, in order.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    pub(crate) fn push_copy(&mut self, copy: CopyCommand) {
        self.list.push(Effect::Copy(copy));
    }

    /// These pixels were replaced, independently of what the viewer shows.
    pub(crate) fn push_write(&mut self, region: &Region) {
        if let Some(Effect::Write(written)) = self.list.last_mut() {
            written.add(region);
        } else if !region.is_empty() {
            self.list.push(Effect::Write(region.clone()));
        }
    }

    /// Maps pixels that are stale before this update to those that are stale after it.
    pub(crate) fn follow(&self, stale: &mut Region) {
        for effect in &self.list {
            match effect {
                Effect::Copy(copy) => *stale = copy.follow(stale),
                Effect::Write(region) => stale.subtract(region),
            }
        }
    }

    /// The memory it takes, in rectangles.
    pub(crate) fn rects(&self) -> usize {
        let rects = |effect: &Effect| match effect {
            Effect::Copy(copy) => copy.region.rect_count(),
            Effect::Write(region) => region.rect_count(),
        };
        self.list.iter().map(rects).sum()
    }
}

/// The pixels of `region` depend on each other in an unknown way: if one is stale, all are.
pub(crate) fn spread(stale: &mut Region, region: &Region) {
    if stale.overlaps(region) {
        stale.add(region);
    }
}
