//! Path beside the pixels: under ../files.rs, what programs of the session print, from the desk
//! (../printing.rs) to the viewer whose person prints. Knows jobs, transfers and words for people;
//! never a document's content.

use thinc_files::Offer;
use thinc_files_disk::{DiskTask, Key};
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
/// 10 s: a document that a viewer could not take is offered there again no sooner, so that one that
/// takes none is not asked with each key.
const RETRY_TIME: Micros = 10_000_000;
const WAITS: &str = "Waiting for a viewer that prints";
const SENT: &str = "Sent to the viewer, which asks there";

/// What of printing has to be remembered beside transfers.
#[derive(Debug, Default)]
pub(super) struct Printed {
    ended: Vec<Report>,
    /// Jobs that the desk has not told of since it connected: they may have been cancelled while
    /// nobody could tell, and are not offered.
    untold: Vec<u32>,
}

/// A viewer that could not take a document, or where nobody answered.
#[derive(Debug)]
pub(super) struct Held {
    viewer: ViewerId,
    /// The newest input from there: with a newer one its person is there.
    input: Option<u32>,
    again_at: Micros,
    why: String,
}

impl Files {
    pub(crate) fn handle_print(&mut self, event: PrintEvent, core: &mut Session, now: Micros) {
        match event {
            PrintEvent::Connected => {
                let numbers = self.sending.iter().filter_map(|sending| match sending.origin {
                    Origin::Print(number) => Some(number),
                    Origin::Program(_) => None,
                });
                self.printed.untold = numbers.collect();
            }
            PrintEvent::Job(document) => {
                self.printed.untold.retain(|number| *number != document.number);
                self.print(&document, now);
            }
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
            return link.tell(state(number, sending));
        }
        let path = link.path(document);
        link.tell((number, State::Waiting, WAITS.to_owned()));
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
            held: Vec::new(),
        });
        let purpose = FilePurpose::Printed(Box::new(on_the_wire(&document.ticket)));
        self.tell_disk(DiskTask::List { key, paths: vec![path], purpose });
    }

    /// Offers documents that no viewer is offered to the viewer that typed last, or else to the
    /// newest that prints.
    pub(crate) fn offer_prints(&mut self, core: &mut Session, viewers: &[FileViewer], now: Micros) {
        let typed_last = core.typed_last();
        for sending in &mut self.sending {
            let (Origin::Print(number), None) = (&sending.origin, sending.at) else { continue };
            let Some(offer) = &sending.offer else { continue };
            if self.printed.untold.contains(number) {
                continue;
            }
            let is_held = |viewer: ViewerId| {
                let held = sending.held.iter().find(|held| held.viewer == viewer);
                held.is_some_and(|held| {
                    now < held.again_at || core.newest_input(viewer) == held.input
                })
            };
            let mut printing = viewers
                .iter()
                .filter(|viewer| viewer.is_owners && viewer.prints && !is_held(viewer.id));
            let typist = printing.clone().find(|viewer| Some(viewer.id) == typed_last);
            let Some(viewer) = typist.or_else(|| printing.next_back()) else { continue };
            let Some(end) = core.files(viewer.id) else { continue };
            // It may be busy: then the next turn tries again.
            let Ok(id) = end.offer(offer.clone(), now) else { continue };
            (sending.at, sending.since) = (Some((viewer.id, id)), now);
            if let Some(link) = &self.link {
                link.tell(state(*number, sending));
            }
        }
    }

    pub(super) fn is_print(&self, key: Key) -> bool {
        let is =
            |sending: &Sending| sending.key == key && matches!(sending.origin, Origin::Print(_));
        self.sending.iter().any(is)
    }

    /// The viewer that is offered a document does not take it, for this reason: it waits in the
    /// printer's queue. That viewer is offered it again once somebody answers another question or
    /// makes an input there; others at once.
    pub(super) fn hold_print(&mut self, key: Key, why: &str, core: &Session, now: Micros) {
        let Some(sending) = self.sending.iter_mut().find(|sending| sending.key == key) else {
            return;
        };
        let (Origin::Print(number), Some((viewer, _))) = (&sending.origin, sending.at) else {
            return;
        };
        info!("print job {number} waits: {why}");
        let is_known = sending.held.iter().any(|held| held.why == why);
        sending.held.retain(|held| held.viewer != viewer);
        sending.held.push(Held {
            viewer,
            input: core.newest_input(viewer),
            again_at: sending.since + RETRY_TIME,
            why: why.to_owned(),
        });
        (sending.at, sending.since) = (None, now);
        if let Some(link) = &self.link {
            link.tell(state(*number, sending));
        }
        if let (false, Some(FilePurpose::Printed(ticket))) =
            (is_known, sending.offer.as_ref().map(Offer::purpose))
        {
            self.notices.push(format!("Not printed yet: {} waits: {why}", ticket.title));
        }
    }

    /// Somebody has answered at this viewer, or a transfer there has ended.
    pub(super) fn prints_answered(&mut self, viewer: ViewerId) {
        let held = self.sending.iter_mut().flat_map(|sending| &mut sending.held);
        held.filter(|held| held.viewer == viewer).for_each(|held| held.input = None);
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
            let Origin::Print(number) = sending.origin else { continue };
            sending.held.retain(|held| held.viewer != viewer);
            if sending.at.is_some_and(|(at, _)| at == viewer) {
                sending.at = None;
                if let Some(link) = &self.link {
                    link.tell(state(number, sending));
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
fn state(number: u32, sending: &Sending) -> Report {
    match (sending.at, sending.held.last()) {
        (Some(_), _) => (number, State::Sending, SENT.to_owned()),
        (None, Some(held)) => (number, State::Waiting, format!("{WAITS}: {}", held.why)),
        (None, None) => (number, State::Waiting, WAITS.to_owned()),
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

#[cfg(test)]
mod tests {
    use thinc_files::{FileEvent, FilesPolicy, Printing};
    use thinc_protocol::file::{FileAnswer, FileEntry, FileKind};
    use thinc_protocol::viewer::{Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
    use thinc_region::Size;
    use thinc_session_core::Config;

    use super::*;

    const MINUTE: Micros = 60_000_000;

    /// Documents, and viewers that print.
    struct World {
        core: Session,
        files: Files,
        viewers: Vec<FileViewer>,
        now: Micros,
    }

    impl World {
        fn new() -> World {
            let size = Size { width: 100, height: 100 };
            let mut core = Session::new(Config::new("prints", size));
            core.set_files(FilesPolicy { printing: Printing::Sends, ..FilesPolicy::OFF });
            core.handle_attach(size);
            World { core, files: Files::none(true), viewers: Vec::new(), now: MINUTE }
        }

        fn connect(&mut self) -> ViewerId {
            let caps = ViewerCaps::PRINTS;
            let (size, name) = (Size::default(), "v".to_owned());
            let hello = ViewerHello { version: 1, caps, size, message_bytes_max: 1 << 20, name };
            let id = self.core.add_viewer(&hello, self.now);
            let (is_owners, prints, instance) = (true, true, None);
            self.viewers.push(FileViewer { id, is_owners, prints, instance });
            id
        }

        fn print(&mut self, number: u32) {
            let ticket = PrintTicket {
                title: format!("Report {number}"),
                copies: 1,
                sides: PrintSides::One,
                colour: true,
                media: String::new(),
            };
            let (kind, path) = (FileKind::File, "r.pdf".to_owned());
            let entry = FileEntry { kind, size: 10, modified_ms: number.into(), path };
            let purpose = FilePurpose::Printed(Box::new(ticket));
            self.files.sending.push(Sending {
                key: number.into(),
                offer: Some(Offer::new(purpose, vec![entry]).unwrap()),
                notify: false,
                origin: Origin::Print(number),
                at: None,
                instance: None,
                since: self.now,
                held: Vec::new(),
            });
        }

        /// The viewer that is offered the job after a turn of the actor.
        fn offered(&mut self, number: u32) -> Option<(ViewerId, u32)> {
            self.files.offer_prints(&mut self.core, &self.viewers, self.now);
            self.files.job(number).expect("the job is kept").at
        }

        fn answer(&mut self, (viewer, id): (ViewerId, u32), answer: FileAnswer) {
            let event = FileEvent::Answered { id, answer };
            let World { core, files, viewers, now } = self;
            files.handle_event(core, viewers, viewer, event, *now);
        }

        fn notices(&mut self) -> Vec<String> {
            std::iter::from_fn(|| self.files.poll_notice()).collect()
        }
    }

    #[test]
    fn a_document_that_nobody_answers_for_waits_until_somebody_is_there() {
        let mut world = World::new();
        let viewer = world.connect();
        world.print(1);
        let (at, id) = world.offered(1).expect("it is offered");
        assert_eq!(at, viewer);
        world.now += 10 * MINUTE;
        let event = FileEvent::Ended { id, why: FileEnd::Failed };
        let World { core, files, viewers, now } = &mut world;
        files.handle_event(core, viewers, viewer, event, *now);
        let why = "nobody answered at the viewer, or it failed there";
        assert_eq!(world.notices(), [format!("Not printed yet: Report 1 waits: {why}")]);
        let sending = world.files.job(1).unwrap();
        assert_eq!(state(1, sending), (1, State::Waiting, format!("{WAITS}: {why}")));
        world.now += 60 * MINUTE;
        assert_eq!(world.offered(1), None, "nobody is there");
        let event = InputEvent::Key { code: 30, keysym: 0x61, down: true };
        let input = ViewerMessage::Input(Input { seq: 1, event });
        world.core.handle_message(viewer, &input, world.now).unwrap();
        assert!(world.offered(1).is_some(), "somebody types there");
        // Another viewer is offered it at once.
        let (viewer, id) = world.offered(1).unwrap();
        let event = FileEvent::Ended { id, why: FileEnd::Space };
        let World { core, files, viewers, now } = &mut world;
        files.handle_event(core, viewers, viewer, event, *now);
        assert_eq!(world.offered(1), None);
        let next = world.connect();
        assert_eq!(world.offered(1).map(|(viewer, _)| viewer), Some(next));
    }

    #[test]
    fn a_busy_viewer_is_offered_a_document_again_once_its_person_answers() {
        let mut world = World::new();
        world.connect();
        world.print(1);
        world.print(2);
        let [first, second] = [1, 2].map(|number| world.offered(number).unwrap());
        world.answer(first, FileAnswer::Busy);
        assert_eq!(world.offered(1), None);
        assert_eq!(world.notices().len(), 1);
        world.answer(second, FileAnswer::Asking);
        assert_eq!(world.offered(1), None, "nobody has answered");
        world.answer(second, FileAnswer::Yes { entry: 0, offset: 0 });
        assert_eq!(world.offered(1), None, "it is as busy as it was");
        world.now += RETRY_TIME;
        let again = world.offered(1).expect("somebody answers there");
        // The same again is nothing new for people.
        world.answer(again, FileAnswer::Busy);
        assert_eq!(world.notices(), [""; 0]);
        // A refusal by a person is the end.
        let event = FileEvent::Ended { id: second.1, why: FileEnd::Done };
        let World { core, files, viewers, now } = &mut world;
        files.handle_event(core, viewers, second.0, event, *now);
        world.now += RETRY_TIME;
        let again = world.offered(1).expect("the other one has ended");
        world.answer(again, FileAnswer::No);
        assert!(world.files.job(1).is_none());
        assert_eq!(world.files.printed.ended.last().map(|ended| ended.1), Some(State::Unwanted));
    }

    #[test]
    fn a_job_that_the_desk_does_not_tell_of_again_is_not_offered() {
        let mut world = World::new();
        world.print(1);
        world.print(2);
        let World { core, files, now, .. } = &mut world;
        files.handle_print(PrintEvent::Connected, core, *now);
        world.connect();
        assert_eq!([1, 2].map(|number| world.offered(number)), [None, None]);
        let media = String::new();
        let ticket =
            Ticket { title: "t".to_owned(), copies: 1, sides: Sides::One, colour: true, media };
        let document = Document { number: 2, ticket, file: "t.pdf".to_owned() };
        let World { core, files, now, .. } = &mut world;
        files.handle_print(PrintEvent::Job(document), core, *now);
        assert_eq!(world.offered(1), None, "it was cancelled while nobody could tell");
        assert!(world.offered(2).is_some());
    }
}
