//! Question: how long does it take from a key to the changed pixels in xterm, in the native viewer's window, against
//! the same measurement on a local Xvfb?
//! A key is sent with XTEST to the Xvfb that shows the window; the Xvfb's framebuffer file is read until it changes.
//! `x` and BackSpace take turns, so that the same cell changes every time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{ConnectionExt as _, InputFocus, KEY_PRESS_EVENT, KEY_RELEASE_EVENT};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::Error;
use crate::figures::Samples;
use crate::process::{Running, Screen, Session, Xvfb, binary, wait_for};

/// How `key-to-photon` runs.
#[derive(Args)]
pub struct Options {
    /// Keys measured on each side.
    #[arg(long, default_value_t = 200)]
    keys: usize,
    /// Rounds; each measures both sides in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const SCREEN: (u32, u32) = (1024, 768);
/// Longest a key may take before the run is given up.
const KEY_LIMIT: Duration = Duration::from_secs(5);
/// Between two reads of the framebuffer: the resolution of the figure, and small against it.
const POLL: Duration = Duration::from_micros(40);
/// A person's pause between keys; also lets an echo's last pixels arrive before the next.
const PAUSE: Duration = Duration::from_millis(30);

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let (mut local, mut remote) = (Samples::default(), Samples::default());
    for _ in 0..options.rounds.max(1) {
        measure_local(options.keys / options.rounds.max(1), &mut local)?;
        measure_viewer(options.keys / options.rounds.max(1), &mut remote)?;
    }
    println!("key to photon, xterm, milliseconds");
    println!("  local Xvfb     {local}");
    println!("  native viewer  {remote}");
    println!(
        "  difference of medians {:.2} ms, ratio {:.2}",
        remote.median() - local.median(),
        remote.median() / local.median()
    );
    Ok(())
}

fn xterm(display: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = vec!["xterm".into()];
    if let Some(display) = display {
        words.extend(["-display".into(), display.into()]);
    }
    words.extend(["-geometry", "100x40+0+0", "-e", "cat"].map(String::from));
    words
}

fn measure_local(keys: usize, samples: &mut Samples) -> Result<(), Error> {
    let xvfb = Xvfb::start("local", SCREEN.0, SCREEN.1)?;
    let words = xterm(Some(&xvfb.display));
    let _xterm = Running::start("xterm", Command::new(&words[0]).args(&words[1..]).stderr(Stdio::null()))?;
    measure(&xvfb, keys, samples)
}

fn measure_viewer(keys: usize, samples: &mut Samples) -> Result<(), Error> {
    let words = xterm(None);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let session = Session::start("latency", &format!("{}x{}", SCREEN.0, SCREEN.1), &words)?;
    let xvfb = Xvfb::start("viewer", SCREEN.0, SCREEN.1)?;
    let mut command = Command::new(binary("thinc-view")?);
    command
        .arg(&session.link)
        .env("DISPLAY", &xvfb.display)
        .env("SDL_VIDEODRIVER", "x11")
        .env_remove("WAYLAND_DISPLAY");
    let _viewer = Running::start("thinc-view", command.args(["--size", "1024x768"]).stderr(Stdio::null()))?;
    measure(&xvfb, keys, samples)
}

/// Types into the largest window of `xvfb` and times each change.
fn measure(xvfb: &Xvfb, keys: usize, samples: &mut Samples) -> Result<(), Error> {
    let (x, screen_number) = RustConnection::connect(Some(&xvfb.display))?;
    let root = x.setup().roots[screen_number].root;
    let window = wait_for("a window appears", Duration::from_secs(20), || largest_window(&x, root))?;
    x.warp_pointer(x11rb::NONE, root, 0, 0, 0, 0, 300, 300)?;
    x.set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME)?;
    x.get_input_focus()?.reply()?;
    let (key, backspace) = (keycode(&x, u32::from(b'x'))?, keycode(&x, 0xff08)?);
    let screen = xvfb.screen()?;

    let rows = calibrate(&x, &screen, key, backspace)?;
    let (mut before, mut now) = (Vec::new(), Vec::new());
    for i in 0..keys {
        std::thread::sleep(PAUSE);
        screen.read_rows(rows.0, rows.1, &mut before)?;
        let start = Instant::now();
        press(&x, if i % 2 == 0 { key } else { backspace })?;
        loop {
            screen.read_rows(rows.0, rows.1, &mut now)?;
            if now != before {
                samples.push(start.elapsed().as_secs_f64() * 1e3);
                break;
            }
            if start.elapsed() > KEY_LIMIT {
                return Err(format!("key {i} changed nothing within {} s", KEY_LIMIT.as_secs()).into());
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// Waits for a screen at rest, types one key, and finds the rows that it changes.
fn calibrate(x: &RustConnection, screen: &Screen, key: u8, backspace: u8) -> Result<(usize, usize), Error> {
    let rest = |limit: Duration| -> Result<Vec<u8>, Error> {
        let (mut last, mut since, start) = (Vec::new(), Instant::now(), Instant::now());
        loop {
            let mut now = Vec::new();
            screen.read_rows(0, screen.height, &mut now)?;
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_millis(700) && last.iter().any(|&byte| byte != last[0]) {
                return Ok(last);
            }
            if start.elapsed() > limit {
                return Err("the screen does not come to rest, or shows nothing".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let before = rest(Duration::from_secs(20))?;
    press(x, key)?;
    let after = rest(Duration::from_secs(20))?;
    let rows = screen.changed_rows(&before, &after).ok_or("a key changed nothing: the window has no keyboard")?;
    press(x, backspace)?;
    rest(Duration::from_secs(20))?;
    Ok(rows)
}

fn press(x: &RustConnection, keycode: u8) -> Result<(), Error> {
    x.xtest_fake_input(KEY_PRESS_EVENT, keycode, 0, x11rb::NONE, 0, 0, 0)?;
    x.xtest_fake_input(KEY_RELEASE_EVENT, keycode, 0, x11rb::NONE, 0, 0, 0)?;
    x.flush()?;
    Ok(())
}

fn keycode(x: &RustConnection, keysym: u32) -> Result<u8, Error> {
    let (min, max) = (x.setup().min_keycode, x.setup().max_keycode);
    let map = x.get_keyboard_mapping(min, max - min + 1)?.reply()?;
    let per = usize::from(map.keysyms_per_keycode);
    let at = map.keysyms.chunks(per).position(|keysyms| keysyms.first() == Some(&keysym));
    Ok(min + u8::try_from(at.ok_or_else(|| format!("no key gives keysym {keysym:#x}"))?)?)
}

fn largest_window(x: &RustConnection, root: u32) -> Option<u32> {
    let children = x.query_tree(root).ok()?.reply().ok()?.children;
    let viewable = |window: &u32| {
        let attributes = x.get_window_attributes(*window).ok()?.reply().ok()?;
        let geometry = x.get_geometry(*window).ok()?.reply().ok()?;
        let area = u32::from(geometry.width) * u32::from(geometry.height);
        (attributes.map_state == x11rb::protocol::xproto::MapState::VIEWABLE && area > 10_000)
            .then_some((area, *window))
    };
    children.iter().filter_map(viewable).max().map(|(_, window)| window)
}
