//! A key at 20 Hz into a terminal beside CPU hogs (Wong and Seltzer 2000, section 4.2): of the same
//! person, as one job in the background or as jobs of their own; of other people, outside of any
//! session; and, for thinc, in other people's desktops. thinc with and without priority, xrdp and
//! TigerVNC. The session starts all of it itself, on request, as a person's programs are. Knows
//! sessions and hogs; never how a server schedules.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::columns::{self, Common};
use super::servers::{Host, Server};
use super::session::Session;
use super::typist::Typist;
use super::{PASSWORD, SHOWN_MAX, SIZE, link, processes_of};
use crate::Error;
use crate::net::testbed::Testbed;
use crate::observe::account::{Accounts as CpuAccounts, Kind, cpu_ms_of};
use crate::peers::accounts::Accounts;
use crate::peers::broker;
use crate::process::{Headless, Running, wait_for};
use crate::questions::pause;
use crate::results::Measure;
use crate::stage::Stage;
use crate::workloads::typing::{ECHO, Echoes};

/// Options of `hosting stalls`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of hogs.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,5,10,20,50",
        value_parser = clap::value_parser!(u32).range(0..=1000))]
    hogs: Vec<u32>,
    /// Whose the hogs are.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "own,own-jobs,others,desktops")]
    whose: Vec<Whose>,
    /// Keys beside each number of hogs.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=1000))]
    keys: u32,
}

/// The paper's 20 Hz.
const PERIOD: Duration = Duration::from_millis(50);
/// What computes is found after 5 s; the same for all servers.
const SETTLES: Duration = Duration::from_secs(10);
/// Keys that are typed meanwhile: a person is there.
const KEYS_BEFORE: usize = 200;
/// Other people's desktops, which share the hogs.
const DESKTOPS: u32 = 4;
/// User ID of the first person outside of any session.
const OUTSIDERS: u32 = 62_000;

/// Whose the hogs are.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Whose {
    /// The person's own, one job in the background.
    Own,
    /// The person's own, each a job and a session of processes of its own: autogroup does not make
    /// one entity of them.
    OwnJobs,
    /// Each of another person who has no desktop.
    Others,
    /// In four other people's desktops; thinc alone.
    Desktops,
}

impl Whose {
    fn words(self) -> &'static str {
        match self {
            Whose::Own => "own",
            Whose::OwnJobs => "own, jobs of their own",
            Whose::Others => "others'",
            Whose::Desktops => "others', in their desktops",
        }
    }
}

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let bed = Arc::new(Testbed::start(&link("rtt=0ms")?, None)?);
    let plan = Plan::of(options);
    // All people but the first are others.
    let columns = columns::of_each(options.common.subjects()?, 1 + DESKTOPS, |host| {
        measure(host, &bed, &plan)
    })?;
    let title = format!("a key at 20 Hz beside hogs, {} keys each", plan.keys);
    // The report draws the papers' figures of this workload.
    columns::finish(&options.common, "type", &title, &bed, columns)
}

/// What is measured.
struct Plan {
    hogs: Vec<u32>,
    whose: Vec<Whose>,
    keys: usize,
    keys_before: usize,
}

impl Plan {
    fn of(options: &Options) -> Plan {
        let whose = options.whose.clone();
        if options.common.smoke {
            return Plan { hogs: vec![0, 2], whose, keys: 20, keys_before: 20 };
        }
        let keys = options.keys as usize;
        Plan { hogs: options.hogs.clone(), whose, keys, keys_before: KEYS_BEFORE }
    }
}

fn measure(host: &Host, bed: &Arc<Testbed>, plan: &Plan) -> Result<Vec<Measure>, Error> {
    host.on_client()?;
    // Without control groups: they would divide the processors between the parts of this harness.
    let cpu = Arc::new(CpuAccounts::of_kind("stalls", Kind::Proc)?);
    let stage = Stage::start(host, bed, &cpu, SIZE)?;
    let home = stage.site.folder.path();
    let session = Session::at(home, &Accounts::name(0));
    let of_thinc = matches!(host.subject.server, Server::Thinc { .. });
    let whose = plan.whose.iter().copied().filter(|&whose| whose != Whose::Desktops || of_thinc);
    let whose: Vec<Whose> = whose.collect();
    let mut found = Vec::new();
    if plan.hogs.contains(&0) {
        let alone = type_beside(&stage, &session, plan)?;
        // The origin of each curve.
        found.extend(whose.iter().flat_map(|whose| alone.measures(&part(0, *whose), PERIOD)));
    }
    for whose in whose {
        for &hogs in plan.hogs.iter().filter(|&&hogs| hogs > 0) {
            let _hogs = Hogs::start(host, &stage, &session, whose, hogs)?;
            let typed = type_beside(&stage, &session, plan)?;
            found.extend(typed.measures(&part(hogs, whose), PERIOD));
        }
    }
    Ok(found)
}

fn part(hogs: u32, whose: Whose) -> String {
    format!("{hogs} hogs, {}", whose.words())
}

/// Types until what computes was found, and then what counts.
fn type_beside(stage: &Stage, session: &Session, plan: &Plan) -> Result<Echoes, Error> {
    let mut typist = Typist::open(stage, session, ECHO)?;
    let before = plan.keys_before.min(typist.room() - plan.keys);
    typist.type_keys(stage, before, SETTLES / before as u32)?;
    let echoes = typist.type_keys(stage, plan.keys, PERIOD)?;
    typist.close(stage, session)?;
    Ok(echoes)
}

/// Hogs, which end with this.
struct Hogs<'a> {
    own: Option<&'a Session>,
    own_jobs: Vec<String>,
    outside: Vec<Outside>,
    desktops: Vec<(Session, Headless)>,
}

/// One job of a session.
const HOGS: &str = "hogs";
/// Ends by itself too.
const HOG: &str = "thinc-bench app hog --seconds 300";

impl<'a> Hogs<'a> {
    fn start(
        host: &Host,
        stage: &Stage,
        session: &'a Session,
        whose: Whose,
        count: u32,
    ) -> Result<Hogs<'a>, Error> {
        let mut hogs = Hogs { own: None, own_jobs: vec![], outside: vec![], desktops: vec![] };
        let together = |count: u32| format!("{} wait", format!("{HOG} & ").repeat(count as usize));
        match whose {
            Whose::Own => {
                hogs.own = Some(session);
                hogs.own_jobs.push(HOGS.to_owned());
                session.start_job(HOGS, &together(count))?;
            }
            Whose::OwnJobs => {
                hogs.own = Some(session);
                for index in 0..count {
                    let name = format!("{HOGS}-{index}");
                    hogs.own_jobs.push(name.clone());
                    session.start_job(&name, &format!("exec {HOG}"))?;
                }
            }
            Whose::Others => {
                let program = program(stage);
                host.on_server()?;
                for index in 0..count {
                    hogs.outside.push(Outside::start(&program, OUTSIDERS + index)?);
                }
                host.on_client()?;
                wait_for("the hogs compute", SHOWN_MAX, || {
                    let pids = hogs.outside.iter().filter_map(Outside::hog);
                    let used: f64 = pids.filter_map(|pid| cpu_ms_of(pid).ok()).sum();
                    (used > 20.0 * f64::from(count)).then_some(())
                })?;
            }
            Whose::Desktops => {
                for index in 1..=DESKTOPS {
                    let name = Accounts::name(index);
                    let theirs = Session::at(stage.site.folder.path(), &name);
                    let mut viewer = broker::view_headless(&stage.site, &name, PASSWORD, &[])?;
                    theirs.ready(&stage.site)?;
                    viewer.say("wait-quiet")?;
                    theirs.start_job(HOGS, &together(count.div_ceil(DESKTOPS)))?;
                    hogs.desktops.push((theirs, viewer));
                }
            }
        }
        pause(Duration::from_secs(1))?;
        Ok(hogs)
    }
}

/// The copy that other users can run.
fn program(stage: &Stage) -> PathBuf {
    stage.site.folder.path().join("thinc-bench")
}

impl Drop for Hogs<'_> {
    fn drop(&mut self) {
        // All of them end by themselves as well.
        if let Some(session) = self.own {
            for job in &self.own_jobs {
                let _ = session.end_job(job);
            }
        }
        for (index, (session, _)) in (1..).zip(&self.desktops) {
            let _ = session.end_job(HOGS);
            // The desktop ends with what it runs.
            let _ = session.run("kill -TERM $PPID");
            let _ = wait_for("a desktop ends", SHOWN_MAX, || {
                let left = processes_of(Accounts::uid(index)).ok()?;
                (!left.iter().any(|(_, name)| name == "Xorg")).then_some(())
            });
            // The next one says it again.
            let _ = fs::remove_file(session.folder.join("ready"));
        }
    }
}

/// A hog of somebody who has logged in without a desktop: in a session of processes of its own, as
/// each login has one. The process that waits for it is held.
struct Outside(Running);

impl Outside {
    fn start(program: &Path, uid: u32) -> Result<Outside, Error> {
        let mut hog = Command::new("setsid");
        hog.arg("--wait").arg(program).args(["app", "hog", "--seconds", "300"]);
        hog.uid(uid).gid(uid).stdin(Stdio::null()).stdout(Stdio::null());
        Running::start("hog", &mut hog).map(Outside)
    }

    fn hog(&self) -> Option<u32> {
        let waits = self.0.pid();
        let children = fs::read_to_string(format!("/proc/{waits}/task/{waits}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let hog = self.hog().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(hog) = hog {
            let _ = kill_process(hog, Signal::KILL);
        }
    }
}
