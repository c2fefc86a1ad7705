//! Beside the path: datagrams, which may be late, lost, or duplicated. Called by world.rs, between
//! a path with losses and both ends. Knows when a datagram arrives; never its contents.

use thinc_protocol::framing::MessageFrame;
use thinc_protocol::viewer::ViewerMessage;
use thinc_session_core::DeliveryOrder;

use super::{Connection, Divergence, World};
use crate::breakage::Breakage;
use crate::pipeline::{Fate, Pipeline};

impl<P: Pipeline> World<P> {
    /// Delivers datagrams, and reports the fates known by now.
    pub(super) fn deliver_datagrams(&mut self, at: usize) -> Result<(), Divergence> {
        let Connection {
            id,
            pipeline,
            datagrams: Some(datagrams),
            stalled,
            acked,
            upstream,
            deframer,
            ..
        } = &mut self.connections[at]
        else {
            return Ok(());
        };
        while !*stalled && let Some(update) = datagrams.down.receive(self.now) {
            pipeline.handle_datagram(&update, self.now).map_err(Divergence)?;
        }
        if datagrams.delivery_order == DeliveryOrder::Mixed {
            let mut datagram = Vec::new();
            if !*stalled {
                pipeline.handle_time(self.now);
                while pipeline.poll_datagram(&mut datagram) {
                    datagrams.up.send(std::mem::take(&mut datagram), self.now, &mut self.random);
                }
            }
            while let Some(datagram) = datagrams.up.receive(self.now) {
                let frame = MessageFrame::from_datagram(&datagram)
                    .map_err(|error| Divergence(error.to_string()))?;
                let message =
                    ViewerMessage::decode(&frame).map_err(|error| Divergence(error.to_string()))?;
                if let ViewerMessage::Early(early) = &message {
                    deframer.push(upstream.from_datagram(early.offset, &early.bytes));
                    continue;
                }
                let ViewerMessage::Arrived(arrived) = &message else {
                    return Err(Divergence(format!("viewer {at} sends {message:?} as a datagram")));
                };
                let handled = self.session.handle_arrived(*id, arrived, self.now);
                handled.map_err(|violation| {
                    Divergence(format!("viewer {at} at {}: {violation}", self.now))
                })?;
                *acked = self.session.acked_in_order(*id);
            }
            return Ok(());
        }
        if !*stalled {
            let apply_late = self.breakage == Some(Breakage::LateUpdatesAreApplied);
            let fates = pipeline.poll_fates(self.now, apply_late).map_err(Divergence)?;
            let known = self.now + datagrams.delay;
            datagrams.reports.extend(fates.into_iter().map(|(seq, fate)| (known, seq, fate)));
        }
        let now = self.now;
        let mut known: Vec<_> = datagrams.reports.extract_if(.., |(at, ..)| *at <= now).collect();
        known.sort_unstable_by_key(|&(at, seq, _)| (at, seq));
        for (_, seq, fate) in known {
            if fate == Fate::Applied || self.breakage == Some(Breakage::DiscardedIsNotLost) {
                let applied = self.session.handle_applied(*id, seq..=seq, now);
                applied.map_err(|violation| {
                    Divergence(format!("viewer {at} at {now}: {violation}"))
                })?;
                continue;
            }
            self.session.handle_lost(*id, seq, now);
            self.tally.lost += 1;
        }
        Ok(())
    }
}
