//! Path 13/13, beside the pixels: from the client's status and its messages, to panels over the
//! framebuffer.
//! What the viewer tells its user: of a lost connection, what the session announces, and notices
//! that pass. Knows words and times; never the connection or SDL.

use std::time::{Duration, Instant};

use thinc_region::Size;

use super::drawing::{Placed, in_middle};
use crate::client::Status;
use crate::news;
use crate::overlay::Panel;

/// 6 s: how long a notice is shown; enough to read two lines.
const NOTICE_SHOWN: Duration = Duration::from_secs(6);

/// The messages that are shown.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Of the connection, while it is not as it should be; hides all others but notices.
    status: Option<String>,
    /// Of the session or its administrator; until it is closed.
    announcement: Option<String>,
    /// Notice at the window's lower edge, and its expiry.
    notice: Option<(String, Instant)>,
}

impl Messages {
    /// Whether a message about the connection hides the menu and questions.
    pub(super) fn hides_others(&self) -> bool {
        self.status.is_some()
    }

    /// The connection's state has changed.
    pub(super) fn set_status(&mut self, message: Option<String>) {
        self.status = message;
    }

    /// The session announces something; what was not closed stays above it.
    pub(super) fn announce(&mut self, text: &str) {
        news::add_announcement(&mut self.announcement, text);
    }

    pub(super) fn has_announcement(&self) -> bool {
        self.announcement.is_some()
    }

    /// The user has read it.
    pub(super) fn close_announcement(&mut self) {
        self.announcement = None;
    }

    /// Shows a notice for a while.
    pub(super) fn show_notice(&mut self, words: String, now: Instant) {
        self.notice = Some((words, now + NOTICE_SHOWN));
    }

    /// This notice is not true any more; true if it was shown.
    pub(super) fn withdraw_notice(&mut self, words: &str) -> bool {
        self.notice.take_if(|(shown, _)| shown == words).is_some()
    }

    /// True if a notice has been shown for long enough, and is gone now.
    pub(super) fn expire_notice(&mut self, now: Instant) -> bool {
        self.notice.take_if(|(_, until)| *until <= now).is_some()
    }

    /// When a notice has to go.
    pub(super) fn due(&self) -> Option<Instant> {
        self.notice.as_ref().map(|(_, until)| *until)
    }

    /// The message at the window's upper edge. It may stay for long: there the framebuffer stays
    /// readable.
    pub(super) fn draw_upper(&self, window: Size, dot: u32) -> Option<Placed> {
        let text = match (&self.status, &self.announcement) {
            (Some(status), _) => status.clone(),
            (None, Some(announcement)) => format!("{announcement}\n\nCtrl+Alt+Enter: close"),
            (None, None) => return None,
        };
        let panel = Panel::draw_within(&text, dot * 2, window.width);
        let x = in_middle(window.width, panel.size.width);
        Some((panel, x, 0))
    }

    /// The notice at its lower edge.
    pub(super) fn draw_notice(&self, window: Size, dot: u32) -> Option<Placed> {
        let (words, _) = self.notice.as_ref()?;
        let panel = Panel::draw_within(words, dot, window.width);
        let x = in_middle(window.width, panel.size.width);
        let y = (window.height as i32 - panel.size.height as i32).max(0);
        Some((panel, x, y))
    }
}

/// What the user is told of the connection to `host`; `buffers`: what they type meanwhile is kept.
pub(super) fn message_of(
    status: &Status,
    host: &str,
    is_unresponsive: bool,
    buffers: bool,
) -> Option<String> {
    match status {
        // Short: it may be over before a sentence is read, and it covers the user's work.
        Status::Connected if is_unresponsive => Some("No answer".to_owned()),
        Status::Connecting | Status::Connected => None,
        Status::TakenOver => Some(news::TAKEN_OVER.to_owned()),
        Status::Lost { why, attempts } => {
            let typed = if buffers {
                "What you type is sent when it is back"
            } else {
                "What you type is not sent"
            };
            let attempt =
                if *attempts > 1 { format!(" (attempt {attempts})") } else { String::new() };
            Some(format!(
                "Connection to {host} lost: {why}\n{typed}. Reconnecting{attempt}. Ctrl+Alt+R: \
                 now, Ctrl+Alt+Q: close"
            ))
        }
        Status::Ended(error) => Some(format!("{error}\nCtrl+Alt+Q: close")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Size = Size { width: 800, height: 600 };

    #[test]
    fn a_notice_passes_and_is_withdrawn_only_by_its_own_words() {
        let (mut messages, start) = (Messages::default(), Instant::now());
        assert_eq!(messages.due(), None);
        messages.show_notice("one".to_owned(), start);
        assert!(!messages.withdraw_notice("two") && !messages.expire_notice(start));
        let until = messages.due().expect("it passes");
        assert!(messages.draw_notice(WINDOW, 1).is_some());
        assert!(messages.expire_notice(until) && messages.draw_notice(WINDOW, 1).is_none());
        messages.show_notice("two".to_owned(), start);
        assert!(messages.withdraw_notice("two") && !messages.withdraw_notice("two"));
    }

    #[test]
    fn a_message_about_the_connection_is_shown_before_announcements() {
        let mut messages = Messages::default();
        assert!(messages.draw_upper(WINDOW, 1).is_none());
        messages.announce("rebooting soon");
        let announced = messages.draw_upper(WINDOW, 1);
        assert!(announced.is_some() && !messages.hides_others());
        messages.set_status(Some("No answer".to_owned()));
        assert!(messages.hides_others() && messages.draw_upper(WINDOW, 1) != announced);
        messages.set_status(None);
        assert_eq!(messages.draw_upper(WINDOW, 1), announced);
        messages.close_announcement();
        assert!(!messages.has_announcement() && messages.draw_upper(WINDOW, 1).is_none());
    }

    #[test]
    fn the_user_is_told_of_the_connection_only_if_something_is_wrong() {
        let said = |status: &Status| message_of(status, "host", false, true);
        assert_eq!(said(&Status::Connecting), None);
        assert_eq!(said(&Status::Connected), None);
        let unresponsive = message_of(&Status::Connected, "host", true, true);
        assert_eq!(unresponsive.as_deref(), Some("No answer"));
        let lost = |attempts| Status::Lost { why: "it broke".to_owned(), attempts };
        assert_eq!(
            said(&lost(1)).as_deref(),
            Some(
                "Connection to host lost: it broke\nWhat you type is sent when it is back. \
                 Reconnecting. Ctrl+Alt+R: now, Ctrl+Alt+Q: close"
            )
        );
        let later = message_of(&lost(3), "host", false, false).expect("it is lost");
        assert!(later.contains("is not sent. Reconnecting (attempt 3)."), "{later}");
    }
}
