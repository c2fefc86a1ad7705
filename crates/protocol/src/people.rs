//! Path 10/13, and path back, beside the screen: who shows the session, where their pointers are,
//! and what its owner asks for to share it. Between session-core and viewer-core, and the bytes of
//! it. Knows fields and limits; never who may do what.

use crate::limits::{
    INVITATIONS_TOLD_MAX, LINK_BYTES_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX, PEOPLE_MAX,
};
use crate::wire::{Reader, WireError, put_text, put_varint};

/// One connected viewer, as the others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// The viewer's; no other viewer of the same session process has it.
    pub number: u32,
    /// The guest's number, to which requests refer; 0: a viewer of the owner's.
    pub guest: u32,
    /// What the guest calls itself; empty for the owner.
    pub name: String,
    /// Its input takes effect.
    pub has_control: bool,
    /// It moved the session's pointer last.
    pub has_pointer: bool,
}

/// All connected viewers, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    /// The number of the viewer that is told.
    pub own: u32,
    /// At most `PEOPLE_MAX`.
    pub people: Vec<Person>,
}

/// What a guest may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InviteRights {
    /// It may type and point.
    pub control: bool,
    /// The session takes what it copies; only with control.
    pub clipboard_to_session: bool,
    /// It may paste what was copied in the session; only with control.
    pub clipboard_to_guest: bool,
    /// It hears nothing of the session.
    pub without_sound: bool,
}

/// What a new invitation allows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Invite {
    /// Of the guests.
    pub rights: InviteRights,
    /// The link is to name `thinc://` instead of `https://`.
    pub native: bool,
    /// Seconds.
    pub life_s: u32,
    /// How many guests may come.
    pub uses: u32,
    /// What the owner calls it; may be empty.
    pub name: String,
    /// What guests have to know; empty: nothing.
    pub password: String,
}

/// An invitation that has not expired and was not revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenInvitation {
    /// The session's, to which requests refer.
    pub number: u32,
    /// Of its guests.
    pub rights: InviteRights,
    /// Guests have to know a password.
    pub has_password: bool,
    /// It lets nobody in any more, after too many wrong passwords.
    pub is_locked: bool,
    /// How many guests have come.
    pub used: u32,
    /// How many may.
    pub uses: u32,
    /// Seconds since 1970.
    pub expiry_s: u64,
    /// What the owner calls it.
    pub name: String,
}

/// What the owner asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareAction {
    /// A new invitation.
    Invite(Invite),
    /// The guest may type and point.
    GiveControl(u32),
    /// The guest only sees the screen.
    TakeControl(u32),
    /// The guest's visit ends.
    EndVisit(u32),
    /// The invitation of this number ends, and with it the visits of its guests.
    Revoke(u32),
}

/// A request of the owner's, which [`Shared`] answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The viewer's number for it.
    pub request: u32,
    /// What it asks for.
    pub action: ShareAction,
}

/// Answers a [`Share`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The request's number.
    pub request: u32,
    /// For `Invite` the link, otherwise empty; or why the request has no effect.
    pub result: Result<String, String>,
}

/// Where a viewer's pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersonPointer {
    /// The viewer's number.
    pub number: u32,
    /// Pixels of the screen, from the left.
    pub x: u16,
    /// From the top.
    pub y: u16,
}

/// A password never reaches a log.
impl std::fmt::Debug for Invite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invite")
            .field("rights", &self.rights)
            .field("native", &self.native)
            .field("life_s", &self.life_s)
            .field("uses", &self.uses)
            .field("name", &self.name)
            .field("has_password", &!self.password.is_empty())
            .finish()
    }
}

/// Bits of a person.
const CONTROL: u8 = 1;
const POINTER: u8 = 2;
/// Bits of an invitation.
const INVITE_CONTROL: u8 = 1;
const INVITE_TO_SESSION: u8 = 2;
const INVITE_TO_GUEST: u8 = 4;
const INVITE_NATIVE: u8 = 8;
/// Further bits of one that was made before.
const INVITE_PASSWORD: u8 = 16;
const INVITE_LOCKED: u8 = 32;
const INVITE_WITHOUT_SOUND: u8 = 64;

fn bit(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

/// A byte of bits; others than these are an error.
fn bits(reader: &mut Reader<'_>, what: &'static str, all: u8) -> Result<u8, WireError> {
    match reader.u8(what)? {
        bits if bits & !all == 0 => Ok(bits),
        other => Err(WireError::Unknown { what, value: u64::from(other) }),
    }
}

impl People {
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.own));
        put_varint(out, self.people.len() as u64);
        for person in &self.people {
            put_varint(out, u64::from(person.number));
            put_varint(out, u64::from(person.guest));
            out.push(bit(person.has_control, CONTROL) | bit(person.has_pointer, POINTER));
            put_text(out, &person.name, NAME_BYTES_MAX);
        }
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<People, WireError> {
        let own = reader.u32("a viewer's own number")?;
        let count = reader.at_most("a number of people", PEOPLE_MAX as u64)?;
        let mut people = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let number = reader.u32("a viewer's number")?;
            let guest = reader.u32("a guest's number")?;
            let bits = bits(reader, "a person", CONTROL | POINTER)?;
            people.push(Person {
                number,
                guest,
                name: reader.text("a guest's name", NAME_BYTES_MAX)?.to_owned(),
                has_control: bits & CONTROL != 0,
                has_pointer: bits & POINTER != 0,
            });
        }
        Ok(People { own, people })
    }
}

impl InviteRights {
    fn bits(self) -> u8 {
        bit(self.control, INVITE_CONTROL)
            | bit(self.clipboard_to_session, INVITE_TO_SESSION)
            | bit(self.clipboard_to_guest, INVITE_TO_GUEST)
            | bit(self.without_sound, INVITE_WITHOUT_SOUND)
    }

    fn of_bits(bits: u8) -> InviteRights {
        InviteRights {
            control: bits & INVITE_CONTROL != 0,
            clipboard_to_session: bits & INVITE_TO_SESSION != 0,
            clipboard_to_guest: bits & INVITE_TO_GUEST != 0,
            without_sound: bits & INVITE_WITHOUT_SOUND != 0,
        }
    }
}

const INVITE_RIGHTS: u8 =
    INVITE_CONTROL | INVITE_TO_SESSION | INVITE_TO_GUEST | INVITE_WITHOUT_SOUND;

pub(crate) fn encode_invitations(invitations: &[OpenInvitation], out: &mut Vec<u8>) {
    put_varint(out, invitations.len() as u64);
    for invitation in invitations {
        put_varint(out, u64::from(invitation.number));
        out.push(
            invitation.rights.bits()
                | bit(invitation.has_password, INVITE_PASSWORD)
                | bit(invitation.is_locked, INVITE_LOCKED),
        );
        put_varint(out, u64::from(invitation.used));
        put_varint(out, u64::from(invitation.uses));
        put_varint(out, invitation.expiry_s);
        put_text(out, &invitation.name, NAME_BYTES_MAX);
    }
}

pub(crate) fn decode_invitations(
    reader: &mut Reader<'_>,
) -> Result<Vec<OpenInvitation>, WireError> {
    let count = reader.at_most("a number of invitations", INVITATIONS_TOLD_MAX as u64)?;
    let mut invitations = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let number = reader.u32("an invitation's number")?;
        let all = INVITE_RIGHTS | INVITE_PASSWORD | INVITE_LOCKED;
        let bits = bits(reader, "an invitation", all)?;
        invitations.push(OpenInvitation {
            number,
            rights: InviteRights::of_bits(bits),
            has_password: bits & INVITE_PASSWORD != 0,
            is_locked: bits & INVITE_LOCKED != 0,
            used: reader.u32("an invitation's guests")?,
            uses: reader.u32("an invitation's uses")?,
            expiry_s: reader.varint("an invitation's expiry")?,
            name: reader.text("an invitation's name", NAME_BYTES_MAX)?.to_owned(),
        });
    }
    Ok(invitations)
}

impl Share {
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.request));
        let numbered = |out: &mut Vec<u8>, action: u8, number: u32| {
            out.push(action);
            put_varint(out, u64::from(number));
        };
        match &self.action {
            ShareAction::Invite(invite) => {
                out.push(0);
                out.push(invite.rights.bits() | bit(invite.native, INVITE_NATIVE));
                put_varint(out, u64::from(invite.life_s));
                put_varint(out, u64::from(invite.uses));
                put_text(out, &invite.name, NAME_BYTES_MAX);
                put_text(out, &invite.password, PASSWORD_BYTES_MAX);
            }
            ShareAction::GiveControl(number) => numbered(out, 1, *number),
            ShareAction::TakeControl(number) => numbered(out, 2, *number),
            ShareAction::EndVisit(number) => numbered(out, 3, *number),
            ShareAction::Revoke(number) => numbered(out, 4, *number),
        }
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<Share, WireError> {
        let request = reader.u32("a request's number")?;
        let action = match reader.u8("a request to share")? {
            0 => {
                let bits = bits(reader, "an invitation", INVITE_RIGHTS | INVITE_NATIVE)?;
                ShareAction::Invite(Invite {
                    rights: InviteRights::of_bits(bits),
                    native: bits & INVITE_NATIVE != 0,
                    life_s: reader.u32("an invitation's life")?,
                    uses: reader.u32("an invitation's uses")?,
                    name: reader.text("an invitation's name", NAME_BYTES_MAX)?.to_owned(),
                    password: reader.text("a password", PASSWORD_BYTES_MAX)?.to_owned(),
                })
            }
            1 => ShareAction::GiveControl(reader.u32("a guest's number")?),
            2 => ShareAction::TakeControl(reader.u32("a guest's number")?),
            3 => ShareAction::EndVisit(reader.u32("a guest's number")?),
            4 => ShareAction::Revoke(reader.u32("an invitation's number")?),
            other => {
                let value = u64::from(other);
                return Err(WireError::Unknown { what: "a request to share", value });
            }
        };
        Ok(Share { request, action })
    }
}

impl Shared {
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.request));
        let (state, text) = match &self.result {
            Ok(text) => (0, text),
            Err(text) => (1, text),
        };
        out.push(state);
        put_text(out, text, LINK_BYTES_MAX);
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<Shared, WireError> {
        let request = reader.u32("a request's number")?;
        let state = reader.u8("an answer to a request to share")?;
        let text = reader.text("an answer's text", LINK_BYTES_MAX)?.to_owned();
        let result = match state {
            0 => Ok(text),
            1 => Err(text),
            other => {
                let what = "an answer to a request to share";
                return Err(WireError::Unknown { what, value: u64::from(other) });
            }
        };
        Ok(Shared { request, result })
    }
}

impl PersonPointer {
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, u64::from(self.x));
        put_varint(out, u64::from(self.y));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<PersonPointer, WireError> {
        Ok(PersonPointer {
            number: reader.u32("a viewer's number")?,
            x: reader.u16("a pointer's x")?,
            y: reader.u16("a pointer's y")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_password() {
        let invite = Invite { password: "hidden".into(), ..Invite::default() };
        let share = Share { request: 1, action: ShareAction::Invite(invite) };
        assert!(!format!("{share:?}").contains("hidden"));
        assert!(format!("{share:?}").contains("has_password: true"));
    }
}
