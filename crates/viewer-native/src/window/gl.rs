//! Beside gpu.rs: as much of OpenGL as it needs, behind functions that are safe to call.
//! From gpu.rs's rectangles and slices, to the graphics processor's driver.
//! Knows textures, programs and rectangles; never what is in them. All calls of this crate into OpenGL are here.
#![allow(unsafe_code, reason = "every function of OpenGL is foreign")]

use glow::HasContext as _;
use sdl3::VideoSubsystem;
use sdl3::video::{GLContext, SwapInterval, Window};
use thinc_region::{Rect, Size};

/// What the driver says of a processor that is none: Mesa's three, SwiftShader's, and what Mesa calls itself where it has no other name.
const SOFTWARE: [&str; 5] = ["llvmpipe", "softpipe", "swrast", "SwiftShader", "Software Rasterizer"];

/// One triangle that holds all of the target; what is drawn of it the scissors say.
const VERTICES: &str = "#version 140
void main() {
    gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}";

/// A context, and the functions that its driver has.
pub(super) struct Gl {
    functions: glow::Context,
    context: GLContext,
    name: String,
    edge_max: u32,
}

/// What a texture holds for each pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Four bytes, in the order in which they lie in memory; a program reads each as 0 to 1.
    Pixels,
    /// A byte.
    Samples,
    /// 32 bits.
    Numbers,
}

impl Format {
    const fn bytes(self) -> usize {
        match self {
            Format::Samples => 1,
            Format::Pixels | Format::Numbers => 4,
        }
    }

    /// Inside, and of what is given and taken: the order of its parts, and each one's kind.
    const fn names(self) -> (u32, u32, u32) {
        match self {
            Format::Pixels => (glow::RGBA8, glow::RGBA, glow::UNSIGNED_BYTE),
            Format::Samples => (glow::R8UI, glow::RED_INTEGER, glow::UNSIGNED_BYTE),
            Format::Numbers => (glow::R32UI, glow::RED_INTEGER, glow::UNSIGNED_INT),
        }
    }
}

/// An image that programs read, and draw to where it was made for that.
pub(super) struct Texture {
    name: glow::NativeTexture,
    target: Option<glow::NativeFramebuffer>,
    format: Format,
    size: Size,
}

impl Texture {
    pub(super) const fn size(&self) -> Size {
        self.size
    }
}

/// What is drawn to.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The window, of this size in pixels.
    Window(Size),
    /// A texture of [`Gl::target`].
    Texture(&'a Texture),
}

/// How pixels are made.
pub(super) struct Program {
    name: glow::NativeProgram,
    numbers: Option<glow::NativeUniformLocation>,
}

/// Asks for a context as [`Gl::new`] wants it, of windows that are made after this.
pub(super) fn ask(video: &VideoSubsystem) {
    let wanted = video.gl_attr();
    // The first version that reads single pixels of textures and counts in whole numbers; whatever a driver gives with it or above.
    wanted.set_context_version(3, 1);
    wanted.set_double_buffer(true);
    wanted.set_red_size(8);
    wanted.set_green_size(8);
    wanted.set_blue_size(8);
    wanted.set_depth_size(0);
    wanted.set_stencil_size(0);
}

impl Gl {
    /// A context of this window, which is the thread's from now on.
    pub(super) fn new(video: &VideoSubsystem, window: &Window) -> Result<Gl, String> {
        let context = window.gl_create_context().map_err(|error| error.to_string())?;
        window.gl_make_current(&context).map_err(|error| error.to_string())?;
        let address =
            |name: &str| video.gl_get_proc_address(name).map_or(std::ptr::null(), |function| function as *const _);
        // SAFETY: the context is this thread's, and the addresses are those that SDL has for it, of functions of these names.
        let functions = unsafe { glow::Context::from_loader_function(address) };
        let version = functions.version();
        if version.is_embedded || (version.major, version.minor) < (3, 1) {
            return Err(format!("OpenGL {}.{} is too old", version.major, version.minor));
        }
        // SAFETY: the names are of a string and of one number, both of every version; what is made is this context's.
        let (name, edge_max) = unsafe {
            functions.bind_vertex_array(Some(functions.create_vertex_array()?));
            functions.pixel_store_i32(glow::UNPACK_ALIGNMENT, 1);
            functions.pixel_store_i32(glow::PACK_ALIGNMENT, 1);
            let edge_max = functions.get_parameter_i32(glow::MAX_TEXTURE_SIZE).max(0).cast_unsigned();
            (functions.get_parameter_string(glow::RENDERER), edge_max)
        };
        // Whoever waits for the display here keeps the session's next picture waiting too. Not every desktop lets it be chosen.
        let _ = video.gl_set_swap_interval(SwapInterval::Immediate);
        Ok(Gl { functions, context, name, edge_max })
    }

    /// The functions, of which none may be called while another context is the thread's.
    fn functions(&self) -> &glow::Context {
        assert!(self.context.is_current(), "a context is made current before it is used");
        &self.functions
    }

    /// What the driver calls the processor.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// It is the processor that runs this program, too.
    pub(super) fn is_software(&self) -> bool {
        SOFTWARE.iter().any(|name| self.name.contains(name))
    }

    /// What is called from here on concerns this window. The context is the window's own.
    pub(super) fn make_current(&self, window: &Window) -> Result<(), String> {
        if self.context.is_current() {
            return Ok(());
        }
        window.gl_make_current(&self.context).map_err(|error| error.to_string())
    }

    /// What of the calls since the last time went wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        // SAFETY: it takes nothing.
        match unsafe { self.functions().get_error() } {
            glow::NO_ERROR => Ok(()),
            glow::OUT_OF_MEMORY => Err("its memory is full".to_owned()),
            error => Err(format!("OpenGL error {error:#x}")),
        }
    }

    /// A program for each pixel, in GLSL 1.40. Its textures have these names, in the order in which `draw` gets them; `numbers` are an array of four each.
    pub(super) fn program(&self, pixels: &str, textures: &[&str]) -> Result<Program, String> {
        let gl = self.functions();
        // SAFETY: names of shaders, programs and uniforms are those that this context has just given, and none is used after its end.
        unsafe {
            let name = gl.create_program()?;
            for (kind, source) in [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, pixels)] {
                let shader = gl.create_shader(kind)?;
                gl.shader_source(shader, source);
                gl.compile_shader(shader);
                if !gl.get_shader_compile_status(shader) {
                    return Err(gl.get_shader_info_log(shader));
                }
                gl.attach_shader(name, shader);
                gl.delete_shader(shader);
            }
            gl.link_program(name);
            if !gl.get_program_link_status(name) {
                return Err(gl.get_program_info_log(name));
            }
            gl.use_program(Some(name));
            for (unit, texture) in (0..).zip(textures) {
                gl.uniform_1_i32(gl.get_uniform_location(name, texture).as_ref(), unit);
            }
            Ok(Program { name, numbers: gl.get_uniform_location(name, "numbers") })
        }
    }

    /// A texture whose content is to be written.
    pub(super) fn texture(&self, format: Format, size: Size) -> Result<Texture, String> {
        if size.width.max(size.height) > self.edge_max || size.area() == 0 {
            return Err(format!("it holds no picture of {} x {}", size.width, size.height));
        }
        let gl = self.functions();
        let (inside, parts, kind) = format.names();
        // SAFETY: the name is this context's; memory is asked for, and none given.
        unsafe {
            let name = gl.create_texture()?;
            gl.bind_texture(glow::TEXTURE_2D, Some(name));
            for parameter in [glow::TEXTURE_MIN_FILTER, glow::TEXTURE_MAG_FILTER] {
                gl.tex_parameter_i32(glow::TEXTURE_2D, parameter, glow::NEAREST as i32);
            }
            gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MAX_LEVEL, 0);
            let (width, height) = (size.width as i32, size.height as i32);
            let none = glow::PixelUnpackData::Slice(None);
            gl.tex_image_2d(glow::TEXTURE_2D, 0, inside as i32, width, height, 0, parts, kind, none);
            Ok(Texture { name, target: None, format, size })
        }
    }

    /// A texture of pixels that can be drawn to.
    pub(super) fn target(&self, size: Size) -> Result<Texture, String> {
        let mut texture = self.texture(Format::Pixels, size)?;
        let gl = self.functions();
        // SAFETY: both names are this context's.
        let is_whole = unsafe {
            let target = gl.create_framebuffer()?;
            texture.target = Some(target);
            gl.bind_framebuffer(glow::FRAMEBUFFER, texture.target);
            let (point, of) = (glow::COLOR_ATTACHMENT0, glow::TEXTURE_2D);
            gl.framebuffer_texture_2d(glow::FRAMEBUFFER, point, of, Some(texture.name), 0);
            gl.check_framebuffer_status(glow::FRAMEBUFFER) == glow::FRAMEBUFFER_COMPLETE
        };
        if is_whole { Ok(texture) } else { Err("it does not draw to pictures".to_owned()) }
    }

    /// The texture is not needed any more.
    pub(super) fn delete(&self, texture: Texture) {
        let gl = self.functions();
        // SAFETY: the names are this context's, and nobody has them after this.
        unsafe {
            texture.target.into_iter().for_each(|target| gl.delete_framebuffer(target));
            gl.delete_texture(texture.name);
        }
    }

    /// Writes a rectangle of a texture. The first byte is the rectangle's corner, rows begin `stride` pixels apart.
    pub(super) fn write(&self, texture: &Texture, rect: &Rect, bytes: &[u8], stride: usize) {
        let (width, height) = (rect.width() as usize, rect.height() as usize);
        assert!(!rect.is_empty() && texture.size.rect().contains(rect), "{rect:?} is a part of {:?}", texture.size);
        let len = ((height - 1) * stride + width) * texture.format.bytes();
        assert!(stride >= width && bytes.len() >= len, "the bytes are as many as {rect:?} has");
        let gl = self.functions();
        let (_, parts, kind) = texture.format.names();
        // SAFETY: the name is this context's. The driver reads rows of `stride` pixels without gaps (alignment 1), the last only as far as
        // the rectangle is wide: `len` bytes, which are there; and it has read them when the call returns, no buffer being bound.
        unsafe {
            gl.bind_texture(glow::TEXTURE_2D, Some(texture.name));
            gl.pixel_store_i32(glow::UNPACK_ROW_LENGTH, stride as i32);
            let data = glow::PixelUnpackData::Slice(Some(&bytes[..len]));
            let (x, y) = (rect.x1, rect.y1);
            gl.tex_sub_image_2d(glow::TEXTURE_2D, 0, x, y, rect.width(), rect.height(), parts, kind, data);
        }
    }

    /// The same of numbers of 32 bits: pixels, too, as they lie in memory.
    pub(super) fn write_numbers(&self, texture: &Texture, rect: &Rect, numbers: &[u32], stride: usize) {
        // SAFETY: each number is four bytes, and any bytes are.
        let (before, bytes, after) = unsafe { numbers.align_to::<u8>() };
        assert!(before.is_empty() && after.is_empty(), "bytes lie anywhere");
        self.write(texture, rect, bytes, stride);
    }

    /// Fills the target with one colour, 0x..RRGGBB.
    pub(super) fn fill(&self, target: Target<'_>, color: u32) {
        let gl = self.functions();
        let part = |shift: u32| (color >> shift & 0xff) as f32 / 255.0;
        self.aim(target);
        // SAFETY: numbers alone.
        unsafe {
            gl.disable(glow::SCISSOR_TEST);
            gl.clear_color(part(16), part(8), part(0), 1.0);
            gl.clear(glow::COLOR_BUFFER_BIT);
        }
    }

    /// Runs the program for each pixel of these rectangles of the target. Rows count from above; a program that draws to the window
    /// turns them over, which has them from below.
    pub(super) fn draw(
        &self,
        target: Target<'_>,
        program: &Program,
        textures: &[&Texture],
        numbers: &[[i32; 4]],
        rects: &[Rect],
    ) {
        self.aim(target);
        let gl = self.functions();
        // SAFETY: the names are this context's. A program reads no vertices from memory, and what it reads beyond a texture is
        // whatever the driver says, and no memory of ours.
        unsafe {
            gl.use_program(Some(program.name));
            gl.uniform_4_i32_slice(program.numbers.as_ref(), numbers.as_flattened());
            for (unit, texture) in (0..).zip(textures) {
                gl.active_texture(glow::TEXTURE0 + unit);
                gl.bind_texture(glow::TEXTURE_2D, Some(texture.name));
            }
            gl.active_texture(glow::TEXTURE0);
            gl.enable(glow::SCISSOR_TEST);
            for rect in rects.iter().filter(|rect| !rect.is_empty()) {
                let y = match target {
                    Target::Window(size) => size.height as i32 - rect.y2,
                    Target::Texture(_) => rect.y1,
                };
                gl.scissor(rect.x1, y, rect.width(), rect.height());
                gl.draw_arrays(glow::TRIANGLES, 0, 3);
            }
        }
    }

    fn aim(&self, target: Target<'_>) {
        let (framebuffer, size) = match target {
            Target::Window(size) => (None, size),
            Target::Texture(texture) => {
                assert!(texture.target.is_some(), "it was made to be drawn to");
                (texture.target, texture.size)
            }
        };
        let gl = self.functions();
        // SAFETY: the name is this context's.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, framebuffer);
            gl.viewport(0, 0, size.width as i32, size.height as i32);
        }
    }

    /// Waits until everything has been drawn.
    #[cfg(test)]
    pub(super) fn finish(&self) {
        // SAFETY: it takes nothing.
        unsafe { self.functions().finish() };
    }

    /// All pixels of a texture that can be drawn to, as they lie in memory.
    #[cfg(test)]
    pub(super) fn read(&self, texture: &Texture) -> Vec<u32> {
        self.aim(Target::Texture(texture));
        let mut bytes = vec![0; texture.size.area() as usize * 4];
        let (width, height) = (texture.size.width as i32, texture.size.height as i32);
        let into = glow::PixelPackData::Slice(Some(&mut bytes));
        // SAFETY: as many bytes are written as such a picture has without gaps (alignment 1).
        unsafe { self.functions().read_pixels(0, 0, width, height, glow::RGBA, glow::UNSIGNED_BYTE, into) };
        bytes.as_chunks().0.iter().map(|&pixel| u32::from_le_bytes(pixel)).collect()
    }
}
