//! Night colours and gamma: from the session's messages to the shell's events, and to no pixel.
//! Knows viewer-core's public interface.

use thinc_protocol::command::Command;
use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerEvent};

const SIZE: Size = Size { width: 40, height: 30 };
const COLOR: u32 = 0x80_4020;

fn viewer(caps: u32) -> Viewer {
    let clipboard = ClipboardPolicy::OFF;
    let mut viewer =
        Viewer::new(&ViewerConfig { name: "t".into(), size: Size::default(), caps, clipboard });
    let hello = SessionHello { version: 1, caps: 0, name: "t".into(), message_bytes_max: 65_536 };
    say(&mut viewer, &SessionMessage::Hello(hello));
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }));
    viewer
}

fn say(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    viewer.handle_bytes(&bytes, 0).unwrap();
}

/// All of the screen in one colour, and the end of a frame.
fn draw(viewer: &mut Viewer, seq: u64) {
    let mut commands = Vec::new();
    Command::Sfill { region: SIZE.rect().into(), color: COLOR }.encode(&mut commands);
    let update = Update {
        seq,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &commands,
    };
    say(viewer, &SessionMessage::Update(update));
}

fn night(blue: u8) -> Vec<GammaArea> {
    let mut table = GammaTable::default();
    table.channels[2] = [blue; 256];
    vec![GammaArea { rect: WHOLE_SCREEN, table }]
}

/// The events of it, and whether a frame ended after the last of them.
fn events(viewer: &mut Viewer) -> (Vec<Vec<GammaArea>>, bool) {
    let (mut tables, mut ended) = (Vec::new(), false);
    while let Some(event) = viewer.poll_event() {
        match event {
            ViewerEvent::Gamma(areas) => {
                ended = false;
                tables.push(areas);
            }
            ViewerEvent::FrameEnd => ended = true,
            _ => {}
        }
    }
    (tables, ended)
}

#[test]
fn the_shell_gets_the_newest_tables_and_the_framebuffer_none() {
    let mut viewer = viewer(ViewerCaps::GAMMA);
    say(&mut viewer, &SessionMessage::Gamma(night(9)));
    say(&mut viewer, &SessionMessage::Gamma(night(200)));
    draw(&mut viewer, 1);
    assert_eq!(events(&mut viewer), (vec![night(200)], true));
    assert!(viewer.framebuffer().pixels().iter().all(|pixel| pixel & 0xff_ffff == COLOR));
    draw(&mut viewer, 2);
    assert_eq!(events(&mut viewer), (vec![], true));
    say(&mut viewer, &SessionMessage::Gamma(Vec::new()));
    assert_eq!(events(&mut viewer), (vec![vec![]], false));
}

/// A session tells nothing if no colour changes. What the shell shows may be of a connection when
/// some did.
#[test]
fn a_connection_without_tables_says_so_with_its_first_frame() {
    let mut viewer = viewer(ViewerCaps::GAMMA);
    assert_eq!(events(&mut viewer), (vec![], false));
    draw(&mut viewer, 1);
    assert_eq!(events(&mut viewer), (vec![vec![]], true));
    draw(&mut viewer, 2);
    assert_eq!(events(&mut viewer), (vec![], true));
}

#[test]
fn a_shell_that_shows_none_hears_of_none() {
    let mut viewer = viewer(0);
    draw(&mut viewer, 1);
    assert_eq!(events(&mut viewer), (vec![], true));
}
