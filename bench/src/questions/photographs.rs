//! Question: how soon is a photograph whole on a narrow link, and how soon exact, with lossy coding and without?
//! A slide show shows one photograph after another over the whole screen, each when the one before it rests. All is read from
//! the viewer's pixels: which photograph each block shows, as near as lossy coding comes, and when all are bit for bit the server's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::echo_under_load::Show;
use super::trial::{Began, Claim, Notebook, Table, measure, quantile, stage};
use crate::Error;
use crate::apps::slides::{SLIDES, Slides};
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::observe::picture::Rect;
use crate::observe::slides::{Series, SlideWatch, Turns};
use crate::process::wait_for;
use crate::results::{Better, Measure, quantity};
use crate::run::parse_size;
use crate::stage::Stage;
use crate::workloads::Effort;

/// How `photographs` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',', default_value = "thinc,thinc-lossless")]
    peers: Vec<String>,
    /// The link: figures, or a preset with changes.
    #[arg(long, default_value = "rate=5mbit,rtt=40ms", value_parser = |text: &str| text.parse::<Link>())]
    link: Link,
    /// How long it goes on: 3, 10 or 40 photographs.
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
}

/// Longest until a photograph is there.
const LIMIT: Duration = Duration::from_secs(120);
/// What a screen at rest may take beside the time in which its bytes pass, ms.
const REST_MS: f64 = 200.0;
/// Photographs first, from which a session learns what its link carries.
const WARMING: u32 = 2;

/// What one variant did, one value for each photograph.
#[derive(Default)]
struct Found {
    /// From its drawing until it is whole, as near as lossy coding comes.
    whole_ms: Vec<f64>,
    /// Until it is the server's, bit for bit.
    exact_ms: Vec<f64>,
    /// Those that never were.
    inexact: usize,
    bytes: Vec<f64>,
    cpu_server_ms: Vec<f64>,
    cpu_client_ms: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let count = match options.effort {
        Effort::Smoke => 3,
        Effort::Quick => 10,
        Effort::Full => 40,
    };
    let mut notebook = Notebook::new(options.effort, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let slides = Slides::new(options.size.0, options.size.1);
    let mut all = Vec::new();
    for peer in &peers {
        eprintln!("{} ...", peer.name());
        let began = Began::now();
        let found = stage(peer.as_ref(), &options.link, options.size, options.congestion.as_deref())
            .and_then(|mut stage| {
                let found = ask(&mut stage, count, &slides)?;
                notebook.heard_of(&stage.site.bed);
                Ok(found)
            })
            .map(|found| {
                let measures = found.measures();
                (found, measures)
            });
        if let Some(found) = notebook.note(peer.name(), &options.link, "photographs", began, found)? {
            all.push((peer.name(), found));
        }
    }
    println!("photographs: {}; {count} of {}x{}", options.link.about(), options.size.0, options.size.1);
    print(&all);
    for (peer, found) in &all {
        notebook.judge(peer, &found.claims(&options.link))?;
    }
    notebook.end()
}

fn print(all: &[(&'static str, Found)]) {
    let table = Table::new(&all.iter().map(|(peer, _)| *peer).collect::<Vec<_>>());
    let row = |label: &str, value: &dyn Fn(&Found) -> Option<f64>| {
        table.row(label, &all.iter().map(|(_, found)| value(found)).collect::<Vec<_>>());
    };
    row("whole, median, ms", &|found| quantile(&found.whole_ms, 0.5));
    row("whole, longest, ms", &|found| quantile(&found.whole_ms, 1.0));
    row("exact, median, ms", &|found| quantile(&found.exact_ms, 0.5));
    row("exact, longest, ms", &|found| quantile(&found.exact_ms, 1.0));
    row("bytes down, median, KB", &|found| quantile(&found.bytes, 0.5).map(|bytes| bytes / 1e3));
    row("CPU of the server, median, ms", &|found| quantile(&found.cpu_server_ms, 0.5));
    row("CPU of the viewer, median, ms", &|found| quantile(&found.cpu_client_ms, 0.5));
}

impl Found {
    fn measures(&self) -> Vec<Measure> {
        let lower =
            |name: &str, unit: &str, samples: &Vec<f64>| measure(name, "", unit, Better::Lower, samples.clone());
        vec![
            lower("whole_ms", "ms", &self.whole_ms),
            lower(quantity::EXACT_MS, "ms", &self.exact_ms),
            lower(quantity::BYTES_DOWN, "bytes", &self.bytes),
            lower(quantity::CPU_SERVER_MS, "ms", &self.cpu_server_ms),
            lower(quantity::CPU_CLIENT_MS, "ms", &self.cpu_client_ms),
        ]
    }

    fn claims(&self, link: &Link) -> Vec<Claim> {
        let rate = link.rate_bps.map_or(f64::INFINITY, |rate| rate as f64);
        let rtt_ms = link.rtt.as_secs_f64() * 1e3;
        // All that crossed the link, what came nearly first with it.
        let over = self.exact_ms.iter().zip(&self.bytes).map(|(exact, bytes)| exact - bytes * 8e3 / rate);
        let over: Vec<f64> = over.collect();
        vec![
            Claim::at_most("photographs that were never exact", self.inexact as f64, 0.0, ""),
            match quantile(&over, 1.0) {
                Some(over) => Claim::at_most("exact, over the time its bytes take", over, REST_MS + rtt_ms, "ms"),
                None => Claim::missed("exact, over the time its bytes take", "no photograph was exact"),
            },
        ]
    }
}

fn ask(stage: &mut Stage, count: u32, slides: &Slides) -> Result<Found, Error> {
    assert!(WARMING + count < SLIDES, "more photographs than there are");
    let mut show = Show::start(stage)?;
    let view = stage.view;
    let mut found = Found::default();
    for number in 1..=WARMING + count {
        stage.settle()?;
        let pair = |of: u32, x, y| slides.pixel(number - 1 + of, x, y);
        let blocks = SlideWatch::start(&stage.site.screen, Arc::new(Series::new(view, 2, pair)), Rect::default())?;
        let watch = stage.site.screen.watch()?;
        let (meter, mark) = (stage.meter()?, stage.site.bed.mark());
        show.begin(number, 1, 0)?;
        let drawn = *show.drawn()?.last().ok_or("no photograph was drawn")?;
        wait_for("a photograph", LIMIT, || {
            let (there, all) = blocks.arrived(1);
            (there * 100 >= all * 99).then_some(())
        })?;
        stage.wait_quiet(&watch, &mark, LIMIT)?;
        let spent = meter.read(stage)?;
        let reference = stage.server_picture()?;
        let exact = watch.finish()?.within(view).exact(&reference, (view.x, view.y));
        let whole = whole(&blocks.finish()?);
        if number <= WARMING {
            continue;
        }
        let ms = |at: Instant| at.saturating_duration_since(drawn).as_secs_f64() * 1e3;
        found.whole_ms.extend(whole.map(ms));
        match exact {
            Some(at) => {
                found.exact_ms.push(ms(at));
                found.bytes.push(spent.traffic.bytes(Direction::Down) as f64);
            }
            None => found.inexact += 1,
        }
        found.cpu_server_ms.push(spent.cpu_server_ms);
        found.cpu_client_ms.push(spent.cpu_client_ms);
    }
    Ok(found)
}

/// When 99 in 100 blocks had turned; the others may be too smooth to be told.
fn whole(turns: &Turns) -> Option<Instant> {
    let wanted = (turns.shown.len() * 99).div_ceil(100);
    turns.turns.get(wanted.checked_sub(1)?).map(|turn| turn.at)
}
