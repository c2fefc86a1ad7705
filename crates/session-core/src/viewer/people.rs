//! Path 10/13, beside the pixels: under viewer.rs, what a viewer is told of the others.
//! From session/people.rs, to the viewer's messages. Of lists and pointers only the newest waits.
//! Knows people as the shell describes them; never rights or credentials.

use std::collections::VecDeque;

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::people::{OpenInvitation, People, PersonPointer, Shared};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::ViewerCaps;

use crate::screen::gamma::GammaNews;

/// What one viewer is told.
#[derive(Debug)]
pub(crate) struct Told {
    /// It accepts `RelativeWanted`, and what it was told last.
    pub(super) relative: Option<bool>,
    pub(super) gamma: GammaNews,
    /// If it accepts lists of people.
    pub(crate) people: Option<PeopleNews>,
    pub(crate) notices: Notices,
    pub(crate) news: SessionNews,
}

impl Told {
    /// To a viewer with these capabilities; at first only what draws the session's 3D programs.
    pub(super) fn new(caps: u32, graphics: Option<&str>) -> Told {
        let mut news = SessionNews::new(caps);
        graphics.into_iter().for_each(|line| news.set_graphics(line));
        Told {
            relative: (caps & ViewerCaps::RELATIVE != 0).then_some(false),
            gamma: GammaNews::new(caps),
            people: PeopleNews::new(caps),
            notices: Notices::new(caps),
            news,
        }
    }

    /// Whether an application wants to know how far the pointer moves, and what is new. Positions
    /// of pointers wait while the path is full.
    pub(super) fn transmit(
        &mut self,
        relative_wanted: bool,
        is_path_free: bool,
        out: &mut Vec<u8>,
    ) {
        if let Some(told) = self.relative.as_mut().filter(|told| **told != relative_wanted) {
            *told = relative_wanted;
            SessionMessage::RelativeWanted(relative_wanted).encode(out);
        }
        if let Some(people) = &mut self.people {
            people.transmit(is_path_free, out);
        }
        self.notices.transmit(out);
        self.news.transmit(out);
    }
}

/// Most answers that wait for the path; the shell has no more requests of a viewer at one time.
pub(crate) const ANSWERS_MAX: usize = 8;

/// Most notices that wait for the path; past it the oldest is not read any more anyway.
pub(crate) const NOTICES_MAX: usize = 4;

/// What people should read.
#[derive(Debug)]
pub(crate) struct Notices {
    /// What the viewer has announced.
    caps: u32,
    waiting: VecDeque<SessionMessage<'static>>,
}

impl Notices {
    pub(crate) fn new(caps: u32) -> Notices {
        Notices { caps, waiting: VecDeque::new() }
    }

    /// False if the viewer shows no such notice.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        self.push_message(ViewerCaps::NOTICE, SessionMessage::Notice(text.to_owned()))
    }

    /// The same for one that need not be closed.
    pub(crate) fn push_brief(&mut self, text: &str) -> bool {
        self.push_message(ViewerCaps::BRIEF_NOTICE, SessionMessage::BriefNotice(text.to_owned()))
    }

    fn push_message(&mut self, needed: u32, message: SessionMessage<'static>) -> bool {
        if self.caps & needed == 0 {
            return false;
        }
        if self.waiting.len() == NOTICES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(message);
        true
    }

    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) {
        self.waiting.drain(..).for_each(|message| message.encode(out));
    }
}

/// What is to be told of the session, if the viewer accepts it.
#[derive(Debug)]
pub(crate) struct SessionNews {
    caps: u32,
    name: Option<String>,
    graphics: Option<String>,
    clip_policy: Option<ClipDirections>,
}

impl SessionNews {
    /// For a viewer with these capabilities.
    pub(crate) fn new(caps: u32) -> SessionNews {
        SessionNews { caps, name: None, graphics: None, clip_policy: None }
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.name = (self.caps & ViewerCaps::NAME != 0).then(|| name.to_owned());
    }

    pub(crate) fn set_graphics(&mut self, line: &str) {
        self.graphics = (self.caps & ViewerCaps::GRAPHICS != 0).then(|| line.to_owned());
    }

    pub(crate) fn set_clip_policy(&mut self, policy: ClipDirections) {
        self.clip_policy = (self.caps & ViewerCaps::CLIP_POLICY != 0).then_some(policy);
    }

    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) {
        if let Some(name) = self.name.take() {
            SessionMessage::Name(name).encode(out);
        }
        if let Some(line) = self.graphics.take() {
            SessionMessage::Graphics(line).encode(out);
        }
        if let Some(policy) = self.clip_policy.take() {
            SessionMessage::ClipPolicy(policy).encode(out);
        }
    }
}

/// The invitations that were told last, and those to be told.
#[derive(Debug, Default)]
struct InvitationNews {
    told: Option<Vec<OpenInvitation>>,
    wanted: Option<Vec<OpenInvitation>>,
}

/// What waits to be told, and the list that was told last.
#[derive(Debug, Default)]
pub(crate) struct PeopleNews {
    told: Option<People>,
    wanted: Option<People>,
    answers: VecDeque<Shared>,
    /// If it accepts them.
    invitations: Option<InvitationNews>,
    /// At most one for each person of `wanted`.
    pointers: Vec<PersonPointer>,
}

impl PeopleNews {
    /// Of a viewer with these capabilities; `None` if it accepts no lists of people.
    pub(crate) fn new(caps: u32) -> Option<PeopleNews> {
        let has = |bit: u32| caps & bit != 0;
        let invitations = has(ViewerCaps::INVITATIONS).then(InvitationNews::default);
        has(ViewerCaps::PEOPLE).then(|| PeopleNews { invitations, ..PeopleNews::default() })
    }

    /// The newest list of the owner's invitations.
    pub(crate) fn set_invitations(&mut self, invitations: &[OpenInvitation]) {
        if let Some(news) = &mut self.invitations {
            news.wanted = Some(invitations.to_vec());
        }
    }

    /// The newest list.
    pub(crate) fn set(&mut self, people: People) {
        self.pointers.retain(|pointer| is_among(&people, pointer.number));
        self.wanted = Some(people);
    }

    /// The newest position of a person's pointer; nobody has one who is not in the list.
    pub(crate) fn point(&mut self, pointer: PersonPointer) {
        let Some(people) = &self.wanted else { return };
        if people.own == pointer.number || !is_among(people, pointer.number) {
            return;
        }
        match self.pointers.iter_mut().find(|before| before.number == pointer.number) {
            Some(before) => *before = pointer,
            None => self.pointers.push(pointer),
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, answer: Shared) {
        if self.answers.len() == ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
    }

    /// Appends what has changed; pointers only while the path may take what is replaceable.
    pub(crate) fn transmit(&mut self, may_point: bool, out: &mut Vec<u8>) {
        if self.told != self.wanted
            && let Some(people) = self.wanted.clone()
        {
            SessionMessage::People(people.clone()).encode(out);
            self.told = Some(people);
        }
        if let Some(news) = &mut self.invitations
            && news.told != news.wanted
            && let Some(invitations) = news.wanted.clone()
        {
            SessionMessage::Invitations(invitations.clone()).encode(out);
            news.told = Some(invitations);
        }
        while let Some(answer) = self.answers.pop_front() {
            SessionMessage::Shared(answer).encode(out);
        }
        if may_point {
            for pointer in self.pointers.drain(..) {
                SessionMessage::PersonPointer(pointer).encode(out);
            }
        }
    }
}

fn is_among(people: &People, number: u32) -> bool {
    people.people.iter().any(|person| person.number == number)
}
