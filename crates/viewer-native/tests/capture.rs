//! The captured pointer, in a real window against a fake session: a click lets an application have
//! the pointer, which is then moved by distances, and the user, the session or another window takes
//! it back. Checks what the session receives and the pointer of the desktop. Skipped, with a
//! message, without Xvfb.
#![cfg(feature = "window")]

mod desk;
mod fake;

use desk::{Desk, size, until};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{InputEvent, ViewerMessage};
use thinc_region::{Rect, Size};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ConfigureWindowAux, ConnectionExt as _, EventMask,
    GrabMode, GrabStatus, InputFocus, MOTION_NOTIFY_EVENT,
};

const P: u16 = 25;

impl Desk {
    fn wants(&self, wanted: bool) {
        self.fake.send(&SessionMessage::RelativeWanted(wanted));
    }

    fn button(&self, button: u8, down: bool) {
        let kind = if down { BUTTON_PRESS_EVENT } else { BUTTON_RELEASE_EVENT };
        self.test_input(kind, button, 0, 0);
    }

    /// The mouse moves by this distance.
    fn mouse_moves(&self, dx: i16, dy: i16) {
        let (time, none) = (x11rb::CURRENT_TIME, x11rb::NONE);
        let x = &self.x;
        x11rb::protocol::xtest::fake_input(x, MOTION_NOTIFY_EVENT, 1, time, none, dx, dy, 0)
            .unwrap();
        x.flush().unwrap();
    }

    fn ctrl_alt(&self, key: u16) {
        for (code, down) in
            [(29, true), (56, true), (key, true), (key, false), (56, false), (29, false)]
        {
            self.key(code, down);
        }
    }

    /// The next input of the pointer, in words.
    fn pointer_input(&self) -> InputEvent {
        self.fake.wait_for("input of the pointer", |message| match message {
            ViewerMessage::Input(input)
                if matches!(
                    input.event,
                    InputEvent::Motion { .. }
                        | InputEvent::MotionBy { .. }
                        | InputEvent::Button { .. }
                ) =>
            {
                Some(input.event)
            }
            _ => None,
        })
    }

    fn pressed(&self, button: u8, down: bool) {
        self.button(button, down);
        self.fake.wait_for("the button", |message| match message {
            ViewerMessage::Input(input) if input.event == (InputEvent::Button { button, down }) => {
                Some(())
            }
            _ => None,
        });
    }

    /// Waits for distances that make this sum, and for nothing else of the pointer.
    fn moved_by(&self, wanted: (i32, i32)) {
        let mut sum = (0, 0);
        while sum != wanted {
            match self.pointer_input() {
                InputEvent::MotionBy { dx, dy } => {
                    sum = (sum.0 + i32::from(dx), sum.1 + i32::from(dy));
                }
                other => panic!("{other:?} after {sum:?} of {wanted:?}"),
            }
            let within = |sum: i32, wanted: i32| sum * wanted.signum() <= wanted.abs();
            assert!(within(sum.0, wanted.0) && within(sum.1, wanted.1), "{sum:?} of {wanted:?}");
        }
    }

    /// Waits until the viewer offers to capture the pointer, in a panel at the lower edge.
    fn offered(&self) {
        let Size { width, height } = self.window_size();
        until("the offer", || {
            let row = Rect::at(0, height as i32 - 4, width as i32, 1);
            self.pixels(row).contains(&0x18_181c).then_some(())
        });
    }

    fn click_to_capture(&self) {
        self.offered();
        self.pressed(1, true);
        self.wait_grabbed();
        self.pressed(1, false);
    }

    /// Waits until X refuses the pointer to others: SDL's relative mode keeps it in the window.
    /// Only for a pointer that will be captured: a grab that succeeds makes SDL lose the mouse.
    fn wait_grabbed(&self) {
        let (mask, mode) = (EventMask::NO_EVENT, GrabMode::ASYNC);
        let (none, now) = (x11rb::NONE, x11rb::CURRENT_TIME);
        // The window is told of the wish and of the click in their order.
        until("the pointer is captured", || {
            let grab =
                self.x.grab_pointer(false, self.root, mask, mode, mode, none, none, now).unwrap();
            let status = grab.reply().unwrap().status;
            if status == GrabStatus::SUCCESS {
                self.x.ungrab_pointer(now).unwrap().check().unwrap();
            }
            (status == GrabStatus::ALREADY_GRABBED).then_some(())
        });
    }

    /// The application gives the pointer back, which is at this place then.
    fn given_back(&self, x: u16, y: u16) {
        self.fake.send(&SessionMessage::CursorMove { x, y });
        self.wants(false);
        until("the pointer where the application has it", || {
            let at = self.x.query_pointer(self.window).unwrap().reply().unwrap();
            ((at.win_x, at.win_y) == (x as i16, y as i16)).then_some(())
        });
    }
}

/// A viewer whose window is as large as the session's screen.
fn start() -> Option<Desk> {
    let desk = Desk::start(size(400, 300), &[])?;
    desk.wait_exact();
    Some(desk)
}

#[test]
fn a_click_captures_the_pointer_and_the_shortcut_releases_it() {
    let Some(desk) = start() else { return };
    // Nobody wants it: a click is a click.
    desk.point(50, 60);
    desk.motion((50, 60));
    desk.pressed(3, true);
    desk.pressed(3, false);
    desk.point(60, 60);
    assert_eq!(desk.pointer_input(), InputEvent::Motion { x: 60, y: 60 });
    desk.wants(true);
    desk.click_to_capture();
    // Further than the window and the screen are wide.
    for _ in 0..20 {
        desk.mouse_moves(100, -3);
    }
    desk.moved_by((2_000, -60));
    desk.mouse_moves(-10, 0);
    desk.moved_by((-10, 0));
    // Another button: a second press of one within 15 ms counts as SDL's repetition of the first.
    for down in [true, false] {
        desk.button(2, down);
        assert_eq!(desk.pointer_input(), InputEvent::Button { button: 2, down }, "in its place");
    }
    desk.ctrl_alt(P);
    // Control and Alt, pressed and released.
    desk.fake.keys(4);
    desk.point(70, 80);
    desk.motion((70, 80));
    // The same keys give it away again.
    desk.ctrl_alt(P);
    desk.wait_grabbed();
    desk.mouse_moves(5, 5);
    desk.moved_by((5, 5));
}

#[test]
fn the_application_gives_the_pointer_back_and_gets_it_again() {
    let Some(desk) = start() else { return };
    desk.wants(true);
    desk.click_to_capture();
    // A menu of the game, with the pointer somewhere.
    desk.given_back(222, 111);
    desk.wants(true);
    desk.wait_grabbed();
    desk.mouse_moves(7, 0);
    desk.moved_by((7, 0));
    // Another program of the desktop.
    desk.x.set_input_focus(InputFocus::PARENT, desk.root, x11rb::CURRENT_TIME).unwrap();
    desk.x.flush().unwrap();
    desk.fake.wait_for("the release of everything", |message| match message {
        ViewerMessage::Input(input) if input.event == InputEvent::ReleaseAll => Some(()),
        _ => None,
    });
    desk.x.set_input_focus(InputFocus::PARENT, desk.window, x11rb::CURRENT_TIME).unwrap();
    desk.point(30, 40);
    desk.motion((30, 40));
    // The user took it, and gives it away by another click.
    desk.pressed(3, true);
    desk.wait_grabbed();
}

#[test]
fn a_drag_in_which_the_pointer_is_wanted_has_it_until_the_wish_ends() {
    let Some(desk) = start() else { return };
    desk.point(200, 150);
    desk.motion((200, 150));
    desk.pressed(1, true);
    desk.wants(true);
    desk.wait_grabbed();
    until("distances", || {
        desk.mouse_moves(3, 0);
        matches!(desk.pointer_input(), InputEvent::MotionBy { dx: 3, dy: 0 }).then_some(())
    });
    desk.given_back(111, 222);
    desk.pressed(1, false);
    desk.point(30, 40);
    desk.motion((30, 40));
}

/// Without a window manager a click gives no focus; a desktop without a keyboard gives none either.
#[test]
fn a_window_without_the_keyboard_sends_positions_and_captures_with_it() {
    let Some(desk) = start() else { return };
    let focus = |window| {
        desk.x.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME).unwrap();
        desk.x.flush().unwrap();
    };
    focus(desk.root);
    desk.fake.wait_for("the release of everything", |message| match message {
        ViewerMessage::Input(input) if input.event == InputEvent::ReleaseAll => Some(()),
        _ => None,
    });
    desk.wants(true);
    desk.offered();
    desk.pressed(1, true);
    desk.pressed(1, false);
    desk.point(70, 80);
    desk.motion((70, 80));
    focus(desk.window);
    desk.wait_grabbed();
    desk.mouse_moves(5, -4);
    desk.moved_by((5, -4));
}

#[test]
fn in_a_smaller_window_the_distance_is_that_of_the_screen() {
    let Some(desk) = start() else { return };
    desk.fake.shared.state.lock().unwrap().stubborn = true;
    let smaller = ConfigureWindowAux::new().width(200).height(150);
    desk.x.configure_window(desk.window, &smaller).unwrap();
    desk.x.flush().unwrap();
    until("the window has half its size", || {
        desk.point(100, 75);
        match desk.pointer_input() {
            InputEvent::Motion { x: 200 | 201, y: 150 | 151 } => Some(()),
            _ => {
                desk.point(10, 10);
                None
            }
        }
    });
    desk.wants(true);
    desk.click_to_capture();
    desk.mouse_moves(10, -7);
    desk.moved_by((20, -14));
}
