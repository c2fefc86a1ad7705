//! The figures of a connection as JSON, for `--stats-json` and scripts.
//! Path 13/13: from viewer-core's counts. Names here are what scripts read; they are only ever added to.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;
use thinc_viewer_core::KIND_NAMES;

use crate::client::{State, Status};
use crate::shot;

/// Everything `--stats-json` says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the session calls itself.
    pub session: Option<String>,
    /// `connecting`, `connected`, `lost` or `ended`.
    pub status: &'static str,
    /// What carries the connection, or carried it last: `quic`, `tcp` or `ssh`.
    pub transport: Option<&'static str>,
    /// Times a connection showed a screen.
    pub connections: u32,
    /// Width of the screen in pixels.
    pub width: u32,
    /// Height of the screen in pixels.
    pub height: u32,
    /// xxh3 (64 bits, hexadecimal) of the pixels as little-endian 0x00RRGGBB.
    pub framebuffer_xxh3: String,
    /// Updates applied.
    pub updates: u64,
    /// Updates made for another size of the screen, and dropped.
    pub updates_dropped: u64,
    /// Of those applied, how many came alone, beside the stream.
    pub updates_alone: u64,
    /// Updates that came alone and too late: something newer had been applied over them.
    pub updates_late: u64,
    /// Newest update applied.
    pub last_update: u64,
    /// Updates that ended a frame.
    pub frames: u64,
    /// Times something new was presented.
    pub presents: u64,
    /// Bytes received, after TLS.
    pub bytes_in: u64,
    /// Bytes sent, before TLS.
    pub bytes_out: u64,
    /// Bytes received that are no commands: heads, cursors, answers.
    pub other_bytes: u64,
    /// Pixels that are only nearly what the session shows, so far.
    pub inexact_pixels: u64,
    /// Updates whose commands came packed.
    pub packed_updates: u64,
    /// Bytes of those commands as they came.
    pub packed_bytes: u64,
    /// The same, unpacked.
    pub unpacked_bytes: u64,
    /// By command, bytes unpacked: copy, sfill, pfill, bitmap, raw, keep, recall, video.
    pub commands: BTreeMap<&'static str, CommandReport>,
    /// Pictures of videos.
    pub video: VideoReport,
    /// Cursor images received.
    pub cursors: u64,
    /// Other colours for the cursor, received.
    pub cursor_colors: u64,
    /// Times an application moved the pointer.
    pub cursor_moves: u64,
    /// Changes of the screen's size.
    pub geometries: u64,
    /// Input events made.
    pub inputs: u64,
    /// Motions and scrolls not sent because the link stood still.
    pub inputs_dropped: u64,
    /// Microseconds of the last round trip.
    pub rtt_us: Option<u64>,
    /// Microseconds of the shortest round trip.
    pub rtt_min_us: Option<u64>,
    /// Microseconds of the last update from receipt to present.
    pub present_delay_us: Option<u64>,
    /// Median microseconds of the latest keys and buttons, from the event to its effect applied.
    pub echo_median_us: Option<u64>,
    /// Median microseconds of the latest keys and buttons, from the event to its effect presented.
    pub echo_presented_median_us: Option<u64>,
    /// The latest keys and buttons, oldest first.
    pub echoes: Vec<EchoReport>,
}

/// What one kind of command has cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CommandReport {
    /// Commands.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Pixels written.
    pub pixels: u64,
}

/// What has become of the pictures of videos.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct VideoReport {
    /// Streams begun.
    pub streams: u64,
    /// Streams under way.
    pub active: u64,
    /// Plain pictures.
    pub plain: u64,
    /// Coded pictures.
    pub coded: u64,
    /// Coded pictures that lean on none.
    pub keys: u64,
    /// Pictures of which something was painted.
    pub shown: u64,
    /// Coded pictures decoded when nothing of them was to be seen any more.
    pub late: u64,
    /// Coded pictures that were not decoded.
    pub dropped: u64,
    /// Times the session was asked for one that leans on none.
    pub lost: u64,
    /// Streams that could not be shown.
    pub refused: u64,
    /// Coded pictures that wait.
    pub waiting: u64,
    /// Microseconds of the last coded picture from its receipt until it was painted.
    pub delay_us: Option<u64>,
    /// Most of any.
    pub delay_max_us: Option<u64>,
    /// Coded pictures decoded, on all connections.
    pub decoded: u64,
    /// Microseconds that took.
    pub decode_us: u64,
    /// Microseconds of the slowest.
    pub decode_max_us: u64,
}

impl VideoReport {
    fn new(state: &State) -> VideoReport {
        let (video, times) = (state.viewer.stats().video, state.decode_times);
        VideoReport {
            streams: video.streams,
            active: state.viewer.videos_active() as u64,
            plain: video.plain,
            coded: video.coded,
            keys: video.keys,
            shown: video.shown,
            late: video.late,
            dropped: video.dropped,
            lost: video.lost,
            refused: video.refused,
            waiting: state.viewer.videos_waiting() as u64,
            delay_us: video.delay_us,
            delay_max_us: video.delay_max_us,
            decoded: times.pictures,
            decode_us: times.total.as_micros() as u64,
            decode_max_us: times.longest.as_micros() as u64,
        }
    }
}

/// How long one input took to be seen.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EchoReport {
    /// Its number.
    pub seq: u32,
    /// Microseconds until its effect was applied.
    pub applied_us: u64,
    /// Microseconds until its effect was presented.
    pub presented_us: Option<u64>,
}

impl Report {
    /// The figures of this moment.
    pub fn new(state: &State) -> Report {
        let stats = state.viewer.stats();
        let framebuffer = state.viewer.framebuffer();
        Report {
            session: state.session_name().map(str::to_owned),
            status: match state.status {
                Status::Connecting => "connecting",
                Status::Connected if state.is_quiet() => "quiet",
                Status::Connected => "connected",
                Status::Lost { .. } => "lost",
                Status::Ended(_) => "ended",
            },
            transport: state.transport,
            connections: state.connections,
            width: framebuffer.size().width,
            height: framebuffer.size().height,
            framebuffer_xxh3: format!("{:016x}", shot::hash(framebuffer.pixels())),
            updates: stats.updates,
            updates_dropped: stats.updates_dropped,
            updates_alone: stats.updates_alone,
            updates_late: stats.updates_late,
            last_update: stats.last_update,
            frames: stats.frames,
            presents: stats.presents,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            other_bytes: stats.other_bytes,
            inexact_pixels: state.viewer.inexact().pixels(),
            packed_updates: stats.packed_updates,
            packed_bytes: stats.packed_bytes,
            unpacked_bytes: stats.unpacked_bytes,
            commands: KIND_NAMES
                .iter()
                .zip(&stats.commands)
                .map(|(name, c)| (*name, CommandReport { count: c.count, bytes: c.bytes, pixels: c.pixels }))
                .collect(),
            video: VideoReport::new(state),
            cursors: stats.cursors,
            cursor_colors: stats.cursor_colors,
            cursor_moves: stats.cursor_moves,
            geometries: stats.geometries,
            inputs: stats.inputs,
            inputs_dropped: stats.inputs_dropped,
            rtt_us: stats.rtt_us,
            rtt_min_us: stats.rtt_min_us,
            present_delay_us: stats.present_delay_us,
            echo_median_us: stats.echo_median_us(),
            echo_presented_median_us: stats.echo_presented_median_us(),
            echoes: stats
                .echoes
                .iter()
                .map(|e| EchoReport { seq: e.seq, applied_us: e.applied_us, presented_us: e.presented_us })
                .collect(),
        }
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::from)?;
        text.push(b'\n');
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        written
    }
}
