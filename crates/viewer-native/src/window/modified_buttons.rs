//! Path back: from a button pressed with Alt or Super on X, which window managers take to move and
//! resize windows, to the session's pointer.
//! While the pointer is in a window that has the focus, those buttons are grabbed on the root
//! window by an X client of its own: X looks for such a grab from the root window down, and window
//! managers have theirs on the frames of windows. Knows X and SDL's events; never a connection.
//!
//! X delivers nothing else during the drag. SDL takes buttons and the wheel from the devices
//! themselves, whatever is grabbed, but motion from the pointer, which therefore comes from here,
//! and so does the place of a button after the first.
//! Keys are not grabbed: Alt+Tab stays with the local desktop. On Wayland the desktop decides;
//! a keyboard grab asks it to inhibit its shortcuts.

use std::sync::Arc;
use std::thread;

use sdl3::event::EventSender;
use x11rb::connection::Connection as _;
use x11rb::cookie::VoidCookie;
use x11rb::errors::ConnectionError;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ButtonIndex, ConnectionExt as _, EventMask, GrabMode, ModMask, Window,
};
use x11rb::rust_connection::RustConnection;

/// SDL event: the pointer during a drag with a grabbed button, in the desktop's coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrabbedPointer {
    pub(super) x: i32,
    pub(super) y: i32,
    /// The last button was released.
    pub(super) released: bool,
}

/// The buttons pressed with Alt or Super.
pub(super) struct ModifiedButtons {
    /// None on Wayland, or if X does not answer.
    client: Option<(Arc<RustConnection>, Window)>,
    /// The person wants them in the session.
    wanted: bool,
    /// The pointer is in a window.
    inside: bool,
    grabbed: bool,
}

impl ModifiedButtons {
    /// Connects to the desktop, if that is X.
    pub(super) fn start(driver: &str, sender: EventSender) -> ModifiedButtons {
        let client = if driver == "x11" { connect(sender) } else { None };
        ModifiedButtons { client, wanted: true, inside: false, grabbed: false }
    }

    /// Whether the pointer is in a window.
    pub(super) fn set_inside(&mut self, inside: bool) {
        self.inside = inside;
    }

    /// Leaves the buttons to the local desktop, or takes them again; returns a notice.
    pub(super) fn toggle(&mut self) -> &'static str {
        if self.client.is_none() {
            return "Your desktop decides: Ctrl+Alt+G asks it for its shortcuts";
        }
        self.wanted = !self.wanted;
        if self.wanted {
            "Alt and Super with the mouse are for the session. Ctrl+Alt+B: for your desktop"
        } else {
            "Alt and Super with the mouse are for your desktop. Ctrl+Alt+B: for the session"
        }
    }

    /// Where the pointer is on the desktop, during a drag of which SDL knows only the start.
    pub(super) fn position(&self) -> Option<(i32, i32)> {
        let (connection, root) = self.client.as_ref().filter(|_| self.grabbed)?;
        let pointer = connection.query_pointer(*root).ok()?.reply().ok()?;
        Some((pointer.root_x.into(), pointer.root_y.into()))
    }

    /// Grabs the buttons if they are wanted and the pointer is in a window; otherwise ends that.
    pub(super) fn update(&mut self, has_focus: bool) {
        let Some((connection, root)) = &self.client else { return };
        let grab = self.wanted && self.inside && has_focus;
        if std::mem::replace(&mut self.grabbed, grab) == grab {
            return;
        }
        let done = if grab { grab_all(connection, *root) } else { ungrab_all(connection, *root) };
        if done.and_then(|()| connection.flush()).is_err() {
            // The X server has gone, and SDL will say so.
            self.client = None;
        }
    }
}

/// An X client, whose thread passes the pointer on during a grab.
fn connect(sender: EventSender) -> Option<(Arc<RustConnection>, Window)> {
    let (connection, screen) = x11rb::connect(None).ok()?;
    let connection = Arc::new(connection);
    let root = connection.setup().roots[screen].root;
    let reader = connection.clone();
    thread::Builder::new()
        .name("modified-buttons".to_owned())
        .spawn(move || {
            let mut is_told = false;
            while let Ok(event) = reader.wait_for_event() {
                let grabbed = match event {
                    Event::MotionNotify(motion) => GrabbedPointer {
                        x: motion.root_x.into(),
                        y: motion.root_y.into(),
                        released: false,
                    },
                    Event::ButtonRelease(release) => {
                        // `state` is that before the event: buttons 1 to 5 are its bits 8 to 12.
                        let own = 0x80_u16.checked_shl(release.detail.into()).unwrap_or(0);
                        let others = u16::from(release.state) & 0x1f00 & !own;
                        GrabbedPointer {
                            x: release.root_x.into(),
                            y: release.root_y.into(),
                            released: others == 0,
                        }
                    }
                    // Another client has grabbed some of them on the root window, and keeps them.
                    Event::Error(_) if !is_told => {
                        is_told = true;
                        crate::error::report(format_args!(
                            "another program has taken mouse buttons with Alt or Super on the \
                             whole desktop, so these do not reach the session"
                        ));
                        continue;
                    }
                    // Of the buttons SDL tells.
                    _ => continue,
                };
                // The queue is full or SDL is shutting down: a later motion counts.
                let _ = sender.push_custom_event(grabbed);
            }
        })
        .ok()?;
    Some((connection, root))
}

/// Every combination of modifiers with Alt or Super: locks are among them. By convention Alt is
/// Mod1 and Super is Mod4.
fn combinations() -> impl Iterator<Item = ModMask> {
    let needed = u16::from(ModMask::M1) | u16::from(ModMask::M4);
    (0..=u16::from(u8::MAX)).filter(move |mask| mask & needed != 0).map(ModMask::from)
}

fn grab_all(connection: &RustConnection, root: Window) -> Result<(), ConnectionError> {
    let events = EventMask::BUTTON_PRESS | EventMask::BUTTON_RELEASE | EventMask::POINTER_MOTION;
    for modifiers in combinations() {
        let (mode, button) = (GrabMode::ASYNC, ButtonIndex::ANY);
        connection
            .grab_button(
                false,
                root,
                events,
                mode,
                mode,
                x11rb::NONE,
                x11rb::NONE,
                button,
                modifiers,
            )
            .map(forget)?;
    }
    Ok(())
}

fn ungrab_all(connection: &RustConnection, root: Window) -> Result<(), ConnectionError> {
    for modifiers in combinations() {
        connection.ungrab_button(ButtonIndex::ANY, root, modifiers).map(forget)?;
    }
    Ok(())
}

/// Errors arrive as events.
fn forget(cookie: VoidCookie<'_, RustConnection>) {
    drop(cookie);
}
