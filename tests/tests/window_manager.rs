//! One application alone has a window manager: its main window fills the screen and follows it,
//! dialogs have frames, and keys go to the window that was used last. The application is the test
//! itself, as an X client.

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::{Desktop, EVENT_TIMEOUT};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

/// x, y, width and height.
type Place = (i16, i16, u16, u16);

/// A window of 200 × 100 at (30, 40), mapped; a dialog belongs to another one.
fn window(conn: &RustConnection, dialog_of: Option<Window>) -> Result<Window, Error> {
    let screen = &conn.setup().roots[0];
    let window = conn.generate_id()?;
    let aux = CreateWindowAux::new()
        .background_pixel(0x33_6699)
        .event_mask(EventMask::KEY_PRESS | EventMask::STRUCTURE_NOTIFY);
    let class = WindowClass::INPUT_OUTPUT;
    let (depth, visual) = (x11rb::COPY_DEPTH_FROM_PARENT, x11rb::COPY_FROM_PARENT);
    conn.create_window(depth, window, screen.root, 30, 40, 200, 100, 0, class, visual, &aux)?;
    if let Some(main) = dialog_of {
        let transient = AtomEnum::WM_TRANSIENT_FOR;
        conn.change_property32(PropMode::REPLACE, window, transient, AtomEnum::WINDOW, &[main])?;
    }
    conn.map_window(window)?.check()?;
    Ok(window)
}

/// Where the window is on the screen, frame excluded.
fn place(conn: &RustConnection, window: Window) -> Result<Place, Error> {
    let geometry = conn.get_geometry(window)?.reply()?;
    let at = conn.translate_coordinates(window, geometry.root, 0, 0)?.reply()?;
    Ok((at.dst_x, at.dst_y, geometry.width, geometry.height))
}

/// Widths of the frame: left, right, top, bottom; None while nobody manages the window.
fn frame(conn: &RustConnection, window: Window) -> Result<Option<[u32; 4]>, Error> {
    let atom = conn.intern_atom(false, b"_NET_FRAME_EXTENTS")?.reply()?.atom;
    let reply = conn.get_property(false, window, atom, AtomEnum::CARDINAL, 0, 4)?.reply()?;
    Ok(reply.value32().and_then(|values| values.collect::<Vec<u32>>().try_into().ok()))
}

fn await_place(conn: &RustConnection, window: Window, wanted: Place) -> Result<(), Error> {
    wait_for(&format!("the window is at {wanted:?}"), EVENT_TIMEOUT, || {
        (place(conn, window).ok()? == wanted).then_some(())
    })
}

/// Types at the viewer until this window gets a key.
fn await_key(desktop: &mut Desktop, conn: &RustConnection, window: Window) -> Result<(), Error> {
    wait_for("the window gets keys", EVENT_TIMEOUT, || {
        desktop.viewer.say("key a").ok()?;
        desktop.viewer.say("barrier").ok()?;
        let mut events = std::iter::from_fn(|| conn.poll_for_event().ok()?);
        let got = |event| matches!(event, Event::KeyPress(event) if event.event == window);
        events.any(got).then_some(())
    })
}

#[test]
fn the_main_window_fills_the_screen_and_dialogs_have_frames() -> Result<(), Error> {
    let options = ["--window-manager", "auto"];
    let mut desktop = Desktop::start_with("wm", "800x600", &options, &["sleep", "600"])?;
    let conn = desktop.connect_x()?;
    let main = window(&conn, None)?;
    await_place(&conn, main, (0, 0, 800, 600))?;
    assert_eq!(frame(&conn, main)?, Some([0; 4]), "no frame");
    desktop.viewer.say("move 700 500")?;
    await_key(&mut desktop, &conn, main)?;

    let dialog = window(&conn, Some(main))?;
    let [left, right, top, bottom] = wait_for("the dialog has a frame", EVENT_TIMEOUT, || {
        frame(&conn, dialog).ok()?.filter(|frame| *frame != [0; 4])
    })?;
    assert!(top >= 10 && top > bottom.max(left).max(right), "a title bar of {top} pixels");
    let (x, y, width, height) = place(&conn, dialog)?;
    assert_eq!((width, height), (200, 100), "its own size");
    assert!(x > 0 && y > 0, "not at the edge: {x}, {y}");
    // The pointer is over the main window.
    await_key(&mut desktop, &conn, dialog)?;
    conn.destroy_window(dialog)?.check()?;
    await_key(&mut desktop, &conn, main)?;

    desktop.viewer.say("resize 1000x500")?;
    await_place(&conn, main, (0, 0, 1000, 500))?;
    desktop.settle()?;
    desktop.assert_identical("after a resize")
}

#[test]
fn without_a_window_manager_windows_are_as_the_application_asks() -> Result<(), Error> {
    let options = ["--window-manager", "none"];
    let mut desktop = Desktop::start_with("no-wm", "800x600", &options, &["sleep", "600"])?;
    let conn = desktop.connect_x()?;
    let main = window(&conn, None)?;
    desktop.settle_once_drawn()?;
    assert_eq!(place(&conn, main)?, (30, 40, 200, 100));
    assert_eq!(frame(&conn, main)?, None);
    Ok(())
}

/// It would not start beside another one.
#[test]
fn a_command_that_brings_a_window_manager_gets_no_other() -> Result<(), Error> {
    let options = ["--window-manager", "auto"];
    let command = ["sh", "-c", "exec openbox"];
    let desktop = Desktop::start_with("own-wm", "800x600", &options, &command)?;
    let conn = desktop.connect_x()?;
    let main = window(&conn, None)?;
    let frame = wait_for("the window has a frame", EVENT_TIMEOUT, || {
        frame(&conn, main).ok()?.filter(|frame| *frame != [0; 4])
    })?;
    assert!(frame[2] >= 10, "openbox as its user has configured it gives it a title bar");
    Ok(())
}
