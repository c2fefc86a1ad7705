//! What viewers are told of each other. From the shell, which knows who they are, to messages.
//! Knows session-core's public interface; whose requests have an effect is the shell's.

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::framing::Deframer;
use thinc_protocol::people::{
    OpenInvitation, People, Person, PersonPointer, Share, ShareAction, Shared,
};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_session_core::{ClipboardPolicy, Config, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 640, height: 480 };

struct Shell {
    session: Session,
    now: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Told {
    People(People),
    Shared(Shared),
    Pointer(PersonPointer),
    Notice(String),
    BriefNotice(String),
    Graphics(String),
    Invitations(Vec<OpenInvitation>),
    ClipPolicy(ClipDirections),
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config::new("work", SIZE));
        session.handle_attach(SIZE);
        Shell { session, now: 1_000 }
    }

    fn join(&mut self, caps: u32) -> ViewerId {
        let hello = ViewerHello {
            version: 1,
            caps,
            size: Size::default(),
            message_bytes_max: 1 << 20,
            name: "t".into(),
        };
        self.session.add_viewer(&hello, self.now)
    }

    /// What a viewer is told, of these messages.
    fn told(&mut self, id: ViewerId) -> Vec<Told> {
        let (mut bytes, mut deframer) = (Vec::new(), Deframer::new(1 << 24));
        self.session.poll_transmit(id, self.now, &mut Unpacked, &mut bytes);
        self.session.check_invariants();
        deframer.push(&bytes);
        let mut told = Vec::new();
        while let Some(frame) = deframer.next().unwrap() {
            told.extend(match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::People(people) => Some(Told::People(people)),
                SessionMessage::Shared(answer) => Some(Told::Shared(answer)),
                SessionMessage::PersonPointer(pointer) => Some(Told::Pointer(pointer)),
                SessionMessage::Notice(text) => Some(Told::Notice(text)),
                SessionMessage::Graphics(line) => Some(Told::Graphics(line)),
                SessionMessage::BriefNotice(text) => Some(Told::BriefNotice(text)),
                SessionMessage::Invitations(list) => Some(Told::Invitations(list)),
                SessionMessage::ClipPolicy(directions) => Some(Told::ClipPolicy(directions)),
                _ => None,
            });
        }
        told
    }
}

fn list(own: ViewerId, numbers: &[ViewerId]) -> People {
    let person = |id: &ViewerId| Person { number: id.0, ..Person::default() };
    People { own: own.0, people: numbers.iter().map(person).collect() }
}

#[test]
fn a_list_is_told_when_it_has_changed_and_only_to_who_accepts_it() {
    let mut shell = Shell::new();
    let (one, old) = (shell.join(ViewerCaps::PEOPLE), shell.join(0));
    assert_eq!(shell.told(one), [], "nothing was said yet");
    for _ in 0..2 {
        shell.session.set_people(one, list(one, &[one, old]));
        shell.session.set_people(old, list(old, &[one, old]));
    }
    assert_eq!(shell.told(one), [Told::People(list(one, &[one, old]))]);
    assert_eq!(shell.told(old), []);
    shell.session.set_people(one, list(one, &[one, old]));
    assert_eq!(shell.told(one), [], "it knows that");
    // Of several lists only the newest is sent.
    shell.session.set_people(one, list(one, &[]));
    shell.session.set_people(one, list(one, &[one]));
    assert_eq!(shell.told(one), [Told::People(list(one, &[one]))]);
}

#[test]
fn a_viewer_is_told_of_no_direction_of_the_clipboard_that_the_session_does_not_have() {
    let directions = |to_session, to_viewer| ClipDirections { to_session, to_viewer };
    for (take, give) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut shell = Shell::new();
        shell.session.set_clipboard(ClipboardPolicy { take, give, ..ClipboardPolicy::default() });
        let (one, old) = (shell.join(ViewerCaps::CLIP_POLICY), shell.join(0));
        for (wanted, expected) in [
            (directions(true, true), directions(take, give)),
            (directions(true, false), directions(take, false)),
            (directions(false, true), directions(false, give)),
        ] {
            shell.session.tell_clip_policy(one, wanted);
            shell.session.tell_clip_policy(old, wanted);
            assert_eq!(shell.told(one), [Told::ClipPolicy(expected)]);
            assert_eq!(shell.told(old), []);
        }
    }
}

#[test]
fn a_pointer_is_shown_to_the_others_who_know_that_person() {
    let mut shell = Shell::new();
    let (one, two) = (shell.join(ViewerCaps::PEOPLE), shell.join(ViewerCaps::PEOPLE));
    let old = shell.join(0);
    let at = |id: ViewerId, x: u16| PersonPointer { number: id.0, x, y: 7 };
    shell.session.show_pointer(at(two, 1));
    assert_eq!(shell.told(one), [], "it does not know who that is");
    for id in [one, two, old] {
        shell.session.set_people(id, list(id, &[one, two]));
    }
    shell.told(one);
    shell.told(two);
    // Only the newest place of each person waits.
    for x in 0..100 {
        shell.session.show_pointer(at(two, x));
        shell.session.show_pointer(at(one, x));
        shell.session.show_pointer(at(ViewerId(99), x));
    }
    assert_eq!(shell.told(one), [Told::Pointer(at(two, 99))]);
    assert_eq!(shell.told(two), [Told::Pointer(at(one, 99))]);
    assert_eq!((shell.told(one), shell.told(old)), (vec![], vec![]));
    // Who has left points nowhere.
    shell.session.show_pointer(at(two, 5));
    shell.session.set_people(one, list(one, &[one]));
    assert_eq!(shell.told(one), [Told::People(list(one, &[one]))]);
}

#[test]
fn answers_are_sent_in_order_and_few_wait() {
    let mut shell = Shell::new();
    let id = shell.join(ViewerCaps::PEOPLE);
    let share = ViewerMessage::Share(Share { request: 1, action: ShareAction::EndVisit(1) });
    shell.session.handle_message(id, &share, shell.now).unwrap();
    assert_eq!(shell.told(id), [], "the shell decides");
    let answer = |request| Shared { request, result: Ok("link".into()) };
    (1..=20).for_each(|request| shell.session.answer_share(id, answer(request)));
    let want: Vec<_> = (13..=20).map(|request| Told::Shared(answer(request))).collect();
    assert_eq!(shell.told(id), want);
}

#[test]
fn notices_reach_who_can_show_them_and_few_wait() {
    let mut shell = Shell::new();
    let (one, old) = (shell.join(ViewerCaps::NOTICE), shell.join(ViewerCaps::PEOPLE));
    assert!(!shell.session.notify(old, "lost"));
    for number in 0..6 {
        assert!(shell.session.notify(one, &format!("notice {number}\u{7}")));
    }
    let want: Vec<_> = (2..6).map(|number| Told::Notice(format!("notice {number} "))).collect();
    assert_eq!(shell.told(one), want);
    assert_eq!((shell.told(one), shell.told(old)), (vec![], vec![]));
    assert!(!shell.session.notify_briefly(one, "lost"), "it shows no brief ones");
    let brief = shell.join(ViewerCaps::BRIEF_NOTICE);
    assert!(shell.session.notify_briefly(brief, "brief") && !shell.session.notify(brief, "lost"));
    assert_eq!(shell.told(brief), [Told::BriefNotice("brief".into())]);
}

#[test]
fn what_draws_3d_programs_is_told_to_who_accepts_it_now_and_later() {
    let mut shell = Shell::new();
    let (one, old) = (shell.join(ViewerCaps::GRAPHICS), shell.join(ViewerCaps::PEOPLE));
    assert_eq!(shell.told(one), [], "it is not known yet");
    for line in ["3D: a", "3D: b"] {
        shell.session.set_graphics(line);
    }
    let told = [Told::Graphics("3D: b".into())];
    assert_eq!((shell.told(one), shell.told(old)), (told.to_vec(), vec![]), "the newest only");
    assert_eq!(shell.told(one), []);
    let later = shell.join(ViewerCaps::GRAPHICS);
    assert_eq!(shell.told(later), told);
}

#[test]
fn invitations_are_told_when_they_have_changed_and_only_to_who_accepts_them() {
    let mut shell = Shell::new();
    let both = ViewerCaps::PEOPLE | ViewerCaps::INVITATIONS;
    let (one, old) = (shell.join(both), shell.join(ViewerCaps::PEOPLE));
    let alone = shell.join(ViewerCaps::INVITATIONS);
    let made = |number| OpenInvitation { number, ..OpenInvitation::default() };
    for list in [vec![], vec![made(1)], vec![made(1), made(2)]] {
        for id in [one, old, alone] {
            shell.session.set_invitations(id, &[made(9)]);
            shell.session.set_invitations(id, &list);
        }
        assert_eq!(shell.told(one), [Told::Invitations(list.clone())], "the newest only");
        shell.session.set_invitations(one, &list);
        assert_eq!(shell.told(one), [], "it knows that");
        assert_eq!((shell.told(old), shell.told(alone)), (vec![], vec![]));
    }
}
