//! The runner, for `run`, `smoke` and every question: peers on links with workloads in their forms,
//! one trial at a time. The file of results is written after each trial, and an interrupted run
//! resumes from it. Knows the plan and the order; never how a peer starts or what a workload does.

use std::collections::BTreeMap;
use std::path::PathBuf;
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
use crate::report::words::form_name;
use crate::results::{
    Form, LinkRecord, Machine, Measure, Outcome, Results, SCHEMA, Trial, quantity,
};
use crate::stage::Stage;
use crate::workloads::{self, Effort, Skip, Workload};

/// What every run is told. The defaults of peers, links, size and output differ by subcommand and
/// are set in cli.rs.
#[derive(clap::Args, Clone)]
pub struct Options {
    /// The systems to measure; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// The links: presets, presets with changes as in `80211b:loss=10%`, or figures as in
    /// `rate=5mbit,rtt=40ms`; may be repeated. `thinc-bench net --help` lists the presets.
    #[arg(long, visible_alias = "link", value_name = "LINK,…")]
    pub(crate) links: Vec<String>,
    /// Only this form of each workload.
    #[arg(long)]
    pub(crate) form: Option<Form>,
    /// How much of each workload.
    #[arg(long, value_enum, default_value = "quick")]
    pub(crate) effort: Effort,
    /// Screen of every session, unless a workload has its own.
    #[arg(long, default_value = "1024x768", value_parser = parse_size)]
    pub(crate) size: (u32, u32),
    /// TCP congestion control in both namespaces: bbr, reno, or another that the kernel offers;
    /// without it cubic, which Linux has by default, or this system's own if a namespace may not
    /// use cubic. The results record what is in force.
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Where the results are written. Trials that the file holds already are not run again; failed
    /// ones are.
    #[arg(long, short)]
    pub(crate) output: Option<PathBuf>,
    /// Captures every trial at both ends of its link: FOLDER/TRIAL/{server,client}.pcap.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pcap: Option<PathBuf>,
    /// The command that the report names if this run is one step of another command.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) made_by: Option<String>,
    /// Starts over if the results exist.
    #[arg(long)]
    pub(crate) again: bool,
}

/// Options of `run`.
#[derive(clap::Args)]
pub struct RunOptions {
    #[command(flatten)]
    common: Options,
    /// The workloads; `thinc-bench workloads` lists them.
    #[arg(long, value_delimiter = ',', default_value = "web,latency,video,type")]
    workloads: Vec<String>,
}

/// WIDTHxHEIGHT of a session's screen.
pub(crate) fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    match parsed {
        // 320x200: the smallest on which the workloads' windows mean anything; 8192: what an Xvfb
        // file can hold twice.
        Some((width @ 320..=8192, height @ 200..=8192)) => Ok((width, height)),
        Some(_) => Err(format!("{text}: a screen is from 320x200 to 8192x8192")),
        None => Err(format!("{text}: not WIDTHxHEIGHT")),
    }
}

/// Links as options name them. A comma separates links, and also the changes of one link; a change
/// has a `=`.
fn parse_links(texts: &[String]) -> Result<Vec<Link>, Error> {
    let mut names: Vec<String> = Vec::new();
    for text in texts {
        for (index, word) in text.split(',').enumerate() {
            let begins = index == 0 || !word.split(':').next().unwrap_or_default().contains('=');
            match names.last_mut() {
                Some(last) if !begins => *last = format!("{last},{word}"),
                _ => names.push(word.to_owned()),
            }
        }
    }
    names.iter().map(|name| name.parse()).collect()
}

/// Runs the workloads that were named.
pub fn run(options: &RunOptions) -> Result<(), Error> {
    net::as_user_namespace()?;
    let named =
        choose("workload", workloads::all(), &options.workloads, |workload| workload.name())?;
    let results = Plan::new(&options.common, named)?.carry_out()?;
    let failed = failures(&results);
    println!("{} trials", results.trials.len());
    for line in &failed {
        println!("  failed: {line}");
    }
    if let Some(output) = &options.common.output {
        println!("The results are in {0}: thinc-bench report {0}", output.display());
    }
    Ok(())
}

/// One line for each trial that failed.
pub(crate) fn failures(results: &Results) -> Vec<String> {
    let line = |trial: &Trial| match &trial.outcome {
        Outcome::Failed(why) => Some(format!("{}: {}", label(trial), first_line(why))),
        _ => None,
    };
    results.trials.iter().filter_map(line).collect()
}

/// What a run consists of.
pub(crate) struct Plan {
    pub(crate) links: Vec<Link>,
    peers: Vec<Box<dyn Peer>>,
    pub(crate) workloads: Vec<(Box<dyn Workload>, Vec<Form>)>,
    options: Options,
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
    pub(crate) fn new(options: &Options, workloads: Vec<Box<dyn Workload>>) -> Result<Plan, Error> {
        let links = parse_links(&options.links)?;
        let peers = choose("peer", peers::all(), &options.peers, |peer| peer.name())?;
        let with_forms = |workload: Box<dyn Workload>| {
            let forms = workload.forms().iter().copied();
            let chosen = forms.filter(|form| options.form.is_none_or(|only| only == *form));
            let chosen = chosen.collect();
            (workload, chosen)
        };
        let workloads = workloads.into_iter().map(with_forms).collect();
        Ok(Plan { links, peers, workloads, options: options.clone() })
    }

    /// The results as they are before the first trial, or as an earlier run left them.
    fn begin(&self) -> Result<Results, Error> {
        let options = &self.options;
        let mut results = Results {
            schema: SCHEMA,
            command: match &options.made_by {
                Some(command) => command.split_whitespace().map(String::from).collect(),
                None => std::iter::once("thinc-bench".to_owned())
                    .chain(std::env::args().skip(1))
                    .collect(),
            },
            begun: now(),
            machine: machine()?,
            screen: options.size,
            effort: options.effort,
            links: BTreeMap::new(),
            peers: BTreeMap::new(),
            trials: Vec::new(),
        };
        if let Some(output) = options.output.as_ref().filter(|o| o.exists() && !options.again) {
            let earlier = store::load(output)?;
            if (earlier.screen, earlier.effort) != (options.size, options.effort) {
                return Err(format!(
                    "{} holds a run of another size or effort: name another file, or pass --again",
                    output.display()
                )
                .into());
            }
            let again =
                |trial: &Trial| matches!(trial.outcome, Outcome::Failed(_)) && self.holds(trial);
            results.trials = earlier.trials.into_iter().filter(|trial| !again(trial)).collect();
            results.links = earlier.links;
            results.peers = earlier.peers;
            results.begun = earlier.begun;
        }
        for link in &self.links {
            results.links.entry(link.name.clone()).or_insert_with(|| requested(link));
        }
        for peer in &self.peers {
            results.peers.insert(peer.name().into(), peer.record());
        }
        Ok(results)
    }

    /// Whether this plan would run such a trial.
    fn holds(&self, trial: &Trial) -> bool {
        let workload =
            self.workloads.iter().find(|(workload, _)| workload.name() == trial.workload);
        self.links.iter().any(|link| link.name == trial.link)
            && self.peers.iter().any(|peer| peer.name() == trial.peer)
            && workload.is_some_and(|(_, forms)| forms.contains(&trial.form))
    }

    /// Every trial that `results` does not hold. All peers run next to each other, so that other
    /// load of the machine meets all of them alike.
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

    /// Runs every trial that is not done yet.
    pub(crate) fn carry_out(&self) -> Result<Results, Error> {
        let mut results = self.begin()?;
        for (name, record) in &results.peers {
            if let Some(why) = &record.missing {
                eprintln!("{name} is left out: {why}");
            }
        }
        // An output that cannot be written fails before an hour of trials, not after.
        self.save(&results)?;
        let steps = self.steps(&results);
        let labels: Vec<(String, f64)> = steps.iter().map(|step| self.describe(step)).collect();
        let mut progress = Progress::new(&labels);
        for (index, step) in steps.iter().enumerate() {
            progress.begin(index);
            let (trial, link) = self.try_step(step);
            if interrupted() {
                return Err(match &self.options.output {
                    Some(output) => {
                        let file = output.display();
                        format!("interrupted; the same command resumes from {file}").into()
                    }
                    None => "interrupted".into(),
                });
            }
            progress.end(index, &trial.outcome);
            if let Some(record) = link {
                let before = results.links.get(&trial.link).map(LinkRecord::tcp_about);
                if before.as_deref() != Some(&record.tcp_about()) {
                    println!(
                        "{}: TCP {} (read back from both ends)",
                        trial.link,
                        record.tcp_about()
                    );
                }
                results.links.insert(trial.link.clone(), record);
            }
            if results.machine.accounting.is_empty() {
                let accounts = Accounts::new("kind");
                results.machine.accounting =
                    accounts.map_or_else(|_| String::new(), |accounts| accounts.kind().into());
            }
            results.trials.push(trial);
            self.save(&results)?;
        }
        Ok(results)
    }

    pub(crate) fn save(&self, results: &Results) -> Result<(), Error> {
        match &self.options.output {
            Some(output) => store::save(output, results, Shape::Whole),
            None => Ok(()),
        }
    }

    fn describe(&self, step: &Step) -> (String, f64) {
        let (workload, peer) = (&self.workloads[step.workload].0, &self.peers[step.peer]);
        // Eight seconds: server, viewer and window manager of a peer are started and ended.
        let seconds = workload.seconds(step.form, self.options.effort) + 8.0;
        let (link, form) = (&self.links[step.link].name, form_name(step.form));
        (format!("{link} {} {} {form}", peer.name(), workload.name()), seconds)
    }

    /// One trial in new namespaces.
    fn try_step(&self, step: &Step) -> (Trial, Option<LinkRecord>) {
        let (link, peer) = (&self.links[step.link], &self.peers[step.peer]);
        let workload = &self.workloads[step.workload].0;
        let (begun, start) = (now(), Instant::now());
        let mut link_record = None;
        let mut other_load = 0.0;
        let needed = workload.needs().iter().copied();
        let missing: Vec<&str> = needed.filter(|program| !on_path(program)).collect();
        let mut attempt = || -> Result<Vec<Measure>, Error> {
            if !missing.is_empty() {
                let missing = missing.join(", ");
                return Err(Skip(format!("{} needs {missing}", workload.name())).into());
            }
            if workload.listens() {
                peer.sound().map_err(Skip)?;
            }
            let accounts = Arc::new(Accounts::new(peer.name())?);
            let bed = Arc::new(Testbed::start(link, self.options.congestion.as_deref())?);
            link_record = Some(bed.record());
            if let Some(folder) = &self.options.pcap {
                bed.start_capture(&folder.join(self.describe(step).0.replace([' ', '/'], "-")))?;
            }
            let load = accounts.mark();
            let size = workload.screen().unwrap_or(self.options.size);
            let start = if workload.listens() { Stage::start_hearing } else { Stage::start };
            let mut stage = start(peer.as_ref(), &bed, &accounts, size)?;
            let found = workload.run(&mut stage, step.form, self.options.effort);
            other_load = accounts.other_load(&load);
            let mut found = found?;
            for (name, group) in
                [(quantity::MEMORY_SERVER, Group::Server), (quantity::MEMORY_CLIENT, Group::Client)]
            {
                let bytes = accounts.memory_bytes(group)? as f64;
                found.push(Measure::lower(name, "", "bytes", [bytes]));
            }
            found.extend(workload.finish(stage));
            Ok(found)
        };
        let outcome = match attempt() {
            Ok(measures) if measures.iter().all(|measure| measure.samples.is_empty()) => {
                Outcome::Failed("it measured nothing".into())
            }
            Ok(measures) => Outcome::Measured(measures),
            Err(error) => match error.downcast::<Skip>() {
                Ok(skip) => Outcome::Skipped(skip.0),
                Err(error) => Outcome::Failed(error.to_string()),
            },
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

/// A link as it was requested, until a testbed says what is in force.
fn requested(link: &Link) -> LinkRecord {
    LinkRecord {
        about: link.about(),
        rtt_ms: link.rtt.as_secs_f64() * 1e3,
        jitter_ms: link.jitter.as_secs_f64() * 1e3,
        rate_bps: link.rate_bps,
        queue_bytes: link.queue_bytes,
        loss: link.loss,
        congestion: String::new(),
        slow_start_after_idle: None,
        emulator: String::new(),
    }
}

/// The items that were named, in the order of the names.
pub(crate) fn choose<T>(
    what: &str,
    all: Vec<T>,
    names: &[String],
    name_of: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Error> {
    let known: Vec<String> = all.iter().map(|item| name_of(item).to_owned()).collect();
    for (i, name) in names.iter().enumerate() {
        if !known.contains(name) {
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
        line.split_once([':', '='])
            .map(|(_, value)| value.trim().trim_matches('"').to_owned())
            .unwrap_or_default()
    };
    let kib: u64 = field(&read("/proc/meminfo"), "MemTotal")
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap_or(0);
    let kernel = ["/proc/sys/kernel/ostype", "/proc/sys/kernel/osrelease"]
        .map(|path| read(path).trim().to_owned());
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
            .filter_map(|(program, option)| {
                Some((program.to_owned(), said_version(program, option)?))
            })
            .collect(),
    })
}

/// The version that a program prints.
fn said_version(program: &str, option: &str) -> Option<String> {
    let output = std::process::Command::new(program)
        .arg(option)
        .stderr(std::process::Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()))?.trim().to_owned())
}

/// The version of this program, with the commit of the tree in which it runs, if it runs in one.
fn bench_version() -> String {
    let commit =
        std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit =
        commit.map(|output| format!(" ({})", String::from_utf8_lossy(&output.stdout).trim()));
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
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let choose = |wanted: &[&str]| choose("workload", all(), &names(wanted), |name| name);
        assert_eq!(choose(&["video", "web"]).unwrap(), ["video", "web"]);
        assert!(choose(&["vidio"]).unwrap_err().to_string().contains("web, type, video"));
        assert!(choose(&["web", "web"]).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn links_are_told_from_their_changes() {
        let names = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            parse_links(&texts).unwrap().into_iter().map(|link| link.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["lan,80211b:loss=10%,wan"]), ["lan", "80211b:loss=10%", "wan"]);
        assert_eq!(
            names(&["rate=5mbit,rtt=40ms", "wan,loss=1%,lan"]),
            ["rate=5mbit,rtt=40ms", "wan,loss=1%", "lan"]
        );
        assert!(parse_links(&["lam".to_owned()]).is_err());
    }

    #[test]
    fn failed_trials_are_kept_unless_they_are_run_again() {
        let folder = crate::process::Folder::new("run-resume").unwrap();
        let output = folder.path().join("results.json");
        let plan = |workload: &str| {
            let options = Options {
                peers: vec!["local".into()],
                links: vec!["lan".into()],
                form: None,
                effort: Effort::Smoke,
                size: (1024, 768),
                congestion: None,
                output: Some(output.clone()),
                pcap: None,
                made_by: None,
                again: false,
            };
            let named = choose("workload", workloads::all(), &[workload.to_owned()], |w| w.name());
            Plan::new(&options, named.unwrap()).unwrap()
        };
        let mut results = plan("type").begin().unwrap();
        for (form, outcome) in [
            (Form::SlowMotion, Outcome::Failed("it broke".into())),
            (Form::Normal, Outcome::Skipped("it cannot".into())),
        ] {
            let (peer, link, workload) = ("local".into(), "lan".into(), "type".into());
            let begun = results.begun.clone();
            results.trials.push(Trial {
                peer,
                link,
                workload,
                form,
                begun,
                seconds: 1.0,
                other_load: 0.0,
                outcome,
            });
        }
        store::save(&output, &results, Shape::Whole).unwrap();
        let same = plan("type").begin().unwrap();
        assert_eq!(same.trials.len(), 1, "the failed one is run again");
        assert_eq!(plan("type").steps(&same).len(), 1);
        assert_eq!(plan("latency").begin().unwrap().trials.len(), 2, "no other failure is dropped");
    }

    #[test]
    fn a_size_is_two_numbers_within_limits() {
        assert_eq!(parse_size("1024x768"), Ok((1024, 768)));
        for wrong in ["1024", "1024x", "0x0", "99999x99999", "-1x5"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
