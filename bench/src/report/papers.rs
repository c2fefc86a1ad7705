//! What the literature measured, to stand beside what was measured here. papers.json holds only
//! numbers of the papers' text, with the place and the conditions: most of their figures are
//! images, and nothing is read off an image. Knows quotations; never results.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// A paper.
#[derive(Deserialize)]
struct Paper {
    /// As captions name it.
    short: String,
    /// As a list of references names it.
    full: String,
}

/// One number of a paper.
#[derive(Deserialize)]
#[serde(from = "[String; 7]")]
pub(super) struct Quote {
    /// The workload beside which it stands.
    workload: String,
    paper: String,
    /// Section or figure whose text says it.
    place: String,
    pub(super) conditions: String,
    pub(super) quantity: String,
    pub(super) system: String,
    /// The number with its unit, as exact as the paper is.
    pub(super) value: String,
}

impl From<[String; 7]> for Quote {
    fn from(fields: [String; 7]) -> Quote {
        let [workload, paper, place, conditions, quantity, system, value] = fields;
        Quote { workload, paper, place, conditions, quantity, system, value }
    }
}

impl Quote {
    /// "Lai & Nieh 2002, §3.1".
    pub(super) fn source(&self) -> String {
        format!("{}, {}", short(&self.paper), self.place)
    }
}

#[derive(Deserialize)]
struct Literature {
    papers: BTreeMap<String, Paper>,
    /// In the order of workloads and years.
    quotes: Vec<Quote>,
}

static LITERATURE: LazyLock<Literature> = LazyLock::new(|| {
    serde_json::from_str(include_str!("papers.json")).expect("papers.json holds quotations")
});

/// A paper as captions name it.
///
/// # Panics
/// papers.json does not describe it.
pub(super) fn short(paper: &str) -> &'static str {
    &LITERATURE.papers[paper].short
}

/// Every paper as a list of references names it.
pub(super) fn references() -> impl Iterator<Item = &'static str> {
    LITERATURE.papers.values().map(|paper| paper.full.as_str())
}

/// The quotations of one workload.
pub(super) fn of(workload: &str) -> impl Iterator<Item = &'static Quote> {
    LITERATURE.quotes.iter().filter(move |quote| quote.workload == workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quotation_says_where_it_stands_and_under_which_conditions() {
        for quote in &LITERATURE.quotes {
            for text in [&quote.place, &quote.system, &quote.quantity, &quote.conditions] {
                assert!(!text.is_empty(), "{} of {}", quote.quantity, quote.paper);
            }
            // The text of Wong and Seltzer numbers no sections, it names them.
            let placed = quote.place.contains('§') || quote.paper == "wong";
            assert!(placed && !quote.source().is_empty(), "{} names no section", quote.place);
            let is_number =
                quote.value.contains("minute") || quote.value.chars().any(|c| c.is_ascii_digit());
            assert!(is_number, "{} is no number", quote.value);
        }
        let quoted = |name: &String| LITERATURE.quotes.iter().any(|quote| quote.paper == *name);
        assert!(LITERATURE.papers.keys().all(quoted), "a paper is cited and not quoted");
    }
}
