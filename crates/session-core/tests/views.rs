//! Viewers that choose their view: what they are told, how often, within which bounds, and who
//! controls the screen's size. From VIEW messages, to geometries, jobs and requests. Knows
//! session-core's public interface; crates/sim/tests/views.rs checks the pixels.

use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{Geometry, ScreenPart, SessionMessage};
use thinc_protocol::viewer::{View, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{Config, Job, JobResult, NoPixels, Request, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
const SMALL: Size = Size { width: 320, height: 240 };

struct Shell {
    session: Session,
    now: u64,
}

fn view(size: Size, part: Rect) -> ViewerMessage {
    ViewerMessage::View(View { size, part })
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config::new("views", SIZE));
        session.handle_attach(SIZE);
        Shell { session, now: 1_000 }
    }

    fn join(&mut self, caps: u32, size: Size) -> ViewerId {
        let hello =
            ViewerHello { version: 1, caps, size, message_bytes_max: 1 << 24, name: "test".into() };
        self.session.add_viewer(&hello, self.now)
    }

    fn say(&mut self, id: ViewerId, message: &ViewerMessage) {
        self.session.handle_message(id, message, self.now).expect("a view is never a violation");
    }

    /// The jobs that are ready now, none of which is encoded.
    fn jobs(&mut self, id: ViewerId) -> Vec<Job> {
        let idle = DrawRecord { op: 1, more: false, window: 0, kind: RecordKind::Idle };
        self.session.handle_record(&idle, self.now);
        std::iter::from_fn(|| self.session.poll_job(id, self.now)).collect()
    }

    /// Everything drawn up to `op` is equal to what the viewer shows.
    fn finish(&mut self, job: Job, op: u64) {
        let planned = self.session.render(job, &mut NoPixels { tag: op });
        self.session
            .complete(planned.expect("it is new"), JobResult::encoded(&Commands::default()));
    }

    fn geometries(&mut self, id: ViewerId) -> Vec<Geometry> {
        let mut out = Vec::new();
        let _ = self.jobs(id);
        self.session.poll_transmit(id, self.now, &mut Unpacked, &mut out);
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(&out);
        let mut geometries = Vec::new();
        while let Some(frame) = deframer.next().expect("whole messages") {
            if let Ok(SessionMessage::Geometry(geometry)) = SessionMessage::decode(&frame) {
                geometries.push(geometry);
            }
        }
        geometries
    }

    fn resizes(&mut self) -> Vec<Size> {
        let requests = std::iter::from_fn(|| self.session.poll_request(self.now));
        requests
            .filter_map(
                |request| if let Request::Resize(to) = request { Some(to.size()) } else { None },
            )
            .collect()
    }
}

#[test]
fn a_viewer_is_told_its_view_and_its_jobs_are_in_it() {
    let mut shell = Shell::new();
    let (small, whole) = (shell.join(0, Size::default()), shell.join(0, Size::default()));
    shell.say(small, &view(SMALL, Rect::default()));
    let shown = Some(ScreenPart { screen: SIZE, part: SIZE.rect() });
    assert_eq!(shell.geometries(small), [Geometry { epoch: 2, size: SMALL, shown }]);
    assert_eq!(
        shell.geometries(whole),
        [Geometry { epoch: 1, size: SIZE, shown: None }],
        "of that viewer only"
    );
    let transform = shell.session.view(small).expect("it is scaled");
    assert_eq!((transform.size(), transform.part()), (SMALL, SIZE.rect()));

    let part = Rect::at(1000, 700, 200, 200);
    shell.now += 200_000;
    shell.say(small, &view(Size::default(), part));
    let shown = Some(ScreenPart { screen: SIZE, part: Rect::new(1000, 700, 1024, 768) });
    let size = Size { width: 24, height: 68 };
    assert_eq!(
        shell.geometries(small),
        [Geometry { epoch: 3, size, shown }],
        "cut to the screen, at its own size"
    );
    shell.session.handle_geometry(Size { width: 1100, height: 768 });
    let size = Size { width: 100, height: 68 };
    assert_eq!(shell.geometries(small)[0].size, size, "and kept when the screen grows");
    shell.now += 200_000;
    shell.say(small, &ViewerMessage::View(View::default()));
    assert_eq!(shell.geometries(small)[0].shown, None, "as without a view");
    assert_eq!(shell.session.view(small), None);
}

#[test]
fn a_drawing_outside_the_view_is_no_job_and_one_inside_is_a_small_one() {
    let mut shell = Shell::new();
    let id = shell.join(0, Size::default());
    shell.say(id, &view(SMALL, Rect::at(0, 0, 512, 384)));
    for job in shell.jobs(id) {
        assert!(SMALL.rect().contains(&job.region.extents()), "{job:?}");
        shell.finish(job, 1);
    }
    let mut op = 1;
    let mut draw = |shell: &mut Shell, rect| {
        op += 1;
        shell.now += 10_000;
        let kind = RecordKind::Draw {
            dst: DrawableId::SCREEN,
            rect,
            hint: DrawHint::Glyphs,
            alpha: Alpha::Opaque,
        };
        shell.session.handle_record(&DrawRecord { op, more: false, window: 7, kind }, shell.now);
    };
    draw(&mut shell, Rect::at(600, 100, 80, 16));
    assert_eq!(shell.jobs(id), [], "it sees none of it");
    draw(&mut shell, Rect::at(8, 8, 16, 16));
    let jobs = shell.jobs(id);
    assert_eq!(
        jobs.iter().map(|job| job.region.extents()).collect::<Vec<_>>(),
        [Rect::at(5, 5, 10, 10)]
    );
}

#[test]
fn a_flood_of_views_counts_ten_times_a_second_and_ends_with_the_last() {
    let mut shell = Shell::new();
    let id = shell.join(0, Size::default());
    assert_eq!(shell.geometries(id).len(), 1);
    let mut geometries = Vec::new();
    let begun = shell.now;
    for i in 0..10_000u32 {
        shell.say(id, &view(Size { width: 100 + i % 200, height: 100 }, Rect::default()));
        shell.now += 100;
        if i % 16 == 0 {
            geometries.extend(shell.geometries(id));
        }
        shell.session.check_invariants();
    }
    assert!(geometries.len() <= 11, "{} views in {} us", geometries.len(), shell.now - begun);
    let last = Size { width: 100 + 9_999 % 200, height: 100 };
    shell.now = shell.session.poll_deadline(shell.now).expect("the last one waits").max(shell.now);
    shell.now += 100_000;
    assert_eq!(shell.geometries(id).last().map(|geometry| geometry.size), Some(last));
}

#[test]
fn no_view_costs_more_than_a_screen_could() {
    let mut shell = Shell::new();
    let id = shell.join(0, Size::default());
    let asked = |shell: &mut Shell, width, height, part| {
        shell.now += 100_000;
        shell.say(id, &view(Size { width, height }, part));
        shell.geometries(id).last().expect("it is answered").size
    };
    let tiny = asked(&mut shell, 1, 1, Rect::default());
    assert_eq!(tiny, Size { width: 32, height: 24 }, "one pixel stands for 32 × 32 at most");
    let huge = asked(&mut shell, 16384, 4096, Rect::default());
    assert!(huge.area() <= 3840 * 2160 && huge.area() > 3840 * 2000, "{huge:?}");
    let wide = asked(&mut shell, 16384, 1, Rect::at(0, 0, 1, 768));
    assert!(wide.area() <= 3840 * 2160, "{wide:?}");
    let outside = asked(&mut shell, 100, 75, Rect::at(5000, 5000, 10, 10));
    assert_eq!(outside, Size { width: 100, height: 75 }, "what lies outside is all of the screen");
    // In such a coarse view, a job reads no more of the screen than any other.
    shell.session.handle_geometry(Size { width: 8192, height: 8192 });
    let _ = asked(&mut shell, 256, 256, Rect::default());
    for job in shell.jobs(id) {
        let read = job.view.expect("it is scaled").source(&job.region.extents()).area();
        assert!(read <= 1920 * 1200, "a job reads {read} pixels");
    }
}

#[test]
fn no_frame_of_a_video_costs_more_than_a_screen_could() {
    let begun = |screen: u32| {
        let mut shell = Shell::new();
        let id = shell.join(ViewerCaps::VIDEO | ViewerCaps::H264, Size::default());
        shell.session.handle_geometry(Size { width: screen, height: screen });
        let size = Size { width: 256, height: 256 };
        shell.say(id, &view(size, Rect::default()));
        for _ in 0..30 {
            for job in shell.jobs(id) {
                shell.finish(job, 1);
            }
            shell.session.poll_transmit(id, shell.now, &mut Unpacked, &mut Vec::new());
            shell.session.handle_video_areas(id, &[size.rect()], shell.now);
            shell.now += 33_000;
        }
        shell.session.stats(id).expect("the stream exists").video.begun
    };
    assert_eq!(begun(1024), 1);
    assert_eq!(begun(8192), 0, "67 million pixels would be read for each frame");
}

#[test]
fn scrolling_in_a_scaled_view_is_no_video() {
    let begun = |dy: i32| {
        let mut shell = Shell::new();
        let id = shell.join(ViewerCaps::VIDEO | ViewerCaps::H264, Size::default());
        shell.say(id, &view(SMALL, Rect::default()));
        for op in 2..32 {
            if dy != 0 {
                let (src, dst, rect) =
                    (DrawableId::SCREEN, DrawableId::SCREEN, Rect::new(0, 0, 1024, 768 + dy));
                let kind = RecordKind::Copy { src, dst, rect, dx: 0, dy, over: false };
                shell
                    .session
                    .handle_record(&DrawRecord { op, more: false, window: 7, kind }, shell.now);
            }
            for job in shell.jobs(id) {
                shell.finish(job, op);
            }
            shell.session.poll_transmit(id, shell.now, &mut Unpacked, &mut Vec::new());
            shell.session.handle_video_areas(id, &[SMALL.rect()], shell.now);
            shell.now += 33_000;
        }
        shell.session.stats(id).expect("the stream exists").video.begun
    };
    assert_eq!(begun(0), 1, "an area that only changes is a video");
    assert_eq!(begun(-16), 0, "by 5 pixels of the view");
    assert_eq!(begun(-5), 0, "and by a fraction of a pixel: it is redrawn each time");
}

#[test]
fn a_viewer_with_a_view_leaves_the_screens_size_to_others() {
    let mut shell = Shell::new();
    let desktop = Size { width: 1280, height: 800 };
    let first = shell.join(ViewerCaps::RESIZE, desktop);
    assert_eq!(shell.resizes(), [desktop]);
    shell.session.handle_geometry(desktop);
    shell.session.handle_outputs(&[desktop.rect()]);
    let phone = shell.join(ViewerCaps::RESIZE, Size::default());
    assert_eq!(shell.session.controller(), Some(phone), "the newest that can");
    shell.say(phone, &view(SMALL, Rect::default()));
    assert_eq!(shell.session.controller(), Some(first));
    shell.say(phone, &ViewerMessage::Resize(SMALL));
    shell.now += 200_000;
    assert_eq!(shell.resizes(), []);
    shell.session.remove_viewer(first);
    assert_eq!(shell.session.controller(), Some(phone), "as the only viewer it may");
    shell.now += 200_000;
    assert_eq!(shell.resizes(), [SMALL], "and has reported its size");
}
