//! Path beside the pixels, in both directions: from decode.rs and the shell, to outbox.rs.
//! The viewer's end of the files channel and its share of the connection: files are sent behind
//! everything else. Knows messages and when they are sent; their meaning is thinc-files'.

use thinc_files::{Endpoint, FileError, FilesPolicy, Printing};
use thinc_protocol::Micros;
use thinc_protocol::file::FileMessage;
use thinc_protocol::session::{SessionCaps, SessionHello};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};

use crate::outbox::Outbox;

#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) end: Endpoint,
    policy: FilesPolicy,
    /// The session has said that its programs print here.
    prints: bool,
    /// The newest time passed in: chunks are sent right after the event that made room for them.
    now: Micros,
}

impl Files {
    /// An end for a viewer with these capabilities. It sends nothing before the session's hello.
    pub(crate) fn new(caps: u32) -> Files {
        let take = caps & ViewerCaps::FILES != 0;
        let printing = match caps & ViewerCaps::PRINTS {
            0 => Printing::Off,
            _ => Printing::Receives,
        };
        let policy = FilesPolicy { take, give: false, printing, ..FilesPolicy::default() };
        Files { end: Endpoint::new(policy), policy, prints: false, now: 0 }
    }

    pub(crate) fn handle_hello(&mut self, hello: &SessionHello) {
        self.policy.give = hello.caps & SessionCaps::FILES != 0;
        self.end.set_policy(self.policy);
        let takes = self.policy.printing == Printing::Receives;
        self.prints = takes && hello.caps & SessionCaps::PRINTS != 0;
    }

    /// The session has said that it takes files.
    pub(crate) fn gives(&self) -> bool {
        self.policy.give
    }

    /// The session may offer what its programs print.
    pub(crate) fn prints(&self) -> bool {
        self.prints
    }

    pub(crate) fn handle(&mut self, message: &FileMessage, now: Micros) -> Result<(), FileError> {
        self.now = self.now.max(now);
        self.end.handle(message, now)
    }

    pub(crate) fn timeout(&mut self, now: Micros) {
        self.now = self.now.max(now);
        self.end.handle_timeout(now);
    }

    /// The end, for what the shell does with it now.
    pub(crate) fn end(&mut self, now: Micros) -> &mut Endpoint {
        self.now = self.now.max(now);
        &mut self.end
    }

    /// Queues answers, in order with input.
    pub(crate) fn poll_control(&mut self, outbox: &mut Outbox) {
        while let Some(message) = self.end.poll_control() {
            outbox.push(&ViewerMessage::File(message));
        }
    }

    /// Appends what may be sent of offers and contents; true if there was any. It is only as much
    /// as keeps the path busy, so that user input queues behind few bytes.
    pub(crate) fn poll_pieces(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        while let Some(message) = self.end.poll_piece(usize::MAX, self.now) {
            ViewerMessage::File(message).encode(out);
        }
        out.len() > before
    }
}
