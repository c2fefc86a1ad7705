//! An index of the results: peers, links, workloads, and why a cell is empty. From store.rs to
//! figure.rs and summary.rs. Knows the order and the colours of peers; never how a page looks.

use std::collections::HashMap;

use super::store::{Key, key};
use super::words;
use crate::results::{
    Better, Form, LinkRecord, Measure, Outcome, PeerRecord, Results, Trial, quantity,
};
use crate::stats::Summary;

/// Peers in the order of the palette, so that one peer has one colour in every report. "thinc"
/// first.
const PALETTE: [&str; 12] = [
    "thinc",
    "thinc-web",
    "local",
    "tigervnc",
    "turbovnc",
    "kasmvnc",
    "xpra",
    "xrdp",
    "xspice",
    "x11",
    "nxagent",
    "",
];
/// Colours that the style sheet defines; unknown peers share what the known ones leave.
const PLACES: usize = PALETTE.len();
/// The peer that the page is about.
pub(super) const SUBJECT: &str = "thinc";
/// Applications on the client's own machine, without remoting: a reference and no competitor.
pub(super) const REFERENCE: &str = "local";
/// From this share of bit-exact pixels on, what is shown counts as lossless.
const LOSSLESS_FROM: f64 = 0.9995;

/// One peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer<'a> {
    /// Key into the results.
    pub(super) name: &'a str,
    /// What is known of it.
    pub(super) record: &'a PeerRecord,
}

impl<'a> Peer<'a> {
    /// Its colour.
    pub(super) fn place(&self) -> u8 {
        let known = PALETTE.iter().position(|p| *p == self.name);
        let other =
            || self.name.bytes().fold(0usize, |sum, byte| (sum * 31 + usize::from(byte)) % PLACES);
        known.unwrap_or_else(other) as u8
    }

    /// As a person writes it.
    pub(super) fn title(&self) -> &'a str {
        if self.record.title.is_empty() { self.name } else { &self.record.title }
    }

    /// One of the systems that this project makes.
    pub(super) fn is_ours(&self) -> bool {
        self.name == SUBJECT
            || self.name.strip_prefix(SUBJECT).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Neither ours nor the reference.
    pub(super) fn is_competitor(&self) -> bool {
        !self.is_ours() && self.name != REFERENCE
    }
}

/// What stands in one cell.
#[derive(Clone, Debug)]
pub(super) enum Cell<'a> {
    /// Samples, at least one.
    Samples(&'a [f64]),
    /// None, in a word for the picture and a sentence for the notes.
    Empty(&'static str, String),
}

impl Cell<'_> {
    /// Middle and spread.
    pub(super) fn summary(&self) -> Option<Summary> {
        match self {
            Cell::Samples(samples) => Summary::of(samples),
            Cell::Empty(..) => None,
        }
    }
}

/// Which measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted<'a> {
    /// The workload.
    pub(super) workload: &'a str,
    /// In which form.
    pub(super) form: Form,
    /// The quantity.
    pub(super) quantity: &'a str,
    /// The part.
    pub(super) part: &'a str,
}

/// Links that differ in one number alone.
pub(super) struct LinkGroup<'a> {
    /// What they have in common, in words.
    pub(super) title: String,
    /// By rising number: that and the name.
    pub(super) links: Vec<(f64, &'a str)>,
}

/// Results with an index.
pub(super) struct View<'a> {
    /// What was loaded.
    pub(super) results: &'a Results,
    /// Trials by key, the last of each.
    trials: HashMap<Key, &'a Trial>,
    /// Those asked for, ours first, then the reference, then by name.
    pub(super) peers: Vec<Peer<'a>>,
}

impl<'a> View<'a> {
    /// Arranges results.
    pub(super) fn new(results: &'a Results) -> View<'a> {
        let mut peers: Vec<Peer> =
            results.peers.iter().map(|(name, record)| Peer { name, record }).collect();
        peers.sort_by_key(|peer| (!peer.is_ours(), peer.name != REFERENCE, peer.name));
        View {
            results,
            trials: results.trials.iter().map(|trial| (key(trial), trial)).collect(),
            peers,
        }
    }

    /// Those that are installed.
    pub(super) fn present(&self) -> impl Iterator<Item = Peer<'a>> + '_ {
        self.peers.iter().copied().filter(|peer| peer.record.missing.is_none())
    }

    /// A peer by its name.
    pub(super) fn peer(&self, name: &str) -> Option<Peer<'a>> {
        self.peers.iter().copied().find(|peer| peer.name == name)
    }

    /// A trial.
    pub(super) fn trial(
        &self,
        peer: &str,
        link: &str,
        workload: &str,
        form: Form,
    ) -> Option<&'a Trial> {
        self.trials.get(&(peer.to_owned(), link.to_owned(), workload.to_owned(), form)).copied()
    }

    /// One cell, with the reason where it is empty.
    pub(super) fn cell(&self, peer: Peer, link: &str, wanted: &Wanted) -> Cell<'a> {
        if let Some(why) = &peer.record.missing {
            return Cell::Empty("missing", format!("not installed: {why}"));
        }
        let Some(trial) = self.trial(peer.name, link, wanted.workload, wanted.form) else {
            return Cell::Empty("not tried", "not tried in this run".to_owned());
        };
        match &trial.outcome {
            Outcome::Skipped(why) => Cell::Empty("skipped", format!("skipped: {why}")),
            Outcome::Failed(why) => Cell::Empty("failed", format!("failed: {why}")),
            Outcome::Measured(measures) => {
                match measures
                    .iter()
                    .find(|m| m.quantity == wanted.quantity && m.part == wanted.part)
                {
                    Some(measure) if Summary::of(&measure.samples).is_some() => {
                        Cell::Samples(&measure.samples)
                    }
                    Some(_) if wanted.quantity == quantity::EXACT_MS => Cell::Empty(
                        "never exact",
                        "the picture never became the server's, bit for bit".to_owned(),
                    ),
                    Some(_) => Cell::Empty(
                        "no sample",
                        "it ran and gave not one sample of this".to_owned(),
                    ),
                    None => Cell::Empty(
                        "no such measure",
                        "it ran and does not measure this".to_owned(),
                    ),
                }
            }
        }
    }

    /// Links in the order of reports: the quick ones first.
    pub(super) fn links(&self) -> Vec<(&'a str, &'a LinkRecord)> {
        let mut links: Vec<_> =
            self.results.links.iter().map(|(name, link)| (name.as_str(), link)).collect();
        let rate = |link: &LinkRecord| link.rate_bps.map_or(0, |rate| u64::MAX - rate);
        links.sort_by(|(_, a), (_, b)| {
            (a.loss.total_cmp(&b.loss))
                .then(a.rtt_ms.total_cmp(&b.rtt_ms))
                .then(rate(a).cmp(&rate(b)))
        });
        links
    }

    /// Links that differ in loss alone, two or more.
    pub(super) fn loss_groups(&self) -> Vec<LinkGroup<'a>> {
        self.groups(|link| {
            let title =
                format!("{}, {} ms round trip, {}", rate(link), link.rtt_ms, link.tcp_about());
            let same = format!("{} {} {}", link.jitter_ms, link.queue_bytes, link.emulator);
            (link.loss, title, same)
        })
    }

    /// Links that differ in their round trip alone, two or more; a queue follows the round trip.
    pub(super) fn round_trip_groups(&self) -> Vec<LinkGroup<'a>> {
        self.groups(|link| {
            let loss = words::value(link.loss, "share");
            let title = format!("{}, {loss} lost, {}", rate(link), link.tcp_about());
            (link.rtt_ms, title, format!("{} {}", link.jitter_ms, link.emulator))
        })
    }

    /// Links by what `split` gives: the number in which they differ, and what they have in common,
    /// first as a title and then the rest.
    fn groups(&self, split: impl Fn(&LinkRecord) -> (f64, String, String)) -> Vec<LinkGroup<'a>> {
        let mut groups: Vec<(String, LinkGroup)> = Vec::new();
        for (name, link) in self.links() {
            let (number, title, rest) = split(link);
            let same = format!("{title} {rest}");
            match groups.iter_mut().find(|(known, _)| *known == same) {
                // Two links of one number are one point.
                Some((_, group)) if group.links.iter().any(|(known, _)| *known == number) => {}
                Some((_, group)) => group.links.push((number, name)),
                None => groups.push((same, LinkGroup { title, links: vec![(number, name)] })),
            }
        }
        groups.into_iter().map(|(_, group)| group).filter(|group| group.links.len() > 1).collect()
    }

    /// Links for figures that stand beside each other: of a loss group only the one with the least
    /// loss, since the loss curves show the rest.
    pub(super) fn plain_links(&self) -> Vec<&'a str> {
        let lossy: Vec<&str> = self
            .loss_groups()
            .iter()
            .flat_map(|g| g.links[1..].iter().map(|(_, name)| *name).collect::<Vec<_>>())
            .collect();
        self.links()
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !lossy.contains(name))
            .collect()
    }

    /// Workloads in the order in which they first ran.
    pub(super) fn workloads(&self) -> Vec<&'a str> {
        first_of_each(self.results.trials.iter().map(|trial| trial.workload.as_str()))
    }

    /// Forms in which a workload ran.
    pub(super) fn forms(&self, workload: &str) -> Vec<Form> {
        let ran = |form: &Form| {
            self.results.trials.iter().any(|t| t.workload == workload && t.form == *form)
        };
        [Form::SlowMotion, Form::Normal].into_iter().filter(ran).collect()
    }

    /// The measures of one workload in one form, on any link, of any peer.
    pub(super) fn measures(&self, workload: &str, form: Form) -> impl Iterator<Item = &'a Measure> {
        let of_this = move |trial: &&&Trial| trial.form == form;
        let workload = workload.to_owned();
        self.results
            .trials
            .iter()
            .filter(move |trial| trial.workload == workload)
            .collect::<Vec<_>>()
            .iter()
            .filter(of_this)
            .flat_map(|trial| match &trial.outcome {
                Outcome::Measured(measures) => measures.as_slice(),
                _ => &[],
            })
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The parts of a quantity, in the order in which they should be read, with unit and direction.
    pub(super) fn parts(
        &self,
        workload: &str,
        form: Form,
        quantity: &str,
    ) -> Vec<(&'a str, &'a str, Better)> {
        let mut parts: Vec<(&str, &str, Better)> = Vec::new();
        for measure in self.measures(workload, form).filter(|m| m.quantity == quantity) {
            if !parts.iter().any(|(part, ..)| *part == measure.part) {
                parts.push((&measure.part, &measure.unit, measure.better));
            }
        }
        parts
    }

    /// The share of exact pixels of a trial, if not all are: an advantage in speed or bytes may be
    /// due to it.
    pub(super) fn exactness(
        &self,
        peer: &str,
        link: &str,
        workload: &str,
        form: Form,
    ) -> Option<f64> {
        let Outcome::Measured(measures) = &self.trial(peer, link, workload, form)?.outcome else {
            return None;
        };
        let shares: Vec<f64> = measures
            .iter()
            .filter(|m| m.quantity == quantity::EXACT_SHARE)
            .filter_map(|m| Summary::of(&m.samples).map(|s| s.median))
            .collect();
        let least = shares.into_iter().fold(f64::INFINITY, f64::min);
        (least < LOSSLESS_FROM).then_some(least)
    }
}

fn rate(link: &LinkRecord) -> String {
    link.rate_bps.map_or("no limit".to_owned(), |rate| format!("{} Mbit/s", rate as f64 / 1e6))
}

/// Each value once, in the order of first appearance.
pub(super) fn first_of_each<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    #[test]
    fn links_are_grouped_by_the_one_number_in_which_they_differ() {
        let results = synthetic::results(33);
        let view = View::new(&results);
        let groups = |found: Vec<LinkGroup<'_>>| -> Vec<Vec<(f64, String)>> {
            let named = |group: LinkGroup<'_>| {
                group.links.into_iter().map(|(number, name)| (number, name.to_owned())).collect()
            };
            found.into_iter().map(named).collect()
        };
        let lossy = [0.0, 0.01, 0.1, 0.3]
            .map(|loss| (loss, format!("80211b:loss={}%", loss * 100.0)))
            .to_vec();
        assert_eq!(groups(view.loss_groups()), [lossy]);
        let far = vec![(0.2, "lan".to_owned()), (66.0, "wan".to_owned())];
        assert_eq!(groups(view.round_trip_groups()), [far]);
    }
}
