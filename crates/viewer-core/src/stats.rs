//! Path 12/13: from viewer.rs and decode.rs, to statistics overlays and `--stats-json`.
//! What was received, applied and measured; numbers only, their names are what people and scripts read.
//! Knows durations in microseconds; never a clock.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::Command;

/// Names of [`ViewerStats::commands`], in order.
pub const KIND_NAMES: [&str; 8] = ["copy", "sfill", "pfill", "bitmap", "raw", "keep", "recall", "video"];

/// 64: latencies of the last keys kept, enough for a median a person can watch change.
const ECHOES_LEN_MAX: usize = 64;
/// 256: inputs remembered until their echo comes; at 4 inputs a millisecond still 64 ms, and most have no echo.
const INPUTS_LEN_MAX: usize = 256;

/// What one kind of command has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Commands.
    pub count: u64,
    /// Bytes inside updates, unpacked.
    pub bytes: u64,
    /// Pixels written.
    pub pixels: u64,
}

/// How long an input took to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoLatency {
    /// The input's number.
    pub seq: u32,
    /// Microseconds from `handle_input` to its effect being applied.
    pub applied_us: u64,
    /// Microseconds from `handle_input` to its effect being presented, once it was.
    pub presented_us: Option<u64>,
}

/// What has become of the pictures of videos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoStats {
    /// Streams begun.
    pub streams: u64,
    /// Plain pictures.
    pub plain: u64,
    /// Coded pictures.
    pub coded: u64,
    /// Coded pictures that leaned on none before them.
    pub keys: u64,
    /// Pictures of which something was painted.
    pub shown: u64,
    /// Coded pictures that were decoded when nothing of them was to be seen any more.
    pub late: u64,
    /// Coded pictures that were not decoded: one they lean on was not, or the decoder was behind.
    pub dropped: u64,
    /// Times a session was told that the next one must lean on none.
    pub lost: u64,
    /// Streams that the shell could not show.
    pub refused: u64,
    /// Microseconds of the last coded picture from its receipt until it was painted.
    pub delay_us: Option<u64>,
    /// Most of any.
    pub delay_max_us: Option<u64>,
}

/// Everything counted since the connection began.
#[derive(Clone, Debug, Default)]
pub struct ViewerStats {
    /// Updates applied.
    pub updates: u64,
    /// Updates dropped because they were made for another size of the screen.
    pub updates_dropped: u64,
    /// Of those applied, how many came alone.
    pub updates_alone: u64,
    /// Updates that came after something newer had been applied over them, and are not.
    pub updates_late: u64,
    /// Updates that ended a frame.
    pub frames: u64,
    /// Times something new was presented.
    pub presents: u64,
    /// Bytes received, after TLS.
    pub bytes_in: u64,
    /// Bytes said, before TLS.
    pub bytes_out: u64,
    /// Updates that came packed.
    pub packed_updates: u64,
    /// Bytes of their commands as they came.
    pub packed_bytes: u64,
    /// The same, unpacked.
    pub unpacked_bytes: u64,
    /// By kind, in the order of [`KIND_NAMES`].
    pub commands: [CommandStats; KIND_NAMES.len()],
    /// Pictures of videos.
    pub video: VideoStats,
    /// Bytes of messages that are not commands: heads, cursors, answers.
    pub other_bytes: u64,
    /// Cursor images received.
    pub cursors: u64,
    /// Other colours for the cursor, received.
    pub cursor_colors: u64,
    /// Times an application moved the pointer.
    pub cursor_moves: u64,
    /// Changes of the screen's size.
    pub geometries: u64,
    /// Offers of the session's clipboard.
    pub clip_offers_in: u64,
    /// Offers of the viewer's.
    pub clip_offers_out: u64,
    /// Bytes of clipboard contents received.
    pub clip_bytes_in: u64,
    /// Bytes of clipboard contents sent.
    pub clip_bytes_out: u64,
    /// Microseconds of the last ping.
    pub rtt_us: Option<u64>,
    /// Least microseconds of any ping.
    pub rtt_min_us: Option<u64>,
    /// Input events given to the viewer.
    pub inputs: u64,
    /// Motions and scrolls not said because the link stood still.
    pub inputs_dropped: u64,
    /// Microseconds of the last update from its receipt to its present.
    pub present_delay_us: Option<u64>,
    /// Latest echoes, oldest first.
    pub echoes: VecDeque<EchoLatency>,
    /// Updates in `seq` order: the newest applied.
    pub last_update: u64,
    pending: VecDeque<(u32, Micros)>,
    /// When the inputs of `echoes` not yet presented were made, in their order.
    unpresented: VecDeque<(u32, Micros)>,
}

impl ViewerStats {
    /// Median of the latest echoes, applied.
    pub fn echo_median_us(&self) -> Option<u64> {
        median(self.echoes.iter().map(|e| e.applied_us))
    }

    /// Median of the latest echoes, presented.
    pub fn echo_presented_median_us(&self) -> Option<u64> {
        median(self.echoes.iter().filter_map(|e| e.presented_us))
    }

    pub(crate) fn count_command(&mut self, command: &Command<'_>, bytes: u64, pixels: u64) {
        let index = match command {
            Command::Copy { .. } => 0,
            Command::Sfill { .. } => 1,
            Command::Pfill { .. } => 2,
            Command::Bitmap { .. } => 3,
            Command::Raw { .. } => 4,
            Command::Keep { .. } => 5,
            Command::Recall { .. } => 6,
            Command::Video(_) => 7,
        };
        let stats = &mut self.commands[index];
        stats.count += 1;
        stats.bytes += bytes;
        stats.pixels += pixels;
    }

    /// A picture was painted after its command had been counted.
    pub(crate) fn picture_painted(&mut self, pixels: u64) {
        self.commands[7].pixels += pixels;
    }

    pub(crate) fn input_made(&mut self, seq: u32, now: Micros) {
        if self.pending.len() == INPUTS_LEN_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back((seq, now));
    }

    /// An echo was applied: its latency, if the input is remembered. Older inputs that had none will have none.
    pub(crate) fn echo_applied(&mut self, seq: u32, now: Micros) -> Option<u64> {
        let at = self.pending.iter().position(|&(pending, _)| pending == seq)?;
        let (_, made) = self.pending.drain(..=at).next_back()?;
        let applied_us = now.saturating_sub(made);
        if self.echoes.len() == ECHOES_LEN_MAX {
            self.echoes.pop_front();
        }
        self.echoes.push_back(EchoLatency { seq, applied_us, presented_us: None });
        if self.unpresented.len() == ECHOES_LEN_MAX {
            self.unpresented.pop_front();
        }
        self.unpresented.push_back((seq, made));
        Some(applied_us)
    }

    pub(crate) fn presented(&mut self, now: Micros) {
        self.presents += 1;
        for (seq, made) in self.unpresented.drain(..) {
            if let Some(echo) = self.echoes.iter_mut().rfind(|echo| echo.seq == seq) {
                echo.presented_us = Some(now.saturating_sub(made));
            }
        }
    }

    pub(crate) fn pong(&mut self, rtt_us: u64) {
        self.rtt_us = Some(rtt_us);
        self.rtt_min_us = Some(self.rtt_min_us.map_or(rtt_us, |min| min.min(rtt_us)));
    }
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
