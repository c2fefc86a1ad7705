//! Path 10/13: beside session.rs, to the shell, which tells them to monitoring.
//! What a session counts of all its viewers, those that have left too: how long echoes, round trips
//! and encoding took, and the bytes of each kind of command. Knows numbers; never pixels or people.

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, Encoding};

/// Upper bounds of a histogram's buckets but the last, in microseconds. From what encoding a glyph
/// takes to where a person notices each key.
pub const BOUNDS_US: [u64; 14] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000,
];

/// Times, by how long they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many were at most as long as the bound of the same place, and longer than the one
    /// before; the last, how many were longer than all bounds.
    pub counts: [u64; BOUNDS_US.len() + 1],
    /// Their sum.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts a time.
    pub(crate) fn observe(&mut self, time: Micros) {
        self.counts[BOUNDS_US.partition_point(|&bound| bound < time)] += 1;
        self.sum_us += time;
    }

    fn add(&mut self, other: &Histogram) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.sum_us += other.sum_us;
    }
}

/// The names of the kinds of commands; photographs are RAWs as JPEG.
pub const COMMAND_KINDS: [&str; 9] =
    ["copy", "sfill", "pfill", "bitmap", "raw", "photo", "keep", "recall", "video"];

/// Bytes, of each kind of command.
pub type CommandBytes = [u64; COMMAND_KINDS.len()];

/// The kind of a command, as in [`COMMAND_KINDS`].
pub(crate) fn kind_of(command: &Command<'_>) -> usize {
    match command {
        Command::Copy { .. } => 0,
        Command::Sfill { .. } => 1,
        Command::Pfill { .. } => 2,
        Command::Bitmap { .. } => 3,
        Command::Raw { encoding: Encoding::Jpeg, .. } => 5,
        Command::Raw { .. } => 4,
        Command::Keep { .. } => 6,
        Command::Recall { .. } => 7,
        Command::Video(_) => 8,
    }
}

/// All that is counted. Nothing ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// From the delivery of an input until the first update that responds to it is sent.
    pub echo: Histogram,
    /// From an update that is sent until the viewer has applied it.
    pub round_trip: Histogram,
    /// Encoding a job.
    pub encode: Histogram,
    /// Bytes of commands that were sent, before the connection's compression.
    pub command_bytes: CommandBytes,
    /// Bytes of all messages.
    pub sent_bytes: u64,
    /// Updates.
    pub updates: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Figures) {
        self.echo.add(&other.echo);
        self.round_trip.add(&other.round_trip);
        self.encode.add(&other.encode);
        self.add_commands(&other.command_bytes);
        self.sent_bytes += other.sent_bytes;
        self.updates += other.updates;
    }

    pub(crate) fn add_commands(&mut self, bytes: &CommandBytes) {
        for (sum, bytes) in self.command_bytes.iter_mut().zip(bytes) {
            *sum += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_first_bucket_that_is_as_long() {
        let mut histogram = Histogram::default();
        for time in [0, 100, 101, 2_000_000, 2_000_001] {
            histogram.observe(time);
        }
        assert_eq!(histogram.counts[..2], [2, 1]);
        assert_eq!(histogram.counts[BOUNDS_US.len() - 1..], [1, 1]);
        assert_eq!(histogram.counts.iter().sum::<u64>(), 5);
        assert_eq!(histogram.sum_us, 4_000_202);
        let mut twice = histogram;
        twice.add(&histogram);
        assert_eq!((twice.counts[0], twice.sum_us), (4, 8_000_404));
    }
}
