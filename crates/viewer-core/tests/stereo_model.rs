//! Stereo against a slow and simple model: after each random command, what a shell has on its
//! window, kept up to date by damage alone, is the composition of both eyes' pixels as the
//! specification and the modes define them. Knows viewer-core's public interface.

mod videos;

use std::collections::BTreeMap;

use proptest::prelude::*;
use thinc_protocol::session::SessionCaps;
use thinc_protocol::video::{Codec, Eye, FrameData, Source, VideoCommand};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::StereoMode;

use videos::{SIZE, Shown, next};

const IDS: u16 = 3;
const WIDTH: i32 = SIZE.width as i32;
const HEIGHT: i32 = SIZE.height as i32;

#[derive(Clone, Debug)]
enum Op {
    Fill(Rect, u32),
    Init(u16, Rect),
    Pixels(u16, Vec<Rect>, u32),
    Move(u16, i32, i32),
    PlaceSize(u16, Size),
    End(u16),
    Choose(usize),
    Geometry,
    /// The shell does not present what the next command changes.
    Hide,
}

fn rect() -> impl Strategy<Value = Rect> {
    (0..WIDTH, 0..HEIGHT).prop_flat_map(|(x, y)| {
        (1..=WIDTH - x, 1..=HEIGHT - y).prop_map(move |(w, h)| Rect::at(x, y, w, h))
    })
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0..IDS;
    let small = (1u32..60, 1u32..40).prop_map(|(width, height)| Size { width, height });
    prop_oneof![
        4 => (rect(), 0u32..0x100_0000).prop_map(|(rect, color)| Op::Fill(rect, color)),
        4 => (id(), rect(), -9..9, -9..9).prop_map(|(id, r, x, y)| Op::Init(id, r.translate(x, y))),
        16 => (id(), proptest::collection::vec(rect(), 1..4), any::<u32>())
            .prop_map(|(id, clip, seed)| Op::Pixels(id, clip, seed)),
        4 => (id(), -20..50, -20..40).prop_map(|(id, x, y)| Op::Move(id, x, y)),
        2 => (id(), small).prop_map(|(id, size)| Op::PlaceSize(id, size)),
        1 => id().prop_map(Op::End),
        3 => (0usize..5).prop_map(Op::Choose),
        1 => Just(Op::Geometry),
        6 => Just(Op::Hide),
    ]
}

struct Stream {
    place: Rect,
    source: Size,
}

/// What both eyes see.
struct Model {
    left: Vec<u32>,
    /// The stream and its pixel.
    right: Vec<Option<(u16, u32)>>,
    streams: BTreeMap<u16, Stream>,
    mode: StereoMode,
}

fn points(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
    let rect = rect.intersect(&SIZE.rect());
    (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
}

fn at(x: i32, y: i32) -> usize {
    (y * WIDTH + x) as usize
}

/// A pixel of a frame.
fn sample(seed: u32, x: i32, y: i32) -> u32 {
    seed.wrapping_add((x * 0x01_0307 + y * 0x05_0b0d).cast_unsigned()) & 0xff_ffff
}

impl Model {
    fn show(&mut self, id: u16, clip: &Region, seed: u32) {
        let Stream { place, source } = &self.streams[&id];
        for (x, y) in points(&SIZE.rect()) {
            let pixel = &mut self.right[at(x, y)];
            if clip.contains_point(x, y) {
                let nearest = |at: i32, from: u32, to: i32| {
                    ((f64::from(at) + 0.5) * f64::from(from) / f64::from(to)).floor() as i32
                };
                let column = nearest(x - place.x1, source.width, place.width());
                let row = nearest(y - place.y1, source.height, place.height());
                *pixel = Some((id, sample(seed, column, row)));
            } else if pixel.is_some_and(|(of, _)| of == id) {
                *pixel = None;
            }
        }
    }

    fn drop(&mut self, id: u16, dropped: impl Fn(i32, i32) -> bool) {
        for (x, y) in points(&SIZE.rect()) {
            let pixel = &mut self.right[at(x, y)];
            if pixel.is_some_and(|(of, _)| of == id) && dropped(x, y) {
                *pixel = None;
            }
        }
    }

    fn move_to(&mut self, id: u16, x: i32, y: i32) {
        let place = &mut self.streams.get_mut(&id).expect("it has begun").place;
        let (dx, dy) = (x - place.x1, y - place.y1);
        *place = place.translate(dx, dy);
        let before = self.right.clone();
        self.drop(id, |_, _| true);
        for (x, y) in points(&SIZE.rect()) {
            let from = (x - dx, y - dy);
            if SIZE.rect().contains_point(from.0, from.1)
                && let Some((of, pixel)) = before[at(from.0, from.1)]
                && of == id
            {
                self.right[at(x, y)] = Some((id, pixel));
            }
        }
    }

    fn bounds(&self) -> Rect {
        let shows = |id: u16| self.right.iter().flatten().any(|&(of, _)| of == id);
        let places = self.streams.iter().filter(|(id, _)| shows(**id));
        let places = places.map(|(_, stream)| stream.place.intersect(&SIZE.rect()));
        places.fold(Rect::default(), |all, place| all.bound(&place))
    }

    /// What is shown, and what is shown to the right eye where that has a display of its own.
    fn shown(&self) -> (Vec<u32>, Option<Vec<u32>>) {
        let bounds = self.bounds();
        let right: Vec<u32> = (0..self.left.len())
            .map(|at| self.right[at].map_or(self.left[at], |(_, pixel)| pixel))
            .collect();
        let mean = |a: u32, b: u32| {
            [0, 8, 16].iter().fold(0, |all, shift| {
                all | (((a >> shift & 255) + (b >> shift & 255)) / 2) << shift
            })
        };
        let half = bounds.width() / 2;
        let pixel = |x: i32, y: i32| {
            let (left_pixel, right_pixel) = (self.left[at(x, y)], right[at(x, y)]);
            if !bounds.contains_point(x, y) {
                return left_pixel;
            }
            match self.mode {
                StereoMode::Off | StereoMode::Quad => left_pixel,
                StereoMode::Anaglyph => left_pixel & 0xff_0000 | right_pixel & 0x00_ffff,
                StereoMode::Interleaved => [left_pixel, right_pixel][(y % 2) as usize],
                StereoMode::SideBySide => match x - bounds.x1 {
                    column if column < half => {
                        let from = at(bounds.x1 + 2 * column, y);
                        mean(self.left[from], self.left[from + 1])
                    }
                    column if column < 2 * half => {
                        let from = at(bounds.x1 + 2 * (column - half), y);
                        mean(right[from], right[from + 1])
                    }
                    _ => left_pixel,
                },
            }
        };
        let shown = points(&SIZE.rect()).map(|(x, y)| pixel(x, y)).collect();
        (shown, (self.mode == StereoMode::Quad && !bounds.is_empty()).then_some(right))
    }
}

fn run(ops: &[Op]) -> Result<(), TestCaseError> {
    let mut shown = Shown::with_stereo(StereoMode::Anaglyph, SessionCaps::STEREO);
    let mut model = Model {
        left: vec![0; SIZE.area() as usize],
        right: vec![None; SIZE.area() as usize],
        streams: BTreeMap::new(),
        mode: StereoMode::Anaglyph,
    };
    let mut windows = [vec![0u32; SIZE.area() as usize], vec![0; SIZE.area() as usize]];
    let mut is_hidden = false;
    for op in ops {
        match op {
            Op::Fill(rect, color) => {
                shown.fill(*rect, *color);
                points(rect).for_each(|(x, y)| model.left[at(x, y)] = *color);
            }
            Op::Init(id, place) => {
                if !model.streams.contains_key(id) {
                    let size = Size { width: place.width() as u32, height: place.height() as u32 };
                    let source = Source { size, crop: size.rect() };
                    let (codec, eye) = (Codec::None, Eye::Right);
                    let init = VideoCommand::Init { id: *id, codec, eye, source, place: *place };
                    if shown.video(init).is_err() {
                        prop_assert!(false, "a stream begins");
                    }
                    model.streams.insert(*id, Stream { place: *place, source: size });
                }
            }
            Op::Pixels(id, rects, seed) => {
                let Some(Stream { place, source }) = model.streams.get(id) else { continue };
                let mut clip: Region = rects.iter().copied().collect();
                clip.intersect_rect(place);
                if clip.is_empty() {
                    continue;
                }
                let data: Vec<u8> = (0..source.height as i32)
                    .flat_map(|y| (0..source.width as i32).map(move |x| (x, y)))
                    .flat_map(|(x, y)| sample(*seed, x, y).to_le_bytes())
                    .collect();
                shown.video(next(*id, clip.clone(), FrameData::Pixels { data: &data })).unwrap();
                if model.mode.is_on() {
                    model.show(*id, &clip, *seed);
                }
            }
            Op::Move(id, x, y) => {
                if model.streams.contains_key(id) {
                    shown.video(VideoCommand::Move { id: *id, x: *x, y: *y }).unwrap();
                    model.move_to(*id, *x, *y);
                }
            }
            Op::PlaceSize(id, size) => {
                let Some(stream) = model.streams.get_mut(id) else { continue };
                shown.video(VideoCommand::PlaceSize { id: *id, size: *size }).unwrap();
                let Rect { x1, y1, .. } = stream.place;
                let place = Rect::at(x1, y1, size.width as i32, size.height as i32);
                stream.place = place;
                model.drop(*id, |x, y| !place.contains_point(x, y));
            }
            Op::End(id) => {
                if model.streams.remove(id).is_some() {
                    shown.video(VideoCommand::End { id: *id }).unwrap();
                    model.drop(*id, |_, _| true);
                }
            }
            Op::Choose(mode) => {
                model.mode = StereoMode::ALL[*mode];
                shown.viewer.choose_stereo(model.mode);
                if !model.mode.is_on() {
                    (0..IDS).for_each(|id| model.drop(id, |_, _| true));
                }
            }
            Op::Geometry => {
                shown.geometry(SIZE);
                (0..IDS).for_each(|id| model.drop(id, |_, _| true));
                model.streams.clear();
            }
            Op::Hide => {}
        }
        let was_hidden = std::mem::replace(&mut is_hidden, matches!(op, Op::Hide));
        if was_hidden || is_hidden {
            continue;
        }
        let damage = shown.viewer.take_damage();
        let (left, right) = model.shown();
        let viewer = &shown.viewer;
        prop_assert_eq!(viewer.right_picture().is_some(), right.is_some());
        let pictures = [viewer.picture(), viewer.right_picture().unwrap_or(viewer.picture())];
        for (window, picture) in windows.iter_mut().zip(pictures) {
            for (x, y) in damage.rects().iter().flat_map(points) {
                window[at(x, y)] = picture[at(x, y)] & 0xff_ffff;
            }
        }
        for (x, y) in points(&SIZE.rect()) {
            prop_assert_eq!(windows[0][at(x, y)], left[at(x, y)], "{}, {} after {:?}", x, y, op);
            let expected = right.as_ref().unwrap_or(&left)[at(x, y)];
            prop_assert_eq!(windows[1][at(x, y)], expected, "right: {}, {} after {:?}", x, y, op);
            let painted = viewer.framebuffer().pixels()[at(x, y)] & 0xff_ffff;
            prop_assert_eq!(painted, model.left[at(x, y)], "the framebuffer at {}, {}", x, y);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_window_shows_both_eyes_as_the_modes_define(
        ops in proptest::collection::vec(op(), 1..40),
    ) {
        run(&ops)?;
    }
}
