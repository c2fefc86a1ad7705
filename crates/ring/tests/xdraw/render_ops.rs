//! Random RENDER requests: every operator, sources of every kind, masks, shapes and glyphs. A part
//! of the generator in mod.rs. Knows requests; never their results.

use x11rb::connection::Connection;
use x11rb::errors::ReplyOrIdError;
use x11rb::protocol::render::{self, ConnectionExt as _, PictOp};
use x11rb::protocol::xproto::*;

use super::{Drawer, GLYPHS, Target};

impl<C: Connection> Drawer<C> {
    fn color(&mut self) -> render::Color {
        let alpha = if self.random.chance(40) { 0xffff } else { self.random.next() as u16 };
        // Premultiplied, as in RENDER.
        let mut part = || (self.random.next() % (u64::from(alpha) + 1)) as u16;
        let (red, green, blue) = (part(), part(), part());
        render::Color { red, green, blue, alpha }
    }

    fn fixed(&mut self, low: i64, high: i64) -> i32 {
        (self.random.within(low * 16, high * 16) * 4096) as i32
    }

    fn fixed_point(&mut self, on: &Target) -> render::Pointfix {
        render::Pointfix { x: self.fixed(-10, on.width), y: self.fixed(-10, on.height) }
    }

    /// A source picture, and whether it must be freed afterwards.
    fn source(&mut self, not: &Target) -> Result<(render::Picture, bool), ReplyOrIdError> {
        // Within one pixmap, pixels may be read after they were written: the result depends on X,
        // but is the same in any X.
        let itself = self.random.chance(10);
        let others: Vec<Target> =
            self.pixmaps.iter().filter(|p| itself || p.id != not.id).copied().collect();
        match self.random.within(0, 11) {
            0 => {
                let dot = self.dots[0];
                let pixel = self.pixel();
                self.conn.change_gc(dot.gc, &ChangeGCAux::new().foreground(pixel))?;
                self.conn.poly_point(CoordMode::ORIGIN, dot.id, dot.gc, &[Point { x: 0, y: 0 }])?;
                Ok((dot.picture, false))
            }
            1 if !self.windows.is_empty() => Ok((self.random.pick(&self.windows).picture, false)),
            2 | 3 => {
                let id = self.conn.generate_id()?;
                let color = self.color();
                self.conn.render_create_solid_fill(id, color)?;
                Ok((id, true))
            }
            4 => {
                let id = self.conn.generate_id()?;
                let (p1, p2) = (self.fixed_point(not), self.fixed_point(not));
                let colors = [self.color(), self.color(), self.color()];
                self.conn.render_create_linear_gradient(
                    id,
                    p1,
                    p2,
                    &[0, 0x8000, 0x1_0000],
                    &colors,
                )?;
                if self.random.chance(50) {
                    let repeat = *self.random.pick(&[
                        render::Repeat::PAD,
                        render::Repeat::REFLECT,
                        render::Repeat::NORMAL,
                    ]);
                    self.conn.render_change_picture(
                        id,
                        &render::ChangePictureAux::new().repeat(repeat),
                    )?;
                }
                Ok((id, true))
            }
            _ => {
                let from = *self.random.pick(&others);
                if self.random.chance(10) {
                    let rect = self.rectangle(&from, 100);
                    self.conn.render_set_picture_clip_rectangles(from.picture, 0, 0, &[rect])?;
                }
                let repeat = *self.random.pick(&[
                    render::Repeat::NONE,
                    render::Repeat::NONE,
                    render::Repeat::NORMAL,
                    render::Repeat::PAD,
                    render::Repeat::REFLECT,
                ]);
                self.conn.render_change_picture(
                    from.picture,
                    &render::ChangePictureAux::new().repeat(repeat),
                )?;
                let one = 0x1_0000;
                let mut transform = render::Transform {
                    matrix11: one,
                    matrix22: one,
                    matrix33: one,
                    ..render::Transform::default()
                };
                if self.random.chance(15) {
                    transform.matrix13 = self.random.within(-20, 20) as i32 * one;
                    transform.matrix23 = self.random.within(-20, 20) as i32 * one;
                } else if self.random.chance(15) {
                    transform.matrix11 = self.fixed(1, 3);
                    transform.matrix12 = self.fixed(-1, 1);
                    transform.matrix22 = self.fixed(1, 3);
                }
                self.conn.render_set_picture_transform(from.picture, transform)?;
                Ok((from.picture, false))
            }
        }
    }

    pub(super) fn render_op(&mut self) -> Result<&'static str, ReplyOrIdError> {
        let on = self.drawable();
        // The other operators clear whole clips and would leave nothing to compare.
        let op = PictOp::from(if self.random.chance(88) {
            *self.random.pick(&[1u8, 3, 3, 3, 12])
        } else {
            *self.random.pick(&[
                0u8, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 17, 19, 24, 33, 35, 48, 50, 58, 62,
            ])
        });
        if self.random.chance(25) {
            let rects: Vec<Rectangle> =
                (0..self.random.within(0, 5)).map(|_| self.rectangle(&on, 160)).collect();
            self.conn.render_set_picture_clip_rectangles(on.picture, 0, 0, &rects)?;
        } else if self.random.chance(30) {
            let mode = if self.random.chance(80) {
                SubwindowMode::CLIP_BY_CHILDREN
            } else {
                SubwindowMode::INCLUDE_INFERIORS
            };
            let aux = render::ChangePictureAux::new().clipmask(x11rb::NONE).subwindowmode(mode);
            self.conn.render_change_picture(on.picture, &aux)?;
        }
        let (source, free) = self.source(&on)?;
        let at = self.rectangle(&on, 140);
        let (sx, sy) = (self.random.within(-10, 30) as i16, self.random.within(-10, 30) as i16);
        let format = if self.random.chance(70) { self.formats.a8 } else { x11rb::NONE };
        let word = match self.random.within(0, 9) {
            0..=3 => {
                let mask = match self.random.within(0, 9) {
                    0..=2 => self.random.pick(&self.masks).picture,
                    3 => {
                        let dot = self.dots[1];
                        let coverage = *self.random.pick(&[0x80, 0xff, 0xff]);
                        self.conn.change_gc(dot.gc, &ChangeGCAux::new().foreground(coverage))?;
                        self.conn.poly_point(
                            CoordMode::ORIGIN,
                            dot.id,
                            dot.gc,
                            &[Point { x: 0, y: 0 }],
                        )?;
                        dot.picture
                    }
                    4 => self.dots[0].picture,
                    _ => x11rb::NONE,
                };
                self.conn.render_composite(
                    op, source, mask, on.picture, sx, sy, 0, 0, at.x, at.y, at.width, at.height,
                )?;
                "composite"
            }
            4 => {
                let rects: Vec<Rectangle> =
                    (0..self.random.within(1, 8)).map(|_| self.rectangle(&on, 100)).collect();
                let color = self.color();
                self.conn.render_fill_rectangles(op, on.picture, color, &rects)?;
                "composite rectangles"
            }
            5 => {
                let traps: Vec<render::Trapezoid> = (0..self.random.within(1, 5))
                    .map(|_| {
                        let (top, bottom) = (self.fixed(-5, on.height), self.fixed(-5, on.height));
                        let mut line = || render::Linefix {
                            p1: self.fixed_point(&on),
                            p2: self.fixed_point(&on),
                        };
                        render::Trapezoid {
                            top: top.min(bottom),
                            bottom: top.max(bottom),
                            left: line(),
                            right: line(),
                        }
                    })
                    .collect();
                self.conn.render_trapezoids(op, source, on.picture, format, sx, sy, &traps)?;
                "trapezoids"
            }
            6 => {
                let triangles: Vec<render::Triangle> = (0..self.random.within(1, 5))
                    .map(|_| render::Triangle {
                        p1: self.fixed_point(&on),
                        p2: self.fixed_point(&on),
                        p3: self.fixed_point(&on),
                    })
                    .collect();
                self.conn.render_triangles(op, source, on.picture, format, sx, sy, &triangles)?;
                "triangles"
            }
            7 => {
                let points: Vec<render::Pointfix> =
                    (0..self.random.within(3, 8)).map(|_| self.fixed_point(&on)).collect();
                if self.random.chance(50) {
                    self.conn.render_tri_strip(op, source, on.picture, format, sx, sy, &points)?;
                    "triangle strip"
                } else {
                    self.conn.render_tri_fan(op, source, on.picture, format, sx, sy, &points)?;
                    "triangle fan"
                }
            }
            _ => {
                let mut commands = Vec::new();
                for _ in 0..self.random.within(1, 4) {
                    let count = self.random.within(1, 12);
                    let (dx, dy) = (self.random.within(-20, on.width), self.random.within(-20, 60));
                    commands.extend([count as u8, 0, 0, 0]);
                    commands.extend((dx as i16).to_ne_bytes());
                    commands.extend((dy as i16).to_ne_bytes());
                    for _ in 0..count {
                        commands.extend(
                            ((self.random.next() % u64::from(GLYPHS)) as u32).to_ne_bytes(),
                        );
                    }
                }
                self.conn.render_composite_glyphs32(
                    op,
                    source,
                    on.picture,
                    format,
                    self.glyphset,
                    sx,
                    sy,
                    &commands,
                )?;
                "glyphs"
            }
        };
        if free {
            self.conn.render_free_picture(source)?;
        }
        Ok(word)
    }
}
