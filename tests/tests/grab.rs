//! An X client that holds the X server grabbed, as screenshot programs and old menus do: the user
//! must be able to click, since the grab may wait for just that.

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, KeyButMask};

#[test]
fn a_grabbed_server_that_cannot_bind_a_keysym_still_gets_the_click() -> Result<(), Error> {
    let mut desktop = Desktop::start("grab", "640x480", &["sleep", "infinity"])?;
    desktop.settle()?;
    let x = desktop.connect_x()?;
    let root = x.setup().roots[0].root;
    x.grab_server()?.check()?;
    // No key gives a snowman: the session asks X to bind one, and X answers only the client with
    // the grab.
    desktop.viewer.say("type ☃")?;
    desktop.viewer.say("move 111 222")?;
    desktop.viewer.say("buttondown 1")?;
    wait_for("the click arrives", EVENT_TIMEOUT, || {
        let pointer = x.query_pointer(root).ok()?.reply().ok()?;
        (pointer.mask.contains(KeyButMask::BUTTON1)
            && (pointer.root_x, pointer.root_y) == (111, 222))
            .then_some(())
    })?;
    desktop.viewer.say("buttonup 1")?;
    x.ungrab_server()?.check()?;
    // The key is bound now, and the next one does not have to wait.
    desktop.viewer.say("type ☃")?;
    wait_for("a key gives a snowman", EVENT_TIMEOUT, || {
        let (first, last) = (x.setup().min_keycode, x.setup().max_keycode);
        let keys = x.get_keyboard_mapping(first, last - first + 1).ok()?.reply().ok()?;
        keys.keysyms.contains(&0x0100_2603).then_some(())
    })
}
