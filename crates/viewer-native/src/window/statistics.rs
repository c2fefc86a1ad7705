//! The statistics panel: whether it is shown, when it is drawn again, and its text, from
//! viewer-core's counters.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use thinc_viewer_core::KIND_NAMES;

use super::drawing::Placed;
use crate::client::State;
use crate::overlay::Panel;

/// 1 s: how often the statistics are redrawn, and a round trip measured, while they are shown and
/// nothing else happens.
const INTERVAL: Duration = Duration::from_secs(1);
/// 8 pixels: from the window's corner to the panel.
const CORNER: i32 = 8;

/// 6: newest echo latencies shown, newest last.
const ECHOES_SHOWN: usize = 6;

/// 60: characters of a reason that are shown.
const REASON_CHARS_MAX: usize = 60;

/// The panel with the statistics.
#[derive(Debug)]
pub(super) struct StatisticsPanel {
    is_shown: bool,
    /// When it was last drawn because time had passed.
    at: Instant,
}

impl StatisticsPanel {
    pub(super) fn new(is_shown: bool, now: Instant) -> StatisticsPanel {
        StatisticsPanel { is_shown, at: now }
    }

    /// The user wants to see them, or no longer.
    pub(super) fn toggle(&mut self, now: Instant) {
        *self = StatisticsPanel { is_shown: !self.is_shown, at: now };
    }

    /// True if the figures have to be drawn again now, though nothing else has changed.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.is_shown && now.saturating_duration_since(self.at) >= INTERVAL;
        if is_due {
            self.at = now;
        }
        is_due
    }

    /// How often that is asked.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.is_shown.then_some(INTERVAL)
    }

    /// The panel, in the window's upper left corner.
    pub(super) fn draw(&self, state: &State, dot: u32) -> Option<Placed> {
        self.is_shown.then(|| (Panel::draw(&text(state), dot), CORNER, CORNER))
    }
}

/// The panel's lines.
fn text(state: &State) -> String {
    let stats = state.viewer().stats();
    let size = state.viewer().framebuffer().size();
    let mut text = String::new();
    let name = state.session.name().unwrap_or("session");
    let transport = state.transports.current().unwrap_or("-");
    let _ = writeln!(text, "{name}  {}x{}  over {transport}", size.width, size.height);
    if let Some(why) = state.transports.reason() {
        let _ = writeln!(text, "since {why}");
    }
    if let Some(why) = state.transports.quic_failure() {
        let _ = writeln!(text, "not over QUIC: {}", shortened(why));
    }
    if let Some(line) = state.session.graphics() {
        wrap(&mut text, line);
    }
    let _ = writeln!(
        text,
        "round trip      {} (min {})",
        millis(stats.rtt_us),
        millis(stats.rtt_min_us)
    );
    let mut keys = String::new();
    for echo in stats.echoes.iter().rev().take(ECHOES_SHOWN).rev() {
        let _ = write!(keys, " {}", millis(Some(echo.presented_us.unwrap_or(echo.applied_us))));
    }
    let _ =
        writeln!(text, "key to screen   {} of{}", millis(stats.echo_presented_median_us()), keys);
    let _ = writeln!(text, "present         {} after receipt", millis(stats.present_delay_us));
    let _ = writeln!(
        text,
        "updates {}  frames {}  presents {}",
        stats.updates, stats.frames, stats.presents
    );
    let _ = writeln!(text, "bytes in {}  out {}", bytes(stats.bytes_in), bytes(stats.bytes_out));
    let (packed, unpacked) = (bytes(stats.packed_bytes), bytes(stats.unpacked_bytes));
    let _ = writeln!(text, "packed   {packed}, unpacked {unpacked}");
    let _ = writeln!(text, "lossless {}", lossless(state.viewer().lossy().pixels(), size.area()));
    if stats.video.streams > 0 {
        let (video, times) = (stats.video, state.decoding.times());
        let mean = (times.frames > 0).then(|| times.total.as_micros() as u64 / times.frames.max(1));
        let (active, waiting) =
            (state.viewer().video_streams_active(), state.viewer().video_frames_waiting());
        let _ = writeln!(
            text,
            "video    {active} of {} streams  {waiting} frames waiting",
            video.streams
        );
        let (shown, late, dropped) = (video.shown, video.late, video.dropped);
        let _ = writeln!(
            text,
            "         shown {shown}  late {late}  dropped {dropped}  keyframes requested {}",
            video.keyframe_requests
        );
        let _ = writeln!(
            text,
            "         decode {}, painted {} after receipt",
            millis(mean),
            millis(video.delay_us)
        );
        let decoding = state.decoding.decoder();
        if let Some(decoder) = &decoding.decoder {
            let _ = writeln!(text, "         decoded by {}", shortened(decoder));
        }
        if let Some(why) = &decoding.hardware_failure {
            wrap(&mut text, &format!("not by a graphics processor: {why}"));
        }
    }
    for (name, command) in KIND_NAMES.iter().zip(&stats.commands) {
        let _ = writeln!(text, "  {name:<7} {:>8}  {:>9}", command.count, bytes(command.bytes));
    }
    let _ = write!(text, "  other             {:>9}", bytes(stats.other_bytes));
    text
}

/// Writes words in lines as long as [`shortened`] leaves them.
fn wrap(text: &mut String, words: &str) {
    let mut column = 0;
    for word in words.split(' ') {
        let word = shortened(word);
        let length = word.chars().count();
        if column > 0 && column + 1 + length > REASON_CHARS_MAX {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(&word);
        column += length;
    }
    text.push('\n');
}

/// The panel is as wide as its longest line.
fn shortened(words: &str) -> String {
    match words.char_indices().nth(REASON_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    }
}

/// The lossless part of the screen; "all" only if no pixel is lossy.
fn lossless(lossy: u64, area: u64) -> String {
    match lossy {
        0 => "all".to_owned(),
        // In tenths of a percent, rounded down.
        _ => {
            let tenths = (area - lossy) * 1000 / area.max(1);
            format!("{}.{} %, {lossy} pixels lossy", tenths / 10, tenths % 10)
        }
    }
}

fn millis(us: Option<u64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| format!("{}.{:02} ms", us / 1000, us % 1000 / 10))
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} KB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_drawn_again_each_second_while_they_are_shown() {
        let start = Instant::now();
        let mut panel = StatisticsPanel::new(false, start);
        assert!(!panel.take_due(start + 2 * INTERVAL) && panel.interval().is_none());
        panel.toggle(start);
        assert!(!panel.take_due(start + INTERVAL / 2));
        assert!(panel.take_due(start + INTERVAL) && !panel.take_due(start + INTERVAL));
        assert_eq!(panel.interval(), Some(INTERVAL));
    }

    #[test]
    fn long_words_are_wrapped_and_none_is_lost() {
        let mut text = String::new();
        let words = "3D: software (llvmpipe); there is a GPU at /dev/dri/renderD128, but this \
                     account may not use it: add it to the group render";
        wrap(&mut text, words);
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= 60), "{text}");
        assert_eq!(text.trim_end().replace('\n', " "), words);
        text.clear();
        wrap(&mut text, &"x".repeat(1000));
        assert_eq!(text, format!("{}…\n", "x".repeat(60)));
    }

    #[test]
    fn figures_are_short_and_right() {
        assert_eq!(millis(None), "-");
        assert_eq!(millis(Some(4_056)), "4.05 ms");
        assert_eq!(bytes(9_999), "9999 B");
        assert_eq!(bytes(10_000), "10 KB");
        assert_eq!(bytes(12_345_678), "12 MB");
        assert_eq!(lossless(0, 480_000), "all");
        assert_eq!(shortened("é"), "é");
        assert_eq!(shortened(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(lossless(1, 480_000), "99.9 %, 1 pixels lossy");
        assert_eq!(lossless(480_000, 480_000), "0.0 %, 480000 pixels lossy");
    }
}
