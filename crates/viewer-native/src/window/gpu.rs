//! Path 12/13 to 13/13: from viewer-core's framebuffer and the video frames over it, through the
//! GPU, to the window.
//! Keeps the screen as a texture: damage is uploaded; video frames are uploaded as samples and
//! converted and scaled on the GPU, bit-exact with `thinc_video::Painter`; then shown 1:1 or scaled
//! as compose.rs does. Knows regions and frames; OpenGL is gl.rs's.

use sdl3::VideoSubsystem;
use sdl3::video::Window;
use thinc_protocol::gamma::{GAMMA_ENTRIES, GammaTable};
use thinc_region::{Rect, Region, Size};
use thinc_video::Grid;
use thinc_viewer_core::{LossyMask, VideoLayer, Viewer};

use super::gl::{Format, Gl, Program, Target, Texture};
pub(super) use super::gl::{ask, ask_stereo};
use crate::compose::{BORDER, LOSSY_MARK, LOSSY_MARK_STEP, Scene};

/// 256: with more rectangles the region to upload becomes its extents; a hidden window may
/// accumulate damage for long.
const STALE_RECTS_MAX: usize = 256;

/// A gamma table's: a column for each value, a row for each channel.
const GAMMA_SIZE: Size = Size { width: GAMMA_ENTRIES as u32, height: 3 };

/// From samples to a pixel's bytes, blue first: `doc/protocol.md`, section 9. `numbers`: position
/// of the grid's first column and row.
const CONVERT: &str = "#version 140
uniform usampler2D luma, blue, red, grid;
uniform ivec4 numbers[1];
out vec4 pixel;
int value(usampler2D plane, uint column, uint row) {
    uint x = column & 255u, y = row & 255u;
    ivec2 a = ivec2(column >> 8, row >> 8);
    // Beyond the last sample the weight is 0.
    ivec2 b = a + ivec2(x > 0u ? 1 : 0, y > 0u ? 1 : 0);
    uint above = texelFetch(plane, a, 0).r * (256u - x)
        + texelFetch(plane, ivec2(b.x, a.y), 0).r * x;
    uint below = texelFetch(plane, ivec2(a.x, b.y), 0).r * (256u - x)
        + texelFetch(plane, b, 0).r * x;
    return int((above * (256u - y) + below * y + 32768u) >> 16);
}
void main() {
    ivec2 at = ivec2(gl_FragCoord.xy) - numbers[0].xy;
    uint column = texelFetch(grid, ivec2(at.x, 1), 0).r;
    uint row = texelFetch(grid, ivec2(at.y, 3), 0).r;
    uint x_luma = texelFetch(grid, ivec2(at.x, 0), 0).r;
    uint y_luma = texelFetch(grid, ivec2(at.y, 2), 0).r;
    int y = value(luma, x_luma, y_luma);
    int c = 298 * (y - 16) + 128;
    int d = value(blue, column, row) - 128, e = value(red, column, row) - 128;
    ivec3 parts = clamp(ivec3(c + 516 * d, c - 100 * d - 208 * e, c + 409 * e) >> 8, 0, 255);
    pixel = vec4(vec3(parts) / 255.0, 1.0);
}";

/// The mean of the screen's pixels that a pixel of the window stands for, as `compose.rs` computes
/// it. `numbers`: rectangle of the screen in the window; the window's height if rows count from the
/// bottom; whether it is dimmed; distance and colour of the lines that mark lossy pixels; whether
/// colours are shown by `gamma`, a row for each channel.
const SHOW: &str = "#version 140
uniform sampler2D screen;
uniform usampler2D lossy, gamma;
uniform ivec4 numbers[3];
out vec4 pixel;
void main() {
    ivec2 point = ivec2(gl_FragCoord.xy);
    if (numbers[1].x > 0) point.y = numbers[1].x - 1 - point.y;
    uvec2 at = uvec2(point - numbers[0].xy), shown = uvec2(numbers[0].zw);
    uvec2 whole = uvec2(textureSize(screen, 0));
    uvec2 low = at * whole / shown, high = min(((at + 1u) * whole + shown - 1u) / shown, whole);
    uvec3 sum = uvec3(0u);
    for (uint y = low.y; y < high.y; y++)
        for (uint x = low.x; x < high.x; x++)
            sum += uvec3(texelFetch(screen, ivec2(x, y), 0).bgr * 255.0 + 0.5);
    uint count = (high.x - low.x) * (high.y - low.y);
    uvec3 mean = (sum + count / 2u) / count;
    if (numbers[2].x > 0)
        mean = uvec3(texelFetch(gamma, ivec2(mean.r, 0), 0).r,
            texelFetch(gamma, ivec2(mean.g, 1), 0).r, texelFetch(gamma, ivec2(mean.b, 2), 0).r);
    if (numbers[1].z > 0 && (at.x + at.y) % uint(numbers[1].z) == 0u
        && texelFetch(lossy, ivec2((at * whole + whole / 2u) / shown), 0).r > 0u)
        mean = uvec3(numbers[1].w >> 16, numbers[1].w >> 8, numbers[1].w) & 255u;
    if (numbers[1].y > 0) mean >>= 1;
    pixel = vec4(vec3(mean) / 255.0, 1.0);
}";

/// One window's textures and programs.
pub(super) struct Gpu {
    gl: Gl,
    convert: Program,
    show: Program,
    /// The screen, up to date except for `stale`.
    screen: Option<Texture>,
    /// What the right eye sees, if that is something else; up to date with it.
    right: Option<Texture>,
    stale: Region,
    /// Planes of the last converted frame, kept because the next frame usually has the same size.
    planes: [Option<Texture>; 3],
    grid: Option<Texture>,
    panel: Option<Texture>,
    /// The lossy mask; a single lossless pixel while it is not shown.
    lossy: Option<Texture>,
    /// The table of what is drawn now.
    gamma: Option<Texture>,
    /// What `gamma` holds: most presents are of the same table.
    table: Option<GammaTable>,
}

/// Which renderers are acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renderers {
    /// Only a GPU.
    Hardware,
    /// Also a software renderer.
    Any,
}

impl Gpu {
    /// For a window created after [`ask`].
    ///
    /// # Errors
    /// The reason why it is unusable.
    pub(super) fn new(
        video: &VideoSubsystem,
        window: &Window,
        renderers: Renderers,
    ) -> Result<Gpu, String> {
        let gl = Gl::new(video, window)?;
        if renderers == Renderers::Hardware && gl.is_software() {
            return Err(format!("{} is a software renderer", gl.name()));
        }
        let convert = gl.program(CONVERT, &["luma", "blue", "red", "grid"])?;
        let show = gl.program(SHOW, &["screen", "lossy", "gamma"])?;
        let planes = [None, None, None];
        let stale = Region::default();
        Ok(Gpu {
            gl,
            convert,
            show,
            screen: None,
            right: None,
            stale,
            planes,
            grid: None,
            panel: None,
            lossy: None,
            gamma: None,
            table: None,
        })
    }

    /// True if the window has a buffer for each eye.
    pub(super) fn has_stereo(&self) -> bool {
        self.gl.has_stereo()
    }

    /// The framebuffer is damaged here, whether or not this window is visible.
    pub(super) fn handle_damage(&mut self, damage: &Region) {
        self.stale.add(damage);
        if self.stale.rect_count() > STALE_RECTS_MAX {
            self.stale = self.stale.extents().into();
        }
    }

    /// Uploads the damage and draws the window; [`Gpu::show`] presents it. The state is locked
    /// meanwhile, so nothing here waits for the display. An error is permanent.
    pub(super) fn draw(
        &mut self,
        window: &Window,
        viewer: &Viewer,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        self.gl.make_current(window)?;
        self.follow(viewer)?;
        self.compose(Target::Window(scene.placement.window), scene)?;
        if self.right.is_some() && self.gl.has_stereo() {
            std::mem::swap(&mut self.screen, &mut self.right);
            let drawn = self.compose(Target::RightEye(scene.placement.window), scene);
            std::mem::swap(&mut self.screen, &mut self.right);
            drawn?;
        }
        self.gl.check()
    }

    /// Presents what was drawn.
    pub(super) fn show(&self, window: &Window) -> Result<(), String> {
        self.gl.make_current(window)?;
        window.gl_swap_window();
        Ok(())
    }

    /// Brings the texture up to date.
    fn follow(&mut self, viewer: &Viewer) -> Result<(), String> {
        let framebuffer = viewer.framebuffer();
        let size = framebuffer.size();
        if size.area() == 0 {
            return Ok(());
        }
        if self.screen.as_ref().is_none_or(|screen| screen.size() != size) {
            self.screen.take().into_iter().for_each(|screen| self.gl.delete(screen));
            self.screen = Some(self.gl.target(size)?);
            self.stale = size.rect().into();
        }
        self.follow_right(viewer)?;
        let screen = self.screen.take().ok_or("the screen has no texture")?;
        let stale = self.stale.take();
        let mut below = stale.clone();
        let mut result = Ok(());
        for layer in viewer.video_layers() {
            let visible = layer.region().intersection(&stale);
            if !visible.is_empty() {
                below.subtract(&visible);
                result = result.and_then(|()| self.convert(&screen, layer, &visible));
            }
        }
        let stride = size.width as usize;
        for rect in below.rects() {
            let from = rect.y1 as usize * stride + rect.x1 as usize;
            self.gl.write_numbers(&screen, rect, &viewer.picture()[from..], stride);
        }
        self.screen = Some(screen);
        result
    }

    /// The same for what the right eye sees, if that is something else.
    fn follow_right(&mut self, viewer: &Viewer) -> Result<(), String> {
        let size = viewer.framebuffer().size();
        let Some(pixels) = viewer.right_picture() else {
            self.right.take().into_iter().for_each(|right| self.gl.delete(right));
            return Ok(());
        };
        let whole = Region::from(size.rect());
        let kept = self.right.take_if(|right| right.size() == size);
        let stale = if kept.is_some() { &self.stale } else { &whole };
        self.right.take().into_iter().for_each(|right| self.gl.delete(right));
        let right = kept.map_or_else(|| self.gl.target(size), Ok)?;
        let stride = size.width as usize;
        for rect in stale.rects() {
            let from = rect.y1 as usize * stride + rect.x1 as usize;
            self.gl.write_numbers(&right, rect, &pixels[from..], stride);
        }
        self.right = Some(right);
        Ok(())
    }

    /// Draws the visible region of a video frame.
    fn convert(
        &mut self,
        screen: &Texture,
        layer: &VideoLayer,
        visible: &Region,
    ) -> Result<(), String> {
        let (planes, source) = (layer.planes(), layer.source());
        for (index, texture) in self.planes.iter_mut().enumerate() {
            let size = if index == 0 { source.size } else { planes.layout().chroma(source.size) };
            let texture = sized(&self.gl, texture, Format::Samples, size)?;
            let (samples, stride) = planes.plane(index);
            self.gl.write(texture, &size.rect(), samples, stride);
        }
        let area = layer.place().intersect(&screen.size().rect());
        let grid = Grid::new(planes.layout(), source, layer.place(), area);
        let longest = area.width().max(area.height()).cast_unsigned();
        let texture =
            sized(&self.gl, &mut self.grid, Format::Numbers, Size { width: longest, height: 4 })?;
        for (row, numbers) in (0..).zip(grid.columns.iter().chain(&grid.rows)) {
            self.gl.write_numbers(
                texture,
                &Rect::at(0, row, numbers.len() as i32, 1),
                numbers,
                numbers.len(),
            );
        }
        let textures =
            [&self.planes[0], &self.planes[1], &self.planes[2], &self.grid].map(Option::as_ref);
        let textures: Vec<&Texture> = textures.into_iter().flatten().collect();
        self.gl.draw(
            Target::Texture(screen),
            &self.convert,
            &textures,
            &[[area.x1, area.y1, 0, 0]],
            visible.rects(),
        );
        Ok(())
    }

    /// Draws the whole window.
    fn compose(&mut self, target: Target<'_>, scene: &Scene<'_>) -> Result<(), String> {
        let Scene { placement, gamma: tables, dimmed, marked, panels, .. } = *scene;
        let lossy = self.mark(marked)?;
        sized(&self.gl, &mut self.gamma, Format::Samples, GAMMA_SIZE)?;
        let gamma = self.gamma.take().ok_or("the tables have no texture")?;
        let (height, rows_from_below) = match target {
            Target::Window(size) | Target::RightEye(size) => (size.height as i32, true),
            Target::Texture(texture) => (texture.size().height as i32, false),
        };
        let turned = if rows_from_below { height } else { 0 };
        self.gl.fill(target, BORDER);
        if let Some(screen) = &self.screen {
            let shown = placement.shown;
            let step = if marked.is_some() { LOSSY_MARK_STEP } else { 0 };
            let mut numbers = [
                [shown.x1, shown.y1, shown.width(), shown.height()],
                [turned, i32::from(dimmed), step, (LOSSY_MARK & 0x00ff_ffff).cast_signed()],
                [0; 4],
            ];
            let textures = [screen, &lossy, &gamma];
            if !tables.iter().any(|(rect, _)| *rect == placement.visible) {
                self.gl.draw(target, &self.show, &textures, &numbers, &[placement.visible]);
            }
            numbers[2][0] = 1;
            for (rect, table) in tables {
                if self.table.as_ref() != Some(table) {
                    let entries = table.channels.as_flattened();
                    self.gl.write(&gamma, &GAMMA_SIZE.rect(), entries, GAMMA_ENTRIES);
                    self.table = Some((*table).clone());
                }
                self.gl.draw(target, &self.show, &textures, &numbers, &[*rect]);
            }
        }
        for (panel, x, y) in panels.iter().filter(|(panel, ..)| panel.size.area() > 0) {
            let place = panel.size.rect().translate(*x, *y);
            let texture = sized(&self.gl, &mut self.panel, Format::Pixels, panel.size)?;
            self.gl.write_numbers(
                texture,
                &panel.size.rect(),
                &panel.pixels,
                panel.size.width as usize,
            );
            let numbers =
                [[place.x1, place.y1, place.width(), place.height()], [turned, 0, 0, 0], [0; 4]];
            self.gl.draw(target, &self.show, &[texture, &lossy, &gamma], &numbers, &[place]);
        }
        self.lossy = Some(lossy);
        self.gamma = Some(gamma);
        Ok(())
    }

    /// Uploads the lossy mask, if it is to be shown.
    fn mark(&mut self, lossy: Option<&LossyMask>) -> Result<Texture, String> {
        let size = match (lossy, &self.screen) {
            (Some(_), Some(screen)) => screen.size(),
            _ => Size { width: 1, height: 1 },
        };
        let is_new = self.lossy.as_ref().is_none_or(|texture| texture.size() != size);
        sized(&self.gl, &mut self.lossy, Format::Samples, size)?;
        let texture = self.lossy.take().ok_or("the screen has no texture")?;
        if let Some(lossy) = lossy {
            let (width, height) = (size.width as usize, size.height as usize);
            let marks =
                (0..height).flat_map(|y| (0..width).map(move |x| u8::from(lossy.contains(x, y))));
            self.gl.write(&texture, &size.rect(), &marks.collect::<Vec<u8>>(), width);
        } else if is_new {
            self.gl.write(&texture, &size.rect(), &[0], 1);
        }
        Ok(texture)
    }
}

/// The texture, recreated if it has another size.
fn sized<'a>(
    gl: &Gl,
    texture: &'a mut Option<Texture>,
    format: Format,
    size: Size,
) -> Result<&'a Texture, String> {
    if texture.as_ref().is_none_or(|texture| texture.size() != size) {
        texture.take().into_iter().for_each(|texture| gl.delete(texture));
        *texture = Some(gl.texture(format, size)?);
    }
    texture.as_ref().ok_or_else(|| unreachable!("it was created above"))
}

#[cfg(test)]
mod tests {
    //! On any OpenGL, software too: each pixel equals the one drawn without a GPU.

    use std::time::{Duration, Instant};

    use thinc_protocol::command::{Command, Encoding};
    use thinc_protocol::gamma::GammaArea;
    use thinc_protocol::session::{Geometry, SessionCaps, SessionHello, SessionMessage, Update};
    use thinc_protocol::video::{Codec, Eye, FrameData, SampleLayout, Source, VideoCommand};
    use thinc_protocol::viewer::ViewerCaps;
    use thinc_video::{Painter, Planes};
    use thinc_viewer_core::{ClipboardPolicy, StereoMode, ViewerConfig};

    use super::*;
    use crate::compose::Order;
    use crate::overlay::Panel;
    use crate::place::Placement;
    use crate::shown_by::in_window;

    const SCREEN: Size = Size { width: 333, height: 247 };

    /// An offscreen window. SDL_VIDEO_DRIVER=x11 tests the OpenGL of a desktop's X server.
    fn offscreen() -> Option<(VideoSubsystem, Window, Gpu)> {
        if std::env::var_os("SDL_VIDEO_DRIVER").is_none() {
            sdl3::hint::set("SDL_VIDEO_DRIVER", "offscreen");
        }
        let open = || {
            let video =
                sdl3::init().and_then(|sdl| sdl.video()).map_err(|error| error.to_string())?;
            ask(&video);
            let window = video
                .window("test", 64, 64)
                .opengl()
                .hidden()
                .build()
                .map_err(|error| error.to_string())?;
            let gpu = Gpu::new(&video, &window, Renderers::Any)?;
            Ok((video, window, gpu))
        };
        match open() {
            Ok(opened) => {
                eprintln!("OpenGL by {}", opened.2.gl.name());
                Some(opened)
            }
            Err::<_, String>(why) => {
                assert!(std::env::var_os("CI").is_none(), "the GPU test needs OpenGL: {why}");
                eprintln!("skipped: no OpenGL ({why})");
                None
            }
        }
    }

    /// Two viewers of one session: one paints frames itself, one leaves them to the GPU.
    struct Pair {
        painted: Viewer,
        layered: Viewer,
        seq: u64,
    }

    impl Pair {
        fn new(screen: Size) -> Pair {
            let caps = ViewerCaps::VIDEO;
            let config = ViewerConfig {
                name: "test".into(),
                size: screen,
                caps,
                clipboard: ClipboardPolicy::OFF,
            };
            let mut pair =
                Pair { painted: Viewer::new(&config), layered: Viewer::new(&config), seq: 0 };
            pair.layered.set_video_layers(true);
            let hello = SessionHello {
                version: 1,
                caps: SessionCaps::STEREO,
                name: String::new(),
                message_bytes_max: 65536,
            };
            pair.send(&SessionMessage::Hello(hello));
            pair.send(&SessionMessage::Geometry(Geometry { epoch: 1, size: screen, shown: None }));
            let data = noise(screen.area() as usize * 3, 5);
            pair.command(Command::Raw {
                rect: screen.rect(),
                encoding: Encoding::Plain,
                data: &data,
            });
            pair
        }

        fn send(&mut self, message: &SessionMessage<'_>) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            self.painted.handle_bytes(&bytes, 0).unwrap();
            self.layered.handle_bytes(&bytes, 0).unwrap();
        }

        fn command(&mut self, command: Command<'_>) {
            self.seq += 1;
            let mut commands = Vec::new();
            command.encode(&mut commands);
            let (seq, commands) = (self.seq, &commands[..]);
            let update = Update {
                seq,
                after: 0,
                epoch: 1,
                echo: None,
                end_of_frame: true,
                packed: None,
                commands,
            };
            self.send(&SessionMessage::Update(update));
        }

        fn begin(&mut self, id: u16, source: Source, place: Rect) {
            self.command(Command::Video(VideoCommand::Init {
                id,
                codec: Codec::None,
                eye: Eye::Left,
                source,
                place,
            }));
        }

        fn frame(&mut self, id: u16, planes: &Planes, clip: Region) {
            let data = FrameData::Plain { layout: planes.layout(), data: planes.data() };
            self.command(Command::Video(VideoCommand::Next { id, time: 0, clip, frame: data }));
        }

        /// The GPU's texture equals the painted framebuffer, bit for bit.
        fn check(&mut self, gpu: &mut Gpu, what: &str) {
            gpu.handle_damage(&self.layered.take_damage());
            gpu.follow(&self.layered).unwrap();
            gpu.gl.check().unwrap();
            self.painted.take_damage();
            let width = self.painted.framebuffer().size().width as usize;
            let same = |texture: &Texture, pixels: &[u32], of: &str| {
                for (at, (there, shown)) in gpu.gl.read(texture).iter().zip(pixels).enumerate() {
                    let (x, y) = (at % width, at / width);
                    let wrong = format!("{there:#x} and not {shown:#x} at {x}, {y}: {what}, {of}");
                    assert_eq!(there, shown, "{wrong}");
                }
            };
            same(gpu.screen.as_ref().unwrap(), self.painted.picture(), "the screen");
            let right = self.painted.right_picture();
            assert_eq!(gpu.right.is_some(), right.is_some(), "{what}");
            if let (Some(texture), Some(right)) = (&gpu.right, right) {
                same(texture, right, "the right eye");
            }
        }
    }

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn samples(size: Size, layout: SampleLayout, seed: u64) -> Planes {
        let mut planes = Planes::new();
        planes.reset(size, layout);
        let bytes = noise(planes.data().len(), seed);
        planes.data_mut().copy_from_slice(&bytes);
        planes
    }

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    /// One test, because SDL has one main thread.
    #[test]
    fn the_gpu_draws_the_same_pixels_as_the_cpu() {
        let Some((_video, _window, mut gpu)) = offscreen() else { return };
        converts_and_scales(&mut gpu);
        shows_both_eyes(&mut gpu);
        composes(&mut gpu);
        uploads_a_table_once(&mut gpu);
    }

    fn converts_and_scales(gpu: &mut Gpu) {
        let mut pair = Pair::new(SCREEN);
        pair.check(gpu, "pixels only");
        let whole = |size: Size| Source { size, crop: size.rect() };
        let streams = [
            (whole(size(64, 48)), Rect::at(10, 20, 64, 48), SampleLayout::Yuv420),
            (whole(size(64, 48)), SCREEN.rect(), SampleLayout::Yuv420),
            (whole(size(63, 47)), Rect::at(100, 50, 190, 141), SampleLayout::Yuv420),
            (whole(size(352, 240)), Rect::at(5, 7, 101, 77), SampleLayout::Yuv422),
            (
                Source { size: size(51, 37), crop: Rect::at(7, 3, 33, 29) },
                Rect::at(-40, 200, 300, 100),
                SampleLayout::Yuv420,
            ),
            (
                Source { size: size(52, 38), crop: Rect::at(9, 1, 1, 1) },
                Rect::at(300, -9, 70, 60),
                SampleLayout::Yuv422,
            ),
            (whole(size(1, 1)), Rect::at(0, 0, 9, 9), SampleLayout::Yuv420),
            (whole(size(300, 2)), Rect::at(-4000, 30, 9000, 20), SampleLayout::Yuv420),
        ];
        for (id, (source, place, layout)) in (0..).zip(streams) {
            pair.begin(id, source, place);
            let all = Region::from(place.intersect(&SCREEN.rect()));
            pair.frame(id, &samples(source.size, layout, u64::from(id)), all.clone());
            pair.check(gpu, &format!("{source:?} at {place:?}"));
            // Covered by a window, it is visible through the gaps of the others.
            let mut clip = all.clone();
            clip.subtract_rect(&Rect::at(120, 60, 90, 40));
            clip.subtract_rect(&Rect::at(20, 25, 13, 200));
            pair.frame(id, &samples(source.size, layout, u64::from(id) + 90), clip);
            pair.check(gpu, &format!("{source:?} at {place:?}, covered"));
        }
        assert!(pair.layered.video_layers().count() > 2, "frames are left to the GPU");
        assert_ne!(pair.layered.framebuffer().pixels(), pair.painted.framebuffer().pixels());
        pair.command(Command::Sfill { region: Rect::at(0, 30, 200, 90).into(), color: 0x12_3456 });
        pair.check(gpu, "drawn over");
        pair.command(Command::Copy { region: Rect::at(60, 100, 200, 120).into(), dx: 40, dy: -9 });
        pair.check(gpu, "copied from frames over frames");
        pair.command(Command::Video(VideoCommand::End { id: 1 }));
        pair.check(gpu, "ended");
        pair.layered.paint_videos();
        assert_eq!(pair.layered.framebuffer().pixels(), pair.painted.framebuffer().pixels());
        pair.send(&SessionMessage::Geometry(Geometry {
            epoch: 1,
            size: size(200, 301),
            shown: None,
        }));
        pair.check(gpu, "of another size");
    }

    /// A video under a stereo program, which is painted while both eyes' pictures are one.
    fn shows_both_eyes(gpu: &mut Gpu) {
        let mut pair = Pair::new(SCREEN);
        let whole = |size: Size| Source { size, crop: size.rect() };
        let (place, under) = (Rect::at(101, 60, 161, 120), Rect::at(30, 20, 200, 150));
        let choose = |pair: &mut Pair, mode| {
            pair.painted.choose_stereo(mode);
            pair.layered.choose_stereo(mode);
        };
        choose(&mut pair, StereoMode::Anaglyph);
        pair.begin(1, whole(size(64, 48)), under);
        pair.frame(1, &samples(size(64, 48), SampleLayout::Yuv420, 8), under.into());
        pair.check(gpu, "one eye");
        assert_eq!(pair.layered.video_layers().count(), 1, "it is left to the GPU");
        pair.command(Command::Video(VideoCommand::Init {
            id: 2,
            codec: Codec::None,
            eye: Eye::Right,
            source: whole(size(161, 120)),
            place,
        }));
        let mut clip = Region::from(place);
        clip.subtract_rect(&Rect::at(150, 0, 20, 90));
        for (seed, mode) in (0..).zip(StereoMode::ALL.into_iter().chain([StereoMode::Anaglyph])) {
            choose(&mut pair, mode);
            let data = noise(161 * 120 * 4, seed);
            let frame = FrameData::Pixels { data: &data };
            let next = VideoCommand::Next { id: 2, time: 0, clip: clip.clone(), frame };
            pair.command(Command::Video(next));
            pair.check(gpu, mode.name());
            let is_other = pair.painted.picture() != pair.painted.framebuffer().pixels();
            let has_both = is_other || pair.painted.right_picture().is_some();
            assert_eq!(has_both, mode.is_on(), "{mode:?}");
            pair.frame(1, &samples(size(64, 48), SampleLayout::Yuv420, seed), under.into());
            pair.check(gpu, mode.name());
            pair.command(Command::Video(VideoCommand::Move { id: 2, x: 90 + seed as i32, y: 61 }));
            pair.check(gpu, mode.name());
            pair.command(Command::Video(VideoCommand::Move { id: 2, x: place.x1, y: place.y1 }));
        }
        pair.command(Command::Video(VideoCommand::End { id: 2 }));
        pair.check(gpu, "one eye again");
    }

    fn composes(gpu: &mut Gpu) {
        let mut pair = Pair::new(SCREEN);
        pair.check(gpu, "before it is composed");
        let mut lossy = LossyMask::new(SCREEN);
        lossy.add(&Rect::at(30, 40, 111, 99));
        let panels =
            [(Panel::draw("as text stands over it", 1), 9, 8), (Panel::draw("ab", 2), 31, 11)];
        let part = Rect::at(50, 60, 40, 30);
        for (placement, dimmed, marked, tables) in [
            (Placement::new(SCREEN, SCREEN), false, false, 0),
            (Placement::new(SCREEN, SCREEN), false, false, 1),
            (Placement::new(SCREEN, size(400, 301)), true, true, 2),
            (Placement::new(SCREEN, size(150, 200)), false, true, 2),
            (Placement::new(SCREEN, size(332, 247)), true, false, 1),
            (Placement::zoomed(SCREEN, SCREEN.rect(), part, size(500, 310)), false, true, 2),
            (
                Placement::of_display(SCREEN, Rect::at(100, 0, 233, 247), size(240, 250)),
                false,
                false,
                2,
            ),
        ] {
            let areas = [(Rect::at(0, 0, 150, 120), 90), (Rect::at(40, 100, 200, 999), 200)];
            let areas = areas.map(|(rect, top)| GammaArea {
                rect,
                table: GammaTable {
                    channels: [0, 1, 2].map(|channel| {
                        std::array::from_fn(|value| (value * (top + channel) / 255) as u8)
                    }),
                },
            });
            let gamma = in_window(&areas[..tables], &placement);
            let scene = Scene {
                placement,
                screen: pair.painted.framebuffer().pixels(),
                gamma: &gamma,
                dimmed,
                marked: marked.then_some(&lossy),
                panels: &panels,
            };
            let window = placement.window;
            let target = gpu.gl.target(window).unwrap();
            gpu.compose(Target::Texture(&target), &scene).unwrap();
            gpu.gl.check().unwrap();
            let mut bytes = vec![0; window.area() as usize * 4];
            scene.write(
                &window.rect(),
                &mut bytes,
                window.width as usize * 4,
                Order::Bgr,
                &mut Vec::new(),
            );
            let expected: Vec<u32> =
                bytes.as_chunks().0.iter().map(|&pixel| u32::from_le_bytes(pixel)).collect();
            for (at, (there, expected)) in gpu.gl.read(&target).iter().zip(&expected).enumerate() {
                let (x, y) = (at % window.width as usize, at / window.width as usize);
                assert_eq!(
                    there, expected,
                    "{there:#x} and not {expected:#x} at {x}, {y} of {placement:?}"
                );
            }
            gpu.gl.delete(target);
        }
    }

    /// What is in the texture shows whether it was written again.
    fn uploads_a_table_once(gpu: &mut Gpu) {
        let mut pair = Pair::new(SCREEN);
        pair.check(gpu, "before it is composed");
        let table = |level| GammaTable { channels: [[level; GAMMA_ENTRIES]; 3] };
        let (mut shows, placement) = (Vec::new(), Placement::new(SCREEN, SCREEN));
        let target = gpu.gl.target(SCREEN).unwrap();
        for level in [7, 7, 9] {
            let (table, other) = (table(level), [80; GAMMA_ENTRIES * 3]);
            let scene = Scene {
                placement,
                screen: pair.painted.framebuffer().pixels(),
                gamma: &[(placement.visible, &table)],
                dimmed: false,
                marked: None,
                panels: &[],
            };
            gpu.compose(Target::Texture(&target), &scene).unwrap();
            shows.push(gpu.gl.read(&target)[0] & 0xff);
            let texture = gpu.gamma.as_ref().unwrap();
            gpu.gl.write(texture, &GAMMA_SIZE.rect(), &other, GAMMA_ENTRIES);
        }
        gpu.gl.delete(target);
        assert_eq!(shows, [7, 80, 9]);
    }

    /// CPU time of the presenting thread per video frame, and time until the frame is on the
    /// screen. `cargo test --release -p thinc-viewer-native --lib gpu -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement, not a test"]
    fn how_long_does_a_frame_take() {
        let Some((_video, _window, mut gpu)) = offscreen() else { return };
        for (source, screen) in [
            (size(1280, 720), size(1280, 720)),
            (size(1280, 720), size(1920, 1080)),
            (size(1920, 1080), size(1920, 1080)),
        ] {
            let mut pair = Pair::new(screen);
            pair.check(&mut gpu, "before it is measured");
            let shown = Source { size: source, crop: source.rect() };
            pair.begin(0, shown, screen.rect());
            let window = gpu.gl.target(screen).unwrap();
            let (planes, all) =
                (samples(source, SampleLayout::Yuv420, 3), Region::from(screen.rect()));
            pair.frame(0, &planes, all.clone());
            let (mut busy, mut done, mut painting) = (Vec::new(), Vec::new(), Vec::new());
            let mut pixels = vec![0; screen.area() as usize];
            let (mut painter, mut row, mut bytes) =
                (Painter::new(), Vec::new(), vec![0; screen.area() as usize * 4]);
            for _ in 0..60 {
                let placement = Placement::new(screen, screen);
                let of = |screen| Scene {
                    placement,
                    screen,
                    gamma: &[],
                    dimmed: false,
                    marked: None,
                    panels: &[],
                };
                let (began, worked) = (Instant::now(), thread_time());
                gpu.handle_damage(&all);
                gpu.follow(&pair.layered).unwrap();
                gpu.compose(Target::Texture(&window), &of(&[])).unwrap();
                busy.push(thread_time() - worked);
                gpu.gl.finish();
                done.push(began.elapsed());
                let worked = thread_time();
                painter.paint(
                    &planes.as_ref(),
                    &shown,
                    screen.rect(),
                    &all,
                    &mut pixels,
                    screen.width as usize,
                );
                of(&pixels).write(
                    &screen.rect(),
                    &mut bytes,
                    screen.width as usize * 4,
                    Order::Rgb,
                    &mut row,
                );
                painting.push(thread_time() - worked);
            }
            let [busy, done, painting] = [busy, done, painting].map(|mut times| {
                times.sort();
                times[times.len() / 2]
            });
            eprintln!(
                "{source:?} on {screen:?}: thread {busy:?} with the GPU, done after \
                    {done:?}; thread {painting:?} without"
            );
        }
    }

    /// CPU time of this thread.
    fn thread_time() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
