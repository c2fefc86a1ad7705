//! Path back: from session-core's requests, to the driver's sockets and the X keyboard, in order.
//! A request that cannot be carried out at once blocks the others, and some of them only up to a
//! time-out. Knows the destination of each request; never its reason.

use std::io;
use std::time::Duration;

use thinc_protocol::Micros;
use thinc_protocol::viewer::Display;
use thinc_region::Rect;
use thinc_ring::OutputRequest;
use thinc_session_core::Request;
use tokio::io::Interest;

use super::{Actor, watch};
use crate::SessionError;
use crate::keyboard::Change;

/// How long input waits for a keysym to be bound or a lock to change: an X client that grabs
/// the server delays that, and may itself wait for a key or a click.
const BINDING_TIMEOUT: Duration = Duration::from_millis(500);
/// How long input waits for another layout: two programs are started for that, 10 ms on an idle
/// machine.
const LAYOUT_TIMEOUT: Duration = Duration::from_secs(3);

/// What blocks session-core's next request.
pub(super) enum Blocked {
    /// Nothing.
    Free,
    /// Space in the input socket's buffer, for this message.
    Input(thinc_ring::InputMessage),
    /// Space in the control socket's buffer, for this request: X reads it between two requests of
    /// X clients, and one of those can take long.
    Control(Request),
    /// A change of the X keyboard, until this deadline.
    Keyboard(Micros),
}

impl Actor {
    pub(super) fn execute_requests(&mut self) -> Result<(), SessionError> {
        while self.blocked_socket.is_none() {
            let now = self.now();
            let request = match std::mem::replace(&mut self.blocked, Blocked::Free) {
                Blocked::Keyboard(until) if now < until => {
                    self.blocked = Blocked::Keyboard(until);
                    return Ok(());
                }
                Blocked::Free | Blocked::Keyboard(_) => match self.core.poll_request(now) {
                    Some(request) => request,
                    None => return Ok(()),
                },
                Blocked::Input(message) => Request::Input(message),
                Blocked::Control(request) => request,
            };
            let result = match &request {
                Request::Input(message) => self.input.send(*message),
                Request::Bind { number, bindings } => {
                    let change = Change::Bind { number: *number, bindings: bindings.clone() };
                    self.change_keyboard(change, BINDING_TIMEOUT);
                    Ok(())
                }
                Request::SetLayout(layout) => {
                    self.change_keyboard(Change::Layout(layout.clone()), LAYOUT_TIMEOUT);
                    Ok(())
                }
                Request::SetLocks { caps, num } => {
                    self.change_keyboard(Change::Locks { caps: *caps, num: *num }, BINDING_TIMEOUT);
                    Ok(())
                }
                Request::Resize(arrangement) => {
                    let outputs: Vec<OutputRequest> =
                        arrangement.displays().iter().map(output).collect();
                    self.viewers_scale = arrangement.scale_percent();
                    self.xsettings.set_scale(self.scale_percent());
                    self.control.set_outputs(&outputs)
                }
                Request::Barrier(id) => self.control.barrier(*id),
            };
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let (blocked, fd) = match request {
                        Request::Input(message) => (Blocked::Input(message), self.input.fd()),
                        other => (Blocked::Control(other), self.control.fd()),
                    };
                    self.blocked = blocked;
                    self.blocked_socket = Some(watch(fd.try_clone_to_owned(), Interest::WRITABLE)?);
                    return Ok(());
                }
                Err(error) => return Err(SessionError::Driver(error)),
            }
        }
        Ok(())
    }

    /// Reads the outputs from the geometry block.
    pub(super) fn read_outputs(&mut self) {
        let geometry = self.ring.geometry();
        let rect = |output: &thinc_ring::Output| {
            Rect::at(output.x, output.y, output.width.cast_signed(), output.height.cast_signed())
        };
        let outputs: Vec<Rect> = geometry.outputs.iter().map(rect).collect();
        self.core.handle_outputs(&outputs);
    }

    /// Requests a change of the X keyboard, and blocks requests until it is done or has timed out.
    fn change_keyboard(&mut self, change: Change, time_out: Duration) {
        if self.keyboard.change(change) {
            self.keyboard_changes += 1;
            self.blocked = Blocked::Keyboard(self.now() + time_out.as_micros() as Micros);
        }
    }
}

fn output(display: &Display) -> OutputRequest {
    let (rect, mm) = (display.rect, display.millimetres);
    let (width, height) = (rect.width().cast_unsigned(), rect.height().cast_unsigned());
    OutputRequest {
        x: rect.x1,
        y: rect.y1,
        width,
        height,
        mm_width: mm.width,
        mm_height: mm.height,
    }
}
