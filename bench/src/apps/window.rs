//! A window at a fixed position with the keyboard focus, and the requests with which applications
//! fill it and draw pictures. Used by every application of this folder; over X, through shared
//! memory if the server is on the same machine. Knows X requests and keys; never the content of a
//! picture.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    AutoRepeatMode, ChangeGCAux, ChangeKeyboardControlAux, ConnectionExt as _, CreateGCAux,
    CreateWindowAux, EventMask, ImageFormat, InputFocus, Keycode, Rectangle, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::Error;

/// The events that applications wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// A key went down, with its unshifted keysym; Latin keysyms are their character.
    Key(u32),
    /// The server has read the picture, so that the next may follow.
    Taken,
}

/// A window at (0, 0) that no window manager moves.
pub struct Window {
    /// The connection, for requests that only one application makes.
    pub x: RustConnection,
    /// The window.
    pub id: u32,
    /// A graphics context whose foreground [`Window::fill`] sets.
    pub gc: u32,
    segment: Option<Segment>,
    keysyms: Vec<u32>,
    keysyms_per_code: usize,
    in_flight: bool,
    is_exposed: bool,
    waiting: std::collections::VecDeque<WindowEvent>,
}

/// Shared memory that this program writes as a file and the X server has mapped: without a mapping
/// here, no unsafe code is needed.
struct Segment {
    id: u32,
    file: std::fs::File,
}

/// Largest picture in pixels: a bound for the segment.
const PICTURE_MAX: usize = 4096 * 4096;

impl Window {
    /// Opens a window of this size on `$DISPLAY`, mapped, with the keyboard focus, and filled with
    /// `background`.
    pub fn open(title: &str, size: (u16, u16), background: u32) -> Result<Window, Error> {
        let display = std::env::var("DISPLAY")
            .map_err(|_| "DISPLAY is not set: name the X server to draw on")?;
        let (x, screen) = RustConnection::connect(None)
            .map_err(|e| format!("cannot connect to {display}: {e}"))?;
        let screen = &x.setup().roots[screen];
        let (root, depth) = (screen.root, screen.root_depth);
        let bits = x
            .setup()
            .pixmap_formats
            .iter()
            .find(|format| format.depth == depth)
            .map_or(0, |f| f.bits_per_pixel);
        if depth != 24 || bits != 32 {
            return Err(format!(
                "{display}: depth {depth} with {bits} bits a pixel; thinc-bench draws 24 with 32"
            )
            .into());
        }
        if size.0 > screen.width_in_pixels || size.1 > screen.height_in_pixels {
            let has = (screen.width_in_pixels, screen.height_in_pixels);
            return Err(format!(
                "{display}: {}x{} is too small for {title} at {}x{}",
                has.0, has.1, size.0, size.1
            )
            .into());
        }
        let (id, gc) = (x.generate_id()?, x.generate_id()?);
        // Override-redirect, so that it has the same position on every desktop.
        let attributes = CreateWindowAux::new()
            .override_redirect(1)
            .background_pixel(background)
            .event_mask(EventMask::EXPOSURE | EventMask::KEY_PRESS | EventMask::STRUCTURE_NOTIFY);
        x.create_window(
            depth,
            id,
            root,
            0,
            0,
            size.0,
            size.1,
            0,
            WindowClass::INPUT_OUTPUT,
            0,
            &attributes,
        )?
        .check()?;
        use x11rb::protocol::xproto::{AtomEnum, PropMode};
        x.change_property8(
            PropMode::REPLACE,
            id,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            title.as_bytes(),
        )?;
        x.create_gc(gc, id, &CreateGCAux::new().graphics_exposures(0))?;
        // A key whose release arrives late on a slow link must not repeat.
        x.change_keyboard_control(
            &ChangeKeyboardControlAux::new().auto_repeat_mode(AutoRepeatMode::OFF),
        )?;
        x.map_window(id)?;
        let segment = Segment::attach(&x, &display)?;
        let mut window = Window {
            x,
            id,
            gc,
            segment,
            keysyms: vec![],
            keysyms_per_code: 1,
            in_flight: false,
            is_exposed: false,
            waiting: std::collections::VecDeque::new(),
        };
        window.read_keys()?;
        while !matches!(window.x.wait_for_event()?, Event::Expose(_)) {}
        window.x.set_input_focus(InputFocus::POINTER_ROOT, id, x11rb::CURRENT_TIME)?.check()?;
        Ok(window)
    }

    /// Fills an area with a colour.
    pub fn fill(&self, x: i16, y: i16, width: u16, height: u16, colour: u32) -> Result<(), Error> {
        self.x.change_gc(self.gc, &ChangeGCAux::new().foreground(colour))?;
        self.x.poly_fill_rectangle(self.id, self.gc, &[Rectangle { x, y, width, height }])?;
        self.x.flush()?;
        Ok(())
    }

    /// Draws a picture as applications do: ShmPutImage, or PutImage if memory cannot be shared.
    /// `WindowEvent::Taken` follows once the server has read it; only then may the next be drawn.
    pub fn put(&mut self, x: i16, y: i16, width: u16, pixels: &[u32]) -> Result<(), Error> {
        assert!(!self.in_flight, "a picture is drawn while the server still reads the one before");
        assert!(
            pixels.len() <= PICTURE_MAX && pixels.len().is_multiple_of(usize::from(width)),
            "a picture has whole rows"
        );
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        let height = u16::try_from(pixels.len() / usize::from(width))?;
        if let Some(segment) = &mut self.segment {
            segment.write(&bytes)?;
            let (shm, format) = (segment.id, u8::from(ImageFormat::Z_PIXMAP));
            let (id, gc) = (self.id, self.gc);
            self.x.shm_put_image(
                id, gc, width, height, 0, 0, width, height, x, y, 24, format, true, shm, 0,
            )?;
            self.in_flight = true;
        } else {
            let row = usize::from(width) * 4;
            // Less the 28 bytes of the request's header with the extended length.
            let rows = ((self.x.maximum_request_bytes() - 28) / row).max(1);
            for (i, part) in bytes.chunks(rows * row).enumerate() {
                let (down, high) = (y + i16::try_from(i * rows)?, u16::try_from(part.len() / row)?);
                self.x.put_image(
                    ImageFormat::Z_PIXMAP,
                    self.id,
                    self.gc,
                    width,
                    high,
                    x,
                    down,
                    0,
                    24,
                    part,
                )?;
            }
            self.x.get_input_focus()?.reply()?;
            self.waiting.push_back(WindowEvent::Taken);
        }
        self.x.flush()?;
        Ok(())
    }

    /// Draws a picture and waits until the server has read it.
    pub fn put_whole(&mut self, x: i16, y: i16, width: u16, pixels: &[u32]) -> Result<(), Error> {
        self.put(x, y, width, pixels)?;
        let mut keys = vec![];
        while let WindowEvent::Key(key) = self.wait()? {
            keys.push(WindowEvent::Key(key));
        }
        self.waiting.extend(keys);
        Ok(())
    }

    /// Waits for the next event.
    pub fn wait(&mut self) -> Result<WindowEvent, Error> {
        loop {
            if let Some(happening) = self.waiting.pop_front() {
                return Ok(happening);
            }
            let event = self.x.wait_for_event()?;
            if let Some(happening) = self.handle_event(&event)? {
                return Ok(happening);
            }
        }
    }

    /// Waits until something of what was drawn is lost, as when the screen's size changes.
    pub fn wait_exposed(&mut self) -> Result<(), Error> {
        while !std::mem::take(&mut self.is_exposed) {
            let event = self.x.wait_for_event()?;
            self.handle_event(&event)?;
        }
        Ok(())
    }

    /// The next event if there is one already.
    pub fn poll(&mut self) -> Result<Option<WindowEvent>, Error> {
        while self.waiting.is_empty() {
            let Some(event) = self.x.poll_for_event()? else { return Ok(None) };
            if let Some(happening) = self.handle_event(&event)? {
                return Ok(Some(happening));
            }
        }
        Ok(self.waiting.pop_front())
    }

    fn handle_event(&mut self, event: &Event) -> Result<Option<WindowEvent>, Error> {
        match event {
            Event::KeyPress(press) => Ok(self.keysym(press.detail).map(WindowEvent::Key)),
            Event::ShmCompletion(_) => {
                self.in_flight = false;
                Ok(Some(WindowEvent::Taken))
            }
            // Remote desktop servers assign keycodes to keysyms on demand.
            Event::MappingNotify(_) => {
                self.read_keys()?;
                Ok(None)
            }
            Event::Expose(_) => {
                self.is_exposed = true;
                Ok(None)
            }
            Event::DestroyNotify(_) => Err("the window was destroyed".into()),
            Event::Error(error) => Err(format!("the X server refused a request: {error:?}").into()),
            _ => Ok(None),
        }
    }

    fn read_keys(&mut self) -> Result<(), Error> {
        let (first, last) = (self.x.setup().min_keycode, self.x.setup().max_keycode);
        let map = self.x.get_keyboard_mapping(first, last - first + 1)?.reply()?;
        (self.keysyms, self.keysyms_per_code) = (map.keysyms, usize::from(map.keysyms_per_keycode));
        Ok(())
    }

    fn keysym(&self, code: Keycode) -> Option<u32> {
        let at = usize::from(code.checked_sub(self.x.setup().min_keycode)?) * self.keysyms_per_code;
        self.keysyms.get(at).copied().filter(|&keysym| keysym != 0)
    }
}

impl Segment {
    /// None if the server is on another machine or does not accept a file descriptor (MIT-SHM
    /// before 1.2).
    fn attach(x: &RustConnection, display: &str) -> Result<Option<Segment>, Error> {
        // A file descriptor can only be passed through a local socket.
        let local = display.starts_with(':') || display.starts_with("unix:");
        if !local || x.extension_information(shm::X11_EXTENSION_NAME)?.is_none() {
            return Ok(None);
        }
        let version = x.shm_query_version()?.reply()?;
        if (version.major_version, version.minor_version) < (1, 2) {
            return Ok(None);
        }
        let file: OwnedFd = memfd_create("thinc-bench picture", MemfdFlags::CLOEXEC)?;
        // Pages that are never written take no memory.
        ftruncate(&file, PICTURE_MAX as u64 * 4)?;
        let id = x.generate_id()?;
        match x.shm_attach_fd(id, file.try_clone()?, true)?.check() {
            Ok(()) => Ok(Some(Segment { id, file: file.into() })),
            Err(_) => Ok(None),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        use std::io::{Seek as _, SeekFrom};
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(bytes)?;
        Ok(())
    }
}
