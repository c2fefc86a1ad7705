//! The papers' video benchmark: 834 frames of 352x240 in 34.75 s over the whole screen, each
//! counted by its bar codes on the client's screen. Slow-motion: frame by frame, the next when the
//! last has arrived. Normal: at speed. Knows frames and their numbers; never which peer shows them.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use super::content::clip;
use super::player::{Output, Player};
use super::{Effort, Workload};
use crate::Error;
use crate::net::testbed::Direction;
use crate::observe::frames::{FrameWatch, Frames};
use crate::process::{interrupted, wait_for};
use crate::results::{Form, Measure, quantity};
use crate::stage::{Spent, Stage, cost_measures};

/// The workload.
pub struct Video;

/// Longest until a frame of the reference is on the client's screen: plain X over 1 Mbit/s needs 25
/// s for a screen.
const FRAME_LIMIT: Duration = Duration::from_secs(40);
/// Longest until the player shows its first frame.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest activity of network and screen after the video's end, in lengths of the video.
const LATE_MAX: u32 = 4;

/// The reference of video quality, and its highest speed.
struct Pace {
    frames: u32,
    /// Least time between frames: 1 s in the papers, shorter in quick runs. The next frame always
    /// waits until the one before has arrived, so a slow link is never overloaded.
    step: Duration,
}

fn reference_pace(form: Form, effort: Effort) -> Pace {
    let (frames, step_ms) = match (effort, form) {
        (Effort::Smoke, _) => (10, 100),
        (Effort::Quick, Form::SlowMotion) => (60, 250),
        (Effort::Quick, Form::Normal) => (30, 250),
        (Effort::Full, Form::SlowMotion) => (clip::FRAMES, 1000),
        (Effort::Full, Form::Normal) => (60, 1000),
    };
    Pace { frames, step: Duration::from_millis(step_ms) }
}

/// Frames played at speed.
fn frames_at_speed(effort: Effort) -> u32 {
    match effort {
        // 3 s.
        Effort::Smoke => 72,
        Effort::Quick | Effort::Full => clip::FRAMES,
    }
}

impl Workload for Video {
    fn name(&self) -> &str {
        "video"
    }

    fn about(&self) -> &'static str {
        "834 frames of 352x240 in 34.75 s over the whole screen in mpv (THINC 2004; Lai and Nieh \
            2002)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["mpv", "ffmpeg"]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        let reference = reference_pace(form, effort);
        let slow = f64::from(reference.frames) * reference.step.as_secs_f64() + 4.0;
        match form {
            Form::SlowMotion => slow,
            Form::Normal => slow + f64::from(frames_at_speed(effort)) / clip::RATE + 4.0,
        }
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let reference = play_slowly(stage, &reference_pace(form, effort))?;
        match form {
            Form::SlowMotion => Ok(reference.measures()),
            Form::Normal => Ok(play(stage, frames_at_speed(effort))?.measures(&reference)),
        }
    }
}

/// The results of a video played frame by frame.
struct Reference {
    /// Frames played and frames that arrived whole.
    played: u32,
    arrived: u32,
    /// Time from the step until the client's screen showed the frame, ms.
    frame_ms: Vec<f64>,
    /// The player's output.
    output: String,
    spent: Spent,
}

impl Reference {
    fn bytes_a_frame(&self) -> f64 {
        self.spent.traffic.bytes(Direction::Down) as f64 / f64::from(self.played)
    }

    fn share(&self) -> f64 {
        f64::from(self.arrived) / f64::from(self.played)
    }

    fn measures(&self) -> Vec<Measure> {
        let mut found = vec![
            Measure::fact("frames_played", "", "frames", f64::from(self.played)),
            Measure::higher("frames_arrived", "", "share", [self.share()]),
            Measure::lower("frame_ms", "", "ms", self.frame_ms.iter().copied()),
            Measure::lower("bytes_per_frame", "", "bytes", [self.bytes_a_frame()]),
            Measure::fact("player_output", &self.output, "", 1.0),
        ];
        found.extend(cost_measures("", std::slice::from_ref(&self.spent)));
        found
    }
}

/// Writes a video of these frames and starts the player, which shows the first; returns when that
/// is on the client's screen.
fn open(stage: &Stage, name: &str, numbers: &[u32]) -> Result<(Player, FrameWatch), Error> {
    let file = stage.site.folder.path().join(name);
    if numbers.len() as u32 == clip::FRAMES {
        fs::write(&file, clip::papers_video()?)?;
    } else {
        fs::write(&file, clip::encode(numbers)?)?;
    }
    let watch = FrameWatch::start(&stage.site.screen, stage.view)?;
    let mut player = Player::start(stage, &file, Output::Best)?;
    wait_for("the video's first frame is on the client's screen", START_LIMIT, || {
        player.running.check().is_err().then_some(()).or_else(|| watch.last().map(drop))
    })?;
    player.running.check()?;
    stage.settle()?;
    Ok((player, watch))
}

fn play_slowly(stage: &mut Stage, pace: &Pace) -> Result<Reference, Error> {
    let numbers = clip::reference_frames(pace.frames);
    let (mut player, watch) = open(stage, "reference.mpg", &numbers)?;
    let meter = stage.meter()?;
    let mut frame_ms = Vec::with_capacity(numbers.len());
    // The first is already shown.
    for &number in &numbers[1..] {
        let stepped = Instant::now();
        player.step()?;
        let seen = || watch.last().filter(|&(_, seen)| seen == number);
        // A frame that never arrives whole does not end the measurement.
        if let Ok((at, _)) = wait_for("the frame", FRAME_LIMIT, seen) {
            frame_ms.push(at.saturating_duration_since(stepped).as_secs_f64() * 1e3);
        }
        if interrupted() {
            return Err("interrupted".into());
        }
        std::thread::sleep((stepped + pace.step).saturating_duration_since(Instant::now()));
    }
    let spent = meter.read(stage)?;
    let output = player.output()?;
    drop(watch.finish()?);
    let played = pace.frames - 1;
    Ok(Reference { played, arrived: u32::try_from(frame_ms.len())?, frame_ms, output, spent })
}

/// The results of a video played at speed.
struct Playback {
    /// Frames of the video.
    frames: u32,
    began: Instant,
    seen: Frames,
    /// Frames that the player itself dropped.
    left_out: f64,
    spent: Spent,
}

fn play(stage: &mut Stage, frames: u32) -> Result<Playback, Error> {
    let numbers: Vec<u32> = (0..frames).collect();
    let (mut player, watch) = open(stage, "video.mpg", &numbers)?;
    let ideal = Duration::from_secs_f64(f64::from(frames) / clip::RATE);
    let meter = stage.meter()?;
    let began = player.play()?;
    let final_frame = || watch.last().is_some_and(|(_, number)| number == frames - 1);
    // Until all frames were seen, or until the player has ended and the network is idle.
    let mut asked = began + ideal;
    while !final_frame() {
        player.running.check()?;
        if interrupted() {
            return Err("interrupted".into());
        }
        let now = Instant::now();
        if now >= asked {
            asked = now + stage.quiet_gap();
            let seen = watch.last().map_or(began, |(at, _)| at);
            let rests = now.saturating_duration_since(seen) > stage.quiet_gap();
            if rests && player.at_end()? || now > began + ideal * LATE_MAX {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let spent = meter.read(stage)?;
    let left_out = player.dropped()?;
    Ok(Playback { frames, began, seen: watch.finish()?, left_out, spent })
}

impl Playback {
    fn measures(&self, reference: &Reference) -> Vec<Measure> {
        // The first frame was shown before the start.
        let whole: HashSet<u32> = self
            .seen
            .seen
            .iter()
            .map(|&(_, number)| number)
            .filter(|&number| number < self.frames)
            .collect();
        let times: Vec<Instant> =
            self.seen.seen.iter().map(|&(at, _)| at).filter(|&at| at >= self.began).collect();
        let ideal = f64::from(self.frames) / clip::RATE;
        let last = times.last().map_or(0.0, |at| at.duration_since(self.began).as_secs_f64());
        let seconds = ideal.max(last);
        let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64() * 1e3);
        let bytes = self.spent.traffic.bytes(Direction::Down) as f64;
        let played = f64::from(self.frames);
        let quality = quality(whole.len() as f64, played, seconds, ideal);
        // Lai and Nieh's own: data instead of frames, which also counts partial frames.
        let data = quality_of_data(bytes / played, reference.bytes_a_frame(), seconds, ideal);
        let quality = quality / reference.share().max(f64::MIN_POSITIVE);
        let mbit_s = bytes * 8.0 / 1e6 / self.spent.seconds;
        let left_out = self.left_out;
        let lower = |name: &str, unit: &str, value| Measure::lower(name, "", unit, [value]);
        let higher = |name: &str, unit: &str, value| Measure::higher(name, "", unit, [value]);
        let mut found = vec![
            higher(quantity::VIDEO_QUALITY, "share", quality),
            higher("video_quality_data", "share", data),
            higher(quantity::FRAME_RATE, "fps", whole.len() as f64 / seconds),
            lower("playback_s", "s", seconds),
            Measure::fact("frames_played", "", "frames", played),
            higher("frames_whole", "frames", whole.len() as f64),
            lower("frames_torn", "frames", self.seen.torn as f64),
            lower("frames_left_out_by_player", "frames", left_out),
            lower("longest_gap_ms", "ms", gaps.fold(0.0, f64::max)),
            lower("mbit_s", "Mbit/s", mbit_s),
            lower("reference_bytes_per_frame", "bytes", reference.bytes_a_frame()),
            Measure::fact("player_output", &reference.output, "", 1.0),
        ];
        found.extend(cost_measures("", std::slice::from_ref(&self.spent)));
        found
    }
}

/// Share of the played frames that arrived, times the ideal duration over the real one: half the
/// frames in time, or all of them in twice the time, are 50 % (THINC §6).
fn quality(arrived: f64, played: f64, seconds: f64, ideal: f64) -> f64 {
    arrived / played * (ideal / seconds)
}

/// The same by bytes a frame, against those of the reference (Lai and Nieh §2.3.3).
fn quality_of_data(bytes_a_frame: f64, reference: f64, seconds: f64, ideal: f64) -> f64 {
    // Without remoting neither sends data, so none can be missing.
    if reference == 0.0 { 1.0 } else { bytes_a_frame / reference * (ideal / seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_frames_in_time_and_all_in_twice_the_time_are_both_half() {
        assert!((quality(417.0, 834.0, 34.75, 34.75) - 0.5).abs() < 1e-9);
        assert!((quality(834.0, 834.0, 69.5, 34.75) - 0.5).abs() < 1e-9);
        assert!((quality(834.0, 834.0, 34.75, 34.75) - 1.0).abs() < 1e-9);
        assert!((quality_of_data(500.0, 1000.0, 34.75, 34.75) - 0.5).abs() < 1e-9);
        assert!((quality_of_data(0.0, 0.0, 34.75, 34.75) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_full_form_is_the_papers() {
        let full = reference_pace(Form::SlowMotion, Effort::Full);
        assert_eq!((full.frames, full.step), (834, Duration::from_secs(1)));
        assert!((f64::from(frames_at_speed(Effort::Full)) / clip::RATE - 34.75).abs() < 1e-9);
    }
}
