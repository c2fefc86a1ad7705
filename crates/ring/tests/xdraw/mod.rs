//! Random drawing for a real X server: core ops with every function, plane mask, fill and clip,
//! RENDER, and windows that move, stack, are redirected and have alpha. One seed gives one sequence
//! of requests, whatever the server answers, so that two servers can get the same. Used by the
//! tests of the ring and of the whole path.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "each test binary that includes this uses its own part"
)]

mod random;
mod render_ops;

use std::collections::VecDeque;

use x11rb::connection::Connection;
use x11rb::errors::{ConnectionError, ReplyError, ReplyOrIdError};
use x11rb::protocol::composite::{ConnectionExt as _, Redirect};
use x11rb::protocol::render::{self, ConnectionExt as _, PictOp};
use x11rb::protocol::shape::{self, ConnectionExt as _};
use x11rb::protocol::xproto::*;

pub use random::Random;

/// Not 6 and 10: for the round ends of wide dashes, X.Org 21.1 (miWideDash) writes one span more
/// than it has memory for, 4 bytes a span, as many as the line is wide. Malloc's blocks have spare
/// bytes for it, but not at these widths, where it damages the heap, in Xvfb too
/// (doc/experiments/051-things-nobody-had-tried.md).
const LINE_WIDTHS: [u32; 10] = [1, 2, 3, 4, 5, 7, 8, 9, 11, 12];

#[derive(Clone, Copy)]
struct Target {
    id: Drawable,
    gc: Gcontext,
    picture: render::Picture,
    width: i64,
    height: i64,
    depth: u8,
    window: bool,
}

/// Which kinds of requests to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Everything.
    All,
    /// Everything except redirected windows: X composes them at any time, so two servers would
    /// differ.
    Plain,
    /// RENDER and the requests it needs, nothing redirected.
    Render,
    /// Everything, most of it in pixmaps.
    Offscreen,
}

pub struct Drawer<C: Connection> {
    pub conn: C,
    pub random: Random,
    root: Window,
    root_target: Target,
    size: (i64, i64),
    windows: Vec<Target>,
    pixmaps: Vec<Target>,
    /// Depth 8 masks with their pictures.
    masks: Vec<Target>,
    bitmap: Target,
    /// One repeating pixel of colour and one of coverage: older clients use these where newer ones
    /// use solid fills.
    dots: Vec<Target>,
    formats: Formats,
    visual32: Visualid,
    colormap32: Colormap,
    glyphset: render::Glyphset,
    redirected: Option<Redirect>,
    kinds: Kinds,
    /// The last ops as text, to report a failing seed.
    pub log: VecDeque<String>,
}

struct Formats {
    rgb24: render::Pictformat,
    argb32: render::Pictformat,
    a8: render::Pictformat,
    a1: render::Pictformat,
}

const WINDOWS_MAX: usize = 12;
const PIXMAPS_MAX: usize = 8;
const GLYPHS: u32 = 16;

impl<C: Connection> Drawer<C> {
    pub fn new(
        conn: C,
        screen: usize,
        seed: u64,
        kinds: Kinds,
    ) -> Result<Drawer<C>, ReplyOrIdError> {
        let setup = conn.setup();
        let root_screen = &setup.roots[screen];
        let root = root_screen.root;
        let size =
            (i64::from(root_screen.width_in_pixels), i64::from(root_screen.height_in_pixels));
        let visual32 = root_screen
            .allowed_depths
            .iter()
            .find(|depth| depth.depth == 32)
            .and_then(|depth| depth.visuals.first())
            .expect("the server has a visual of depth 32")
            .visual_id;
        conn.render_query_version(0, 11)?.reply()?;
        conn.composite_query_version(0, 4)?.reply()?;
        let formats = conn.render_query_pict_formats()?.reply()?.formats;
        let find = |depth: u8, alpha_mask: u16, red_shift: u16| {
            formats
                .iter()
                .find(|f| {
                    f.depth == depth
                        && f.direct.alpha_mask == alpha_mask
                        && f.direct.red_shift == red_shift
                })
                .expect("the server has the standard picture formats")
                .id
        };
        let formats = Formats {
            rgb24: find(24, 0, 16),
            argb32: find(32, 0xff, 16),
            a8: find(8, 0xff, 0),
            a1: find(1, 1, 0),
        };
        let colormap32 = conn.generate_id()?;
        conn.create_colormap(ColormapAlloc::NONE, colormap32, root, visual32)?;
        let glyphset = conn.generate_id()?;
        conn.render_create_glyph_set(glyphset, formats.a8)?;
        let none =
            Target { id: root, gc: 0, picture: 0, width: 0, height: 0, depth: 24, window: true };
        let mut drawer = Drawer {
            conn,
            random: Random::new(seed),
            root,
            root_target: none,
            size,
            windows: Vec::new(),
            pixmaps: Vec::new(),
            masks: Vec::new(),
            bitmap: none,
            dots: Vec::new(),
            formats,
            visual32,
            colormap32,
            glyphset,
            redirected: None,
            kinds,
            log: VecDeque::new(),
        };
        drawer.root_target = drawer.target(root, size.0, size.1, 24, true)?;
        drawer.make_glyphs()?;
        drawer.bitmap = drawer.pixmap(37, 23, 1)?;
        for _ in 0..3 {
            let mask = drawer.pixmap(64, 48, 8)?;
            drawer.masks.push(mask);
        }
        for depth in [32, 8] {
            let dot = drawer.pixmap(1, 1, depth)?;
            // As a mask, the colour masks each channel separately.
            let component = u32::from(depth == 32);
            let repeat = render::ChangePictureAux::new()
                .repeat(render::Repeat::NORMAL)
                .componentalpha(component);
            drawer.conn.render_change_picture(dot.picture, &repeat)?;
            drawer.dots.push(dot);
        }
        for depth in [24, 24, 32] {
            let pixmap = drawer.pixmap(120, 90, depth)?;
            drawer.pixmaps.push(pixmap);
        }
        for _ in 0..4 {
            drawer.create_window()?;
        }
        Ok(drawer)
    }

    /// Sets the new size of the screen.
    pub fn resized(&mut self, width: i64, height: i64) {
        self.size = (width, height);
        self.root_target.width = width;
        self.root_target.height = height;
    }

    /// Waits until the server has executed all requests.
    pub fn sync(&self) -> Result<(), ReplyError> {
        self.conn.get_input_focus()?.reply()?;
        // Errors of requests to a window destroyed meanwhile arrive as events and do not matter.
        while self.conn.poll_for_event()?.is_some() {}
        Ok(())
    }

    fn target(
        &self,
        id: Drawable,
        width: i64,
        height: i64,
        depth: u8,
        window: bool,
    ) -> Result<Target, ReplyOrIdError> {
        let gc = self.conn.generate_id()?;
        self.conn.create_gc(gc, id, &CreateGCAux::new().graphics_exposures(0))?;
        let picture = self.conn.generate_id()?;
        let format = match depth {
            32 => self.formats.argb32,
            24 => self.formats.rgb24,
            8 => self.formats.a8,
            _ => self.formats.a1,
        };
        self.conn.render_create_picture(picture, id, format, &render::CreatePictureAux::new())?;
        Ok(Target { id, gc, picture, width, height, depth, window })
    }

    /// A pixmap with random contents: X leaves them undefined, and two servers would differ.
    fn pixmap(&mut self, width: i64, height: i64, depth: u8) -> Result<Target, ReplyOrIdError> {
        let id = self.conn.generate_id()?;
        self.conn.create_pixmap(depth, id, self.root, width as u16, height as u16)?;
        let target = self.target(id, width, height, depth, false)?;
        let fill = ChangeGCAux::new().foreground(self.pixel());
        self.conn.change_gc(target.gc, &fill)?;
        let all = Rectangle { x: 0, y: 0, width: width as u16, height: height as u16 };
        self.conn.poly_fill_rectangle(id, target.gc, &[all])?;
        for _ in 0..6 {
            let fill = ChangeGCAux::new().foreground(self.pixel());
            self.conn.change_gc(target.gc, &fill)?;
            let rect = self.rectangle(&target, 40);
            self.conn.poly_fill_rectangle(id, target.gc, &[rect])?;
        }
        Ok(target)
    }

    fn make_glyphs(&mut self) -> Result<(), ReplyOrIdError> {
        for id in 0..GLYPHS {
            let (width, height) =
                (self.random.within(1, 12) as u16, self.random.within(1, 14) as u16);
            let info = render::Glyphinfo {
                width,
                height,
                x: self.random.within(-2, 3) as i16,
                y: self.random.within(0, 12) as i16,
                x_off: self.random.within(1, 12) as i16,
                y_off: self.random.within(-1, 1) as i16,
            };
            let stride = (usize::from(width) + 3) & !3;
            let data: Vec<u8> =
                (0..stride * usize::from(height)).map(|_| self.random.next() as u8).collect();
            self.conn.render_add_glyphs(self.glyphset, &[id], &[info], &data)?;
        }
        Ok(())
    }

    fn redirects(&self) -> bool {
        matches!(self.kinds, Kinds::All | Kinds::Offscreen)
    }

    /// Half of them opaque where there is alpha.
    fn pixel(&mut self) -> u32 {
        let opaque = if self.random.chance(50) { 0xff00_0000 } else { 0 };
        self.random.next() as u32 | opaque
    }

    /// All pixmaps with an XID: those drawn in, and those of redirected windows, which the caller
    /// frees.
    pub fn pixmaps(&self) -> Result<(Vec<Pixmap>, Vec<Pixmap>), ReplyOrIdError> {
        let mut of_windows = Vec::new();
        for window in &self.windows {
            let pixmap = self.conn.generate_id()?;
            // Mostly a window is not redirected, or not on the screen.
            if self.conn.composite_name_window_pixmap(window.id, pixmap)?.check().is_ok() {
                of_windows.push(pixmap);
            }
        }
        Ok((self.pixmaps.iter().map(|pixmap| pixmap.id).collect(), of_windows))
    }

    // ---- windows --------------------------------------------------------------------------------

    fn create_window(&mut self) -> Result<(), ReplyOrIdError> {
        let id = self.conn.generate_id()?;
        let child = !self.windows.is_empty() && self.random.chance(35);
        let parent = if child { *self.random.pick(&self.windows) } else { self.root_target };
        let alpha = self.random.chance(12) && self.redirects();
        let (depth, visual) =
            if alpha { (32, self.visual32) } else { (24, x11rb::COPY_FROM_PARENT) };
        if !alpha && parent.depth != 24 {
            return Ok(());
        }
        let (width, height) = (self.random.within(1, 300), self.random.within(1, 220));
        let aux = CreateWindowAux::new()
            .background_pixel(self.pixel())
            .border_pixel(self.random.next() as u32)
            .bit_gravity(*self.random.pick(&[
                Gravity::BIT_FORGET,
                Gravity::NORTH_WEST,
                Gravity::CENTER,
            ]))
            .override_redirect(1);
        let aux = if alpha { aux.colormap(self.colormap32) } else { aux };
        self.conn.create_window(
            depth,
            id,
            parent.id,
            self.random.within(-50, self.size.0) as i16,
            self.random.within(-50, self.size.1) as i16,
            width as u16,
            height as u16,
            self.random.within(0, 3) as u16,
            WindowClass::INPUT_OUTPUT,
            visual,
            &aux,
        )?;
        self.conn.map_window(id)?;
        let target = self.target(id, width, height, depth, true)?;
        self.windows.push(target);
        Ok(())
    }

    fn window_op(&mut self) -> Result<&'static str, ReplyOrIdError> {
        if self.windows.len() < 5 {
            self.create_window()?;
            return Ok("create window");
        }
        let index = (self.random.next() % self.windows.len() as u64) as usize;
        let window = self.windows[index];
        Ok(match self.random.within(0, 11) {
            0 if self.windows.len() < WINDOWS_MAX => {
                self.create_window()?;
                "create window"
            }
            1 => {
                // Its children are destroyed too; requests to them fail, which is just another
                // random case.
                self.conn.destroy_window(window.id)?;
                self.windows.remove(index);
                "destroy window"
            }
            2 if self.random.chance(50) => {
                self.conn.unmap_window(window.id)?;
                "unmap window"
            }
            3 => {
                self.conn.map_window(window.id)?;
                "map window"
            }
            4 => {
                let (width, height) = (self.random.within(1, 300), self.random.within(1, 220));
                let aux = ConfigureWindowAux::new().width(width as u32).height(height as u32);
                self.conn.configure_window(window.id, &aux)?;
                self.windows[index].width = width;
                self.windows[index].height = height;
                "resize window"
            }
            5 => {
                let mode =
                    *self.random.pick(&[StackMode::ABOVE, StackMode::BELOW, StackMode::OPPOSITE]);
                self.conn
                    .configure_window(window.id, &ConfigureWindowAux::new().stack_mode(mode))?;
                "stack window"
            }
            6 => {
                let (x, y) =
                    (self.random.within(-10, 20) as i16, self.random.within(-10, 20) as i16);
                let area = self.rectangle(&window, 200);
                self.conn.clear_area(false, window.id, x, y, area.width, area.height)?;
                "clear area"
            }
            7 => {
                let rects: Vec<Rectangle> =
                    (0..self.random.within(1, 5)).map(|_| self.rectangle(&window, 150)).collect();
                self.conn.shape_rectangles(
                    shape::SO::SET,
                    shape::SK::BOUNDING,
                    ClipOrdering::UNSORTED,
                    window.id,
                    0,
                    0,
                    &rects,
                )?;
                "shape window"
            }
            // Kept short: mostly windows draw straight to the screen.
            8 if self.redirects() && (self.redirected.is_some() || self.random.chance(15)) => {
                self.redirect()?;
                "redirect"
            }
            _ => {
                let aux = ConfigureWindowAux::new()
                    .x(self.random.within(-80, self.size.0) as i32)
                    .y(self.random.within(-80, self.size.1) as i32);
                self.conn.configure_window(window.id, &aux)?;
                "move window"
            }
        })
    }

    /// What a compositor does when it starts and ends: then the server composes, or `compose` does.
    fn redirect(&mut self) -> Result<(), ConnectionError> {
        match self.redirected.take() {
            Some(mode) => {
                self.conn.composite_unredirect_subwindows(self.root, mode)?;
            }
            None => {
                let mode =
                    if self.random.chance(50) { Redirect::AUTOMATIC } else { Redirect::MANUAL };
                self.conn.composite_redirect_subwindows(self.root, mode)?;
                self.redirected = Some(mode);
            }
        }
        Ok(())
    }

    /// A small compositor: draws every top-level window's pixmap on the root window with RENDER.
    fn compose(&mut self) -> Result<(), ReplyOrIdError> {
        let aux = render::ChangePictureAux::new()
            .clipmask(x11rb::NONE)
            .subwindowmode(SubwindowMode::INCLUDE_INFERIORS);
        self.conn.render_change_picture(self.root_target.picture, &aux)?;
        for window in self.conn.query_tree(self.root)?.reply()?.children {
            let (Ok(attributes), Ok(at)) = (
                self.conn.get_window_attributes(window)?.reply(),
                self.conn.get_geometry(window)?.reply(),
            ) else {
                continue;
            };
            if attributes.map_state != MapState::VIEWABLE
                || attributes.class != WindowClass::INPUT_OUTPUT
            {
                continue;
            }
            let (pixmap, picture) = (self.conn.generate_id()?, self.conn.generate_id()?);
            self.conn.composite_name_window_pixmap(window, pixmap)?;
            let format = if at.depth == 32 { self.formats.argb32 } else { self.formats.rgb24 };
            self.conn.render_create_picture(
                picture,
                pixmap,
                format,
                &render::CreatePictureAux::new(),
            )?;
            let op = if at.depth == 32 {
                PictOp::OVER
            } else {
                *self.random.pick(&[PictOp::SRC, PictOp::OVER])
            };
            let border = at.border_width * 2;
            self.conn.render_composite(
                op,
                picture,
                x11rb::NONE,
                self.root_target.picture,
                0,
                0,
                0,
                0,
                at.x,
                at.y,
                at.width + border,
                at.height + border,
            )?;
            self.conn.render_free_picture(picture)?;
            self.conn.free_pixmap(pixmap)?;
        }
        Ok(())
    }

    // ---- sources of drawing ---------------------------------------------------------------------

    fn drawable(&mut self) -> Target {
        if self.kinds == Kinds::Offscreen && self.random.chance(50) {
            return *self.random.pick(&self.pixmaps);
        }
        match self.random.within(0, 19) {
            0 => self.root_target,
            1..=4 => *self.random.pick(&self.pixmaps),
            _ if self.windows.is_empty() => self.root_target,
            _ => *self.random.pick(&self.windows),
        }
    }

    fn rectangle(&mut self, on: &Target, side_max: i64) -> Rectangle {
        Rectangle {
            x: self.random.within(-10, on.width) as i16,
            y: self.random.within(-10, on.height) as i16,
            width: self.random.within(0, side_max) as u16,
            height: self.random.within(0, side_max) as u16,
        }
    }

    fn points(&mut self, on: &Target, count_max: i64) -> (CoordMode, Vec<Point>) {
        let count = self.random.within(1, count_max);
        if self.random.chance(30) {
            let mut points = vec![Point {
                x: self.random.within(0, on.width) as i16,
                y: self.random.within(0, on.height) as i16,
            }];
            points.extend((1..count).map(|_| Point {
                x: self.random.within(-15, 15) as i16,
                y: self.random.within(-15, 15) as i16,
            }));
            return (CoordMode::PREVIOUS, points);
        }
        let points = (0..count).map(|_| Point {
            x: self.random.within(-10, on.width + 10) as i16,
            y: self.random.within(-10, on.height + 10) as i16,
        });
        (CoordMode::ORIGIN, points.collect())
    }

    /// Random GC values, mostly near the defaults.
    fn change_gc(&mut self, on: &Target) -> Result<(), ConnectionError> {
        const FUNCTIONS: [GX; 16] = [
            GX::CLEAR,
            GX::AND,
            GX::AND_REVERSE,
            GX::COPY,
            GX::AND_INVERTED,
            GX::NOOP,
            GX::XOR,
            GX::OR,
            GX::NOR,
            GX::EQUIV,
            GX::INVERT,
            GX::OR_REVERSE,
            GX::COPY_INVERTED,
            GX::OR_INVERTED,
            GX::NAND,
            GX::SET,
        ];
        let (foreground, background) = (self.pixel(), self.pixel());
        let random = &mut self.random;
        let mut aux = ChangeGCAux::new()
            .foreground(foreground)
            .background(background)
            .function(if random.chance(60) { GX::COPY } else { *random.pick(&FUNCTIONS) })
            .plane_mask(match random.within(0, 9) {
                0 => random.next() as u32,
                1 => 0x00ff_ffff,
                _ => u32::MAX,
            })
            .line_width(if random.chance(50) { 0 } else { *random.pick(&LINE_WIDTHS) })
            .line_style(*random.pick(&[
                LineStyle::SOLID,
                LineStyle::SOLID,
                LineStyle::ON_OFF_DASH,
                LineStyle::DOUBLE_DASH,
            ]))
            .cap_style(*random.pick(&[
                CapStyle::NOT_LAST,
                CapStyle::BUTT,
                CapStyle::ROUND,
                CapStyle::PROJECTING,
            ]))
            .join_style(*random.pick(&[JoinStyle::MITER, JoinStyle::ROUND, JoinStyle::BEVEL]))
            .fill_rule(*random.pick(&[FillRule::EVEN_ODD, FillRule::WINDING]))
            .arc_mode(*random.pick(&[ArcMode::CHORD, ArcMode::PIE_SLICE]))
            .subwindow_mode(if random.chance(75) {
                SubwindowMode::CLIP_BY_CHILDREN
            } else {
                SubwindowMode::INCLUDE_INFERIORS
            })
            .graphics_exposures(u32::from(random.chance(30)))
            .tile_stipple_x_origin(random.within(-9, 9) as i32)
            .tile_stipple_y_origin(random.within(-9, 9) as i32)
            .stipple(self.bitmap.id);
        let tiles: Vec<Drawable> = self
            .pixmaps
            .iter()
            .filter(|p| p.depth == on.depth && p.id != on.id)
            .map(|p| p.id)
            .collect();
        let mut styles = vec![
            FillStyle::SOLID,
            FillStyle::SOLID,
            FillStyle::STIPPLED,
            FillStyle::OPAQUE_STIPPLED,
        ];
        if !tiles.is_empty() {
            aux = aux.tile(*random.pick(&tiles));
            styles.push(FillStyle::TILED);
        }
        self.conn.change_gc(on.gc, &aux.fill_style(*random.pick(&styles)))?;
        if self.random.chance(30) {
            let rects: Vec<Rectangle> =
                (0..self.random.within(0, 8)).map(|_| self.rectangle(on, 120)).collect();
            self.conn.set_clip_rectangles(ClipOrdering::UNSORTED, on.gc, 0, 0, &rects)?;
        } else {
            self.conn.change_gc(on.gc, &ChangeGCAux::new().clip_mask(x11rb::NONE))?;
        }
        Ok(())
    }

    // ---- core drawing ---------------------------------------------------------------------------

    fn core_op(&mut self) -> Result<&'static str, ReplyOrIdError> {
        let on = self.drawable();
        if self.random.chance(70) {
            self.change_gc(&on)?;
        }
        let (id, gc) = (on.id, on.gc);
        let many = if self.random.chance(10) { 600 } else { 12 };
        Ok(match self.random.within(0, 17) {
            0 | 1 => {
                let rects: Vec<Rectangle> =
                    (0..self.random.within(1, many)).map(|_| self.rectangle(&on, 80)).collect();
                self.conn.poly_fill_rectangle(id, gc, &rects)?;
                "fill rectangles"
            }
            2 => {
                let (mode, points) = self.points(&on, many * 2);
                self.conn.poly_point(mode, id, gc, &points)?;
                "points"
            }
            3 => {
                let (mode, points) = self.points(&on, many);
                self.conn.poly_line(mode, id, gc, &points)?;
                "lines"
            }
            4 => {
                let segments: Vec<Segment> = (0..self.random.within(1, many))
                    .map(|_| Segment {
                        x1: self.random.within(-10, on.width) as i16,
                        y1: self.random.within(-10, on.height) as i16,
                        x2: self.random.within(-10, on.width) as i16,
                        y2: self.random.within(-10, on.height) as i16,
                    })
                    .collect();
                self.conn.poly_segment(id, gc, &segments)?;
                "segments"
            }
            5 => {
                let rects: Vec<Rectangle> =
                    (0..self.random.within(1, 6)).map(|_| self.rectangle(&on, 80)).collect();
                self.conn.poly_rectangle(id, gc, &rects)?;
                "rectangles"
            }
            6 | 7 => {
                let arcs: Vec<Arc> = (0..self.random.within(1, 5))
                    .map(|_| {
                        let r = self.rectangle(&on, 90);
                        Arc {
                            x: r.x,
                            y: r.y,
                            width: r.width,
                            height: r.height,
                            angle1: self.random.within(-23040, 23040) as i16,
                            angle2: self.random.within(-23040, 23040) as i16,
                        }
                    })
                    .collect();
                if self.random.chance(50) {
                    self.conn.poly_arc(id, gc, &arcs)?;
                    "arcs"
                } else {
                    self.conn.poly_fill_arc(id, gc, &arcs)?;
                    "fill arcs"
                }
            }
            8 => {
                let (mode, points) = self.points(&on, 7);
                let shape = *self.random.pick(&[
                    PolyShape::COMPLEX,
                    PolyShape::COMPLEX,
                    PolyShape::NONCONVEX,
                ]);
                self.conn.fill_poly(id, gc, shape, mode, &points)?;
                "fill polygon"
            }
            9 | 10 => {
                let (width, height) = (self.random.within(1, 60), self.random.within(1, 40));
                let format = if self.random.chance(80) {
                    ImageFormat::Z_PIXMAP
                } else {
                    ImageFormat::XY_BITMAP
                };
                let (depth, stride) = if format == ImageFormat::Z_PIXMAP {
                    (on.depth, width * 4)
                } else {
                    (1, (width + 31) / 32 * 4)
                };
                let data: Vec<u8> =
                    (0..stride * height).map(|_| self.random.next() as u8).collect();
                let at = self.rectangle(&on, 1);
                self.conn.put_image(
                    format,
                    id,
                    gc,
                    width as u16,
                    height as u16,
                    at.x,
                    at.y,
                    0,
                    depth,
                    &data,
                )?;
                "put image"
            }
            11..=13 => {
                let from = if self.random.chance(50) { on } else { self.drawable() };
                let at = self.rectangle(&from, 150);
                let to = if from.id == on.id && self.random.chance(60) {
                    // A scroll.
                    Rectangle {
                        x: at.x,
                        y: at.y + self.random.within(-20, 20) as i16,
                        width: 0,
                        height: 0,
                    }
                } else {
                    self.rectangle(&on, 1)
                };
                if from.depth == on.depth && self.random.chance(85) {
                    self.conn
                        .copy_area(from.id, id, gc, at.x, at.y, to.x, to.y, at.width, at.height)?;
                    "copy area"
                } else {
                    let plane = 1u32 << self.random.within(0, 23);
                    self.conn.copy_plane(
                        from.id, id, gc, at.x, at.y, to.x, to.y, at.width, at.height, plane,
                    )?;
                    "copy plane"
                }
            }
            14 | 15 => {
                let text: Vec<u8> = (0..self.random.within(1, 30))
                    .map(|_| self.random.within(32, 126) as u8)
                    .collect();
                let at = self.rectangle(&on, 1);
                if self.random.chance(50) {
                    self.conn.image_text8(id, gc, at.x, at.y, &text)?;
                    "image text"
                } else {
                    let item: Vec<u8> = [text.len() as u8, self.random.within(-3, 3) as u8]
                        .into_iter()
                        .chain(text)
                        .collect();
                    self.conn.poly_text8(id, gc, at.x, at.y, &item)?;
                    "poly text"
                }
            }
            _ => {
                if self.pixmaps.len() < PIXMAPS_MAX {
                    let (width, height) = (self.random.within(1, 200), self.random.within(1, 160));
                    let depth = if self.random.chance(60) { 24 } else { 32 };
                    let pixmap = self.pixmap(width, height, depth)?;
                    self.pixmaps.push(pixmap);
                    "create pixmap"
                } else {
                    let index = (self.random.next() % self.pixmaps.len() as u64) as usize;
                    // Two stay, so that there is always one to draw with.
                    if index >= 2 {
                        let pixmap = self.pixmaps.remove(index);
                        self.conn.render_free_picture(pixmap.picture)?;
                        self.conn.free_gc(pixmap.gc)?;
                        self.conn.free_pixmap(pixmap.id)?;
                    }
                    "free pixmap"
                }
            }
        })
    }

    /// A scroll, as in terminals and lists: a part of a drawable moves within it.
    fn scroll(&mut self) -> Result<&'static str, ReplyOrIdError> {
        let on = if self.windows.is_empty() || self.random.chance(15) {
            self.root_target
        } else {
            *self.random.pick(&self.windows)
        };
        let plain = ChangeGCAux::new()
            .function(GX::COPY)
            .plane_mask(u32::MAX)
            .clip_mask(x11rb::NONE)
            .subwindow_mode(if self.random.chance(80) {
                SubwindowMode::CLIP_BY_CHILDREN
            } else {
                SubwindowMode::INCLUDE_INFERIORS
            });
        self.conn.change_gc(on.gc, &plain)?;
        let (x, y) = (self.random.within(0, on.width / 2), self.random.within(0, on.height / 2));
        let (width, height) = (self.random.within(1, on.width), self.random.within(1, on.height));
        let (dx, dy) =
            (self.random.within(-3, 3) * self.random.within(0, 9), self.random.within(-20, 20));
        self.conn.copy_area(
            on.id,
            on.id,
            on.gc,
            x as i16,
            y as i16,
            (x + dx) as i16,
            (y + dy) as i16,
            width as u16,
            height as u16,
        )?;
        Ok("scroll")
    }

    /// Sends one random request and those it needs. Waits for nothing, except in the compositor.
    pub fn step(&mut self) -> Result<(), ReplyOrIdError> {
        if self.redirected == Some(Redirect::MANUAL) && self.random.chance(40) {
            self.compose()?;
        }
        let kind = self.random.within(0, 99);
        let word = match self.kinds {
            Kinds::Render if kind < 75 => self.render_op()?,
            Kinds::All | Kinds::Plain | Kinds::Offscreen if kind < 30 => self.render_op()?,
            Kinds::All | Kinds::Plain | Kinds::Offscreen if kind < 70 => self.core_op()?,
            _ if kind < 82 => self.scroll()?,
            _ => self.window_op()?,
        };
        if self.log.len() == 40 {
            self.log.pop_front();
        }
        self.log.push_back(word.to_owned());
        Ok(())
    }

    /// The root window with everything on it, as 0x00RRGGBB.
    pub fn screenshot(&self) -> Result<Vec<u32>, ReplyError> {
        let (width, height) = (self.size.0 as u16, self.size.1 as u16);
        let image = self
            .conn
            .get_image(ImageFormat::Z_PIXMAP, self.root, 0, 0, width, height, u32::MAX)?
            .reply()?;
        Ok(image
            .data
            .as_chunks::<4>()
            .0
            .iter()
            .map(|pixel| u32::from_ne_bytes(*pixel) & 0x00ff_ffff)
            .collect())
    }
}
