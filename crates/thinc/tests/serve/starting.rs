//! Starting: what is missing or taken is said in words that name it, and nothing is left behind.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Place, Session, failed};

#[test]
fn a_port_in_use_is_named_and_another_session_is_not_disturbed() {
    let session = Session::start(&[]);
    let address = session.address().to_string();
    let words = session.place.fails(&["serve", "--listen", &address, "--name", "second", "--", "sleep", "1000"]);
    assert!(words.contains(&address) && words.contains("in use"), "{words}");
    assert!(!session.place.folder.join("run/thinc/second").exists(), "the second left its folder behind");
    session.viewer().whole();
}

#[test]
fn a_name_in_use_is_named() {
    let session = Session::start(&[]);
    let words = session.place.fails(&["serve", "--listen", "127.0.0.1:0", "--name", "t", "--", "sleep", "1000"]);
    assert!(words.contains("called t is running already"), "{words}");
    session.viewer().whole();
}

#[test]
fn the_default_port_gives_way_to_the_next_free_one() {
    // Whether 8443 is free on this machine or not: with it taken, the next free one is used and said.
    let taken = TcpListener::bind("127.0.0.1:8443");
    let place = Place::new();
    let mut command = place.thinc(&["serve", "--name", "d", "--", "sh", "-c", "exit 0"]);
    let output = command.output().unwrap();
    let (words, said) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{words}");
    assert!(words.contains("port 8443 is in use; listening on 127.0.0.1:84"), "{words}");
    assert!(said.contains("https://127.0.0.1:84"), "{said}");
    drop(taken);
}

#[test]
fn no_x_server_and_no_command_are_said_before_anything_is_made() {
    let place = Place::new();
    let output = place.thinc(&["serve", "--", "sleep", "1"]).env("THINC_XORG", "/nonexistent/Xorg").output().unwrap();
    let words = failed(&output);
    assert!(words.contains("/nonexistent/Xorg") && words.contains("THINC_XORG"), "{words}");
    let words = place.fails(&["serve", "--", "no-such-program"]);
    assert!(words.contains("there is no command no-such-program"), "{words}");
    let output = place.thinc(&["serve", "--", "sleep", "1"]).env("THINC_DRIVER_DIR", "/nonexistent").output().unwrap();
    assert!(failed(&output).contains("/nonexistent"), "the place that was looked in is named");
    assert_eq!(fs::read_dir(place.folder.join("run")).unwrap().count(), 0);
}

#[test]
fn an_x_server_that_does_not_start_says_why() {
    let place = Place::new();
    let output = place
        .thinc(&["serve", "--listen", "127.0.0.1:0", "--", "sleep", "1"])
        .env("THINC_XORG", "/bin/false")
        .output()
        .unwrap();
    let words = failed(&output);
    assert!(words.contains("X server did not start") && words.contains("exit status: 1"), "{words}");
    assert!(!place.folder.join("run/thinc/sleep").exists(), "nothing is left");
}

#[test]
fn a_runtime_folder_that_cannot_be_used_is_named() {
    let place = Place::new();
    let serve = |folder: &str| {
        let mut command = place.thinc(&["serve", "--listen", "127.0.0.1:0", "--", "sleep", "1"]);
        failed(&command.env("XDG_RUNTIME_DIR", folder).output().unwrap())
    };
    // /proc can be written to by nobody, not even by root.
    let words = serve("/proc");
    assert!(words.contains("/proc/thinc") && words.contains("XDG_RUNTIME_DIR"), "{words}");
    let open = place.folder.join("open");
    fs::create_dir_all(open.join("thinc")).unwrap();
    fs::set_permissions(open.join("thinc"), fs::Permissions::from_mode(0o777)).unwrap();
    let words = serve(open.to_str().unwrap());
    assert!(words.contains("must be yours alone") && words.contains("777"), "{words}");
    let link = place.folder.join("link");
    fs::create_dir_all(&link).unwrap();
    std::os::unix::fs::symlink(place.folder.join("run"), link.join("thinc")).unwrap();
    assert!(serve(link.to_str().unwrap()).contains("must be yours alone"), "somebody else's link is not followed");
}

#[test]
fn the_ready_file_says_all_of_it_and_is_private() {
    let session = Session::start(&["--size", "800x600"]);
    let path = session.place.folder.join("ready.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "it holds a secret");
    for key in ["link", "native_link", "display", "xauthority", "listen"] {
        assert!(session.ready[key].as_str().is_some_and(|value| !value.is_empty()), "{key}");
    }
    for part in ["supervisor", "xorg", "session", "command"] {
        assert!(crate::harness::lives(session.pid(part)), "{part}");
    }
    let cookie = fs::metadata(session.ready["xauthority"].as_str().unwrap()).unwrap();
    assert_eq!(cookie.permissions().mode() & 0o777, 0o600);
    assert_eq!(session.viewer().whole(), thinc_region::Size { width: 800, height: 600 });
    assert!(session.said.iter().any(|line| line.trim().starts_with("https://")));
    assert!(session.said.iter().any(|line| line.contains("thinc-view 'thinc://")));
}
