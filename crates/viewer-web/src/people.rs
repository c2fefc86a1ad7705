//! Path 12/13, beside the pixels: the text in which the page is told who shows the session and
//! whom its owner has invited. From page.rs, to web/engine/events.ts, which takes it apart. Knows
//! fields and their order; never who may do what.

use thinc_protocol::people::{OpenInvitation, Person};

/// A line for each viewer: its number, the guest's (0: the owner's), 1 for control and 2 for the
/// pointer, and a name, with a tab between. A name has no control characters.
pub(crate) fn lines(people: &[Person]) -> String {
    let line = |person: &Person| {
        let Person { number, guest, name, has_control, has_pointer } = person;
        let bits = u8::from(*has_control) | u8::from(*has_pointer) << 1;
        format!("{number}\t{guest}\t{bits}\t{name}\n")
    };
    people.iter().map(line).collect()
}

/// A line for each invitation: its number, bits, guests that have come, how many may, its end in
/// seconds since 1970, and a name, with a tab between. Bits: 1 control, 2 clipboard in any
/// direction, 4 password, 8 locked, 16 without sound.
pub(crate) fn invitation_lines(invitations: &[OpenInvitation]) -> String {
    let line = |invitation: &OpenInvitation| {
        let OpenInvitation { number, rights, used, uses, expiry_s, name, .. } = invitation;
        let bits = u8::from(rights.control)
            | u8::from(rights.clipboard_to_session || rights.clipboard_to_guest) << 1
            | u8::from(invitation.has_password) << 2
            | u8::from(invitation.is_locked) << 3
            | u8::from(rights.without_sound) << 4;
        format!("{number}\t{bits}\t{used}\t{uses}\t{expiry_s}\t{name}\n")
    };
    invitations.iter().map(line).collect()
}
