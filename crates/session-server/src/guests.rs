//! Path 0/13 of guests: from native.rs and http.rs with the token of an invitation, a name and a
//! password, to the grant that opens their connections.
//! Who is let in, by transport's record of invitations. Knows tokens, passwords and grants; never
//! what a connection carries. actor/guests.rs enforces what guests may do.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use argon2::{Argon2, PasswordHash, PasswordHasher as _, PasswordVerifier as _};
use thinc_session_core::Rights;
use thinc_transport::invitation::{
    Grant, GuestEnd, GuestRights, InvitationId, InvitationRefusal, Invitations,
};
use tracing::{info, warn};

use crate::front::since_1970;
use crate::gate::WRONG_SECRET_DELAY;

/// The answer to every refusal of a guest, whatever the reason.
pub(crate) const NOT_INVITED: &str = "the invitation does not let you in: it was used, has ended, \
    was not copied completely, or the password is wrong; ask the owner of the session";

/// The session's invitations and guests.
pub(crate) struct Guests {
    invitations: Mutex<Invitations>,
    /// One password is compared at a time: each takes 19 MiB and some 30 ms of another thread.
    comparing: tokio::sync::Mutex<()>,
}

impl Guests {
    pub(crate) fn new(invitations: Invitations) -> Guests {
        Guests { invitations: Mutex::new(invitations), comparing: tokio::sync::Mutex::new(()) }
    }

    /// The record of who is invited and who has come.
    pub(crate) fn record(&self) -> MutexGuard<'_, Invitations> {
        self.invitations.lock().expect("no holder of this lock can panic")
    }

    /// Lets a guest in: its grant, or None after a delay. Each admission is a use.
    pub(crate) async fn admit(
        &self,
        token: &[u8],
        name: &str,
        password: &str,
        peer: SocketAddr,
    ) -> Option<Grant> {
        let refusal = match self.try_admit(token, name, password).await {
            Ok(grant) => {
                let number = self.number_of(grant).unwrap_or(0);
                info!("{peer}: let in as guest {number}");
                return Some(grant);
            }
            Err(refusal) => refusal,
        };
        match refusal {
            Refusal::Invitation(InvitationRefusal::StoreUnavailable) => {
                warn!("{peer}: refused a guest: it cannot be recorded, or there are too many")
            }
            Refusal::Invitation(refusal) => info!("{peer}: invitation refused ({refusal:?})"),
            Refusal::Password => info!("{peer}: invitation refused (wrong password)"),
        }
        tokio::time::sleep(WRONG_SECRET_DELAY).await;
        None
    }

    async fn try_admit(&self, token: &[u8], name: &str, password: &str) -> Result<Grant, Refusal> {
        let now_s = since_1970().as_secs();
        let has_password = self.record().open_to(token, now_s)?.terms.password.is_some();
        if has_password {
            let _turn = self.comparing.lock().await;
            // Again, as others may have tried meanwhile.
            let (id, hash) = {
                let record = self.record();
                let invitation = record.open_to(token, now_s)?;
                (invitation.id, invitation.terms.password.clone())
            };
            let password = password.to_owned();
            let is_right = tokio::task::spawn_blocking(move || is_password(&hash, &password));
            if !is_right.await.unwrap_or(false) {
                self.count_wrong_password(id);
                return Err(Refusal::Password);
            }
        }
        Ok(self.record().admit(token, name, now_s)?)
    }

    fn count_wrong_password(&self, id: InvitationId) {
        if let Err(error) = self.record().count_wrong_password(id) {
            warn!("cannot record a wrong password: {error}");
        }
    }

    /// A guest's number while it may stay.
    pub(crate) fn number_of(&self, grant: Grant) -> Option<u32> {
        self.record().guest(grant, since_1970().as_secs()).ok().map(|guest| guest.number)
    }

    /// What a guest may do now.
    ///
    /// # Errors
    /// It may not stay, or come back.
    pub(crate) fn rights(&self, grant: Grant) -> Result<Rights, GuestEnd> {
        self.record().guest(grant, since_1970().as_secs()).map(|guest| rights(guest.rights))
    }
}

/// Why a guest is refused, for the log.
enum Refusal {
    Invitation(InvitationRefusal),
    Password,
}

impl From<InvitationRefusal> for Refusal {
    fn from(refusal: InvitationRefusal) -> Refusal {
        Refusal::Invitation(refusal)
    }
}

/// Only who has control shares the clipboard, and nobody but the owner the screen's size, a
/// microphone or files.
fn rights(guest: GuestRights) -> Rights {
    Rights {
        input: guest.control,
        size: false,
        clipboard_to_session: guest.control && guest.clipboard_to_session,
        clipboard_to_viewer: guest.control && guest.clipboard_to_guest,
        sound: !guest.without_sound,
        microphone: false,
        files: false,
    }
}

/// Argon2id with the crate's parameters, which are those that OWASP recommends: 19 MiB, 2 passes.
pub(crate) fn hash_password(password: &str) -> Result<String, argon2::password_hash::Error> {
    Ok(Argon2::default().hash_password(password.as_bytes())?.to_string())
}

fn is_password(hash: &Option<String>, password: &str) -> bool {
    let hash = hash.as_deref().map(PasswordHash::new);
    let Some(Ok(hash)) = hash else { return false };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_compared_by_its_argon2id_hash() {
        let hash = hash_password("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hash_password("correct horse").unwrap(), "salted");
        let hash = Some(hash);
        assert!(is_password(&hash, "correct horse"));
        for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
            assert!(!is_password(&hash, wrong), "{wrong:?}");
        }
        assert!(!is_password(&None, "") && !is_password(&Some("x".into()), ""));
    }

    #[test]
    fn only_a_guest_with_control_shares_the_clipboard_and_none_the_size() {
        for bits in 0..8 {
            let [control, clipboard_to_session, clipboard_to_guest] =
                [1, 2, 4].map(|bit| bits & bit != 0);
            let without_sound = clipboard_to_guest;
            let guest =
                GuestRights { control, clipboard_to_session, clipboard_to_guest, without_sound };
            let rights = rights(guest);
            assert!(!rights.size && rights.input == control);
            assert_eq!(rights.clipboard_to_session, control && clipboard_to_session);
            assert_eq!(rights.clipboard_to_viewer, control && clipboard_to_guest);
            assert_eq!(rights.sound, !without_sound);
        }
    }
}
