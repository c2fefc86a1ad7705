//! What a person types while the path is dead is typed when it is back: all of it, in order, once.
//! Real X server, real session, headless viewer; between them a path over TCP that stops in each direction when told to.
//! What arrived is what `cat` wrote to a file.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::Desktop;

type Outcome = Result<(), Error>;

/// What is carried over one connection.
#[derive(Default)]
struct Fate {
    /// What comes from the viewer, or from the session, goes nowhere from now on.
    up_dead: AtomicBool,
    down_dead: AtomicBool,
}

/// A path in front of a session's port.
struct Path {
    at: SocketAddr,
    fates: Arc<Mutex<Vec<Arc<Fate>>>>,
    /// Whoever comes is sent away.
    closed: Arc<AtomicBool>,
    sent_away: Arc<AtomicU64>,
}

impl Path {
    /// To the session's port. The threads end with the process: nothing tells them that a test is over.
    fn to(port: u16) -> Result<Path, Error> {
        let near = TcpListener::bind("127.0.0.1:0")?;
        let path =
            Path { at: near.local_addr()?, fates: Arc::default(), closed: Arc::default(), sent_away: Arc::default() };
        let (fates, closed, sent_away) = (path.fates.clone(), path.closed.clone(), path.sent_away.clone());
        std::thread::spawn(move || {
            for viewer in near.incoming().map_while(Result::ok) {
                if closed.load(Ordering::SeqCst) {
                    sent_away.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let Ok(session) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let fate = Arc::new(Fate::default());
                fates.lock().expect("no holder panics").push(fate.clone());
                let [Ok(viewer_too), Ok(session_too)] = [viewer.try_clone(), session.try_clone()] else { continue };
                carry(viewer_too, session_too, fate.clone(), |fate| &fate.up_dead);
                carry(session, viewer, fate, |fate| &fate.down_dead);
            }
        });
        Ok(path)
    }

    /// What is said over the connections there are arrives in none of these directions any more.
    fn stop(&self, up: bool) {
        for fate in self.fates.lock().expect("no holder panics").iter() {
            fate.down_dead.store(true, Ordering::SeqCst);
            fate.up_dead.store(up, Ordering::SeqCst);
        }
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The viewer has given up the connection that died and has come for another.
    fn wait_for_return(&self) -> Outcome {
        let before = self.sent_away.load(Ordering::SeqCst);
        wait_for("the viewer looks for another connection", Duration::from_secs(30), || {
            (self.sent_away.load(Ordering::SeqCst) > before).then_some(())
        })
    }

    fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }
}

/// Bytes one way. A dead direction is read on: who sends notices nothing.
fn carry(mut from: TcpStream, mut to: TcpStream, fate: Arc<Fate>, dead: fn(&Fate) -> &AtomicBool) {
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if !dead(&fate).load(Ordering::SeqCst) && to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        if !dead(&fate).load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Write);
        }
    });
}

/// A terminal whose lines end in a file, seen through such a path.
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
        let script = format!("cat > '{}'", file.display());
        let mut path = None;
        let way = |link: &str| {
            let (head, rest) = link.split_once("127.0.0.1:").ok_or("a session listens on 127.0.0.1")?;
            let (port, tail) = rest.split_once('/').ok_or("a link has a path")?;
            let to = path.insert(Path::to(port.parse()?)?);
            Ok(format!("{head}{}/{tail}", to.at))
        };
        let application = ["xterm", "-e", "sh", "-c", &script];
        let name = format!("typed-{name}");
        let mut desktop = Desktop::start_through(&name, "640x480", &application, way, &["--transport", "tcp"])?;
        desktop.settle()?;
        desktop.viewer.say("move 100 100")?;
        let path = path.ok_or("a viewer has a way")?;
        let mut typist = Typist { desktop, path, file, _folder: folder };
        typist.say("type ready\\n")?;
        typist.wait_for("ready\n")?;
        Ok(typist)
    }

    fn say(&mut self, line: &str) -> Outcome {
        self.desktop.viewer.say(line).map(drop)
    }

    /// The file is this, and stays so when everything that was on its way has arrived.
    fn wait_for(&mut self, wanted: &str) -> Outcome {
        let read = || std::fs::read_to_string(&self.file).unwrap_or_default();
        let found = wait_for("what was typed", Duration::from_secs(30), || (read() == wanted).then_some(()));
        if found.is_err() {
            return Err(format!("{:?} was typed, where {wanted:?} was wanted", read()).into());
        }
        Ok(())
    }

    /// The same over the connection that the viewer has come back on.
    fn wait_once(&mut self, wanted: &str) -> Outcome {
        self.wait_for(wanted)?;
        self.say("wait-quiet")?;
        self.say("type end\\n")?;
        self.wait_for(&format!("{wanted}end\n"))
    }
}

#[test]
fn what_is_typed_into_a_dead_path_and_while_there_is_none_arrives_once() -> Outcome {
    let mut typist = Typist::start("dead")?;
    typist.path.stop(true);
    typist.say("type into the DEAD path,\\n")?;
    typist.path.wait_for_return()?;
    typist.say("keep type then Without any\\n")?;
    typist.path.open();
    typist.wait_once("ready\ninto the DEAD path,\nthen Without any\n")
}

#[test]
fn what_arrived_without_a_word_of_it_is_not_typed_again() -> Outcome {
    let mut typist = Typist::start("half")?;
    // What the viewer says still arrives, and of no answer it hears.
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
fn a_session_that_was_replaced_meanwhile_gets_none_of_it() -> Outcome {
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
