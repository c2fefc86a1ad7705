//! CPU time of the front, which holds the connections of all viewers, for each gigabit that passes
//! it, beside that of the session and of a session without a broker. A screen that is redrawn all
//! the time, over an unlimited link. Knows processes and bytes; never protocols.

use std::sync::Arc;
use std::time::Duration;

use super::{PASSWORD, accounts, front, link, processes_of};
use crate::Error;
use crate::apps::overwrite::KEY_START;
use crate::net::testbed::{Side, Testbed};
use crate::observe::account::cpu_ms_of;
use crate::observe::screen::Listen;
use crate::peers::accounts::Accounts;
use crate::peers::broker;
use crate::process::{Headless, Session, binary};
use crate::questions::direct::bytes_in;
use crate::questions::{pause, print_table};
use crate::results::Measure;
use crate::stage::Site;

/// Options of `hosting front`.
#[derive(clap::Args)]
pub struct Options {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Measurements of each kind, by turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    tries: u32,
}

/// Redraws the screen 200 times a second with so many bytes that no encoding makes fewer.
const APPLICATION: [&str; 3] = ["overwrite", "--noise-bytes", "60000"];
/// The viewer's transports.
const TRANSPORTS: [&str; 2] = ["tcp", "quic"];
/// Until the screen is redrawn, and slow start is over.
const BEGIN: Duration = Duration::from_secs(3);

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let bed = Arc::new(Testbed::start(&link("rtt=0ms")?, None)?);
    let cpu = accounts("front")?;
    let site = Site::start("front", &bed, &cpu, (1024, 768), Listen::Unix)?;
    let application = APPLICATION.join(" ");
    let session = format!("#!/bin/sh\nexec thinc-bench app {application}\n");
    let people = Accounts::with_password(1, PASSWORD);
    let _server = broker::start_server(&site, &session, &people)?;
    let mut columns = Vec::new();
    for transport in TRANSPORTS {
        let [mut of_front, mut of_session, mut alone, mut rate] = [const { Vec::new() }; 4];
        for _ in 0..options.tries {
            let chosen = ["--transport", transport];
            let viewer = broker::view_headless(&site, &Accounts::name(0), PASSWORD, &chosen)?;
            let session = session_of(Accounts::uid(0))?;
            let used = measure(&site, viewer, &[front(&cpu)?, session], options.seconds)?;
            of_front.push(used.cpu_ms[0] / used.gbit);
            of_session.push(used.cpu_ms[1] / used.gbit);
            rate.push(used.gbit * 1e3 / options.seconds as f64);
            let (_session, viewer, process) = without(&bed, transport)?;
            let used = measure(&site, viewer, &[process], options.seconds)?;
            alone.push(used.cpu_ms[0] / used.gbit);
        }
        let cost = |part, samples| Measure::lower("cpu_ms_gbit", part, "ms/Gbit", samples);
        let measures = vec![
            cost("the front", of_front),
            cost("the session behind it", of_session),
            cost("the session of thinc serve", alone),
            Measure::higher("rate", "through the front", "Mbit/s", rate),
        ];
        columns.push((transport.to_owned(), measures));
    }
    println!("front: CPU time by bytes at the viewer");
    print_table(&columns);
    Ok(())
}

/// The process of a user's desktop that encodes.
fn session_of(uid: u32) -> Result<u32, Error> {
    // The supervisor and the agent have used next to nothing.
    let mut found: Vec<(f64, u32)> = Vec::new();
    for (pid, name) in processes_of(uid)? {
        // Processes end meanwhile.
        if let Ok(used) = cpu_ms_of(pid)
            && name == "thinc"
        {
            found.push((used, pid));
        }
    }
    let most = found.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    most.map(|(_, pid)| pid).ok_or_else(|| "the desktop has no session process".into())
}

/// A session of `thinc serve`, its viewer and its process.
fn without(bed: &Testbed, transport: &str) -> Result<(Session, Headless, u32), Error> {
    let thinc = bed.command(Side::Server, binary("thinc")?);
    let listen = format!("{}:9443", bed.address(Side::Server));
    let application = crate::apps::words(&APPLICATION)?;
    let application: Vec<&str> = application.iter().map(String::as_str).collect();
    let session = Session::start_by(thinc, &listen, ("front", "1024x768"), &[], &application)?;
    let viewer = bed.command(Side::Client, binary("thinc-view")?);
    let viewer = Headless::start_by(viewer, &session.link, &["--transport", transport])?;
    let process = session.pid("session")?;
    Ok((session, viewer, process))
}

struct Used {
    /// Of each process.
    cpu_ms: Vec<f64>,
    gbit: f64,
}

fn measure(site: &Site, viewer: Headless, pids: &[u32], seconds: u64) -> Result<Used, Error> {
    let mut viewer = viewer;
    let key = format!("key {KEY_START}");
    viewer.say("wait-quiet")?;
    viewer.say(&key)?;
    pause(BEGIN)?;
    let mut read = || -> Result<(Vec<f64>, f64), Error> {
        let bytes = bytes_in(&mut viewer, site.folder.path())?;
        Ok((pids.iter().map(|&pid| cpu_ms_of(pid)).collect::<Result<_, Error>>()?, bytes))
    };
    let (cpu_before, bytes_before) = read()?;
    pause(Duration::from_secs(seconds))?;
    let (cpu_after, bytes_after) = read()?;
    viewer.say(&key)?;
    let cpu_ms = cpu_before.iter().zip(&cpu_after).map(|(before, after)| after - before).collect();
    Ok(Used { cpu_ms, gbit: (bytes_after - bytes_before) * 8.0 / 1e9 })
}
