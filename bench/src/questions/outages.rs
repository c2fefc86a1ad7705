//! Question: what does a person see of an outage, and how long after it is the picture the session's again?
//! Nothing passes for a while; a photograph is drawn meanwhile, and the person presses keys. All is read from the viewer's pixels: when
//! it says that something is wrong, when the first of the photograph is there after the link's return, and when all of it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::echo_under_load::Show;
use super::trial::{Began, Claim, Notebook, Table, measure, pause, stage};
use crate::Error;
use crate::apps::slides::Slides;
use crate::net::link::Link;
use crate::observe::picture::Rect;
use crate::observe::slides::{Series, SlideWatch};
use crate::process::wait_for;
use crate::results::{Better, Measure};
use crate::run::parse_size;
use crate::stage::Stage;
use crate::workloads::Effort;

/// How `outages` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',', default_value = "thinc-tcp,thinc-quic,tigervnc")]
    peers: Vec<String>,
    /// The link: figures, or a preset with changes.
    #[arg(long, default_value = "80211b", value_parser = |text: &str| text.parse::<Link>())]
    link: Link,
    /// How long nothing passes, s, one outage after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,4,30", value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: Vec<u32>,
    /// Screen of every session.
    #[arg(long, default_value = "640x480", value_parser = parse_size)]
    size: (u32, u32),
    /// TCP congestion control in both namespaces; the system's own without it.
    #[arg(long)]
    congestion: Option<String>,
    /// Where the samples go; nowhere without it.
    #[arg(long, short)]
    output: Option<PathBuf>,
}

/// From the cut to the first key: the path is quiet by then, and what shows comes of the key.
const ACT_AFTER: Duration = Duration::from_millis(100);
/// Keys after that, as of somebody who wonders.
const ACT_EVERY: Duration = Duration::from_millis(400);
/// Longest until a viewer is back; a person has gone by then.
const LIMIT: Duration = Duration::from_secs(180);
/// Longest that words of a viewer lie over its picture.
const WORDS_GONE: Duration = Duration::from_secs(20);
/// What the first of the picture may take after the link's return beside a round trip, ms.
const RECOVERY_MS: f64 = 300.0;
/// What it may take to say that nothing is heard, beside two round trips, ms.
const NOTICE_MS: f64 = 200.0;

/// One outage.
struct Outage {
    seconds: u32,
    /// From the first key to the first pixel that said something.
    notice_ms: Option<f64>,
    /// From the link's return to the first of the new photograph, and to all of it.
    first_ms: f64,
    whole_ms: f64,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let mut notebook = Notebook::new(Effort::Quick, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let slides = Slides::new(options.size.0, options.size.1);
    let mut all = Vec::new();
    for peer in &peers {
        eprintln!("{} ...", peer.name());
        let began = Began::now();
        let found = stage(peer.as_ref(), &options.link, options.size, options.congestion.as_deref())
            .and_then(|mut stage| {
                let found = ask(&mut stage, &options.seconds, &slides)?;
                notebook.heard_of(&stage.site.bed);
                Ok(found)
            })
            .map(|found| {
                let measures = measures(&found);
                (found, measures)
            });
        if let Some(found) = notebook.note(peer.name(), &options.link, "outages", began, found)? {
            all.push((peer.name(), found));
        }
    }
    println!("outages: {}; {}x{}, a photograph is drawn in each", options.link.about(), options.size.0, options.size.1);
    let table = Table::new(&all.iter().map(|(peer, _)| *peer).collect::<Vec<_>>());
    for (i, seconds) in options.seconds.iter().enumerate() {
        let row = |label: &str, value: &dyn Fn(&Outage) -> Option<f64>| {
            table.row(label, &all.iter().map(|(_, found)| value(&found[i])).collect::<Vec<_>>());
        };
        row(&format!("{seconds} s: said after the first key, ms"), &|outage| outage.notice_ms);
        row(&format!("{seconds} s: first pixels after the return, ms"), &|outage| Some(outage.first_ms));
        row(&format!("{seconds} s: whole after the return, ms"), &|outage| Some(outage.whole_ms));
    }
    for (peer, found) in &all {
        notebook.judge(peer, &claims(found, &options.link))?;
    }
    notebook.end()
}

fn measures(found: &[Outage]) -> Vec<Measure> {
    let each = |outage: &Outage| {
        let part = format!("{} s", outage.seconds);
        let lower = |name: &str, samples: Vec<f64>| measure(name, &part, "ms", Better::Lower, samples);
        [
            lower("notice_ms", outage.notice_ms.into_iter().collect()),
            lower("recovery_ms", vec![outage.first_ms]),
            lower("whole_ms", vec![outage.whole_ms]),
        ]
    };
    found.iter().flat_map(each).collect()
}

fn claims(found: &[Outage], link: &Link) -> Vec<Claim> {
    let rtt_ms = link.rtt.as_secs_f64() * 1e3;
    let longest = |value: &dyn Fn(&Outage) -> f64| found.iter().map(value).fold(0.0, f64::max);
    vec![
        match found.iter().all(|outage| outage.notice_ms.is_some()) {
            true => {
                let notice = longest(&|outage| outage.notice_ms.unwrap_or_default());
                Claim::at_most("said that nothing is heard", notice, 2.0 * rtt_ms + NOTICE_MS, "ms")
            }
            false => Claim::missed("said that nothing is heard", "nothing was"),
        },
        Claim::at_most("back after the link's return", longest(&|outage| outage.first_ms), rtt_ms + RECOVERY_MS, "ms"),
    ]
}

fn ask(stage: &mut Stage, lengths: &[u32], slides: &Slides) -> Result<Vec<Outage>, Error> {
    let mut show = Show::start(stage)?;
    let view = stage.view;
    let mut found = Vec::new();
    for (number, &seconds) in (1..).zip(lengths) {
        stage.settle()?;
        let pair = |of: u32, x, y| slides.pixel(number - 1 + of, x, y);
        let series = Arc::new(Series::new(view, 2, pair));
        // A viewer may lay words over the picture when it begins, and for a while.
        let blocks = wait_for("the picture before the outage", WORDS_GONE, || {
            SlideWatch::start(&stage.site.screen, series.clone(), Rect::default()).ok()
        })?;
        let watch = stage.site.screen.watch()?;
        let cut = Instant::now();
        stage.site.bed.cut(true);
        pause(ACT_AFTER)?;
        let acted = stage.input.key("x")?;
        show.begin(number, 1, 0)?;
        show.drawn()?;
        let until = cut + Duration::from_secs(seconds.into());
        while Instant::now() + ACT_EVERY < until {
            pause(ACT_EVERY)?;
            stage.input.key("x")?;
        }
        pause(until.saturating_duration_since(Instant::now()))?;
        let notice = watch.finish()?.within(view).times().into_iter().find(|&at| at >= acted);
        let returned = Instant::now();
        stage.site.bed.cut(false);
        wait_for("the photograph of the outage", LIMIT, || {
            let (there, all) = blocks.arrived(1);
            (there * 100 >= all * 99).then_some(())
        })?;
        let turns = blocks.finish()?;
        let whole = (turns.shown.len() * 99).div_ceil(100);
        let ms = |at: Instant, since: Instant| at.saturating_duration_since(since).as_secs_f64() * 1e3;
        // Words that come and go over the picture may look like the other one.
        let first = turns.turns.iter().find(|turn| turn.at >= returned);
        let last = turns.turns.get(whole.saturating_sub(1));
        let (Some(first), Some(last)) = (first, last) else { return Err("the photograph came in no time".into()) };
        found.push(Outage {
            seconds,
            notice_ms: notice.map(|at| ms(at, acted)),
            first_ms: ms(first.at, returned),
            whole_ms: ms(last.at, returned),
        });
    }
    Ok(found)
}
