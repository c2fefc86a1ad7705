//! From the viewer's start, with name and password at hand, to the whole first screen: with a new
//! desktop, and with one that runs. thinc and xrdp alike show a photograph behind a page of text,
//! drawn by the same program. Knows logins and pictures; never protocols.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{PASSWORD, SHOWN_MAX, SIZE, accounts, end_desktop, link};
use crate::Error;
use crate::apps;
use crate::display::DisplayNumber;
use crate::net::testbed::Testbed;
use crate::observe::account::Accounts as CpuAccounts;
use crate::observe::picture::Picture;
use crate::observe::screen::{ClientScreen, Listen};
use crate::peers::accounts::Accounts;
use crate::peers::{Desk, broker, failure, xrdp};
use crate::process::{Running, interrupted, wait_for};
use crate::questions::print_table;
use crate::results::{Measure, quantity};
use crate::stage::Site;

/// Options of `hosting logins`.
#[derive(clap::Args)]
pub struct Options {
    /// Links.
    #[arg(long, value_delimiter = ',', default_value = "lan,wan")]
    links: Vec<String>,
    /// Logins of each kind.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
}

/// Whole screens are compared only when nothing has changed for so long.
const RESTS: Duration = Duration::from_millis(300);
/// The application's process.
const APPLICATION: &str = "thinc-bench";

/// A server where people log in, and its viewer.
trait Host {
    fn name(&self) -> &'static str;
    fn start(&self, site: &Site, session: &str) -> Result<Desk, Error>;
    fn view(&self, site: &Site) -> Result<Running, Error>;
}

struct Thinc;

impl Host for Thinc {
    fn name(&self) -> &'static str {
        "thinc"
    }

    fn start(&self, site: &Site, session: &str) -> Result<Desk, Error> {
        let people = Accounts::with_password(1, PASSWORD);
        let server = broker::start_server(site, session, &people)?;
        Ok(Desk { held: vec![server], ..Desk::default() })
    }

    fn view(&self, site: &Site) -> Result<Running, Error> {
        broker::view(site, &Accounts::name(0), PASSWORD)
    }
}

struct Xrdp;

impl Host for Xrdp {
    fn name(&self) -> &'static str {
        "xrdp"
    }

    fn start(&self, site: &Site, session: &str) -> Result<Desk, Error> {
        let people = Accounts::with_password(1, PASSWORD);
        let displays = vec![DisplayNumber::reserve()?];
        let server = xrdp::start_server(site, &displays, session, &people)?;
        Ok(Desk { held: vec![server], displays, ..Desk::default() })
    }

    fn view(&self, site: &Site) -> Result<Running, Error> {
        xrdp::Xrdp { remotefx: false }.view(site, &Accounts::name(0), PASSWORD)
    }
}

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let reference = reference()?;
    for name in &options.links {
        let bed = Arc::new(Testbed::start(&link(name)?, None)?);
        let mut columns = Vec::new();
        for host in [&Thinc as &dyn Host, &Xrdp] {
            let cpu = accounts(&format!("logins-{}", host.name()))?;
            let measures = measure(host, &bed, &cpu, options.tries, &reference)
                .map_err(|error| format!("{} on {name}: {error}", host.name()))?;
            columns.push((host.name().to_owned(), measures));
        }
        println!("logins: {name}: {}", bed.link().about());
        print_table(&columns);
    }
    Ok(())
}

fn application() -> Result<Vec<String>, Error> {
    let (width, height) = SIZE;
    apps::words(&["desktop", "--width", &width.to_string(), "--height", &height.to_string()])
}

/// What the application draws.
fn reference() -> Result<Picture, Error> {
    let screen = ClientScreen::alone("logins", SIZE)?;
    let watch = screen.watch()?;
    let words = application()?;
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).env("DISPLAY", screen.display()).stdin(Stdio::null());
    let _application = Running::start("desktop", &mut command)?;
    // Drawn within a moment, with nothing to follow.
    wait_for("the application draws", SHOWN_MAX, || {
        (watch.last_change()?.elapsed() > Duration::from_secs(2)).then_some(())
    })?;
    screen.picture()
}

fn measure(
    host: &dyn Host,
    bed: &Arc<Testbed>,
    cpu: &Arc<CpuAccounts>,
    tries: u32,
    reference: &Picture,
) -> Result<Vec<Measure>, Error> {
    let site = Site::start(&format!("logins-{}", host.name()), bed, cpu, SIZE, Listen::Unix)?;
    // Other users cannot look into the folder of a build: both run the copy.
    let folder = site.folder.path().join("programs");
    std::fs::create_dir_all(&folder)?;
    let words = application()?;
    let program = folder.join(APPLICATION);
    std::fs::copy(&words[0], &program)?;
    let session = format!("#!/bin/sh\nexec {} {}\n", program.display(), words[1..].join(" "));
    let _desk = host.start(&site, &session)?;
    let [mut seen_new, mut exact_new, mut seen, mut exact] = [const { Vec::new() }; 4];
    for _ in 0..tries {
        log_in(host, &site, reference, &mut seen_new, &mut exact_new)?;
        log_in(host, &site, reference, &mut seen, &mut exact)?;
        end_desktop(Accounts::uid(0), APPLICATION)?;
    }
    let ms = |name, part: &str, samples| Measure::lower(name, part, "ms", samples);
    Ok(vec![
        ms(quantity::VISIBLE_MS, "a new desktop", seen_new),
        ms(quantity::EXACT_MS, "a new desktop", exact_new),
        ms(quantity::VISIBLE_MS, "one that runs", seen),
        ms(quantity::EXACT_MS, "one that runs", exact),
    ])
}

/// One login; adds its two times.
fn log_in(
    host: &dyn Host,
    site: &Site,
    reference: &Picture,
    seen: &mut Vec<f64>,
    exact: &mut Vec<f64>,
) -> Result<(), Error> {
    let watch = site.screen.watch()?;
    let begun = Instant::now();
    let mut viewer = host.view(site)?;
    let shown = wait_for("the whole desktop is shown", SHOWN_MAX, || {
        if viewer.check().is_err() || interrupted() {
            return Some(false);
        }
        let rests = watch.last_change()?.elapsed() > RESTS;
        (rests && watch.picture() == *reference).then_some(true)
    });
    if !shown.map_err(|error| failure(site, &error.to_string()))? {
        return Err(failure(site, "the viewer ended before it showed the desktop"));
    }
    // Before the viewer's window goes.
    let changes = watch.finish()?;
    drop(viewer);
    let ms = |at: Option<Instant>| {
        let at = at.ok_or("the screen never showed the desktop")?;
        Ok::<_, Error>(at.saturating_duration_since(begun).as_secs_f64() * 1e3)
    };
    seen.push(ms(changes.visible())?);
    exact.push(ms(changes.exact(reference, (0, 0)))?);
    Ok(())
}
