//! Question: how soon are pages, keys and video right on a path that changes while the viewer is
//! connected? Each entry of the catalogue: the viewer connects, the path changes, and two seconds
//! later it is measured; then the same for a viewer that connected on the changed path. Knows the
//! catalogue and the measures; never which peer adapts how.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::{Claim, Found, Question, pause};
use crate::Error;
use crate::apps::latency::Operation as Drawing;
use crate::net::catalogue::{CATALOGUE, Change, Entry};
use crate::net::nettest::CompetingFlow;
use crate::net::testbed::Testbed;
use crate::process::{Folder, on_path};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::stats::median;
use crate::workloads::browser::{Browser, Titles};
use crate::workloads::content::clip::{self, TestVideo};
use crate::workloads::content::pages::START;
use crate::workloads::content::sites::{SITES, sites};
use crate::workloads::playback::{self, PlayedBy, quality};
use crate::workloads::{Effort, Workload, own};

/// The question.
#[derive(Args, Clone)]
pub struct ChangingPaths {
    /// Entries of the catalogue, separated by commas; all if none is named
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = Entry::named)]
    entries: Vec<&'static Entry>,
}

/// How long after the change a viewer is measured.
const SETTLED: Duration = Duration::from_secs(2);
/// How many times longer than on an unchanged path a page and an echo may take, and the share of
/// the frames that may be late for it.
const RATIO_MAX: f64 = 1.5;
/// Longest until a browser has loaded a page, and until quiet follows.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
const OPERATION_LIMIT: Duration = Duration::from_secs(90);

const CHANGED: &str = "after the change";
const FRESH: &str = "from the start";

/// Pages, keys, and seconds of video.
fn counts(effort: Effort) -> (usize, usize, u32) {
    match effort {
        Effort::Smoke => (3, 5, 3),
        Effort::Quick => (10, 10, 6),
        Effort::Full => (SITES - WARM_UP, 40, 20),
    }
}

/// Pages before the change: the connection has used its path.
const WARM_UP: usize = 3;

impl Question for ChangingPaths {
    const NAME: &'static str = "changing-paths";
    const PEERS: &'static str = "thinc-quic,thinc-tcp";
    // Each entry brings its own; the viewer is started on this one.
    const LINKS: &'static [&'static str] = &["lan"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        let folder = Arc::new(Folder::new("changing-paths")?);
        let all: Vec<&'static Entry> = CATALOGUE.iter().collect();
        let entries = if self.entries.is_empty() { &all } else { &self.entries };
        let changing = |entry: &&'static Entry| -> Box<dyn Workload> {
            Box::new(Changing { entry, folder: Arc::clone(&folder) })
        };
        Ok(entries.iter().map(changing).collect())
    }
}

/// One entry.
struct Changing {
    entry: &'static Entry,
    /// Holds the video, which all trials of a run share.
    folder: Arc<Folder>,
}

/// What keeps the changed path as it is.
#[derive(Default)]
struct Held(#[expect(dead_code, reason = "dropping it ends the flow")] Option<CompetingFlow>);

impl Workload for Changing {
    fn name(&self) -> &str {
        self.entry.name
    }

    fn about(&self) -> &'static str {
        self.entry.about
    }

    fn needs(&self) -> &'static [&'static str] {
        &["chromium"]
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        let (pages, keys, video) = counts(effort);
        60.0 + 2.0 * ((pages + WARM_UP) as f64 * 1.5 + keys as f64 + f64::from(video))
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        println!(
            "{}: {} to {}",
            self.entry.name,
            self.entry.before()?.about(),
            self.entry.after()?.about()
        );
        let mut found = self.measure(stage, effort, CHANGED)?;
        let bed = Testbed::start(&self.entry.after()?, Some(stage.site.bed.congestion()))?;
        let mut fresh = stage.on(&Arc::new(bed))?;
        found.extend(self.measure(&mut fresh, effort, FRESH)?);
        Ok(found)
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let ratio = |name: &str, changed: &str, fresh: &str| {
            let [changed, fresh] =
                [changed, fresh].map(|part| median(found.samples(peer, name, part)));
            changed.zip(fresh).map(|(changed, fresh)| changed / fresh)
        };
        let part = |what: &str, when: &str| part(what, when);
        let of = |name: &str, what: &str| ratio(name, &part(what, CHANGED), &part(what, FRESH));
        let unit = "times a viewer's that connected on the path";
        let mut claims = vec![
            Claim::at_most("page", of(quantity::VISIBLE_MS, PAGE), RATIO_MAX, unit),
            Claim::at_most("echo", of(quantity::PHOTON_MS, ECHO), RATIO_MAX, unit),
        ];
        if let Some(video) = of(quantity::VIDEO_QUALITY, VIDEO) {
            claims.push(Claim::at_least("video on time", Some(video), 1.0 / RATIO_MAX, unit));
        }
        claims
    }
}

const PAGE: &str = "page";
const ECHO: &str = "echo";
const VIDEO: &str = "video";

fn part(what: &str, when: &str) -> String {
    format!("{what} {when}")
}

impl Changing {
    fn measure(
        &self,
        stage: &mut Stage,
        effort: Effort,
        when: &str,
    ) -> Result<Vec<Measure>, Error> {
        let (pages, keys, seconds) = counts(effort);
        let (visible, exact) = self.pages(stage, pages, when)?;
        let photon = self.keys(stage, keys, when)?;
        let page = part(PAGE, when);
        let mut found = vec![
            Measure::lower(quantity::VISIBLE_MS, &page, "ms", visible),
            Measure::higher(quantity::EXACT_SHARE, &page, "share", exact),
            Measure::lower(quantity::PHOTON_MS, &part(ECHO, when), "ms", photon),
        ];
        if ["mpv", "ffmpeg"].iter().all(|program| on_path(program)) {
            let on_time = self.video(stage, seconds, when)?;
            let part = part(VIDEO, when);
            found.push(Measure::higher(quantity::VIDEO_QUALITY, &part, "share", [on_time]));
        }
        Ok(found)
    }

    /// Brings the path back to what it was before.
    fn before(&self, stage: &Stage, when: &str) -> Result<(), Error> {
        let link = if when == CHANGED { self.entry.before()? } else { self.entry.after()? };
        stage.site.bed.set_link(&link);
        stage.settle()
    }

    /// Changes the path, unless the viewer has connected on the changed one, and waits.
    fn change(&self, stage: &Stage, when: &str) -> Result<Held, Error> {
        let bed = &stage.site.bed;
        if when == CHANGED {
            bed.play(&self.entry.schedule()?);
        } else {
            bed.play(&self.entry.schedule_after()?);
        }
        let flow = match self.entry.change {
            Change::NewAddress if when == CHANGED => {
                bed.change_client_address()?;
                None
            }
            Change::CompetingFlow => Some(CompetingFlow::start(bed)?),
            _ => None,
        };
        pause(SETTLED)?;
        Ok(Held(flow))
    }

    /// Milliseconds until each page was visible, and the share of its pixels that was exact then.
    fn pages(
        &self,
        stage: &mut Stage,
        pages: usize,
        when: &str,
    ) -> Result<(Vec<f64>, Vec<f64>), Error> {
        self.before(stage, when)?;
        let folder = stage.site.folder.path().join("sites");
        sites()?.write(&folder)?;
        let mut browser = Browser::Chromium.show(stage, &folder, START, 0)?;
        let titles = Titles::new(stage)?;
        let (mut visible, mut exact) = (Vec::new(), Vec::new());
        let mut held = Held::default();
        for page in 1..=WARM_UP + pages {
            if page == WARM_UP + 1 {
                held = self.change(stage, when)?;
            }
            // A competing flow never rests, and quiet would never come.
            if page > WARM_UP && self.entry.change == Change::CompetingFlow {
                visible.extend(page_beside_a_flow(stage, &titles, page)?);
                continue;
            }
            let done = stage.operation_within(OPERATION_LIMIT, |input| {
                let pressed = input.key("Return")?;
                titles.wait_for(page, PAGE_LIMIT)?;
                Ok(pressed)
            });
            let done = done.map_err(|error| format!("page {page}: {error}"))?;
            if page > WARM_UP {
                visible.extend(done.visible_ms);
                exact.push(done.exact_share);
            }
        }
        drop(held);
        browser.check()?;
        Ok((visible, exact))
    }

    /// Milliseconds from each key to the first pixel that changed.
    fn keys(&self, stage: &mut Stage, keys: usize, when: &str) -> Result<Vec<f64>, Error> {
        self.before(stage, when)?;
        let _application = own::show(stage, "latency", &["latency"])?;
        let drawing = Drawing::ALL[0];
        stage.operation(|input| input.key(drawing.key()))?;
        let _held = self.change(stage, when)?;
        let mut photon = Vec::new();
        for key in 1..=keys {
            let watch = stage.site.screen.watch()?;
            let pressed = stage.input.key(drawing.key())?;
            crate::process::wait_for(&format!("key {key} on the screen"), OPERATION_LIMIT, || {
                watch.changed().then_some(())
            })?;
            let changes = watch.finish()?.within(stage.view);
            let seen = changes.first_from(pressed);
            photon.extend(seen.map(|at| super::ms_since(at, pressed)));
            // A person's fast typing.
            pause(Duration::from_millis(200))?;
        }
        Ok(photon)
    }

    /// The share of a video's frames that were shown on time.
    fn video(&self, stage: &mut Stage, seconds: u32, when: &str) -> Result<f64, Error> {
        self.before(stage, when)?;
        let frames = (f64::from(seconds) * clip::RATE) as u32;
        let path = self.file(frames)?;
        let _held = self.change(stage, when)?;
        let file = playback::File { path: &path, frames, rate: clip::RATE };
        let played = playback::play(stage, PlayedBy::Mpv, &file)?;
        Ok(quality(played.began, &played.seen.seen, frames, clip::RATE).on_time)
    }

    /// The papers' clip, written by the first trial that needs it.
    fn file(&self, frames: u32) -> Result<PathBuf, Error> {
        let file = self.folder.path().join(format!("{frames}.mp4"));
        if !file.exists() {
            let video = TestVideo::sized(clip::WIDTH, clip::HEIGHT);
            clip::write_h264(&video, frames, clip::RATE, &file)?;
        }
        Ok(file)
    }
}

/// Milliseconds until a page was visible, where only the screen comes to rest and the link does
/// not.
fn page_beside_a_flow(
    stage: &mut Stage,
    titles: &Titles,
    page: usize,
) -> Result<Option<f64>, Error> {
    let watch = stage.site.screen.watch()?;
    let pressed = stage.input.key("Return")?;
    titles.wait_for(page, PAGE_LIMIT)?;
    let (began, gap) = (std::time::Instant::now(), stage.quiet_gap());
    while watch.last_change().unwrap_or(began).max(began).elapsed() < gap {
        if began.elapsed() > OPERATION_LIMIT {
            return Err(format!("page {page}: the screen goes on changing").into());
        }
        pause(gap / 10)?;
    }
    let changes = watch.finish()?.within(stage.view);
    Ok(changes.visible().map(|at| super::ms_since(at, pressed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn a_changed_path_is_held_against_a_fresh_viewer() {
        let folder = Arc::new(Folder::new("changing-paths-test").unwrap());
        let changing = Changing { entry: Entry::named("delay-up").unwrap(), folder };
        let holds = |page: f64, echo: f64, video: Option<f64>| {
            let measures = |when: &str, page: f64, echo: f64, video: Option<f64>| {
                vec![
                    Measure::lower(quantity::VISIBLE_MS, &part(PAGE, when), "ms", [page]),
                    Measure::lower(quantity::PHOTON_MS, &part(ECHO, when), "ms", [echo]),
                    Measure::higher(quantity::VIDEO_QUALITY, &part(VIDEO, when), "share", video),
                ]
            };
            let found = [
                measures(CHANGED, page, echo, video),
                measures(FRESH, 100.0, 70.0, video.map(|_| 0.9)),
            ];
            holds(&changing, "lan", vec![("thinc", found.concat())], "thinc")
        };
        assert_eq!(holds(150.0, 105.0, Some(0.6)), [true, true, true]);
        assert_eq!(holds(151.0, 106.0, Some(0.59)), [false, false, false]);
        assert_eq!(holds(90.0, 60.0, None), [true, true], "without a player");
    }
}
