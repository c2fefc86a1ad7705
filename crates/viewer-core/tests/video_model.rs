//! Videos against a slow and simple model: each pixel has its value, its lossy bit, and the step
//! that wrote it. Random commands, decoders that answer in any order or not at all, keyframes and
//! losses; after each step both agree. Knows viewer-core's public interface.

mod videos;

use std::collections::BTreeMap;

use proptest::prelude::*;
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{DecoderState, VideoCommand};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{Cache, VideoEvent, ViewerEvent};

use videos::{SIZE, SOURCE, Shown, shade};

/// Stream numbers used; few, so that they are reused.
const IDS: u16 = 3;
/// The viewer's bounds in doc/protocol.md.
const WAITING_MAX: usize = 4;
const KEYS_FAILED_MAX: u32 = 3;

#[derive(Clone, Debug)]
enum Op {
    Fill(Rect, u32),
    Raw(Rect, u8),
    Copy(Rect, i32, i32),
    Keep(Rect, u32),
    Recall(i32, i32, u32),
    Init(u16, Rect),
    Move(u16, i32, i32),
    PlaceSize(u16, Size),
    SourceSize(u16),
    End(u16),
    Plain(u16, Vec<Rect>, u8),
    /// A keyframe if the session has to send one, or at random.
    Coded(u16, Vec<Rect>, bool),
    /// A waiting frame is decoded, as this grey.
    Decoded(usize, u8),
    Skipped(usize),
    Failed(usize),
    Refused(u16),
    Geometry(Size),
    Barrier,
    /// The session receives the viewer's reports; frames that it sent before were in flight.
    Hear,
    /// The framebuffer is to hold all that is visible.
    Paint,
}

fn rect() -> impl Strategy<Value = Rect> {
    let (width, height) = (SIZE.width as i32, SIZE.height as i32);
    (0..width, 0..height).prop_flat_map(move |(x, y)| {
        (1..=width - x, 1..=height - y).prop_map(move |(w, h)| Rect::at(x, y, w, h))
    })
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0..IDS;
    let rects = || proptest::collection::vec(rect(), 1..4);
    let small =
        (1u32..=SIZE.width, 1u32..=SIZE.height).prop_map(|(width, height)| Size { width, height });
    prop_oneof![
        4 => (rect(), 0u32..0x100_0000).prop_map(|(r, c)| Op::Fill(r, c)),
        2 => (rect(), any::<u8>()).prop_map(|(r, c)| Op::Raw(r, c)),
        4 => (rect(), -30i32..30, -20i32..20).prop_map(|(r, dx, dy)| Op::Copy(r, dx, dy)),
        2 => (rect(), 0u32..3).prop_map(|(r, slot)| Op::Keep(r, slot)),
        2 => (0i32..48, 0i32..32, 0u32..3).prop_map(|(x, y, slot)| Op::Recall(x, y, slot)),
        6 => (id(), rect()).prop_map(|(id, r)| Op::Init(id, r)),
        1 => (id(), -20i32..40, -20i32..30).prop_map(|(id, x, y)| Op::Move(id, x, y)),
        1 => (id(), small.clone()).prop_map(|(id, size)| Op::PlaceSize(id, size)),
        1 => id().prop_map(Op::SourceSize),
        1 => id().prop_map(Op::End),
        3 => (id(), rects(), 16u8..235).prop_map(|(id, r, luma)| Op::Plain(id, r, luma)),
        24 => (id(), rects(), prop::bool::weighted(0.2))
            .prop_map(|(id, r, key)| Op::Coded(id, r, key)),
        8 => (0usize..12, 16u8..235).prop_map(|(at, luma)| Op::Decoded(at, luma)),
        1 => (0usize..12).prop_map(Op::Skipped),
        1 => (0usize..12).prop_map(Op::Failed),
        1 => (0u16..40).prop_map(Op::Refused),
        1 => prop_oneof![Just(SIZE), small].prop_map(Op::Geometry),
        2 => Just(Op::Barrier),
        6 => Just(Op::Hear),
        1 => Just(Op::Paint),
    ]
}

/// A pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Dot {
    color: u32,
    lossy: bool,
    /// The step that wrote it.
    written: u64,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    place: Rect,
    refused: bool,
    keys_failed: u32,
    /// The session's state: the next compressed frame must be a keyframe.
    wants_key: bool,
    /// The decoder's state: it has the previous frame.
    follows: bool,
}

#[derive(Debug)]
struct Waiting {
    serial: u64,
    stream: u64,
    key: bool,
    clip: Region,
    came: u64,
}

struct Model {
    size: Size,
    dots: Vec<Dot>,
    step: u64,
    streams: BTreeMap<u16, Stream>,
    waiting: Vec<Waiting>,
    slots: BTreeMap<u32, (Size, Vec<Dot>)>,
    /// Barriers requested, each with the frames it still waits for.
    barriers: Vec<(u32, Vec<u64>)>,
}

fn points(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
    let Rect { x1, y1, x2, y2 } = *rect;
    (y1..y2).flat_map(move |y| (x1..x2).map(move |x| (x, y)))
}

impl Model {
    fn at(&self, (x, y): (i32, i32)) -> usize {
        y as usize * self.size.width as usize + x as usize
    }

    fn write(&mut self, region: &Region, color: u32, lossy: bool) {
        for point in region.rects().iter().flat_map(points) {
            let at = self.at(point);
            self.dots[at] = Dot { color, lossy, written: self.step };
        }
    }

    fn inside(&self, rect: &Rect) -> Rect {
        rect.intersect(&self.size.rect())
    }

    fn remove(&mut self, gone: impl Fn(&Waiting) -> bool) {
        self.waiting.retain(|waiting| !gone(waiting));
    }

    /// Drops the frame, and those that refer to it.
    fn failed(&mut self, serial: u64) {
        let at = self.waiting.iter().position(|waiting| waiting.serial == serial).unwrap();
        let (stream, was_key) = (self.waiting[at].stream, self.waiting[at].key);
        let of = self.streams.values_mut().find(|of| of.number == stream);
        let mut key_waits = false;
        self.waiting.retain(|waiting| {
            let other = waiting.stream != stream || waiting.serial < serial;
            key_waits |= !other && waiting.key && waiting.serial > serial;
            other || key_waits
        });
        let Some(of) = of else { return };
        of.follows &= key_waits;
        of.keys_failed += u32::from(was_key);
        if of.keys_failed >= KEYS_FAILED_MAX {
            of.refused = true;
            self.remove(|waiting| waiting.stream == stream);
        }
    }
}

/// Who paints frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Painting {
    Here,
    Elsewhere,
}

struct Test {
    shown: Shown,
    model: Model,
}

impl Test {
    fn new(painting: Painting) -> Test {
        let mut shown = Shown::with_cache(Cache::new(1 << 20));
        if painting == Painting::Elsewhere {
            shown.paint_elsewhere();
        }
        let model = Model {
            size: SIZE,
            dots: vec![Dot::default(); SIZE.area() as usize],
            step: 0,
            streams: BTreeMap::new(),
            waiting: Vec::new(),
            slots: BTreeMap::new(),
            barriers: Vec::new(),
        };
        Test { shown, model }
    }

    fn apply(&mut self, op: &Op) {
        let Test { shown, model } = self;
        model.step += 1;
        let has = |id: &u16| model.streams.contains_key(id);
        match op {
            Op::Fill(rect, color) => {
                let rect = model.inside(rect);
                if !rect.is_empty() {
                    model.write(&rect.into(), *color, false);
                    shown.fill(rect, *color);
                }
            }
            Op::Raw(rect, value) => {
                let rect = model.inside(rect);
                if !rect.is_empty() {
                    model.write(&rect.into(), u32::from(*value) * 0x01_0101, false);
                    let data = vec![*value; rect.area() as usize * 3];
                    shown
                        .command(Command::Raw { rect, encoding: Encoding::Plain, data: &data })
                        .unwrap();
                }
            }
            Op::Copy(rect, dx, dy) => {
                let rect = model.inside(&model.inside(rect).translate(*dx, *dy));
                if !rect.is_empty() {
                    let before = model.dots.clone();
                    for (x, y) in points(&rect) {
                        let (from, to) = (model.at((x - dx, y - dy)), model.at((x, y)));
                        // A COPY by (0, 0) declares its region lossless.
                        let lossy = before[from].lossy && (*dx, *dy) != (0, 0);
                        model.dots[to] = Dot { lossy, written: model.step, ..before[from] };
                    }
                    shown.command(Command::Copy { region: rect.into(), dx: *dx, dy: *dy }).unwrap();
                }
            }
            Op::Keep(rect, slot) => {
                let rect = model.inside(rect);
                if !rect.is_empty() {
                    let size = Size { width: rect.width() as u32, height: rect.height() as u32 };
                    let dots = points(&rect).map(|point| model.dots[model.at(point)]).collect();
                    model.slots.insert(*slot, (size, dots));
                    shown.command(Command::Keep { rect, slot: *slot }).unwrap();
                }
            }
            Op::Recall(x, y, slot) => {
                let Some((size, dots)) = model.slots.get(slot).cloned() else { return };
                let rect = size.rect().translate(*x, *y);
                if model.inside(&rect) == rect {
                    let lossy = dots.iter().any(|dot| dot.lossy);
                    for (point, dot) in points(&rect).zip(dots) {
                        let at = model.at(point);
                        model.dots[at] = Dot { lossy, written: model.step, ..dot };
                    }
                    shown.command(Command::Recall { rect, slot: *slot }).unwrap();
                }
            }
            Op::Init(id, place) if !has(id) => {
                let number = shown.begin_coded(*id, *place);
                let place = *place;
                let stream = Stream {
                    number,
                    place,
                    refused: false,
                    keys_failed: 0,
                    wants_key: true,
                    follows: false,
                };
                model.streams.insert(*id, stream);
            }
            Op::Move(id, x, y) if has(id) => {
                let place = &mut model.streams.get_mut(id).unwrap().place;
                *place = Rect::at(*x, *y, place.width(), place.height());
                shown.video(VideoCommand::Move { id: *id, x: *x, y: *y }).unwrap();
            }
            Op::PlaceSize(id, size) if has(id) => {
                let place = &mut model.streams.get_mut(id).unwrap().place;
                *place = size.rect().translate(place.x1, place.y1);
                shown.video(VideoCommand::PlaceSize { id: *id, size: *size }).unwrap();
            }
            Op::SourceSize(id) if has(id) => {
                let stream = model.streams.get_mut(id).unwrap();
                (stream.wants_key, stream.follows) = (true, false);
                shown.video(VideoCommand::SourceSize { id: *id, source: SOURCE }).unwrap();
            }
            Op::End(id) if has(id) => {
                let stream = model.streams.remove(id).unwrap().number;
                shown.video(VideoCommand::End { id: *id }).unwrap();
                assert_eq!(shown.viewer.poll_video(), Some(VideoEvent::Ended { stream }));
            }
            Op::Plain(id, rects, luma) if has(id) => {
                let clip = self.clip(*id, rects);
                if !clip.is_empty() {
                    self.model.write(&clip, shade(*luma), false);
                    self.shown.plain(*id, clip, *luma);
                }
            }
            Op::Coded(id, rects, key) if has(id) => self.coded(*id, rects, *key),
            Op::Decoded(at, luma) if !model.waiting.is_empty() => {
                let at = at % model.waiting.len();
                let picture = model.waiting.remove(at);
                if let Some(of) = model.streams.values_mut().find(|of| of.number == picture.stream)
                {
                    of.keys_failed = 0;
                }
                let (color, mut wanted) = (shade(*luma), false);
                for point in picture.clip.rects().iter().flat_map(points) {
                    let dot = model.at(point);
                    if model.dots[dot].written <= picture.came {
                        wanted = true;
                        model.dots[dot] = Dot { color, lossy: true, written: picture.came };
                    }
                }
                assert_eq!(shown.viewer.is_video_frame_visible(picture.serial), wanted);
                shown.decoded(picture.serial, *luma);
            }
            Op::Skipped(at) if !model.waiting.is_empty() => {
                // A shell skips only frames that are not visible.
                let serial = model.waiting[at % model.waiting.len()].serial;
                if !shown.viewer.is_video_frame_visible(serial) {
                    let stream = model.waiting[at % model.waiting.len()].stream;
                    model.remove(|waiting| waiting.serial == serial);
                    if let Some(of) = model.streams.values_mut().find(|of| of.number == stream) {
                        of.keys_failed = 0;
                    }
                    shown.viewer.handle_video_frame_skipped(serial);
                }
            }
            Op::Failed(at) if !model.waiting.is_empty() => {
                let serial = model.waiting[at % model.waiting.len()].serial;
                model.failed(serial);
                shown.viewer.handle_video_frame_failed(serial);
            }
            Op::Refused(id) => {
                // Rarely, because most numbers are unused.
                if let Some(stream) = model.streams.get_mut(id) {
                    stream.refused = true;
                    let number = stream.number;
                    model.remove(|waiting| waiting.stream == number);
                    shown.viewer.handle_video_refused(number);
                }
            }
            Op::Geometry(size) => {
                let mut dots =
                    vec![Dot { color: 0, lossy: true, written: model.step }; size.area() as usize];
                for (x, y) in points(&model.inside(&size.rect())) {
                    dots[y as usize * size.width as usize + x as usize].color =
                        model.dots[model.at((x, y))].color;
                }
                (model.size, model.dots) = (*size, dots);
                model.streams.clear();
                model.waiting.clear();
                shown.geometry(*size);
                while let Some(event) = shown.viewer.poll_video() {
                    assert!(matches!(event, VideoEvent::Ended { .. }), "{event:?}");
                }
            }
            Op::Barrier if model.barriers.len() < 8 => {
                let barrier = shown.viewer.request_barrier();
                shown.say(&SessionMessage::Barrier(barrier)).unwrap();
                let before = model.waiting.iter().map(|waiting| waiting.serial).collect();
                model.barriers.push((barrier, before));
            }
            Op::Hear => self.receive_reports(),
            Op::Paint => {
                shown.viewer.paint_videos();
                assert_eq!(shown.viewer.video_layers().count(), 0);
                for (x, y) in points(&model.size.rect()) {
                    let painted =
                        shown.viewer.framebuffer().row(y as usize)[x as usize] & 0x00ff_ffff;
                    assert_eq!(painted, model.dots[model.at((x, y))].color, "at {x}, {y}");
                }
            }
            _ => {}
        }
    }

    /// The part of the rectangles inside the video area.
    fn clip(&self, id: u16, rects: &[Rect]) -> Region {
        let mut clip: Region = rects.iter().copied().collect();
        clip.intersect_rect(&self.model.inside(&self.model.streams[&id].place));
        clip
    }

    fn coded(&mut self, id: u16, rects: &[Rect], key: bool) {
        let clip = self.clip(id, rects);
        if clip.is_empty() {
            return;
        }
        let Test { shown, model } = self;
        let stream = model.streams.get_mut(&id).unwrap();
        let key = key || stream.wants_key;
        stream.wants_key = false;
        shown.coded(id, clip.clone(), key, &[1]);
        let dots: Vec<usize> =
            clip.rects().iter().flat_map(points).map(|point| model.at(point)).collect();
        dots.into_iter().for_each(|at| model.dots[at].lossy = true);
        let stream = model.streams.get_mut(&id).unwrap();
        let number = stream.number;
        let room =
            model.waiting.iter().filter(|waiting| waiting.stream == number).count() < WAITING_MAX;
        let taken = !stream.refused && room && (key || stream.follows);
        stream.follows = taken || (stream.follows && stream.refused);
        if taken {
            let Some(VideoEvent::Frame { stream, serial, keyframe: said, .. }) =
                shown.viewer.poll_video()
            else {
                panic!("a decodable frame is not given to the decoder")
            };
            assert_eq!((stream, said), (number, key));
            model.waiting.push(Waiting { serial, stream, key, clip, came: model.step });
        }
    }

    /// The session receives the viewer's reports.
    fn receive_reports(&mut self) {
        for answer in self.shown.answers() {
            let stream =
                self.model.streams.get_mut(&answer.id).expect("no report concerns an ended stream");
            match answer.decoder {
                DecoderState::Ready => {}
                // A keyframe may have crossed it; then the next one is redundant.
                DecoderState::NeedsKeyframe => stream.wants_key = true,
                DecoderState::Refused => assert!(stream.refused),
            }
        }
    }

    fn check(&mut self) {
        let Test { shown, model } = self;
        shown.follow();
        assert_eq!(
            shown.viewer.poll_video(),
            None,
            "a frame is given to the decoder without the one it refers to"
        );
        assert_eq!(shown.viewer.video_frames_waiting(), model.waiting.len());
        for (x, y) in points(&model.size.rect()) {
            let dot = model.dots[model.at((x, y))];
            assert_eq!(shown.at(x as usize, y as usize), dot.color, "at {x}, {y}: {dot:?}");
            assert_eq!(
                shown.viewer.lossy().contains(x as usize, y as usize),
                dot.lossy,
                "at {x}, {y}: {dot:?}"
            );
        }
        let passed: Vec<u32> = std::iter::from_fn(|| shown.viewer.poll_event())
            .filter_map(|event| {
                if let ViewerEvent::Barrier(barrier) = event { Some(barrier) } else { None }
            })
            .collect();
        let waits =
            |before: &[u64]| model.waiting.iter().any(|waiting| before.contains(&waiting.serial));
        let expected: Vec<u32> =
            model.barriers.iter().filter(|(_, before)| !waits(before)).map(|(id, _)| *id).collect();
        assert_eq!(passed, expected, "barriers wait for the frames before them");
        model.barriers.retain(|(id, _)| !passed.contains(id));
    }

    /// Once every frame is decoded each stream continues, with a keyframe if one was requested.
    fn come_to_rest(&mut self) {
        for _ in 0..2 {
            while !self.model.waiting.is_empty() {
                self.model.step += 1;
                self.apply(&Op::Decoded(0, 99));
                self.check();
            }
            self.receive_reports();
            for id in self.model.streams.keys().copied().collect::<Vec<_>>() {
                self.model.step += 1;
                self.coded(id, &[SIZE.rect()], false);
            }
        }
        let stuck = |stream: &&Stream| {
            let place = self.model.inside(&stream.place);
            !stream.refused && !stream.follows && !place.is_empty()
        };
        assert_eq!(
            self.model.streams.values().filter(stuck).count(),
            0,
            "{:?}",
            self.model.streams
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_screen_is_as_if_every_frame_were_decoded_at_once(
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        for painting in [Painting::Here, Painting::Elsewhere] {
            let mut test = Test::new(painting);
            for op in &ops {
                test.apply(op);
                test.check();
            }
            test.come_to_rest();
        }
    }
}
