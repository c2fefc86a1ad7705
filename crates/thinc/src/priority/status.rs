//! What `thinc top` shows of one session. From priority.rs, over the control socket, to top.rs.
//! Knows words and numbers; decides nothing.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use thinc_priority::{Group, Move, Placed, Plan};

use super::prefetch::BroughtBack;
use super::processes::waited_ns;
use crate::port::now_s;

/// Processes that are listed, those that answer first, then those that use most.
const PROCESSES_SHOWN: usize = 40;
/// Longest name of a process: the kernel's 15 bytes.
const NAME_CHARS_MAX: usize = 15;

/// Where a session's processes are, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PriorityStatus {
    /// Not `--priority off`.
    pub(crate) is_on: bool,
    /// By which means processes are moved, in words.
    pub(crate) how: String,
    /// Somebody types, clicks, or has just opened the session.
    pub(crate) is_present: bool,
    /// All of the session is behind others, as nobody is there.
    pub(crate) is_behind: bool,
    /// The process whose window they type into.
    pub(crate) typed: Option<u32>,
    pub(crate) processes: Vec<Shown>,
    /// Whether memory is protected, or why not, in words; `None` where nothing can.
    pub(crate) memory: Option<String>,
    /// Whether what passes input on is real-time, or why not, in words; `None` while nobody is
    /// there, and where nothing can be.
    pub(crate) real_time: Option<String>,
    /// From swap, when they last came back and something was there.
    pub(crate) brought_back: Option<BroughtBack>,
    /// The newest last.
    pub(crate) moved: Vec<Moved>,
}

/// A process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) group: String,
    /// Of one processor, over the last seconds.
    pub(crate) percent: u32,
    /// Milliseconds for which it was ready to run, and did not, in each second; for processes that
    /// answer.
    pub(crate) waited_ms: Option<f64>,
    pub(crate) reason: String,
}

/// A process that was moved, or that the kernel has refused to move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// Seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) to: String,
    pub(crate) reason: String,
    /// Why it was not moved.
    pub(crate) error: Option<String>,
}

impl Moved {
    pub(super) fn new(one: Move, error: Option<String>) -> Moved {
        Moved {
            at_s: now_s(),
            pid: one.pid,
            name: short(&one.name),
            to: word(one.to).to_owned(),
            reason: one.reason.to_string(),
            error: error.map(|error| error.chars().take(200).collect()),
        }
    }
}

/// Names are the programs' own: what a terminal would obey is left out.
fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

fn word(group: Group) -> &'static str {
    match group {
        Group::Answers => "answers",
        Group::Rest => "rest",
        Group::Computes => "computes",
    }
}

/// How long the processes that answer have waited for a processor, by process ID.
#[derive(Default)]
pub(super) struct Waits {
    at: Option<std::time::Instant>,
    total_ns: HashMap<u32, u64>,
    ms_per_s: HashMap<u32, f64>,
}

impl Waits {
    pub(super) fn measure(&mut self, answering: impl Iterator<Item = Placed>) {
        let now = std::time::Instant::now();
        let seconds = self.at.map(|at| now.duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.ms_per_s.clear();
        let before = std::mem::take(&mut self.total_ns);
        for Placed { pid, .. } in answering {
            let Some(total) = waited_ns(pid) else { continue };
            self.total_ns.insert(pid, total);
            if let (Some(seconds), Some(then)) = (seconds.filter(|&s| s > 0.0), before.get(&pid)) {
                let ms = total.saturating_sub(*then) as f64 / 1e6;
                self.ms_per_s.insert(pid, ms / seconds);
            }
        }
    }
}

pub(super) fn processes(plan: &Plan, waits: &Waits) -> Vec<Shown> {
    let mut placed: Vec<Placed> = plan.placed().collect();
    placed
        .sort_by_key(|one| (one.group != Group::Answers, std::cmp::Reverse(one.percent), one.pid));
    placed.truncate(PROCESSES_SHOWN);
    placed
        .iter()
        .map(|one| Shown {
            pid: one.pid,
            name: short(&one.name),
            group: word(one.group).to_owned(),
            percent: one.percent,
            waited_ms: waits.ms_per_s.get(&one.pid).copied(),
            reason: match one.refused {
                true => format!("{}; it was not moved there", one.reason),
                false => one.reason.to_string(),
            },
        })
        .collect()
}
