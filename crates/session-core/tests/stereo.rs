//! What a session sends for the right eye of stereo programs: to whom, in which form, where it is
//! visible, and when it ends; and that the framebuffer's pixels are as of any image. From records
//! and reports, through the public interface, to commands on the wire. Knows no pixels: jobs are
//! answered with made-up commands.

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::video::{DecoderState, Eye, FrameData, VideoCommand, VideoStatus};
use thinc_protocol::viewer::{Ack, View, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Capture, Coding, Config, CopyCommand, Job, JobResult, NoPixels, Plan, Render, Session,
    Unavailable, Unpacked, VideoFrame, VideoOrigin, VideoPolicy, ViewerId,
};

const SIZE: Size = Size { width: 640, height: 480 };
const PLACE: Rect = Rect::at(100, 100, 320, 240);
const SCREEN: DrawableId = DrawableId::SCREEN;
const VIDEO: u32 = ViewerCaps::VIDEO | ViewerCaps::H264;
/// Longer than a picture takes to rest.
const REST: Micros = 150_000;

/// A screen for two windows of this size, and larger ones.
const LARGE: Size = Size { width: 5120, height: 2160 };
const WINDOW: Rect = Rect::at(100, 100, 1240, 900);
/// Bytes a second of a path that carries [`WINDOW`] as pixels while it rests, of which packing
/// leaves a quarter, and of one that carries it at 25 frames a second.
const SLOW: u64 = 6_000_000;
const FAST: u64 = 400_000_000;

/// A session with one viewer, which takes and acknowledges all at once, or after a path has carried
/// it.
struct Bed {
    session: Session,
    viewer: ViewerId,
    screen: Size,
    /// Bytes a second; 0: at once.
    path: u64,
    /// Of what encoders return; 0: a few bytes for any job.
    bytes_per_pixel: u64,
    now: Micros,
    op: u64,
    caps: u32,
    /// Pixels of the framebuffer that jobs have read.
    read: Region,
}

impl Bed {
    fn new(caps: u32, video: VideoPolicy) -> Bed {
        Bed::on_path(SIZE, 0, caps, video)
    }

    fn on_path(screen: Size, path: u64, caps: u32, video: VideoPolicy) -> Bed {
        let config = Config { offscreen: false, video, ..Config::new("stereo", screen) };
        let mut session = Session::new(config);
        session.handle_attach(screen);
        let hello = ViewerHello {
            version: 1,
            caps,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: "tests".into(),
        };
        let viewer = session.add_viewer(&hello, 1_000);
        let (now, read) = (1_000, Region::new());
        let bytes_per_pixel = if path > 0 { 4 } else { 0 };
        let mut bed =
            Bed { session, viewer, screen, path, bytes_per_pixel, now, op: 0, caps: 0, read };

        bed.turn();
        bed
    }

    fn record(&mut self, kind: RecordKind, more: bool) {
        self.session.handle_record(&DrawRecord { op: self.op, more, window: 7, kind }, self.now);
        self.session.check_invariants();
    }

    /// A stereo frame in this place, visible in these rectangles.
    fn frame_in(&mut self, place: Rect, visible: &[Rect]) {
        self.op += 1;
        let size = Size { width: place.width() as u32, height: place.height() as u32 };
        let hint = DrawHint::Stereo { port: 2, size, crop: size.rect(), place };
        for (at, &rect) in visible.iter().enumerate() {
            let kind = RecordKind::Draw { dst: SCREEN, rect, hint, alpha: Alpha::Opaque };
            self.record(kind, at + 1 < visible.len());
        }
        self.record(RecordKind::Idle, false);
    }

    /// A frame 40 ms after the one before. Returns what is sent.
    fn play(&mut self) -> Vec<String> {
        self.play_in(PLACE)
    }

    fn play_in(&mut self, place: Rect) -> Vec<String> {
        self.now += 40_000;
        self.frame_in(place, &[place]);
        self.turn()
    }

    /// The screen's pixels are copied into this window.
    fn copy(&mut self, window: u32, rect: Rect, (dx, dy): (i32, i32)) {
        self.op += 1;
        let kind = RecordKind::Copy { src: SCREEN, dst: SCREEN, rect, dx, dy, over: false };
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
        self.session.check_invariants();
        self.record(RecordKind::Idle, false);
    }

    fn draw(&mut self, rect: Rect) {
        self.op += 1;
        let (hint, alpha) = (DrawHint::Solid(0), Alpha::Opaque);
        self.record(RecordKind::Draw { dst: SCREEN, rect, hint, alpha }, false);
        self.record(RecordKind::Idle, false);
    }

    fn say(&mut self, message: &ViewerMessage) {
        self.now += 1_000;
        self.session.handle_message(self.viewer, message, self.now).unwrap();
    }

    fn ready(&mut self, id: u16) -> Vec<String> {
        self.say(&ViewerMessage::Video(VideoStatus { id, decoder: DecoderState::Ready }));
        self.turn()
    }

    /// Time passes as the session asks for. Returns what is sent.
    fn rest(&mut self, time: Micros) -> Vec<String> {
        let end = self.now + time;
        let mut received = self.awaken(end);
        self.now = self.now.max(end);
        received.extend(self.turn());
        received
    }

    /// The same, but only when the session asks for it.
    fn awaken(&mut self, end: Micros) -> Vec<String> {
        let mut received = Vec::new();
        while let Some(due) = self.session.poll_deadline(self.now).filter(|&due| due <= end) {
            self.now = due.max(self.now + 1);
            received.extend(self.turn());
        }
        received
    }

    /// Everything for the viewer is sent and acknowledged. Returns the commands of videos.
    fn turn(&mut self) -> Vec<String> {
        let mut received = Vec::new();
        loop {
            let job = self.session.poll_job(self.viewer, self.now);
            let has_job = job.is_some();
            job.into_iter().for_each(|job| self.finish(job));
            let mut out = Vec::new();
            let any = self.session.poll_transmit(self.viewer, self.now, &mut Unpacked, &mut out);
            self.hear(&out, &mut received);
            if !has_job && !any {
                return received;
            }
        }
    }

    fn finish(&mut self, job: Job) {
        let is_right_eye =
            job.video.is_some_and(|frame| matches!(frame.origin, VideoOrigin::RightEye(_)));
        assert_eq!(job.right_eye.is_some(), is_right_eye);
        assert!(!is_right_eye || job.region.is_empty(), "it has no pixels of the framebuffer");
        self.read.add(&job.region);
        let planned = self.session.render(job, &mut NoPixels { tag: self.op }).expect("it is new");
        let commands = answer(planned.job(), self.bytes_per_pixel);
        self.session.complete(planned, JobResult::encoded(&commands));
    }

    fn hear(&mut self, bytes: &[u8], received: &mut Vec<String>) {
        self.now += (bytes.len() as u64 * 1_000_000).checked_div(self.path).unwrap_or(0);
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(bytes);
        let mut newest = None;
        while let Some(frame) = deframer.next().unwrap() {
            match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => self.caps = hello.caps,
                SessionMessage::Update(update) => {
                    newest = Some(update.seq);
                    let commands = CommandReader::new(update.commands, self.screen);
                    received.extend(commands.filter_map(|command| words(&command.unwrap())));
                }
                _ => {}
            }
        }
        if let Some(update) = newest {
            self.say(&ViewerMessage::Ack(Ack { update, presented: None }));
        }
    }
}

/// A viewer that wants stereo and whose decoder of the first stream is ready.
fn ready_bed() -> Bed {
    let mut bed = Bed::new(VIDEO, VideoPolicy::H264);
    bed.say(&ViewerMessage::Stereo(true));
    assert_eq!(bed.play(), ["init 0 right 320x240"]);
    assert_eq!(bed.ready(0), ["key 0 [100,100 320x240]"]);
    bed
}

/// What an encoder would make of a job: so many bytes for each pixel, or a few.
fn answer(job: &Job, bytes_per_pixel: u64) -> Commands {
    let mut out = Commands::default();
    let pixels = match &job.video {
        Some(VideoFrame { coding: Coding::Plain, place, .. }) => place.area(),
        _ => job.region.area(),
    };
    let data = vec![0; (pixels * bytes_per_pixel).max(400) as usize];
    match (&job.video, &job.right_eye) {
        (Some(frame), Some(shown)) => {
            let picture = match frame.coding {
                Coding::Plain => FrameData::Pixels { data: &data },
                Coding::H264 { keyframe, .. } => FrameData::h264(keyframe, &data),
            };
            let (id, time, clip) = (frame.stream, frame.time, shown.clip.clone());
            let next = VideoCommand::Next { id, time, clip, frame: picture };
            Command::Video(next).append_to(&mut out);
        }
        _ if bytes_per_pixel > 0 && !job.region.is_empty() => {
            let (rect, encoding) = (job.region.extents(), Encoding::Residuals);
            Command::Raw { rect, encoding, data: &data }.append_to(&mut out);
        }
        _ if !job.region.is_empty() => {
            Command::Sfill { region: job.region.clone(), color: 0 }.append_to(&mut out);
        }
        _ => {}
    }
    out
}

fn words(command: &Command<'_>) -> Option<String> {
    let Command::Video(command) = command else { return None };
    let id = command.id();
    let rect = |rect: &Rect| {
        let Rect { x1, y1, .. } = rect;
        format!("{x1},{y1} {}x{}", rect.width(), rect.height())
    };
    let clip = |clip: &Region| {
        let rects: Vec<String> = clip.rects().iter().map(rect).collect();
        format!("[{}]", rects.join("; "))
    };
    Some(match command {
        VideoCommand::Init { eye, place, .. } => {
            let eye = if *eye == Eye::Right { "right" } else { "left" };
            format!("init {id} {eye} {}x{}", place.width(), place.height())
        }
        VideoCommand::Next { frame: FrameData::Pixels { .. }, clip: at, .. } => {
            format!("pixels {id} {}", clip(at))
        }
        VideoCommand::Next { frame: FrameData::Coded { keyframe, .. }, clip: at, .. } => {
            format!("{} {id} {}", if keyframe.is_some() { "key" } else { "next" }, clip(at))
        }
        VideoCommand::Next { .. } => format!("samples {id}"),
        VideoCommand::Move { x, y, .. } => format!("move {id} {x},{y}"),
        VideoCommand::SourceSize { source, .. } => {
            format!("source {id} {}x{}", source.size.width, source.size.height)
        }
        VideoCommand::PlaceSize { size, .. } => format!("size {id} {}x{}", size.width, size.height),
        VideoCommand::End { .. } => format!("end {id}"),
    })
}

#[test]
fn only_a_viewer_that_wants_it_gets_the_right_eye() {
    let mut bed = Bed::new(VIDEO, VideoPolicy::Auto);
    assert_ne!(bed.caps & SessionCaps::STEREO, 0, "a session knows the message");
    for _ in 0..5 {
        assert_eq!(bed.play(), [""; 0]);
    }
    assert_eq!(bed.read.intersection(&PLACE.into()), PLACE.into(), "the left eye's are pixels");
    assert_eq!(bed.rest(REST), [""; 0]);
    bed.say(&ViewerMessage::Stereo(true));
    assert_eq!(bed.turn(), ["init 0 right 320x240"], "also of a program that rests");
    bed.say(&ViewerMessage::Stereo(false));
    assert_eq!(bed.turn(), ["end 0"]);
    // Off and on before anything was sent: the viewer has dropped what it had.
    let mut hasty = ready_bed();
    hasty.say(&ViewerMessage::Stereo(false));
    hasty.say(&ViewerMessage::Stereo(true));
    assert_eq!(hasty.turn(), ["end 0", "init 1 right 320x240"]);
    let mut off = Bed::new(VIDEO, VideoPolicy::Off);
    assert_eq!(off.caps & SessionCaps::STEREO, 0);
    off.say(&ViewerMessage::Stereo(true));
    assert_eq!(off.play(), [""; 0]);
    let mut without = Bed::new(0, VideoPolicy::Auto);
    without.say(&ViewerMessage::Stereo(true));
    assert_eq!(without.play(), [""; 0], "it takes no streams");
}

#[test]
fn it_is_coded_while_it_moves_and_pixels_once_it_rests() {
    let mut bed = ready_bed();
    for _ in 0..5 {
        assert_eq!(bed.play(), ["next 0 [100,100 320x240]"]);
    }
    assert_eq!(bed.rest(REST), ["pixels 0 [100,100 320x240]"]);
    assert_eq!(bed.rest(10 * REST), [""; 0], "once");
    assert_eq!(bed.play(), ["next 0 [100,100 320x240]"], "it goes on where it was");
}

#[test]
fn a_viewer_without_a_codec_gets_pixels() {
    let mut bed = Bed::new(ViewerCaps::VIDEO, VideoPolicy::Auto);
    bed.say(&ViewerMessage::Stereo(true));
    assert_eq!(bed.play(), [""; 0], "it may outpace the path");
    assert_eq!(bed.rest(REST), ["init 0 right 320x240"]);
    assert_eq!(bed.ready(0), ["pixels 0 [100,100 320x240]"]);
    // While it moves, if the path carries that.
    let mut bed = Bed::on_path(LARGE, FAST, ViewerCaps::VIDEO, VideoPolicy::Auto);
    bed.say(&ViewerMessage::Stereo(true));
    assert_eq!(bed.play_in(WINDOW), ["init 0 right 1240x900"]);
    assert_eq!(bed.ready(0), ["pixels 0 [100,100 1240x900]"]);
    for _ in 0..20 {
        assert_eq!(bed.play_in(WINDOW), ["pixels 0 [100,100 1240x900]"]);
    }
    assert_eq!(bed.rest(10 * REST), [""; 0]);
}

/// A viewer that wants all as it is, on a slow path: what it shows would be an old picture.
#[test]
fn what_outpaces_the_path_without_a_codec_is_hidden_until_it_rests() {
    for policy in [VideoPolicy::Auto, VideoPolicy::Plain] {
        outpaces_the_path(policy);
    }
}

fn outpaces_the_path(policy: VideoPolicy) {
    let mut bed = Bed::on_path(LARGE, SLOW, VIDEO, policy);
    // The path is measured. No time passes from here on but what the test says.
    bed.bytes_per_pixel = 0;
    bed.say(&ViewerMessage::PictureQuality(PictureQuality::Exact));
    bed.say(&ViewerMessage::Stereo(true));
    for _ in 0..20 {
        assert_eq!(bed.play_in(WINDOW), [""; 0], "nothing of it can be shown yet");
    }
    assert_eq!(bed.rest(REST), ["init 0 right 1240x900"]);
    assert_eq!(bed.ready(0), ["pixels 0 [100,100 1240x900]"]);
    assert_eq!(bed.rest(10 * REST), [""; 0]);
    assert_eq!(bed.play_in(WINDOW), ["end 0"], "the picture is an old one");
    for _ in 0..40 {
        assert_eq!(bed.play_in(WINDOW), [""; 0], "it does not begin for each frame");
    }
    let received = bed.awaken(bed.now + REST);
    assert_eq!(received, ["init 0 right 1240x900"], "once for each rest");
    assert_eq!(bed.ready(0), ["pixels 0 [100,100 1240x900]"]);
    // A menu is opened above.
    bed.now += 5_000;
    bed.draw(Rect::at(200, 200, 300, 400));
    assert_eq!(bed.turn(), ["end 0"], "it must not be covered");
    assert_eq!(bed.rest(2 * REST), ["init 0 right 1240x900"]);
    assert!(bed.ready(0)[0].starts_with("pixels 0 [100,100 1240x100; 100,200 100x400; "));
    if policy == VideoPolicy::Plain {
        return;
    }
    // It may be coded again.
    bed.say(&ViewerMessage::PictureQuality(PictureQuality::Auto));
    assert_eq!(bed.turn(), ["end 0", "init 1 right 1240x900"]);
    assert!(bed.ready(1)[0].starts_with("key 1 "));
}

/// A path that carries it at no time, so no viewer is told of a stream.
#[test]
fn what_can_be_sent_in_no_way_does_not_begin() {
    let mut slow = Bed::on_path(LARGE, SLOW / 20, ViewerCaps::VIDEO, VideoPolicy::Auto);
    slow.say(&ViewerMessage::Stereo(true));
    assert_eq!(slow.play_in(WINDOW), [""; 0]);
    assert_eq!(slow.rest(10 * REST), [""; 0]);
    // 2560 x 1600 pixels fit a message; 5120 x 2160 do not, and are no frame for an encoder.
    for (place, fits) in [(Rect::at(0, 0, 2560, 1600), true), (LARGE.rect(), false)] {
        for policy in [VideoPolicy::Auto, VideoPolicy::Plain] {
            let mut bed = Bed::on_path(LARGE, FAST, VIDEO, policy);
            bed.say(&ViewerMessage::PictureQuality(PictureQuality::Exact));
            bed.say(&ViewerMessage::Stereo(true));
            let mut received = bed.play_in(place);
            received.extend(bed.rest(REST));
            let begun = ["init 0 right 2560x1600"];
            assert_eq!(received, begun[..usize::from(fits)]);
            if fits {
                assert_eq!(bed.ready(0), ["pixels 0 [0,0 2560x1600]"]);
            }
        }
    }
}

/// A window grows past what an encoder takes, and shrinks again.
#[test]
fn a_window_that_grows_too_large_for_a_codec_is_not_left_with_an_old_picture() {
    let mut bed = Bed::on_path(LARGE, FAST, VIDEO, VideoPolicy::H264);
    bed.say(&ViewerMessage::Stereo(true));
    assert_eq!(bed.play_in(WINDOW), ["init 0 right 1240x900"]);
    assert_eq!(bed.ready(0), ["key 0 [100,100 1240x900]"]);
    assert_eq!(bed.play_in(LARGE.rect()), ["end 0"], "nor are they pixels: they are too many");
    assert_eq!(bed.rest(2 * REST), [""; 0]);
    // An encoder takes no picture of this width, but a message its pixels.
    let wide = Rect::at(0, 0, 5000, 400);
    let mut received = bed.play_in(wide);
    received.extend(bed.rest(REST));
    assert_eq!(received, ["init 0 right 5000x400"]);
    assert_eq!(bed.ready(0), ["pixels 0 [0,0 5000x400]"]);
    assert_eq!(bed.play_in(WINDOW), ["end 0", "init 1 right 1240x900"]);
    assert_eq!(bed.ready(1), ["key 1 [100,100 1240x900]"]);
}

#[test]
fn a_copy_of_it_in_another_window_leaves_it_where_it_is() {
    let mut bed = ready_bed();
    bed.now += 5_000;
    // A magnifier beside it, which shows the left eye's picture to both.
    bed.copy(8, Rect::at(430, 90, 210, 250), (340, 0));
    assert_eq!(bed.turn(), [""; 0]);
    // One that covers a part of what it shows.
    bed.copy(8, Rect::new(90, 90, 430, 350).translate(200, 0), (200, 0));
    assert_eq!(bed.turn(), ["next 0 [100,100 190x240]"]);
}

#[test]
fn a_window_above_hides_a_part_at_once() {
    let mut bed = ready_bed();
    bed.now += 5_000;
    bed.draw(Rect::new(300, 0, 640, 480));
    assert_eq!(bed.turn(), ["next 0 [100,100 200x240]"], "the picture is the same");
    assert_eq!(bed.rest(REST), ["pixels 0 [100,100 200x240]"]);
    // A frame in two parts, as X clips it round a menu.
    bed.now += 40_000;
    bed.frame_in(PLACE, &[Rect::new(100, 100, 420, 200), Rect::new(100, 200, 300, 340)]);
    assert_eq!(bed.turn(), ["next 0 [100,100 320x100; 100,200 200x140]"]);
    bed.draw(SIZE.rect());
    assert_eq!(bed.turn(), ["end 0"], "nothing of it is visible");
    assert_eq!(bed.play(), ["init 0 right 320x240"]);
}

#[test]
fn a_window_that_is_moved_takes_it_along() {
    let mut bed = ready_bed();
    bed.now += 5_000;
    bed.copy(7, Rect::new(90, 90, 430, 350).translate(50, 30), (50, 30));
    assert_eq!(bed.turn(), ["move 0 150,130", "next 0 [150,130 320x240]"]);
    // Beyond the screen's edge only a part of it is a source.
    bed.now += 40_000;
    let place = PLACE.translate(400, 0);
    bed.frame_in(place, &[Rect { x2: 640, ..place }]);
    assert_eq!(bed.turn(), [""; 0], "a keyframe was sent a moment ago");
    assert_eq!(
        bed.rest(2 * REST)[..4],
        ["source 0 140x240", "move 0 500,100", "size 0 140x240", "key 0 [500,100 140x240]"]
    );
}

#[test]
fn it_ends_with_its_window() {
    let mut bed = ready_bed();
    bed.record(RecordKind::VideoStopped { port: 2 }, false);
    assert_eq!(bed.turn(), ["end 0"]);
    // An image without stereo in the same window.
    let mut bed = ready_bed();
    bed.draw(PLACE);
    assert_eq!(bed.turn(), ["end 0"]);
}

#[test]
fn a_refused_decoder_is_not_asked_again_for_a_while() {
    let mut bed = Bed::new(VIDEO, VideoPolicy::Auto);
    bed.say(&ViewerMessage::Stereo(true));
    assert_eq!(bed.play(), ["init 0 right 320x240"]);
    bed.say(&ViewerMessage::Video(VideoStatus { id: 0, decoder: DecoderState::Refused }));
    assert_eq!(bed.play(), ["end 0"]);
    assert_eq!(bed.play(), [""; 0]);
    assert_eq!(bed.rest(3_000_000), ["init 0 right 320x240"]);
}

#[test]
fn a_viewer_that_lost_its_reference_gets_a_keyframe() {
    let mut bed = ready_bed();
    bed.rest(REST);
    bed.rest(REST);
    bed.say(&ViewerMessage::Video(VideoStatus { id: 0, decoder: DecoderState::NeedsKeyframe }));
    let received = bed.turn();
    let again = ["key 0 [100,100 320x240]", "pixels 0 [100,100 320x240]"];
    assert_eq!(received, again, "also while it rests");
}

/// The slot holds the next frame already, at another place, and its record is still to come.
#[test]
fn a_picture_that_is_gone_is_awaited_and_not_asked_for_again() {
    let mut bed = ready_bed();
    bed.now += 40_000;
    bed.frame_in(PLACE, &[PLACE]);
    let job = loop {
        let job = bed.session.poll_job(bed.viewer, bed.now).expect("the frame is due");
        if job.right_eye.is_some() {
            break job;
        }
        bed.finish(job);
    };
    assert!(bed.session.render(job, &mut Gone).is_none());
    assert_eq!(bed.turn(), [""; 0]);
    assert_eq!(bed.rest(10 * REST), [""; 0]);
    assert_eq!(bed.play(), ["key 0 [100,100 320x240]"], "the encoder's reference is unknown");
    assert_eq!(bed.rest(REST), ["pixels 0 [100,100 320x240]"]);
}

/// A shell that has no frame.
struct Gone;

impl Render for Gone {
    fn reset(&mut self, _size: Size) {}
    fn forget(&mut self, _region: &Region) {}
    fn copy(&mut self, _copy: &CopyCommand) {}
    fn read(&mut self, _job: &Job) -> Result<Capture, Unavailable> {
        Err(Unavailable)
    }
    fn plan(&mut self, _job: &Job) -> Plan<'_> {
        Plan::default()
    }
}

#[test]
fn a_scaled_view_has_it_in_the_size_that_it_shows() {
    let mut bed = Bed::new(VIDEO, VideoPolicy::H264);
    bed.say(&ViewerMessage::Stereo(true));
    let view = View { part: SIZE.rect(), size: Size { width: 320, height: 240 } };
    bed.say(&ViewerMessage::View(view));
    bed.rest(1_000_000);
    assert_eq!(bed.play(), ["init 0 right 160x120"]);
    assert_eq!(bed.ready(0), ["key 0 [50,50 160x120]"]);
    // A part of the screen, as it is: a stream begins again in another view.
    let part = Rect::new(200, 200, 400, 400);
    bed.say(&ViewerMessage::View(View { part, size: Size { width: 200, height: 200 } }));
    let received = bed.rest(1_000_000);
    assert_eq!(received, ["init 1 right 200x140"], "the part of the picture that it shows");
    assert_eq!(bed.ready(1)[0], "key 1 [0,0 200x140]");
}

#[test]
fn lossy_pixels_of_the_framebuffer_do_not_include_it() {
    let mut bed = ready_bed();
    for _ in 0..10 {
        bed.play();
    }
    bed.rest(20 * REST);
    bed.read.clear();
    bed.now += 5_000_000;
    assert_eq!(bed.turn(), [""; 0]);
    assert!(bed.read.is_empty(), "nothing is refreshed: {:?}", bed.read);
    assert!(bed.session.is_drained());
}
