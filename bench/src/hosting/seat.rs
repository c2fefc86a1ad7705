//! Where a simulated person sits: a desktop, and a viewer that costs as little as the server
//! allows, so that the machine is spent on desktops. thinc's own viewer without a window; for
//! TigerVNC one that decodes nothing (rfb.rs); for xrdp, which has no such viewer, FreeRDP on a
//! screen of its own. From people.rs's scripts to keys, and back to the times of echoes. Knows
//! viewers and programs; never the server's work.

use std::iter::Peekable;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::people::{Act, Script, Work};
use super::servers::{Guest, Host, Server};
use super::session::{Session, quoted};
use super::typist::{EMPTIES, JOB, Typist};
use super::{PASSWORD, SHOWN_MAX, SIZE};
use crate::Error;
use crate::apps::{pan, reader};
use crate::net::testbed::Side;
use crate::observe::input::{chord_names, keysym_of, named_keysym};
use crate::peers::accounts::Accounts;
use crate::peers::rfb::Rfb;
use crate::peers::{Desk, broker, tigervnc};
use crate::process::{Headless, wait_for};
use crate::questions::pause;
use crate::stage::{Site, Stage};
use crate::workloads::typing::{CELL, COLUMNS, ECHO, ROWS, Terminal};

/// An echo that takes longer counts as so long, and is waited for no further.
const ECHO_MAX: Duration = Duration::from_secs(10);
/// From a program's first pixels until it takes keys.
const SETTLES: Duration = Duration::from_secs(1);
/// The key that people type.
const KEY: &str = "x";
/// Where the pointer is: over every program, so that keys reach it without a window manager.
const POINTER: (u16, u16) = (40, 100);

/// One person at work.
pub(super) struct Seat {
    // Ends before its desktop.
    eye: Eye,
    session: Session,
    script: Peekable<Script>,
    work: Work,
    /// Next cell of the terminal.
    place: usize,
    _desk: Desk,
}

/// The viewer.
enum Eye {
    /// And which pixel of a cell the typed character inks.
    Thinc(Headless, (u32, u32)),
    Vnc(Rfb),
    Window(Box<Stage>, Option<Typist>),
}

impl Seat {
    /// Logs a person in, on the server of a host that runs on `site`.
    pub(super) fn take(host: &Host, site: &Site, person: u32) -> Result<Seat, Error> {
        let (home, user) = (site.folder.path(), Accounts::name(person));
        let session = Session::at(home, &user);
        let (eye, desk) = match host.subject.server {
            Server::Thinc { .. } => {
                let mut viewer = broker::view_headless(site, &user, PASSWORD, &[])?;
                session.ready(site)?;
                viewer.say(&format!("resize {}x{}", SIZE.0, SIZE.1))?;
                viewer.say("wait-quiet")?;
                viewer.say(&format!("timeout {}", ECHO_MAX.as_secs()))?;
                viewer.say(&format!("move {} {}", POINTER.0, POINTER.1))?;
                (Eye::Thinc(viewer, (0, 0)), Desk::default())
            }
            Server::TigerVnc => {
                let desk = host.open_tigervnc(site, home, person)?;
                session.ready(site)?;
                let port = tigervnc::port(&desk.displays[0]);
                let address = SocketAddr::from((site.bed.address(Side::Server), port));
                let viewer = Rfb::connect(&site.bed.namespace(Side::Client), address)?;
                viewer.move_to(POINTER)?;
                (Eye::Vnc(viewer), desk)
            }
            Server::Xrdp => {
                let guest = Guest { host, home: home.to_owned(), person };
                let stage = Stage::start(&guest, &site.bed, &site.accounts, SIZE)?;
                (Eye::Window(Box::new(stage), None), Desk::default())
            }
        };
        let (script, work) = (Script::new(Work::Nothing, 0).peekable(), Work::Nothing);
        Ok(Seat { eye, session, script, work, place: 0, _desk: desk })
    }

    /// Opens the program of a kind of work, and waits until it is shown. A video then rests until
    /// [`Seat::go_on`].
    pub(super) fn begin(&mut self, work: Work, seed: u64) -> Result<(), Error> {
        (self.work, self.script) = (work, Script::new(work, seed).peekable());
        match work {
            Work::Nothing => Ok(()),
            Work::Typing => self.open_terminal(),
            Work::Pages => self.open("reader", &format!("exec {READER}")),
            Work::Video => {
                self.open(VIDEO_JOB, &format!("exec {VIDEO}"))?;
                self.rest()
            }
        }
    }

    fn open(&mut self, job: &str, line: &str) -> Result<(), Error> {
        match &mut self.eye {
            Eye::Thinc(viewer, _) => {
                let before = viewer.say("hash")?;
                self.session.start_job(job, line)?;
                let changes = || match viewer.say("hash") {
                    Ok(now) => {
                        std::thread::sleep(Duration::from_millis(50));
                        (now != before).then_some(Ok(()))
                    }
                    Err(error) => Some(Err(error)),
                };
                wait_for("a program is shown", SHOWN_MAX, changes)??;
            }
            Eye::Vnc(viewer) => {
                viewer.aim(POINTER);
                self.session.start_job(job, line)?;
                viewer.wait(SHOWN_MAX)?.ok_or("a program is not shown at VNC's viewer")?;
            }
            Eye::Window(stage, _) => {
                let watch = stage.site.screen.watch()?;
                self.session.start_job(job, line)?;
                wait_for("a program is shown", SHOWN_MAX, || watch.changed().then_some(()))?;
            }
        }
        pause(SETTLES)
    }

    fn open_terminal(&mut self) -> Result<(), Error> {
        if let Eye::Window(stage, typist) = &mut self.eye {
            *typist = Some(Typist::open(stage, &self.session, ECHO)?);
            return Ok(());
        }
        let words = Terminal::arguments(0, ECHO);
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        self.open(JOB, &format!("exec xterm {}", words.join(" ")))?;
        match &mut self.eye {
            Eye::Thinc(viewer, ink) => {
                viewer.say(&format!("key {KEY}"))?;
                viewer.say("wait-quiet")?;
                pause(SETTLES)?;
                *ink = find_ink(viewer)?;
            }
            Eye::Vnc(viewer) => {
                viewer.aim(centre(0));
                viewer.keys(&[named_keysym(KEY)?])?;
                viewer.wait(ECHO_MAX)?.ok_or("a terminal echoes nothing at VNC's viewer")?;
            }
            Eye::Window(..) => {}
        }
        self.place = 1;
        Ok(())
    }

    /// Works until `end`; returns the time of each echo, ms.
    pub(super) fn work_until(&mut self, end: Instant) -> Result<Vec<f64>, Error> {
        let mut echoes = Vec::new();
        // What does not fit any more is the first of the next time.
        let fits = |&(thinks, _): &(Duration, Act)| Instant::now() + thinks < end;
        while let Some((thinks, act)) = self.script.next_if(fits) {
            pause(thinks)?;
            match act {
                Act::Type { keys, period } => {
                    let left = end.saturating_duration_since(Instant::now());
                    let fit = (left.as_millis() / period.as_millis().max(1)) as usize;
                    echoes.extend(self.type_keys(keys.min(fit).max(1), period)?);
                }
                Act::Page => self.press(reader::KEY_NEXT)?,
                Act::Pause => self.press(pan::KEY_PAUSE)?,
            }
        }
        pause(end.saturating_duration_since(Instant::now()))?;
        Ok(echoes)
    }

    /// While others log in: a video would keep the link busy.
    pub(super) fn rest(&self) -> Result<(), Error> {
        self.signal_video("STOP")
    }

    /// After [`Seat::rest`].
    pub(super) fn go_on(&self) -> Result<(), Error> {
        self.signal_video("CONT")
    }

    fn signal_video(&self, signal: &str) -> Result<(), Error> {
        match self.work {
            Work::Video => self.session.signal_job(VIDEO_JOB, signal),
            _ => Ok(()),
        }
    }

    fn press(&mut self, key: &str) -> Result<(), Error> {
        match &mut self.eye {
            Eye::Thinc(viewer, _) => viewer.say(&format!("key {key}")).map(drop),
            Eye::Vnc(viewer) => {
                let parts = chord_names(key);
                let keysyms: Result<Vec<u32>, Error> =
                    parts.into_iter().map(named_keysym).collect();
                viewer.keys(&keysyms?)
            }
            Eye::Window(stage, _) => stage.input.key(key).map(drop),
        }
    }

    /// Types so many keys, one each `period`; from when each was due until its echo, ms. So a key
    /// that had to wait for the echo before it is not forgotten.
    fn type_keys(&mut self, keys: usize, period: Duration) -> Result<Vec<f64>, Error> {
        if let Eye::Window(stage, typist) = &mut self.eye {
            let typist = typist.as_mut().ok_or("nobody has opened a terminal")?;
            if keys > typist.room() {
                typist.empty(stage)?;
            }
            let echoes = typist.type_keys(stage, keys, period)?;
            return Ok(match echoes.latency_ms.as_slice() {
                // Which key was lost or doubled is not known.
                [] => vec![ECHO_MAX.as_secs_f64() * 1e3; echoes.lost().max(1)],
                _ => echoes.latency_ms,
            });
        }
        if self.place + keys > (COLUMNS * ROWS) as usize {
            self.empty_terminal()?;
        }
        let began = Instant::now();
        let mut latency_ms = Vec::with_capacity(keys);
        for key in 0..keys {
            let due = began + period * key as u32;
            pause(due.saturating_duration_since(Instant::now()))?;
            let arrived = self.echo()?;
            latency_ms.push(arrived.saturating_duration_since(due).as_secs_f64() * 1e3);
        }
        Ok(latency_ms)
    }

    /// Types one key and waits for it.
    fn echo(&mut self) -> Result<Instant, Error> {
        let place = self.place;
        self.place += 1;
        let pressed = Instant::now();
        match &mut self.eye {
            Eye::Thinc(viewer, ink) => {
                let (x, y) = corner(place);
                viewer.say(&format!("key {KEY}"))?;
                let shown = viewer.say(&format!("wait-pixel {} {} 000000", x + ink.0, y + ink.1));
                let now = Instant::now();
                // A wait that ran out is no error of the viewer.
                match shown {
                    Err(error) if now < pressed + ECHO_MAX => Err(error),
                    _ => Ok(now),
                }
            }
            Eye::Vnc(viewer) => {
                viewer.aim(centre(place));
                viewer.keys(&[named_keysym(KEY)?])?;
                Ok(viewer.wait(ECHO_MAX)?.unwrap_or_else(Instant::now))
            }
            Eye::Window(..) => Err("a window types by its terminal".into()),
        }
    }

    /// The first cell is the next again: the program in the terminal writes what it reads, and so
    /// gives xterm the sequences that move the cursor home and clear what follows.
    fn empty_terminal(&mut self) -> Result<(), Error> {
        for last in ['H', 'J'] {
            match &mut self.eye {
                Eye::Thinc(viewer, _) => {
                    viewer.say("key Escape")?;
                    viewer.say(&format!("type [{last}"))?;
                }
                Eye::Vnc(viewer) => {
                    for keysym in [named_keysym("Escape")?, keysym_of('['), keysym_of(last)] {
                        viewer.keys(&[keysym])?;
                    }
                }
                Eye::Window(..) => {}
            }
        }
        self.place = 0;
        pause(EMPTIES)
    }
}

const READER: &str = "thinc-bench app reader";
const VIDEO: &str = "thinc-bench app pan";
const VIDEO_JOB: &str = "video";

/// Upper left corner of a cell, pixels.
fn corner(place: usize) -> (u32, u32) {
    let place = place as u32;
    (place % COLUMNS * CELL.0, place / COLUMNS * CELL.1)
}

fn centre(place: usize) -> (u16, u16) {
    let (x, y) = corner(place);
    // A terminal is no larger than a screen.
    ((x + CELL.0 / 2) as u16, (y + CELL.1 / 2) as u16)
}

/// A pixel of the first cell that is black, while the second cell is empty.
fn find_ink(viewer: &mut Headless) -> Result<(u32, u32), Error> {
    let mut black = |place: usize| -> Result<Vec<(u32, u32)>, Error> {
        let (left, top) = corner(place);
        let mut found = Vec::new();
        for (x, y) in (0..CELL.1).flat_map(|y| (0..CELL.0).map(move |x| (x, y))) {
            if viewer.say(&format!("pixel {} {}", left + x, top + y))? == "000000" {
                found.push((x, y));
            }
        }
        Ok(found)
    };
    let (first, second) = (black(0)?, black(1)?);
    match first.as_slice() {
        [ink, ..] if second.is_empty() => Ok(*ink),
        _ => Err(format!(
            "the first character of a terminal has {} black pixels in its cell and {} in the next: \
             xterm has another font or place",
            first.len(),
            second.len()
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_one_another_in_rows() {
        assert_eq!([corner(0), corner(79), corner(80)], [(0, 0), (474, 0), (0, 13)]);
        assert_eq!(centre(81), (9, 19));
    }
}
