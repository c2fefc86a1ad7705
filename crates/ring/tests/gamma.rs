//! The gamma block in a real Xorg: RandR's ramps and XF86VidMode's, as X clients set them, arrive
//! with the place of each output and change no pixel of the framebuffer. What X keeps over sizes,
//! switched outputs and sessions, the block has again. Knows X's requests and the block; never a
//! viewer.

mod coverage;
mod xserver;

use std::process::Command;
use std::time::Instant;

use thinc_ring::{GAMMA_ENTRIES, OutputGamma, OutputRequest, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::randr::{ConnectionExt as _, Rotation};
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, Rectangle};
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Options, XServer};

type Channels = [[u8; GAMMA_ENTRIES]; 3];

fn output(x: i32, y: i32, width: u32, height: u32) -> OutputRequest {
    OutputRequest { x, y, width, height, mm_width: 0, mm_height: 0 }
}

fn identity() -> Channels {
    [std::array::from_fn(|value| value as u8); 3]
}

/// X with two monitors, and the session that reads the records.
struct Stage {
    reader: Reader,
    conn: RustConnection,
    server: XServer,
}

impl Stage {
    fn new() -> Stage {
        let server = XServer::start(Options::default());
        let (conn, _) = server.connect();
        let mut reader = Reader::new(server.attach());
        reader.set_outputs(&[output(0, 0, 320, 200), output(320, 0, 300, 240)]).unwrap();
        reader.drain();
        Stage { reader, conn, server }
    }

    fn run(&self, program: &str, arguments: &str) {
        let mut command = Command::new(program);
        command.args(["-display", &format!(":{}", self.server.display)]);
        let done = command.args(arguments.split_whitespace()).output();
        let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(done.status.success(), "{program} {arguments}: {done:?}");
    }

    /// How often the block was announced since the last call.
    fn announced(&mut self) -> usize {
        // X has read what clients sent before this.
        self.conn.get_input_focus().unwrap().reply().unwrap();
        self.reader.drain().iter().filter(|record| record.kind == RecordKind::Gamma).count()
    }

    fn tables(&self) -> Vec<OutputGamma> {
        self.reader.attachment.ring.gamma().expect("X is not writing it")
    }

    fn channels(&self) -> Vec<Channels> {
        self.tables().iter().map(|table| table.channels).collect()
    }

    fn crtcs(&self) -> Vec<u32> {
        let root = self.conn.setup().roots[0].root;
        let resources = self.conn.randr_get_screen_resources_current(root).unwrap();
        resources.reply().unwrap().crtcs
    }

    /// What X answers for a CRTC, in the upper 8 bits.
    fn asked(&self, crtc: u32) -> Channels {
        let gamma = self.conn.randr_get_crtc_gamma(crtc).unwrap().reply().unwrap();
        [gamma.red, gamma.green, gamma.blue].map(|ramp| {
            assert_eq!(ramp.len(), GAMMA_ENTRIES);
            std::array::from_fn(|value| (ramp[value] >> 8) as u8)
        })
    }

    /// Shows a mode on outputs, or switches the CRTC off.
    fn configure(&self, crtc: u32, mode: u32, outputs: &[u32]) {
        let rotation = Rotation::ROTATE0;
        let set = self.conn.randr_set_crtc_config(crtc, 0, 0, 0, 0, mode, rotation, outputs);
        set.unwrap().reply().unwrap();
    }

    /// Sets ramps of 16 bits.
    fn set(&self, crtc: u32, ramp: impl Fn(u16) -> u16) {
        let ramp: Vec<u16> = (0..GAMMA_ENTRIES as u16).map(ramp).collect();
        let set = self.conn.randr_set_crtc_gamma(crtc, &ramp, &ramp, &ramp);
        set.unwrap().check().unwrap();
    }
}

#[test]
fn ramps_arrive_with_the_place_of_their_output_and_change_no_pixel() {
    let mut stage = Stage::new();
    let root = stage.conn.setup().roots[0].root;
    let gc = stage.conn.generate_id().unwrap();
    stage.conn.create_gc(gc, root, &CreateGCAux::new().foreground(0x0080_4020)).unwrap();
    let rect = Rectangle { x: 10, y: 10, width: 500, height: 90 };
    stage.conn.poly_fill_rectangle(root, gc, &[rect]).unwrap();
    assert_eq!(stage.announced(), 0, "nothing is set");
    assert_eq!(stage.tables(), []);
    let pixels = stage.reader.pixels();
    stage.run("xrandr", "--output THINC-0 --gamma 1:0.8:0.6 --brightness 0.7");
    assert_eq!(stage.announced(), 1);
    let tables = stage.tables();
    let places: Vec<_> = tables.iter().map(|table| table.output).collect();
    let geometry = stage.reader.attachment.ring.geometry();
    assert_eq!((places.len(), &places), (2, &geometry.outputs));
    let first = tables[0].channels;
    assert_eq!(first, stage.asked(stage.crtcs()[0]), "X has the same");
    assert_eq!(tables[1].channels, identity(), "the other monitor");
    assert_eq!(first[0][255], (0.7 * 255.996) as u8, "red is only darker");
    assert!(first[1][128] < first[0][128] && first[2][128] < first[1][128], "gamma below 1");
    assert_eq!(stage.reader.pixels(), pixels, "the framebuffer has the session's colours");
    // The same again is no news: night colours are set every few seconds.
    stage.run("xrandr", "--output THINC-0 --gamma 1:0.8:0.6 --brightness 0.7");
    assert_eq!(stage.announced(), 0);
    stage.run("xrandr", "--output THINC-0 --gamma 1:1:1");
    assert_eq!((stage.announced(), stage.tables()), (1, Vec::new()));
    assert!(stage.server.stop(), "X exits cleanly");
}

#[test]
fn any_ramp_is_taken_as_it_is() {
    let mut stage = Stage::new();
    let crtc = stage.crtcs()[1];
    for (words, ramp) in [
        ("black", (|_| 0) as fn(u16) -> u16),
        ("inverted", |value| (255 - value) * 257),
        ("steps", |value| (value / 64) * 0x5555),
        // Half of a step of 8 bits is not shown.
        ("fine", |value| value << 8 | 0x7f),
    ] {
        stage.set(crtc, ramp);
        let is_identity = words == "fine";
        assert_eq!(stage.announced(), 1, "{words}");
        let channel = std::array::from_fn(|value| (ramp(value as u16) >> 8) as u8);
        let wanted = if is_identity { vec![] } else { vec![identity(), [channel; 3]] };
        assert_eq!(stage.channels(), wanted, "{words}");
        assert_eq!(stage.asked(crtc), [channel; 3], "{words}");
    }
    assert!(stage.server.stop(), "X exits cleanly");
}

/// XF86VidMode knows one table for the whole screen: xgamma, xcalib and games set it.
#[test]
fn the_older_extensions_table_applies_to_all_outputs_and_before_their_ramps() {
    let mut stage = Stage::new();
    stage.run("xgamma", "-rgamma 2 -ggamma 1 -bgamma 0.5");
    assert_eq!(stage.announced(), 1);
    let both = stage.channels();
    assert_eq!((both.len(), both[0]), (2, both[1]));
    let expected = |value: usize, gamma: f64| (value as f64 / 255.0).powf(1.0 / gamma) * 255.0;
    for value in 0..GAMMA_ENTRIES {
        for (channel, gamma) in both[0].iter().zip([2.0, 1.0, 0.5]) {
            let off = (f64::from(channel[value]) - expected(value, gamma)).abs();
            assert!(off <= 1.0, "{value} at gamma {gamma}: {}", channel[value]);
        }
    }
    // X applies it first, then the CRTC's ramps: inverted ones here.
    stage.set(stage.crtcs()[0], |value| (255 - value) << 8);
    assert_eq!(stage.announced(), 1);
    let inverted = both[0].map(|channel| channel.map(|to| 255 - to));
    assert_eq!(stage.channels(), [inverted, both[1]]);
    stage.run("xgamma", "-gamma 1");
    let mut ramps = identity();
    ramps.iter_mut().for_each(|channel| channel.reverse());
    assert_eq!(stage.announced(), 1);
    assert_eq!(stage.channels(), [ramps, identity()]);
    assert!(stage.server.stop(), "X exits cleanly");
}

#[test]
fn x_keeps_ramps_over_sizes_switched_outputs_and_sessions() {
    let mut stage = Stage::new();
    let crtcs = stage.crtcs();
    stage.set(crtcs[1], |_| 0x4000);
    let dark = [[0x40; GAMMA_ENTRIES]; 3];
    assert_eq!((stage.announced(), stage.channels()), (1, vec![identity(), dark]));
    // Another size and place.
    stage.reader.set_outputs(&[output(0, 0, 500, 400), output(0, 400, 200, 100)]).unwrap();
    assert_eq!(stage.announced(), 1);
    let last = stage.tables().pop().expect("two tables");
    let place = last.output;
    assert_eq!((place.x, place.y, place.width, place.height), (0, 400, 200, 100));
    assert_eq!(last.channels, dark);
    // The monitor is gone, and its colours with it; they come back with it.
    stage.reader.set_outputs(&[output(0, 0, 500, 400)]).unwrap();
    assert_eq!((stage.announced(), stage.channels()), (1, vec![]));
    assert_eq!(stage.asked(crtcs[1]), dark, "as any driver has it");
    stage.reader.set_outputs(&[output(0, 0, 500, 400), output(500, 0, 200, 100)]).unwrap();
    assert_eq!((stage.announced(), stage.channels()), (1, vec![identity(), dark]));
    // What is set while it is off counts once it is on.
    stage.reader.set_outputs(&[output(0, 0, 500, 400)]).unwrap();
    assert_eq!(stage.announced(), 1);
    stage.set(crtcs[1], |_| 0x2000);
    assert_eq!((stage.announced(), stage.channels()), (0, vec![]));
    stage.reader.set_outputs(&[output(0, 0, 500, 400), output(500, 0, 200, 100)]).unwrap();
    let darker = [[0x20; GAMMA_ENTRIES]; 3];
    assert_eq!((stage.announced(), stage.channels()), (1, vec![identity(), darker]));
    // Another session process.
    stage.reader = Reader::new(stage.server.attach());
    assert_eq!(stage.channels(), [identity(), darker], "before any record");
    assert!(stage.server.stop(), "X exits cleanly");
}

/// An X client that changes a mode switches its CRTC off, sets the size, and switches it on again.
#[test]
fn while_a_mode_changes_the_tables_stay() {
    let mut stage = Stage::new();
    stage.reader.set_outputs(&[output(0, 0, 320, 200)]).unwrap();
    let crtc = stage.crtcs()[0];
    stage.set(crtc, |_| 0x4000);
    let dark = vec![[[0x40; GAMMA_ENTRIES]; 3]];
    assert_eq!((stage.announced(), stage.channels()), (1, dark.clone()));
    let root = stage.conn.setup().roots[0].root;
    let info = stage.conn.randr_get_crtc_info(crtc, 0).unwrap().reply().unwrap();
    stage.configure(crtc, 0, &[]);
    let size = stage.conn.randr_set_screen_size(root, 500, 400, 130, 100);
    size.unwrap().check().unwrap();
    stage.configure(crtc, info.mode, &info.outputs);
    assert_eq!((stage.announced(), stage.channels()), (0, dark.clone()), "the same mode");
    stage.configure(crtc, 0, &[]);
    assert_eq!((stage.announced(), stage.channels()), (0, dark), "no monitor shows anything");
    assert!(stage.server.stop(), "X exits cleanly");
}

/// X begins again with plain colours.
#[test]
fn a_regenerated_server_has_no_ramps() {
    let server = XServer::start(Options { reset: true, ..Options::default() });
    let mut reader = Reader::new(server.attach());
    let (conn, _) = server.connect();
    let root = conn.setup().roots[0].root;
    let resources = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap();
    let dark = [0x4000; GAMMA_ENTRIES];
    let set = conn.randr_set_crtc_gamma(resources.crtcs[0], &dark, &dark, &dark);
    set.unwrap().check().unwrap();
    reader.read_until(|record| record.kind == RecordKind::Gamma);
    let has = |reader: &Reader| reader.attachment.ring.gamma().is_some_and(|all| !all.is_empty());
    assert!(has(&reader));
    drop(conn);
    let deadline = Instant::now() + TIMEOUT;
    while has(&reader) {
        assert!(Instant::now() < deadline, "the ramps outlive the server's generation");
        reader.read_until(|record| record.kind == RecordKind::Idle);
    }
    // No clean exit is required here: after a regeneration Xorg 21.1 has a double free at exit,
    // with any driver.
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
