//! Question: what do twenty pages and twenty page-downs in Chromium cost, in bytes and in CPU time
//! of the server, and how soon are they visible? Pages of four characters (an article,
//! documentation with code, a dashboard, news with photographs), then a long document whose table
//! of contents stays beside the text; each alone, with quiet before and after it, on every system
//! alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{Claim, Found, Question};
use crate::Error;
use crate::results::{Form, Measure, quantity};
use crate::stage::{Operation, Stage, measures, totals};
use crate::stats::median;
use crate::workloads::browser::{Browser, Titles};
use crate::workloads::content::pages::START;
use crate::workloads::content::sites::{Character, READING, READING_NUMBER, SITES, sites};
use crate::workloads::{Effort, Workload};

/// The question.
#[derive(Args, Clone)]
pub struct Pages {
    /// Folder for images of the session's screen, one after each operation. Each system overwrites
    /// those of the one before.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
}

/// The system that is judged, and those that it is held against.
const OURS: &str = "thinc";
const LOCAL: &str = "local";
const SPICE: &str = "xspice";
const VNC: &str = "tigervnc";

/// Longest until a browser has loaded a page from a file.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Longest until an operation is followed by quiet, refinement included: TigerVNC's window of 4 KB
/// refines a page at 66 ms in up to 82 s.
const OPERATION_LIMIT: Duration = Duration::from_secs(300);
const PAGES: &str = "pages";
const DOWNS: &str = "page-downs";

fn counts(effort: Effort) -> (usize, usize) {
    if effort == Effort::Smoke { (4, 3) } else { (SITES, 20) }
}

impl Question for Pages {
    const NAME: &'static str = "pages";
    const PEERS: &'static str = "local,thinc,tigervnc,tigervnc-lossless,xspice,xpra";
    const LINKS: &'static [&'static str] = &["lan", "wan"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        if let Some(folder) = &self.pictures {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(vec![Box::new(self.clone())])
    }
}

impl Workload for Pages {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn about(&self) -> &'static str {
        "pages of four characters and page-downs in Chromium, each alone"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["chromium"]
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        let (pages, downs) = counts(effort);
        12.0 + (pages + downs) as f64 * 0.9
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (pages, downs) = counts(effort);
        let pages = self.turn(stage, pages)?;
        let downs = self.read(stage, downs)?;
        let mut found = [totals(PAGES, &pages), totals(DOWNS, &downs)].concat();
        found.extend(measures(PAGES, &pages));
        for character in Character::ALL {
            found.extend(measures(character.name(), &of_character(&pages, character)));
        }
        found.extend(measures(DOWNS, &downs));
        Ok(found)
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        if peer != OURS {
            return Vec::new();
        }
        let sum = |peer: &str, quantity: &str, part: &str| -> f64 {
            found.samples(peer, quantity, part).iter().sum()
        };
        let exact = [PAGES, DOWNS].map(|part| found.samples(OURS, quantity::EXACT_SHARE, part));
        let exact = exact.concat().into_iter().reduce(f64::min);
        let unit = "of the screen";
        let mut claims = vec![Claim::at_least("smallest share of exact pixels", exact, 1.0, unit)];
        if found.has(SPICE) {
            for (name, part, limit) in
                [("bytes of pages", PAGES, 0.40), ("bytes of page-downs", DOWNS, 0.10)]
            {
                let [ours, theirs] =
                    [OURS, SPICE].map(|peer| sum(peer, quantity::BYTES_DOWN, part));
                claims.push(Claim::at_most(name, Some(ours / theirs), limit, "of Xspice's"));
            }
        }
        if found.has(VNC) {
            let cpu = |peer: &str| -> f64 {
                [PAGES, DOWNS].map(|part| sum(peer, quantity::CPU_SERVER_MS, part)).iter().sum()
            };
            let ratio: f64 = cpu(OURS) / cpu(VNC);
            claims.push(Claim::at_most("CPU of the server", Some(ratio), 1.0, "of TigerVNC's"));
        }
        if found.has(LOCAL) {
            for (name, part, limit) in [
                ("page visible after local and a round trip", PAGES, 15.0),
                ("page-down visible after local and a round trip", DOWNS, 10.0),
            ] {
                let [ours, theirs] =
                    [OURS, LOCAL].map(|peer| found.samples(peer, quantity::VISIBLE_MS, part));
                let later = later(ours, theirs).map(|later| later - found.rtt_ms());
                claims.push(Claim::at_most(name, later, limit, "ms, median"));
            }
        }
        claims
    }
}

impl Pages {
    /// Goes from page to page by a key.
    fn turn(&self, stage: &mut Stage, pages: usize) -> Result<Vec<Operation>, Error> {
        let folder = stage.site.folder.path().join("sites");
        sites()?.write(&folder)?;
        let mut browser = Browser::Chromium.show(stage, &folder, START, 0)?;
        let titles = Titles::new(stage)?;
        self.keep_picture(stage, "page-00")?;
        let mut operations = Vec::with_capacity(pages);
        for page in 1..=pages {
            let done = stage.operation_within(OPERATION_LIMIT, |input| {
                let pressed = input.key("Return")?;
                titles.wait_for(page, PAGE_LIMIT)?;
                Ok(pressed)
            });
            operations.push(done.map_err(|error| format!("page {page}: {error}"))?);
            // Two pages for one key would still be a picture.
            titles.wait_for(page, Duration::ZERO)?;
            self.keep_picture(stage, &format!("page-{page:02}"))?;
        }
        browser.check()?;
        Ok(operations)
    }

    /// Reads the documentation page by page.
    fn read(&self, stage: &mut Stage, downs: usize) -> Result<Vec<Operation>, Error> {
        let folder = stage.site.folder.path().join("sites");
        let mut browser = Browser::Chromium.show(stage, &folder, READING, READING_NUMBER)?;
        // The first page-down moves the strip that names the page out of view and is smaller than
        // the others: it does not count.
        stage.operation_within(OPERATION_LIMIT, |input| input.key("Next"))?;
        self.keep_picture(stage, "down-00")?;
        let mut operations = Vec::with_capacity(downs);
        for down in 1..=downs {
            let done = stage.operation_within(OPERATION_LIMIT, |input| input.key("Next"));
            operations.push(done.map_err(|error| format!("page-down {down}: {error}"))?);
            self.keep_picture(stage, &format!("down-{down:02}"))?;
        }
        browser.check()?;
        Ok(operations)
    }

    /// What the session's screen holds now, as a PNG.
    fn keep_picture(&self, stage: &Stage, name: &str) -> Result<(), Error> {
        let write =
            |folder: &Path| stage.server_picture()?.write_png(&folder.join(format!("{name}.png")));
        self.pictures.as_deref().map_or(Ok(()), write)
    }
}

/// The pages of one character.
fn of_character(pages: &[Operation], character: Character) -> Vec<Operation> {
    let pages = (1..).zip(pages).filter(|(page, _)| Character::of(*page) == character);
    pages.map(|(_, operation)| operation.clone()).collect()
}

/// Median over the operations of how much later one system showed them than another, ms: pages
/// differ more than systems do.
fn later(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let pairs = ours.iter().zip(theirs).map(|(ours, theirs)| ours - theirs);
    median(&pairs.collect::<Vec<f64>>()).filter(|_| ours.len() == theirs.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;
    use crate::stage::tests::operation;

    fn found(page: (u32, f64, f64), down: (u32, f64, f64)) -> Vec<Measure> {
        let made = |(bytes, visible, cpu)| vec![operation(bytes, visible, cpu); 3];
        [measures(PAGES, &made(page)), measures(DOWNS, &made(down))].concat()
    }

    #[test]
    fn claims_hold_against_what_was_measured_beside() {
        let question = Pages { pictures: None };
        let local = (LOCAL, found((0, 100.0, 0.0), (0, 40.0, 0.0)));
        let ours = (OURS, found((40, 181.0, 5.0), (11, 116.5, 5.0)));
        let spice = (SPICE, found((100, 200.0, 9.0), (100, 120.0, 9.0)));
        let vnc = (VNC, found((90, 200.0, 5.0), (90, 120.0, 5.0)));
        // Exact; 0.40 of the bytes; 0.11 of the page-downs'; as much CPU; 15 ms; 10.5 ms.
        let all = vec![local.clone(), ours, spice.clone(), vnc];
        let wanted = [true, true, false, true, true, false];
        assert_eq!(holds(&question, "wan", all, OURS), wanted);
        assert!(holds(&question, "wan", vec![local, spice], SPICE).is_empty(), "no thinc");
        assert_eq!(later(&[1.0], &[1.0, 2.0]), None, "a page that was never visible");
    }

    #[test]
    fn each_character_has_its_pages() {
        let pages = vec![operation(1, 1.0, 1.0); 4];
        let all = Character::ALL;
        assert!(all.iter().all(|&character| of_character(&pages, character).len() == 1));
    }
}
