//! Path beside the pixels: under ../files.rs, what programs of the session print, from the desk
//! (../printing.rs) to the viewer whose person prints. Knows jobs, transfers and words for people;
//! never a document's content.

use thinc_files_disk::DiskTask;
use thinc_printing::link::{Document, State};
use thinc_printing::{Sides, Ticket};
use thinc_protocol::Micros;
use thinc_protocol::file::{FileEnd, FilePurpose};
use thinc_protocol::limits::PRINT_MEDIA_BYTES_MAX;
use thinc_protocol::print::{PrintSides, PrintTicket};
use thinc_session_core::{Session, ViewerId};
use tracing::info;

use super::{FileViewer, Files, Origin, Outcome, Sending};
use crate::printing::{PrintEvent, Report};

/// Jobs that have ended, as they are told to a desk that has not heard of it.
const ENDED_MAX: usize = 32;
const WAITS: &str = "Waiting for a viewer that prints";
const SENT: &str = "Sent to the viewer, which asks there";

/// What of printing has to be remembered beside transfers.
#[derive(Debug, Default)]
pub(super) struct Printed {
    ended: Vec<Report>,
}

impl Files {
    pub(crate) fn handle_print(&mut self, event: PrintEvent, core: &mut Session, now: Micros) {
        match event {
            PrintEvent::Job(document) => self.print(&document, now),
            PrintEvent::Cancel(number) => {
                let Some(sending) = self.job(number) else { return };
                if let Some((viewer, id)) = sending.at
                    && let Some(end) = core.files(viewer)
                {
                    end.withdraw(id, FileEnd::Cancelled);
                }
                let key = sending.key;
                self.sending.retain(|sending| sending.key != key);
                self.tell_disk(DiskTask::Close { key });
            }
        }
    }

    fn job(&self, number: u32) -> Option<&Sending> {
        let is = |sending: &&Sending| matches!(sending.origin, Origin::Print(n) if n == number);
        self.sending.iter().find(is)
    }

    /// A program prints a document, or the desk tells of it again.
    fn print(&mut self, document: &Document, now: Micros) {
        let Some(link) = &self.link else { return };
        let number = document.number;
        if let Some(ended) = self.printed.ended.iter().find(|(ended, ..)| *ended == number) {
            return link.tell(ended.clone());
        }
        if let Some(sending) = self.job(number) {
            return link.tell(state(number, sending.at.is_some()));
        }
        let path = link.path(document);
        link.tell(state(number, false));
        if self.disk.is_none() {
            return self.end_print(number, Err("the session has no folders".to_owned()));
        }
        let key = self.key();
        self.sending.push(Sending {
            key,
            offer: None,
            notify: false,
            origin: Origin::Print(number),
            at: None,
            instance: None,
            since: now,
        });
        let purpose = FilePurpose::Printed(Box::new(on_the_wire(&document.ticket)));
        self.tell_disk(DiskTask::List { key, paths: vec![path], purpose });
    }

    /// Offers documents that no viewer is offered to the viewer that typed last, or else to the
    /// newest that prints.
    pub(crate) fn offer_prints(&mut self, core: &mut Session, viewers: &[FileViewer], now: Micros) {
        let typed_last = core.typed_last();
        let printing = || viewers.iter().filter(|viewer| viewer.is_owners && viewer.prints);
        let typist = printing().find(|viewer| Some(viewer.id) == typed_last);
        let Some(viewer) = typist.or_else(|| printing().next_back()) else { return };
        let Some(end) = core.files(viewer.id) else { return };
        for sending in &mut self.sending {
            let (Origin::Print(number), None) = (&sending.origin, sending.at) else { continue };
            let Some(offer) = &sending.offer else { continue };
            // It may be busy: then the next turn tries again.
            let Ok(id) = end.offer(offer.clone(), now) else { continue };
            sending.at = Some((viewer.id, id));
            if let Some(link) = &self.link {
                link.tell(state(*number, true));
            }
        }
    }

    /// True if a document waits for a viewer.
    pub(crate) fn has_waiting_prints(&self) -> bool {
        let waits = |sending: &Sending| {
            matches!(sending.origin, Origin::Print(_))
                && sending.at.is_none()
                && sending.offer.is_some()
        };
        self.sending.iter().any(waits)
    }

    /// The viewer has left: its documents wait for the next.
    pub(super) fn prints_left(&mut self, viewer: ViewerId) {
        for sending in &mut self.sending {
            if let Origin::Print(number) = sending.origin
                && sending.at.is_some_and(|(at, _)| at == viewer)
            {
                sending.at = None;
                if let Some(link) = &self.link {
                    link.tell(state(number, false));
                }
            }
        }
    }

    /// A job has ended so.
    pub(super) fn end_print(&mut self, number: u32, outcome: Outcome) {
        let (state, words) = match outcome {
            Ok(()) => (State::Done, "The viewer has it".to_owned()),
            Err(words) if words == super::UNWANTED => (State::Unwanted, words),
            Err(words) => (State::Failed, words),
        };
        info!("print job {number}: {words}");
        let report = (number, state, words);
        if let Some(link) = &self.link {
            link.tell(report.clone());
        }
        if self.printed.ended.len() == ENDED_MAX {
            self.printed.ended.remove(0);
        }
        self.printed.ended.push(report);
    }
}

/// The report on a job that has not ended.
fn state(number: u32, is_sent: bool) -> Report {
    match is_sent {
        true => (number, State::Sending, SENT.to_owned()),
        false => (number, State::Waiting, WAITS.to_owned()),
    }
}

/// As the protocol has it.
fn on_the_wire(ticket: &Ticket) -> PrintTicket {
    let Ticket { title, copies, sides, colour, media } = ticket.clone();
    PrintTicket {
        title,
        copies,
        sides: match sides {
            Sides::One => PrintSides::One,
            Sides::LongEdge => PrintSides::LongEdge,
            Sides::ShortEdge => PrintSides::ShortEdge,
        },
        colour,
        // The desk names those of its own list only.
        media: if is_known(&media) { media } else { String::new() },
    }
}

fn is_known(media: &str) -> bool {
    media.len() <= PRINT_MEDIA_BYTES_MAX && thinc_printing::is_paper(media)
}
