//! Where thinc wins and where it loses, in sentences. From medians and their confidence; wins and
//! losses are judged by one rule. Knows ratios; never how a page looks.

use super::view::{Cell, Peer, REFERENCE, View, Wanted};
use super::words;
use crate::results::{Better, Form, quantity};
use crate::stats::{Change, Summary};

/// Differences up to this share count as level even if they are certain: nobody would notice them.
const LEVEL: f64 = 0.03;
/// The same with too few samples for an interval: one run proves little.
const LEVEL_OF_FEW: f64 = 0.15;

/// Where the subject stands against the best of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Better than all, clearly.
    Ahead,
    /// No clear difference from the best.
    Level,
    /// Worse than the best, clearly.
    Behind,
}

/// To whom a quantity matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    /// To the person at the screen.
    Person,
    /// To the owner of the link.
    Link,
    /// To the machines at its ends.
    Machines,
}

impl Matter {
    /// In the order of the page.
    pub(super) const ALL: [Matter; 3] = [Matter::Person, Matter::Link, Matter::Machines];

    /// As a heading.
    pub(super) fn title(self) -> &'static str {
        match self {
            Matter::Person => "What a person sees",
            Matter::Link => "What the link carries",
            Matter::Machines => "What the machines pay",
        }
    }
}

/// One comparison.
pub(super) struct Verdict<'a> {
    /// On which link.
    pub(super) link: &'a str,
    /// Of what.
    pub(super) wanted: Wanted<'a>,
    /// The unit of both.
    pub(super) unit: &'a str,
    /// The subject's.
    pub(super) ours: Summary,
    /// The best of the others, and whose it is.
    pub(super) best: Option<(Peer<'a>, Summary)>,
    /// Ours over the best.
    pub(super) ratio: f64,
    /// Ours worse than the best by this factor.
    pub(super) worse_by: f64,
    /// The reference's, where it was measured.
    pub(super) reference: Option<Summary>,
    /// Share of exact pixels of the best where it was not all of them.
    pub(super) best_exact: Option<f64>,
    /// The same for the subject.
    pub(super) our_exact: Option<f64>,
    /// The judgement; nothing where there was nobody to compare with.
    pub(super) standing: Option<Standing>,
}

/// Quantities that say nothing on their own about who is better: parts of another, or packets.
const NOT_JUDGED: [&str; 5] = [
    quantity::BYTES_UP,
    quantity::PACKETS_UP,
    quantity::PACKETS_DOWN,
    quantity::CPU_APPS_MS,
    quantity::PSNR_DB,
];

/// Every comparison of `subject` with the others, in the order of links and workloads.
pub(super) fn verdicts<'a>(view: &View<'a>, subject: Peer<'a>) -> Vec<Verdict<'a>> {
    let mut all = Vec::new();
    for (link, _) in view.links() {
        for workload in view.workloads() {
            for form in view.forms(workload) {
                all.extend(of_trial(view, subject, link, workload, form));
            }
        }
    }
    all
}

fn of_trial<'a>(
    view: &View<'a>,
    subject: Peer<'a>,
    link: &'a str,
    workload: &'a str,
    form: Form,
) -> Vec<Verdict<'a>> {
    let Some(trial) = view.trial(subject.name, link, workload, form) else { return Vec::new() };
    let crate::results::Outcome::Measured(measures) = &trial.outcome else { return Vec::new() };
    let judged = |m: &&crate::results::Measure| {
        m.better != Better::Neither && !NOT_JUDGED.contains(&m.quantity.as_str())
    };
    measures
        .iter()
        .filter(judged)
        .filter_map(|measure| {
            let ours = Summary::of(&measure.samples)?;
            let wanted =
                Wanted { workload, form, quantity: &measure.quantity, part: &measure.part };
            let of = |peer: Peer<'a>| match view.cell(peer, link, &wanted) {
                Cell::Samples(samples) => {
                    Summary::of(samples).map(|summary| (peer, summary, samples))
                }
                Cell::Empty(..) => None,
            };
            let sign = if measure.better == Better::Higher { -1.0 } else { 1.0 };
            let best = view
                .present()
                .filter(Peer::is_competitor)
                .filter_map(of)
                // Nothing runs there, so that zero is no achievement.
                .filter(|(_, summary, _)| {
                    !(is_of_server(&measure.quantity) && summary.median == 0.0)
                })
                .min_by(|a, b| (a.1.median * sign).total_cmp(&(b.1.median * sign)));
            let change =
                best.and_then(|(_, _, samples)| Change::between(samples, &measure.samples));
            Some(Verdict {
                link,
                wanted,
                unit: &measure.unit,
                ours,
                best: best.map(|(peer, summary, _)| (peer, summary)),
                ratio: change.map_or(1.0, |c| c.ratio),
                worse_by: change.map_or(1.0, |c| c.worse_by(measure.better)),
                reference: view.peer(REFERENCE).and_then(of).map(|(_, summary, _)| summary),
                best_exact: best
                    .and_then(|(peer, ..)| view.exactness(peer.name, link, workload, form)),
                our_exact: view.exactness(subject.name, link, workload, form),
                standing: change.map(|change| judge(&change, measure.better)),
            })
        })
        .collect()
}

fn is_of_server(quantity: &str) -> bool {
    matches!(
        quantity,
        quantity::CPU_SERVER_MS
            | quantity::MEMORY_SERVER
            | "cpu_user_ms"
            | "memory_user"
            | "cpu_frame_ms"
    )
}

fn judge(change: &Change, better: Better) -> Standing {
    let worse_by = change.worse_by(better);
    let level = if change.interval.is_some() { LEVEL } else { LEVEL_OF_FEW };
    if !change.is_clear() || (worse_by < 1.0 + level && worse_by > 1.0 / (1.0 + level)) {
        Standing::Level
    } else if worse_by > 1.0 {
        Standing::Behind
    } else {
        Standing::Ahead
    }
}

impl Verdict<'_> {
    /// To whom it matters.
    pub(super) fn matter(&self) -> Matter {
        let name = self.wanted.quantity;
        if name.starts_with("cpu_")
            || name.starts_with("memory_")
            || name.starts_with("cpu_limited")
        {
            Matter::Machines
        } else if self.unit == "bytes"
            || self.unit == "packets"
            || matches!(name, "network_limited_rate" | "mbit_s")
        {
            Matter::Link
        } else {
            Matter::Person
        }
    }

    /// "web, chromium, slow motion: input to visible".
    pub(super) fn subject_in_words(&self) -> String {
        let part = if self.wanted.part.is_empty() {
            String::new()
        } else {
            format!(" {}", self.wanted.part)
        };
        let name = words::quantity_name(self.wanted.quantity);
        format!("{}{part}, {}: {name}", self.wanted.workload, words::form_name(self.wanted.form))
    }

    /// "215 ms, 1.08 of TigerVNC's 199 ms (98 % of its pixels exact), 3.0 of no remoting".
    pub(super) fn figures_in_words(&self) -> String {
        let exact = |share: Option<f64>| {
            let is_fidelity = self.wanted.quantity == quantity::EXACT_SHARE;
            share.filter(|_| !is_fidelity).map_or(String::new(), |s| {
                format!(" ({} of its pixels exact)", words::value(s, "share"))
            })
        };
        let mut text =
            format!("{}{}", words::value(self.ours.median, self.unit), exact(self.our_exact));
        match &self.best {
            Some((peer, summary)) => {
                let ratio = if self.ratio.is_finite() {
                    format!("{} of ", words::factor(self.ratio))
                } else {
                    "against ".into()
                };
                let median = words::value(summary.median, self.unit);
                text.push_str(&format!(
                    ", {ratio}{}’s {median}{}",
                    peer.title(),
                    exact(self.best_exact)
                ));
            }
            None => text.push_str(", no other was measured"),
        }
        if let Some(reference) =
            self.reference.filter(|r| r.median > 0.0 && self.matter() == Matter::Person)
        {
            text.push_str(&format!(
                ", {} of no remoting",
                words::factor(self.ours.median / reference.median)
            ));
        }
        if self.ours.count < crate::stats::QUARTILES_FROM {
            text.push_str(&format!(" [{}]", words::count(self.ours.count, "sample")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    fn judged(first: &[f64], second: &[f64], better: Better) -> Standing {
        judge(&Change::between(first, second).unwrap(), better)
    }

    #[test]
    fn wins_and_losses_are_judged_alike() {
        let fast = [10.0, 10.1, 10.2, 9.9, 9.8, 10.05];
        let slow = fast.map(|s| s * 1.5);
        assert_eq!(judged(&fast, &slow, Better::Lower), Standing::Behind);
        assert_eq!(judged(&slow, &fast, Better::Lower), Standing::Ahead);
        assert_eq!(judged(&fast, &slow, Better::Higher), Standing::Ahead);
        assert_eq!(judged(&slow, &fast, Better::Higher), Standing::Behind);
        assert_eq!(judged(&fast, &fast, Better::Lower), Standing::Level);
        // Certain, and too small to matter.
        assert_eq!(judged(&[100.0; 30], &[101.0; 30], Better::Lower), Standing::Level);
        // One run each: ahead only if the difference is large.
        assert_eq!(judged(&[100.0], &[110.0], Better::Lower), Standing::Level);
        assert_eq!(judged(&[100.0], &[200.0], Better::Lower), Standing::Behind);
    }

    #[test]
    fn the_best_is_a_competitor_and_never_the_reference() {
        let results = synthetic::results(5);
        let view = View::new(&results);
        let all = verdicts(&view, view.peer("thinc").unwrap());
        assert!(all.len() > 50);
        assert!(all.iter().all(|v| v.best.is_none_or(|(peer, _)| peer.is_competitor())));
        let web = |q: &str| {
            all.iter()
                .find(|v| v.link == "lan" && v.wanted.workload == "web" && v.wanted.quantity == q)
                .unwrap()
        };
        // In the invented results TigerVNC is a little quicker and xrdp sends a little less.
        let visible = web(quantity::VISIBLE_MS);
        assert_eq!(visible.best.unwrap().0.name, "tigervnc");
        let text = visible.figures_in_words();
        assert!(text.contains(" of TigerVNC’s ") && text.contains(" of no remoting"), "{text}");
        let bytes = web(quantity::BYTES_DOWN);
        assert_eq!((bytes.best.unwrap().0.name, bytes.standing), ("xrdp", Some(Standing::Behind)));
        assert!(
            bytes.figures_in_words().contains("80 % of its pixels exact"),
            "{}",
            bytes.figures_in_words()
        );
        assert!(all.iter().any(|v| v.standing == Some(Standing::Ahead)));
    }
}
