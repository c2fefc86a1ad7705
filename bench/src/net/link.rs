//! What a link is like: delay, jitter, rate, queue, loss, outages; and the links that the papers measured, by name.
//! Beside the path. Knows figures and where they came from; never packets.

use std::str::FromStr;
use std::time::Duration;

use crate::Error;

/// One link, the same in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What it is called in results: "wan", or "wan,loss=1%".
    pub name: String,
    /// Added to every exchange, half of it in each direction.
    pub rtt: Duration,
    /// Standard deviation of the one-way delay; packets keep their order all the same.
    pub jitter: Duration,
    /// Bits of IP packets a second in each direction; nothing is no limit.
    pub rate_bps: Option<u64>,
    /// What may wait before the bottleneck; a packet that does not fit is dropped.
    pub queue_bytes: u64,
    /// Share of packets lost at random in each direction, 0 to 1.
    pub loss: f64,
    /// The same seed gives the same losses to the same packets.
    pub seed: u64,
    /// When nothing passes.
    pub outages: Vec<Outage>,
}

/// A time in which every packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// After the link was set.
    pub from: Duration,
    /// How long.
    pub length: Duration,
}

impl Link {
    /// A link by its name: see [`Link::presets`].
    pub fn preset(name: &str) -> Result<Link, Error> {
        Err(format!("no link is called `{name}`").into())
    }

    /// Names of all presets, in the order of reports.
    pub fn presets() -> &'static [&'static str] {
        &[]
    }

    /// In words: "100 Mbit/s, 66 ms, no loss".
    pub fn about(&self) -> String {
        self.name.clone()
    }
}

impl FromStr for Link {
    type Err = Error;

    /// A preset with changes: "wan", "80211b:loss=10%", "wan,loss=1%,rtt=20ms".
    fn from_str(text: &str) -> Result<Link, Error> {
        Link::preset(text)
    }
}
