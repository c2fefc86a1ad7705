//! A viewer whose path changes while it is connected over TCP moves to QUIC, and what is typed and
//! held meanwhile arrives once. A real session and a headless viewer at the two ends of an emulated
//! link. Needs root, or a kernel that lets users make namespaces.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::net::testbed::{Side, Testbed};
use thinc_bench::process::{Folder, Headless, Session, binary, wait_for};
use thinc_e2e::{EVENT_TIMEOUT, typewriter};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateWindowAux, EventMask, Window, WindowClass,
};
use x11rb::rust_connection::{DefaultStream, RustConnection};

type Outcome = Result<(), Error>;

/// A path over which no UDP passes: a viewer that starts there connects over TCP, however busy the
/// machine is.
const NEAR: &str = "lan,udp=off";
/// 100 Mbit/s and 66 ms.
const FAR: &str = "wan";

static ALONE: Mutex<()> = Mutex::new(());

/// One link at a time; for an ordinary user, all tests start again in a user namespace.
fn alone() -> Result<MutexGuard<'static, ()>, Error> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    thinc_bench::net::as_user_namespace()?;
    Ok(guard)
}

/// A session and its viewer, with the link between them.
struct Ends {
    viewer: Headless,
    session: Session,
    bed: Testbed,
    folder: Folder,
}

impl Ends {
    fn start(name: &str, options: &[&str], application: &[String]) -> Result<Ends, Error> {
        let bed = Testbed::start(&NEAR.parse()?, None)?;
        let application: Vec<&str> = application.iter().map(String::as_str).collect();
        let session = Session::start_by(
            bed.command(Side::Server, binary("thinc")?),
            &format!("{}:0", bed.address(Side::Server)),
            (name, "700x500"),
            &[],
            &application,
        )?;
        let viewer = Headless::start_by(
            bed.command(Side::Client, binary("thinc-view")?),
            &session.link,
            options,
        )?;
        let folder = Folder::new(&format!("rechoose-{name}"))?;
        Ok(Ends { viewer, session, bed, folder })
    }

    fn change_path(&self, link: &str) -> Outcome {
        self.bed.set_link(&link.parse()?);
        Ok(())
    }

    /// Waits until the link has carried nothing for a second: no answer is due any more.
    fn wait_at_rest(&self) -> Outcome {
        let mut mark = self.bed.mark();
        wait_for("the link rests", EVENT_TIMEOUT, || {
            let last = self.bed.since(&mark).packets.last().map(|packet| packet.at);
            if last.is_some() {
                mark = self.bed.mark();
            }
            (mark.at().elapsed() > Duration::from_secs(1)).then_some(())
        })
    }

    fn stats(&mut self) -> Result<serde_json::Value, Error> {
        let file = self.folder.path().join("stats.json");
        self.viewer.say(&format!("stats {}", file.display()))?;
        Ok(serde_json::from_str(&fs::read_to_string(&file)?)?)
    }

    fn connect_x(&self) -> Result<RustConnection, Error> {
        let number = self.session.display.trim_start_matches(':');
        let socket = std::os::unix::net::UnixStream::connect(format!("/tmp/.X11-unix/X{number}"))?;
        let authority = fs::read(&self.session.xauthority)?;
        let cookie = authority.last_chunk::<16>().ok_or("an Xauthority holds a cookie")?.to_vec();
        let (stream, _) = DefaultStream::from_unix_stream(socket)?;
        let name = b"MIT-MAGIC-COOKIE-1".to_vec();
        Ok(RustConnection::connect_to_stream_with_auth_info(stream, 0, name, cookie)?)
    }
}

/// A terminal that has the focus and writes what is typed to a file.
struct Paper {
    ends: Ends,
    file: PathBuf,
    /// What was typed.
    typed: String,
    _folder: Folder,
}

impl Paper {
    fn start(name: &str, options: &[&str]) -> Result<Paper, Error> {
        let folder = Folder::new(&format!("paper-{name}"))?;
        let file = folder.path().join("paper");
        let mut ends = Ends::start(name, options, &typewriter(&file))?;
        ends.viewer.say("move 100 100")?;
        wait_for("the terminal is there", EVENT_TIMEOUT, || fs::metadata(&file).ok())?;
        // Once the first key arrives, the terminal has the keyboard focus.
        wait_for("the terminal takes what is typed", EVENT_TIMEOUT, || {
            ends.viewer.say("type .").ok()?;
            (!fs::read(&file).ok()?.is_empty()).then_some(())
        })?;
        let mut paper = Paper { ends, file, typed: String::new(), _folder: folder };
        paper.ends.viewer.say("type !")?;
        let before = paper.written("!")?;
        paper.typed = before;
        Ok(paper)
    }

    fn type_words(&mut self, words: &str) -> Outcome {
        self.ends.viewer.say(&format!("type {words}"))?;
        self.typed += words;
        Ok(())
    }

    /// Types until the statistics are as they should be; returns them.
    fn type_until(
        &mut self,
        what: &str,
        ready: impl Fn(&serde_json::Value) -> bool,
    ) -> Result<serde_json::Value, Error> {
        let mut number = 0;
        wait_for(what, EVENT_TIMEOUT, || {
            self.type_words(&format!("{number:04}-")).ok()?;
            number += 1;
            self.ends.stats().ok().filter(&ready)
        })
    }

    /// Waits until the file ends with this text; returns all of it.
    fn written(&self, end: &str) -> Result<String, Error> {
        let text = || fs::read_to_string(&self.file).ok().filter(|text| text.ends_with(end));
        wait_for(&format!("{end:?} is written"), EVENT_TIMEOUT, text)
    }

    /// Everything that was typed was written once, in order.
    fn assert_written(&mut self, end: &str) -> Outcome {
        self.type_words(end)?;
        assert_eq!(self.written(end)?, self.typed);
        Ok(())
    }
}

#[test]
fn when_the_delay_grows_the_viewer_moves_to_quic_and_each_key_arrives_once() -> Outcome {
    let _alone = alone()?;
    let mut paper = Paper::start("long", &[])?;
    assert_eq!(paper.ends.stats()?["transport"], "tcp");
    paper.ends.change_path(FAR)?;
    let stats = paper.type_until("it is connected over QUIC", |stats| {
        stats["transport"] == "quic" && stats["connections"].as_u64() >= Some(2)
    })?;
    let why = stats["transport_reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("the round trip grew to "), "{why:?}");
    assert!(stats["quic_failure"].is_null(), "{}", stats["quic_failure"]);
    assert_eq!(stats["connections"], 2, "one over each transport");
    paper.assert_written("far")?;
    // It stays, also where the session is near again.
    paper.ends.change_path("lan")?;
    let short = |stats: &serde_json::Value| stats["rtt_us"].as_u64() < Some(40_000);
    let stats = paper.type_until("the path is short again", short)?;
    assert_eq!((&stats["transport"], &stats["connections"]), (&"quic".into(), &2.into()));
    paper.assert_written("end")
}

#[test]
fn when_packets_are_lost_the_viewer_moves_to_quic_also_where_the_session_is_near() -> Outcome {
    let _alone = alone()?;
    let mut paper = Paper::start("lossy", &[])?;
    paper.ends.change_path("lan,loss=10%,seed=5")?;
    let stats = paper.type_until("it is connected over QUIC", |stats| {
        stats["transport"] == "quic" && stats["connections"].as_u64() >= Some(2)
    })?;
    assert_eq!(stats["transport_reason"], "packets were lost");
    paper.assert_written("end")
}

#[test]
fn a_path_without_udp_is_left_as_it_is_and_works() -> Outcome {
    let _alone = alone()?;
    let mut paper = Paper::start("no-udp", &[])?;
    paper.ends.change_path("wan,udp=off")?;
    let stats = paper.type_until("QUIC was tried", |stats| !stats["quic_failure"].is_null())?;
    let why = stats["quic_failure"].as_str().unwrap_or_default();
    assert!(why.contains("UDP"), "{why}");
    assert_eq!((&stats["transport"], &stats["connections"]), (&"tcp".into(), &1.into()));
    paper.assert_written("end")
}

#[test]
fn a_viewer_over_tcp_whose_address_is_gone_reconnects_though_nobody_types() -> Outcome {
    let _alone = alone()?;
    let mut paper = Paper::start("address", &["--transport", "tcp"])?;
    assert_eq!(paper.ends.stats()?["connections"], 1);
    paper.ends.wait_at_rest()?;
    paper.ends.bed.change_client_address()?;
    let since = Instant::now();
    wait_for("it has reconnected", EVENT_TIMEOUT, || {
        paper.ends.stats().ok().filter(|stats| stats["connections"] == 2)
    })?;
    // The kernel's keepalive takes 10 s.
    assert!(since.elapsed() < Duration::from_secs(6), "after {:?}", since.elapsed());
    paper.assert_written("end")
}

#[test]
fn a_viewer_that_is_to_use_tcp_stays_there() -> Outcome {
    let _alone = alone()?;
    let mut paper = Paper::start("tcp", &["--transport", "tcp"])?;
    paper.ends.change_path(FAR)?;
    let stats = long_round_trips(&mut paper.ends)?;
    assert!(stats["quic_failure"].is_null(), "nothing was tried");
    assert_eq!((&stats["transport"], &stats["connections"]), (&"tcp".into(), &1.into()));
    paper.assert_written("end")
}

/// Waits for many more long round trips than a decision takes; returns the last statistics.
fn long_round_trips(ends: &mut Ends) -> Result<serde_json::Value, Error> {
    let mut seen = Vec::new();
    wait_for("long round trips", EVENT_TIMEOUT, || {
        ends.viewer.say("barrier").ok()?;
        let stats = ends.stats().ok()?;
        let round_trip = stats["rtt_us"].as_u64()?;
        if round_trip > 60_000 && !seen.contains(&round_trip) {
            seen.push(round_trip);
        }
        (seen.len() >= 10).then_some(stats)
    })
}

/// A window over the whole screen that reports buttons.
fn button_window(x: &RustConnection) -> Result<Window, Error> {
    let (root, window) = (x.setup().roots[0].root, x.generate_id()?);
    let events = EventMask::BUTTON_PRESS | EventMask::BUTTON_RELEASE | EventMask::EXPOSURE;
    let attributes = CreateWindowAux::new().override_redirect(1).event_mask(events);
    let (depth, class) = (0, WindowClass::INPUT_OUTPUT);
    x.create_window(depth, window, root, 0, 0, 700, 500, 0, class, 0, &attributes)?;
    x.map_window(window)?.check()?;
    wait_for("the window is shown", EVENT_TIMEOUT, || {
        matches!(x.poll_for_event(), Ok(Some(Event::Expose(_)))).then_some(())
    })?;
    Ok(window)
}

/// The next press (true) or release.
fn next_button(x: &RustConnection) -> Result<bool, Error> {
    wait_for("a button", EVENT_TIMEOUT, || match x.poll_for_event() {
        Ok(Some(Event::ButtonPress(_))) => Some(true),
        Ok(Some(Event::ButtonRelease(_))) => Some(false),
        _ => None,
    })
}

#[test]
fn a_button_that_is_held_is_not_released_by_the_change() -> Outcome {
    let _alone = alone()?;
    let application = ["sleep".to_owned(), "infinity".to_owned()];
    let mut ends = Ends::start("held", &[], &application)?;
    let x = ends.connect_x()?;
    button_window(&x)?;
    ends.viewer.say("move 200 200")?;
    ends.viewer.say("buttondown 1")?;
    assert!(next_button(&x)?, "it is pressed");
    ends.change_path(FAR)?;
    let stats = long_round_trips(&mut ends)?;
    assert_eq!((&stats["transport"], &stats["connections"]), (&"tcp".into(), &1.into()));
    let pressed = x.query_pointer(x.setup().roots[0].root)?.reply()?.mask;
    assert!(u16::from(pressed) & 0x100 != 0, "it is held in the session");
    ends.viewer.say("buttonup 1")?;
    wait_for("it is connected over QUIC", EVENT_TIMEOUT, || {
        ends.viewer.say("barrier").ok()?;
        let stats = ends.stats().ok()?;
        (stats["transport"] == "quic" && stats["connections"] == 2).then_some(())
    })?;
    ends.viewer.say("click 1")?;
    let seen = [next_button(&x)?, next_button(&x)?, next_button(&x)?];
    assert_eq!(seen, [false, true, false], "released once, and clicked");
    Ok(())
}
