//! Path back: beside viewer.rs, from one connection's input, to the next connection.
//! Input that may not have reached the session. When the session has reported the last input that
//! it took, the rest is sent in order and once, or not at all. Knows input and its sequence
//! numbers; never bytes.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::limits::PINGS_MAX;
use thinc_protocol::pen::PenSample;
use thinc_protocol::viewer::{InputEvent, TouchPhase};

/// 1024 events: twice what a person types in the longest outage. Beyond it nothing is sent: part of
/// a shell command is worse than none.
const EVENTS_MAX: usize = 1024;
/// 512 distances and samples of a pen, half a second of the fastest mice and two of a pen: the
/// oldest is not sent again, so that motion takes no place of keys. Samples that press or release
/// stay.
const MOTIONS_MAX: usize = 512;
/// 30 s: if the oldest key is older, nothing is sent; the user has moved on.
const AGE_MAX: Micros = 30_000_000;
/// 16: most modifiers tracked as down.
const MODIFIERS_MAX: usize = 16;

/// One logged input event.
#[derive(Clone, Copy, Debug)]
struct Logged {
    seq: u32,
    event: InputEvent,
    at: Micros,
}

/// Input that may not have reached the session, and the modifiers it depends on.
#[derive(Debug, Default)]
pub(crate) struct UnackedInput {
    /// Oldest first.
    log: VecDeque<Logged>,
    /// Modifiers that were down before the first logged event: code and keysym.
    modifiers: Vec<(u16, u32)>,
    /// The pen before the first logged event.
    pen: PenSample,
    /// The pen's buttons in the newest sample that was made, whether or not it was logged.
    pen_made: u8,
    /// The pen's buttons that were pressed on an earlier connection, with which the session has
    /// released them: samples do not press them again until one had them released.
    pen_released: u8,
    /// Pings in flight, each with the newest input sent before it.
    pings: VecDeque<(u32, u32)>,
    /// A bound was exceeded at this input: nothing is resent until it has arrived.
    discarded_at: Option<u32>,
    /// The log of an earlier connection is here and its fate is unknown; new input queues behind
    /// it.
    inherited: bool,
    /// A page that was loaded earlier may have sent input under the same instance number.
    reloaded: bool,
    /// The session's first message after its hello has arrived.
    settled: bool,
    /// First input made while this connection was visibly up: it is sent even if older input is
    /// not.
    live_from: Option<u32>,
    /// Events to send now, each with the time it was made.
    due: Vec<(InputEvent, Micros)>,
}

impl UnackedInput {
    /// Moves the log to the next connection, where the fate of each event is not yet known.
    pub(crate) fn take_over(&mut self) -> UnackedInput {
        let UnackedInput {
            log,
            modifiers,
            pen,
            pen_made,
            pen_released,
            discarded_at,
            reloaded,
            settled,
            ..
        } = std::mem::take(self);
        UnackedInput {
            log,
            modifiers,
            pen,
            pen_made,
            pen_released,
            discarded_at,
            inherited: true,
            reloaded: reloaded && !settled,
            ..UnackedInput::default()
        }
    }

    /// The page was reloaded: this program has sent no input under its instance number, so input
    /// waits until the session has reported the last one it took.
    pub(crate) fn set_reloaded(&mut self) {
        (self.inherited, self.reloaded) = (true, true);
    }

    /// Numbering continues from the session's report: queued input has not been sent under its
    /// numbers.
    pub(crate) fn adopts_numbering(&self) -> bool {
        self.reloaded && self.waits()
    }

    /// New input waits until the session has reported the last input that it took.
    pub(crate) fn waits(&self) -> bool {
        self.inherited && !self.settled
    }

    /// This input was made while the connection was visibly up.
    pub(crate) fn handle_live(&mut self, seq: u32) {
        if self.waits() {
            self.live_from.get_or_insert(seq);
        }
    }

    /// Notes an input as it was made. True if it presses the pen's tip or a button of it.
    pub(crate) fn handle_made(&mut self, event: &InputEvent) -> bool {
        let before = self.pen_made;
        match event {
            InputEvent::Pen(sample) => self.pen_made = sample.buttons,
            InputEvent::ReleaseAll => self.pen_made = 0,
            _ => {}
        }
        self.pen_made & !before != 0
    }

    /// The event without the pen's buttons that the session has released with an earlier
    /// connection.
    pub(crate) fn without_released(&mut self, event: InputEvent) -> InputEvent {
        let InputEvent::Pen(mut sample) = event else { return event };
        self.pen_released &= sample.buttons;
        sample.buttons &= !self.pen_released;
        if self.pen_released & 1 != 0 {
            sample.pressure = 0;
        }
        InputEvent::Pen(sample)
    }

    /// Logs an event, which may not have arrived until an acknowledgement proves it.
    pub(crate) fn push(&mut self, seq: u32, event: InputEvent, at: Micros, now: Micros) {
        let logged = Logged { seq, event, at };
        if self.log.back().is_some_and(|last| self.replaces(&event, &last.event)) {
            self.log.pop_back();
            self.log.push_back(logged);
            return;
        }
        let is_motion = |logged: &Logged| {
            matches!(logged.event, InputEvent::MotionBy { .. } | InputEvent::Pen(_))
        };
        if is_motion(&logged)
            && self.log.len() >= MOTIONS_MAX
            && self.log.iter().filter(|logged| is_motion(logged)).count() >= MOTIONS_MAX
            && let Some(oldest) = self.oldest_motion()
        {
            self.log.remove(oldest);
        }
        if self.log.len() >= EVENTS_MAX || self.is_old(now) {
            self.discard(seq);
        }
        self.log.push_back(logged);
    }

    /// Only the newer of the two matters: positions, and a pen over the tablet, unless the older
    /// one has lifted its tip, which it did where it was.
    fn replaces(&self, event: &InputEvent, last: &InputEvent) -> bool {
        match (event, last) {
            (InputEvent::Motion { .. }, InputEvent::Motion { .. }) => true,
            (InputEvent::Pen(pen), InputEvent::Pen(last)) => {
                let mut samples = self.log.iter().rev().filter_map(|logged| match logged.event {
                    InputEvent::Pen(sample) => Some(sample),
                    _ => None,
                });
                let before = samples.nth(1).unwrap_or(self.pen);
                pen.near && before.buttons == 0 && last.buttons == 0 && pen.has_state_of(last)
            }
            _ => false,
        }
    }

    /// The oldest distance, or sample of a pen that only moves it.
    fn oldest_motion(&self) -> Option<usize> {
        let mut pen = self.pen;
        self.log.iter().position(|logged| match logged.event {
            InputEvent::MotionBy { .. } => true,
            InputEvent::Pen(sample) => sample.has_state_of(&std::mem::replace(&mut pen, sample)),
            InputEvent::ReleaseAll => {
                pen = pen.leaving();
                false
            }
            _ => false,
        })
    }

    /// This distance includes the newest one of the log, which has not been sent.
    pub(crate) fn replace_motion(&mut self, seq: u32, sum: InputEvent, at: Micros) {
        let newest = self.log.pop_back();
        assert!(
            newest.is_none_or(|newest| matches!(newest.event, InputEvent::MotionBy { .. })),
            "only distances are added"
        );
        self.log.push_back(Logged { seq, event: sum, at });
    }

    /// Discards the log: nothing up to this input is resent.
    pub(crate) fn discard(&mut self, seq: u32) {
        self.discarded_at = Some(seq);
        while let Some(logged) = self.log.pop_front() {
            self.track(logged.event);
        }
    }

    /// Input made now would be sent by the next connection.
    pub(crate) fn can_resend(&self, now: Micros) -> bool {
        self.discarded_at.is_none() && !self.is_old(now)
    }

    fn is_old(&self, now: Micros) -> bool {
        let is_typed =
            |logged: &&Logged| matches!(logged.event, InputEvent::Key { .. } | InputEvent::Char(_));
        self.log.iter().find(is_typed).is_some_and(|oldest| now.saturating_sub(oldest.at) > AGE_MAX)
    }

    /// The log holds a press of this button, finger or pen without its release.
    pub(crate) fn is_pressed(&self, event: &InputEvent) -> bool {
        self.log.iter().rev().find_map(|logged| phase_of(event, &logged.event)).unwrap_or(false)
    }

    /// A ping was sent; `seq` was the newest input before it.
    pub(crate) fn pinged(&mut self, number: u32, seq: u32) {
        if self.waits() {
            return; // the waiting input has not been sent before it
        }
        if self.pings.len() == PINGS_MAX {
            self.pings.pop_front();
        }
        self.pings.push_back((number, seq));
    }

    /// The ping was answered: the stream is ordered, so all input before it has arrived.
    pub(crate) fn ponged(&mut self, number: u32) {
        let Some(at) = self.pings.iter().position(|&(pinged, _)| pinged == number) else { return };
        let (_, seq) =
            self.pings.drain(..=at).next_back().expect("the range holds the ping that was found");
        self.arrived(seq);
    }

    fn arrived(&mut self, seq: u32) {
        while let Some(logged) = self.log.pop_front_if(|logged| !is_after(logged.seq, seq)) {
            self.track(logged.event);
        }
        self.discarded_at = self.discarded_at.filter(|&discarded_at| is_after(discarded_at, seq));
    }

    /// The session reports that it took this input and none after it, on whatever connection. False
    /// if the report is invalid or comes at the wrong time.
    pub(crate) fn handle_received(&mut self, seq: u32, newest: u32, now: Micros) -> bool {
        if self.settled || is_after(seq, newest) {
            return false;
        }
        if !self.reloaded {
            self.arrived(seq);
        }
        if self.inherited && self.can_resend(now) {
            self.settled = true;
            self.release_pen();
            let modifiers = self
                .modifiers
                .drain(..)
                .map(|(code, keysym)| (InputEvent::Key { code, keysym, down: true }, now));
            self.due.extend(modifiers);
            self.extend_due();
            self.release_pressed(now);
        } else {
            self.handle_no_report();
        }
        true
    }

    /// The session does not report, or it is too late: input inherited from earlier connections is
    /// dropped.
    pub(crate) fn handle_no_report(&mut self) {
        if std::mem::replace(&mut self.settled, true) || !self.inherited {
            return;
        }
        let live = self.live_from.take();
        let is_live = |logged: &Logged| live.is_some_and(|live| !is_after(live, logged.seq));
        while let Some(dropped) = self.log.pop_front_if(|logged| !is_live(logged)) {
            self.track(dropped.event);
        }
        self.release_pen();
        self.extend_due();
        self.modifiers.clear();
        self.discarded_at = None;
    }

    /// The session has released the pen with the connection on which the events before the log were
    /// made.
    fn release_pen(&mut self) {
        self.pen_released |= self.pen.buttons;
        self.pen = self.pen.leaving();
    }

    /// All of the log is due.
    fn extend_due(&mut self) {
        while let Some(logged) = self.log.pop_front() {
            let event = self.without_released(logged.event);
            self.due.push((event, logged.at));
        }
    }

    /// Adds releases for buttons, fingers and a pen whose presses are resent and whose releases
    /// were not logged.
    fn release_pressed(&mut self, now: Micros) {
        let mut pressed: Vec<InputEvent> = Vec::new();
        for (event, _) in &self.due {
            pressed.retain(|other| phase_of(other, event).is_none());
            match *event {
                InputEvent::Button { button, down: true } => {
                    pressed.push(InputEvent::Button { button, down: false })
                }
                InputEvent::Touch { id, phase: TouchPhase::Begin | TouchPhase::Update, x, y } => {
                    pressed.push(InputEvent::Touch { id, phase: TouchPhase::End, x, y });
                }
                InputEvent::Pen(sample) if sample.buttons != 0 => {
                    pressed.push(InputEvent::Pen(sample.leaving()));
                }
                _ => {}
            }
        }
        self.due.extend(pressed.into_iter().map(|event| (event, now)));
    }

    /// Takes the events to send now, in order, each with the time it was made.
    pub(crate) fn take_due(&mut self) -> Vec<(InputEvent, Micros)> {
        std::mem::take(&mut self.due)
    }

    /// Applies an event that leaves the log to the modifiers and the pen before the log.
    fn track(&mut self, event: InputEvent) {
        match event {
            InputEvent::Key { code, keysym, down } if is_modifier(code, keysym) => {
                self.modifiers
                    .retain(|&(of, was)| if code != 0 { of != code } else { was != keysym });
                if down && self.modifiers.len() < MODIFIERS_MAX {
                    self.modifiers.push((code, keysym));
                }
            }
            InputEvent::Pen(sample) => self.pen = sample,
            InputEvent::ReleaseAll => {
                self.modifiers.clear();
                self.pen = self.pen.leaving();
            }
            _ => {}
        }
    }
}

/// Input numbers wrap around.
fn is_after(seq: u32, other: u32) -> bool {
    seq.wrapping_sub(other).cast_signed() > 0
}

/// Whether `event` presses (true) or releases the button, finger or pen of `of`; None if it
/// concerns none of them.
fn phase_of(of: &InputEvent, event: &InputEvent) -> Option<bool> {
    match (of, event) {
        (InputEvent::Button { button, .. }, InputEvent::Button { button: other, down })
            if button == other =>
        {
            Some(*down)
        }
        (InputEvent::Touch { id, .. }, InputEvent::Touch { id: other, phase, .. })
            if id == other =>
        {
            Some(*phase != TouchPhase::End)
        }
        (InputEvent::Pen(_), InputEvent::Pen(sample)) => Some(sample.buttons != 0),
        (_, InputEvent::ReleaseAll) => Some(false),
        _ => None,
    }
}

/// Shift, Control, Alt, Super and similar, by keysym, or by key code if the keysym is unknown; no
/// lock keys.
fn is_modifier(code: u16, keysym: u32) -> bool {
    match keysym {
        0 => matches!(code, 29 | 42 | 54 | 56 | 97 | 100 | 125 | 126),
        // Shift_L to Control_R, Meta_L to Hyper_R, ISO_Level3_Shift, Mode_switch.
        _ => matches!(keysym, 0xffe1..=0xffe4 | 0xffe7..=0xffee | 0xfe03 | 0xff7e),
    }
}
