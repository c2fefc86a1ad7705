//! What draws 3D programs in a session: a frame is drawn there, and `thinc serve`, `thinc list` and
//! viewers say by what. Needs Mesa's libGL and its software renderer.

use std::fs;

use thinc_protocol::viewer::ViewerCaps;
use thinc_transport::connect;

use crate::harness::{Message, Session, TestEnvironment, Viewer, connect_options, wait_until};
use crate::sound::kill;

/// What software draws, whatever GPU this machine has.
const LINE: &str = "3D: software (llvmpipe), by --gpu off";

fn said(session: &Session) -> String {
    wait_until("it is known what draws", || {
        session.status()["graphics"].as_str().map(str::to_owned)
    })
}

fn told(viewer: &mut Viewer) -> String {
    match viewer.until(|message| matches!(message, Message::Graphics(_))) {
        Message::Graphics(line) => line,
        _ => unreachable!(),
    }
}

fn viewer(session: &Session) -> Viewer {
    Viewer::with_caps(connect(&session.link(), &connect_options()).unwrap(), ViewerCaps::GRAPHICS)
}

#[test]
fn what_draws_is_said_by_serve_and_list_and_to_viewers_of_each_session_process() {
    let session = Session::start(&["--gpu", "off"]);
    let mut early = viewer(&session);
    assert_eq!(told(&mut early), LINE);
    assert_eq!(said(&session), LINE);
    session.prints(LINE);
    let list = session.environment.run(&["list"]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert_eq!(list.lines().last(), Some(LINE), "{list}");
    // The next session process knows it too.
    kill(session.pid("session"));
    session.errors_with("the session process ended");
    assert_eq!(told(&mut viewer(&session)), LINE);
}

#[test]
fn a_session_without_opengl_says_why() {
    let mut environment = TestEnvironment::new();
    // The libraries that are found first are none.
    let folder = environment.folder.join("libraries");
    fs::create_dir(&folder).unwrap();
    for name in ["libGL.so.1", "libGL.so", "libEGL.so.1", "libEGL.so"] {
        fs::write(folder.join(name), "").unwrap();
    }
    let path = folder.display().to_string();
    environment.variables.push(("LD_LIBRARY_PATH".to_owned(), path));
    let session = Session::start_with(environment, &[], &["sleep", "1000"]);
    assert_eq!(
        said(&session),
        "3D: none: by GLX: libGL.so.1 is not installed; by EGL: libEGL.so.1 is not installed"
    );
}
