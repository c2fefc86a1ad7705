//! Path 12/13: from framebuffer.rs and right_eye.rs, to the shell's presenter. Path back: from the
//! viewer's menu, to outbox.rs.
//! How a stereo program's two pictures are shown: the user's choice, which decides whether the
//! session sends the right eye's, and one picture made of both. Knows rows of pixels; never
//! streams, windows or displays.

use thinc_protocol::session::SessionCaps;
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};

use crate::framebuffer::Framebuffer;
use crate::outbox::Outbox;
use crate::right_eye::RightEye;
use crate::viewer::Viewer;

/// Red of a pixel, with what makes it opaque; green and blue.
const RED: u32 = 0xffff_0000;
const CYAN: u32 = 0x0000_ffff;
/// Each channel without its lowest bit.
const HALVES: u32 = 0xfefe_fefe;

/// How both pictures are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StereoMode {
    /// The left one alone; the session sends no other.
    #[default]
    Off = 0,
    /// Red of the left one, green and blue of the right one, for red-cyan glasses.
    Anaglyph = 1,
    /// The left one in the left half of where stereo programs are, the right one in the right half.
    SideBySide = 2,
    /// Even rows of the left one, odd rows of the right one, for displays with polarised rows.
    Interleaved = 3,
    /// Both separately: a display with a buffer for each eye.
    Quad = 4,
}

impl StereoMode {
    /// All of them.
    pub const ALL: [StereoMode; 5] = [
        StereoMode::Off,
        StereoMode::Anaglyph,
        StereoMode::SideBySide,
        StereoMode::Interleaved,
        StereoMode::Quad,
    ];

    /// As command lines and addresses of pages have it.
    pub const fn name(self) -> &'static str {
        match self {
            StereoMode::Off => "off",
            StereoMode::Anaglyph => "anaglyph",
            StereoMode::SideBySide => "side-by-side",
            StereoMode::Interleaved => "interleaved",
            StereoMode::Quad => "quad",
        }
    }

    /// The mode of this name.
    pub fn of_name(name: &str) -> Option<StereoMode> {
        StereoMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The mode of this number.
    pub fn of_number(number: u32) -> Option<StereoMode> {
        StereoMode::ALL.into_iter().find(|&mode| mode as u32 == number)
    }

    /// True if it shows the right eye's picture.
    pub const fn is_on(self) -> bool {
        !matches!(self, StereoMode::Off)
    }

    /// What is shown of row `y` of where stereo programs are: of the left and the right eye's row,
    /// both of the length of `out`. For `Quad`, what the right eye is shown.
    pub fn compose_row(self, y: i32, left: &[u32], right: &[u32], out: &mut [u32]) {
        assert!(
            left.len() == out.len() && right.len() == out.len(),
            "rows have one length, but they have {}, {} and {}",
            left.len(),
            right.len(),
            out.len()
        );
        match self {
            StereoMode::Off => out.copy_from_slice(left),
            StereoMode::Quad => out.copy_from_slice(right),
            StereoMode::Interleaved => out.copy_from_slice(if y & 1 == 0 { left } else { right }),
            StereoMode::Anaglyph => {
                for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
                    *out = left & RED | right & CYAN;
                }
            }
            StereoMode::SideBySide => {
                let half = out.len() / 2;
                squeeze(left, &mut out[..half]);
                squeeze(right, &mut out[half..2 * half]);
                // Of an odd width, the last pixel has no partner.
                out[2 * half..].copy_from_slice(&left[2 * half..]);
            }
        }
    }
}

/// Each pixel is the mean of two, each channel rounded down.
fn squeeze(row: &[u32], out: &mut [u32]) {
    for (out, [a, b]) in out.iter_mut().zip(row.as_chunks().0) {
        *out = (a & b) + (((a ^ b) & HALVES) >> 1);
    }
}

/// The choice of one connection, and what is shown by it.
#[derive(Debug, Default)]
pub(crate) struct Stereo {
    /// The session takes the choice.
    is_on: bool,
    mode: StereoMode,
    /// The framebuffer with both eyes' pictures in `bounds`; empty while there is one alone.
    picture: Vec<u32>,
    size: Size,
    bounds: Rect,
    /// `picture` is of another mode, except outside of its bounds.
    is_stale: bool,
    /// Scratch for one row of the right eye.
    row: Vec<u32>,
}

impl Stereo {
    /// The session's hello has these capabilities. True if the right eye is asked for.
    pub(crate) fn handle_hello(&mut self, caps: u32, outbox: &mut Outbox) -> bool {
        self.is_on = caps & SessionCaps::STEREO != 0;
        let is_asked = self.is_on && self.mode.is_on();
        if is_asked {
            outbox.push(&ViewerMessage::Stereo(true));
        }
        is_asked
    }

    pub(crate) const fn mode(&self) -> StereoMode {
        self.mode
    }

    /// What is shown instead of the framebuffer, or to the right eye.
    pub(crate) fn picture(&self) -> Option<&[u32]> {
        (!self.picture.is_empty()).then_some(&*self.picture)
    }

    /// True if there is a picture, or the next [`Stereo::compose`] makes one.
    pub(crate) fn composes(&self, right: &RightEye) -> bool {
        self.mode.is_on() && !right.is_empty()
    }

    /// Brings the picture up to date where the framebuffer or the right eye's pictures are damaged;
    /// returns where something else is shown.
    pub(crate) fn compose(
        &mut self,
        damage: Region,
        framebuffer: &Framebuffer,
        right: &RightEye,
    ) -> Region {
        let (size, mut due) = (framebuffer.size(), damage);
        let bounds = if self.composes(right) { right.bounds() } else { Rect::default() };
        let before = std::mem::replace(&mut self.bounds, bounds).intersect(&size.rect());
        // Only side by side a pixel's place depends on the bounds.
        let is_arranged = self.mode == StereoMode::SideBySide;
        if std::mem::take(&mut self.is_stale) || is_arranged && bounds != before {
            due.add_rect(before);
            due.add_rect(bounds);
        }
        if bounds.is_empty() {
            self.picture = Vec::new();
            return due;
        }
        if is_arranged {
            widen(&mut due, &bounds);
        }
        if self.picture.is_empty() || self.size != size {
            self.size = size;
            self.picture.clear();
            self.picture.extend_from_slice(framebuffer.pixels());
            self.compose_rect(&bounds, framebuffer, right);
        }
        for rect in due.rects() {
            self.compose_rect(rect, framebuffer, right);
        }
        due
    }

    fn compose_rect(&mut self, rect: &Rect, framebuffer: &Framebuffer, right: &RightEye) {
        let stride = self.size.width as usize;
        let columns = |rect: &Rect| rect.x1 as usize..rect.x2 as usize;
        let both = rect.intersect(&self.bounds);
        for y in rect.y1..rect.y2 {
            let left = framebuffer.row(y as usize);
            let out = &mut self.picture[y as usize * stride..][..stride];
            out[columns(rect)].copy_from_slice(&left[columns(rect)]);
            if !both.is_empty() && both.y1 <= y && y < both.y2 {
                self.row.clear();
                self.row.extend_from_slice(&left[columns(&both)]);
                right.overlay(both.x1, y, &mut self.row);
                let (left, out) = (&left[columns(&both)], &mut out[columns(&both)]);
                self.mode.compose_row(y, left, &self.row, out);
            }
        }
    }
}

/// Side by side, a pixel is shown elsewhere in its row: all of the row is due.
fn widen(due: &mut Region, bounds: &Rect) {
    let mut rows = due.clone();
    rows.intersect_rect(bounds);
    for rect in rows.rects() {
        due.add_rect(Rect { x1: bounds.x1, x2: bounds.x2, ..*rect });
    }
}

impl Viewer {
    /// How stereo programs are shown from now on. The session is told, once it has said that it
    /// takes the choice, whether the right eye's pictures are wanted.
    pub fn choose_stereo(&mut self, mode: StereoMode) {
        let state = &mut self.state;
        let before = std::mem::replace(&mut state.stereo.mode, mode);
        if before == mode {
            return;
        }
        state.stereo.is_stale = true;
        if before.is_on() != mode.is_on() && state.stereo.is_on && !state.closed {
            state.outbox.push(&ViewerMessage::Stereo(mode.is_on()));
            state.videos.want_right_eye(mode.is_on(), &mut state.framebuffer);
        }
        // What is shown already looks different.
        let bounds = state.stereo.bounds.bound(&state.videos.right_eye().bounds());
        let bounds = bounds.intersect(&state.framebuffer.size().rect());
        if !bounds.is_empty() {
            state.framebuffer.add_damage(&bounds.into());
        }
    }

    /// How stereo programs are shown.
    pub fn stereo(&self) -> StereoMode {
        self.state.stereo.mode()
    }

    /// True if the session takes the choice.
    pub fn takes_stereo(&self) -> bool {
        self.state.stereo.is_on
    }

    /// True if a stereo program was shown in this connection.
    pub fn has_seen_stereo(&self) -> bool {
        self.state.videos.has_seen_right_eye()
    }

    /// The right eye's pictures over the framebuffer.
    pub fn right_eye(&self) -> &RightEye {
        self.state.videos.right_eye()
    }

    /// The pixels to present, as in the framebuffer and of its size: both eyes' pictures in one, as
    /// chosen, and for [`StereoMode::Quad`] the left eye's. They are those of the last
    /// [`Viewer::take_damage`].
    pub fn picture(&self) -> &[u32] {
        let both = self.state.stereo.picture().filter(|_| self.stereo() != StereoMode::Quad);
        both.unwrap_or_else(|| self.framebuffer().pixels())
    }

    /// For [`StereoMode::Quad`], the pixels to present to the right eye, if they are others than
    /// [`Viewer::picture`].
    pub fn right_picture(&self) -> Option<&[u32]> {
        self.state.stereo.picture().filter(|_| self.stereo() == StereoMode::Quad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: [u32; 5] = [0xff10_2030, 0xff11_2233, 0xff00_ff01, 0xffff_ffff, 0xff80_8080];
    const RIGHT: [u32; 5] = [0xff40_5060, 0xffff_0000, 0xff00_0000, 0xffff_fffe, 0xff7f_7f7f];

    fn row(mode: StereoMode, y: i32, count: usize) -> Vec<u32> {
        let mut out = vec![0; count];
        mode.compose_row(y, &LEFT[..count], &RIGHT[..count], &mut out);
        out
    }

    #[test]
    fn an_anaglyph_is_red_of_the_left_eye_and_green_and_blue_of_the_right_one() {
        assert_eq!(
            row(StereoMode::Anaglyph, 3, 5),
            [0xff10_5060, 0xff11_0000, 0xff00_0000, 0xffff_fffe, 0xff80_7f7f]
        );
    }

    #[test]
    fn side_by_side_is_the_mean_of_each_two_pixels_and_keeps_an_odd_one() {
        let four = [0xff10_2131, 0xff7f_ff80, 0xff9f_2830, 0xff7f_7f7f];
        assert_eq!(row(StereoMode::SideBySide, 0, 4), four);
        assert_eq!(row(StereoMode::SideBySide, 1, 5), [&four[..], &LEFT[4..]].concat());
        assert_eq!(row(StereoMode::SideBySide, 1, 1), LEFT[..1]);
    }

    #[test]
    fn rows_are_interleaved_by_their_number_on_the_screen() {
        for (y, expected) in [(0, LEFT), (1, RIGHT), (2, LEFT), (767, RIGHT)] {
            assert_eq!(row(StereoMode::Interleaved, y, 5), expected, "row {y}");
        }
        assert_eq!(row(StereoMode::Off, 1, 5), LEFT);
        assert_eq!(row(StereoMode::Quad, 0, 5), RIGHT);
    }

    #[test]
    fn each_mode_has_a_name_and_a_number() {
        for mode in StereoMode::ALL {
            assert_eq!(StereoMode::of_name(mode.name()), Some(mode));
            assert_eq!(StereoMode::of_number(mode as u32), Some(mode));
        }
        assert_eq!((StereoMode::of_name("3d"), StereoMode::of_number(5)), (None, None));
    }

    #[test]
    fn a_pixel_side_by_side_is_due_in_its_whole_row() {
        let bounds = Rect::at(10, 10, 20, 20);
        let mut due: Region =
            [Rect::at(0, 12, 15, 2), Rect::at(40, 15, 3, 3)].into_iter().collect();
        widen(&mut due, &bounds);
        let expected = [Rect::at(0, 12, 30, 2), Rect::at(40, 15, 3, 3)].into_iter().collect();
        assert_eq!(due, expected);
    }
}
