//! Path back: from viewer.rs, to transport.
//! Messages that wait to be sent: acknowledgements are merged, queued positions are replaced by the
//! newest, and queued distances are added. Keys are kept until 1 MiB is unsent; past that, every
//! message is dropped and counted. Knows messages and bytes; never the network.

use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::pen::PenSample;
use thinc_protocol::retained::RetainedTiles;
use thinc_protocol::viewer::{
    Ack, Displays, Input, InputEvent, Presented, View, ViewerCaps, ViewerHello, ViewerMessage,
};

/// 64 KiB: with more unsent bytes, motions, scrolls, touch updates and samples of a pen that press
/// and release nothing are dropped. The path is stalled: a stroke gets straighter, and ends where
/// it ended.
const DROPPABLE_BYTES_MAX: usize = 64 * 1024;
/// 1 MiB: with more unsent bytes every message is dropped; no person presses that many keys.
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The first message, until it is sent.
    hello: Option<ViewerHello>,
    /// Tiles retained from an earlier connection; sent behind all messages that decide what the
    /// session sends.
    retained_tiles: Option<RetainedTiles>,
    bytes: Vec<u8>,
    /// A motion that is still the last message, and its offset in `bytes`.
    motion: Option<(usize, InputEvent)>,
    /// The newest sample of the pen that was queued.
    pen: Option<PenSample>,
    ack: Option<Ack>,
    /// Presented since the last acknowledgement was sent.
    presented: Option<Presented>,
    /// The newest view and displays; older ones that were not sent are dropped.
    view: Option<View>,
    displays: Option<Displays>,
    dropped: u64,
}

impl Outbox {
    /// An outbox whose first message is this hello.
    pub(crate) fn new(hello: ViewerHello) -> Outbox {
        Outbox { hello: Some(hello), ..Outbox::default() }
    }

    /// Announces tiles retained from an earlier connection; sets the capability in the hello, which
    /// has not been sent yet.
    pub(crate) fn set_retained_tiles(&mut self, tiles: RetainedTiles) {
        let hello = self.hello.as_mut().expect("retained tiles are set before the hello is sent");
        hello.caps |= ViewerCaps::RETAINED;
        self.retained_tiles = Some(tiles);
    }

    /// Sends the viewer's instance number; sets the capability in the hello, which has not been
    /// sent yet.
    pub(crate) fn set_instance(&mut self, instance: [u8; INSTANCE_BYTES]) {
        let hello = self.hello.as_mut().expect("the instance is set before the hello is sent");
        hello.caps |= ViewerCaps::RESUME_INPUT;
        self.push(&ViewerMessage::Instance(instance));
    }

    pub(crate) fn push(&mut self, message: &ViewerMessage) {
        if self.bytes.len() >= BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.motion = None;
        message.encode(&mut self.bytes);
    }

    /// Queues an input. A distance that follows another one which was not sent is added to it: the
    /// sum has this input's number, and is returned.
    pub(crate) fn push_input(&mut self, input: Input) -> Option<InputEvent> {
        let droppable = matches!(
            input.event,
            InputEvent::Motion { .. }
                | InputEvent::Scroll { .. }
                | InputEvent::Touch { phase: thinc_protocol::viewer::TouchPhase::Update, .. }
        ) || matches!(
            input.event,
            InputEvent::Pen(sample) if self.pen.is_some_and(|before| sample.has_state_of(&before))
        );
        if droppable && self.bytes.len() >= DROPPABLE_BYTES_MAX {
            self.dropped += 1;
            return None;
        }
        match input.event {
            InputEvent::Pen(sample) => self.pen = Some(sample),
            InputEvent::ReleaseAll => self.pen = None,
            _ => {}
        }
        let sum = self.motion.and_then(|(_, before)| sum(before, input.event));
        let is_position = |event| matches!(event, InputEvent::Motion { .. });
        if let Some((at, before)) = self.motion
            && (sum.is_some() || is_position(before) && is_position(input.event))
        {
            self.bytes.truncate(at);
        }
        let (at, event) = (self.bytes.len(), sum.unwrap_or(input.event));
        self.push(&ViewerMessage::Input(Input { event, ..input }));
        self.motion = matches!(event, InputEvent::Motion { .. } | InputEvent::MotionBy { .. })
            .then_some((at, event));
        sum
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

    /// Count of input events and messages dropped because the path was stalled.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Appends everything to send; false if there is nothing. The acknowledgement comes first: it
    /// frees the session's budget.
    pub(crate) fn poll(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        self.hello.take().into_iter().for_each(|hello| ViewerMessage::Hello(hello).encode(out));
        if let Some(ack) = self.ack.take() {
            ViewerMessage::Ack(Ack { presented: self.presented.take(), ..ack }).encode(out);
        }
        out.append(&mut self.bytes);
        self.motion = None;
        self.displays
            .take()
            .into_iter()
            .for_each(|displays| ViewerMessage::Displays(displays).encode(out));
        self.view.take().into_iter().for_each(|view| ViewerMessage::View(view).encode(out));
        self.retained_tiles
            .take()
            .into_iter()
            .for_each(|tiles| ViewerMessage::RetainedTiles(tiles).encode(out));
        out.len() > before
    }
}

/// The sum of two distances, if it has a place in a message.
fn sum(one: InputEvent, two: InputEvent) -> Option<InputEvent> {
    let (InputEvent::MotionBy { dx, dy }, InputEvent::MotionBy { dx: more_x, dy: more_y }) =
        (one, two)
    else {
        return None;
    };
    Some(InputEvent::MotionBy { dx: dx.checked_add(more_x)?, dy: dy.checked_add(more_y)? })
}
