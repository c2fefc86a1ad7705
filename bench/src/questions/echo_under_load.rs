//! Question: does a key's echo stay immediate while photographs fill a narrow link, and does the link stay full?
//! Keys at 20 Hz into an xterm that lies over a photograph: first in quiet, then while another photograph is drawn every 500 ms. All is
//! read from the viewer's pixels: cells of the terminal, and which photograph each block of the screen shows.

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::trial::{Began, Claim, Notebook, Table, measure, pause, quantile, stage};
use crate::Error;
use crate::apps::slides::{ALIKE, SLIDES, Slides};
use crate::apps::words;
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::observe::clock;
use crate::observe::slides::{Series, SlideWatch, Turns};
use crate::process::{Running, wait_for};
use crate::results::{Better, Measure, quantity};
use crate::run::parse_size;
use crate::stage::Stage;
use crate::workloads::Effort;
use crate::workloads::typing::{Echoes, Terminal, wait_for_echoes};

/// How `echo-under-load` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',', default_value = "thinc,thinc-fifo,tigervnc,tigervnc-lossless")]
    peers: Vec<String>,
    /// The link: figures, or a preset with changes.
    #[arg(long, default_value = "rate=10mbit,rtt=40ms", value_parser = |text: &str| text.parse::<Link>())]
    link: Link,
    /// From a photograph to the next, ms.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(50..=10_000))]
    period_ms: u32,
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

/// 20 keys a second.
const KEY_PERIOD: Duration = Duration::from_millis(50);
const KEY: &str = "x";
/// Between the terminal's cells and the photograph: two blocks of JPEG.
const MARGIN: u32 = 16;
/// What the echo may lose under load, ms: median and 95th percentile.
const MEDIAN_LOSS_MAX: f64 = 10.0;
const P95_LOSS_MAX: f64 = 30.0;
/// Share of the link that is wanted.
const USE_MIN: f64 = 0.85;
/// Longest that a changed pixel may be missing, ms.
const PENDING_MAX: f64 = 3000.0;
/// Time in which the link fills, which does not count for its use.
const FILLING: Duration = Duration::from_secs(1);
/// Longest until the last photograph is there: with seconds of it in every queue.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);

/// Keys in quiet, and keys under load.
fn keys(effort: Effort) -> (usize, usize) {
    match effort {
        Effort::Smoke => (40, 100),
        Effort::Quick => (200, 400),
        // 80 photographs: less than there are.
        Effort::Full => (400, 800),
    }
}

/// What one variant did.
struct Found {
    quiet_ms: Vec<f64>,
    loaded_ms: Vec<f64>,
    lost_keys: usize,
    link_use: f64,
    pending_ms: Vec<f64>,
    /// From the drawing of the last photograph until all of it was there: bit for bit, and as a person sees it.
    exact_ms: Option<f64>,
    visible_ms: Option<f64>,
    /// What such a photograph takes alone: bytes, and time until it is exact.
    alone_bytes: f64,
    alone_ms: Option<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let mut notebook = Notebook::new(options.effort, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let slides = Slides::new(options.size.0, options.size.1);
    let (_, loaded) = keys(options.effort);
    let seconds = KEY_PERIOD.as_secs_f64() * loaded as f64;
    let mut all = Vec::new();
    for peer in &peers {
        eprintln!("{} ...", peer.name());
        let began = Began::now();
        let found = stage(peer.as_ref(), &options.link, options.size, options.congestion.as_deref())
            .and_then(|mut stage| {
                let found = ask(&mut stage, options, &slides)?;
                notebook.heard_of(&stage.site.bed);
                Ok(found)
            })
            .map(|found| {
                let measures = found.measures();
                (found, measures)
            });
        if let Some(found) = notebook.note(peer.name(), &options.link, "echo-under-load", began, found)? {
            all.push((peer.name(), found));
        }
    }
    println!(
        "echo under load: {}; {}x{}; 20 keys/s into xterm, a photograph every {} ms over the screen, for {seconds} s",
        options.link.about(),
        options.size.0,
        options.size.1,
        options.period_ms
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
    for (name, share) in [("median", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        row(&format!("echo in quiet, {name}, ms"), &|found| quantile(&found.quiet_ms, share));
        row(&format!("echo under load, {name}, ms"), &|found| quantile(&found.loaded_ms, share));
    }
    row("keys lost", &|found| Some(found.lost_keys as f64));
    row("use of the link, share", &|found| Some(found.link_use));
    for (name, share) in [("median", 0.5), ("p95", 0.95), ("p99", 0.99), ("longest", 1.0)] {
        row(&format!("a changed block is missing, {name}, ms"), &|found| quantile(&found.pending_ms, share));
    }
    row("last photograph after load, exact, ms", &|found| found.exact_ms);
    row("last photograph after load, visible, ms", &|found| found.visible_ms);
    row("such a photograph alone, KB", &|found| Some(found.alone_bytes / 1e3));
    row("such a photograph alone, exact, ms", &|found| found.alone_ms);
}

impl Found {
    fn measures(&self) -> Vec<Measure> {
        let lower = |name: &str, part: &str, unit: &str, samples| measure(name, part, unit, Better::Lower, samples);
        let shares = [0.5, 0.95, 0.99, 1.0];
        let pending = shares.iter().filter_map(|&share| quantile(&self.pending_ms, share)).collect();
        vec![
            lower(quantity::PHOTON_MS, "in quiet", "ms", self.quiet_ms.clone()),
            lower(quantity::PHOTON_MS, "under load", "ms", self.loaded_ms.clone()),
            lower("lost_keys", "", "keys", vec![self.lost_keys as f64]),
            measure("link_use", "", "share", Better::Higher, vec![self.link_use]),
            lower("pending_ms", "median, p95, p99, longest", "ms", pending),
            lower(quantity::EXACT_MS, "after load", "ms", self.exact_ms.into_iter().collect()),
            lower(quantity::VISIBLE_MS, "after load", "ms", self.visible_ms.into_iter().collect()),
            lower(quantity::EXACT_MS, "alone", "ms", self.alone_ms.into_iter().collect()),
            lower(quantity::BYTES_DOWN, "alone", "bytes", vec![self.alone_bytes]),
        ]
    }

    fn claims(&self, link: &Link) -> Vec<Claim> {
        let loss = |share: f64| Some(quantile(&self.loaded_ms, share)? - quantile(&self.quiet_ms, share)?);
        let echo = |name: &'static str, share: f64, limit: f64| match loss(share) {
            Some(loss) => Claim::at_most(name, loss, limit, "ms more than in quiet"),
            None => Claim::missed(name, &format!("{} keys changed nothing", self.lost_keys)),
        };
        let mut claims = vec![
            echo("median of the echo", 0.5, MEDIAN_LOSS_MAX),
            echo("p95 of the echo", 0.95, P95_LOSS_MAX),
            Claim::at_least("use of the link", self.link_use, USE_MIN, "of it"),
            Claim::at_most(
                "longest that a changed block is missing",
                self.pending_ms.iter().copied().fold(0.0, f64::max),
                PENDING_MAX,
                "ms",
            ),
        ];
        let name = "complete after load";
        claims.push(match (self.exact_ms, link.rate_bps) {
            (Some(exact), Some(rate)) => {
                let sending_ms = self.alone_bytes * 8e3 / rate as f64;
                Claim::at_most(name, exact, sending_ms + link.rtt.as_secs_f64() * 1e3, "ms")
            }
            (None, _) => Claim::missed(name, "the picture was never exact"),
            (_, None) => Claim::missed(name, "without a rate it has no sending time"),
        });
        claims
    }
}

/// The slide show, driven line by line.
pub(super) struct Show {
    _running: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Show {
    pub(super) fn start(stage: &Stage) -> Result<Show, Error> {
        let (width, height) = stage.site.size;
        let words = words(&["slides", "--width", &width.to_string(), "--height", &height.to_string()])?;
        let watch = stage.site.screen.watch()?;
        let mut command = stage.command(&words[0]);
        let log = std::fs::File::create(stage.site.folder.path().join("slides.log"))?;
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut running = Running::start("slides", &mut command)?;
        let stdin = running.take_stdin().ok_or("the slide show has no input")?;
        let stdout = BufReader::new(running.take_stdout().ok_or("the slide show has no output")?);
        let mut show = Show { _running: running, stdin, stdout };
        // Its window takes the keyboard before it says so; the terminal that comes after takes it for good.
        show.drawn()?;
        stage.wait_shown("the first slide", watch)?;
        Ok(show)
    }

    /// Begins to show slides; [`Show::drawn`] waits for them.
    pub(super) fn begin(&mut self, first: u32, count: u32, period_ms: u32) -> Result<(), Error> {
        writeln!(self.stdin, "{first} {count} {period_ms}")?;
        Ok(self.stdin.flush()?)
    }

    /// When each of them was drawn.
    pub(super) fn drawn(&mut self) -> Result<Vec<Instant>, Error> {
        let mut drawn = Vec::new();
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err("the slide show has ended".into());
            }
            if line.trim() == "done" {
                return Ok(drawn);
            }
            let time = line.trim().split_once(' ').and_then(|(_, ns)| ns.parse().ok());
            drawn.push(clock::instant_of(time.ok_or_else(|| format!("the slide show said `{}`", line.trim()))?));
        }
    }
}

/// Types `count` keys into the terminal, of which `place` were typed before, and gives the times of their echoes.
fn type_keys(stage: &Stage, terminal: &Terminal, place: usize, count: usize) -> Result<Echoes, Error> {
    let watch = terminal.watch_from(stage, place)?;
    let began = Instant::now();
    let mut pressed = Vec::with_capacity(count);
    for i in 0..count {
        // By the clock and not by pauses, so that a late key does not make all others late.
        pause((began + KEY_PERIOD * i as u32).saturating_duration_since(Instant::now()))?;
        pressed.push(stage.input.key(KEY)?);
    }
    wait_for_echoes(stage, &watch, count)?;
    Ok(Echoes::new(&pressed, &watch.finish()?))
}

fn ask(stage: &mut Stage, options: &Options, slides: &Slides) -> Result<Found, Error> {
    let (quiet_keys, loaded_keys) = keys(options.effort);
    let count = (KEY_PERIOD.as_millis() as usize * loaded_keys).div_ceil(options.period_ms as usize) as u32;
    // The one that is shown alone must be new as well.
    if count + ALIKE >= SLIDES {
        return Err(format!("{count} photographs are more than there are: {SLIDES}").into());
    }
    let mut show = Show::start(stage)?;
    let terminal = Terminal::open_with_margin(stage, MARGIN)?;
    assert!(quiet_keys + loaded_keys <= terminal.room(), "the keys do not fit into the terminal");
    let quiet = type_keys(stage, &terminal, 1, quiet_keys)?;
    stage.settle()?;

    let view = stage.view;
    let series = Series::new(view, count + 1, |number, x, y| slides.pixel(number, x, y));
    let blocks = SlideWatch::start(&stage.site.screen, Arc::new(series), terminal.area())?;
    let meter = stage.meter()?;
    let load_began = Instant::now();
    show.begin(1, count, options.period_ms)?;
    // A thread of its own types: what is to be seen of the last photograph begins when it is drawn, and echoes may come later.
    let (loaded, drawn, last) = std::thread::scope(|scope| -> Result<_, Error> {
        let stage = &*stage;
        let typist = scope.spawn(|| type_keys(stage, &terminal, 1 + quiet_keys, loaded_keys));
        let drawn = show.drawn()?;
        let watch = stage.site.screen.watch()?;
        let whole = wait_for("the last photograph", WHOLE_LIMIT, || {
            let (there, all) = blocks.arrived(count as usize);
            (there * 100 >= all * 99).then_some(())
        });
        let loaded = typist.join().map_err(|_| "the typist panicked")??;
        whole?;
        stage.wait_quiet(&watch, &stage.site.bed.mark(), WHOLE_LIMIT)?;
        Ok((loaded, drawn, watch.finish()?.within(view)))
    })?;
    let traffic = meter.read(stage)?.traffic;
    let ended = *drawn.last().ok_or("no photograph was drawn")?;
    let filled = load_began + FILLING;
    let carried: u64 = traffic
        .packets
        .iter()
        .filter(|packet| packet.direction == Direction::Down && (filled..ended).contains(&packet.at))
        .map(|packet| u64::from(packet.bytes))
        .sum();
    let rate = options.link.rate_bps.map_or(f64::INFINITY, |rate| rate as f64);
    let link_use = carried as f64 * 8.0 / rate / ended.saturating_duration_since(filled).as_secs_f64();

    let reference = stage.server_picture()?;
    let ms = |at: Instant| at.saturating_duration_since(ended).as_secs_f64() * 1e3;
    let (exact_ms, visible_ms) = (last.exact(&reference, (view.x, view.y)).map(ms), last.visible().map(ms));
    let pending_ms = pending(&blocks.finish()?, &drawn, Instant::now());

    let alone = stage.operation(|_| {
        show.begin(count + ALIKE, 1, 0)?;
        Ok(*show.drawn()?.last().ok_or("no photograph was drawn")?)
    })?;
    Ok(Found {
        quiet_ms: quiet.latency_ms.clone(),
        loaded_ms: loaded.latency_ms.clone(),
        lost_keys: quiet.lost() + loaded.lost(),
        link_use,
        pending_ms,
        exact_ms,
        visible_ms,
        alone_bytes: alone.spent.traffic.bytes(Direction::Down) as f64,
        alone_ms: alone.exact_ms,
    })
}

/// For each time that a block turned to a later photograph, how long it had lacked the one after the one it showed, ms; and the
/// same for those that have not turned by `end`. Photograph 0 was there before, `drawn` begins with photograph 1.
fn pending(turns: &Turns, drawn: &[Instant], end: Instant) -> Vec<f64> {
    let missing_since = |shown: usize| drawn.get(shown).copied();
    let turned = turns.turns.iter().filter_map(|turn| Some((missing_since(turn.from)?, turn.at)));
    let left = turns.shown.iter().filter_map(|&shown| Some((missing_since(shown)?, end)));
    turned.chain(left).map(|(since, until)| until.saturating_duration_since(since).as_secs_f64() * 1e3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::slides::Turn;

    #[test]
    fn a_block_is_missing_from_the_first_drawing_that_it_does_not_show() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let drawn = [at(0), at(500), at(1000)];
        let turns = [Turn { at: at(120), from: 0, to: 1 }, Turn { at: at(1300), from: 1, to: 3 }];
        let turns = Turns { turns: turns.to_vec(), shown: vec![3, 2] };
        // The second block has lacked the third photograph since 1000 ms.
        assert_eq!(pending(&turns, &drawn, at(2500)), [120.0, 800.0, 1500.0]);
    }

    #[test]
    fn keys_and_photographs_fit() {
        for effort in [Effort::Smoke, Effort::Quick, Effort::Full] {
            let (quiet, loaded) = keys(effort);
            assert!(quiet + loaded < 80 * 24);
            assert!(loaded as u32 * 50 / 500 + ALIKE < SLIDES);
        }
    }
}
