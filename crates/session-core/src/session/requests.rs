//! Path back: under session.rs, from viewers' input and the session's own wishes, to the driver and
//! the X server.
//! Requests in order. The meaning of a key is decided when its turn comes: by then the layout and
//! the locks are those that were requested before it. Knows viewers by their numbers, and which
//! inputs await their delivery; ../input.rs knows what a key means.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::viewer::KeyboardLayout;
use thinc_ring::InputMessage;

use super::Request;
use crate::input::keyboard::{BATCH_MAX, KeyAction, Keyboard, Locks};
use crate::viewer::{ViewerId, Violation};

/// Most requests that wait for the driver. Past it motion is dropped, and a viewer that sends keys
/// is disconnected.
pub(super) const REQUESTS_MAX: usize = 4096;
/// Most inputs whose delivery the driver has not confirmed. Past it the oldest is forgotten and
/// gets no echo.
const DELIVERIES_MAX: usize = 256;
/// 1 s: after so long without a message a viewer that holds a key is unresponsive, and keys that
/// repeat are released.
pub(super) const UNRESPONSIVE_TIME: Micros = 1_000_000;
/// 10 s: then Shift, Control and other modifiers are released too. They do not repeat, and what is
/// typed with them after a short outage should keep its meaning.
const UNRESPONSIVE_TIME_MODIFIERS: Micros = 10_000_000;

#[derive(Clone, Debug)]
enum Queued {
    /// A request without further decisions.
    Ready(Request),
    /// A key; `seq` is the driver's number of it.
    Key { viewer: ViewerId, seq: u32, code: u16, keysym: u32, down: bool },
    /// A character.
    Char { viewer: ViewerId, seq: u32, character: char },
    /// From here on this viewer's keyboard has these locks.
    Locks { viewer: ViewerId, locks: Locks },
    /// From here on this viewer's keyboard has this layout.
    Layout { viewer: ViewerId, layout: KeyboardLayout },
    /// Release all keys that this viewer holds.
    ReleaseKeys { viewer: ViewerId, seq: u32 },
    /// From here on this viewer has no keyboard: it is gone.
    ForgetKeyboard { viewer: ViewerId },
}

/// An input on its way to the X server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AwaitedInput {
    seq: u32,
    pub(super) viewer: ViewerId,
    pub(super) viewer_seq: u32,
}

/// A viewer's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewerKey {
    pub(super) code: u16,
    pub(super) keysym: u32,
    pub(super) down: bool,
}

/// The requests of one session.
#[derive(Debug)]
pub(super) struct Requests {
    queue: VecDeque<Queued>,
    /// Requests that result from the first queued one, and are being carried out.
    ready: VecDeque<Request>,
    /// Until when the next of them has to wait.
    keys_from: Option<Micros>,
    /// The X keyboard, once all requests before the queue are carried out.
    pub(super) keyboard: Keyboard,
    /// Memory for them.
    key_actions: Vec<KeyAction>,
    awaited: VecDeque<AwaitedInput>,
    next_input: u32,
    next_barrier: u32,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests {
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            keys_from: None,
            keyboard: Keyboard::default(),
            key_actions: Vec::new(),
            awaited: VecDeque::new(),
            next_input: 1,
            next_barrier: 1,
        }
    }
}

impl Requests {
    /// There is no room for what viewers do.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= REQUESTS_MAX
    }

    /// What may be lost is dropped: the other half is for keys and presses.
    pub(super) fn is_half_full(&self) -> bool {
        self.queue.len() >= REQUESTS_MAX / 2
    }

    pub(super) fn push(&mut self, request: Request) {
        self.queue.push_back(Queued::Ready(request));
    }

    // ---- the inputs' numbers

    /// A number for an input that gets no echo.
    pub(super) fn next_input(&mut self) -> u32 {
        let seq = self.next_input;
        // 0 is the driver's number for an unknown input.
        self.next_input = self.next_input.wrapping_add(1).max(1);
        seq
    }

    /// A number for an input that may get an echo.
    pub(super) fn expect_delivery(&mut self, viewer: ViewerId, viewer_seq: u32) -> u32 {
        let seq = self.next_input();
        if self.awaited.len() == DELIVERIES_MAX {
            self.awaited.pop_front();
        }
        self.awaited.push_back(AwaitedInput { seq, viewer, viewer_seq });
        seq
    }

    /// The driver has delivered the input of this number. Inputs are delivered in order: the ones
    /// before it never will be.
    pub(super) fn delivered(&mut self, seq: u32) -> Option<AwaitedInput> {
        let at = self.awaited.iter().position(|awaited| awaited.seq == seq)?;
        self.awaited.drain(..=at).next_back()
    }

    // ---- keys

    pub(super) fn push_key(&mut self, viewer: ViewerId, viewer_seq: u32, key: ViewerKey) {
        let seq = self.expect_delivery(viewer, viewer_seq);
        let ViewerKey { code, keysym, down } = key;
        self.queue.push_back(Queued::Key { viewer, seq, code, keysym, down });
    }

    pub(super) fn push_character(&mut self, viewer: ViewerId, viewer_seq: u32, character: char) {
        let seq = self.expect_delivery(viewer, viewer_seq);
        self.queue.push_back(Queued::Char { viewer, seq, character });
    }

    /// From here on a viewer's keyboard has these locks.
    pub(super) fn push_locks(&mut self, viewer: ViewerId, locks: Locks) {
        self.queue.push_back(Queued::Locks { viewer, locks });
    }

    /// From here on a viewer's keyboard has this layout.
    pub(super) fn push_layout(
        &mut self,
        viewer: ViewerId,
        layout: &KeyboardLayout,
    ) -> Result<(), Violation> {
        let full = self.is_full();
        match self.queue.back_mut() {
            // A layout on which nothing was typed is not needed.
            Some(Queued::Layout { viewer: of, layout: last }) if *of == viewer => {
                last.clone_from(layout)
            }
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => self.queue.push_back(Queued::Layout { viewer, layout: layout.clone() }),
        }
        Ok(())
    }

    /// From here on a viewer's keyboard is this one, as far as it has reported it. This passes the
    /// bound: viewers get rights one at a time.
    pub(super) fn push_keyboard(
        &mut self,
        viewer: ViewerId,
        layout: Option<KeyboardLayout>,
        locks: Option<Locks>,
    ) {
        let layout = layout.map(|layout| Queued::Layout { viewer, layout });
        let locks = locks.map(|locks| Queued::Locks { viewer, locks });
        self.queue.extend(layout.into_iter().chain(locks));
    }

    /// Releases a viewer's keys. This passes the bound: there are no more than keys.
    pub(super) fn push_release(&mut self, viewer: ViewerId) {
        let seq = self.next_input();
        self.queue.push_back(Queued::ReleaseKeys { viewer, seq });
    }

    /// The newest queued key request of this viewer is a release of all keys.
    pub(super) fn has_released_all(&self, id: ViewerId) -> bool {
        let newest = self.queue.iter().rev().find_map(|queued| match queued {
            Queued::Key { viewer, .. } if *viewer == id => Some(false),
            Queued::ReleaseKeys { viewer, .. } if *viewer == id => Some(true),
            _ => None,
        });
        newest == Some(true)
    }

    /// From here on this viewer has no keyboard.
    pub(super) fn push_forget_keyboard(&mut self, viewer: ViewerId) {
        self.queue.push_back(Queued::ForgetKeyboard { viewer });
    }

    /// What this viewer has typed and X has not received is dropped.
    pub(super) fn drop_typed(&mut self, id: ViewerId) {
        self.queue.retain(|queued| match queued {
            Queued::Key { viewer, .. }
            | Queued::Char { viewer, .. }
            | Queued::Locks { viewer, .. }
            | Queued::Layout { viewer, .. } => *viewer != id,
            Queued::Ready(_) | Queued::ReleaseKeys { .. } | Queued::ForgetKeyboard { .. } => true,
        });
    }

    /// This viewer is gone.
    pub(super) fn forget_viewer(&mut self, id: ViewerId) {
        self.awaited.retain(|awaited| awaited.viewer != id);
    }

    // ---- the pointer

    /// Moves X's pointer there. Dropped if there is no room.
    pub(super) fn push_move(&mut self, x: i32, y: i32) {
        let (seq, full) = (self.next_input(), self.is_full());
        let message = Queued::Ready(Request::Input(InputMessage::PointerMove { seq, x, y }));
        match self.queue.back_mut() {
            // A position that nobody saw is not needed.
            Some(last @ Queued::Ready(Request::Input(InputMessage::PointerMove { .. }))) => {
                *last = message;
            }
            _ if full => {}
            _ => self.queue.push_back(message),
        }
    }

    /// Moves X's pointer so far from where it is. Each distance counts, so none is dropped: those
    /// that follow one another are added.
    pub(super) fn push_move_by(&mut self, dx: i32, dy: i32) -> Result<(), Violation> {
        if let Some(Queued::Ready(Request::Input(InputMessage::PointerMoveBy {
            dx: last_dx,
            dy: last_dy,
            ..
        }))) = self.queue.back_mut()
            && let (Some(x), Some(y)) = (last_dx.checked_add(dx), last_dy.checked_add(dy))
        {
            (*last_dx, *last_dy) = (x, y);
            return Ok(());
        }
        if self.is_full() {
            return Err(Violation::InputBacklog(REQUESTS_MAX));
        }
        let seq = self.next_input();
        self.push(Request::Input(InputMessage::PointerMoveBy { seq, dx, dy }));
        Ok(())
    }

    // ---- barriers and sizes

    /// The driver's number of the next barrier.
    pub(super) fn next_barrier(&self) -> u32 {
        self.next_barrier
    }

    /// Requests the next barrier.
    pub(super) fn push_barrier(&mut self) {
        self.push(Request::Barrier(self.next_barrier));
        self.next_barrier = self.next_barrier.wrapping_add(1).max(1);
    }

    /// No viewer waits for these barriers any more; with an X server that takes no requests they
    /// would accumulate.
    pub(super) fn drop_barriers(&mut self, numbers: &[u32]) {
        self.queue.retain(|queued| match queued {
            Queued::Ready(Request::Barrier(number)) => !numbers.contains(number),
            _ => true,
        });
    }

    /// A new driver, which has received none of these barriers, and delivers no earlier input.
    pub(super) fn begin_again(&mut self, barriers: &[u32]) {
        self.awaited.clear();
        self.queue.retain(|queued| !matches!(queued, Queued::Ready(Request::Barrier(_))));
        barriers.iter().for_each(|&number| self.push(Request::Barrier(number)));
    }

    /// Requests a size, instead of one that waits.
    pub(super) fn push_size(&mut self, request: Request) {
        self.queue.retain(|queued| !matches!(queued, Queued::Ready(Request::Resize(_))));
        self.push(request);
    }

    // ---- what is carried out

    /// The next request for the shell. None: there is none, or the next one has to wait until
    /// [`Requests::keys_from`].
    pub(super) fn next(&mut self, now: Micros) -> Option<Request> {
        while self.ready.is_empty() {
            match self.queue.pop_front()? {
                Queued::Ready(request) => return Some(request),
                Queued::Key { viewer, seq, code, keysym, down } => {
                    if down && let Some(change) = self.keyboard_of(viewer) {
                        self.queue.push_front(Queued::Key { viewer, seq, code, keysym, down });
                        self.ready.push_back(change);
                        continue;
                    }
                    self.act(seq, |keyboard, out| keyboard.key(viewer, code, keysym, down, out));
                }
                Queued::Char { viewer, seq, character } => {
                    self.queue.push_front(Queued::Char { viewer, seq, character });
                    match self.keyboard_of(viewer) {
                        Some(change) => self.ready.push_back(change),
                        None => self.type_characters(viewer, now),
                    }
                }
                Queued::Locks { viewer, locks } => {
                    if self.keyboard.set_locks(viewer, locks) {
                        return Some(set_locks(locks));
                    }
                }
                Queued::Layout { viewer, layout } => {
                    self.keyboard.set_layout(viewer, layout);
                    if let Some(layout) = self.keyboard.take_reported_layout(viewer) {
                        self.ready.push_back(Request::SetLayout(layout));
                    }
                }
                Queued::ForgetKeyboard { viewer } => {
                    if self.keyboard.remove_viewer(viewer) {
                        self.ready.push_back(Request::SetLayout(None));
                    }
                }
                Queued::ReleaseKeys { viewer, seq } => {
                    self.act(seq, |keyboard, out| keyboard.release_all(viewer, out));
                }
            }
        }
        let from = match self.ready.front() {
            Some(Request::Bind { bindings, .. }) => self.keyboard.bindings_allowed_at(bindings),
            Some(Request::SetLayout(_)) => self.keyboard.layout_change_allowed_at(),
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

    /// When waiting keys may continue.
    pub(super) fn keys_from(&self) -> Option<Micros> {
        self.keys_from
    }

    /// What has to change before this viewer types, if anything: the session's keyboard is that of
    /// the viewer that types.
    fn keyboard_of(&mut self, viewer: ViewerId) -> Option<Request> {
        if let Some(locks) = self.keyboard.take_locks(viewer) {
            return Some(set_locks(locks));
        }
        self.keyboard.take_layout(viewer).map(|layout| Request::SetLayout(Some(layout)))
    }

    /// Types the characters of a viewer at the front of the queue, as many as the keymap has room
    /// for at once.
    fn type_characters(&mut self, viewer: ViewerId, now: Micros) {
        let (characters, seqs): (Vec<char>, Vec<u32>) = self
            .queue
            .iter()
            .map_while(|queued| match *queued {
                Queued::Char { viewer: of, seq, character } if of == viewer => {
                    Some((character, seq))
                }
                _ => None,
            })
            .take(BATCH_MAX)
            .unzip();
        let mut actions = Vec::new();
        let count = self.keyboard.characters(&characters, now, &mut actions);
        self.queue.drain(..count);
        self.ready.extend(actions.into_iter().map(|(place, action)| request(action, seqs[place])));
    }

    /// Key actions that are carried out next; all have the number of their input.
    fn act(&mut self, seq: u32, decide: impl FnOnce(&mut Keyboard, &mut Vec<KeyAction>)) {
        decide(&mut self.keyboard, &mut self.key_actions);
        self.ready.extend(self.key_actions.drain(..).map(|action| request(action, seq)));
    }

    // ---- held keys

    /// A message of this viewer has arrived: X may go on repeating the keys that it holds. False
    /// while requests wait: X is busy, and repeats nothing.
    pub(super) fn confirm_held(&mut self, viewer: ViewerId) -> bool {
        if !self.queue.is_empty() || !self.ready.is_empty() {
            return false;
        }
        let still_held = |keycode| Request::Input(InputMessage::StillHeld { keycode });
        self.ready.extend(self.keyboard.repeating(viewer).map(still_held));
        true
    }

    /// Releases the keys of a viewer that is unresponsive, heard of last at that time.
    pub(super) fn release_unresponsive(&mut self, viewer: ViewerId, heard: Micros, now: Micros) {
        let (holds, repeats) = self.keyboard.holds(viewer);
        if holds && now >= heard + UNRESPONSIVE_TIME_MODIFIERS {
            self.keyboard.release_all(viewer, &mut self.key_actions);
        } else if repeats && now >= heard + UNRESPONSIVE_TIME {
            self.keyboard.release_repeating(viewer, &mut self.key_actions);
        }
        if !self.key_actions.is_empty() {
            let seq = self.next_input();
            self.act(seq, |_, _| {});
        }
    }

    /// When the keys of a viewer that was heard of last at that time are released.
    pub(super) fn released_at(&self, viewer: ViewerId, heard: Micros) -> Option<Micros> {
        let (holds, repeats) = self.keyboard.holds(viewer);
        let time = if repeats { UNRESPONSIVE_TIME } else { UNRESPONSIVE_TIME_MODIFIERS };
        holds.then_some(heard + time)
    }

    /// # Panics
    /// If more inputs await their delivery than their limit.
    pub(super) fn check_invariants(&self) {
        assert!(
            self.awaited.len() <= DELIVERIES_MAX,
            "at most {DELIVERIES_MAX} inputs wait for their delivery"
        );
    }
}

fn set_locks(Locks { caps, num }: Locks) -> Request {
    Request::SetLocks { caps, num }
}

fn request(action: KeyAction, seq: u32) -> Request {
    match action {
        KeyAction::Bind(number, bindings) => Request::Bind { number, bindings },
        KeyAction::Key { keycode, down } => {
            Request::Input(InputMessage::Key { seq, keycode, down })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ViewerId = ViewerId(1);
    const OTHER: ViewerId = ViewerId(2);

    fn all(requests: &mut Requests) -> Vec<Request> {
        std::iter::from_fn(|| requests.next(0)).collect()
    }

    fn key(requests: &mut Requests, viewer: ViewerId, down: bool) {
        requests.push_key(viewer, 7, ViewerKey { code: 30, keysym: 0x61, down });
    }

    fn moved(seq: u32, x: i32) -> Request {
        Request::Input(InputMessage::PointerMove { seq, x, y: 0 })
    }

    #[test]
    fn a_position_replaces_one_that_waits_and_a_distance_is_added() {
        let mut requests = Requests::default();
        requests.push_move(1, 0);
        requests.push_move(2, 0);
        requests.push_move_by(3, 4).unwrap();
        requests.push_move_by(-1, 1).unwrap();
        requests.push_move(5, 0);
        let by = Request::Input(InputMessage::PointerMoveBy { seq: 3, dx: 2, dy: 5 });
        assert_eq!(all(&mut requests), [moved(2, 2), by, moved(4, 5)]);
    }

    #[test]
    fn positions_are_dropped_past_the_bound_and_distances_and_layouts_are_a_violation() {
        let mut requests = Requests::default();
        (0..REQUESTS_MAX as u32).for_each(|_| requests.push_barrier());
        assert!(requests.is_full());
        requests.push_move(1, 0);
        let backlog = Err(Violation::InputBacklog(REQUESTS_MAX));
        assert_eq!(requests.push_move_by(1, 1), backlog);
        assert_eq!(requests.push_layout(ME, &KeyboardLayout::default()), backlog);
        assert_eq!(all(&mut requests).len(), REQUESTS_MAX);
    }

    #[test]
    fn a_delivery_ends_the_wait_for_earlier_inputs() {
        let mut requests = Requests::default();
        let seqs = [5, 6, 7].map(|viewer_seq| requests.expect_delivery(ME, viewer_seq));
        assert_eq!(requests.delivered(seqs[1]).map(|awaited| awaited.viewer_seq), Some(6));
        assert_eq!(requests.delivered(seqs[0]), None);
        requests.forget_viewer(ME);
        assert_eq!(requests.delivered(seqs[2]), None);
        for seq in 0..2 * DELIVERIES_MAX as u32 {
            requests.expect_delivery(OTHER, seq);
        }
        requests.check_invariants();
    }

    #[test]
    fn what_a_viewer_typed_is_dropped_and_what_another_did_is_not() {
        let mut requests = Requests::default();
        key(&mut requests, ME, true);
        key(&mut requests, OTHER, true);
        requests.drop_typed(ME);
        requests.push_release(ME);
        assert!(requests.has_released_all(ME) && !requests.has_released_all(OTHER));
        assert_eq!(all(&mut requests).len(), 1);
    }

    #[test]
    fn a_new_driver_gets_the_barriers_that_are_awaited_and_the_newest_size() {
        let mut requests = Requests::default();
        (0..3).for_each(|_| requests.push_barrier());
        requests.drop_barriers(&[2]);
        assert_eq!(all(&mut requests), [1, 3].map(Request::Barrier));
        let seq = requests.expect_delivery(ME, 1);
        requests.push_barrier();
        requests.begin_again(&[3, 4]);
        assert_eq!(requests.delivered(seq), None);
        assert_eq!(all(&mut requests), [3, 4].map(Request::Barrier));
        assert_eq!(requests.next_barrier(), 5);
    }

    #[test]
    fn keys_of_an_unresponsive_viewer_are_released_once() {
        let mut requests = Requests::default();
        key(&mut requests, ME, true);
        assert_eq!(all(&mut requests).len(), 1);
        assert_eq!(requests.released_at(ME, 10), Some(10 + UNRESPONSIVE_TIME));
        requests.release_unresponsive(ME, 10, 9 + UNRESPONSIVE_TIME);
        assert_eq!(all(&mut requests), []);
        requests.release_unresponsive(ME, 10, 10 + UNRESPONSIVE_TIME);
        let released = all(&mut requests);
        assert!(
            matches!(released[..], [Request::Input(InputMessage::Key { down: false, .. })]),
            "{released:?}"
        );
        assert_eq!(requests.released_at(ME, 10), None);
    }
}
