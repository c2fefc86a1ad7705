//! Path 10/13: under viewer.rs, from session.rs, to the messages that go before updates.
//! A viewer's hello, geometry, cursor and what else waits beside updates; of what is replaceable
//! only the newest waits. Knows messages; never updates or sockets.

use std::collections::VecDeque;

use thinc_protocol::limits::{NAME_BYTES_MAX, PINGS_MAX, VIEWER_MESSAGE_BYTES_MAX};
use thinc_protocol::session::{
    CacheGrant, Close, CloseCode, SessionCaps, SessionHello, SessionMessage,
};
use thinc_protocol::viewer::{ViewerCaps, ViewerHello};
use thinc_protocol::{Micros, VERSION};
use thinc_region::Rect;

use super::{SessionContext, Viewer};
use crate::input::pointer::CursorChanges;
use crate::quality::{LossyPolicy, VideoPolicy};

/// What waits of one viewer's.
#[derive(Debug)]
pub(super) struct Control {
    version: u16,
    /// The viewer draws the cursor.
    local_cursor: bool,
    hello: bool,
    /// The geometry is to be sent, again or for the first time.
    pub(super) geometry: bool,
    /// The newest arrangement that was not sent.
    displays: Option<Vec<Rect>>,
    cache: Option<CacheGrant>,
    pub(super) cursor: CursorChanges,
    pongs: VecDeque<u32>,
    close: Option<(CloseCode, String)>,
    is_closed: bool,
}

impl Control {
    /// For a viewer that has said this: the hello, the geometry and the cursor.
    pub(super) fn new(hello: &ViewerHello) -> Control {
        let mut control = Control {
            version: hello.version.min(VERSION),
            local_cursor: hello.caps & ViewerCaps::LOCAL_CURSOR != 0,
            hello: true,
            geometry: true,
            displays: None,
            cache: None,
            cursor: CursorChanges::all(),
            pongs: VecDeque::new(),
            close: None,
            is_closed: false,
        };
        if hello.version == 0 {
            control.close(
                CloseCode::Version,
                "protocol version 0 does not exist; this session speaks 1",
            );
        }
        control
    }

    /// Ends the connection once this was sent; the first reason counts.
    pub(super) fn close(&mut self, code: CloseCode, reason: &str) {
        self.close.get_or_insert_with(|| (code, reason.to_owned()));
    }

    /// The reason waits to be sent.
    pub(super) fn is_closing(&self) -> bool {
        self.close.is_some()
    }

    /// The reason was sent, and nothing follows it.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn set_displays(&mut self, displays: impl Iterator<Item = Rect>) {
        self.displays = Some(displays.collect());
    }

    pub(super) fn grant_cache(&mut self, grant: CacheGrant) {
        self.cache = Some(grant);
    }

    /// Answers a ping. Of more than a viewer may have open, the oldest gets no answer.
    pub(super) fn pong(&mut self, number: u32) {
        if self.pongs.len() == PINGS_MAX {
            self.pongs.pop_front();
        }
        self.pongs.push_back(number);
    }

    /// Displays, cache and pongs. The cache is before the first update that fills it, which is
    /// planned after the grant.
    fn transmit_answers(&mut self, out: &mut Vec<u8>) {
        if let Some(displays) = self.displays.take() {
            SessionMessage::Displays(displays).encode(out);
        }
        if let Some(grant) = self.cache.take() {
            SessionMessage::Cache(grant).encode(out);
        }
        while let Some(number) = self.pongs.pop_front() {
            SessionMessage::Pong(number).encode(out);
        }
    }

    /// The reason for the end, if there is one: then nothing follows.
    pub(super) fn transmit_close(&mut self, out: &mut Vec<u8>) -> bool {
        let Some((code, reason)) = self.close.take() else { return false };
        SessionMessage::Close(Close { code, reason: &reason }).encode(out);
        self.is_closed = true;
        true
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.pongs.len() <= PINGS_MAX, "at most {PINGS_MAX} pongs wait");
    }
}

impl Viewer {
    /// Appends what goes before updates.
    pub(super) fn transmit_control(
        &mut self,
        screen: &SessionContext<'_>,
        now: Micros,
        out: &mut Vec<u8>,
    ) {
        if std::mem::take(&mut self.control.hello) {
            self.transmit_hello(screen, out);
        }
        self.transmit_input_received(out);
        if self.awaits_resumption(now) {
            return;
        }
        if std::mem::take(&mut self.control.geometry) {
            let geometry = self.geometry(screen);
            SessionMessage::Geometry(geometry).encode(out);
            let part = geometry.shown.map_or(geometry.size.rect(), |shown| shown.part);
            self.first_geometry(geometry.size, part);
        }
        self.control.transmit_answers(out);
        // Cursor and colours are replaceable: while the path is full, the newest wait here.
        let is_path_free = self.delivery.flow.may_send_real_time(now);
        if is_path_free {
            self.told.gamma.transmit(screen.gamma, out);
        }
        if self.control.local_cursor && is_path_free {
            self.control.cursor.transmit(screen.pointer, out);
        }
        self.told.transmit(screen.pointer.relative.is_wanted(), is_path_free, out);
        self.transmit_microphone(out);
        self.transmit_background_control(out);
    }

    fn transmit_hello(&self, screen: &SessionContext<'_>, out: &mut Vec<u8>) {
        let mut name = screen.name.to_owned();
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        let clipboard = if screen.clipboard.take { SessionCaps::CLIPBOARD } else { 0 };
        let relative = if self.told.relative.is_some() { SessionCaps::RELATIVE } else { 0 };
        let files = self.rights.files_caps(screen.files, self.channels.background.caps());
        let may_be_lossy = screen.lossy != LossyPolicy::Never;
        let quality = if may_be_lossy { SessionCaps::QUALITY } else { 0 };
        let sound = self.sound_caps() | self.microphone_caps();
        let input = relative | SessionCaps::PEN;
        let stereo = if screen.video == VideoPolicy::Off {
            0
        } else {
            SessionCaps::STEREO | SessionCaps::VIDEO_CODECS
        };
        let hello = SessionHello {
            version: self.control.version,
            caps: clipboard | input | self.datagram_caps() | sound | files | quality | stereo,
            name,
            message_bytes_max: VIEWER_MESSAGE_BYTES_MAX as u32,
        };
        SessionMessage::Hello(hello).encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hello;
    use super::*;

    fn control(version: u16) -> Control {
        Control::new(&ViewerHello { version, ..hello(0) })
    }

    /// What `transmit` appends.
    fn sent(transmit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        transmit(&mut out);
        out
    }

    fn encoded(messages: &[SessionMessage<'_>]) -> Vec<u8> {
        sent(|out| messages.iter().for_each(|message| message.encode(out)))
    }

    #[test]
    fn of_too_many_pings_the_oldest_get_no_answer() {
        let mut control = control(1);
        let pings = 0..PINGS_MAX as u32 + 2;
        pings.clone().for_each(|number| control.pong(number));
        control.check_invariants();
        let answered: Vec<_> = pings.skip(2).map(SessionMessage::Pong).collect();
        assert_eq!(sent(|out| control.transmit_answers(out)), encoded(&answered));
        assert_eq!(sent(|out| control.transmit_answers(out)), [], "each is answered once");
    }

    #[test]
    fn of_two_arrangements_only_the_newest_is_sent() {
        let mut control = control(1);
        control.set_displays([Rect::at(0, 0, 8, 8)].into_iter());
        control.set_displays([Rect::at(0, 0, 9, 9)].into_iter());
        let newest = SessionMessage::Displays(vec![Rect::at(0, 0, 9, 9)]);
        assert_eq!(sent(|out| control.transmit_answers(out)), encoded(&[newest]));
    }

    #[test]
    fn the_first_reason_for_the_end_is_sent_once() {
        let mut control = control(1);
        assert_eq!(sent(|out| assert!(!control.transmit_close(out))), []);
        control.close(CloseCode::SessionEnded, "first");
        control.close(CloseCode::Protocol, "second");
        assert!(control.is_closing() && !control.is_closed());
        let close = SessionMessage::Close(Close { code: CloseCode::SessionEnded, reason: "first" });
        assert_eq!(sent(|out| assert!(control.transmit_close(out))), encoded(&[close]));
        assert!(control.is_closed() && !control.is_closing());
    }

    #[test]
    fn version_0_ends_the_connection() {
        assert!(control(0).is_closing() && !control(1).is_closing());
    }
}
