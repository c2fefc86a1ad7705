//! Pixels that are shown again cost almost nothing: a looping animation, pages in the history, and
//! a viewer that reconnects. The images are noise, and so many that the stream coder has forgotten
//! the first when it is repeated. Real X server, real session, headless viewer; the screens are
//! compared byte for byte.

use std::fs;

use thinc_bench::Error;
use thinc_bench::process::Folder;
use thinc_e2e::Desktop;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, Gcontext, ImageFormat, Window};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

const SIZE: &str = "640x480";
const WIDTH: u16 = 320;
const HEIGHT: u16 = 192;
/// Three bytes a pixel: noise is incompressible.
const PICTURE_BYTES: u64 = WIDTH as u64 * HEIGHT as u64 * 3;

/// An application that shows pictures.
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

    /// Image `id`, at a place where it covers whole cells in part and others not.
    fn draw(&self, id: u64) -> Outcome {
        let mut state = id + 1;
        let mut data = Vec::with_capacity(usize::from(WIDTH) * usize::from(HEIGHT) * 4);
        while data.len() < data.capacity() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data.extend_from_slice(&state.to_le_bytes());
        }
        self.conn.put_image(
            ImageFormat::Z_PIXMAP,
            self.root,
            self.gc,
            WIDTH,
            HEIGHT,
            100,
            70,
            0,
            24,
            &data,
        )?;
        self.conn.get_input_focus()?.reply()?;
        Ok(())
    }
}

/// Shows these images one by one, each until the viewer has it; returns the bytes that took.
fn shown(
    desktop: &mut Desktop,
    show: &Show,
    pictures: impl Iterator<Item = u64>,
) -> Result<u64, Error> {
    desktop.viewer.say("barrier")?;
    let before = bytes_in(desktop)?;
    for picture in pictures {
        show.draw(picture)?;
        desktop.viewer.say("barrier")?;
    }
    Ok(bytes_in(desktop)? - before)
}

fn bytes_in(desktop: &mut Desktop) -> Result<u64, Error> {
    desktop.stats()?["bytes_in"].as_u64().ok_or_else(|| "stats have no bytes_in".into())
}

#[test]
fn the_second_round_of_a_loop_costs_almost_nothing() -> Outcome {
    let mut desktop = Desktop::start("cache-loop", SIZE, &["sleep", "infinity"])?;
    let show = Show::new(&desktop)?;
    let first = shown(&mut desktop, &show, 0..24)?;
    let second = shown(&mut desktop, &show, 0..24)?;
    desktop.assert_identical("after the second round")?;
    println!("24 pictures of {PICTURE_BYTES} bytes: {first} bytes, and {second} the second time");
    assert!(first > 24 * PICTURE_BYTES, "{first} bytes: noise does not pack");
    assert!(second < first / 20, "{second} bytes, after {first}");
    // Back to earlier images after another one, which may be cached too.
    let back = shown(&mut desktop, &show, [100, 7, 100, 8].into_iter())?;
    desktop.assert_identical("gone back")?;
    assert!(back < 2 * PICTURE_BYTES, "{back} bytes");
    Ok(())
}

#[test]
fn a_viewer_that_offers_no_cache_caches_nothing() -> Outcome {
    let mut desktop = Desktop::start("cache-none", SIZE, &["sleep", "infinity"])?;
    desktop.viewer = desktop.another_viewer_with(&["--cache", "0"])?;
    let show = Show::new(&desktop)?;
    shown(&mut desktop, &show, 0..4)?;
    shown(&mut desktop, &show, 0..4)?;
    let commands = desktop.stats()?["commands"].take();
    assert!(commands["raw"]["count"].as_u64() >= Some(8), "{commands}");
    assert_eq!((&commands["keep"]["count"], &commands["recall"]["count"]), (&0.into(), &0.into()));
    desktop.assert_identical("without a cache")
}

#[test]
fn a_restarted_viewer_resumes_its_cache_from_disk() -> Outcome {
    let mut desktop = Desktop::start("cache-disk", SIZE, &["sleep", "infinity"])?;
    let folder = Folder::new("cache-disk")?;
    let dir = folder.path().join("kept");
    let options = ["--cache-dir", dir.to_str().ok_or("a path in UTF-8")?];
    desktop.viewer = desktop.another_viewer_with(&options)?;
    let show = Show::new(&desktop)?;
    let first = shown(&mut desktop, &show, 0..12)?;
    ended(&mut desktop)?;
    let files: Vec<_> = fs::read_dir(&dir)?.collect::<Result<_, _>>()?;
    assert_eq!(files.len(), 1, "one session on one server");
    desktop.viewer = desktop.another_viewer_with(&options)?;
    let second = shown(&mut desktop, &show, 0..12)?;
    desktop.assert_identical("after the viewer was started again")?;
    println!("12 pictures: {first} bytes, and {second} after the viewer was started again");
    assert!(second < first / 20, "{second} bytes, after {first}");
    // A file that was changed on disk is rejected, and its pixels are sent again.
    ended(&mut desktop)?;
    let path = files[0].path();
    let mut bytes = fs::read(&path)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes)?;
    desktop.viewer = desktop.another_viewer_with(&options)?;
    assert!(shown(&mut desktop, &show, 0..12)? > 11 * PICTURE_BYTES);
    desktop.assert_identical("with a damaged file")
}

/// Ends the viewer, which has written its files when this returns.
fn ended(desktop: &mut Desktop) -> Outcome {
    // After the barrier the session knows that the last image was applied: only acknowledged pixels
    // can be resumed.
    desktop.viewer.say("barrier")?;
    // A viewer without files replaces it.
    let other = desktop.another_viewer_with(&["--cache", "0"])?;
    std::mem::replace(&mut desktop.viewer, other).finish()
}
