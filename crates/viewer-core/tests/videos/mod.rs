//! A viewer with video streams, driven by the test, whose frames each have one grey, so that a test
//! sees which one is shown. For the tests of videos; knows viewer-core's public interface.
#![allow(dead_code, reason = "each test binary uses its part")]

use thinc_protocol::command::Command;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{
    CacheGrant, Geometry, ScreenPart, SessionHello, SessionMessage, Update,
};
use thinc_protocol::video::{
    Codec, Eye, FrameData, SampleLayout, Source, VideoCommand, VideoStatus,
};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes};
use thinc_viewer_core::{
    Cache, ClipboardPolicy, StereoMode, VideoEvent, Viewer, ViewerConfig, ViewerError,
};

pub(crate) const SIZE: Size = Size { width: 48, height: 32 };
/// Source of most streams.
pub(crate) const SOURCE: Source =
    Source { size: Size { width: 16, height: 8 }, crop: Rect::at(0, 0, 16, 8) };

pub(crate) struct Shown {
    pub(crate) viewer: Viewer,
    pub(crate) now: u64,
    epoch: u32,
    seq: u64,
    said: Deframer,
    /// The screen of a shell that paints videos itself.
    mirror: Option<Mirror>,
}

/// Like the GPU presenter: damaged pixels come from the framebuffer, and from layers if there are
/// any.
#[derive(Default)]
struct Mirror {
    size: Size,
    pixels: Vec<u32>,
}

impl Mirror {
    fn follow(&mut self, viewer: &mut Viewer) {
        let damage = viewer.take_damage();
        let framebuffer = viewer.framebuffer();
        if self.size != framebuffer.size() {
            self.size = framebuffer.size();
            self.pixels = vec![0xdead_beef; self.size.area() as usize];
            assert_eq!(
                damage,
                Region::from(self.size.rect()),
                "a new geometry is damaged all over"
            );
        }
        let width = self.size.width as usize;
        let mut below = damage.clone();
        for layer in viewer.video_layers() {
            assert!(layer.region().rect_count() <= 64 && !layer.region().is_empty());
            let clip = layer.region().intersection(&damage);
            below.subtract(&clip);
            Painter::new().paint(
                &layer.planes(),
                layer.source(),
                layer.place(),
                &clip,
                &mut self.pixels,
                width,
            );
        }
        for rect in below.rects() {
            for y in rect.y1..rect.y2 {
                let span =
                    y as usize * width + rect.x1 as usize..y as usize * width + rect.x2 as usize;
                self.pixels[span.clone()].copy_from_slice(&framebuffer.pixels()[span]);
            }
        }
    }
}

impl Shown {
    pub(crate) fn new() -> Shown {
        Shown::with(ViewerCaps::VIDEO | ViewerCaps::H264)
    }

    pub(crate) fn with(caps: u32) -> Shown {
        let config =
            ViewerConfig { name: "test".into(), size: SIZE, caps, clipboard: ClipboardPolicy::OFF };
        Shown::greet(Viewer::new(&config), 0)
    }

    /// A viewer that shows stereo programs in this mode, of a session with these capabilities.
    pub(crate) fn with_stereo(mode: StereoMode, session_caps: u32) -> Shown {
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264;
        let config =
            ViewerConfig { name: "test".into(), size: SIZE, caps, clipboard: ClipboardPolicy::OFF };
        let mut viewer = Viewer::new(&config);
        viewer.choose_stereo(mode);
        Shown::greet(viewer, session_caps)
    }

    /// A viewer that decodes these codecs beside H.264, of a session with these capabilities.
    pub(crate) fn with_codecs(codecs: u32, session_caps: u32) -> Shown {
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264;
        let config =
            ViewerConfig { name: "test".into(), size: SIZE, caps, clipboard: ClipboardPolicy::OFF };
        let mut viewer = Viewer::new(&config);
        viewer.set_video_codecs(codecs);
        Shown::greet(viewer, session_caps)
    }

    /// A viewer that offers a cache.
    pub(crate) fn with_cache(cache: Cache) -> Shown {
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264;
        let config =
            ViewerConfig { name: "test".into(), size: SIZE, caps, clipboard: ClipboardPolicy::OFF };
        let mut viewer = Viewer::new(&config);
        viewer.offer_cache(cache);
        let mut shown = Shown::greet(viewer, 0);
        shown.say(&SessionMessage::Cache(CacheGrant { token: [1; 16], resumed: false })).unwrap();
        shown
    }

    /// The shell paints videos itself from now on.
    pub(crate) fn paint_elsewhere(&mut self) {
        self.viewer.set_video_layers(true);
        self.mirror = Some(Mirror::default());
        self.follow();
    }

    /// The shell presents the screen.
    pub(crate) fn follow(&mut self) {
        if let Some(mirror) = &mut self.mirror {
            mirror.follow(&mut self.viewer);
        }
    }

    fn greet(viewer: Viewer, caps: u32) -> Shown {
        let mut shown = Shown {
            viewer,
            now: 1_000,
            epoch: 0,
            seq: 0,
            said: Deframer::new(1 << 24),
            mirror: None,
        };
        let hello =
            SessionHello { version: 1, caps, name: String::new(), message_bytes_max: 65536 };
        shown.say(&SessionMessage::Hello(hello)).unwrap();
        shown.say(&SessionMessage::Pong(1)).unwrap();
        shown.geometry(SIZE);
        shown.fill(SIZE.rect(), 0);
        shown
    }

    pub(crate) fn say(&mut self, message: &SessionMessage<'_>) -> Result<(), ViewerError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.viewer.handle_bytes(&bytes, self.now)
    }

    pub(crate) fn geometry(&mut self, size: Size) {
        self.epoch += 1;
        let geometry = Geometry { epoch: self.epoch, size, shown: None };
        self.say(&SessionMessage::Geometry(geometry)).unwrap();
    }

    /// A viewer that has requested a view.
    pub(crate) fn set_shown(&mut self, size: Size, shown: ScreenPart) {
        self.epoch += 1;
        let geometry = Geometry { epoch: self.epoch, size, shown: Some(shown) };
        self.say(&SessionMessage::Geometry(geometry)).unwrap();
    }

    pub(crate) fn update(
        &mut self,
        commands: &[Command<'_>],
        end_of_frame: bool,
    ) -> Result<(), ViewerError> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        self.seq += 1;
        let (seq, epoch) = (self.seq, self.epoch);
        let update = Update {
            seq,
            after: 0,
            epoch,
            echo: None,
            end_of_frame,
            packed: None,
            commands: &bytes,
        };
        self.say(&SessionMessage::Update(update))
    }

    pub(crate) fn command(&mut self, command: Command<'_>) -> Result<(), ViewerError> {
        self.update(&[command], true)
    }

    pub(crate) fn video(&mut self, command: VideoCommand<'_>) -> Result<(), ViewerError> {
        self.command(Command::Video(command))
    }

    pub(crate) fn fill(&mut self, rect: Rect, color: u32) {
        self.command(Command::Sfill { region: rect.into(), color }).unwrap();
    }

    pub(crate) fn begin(&mut self, id: u16, codec: Codec, place: Rect) {
        self.video(VideoCommand::Init { id, codec, eye: Eye::Left, source: SOURCE, place })
            .unwrap();
    }

    /// Starts a stream whose decoder is ready; returns its number.
    pub(crate) fn begin_coded(&mut self, id: u16, place: Rect) -> u64 {
        self.begin(id, Codec::H264, place);
        let Some(VideoEvent::Started { stream, codec: Codec::H264, .. }) = self.viewer.poll_video()
        else {
            panic!("the shell is told of the stream")
        };
        self.viewer.handle_video_ready(stream);
        stream
    }

    pub(crate) fn coded(&mut self, id: u16, clip: impl Into<Region>, keyframe: bool, data: &[u8]) {
        self.video(next(id, clip, FrameData::h264(keyframe, data))).unwrap();
    }

    pub(crate) fn plain(&mut self, id: u16, clip: impl Into<Region>, luma: u8) {
        let planes = grey(SOURCE.size, luma);
        self.video(next(
            id,
            clip,
            FrameData::Plain { layout: SampleLayout::Yuv420, data: planes.data() },
        ))
        .unwrap();
    }

    /// The next frame for the decoder.
    pub(crate) fn take(&mut self) -> (u64, Vec<u8>) {
        match self.viewer.poll_video() {
            Some(VideoEvent::Frame { serial, data, .. }) => (serial, data),
            other => panic!("expected a frame to decode, got {other:?}"),
        }
    }

    /// The decoder returns a frame.
    pub(crate) fn decoded(&mut self, serial: u64, luma: u8) {
        let mut planes = grey(SOURCE.size, luma);
        if self.mirror.is_some() {
            self.viewer.handle_video_planes(serial, &mut planes, self.now);
        } else {
            self.viewer.handle_video_frame(serial, &planes.as_ref(), self.now);
        }
    }

    /// The video reports that the viewer has sent since the last call.
    pub(crate) fn answers(&mut self) -> Vec<VideoStatus> {
        self.messages().into_iter().filter_map(video_of).collect()
    }

    pub(crate) fn messages(&mut self) -> Vec<ViewerMessage> {
        let mut out = Vec::new();
        while self.viewer.poll_transmit(&mut out) {}
        self.said.push(&out);
        let mut messages = Vec::new();
        while let Some(frame) = self.said.next().unwrap() {
            messages.push(ViewerMessage::decode(&frame).unwrap());
        }
        messages
    }

    /// The pixel that is shown.
    pub(crate) fn at(&self, x: usize, y: usize) -> u32 {
        let painted = || self.viewer.framebuffer().row(y)[x];
        self.mirror
            .as_ref()
            .map_or_else(painted, |mirror| mirror.pixels[y * mirror.size.width as usize + x])
            & 0x00ff_ffff
    }
}

fn video_of(message: ViewerMessage) -> Option<VideoStatus> {
    match message {
        ViewerMessage::Video(state) => Some(state),
        _ => None,
    }
}

pub(crate) fn next(id: u16, clip: impl Into<Region>, frame: FrameData<'_>) -> VideoCommand<'_> {
    VideoCommand::Next { id, time: 0, clip: clip.into(), frame }
}

/// All samples of one grey.
pub(crate) fn grey(size: Size, luma: u8) -> Planes {
    let mut planes = Planes::new();
    planes.reset(size, SampleLayout::Yuv420);
    let [samples, blue, red] = planes.planes_mut();
    samples.fill(luma);
    blue.fill(128);
    red.fill(128);
    planes
}

/// The pixel of a frame of that grey (doc/protocol.md, section 9).
pub(crate) fn shade(luma: u8) -> u32 {
    let value = (298 * (i32::from(luma) - 16) + 128) >> 8;
    value.clamp(0, 255) as u32 * 0x01_0101
}
