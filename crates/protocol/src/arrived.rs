//! Path back, beside viewer.rs: the selective acknowledgement of updates sent as datagrams.
//! From viewer-core's datagram_order.rs, through a datagram or the stream, to session-core.
//! Knows numbers and limits; never what an update did.

use std::ops::RangeInclusive;

use crate::limits::{ARRIVED_DISCARDED_MAX, ARRIVED_RUNS_MAX};
use crate::wire::{Reader, WireError, put_varint};

/// Which updates a viewer has applied, and which it never will. Each message repeats the earlier
/// runs as far as there is room, so that a lost one needs no retransmission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Runs of updates that were applied, or dropped because their epoch was over: the newest run
    /// first, with a gap between two runs. From 1 to `ARRIVED_RUNS_MAX` runs.
    pub applied: Vec<RangeInclusive<u64>>,
    /// Updates that arrived after a newer one had been applied over them; each is older than the
    /// newest applied one. At most `ARRIVED_DISCARDED_MAX`.
    pub discarded: Vec<u64>,
}

impl Arrived {
    /// ```text
    /// newest varint | run varint | count varint | count × (gap varint | run varint) |
    /// count varint | count × (newest − discarded varint)
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        let newest = self.applied.first().map_or(0, |run| *run.end());
        put_varint(out, newest);
        let mut before = newest + 1;
        for (at, run) in self.applied.iter().enumerate() {
            if at > 0 {
                put_varint(out, before - run.end() - 1);
            }
            put_varint(out, run.end() + 1 - run.start());
            if at == 0 {
                put_varint(out, self.applied.len() as u64 - 1);
            }
            before = *run.start();
        }
        put_varint(out, self.discarded.len() as u64);
        self.discarded.iter().for_each(|discarded| put_varint(out, newest - discarded));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<Arrived, WireError> {
        let outside = || WireError::Outside("a run of updates");
        let newest = reader.at_most("the newest update", u64::MAX - 1)?;
        let mut applied = Vec::with_capacity(1);
        let mut end = newest;
        let mut more = 0;
        loop {
            let run = reader.varint("a run of updates")?;
            if run == 0 || run > end {
                return Err(outside());
            }
            let start = end - run + 1;
            if applied.is_empty() {
                more = reader.at_most("a count of runs", ARRIVED_RUNS_MAX as u64 - 1)?;
            }
            applied.push(start..=end);
            if applied.len() as u64 > more {
                break;
            }
            let gap = reader.varint("a gap between updates")?;
            if gap == 0 || gap >= start - 1 {
                return Err(outside());
            }
            end = start - 1 - gap;
        }
        let count = reader.at_most("a count of discarded updates", ARRIVED_DISCARDED_MAX as u64)?;
        let mut discarded = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let back = reader.varint("a discarded update")?;
            if back == 0 || back >= newest {
                return Err(WireError::Outside("a discarded update"));
            }
            discarded.push(newest - back);
        }
        Ok(Arrived { applied, discarded })
    }
}
