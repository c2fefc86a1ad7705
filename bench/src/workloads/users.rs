//! Several users at once, each with a session, a viewer and a screen of their own, all typing: the
//! echo and the server cost of one user as others join (Wong and Seltzer's question, for sessions
//! instead of hogs). Knows terminals and their number; never which peer shows them.

use std::time::{Duration, Instant};

use super::typing::{Echoes, Terminal, wait_for_echoes};
use super::{Effort, Workload};
use crate::Error;
use crate::observe::account::Group;
use crate::process::interrupted;
use crate::results::{Form, Measure, quantity};
use crate::stage::{Stage, cost_measures};

/// The workload.
pub struct Users;

/// 100 ms: each user types ten keys a second, a fast typist's rate; the users alternate within it.
const PERIOD: Duration = Duration::from_millis(100);
/// The key that is typed.
const KEY: &str = "x";

impl Workload for Users {
    fn name(&self) -> &str {
        "users"
    }

    fn about(&self) -> &'static str {
        "several sessions at once, a typist in each: echo, processor and memory of each user"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["xterm", "stty"]
    }

    fn seconds(&self, _form: Form, effort: Effort) -> f64 {
        let Plan { users, keys } = Plan::new(effort);
        let typed = users.len() as f64 * (3.0 + keys as f64 * PERIOD.as_secs_f64());
        // Four seconds to start a session, 2.5 to open a terminal in each.
        let most = users.last().map_or(0.0, |&most| most as f64);
        typed + most * 4.0 + users.iter().map(|&users| users as f64 * 2.5).sum::<f64>()
    }

    fn run(&self, stage: &mut Stage, _form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let Plan { users, keys } = Plan::new(effort);
        let mut others: Vec<Stage> = vec![];
        let mut measures = vec![];
        for &count in users {
            while others.len() + 1 < count {
                let next = others.len() + 2;
                others.push(
                    stage
                        .another()
                        .map_err(|error| format!("session {next} of {count}: {error}"))?,
                );
            }
            let stages: Vec<&Stage> = std::iter::once(&*stage).chain(&others).collect();
            measures.extend(type_together(&stages, keys)?);
        }
        Ok(measures)
    }
}

/// How many users, and how many keys each types.
struct Plan {
    users: &'static [usize],
    keys: usize,
}

impl Plan {
    fn new(effort: Effort) -> Plan {
        match effort {
            Effort::Smoke => Plan { users: &[1, 2], keys: 20 },
            Effort::Quick => Plan { users: &[1, 2, 4], keys: 60 },
            Effort::Full => Plan { users: &[1, 2, 4, 6, 8, 10], keys: 200 },
        }
    }
}

fn type_together(stages: &[&Stage], keys: usize) -> Result<Vec<Measure>, Error> {
    let (users, accounts) = (stages.len(), &stages[0].site.accounts);
    let terminals =
        stages.iter().map(|stage| Terminal::open(stage)).collect::<Result<Vec<_>, _>>()?;
    let watches = terminals
        .iter()
        .zip(stages)
        .map(|(terminal, stage)| terminal.watch(stage))
        .collect::<Result<Vec<_>, _>>()?;
    // The link and the accounts are shared: one meter counts what all sessions cost.
    let meter = stages[0].meter()?;
    let began = Instant::now();
    let mut pressed = vec![Vec::with_capacity(keys); users];
    for i in 0..keys {
        for (user, stage) in stages.iter().enumerate() {
            if interrupted() {
                return Err("interrupted".into());
            }
            let due = began + PERIOD * i as u32 + PERIOD * user as u32 / users as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            pressed[user].push(stage.input.key(KEY)?);
        }
    }
    // Before the pause in which nothing is typed.
    let spent = meter.read(stages[0])?;
    let memory = [accounts.memory_bytes(Group::Server)?, accounts.memory_bytes(Group::Client)?];
    let mut echoes = vec![];
    for (watch, (stage, pressed)) in watches.into_iter().zip(stages.iter().zip(&pressed)) {
        wait_for_echoes(stage, &watch, keys)?;
        echoes.push(Echoes::new(pressed, &watch.finish()?));
    }
    let part = if users == 1 { "1 user".to_owned() } else { format!("{users} users") };
    let lower = |name: &str, unit: &str, value: f64| Measure::lower(name, &part, unit, [value]);
    let lost = echoes.iter().map(|echoes| echoes.lost() as f64).sum();
    let latency: Vec<f64> = echoes.into_iter().flat_map(|echoes| echoes.latency_ms).collect();
    let each = |total: f64| total / users as f64;
    let mut measures = vec![
        // Of every user's every key.
        Measure::lower(quantity::PHOTON_MS, &part, "ms", latency),
        lower("lost_keys", "keys", lost),
        // Of the display system, for each user and second of typing.
        lower("cpu_user_ms", "ms", each(spent.cpu_server_ms / spent.seconds)),
        lower("memory_user", "bytes", each(memory[0] as f64)),
        lower("memory_viewer", "bytes", each(memory[1] as f64)),
    ];
    measures.extend(cost_measures(&part, &[spent]));
    Ok(measures)
}
