//! Path back: from session-core's requests, to the driver's sockets and the X keyboard, in order.
//! A request that cannot be carried out at once blocks the others, and some of them only up to a
//! time-out. Knows the destination of each request; never its reason.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use thinc_protocol::Micros;
use thinc_protocol::viewer::Display;
use thinc_ring::OutputRequest;
use thinc_session_core::{Request, Session};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Actor, watch};
use crate::SessionError;
use crate::keyboard::{Change, KeyboardHandle};

/// How long input waits for a keysym to be bound or a lock to change: an X client that grabs
/// the server delays that, and may itself wait for a key or a click.
const BINDING_TIMEOUT: Duration = Duration::from_millis(500);
/// How long input waits for another layout: two programs are started for that, 10 ms on an idle
/// machine.
const LAYOUT_TIMEOUT: Duration = Duration::from_secs(3);

/// What blocks session-core's next request.
enum Blocked {
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

/// Session-core's requests, which are carried out one after the other.
pub(super) struct Requests {
    blocked: Blocked,
    /// The socket that `blocked` waits for. Watched only then, or every key that X reads would wake
    /// this process.
    socket: Option<AsyncFd<OwnedFd>>,
    keyboard: KeyboardHandle,
    /// Keyboard changes requested and not yet done: more than one if input did not wait for them.
    keyboard_changes: u32,
}

impl Requests {
    pub(super) fn new(keyboard: KeyboardHandle) -> Requests {
        Requests { blocked: Blocked::Free, socket: None, keyboard, keyboard_changes: 0 }
    }

    /// The next request that can be carried out: the blocked one, or the next of session-core's.
    fn next(&mut self, core: &mut Session, now: Micros) -> Option<Request> {
        if self.socket.is_some() {
            return None;
        }
        match std::mem::replace(&mut self.blocked, Blocked::Free) {
            Blocked::Keyboard(until) if now < until => {
                self.blocked = Blocked::Keyboard(until);
                None
            }
            Blocked::Free | Blocked::Keyboard(_) => core.poll_request(now),
            Blocked::Input(message) => Some(Request::Input(message)),
            Blocked::Control(request) => Some(request),
        }
    }

    /// There is no space for this request in the buffer of its socket, of which this is a
    /// duplicate.
    fn block(&mut self, request: Request, socket: io::Result<OwnedFd>) -> Result<(), SessionError> {
        self.blocked = match request {
            Request::Input(message) => Blocked::Input(message),
            other => Blocked::Control(other),
        };
        self.socket = Some(watch(socket, Interest::WRITABLE)?);
        Ok(())
    }

    /// Requests a change of the X keyboard, and blocks requests until it is done or has timed out.
    fn change_keyboard(&mut self, change: Change, time_out: Duration, now: Micros) {
        if self.keyboard.change(change) {
            self.keyboard_changes += 1;
            self.blocked = Blocked::Keyboard(now + time_out.as_micros() as Micros);
        }
    }

    /// A change was carried out, or has failed.
    pub(super) fn handle_keyboard_changed(&mut self) {
        self.keyboard_changes = self.keyboard_changes.saturating_sub(1);
        if self.keyboard_changes == 0 && matches!(self.blocked, Blocked::Keyboard(_)) {
            self.blocked = Blocked::Free;
        }
    }

    /// When the X keyboard is not waited for any more.
    pub(super) fn deadline(&self) -> Option<Micros> {
        if let Blocked::Keyboard(until) = self.blocked { Some(until) } else { None }
    }

    /// Waits until the socket that requests wait for has space; without one, forever.
    pub(super) async fn writable(&self) -> io::Result<()> {
        match &self.socket {
            Some(socket) => socket.writable().await.map(drop),
            None => std::future::pending().await,
        }
    }

    /// The socket has space.
    pub(super) fn unblock_socket(&mut self) {
        self.socket = None;
    }
}

impl Actor {
    /// Carries out what can be carried out.
    pub(super) fn execute_requests(&mut self) -> Result<(), SessionError> {
        loop {
            let now = self.now();
            let Some(request) = self.requests.next(&mut self.core, now) else { return Ok(()) };
            let result = match &request {
                Request::Input(message) => self.driver.send_input(*message),
                Request::Bind { number, bindings } => {
                    let change = Change::Bind { number: *number, bindings: bindings.clone() };
                    self.requests.change_keyboard(change, BINDING_TIMEOUT, now);
                    Ok(())
                }
                Request::SetLayout(layout) => {
                    let change = Change::Layout(layout.clone());
                    self.requests.change_keyboard(change, LAYOUT_TIMEOUT, now);
                    Ok(())
                }
                Request::SetLocks { caps, num } => {
                    let change = Change::Locks { caps: *caps, num: *num };
                    self.requests.change_keyboard(change, BINDING_TIMEOUT, now);
                    Ok(())
                }
                Request::Resize(arrangement) => {
                    let outputs: Vec<OutputRequest> =
                        arrangement.displays().iter().map(output).collect();
                    let preferred = self.preferences.current().scale;
                    self.scale.set_viewers(arrangement.scale_percent(), preferred);
                    self.driver.set_outputs(&outputs)
                }
                Request::Barrier(id) => self.driver.barrier(*id),
            };
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let fd = match &request {
                        Request::Input(_) => self.driver.input_fd(),
                        _ => self.driver.control_fd(),
                    };
                    return self.requests.block(request, fd.try_clone_to_owned());
                }
                Err(error) => return Err(SessionError::Driver(error)),
            }
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::sync_channel;

    use thinc_region::Size;
    use thinc_session_core::{Config, LossyPolicy, Scheduling, VideoPolicy};

    use super::*;

    fn core() -> Session {
        Session::new(Config {
            name: String::new(),
            size: Size { width: 64, height: 64 },
            scheduling: Scheduling::ShortestFirst,
            offscreen: false,
            lossy: LossyPolicy::Never,
            video: VideoPolicy::Off,
            max_rate: None,
        })
    }

    fn locks() -> Change {
        Change::Locks { caps: true, num: false }
    }

    #[test]
    fn requests_wait_for_the_last_change_of_the_keyboard() {
        let (changes, _keyboard) = sync_channel(4);
        let mut requests = Requests::new(KeyboardHandle::new(changes));
        requests.change_keyboard(locks(), BINDING_TIMEOUT, 1_000);
        requests.change_keyboard(locks(), BINDING_TIMEOUT, 2_000);
        let until = 2_000 + BINDING_TIMEOUT.as_micros() as Micros;
        requests.handle_keyboard_changed();
        assert_eq!(requests.deadline(), Some(until));
        requests.handle_keyboard_changed();
        assert_eq!(requests.deadline(), None);
        requests.handle_keyboard_changed();
        assert_eq!(requests.keyboard_changes, 0, "it was not requested here");
    }

    #[test]
    fn the_keyboard_is_waited_for_until_the_deadline_only() {
        let (changes, keyboard) = sync_channel(4);
        let mut requests = Requests::new(KeyboardHandle::new(changes));
        requests.change_keyboard(locks(), BINDING_TIMEOUT, 0);
        let until = requests.deadline().expect("it is waited for");
        assert!(requests.next(&mut core(), until - 1).is_none());
        assert_eq!(requests.deadline(), Some(until));
        assert!(requests.next(&mut core(), until).is_none(), "session-core has no request");
        assert_eq!(requests.deadline(), None);
        drop(keyboard);
        requests.change_keyboard(locks(), BINDING_TIMEOUT, until);
        assert_eq!(requests.deadline(), None, "without an X connection nothing is waited for");
    }

    #[tokio::test]
    async fn a_blocked_request_is_the_next_once_its_socket_has_space() {
        let (changes, _keyboard) = sync_channel(4);
        let mut requests = Requests::new(KeyboardHandle::new(changes));
        let (socket, _driver) = UnixStream::pair().expect("a pair of sockets");
        requests.block(Request::Barrier(7), Ok(socket.into())).expect("it can be watched");
        assert!(requests.next(&mut core(), 0).is_none());
        requests.writable().await.expect("it has space");
        requests.unblock_socket();
        assert!(matches!(requests.next(&mut core(), 0), Some(Request::Barrier(7))));
        assert!(requests.next(&mut core(), 0).is_none(), "once");
    }
}
