//! The page of the viewer's menu that says who shows the session, and lets its owner invite guests
//! and change what they may do; and the names at the others' pointers.
//! Path back, beside menu.rs: keys select from it. Knows people, keys and words; never SDL, the
//! connection or pixels. The session decides what takes effect.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thinc_protocol::people::{
    Invite, InviteRights, OpenInvitation, People, Person, PersonPointer, ShareAction, Shared,
};

use super::App;
use super::drawing::Placed;
use super::menu::Pressed;
use crate::client::State;
use crate::overlay::Panel;
use crate::people::PeopleList;
use crate::place::Placement;

/// Guests that a key of their own chooses: 1 to 9.
const KEYS: usize = 9;
/// Invitations that are shown at one time, around the chosen one: the panel has few lines.
const INVITATIONS_SHOWN: usize = 4;
/// How long a link works: seconds and words.
const LIVES: [(u32, &str); 4] =
    [(7200, "2 hours"), (86_400, "1 day"), (604_800, "7 days"), (900, "15 minutes")];
/// How many guests one link lets in; a session has at most 16 viewers.
const USES: [u32; 4] = [1, 2, 5, 15];
/// Characters of a made password that nobody confuses with each other: 32 of them, 5 bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 60 bits, and the session counts wrong ones.
const PASSWORD_CHARACTERS: usize = 12;
/// A pointer that has not moved for this long has no name on the screen any more.
const POINTER_REST: Duration = Duration::from_secs(10);
/// 20 times a second: each change of a name's place draws the whole window.
const POINTER_INTERVAL: Duration = Duration::from_millis(50);

/// What a key on the page asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The page stays, and says something else.
    Stay,
    /// The menu closes.
    Close,
    /// A request to the session.
    Send(ShareAction),
}

/// The page, while it is open.
#[derive(Debug, Default)]
pub(super) struct PeoplePage {
    /// The number of the chosen guest.
    chosen: Option<u32>,
    /// The number of the chosen invitation.
    invitation: Option<u32>,
    control: bool,
    clipboard: bool,
    without_sound: bool,
    life: usize,
    uses: usize,
    password: String,
    /// What became of the last request.
    words: String,
}

impl PeoplePage {
    /// The page's text at this time, in seconds since 1970.
    pub(super) fn text(&self, list: &PeopleList, now_s: u64) -> String {
        let people = &list.people;
        let mut text = "People in this session\n".to_owned();
        let is_owner = is_owner(people);
        let mut key = 0;
        for person in &people.people {
            let own = if person.number == people.own { " (you)" } else { "" };
            let rights = if person.has_control { "control" } else { "view only" };
            let pointer = if person.has_pointer { ", has the pointer" } else { "" };
            let choice = if is_owner && person.guest != 0 && key < KEYS {
                key += 1;
                format!("{key}")
            } else {
                " ".to_owned()
            };
            let name = name_of(person);
            text += &format!(" {choice}  {name}{own}: {rights}{pointer}\n");
        }
        if is_owner {
            if let Some(guest) = self.guest(people) {
                let change = if guest.has_control { "View only" } else { "Give control" };
                text += &format!("\n{}\n C  {change}\n D  Disconnect\n", name_of(guest));
            } else if key > 0 {
                text += "\nA number chooses a guest\n";
            }
            let what = if self.control { "see and control" } else { "see" };
            let clipboard = if self.clipboard { "copy and paste" } else { "nothing is copied" };
            let (uses, (_, life)) = (USES[self.uses], LIVES[self.life]);
            let guests = if uses == 1 { "one guest".to_owned() } else { format!("{uses} guests") };
            text += &format!("\nInvite\n V  Guests {what} the session\n");
            if self.control {
                text += &format!(" B  Clipboard: {clipboard}\n");
            }
            let hear = if self.without_sound { "do not hear it" } else { "hear it" };
            text += &format!(" H  They {hear}\n");
            text += &format!(" L  The link works for {life}\n N  For {guests}\n");
            text += &match self.password.as_str() {
                "" => " P  Without a password\n".to_owned(),
                password => format!(" P  With the password {password}\n"),
            };
            text += " I  Make the link, and copy it\n";
            text += &self.invitations(&list.invitations, now_s);
        }
        if !self.words.is_empty() {
            text += &format!("\n{}\n", self.words);
        }
        text + "\n Esc  Close"
    }

    /// The invitations that can be revoked.
    fn invitations(&self, invitations: &[OpenInvitation], now_s: u64) -> String {
        if invitations.is_empty() {
            return String::new();
        }
        let chosen = invitations.iter().position(|one| Some(one.number) == self.invitation);
        // The newest, unless an older one is chosen.
        let newest = invitations.len().saturating_sub(INVITATIONS_SHOWN);
        let first = newest.min(chosen.unwrap_or(newest));
        let shown = invitations.len().min(first + INVITATIONS_SHOWN);
        let mut text = format!("\nInvitations ({})\n", invitations.len());
        for one in &invitations[first..shown] {
            let mark = if Some(one.number) == self.invitation { '>' } else { ' ' };
            text += &format!(" {mark}  {}\n", description(one, now_s));
        }
        text + if chosen.is_some() {
            " E  Choose another\n R  Revoke it, and end its guests' visits\n"
        } else {
            " E  Choose one\n"
        }
    }

    /// A key was pressed. `random` fills bytes for a new password.
    pub(super) fn handle(
        &mut self,
        pressed: Pressed,
        list: &PeopleList,
        random: impl FnOnce(&mut [u8; PASSWORD_CHARACTERS]),
    ) -> Asked {
        let PeopleList { people, invitations, .. } = list;
        let Pressed::Character(key) = pressed else {
            return if pressed == Pressed::Other { Asked::Close } else { Asked::Stay };
        };
        if !is_owner(people) {
            return Asked::Stay;
        }
        match key.to_ascii_lowercase() {
            digit @ '1'..='9' => {
                let at = digit as usize - '1' as usize;
                let guests = people.people.iter().filter(|person| person.guest != 0);
                self.chosen = guests.take(KEYS).nth(at).map(|guest| guest.guest);
            }
            'c' => {
                if let Some(guest) = self.guest(people) {
                    return Asked::Send(if guest.has_control {
                        ShareAction::TakeControl(guest.guest)
                    } else {
                        ShareAction::GiveControl(guest.guest)
                    });
                }
            }
            'd' => {
                if let Some(guest) = self.guest(people) {
                    return Asked::Send(ShareAction::EndVisit(guest.guest));
                }
            }
            'e' => {
                // From the newest to the oldest, and to the newest again.
                let chosen = invitations.iter().position(|one| Some(one.number) == self.invitation);
                let next = chosen.and_then(|at| at.checked_sub(1));
                let next = next.map_or(invitations.last(), |at| invitations.get(at));
                self.invitation = next.map(|one| one.number);
            }
            'r' => {
                let chosen = invitations.iter().find(|one| Some(one.number) == self.invitation);
                if let Some(one) = chosen {
                    return Asked::Send(ShareAction::Revoke(one.number));
                }
            }
            'v' => self.control = !self.control,
            'b' if self.control => self.clipboard = !self.clipboard,
            'h' => self.without_sound = !self.without_sound,
            'l' => self.life = (self.life + 1) % LIVES.len(),
            'n' => self.uses = (self.uses + 1) % USES.len(),
            'p' if self.password.is_empty() => {
                let mut bytes = [0; PASSWORD_CHARACTERS];
                random(&mut bytes);
                self.password =
                    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
            }
            'p' => self.password.clear(),
            'i' => {
                self.words = "Making the link...".to_owned();
                let clipboard = self.control && self.clipboard;
                return Asked::Send(ShareAction::Invite(Invite {
                    rights: InviteRights {
                        control: self.control,
                        clipboard_to_session: clipboard,
                        clipboard_to_guest: clipboard,
                        without_sound: self.without_sound,
                    },
                    // Browsers and viewers accept it.
                    native: false,
                    life_s: LIVES[self.life].0,
                    uses: USES[self.uses],
                    name: String::new(),
                    password: self.password.clone(),
                }));
            }
            _ => {}
        }
        Asked::Stay
    }

    /// The session has answered; returns a link to copy.
    pub(super) fn answer(&mut self, answer: &Shared) -> Option<String> {
        let link = answer.result.as_ref().ok().filter(|link| !link.is_empty());
        self.words = match (&answer.result, link) {
            (_, Some(link)) => format!("Copied, give it to whom you invite:\n{link}"),
            (Ok(_), None) => "Done".to_owned(),
            (Err(reason), _) => reason.clone(),
        };
        link.cloned()
    }

    fn guest<'a>(&self, people: &'a People) -> Option<&'a Person> {
        people.people.iter().find(|person| Some(person.guest) == self.chosen)
    }
}

fn is_owner(people: &People) -> bool {
    people.people.iter().any(|person| person.number == people.own && person.guest == 0)
}

/// An invitation's rights, guests and end.
fn description(invitation: &OpenInvitation, now_s: u64) -> String {
    let OpenInvitation { number, rights, used, uses, expiry_s, name, .. } = invitation;
    let may = match (rights.control, rights.clipboard_to_session || rights.clipboard_to_guest) {
        (true, true) => "control and clipboard",
        (true, false) => "control",
        (false, _) => "view only",
    };
    let sound = if rights.without_sound { ", no sound" } else { "" };
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    let password = if invitation.has_password { ", password" } else { "" };
    let locked = if invitation.is_locked { ", locked after wrong passwords" } else { "" };
    let minutes = expiry_s.saturating_sub(now_s).div_ceil(60);
    let left = match minutes {
        0..120 => format!("{minutes} min"),
        120..2880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    };
    let uses_left = uses.saturating_sub(*used);
    format!(
        "{number}{name}: {may}{sound}, {uses_left} of {uses} uses left, {left}{password}{locked}"
    )
}

/// The time of which invitations speak.
pub(super) fn since_1970_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn name_of(person: &Person) -> &str {
    if person.guest == 0 { "Owner" } else { &person.name }
}

/// Where the others' pointers are.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    /// The pointer and when it moved; at most one for each person.
    pointers: Vec<(PersonPointer, Instant)>,
    /// The names are drawn at older places.
    moved: bool,
    drawn_at: Option<Instant>,
}

impl Pointers {
    /// Somebody's pointer has moved.
    pub(super) fn handle(&mut self, pointer: PersonPointer, now: Instant) {
        self.pointers.retain(|(before, _)| before.number != pointer.number);
        self.pointers.push((pointer, now));
        self.moved = true;
    }

    /// Who is not in the list has left.
    pub(super) fn retain(&mut self, people: &People) {
        let before = self.pointers.len();
        self.pointers.retain(|(pointer, _)| {
            people.people.iter().any(|person| person.number == pointer.number)
        });
        self.moved |= self.pointers.len() != before;
    }

    /// When the names have to be drawn again; `None`: when a pointer moves.
    pub(super) fn due(&self) -> Option<Instant> {
        let moved = self.drawn_at.map(|drawn| drawn + POINTER_INTERVAL).filter(|_| self.moved);
        let rested = self.pointers.iter().map(|(_, at)| *at + POINTER_REST).min();
        moved.into_iter().chain(rested).min()
    }

    /// True if the names are to be drawn now.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let before = self.pointers.len();
        self.pointers.retain(|(_, at)| *at + POINTER_REST > now);
        self.moved |= self.pointers.len() != before;
        let is_time = self.drawn_at.is_none_or(|drawn| now >= drawn + POINTER_INTERVAL);
        if !(self.moved && is_time) {
            return false;
        }
        self.moved = false;
        self.drawn_at = Some(now);
        true
    }

    /// Names at the pointers, in a window where the screen is placed like this.
    pub(super) fn draw(&self, people: &People, placement: &Placement, dot: u32) -> Vec<Placed> {
        let window = placement.window;
        let names = self.named(people).map(|(name, x, y)| {
            let (x, y) = placement.to_window(x, y);
            let panel = Panel::draw(name, dot);
            // Also of a pointer in a part of the screen that is not visible.
            let within = |at: f32, window: u32, panel: u32| {
                (at as i32).clamp(0, window.saturating_sub(panel) as i32)
            };
            let x = within(x, window.width, panel.size.width);
            let y = within(y, window.height, panel.size.height);
            (panel, x, y)
        });
        names.collect()
    }

    /// Names and places, pixels of the screen.
    fn named<'a>(&'a self, people: &'a People) -> impl Iterator<Item = (&'a str, u16, u16)> {
        self.pointers.iter().filter_map(move |(pointer, _)| {
            let person = people.people.iter().find(|person| person.number == pointer.number)?;
            Some((name_of(person), pointer.x, pointer.y))
        })
    }
}

impl App<'_> {
    /// A key was pressed while the page is open.
    pub(super) fn choose_people(&mut self, pressed: Pressed) {
        let mut state = self.client.lock();
        let Some(page) = self.menus.page() else { return };
        self.drawing.redraw();
        let random = |bytes: &mut [u8; PASSWORD_CHARACTERS]| {
            getrandom::fill(bytes).expect("the system has random bytes");
        };
        match page.handle(pressed, state.session.people(), random) {
            Asked::Stay => {}
            Asked::Close => self.menus.close(),
            Asked::Send(action) => {
                if !state.share(action) {
                    page.words = "Not sent: the session does not answer".to_owned();
                }
            }
        }
    }

    /// What the connection has told of people.
    pub(super) fn handle_people(
        &mut self,
        state: &State,
        list: bool,
        answers: &[Shared],
        pointers: Vec<PersonPointer>,
    ) {
        let now = Instant::now();
        if list {
            self.pointers.retain(&state.session.people().people);
            self.drawing.redraw_if(self.menus.page().is_some());
        }
        for answer in answers {
            let link = self.menus.page().and_then(|page| page.answer(answer));
            if let Some(Err(error)) =
                link.map(|link| self.desktop.video.clipboard().set_clipboard_text(&link))
            {
                crate::error::report(format_args!("cannot copy the link: {error}"));
            }
            self.drawing.redraw();
        }
        for pointer in pointers {
            self.pointers.handle(pointer, now);
        }
        self.drawing.redraw_if(self.pointers.take_due(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_region::Size;

    const NOW_S: u64 = 1_800_000_000;

    fn people(own: u32, control: bool) -> PeopleList {
        let owner = Person { number: 1, has_control: true, has_pointer: true, ..Person::default() };
        let guest = Person {
            number: 2,
            guest: 7,
            name: "Ada".into(),
            has_control: control,
            ..owner.clone()
        };
        let guest = Person { has_pointer: false, ..guest };
        let people = People { own, people: vec![owner, guest] };
        PeopleList { people, ..PeopleList::default() }
    }

    fn press(page: &mut PeoplePage, key: char, people: &PeopleList) -> Asked {
        page.handle(Pressed::Character(key), people, |bytes| *bytes = [0; PASSWORD_CHARACTERS])
    }

    #[test]
    fn everybody_sees_who_is_there_and_only_the_owner_sees_choices() {
        let page = PeoplePage::default();
        let text = page.text(&people(1, false), NOW_S);
        assert!(text.contains("    Owner (you): control, has the pointer\n"), "{text}");
        assert!(text.contains(" 1  Ada: view only\n"), "{text}");
        assert!(text.contains(" I  Make the link"), "{text}");
        let text = page.text(&people(2, true), NOW_S);
        assert!(text.contains("    Ada (you): control\n"), "{text}");
        assert!(!text.contains("Invite") && !text.contains(" 1  "), "{text}");
    }

    #[test]
    fn the_owner_chooses_a_guest_and_what_it_may_do() {
        let mut page = PeoplePage::default();
        assert_eq!(press(&mut page, 'c', &people(1, false)), Asked::Stay, "nobody is chosen");
        assert_eq!(press(&mut page, '2', &people(1, false)), Asked::Stay, "there is one guest");
        assert_eq!(press(&mut page, 'd', &people(1, false)), Asked::Stay);
        assert_eq!(press(&mut page, '1', &people(1, false)), Asked::Stay);
        assert!(page.text(&people(1, false), NOW_S).contains(" C  Give control\n"));
        let asked = press(&mut page, 'C', &people(1, false));
        assert_eq!(asked, Asked::Send(ShareAction::GiveControl(7)));
        assert!(page.text(&people(1, true), NOW_S).contains(" C  View only\n"));
        let asked = press(&mut page, 'c', &people(1, true));
        assert_eq!(asked, Asked::Send(ShareAction::TakeControl(7)));
        let asked = press(&mut page, 'd', &people(1, true));
        assert_eq!(asked, Asked::Send(ShareAction::EndVisit(7)));
        // A guest's keys choose nothing.
        assert_eq!(press(&mut page, 'd', &people(2, true)), Asked::Stay);
        assert_eq!(page.handle(Pressed::Other, &people(1, true), |_| ()), Asked::Close);
        let function = Pressed::Function(1);
        assert_eq!(page.handle(function, &people(1, true), |_| ()), Asked::Stay);
    }

    #[test]
    fn an_invitation_has_what_the_page_says() {
        let (mut page, people) = (PeoplePage::default(), people(1, false));
        let plain = Invite { life_s: 7200, uses: 1, ..Invite::default() };
        assert_eq!(
            press(&mut page, 'i', &people),
            Asked::Send(ShareAction::Invite(plain)),
            "view only, one guest, without a password"
        );
        for key in ['b', 'v', 'b', 'l', 'n', 'p'] {
            assert_eq!(press(&mut page, key, &people), Asked::Stay);
        }
        let text = page.text(&people, NOW_S);
        assert!(text.contains("see and control the session\n B  Clipboard: copy and paste\n"));
        assert!(text.contains("works for 1 day\n N  For 2 guests\n"), "{text}");
        assert!(text.contains("With the password aaaaaaaaaaaa\n"), "{text}");
        let rights = InviteRights {
            control: true,
            clipboard_to_session: true,
            clipboard_to_guest: true,
            without_sound: false,
        };
        let password = "aaaaaaaaaaaa".to_owned();
        let invite = Invite { rights, life_s: 86_400, uses: 2, password, ..Invite::default() };
        assert_eq!(press(&mut page, 'i', &people), Asked::Send(ShareAction::Invite(invite)));
        let answer = Shared { request: 1, result: Ok("https://host/#t=x".into()) };
        assert_eq!(page.answer(&answer).as_deref(), Some("https://host/#t=x"));
        assert!(page.text(&people, NOW_S).contains("https://host/#t=x"));
        let refused = Shared { request: 2, result: Err("no port".into()) };
        assert_eq!(page.answer(&refused), None);
        assert!(page.text(&people, NOW_S).contains("\nno port\n"));
    }

    #[test]
    fn the_owner_sees_earlier_invitations_and_revokes_the_chosen_one() {
        let one = OpenInvitation {
            number: 3,
            used: 1,
            uses: 2,
            expiry_s: NOW_S + 3540,
            ..OpenInvitation::default()
        };
        let rights = InviteRights { control: true, ..InviteRights::default() };
        let two = OpenInvitation {
            number: 5,
            rights,
            has_password: true,
            used: 1,
            uses: 1,
            expiry_s: NOW_S + 86_400,
            name: "talk".into(),
            ..OpenInvitation::default()
        };
        let mut page = PeoplePage::default();
        let mut list = people(1, false);
        assert!(!page.text(&list, NOW_S).contains("Invitations"));
        assert_eq!(press(&mut page, 'e', &list), Asked::Stay);
        assert_eq!(press(&mut page, 'r', &list), Asked::Stay, "there is none");
        list.invitations = vec![one, two];
        let text = page.text(&list, NOW_S);
        assert!(text.contains("    3: view only, 1 of 2 uses left, 59 min\n"), "{text}");
        assert!(text.contains("    5 talk: control, 0 of 1 uses left, 24 h, password\n"), "{text}");
        assert_eq!(press(&mut page, 'r', &list), Asked::Stay, "none is chosen");
        for (chosen, other) in [(5, 3), (3, 5), (5, 3)] {
            assert_eq!(press(&mut page, 'e', &list), Asked::Stay);
            let text = page.text(&list, NOW_S);
            assert!(text.contains(&format!(" >  {chosen}")), "{text}");
            assert!(text.contains(&format!("    {other}")), "{text}");
            let revoke = Asked::Send(ShareAction::Revoke(chosen));
            assert_eq!(press(&mut page, 'R', &list), revoke);
        }
        // What is not there any more is revoked by no key.
        list.invitations.pop();
        assert_eq!(press(&mut page, 'r', &list), Asked::Stay);
        // Of many a few are shown, the chosen one among them.
        let made = |number| OpenInvitation { number, uses: 1, ..OpenInvitation::default() };
        list.invitations = (1..=32).map(made).collect();
        let lines = |text: &str| text.lines().filter(|line| line.contains("uses left")).count();
        let mut page = PeoplePage::default();
        assert!(page.text(&list, NOW_S).contains("    32: "));
        for number in (1..=32).rev() {
            press(&mut page, 'e', &list);
            let text = page.text(&list, NOW_S);
            assert!(text.contains(&format!(" >  {number}: ")), "{number}: {text}");
            assert_eq!(lines(&text), INVITATIONS_SHOWN);
        }
    }

    #[test]
    fn a_name_stays_in_the_window() {
        let mut pointers = Pointers::default();
        pointers.handle(PersonPointer { number: 2, x: 799, y: 599 }, Instant::now());
        let window = Size { width: 800, height: 600 };
        let placement = Placement::new(window, window);
        let names = pointers.draw(&people(1, false).people, &placement, 1);
        let [(panel, x, y)] = &names[..] else { panic!("one pointer") };
        assert!(window.rect().contains(&panel.size.rect().translate(*x, *y)));
    }

    #[test]
    fn names_follow_pointers_at_a_limited_rate_and_go_when_these_rest_or_leave() {
        let (mut pointers, start) = (Pointers::default(), Instant::now());
        let at = |number, x| PersonPointer { number, x, y: 5 };
        assert!(!pointers.take_due(start) && pointers.due().is_none());
        pointers.handle(at(2, 10), start);
        assert!(pointers.take_due(start));
        pointers.handle(at(2, 11), start);
        assert!(!pointers.take_due(start), "drawn just now");
        assert_eq!(pointers.due(), Some(start + POINTER_INTERVAL));
        assert!(pointers.take_due(start + POINTER_INTERVAL));
        let all = people(1, false);
        assert_eq!(pointers.named(&all.people).collect::<Vec<_>>(), [("Ada", 11, 5)]);
        assert_eq!(pointers.due(), Some(start + POINTER_REST));
        assert!(pointers.take_due(start + POINTER_REST));
        assert_eq!(pointers.named(&all.people).count(), 0);
        pointers.handle(at(2, 12), start + POINTER_REST);
        pointers.retain(&People { own: 1, people: all.people.people[..1].to_vec() });
        assert_eq!(pointers.named(&all.people).count(), 0);
    }
}
