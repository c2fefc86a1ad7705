//! Path beside the pixels, in both directions: between session-core's ends of the files channel and
//! the disk, on a thread of its own, through actor.rs. Files that programs of the session send, to
//! a viewer of the owner's; files that viewers send, into the folder for downloads.
//! What programs print goes the same way (files/printing.rs).
//! Knows transfers and people's words for them; session-core decides when anything is sent, and
//! thinc-files-disk what may be read and written.

mod printing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thinc_files::{FileEvent, Offer, OfferError};
use thinc_files_disk::{Disk, DiskAnswer, DiskTask, Folders, Key, LeftOut};
use thinc_protocol::Micros;
use thinc_protocol::file::{FileAnswer, FileEnd, FileKind, FilePurpose};
use thinc_protocol::limits::{FILE_TRANSFERS_MAX, INSTANCE_BYTES};
use thinc_session_core::{FilesPolicy, Printing, Session, ViewerId};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::SessionConfig;
use crate::connection::{Event, Events};
use crate::drops::{Dropped, Drops};
use crate::printing::{PrintEvent, PrintLink};
use printing::{Held, Printed};

/// A day: how long files wait for a viewer that has left while it received them.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// 2 min: for so long after a transfer the same files are taken for the same transfer, whose end a
/// viewer has not received because its connection was lost.
const FINISHED_AGE_MAX: Duration = Duration::from_secs(120);
const FINISHED_MAX: usize = 16;
/// Why an offer or a transfer ended that the person at the viewer ended.
const UNWANTED: &str = "the person at the viewer does not want it";
/// Names in a message for people; of more, only their number is told.
const NAMES_MAX: usize = 3;

/// In which directions files are sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilesConfig {
    /// Programs of the session may send files to viewers of its owner's.
    pub to_viewers: bool,
    /// Viewers of its owner's may send files to the session.
    pub to_session: bool,
}

/// How a transfer from the session ended: sent, or why not, for the person who sent it.
pub(crate) type Outcome = Result<(), String>;

/// An event for the session's transfers.
#[derive(Debug)]
pub(crate) enum FilesEvent {
    /// A program sends these, and viewers show a failure if it says so; the answer follows at their
    /// end, and is not awaited any more if its receiver is gone.
    Send(Vec<PathBuf>, bool, oneshot::Sender<Outcome>),
    /// Such a receiver is gone.
    GivenUp,
    /// The disk's thread has done something.
    Disk(DiskAnswer),
    /// Files were dropped on a window, or not.
    Dropped(Dropped),
    /// A program prints.
    Print(PrintEvent),
}

/// Who sends files of the session.
#[derive(Debug)]
enum Origin {
    /// A program that waits for the end.
    Program(oneshot::Sender<Outcome>),
    /// The print job of this number.
    Print(u32),
}

/// Files that a program of the session sends, or a document that it prints.
#[derive(Debug)]
struct Sending {
    key: Key,
    /// None until the files are listed.
    offer: Option<Offer>,
    /// Viewers show a failure: the program that sends has no other place for it.
    notify: bool,
    origin: Origin,
    /// The viewer and its number for the transfer; None while it is away.
    at: Option<(ViewerId, u32)>,
    instance: Option<[u8; INSTANCE_BYTES]>,
    /// Since when it is offered to that viewer, or that is away.
    since: Micros,
    /// Viewers that could not take the document, or did not answer.
    held: Vec<Held>,
}

/// Files that a viewer sends.
#[derive(Debug)]
struct Receiving {
    key: Key,
    viewer: ViewerId,
    /// The viewer's number for the transfer.
    id: u32,
    offer: Arc<Offer>,
    instance: Option<[u8; INSTANCE_BYTES]>,
    /// Files that are not complete.
    missing: usize,
    /// Everything is there, and is moved to its place.
    finishing: bool,
}

/// A transfer whose end its viewer may not have received.
#[derive(Debug)]
struct Finished {
    identity: [u8; 32],
    instance: [u8; INSTANCE_BYTES],
    viewer: ViewerId,
    at: Micros,
}

/// A viewer as files need to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileViewer {
    pub(crate) id: ViewerId,
    /// It is not a guest's.
    pub(crate) is_owners: bool,
    /// It is offered what programs print.
    pub(crate) prints: bool,
    pub(crate) instance: Option<[u8; INSTANCE_BYTES]>,
}

/// The session's transfers.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Option<Disk>,
    /// Programs may send files.
    to_viewers: bool,
    drops: Option<Drops>,
    /// None: the session has no printer.
    link: Option<PrintLink>,
    printed: Printed,
    next_key: Key,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
    finished: Vec<Finished>,
    /// What people are to be told.
    notices: Vec<String>,
}

/// Tells session-core what may be sent, and starts the threads for the disk, and for drops on
/// windows of the display.
pub(crate) fn start(config: &SessionConfig, core: &mut Session, events: Events) -> Files {
    let FilesConfig { to_viewers, to_session } = config.files;
    let printing = config.printing.as_ref();
    let mut files = Files::none(to_viewers);
    files.link = printing.map(|config| crate::printing::connect(config, events.clone()));
    if !to_viewers && !to_session && printing.is_none() {
        return files;
    }
    if to_session {
        let events = events.clone();
        let done = move |dropped| {
            let event = Event::Files(FilesEvent::Dropped(dropped));
            events.blocking_send(event).is_ok()
        };
        let started = Drops::start(&config.display, done);
        let started = started.inspect_err(|error| warn!("files go to no window: {error}"));
        files.drops = started.ok();
    }
    let done = move |answer| {
        let event = Event::Files(FilesEvent::Disk(answer));
        events.blocking_send(event).is_ok()
    };
    match Folders::from_environment().and_then(|folders| Disk::start(folders, done)) {
        Ok(disk) => {
            files.disk = Some(disk);
            let printing = if printing.is_some() { Printing::Sends } else { Printing::Off };
            let (take, give) = (to_session, to_viewers);
            let policy = FilesPolicy { take, give, printing, ..Default::default() };
            core.set_files(policy);
        }
        Err(error) => warn!("files cannot be sent: {error}"),
    }
    files
}

impl Files {
    /// No transfers, no disk and no printer.
    fn none(to_viewers: bool) -> Files {
        Files {
            disk: None,
            to_viewers,
            drops: None,
            link: None,
            printed: Printed::default(),
            next_key: 0,
            sending: Vec::new(),
            receiving: Vec::new(),
            finished: Vec::new(),
            notices: Vec::new(),
        }
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

    /// The next message for the people at viewers.
    pub(crate) fn poll_notice(&mut self) -> Option<String> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0))
    }

    /// When something has to be done without an event.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        // A document waits for a viewer as long as the session.
        let away = self
            .sending
            .iter()
            .filter(|sending| sending.at.is_none() && matches!(sending.origin, Origin::Program(_)));
        away.map(|sending| sending.since + UNFINISHED_AGE_MAX.as_micros() as Micros).min()
    }

    // ---- from the session

    /// A program of the session sends these files; the outcome follows once it is known.
    pub(crate) fn send(
        &mut self,
        paths: Vec<PathBuf>,
        notify: bool,
        outcome: oneshot::Sender<Outcome>,
        now: Micros,
    ) {
        let is_file = |sending: &&Sending| matches!(sending.origin, Origin::Program(_));
        let sending = self.sending.iter().filter(is_file).count();
        let refusal = if !self.to_viewers || self.disk.is_none() {
            Some("this session sends no files (--files)".to_owned())
        } else if sending >= FILE_TRANSFERS_MAX {
            Some(OfferError::Busy(sending).to_string())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            if notify {
                self.notices.push(not_sent(&refusal));
            }
            // Who asked may be gone.
            let _ = outcome.send(Err(refusal));
            return;
        }
        let key = self.key();
        let (at, instance, origin) = (None, None, Origin::Program(outcome));
        let offer = None;
        let (since, held) = (now, Vec::new());
        self.sending.push(Sending { key, offer, notify, origin, at, instance, since, held });
        self.tell_disk(DiskTask::List { key, paths, purpose: FilePurpose::Sent });
    }

    /// Ends transfers that nobody waits for any more, and those that waited too long.
    pub(crate) fn enforce(&mut self, core: &mut Session, now: Micros) {
        let age_max = UNFINISHED_AGE_MAX.as_micros() as Micros;
        let why = |sending: &Sending| {
            let Origin::Program(outcome) = &sending.origin else { return None };
            if outcome.is_closed() {
                return Some("the program that sent it has ended");
            }
            let is_late = sending.at.is_none() && now >= sending.since + age_max;
            is_late.then_some("the viewer did not come back")
        };
        let ended: Vec<(Key, &str)> =
            self.sending.iter().filter_map(|sending| Some((sending.key, why(sending)?))).collect();
        for (key, why) in ended {
            if let Some((viewer, id)) = self.at(key)
                && let Some(end) = core.files(viewer)
            {
                end.withdraw(id, FileEnd::Cancelled);
            }
            self.end_sending(key, Err(why.to_owned()));
        }
    }

    fn at(&self, key: Key) -> Option<(ViewerId, u32)> {
        self.sending.iter().find(|sending| sending.key == key)?.at
    }

    fn end_sending(&mut self, key: Key, outcome: Outcome) {
        let Some(at) = self.sending.iter().position(|sending| sending.key == key) else { return };
        let sending = self.sending.swap_remove(at);
        self.tell_disk(DiskTask::Close { key });
        if let (Err(why), true) = (&outcome, sending.notify) {
            self.notices.push(not_sent(why));
        }
        match sending.origin {
            Origin::Program(program) => drop(program.send(outcome)),
            Origin::Print(number) => self.end_print(number, outcome),
        }
    }

    /// Offers files that no viewer is offered to the newest viewer that takes them: to the one that
    /// has received a part of them, if there is one.
    fn offer(&mut self, key: Key, core: &mut Session, viewers: &[FileViewer], now: Micros) {
        let Some(sending) = self.sending.iter_mut().find(|sending| sending.key == key) else {
            return;
        };
        let Some(offer) = sending.offer.clone() else { return };
        if matches!(sending.origin, Origin::Print(_)) {
            return self.offer_prints(core, viewers, now);
        }
        let mut refusal = None;
        for viewer in viewers.iter().rev().filter(|viewer| viewer.is_owners) {
            if sending.instance.is_some() && viewer.instance != sending.instance {
                continue;
            }
            let Some(end) = core.files(viewer.id) else { continue };
            match end.offer(offer.clone(), now) {
                Ok(id) => {
                    sending.at = Some((viewer.id, id));
                    sending.instance = viewer.instance;
                    return;
                }
                Err(error) => refusal = Some(error),
            }
        }
        if sending.instance.is_some() {
            // It was connected, and may come back.
            sending.since = now;
            return;
        }
        let why = match refusal {
            Some(OfferError::Policy) | None => {
                "no viewer of yours that receives files is connected".to_owned()
            }
            Some(error) => error.to_string(),
        };
        self.end_sending(key, Err(why));
    }

    // ---- viewers

    /// A viewer has connected, and its instance is known: what it had received in part goes on.
    pub(crate) fn viewer_came(&mut self, core: &mut Session, viewer: FileViewer, now: Micros) {
        let Some(instance) = viewer.instance else { return };
        let away: Vec<Key> = self
            .sending
            .iter()
            .filter(|sending| sending.at.is_none() && sending.instance == Some(instance))
            .map(|sending| sending.key)
            .collect();
        away.into_iter().for_each(|key| self.offer(key, core, &[viewer], now));
    }

    /// A viewer has left. What it sent stays unfinished on the disk.
    pub(crate) fn viewer_left(&mut self, viewer: ViewerId, now: Micros) {
        self.prints_left(viewer);
        for sending in &mut self.sending {
            if sending.at.is_some_and(|(at, _)| at == viewer) {
                (sending.at, sending.since) = (None, now);
            }
        }
        // A viewer without a number is not recognised when it comes back.
        let lost = self.sending.iter().filter(|sending| {
            sending.at.is_none()
                && sending.offer.is_some()
                && sending.instance.is_none()
                && matches!(sending.origin, Origin::Program(_))
        });
        let lost: Vec<Key> = lost.map(|sending| sending.key).collect();
        for key in lost {
            self.end_sending(key, Err("the viewer has left".to_owned()));
        }
        let gone: Vec<Key> = self
            .receiving
            .iter()
            .filter(|receiving| receiving.viewer == viewer && !receiving.finishing)
            .map(|receiving| receiving.key)
            .collect();
        self.receiving.retain(|receiving| !gone.contains(&receiving.key));
        gone.into_iter().for_each(|key| self.leave(key, DiskTask::Keep { key }));
    }

    /// Carries out what session-core wants of the disk.
    pub(crate) fn handle_events(
        &mut self,
        core: &mut Session,
        viewers: &[FileViewer],
        now: Micros,
    ) {
        while let Some((viewer, event)) = core.poll_file_event(now) {
            self.handle_event(core, viewers, viewer, event, now);
        }
    }

    pub(crate) fn handle_event(
        &mut self,
        core: &mut Session,
        viewers: &[FileViewer],
        viewer: ViewerId,
        event: FileEvent,
        now: Micros,
    ) {
        let sending = |files: &Files, id: u32| {
            let found = files.sending.iter().find(|sending| sending.at == Some((viewer, id)));
            found.map(|sending| sending.key)
        };
        match event {
            FileEvent::Offered { id, offer } => {
                let instance = viewers.iter().find(|other| other.id == viewer);
                let instance = instance.and_then(|other| other.instance);
                self.receive(core, viewer, id, offer, instance, now);
            }
            FileEvent::Data { id, entry, offset, bytes, last } => {
                if let Some(receiving) = self.of_viewer(viewer, id) {
                    let key = receiving.key;
                    self.tell_disk(DiskTask::Write { key, entry, offset, bytes, last });
                }
            }
            FileEvent::Stopped { id, why } => {
                let Some(at) = self.position(viewer, id) else { return };
                let receiving = self.receiving.swap_remove(at);
                // What a person cancelled, or arrived wrong, is of no use later.
                let key = receiving.key;
                let task = match why {
                    FileEnd::Failed | FileEnd::Space => DiskTask::Keep { key },
                    _ => DiskTask::Discard { key },
                };
                self.leave(key, task);
                info!("files of a viewer: {}", words(why));
            }
            FileEvent::Answered { id, answer } => {
                let Some(key) = sending(self, id) else { return };
                if matches!(answer, FileAnswer::Yes { .. } | FileAnswer::No) {
                    self.prints_answered(viewer);
                }
                match refusal(answer) {
                    Some(why) if answer != FileAnswer::No && self.is_print(key) => {
                        self.hold_print(key, &why, core, now);
                    }
                    Some(why) => self.end_sending(key, Err(why)),
                    None => {}
                }
            }
            FileEvent::Wanted { id, entry, offset, bytes } => {
                if let Some(key) = sending(self, id) {
                    self.tell_disk(DiskTask::Read { key, entry, offset, bytes });
                }
            }
            FileEvent::Ended { id, why } => {
                let Some(key) = sending(self, id) else { return };
                if matches!(why, FileEnd::Done | FileEnd::Cancelled) {
                    self.prints_answered(viewer);
                }
                match why {
                    FileEnd::Done => self.end_sending(key, Ok(())),
                    FileEnd::Cancelled => self.end_sending(key, Err(UNWANTED.to_owned())),
                    FileEnd::Failed if self.is_print(key) => {
                        let why = "nobody answered at the viewer, or it failed there";
                        self.hold_print(key, why, core, now);
                    }
                    // The other reasons are the viewer's.
                    why if why != FileEnd::Changed && self.is_print(key) => {
                        self.hold_print(key, words(why), core, now);
                    }
                    why => self.end_sending(key, Err(words(why).to_owned())),
                }
            }
        }
    }

    /// Files that a viewer has sent in part do not arrive, for now.
    fn leave(&self, key: Key, task: DiskTask) {
        self.tell_disk(task);
        self.drops.iter().for_each(|drops| drops.forget(key));
    }

    fn position(&self, viewer: ViewerId, id: u32) -> Option<usize> {
        let is = |receiving: &Receiving| receiving.viewer == viewer && receiving.id == id;
        self.receiving.iter().position(is)
    }

    fn of_viewer(&self, viewer: ViewerId, id: u32) -> Option<&Receiving> {
        Some(&self.receiving[self.position(viewer, id)?])
    }

    fn receive(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        id: u32,
        offer: Arc<Offer>,
        instance: Option<[u8; INSTANCE_BYTES]>,
        now: Micros,
    ) {
        let age_max = FINISHED_AGE_MAX.as_micros() as Micros;
        self.finished.retain(|finished| now < finished.at + age_max);
        let identity = offer.identity();
        let again = self.finished.iter().any(|finished| {
            finished.identity == identity
                && Some(finished.instance) == instance
                && finished.viewer != viewer
        });
        let Some(end) = core.files(viewer) else { return };
        if again {
            let entry = offer.entries().len() as u32;
            end.answer(id, Some(thinc_files::Start { entry, ..Default::default() }), now);
            end.finish(id);
            return;
        }
        // What is there of them may take a while to read.
        end.ask(id, now);
        let key = self.key();
        let (missing, finishing) = (0, false);
        if let (&FilePurpose::Dropped { x, y }, Some(drops)) = (offer.purpose(), &self.drops) {
            drops.find(key, x, y);
        }
        self.tell_disk(DiskTask::Receive { key, offer: offer.clone() });
        self.receiving.push(Receiving { key, viewer, id, offer, instance, missing, finishing });
    }

    // ---- the disk

    /// The disk's thread has done something.
    pub(crate) fn handle_disk(
        &mut self,
        answer: DiskAnswer,
        core: &mut Session,
        viewers: &[FileViewer],
        now: Micros,
    ) {
        match answer {
            DiskAnswer::Listed { key, listed } => match listed {
                Ok((offer, left_out)) => {
                    let sending = self.sending.iter_mut().find(|sending| sending.key == key);
                    if let Some(sending) = sending {
                        let words = left_out_words(&offer, left_out);
                        sending.offer = Some(offer);
                        self.notices.extend(words);
                        self.offer(key, core, viewers, now);
                    }
                }
                Err(error) => self.end_sending(key, Err(error)),
            },
            DiskAnswer::Read { key, entry, offset, read } => {
                let Some((viewer, id)) = self.at(key) else { return };
                let Some(end) = core.files(viewer) else { return };
                match read {
                    Ok(bytes) => end.supply(id, entry, offset, &bytes, now),
                    Err((why, text)) => {
                        end.withdraw(id, why);
                        self.end_sending(key, Err(text));
                    }
                }
            }
            DiskAnswer::Ready { key, start } => {
                let Some(receiving) = self.receiving.iter_mut().find(|found| found.key == key)
                else {
                    return;
                };
                let (viewer, id) = (receiving.viewer, receiving.id);
                let Some(end) = core.files(viewer) else { return };
                match start {
                    Ok(start) => {
                        let rest = &receiving.offer.entries()[start.entry as usize..];
                        receiving.missing =
                            rest.iter().filter(|entry| entry.kind == FileKind::File).count();
                        end.answer(id, Some(start), now);
                        self.finish_if_complete(key);
                    }
                    Err((answer, text)) => {
                        warn!("files of a viewer: {text}");
                        match answer {
                            // Nobody has refused.
                            FileAnswer::No => end.stop(id, FileEnd::Failed),
                            answer => end.refuse(id, answer),
                        }
                        self.fail(key, &text);
                    }
                }
            }
            DiskAnswer::Written { key, bytes, last, written } => {
                let Some(receiving) = self.receiving.iter_mut().find(|found| found.key == key)
                else {
                    return;
                };
                let (viewer, id) = (receiving.viewer, receiving.id);
                let Some(end) = core.files(viewer) else { return };
                match written {
                    Ok(()) => {
                        end.stored(id, bytes);
                        receiving.missing -= usize::from(last);
                        self.finish_if_complete(key);
                    }
                    Err((why, text)) => {
                        warn!("files of a viewer: {text}");
                        end.stop(id, why);
                        self.fail(key, &text);
                    }
                }
            }
            DiskAnswer::Finished { key, finished } => {
                let Some(at) = self.receiving.iter().position(|found| found.key == key) else {
                    return;
                };
                let receiving = self.receiving.swap_remove(at);
                self.finished(receiving, finished, core, now);
            }
        }
    }

    /// Files were dropped on a window, or not.
    pub(crate) fn handle_dropped(&mut self, dropped: &Dropped) {
        let Dropped { paths, taken } = dropped;
        self.notices.push(received(paths, *taken));
    }

    fn finished(
        &mut self,
        receiving: Receiving,
        finished: Result<Vec<PathBuf>, (FileEnd, String)>,
        core: &mut Session,
        now: Micros,
    ) {
        let Receiving { key, viewer, id, offer, instance, .. } = receiving;
        match finished {
            Ok(paths) => {
                if let Some(end) = core.files(viewer) {
                    end.finish(id);
                }
                if let Some(instance) = instance {
                    if self.finished.len() == FINISHED_MAX {
                        self.finished.remove(0);
                    }
                    let identity = offer.identity();
                    self.finished.push(Finished { identity, instance, viewer, at: now });
                }
                info!("files of a viewer: {} bytes received", offer.total());
                match (offer.purpose(), &self.drops) {
                    // The notice follows.
                    (FilePurpose::Dropped { .. }, Some(drops)) => drops.play(key, paths),
                    _ => self.notices.push(received(&paths, false)),
                }
            }
            Err((why, text)) => {
                warn!("files of a viewer: {text}");
                if let Some(end) = core.files(viewer) {
                    end.stop(id, why);
                }
                self.drops.iter().for_each(|drops| drops.forget(key));
                self.notices.push(format!("Files could not be received: {text}"));
            }
        }
    }

    /// A transfer from a viewer has failed here.
    fn fail(&mut self, key: Key, text: &str) {
        self.receiving.retain(|receiving| receiving.key != key);
        self.leave(key, DiskTask::Keep { key });
        self.notices.push(format!("Files could not be received: {text}"));
    }

    fn finish_if_complete(&mut self, key: Key) {
        if let Some(receiving) = self.receiving.iter_mut().find(|found| found.key == key)
            && receiving.missing == 0
        {
            receiving.finishing = true;
            self.tell_disk(DiskTask::Finish { key });
        }
    }
}

/// What people are told of files that have arrived, and that a program may have taken.
fn received(paths: &[PathBuf], taken: bool) -> String {
    let folder = paths.first().and_then(|path| path.parent()).unwrap_or(std::path::Path::new(""));
    let names: Vec<String> = paths
        .iter()
        .take(NAMES_MAX)
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let more = paths.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let window = if taken { ", and gave it to the window where you dropped it" } else { "" };
    format!("Received {}{more} in {}{window}", names.join(", "), folder.display())
}

/// What people are told of what a folder contains and is not sent.
fn left_out_words(offer: &Offer, left_out: LeftOut) -> Option<String> {
    let name = offer.top_level().next().map_or("", |entry| entry.path.as_str());
    left_out.words().map(|words| format!("Sending {name}: {words}"))
}

fn not_sent(why: &str) -> String {
    format!("Not sent to your computer: {why}")
}

/// Why a transfer ended, for people.
fn words(why: FileEnd) -> &'static str {
    match why {
        FileEnd::Done => "done",
        FileEnd::Cancelled => "it was cancelled",
        FileEnd::Changed => "a file was changed while it was read; send it again",
        FileEnd::Space => "there is not enough room at the viewer",
        FileEnd::Failed => "it failed, or made no progress",
        FileEnd::Policy => "it is not allowed any more",
        FileEnd::Mismatch => "what arrived was damaged; send it again",
    }
}

/// Why an offer was refused, for people; None if it was not.
fn refusal(answer: FileAnswer) -> Option<String> {
    Some(match answer {
        FileAnswer::Yes { .. } | FileAnswer::Asking => return None,
        FileAnswer::No => UNWANTED.to_owned(),
        FileAnswer::Policy => "the viewer receives no files".to_owned(),
        FileAnswer::Space { free } => format!("the viewer has room for {free} bytes only"),
        FileAnswer::TooLarge { limit } => format!("the viewer takes at most {limit} bytes"),
        FileAnswer::Busy => "too many transfers wait at the viewer; try again later".to_owned(),
    })
}
