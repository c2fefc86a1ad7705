//! Sessions behind a real sshd: started, left and found again by `thinc-view ssh://`, and what
//! happens to them and to typed input when the connection breaks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::process::{Headless, binary, wait_for};
use thinc_e2e::EVENT_TIMEOUT;
use thinc_e2e::sshd::Sshd;
use thinc_e2e::{Image, descendants, typewriter};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};
use x11rb::rust_connection::{DefaultStream, RustConnection};

type Outcome = Result<(), Error>;

/// A session with a terminal that writes what is typed to a file, a viewer of it with the pointer
/// inside, and the file.
fn start(sshd: &Sshd) -> Result<(Headless, PathBuf), Error> {
    let paper = sshd.folder().join("paper");
    let command = typewriter(&paper);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut viewer = sshd.viewer("/paper", &command)?;
    viewer.say("move 100 100")?;
    wait_for("the terminal is there", EVENT_TIMEOUT, || fs::metadata(&paper).ok())?;
    // Once the first key arrives, the terminal has the keyboard focus.
    wait_for("the terminal takes what is typed", EVENT_TIMEOUT, || {
        viewer.say("type .").ok()?;
        (!fs::read(&paper).ok()?.is_empty()).then_some(())
    })?;
    viewer.say("type !")?;
    written(&paper, "!")?;
    Ok((viewer, paper))
}

fn read(paper: &Path) -> String {
    fs::read_to_string(paper).unwrap_or_default()
}

/// Waits until the file ends with this text; returns all of it.
fn written(paper: &Path, end: &str) -> Result<String, Error> {
    wait_for(&format!("{end:?} is written"), EVENT_TIMEOUT, || {
        Some(read(paper)).filter(|text| text.ends_with(end))
    })
}

fn stats(viewer: &mut Headless, sshd: &Sshd) -> Result<serde_json::Value, Error> {
    let file = sshd.folder().join("stats.json");
    viewer.say(&format!("stats {}", file.display()))?;
    Ok(serde_json::from_str(&fs::read_to_string(&file)?)?)
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children =
        tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    children
        .flat_map(|text| {
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// The `thinc session --stdio` processes that sshd started.
fn relays(sshd: &Sshd) -> Vec<u32> {
    let is_relay = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(2) == Some(b"--stdio")
    };
    descendants(sshd.pid()).into_iter().filter(is_relay).collect()
}

fn kill(pids: &[u32]) -> Outcome {
    // 0 would signal the whole test run.
    assert!(!pids.is_empty() && !pids.contains(&0), "there is something to be killed: {pids:?}");
    for pid in pids {
        Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
    }
    Ok(())
}

fn pid(session: &serde_json::Value, part: &str) -> u32 {
    session["pids"][part].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
}

/// A client of the session's display.
fn connect_x(session: &serde_json::Value) -> Result<RustConnection, Error> {
    let number = session["display"].as_str().unwrap_or_default().trim_start_matches(':').to_owned();
    let socket = std::os::unix::net::UnixStream::connect(format!("/tmp/.X11-unix/X{number}"))?;
    let authority = fs::read(session["xauthority"].as_str().unwrap_or_default())?;
    let cookie = authority.last_chunk::<16>().ok_or("an Xauthority holds a cookie")?.to_vec();
    let (stream, _) = DefaultStream::from_unix_stream(socket)?;
    Ok(RustConnection::connect_to_stream_with_auth_info(
        stream,
        0,
        b"MIT-MAGIC-COOKIE-1".to_vec(),
        cookie,
    )?)
}

#[test]
fn a_session_is_started_left_and_found_again() -> Outcome {
    let sshd = Sshd::start("again", "")?;
    let mut viewer = sshd.viewer("", &["xterm"])?;
    assert_eq!(viewer.say("size")?, "1280x800");
    viewer.say("wait-quiet")?;
    viewer.finish()?;
    let found = sshd.sessions()?;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0]["name"].as_str(), found[0]["listen"].as_str()),
        (Some("xterm"), None),
        "{}",
        found[0]
    );
    let (mut by_command, mut by_name) = (sshd.viewer("", &["xterm"])?, sshd.viewer("/xterm", &[])?);
    for viewer in [&mut by_command, &mut by_name] {
        viewer.say("wait-quiet")?;
    }
    assert_eq!(by_command.say("hash")?, by_name.say("hash")?);
    let again = sshd.sessions()?;
    assert_eq!((again.len(), pid(&again[0], "supervisor")), (1, pid(&found[0], "supervisor")));
    Ok(())
}

/// They are configured in the user's ssh configuration only.
#[test]
fn jump_hosts_and_shared_connections_work_as_configured() -> Outcome {
    let sshd = Sshd::start("hosts", "")?;
    let mut beyond = sshd.viewer_at("beyond", &["xterm"])?;
    beyond.say("wait-quiet")?;
    assert_eq!(sshd.connections(), 2, "one to the jump host, one through it");
    let mut viewers = Vec::new();
    for _ in 0..2 {
        let mut viewer = sshd.viewer_at("shared/xterm", &[])?;
        viewer.say("wait-quiet")?;
        assert_eq!(viewer.say("hash")?, beyond.say("hash")?);
        viewers.push(viewer);
    }
    assert_eq!(sshd.connections(), 3, "both go over one connection");
    Ok(())
}

#[test]
fn output_of_the_remote_shell_is_ignored_up_to_a_limit() -> Outcome {
    let sshd = Sshd::start("noise", "echo Welcome; printf 'no end of line'")?;
    let mut viewer = sshd.viewer("", &["xterm"])?;
    assert_eq!(viewer.say("size")?, "1280x800");
    viewer.finish()?;
    let endless = Sshd::start("endless", "head -c 100000 /dev/zero")?;
    let output = endless.view("there", &binary("thinc")?, &[])?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains(".bashrc"), "{words}");
    assert_eq!((output.status.code(), words.lines().count()), (Some(6), 1), "{words}");
    Ok(())
}

#[test]
fn errors_on_the_host_are_reported_in_one_line() -> Outcome {
    let sshd = Sshd::start("missing", "")?;
    let thinc = binary("thinc")?;
    let wrapped = |name: &str, before: &str| {
        sshd.script(name, &format!("{before}\nexec {} \"$@\"", thinc.display()))
    };
    let old =
        sshd.script("old", "echo \"error: unexpected argument '--stdio' found\" >&2; exit 2")?;
    let closed = sshd.script("closed", "echo This account is currently not available.; exit 1")?;
    for (place, thinc, more, code, expected) in [
        (
            "there",
            Path::new("no-such-thinc"),
            &[][..],
            3,
            "no-such-thinc was not found on there: install thinc there",
        ),
        ("there", &old, &[], 6, "thinc on there has another version"),
        ("there", &closed, &[], 3, "there: This account is currently not available."),
        (
            "there",
            &wrapped("x", "export THINC_XORG=/nowhere")?,
            &["--", "xterm"],
            3,
            "there: THINC_XORG is /nowhere",
        ),
        (
            "there",
            &wrapped("d", "export THINC_DRIVER_DIR=/nowhere")?,
            &["--", "xterm"],
            3,
            "there is no thinc_drv.so",
        ),
        (
            "there",
            &thinc,
            &["--", "no-such-program"],
            3,
            "there: there is no command no-such-program",
        ),
        ("no-such-user@there", &thinc, &[], 5, "Permission denied"),
        ("there:1", &thinc, &[], 3, "ssh cannot reach there"),
        ("-oProxyCommand=touch", &thinc, &[], 2, "invalid ssh address"),
    ] {
        let output = sshd.view(place, thinc, more)?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.contains(expected), "{place}: {words}");
        assert_eq!(
            (output.status.code(), words.lines().count()),
            (Some(code), 1),
            "{place}: {words}"
        );
    }
    assert!(sshd.sessions()?.is_empty());
    Ok(())
}

#[test]
fn typed_input_arrives_once_whatever_process_is_killed() -> Outcome {
    let sshd = Sshd::start("cut", "")?;
    let (mut viewer, paper) = start(&sshd)?;
    let before = read(&paper);
    let mut typed = String::new();
    for number in 0..90u32 {
        match number {
            20 => kill(&children(viewer.pid()))?,
            40 => kill(&[pid(&sshd.sessions()?[0], "session")])?,
            60 => kill(&relays(&sshd))?,
            _ => {}
        }
        let word = format!("{number:02}-");
        viewer.say(&format!("type {word}"))?;
        typed += &word;
        // Everything typed before this has arrived; what follows uses an open connection.
        if number % 20 == 15 {
            viewer.say("barrier")?;
        }
    }
    viewer.say("barrier")?;
    let text = written(&paper, "87-88-89-")?;
    let text = text.strip_prefix(&before).ok_or("what was written stays written")?;
    // In order, and nothing twice: the text is what was typed, without what was in flight at each
    // cut.
    let connections = stats(&mut viewer, &sshd)?["connections"].as_u64().unwrap_or(0);
    assert!(connections >= 3);
    assert!(
        fewest_pieces(text, &typed).is_some_and(|pieces| pieces <= connections),
        "{connections} connections: {text}"
    );
    // How much is lost depends on the speed of typing; text before a barrier, or typed over an open
    // connection, must be complete.
    for (from, to) in [(0, 16), (76, 90)] {
        let whole: String = (from..to).map(|number| format!("{number:02}-")).collect();
        assert!(text.contains(&whole), "{whole} in {text}");
    }
    Ok(())
}

/// The smallest number of consecutive pieces of `whole` that `text` consists of; `None` if it does
/// not.
fn fewest_pieces(text: &str, whole: &str) -> Option<u64> {
    // For each position in `whole`: the fewest pieces of the part of `text` read so far, if its
    // last character is at that position.
    let mut fewest: Vec<Option<u64>> = Vec::new();
    for (at, character) in text.chars().enumerate() {
        let mut before: Option<u64> = if at == 0 { Some(0) } else { None };
        let next = whole.chars().enumerate().map(|(place, other)| {
            let goes_on = place.checked_sub(1).and_then(|last| *fewest.get(last)?);
            let begins = before.map(|pieces| pieces + 1);
            before = before.into_iter().chain(fewest.get(place).copied().flatten()).min();
            let pieces = goes_on.into_iter().chain(begins).min();
            pieces.filter(|_| other == character)
        });
        fewest = next.collect();
    }
    fewest.into_iter().flatten().min()
}

#[test]
fn pieces_of_a_text_are_counted() {
    let counted = |text| fewest_pieces(text, "00-01-02-03-");
    assert_eq!(counted("00-01-02-03-"), Some(1));
    assert_eq!(counted("00-0-03-"), Some(2));
    assert_eq!(counted("0-1-2-3"), Some(4));
    assert_eq!(counted("00-02-01-"), None);
    assert_eq!(counted("01-01-"), None);
}

#[test]
fn input_over_a_frozen_path_arrives_once_over_another_connection() -> Outcome {
    let mut sshd = Sshd::start("frozen", "")?;
    // ssh itself would not notice within an hour: the viewer has to.
    sshd.ssh_options = "-oServerAliveInterval=3600".to_owned();
    let (mut viewer, paper) = start(&sshd)?;
    let session = sshd.sessions()?[0].clone();
    let x = connect_x(&session)?;
    let is_held = |x: &RustConnection| {
        let keys = x.query_keymap().ok().and_then(|asked| asked.reply().ok());
        keys.is_some_and(|keys| keys.keys.iter().any(|byte| *byte != 0))
    };
    viewer.say("keydown Shift_L")?;
    wait_for("the key is down", EVENT_TIMEOUT, || is_held(&x).then_some(()))?;
    viewer.say("barrier")?;
    let before = read(&paper);

    sshd.freeze();
    viewer.say("type kept-")?;
    wait_for("the viewer is back over another connection", EVENT_TIMEOUT, || {
        (stats(&mut viewer, &sshd).ok()?["connections"].as_u64() >= Some(2)).then_some(())
    })?;
    assert_eq!(written(&paper, "kept-")?, format!("{before}kept-"));
    // The old connection's keys were released with it; Shift is still held here, and is released
    // when it is released here.
    assert!(is_held(&x), "Shift is still down after reconnecting");
    viewer.say("keyup Shift_L")?;
    wait_for("the key is up", EVENT_TIMEOUT, || (!is_held(&x)).then_some(()))?;
    viewer.say("type after-")?;
    assert_eq!(written(&paper, "after-")?, format!("{before}kept-after-"));
    // The old connection continues, with everything that was sent to it.
    sshd.thaw();
    wait_for("the old connection has ended", EVENT_TIMEOUT, || {
        (relays(&sshd).len() == 1).then_some(())
    })?;
    viewer.say("type end")?;
    assert_eq!(written(&paper, "end")?, format!("{before}kept-after-end"));
    assert!(!is_held(&x), "no key is held");
    Ok(())
}

#[test]
fn a_screen_is_complete_after_broken_connections() -> Outcome {
    let sshd = Sshd::start("page", "")?;
    let mut viewer = sshd.viewer("/page", &["sleep", "infinity"])?;
    viewer.say("wait-quiet")?;
    let session = sshd.sessions()?[0].clone();
    let client = |program: &str| {
        let mut command = Command::new(program);
        let text = |key: &str| session[key].as_str().unwrap_or_default().to_owned();
        command.env("DISPLAY", text("display")).env("XAUTHORITY", text("xauthority"));
        command
    };
    let mut drawing = client("x11perf");
    let drawing =
        drawing.args(["-repeat", "1", "-time", "1", "-putimage500", "-scroll500", "-rect500"]);
    let mut drawing = drawing.stdout(std::process::Stdio::null()).spawn()?;
    for _ in 0..3 {
        let bytes = |viewer: &mut Headless| stats(viewer, &sshd).ok()?["bytes_in"].as_u64();
        let connections = stats(&mut viewer, &sshd)?["connections"].as_u64();
        let so_far = bytes(&mut viewer);
        wait_for("some of it arrives", EVENT_TIMEOUT, || {
            (bytes(&mut viewer) != so_far).then_some(())
        })?;
        kill(&children(viewer.pid()))?;
        wait_for("the viewer is back", EVENT_TIMEOUT, || {
            (stats(&mut viewer, &sshd).ok()?["connections"].as_u64() > connections).then_some(())
        })?;
    }
    assert!(drawing.wait()?.success());
    client("xsetroot").args(["-mod", "5", "7", "-fg", "#204060", "-bg", "#a0c0e0"]).status()?;
    let x = connect_x(&session)?;
    let root = x.setup().roots[0].root;
    let (width, height) = (x.setup().roots[0].width_in_pixels, x.setup().roots[0].height_in_pixels);
    viewer.say("wait-quiet")?;
    let screen = x.get_image(ImageFormat::Z_PIXMAP, root, 0, 0, width, height, !0)?.reply()?;
    let file = sshd.folder().join("view.png");
    viewer.say(&format!("screenshot {}", file.display()))?;
    let view = Image::read_png(&file)?;
    let screen: Vec<u32> =
        screen.data.chunks_exact(4).map(|p| u32::from_le_bytes([p[0], p[1], p[2], 0])).collect();
    assert!(view.pixels == screen && view.colors() >= 2, "the view is the screen");
    Ok(())
}

/// UDP sockets that the session process has open.
fn udp_sockets(session: &serde_json::Value) -> Result<usize, Error> {
    let process = pid(session, "session");
    let table = fs::read_to_string(format!("/proc/{process}/net/udp"))?;
    let inodes: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).collect();
    let opened = fs::read_dir(format!("/proc/{process}/fd"))?.flatten();
    let links = opened.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(links
        .filter(|link| {
            let link = link.to_string_lossy();
            inodes.iter().any(|inode| link == format!("socket:[{inode}]"))
        })
        .count())
}

fn transport(viewer: &mut Headless, sshd: &Sshd) -> Option<String> {
    Some(stats(viewer, sshd).ok()?["transport"].as_str()?.to_owned())
}

#[test]
fn a_viewer_moves_to_quic_and_what_is_typed_meanwhile_arrives_once() -> Outcome {
    let mut sshd = Sshd::start("quic", "")?;
    // A terminal that takes input, so that the second viewer can type from its first moment on.
    let (first, paper) = start(&sshd)?;
    first.finish()?;
    let before = read(&paper);
    sshd.viewer_options.clear();
    let mut viewer = sshd.viewer("/paper", &[])?;
    let mut typed = String::new();
    let mut number = 0;
    wait_for("the viewer is connected over QUIC", EVENT_TIMEOUT, || {
        let word = format!("{number:03}-");
        number += 1;
        viewer.say(&format!("type {word}")).ok()?;
        typed += &word;
        transport(&mut viewer, &sshd).filter(|name| name == "quic")
    })?;
    viewer.say("type end")?;
    assert_eq!(written(&paper, "end")?, format!("{before}{typed}end"));
    // ssh ends, and the viewer stays.
    wait_for("ssh has ended", EVENT_TIMEOUT, || children(viewer.pid()).is_empty().then_some(()))?;
    viewer.say("type .more")?;
    written(&paper, ".more")?;
    let figures = stats(&mut viewer, &sshd)?;
    assert_eq!(figures["connections"], 2, "the tunnel and QUIC");
    let session = sshd.sessions()?[0].clone();
    assert_eq!(udp_sockets(&session)?, 1);
    viewer.finish()?;
    wait_for("the UDP port is closed", EVENT_TIMEOUT, || {
        (udp_sockets(&session).ok()? == 0).then_some(())
    })?;
    Ok(())
}

#[test]
fn the_tunnel_opens_no_udp_port_and_stays_where_none_is_free() -> Outcome {
    let mut sshd = Sshd::start("no-udp", "")?;
    let mut viewer = sshd.viewer("/s", &["sleep", "infinity"])?;
    viewer.say("wait-quiet")?;
    let session = sshd.sessions()?[0].clone();
    assert_eq!(udp_sockets(&session)?, 0, "--transport tunnel");
    viewer.finish()?;
    let taken = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port();
    sshd.viewer_options = vec!["--udp-ports".into(), format!("{port}-{port}")];
    let mut viewer = sshd.viewer("/s", &[])?;
    viewer.say("wait-quiet")?;
    let figures = stats(&mut viewer, &sshd)?;
    assert_eq!((&figures["transport"], &figures["connections"]), (&"ssh".into(), &1.into()));
    let why = figures["quic_failure"].as_str().unwrap_or_default();
    assert!(why.contains(&format!("{port}-{port}")) && why.contains("in use"), "{why}");
    assert_eq!(udp_sockets(&session)?, 0);
    Ok(())
}

#[test]
fn a_viewer_over_quic_survives_the_session_process() -> Outcome {
    let mut sshd = Sshd::start("quic-cut", "")?;
    let (first, paper) = start(&sshd)?;
    first.finish()?;
    sshd.viewer_options.clear();
    let mut viewer = sshd.viewer("/paper", &[])?;
    let is_quic = |viewer: &mut Headless| transport(viewer, &sshd).filter(|name| name == "quic");
    wait_for("it is connected over QUIC", EVENT_TIMEOUT, || is_quic(&mut viewer))?;
    // The statistics name the transport before the session's first message has come over it.
    let connections = |viewer: &mut Headless| stats(viewer, &sshd).ok()?["connections"].as_u64();
    wait_for("the session answers over QUIC", EVENT_TIMEOUT, || {
        connections(&mut viewer).filter(|&count| count == 2)
    })?;
    let logins = sshd.connections();
    kill(&[pid(&sshd.sessions()?[0], "session")])?;
    wait_for("it is back", EVENT_TIMEOUT, || connections(&mut viewer).filter(|&count| count >= 3))?;
    viewer.say("type again")?;
    written(&paper, "again")?;
    assert!(is_quic(&mut viewer).is_some(), "the restarted process has opened the port again");
    assert_eq!(sshd.connections(), logins, "without another login");
    Ok(())
}

/// How long after ssh's own login the first complete screen is shown; printed, because machines
/// differ.
#[test]
#[ignore = "measures: cargo test --release -p thinc-e2e --test ssh -- --ignored --nocapture"]
fn the_first_screen_is_shown_soon_after_the_login() -> Outcome {
    const TIMES: usize = 9;
    let sshd = Sshd::start("first", "")?;
    let thinc = binary("thinc")?;
    let median = |mut measure: Box<dyn FnMut(usize) -> Outcome>| {
        let mut times = Vec::new();
        for number in 0..TIMES {
            let begun = Instant::now();
            measure(number)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok::<_, Error>(times[TIMES / 2])
    };
    let login = median(Box::new(|_| {
        assert!(sshd.ssh("true").status()?.success());
        Ok(())
    }))?;
    let view = |place: &str| {
        let output = sshd.view(place, &thinc, &["--when-quiet", "--", "xterm"])?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    let new = median(Box::new(|number| view(&format!("there/new-{number}"))))?;
    let running = median(Box::new(|_| view("there/new-0")))?;
    let over = |time: Duration| time.as_secs_f64() - login.as_secs_f64();
    println!(
        "medians of {TIMES}: login {:.2} s; first whole picture of a new session {:.2} s later, \
            of a running one {:.2} s later",
        login.as_secs_f64(),
        over(new),
        over(running)
    );
    Ok(())
}
