//! Path beside the pixels: under worker.rs, from a selection's owner.
//! Contents on their way from other programs: asked for in the best form they have, whole or in chunks (ICCCM §2.7.2).
//! Knows owners that refuse, hang, die and never end; each content has a window of its own, so that nothing late is mistaken.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipEnd, ClipFormat, Selection};
use x11rb::NONE;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, PropertyNotifyEvent, SelectionNotifyEvent, Window,
};

use crate::text::{self, Encoding};
use crate::worker::Worker;
use crate::{XError, XSelectionEvent};

/// 10 s: how long an owner may take for its answer, or for the next chunk.
const PATIENCE: Duration = Duration::from_secs(10);
/// 3 s: the same for the list of its forms, which it need not make.
const LOOK_PATIENCE: Duration = Duration::from_secs(3);
/// Contents asked for at a time; more wait for one to end.
const FETCHES_MAX: usize = 8;
/// Contents that wait to be asked for; more are refused.
const WAITING_MAX: usize = 128;
/// Names that an owner may list: 4 times as many as an office program has.
const TARGETS_MAX: u32 = 512;

/// What a conversion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To see what the owner has.
    Look,
    /// Somebody wants it.
    Content { id: u32, format: ClipFormat },
    /// To see whether it is what we gave the owner.
    Compare { format: ClipFormat },
}

#[derive(Debug)]
struct Fetch {
    purpose: Purpose,
    selection: Selection,
    /// Where its owner puts it.
    window: Window,
    owner: Window,
    /// Forms to ask for if the owner refuses the one that it was asked for.
    others: VecDeque<Atom>,
    /// Chunks until now, once it comes in chunks, and the type that the first had.
    chunks: Option<(Vec<u8>, Option<Atom>)>,
    deadline: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Fetches {
    under_way: Vec<Fetch>,
    waiting: VecDeque<(u32, Selection, ClipFormat)>,
}

impl Fetches {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.under_way.iter().map(|fetch| fetch.deadline).min()
    }

    fn contents(&self) -> usize {
        self.under_way.iter().filter(|fetch| matches!(fetch.purpose, Purpose::Content { .. })).count()
    }
}

impl Worker<'_> {
    /// Asks a new owner what it has.
    pub(crate) fn look(&mut self, selection: Selection) -> Result<(), XError> {
        self.forget_look(selection);
        self.begin(Purpose::Look, selection, VecDeque::from([self.atoms.TARGETS]), LOOK_PATIENCE)
    }

    /// Asks a new owner for something that we gave it.
    pub(crate) fn compare(&mut self, selection: Selection, format: ClipFormat) -> Result<(), XError> {
        let mut targets = self.atoms.targets(format);
        targets.retain(|target| self.selections[selection as usize].targets.contains(target));
        self.begin(Purpose::Compare { format }, selection, targets.into(), LOOK_PATIENCE)
    }

    /// The owner that was asked what it has is none any more.
    pub(crate) fn forget_look(&mut self, selection: Selection) {
        let content = |fetch: &Fetch| matches!(fetch.purpose, Purpose::Content { .. });
        self.end_all(|fetch| fetch.selection == selection && !content(fetch));
    }

    pub(crate) fn fetch(&mut self, id: u32, selection: Selection, format: ClipFormat) -> Result<(), XError> {
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
            self.emit(XSelectionEvent::Content { id, content: Err(ClipEnd::Gone) });
            return Ok(());
        }
        self.begin(Purpose::Content { id, format }, selection, targets.into(), PATIENCE)
    }

    pub(crate) fn cancel(&mut self, id: u32) -> Result<(), XError> {
        self.fetches.waiting.retain(|&(waiting, ..)| waiting != id);
        self.end_all(|fetch| matches!(fetch.purpose, Purpose::Content { id: of, .. } if of == id));
        self.begin_waiting()
    }

    fn begin(
        &mut self,
        purpose: Purpose,
        selection: Selection,
        mut targets: VecDeque<Atom>,
        patience: Duration,
    ) -> Result<(), XError> {
        let Some(target) = targets.pop_front() else { return Ok(()) };
        let window = self.new_window()?;
        let watched = &self.selections[selection as usize];
        let (atom, owner) = (watched.atom, watched.owner);
        self.convert(window, atom, target)?;
        let deadline = Instant::now() + patience;
        let fetch = Fetch { purpose, selection, window, owner, others: targets, chunks: None, deadline };
        self.fetches.under_way.push(fetch);
        Ok(())
    }

    fn begin_waiting(&mut self) -> Result<(), XError> {
        while self.fetches.contents() < FETCHES_MAX {
            let Some((id, selection, format)) = self.fetches.waiting.pop_front() else { break };
            self.fetch(id, selection, format)?;
        }
        Ok(())
    }

    /// Ends those without a word: their windows go, and what comes late goes nowhere.
    fn end_all(&mut self, which: impl Fn(&Fetch) -> bool) {
        for fetch in self.fetches.under_way.extract_if(.., |fetch| which(fetch)) {
            // A connection that broke is found out by whatever comes next.
            let _ = self.connection.destroy_window(fetch.window);
        }
    }

    /// One has its content, or never will.
    fn end(&mut self, at: usize, content: Result<Vec<u8>, ClipEnd>) -> Result<(), XError> {
        let fetch = self.fetches.under_way.swap_remove(at);
        self.connection.destroy_window(fetch.window)?;
        match fetch.purpose {
            Purpose::Content { id, .. } => {
                self.emit(XSelectionEvent::Content { id, content });
                self.begin_waiting()
            }
            Purpose::Compare { format } => {
                self.compared(fetch.selection, format, content.ok().as_deref());
                Ok(())
            }
            // It is silent, and has nothing for us.
            Purpose::Look => self.looked(fetch.selection, Vec::new()),
        }
    }

    /// The owner has put something on one of our windows, or refuses.
    pub(crate) fn converted(&mut self, notify: &SelectionNotifyEvent) -> Result<(), XError> {
        let waits = |fetch: &Fetch| fetch.window == notify.requestor && fetch.chunks.is_none();
        let Some(at) = self.fetches.under_way.iter().position(waits) else { return Ok(()) };
        if notify.property == NONE {
            return self.refused(at);
        }
        let fetch = &self.fetches.under_way[at];
        let (window, look) = (fetch.window, fetch.purpose == Purpose::Look);
        // Its length first: nobody makes us read more than we keep.
        let head = self.property(window, 1)?;
        if head.type_ == self.atoms.INCR {
            let announced = head.value32().and_then(|mut length| length.next()).unwrap_or(0);
            if announced as usize > self.bytes_max {
                return self.too_large(at, u64::from(announced));
            }
            // Its disappearance asks for the first chunk.
            self.connection.delete_property(window, self.atoms.THINC_CONTENT)?;
            let fetch = &mut self.fetches.under_way[at];
            fetch.chunks = Some((Vec::new(), None));
            fetch.deadline = Instant::now() + PATIENCE;
            return Ok(());
        }
        if look {
            let list = self.property(window, TARGETS_MAX)?;
            let targets = list.value32().map(Iterator::collect).unwrap_or_default();
            let fetch = self.fetches.under_way.swap_remove(at);
            self.connection.destroy_window(window)?;
            return self.looked(fetch.selection, targets);
        }
        let bytes = head.value.len() as u64 + u64::from(head.bytes_after);
        if bytes > self.bytes_max as u64 {
            return self.too_large(at, bytes);
        }
        let all = self.property(window, (bytes.div_ceil(4)) as u32)?;
        self.whole(at, &all.value, all.type_, all.format)
    }

    fn refused(&mut self, at: usize) -> Result<(), XError> {
        let fetch = &mut self.fetches.under_way[at];
        if let Some(target) = fetch.others.pop_front() {
            fetch.deadline = Instant::now() + PATIENCE;
            let (window, selection) = (fetch.window, self.selections[fetch.selection as usize].atom);
            return self.convert(window, selection, target);
        }
        if fetch.purpose != Purpose::Look {
            return self.end(at, Err(ClipEnd::Failed));
        }
        // It is older than TARGETS.
        let (window, selection) = (fetch.window, fetch.selection);
        self.fetches.under_way.swap_remove(at);
        self.connection.destroy_window(window)?;
        self.looked(selection, self.atoms.usual())
    }

    fn too_large(&mut self, at: usize, bytes: u64) -> Result<(), XError> {
        let limit = self.bytes_max as u64;
        self.end(at, Err(ClipEnd::TooLarge { bytes, limit }))
    }

    /// So many units of four bytes of what lies on a window of ours.
    fn property(&self, window: Window, length: u32) -> Result<GetPropertyReply, XError> {
        let property = self.atoms.THINC_CONTENT;
        Ok(self.connection.get_property(false, window, property, AtomEnum::ANY, 0, length)?.reply()?)
    }

    /// A chunk has come.
    pub(crate) fn next_chunk(&mut self, notify: &PropertyNotifyEvent) -> Result<(), XError> {
        let waits = |fetch: &Fetch| fetch.window == notify.window && fetch.chunks.is_some();
        let Some(at) = self.fetches.under_way.iter().position(waits) else { return Ok(()) };
        let window = notify.window;
        let head = self.property(window, 0)?;
        if head.type_ == NONE {
            // Told of twice, and taken already.
            return Ok(());
        }
        let limit = self.bytes_max;
        let fetch = &mut self.fetches.under_way[at];
        let Some((content, first_type)) = &mut fetch.chunks else { return Ok(()) };
        let bytes = head.bytes_after as usize;
        if bytes == 0 {
            let (content, first_type) = fetch.chunks.take().unwrap_or_default();
            let type_ = first_type.unwrap_or(head.type_);
            return self.whole(at, &content, type_, 8);
        }
        if content.len() + bytes > limit {
            // How much more there is, nobody knows.
            return self.too_large(at, 0);
        }
        first_type.get_or_insert(head.type_);
        fetch.deadline = Instant::now() + PATIENCE;
        let chunk = self.property(window, bytes.div_ceil(4) as u32)?;
        // Its disappearance asks for the next.
        self.connection.delete_property(window, self.atoms.THINC_CONTENT)?;
        if let Some((content, _)) = &mut self.fetches.under_way[at].chunks {
            content.extend_from_slice(&chunk.value);
        }
        Ok(())
    }

    /// All of a content is here: in the protocol's form it goes on.
    fn whole(&mut self, at: usize, bytes: &[u8], type_: Atom, bits: u8) -> Result<(), XError> {
        let fetch = &self.fetches.under_way[at];
        let (Purpose::Content { format, .. } | Purpose::Compare { format }) = fetch.purpose else {
            return self.end(at, Err(ClipEnd::Failed));
        };
        let latin1 = type_ == u32::from(AtomEnum::STRING);
        let known = [self.atoms.UTF8_STRING, self.atoms.PLAIN_UTF8, self.atoms.PLAIN];
        let content = match format {
            _ if bits != 8 => None,
            ClipFormat::Text if latin1 => Some(text::text(bytes, Encoding::Latin1)),
            ClipFormat::Text if known.contains(&type_) => Some(text::text(bytes, Encoding::Utf8)),
            // COMPOUND_TEXT, which TEXT may come as, or a file's name.
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

    /// An owner has gone, and what it was sending will not come.
    pub(crate) fn owner_gone(&mut self, owner: Window) {
        let now = Instant::now();
        for fetch in self.fetches.under_way.iter_mut().filter(|fetch| fetch.owner == owner) {
            fetch.deadline = now;
        }
    }

    pub(crate) fn fetch_deadlines(&mut self, now: Instant) -> Result<(), XError> {
        while let Some(at) = self.fetches.under_way.iter().position(|fetch| fetch.deadline <= now) {
            self.end(at, Err(ClipEnd::Failed))?;
        }
        Ok(())
    }
}
