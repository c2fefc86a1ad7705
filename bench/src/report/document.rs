//! The report as data: what the page shows, in order. template.html draws it. Knows blocks, tables
//! and plots; never where their content comes from.

use serde::Serialize;

use crate::stats::Summary;

/// The whole page.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) title: String,
    pub(super) heading: &'static str,
    pub(super) lead: String,
    pub(super) sections: Vec<Section>,
    pub(super) footer: &'static str,
}

/// One section, with a link from the top of the page.
#[derive(Serialize)]
pub(super) struct Section {
    pub(super) id: String,
    /// In the list of links.
    pub(super) short: String,
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

/// One element of a section.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Block {
    /// A paragraph.
    P(String),
    H3(String),
    H4(String),
    Pre(String),
    List(Vec<Item>),
    /// Closed until somebody opens it.
    Details(String, Vec<Block>),
    /// With a bar beside it.
    Warn(Vec<Block>),
    /// Two columns.
    Sides(Vec<Side>),
    /// Names and values.
    Pairs(Vec<(&'static str, String)>),
    Table(Table),
    Figure(Figure),
}

/// One line of a list.
#[derive(Serialize)]
pub(super) struct Item {
    /// In bold, before the text.
    pub(super) name: String,
    pub(super) text: String,
    /// The whole of a text that was cut.
    pub(super) more: Option<String>,
}

/// One of two columns: where a system wins, or where it loses.
#[derive(Serialize)]
pub(super) struct Side {
    pub(super) class: &'static str,
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

/// A table; the first cell of a row is its heading.
#[derive(Default, Serialize)]
pub(super) struct Table {
    /// What a screen reader calls it.
    pub(super) label: String,
    pub(super) caption: Option<String>,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Why cells are empty, by the numbers in them.
    pub(super) notes: Vec<String>,
}

/// One row.
#[derive(Serialize)]
pub(super) struct Row {
    /// Whether it is the system that the page is about.
    pub(super) strong: bool,
    pub(super) cells: Vec<Cell>,
}

/// One cell.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cell {
    Value(String),
    /// A value, and its spread in small type.
    Spread(String, String),
    /// Words, which wrap.
    Text(String),
    /// No value, and the number of the note that says why.
    Empty(String, Option<usize>),
    /// Comparisons ahead, level and behind.
    Standing([usize; 3]),
}

impl Table {
    /// An empty cell; each reason is noted once.
    pub(super) fn not_measured(&mut self, why: &str) -> Cell {
        let why = super::words::reason(why).0;
        let place = self.notes.iter().position(|known| *known == why).unwrap_or_else(|| {
            self.notes.push(why);
            self.notes.len() - 1
        });
        Cell::Empty("not measured".to_owned(), Some(place + 1))
    }
}

/// A figure: panels that stand beside each other, and the table of their values.
#[derive(Serialize)]
pub(super) struct Figure {
    pub(super) number: usize,
    pub(super) title: &'static str,
    pub(super) form: &'static str,
    pub(super) caption: String,
    pub(super) panels: Vec<Panel>,
    pub(super) table: Option<Table>,
}

/// One panel.
#[derive(Serialize)]
pub(super) struct Panel {
    pub(super) heading: String,
    /// What a screen reader says of it.
    pub(super) label: String,
    pub(super) plot: Plot,
}

/// What a panel draws.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Plot {
    /// Horizontal bars, in this order; `reference` is a line through all of them.
    Bars { axis: Axis, bars: Vec<Bar>, reference: Option<f64> },
    /// Medians over numbers that were chosen.
    Curves { axis: Axis, across: Axis, choices: Vec<f64>, curves: Vec<Curve> },
    /// Shares of samples below a value, in this order.
    Distributions { axis: Axis, peers: Vec<Distribution> },
}

/// Whose a bar or curve is.
#[derive(Clone, Serialize)]
pub(super) struct Line {
    pub(super) title: String,
    /// Place in the palette.
    pub(super) place: u8,
    /// Whether it is the system that the page is about.
    pub(super) strong: bool,
}

/// A value with its spread, or `None` and the reason in `text`.
#[derive(Serialize)]
pub(super) struct Bar {
    pub(super) line: Line,
    pub(super) value: Option<Spread>,
    pub(super) text: String,
}

/// Median, and the ends of its whisker.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Spread {
    pub(super) at: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl From<Summary> for Spread {
    fn from(summary: Summary) -> Spread {
        Spread { at: digits(summary.median), low: digits(summary.low), high: digits(summary.high) }
    }
}

/// A curve, in the order of its axis; `text` stands at its end.
#[derive(Serialize)]
pub(super) struct Curve {
    pub(super) line: Line,
    pub(super) points: Vec<(f64, Spread)>,
    pub(super) text: String,
}

/// Values at equal steps of the share of samples below them, from none to all.
#[derive(Serialize)]
pub(super) struct Distribution {
    pub(super) line: Line,
    pub(super) values: Vec<f64>,
    pub(super) text: String,
}

/// Five significant digits: more are not told apart in a plot.
pub(super) fn digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// Between the least and the greatest value, from which on the scale is logarithmic: below it every
/// bar is still visible.
const LOG_FROM: f64 = 25.0;
/// The same for distributions.
const LOG_FROM_DISTRIBUTION: f64 = 4.0;

/// One axis: from where to where, and whether equal distances are equal factors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Axis {
    pub(super) log: bool,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) unit: String,
}

impl Axis {
    /// An axis on which all of these values stand: from zero, or logarithmic if factors between
    /// them demand it.
    pub(super) fn of(values: impl IntoIterator<Item = f64>, unit: &str) -> Axis {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let high = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        let (log, low, high) = if unit == "share" {
            (false, 0.0, high.max(1.0))
        } else if high <= 0.0 {
            (false, 0.0, 1.0)
        } else if high / least > LOG_FROM && values.iter().all(|v| *v > 0.0) {
            (true, least * 0.75, high * 1.15)
        } else {
            (false, 0.0, high * 1.02)
        };
        Axis { log, low, high, unit: unit.to_owned() }
    }

    /// An axis for distributions: no bar stands on its zero, so factors are shown as soon as there
    /// are some.
    pub(super) fn of_distributions(values: impl IntoIterator<Item = f64>, unit: &str) -> Axis {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        if unit != "share" && low > 0.0 && high / low > LOG_FROM_DISTRIBUTION {
            Axis { log: true, low: low * 0.85, high: high * 1.1, unit: unit.to_owned() }
        } else {
            Axis::of(values, unit)
        }
    }

    /// An axis for numbers that were chosen and not measured, as loss shares: they fill its whole
    /// length.
    pub(super) fn of_choices(values: &[f64], unit: &str) -> Axis {
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let room = if high > low { 0.0 } else { 1.0 };
        let log = low > 0.0 && high / low > LOG_FROM;
        Axis { log, low: low - room, high: high + room, unit: unit.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_start_at_zero_unless_factors_demand_otherwise() {
        let linear = Axis::of([10.0, 100.0], "ms");
        assert!(!linear.log && linear.low == 0.0 && linear.high > 100.0);
        assert!(Axis::of([1.0, 5000.0], "ms").log);
        // A zero stands on no logarithmic axis.
        assert!(!Axis::of([0.0, 1.0, 5000.0], "ms").log);
        assert_eq!(Axis::of([0.2, 0.9], "share").high, 1.0);
        assert!(Axis::of_distributions([10.0, 50.0], "ms").log);
        for strange in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![5.0]] {
            let axis = Axis::of(strange.clone(), "ms");
            assert!(axis.low.is_finite() && axis.high > axis.low, "{strange:?}: {axis:?}");
        }
        let one = Axis::of_choices(&[3.0], "hogs");
        assert_eq!((one.low, one.high), (2.0, 4.0));
    }
}
