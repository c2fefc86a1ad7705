//! The page: one file, no script, nothing fetched; words first, then figures, then how it was measured.
//! From results through summary.rs and sections.rs to HTML.
//! Knows the order of the page; never how a figure or a judgement comes about.

use std::fmt::Write as _;

use super::canvas::escape;
use super::papers::{self, Paper};
use super::progress::spoken;
use super::sections::{self, Notes};
use super::stats::{SPREAD_IN_WORDS, Summary};
use super::summary::{Matter, Standing, Verdict, verdicts};
use super::view::{Cell, PLACES, Peer, SUBJECT, View, Wanted, first_of_each};
use super::words;
use crate::results::{Form, Outcome, Results, Trial, quantity};

/// Above this share of the machine, what else ran is said to have disturbed a trial.
const OTHER_LOAD_MAX: f64 = 0.15;
/// Sentences of one list that stand open; the rest is one key away. The same for wins and losses.
const SENTENCES: usize = 8;

/// In place of figures where there are none.
const NOTHING: &str = "<p>Nothing of this was measured in this run; the reasons stand under <a href=\"#missing\">What was not measured</a>.</p>";

/// What people call a workload.
fn workload_title(name: &str) -> String {
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
        "users" => "Many users",
        other => return other.to_owned(),
    }
    .to_owned()
}

/// The whole page.
pub(super) fn page(results: &Results) -> String {
    let view = View::new(results);
    let mut out = String::with_capacity(1 << 20);
    let title = format!("thinc-bench: {}", day(&results.begun));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{}</title><style>{}{}</style></head><body><a class=\"skip\" href=\"#summary\">To the summary</a>\n",
        escape(&title),
        include_str!("style.css"),
        inks(),
    );
    header(&view, &mut out);
    out.push_str("<main>\n");
    summary(&view, &mut out);
    missing(&view, &mut out);
    let mut number = 0;
    for workload in view.workloads() {
        let figures = sections::of_workload(&view, workload, &mut number);
        let quotes = quotations(workload);
        let figures = if figures.is_empty() { NOTHING.to_owned() } else { figures };
        let _ = writeln!(
            out,
            "<section aria-labelledby=\"w-{0}\"><h2 id=\"w-{0}\">{1}</h2>{figures}{quotes}</section>",
            escape(workload),
            escape(&workload_title(workload))
        );
    }
    for (id, title, quantities) in [
        ("fidelity", "Fidelity", [quantity::EXACT_SHARE, quantity::EXACT_MS].as_slice()),
        (
            "cost",
            "CPU and memory",
            &[quantity::CPU_SERVER_MS, quantity::CPU_CLIENT_MS, quantity::MEMORY_SERVER, quantity::MEMORY_CLIENT],
        ),
    ] {
        let mut figures = String::new();
        for workload in view.workloads() {
            let of_it = sections::of_any(&view, workload, &mut number, quantities);
            if !of_it.is_empty() {
                let _ = write!(figures, "<h3>{}</h3>{of_it}", escape(&workload_title(workload)));
            }
        }
        let figures = if figures.is_empty() { NOTHING.to_owned() } else { figures };
        let _ = writeln!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>{figures}</section>");
    }
    rest(&view, &mut out);
    setup(&view, &mut out);
    out.push_str("</main>\n");
    footer(&mut out);
    out.push_str("</body></html>\n");
    out
}

/// One stroke and one fill class for each place in the palette; dashes tell curves apart where colours do not.
fn inks() -> String {
    const DASHES: [&str; PLACES] =
        ["", "", "30 30", "", "90 30", "30 20", "", "120 30 20 30", "60 40", "20 25", "140 40", "50 20 20 20"];
    let mut css = String::new();
    for (place, dashes) in DASHES.iter().enumerate() {
        let _ = write!(css, ".s{place}{{stroke:var(--c{place})}}.f{place}{{fill:var(--c{place})}}");
        if !dashes.is_empty() {
            let _ = write!(css, ".s{place}:not(.pale){{stroke-dasharray:{dashes}}}");
        }
    }
    css
}

fn day(begun: &str) -> String {
    begun.split('T').next().unwrap_or(begun).to_owned()
}

fn header(view: &View, out: &mut String) {
    let results = view.results;
    let measured = results.trials.iter().filter(|t| matches!(t.outcome, Outcome::Measured(_))).count();
    let seconds: f64 = results.trials.iter().map(|t| t.seconds).sum();
    let _ = write!(
        out,
        "<header><h1>Remote display systems, measured from outside</h1><p class=\"lead\">thinc-bench, {}: {} on {} with {}; {} measured, {} of measuring. {}, {}, {}. Screen {} × {}.</p><nav aria-label=\"Sections\"><ul><li><a href=\"#summary\">Summary</a></li><li><a href=\"#missing\">Not measured</a></li>",
        escape(&day(&results.begun)),
        words::count(view.present().count(), "system"),
        words::count(results.links.len(), "link"),
        words::count(view.workloads().len(), "workload"),
        words::count(measured, "trial"),
        spoken(seconds),
        escape(&results.machine.processor),
        words::count(results.machine.cores as usize, "processor"),
        escape(&results.machine.kernel),
        results.screen.0,
        results.screen.1,
    );
    for workload in view.workloads() {
        let _ = write!(out, "<li><a href=\"#w-{}\">{}</a></li>", escape(workload), escape(&workload_title(workload)));
    }
    out.push_str("<li><a href=\"#fidelity\">Fidelity</a></li><li><a href=\"#cost\">CPU and memory</a></li><li><a href=\"#rest\">All else</a></li><li><a href=\"#setup\">How it was measured</a></li></ul></nav></header>\n");
}

fn summary(view: &View, out: &mut String) {
    out.push_str("<section aria-labelledby=\"summary\"><h2 id=\"summary\">Where thinc wins and where it loses</h2>\n");
    let ours: Vec<Peer> = view.present().filter(Peer::is_ours).collect();
    if ours.is_empty() {
        out.push_str("<p>thinc was not measured in this run, and nothing is said of it.</p>");
    }
    let mut told = false;
    for subject in ours {
        let all = verdicts(view, subject);
        if all.is_empty() {
            let _ = write!(out, "<p>{} gave no figure in this run: why stands below.</p>", escape(subject.title()));
            continue;
        }
        if !told {
            out.push_str("<p>Each figure is compared with that of the best other system measured here, whichever that is; no remoting at all (the same program on a local screen) is the reference that nothing can beat. <em>Level</em> means that the medians differ by no more than 3 %, or that chance can explain it (the 98 % interval of their ratio holds one); with fewer than five samples, that they differ by less than 15 % or overlap. Ratios are ours over theirs. A system that has no process on the server (plain X) is left out where the server’s CPU and memory are compared.</p>");
            told = true;
        }
        let _ = write!(out, "<h3>{}</h3>", escape(subject.title()));
        glance(view, subject, &all, out);
        for link in first_of_each(all.iter().map(|v| v.link)) {
            let here: Vec<&Verdict> = all.iter().filter(|v| v.link == link).collect();
            let count = |standing| here.iter().filter(|v| v.standing == Some(standing)).count();
            let about = view.results.links.get(link).map_or(String::new(), |l| format!(" ({})", l.about));
            let _ = write!(
                out,
                "<h3>{} on {}{}</h3><p>Ahead in {}, level in {}, behind in {} of {}.</p>",
                escape(subject.title()),
                escape(link),
                escape(&about),
                count(Standing::Ahead),
                count(Standing::Level),
                count(Standing::Behind),
                words::count(here.iter().filter(|v| v.standing.is_some()).count(), "comparison"),
            );
            for matter in Matter::ALL {
                let of_it: Vec<&Verdict> = here.iter().copied().filter(|v| v.matter() == matter).collect();
                if !of_it.is_empty() {
                    let _ = write!(out, "<h4 class=\"matter\">{}</h4><div class=\"sides\">", matter.title());
                    sentences(&of_it, Standing::Ahead, "Wins", out);
                    sentences(&of_it, Standing::Behind, "Loses", out);
                    out.push_str("</div>");
                }
            }
            let level: Vec<&&Verdict> =
                here.iter().filter(|v| v.standing.is_none_or(|s| s == Standing::Level)).collect();
            if !level.is_empty() {
                let _ = write!(
                    out,
                    "<details><summary>Level, or without anybody to compare with ({})</summary><ul>",
                    level.len()
                );
                for verdict in level {
                    out.push_str(&sentence(verdict));
                }
                out.push_str("</ul></details>");
            }
        }
    }
    out.push_str("</section>\n");
}

/// Counts by workload and link: the picture before the sentences.
fn glance(view: &View, subject: Peer, all: &[Verdict], out: &mut String) {
    let links = first_of_each(all.iter().map(|v| v.link));
    let _ = write!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0} at a glance\"><table class=\"glance\"><caption>{0} against the best other system: comparisons ahead, level and behind</caption><thead><tr><th scope=\"col\">Workload</th>",
        escape(subject.title())
    );
    for link in &links {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(link));
    }
    out.push_str("</tr></thead><tbody>");
    for workload in view.workloads() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&workload_title(workload)));
        for link in &links {
            let count = |standing| {
                all.iter()
                    .filter(|v| v.wanted.workload == workload && v.link == *link && v.standing == Some(standing))
                    .count()
            };
            let counts = [Standing::Ahead, Standing::Level, Standing::Behind].map(count);
            if counts == [0; 3] {
                let _ = write!(out, "<td class=\"no\">{}</td>", escape(&why_nothing(view, subject, link, workload)));
            } else {
                let _ = write!(
                    out,
                    "<td><span class=\"ahead\">{} ahead</span> · <span class=\"level\">{} level</span> · <span class=\"behind\">{} behind</span></td>",
                    counts[0], counts[1], counts[2]
                );
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn why_nothing(view: &View, subject: Peer, link: &str, workload: &str) -> String {
    let trials =
        [Form::SlowMotion, Form::Normal].into_iter().filter_map(|form| view.trial(subject.name, link, workload, form));
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

fn sentences(here: &[&Verdict], standing: Standing, title: &str, out: &mut String) {
    let mut list: Vec<&&Verdict> = here.iter().filter(|v| v.standing == Some(standing)).collect();
    // The largest first, on both sides.
    let size = |v: &Verdict| if standing == Standing::Behind { v.worse_by } else { 1.0 / v.worse_by };
    list.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let class = if standing == Standing::Behind { "behind" } else { "ahead" };
    let _ = write!(out, "<div><h5 class=\"{class}\">{title} ({})</h5>", list.len());
    if list.is_empty() {
        out.push_str("<p>Nowhere.</p>");
    }
    let (open, closed) = list.split_at(list.len().min(SENTENCES));
    for (index, part) in [open, closed].into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        if index == 1 {
            let _ = write!(out, "<details><summary>{} more, smaller</summary>", part.len());
        }
        out.push_str("<ul>");
        for verdict in part {
            out.push_str(&sentence(verdict));
        }
        out.push_str(if index == 1 { "</ul></details>" } else { "</ul>" });
    }
    out.push_str("</div>");
}

fn sentence(verdict: &Verdict) -> String {
    format!("<li><b>{}</b>: {}</li>", escape(&verdict.subject_in_words()), escape(&verdict.figures_in_words()))
}

fn trial_name(view: &View, trial: &Trial) -> String {
    let peer = view.peer(&trial.peer).map_or(trial.peer.as_str(), |peer| peer.title());
    format!("{peer}, {}, {}, {}", trial.link, trial.workload, words::form_name(trial.form))
}

fn missing(view: &View, out: &mut String) {
    out.push_str("<section aria-labelledby=\"missing\"><h2 id=\"missing\">What was not measured, and why</h2>");
    let absent: Vec<&Peer> = view.peers.iter().filter(|peer| peer.record.missing.is_some()).collect();
    if absent.is_empty() {
        out.push_str("<p>Every system that was asked for is installed.</p>");
    } else {
        out.push_str("<h3>Systems that are missing here</h3><ul>");
        for peer in absent {
            let why = peer.record.missing.as_deref().unwrap_or_default();
            let _ = write!(
                out,
                "<li><b>{}</b>: {}. Nothing is claimed about it.</li>",
                escape(peer.title()),
                escape(why.trim_end_matches('.'))
            );
        }
        out.push_str("</ul>");
    }
    for (title, nothing) in
        [("Trials that failed", "No trial failed."), ("Trials that were skipped", "No trial was skipped.")]
    {
        let is_failed = title.ends_with("failed");
        let of_it: Vec<(&Trial, &str)> = view
            .results
            .trials
            .iter()
            .filter_map(|trial| match &trial.outcome {
                Outcome::Failed(why) if is_failed => Some((trial, why.as_str())),
                Outcome::Skipped(why) if !is_failed => Some((trial, why.as_str())),
                _ => None,
            })
            .collect();
        if of_it.is_empty() {
            let _ = write!(out, "<p>{nothing}</p>");
            continue;
        }
        let _ = write!(out, "<h3>{title} ({})</h3><ul>", of_it.len());
        for (trial, why) in of_it {
            let (short, whole) = words::reason(why);
            let _ = write!(out, "<li><b>{}</b>: {}", escape(&trial_name(view, trial)), escape(&short));
            if let Some(whole) = whole {
                let _ = write!(out, "<details><summary>All of it</summary><pre>{}</pre></details>", escape(whole));
            }
            out.push_str("</li>");
        }
        out.push_str("</ul>");
    }
    let disturbed: Vec<&Trial> = view.results.trials.iter().filter(|t| t.other_load > OTHER_LOAD_MAX).collect();
    if !disturbed.is_empty() {
        let _ = write!(
            out,
            "<div class=\"warn\"><h3>Disturbed trials ({})</h3><p>During these, processes outside the run used more than {} of the machine: read their figures with doubt.</p><ul>",
            disturbed.len(),
            words::value(OTHER_LOAD_MAX, "share")
        );
        for trial in disturbed {
            let _ = write!(
                out,
                "<li>{}: {}</li>",
                escape(&trial_name(view, trial)),
                words::value(trial.other_load, "share")
            );
        }
        out.push_str("</ul></div>");
    }
    out.push_str("</section>\n");
}

fn quotations(workload: &str) -> String {
    let mut out = String::new();
    if papers::of(workload).next().is_none() {
        return out;
    }
    out.push_str("<h3>What the papers measured</h3><p>On other machines, links and contents: a scale to read the figures by, no contest. Only numbers that stand in the papers’ text.</p><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"The papers’ own numbers\"><table><thead><tr><th scope=\"col\">System</th><th scope=\"col\">Quantity</th><th scope=\"col\">Value</th><th scope=\"col\">Conditions</th><th scope=\"col\">Source</th></tr></thead><tbody>");
    for quote in papers::of(workload) {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"text\">{}</td><td>{}, {}</td></tr>",
            escape(quote.system),
            escape(quote.quantity),
            escape(quote.value),
            escape(quote.conditions),
            escape(quote.paper.short()),
            escape(quote.place)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Every measure that no figure shows: nothing that was measured is left out.
fn rest(view: &View, out: &mut String) {
    let mut tables = String::new();
    for workload in view.workloads() {
        for form in view.forms(workload) {
            let mut rows: Vec<(&str, &str, &str)> = Vec::new();
            for measure in view.measures(workload, form) {
                let row = (measure.quantity.as_str(), measure.part.as_str(), measure.unit.as_str());
                if !rows.contains(&row) && !sections::is_drawn(view, workload, form, row.0) {
                    rows.push(row);
                }
            }
            rows.sort_by_key(|row| row.0);
            for (link, _) in view.links() {
                rest_table(view, workload, form, link, &rows, &mut tables);
            }
        }
    }
    let tables = if tables.is_empty() { NOTHING.to_owned() } else { tables };
    let _ = writeln!(
        out,
        "<section aria-labelledby=\"rest\"><h2 id=\"rest\">All else that was measured</h2><p>Medians of the measures that stand in no figure, in a figure of the other form, or in one with others together.</p>{tables}</section>"
    );
}

fn rest_table(view: &View, workload: &str, form: Form, link: &str, rows: &[(&str, &str, &str)], out: &mut String) {
    let peers: Vec<Peer> = view.present().filter(|p| view.trial(p.name, link, workload, form).is_some()).collect();
    if peers.is_empty() || rows.is_empty() {
        return;
    }
    let title = format!("{}, {}, {link}", workload_title(workload), words::form_name(form));
    let _ = write!(
        out,
        "<details><summary>{0}</summary><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}: medians</caption><thead><tr><th scope=\"col\">Measure</th>",
        escape(&title)
    );
    for peer in &peers {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(peer.title()));
    }
    out.push_str("</tr></thead><tbody>");
    let mut notes = Notes::default();
    for (quantity, part, unit) in rows {
        let part_words = if part.is_empty() { String::new() } else { format!(", {part}") };
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}{}</th>",
            escape(&words::quantity_name(quantity)),
            escape(&part_words)
        );
        for peer in &peers {
            let cell = view.cell(*peer, link, &Wanted { workload, form, quantity, part });
            let _ = match (cell.summary(), cell) {
                (Some(Summary { median, .. }), _) => write!(out, "<td>{}</td>", words::value(median, unit)),
                (None, Cell::Empty(_, why)) => {
                    write!(out, "<td class=\"no\">not measured<sup>{}</sup></td>", notes.number(&why))
                }
                (None, Cell::Samples(_)) => write!(out, "<td class=\"no\">no number</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    notes.write(out);
    out.push_str("</details>");
}

fn setup(view: &View, out: &mut String) {
    let results = view.results;
    let machine = &results.machine;
    out.push_str(
        "<section aria-labelledby=\"setup\"><h2 id=\"setup\">How it was measured</h2><h3>The command</h3><pre>",
    );
    let shown: Vec<String> = results.command.iter().map(|word| quoted(word)).collect();
    let _ = write!(out, "{}</pre><h3>The machine</h3><dl>", escape(&shown.join(" ")));
    let memory = words::value(machine.memory_bytes as f64, "bytes");
    let applications: Vec<String> =
        machine.applications.iter().map(|(name, version)| format!("{name} {version}")).collect();
    for (name, value) in [
        ("Begun", results.begun.clone()),
        ("Kernel", machine.kernel.clone()),
        ("System", machine.system.clone()),
        ("Processor", format!("{}, {}", machine.processor, words::count(machine.cores as usize, "processor"))),
        ("Memory", memory),
        ("Harness", machine.bench.clone()),
        ("Effort", format!("{:?}", results.effort).to_lowercase()),
        ("CPU and memory from", machine.accounting.clone()),
        ("Applications", applications.join(", ")),
        ("Load of others", load(view)),
    ] {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    out.push_str("</dl><p>Server, client and link are on this one machine: two network namespaces, joined by the emulator. Applications, server and viewer share its processors, which costs every system something and those that compute most the most.</p>");
    peers_table(view, out);
    links_table(view, out);
    let _ = write!(
        out,
        "<h3>How to read the figures</h3><p>Slow motion (Nieh et al.): each operation begins and ends in quiet, so that everything that is sent between belongs to it. Normal speed: as a person or a clock would do it. Input is made on the client’s own X server and pixels are read from it, the same for every system; packets are taken from the link, and nothing of the systems is changed. In figures, {SPREAD_IN_WORDS}. A cell without samples says <em>not measured</em> and why. Bytes are those of IP packets; 1 KB is 1000 bytes.</p><h3>The papers</h3><ul>"
    );
    for paper in Paper::ALL {
        let _ = write!(out, "<li>{}</li>", escape(paper.full()));
    }
    out.push_str("</ul></section>\n");
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

fn peers_table(view: &View, out: &mut String) {
    out.push_str("<h3>The systems</h3><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"The systems\"><table><thead><tr><th scope=\"col\">System</th><th scope=\"col\">Version</th><th scope=\"col\">Year</th><th scope=\"col\">Settings</th></tr></thead><tbody>");
    for peer in &view.peers {
        let year = peer.record.year.map_or("unknown".to_owned(), |year| year.to_string());
        let (version, settings) = match &peer.record.missing {
            Some(why) => ("not measured".to_owned(), why.clone()),
            None => (peer.record.version.clone(), peer.record.settings.clone()),
        };
        let class = if peer.name == SUBJECT { " class=\"us\"" } else { "" };
        let _ = write!(
            out,
            "<tr{class}><th scope=\"row\">{}</th><td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
            escape(peer.title()),
            escape(&version),
            if peer.record.missing.is_some() { String::new() } else { year },
            escape(&settings)
        );
    }
    out.push_str("</tbody></table></div>");
}

fn links_table(view: &View, out: &mut String) {
    out.push_str("<h3>The links</h3><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"The links\"><table><thead><tr><th scope=\"col\">Link</th><th scope=\"col\">In words</th><th scope=\"col\">Round trip added</th><th scope=\"col\">Jitter</th><th scope=\"col\">Rate</th><th scope=\"col\">Queue</th><th scope=\"col\">Loss</th><th scope=\"col\">TCP congestion control</th><th scope=\"col\">Emulator</th></tr></thead><tbody>");
    for (name, link) in view.links() {
        let rate = link.rate_bps.map_or("no limit".to_owned(), |rate| format!("{} Mbit/s", rate as f64 / 1e6));
        let cells = [
            link.about.clone(),
            words::value(link.rtt_ms, "ms"),
            words::value(link.jitter_ms, "ms"),
            rate,
            words::value(link.queue_bytes as f64, "bytes"),
            words::value(link.loss, "share"),
            link.congestion.clone(),
            link.emulator.clone(),
        ];
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
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

fn footer(out: &mut String) {
    out.push_str("<footer><p>Made by <code>thinc-bench report</code> from the JSON of the run, which holds every sample. This page fetches nothing and runs no script.</p></footer>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    /// Every element in order: name, whether it closes, its attributes. Enough of a parser to see that the page is whole.
    fn elements(page: &str) -> Vec<(String, bool, String)> {
        let mut found = Vec::new();
        let mut rest = page;
        while let Some(start) = rest.find('<') {
            let end = start + rest[start..].find('>').expect("every element ends");
            let inside = &rest[start + 1..end];
            let closes = inside.starts_with('/');
            let name: String =
                inside.trim_start_matches('/').chars().take_while(|c| !c.is_whitespace() && *c != '/').collect();
            found.push((name, closes, inside.to_owned()));
            rest = &rest[end + 1..];
        }
        found
    }

    /// The text of the page as a reader sees it.
    fn text(page: &str) -> String {
        let mut out = String::new();
        for piece in page.split('<').skip(1) {
            out.push_str(piece.split_once('>').map_or("", |(_, text)| text));
            out.push(' ');
        }
        out.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    }

    #[test]
    fn the_page_is_well_formed_and_alone() {
        let page = page(&synthetic::results(21));
        let mut open: Vec<String> = Vec::new();
        for (name, closes, inside) in elements(&page) {
            let is_void = inside.ends_with('/') || ["meta", "!DOCTYPE"].contains(&name.as_str());
            if closes {
                assert_eq!(open.pop().as_deref(), Some(name.as_str()), "closed in the wrong order");
            } else if !is_void {
                open.push(name.clone());
            }
            for outside in ["http:", "https:", "src=", "url(", "@import", "onclick", "javascript:"] {
                assert!(!inside.contains(outside), "{inside}");
            }
            assert_ne!(name, "script");
        }
        assert!(open.is_empty(), "{open:?} stay open");
        assert!(!page.contains("NaN") && !page.contains("inf ") && !page.contains("http"), "nonsense or an address");
        let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|p| p.split('"').next()).collect();
        assert_eq!(ids.len(), first_of_each(ids.iter().copied()).len(), "an id stands twice");
        for target in page.split("href=\"#").skip(1).filter_map(|p| p.split('"').next()) {
            assert!(ids.contains(&target), "a link leads to #{target}, which is nowhere");
        }
    }

    #[test]
    fn every_peer_version_failure_and_disturbance_is_named() {
        let results = synthetic::results(22);
        let page = page(&results);
        let text = text(&page);
        for peer in results.peers.values() {
            assert!(text.contains(&peer.title), "{}", peer.title);
            if let Some(why) = &peer.missing {
                assert!(text.contains(why), "{why}");
            }
        }
        for link in results.links.values() {
            assert!(text.contains(&link.about) && text.contains(&link.congestion) && text.contains(&link.emulator));
        }
        let view = View::new(&results);
        let (mut failed, mut disturbed) = (0, 0);
        for trial in &results.trials {
            let name = trial_name(&view, trial);
            match &trial.outcome {
                Outcome::Failed(why) | Outcome::Skipped(why) => {
                    failed += 1;
                    assert!(text.contains(&name) && text.contains(why), "{name}: {why}");
                }
                Outcome::Measured(_) => {}
            }
            if trial.other_load > OTHER_LOAD_MAX {
                disturbed += 1;
                assert!(text.contains(&format!("{name}: 31 %")), "{name}");
            }
        }
        assert!(failed > 5 && disturbed > 5, "the invented results should hold both");
        assert!(text.contains("thinc-bench run --links lan,wan") && text.contains(&results.machine.kernel));
        assert!(text.contains("not measured") && text.contains("it ran and gave not one sample of this"));
    }

    #[test]
    fn losses_stand_beside_wins() {
        let text = text(&page(&synthetic::results(23)));
        assert!(text.contains("Where thinc wins and where it loses"));
        let wins = text.matches(" Wins (").count();
        assert!(wins > 5 && wins == text.matches(" Loses (").count());
        assert!(text.contains(" of TigerVNC’s "));
    }

    #[test]
    fn figures_have_captions_tables_and_sources() {
        let page = page(&synthetic::results(24));
        let figures: Vec<&str> = page.split("<figure ").skip(1).collect();
        assert!(figures.len() > 40, "{}", figures.len());
        for figure in &figures {
            let figure = figure.split("</figure>").next().unwrap();
            assert!(figure.contains("<figcaption>") && figure.contains("<svg role=\"img\""));
            assert!(figure.contains("is better") && figure.contains("scale"), "{}", &figure[..600]);
            assert!(figure.contains("<table>") || figure.contains("The table of the figure before"));
        }
        for source in [
            "Lai &amp; Nieh 2002, Figure 9",
            "Yang et al. 2003, Figure 2",
            "Kim 2004, Figure 5",
            "Wong &amp; Seltzer 2000, Figure 4",
        ] {
            assert!(page.contains(source), "{source}");
        }
    }

    #[test]
    fn a_run_without_thinc_or_without_anything_still_has_a_page() {
        let mut results = synthetic::results(25);
        results.trials.retain(|trial| trial.peer != "thinc");
        results.peers.remove("thinc");
        assert!(text(&page(&results)).contains("thinc was not measured in this run"));
        results.trials.clear();
        let empty = page(&results);
        assert!(empty.contains("No trial failed") && !empty.contains("NaN"));
    }

    #[test]
    fn a_large_run_stays_small() {
        // Twelve peers, three links, six workloads, everything measured.
        let mut results = synthetic::results(26);
        results.links.retain(|name, _| ["lan", "wan", "80211b:loss=0%"].contains(&name.as_str()));
        results.trials.retain(|t| {
            results.links.contains_key(&t.link)
                && ["web", "latency", "video", "type", "animation", "dropout"].contains(&t.workload.as_str())
                && matches!(t.outcome, Outcome::Measured(_))
        });
        for name in ["xpra", "xrdp", "x11", "tigervnc", "local", "thinc"] {
            let copy = format!("{name}-too");
            let mut record = results.peers[name].clone();
            record.title.push_str(" too");
            results.peers.insert(copy.clone(), record);
            let more: Vec<Trial> = results.trials.iter().filter(|t| t.peer == name).cloned().collect();
            results.trials.extend(more.into_iter().map(|t| Trial { peer: copy.clone(), ..t }));
        }
        let bytes = page(&results).len();
        assert!(bytes < 1_250_000, "{bytes} bytes");
    }

    #[test]
    fn words_of_a_command_survive_a_shell() {
        let words = ["run", "80211b:loss=10%", "a b", "it's", ""].map(quoted);
        assert_eq!(words, ["run", "80211b:loss=10%", "'a b'", "'it'\\''s'", "''"]);
    }
}
