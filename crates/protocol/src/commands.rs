//! Path 9/13: from codec-enc, to session-core/delivery/parts.rs.
//! Written commands and their extents: what each of them is, beside its bytes, so that nobody reads
//! these again. Knows commands; never what encoded data contains.

use crate::command::{Command, CommandWriter};
use crate::video::VideoCommand;

/// Commands in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    bytes: Vec<u8>,
    extents: Vec<Extent>,
}

/// One written command.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The command, without its data.
    command: Command<'static>,
    /// Where its bytes end; its data are the last of them.
    end: usize,
    data_len: usize,
}

impl Commands {
    /// Appends commands that may refer to each other and to none before them.
    pub fn writer(&mut self) -> CommandWriter<'_> {
        CommandWriter::with_extents(&mut self.bytes, &mut self.extents)
    }

    /// Appends all of `other`.
    pub fn append(&mut self, other: &Commands) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |extent: &Extent| Extent { end: start + extent.end, ..extent.clone() };
        self.extents.extend(other.extents.iter().map(moved));
    }

    /// The commands, and how many bytes each of them takes.
    pub fn iter(&self) -> impl Iterator<Item = (Command<'_>, usize)> {
        let mut start = 0;
        self.extents.iter().map(move |Extent { command, end, data_len }| {
            let len = end - start;
            start = *end;
            (with_data(command.clone(), &self.bytes[end - data_len..*end]), len)
        })
    }

    /// Bytes of the longest command.
    pub fn longest(&self) -> usize {
        let mut start = 0;
        let lens = self
            .extents
            .iter()
            .map(|extent| extent.end - std::mem::replace(&mut start, extent.end));
        lens.max().unwrap_or(0)
    }

    /// Their bytes, as they stand in an update.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// No commands.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all commands; their memory is reused.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.extents.clear();
    }

    /// Bytes of memory for them.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.extents.capacity() * size_of::<Extent>()
    }
}

impl Extent {
    pub(crate) fn new(command: Command<'static>, data_len: usize, end: usize) -> Extent {
        Extent { command, end, data_len }
    }
}

/// The command with these data, if it has any.
fn with_data<'a>(mut command: Command<'a>, all: &'a [u8]) -> Command<'a> {
    match &mut command {
        Command::Pfill { data, .. } | Command::Bitmap { data, .. } | Command::Raw { data, .. } => {
            *data = all
        }
        Command::Video(VideoCommand::Next { frame, .. }) => *frame = frame.with_data(all),
        Command::Copy { .. }
        | Command::Sfill { .. }
        | Command::Keep { .. }
        | Command::Recall { .. }
        | Command::Video(_) => {}
    }
    command
}

#[cfg(test)]
mod tests {
    use thinc_region::{Rect, Region, Size};

    use super::*;
    use crate::command::{BitmapDepth, CommandReader, Compression, Encoding};
    use crate::video::{Codec, Eye, FrameData, SampleLayout, Source};

    const SCREEN: Size = Size { width: 100, height: 100 };

    /// One command of each kind, with data where it has any.
    fn each_kind() -> Vec<Command<'static>> {
        let (rect, size) = (Rect::at(4, 8, 4, 2), Size { width: 4, height: 2 });
        let region: Region = [rect, Rect::at(20, 30, 5, 6)].into_iter().collect();
        let clip = Region::from(rect);
        let next = |frame| {
            Command::Video(VideoCommand::Next { id: 3, time: 70, clip: clip.clone(), frame })
        };
        let (source, encoding) = (Source { size, crop: size.rect() }, Encoding::Predicted);
        let layout = SampleLayout::Yuv420;
        vec![
            Command::Copy { region: region.clone(), dx: 4, dy: -3 },
            Command::Sfill { region, color: 0x12_3456 },
            Command::Pfill { rect, tile_width: 2, tile_height: 2, encoding, data: &[1, 2] },
            Command::Bitmap {
                rect,
                depth: BitmapDepth::One,
                fg: 1,
                bg: 2,
                compression: Compression::Plain,
                data: &[0xa0, 0x50],
            },
            Command::Raw { rect, encoding: Encoding::Plain, data: &[7; 24] },
            Command::Keep { rect, slot: 9 },
            Command::Recall { rect, slot: 9 },
            Command::Video(VideoCommand::Init {
                id: 3,
                codec: Codec::H264,
                eye: Eye::Right,
                source,
                place: rect,
            }),
            next(FrameData::Plain { layout, data: &[5; 12] }),
            next(FrameData::Pixels { data: &[4; 32] }),
            next(FrameData::h264(true, &[6; 5])),
            Command::Video(VideoCommand::End { id: 3 }),
        ]
    }

    #[test]
    fn extents_are_what_a_reader_finds() {
        let (all, mut half) = (each_kind(), Commands::default());
        let mut writer = half.writer();
        all.iter().for_each(|command| writer.put(command));
        let mut commands = half.clone();
        commands.append(&half);
        let twice: Vec<_> = all.iter().chain(&all).cloned().collect();
        let mut reader = CommandReader::new(half.as_bytes(), SCREEN);
        let mut rest = half.as_bytes().len();
        let mut read = Vec::new();
        while let Some(command) = reader.next() {
            read.push((command.expect("it was written"), rest - reader.rest_len()));
            rest = reader.rest_len();
        }
        assert_eq!(half.iter().collect::<Vec<_>>(), read);
        assert_eq!(Some(half.longest()), read.iter().map(|&(_, len)| len).max());
        assert_eq!(commands.iter().map(|(command, _)| command).collect::<Vec<_>>(), twice);
        commands.clear();
        assert!(commands.is_empty() && commands.iter().next().is_none());
    }
}
