//! Path back, and 10/13: under viewer.rs, from session/input.rs, to a message that follows HELLO on
//! a viewer's next connection.
//! Which input of a viewer was received, so that a viewer that reconnects sends the rest, and
//! nothing twice. Knows numbers; never what was typed. The shell knows which viewer
//! has reconnected.

use thinc_protocol::Micros;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::ViewerCaps;

use super::Viewer;

/// Which input of a viewer was received.
#[derive(Debug)]
pub(super) struct ReceivedInput {
    /// The viewer wants to know.
    wanted: bool,
    /// The viewer has not identified itself yet, and nothing is sent until then.
    awaits_instance: bool,
    /// The number that is still to be sent.
    unsent: Option<u32>,
    /// The newest input received, on any connection.
    last: u32,
}

impl ReceivedInput {
    pub(super) fn new(caps: u32) -> ReceivedInput {
        let wanted = caps & ViewerCaps::RESUME_INPUT != 0;
        ReceivedInput { wanted, awaits_instance: wanted, unsent: None, last: 0 }
    }
}

impl Viewer {
    /// The shell has identified the viewer; earlier connections, if any, received this much input.
    pub(crate) fn set_input_received(&mut self, received: Option<u32>) {
        let input = &mut self.retained.input;
        input.awaits_instance = false;
        input.unsent = received.filter(|_| input.wanted);
        input.last = received.unwrap_or(input.last);
    }

    /// This input was received, and all before it.
    pub(crate) fn take_input(&mut self, input: u32) {
        self.retained.input.last = input;
    }

    /// The newest input received.
    pub(crate) fn input_received(&self) -> u32 {
        self.retained.input.last
    }

    /// Sent directly after the hello.
    pub(super) fn transmit_input_received(&mut self, out: &mut Vec<u8>) {
        self.retained
            .input
            .unsent
            .take()
            .into_iter()
            .for_each(|input| SessionMessage::InputReceived(input).encode(out));
    }

    /// True until the viewer has identified itself.
    pub(super) fn awaits_instance(&self) -> bool {
        self.retained.input.awaits_instance
    }

    /// True while only the hello and the received input are sent, until the viewer has reported its
    /// retained tiles and its identity.
    pub(super) fn awaits_resumption(&mut self, now: Micros) -> bool {
        self.awaits_retained(now) || self.awaits_instance()
    }
}
