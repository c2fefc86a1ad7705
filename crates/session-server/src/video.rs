//! Path 7/13 to 9/13: beside render.rs, from the driver's frames and a viewer's video areas to
//! encoded frames; encoded on worker.rs's threads. The state of one viewer's video streams: an
//! encoder for each, and the video mask of an area. Knows samples and frames; session-core decides
//! when a frame is due and how many bits it may have.
//!
//! The encoder travels with each frame to a worker thread and back, so that a stream encodes one
//! frame at a time, and the event loop waits for none.

mod encoders;
mod right_eye;
mod scene_cuts;

use serde::{Deserialize, Serialize};
use thinc_h264::EncodeError;
use thinc_pixels::{Resampler, Shadow, VideoMask};
use thinc_protocol::commands::Commands;
use thinc_protocol::video::{FrameCodec, FrameData, SampleLayout, VideoCommand};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Ring, VideoInfo, VideoLayout};
use thinc_session_core::{Coding, RightEyeFrame, Transform, VideoFrame, VideoOrigin, VideoPolicy};
use thinc_video::{Planes, PlanesRef, Shrinker, from_pixels, update_from_pixels};

pub(crate) use encoders::VideoEncoders;
use encoders::{Due, StreamEncoder};
use right_eye::Picture;
use scene_cuts::SceneCuts;

/// How videos are sent to viewers that accept video streams.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum VideoConfig {
    /// As video frames, plain or encoded depending on the path.
    Auto,
    /// As pixels, like everything else.
    Off,
    /// As plain frames if applications play them through XVideo, else as pixels.
    Plain,
    /// As encoded frames: H.264, or AV1 or 4:4:4 where a GPU encodes it and the viewer takes it.
    H264,
}

impl VideoConfig {
    /// The policy for session-core. A lossless session encodes no video.
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

/// The video streams of one viewer.
#[derive(Debug, Default)]
pub(crate) struct VideoStreams {
    streams: Vec<Stream>,
    created: u64,
    /// What makes new encoders.
    encoders: VideoEncoders,
    /// Working memory: the samples of a plain frame, and a picture for the right eye.
    samples: Vec<u8>,
    picture: Picture,
}

#[derive(Debug)]
struct Stream {
    id: u16,
    /// Distinguishes it from an earlier stream with the same ID.
    serial: u64,
    origin: VideoOrigin,
    place: Rect,
    /// For a video area: the pixels that belong to the video.
    video_mask: Option<VideoMask>,
    /// The stream's encoder; `None` while a worker has it.
    encoder: Option<Box<FrameEncoder>>,
}

/// A frame to be encoded, and the encoder of its stream.
#[derive(Debug)]
pub(crate) struct FrameEncoder {
    serial: u64,
    frame: VideoFrame,
    /// The pixels in which the frame is visible.
    clip: Region,
    /// Samples of an XVideo frame, or of pixels.
    samples: SampleSource,
    data: Vec<u8>,
    /// The converted pixels, or an XVideo frame scaled down for a viewer that shows it smaller.
    planes: Planes,
    shrinker: Shrinker,
    encoders: VideoEncoders,
    encoder: StreamEncoder,
    scene_cuts: SceneCuts,
    coded: Vec<u8>,
}

/// Where a frame's samples are, and their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleSource {
    /// In `data`, of this size and layout; `crop` of them is scaled down to `source` if that is
    /// another size.
    Data { size: Size, layout: SampleLayout, crop: Rect, source: Size },
    /// In `planes`.
    Planes,
}

/// The frame is no longer available: it is gone, or a newer one has replaced it. Its pixels are
/// sent instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameReplaced;

impl VideoStreams {
    /// Without streams.
    pub(crate) fn new(encoders: VideoEncoders) -> VideoStreams {
        VideoStreams { encoders, ..VideoStreams::default() }
    }

    /// Removes all streams.
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
    }

    /// Removes inactive streams: an encoder of 1280 x 720 holds about 20 MB.
    pub(crate) fn retain(&mut self, is_active: impl Fn(u16) -> bool) {
        self.streams.retain(|stream| is_active(stream.id));
    }

    /// The mask of a video area, which a plan reads and updates.
    pub(crate) fn video_mask(&mut self, frame: &VideoFrame) -> Option<&mut VideoMask> {
        match frame.origin {
            VideoOrigin::Area => self.stream(frame).video_mask.as_mut(),
            VideoOrigin::Port(_) | VideoOrigin::RightEye(_) => None,
        }
    }

    /// The stream of a frame; created, or replaced if its origin or place has changed.
    fn stream(&mut self, frame: &VideoFrame) -> &mut Stream {
        let same = |stream: &Stream| match frame.origin {
            // An area's encoder refers to the pixels of one place.
            VideoOrigin::Area => stream.place == frame.place,
            VideoOrigin::Port(_) | VideoOrigin::RightEye(_) => true,
        };
        let known = self.streams.iter().position(|stream| stream.id == frame.stream);
        let at = match known {
            Some(at) if self.streams[at].origin == frame.origin && same(&self.streams[at]) => at,
            _ => {
                known.map(|at| self.streams.swap_remove(at));
                self.created += 1;
                let serial = self.created;
                let video_mask =
                    (frame.origin == VideoOrigin::Area).then(|| VideoMask::new(frame.place));
                let encoder = Some(Box::new(FrameEncoder {
                    encoders: self.encoders.clone(),
                    ..FrameEncoder::new(serial, *frame)
                }));
                let &VideoFrame { stream: id, origin, place, .. } = frame;
                self.streams.push(Stream { id, serial, origin, place, video_mask, encoder });
                self.streams.len() - 1
            }
        };
        &mut self.streams[at]
    }

    /// Reads the newest frame of a port: a plain frame is written to `out`, any other is returned
    /// for encoding. `place`: where the driver shows it, for viewers that show it there.
    pub(crate) fn read_frame(
        &mut self,
        frame: &VideoFrame,
        clip: &Region,
        ring: &Ring,
        place: Option<Rect>,
        out: &mut Commands,
    ) -> Result<Option<Box<FrameEncoder>>, FrameReplaced> {
        let VideoOrigin::Port(port) = frame.origin else { return Err(FrameReplaced) };
        match frame.coding {
            Coding::Plain => {
                let info = ring.video_frame(port, &mut self.samples).ok_or(FrameReplaced)?;
                let layout = layout(info.layout)?;
                if !is_current(&info, frame, place) || info.size != frame.source.size {
                    return Err(FrameReplaced);
                }
                let data = FrameData::Plain { layout, data: &self.samples };
                write_frame(frame, clip, data, out);
                Ok(None)
            }
            Coding::H264 { .. } => {
                let stream = self.stream(frame);
                let encoder = stream.encoder.as_mut().ok_or(FrameReplaced)?;
                let info = ring.video_frame(port, &mut encoder.data).ok_or(FrameReplaced)?;
                if !is_current(&info, frame, place) {
                    return Err(FrameReplaced);
                }
                let (size, layout) = (info.size, layout(info.layout)?);
                encoder.samples =
                    SampleSource::Data { size, layout, crop: info.crop, source: frame.source.size };
                Ok(stream.take(frame, clip))
            }
        }
    }

    /// Reads a port's picture for the right eye: the part that a view shows of it, which is the
    /// frame's place. A frame at rest is written to `out`, any other is returned for encoding.
    pub(crate) fn read_right_eye(
        &mut self,
        (frame, shown): (&VideoFrame, &RightEyeFrame),
        (view, resampler): (Option<&Transform>, &mut Resampler),
        ring: &Ring,
        out: &mut Commands,
    ) -> Result<Option<Box<FrameEncoder>>, FrameReplaced> {
        let VideoOrigin::RightEye(port) = frame.origin else { return Err(FrameReplaced) };
        let info = ring.video_frame(port, &mut self.samples).ok_or(FrameReplaced)?;
        self.picture.read((&info, &self.samples), shown, frame.place, (view, resampler))?;
        if frame.coding == Coding::Plain {
            let data = FrameData::Pixels { data: self.picture.bytes() };
            write_frame(frame, &shown.clip, data, out);
            return Ok(None);
        }
        let size = frame.source.size;
        // Borrowed for a moment: the stream is another field's.
        let picture = std::mem::take(&mut self.picture);
        let stream = self.stream(frame);
        let taken = stream.encoder.as_mut().map(|encoder| {
            let (pixels, layout) = (picture.pixels(), layout_of(frame));
            from_pixels(pixels, size.width as usize, size, layout, &mut encoder.planes);
            encoder.samples = SampleSource::Planes;
        });
        let encoder = taken.and_then(|()| stream.take(frame, &shown.clip));
        self.picture = picture;
        encoder.map(Some).ok_or(FrameReplaced)
    }

    /// Converts the viewer's shadow of a video area to a frame; `None` if nothing of it has
    /// changed.
    pub(crate) fn take_area(
        &mut self,
        frame: &VideoFrame,
        shadow: &Shadow,
    ) -> Result<Option<Box<FrameEncoder>>, FrameReplaced> {
        let stream = self.stream(frame);
        let Some(clip) = stream
            .video_mask
            .as_ref()
            .map(|video_mask| video_mask.clip().clone())
            .filter(|clip| !clip.is_empty())
        else {
            return Ok(None);
        };
        let encoder = stream.encoder.as_mut().ok_or(FrameReplaced)?;
        let (place, stride) = (frame.place, shadow.size().width as usize);
        let first = place.y1 as usize * stride + place.x1 as usize;
        let size = Size { width: place.width() as u32, height: place.height() as u32 };
        let pixels = &shadow.pixels()[first..];
        let layout = layout_of(frame);
        if (encoder.planes.size(), encoder.planes.layout()) == (size, layout) {
            // Nobody sees the rest: samples that stay as they were take no bits, and no time.
            for rect in clip.rects() {
                let part = rect.translate(-place.x1, -place.y1);
                update_from_pixels(pixels, stride, &part, &mut encoder.planes);
            }
        } else {
            from_pixels(pixels, stride, size, layout, &mut encoder.planes);
        }
        encoder.samples = SampleSource::Planes;
        Ok(stream.take(frame, &clip))
    }

    /// Returns an encoder to its stream; drops it if the stream has ended.
    pub(crate) fn give_back(&mut self, encoder: Box<FrameEncoder>) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.serial == encoder.serial)
        {
            stream.encoder = Some(encoder);
        }
    }

    /// Removes a stream that has failed.
    pub(crate) fn remove(&mut self, id: u16) {
        self.streams.retain(|stream| stream.id != id);
    }
}

impl Stream {
    fn take(&mut self, frame: &VideoFrame, clip: &Region) -> Option<Box<FrameEncoder>> {
        let mut encoder = self.encoder.take()?;
        encoder.frame = *frame;
        encoder.clip.clone_from(clip);
        Some(encoder)
    }
}

impl FrameEncoder {
    fn new(serial: u64, frame: VideoFrame) -> FrameEncoder {
        FrameEncoder {
            serial,
            frame,
            clip: Region::new(),
            samples: SampleSource::Planes,
            data: Vec::new(),
            planes: Planes::new(),
            shrinker: Shrinker::new(),
            encoders: VideoEncoders::default(),
            encoder: StreamEncoder::default(),
            scene_cuts: SceneCuts::default(),
            coded: Vec::new(),
        }
    }

    /// The stream's ID.
    pub(crate) fn stream(&self) -> u16 {
        self.frame.stream
    }

    /// Luma samples, which determine the encoding time.
    pub(crate) fn area(&self) -> u64 {
        match self.samples {
            SampleSource::Data { source, .. } => source.area(),
            SampleSource::Planes => self.planes.size().area(),
        }
    }

    /// Encodes the frame, and appends its VIDEO command (NEXT).
    pub(crate) fn encode(&mut self, out: &mut Commands) -> Result<(), EncodeError> {
        let Coding::H264 { bits_per_second, frames_per_second, keyframe } = self.frame.coding
        else {
            return Err(EncodeError::NoFrame);
        };
        let planes = match self.samples {
            SampleSource::Planes => self.planes.as_ref(),
            SampleSource::Data { size, layout, crop, source } => {
                let whole =
                    PlanesRef::packed(size, layout, &self.data).ok_or(EncodeError::NoFrame)?;
                if size == source {
                    whole
                } else {
                    self.shrinker.shrink(&whole, &crop, source, &mut self.planes);
                    self.planes.as_ref()
                }
            }
        };
        let is_scene_cut = self.scene_cuts.is_scene_cut(&planes);
        let codecs = self.frame.codecs;
        let due =
            Due { planes, bits_per_second, frames_per_second, keyframe, is_scene_cut, codecs };
        self.coded.clear();
        let keyframe = self.encoder.encode(&self.encoders, &due, &mut self.coded)?;
        let data = FrameData::Coded { keyframe, data: &self.coded };
        write_frame(&self.frame, &self.clip, data, out);
        Ok(())
    }
}

/// The driver's slot may already hold a newer frame, shown elsewhere or cropped differently; the
/// records that follow describe that one.
fn is_current(info: &VideoInfo, frame: &VideoFrame, place: Option<Rect>) -> bool {
    let crop = frame.source.crop;
    let (size, of) = (frame.source.size, info.size);
    match place {
        Some(place) => size == of && info.crop == crop && info.place == place,
        None if size == of => info.crop == crop,
        // Scaled down: only the crop is sent.
        None => size.width <= of.width && size.height <= of.height && crop == size.rect(),
    }
}

/// The layout of a frame that is made of pixels: 4:4:4 if it may have that, which an encoder that
/// does not take it averages.
fn layout_of(frame: &VideoFrame) -> SampleLayout {
    match frame.codecs & FrameCodec::H264Yuv444.bit() {
        0 => SampleLayout::Yuv420,
        _ => SampleLayout::Yuv444,
    }
}

fn layout(layout: VideoLayout) -> Result<SampleLayout, FrameReplaced> {
    match layout {
        VideoLayout::Yuv420 => Ok(SampleLayout::Yuv420),
        VideoLayout::Yuv422 => Ok(SampleLayout::Yuv422),
        VideoLayout::RightEye => Err(FrameReplaced),
    }
}

fn write_frame(frame: &VideoFrame, clip: &Region, data: FrameData<'_>, out: &mut Commands) {
    let command =
        VideoCommand::Next { id: frame.stream, time: frame.time, clip: clip.clone(), frame: data };
    out.writer().video(&command);
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use thinc_gpu_video::{Coded, Process, Purpose, Settings};
    use thinc_h264::Decoder;
    use thinc_pixels::{Hints, Lossy, PlanSettings, Snapshot, plan_with};
    use thinc_protocol::command::{Command, CommandReader};
    use thinc_protocol::video::FrameCodec::{self, Av1, H264, H264Yuv444};
    use thinc_protocol::video::Source;
    use thinc_video::to_420;

    use super::encoders::By;
    use super::*;
    use crate::gpu_encoder::tests::Stubs;

    const SCREEN: Size = Size { width: 4096, height: 256 };
    const PLACE: Rect = Rect::new(64, 32, 384, 224);

    fn frame(stream: u16, place: Rect) -> VideoFrame {
        let size = Size { width: place.width() as u32, height: place.height() as u32 };
        let coding =
            Coding::H264 { bits_per_second: 1_000_000, frames_per_second: 24, keyframe: false };
        let source = Source { size, crop: size.rect() };
        let origin = VideoOrigin::Area;
        VideoFrame { stream, origin, source, place, time: 0, coding, takes_text: false, codecs: 0 }
    }

    /// Draws other pixels in the frame's place, and plans them.
    fn draw(streams: &mut VideoStreams, shadow: &mut Shadow, frame: &VideoFrame, number: u32) {
        let mut snapshot = Snapshot::new();
        let gradient = |x: u32, y: u32| ((x + number * 3) % 200 + y % 40) * 0x01_0101;
        snapshot.fill(&frame.place.into(), |rect, to, stride| {
            for (y, row) in to.chunks_mut(stride).enumerate().take(rect.height() as usize) {
                row.iter_mut()
                    .enumerate()
                    .for_each(|(x, pixel)| *pixel = gradient(x as u32, y as u32));
            }
        });
        let settings = PlanSettings {
            lossy: Lossy::Photographs,
            video: streams.video_mask(frame),
            ..PlanSettings::default()
        };
        plan_with(&snapshot, shadow, &Hints::NONE, settings, &mut Vec::new());
    }

    /// The only NEXT: whether it is a keyframe, and its clip.
    fn frame_of(commands: &Commands) -> (bool, Region) {
        let read: Vec<_> = CommandReader::new(commands.as_bytes(), SCREEN)
            .collect::<Result<_, _>>()
            .expect("commands");
        match read.as_slice() {
            [
                Command::Video(VideoCommand::Next {
                    clip,
                    frame: FrameData::Coded { keyframe, .. },
                    ..
                }),
            ] => (keyframe.is_some(), clip.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stream_encodes_one_frame_at_a_time_and_its_encoder_returns() {
        let (mut streams, mut shadow, frame) =
            (VideoStreams::default(), Shadow::new(SCREEN), frame(3, PLACE));
        draw(&mut streams, &mut shadow, &frame, 0);
        let mut encoder = streams.take_area(&frame, &shadow).unwrap().expect("all of it changed");
        draw(&mut streams, &mut shadow, &frame, 1);
        assert_eq!(
            streams.take_area(&frame, &shadow).err(),
            Some(FrameReplaced),
            "a worker has the encoder"
        );
        let mut commands = Commands::default();
        encoder.encode(&mut commands).unwrap();
        let (keyframe, clip) = frame_of(&commands);
        assert!(
            keyframe && Region::from(PLACE).difference(&clip).area() < PLACE.area() / 10,
            "{clip:?}"
        );
        streams.give_back(encoder);
        draw(&mut streams, &mut shadow, &frame, 2);
        let mut encoder = streams.take_area(&frame, &shadow).unwrap().expect("it changed again");
        commands.clear();
        encoder.encode(&mut commands).unwrap();
        assert!(!frame_of(&commands).0, "it refers to the previous frame");
        streams.give_back(encoder);
        // The same pixels again.
        draw(&mut streams, &mut shadow, &frame, 2);
        assert!(streams.take_area(&frame, &shadow).unwrap().is_none());
    }

    #[test]
    fn the_samples_of_a_clip_are_those_of_the_newest_pixels() {
        let (mut streams, mut shadow, frame) =
            (VideoStreams::default(), Shadow::new(SCREEN), frame(3, PLACE));
        let mut expected = Planes::new();
        for number in 0..3 {
            draw(&mut streams, &mut shadow, &frame, number);
            let encoder = streams.take_area(&frame, &shadow).unwrap().expect("it changed");
            let first = PLACE.y1 as usize * SCREEN.width as usize + PLACE.x1 as usize;
            let (stride, size) = (SCREEN.width as usize, frame.source.size);
            let layout = SampleLayout::Yuv420;
            from_pixels(&shadow.pixels()[first..], stride, size, layout, &mut expected);
            for rect in encoder.clip.translated(-PLACE.x1, -PLACE.y1).rects() {
                for y in rect.y1..rect.y2 {
                    let row = |planes: &Planes| {
                        planes.as_ref().row(0, y as usize)[rect.x1 as usize..rect.x2 as usize]
                            .to_vec()
                    };
                    assert_eq!(row(&encoder.planes), row(&expected), "frame {number}, row {y}");
                }
            }
            streams.give_back(encoder);
        }
    }

    #[test]
    fn a_stream_that_moved_starts_with_a_new_encoder() {
        let (mut streams, mut shadow, first) =
            (VideoStreams::default(), Shadow::new(SCREEN), frame(3, PLACE));
        draw(&mut streams, &mut shadow, &first, 0);
        let mut late = streams.take_area(&first, &shadow).unwrap().expect("all of it changed");
        let moved = frame(3, PLACE.translate(700, 0));
        draw(&mut streams, &mut shadow, &moved, 1);
        let mut encoder = streams
            .take_area(&moved, &shadow)
            .unwrap()
            .expect("the other stream's encoder is not waited for");
        // It returns too late, and must not become the encoder of another place.
        late.encode(&mut Commands::default()).unwrap();
        streams.give_back(late);
        let mut commands = Commands::default();
        encoder.encode(&mut commands).unwrap();
        assert!(frame_of(&commands).0, "it is a keyframe");
        streams.retain(|_| false);
        streams.give_back(encoder);
        assert!(streams.streams.is_empty(), "a stream that has ended holds nothing");
    }

    #[test]
    fn a_stream_whose_encoder_fails_ends_and_may_start_again() {
        // Wider than OpenH264 supports.
        let wide = frame(1, Rect::new(0, 0, 4000, 128));
        let (mut streams, mut shadow) = (VideoStreams::default(), Shadow::new(SCREEN));
        draw(&mut streams, &mut shadow, &wide, 0);
        let mut encoder = streams.take_area(&wide, &shadow).unwrap().expect("all of it changed");
        let mut commands = Commands::default();
        assert!(matches!(encoder.encode(&mut commands), Err(EncodeError::Size(_))));
        assert!(commands.is_empty(), "nothing is written");
        streams.remove(encoder.stream());
        streams.give_back(encoder);
        assert!(streams.streams.is_empty());
        let frame = frame(1, PLACE);
        draw(&mut streams, &mut shadow, &frame, 1);
        let mut encoder = streams.take_area(&frame, &shadow).unwrap().expect("all of it changed");
        encoder.encode(&mut commands).unwrap();
        assert!(frame_of(&commands).0);
    }

    const OF: Size = Size { width: 352, height: 240 };

    /// An XVideo frame, to be encoded at another size than its own.
    fn port_frame(size: Size) -> VideoFrame {
        VideoFrame {
            origin: VideoOrigin::Port(2),
            source: Source { size, crop: size.rect() },
            ..frame(2, PLACE)
        }
    }

    #[test]
    fn a_frame_is_scaled_down_to_its_shown_size_and_another_size_needs_a_keyframe() {
        let (small, smaller) = (Size { width: 110, height: 75 }, Size { width: 80, height: 60 });
        let mut encoder = FrameEncoder::new(1, port_frame(small));
        // Brighter to the right, without colour.
        let luma = (0..OF.area()).map(|i| (16 + i % u64::from(OF.width) / 2) as u8);
        encoder.data = luma.chain(std::iter::repeat_n(128, OF.area() as usize / 2)).collect();
        encoder.clip = PLACE.into();
        for (size, keyframe) in [(small, true), (small, false), (smaller, true), (smaller, false)] {
            encoder.frame = port_frame(size);
            encoder.samples = SampleSource::Data {
                size: OF,
                layout: SampleLayout::Yuv420,
                crop: OF.rect(),
                source: size,
            };
            let mut commands = Commands::default();
            encoder.encode(&mut commands).expect("it is encoded");
            assert_eq!(frame_of(&commands).0, keyframe, "{size:?}");
            assert_eq!((encoder.planes.size(), encoder.area()), (size, size.area()));
            let planes = encoder.planes.as_ref();
            let row = planes.row(0, size.height as usize / 2);
            for x in [size.width / 4, size.width / 2, size.width * 3 / 4] {
                let meant = 16 + (2 * x + 1) * OF.width / size.width / 4;
                assert!(
                    u32::from(row[x as usize]).abs_diff(meant) <= 1,
                    "{} at {x} of {size:?}",
                    row[x as usize]
                );
            }
        }
    }

    #[test]
    fn a_frame_with_another_place_or_crop_is_not_current() {
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
        assert!(is_current(&info, &own, Some(place)) && is_current(&info, &own, None));
        assert!(
            !is_current(&info, &own, Some(place.translate(1, 0))),
            "it is shown elsewhere by now"
        );
        let part = VideoInfo { crop: Rect::new(0, 0, 100, 100), ..info };
        assert!(!is_current(&part, &own, None), "only a part of it is shown by now");
        let small = port_frame(Size { width: 110, height: 75 });
        assert!(
            is_current(&info, &small, None) && is_current(&part, &small, None),
            "its crop is scaled down"
        );
        assert!(
            !is_current(&info, &small, Some(place)),
            "but not for a viewer that shows it unscaled"
        );
        let large = port_frame(Size { width: 353, height: 100 });
        assert!(!is_current(&info, &large, None), "nothing is scaled up");
    }
    /// What decodes a stream's frames, as a viewer does.
    struct Viewer {
        h264: Decoder,
        /// Decodes `codecs` beside H.264.
        other: Option<Process>,
        codecs: u32,
        /// Of the newest keyframe.
        codec: FrameCodec,
    }

    impl Viewer {
        fn new() -> Viewer {
            Viewer { h264: Decoder::new(OF).unwrap(), other: None, codecs: 0, codec: H264 }
        }

        fn decode(&mut self, keyframe: Option<FrameCodec>, data: &[u8]) -> Planes {
            self.codec = keyframe.unwrap_or(self.codec);
            let mut shown = Planes::new();
            match self.codec {
                FrameCodec::H264 => {
                    self.h264.decode(data, &mut shown).expect("viewers decode every frame");
                }
                Av1 | H264Yuv444 => {
                    let process = self.other.as_mut().expect("only for viewers that decode it");
                    let decoded = process.decode(1, OF, data, &mut shown);
                    assert!(matches!(decoded, Ok(Coded::Done { .. })), "{decoded:?}");
                }
            }
            shown
        }

        /// Encodes frames of one stream and decodes them; says which were keyframes, and of what.
        fn play(&mut self, encoder: &mut FrameEncoder, frames: Range<u32>) -> Keyframes {
            let mut keyframes = Vec::new();
            for number in frames {
                let codecs = if self.other.is_some() { self.codecs } else { 0 };
                encoder.frame = VideoFrame { codecs, ..port_frame(OF) };
                encoder.clip = PLACE.into();
                let layout = layout_of(&encoder.frame);
                encoder.samples =
                    SampleSource::Data { size: OF, layout, crop: OF.rect(), source: OF };
                let luma = |at: u64| {
                    let at = ((at % u64::from(OF.width)) as u32, (at / u64::from(OF.width)) as u32);
                    let inside = at.0.abs_diff(40 + 4 * number) < 24 && at.1.abs_diff(100) < 24;
                    if inside { 200 } else { (40 + at.0 / 4) as u8 }
                };
                // Where chroma has full resolution, its columns take turns.
                let blue = layout.chroma(OF).area();
                let chroma = (0..2 * blue).map(|at| match layout {
                    SampleLayout::Yuv444 if at < blue => [90, 170][(at % 2) as usize],
                    _ => 128,
                });
                encoder.data = (0..OF.area()).map(luma).chain(chroma).collect();
                let mut commands = Commands::default();
                encoder.encode(&mut commands).expect("a frame is never left out");
                let read: Vec<_> = CommandReader::new(commands.as_bytes(), SCREEN).collect();
                let [Ok(Command::Video(VideoCommand::Next { frame, .. }))] = &read[..] else {
                    panic!("{read:?}")
                };
                let &FrameData::Coded { keyframe, data } = frame else { panic!("{frame:?}") };
                keyframes.extend(keyframe.map(|codec| (number, codec)));
                let shown = self.decode(keyframe, data);
                let mut expected = Planes::new();
                let drawn = PlanesRef::packed(OF, layout, &encoder.data).unwrap();
                match (layout, self.codec.layout()) {
                    (SampleLayout::Yuv444, SampleLayout::Yuv420) => to_420(&drawn, &mut expected),
                    _ => expected.copy_from(&drawn),
                }
                assert_eq!(shown.layout(), self.codec.layout());
                let samples = shown.data().iter().zip(expected.data());
                let sum: u64 = samples.map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
                assert!(sum < 8 * expected.data().len() as u64, "frame {number} differs by {sum}");
            }
            keyframes
        }
    }

    type Keyframes = Vec<(u32, FrameCodec)>;

    #[test]
    fn a_video_goes_to_the_gpu_when_that_is_ready_and_back_when_it_fails() {
        let later =
            ["silentlater", "abortlater", "hanglater", "garbagelater", "onlykeyframeslater"];
        for element in ["good"].into_iter().chain(later) {
            let stubs = Stubs::new(&format!("video-{element}"), &[element]);
            let mut encoder = FrameEncoder::new(1, port_frame(OF));
            encoder.encoders.gpus = [None, None, Some(stubs.encoders.clone())];
            let mut viewer = Viewer::new();
            assert_eq!(viewer.play(&mut encoder, 0..1), [(0, H264)], "the library begins");
            stubs.reports.recv().unwrap().expect("the GPU's encoder passes its trial");
            let keyframes = viewer.play(&mut encoder, 1..30);
            let by = encoder.encoder.by().unwrap();
            match element {
                "good" => assert_eq!((keyframes, by), (vec![(1, H264)], By::Gpu(H264))),
                // Eight frames on the GPU; the ninth is the library's.
                _ => {
                    let expected = (vec![(1, H264), (9, H264)], By::Library);
                    assert_eq!((keyframes, by), expected, "{element}");
                }
            }
        }
    }

    /// GStreamer's libaom in the place of a GPU's encoder and decoder.
    #[test]
    fn a_viewer_that_decodes_av1_gets_it_as_long_as_it_does() {
        let both = Stubs::of(Av1, "video-av1", "stub/goodav1enc,aom/av1dec");
        let h264 = Stubs::of(H264, "video-beside-av1", "stub/goodenc");
        let mut encoder = FrameEncoder::new(1, port_frame(OF));
        encoder.encoders.gpus = [None, Some(both.encoders.clone()), Some(h264.encoders.clone())];
        let mut viewer = Viewer::new();
        assert_eq!(viewer.play(&mut encoder, 0..1), [(0, H264)]);
        h264.reports.recv().unwrap().expect("the GPU's encoder passes its trial");
        assert_eq!(viewer.play(&mut encoder, 1..5), [(1, H264)]);
        assert!(both.process().is_none(), "nobody decodes AV1");
        let settings = Settings::new(Purpose::Decode, Av1);
        viewer.other = Some(Process::start(&both.program(), &settings).unwrap());
        viewer.codecs = Av1.bit();
        // Nothing waits for the trial.
        let mut keyframes = viewer.play(&mut encoder, 5..7);
        assert!(both.reports.recv().unwrap().unwrap().starts_with("goodav1enc: "));
        keyframes.extend(viewer.play(&mut encoder, 7..20));
        let [(5..=7, Av1)] = keyframes[..] else { panic!("{keyframes:?}") };
        // The viewer takes it back.
        let process = viewer.other.take();
        assert_eq!(viewer.play(&mut encoder, 20..24), [(20, H264)]);
        assert_eq!(encoder.encoder.by(), Some(By::Gpu(H264)));
        viewer.other = process;
        assert_eq!(viewer.play(&mut encoder, 24..28), [(24, Av1)]);
        let process = rustix::process::Pid::from_raw(both.process().unwrap().cast_signed());
        rustix::process::kill_process(process.unwrap(), rustix::process::Signal::KILL).unwrap();
        let keyframes = viewer.play(&mut encoder, 28..32);
        assert_eq!(keyframes, [(28, H264), (29, H264)], "the library's frame, then the GPU's");
    }

    /// x264 and FFmpeg, by GStreamer, in the place of a GPU's encoder and of a viewer's decoder.
    #[test]
    fn who_wants_4_4_4_gets_it_and_4_2_0_until_it_is_ready_and_after_it_failed() {
        let full = Stubs::of(H264Yuv444, "video-444", "x264/x264enc,libav/avdec_h264");
        let mut encoder = FrameEncoder::new(1, port_frame(OF));
        encoder.encoders.gpus = [Some(full.encoders.clone()), None, None];
        let mut viewer = Viewer::new();
        assert_eq!(viewer.play(&mut encoder, 0..3), [(0, H264)]);
        assert!(full.process().is_none(), "nobody wants it");
        let settings = Settings::new(Purpose::Decode, H264Yuv444);
        viewer.other = Some(Process::start(&full.program(), &settings).unwrap());
        viewer.codecs = H264Yuv444.bit();
        encoder.encoders.start_full_colour();
        assert!(full.reports.recv().unwrap().unwrap().starts_with("x264enc: "));
        encoder.encoders.start_full_colour();
        assert_eq!(viewer.play(&mut encoder, 3..8), [(3, H264Yuv444)]);
        assert_eq!(encoder.encoder.by(), Some(By::Gpu(H264Yuv444)));
        // The person chooses another quality, and this one again.
        viewer.codecs = 0;
        assert_eq!(viewer.play(&mut encoder, 8..12), [(8, H264)]);
        viewer.codecs = H264Yuv444.bit();
        assert_eq!(viewer.play(&mut encoder, 12..16), [(12, H264Yuv444)]);
        let process = rustix::process::Pid::from_raw(full.process().unwrap().cast_signed());
        rustix::process::kill_process(process.unwrap(), rustix::process::Signal::KILL).unwrap();
        assert_eq!(viewer.play(&mut encoder, 16..20), [(16, H264)]);
        assert!(full.reports.recv().unwrap().is_err(), "the session is told");
    }

    #[test]
    fn av1_that_nothing_decodes_here_is_not_sent() {
        let stubs = Stubs::of(Av1, "video-av1-alone", "stub/goodav1enc");
        let mut encoder = FrameEncoder::new(1, port_frame(OF));
        encoder.encoders.gpus = [None, Some(stubs.encoders.clone()), None];
        let both = Stubs::of(Av1, "video-av1-both", "aom/av1dec");
        let mut viewer = Viewer::new();
        let settings = Settings::new(Purpose::Decode, Av1);
        viewer.other = Some(Process::start(&both.program(), &settings).unwrap());
        viewer.codecs = Av1.bit();
        assert_eq!(viewer.play(&mut encoder, 0..2), [(0, H264)]);
        let why = stubs.reports.recv().unwrap().unwrap_err();
        assert!(why.contains("nothing decodes it"), "{why}");
        assert_eq!(viewer.play(&mut encoder, 2..6), []);
    }
}
