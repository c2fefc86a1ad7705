//! The VirtualGL study's tables, drawn again with this run's systems below its own. Beside
//! figure.rs, which redraws its figures; from view.rs to document.rs. Knows the numbers of four
//! sections of the study; never how anything was measured.

use super::document::{Block, Cell, Row, Table};
use super::view::{Peer, SUBJECT, View, Wanted};
use super::{papers, words};
use crate::results::{Form, quantity};
use crate::workloads::gl::{FREE_SPHERES, HELD, MOVING};

const PAPER: &str = "virtualgl";
const GL: &str = "3d-gl";
const USERS: &str = "3d-users";

/// A system, the section that has it, frame rate, CPU-limited frame rate and Mbit a frame: Linux to
/// Linux, on two processors of 2.4 GHz.
const SYSTEMS: [(&str, &str, &str, &str, &str); 10] = [
    ("VirtualGL 2.1 (VGL Image Transport, JPEG 1X Q95)", "§5.13, §5.19", "23.51", "56.10", "2.0"),
    ("VirtualGL 2.1 (VGL Image Transport, RGB)", "§5.11, §5.19", "32.51", "95.62", "25"),
    ("TurboVNC 0.4 (JPEG 1X Q95)", "§5.21", "28.44", "42.45", "2.16"),
    ("TurboVNC 0.4 (JPEG 2X Q80)", "§5.21", "36.42", "50.09", "1.00"),
    ("TurboVNC 0.4 (RGB)", "§5.21", "25.66", "64.62", "33.86"),
    ("RealVNC 4.1.2 (ZRLE 16M)", "§5.21", "8.15", "14.02", "4.74"),
    ("RealVNC 4.1.2 (Hextile 16M)", "§5.21", "12.58", "20.56", "16.24"),
    ("RealVNC 4.1.2 (Raw 16M)", "§5.21", "26.08", "41.40", "18.76"),
    ("NX 3.1.0 (JPEG 2X Q80, no SSL, no Zlib)", "§5.21", "9.13", "16.91", "0.88"),
    ("TightVNC 1.3.9 (JPEG 2X Q80)", "§5.21", "13.73", "23.27", "0.94"),
];

/// Rates of links in the columns after a frame's size, Mbit/s.
const RATES: [f64; 5] = [1000.0, 100.0, 10.0, 5.0, 1.0];
/// A codec, Mbit a frame, and the frame rates that these links would allow (§5.19).
const SIZES: [(&str, [&str; 6]); 8] = [
    ("VGL Image Transport (JPEG 1X Q95)", ["2.0", "500", "50", "5.0", "2.5", "0.50"]),
    ("VGL Image Transport (JPEG 2X Q80)", ["0.85", "1200", "120", "12", "6.0", "1.2"]),
    ("VGL Image Transport (JPEG 4X Q30)", ["0.43", "2300", "230", "23", "12", "2.3"]),
    ("VGL Image Transport (RGB)", ["25", "40", "4", "0.40", "0.20", "0.040"]),
    ("TurboVNC (JPEG 1X Q95)", ["2.2", "450", "45", "4.5", "2.3", "0.45"]),
    ("TurboVNC (JPEG 2X Q80)", ["1.0", "1000", "100", "10", "5.0", "1.0"]),
    ("TurboVNC (JPEG 4X Q30)", ["0.57", "1800", "180", "18", "8.8", "1.8"]),
    ("TurboVNC (RGB)", ["34", "29", "2.9", "0.29", "0.15", "0.029"]),
];

const ABOUT: &str = "The study’s rows are of 2008: GLXSpheres with a graphics card, from Linux to \
    Linux over a gigabit, on two processors. Rows of this run have a link beside the system’s \
    name; their scene is drawn by whatever renders on this machine, and its CPU counts, as in the \
    study, for the CPU-limited rate. So rows of one table are compared within the study and within \
    this run, and between both only in bytes.";

/// The tables for which this run measured something.
pub(super) fn tables(view: &View) -> Vec<Block> {
    let tables: Vec<Block> = [systems(view), sizes(view), interactive(view), users(view)]
        .into_iter()
        .flatten()
        .map(Block::Table)
        .collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let title = Block::H3("The study’s tables, drawn again".to_owned());
    [title, Block::P(ABOUT.to_owned())].into_iter().chain(tables).collect()
}

/// The median of a measure of a normal run.
fn median(
    view: &View,
    peer: Peer,
    link: &str,
    (workload, quantity, part): (&str, &str, &str),
) -> Option<f64> {
    let wanted = Wanted { workload, form: Form::Normal, quantity, part };
    view.cell(peer, link, &wanted).summary().map(|summary| summary.median)
}

/// A row for each peer on each link for which `cells` gives some.
fn own_rows(view: &View, cells: impl Fn(Peer, &str) -> Option<Vec<Cell>>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (link, _) in view.links() {
        for peer in view.present() {
            let Some(cells) = cells(peer, link) else { continue };
            let name = Cell::Value(format!("{}, {link}", peer.title()));
            let strong = peer.name == SUBJECT;
            rows.push(Row { strong, cells: std::iter::once(name).chain(cells).collect() });
        }
    }
    rows
}

/// A table with the study's rows before those of this run; nothing if this run has none.
fn table(title: &str, place: &str, head: &[&str], study: Vec<Row>, own: Vec<Row>) -> Option<Table> {
    if own.is_empty() {
        return None;
    }
    let source = papers::short(PAPER);
    Some(Table {
        label: title.to_owned(),
        caption: Some(format!("{title}, after {source}, {place}")),
        head: head.iter().map(|&word| word.to_owned()).collect(),
        rows: study.into_iter().chain(own).collect(),
        ..Table::default()
    })
}

fn quoted(cells: &[&str]) -> Row {
    let cells = cells.iter().map(|&text| Cell::Value(text.to_owned())).collect();
    Row { strong: false, cells }
}

fn of(value: Option<f64>, unit: &str) -> Cell {
    match value {
        Some(value) => Cell::Value(words::value(value, unit)),
        None => Cell::Empty("not measured".to_owned(), None),
    }
}

/// Mbit of a frame of so many bytes.
fn mbit(bytes: f64) -> f64 {
    bytes * 8.0 / 1e6
}

fn systems(view: &View) -> Option<Table> {
    let head = ["System", "Source", "Frame rate", "CPU-limited frame rate", "Mbit a frame"];
    let study = SYSTEMS
        .iter()
        .map(|(name, place, rate, limited, size)| quoted(&[name, place, rate, limited, size]))
        .collect();
    let own = own_rows(view, |peer, link| {
        let get = |name: &str| median(view, peer, link, (GL, name, FREE_SPHERES));
        let rate = get(quantity::FRAME_RATE)?;
        Some(vec![
            Cell::Value("this run".to_owned()),
            of(Some(rate), ""),
            of(get("cpu_limited_rate"), ""),
            of(get("frame_bytes").map(mbit), ""),
        ])
    });
    table("Systems", "§5.13 and §5.21", &head, study, own)
}

fn sizes(view: &View) -> Option<Table> {
    let head = ["Encoding", "Mbit a frame", "1 Gbit/s", "100 Mbit/s", "10", "5", "1 Mbit/s"];
    let study = SIZES.iter().map(|(name, cells)| quoted(&[&[*name], &cells[..]].concat()));
    let own = own_rows(view, |peer, link| {
        let size = mbit(median(view, peer, link, (GL, "frame_bytes", FREE_SPHERES))?);
        // Nothing crosses the link without remoting.
        let limits = (size > 0.0).then(|| RATES.map(|rate| of(Some(rate / size), "")))?;
        Some(std::iter::once(of(Some(size), "")).chain(limits).collect())
    });
    let title = "Frame size, and the frame rates that links would allow";
    table(title, "§5.19", &head, study.collect(), own)
}

fn interactive(view: &View) -> Option<Table> {
    let head = ["System", "Frame rate", "CPU-limited frame rate"];
    let study = [
        ["VirtualGL 2.1 (VGL Image Transport)", "no more than 5 % lower", "22 to 33 % lower"],
        ["TurboVNC 0.4", "no more than 7 % lower", "2 to 5 % lower"],
    ];
    let own = own_rows(view, |peer, link| {
        let change = |name: &str| {
            let of_part = |part: &str| median(view, peer, link, (GL, name, part));
            let (moving, held) = (of_part(MOVING)?, of_part(HELD)?);
            (held > 0.0).then(|| Cell::Value(changed(moving / held)))
        };
        let none = || Cell::Empty("not measured".to_owned(), None);
        let rate = change(quantity::FRAME_RATE)?;
        Some(vec![rate, change("cpu_limited_rate").unwrap_or_else(none)])
    });
    let title = "A frame for each motion, 60 a second, against as many by a clock";
    table(title, "§5.17", &head, study.iter().map(|row| quoted(row)).collect(), own)
}

/// A ratio in words: "5 % lower".
fn changed(ratio: f64) -> String {
    let by = words::value((ratio - 1.0).abs(), "share");
    format!("{by} {}", if ratio < 1.0 { "lower" } else { "higher" })
}

fn users(view: &View) -> Option<Table> {
    let head = ["System", "Users", "Frame rate of each", "Mbit/s of all", "Processors in use"];
    let study = vec![quoted(&["VirtualGL 2.1, two clients", "2", "23", "89", "100 %"])];
    let parts = view.parts(USERS, Form::Normal, quantity::FRAME_RATE);
    let own = parts.iter().flat_map(|&(part, ..)| {
        own_rows(view, |peer, link| {
            let get = |name: &str| median(view, peer, link, (USERS, name, part));
            let rate = get(quantity::FRAME_RATE)?;
            Some(vec![
                Cell::Value(part.trim_end_matches(" users").trim_end_matches(" user").to_owned()),
                of(Some(rate), ""),
                of(get("mbit_s"), ""),
                of(get("server_cpu_share"), "share"),
            ])
        })
    });
    table("Users at once", "§5.20", &head, study, own.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;
    use crate::results::{Measure, Outcome, Results};

    /// Results in which thinc alone has OpenGL's measures, on one link.
    fn results() -> Results {
        let mut results = synthetic::results(31);
        results.trials.retain(|trial| trial.peer == "thinc" && trial.link == "lan");
        results.trials.truncate(2);
        let of = |name: &str, part: &str, value: f64| Measure::lower(name, part, "", [value]);
        for (trial, workload) in results.trials.iter_mut().zip([GL, USERS]) {
            (trial.workload, trial.form) = (workload.to_owned(), Form::Normal);
            trial.outcome = Outcome::Measured(match workload {
                GL => vec![
                    of(quantity::FRAME_RATE, FREE_SPHERES, 41.0),
                    of("frame_bytes", FREE_SPHERES, 250_000.0),
                    of(quantity::FRAME_RATE, HELD, 50.0),
                    of(quantity::FRAME_RATE, MOVING, 45.0),
                    of("cpu_limited_rate", HELD, 100.0),
                    of("cpu_limited_rate", MOVING, 110.0),
                ],
                _ => vec![
                    of(quantity::FRAME_RATE, "2 users", 20.0),
                    of("server_cpu_share", "2 users", 0.95),
                ],
            });
        }
        results
    }

    /// The values of the last row.
    fn last(table: &Table) -> Vec<&str> {
        let row = table.rows.last().unwrap();
        row.cells
            .iter()
            .map(|cell| match cell {
                Cell::Value(text) | Cell::Empty(text, _) => text.as_str(),
                _ => "",
            })
            .collect()
    }

    #[test]
    fn this_runs_rows_follow_the_studys() {
        let results = results();
        let view = View::new(&results);
        let found = systems(&view).unwrap();
        assert_eq!(found.rows.len(), SYSTEMS.len() + 1);
        assert_eq!(last(&found), ["thinc, lan", "this run", "41.0", "not measured", "2"]);
        assert!(found.rows.last().unwrap().strong);
        let found = sizes(&view).unwrap();
        assert_eq!(last(&found), ["thinc, lan", "2", "500", "50.0", "5", "2.5", "0.5"]);
        let found = interactive(&view).unwrap();
        assert_eq!(last(&found), ["thinc, lan", "10 % lower", "10 % higher"]);
        let found = users(&view).unwrap();
        assert_eq!(last(&found), ["thinc, lan", "2", "20.0", "not measured", "95 %"]);
        for found in [systems, sizes, interactive, users].map(|table| table(&view).unwrap()) {
            assert!(found.rows.iter().all(|row| row.cells.len() == found.head.len()));
            assert!(found.caption.unwrap().contains("VirtualGL Project 2008, §5."));
        }
    }

    #[test]
    fn a_run_without_opengl_has_no_table_of_the_study() {
        let results = synthetic::results(32);
        assert!(tables(&View::new(&results)).is_empty());
    }

    #[test]
    fn the_studys_rates_are_those_of_its_frame_sizes() {
        for (name, cells) in SIZES {
            let [size, rates @ ..] = cells.map(|cell| cell.parse::<f64>().unwrap());
            for (rate, printed) in RATES.iter().zip(rates) {
                let ratio = rate / size / printed;
                assert!((0.95..1.05).contains(&ratio), "{name}: {printed} is not {rate}/{size}");
            }
        }
    }
}
