//! Path 12/13, beside the pixels: who shows the session, as its newest list says.
//! From client.rs, to the window, and to the user as notices. Knows lists of people; never how they
//! are shown.

use thinc_protocol::people::{OpenInvitation, People, Person};

/// The newest lists, and the number of the last request to share.
#[derive(Debug, Default)]
pub(crate) struct PeopleList {
    pub(crate) people: People,
    /// Those that the user can revoke, the oldest first; none for a guest.
    pub(crate) invitations: Vec<OpenInvitation>,
    pub(crate) last_request: u32,
}

impl PeopleList {
    /// Takes a list; returns what the user should hear of it.
    pub(crate) fn set(&mut self, people: People) -> Option<String> {
        let before = std::mem::replace(&mut self.people, people);
        if before.people.is_empty() {
            return None;
        }
        let People { own, people } = &self.people;
        let is_guest = |person: &&Person| person.guest != 0;
        let find =
            |list: &[Person], guest: u32| list.iter().find(|person| person.guest == guest).cloned();
        for guest in people.iter().filter(is_guest) {
            match find(&before.people, guest.guest) {
                None if guest.number != *own => {
                    return Some(format!("{} sees the session now", guest.name));
                }
                Some(old) if guest.number == *own && old.has_control != guest.has_control => {
                    return Some(if guest.has_control {
                        "You may type and point now".to_owned()
                    } else {
                        "You only see the session now".to_owned()
                    });
                }
                _ => {}
            }
        }
        let gone = before.people.iter().filter(is_guest);
        let mut gone = gone.filter(|guest| find(people, guest.guest).is_none());
        gone.next().map(|guest| format!("{} has left", guest.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_hears_who_comes_and_leaves_and_what_it_may_do() {
        let owner = Person { number: 1, has_control: true, ..Person::default() };
        let guest = Person { number: 2, guest: 1, name: "Ada".into(), ..Person::default() };
        let list = |own: u32, people: &[&Person]| People {
            own,
            people: people.iter().copied().cloned().collect(),
        };
        let with_control = Person { has_control: true, ..guest.clone() };
        let mut seen = PeopleList::default();
        assert_eq!(seen.set(list(1, &[&owner])), None);
        let notice = seen.set(list(1, &[&owner, &guest]));
        assert_eq!(notice.as_deref(), Some("Ada sees the session now"));
        assert_eq!(seen.set(list(1, &[&owner, &with_control])), None, "the owner did that");
        assert_eq!(seen.set(list(1, &[&owner])).as_deref(), Some("Ada has left"));
        let mut own = PeopleList::default();
        assert_eq!(own.set(list(2, &[&owner, &guest])), None);
        let notice = own.set(list(2, &[&owner, &with_control]));
        assert_eq!(notice.as_deref(), Some("You may type and point now"));
        let notice = own.set(list(2, &[&owner, &guest]));
        assert_eq!(notice.as_deref(), Some("You only see the session now"));
    }
}
