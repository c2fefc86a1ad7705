//! Path 6/13: under session.rs, what all viewers of a session together are sent at most, and who of
//! them may send how much of it. From what each viewer's flow.rs has spent, to its limit.
//! Knows bytes and times; never what they mean.

use thinc_path_model::Shares;
use thinc_protocol::Micros;

use super::Session;
use super::viewers::Viewers;
use crate::viewer::ViewerId;

/// Divides a session's rate among its viewers.
#[derive(Debug)]
pub(super) struct MaxRate(Shares<ViewerId>);

impl MaxRate {
    /// Of so many bytes a second, headers included.
    pub(super) fn new(rate: u64) -> MaxRate {
        MaxRate(Shares::new(Some(rate), None, 0))
    }

    fn give_shares(&self, viewers: &mut Viewers) {
        for viewer in viewers.iter_mut() {
            viewer.delivery.flow.set_session_share(Some(self.0.share(viewer.id)));
        }
    }
}

impl Session {
    /// A viewer has come, and its limit is there before its first update.
    pub(super) fn limit_rate(&mut self, id: ViewerId) {
        let Some(max) = &mut self.max_rate else { return };
        max.0.add(id);
        max.give_shares(&mut self.viewers);
    }

    /// A viewer has left: the others share what it had.
    pub(super) fn forget_rate(&mut self, id: ViewerId) {
        let Some(max) = &mut self.max_rate else { return };
        max.0.remove(id);
        max.give_shares(&mut self.viewers);
    }

    /// Counts what a viewer was sent.
    pub(super) fn count_rate(&mut self, id: ViewerId, now: Micros) {
        let Some(viewer) = self.viewers.get_mut(id) else { return };
        let spent = viewer.delivery.flow.take_spent();
        let Some(max) = self.max_rate.as_mut().filter(|_| spent > 0) else { return };
        if max.0.sent(id, spent, now) {
            max.give_shares(&mut self.viewers);
        }
    }
}
