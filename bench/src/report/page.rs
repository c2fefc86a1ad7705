//! The page: words first, then figures, then how it was measured. From results through summary.rs
//! and figure.rs to a document, which template.html draws in a browser: one file that fetches
//! nothing. Knows the order of the page; never how a figure or a verdict comes about.

use super::document::{Block, Cell, Document, Item, Row, Section, Side, Table};
use super::progress::spoken;
use super::summary::{Matter, Standing, Verdict, verdicts};
use super::view::{self, Peer, SUBJECT, View, Wanted, first_of_each};
use super::{figure, papers, study, words};
use crate::results::{Form, Outcome, Results, Trial, quantity};
use crate::stats::{SPREAD_IN_WORDS, Summary};

/// Above this share of the machine, other processes are said to have disturbed a trial.
const OTHER_LOAD_MAX: f64 = 0.15;
/// Sentences of one list that are shown at first, for wins and losses alike.
const SENTENCES: usize = 8;
/// In place of figures where there are none.
const NOTHING: &str = "Nothing of this was measured in this run; the reasons stand under “What \
    was not measured”.";
const JUDGED: &str = "Each figure is compared with that of the best other system measured here, \
    whichever that is; no remoting at all (the same program on a local screen) is the reference \
    that nothing can beat. Level means that the medians differ by no more than 3 %, or that chance \
    can explain it (the 98 % interval of their ratio holds one); with fewer than five samples, \
    that they differ by less than 15 % or overlap. Ratios are ours over theirs. A system that has \
    no process on the server (plain X) is left out where the server’s CPU and memory are compared.";
const ONE_MACHINE: &str = "Server, client and link are on this one machine: two network \
    namespaces, joined by the emulator. Applications, server and viewer share its processors, \
    which costs every system something and those that compute most the most.";
const QUOTED: &str = "On other machines, links and contents: a scale to read the figures by, no \
    contest. Only numbers that stand in the papers’ text.";

/// What people call a workload.
fn workload_title(name: &str) -> &str {
    match name {
        "web" => "Web pages",
        "scroll" => "Scrolling a page",
        "latency" => "Five operations",
        "video" => "Video",
        "edit" => "Drawing in GIMP",
        "type" => "Typing under load",
        "animation" => "Animations",
        "dropout" => "A link that is cut",
        "3d" => "3D",
        "3d-gl" => "OpenGL",
        "3d-users" => "OpenGL, many users",
        "3d-programs" => "OpenGL and Vulkan programs",
        "users" => "Many users",
        other => other,
    }
}

/// The page as HTML.
pub(super) fn html(results: &Results) -> Result<String, serde_json::Error> {
    let report = serde_json::to_string(&document(results))?;
    // The only thing that ends a script element early.
    let report = report.replace("</", "<\\/");
    let template = include_str!("template.html");
    Ok(template.replace("/*STYLE*/", include_str!("style.css")).replace("/*REPORT*/", &report))
}

fn p(text: &str) -> Block {
    Block::P(text.to_owned())
}

fn h3(text: &str) -> Block {
    Block::H3(text.to_owned())
}

fn or_nothing(blocks: Vec<Block>) -> Vec<Block> {
    if blocks.is_empty() { vec![p(NOTHING)] } else { blocks }
}

fn document(results: &Results) -> Document {
    let view = View::new(results);
    let section = |id: &str, short: &str, title: &str, blocks: Vec<Block>| Section {
        id: id.to_owned(),
        short: short.to_owned(),
        title: title.to_owned(),
        blocks,
    };
    let title = "Where thinc wins and where it loses";
    let mut sections = vec![
        section("summary", "Summary", title, summary(&view)),
        section("missing", "Not measured", "What was not measured, and why", missing(&view)),
    ];
    let mut number = 0;
    for workload in view.workloads() {
        let mut blocks = or_nothing(figure::of_workload(&view, workload, &mut number));
        if workload == "3d-gl" {
            blocks.extend(study::tables(&view));
        }
        blocks.extend(quotations(workload));
        let title = workload_title(workload);
        sections.push(section(&format!("w-{workload}"), title, title, blocks));
    }
    let fidelity = [quantity::EXACT_SHARE, quantity::EXACT_MS].as_slice();
    let cost = [
        quantity::CPU_SERVER_MS,
        quantity::CPU_CLIENT_MS,
        quantity::MEMORY_SERVER,
        quantity::MEMORY_CLIENT,
    ];
    for (id, title, quantities) in
        [("fidelity", "Fidelity", fidelity), ("cost", "CPU and memory", &cost)]
    {
        let mut blocks = Vec::new();
        for workload in view.workloads() {
            let of_it = figure::of_any(&view, workload, &mut number, quantities);
            if !of_it.is_empty() {
                blocks.push(h3(workload_title(workload)));
                blocks.extend(of_it);
            }
        }
        sections.push(section(id, title, title, or_nothing(blocks)));
    }
    sections.push(section("rest", "All else", "All else that was measured", rest(&view)));
    let title = "How it was measured";
    sections.push(section("setup", title, title, setup(&view)));
    Document {
        title: format!("thinc-bench: {}", day(&results.begun)),
        heading: "Remote display systems, measured from outside",
        lead: lead(&view),
        sections,
        footer: "Made by thinc-bench report from the JSON of the run, which holds every sample. \
                 This page fetches nothing.",
    }
}

fn day(begun: &str) -> &str {
    begun.split('T').next().unwrap_or(begun)
}

fn lead(view: &View) -> String {
    let results = view.results;
    let measured =
        results.trials.iter().filter(|t| matches!(t.outcome, Outcome::Measured(_))).count();
    let seconds: f64 = results.trials.iter().map(|t| t.seconds).sum();
    format!(
        "thinc-bench, {}: {} on {} with {}; {} measured, {} of measuring. {}, {}, {}. Screen {} × \
         {}.",
        day(&results.begun),
        words::count(view.present().count(), "system"),
        words::count(results.links.len(), "link"),
        words::count(view.workloads().len(), "workload"),
        words::count(measured, "trial"),
        spoken(seconds),
        results.machine.processor,
        words::count(results.machine.cores as usize, "processor"),
        results.machine.kernel,
        results.screen.0,
        results.screen.1,
    )
}

fn summary(view: &View) -> Vec<Block> {
    let mut blocks = Vec::new();
    let ours: Vec<Peer> = view.present().filter(Peer::is_ours).collect();
    if ours.is_empty() {
        blocks.push(p("thinc was not measured in this run, and nothing is said of it."));
    }
    let mut explained = false;
    for subject in ours {
        let all = verdicts(view, subject);
        let title = subject.title();
        if all.is_empty() {
            blocks.push(Block::P(format!("{title} gave no figure in this run: why stands below.")));
            continue;
        }
        if !std::mem::replace(&mut explained, true) {
            blocks.push(p(JUDGED));
        }
        blocks.push(h3(title));
        blocks.push(glance(view, subject, &all));
        for link in first_of_each(all.iter().map(|v| v.link)) {
            let here: Vec<&Verdict> = all.iter().filter(|v| v.link == link).collect();
            let count = |standing| here.iter().filter(|v| v.standing == Some(standing)).count();
            let about = view.results.links.get(link);
            let about = about.map_or(String::new(), |l| format!(" ({})", l.about));
            blocks.push(Block::H3(format!("{title} on {link}{about}")));
            blocks.push(Block::P(format!(
                "Ahead in {}, level in {}, behind in {} of {}.",
                count(Standing::Ahead),
                count(Standing::Level),
                count(Standing::Behind),
                words::count(here.iter().filter(|v| v.standing.is_some()).count(), "comparison"),
            )));
            for matter in Matter::ALL {
                let of_it: Vec<&Verdict> =
                    here.iter().copied().filter(|v| v.matter() == matter).collect();
                if !of_it.is_empty() {
                    blocks.push(Block::H4(matter.title().to_owned()));
                    blocks.push(Block::Sides(vec![
                        side(&of_it, Standing::Ahead, "ahead", "Wins"),
                        side(&of_it, Standing::Behind, "behind", "Loses"),
                    ]));
                }
            }
            let is_level = |v: &&&Verdict| v.standing.is_none_or(|s| s == Standing::Level);
            let level: Vec<Item> = here.iter().filter(is_level).map(|v| sentence(v)).collect();
            if !level.is_empty() {
                let title = format!("Level, or without anybody to compare with ({})", level.len());
                blocks.push(Block::Details(title, vec![Block::List(level)]));
            }
        }
    }
    blocks
}

/// Counts by workload and link: the overview before the sentences.
fn glance(view: &View, subject: Peer, all: &[Verdict]) -> Block {
    let links = first_of_each(all.iter().map(|v| v.link));
    let title = subject.title();
    let cell = |workload: &str, link: &str| {
        let of_cell = all.iter().filter(|v| v.wanted.workload == workload && v.link == link);
        let counts = [Standing::Ahead, Standing::Level, Standing::Behind]
            .map(|standing| of_cell.clone().filter(|v| v.standing == Some(standing)).count());
        if counts == [0; 3] {
            Cell::Empty(why_nothing(view, subject, link, workload), None)
        } else {
            Cell::Standing(counts)
        }
    };
    let row = |workload: &str| {
        let name = Cell::Value(workload_title(workload).to_owned());
        let cells = links.iter().map(|link| cell(workload, link));
        Row { strong: false, cells: std::iter::once(name).chain(cells).collect() }
    };
    Block::Table(Table {
        label: format!("{title} at a glance"),
        caption: Some(format!(
            "{title} against the best other system: comparisons ahead, level and behind"
        )),
        head: std::iter::once("Workload").chain(links.iter().copied()).map(Into::into).collect(),
        rows: view.workloads().into_iter().map(row).collect(),
        notes: Vec::new(),
    })
}

fn why_nothing(view: &View, subject: Peer, link: &str, workload: &str) -> String {
    let trials = [Form::SlowMotion, Form::Normal]
        .into_iter()
        .filter_map(|form| view.trial(subject.name, link, workload, form));
    let mut words: Vec<&str> = trials
        .map(|trial| match trial.outcome {
            Outcome::Failed(_) => "failed",
            Outcome::Skipped(_) => "skipped",
            Outcome::Measured(_) => "nobody to compare with",
        })
        .collect();
    words.dedup();
    if words.is_empty() { "not tried".to_owned() } else { words.join(", ") }
}

fn side(here: &[&Verdict], standing: Standing, class: &'static str, title: &str) -> Side {
    let mut list: Vec<&Verdict> =
        here.iter().copied().filter(|v| v.standing == Some(standing)).collect();
    // The largest first, on both sides.
    let size =
        |v: &Verdict| if standing == Standing::Behind { v.worse_by } else { 1.0 / v.worse_by };
    list.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let mut items: Vec<Item> = list.iter().map(|verdict| sentence(verdict)).collect();
    let smaller = items.split_off(items.len().min(SENTENCES));
    let mut blocks = match items.is_empty() {
        true => vec![p("Nowhere.")],
        false => vec![Block::List(items)],
    };
    if !smaller.is_empty() {
        let title = format!("{} more, smaller", smaller.len());
        blocks.push(Block::Details(title, vec![Block::List(smaller)]));
    }
    Side { class, title: format!("{title} ({})", list.len()), blocks }
}

fn sentence(verdict: &Verdict) -> Item {
    Item { name: verdict.subject_in_words(), text: verdict.figures_in_words(), more: None }
}

fn trial_name(view: &View, trial: &Trial) -> String {
    let peer = view.peer(&trial.peer).map_or(trial.peer.as_str(), |peer| peer.title());
    format!("{peer}, {}, {}, {}", trial.link, trial.workload, words::form_name(trial.form))
}

fn missing(view: &View) -> Vec<Block> {
    let mut blocks = Vec::new();
    let absent: Vec<Item> = view
        .peers
        .iter()
        .filter_map(|peer| {
            let why = peer.record.missing.as_deref()?.trim_end_matches('.');
            let text = format!("{why}. Nothing is claimed about it.");
            Some(Item { name: peer.title().to_owned(), text, more: None })
        })
        .collect();
    if absent.is_empty() {
        blocks.push(p("Every system that was asked for is installed."));
    } else {
        blocks.extend([h3("Systems that are missing here"), Block::List(absent)]);
    }
    let reasons = |why_of: fn(&Outcome) -> Option<&String>| -> Vec<Item> {
        let trials = view.results.trials.iter();
        trials
            .filter_map(|trial| {
                let (text, more) = words::reason(why_of(&trial.outcome)?);
                let name = trial_name(view, trial);
                Some(Item { name, text, more: more.map(str::to_owned) })
            })
            .collect()
    };
    let failed = reasons(|outcome| match outcome {
        Outcome::Failed(why) => Some(why),
        _ => None,
    });
    let skipped = reasons(|outcome| match outcome {
        Outcome::Skipped(why) => Some(why),
        _ => None,
    });
    for (title, nothing, items) in [
        ("Trials that failed", "No trial failed.", failed),
        ("Trials that were skipped", "No trial was skipped.", skipped),
    ] {
        if items.is_empty() {
            blocks.push(p(nothing));
        } else {
            let title = format!("{title} ({})", items.len());
            blocks.extend([Block::H3(title), Block::List(items)]);
        }
    }
    let disturbed: Vec<Item> = view
        .results
        .trials
        .iter()
        .filter(|trial| trial.other_load > OTHER_LOAD_MAX)
        .map(|trial| {
            let load = words::value(trial.other_load, "share");
            let text = format!("{}: {load}", trial_name(view, trial));
            Item { name: String::new(), text, more: None }
        })
        .collect();
    if !disturbed.is_empty() {
        blocks.push(Block::Warn(vec![
            Block::H3(format!("Disturbed trials ({})", disturbed.len())),
            Block::P(format!(
                "During these, processes outside the run used more than {} of the machine: read \
                 their figures with doubt.",
                words::value(OTHER_LOAD_MAX, "share")
            )),
            Block::List(disturbed),
        ]));
    }
    blocks
}

fn quotations(workload: &str) -> Vec<Block> {
    let row = |quote: &papers::Quote| Row {
        strong: false,
        cells: vec![
            Cell::Value(quote.system.clone()),
            Cell::Value(quote.quantity.clone()),
            Cell::Value(quote.value.clone()),
            Cell::Text(quote.conditions.clone()),
            Cell::Value(quote.source()),
        ],
    };
    let rows: Vec<Row> = papers::of(workload).map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let head = ["System", "Quantity", "Value", "Conditions", "Source"];
    let table = Table {
        label: "The papers’ own numbers".to_owned(),
        head: head.map(String::from).into(),
        rows,
        ..Table::default()
    };
    vec![h3("What the papers measured"), p(QUOTED), Block::Table(table)]
}

/// Every measure that no figure shows: nothing that was measured is left out.
fn rest(view: &View) -> Vec<Block> {
    let mut tables = Vec::new();
    for workload in view.workloads() {
        for form in view.forms(workload) {
            let mut rows: Vec<(&str, &str, &str)> = Vec::new();
            for measure in view.measures(workload, form) {
                let row = (measure.quantity.as_str(), measure.part.as_str(), measure.unit.as_str());
                if !rows.contains(&row) && !figure::is_drawn(view, workload, form, row.0) {
                    rows.push(row);
                }
            }
            rows.sort_by_key(|row| row.0);
            let links = view.links();
            tables.extend(
                links.iter().filter_map(|(link, _)| rest_table(view, workload, form, link, &rows)),
            );
        }
    }
    let about = "Medians of the measures that stand in no figure, in a figure of the other form, \
                 or in one with others together.";
    [vec![p(about)], or_nothing(tables)].into_iter().flatten().collect()
}

fn rest_table(
    view: &View,
    workload: &str,
    form: Form,
    link: &str,
    rows: &[(&str, &str, &str)],
) -> Option<Block> {
    let peers: Vec<Peer> =
        view.present().filter(|p| view.trial(p.name, link, workload, form).is_some()).collect();
    if peers.is_empty() || rows.is_empty() {
        return None;
    }
    let title = format!("{}, {}, {link}", workload_title(workload), words::form_name(form));
    let names = peers.iter().map(|peer| peer.title().to_owned());
    let mut table = Table {
        label: title.clone(),
        caption: Some(format!("{title}: medians")),
        head: std::iter::once("Measure".to_owned()).chain(names).collect(),
        ..Table::default()
    };
    for (quantity, part, unit) in rows {
        let part_words = if part.is_empty() { String::new() } else { format!(", {part}") };
        let name = format!("{}{part_words}", words::quantity_name(quantity));
        let mut cells = vec![Cell::Value(name)];
        for peer in &peers {
            let cell = view.cell(*peer, link, &Wanted { workload, form, quantity, part });
            cells.push(match (cell.summary(), cell) {
                (Some(Summary { median, .. }), _) => Cell::Value(words::value(median, unit)),
                (None, view::Cell::Empty(_, why)) => table.not_measured(&why),
                (None, view::Cell::Samples(_)) => Cell::Empty("no number".to_owned(), None),
            });
        }
        table.rows.push(Row { strong: false, cells });
    }
    Some(Block::Details(title, vec![Block::Table(table)]))
}

fn setup(view: &View) -> Vec<Block> {
    let results = view.results;
    let machine = &results.machine;
    let shown: Vec<String> = results.command.iter().map(|word| quoted(word)).collect();
    let applications: Vec<String> =
        machine.applications.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let processors = words::count(machine.cores as usize, "processor");
    let reading = format!(
        "Slow motion (Nieh et al.): each operation begins and ends in quiet, so that everything \
         that is sent between belongs to it. Normal speed: as a person or a clock would do it. \
         Input is made on the client’s own X server and pixels are read from it, the same for \
         every system; packets are taken from the link, and nothing of the systems is changed. In \
         figures, {SPREAD_IN_WORDS}. A cell without samples says “not measured” and why. Bytes \
         are those of IP packets; 1 KB is 1000 bytes."
    );
    let reference = |full: &str| Item { name: String::new(), text: full.to_owned(), more: None };
    vec![
        h3("The command"),
        Block::Pre(shown.join(" ")),
        h3("The machine"),
        Block::Pairs(vec![
            ("Begun", results.begun.clone()),
            ("Kernel", machine.kernel.clone()),
            ("System", machine.system.clone()),
            ("Processor", format!("{}, {processors}", machine.processor)),
            ("Memory", words::value(machine.memory_bytes as f64, "bytes")),
            ("Harness", machine.bench.clone()),
            ("Effort", format!("{:?}", results.effort).to_lowercase()),
            ("CPU and memory from", machine.accounting.clone()),
            ("Applications", applications.join(", ")),
            ("Load of others", load(view)),
        ]),
        p(ONE_MACHINE),
        h3("The systems"),
        Block::Table(peers_table(view)),
        h3("The links"),
        Block::Table(links_table(view)),
        h3("How to read the figures"),
        Block::P(reading),
        h3("The papers"),
        Block::List(papers::references().map(reference).collect()),
    ]
}

fn load(view: &View) -> String {
    let loads: Vec<f64> = view.results.trials.iter().map(|t| t.other_load).collect();
    match Summary::of(&loads) {
        Some(s) => format!(
            "processes outside the run used {} of the machine in the median trial, {} in the worst",
            words::value(s.median, "share"),
            words::value(loads.iter().copied().fold(0.0, f64::max), "share")
        ),
        None => "nothing ran".to_owned(),
    }
}

fn peers_table(view: &View) -> Table {
    let row = |peer: &Peer| {
        let year = peer.record.year.map_or("unknown".to_owned(), |year| year.to_string());
        let (version, year, settings) = match &peer.record.missing {
            Some(why) => ("not measured", String::new(), why),
            None => (peer.record.version.as_str(), year, &peer.record.settings),
        };
        let cells = vec![
            Cell::Value(peer.title().to_owned()),
            Cell::Text(version.to_owned()),
            Cell::Value(year),
            Cell::Text(settings.clone()),
        ];
        Row { strong: peer.name == SUBJECT, cells }
    };
    Table {
        label: "The systems".to_owned(),
        head: ["System", "Version", "Year", "Settings"].map(String::from).into(),
        rows: view.peers.iter().map(row).collect(),
        ..Table::default()
    }
}

fn links_table(view: &View) -> Table {
    let row = |name: &str, link: &crate::results::LinkRecord| {
        let rate = link.rate_bps.map(|rate| format!("{} Mbit/s", rate as f64 / 1e6));
        let cells = [
            name.to_owned(),
            link.about.clone(),
            words::value(link.rtt_ms, "ms"),
            words::value(link.jitter_ms, "ms"),
            rate.unwrap_or("no limit".to_owned()),
            words::value(link.queue_bytes as f64, "bytes"),
            words::value(link.loss, "share"),
            link.tcp_about(),
            link.emulator.clone(),
        ];
        Row { strong: false, cells: cells.map(Cell::Value).into() }
    };
    let head = [
        "Link",
        "In words",
        "Round trip added",
        "Jitter",
        "Rate",
        "Queue",
        "Loss",
        "TCP congestion control",
        "Emulator",
    ];
    Table {
        label: "The links".to_owned(),
        head: head.map(String::from).into(),
        rows: view.links().into_iter().map(|(name, link)| row(name, link)).collect(),
        ..Table::default()
    }
}

/// A word of a command line as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+;".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::synthetic;

    /// The document as the page reads it.
    fn data(results: &Results) -> Value {
        serde_json::to_value(document(results)).unwrap()
    }

    /// Every text of the page, one after the other.
    fn text(value: &Value) -> String {
        match value {
            Value::String(text) => format!("{text}\n"),
            Value::Array(values) => values.iter().map(text).collect(),
            Value::Object(fields) => fields.values().map(text).collect(),
            _ => String::new(),
        }
    }

    /// Every element of this kind.
    fn all<'v>(value: &'v Value, kind: &str) -> Vec<&'v Value> {
        match value {
            Value::Array(values) => values.iter().flat_map(|v| all(v, kind)).collect(),
            Value::Object(fields) => {
                let own = fields.get(kind).into_iter();
                own.chain(fields.values().flat_map(|v| all(v, kind))).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn the_page_is_one_file_that_holds_its_data() {
        let mut results = synthetic::results(21);
        results.machine.kernel = "Linux </script><b>".into();
        let page = html(&results).unwrap();
        for outside in ["http:", "https:", "src=", "url(", "@import", "fetch("] {
            let spaces = ["http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"];
            let page = spaces.iter().fold(page.clone(), |page, space| page.replace(space, ""));
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("</script>").count(), 2, "data must not end its element");
        let begin = page.find("id=\"report\">").unwrap() + "id=\"report\">".len();
        let end = begin + page[begin..].find("</script>").unwrap();
        let read: Value = serde_json::from_str(&page[begin..end]).unwrap();
        assert_eq!(read, data(&results));
        // No number is NaN or infinite: JSON would have null for it.
        assert!(!text(&read).contains("NaN") && !page.contains("[null") && !page.contains("inf "));
        let ids: Vec<&str> = all(&read, "id").into_iter().filter_map(Value::as_str).collect();
        assert_eq!(ids.len(), first_of_each(ids.iter().copied()).len(), "an id stands twice");
    }

    #[test]
    fn every_peer_version_failure_and_disturbance_is_named() {
        let results = synthetic::results(22);
        let text = text(&data(&results));
        for peer in results.peers.values() {
            assert!(text.contains(&peer.title), "{}", peer.title);
            if let Some(why) = &peer.missing {
                assert!(text.contains(why), "{why}");
            }
        }
        for link in results.links.values() {
            for part in [&link.about, &link.tcp_about(), &link.emulator] {
                assert!(text.contains(part), "{part}");
            }
        }
        let view = View::new(&results);
        let (mut failed, mut disturbed) = (0, 0);
        for trial in &results.trials {
            let name = trial_name(&view, trial);
            if let Outcome::Failed(why) | Outcome::Skipped(why) = &trial.outcome {
                failed += 1;
                assert!(text.contains(&name) && text.contains(why), "{name}: {why}");
            }
            if trial.other_load > OTHER_LOAD_MAX {
                disturbed += 1;
                assert!(text.contains(&format!("{name}: 31 %")), "{name}");
            }
        }
        assert!(failed > 5 && disturbed > 5, "the invented results should hold both");
        assert!(text.contains("thinc-bench run --links lan,wan"));
        assert!(text.contains(&results.machine.kernel) && text.contains("not measured"));
        assert!(text.contains("it ran and gave not one sample of this"));
    }

    #[test]
    fn losses_stand_beside_wins() {
        let data = data(&synthetic::results(23));
        let sides = all(&data, "sides");
        assert!(sides.len() > 5);
        for sides in sides {
            let titles: Vec<&str> =
                all(sides, "title").into_iter().filter_map(Value::as_str).collect();
            assert!(titles[0].starts_with("Wins (") && titles[1].starts_with("Loses ("));
        }
        assert!(text(&data).contains(" of TigerVNC’s "));
    }

    #[test]
    fn figures_have_captions_panels_tables_and_sources() {
        let data = data(&synthetic::results(24));
        let figures = all(&data, "figure");
        assert!(figures.len() > 40, "{}", figures.len());
        for (number, figure) in (1..).zip(&figures) {
            assert_eq!(figure["number"], number);
            let caption = figure["caption"].as_str().unwrap();
            assert!(caption.contains("is better") && caption.contains("scale"), "{caption}");
            assert!(!figure["panels"].as_array().unwrap().is_empty());
            let has_table = figure["table"].is_object();
            assert!(has_table || caption.contains("The table of the figure before"), "{caption}");
        }
        let names = all(&data, "plot").into_iter().flat_map(|plot| all(plot, "title"));
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        assert!(names.contains(&"thinc") && names.contains(&"xpra"));
        let text = text(&data);
        for source in [
            "Lai & Nieh 2002, Figure 9",
            "Yang et al. 2003, Figure 2",
            "Wong & Seltzer 2000, Figure 4",
            "✕",
        ] {
            assert!(text.contains(source), "{source}");
        }
    }

    #[test]
    fn a_run_without_thinc_or_without_anything_still_has_a_page() {
        let mut results = synthetic::results(25);
        results.trials.retain(|trial| trial.peer != "thinc");
        results.peers.remove("thinc");
        assert!(text(&data(&results)).contains("thinc was not measured in this run"));
        results.trials.clear();
        assert!(text(&data(&results)).contains("No trial failed"));
    }

    #[test]
    fn a_large_run_stays_small() {
        // Twelve peers, three links, six workloads, everything measured.
        let mut results = synthetic::results(26);
        results.links.retain(|name, _| ["lan", "wan", "80211b:loss=0%"].contains(&name.as_str()));
        results.trials.retain(|t| {
            results.links.contains_key(&t.link)
                && ["web", "latency", "video", "type", "animation", "dropout"]
                    .contains(&t.workload.as_str())
                && matches!(t.outcome, Outcome::Measured(_))
        });
        for name in ["xpra", "xrdp", "x11", "tigervnc", "local", "thinc"] {
            let copy = format!("{name}-too");
            let mut record = results.peers[name].clone();
            record.title.push_str(" too");
            results.peers.insert(copy.clone(), record);
            let more: Vec<Trial> =
                results.trials.iter().filter(|t| t.peer == name).cloned().collect();
            results.trials.extend(more.into_iter().map(|t| Trial { peer: copy.clone(), ..t }));
        }
        let bytes = html(&results).unwrap().len();
        assert!(bytes < 1_250_000, "{bytes} bytes");
    }

    #[test]
    fn words_of_a_command_survive_a_shell() {
        let words = ["run", "80211b:loss=10%", "a b", "it's", ""].map(quoted);
        assert_eq!(words, ["run", "80211b:loss=10%", "'a b'", "'it'\\''s'", "''"]);
    }
}
