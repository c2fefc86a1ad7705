//! A video on the whole screen at its own speed, in mpv or in a browser, and the frames of it that
//! the viewer showed: each by its bar codes, and pictures of some. Knows players and frames; never
//! which peer shows them, nor which result is good.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::browser::{Browser, Titles};
use super::player::{Output, Player};
use crate::Error;
use crate::observe::frames::{FrameWatch, Frames};
use crate::observe::picture::{Picture, Rect};
use crate::observe::{barcode, screen::Framebuffer};
use crate::process::{Running, interrupted, wait_for};
use crate::stage::{Spent, Stage};

/// The player.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlayedBy {
    /// mpv through XVideo, or plain images if the display has none.
    Mpv,
    /// mpv with plain images.
    MpvX11,
    /// Chromium, from a file.
    Chromium,
}

/// Longest until the first frame is on the client's screen.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Longest wait for frames after the video's end.
const LATE_MAX: Duration = Duration::from_secs(4);
/// Interval and maximum count of captured pictures.
const PICTURE_INTERVAL: Duration = Duration::from_millis(900);
const PICTURES_MAX: usize = 8;
/// Largest delay against the video's own clock that is on time: people notice a longer one in a
/// conversation.
const ON_TIME_MAX: Duration = Duration::from_millis(100);

/// A video as a file.
pub struct File<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Frames, numbered from 0.
    pub frames: u32,
    /// Frames a second.
    pub rate: f64,
}

/// The shown part of a video.
pub struct Played {
    /// The player's output.
    pub output: String,
    /// When the player was started.
    pub began: Instant,
    /// Each whole frame.
    pub seen: Frames,
    /// Frames that the player itself dropped, if it reports them.
    pub left_out: Option<f64>,
    /// Pictures of some frames, as the viewer showed them.
    pub pictures: Vec<(u32, Picture)>,
    /// From the beginning to the video's end.
    pub spent: Spent,
}

enum Opened {
    Mpv(Player),
    Chromium(Running, Box<Titles>),
}

impl PlayedBy {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            PlayedBy::Mpv => "mpv",
            PlayedBy::MpvX11 => "mpv --vo=x11",
            PlayedBy::Chromium => "Chromium",
        }
    }

    fn open(self, stage: &Stage, video: &Path) -> Result<Opened, Error> {
        Ok(match self {
            PlayedBy::Mpv => Opened::Mpv(Player::start(stage, video, Output::Best)?),
            PlayedBy::MpvX11 => Opened::Mpv(Player::start(stage, video, Output::Images)?),
            PlayedBy::Chromium => {
                let folder = stage.site.folder.path();
                let page = folder.join("video.html");
                fs::write(&page, page_of(video))?;
                let command = stage.command(Browser::Chromium.program());
                let url = format!("file://{}", page.display());
                let command =
                    Browser::Chromium.configure(command, stage.site.size, folder, &url)?;
                Opened::Chromium(
                    stage.application("chromium", command)?,
                    Box::new(Titles::new(stage)?),
                )
            }
        })
    }
}

/// A page that plays when a key is pressed; at the end its title has the number of dropped frames.
fn page_of(video: &Path) -> String {
    format!(
        "<!doctype html><title>video</title><style>html,body{{margin:0;background:#000;overflow:hidden;cursor:none}}\
         video{{position:fixed;width:100vw;height:100vh;object-fit:fill}}</style>\
         <video id=video muted preload=auto src=\"file://{}\"></video>\
         <script>onkeydown=()=>video.play();video.onended=()=>document.title='Page '+video.getVideoPlaybackQuality().droppedVideoFrames+':'</script>",
        video.display()
    )
}

impl Opened {
    fn check(&mut self) -> Result<(), Error> {
        match self {
            Opened::Mpv(player) => player.running.check(),
            Opened::Chromium(running, _) => running.check(),
        }
    }

    fn play(&mut self, stage: &Stage) -> Result<Instant, Error> {
        match self {
            Opened::Mpv(player) => player.play(),
            Opened::Chromium(..) => stage.input.key("space"),
        }
    }

    fn output(&mut self) -> Result<String, Error> {
        match self {
            Opened::Mpv(player) => player.output(),
            Opened::Chromium(..) => Ok("chromium".into()),
        }
    }

    /// Frames that it dropped; a browser reports them at the end.
    fn left_out(&mut self) -> Result<Option<f64>, Error> {
        match self {
            Opened::Mpv(player) => player.dropped().map(Some),
            Opened::Chromium(_, titles) => {
                let said =
                    wait_for("the browser's count", LATE_MAX, || titles.page().ok().flatten());
                Ok(said.ok().map(|count| count as f64))
            }
        }
    }
}

/// A video that is open at its first frame.
pub struct Ready<'f> {
    video: &'f File<'f>,
    player: Opened,
    watch: FrameWatch,
}

/// Opens a video; its first frame rests on the client's screen when this returns.
pub fn open<'f>(stage: &Stage, by: PlayedBy, video: &'f File<'f>) -> Result<Ready<'f>, Error> {
    let watch = FrameWatch::start(&stage.site.screen, stage.view)?;
    let mut player = by.open(stage, video.path)?;
    wait_for("the video's first frame is on the client's screen", START_LIMIT, || {
        player.check().is_err().then_some(()).or_else(|| watch.last().map(drop))
    })?;
    player.check()?;
    stage.settle()?;
    Ok(Ready { video, player, watch })
}

/// Plays a video once from its beginning to its end.
pub fn play(stage: &Stage, Ready { video, mut player, watch }: Ready<'_>) -> Result<Played, Error> {
    let framebuffer = stage.site.screen.framebuffer()?;
    let mut pictures = Vec::new();
    let meter = stage.meter()?;
    let began = player.play(stage)?;
    let length = Duration::from_secs_f64(f64::from(video.frames) / video.rate);
    let mut next_picture = began + PICTURE_INTERVAL;
    while watch.last().is_none_or(|(_, number)| number + 1 < video.frames)
        && began.elapsed() < length + LATE_MAX
    {
        player.check()?;
        if interrupted() {
            return Err("interrupted".into());
        }
        if Instant::now() >= next_picture && pictures.len() < PICTURES_MAX {
            next_picture += PICTURE_INTERVAL;
            keep_new(&mut pictures, picture_of_a_frame(&framebuffer, stage.view)?);
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    let spent = meter.read(stage)?;
    let (output, left_out) = (player.output()?, player.left_out()?);
    Ok(Played { output, began, seen: watch.finish()?, left_out, pictures, spent })
}

/// A frame that stays for longer than the interval counts once.
fn keep_new(pictures: &mut Vec<(u32, Picture)>, picture: Option<(u32, Picture)>) {
    let is_new = |(number, _): &(u32, Picture)| pictures.iter().all(|(kept, _)| kept != number);
    let new = picture.filter(is_new);
    pictures.extend(new);
}

/// The shown frame, if the codes at both edges agree.
fn picture_of_a_frame(
    framebuffer: &Framebuffer,
    view: Rect,
) -> Result<Option<(u32, Picture)>, Error> {
    let picture = framebuffer.picture_of(view)?;
    let [top, bottom] = [barcode::top(picture.rect()), barcode::bottom(picture.rect())];
    let number = barcode::read(&picture, top)
        .filter(|&number| barcode::read(&picture, bottom) == Some(number));
    Ok(number.map(|number| (number, picture)))
}

/// How a video's frames were shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Frames on time over frames of the video.
    pub on_time: f64,
    /// Frames that were shown at all.
    pub shown: f64,
    /// Longest time between new frames, ms.
    pub longest_gap_ms: f64,
}

/// The quality of a video of `rate` frames a second, of which these were seen. A frame is on time
/// if it is shown no later than [`ON_TIME_MAX`] after the video's clock, which is fitted so that
/// half of the frames are no later than it.
pub fn quality(began: Instant, seen: &[(Instant, u32)], frames: u32, rate: f64) -> Quality {
    let mut first: HashMap<u32, Instant> = HashMap::new();
    for &(at, number) in seen.iter().filter(|(_, number)| *number < frames) {
        first.entry(number).or_insert(at);
    }
    let late = |(&number, at): (&u32, &Instant)| {
        at.saturating_duration_since(began).as_secs_f64() - f64::from(number) / rate
    };
    let mut delays: Vec<f64> = first.iter().map(late).collect();
    delays.sort_by(f64::total_cmp);
    let clock = delays.get(delays.len() / 2).copied().unwrap_or(0.0);
    let on_time =
        delays.iter().filter(|&&delay| delay <= clock + ON_TIME_MAX.as_secs_f64()).count();
    let mut times: Vec<Instant> = first.values().copied().filter(|&at| at >= began).collect();
    times.sort();
    let gap =
        times.windows(2).map(|pair| pair[1].duration_since(pair[0])).max().unwrap_or_default();
    Quality {
        on_time: on_time as f64 / f64::from(frames),
        shown: delays.len() as f64 / f64::from(frames),
        longest_gap_ms: gap.as_secs_f64() * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(began: Instant, times_ms: &[(u64, u32)]) -> Vec<(Instant, u32)> {
        times_ms.iter().map(|&(ms, number)| (began + Duration::from_millis(ms), number)).collect()
    }

    #[test]
    fn frames_count_on_time_against_the_videos_own_clock() {
        let began = Instant::now();
        // 10 a second, each 70 ms behind; the third is missing, the fifth 170 ms late.
        let all = seen(
            began,
            &[
                (70, 0),
                (170, 1),
                (370, 3),
                (640, 4),
                (645, 5),
                (670, 6),
                (770, 7),
                (870, 8),
                (970, 9),
            ],
        );
        let found = quality(began, &all, 10, 10.0);
        assert_eq!((found.on_time, found.shown), (0.8, 0.9));
        assert!((found.longest_gap_ms - 270.0).abs() < 1e-6);
    }

    #[test]
    fn a_frame_that_stays_is_kept_once() {
        let picture = |number| Some((number, Picture { width: 1, height: 1, pixels: vec![0] }));
        let mut kept = Vec::new();
        for picture in [picture(20), picture(42), None, picture(42), picture(86)] {
            keep_new(&mut kept, picture);
        }
        assert_eq!(kept.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [20, 42, 86]);
    }

    #[test]
    fn a_video_at_half_its_speed_is_not_on_time() {
        let began = Instant::now();
        let slow: Vec<(u64, u32)> =
            (0..100).map(|number| (u64::from(number) * 200, number)).collect();
        let found = quality(began, &seen(began, &slow), 100, 10.0);
        assert!(found.on_time <= 0.52 && found.shown == 1.0, "{found:?}");
    }

    #[test]
    fn a_frame_that_is_seen_twice_counts_once_and_no_frames_give_zero() {
        let began = Instant::now();
        let again = seen(began, &[(0, 0), (100, 1), (150, 0), (200, 1), (300, 77)]);
        assert_eq!(quality(began, &again, 2, 10.0).shown, 1.0);
        assert_eq!(quality(began, &[], 10, 10.0).on_time, 0.0);
    }
}
