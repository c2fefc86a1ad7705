//! The record of every delivered packet with its time: bounded, in memory, one list for each
//! direction. Beside the path, from wire.rs to testbed.rs. Knows times and lengths; never the
//! content of a packet beyond its headers.

use std::collections::VecDeque;
use std::time::Instant;

use crate::net::testbed::{Direction, Packet, Traffic};

/// Packets kept in each direction: a quarter of an hour of full packets at 24 Mbit/s, 96 MiB when
/// full. The oldest are dropped first, which [`Traffic::forgotten`] reports.
const PACKETS_MAX: usize = 2 << 20;

/// The recorded packets and losses.
#[derive(Default)]
pub(crate) struct Trace {
    down: VecDeque<Packet>,
    up: VecDeque<Packet>,
    /// Times of the lost ones.
    dropped: VecDeque<Instant>,
    /// The newest packet that was forgotten.
    forgotten: Option<Instant>,
}

impl Trace {
    /// Records a packet; the packets of one direction are in order of time.
    pub(crate) fn handle_packet(&mut self, packet: Packet) {
        let list = match packet.direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        };
        if list.len() == PACKETS_MAX {
            self.forgotten = self.forgotten.max(list.pop_front().map(|packet| packet.at));
        }
        list.push_back(packet);
    }

    /// Counts a packet that was lost.
    pub(crate) fn handle_drop(&mut self, at: Instant) {
        if self.dropped.len() == PACKETS_MAX {
            self.forgotten = self.forgotten.max(self.dropped.pop_front());
        }
        self.dropped.push_back(at);
    }

    /// The traffic from then on, one direction after the other: the caller sorts it after it has
    /// released the trace.
    pub(crate) fn since(&self, from: Instant) -> Traffic {
        let mut packets = vec![];
        for list in [&self.down, &self.up] {
            packets.extend(list.range(list.partition_point(|packet| packet.at < from)..));
        }
        // The threads of both directions add losses to one list in batches, so it is not sorted.
        let dropped = self.dropped.iter().rev().filter(|at| **at >= from).count() as u64;
        Traffic { packets, dropped, forgotten: self.forgotten.is_some_and(|at| at >= from) }
    }
}

fn word(packet: &[u8], at: usize) -> Option<usize> {
    packet.get(at..at + 2).map(|b| usize::from(u16::from_be_bytes([b[0], b[1]])))
}

/// Protocol of an IP packet, where its header ends, and its length; None for other packets and for
/// fragments after the first.
fn ip_header(packet: &[u8]) -> Option<(u8, usize, usize)> {
    match packet.first()? >> 4 {
        4 if word(packet, 6)? & 0x1fff == 0 => {
            Some((*packet.get(9)?, usize::from(packet[0] & 15) * 4, word(packet, 2)?))
        }
        6 => Some((*packet.get(6)?, 40, word(packet, 4)? + 40)),
        _ => None,
    }
}

/// Whether a TCP packet has this port at either end.
pub(crate) fn has_port(packet: &[u8], port: u16) -> bool {
    let ports = |header| Some([word(packet, header)?, word(packet, header + 2)?]);
    match ip_header(packet) {
        Some((6, header, _)) => ports(header).is_some_and(|ports| ports.contains(&port.into())),
        _ => false,
    }
}

/// Bytes after the TCP or UDP header of an IP packet; zero for everything else and for fragments
/// after the first.
pub(crate) fn payload(packet: &[u8]) -> u32 {
    let parse = || {
        let (protocol, header, length) = ip_header(packet)?;
        let above = match protocol {
            6 => usize::from(packet.get(header + 12)? >> 4) * 4,
            17 => 8,
            _ => return None,
        };
        u32::try_from(length.checked_sub(header + above)?).ok()
    };
    parse().unwrap_or(0)
}

/// Whether it is UDP, fragments included; IPv6 extension headers are not skipped.
pub(crate) fn is_udp(packet: &[u8]) -> bool {
    let at = match packet.first().map(|first| first >> 4) {
        Some(4) => 9,
        Some(6) => 6,
        _ => return false,
    };
    packet.get(at) == Some(&17)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn packet(at: Instant, direction: Direction, bytes: u32) -> Packet {
        Packet { at, direction, bytes, payload: bytes - 40 }
    }

    #[test]
    fn a_mark_divides_the_traffic() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut trace = Trace::default();
        trace.handle_packet(packet(at(3), Direction::Down, 300));
        trace.handle_packet(packet(at(9), Direction::Down, 900));
        trace.handle_packet(packet(at(1), Direction::Up, 100));
        trace.handle_packet(packet(at(5), Direction::Up, 500));
        trace.handle_drop(at(6));
        trace.handle_drop(at(2));
        let all = trace.since(begin);
        assert_eq!(
            all.packets.iter().map(|packet| packet.bytes).collect::<Vec<_>>(),
            [300, 900, 100, 500]
        );
        assert_eq!((all.dropped, all.forgotten), (2, false));
        let late = trace.since(at(5));
        assert_eq!(
            (late.bytes(Direction::Down), late.bytes(Direction::Up), late.dropped),
            (900, 500, 1)
        );
    }

    #[test]
    fn the_oldest_are_forgotten_which_is_reported() {
        let begin = Instant::now();
        let mut trace = Trace::default();
        for n in 0..PACKETS_MAX as u64 + 10 {
            trace.handle_packet(packet(begin + Duration::from_micros(n), Direction::Down, 40));
        }
        let all = trace.since(begin);
        assert_eq!((all.packets.len(), all.forgotten), (PACKETS_MAX, true));
        assert!(!trace.since(begin + Duration::from_micros(10)).forgotten);
    }

    #[test]
    fn payload_is_what_follows_tcp_and_udp() {
        let mut tcp = [0u8; 100];
        (tcp[0], tcp[3], tcp[9], tcp[32]) = (0x45, 92, 6, 8 << 4);
        assert_eq!(payload(&tcp), 92 - 20 - 32);
        (tcp[20], tcp[21], tcp[22], tcp[23]) = (0x13, 0xd6, 0x80, 1);
        assert_eq!([0x13d6, 0x8001, 0x13d7].map(|port| has_port(&tcp, port)), [true, true, false]);
        let mut udp = [0u8; 100];
        (udp[0], udp[3], udp[9]) = (0x46, 60, 17);
        (udp[24], udp[25]) = (0x13, 0xd6);
        assert!(!has_port(&udp, 0x13d6) && !has_port(&[], 0) && !has_port(&tcp[..21], 0x13d6));
        assert_eq!(payload(&udp), 60 - 24 - 8);
        assert_eq!([&tcp[..], &udp, &[], &[0x45]].map(is_udp), [false, true, false, false]);
        udp[7] = 1;
        assert_eq!(payload(&udp), 0, "a later fragment has no header");
        let mut six = [0u8; 100];
        (six[0], six[5], six[6]) = (0x60, 40, 17);
        assert_eq!((payload(&six), is_udp(&six)), (32, true));
        assert_eq!(payload(&[]), 0);
        assert_eq!(payload(&[0x45, 0, 0]), 0);
        (tcp[3], tcp[32]) = (30, 15 << 4);
        assert_eq!(payload(&tcp), 0, "headers longer than the packet");
    }
}
