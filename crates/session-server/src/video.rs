//! Path 7/13 to 9/13: beside render.rs, from the driver's frames and a viewer's moving areas to pictures; coded on worker.rs's threads.
//! The streams of one viewer as far as they hold something: an encoder each, and what was seen of an area.
//! Knows samples and pictures; decides neither when a picture is due nor what it may take.
//!
//! An encoder is state: it goes along with each picture into the work and comes back with what was coded, so that a stream has one
//! picture under way at most, and the event loop waits for none.

mod cuts;

use serde::{Deserialize, Serialize};
use thinc_h264::{EncodeError, Encoder, EncoderSettings, Library};
use thinc_pixels::{Film, Shadow};
use thinc_protocol::command::CommandWriter;
use thinc_protocol::video::{Layout, Picture as Coded, VideoCommand};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Ring, VideoInfo, VideoLayout};
use thinc_session_core::{Coding, VideoFrame, VideoOrigin, VideoPolicy};
use thinc_video::{Planes, PlanesRef, Shrinker, to_yuv420};
use tracing::{info, warn};

use cuts::Cuts;

/// The first picture of another scene is a key coded for half the rate: two to three times as large as others, where it would be seven
/// times, and the next few bring what it lacks.
const CUT_PART: u64 = 2;

/// How videos travel to viewers that take them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum VideoConfig {
    /// As pictures, plain or coded as the path is.
    Auto,
    /// As pixels, like all else.
    Off,
    /// As plain pictures where applications play them through XVideo, else as pixels.
    Plain,
    /// As coded pictures.
    H264,
}

impl VideoConfig {
    /// What session-core is told. Where nothing may be lossy, nothing is coded.
    pub(crate) fn policy(self, lossless: bool) -> VideoPolicy {
        match self {
            VideoConfig::Off => VideoPolicy::Off,
            _ if lossless => VideoPolicy::Plain,
            VideoConfig::Auto => VideoPolicy::Auto,
            VideoConfig::Plain => VideoPolicy::Plain,
            VideoConfig::H264 => VideoPolicy::H264,
        }
    }
}

/// The encoder that is meant by a name, and the first of those built in where it is none of them: the file that says so may be of another build's.
pub(crate) fn library(name: &str) -> Library {
    let library = name.parse().unwrap_or_else(|error| {
        warn!("{error}");
        Library::default()
    });
    info!("videos that are coded are coded by {}", library.name());
    library
}

/// The streams of one viewer.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    begun: u64,
    /// Whose encoders.
    library: Library,
    /// Samples of a plain frame.
    samples: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    id: u16,
    /// Tells it from one of the same number before it.
    serial: u64,
    origin: VideoOrigin,
    place: Rect,
    /// Of an area.
    film: Option<Film>,
    /// Here, or in the work.
    picture: Option<Box<Picture>>,
}

/// A picture that is to be coded, and the encoder of its stream.
#[derive(Debug)]
pub(crate) struct Picture {
    serial: u64,
    frame: VideoFrame,
    /// The pixels in which it is seen.
    clip: Region,
    /// Samples of a frame of XVideo, or of pixels.
    samples: Samples,
    data: Vec<u8>,
    /// Of pixels, or of a frame made smaller for a viewer that shows it so.
    planes: Planes,
    shrinker: Shrinker,
    library: Library,
    encoder: Option<(Encoder, Size)>,
    cuts: Cuts,
    coded: Vec<u8>,
}

/// Where a picture's samples are, and how they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Samples {
    /// In `data`, of this size and layout; `crop` of them becomes a picture of `source` where that is another size.
    Data { size: Size, layout: Layout, crop: Rect, source: Size },
    /// In `planes`.
    Planes,
}

/// A frame cannot be shown as it was meant: it is gone, or another has come in its place. Its pixels are sent instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherFrame;

impl Streams {
    /// None yet; what is coded will be by this library.
    pub(crate) fn new(library: Library) -> Streams {
        Streams { library, ..Streams::default() }
    }

    /// All have ended.
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
    }

    /// Those of which this is not true have ended: an encoder of 1280 x 720 holds about 20 MB.
    pub(crate) fn retain(&mut self, goes_on: impl Fn(u16) -> bool) {
        self.streams.retain(|stream| goes_on(stream.id));
    }

    /// What a job's area was seen to be, and is looked at for.
    pub(crate) fn film(&mut self, frame: &VideoFrame) -> Option<&mut Film> {
        match frame.origin {
            VideoOrigin::Area => self.stream(frame).film.as_mut(),
            VideoOrigin::Port(_) => None,
        }
    }

    /// The stream of a frame, begun anew where it is not as it was.
    fn stream(&mut self, frame: &VideoFrame) -> &mut Stream {
        let same = |stream: &Stream| match frame.origin {
            // An encoder is of one place's pixels.
            VideoOrigin::Area => stream.place == frame.place,
            VideoOrigin::Port(_) => true,
        };
        let known = self.streams.iter().position(|stream| stream.id == frame.stream);
        let at = match known {
            Some(at) if self.streams[at].origin == frame.origin && same(&self.streams[at]) => at,
            _ => {
                known.map(|at| self.streams.swap_remove(at));
                self.begun += 1;
                let serial = self.begun;
                let film = (frame.origin == VideoOrigin::Area).then(|| Film::new(frame.place));
                let picture = Some(Box::new(Picture { library: self.library, ..Picture::new(serial, *frame) }));
                let &VideoFrame { stream: id, origin, place, .. } = frame;
                self.streams.push(Stream { id, serial, origin, place, film, picture });
                self.streams.len() - 1
            }
        };
        &mut self.streams[at]
    }

    /// Makes the newest frame of a port the picture that is meant, plain at once in `out`, or to be coded. `place`: where the driver shows it, for
    /// viewers that show it so.
    pub(crate) fn take_frame(
        &mut self,
        frame: &VideoFrame,
        clip: &Region,
        ring: &Ring,
        place: Option<Rect>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<Picture>>, OtherFrame> {
        let VideoOrigin::Port(port) = frame.origin else { return Err(OtherFrame) };
        match frame.coding {
            Coding::Plain => {
                let info = ring.video_frame(port, &mut self.samples).ok_or(OtherFrame)?;
                let layout = layout(info.layout);
                if !is_meant(&info, frame, place) || info.size != frame.source.size {
                    return Err(OtherFrame);
                }
                let picture = Coded::Plain { layout, data: &self.samples };
                next(frame, clip, picture, out);
                Ok(None)
            }
            Coding::H264 { .. } => {
                let stream = self.stream(frame);
                let picture = stream.picture.as_mut().ok_or(OtherFrame)?;
                let info = ring.video_frame(port, &mut picture.data).ok_or(OtherFrame)?;
                if !is_meant(&info, frame, place) {
                    return Err(OtherFrame);
                }
                let (size, layout) = (info.size, layout(info.layout));
                picture.samples = Samples::Data { size, layout, crop: info.crop, source: frame.source.size };
                Ok(stream.take(frame, clip))
            }
        }
    }

    /// Makes the picture of an area out of what the viewer is to show there; none where nothing of it changed.
    pub(crate) fn take_area(
        &mut self,
        frame: &VideoFrame,
        shadow: &Shadow,
    ) -> Result<Option<Box<Picture>>, OtherFrame> {
        let stream = self.stream(frame);
        let Some(clip) = stream.film.as_ref().map(|film| film.clip().clone()).filter(|clip| !clip.is_empty()) else {
            return Ok(None);
        };
        let picture = stream.picture.as_mut().ok_or(OtherFrame)?;
        let (place, stride) = (frame.place, shadow.size().width as usize);
        let first = place.y1 as usize * stride + place.x1 as usize;
        let size = Size { width: place.width() as u32, height: place.height() as u32 };
        to_yuv420(&shadow.pixels()[first..], stride, size, &mut picture.planes);
        picture.samples = Samples::Planes;
        Ok(stream.take(frame, &clip))
    }

    /// A stream's encoder has come back from the work, or goes with the stream that is no more.
    pub(crate) fn give_back(&mut self, picture: Box<Picture>) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.serial == picture.serial) {
            stream.picture = Some(picture);
        }
    }

    /// A stream cannot go on as it is.
    pub(crate) fn end(&mut self, id: u16) {
        self.streams.retain(|stream| stream.id != id);
    }
}

impl Stream {
    fn take(&mut self, frame: &VideoFrame, clip: &Region) -> Option<Box<Picture>> {
        let mut picture = self.picture.take()?;
        picture.frame = *frame;
        picture.clip.clone_from(clip);
        Some(picture)
    }
}

impl Picture {
    fn new(serial: u64, frame: VideoFrame) -> Picture {
        Picture {
            serial,
            frame,
            clip: Region::new(),
            samples: Samples::Planes,
            data: Vec::new(),
            planes: Planes::new(),
            shrinker: Shrinker::new(),
            library: Library::default(),
            encoder: None,
            cuts: Cuts::default(),
            coded: Vec::new(),
        }
    }

    /// Of which stream.
    pub(crate) fn stream(&self) -> u16 {
        self.frame.stream
    }

    /// Samples of luma, which its encoding takes time for.
    pub(crate) fn area(&self) -> u64 {
        match self.samples {
            Samples::Data { source, .. } => source.area(),
            Samples::Planes => self.planes.size().area(),
        }
    }

    /// Codes it, and appends its NEXT.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let Coding::H264 { bits_per_second, frames_per_second, key } = self.frame.coding else {
            return Err(EncodeError::NoPicture);
        };
        let picture = match self.samples {
            Samples::Planes => self.planes.as_ref(),
            Samples::Data { size, layout, crop, source } => {
                let whole = PlanesRef::packed(size, layout, &self.data).ok_or(EncodeError::NoPicture)?;
                if size == source {
                    whole
                } else {
                    self.shrinker.shrink(&whole, &crop, source, &mut self.planes);
                    self.planes.as_ref()
                }
            }
        };
        let size = picture.size();
        if self.encoder.as_ref().is_none_or(|&(_, of)| of != size) {
            let settings = EncoderSettings { size, bits_per_second, frames_per_second };
            self.encoder = Some((Encoder::with(self.library, settings)?, size));
        }
        let (encoder, _) = self.encoder.as_mut().expect("it was made where there was none");
        // At a cut it takes no less to lean on the picture before.
        let cut = self.cuts.begins_scene(&picture) && !key;
        encoder.set_rate(if cut { bits_per_second / CUT_PART } else { bits_per_second }, frames_per_second);
        self.coded.clear();
        let key = encoder.encode(&picture, key || cut, &mut self.coded)?.key;
        next(&self.frame, &self.clip, Coded::Coded { key, data: &self.coded }, out);
        Ok(())
    }
}

/// The slot may hold a newer frame than the record told of, played in another way: what follows the record tells of it.
fn is_meant(info: &VideoInfo, frame: &VideoFrame, place: Option<Rect>) -> bool {
    let crop = frame.source.crop;
    let (size, of) = (frame.source.size, info.size);
    match place {
        Some(place) => size == of && info.crop == crop && info.place == place,
        None if size == of => info.crop == crop,
        // Made smaller: the crop alone is sent.
        None => size.width <= of.width && size.height <= of.height && crop == size.rect(),
    }
}

fn layout(layout: VideoLayout) -> Layout {
    match layout {
        VideoLayout::Yuv420 => Layout::Yuv420,
        VideoLayout::Yuv422 => Layout::Yuv422,
    }
}

fn next(frame: &VideoFrame, clip: &Region, picture: Coded<'_>, out: &mut Vec<u8>) {
    let next = VideoCommand::Next { id: frame.stream, time: frame.time, clip: clip.clone(), picture };
    CommandWriter::new(out).video(&next);
}

#[cfg(test)]
mod tests {
    use thinc_pixels::{Hints, Lossy, PlanSettings, Snapshot, plan_with};
    use thinc_protocol::command::{Command, CommandReader};
    use thinc_protocol::video::Source;

    use super::*;

    const SCREEN: Size = Size { width: 4096, height: 256 };
    const PLACE: Rect = Rect::new(64, 32, 384, 224);

    fn frame(stream: u16, place: Rect) -> VideoFrame {
        let size = Size { width: place.width() as u32, height: place.height() as u32 };
        let coding = Coding::H264 { bits_per_second: 1_000_000, frames_per_second: 24, key: false };
        let source = Source { size, crop: size.rect() };
        VideoFrame { stream, origin: VideoOrigin::Area, source, place, time: 0, coding }
    }

    /// Another picture in the frame's place, planned.
    fn draw(streams: &mut Streams, shadow: &mut Shadow, frame: &VideoFrame, number: u32) {
        let mut snapshot = Snapshot::new();
        let soft = |x: u32, y: u32| ((x + number * 3) % 200 + y % 40) * 0x01_0101;
        snapshot.fill(&frame.place.into(), |rect, to, stride| {
            for (y, row) in to.chunks_mut(stride).enumerate().take(rect.height() as usize) {
                row.iter_mut().enumerate().for_each(|(x, pixel)| *pixel = soft(x as u32, y as u32));
            }
        });
        let settings = PlanSettings { lossy: Lossy::Photographs, film: streams.film(frame), ..PlanSettings::default() };
        plan_with(&snapshot, shadow, &Hints::NONE, settings, &mut Vec::new());
    }

    /// The one NEXT: whether it is a key, and what it is seen in.
    fn next_of(commands: &[u8]) -> (bool, Region) {
        let read: Vec<_> = CommandReader::new(commands, SCREEN).collect::<Result<_, _>>().expect("commands");
        match read.as_slice() {
            [Command::Video(VideoCommand::Next { clip, picture: Coded::Coded { key, .. }, .. })] => {
                (*key, clip.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_picture_of_a_stream_is_under_way_and_its_encoder_comes_back() {
        let (mut streams, mut shadow, frame) = (Streams::default(), Shadow::new(SCREEN), frame(3, PLACE));
        draw(&mut streams, &mut shadow, &frame, 0);
        let mut picture = streams.take_area(&frame, &shadow).unwrap().expect("all of it changed");
        draw(&mut streams, &mut shadow, &frame, 1);
        assert_eq!(streams.take_area(&frame, &shadow).err(), Some(OtherFrame), "the encoder is at work");
        let mut commands = Vec::new();
        picture.encode(&mut commands).unwrap();
        let (key, clip) = next_of(&commands);
        assert!(key && Region::from(PLACE).difference(&clip).area() < PLACE.area() / 10, "{clip:?}");
        streams.give_back(picture);
        draw(&mut streams, &mut shadow, &frame, 2);
        let mut picture = streams.take_area(&frame, &shadow).unwrap().expect("it changed again");
        commands.clear();
        picture.encode(&mut commands).unwrap();
        assert!(!next_of(&commands).0, "it leans on the one before");
        streams.give_back(picture);
        // Drawn as it was.
        draw(&mut streams, &mut shadow, &frame, 2);
        assert!(streams.take_area(&frame, &shadow).unwrap().is_none());
    }

    #[test]
    fn a_stream_that_moved_is_begun_anew() {
        let (mut streams, mut shadow, first) = (Streams::default(), Shadow::new(SCREEN), frame(3, PLACE));
        draw(&mut streams, &mut shadow, &first, 0);
        let mut late = streams.take_area(&first, &shadow).unwrap().expect("all of it changed");
        let moved = frame(3, PLACE.translate(700, 0));
        draw(&mut streams, &mut shadow, &moved, 1);
        let mut picture = streams.take_area(&moved, &shadow).unwrap().expect("the other's encoder is not waited for");
        // It comes back too late, and must not become the encoder of another place.
        late.encode(&mut Vec::new()).unwrap();
        streams.give_back(late);
        let mut commands = Vec::new();
        picture.encode(&mut commands).unwrap();
        assert!(next_of(&commands).0, "it leans on nothing of the place before");
        streams.retain(|_| false);
        streams.give_back(picture);
        assert!(streams.streams.is_empty(), "a stream that has ended holds nothing");
    }

    #[test]
    fn a_stream_whose_encoder_fails_ends_and_may_begin_anew() {
        // Wider than OpenH264 takes.
        let wide = frame(1, Rect::new(0, 0, 4000, 128));
        let (mut streams, mut shadow) = (Streams::default(), Shadow::new(SCREEN));
        draw(&mut streams, &mut shadow, &wide, 0);
        let mut picture = streams.take_area(&wide, &shadow).unwrap().expect("all of it changed");
        let mut commands = Vec::new();
        assert!(matches!(picture.encode(&mut commands), Err(EncodeError::Size(_))));
        assert!(commands.is_empty(), "nothing of it is said");
        streams.end(picture.stream());
        streams.give_back(picture);
        assert!(streams.streams.is_empty());
        let frame = frame(1, PLACE);
        draw(&mut streams, &mut shadow, &frame, 1);
        let mut picture = streams.take_area(&frame, &shadow).unwrap().expect("all of it changed");
        picture.encode(&mut commands).unwrap();
        assert!(next_of(&commands).0);
    }

    const OF: Size = Size { width: 352, height: 240 };

    /// A frame of XVideo, to be coded at another size than its own.
    fn port_frame(size: Size) -> VideoFrame {
        VideoFrame { origin: VideoOrigin::Port(2), source: Source { size, crop: size.rect() }, ..frame(2, PLACE) }
    }

    #[test]
    fn a_frame_is_made_as_small_as_it_is_shown_and_another_size_leans_on_none() {
        let (small, smaller) = (Size { width: 110, height: 75 }, Size { width: 80, height: 60 });
        let mut picture = Picture::new(1, port_frame(small));
        // Brighter to the right, without colour.
        let luma = (0..OF.area()).map(|i| (16 + i % u64::from(OF.width) / 2) as u8);
        picture.data = luma.chain(std::iter::repeat_n(128, OF.area() as usize / 2)).collect();
        picture.clip = PLACE.into();
        for (size, leans_on_none) in [(small, true), (small, false), (smaller, true), (smaller, false)] {
            picture.frame = port_frame(size);
            picture.samples = Samples::Data { size: OF, layout: Layout::Yuv420, crop: OF.rect(), source: size };
            let mut commands = Vec::new();
            picture.encode(&mut commands).expect("it is coded");
            assert_eq!(next_of(&commands).0, leans_on_none, "{size:?}");
            assert_eq!((picture.planes.size(), picture.area()), (size, size.area()));
            let planes = picture.planes.as_ref();
            let row = planes.row(0, size.height as usize / 2);
            for x in [size.width / 4, size.width / 2, size.width * 3 / 4] {
                let meant = 16 + (2 * x + 1) * OF.width / size.width / 4;
                assert!(u32::from(row[x as usize]).abs_diff(meant) <= 1, "{} at {x} of {size:?}", row[x as usize]);
            }
        }
    }

    #[test]
    fn a_frame_that_was_played_in_another_way_is_not_the_one_that_is_meant() {
        let place = Rect::new(10, 20, 714, 500);
        let info = VideoInfo {
            serial: 1,
            op: 1,
            dst: thinc_ring::DrawableId::SCREEN,
            layout: VideoLayout::Yuv420,
            size: OF,
            crop: OF.rect(),
            place,
        };
        let own = port_frame(OF);
        assert!(is_meant(&info, &own, Some(place)) && is_meant(&info, &own, None));
        assert!(!is_meant(&info, &own, Some(place.translate(1, 0))), "it is elsewhere by now");
        let part = VideoInfo { crop: Rect::new(0, 0, 100, 100), ..info };
        assert!(!is_meant(&part, &own, None), "only a part of it is seen by now");
        let small = port_frame(Size { width: 110, height: 75 });
        assert!(is_meant(&info, &small, None) && is_meant(&part, &small, None), "what is seen of it is made smaller");
        assert!(!is_meant(&info, &small, Some(place)), "but not for who shows it as it is");
        let large = port_frame(Size { width: 353, height: 100 });
        assert!(!is_meant(&info, &large, None), "nothing is made larger");
    }
}
