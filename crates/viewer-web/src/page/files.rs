//! Path beside the pixels, in both directions: under page.rs, between viewer-core's end of the
//! files channel and web/engine/files.ts. Splits offers and events into numbers, text and bytes,
//! and keeps what has arrived of a transfer over a loss of the connection. Knows transfers; files
//! and people are the page's.

use std::sync::Arc;

use thinc_files::{FileEvent, Offer, OfferError, Start};
use thinc_protocol::Micros;
use thinc_protocol::file::{
    FILE_HASH_BYTES, FileAnswer, FileEnd, FileEntry, FileKind, FilePurpose,
};
use thinc_protocol::limits::FILE_TRANSFERS_MAX;
use thinc_protocol::print::PrintTicket;
use thinc_protocol::viewer::ViewerCaps;
use thinc_viewer_core::Viewer;

use super::Page;

/// Events of files, as web/engine/filecalls.ts numbers them; each comment names the event's
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FileEventKind {
    /// There is none.
    None = 0,
    /// Transfer, bytes; `text` has the identity in hexadecimal digits, of a printed document what
    /// the program wants, and then the entries, as `viewer_file_offer` takes them.
    Offered = 1,
    /// Transfer, entry, offset, whether it ends the file; `file_bytes` has them.
    Data = 2,
    /// Transfer, reason.
    Stopped = 3,
    /// Transfer, answer, and a number that belongs to it: bytes.
    Answered = 4,
    /// Transfer, entry, offset, bytes, bytes that are stored at the session.
    Wanted = 5,
    /// Transfer, reason.
    Ended = 6,
}

/// How the page accepts an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// From the beginning.
    Begin,
    /// From where the last connection was lost.
    Continue,
    /// It has all of it.
    Complete,
}

/// The page's part in the files channel that outlives a connection.
#[derive(Debug)]
pub(crate) struct PageFiles {
    takes: bool,
    prints: bool,
    /// Offers of the session that are not answered, by its number.
    offers: Vec<(u32, Arc<Offer>)>,
    /// What has arrived of transfers whose connection was lost, the newest last.
    unfinished: Vec<([u8; FILE_HASH_BYTES], Start)>,
    /// The bytes of the last `Data` event.
    bytes: Vec<u8>,
}

impl PageFiles {
    pub(super) const fn new() -> PageFiles {
        PageFiles {
            takes: false,
            prints: false,
            offers: Vec::new(),
            unfinished: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The capabilities of a new connection.
    pub(super) fn caps(&self) -> u32 {
        let files = if self.takes { ViewerCaps::FILES } else { 0 };
        let prints = if self.prints { ViewerCaps::PRINTS } else { 0 };
        files | prints
    }

    fn take_offer(&mut self, id: u32) -> Option<Arc<Offer>> {
        let at = self.offers.iter().position(|(offered, _)| *offered == id)?;
        Some(self.offers.swap_remove(at).1)
    }

    fn take_unfinished(&mut self, offer: &Offer) -> Option<Start> {
        let identity = offer.identity();
        let at = self.unfinished.iter().position(|(known, _)| *known == identity)?;
        Some(self.unfinished.swap_remove(at).1)
    }
}

impl Page {
    /// Whether the page receives files, from the next connection on.
    pub(crate) const fn take_files(&mut self, takes: bool) {
        self.files.takes = takes;
    }

    /// Whether the page prints what programs of the session print, from the next connection on.
    pub(crate) const fn take_prints(&mut self, prints: bool) {
        self.files.prints = prints;
    }

    /// True if the session takes files.
    pub(crate) fn gives_files(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::gives_files)
    }

    /// True if the session's programs print here.
    pub(crate) fn prints(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::prints)
    }

    /// The connection's viewer is replaced: what it has received is kept for the next one.
    pub(super) fn keep_unfinished_files(&mut self) {
        let Some(viewer) = &mut self.viewer else { return };
        let PageFiles { offers, unfinished, .. } = &mut self.files;
        offers.clear();
        for (identity, start) in viewer.files(0).unfinished() {
            unfinished.retain(|(known, _)| *known != identity);
            if unfinished.len() == FILE_TRANSFERS_MAX {
                unfinished.remove(0);
            }
            unfinished.push((identity, start));
        }
    }

    /// Offers the files that the buffer lists; their number, or 0 with the reason as the text.
    pub(crate) fn offer_files(
        &mut self,
        bytes: usize,
        dropped: Option<(u16, u16)>,
        now: Micros,
    ) -> u32 {
        let list = String::from_utf8_lossy(self.buffer.get(..bytes).unwrap_or_default());
        let purpose = dropped.map_or(FilePurpose::Sent, |(x, y)| FilePurpose::Dropped { x, y });
        let offer = Offer::new(purpose, list.lines().filter_map(entry_of).collect());
        drop(list);
        self.shrink_buffer();
        let Some(viewer) = &mut self.viewer else { return 0 };
        match offer.and_then(|offer| viewer.files(now).offer(offer, now)) {
            Ok(id) => id,
            Err(OfferError::Policy) => {
                "the session takes no files".clone_into(&mut self.text);
                0
            }
            Err(error) => {
                self.text = error.to_string();
                0
            }
        }
    }

    /// The buffer holds the bytes that were wanted.
    pub(crate) fn supply_file(
        &mut self,
        id: u32,
        entry: u32,
        offset: u64,
        bytes: usize,
        now: Micros,
    ) {
        let bytes = self.buffer.get(..bytes).unwrap_or_default();
        if let Some(viewer) = &mut self.viewer {
            viewer.files(now).supply(id, entry, offset, bytes, now);
        }
    }

    /// Ends a transfer of the page's.
    pub(crate) fn withdraw_files(&mut self, id: u32, why: u32, now: Micros) {
        if let (Some(viewer), Some(why)) = (&mut self.viewer, end_of(why)) {
            viewer.files(now).withdraw(id, why);
        }
    }

    /// The session waits while a person is asked.
    pub(crate) fn ask_for_files(&mut self, id: u32, now: Micros) {
        if let Some(viewer) = &mut self.viewer {
            viewer.files(now).ask(id, now);
        }
    }

    /// Accepts an offer; false if it cannot go on where the last connection was lost.
    pub(crate) fn accept_files(&mut self, id: u32, accepts: Accepts, now: Micros) -> bool {
        let Some(offer) = self.files.take_offer(id) else { return false };
        let before = self.files.take_unfinished(&offer);
        let start = match accepts {
            Accepts::Begin => Start::default(),
            Accepts::Continue => match before {
                Some(start) => start,
                None => return false,
            },
            Accepts::Complete => Start { entry: offer.entries().len() as u32, ..Start::default() },
        };
        let Some(viewer) = &mut self.viewer else { return false };
        viewer.files(now).answer(id, Some(start), now);
        true
    }

    /// Refuses an offer, with a number that belongs to the answer.
    pub(crate) fn refuse_files(&mut self, id: u32, answer: u32, bytes: u64, now: Micros) {
        let answer = match answer {
            4 => FileAnswer::Space { free: bytes },
            5 => FileAnswer::TooLarge { limit: bytes },
            6 => FileAnswer::Busy,
            _ => FileAnswer::No,
        };
        self.files.take_offer(id);
        if let Some(viewer) = &mut self.viewer {
            viewer.files(now).refuse(id, answer);
        }
    }

    /// The page has stored so many chunks, of so many bytes together.
    pub(crate) fn stored_files(&mut self, id: u32, chunks: u32, bytes: usize, now: Micros) {
        let Some(viewer) = &mut self.viewer else { return };
        let end = viewer.files(now);
        // Each chunk counts more than its bytes.
        (0..chunks).for_each(|chunk| end.stored(id, if chunk == 0 { bytes } else { 0 }));
    }

    /// All files of a transfer are where they belong.
    pub(crate) fn finish_files(&mut self, id: u32, now: Micros) {
        if let Some(viewer) = &mut self.viewer {
            viewer.files(now).finish(id);
        }
    }

    /// Ends a transfer of the session's.
    pub(crate) fn stop_files(&mut self, id: u32, why: u32, now: Micros) {
        self.files.take_offer(id);
        if let (Some(viewer), Some(why)) = (&mut self.viewer, end_of(why)) {
            viewer.files(now).stop(id, why);
        }
    }

    /// Splits the next event into numbers, text and bytes.
    pub(crate) fn next_file_event(&mut self, now: Micros) -> FileEventKind {
        let Some(viewer) = &mut self.viewer else { return FileEventKind::None };
        let Some(event) = viewer.poll_file_event() else { return FileEventKind::None };
        let (kind, numbers) = match event {
            FileEvent::Offered { id, offer } => {
                self.text = lines(&offer);
                let numbers = [id.into(), offer.total() as f64, 0.0, 0.0, 0.0];
                self.files.offers.push((id, offer));
                (FileEventKind::Offered, numbers)
            }
            FileEvent::Data { id, entry, offset, bytes, last } => {
                self.files.bytes = bytes;
                let last = f64::from(u8::from(last));
                (FileEventKind::Data, [id.into(), entry.into(), offset as f64, last, 0.0])
            }
            FileEvent::Stopped { id, why } => {
                self.files.take_offer(id);
                (FileEventKind::Stopped, [id.into(), (why as u8).into(), 0.0, 0.0, 0.0])
            }
            FileEvent::Answered { id, answer } => {
                let (answer, bytes) = match answer {
                    FileAnswer::No => (0, 0),
                    FileAnswer::Yes { .. } => {
                        (1, viewer.files(now).sending(id).map_or(0, |progress| progress.done))
                    }
                    FileAnswer::Asking => (2, 0),
                    FileAnswer::Policy => (3, 0),
                    FileAnswer::Space { free } => (4, free),
                    FileAnswer::TooLarge { limit } => (5, limit),
                    FileAnswer::Busy => (6, 0),
                };
                let numbers = [id.into(), answer.into(), bytes as f64, 0.0, 0.0];
                (FileEventKind::Answered, numbers)
            }
            FileEvent::Wanted { id, entry, offset, bytes } => {
                let done = viewer.files(now).sending(id).map_or(0, |progress| progress.done);
                let numbers = [id.into(), entry.into(), offset as f64, bytes as f64, done as f64];
                (FileEventKind::Wanted, numbers)
            }
            FileEvent::Ended { id, why } => {
                (FileEventKind::Ended, [id.into(), (why as u8).into(), 0.0, 0.0, 0.0])
            }
        };
        self.event[..numbers.len()].copy_from_slice(&numbers);
        kind
    }

    /// The bytes of the last `Data` event.
    pub(crate) fn file_bytes(&self) -> &[u8] {
        &self.files.bytes
    }
}

/// As the protocol numbers them.
fn end_of(number: u32) -> Option<FileEnd> {
    FileEnd::ALL.get(number as usize).copied()
}

/// The identity, then a line for each entry: kind (0 file, 1 folder), size, time and path, with a
/// tab between. Neither a path nor a title has control characters.
fn lines(offer: &Offer) -> String {
    let digits = offer.identity().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let first = match offer.purpose() {
        FilePurpose::Printed(ticket) => format!("{digits}{}", wanted(ticket)),
        FilePurpose::Sent | FilePurpose::Dropped { .. } => digits,
    };
    let entries = offer.entries().iter().map(|entry| {
        let FileEntry { kind, size, modified_ms, path } = entry;
        format!("\n{}\t{size}\t{modified_ms}\t{path}", *kind as u8)
    });
    std::iter::once(first).chain(entries).collect()
}

/// Copies, sides (0 one, 1 long edge, 2 short edge), colour (0 grey, 1 colour) and title, with a
/// tab before each. A page's PDF has its paper, and the browser asks for another.
fn wanted(ticket: &PrintTicket) -> String {
    let PrintTicket { title, copies, sides, colour, media: _ } = ticket;
    format!("\t{copies}\t{}\t{}\t{title}", *sides as u8, u8::from(*colour))
}

/// The entry of a line; None if it is none, which no page sends.
fn entry_of(line: &str) -> Option<FileEntry> {
    let mut fields = line.splitn(4, '\t');
    let kind = match fields.next()? {
        "0" => FileKind::File,
        "1" => FileKind::Folder,
        _ => return None,
    };
    let (size, modified_ms) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(FileEntry { kind, size, modified_ms, path: fields.next()?.to_owned() })
}
