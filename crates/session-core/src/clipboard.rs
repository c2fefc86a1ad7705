//! Path beside the pixels: from the X server's selections, told by the shell, to every viewer's end of the channel; and back.
//! Who owns each selection, and whom a content is for that is on its way. The last who copied owns it, in X or at a viewer.
//! Knows owners and numbers; never X, nor what a content holds. Policy is kept here: a forbidden way is never offered.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_clipboard::{ClipEvent, ClipboardPolicy, End};
use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};

use crate::viewer::{Viewer, ViewerId};

/// What the shell shall do with the X server's selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipRequest {
    /// Own it, for whoever offers these formats; none: give it up.
    Own {
        /// Which.
        selection: Selection,
        /// What programs may paste.
        formats: ClipFormats,
    },
    /// Ask the program that owns it for its content; [`handle_clip_content`](crate::Session::handle_clip_content) answers.
    Fetch {
        /// For the answer.
        id: u32,
        /// Of which.
        selection: Selection,
        /// In which form.
        format: ClipFormat,
    },
    /// Nobody wants that any more; no answer is needed.
    CancelFetch {
        /// Of `Fetch`.
        id: u32,
    },
    /// Give this to the program that pastes, or tell it that there is nothing.
    Provide {
        /// What [`handle_clip_wanted`](crate::Session::handle_clip_wanted) named it.
        ticket: u32,
        /// All of it.
        content: Result<Vec<u8>, ClipEnd>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// A program of the session's.
    Program(ClipFormats),
    Viewer(ViewerId, ClipFormats),
}

/// Where a content comes from or goes to: a program, through the shell, or a viewer; by the number that it is known under
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    Program(u32),
    Viewer(ViewerId, u32),
}

/// A content on its way. There are at most eight to and eight from each viewer, and as many for programs as the shell asks.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: Party,
    to: Party,
}

#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) policy: ClipboardPolicy,
    owners: [Owner; 2],
    transfers: Vec<Transfer>,
    last_fetch: u32,
    requests: VecDeque<ClipRequest>,
}

fn end_of(viewers: &mut [Viewer], id: ViewerId) -> Option<&mut End> {
    viewers.iter_mut().find(|viewer| viewer.id == id).map(|viewer| &mut viewer.clipboard)
}

impl Hub {
    pub(crate) fn new(policy: ClipboardPolicy) -> Hub {
        Hub { policy, owners: [Owner::Nobody; 2], transfers: Vec::new(), last_fetch: 0, requests: VecDeque::new() }
    }

    /// Tells a viewer that has just come what there is, and what is not.
    pub(crate) fn greet(&self, end: &mut End) {
        for selection in Selection::ALL {
            match self.owners[selection as usize] {
                Owner::Nobody => {}
                Owner::Program(formats) | Owner::Viewer(_, formats) => end.offer(selection, formats),
            }
        }
        end.begin();
    }

    /// The viewer has gone: what it owned is gone with it, and nobody keeps a copy. It offers it anew when it comes back.
    pub(crate) fn left(&mut self, id: ViewerId, viewers: &mut [Viewer], now: Micros) {
        for selection in Selection::ALL {
            if matches!(self.owners[selection as usize], Owner::Viewer(owner, _) if owner == id) {
                self.owned_by(selection, Owner::Nobody, viewers);
                self.requests.push_back(ClipRequest::Own { selection, formats: ClipFormats::NONE });
            }
        }
        let of_it = |party: Party| matches!(party, Party::Viewer(viewer, _) if viewer == id);
        let (gone, left) = self.transfers.iter().partition(|transfer| of_it(transfer.from) || of_it(transfer.to));
        self.transfers = left;
        let gone: Vec<Transfer> = gone;
        for Transfer { from, to } in gone {
            if of_it(to) {
                self.cancel(from, viewers);
            } else {
                self.give(to, Err(ClipEnd::Gone), viewers, now);
            }
        }
    }

    fn owned_by(&mut self, selection: Selection, owner: Owner, viewers: &mut [Viewer]) {
        self.owners[selection as usize] = owner;
        let (formats, but) = match owner {
            Owner::Nobody => (ClipFormats::NONE, None),
            Owner::Program(formats) => (formats, None),
            Owner::Viewer(id, formats) => (formats, Some(id)),
        };
        for viewer in viewers.iter_mut().filter(|viewer| Some(viewer.id) != but) {
            viewer.clipboard.offer(selection, formats);
        }
    }

    // ---- the X server's side -----------------------------------------------------------------------------------------

    /// A program owns it, or nobody.
    pub(crate) fn owned(&mut self, selection: Selection, formats: ClipFormats, viewers: &mut [Viewer]) {
        let is_own =
            |request: &ClipRequest| matches!(request, ClipRequest::Own { selection: of, .. } if *of == selection);
        if !formats.is_empty() {
            // It was later than a viewer's offer that X was not told of yet.
            self.requests.retain(|request| !is_own(request));
        } else if self.requests.iter().any(is_own) {
            return;
        }
        let owner = if formats.is_empty() { Owner::Nobody } else { Owner::Program(formats) };
        self.owned_by(selection, owner, viewers);
    }

    /// A program pastes what a viewer has.
    pub(crate) fn wanted(
        &mut self,
        ticket: u32,
        selection: Selection,
        format: ClipFormat,
        viewers: &mut [Viewer],
        now: Micros,
    ) {
        let asked = match self.owners[selection as usize] {
            Owner::Viewer(id, _) => self.ask(id, selection, format, viewers, now),
            Owner::Nobody | Owner::Program(_) => None,
        };
        self.begin(asked, Party::Program(ticket), viewers, now);
    }

    /// The program that pasted has gone.
    pub(crate) fn unwanted(&mut self, ticket: u32, viewers: &mut [Viewer]) {
        self.no_longer_wanted(Party::Program(ticket), viewers);
    }

    /// A program has given what was fetched, or will not.
    pub(crate) fn content(&mut self, id: u32, content: Result<Vec<u8>, ClipEnd>, viewers: &mut [Viewer], now: Micros) {
        self.arrived(Party::Program(id), content, viewers, now);
    }

    pub(crate) fn poll(&mut self) -> Option<ClipRequest> {
        self.requests.pop_front()
    }

    // ---- the viewers' side -------------------------------------------------------------------------------------------

    /// Takes what the viewers' ends have to say until they have no more.
    pub(crate) fn pump(&mut self, viewers: &mut [Viewer], now: Micros) {
        // What one says may make another speak: a content that is passed on, or is not.
        while let Some((id, event)) =
            viewers.iter_mut().find_map(|viewer| Some((viewer.id, viewer.clipboard.poll_event()?)))
        {
            self.handle(id, event, viewers, now);
        }
    }

    fn handle(&mut self, id: ViewerId, event: ClipEvent, viewers: &mut [Viewer], now: Micros) {
        match event {
            ClipEvent::Offered { selection, formats } => {
                let owner = &self.owners[selection as usize];
                let was_its = matches!(owner, Owner::Viewer(owner, _) if *owner == id);
                if formats.is_empty() && !was_its {
                    // It gives up what somebody else has taken over.
                    return;
                }
                let owner = if formats.is_empty() { Owner::Nobody } else { Owner::Viewer(id, formats) };
                self.owned_by(selection, owner, viewers);
                self.requests
                    .retain(|request| !matches!(request, ClipRequest::Own { selection: of, .. } if *of == selection));
                self.requests.push_back(ClipRequest::Own { selection, formats });
            }
            ClipEvent::Wanted { id: number, selection, format } => {
                let asked = match self.owners[selection as usize] {
                    Owner::Program(_) => {
                        self.last_fetch = self.last_fetch.wrapping_add(1);
                        self.requests.push_back(ClipRequest::Fetch { id: self.last_fetch, selection, format });
                        Some(Party::Program(self.last_fetch))
                    }
                    Owner::Viewer(owner, _) => self.ask(owner, selection, format, viewers, now),
                    Owner::Nobody => None,
                };
                self.begin(asked, Party::Viewer(id, number), viewers, now);
            }
            ClipEvent::Received { id: number, content } => {
                self.arrived(Party::Viewer(id, number), Ok(content), viewers, now);
            }
            ClipEvent::Ended { id: number, why } => {
                // Numbers of what it asked for and of what it was asked for are of one row.
                self.arrived(Party::Viewer(id, number), Err(why), viewers, now);
                self.no_longer_wanted(Party::Viewer(id, number), viewers);
            }
        }
    }

    fn ask(
        &self,
        id: ViewerId,
        selection: Selection,
        format: ClipFormat,
        viewers: &mut [Viewer],
        now: Micros,
    ) -> Option<Party> {
        let number = end_of(viewers, id)?.request(selection, format, now)?;
        Some(Party::Viewer(id, number))
    }

    // ---- both --------------------------------------------------------------------------------------------------------

    fn begin(&mut self, from: Option<Party>, to: Party, viewers: &mut [Viewer], now: Micros) {
        match from {
            Some(from) => self.transfers.push(Transfer { from, to }),
            None => self.give(to, Err(ClipEnd::Gone), viewers, now),
        }
    }

    fn arrived(&mut self, from: Party, content: Result<Vec<u8>, ClipEnd>, viewers: &mut [Viewer], now: Micros) {
        if let Some(at) = self.transfers.iter().position(|transfer| transfer.from == from) {
            let to = self.transfers.swap_remove(at).to;
            self.give(to, content, viewers, now);
        }
    }

    fn no_longer_wanted(&mut self, to: Party, viewers: &mut [Viewer]) {
        if let Some(at) = self.transfers.iter().position(|transfer| transfer.to == to) {
            let from = self.transfers.swap_remove(at).from;
            self.cancel(from, viewers);
        }
    }

    fn give(&mut self, to: Party, content: Result<Vec<u8>, ClipEnd>, viewers: &mut [Viewer], now: Micros) {
        match to {
            Party::Program(ticket) => self.requests.push_back(ClipRequest::Provide { ticket, content }),
            Party::Viewer(id, number) => {
                if let Some(end) = end_of(viewers, id) {
                    end.provide(number, content.map(Arc::new), now);
                }
            }
        }
    }

    fn cancel(&mut self, from: Party, viewers: &mut [Viewer]) {
        match from {
            Party::Program(id) => self.requests.push_back(ClipRequest::CancelFetch { id }),
            Party::Viewer(id, number) => {
                if let Some(end) = end_of(viewers, id) {
                    end.cancel(number);
                }
            }
        }
    }

    pub(crate) fn check_invariants(&self, viewers: &[Viewer]) {
        for owner in self.owners {
            if let Owner::Viewer(id, _) = owner {
                assert!(viewers.iter().any(|viewer| viewer.id == id), "who owns a selection is connected");
            }
        }
        let parties = self.transfers.iter().flat_map(|transfer| [transfer.from, transfer.to]);
        for party in parties {
            if let Party::Viewer(id, _) = party {
                assert!(viewers.iter().any(|viewer| viewer.id == id), "both sides of a transfer are connected");
            }
        }
        viewers.iter().for_each(|viewer| viewer.clipboard.check_invariants());
    }
}
