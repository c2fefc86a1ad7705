//! Path beside the pixels: under worker.rs, from a selection's owner.
//! Contents fetched from other applications: requested as the best target they offer, whole or by
//! INCR (ICCCM §2.7.2). Knows owners that refuse, hang, die and never end; each transfer has its
//! own window, so that late answers are not confused.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipEnd, ClipFormat, Selection};
use x11rb::NONE;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, PropertyNotifyEvent,
    SelectionNotifyEvent, Window,
};

use crate::text::{self, Encoding};
use crate::worker::Worker;
use crate::{XError, XSelectionEvent};

/// 10 s: time-out for an owner's answer, and for each chunk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// 3 s: time-out for the list of targets, which an owner need not generate.
const TARGETS_TIMEOUT: Duration = Duration::from_secs(3);
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

#[derive(Debug)]
struct Fetch {
    purpose: Purpose,
    selection: Selection,
    /// Window on which the owner stores the content.
    window: Window,
    owner: Window,
    /// Targets to try if the owner refuses the present one.
    alternatives: VecDeque<Atom>,
    /// An INCR transfer: the bytes so far, and the type of the first chunk.
    chunks: Option<(Vec<u8>, Option<Atom>)>,
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
            VecDeque::from([self.atoms.TARGETS]),
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
        self.start(Purpose::Compare { format }, selection, targets.into(), TARGETS_TIMEOUT)
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
        let mut targets = self.atoms.targets(format);
        if !watched.targets.is_empty() {
            targets.retain(|target| watched.targets.contains(target));
        }
        if watched.owner == NONE || watched.ours.is_some() || targets.is_empty() {
            self.emit(XSelectionEvent::Content { id, content: Err(ClipEnd::Unavailable) });
            return Ok(());
        }
        self.start(Purpose::Content { id, format }, selection, targets.into(), ANSWER_TIMEOUT)
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
        mut targets: VecDeque<Atom>,
        timeout: Duration,
    ) -> Result<(), XError> {
        let Some(target) = targets.pop_front() else { return Ok(()) };
        let window = self.new_window()?;
        let watched = &self.selections[selection as usize];
        let (atom, owner) = (watched.atom, watched.owner);
        self.convert(window, atom, target)?;
        let deadline = Instant::now() + timeout;
        let fetch = Fetch {
            purpose,
            selection,
            window,
            owner,
            alternatives: targets,
            chunks: None,
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
        let waits = |fetch: &Fetch| fetch.window == notify.requestor && fetch.chunks.is_none();
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
            fetch.chunks = Some((Vec::new(), None));
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
        if let Some(target) = fetch.alternatives.pop_front() {
            fetch.deadline = Instant::now() + ANSWER_TIMEOUT;
            let (window, selection) =
                (fetch.window, self.selections[fetch.selection as usize].atom);
            return self.convert(window, selection, target);
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
        let waits = |fetch: &Fetch| fetch.window == notify.window && fetch.chunks.is_some();
        let Some(at) = self.fetches.active.iter().position(waits) else { return Ok(()) };
        let window = notify.window;
        let head = self.property(window, 0)?;
        if head.type_ == NONE {
            // Notified twice, and read already.
            return Ok(());
        }
        let limit = self.bytes_max;
        let fetch = &mut self.fetches.active[at];
        let Some((content, first_type)) = &mut fetch.chunks else { return Ok(()) };
        let bytes = head.bytes_after as usize;
        if bytes == 0 {
            let (content, first_type) = fetch.chunks.take().unwrap_or_default();
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
        if let Some((content, _)) = &mut self.fetches.active[at].chunks {
            content.extend_from_slice(&chunk.value);
        }
        Ok(())
    }

    /// A content is complete: converts it to the protocol's form.
    fn whole(&mut self, at: usize, bytes: &[u8], type_: Atom, bits: u8) -> Result<(), XError> {
        let fetch = &self.fetches.active[at];
        let (Purpose::Content { format, .. } | Purpose::Compare { format }) = fetch.purpose else {
            return self.end(at, Err(ClipEnd::Failed));
        };
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
        };
        match content {
            Some(content) => self.end(at, Ok(content)),
            None => {
                self.connection.delete_property(fetch.window, self.atoms.THINC_CONTENT)?;
                self.refused(at)
            }
        }
    }

    /// An owner has gone, so its transfers end.
    pub(crate) fn owner_gone(&mut self, owner: Window) {
        let now = Instant::now();
        for fetch in self.fetches.active.iter_mut().filter(|fetch| fetch.owner == owner) {
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
