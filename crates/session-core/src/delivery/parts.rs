//! Path 7/13: beside ledger.rs, whose updates are sent in parts.
//! An update's commands, divided into parts that are sent one by one, and the effects of each on a
//! viewer's pixels. Knows commands and rectangles; never their pixels, nor when a part is sent.

use std::collections::VecDeque;
use std::ops::Range;

use thinc_protocol::command::{Command, CommandWriter, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::limits::COMMANDS_MAX;
use thinc_protocol::video::VideoCommand;
use thinc_region::Region;

use crate::delivery::effects::{DeliveryOrder, Effects};
use crate::figures::{CommandBytes, kind_of};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::copies::CopyCommand;

/// What commands read and write, as far as their order matters.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Pixels they change.
    pub(crate) writes: Region,
    /// Pixels they read: the sources of COPYs, and what KEEP stores.
    pub(crate) reads: Region,
    /// Some of these are moved by COPYs.
    moves: bool,
    /// Slots of the viewer's cache that they fill, and that they show.
    keeps: Vec<u32>,
    recalls: Vec<u32>,
    /// Video streams that they concern, a bit each: commands of one stream keep their order. And
    /// those that they end.
    pub(crate) streams: u16,
    pub(crate) ends: u16,
}

impl Touched {
    /// Whether the two may not be reordered.
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

    /// It KEEPs some of these pixels.
    pub(crate) fn keeps_any_of(&self, region: &Region) -> bool {
        !self.keeps.is_empty() && self.reads.overlaps(region)
    }

    /// It only writes pixels, so it is not needed once those are sent again.
    fn only_writes(&self) -> bool {
        self.reads.is_empty() && self.keeps.is_empty()
    }
}

/// Commands that are sent together.
#[derive(Debug)]
pub(crate) struct UpdatePart {
    range: Range<usize>,
    commands: usize,
    /// Bytes of each kind.
    pub(crate) command_bytes: CommandBytes,
    /// A frame of a video and nothing else.
    pub(crate) is_frame: bool,
    /// It is such a frame, and not packed.
    pub(crate) is_final: bool,
    pub(crate) touched: Touched,
    pub(crate) effects: Effects,
    painted: Vec<Painted>,
}

/// What commands do to lossy pixels of their viewer.
#[derive(Clone, Debug)]
pub(crate) enum Painted {
    /// These pixels are replaced.
    Written(Region, Fidelity),
    /// Lossy pixels of the source are moved along.
    Copied(CopyCommand),
}

/// Whether written pixels equal those of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fidelity {
    Lossless,
    /// A photograph.
    Lossy,
    /// A coded frame of a video.
    Coded,
}

/// What the frames of an update are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FramesOf {
    /// Pixels of the viewer's framebuffer.
    #[default]
    Framebuffer,
    /// What the right eye sees, which is none of its pixels.
    RightEye,
    /// The same at rest: its pixels, which are packed.
    RestingRightEye,
}

/// 1 KiB: a frame of a video at least as long is a part of its own and is not packed. Compression
/// would take time without finding anything, and push useful history for text out of the window.
const FRAME_PART_MIN: u64 = 1024;

fn is_own_part(command: &Command<'_>, len: u64) -> bool {
    matches!(command, Command::Video(VideoCommand::Next { .. })) && len >= FRAME_PART_MIN
}

impl UpdatePart {
    fn at(start: usize) -> UpdatePart {
        let (touched, effects) = (Touched::default(), Effects::default());
        UpdatePart {
            range: start..start,
            commands: 0,
            command_bytes: CommandBytes::default(),
            is_frame: false,
            is_final: false,
            touched,
            effects,
            painted: Vec::new(),
        }
    }

    /// What its commands do to lossy pixels, in order.
    pub(crate) fn painted(&self) -> impl Iterator<Item = Painted> {
        let writes = &self.touched.writes;
        let is_lossless = self.painted.is_empty() && !writes.is_empty();
        let all = is_lossless.then(|| Painted::Written(writes.clone(), Fidelity::Lossless));
        all.into_iter().chain(self.painted.iter().cloned())
    }

    /// These pixels are written, before they are added to `touched`. Until something else than
    /// lossless pixels is written nothing is noted: `touched` has it all.
    fn paint(&mut self, written: &Region, fidelity: Fidelity) {
        match self.painted.last_mut() {
            None if fidelity == Fidelity::Lossless => {}
            Some(Painted::Written(region, Fidelity::Lossless))
                if fidelity == Fidelity::Lossless =>
            {
                region.add(written);
            }
            _ => self.push_painted(Painted::Written(written.clone(), fidelity)),
        }
    }

    fn push_painted(&mut self, painted: Painted) {
        if self.painted.is_empty() {
            let before = self.touched.writes.clone();
            self.painted.push(Painted::Written(before, Fidelity::Lossless));
        }
        self.painted.push(painted);
    }

    /// It has room for a command of this length. Exact pixels over lossy ones, as those of text in
    /// front of what moves, are shown at the same moment as these, in a part that is longer.
    fn takes(&self, command: &Command<'_>, len: u64, cut: Cut) -> bool {
        let mixes = !self.is_frame && !is_own_part(command, len) && self.commands < COMMANDS_MAX;
        let bytes = self.range.len() as u64 + len;
        let fits = bytes <= cut.bytes || bytes <= cut.bytes_max && self.repairs(command);
        self.commands == 0 || mixes && fits
    }

    /// The command replaces lossy pixels of this part by exact ones.
    fn repairs(&self, command: &Command<'_>) -> bool {
        let Command::Raw { rect, encoding, .. } = command else { return false };
        let lossy = self.painted.iter().filter_map(|painted| match painted {
            Painted::Written(region, Fidelity::Lossy) => Some(region),
            _ => None,
        });
        *encoding != Encoding::Jpeg && lossy.rev().any(|region| region.overlaps_rect(rect))
    }

    fn note(&mut self, command: Command<'_>, cut: Cut) {
        self.commands += 1;
        if let Command::Video(command) = &command {
            self.touched.streams |= 1 << command.id();
        }
        let (written, fidelity) = match command {
            Command::Copy { region, dx, dy } => {
                let copy = CopyCommand { region, dx, dy };
                self.push_painted(Painted::Copied(copy.clone()));
                self.touched.reads.add(&copy.source());
                self.touched.writes.add(&copy.region);
                self.touched.moves = true;
                return self.effects.push_copy(copy);
            }
            Command::Keep { rect, slot } => {
                self.touched.reads.add_rect(rect);
                return self.touched.keeps.push(slot);
            }
            Command::Recall { rect, slot } => {
                self.touched.recalls.push(slot);
                (rect.into(), Fidelity::Lossless)
            }
            Command::Raw { rect, encoding: Encoding::Jpeg, .. } => (rect.into(), Fidelity::Lossy),
            Command::Sfill { region, .. } => (region, Fidelity::Lossless),
            Command::Pfill { rect, .. }
            | Command::Bitmap { rect, .. }
            | Command::Raw { rect, .. } => (rect.into(), Fidelity::Lossless),
            Command::Video(VideoCommand::Next { .. }) if cut.frames != FramesOf::Framebuffer => {
                return;
            }
            Command::Video(VideoCommand::Next { clip, frame, .. }) => {
                let is_lossless = frame.is_lossless();
                (clip, if is_lossless { Fidelity::Lossless } else { Fidelity::Coded })
            }
            Command::Video(command) => {
                if let VideoCommand::End { id } = command {
                    self.touched.ends |= 1 << id;
                }
                return;
            }
        };
        self.paint(&written, fidelity);
        self.touched.writes.add(&written);
        // Only needed if updates may be lost: a write repairs stale pixels.
        if cut.order != DeliveryOrder::Ordered {
            self.effects.push_write(&written);
        }
    }
}

/// How commands are to be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) order: DeliveryOrder,
    pub(crate) frames: FramesOf,
    /// Approximate most bytes of a part with several commands.
    pub(crate) bytes: u64,
    /// Most bytes of any part.
    pub(crate) bytes_max: u64,
}

/// The unsent parts of one update, in order. The last takes more commands until `close`.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    bytes: Vec<u8>,
    queue: VecDeque<UpdatePart>,
    closed: bool,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Parts {
    /// No parts yet, with memory that is reused.
    pub(crate) fn within(mut buffer: Vec<u8>) -> Parts {
        buffer.clear();
        Parts { bytes: buffer, ..Parts::default() }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that were not sent.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.queue.iter().map(|part| part.range.len() as u64).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &UpdatePart> {
        self.queue.iter()
    }

    /// The next part, if it is complete.
    pub(crate) fn first(&self) -> Option<&UpdatePart> {
        self.queue.front().filter(|_| self.closed || self.queue.len() > 1)
    }

    /// Takes the next part.
    pub(crate) fn pop(&mut self) -> Option<UpdatePart> {
        self.queue.pop_front()
    }

    pub(crate) fn commands(&self, part: &UpdatePart) -> &[u8] {
        &self.bytes[part.range.clone()]
    }

    /// No more commands follow.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Adds a COPY.
    pub(crate) fn push_copy(&mut self, CopyCommand { region, dx, dy }: CopyCommand, cut: Cut) {
        let mut command = Commands::default();
        Command::Copy { region, dx, dy }.append_to(&mut command);
        self.push(&command, cut);
    }

    /// Adds commands; false, with none added, if one is too long. They are written again, so that
    /// the first command of each part refers to none before it.
    pub(crate) fn push(&mut self, commands: &Commands, cut: Cut) -> bool {
        if commands.longest() as u64 > cut.bytes_max {
            return false;
        }
        let mut written = commands.iter().map(|(command, len)| (command, len as u64)).peekable();
        while let Some((command, len)) = written.peek() {
            if self.queue.back().is_none_or(|part| !part.takes(command, *len, cut)) {
                self.queue.push_back(UpdatePart::at(self.bytes.len()));
            }
            let Some(part) = self.queue.back_mut() else { break };
            let mut writer = CommandWriter::new(&mut self.bytes);
            while let Some((command, len)) =
                written.next_if(|(command, len)| part.takes(command, *len, cut))
            {
                let start = writer.len();
                writer.put(&command);
                part.is_frame = is_own_part(&command, len);
                part.is_final = part.is_frame && cut.frames != FramesOf::RestingRightEye;
                part.range.end = writer.len();
                part.command_bytes[kind_of(&command)] += (writer.len() - start) as u64;
                part.note(command, cut);
            }
        }
        true
    }

    /// Removes the parts that write only what `may_withdraw` allows, and returns the pixels they
    /// would have written. Those are added to `stale`, which is followed through the parts that
    /// stay.
    ///
    /// Video commands stay, since the next frame may refer to this one. A KEEP is removed together
    /// with everything after it, or not at all: a slot may have been emptied for the next one.
    pub(crate) fn withdraw(
        &mut self,
        may_withdraw: impl Fn(&Region) -> bool,
        stale: &mut Region,
    ) -> Region {
        let mut withdrawn = Region::new();
        let is_video = |part: &UpdatePart| {
            part.touched.streams != 0 && !mutated!(self.mutation, FramesAreWithdrawn)
        };
        let stays = |part: &UpdatePart| {
            part.touched.moves || is_video(part) || !may_withdraw(&part.touched.writes)
        };
        let tail = self.queue.iter().rposition(stays).map_or(0, |last| last + 1);
        let writes = self.queue.range(tail..).any(|part| !part.touched.writes.is_empty());
        let tail = if writes { tail } else { self.queue.len() };
        let mut at = 0;
        self.queue.retain(|part| {
            let may_go = part.touched.only_writes() || at >= tail;
            at += 1;
            let may_withdraw = may_go && !stays(part);
            if may_withdraw {
                withdrawn.add(&part.touched.writes);
                stale.add(&part.touched.writes);
            } else {
                part.effects.follow(stale);
            }
            !may_withdraw
        });
        withdrawn
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::command::{BitmapDepth, CommandReader, Compression};
    use thinc_protocol::video::FrameData;
    use thinc_region::{Rect, Size};

    use super::*;

    const SCREEN: Size = Size { width: 100, height: 100 };

    const CUT: Cut = Cut {
        order: DeliveryOrder::Ordered,
        frames: FramesOf::Framebuffer,
        bytes: 40,
        bytes_max: 1000,
    };

    fn decoded(bytes: &[u8]) -> Vec<Command<'_>> {
        CommandReader::new(bytes, SCREEN)
            .collect::<Result<_, _>>()
            .expect("each part can be read by itself")
    }

    /// Commands that refer to those before them: corners, and the colours of a BITMAP.
    fn leaning() -> Vec<Command<'static>> {
        let bitmap = |y| Command::Bitmap {
            rect: Rect::at(60, y, 8, 16),
            depth: BitmapDepth::One,
            fg: 0,
            bg: 0xff_ffff,
            compression: Compression::Plain,
            data: &[0x5a; 16],
        };
        let raw = Command::Raw {
            rect: Rect::at(62, 80, 4, 1),
            encoding: Encoding::Plain,
            data: &[7; 12],
        };
        vec![bitmap(0), bitmap(16), bitmap(32), raw, bitmap(48), bitmap(64)]
    }

    #[test]
    fn each_part_can_be_read_by_itself_and_together_they_are_the_update() {
        let commands = leaning();
        let mut bytes = Commands::default();
        let mut writer = bytes.writer();
        commands.iter().for_each(|command| writer.put(command));
        let mut parts = Parts::default();
        assert!(parts.push(&bytes, CUT));
        assert_eq!(
            parts.first().map(|part| part.commands),
            Some(1),
            "the colours make the first one longer"
        );
        parts.close();
        let found: Vec<_> = parts.iter().flat_map(|part| decoded(parts.commands(part))).collect();
        assert_eq!(found, commands);
        let lengths: Vec<_> = parts.iter().map(|part| parts.commands(part).len()).collect();
        // A command that referred to one in the part before takes a few bytes more than it did.
        assert!(lengths.len() > 2 && lengths.iter().all(|&len| len <= 50), "{lengths:?}");
        assert_eq!(parts.bytes_left(), lengths.iter().sum::<usize>() as u64);
        let area: u64 = parts.iter().map(|part| part.touched.writes.area()).sum();
        assert_eq!(area, 5 * 8 * 16 + 4);
    }

    #[test]
    fn a_frame_of_a_video_is_a_part_of_its_own() {
        let mut bytes = Commands::default();
        let fill = |x| Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color: 7 };
        let next = |time, data| {
            let clip = Region::from(Rect::at(20, 20, 40, 40));
            Command::Video(VideoCommand::Next {
                id: 1,
                time,
                clip,
                frame: FrameData::h264(false, data),
            })
        };
        let long = [7; 2 * FRAME_PART_MIN as usize];
        let commands = [fill(0), fill(10), next(1, &long), fill(20), next(2, &[7; 9])];
        let mut writer = bytes.writer();
        commands.iter().for_each(|command| writer.put(command));
        let mut parts = Parts::default();
        assert!(parts.push(&bytes, Cut { bytes: 10_000, bytes_max: 10_000, ..CUT }));
        parts.close();
        let found: Vec<_> = parts.iter().map(|part| (part.commands, part.is_frame)).collect();
        assert_eq!(found, [(2, false), (1, true), (2, false)]);
        let read: Vec<_> = parts.iter().flat_map(|part| decoded(parts.commands(part))).collect();
        assert_eq!(read, commands);
    }

    #[test]
    fn exact_pixels_are_in_the_part_of_the_lossy_ones_below_them() {
        let raw = |rect, encoding, data| Command::Raw { rect, encoding, data };
        let jpeg = |y| raw(Rect::at(0, y, 100, 20), Encoding::Jpeg, &[7; 30]);
        let text = |x, y| raw(Rect::at(x, y, 4, 4), Encoding::Plain, &[9; 48]);
        let commands = [
            jpeg(0),
            text(10, 5),
            text(30, 15),
            jpeg(20),
            text(10, 25),
            text(10, 60),
            text(20, 60),
        ];
        let mut bytes = [Commands::default(), Commands::default()];
        for (at, command) in commands.iter().enumerate() {
            // As two threads may have encoded them.
            command.clone().append_to(&mut bytes[usize::from(at > 1)]);
        }
        let mut parts = Parts::default();
        assert!(parts.push(&bytes[0], CUT));
        assert!(parts.first().is_none(), "more of it may follow");
        assert!(parts.push(&bytes[1], CUT));
        parts.close();
        let counts: Vec<_> = parts.iter().map(|part| part.commands).collect();
        assert_eq!(counts, [3, 2, 1, 1]);
        // Within what the viewer takes.
        let mut parts = Parts::default();
        let cut = Cut { bytes_max: 100, ..CUT };
        bytes.iter().for_each(|bytes| assert!(parts.push(bytes, cut)));
        assert!(parts.iter().all(|part| part.range.len() <= 100));
    }

    #[test]
    fn what_the_right_eye_sees_is_no_pixel_of_the_framebuffer() {
        let mut bytes = Commands::default();
        let data = [7; 4 * 32 * 32];
        let next = Command::Video(VideoCommand::Next {
            id: 1,
            time: 5,
            clip: Rect::at(20, 20, 32, 32).into(),
            frame: FrameData::Pixels { data: &data },
        });
        next.append_to(&mut bytes);
        for (frames, writes, is_final) in [
            (FramesOf::Framebuffer, 32 * 32, true),
            (FramesOf::RightEye, 0, true),
            (FramesOf::RestingRightEye, 0, false),
        ] {
            let mut parts = Parts::default();
            assert!(parts.push(&bytes, Cut { frames, bytes: 10_000, bytes_max: 10_000, ..CUT }));
            parts.close();
            let part = parts.first().expect("there is one part");
            assert_eq!((part.is_frame, part.is_final), (true, is_final), "{frames:?}");
            assert_eq!(part.touched.writes.area(), writes, "{frames:?}");
            assert_eq!(part.touched.streams, 1 << 1, "frames of a stream keep their order");
            assert_eq!(part.painted().count(), usize::from(writes > 0), "{frames:?}");
        }
    }

    #[test]
    fn a_part_that_may_still_grow_is_not_sent() {
        let mut parts = Parts::default();
        let fill = |x| {
            let mut bytes = Commands::default();
            Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color: 7 }.append_to(&mut bytes);
            bytes
        };
        assert!(parts.push(&fill(0), CUT));
        assert!(parts.first().is_none());
        assert!(parts.push(&fill(10), CUT));
        parts.close();
        assert_eq!(
            parts.first().map(|part| part.commands),
            Some(2),
            "two stretches are one part where there is room"
        );
    }

    #[test]
    fn one_command_too_long_for_the_viewer_rejects_all() {
        let mut parts = Parts::default();
        let mut bytes = Commands::default();
        Command::Sfill { region: Rect::at(0, 0, 4, 4).into(), color: 7 }.append_to(&mut bytes);
        Command::Raw { rect: Rect::at(0, 4, 100, 4), encoding: Encoding::Plain, data: &[0; 1200] }
            .append_to(&mut bytes);
        assert!(!parts.push(&bytes, CUT));
        assert!(parts.is_empty());
    }

    #[test]
    fn a_keep_is_withdrawn_with_everything_after_it() {
        let rects = [Rect::at(0, 0, 20, 20), Rect::at(0, 30, 20, 20), Rect::at(0, 60, 20, 20)];
        let parts = || {
            let mut parts = Parts::default();
            for (slot, rect) in (0..).zip(rects) {
                for command in
                    [Command::Sfill { region: rect.into(), color: 7 }, Command::Keep { rect, slot }]
                {
                    let mut bytes = Commands::default();
                    command.append_to(&mut bytes);
                    assert!(parts.push(&bytes, Cut { bytes: 1, ..CUT }));
                }
            }
            parts.close();
            parts
        };
        let middle = |writes: &Region| !writes.overlaps_rect(&rects[1]);
        let (mut whole, mut stale) = (parts(), Region::new());
        let withdrawn = whole.withdraw(middle, &mut stale);
        assert_eq!(
            (withdrawn.rects(), whole.queue.len()),
            (&[rects[0], rects[2]][..], 2),
            "the first is still kept, the second shown"
        );
        let (mut whole, mut stale) = (parts(), Region::new());
        whole.withdraw(|writes| !writes.overlaps_rect(&rects[2]), &mut stale);
        assert_eq!(whole.queue.len(), 4, "its KEEP stays, and every KEEP before it");
        let (mut whole, mut stale) = (parts(), Region::new());
        whole.withdraw(|_| true, &mut stale);
        assert!(whole.is_empty());
    }

    #[test]
    fn a_command_that_reads_is_never_withdrawn() {
        let mut bytes = Commands::default();
        let to = Rect::at(0, 50, 20, 20);
        Command::Copy { region: to.into(), dx: 0, dy: 50 }.append_to(&mut bytes);
        let mut parts = Parts::default();
        assert!(parts.push(&bytes, CUT));
        let mut stale = Region::from(Rect::at(0, 0, 5, 5));
        assert!(parts.withdraw(|_| true, &mut stale).is_empty());
        let moved: Region = [Rect::at(0, 0, 5, 5), Rect::at(0, 50, 5, 5)].into_iter().collect();
        assert_eq!(stale, moved, "the COPY moves it along");
    }
}
