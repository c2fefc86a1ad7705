//! Path 12/13: from video.rs, beside framebuffer.rs, to stereo.rs.
//! The right eye's pictures of stereo programs: pixels beside the framebuffer, and where they are
//! valid. Elsewhere both eyes see the framebuffer, which this never changes. Knows streams by
//! number, places, clips and pixels; never frames that wait, nor how two pictures are shown.

use thinc_codec_dec::OPAQUE;
use thinc_protocol::limits::{RECTS_MAX, VIDEO_STREAMS_MAX};
use thinc_protocol::video::{Source, pixel_bytes};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, PlanesRef};

use crate::framebuffer::copy_pixels;

/// 64: what it costs to move a rectangle of a region, in pixels written. Measured: 0.1 µs for each
/// of 4000.
const RECT_WORK: u64 = 64;

/// The right eye's layer over the framebuffer.
#[derive(Debug, Default)]
pub struct RightEye {
    /// The framebuffer's size.
    size: Size,
    /// As in the framebuffer, defined where a stream shows something. Empty before the first frame;
    /// kept until a new geometry, or until the user wants one picture, so that a session cannot
    /// make the viewer allocate them for every stream that it starts.
    pixels: Vec<u32>,
    /// At most [`VIDEO_STREAMS_MAX`]. What they show is disjoint: a pixel belongs to the stream
    /// that has painted it last.
    streams: Vec<Picture>,
    /// The user wants to see it; else nothing is kept.
    is_wanted: bool,
}

/// What one stream shows.
#[derive(Debug)]
struct Picture {
    stream: u64,
    place: Rect,
    /// Of its newest frame, decoded or not.
    clip: Region,
    /// The part of the clip that has been painted since it came into it.
    shown: Region,
}

impl RightEye {
    /// True if it sees only the framebuffer.
    pub fn is_empty(&self) -> bool {
        self.streams.iter().all(|picture| picture.shown.is_empty())
    }

    /// Where it sees pixels of its own: disjoint regions.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.streams.iter().map(|picture| &picture.shown).filter(|shown| !shown.is_empty())
    }

    /// The smallest rectangle of the framebuffer with the places of all streams that show
    /// something; empty if none does. It stays the same while a window covers a part of a place.
    pub fn bounds(&self) -> Rect {
        let places = self.streams.iter().filter(|picture| !picture.shown.is_empty());
        let places = places.map(|picture| picture.place.intersect(&self.size.rect()));
        places.reduce(|some, other| some.bound(&other)).unwrap_or_default()
    }

    /// Replaces the pixels of row `y` from `x` on that this eye sees unlike the framebuffer.
    pub fn overlay(&self, x: i32, y: i32, row: &mut [u32]) {
        let span = Rect::at(x, y, i32::try_from(row.len()).unwrap_or(i32::MAX), 1);
        for region in self.regions() {
            let rects = region.rects();
            let first = rects.partition_point(|rect| rect.y2 <= y);
            for rect in rects[first..].iter().take_while(|rect| rect.y1 <= y) {
                let part = rect.intersect(&span);
                if !part.is_empty() {
                    let from = y as usize * self.size.width as usize;
                    let pixels = &self.pixels[from + part.x1 as usize..from + part.x2 as usize];
                    row[(part.x1 - x) as usize..(part.x2 - x) as usize].copy_from_slice(pixels);
                }
            }
        }
    }

    /// Sets whether it is wanted; if not, its pixels are dropped. Returns what looks different.
    pub(crate) fn set_wanted(&mut self, is_wanted: bool) -> Region {
        self.is_wanted = is_wanted;
        if is_wanted {
            return Region::new();
        }
        let mut hidden = Region::new();
        for picture in &mut self.streams {
            hidden.add(&picture.shown.take());
            picture.clip.clear();
        }
        self.pixels = Vec::new();
        hidden
    }

    /// A stream begins over a framebuffer of this size.
    pub(crate) fn begin(&mut self, stream: u64, place: Rect, size: Size) {
        assert!(
            self.streams.len() < usize::from(VIDEO_STREAMS_MAX),
            "a stream has one of {VIDEO_STREAMS_MAX} numbers"
        );
        self.size = size;
        let (clip, shown) = (Region::new(), Region::new());
        self.streams.push(Picture { stream, place, clip, shown });
    }

    /// A stream has ended; unknown ones are ignored. Returns what looks different, as do the next
    /// ones.
    pub(crate) fn end(&mut self, stream: u64) -> Region {
        let Some(at) = self.streams.iter().position(|picture| picture.stream == stream) else {
            return Region::new();
        };
        self.streams.swap_remove(at).shown
    }

    /// A frame has arrived, which is visible in `clip` once it is painted: other pixels of the
    /// stream are not visible any more.
    pub(crate) fn clip_to(&mut self, stream: u64, clip: &Region) -> Region {
        let Some(picture) = self.find(stream) else { return Region::new() };
        let hidden = picture.shown.difference(clip);
        picture.shown.subtract(&hidden);
        bound(&mut picture.shown);
        picture.clip = clip.clone();
        hidden
    }

    /// What of `region` a stream may paint now: the newest clip.
    pub(crate) fn visible(&self, stream: u64, region: &Region) -> Region {
        let picture = self.streams.iter().find(|picture| picture.stream == stream);
        let picture = picture.filter(|_| self.is_wanted);
        picture.map_or_else(Region::new, |picture| picture.clip.intersection(region))
    }

    /// How many pixels are written before a frame that is visible in `clip` can be painted at once:
    /// all of the framebuffer's for the first one.
    pub(crate) fn allocation(&self, clip: &Region) -> u64 {
        let allocates = self.is_wanted && self.pixels.is_empty() && !clip.is_empty();
        if allocates { self.size.area() } else { 0 }
    }

    /// What it costs to move a stream's place, in pixels written: those that it shows, and as much
    /// for its rectangles as [`RightEye::resize_work`].
    pub(crate) fn move_work(&self, stream: u64) -> u64 {
        let shown = self.streams.iter().find(|picture| picture.stream == stream);
        shown.map_or(0, |picture| picture.shown.area()) + self.resize_work(stream)
    }

    /// What it costs to resize a stream's place, in pixels written. At most a framebuffer's: clips
    /// of small screens may have many rectangles, too.
    pub(crate) fn resize_work(&self, stream: u64) -> u64 {
        let shown = self.streams.iter().find(|picture| picture.stream == stream);
        let rects = shown.map_or(0, |picture| picture.shown.rect_count() as u64);
        (rects * RECT_WORK).min(self.size.area())
    }

    /// Paints samples into `region`, which is inside the place and [`RightEye::visible`].
    pub(crate) fn paint(
        &mut self,
        stream: u64,
        painter: &mut Painter,
        (planes, source, place): (&PlanesRef<'_>, &Source, Rect),
        region: &Region,
    ) {
        self.allocate();
        painter.paint(planes, source, place, region, &mut self.pixels, self.size.width as usize);
        self.handle_painted(stream, region);
    }

    /// The same with pixels as the wire has them, `pixel_bytes(source.size)` of them: the nearest
    /// pixel of the crop, which is the same one where the place has the crop's size.
    pub(crate) fn paint_pixels(
        &mut self,
        stream: u64,
        (bytes, source, place): (&[u8], &Source, Rect),
        region: &Region,
    ) {
        assert_eq!(bytes.len() as u64, pixel_bytes(source.size), "the length was checked");
        self.allocate();
        let (from, to) = (source.size.width as usize, self.size.width as usize);
        let frame: &[[u8; 4]] = bytes.as_chunks().0;
        let crop = source.crop;
        let is_same = (crop.width(), crop.height()) == (place.width(), place.height());
        for rect in region.rects() {
            for y in rect.y1..rect.y2 {
                let row = crop.y1 + nearest(y - place.y1, crop.height(), place.height());
                let row = &frame[row as usize * from..][..from];
                let out = &mut self.pixels[y as usize * to..][rect.x1 as usize..rect.x2 as usize];
                let pixel = |&[blue, green, red, _]: &[u8; 4]| {
                    OPAQUE | u32::from_le_bytes([blue, green, red, 0])
                };
                if is_same {
                    let first = (crop.x1 + rect.x1 - place.x1) as usize;
                    for (out, bytes) in out.iter_mut().zip(&row[first..]) {
                        *out = pixel(bytes);
                    }
                } else {
                    for (out, x) in out.iter_mut().zip(rect.x1 - place.x1..) {
                        let x = crop.x1 + nearest(x, crop.width(), place.width());
                        *out = pixel(&row[x as usize]);
                    }
                }
            }
        }
        self.handle_painted(stream, region);
    }

    /// Moves a stream's place to this corner, with its clip and pixels.
    pub(crate) fn move_to(&mut self, stream: u64, (x, y): (i32, i32)) -> Region {
        let (screen, width) = (self.size.rect(), self.size.width as usize);
        let Some(picture) = self.find(stream) else { return Region::new() };
        let (dx, dy) = (x - picture.place.x1, y - picture.place.y1);
        if (dx, dy) == (0, 0) {
            return Region::new();
        }
        picture.place = picture.place.translate(dx, dy);
        picture.clip.translate(dx, dy);
        picture.clip.intersect_rect(&screen);
        let mut changed = picture.shown.take();
        let mut moved = changed.translated(dx, dy);
        moved.intersect_rect(&screen);
        if !moved.is_empty() {
            copy_pixels(&mut self.pixels, width, &moved, (dx, dy));
            changed.add(&moved);
            self.handle_painted(stream, &moved);
        }
        changed
    }

    /// Resizes a stream's place; what is outside of it is hidden.
    pub(crate) fn resize(&mut self, stream: u64, size: Size) -> Region {
        let Some(picture) = self.find(stream) else { return Region::new() };
        let Rect { x1, y1, .. } = picture.place;
        picture.place = Rect::at(x1, y1, size.width as i32, size.height as i32);
        picture.clip.intersect_rect(&picture.place);
        let mut hidden = picture.shown.clone();
        picture.shown.intersect_rect(&picture.place);
        hidden.subtract(&picture.shown);
        hidden
    }

    /// A new geometry: everything has ended.
    pub(crate) fn reset(&mut self) {
        self.streams.clear();
        self.pixels = Vec::new();
    }

    fn allocate(&mut self) {
        self.pixels.resize(self.size.area() as usize, OPAQUE);
    }

    /// The region belongs to this stream now.
    fn handle_painted(&mut self, stream: u64, region: &Region) {
        for picture in &mut self.streams {
            if picture.stream == stream {
                picture.shown.add(region);
                bound(&mut picture.shown);
            } else if picture.shown.overlaps(region) {
                picture.shown.subtract(region);
                bound(&mut picture.shown);
            }
        }
    }

    fn find(&mut self, stream: u64) -> Option<&mut Picture> {
        self.streams.iter_mut().find(|picture| picture.stream == stream)
    }
}

/// The pixel, of `from`, whose centre is nearest to that of pixel `at` of `to`.
fn nearest(at: i32, from: i32, to: i32) -> i32 {
    let (at, from, to) = (i64::from(at), i64::from(from), i64::from(to));
    ((2 * at + 1) * from / (2 * to)) as i32
}

/// A region with more rectangles than any clip has shows nothing.
fn bound(shown: &mut Region) {
    if shown.rect_count() > RECTS_MAX {
        shown.clear();
    }
}
