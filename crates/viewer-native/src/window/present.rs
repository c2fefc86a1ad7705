//! Path 13/13: pixels of the window's changed rectangles, to the screen, by one of two ways.
//! `Surface` copies them to the window through shared memory; `Renderer` uploads them to a texture the size of the
//! window, for a graphics processor or a desktop without the first way. Knows SDL and rectangles; never what is shown.

use sdl3::EventPump;
use sdl3::pixels::PixelFormat;
use sdl3::rect::Rect as SdlRect;
use sdl3::render::{Texture, TextureCreator, WindowCanvas};
use sdl3::video::{Window, WindowContext};
use thinc_region::{Rect, Size};

use crate::cli::Present;
use crate::compose::{Order, Scene};
use crate::error::ViewError;

/// Owns the window; a presenter borrows from it, because a texture may not outlive what made it.
pub(super) enum Slot {
    Surface(std::cell::RefCell<Option<Window>>),
    Renderer(std::cell::RefCell<Option<WindowCanvas>>, TextureCreator<WindowContext>),
}

/// One of the two ways.
pub(super) enum Presenter<'a> {
    Surface(Window),
    Renderer { canvas: WindowCanvas, creator: &'a TextureCreator<WindowContext>, texture: Option<Texture<'a>> },
}

impl Slot {
    /// Chooses a way for this window.
    pub(super) fn new(window: Window, choice: Present, driver: &str) -> Result<Slot, ViewError> {
        let renderer = match choice {
            Present::Surface => false,
            Present::Renderer => true,
            // X takes pixels through shared memory at once; elsewhere SDL would put a renderer in between anyway.
            Present::Auto => driver != "x11" || has_graphics_processor(),
        };
        if !renderer {
            return Ok(Slot::Surface(Some(window).into()));
        }
        let canvas = sdl3::render::create_renderer(window, None).map_err(|error| {
            ViewError::Window(format!("no renderer ({error}); --present surface works without one"))
        })?;
        let creator = canvas.texture_creator();
        Ok(Slot::Renderer(Some(canvas).into(), creator))
    }

    /// The presenter; asked for once.
    pub(super) fn presenter(&self) -> Presenter<'_> {
        match self {
            Slot::Surface(window) => Presenter::Surface(window.take().expect("asked for once")),
            Slot::Renderer(canvas, creator) => {
                Presenter::Renderer { canvas: canvas.take().expect("asked for once"), creator, texture: None }
            }
        }
    }
}

impl Presenter<'_> {
    pub(super) fn window(&self) -> &Window {
        match self {
            Presenter::Surface(window) => window,
            Presenter::Renderer { canvas, .. } => canvas.window(),
        }
    }

    pub(super) fn window_mut(&mut self) -> &mut Window {
        match self {
            Presenter::Surface(window) => window,
            Presenter::Renderer { canvas, .. } => canvas.window_mut(),
        }
    }

    /// The window has another size or lost its pixels: the next `draw` is of the whole window.
    pub(super) fn forget(&mut self) {
        if let Presenter::Renderer { texture, .. } = self {
            *texture = None;
        }
    }

    /// Draws these rectangles of the scene, which lie inside the window; the picture is locked meanwhile, so nothing
    /// here waits. False: the window's size has changed under it, and another event will say so.
    pub(super) fn draw(
        &mut self,
        pump: &EventPump,
        rects: &[Rect],
        scene: &Scene<'_>,
        row: &mut Vec<u32>,
    ) -> Result<bool, ViewError> {
        let window = scene.placement.window;
        let failed = |error: &dyn std::fmt::Display| ViewError::Window(error.to_string());
        match self {
            Presenter::Surface(of) => {
                let mut surface = of.surface(pump).map_err(|error| failed(&error))?;
                if surface.size() != (window.width, window.height) {
                    return Ok(false);
                }
                let order = order_of(surface.pixel_format())?;
                let pitch = surface.pitch() as usize;
                surface.with_lock_mut(|bytes| {
                    for rect in rects {
                        let at = rect.y1 as usize * pitch + rect.x1 as usize * 4;
                        scene.write(rect, &mut bytes[at..], pitch, order, row);
                    }
                });
                Ok(true)
            }
            Presenter::Renderer { creator, texture, .. } => {
                if texture.is_none() {
                    *texture = Some(new_texture(creator, window)?);
                }
                let Some(texture) = texture else { return Ok(false) };
                for rect in rects {
                    texture
                        .with_lock(sdl_rect(rect), |bytes, pitch| scene.write(rect, bytes, pitch, Order::Rgb, row))
                        .map_err(|error| failed(&error))?;
                }
                Ok(true)
            }
        }
    }

    /// Shows what was drawn; may wait for the display.
    pub(super) fn show(&mut self, pump: &EventPump, rects: &[Rect]) -> Result<(), ViewError> {
        let failed = |error: sdl3::Error| ViewError::Window(error.to_string());
        match self {
            Presenter::Surface(window) => {
                let rects: Vec<SdlRect> = rects.iter().map(sdl_rect).collect();
                window.surface(pump).and_then(|surface| surface.update_window_rects(&rects)).map_err(failed)
            }
            Presenter::Renderer { canvas, texture, .. } => {
                if let Some(texture) = texture {
                    canvas.copy(texture, None, None).map_err(failed)?;
                    canvas.present();
                }
                Ok(())
            }
        }
    }
}

fn new_texture(creator: &TextureCreator<WindowContext>, size: Size) -> Result<Texture<'_>, ViewError> {
    creator
        .create_texture_streaming(PixelFormat::XRGB8888, size.width, size.height)
        .map_err(|error| ViewError::Window(error.to_string()))
}

fn order_of(format: PixelFormat) -> Result<Order, ViewError> {
    if format == PixelFormat::XRGB8888 || format == PixelFormat::ARGB8888 {
        Ok(Order::Rgb)
    } else if format == PixelFormat::XBGR8888 || format == PixelFormat::ABGR8888 {
        Ok(Order::Bgr)
    } else {
        Err(ViewError::Window(format!("the display's pixels are {format:?}; --present renderer can show them")))
    }
}

fn sdl_rect(rect: &Rect) -> SdlRect {
    SdlRect::new(rect.x1, rect.y1, rect.width() as u32, rect.height() as u32)
}

/// True where the kernel drives a graphics processor that we may use; its software stand-ins do not count.
fn has_graphics_processor() -> bool {
    let Ok(nodes) = std::fs::read_dir("/sys/class/drm") else { return false };
    nodes.filter_map(Result::ok).filter(|node| node.file_name().to_string_lossy().starts_with("renderD")).any(|node| {
        let driver = std::fs::read_link(node.path().join("device/driver"));
        let name = driver.ok().and_then(|link| link.file_name().map(|name| name.to_string_lossy().into_owned()));
        let open = std::fs::File::open(std::path::Path::new("/dev/dri").join(node.file_name()));
        name.is_some_and(|name| name != "vgem" && name != "vkms") && open.is_ok()
    })
}
