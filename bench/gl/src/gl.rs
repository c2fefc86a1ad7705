//! Every call of this crate into OpenGL, as safe functions: one program with two shapes, and
//! scissored clears. From scene.rs's matrices and bars.rs's rectangles to the driver. Knows shaders
//! and buffers; never when a frame is drawn.
#![allow(unsafe_code, reason = "every function of OpenGL is foreign")]

use glow::HasContext as _;
use sdl3::VideoSubsystem;
use sdl3::video::{GLContext, SwapInterval, Window};

use crate::bars::Area;
use crate::scene::{Matrix, Mesh, Object, POINT_NUMBERS, Shape, mesh};

/// Light by point, as the fixed pipeline of GLXSpheres' time has it; wires show their normals as
/// colours.
const VERTICES: &str = "#version 140
in vec3 at;
in vec3 normal;
uniform mat4 place;
uniform mat4 view;
uniform vec3 colour;
uniform float wires;
out vec3 shade;
void main() {
    vec4 seen = place * vec4(at, 1.0);
    vec3 n = normalize(mat3(place) * normal);
    vec3 light = normalize(vec3(-0.5, 0.5, 0.707));
    float diffuse = max(dot(n, light), 0.0);
    float shine = pow(max(dot(n, normalize(light + vec3(0.0, 0.0, 1.0))), 0.0), 24.0);
    vec3 lit = colour * (0.2 + 0.75 * diffuse) + vec3(0.6 * shine);
    shade = mix(lit, 0.5 + 0.5 * normal * colour, wires);
    gl_Position = view * seen;
}";
const PIXELS: &str = "#version 140
in vec3 shade;
out vec4 pixel;
void main() {
    pixel = vec4(shade, 1.0);
}";
const SHAPES: [Shape; 2] = [Shape::Sphere, Shape::Torus];

/// A context with the program and the shapes.
pub(crate) struct Gl {
    functions: glow::Context,
    // Ends after the functions that need it.
    _context: GLContext,
    renderer: String,
    size: (u32, u32),
    shapes: [Uploaded; 2],
    place: Option<glow::NativeUniformLocation>,
    colour: Option<glow::NativeUniformLocation>,
    wires: Option<glow::NativeUniformLocation>,
}

/// A shape in the driver's memory.
struct Uploaded {
    name: glow::NativeVertexArray,
    indices: i32,
}

/// Asks for a context as [`Gl::new`] needs it, for windows that are made after this.
pub(crate) fn ask(video: &VideoSubsystem) {
    let wanted = video.gl_attr();
    // The first version with vertex arrays in its core.
    wanted.set_context_version(3, 1);
    wanted.set_double_buffer(true);
    wanted.set_red_size(8);
    wanted.set_green_size(8);
    wanted.set_blue_size(8);
    wanted.set_depth_size(24);
}

impl Gl {
    /// Makes a context for a window of this size, the thread's only one, with everything that is
    /// drawn.
    pub(crate) fn new(
        video: &VideoSubsystem,
        window: &Window,
        size: (u32, u32),
        view: &Matrix,
    ) -> Result<Gl, String> {
        let context = window.gl_create_context().map_err(|error| error.to_string())?;
        window.gl_make_current(&context).map_err(|error| error.to_string())?;
        // Frames are as fast as the X server takes them. Software renderers do not let this be set,
        // and do not wait.
        let _ = video.gl_set_swap_interval(SwapInterval::Immediate);
        let address = |name: &str| {
            video
                .gl_get_proc_address(name)
                .map_or(std::ptr::null(), |function| function as *const _)
        };
        // SAFETY: the context is this thread's, and the addresses are those that SDL has for it, of
        // functions of these names.
        let gl = unsafe { glow::Context::from_loader_function(address) };
        let version = gl.version();
        if version.is_embedded || (version.major, version.minor) < (3, 1) {
            return Err(format!(
                "OpenGL {}.{} is too old: 3.1 is needed",
                version.major, version.minor
            ));
        }
        // SAFETY: the constant names a string that every version has.
        let renderer = unsafe { gl.get_parameter_string(glow::RENDERER) };
        let program = compile(&gl)?;
        let [sphere, torus] = SHAPES.map(|shape| upload(&gl, &mesh(shape)));
        // SAFETY: the program is this context's, and numbers are passed by value or as slices of
        // the length that the uniform has.
        let [place, colour, wires] = unsafe {
            gl.use_program(Some(program));
            let view_at = gl.get_uniform_location(program, "view");
            gl.uniform_matrix_4_f32_slice(view_at.as_ref(), false, view);
            gl.viewport(0, 0, size.0.cast_signed(), size.1.cast_signed());
            gl.enable(glow::DEPTH_TEST);
            // Half of a sphere; wires have no back.
            gl.enable(glow::CULL_FACE);
            ["place", "colour", "wires"].map(|name| gl.get_uniform_location(program, name))
        };
        let shapes = [sphere?, torus?];
        Ok(Gl { functions: gl, _context: context, renderer, size, shapes, place, colour, wires })
    }

    /// The renderer's name.
    pub(crate) fn renderer(&self) -> &str {
        &self.renderer
    }

    /// Draws the objects over a ground of this colour, then clears these areas to white or black.
    pub(crate) fn draw(
        &self,
        ground: [f32; 3],
        objects: &[Object],
        areas: &[(Area, bool)],
    ) -> Result<(), String> {
        let (gl, [red, green, blue]) = (&self.functions, ground);
        // SAFETY: the names are this context's, which is the thread's only one; indices are those
        // of the shape's own buffer, and every other argument is a number.
        unsafe {
            gl.disable(glow::SCISSOR_TEST);
            gl.clear_color(red, green, blue, 1.0);
            gl.clear(glow::COLOR_BUFFER_BIT | glow::DEPTH_BUFFER_BIT);
            for object in objects {
                let (mode, wires, shape) = match object.shape {
                    Shape::Sphere => (glow::TRIANGLES, 0.0, &self.shapes[0]),
                    Shape::Torus => (glow::LINES, 1.0, &self.shapes[1]),
                };
                let [red, green, blue] = object.colour;
                gl.bind_vertex_array(Some(shape.name));
                gl.uniform_matrix_4_f32_slice(self.place.as_ref(), false, &object.place);
                gl.uniform_3_f32(self.colour.as_ref(), red, green, blue);
                gl.uniform_1_f32(self.wires.as_ref(), wires);
                gl.draw_elements(mode, shape.indices, glow::UNSIGNED_SHORT, 0);
            }
            gl.enable(glow::SCISSOR_TEST);
            for &([left, bottom, width, height], is_white) in areas {
                let light = f32::from(u8::from(is_white));
                gl.scissor(left, bottom, width, height);
                gl.clear_color(light, light, light, 1.0);
                gl.clear(glow::COLOR_BUFFER_BIT);
            }
            match gl.get_error() {
                glow::NO_ERROR => Ok(()),
                error => {
                    let (width, height) = self.size;
                    Err(format!("drawing {width}x{height}: OpenGL error {error:#x}"))
                }
            }
        }
    }
}

/// The one program.
fn compile(gl: &glow::Context) -> Result<glow::NativeProgram, String> {
    // SAFETY: names of shaders and of the program are those that this context has just given, and
    // none is used after its end.
    unsafe {
        let program = gl.create_program()?;
        for (kind, source) in [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, PIXELS)] {
            let shader = gl.create_shader(kind)?;
            gl.shader_source(shader, source);
            gl.compile_shader(shader);
            if !gl.get_shader_compile_status(shader) {
                return Err(gl.get_shader_info_log(shader));
            }
            gl.attach_shader(program, shader);
            gl.delete_shader(shader);
        }
        gl.bind_attrib_location(program, 0, "at");
        gl.bind_attrib_location(program, 1, "normal");
        gl.link_program(program);
        if gl.get_program_link_status(program) {
            Ok(program)
        } else {
            Err(gl.get_program_info_log(program))
        }
    }
}

/// Copies a shape into the driver's memory.
fn upload(gl: &glow::Context, mesh: &Mesh) -> Result<Uploaded, String> {
    let points: Vec<u8> = mesh.points.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let indices: Vec<u8> = mesh.indices.iter().flat_map(|index| index.to_ne_bytes()).collect();
    let number = size_of::<f32>() as i32;
    // SAFETY: the driver copies the slices before it returns; the layout is that of the points,
    // three numbers and three more, and both buffers live as long as the context.
    unsafe {
        let name = gl.create_vertex_array()?;
        gl.bind_vertex_array(Some(name));
        for (target, bytes) in
            [(glow::ARRAY_BUFFER, &points), (glow::ELEMENT_ARRAY_BUFFER, &indices)]
        {
            gl.bind_buffer(target, Some(gl.create_buffer()?));
            gl.buffer_data_u8_slice(target, bytes, glow::STATIC_DRAW);
        }
        for attribute in 0..2 {
            let stride = POINT_NUMBERS as i32 * number;
            gl.enable_vertex_attrib_array(attribute);
            gl.vertex_attrib_pointer_f32(
                attribute,
                3,
                glow::FLOAT,
                false,
                stride,
                attribute.cast_signed() * 3 * number,
            );
        }
        Ok(Uploaded { name, indices: mesh.indices.len() as i32 })
    }
}
