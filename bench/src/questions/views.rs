//! Question: how many bytes does a viewer of a small screen take of those of a large one, for web pages and for video?
//! Two viewers of one session of 1024x768 at the same time: one sees it as it is, one in 320x240 (THINC §4: less than half for pages, and
//! for video 24 Mbit/s that become 2.5). Pages are the papers' 54, of which each rests before the next; the film is theirs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::trial::{Claim, pause};
use crate::Error;
use crate::figures::Samples;
use crate::process::{Folder, Headless, Session, wait_for};
use crate::workloads::content::clip::{self, Film};
use crate::workloads::content::pages::{Pages, START};

/// How `views` runs.
#[derive(Args)]
pub struct Options {
    /// Pages.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=54))]
    pages: u32,
    /// Seconds of the film.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=30))]
    seconds: u64,
    /// What the second viewer sees, as `thinc-view --view` takes it.
    #[arg(long, default_value = "320x240")]
    view: String,
    /// Where to keep pictures of what both saw last.
    #[arg(long)]
    screenshots: Option<PathBuf>,
}

const SCREEN: &str = "1024x768";
/// A browser's first start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A viewer and where it writes its figures.
struct Viewer {
    name: &'static str,
    headless: Headless,
    stats: PathBuf,
}

impl Viewer {
    fn start(name: &'static str, link: &str, options: &[&str], folder: &Path) -> Result<Viewer, Error> {
        let headless = Headless::start_with(link, options)?;
        Ok(Viewer { name, headless, stats: folder.join(format!("{name}.json")) })
    }

    fn stats(&mut self) -> Result<Value, Error> {
        self.headless.say(&format!("stats {}", self.stats.display()))?;
        Ok(serde_json::from_str(&std::fs::read_to_string(&self.stats)?)?)
    }

    fn bytes(&mut self) -> Result<f64, Error> {
        Ok(self.stats()?["bytes_in"].as_f64().ok_or("stats have no bytes_in")?)
    }

    fn shown(&mut self) -> Result<String, Error> {
        self.headless.say("hash")
    }

    /// Waits until it shows something else than `before`, and then rests.
    fn wait_for_more_than(&mut self, before: &str) -> Result<(), Error> {
        wait_for("the viewer shows something new", START_LIMIT, || {
            self.headless.say("wait-quiet").ok()?;
            (self.shown().ok()? != before).then_some(())
        })
    }

    fn keep(&mut self, folder: Option<&Path>, what: &str) -> Result<(), Error> {
        let Some(folder) = folder else { return Ok(()) };
        let file = folder.join(format!("{what}-{}.png", self.name));
        self.headless.say(&format!("screenshot {}", file.display())).map(drop)
    }
}

/// Both viewers, of which the second one comes with a link of its own.
fn viewers(session: &Session, view: &str, folder: &Path) -> Result<[Viewer; 2], Error> {
    let full = Viewer::start("full", &session.link, &[], folder)?;
    let another = session.another_link()?;
    Ok([full, Viewer::start("view", &another, &["--view", view], folder)?])
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let pages = pages(options)?;
    let film = film(options)?;
    let share = |[full, view]: [f64; 2]| view / full * 100.0;
    println!("views: {SCREEN}, and the same in {} at the same time", options.view);
    println!("  {} web pages, KB each, median      full {:.0}   view {:.0}", options.pages, pages[0], pages[1]);
    println!("  the papers' film on all of it, Mbit/s  full {:.2}   view {:.2}", film[0], film[1]);
    Claim::at_most("bytes of pages, of those at full size", share(pages), 50.0, "%").print();
    Claim::at_most("bytes of video, of those at full size", share(film), 2.5 / 24.0 * 100.0, "%").print();
    Ok(())
}

/// KB of each page, both viewers' medians.
fn pages(options: &Options) -> Result<[f64; 2], Error> {
    let folder = Folder::new("views")?;
    Pages::all()?.write(&folder.path().join("pages"))?;
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let url = format!("file://{}/pages/{START}", folder.path().display());
    // Keys go to an active window, which a window manager makes.
    let browser = format!(
        "exec openbox --startup \"sh -c 'exec chromium --no-sandbox --test-type --disable-gpu --no-first-run --disable-background-networking \
         --disable-component-update --disable-sync --disable-smooth-scrolling --kiosk --window-size=1024,768 \
         --window-position=0,0 {profile} {url}'\""
    );
    let session = Session::start("views", SCREEN, &["sh", "-c", &browser])?;
    let mut viewers = viewers(&session, &options.view, folder.path())?;
    // The browser has painted when the screen rests for a while.
    let (mut last, mut still) = (String::new(), 0);
    wait_for("the browser is there", START_LIMIT, || {
        viewers[0].headless.say("wait-quiet").ok()?;
        let now = viewers[0].shown().ok()?;
        still = if now == last { still + 1 } else { 0 };
        last = now;
        std::thread::sleep(Duration::from_millis(100));
        (still > 20).then_some(())
    })?;
    let mut bytes = [Samples::default(), Samples::default()];
    for _ in 0..options.pages {
        let before = [viewers[0].bytes()?, viewers[1].bytes()?];
        let shown = [viewers[0].shown()?, viewers[1].shown()?];
        viewers[0].headless.say("key Return")?;
        for (viewer, shown) in viewers.iter_mut().zip(&shown) {
            viewer.wait_for_more_than(shown)?;
        }
        // Chromium paints pictures some time after the text.
        pause(Duration::from_millis(400))?;
        for (i, viewer) in viewers.iter_mut().enumerate() {
            viewer.headless.say("wait-quiet")?;
            bytes[i].push((viewer.bytes()? - before[i]) / 1e3);
        }
    }
    for viewer in &mut viewers {
        viewer.keep(options.screenshots.as_deref(), "page")?;
    }
    Ok(bytes.map(|samples| samples.median()))
}

/// Mbit/s of the film.
fn film(options: &Options) -> Result<[f64; 2], Error> {
    let folder = Folder::new("views")?;
    let file = folder.path().join("film.mp4");
    clip::write_h264(&Film::new(), 240, clip::RATE, &file)?;
    let file = file.display().to_string();
    let words = ["mpv", "--no-config", "--no-audio", "--no-terminal", "--no-osc", "--no-border", "--no-keepaspect"];
    let more = ["--hwdec=no", "--stop-screensaver=no", "--loop=inf", "--vo=xv", "--geometry=1024x768+0+0", &file];
    let session = Session::start("views", SCREEN, &[&words[..], &more[..]].concat())?;
    let mut viewers = viewers(&session, &options.view, folder.path())?;
    // It plays once the pictures go on changing; then a second for streams to begin.
    for viewer in &mut viewers {
        for _ in 0..3 {
            let before = viewer.shown()?;
            wait_for("the film plays", START_LIMIT, || (viewer.shown().ok()? != before).then_some(()))?;
        }
    }
    pause(Duration::from_secs(2))?;
    let before = [viewers[0].bytes()?, viewers[1].bytes()?];
    pause(Duration::from_secs(options.seconds))?;
    let after = [viewers[0].bytes()?, viewers[1].bytes()?];
    for viewer in &mut viewers {
        viewer.keep(options.screenshots.as_deref(), "film")?;
    }
    Ok([0, 1].map(|i| (after[i] - before[i]) * 8.0 / 1e6 / options.seconds as f64))
}
