//! A client that holds the X server grabbed, as screenshot programs and old menus do: whoever sits in front must be able
//! to click, since the grab may wait for just that.

use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::Desktop;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, KeyButMask};

#[test]
fn a_grabbed_server_that_cannot_bind_a_keysym_still_gets_the_click() -> Result<(), Error> {
    let mut desktop = Desktop::start("grab", "640x480", &["sleep", "infinity"])?;
    desktop.settle()?;
    let x = desktop.connect_x()?;
    let root = x.setup().roots[0].root;
    x.grab_server()?.check()?;
    // No key gives a snowman: the session asks X for one, and X answers nobody but who holds the grab.
    desktop.viewer.say("type ☃")?;
    desktop.viewer.say("move 111 222")?;
    desktop.viewer.say("buttondown 1")?;
    wait_for("the click arrives", Duration::from_secs(10), || {
        let pointer = x.query_pointer(root).ok()?.reply().ok()?;
        (pointer.mask.contains(KeyButMask::BUTTON1) && (pointer.root_x, pointer.root_y) == (111, 222)).then_some(())
    })?;
    desktop.viewer.say("buttonup 1")?;
    x.ungrab_server()?.check()?;
    // The binding is done now, and the next such key needs no patience.
    desktop.viewer.say("type ☃")?;
    wait_for("a key gives a snowman", Duration::from_secs(10), || {
        let (first, last) = (x.setup().min_keycode, x.setup().max_keycode);
        let keys = x.get_keyboard_mapping(first, last - first + 1).ok()?.reply().ok()?;
        keys.keysyms.contains(&0x0100_2603).then_some(())
    })
}
