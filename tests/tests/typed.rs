//! Input typed during an outage arrives after it: all of it, in order, once. Real X server, real
//! session, headless viewer; between them a TCP path that can be stopped in each direction. `cat`
//! writes what arrived to a file.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::{AWAIT_TERMINAL, Desktop, EVENT_TIMEOUT, typewriter};

type Outcome = Result<(), Error>;

/// The state of one forwarded connection.
#[derive(Default)]
struct Connection {
    /// Bytes from the viewer, or from the session, are discarded from now on.
    up_dead: AtomicBool,
    down_dead: AtomicBool,
}

/// A path in front of a session's port.
struct Path {
    at: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
    /// New connections are refused.
    refuses: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

impl Path {
    /// A path to the session's port. Its threads end with the process.
    fn to(port: u16) -> Result<Path, Error> {
        let near = TcpListener::bind("127.0.0.1:0")?;
        let path = Path {
            at: near.local_addr()?,
            connections: Arc::default(),
            refuses: Arc::default(),
            refused: Arc::default(),
        };
        let (connections, refuses, refused) =
            (path.connections.clone(), path.refuses.clone(), path.refused.clone());
        std::thread::spawn(move || {
            for viewer in near.incoming().map_while(Result::ok) {
                if refuses.load(Ordering::SeqCst) {
                    refused.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let Ok(session) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let connection = Arc::new(Connection::default());
                connections.lock().expect("no holder panics").push(connection.clone());
                let [Ok(viewer_too), Ok(session_too)] = [viewer.try_clone(), session.try_clone()]
                else {
                    continue;
                };
                forward(viewer_too, session_too, connection.clone(), |connection| {
                    &connection.up_dead
                });
                forward(session, viewer, connection, |connection| &connection.down_dead);
            }
        });
        Ok(path)
    }

    /// Discards the bytes of the open connections in the session's direction, or in both.
    fn stop(&self, up: bool) {
        for connection in self.connections.lock().expect("no holder panics").iter() {
            connection.down_dead.store(true, Ordering::SeqCst);
            connection.up_dead.store(up, Ordering::SeqCst);
        }
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// Waits until the viewer has given up the dead connection and tries another.
    fn wait_for_return(&self) -> Outcome {
        let before = self.refused.load(Ordering::SeqCst);
        wait_for("the viewer looks for another connection", EVENT_TIMEOUT, || {
            (self.refused.load(Ordering::SeqCst) > before).then_some(())
        })
    }

    fn open(&self) {
        self.refuses.store(false, Ordering::SeqCst);
    }
}

/// Forwards one direction. A dead direction is still read: the sender notices nothing.
fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    connection: Arc<Connection>,
    dead: fn(&Connection) -> &AtomicBool,
) {
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if !dead(&connection).load(Ordering::SeqCst) && to.write_all(&buffer[..count]).is_err()
            {
                return;
            }
        }
        if !dead(&connection).load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Write);
        }
    });
}

/// A terminal whose lines are written to a file, viewed through such a path.
struct Typist {
    desktop: Desktop,
    path: Path,
    file: std::path::PathBuf,
    _folder: Folder,
}

impl Typist {
    fn start(name: &str) -> Result<Typist, Error> {
        let folder = Folder::new(&format!("e2e-typed-{name}"))?;
        let file = folder.path().join("typed");
        let script = format!("{AWAIT_TERMINAL} exec cat > '{}'", file.display());
        let mut path = None;
        let link_for_viewer = |link: &str| {
            let (head, rest) =
                link.split_once("127.0.0.1:").ok_or("a session listens on 127.0.0.1")?;
            let (port, tail) = rest.split_once('/').ok_or("a link has a path")?;
            let to = path.insert(Path::to(port.parse()?)?);
            Ok(format!("{head}{}/{tail}", to.at))
        };
        let application = ["xterm", "-e", "sh", "-c", &script];
        let name = format!("typed-{name}");
        let mut desktop = Desktop::start_through(
            &name,
            "640x480",
            &application,
            link_for_viewer,
            &["--transport", "tcp"],
        )?;
        wait_for("the terminal reads keys", EVENT_TIMEOUT, || file.exists().then_some(()))?;
        desktop.viewer.say("move 100 100")?;
        let path = path.ok_or("the viewer has a link")?;
        let mut typist = Typist { desktop, path, file, _folder: folder };
        typist.say("type ready\\n")?;
        typist.wait_for("ready\n")?;
        Ok(typist)
    }

    fn say(&mut self, line: &str) -> Outcome {
        self.desktop.viewer.say(line).map(drop)
    }

    /// Waits until the file has this content.
    fn wait_for(&mut self, wanted: &str) -> Outcome {
        let read = || std::fs::read_to_string(&self.file).unwrap_or_default();
        let found = wait_for("what was typed", EVENT_TIMEOUT, || (read() == wanted).then_some(()));
        if found.is_err() {
            return Err(format!("{:?} was typed, where {wanted:?} was wanted", read()).into());
        }
        Ok(())
    }

    /// The same after the viewer has reconnected, and nothing more arrives.
    fn wait_once(&mut self, wanted: &str) -> Outcome {
        self.wait_for(wanted)?;
        self.say("wait-quiet")?;
        self.say("type end\\n")?;
        self.wait_for(&format!("{wanted}end\n"))
    }
}

#[test]
fn input_typed_into_a_dead_path_and_without_one_arrives_once() -> Outcome {
    let mut typist = Typist::start("dead")?;
    typist.path.stop(true);
    typist.say("type into the DEAD path,\\n")?;
    typist.path.wait_for_return()?;
    typist.say("keep type then Without any\\n")?;
    typist.path.open();
    typist.wait_once("ready\ninto the DEAD path,\nthen Without any\n")
}

#[test]
fn input_that_arrived_unacknowledged_is_not_typed_again() -> Outcome {
    let mut typist = Typist::start("half")?;
    // The viewer's bytes still arrive, but no answer does.
    typist.path.stop(false);
    typist.say("type first half, \\nand ")?;
    typist.wait_for("ready\nfirst half, \n")?;
    typist.path.stop(true);
    typist.say("keydown Shift_L")?;
    typist.say("type the second\\n")?;
    typist.path.wait_for_return()?;
    typist.say("keep type x")?;
    typist.say("keep keyup Shift_L")?;
    typist.say("keep type  y\\n")?;
    typist.path.open();
    typist.wait_once("ready\nfirst half, \nand the second\nx y\n")
}

#[test]
fn a_restarted_session_process_gets_none_of_the_input() -> Outcome {
    let mut typist = Typist::start("replaced")?;
    typist.path.stop(true);
    typist.say("type lost\\n")?;
    typist.path.wait_for_return()?;
    typist.say("keep type also lost\\n")?;
    let session = typist.desktop.session.pid("session")?.to_string();
    std::process::Command::new("kill").args(["-KILL", &session]).status()?;
    typist.path.open();
    typist.say("barrier")?;
    typist.wait_once("ready\n")
}

#[test]
fn a_key_repeats_only_while_its_viewer_is_known_to_hold_it() -> Outcome {
    let folder = Folder::new("e2e-typed-held")?;
    let paper = folder.path().join("typed");
    let application = typewriter(&paper);
    let application: Vec<&str> = application.iter().map(String::as_str).collect();
    let mut desktop = Desktop::start("typed-held", "640x480", &application)?;
    let read = || std::fs::read_to_string(&paper).unwrap_or_default();
    wait_for("the terminal reads keys", EVENT_TIMEOUT, || paper.exists().then_some(()))?;
    desktop.viewer.say("move 100 100")?;
    let signal = |name: &str, pid: u32| -> Outcome {
        let sent = std::process::Command::new("kill").args([name, &pid.to_string()]).status()?;
        sent.success().then_some(()).ok_or_else(|| format!("kill {name} {pid} failed").into())
    };
    // Of a key that is held X types 25 a second after 660 ms.
    let hold = std::time::Duration::from_millis(2500);
    for (stops, key) in [("the viewer", 'a'), ("the session", 'b')] {
        let pid = match stops {
            "the viewer" => desktop.viewer.pid(),
            _ => desktop.session.pid("session")?,
        };
        desktop.viewer.say(&format!("keydown {key}"))?;
        let typed = || read().matches(key).count();
        wait_for("the key is typed", EVENT_TIMEOUT, || (typed() > 0).then_some(()))?;
        signal("-STOP", pid)?;
        std::thread::sleep(hold);
        let count = typed();
        signal("-CONT", pid)?;
        assert!(count <= 10, "{count} characters were typed while {stops} was stopped");
        desktop.viewer.say(&format!("keyup {key}"))?;
    }
    desktop.viewer.say("keydown c")?;
    wait_for("a held key repeats", EVENT_TIMEOUT, || {
        (read().matches('c').count() >= 30).then_some(())
    })?;
    desktop.viewer.say("keyup c").map(drop)
}
