//! Path 10/13: under viewer.rs, from what was committed, to messages for transport.
//! Appends updates, sound and what goes behind the display within the path's budget, in the order
//! of their ranks. Knows messages and their bytes; never pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::session::{SessionMessage, Update};

use super::{SessionContext, Viewer};
use crate::delivery::ledger::{OutgoingPart, Written};
use crate::delivery::packer::Packer;
use crate::queue::command_queue::Lane;

/// A message that was appended, or given to the packer as a datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// It ends a frame and is on the stream.
    ends_frame: bool,
    datagram_bytes: usize,
}

impl Viewer {
    /// Appends whole messages within the budget; true if there were any.
    pub(crate) fn poll_transmit(
        &mut self,
        screen: &SessionContext<'_>,
        now: Micros,
        packer: &mut dyn Packer,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        if self.control.is_closed() {
            return false;
        }
        self.transmit_control(screen, now, out);
        self.delivery.flow.control_sent((out.len() - start) as u64, now);
        if self.control.transmit_close(out) {
            return true;
        }
        if self.awaits_resumption(now) {
            return out.len() > start;
        }
        self.transmit_sound(packer, now, out);
        self.transmit_late_piece(now, out);
        self.repeat(packer, now);
        self.probe_path(packer, now);
        let datagram_bytes = self.transmit_updates(start, now, packer, out);
        self.transmit_pieces(now, start, out);
        if self.delivery.flow.wants_marker() {
            self.transmit_marker(now, out);
        }
        // A refresh shows what was drawn before any barrier that waits.
        if self.pending.may_finish_barriers() {
            let before = out.len();
            self.finish_barriers(out);
            self.delivery.flow.control_sent((out.len() - before) as u64, now);
        }
        let bytes = out.len() - start + datagram_bytes;
        self.counts.stats.bytes += bytes as u64;
        bytes > 0
    }

    /// Sends committed updates while there is room; `start` is where this chunk begins. Returns the
    /// bytes of datagrams.
    fn transmit_updates(
        &mut self,
        start: usize,
        now: Micros,
        packer: &mut dyn Packer,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut datagram_bytes = 0;
        while let Some(at) =
            self.delivery.ledger.next(now).filter(|_| !self.delivery.ledger.is_full())
        {
            let (lane, bytes) = self.delivery.ledger.next_bytes(at);
            let may_go = self.delivery.flow.may_send(bytes, now);
            if !(may_go || lane == Lane::RealTime && self.delivery.flow.may_send_real_time(now)) {
                break;
            }
            if out.len() - start >= self.delivery.flow.chunk_bytes() {
                // The shell returns once this was sent; until then urgent updates can overtake the
                // rest.
                break;
            }
            let before = out.len();
            let sent = self.transmit_update(at, lane, now, packer, out);
            datagram_bytes += sent.datagram_bytes;
            if lane == Lane::RealTime {
                let bytes = out.len() - before + sent.datagram_bytes;
                self.delivery.flow.sent_in_real_time(bytes as u64, now);
            }
            if sent.ends_frame {
                // Nothing after the end of a frame: in one TLS record, the next frame's first part
                // would delay it.
                break;
            }
        }
        datagram_bytes
    }

    /// Sends the next part of the update at `at`.
    fn transmit_update(
        &mut self,
        at: usize,
        lane: Lane,
        now: Micros,
        packer: &mut dyn Packer,
        out: &mut Vec<u8>,
    ) -> Sent {
        let as_datagram = self.use_datagram(at, lane, packer.datagram_bytes(), now);
        let epoch = self.pending.epoch();
        let more = !self.pending.queue.is_empty();
        let mut sent = Sent::default();
        let Viewer { delivery, pending, quality, counts, .. } = self;
        let seq = delivery.send(at, as_datagram, more, now, |outgoing, packed| {
            sent.ends_frame = outgoing.end_of_frame && !as_datagram;
            counts.sent(&outgoing, now);
            pending.videos.ended(outgoing.ends, outgoing.seq);
            quality.refresh.sent(outgoing.job, outgoing.painted(), now);
            if outgoing.is_last {
                quality.refresh.done(outgoing.job);
            }
            packed.clear();
            let update = update(&outgoing, epoch);
            if as_datagram {
                SessionMessage::Update(update).encode(packed);
                packer.put_datagram(packed);
                sent.datagram_bytes = packed.len();
                return Written {
                    commands: outgoing.commands.len() as u64,
                    message: packed.len() as u64,
                };
            }
            // An empty update does not use the packing stream.
            let packs = !outgoing.commands.is_empty() && !outgoing.is_final;
            let how = if packs { packer.pack(outgoing.commands, packed) } else { None };
            let commands = if how.is_some() { packed } else { outgoing.commands };
            pending.estimate.learn_packed(
                outgoing.kind,
                outgoing.commands.len() as u64,
                commands.len() as u64,
            );
            let before = out.len();
            SessionMessage::Update(Update { packed: how, commands, ..update }).encode(out);
            Written { commands: commands.len() as u64, message: (out.len() - before) as u64 }
        });
        if as_datagram {
            self.datagram_sent(seq, lane, now);
        }
        sent
    }

    /// Sends an update without commands, for its acknowledgement.
    fn transmit_marker(&mut self, now: Micros, out: &mut Vec<u8>) {
        let epoch = self.pending.epoch();
        let end_of_frame = !self.delivery.ledger.frame_open;
        self.delivery.send_marker(now, |seq| {
            let before = out.len();
            SessionMessage::Update(Update {
                seq,
                after: 0,
                epoch,
                echo: None,
                end_of_frame,
                packed: None,
                commands: &[],
            })
            .encode(out);
            (out.len() - before) as u64
        });
    }
}

/// The message of a part, not packed.
fn update<'a>(outgoing: &OutgoingPart<'a>, epoch: u32) -> Update<'a> {
    Update {
        seq: outgoing.seq,
        after: outgoing.after,
        epoch,
        echo: outgoing.echo.map(|echo| echo.seq),
        end_of_frame: outgoing.end_of_frame,
        packed: None,
        commands: outgoing.commands,
    }
}
