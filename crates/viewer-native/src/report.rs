//! The statistics of a connection as JSON.
//! Path 13/13: from viewer-core's counters, to `--stats-json` and scripts. Scripts read these
//! names; entries are only added.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;
use thinc_viewer_core::KIND_NAMES;

use crate::client::{DecoderReport, State, Status};
use crate::shot;

/// Everything that `--stats-json` writes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The session's name.
    pub session: Option<String>,
    /// `connecting`, `connected`, `unresponsive`, `lost` or `ended`.
    pub status: &'static str,
    /// Transport of the connection, or of the last one: `quic`, `tcp` or `ssh`.
    pub transport: Option<&'static str>,
    /// Over ssh, why the tunnel is used and not QUIC; null while it is tried, and with
    /// `--transport tunnel`. Over TCP, why the last attempt to move to QUIC led to nothing; null if
    /// there was none.
    pub quic_failure: Option<String>,
    /// How the path had changed when this transport took another's place; null if it was the first
    /// choice.
    pub transport_reason: Option<String>,
    /// What draws the session's 3D programs, in words; null until it has told.
    pub graphics: Option<String>,
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
    /// Updates dropped because they were made for a replaced geometry.
    pub updates_dropped: u64,
    /// Applied updates that arrived as datagrams.
    pub datagram_updates: u64,
    /// Updates discarded because a newer update that conflicts with them had been applied.
    pub updates_late: u64,
    /// Number of the newest update applied.
    pub last_update: u64,
    /// Updates that ended a drawing burst.
    pub frames: u64,
    /// Times the viewer presented something new.
    pub presents: u64,
    /// Bytes received, after TLS.
    pub bytes_in: u64,
    /// Bytes sent, before TLS.
    pub bytes_out: u64,
    /// Bytes lost on the path that were computed from parities: nothing waited for them.
    pub repaired_bytes: u64,
    /// Bytes received that are not commands: headers, cursors, replies.
    pub other_bytes: u64,
    /// Lossy pixels that are not refreshed yet.
    pub lossy_pixels: u64,
    /// Updates that arrived packed.
    pub packed_updates: u64,
    /// Bytes of their commands, packed.
    pub packed_bytes: u64,
    /// The same, unpacked.
    pub unpacked_bytes: u64,
    /// By kind of command, bytes unpacked: copy, sfill, pfill, bitmap, raw, keep, recall, video.
    pub commands: BTreeMap<&'static str, CommandReport>,
    /// Video frames.
    pub video: VideoReport,
    /// Cursor images received.
    pub cursors: u64,
    /// Changes of the cursor's colours received.
    pub cursor_colors: u64,
    /// Times an application moved the pointer.
    pub cursor_moves: u64,
    /// Changes of the geometry.
    pub geometries: u64,
    /// Input events made.
    pub inputs: u64,
    /// Motions and scrolls dropped because the path was stalled.
    pub inputs_dropped: u64,
    /// Microseconds of the last round trip.
    pub rtt_us: Option<u64>,
    /// Microseconds of the shorter of the last two round trips.
    pub rtt_min_us: Option<u64>,
    /// Microseconds of the last update from its receipt to its present.
    pub present_delay_us: Option<u64>,
    /// Median microseconds of the latest keys and buttons, from the event to its effect applied.
    pub echo_median_us: Option<u64>,
    /// Median microseconds of the latest keys and buttons, from the event to its effect presented.
    pub echo_presented_median_us: Option<u64>,
    /// The latest keys and buttons, oldest first.
    pub echoes: Vec<EchoReport>,
}

/// Cost of one kind of command.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CommandReport {
    /// Count of commands.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Pixels written.
    pub pixels: u64,
}

/// The fates of video frames.
#[derive(Clone, Debug, Serialize)]
pub struct VideoReport {
    /// Video streams started.
    pub streams: u64,
    /// Video streams that are active.
    pub active: u64,
    /// Uncompressed frames.
    pub plain: u64,
    /// Compressed frames.
    pub coded: u64,
    /// Keyframes among the compressed frames.
    pub keys: u64,
    /// Frames of which at least one pixel was painted.
    pub shown: u64,
    /// Compressed frames that were no longer visible when they were decoded.
    pub late: u64,
    /// Compressed frames that were not decoded.
    pub dropped: u64,
    /// Times a keyframe was requested.
    pub lost: u64,
    /// Streams that could not be decoded.
    pub refused: u64,
    /// Compressed frames that wait for the decoder.
    pub waiting: u64,
    /// Microseconds from the receipt of the last compressed frame until it was painted.
    pub delay_us: Option<u64>,
    /// The maximum of that.
    pub delay_max_us: Option<u64>,
    /// Compressed frames decoded, on all connections.
    pub decoded: u64,
    /// Microseconds that decoding took.
    pub decode_us: u64,
    /// Microseconds of the slowest frame.
    pub decode_max_us: u64,
    /// What has decoded the last frame: `openh264`, or GStreamer's element and what it is; null if
    /// there was none.
    pub decoder: Option<String>,
    /// Why videos are not decoded by a graphics processor, in words; null if they are, while that
    /// is tried, and before there is a video.
    pub hardware_failure: Option<String>,
}

impl VideoReport {
    fn new(state: &State) -> VideoReport {
        let (video, times) = (state.viewer().stats().video, state.decoding.times());
        let DecoderReport { decoder, hardware_failure } = state.decoding.decoder().clone();
        VideoReport {
            streams: video.streams,
            active: state.viewer().video_streams_active() as u64,
            plain: video.plain,
            coded: video.coded,
            keys: video.keyframes,
            shown: video.shown,
            late: video.late,
            dropped: video.dropped,
            lost: video.keyframe_requests,
            refused: video.refused,
            waiting: state.viewer().video_frames_waiting() as u64,
            delay_us: video.delay_us,
            delay_max_us: video.delay_max_us,
            decoded: times.frames,
            decode_us: times.total.as_micros() as u64,
            decode_max_us: times.longest.as_micros() as u64,
            decoder,
            hardware_failure,
        }
    }
}

/// Latency of one input's echo.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EchoReport {
    /// The input's number.
    pub seq: u32,
    /// Microseconds until its effect was applied.
    pub applied_us: u64,
    /// Microseconds until its effect was presented.
    pub presented_us: Option<u64>,
}

impl Report {
    /// The present statistics.
    pub fn new(state: &State) -> Report {
        let stats = state.viewer().stats();
        let framebuffer = state.viewer().framebuffer();
        Report {
            session: state.session.name().map(str::to_owned),
            status: match state.status {
                Status::Connecting => "connecting",
                Status::Connected if state.is_unresponsive() => "unresponsive",
                Status::Connected => "connected",
                Status::Lost { .. } => "lost",
                Status::TakenOver => "taken over",
                Status::Ended(_) => "ended",
            },
            transport: state.transports.current(),
            quic_failure: state.transports.quic_failure().map(str::to_owned),
            transport_reason: state.transports.reason().map(str::to_owned),
            graphics: state.session.graphics().map(str::to_owned),
            connections: state.viewers.connections(),
            width: framebuffer.size().width,
            height: framebuffer.size().height,
            framebuffer_xxh3: format!("{:016x}", shot::hash(framebuffer.pixels())),
            updates: stats.updates,
            updates_dropped: stats.updates_dropped,
            datagram_updates: stats.datagram_updates,
            updates_late: stats.updates_late,
            last_update: stats.last_update,
            frames: stats.frames,
            presents: stats.presents,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            repaired_bytes: state.repaired_bytes(),
            other_bytes: stats.other_bytes,
            lossy_pixels: state.viewer().lossy().pixels(),
            packed_updates: stats.packed_updates,
            packed_bytes: stats.packed_bytes,
            unpacked_bytes: stats.unpacked_bytes,
            commands: KIND_NAMES
                .iter()
                .zip(&stats.commands)
                .map(|(name, c)| {
                    (*name, CommandReport { count: c.count, bytes: c.bytes, pixels: c.pixels })
                })
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
                .map(|e| EchoReport {
                    seq: e.seq,
                    applied_us: e.applied_us,
                    presented_us: e.presented_us,
                })
                .collect(),
        }
    }

    /// Writes the report atomically.
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
