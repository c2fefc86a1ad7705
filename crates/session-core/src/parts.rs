//! Path 7/13: beside update.rs, whose updates leave in parts.
//! An update's commands, cut between two of them into parts that leave one by one, and what each does to a viewer's pixels.
//! Knows commands and rectangles; never what their pixels are, nor when a part leaves.

use std::collections::VecDeque;
use std::ops::Range;

use thinc_protocol::command::{Command, CommandReader, CommandWriter};
use thinc_protocol::limits::COMMANDS_MAX;
use thinc_protocol::video::VideoCommand;
use thinc_region::{Region, Size};

use crate::copies::CopyCommand;
use crate::effects::{Arrival, Effects};
use crate::mutation::{Broken, Mutation};

/// What commands do, as far as their order among others counts.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Pixels they change.
    pub(crate) writes: Region,
    /// Pixels they read: the sources of COPYs, and what KEEP keeps.
    pub(crate) reads: Region,
    /// Some of that is moved.
    moves: bool,
    /// Slots of the viewer's cache that they fill, and that they show.
    keeps: Vec<u32>,
    recalls: Vec<u32>,
    /// Streams of video that they are about, a bit each: what is about one keeps its order. And those that they end.
    pub(crate) streams: u16,
    pub(crate) ends: u16,
}

impl Touched {
    /// Whether the two may not change places.
    pub(crate) fn conflicts(&self, other: &Touched) -> bool {
        let share = |keeps: &[u32], slots: &[u32]| keeps.iter().any(|slot| slots.contains(slot));
        self.writes.overlaps(&other.writes)
            || self.writes.overlaps(&other.reads)
            || self.reads.overlaps(&other.writes)
            || share(&self.keeps, &other.keeps)
            || share(&self.keeps, &other.recalls)
            || share(&other.keeps, &self.recalls)
            || self.streams & other.streams != 0
    }

    /// It uses the viewer's cache.
    pub(crate) fn uses_slots(&self) -> bool {
        !self.keeps.is_empty() || !self.recalls.is_empty()
    }

    /// It keeps some of these.
    pub(crate) fn keeps_of(&self, region: &Region) -> bool {
        !self.keeps.is_empty() && self.reads.overlaps(region)
    }

    /// Nothing but pixels written: where those come anew, nobody misses it.
    fn only_writes(&self) -> bool {
        self.reads.is_empty() && self.keeps.is_empty()
    }
}

/// Commands that leave together.
#[derive(Debug)]
pub(crate) struct Part {
    range: Range<usize>,
    commands: usize,
    /// A video's picture and nothing else.
    pub(crate) picture: bool,
    pub(crate) touched: Touched,
    pub(crate) effects: Effects,
}

/// 1 KiB: a video's picture that is as long leaves by itself and as it is. Packing would find nothing in it, take its time, and push out of
/// the stream's window what text leans on.
const PICTURE_ALONE_MIN: u64 = 1024;

fn is_alone(command: &Command<'_>, len: u64) -> bool {
    matches!(command, Command::Video(VideoCommand::Next { .. })) && len >= PICTURE_ALONE_MIN
}

impl Part {
    fn at(start: usize) -> Part {
        let (touched, effects) = (Touched::default(), Effects::default());
        Part { range: start..start, commands: 0, picture: false, touched, effects }
    }

    /// It has room for a command of this length.
    fn takes(&self, command: &Command<'_>, len: u64, cut: Cut<'_>) -> bool {
        let mixes = !self.picture && !is_alone(command, len) && self.commands < COMMANDS_MAX;
        self.commands == 0 || mixes && self.range.len() as u64 + len <= cut.bytes
    }

    fn note(&mut self, command: Command<'_>, arrival: Arrival) {
        self.commands += 1;
        let Touched { writes, reads, moves, keeps, recalls, streams, ends } = &mut self.touched;
        if let Command::Video(command) = &command {
            *streams |= 1 << command.id();
        }
        let written = match command {
            Command::Copy { region, dx, dy } => {
                let copy = CopyCommand { region, dx, dy };
                reads.add(&copy.source());
                writes.add(&copy.region);
                *moves = true;
                return self.effects.push_copy(copy);
            }
            Command::Keep { rect, slot } => {
                reads.add_rect(rect);
                return keeps.push(slot);
            }
            Command::Recall { rect, slot } => {
                recalls.push(slot);
                Region::from(rect)
            }
            Command::Sfill { region, .. } => region,
            Command::Pfill { rect, .. } | Command::Bitmap { rect, .. } | Command::Raw { rect, .. } => {
                Region::from(rect)
            }
            Command::Video(VideoCommand::Next { clip, .. }) => clip,
            Command::Video(command) => {
                if let VideoCommand::End { id } = command {
                    *ends |= 1 << id;
                }
                return;
            }
        };
        writes.add(&written);
        // Kept apart where it is of use: what mends is then known to mend.
        if arrival != Arrival::Ordered {
            self.effects.push_write(&written);
        }
    }
}

/// What commands were made of, and how they are to be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    /// Pixels they may write.
    pub(crate) region: &'a Region,
    pub(crate) screen: Size,
    pub(crate) arrival: Arrival,
    /// About as many bytes a part of more commands than one has at most.
    pub(crate) bytes: u64,
    /// Most bytes of any.
    pub(crate) bytes_max: u64,
}

/// The parts of one update that have not left, in their order. The last takes more commands until `close`.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    bytes: Vec<u8>,
    queue: VecDeque<Part>,
    closed: bool,
    broken: Broken,
}

impl Parts {
    /// None, with memory that was used before.
    pub(crate) fn within(mut buffer: Vec<u8>, broken: Broken) -> Parts {
        buffer.clear();
        Parts { bytes: buffer, broken, ..Parts::default() }
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that have not left.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.queue.iter().map(|part| part.range.len() as u64).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.queue.iter()
    }

    /// The next to leave, where it is complete.
    pub(crate) fn first(&self) -> Option<&Part> {
        self.queue.front().filter(|_| self.closed || self.queue.len() > 1)
    }

    /// Takes the next to leave.
    pub(crate) fn pop(&mut self) -> Option<Part> {
        self.queue.pop_front()
    }

    pub(crate) fn commands(&self, part: &Part) -> &[u8] {
        &self.bytes[part.range.clone()]
    }

    /// Nothing is added any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Adds a COPY.
    pub(crate) fn push_copy(&mut self, CopyCommand { region, dx, dy }: CopyCommand, cut: Cut<'_>) {
        let mut command = Vec::new();
        Command::Copy { region, dx, dy }.encode(&mut command);
        self.push(&command, cut);
    }

    /// Adds commands; false, with none added, where one is too long. The first command of each part leans on none before
    /// it: they are written anew.
    pub(crate) fn push(&mut self, commands: &[u8], cut: Cut<'_>) -> bool {
        let mut reader = CommandReader::new(commands, cut.screen);
        let mut read = Vec::new();
        let mut rest = commands.len();
        while let Some(Ok(command)) = reader.next() {
            read.push((command, rest as u64 - reader.rest_len() as u64));
            rest = reader.rest_len();
        }
        let unread = &commands[commands.len() - rest..];
        if read.iter().map(|&(_, len)| len).chain([unread.len() as u64]).any(|len| len > cut.bytes_max) {
            return false;
        }
        let mut read = read.into_iter().peekable();
        while let Some((command, len)) = read.peek() {
            if self.queue.back().is_none_or(|part| !part.takes(command, *len, cut)) {
                self.queue.push_back(Part::at(self.bytes.len()));
            }
            let Some(part) = self.queue.back_mut() else { break };
            let mut writer = CommandWriter::new(&mut self.bytes);
            while let Some((command, len)) = read.next_if(|(command, len)| part.takes(command, *len, cut)) {
                writer.put(&command);
                part.picture = is_alone(&command, len);
                part.range.end = writer.len();
                part.note(command, cut.arrival);
            }
        }
        if !unread.is_empty() {
            self.push_unread(unread, cut.region);
        }
        true
    }

    /// Not for us to read: it leaves as it is, and any pixel may be made of any other.
    fn push_unread(&mut self, commands: &[u8], region: &Region) {
        let mut part = Part::at(self.bytes.len());
        self.bytes.extend_from_slice(commands);
        part.range.end = self.bytes.len();
        part.commands = COMMANDS_MAX;
        part.touched = Touched { writes: region.clone(), reads: region.clone(), moves: true, ..Touched::default() };
        part.effects.push_unknown(region);
        self.queue.push_back(part);
    }

    /// Leaves out those parts of which what they write is needless, and gives what they would have written. That is added
    /// to `lacking`, which is followed through the parts that stay.
    ///
    /// What is said of a video stays: the next picture may lean on this one. What a viewer is to keep is left out with all that follows it, or not at all: a slot may have been emptied for the next.
    pub(crate) fn take_back(&mut self, needless: impl Fn(&Region) -> bool, lacking: &mut Region) -> Region {
        let mut taken = Region::new();
        let pictures_stay = !self.broken.is(Mutation::PicturesAreTakenBack);
        let is_said = |part: &Part| part.touched.streams != 0 && pictures_stay;
        let stays = |part: &Part| part.touched.moves || is_said(part) || !needless(&part.touched.writes);
        let tail = self.queue.iter().rposition(stays).map_or(0, |last| last + 1);
        let writes = self.queue.range(tail..).any(|part| !part.touched.writes.is_empty());
        let tail = if writes { tail } else { self.queue.len() };
        let mut at = 0;
        self.queue.retain(|part| {
            let may_go = part.touched.only_writes() || at >= tail;
            at += 1;
            let needless = may_go && !stays(part);
            if needless {
                taken.add(&part.touched.writes);
                lacking.add(&part.touched.writes);
            } else {
                part.effects.follow(lacking);
            }
            !needless
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::command::{BitmapDepth, Encoding, Packing};
    use thinc_protocol::video::Picture;
    use thinc_region::Rect;

    use super::*;

    const SCREEN: Size = Size { width: 100, height: 100 };

    fn cut(region: &Region) -> Cut<'_> {
        Cut { region, screen: SCREEN, arrival: Arrival::Ordered, bytes: 40, bytes_max: 1000 }
    }

    fn decoded(bytes: &[u8]) -> Vec<Command<'_>> {
        CommandReader::new(bytes, SCREEN).collect::<Result<_, _>>().expect("each part can be read by itself")
    }

    /// Commands that lean on those before them: corners, and the colours of a BITMAP.
    fn leaning() -> Vec<Command<'static>> {
        let bitmap = |y| Command::Bitmap {
            rect: Rect::at(60, y, 8, 16),
            depth: BitmapDepth::One,
            fg: 0,
            bg: 0xff_ffff,
            packing: Packing::Plain,
            data: &[0x5a; 16],
        };
        let raw = Command::Raw { rect: Rect::at(62, 80, 4, 1), encoding: Encoding::Plain, data: &[7; 12] };
        vec![bitmap(0), bitmap(16), bitmap(32), raw, bitmap(48), bitmap(64)]
    }

    #[test]
    fn each_part_can_be_read_by_itself_and_together_they_are_the_update() {
        let commands = leaning();
        let mut bytes = Vec::new();
        let mut writer = CommandWriter::new(&mut bytes);
        commands.iter().for_each(|command| writer.put(command));
        let region = Region::from(SCREEN.rect());
        let mut parts = Parts::default();
        assert!(parts.push(&bytes, cut(&region)));
        assert_eq!(parts.first().map(|part| part.commands), Some(1), "the colours make the first one longer");
        parts.close();
        let found: Vec<_> = parts.iter().flat_map(|part| decoded(parts.commands(part))).collect();
        assert_eq!(found, commands);
        let lengths: Vec<_> = parts.iter().map(|part| parts.commands(part).len()).collect();
        // A command that leans on one in the part before takes a few bytes more than it did.
        assert!(lengths.len() > 2 && lengths.iter().all(|&len| len <= 50), "{lengths:?}");
        assert_eq!(parts.bytes_left(), lengths.iter().sum::<usize>() as u64);
        let area: u64 = parts.iter().map(|part| part.touched.writes.area()).sum();
        assert_eq!(area, 5 * 8 * 16 + 4);
    }

    #[test]
    fn a_videos_picture_leaves_by_itself() {
        let region = Region::from(SCREEN.rect());
        let mut bytes = Vec::new();
        let fill = |x| Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color: 7 };
        let next = |time, data| {
            let clip = Region::from(Rect::at(20, 20, 40, 40));
            Command::Video(VideoCommand::Next { id: 1, time, clip, picture: Picture::Coded { key: false, data } })
        };
        let long = [7; 2 * PICTURE_ALONE_MIN as usize];
        let commands = [fill(0), fill(10), next(1, &long), fill(20), next(2, &[7; 9])];
        let mut writer = CommandWriter::new(&mut bytes);
        commands.iter().for_each(|command| writer.put(command));
        let mut parts = Parts::default();
        assert!(parts.push(&bytes, Cut { bytes: 10_000, bytes_max: 10_000, ..cut(&region) }));
        parts.close();
        let found: Vec<_> = parts.iter().map(|part| (part.commands, part.picture)).collect();
        assert_eq!(found, [(2, false), (1, true), (2, false)]);
        let read: Vec<_> = parts.iter().flat_map(|part| decoded(parts.commands(part))).collect();
        assert_eq!(read, commands);
    }

    #[test]
    fn a_part_that_may_still_grow_does_not_leave() {
        let region = Region::from(SCREEN.rect());
        let mut parts = Parts::default();
        let fill = |x| {
            let mut bytes = Vec::new();
            Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color: 7 }.encode(&mut bytes);
            bytes
        };
        assert!(parts.push(&fill(0), cut(&region)));
        assert!(parts.first().is_none());
        assert!(parts.push(&fill(10), cut(&region)));
        parts.close();
        assert_eq!(parts.first().map(|part| part.commands), Some(2), "two stretches are one part where there is room");
    }

    #[test]
    fn one_command_too_long_for_the_viewer_takes_none_along() {
        let region = Region::from(SCREEN.rect());
        let mut parts = Parts::default();
        let mut bytes = Vec::new();
        Command::Sfill { region: Rect::at(0, 0, 4, 4).into(), color: 7 }.encode(&mut bytes);
        Command::Raw { rect: Rect::at(0, 4, 100, 4), encoding: Encoding::Plain, data: &[0; 1200] }.encode(&mut bytes);
        assert!(!parts.push(&bytes, cut(&region)));
        assert!(parts.is_empty());
    }

    #[test]
    fn what_is_to_be_kept_is_taken_back_with_all_behind_it() {
        let region = Region::from(SCREEN.rect());
        let rects = [Rect::at(0, 0, 20, 20), Rect::at(0, 30, 20, 20), Rect::at(0, 60, 20, 20)];
        let parts = || {
            let mut parts = Parts::default();
            for (slot, rect) in (0..).zip(rects) {
                for command in [Command::Sfill { region: rect.into(), color: 7 }, Command::Keep { rect, slot }] {
                    let mut bytes = Vec::new();
                    command.encode(&mut bytes);
                    assert!(parts.push(&bytes, Cut { bytes: 1, ..cut(&region) }));
                }
            }
            parts.close();
            parts
        };
        let middle = |writes: &Region| !writes.overlaps_rect(&rects[1]);
        let (mut whole, mut lacking) = (parts(), Region::new());
        let taken = whole.take_back(middle, &mut lacking);
        assert_eq!(
            (taken.rects(), whole.queue.len()),
            (&[rects[0], rects[2]][..], 2),
            "the first is still kept, the second shown"
        );
        let (mut whole, mut lacking) = (parts(), Region::new());
        whole.take_back(|writes| !writes.overlaps_rect(&rects[2]), &mut lacking);
        assert_eq!(whole.queue.len(), 4, "its KEEP stays, and every KEEP before it");
        let (mut whole, mut lacking) = (parts(), Region::new());
        whole.take_back(|_| true, &mut lacking);
        assert!(whole.is_empty());
    }

    #[test]
    fn what_reads_is_never_taken_back() {
        let region = Region::from(SCREEN.rect());
        let mut bytes = Vec::new();
        let to = Rect::at(0, 50, 20, 20);
        Command::Copy { region: to.into(), dx: 0, dy: 50 }.encode(&mut bytes);
        let mut parts = Parts::default();
        assert!(parts.push(&bytes, cut(&region)));
        assert!(parts.push(&[0xff; 4], cut(&region)), "what cannot be read leaves as it is");
        let mut lacking = Region::from(Rect::at(0, 0, 5, 5));
        assert!(parts.take_back(|_| true, &mut lacking).is_empty());
        assert_eq!(lacking, region, "the COPY carries it on, and nobody knows what the rest does");
    }
}
