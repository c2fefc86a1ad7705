//! The papers' figures, redrawn: which measure becomes which figure, its caption, its panels and
//! the table below it. figures.json lists them in the order of the page. From view.rs to
//! document.rs. Knows what each figure means; never how a panel is drawn.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

use super::document::{
    Axis, Bar, Cell, Curve, Distribution, Line, Panel, Plot, Row, Table, digits,
};
use super::papers;
use super::view::{self, LinkGroup, Peer, REFERENCE, SUBJECT, View, Wanted, first_of_each};
use super::{document, words};
use crate::results::{Better, Form, quantity};
use crate::stats::{Summary, quantile_sorted, sorted, spread_in_words};

/// How a figure is drawn.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// One panel for each link and part, one bar for each peer.
    Bars,
    /// The same of all parts together.
    Pooled,
    /// One panel for each link, curves over the number in the part; the unit of that number.
    Over(String),
    /// One panel for each group of links that differ in loss alone.
    Loss,
    /// One panel for each group of links that differ in their round trip alone.
    RoundTrip,
    /// One panel for each link and part, the distribution of each peer.
    Distribution,
}

/// One figure of one quantity.
#[derive(Deserialize)]
struct Figure {
    /// Of which workload; a star is any.
    workload: String,
    quantity: String,
    kind: Kind,
    /// The form in which it says most.
    form: Form,
    /// Which figure of which paper it redraws.
    after: Option<(String, String)>,
    /// A few words.
    title: String,
    /// What is measured, in a sentence.
    what: String,
}

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("figures.json")).expect("figures.json holds figures")
});

/// Steps of a distribution's curve: more are not told apart at this size.
const DISTRIBUTION_STEPS: usize = 48;
/// A distribution of fewer samples is no curve.
const DISTRIBUTION_MIN: usize = 5;

/// Whether a quantity of a workload in this form has a figure of its own, and need not stand among
/// the rest.
pub(super) fn is_drawn(view: &View, workload: &str, form: Form, quantity: &str) -> bool {
    let of_it = |f: &&Figure| f.workload == workload && f.quantity == quantity;
    let mut figures = FIGURES.iter().filter(of_it);
    figures.any(|figure| {
        !matches!(figure.kind, Kind::Loss | Kind::RoundTrip | Kind::Distribution)
            && chosen_form(view, workload, figure) == Some(form)
    })
}

/// The form in which a figure is drawn: the one that says most, or the other if only that was
/// measured. The other one stands among the tables: two figures of one thing would hide each other.
fn chosen_form(view: &View, workload: &str, figure: &Figure) -> Option<Form> {
    let other = if figure.form == Form::Normal { Form::SlowMotion } else { Form::Normal };
    let measured = |form: &Form| {
        view.measures(workload, *form)
            .any(|m| m.quantity == figure.quantity && !m.samples.is_empty())
    };
    let tried = |form: &Form| !view.parts(workload, *form, &figure.quantity).is_empty();
    let forms = [figure.form, other];
    forms.into_iter().find(measured).or_else(|| forms.into_iter().find(tried))
}

/// The figures of one workload.
pub(super) fn of_workload(view: &View, workload: &str, number: &mut usize) -> Vec<document::Block> {
    of_figures(view, workload, number, |figure| figure.workload == workload)
}

/// Of the figures that every workload has, those of one workload.
pub(super) fn of_any(
    view: &View,
    workload: &str,
    number: &mut usize,
    quantities: &[&str],
) -> Vec<document::Block> {
    let own = |name: &str| FIGURES.iter().any(|f| f.workload == workload && f.quantity == name);
    of_figures(view, workload, number, |f| {
        f.workload == "*" && quantities.contains(&f.quantity.as_str()) && !own(&f.quantity)
    })
}

fn of_figures(
    view: &View,
    workload: &str,
    number: &mut usize,
    chosen: impl Fn(&Figure) -> bool,
) -> Vec<document::Block> {
    let mut blocks = Vec::new();
    for figure in FIGURES.iter().filter(|f| chosen(f)) {
        let Some(form) = chosen_form(view, workload, figure) else { continue };
        let drawing = Drawing { view, figure, workload, form };
        let panels = drawing.panels();
        if panels.iter().flat_map(|p| &p.columns).any(|(_, c)| c.iter().any(|(_, s)| s.is_ok())) {
            *number += 1;
            blocks.push(drawing.finish(*number, panels));
        } else if matches!(figure.kind, Kind::Bars | Kind::Over(_)) {
            blocks.extend(drawing.nothing());
        }
    }
    blocks
}

/// Samples, or why there are none: in a word for the plot, and in a sentence for the notes.
type Samples<'a> = Result<Cow<'a, [f64]>, (&'static str, String)>;

/// One cell for each peer of a figure.
type Cells<'a> = Vec<(Peer<'a>, Samples<'a>)>;

/// A column of the table, and of a panel of curves: the number that was chosen, a heading, a link
/// and a part.
type Column<'s> = (f64, String, &'s str, Option<&'s str>);

/// One panel, and its columns in the table.
struct Drawn<'a> {
    panel: Panel,
    columns: Vec<(String, Cells<'a>)>,
}

struct Drawing<'v, 'a> {
    view: &'v View<'a>,
    figure: &'static Figure,
    workload: &'v str,
    form: Form,
}

impl<'v, 'a> Drawing<'v, 'a> {
    fn parts(&self) -> Vec<(&'a str, &'a str, Better)> {
        self.view.parts(self.workload, self.form, &self.figure.quantity)
    }

    fn unit(&self) -> (&'a str, Better) {
        self.parts().first().map_or(("", Better::Neither), |(_, unit, better)| (unit, *better))
    }

    /// One peer's samples of one part, or of all parts together.
    fn samples(&self, peer: Peer<'a>, link: &str, part: Option<&str>) -> Samples<'a> {
        let of = |part: &str| {
            let (workload, form, quantity) = (self.workload, self.form, &*self.figure.quantity);
            match self.view.cell(peer, link, &Wanted { workload, form, quantity, part }) {
                view::Cell::Samples(samples) => Ok(samples),
                view::Cell::Empty(word, why) => Err((word, why)),
            }
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
            _ if pooled.is_empty() => {
                Err(("no sample", "it ran and gave not one sample of this".into()))
            }
            _ => Ok(Cow::Owned(pooled)),
        }
    }

    /// Peers of this figure: without the reference if there is nothing for it to send.
    fn peers(&self, links: &[&str]) -> Vec<Peer<'a>> {
        let (unit, _) = self.unit();
        let name = self.figure.quantity.as_str();
        let on_link = matches!(unit, "bytes" | "packets") && name != quantity::MEMORY_SERVER;
        let sends = |peer: &Peer<'a>| {
            let nothing =
                |s: Samples| s.map_or(true, |samples| samples.iter().all(|sample| *sample == 0.0));
            !(peer.name == REFERENCE
                && (on_link || name == quantity::PACKETS_MS)
                && links.iter().all(|link| nothing(self.samples(*peer, link, None))))
        };
        self.view.present().filter(sends).collect()
    }

    fn cells(&self, peers: &[Peer<'a>], link: &str, part: Option<&str>) -> Cells<'a> {
        peers.iter().map(|peer| (*peer, self.samples(*peer, link, part))).collect()
    }

    fn panels(&self) -> Vec<Drawn<'a>> {
        // Links on which this workload was tried at all.
        let tried = |link: &&'a str| {
            self.view
                .results
                .trials
                .iter()
                .any(|t| t.link == **link && t.workload == self.workload && t.form == self.form)
        };
        let links: Vec<&str> = self.view.plain_links().into_iter().filter(tried).collect();
        let parts = self.parts();
        if parts.is_empty() {
            return Vec::new();
        }
        let each = |panels: &dyn Fn(&'a str) -> Vec<Drawn<'a>>| {
            parts.iter().flat_map(|(part, ..)| panels(part)).collect()
        };
        match &self.figure.kind {
            Kind::Bars => each(&|part| self.bars(&links, Some(part))),
            Kind::Pooled => self.bars(&links, None),
            Kind::Distribution => each(&|part| self.distributions(&links, part)),
            Kind::Over(unit) => self.over(&links, unit),
            Kind::Loss => {
                let groups = self.view.loss_groups();
                let title = |loss| format!("{} lost", words::value(loss, "share"));
                groups.iter().flat_map(|group| self.group(group, "share", title)).collect()
            }
            Kind::RoundTrip => {
                let groups = self.view.round_trip_groups();
                let title = |ms| words::value(ms, "ms");
                groups.iter().flat_map(|group| self.group(group, "ms", title)).collect()
            }
        }
    }

    fn panel(&self, heading: String, plot: Plot) -> Panel {
        Panel { label: format!("{}, {heading}", self.figure.title), heading, plot }
    }

    fn bars(&self, links: &[&str], part: Option<&str>) -> Vec<Drawn<'a>> {
        let (unit, better) = self.unit();
        let peers = self.peers(links);
        let columns: Vec<(&str, Cells)> =
            links.iter().map(|link| (*link, self.cells(&peers, link, part))).collect();
        // One axis for all links, so that panels can be compared.
        let axis = Axis::of(ends(columns.iter().flat_map(|(_, cells)| cells)), unit);
        let sign = if better == Better::Higher { -1.0 } else { 1.0 };
        let panel = |(link, cells): (&str, Cells<'a>)| {
            let heading = heading(link, part.unwrap_or_default());
            let mut bars: Vec<Bar> = cells
                .iter()
                .map(|(peer, samples)| {
                    let word = samples.as_ref().err().map_or("no sample", |(word, _)| word);
                    let found = summary(samples);
                    let text = found
                        .map_or(format!("not measured: {word}"), |s| words::value(s.median, unit));
                    Bar { line: line(*peer), value: found.map(Into::into), text }
                })
                .collect();
            let worth = |bar: &Bar| bar.value.map_or(f64::INFINITY, |value| value.at * sign);
            bars.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
            let reference = cells.iter().find(|(peer, _)| peer.name == REFERENCE);
            let reference = reference.and_then(|(_, s)| summary(s)).map(|s| digits(s.median));
            let plot = Plot::Bars { axis: axis.clone(), bars, reference };
            Drawn { panel: self.panel(heading.clone(), plot), columns: vec![(heading, cells)] }
        };
        let columns = columns.into_iter();
        columns.filter(|(_, cells)| cells.iter().any(|(_, s)| s.is_ok())).map(panel).collect()
    }

    fn distributions(&self, links: &[&str], part: &str) -> Vec<Drawn<'a>> {
        let (unit, _) = self.unit();
        let peers = self.peers(links);
        let columns: Vec<(&str, Cells)> =
            links.iter().map(|link| (*link, self.cells(&peers, link, Some(part)))).collect();
        let all = columns.iter().flat_map(|(_, cells)| cells);
        let all = all.filter_map(|(_, s)| s.as_ref().ok()).map(|s| sorted(s));
        let ends: Vec<f64> =
            all.filter(|s| !s.is_empty()).flat_map(|s| [s[0], s[s.len() - 1]]).collect();
        let axis = Axis::of_distributions(ends, unit);
        let enough = |cells: &[(Peer, Samples)]| {
            cells.iter().any(|(_, s)| s.as_ref().is_ok_and(|s| s.len() >= DISTRIBUTION_MIN))
        };
        let panel = |(link, cells): (&str, Cells<'a>)| {
            let heading = heading(link, part);
            let mut peers: Vec<(f64, Distribution)> = cells
                .iter()
                .filter_map(|(peer, samples)| {
                    let samples = sorted(samples.as_ref().ok()?);
                    let median = quantile_sorted(&samples, 0.5);
                    let step = |n: usize| n as f64 / DISTRIBUTION_STEPS as f64;
                    let values = (0..=DISTRIBUTION_STEPS)
                        .map(|n| digits(quantile_sorted(&samples, step(n))))
                        .collect();
                    let line = line(*peer);
                    let text = format!("{} {}", line.title, words::value(median, unit));
                    Some((median, Distribution { line, values, text }))
                })
                .collect();
            peers.sort_by(|a, b| a.0.total_cmp(&b.0));
            let peers = peers.into_iter().map(|(_, peer)| peer).collect();
            let plot = Plot::Distributions { axis: axis.clone(), peers };
            Drawn { panel: self.panel(heading.clone(), plot), columns: vec![(heading, cells)] }
        };
        columns.into_iter().filter(|(_, cells)| enough(cells)).map(panel).collect()
    }

    fn over(&self, links: &[&str], unit: &str) -> Vec<Drawn<'a>> {
        let parts = self.parts();
        let with_number = |part: &&'a str| words::number_in(part).map(|number| (number, *part));
        let numbered: Vec<(f64, &str)> =
            parts.iter().filter_map(|(part, ..)| with_number(part)).collect();
        if numbered.len() < 2 {
            return parts.iter().flat_map(|(part, ..)| self.bars(links, Some(part))).collect();
        }
        let kinds: Vec<String> = numbered.iter().map(|(_, part)| words::words_in(part)).collect();
        let mut panels = Vec::new();
        for group in first_of_each(kinds.iter().map(String::as_str)) {
            let of_group = numbered.iter().filter(|(_, part)| words::words_in(part) == group);
            let mut of_group: Vec<(f64, &str)> = of_group.copied().collect();
            of_group.sort_by(|a, b| a.0.total_cmp(&b.0));
            for link in links {
                let column = |(n, part): &(f64, &'a str)| -> Column<'_> {
                    (*n, format!("{link}, {part}"), link, Some(*part))
                };
                let columns: Vec<Column> = of_group.iter().map(column).collect();
                let name = if group == unit { (*link).to_owned() } else { heading(link, group) };
                panels.extend(self.curve_panel(name, &columns, unit));
            }
        }
        panels
    }

    /// A panel for each part, over the number in which the links of a group differ.
    fn group(
        &self,
        group: &LinkGroup<'a>,
        unit: &str,
        title: impl Fn(f64) -> String,
    ) -> Vec<Drawn<'a>> {
        let panel = |(part, ..): &(&'a str, &'a str, Better)| {
            let column = |(number, link): &(f64, &'a str)| -> Column<'_> {
                (*number, title(*number), *link, Some(*part))
            };
            let columns: Vec<Column> = group.links.iter().map(column).collect();
            let part = if part.is_empty() { String::new() } else { format!("{part} · ") };
            self.curve_panel(format!("{part}{}", group.title), &columns, unit)
        };
        self.parts().iter().filter_map(panel).collect()
    }

    /// Curves over the first of each column.
    fn curve_panel(
        &self,
        name: String,
        columns: &[Column<'_>],
        choice_unit: &str,
    ) -> Option<Drawn<'a>> {
        let (unit, _) = self.unit();
        let links: Vec<&str> = columns.iter().map(|(_, _, link, _)| *link).collect();
        let peers = self.peers(&links);
        let cells: Vec<(f64, String, Cells)> = columns
            .iter()
            .map(|(n, title, link, part)| (*n, title.clone(), self.cells(&peers, link, *part)))
            .collect();
        if cells.iter().filter(|(_, _, c)| c.iter().any(|(_, s)| s.is_ok())).count() < 2 {
            return None;
        }
        let axis = Axis::of(ends(cells.iter().flat_map(|(_, _, c)| c)), unit);
        let curve = |(index, peer): (usize, &Peer<'a>)| {
            let points: Vec<(f64, Summary)> =
                cells.iter().filter_map(|(n, _, c)| Some((*n, summary(&c[index].1)?))).collect();
            let last = points.last().map_or(f64::NEG_INFINITY, |(n, _)| *n);
            let failed = |s: &Samples| {
                s.as_ref().is_err_and(|(word, _)| *word == "failed" || *word == "no sample")
            };
            let broke = cells.iter().any(|(n, _, c)| *n > last && failed(&c[index].1));
            let median = points.last().map(|(_, s)| words::value(s.median, unit));
            let (line, broke) = (line(*peer), if broke { " ✕" } else { "" });
            let text = format!("{} {}{broke}", line.title, median.unwrap_or_default());
            let points = points.into_iter().map(|(n, summary)| (n, summary.into())).collect();
            Curve { line, points, text }
        };
        let curves: Vec<Curve> = peers.iter().enumerate().map(curve).collect();
        let choices: Vec<f64> = cells.iter().map(|(n, ..)| *n).collect();
        let across = Axis::of_choices(&choices, choice_unit);
        let plot = Plot::Curves { axis, across, choices, curves };
        let columns = cells.into_iter().map(|(_, title, c)| (title, c)).collect();
        Some(Drawn { panel: self.panel(name, plot), columns })
    }

    fn finish(&self, number: usize, drawn: Vec<Drawn<'a>>) -> document::Block {
        let caption = self.caption(&drawn);
        let (panels, columns): (Vec<Panel>, Vec<_>) =
            drawn.into_iter().map(|drawn| (drawn.panel, drawn.columns)).unzip();
        // The medians of a distribution stand in the table of the figure before.
        let table =
            (self.figure.kind != Kind::Distribution).then(|| self.table(number, &columns.concat()));
        document::Block::Figure(document::Figure {
            number,
            title: &self.figure.title,
            form: words::form_name(self.form),
            caption,
            panels,
            table,
        })
    }

    /// What stands in place of a figure that nobody gave a sample for.
    fn nothing(&self) -> [document::Block; 2] {
        let mut reasons: Vec<String> = Vec::new();
        for peer in self.view.present() {
            for link in self.view.plain_links() {
                for (part, ..) in self.parts() {
                    if let Err((_, why)) = self.samples(peer, link, Some(part)) {
                        reasons.push(words::reason(&why).0);
                    }
                }
            }
        }
        let (title, form) = (&self.figure.title, words::form_name(self.form));
        let item =
            |why: &str| document::Item { name: String::new(), text: why.to_owned(), more: None };
        let reasons = first_of_each(reasons.iter().map(String::as_str)).into_iter().map(item);
        [
            document::Block::P(format!("{title}, {form}: not measured, nobody gave a sample.")),
            document::Block::List(reasons.collect()),
        ]
    }

    fn caption(&self, drawn: &[Drawn]) -> String {
        let (unit, better) = self.unit();
        let mut text = self.figure.what.clone();
        if let Some((paper, place)) = &self.figure.after {
            let _ = write!(text, " Redrawn after {}, {place}.", papers::short(paper));
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
        let cells = drawn.iter().flat_map(|d| &d.columns).flat_map(|(_, cells)| cells);
        let counts: Vec<usize> =
            cells.filter_map(|(_, s)| summary(s)).map(|summary| summary.count).collect();
        let least = counts.iter().min().copied().unwrap_or(0);
        let most = counts.iter().max().copied().unwrap_or(0);
        let samples = if least == most {
            words::count(most, "sample")
        } else {
            format!("{least} to {most} samples")
        };
        let _ = match self.figure.kind {
            Kind::Distribution => write!(
                text,
                " Every curve is one peer with {samples}; at the right their medians, the least \
                 on top. The table of the figure before has the numbers."
            ),
            _ => write!(text, " Medians of {samples} a cell{}.", spread_in_words(least, most)),
        };
        let plots = || drawn.iter().map(|drawn| &drawn.panel.plot);
        let broke = |plot: &Plot| match plot {
            Plot::Curves { curves, .. } => curves.iter().any(|curve| curve.text.ends_with('✕')),
            _ => false,
        };
        if plots().any(broke) {
            text.push_str(" ✕ marks a peer that broke at what follows its last point.");
        }
        if plots().any(|plot| matches!(plot, Plot::Bars { .. })) {
            text.push_str(" The best stands on top");
            let with_line = |plot: &Plot| matches!(plot, Plot::Bars { reference: Some(_), .. });
            text.push_str(if plots().any(with_line) {
                "; the dashed line is the same without any remoting."
            } else {
                "."
            });
        }
        let is_log = |plot: &Plot| match plot {
            Plot::Bars { axis, .. }
            | Plot::Curves { axis, .. }
            | Plot::Distributions { axis, .. } => axis.log,
        };
        let bars = matches!(self.figure.kind, Kind::Bars | Kind::Pooled);
        text.push_str(if bars && plots().all(is_log) {
            " Logarithmic scale, therefore dots and no bars."
        } else if bars && plots().any(is_log) {
            " Panels with dots have a logarithmic scale, those with bars begin at nothing."
        } else if self.figure.kind == Kind::Distribution {
            " The horizontal scale is logarithmic where its numbers rise by factors."
        } else if plots().any(is_log) {
            " The vertical scale is logarithmic where its numbers rise by factors."
        } else {
            " Linear scale."
        });
        text
    }

    fn table(&self, number: usize, columns: &[(String, Cells<'a>)]) -> Table {
        let (unit, _) = self.unit();
        let mut peers: Vec<Peer> = Vec::new();
        for (peer, _) in columns.iter().flat_map(|(_, cells)| cells) {
            if !peers.iter().any(|known| known.name == peer.name) {
                peers.push(*peer);
            }
        }
        let form = words::form_name(self.form);
        let head = columns.iter().map(|(title, _)| title.clone());
        let mut table = Table {
            label: format!("Table of figure {number}"),
            caption: Some(format!("{}, {form}: median, spread, samples", self.figure.title)),
            head: std::iter::once("Peer".to_owned()).chain(head).collect(),
            ..Table::default()
        };
        for peer in peers {
            let mut cells = vec![Cell::Value(peer.title().to_owned())];
            for (_, of_column) in columns {
                let found = of_column.iter().find(|(p, _)| p.name == peer.name);
                cells.push(match found.map(|(_, samples)| (summary(samples), samples)) {
                    Some((Some(s), _)) => {
                        let [low, high] = [s.low, s.high].map(|value| words::value(value, unit));
                        let spread = match s.count {
                            1 => "1 sample".to_owned(),
                            count => format!("{low} – {high}, {count}"),
                        };
                        Cell::Spread(words::value(s.median, unit), spread)
                    }
                    Some((None, Err((_, why)))) => table.not_measured(why),
                    Some((None, Ok(_))) => Cell::Empty("no number".to_owned(), None),
                    None => Cell::Empty("not measured".to_owned(), None),
                });
            }
            table.rows.push(Row { strong: peer.name == SUBJECT, cells });
        }
        table
    }
}

/// Medians and the ends of their whiskers.
fn ends<'a, 'c>(
    cells: impl Iterator<Item = &'c (Peer<'a>, Samples<'a>)>,
) -> impl Iterator<Item = f64>
where
    'a: 'c,
{
    cells.filter_map(|(_, s)| summary(s)).flat_map(|s| [s.median, s.low, s.high])
}

fn summary(samples: &Samples) -> Option<Summary> {
    samples.as_ref().ok().and_then(|samples| Summary::of(samples))
}

fn line(peer: Peer<'_>) -> Line {
    Line { title: peer.title().to_owned(), place: peer.place(), strong: peer.name == SUBJECT }
}

fn heading(link: &str, part: &str) -> String {
    if part.is_empty() { link.to_owned() } else { format!("{link} · {part}") }
}
