//! Path 12/13, beside the pixels: under client.rs; from viewer-core's events, to the window, the
//! headless viewer and the news.
//! What the session has told of itself: its name, its screen, who is there and what is allowed. It
//! is kept while another connection is opened. Knows no connection and no pixels.

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::gamma::GammaArea;
use thinc_protocol::people::{OpenInvitation, People};
use thinc_protocol::session::ScreenPart;
use thinc_region::{Rect, Size};

use crate::news::{News, add_announcement};
use crate::people::PeopleList;

/// What the session has told of itself.
#[derive(Debug, Default)]
pub(crate) struct SessionInfo {
    name: Option<String>,
    /// What draws its 3D programs, in words.
    graphics: Option<String>,
    /// The part of the session's screen that is shown, if not all of it at its own size.
    shown: Option<ScreenPart>,
    /// Positions of the session's monitors in its screen, once known on this connection.
    displays: Vec<Rect>,
    /// Count of geometries received.
    geometries: u64,
    /// An application wants the pointer's relative motion.
    relative_wanted: bool,
    /// What the screen's colours are shown as.
    gamma: Vec<GammaArea>,
    /// Count of messages of the session and its administrator.
    announcements: u32,
    /// What is copied; nothing is told to guests.
    clip_policy: Option<ClipDirections>,
    people: PeopleList,
}

impl SessionInfo {
    /// The session's name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What draws the session's 3D programs, in words; None: it has not told.
    pub(crate) fn graphics(&self) -> Option<&str> {
        self.graphics.as_deref()
    }

    /// The part of the session's screen that is shown, if not all of it at its own size.
    pub(crate) fn shown(&self) -> Option<ScreenPart> {
        self.shown
    }

    /// Positions of the session's monitors in its screen; none: they are not known.
    #[cfg(feature = "window")]
    pub(crate) fn displays(&self) -> &[Rect] {
        &self.displays
    }

    /// Count of geometries received.
    pub(crate) fn geometries(&self) -> u64 {
        self.geometries
    }

    /// An application wants the pointer's relative motion.
    pub(crate) fn relative_wanted(&self) -> bool {
        self.relative_wanted
    }

    /// What the screen's colours are shown as; after a loss those of the last connection.
    pub(crate) fn gamma(&self) -> &[GammaArea] {
        &self.gamma
    }

    /// Count of messages of the session and its administrator.
    pub(crate) fn announcements(&self) -> u32 {
        self.announcements
    }

    /// What is copied to and from the session; None if it has not told.
    #[cfg(feature = "window")]
    pub(crate) fn clip_policy(&self) -> Option<ClipDirections> {
        self.clip_policy
    }

    /// Who shows the session.
    #[cfg(feature = "window")]
    pub(crate) fn people(&self) -> &PeopleList {
        &self.people
    }

    /// Another connection has a screen; where its session has monitors is not known yet.
    pub(super) fn begin_connection(&mut self) {
        self.displays.clear();
    }

    pub(super) fn set_name(&mut self, name: String) {
        self.name = Some(name).filter(|name| !name.is_empty());
    }

    pub(super) fn set_graphics(&mut self, line: String) {
        self.graphics = Some(line);
    }

    /// The framebuffer has this size, and shows this part; returns the size of the whole screen.
    pub(super) fn set_geometry(
        &mut self,
        size: Size,
        shown: Option<ScreenPart>,
        news: &mut News,
    ) -> Size {
        news.geometry = Some(size);
        self.shown = shown;
        self.geometries += 1;
        shown.map_or(size, |shown| shown.screen)
    }

    pub(super) fn set_displays(&mut self, displays: Vec<Rect>, news: &mut News) {
        self.displays = displays;
        news.displays = true;
    }

    /// News only if they change: each connection begins with them.
    pub(super) fn set_gamma(&mut self, gamma: Vec<GammaArea>, news: &mut News) {
        if self.gamma != gamma {
            self.gamma = gamma;
            news.gamma = true;
        }
    }

    /// News only if it changes: a session repeats it on each connection.
    pub(super) fn set_relative_wanted(&mut self, wanted: bool, news: &mut News) {
        if std::mem::replace(&mut self.relative_wanted, wanted) != wanted {
            news.relative_wanted = Some(wanted);
        }
    }

    /// A message that stays until the user closes it.
    pub(super) fn announce(&mut self, text: &str, news: &mut News) {
        add_announcement(&mut news.announcement, text);
        self.announcements += 1;
    }

    /// Who is there; pointers of those who have left are no news any more.
    pub(super) fn set_people(&mut self, people: People, news: &mut News) {
        let is_there = |number| people.people.iter().any(|person| person.number == number);
        news.pointers.retain(|pointer| is_there(pointer.number));
        news.tell(self.people.set(people));
        news.people = true;
    }

    pub(super) fn set_invitations(&mut self, invitations: Vec<OpenInvitation>, news: &mut News) {
        self.people.invitations = invitations;
        news.people = true;
    }

    /// The number of the next request to share.
    pub(super) fn next_request(&mut self) -> u32 {
        self.people.last_request += 1;
        self.people.last_request
    }

    pub(super) fn set_clip_policy(&mut self, policy: ClipDirections) {
        self.clip_policy = Some(policy);
    }

    /// Takes the next choice of what is copied, and returns it; None if the session lets this
    /// viewer choose nothing. The session's answer says the same; until then the choice after it
    /// follows from this one.
    pub(super) fn choose_copying(&mut self) -> Option<ClipDirections> {
        let now = self.clip_policy?;
        let (to_session, to_viewer) = match (now.to_session, now.to_viewer) {
            (true, true) => (true, false),
            (true, false) => (false, true),
            (false, true) => (false, false),
            (false, false) => (true, true),
        };
        self.clip_policy = Some(ClipDirections { to_session, to_viewer });
        self.clip_policy
    }
}

/// What a choice of what is copied says to the user.
pub(super) fn words_of_copying(choice: ClipDirections) -> &'static str {
    match (choice.to_session, choice.to_viewer) {
        (true, true) => "Copy and paste: in both directions, on all your devices",
        (true, false) => "Copy and paste: to the session only, on all your devices",
        (false, true) => "Copy and paste: from the session only, on all your devices",
        (false, false) => "Copy and paste: not at all, on all your devices",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_protocol::gamma::{GammaTable, WHOLE_SCREEN};
    use thinc_protocol::people::{Person, PersonPointer};

    #[test]
    fn the_wish_for_relative_motion_is_news_once() {
        let (mut info, mut news) = (SessionInfo::default(), News::default());
        info.set_relative_wanted(false, &mut news);
        assert_eq!(news.relative_wanted, None);
        info.set_relative_wanted(true, &mut news);
        assert_eq!(std::mem::take(&mut news).relative_wanted, Some(true));
        info.set_relative_wanted(true, &mut news);
        assert!(info.relative_wanted() && news.relative_wanted.is_none());
    }

    #[test]
    fn tables_that_a_connection_repeats_are_no_news() {
        let (mut info, mut news) = (SessionInfo::default(), News::default());
        let table = GammaTable { channels: [[7; 256]; 3] };
        let areas = vec![GammaArea { rect: WHOLE_SCREEN, table }];
        info.set_gamma(Vec::new(), &mut news);
        assert!(!news.is_worth_waking());
        info.set_gamma(areas.clone(), &mut news);
        assert!(std::mem::take(&mut news).is_worth_waking());
        info.begin_connection();
        assert_eq!(info.gamma(), areas, "what is shown stays until the next screen");
        info.set_gamma(areas, &mut news);
        assert!(!news.gamma);
        info.set_gamma(Vec::new(), &mut news);
        assert!(news.gamma && info.gamma().is_empty());
    }

    #[test]
    fn four_choices_of_what_is_copied_follow_each_other_and_a_guest_has_none() {
        let mut info = SessionInfo::default();
        assert_eq!(info.choose_copying(), None, "the session has not told");
        let both = ClipDirections { to_session: true, to_viewer: true };
        info.set_clip_policy(both);
        let words: Vec<_> = (0..4).map(|_| info.choose_copying().map(words_of_copying)).collect();
        assert!(words[0].is_some_and(|words| words.contains("to the session only")));
        assert!(words[1].is_some_and(|words| words.contains("from the session only")));
        assert!(words[2].is_some_and(|words| words.contains("not at all")));
        assert_eq!(words[3], Some(words_of_copying(both)));
    }

    #[test]
    fn pointers_of_those_who_have_left_are_no_news() {
        let (mut info, mut news) = (SessionInfo::default(), News::default());
        let at = |number, x| PersonPointer { number, x, y: 0 };
        for pointer in [at(2, 1), at(3, 1), at(2, 7)] {
            news.move_pointer(pointer);
        }
        assert_eq!(news.pointers, [at(3, 1), at(2, 7)], "the newest of each");
        let two = Person { number: 2, ..Person::default() };
        info.set_people(People { own: 1, people: vec![two] }, &mut news);
        assert_eq!(news.pointers, [at(2, 7)]);
        assert!(news.people);
    }

    #[test]
    fn what_the_session_has_told_outlasts_a_connection_but_for_its_monitors() {
        let (mut info, mut news) = (SessionInfo::default(), News::default());
        let size = Size { width: 800, height: 600 };
        let shown = ScreenPart { screen: Size { width: 1600, height: 1200 }, part: size.rect() };
        info.set_name("work".to_owned());
        assert_eq!(info.set_geometry(size, Some(shown), &mut news), shown.screen);
        info.set_displays(vec![size.rect()], &mut news);
        info.announce("rebooting soon", &mut news);
        info.begin_connection();
        assert_eq!((info.name(), info.shown()), (Some("work"), Some(shown)));
        assert_eq!((info.geometries(), info.announcements()), (1, 1));
        assert_eq!(info.displays, []);
        info.set_name(String::new());
        assert_eq!(info.name(), None);
        assert_eq!((info.next_request(), info.next_request()), (1, 2));
    }
}
