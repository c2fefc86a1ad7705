//! A viewer that reconnects is sent only what differs from its screen. Noise and text, whose bytes
//! can be counted; real X server, real session, headless viewer. The session process is killed, so
//! that it has lost everything it knew about its viewer.

use std::process::Command;

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, Gcontext, ImageFormat, Window};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

const SIZE: &str = "640x480";
const WIDTH: u16 = 512;
const HEIGHT: u16 = 384;
/// Three bytes a pixel: noise is incompressible.
const PICTURE_BYTES: u64 = WIDTH as u64 * HEIGHT as u64 * 3;

struct Show {
    conn: RustConnection,
    root: Window,
    gc: Gcontext,
}

impl Show {
    fn new(desktop: &Desktop) -> Result<Show, Error> {
        let conn = desktop.connect_x()?;
        let (root, gc) = (conn.setup().roots[0].root, conn.generate_id()?);
        conn.create_gc(gc, root, &CreateGCAux::new())?;
        Ok(Show { conn, root, gc })
    }

    fn draw(&self, (x, y): (i16, i16), (width, height): (u16, u16), seed: u64) -> Outcome {
        let mut state = seed + 1;
        let len = usize::from(width) * usize::from(height) * 4;
        let mut data = Vec::with_capacity(len + 8);
        while data.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data.extend_from_slice(&state.to_le_bytes());
        }
        data.truncate(len);
        self.conn.put_image(
            ImageFormat::Z_PIXMAP,
            self.root,
            self.gc,
            width,
            height,
            x,
            y,
            0,
            24,
            &data,
        )?;
        self.conn.get_input_focus()?.reply()?;
        Ok(())
    }
}

/// Statistics of the viewer's newest connection, once it has connected so many times.
fn connection(desktop: &mut Desktop, connections: u64) -> Result<(u64, u64), Error> {
    wait_for("the viewer is back", EVENT_TIMEOUT, || {
        let stats = desktop.stats().ok()?;
        (stats["connections"].as_u64()? >= connections).then_some(())
    })?;
    desktop.viewer.say("barrier")?;
    let stats = desktop.stats()?;
    assert_eq!(stats["lossy_pixels"].as_u64(), Some(0), "all of it is known to be exact");
    let figure = |name: &str| {
        stats[name].as_u64().ok_or_else(|| Error::from(format!("stats have no {name}")))
    };
    Ok((figure("bytes_in")?, figure("bytes_out")?))
}

/// Signals the session's first process.
fn signal(desktop: &Desktop, name: &str) -> Outcome {
    let status =
        Command::new("kill").args([name, &desktop.session.pid("session")?.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill {name}: {status}").into()) }
}

#[test]
fn an_unchanged_screen_costs_next_to_nothing() -> Outcome {
    let mut desktop = Desktop::start("back", SIZE, &["sleep", "infinity"])?;
    let show = Show::new(&desktop)?;
    show.draw((60, 50), (WIDTH, HEIGHT), 1)?;
    desktop.viewer.say("barrier")?;
    let (first, _) = connection(&mut desktop, 1)?;
    assert!(first > PICTURE_BYTES, "{first} bytes: noise does not pack");
    signal(&desktop, "-KILL")?;
    let (second, said) = connection(&mut desktop, 2)?;
    println!(
        "noise: {first} bytes at first, {second} when the viewer came back, and {said} from it"
    );
    assert!(second < first / 100, "{second} bytes, after {first}");
    desktop.assert_identical("after the session's process came back")?;
    // From here on it works like any other connection.
    show.draw((0, 0), (200, 200), 3)?;
    desktop.viewer.say("barrier")?;
    desktop.assert_identical("and it goes on")
}

#[test]
fn only_the_changes_since_the_last_connection_are_sent() -> Outcome {
    let mut desktop = Desktop::start("back-changed", SIZE, &["sleep", "infinity"])?;
    let show = Show::new(&desktop)?;
    show.draw((60, 50), (WIDTH, HEIGHT), 1)?;
    desktop.viewer.say("barrier")?;
    let (first, _) = connection(&mut desktop, 1)?;
    signal(&desktop, "-STOP")?;
    show.draw((100, 100), (40, 30), 2)?;
    signal(&desktop, "-KILL")?;
    let (second, _) = connection(&mut desktop, 2)?;
    println!("{second} bytes where 40 × 30 pixels of noise had changed, after {first}");
    assert!(second > 40 * 30 * 3, "what changed was sent");
    assert!(second < first / 10, "{second} bytes, after {first}");
    desktop.assert_identical("with what changed meanwhile")
}

#[test]
fn a_page_of_text_is_restored_with_fewer_bytes_than_its_characters() -> Outcome {
    let page = "for i in $(seq 60); do echo \"$i: the quick brown fox $((i * 7919)) jumps over \
        $((i * 104729)) lazy dogs\"; done; sleep 1d";
    let application = ["xterm", "-geometry", "180x60+0+0", "-e", "sh", "-c", page];
    let mut desktop = Desktop::start("back-text", "1280x800", &application)?;
    desktop.settle_once_drawn()?;
    // A viewer that connects now gets the page at once, not line by line.
    desktop.viewer = desktop.another_viewer()?;
    let (first, _) = connection(&mut desktop, 1)?;
    signal(&desktop, "-KILL")?;
    let (second, said) = connection(&mut desktop, 2)?;
    println!(
        "a page of text: {first} bytes at first, {second} when the viewer came back, and {said} \
            from it"
    );
    assert!(second < first / 5, "{second} bytes, after {first}");
    desktop.assert_identical("after the session's process came back")
}
