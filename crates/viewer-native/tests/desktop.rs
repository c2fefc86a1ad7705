//! The window among a desktop's others, on a private X server: its icon. Checks the X server's
//! windows and properties. Skipped, with a message, without Xvfb.
#![cfg(feature = "window")]

mod desk;
mod fake;

use desk::{Desk, until};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, Window};
use x11rb::rust_connection::RustConnection;

/// A property of 32-bit values; empty if the window has none.
fn property(x: &RustConnection, window: Window, name: &str) -> Vec<u32> {
    let atom = x.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom;
    let cookie = x.get_property(false, window, atom, AtomEnum::ANY, 0, 1 << 20).unwrap();
    let reply = cookie.reply().ok();
    reply.and_then(|reply| Some(reply.value32()?.collect())).unwrap_or_default()
}

#[test]
fn windows_have_the_viewers_icon() {
    let Some(desk) = Desk::start(desk::size(400, 300), &[]) else { return };
    let icon = until("an icon", || {
        Some(property(&desk.x, desk.window, "_NET_WM_ICON")).filter(|icon| !icon.is_empty())
    });
    assert_eq!((icon[0], icon[1], icon.len()), (128, 128, 2 + 128 * 128));
    // A corner is transparent, the play sign is orange, as packaging/desktop/thinc-view.svg has it.
    let pixel = |x: usize, y: usize| icon[2 + y * 128 + x];
    assert_eq!(pixel(0, 0) >> 24, 0);
    assert_eq!(pixel(76, 56), 0xffe8_833a);
}
