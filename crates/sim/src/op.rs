//! Between workload.rs and world.rs: one event anywhere on the path. From a seed or a test, to the
//! part of the world where it happens. Knows events; never their consequences.

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::video::DecoderState;
use thinc_protocol::viewer::{InputEvent, View};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawHint, DrawableId};

use crate::link::Path;
use crate::surface::Fill;
use crate::x_server::{Blit, XServer};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// X begins to draw on the screen.
    Draw {
        /// Where.
        region: Region,
        /// The new pixels.
        fill: Fill,
        /// The hint of its records.
        hint: DrawHint,
        /// The top-level window.
        window: u32,
    },
    /// X begins to copy pixels on the screen.
    Copy {
        /// Where to.
        region: Region,
        /// Pixels right.
        dx: i32,
        /// Pixels down.
        dy: i32,
        /// The top-level window.
        window: u32,
    },
    /// An X client creates a pixmap.
    CreatePixmap {
        /// Its serial, never used twice.
        id: u32,
        /// In pixels.
        size: Size,
        /// It has no alpha.
        opaque: bool,
    },
    /// The pixmap is freed.
    FreePixmap(u32),
    /// X begins to draw into a pixmap.
    Paint {
        /// The pixmap.
        id: u32,
        /// Where in it.
        region: Region,
        /// The new pixels.
        fill: Fill,
        /// The hint of its records.
        hint: DrawHint,
    },
    /// X begins to copy pixels between drawables.
    Blit {
        /// The region of the destination.
        region: Region,
        /// Source, destination and kind of the copy.
        blit: Blit,
        /// The top-level window.
        window: u32,
    },
    /// An X client shows a frame of XVideo.
    Frame {
        /// The port.
        port: u16,
        /// Size in luma samples.
        source: Size,
        /// Where all of it would be shown.
        place: Rect,
        /// The visible part of the place.
        region: Region,
        /// The top-level window.
        window: u32,
    },
    /// The port stops.
    StopPort(u16),
    /// The shell's plans report this part of the screen as a video area, to all viewers.
    VideoArea(Rect),
    /// A viewer reports a decoder state of its newest video stream.
    Decoder(usize, DecoderState),
    /// X writes some more pixels of its current op.
    Step(usize),
    /// X finishes its op and publishes it.
    Finish,
    /// X is about to sleep.
    Idle,
    /// X turns to other requests.
    Yield,
    /// X changes the screen's size.
    Resize(Size),
    /// The session process dies, and its successor attaches. Viewers stay connected here: only the
    /// queue's behaviour matters.
    Attach,
    /// The session reads so many records.
    Read(usize),
    /// The session commits a job of a viewer.
    Commit(usize),
    /// The shell reads the pixels of a viewer's oldest job, while X begins or continues an op and
    /// writes so many pixels.
    Snapshot(usize, usize, Option<Box<Op>>),
    /// An encoder finishes one of a viewer's jobs, counted from the oldest.
    Encode(usize, usize),
    /// An encoder delivers the first part of such a job.
    EncodeHalf(usize, usize),
    /// A viewer's oldest job is cancelled.
    Cancel(usize),
    /// Bytes are written to a viewer's connection.
    Transmit(usize),
    /// Time passes.
    Wait(Micros),
    /// The shell does all pending work of all viewers.
    Shell,
    /// All queues drain, and viewers are compared with the screen.
    Drain,
    /// A viewer stops reading.
    Stall(usize),
    /// The viewer reads again.
    Resume(usize),
    /// A viewer reports that it lost these pixels.
    LosePixels(usize, Rect),
    /// A viewer requests a full refresh.
    Refresh(usize),
    /// A viewer's person chooses how good pictures that move are.
    Quality(usize, PictureQuality),
    /// They want to see exactly what is shown.
    ExactFrame(usize),
    /// A viewer requests this view.
    View(usize, View),
    /// A viewer requests a barrier.
    Barrier(usize),
    /// Input at a viewer. X delivers buttons and keys to a window by `Deliver`.
    Input(usize, InputEvent),
    /// X delivers the oldest input to this window.
    Deliver(u32),
    /// The cursor gets another image, of this edge length.
    Cursor(u16),
    /// A viewer connects.
    Join(Path),
    /// A viewer connects whose updates may be reordered or lost (so many of a thousand).
    JoinLossy(Path, u64),
    /// A viewer's connection breaks, and it reconnects with what it has kept.
    Reconnect(usize),
    /// A viewer disconnects.
    Leave(usize),
}

/// Begins a drawing operation of X.
pub(crate) fn draw(x: &mut XServer, op: &Op) {
    match op {
        Op::Draw { region, fill, hint, window } => {
            x.begin_draw(DrawableId::SCREEN, region, *fill, *hint, *window)
        }
        Op::Paint { id, region, fill, hint } => {
            x.begin_draw(DrawableId(*id), region, *fill, *hint, 0)
        }
        Op::Copy { region, dx, dy, window } => {
            let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
            x.begin_copy(region, &Blit { src, dst, dx: *dx, dy: *dy, over: false }, *window);
        }
        Op::Blit { region, blit, window } => x.begin_copy(region, blit, *window),
        Op::Frame { port, source, place, region, window } => {
            x.begin_frame(*port, *source, *place, region, *window)
        }
        other => panic!("{other:?} is not a drawing"),
    }
}
