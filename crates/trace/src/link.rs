//! A path between session and viewer on virtual time: a rate and a delay, without loss or
//! reordering. From replay.rs, to replay.rs at a later time. Knows bytes and when they arrive;
//! never their contents.

use std::collections::VecDeque;
use std::str::FromStr;

use thinc_protocol::Micros;

/// Properties of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bits per second, in each direction.
    pub bits_per_second: u64,
    /// Round trip, without transmission time.
    pub round_trip: Micros,
}

impl Default for LinkSpec {
    /// A local network: 1 Gbit/s, 1 ms.
    fn default() -> LinkSpec {
        LinkSpec { bits_per_second: 1_000_000_000, round_trip: 1_000 }
    }
}

impl FromStr for LinkSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LinkSpec, &'static str> {
        let wrong = "a link must be RATE,DELAY, for example 10mbit,40ms";
        let (rate, delay) = text.split_once(',').ok_or(wrong)?;
        let rates = [("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
        let rate = number(rate, &rates).ok_or(wrong)?;
        let delay = number(delay, &[("us", 1), ("ms", 1_000), ("s", 1_000_000)]).ok_or(wrong)?;
        if rate < 8_000 || delay > 60_000_000 {
            return Err("a link must have at least 8kbit and at most 60s of delay");
        }
        Ok(LinkSpec { bits_per_second: rate, round_trip: delay })
    }
}

/// Parses "1.5mbit" into the smallest unit.
fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (_, factor) = units.iter().find(|(unit, _)| *unit == &text[digits..])?;
    let value: f64 = text[..digits].parse().ok()?;
    Some((value * *factor as f64) as u64)
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Link {
    bytes_per_second: u64,
    delay: Micros,
    /// When the last accepted byte has left.
    free_at: Micros,
    chunks: VecDeque<(Micros, Vec<u8>)>,
}

impl Link {
    pub(crate) fn new(spec: LinkSpec) -> Link {
        let bytes_per_second = spec.bits_per_second / 8;
        Link { bytes_per_second, delay: spec.round_trip / 2, free_at: 0, chunks: VecDeque::new() }
    }

    /// Sends bytes; they arrive as packets of at most 1448 bytes.
    pub(crate) fn send(&mut self, bytes: &[u8], now: Micros) {
        for packet in bytes.chunks(1448) {
            let took = (packet.len() as u64 * 1_000_000).div_ceil(self.bytes_per_second);
            self.free_at = self.free_at.max(now) + took;
            self.chunks.push_back((self.free_at + self.delay, packet.to_vec()));
        }
    }

    /// The next packet that has arrived.
    pub(crate) fn receive(&mut self, now: Micros) -> Option<Vec<u8>> {
        self.chunks.pop_front_if(|(at, _)| *at <= now).map(|(_, chunk)| chunk)
    }

    /// When the next packet arrives.
    pub(crate) fn next_at(&self) -> Option<Micros> {
        self.chunks.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_parsed_as_people_write_them() {
        let spec = |bits_per_second, round_trip| Ok(LinkSpec { bits_per_second, round_trip });
        assert_eq!("10mbit,40ms".parse(), spec(10_000_000, 40_000));
        assert_eq!("1.5gbit,500us".parse(), spec(1_500_000_000, 500));
        for wrong in [
            "",
            "10",
            "10mbit",
            "mbit,1ms",
            "10mbit,40",
            "0kbit,1ms",
            "-1mbit,1ms",
            "1mbit,61s",
            "1..2mbit,1ms",
        ] {
            assert!(wrong.parse::<LinkSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_arrive_after_their_transmission_time_and_the_delay() {
        let mut link = Link::new(LinkSpec { bits_per_second: 8_000_000, round_trip: 40_000 });
        link.send(&[7; 1000], 5);
        assert_eq!(link.next_at(), Some(5 + 1_000 + 20_000));
        assert_eq!(link.receive(21_004), None);
        assert_eq!(link.receive(21_005), Some(vec![7; 1000]));
    }
}
