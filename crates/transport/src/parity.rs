//! Path 10/13 over QUIC: redundancy for the end of a burst on a path that loses packets.
//! From session-server's packing.rs with the bytes of the stream, to `PARITY` datagrams; and at
//! the viewer's end from those and the stream's bytes in the order of their arrival, to the stream
//! in order. A lost packet at the end of a burst costs a round trip; repaired, it costs nothing.
//! Bytes before the last round trip need no redundancy: QUIC has retransmitted them by the end.
//! Knows offsets and bytes; never messages, sockets or time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::OnceLock;
use std::thread;

use bytes::{Buf as _, Bytes};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use thinc_protocol::limits::{PARITIES_MAX, PARITY_GROUP_BYTES_MAX};
use thinc_protocol::parity::{Parity, SYMBOL_BYTES};

/// Loss rate below which there are no parities: few bursts lose anything, and all would pay.
const LOSS_RATE_MIN: f64 = 0.004;
/// Fewest packets that the loss rate is measured from, and how many weigh as much as all that was
/// known before.
const LOSS_SAMPLE_PACKETS: u64 = 64;
const LOSS_MEMORY_PACKETS: f64 = 128.0;
/// Standard deviations of the number of lost packets that parities make up for beyond its mean.
const LOSS_DEVIATIONS: f64 = 2.0;
/// 10 ms: shortest round trip that is worth saving.
const RTT_MIN_US: u64 = 10_000;
/// Parities take at most this part of the path's bytes, since what is drawn next waits for them.
const WINDOW_PART: u64 = 4;
/// ... and of a group's packets.
const PACKETS_PART: u64 = 3;
/// Bytes of a `PARITY` message before its symbols, at most.
const HEADER_BYTES: usize = 24;
/// Groups that a viewer remembers; beyond it the oldest is dropped.
const GROUPS_MAX: usize = 8;
/// 64 MiB: most bytes behind a gap that a viewer holds: the largest congestion window. Each piece
/// counts for its place in the map too.
const AHEAD_BYTES_MAX: usize = 64 << 20;
const PIECE_BYTES: usize = 512;
/// One byte of a group in two has to arrive before another is computed: a viewer does no more work
/// for what a session says than for what it sends.
const CREDIT_PART: u64 = 2;

/// What is known of the path when a burst has ended.
#[derive(Clone, Copy, Debug)]
pub struct TailPath {
    /// Bytes handed over and not acknowledged.
    pub unacknowledged: u64,
    /// Bytes that may be in flight.
    pub window: u64,
    /// Recent round trip, in microseconds.
    pub rtt: u64,
    /// Packets sent and lost since the connection began.
    pub packets: u64,
    /// See above.
    pub lost: u64,
}

/// The code's tables take 8 MiB and 14 ms: a thread fills them when a path first loses packets.
/// False until then.
fn tables_are_ready() -> bool {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        // Without a thread there are no parities, and nothing else is lost.
        let _ = thread::Builder::new().name("parity".into()).spawn(fill_tables);
    });
    TABLES.get().is_some()
}

static TABLES: OnceLock<()> = OnceLock::new();

/// Fills the tables now: for tests, whose parities are not to be ignored.
pub fn fill_tables() {
    TABLES.get_or_init(|| {
        let _ = ReedSolomonEncoder::new(1, 1, SYMBOL_BYTES);
    });
}

/// A moving mean of the share of packets that are lost.
#[derive(Debug, Default)]
struct LossRate {
    rate: f64,
    packets: u64,
    lost: u64,
}

impl LossRate {
    /// Of so many packets, none of which is in flight, so many were lost.
    fn measure(&mut self, packets: u64, lost: u64) {
        let sent = packets.saturating_sub(self.packets);
        if sent < LOSS_SAMPLE_PACKETS {
            return;
        }
        let sample = lost.saturating_sub(self.lost) as f64 / sent as f64;
        let weight = sent as f64 / (sent as f64 + LOSS_MEMORY_PACKETS);
        self.rate += (sample.min(1.0) - self.rate) * weight;
        (self.packets, self.lost) = (packets, lost);
    }

    fn is_lossy(&self) -> bool {
        self.rate >= LOSS_RATE_MIN
    }

    /// Packets of a group and its parities that the lost ones rarely exceed.
    fn lost_of(&self, packets: u64) -> u64 {
        let mean = packets as f64 * self.rate;
        (mean + LOSS_DEVIATIONS * (mean * (1.0 - self.rate)).sqrt()).ceil() as u64
    }
}

/// The session's end, for one viewer.
#[derive(Debug, Default)]
pub struct ParityEncoder {
    loss: LossRate,
    /// The last bytes of the stream while the path is lossy.
    history: VecDeque<u8>,
    /// Position behind the last byte.
    end: u64,
    /// Position up to which groups have covered the stream, and `end` when a burst ended last.
    covered: u64,
    rested_at: u64,
    symbols: Vec<u8>,
    message: Vec<u8>,
}

impl ParityEncoder {
    /// These bytes were written to the stream.
    pub fn written(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        if self.loss.is_lossy() {
            self.history.extend(bytes);
            let excess = self.history.len().saturating_sub(PARITY_GROUP_BYTES_MAX as usize);
            self.history.drain(..excess);
        } else {
            self.history.clear();
        }
    }

    /// Bytes were written since a burst ended last.
    pub fn has_new_bytes(&self) -> bool {
        self.end > self.rested_at
    }

    /// A burst has ended: passes parities of its last bytes to `put`, in messages of at most
    /// `datagram_bytes`, if the path loses packets.
    pub fn protect_tail(
        &mut self,
        path: TailPath,
        datagram_bytes: usize,
        mut put: impl FnMut(&[u8]),
    ) {
        self.rested_at = self.end;
        let in_flight = path.unacknowledged / datagram_bytes.max(1) as u64;
        self.loss.measure(path.packets.saturating_sub(in_flight), path.lost);
        let start = (self.end.saturating_sub(path.unacknowledged))
            .max(self.end - self.history.len() as u64)
            .max(self.covered);
        let in_datagram = datagram_bytes.saturating_sub(HEADER_BYTES) / SYMBOL_BYTES;
        // What is shorter waits for the next group.
        if self.end - start < SYMBOL_BYTES as u64
            || !self.loss.is_lossy()
            || path.rtt < RTT_MIN_US
            || in_datagram == 0
            || !tables_are_ready()
        {
            return;
        }
        self.covered = self.end;
        let bytes = (self.end - start) as usize;
        let packets = bytes.div_ceil(datagram_bytes) as u64;
        let lost = (self.loss.lost_of(packets))
            .min(packets.div_ceil(PACKETS_PART))
            .min(path.window / WINDOW_PART / datagram_bytes as u64);
        // A packet begins and ends within symbols.
        let in_packet = datagram_bytes / SYMBOL_BYTES + 1;
        let originals = bytes.div_ceil(SYMBOL_BYTES);
        let parities = (lost as usize * in_packet).min(originals).min(usize::from(PARITIES_MAX));
        if parities == 0 {
            return;
        }
        self.encode(start, bytes, parities);
        let count = (bytes as u32, parities as u16);
        for (at, symbols) in self.symbols.chunks(in_datagram * SYMBOL_BYTES).enumerate() {
            let first = (at * in_datagram) as u16;
            self.message.clear();
            Parity { start, bytes: count.0, parities: count.1, first, symbols }
                .encode(&mut self.message);
            put(&self.message);
        }
    }

    /// Computes the parities of these last bytes into `symbols`.
    fn encode(&mut self, start: u64, bytes: usize, parities: usize) {
        let originals = bytes.div_ceil(SYMBOL_BYTES);
        let valid = "a group has 1 to 2048 symbols of an even length, and no more parities";
        let mut encoder = ReedSolomonEncoder::new(originals, parities, SYMBOL_BYTES).expect(valid);
        let first = self.history.len() - (self.end - start) as usize;
        let mut symbol = [0; SYMBOL_BYTES];
        for at in (first..self.history.len()).step_by(SYMBOL_BYTES) {
            let until = (at + SYMBOL_BYTES).min(self.history.len());
            copy_from(&self.history, at..until, &mut symbol);
            symbol[until - at..].fill(0);
            encoder.add_original_shard(symbol).expect(valid);
        }
        self.symbols.clear();
        let result = encoder.encode().expect(valid);
        result.recovery_iter().for_each(|parity| self.symbols.extend_from_slice(parity));
    }
}

fn copy_from(from: &VecDeque<u8>, range: Range<usize>, into: &mut [u8]) {
    let (front, back) = from.as_slices();
    let (split, count) = (front.len().clamp(range.start, range.end), range.end - range.start);
    let (first, second) = into[..count].split_at_mut(split - range.start);
    if !first.is_empty() {
        first.copy_from_slice(&front[range.start..split]);
    }
    if !second.is_empty() {
        second.copy_from_slice(&back[split - front.len()..range.end - front.len()]);
    }
}

/// Parities that have arrived of one group.
#[derive(Debug)]
struct Group {
    range: Range<u64>,
    parities: u16,
    arrived: Vec<(u16, [u8; SYMBOL_BYTES])>,
}

/// The stream, from bytes in any order and from parities.
#[derive(Debug)]
pub struct RepairedStream {
    /// Position of the next byte to read.
    next: u64,
    /// Bytes from `next` on, by position; they do not overlap.
    ahead: BTreeMap<u64, Bytes>,
    ahead_bytes: usize,
    /// The bytes before `next`.
    history: VecDeque<u8>,
    groups: VecDeque<Group>,
    repaired: u64,
    /// Bytes that arrived and have not paid for a computation.
    credit: u64,
}

impl RepairedStream {
    /// A stream whose bytes up to `next` were read.
    pub fn new(next: u64) -> RepairedStream {
        RepairedStream {
            next,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            history: VecDeque::new(),
            groups: VecDeque::new(),
            repaired: 0,
            credit: PARITY_GROUP_BYTES_MAX.into(),
        }
    }

    /// Bytes that parities have made up for since the last call.
    pub fn take_repaired(&mut self) -> u64 {
        std::mem::take(&mut self.repaired)
    }

    /// Bytes can be read.
    pub fn is_readable(&self) -> bool {
        self.ahead.first_key_value().is_some_and(|(&at, _)| at == self.next)
    }

    /// Copies the next bytes in order; 0 if they are not there yet.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let mut count = 0;
        while count < into.len()
            && let Some(mut entry) = self.ahead.first_entry()
            && *entry.key() == self.next
        {
            let most = into.len() - count;
            let part = if entry.get().len() <= most {
                entry.remove()
            } else {
                let part = entry.get_mut().split_to(most);
                let rest = entry.remove();
                self.ahead.insert(self.next + most as u64, rest);
                part
            };
            into[count..count + part.len()].copy_from_slice(&part);
            self.history.extend(&part[..]);
            self.ahead_bytes -= part.len();
            self.next += part.len() as u64;
            count += part.len();
        }
        let excess = self.history.len().saturating_sub(PARITY_GROUP_BYTES_MAX as usize);
        self.history.drain(..excess);
        self.groups.retain(|group| group.range.end > self.next);
        count
    }

    /// Bytes of the stream arrived. False: there are too many behind a gap.
    #[must_use]
    pub fn arrived(&mut self, at: u64, bytes: Bytes) -> bool {
        // A piece that has to wait must not keep all that arrived with it in memory.
        let waits = at > self.next;
        let new = self.insert(at, if waits { Bytes::copy_from_slice(&bytes) } else { bytes });
        self.credit = (self.credit + new).min(2 * u64::from(PARITY_GROUP_BYTES_MAX));
        self.repair();
        self.is_within_limit()
    }

    fn is_within_limit(&self) -> bool {
        self.ahead_bytes + PIECE_BYTES * self.ahead.len() <= AHEAD_BYTES_MAX
    }

    /// Parities arrived. False: there are too many bytes behind a gap.
    #[must_use]
    pub fn parity(&mut self, parity: &Parity<'_>) -> bool {
        let range = parity.start..parity.start + u64::from(parity.bytes);
        let furthest = self.next + AHEAD_BYTES_MAX as u64;
        if range.end <= self.next || range.end > furthest || !tables_are_ready() {
            return true;
        }
        let same = |group: &Group| group.range == range && group.parities == parity.parities;
        let at = match self.groups.iter().position(same) {
            Some(at) => at,
            None => {
                if self.groups.len() == GROUPS_MAX {
                    self.groups.pop_front();
                }
                let (parities, arrived) = (parity.parities, Vec::new());
                self.groups.push_back(Group { range, parities, arrived });
                self.groups.len() - 1
            }
        };
        let arrived = &mut self.groups[at].arrived;
        let (symbols, _) = parity.symbols.as_chunks();
        for (number, symbol) in (parity.first..).zip(symbols) {
            if arrived.iter().all(|(other, _)| *other != number) {
                arrived.push((number, *symbol));
            }
        }
        self.repair();
        self.is_within_limit()
    }

    fn insert(&mut self, mut at: u64, mut bytes: Bytes) -> u64 {
        let mut new = 0;
        let before = self.ahead.range(..=at).next_back();
        let known = before.map_or(self.next, |(&of, it)| (of + it.len() as u64).max(self.next));
        let skip = known.saturating_sub(at).min(bytes.len() as u64);
        bytes.advance(skip as usize);
        at += skip;
        while !bytes.is_empty() {
            let next = self.ahead.range(at..).next().map(|(&of, it)| (of, it.len() as u64));
            let free = next.map_or(u64::MAX, |(of, _)| of - at).min(bytes.len() as u64);
            if free > 0 {
                self.ahead.insert(at, bytes.split_to(free as usize));
                new += free;
            }
            let skip = next.map_or(0, |(_, len)| len).min(bytes.len() as u64);
            bytes.advance(skip as usize);
            at += free + skip;
        }
        self.ahead_bytes += new as usize;
        new
    }

    /// Computes what is missing of each group that has enough parities.
    fn repair(&mut self) {
        let mut at = 0;
        while at < self.groups.len() {
            let missing = self.missing(&self.groups[at].range);
            if missing.len() <= self.groups[at].arrived.len() {
                let group = self.groups.remove(at).expect("the index was checked");
                let cost = (group.range.end - group.range.start) / CREDIT_PART;
                if !missing.is_empty() && self.credit >= cost {
                    self.credit -= cost;
                    self.repair_group(&group, &missing);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Numbers of the group's symbols of which some byte is neither remembered nor ahead.
    fn missing(&self, group: &Range<u64>) -> Vec<u64> {
        // Runs of known bytes that do not touch.
        let mut runs = Vec::with_capacity(16);
        runs.push(self.next - self.history.len() as u64..self.next);
        let before = self.ahead.range(..group.start).next_back();
        for (&at, bytes) in before.into_iter().chain(self.ahead.range(group.clone())) {
            let end = at + bytes.len() as u64;
            match runs.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => runs.push(at..end),
            }
        }
        let mut runs = runs.into_iter().peekable();
        let symbols = 0..(group.end - group.start).div_ceil(SYMBOL_BYTES as u64);
        symbols
            .filter(|&number| {
                let symbol = symbol_range(group, number);
                while runs.next_if(|run| run.end < symbol.end).is_some() {}
                runs.peek().is_none_or(|run| run.start > symbol.start)
            })
            .collect()
    }

    fn repair_group(&mut self, group: &Group, missing: &[u64]) {
        let originals = (group.range.end - group.range.start).div_ceil(SYMBOL_BYTES as u64);
        let Ok(mut decoder) =
            ReedSolomonDecoder::new(originals as usize, group.parities.into(), SYMBOL_BYTES)
        else {
            return;
        };
        let mut absent = missing.iter().peekable();
        for number in 0..originals {
            if absent.next_if_eq(&&number).is_none() {
                let symbol = self.symbol(symbol_range(&group.range, number));
                if decoder.add_original_shard(number as usize, symbol).is_err() {
                    return;
                }
            }
        }
        for (number, symbol) in group.arrived.iter().take(missing.len()) {
            if decoder.add_recovery_shard((*number).into(), symbol).is_err() {
                return;
            }
        }
        let Ok(result) = decoder.decode() else { return };
        for (number, symbol) in result.restored_original_iter() {
            let range = symbol_range(&group.range, number as u64);
            let len = (range.end - range.start) as usize;
            self.repaired += self.insert(range.start, Bytes::copy_from_slice(&symbol[..len]));
        }
    }

    /// A symbol whose bytes are all known.
    fn symbol(&self, range: Range<u64>) -> [u8; SYMBOL_BYTES] {
        let mut symbol = [0; SYMBOL_BYTES];
        let first = self.next - self.history.len() as u64;
        let mut at = range.start;
        if at < self.next {
            let until = range.end.min(self.next);
            let places = (at - first) as usize..(until - first) as usize;
            copy_from(&self.history, places, &mut symbol);
            at = until;
        }
        while at < range.end
            && let Some((&of, bytes)) = self.ahead.range(..=at).next_back()
        {
            let skip = (at - of) as usize;
            let count = (bytes.len() - skip).min((range.end - at) as usize);
            let place = (at - range.start) as usize;
            symbol[place..place + count].copy_from_slice(&bytes[skip..skip + count]);
            at += count as u64;
        }
        symbol
    }
}

fn symbol_range(group: &Range<u64>, number: u64) -> Range<u64> {
    let start = group.start + number * SYMBOL_BYTES as u64;
    start..(start + SYMBOL_BYTES as u64).min(group.end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATAGRAM: usize = 1200;

    fn stream(bytes: usize) -> Vec<u8> {
        (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    /// An encoder for a path that loses this share of its packets.
    fn encoder(rate: f64) -> ParityEncoder {
        fill_tables();
        assert!(tables_are_ready());
        ParityEncoder { loss: LossRate { rate, ..LossRate::default() }, ..Default::default() }
    }

    fn path(unacknowledged: u64) -> TailPath {
        TailPath { unacknowledged, window: 1 << 20, rtt: 66_000, packets: 0, lost: 0 }
    }

    fn protect(encoder: &mut ParityEncoder, path: TailPath) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        encoder.protect_tail(path, DATAGRAM, |message| messages.push(message.to_vec()));
        assert!(messages.iter().all(|message| message.len() <= DATAGRAM));
        messages
    }

    fn give(stream: &mut RepairedStream, message: &[u8]) {
        with_parity(message, |parity| assert!(stream.parity(parity)));
    }

    fn with_parity<T>(message: &[u8], use_it: impl FnOnce(&Parity<'_>) -> T) -> T {
        let frame = thinc_protocol::framing::MessageFrame::from_datagram(message).unwrap();
        use_it(&Parity::decode(&frame).unwrap())
    }

    fn read_all(from: &mut RepairedStream, into: &mut Vec<u8>) {
        let mut buffer = [0; 1000];
        while from.is_readable() {
            let count = from.read(&mut buffer);
            into.extend_from_slice(&buffer[..count]);
        }
    }

    #[test]
    fn lost_packets_at_the_end_of_a_burst_need_no_retransmission() {
        let bytes = stream(140_000);
        let mut encoder = encoder(0.02);
        bytes.chunks(8192).for_each(|chunk| encoder.written(chunk));
        let messages = protect(&mut encoder, path(100_000));
        // 84 packets, of which 2 % and two deviations are 5, at 10 symbols; 9 in a datagram.
        assert_eq!(messages.len(), 6);
        assert!(protect(&mut encoder, path(100_000)).is_empty(), "once for each byte");
        let (mut received, mut repaired) = (Vec::new(), RepairedStream::new(0));
        for (number, packet) in bytes.chunks(DATAGRAM).enumerate() {
            if ![40, 41, 70, 116].contains(&number) {
                let at = (number * DATAGRAM) as u64;
                assert!(repaired.arrived(at, Bytes::copy_from_slice(packet)));
            }
            read_all(&mut repaired, &mut received);
        }
        assert_eq!(received.len(), 40 * DATAGRAM);
        messages[1..].iter().for_each(|message| give(&mut repaired, message));
        read_all(&mut repaired, &mut received);
        assert!(received == bytes);
        assert_eq!(repaired.take_repaired(), 3 * 1200 + 800);
        // The retransmissions come all the same.
        assert!(repaired.arrived(40 * 1200, Bytes::copy_from_slice(&bytes[48_000..50_400])));
        assert!(!repaired.is_readable());
    }

    #[test]
    fn parities_are_for_lossy_and_long_paths_and_leave_room_for_what_comes_next() {
        let bytes = stream(60_000);
        let count = |rate, path: TailPath| {
            let mut encoder = encoder(rate);
            encoder.written(&bytes);
            protect(&mut encoder, path).len()
        };
        assert_eq!(count(0.003, path(60_000)), 0, "too little loss");
        assert_eq!(count(0.1, TailPath { rtt: 9_000, ..path(60_000) }), 0, "a short path");
        assert_eq!(count(0.1, path(0)), 0, "everything has arrived");
        // 50 packets: 5 and two deviations of 2.1, at 10 symbols; 9 in a datagram.
        assert_eq!(count(0.1, path(60_000)), 12);
        assert_eq!(count(0.1, TailPath { window: 20_000, ..path(60_000) }), 5);
        assert_eq!(count(0.9, path(60_000)), 19, "a third at most");
    }

    #[test]
    fn the_loss_rate_follows_the_path() {
        let mut encoder = encoder(0.0);
        let lossy = |packets, lost| TailPath { packets, lost, ..path(10_000) };
        encoder.written(&[7; 10_000]);
        assert!(protect(&mut encoder, lossy(100, 10)).is_empty(), "nothing was remembered yet");
        encoder.written(&[7; 10_000]);
        assert!(!protect(&mut encoder, lossy(150, 10)).is_empty());
        for burst in 1..20 {
            encoder.written(&[7; 10_000]);
            protect(&mut encoder, lossy(150 + 100 * burst, 10));
        }
        encoder.written(&[7; 10_000]);
        assert!(protect(&mut encoder, lossy(9999, 10)).is_empty());
        assert!(encoder.history.is_empty());
    }

    #[test]
    fn a_peer_that_never_fills_a_gap_is_refused() {
        let mut repaired = RepairedStream::new(0);
        let part = Bytes::from(vec![0; 1 << 20]);
        let mut parts = (0..).map(|part| (part << 20) + 1);
        let held = parts.by_ref().take_while(|&at| repaired.arrived(at, part.clone())).count();
        assert_eq!(held, 63);
        let mut repaired = RepairedStream::new(0);
        let byte = Bytes::from_static(b"x");
        let held = (1..).step_by(2).take_while(|&at| repaired.arrived(at, byte.clone())).count();
        assert_eq!(held, (64 << 20) / 513);
    }

    #[test]
    fn a_peer_that_sends_parities_and_no_bytes_is_ignored_or_refused() {
        fill_tables();
        let mut repaired = RepairedStream::new(0);
        let symbols = [7; 9 * SYMBOL_BYTES];
        let group = |start| Parity { start, bytes: 1152, parities: 9, first: 0, symbols: &symbols };
        for start in (1 << 20..1 << 30).step_by(1 << 20) {
            assert!(repaired.parity(&group(start)));
        }
        let (pieces, bytes) = (repaired.ahead.len(), repaired.ahead_bytes);
        assert!(pieces <= 9 * 63 && bytes <= 63 * 1152, "{pieces} pieces, {bytes} bytes");
        // What was computed before the credit was spent, and nothing far ahead.
        assert!(repaired.credit <= u64::from(PARITY_GROUP_BYTES_MAX));
        let work = (0..10_000).filter(|at| {
            let credit = repaired.credit;
            assert!(repaired.parity(&group(4096 + 128 * at)));
            repaired.credit < credit
        });
        assert!(work.count() <= 2 * (256 << 10) / 1152);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever is lost, duplicated and reordered, the stream is right; and it is complete
        /// without a retransmission if parities have arrived for all symbols that are missing.
        #[test]
        fn every_byte_arrives_once_and_in_order(
            bursts in prop::collection::vec((1usize..40_000, 0.0..1.0f64, any::<bool>()), 1..6),
            rate in 0.004..0.3f64,
            loss in 0.0..0.3f64,
            seed in any::<u64>(),
        ) {
            let mut state = seed | 1;
            let mut random = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let whole = stream(bursts.iter().map(|(bytes, ..)| bytes).sum());
            let mut encoder = encoder(rate);
            let mut received = Vec::new();
            let mut repaired = RepairedStream::new(0);
            let mut at = 0;
            for (bytes, part, reordered) in bursts {
                encoder.written(&whole[at..at + bytes]);
                let unacknowledged = (bytes as f64 * part) as u64;
                let mut events = Vec::new();
                let mut lost = Vec::new();
                let end = at + bytes;
                while at < end {
                    let len = (1 + (random() * 1400.0) as usize).min(end - at);
                    if random() < loss { lost.push((at, len)) } else {
                        events.push((Some((at, len)), Vec::new()));
                    }
                    at += len;
                }
                let (mut group, mut parities) = (end as u64..end as u64, 0);
                for message in protect(&mut encoder, path(unacknowledged)) {
                    if random() >= loss {
                        with_parity(&message, |parity| {
                            group = parity.start..parity.start + u64::from(parity.bytes);
                            parities += parity.symbols.len() / SYMBOL_BYTES;
                        });
                        events.push((None, message));
                    }
                }
                let symbol = |at: usize| (at as u64 - group.start) / SYMBOL_BYTES as u64;
                let missing: std::collections::BTreeSet<u64> = lost
                    .iter()
                    .filter(|(at, len)| (at + len) as u64 > group.start)
                    .flat_map(|&(at, len)| {
                        symbol(at.max(group.start as usize))..=symbol(at + len - 1)
                    })
                    .collect();
                let is_complete = lost.iter().all(|&(at, _)| at as u64 >= group.start)
                    && missing.len() <= parities;
                if reordered {
                    events.sort_by_cached_key(|_| (random() * 1e9) as u64);
                }
                let first = events.len();
                events.extend(lost.into_iter().map(|lost| (Some(lost), Vec::new())));
                for (number, (bytes, message)) in events.into_iter().enumerate() {
                    if number == first && is_complete {
                        read_all(&mut repaired, &mut received);
                        prop_assert_eq!(received.len(), end, "{} lost symbols", missing.len());
                    }
                    match bytes {
                        Some((at, len)) => prop_assert!(repaired
                            .arrived(at as u64, Bytes::copy_from_slice(&whole[at..at + len]))),
                        None => give(&mut repaired, &message),
                    }
                    if random() < 0.5 { read_all(&mut repaired, &mut received) }
                }
                read_all(&mut repaired, &mut received);
                prop_assert_eq!(received.len(), end);
            }
            prop_assert!(received == whole);
            prop_assert_eq!(repaired.ahead_bytes, 0);
        }
    }
}
