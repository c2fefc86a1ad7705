//! Path 12/13: from viewer.rs and decode.rs, to statistics overlays and `--stats-json`.
//! Counters and measurements of a connection; users and scripts read their names. Knows durations
//! in microseconds; never a clock.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::Command;

/// Names of [`ViewerStats::commands`], in order.
pub const KIND_NAMES: [&str; 8] =
    ["copy", "sfill", "pfill", "bitmap", "raw", "keep", "recall", "video"];

/// 64: newest echo latencies kept, enough for a median that a person can watch change.
const ECHOES_LEN_MAX: usize = 64;
/// 256: inputs remembered until their echo arrives; 64 ms at 4 inputs a millisecond, and most
/// inputs have no echo.
const INPUTS_LEN_MAX: usize = 256;

/// 2: round trips in a row of which the shortest counts. A queue behind a picture or a lost packet
/// makes one longer; if both are, the path is. Until then a living session counts as unresponsive
/// after each input, which is worse than an outage that is noticed a little later.
const ROUND_TRIPS_LEN_MAX: usize = 2;

/// What one kind of command has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Count of commands.
    pub count: u64,
    /// Bytes inside updates, unpacked.
    pub bytes: u64,
    /// Pixels written.
    pub pixels: u64,
}

/// Latency of one input's echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoLatency {
    /// The input's sequence number.
    pub seq: u32,
    /// Microseconds from `handle_input` to its effect being applied.
    pub applied_us: u64,
    /// Microseconds from `handle_input` to its effect being presented, once it was.
    pub presented_us: Option<u64>,
}

/// The fates of video frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoStats {
    /// Video streams started.
    pub streams: u64,
    /// Uncompressed frames.
    pub plain: u64,
    /// Compressed frames.
    pub coded: u64,
    /// Keyframes among the compressed frames.
    pub keyframes: u64,
    /// Frames of which at least one pixel was painted.
    pub shown: u64,
    /// Compressed frames that were no longer visible when they were decoded.
    pub late: u64,
    /// Compressed frames that were not decoded: a frame they refer to was not, or the decoder was
    /// behind.
    pub dropped: u64,
    /// Times a keyframe was requested.
    pub keyframe_requests: u64,
    /// Streams that the shell could not decode.
    pub refused: u64,
    /// Microseconds from the receipt of the last compressed frame until it was painted.
    pub delay_us: Option<u64>,
    /// The maximum of that.
    pub delay_max_us: Option<u64>,
}

/// Counters and measurements since the connection began.
#[derive(Clone, Debug, Default)]
pub struct ViewerStats {
    /// Updates applied.
    pub updates: u64,
    /// Updates dropped because they were made for a replaced geometry.
    pub updates_dropped: u64,
    /// Applied updates that arrived as datagrams.
    pub datagram_updates: u64,
    /// Updates discarded because a newer update that conflicts with them had been applied.
    pub updates_late: u64,
    /// Updates that ended a drawing burst (`end_of_frame`).
    pub frames: u64,
    /// Times the shell presented something new.
    pub presents: u64,
    /// Bytes received, after TLS.
    pub bytes_in: u64,
    /// Bytes sent, before TLS.
    pub bytes_out: u64,
    /// Updates that arrived packed.
    pub packed_updates: u64,
    /// Bytes of their commands, packed.
    pub packed_bytes: u64,
    /// The same, unpacked.
    pub unpacked_bytes: u64,
    /// By kind of command, in the order of [`KIND_NAMES`].
    pub commands: [CommandStats; KIND_NAMES.len()],
    /// Video frames.
    pub video: VideoStats,
    /// Bytes of messages other than commands: headers, cursors, replies.
    pub other_bytes: u64,
    /// Cursor images received.
    pub cursors: u64,
    /// Changes of the cursor's colours received.
    pub cursor_colors: u64,
    /// Times an application moved the pointer.
    pub cursor_moves: u64,
    /// Changes of the geometry.
    pub geometries: u64,
    /// Clipboard offers received.
    pub clip_offers_in: u64,
    /// Clipboard offers sent.
    pub clip_offers_out: u64,
    /// Bytes of clipboard contents received.
    pub clip_bytes_in: u64,
    /// Bytes of clipboard contents sent.
    pub clip_bytes_out: u64,
    /// Microseconds of the last round trip.
    pub rtt_us: Option<u64>,
    /// Microseconds of the shorter of the last two round trips.
    pub rtt_min_us: Option<u64>,
    /// Input events passed to the viewer.
    pub inputs: u64,
    /// Motions and scrolls dropped because the path was stalled.
    pub inputs_dropped: u64,
    /// Microseconds of the last update from its receipt to its present.
    pub present_delay_us: Option<u64>,
    /// The latest echoes, oldest first.
    pub echoes: VecDeque<EchoLatency>,
    /// Sequence number of the newest update applied.
    pub last_update: u64,
    pending: VecDeque<(u32, Micros)>,
    /// When the inputs of `echoes` not yet presented were made, in order.
    unpresented: VecDeque<(u32, Micros)>,
    /// The last round trips, each of a ping that was sent after the answer before; when the newest
    /// ended.
    round_trips: VecDeque<u64>,
    measured_at: Micros,
}

impl ViewerStats {
    /// Median of the latest echo latencies until applied.
    pub fn echo_median_us(&self) -> Option<u64> {
        median(self.echoes.iter().map(|e| e.applied_us))
    }

    /// Median of the latest echo latencies until presented.
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

    /// A frame was painted after its command was counted.
    pub(crate) fn video_frame_painted(&mut self, pixels: u64) {
        self.commands[7].pixels += pixels;
    }

    pub(crate) fn input_made(&mut self, seq: u32, now: Micros) {
        if self.pending.len() == INPUTS_LEN_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back((seq, now));
    }

    /// An echo was applied: returns its latency if the input is remembered. Older inputs without an
    /// echo will not get one.
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

    /// A ping was answered now, after so long.
    pub(crate) fn pong(&mut self, rtt_us: u64, now: Micros) {
        self.rtt_us = Some(rtt_us);
        // An outage delays all pings that are in flight: together they are one round trip.
        let was_in_flight = now.saturating_sub(rtt_us) < self.measured_at;
        match self.round_trips.back_mut().filter(|_| was_in_flight) {
            Some(newest) => *newest = rtt_us.min(*newest),
            None => {
                if self.round_trips.len() == ROUND_TRIPS_LEN_MAX {
                    self.round_trips.pop_front();
                }
                self.round_trips.push_back(rtt_us);
                self.measured_at = now;
            }
        }
        self.rtt_min_us = self.round_trips.iter().min().copied();
    }
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_follows_a_path_that_became_longer() {
        let mut stats = ViewerStats::default();
        stats.pong(200, 1_000);
        let shortest = [1, 2].map(|second| {
            stats.pong(600_000, second * 1_000_000);
            stats.rtt_min_us.unwrap()
        });
        assert_eq!(shortest, [200, 600_000]);
        stats.pong(66_000, 6_000_000);
        assert_eq!(stats.rtt_min_us, Some(66_000), "and one that became shorter");
    }

    #[test]
    fn pings_that_an_outage_delayed_together_are_one_round_trip() {
        let mut stats = ViewerStats::default();
        stats.pong(66_000, 66_000);
        for sent in (1..9).map(|number| number * 200_000) {
            stats.pong(5_000_000 - sent, 5_000_000);
        }
        assert_eq!(stats.rtt_min_us, Some(66_000));
        assert_eq!(stats.rtt_us, Some(3_400_000));
    }
}
