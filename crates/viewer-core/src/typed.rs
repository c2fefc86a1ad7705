//! Path back: beside viewer.rs, from what a person did on one connection, to the next.
//! What was typed and may not have arrived: all of it is sent when the session has said what it took, in order and once, or none.
//! Knows input and its numbers; never bytes.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::limits::PINGS_MAX;
use thinc_protocol::viewer::{InputEvent, TouchPhase};

/// 1024: what a person types in the longest outage, twice over. Past it nothing is sent: a command with a piece missing is worse
/// than none.
const EVENTS_MAX: usize = 1024;
/// 30 s: older keys are not sent any more: whoever typed them has done something else since.
const AGE_MAX: Micros = 30_000_000;
/// Modifiers that count as down; no hand holds more.
const MODIFIERS_MAX: usize = 16;

/// One thing that a person did.
#[derive(Clone, Copy, Debug)]
struct Typing {
    seq: u32,
    event: InputEvent,
    at: Micros,
}

/// What may not have arrived, and what it stands on.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    /// Oldest first.
    log: VecDeque<Typing>,
    /// Modifiers that were down before the first of them: code and keysym.
    base: Vec<(u16, u32)>,
    /// The pings on their way, and the newest input that was said before each.
    pings: VecDeque<(u32, u32)>,
    /// A bound was passed at this input: nothing is sent again before it has arrived.
    spoilt: Option<u32>,
    /// An earlier connection's log is here, and its fate is not known: what is typed waits behind it.
    lies_over: bool,
    /// The session may have counted input of this viewer's number that a program before this one said.
    anew: bool,
    /// The session's first message behind its hello has come.
    settled: bool,
    /// The first that was typed with this connection in sight: of what waits, it is sent whatever becomes of the rest.
    live_from: Option<u32>,
    /// What is to be said now, and when it was typed.
    due: Vec<(InputEvent, Micros)>,
}

impl Typed {
    /// All of it, for the next connection, which does not know yet what of it has arrived.
    pub(crate) fn take_over(&mut self) -> Typed {
        let Typed { log, base, spoilt, anew, settled, .. } = std::mem::take(self);
        Typed { log, base, spoilt, lies_over: true, anew: anew && !settled, ..Typed::default() }
    }

    /// Nothing was said under this viewer's number yet, by this program: what is typed waits for what the session has seen.
    pub(crate) fn begin_anew(&mut self) {
        (self.lies_over, self.anew) = (true, true);
    }

    /// The numbers of what waits are nothing to the session.
    pub(crate) fn begins_anew(&self) -> bool {
        self.anew && self.waits()
    }

    /// What is typed waits until the session has said what it took before.
    pub(crate) fn waits(&self) -> bool {
        self.lies_over && !self.settled
    }

    /// It was typed while the connection was there for all to see.
    pub(crate) fn handle_live(&mut self, seq: u32) {
        if self.waits() {
            self.live_from.get_or_insert(seq);
        }
    }

    /// A person did this; it may not have arrived until the contrary is known.
    pub(crate) fn push(&mut self, seq: u32, event: InputEvent, at: Micros, now: Micros) {
        let typing = Typing { seq, event, at };
        let is_motion = |event: &InputEvent| matches!(event, InputEvent::Motion { .. });
        if let Some(last) = self.log.back_mut().filter(|last| is_motion(&event) && is_motion(&last.event)) {
            *last = typing;
            return;
        }
        if self.log.len() >= EVENTS_MAX || self.is_old(now) {
            self.spoil(seq);
        }
        self.log.push_back(typing);
    }

    /// Nothing up to this input is sent again.
    pub(crate) fn spoil(&mut self, seq: u32) {
        self.spoilt = Some(seq);
        while let Some(typing) = self.log.pop_front() {
            self.stand_on(typing.event);
        }
    }

    /// What is typed now would be sent by the next connection.
    pub(crate) fn keeps(&self, now: Micros) -> bool {
        self.spoilt.is_none() && !self.is_old(now)
    }

    fn is_old(&self, now: Micros) -> bool {
        let is_typed = |typing: &&Typing| matches!(typing.event, InputEvent::Key { .. } | InputEvent::Char(_));
        self.log.iter().find(is_typed).is_some_and(|oldest| now.saturating_sub(oldest.at) > AGE_MAX)
    }

    /// A button or a finger went down in what may not have arrived, and not up again.
    pub(crate) fn is_pressed(&self, event: &InputEvent) -> bool {
        self.log.iter().rev().find_map(|typing| phase_of(event, &typing.event)).unwrap_or(false)
    }

    /// A ping goes out; this input was the last before it.
    pub(crate) fn pinged(&mut self, number: u32, seq: u32) {
        if self.waits() {
            return; // it says nothing of what waits
        }
        if self.pings.len() == PINGS_MAX {
            self.pings.pop_front();
        }
        self.pings.push_back((number, seq));
    }

    /// Its answer: the stream keeps its order, so all before the ping has arrived.
    pub(crate) fn ponged(&mut self, number: u32) {
        let Some(at) = self.pings.iter().position(|&(pinged, _)| pinged == number) else { return };
        let (_, seq) = self.pings.drain(..=at).next_back().expect("at least the one that was found");
        self.arrived(seq);
    }

    fn arrived(&mut self, seq: u32) {
        while let Some(typing) = self.log.pop_front_if(|typing| !is_after(typing.seq, seq)) {
            self.stand_on(typing.event);
        }
        self.spoilt = self.spoilt.filter(|&spoilt| is_after(spoilt, seq));
    }

    /// The session has taken this input, and none after it, on whatever connection. False: it may not say so, or not now.
    pub(crate) fn seen(&mut self, seq: u32, newest: u32, now: Micros) -> bool {
        if self.settled || is_after(seq, newest) {
            return false;
        }
        if !self.anew {
            self.arrived(seq);
        }
        if self.lies_over && self.keeps(now) {
            self.settled = true;
            let base = self.base.drain(..).map(|(code, keysym)| (InputEvent::Key { code, keysym, down: true }, now));
            self.due.extend(base);
            self.due.extend(self.log.drain(..).map(|typing| (typing.event, typing.at)));
            self.let_go(now);
        } else {
            self.unseen();
        }
        true
    }

    /// The session has nothing to say of that, or it is too late: what waits from the connection before is not sent.
    pub(crate) fn unseen(&mut self) {
        if std::mem::replace(&mut self.settled, true) || !self.lies_over {
            return;
        }
        let live = self.live_from.take();
        self.log.retain(|typing| live.is_some_and(|live| !is_after(live, typing.seq)));
        self.due.extend(self.log.drain(..).map(|typing| (typing.event, typing.at)));
        self.base.clear();
        self.spoilt = None;
    }

    /// Buttons and fingers that went down before the cut, and up when nobody looked, are up.
    fn let_go(&mut self, now: Micros) {
        let mut pressed: Vec<InputEvent> = Vec::new();
        for (event, _) in &self.due {
            pressed.retain(|other| phase_of(other, event).is_none());
            match *event {
                InputEvent::Button { button, down: true } => pressed.push(InputEvent::Button { button, down: false }),
                InputEvent::Touch { id, phase: TouchPhase::Begin | TouchPhase::Update, x, y } => {
                    pressed.push(InputEvent::Touch { id, phase: TouchPhase::End, x, y });
                }
                _ => {}
            }
        }
        self.due.extend(pressed.into_iter().map(|event| (event, now)));
    }

    /// What is to be said now, in order, and when it was typed.
    pub(crate) fn take_due(&mut self) -> Vec<(InputEvent, Micros)> {
        std::mem::take(&mut self.due)
    }

    /// It is before all that is left, so that is what stands on it.
    fn stand_on(&mut self, event: InputEvent) {
        match event {
            InputEvent::Key { code, keysym, down } if is_modifier(code, keysym) => {
                self.base.retain(|&(of, was)| if code != 0 { of != code } else { was != keysym });
                if down && self.base.len() < MODIFIERS_MAX {
                    self.base.push((code, keysym));
                }
            }
            InputEvent::ReleaseAll => self.base.clear(),
            _ => {}
        }
    }
}

/// Numbers of input wrap.
fn is_after(seq: u32, other: u32) -> bool {
    seq.wrapping_sub(other).cast_signed() > 0
}

/// Whether `event` puts the button or finger of `of` down; None where it is about neither.
fn phase_of(of: &InputEvent, event: &InputEvent) -> Option<bool> {
    match (of, event) {
        (InputEvent::Button { button, .. }, InputEvent::Button { button: other, down }) if button == other => {
            Some(*down)
        }
        (InputEvent::Touch { id, .. }, InputEvent::Touch { id: other, phase, .. }) if id == other => {
            Some(*phase != TouchPhase::End)
        }
        (_, InputEvent::ReleaseAll) => Some(false),
        _ => None,
    }
}

/// Shift, Control, Alt, Super and the like, by what they mean, and where that is not known by their place; no locks.
fn is_modifier(code: u16, keysym: u32) -> bool {
    match keysym {
        0 => matches!(code, 29 | 42 | 54 | 56 | 97 | 100 | 125 | 126),
        // Shift_L to Control_R, Meta_L to Hyper_R, ISO_Level3_Shift, Mode_switch.
        _ => matches!(keysym, 0xffe1..=0xffe4 | 0xffe7..=0xffee | 0xfe03 | 0xff7e),
    }
}
