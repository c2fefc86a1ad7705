//! The observers against a real X server: what a small client draws, presses and burns is what they
//! say. Nothing here measures how fast the machine is: times lie between two that were taken around
//! the act.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use thinc_bench::Error;
use thinc_bench::display::DisplayNumber;
use thinc_bench::observe::account::{Accounts, Group, Kind};
use thinc_bench::observe::frames::FrameWatch;
use thinc_bench::observe::input::Input;
use thinc_bench::observe::picture::{Picture, Rect};
use thinc_bench::observe::screen::ClientScreen;
use thinc_bench::observe::{barcode, connect, tcbench};
use thinc_bench::process::{Folder, Running, wait_for};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ChangeGCAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, ImageFormat,
    KeyButMask, Rectangle, WindowClass,
};
use x11rb::rust_connection::RustConnection;

const SIZE: (u32, u32) = (640, 480);
/// Longest wait for an event, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A small X client: one window over the whole screen.
struct Painter {
    x: RustConnection,
    window: u32,
    gc: u32,
}

impl Painter {
    fn new(display: &str) -> Result<Painter, Error> {
        let x = connect(display, None)?;
        let (root, window, gc) = (x.setup().roots[0].root, x.generate_id()?, x.generate_id()?);
        let events = EventMask::KEY_PRESS | EventMask::BUTTON_PRESS;
        let attributes = CreateWindowAux::new().background_pixel(0).event_mask(events);
        let (width, height) = (SIZE.0 as u16, SIZE.1 as u16);
        x.create_window(
            24,
            window,
            root,
            0,
            0,
            width,
            height,
            0,
            WindowClass::INPUT_OUTPUT,
            0,
            &attributes,
        )?;
        x.map_window(window)?;
        x.create_gc(gc, window, &CreateGCAux::new())?;
        let painter = Painter { x, window, gc };
        painter.sync()?;
        Ok(painter)
    }

    fn sync(&self) -> Result<(), Error> {
        self.x.get_input_focus()?.reply()?;
        Ok(())
    }

    fn fill(&self, rect: Rect, pixel: u32) -> Result<(), Error> {
        self.x.change_gc(self.gc, &ChangeGCAux::new().foreground(pixel))?;
        let rect = Rectangle {
            x: rect.x as i16,
            y: rect.y as i16,
            width: rect.width as u16,
            height: rect.height as u16,
        };
        self.x.poly_fill_rectangle(self.window, self.gc, &[rect])?;
        self.x.flush()?;
        Ok(())
    }

    fn put(&self, picture: &Picture, at: (i32, i32)) -> Result<(), Error> {
        let bytes: Vec<u8> = picture.pixels.iter().flat_map(|pixel| pixel.to_ne_bytes()).collect();
        let (width, height) = (picture.width as u16, picture.height as u16);
        let (x, y) = (at.0 as i16, at.1 as i16);
        self.x.put_image(
            ImageFormat::Z_PIXMAP,
            self.window,
            self.gc,
            width,
            height,
            x,
            y,
            0,
            24,
            &bytes,
        )?;
        self.x.flush()?;
        Ok(())
    }
}

fn random(seed: &mut u32, below: u32) -> u32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*seed >> 8) % below
}

#[test]
fn the_moments_of_a_picture_are_those_at_which_it_was_drawn() -> Result<(), Error> {
    let screen = ClientScreen::alone("moments", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let watch = screen.watch()?;
    assert!(!watch.changed(), "nothing is drawn yet");

    let whole = Rect::new(0, 0, SIZE.0, SIZE.1);
    // Far from the end, near it, and a last corner; each is waited for, so that each is a change of
    // its own.
    let steps = [
        (whole, 0x80_80_80),
        (whole, 0xf4_f4_f4),
        (whole, 0xff_ff_ff),
        (Rect::new(630, 470, 3, 2), 0xff_00_00),
    ];
    let mut moments = Vec::new();
    for (rect, pixel) in steps {
        let before = Instant::now();
        painter.fill(rect, pixel)?;
        wait_for("the watch sees a step", LIMIT, || {
            let at = (rect.y as u32 * SIZE.0 + rect.x as u32) as usize;
            (watch.picture().pixels[at] == pixel).then_some(())
        })?;
        let after = Instant::now();
        assert!(watch.last_change().is_some_and(|at| (before..=after).contains(&at)));
        moments.push(before..=after);
    }
    let reference = Picture::of_display(screen.display(), None)?;
    let changes = watch.finish()?;
    assert_eq!(changes.picture(), reference);
    let is = |at: Option<Instant>, step: usize| at.is_some_and(|at| moments[step].contains(&at));
    assert_eq!(changes.count(), 4);
    assert!(is(changes.first(), 0) && is(changes.last(), 3));
    assert!(
        is(changes.visible(), 1),
        "244 is within 16 levels of 255, and a corner of 6 pixels is below 1 %"
    );
    assert!(is(changes.exact(&reference, (0, 0)), 3));
    let left = Rect::new(0, 0, 320, 480);
    assert!(
        is(changes.within(left).exact(&reference.crop(left), (0, 0)), 2),
        "the corner is not in the left half"
    );
    assert!(is(changes.without(Rect::new(620, 460, 20, 20)).last(), 2));
    assert_eq!(
        changes.exact(&Picture::new(SIZE.0, SIZE.1, 0xff_ff_ff), (0, 0)),
        None,
        "the corner is red for good"
    );
    assert!(!changes.truncated());
    Ok(())
}

#[test]
fn nothing_that_is_drawn_at_full_speed_is_missed() -> Result<(), Error> {
    let screen = ClientScreen::alone("speed", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let watch = screen.watch()?;
    let mut seed = 7;
    for _ in 0..5000 {
        let (x, y) = (random(&mut seed, SIZE.0), random(&mut seed, SIZE.1));
        let rect =
            Rect::new(x as i32, y as i32, 1 + random(&mut seed, 40), 1 + random(&mut seed, 40));
        // The byte that no channel uses is set now and then: it is no part of the picture.
        painter.fill(rect, random(&mut seed, 1 << 24) | (random(&mut seed, 2) * 0xff00_0000))?;
    }
    painter.sync()?;
    let changes = watch.finish()?;
    let asked = Picture::of_display(screen.display(), None)?;
    assert_eq!(changes.picture(), asked, "the log ends with what the X server has");
    assert_eq!(screen.picture()?, asked, "and so does the framebuffer's file");
    assert!(changes.count() > 0 && changes.count() <= 5000);
    Ok(())
}

/// Ends the thread that draws, however the test ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_watch_that_begins_while_something_is_drawn_hears_what_follows() -> Result<(), Error> {
    let screen = ClientScreen::alone("begins", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for pixel in 0.. {
                if stop.load(Ordering::Relaxed)
                    || painter.fill(Rect::new(5, 5, 9, 9), pixel).is_err()
                {
                    break;
                }
                let _ = painter.sync();
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..150 {
            let watch = screen.watch()?;
            wait_for("the watch hears of what is drawn", LIMIT, || watch.changed().then_some(()))?;
        }
        Ok(())
    })
}

#[test]
fn the_pointer_is_no_part_of_the_picture() -> Result<(), Error> {
    let screen = ClientScreen::alone("pointer", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let (font, cursor) = (painter.x.generate_id()?, painter.x.generate_id()?);
    painter.x.open_font(font, b"cursor")?;
    painter.x.create_glyph_cursor(cursor, font, font, 68, 69, 0xffff, 0, 0, 0, 0xffff, 0)?;
    let shape = x11rb::protocol::xproto::ChangeWindowAttributesAux::new().cursor(cursor);
    painter.x.change_window_attributes(painter.window, &shape)?.check()?;
    let watch = screen.watch()?;
    let input = Input::new(&screen)?;
    for x in 0..50 {
        input.move_to(100 + x, 100)?;
    }
    // The server has moved the pointer when it says so.
    wait_for("the pointer arrives", LIMIT, || {
        let at = painter.x.query_pointer(painter.window).ok()?.reply().ok()?;
        ((at.root_x, at.root_y) == (149, 100)).then_some(())
    })?;
    assert_eq!(watch.finish()?.count(), 0, "a pointer was drawn into the framebuffer");
    Ok(())
}

fn frame(area: Rect, top: u32, bottom: u32) -> Picture {
    let mut picture =
        Picture::new(area.width, area.height, top.wrapping_mul(0x9e37_79b9) & 0xff_ffff);
    for (number, rect) in
        [(top, barcode::top(picture.rect())), (bottom, barcode::bottom(picture.rect()))]
    {
        barcode::draw(number, &mut picture.pixels, area.width as usize, rect);
    }
    picture
}

#[test]
fn frames_are_counted_and_torn_ones_are_not() -> Result<(), Error> {
    let screen = ClientScreen::alone("frames", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let area = Rect::new(100, 50, 400, 300);
    let watch = FrameWatch::start(&screen, area)?;
    let (mut whole, mut torn) = (Vec::new(), 0);
    for number in 0..100 {
        if number % 10 == 7 {
            // Its upper half over the lower half of the one before, and then the next.
            painter.put(&frame(area, number, number - 1), (area.x, area.y))?;
            torn += 1;
            wait_for("the torn frame is seen", LIMIT, || (watch.torn() == torn).then_some(()))?;
            continue;
        }
        painter.put(&frame(area, number, number), (area.x, area.y))?;
        wait_for("the frame is seen", LIMIT, || watch.last().filter(|last| last.1 == number))?;
        whole.push(number);
    }
    let frames = watch.finish()?;
    assert_eq!(frames.seen.iter().map(|frame| frame.1).collect::<Vec<_>>(), whole);
    assert_eq!((frames.torn, whole.len()), (torn, 90));
    assert!(frames.seen.is_sorted());
    Ok(())
}

#[test]
fn a_painter_that_waits_for_nobody_is_counted_truly() -> Result<(), Error> {
    let screen = ClientScreen::alone("painter", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let area = Rect::new(0, 0, 352, 240);
    let watch = FrameWatch::start(&screen, area)?;
    let began = Instant::now();
    for number in 0..120_u32 {
        // 60 a second; in two pieces, of which every tenth frame misses the second.
        std::thread::sleep(
            (began + Duration::from_secs(1) / 60 * number)
                .saturating_duration_since(Instant::now()),
        );
        let picture = frame(area, number, number);
        painter.put(&picture.crop(Rect::new(0, 0, 352, 120)), (0, 0))?;
        if number % 10 != 9 {
            painter.put(&picture.crop(Rect::new(0, 120, 352, 120)), (0, 120))?;
        }
    }
    // On a busy machine these two may be the first that are seen.
    wait_for("a torn frame is seen", LIMIT, || (watch.torn() > 0).then_some(()))?;
    painter.put(&frame(area, 120, 120), (0, 0))?;
    wait_for("a whole frame is seen", LIMIT, || watch.last().filter(|last| last.1 == 120))?;
    painter.fill(Rect::new(0, 120, 352, 120), 0)?;
    painter.sync()?;
    let ended = Instant::now();
    let frames = watch.finish()?;
    // A machine with other work may see fewer, but never more, never torn ones, and never in
    // another order.
    let numbers: Vec<u32> = frames.seen.iter().map(|frame| frame.1).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(numbers.iter().all(|number| number % 10 != 9), "torn frames were counted: {numbers:?}");
    assert!(
        !numbers.is_empty() && frames.torn > 0,
        "{} whole, {} torn",
        numbers.len(),
        frames.torn
    );
    assert!(frames.seen.iter().all(|frame| (began..=ended).contains(&frame.0)));
    assert!(
        FrameWatch::start(&screen, Rect::new(0, 0, 300, 240)).is_err(),
        "too narrow for a code"
    );
    assert!(FrameWatch::start(&screen, Rect::new(300, 0, 352, 240)).is_err(), "not on the screen");
    Ok(())
}

#[test]
fn keys_and_buttons_arrive_as_a_person_would_press_them() -> Result<(), Error> {
    let screen = ClientScreen::alone("input", SIZE)?;
    let input = Input::new(&screen)?;
    assert_eq!(input.focus_viewer()?, None, "no window is there yet");
    let painter = Painter::new(screen.display())?;
    assert_eq!(input.focus_viewer()?, Some(painter.window));
    let map = painter.x.get_keyboard_mapping(8, 248)?.reply()?;
    let per = usize::from(map.keysyms_per_keycode);
    let before = Instant::now();
    let sent = input.text("aA%\n")?;
    assert!((before..=Instant::now()).contains(&sent));
    input.key("Control_L+Shift_L+t")?;
    input.key("Next")?;
    input.click(3)?;
    input.scroll(2)?;
    input.scroll(-1)?;
    assert!(input.key("Nonsense").is_err() && input.text("a\u{4e00}").is_err(), "no such keys");

    let (mut keys, mut buttons) = (Vec::new(), Vec::new());
    while buttons.len() < 4 {
        let event = wait_for("the next event", LIMIT, || painter.x.poll_for_event().ok()?)?;
        match event {
            Event::KeyPress(event) => {
                let shift = event.state.contains(KeyButMask::SHIFT);
                let at = usize::from(event.detail - 8) * per;
                // Modifiers themselves are pressed as well.
                if map.keysyms[at] < 0xffe1 {
                    keys.push((
                        map.keysyms[at + usize::from(shift)],
                        event.state.contains(KeyButMask::CONTROL),
                    ));
                }
            }
            Event::ButtonPress(event) => {
                buttons.push(event.detail);
                assert_eq!(
                    (event.event_x, event.event_y),
                    (320, 240),
                    "the pointer is in the middle of the window"
                );
            }
            _ => {}
        }
    }
    let text = [
        (0x61, false),
        (0x41, false),
        (0x25, false),
        (0xff0d, false),
        (0x54, true),
        (0xff56, false),
    ];
    assert_eq!(keys, text);
    assert_eq!(buttons, [3, 5, 5, 4]);
    Ok(())
}

#[test]
fn a_display_with_a_cookie_opens_with_the_right_one() -> Result<(), Error> {
    let folder = Folder::new("cookie")?;
    let number = DisplayNumber::reserve()?;
    let authority = |file: &str, cookie: [u8; 16]| -> Result<std::path::PathBuf, Error> {
        let mut bytes = 256_u16.to_be_bytes().to_vec();
        let digits = number.number().to_string();
        for field in [b"any-host".as_slice(), digits.as_bytes(), b"MIT-MAGIC-COOKIE-1", &cookie] {
            bytes.extend((field.len() as u16).to_be_bytes());
            bytes.extend(field);
        }
        let file = folder.path().join(file);
        std::fs::write(&file, bytes)?;
        Ok(file)
    };
    let (right, wrong) = (authority("right", [7; 16])?, authority("wrong", [8; 16])?);
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new("Xvfb");
    command
        .args([&number.name(), "-displayfd", "1", "-noreset", "-nolisten", "tcp", "-auth"])
        .arg(&right);
    let _server =
        Running::start("Xvfb", command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()))?;
    drop(command);
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line)?;
    assert_eq!(line.trim(), number.number().to_string());
    assert!(connect(&number.name(), None).is_err(), "no cookie");
    assert!(connect(&number.name(), Some(&wrong)).is_err(), "the wrong cookie");
    assert!(connect(&number.name(), Some(&right)).is_ok());
    assert!(Picture::of_display(&number.name(), Some(&right))?.width > 0);
    Ok(())
}

/// Burns CPU in a process that its parent has left, says how many nanoseconds it had, and waits to
/// be ended.
const DAEMON: &str = r#"exec 3<&0
(setsid sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done
read own rest < /proc/$$/schedstat; echo $own; read end <&3' &)
"#;

fn accounts_hold(kind: Kind) -> Result<(), Error> {
    let accounts = match Accounts::of_kind("test", kind) {
        Ok(accounts) => accounts,
        // What this machine has not, it cannot be tested with.
        Err(error) if kind != Kind::Proc => {
            eprintln!("{kind:?}: not here: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for group in [Group::Server, Group::Apps, Group::Client] {
        let (reader, writer) = std::io::pipe()?;
        let mut inner = Command::new("sh");
        inner.args(["-c", DAEMON]).env("UNTOUCHED", "yes").current_dir("/proc");
        let mut command = accounts.wrap(group, inner);
        let mut child = command.stdin(Stdio::piped()).stdout(writer).spawn()?;
        drop(command);
        let mut held = child.stdin.take();
        assert!(child.wait()?.success(), "the parent has gone");
        let before_ms = accounts.cpu_ms(group)?;
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line)?;
        let own_ms = line.trim().parse::<f64>()? / 1e6;
        let cpu_ms = accounts.cpu_ms(group)?;
        // A tick of /proc on each side.
        assert!(
            own_ms > 0.0 && cpu_ms >= own_ms - 20.0 && cpu_ms >= before_ms,
            "{kind:?} {group:?}: {cpu_ms} of {own_ms} ms"
        );
        let pids = accounts.pids(group)?;
        assert_eq!(pids.len(), 1, "{kind:?} {group:?}: the daemon is in its group");
        let folder = std::fs::read_link(format!("/proc/{}/cwd", pids[0]))?;
        let environment = std::fs::read_to_string(format!("/proc/{}/environ", pids[0]))?;
        assert!(
            folder.ends_with("proc") && environment.contains("UNTOUCHED=yes"),
            "{folder:?} {environment}"
        );
        assert!(
            accounts.memory_bytes(group)? > 10_000,
            "{kind:?} {group:?}: a shell takes some memory"
        );
        if group == Group::Apps {
            // One is ended by its own will, the others by ours.
            writeln!(held.take().ok_or("no input")?, "end")?;
            wait_for("the daemon ends", LIMIT, || {
                accounts.pids(group).ok()?.is_empty().then_some(())
            })?;
        }
        accounts.end(group)?;
        assert!(accounts.pids(group)?.is_empty());
        assert!(
            accounts.cpu_ms(group)? >= own_ms - 20.0,
            "{kind:?} {group:?}: what was spent stays spent"
        );
    }
    assert!(accounts.other_load(&accounts.mark()) <= 1.0);
    Ok(())
}

#[test]
fn accounts_hold_what_was_spent_in_them() -> Result<(), Error> {
    let homes = || std::fs::read_to_string("/proc/self/cgroup");
    let before = homes()?;
    // One after another: a process keeps its accounts in one place at a time.
    for kind in [Kind::CgroupV2, Kind::CgroupV1, Kind::Proc] {
        accounts_hold(kind)?;
        assert_eq!(homes()?, before, "{kind:?}: this process is back where it was");
    }
    let (first, second) = (Accounts::new("first")?, Accounts::new("second")?);
    assert_eq!(first.kind(), second.kind());
    let mark = first.mark();
    let mut command = first.wrap(Group::Server, Command::new("true"));
    assert!(command.status()?.success());
    let missing =
        first.wrap(Group::Server, Command::new("/nowhere/at-all")).stderr(Stdio::null()).status();
    assert!(!missing.is_ok_and(|status| status.success()), "what is not there does not run");
    drop(first);
    assert!(
        second.wrap(Group::Client, Command::new("true")).status()?.success(),
        "one goes, the other stays"
    );
    assert!((0.0..=1.0).contains(&second.other_load(&mark)));
    drop(second);
    assert_eq!(homes()?, before);
    Ok(())
}

#[derive(Parser)]
struct TcbenchLine {
    #[command(flatten)]
    options: tcbench::Options,
}

#[test]
fn tcbench_counts_what_moves_and_nothing_else() -> Result<(), Error> {
    let screen = ClientScreen::alone("tcbench", SIZE)?;
    let painter = Painter::new(screen.display())?;
    let words = |rect: &str| {
        let line = [
            "tcbench",
            "--display",
            screen.display(),
            "--seconds",
            "2",
            "--rate",
            "200",
            "--rect",
            rect,
        ];
        TcbenchLine::parse_from(line).options
    };
    let (moving, still) = (words("320x240"), words("320x240+320+240"));
    let (ended, painted, seen, unseen) = std::thread::scope(|scope| -> Result<_, Error> {
        let seen = scope.spawn(|| tcbench::measure(&moving));
        let unseen = scope.spawn(|| tcbench::measure(&still));
        let (mut painted, began) = (0_u32, Instant::now());
        while !seen.is_finished() || !unseen.is_finished() {
            painted += 1;
            painter.fill(Rect::new(0, 0, 320, 240), painted)?;
            // 25 a second, as the videos of the studies.
            std::thread::sleep(
                (began + Duration::from_millis(40) * painted)
                    .saturating_duration_since(Instant::now()),
            );
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().map_err(|_| "tcbench panicked")
        };
        Ok((began.elapsed(), painted, join(seen)??, join(unseen)??))
    })?;
    assert!(ended >= Duration::from_secs(2));
    assert!(seen.frames >= 1 && seen.frames <= u64::from(painted), "{} of {painted}", seen.frames);
    assert_eq!(seen.each_second.iter().map(|&frames| u64::from(frames)).sum::<u64>(), seen.frames);
    assert_eq!((unseen.frames, unseen.frame_rate, unseen.each_second), (0, 0.0, vec![0, 0]));
    Ok(())
}
