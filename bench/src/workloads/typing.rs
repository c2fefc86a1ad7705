//! A key held down at 20 Hz while the server is busy (Wong and Seltzer 2000, section 4.2): stalls
//! and jitter of the echo. xterm echoes through `cat` on a pseudoterminal; each key fills the next
//! cell, so the order assigns cells to keys. Knows xterm's grid and the definitions of the paper;
//! never which peer shows it.

use std::time::{Duration, Instant};

use super::{Effort, Workload, own, processors};
use crate::Error;
use crate::observe::account::Group;
use crate::observe::cells::{CellWatch, Grid, ink};
use crate::observe::picture::{Picture, Rect, channels};
use crate::process::{Running, interrupted, wait_for};
use crate::questions::pause;
use crate::results::{Better, Form, Measure, quantity};
use crate::stage::{Stage, cost_measures, measures};

/// The workload.
pub struct Type;

/// The paper's 20 Hz.
const PERIOD: Duration = Duration::from_millis(50);
/// The key that is held.
const KEY: &str = "x";
/// Longest start of an xterm: half a minute over plain X with a round trip of 66 ms.
const EMPTY_LIMIT: Duration = Duration::from_secs(90);
/// Longest wait for echoes after the last key.
const REST_LIMIT: Duration = Duration::from_secs(60);

impl Workload for Type {
    fn name(&self) -> &str {
        "type"
    }

    fn about(&self) -> &'static str {
        "a key at 20 Hz into xterm beside CPU hogs: stalls and jitter (Wong and Seltzer 2000)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["xterm", "stty"]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        match form {
            Form::SlowMotion => 3.0 + single_keys(effort) as f64 * 0.7,
            Form::Normal => {
                let Plan { hogs, keys } = Plan::new(effort);
                hogs.len() as f64 * (3.0 + keys as f64 * PERIOD.as_secs_f64())
            }
        }
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        match form {
            Form::SlowMotion => {
                let _terminal = Terminal::open(stage)?;
                let mut found = vec![];
                for _ in 0..single_keys(effort) {
                    found.push(stage.operation(|input| input.key(KEY))?);
                }
                Ok(measures("one key", &found))
            }
            Form::Normal => {
                let Plan { hogs, keys } = Plan::new(effort);
                let mut measures = vec![];
                for &hogs in hogs {
                    measures.extend(hold(stage, hogs, keys)?);
                }
                Ok(measures)
            }
        }
    }
}

fn single_keys(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 3,
        Effort::Quick => 20,
        Effort::Full => 60,
    }
}

/// Numbers of hogs, and of keys for each.
struct Plan {
    hogs: &'static [u32],
    keys: usize,
}

impl Plan {
    fn new(effort: Effort) -> Plan {
        match effort {
            Effort::Smoke => Plan { hogs: &[0, 2], keys: 40 },
            Effort::Quick => Plan { hogs: &[0, 2, 8], keys: 120 },
            // The paper typed for 60 s.
            Effort::Full => Plan { hogs: &[0, 1, 2, 4, 8, 16, 32], keys: 1200 },
        }
    }
}

/// An xterm of known geometry that shows what is typed.
pub(crate) struct Terminal {
    /// Unless the session itself has started it.
    _xterm: Option<Running>,
    grid: Grid,
    margin: u32,
    /// Pixels of ink of a full cell.
    full: usize,
}

/// `fixed` is built into every X server's font library, in this size.
pub(crate) const CELL: (u32, u32) = (6, 13);
pub(crate) const COLUMNS: u32 = 80;
/// 80 columns in 24 rows hold the longest run: 1200 keys.
pub(crate) const ROWS: u32 = 24;
/// No cursor, so that a cell changes once, when its key fills it; and no line editing, so that
/// every key comes through the program and not from the kernel.
const RAW: &str = "printf '\\033[?25l'; stty raw -echo; exec";
/// The program that echoes each key.
pub(crate) const ECHO: &str = "cat";

impl Terminal {
    /// Opens a terminal, waits until it is shown empty, and types one key to measure a full cell.
    pub(crate) fn open(stage: &Stage) -> Result<Terminal, Error> {
        Terminal::open_with_margin(stage, 0)
    }

    /// As [`Terminal::open`], with a margin of this many white pixels around its cells, which keeps
    /// the artefacts of lossy encodings at an edge out of them.
    pub(crate) fn open_with_margin(stage: &Stage, margin: u32) -> Result<Terminal, Error> {
        let mut command = stage.command("xterm");
        command.args(Terminal::arguments(margin, ECHO));
        let xterm = own::show_command(stage, "xterm", command)?;
        Terminal::shown(stage, margin, Some(xterm))
    }

    /// As [`Terminal::open`]; the session starts the xterm itself, with these arguments, and it
    /// runs this program, which echoes each byte that it reads.
    pub(crate) fn open_within(
        stage: &Stage,
        program: &str,
        start: impl FnOnce(&[String]) -> Result<(), Error>,
    ) -> Result<Terminal, Error> {
        let watch = stage.site.screen.watch()?;
        start(&Terminal::arguments(0, program))?;
        stage.wait_shown("xterm", watch)?;
        Terminal::shown(stage, 0, None)
    }

    /// Of xterm, for a terminal of known geometry that shows what is typed.
    pub(crate) fn arguments(margin: u32, program: &str) -> Vec<String> {
        let (margin, geometry) = (margin.to_string(), format!("{COLUMNS}x{ROWS}+0+0"));
        let place = ["-fn", "fixed", "-b", &margin, "+sb", "-bw", "0", "-geometry", &geometry];
        let program = format!("{RAW} {program}");
        let shown = ["-fg", "black", "-bg", "white", "-e", "sh", "-c", &program];
        place.into_iter().chain(shown).map(str::to_owned).collect()
    }

    fn shown(stage: &Stage, margin: u32, xterm: Option<Running>) -> Result<Terminal, Error> {
        let at = (stage.view.x + margin as i32, stage.view.y + margin as i32);
        let line = Grid { at, cell: CELL, columns: COLUMNS, rows: ROWS };
        // Over plain X with a long round trip, a terminal is incomplete when it is first shown.
        wait_for("xterm shows its empty page", EMPTY_LIMIT, || {
            let picture = stage.site.screen.picture().ok()?;
            is_blank(&picture.crop(line.area())).then_some(())
        })?;
        stage.settle()?;
        let empty = stage.site.screen.picture()?;
        let watch = stage.site.screen.watch()?;
        stage.input.key(KEY)?;
        stage.wait_shown("the first character", watch)?;
        let typed = stage.site.screen.picture()?;
        let inked = |rect: Rect| ink(&empty.crop(rect), &typed.crop(rect));
        let (full, everywhere) = (inked(line.rect(0)), inked(line.area()));
        // A glyph of a 6x13 font has some ten pixels of ink.
        if full < 5 || everywhere > full + full / 4 {
            return Err(format!(
                "the first character has {full} pixels of ink in the cell {}x{} where it belongs \
                    and {everywhere} in \
                 the terminal: xterm has another font or place",
                CELL.0, CELL.1
            )
            .into());
        }
        Ok(Terminal { _xterm: xterm, grid: line, margin, full })
    }

    /// Begins to record from the second cell on: the first one was used to measure a full cell.
    pub(crate) fn watch(&self, stage: &Stage) -> Result<CellWatch, Error> {
        self.watch_from(stage, 1)
    }

    /// As [`Terminal::watch`], if more keys have been typed: from the cell with this index on.
    pub(crate) fn watch_from(&self, stage: &Stage, place: usize) -> Result<CellWatch, Error> {
        CellWatch::start(&stage.site.screen, self.grid, place, self.full)
    }

    /// Types so many keys, one each `period`, from the cell with this index on, while `goes_on`.
    /// Returns them with their echoes.
    pub(crate) fn type_keys(
        &self,
        stage: &Stage,
        place: usize,
        count: usize,
        period: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Echoes, Error> {
        let watch = self.watch_from(stage, place)?;
        let began = Instant::now();
        let mut pressed = Vec::with_capacity(count);
        while pressed.len() < count && goes_on() {
            let at = began + period * pressed.len() as u32;
            pause(at.saturating_duration_since(Instant::now()))?;
            pressed.push(stage.input.key(KEY)?);
        }
        wait_for_echoes(stage, &watch, pressed.len())?;
        Ok(Echoes::new(&pressed, &watch.finish()?))
    }

    /// Its position on the client's screen, with its margin.
    pub(crate) fn area(&self) -> Rect {
        let (cells, margin) = (self.grid.area(), self.margin);
        let corner = (cells.x - margin as i32, cells.y - margin as i32);
        Rect::new(corner.0, corner.1, cells.width + 2 * margin, cells.height + 2 * margin)
    }

    /// Keys that still fit.
    pub(crate) fn room(&self) -> usize {
        self.grid.count() - 1
    }
}

/// Whether it is blank within the error of lossy encoding, except for one pixel in a hundred, which
/// a cursor may take.
fn is_blank(picture: &Picture) -> bool {
    let dark = |pixel: &&u32| channels(**pixel).iter().any(|&level| level < 0xff - 16);
    picture.pixels.iter().filter(dark).count() * 100 <= picture.pixels.len()
}

/// Waits until `keys` cells are full or no echo has arrived for long, and until the screen is idle.
pub(crate) fn wait_for_echoes(stage: &Stage, watch: &CellWatch, keys: usize) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        if interrupted() {
            return Err("interrupted".into());
        }
        let (now, (filled, last)) = (Instant::now(), watch.filled());
        let rest = last.unwrap_or(began).max(began) + stage.quiet_gap();
        let late = now > began + REST_LIMIT;
        // The echo of a lost key never arrives: ten idle gaps are enough for a retransmission.
        if (filled >= keys && now >= rest) || now >= rest + stage.quiet_gap() * 10 || late {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Holds the key beside this many hogs. The hogs have the server's processors and not the client's,
/// as on two machines; client_apart says whether this machine has enough of them for that.
fn hold(stage: &mut Stage, hogs: u32, keys: usize) -> Result<Vec<Measure>, Error> {
    let terminal = Terminal::open(stage)?;
    assert!(keys <= terminal.room(), "{keys} keys do not fit into the terminal");
    let mut running = vec![];
    for _ in 0..hogs {
        let words = crate::apps::words(&["hog", "--seconds", "300"])?;
        let mut command = stage.site.command(Group::Apps, &words[0]);
        command.args(&words[1..]);
        running.push(stage.application("hog", command)?);
    }
    wait_busy(stage, &mut running)?;
    let divided = processors::divide(&stage.site.accounts)?;
    let watch = terminal.watch(stage)?;
    let meter = stage.meter()?;
    let began = Instant::now();
    let mut pressed = Vec::with_capacity(keys);
    for i in 0..keys {
        if interrupted() {
            return Err("interrupted".into());
        }
        // Scheduled by the clock, so that a late key does not delay all others.
        std::thread::sleep((began + PERIOD * i as u32).saturating_duration_since(Instant::now()));
        pressed.push(stage.input.key(KEY)?);
    }
    wait_for_echoes(stage, &watch, keys)?;
    let spent = meter.read(stage)?;
    let cells = watch.finish()?;
    for hog in &mut running {
        hog.check().map_err(|error| format!("a hog is not there to disturb: {error}"))?;
    }
    drop(running);
    let part = match hogs {
        1 => "1 hog".to_owned(),
        _ => format!("{hogs} hogs"),
    };
    let mut measures = Echoes::new(&pressed, &cells).measures(&part, PERIOD);
    measures.push(Measure {
        quantity: "client_apart".into(),
        part: part.clone(),
        unit: "yes".into(),
        better: Better::Neither,
        samples: vec![f64::from(u8::from(divided))],
    });
    measures.extend(cost_measures(&part, &[spent]));
    Ok(measures)
}

/// Waits until the hogs have used 50 ms of each processor that they can use.
fn wait_busy(stage: &Stage, hogs: &mut [Running]) -> Result<(), Error> {
    if hogs.is_empty() {
        return Ok(());
    }
    let before = stage.site.accounts.cpu_ms(Group::Apps)?;
    wait_for("the hogs are busy", Duration::from_secs(20), || {
        let used = stage.site.accounts.cpu_ms(Group::Apps).ok()? - before;
        (used > 50.0 * hogs.len() as f64).then_some(())
    })
}

/// Keys, and the cells that they filled.
pub(crate) struct Echoes {
    /// From each key to its cell, ms; empty if keys were lost or doubled, since then the key of a
    /// cell is unknown.
    pub(crate) latency_ms: Vec<f64>,
    /// Times of the filled cells, in order.
    arrivals: Vec<Instant>,
    lost: usize,
    extra: usize,
}

impl Echoes {
    /// The k-th cell belongs to the k-th key: a terminal writes in the order in which it is typed
    /// into.
    pub(crate) fn new(keys: &[Instant], cells: &[Option<Instant>]) -> Echoes {
        let filled: Vec<Instant> = cells.iter().map_while(|at| *at).collect();
        let latency_ms: Vec<f64> = if filled.len() == keys.len() {
            let ms = |(key, cell): (&Instant, &Instant)| {
                cell.saturating_duration_since(*key).as_secs_f64() * 1e3
            };
            keys.iter().zip(&filled).map(ms).collect()
        } else {
            vec![]
        };
        let (lost, extra) =
            (keys.len().saturating_sub(filled.len()), filled.len().saturating_sub(keys.len()));
        let mut arrivals = filled;
        arrivals.sort_unstable();
        Echoes { latency_ms, arrivals, lost, extra }
    }

    /// Keys whose character never appeared.
    pub(crate) fn lost(&self) -> usize {
        self.lost
    }

    /// Times between messages, ms: cells that the screen showed at once arrived in one message.
    fn gaps_ms(&self) -> Vec<f64> {
        let pairs = self.arrivals.windows(2);
        pairs
            .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64() * 1e3)
            .filter(|&gap| gap > 0.0)
            .collect()
    }

    /// - photon_ms: from each key to its character on the client's screen; photon_mean_ms and
    ///   photon_max_ms are the mean and the longest;
    /// - stall_ms: a stall is what the time between two messages has beyond the period (the paper);
    ///   the longest;
    /// - stall_mean_ms: mean over all messages, those in time being stalls of nothing (the paper's
    ///   figure 3);
    /// - jitter_ms: standard deviation of the time between messages (the paper's figure 4);
    /// - lost_keys, extra_keys: characters that never came, or came without a key.
    pub(crate) fn measures(&self, part: &str, period: Duration) -> Vec<Measure> {
        let gaps = self.gaps_ms();
        let stalls = stalls_ms(&gaps, period);
        let lower = |name: &str, unit: &str, value: f64| Measure::lower(name, part, unit, [value]);
        let latency = self.latency_ms.iter().copied();
        let mut measures = vec![Measure::lower(quantity::PHOTON_MS, part, "ms", latency)];
        if !self.latency_ms.is_empty() {
            let mean = self.latency_ms.iter().sum::<f64>() / self.latency_ms.len() as f64;
            let longest = self.latency_ms.iter().copied().fold(0.0, f64::max);
            measures.push(lower("photon_mean_ms", "ms", mean));
            measures.push(lower("photon_max_ms", "ms", longest));
        }
        if !gaps.is_empty() {
            let mean = stalls.iter().sum::<f64>() / stalls.len() as f64;
            measures.push(lower("stall_ms", "ms", stalls.iter().copied().fold(0.0, f64::max)));
            measures.push(lower("stall_mean_ms", "ms", mean));
            measures.push(lower("jitter_ms", "ms", deviation(&gaps)));
        }
        measures.push(lower("lost_keys", "keys", self.lost as f64));
        measures.push(lower("extra_keys", "keys", self.extra as f64));
        measures
    }
}

/// The part of each time between messages that exceeds the period, ms.
fn stalls_ms(gaps_ms: &[f64], period: Duration) -> Vec<f64> {
    let period_ms = period.as_secs_f64() * 1e3;
    gaps_ms.iter().map(|gap| (gap - period_ms).max(0.0)).collect()
}

/// Standard deviation.
fn deviation(samples: &[f64]) -> f64 {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    (samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / samples.len() as f64)
        .sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    fn value(measures: &[Measure], quantity: &str) -> Vec<f64> {
        measures
            .iter()
            .find(|m| m.quantity == quantity)
            .map(|m| m.samples.clone())
            .unwrap_or_default()
    }

    #[test]
    fn keys_in_flight_are_identified_by_their_order() {
        let begin = Instant::now();
        let keys: Vec<Instant> = (0..5).map(|i| at(begin, 50 * i)).collect();
        // 120 ms late each: when the first is seen, three keys have been pressed.
        let cells: Vec<Option<Instant>> =
            keys.iter().map(|&key| Some(at(key, 120))).chain([None, None]).collect();
        let echoes = Echoes::new(&keys, &cells);
        assert_eq!(echoes.latency_ms, [120.0; 5]);
        let found = echoes.measures("", PERIOD);
        assert_eq!(value(&found, "stall_ms"), [0.0]);
        assert_eq!(value(&found, "jitter_ms"), [0.0]);
        assert_eq!(value(&found, "lost_keys"), [0.0]);
    }

    #[test]
    fn a_stall_is_the_gap_beyond_the_period_and_what_comes_at_once_is_one_message() {
        let begin = Instant::now();
        let keys: Vec<Instant> = (0..6).map(|i| at(begin, 50 * i)).collect();
        // The third is held up by 100 ms and comes together with the next two.
        let times = [10, 60, 210, 210, 210, 260];
        let cells: Vec<Option<Instant>> = times.iter().map(|&ms| Some(at(begin, ms))).collect();
        let echoes = Echoes::new(&keys, &cells);
        assert_eq!(echoes.latency_ms, [10.0, 10.0, 110.0, 60.0, 10.0, 10.0]);
        assert_eq!(echoes.gaps_ms(), [50.0, 150.0, 50.0]);
        let found = echoes.measures("4 hogs", PERIOD);
        assert_eq!(value(&found, "stall_ms"), [100.0]);
        assert_eq!(value(&found, "photon_max_ms"), [110.0]);
        assert_eq!(value(&found, "photon_mean_ms"), [35.0]);
        assert!((value(&found, "stall_mean_ms")[0] - 100.0 / 3.0).abs() < 1e-9);
        // 50, 150 and 50 lie 33, 67 and 33 from their mean.
        assert!((value(&found, "jitter_ms")[0] - 47.140_452).abs() < 1e-3);
        assert!(found.iter().all(|m| m.part == "4 hogs"));
    }

    #[test]
    fn a_lost_or_doubled_key_leaves_no_latency_that_could_be_wrong() {
        let begin = Instant::now();
        let keys: Vec<Instant> = (0..4).map(|i| at(begin, 50 * i)).collect();
        let cells = |count: u64| {
            (0..6).map(|i| (i < count).then(|| at(begin, 50 * i + 5))).collect::<Vec<_>>()
        };
        let lost = Echoes::new(&keys, &cells(3));
        assert!(lost.latency_ms.is_empty());
        assert_eq!(value(&lost.measures("", PERIOD), "lost_keys"), [1.0]);
        let extra = Echoes::new(&keys, &cells(6));
        assert!(extra.latency_ms.is_empty());
        assert_eq!(value(&extra.measures("", PERIOD), "extra_keys"), [2.0]);
    }
}
