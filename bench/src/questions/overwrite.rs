//! Question: how old is what the viewer shows of a screen that is redrawn 200 times a second, and what does that cost in memory?
//! Each picture holds about 20 KB of news and the time of its drawing, which is read from the viewer's pixels. Then the viewer stops
//! reading for a while: how long after it reads again does a whole picture stand that was drawn since?

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};

use super::trial::{Began, Claim, Notebook, Table, measure, pause, quantile, short, stage};
use crate::Error;
use crate::apps::overwrite::{KEY_GO, KEY_ONE, STRIPES, codes};
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::observe::account::Group;
use crate::observe::clock;
use crate::observe::picture::Rect;
use crate::observe::stamps::{Ages, StampWatch};
use crate::process::{pss_mb, wait_for};
use crate::results::{Better, Measure, quantity};
use crate::run::parse_size;
use crate::stage::Stage;
use crate::workloads::{Effort, own};

/// How `overwrite` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',', default_value = "thinc,thinc-fifo,tigervnc")]
    peers: Vec<String>,
    /// The link: figures, or a preset with changes.
    #[arg(long, default_value = "rate=5mbit,rtt=40ms", value_parser = |text: &str| text.parse::<Link>())]
    link: Link,
    /// How long the age is watched, seconds; without it as the effort says: 5, 60 or 300.
    #[arg(long)]
    seconds: Option<u64>,
    /// How long the viewer does not read, seconds; without it as the effort says: 3, 10 or 10.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=25))]
    stall: Option<u64>,
    /// How long it goes on.
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

/// What one picture is to take, bytes, and how far it may be off: a content that is easier would show less.
const PICTURE_BYTES: f64 = 20_000.0;
const PICTURE_SLACK: f64 = 0.25;
/// What memory may differ, MB: a tenth of what 10 s of these pictures would take, encoded.
const FLAT_MB: f64 = 4.0;
/// From the first pictures at full speed until age and memory count.
const WARMING: Duration = Duration::from_secs(3);
/// From a look at the memory to the next.
const LOOK: Duration = Duration::from_secs(1);
/// Longest until a whole picture stands after the viewer reads again.
const AGAIN_LIMIT: Duration = Duration::from_secs(60);

struct Plan {
    /// Pictures alone.
    alone: usize,
    watched: Duration,
    stalls: usize,
    stall: Duration,
}

impl Plan {
    fn new(options: &Options) -> Plan {
        let (alone, seconds, stalls, stall) = match options.effort {
            Effort::Smoke => (2, 5, 1, 3),
            Effort::Quick => (5, 60, 2, 10),
            Effort::Full => (20, 300, 5, 10),
        };
        let watched = Duration::from_secs(options.seconds.unwrap_or(seconds));
        Plan { alone, watched, stalls, stall: Duration::from_secs(options.stall.unwrap_or(stall)) }
    }
}

/// Memory of the session process and of all that serves, PSS in MB.
#[derive(Clone, Copy, Debug)]
struct Memory {
    session: Option<f64>,
    server: f64,
}

/// What one variant did.
struct Found {
    /// One picture in quiet.
    alone_bytes: Vec<f64>,
    alone_ms: Vec<f64>,
    ages: Ages,
    /// Of each part of the screen alone, from the top: its longest age, ms.
    part_max_ms: Vec<f64>,
    /// Whole pictures of one moment, a second.
    rate: f64,
    bytes_per_second: f64,
    memory: Vec<Memory>,
    /// Memory before and while the viewer does not read.
    stalled: Vec<(Memory, Vec<Memory>)>,
    again_ms: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let plan = Plan::new(options);
    let mut notebook = Notebook::new(options.effort, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let mut all = Vec::new();
    for peer in &peers {
        eprintln!("{} ...", peer.name());
        let began = Began::now();
        let found = stage(peer.as_ref(), &options.link, options.size, options.congestion.as_deref())
            .and_then(|mut stage| {
                let found = ask(&mut stage, &plan)?;
                notebook.heard_of(&stage.site.bed);
                Ok(found)
            })
            .map(|found| {
                let measures = found.measures();
                (found, measures)
            });
        if let Some(found) = notebook.note(peer.name(), &options.link, "overwrite", began, found)? {
            all.push((peer.name(), found));
        }
    }
    println!(
        "overwrite: {}; {}x{} redrawn 200 times a second for {} s; then {} times no reading for {} s",
        options.link.about(),
        options.size.0,
        options.size.1,
        plan.watched.as_secs(),
        plan.stalls,
        plan.stall.as_secs()
    );
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
    row("one picture alone, KB", &|found| quantile(&found.alone_bytes, 0.5).map(|bytes| bytes / 1e3));
    row("one picture alone, from its key to exact, ms", &|found| quantile(&found.alone_ms, 0.5));
    for (name, share) in [("median", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        row(&format!("age of what is shown, {name}, ms"), &|found| quantile(&found.ages.moments_ms, share));
    }
    row("age of what is shown, longest, ms", &|found| Some(found.ages.max_ms));
    row("the same of the highest of twelve parts", &|found| found.part_max_ms.first().copied());
    row("the same of the lowest", &|found| found.part_max_ms.last().copied());
    row("whole pictures a second", &|found| Some(found.rate));
    row("over the link, Mbit/s", &|found| Some(found.bytes_per_second * 8.0 / 1e6));
    row("session's memory, median, MB", &|found| quantile(&found.session_mb(), 0.5));
    row("session's memory, longest, MB", &|found| quantile(&found.session_mb(), 1.0));
    row("server's memory, median, MB", &|found| quantile(&found.server_mb(), 0.5));
    row("memory of the server, most while stalled, MB", &|found| {
        found.stalled.iter().flat_map(|(_, looks)| looks).map(|look| look.server).reduce(f64::max)
    });
    row("whole again after reading again, median, ms", &|found| quantile(&found.again_ms, 0.5));
    row("whole again after reading again, longest, ms", &|found| quantile(&found.again_ms, 1.0));
}

impl Found {
    fn session_mb(&self) -> Vec<f64> {
        self.memory.iter().filter_map(|look| look.session).collect()
    }

    fn server_mb(&self) -> Vec<f64> {
        self.memory.iter().map(|look| look.server).collect()
    }

    fn measures(&self) -> Vec<Measure> {
        let lower = |name: &str, part: &str, unit: &str, samples| measure(name, part, unit, Better::Lower, samples);
        let shares = [0.5, 0.95, 0.99];
        let mut ages: Vec<f64> = shares.iter().filter_map(|&share| quantile(&self.ages.moments_ms, share)).collect();
        ages.push(self.ages.max_ms);
        let stalled = |of: &dyn Fn(&Memory) -> Option<f64>| {
            self.stalled
                .iter()
                .flat_map(|(before, looks)| std::iter::once(before).chain(looks))
                .filter_map(of)
                .collect()
        };
        vec![
            lower(quantity::BYTES_DOWN, "one picture", "bytes", self.alone_bytes.clone()),
            lower(quantity::EXACT_MS, "one picture", "ms", self.alone_ms.clone()),
            lower("age_ms", "median, p95, p99, longest", "ms", ages),
            lower("age_ms", "longest of each part, from the top", "ms", self.part_max_ms.clone()),
            measure(quantity::FRAME_RATE, "", "fps", Better::Higher, vec![self.rate]),
            measure("link_bytes_per_second", "", "bytes", Better::Neither, vec![self.bytes_per_second]),
            lower("memory_session_mb", "each second", "MB", self.session_mb()),
            lower("memory_server_mb", "each second", "MB", self.server_mb()),
            lower("memory_session_mb", "stalled", "MB", stalled(&|look| look.session)),
            lower("memory_server_mb", "stalled", "MB", stalled(&|look| Some(look.server))),
            lower("again_ms", "", "ms", self.again_ms.clone()),
        ]
    }

    fn claims(&self, link: &Link) -> Vec<Claim> {
        let bytes = quantile(&self.alone_bytes, 0.5).unwrap_or(f64::INFINITY);
        let sending_ms = link.rate_bps.map_or(0.0, |rate| bytes * 8e3 / rate as f64);
        let rtt_ms = link.rtt.as_secs_f64() * 1e3;
        let off = (bytes / PICTURE_BYTES - 1.0).abs();
        let grown = |looks: &[f64]| {
            let third = looks.len().div_ceil(3);
            let (first, last) = (quantile(&looks[..third], 0.5), quantile(&looks[looks.len() - third..], 0.5));
            first.zip(last).map_or(0.0, |(first, last)| last - first)
        };
        let swollen = |of: fn(&Memory) -> f64| {
            let worst = |(before, looks): &(Memory, Vec<Memory>)| {
                looks.iter().map(|look| of(look) - of(before)).fold(0.0, f64::max)
            };
            self.stalled.iter().map(worst).fold(0.0, f64::max)
        };
        let mut claims = vec![
            Claim::at_most("a picture's distance from 20 KB", off * 100.0, PICTURE_SLACK * 100.0, "%"),
            Claim::at_most("age at any moment", self.ages.max_ms, rtt_ms + 2.0 * sending_ms, "ms"),
            Claim::at_most("memory of the session, last third over first", grown(&self.session_mb()), FLAT_MB, "MB"),
            Claim::at_most("memory of the server, last third over first", grown(&self.server_mb()), FLAT_MB, "MB"),
            Claim::at_most(
                "memory of the session, more while stalled",
                swollen(|look| look.session.unwrap_or(look.server)),
                FLAT_MB,
                "MB",
            ),
            Claim::at_most("memory of the server, more while stalled", swollen(|look| look.server), FLAT_MB, "MB"),
        ];
        let name = "whole again after it reads again";
        claims.push(match quantile(&self.again_ms, 1.0) {
            Some(again) => Claim::at_most(name, again, rtt_ms + sending_ms, "ms"),
            None => Claim::missed(name, &format!("not within {} s", short(AGAIN_LIMIT.as_secs_f64()))),
        });
        claims
    }
}

fn ask(stage: &mut Stage, plan: &Plan) -> Result<Found, Error> {
    let (width, height) = stage.site.size;
    let words = ["overwrite", "--width", &width.to_string(), "--height", &height.to_string()];
    let mut application = own::show(stage, "overwrite", &words)?;
    let (mut alone_bytes, mut alone_ms) = (Vec::new(), Vec::new());
    for _ in 0..plan.alone {
        let one = stage.operation(|input| input.key(KEY_ONE))?;
        alone_bytes.push(one.spent.traffic.bytes(Direction::Down) as f64);
        // The key's own way to the application is part of it here.
        alone_ms.extend(one.exact_ms);
    }

    let parts: Vec<Rect> = codes(width, height)
        .iter()
        .map(|code| Rect { x: code.x + stage.view.x, y: code.y + stage.view.y, ..*code })
        .collect();
    let stamps = StampWatch::start(&stage.site.screen, parts)?;
    stage.input.key(KEY_GO)?;
    pause(WARMING)?;
    let meter = stage.meter()?;
    let (begin, end) = (Instant::now(), Instant::now() + plan.watched);
    let memory = looks(stage, end)?;
    let spent = meter.read(stage)?;
    own::check(stage, "overwrite", &mut application)?;

    let (mut stalled, mut again_ms) = (Vec::new(), Vec::new());
    for _ in 0..plan.stalls {
        let before = memory_now(stage)?;
        let stopped = Stopped::begin(stage)?;
        let during = looks(stage, Instant::now() + plan.stall)?;
        stalled.push((before, during));
        let reads = clock::now_ns();
        drop(stopped);
        let since = clock::stamp_of(reads);
        let whole = wait_for("a whole picture after the viewer reads again", AGAIN_LIMIT, || stamps.whole_since(since));
        own::check(stage, "overwrite", &mut application)?;
        match whole {
            Ok(whole) => {
                again_ms.push(whole.saturating_duration_since(clock::instant_of(reads)).as_secs_f64() * 1e3);
            }
            Err(error) => {
                eprintln!("{error}");
                again_ms.clear();
                break;
            }
        }
        pause(WARMING)?;
    }
    let stamps = stamps.finish()?;
    let (now, now_ns) = (Instant::now(), clock::now_ns());
    let stamp_of = |at: Instant| clock::stamp_of(now_ns - now.duration_since(at).as_nanos() as u64);
    let part_max_ms = (0..STRIPES as usize).map(|part| {
        let ages = stamps.ages_of(part..part + 1, begin, end, stamp_of)?;
        Ok(ages.max_ms)
    });
    Ok(Found {
        part_max_ms: part_max_ms.collect::<Result<_, Error>>()?,
        alone_bytes,
        alone_ms,
        ages: stamps.ages(begin, end, stamp_of)?,
        rate: stamps.whole_pictures(begin, end) as f64 / plan.watched.as_secs_f64(),
        bytes_per_second: spent.traffic.bytes(Direction::Down) as f64 / spent.seconds,
        memory,
        stalled,
        again_ms,
    })
}

/// Looks at the memory until `end`.
fn looks(stage: &Stage, end: Instant) -> Result<Vec<Memory>, Error> {
    let mut looks = Vec::new();
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        pause(left.min(LOOK))?;
        looks.push(memory_now(stage)?);
    }
    Ok(looks)
}

fn memory_now(stage: &Stage) -> Result<Memory, Error> {
    let pids = stage.site.accounts.pids(Group::Server)?;
    // One that ends just now holds nothing any more.
    let server = pids.iter().filter_map(|&pid| pss_mb(pid).ok()).sum();
    Ok(Memory { session: stage.desk.session.map(pss_mb).transpose()?, server })
}

/// The viewer, which goes on in every case.
struct Stopped(Pid);

impl Stopped {
    fn begin(stage: &Stage) -> Result<Stopped, Error> {
        let viewer = stage.desk.held.first().ok_or("the peer has no viewer")?;
        let group = i32::try_from(viewer.pid()).ok().and_then(Pid::from_raw).ok_or("the viewer has no process")?;
        kill_process_group(group, Signal::STOP)?;
        Ok(Stopped(group))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // An error says that it has ended; whoever waits for its pixels finds that out.
        let _ = kill_process_group(self.0, Signal::CONT);
    }
}
