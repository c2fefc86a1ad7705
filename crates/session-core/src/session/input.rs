//! The way back: under session.rs, from a viewer's input, to requests for the driver.
//! Checks what a viewer says its hand did, gives it a number that comes back with the delivery, and lets go of what is held.
//! Knows viewers' keys, buttons and fingers, and their order; ../input.rs knows what a key means.

use thinc_protocol::Micros;
use thinc_protocol::limits::INPUT_EVENTS_PER_SECOND_MAX;
use thinc_protocol::viewer::{Input, InputEvent, Layout, TouchPhase};
use thinc_ring::InputMessage;

use super::{DELIVERIES_MAX, Delivery, REQUESTS_MAX, Request, Session};
use crate::input::{BATCH_MAX, KeyAction};
use crate::viewer::{ViewerId, Violation};

/// 1 s: a viewer that holds a key says something every half second (doc/protocol.md, section 4.1). One that says nothing
/// for so long cannot be reached: its keys repeat no more, and an outage does not fill the terminal.
const SILENCE_MAX: Micros = 1_000_000;
/// 10 s: then Shift, Control and the like are let go as well. They repeat nothing, and what was typed with them before the
/// path came back should mean what it meant.
const SILENCE_WITH_MODIFIERS_MAX: Micros = 10_000_000;

/// What is to be carried out, in order. What a key means is decided when its turn comes: by then the layout and the locks
/// are those that were asked for before it.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// As it is.
    Ready(Request),
    /// A key; `seq` is the driver's number of it.
    Key { viewer: ViewerId, seq: u32, code: u16, keysym: u32, down: bool },
    /// A character.
    Char { viewer: ViewerId, seq: u32, character: char },
    /// The lock keys.
    Locks { caps: bool, num: bool },
    /// From here on this viewer's keyboard is laid out like this.
    Layout { viewer: ViewerId, layout: Layout },
    /// All keys that this viewer holds.
    ReleaseKeys { viewer: ViewerId, seq: u32 },
}

impl Session {
    pub(super) fn handle_input(&mut self, at: usize, input: Input, now: Micros) -> Result<(), Violation> {
        let viewer = &mut self.viewers[at];
        if now.saturating_sub(viewer.input_second) >= 1_000_000 {
            viewer.input_second = now;
            viewer.input_count = 0;
        }
        viewer.input_count += 1;
        if viewer.input_count > INPUT_EVENTS_PER_SECOND_MAX {
            return Err(Violation::InputFlood(INPUT_EVENTS_PER_SECOND_MAX));
        }
        let full = self.requests.len() >= REQUESTS_MAX;
        let id = viewer.id;
        match input.event {
            InputEvent::Motion { x, y } => {
                let (x, y) = self.clamp(x, y);
                self.hand.point(x, y);
                // Where an application had put it is over: nobody's pointer goes back there.
                self.pointer.at = None;
                let seq = self.next_input();
                let message = Wish::Ready(Request::Input(InputMessage::PointerMove { seq, x, y }));
                // Where the pointer was and nobody looked is nowhere.
                if let Some(Wish::Ready(Request::Input(InputMessage::PointerMove { .. }))) = self.requests.back() {
                    self.requests.pop_back();
                } else if full {
                    return Ok(());
                }
                self.requests.push_back(message);
                return Ok(());
            }
            InputEvent::Scroll { dx, dy } => {
                if full {
                    return Ok(());
                }
                let seq = self.expect_delivery(id, input.seq);
                let (dx, dy) = (i32::from(dx), i32::from(dy));
                self.ask(Request::Input(InputMessage::Scroll { seq, dx, dy }));
                return Ok(());
            }
            InputEvent::ReleaseAll => {
                // It passes the bound, so it counts only where it says something: said again with nothing between, it fills
                // nothing.
                let holds = self.viewers[at].buttons != 0 || self.viewers[at].fingers != 0;
                if holds || !self.has_let_go(id) {
                    self.release_all(at);
                }
                return Ok(());
            }
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => {}
        }
        match input.event {
            InputEvent::Key { code, keysym, down } => {
                let seq = self.expect_delivery(id, input.seq);
                self.requests.push_back(Wish::Key { viewer: id, seq, code, keysym, down });
            }
            InputEvent::Char(character) => {
                let seq = self.expect_delivery(id, input.seq);
                self.requests.push_back(Wish::Char { viewer: id, seq, character });
            }
            InputEvent::Locks { caps, num } => self.requests.push_back(Wish::Locks { caps, num }),
            InputEvent::Button { button, down } => {
                // 4 to 7 would be the wheel, which is `Scroll`.
                if !matches!(button, 1..=3 | 8..=31) {
                    return Ok(());
                }
                let bit = 1 << button;
                let viewer = &mut self.viewers[at];
                if (viewer.buttons & bit != 0) == down {
                    return Ok(());
                }
                viewer.buttons ^= bit;
                let seq = self.expect_delivery(id, input.seq);
                self.ask(Request::Input(InputMessage::Button { seq, button, down }));
            }
            InputEvent::Touch { id: finger, phase, x, y } => {
                let finger = finger & 15;
                let bit = 1 << finger;
                let viewer = &mut self.viewers[at];
                let touches = viewer.fingers & bit != 0;
                if touches == (phase == TouchPhase::Begin) {
                    return Ok(());
                }
                if phase != TouchPhase::Update {
                    viewer.fingers ^= bit;
                }
                let (x, y) = self.clamp(x, y);
                let seq = self.expect_delivery(id, input.seq);
                let phase = match phase {
                    TouchPhase::Begin => thinc_ring::TouchPhase::Begin,
                    TouchPhase::Update => thinc_ring::TouchPhase::Update,
                    TouchPhase::End => thinc_ring::TouchPhase::End,
                };
                let message = InputMessage::Touch { seq, id: finger_id(id, finger), phase, x, y };
                self.ask(Request::Input(message));
            }
            InputEvent::Motion { .. } | InputEvent::Scroll { .. } | InputEvent::ReleaseAll => {}
        }
        Ok(())
    }

    fn clamp(&self, x: u16, y: u16) -> (i32, i32) {
        let edge = |value: u16, edge: u32| u32::from(value).min(edge.saturating_sub(1)).cast_signed();
        (edge(x, self.size.width), edge(y, self.size.height))
    }

    fn next_input(&mut self) -> u32 {
        let seq = self.next_input;
        // 0 is what the driver says where it knows no input.
        self.next_input = self.next_input.wrapping_add(1).max(1);
        seq
    }

    /// A number for an input that may be answered.
    fn expect_delivery(&mut self, viewer: ViewerId, viewer_seq: u32) -> u32 {
        let seq = self.next_input();
        if self.deliveries.len() == DELIVERIES_MAX {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(Delivery { seq, viewer, viewer_seq });
        seq
    }

    /// A viewer's keyboard is laid out like this from here on.
    pub(super) fn handle_layout(&mut self, at: usize, layout: &Layout) -> Result<(), Violation> {
        let viewer = self.viewers[at].id;
        let full = self.requests.len() >= REQUESTS_MAX;
        match self.requests.back_mut() {
            // One that nobody typed on is nowhere.
            Some(Wish::Layout { viewer: of, layout: last }) if *of == viewer => last.clone_from(layout),
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => self.requests.push_back(Wish::Layout { viewer, layout: layout.clone() }),
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.requests.push_back(Wish::Ready(request));
    }

    /// What the shell shall carry out next. None: nothing, or what is next has to wait for `keys_from`.
    pub(super) fn next_request(&mut self, now: Micros) -> Option<Request> {
        self.release_silent(now);
        while self.ready.is_empty() {
            match self.requests.pop_front()? {
                Wish::Ready(request) => return Some(request),
                Wish::Key { viewer, seq, code, keysym, down } => {
                    if down && let Some(layout) = self.keyboard.take_layout(viewer) {
                        self.requests.push_front(Wish::Key { viewer, seq, code, keysym, down });
                        self.ready.push_back(Request::SetLayout(layout));
                        continue;
                    }
                    let mut actions = std::mem::take(&mut self.key_actions);
                    self.keyboard.key(viewer, code, keysym, down, &mut actions);
                    self.carry(actions, seq);
                }
                Wish::Char { viewer, seq, character } => {
                    self.requests.push_front(Wish::Char { viewer, seq, character });
                    match self.keyboard.take_layout(viewer) {
                        Some(layout) => self.ready.push_back(Request::SetLayout(layout)),
                        None => self.type_characters(viewer, now),
                    }
                }
                Wish::Locks { caps, num } => {
                    if self.keyboard.lock(caps, num) {
                        return Some(Request::SetLocks { caps, num });
                    }
                }
                Wish::Layout { viewer, layout } => {
                    // Whoever has gone has no keyboard any more.
                    if self.viewer(viewer).is_some()
                        && self.keyboard.set_layout(viewer, layout)
                        && let Some(layout) = self.keyboard.take_layout(viewer)
                    {
                        self.ready.push_back(Request::SetLayout(layout));
                    }
                }
                Wish::ReleaseKeys { viewer, seq } => {
                    let mut actions = std::mem::take(&mut self.key_actions);
                    self.keyboard.release_all(viewer, &mut actions);
                    self.carry(actions, seq);
                }
            }
        }
        let from = match self.ready.front() {
            Some(Request::Bind(bindings)) => self.keyboard.may_bind_from(bindings),
            Some(Request::SetLayout(_)) => self.keyboard.may_lay_out_from(),
            Some(Request::Input(InputMessage::Key { keycode, down: true, .. })) => {
                self.keyboard.pressed(*keycode, now);
                0
            }
            _ => 0,
        };
        self.keys_from = (from > now).then_some(from);
        if self.keys_from.is_some() {
            return None;
        }
        self.ready.pop_front()
    }

    /// Types the characters of a viewer that wait first, as many as the keymap has room for at once.
    fn type_characters(&mut self, viewer: ViewerId, now: Micros) {
        let (characters, seqs): (Vec<char>, Vec<u32>) = self
            .requests
            .iter()
            .map_while(|wish| match *wish {
                Wish::Char { viewer: of, seq, character } if of == viewer => Some((character, seq)),
                _ => None,
            })
            .take(BATCH_MAX)
            .unzip();
        let mut actions = Vec::new();
        let count = self.keyboard.characters(&characters, now, &mut actions);
        self.requests.drain(..count);
        self.ready.extend(actions.into_iter().map(|(place, action)| request(action, seqs[place])));
    }

    /// Turns key actions into requests; all of them carry the number of the input they came from.
    fn carry(&mut self, mut actions: Vec<KeyAction>, seq: u32) {
        self.ready.extend(actions.drain(..).map(|action| request(action, seq)));
        self.key_actions = actions;
    }

    /// Lets go of the keys of viewers that cannot be reached.
    fn release_silent(&mut self, now: Micros) {
        for at in 0..self.viewers.len() {
            let (id, heard) = (self.viewers[at].id, self.viewers[at].heard);
            let (holds, repeats) = self.keyboard.holds(id);
            let mut actions = std::mem::take(&mut self.key_actions);
            if holds && now >= heard + SILENCE_WITH_MODIFIERS_MAX {
                self.keyboard.release_all(id, &mut actions);
            } else if repeats && now >= heard + SILENCE_MAX {
                self.keyboard.release_repeating(id, &mut actions);
            }
            let seq = if actions.is_empty() { 0 } else { self.next_input() };
            self.carry(actions, seq);
        }
    }

    /// When keys may go on that wait, and when a viewer that says nothing lets go of its own.
    pub(super) fn keys_deadline(&self) -> Option<Micros> {
        let silent = self.viewers.iter().filter_map(|viewer| {
            let (holds, repeats) = self.keyboard.holds(viewer.id);
            let silence = if repeats { SILENCE_MAX } else { SILENCE_WITH_MODIFIERS_MAX };
            holds.then_some(viewer.heard + silence)
        });
        silent.chain(self.keys_from).min()
    }

    /// The newest that waits of this viewer's keys is that it holds none.
    fn has_let_go(&self, id: ViewerId) -> bool {
        let newest = self.requests.iter().rev().find_map(|wish| match wish {
            Wish::Key { viewer, .. } if *viewer == id => Some(false),
            Wish::ReleaseKeys { viewer, .. } if *viewer == id => Some(true),
            _ => None,
        });
        newest == Some(true)
    }

    /// Lets go of what a viewer holds. These requests pass the bound: there are no more than keys, buttons and fingers.
    pub(super) fn release_all(&mut self, at: usize) {
        let id = self.viewers[at].id;
        let seq = self.next_input();
        self.requests.push_back(Wish::ReleaseKeys { viewer: id, seq });
        let buttons = std::mem::take(&mut self.viewers[at].buttons);
        let held_by_others = self.viewers.iter().fold(0, |all, viewer| all | viewer.buttons);
        for button in (0..32).filter(|button| buttons & !held_by_others & (1 << button) != 0) {
            let seq = self.next_input();
            self.ask(Request::Input(InputMessage::Button { seq, button, down: false }));
        }
        let fingers = std::mem::take(&mut self.viewers[at].fingers);
        let (x, y) = self.hand.pointer();
        for finger in (0..16u8).filter(|finger| fingers & (1 << finger) != 0) {
            let seq = self.next_input();
            let (id, phase) = (finger_id(id, finger), thinc_ring::TouchPhase::End);
            self.ask(Request::Input(InputMessage::Touch { seq, id, phase, x, y }));
        }
    }
}

fn request(action: KeyAction, seq: u32) -> Request {
    match action {
        KeyAction::Bind(bindings) => Request::Bind(bindings),
        KeyAction::Key { keycode, down } => Request::Input(InputMessage::Key { seq, keycode, down }),
    }
}

/// The driver's number of a finger: fingers of two viewers are two fingers.
fn finger_id(viewer: ViewerId, finger: u8) -> u32 {
    viewer.0.wrapping_mul(16) + u32::from(finger)
}
