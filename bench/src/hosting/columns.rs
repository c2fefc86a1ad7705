//! One column for each server: the options that questions about many people share, the servers
//! measured one after the other, the table, and the file that `report` draws. Knows names, measures
//! and files; never how anything is measured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use super::servers::{Host, Subject};
use crate::Error;
use crate::net::testbed::Testbed;
use crate::peers::Peer as _;
use crate::questions::print_table;
use crate::report::store;
use crate::results::{Form, Measure, Outcome, PeerRecord, Results, SCHEMA, Trial};
use crate::run::{machine, now};
use crate::workloads::Effort;
use crate::workloads::processors::Division;

/// Options of every question that compares servers.
#[derive(clap::Args)]
pub(super) struct Common {
    /// Servers: thinc, thinc-real-time (real-time = true), thinc-off (priority = false), xrdp,
    /// tigervnc.
    #[arg(long, value_delimiter = ',', default_value = "thinc,thinc-off,xrdp,tigervnc")]
    servers: Vec<String>,
    /// Also writes the measures to a file, which `thinc-bench report` draws.
    #[arg(long, short, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Little of everything: whether it works, in a minute or two; the numbers mean nothing.
    #[arg(long)]
    pub(super) smoke: bool,
}

impl Common {
    /// The servers of these options.
    pub(super) fn subjects(&self) -> Result<Vec<Subject>, Error> {
        Subject::named(&self.servers)
    }
}

/// What was measured of one server.
pub(super) struct Column {
    name: String,
    record: PeerRecord,
    begun: String,
    seconds: f64,
    measures: Vec<Measure>,
}

/// Measures one server after the other, each from a thread of its own, since processors are given
/// to threads; servers that are not installed are left out.
pub(super) fn of_each(
    subjects: Vec<Subject>,
    people: u32,
    measure: impl Fn(&Host) -> Result<Vec<Measure>, Error> + Sync,
) -> Result<Vec<Column>, Error> {
    let mut columns = Vec::new();
    for subject in subjects {
        let memory = OnceLock::new();
        let host = Host { subject, people, division: Division::find()?, memory };
        let (name, record) = (host.subject.name.clone(), host.record());
        if let Some(why) = record.missing {
            eprintln!("{name} is left out: {why}");
            continue;
        }
        let (begun, start) = (now(), Instant::now());
        let measures = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| measure(&host));
            measuring.join().unwrap_or_else(|_| Err("the thread that measures panicked".into()))
        });
        let measures = measures.map_err(|error| format!("{name}: {error}"))?;
        columns.push(Column {
            name,
            record,
            begun,
            seconds: start.elapsed().as_secs_f64(),
            measures,
        });
    }
    if columns.is_empty() {
        return Err("no server was measured: install one, or name another with --servers".into());
    }
    Ok(columns)
}

/// Prints the table under a title, and writes the file if one was named. `workload` is the name
/// under which the report knows the measures.
pub(super) fn finish(
    common: &Common,
    workload: &str,
    title: &str,
    bed: &Testbed,
    columns: Vec<Column>,
) -> Result<(), Error> {
    println!("hosting: {title}; {}; TCP {}", bed.link().about(), bed.tcp_about());
    let table: Vec<(String, Vec<Measure>)> =
        columns.iter().map(|column| (column.name.clone(), column.measures.clone())).collect();
    print_table(&table);
    let Some(path) = &common.output else { return Ok(()) };
    let link = bed.link().name;
    let mut results = Results {
        schema: SCHEMA,
        command: std::env::args().collect(),
        begun: columns.first().map(|column| column.begun.clone()).unwrap_or_default(),
        machine: machine()?,
        screen: super::SIZE,
        effort: if common.smoke { Effort::Smoke } else { Effort::Quick },
        links: BTreeMap::from([(link.clone(), bed.record())]),
        peers: BTreeMap::new(),
        trials: Vec::new(),
    };
    results.machine.accounting = "/proc".to_owned();
    for Column { name, record, begun, seconds, measures } in columns {
        results.peers.insert(name.clone(), record);
        results.trials.push(Trial {
            peer: name,
            link: link.clone(),
            workload: workload.to_owned(),
            form: Form::Normal,
            begun,
            seconds,
            // The server is alone on its processors where there are two or more.
            other_load: 0.0,
            outcome: Outcome::Measured(measures),
        });
    }
    store::save(path, &results, store::Shape::Whole)?;
    println!("{}", path.display());
    Ok(())
}
