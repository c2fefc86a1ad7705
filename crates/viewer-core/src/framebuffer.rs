//! Path 12/13: from decode.rs, to viewer-native/present.rs and web/display/present.ts.
//! The pixels that the viewer shows, and the damage that the shell has not presented yet. Knows
//! pixels and regions; never messages or windows.

use thinc_codec_dec::{DecodeError, Decoder, OPAQUE};
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::video::Source;
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, PlanesRef};

use crate::lossy_mask::LossyMask;
use crate::underlay::Underlay;
use crate::video::Fidelity;

/// 256: with more rectangles, damage becomes its extents; a shell uploads a few large rectangles
/// faster than many small ones.
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
    lossy: LossyMask,
    /// Scratch for a PFILL's tile.
    tile: Vec<u32>,
    /// The framebuffer of an earlier connection, until the first geometry.
    earlier: Option<Box<Framebuffer>>,
}

impl Framebuffer {
    /// Width and height; 0 × 0 before the first geometry.
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

    /// Which pixels are lossy and not refreshed yet.
    pub const fn lossy(&self) -> &LossyMask {
        &self.lossy
    }

    /// Takes the damage accumulated since the last call.
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

    /// A black framebuffer, all of it lossy.
    pub(crate) fn blank(size: Size, part: Rect) -> Framebuffer {
        let mut blank = Framebuffer::default();
        blank.reset(size, part);
        blank
    }

    /// The framebuffer that is shown: before the first geometry, the earlier connection's.
    pub(crate) fn newest(&self) -> &Framebuffer {
        self.earlier.as_deref().map_or(self, Framebuffer::newest)
    }

    /// Shows a copy of an earlier connection's framebuffer until the first geometry.
    pub(crate) fn set_earlier(&mut self, earlier: &Framebuffer) {
        let Framebuffer { size, part, pixels, lossy, .. } = earlier;
        let (pixels, lossy) = (pixels.clone(), lossy.clone());
        self.earlier = Some(Box::new(Framebuffer {
            size: *size,
            part: *part,
            pixels,
            lossy,
            ..Framebuffer::default()
        }));
    }

    /// A new geometry: the framebuffer has this size and shows this part of the session's screen.
    /// Old pixels of the same part stay until they are written, the rest is black; all is damaged
    /// and lossy.
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
        self.lossy = LossyMask::new(size);
        self.lossy.add(&size.rect());
    }

    /// Applies one command; returns the count of pixels written.
    ///
    /// The command reader has checked that every rectangle is inside the framebuffer.
    pub(crate) fn apply(
        &mut self,
        command: &Command<'_>,
        decoder: &mut Decoder,
    ) -> Result<u64, DecodeError> {
        let stride = self.size.width as usize;
        let written = match command {
            // Only declares the region lossless.
            Command::Copy { dx: 0, dy: 0, .. } => 0,
            Command::Copy { region, dx, dy } => {
                copy_pixels(&mut self.pixels, stride, region, (*dx, *dy));
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
                    for (row, tile_row) in self.rows_mut(rect).zip(tile.chunks_exact(width).cycle())
                    {
                        for part in row.chunks_mut(width) {
                            part.copy_from_slice(&tile_row[..part.len()]);
                        }
                    }
                }
                self.tile = tile;
                result?;
                rect.area()
            }
            Command::Bitmap { rect, depth, fg, bg, compression, data } => {
                let dst = &mut self.pixels[offset(rect, stride)..];
                decoder.bitmap(
                    *depth,
                    *compression,
                    data,
                    (*fg, *bg),
                    extent(rect),
                    dst,
                    stride,
                )?;
                rect.area()
            }
            Command::Raw { rect, encoding, data } => {
                let dst = &mut self.pixels[offset(rect, stride)..];
                decoder.raw(*encoding, data, extent(rect), dst, stride)?;
                rect.area()
            }
            Command::Keep { .. } | Command::Recall { .. } => {
                unreachable!("GrantedCache handles KEEP and RECALL")
            }
            Command::Video(_) => unreachable!("Videos handles VIDEO commands"),
        };
        match command {
            Command::Copy { region, dx: 0, dy: 0 } => {
                region.rects().iter().for_each(|rect| self.lossy.subtract(rect));
            }
            Command::Copy { region, dx, dy } => {
                self.lossy.copy(region, *dx, *dy);
                self.damage.add(region);
            }
            Command::Sfill { region, .. } => {
                region.rects().iter().for_each(|rect| self.lossy.subtract(rect));
                self.damage.add(region);
            }
            Command::Raw { rect, encoding: Encoding::Jpeg, .. } => {
                self.lossy.add(rect);
                self.damage.add_rect(*rect);
            }
            Command::Pfill { rect, .. }
            | Command::Bitmap { rect, .. }
            | Command::Raw { rect, .. } => {
                self.lossy.subtract(rect);
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
        for row in self.pixels[offset(rect, self.size.width as usize)..]
            .chunks(self.size.width as usize)
            .take(height)
        {
            pixels.extend_from_slice(&row[..width]);
        }
        pixels.into_boxed_slice()
    }

    /// Writes a rectangle's pixels, which are lossless or lossy.
    pub(crate) fn write(&mut self, rect: &Rect, pixels: &[u32], exact: bool) {
        for (row, pixels) in self.rows_mut(rect).zip(pixels.chunks_exact(rect.width() as usize)) {
            row.copy_from_slice(pixels);
        }
        if exact {
            self.lossy.subtract(rect);
        } else {
            self.lossy.add(rect);
        }
        self.damage.add_rect(*rect);
        self.bound_damage();
    }

    /// Paints a video frame's samples into `clip`, which is inside the framebuffer.
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

    /// A video frame is visible in `clip`, whether or not it is painted yet.
    pub(crate) fn handle_painted(&mut self, clip: &Region, exactness: Fidelity) {
        match exactness {
            // The session resamples a scaled screen from its pixels, not from the frame's samples,
            // so even uncompressed frames are lossy.
            Fidelity::Lossless if self.is_unscaled() => {
                clip.rects().iter().for_each(|rect| self.lossy.subtract(rect))
            }
            _ => self.add_lossy(clip),
        }
        self.damage.add(clip);
        self.bound_damage();
    }

    /// One pixel of the framebuffer is one pixel of the screen.
    fn is_unscaled(&self) -> bool {
        self.size.rect() == Rect::at(0, 0, self.part.width(), self.part.height())
    }

    /// The session's screen has changed in `region`; the frame is not decoded yet.
    pub(crate) fn add_lossy(&mut self, region: &Region) {
        region.rects().iter().for_each(|rect| self.lossy.add(rect));
    }

    /// The region looks different, though no pixel here has changed: another layer has.
    pub(crate) fn add_damage(&mut self, region: &Region) {
        self.damage.add(region);
        self.bound_damage();
    }

    fn bound_damage(&mut self) {
        if self.damage.rect_count() > DAMAGE_RECTS_MAX {
            self.damage = self.damage.extents().into();
        }
    }

    fn rows_mut(&mut self, rect: &Rect) -> impl Iterator<Item = &mut [u32]> {
        let stride = self.size.width as usize;
        let (width, height) = extent(rect);
        self.pixels[offset(rect, stride)..]
            .chunks_mut(stride)
            .take(height)
            .map(move |row| &mut row[..width])
    }
}

/// Copies the pixels of a region from where they are `(dx, dy)` before it; all of both is inside of
/// `pixels`, whose rows are `stride` long.
pub(crate) fn copy_pixels(pixels: &mut [u32], stride: usize, region: &Region, vector: (i32, i32)) {
    let (dx, dy) = vector;
    for rect in region.copy_order(dx, dy) {
        let source = offset(&rect.translate(-dx, -dy), stride);
        let target = offset(&rect, stride);
        let (width, height) = extent(&rect);
        for i in 0..height {
            let row = if dy > 0 { height - 1 - i } else { i } * stride;
            pixels.copy_within(source + row..source + row + width, target + row);
        }
    }
}

fn offset(rect: &Rect, stride: usize) -> usize {
    rect.y1 as usize * stride + rect.x1 as usize
}

fn extent(rect: &Rect) -> (usize, usize) {
    (rect.width() as usize, rect.height() as usize)
}
