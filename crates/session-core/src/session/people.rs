//! Path 10/13, beside the pixels: under session.rs, what viewers are told of each other.
//! From the shell, which knows who they are, to the viewers that accept it (`ViewerCaps::PEOPLE`).
//! Knows viewers; never names' meaning, credentials or rights.

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::people::{OpenInvitation, People, PersonPointer, Shared};

use super::Session;
use crate::viewer::{PeopleNews, ViewerId};

impl Session {
    /// What a viewer is told of the others, if it accepts that.
    fn people_news(&mut self, id: ViewerId) -> Option<&mut PeopleNews> {
        self.viewer_mut(id)?.told.people.as_mut()
    }

    /// Tells a viewer who is there, if that has changed since it was told last.
    pub fn set_people(&mut self, id: ViewerId, people: People) {
        if let Some(news) = self.people_news(id) {
            news.set(people);
        }
    }

    /// Tells a viewer of the owner's which invitations there are, if that has changed and it
    /// accepts them (`ViewerCaps::INVITATIONS`).
    pub fn set_invitations(&mut self, id: ViewerId, invitations: &[OpenInvitation]) {
        if let Some(news) = self.people_news(id) {
            news.set_invitations(invitations);
        }
    }

    /// What the people at this viewer should read. False if it cannot show notices.
    pub fn notify(&mut self, id: ViewerId, text: &str) -> bool {
        self.viewer_mut(id).is_some_and(|viewer| viewer.told.notices.push(text))
    }

    /// What they may like to know and need not close. False if the viewer shows no such notice.
    pub fn notify_briefly(&mut self, id: ViewerId, text: &str) -> bool {
        self.viewer_mut(id).is_some_and(|viewer| viewer.told.notices.push_brief(text))
    }

    /// The session has this name from now on, which viewers are told.
    pub fn rename(&mut self, name: &str) {
        self.config.name = name.to_owned();
        self.viewers.iter_mut().for_each(|viewer| viewer.told.news.set_name(name));
    }

    /// What draws the session's 3D programs, for people; viewers are told.
    pub fn set_graphics(&mut self, line: &str) {
        self.graphics = Some(line.to_owned());
        self.viewers.iter_mut().for_each(|viewer| viewer.told.news.set_graphics(line));
    }

    /// Whether a GPU encodes videos with chroma of full resolution.
    pub fn set_full_colour(&mut self, is_encoded: bool) {
        self.encodes_full_colour = is_encoded;
    }

    /// Someone's videos would have chroma of full resolution, but it is not known whether a GPU
    /// encodes it.
    pub fn wants_full_colour(&self) -> bool {
        !self.encodes_full_colour
            && self.viewers.iter().any(|viewer| viewer.pending.wants_full_colour())
    }

    /// Tells a viewer of the owner's in which directions the clipboard is shared with it: of those
    /// that its owner wants, the ones that the session has.
    pub fn tell_clip_policy(&mut self, id: ViewerId, wanted: ClipDirections) {
        let session = self.clipboard.policy;
        let policy = ClipDirections {
            to_session: wanted.to_session && session.take,
            to_viewer: wanted.to_viewer && session.give,
        };
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.told.news.set_clip_policy(policy);
        }
    }

    /// Answers a viewer's request to share.
    pub fn answer_share(&mut self, id: ViewerId, answer: Shared) {
        if let Some(news) = self.people_news(id) {
            news.answer(answer);
        }
    }

    /// Tells the other viewers where a person's pointer is, if that person is in their lists.
    pub fn show_pointer(&mut self, pointer: PersonPointer) {
        let news = self.viewers.iter_mut().filter_map(|viewer| viewer.told.people.as_mut());
        news.for_each(|news| news.point(pointer));
    }
}
