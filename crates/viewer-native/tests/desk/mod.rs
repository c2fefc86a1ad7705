//! A private X server, a fake session, and the viewer's window between them. For the tests of this
//! crate that use a real window: they check its pixels, and the messages that the session received.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::Read as _;
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use thinc_protocol::viewer::{InputEvent, ViewerMessage};
use thinc_region::{Rect, Size};
use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, ImageFormat, KEY_PRESS_EVENT, KEY_RELEASE_EVENT,
    MOTION_NOTIFY_EVENT, MapState, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::fake::{Fake, LONG};

pub(crate) fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

/// A process that is killed when the test ends.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An X server, a fake session and a viewer in its window.
pub(crate) struct Desk {
    pub(crate) viewer: Ended,
    pub(crate) fake: Fake,
    pub(crate) x: RustConnection,
    pub(crate) root: Window,
    pub(crate) window: Window,
    _server: Ended,
}

pub(crate) fn xvfb() -> Option<(Ended, String)> {
    let mut child = match Program::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "1000x800x24", "-nolisten", "tcp", "-noreset"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "the window's tests need Xvfb: {error}");
            eprintln!("skipped: no Xvfb ({error})");
            return None;
        }
    };
    let mut number = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        number.push(byte[0] as char);
    }
    Some((Ended(child), format!(":{number}")))
}

/// Polls until the condition holds; for the X server's screen, which sends no events.
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The viewer's window: the only large one.
pub(crate) fn find_window(x: &RustConnection, parent: Window) -> Option<Window> {
    find_windows(x, parent).first().copied()
}

/// The viewer's windows in order of creation: window ids increase.
pub(crate) fn find_windows(x: &RustConnection, parent: Window) -> Vec<Window> {
    let tree = x.query_tree(parent).ok().and_then(|cookie| cookie.reply().ok());
    let mut windows = tree.map_or(Vec::new(), |tree| tree.children);
    windows.retain(|window| {
        let attributes =
            x.get_window_attributes(*window).ok().and_then(|cookie| cookie.reply().ok());
        let geometry = x.get_geometry(*window).ok().and_then(|cookie| cookie.reply().ok());
        attributes.is_some_and(|attributes| attributes.map_state == MapState::VIEWABLE)
            && geometry.is_some_and(|geometry| geometry.width > 50)
    });
    windows.sort_unstable();
    windows
}

impl Desk {
    pub(crate) fn start(screen: Size, arguments: &[&str]) -> Option<Desk> {
        let (server, display) = xvfb()?;
        Some(Desk::start_on(server, &display, screen, arguments))
    }

    pub(crate) fn start_on(server: Ended, display: &str, screen: Size, arguments: &[&str]) -> Desk {
        Desk::start_in(server, display, screen, arguments, &[])
    }

    /// As above, with these variables in the viewer's environment.
    pub(crate) fn start_in(
        server: Ended,
        display: &str,
        screen: Size,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Desk {
        let fake = Fake::start(screen);
        let viewer = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
            .arg(fake.link().to_string())
            .args(arguments)
            .env("DISPLAY", display)
            .env_remove("WAYLAND_DISPLAY")
            .env("SDL_VIDEO_DRIVER", "x11")
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let viewer = Ended(viewer);
        let (x, number) = x11rb::connect(Some(display)).unwrap();
        x.xfixes_query_version(5, 0).unwrap().reply().unwrap();
        let root = x.setup().roots[number].root;
        let window = until("a window", || find_window(&x, root));
        // Without a window manager nobody else focuses a window.
        x.set_input_focus(x11rb::protocol::xproto::InputFocus::PARENT, window, x11rb::CURRENT_TIME)
            .unwrap();
        x.flush().unwrap();
        Desk { viewer, fake, x, root, window, _server: server }
    }

    pub(crate) fn window_size(&self) -> Size {
        let geometry = self.x.get_geometry(self.window).unwrap().reply().unwrap();
        size(geometry.width.into(), geometry.height.into())
    }

    /// The window's pixels.
    pub(crate) fn pixels(&self, rect: Rect) -> Vec<u32> {
        self.pixels_of(self.window, rect)
    }

    /// The pixels of one of several windows.
    pub(crate) fn pixels_of(&self, window: Window, rect: Rect) -> Vec<u32> {
        let (x, y) = (rect.x1 as i16, rect.y1 as i16);
        let (width, height) = (rect.width() as u16, rect.height() as u16);
        let cookie =
            self.x.get_image(ImageFormat::Z_PIXMAP, window, x, y, width, height, !0).unwrap();
        // The window may have been resized; then there is nothing to compare.
        let Ok(reply) = cookie.reply() else { return Vec::new() };
        let data = reply.data;
        data.chunks_exact(4)
            .map(|p| u32::from_le_bytes(p.try_into().unwrap()) & 0xff_ffff)
            .collect()
    }

    /// Waits until the window equals the session's screen.
    pub(crate) fn wait_exact(&self) {
        until("the window equals the session's screen", || {
            let shown = self.window_size();
            let (screen, pixels) = {
                let state = self.fake.shared.state.lock().unwrap();
                (state.size, state.pixels.clone())
            };
            (shown == screen && self.pixels(shown.rect()) == pixels).then_some(())
        });
    }

    /// The window's title.
    pub(crate) fn title(&self) -> String {
        let (name, any) = (AtomEnum::WM_NAME, AtomEnum::ANY);
        let property = self.x.get_property(false, self.window, name, any, 0, 256).unwrap();
        String::from_utf8_lossy(&property.reply().unwrap().value).into_owned()
    }

    pub(crate) fn test_input(&self, kind: u8, detail: u8, x: i16, y: i16) {
        self.x.xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, self.root, x, y, 0).unwrap();
        self.x.flush().unwrap();
    }

    pub(crate) fn key(&self, evdev: u16, down: bool) {
        let kind = if down { KEY_PRESS_EVENT } else { KEY_RELEASE_EVENT };
        self.test_input(kind, (evdev + 8) as u8, 0, 0);
    }

    /// Moves the pointer to a point of the window.
    pub(crate) fn point(&self, x: i16, y: i16) {
        let at =
            self.x.translate_coordinates(self.window, self.root, x, y).unwrap().reply().unwrap();
        self.test_input(MOTION_NOTIFY_EVENT, 0, at.dst_x, at.dst_y);
    }

    pub(crate) fn motion(&self, wanted: (u16, u16)) {
        self.fake.wait_for(&format!("a motion to {wanted:?}"), |message| match message {
            ViewerMessage::Input(input)
                if input.event == (InputEvent::Motion { x: wanted.0, y: wanted.1 }) =>
            {
                Some(())
            }
            _ => None,
        });
    }

    /// Closes the viewer's window.
    pub(crate) fn close(&self) {
        for (code, down) in
            [(29, true), (56, true), (16, true), (16, false), (56, false), (29, false)]
        {
            self.key(code, down);
        }
    }

    /// The viewer's exit code and its standard error.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let status = until("the viewer ends", || self.viewer.0.try_wait().unwrap());
        let mut said = String::new();
        self.viewer.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}
