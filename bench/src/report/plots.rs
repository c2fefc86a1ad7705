//! One panel each: bars, curves over a number, and cumulative distributions.
//! From the medians and samples that sections.rs picked, through plotters, to SVG inside the page.
//! Knows values, inks and names; never where they were measured.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, EmptyElement, IntoDrawingArea, IntoFont, PathElement, Rectangle,
    Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, RGBColor, ShapeStyle, TRANSPARENT, TextStyle};

use super::canvas::{Canvas, Ink, UNIT, escape};
use super::stats::{Summary, quantile, sorted};
use super::words;

/// Width of a panel; three stand beside each other on a desktop, one on a telephone.
const WIDTH: u32 = 440;
/// Names at the left of bars.
const NAMES: u32 = 132;
/// Values at the right of bars.
const VALUES: u32 = 74;
/// Height of one bar with the gap below it.
const ROW: u32 = 22;
/// Width of a panel with curves: its labels are longer.
const CURVES_WIDTH: u32 = 480;
/// Height of a panel with curves.
const CURVES: u32 = 250;
/// Names and values at the right of curves.
const LABELS: u32 = 176;
/// Numbers below curves, and the room above them.
const BELOW: f64 = 24.0;
const ABOVE: f64 = 10.0;
/// Letters, in CSS pixels; the style sheet says the same.
const LETTER: f64 = 12.0;
/// Between the least and the greatest value, from which on the scale is logarithmic: below it every bar is still visible.
const LOG_FROM: f64 = 25.0;
/// The same for distributions.
const SPREAD_FROM: f64 = 4.0;
/// Most points of a distribution's curve: more are not told apart at this size.
const CURVE_POINTS: usize = 48;
/// Least distance between two numbers below an axis, as a share of it.
const TICKS_APART: f64 = 0.1;
/// Distance between two labels at curves.
const LABEL_STEP: f64 = 15.0;

/// Whether equal distances are equal differences or equal factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Differences.
    Linear,
    /// Factors.
    Log,
}

/// One axis: from where to where, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    unit: String,
}

impl Axis {
    /// An axis on which all of these values stand; from nothing, or logarithmic where factors between them demand it.
    pub(super) fn of(values: impl IntoIterator<Item = f64>, unit: &str) -> Axis {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let high = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        let (scale, low, high) = if unit == "share" {
            (Scale::Linear, 0.0, high.max(1.0))
        } else if high <= 0.0 {
            (Scale::Linear, 0.0, 1.0)
        } else if high / least > LOG_FROM && values.iter().all(|v| *v > 0.0) {
            (Scale::Log, least * 0.75, high * 1.15)
        } else {
            (Scale::Linear, 0.0, high * 1.02)
        };
        Axis { scale, low, high, unit: unit.to_owned() }
    }

    /// An axis for distributions: nothing stands on its zero, so factors are shown as soon as there are some.
    pub(super) fn of_distributions(values: impl IntoIterator<Item = f64>, unit: &str) -> Axis {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        if unit != "share" && low > 0.0 && high / low > SPREAD_FROM {
            Axis { scale: Scale::Log, low: low * 0.85, high: high * 1.1, unit: unit.to_owned() }
        } else {
            Axis::of(values, unit)
        }
    }

    /// An axis for numbers that were chosen and not measured, as loss shares: spread over its whole length.
    fn of_choices(values: &[f64], unit: &str) -> Axis {
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let scale = if low > 0.0 && high / low > LOG_FROM { Scale::Log } else { Scale::Linear };
        let room = if high > low { 0.0 } else { 1.0 };
        Axis { scale, low: low - room, high: high + room, unit: unit.to_owned() }
    }

    /// How its scale is named under a panel.
    pub(super) fn scale_in_words(&self) -> &'static str {
        match self.scale {
            Scale::Linear => "linear scale",
            Scale::Log => "logarithmic scale",
        }
    }

    /// Whether bars can stand on it: the length of a bar means nothing where the axis has no zero.
    fn has_zero(&self) -> bool {
        self.scale == Scale::Linear
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.low).log10(),
        }
    }

    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear => place,
            Scale::Log => 10f64.powf(place),
        }
    }

    /// Round values on it, at most about `count`.
    fn ticks(&self, count: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let rough = (self.high - self.low) / count.max(1) as f64;
                let size = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * size).into_iter().find(|s| *s >= rough * 0.999);
                let step = step.unwrap_or(size * 10.0);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step * 1.000_001).floor() as i64;
                (first..=last).map(|n| n as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
                let of = |steps: &[f64]| -> Vec<f64> {
                    let every = decades.clone().flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
                    every.filter(|v| (self.low..=self.high).contains(v)).collect()
                };
                // The densest that still leaves room for its numbers; of ten decades every second or third.
                let dense = [[1.0, 2.0, 5.0].as_slice(), &[1.0, 3.0], &[1.0]].map(of);
                let fits = dense.iter().find(|ticks| ticks.len() <= count);
                let ticks = fits.unwrap_or(&dense[2]);
                let skip = ticks.len().div_ceil(count.max(1));
                ticks.iter().copied().step_by(skip.max(1)).collect()
            }
        }
    }

    /// Of chosen numbers those whose names do not run into each other, the first and the last in any case.
    fn apart(&self, choices: &[f64]) -> Vec<f64> {
        let whole = self.place(self.high) - self.place(self.low);
        let is_apart = |a: f64, b: f64| (self.place(a) - self.place(b)).abs() > whole * TICKS_APART;
        let Some(last) = choices.last() else { return Vec::new() };
        let mut kept: Vec<f64> = Vec::new();
        for choice in choices {
            let is_free = kept.last().is_none_or(|before| is_apart(*before, *choice));
            if choice == last || (is_free && is_apart(*choice, *last)) {
                kept.push(*choice);
            }
        }
        kept
    }

    fn coordinate(&self, ticks: Vec<f64>) -> Coordinate {
        let ticks = ticks.into_iter().map(|v| self.place(v)).collect();
        Coordinate { low: self.place(self.low), high: self.place(self.high), ticks }
    }
}

/// An axis as plotters asks for it: lines stand exactly at the ticks that the axis chose.
struct Coordinate {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Ranged for Coordinate {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.low) / (self.high - self.low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // There are no lines of a second order.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// One peer in a panel.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    /// As the label says it.
    pub(super) title: &'a str,
    /// Its place in the palette.
    pub(super) place: u8,
    /// Whether it is the one that the page is about.
    pub(super) strong: bool,
}

impl Line<'_> {
    fn ink(&self) -> Ink {
        Ink::Peer(self.place)
    }
}

/// A bar, or the reason why there is none.
pub(super) struct Bar<'a> {
    /// Whose.
    pub(super) line: Line<'a>,
    /// Its value; otherwise a word or two for why there is none.
    pub(super) value: Result<Summary, String>,
}

/// A curve: one summary for each number on the horizontal axis at which there is one.
pub(super) struct Curve<'a> {
    /// Whose.
    pub(super) line: Line<'a>,
    /// In the order of the axis.
    pub(super) points: Vec<(f64, Summary)>,
    /// Whether it broke at the numbers that follow its last point.
    pub(super) broke: bool,
}

type Chart<'a, 'c> = ChartContext<'a, Canvas<'c>, Cartesian2d<Coordinate, Coordinate>>;

fn letters(ink: Ink, size: f64, strong: bool, h: HPos, v: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", size * f64::from(UNIT)).into_font();
    let font = if strong { font.style(FontStyle::Bold) } else { font };
    TextStyle { font, color: ink.code().to_backend_color(), pos: Pos::new(h, v) }
}

fn stroke(ink: Ink, strong: bool) -> ShapeStyle {
    let RGBColor(r, g, b) = ink.code();
    RGBColor(r, g, b).stroke_width(if strong { 2 * UNIT as u32 } else { UNIT as u32 })
}

fn px(pixels: f64) -> i32 {
    (pixels * f64::from(UNIT)).round() as i32
}

/// The outer element; `label` is what a screen reader says, the table below the figure holds the figures.
fn wrap(label: &str, width: u32, height: u32, body: &str) -> String {
    format!(
        "<svg role=\"img\" viewBox=\"0 0 {} {}\" aria-label=\"{}\">{body}</svg>",
        width * UNIT as u32,
        height * UNIT as u32,
        escape(label)
    )
}

/// Horizontal bars, best first as they were given; dots on a stem where the axis has no zero. `reference` is drawn as a
/// line through all of them.
pub(super) fn bars(label: &str, bars: &[Bar], axis: &Axis, reference: Option<f64>) -> String {
    let height = ROW * bars.len() as u32 + 27;
    let mut body = String::new();
    draw_bars(Canvas::new(&mut body, WIDTH, height), bars, axis, reference);
    wrap(label, WIDTH, height, &body)
}

fn draw_bars(canvas: Canvas, bars: &[Bar], axis: &Axis, reference: Option<f64>) {
    let root = canvas.into_drawing_area();
    let rows = bars.len() as f64;
    // Upside down, so that the first stands on top.
    let vertical = Coordinate { low: rows, high: 0.0, ticks: Vec::new() };
    let mut chart: Chart = drawn(
        ChartBuilder::on(&root)
            .x_label_area_size(px(22.0))
            .margin_left(px(f64::from(NAMES)))
            .margin_right(px(f64::from(VALUES)))
            .margin_top(px(4.0))
            .build_cartesian_2d(axis.coordinate(axis.ticks(4)), vertical),
    );
    mesh(&mut chart, axis, None);
    let area = chart.plotting_area();
    let zero = axis.place(axis.low);
    if let Some(reference) = reference {
        let x = axis.place(reference);
        drawn(area.draw(&PathElement::new(vec![(x, 0.0), (x, rows)], stroke(Ink::Reference, false))));
    }
    for (row, bar) in bars.iter().enumerate() {
        let (top, middle, bottom) = (row as f64 + 0.18, row as f64 + 0.5, row as f64 + 0.82);
        let name = letters(
            if bar.line.strong { Ink::Text } else { Ink::Dim },
            LETTER,
            bar.line.strong,
            HPos::Right,
            VPos::Center,
        );
        drawn(
            area.draw(&(EmptyElement::at((zero, middle)) + Text::new(bar.line.title.to_owned(), (px(-8.0), 0), name))),
        );
        let (end, text, ink) = match &bar.value {
            Ok(summary) => {
                let at = axis.place(summary.median);
                if axis.has_zero() {
                    drawn(area.draw(&Rectangle::new([(zero, top), (at, bottom)], bar.line.ink().code().filled())));
                } else {
                    drawn(area.draw(&PathElement::new(
                        vec![(zero, middle), (at, middle)],
                        stroke(Ink::Pale(bar.line.place), false),
                    )));
                    drawn(area.draw(&Circle::new((at, middle), px(4.5), bar.line.ink().code().filled())));
                }
                let (low, high) = (axis.place(summary.low), axis.place(summary.high));
                if summary.count > 1 && high > low {
                    let whisker = vec![(low, middle), (high, middle)];
                    drawn(area.draw(&PathElement::new(whisker, stroke(Ink::Text, false))));
                }
                (at.max(high), words::value(summary.median, &axis.unit), Ink::Text)
            }
            Err(why) => (zero, why.clone(), Ink::Dim),
        };
        let style = letters(ink, LETTER, bar.line.strong && bar.value.is_ok(), HPos::Left, VPos::Center);
        drawn(area.draw(&(EmptyElement::at((end, middle)) + Text::new(text, (px(6.0), 0), style))));
    }
    drawn(root.present());
}

/// Curves of medians over a number that was chosen, with their spread, each labelled at its end.
pub(super) fn curves(label: &str, curves: &[Curve], axis: &Axis, choices: &[f64], choice_unit: &str) -> String {
    let mut body = String::new();
    draw_curves(
        Canvas::new(&mut body, CURVES_WIDTH, CURVES),
        curves,
        axis,
        &Axis::of_choices(choices, choice_unit),
        choices,
    );
    wrap(label, CURVES_WIDTH, CURVES, &body)
}

fn draw_curves(canvas: Canvas, curves: &[Curve], axis: &Axis, across: &Axis, choices: &[f64]) {
    let root = canvas.into_drawing_area();
    let mut chart: Chart = drawn(
        ChartBuilder::on(&root)
            .x_label_area_size(px(BELOW))
            .y_label_area_size(px(58.0))
            .margin_right(px(f64::from(LABELS)))
            .margin_top(px(ABOVE))
            .build_cartesian_2d(across.coordinate(across.apart(choices)), axis.coordinate(axis.ticks(5))),
    );
    mesh(&mut chart, across, Some(axis));
    let area = chart.plotting_area();
    let (x_low, x_high) = (across.place(across.low), across.place(across.high));
    for curve in curves.iter().filter(|c| !c.points.is_empty()) {
        for (x, summary) in curve.points.iter().filter(|(_, s)| s.count > 1 && s.high > s.low) {
            let x = across.place(*x);
            let ends = vec![(x, axis.place(summary.low)), (x, axis.place(summary.high))];
            drawn(area.draw(&PathElement::new(ends, stroke(Ink::Pale(curve.line.place), false))));
        }
        let points: Vec<(f64, f64)> =
            curve.points.iter().map(|(x, s)| (across.place(*x), axis.place(s.median))).collect();
        drawn(area.draw(&PathElement::new(points.clone(), stroke(curve.line.ink(), curve.line.strong))));
        for point in points {
            let radius = if curve.line.strong { 4.0 } else { 2.8 };
            drawn(area.draw(&Circle::new(point, px(radius), curve.line.ink().code().filled())));
        }
    }
    // Labels stand where their curves end, pushed apart where these are closer than letters are high.
    let height = f64::from(CURVES) - ABOVE - BELOW;
    let (low, high) = (axis.place(axis.low), axis.place(axis.high));
    let down = |place: f64| (high - place) / (high - low) * height;
    let mut labels: Vec<(f64, &Curve)> =
        curves.iter().filter_map(|c| c.points.last().map(|(_, s)| (down(axis.place(s.median)), c))).collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = labels.iter().map(|(y, _)| *y).collect();
    for ((at, (y, curve)), (end, summary)) in spread(&wanted, LABEL_STEP, height)
        .into_iter()
        .zip(&labels)
        .zip(labels.iter().filter_map(|(_, c)| c.points.last()))
    {
        let place = high - at / height * (high - low);
        // From the end of the curve to its label; a curve that ends early keeps the space behind it empty.
        if *end >= across.high {
            let gap = (x_high - x_low) / (f64::from(CURVES_WIDTH - LABELS) - 58.0);
            let from = high - y / height * (high - low);
            let lead = vec![(x_high + gap * 4.0, from), (x_high + gap * 16.0, place)];
            drawn(area.draw(&PathElement::new(lead, stroke(Ink::Pale(curve.line.place), false))));
        }
        let broke = if curve.broke { " ✕" } else { "" };
        let text = format!("{} {}{broke}", curve.line.title, words::value(summary.median, &axis.unit));
        let style = letters(curve.line.ink(), LETTER, curve.line.strong, HPos::Left, VPos::Center);
        drawn(area.draw(&(EmptyElement::at((x_high, place)) + Text::new(text, (px(19.0), 0), style))));
    }
    drawn(root.present());
}

/// Shares of samples below a value, one step curve for each peer, listed at the right by their medians.
pub(super) fn distributions(label: &str, peers: &[(Line, &[f64])], axis: &Axis) -> String {
    let mut body = String::new();
    draw_distributions(Canvas::new(&mut body, CURVES_WIDTH, CURVES), peers, axis);
    wrap(label, CURVES_WIDTH, CURVES, &body)
}

fn draw_distributions(canvas: Canvas, peers: &[(Line, &[f64])], axis: &Axis) {
    let root = canvas.into_drawing_area();
    let share = Axis { scale: Scale::Linear, low: 0.0, high: 1.0, unit: "share".into() };
    let mut chart: Chart = drawn(
        ChartBuilder::on(&root)
            .x_label_area_size(px(BELOW))
            .y_label_area_size(px(48.0))
            .margin_right(px(f64::from(LABELS)))
            .margin_top(px(ABOVE))
            .build_cartesian_2d(axis.coordinate(axis.ticks(4)), share.coordinate(share.ticks(4))),
    );
    mesh(&mut chart, axis, Some(&share));
    let area = chart.plotting_area();
    let mut order: Vec<(f64, &Line, Vec<f64>)> = Vec::new();
    for (line, samples) in peers {
        let samples = sorted(samples);
        if !samples.is_empty() {
            order.push((quantile(&samples, 0.5), line, samples));
        }
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let step = LABEL_STEP.min((f64::from(CURVES) - ABOVE - BELOW) / order.len().max(1) as f64)
        / (f64::from(CURVES) - ABOVE - BELOW);
    let edge = axis.place(axis.high);
    // The strong one last, on top of the others.
    let ranks: Vec<usize> = (0..order.len())
        .filter(|i| !order[*i].1.strong)
        .chain((0..order.len()).filter(|i| order[*i].1.strong))
        .collect();
    for rank in ranks {
        let (median, line, samples) = &order[rank];
        let points: Vec<(f64, f64)> = (0..=CURVE_POINTS)
            .map(|n| n as f64 / CURVE_POINTS as f64)
            .map(|share| (axis.place(quantile(samples, share)), share))
            .collect();
        drawn(area.draw(&PathElement::new(points, stroke(line.ink(), line.strong))));
        let y = 1.0 - (rank as f64 + 0.5) * step;
        let text = format!("{} {}", line.title, words::value(*median, &axis.unit));
        let style = letters(line.ink(), LETTER, line.strong, HPos::Left, VPos::Center);
        drawn(area.draw(
            &(EmptyElement::at((edge, y))
                + PathElement::new(vec![(px(8.0), 0), (px(24.0), 0)], stroke(line.ink(), line.strong))
                + Text::new(text, (px(28.0), 0), style)),
        ));
    }
    drawn(root.present());
}

/// Grid and numbers; the vertical axis only where it holds values.
fn mesh(chart: &mut Chart, across: &Axis, upward: Option<&Axis>) {
    let x_words = |place: &f64| words::tick(across.value(*place), &across.unit);
    let y_words = |place: &f64| upward.map_or_else(String::new, |axis| words::tick(axis.value(*place), &axis.unit));
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(stroke(Ink::Grid, false))
        .axis_style(stroke(Ink::Grid, false))
        .label_style(letters(Ink::Dim, LETTER, false, HPos::Center, VPos::Center))
        .set_all_tick_mark_size(0)
        .x_label_formatter(&x_words)
        .y_label_formatter(&y_words);
    if upward.is_none() {
        mesh.disable_y_mesh().disable_y_axis();
    }
    drawn(mesh.draw());
}

/// Drawing goes to memory and fails only for a programming error.
fn drawn<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("a panel could not be drawn: {error}"),
    }
}

/// Moves wished places (in order) apart to at least `step` within 0 to `height`, each as little as need be.
fn spread(wanted: &[f64], step: f64, height: f64) -> Vec<f64> {
    let step = step.min(height / wanted.len().max(1) as f64);
    let mut places = wanted.to_vec();
    for index in 1..places.len() {
        places[index] = places[index].max(places[index - 1] + step);
    }
    let mut limit = height;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - step;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(median: f64) -> Summary {
        Summary { count: 9, median, low: median * 0.9, high: median * 1.2 }
    }

    fn line(title: &str) -> Line<'_> {
        Line { title, place: 3, strong: title == "thinc" }
    }

    #[test]
    fn axes_start_at_nothing_unless_factors_demand_otherwise() {
        let linear = Axis::of([10.0, 100.0], "ms");
        assert!(linear.has_zero() && linear.scale_in_words() == "linear scale");
        assert_eq!(linear.ticks(5), [0.0, 50.0, 100.0]);
        let log = Axis::of([1.0, 5000.0], "ms");
        assert!(!log.has_zero() && log.scale_in_words() == "logarithmic scale");
        assert_eq!(log.ticks(5), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Axis::of([90.0, 4000.0], "ms").ticks(4), [100.0, 300.0, 1000.0, 3000.0]);
        // A zero stands on no logarithmic axis.
        assert!(Axis::of([0.0, 1.0, 5000.0], "ms").has_zero());
        assert_eq!(Axis::of([0.2, 0.9], "share").high, 1.0);
        for strange in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![1e-9, 1e12], vec![5.0]] {
            let axis = Axis::of(strange.clone(), "ms");
            let ticks = axis.ticks(5);
            assert!(ticks.len() <= 12 && ticks.iter().all(|t| t.is_finite()), "{strange:?}: {ticks:?}");
        }
    }

    #[test]
    fn numbers_below_an_axis_keep_their_distance() {
        let axis = |choices: &[f64]| Axis::of_choices(choices, "").apart(choices);
        assert_eq!(axis(&[0.0, 0.01, 0.1, 0.3]), [0.0, 0.1, 0.3]);
        assert_eq!(axis(&[0.0, 0.1, 0.29, 0.3]), [0.0, 0.1, 0.3]);
        assert_eq!(axis(&[1.0, 2.0, 4.0, 1280.0]), [1.0, 4.0, 1280.0]);
        assert!(axis(&[]).is_empty());
    }

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        let places = spread(&[10.0, 11.0, 12.0, 99.0, 100.0], 15.0, 100.0);
        assert!(places.windows(2).all(|p| p[1] - p[0] >= 15.0 - 1e-9), "{places:?}");
        assert!(places[4] <= 100.0);
        let many = spread(&[50.0; 40], 15.0, 100.0);
        assert!(many.windows(2).all(|p| p[1] > p[0]) && many[39] <= 100.0, "{many:?}");
        assert_eq!(spread(&[], 15.0, 100.0), Vec::<f64>::new());
    }

    #[test]
    fn panels_name_every_peer_and_hold_no_nonsense() {
        let axis = Axis::of([100.0, 200.0], "ms");
        let all = [
            Bar { line: line("thinc"), value: Ok(summary(100.0)) },
            Bar { line: line("x<y"), value: Ok(summary(200.0)) },
            Bar { line: line("gone"), value: Err("failed".into()) },
        ];
        let svg = bars("pages", &all, &axis, Some(90.0));
        for part in ["thinc", "x&lt;y", "gone", "failed", "100 ms", "200 ms", "class=\"f3\"", "aria-label=\"pages\""] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        let svg = curves(
            "loss",
            &[
                Curve { line: line("thinc"), points: vec![(0.0, summary(100.0)), (0.3, summary(150.0))], broke: false },
                Curve { line: line("gone"), points: vec![(0.0, summary(200.0))], broke: true },
                Curve { line: line("never"), points: vec![], broke: true },
            ],
            &axis,
            &[0.0, 0.3],
            "share",
        );
        assert!(svg.contains("thinc 150 ms") && svg.contains("gone 200 ms ✕") && !svg.contains("NaN"), "{svg}");
        let samples: Vec<f64> = (1..500).map(f64::from).collect();
        let svg =
            distributions("times", &[(line("thinc"), &samples), (line("none"), &[])], &Axis::of(samples.clone(), "ms"));
        assert!(svg.contains("thinc 250 ms") && !svg.contains("none") && svg.len() < 6000, "{} {svg}", svg.len());
    }
}
