//! Programs in the session that read its screen: a recorder (ffmpeg's x11grab) and a VNC server
//! (x11vnc, which is told of changes by DAMAGE) get the pixels that the viewer shows; and a window
//! manager that composites, through which all pixels pass, is shown exactly.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use thinc_bench::Error;
use thinc_bench::process::{Folder, Running, wait_for};
use thinc_e2e::{AWAIT_TERMINAL, Desktop, EVENT_TIMEOUT};

const SIZE: (usize, usize) = (640, 480);

/// A terminal that prints and then shows what is typed.
fn terminal(name: &str) -> Result<Desktop, Error> {
    let script = format!("{AWAIT_TERMINAL} ls -la /usr/bin | head -50; exec cat");
    let command = ["xterm", "-geometry", "90x30+10+10", "-e", "sh", "-c", &script];
    let mut desktop = Desktop::start(name, &format!("{}x{}", SIZE.0, SIZE.1), &command)?;
    desktop.settle_once_drawn()?;
    desktop.viewer.say("move 200 200")?;
    desktop.settle()?;
    Ok(desktop)
}

fn type_a_line(desktop: &mut Desktop) -> Result<(), Error> {
    desktop.after_change(|desktop| desktop.viewer.say("type seen by all of them\\n").map(drop))?;
    desktop.settle()
}

#[test]
fn a_recorder_in_the_session_gets_what_the_viewer_shows() -> Result<(), Error> {
    let mut desktop = terminal("recorder")?;
    for when in ["at first", "after typing"] {
        let size = format!("{}x{}", SIZE.0, SIZE.1);
        let recorded = desktop
            .client("ffmpeg")
            .args(["-v", "error", "-f", "x11grab", "-draw_mouse", "0", "-video_size", &size])
            .args(["-i", &desktop.session.display, "-frames:v", "1"])
            .args(["-f", "rawvideo", "-pix_fmt", "rgb24", "-"])
            .output()?;
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let pixels: Vec<u32> = recorded
            .stdout
            .chunks_exact(3)
            .map(|p| u32::from_be_bytes([0, p[0], p[1], p[2]]))
            .collect();
        assert!(pixels == desktop.view()?.pixels, "the recording differs {when}");
        desktop.assert_identical(when)?;
        type_a_line(&mut desktop)?;
    }
    Ok(())
}

#[test]
fn a_vnc_server_in_the_session_gets_what_the_viewer_shows() -> Result<(), Error> {
    let mut desktop = terminal("vnc")?;
    let folder = Folder::new("vnc")?;
    let said = folder.path().join("port");
    let mut command = desktop.client("x11vnc");
    // Its cursor would be painted into the pixels.
    command
        .args(["-localhost", "-autoport", "5900", "-nopw", "-nocursor", "-forever", "-quiet"])
        .args(["-auth", &desktop.session.xauthority, "-display", &desktop.session.display])
        .stdout(std::fs::File::create(&said)?)
        .stderr(Stdio::null());
    let _server = Running::start("x11vnc", &mut command)?;
    let port: u16 = wait_for("x11vnc says its port", EVENT_TIMEOUT, || {
        std::fs::read_to_string(&said)
            .ok()?
            .lines()
            .find_map(|line| line.strip_prefix("PORT=")?.trim().parse().ok())
    })?;
    let mut client = Vnc::connect(port)?;
    for when in ["at first", "after typing"] {
        let view = desktop.view()?;
        assert!(view.colors() > 1, "text is shown");
        wait_for(&format!("the VNC client shows the same {when}"), EVENT_TIMEOUT, || {
            (client.screen().ok()? == view.pixels).then_some(())
        })?;
        type_a_line(&mut desktop)?;
    }
    Ok(())
}

/// A VNC client that asks for raw pixels (RFC 6143).
struct Vnc {
    stream: TcpStream,
    pixels: Vec<u32>,
}

impl Vnc {
    fn connect(port: u16) -> Result<Vnc, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(EVENT_TIMEOUT))?;
        let take = |bytes: usize| -> Result<Vec<u8>, Error> {
            let mut taken = vec![0; bytes];
            (&stream).read_exact(&mut taken)?;
            Ok(taken)
        };
        take(12)?;
        (&stream).write_all(b"RFB 003.008\n")?;
        let kinds = take(1)?[0];
        take(kinds.into())?;
        // No password; then a shared desktop.
        (&stream).write_all(&[1])?;
        take(4)?;
        (&stream).write_all(&[1])?;
        let head = take(24)?;
        let name = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
        take(name as usize)?;
        // 32 bits a pixel, little endian, red at 16; then the raw encoding only.
        (&stream)
            .write_all(&[0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0])?;
        (&stream).write_all(&[2, 0, 0, 1, 0, 0, 0, 0])?;
        Ok(Vnc { stream, pixels: vec![0; SIZE.0 * SIZE.1] })
    }

    /// Asks for the whole screen, and returns it.
    fn screen(&mut self) -> Result<&[u32], Error> {
        let [width, height] = [SIZE.0, SIZE.1].map(|edge| (edge as u16).to_be_bytes());
        let request = [3, 0, 0, 0, 0, 0, width[0], width[1], height[0], height[1]];
        self.stream.write_all(&request)?;
        let mut head = [0; 4];
        loop {
            self.stream.read_exact(&mut head[..1])?;
            match head[0] {
                0 => break,
                // A bell.
                2 => {}
                other => return Err(format!("a message of type {other}").into()),
            }
        }
        self.stream.read_exact(&mut head[1..])?;
        for _ in 0..u16::from_be_bytes([head[2], head[3]]) {
            let mut place = [0; 12];
            self.stream.read_exact(&mut place)?;
            let [x, y, width, height] =
                [0, 2, 4, 6].map(|at| usize::from(u16::from_be_bytes([place[at], place[at + 1]])));
            let mut bytes = vec![0; width * height * 4];
            self.stream.read_exact(&mut bytes)?;
            for (row, bytes) in bytes.chunks_exact(width * 4).enumerate() {
                let at = (y + row) * SIZE.0 + x;
                for (pixel, b) in self.pixels[at..at + width].iter_mut().zip(bytes.chunks_exact(4))
                {
                    *pixel = u32::from_le_bytes([b[0], b[1], b[2], 0]);
                }
            }
        }
        Ok(&self.pixels)
    }
}

#[test]
fn a_window_manager_that_composites_is_shown_exactly() -> Result<(), Error> {
    let folder = Folder::new("xfwm4")?;
    let home = folder.path().display();
    let command = format!(
        "export HOME={home} XDG_CONFIG_HOME={home}/config XDG_CACHE_HOME={home}/cache; \
         xfwm4 --compositor=on & exec sleep infinity"
    );
    let mut desktop = Desktop::start("xfwm4", "800x600", &["sh", "-c", &command])?;
    wait_for("it composites", EVENT_TIMEOUT, || {
        use x11rb::protocol::xproto::ConnectionExt as _;
        let x = desktop.connect_x().ok()?;
        let selection = x.intern_atom(false, b"_NET_WM_CM_S0").ok()?.reply().ok()?.atom;
        (x.get_selection_owner(selection).ok()?.reply().ok()?.owner != 0).then_some(())
    })?;
    let mut start = |title: &str, place: &str| -> Result<Running, Error> {
        let mut command = desktop.client("xterm");
        command.args(["-T", title, "-geometry", place, "-e", "sh", "-c"]);
        command.arg(format!("{AWAIT_TERMINAL} ls -la /usr/bin | head -40; exec cat"));
        let mut window = None;
        desktop.after_change(|_| {
            window = Some(Running::start("xterm", &mut command)?);
            Ok(())
        })?;
        desktop.settle()?;
        Ok(window.ok_or("it was started")?)
    };
    // The second overlaps the first, with the shadow that the compositor draws.
    let _first = start("first", "60x20+20+40")?;
    let _second = start("second", "60x20+150+150")?;
    assert!(desktop.view()?.colors() > 20, "frames and shadows are shown");
    desktop.assert_identical("with two windows")?;
    // Alt and the button move a window of xfwm4's; a click brings it to the front.
    desktop.viewer.say("move 60 60")?;
    desktop.after_change(|desktop| desktop.viewer.say("click 1").map(drop))?;
    desktop.assert_identical("with the other in front")?;
    // A press so soon after the click is the second half of a double click, which moves nothing.
    let before = desktop.stats()?["framebuffer_xxh3"].clone();
    let press = ["buttonup 1", "keydown Alt_L", "move 100 100", "buttondown 1"];
    let drag = ["move 220 160", "move 300 210", "wait-quiet"];
    wait_for("the window moves", EVENT_TIMEOUT, || {
        for line in press.iter().chain(&drag) {
            desktop.viewer.say(line).ok()?;
        }
        (desktop.stats().ok()?["framebuffer_xxh3"] != before).then_some(())
    })?;
    desktop.settle()?;
    desktop.assert_identical("while a window is moved")?;
    for line in ["buttonup 1", "keyup Alt_L"] {
        desktop.viewer.say(line)?;
    }
    desktop.settle()?;
    desktop.assert_identical("after the move")
}
