//! Path beside the pixels, in both directions: between viewer-core's end of the files channel and
//! the disk of this computer, on a thread of its own (thinc-files-disk).
//! Files that a person drops on the window, and files of the session, which are received only after
//! the person has said so; as are documents that its programs print, unless a printer was named.
//! Knows transfers and what people are told of them; never SDL.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use thinc_files::{FileEvent, Offer, OfferError, Start};
use thinc_files_disk::{Disk, DiskAnswer, DiskTask, Key};
use thinc_protocol::Micros;
use thinc_protocol::file::{FileAnswer, FileEnd, FileKind, FilePurpose};
use thinc_protocol::limits::FILE_TRANSFERS_MAX;
use thinc_protocol::viewer::ViewerCaps;
use thinc_viewer_core::Viewer;

use crate::printing::{self, Document, PrintChoice};

/// 2 min: for so long after a transfer the session may offer the same files on another connection,
/// because it did not learn of the end; they are not received again.
const FINISHED_AGE_MAX: Micros = 120_000_000;
/// Offers that the person has accepted or that are complete, as far as they are remembered.
const REMEMBERED_MAX: usize = 16;
/// Names in a message; of more, only their number is told.
const NAMES_MAX: usize = 3;

/// In which directions this viewer sends files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesChoice {
    /// The session may offer files; the person is asked.
    pub to_viewer: bool,
    /// What is dropped on the window is sent.
    pub to_session: bool,
}

/// Files for the session.
#[derive(Debug)]
struct Sending {
    key: Key,
    /// None until they are listed.
    offer: Option<Offer>,
    /// The number on this connection; None while there is none.
    id: Option<u32>,
}

/// Files of the session.
#[derive(Debug)]
struct Receiving {
    key: Key,
    /// The connection that they come over. What is moved to its place outlives it.
    connection: u64,
    /// Their number there.
    id: u32,
    offer: Arc<Offer>,
    stage: Stage,
    /// Files that are not complete.
    missing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The person is asked.
    Asked,
    /// What is there of them is read, or they arrive.
    Receiving,
    /// Everything is there, and is moved to its place.
    Finishing,
}

/// The viewer's transfers.
#[derive(Debug)]
pub(crate) struct Files {
    choice: FilesChoice,
    prints: PrintChoice,
    disk: Option<Disk>,
    next_key: Key,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
    /// Offers that the person has accepted: after a loss of the connection they go on.
    accepted: Vec<[u8; 32]>,
    /// The transfer that the window knows a question of.
    asked: Option<Key>,
    /// Offers that are complete, the connection that they came over, and when.
    finished: Vec<([u8; 32], u64, Micros)>,
    connection: u64,
    /// Documents that have arrived and are to be printed.
    printed: Vec<Document>,
    /// What the person was told, for scripts.
    pub(crate) told: VecDeque<String>,
}

impl Files {
    /// No transfers, and no disk yet.
    pub(crate) fn new(choice: FilesChoice, prints: PrintChoice) -> Files {
        Files {
            choice,
            prints,
            disk: None,
            next_key: 0,
            sending: Vec::new(),
            receiving: Vec::new(),
            accepted: Vec::new(),
            asked: None,
            finished: Vec::new(),
            connection: 0,
            printed: Vec::new(),
            told: VecDeque::new(),
        }
    }

    /// From now on files can be read and written.
    pub(crate) fn set_disk(&mut self, disk: Disk) {
        self.disk = Some(disk);
    }

    /// What the hello announces.
    pub(crate) fn caps(&self) -> u32 {
        if self.disk.is_none() {
            return 0;
        }
        let files = if self.choice.to_viewer { ViewerCaps::FILES } else { 0 };
        let prints = if self.prints == PrintChoice::Off { 0 } else { ViewerCaps::PRINTS };
        files | prints
    }

    /// Whether this viewer sends none, and how many transfers are in progress.
    #[cfg(feature = "window")]
    pub(crate) fn side(&self) -> (bool, usize) {
        let received = self.receiving.iter().filter(|found| found.stage != Stage::Asked).count();
        (!self.choice.to_session || self.disk.is_none(), self.sending.len() + received)
    }

    /// What is done with documents.
    #[cfg(feature = "window")]
    pub(crate) fn prints(&self) -> &PrintChoice {
        &self.prints
    }

    /// Documents that are to be printed now, and how.
    pub(crate) fn take_printed(&mut self) -> Vec<(PrintChoice, Document)> {
        let printed = std::mem::take(&mut self.printed).into_iter();
        printed.map(|document| (self.prints.clone(), document)).collect()
    }

    fn tell_disk(&self, task: DiskTask) {
        if let Some(disk) = &self.disk {
            disk.tell(task);
        }
    }

    fn key(&mut self) -> Key {
        self.next_key += 1;
        self.next_key
    }

    /// A session has answered on a new connection: what was not sent is offered again. What the
    /// session was sending it offers again too.
    pub(crate) fn begin(&mut self, viewer: &mut Viewer, now: Micros) -> Option<String> {
        self.connection += 1;
        let gone = self.receiving.extract_if(.., |found| found.stage != Stage::Finishing);
        let gone: Vec<Key> = gone.map(|receiving| receiving.key).collect();
        gone.into_iter().for_each(|key| self.tell_disk(DiskTask::Keep { key }));
        self.sending.iter_mut().for_each(|sending| sending.id = None);
        let keys: Vec<Key> = self.sending.iter().map(|sending| sending.key).collect();
        keys.into_iter().filter_map(|key| self.offer(key, viewer, now)).last()
    }

    // ---- to the session

    /// The person wants these files in the session. Returns a message if they cannot be.
    pub(crate) fn send(&mut self, paths: Vec<PathBuf>, purpose: FilePurpose) -> Option<String> {
        if !self.choice.to_session || self.disk.is_none() {
            return Some("Not sent: this viewer sends no files (--files)".to_owned());
        }
        if self.sending.len() >= FILE_TRANSFERS_MAX {
            return Some(format!("Not sent: {}", OfferError::Busy(self.sending.len())));
        }
        let key = self.key();
        self.sending.push(Sending { key, offer: None, id: None });
        self.tell_disk(DiskTask::List { key, paths, purpose });
        None
    }

    /// Offers files that are listed.
    fn offer(&mut self, key: Key, viewer: &mut Viewer, now: Micros) -> Option<String> {
        let sending = self.sending.iter_mut().find(|sending| sending.key == key)?;
        let offer = sending.offer.as_ref()?;
        let words = describe(offer);
        match viewer.files(now).offer(offer.clone(), now) {
            Ok(id) => {
                sending.id = Some(id);
                Some(format!("Sending {words}"))
            }
            Err(error) => {
                self.end_sending(key);
                Some(match error {
                    OfferError::Policy => format!("Not sent: the session takes no files: {words}"),
                    error => format!("Not sent: {error}"),
                })
            }
        }
    }

    fn end_sending(&mut self, key: Key) {
        self.sending.retain(|sending| sending.key != key);
        self.tell_disk(DiskTask::Close { key });
    }

    // ---- from the session

    /// What the person is asked; None if nothing.
    pub(crate) fn question(&self) -> Option<String> {
        let asked = self.asked_receiving()?;
        if let FilePurpose::Printed(ticket) = asked.offer.purpose() {
            let what = printing::question(ticket, &size(asked.offer.total()));
            return Some(format!("{what}\n\nCtrl+Alt+Y: open it, Ctrl+Alt+X: refuse"));
        }
        Some(format!(
            "The session sends {}.\n\nCtrl+Alt+Y: receive, Ctrl+Alt+X: refuse",
            describe(&asked.offer)
        ))
    }

    fn asked_receiving(&self) -> Option<&Receiving> {
        self.receiving.iter().find(|found| found.stage == Stage::Asked)
    }

    /// Whether there is another question, or none any more, since this was last called.
    pub(crate) fn has_other_question(&mut self) -> bool {
        let asked = self.asked_receiving().map(|asked| asked.key);
        std::mem::replace(&mut self.asked, asked) != asked
    }

    /// The person's answer to this question; nothing happens if it is not asked any more.
    pub(crate) fn answer(
        &mut self,
        takes: bool,
        question: &str,
        viewer: &mut Viewer,
        now: Micros,
    ) -> Option<String> {
        if self.question().as_deref() != Some(question) {
            return None;
        }
        let asked = self.receiving.iter_mut().find(|found| found.stage == Stage::Asked)?;
        if !takes {
            viewer.files(now).answer(asked.id, None, now);
            let key = asked.key;
            self.receiving.retain(|receiving| receiving.key != key);
            return Some("Refused".to_owned());
        }
        asked.stage = Stage::Receiving;
        let (key, offer) = (asked.key, asked.offer.clone());
        let words = format!("Receiving {}", describe(&offer));
        remember(&mut self.accepted, offer.identity());
        self.tell_disk(DiskTask::Receive { key, offer });
        Some(words)
    }

    /// The person wants what is in progress no more.
    pub(crate) fn cancel(&mut self, viewer: &mut Viewer, now: Micros) -> Option<String> {
        let is_active = |found: &Receiving| found.stage != Stage::Finishing;
        let receiving: Vec<Receiving> =
            self.receiving.extract_if(.., |found| is_active(found)).collect();
        for Receiving { key, id, offer, .. } in &receiving {
            viewer.files(now).stop(*id, FileEnd::Cancelled);
            let identity = offer.identity();
            self.accepted.retain(|accepted| *accepted != identity);
            self.tell_disk(DiskTask::Discard { key: *key });
        }
        let sending = std::mem::take(&mut self.sending);
        for Sending { key, id, .. } in &sending {
            id.iter().for_each(|&id| viewer.files(now).withdraw(id, FileEnd::Cancelled));
            self.tell_disk(DiskTask::Close { key: *key });
        }
        (!receiving.is_empty() || !sending.is_empty()).then(|| "Cancelled".to_owned())
    }

    /// How far transfers are, for the person; None if there are none.
    pub(crate) fn progress(&self, viewer: &mut Viewer, now: Micros) -> Option<String> {
        let end = viewer.files(now);
        let sending = self.sending.iter().filter_map(|sending| {
            Some((
                format!("Sending {}", describe(sending.offer.as_ref()?)),
                end.sending(sending.id?)?,
            ))
        });
        let receiving = self.receiving.iter().filter_map(|receiving| {
            let is_connected = receiving.connection == self.connection;
            let progress = end.receiving(receiving.id).filter(|_| is_connected)?;
            Some((format!("Receiving {}", describe(&receiving.offer)), progress))
        });
        let lines: Vec<String> = sending
            .chain(receiving)
            .map(|(words, progress)| {
                let percent = (progress.done * 100).checked_div(progress.total).unwrap_or(100);
                format!("{words}: {percent} %")
            })
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Handles an event of viewer-core; returns a message for the person.
    pub(crate) fn handle(
        &mut self,
        event: FileEvent,
        viewer: &mut Viewer,
        now: Micros,
    ) -> Option<String> {
        match event {
            FileEvent::Offered { id, offer } => {
                self.handle_offer(id, offer, viewer, now);
                None
            }
            FileEvent::Data { id, entry, offset, bytes, last } => {
                let key = self.receiving[self.position(id)?].key;
                self.tell_disk(DiskTask::Write { key, entry, offset, bytes, last });
                None
            }
            FileEvent::Stopped { id, why } => {
                let at = self.position(id)?;
                // In order: the question that is shown is the first.
                let receiving = self.receiving.remove(at);
                let (key, identity) = (receiving.key, receiving.offer.identity());
                self.accepted.retain(|accepted| *accepted != identity);
                // What was cancelled, or arrived wrong, is of no use later.
                self.tell_disk(match why {
                    FileEnd::Failed | FileEnd::Space => DiskTask::Keep { key },
                    _ => DiskTask::Discard { key },
                });
                (receiving.stage != Stage::Asked)
                    .then(|| format!("Not received: {}", words_of(why)))
            }
            FileEvent::Answered { id, answer } => {
                let key = self.sending.iter().find(|sending| sending.id == Some(id))?.key;
                let refusal = refusal(answer)?;
                self.end_sending(key);
                Some(format!("Not sent: {refusal}"))
            }
            FileEvent::Wanted { id, entry, offset, bytes } => {
                let key = self.sending.iter().find(|sending| sending.id == Some(id))?.key;
                self.tell_disk(DiskTask::Read { key, entry, offset, bytes });
                None
            }
            FileEvent::Ended { id, why } => {
                let found = self.sending.iter().find(|sending| sending.id == Some(id))?;
                let (key, words) = (found.key, found.offer.as_ref().map(describe));
                self.end_sending(key);
                Some(match why {
                    FileEnd::Done => format!("Sent {}", words.unwrap_or_default()),
                    why => format!("Not sent: {}", words_of(why)),
                })
            }
        }
    }

    /// Files that come over this connection.
    fn position(&self, id: u32) -> Option<usize> {
        let is = |found: &Receiving| found.connection == self.connection && found.id == id;
        self.receiving.iter().position(is)
    }

    fn handle_offer(&mut self, id: u32, offer: Arc<Offer>, viewer: &mut Viewer, now: Micros) {
        self.finished.retain(|&(.., at)| now < at + FINISHED_AGE_MAX);
        let identity = offer.identity();
        let is_again = self
            .finished
            .iter()
            .any(|&(done, connection, _)| done == identity && connection != self.connection);
        if is_again {
            let entry = offer.entries().len() as u32;
            viewer.files(now).answer(id, Some(Start { entry, ..Start::default() }), now);
            viewer.files(now).finish(id);
            return;
        }
        viewer.files(now).ask(id, now);
        let key = self.key();
        // Naming a printer is the person's answer.
        let is_printed = matches!(offer.purpose(), FilePurpose::Printed(_))
            && matches!(self.prints, PrintChoice::Printer(_));
        let stage = if is_printed || self.accepted.contains(&identity) {
            self.tell_disk(DiskTask::Receive { key, offer: offer.clone() });
            Stage::Receiving
        } else {
            Stage::Asked
        };
        let connection = self.connection;
        self.receiving.push(Receiving { key, connection, id, offer, stage, missing: 0 });
    }

    /// The disk's thread has done something; returns a message for the person.
    pub(crate) fn handle_disk(
        &mut self,
        answer: DiskAnswer,
        viewer: &mut Viewer,
        now: Micros,
    ) -> Option<String> {
        match answer {
            DiskAnswer::Listed { key, listed: Ok((offer, left_out)) } => {
                let sending = self.sending.iter_mut().find(|sending| sending.key == key)?;
                sending.offer = Some(offer);
                let told = self.offer(key, viewer, now)?;
                Some(
                    left_out.words().map_or_else(|| told.clone(), |more| format!("{told}; {more}")),
                )
            }
            DiskAnswer::Listed { key, listed: Err(error) } => {
                self.end_sending(key);
                Some(format!("Not sent: {error}"))
            }
            DiskAnswer::Read { key, entry, offset, read } => {
                let id = self.sending.iter().find(|sending| sending.key == key)?.id?;
                match read {
                    Ok(bytes) => {
                        viewer.files(now).supply(id, entry, offset, &bytes, now);
                        None
                    }
                    Err((why, text)) => {
                        viewer.files(now).withdraw(id, why);
                        self.end_sending(key);
                        Some(format!("Not sent: {text}"))
                    }
                }
            }
            DiskAnswer::Ready { key, start } => {
                let found = self.receiving.iter_mut().find(|receiving| receiving.key == key)?;
                let id = found.id;
                match start {
                    Ok(start) => {
                        let rest = &found.offer.entries()[start.entry as usize..];
                        let files = rest.iter().filter(|entry| entry.kind == FileKind::File);
                        found.missing = files.count();
                        viewer.files(now).answer(id, Some(start), now);
                        self.finish_if_complete(key);
                        None
                    }
                    Err((answer, text)) => {
                        match answer {
                            // Nobody has refused.
                            FileAnswer::No => viewer.files(now).stop(id, FileEnd::Failed),
                            answer => viewer.files(now).refuse(id, answer),
                        }
                        self.forget(key);
                        Some(format!("Not received: {text}"))
                    }
                }
            }
            DiskAnswer::Written { key, bytes, last, written } => {
                let found = self.receiving.iter_mut().find(|receiving| receiving.key == key)?;
                let id = found.id;
                match written {
                    Ok(()) => {
                        found.missing -= usize::from(last);
                        viewer.files(now).stored(id, bytes);
                        self.finish_if_complete(key);
                        None
                    }
                    Err((why, text)) => {
                        viewer.files(now).stop(id, why);
                        self.forget(key);
                        Some(format!("Not received: {text}"))
                    }
                }
            }
            DiskAnswer::Finished { key, finished } => {
                let at = self.receiving.iter().position(|receiving| receiving.key == key)?;
                let Receiving { connection, id, offer, .. } = self.receiving.remove(at);
                let is_connected = connection == self.connection;
                match finished {
                    Ok(paths) => {
                        if is_connected {
                            viewer.files(now).finish(id);
                        }
                        let identity = offer.identity();
                        self.accepted.retain(|accepted| *accepted != identity);
                        if self.finished.len() == REMEMBERED_MAX {
                            self.finished.remove(0);
                        }
                        self.finished.push((identity, connection, now));
                        if let (FilePurpose::Printed(ticket), [path]) =
                            (offer.purpose(), paths.as_slice())
                        {
                            let (path, ticket) = (path.clone(), (**ticket).clone());
                            self.printed.push(Document { path, ticket });
                        }
                        Some(received(&paths))
                    }
                    Err((why, text)) => {
                        if is_connected {
                            viewer.files(now).stop(id, why);
                        }
                        Some(format!("Not received: {text}"))
                    }
                }
            }
        }
    }

    /// A transfer has failed here: what is offered later is asked about.
    fn forget(&mut self, key: Key) {
        if let Some(at) = self.receiving.iter().position(|receiving| receiving.key == key) {
            let identity = self.receiving.remove(at).offer.identity();
            self.accepted.retain(|accepted| *accepted != identity);
        }
    }

    fn finish_if_complete(&mut self, key: Key) {
        let found = self.receiving.iter_mut().find(|receiving| receiving.key == key);
        if let Some(receiving) = found.filter(|receiving| receiving.missing == 0) {
            receiving.stage = Stage::Finishing;
            self.tell_disk(DiskTask::Finish { key });
        }
    }
}

fn remember(identities: &mut Vec<[u8; 32]>, identity: [u8; 32]) {
    identities.retain(|known| *known != identity);
    if identities.len() == REMEMBERED_MAX {
        identities.remove(0);
    }
    identities.push(identity);
}

/// Names and size of what is sent, for a person.
fn describe(offer: &Offer) -> String {
    let names: Vec<&str> =
        offer.top_level().take(NAMES_MAX).map(|entry| entry.path.as_str()).collect();
    let more = offer.top_level().count().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more} ({})", names.join(", "), size(offer.total()))
}

/// In the units of file managers, rounded up.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => {
            let tenths = bytes.div_ceil(100_000_000);
            format!("{}.{} GB", tenths / 10, tenths % 10)
        }
    }
}

fn received(paths: &[PathBuf]) -> String {
    let folder =
        paths.first().and_then(|path| path.parent()).map(|path| path.display().to_string());
    let names: Vec<String> = paths
        .iter()
        .take(NAMES_MAX)
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let more = paths.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("Received {}{more} in {}", names.join(", "), folder.unwrap_or_default())
}

/// Why a transfer ended, for a person.
fn words_of(why: FileEnd) -> &'static str {
    match why {
        FileEnd::Done => "done",
        FileEnd::Cancelled => "it was cancelled in the session",
        FileEnd::Changed => "a file was changed while it was read; send it again",
        FileEnd::Space => "there is not enough room",
        FileEnd::Failed => "it failed, or made no progress",
        FileEnd::Policy => "it is not allowed any more",
        FileEnd::Mismatch => "what arrived was damaged; send it again",
    }
}

/// Why an offer was refused, for a person; None if it was not.
fn refusal(answer: FileAnswer) -> Option<String> {
    Some(match answer {
        FileAnswer::Yes { .. } | FileAnswer::Asking => return None,
        FileAnswer::No => "the session does not take it".to_owned(),
        FileAnswer::Policy => "the session takes no files".to_owned(),
        FileAnswer::Space { free } => format!("the session has room for {} only", size(free)),
        FileAnswer::TooLarge { limit } => format!("the session takes at most {}", size(limit)),
        FileAnswer::Busy => "too many transfers wait there; try again later".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use thinc_protocol::file::FileEntry;
    use thinc_region::Size;
    use thinc_viewer_core::{ClipboardPolicy, ViewerConfig};

    use super::*;

    fn offer(name: &str) -> Arc<Offer> {
        let (kind, path) = (FileKind::File, name.to_owned());
        let entry = FileEntry { kind, size: 10, modified_ms: 0, path };
        Arc::new(Offer::new(FilePurpose::Sent, vec![entry]).unwrap())
    }

    fn viewer() -> Viewer {
        Viewer::new(&ViewerConfig {
            name: String::new(),
            size: Size::default(),
            caps: ViewerCaps::FILES,
            clipboard: ClipboardPolicy::OFF,
        })
    }

    #[test]
    fn a_transfer_of_an_earlier_connection_keeps_its_files_to_itself() {
        let (choice, mut viewer) = (FilesChoice { to_viewer: true, to_session: true }, viewer());
        let mut files = Files::new(choice, PrintChoice::Off);
        files.begin(&mut viewer, 0);
        files.handle(FileEvent::Offered { id: 1, offer: offer("first") }, &mut viewer, 0);
        let question = files.question().unwrap();
        files.answer(true, &question, &mut viewer, 0);
        let (key, start) = (1, Ok(Start::default()));
        files.handle_disk(DiskAnswer::Ready { key, start }, &mut viewer, 0);
        let (bytes, last, written) = (10, true, Ok(()));
        files.handle_disk(DiskAnswer::Written { key, bytes, last, written }, &mut viewer, 0);
        // While the first is moved to its place, another one gets its number.
        viewer = self::viewer();
        files.begin(&mut viewer, 0);
        files.handle(FileEvent::Offered { id: 1, offer: offer("second") }, &mut viewer, 0);
        assert!(files.question().unwrap().contains("second"));
        let why = FileEnd::Cancelled;
        files.handle(FileEvent::Stopped { id: 1, why }, &mut viewer, 0);
        assert_eq!(files.question(), None, "the second is not offered any more");
        let finished = Ok(vec![PathBuf::from("/d/first")]);
        let told = files.handle_disk(DiskAnswer::Finished { key, finished }, &mut viewer, 0);
        assert_eq!(told.as_deref(), Some("Received first in /d"));
        // The session has not heard of the end.
        files.handle(FileEvent::Offered { id: 2, offer: offer("first") }, &mut viewer, 0);
        assert_eq!(files.question(), None, "it is not received again");
    }

    #[test]
    fn people_are_told_names_and_sizes() {
        let entry = |path: &str, kind, size| {
            let path = path.to_owned();
            FileEntry { kind, size, modified_ms: 0, path }
        };
        let entries = vec![
            entry("report.pdf", FileKind::File, 2_000_001),
            entry("photos", FileKind::Folder, 0),
            entry("photos/a", FileKind::File, 0),
            entry("c", FileKind::File, 0),
            entry("d", FileKind::File, 0),
        ];
        let offer = Offer::new(FilePurpose::Sent, entries).unwrap();
        assert_eq!(describe(&offer), "report.pdf, photos, c and 1 more (3 MB)");
        let sizes = [0, 999, 1_000, 1_500_000, 2_340_000_000].map(size);
        assert_eq!(sizes, ["0 bytes", "999 bytes", "1 kB", "2 MB", "2.4 GB"]);
        let paths = ["a", "b"].map(|name| PathBuf::from("/home/u/Downloads").join(name));
        assert_eq!(received(&paths), "Received a, b in /home/u/Downloads");
    }

    #[test]
    fn a_window_learns_of_questions_and_not_of_pieces() {
        let path = "a".to_owned();
        let entry = FileEntry { kind: FileKind::File, size: 1, modified_ms: 0, path };
        let offer = Arc::new(Offer::new(FilePurpose::Sent, vec![entry]).unwrap());
        let asked = |key| {
            let (connection, id, offer) = (0, 7, offer.clone());
            Receiving { key, connection, id, offer, stage: Stage::Asked, missing: 1 }
        };
        let choice = FilesChoice { to_viewer: true, to_session: true };
        let mut files = Files::new(choice, PrintChoice::Off);
        assert!(!files.has_other_question());
        files.receiving.extend([asked(1), asked(2)]);
        assert!(files.has_other_question());
        // Whatever becomes of a transfer meanwhile.
        assert!(!files.has_other_question());
        // The same words about another transfer are another question.
        files.receiving[0].stage = Stage::Receiving;
        assert!(files.has_other_question());
        files.receiving.remove(1);
        assert!(files.has_other_question(), "it is withdrawn");
        assert!(!files.has_other_question());
    }
}
