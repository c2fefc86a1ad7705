//! Beside the path, for tests only: a viewer-core in the middle of a connection, and the messages
//! that it sends.
//! Knows the protocol's bytes; never threads or sockets.

use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer};

/// 64 KiB: longest message that these viewers send or take.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// A viewer that has sent nothing yet.
pub(super) fn new_viewer() -> Viewer {
    super::new_viewer(Size::default(), ClipboardPolicy::OFF, 0)
}

pub(super) fn hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello {
        version: 1,
        caps: 0,
        name: "demo".into(),
        message_bytes_max: MESSAGE_BYTES_MAX as u32,
    })
}

/// One after the exchange of hellos, which shows a screen of this size.
pub(super) fn connected(size: Size) -> Viewer {
    let mut viewer = new_viewer();
    connect(&mut viewer, size);
    viewer
}

/// The session answers the hello, and shows a screen of this size.
pub(super) fn connect(viewer: &mut Viewer, size: Size) {
    tell(viewer, &hello());
    tell(viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size, shown: None }));
    sent(viewer);
    while viewer.poll_event().is_some() {}
}

/// The session sends this.
pub(super) fn tell(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    viewer.handle_bytes(&bytes, 0).expect("a valid message");
}

/// What the viewer has sent since the last call.
pub(super) fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut bytes = Vec::new();
    viewer.poll_transmit(&mut bytes);
    let mut deframer = Deframer::new(MESSAGE_BYTES_MAX);
    deframer.push(&bytes);
    let mut messages = Vec::new();
    while let Some(frame) = deframer.next().expect("whole messages") {
        messages.push(ViewerMessage::decode(&frame).expect("a valid message"));
    }
    messages
}
