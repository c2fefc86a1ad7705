//! Path 3/13, and path back: under actor.rs, the driver's shared memory and sockets. From and to
//! Xorg; records.rs reads what it publishes. Knows descriptors, and which framebuffer is the
//! current one; never what records mean.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use thinc_region::Size;
use thinc_ring::{
    Attachment, Control, Framebuffer, InputMessage, InputSender, OutputRequest, Ring,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{size_of, watch};
use crate::SessionError;
use crate::cursor::CursorPublisher;
use crate::recorder::Recorder;

/// Framebuffers that arrived before the record that names them; past the limit the oldest is
/// dropped, which a newer one has replaced.
const NEXT_FRAMEBUFFERS_MAX: usize = 8;

/// Received before they are used, in the order of their generations.
#[derive(Debug)]
pub(super) struct Successors<T> {
    waiting: Vec<(u32, T)>,
}

impl<T> Successors<T> {
    fn new() -> Successors<T> {
        Successors { waiting: Vec::new() }
    }

    pub(super) fn push(&mut self, generation: u32, successor: T) {
        if self.waiting.len() == NEXT_FRAMEBUFFERS_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push((generation, successor));
    }

    /// The one of this generation, which replaces all before it; `None` if a newer one has replaced
    /// it.
    pub(super) fn take(&mut self, generation: u32) -> Option<T> {
        let at = self.waiting.iter().position(|&(of, _)| of == generation)?;
        self.waiting.drain(..=at).next_back().map(|(_, successor)| successor)
    }
}

/// Waits for the driver; apart from [`Driver`], whose recorder other threads may not refer to.
pub(super) struct Wakeups {
    ring: AsyncFd<OwnedFd>,
    control: AsyncFd<OwnedFd>,
}

impl Wakeups {
    /// The driver says that there are records: [`Driver::clear_wake`] is to follow.
    pub(super) async fn records(&self) -> io::Result<()> {
        self.ring.readable().await.map(|mut ready| ready.clear_ready())
    }

    /// The control socket may have messages: [`Driver::set_readable`] is to follow.
    pub(super) async fn messages(&self) -> io::Result<()> {
        self.control.readable().await.map(|mut ready| ready.clear_ready())
    }
}

/// The link with the driver, and who follows what it publishes.
pub(super) struct Driver {
    pub(super) ring: Ring,
    pub(super) framebuffer: Framebuffer,
    /// Received over the control socket; used from the GEOMETRY record on that names it.
    pub(super) next_framebuffers: Successors<Framebuffer>,
    input: InputSender,
    pub(super) control: Control,
    wakeups: Wakeups,
    /// The control socket may have messages.
    control_is_readable: bool,
    /// While a trace is recorded.
    pub(super) recorder: Option<Recorder>,
    pub(super) cursor: CursorPublisher,
    /// What the driver was told last; 0: nothing.
    frame_rate: u32,
}

impl Driver {
    /// Takes over from an earlier session process, which may have ended while a video played.
    pub(super) fn new(attachment: Attachment, offscreen: bool) -> Result<Driver, SessionError> {
        let Attachment { ring, framebuffer, input, control } = attachment;
        ring.set_want_offscreen(offscreen);
        ring.set_want_video(false);
        Ok(Driver {
            wakeups: Wakeups {
                ring: watch(ring.wake_fd().try_clone_to_owned(), Interest::READABLE)?,
                control: watch(control.fd().try_clone_to_owned(), Interest::READABLE)?,
            },
            control_is_readable: true,
            ring,
            framebuffer,
            next_framebuffers: Successors::new(),
            input,
            control,
            recorder: None,
            cursor: CursorPublisher::default(),
            frame_rate: 0,
        })
    }

    /// The screen's size.
    pub(super) fn size(&self) -> Size {
        size_of(&self.framebuffer)
    }

    /// What jobs read pixels from.
    pub(super) fn screen(&self) -> (&Ring, &Framebuffer) {
        (&self.ring, &self.framebuffer)
    }

    /// While any viewer accepts videos the driver keeps each frame's samples.
    pub(super) fn set_want_video(&self, wanted: bool) {
        self.ring.set_want_video(wanted);
    }

    /// X clients that draw frames without end are held to so many a second.
    pub(super) fn set_frame_rate(&mut self, rate: u32) {
        if std::mem::replace(&mut self.frame_rate, rate) != rate {
            self.ring.set_frame_rate(rate);
        }
    }

    /// Times that one of them was held.
    pub(super) fn holds(&self) -> u64 {
        self.ring.stats().holds
    }

    /// Which locks are on.
    pub(super) fn leds(&self) -> u32 {
        self.ring.leds()
    }

    /// Reads the control socket if it may have messages, or records wait that refer to them.
    pub(super) fn drain_readable(&mut self, has_records: bool) -> Result<(), SessionError> {
        if has_records || std::mem::take(&mut self.control_is_readable) {
            self.drain_control()?;
        }
        Ok(())
    }

    /// False: there are new records already.
    pub(super) fn prepare_sleep(&self) -> bool {
        self.ring.prepare_sleep()
    }

    /// What to wait for before more is read.
    pub(super) fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }

    /// The next record wakes again.
    pub(super) fn clear_wake(&self) {
        self.ring.clear_wake();
    }

    /// Messages are read in the next turn.
    pub(super) fn set_readable(&mut self) {
        self.control_is_readable = true;
    }

    pub(super) fn send_input(&self, message: InputMessage) -> io::Result<()> {
        self.input.send(message)
    }

    pub(super) fn set_outputs(&mut self, outputs: &[OutputRequest]) -> io::Result<()> {
        self.control.set_outputs(outputs)
    }

    pub(super) fn barrier(&mut self, id: u32) -> io::Result<()> {
        self.control.barrier(id)
    }

    pub(super) fn input_fd(&self) -> BorrowedFd<'_> {
        self.input.fd()
    }

    pub(super) fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framebuffer_replaces_all_before_it() {
        let mut next = Successors::new();
        [(4, 'a'), (5, 'b'), (6, 'c')].into_iter().for_each(|(of, it)| next.push(of, it));
        assert_eq!(next.take(5), Some('b'));
        assert_eq!(next.take(4), None, "it is older");
        assert_eq!(next.take(7), None, "it has not arrived");
        assert_eq!(next.take(6), Some('c'));
        assert!(next.waiting.is_empty());
    }

    #[test]
    fn the_oldest_framebuffers_are_dropped_past_the_limit() {
        let mut next = Successors::new();
        (0..=NEXT_FRAMEBUFFERS_MAX as u32).for_each(|generation| next.push(generation, generation));
        assert_eq!(next.waiting.len(), NEXT_FRAMEBUFFERS_MAX);
        assert_eq!(next.take(0), None);
        assert_eq!(next.take(1), Some(1));
    }
}
