//! The runner: every peer asked for, on every link, with every workload in each of its forms, one trial at a time on a
//! machine that does nothing else; what was found is on disk after each trial, and a run that was cut short goes on there.
//! Knows the plan and the order; never how a peer starts or what a workload does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::Error;
use crate::net::testbed::Testbed;
use crate::net::{self, link::Link};
use crate::observe::account::{Accounts, Group};
use crate::peers::{self, Peer};
use crate::process::{interrupted, on_path};
use crate::report::progress::Progress;
use crate::report::store::{self, Shape};
use crate::results::{Better, Form, LinkRecord, Machine, Measure, Outcome, Results, SCHEMA, Trial, quantity};
use crate::stage::Stage;
use crate::workloads::{self, Effort, Skip, Workload};

/// What `run` runs.
#[derive(clap::Args)]
pub struct Options {
    /// The systems to measure; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',', default_value = "local,thinc,tigervnc,xpra,xrdp,x11")]
    pub(crate) peers: Vec<String>,
    /// The links: a preset, or one with changes, as in `80211b:loss=10%`; `thinc-bench net --help` lists them.
    #[arg(long, value_delimiter = ',', default_value = "lan,wan")]
    pub(crate) links: Vec<String>,
    /// The workloads; `thinc-bench workloads` lists them.
    #[arg(long, value_delimiter = ',', default_value = "web,latency,video,type")]
    pub(crate) workloads: Vec<String>,
    /// Only this form of each workload.
    #[arg(long)]
    pub(crate) form: Option<Form>,
    /// How much of each workload.
    #[arg(long, value_enum, default_value = "quick")]
    pub(crate) effort: Effort,
    /// Screen of every session.
    #[arg(long, default_value = "1024x768", value_parser = parse_size)]
    pub(crate) size: (u32, u32),
    /// TCP congestion control in both namespaces; the system's own without it. What is in force is recorded.
    #[arg(long)]
    pub(crate) congestion: Option<String>,
    /// Where the results go. Trials that it holds already are not run again; failed ones are.
    #[arg(long, short, default_value = "thinc-bench.json")]
    pub(crate) output: PathBuf,
    /// Captures every trial at both ends of its link: FOLDER/TRIAL/{server,client}.pcap.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pcap: Option<PathBuf>,
    /// What the report names as the command that made it, where this one is a step of another.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) made_by: Option<String>,
    /// Starts over, where the results exist.
    #[arg(long)]
    pub(crate) again: bool,
}

/// WIDTHxHEIGHT of a session's screen.
pub(crate) fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    match parsed {
        // 320x200: the smallest on which the workloads' windows mean anything; 8192: what an Xvfb file can hold twice.
        Some((width @ 320..=8192, height @ 200..=8192)) => Ok((width, height)),
        Some(_) => Err(format!("{text}: a screen is from 320x200 to 8192x8192")),
        None => Err(format!("{text}: not WIDTHxHEIGHT")),
    }
}

/// Runs it all.
pub fn run(options: &Options) -> Result<(), Error> {
    net::as_user_namespace()?;
    let plan = Plan::new(options)?;
    let mut results = plan.begin(options)?;
    plan.carry_out(&mut results, &options.output)?;
    let failed: Vec<String> = results
        .trials
        .iter()
        .filter_map(|trial| match &trial.outcome {
            Outcome::Failed(why) => Some(format!("{}: {}", label(trial), first_line(why))),
            _ => None,
        })
        .collect();
    println!("{} trials are in {}", results.trials.len(), options.output.display());
    for line in &failed {
        println!("  failed: {line}");
    }
    println!("Read them: thinc-bench report {}", options.output.display());
    Ok(())
}

/// What a run consists of.
pub(crate) struct Plan {
    links: Vec<Link>,
    peers: Vec<Box<dyn Peer>>,
    workloads: Vec<(Box<dyn Workload>, Vec<Form>)>,
    effort: Effort,
    size: (u32, u32),
    congestion: Option<String>,
    pcap: Option<PathBuf>,
}

/// One trial to be run: indices into the plan.
#[derive(Clone, Copy)]
struct Step {
    link: usize,
    peer: usize,
    workload: usize,
    form: Form,
}

impl Plan {
    pub(crate) fn new(options: &Options) -> Result<Plan, Error> {
        let links = options.links.iter().map(|name| name.parse()).collect::<Result<Vec<Link>, _>>()?;
        let peers = choose("peer", peers::all(), &options.peers, |peer| peer.name())?;
        let chosen = choose("workload", workloads::all(), &options.workloads, |workload| workload.name())?;
        let workloads = chosen
            .into_iter()
            .map(|workload| {
                let forms = workload.forms().iter().copied();
                let forms = forms.filter(|form| options.form.is_none_or(|only| only == *form)).collect();
                (workload, forms)
            })
            .collect();
        let (effort, size) = (options.effort, options.size);
        let (congestion, pcap) = (options.congestion.clone(), options.pcap.clone());
        Ok(Plan { links, peers, workloads, effort, size, congestion, pcap })
    }

    /// The results as they are before the first trial, or as an earlier run left them.
    pub(crate) fn begin(&self, options: &Options) -> Result<Results, Error> {
        let mut results = Results {
            schema: SCHEMA,
            command: match &options.made_by {
                Some(command) => command.split_whitespace().map(String::from).collect(),
                None => std::iter::once("thinc-bench".to_owned()).chain(std::env::args().skip(1)).collect(),
            },
            begun: now(),
            machine: machine()?,
            screen: self.size,
            effort: self.effort,
            links: BTreeMap::new(),
            peers: BTreeMap::new(),
            trials: Vec::new(),
        };
        if options.output.exists() && !options.again {
            let earlier = store::load(&options.output)?;
            if earlier.screen != self.size || earlier.effort != self.effort {
                let path = options.output.display();
                return Err(
                    format!("{path} holds a run of another size or effort: name another file, or say --again").into()
                );
            }
            let again = |trial: &Trial| matches!(trial.outcome, Outcome::Failed(_)) && self.holds(trial);
            let kept = earlier.trials.into_iter().filter(|trial| !again(trial));
            results.trials = kept.collect();
            results.links = earlier.links;
            results.peers = earlier.peers;
            results.begun = earlier.begun;
        }
        for link in &self.links {
            results.links.entry(link.name.clone()).or_insert_with(|| asked_for(link));
        }
        for peer in &self.peers {
            results.peers.insert(peer.name().into(), peer.record());
        }
        Ok(results)
    }

    /// Whether this plan would run such a trial.
    fn holds(&self, trial: &Trial) -> bool {
        let workload = self.workloads.iter().find(|(workload, _)| workload.name() == trial.workload);
        self.links.iter().any(|link| link.name == trial.link)
            && self.peers.iter().any(|peer| peer.name() == trial.peer)
            && workload.is_some_and(|(_, forms)| forms.contains(&trial.form))
    }

    /// Every trial that `results` does not hold: peers next to each other, so that what the machine does otherwise
    /// meets all of them alike.
    fn steps(&self, results: &Results) -> Vec<Step> {
        let mut steps = Vec::new();
        for (link, Link { name: link_name, .. }) in self.links.iter().enumerate() {
            for (workload, (what, forms)) in self.workloads.iter().enumerate() {
                for &form in forms {
                    for (peer, who) in self.peers.iter().enumerate() {
                        let done = results.trials.iter().any(|trial| {
                            (trial.peer.as_str(), trial.link.as_str()) == (who.name(), link_name)
                                && (trial.workload.as_str(), trial.form) == (what.name(), form)
                        });
                        if !done && results.peers[who.name()].missing.is_none() {
                            steps.push(Step { link, peer, workload, form });
                        }
                    }
                }
            }
        }
        steps
    }

    pub(crate) fn carry_out(&self, results: &mut Results, output: &Path) -> Result<(), Error> {
        for (name, record) in &results.peers {
            if let Some(why) = &record.missing {
                eprintln!("{name} is left out: {why}");
            }
        }
        // A file that cannot be written is found out before an hour of trials, not after.
        store::save(output, results, Shape::Whole)?;
        let steps = self.steps(results);
        let labels: Vec<(String, f64)> = steps.iter().map(|step| self.describe(step)).collect();
        let mut progress = Progress::new(&labels);
        for (index, step) in steps.iter().enumerate() {
            progress.begin(index);
            let (trial, link) = self.try_step(step);
            if interrupted() {
                return Err(
                    format!("interrupted; run the same command again to go on from {}", output.display()).into()
                );
            }
            progress.end(index, &trial.outcome);
            if let Some(record) = link {
                results.links.insert(trial.link.clone(), record);
            }
            results.machine.accounting = self.accounting(&results.machine.accounting);
            results.trials.push(trial);
            store::save(output, results, Shape::Whole)?;
        }
        Ok(())
    }

    fn accounting(&self, known: &str) -> String {
        if known.is_empty() {
            Accounts::new("kind").map_or_else(|_| String::new(), |a| a.kind().into())
        } else {
            known.into()
        }
    }

    fn describe(&self, step: &Step) -> (String, f64) {
        let (workload, peer) = (&self.workloads[step.workload].0, &self.peers[step.peer]);
        // Eight seconds: server, viewer and window manager of a peer up and down again.
        let seconds = workload.seconds(step.form, self.effort) + 8.0;
        let form = form_name(step.form);
        (format!("{} {} {} {form}", self.links[step.link].name, peer.name(), workload.name()), seconds)
    }

    /// One trial, from nothing to nothing.
    fn try_step(&self, step: &Step) -> (Trial, Option<LinkRecord>) {
        let (link, peer) = (&self.links[step.link], &self.peers[step.peer]);
        let workload = &self.workloads[step.workload].0;
        let (begun, start) = (now(), Instant::now());
        let mut link_record = None;
        let mut other_load = 0.0;
        let missing: Vec<&str> = workload.needs().iter().copied().filter(|program| !on_path(program)).collect();
        let outcome = if !missing.is_empty() {
            Outcome::Skipped(format!("{} wants {}: install it", workload.name(), missing.join(", ")))
        } else {
            let mut attempt = || -> Result<_, Error> {
                let accounts = Arc::new(Accounts::new(peer.name())?);
                let bed = Arc::new(Testbed::start(link, self.congestion.as_deref())?);
                link_record = Some(bed.record());
                if let Some(folder) = &self.pcap {
                    bed.start_capture(&folder.join(self.describe(step).0.replace([' ', '/'], "-")))?;
                }
                let load = accounts.mark();
                let mut stage = Stage::start(peer.as_ref(), &bed, &accounts, self.size)?;
                let found = workload.run(&mut stage, step.form, self.effort);
                other_load = accounts.other_load(&load);
                let mut found = found?;
                found.extend(memory(&accounts)?);
                Ok(found)
            };
            match attempt() {
                Ok(measures) if measures.iter().all(|measure| measure.samples.is_empty()) => {
                    Outcome::Failed("it measured nothing".into())
                }
                Ok(measures) => Outcome::Measured(measures),
                Err(error) => match error.downcast::<Skip>() {
                    Ok(skip) => Outcome::Skipped(skip.0),
                    Err(error) => Outcome::Failed(error.to_string()),
                },
            }
        };
        let trial = Trial {
            peer: peer.name().into(),
            link: link.name.clone(),
            workload: workload.name().into(),
            form: step.form,
            begun,
            seconds: start.elapsed().as_secs_f64(),
            other_load,
            outcome,
        };
        (trial, link_record)
    }
}

/// What both sides hold in the end, with the session and the viewer still there.
fn memory(accounts: &Accounts) -> Result<[Measure; 2], Error> {
    let measure = |quantity: &str, group| -> Result<Measure, Error> {
        Ok(Measure {
            quantity: quantity.into(),
            part: String::new(),
            unit: "bytes".into(),
            better: Better::Lower,
            samples: vec![accounts.memory_bytes(group)? as f64],
        })
    };
    Ok([measure(quantity::MEMORY_SERVER, Group::Server)?, measure(quantity::MEMORY_CLIENT, Group::Client)?])
}

/// A link of which only the wish is known: until a testbed says what is in force.
fn asked_for(link: &Link) -> LinkRecord {
    LinkRecord {
        about: link.about(),
        rtt_ms: link.rtt.as_secs_f64() * 1e3,
        jitter_ms: link.jitter.as_secs_f64() * 1e3,
        rate_bps: link.rate_bps,
        queue_bytes: link.queue_bytes,
        loss: link.loss,
        congestion: String::new(),
        emulator: String::new(),
    }
}

/// The ones that were named, in that order.
pub(crate) fn choose<T>(
    what: &str,
    all: Vec<T>,
    names: &[String],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<Vec<T>, Error> {
    let known: Vec<&str> = all.iter().map(&name_of).collect();
    for (i, name) in names.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            return Err(format!("there is no {what} {name}; there are {}", known.join(", ")).into());
        }
        if names[..i].contains(name) {
            return Err(format!("{what} {name} is named twice").into());
        }
    }
    let place = |item: &T| names.iter().position(|name| name == name_of(item));
    let mut chosen: Vec<T> = all.into_iter().filter(|item| place(item).is_some()).collect();
    chosen.sort_by_key(place);
    Ok(chosen)
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::SlowMotion => "slow motion",
        Form::Normal => "normal speed",
    }
}

pub(crate) fn label(trial: &Trial) -> String {
    format!("{} on {}, {}, {}", trial.peer, trial.link, trial.workload, form_name(trial.form))
}

pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// RFC 3339, UTC.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// What this runs on.
pub(crate) fn machine() -> Result<Machine, Error> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once([':', '=']).map(|(_, value)| value.trim().trim_matches('"').to_owned()).unwrap_or_default()
    };
    let kib: u64 = field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").trim().parse().unwrap_or(0);
    let kernel = ["/proc/sys/kernel/ostype", "/proc/sys/kernel/osrelease"].map(|path| read(path).trim().to_owned());
    let programs = [
        ("chromium", "--version"),
        ("firefox-esr", "--version"),
        ("mpv", "--version"),
        ("gimp", "--version"),
        ("soffice", "--version"),
        ("gedit", "--version"),
        ("xterm", "-version"),
    ];
    Ok(Machine {
        kernel: kernel.join(" "),
        system: field(&read("/etc/os-release"), "PRETTY_NAME"),
        processor: field(&read("/proc/cpuinfo"), "model name"),
        cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_bytes: kib * 1024,
        bench: bench_version(),
        accounting: String::new(),
        applications: programs
            .into_iter()
            .filter(|(program, _)| on_path(program))
            .filter_map(|(program, option)| Some((program.to_owned(), said_version(program, option)?)))
            .collect(),
    })
}

/// The first line that a program says of itself.
fn said_version(program: &str, option: &str) -> Option<String> {
    let output = std::process::Command::new(program).arg(option).stderr(std::process::Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()))?.trim().to_owned())
}

/// Of this program, with the commit of the tree that it is run in, where it is run in one.
fn bench_version() -> String {
    let commit = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| format!(" ({})", String::from_utf8_lossy(&output.stdout).trim()));
    format!("{}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
}

/// Prints the peers with their versions, or why they are missing.
pub fn list_peers() {
    for peer in peers::all() {
        let record = peer.record();
        let about = record.missing.map_or(record.version, |why| format!("missing: {why}"));
        println!("{:<20} {:<24} {about}", peer.name(), record.title);
    }
}

/// Prints the workloads.
pub fn list_workloads() {
    for workload in workloads::all() {
        println!("{:<12} {}", workload.name(), workload.about());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_in_their_own_order_and_unknown_ones_are_refused_with_the_known() {
        let all = || vec!["web", "type", "video"];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let choose = |wanted: &[&str]| choose("workload", all(), &names(wanted), |name| name);
        assert_eq!(choose(&["video", "web"]).unwrap(), ["video", "web"]);
        assert!(choose(&["vidio"]).unwrap_err().to_string().contains("web, type, video"));
        assert!(choose(&["web", "web"]).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn failed_trials_are_kept_unless_they_are_run_again() {
        let folder = crate::process::Folder::new("run-resume").unwrap();
        let output = folder.path().join("results.json");
        let options = |workload: &str| Options {
            peers: vec!["local".into()],
            links: vec!["lan".into()],
            workloads: vec![workload.into()],
            form: None,
            effort: Effort::Smoke,
            size: (1024, 768),
            congestion: None,
            output: output.clone(),
            pcap: None,
            made_by: None,
            again: false,
        };
        let plan = Plan::new(&options("type")).unwrap();
        let mut results = plan.begin(&options("type")).unwrap();
        for (form, outcome) in [
            (Form::SlowMotion, Outcome::Failed("it broke".into())),
            (Form::Normal, Outcome::Skipped("it cannot".into())),
        ] {
            let (peer, link, workload) = ("local".into(), "lan".into(), "type".into());
            let begun = results.begun.clone();
            results.trials.push(Trial { peer, link, workload, form, begun, seconds: 1.0, other_load: 0.0, outcome });
        }
        store::save(&output, &results, Shape::Whole).unwrap();
        let same = plan.begin(&options("type")).unwrap();
        assert_eq!(same.trials.len(), 1, "the failed one is run again");
        assert_eq!(plan.steps(&same).len(), 1);
        let other = Plan::new(&options("latency")).unwrap().begin(&options("latency")).unwrap();
        assert_eq!(other.trials.len(), 2, "nobody else's failure is forgotten");
    }

    #[test]
    fn a_size_is_two_numbers_within_limits() {
        assert_eq!(parse_size("1024x768"), Ok((1024, 768)));
        for wrong in ["1024", "1024x", "0x0", "99999x99999", "-1x5"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
