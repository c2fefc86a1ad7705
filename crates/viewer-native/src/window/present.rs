//! Path 13/13: from the window's damaged rectangles, to the screen.
//! One of three presenters: `Gpu` leaves all to a GPU (gpu.rs); `Surface` copies pixels to the
//! window through shared memory; `Renderer` uploads them to a texture of the window's size, for
//! desktops without the other two. Knows SDL and rectangles; never what is shown.

use sdl3::pixels::PixelFormat;
use sdl3::rect::Rect as SdlRect;
use sdl3::render::{Texture, TextureCreator, WindowCanvas};
use sdl3::video::{Window, WindowContext};
use sdl3::{EventPump, VideoSubsystem};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::Viewer;

use super::gpu::{Gpu, Renderers};
use crate::cli::Present;
use crate::compose::{Order, Scene};
use crate::error::ViewError;

/// Owns the window; a presenter borrows from it, because a texture must not outlive its creator.
pub(super) enum Slot {
    Gpu(std::cell::RefCell<Option<(Window, Box<Gpu>)>>),
    Surface(std::cell::RefCell<Option<Window>>),
    Renderer(std::cell::RefCell<Option<WindowCanvas>>, TextureCreator<WindowContext>),
}

/// One of the three presenters.
pub(super) enum Presenter<'a> {
    Gpu {
        window: Window,
        gpu: Box<Gpu>,
    },
    Surface(Window),
    Renderer {
        canvas: WindowCanvas,
        creator: &'a TextureCreator<WindowContext>,
        texture: Option<Texture<'a>>,
    },
}

impl Slot {
    /// Chooses a presenter for this window. If the GPU is unusable, the reason is reported and
    /// another one is chosen.
    pub(super) fn new(
        video: &VideoSubsystem,
        window: Window,
        choice: Present,
    ) -> Result<Slot, ViewError> {
        if wants_gpu(choice) {
            let renderers =
                if choice == Present::Gpu { Renderers::Any } else { Renderers::Hardware };
            match Gpu::new(video, &window, renderers) {
                Ok(gpu) => return Ok(Slot::Gpu(Some((window, Box::new(gpu))).into())),
                Err(why) => report_no_gpu(&why),
            }
        }
        let renderer = match choice {
            Present::Surface => false,
            Present::Renderer => true,
            // X takes pixels through shared memory directly; elsewhere SDL would use a renderer
            // internally.
            Present::Auto | Present::Gpu => video.current_video_driver() != "x11",
        };
        if !renderer {
            return Ok(Slot::Surface(Some(window).into()));
        }
        let canvas = sdl3::render::create_renderer(window, None).map_err(|error| {
            ViewError::Window(format!(
                "cannot create a renderer ({error}); --present surface works without one"
            ))
        })?;
        let creator = canvas.texture_creator();
        Ok(Slot::Renderer(Some(canvas).into(), creator))
    }

    /// Takes the presenter; call it once.
    pub(super) fn presenter(&self) -> Presenter<'_> {
        match self {
            Slot::Gpu(gpu) => {
                let (window, gpu) = gpu.take().expect("the presenter is taken once");
                Presenter::Gpu { window, gpu }
            }
            Slot::Surface(window) => {
                Presenter::Surface(window.take().expect("the presenter is taken once"))
            }
            Slot::Renderer(canvas, creator) => Presenter::Renderer {
                canvas: canvas.take().expect("the presenter is taken once"),
                creator,
                texture: None,
            },
        }
    }
}

/// Result of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawn {
    Whole,
    /// The window's size has changed meanwhile; another event follows.
    Later,
    /// The presenter has failed for good; another one has to be chosen.
    Never,
}

impl Presenter<'_> {
    pub(super) fn window(&self) -> &Window {
        match self {
            Presenter::Gpu { window, .. } => window,
            Presenter::Surface(window) => window,
            Presenter::Renderer { canvas, .. } => canvas.window(),
        }
    }

    pub(super) fn window_mut(&mut self) -> &mut Window {
        match self {
            Presenter::Gpu { window, .. } => window,
            Presenter::Surface(window) => window,
            Presenter::Renderer { canvas, .. } => canvas.window_mut(),
        }
    }

    /// True if it paints video frames itself.
    pub(super) fn paints_videos(&self) -> bool {
        match self {
            Presenter::Gpu { .. } => true,
            Presenter::Surface(_) | Presenter::Renderer { .. } => false,
        }
    }

    /// True if its window has a buffer for each eye.
    pub(super) fn has_stereo(&self) -> bool {
        match self {
            Presenter::Gpu { gpu, .. } => gpu.has_stereo(),
            Presenter::Surface(_) | Presenter::Renderer { .. } => false,
        }
    }

    /// The framebuffer is damaged here, whether or not this window is drawn now.
    pub(super) fn handle_damage(&mut self, damage: &Region) {
        match self {
            Presenter::Gpu { gpu, .. } => gpu.handle_damage(damage),
            // They keep no copy; the window is redrawn as a whole when it becomes visible.
            Presenter::Surface(_) | Presenter::Renderer { .. } => {}
        }
    }

    /// The window has a new size or lost its pixels: the next `draw` covers the whole window.
    pub(super) fn forget(&mut self) {
        if let Presenter::Renderer { texture, .. } = self {
            *texture = None;
        }
    }

    /// Draws these rectangles of the scene, which are inside the window. The state is locked
    /// meanwhile, so it must not block.
    pub(super) fn draw(
        &mut self,
        pump: &EventPump,
        rects: &[Rect],
        (viewer, scene): (&Viewer, &Scene<'_>),
        row: &mut Vec<u32>,
    ) -> Result<Drawn, ViewError> {
        let window = scene.placement.window;
        let failed = |error: &dyn std::fmt::Display| ViewError::Window(error.to_string());
        match self {
            Presenter::Gpu { window, gpu } => match gpu.draw(window, viewer, scene) {
                Ok(()) => Ok(Drawn::Whole),
                Err(why) => {
                    report_no_gpu(&why);
                    Ok(Drawn::Never)
                }
            },
            Presenter::Surface(of) => {
                let mut surface = of.surface(pump).map_err(|error| failed(&error))?;
                if surface.size() != (window.width, window.height) {
                    return Ok(Drawn::Later);
                }
                let order = order_of(surface.pixel_format())?;
                let pitch = surface.pitch() as usize;
                surface.with_lock_mut(|bytes| {
                    for rect in rects {
                        let at = rect.y1 as usize * pitch + rect.x1 as usize * 4;
                        scene.write(rect, &mut bytes[at..], pitch, order, row);
                    }
                });
                Ok(Drawn::Whole)
            }
            Presenter::Renderer { creator, texture, .. } => {
                if texture.is_none() {
                    *texture = Some(new_texture(creator, window)?);
                }
                let Some(texture) = texture else { return Ok(Drawn::Later) };
                for rect in rects {
                    texture
                        .with_lock(sdl_rect(rect), |bytes, pitch| {
                            scene.write(rect, bytes, pitch, Order::Rgb, row)
                        })
                        .map_err(|error| failed(&error))?;
                }
                Ok(Drawn::Whole)
            }
        }
    }

    /// Presents what was drawn; may block on the display.
    pub(super) fn show(&mut self, pump: &EventPump, rects: &[Rect]) -> Result<(), ViewError> {
        let failed = |error: sdl3::Error| ViewError::Window(error.to_string());
        match self {
            Presenter::Gpu { window, gpu } => gpu.show(window).map_err(ViewError::Window),
            Presenter::Surface(window) => {
                let rects: Vec<SdlRect> = rects.iter().map(sdl_rect).collect();
                window
                    .surface(pump)
                    .and_then(|surface| surface.update_window_rects(&rects))
                    .map_err(failed)
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

fn new_texture(
    creator: &TextureCreator<WindowContext>,
    size: Size,
) -> Result<Texture<'_>, ViewError> {
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
        Err(ViewError::Window(format!(
            "unsupported pixel format {format:?}; --present renderer supports it"
        )))
    }
}

fn sdl_rect(rect: &Rect) -> SdlRect {
    SdlRect::new(rect.x1, rect.y1, rect.width() as u32, rect.height() as u32)
}

/// Whether windows are created for a GPU.
pub(super) fn wants_gpu(choice: Present) -> bool {
    match choice {
        Present::Gpu => true,
        Present::Auto => cfg!(feature = "gpu") && has_gpu(),
        Present::Surface | Present::Renderer => false,
    }
}

/// Reports why presenting may be slow.
pub(super) fn report_no_gpu(why: &str) {
    eprintln!("thinc-view: presenting without a GPU: {}", why.trim_end());
}

/// True if the kernel has a driver for a GPU that we may open; virtual drivers do not count.
fn has_gpu() -> bool {
    let Ok(nodes) = std::fs::read_dir("/sys/class/drm") else { return false };
    nodes
        .filter_map(Result::ok)
        .filter(|node| node.file_name().to_string_lossy().starts_with("renderD"))
        .any(|node| {
            let driver = std::fs::read_link(node.path().join("device/driver"));
            let name = driver
                .ok()
                .and_then(|link| link.file_name().map(|name| name.to_string_lossy().into_owned()));
            let open = std::fs::File::open(std::path::Path::new("/dev/dri").join(node.file_name()));
            name.is_some_and(|name| name != "vgem" && name != "vkms") && open.is_ok()
        })
}
