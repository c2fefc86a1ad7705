//! Path 12/13: from decode.rs, to viewer-native/present.rs and web/present.ts.
//! What the viewer shows, and which part of it the shell has not shown yet.
//! Knows pixels and regions; never messages or windows.

use thinc_codec_dec::{DecodeError, Decoder, OPAQUE};
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::video::Source;
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, PlanesRef};

use crate::inexact::Inexact;
use crate::underlay::Underlay;
use crate::video::Exactness;

/// Beyond this many rectangles damage becomes its extents: a shell uploads few large parts faster than many small.
const DAMAGE_RECTS_MAX: usize = 256;

/// Pixels as 0xFFRRGGBB, rows from top to bottom without gaps: stride = width.
///
/// In little-endian memory that is B, G, R, 255, so that a BGRA upload is opaque.
#[derive(Debug, Default)]
pub struct Framebuffer {
    size: Size,
    /// The part of the session's screen that it shows.
    part: Rect,
    pixels: Vec<u32>,
    damage: Region,
    inexact: Inexact,
    /// A PFILL's tile.
    tile: Vec<u32>,
    /// What an earlier connection showed, until the first geometry.
    earlier: Option<Box<Framebuffer>>,
}

impl Framebuffer {
    /// Width and height; 0 × 0 before the session has said.
    pub fn size(&self) -> Size {
        self.size
    }

    /// All pixels.
    pub fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// One row.
    pub fn row(&self, y: usize) -> &[u32] {
        let width = self.size.width as usize;
        &self.pixels[y * width..][..width]
    }

    /// Which pixels were shown lossy, and not exactly since.
    pub const fn inexact(&self) -> &Inexact {
        &self.inexact
    }

    /// What has changed since it was last taken.
    pub(crate) fn take_damage(&mut self) -> Region {
        self.damage.take()
    }

    pub(crate) fn damage(&self) -> &Region {
        &self.damage
    }

    /// The part of the session's screen that it shows.
    pub(crate) fn part(&self) -> Rect {
        self.part
    }

    /// A picture of which nothing is known.
    pub(crate) fn blank(size: Size, part: Rect) -> Framebuffer {
        let mut blank = Framebuffer::default();
        blank.reset(size, part);
        blank
    }

    /// What is seen: before the first geometry that is what lies under this.
    pub(crate) fn newest(&self) -> &Framebuffer {
        self.earlier.as_deref().map_or(self, Framebuffer::newest)
    }

    /// Lies over what an earlier connection showed; before the first geometry.
    pub(crate) fn lie_over(&mut self, earlier: &Framebuffer) {
        let Framebuffer { size, part, pixels, inexact, .. } = earlier;
        let (pixels, inexact) = (pixels.clone(), inexact.clone());
        self.earlier =
            Some(Box::new(Framebuffer { size: *size, part: *part, pixels, inexact, ..Framebuffer::default() }));
    }

    /// Another geometry: this size, which shows this part of the session's screen. What was shown of the same part stays until it is
    /// written, the rest is black; all is damaged, and none of it is exact.
    pub(crate) fn reset(&mut self, size: Size, part: Rect) {
        if let Some(earlier) = self.earlier.take() {
            *self = *earlier;
        }
        if (size, part) != (self.size, self.part) {
            let underlay = Underlay::new((self.size, self.part), (size, part));
            self.pixels = underlay.draw(&self.pixels);
            (self.size, self.part) = (size, part);
        }
        self.damage = size.rect().into();
        self.inexact = Inexact::new(size);
        self.inexact.add(&size.rect());
    }

    /// Applies one command; gives the pixels it wrote.
    ///
    /// The reader of commands has checked that every rectangle lies inside this screen.
    pub(crate) fn apply(&mut self, command: &Command<'_>, decoder: &mut Decoder) -> Result<u64, DecodeError> {
        let stride = self.size.width as usize;
        let written = match command {
            // What is shown here is exact.
            Command::Copy { dx: 0, dy: 0, .. } => 0,
            Command::Copy { region, dx, dy } => {
                self.copy(region, *dx, *dy);
                region.area()
            }
            Command::Sfill { region, color } => {
                for rect in region.rects() {
                    self.rows_mut(rect).for_each(|row| row.fill(OPAQUE | color));
                }
                region.area()
            }
            Command::Pfill { rect, tile_width, tile_height, encoding, data } => {
                let (width, height) = (usize::from(*tile_width), usize::from(*tile_height));
                let mut tile = std::mem::take(&mut self.tile);
                let result = decoder.tile(*encoding, data, (width, height), &mut tile);
                if result.is_ok() {
                    for (row, tile_row) in self.rows_mut(rect).zip(tile.chunks_exact(width).cycle()) {
                        for part in row.chunks_mut(width) {
                            part.copy_from_slice(&tile_row[..part.len()]);
                        }
                    }
                }
                self.tile = tile;
                result?;
                rect.area()
            }
            Command::Bitmap { rect, depth, fg, bg, packing, data } => {
                let dst = &mut self.pixels[offset(rect, stride)..];
                decoder.bitmap(*depth, *packing, data, (*fg, *bg), extent(rect), dst, stride)?;
                rect.area()
            }
            Command::Raw { rect, encoding, data } => {
                let dst = &mut self.pixels[offset(rect, stride)..];
                decoder.raw(*encoding, data, extent(rect), dst, stride)?;
                rect.area()
            }
            Command::Keep { .. } | Command::Recall { .. } => unreachable!("these are the cache's"),
            Command::Video(_) => unreachable!("these are the streams'"),
        };
        match command {
            Command::Copy { region, dx: 0, dy: 0 } => {
                region.rects().iter().for_each(|rect| self.inexact.subtract(rect));
            }
            Command::Copy { region, dx, dy } => {
                self.inexact.copy(region, *dx, *dy);
                self.damage.add(region);
            }
            Command::Sfill { region, .. } => {
                region.rects().iter().for_each(|rect| self.inexact.subtract(rect));
                self.damage.add(region);
            }
            Command::Raw { rect, encoding: Encoding::Jpeg, .. } => {
                self.inexact.add(rect);
                self.damage.add_rect(*rect);
            }
            Command::Pfill { rect, .. } | Command::Bitmap { rect, .. } | Command::Raw { rect, .. } => {
                self.inexact.subtract(rect);
                self.damage.add_rect(*rect);
            }
            Command::Keep { .. } | Command::Recall { .. } | Command::Video(_) => {}
        }
        self.bound_damage();
        Ok(written)
    }

    /// The pixels of a rectangle.
    pub(crate) fn read(&self, rect: &Rect) -> Box<[u32]> {
        let (width, height) = extent(rect);
        let mut pixels = Vec::with_capacity(width * height);
        for row in self.pixels[offset(rect, self.size.width as usize)..].chunks(self.size.width as usize).take(height) {
            pixels.extend_from_slice(&row[..width]);
        }
        pixels.into_boxed_slice()
    }

    /// A rectangle has these pixels now, which are exact or only nearly so.
    pub(crate) fn write(&mut self, rect: &Rect, pixels: &[u32], exact: bool) {
        for (row, pixels) in self.rows_mut(rect).zip(pixels.chunks_exact(rect.width() as usize)) {
            row.copy_from_slice(pixels);
        }
        if exact {
            self.inexact.subtract(rect);
        } else {
            self.inexact.add(rect);
        }
        self.damage.add_rect(*rect);
        self.bound_damage();
    }

    /// A video's picture becomes pixels where it is seen; the clip lies inside the screen.
    pub(crate) fn paint(
        &mut self,
        painter: &mut Painter,
        planes: &PlanesRef<'_>,
        source: &Source,
        place: Rect,
        clip: &Region,
    ) {
        painter.paint(planes, source, place, clip, &mut self.pixels, self.size.width as usize);
    }

    /// A video's picture is seen here, whether or not it is painted yet.
    pub(crate) fn handle_painted(&mut self, clip: &Region, exactness: Exactness) {
        match exactness {
            // A scaled screen is resampled from its pixels, and not from the samples they were made of.
            Exactness::Exact if self.is_unscaled() => clip.rects().iter().for_each(|rect| self.inexact.subtract(rect)),
            _ => self.add_inexact(clip),
        }
        self.damage.add(clip);
        self.bound_damage();
    }

    /// A pixel of the picture is a pixel of the screen.
    fn is_unscaled(&self) -> bool {
        self.size.rect() == Rect::at(0, 0, self.part.width(), self.part.height())
    }

    /// The session's screen shows something else here, which has not been decoded yet.
    pub(crate) fn add_inexact(&mut self, region: &Region) {
        region.rects().iter().for_each(|rect| self.inexact.add(rect));
    }

    fn bound_damage(&mut self) {
        if self.damage.rect_count() > DAMAGE_RECTS_MAX {
            self.damage = self.damage.extents().into();
        }
    }

    fn copy(&mut self, region: &Region, dx: i32, dy: i32) {
        let stride = self.size.width as usize;
        for rect in region.copy_order(dx, dy) {
            let source = offset(&rect.translate(-dx, -dy), stride);
            let target = offset(&rect, stride);
            let (width, height) = extent(&rect);
            for i in 0..height {
                let row = if dy > 0 { height - 1 - i } else { i } * stride;
                self.pixels.copy_within(source + row..source + row + width, target + row);
            }
        }
    }

    fn rows_mut(&mut self, rect: &Rect) -> impl Iterator<Item = &mut [u32]> {
        let stride = self.size.width as usize;
        let (width, height) = extent(rect);
        self.pixels[offset(rect, stride)..].chunks_mut(stride).take(height).map(move |row| &mut row[..width])
    }
}

fn offset(rect: &Rect, stride: usize) -> usize {
    rect.y1 as usize * stride + rect.x1 as usize
}

fn extent(rect: &Rect) -> (usize, usize) {
    (rect.width() as usize, rect.height() as usize)
}
