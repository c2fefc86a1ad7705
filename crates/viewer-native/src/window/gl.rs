//! Beside gpu.rs: the part of OpenGL that it needs, as safe functions.
//! From gpu.rs's rectangles and slices, to the GPU's driver. Knows textures, programs and
//! rectangles; never their content. All calls of this crate into OpenGL are here.
#![allow(unsafe_code, reason = "every function of OpenGL is foreign")]

use glow::HasContext as _;
use sdl3::VideoSubsystem;
use sdl3::video::{GLContext, SwapInterval, Window};
use thinc_region::{Rect, Size};

/// Renderer names of software implementations: Mesa's three, SwiftShader's, and what Mesa calls
/// itself if it has no other name.
const SOFTWARE: [&str; 5] =
    ["llvmpipe", "softpipe", "swrast", "SwiftShader", "Software Rasterizer"];

/// One triangle that covers the whole target; the scissor box limits what is drawn.
const VERTICES: &str = "#version 140
void main() {
    gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}";

/// A context and its driver's functions.
pub(super) struct Gl {
    functions: glow::Context,
    context: GLContext,
    name: String,
    edge_max: u32,
    has_stereo: bool,
}

/// Format of a texture's pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Four bytes in memory order; a program reads each as 0 to 1.
    Pixels,
    /// One byte.
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

    /// Internal format, and order and type of the components in client memory.
    const fn names(self) -> (u32, u32, u32) {
        match self {
            Format::Pixels => (glow::RGBA8, glow::RGBA, glow::UNSIGNED_BYTE),
            Format::Samples => (glow::R8UI, glow::RED_INTEGER, glow::UNSIGNED_BYTE),
            Format::Numbers => (glow::R32UI, glow::RED_INTEGER, glow::UNSIGNED_INT),
        }
    }
}

/// A texture that programs read, and draw to if it was created as a target.
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

/// A render target.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The window, of this size in pixels; if it has a buffer for each eye, both.
    Window(Size),
    /// The right eye's buffer of a window of this size that has one: [`Gl::has_stereo`].
    RightEye(Size),
    /// A texture of [`Gl::target`].
    Texture(&'a Texture),
}

/// A shader program.
pub(super) struct Program {
    name: glow::NativeProgram,
    numbers: Option<glow::NativeUniformLocation>,
}

/// Requests a context as [`Gl::new`] needs it, for windows created after this.
pub(super) fn ask(video: &VideoSubsystem) {
    let wanted = video.gl_attr();
    // The first version with texelFetch and integers, or any later one.
    wanted.set_context_version(3, 1);
    wanted.set_double_buffer(true);
    wanted.set_red_size(8);
    wanted.set_green_size(8);
    wanted.set_blue_size(8);
    wanted.set_depth_size(0);
    wanted.set_stencil_size(0);
}

/// Requests a buffer for each eye, or one for both, for windows created after this.
pub(super) fn ask_stereo(video: &VideoSubsystem, on: bool) {
    video.gl_attr().set_stereo(on);
}

impl Gl {
    /// Creates a context for this window and makes it the thread's.
    pub(super) fn new(video: &VideoSubsystem, window: &Window) -> Result<Gl, String> {
        let context = window.gl_create_context().map_err(|error| error.to_string())?;
        window.gl_make_current(&context).map_err(|error| error.to_string())?;
        let address = |name: &str| {
            video
                .gl_get_proc_address(name)
                .map_or(std::ptr::null(), |function| function as *const _)
        };
        // SAFETY: the context is this thread's, and the addresses are those that SDL has for it, of
        // functions of these names.
        let functions = unsafe { glow::Context::from_loader_function(address) };
        let version = functions.version();
        if version.is_embedded || (version.major, version.minor) < (3, 1) {
            return Err(format!("OpenGL {}.{} is too old", version.major, version.minor));
        }
        // SAFETY: the constants name a string and two values, which exist in every version; the
        // object created belongs to this context.
        let (name, edge_max, has_stereo) = unsafe {
            functions.bind_vertex_array(Some(functions.create_vertex_array()?));
            functions.pixel_store_i32(glow::UNPACK_ALIGNMENT, 1);
            functions.pixel_store_i32(glow::PACK_ALIGNMENT, 1);
            let edge_max =
                functions.get_parameter_i32(glow::MAX_TEXTURE_SIZE).max(0).cast_unsigned();
            let has_stereo = functions.get_parameter_bool(glow::STEREO);
            (functions.get_parameter_string(glow::RENDERER), edge_max, has_stereo)
        };
        // Waiting for the display here would delay the session's next update too. Not every desktop
        // lets this be set.
        let _ = video.gl_set_swap_interval(SwapInterval::Immediate);
        Ok(Gl { functions, context, name, edge_max, has_stereo })
    }

    /// The functions; they must not be called while another context is current.
    fn functions(&self) -> &glow::Context {
        assert!(self.context.is_current(), "a context is made current before it is used");
        &self.functions
    }

    /// The renderer's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// True if the window has a buffer for each eye.
    pub(super) const fn has_stereo(&self) -> bool {
        self.has_stereo
    }

    /// True if it is a software renderer.
    pub(super) fn is_software(&self) -> bool {
        SOFTWARE.iter().any(|name| self.name.contains(name))
    }

    /// Makes this window current for the calls that follow. The context is the window's own.
    pub(super) fn make_current(&self, window: &Window) -> Result<(), String> {
        if self.context.is_current() {
            return Ok(());
        }
        window.gl_make_current(&self.context).map_err(|error| error.to_string())
    }

    /// The error of a call since the last check.
    pub(super) fn check(&self) -> Result<(), String> {
        // SAFETY: it takes nothing.
        match unsafe { self.functions().get_error() } {
            glow::NO_ERROR => Ok(()),
            glow::OUT_OF_MEMORY => Err("out of video memory".to_owned()),
            error => Err(format!("OpenGL error {error:#x}")),
        }
    }

    /// Compiles a fragment program in GLSL 1.40. Its textures have these names, in the order in
    /// which `draw` gets them; `numbers` is an array of vectors of four.
    pub(super) fn program(&self, pixels: &str, textures: &[&str]) -> Result<Program, String> {
        let gl = self.functions();
        // SAFETY: names of shaders, programs and uniforms are those that this context has just
        // given, and none is used after its end.
        unsafe {
            let name = gl.create_program()?;
            for (kind, source) in [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, pixels)]
            {
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

    /// Creates a texture whose content will be written.
    pub(super) fn texture(&self, format: Format, size: Size) -> Result<Texture, String> {
        if size.width.max(size.height) > self.edge_max || size.area() == 0 {
            return Err(format!("textures of {} x {} are not supported", size.width, size.height));
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
            gl.tex_image_2d(
                glow::TEXTURE_2D,
                0,
                inside as i32,
                width,
                height,
                0,
                parts,
                kind,
                none,
            );
            Ok(Texture { name, target: None, format, size })
        }
    }

    /// Creates a texture that can be drawn to.
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
        if is_whole { Ok(texture) } else { Err("cannot render to textures".to_owned()) }
    }

    /// Deletes a texture.
    pub(super) fn delete(&self, texture: Texture) {
        let gl = self.functions();
        // SAFETY: the names are this context's, and nobody has them after this.
        unsafe {
            texture.target.into_iter().for_each(|target| gl.delete_framebuffer(target));
            gl.delete_texture(texture.name);
        }
    }

    /// Writes a rectangle of a texture. The first byte is the rectangle's corner, rows start
    /// `stride` pixels apart.
    pub(super) fn write(&self, texture: &Texture, rect: &Rect, bytes: &[u8], stride: usize) {
        let (width, height) = (rect.width() as usize, rect.height() as usize);
        assert!(
            !rect.is_empty() && texture.size.rect().contains(rect),
            "{rect:?} is a part of {:?}",
            texture.size
        );
        let len = ((height - 1) * stride + width) * texture.format.bytes();
        assert!(stride >= width && bytes.len() >= len, "the bytes are as many as {rect:?} has");
        let gl = self.functions();
        let (_, parts, kind) = texture.format.names();
        // SAFETY: the name is this context's. The driver reads rows of `stride` pixels without gaps
        // (alignment 1), the last only as far as the rectangle is wide: `len` bytes, which are
        // there; and it has read them when the call returns, no buffer being bound.
        unsafe {
            gl.bind_texture(glow::TEXTURE_2D, Some(texture.name));
            gl.pixel_store_i32(glow::UNPACK_ROW_LENGTH, stride as i32);
            let data = glow::PixelUnpackData::Slice(Some(&bytes[..len]));
            let (x, y) = (rect.x1, rect.y1);
            gl.tex_sub_image_2d(
                glow::TEXTURE_2D,
                0,
                x,
                y,
                rect.width(),
                rect.height(),
                parts,
                kind,
                data,
            );
        }
    }

    /// As [`Gl::write`], for 32-bit numbers, which include pixels.
    pub(super) fn write_numbers(
        &self,
        texture: &Texture,
        rect: &Rect,
        numbers: &[u32],
        stride: usize,
    ) {
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

    /// Runs the program for each pixel of these rectangles of the target. Rows count from the top;
    /// a program that draws to the window flips them, because OpenGL counts them from the bottom.
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
        // SAFETY: the names are this context's. A program reads no vertices from memory, and what
        // it reads beyond a texture is whatever the driver says, and no memory of ours.
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
                    Target::Window(size) | Target::RightEye(size) => size.height as i32 - rect.y2,
                    Target::Texture(_) => rect.y1,
                };
                gl.scissor(rect.x1, y, rect.width(), rect.height());
                gl.draw_arrays(glow::TRIANGLES, 0, 3);
            }
        }
    }

    fn aim(&self, target: Target<'_>) {
        let (framebuffer, size) = match target {
            Target::Window(size) | Target::RightEye(size) => (None, size),
            Target::Texture(texture) => {
                assert!(texture.target.is_some(), "it was made to be drawn to");
                (texture.target, texture.size)
            }
        };
        let gl = self.functions();
        let eyes = match target {
            Target::Window(_) => Some(glow::BACK),
            Target::RightEye(_) => Some(glow::BACK_RIGHT),
            Target::Texture(_) => None,
        };
        // SAFETY: the name is this context's; the buffers are those that the window has.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, framebuffer);
            // The choice is the window's; a texture has one buffer.
            if let Some(buffers) = eyes.filter(|_| self.has_stereo) {
                gl.draw_buffer(buffers);
            }
            gl.viewport(0, 0, size.width as i32, size.height as i32);
        }
    }

    /// Waits until everything is drawn.
    #[cfg(test)]
    pub(super) fn finish(&self) {
        // SAFETY: it takes nothing.
        unsafe { self.functions().finish() };
    }

    /// All pixels of a target texture, in memory order.
    #[cfg(test)]
    pub(super) fn read(&self, texture: &Texture) -> Vec<u32> {
        self.aim(Target::Texture(texture));
        let mut bytes = vec![0; texture.size.area() as usize * 4];
        let (width, height) = (texture.size.width as i32, texture.size.height as i32);
        let into = glow::PixelPackData::Slice(Some(&mut bytes));
        // SAFETY: the driver writes as many bytes as such a texture has without gaps (alignment 1).
        unsafe {
            self.functions().read_pixels(0, 0, width, height, glow::RGBA, glow::UNSIGNED_BYTE, into)
        };
        bytes.as_chunks().0.iter().map(|&pixel| u32::from_le_bytes(pixel)).collect()
    }
}
