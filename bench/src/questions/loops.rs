//! Question: does a cache keep serving a loop of pictures that is longer than the cache (Wong and Seltzer 2000, figures 6 and 7)?
//! Loops of 25 to 100 distinct photographs are played again and again: what a later round saves of the first one's bytes was served
//! from a cache. One that replaces the least recently used serves nothing of a loop that is longer by one picture.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::trial::{Began, Claim, Notebook, Table, measure, quantile, stage};
use crate::Error;
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::observe::barcode;
use crate::observe::picture::Rect;
use crate::results::{Better, Measure, quantity};
use crate::run::parse_size;
use crate::stage::Stage;
use crate::workloads::animation::{Round, play};
use crate::workloads::{Effort, own};

/// How `loops` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them. Without it, those that keep pictures at the viewer.
    #[arg(long, value_delimiter = ',', default_value = "thinc,xspice")]
    peers: Vec<String>,
    /// The link: a preset, or one with changes. On a fast one nothing is left out and nothing is lossy.
    #[arg(long, default_value = "lan", value_parser = |text: &str| text.parse::<Link>())]
    link: Link,
    /// Pictures of each loop.
    #[arg(long, value_delimiter = ',', default_value = "25,50,75,100", value_parser = clap::value_parser!(u32).range(2..=1000))]
    frames: Vec<u32>,
    /// Size of a picture.
    #[arg(long, default_value = "480x400", value_parser = parse_size)]
    picture: (u32, u32),
    /// What thinc's viewer offers to keep, MiB: its default.
    #[arg(long, default_value_t = 64)]
    cache_mib: u32,
    /// Rounds of each loop: 2, 3 or 5.
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

const OURS: &str = "thinc";
/// Slow enough that no system has a reason to leave a picture out.
const PERIOD: Duration = Duration::from_millis(250);
/// Of what a perfect cache of this size would serve: the rest is for pictures that lie on the edge of what fits, and for
/// everything that is sent beside pictures.
const SERVED_SHARE: f64 = 0.8;

/// One loop on one system.
struct Loop {
    frames: u32,
    rounds: Vec<Round>,
}

impl Loop {
    /// To the viewer in each round, bytes.
    fn bytes(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|round| round.spent.traffic.bytes(Direction::Down) as f64)
    }

    fn first(&self) -> Option<f64> {
        self.bytes().next()
    }

    fn later(&self) -> Option<f64> {
        quantile(&self.bytes().skip(1).collect::<Vec<f64>>(), 0.5)
    }

    /// Share of the first round that later ones did not send again.
    fn served(&self) -> Option<f64> {
        Some(1.0 - self.later()? / self.first().filter(|&first| first > 0.0)?)
    }

    /// Share of the pictures that were seen, in all rounds.
    fn seen(&self) -> f64 {
        let seen: usize = self.rounds.iter().map(|round| round.seen).sum();
        seen as f64 / (self.frames as usize * self.rounds.len()) as f64
    }

    fn measures(&self) -> Vec<Measure> {
        let part = format!("{} frames", self.frames);
        let lower = |name: &str, unit: &str, samples| measure(name, &part, unit, Better::Lower, samples);
        vec![
            lower(quantity::BYTES_DOWN, "bytes", self.bytes().collect()),
            measure("served_share", &part, "share", Better::Higher, self.served().into_iter().collect()),
            measure("frames_seen_share", &part, "share", Better::Higher, vec![self.seen()]),
            lower(quantity::CPU_SERVER_MS, "ms", self.rounds.iter().map(|round| round.spent.cpu_server_ms).collect()),
            lower(quantity::CPU_CLIENT_MS, "ms", self.rounds.iter().map(|round| round.spent.cpu_client_ms).collect()),
        ]
    }
}

fn rounds(effort: Effort) -> u32 {
    match effort {
        Effort::Smoke => 2,
        Effort::Quick => 3,
        Effort::Full => 5,
    }
}

/// Width and height on the screen: with a bar code above and one below.
fn shown((width, height): (u32, u32)) -> (u32, u32) {
    (width, height + 2 * barcode::HEIGHT)
}

/// What a loop takes as pixels of four bytes, bytes.
fn loop_bytes(picture: (u32, u32), frames: u32) -> f64 {
    let (width, height) = shown(picture);
    f64::from(width) * f64::from(height) * 4.0 * f64::from(frames)
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let (width, height) = shown(options.picture);
    if width > options.size.0 || height > options.size.1 {
        return Err(format!("a picture of {width}x{height} with its bar codes does not fit the screen").into());
    }
    let mut notebook = Notebook::new(options.effort, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let mut all = Vec::new();
    for peer in &peers {
        eprintln!("{} ...", peer.name());
        let began = Began::now();
        // Each loop in a session of its own: what a cache still has of the one before would be saved in the first round already.
        let mut one = |&frames: &u32| -> Result<Loop, Error> {
            let mut stage = stage(peer.as_ref(), &options.link, options.size, options.congestion.as_deref())?;
            notebook.heard_of(&stage.site.bed);
            let played = ask(&mut stage, options, frames);
            played.map_err(|error| format!("{error}{}", own::kept(&stage, "animation")).into())
        };
        let done = options.frames.iter().map(&mut one).collect::<Result<Vec<Loop>, Error>>();
        let done = done.map(|loops| {
            let measures = loops.iter().flat_map(Loop::measures).collect();
            (loops, measures)
        });
        all.extend(notebook.note(peer.name(), &options.link, "loops", began, done)?.map(|loops| (peer.name(), loops)));
    }
    println!(
        "loops of photographs of {}x{}, {} rounds, {} a second; {}",
        options.picture.0,
        options.picture.1,
        rounds(options.effort),
        1000 / PERIOD.as_millis(),
        options.link.about()
    );
    print(&all, options);
    if let Some((_, loops)) = all.iter().find(|(peer, _)| *peer == OURS) {
        notebook.judge(OURS, &claims(loops, options.picture, options.cache_mib))?;
    }
    notebook.end()
}

fn ask(stage: &mut Stage, options: &Options, frames: u32) -> Result<Loop, Error> {
    let (width, height) = shown(options.picture);
    let area = Rect { x: stage.view.x, y: stage.view.y, width, height };
    let words = [
        "animation".to_owned(),
        format!("--frames={frames}"),
        format!("--period-ms={}", PERIOD.as_millis()),
        format!("--width={}", options.picture.0),
        format!("--height={}", options.picture.1),
    ];
    let mut application = own::show(stage, "animation", &words.each_ref().map(String::as_str))?;
    let rounds = (0..rounds(options.effort)).map(|_| play(stage, area, frames, PERIOD)).collect::<Result<_, _>>()?;
    own::check(stage, "animation", &mut application)?;
    Ok(Loop { frames, rounds })
}

fn print(all: &[(&'static str, Vec<Loop>)], options: &Options) {
    let table = Table::new(&all.iter().map(|(peer, _)| *peer).collect::<Vec<_>>());
    for (place, &frames) in options.frames.iter().enumerate() {
        println!("{frames} pictures, {:.1} MB as pixels", loop_bytes(options.picture, frames) / 1e6);
        let row = |label: &str, value: &dyn Fn(&Loop) -> Option<f64>| {
            table.row(label, &all.iter().map(|(_, loops)| value(&loops[place])).collect::<Vec<_>>());
        };
        row("first round, MB", &|l| Some(l.first()? / 1e6));
        row("a later round, MB, median", &|l| Some(l.later()? / 1e6));
        row("served from a cache, share", &Loop::served);
        row("pictures seen, share", &|l| Some(l.seen()));
        row("CPU of the server, a later round, ms", &|l| {
            quantile(&l.rounds.iter().skip(1).map(|round| round.spent.cpu_server_ms).collect::<Vec<f64>>(), 0.5)
        });
    }
}

/// That what fits is served.
fn claims(loops: &[Loop], picture: (u32, u32), cache_mib: u32) -> Vec<Claim> {
    let cache = f64::from(cache_mib) * f64::from(1 << 20);
    let claim = |l: &Loop| {
        let most = (cache / loop_bytes(picture, l.frames)).min(1.0);
        match l.served() {
            Some(served) => {
                let of = format!("of a loop of {} pictures, of which {most:.2} fits", l.frames);
                Claim::at_least("served from the cache", served, most * SERVED_SHARE, &of)
            }
            None => Claim::missed("served from the cache", "nothing was sent in the first round"),
        }
    };
    loops.iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::net::testbed::{Packet, Traffic};
    use crate::stage::Spent;

    fn played(frames: u32, bytes: &[u32]) -> Loop {
        let round = |&bytes: &u32| {
            let packet = Packet { at: Instant::now(), direction: Direction::Down, bytes, payload: bytes };
            let traffic = Traffic { packets: vec![packet], ..Traffic::default() };
            let spent = Spent { seconds: 1.0, traffic, cpu_server_ms: 1.0, cpu_apps_ms: 1.0, cpu_client_ms: 1.0 };
            Round { spent, seen: frames as usize, seconds: 1.0 }
        };
        Loop { frames, rounds: bytes.iter().map(round).collect() }
    }

    #[test]
    fn a_cache_that_serves_what_fits_is_told_from_one_that_collapses() {
        // 100 pictures of 480x400 with their codes are 82.9 MB, and 64 MiB of them fit: 0.81.
        let picture = (480, 400);
        assert_eq!(shown(picture), (480, 432));
        let holds = |l: Loop| claims(&[l], picture, 64)[0].holds;
        assert!(holds(played(100, &[1000, 300, 320])));
        assert!(!holds(played(100, &[1000, 990, 1000])), "least recently used");
        assert!(!holds(played(50, &[1000, 300])), "all of it fits");
        assert!(holds(played(50, &[1000, 20])));
        assert_eq!(played(25, &[1000, 250]).served(), Some(0.75));
        assert_eq!(played(25, &[0, 0]).served(), None);
    }
}
