//! Path 10/13, beside the pixels: under actor.rs, what people should read, from an administrator or
//! from the session itself. To all viewers; where none is, to the next one of the owner's. Knows
//! texts; never who they are from.

use std::collections::VecDeque;

use thinc_session_core::{Session, ViewerId};

use super::Actor;

/// Most notices that wait for a viewer: older ones are out of date.
const WAITING_MAX: usize = 4;

/// Notices that nobody was there for.
#[derive(Debug, Default)]
pub(super) struct NoticeState {
    waiting: VecDeque<String>,
}

impl NoticeState {
    /// A viewer of the owner's has come.
    pub(super) fn tell(&mut self, core: &mut Session, viewer: ViewerId) {
        self.waiting.retain(|text| !core.notify(viewer, text));
    }
}

impl Actor {
    /// Shows a notice, or keeps it for the owner; returns at how many viewers it is shown.
    pub(super) fn handle_notice(&mut self, text: String) -> usize {
        let (shown, owners) = self.show_notice(&text);
        if owners == 0 {
            if self.notices.waiting.len() == WAITING_MAX {
                self.notices.waiting.pop_front();
            }
            self.notices.waiting.push_back(text);
        }
        shown
    }

    /// Shows a notice to who is there: at so many viewers, and so many of the owner's.
    pub(super) fn show_notice(&mut self, text: &str) -> (usize, usize) {
        let open = self.connections.all_open();
        let viewers: Vec<_> = open
            .filter_map(|(_, connection)| Some((connection.viewer?, connection.guest.is_none())))
            .collect();
        let told = viewers.into_iter().filter(|&(viewer, _)| self.core.notify(viewer, text));
        told.fold((0, 0), |(shown, owners), (_, is_owner)| {
            (shown + 1, owners + usize::from(is_owner))
        })
    }
}
