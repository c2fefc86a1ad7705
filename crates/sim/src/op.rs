//! Between workload.rs and world.rs: one thing that happens, to anybody on the path.
//! From a seed or a test, to the part of the world that it happens to.
//! Knows what can happen; never what comes of it.

use thinc_protocol::Micros;
use thinc_protocol::video::Readiness;
use thinc_protocol::viewer::{InputEvent, View};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawableId, Drawn};

use crate::link::Path;
use crate::surface::Fill;
use crate::x_server::{Blit, XServer};

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// X begins to draw.
    Draw {
        /// Where.
        region: Region,
        /// With what.
        fill: Fill,
        /// As what.
        what: Drawn,
        /// In which window.
        window: u32,
    },
    /// X begins to move pixels.
    Copy {
        /// Where to.
        region: Region,
        /// Pixels right.
        dx: i32,
        /// Pixels down.
        dy: i32,
        /// In which window.
        window: u32,
    },
    /// A client makes a pixmap.
    CreatePixmap {
        /// Its serial, never used twice.
        id: u32,
        /// In pixels.
        size: Size,
        /// It has no alpha.
        opaque: bool,
    },
    /// The pixmap goes.
    FreePixmap(u32),
    /// X begins to draw into a pixmap.
    Paint {
        /// The pixmap.
        id: u32,
        /// Where in it.
        region: Region,
        /// With what.
        fill: Fill,
        /// As what.
        what: Drawn,
    },
    /// X begins to move pixels between drawables.
    Blit {
        /// Where to, in the destination.
        region: Region,
        /// Between which, and how.
        blit: Blit,
        /// In which window.
        window: u32,
    },
    /// A client shows a frame of XVideo.
    Frame {
        /// At this port.
        port: u16,
        /// Of its samples.
        source: Size,
        /// Where all of it would be seen.
        place: Rect,
        /// What of that is seen.
        region: Region,
        /// In which window.
        window: u32,
    },
    /// It shows none any more.
    StopPort(u16),
    /// The shell's plans say that this part of the screen changes like a video, for all viewers.
    Moving(Rect),
    /// A viewer says something of its newest stream.
    Say(usize, Readiness),
    /// X writes some of the pixels it has begun to write.
    Step(usize),
    /// X ends its op and publishes it.
    Finish,
    /// X goes to sleep.
    Idle,
    /// X turns to other work.
    Yield,
    /// X changes the screen's size.
    Resize(Size),
    /// The session process dies, and its successor attaches. Viewers stay connected here; only the queue's part counts.
    Attach,
    /// The session reads so many records.
    Read(usize),
    /// The session hands out a job for a viewer.
    Commit(usize),
    /// The shell reads the pixels of a viewer's oldest job, while X begins to draw, or goes on, and writes so many.
    Snapshot(usize, usize, Option<Box<Op>>),
    /// An encoder finishes one of a viewer's jobs: which, counted from the oldest.
    Encode(usize, usize),
    /// An encoder gives away what it has of such a job.
    EncodeHalf(usize, usize),
    /// The pixels of a viewer's oldest job could not be had.
    Cancel(usize),
    /// Bytes are handed to a viewer's connection.
    Transmit(usize),
    /// Time passes.
    Wait(Micros),
    /// The shell does whatever there is to do, for all viewers.
    Shell,
    /// Everything comes to rest, and is compared.
    Rest,
    /// A viewer stops reading.
    Stall(usize),
    /// It reads again.
    Resume(usize),
    /// A viewer finds that it lost pixels.
    Lose(usize, Rect),
    /// A viewer asks for everything.
    Refresh(usize),
    /// A viewer wishes to see this.
    View(usize, View),
    /// A viewer asks for a barrier.
    Barrier(usize),
    /// A hand at a viewer; X delivers a button to a window.
    Input(usize, InputEvent),
    /// X delivers the oldest input to this window.
    Deliver(u32),
    /// The cursor has another image.
    Cursor(u16),
    /// A viewer comes.
    Join(Path),
    /// A viewer comes whose updates are lost, so many of a thousand, and overtake one another.
    JoinLossy(Path, u64),
    /// A viewer's connection breaks, and it comes back with what it keeps.
    Reconnect(usize),
    /// A viewer goes.
    Leave(usize),
}

/// X begins to draw.
pub(crate) fn draw(x: &mut XServer, op: &Op) {
    match op {
        Op::Draw { region, fill, what, window } => x.begin_draw(DrawableId::SCREEN, region, *fill, *what, *window),
        Op::Paint { id, region, fill, what } => x.begin_draw(DrawableId(*id), region, *fill, *what, 0),
        Op::Copy { region, dx, dy, window } => {
            let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
            x.begin_copy(region, &Blit { src, dst, dx: *dx, dy: *dy, over: false }, *window);
        }
        Op::Blit { region, blit, window } => x.begin_copy(region, blit, *window),
        Op::Frame { port, source, place, region, window } => x.begin_frame(*port, *source, *place, region, *window),
        other => panic!("X does not draw by {other:?}"),
    }
}
