//! Drops of files on a private X server, on programs that speak XDND well and badly. What takes
//! files gets their paths; what does not, hangs or dies is left within the time-outs. Skipped, with
//! a message, without Xvfb.

mod drop_program;
mod xvfb;

use std::path::Path;

use thinc_x_selection::Drags;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ConfigureWindowAux, ConnectionExt as _, PropMode};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use drop_program::{AT, Manners, Received, atom, start};
use xvfb::{Ended, xvfb};

const PATH: &str = "/home/u/Downloads/a b.txt";
const LIST: &[u8] = b"file:///home/u/Downloads/a%20b.txt\r\n";

fn server() -> Option<(Ended, String)> {
    xvfb(&["Xvfb"])
}

fn connect(display: &str) -> RustConnection {
    x11rb::connect(Some(display)).unwrap().0
}

/// Drops a file on the window, and says what its program has received.
fn drop_on(display: &str, manners: Manners) -> (bool, Vec<Received>) {
    let (_, received) = start(connect(display), manners, 5);
    let mut drags = Drags::connect(Some(display)).unwrap();
    let target = drags.find(AT.0 + 50, AT.1 + 50).unwrap().expect("it takes drops");
    let taken = drags.play(target, &[Path::new(PATH)]).unwrap();
    (taken, received.try_iter().collect())
}

#[test]
fn a_program_gets_the_paths_of_what_is_dropped_on_its_window() {
    let Some((_server, display)) = server() else { return };
    let connection = connect(&display);
    let move_ = atom(&connection, "XdndActionMove");
    let list = Received::List(LIST.to_vec(), (150, 150), move_);
    for manners in [Manners::Takes(0), Manners::Takes(2)] {
        assert_eq!(drop_on(&display, manners), (true, vec![Received::Entered, list.clone()]));
    }
    // It has read them, so it has them.
    let (taken, received) = drop_on(&display, Manners::Forgets);
    assert!(taken && received.len() == 2, "{received:?}");
    let (taken, received) = drop_on(&display, Manners::Fails);
    assert!(!taken && received.len() == 2, "{received:?}");
}

#[test]
fn a_program_that_does_not_want_them_is_left() {
    let Some((_server, display)) = server() else { return };
    for manners in [Manners::Refuses, Manners::Hangs] {
        let (_, received) = start(connect(&display), manners, 5);
        let mut drags = Drags::connect(Some(&display)).unwrap();
        let target = drags.find(AT.0 + 50, AT.1 + 50).unwrap().unwrap();
        assert!(!drags.play(target, &[Path::new(PATH)]).unwrap(), "{manners:?}");
        let events: Vec<Received> = received.iter().take(2).collect();
        assert_eq!(events, [Received::Entered, Received::Left], "{manners:?}");
    }
    let (taken, received) = drop_on(&display, Manners::Closes);
    assert!(!taken && !received.contains(&Received::Left), "{received:?}");
}

#[test]
fn only_windows_whose_programs_take_drops_are_found() {
    let Some((_server, display)) = server() else { return };
    let mut drags = Drags::connect(Some(&display)).unwrap();
    assert_eq!(drags.find(10, 10).unwrap(), None, "nothing is there");
    let (old, _old) = start(connect(&display), Manners::Takes(0), 2);
    assert_eq!(drags.find(AT.0 + 50, AT.1 + 50).unwrap(), None, "its version is too old");
    let (window, _received) = start(connect(&display), Manners::Takes(0), 5);
    assert_eq!(drags.find(AT.0 + 2, AT.1 + 2).unwrap(), None, "the frame is no target");
    assert_eq!(drags.find(-1, -1).unwrap(), None);
    let target = drags.find(AT.0 + 50, AT.1 + 50).unwrap().unwrap();
    // The window is closed before the files have arrived; another gets them no more than it.
    let connection = connect(&display);
    for closed in [window, old] {
        connection.destroy_window(closed).unwrap().check().unwrap();
    }
    assert!(!drags.play(target, &[Path::new(PATH)]).unwrap());
}

#[test]
fn a_window_that_was_moved_gets_the_drop_where_it_is() {
    let Some((_server, display)) = server() else { return };
    let (window, received) = start(connect(&display), Manners::Takes(0), 4);
    let mut drags = Drags::connect(Some(&display)).unwrap();
    let target = drags.find(AT.0 + 50, AT.1 + 50).unwrap().unwrap();
    let connection = connect(&display);
    let to = ConfigureWindowAux::new().x(15).y(40);
    connection.configure_window(window, &to).unwrap().check().unwrap();
    assert!(drags.play(target, &[Path::new(PATH)]).unwrap());
    let place = received.try_iter().find_map(|event| match event {
        Received::List(_, place, _) => Some(place),
        _ => None,
    });
    // It was at 5, 20 in its frame.
    assert_eq!(place, Some((160, 170)));
}

#[test]
fn a_proxy_receives_the_messages_of_its_window() {
    let Some((_server, display)) = server() else { return };
    let (proxy, received) = start(connect(&display), Manners::Takes(0), 5);
    let connection = connect(&display);
    let root = connection.setup().roots[0].root;
    let property = atom(&connection, "XdndProxy");
    for window in [root, proxy] {
        let (mode, type_) = (PropMode::REPLACE, AtomEnum::WINDOW);
        let set = connection.change_property32(mode, window, property, type_, &[proxy]);
        set.unwrap().check().unwrap();
    }
    let mut drags = Drags::connect(Some(&display)).unwrap();
    let target = drags.find(600, 400).unwrap().expect("the desktop takes drops by its proxy");
    assert!(drags.play(target, &[Path::new(PATH)]).unwrap());
    assert_eq!(received.try_iter().next(), Some(Received::Entered));
    let covered = start(connect(&display), Manners::Takes(0), 5).1;
    let target = drags.find(AT.0 + 50, AT.1 + 50).unwrap().unwrap();
    assert!(drags.play(target, &[Path::new(PATH)]).unwrap());
    assert_eq!(
        covered.try_iter().next(),
        Some(Received::Entered),
        "a window is before the desktop"
    );
    // A proxy that does not name itself belongs to a program that has ended.
    connection.delete_property(proxy, property).unwrap().check().unwrap();
    assert_eq!(drags.find(600, 400).unwrap(), None);
}
