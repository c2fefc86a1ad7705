//! Question: how long does it take from a key to the changed pixels in xterm, in the native
//! viewer's window, against the same measurement on a local Xvfb?
//! A key is sent with XTEST to the Xvfb that shows the window; the Xvfb's framebuffer file is read
//! until it changes. `x` and BackSpace take turns, so that the same cell changes every time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use super::print_table;
use crate::Error;
use crate::observe::input::Input;
use crate::observe::screen::{ClientScreen, Framebuffer};
use crate::process::{Running, Session, binary, wait_for};
use crate::results::{Measure, quantity};
use crate::stats::median;

/// Options of `key-to-photon`.
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
const KEY: &str = "x";
/// Longest a key may take before the run fails.
const KEY_LIMIT: Duration = Duration::from_secs(5);
/// Between two reads of the framebuffer: the resolution of the figure, and small against it.
const POLL: Duration = Duration::from_micros(40);
/// A person's pause between keys; the last pixels of an echo arrive within it.
const PAUSE: Duration = Duration::from_millis(30);

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let rounds = options.rounds.max(1);
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        measure_local(options.keys / rounds, &mut local)?;
        measure_viewer(options.keys / rounds, &mut remote)?;
    }
    let column = |name: &str, samples: Vec<f64>| {
        (name.to_owned(), vec![Measure::lower(quantity::PHOTON_MS, "", "ms", samples)])
    };
    let more_ms = median(&remote).zip(median(&local)).map(|(remote, local)| remote - local);
    println!("key to photon, xterm");
    print_table(&[column("local Xvfb", local), column("native viewer", remote)]);
    println!("  the viewer's median is {:.2} ms later", more_ms.unwrap_or(f64::NAN));
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

fn measure_local(keys: usize, samples: &mut Vec<f64>) -> Result<(), Error> {
    let xvfb = ClientScreen::alone("local", SCREEN)?;
    let words = xterm(Some(xvfb.display()));
    let _xterm =
        Running::start("xterm", Command::new(&words[0]).args(&words[1..]).stderr(Stdio::null()))?;
    measure(&xvfb, keys, samples)
}

fn measure_viewer(keys: usize, samples: &mut Vec<f64>) -> Result<(), Error> {
    let words = xterm(None);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let session = Session::start("latency", &format!("{}x{}", SCREEN.0, SCREEN.1), &words)?;
    let xvfb = ClientScreen::alone("viewer", SCREEN)?;
    let mut command = Command::new(binary("thinc-view")?);
    command
        .arg(&session.link)
        .env("DISPLAY", xvfb.display())
        .env("SDL_VIDEODRIVER", "x11")
        .env_remove("WAYLAND_DISPLAY");
    let _viewer =
        Running::start("thinc-view", command.args(["--size", "1024x768"]).stderr(Stdio::null()))?;
    measure(&xvfb, keys, samples)
}

/// Types into the largest window of `xvfb` and times each change.
fn measure(xvfb: &ClientScreen, keys: usize, samples: &mut Vec<f64>) -> Result<(), Error> {
    let input = Input::new(xvfb)?;
    wait_for("a window appears", Duration::from_secs(20), || input.focus_viewer().ok()?)?;
    let screen = xvfb.framebuffer()?;

    let rows = calibrate(&input, &screen)?;
    let (mut before, mut now) = (Vec::new(), Vec::new());
    for i in 0..keys {
        std::thread::sleep(PAUSE);
        screen.read_rows(rows.0, rows.1, &mut before)?;
        let start = input.key(if i % 2 == 0 { KEY } else { "BackSpace" })?;
        loop {
            screen.read_rows(rows.0, rows.1, &mut now)?;
            if now != before {
                samples.push(start.elapsed().as_secs_f64() * 1e3);
                break;
            }
            if start.elapsed() > KEY_LIMIT {
                return Err(
                    format!("key {i} changed nothing within {} s", KEY_LIMIT.as_secs()).into()
                );
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// Waits for a screen at rest, types one key, and finds the rows that it changes.
fn calibrate(input: &Input, screen: &Framebuffer) -> Result<(usize, usize), Error> {
    let rest = |limit: Duration| -> Result<Vec<u8>, Error> {
        let (mut last, mut since, start) = (Vec::new(), Instant::now(), Instant::now());
        loop {
            let mut now = Vec::new();
            screen.read_rows(0, screen.height, &mut now)?;
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_millis(700)
                && last.iter().any(|&byte| byte != last[0])
            {
                return Ok(last);
            }
            if start.elapsed() > limit {
                return Err("the screen does not come to rest, or shows nothing".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let before = rest(Duration::from_secs(20))?;
    input.key(KEY)?;
    let after = rest(Duration::from_secs(20))?;
    let rows = screen
        .changed_rows(&before, &after)
        .ok_or("a key changed nothing: the window has no keyboard")?;
    input.key("BackSpace")?;
    rest(Duration::from_secs(20))?;
    Ok(rows)
}
