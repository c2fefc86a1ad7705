//! Path 1/13, simulated: applications that draw offscreen, modelled on toolkits and compositors.
//! From workload.rs, which lets one act at times, to operations on pixmaps and on the screen. Knows
//! what it has drawn where; never what the session makes of it.

use std::collections::VecDeque;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawHint, DrawableId, VideoLayout};

use crate::op::Op;
use crate::random::Random;
use crate::surface::Fill;
use crate::x_server::Blit;

/// Largest number of pixmaps with random use.
const LOOSE_MAX: usize = 4;
/// Largest number of windows under the compositor.
const WINDOWS_MAX: usize = 3;

/// A pixmap, and its position on the screen.
#[derive(Clone, Copy, Debug)]
struct Canvas {
    id: u32,
    /// In pixels.
    size: Size,
    /// Position on the screen.
    at: (i32, i32),
    window: u32,
}

impl Canvas {
    fn place(&self) -> Rect {
        Rect::at(self.at.0, self.at.1, self.size.width as i32, self.size.height as i32)
    }
}

/// A page that is rendered once and shown through a new pixmap at every paint.
#[derive(Clone, Copy, Debug)]
struct Page {
    cache: Canvas,
    /// Rows of the cache above the shown part.
    offset: i32,
    /// Number of shown rows.
    height: i32,
}

/// All applications.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    serials: u32,
    screen: Size,
    scroller: Option<Canvas>,
    page: Option<Page>,
    back: Option<Canvas>,
    /// From bottom to top.
    windows: Vec<Canvas>,
    loose: Vec<Canvas>,
}

type Script = VecDeque<Op>;

fn below(rect: Rect, rows: i32) -> Rect {
    Rect { y1: rect.y1.max(rect.y2 - rows), ..rect }
}

fn paint(id: u32, region: impl Into<Region>, fill: Fill, hint: DrawHint) -> Op {
    Op::Paint { id, region: region.into(), fill, hint }
}

fn solid(id: u32, region: impl Into<Region>, color: u32) -> Op {
    paint(id, region, Fill::Solid(color), DrawHint::Solid(color))
}

/// Copies to `region` of `dst` from `region - (dx, dy)` of `src`; the screen is drawable 0.
fn blit(
    src: u32,
    dst: u32,
    region: impl Into<Region>,
    (dx, dy): (i32, i32),
    over: bool,
    window: u32,
) -> Op {
    let blit = Blit { src: DrawableId(src), dst: DrawableId(dst), dx, dy, over };
    Op::Blit { region: region.into(), blit, window }
}

fn color(random: &mut Random) -> u32 {
    random.bits() as u32 & 0x00ff_ffff
}

impl Apps {
    /// Applications on a screen of this size.
    pub(crate) fn new(screen: Size) -> Apps {
        Apps { screen, ..Apps::default() }
    }

    /// The screen was resized: compositors start again.
    pub(crate) fn resized(&mut self, screen: Size) {
        *self = Apps { serials: self.serials, ..Apps::new(screen) };
    }

    /// One of them acts.
    pub(crate) fn act(&mut self, random: &mut Random, script: &mut Script) {
        match random.below(12) {
            0..3 => self.scroll_in_a_back_buffer(random, script),
            3..5 => self.paint_a_page(random, script),
            5..9 => self.compose(random, script),
            9 => self.pop_a_menu_up(random, script),
            _ => self.anything(random, script),
        }
    }

    fn serial(&mut self) -> u32 {
        self.serials += 1;
        self.serials
    }

    fn canvas(&mut self, random: &mut Random, opaque: bool, script: &mut Script) -> Canvas {
        let (width, height) = (self.screen.width as i32, self.screen.height as i32);
        let (w, h) = (random.between(8, width), random.between(8, height));
        let size = Size { width: w as u32, height: h as u32 };
        let (id, at) = (
            self.serial(),
            (random.between(-2, width - w + 2), random.between(-2, height - h + 2)),
        );
        script.push_back(Op::CreatePixmap { id, size, opaque });
        Canvas { id, size, at, window: 0x20_0000 + random.below(3) as u32 }
    }

    /// Draws lines of text on a background.
    fn write(random: &mut Random, id: u32, rect: Rect, script: &mut Script) {
        script.push_back(solid(id, rect, color(random)));
        let line = random.between(3, 8);
        for y in (rect.y1..rect.y2).step_by(line as usize) {
            let line = Rect { y1: y, y2: (y + line - 1).min(rect.y2), ..rect };
            if !line.is_empty() {
                script.push_back(paint(id, line, Fill::Ink(color(random)), DrawHint::Glyphs));
            }
        }
    }

    /// Draws something in a pixmap.
    fn draw(random: &mut Random, id: u32, rect: Rect, script: &mut Script) {
        let hue = color(random);
        script.push_back(match random.below(9) {
            0 => return Apps::write(random, id, rect, script),
            1 | 2 => solid(id, rect, hue),
            3 => paint(id, rect, Fill::Pattern(hue), DrawHint::Pattern),
            4 => paint(id, rect, Fill::Ink(hue), DrawHint::Glyphs),
            5 => paint(id, rect, Fill::Blend(hue), DrawHint::Composite),
            6 => paint(id, rect, Fill::Translucent(hue), DrawHint::Image),
            7 => paint(id, rect, Fill::Distinct, DrawHint::Other),
            _ => paint(id, rect, Fill::Distinct, DrawHint::Image),
        });
    }

    fn part(random: &mut Random, of: Rect) -> Rect {
        let (w, h) = (random.between(1, of.width()), random.between(1, of.height()));
        Rect::at(
            of.x1 + random.between(0, of.width() - w),
            of.y1 + random.between(0, of.height() - h),
            w,
            h,
        )
    }

    /// At times the session catches up.
    fn pause(random: &mut Random, script: &mut Script) {
        script.push_back(match random.below(6) {
            0 | 1 => Op::Shell,
            2 => Op::Read(random.below(8) as usize),
            3 => Op::Wait(random.below(4_000)),
            4 => Op::Finish,
            _ => return,
        });
    }

    /// A terminal or browser with a back buffer: scrolls in it, writes new lines, shows all of it.
    fn scroll_in_a_back_buffer(&mut self, random: &mut Random, script: &mut Script) {
        if random.one_in(10)
            && let Some(canvas) = self.scroller.take()
        {
            script.push_back(Op::FreePixmap(canvas.id));
        }
        let canvas = match self.scroller {
            Some(canvas) => canvas,
            None => {
                let opaque = random.one_in(2);
                let canvas = self.canvas(random, opaque, script);
                Apps::write(random, canvas.id, canvas.size.rect(), script);
                script.push_back(blit(
                    canvas.id,
                    0,
                    canvas.place(),
                    canvas.at,
                    !opaque,
                    canvas.window,
                ));
                script.push_back(Op::Shell);
                canvas
            }
        };
        self.scroller = Some(canvas);
        let all = canvas.size.rect();
        for _ in 0..random.between(1, 6) {
            if random.one_in(3) {
                // Panes that scroll separately and are shown together.
                for _ in 0..random.between(2, 4) {
                    let pane = Apps::part(random, all);
                    let by = (random.between(-6, 6), random.between(-12, 12));
                    script.push_back(blit(canvas.id, canvas.id, pane, by, false, canvas.window));
                }
            } else {
                let line = random.between(1, all.height() / 2);
                let above = Rect { y2: all.y2 - line, ..all };
                script.push_back(blit(
                    canvas.id,
                    canvas.id,
                    above,
                    (0, -line),
                    false,
                    canvas.window,
                ));
                Apps::write(random, canvas.id, below(all, line), script);
            }
            let shown = canvas.place();
            let region = match random.below(4) {
                // In two rectangles, or only a part.
                0 => [
                    Rect { y2: shown.y1 + 4, ..shown },
                    Rect { y1: shown.y1 + 4, x2: shown.x2 - 3, ..shown },
                ]
                .into_iter()
                .filter(|rect| !rect.is_empty())
                .collect(),
                1 => Region::from(Apps::part(random, shown)),
                _ => Region::from(shown),
            };
            script.push_back(blit(
                canvas.id,
                0,
                region,
                canvas.at,
                random.one_in(3),
                canvas.window,
            ));
            Apps::pause(random, script);
        }
    }

    /// GTK: every paint creates a pixmap, fills it from a cache of rendered content, and shows it.
    fn paint_a_page(&mut self, random: &mut Random, script: &mut Script) {
        if random.one_in(10)
            && let Some(page) = self.page.take()
        {
            script.push_back(Op::FreePixmap(page.cache.id));
        }
        let mut page = match self.page {
            Some(page) => page,
            None => {
                let opaque = random.one_in(2);
                let cache = self.canvas(random, opaque, script);
                Apps::write(random, cache.id, cache.size.rect(), script);
                let height = 1 + cache.size.height as i32 / 2;
                Page { cache, offset: 0, height }
            }
        };
        for _ in 0..random.between(1, 5) {
            let (width, rest) =
                (page.cache.size.width as i32, page.cache.size.height as i32 - page.height);
            page.offset = (page.offset + random.between(-4, 6)).clamp(0, rest);
            let id = self.serial();
            let size = Size { width: page.cache.size.width, height: page.height as u32 };
            script.push_back(Op::CreatePixmap { id, size, opaque: random.one_in(2) });
            script.push_back(solid(id, size.rect(), 0x00ee_eeee));
            script.push_back(blit(
                page.cache.id,
                id,
                size.rect(),
                (0, -page.offset),
                random.one_in(2),
                page.cache.window,
            ));
            if random.one_in(3) {
                // Its header does not scroll.
                Apps::write(random, id, Rect::new(0, 0, width, 3.min(page.height)), script);
            }
            let (x, y) = page.cache.at;
            let place = Rect::at(x, y, width, page.height);
            script.push_back(blit(id, 0, place, (x, y), random.one_in(2), page.cache.window));
            script.push_back(Op::FreePixmap(id));
            if random.one_in(5) {
                let part = Apps::part(random, page.cache.size.rect());
                Apps::draw(random, page.cache.id, part, script);
            }
            Apps::pause(random, script);
        }
        self.page = Some(page);
    }

    /// Redirected windows, each with a pixmap; a compositor copies them into a back buffer, and
    /// that to the screen.
    fn compose(&mut self, random: &mut Random, script: &mut Script) {
        let back = match self.back {
            Some(back) => back,
            None => {
                let id = self.serial();
                script.push_back(Op::CreatePixmap {
                    id,
                    size: self.screen,
                    opaque: random.one_in(2),
                });
                script.push_back(solid(id, self.screen.rect(), 0x0033_6699));
                Canvas { id, size: self.screen, at: (0, 0), window: 0 }
            }
        };
        self.back = Some(back);
        let mut damage = Region::new();
        if self.windows.is_empty() || self.windows.len() < WINDOWS_MAX && random.one_in(6) {
            let opaque = random.one_in(2);
            let window = self.canvas(random, opaque, script);
            Apps::write(random, window.id, window.size.rect(), script);
            damage.add_rect(window.place());
            self.windows.push(window);
        }
        for _ in 0..random.between(1, 4) {
            let at = random.below(self.windows.len() as u64) as usize;
            let window = self.windows[at];
            let all = window.size.rect();
            match random.below(10) {
                0..4 => {
                    let line = random.between(1, all.height() / 2);
                    script.push_back(blit(
                        window.id,
                        window.id,
                        Rect { y2: all.y2 - line, ..all },
                        (0, -line),
                        false,
                        window.window,
                    ));
                    Apps::write(random, window.id, below(all, line), script);
                    damage.add_rect(window.place());
                }
                4..6 => {
                    let part = Apps::part(random, all);
                    Apps::draw(random, window.id, part, script);
                    damage.add_rect(part.translate(window.at.0, window.at.1));
                }
                6..8 => {
                    damage.add_rect(window.place());
                    let (x, y) = window.at;
                    self.windows[at].at = (x + random.between(-6, 6), y + random.between(-6, 6));
                    damage.add_rect(self.windows[at].place());
                }
                8 => {
                    let frame = Rect { x2: all.x2.min(20), y2: all.y2.min(18), ..all };
                    let (port, size) = ((window.id & 3) as u16, Size { width: 16, height: 8 });
                    let hint = DrawHint::Video {
                        port,
                        layout: VideoLayout::Yuv420,
                        size,
                        crop: size.rect(),
                        place: frame,
                    };
                    script.push_back(paint(window.id, frame, Fill::Distinct, hint));
                    damage.add_rect(frame.translate(window.at.0, window.at.1));
                }
                _ => {
                    damage.add_rect(window.place());
                    script.push_back(Op::FreePixmap(window.id));
                    self.windows.remove(at);
                    if self.windows.is_empty() {
                        break;
                    }
                }
            }
            if random.one_in(3) {
                self.show(random, back, damage.take(), script);
            }
        }
        self.show(random, back, damage, script);
    }

    fn show(&self, random: &mut Random, back: Canvas, mut damage: Region, script: &mut Script) {
        damage.intersect_rect(&self.screen.rect());
        if damage.is_empty() {
            return;
        }
        if random.one_in(3) {
            damage = damage.extents().into();
        }
        script.push_back(solid(back.id, damage.clone(), 0x0033_6699));
        for window in &self.windows {
            let mut part = damage.clone();
            part.intersect_rect(&window.place());
            if !part.is_empty() {
                script.push_back(blit(window.id, back.id, part, window.at, random.one_in(2), 0));
            }
        }
        script.push_back(blit(back.id, 0, damage, (0, 0), false, 0));
        Apps::pause(random, script);
    }

    /// A menu that saves the pixels it covers, and restores them.
    fn pop_a_menu_up(&mut self, random: &mut Random, script: &mut Script) {
        let menu = Apps::part(random, self.screen.rect());
        let (id, window) = (self.serial(), 0x20_0004);
        let size = Size { width: menu.width() as u32, height: menu.height() as u32 };
        script.push_back(Op::CreatePixmap { id, size, opaque: true });
        script.push_back(blit(0, id, size.rect(), (-menu.x1, -menu.y1), false, window));
        let hue = color(random);
        script.push_back(Op::Draw {
            region: menu.into(),
            fill: Fill::Solid(hue),
            hint: DrawHint::Solid(hue),
            window,
        });
        let label = Rect { y2: menu.y1 + menu.height().min(6), ..menu };
        script.push_back(Op::Draw {
            region: label.into(),
            fill: Fill::Ink(!hue),
            hint: DrawHint::Glyphs,
            window,
        });
        Apps::pause(random, script);
        script.push_back(blit(id, 0, menu, (menu.x1, menu.y1), false, window));
        script.push_back(Op::FreePixmap(id));
        Apps::pause(random, script);
    }

    /// Random use of pixmaps.
    fn anything(&mut self, random: &mut Random, script: &mut Script) {
        for _ in 0..random.between(1, 5) {
            if self.loose.is_empty() || self.loose.len() < LOOSE_MAX && random.one_in(4) {
                let opaque = random.one_in(2);
                let canvas = self.canvas(random, opaque, script);
                self.loose.push(canvas);
            }
            let at = random.below(self.loose.len() as u64) as usize;
            let canvas = self.loose[at];
            match random.below(8) {
                0..3 => {
                    let part = Apps::part(random, canvas.size.rect());
                    Apps::draw(random, canvas.id, part, script);
                }
                3 if random.one_in(3) => {
                    script.push_back(Op::FreePixmap(canvas.id));
                    self.loose.remove(at);
                }
                _ => {
                    // Drawable 0 is the screen; the same one twice is a copy within it.
                    let other = self.loose[random.below(self.loose.len() as u64) as usize];
                    let (src, from) =
                        if random.one_in(4) { (0, self.screen) } else { (other.id, other.size) };
                    let (dst, to) =
                        if random.one_in(2) { (0, self.screen) } else { (canvas.id, canvas.size) };
                    let mut region = Region::new();
                    for _ in 0..random.between(1, 3) {
                        region.add_rect(Apps::part(random, to.rect()));
                    }
                    let (width, height) = (
                        from.width.max(to.width) as i32 / 2,
                        from.height.max(to.height) as i32 / 2,
                    );
                    let vector = match random.below(4) {
                        0 => (0, 0),
                        1 => (0, random.between(-5, 5)),
                        _ => (random.between(-width, width), random.between(-height, height)),
                    };
                    script.push_back(blit(
                        src,
                        dst,
                        region,
                        vector,
                        random.one_in(2),
                        canvas.window,
                    ));
                }
            }
            Apps::pause(random, script);
        }
    }
}
