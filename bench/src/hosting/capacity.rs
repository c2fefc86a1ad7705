//! How many people fit on a server: simulated people type, read and watch (people.rs), more of them
//! step by step, until the echoes of all who type are too late; and what has run out then. thinc
//! with and without priority, TigerVNC and xrdp. Knows people, echoes and what is used; never a
//! server's reasons.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::census::{Census, machine_mb, of_server};
use super::columns::{self, Common};
use super::people::{Work, works};
use super::seat::Seat;
use super::servers::Host;
use super::{SIZE, link};
use crate::net::testbed::{Direction, Mark, Testbed};
use crate::observe::account::{Accounts as CpuAccounts, Group, Kind};
use crate::observe::screen::Listen;
use crate::questions::pause;
use crate::results::{Measure, quantity};
use crate::stage::Site;
use crate::{Error, stats};

/// Options of `hosting capacity`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// People of the first step, and how many join for each further one.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    step: u32,
    /// Most people.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=200))]
    max: u32,
    /// Seconds of each step, in which everybody works.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// The 95th percentile of all echoes may be so late, ms.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(5..=5000))]
    limit_ms: u32,
    /// The link, which all viewers share.
    #[arg(long, default_value = "lan")]
    link: String,
    /// Seed of what people do.
    #[arg(long, default_value_t = 31)]
    seed: u64,
}

/// After the last one has sat down, before everybody works.
const SETTLES: Duration = Duration::from_secs(5);
/// A part of the machine is used up from this share on; of the memory this much is needed for what
/// files are read again and again.
const FULL: f64 = 0.9;
/// Fewer echoes have no 95th percentile.
const ECHOES_MIN: usize = 20;

struct Plan {
    step: u32,
    max: u32,
    time: Duration,
    limit_ms: f64,
    seed: u64,
}

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let bed = Arc::new(Testbed::start(&link(&options.link)?, None)?);
    let (step, max, seconds) = if options.common.smoke {
        (2, 4, 10)
    } else {
        (options.step, options.max, options.seconds)
    };
    if step > max {
        return Err(format!("{step} people in the first step are more than the most, {max}").into());
    }
    let limit_ms = f64::from(options.limit_ms);
    let time = Duration::from_secs(seconds);
    let plan = Plan { step, max, time, limit_ms, seed: options.seed };
    let columns =
        columns::of_each(options.common.subjects()?, max, |host| measure(host, &bed, &plan))?;
    let title = format!(
        "simulated people, 6 of 10 type, 3 read, 1 watches; {seconds} s a step, until p95 of the \
         echo passes {limit_ms} ms"
    );
    columns::finish(&options.common, "capacity", &title, &bed, columns)
}

fn measure(host: &Host, bed: &Arc<Testbed>, plan: &Plan) -> Result<Vec<Measure>, Error> {
    host.on_client()?;
    // Without control groups: they would divide the processors between the parts of this harness.
    let cpu = Arc::new(CpuAccounts::of_kind("capacity", Kind::Proc)?);
    let site = Site::start("capacity", bed, &cpu, SIZE, Listen::Unix)?;
    // Ends after the viewers.
    let _server = host.start_server(&site)?;
    let works = works(plan.max);
    let mut seats: Vec<Seat> = Vec::new();
    let mut search = Search::new(plan.step, plan.max);
    let mut found = Vec::new();
    let ran_out = loop {
        let Some(people) = search.next() else {
            break "nothing: more people were not tried".into();
        };
        if let Err(error) = fill(host, &site, &mut seats, &works[..people as usize], plan.seed) {
            if search.holds == 0 {
                return Err(error);
            }
            // The rest of such an error are the ends of logs.
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            break format!("person {} could not sit down: {first}", seats.len() + 1);
        }
        pause(SETTLES)?;
        let step = work(host, &site, &mut seats, plan.time)?;
        let part = if people == 1 { "1 person".to_owned() } else { format!("{people} people") };
        let p95 = p95(&step.echoes_ms)?;
        found.extend(step.measures(&part));
        search.handle(people, p95 <= plan.limit_ms);
        if search.is_over {
            break step.used.ran_out();
        }
    };
    let (name, holds) = (&host.subject.name, search.holds);
    println!("{name}: {holds} people; what ran out: {ran_out}");
    found.insert(0, Measure::higher("people_that_fit", "", "people", [f64::from(holds)]));
    Ok(found)
}

/// Which numbers of people are tried.
struct Search {
    step: u32,
    max: u32,
    /// The largest number that holds; 0: none yet.
    holds: u32,
    /// A number does not hold, and so no larger one is tried.
    is_over: bool,
}

impl Search {
    fn new(step: u32, max: u32) -> Search {
        Search { step, max, holds: 0, is_over: false }
    }

    /// The next number; None if there is none. The last step may be smaller than the others.
    fn next(&self) -> Option<u32> {
        let next = (self.holds + self.step).min(self.max);
        (!self.is_over && next > self.holds).then_some(next)
    }

    fn handle(&mut self, people: u32, holds: bool) {
        if holds {
            self.holds = people;
        } else {
            self.is_over = true;
        }
    }
}

/// Seats those who are missing. Everybody else rests meanwhile.
fn fill(
    host: &Host,
    site: &Site,
    seats: &mut Vec<Seat>,
    works: &[Work],
    seed: u64,
) -> Result<(), Error> {
    for (person, &work) in (0_u32..).zip(works).skip(seats.len()) {
        let mut seat = Seat::take(host, site, person)?;
        seat.begin(work, seed ^ u64::from(person) << 32)?;
        seats.push(seat);
    }
    Ok(())
}

/// What everybody did in one step, and what it took.
struct Step {
    echoes_ms: Vec<f64>,
    used: Used,
}

fn work(host: &Host, site: &Site, seats: &mut [Seat], time: Duration) -> Result<Step, Error> {
    seats.iter().try_for_each(Seat::go_on)?;
    let meter = Meter::start(site)?;
    let end = Instant::now() + time;
    let echoes = std::thread::scope(|scope| {
        let working: Vec<_> =
            seats.iter_mut().map(|seat| scope.spawn(move || seat.work_until(end))).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<Vec<f64>, Error>>| {
            thread.join().unwrap_or_else(|_| Err("a person's thread panicked".into()))
        };
        working.into_iter().map(ended).collect::<Result<Vec<_>, Error>>()
    })?;
    let used = meter.read(host, site)?;
    seats.iter().try_for_each(Seat::rest)?;
    Ok(Step { echoes_ms: echoes.into_iter().flatten().collect(), used })
}

fn p95(echoes_ms: &[f64]) -> Result<f64, Error> {
    let enough = stats::quantile(echoes_ms, 0.95).filter(|_| echoes_ms.len() >= ECHOES_MIN);
    let count = echoes_ms.len();
    Ok(enough.ok_or_else(|| {
        format!("{count} echoes have no 95th percentile: name more seconds or a larger step")
    })?)
}

/// The begin of a step.
struct Meter {
    begun: Instant,
    mark: Mark,
    server: Census,
    client: Census,
}

/// Viewers, and this process, which is some of them and all people.
fn of_client(site: &Site) -> Result<Vec<u32>, Error> {
    let mut pids = site.accounts.pids(Group::Client)?;
    pids.push(std::process::id());
    Ok(pids)
}

impl Meter {
    fn start(site: &Site) -> Result<Meter, Error> {
        Ok(Meter {
            server: Census::of(&of_server(&site.accounts)?),
            client: Census::of(&of_client(site)?),
            begun: Instant::now(),
            mark: site.bed.mark(),
        })
    }

    fn read(&self, host: &Host, site: &Site) -> Result<Used, Error> {
        let (seconds, traffic) = (self.begun.elapsed().as_secs_f64(), site.bed.since(&self.mark));
        let (of_server, of_client) = (of_server(&site.accounts)?, of_client(site)?);
        let (server, client) = host.processors();
        let share = |pids: &[u32], before: &Census, processors: u32| {
            Census::of(pids).since(before).cpu_ms / (seconds * 1e3 * f64::from(processors))
        };
        let rate = site.bed.link().rate_of(Direction::Down);
        if traffic.forgotten && rate.is_some() {
            return Err(
                "more packets crossed the link than are remembered: shorten the step".into()
            );
        }
        let bits = traffic.bytes(Direction::Down) as f64 * 8.0;
        Ok(Used {
            server: share(&of_server, &self.server, server),
            client: share(&of_client, &self.client, client),
            memory: 1.0 - machine_mb("MemAvailable")? / machine_mb("MemTotal")?,
            link: rate.map(|rate| bits / (rate as f64 * seconds)),
        })
    }
}

/// Shares of what there is, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Used {
    /// Of the server's processors.
    server: f64,
    /// Of those of the viewers and of the simulated people.
    client: f64,
    /// Of the machine's memory.
    memory: f64,
    /// Of the link to the viewers; None without a limit.
    link: Option<f64>,
}

impl Used {
    fn all(&self) -> Vec<(&'static str, f64)> {
        let mut all = vec![
            ("the server's processors", self.server),
            ("memory", self.memory),
            // Then the number says something about the viewers.
            ("the viewers' processors", self.client),
        ];
        all.extend(self.link.map(|share| ("the link", share)));
        all
    }

    /// What is used up, in words, the fullest first.
    fn ran_out(&self) -> String {
        let mut all = self.all();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let full = all.iter().filter(|(_, share)| *share >= FULL).count();
        let words = |(name, share): &(&str, f64)| format!("{name} ({:.0} %)", share * 100.0);
        match full {
            0 => format!("nothing is full; the fullest: {}", words(&all[0])),
            _ => all[..full].iter().map(words).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Step {
    fn measures(&self, part: &str) -> Vec<Measure> {
        let echoes = self.echoes_ms.iter().copied();
        let mut measures = vec![Measure::lower(quantity::PHOTON_MS, part, "ms", echoes)];
        for (name, share) in self.used.all() {
            let name = format!("use of {}", name.trim_start_matches("the "));
            measures.push(Measure::lower(&name, part, "share", [share]));
        }
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that are tried if at most `fit` people fit, and which of them holds.
    fn tried(step: u32, max: u32, fit: u32) -> (Vec<u32>, u32) {
        let (mut search, mut tried) = (Search::new(step, max), Vec::new());
        while let Some(people) = search.next() {
            tried.push(people);
            search.handle(people, people <= fit);
        }
        (tried, search.holds)
    }

    #[test]
    fn people_join_until_they_do_not_fit_or_there_are_no_more() {
        assert_eq!(tried(5, 60, 17), (vec![5, 10, 15, 20], 15));
        assert_eq!(tried(5, 12, 100), (vec![5, 10, 12], 12));
        assert_eq!(tried(4, 60, 3), (vec![4], 0));
        assert_eq!(tried(1, 1, 1), (vec![1], 1));
    }

    #[test]
    fn what_ran_out_is_named_with_its_share() {
        let used = Used { server: 0.98, client: 0.4, memory: 0.91, link: None };
        assert_eq!(used.ran_out(), "the server's processors (98 %), memory (91 %)");
        let used = Used { server: 0.5, client: 0.3, memory: 0.2, link: Some(0.7) };
        assert_eq!(used.ran_out(), "nothing is full; the fullest: the link (70 %)");
        let used = Used { server: 0.8, client: 0.95, memory: 0.2, link: Some(0.7) };
        assert_eq!(used.ran_out(), "the viewers' processors (95 %)");
    }

    #[test]
    fn few_echoes_have_no_percentile() {
        assert!(p95(&[1.0; 19]).is_err());
        let echoes: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(p95(&echoes).unwrap(), 95.0);
    }
}
