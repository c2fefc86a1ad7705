//! Path beside the pixels: under worker.rs, from a selection's owner.
//! Contents fetched from other applications: requested as the best target they offer, whole or by
//! INCR (ICCCM §2.7.2), and converted if that is of no format of the protocol. Knows owners that
//! refuse, hang, die and never end; each transfer has its own window, so that late answers are not
//! confused.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use thinc_clip_convert::Conversion;
use thinc_protocol::clip::{ClipEnd, ClipFormat, Selection};
use x11rb::NONE;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, PropertyNotifyEvent,
    SelectionNotifyEvent, Window,
};

use crate::files;
use crate::text::{self, Encoding};
use crate::worker::Worker;
use crate::{XError, XSelectionEvent};

/// 10 s: time-out for an owner's answer, and for each chunk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// 3 s: time-out for the list of targets, which an owner need not generate.
const TARGETS_TIMEOUT: Duration = Duration::from_secs(3);
/// 10 s: time-out for a conversion, with those before it: seven times what the largest image takes.
const CONVERT_TIMEOUT: Duration = Duration::from_secs(10);
/// 30 s: time-out for reading copied files, which may be on a slow disk.
const FILES_TIMEOUT: Duration = Duration::from_secs(30);
/// 8: contents fetched at a time; more are queued.
const FETCHES_MAX: usize = 8;
/// 128: queued fetches; more are refused.
const WAITING_MAX: usize = 128;
/// 512: targets that an owner may list; 4 times as many as an office suite has.
const TARGETS_MAX: u32 = 512;

/// Purpose of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// List the owner's targets.
    Targets,
    /// Fetch a content for the caller.
    Content { id: u32, format: ClipFormat },
    /// Check whether the content is the one that we gave the owner.
    Compare { format: ClipFormat },
}

/// A target, and how its content becomes the wanted format, if it is not of that.
#[derive(Clone, Copy, Debug)]
struct Source {
    target: Atom,
    conversion: Option<Conversion>,
}

impl Source {
    fn plain(target: Atom) -> Source {
        Source { target, conversion: None }
    }
}

#[derive(Debug)]
enum Stage {
    /// The owner has not answered.
    Requested,
    /// An INCR transfer: the bytes so far, and the type of the first chunk.
    Chunks(Vec<u8>, Option<Atom>),
    /// The content is complete and is being converted; the conversion's number.
    Converting(u64),
}

#[derive(Debug)]
struct Fetch {
    purpose: Purpose,
    selection: Selection,
    /// Window on which the owner stores the content.
    window: Window,
    owner: Window,
    source: Source,
    /// Targets to try if the owner refuses the present one.
    alternatives: VecDeque<Source>,
    stage: Stage,
    deadline: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Fetches {
    active: Vec<Fetch>,
    waiting: VecDeque<(u32, Selection, ClipFormat)>,
}

impl Fetches {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.active.iter().map(|fetch| fetch.deadline).min()
    }

    fn contents(&self) -> usize {
        self.active.iter().filter(|fetch| matches!(fetch.purpose, Purpose::Content { .. })).count()
    }
}

impl Worker<'_> {
    /// Requests a new owner's targets.
    pub(crate) fn fetch_targets(&mut self, selection: Selection) -> Result<(), XError> {
        self.cancel_inspection(selection);
        self.start(
            Purpose::Targets,
            selection,
            VecDeque::from([Source::plain(self.atoms.TARGETS)]),
            TARGETS_TIMEOUT,
        )
    }

    /// Fetches from a new owner a content that we gave it, to compare.
    pub(crate) fn compare(
        &mut self,
        selection: Selection,
        format: ClipFormat,
    ) -> Result<(), XError> {
        let mut targets = self.atoms.targets(format);
        targets.retain(|target| self.selections[selection as usize].targets.contains(target));
        let sources = targets.into_iter().map(Source::plain).collect();
        self.start(Purpose::Compare { format }, selection, sources, TARGETS_TIMEOUT)
    }

    /// The owner has changed: cancels requests for its targets and comparisons.
    pub(crate) fn cancel_inspection(&mut self, selection: Selection) {
        let content = |fetch: &Fetch| matches!(fetch.purpose, Purpose::Content { .. });
        self.end_all(|fetch| fetch.selection == selection && !content(fetch));
    }

    pub(crate) fn fetch(
        &mut self,
        id: u32,
        selection: Selection,
        format: ClipFormat,
    ) -> Result<(), XError> {
        if self.fetches.contents() >= FETCHES_MAX {
            if self.fetches.waiting.len() >= WAITING_MAX {
                self.emit(XSelectionEvent::Content { id, content: Err(ClipEnd::Failed) });
            } else {
                self.fetches.waiting.push_back((id, selection, format));
            }
            return Ok(());
        }
        let watched = &self.selections[selection as usize];
        let mut sources: VecDeque<Source> =
            self.atoms.targets(format).into_iter().map(Source::plain).collect();
        if !watched.targets.is_empty() {
            let converted = self.atoms.convertible(format);
            sources.extend(
                converted
                    .into_iter()
                    .map(|(target, conversion)| Source { target, conversion: Some(conversion) }),
            );
            sources.retain(|source| watched.targets.contains(&source.target));
        }
        if watched.owner == NONE || watched.ours.is_some() || sources.is_empty() {
            self.emit(XSelectionEvent::Content { id, content: Err(ClipEnd::Unavailable) });
            return Ok(());
        }
        self.start(Purpose::Content { id, format }, selection, sources, ANSWER_TIMEOUT)
    }

    pub(crate) fn cancel(&mut self, id: u32) -> Result<(), XError> {
        self.fetches.waiting.retain(|&(waiting, ..)| waiting != id);
        self.end_all(|fetch| matches!(fetch.purpose, Purpose::Content { id: of, .. } if of == id));
        self.start_waiting()
    }

    fn start(
        &mut self,
        purpose: Purpose,
        selection: Selection,
        mut sources: VecDeque<Source>,
        timeout: Duration,
    ) -> Result<(), XError> {
        let Some(source) = sources.pop_front() else { return Ok(()) };
        let window = self.new_window()?;
        let watched = &self.selections[selection as usize];
        let (atom, owner) = (watched.atom, watched.owner);
        self.convert(window, atom, source.target)?;
        let deadline = Instant::now() + timeout;
        let fetch = Fetch {
            purpose,
            selection,
            window,
            owner,
            source,
            alternatives: sources,
            stage: Stage::Requested,
            deadline,
        };
        self.fetches.active.push(fetch);
        Ok(())
    }

    fn start_waiting(&mut self) -> Result<(), XError> {
        while self.fetches.contents() < FETCHES_MAX {
            let Some((id, selection, format)) = self.fetches.waiting.pop_front() else { break };
            self.fetch(id, selection, format)?;
        }
        Ok(())
    }

    /// Ends fetches without an event: their windows are destroyed, so late answers are lost.
    fn end_all(&mut self, which: impl Fn(&Fetch) -> bool) {
        for fetch in self.fetches.active.extract_if(.., |fetch| which(fetch)) {
            // A lost connection is detected by the next request.
            let _ = self.connection.destroy_window(fetch.window);
        }
    }

    /// Ends a fetch with its result.
    fn end(&mut self, at: usize, content: Result<Vec<u8>, ClipEnd>) -> Result<(), XError> {
        let fetch = self.fetches.active.swap_remove(at);
        self.connection.destroy_window(fetch.window)?;
        match fetch.purpose {
            Purpose::Content { id, .. } => {
                self.emit(XSelectionEvent::Content { id, content });
                self.start_waiting()
            }
            Purpose::Compare { format } => {
                self.handle_comparison(fetch.selection, format, content.ok().as_deref());
                Ok(())
            }
            // It does not answer, so it has no usable target.
            Purpose::Targets => self.handle_targets(fetch.selection, Vec::new()),
        }
    }

    /// The owner has stored something on one of our windows, or refuses.
    pub(crate) fn handle_notify(&mut self, notify: &SelectionNotifyEvent) -> Result<(), XError> {
        let waits = |fetch: &Fetch| {
            fetch.window == notify.requestor && matches!(fetch.stage, Stage::Requested)
        };
        let Some(at) = self.fetches.active.iter().position(waits) else { return Ok(()) };
        if notify.property == NONE {
            return self.refused(at);
        }
        let fetch = &self.fetches.active[at];
        let (window, is_targets) = (fetch.window, fetch.purpose == Purpose::Targets);
        // Read its length first, so that no owner makes us read more than the limit.
        let head = self.property(window, 1)?;
        if head.type_ == self.atoms.INCR {
            let announced = head.value32().and_then(|mut length| length.next()).unwrap_or(0);
            if announced as usize > self.bytes_max {
                return self.too_large(at, u64::from(announced));
            }
            // Deleting the property requests the first chunk.
            self.connection.delete_property(window, self.atoms.THINC_CONTENT)?;
            let fetch = &mut self.fetches.active[at];
            fetch.stage = Stage::Chunks(Vec::new(), None);
            fetch.deadline = Instant::now() + ANSWER_TIMEOUT;
            return Ok(());
        }
        if is_targets {
            let list = self.property(window, TARGETS_MAX)?;
            let targets = list.value32().map(Iterator::collect).unwrap_or_default();
            let fetch = self.fetches.active.swap_remove(at);
            self.connection.destroy_window(window)?;
            return self.handle_targets(fetch.selection, targets);
        }
        let bytes = head.value.len() as u64 + u64::from(head.bytes_after);
        if bytes > self.bytes_max as u64 {
            return self.too_large(at, bytes);
        }
        let all = self.property(window, (bytes.div_ceil(4)) as u32)?;
        self.whole(at, &all.value, all.type_, all.format)
    }

    fn refused(&mut self, at: usize) -> Result<(), XError> {
        let fetch = &mut self.fetches.active[at];
        if let Some(source) = fetch.alternatives.pop_front() {
            fetch.source = source;
            fetch.stage = Stage::Requested;
            fetch.deadline = Instant::now() + ANSWER_TIMEOUT;
            let (window, selection) =
                (fetch.window, self.selections[fetch.selection as usize].atom);
            return self.convert(window, selection, source.target);
        }
        if fetch.purpose != Purpose::Targets {
            return self.end(at, Err(ClipEnd::Failed));
        }
        // The owner does not know TARGETS.
        let (window, selection) = (fetch.window, fetch.selection);
        self.fetches.active.swap_remove(at);
        self.connection.destroy_window(window)?;
        self.handle_targets(selection, self.atoms.fallback_targets())
    }

    fn too_large(&mut self, at: usize, bytes: u64) -> Result<(), XError> {
        let limit = self.bytes_max as u64;
        self.end(at, Err(ClipEnd::TooLarge { bytes, limit }))
    }

    /// `length` units of four bytes of the property on a window of ours.
    fn property(&self, window: Window, length: u32) -> Result<GetPropertyReply, XError> {
        let property = self.atoms.THINC_CONTENT;
        Ok(self
            .connection
            .get_property(false, window, property, AtomEnum::ANY, 0, length)?
            .reply()?)
    }

    /// A chunk has arrived.
    pub(crate) fn next_chunk(&mut self, notify: &PropertyNotifyEvent) -> Result<(), XError> {
        let waits = |fetch: &Fetch| {
            fetch.window == notify.window && matches!(fetch.stage, Stage::Chunks(..))
        };
        let Some(at) = self.fetches.active.iter().position(waits) else { return Ok(()) };
        let window = notify.window;
        let head = self.property(window, 0)?;
        if head.type_ == NONE {
            // Notified twice, and read already.
            return Ok(());
        }
        let limit = self.bytes_max;
        let fetch = &mut self.fetches.active[at];
        let Stage::Chunks(content, first_type) = &mut fetch.stage else { return Ok(()) };
        let bytes = head.bytes_after as usize;
        if bytes == 0 {
            let content = std::mem::take(content);
            let type_ = first_type.unwrap_or(head.type_);
            return self.whole(at, &content, type_, 8);
        }
        if content.len() + bytes > limit {
            // The total length is unknown.
            return self.too_large(at, 0);
        }
        first_type.get_or_insert(head.type_);
        fetch.deadline = Instant::now() + ANSWER_TIMEOUT;
        let chunk = self.property(window, bytes.div_ceil(4) as u32)?;
        // Deleting the property requests the next chunk.
        self.connection.delete_property(window, self.atoms.THINC_CONTENT)?;
        if let Stage::Chunks(content, _) = &mut self.fetches.active[at].stage {
            content.extend_from_slice(&chunk.value);
        }
        Ok(())
    }

    /// A content is complete: brings it into the protocol's form.
    fn whole(&mut self, at: usize, bytes: &[u8], type_: Atom, bits: u8) -> Result<(), XError> {
        let fetch = &self.fetches.active[at];
        let (Purpose::Content { format, .. } | Purpose::Compare { format }) = fetch.purpose else {
            return self.end(at, Err(ClipEnd::Failed));
        };
        if let Purpose::Content { format: ClipFormat::Files, .. } = fetch.purpose {
            return match files::paths(bytes) {
                Some(paths) if bits == 8 => self.pack(at, paths),
                _ => self.unusable(at),
            };
        }
        if let Some(conversion) = fetch.source.conversion {
            let content = match conversion {
                Conversion::TextOfHtml => text::html(bytes),
                Conversion::PngOf(_) => bytes.to_vec(),
            };
            return self.convert_content(at, conversion, content);
        }
        let latin1 = type_ == u32::from(AtomEnum::STRING);
        let text_types = [self.atoms.UTF8_STRING, self.atoms.PLAIN_UTF8, self.atoms.PLAIN];
        let content = match format {
            _ if bits != 8 => None,
            ClipFormat::Text if latin1 => Some(text::text(bytes, Encoding::Latin1)),
            ClipFormat::Text if text_types.contains(&type_) => {
                Some(text::text(bytes, Encoding::Utf8))
            }
            // COMPOUND_TEXT, which TEXT may be converted to, or a file name.
            ClipFormat::Text => None,
            ClipFormat::Html => Some(text::html(bytes)),
            ClipFormat::Png => Some(bytes.to_vec()),
            // As we have given it.
            ClipFormat::Files => files::paths(bytes).map(|paths| files::uri_list(&paths)),
        };
        match content {
            Some(content) => self.end(at, Ok(content)),
            None => self.unusable(at),
        }
    }

    /// The content of the present target is of no use: tries the next one.
    fn unusable(&mut self, at: usize) -> Result<(), XError> {
        let window = self.fetches.active[at].window;
        self.connection.delete_property(window, self.atoms.THINC_CONTENT)?;
        self.refused(at)
    }

    /// Converts a content on a thread of its own; [`Worker::converted`] takes the result.
    fn convert_content(
        &mut self,
        at: usize,
        conversion: Conversion,
        content: Vec<u8>,
    ) -> Result<(), XError> {
        let deadline = Instant::now() + CONVERT_TIMEOUT;
        match self.conversions.start(conversion, content, self.bytes_max, deadline) {
            Ok(number) => {
                let fetch = &mut self.fetches.active[at];
                fetch.stage = Stage::Converting(number);
                fetch.deadline = deadline;
                Ok(())
            }
            Err(why) => self.end(at, Err(why)),
        }
    }

    /// Reads copied files on a thread of their own.
    fn pack(&mut self, at: usize, paths: Vec<PathBuf>) -> Result<(), XError> {
        match self.conversions.pack(paths, self.bytes_max as u64) {
            Ok(number) => {
                let fetch = &mut self.fetches.active[at];
                fetch.stage = Stage::Converting(number);
                fetch.deadline = Instant::now() + FILES_TIMEOUT;
                Ok(())
            }
            Err(why) => self.end(at, Err(why)),
        }
    }

    /// A conversion has ended; its fetch or paste may have been cancelled meanwhile.
    pub(crate) fn converted(
        &mut self,
        number: u64,
        result: Result<Vec<u8>, ClipEnd>,
    ) -> Result<(), XError> {
        let is_for = |fetch: &Fetch| matches!(fetch.stage, Stage::Converting(of) if of == number);
        let Some(at) = self.fetches.active.iter().position(is_for) else {
            return self.unpacked(number, result);
        };
        match result {
            // It is no such image: the owner may have another one.
            Err(ClipEnd::Failed) => self.unusable(at),
            result => self.end(at, result),
        }
    }

    /// An owner has gone, so its transfers end; what is being converted was complete.
    pub(crate) fn owner_gone(&mut self, owner: Window) {
        let now = Instant::now();
        let needs_owner = |fetch: &&mut Fetch| {
            fetch.owner == owner && !matches!(fetch.stage, Stage::Converting(_))
        };
        for fetch in self.fetches.active.iter_mut().filter(needs_owner) {
            fetch.deadline = now;
        }
    }

    pub(crate) fn fetch_deadlines(&mut self, now: Instant) -> Result<(), XError> {
        while let Some(at) = self.fetches.active.iter().position(|fetch| fetch.deadline <= now) {
            self.end(at, Err(ClipEnd::Failed))?;
        }
        Ok(())
    }
}
