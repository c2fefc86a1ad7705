//! Every peer that is installed, really run: a picture drawn in the session appears on the client's
//! screen, a key typed at the client arrives in the session, and when it ends nothing is left. A
//! peer that is missing is named. Needs the binaries of `./dev build`; THINC_BIN_DIR names another
//! folder of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::net::link::Link;
use thinc_bench::net::testbed::{Side, Testbed};
use thinc_bench::observe::account::Accounts;
use thinc_bench::observe::picture::{Picture, Rect, exact_share, psnr_db};
use thinc_bench::peers::thinc::{Setting, Thinc, Viewer};
use thinc_bench::peers::{self, Peer};
use thinc_bench::process::wait_for;
use thinc_bench::stage::{Site, Stage};

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, ImageFormat, InputFocus,
    WindowClass,
};

const SIZE: (u32, u32) = (800, 600);
/// Where the test draws, in the session.
const AREA: Rect = Rect { x: 60, y: 50, width: 400, height: 300 };
/// Longest wait for an event, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// What counts as near: JPEG at the peers' default qualities lies above 35 dB, and another picture
/// below 15.
const NEAR_DB: f64 = 28.0;

/// How alike the two screens must be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Likeness {
    /// Every pixel.
    Exact,
    /// As a lossy encoding leaves it.
    Near,
}

/// Peers take turns: two cores have no room for two of them, and cargo runs tests at once.
static TURN: Mutex<()> = Mutex::new(());

/// For an ordinary user, all tests start again in a user namespace.
fn turn() -> Result<MutexGuard<'static, ()>, Error> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    thinc_bench::net::as_user_namespace()?;
    Ok(turn)
}

fn peer(name: &str) -> Result<Box<dyn Peer>, Error> {
    let found = peers::all().into_iter().find(|peer| peer.name() == name);
    found.ok_or_else(|| format!("thinc-bench knows no peer `{name}`").into())
}

/// Of a peer that must be there.
fn check(name: &str, likeness: Likeness) -> Result<(), Error> {
    let peer = peer(name)?;
    if let Some(missing) = peer.record().missing {
        return Err(format!("{name}: {missing}").into());
    }
    run(&*peer, likeness, "lan")
}

/// A system that is not ours has faults of its own (xpra 3.1 loses a change now and then); what its
/// adapter does wrong happens each time.
const TRIES: usize = 3;

/// Of a peer that is skipped where it is missing.
fn check_installed(name: &str, likeness: Likeness) -> Result<(), Error> {
    if let Some(missing) = peer(name)?.record().missing {
        eprintln!("{name} is skipped: {missing}");
        return Ok(());
    }
    for attempt in 1..TRIES {
        match check(name, likeness) {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("{name}, try {attempt} of {TRIES}: {error}"),
        }
    }
    check(name, likeness)
}

fn run(peer: &dyn Peer, likeness: Likeness, link: &str) -> Result<(), Error> {
    let _turn = turn()?;
    let bed = Arc::new(Testbed::start(&link.parse()?, None)?);
    let before = inhabitants(&bed)?;
    let accounts = Arc::new(Accounts::new(&format!("test-{}", peer.name()))?);
    let stage = Stage::start(peer, &bed, &accounts, SIZE)?;
    shows_and_takes(&stage, likeness).map_err(|error| {
        let shot = std::env::temp_dir().join(format!(
            "thinc-bench-{}-{}.png",
            peer.name(),
            std::process::id()
        ));
        let kept = stage.site.screen.picture().and_then(|picture| picture.write_png(&shot));
        format!("{}: {error} (the client's screen: {kept:?} {})", peer.name(), shot.display())
    })?;
    let folder = stage.site.folder.path().to_owned();
    drop(stage);
    drop(accounts);
    wait_for("everything that was started has ended", LIMIT, || {
        (inhabitants(&bed).ok()? == before).then_some(())
    })
    .map_err(|error| {
        format!("{}: {error}: {:?} were there, now {:?}", peer.name(), before, inhabitants(&bed))
    })?;
    assert!(!folder.exists(), "{} is still there", folder.display());
    Ok(())
}

/// Draws in the session and looks at the client; types at the client and looks in the session.
fn shows_and_takes(stage: &Stage, likeness: Likeness) -> Result<(), Error> {
    let x = stage.connect_server()?;
    let root = x.setup().roots[0].root;
    let window = x.generate_id()?;
    let events = EventMask::KEY_PRESS | EventMask::EXPOSURE;
    let attributes = CreateWindowAux::new().override_redirect(1).event_mask(events);
    let (left, top) = (i16::try_from(AREA.x)?, i16::try_from(AREA.y)?);
    let (width, height) = (u16::try_from(AREA.width)?, u16::try_from(AREA.height)?);
    x.create_window(
        24,
        window,
        root,
        left,
        top,
        width,
        height,
        0,
        WindowClass::INPUT_OUTPUT,
        0,
        &attributes,
    )?;
    x.map_window(window)?;
    let gc = x.generate_id()?;
    x.create_gc(gc, window, &CreateGCAux::new())?.check()?;
    wait_for("the test's window is shown in the session", LIMIT, || match x.poll_for_event() {
        Ok(Some(Event::Expose(_))) => Some(()),
        _ => None,
    })?;
    let wanted = picture();
    let bytes: Vec<u8> = wanted.pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
    // In strips, as one request of a plain connection holds 256 kB.
    let rows = 50;
    for (index, strip) in bytes.chunks(rows * AREA.width as usize * 4).enumerate() {
        let (strip_rows, y) = (strip.len() / (AREA.width as usize * 4), index * rows);
        let (strip_rows, y) = (u16::try_from(strip_rows)?, i16::try_from(y)?);
        x.put_image(ImageFormat::Z_PIXMAP, window, gc, width, strip_rows, 0, y, 0, 24, strip)?;
    }
    x.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME)?.check()?;

    let seen = Rect { x: stage.view.x + AREA.x, y: stage.view.y + AREA.y, ..AREA };
    let mut last = None;
    let shown =
        wait_for("the picture drawn in the session is on the client's screen", LIMIT, || {
            let found = stage.site.screen.picture().ok()?.crop(seen);
            let (exact, db) = (exact_share(&found, &wanted), psnr_db(&found, &wanted));
            last = Some((exact, db));
            (if likeness == Likeness::Exact { exact == 1.0 } else { db >= NEAR_DB }).then_some(())
        });
    shown.map_err(|error| format!("{error}; exact share and PSNR at last: {last:?}"))?;

    for (key, keysym) in [("a", 0x61), ("Return", 0xff0d)] {
        stage.input.key(key)?;
        let mapping = x.get_keyboard_mapping(x.setup().min_keycode, 1)?.reply()?;
        assert!(mapping.keysyms_per_keycode > 0, "the session's X server has a keyboard");
        wait_for(
            &format!("the key {key} typed at the client arrives in the session"),
            LIMIT,
            || {
                let Ok(Some(Event::KeyPress(press))) = x.poll_for_event() else { return None };
                let keysyms = x.get_keyboard_mapping(press.detail, 1).ok()?.reply().ok()?.keysyms;
                (keysyms.first() == Some(&keysym)).then_some(())
            },
        )?;
    }
    x.destroy_window(window)?.check()?;
    Ok(())
}

/// Something of everything: flat areas, fine lines as text has, and a smooth slope as
/// photographs have.
fn picture() -> Picture {
    let mut picture = Picture::new(AREA.width, AREA.height, 0x00ff_ffff);
    for (index, pixel) in picture.pixels.iter_mut().enumerate() {
        let (x, y) = (index as u32 % AREA.width, index as u32 / AREA.width);
        *pixel = match (x / 100, y / 100) {
            (0, _) => 0x00c0_2020,
            (1, 0) if (x / 3 + y / 2) % 4 == 0 => 0x0000_0000,
            (1, _) => 0x00ff_ffff,
            (2, _) => ((x - 200) * 2) << 16 | (y / 2) << 8 | 0x40,
            _ => 0x0020_40a0,
        };
    }
    picture
}

/// Process ids in the two namespaces of the testbed.
fn inhabitants(bed: &Testbed) -> Result<BTreeSet<u32>, Error> {
    let mut spaces = BTreeSet::new();
    for side in [Side::Server, Side::Client] {
        let output = bed.command(side, "readlink").arg("/proc/self/ns/net").output()?;
        assert!(output.status.success(), "readlink in a namespace: {output:?}");
        spaces.insert(PathBuf::from(String::from_utf8(output.stdout)?.trim()));
    }
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end between the questions; a zombie has no namespace.
        if fs::read_link(entry.path().join("ns/net")).is_ok_and(|space| spaces.contains(&space)) {
            found.insert(pid);
        }
    }
    Ok(found)
}

#[test]
fn local() -> Result<(), Error> {
    check("local", Likeness::Exact)
}

#[test]
fn x11() -> Result<(), Error> {
    check("x11", Likeness::Exact)
}

#[test]
fn thinc() -> Result<(), Error> {
    check("thinc", Likeness::Exact)
}

/// With a part of it turned off it is right all the same.
#[test]
fn thinc_without_a_part() -> Result<(), Error> {
    check("thinc-fifo", Likeness::Exact)?;
    check("thinc-offscreen-on", Likeness::Exact)?;
    check("thinc-offscreen-off", Likeness::Exact)?;
    check("thinc-lossless", Likeness::Exact)
}

#[test]
fn thinc_at_each_quality() -> Result<(), Error> {
    check("thinc-exact", Likeness::Exact)?;
    check("thinc-high", Likeness::Exact)?;
    check("thinc-medium", Likeness::Exact)?;
    check("thinc-low", Likeness::Exact)
}

#[test]
fn thinc_by_each_transport() -> Result<(), Error> {
    check("thinc-quic", Likeness::Exact)?;
    check("thinc-tcp", Likeness::Exact)?;
    check("thinc-quic-plain", Likeness::Exact)?;
    check("thinc-tcp-plain", Likeness::Exact)
}

#[test]
fn thinc_web() -> Result<(), Error> {
    check("thinc-web", Likeness::Exact)?;
    check("thinc-websocket", Likeness::Exact)?;
    check("thinc-webtransport", Likeness::Exact)
}

#[test]
fn thinc_firefox() -> Result<(), Error> {
    check("thinc-firefox", Likeness::Exact)
}

#[test]
fn thinc_ssh() -> Result<(), Error> {
    check_installed("thinc-ssh", Likeness::Exact)?;
    check_installed("thinc-ssh-quic", Likeness::Exact)
}

#[test]
fn tigervnc() -> Result<(), Error> {
    check_installed("tigervnc", Likeness::Near)
}

#[test]
fn tigervnc_lossless() -> Result<(), Error> {
    check_installed("tigervnc-lossless", Likeness::Exact)
}

#[test]
fn turbovnc() -> Result<(), Error> {
    check_installed("turbovnc", Likeness::Near)
}

/// `vglrun` stands before OpenGL programs only; the rest is the same.
#[test]
fn with_virtualgl() -> Result<(), Error> {
    check_installed("tigervnc-vgl", Likeness::Near)?;
    check_installed("turbovnc-vgl", Likeness::Near)
}

#[test]
fn kasmvnc() -> Result<(), Error> {
    check_installed("kasmvnc", Likeness::Near)
}

#[test]
fn xpra() -> Result<(), Error> {
    check_installed("xpra", Likeness::Near)
}

#[test]
fn xrdp() -> Result<(), Error> {
    check_installed("xrdp", Likeness::Near)
}

#[test]
fn xrdp_remotefx() -> Result<(), Error> {
    check_installed("xrdp-remotefx", Likeness::Near)
}

#[test]
fn xspice() -> Result<(), Error> {
    check_installed("xspice", Likeness::Near)
}

#[test]
fn xspice_lossless() -> Result<(), Error> {
    check_installed("xspice-lossless", Likeness::Exact)
}

#[test]
fn nxagent() -> Result<(), Error> {
    check_installed("nxagent", Likeness::Near)
}

#[test]
fn over_a_long_link() -> Result<(), Error> {
    run(&*peer("thinc")?, Likeness::Exact, "wan")
}

/// It is far enough for QUIC, of which nothing is heard.
#[test]
fn where_no_udp_passes() -> Result<(), Error> {
    run(&*peer("thinc")?, Likeness::Exact, "80211g:rtt=20ms,udp=off")
}

/// The tunnel shows the session from the start, and stays.
#[test]
fn ssh_where_no_udp_passes() -> Result<(), Error> {
    let peer = Thinc { viewer: Viewer::Ssh, setting: Setting::Default };
    if let Some(missing) = peer.record().missing {
        eprintln!("ssh is skipped: {missing}");
        return Ok(());
    }
    run(&peer, Likeness::Exact, "80211g:rtt=20ms,udp=off")
}

#[test]
fn two_of_a_peer_at_once() -> Result<(), Error> {
    let _turn = turn()?;
    let bed = Arc::new(Testbed::start(&Link::preset("lan")?, None)?);
    let accounts = Arc::new(Accounts::new("test-two")?);
    for name in ["thinc", "tigervnc"] {
        let peer = peer(name)?;
        if peer.record().missing.is_some() {
            continue;
        }
        let first = Stage::start(&*peer, &bed, &accounts, SIZE)?;
        let second = Stage::start(&*peer, &bed, &accounts, SIZE)?;
        shows_and_takes(&first, Likeness::Near)
            .map_err(|error| format!("first {name}: {error}"))?;
        drop(first);
        shows_and_takes(&second, Likeness::Near)
            .map_err(|error| format!("second {name}: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_peer_that_cannot_start_says_why_and_leaves_nothing() -> Result<(), Error> {
    let _turn = turn()?;
    let bed = Arc::new(Testbed::start(&Link::preset("lan")?, None)?);
    let accounts = Arc::new(Accounts::new("test-broken")?);
    let thinc = peer("thinc")?;
    let site = Site::start("broken", &bed, &accounts, SIZE, thinc.listen())?;
    let before = inhabitants(&bed)?;
    // In the way of the file that says that the session is ready: its X server runs by then.
    fs::create_dir(site.folder.path().join("ready.json"))?;
    let Err(error) = thinc.start(&site) else {
        return Err("a session was ready without saying so".into());
    };
    assert!(error.to_string().contains("end of thinc-serve.log"), "{error}");
    wait_for("what was started has ended", LIMIT, || {
        (inhabitants(&bed).ok()? == before).then_some(())
    })?;
    Ok(())
}

#[test]
fn every_peer_has_a_record_and_a_test() {
    let mut names = BTreeSet::new();
    for peer in peers::all() {
        let record = peer.record();
        assert!(names.insert(peer.name()), "two peers are called {}", peer.name());
        assert!(!record.title.is_empty() && !record.settings.is_empty(), "{record:?}");
        // Either its versions are known, or what to install.
        assert_eq!(record.version.is_empty(), record.missing.is_some(), "{record:?}");
        assert_ne!(record.missing.as_deref(), Some(""), "{record:?}");
        println!("{}: {record:?}", peer.name());
    }
    let tested = include_str!("peers.rs");
    for name in names {
        assert!(tested.contains(&format!("\"{name}\", Likeness::")), "no test starts {name}");
    }
}
