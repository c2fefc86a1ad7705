//! The first key after a memory hog (Wong and Seltzer 2000, section 5): an editor rests while
//! another program of the same person takes more memory than there is; then a key, which needs what
//! was paged out. Server, desktop and hog share a control group with a limit; the viewer does not.
//! thinc with and without priority, xrdp and TigerVNC. Knows memory, keys and pixels; never what a
//! server protects.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::census::{field_mb, machine_mb, of_server};
use super::columns::{self, Common};
use super::memory_group::MemoryGroup;
use super::servers::Host;
use super::session::Session;
use super::typist::Typist;
use super::{SIZE, link};
use crate::Error;
use crate::net::testbed::Testbed;
use crate::observe::account::{Accounts as CpuAccounts, Kind};
use crate::peers::accounts::Accounts;
use crate::process::interrupted;
use crate::questions::pause;
use crate::results::{Measure, quantity};
use crate::stage::Stage;

/// Options of `hosting paging`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rounds, each with one first key.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Memory of server, desktop, editor and hog together, MB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(256..=65536))]
    limit_mb: u32,
    /// Memory of the hog, MB; more than the limit.
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u32).range(64..=65536))]
    hog_mb: u32,
    /// Memory of the editor, MB.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    editor_mb: u32,
    /// What each key touches of it, MB.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    touched_mb: u32,
    /// Longest that the hog runs before the key, s: less if nine tenths of the editor are paged out
    /// before.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// Keys in memory, before and after each first one, and their period.
const KEYS: usize = 5;
const PERIOD: Duration = Duration::from_millis(200);
/// The hog holds its memory and no longer touches it: what is measured is memory and not the
/// processor.
const RESTS: Duration = Duration::from_secs(1);
/// So much of the editor is enough.
const PAGED_OUT: f64 = 0.9;
/// The longest wait of a terminal for an echo counts for one that never came, ms.
const LOST_MS: f64 = 60_000.0;
const HOG: &str = "fill";

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let plan = Plan::of(options)?;
    plan.check_swap(machine_mb("SwapFree")?)?;
    let bed = Arc::new(Testbed::start(&link("rtt=0ms")?, None)?);
    let columns =
        columns::of_each(options.common.subjects()?, 1, |host| measure(host, &bed, &plan))?;
    let Plan { rounds, limit_mb, hog_mb, editor_mb, touched_mb, .. } = plan;
    let title = format!(
        "the first key of an editor of {editor_mb} MB, {touched_mb} MB a key, after a hog of \
         {hog_mb} MB, all within {limit_mb} MB; {rounds} rounds"
    );
    columns::finish(&options.common, "paging", &title, &bed, columns)
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u32,
    limit_mb: u32,
    hog_mb: u32,
    editor_mb: u32,
    touched_mb: u32,
    time: Duration,
}

impl Plan {
    fn of(options: &Options) -> Result<Plan, Error> {
        let is_smoke = options.common.smoke;
        let plan = Plan {
            rounds: if is_smoke { 1 } else { options.rounds },
            limit_mb: options.limit_mb,
            hog_mb: options.hog_mb,
            editor_mb: options.editor_mb,
            touched_mb: options.touched_mb,
            time: Duration::from_secs(if is_smoke { 5 } else { options.seconds }),
        };
        let (limit, hog) = (plan.limit_mb, plan.hog_mb);
        if hog <= limit {
            let words = format!("a hog of {hog} MB leaves room in {limit} MB: name more");
            return Err(format!("{words} with --hog-mb, or a lower --limit-mb").into());
        }
        let (editor, touched) = (plan.editor_mb, plan.touched_mb);
        if touched > editor {
            let words = format!("a key cannot touch {touched} MB of an editor of {editor} MB");
            return Err(format!("{words}: name fewer with --touched-mb").into());
        }
        Ok(plan)
    }

    /// Nothing is paged out without swap.
    fn check_swap(&self, free_mb: f64) -> Result<(), Error> {
        // All of them might be.
        let needed = self.hog_mb + self.editor_mb + self.limit_mb / 2;
        if free_mb >= f64::from(needed) {
            return Ok(());
        }
        let mebibytes = u64::from(needed) * 1_000_000 / (1 << 20) + 1;
        Err(format!(
            "{free_mb:.0} MB of swap are free and {needed} are needed, or nothing can be paged \
             out. Add some, and run again: fallocate -l {mebibytes}M /thinc-swap && chmod 600 \
             /thinc-swap && mkswap /thinc-swap && swapon /thinc-swap (afterwards: swapoff \
             /thinc-swap && rm /thinc-swap)"
        )
        .into())
    }
}

fn measure(host: &Host, bed: &Arc<Testbed>, plan: &Plan) -> Result<Vec<Measure>, Error> {
    let group = Arc::new(MemoryGroup::new(plan.limit_mb)?);
    host.memory.set(group).map_err(|_| "a host has one group for memory")?;
    host.on_client()?;
    // Without control groups: they would divide the processors between the parts of this harness.
    let cpu = Arc::new(CpuAccounts::of_kind("paging", Kind::Proc)?);
    let stage = Stage::start(host, bed, &cpu, SIZE)?;
    let session = Session::at(stage.site.folder.path(), &Accounts::name(0));
    let program = format!(
        "thinc-bench app editor --megabytes {} --touched {}",
        plan.editor_mb, plan.touched_mb
    );
    let mut typist = Typist::open(&stage, &session, &program)?;
    let editor = editor(&cpu)?;
    let mut found = Found::default();
    for _ in 0..plan.rounds {
        if 2 * KEYS + 1 > typist.room() {
            typist.empty(&stage)?;
        }
        found.before_ms.extend(typist.type_keys(&stage, KEYS, PERIOD)?.latency_ms);
        session
            .start_job(HOG, &format!("exec thinc-bench app fill --megabytes {}", plan.hog_mb))?;
        wait_paged_out(&editor, plan)?;
        session.signal_job(HOG, "STOP")?;
        pause(RESTS)?;
        let faults = editor.major_faults()?;
        found.paged_out_mb.push(editor.swapped_mb()?);
        let first = typist.type_keys(&stage, 1, PERIOD)?.latency_ms;
        found.first_ms.push(first.first().copied().unwrap_or(LOST_MS));
        found.faults.push(editor.major_faults()? - faults);
        session.end_job(HOG)?;
        // The next round begins in memory.
        typist.type_keys(&stage, KEYS, PERIOD)?;
    }
    typist.close(&stage, &session)?;
    Ok(found.measures())
}

/// Until enough of the editor is paged out, or the time is over: then the rest is protected.
fn wait_paged_out(editor: &Editor, plan: &Plan) -> Result<(), Error> {
    let end = Instant::now() + plan.time;
    while Instant::now() < end {
        if editor.swapped_mb()? >= PAGED_OUT * f64::from(plan.editor_mb) {
            break;
        }
        if interrupted() {
            return Err("interrupted".into());
        }
        pause(Duration::from_millis(100))?;
    }
    Ok(())
}

/// The editor's process, as this side numbers it.
struct Editor(u32);

fn editor(cpu: &CpuAccounts) -> Result<Editor, Error> {
    let is_editor = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split(|&byte| byte == 0);
        let name = words.next().unwrap_or_default();
        name.ends_with(b"thinc-bench") && words.nth(1) == Some(b"editor")
    };
    let found = of_server(cpu)?.into_iter().find(is_editor);
    Ok(Editor(found.ok_or("the terminal runs no editor")?))
}

impl Editor {
    fn swapped_mb(&self) -> Result<f64, Error> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))
            .map_err(|error| format!("the editor has ended: {error}"))?;
        Ok(field_mb(&status, "VmSwap").ok_or("the kernel does not say what is swapped out")?)
    }

    fn major_faults(&self) -> Result<f64, Error> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))
            .map_err(|error| format!("the editor has ended: {error}"))?;
        Ok(major_faults(&stat).ok_or("the kernel does not say how often a process waited")?)
    }
}

/// Field 12 of proc_pid_stat(5): pages that were read in for it. The name in brackets may hold
/// anything.
fn major_faults(stat: &str) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(12 - 3)?.parse().ok()
}

#[derive(Default)]
struct Found {
    before_ms: Vec<f64>,
    first_ms: Vec<f64>,
    paged_out_mb: Vec<f64>,
    faults: Vec<f64>,
}

impl Found {
    fn measures(self) -> Vec<Measure> {
        let longest = self.first_ms.iter().copied().fold(0.0, f64::max);
        let first = "first key after the hog";
        vec![
            Measure::lower(quantity::PHOTON_MS, "in memory", "ms", self.before_ms),
            Measure::lower(quantity::PHOTON_MS, first, "ms", self.first_ms),
            Measure::lower("photon_max_ms", first, "ms", [longest]),
            Measure::lower("paged_out", "of the editor, before the key", "MB", self.paged_out_mb),
            Measure::lower("major_faults", "of the editor, for the key", "pages", self.faults),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            rounds: 1,
            limit_mb: 512,
            hog_mb: 900,
            editor_mb: 64,
            touched_mb: 16,
            time: Duration::from_secs(1),
        }
    }

    #[test]
    fn without_swap_the_error_says_how_to_add_it() {
        let error = plan().check_swap(0.0).unwrap_err().to_string();
        assert!(error.starts_with("0 MB of swap are free and 1220 are needed"), "{error}");
        assert!(error.contains("fallocate -l 1164M") && error.contains("swapon"), "{error}");
        assert!(plan().check_swap(1219.0).is_err());
        assert!(plan().check_swap(1220.0).is_ok());
    }

    #[test]
    fn faults_are_read_whatever_the_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 777 0 5 6 7 8 20 0 1 0 12345";
        assert_eq!(major_faults(stat), Some(777.0));
        assert_eq!(major_faults("42 (short) S 1"), None);
    }

    #[test]
    fn the_longest_first_key_stands_beside_all() {
        let found = Found { first_ms: vec![20.0, 340.0, 30.0], ..Found::default() };
        let measures = found.measures();
        let longest = measures.iter().find(|measure| measure.quantity == "photon_max_ms").unwrap();
        assert_eq!(longest.samples, [340.0]);
    }
}
