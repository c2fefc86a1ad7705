//! The catalogue of paths that change while a viewer is connected: by name, the path before, what
//! happens to it, and the path after. Beside the path, above schedule.rs. Knows links and their
//! sources; never what is measured on them. The simulator has the same names in
//! crates/sim/src/catalogue.rs.

use std::time::Duration;

use crate::Error;
use crate::net::link::Link;
use crate::net::schedule::Schedule;

/// What happens to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next packet takes the other path.
    AtOnce,
    /// Rate and round trip go to the other path's in equal ratios.
    Within(Duration),
    /// The other path's rate follows the model of a mobile network, for so long.
    Mobile(Duration),
    /// The viewer gets another address.
    NewAddress,
    /// A TCP flow to the viewer's host begins, which never rests.
    CompetingFlow,
}

/// One path that changes.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// In words, with the source of its figures.
    pub about: &'static str,
    /// The path before, as [`Link`] reads it.
    before: &'static str,
    /// The path after.
    after: &'static str,
    /// What happens.
    pub change: Change,
}

const SECOND: Duration = Duration::from_secs(1);

const fn entry(
    name: &'static str,
    about: &'static str,
    before: &'static str,
    after: &'static str,
    change: Change,
) -> Entry {
    Entry { name, about, before, after, change }
}

/// Every entry.
pub const CATALOGUE: &[Entry] = &[
    entry("delay-up", "a cable is left, a VPN comes up", "lan", "wan", Change::AtOnce),
    entry("delay-down", "a cable is found", "wan", "lan", Change::AtOnce),
    entry(
        "satellite-up",
        "a line gives way to a geostationary satellite: 600 ms as in the preset satellite",
        "wan",
        "wan,rtt=600ms",
        Change::AtOnce,
    ),
    entry("satellite-down", "and comes back", "wan,rtt=600ms", "wan", Change::AtOnce),
    entry(
        "rate-down",
        "Wi-Fi or 4G at the edge of its range: 100 to 5 Mbit/s within a second",
        "wan",
        "wan,rate=5mbit",
        Change::Within(SECOND),
    ),
    entry("rate-up", "and back", "wan,rate=5mbit", "wan", Change::Within(SECOND)),
    entry(
        "new-address",
        "the viewer's host changes its network and with it its address",
        "wan",
        "wan",
        Change::NewAddress,
    ),
    entry(
        "jitter",
        "a delay that varies by 20 ms: 10 ms of standard deviation each way",
        "wan",
        "wan,jitter=10ms",
        Change::AtOnce,
    ),
    entry(
        "reordering",
        "one packet in fifty arrives 5 ms late",
        "wan",
        "wan,reorder=2%+5ms",
        Change::AtOnce,
    ),
    entry(
        "bursts",
        "one packet in eleven is lost, five in a row in the mean (Gilbert 1960)",
        "rate=24mbit,rtt=66ms",
        "rate=24mbit,rtt=66ms,bursts=2%/20%",
        Change::AtOnce,
    ),
    entry(
        "bufferbloat",
        "5 Mbit/s behind a second of queue (Gettys and Nichols 2011)",
        "wan",
        "wan,rate=5mbit,queue=1s",
        Change::AtOnce,
    ),
    entry(
        "policer",
        "20 Mbit/s by a token bucket of 100 ms that drops (Flach et al. 2016)",
        "wan",
        "wan,policer=20mbit+250kb",
        Change::AtOnce,
    ),
    entry(
        "competing-flow",
        "a download beside the session, in a queue of a bandwidth-delay product",
        "rate=24mbit,rtt=40ms",
        "rate=24mbit,rtt=40ms",
        Change::CompetingFlow,
    ),
    entry(
        "asymmetric",
        "10 Mbit/s down and 0.5 up, as DSL and cable have",
        "wan",
        "rate=10mbit,rate-up=500kbit,rtt=40ms",
        Change::AtOnce,
    ),
    entry(
        "mobile",
        "a synthetic rate from 0 to 11 Mbit/s by Sprout's model of mobile networks (NSDI 2013), \
         with a second of queue",
        "wan",
        "4g,queue=1s",
        Change::Mobile(Duration::from_secs(120)),
    ),
];

impl Entry {
    /// An entry by its name.
    pub fn named(name: &str) -> Result<&'static Entry, Error> {
        let names = || CATALOGUE.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        CATALOGUE.iter().find(|entry| entry.name == name).ok_or_else(|| {
            format!("the catalogue has no changing path `{name}`: there are {}", names()).into()
        })
    }

    /// The path on which the viewer connects.
    pub fn before(&self) -> Result<Link, Error> {
        self.before.parse()
    }

    /// The path after the change; a mobile one has the model's rate besides.
    pub fn after(&self) -> Result<Link, Error> {
        self.after.parse()
    }

    /// How the link changes, from the beginning of the change on.
    pub fn schedule(&self) -> Result<Schedule, Error> {
        let after = self.after()?;
        Ok(match self.change {
            Change::Within(time) => Schedule::gradually(&self.before()?, &after, time),
            Change::Mobile(length) => Schedule::mobile(&after, length),
            Change::AtOnce | Change::NewAddress | Change::CompetingFlow => {
                Schedule::at_once(&after)
            }
        })
    }

    /// The same as the path is for a viewer that connects after the change.
    pub fn schedule_after(&self) -> Result<Schedule, Error> {
        match self.change {
            Change::Mobile(_) => self.schedule(),
            _ => Ok(Schedule::at_once(&self.after()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_link_before_and_after() {
        for entry in CATALOGUE {
            let (before, after) = (entry.before().unwrap(), entry.after().unwrap());
            let schedule = entry.schedule().unwrap();
            let same = before == after;
            assert_eq!(
                same,
                matches!(entry.change, Change::NewAddress | Change::CompetingFlow),
                "{}: {before:?}",
                entry.name
            );
            if !matches!(entry.change, Change::Mobile(_)) {
                assert_eq!(schedule.last(), &after, "{}", entry.name);
            }
            assert_eq!(Entry::named(entry.name).unwrap().name, entry.name);
        }
        let names: std::collections::HashSet<_> = CATALOGUE.iter().map(|e| e.name).collect();
        assert_eq!(names.len(), CATALOGUE.len(), "each name stands once");
        let error = Entry::named("tunnel").unwrap_err().to_string();
        assert!(error.contains("`tunnel`") && error.contains("delay-up"), "{error}");
    }
}
