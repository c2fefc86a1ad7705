//! A program that treats drops well or badly. Beside the path: for tests of drags. Knows XDND.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ClientMessageEvent, ConnectionExt as _, CreateWindowAux, EventMask, PropMode,
    Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT};

/// Where the programs' windows are.
pub(crate) const AT: (i16, i16) = (100, 100);

/// How a program treats a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// It takes it, after it has been asked so often.
    Takes(u32),
    /// It never does.
    Refuses,
    /// It does not answer.
    Hangs,
    /// It reads the paths and does not say that it has finished.
    Forgets,
    /// It has finished without success.
    Fails,
    /// It closes its window instead.
    Closes,
}

/// What a program has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Entered,
    List(Vec<u8>, (u32, u32), Atom),
    Left,
}

struct Program {
    connection: RustConnection,
    window: Window,
    manners: Manners,
    received: Sender<Received>,
}

pub(crate) fn atom(connection: &RustConnection, name: &str) -> Atom {
    connection.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom
}

fn new_window(connection: &RustConnection, parent: Window, (x, y): (i16, i16)) -> Window {
    let window = connection.generate_id().unwrap();
    let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    let class = WindowClass::INPUT_OUTPUT;
    let (depth, visual) = (COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT);
    connection
        .create_window(depth, window, parent, x, y, 200, 150, 0, class, visual, &aux)
        .unwrap();
    connection.map_window(window).unwrap().check().unwrap();
    window
}

/// A window within one of a window manager, whose program treats drops so, and speaks this version
/// of XDND.
pub(crate) fn start(
    connection: RustConnection,
    manners: Manners,
    version: u32,
) -> (Window, Receiver<Received>) {
    let root = connection.setup().roots[0].root;
    let frame = new_window(&connection, root, AT);
    let window = new_window(&connection, frame, (5, 20));
    let aware = atom(&connection, "XdndAware");
    let mode = PropMode::REPLACE;
    let set = connection.change_property32(mode, window, aware, AtomEnum::ATOM, &[version]);
    set.unwrap().check().unwrap();
    let (received, events) = channel();
    thread::spawn(move || Program { connection, window, manners, received }.run());
    (window, events)
}

impl Program {
    fn send(&self, to: Window, name: &str, data: [u32; 5]) {
        let event = ClientMessageEvent::new(32, to, atom(&self.connection, name), data);
        let mask = EventMask::NO_EVENT;
        self.connection.send_event(false, to, mask, event).unwrap().check().unwrap();
    }

    /// Ends with the X server.
    fn run(self) {
        let names = ["XdndEnter", "XdndPosition", "XdndDrop", "XdndLeave"];
        let [enter, position, drop, leave] = names.map(|name| atom(&self.connection, name));
        let (mut asked, mut place, mut action) = (0, (0, 0), 0);
        while let Ok(event) = self.connection.wait_for_event() {
            let Event::ClientMessage(message) = event else { continue };
            let [source, _, at, time, wanted] = message.data.as_data32();
            if message.type_ == enter {
                self.tell(Received::Entered);
            } else if message.type_ == leave {
                self.tell(Received::Left);
            } else if message.type_ == position {
                asked += 1;
                (place, action) = ((at >> 16, at & 0xffff), wanted);
                let accepts = match self.manners {
                    Manners::Takes(after) => u32::from(asked > after),
                    Manners::Refuses => 0,
                    Manners::Hangs => continue,
                    Manners::Closes => {
                        self.connection.destroy_window(self.window).unwrap().check().unwrap();
                        continue;
                    }
                    Manners::Forgets | Manners::Fails => 1,
                };
                self.send(source, "XdndStatus", [message.window, accepts, 0, 0, action]);
            } else if message.type_ == drop {
                let time = message.data.as_data32()[2].max(time);
                let list = self.paths(time);
                self.tell(Received::List(list, place, action));
                if self.manners != Manners::Forgets {
                    let success = u32::from(self.manners != Manners::Fails);
                    self.send(source, "XdndFinished", [message.window, success, action, 0, 0]);
                }
            }
        }
    }

    /// The test may have ended.
    fn tell(&self, received: Received) {
        let _ = self.received.send(received);
    }

    fn paths(&self, time: u32) -> Vec<u8> {
        let names = ["XdndSelection", "text/uri-list", "THINC_TEST"];
        let [selection, target, property] = names.map(|name| atom(&self.connection, name));
        let (connection, window) = (&self.connection, self.window);
        connection.convert_selection(window, selection, target, property, time).unwrap();
        connection.flush().unwrap();
        loop {
            if let Event::SelectionNotify(event) = connection.wait_for_event().unwrap() {
                assert_eq!(event.property, property, "the paths are given");
                let any = AtomEnum::ANY;
                let reply = connection.get_property(true, window, property, any, 0, 1 << 20);
                return reply.unwrap().reply().unwrap().value;
            }
        }
    }
}
