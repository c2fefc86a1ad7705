//! Path back: from session-core's requests, to the driver's sockets and the X keyboard.
//! In their order, one after the other: what cannot be had at once holds the rest up, and some of it only for a while.
//! Knows where each request goes; never why session-core makes it.

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

/// How long input waits for a keysym to be bound or a lock to change: a client that grabs the X server holds that up, and
/// may itself wait for a key or a click.
const BINDING_TIME: Duration = Duration::from_millis(500);
/// How long it waits for another layout: two programs are started for that, 10 ms on an idle machine.
const LAYOUT_TIME: Duration = Duration::from_secs(3);

/// What session-core waits for before its next request is asked for.
pub(super) enum Held {
    /// Nothing.
    Free,
    /// Room on the input socket, for this.
    Input(thinc_ring::InputMessage),
    /// Room on the control socket, for this: X reads it between two requests of its clients, and one can be long.
    Control(Request),
    /// The X keyboard to be changed, until this moment.
    Keyboard(Micros),
}

impl Actor {
    pub(super) fn carry_requests(&mut self) -> Result<(), SessionError> {
        while self.room.is_none() {
            let now = self.now();
            let request = match std::mem::replace(&mut self.held, Held::Free) {
                Held::Keyboard(until) if now < until => {
                    self.held = Held::Keyboard(until);
                    return Ok(());
                }
                Held::Free | Held::Keyboard(_) => match self.core.poll_request(now) {
                    Some(request) => request,
                    None => return Ok(()),
                },
                Held::Input(message) => Request::Input(message),
                Held::Control(request) => request,
            };
            let result = match &request {
                Request::Input(message) => self.input.send(*message),
                Request::Bind(bindings) => {
                    self.change_keyboard(Change::Bind(bindings.clone()), BINDING_TIME);
                    Ok(())
                }
                Request::SetLayout(layout) => {
                    self.change_keyboard(Change::Layout(layout.clone()), LAYOUT_TIME);
                    Ok(())
                }
                Request::SetLocks { caps, num } => {
                    self.change_keyboard(Change::Locks { caps: *caps, num: *num }, BINDING_TIME);
                    Ok(())
                }
                Request::Resize(arrangement) => {
                    let outputs: Vec<OutputRequest> = arrangement.displays().iter().map(output).collect();
                    self.desktop.set_scale(arrangement.scale_percent());
                    self.control.set_outputs(&outputs)
                }
                Request::Barrier(id) => self.control.barrier(*id),
            };
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let (held, fd) = match request {
                        Request::Input(message) => (Held::Input(message), self.input.fd()),
                        other => (Held::Control(other), self.control.fd()),
                    };
                    self.held = held;
                    self.room = Some(watch(fd.try_clone_to_owned(), Interest::WRITABLE)?);
                    return Ok(());
                }
                Err(error) => return Err(SessionError::Driver(error)),
            }
        }
        Ok(())
    }

    /// The outputs as the geometry block has them now.
    pub(super) fn take_outputs(&mut self) {
        let geometry = self.ring.geometry();
        let rect = |output: &thinc_ring::Output| {
            Rect::at(output.x, output.y, output.width.cast_signed(), output.height.cast_signed())
        };
        let outputs: Vec<Rect> = geometry.outputs.iter().map(rect).collect();
        self.core.handle_outputs(&outputs);
    }

    /// Has the X keyboard changed, and holds requests until that is done.
    fn change_keyboard(&mut self, change: Change, patience: Duration) {
        if self.keyboard.change(change) {
            self.keyboard_changes += 1;
            self.held = Held::Keyboard(self.now() + patience.as_micros() as Micros);
        }
    }
}

fn output(display: &Display) -> OutputRequest {
    let (rect, mm) = (display.rect, display.millimetres);
    let (width, height) = (rect.width().cast_unsigned(), rect.height().cast_unsigned());
    OutputRequest { x: rect.x1, y: rect.y1, width, height, mm_width: mm.width, mm_height: mm.height }
}
