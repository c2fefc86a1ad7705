//! Sound against picture: a clip with a white frame and a burst of 20 ms at the start of each
//! second, in a player of the session. Flashes are read from the viewer's screen, bursts from the
//! ear, both by one clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{open_ears, wait_heard};
use crate::Error;
use crate::observe::clock::now_ns;
use crate::observe::heard::onsets_ns;
use crate::observe::picture::channels;
use crate::observe::screen::Framebuffer;
use crate::process::{Folder, Running, interrupted, wait_for};
use crate::questions::{Claim, Found};
use crate::results::{Better, Form, Measure};
use crate::stage::Stage;
use crate::stats::quantile;
use crate::workloads::browser::Browser;
use crate::workloads::{Effort, Workload};

/// Who plays the clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Player {
    /// mpv
    Mpv,
    /// Chromium
    Chromium,
    /// Firefox
    Firefox,
}

pub(super) struct Lips {
    by: Player,
    name: String,
    /// Holds the clip, which all trials share.
    folder: Arc<Folder>,
}

/// How often the screen is read.
const READ_INTERVAL: Duration = Duration::from_micros(700);
/// A frame is white if its middle is brighter; the clip is black otherwise.
const BRIGHT: u8 = 128;
/// A flash and a burst further apart are not of one moment: they come once a second.
const PAIR_NS_MAX: u64 = 450_000_000;
/// Players shift their pictures by the latency that they are told, in steps, for so long.
const SETTLING_NS: u64 = 5_000_000_000;
/// Until a browser shows its page.
const START_LIMIT: Duration = Duration::from_secs(40);
/// 95 of 100 lie within, ms.
const SYNC_MS_MAX: f64 = 20.0;
const SYNC: &str = "sound_after_picture_ms";

fn clip_seconds(effort: Effort) -> u32 {
    match effort {
        Effort::Smoke => 8,
        Effort::Quick => 20,
        Effort::Full => 65,
    }
}

impl Lips {
    pub(super) fn new(by: Player, folder: Arc<Folder>) -> Lips {
        let name = match by {
            Player::Mpv => "lip sync, mpv",
            Player::Chromium => "lip sync, Chromium",
            Player::Firefox => "lip sync, Firefox",
        };
        Lips { by, name: name.to_owned(), folder }
    }

    fn clip(&self, seconds: u32) -> Result<PathBuf, Error> {
        let file = self.folder.path().join(format!("lips-{seconds}.mp4"));
        if !file.exists() {
            write_clip(&file, seconds)?;
        }
        Ok(file)
    }

    fn open(&self, stage: &Stage, clip: &Path) -> Result<Running, Error> {
        let folder = stage.site.folder.path();
        let browser = match self.by {
            Player::Mpv => {
                let mut command = stage.command("mpv");
                command.args(["--no-config", "--no-terminal", "--no-osc", "--osd-level=0"]);
                command.args(["--fs", "--no-border", "--no-keepaspect", "--hwdec=no"]);
                command.args(["--stop-screensaver=no", "--vo=xv,x11", "--ao=pulse"]);
                for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
                    command.env(name, folder);
                }
                return stage.application("mpv", {
                    command.arg(clip);
                    command
                });
            }
            Player::Chromium => Browser::Chromium,
            Player::Firefox => Browser::Firefox,
        };
        let page = folder.join("lips.html");
        fs::write(&page, page_of(clip))?;
        let url = format!("file://{}", page.display());
        let command = stage.command(browser.program());
        let command = browser.configure(command, stage.site.size, folder, &url)?;
        let watch = stage.site.screen.watch()?;
        let running = stage.application(browser.program(), command)?;
        stage.wait_shown("the clip's page", watch)?;
        // Nobody's sound begins without a key or click.
        stage.input.key("space")?;
        Ok(running)
    }
}

fn page_of(clip: &Path) -> String {
    format!(
        "<!doctype html><title>lips</title><style>html,body{{margin:0;background:#123;\
         overflow:hidden;cursor:none}}video{{position:fixed;width:100vw;height:100vh;\
         object-fit:fill}}</style><video id=video preload=auto src=\"file://{}\"></video>\
         <script>onkeydown=()=>video.play()</script>",
        clip.display()
    )
}

/// 640x360 at 25 frames a second: H.264 without reordering, and FLAC, which has no delay of its
/// own, so that both begin at 0. All players have both.
fn write_clip(file: &Path, seconds: u32) -> Result<(), Error> {
    let picture = format!("color=c=black:s=640x360:r=25:d={seconds}");
    let sound = format!(
        "aevalsrc='0.5*sin(2*PI*2000*t)*lt(mod(t\\,1)\\,0.02)':s=48000:c=stereo:d={seconds}"
    );
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", &picture]);
    ffmpeg.args(["-f", "lavfi", "-i", &sound]);
    ffmpeg.args(["-vf", "drawbox=c=white:t=fill:enable='eq(mod(n,25),0)',format=yuv420p"]);
    ffmpeg.args(["-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-g", "25"]);
    // FLAC in MP4 is called experimental by Debian 12's.
    ffmpeg.args(["-c:a", "flac", "-strict", "-2"]).arg(file);
    let output = ffmpeg.output().map_err(|error| format!("cannot start ffmpeg: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("ffmpeg makes no clip: {}", words.lines().next().unwrap_or_default()).into())
}

/// Reads the middle of the screen until `end`; when it became bright.
fn flashes_ns(screen: &Framebuffer, end: Instant) -> Result<Vec<u64>, Error> {
    let (x, y) = (screen.width / 2, screen.height / 2);
    let (mut flashes, mut was_bright, mut row) = (Vec::new(), false, Vec::new());
    while Instant::now() < end {
        if interrupted() {
            return Err("interrupted".into());
        }
        screen.read_rows(y, y + 1, &mut row)?;
        let at = now_ns();
        let pixel =
            row.get(x * 4..x * 4 + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let is_bright = channels(pixel).iter().all(|&level| level > BRIGHT);
        if is_bright && !was_bright {
            flashes.push(at);
        }
        was_bright = is_bright;
        std::thread::sleep(READ_INTERVAL);
    }
    Ok(flashes)
}

/// How much later each burst was heard than its flash was seen, ms; without those of the time in
/// which players settle.
fn sync_ms(flashes_ns: &[u64], bursts_ns: &[u64]) -> Vec<f64> {
    let Some(&first) = flashes_ns.first() else { return Vec::new() };
    let settled = flashes_ns.iter().filter(|&&at| at >= first + SETTLING_NS);
    let pair = |&flash: &u64| {
        let burst = bursts_ns.iter().min_by_key(|burst| burst.abs_diff(flash))?;
        let apart = burst.cast_signed() - flash.cast_signed();
        (apart.unsigned_abs() <= PAIR_NS_MAX).then_some(apart as f64 / 1e6)
    };
    settled.filter_map(pair).collect()
}

impl Workload for Lips {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &'static str {
        "a clip with a white frame and a burst each second: how far they are apart"
    }

    fn needs(&self) -> &'static [&'static str] {
        match self.by {
            Player::Mpv => &["mpv", "ffmpeg"],
            Player::Chromium => &["chromium", "ffmpeg"],
            Player::Firefox => &["firefox-esr", "ffmpeg"],
        }
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        f64::from(clip_seconds(effort)) + 20.0
    }

    fn listens(&self) -> bool {
        true
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let seconds = clip_seconds(effort);
        let clip = self.clip(seconds)?;
        open_ears(stage)?;
        let screen = stage.site.screen.framebuffer()?;
        let ear = stage.site.ear()?;
        let before = ear.loud_samples();
        let mut running = self.open(stage, &clip)?;
        wait_for("the clip is heard, or its player ends", START_LIMIT, || {
            let ended = running.check().err().map(Err);
            ended.or_else(|| (ear.loud_samples() > before).then_some(Ok(())))
        })??;
        let end = Instant::now() + Duration::from_secs(seconds.into());
        let flashes = flashes_ns(&screen, end)?;
        wait_heard(stage)?;
        let bursts = onsets_ns(&ear.heard().pieces);
        let apart = sync_ms(&flashes, &bursts);
        if apart.is_empty() {
            let (flashes, bursts) = (flashes.len(), bursts.len());
            let words = "of which no two are of one moment";
            return Err(format!("{flashes} flashes and {bursts} bursts, {words}").into());
        }
        let size = apart.iter().map(|ms| ms.abs());
        Ok(vec![
            Measure::new(SYNC, "", "ms", Better::Neither, apart.iter().copied()),
            Measure::lower("sound_beside_picture_ms", "", "ms", size),
            Measure::fact("flashes", "", "frames", flashes.len() as f64),
            Measure::fact("bursts", "", "bursts", bursts.len() as f64),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        if !peer.starts_with("thinc") {
            return Vec::new();
        }
        let p95 = quantile(found.samples(peer, "sound_beside_picture_ms", ""), 0.95);
        vec![Claim::at_most("sound beside the picture, p95", p95, SYNC_MS_MAX, "ms")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn pairs_are_of_one_moment_and_counted_once_players_have_settled() {
        let flashes: Vec<u64> = (1..=10).map(|second| second * 1000 * MS).collect();
        let mut bursts: Vec<u64> = flashes.iter().map(|at| at + 15 * MS).collect();
        bursts[7] = flashes[7] - 30 * MS;
        bursts.remove(8);
        assert_eq!(sync_ms(&flashes, &bursts), [15.0, 15.0, -30.0, 15.0]);
        assert!(sync_ms(&flashes, &[]).is_empty() && sync_ms(&[], &bursts).is_empty());
    }
}
