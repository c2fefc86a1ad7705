//! Question: is every frame of a video shown on time in the viewer, how near to the file, and at
//! what cost? The papers' video (352x240, 24 a second, over 1024x768) and one of today (1280x720 or
//! 1920x1080, 30 a second), in mpv and in Chromium, on fast and slow links. Frames are read from
//! the viewer's pixels by their bar codes and compared with the file that is played, beside what
//! x264 superfast makes of it at the bits that crossed the link.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::{Claim, Found, Question};
use crate::Error;
use crate::net::testbed::Direction;
use crate::process::Folder;
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::stats::median;
use crate::workloads::content::clip::{self, TestVideo};
use crate::workloads::playback::{self, PlayedBy, quality};
use crate::workloads::{Effort, Workload};

mod x264;

use x264::{Luma, frames_of, recode};

/// The question.
#[derive(Args)]
pub struct VideoRate {
    /// Which videos.
    #[arg(
        long = "video",
        value_enum,
        value_name = "VIDEO",
        value_delimiter = ',',
        default_value = "papers,720p"
    )]
    videos: Vec<Clip>,
    /// Who plays them.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mpv")]
    by: Vec<PlayedBy>,
}

/// Shares of frames on time: below this many bits a second, and from there on.
const SLOW_BPS: u64 = 10_000_000;
const ON_TIME_SLOW: f64 = 0.95;
const ON_TIME_MAX: f64 = 1.0;
/// A browser paces frames by its own clock.
const ON_TIME_BROWSER: f64 = 0.99;
/// How far below x264's what is shown may be.
const LOSS_MAX_DB: f64 = 1.5;
const SHOWN: &str = "shown";
const X264: &str = "x264 superfast at the same bits";

/// A video and the screen on which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Clip {
    /// 352x240, 24 a second, on 1024x768.
    Papers,
    /// 1280x720, 30 a second, on a screen of that size.
    #[value(name = "720p")]
    Hd,
    /// 1920x1080, 30 a second, on a screen of that size.
    #[value(name = "1080p")]
    FullHd,
}

impl Clip {
    fn size(self) -> (u32, u32) {
        match self {
            Clip::Papers => (clip::WIDTH as u32, clip::HEIGHT as u32),
            Clip::Hd => (1280, 720),
            Clip::FullHd => (1920, 1080),
        }
    }

    fn rate(self) -> f64 {
        if self == Clip::Papers { clip::RATE } else { 30.0 }
    }

    fn frames(self, effort: Effort) -> u32 {
        match effort {
            Effort::Smoke => (4.0 * self.rate()) as u32,
            Effort::Quick => (10.0 * self.rate()) as u32,
            Effort::Full => clip::FRAMES,
        }
    }
}

/// One video in one player.
struct Playing {
    name: String,
    clip: Clip,
    by: PlayedBy,
    /// Holds the files, which all trials of a run share.
    folder: Arc<Folder>,
}

impl Question for VideoRate {
    const NAME: &'static str = "video-rate";
    const PEERS: &'static str = "thinc";
    // The last two: Wi-Fi and DSL.
    const LINKS: &'static [&'static str] =
        &["lan", "wan", "rate=24mbit,rtt=4ms", "rate=5mbit,rtt=20ms"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        let folder = Arc::new(Folder::new("video-rate")?);
        let mut all: Vec<Box<dyn Workload>> = Vec::new();
        for &clip in &self.videos {
            let (width, height) = clip.size();
            for &by in &self.by {
                let name = format!("video {width}x{height}@{}, {}", clip.rate(), by.name());
                all.push(Box::new(Playing { name, clip, by, folder: Arc::clone(&folder) }));
            }
        }
        Ok(all)
    }
}

impl Playing {
    /// The file with this many frames, written by the first trial that needs it.
    fn file(&self, frames: u32) -> Result<PathBuf, Error> {
        let (width, height) = self.clip.size();
        let file = self.folder.path().join(format!("{width}x{height}-{frames}.mp4"));
        if !file.exists() {
            let video = TestVideo::sized(width as usize, height as usize);
            clip::write_h264(&video, frames, self.clip.rate(), &file)?;
        }
        Ok(file)
    }
}

impl Workload for Playing {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &'static str {
        "a video at its own speed: frames on time, PSNR, bits and CPU"
    }

    fn needs(&self) -> &'static [&'static str] {
        match self.by {
            PlayedBy::Chromium => &["chromium", "ffmpeg"],
            PlayedBy::Mpv | PlayedBy::MpvX11 => &["mpv", "ffmpeg"],
        }
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        20.0 + f64::from(self.clip.frames(effort)) / self.clip.rate()
    }

    fn screen(&self) -> Option<(u32, u32)> {
        Some(if self.clip == Clip::Papers { (1024, 768) } else { self.clip.size() })
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (frames, rate) = (self.clip.frames(effort), self.clip.rate());
        let file = self.file(frames)?;
        let video = playback::File { path: &file, frames, rate };
        let played = playback::play(stage, playback::open(stage, self.by, &video)?)?;
        let bits = played.spent.traffic.bytes(Direction::Down) as f64 * 8.0;
        let minutes = played.spent.seconds / 60.0;
        let numbers: Vec<u32> = played.pictures.iter().map(|(number, _)| *number).collect();
        let view = (stage.view.width as usize, stage.view.height as usize);
        let (mut shown_db, mut x264_db) = (None, None);
        if !numbers.is_empty() {
            let references: Vec<Luma> = frames_of(&file, &numbers, self.clip.size())?
                .iter()
                .map(|frame| frame.meant(view))
                .collect();
            let psnr_db = |shown: &[Luma]| {
                let pairs = shown.iter().zip(&references);
                median(&pairs.map(|(shown, meant)| shown.psnr_db(meant)).collect::<Vec<f64>>())
            };
            let shown: Vec<Luma> =
                played.pictures.iter().map(|(_, picture)| Luma::of_screen(picture)).collect();
            shown_db = psnr_db(&shown);
            let recoded = stage.site.folder.path().join("x264.h264");
            recode(&file, bits / (f64::from(frames) / rate), frames, rate, &recoded)?;
            let recoded: Vec<Luma> = frames_of(&recoded, &numbers, self.clip.size())?
                .iter()
                .map(|frame| frame.shown(view))
                .collect();
            x264_db = psnr_db(&recoded);
        }
        let quality = quality(played.began, &played.seen.seen, frames, rate);
        let lower = |name: &str, unit: &str, value| Measure::lower(name, "", unit, [value]);
        let cpu = |part: &str, ms: f64| {
            Measure::lower("cpu_s_per_minute", part, "s", [ms / 1e3 / minutes])
        };
        Ok(vec![
            Measure::higher(quantity::VIDEO_QUALITY, "on time", "share", [quality.on_time]),
            Measure::higher("frames_shown", "", "share", [quality.shown]),
            lower("longest_gap_ms", "ms", quality.longest_gap_ms),
            lower("frames_torn", "frames", played.seen.torn as f64),
            Measure::lower("frames_left_out_by_player", "", "frames", played.left_out),
            Measure::higher(quantity::PSNR_DB, SHOWN, "dB", shown_db),
            Measure::higher(quantity::PSNR_DB, X264, "dB", x264_db),
            lower("mbit_s", "Mbit/s", bits / played.spent.seconds / 1e6),
            cpu("server", played.spent.cpu_server_ms),
            cpu("viewer", played.spent.cpu_client_ms),
            cpu("player", played.spent.cpu_apps_ms),
            Measure::fact("player_output", &played.output, "", 1.0),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let limit = match found.link.rate_bps {
            Some(rate) if rate < SLOW_BPS => ON_TIME_SLOW,
            _ if self.by == PlayedBy::Chromium => ON_TIME_BROWSER,
            _ => ON_TIME_MAX,
        };
        let one = |name: &str, part: &str| found.samples(peer, name, part).first().copied();
        let on_time = one(quantity::VIDEO_QUALITY, "on time").map(|share| share * 100.0);
        let psnr = one(quantity::PSNR_DB, SHOWN).zip(one(quantity::PSNR_DB, X264));
        let below_x264 = psnr.map(|(shown, x264)| x264 - shown);
        vec![
            Claim::at_least("frames on time", on_time, limit * 100.0, "%"),
            Claim::at_most("PSNR below x264's", below_x264, LOSS_MAX_DB, "dB"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn what_is_demanded_depends_on_the_link_and_the_player() {
        let folder = Arc::new(Folder::new("video-rate-test").unwrap());
        let holds = |by, link: &str, on_time: f64, psnr: f64| {
            let name = "video".to_owned();
            let question = Playing { name, clip: Clip::Hd, by, folder: Arc::clone(&folder) };
            let measures = vec![
                Measure::higher(quantity::VIDEO_QUALITY, "on time", "share", [on_time]),
                Measure::higher(quantity::PSNR_DB, SHOWN, "dB", [psnr]),
                Measure::higher(quantity::PSNR_DB, X264, "dB", [47.0]),
            ];
            holds(&question, link, vec![("thinc", measures)], "thinc")
        };
        assert_eq!(holds(PlayedBy::Mpv, "lan", 0.999, 45.4), [false, false]);
        assert_eq!(holds(PlayedBy::Mpv, "rate=5mbit", 0.95, 45.5), [true, true]);
        assert_eq!(holds(PlayedBy::Chromium, "lan", 0.99, 50.0), [true, true]);
    }
}
