//! Pens, from a viewer to programs in a real X server: one that reads XInput 2 events, as toolkits
//! do, and one of GTK 3. Each gets every sample, with pressure and tilt; what a viewer holds is
//! released when it is gone.

use std::process::Command;

use thinc_bench::Error;
use thinc_bench::process::{Folder, binary, wait_for};
use thinc_e2e::{Desktop, EVENT_TIMEOUT};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{self, ConnectionExt as _, Fp3232, XIEventMask};
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateWindowAux, EventMask, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

/// XIAllDevices and XIAllMasterDevices.
const ALL_DEVICES: u16 = 0;
const ALL_MASTERS: u16 = 1;

/// Of the window.
const COLOR: u32 = 0x20_4060;

/// A window over the whole screen, whose program reads a pen's events.
struct Drawing {
    x: RustConnection,
    window: Window,
    pen: u16,
    eraser: u16,
}

/// An event: its type, device and button, position, pressure and tilt.
type Seen = (u16, u16, u32, (f64, f64), (f64, f64, f64));

impl Drawing {
    fn new(desktop: &Desktop) -> Result<Drawing, Error> {
        let x = desktop.connect_x()?;
        let root = x.setup().roots[0].root;
        x.xinput_xi_query_version(2, 2)?.reply()?;
        let window = x.generate_id()?;
        let aux = CreateWindowAux::new()
            .override_redirect(1)
            .background_pixel(COLOR)
            .event_mask(EventMask::EXPOSURE);
        let (copy, class) = (x11rb::COPY_FROM_PARENT, WindowClass::INPUT_OUTPUT);
        x.create_window(0, window, root, 0, 0, 640, 480, 0, class, copy, &aux)?;
        let mask =
            vec![XIEventMask::MOTION | XIEventMask::BUTTON_PRESS | XIEventMask::BUTTON_RELEASE];
        let masks = [xinput::EventMask { deviceid: ALL_MASTERS, mask }];
        x.xinput_xi_select_events(window, &masks)?.check()?;
        x.map_window(window)?;
        let devices = x.xinput_xi_query_device(ALL_DEVICES)?.reply()?.infos;
        let id = |name: &str| {
            let found = devices.iter().find(|device| device.name == name.as_bytes());
            found.map(|device| device.deviceid).ok_or_else(|| format!("there is no {name}"))
        };
        let (pen, eraser) = (id("thinc pen")?, id("thinc eraser")?);
        let drawing = Drawing { x, window, pen, eraser };
        wait_for("the window is shown", EVENT_TIMEOUT, || {
            matches!(drawing.x.poll_for_event().ok()??, Event::Expose(_)).then_some(())
        })?;
        Ok(drawing)
    }

    fn seen(&self) -> Result<Seen, Error> {
        let real =
            |value: &Fp3232| f64::from(value.integral) + f64::from(value.frac) / 4_294_967_296.0;
        wait_for("an event of the pen", EVENT_TIMEOUT, || {
            while let Some(event) = self.x.poll_for_event().ok()? {
                let (Event::XinputMotion(event)
                | Event::XinputButtonPress(event)
                | Event::XinputButtonRelease(event)) = event
                else {
                    continue;
                };
                assert_eq!(event.event, self.window);
                let axes: Vec<f64> = event.axisvalues.iter().map(real).collect();
                let at = (f64::from(event.event_x) / 65536.0, f64::from(event.event_y) / 65536.0);
                let rest = (axes[2], axes[3], axes[4]);
                return Some((event.event_type, event.sourceid, event.detail, at, rest));
            }
            None
        })
    }

    /// No event is left.
    fn is_quiet(&self) -> Result<bool, Error> {
        self.x.get_input_focus()?.reply()?;
        Ok(self.x.poll_for_event()?.is_none())
    }
}

const MOTION: u16 = xinput::MOTION_EVENT;
const PRESS: u16 = xinput::BUTTON_PRESS_EVENT;
const RELEASE: u16 = xinput::BUTTON_RELEASE_EVENT;

#[test]
fn a_stroke_arrives_sample_by_sample_with_pressure_and_tilt() -> Outcome {
    let mut desktop = Desktop::start("pen", "640x480", &["sleep", "infinity"])?;
    let drawing = Drawing::new(&desktop)?;
    let pen = drawing.pen;
    desktop.viewer.say("pen 100.5 50.25 0 10 -20")?;
    assert_eq!(drawing.seen()?, (MOTION, pen, 0, (100.5, 50.25), (0.0, 10.0, -20.0)));
    for step in 0..200 {
        let (x, pressure, tilt) = (f64::from(step) + 110.25, 1 + step * 300, step % 60 - 30);
        desktop.viewer.say(&format!("pen {x} 60.5 {pressure} {tilt} {} 1", -tilt))?;
    }
    desktop.viewer.say("pen 309.25 60.5 0 0 0")?;
    for step in 0..200 {
        let (x, tilt) = (f64::from(step) + 110.25, f64::from(step % 60 - 30));
        let rest = (f64::from(1 + step * 300), tilt, -tilt);
        assert_eq!(drawing.seen()?, (MOTION, pen, 0, (x, 60.5), rest));
        if step == 0 {
            assert_eq!(drawing.seen()?, (PRESS, pen, 1, (x, 60.5), rest));
        }
    }
    let rest = (0.0, 0.0, 0.0);
    assert_eq!(drawing.seen()?, (MOTION, pen, 0, (309.25, 60.5), rest));
    assert_eq!(drawing.seen()?, (RELEASE, pen, 1, (309.25, 60.5), rest));
    // The barrel's buttons are the middle and the right one.
    desktop.viewer.say("pen 309.25 60.5 0 0 0 6")?;
    drawing.seen()?;
    for button in [2, 3] {
        assert_eq!(drawing.seen()?, (PRESS, pen, button, (309.25, 60.5), rest));
    }
    desktop.viewer.say("penout")?;
    drawing.seen()?;
    for button in [2, 3] {
        assert_eq!(drawing.seen()?, (RELEASE, pen, button, (309.25, 60.5), rest));
    }
    desktop.viewer.say("pen 20 30 500 0 0 1 eraser")?;
    assert_eq!(drawing.seen()?, (MOTION, drawing.eraser, 0, (20.0, 30.0), (500.0, 0.0, 0.0)));
    assert_eq!(drawing.seen()?.0, PRESS);
    desktop.viewer.say("barrier")?;
    assert!(drawing.is_quiet()?);
    Ok(())
}

fn kill(pid: u32) -> Outcome {
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
    killed.success().then_some(()).ok_or_else(|| "the process is not there".into())
}

#[test]
fn the_tip_of_a_viewer_that_is_gone_is_lifted() -> Outcome {
    let mut desktop = Desktop::start("pen-lost", "640x480", &["sleep", "infinity"])?;
    let drawing = Drawing::new(&desktop)?;
    let mut other = desktop.another_viewer()?;
    other.say("pen 100 100 30000 0 0 1")?;
    assert_eq!(drawing.seen()?.0, MOTION);
    assert_eq!(drawing.seen()?.0, PRESS);
    // Nobody draws into its stroke.
    desktop.viewer.say("pen 300 300 30000 0 0 1")?;
    desktop.viewer.say("barrier")?;
    assert!(drawing.is_quiet()?);
    kill(other.pid())?;
    assert_eq!(drawing.seen()?.0, MOTION);
    let (kind, device, button, at, (pressure, ..)) = drawing.seen()?;
    assert_eq!((kind, device, button), (RELEASE, drawing.pen, 1));
    assert_eq!((at, pressure), ((100.0, 100.0), 0.0), "where it was");
    desktop.viewer.say("pen 310 300 30000 0 0 1")?;
    assert_eq!(drawing.seen()?.3, (310.0, 300.0));
    // The session process ends; X and its clients stay.
    assert_eq!(drawing.seen()?.0, PRESS);
    kill(desktop.session.pid("session")?)?;
    assert_eq!(drawing.seen()?.0, MOTION);
    assert_eq!(drawing.seen()?.0, RELEASE);
    Ok(())
}

/// One session has the viewer's window of another one: what its pen does there arrives here.
#[test]
fn a_pen_in_the_viewers_window_arrives_with_pressure_and_tilt() -> Outcome {
    let inner = Desktop::start("pen-inner", "640x480", &["sleep", "infinity"])?;
    let drawing = Drawing::new(&inner)?;
    let link = inner.session.another_link()?;
    let view = binary("thinc-view")?.display().to_string();
    let command = [view.as_str(), &link, "--size", "640x480"];
    let mut outer = Desktop::start("pen-outer", "640x480", &command)?;
    outer.viewer.say(&format!("wait-pixel 320 240 {COLOR:06x}"))?;
    // The window is where the pointer is once X has told it so.
    outer.viewer.say("move 300 200")?;
    wait_for("the pointer is there", EVENT_TIMEOUT, || {
        while let Some(event) = drawing.x.poll_for_event().ok()? {
            if let Event::XinputMotion(at) = event
                && at.event_x >> 16 == 300
            {
                return Some(());
            }
        }
        None
    })?;
    outer.viewer.say("pen 100 100 0 0 0")?;
    outer.viewer.say("pen 101 100 0 0 0")?;
    let sample = |step: i32| (f64::from(step) * 1.25 + 101.0, 100.0 + f64::from(step) / 2.0);
    for step in 0..100 {
        let ((x, y), pressure, tilt) = (sample(step), 1000 + step * 300, step % 60 - 30);
        outer.viewer.say(&format!("pen {x} {y} {pressure} {tilt} {} 1", -tilt))?;
    }
    let (x, y) = sample(99);
    outer.viewer.say(&format!("pen {x} {y} 0 0 0"))?;
    outer.viewer.say("penout")?;
    let mut seen = Vec::new();
    loop {
        let event = drawing.seen()?;
        seen.push(event);
        if event.0 == RELEASE {
            break;
        }
    }
    assert!(seen.iter().all(|event| event.1 == drawing.pen), "{seen:?}");
    assert_eq!(seen.iter().filter(|event| event.0 == PRESS).count(), 1);
    // X tells SDL of a position with the next event: the last one is where it was before.
    let stroke: Vec<_> = seen
        .iter()
        .filter(|(kind, .., (pressure, _, _))| *kind == MOTION && *pressure > 0.0)
        .map(|&(.., at, rest)| (at, rest))
        .collect();
    let wanted: Vec<_> = (0..100)
        .map(|step| {
            let tilt = f64::from(step % 60 - 30);
            (sample(step), (f64::from(1000 + step * 300), tilt, -tilt))
        })
        .collect();
    assert_eq!(stroke, wanted);
    Ok(())
}

/// A program of GTK 3.
const GTK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gtk_drawing.py");

#[test]
fn gtk_sees_a_pen_and_an_eraser_with_their_axes_and_tools() -> Outcome {
    let folder = Folder::new("gtk-pen")?;
    let file = folder.path().join("told");
    let path = file.display().to_string();
    let command = ["/usr/bin/python3", GTK, &path];
    let mut desktop = Desktop::start("gtk-pen", "640x480", &command)?;
    let mut read = 0;
    let mut line = |what: &str, wanted: &str| {
        wait_for(what, EVENT_TIMEOUT, || {
            let text = std::fs::read_to_string(&file).ok()?;
            while let Some(length) = text[read..].find('\n') {
                let line = text[read..read + length].to_owned();
                read += length + 1;
                if line.starts_with(wanted) {
                    return Some(line);
                }
            }
            None
        })
    };
    assert_eq!(line("the pen", "device pen")?, "device pen thinc pen");
    assert_eq!(line("the eraser", "device eraser")?, "device eraser thinc eraser");
    line("the window", "shown")?;
    // Half of the pressure; 63 and -64 degrees are the ends of the axes.
    desktop.viewer.say("pen 150.5 100.25 0 63 -64")?;
    assert_eq!(
        line("the pen hovers", "motion pen")?,
        "motion pen pen 50.500 50.250 0.000 1.000 -1.000"
    );
    desktop.viewer.say("pen 160 100 65535 0 0 1")?;
    let press = line("the tip touches", "press pen")?;
    assert!(press.starts_with("press pen pen 60.000 50.000 1.000 0.0"), "{press}");
    desktop.viewer.say("pen 161 100 32768 0 0 1")?;
    let motion = line("a stroke", "motion pen")?;
    assert!(motion.starts_with("motion pen pen 61.000 50.000 0.500 0.0"), "{motion}");
    desktop.viewer.say("pen 161 100 0 0 0")?;
    line("the tip is lifted", "release pen")?;
    // Which tool it is, is known from the first event on.
    desktop.viewer.say("pen 170 110 65535 0 0 1 eraser")?;
    let press = line("the eraser touches", "press eraser")?;
    assert!(press.starts_with("press eraser eraser 70.000 60.000 1.000"), "{press}");
    desktop.viewer.say("penout")?;
    line("the eraser leaves", "release eraser")?;
    Ok(())
}
