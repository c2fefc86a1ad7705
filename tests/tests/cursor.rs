//! The cursor, from a real X server to a real viewer: applications change it, and its pixels are
//! never part of the screen. The sprite moves, blinks and changes over a resting screen while every
//! update is counted.

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;
use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ConnectionExt as _, CreateGCAux, Cursor, ImageFormat, KeyButMask,
    MOTION_NOTIFY_EVENT, Pixmap, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

struct Application {
    conn: RustConnection,
    root: Window,
}

impl Application {
    fn new(desktop: &Desktop) -> Result<Application, Error> {
        let conn = desktop.connect_x()?;
        let root = conn.setup().roots[0].root;
        conn.xfixes_query_version(5, 0)?.reply()?;
        Ok(Application { conn, root })
    }

    /// A pixmap of depth 1, 16 pixels square, its rows all alike.
    fn bits(&self, row: u16) -> Result<Pixmap, Error> {
        let (pixmap, gc) = (self.conn.generate_id()?, self.conn.generate_id()?);
        let [low, high] = row.to_le_bytes();
        let data: Vec<u8> = [low, high, 0, 0].repeat(16);
        self.conn.create_pixmap(1, pixmap, self.root, 16, 16)?;
        self.conn.create_gc(gc, pixmap, &CreateGCAux::new().foreground(1).background(0))?;
        self.conn.put_image(ImageFormat::XY_PIXMAP, pixmap, gc, 16, 16, 0, 0, 0, 1, &data)?;
        Ok(pixmap)
    }

    /// White where `fore` is set, else black, inside `inside`.
    fn cursor(&self, fore: u16, inside: u16) -> Result<Cursor, Error> {
        let cursor = self.conn.generate_id()?;
        let (source, mask) = (self.bits(fore)?, self.bits(inside)?);
        self.conn.create_cursor(cursor, source, mask, 0xffff, 0xffff, 0xffff, 0, 0, 0, 3, 5)?;
        Ok(cursor)
    }

    fn show(&self, cursor: Cursor) -> Outcome {
        self.conn.change_window_attributes(
            self.root,
            &ChangeWindowAttributesAux::new().cursor(cursor),
        )?;
        self.done()
    }

    fn warp(&self, x: i16, y: i16) -> Outcome {
        self.conn.warp_pointer(x11rb::NONE, self.root, 0, 0, 0, 0, x, y)?;
        self.done()
    }

    /// Waits until X has handled all requests.
    fn done(&self) -> Outcome {
        self.conn.get_input_focus()?.reply()?;
        Ok(())
    }
}

fn until(desktop: &mut Desktop, line: &str, wanted: &str) -> Outcome {
    wait_for(&format!("`{line}` is {wanted}"), EVENT_TIMEOUT, || {
        desktop.viewer.say("barrier").ok()?;
        (desktop.viewer.say(line).ok()? == wanted).then_some(())
    })
}

fn figure(desktop: &mut Desktop, name: &str) -> Result<u64, Error> {
    desktop.stats()?[name].as_u64().ok_or_else(|| format!("stats have no {name}").into())
}

#[test]
fn a_recoloured_cursor_is_the_same_image_in_other_colours() -> Outcome {
    let mut desktop = Desktop::start("cursor-color", "640x480", &["sleep", "infinity"])?;
    let application = Application::new(&desktop)?;
    let cursor = application.cursor(0x00ff, 0x0fff)?;
    application.show(cursor)?;
    until(&mut desktop, "cursor", "16x16+3+5")?;
    for (pixel, wanted) in
        [("0 0", "ffffffff"), ("8 0", "ff000000"), ("12 0", "00000000"), ("7 15", "ffffffff")]
    {
        until(&mut desktop, &format!("cursor-pixel {pixel}"), wanted)?;
    }
    let images = figure(&mut desktop, "cursors")?;
    application.conn.recolor_cursor(cursor, 0xffff, 0, 0, 0, 0, 0xffff)?;
    application.done()?;
    until(&mut desktop, "cursor-pixel 0 0", "ffff0000")?;
    until(&mut desktop, "cursor-pixel 8 0", "ff0000ff")?;
    until(&mut desktop, "cursor-pixel 12 0", "00000000")?;
    assert_eq!(
        (figure(&mut desktop, "cursors")?, figure(&mut desktop, "cursor_colors")?),
        (images, 1)
    );
    Ok(())
}

#[test]
fn the_sprite_is_never_part_of_the_screen() -> Outcome {
    let mut desktop = Desktop::start("cursor-sprite", "640x480", &["sleep", "infinity"])?;
    let application = Application::new(&desktop)?;
    let cursors = [application.cursor(0xffff, 0xffff)?, application.cursor(0x00ff, 0xffff)?];
    application.show(cursors[0])?;
    until(&mut desktop, "cursor", "16x16+3+5")?;
    desktop.settle()?;
    let before = desktop.stats()?;
    for step in 0..50i16 {
        desktop.viewer.say(&format!("move {} {}", 20 + step * 5, 30 + step * 3))?;
        application.show(cursors[usize::from(step % 2 == 0)])?;
        application.warp(300 + step, 200)?;
        desktop.viewer.say("barrier")?;
        let seen = application
            .conn
            .get_image(ImageFormat::Z_PIXMAP, application.root, 0, 0, 640, 480, !0)?
            .reply()?;
        assert!(
            seen.data.chunks_exact(4).all(|pixel| pixel[..3] == seen.data[..3]),
            "an application sees a sprite"
        );
    }
    until(&mut desktop, "warped", "349 200")?;
    let after = desktop.stats()?;
    assert!(after["cursors"].as_u64() > before["cursors"].as_u64(), "the images came");
    assert_eq!(after["framebuffer_xxh3"], before["framebuffer_xxh3"]);
    assert_eq!(after["commands"], before["commands"], "an update brought pixels");
    Ok(())
}

#[test]
fn a_warp_moves_the_viewers_pointer_and_user_motion_is_not_echoed() -> Outcome {
    let mut desktop = Desktop::start("cursor-warp", "640x480", &["sleep", "infinity"])?;
    let application = Application::new(&desktop)?;
    application.show(application.cursor(0xffff, 0xffff)?)?;
    application.warp(111, 222)?;
    until(&mut desktop, "warped", "111 222")?;
    let moves = figure(&mut desktop, "cursor_moves")?;
    assert_eq!(moves, 1, "the pointer's initial position is not a warp");
    for x in 10..60 {
        desktop.viewer.say(&format!("move {x} 40"))?;
    }
    wait_for("the user's motion arrives", EVENT_TIMEOUT, || {
        let at = application.conn.query_pointer(application.root).ok()?.reply().ok()?;
        ((at.root_x, at.root_y) == (59, 40)).then_some(())
    })?;
    desktop.viewer.say("barrier")?;
    assert_eq!(figure(&mut desktop, "cursor_moves")?, moves, "the user's motion was echoed");
    // To the same position as before: the user has moved the pointer since.
    application.warp(111, 222)?;
    wait_for("the second warp arrives", EVENT_TIMEOUT, || {
        desktop.viewer.say("barrier").ok()?;
        (figure(&mut desktop, "cursor_moves").ok()? == moves + 1).then_some(())
    })
}

#[test]
fn a_program_that_moves_the_pointer_moves_the_viewers() -> Outcome {
    let mut desktop = Desktop::start("cursor-xtest", "640x480", &["sleep", "infinity"])?;
    let application = Application::new(&desktop)?;
    let fake = |kind, detail, x, y| -> Outcome {
        let (conn, now) = (&application.conn, x11rb::CURRENT_TIME);
        conn.xtest_fake_input(kind, detail, now, application.root, x, y, 0)?;
        application.done()
    };
    // X shows no cursor yet.
    application.warp(40, 50)?;
    until(&mut desktop, "warped", "40 50")?;
    fake(MOTION_NOTIFY_EVENT, 0, 300, 310)?;
    until(&mut desktop, "warped", "300 310")?;
    application.show(application.cursor(0xffff, 0xffff)?)?;
    desktop.viewer.say("move 20 30")?;
    wait_for("the user's motion arrives", EVENT_TIMEOUT, || {
        let at = application.conn.query_pointer(application.root).ok()?.reply().ok()?;
        ((at.root_x, at.root_y) == (20, 30)).then_some(())
    })?;
    let moves = figure(&mut desktop, "cursor_moves")?;
    // To the same position as before: the user has moved the pointer since.
    fake(MOTION_NOTIFY_EVENT, 0, 300, 310)?;
    wait_for("the second motion arrives", EVENT_TIMEOUT, || {
        desktop.viewer.say("barrier").ok()?;
        (figure(&mut desktop, "cursor_moves").ok()? == moves + 1).then_some(())
    })?;
    // Where the viewer's pointer is now, its button is.
    desktop.viewer.say("buttondown 1")?;
    wait_for("the button is down there", EVENT_TIMEOUT, || {
        let at = application.conn.query_pointer(application.root).ok()?.reply().ok()?;
        let down = at.mask.contains(KeyButMask::BUTTON1);
        (down && (at.root_x, at.root_y) == (300, 310)).then_some(())
    })?;
    desktop.viewer.say("buttonup 1")?;
    Ok(())
}

#[test]
fn a_hidden_cursor_is_hidden_and_later_viewers_get_its_whole_state() -> Outcome {
    let mut desktop = Desktop::start("cursor-hidden", "640x480", &["sleep", "infinity"])?;
    let application = Application::new(&desktop)?;
    application.show(application.cursor(0x00ff, 0x0fff)?)?;
    application.warp(50, 60)?;
    until(&mut desktop, "cursor-shown", "yes")?;
    application.conn.xfixes_hide_cursor(application.root)?;
    application.done()?;
    until(&mut desktop, "cursor-shown", "no")?;
    let mut late = desktop.another_viewer()?;
    std::mem::swap(&mut desktop.viewer, &mut late);
    until(&mut desktop, "cursor-shown", "no")?;
    until(&mut desktop, "cursor", "16x16+3+5")?;
    until(&mut desktop, "cursor-pixel 0 0", "ffffffff")?;
    until(&mut desktop, "warped", "50 60")?;
    application.conn.xfixes_show_cursor(application.root)?;
    application.done()?;
    until(&mut desktop, "cursor-shown", "yes")?;
    // A cursor without pixels counts as hidden.
    application.show(application.cursor(0, 0)?)?;
    until(&mut desktop, "cursor-shown", "no")
}
