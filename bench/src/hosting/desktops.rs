//! Many desktops on one server: how soon each is shown while the others run, what it takes when
//! nothing moves, and how soon all viewers are back when the front has been killed, as in an
//! upgrade. Viewers without windows, over an unlimited link. Knows processes and their users; never
//! protocols.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{PASSWORD, SHOWN_MAX, accounts, front, link, processes_of};
use crate::Error;
use crate::net::testbed::Testbed;
use crate::observe::account::{Accounts as CpuAccounts, cpu_ms_of};
use crate::observe::screen::Listen;
use crate::peers::accounts::Accounts;
use crate::peers::broker;
use crate::process::{Headless, pss_mb, wait_for};
use crate::questions::{pause, print_table};
use crate::results::{Measure, quantity};
use crate::stage::Site;

/// Options of `hosting desktops`.
#[derive(clap::Args)]
pub struct Options {
    /// Desktops, each of another user.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    desktops: u32,
    /// Viewers, spread over them.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=400))]
    viewers: u32,
    /// Seconds for which idle desktops are watched.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// What each desktop runs, as a shell takes it; thinc-bench is there. Default: a picture.
    #[arg(long, default_value = "exec thinc-bench app desktop")]
    session: String,
}

/// Until all of a desktop has been drawn after its first pixel.
const DRAWN_MAX: Duration = Duration::from_secs(5);

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let bed = Arc::new(Testbed::start(&link("rtt=0ms")?, None)?);
    let cpu: Arc<CpuAccounts> = accounts("desktops")?;
    let site = Site::start("desktops", &bed, &cpu, (1024, 768), Listen::Unix)?;
    let people = Accounts::with_password(options.desktops, PASSWORD);
    let session = format!("#!/bin/sh\n{}\n", options.session);
    let _server = broker::start_server(&site, &session, &people)?;

    let (mut viewers, mut shown) = (Vec::new(), Vec::new());
    for index in 0..options.desktops {
        let begun = Instant::now();
        let mut viewer = broker::view_headless(&site, &Accounts::name(index), PASSWORD, &[])?;
        shown.push(wait_drawn(&mut viewer, begun)?);
        viewers.push(viewer);
    }
    let memory = memory(options.desktops)?;
    let before = cpu_of(options.desktops)?;
    pause(Duration::from_secs(options.seconds))?;
    let after = cpu_of(options.desktops)?;
    let idle: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (after - before) / options.seconds as f64)
        .collect();

    for index in options.desktops..options.viewers.max(options.desktops) {
        let user = Accounts::name(index % options.desktops);
        let mut viewer = broker::view_headless(&site, &user, PASSWORD, &[])?;
        viewer.say("wait-quiet")?;
        viewers.push(viewer);
    }
    let back = come_back(&cpu, &mut viewers)?;

    println!("hosting: {} desktops, {} viewers", options.desktops, viewers.len());
    let mut measures = vec![Measure::lower(quantity::VISIBLE_MS, "each desktop", "ms", shown)];
    for (part, samples) in memory {
        measures.push(Measure::lower("pss_mb", &part, "MB", samples));
    }
    measures.push(Measure::lower("idle_cpu", "an idle desktop", "ms/s", idle));
    measures.push(Measure::lower("back_ms", "each viewer after kill -9 of the front", "ms", back));
    print_table(&[("thinc".to_owned(), measures)]);
    Ok(())
}

/// Until the last change of what the desktop draws first; ms since `begun`.
fn wait_drawn(viewer: &mut Headless, begun: Instant) -> Result<f64, Error> {
    let mut last = (viewer.say("hash")?, Instant::now());
    let first = last.0.clone();
    wait_for("the desktop is drawn", SHOWN_MAX, || {
        let answer = viewer.say("wait-quiet").and_then(|_| viewer.say("hash"));
        let Ok(now) = answer else { return Some(false) };
        if now != last.0 {
            last = (now, Instant::now());
        }
        let rests = last.1.elapsed() > Duration::from_millis(500);
        let is_drawn = last.0 != first || last.1.elapsed() > DRAWN_MAX;
        (rests && is_drawn).then_some(true)
    })?
    .then_some(last.1.saturating_duration_since(begun).as_secs_f64() * 1e3)
    .ok_or_else(|| "a viewer ended before its desktop was drawn".into())
}

/// Memory of each part of each desktop, and of all of it.
fn memory(desktops: u32) -> Result<BTreeMap<String, Vec<f64>>, Error> {
    let mut parts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for index in 0..desktops {
        let mut of_desktop: BTreeMap<String, f64> = BTreeMap::new();
        for (pid, name) in processes_of(Accounts::uid(index))? {
            // A process may end meanwhile.
            let Ok(memory) = pss_mb(pid) else { continue };
            *of_desktop.entry(name).or_default() += memory;
        }
        let whole = of_desktop.values().sum();
        of_desktop.insert("a whole desktop".to_owned(), whole);
        for (name, memory) in of_desktop {
            parts.entry(name).or_default().push(memory);
        }
    }
    Ok(parts)
}

/// CPU time of each desktop so far, ms.
fn cpu_of(desktops: u32) -> Result<Vec<f64>, Error> {
    (0..desktops)
        .map(|index| {
            let pids = processes_of(Accounts::uid(index))?;
            Ok(pids.into_iter().filter_map(|(pid, _)| cpu_ms_of(pid).ok()).sum())
        })
        .collect()
}

/// Kills the front, with which all connections end; until each viewer has an answer again, ms.
fn come_back(cpu: &CpuAccounts, viewers: &mut [Headless]) -> Result<Vec<f64>, Error> {
    use rustix::process::{Pid, Signal, kill_process};
    let front = front(cpu)?;
    let (ready, begin) = (std::sync::Barrier::new(viewers.len() + 1), std::sync::OnceLock::new());
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for viewer in viewers {
            let (ready, begin) = (&ready, &begin);
            waiting.push(scope.spawn(move || {
                ready.wait();
                viewer.say("wait-connection 2")?;
                viewer.say("wait-quiet")?;
                let begin: &Instant = begin.get().ok_or("nobody has killed the front")?;
                Ok::<f64, Error>(begin.elapsed().as_secs_f64() * 1e3)
            }));
        }
        ready.wait();
        begin.get_or_init(Instant::now);
        let pid = i32::try_from(front).ok().and_then(Pid::from_raw).ok_or("the front has no ID")?;
        kill_process(pid, Signal::KILL)?;
        waiting
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread ended".into())))
            .collect()
    })
}
