//! Path 12/13: from client.rs, to the window and the headless viewer.
//! The state of the connection, and what has happened since it was last read. Knows viewer-core's
//! values; never who reads them, or when.

use thinc_protocol::people::{PersonPointer, Shared};
use thinc_region::Size;
use thinc_viewer_core::CursorPixels;

use crate::error::ViewError;

/// Shown in [`Status::TakenOver`].
pub(crate) const TAKEN_OVER: &str = "You have opened this session elsewhere; it goes on there.\n\
                                     Ctrl+Alt+R: take it back, Ctrl+Alt+Q: close";

/// State of the connection.
#[derive(Debug)]
pub enum Status {
    /// The first attempt is in progress.
    Connecting,
    /// Connected; the framebuffer is current.
    Connected,
    /// The connection was lost; the framebuffer is stale.
    Lost {
        /// The reason, for the user.
        why: String,
        /// Attempts to reconnect since.
        attempts: u32,
    },
    /// The session was opened at another viewer of the user, who may take it back.
    TakenOver,
    /// Ended for good.
    Ended(ViewError),
}

/// What has happened since the news were last taken. Of everything but barriers only the newest is
/// kept, or a bounded number, so it cannot grow.
#[derive(Debug, Default)]
pub struct News {
    /// The status has changed.
    pub status: bool,
    /// The screen has a new size.
    pub geometry: Option<Size>,
    /// The session's monitors have moved.
    pub displays: bool,
    /// The cursor has a new image.
    pub cursor: Option<CursorPixels>,
    /// An application moved the pointer.
    pub cursor_move: Option<(u16, u16)>,
    /// The cursor is shown or hidden.
    pub cursor_show: Option<bool>,
    /// An application wants the pointer's relative motion, or no longer.
    pub relative_wanted: Option<bool>,
    /// The screen's colours are shown as others.
    pub gamma: bool,
    /// A drawing burst is complete: present now.
    pub frame_end: bool,
    /// Answered barriers.
    pub barriers: Vec<u32>,
    /// The session's clipboard has changed, or a transfer has ended.
    pub clipboard: bool,
    /// The user is asked about other files, or about none any more.
    pub files: bool,
    /// Somebody came or left, or may do something else.
    pub people: bool,
    /// Answers to requests to share; there are few at one time.
    pub shared: Vec<Shared>,
    /// The others' pointers that have moved, one for each person.
    pub pointers: Vec<PersonPointer>,
    /// The session has another name.
    pub renamed: bool,
    /// Sound has arrived, and no device plays.
    pub sound: bool,
    /// Other programs play now.
    pub players: bool,
    /// The session wants the microphone, or no longer, or its person has answered.
    pub microphone: bool,
    /// A message for the user that needs no answer.
    pub notice: Option<String>,
    /// Messages of the session's administrator or the session itself, which stay until they are
    /// closed.
    pub announcement: Option<String>,
}

/// Longest text of messages that are not closed, in bytes; past it the oldest are lost.
const ANNOUNCEMENT_BYTES_MAX: usize = 4_000;

/// 64: most answered barriers that nobody has asked about yet; older ones are forgotten.
const BARRIERS_MAX: usize = 64;

/// Adds a message to those that are not closed.
pub(crate) fn add_announcement(announcement: &mut Option<String>, text: &str) {
    let all = announcement.get_or_insert_default();
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(text);
    let surplus = all.ceil_char_boundary(all.len().saturating_sub(ANNOUNCEMENT_BYTES_MAX));
    all.drain(..surplus);
}

impl News {
    /// A message for the user replaces the one before; none changes nothing.
    pub(crate) fn tell(&mut self, notice: Option<String>) {
        self.notice = notice.or(self.notice.take());
    }

    /// A barrier was answered, which ends what was drawn before it.
    pub(crate) fn answer_barrier(&mut self, id: u32) {
        if self.barriers.len() == BARRIERS_MAX {
            self.barriers.remove(0);
        }
        self.barriers.push(id);
        self.frame_end = true;
    }

    /// Somebody's pointer has moved.
    pub(crate) fn move_pointer(&mut self, pointer: PersonPointer) {
        self.pointers.retain(|before| before.number != pointer.number);
        self.pointers.push(pointer);
    }

    /// True if there is anything worth waking the reader for.
    pub(crate) fn is_worth_waking(&self) -> bool {
        self.status
            || self.frame_end
            || self.geometry.is_some()
            || self.displays
            || self.cursor.is_some()
            || self.cursor_move.is_some()
            || self.cursor_show.is_some()
            || self.relative_wanted.is_some()
            || self.gamma
            || !self.barriers.is_empty()
            || self.clipboard
            || self.files
            || self.people
            || !self.shared.is_empty()
            || !self.pointers.is_empty()
            || self.renamed
            || self.sound
            || self.players
            || self.microphone
            || self.notice.is_some()
            || self.announcement.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_notice_place_of_a_pointer_and_barriers_are_kept() {
        let mut news = News::default();
        news.tell(Some("one".to_owned()));
        news.tell(None);
        assert_eq!(news.notice.as_deref(), Some("one"));
        news.tell(Some("two".to_owned()));
        assert_eq!(news.notice.as_deref(), Some("two"));
        let at = |number, x| PersonPointer { number, x, y: 0 };
        [at(2, 1), at(3, 1), at(2, 7)].into_iter().for_each(|at| news.move_pointer(at));
        assert_eq!(news.pointers, [at(3, 1), at(2, 7)]);
        (0..100).for_each(|id| news.answer_barrier(id));
        assert_eq!(news.barriers, (36..100).collect::<Vec<_>>());
        assert!(news.frame_end && news.is_worth_waking());
    }

    #[test]
    fn messages_wait_for_each_other_and_are_bounded() {
        let mut announcement = None;
        add_announcement(&mut announcement, "one");
        add_announcement(&mut announcement, "two");
        assert_eq!(announcement.as_deref(), Some("one\ntwo"));
        for _ in 0..100 {
            add_announcement(&mut announcement, &"ü".repeat(500));
        }
        assert!(announcement.is_some_and(|text| text.len() <= ANNOUNCEMENT_BYTES_MAX));
    }
}
