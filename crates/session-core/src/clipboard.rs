//! Path beside the pixels, in both directions: between the X server's selections, reported by the
//! shell, and every viewer's end of the clipboard channel.
//! Who owns each selection, and who gets the contents in transfer. The last to copy owns it, in X
//! or at a viewer. Knows owners and numbers; never X, nor contents. Enforces the policy: a
//! forbidden direction is never offered.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_clipboard::{ClipEvent, ClipboardPolicy, Endpoint};
use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};

use crate::viewer::{Viewer, ViewerId};

/// What the shell shall do with the X server's selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipRequest {
    /// Own it for a viewer that offers these formats; without formats, give it up.
    Own {
        /// The selection.
        selection: Selection,
        /// What programs may paste.
        formats: ClipFormats,
    },
    /// Ask the program that owns it for its content;
    /// [`handle_clip_content`](crate::Session::handle_clip_content) answers.
    Fetch {
        /// Identifies the answer.
        id: u32,
        /// The selection.
        selection: Selection,
        /// The format.
        format: ClipFormat,
    },
    /// The content is no longer wanted; no answer is needed.
    CancelFetch {
        /// The number in `Fetch`.
        id: u32,
    },
    /// Give this to the program that pastes, or tell it that there is nothing.
    Provide {
        /// The ticket of [`handle_clip_wanted`](crate::Session::handle_clip_wanted).
        ticket: u32,
        /// All of it.
        content: Result<Vec<u8>, ClipEnd>,
    },
}

impl ClipRequest {
    fn is_own(&self, of: Selection) -> bool {
        matches!(self, ClipRequest::Own { selection, .. } if *selection == of)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// A program of the session.
    Program(ClipFormats),
    Viewer(ViewerId, ClipFormats),
}

/// Source or destination of a content: a program, through the shell, or a viewer; with its number
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferParty {
    Program(u32),
    Viewer(ViewerId, u32),
}

/// A content in transfer. At most eight to and eight from each viewer, and as many for programs as
/// the shell asks for.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: TransferParty,
    to: TransferParty,
}

#[derive(Debug)]
pub(crate) struct ClipboardHub {
    pub(crate) policy: ClipboardPolicy,
    owners: [Owner; 2],
    transfers: Vec<Transfer>,
    last_fetch: u32,
    requests: VecDeque<ClipRequest>,
}

fn end_of(viewers: &mut [Viewer], id: ViewerId) -> Option<&mut Endpoint> {
    viewers.iter_mut().find(|viewer| viewer.id == id).map(|viewer| &mut viewer.channels.clipboard)
}

impl ClipboardHub {
    pub(crate) fn new(policy: ClipboardPolicy) -> ClipboardHub {
        ClipboardHub {
            policy,
            owners: [Owner::Nobody; 2],
            transfers: Vec::new(),
            last_fetch: 0,
            requests: VecDeque::new(),
        }
    }

    /// Tells a new viewer what is offered, and what is not.
    pub(crate) fn add_viewer(&self, end: &mut Endpoint) {
        for selection in Selection::ALL {
            match self.owners[selection as usize] {
                Owner::Nobody => {}
                Owner::Program(formats) | Owner::Viewer(_, formats) => {
                    end.offer(selection, formats)
                }
            }
        }
        end.withdraw_unoffered();
    }

    /// The viewer is gone, and so is what it owned: nobody keeps a copy. It offers it again after
    /// reconnecting.
    pub(crate) fn remove_viewer(&mut self, id: ViewerId, viewers: &mut [Viewer], now: Micros) {
        for selection in Selection::ALL {
            if matches!(self.owners[selection as usize], Owner::Viewer(owner, _) if owner == id) {
                self.set_owner(selection, Owner::Nobody, viewers);
                self.requests.push_back(ClipRequest::Own { selection, formats: ClipFormats::NONE });
            }
        }
        let is_its = |party: TransferParty| match party {
            TransferParty::Viewer(viewer, _) => viewer == id,
            TransferParty::Program(_) => false,
        };
        let (gone, left) = self
            .transfers
            .iter()
            .partition(|transfer| is_its(transfer.from) || is_its(transfer.to));
        self.transfers = left;
        let gone: Vec<Transfer> = gone;
        for Transfer { from, to } in gone {
            if is_its(to) {
                self.cancel(from, viewers);
            } else {
                self.provide(to, Err(ClipEnd::Unavailable), viewers, now);
            }
        }
    }

    fn set_owner(&mut self, selection: Selection, owner: Owner, viewers: &mut [Viewer]) {
        self.owners[selection as usize] = owner;
        let (formats, but) = match owner {
            Owner::Nobody => (ClipFormats::NONE, None),
            Owner::Program(formats) => (formats, None),
            Owner::Viewer(id, formats) => (formats, Some(id)),
        };
        for viewer in viewers.iter_mut().filter(|viewer| Some(viewer.id) != but) {
            viewer.channels.clipboard.offer(selection, formats);
        }
    }

    // ---- the X server's side

    /// A program owns the selection, or nobody.
    pub(crate) fn owned(
        &mut self,
        selection: Selection,
        formats: ClipFormats,
        viewers: &mut [Viewer],
    ) {
        let is_own = |request: &ClipRequest| request.is_own(selection);
        if !formats.is_empty() {
            // It was later than a viewer's offer that X was not told of yet.
            self.requests.retain(|request| !is_own(request));
        } else if self.requests.iter().any(is_own) {
            return;
        }
        let owner = if formats.is_empty() { Owner::Nobody } else { Owner::Program(formats) };
        self.set_owner(selection, owner, viewers);
    }

    /// A program pastes a viewer's content.
    pub(crate) fn wanted(
        &mut self,
        ticket: u32,
        selection: Selection,
        format: ClipFormat,
        viewers: &mut [Viewer],
        now: Micros,
    ) {
        let source = match self.owners[selection as usize] {
            Owner::Viewer(id, _) => self.ask(id, selection, format, viewers, now),
            Owner::Nobody | Owner::Program(_) => None,
        };
        self.begin(source, TransferParty::Program(ticket), viewers, now);
    }

    /// The program that pasted is gone.
    pub(crate) fn unwanted(&mut self, ticket: u32, viewers: &mut [Viewer]) {
        self.cancel_transfer(TransferParty::Program(ticket), viewers);
    }

    /// A program has provided what was fetched, or will not.
    pub(crate) fn content(
        &mut self,
        id: u32,
        content: Result<Vec<u8>, ClipEnd>,
        viewers: &mut [Viewer],
        now: Micros,
    ) {
        self.deliver(TransferParty::Program(id), content, viewers, now);
    }

    pub(crate) fn poll(&mut self) -> Option<ClipRequest> {
        self.requests.pop_front()
    }

    // ---- the viewers' side

    /// Handles the events of the viewers' ends until there are no more.
    pub(crate) fn handle_events(&mut self, viewers: &mut [Viewer], now: Micros) {
        // One event may cause another: a content is passed on, or is not.
        while let Some((id, event)) = viewers
            .iter_mut()
            .find_map(|viewer| Some((viewer.id, viewer.channels.clipboard.poll_event()?)))
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
                    // It gives up a selection that another has taken over.
                    return;
                }
                let owner =
                    if formats.is_empty() { Owner::Nobody } else { Owner::Viewer(id, formats) };
                self.set_owner(selection, owner, viewers);
                self.requests.retain(|request| !request.is_own(selection));
                self.requests.push_back(ClipRequest::Own { selection, formats });
            }
            ClipEvent::Wanted { id: number, selection, format } => {
                let source = match self.owners[selection as usize] {
                    Owner::Program(_) => {
                        self.last_fetch = self.last_fetch.wrapping_add(1);
                        self.requests.push_back(ClipRequest::Fetch {
                            id: self.last_fetch,
                            selection,
                            format,
                        });
                        Some(TransferParty::Program(self.last_fetch))
                    }
                    Owner::Viewer(owner, _) => self.ask(owner, selection, format, viewers, now),
                    Owner::Nobody => None,
                };
                self.begin(source, TransferParty::Viewer(id, number), viewers, now);
            }
            ClipEvent::Received { id: number, content } => {
                self.deliver(TransferParty::Viewer(id, number), Ok(content), viewers, now);
            }
            ClipEvent::Ended { id: number, why } => {
                // Requests in both directions share one sequence of numbers.
                self.deliver(TransferParty::Viewer(id, number), Err(why), viewers, now);
                self.cancel_transfer(TransferParty::Viewer(id, number), viewers);
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
    ) -> Option<TransferParty> {
        let number = end_of(viewers, id)?.request(selection, format, now)?;
        Some(TransferParty::Viewer(id, number))
    }

    // ---- both sides

    fn begin(
        &mut self,
        from: Option<TransferParty>,
        to: TransferParty,
        viewers: &mut [Viewer],
        now: Micros,
    ) {
        match from {
            Some(from) => self.transfers.push(Transfer { from, to }),
            None => self.provide(to, Err(ClipEnd::Unavailable), viewers, now),
        }
    }

    fn deliver(
        &mut self,
        from: TransferParty,
        content: Result<Vec<u8>, ClipEnd>,
        viewers: &mut [Viewer],
        now: Micros,
    ) {
        if let Some(at) = self.transfers.iter().position(|transfer| transfer.from == from) {
            let to = self.transfers.swap_remove(at).to;
            self.provide(to, content, viewers, now);
        }
    }

    fn cancel_transfer(&mut self, to: TransferParty, viewers: &mut [Viewer]) {
        if let Some(at) = self.transfers.iter().position(|transfer| transfer.to == to) {
            let from = self.transfers.swap_remove(at).from;
            self.cancel(from, viewers);
        }
    }

    fn provide(
        &mut self,
        to: TransferParty,
        content: Result<Vec<u8>, ClipEnd>,
        viewers: &mut [Viewer],
        now: Micros,
    ) {
        match to {
            TransferParty::Program(ticket) => {
                self.requests.push_back(ClipRequest::Provide { ticket, content })
            }
            TransferParty::Viewer(id, number) => {
                if let Some(end) = end_of(viewers, id) {
                    end.provide(number, content.map(Arc::new), now);
                }
            }
        }
    }

    fn cancel(&mut self, from: TransferParty, viewers: &mut [Viewer]) {
        match from {
            TransferParty::Program(id) => self.requests.push_back(ClipRequest::CancelFetch { id }),
            TransferParty::Viewer(id, number) => {
                if let Some(end) = end_of(viewers, id) {
                    end.cancel(number);
                }
            }
        }
    }

    pub(crate) fn check_invariants(&self, viewers: &[Viewer]) {
        for owner in self.owners {
            if let Owner::Viewer(id, _) = owner {
                assert!(
                    viewers.iter().any(|viewer| viewer.id == id),
                    "the owner of a selection is connected"
                );
            }
        }
        let parties = self.transfers.iter().flat_map(|transfer| [transfer.from, transfer.to]);
        for party in parties {
            if let TransferParty::Viewer(id, _) = party {
                assert!(
                    viewers.iter().any(|viewer| viewer.id == id),
                    "both sides of a transfer are connected"
                );
            }
        }
        viewers.iter().for_each(|viewer| viewer.channels.clipboard.check_invariants());
    }
}
