//! The papers' figures, redrawn: which measure becomes which figure, its caption, its panels and the table below it.
//! From view.rs through plots.rs to pieces of the page.
//! Knows what each figure means; never how a panel is drawn.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::canvas::escape;
use super::figures::Kind::{Bars, Distribution, Loss, Over};
use super::figures::{FIGURES, Figure, Kind};
use super::plots::{self, Axis, Bar, Curve, Line};
use super::stats::{Summary, sorted, spread_in_words};
use super::view::{Cell, LossGroup, Peer, REFERENCE, SUBJECT, View, Wanted};
use super::words;
use crate::results::{Better, Form, quantity};

/// Whether a quantity of a workload in this form stands in a figure of its own, and need not stand among the rest.
pub(super) fn is_drawn(view: &View, workload: &str, form: Form, quantity: &str) -> bool {
    let of_it = |f: &&Figure| f.workload == workload && f.quantity == quantity;
    let mut figures = FIGURES.iter().filter(of_it).filter(|f| f.kind != Loss && f.kind != Distribution);
    figures.any(|figure| chosen_form(view, workload, figure) == Some(form))
}

/// The form in which a figure is drawn: the one that says most, or the other where only that was measured. Its twin
/// stands among the tables, since two figures of one thing would only hide each other.
fn chosen_form(view: &View, workload: &str, figure: &Figure) -> Option<Form> {
    let other = if figure.form == Form::Normal { Form::SlowMotion } else { Form::Normal };
    let has =
        |form: &Form| view.measures(workload, *form).any(|m| m.quantity == figure.quantity && !m.samples.is_empty());
    let asked = |form: &Form| !view.parts(workload, *form, figure.quantity).is_empty();
    let forms = [figure.form, other];
    forms.into_iter().find(has).or_else(|| forms.into_iter().find(asked))
}

type Samples<'a> = Result<Cow<'a, [f64]>, (&'static str, String)>;

/// One cell for each peer of a figure.
type Cells<'a> = Vec<(Peer<'a>, Samples<'a>)>;

/// One panel and its column, or its columns, in the table.
struct Panel<'a> {
    /// What stands above it.
    heading: String,
    svg: String,
    /// Columns: heading and one cell for each peer of the figure.
    columns: Vec<(String, Cells<'a>)>,
}

/// A figure under way.
struct Drawing<'a, 'v> {
    view: &'v View<'a>,
    figure: &'static Figure,
    workload: &'a str,
    form: Form,
}

/// The figures of one workload.
pub(super) fn of_workload(view: &View, workload: &str, number: &mut usize) -> String {
    of_figures(view, workload, number, |figure| figure.workload == workload)
}

/// The figures that every workload has, of one workload.
pub(super) fn of_any(view: &View, workload: &str, number: &mut usize, quantities: &[&str]) -> String {
    let own = |quantity| FIGURES.iter().any(|f| f.workload == workload && f.quantity == quantity);
    of_figures(view, workload, number, |f| f.workload == "*" && quantities.contains(&f.quantity) && !own(f.quantity))
}

fn of_figures(view: &View, workload: &str, number: &mut usize, chosen: impl Fn(&Figure) -> bool) -> String {
    let mut out = String::new();
    let Some(workload) = view.workloads().into_iter().find(|known| *known == workload) else { return out };
    for figure in FIGURES.iter().filter(|f| chosen(f)) {
        let Some(form) = chosen_form(view, workload, figure) else { continue };
        let drawing = Drawing { view, figure, workload, form };
        let panels = drawing.panels();
        if panels.iter().flat_map(|p| &p.columns).any(|(_, cells)| cells.iter().any(|(_, s)| s.is_ok())) {
            *number += 1;
            drawing.write(*number, &panels, &mut out);
        } else if matches!(figure.kind, Bars | Over(_)) {
            drawing.write_nothing(&mut out);
        }
    }
    out
}

impl<'a> Drawing<'a, '_> {
    fn parts(&self) -> Vec<(&'a str, &'a str, Better)> {
        self.view.parts(self.workload, self.form, self.figure.quantity)
    }

    fn unit(&self) -> (&'a str, Better) {
        self.parts().first().map_or(("", Better::Neither), |(_, unit, better)| (unit, *better))
    }

    fn wanted<'p>(&self, part: &'p str) -> Wanted<'p>
    where
        'a: 'p,
    {
        Wanted { workload: self.workload, form: self.form, quantity: self.figure.quantity, part }
    }

    /// One peer's samples of one part, or of all parts together.
    fn samples(&self, peer: Peer<'a>, link: &str, part: Option<&str>) -> Samples<'a> {
        let of = |part: &str| match self.view.cell(peer, link, &self.wanted(part)) {
            Cell::Samples(samples) => Ok(samples),
            Cell::Empty(word, why) => Err((word, why)),
        };
        if let Some(part) = part {
            return of(part).map(Cow::Borrowed);
        }
        let mut pooled = Vec::new();
        let mut reason = None;
        for (part, ..) in self.parts() {
            match of(part) {
                Ok(samples) => pooled.extend_from_slice(samples),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        match reason {
            Some(why) if pooled.is_empty() => Err(why),
            _ if pooled.is_empty() => Err(("no sample", "it ran and gave not one sample of this".into())),
            _ => Ok(Cow::Owned(pooled)),
        }
    }

    /// Peers of this figure: without the reference where there is nothing for it to send.
    fn peers(&self, links: &[&'a str]) -> Vec<Peer<'a>> {
        let sends = |peer: &Peer<'a>| {
            let (unit, _) = self.unit();
            let is_nothing = |s: Samples| s.map_or(true, |samples| samples.iter().all(|sample| *sample == 0.0));
            let on_the_wire = matches!(unit, "bytes" | "packets") && self.figure.quantity != quantity::MEMORY_SERVER;
            !(peer.name == REFERENCE
                && (on_the_wire || self.figure.quantity == quantity::PACKETS_MS)
                && links.iter().all(|link| is_nothing(self.samples(*peer, link, None))))
        };
        self.view.present().filter(sends).collect()
    }

    fn cells(&self, peers: &[Peer<'a>], link: &str, part: Option<&str>) -> Cells<'a> {
        peers.iter().map(|peer| (*peer, self.samples(*peer, link, part))).collect()
    }

    fn panels(&self) -> Vec<Panel<'a>> {
        // Links on which this workload was tried at all.
        let tried = |link: &&'a str| {
            self.view
                .results
                .trials
                .iter()
                .any(|t| t.link == **link && t.workload == self.workload && t.form == self.form)
        };
        let links: Vec<&'a str> = self.view.plain_links().into_iter().filter(tried).collect();
        if self.parts().is_empty() {
            return Vec::new();
        }
        match self.figure.kind {
            Bars => self.parts().iter().flat_map(|(part, ..)| self.bars(&links, Some(part))).collect(),
            Kind::Pooled => self.bars(&links, None),
            Distribution => self.parts().iter().flat_map(|(part, ..)| self.distributions(&links, part)).collect(),
            Over(unit) => self.over(&links, unit),
            Loss => self.view.loss_groups().iter().flat_map(|group| self.loss(group)).collect(),
        }
    }

    fn label(&self, heading: &str) -> String {
        format!("{}, {heading}", self.figure.title)
    }

    fn bars(&self, links: &[&'a str], part: Option<&str>) -> Vec<Panel<'a>> {
        let (unit, better) = self.unit();
        let peers = self.peers(links);
        let columns: Vec<(&str, Cells)> = links.iter().map(|link| (*link, self.cells(&peers, link, part))).collect();
        let ends = columns.iter().flat_map(|(_, cells)| cells).filter_map(|(_, s)| summary(s));
        // One axis for all links, so that panels can be compared.
        let axis = Axis::of(ends.flat_map(|s| [s.median, s.low, s.high]), unit);
        let panel = |(link, cells): (&'a str, Cells<'a>)| {
            let heading = heading(link, part.unwrap_or_default());
            let mut bars: Vec<Bar> = cells
                .iter()
                .map(|(peer, samples)| Bar {
                    line: line(*peer),
                    value: summary(samples).ok_or_else(|| {
                        let word = samples.as_ref().err().map_or("no sample", |(word, _)| word);
                        format!("not measured: {word}")
                    }),
                })
                .collect();
            let sign = if better == Better::Higher { -1.0 } else { 1.0 };
            let worth = |bar: &Bar| bar.value.as_ref().map_or(f64::INFINITY, |s| s.median * sign);
            bars.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
            let reference = cells.iter().find(|(peer, _)| peer.name == REFERENCE).and_then(|(_, s)| summary(s));
            let svg = plots::bars(&self.label(&heading), &bars, &axis, reference.map(|s| s.median));
            Panel { columns: vec![(heading.clone(), cells)], heading, svg }
        };
        columns.into_iter().filter(|(_, cells)| cells.iter().any(|(_, s)| s.is_ok())).map(panel).collect()
    }

    fn distributions(&self, links: &[&'a str], part: &str) -> Vec<Panel<'a>> {
        let (unit, _) = self.unit();
        let peers = self.peers(links);
        let columns: Vec<(&str, Cells)> =
            links.iter().map(|link| (*link, self.cells(&peers, link, Some(part)))).collect();
        let all = columns.iter().flat_map(|(_, cells)| cells).filter_map(|(_, s)| s.as_ref().ok()).map(|s| sorted(s));
        let ends: Vec<f64> = all.filter(|s| !s.is_empty()).flat_map(|s| [s[0], s[s.len() - 1]]).collect();
        let axis = Axis::of_distributions(ends, unit);
        let enough = |cells: &[(Peer, Samples)]| cells.iter().any(|(_, s)| s.as_ref().is_ok_and(|s| s.len() >= 5));
        columns
            .into_iter()
            .filter(|(_, cells)| enough(cells))
            .map(|(link, cells)| {
                let heading = heading(link, part);
                let lines: Vec<(Line, &[f64])> =
                    cells.iter().filter_map(|(peer, s)| s.as_ref().ok().map(|s| (line(*peer), s.as_ref()))).collect();
                let svg = plots::distributions(&self.label(&heading), &lines, &axis);
                // The table of the medians stands below the figure of bars or curves; here it would repeat it.
                Panel { svg, columns: vec![(heading.clone(), cells)], heading }
            })
            .collect()
    }

    fn over(&self, links: &[&'a str], unit: &str) -> Vec<Panel<'a>> {
        let numbered: Vec<(f64, &str)> =
            self.parts().iter().filter_map(|(part, ..)| words::number_in(part).map(|n| (n, *part))).collect();
        if numbered.len() < 2 {
            return self.parts().iter().flat_map(|(part, ..)| self.bars(links, Some(part))).collect();
        }
        let groups = {
            let kinds: Vec<String> = numbered.iter().map(|(_, part)| words::words_in(part)).collect();
            super::view::first_of_each(kinds.iter().map(String::as_str))
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut panels = Vec::new();
        for group in groups {
            let mut parts: Vec<(f64, &str)> =
                numbered.iter().copied().filter(|(_, part)| words::words_in(part) == group).collect();
            parts.sort_by(|a, b| a.0.total_cmp(&b.0));
            for link in links {
                let columns: Vec<(f64, String, &str, Option<&str>)> =
                    parts.iter().map(|(n, part)| (*n, format!("{link}, {part}"), *link, Some(*part))).collect();
                let name = if group == unit { (*link).to_owned() } else { heading(link, &group) };
                panels.extend(self.curve_panel(name, &columns, unit));
            }
        }
        panels
    }

    fn loss(&self, group: &LossGroup<'a>) -> Vec<Panel<'a>> {
        let parts = self.parts();
        let panel = |(part, ..): &(&'a str, &'a str, Better)| {
            let columns: Vec<(f64, String, &str, Option<&str>)> = group
                .links
                .iter()
                .map(|(loss, link)| (*loss, format!("{} lost", words::value(*loss, "share")), *link, Some(*part)))
                .collect();
            let name = if part.is_empty() { group.title.clone() } else { format!("{part} · {}", group.title) };
            self.curve_panel(name, &columns, "share")
        };
        parts.iter().filter_map(panel).collect()
    }

    /// Curves over the first of each column.
    fn curve_panel(
        &self,
        name: String,
        columns: &[(f64, String, &str, Option<&str>)],
        choice_unit: &str,
    ) -> Option<Panel<'a>> {
        let (unit, _) = self.unit();
        let links: Vec<&'a str> = {
            let known = self.view.links();
            columns
                .iter()
                .filter_map(|(_, _, link, _)| known.iter().find(|(l, _)| l == link).map(|(l, _)| *l))
                .collect()
        };
        let peers = self.peers(&links);
        let cells: Vec<(f64, String, Cells)> =
            columns.iter().map(|(n, title, link, part)| (*n, title.clone(), self.cells(&peers, link, *part))).collect();
        if cells.iter().filter(|(_, _, c)| c.iter().any(|(_, s)| s.is_ok())).count() < 2 {
            return None;
        }
        let ends = cells.iter().flat_map(|(_, _, c)| c).filter_map(|(_, s)| summary(s));
        let axis = Axis::of(ends.flat_map(|s| [s.median, s.low, s.high]), unit);
        let curves: Vec<Curve> = peers
            .iter()
            .enumerate()
            .map(|(index, peer)| {
                let points: Vec<(f64, Summary)> =
                    cells.iter().filter_map(|(n, _, c)| summary(&c[index].1).map(|s| (*n, s))).collect();
                let last = points.last().map_or(f64::NEG_INFINITY, |(n, _)| *n);
                let failed = |s: &Samples| s.as_ref().is_err_and(|(word, _)| *word == "failed" || *word == "no sample");
                let broke = cells.iter().any(|(n, _, c)| *n > last && failed(&c[index].1));
                Curve { line: line(*peer), points, broke }
            })
            .collect();
        let choices: Vec<f64> = cells.iter().map(|(n, ..)| *n).collect();
        let svg = plots::curves(&self.label(&name), &curves, &axis, &choices, choice_unit);
        Some(Panel { heading: name, svg, columns: cells.into_iter().map(|(_, title, c)| (title, c)).collect() })
    }

    fn write(&self, number: usize, panels: &[Panel<'a>], out: &mut String) {
        let (unit, better) = self.unit();
        let caption = self.caption(panels, unit, better);
        let _ = write!(
            out,
            "<figure id=\"figure-{number}\"><figcaption><strong>Figure {number}. {} <span class=\"form\">{}</span></strong> {caption}</figcaption><div class=\"panels\">",
            escape(self.figure.title),
            words::form_name(self.form),
        );
        for panel in panels {
            let _ = write!(out, "<div class=\"panel\"><h4>{}</h4>{}</div>", escape(&panel.heading), panel.svg);
        }
        out.push_str("</div>");
        if self.figure.kind != Distribution {
            self.table(number, panels, unit, out);
        }
        out.push_str("</figure>\n");
    }

    /// What stands in place of a figure that nobody gave a sample for.
    fn write_nothing(&self, out: &mut String) {
        let mut notes = Notes::default();
        for peer in self.view.present() {
            for link in self.view.plain_links() {
                for (part, ..) in self.parts() {
                    if let Err((_, why)) = self.samples(peer, link, Some(part)) {
                        notes.number(&why);
                    }
                }
            }
        }
        let (title, form) = (escape(self.figure.title), words::form_name(self.form));
        let _ = write!(out, "<p><b>{title}</b>, {form}: not measured, nobody gave a sample.</p>");
        notes.write(out);
    }

    fn caption(&self, panels: &[Panel], unit: &str, better: Better) -> String {
        let mut text = self.figure.what.to_owned();
        if let Some((paper, place)) = self.figure.after {
            let _ = write!(text, " Redrawn after {}, {place}.", paper.short());
        }
        let unit = match unit {
            "share" => "per cent of all",
            "" => "a count",
            other => other,
        };
        let _ = match better {
            Better::Lower => write!(text, " In {unit}; lower is better."),
            Better::Higher => write!(text, " In {unit}; higher is better."),
            Better::Neither => write!(text, " In {unit}."),
        };
        let counts: Vec<usize> = panels
            .iter()
            .flat_map(|p| &p.columns)
            .flat_map(|(_, cells)| cells)
            .filter_map(|(_, s)| summary(s))
            .map(|s| s.count)
            .collect();
        let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        let samples = if least == most { words::count(most, "sample") } else { format!("{least} to {most} samples") };
        let _ = match self.figure.kind {
            Distribution => write!(
                text,
                " Every curve is one peer with {samples}; at the right their medians, the least on top. The table of the figure before has the numbers."
            ),
            _ => write!(text, " Medians of {samples} a cell{}.", spread_in_words(least, most)),
        };
        if panels.iter().any(|p| p.svg.contains("✕")) {
            text.push_str(" ✕ marks a peer that broke at what follows its last point.");
        }
        if matches!(self.figure.kind, Bars | Kind::Pooled) {
            text.push_str(" The best stands on top");
            let with_line = panels.iter().any(|p| p.svg.contains("class=\"sr\""));
            text.push_str(if with_line { "; the dashed line is the same without any remoting." } else { "." });
        }
        let scale = self.scale(panels);
        let _ = write!(text, " {scale}");
        escape(&text)
    }

    /// Which scale the panels have; they may differ by part.
    fn scale(&self, panels: &[Panel]) -> &'static str {
        let (unit, _) = self.unit();
        let is_log = |panel: &Panel| {
            let ends = panel.columns.iter().flat_map(|(_, cells)| cells).filter_map(|(_, s)| summary(s));
            Axis::of(ends.flat_map(|s| [s.median, s.low, s.high]), unit).scale_in_words().starts_with("log")
        };
        // A bar's stem without a bar is what plots.rs draws on a logarithmic axis.
        let dotted = |panel: &Panel| panel.svg.contains("<circle") && matches!(self.figure.kind, Bars | Kind::Pooled);
        match self.figure.kind {
            Bars | Kind::Pooled if panels.iter().all(dotted) => "Logarithmic scale, therefore dots and no bars.",
            Bars | Kind::Pooled if panels.iter().any(dotted) => {
                "Panels with dots have a logarithmic scale, those with bars begin at nothing."
            }
            Over(_) | Loss if panels.iter().any(is_log) => {
                "The vertical scale is logarithmic where its numbers rise by factors."
            }
            Distribution => "The horizontal scale is logarithmic where its numbers rise by factors.",
            _ => "Linear scale.",
        }
    }

    fn table(&self, number: usize, panels: &[Panel<'a>], unit: &str, out: &mut String) {
        let columns: Vec<&(String, Cells)> = panels.iter().flat_map(|p| &p.columns).collect();
        let mut peers: Vec<Peer> = Vec::new();
        for (peer, _) in columns.iter().flat_map(|(_, cells)| cells) {
            if !peers.iter().any(|known| known.name == peer.name) {
                peers.push(*peer);
            }
        }
        let _ = write!(
            out,
            "<details><summary>Table of figure {number}</summary><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table of figure {number}\"><table><caption>{}, {}: median, spread, samples</caption><thead><tr><th scope=\"col\">Peer</th>",
            escape(self.figure.title),
            words::form_name(self.form)
        );
        for (title, _) in &columns {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(title));
        }
        out.push_str("</tr></thead><tbody>");
        let mut notes = Notes::default();
        for peer in peers {
            let _ = write!(
                out,
                "<tr{}><th scope=\"row\">{}</th>",
                if peer.name == SUBJECT { " class=\"us\"" } else { "" },
                escape(peer.title())
            );
            for (_, cells) in &columns {
                let samples = cells.iter().find(|(p, _)| p.name == peer.name).map(|(_, samples)| samples);
                match samples {
                    Some(samples) => out.push_str(&cell(samples, unit, &mut notes)),
                    None => out.push_str("<td class=\"no\">not measured</td>"),
                }
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        notes.write(out);
        out.push_str("</details>");
    }
}

/// Reasons for empty cells, each said once.
#[derive(Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// The number of a reason.
    pub(super) fn number(&mut self, why: &str) -> usize {
        match self.0.iter().position(|known| known == why) {
            Some(place) => place + 1,
            None => {
                self.0.push(why.to_owned());
                self.0.len()
            }
        }
    }

    /// All of them.
    pub(super) fn write(&self, out: &mut String) {
        if !self.0.is_empty() {
            out.push_str("<ol class=\"notes\">");
            for why in &self.0 {
                let _ = write!(out, "<li>{}</li>", escape(&words::reason(why).0));
            }
            out.push_str("</ol>");
        }
    }
}

fn cell(samples: &Samples, unit: &str, notes: &mut Notes) -> String {
    match (summary(samples), samples) {
        (Some(s), _) => {
            let spread = match s.count {
                1 => "1 sample".to_owned(),
                count => format!("{} – {}, {count}", words::value(s.low, unit), words::value(s.high, unit)),
            };
            format!("<td>{} <small>{spread}</small></td>", words::value(s.median, unit))
        }
        (None, Err((_, why))) => format!("<td class=\"no\">not measured<sup>{}</sup></td>", notes.number(why)),
        (None, Ok(_)) => "<td class=\"no\">no number</td>".to_owned(),
    }
}

fn summary(samples: &Samples) -> Option<Summary> {
    samples.as_ref().ok().and_then(|samples| Summary::of(samples))
}

fn line(peer: Peer<'_>) -> Line<'_> {
    Line { title: peer.title(), place: peer.place(), strong: peer.name == SUBJECT }
}

fn heading(link: &str, part: &str) -> String {
    if part.is_empty() { link.to_owned() } else { format!("{link} · {part}") }
}
