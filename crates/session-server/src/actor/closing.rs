//! Beside the path: under actor.rs, ends of connections and of the session. Closes those whose time
//! has passed, and forgets those that have ended. Knows time-outs and reasons; never messages of
//! the display.

use thinc_protocol::Micros;
use thinc_protocol::session::{Close, CloseCode, SessionMessage};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{debug, info};

use super::connections::TimedOut;
use super::{Actor, CLOSE_TIMEOUT, CLOSE_TIMEOUT_AT_END};
use crate::connection::{ConnectionId, EndReason, Event, STALL_TIMEOUT};
use crate::expiry::Due;

impl Actor {
    /// Sends the reason, and ends the connection once it was sent, or at the time-out.
    pub(super) fn close(&mut self, id: ConnectionId, code: CloseCode, reason: &str) {
        let abort_at = self.now() + CLOSE_TIMEOUT.as_micros() as Micros;
        let Some(connection) = self.connections.get_mut(id) else { return };
        info!(connection = id.0, "{}: closing: {reason}", connection.label);
        connection.abort_at.get_or_insert(abort_at);
        match connection.viewer {
            Some(viewer) => self.core.close_viewer(viewer, code, reason),
            None => {
                let mut chunk = connection.chunk.take().unwrap_or_default();
                SessionMessage::Close(Close { code, reason }).encode(&mut chunk);
                if let Some(outgoing) = connection.outgoing.take() {
                    let _ = outgoing.try_send(chunk);
                }
            }
        }
    }

    pub(super) fn handle_closed(&mut self, id: ConnectionId, reason: &EndReason) {
        let Some(connection) = self.connections.remove(id) else { return };
        if connection.takes_video && !self.connections.take_videos() {
            self.driver.set_want_video(false);
        }
        if self.connections.is_empty() {
            self.encoder.release_memory();
        }
        self.caches.handle_disconnect(id, self.now());
        if let Some(viewer) = connection.viewer {
            let stats = self.core.stats(viewer).unwrap_or_default();
            debug!("{}: {stats:?}", connection.label);
            connection.instance.into_iter().for_each(|instance| {
                self.remember_departed(instance, self.core.input_received(viewer))
            });
            self.core.remove_viewer(viewer);
            self.files.viewer_left(viewer, self.now());
            self.people.set_changed();
        }
        let why = match reason {
            EndReason::Closed => String::new(),
            EndReason::Stalled => format!(": it read nothing for {STALL_TIMEOUT:?}"),
            EndReason::Broken(error) => format!(": {error}"),
        };
        info!(connection = id.0, "{}: disconnected{why}", connection.label);
    }

    /// Closes and aborts connections whose time-out has passed, and those of guests whose visit
    /// has ended. True if any was closed, or guests were checked.
    pub(super) fn enforce_time_outs(&mut self) -> bool {
        let now = self.now();
        // Also if no visit has ended: viewers are told of what has expired in the next turn.
        let has_checked = self.people.deadline().is_some_and(|at| at <= now);
        if has_checked {
            let _ = self.check_guests();
        }
        let timed_out: Vec<(ConnectionId, TimedOut)> = self
            .connections
            .iter()
            .filter_map(|(id, connection)| Some((id, connection.timed_out(now)?)))
            .collect();
        let mut has_closed = has_checked;
        let mut aborted = Vec::new();
        for (id, what) in timed_out {
            match what {
                TimedOut::Close(code, reason) => {
                    self.close(id, code, &reason);
                    has_closed = true;
                }
                TimedOut::Abort => aborted.push(id),
            }
        }
        for id in aborted {
            if let Some(connection) = self.connections.get(id) {
                connection.task.abort();
                self.handle_closed(id, &EndReason::Closed);
            }
        }
        has_closed
    }

    /// Why the session ends, if nobody uses it for too long; before, people are told.
    pub(super) fn unused(&mut self) -> Option<String> {
        let now = self.now();
        let is_viewed = self.connections.values().any(|connection| connection.viewer.is_some());
        self.expiry.set_viewed(is_viewed, now);
        if let Some(attention) = &mut self.attention {
            attention.set_viewed(is_viewed, now);
        }
        match self.expiry.poll(now)? {
            Due::Warning(text) => {
                self.show_notice(&text);
                None
            }
            Due::End(why) => Some(why),
        }
    }

    /// Tells every viewer that the session ends, and waits until they have read it.
    pub(super) async fn close_all(&mut self, inbox: &mut mpsc::Receiver<Event>, why: &str) {
        for id in self.connections.ids() {
            self.close(id, CloseCode::SessionEnded, why);
        }
        let all_gone = async {
            loop {
                while self.serve_viewers() {}
                if self.connections.is_empty() {
                    return;
                }
                match inbox.recv().await {
                    Some(event) => self.handle_event(event),
                    None => return,
                }
            }
        };
        let _ = timeout(CLOSE_TIMEOUT_AT_END, all_gone).await;
    }
}
