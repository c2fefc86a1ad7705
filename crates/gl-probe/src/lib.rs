//! Draws a frame by OpenGL in a window of the X server that DISPLAY names, reads it back, and says
//! what drew it. Beside the path: `thinc gl-probe` does that in each session, in a process of its
//! own, since what it loads is the system's and may end it. Knows GLX, EGL and colours; never which
//! GPUs there are, nor what a person reads of it.
#![allow(unsafe_code, reason = "every function of Xlib and OpenGL is foreign")]

use std::ffi::{c_int, c_ulong};
use std::num::NonZeroU32;
use std::ptr::{NonNull, null};
use std::sync::atomic::{AtomicU8, Ordering};

use glow::HasContext as _;
use glutin::config::{Config, ConfigTemplateBuilder};
use glutin::context::{ContextApi, ContextAttributesBuilder, PossiblyCurrentContext};
use glutin::display::{Display, DisplayApiPreference};
use glutin::error::ErrorKind;
use glutin::platform::x11::X11GlConfigExt as _;
use glutin::prelude::*;
use glutin::surface::{Surface, SurfaceAttributesBuilder, WindowSurface};
use raw_window_handle::{RawDisplayHandle, RawWindowHandle, XlibDisplayHandle, XlibWindowHandle};
use thiserror::Error;
use x11_dl::xlib;
use x11_dl::xrender::Xrender;

/// The last error that X has reported in this process, by its code; 0 for none. Xlib's own handler
/// would end the process before another library is tried.
static X_ERROR: AtomicU8 = AtomicU8::new(0);

extern "C" fn keep_error(_: *mut xlib::Display, event: *mut xlib::XErrorEvent) -> c_int {
    // SAFETY: Xlib calls this with an event that is valid meanwhile.
    X_ERROR.store(unsafe { (*event).error_code }, Ordering::Relaxed);
    0
}

/// Width and height of the window, in pixels. Nobody sees it.
const EDGE: u32 = 64;

/// How a program reaches OpenGL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    /// By libGL, as most programs do.
    Glx,
    /// By libEGL.
    Egl,
}

/// What drew the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renderer {
    /// By its own words (`GL_RENDERER`).
    pub name: String,
    /// By libEGL, since libGL does not work, and why; most programs need that.
    pub without_glx: Option<String>,
}

/// Why there is no frame.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// A library is not installed.
    #[error("{0} is not installed")]
    Missing(&'static str),
    /// X does not answer.
    #[error("the X server cannot be reached")]
    NoDisplay,
    /// The reasons of both libraries.
    #[error("by GLX: {glx}; by EGL: {egl}")]
    Nothing {
        /// Of libGL.
        glx: Box<ProbeError>,
        /// Of libEGL.
        egl: Box<ProbeError>,
    },
    /// The library has answered what cannot be.
    #[error("the library is broken: {0}")]
    Broken(String),
    /// The library's own words.
    #[error("{0}")]
    Library(#[from] glutin::error::Error),
    /// A request of the library's, by X's code of the error.
    #[error("{0} draws with error {1} of the X server")]
    X(String, u8),
    /// There is no way to draw in a window.
    #[error("no configuration can draw in a window")]
    NoConfig,
    /// The library draws something else.
    #[error("{renderer} draws wrong colours: {found:?} instead of {wanted:?}")]
    Wrong {
        /// Which.
        renderer: String,
        /// Red, green and blue that were read back.
        found: [u8; 3],
        /// What was drawn.
        wanted: [u8; 3],
    },
}

/// Draws by GLX, or by EGL where that fails.
pub fn draw() -> Result<Renderer, ProbeError> {
    let glx = match draw_by(Library::Glx) {
        Ok(renderer) => return Ok(renderer),
        Err(error) => error,
    };
    match draw_by(Library::Egl) {
        Ok(renderer) => Ok(Renderer { without_glx: Some(glx.to_string()), ..renderer }),
        Err(egl) => Err(ProbeError::Nothing { glx: Box::new(glx), egl: Box::new(egl) }),
    }
}

/// In a thread and by a connection of its own: a context that stays current in its thread forbids
/// the other library there, and glutin and glow panic where a library is broken.
fn draw_by(library: Library) -> Result<Renderer, ProbeError> {
    let drawing = std::thread::spawn(move || Server::connect()?.draw_by(library));
    drawing.join().unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(ProbeError::Broken(words.unwrap_or("it panicked").to_owned()))
    })
}

/// A connection to the X server, which ends with the process: OpenGL's libraries hold on to it.
struct Server {
    functions: xlib::Xlib,
    display: NonNull<xlib::Display>,
    screen: i32,
}

impl Server {
    fn connect() -> Result<Server, ProbeError> {
        let functions = xlib::Xlib::open().map_err(|_| ProbeError::Missing("libX11.so.6"))?;
        // glutin needs it.
        let _ = Xrender::open().map_err(|_| ProbeError::Missing("libXrender.so.1"))?;
        // SAFETY: without a name Xlib reads DISPLAY; the result is null or a display.
        let display = unsafe { (functions.XOpenDisplay)(null()) };
        let display = NonNull::new(display).ok_or(ProbeError::NoDisplay)?;
        // SAFETY: the display is open, and the handler reads its event alone.
        let screen = unsafe {
            (functions.XSetErrorHandler)(Some(keep_error));
            (functions.XDefaultScreen)(display.as_ptr())
        };
        Ok(Server { functions, display, screen })
    }

    fn draw_by(&self, library: Library) -> Result<Renderer, ProbeError> {
        X_ERROR.store(0, Ordering::Relaxed);
        let handle = XlibDisplayHandle::new(Some(self.display.cast()), self.screen);
        let choice = match library {
            // Errors of X are looked at after all.
            Library::Glx => DisplayApiPreference::Glx(Box::new(drop)),
            Library::Egl => DisplayApiPreference::Egl,
        };
        // SAFETY: the display is open until the process ends.
        let gl = unsafe { Display::new(RawDisplayHandle::Xlib(handle), choice) };
        let gl = gl.map_err(|error| match (error.error_kind(), library) {
            (ErrorKind::NotFound, Library::Glx) => ProbeError::Missing("libGL.so.1"),
            (ErrorKind::NotFound, Library::Egl) => ProbeError::Missing("libEGL.so.1"),
            _ => ProbeError::Library(error),
        })?;
        // SAFETY: no window is named here.
        let config = unsafe { gl.find_configs(ConfigTemplateBuilder::new().build()) }?
            .find(|config| config.x11_visual().is_some())
            .ok_or(ProbeError::NoConfig)?;
        let (surface, context) = self.open_window(&gl, &config)?;
        // SAFETY: the context is this thread's, and the addresses are those that its library has.
        let functions =
            unsafe { glow::Context::from_loader_function_cstr(|name| gl.get_proc_address(name)) };
        // SAFETY: every version has this string.
        let name = unsafe { functions.get_parameter_string(glow::RENDERER) };
        // Twice: the second frame needs a second buffer, or waits for the first.
        for wanted in [[255, 0, 255], [0, 255, 0]] {
            let found = draw_colour(&functions, wanted);
            if found != wanted {
                return Err(ProbeError::Wrong { renderer: name, found, wanted });
            }
            surface.swap_buffers(&context)?;
        }
        // SAFETY: the context is this thread's, and the display is open.
        unsafe {
            functions.finish();
            (self.functions.XSync)(self.display.as_ptr(), 0);
        }
        match X_ERROR.load(Ordering::Relaxed) {
            0 => Ok(Renderer { name, without_glx: None }),
            code => Err(ProbeError::X(name, code)),
        }
    }

    /// A window that is never mapped, and a context that draws there.
    fn open_window(
        &self,
        gl: &Display,
        config: &Config,
    ) -> Result<(Surface<WindowSurface>, PossiblyCurrentContext), ProbeError> {
        let window = self.create_window(config).ok_or(ProbeError::NoConfig)?;
        let handle = RawWindowHandle::Xlib(XlibWindowHandle::new(window));
        let edge = NonZeroU32::new(EDGE).expect("it is not 0");
        let attributes = SurfaceAttributesBuilder::<WindowSurface>::new().build(handle, edge, edge);
        // SAFETY: the window lives until the process ends.
        let surface = unsafe { gl.create_window_surface(config, &attributes) }?;
        let attributes =
            ContextAttributesBuilder::new().with_context_api(ContextApi::OpenGl(None)).build(None);
        // SAFETY: no window is named here.
        let context = unsafe { gl.create_context(config, &attributes) }?;
        let context = context.make_current(&surface)?;
        Ok((surface, context))
    }

    fn create_window(&self, config: &Config) -> Option<c_ulong> {
        let visual = config.x11_visual()?.into_raw().cast::<xlib::XVisualInfo>();
        let (x, display) = (&self.functions, self.display.as_ptr());
        // SAFETY: glutin has got the visual from Xlib for this display, and leaves it to us. The
        // attributes are plain numbers, of which 0 is a valid one.
        unsafe {
            let root = (x.XRootWindow)(display, self.screen);
            let (depth, visual) = ((*visual).depth, (*visual).visual);
            let mut attributes: xlib::XSetWindowAttributes = std::mem::zeroed();
            attributes.colormap = (x.XCreateColormap)(display, root, visual, xlib::AllocNone);
            attributes.override_redirect = 1;
            let mask = xlib::CWColormap | xlib::CWBorderPixel | xlib::CWOverrideRedirect;
            let class = xlib::InputOutput as u32;
            Some((x.XCreateWindow)(
                display,
                root,
                0,
                0,
                EDGE,
                EDGE,
                0,
                depth,
                class,
                visual,
                mask,
                &raw mut attributes,
            ))
        }
    }
}

/// Fills the window's left half with black and its right half with this colour; what is read back
/// in the middle of the right half.
fn draw_colour(gl: &glow::Context, colour: [u8; 3]) -> [u8; 3] {
    let edge = EDGE.cast_signed();
    let [red, green, blue] = colour.map(|part| f32::from(part) / 255.0);
    let mut pixel = [0; 4];
    // SAFETY: arguments are numbers, and a slice of one pixel's length; the context is this
    // thread's.
    unsafe {
        gl.viewport(0, 0, edge, edge);
        gl.clear_color(0.0, 0.0, 0.0, 1.0);
        gl.clear(glow::COLOR_BUFFER_BIT);
        gl.enable(glow::SCISSOR_TEST);
        gl.scissor(edge / 2, 0, edge / 2, edge);
        gl.clear_color(red, green, blue, 1.0);
        gl.clear(glow::COLOR_BUFFER_BIT);
        gl.disable(glow::SCISSOR_TEST);
        let into = glow::PixelPackData::Slice(Some(&mut pixel));
        gl.read_pixels(edge * 3 / 4, edge / 2, 1, 1, glow::RGBA, glow::UNSIGNED_BYTE, into);
    }
    [pixel[0], pixel[1], pixel[2]]
}
