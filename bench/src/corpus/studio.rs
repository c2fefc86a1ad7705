//! A screen with a window manager and one person's hands, on which a program is shown until it rests and is taken a picture of.
//! Under the scenes; waits for windows, titles and pixels, for no time alone.
//! Knows X; never which program it shows.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, CreateGCAux, ImageFormat};
use x11rb::rust_connection::RustConnection;

use crate::Error;
use crate::observe::input::Input;
use crate::observe::picture::Picture;
use crate::observe::screen::{ClientScreen, Listen};
use crate::process::{Folder, Running, interrupted, wait_for};
use crate::questions::awareness::documents;

/// LibreOffice and GIMP look around for a long time at their first start, on a busy machine for longer.
const SHOWN_MAX: Duration = Duration::from_secs(120);
/// How long no pixel may change: longer than a caret's half second, so that one that blinks is found out and not taken for rest,
/// and than any pause between the parts of a page that was seen.
const STILL: Duration = Duration::from_millis(1200);
/// Shorter than a caret's half second, longer than an editor takes from its window to its text.
const CARET_STILL: Duration = Duration::from_millis(400);
/// Turns of the wheel after which the first line is out of sight in every editor.
const WHEEL_LINES: i32 = 5;
/// Longest until a program rests.
const STILL_MAX: Duration = Duration::from_secs(60);

/// How windows are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Desktop {
    /// Each on the whole screen, with its title.
    OneWindow,
    /// As large as they like to be, at the places that they ask for.
    Windows,
}

/// The screen, with what runs on it.
pub(super) struct Studio {
    running: Vec<Running>,
    pub(super) input: Input,
    x: RustConnection,
    screen: ClientScreen,
    pub(super) size: (u32, u32),
    /// Home of the programs, and for files that are shown.
    folder: Folder,
}

impl Studio {
    pub(super) fn open(size: (u32, u32), desktop: Desktop) -> Result<Studio, Error> {
        let folder = Folder::new("studio")?;
        documents::write_settings(folder.path())?;
        let screen = ClientScreen::start(Command::new("Xvfb"), folder.path(), size, Listen::Unix)?;
        let (x, input) = (screen.connect()?, Input::new(&screen)?);
        let mut studio = Studio { running: Vec::new(), input, x, screen, size, folder };
        let config = studio.file(
            "openbox.xml",
            OPENBOX.replace(
                "MAXIMIZED",
                match desktop {
                    Desktop::OneWindow => "<maximized>yes</maximized>",
                    Desktop::Windows => "",
                },
            ),
        )?;
        let mut openbox = studio.command("openbox");
        openbox.arg("--config-file").arg(config);
        studio.start("openbox", openbox)?;
        let name = studio.atom("_NET_SUPPORTING_WM_CHECK")?;
        wait_for("openbox manages the screen", SHOWN_MAX, || {
            let root = studio.root();
            let reply = studio.x.get_property(false, root, name, x11rb::NONE, 0, 1).ok()?.reply().ok()?;
            (reply.value_len == 1).then_some(())
        })?;
        // Hovering changes what is under the pointer: the last pixel has the least.
        studio.input.move_to(size.0 as i32 - 1, size.1 as i32 - 1)?;
        Ok(studio)
    }

    fn root(&self) -> u32 {
        self.x.setup().roots[0].root
    }

    fn atom(&self, name: &str) -> Result<u32, Error> {
        Ok(self.x.intern_atom(false, name.as_bytes())?.reply()?.atom)
    }

    /// Where files for programs are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file for a program.
    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, Error> {
        let path = self.folder().join(name);
        fs::write(&path, content)?;
        Ok(path)
    }

    /// A command with this screen, a home of its own, and no bus or daemon: what programs would ask them differs from machine to
    /// machine.
    pub(super) fn command(&self, program: &str) -> Command {
        let home = self.folder();
        let mut command = Command::new(program);
        command.env("DISPLAY", self.screen.display()).env_remove("WAYLAND_DISPLAY").env_remove("XAUTHORITY");
        command.env("HOME", home).env("XDG_CONFIG_HOME", home.join(".config")).env("XDG_RUNTIME_DIR", home.join("run"));
        command.env("XDG_CACHE_HOME", home.join(".cache")).env("XDG_DATA_HOME", home.join(".local")).current_dir(home);
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent").env("GSETTINGS_BACKEND", "memory");
        command.env("NO_AT_BRIDGE", "1").env("GIO_USE_VFS", "local").env("LANG", "C.UTF-8").env_remove("LC_ALL");
        command
    }

    /// Starts a program; it ends with this.
    pub(super) fn start(&mut self, name: &'static str, mut command: Command) -> Result<(), Error> {
        let log = File::create(self.folder().join(format!("{name}.log")))?;
        self.running.push(Running::start(name, command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log))?);
        Ok(())
    }

    /// Waits until a window has a title that contains `words`, and until everything rests.
    pub(super) fn wait_shown(&mut self, words: &str) -> Result<(), Error> {
        self.wait_titled(words)?;
        self.wait_still()
    }

    /// As [`Studio::wait_shown`], for an editor: its text is scrolled until the caret, which may blink for ever, is out of sight.
    pub(super) fn wait_shown_without_caret(&mut self, words: &str) -> Result<(), Error> {
        self.wait_titled(words)?;
        self.wait_still_for(CARET_STILL)?;
        let (right, bottom) = (self.size.0 as i32, self.size.1 as i32);
        self.input.move_to(right / 2, bottom / 2)?;
        self.input.scroll(WHEEL_LINES)?;
        self.input.move_to(right - 1, bottom - 1)?;
        self.wait_still()
    }

    fn wait_titled(&mut self, words: &str) -> Result<(), Error> {
        let (list, name) = (self.atom("_NET_CLIENT_LIST")?, self.atom("_NET_WM_NAME")?);
        let root = self.root();
        let titled = |x: &RustConnection| -> Result<bool, Error> {
            let windows = x.get_property(false, root, list, AtomEnum::WINDOW, 0, 64)?.reply()?;
            for window in windows.value32().into_iter().flatten() {
                let title = x.get_property(false, window, name, AtomEnum::ANY, 0, 256)?.reply()?;
                if String::from_utf8_lossy(&title.value).contains(words) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let Studio { running, x, .. } = self;
        let mut ended = None;
        wait_for(&format!("a window with the title {words}"), SHOWN_MAX, || {
            ended = running.iter_mut().find_map(|running| running.check().err());
            // A window may go while it is asked for its title.
            (ended.is_some() || titled(x).unwrap_or(false)).then_some(())
        })?;
        ended.map_or(Ok(()), Err)
    }

    /// Waits until no pixel has changed for [`STILL`].
    pub(super) fn wait_still(&self) -> Result<(), Error> {
        self.wait_still_for(STILL)
    }

    fn wait_still_for(&self, gap: Duration) -> Result<(), Error> {
        let (watch, began) = (self.screen.watch()?, Instant::now());
        loop {
            let now = Instant::now();
            let still = now.duration_since(watch.last_change().unwrap_or(began).max(began));
            if still >= gap {
                return watch.finish().map(drop);
            }
            if interrupted() {
                return Err("interrupted".into());
            }
            if now.duration_since(began) > STILL_MAX {
                return Err(format!("it does not rest within {} s", STILL_MAX.as_secs()).into());
            }
            std::thread::sleep(gap - still);
        }
    }

    /// Does something with keys that changes the screen, and waits until it rests again.
    pub(super) fn act(&self, act: impl FnOnce(&Input) -> Result<Instant, Error>) -> Result<(), Error> {
        let watch = self.screen.watch()?;
        act(&self.input)?;
        wait_for("the screen changes by a key", SHOWN_MAX, || watch.changed().then_some(()))?;
        watch.finish()?;
        self.wait_still()
    }

    /// What is to be seen.
    pub(super) fn picture(&self) -> Result<Picture, Error> {
        self.screen.picture()
    }

    /// Puts a picture behind all windows.
    pub(super) fn set_wallpaper(&self, picture: &Picture) -> Result<(), Error> {
        let (x, root) = (&self.x, self.root());
        let (pixmap, gc) = (x.generate_id()?, x.generate_id()?);
        let (width, height) = (u16::try_from(picture.width)?, u16::try_from(picture.height)?);
        x.create_pixmap(24, pixmap, root, width, height)?;
        x.create_gc(gc, pixmap, &CreateGCAux::new())?;
        // Bands that fit into a request of any server.
        let band = (240_000 / (usize::from(width) * 4)).max(1);
        for (at, rows) in picture.pixels.chunks(band * usize::from(width)).enumerate() {
            let bytes: Vec<u8> = rows.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
            let (top, high) = (i16::try_from(at * band)?, u16::try_from(rows.len() / usize::from(width))?);
            x.put_image(ImageFormat::Z_PIXMAP, pixmap, gc, width, high, 0, top, 0, 24, &bytes)?;
        }
        x.change_window_attributes(root, &ChangeWindowAttributesAux::new().background_pixmap(pixmap))?;
        x.clear_area(false, root, 0, 0, 0, 0)?.check()?;
        Ok(())
    }
}

/// Windows with titles; nothing opens by a key or a button.
const OPENBOX: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew><followMouse>no</followMouse></focus>
  <desktops><number>1</number><popupTime>0</popupTime></desktops>
  <keyboard></keyboard>
  <mouse><context name="Client"><mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind></context></mouse>
  <applications>
    <application class="*"><focus>yes</focus></application>
    <application class="*" type="normal">MAXIMIZED</application>
  </applications>
</openbox_config>
"#;
