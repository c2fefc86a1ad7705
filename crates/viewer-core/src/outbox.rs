//! Path back: from viewer.rs, to transport.
//! What the viewer still has to say: acknowledgements become one, waiting motions become the newest, keys are never lost.
//! Knows messages and bytes; never the link.

use thinc_protocol::held::Held;
use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::viewer::{
    Ack, Displays, Input, InputEvent, Presented, View, ViewerCaps, ViewerHello, ViewerMessage,
};

/// 64 KiB: beyond this many unsent bytes motions, scrolls and finger moves are dropped: the link stands still, and
/// where the pointer is when it moves again is said by the next motion.
const DROPPABLE_BYTES_MAX: usize = 64 * 1024;
/// 1 MiB: beyond this nothing is taken any more; no person presses that many keys.
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The first message, until it has left.
    hello: Option<ViewerHello>,
    /// What an earlier connection showed: behind everything that decides which picture the session sends.
    held: Option<Held>,
    bytes: Vec<u8>,
    /// Where in `bytes` a motion lies that nothing has followed yet.
    motion_at: Option<usize>,
    ack: Option<Ack>,
    /// Shown since the last acknowledgement went out.
    presented: Option<Presented>,
    /// What is to be shown, and on what: only the newest counts, however fast a wheel turns.
    view: Option<View>,
    displays: Option<Displays>,
    dropped: u64,
}

impl Outbox {
    /// Begins with this.
    pub(crate) fn new(hello: ViewerHello) -> Outbox {
        Outbox { hello: Some(hello), ..Outbox::default() }
    }

    /// An earlier connection showed this; the hello, which has not left yet, says that it follows.
    pub(crate) fn hold(&mut self, held: Held) {
        let hello = self.hello.as_mut().expect("what is held is known before anything is said");
        hello.caps |= ViewerCaps::HELD;
        self.held = Some(held);
    }

    /// Which viewer this is; the hello, which has not left yet, says what that is good for.
    pub(crate) fn name(&mut self, instance: [u8; INSTANCE_BYTES]) {
        let hello = self.hello.as_mut().expect("which viewer it is is known before anything is said");
        hello.caps |= ViewerCaps::TYPED;
        self.push(&ViewerMessage::Instance(instance));
    }

    pub(crate) fn push(&mut self, message: &ViewerMessage) {
        if self.bytes.len() >= BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.motion_at = None;
        message.encode(&mut self.bytes);
    }

    pub(crate) fn push_input(&mut self, input: Input) {
        let droppable = matches!(
            input.event,
            InputEvent::Motion { .. }
                | InputEvent::Scroll { .. }
                | InputEvent::Touch { phase: thinc_protocol::viewer::TouchPhase::Update, .. }
        );
        if droppable && self.bytes.len() >= DROPPABLE_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let motion = matches!(input.event, InputEvent::Motion { .. });
        if let Some(at) = self.motion_at.filter(|_| motion) {
            self.bytes.truncate(at);
        }
        let at = self.bytes.len();
        self.push(&ViewerMessage::Input(input));
        self.motion_at = motion.then_some(at);
    }

    pub(crate) fn set_view(&mut self, view: View) {
        self.view = Some(view);
    }

    pub(crate) fn set_displays(&mut self, displays: Displays) {
        self.displays = Some(displays);
    }

    pub(crate) fn ack(&mut self, update: u64) {
        self.ack = Some(Ack { update, presented: None });
    }

    pub(crate) fn presented(&mut self, newest_applied: u64, presented: Presented) {
        self.ack = Some(Ack { update: newest_applied, presented: None });
        self.presented = Some(presented);
    }

    /// Input events and messages that were not sent because the link stood still.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Appends everything; false when there is nothing. The acknowledgement goes first: it frees the session's budget.
    pub(crate) fn poll(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        self.hello.take().into_iter().for_each(|hello| ViewerMessage::Hello(hello).encode(out));
        if let Some(ack) = self.ack.take() {
            ViewerMessage::Ack(Ack { presented: self.presented.take(), ..ack }).encode(out);
        }
        out.append(&mut self.bytes);
        self.motion_at = None;
        self.displays.take().into_iter().for_each(|displays| ViewerMessage::Displays(displays).encode(out));
        self.view.take().into_iter().for_each(|view| ViewerMessage::View(view).encode(out));
        self.held.take().into_iter().for_each(|held| ViewerMessage::Held(held).encode(out));
        out.len() > before
    }
}
