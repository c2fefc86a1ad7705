//! Text as toolkits draw it today: anti-aliased glyphs, each uploaded once and composited by
//! RENDER. Used by the applications that draw text; the outlines come from a sans-serif font of the
//! system. Knows fonts and RENDER; never the meaning of a text.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ab_glyph::{Font as _, FontVec, PxScale, ScaleFont as _, point};
use x11rb::connection::Connection as _;
use x11rb::protocol::render::{
    self, Color, ConnectionExt as _, CreatePictureAux, Glyphinfo, PictOp, PictType, Pictforminfo,
};

use super::window::Window;
use crate::Error;

/// Paths of sans-serif fonts in Debian, Fedora and Arch, in the order of preference.
const FONTS: [&str; 7] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
    "/usr/share/fonts/liberation-sans/LiberationSans-Regular.ttf",
    "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
    "/usr/share/fonts/opentype/urw-base35/NimbusSans-Regular.otf",
];

/// Draws black text of one size in one window.
pub struct Pen {
    font: FontVec,
    scale: PxScale,
    set: u32,
    ink: u32,
    paper: u32,
    uploaded: BTreeSet<u8>,
    /// From the top of a line to its baseline, pixels.
    ascent: i16,
}

impl Pen {
    /// A pen whose em is this many pixels.
    pub fn new(window: &Window, pixels: f32) -> Result<Pen, Error> {
        let path = FONTS.iter().map(PathBuf::from).find(|path| path.exists());
        let path = path.ok_or("no sans-serif font found: install fonts-dejavu-core")?;
        let font = FontVec::try_from_vec(std::fs::read(&path)?)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        // The library expects points at 96 pixels an inch.
        let scale = font
            .pt_to_px_scale(pixels * 0.75)
            .ok_or_else(|| format!("{}: it names no size", path.display()))?;
        let ascent = font.as_scaled(scale).ascent().round() as i16;
        let x = &window.x;
        x.render_query_version(0, 11)?.reply()?;
        let formats = x.render_query_pict_formats()?.reply()?;
        let direct = |info: &&Pictforminfo| info.type_ == PictType::DIRECT;
        let alpha = formats
            .formats
            .iter()
            .filter(direct)
            .find(|info| info.depth == 8 && info.direct.alpha_mask == 255);
        let root = &x.setup().roots[0];
        let depths =
            formats.screens.first().map(|screen| screen.depths.as_slice()).unwrap_or_default();
        let visuals = depths.iter().flat_map(|depth| &depth.visuals);
        let screen = visuals.clone().find(|visual| visual.visual == root.root_visual);
        let (alpha, screen) =
            alpha.zip(screen).ok_or("RENDER on this X server has no format for text")?;
        let (set, ink, paper) = (x.generate_id()?, x.generate_id()?, x.generate_id()?);
        x.render_create_glyph_set(set, alpha.id)?.check()?;
        x.render_create_solid_fill(ink, Color { red: 0, green: 0, blue: 0, alpha: 0xffff })?
            .check()?;
        x.render_create_picture(paper, window.id, screen.format, &CreatePictureAux::new())?
            .check()?;
        Ok(Pen { font, scale, set, ink, paper, uploaded: BTreeSet::new(), ascent })
    }

    /// Draws a line of ASCII with its upper left corner there, and returns its width.
    pub fn write(&mut self, window: &Window, x: i16, y: i16, line: &str) -> Result<i16, Error> {
        assert!(line.is_ascii() && line.len() < 255, "a line is short and ASCII");
        for byte in line.bytes() {
            self.upload(window, byte)?;
        }
        // One glyph element: its length, three bytes of padding, its offset, and a byte for each
        // glyph.
        let mut commands = vec![u8::try_from(line.len())?, 0, 0, 0];
        commands.extend(x.to_ne_bytes());
        commands.extend((y + self.ascent).to_ne_bytes());
        commands.extend(line.bytes());
        commands.resize(commands.len().next_multiple_of(4), 0);
        window.x.render_composite_glyphs8(
            PictOp::OVER,
            self.ink,
            self.paper,
            0_u32,
            self.set,
            0,
            0,
            &commands,
        )?;
        window.x.flush()?;
        Ok(line.bytes().map(|byte| self.advance(byte)).sum())
    }

    /// Advance width of a character, pixels.
    pub fn advance(&self, character: u8) -> i16 {
        let font = self.font.as_scaled(self.scale);
        font.h_advance(self.font.glyph_id(char::from(character))).round() as i16
    }

    fn upload(&mut self, window: &Window, character: u8) -> Result<(), Error> {
        if !self.uploaded.insert(character) {
            return Ok(());
        }
        let glyph = self
            .font
            .glyph_id(char::from(character))
            .with_scale_and_position(self.scale, point(0.0, 0.0));
        let mut info =
            Glyphinfo { width: 1, height: 1, x: 0, y: 0, x_off: self.advance(character), y_off: 0 };
        // Rows are padded to four bytes.
        let mut rows = vec![0_u8; 4];
        if let Some(outline) = self.font.outline_glyph(glyph) {
            let bounds = outline.px_bounds();
            (info.width, info.height) = (bounds.width() as u16, bounds.height() as u16);
            (info.x, info.y) = (-(bounds.min.x as i16), -(bounds.min.y as i16));
            let stride = usize::from(info.width).next_multiple_of(4);
            rows = vec![0; stride * usize::from(info.height)];
            outline.draw(|x, y, share| {
                rows[y as usize * stride + x as usize] = (share.clamp(0.0, 1.0) * 255.0) as u8
            });
        }
        render::add_glyphs(&window.x, self.set, &[u32::from(character)], &[info], &rows)?;
        Ok(())
    }
}
