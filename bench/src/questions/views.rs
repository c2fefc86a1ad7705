//! Question: how many bytes does a viewer of a small screen take of those of a large one, for web
//! pages and for video? Two viewers of one session of 1024x768 at the same time: one at full size,
//! one in 320x240 (THINC §4: less than half for pages, and for video 2.5 of 24 Mbit/s). Pages are
//! the papers' 54, each of which rests before the next; the video is theirs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::direct::{START_LIMIT, browser, bytes_in, wait_changed, wait_painted};
use super::{Claim, pause, print_table};
use crate::Error;
use crate::process::{Folder, Headless, Session, wait_for};
use crate::results::{Measure, quantity};
use crate::stats::median;
use crate::workloads::content::clip::{self, TestVideo};
use crate::workloads::content::pages::{Pages, START};

/// Options of `views`.
#[derive(Args)]
pub struct Options {
    /// Pages.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=54))]
    pages: u32,
    /// Seconds of the video.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=30))]
    seconds: u64,
    /// What the second viewer sees, as `thinc-view --view` takes it.
    #[arg(long, default_value = "320x240")]
    view: String,
    /// Folder for images of what both viewers showed last.
    #[arg(long)]
    screenshots: Option<PathBuf>,
}

const SCREEN: &str = "1024x768";
const NAMES: [&str; 2] = ["full", "view"];

/// Both viewers; the second connects with a link of its own.
fn viewers(session: &Session, view: &str) -> Result<[Headless; 2], Error> {
    let full = Headless::start(&session.link)?;
    Ok([full, Headless::start_with(&session.another_link()?, &["--view", view])?])
}

fn keep(viewers: &mut [Headless; 2], folder: Option<&Path>, what: &str) -> Result<(), Error> {
    let Some(folder) = folder else { return Ok(()) };
    for (viewer, name) in viewers.iter_mut().zip(NAMES) {
        let file = folder.join(format!("{what}-{name}.png"));
        viewer.say(&format!("screenshot {}", file.display()))?;
    }
    Ok(())
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let [full_pages, view_pages] = pages(options)?;
    let [full_video, view_video] = video(options)?;
    let share = |full: Option<f64>, view: Option<f64>| Some(view? / full? * 100.0);
    let of_pages = share(median(&full_pages), median(&view_pages));
    let of_video = share(Some(full_video), Some(view_video));
    println!("views: {SCREEN}, and the same in {} at the same time", options.view);
    let column = |name: &str, bytes: Vec<f64>, mbit_s: f64| {
        let measures = vec![
            Measure::lower(quantity::BYTES_DOWN, "a web page", "bytes", bytes),
            Measure::lower("mbit_s", "video on the whole screen", "Mbit/s", [mbit_s]),
        ];
        (name.to_owned(), measures)
    };
    print_table(&[
        column(NAMES[0], full_pages, full_video),
        column(NAMES[1], view_pages, view_video),
    ]);
    Claim::at_most("bytes of pages, of those at full size", of_pages, 50.0, "%").print();
    let limit = 2.5 / 24.0 * 100.0;
    Claim::at_most("bytes of video, of those at full size", of_video, limit, "%").print();
    Ok(())
}

/// Bytes of each page, for both viewers.
fn pages(options: &Options) -> Result<[Vec<f64>; 2], Error> {
    let folder = Folder::new("views")?;
    Pages::all()?.write(&folder.path().join("pages"))?;
    let url = format!("file://{}/pages/{START}", folder.path().display());
    let browser = browser("chromium", folder.path(), &url);
    let session = Session::start("views", SCREEN, &["sh", "-c", &browser])?;
    let mut viewers = viewers(&session, &options.view)?;
    wait_painted(&mut viewers[0])?;
    let mut bytes = [vec![], vec![]];
    for _ in 0..options.pages {
        let mut before = Vec::new();
        for viewer in &mut viewers {
            before.push((bytes_in(viewer, folder.path())?, viewer.say("hash")?));
        }
        viewers[0].say("key Return")?;
        for (viewer, (_, shown)) in viewers.iter_mut().zip(&before) {
            wait_changed(viewer, shown, START_LIMIT)?;
        }
        // Chromium paints images some time after the text.
        pause(Duration::from_millis(400))?;
        for ((viewer, (before, _)), bytes) in viewers.iter_mut().zip(before).zip(&mut bytes) {
            viewer.say("wait-quiet")?;
            bytes.push(bytes_in(viewer, folder.path())? - before);
        }
    }
    keep(&mut viewers, options.screenshots.as_deref(), "page")?;
    Ok(bytes)
}

/// Mbit/s of the video.
fn video(options: &Options) -> Result<[f64; 2], Error> {
    let folder = Folder::new("views")?;
    let file = folder.path().join("video.mp4");
    clip::write_h264(&TestVideo::new(), 240, clip::RATE, &file)?;
    let player = format!(
        "exec mpv --no-config --no-audio --no-terminal --no-osc --no-border --no-keepaspect \
         --hwdec=no --stop-screensaver=no --loop=inf --vo=xv --geometry=1024x768+0+0 {}",
        file.display()
    );
    let session = Session::start("views", SCREEN, &["sh", "-c", &player])?;
    let mut viewers = viewers(&session, &options.view)?;
    // It plays once the picture changes again and again; streams begin within two seconds.
    for viewer in &mut viewers {
        for _ in 0..3 {
            let before = viewer.say("hash")?;
            wait_for("the video plays", START_LIMIT, || {
                (viewer.say("hash").ok()? != before).then_some(())
            })?;
        }
    }
    pause(Duration::from_secs(2))?;
    let mut bytes = [[0.0; 2]; 2];
    for (reading, bytes) in bytes.iter_mut().enumerate() {
        if reading == 1 {
            pause(Duration::from_secs(options.seconds))?;
        }
        for (viewer, bytes) in viewers.iter_mut().zip(bytes) {
            *bytes = bytes_in(viewer, folder.path())?;
        }
    }
    keep(&mut viewers, options.screenshots.as_deref(), "video")?;
    let [before, after] = bytes;
    Ok([0, 1].map(|i| (after[i] - before[i]) * 8.0 / 1e6 / options.seconds as f64))
}
