//! Question: what do twenty pages and twenty page-downs in Chromium cost, in bytes and in processor time of the server, and how soon
//! are they seen? Pages of four characters (an article, documentation with code, a dashboard, news with photographs), then a long
//! documentation whose contents stand still beside the text; each alone, with quiet before and after it, on every system alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::trial::{Began, Claim, Notebook, Table, quantile, stage};
use crate::Error;
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::results::Measure;
use crate::run::parse_size;
use crate::stage::{Operation, Stage, measures};
use crate::workloads::Effort;
use crate::workloads::browser::{Browser, Titles};
use crate::workloads::content::pages::START;
use crate::workloads::content::sites::{Character, READING, READING_NUMBER, SITES, sites};

/// How `pages` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them. `local` is what times are held against.
    #[arg(long, value_delimiter = ',', default_value = "local,thinc,tigervnc,tigervnc-lossless,xspice,xpra")]
    peers: Vec<String>,
    /// The links: a preset, or one with changes.
    #[arg(long, value_delimiter = ',', default_value = "lan,wan")]
    links: Vec<String>,
    /// How many pages and page-downs: 4 and 3 for a smoke test, else 20 and 20.
    #[arg(long, value_enum, default_value = "quick")]
    effort: Effort,
    /// Screen of every session.
    #[arg(long, default_value = "1024x768", value_parser = parse_size)]
    size: (u32, u32),
    /// TCP congestion control in both namespaces; the system's own without it.
    #[arg(long)]
    congestion: Option<String>,
    /// Where the samples go; nowhere without it.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Where pictures of the session's screen go, one after each operation, for other programs to measure codecs with; nowhere
    /// without it. Each system overwrites those of the one before.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
}

/// The one that is judged, and what it is held against.
const OURS: &str = "thinc";
const LOCAL: &str = "local";
const SPICE: &str = "xspice";
const VNC: &str = "tigervnc";

/// Longest until a browser has loaded a page from a file.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Longest until an operation is followed by quiet, refinement included.
const OPERATION_LIMIT: Duration = Duration::from_secs(90);

/// What was done on one link with one system.
struct Found {
    link: usize,
    peer: &'static str,
    /// In the order of the pages.
    pages: Vec<Operation>,
    downs: Vec<Operation>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let mut notebook = Notebook::new(options.effort, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let links = options.links.iter().map(|name| name.parse()).collect::<Result<Vec<Link>, _>>()?;
    let (pages, downs) = if options.effort == Effort::Smoke { (4, 3) } else { (SITES, 20) };
    let pictures = options.pictures.as_deref();
    if let Some(folder) = pictures {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut all = Vec::new();
    for (number, link) in links.iter().enumerate() {
        for peer in &peers {
            eprintln!("{}, {} ...", link.name, peer.name());
            let began = Began::now();
            let done = stage(peer.as_ref(), link, options.size, options.congestion.as_deref()).and_then(|mut stage| {
                notebook.heard_of(&stage.site.bed);
                let found = Found {
                    link: number,
                    peer: peer.name(),
                    pages: turn(&mut stage, pages, pictures)?,
                    downs: read(&mut stage, downs, pictures)?,
                };
                let measures = found.measures();
                Ok((found, measures))
            });
            all.extend(notebook.note(peer.name(), link, "pages", began, done)?);
        }
    }
    let (width, height) = options.size;
    println!("pages: {pages} pages and {downs} page-downs in Chromium, {width}x{height}, each alone");
    for (number, link) in links.iter().enumerate() {
        let of_link: Vec<&Found> = all.iter().filter(|found| found.link == number).collect();
        println!("{}: {}", link.name, link.about());
        print(&of_link);
        notebook.judge(OURS, &claims(&of_link, link))?;
    }
    notebook.end()
}

/// Goes from page to page by a key.
fn turn(stage: &mut Stage, pages: usize, pictures: Option<&Path>) -> Result<Vec<Operation>, Error> {
    let folder = stage.site.folder.path().join("sites");
    sites()?.write(&folder)?;
    let mut browser = Browser::Chromium.show(stage, &folder, START, 0)?;
    let titles = Titles::new(stage)?;
    keep_picture(stage, pictures, "page-00")?;
    let mut operations = Vec::with_capacity(pages);
    for page in 1..=pages {
        let done = stage.operation_within(OPERATION_LIMIT, |input| {
            let asked = input.key("Return")?;
            titles.wait_for(page, PAGE_LIMIT)?;
            Ok(asked)
        });
        operations.push(done.map_err(|error| format!("page {page}: {error}"))?);
        // Two pages for one key would still be a picture.
        titles.wait_for(page, Duration::ZERO)?;
        keep_picture(stage, pictures, &format!("page-{page:02}"))?;
    }
    browser.check()?;
    Ok(operations)
}

/// Reads the documentation page by page.
fn read(stage: &mut Stage, downs: usize, pictures: Option<&Path>) -> Result<Vec<Operation>, Error> {
    let folder = stage.site.folder.path().join("sites");
    let mut browser = Browser::Chromium.show(stage, &folder, READING, READING_NUMBER)?;
    // The first moves the strip away, by which the page was known, and is smaller than the others: it does not count.
    stage.operation_within(OPERATION_LIMIT, |input| input.key("Next"))?;
    keep_picture(stage, pictures, "down-00")?;
    let operations = (1..=downs)
        .map(|down| {
            let done = stage.operation_within(OPERATION_LIMIT, |input| input.key("Next"));
            let done = done.map_err(|error| format!("page-down {down}: {error}"))?;
            keep_picture(stage, pictures, &format!("down-{down:02}"))?;
            Ok(done)
        })
        .collect::<Result<Vec<_>, Error>>()?;
    browser.check()?;
    Ok(operations)
}

/// What the session's screen holds now, as a PNG.
fn keep_picture(stage: &Stage, folder: Option<&Path>, name: &str) -> Result<(), Error> {
    match folder {
        Some(folder) => stage.server_picture()?.write_png(&folder.join(format!("{name}.png"))),
        None => Ok(()),
    }
}

fn bytes(operation: &Operation) -> f64 {
    operation.spent.traffic.bytes(Direction::Down) as f64
}

fn sum(operations: &[Operation], of: impl Fn(&Operation) -> f64) -> f64 {
    operations.iter().map(of).sum()
}

fn median(operations: &[Operation], of: impl Fn(&Operation) -> Option<f64>) -> Option<f64> {
    quantile(&operations.iter().filter_map(of).collect::<Vec<f64>>(), 0.5)
}

impl Found {
    /// The pages of one character.
    fn of(&self, character: Character) -> Vec<Operation> {
        let pages = (1..).zip(&self.pages).filter(|(page, _)| Character::of(*page) == character);
        pages.map(|(_, operation)| operation.clone()).collect()
    }

    fn server_s(&self) -> f64 {
        (sum(&self.pages, |o| o.spent.cpu_server_ms) + sum(&self.downs, |o| o.spent.cpu_server_ms)) / 1e3
    }

    /// The smallest share of pixels that were exact in the end.
    fn exact_share(&self) -> f64 {
        self.pages.iter().chain(&self.downs).map(|operation| operation.exact_share).fold(1.0, f64::min)
    }

    fn measures(&self) -> Vec<Measure> {
        let mut found = measures("pages", &self.pages);
        for character in Character::ALL {
            found.extend(measures(character.name(), &self.of(character)));
        }
        found.extend(measures("page-downs", &self.downs));
        found
    }
}

/// Median over the operations of how much later one system showed them than another, ms: pages differ more than systems do.
fn later(ours: &[Operation], theirs: &[Operation]) -> Option<f64> {
    let pairs = ours.iter().zip(theirs);
    let differences = pairs.filter_map(|(ours, theirs)| Some(ours.visible_ms? - theirs.visible_ms?));
    quantile(&differences.collect::<Vec<f64>>(), 0.5)
}

/// The pages, or the page-downs.
type Part = fn(&Found) -> &[Operation];

fn print(all: &[&Found]) {
    let table = Table::new(&all.iter().map(|found| found.peer).collect::<Vec<_>>());
    let row = |label: &str, value: &dyn Fn(&Found) -> Option<f64>| {
        table.row(label, &all.iter().map(|found| value(found)).collect::<Vec<_>>());
    };
    let kinds: [(&str, Part); 2] = [("pages", |found| &found.pages), ("page-downs", |found| &found.downs)];
    for (name, of) in kinds {
        row(&format!("{name}: bytes, KB, all"), &|found| Some(sum(of(found), bytes) / 1e3));
        row(&format!("{name}: bytes, KB, median"), &|found| Some(median(of(found), |o| Some(bytes(o)))? / 1e3));
        row(&format!("{name}: CPU of the server, s, all"), &|found| {
            Some(sum(of(found), |o| o.spent.cpu_server_ms) / 1e3)
        });
        row(&format!("{name}: CPU of applications, s, all"), &|found| {
            Some(sum(of(found), |o| o.spent.cpu_apps_ms) / 1e3)
        });
        row(&format!("{name}: CPU of the client, s, all"), &|found| {
            Some(sum(of(found), |o| o.spent.cpu_client_ms) / 1e3)
        });
        for (share_name, share) in [("median", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            row(&format!("{name}: visible after, ms, {share_name}"), &|found| {
                quantile(&of(found).iter().filter_map(|o| o.visible_ms).collect::<Vec<f64>>(), share)
            });
        }
        row(&format!("{name}: exact after, ms, median"), &|found| median(of(found), |o| o.exact_ms));
        row(&format!("{name}: smallest share of exact pixels"), &|found| {
            of(found).iter().map(|o| o.exact_share).reduce(f64::min)
        });
    }
    for character in Character::ALL {
        let name = character.name();
        row(&format!("  {name}: bytes, KB, median"), &|found| {
            Some(median(&found.of(character), |o| Some(bytes(o)))? / 1e3)
        });
        row(&format!("  {name}: visible after, ms, median"), &|found| median(&found.of(character), |o| o.visible_ms));
    }
}

/// What was to be shown, where what it is held against was measured on the same link.
fn claims(all: &[&Found], link: &Link) -> Vec<Claim> {
    let of = |peer: &str| all.iter().find(|found| found.peer == peer);
    let Some(ours) = of(OURS) else { return vec![] };
    let mut claims = vec![Claim::at_least("smallest share of exact pixels", ours.exact_share(), 1.0, "of the screen")];
    if let Some(spice) = of(SPICE) {
        let ratio = |ours: &[Operation], theirs: &[Operation]| sum(ours, bytes) / sum(theirs, bytes);
        claims.push(Claim::at_most("bytes of pages", ratio(&ours.pages, &spice.pages), 0.40, "of Xspice's"));
        claims.push(Claim::at_most("bytes of page-downs", ratio(&ours.downs, &spice.downs), 0.10, "of Xspice's"));
    }
    if let Some(vnc) = of(VNC) {
        claims.push(Claim::at_most("CPU of the server", ours.server_s() / vnc.server_s(), 1.0, "of TigerVNC's"));
    }
    if let Some(local) = of(LOCAL) {
        let rtt_ms = link.rtt.as_secs_f64() * 1e3;
        for (name, ours, theirs, limit) in [
            ("page visible after local and a round trip", &ours.pages, &local.pages, 15.0),
            ("page-down visible after local and a round trip", &ours.downs, &local.downs, 10.0),
        ] {
            claims.push(match later(ours, theirs) {
                Some(later) => Claim::at_most(name, later - rtt_ms, limit, "ms, median"),
                None => Claim::missed(name, "never visible"),
            });
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::net::testbed::{Packet, Traffic};
    use crate::stage::Spent;

    fn operation(bytes: u32, visible_ms: f64, cpu_server_ms: f64) -> Operation {
        let packet = Packet { at: Instant::now(), direction: Direction::Down, bytes, payload: bytes };
        let traffic = Traffic { packets: vec![packet], ..Traffic::default() };
        let spent = Spent { seconds: 1.0, traffic, cpu_server_ms, cpu_apps_ms: 1.0, cpu_client_ms: 1.0 };
        let visible_ms = Some(visible_ms);
        Operation {
            packets_ms: None,
            photon_ms: None,
            visible_ms,
            exact_ms: None,
            exact_share: 1.0,
            psnr_db: 99.0,
            spent,
        }
    }

    fn found(peer: &'static str, page: (u32, f64, f64), down: (u32, f64, f64)) -> Found {
        let operation = |(bytes, visible, cpu)| operation(bytes, visible, cpu);
        Found { link: 0, peer, pages: vec![operation(page); 4], downs: vec![operation(down); 2] }
    }

    #[test]
    fn claims_hold_against_what_was_measured_beside() {
        let link: Link = "wan".parse().unwrap();
        let local = found(LOCAL, (0, 100.0, 0.0), (0, 40.0, 0.0));
        let ours = found(OURS, (40, 181.0, 5.0), (11, 116.5, 5.0));
        let spice = found(SPICE, (100, 200.0, 9.0), (100, 120.0, 9.0));
        let vnc = found(VNC, (90, 200.0, 5.0), (90, 120.0, 5.0));
        let holds: Vec<bool> = claims(&[&local, &ours, &spice, &vnc], &link).iter().map(|claim| claim.holds).collect();
        // Exact; 0.40 of the bytes; 0.11 of the page-downs'; as much CPU; 15 ms; 10.5 ms.
        assert_eq!(holds, [true, true, false, true, true, false]);
        assert!(claims(&[&local, &spice], &link).is_empty(), "thinc was not there");
    }

    #[test]
    fn each_character_has_its_pages() {
        let found = found(OURS, (1, 1.0, 1.0), (1, 1.0, 1.0));
        assert!(Character::ALL.iter().all(|&character| found.of(character).len() == 1));
    }
}
