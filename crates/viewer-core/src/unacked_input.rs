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
/// oldest is not sent again, so that motion takes no place of keys.
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
        let UnackedInput { log, modifiers, discarded_at, reloaded, settled, .. } =
            std::mem::take(self);
        UnackedInput {
            log,
            modifiers,
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

    /// Logs an event, which may not have arrived until an acknowledgement proves it.
    pub(crate) fn push(&mut self, seq: u32, event: InputEvent, at: Micros, now: Micros) {
        let logged = Logged { seq, event, at };
        if let Some(last) = self.log.back_mut().filter(|last| replaces(&event, &last.event)) {
            *last = logged;
            return;
        }
        let is_motion = |logged: &Logged| {
            matches!(logged.event, InputEvent::MotionBy { .. } | InputEvent::Pen(_))
        };
        if is_motion(&logged)
            && self.log.len() >= MOTIONS_MAX
            && self.log.iter().filter(|logged| is_motion(logged)).count() >= MOTIONS_MAX
        {
            let oldest = self.log.iter().position(is_motion).expect("there are that many");
            self.log.remove(oldest);
        }
        if self.log.len() >= EVENTS_MAX || self.is_old(now) {
            self.discard(seq);
        }
        self.log.push_back(logged);
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
            self.track_modifiers(logged.event);
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
            self.track_modifiers(logged.event);
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
            let modifiers = self
                .modifiers
                .drain(..)
                .map(|(code, keysym)| (InputEvent::Key { code, keysym, down: true }, now));
            self.due.extend(modifiers);
            self.due.extend(self.log.drain(..).map(|logged| (logged.event, logged.at)));
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
        self.log.retain(|logged| live.is_some_and(|live| !is_after(live, logged.seq)));
        self.due.extend(self.log.drain(..).map(|logged| (logged.event, logged.at)));
        self.modifiers.clear();
        self.discarded_at = None;
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

    /// Applies an event that leaves the log to the modifiers before the log.
    fn track_modifiers(&mut self, event: InputEvent) {
        match event {
            InputEvent::Key { code, keysym, down } if is_modifier(code, keysym) => {
                self.modifiers
                    .retain(|&(of, was)| if code != 0 { of != code } else { was != keysym });
                if down && self.modifiers.len() < MODIFIERS_MAX {
                    self.modifiers.push((code, keysym));
                }
            }
            InputEvent::ReleaseAll => self.modifiers.clear(),
            _ => {}
        }
    }
}

/// Input numbers wrap around.
fn is_after(seq: u32, other: u32) -> bool {
    seq.wrapping_sub(other).cast_signed() > 0
}

/// Only the newer of the two matters: positions, and a pen over the tablet.
fn replaces(event: &InputEvent, last: &InputEvent) -> bool {
    match (event, last) {
        (InputEvent::Motion { .. }, InputEvent::Motion { .. }) => true,
        (InputEvent::Pen(pen), InputEvent::Pen(before)) => {
            let hovers = |pen: &PenSample| pen.near && pen.buttons == 0;
            hovers(pen) && hovers(before) && pen.eraser == before.eraser
        }
        _ => false,
    }
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
