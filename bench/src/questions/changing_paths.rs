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
use crate::report::words;
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
        let _flow = self.flow(&bed)?;
        let mut fresh = stage.on(&Arc::new(bed))?;
        found.extend(self.measure(&mut fresh, effort, FRESH)?);
        Ok(found)
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let of = |what: &What| what.medians(found, peer).map(|[changed, fresh]| changed / fresh);
        let unit = "times a viewer's that connected on the path";
        let mut claims = vec![
            Claim::at_most("page", of(&PAGE), RATIO_MAX, unit),
            Claim::at_most("echo", of(&ECHO), RATIO_MAX, unit),
        ];
        if let Some(video) = of(&VIDEO) {
            claims.push(Claim::at_least("video on time", Some(video), 1.0 / RATIO_MAX, unit));
        }
        claims
    }

    /// For each peer: page, echo and video after the change, and for a viewer that connected on the
    /// path.
    fn summary(&self, found: &Found<'_>) -> Option<(String, String)> {
        let name = |peer: &str, what: &What| format!(" {peer}, {} |", what.name);
        let cell = |peer: &str, what: &What| match what.medians(found, peer) {
            Some([changed, fresh]) => {
                format!(" {}, {} |", what.show(changed), what.show(fresh))
            }
            None => " - |".to_owned(),
        };
        let row = |first: &str, cell: &dyn Fn(&str, &What) -> String| {
            let of_peer = |(peer, _): &(String, Vec<Measure>)| {
                [PAGE, ECHO, VIDEO].map(|what| cell(peer, &what)).concat()
            };
            format!("| {first} |{}", found.peers.iter().map(of_peer).collect::<String>())
        };
        Some((row("change", &name), row(self.entry.name, &cell)))
    }
}

/// Something that is measured after the change, and on the path from the start.
struct What {
    name: &'static str,
    quantity: &'static str,
    unit: &'static str,
}

const PAGE: What = What { name: "page", quantity: quantity::VISIBLE_MS, unit: "ms" };
const ECHO: What = What { name: "echo", quantity: quantity::PHOTON_MS, unit: "ms" };
const VIDEO: What = What { name: "video", quantity: quantity::VIDEO_QUALITY, unit: "share" };

impl What {
    fn part(&self, when: &str) -> String {
        format!("{} {when}", self.name)
    }

    /// The medians after the change and from the start.
    fn medians(&self, found: &Found<'_>, peer: &str) -> Option<[f64; 2]> {
        let of = |when: &str| median(found.samples(peer, self.quantity, &self.part(when)));
        of(CHANGED).zip(of(FRESH)).map(|(changed, fresh)| [changed, fresh])
    }

    fn show(&self, value: f64) -> String {
        words::value(value, self.unit)
    }
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
        let page = PAGE.part(when);
        let mut found = vec![
            Measure::lower(PAGE.quantity, &page, PAGE.unit, visible),
            Measure::higher(quantity::EXACT_SHARE, &page, "share", exact),
            Measure::lower(ECHO.quantity, &ECHO.part(when), ECHO.unit, photon),
        ];
        if ["mpv", "ffmpeg"].iter().all(|program| on_path(program)) {
            let on_time = self.video(stage, seconds, when)?;
            let part = VIDEO.part(when);
            found.push(Measure::higher(VIDEO.quantity, &part, VIDEO.unit, [on_time]));
        }
        Ok(found)
    }

    /// Brings the path back to what it was before.
    fn before(&self, stage: &Stage, when: &str) -> Result<(), Error> {
        let link = if when == CHANGED { self.entry.before()? } else { self.entry.after()? };
        stage.site.bed.set_link(&link);
        stage.settle()
    }

    /// Changes the path, unless the viewer has connected on the changed one, and waits. The path
    /// stays as it is until the result is dropped.
    fn change(&self, stage: &Stage, when: &str) -> Result<Option<CompetingFlow>, Error> {
        let bed = &stage.site.bed;
        let mut flow = None;
        if when == CHANGED {
            bed.play(&self.entry.schedule()?);
            flow = self.flow(bed)?;
            if self.entry.change == Change::NewAddress {
                bed.change_client_address()?;
            }
        } else {
            bed.play(&self.entry.schedule_after()?);
        }
        pause(SETTLED)?;
        Ok(flow)
    }

    /// The flow that this entry has beside the viewer.
    fn flow(&self, bed: &Testbed) -> Result<Option<CompetingFlow>, Error> {
        let has_one = self.entry.change == Change::CompetingFlow;
        has_one.then(|| CompetingFlow::start(bed)).transpose()
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
        let mut held = None;
        for page in 1..=WARM_UP + pages {
            if page == WARM_UP + 1 {
                held = self.change(stage, when)?;
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
        let file = playback::File { path: &path, frames, rate: clip::RATE };
        let ready = playback::open(stage, PlayedBy::Mpv, &file)?;
        let _held = self.change(stage, when)?;
        let played = playback::play(stage, ready)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    fn measures(when: &str, page: f64, echo: f64, video: Option<f64>) -> Vec<Measure> {
        vec![
            Measure::lower(PAGE.quantity, &PAGE.part(when), "ms", [page]),
            Measure::lower(ECHO.quantity, &ECHO.part(when), "ms", [echo]),
            Measure::higher(VIDEO.quantity, &VIDEO.part(when), "share", video),
        ]
    }

    #[test]
    fn an_entry_is_one_line_of_the_table() {
        let folder = Arc::new(Folder::new("changing-paths-table").unwrap());
        let changing = Changing { entry: Entry::named("delay-up").unwrap(), folder };
        let both = [measures(CHANGED, 150.0, 70.0, None), measures(FRESH, 100.0, 69.5, None)];
        let failed = [measures(CHANGED, 150.0, 70.0, Some(0.5)), Vec::new()];
        let peers = vec![
            ("thinc-quic".to_owned(), both.concat()),
            ("tigervnc".to_owned(), failed.concat()),
        ];
        let found = Found { link: &"lan".parse().unwrap(), peers: &peers };
        let (head, line) = changing.summary(&found).unwrap();
        assert_eq!(line, "| delay-up | 150 ms, 100 ms | 70.0 ms, 69.5 ms | - | - | - | - |");
        assert!(head.starts_with("| change | thinc-quic, page | thinc-quic, echo |"), "{head}");
    }

    #[test]
    fn a_changed_path_is_held_against_a_fresh_viewer() {
        let folder = Arc::new(Folder::new("changing-paths-test").unwrap());
        let changing = Changing { entry: Entry::named("delay-up").unwrap(), folder };
        let holds = |page: f64, echo: f64, video: Option<f64>| {
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
