//! Path 7/13: beside update.rs, which remembers what its updates do until they are known to be applied.
//! What an update makes of pixels that its viewer lacks: COPYs carry them on, and all other commands mend them.
//! Knows the rectangles of commands; never their pixels.

use thinc_protocol::command::{Command, CommandReader};
use thinc_region::{Region, Size};

use crate::copies::CopyCommand;

/// What is worth remembering of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Updates arrive as they were sent, all of them: what COPYs carry on is enough.
    #[default]
    Ordered,
    /// Updates may be lost, and the viewer applies what does not depend on another in any order.
    Unordered,
}

#[derive(Debug)]
enum Effect {
    Copy(CopyCommand),
    Write(Region),
    /// Commands that cannot be read, or not yet: any pixel may come from any other.
    Unknown(Region),
}

/// What an update does, command by command.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    pub(crate) fn push_copy(&mut self, copy: CopyCommand) {
        self.list.push(Effect::Copy(copy));
    }

    /// Adds what these commands do, which were made of `region`'s pixels.
    pub(crate) fn read(&mut self, commands: &[u8], region: &Region, screen: Size, arrival: Arrival) {
        let before = self.list.len();
        let mut written = Region::new();
        for command in CommandReader::new(commands, screen) {
            let write = match command {
                Ok(Command::Copy { region, dx, dy }) => {
                    self.push_write(written.take());
                    self.push_copy(CopyCommand { region, dx, dy });
                    continue;
                }
                Err(_) => {
                    self.list.truncate(before);
                    self.list.push(Effect::Unknown(region.clone()));
                    return;
                }
                Ok(Command::Keep { .. }) => continue,
                // Kept apart where it is of use: what mends is then known to mend.
                Ok(_) if arrival == Arrival::Ordered => continue,
                Ok(Command::Sfill { region, .. }) => region,
                Ok(
                    Command::Pfill { rect, .. }
                    | Command::Bitmap { rect, .. }
                    | Command::Raw { rect, .. }
                    | Command::Recall { rect, .. },
                ) => Region::from(rect),
            };
            written.add(&write);
        }
        self.push_write(written);
    }

    fn push_write(&mut self, region: Region) {
        if !region.is_empty() {
            self.list.push(Effect::Write(region));
        }
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

    /// Every pixel it changes.
    pub(crate) fn writes(&self) -> Region {
        let mut writes = Region::new();
        for effect in &self.list {
            writes.add(match effect {
                Effect::Copy(copy) => &copy.region,
                Effect::Write(region) | Effect::Unknown(region) => region,
            });
        }
        writes
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
