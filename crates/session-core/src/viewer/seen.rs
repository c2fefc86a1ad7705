//! Path back, and 9/13: under viewer.rs, from session/input.rs, to the first words of a viewer's next connection.
//! Which of its input was taken, so that a viewer that comes back says the rest and nothing twice.
//! Knows numbers; never what was typed, nor which viewer comes back: that is the shell's.

use thinc_protocol::Micros;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::ViewerCaps;

use super::Viewer;

/// What was taken of a viewer's input.
#[derive(Debug)]
pub(super) struct Seen {
    /// It wants to know.
    wanted: bool,
    /// It has yet to say which viewer it is, and nothing is sent until then.
    awaits_name: bool,
    /// To be said.
    news: Option<u32>,
    /// The newest, on whatever connection.
    last: u32,
}

impl Seen {
    pub(super) fn new(caps: u32) -> Seen {
        let wanted = caps & ViewerCaps::TYPED != 0;
        Seen { wanted, awaits_name: wanted, news: None, last: 0 }
    }
}

impl Viewer {
    /// Which viewer it is, is known; so much was taken of it on earlier connections, where there were any.
    pub(crate) fn set_seen(&mut self, seen: Option<u32>) {
        let of = &mut self.held.seen;
        of.awaits_name = false;
        of.news = seen.filter(|_| of.wanted);
        of.last = seen.unwrap_or(of.last);
    }

    /// This input was taken, and all before it.
    pub(crate) fn saw(&mut self, input: u32) {
        self.held.seen.last = input;
    }

    /// The newest that was taken.
    pub(crate) fn seen(&self) -> u32 {
        self.held.seen.last
    }

    /// Directly behind the hello.
    pub(super) fn transmit_seen(&mut self, out: &mut Vec<u8>) {
        self.held.seen.news.take().into_iter().for_each(|input| SessionMessage::Seen(input).encode(out));
    }

    /// True while it is waited for which viewer it is.
    pub(super) fn waits_for_name(&self) -> bool {
        self.held.seen.awaits_name
    }

    /// True while nothing but the hello, and what was taken, is sent: it is waited for what it shows, or for which viewer it is.
    pub(super) fn says_nothing_yet(&mut self, now: Micros) -> bool {
        self.waits_for_held(now) || self.waits_for_name()
    }
}
