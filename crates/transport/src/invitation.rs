//! Invitations of a session: what its owner lets guests do, for how long, and who has come. The
//! session process creates invitations, verifies what guests present, and records all of it beside
//! the used tokens, so that it survives a restart of that process. Knows bytes and seconds as
//! arguments, and one file; never connections.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hmac::Mac as _;
use thinc_protocol::limits::NAME_BYTES_MAX;
use thinc_protocol::wire::is_deceptive;
use thiserror::Error;

use crate::append::append_line;
use crate::base64url;
use crate::link::{INVITATION_NAME, INVITATION_PASSWORD, INVITATION_TOKEN_BYTES};
use crate::token::{BrowserLogin, LoginId, PAGE_KEY_LIFE_S, SessionSecret, random};

/// Most invitations and guests of one session. Past it `thinc share` is refused: a file of this
/// size is read in milliseconds, and nobody lists more.
pub const INVITATIONS_MAX: usize = 256;
/// See [`INVITATIONS_MAX`]: guests of all invitations.
pub const GUESTS_MAX: usize = 1024;
/// Longest record of all that has happened, for rights that are changed again and again.
const RECORD_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Longest life of an invitation: 30 days, longer than most sessions.
pub const LIFE_S_MAX: u64 = 30 * 24 * 60 * 60;
/// Wrong passwords before an invitation ends. Each is answered after a delay; who has the link and
/// not the password guesses a word of a large dictionary with a chance of one in thousands.
pub const WRONG_PASSWORDS_MAX: u32 = 10;

const ID_BYTES: usize = 16;
const TAG_BYTES: usize = 32;
const GRANT_BYTES: usize = 2 * ID_BYTES;

/// Domain separation: no credential of a guest is valid as another, nor as one of the owner.
const TOKEN_DOMAIN: &[u8] = b"thinc 1 invitation";
const KEY_DOMAIN: &[u8] = b"thinc 1 guest session key";
const COOKIE_DOMAIN: &[u8] = b"thinc 1 guest cookie";
const ORIGIN_DOMAIN: &[u8] = b"thinc 1 guest origin secret";
const PAGE_DOMAIN: &[u8] = b"thinc 1 guest page key";
const RECORD_DOMAIN: &[u8] = b"thinc 1 invitation record";

/// Identifies an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InvitationId([u8; ID_BYTES]);

/// One guest, and the invitation that let it in: in each of its credentials, bound by their HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Its invitation.
    pub invitation: InvitationId,
    /// The guest; the credentials of its browser end together, as those of the owner do.
    pub guest: LoginId,
}

/// What a guest may do. Without `control` it only sees and hears, whatever else is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestRights {
    /// It may type and point.
    pub control: bool,
    /// The session takes what it copies.
    pub clipboard_to_session: bool,
    /// It may paste what was copied in the session.
    pub clipboard_to_guest: bool,
    /// It hears nothing of the session.
    pub without_sound: bool,
}

impl GuestRights {
    fn bits(self) -> u8 {
        u8::from(self.control)
            | u8::from(self.clipboard_to_session) << 1
            | u8::from(self.clipboard_to_guest) << 2
            | u8::from(self.without_sound) << 3
    }

    fn from_bits(bits: u8) -> Option<GuestRights> {
        (bits < 16).then_some(GuestRights {
            control: bits & 1 != 0,
            clipboard_to_session: bits & 2 != 0,
            clipboard_to_guest: bits & 4 != 0,
            without_sound: bits & 8 != 0,
        })
    }
}

/// What an invitation allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the owner calls it.
    pub name: String,
    /// Seconds since 1970.
    pub expiry_s: u64,
    /// How many guests may come by it.
    pub uses: u32,
    /// What they may do.
    pub rights: GuestRights,
    /// The password's hash in the form of Argon2's reference implementation, if there is one.
    pub password: Option<String>,
}

/// An invitation and what has become of it.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// For credentials.
    pub id: InvitationId,
    /// For people: 1 for the session's first.
    pub number: u32,
    /// What it allows.
    pub terms: Terms,
    /// How many guests have come.
    pub used: u32,
    /// How many wrong passwords were tried.
    pub wrong_passwords: u32,
    /// The owner has ended it.
    pub revoked: bool,
}

/// A person who has come by an invitation.
#[derive(Clone, Debug)]
pub struct Guest {
    /// In its credentials.
    pub grant: Grant,
    /// For people: 1 for the session's first.
    pub number: u32,
    /// What it calls itself.
    pub name: String,
    /// What it may do now.
    pub rights: GuestRights,
    thrown_out: bool,
}

/// Why an invitation lets nobody in. Guests get one answer for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvitationRefusal {
    /// Not created by this session.
    Invalid,
    /// Expired.
    Expired,
    /// As many guests as allowed have come.
    Used,
    /// The owner has ended it.
    Revoked,
    /// Too many wrong passwords.
    Locked,
    /// It cannot be recorded, or there are too many guests.
    StoreUnavailable,
}

/// Why a guest that was let in may not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestEnd {
    /// The session knows no such guest: its credential is from before everything was revoked.
    Unknown,
    /// The invitation has expired.
    Expired,
    /// The owner has ended the invitation.
    Revoked,
    /// The owner has thrown the guest out.
    ThrownOut,
}

impl GuestEnd {
    /// For the guest.
    pub fn reason(self) -> &'static str {
        match self {
            GuestEnd::Unknown => {
                "this visit has ended: ask the owner of the session for a new link"
            }
            GuestEnd::Expired => "the invitation to this session has expired",
            GuestEnd::Revoked => "the owner of this session has ended the invitation",
            GuestEnd::ThrownOut => "the owner of this session has ended your visit",
        }
    }
}

/// Why the owner's request has no effect.
#[derive(Debug, Error)]
pub enum InvitationError {
    /// A limit.
    #[error(
        "this session has {0} {1} already, which is the limit: end the session, or revoke \
             everything with `thinc link --revoke`"
    )]
    Full(usize, &'static str),
    /// The life is too long or empty.
    #[error("an invitation lasts 1 s to {LIFE_S_MAX} s (30 days), not {0} s")]
    Life(u64),
    /// Nobody could come.
    #[error("an invitation needs at least one use")]
    Uses,
    /// There is none.
    #[error("there is no invitation {0}: `thinc share --list` lists them")]
    NoInvitation(u32),
    /// There is none.
    #[error("there is no guest {0}: `thinc share --list` lists them")]
    NoGuest(u32),
    /// The file.
    #[error("cannot record it: {0}")]
    Store(#[from] io::Error),
}

/// A name as people may see it: cleaned of characters that change what a line shows, cut to a
/// limit, and never empty.
pub fn clean_name(name: &str, default: &str) -> String {
    let name = name.replace(is_deceptive, " ");
    let name = name.trim();
    let name = name[..name.floor_char_boundary(NAME_BYTES_MAX)].trim_end();
    if name.is_empty() { default.to_owned() } else { name.to_owned() }
}

/// Whether a link's token has the form of an invitation's; an owner's token has another length.
pub fn is_invitation(token: &[u8]) -> bool {
    token.len() == INVITATION_TOKEN_BYTES
}

impl SessionSecret {
    /// The token of an invitation's link.
    ///
    /// ```text
    /// form u8 (1 name, 2 name and password) | id 16 | expiry u64 big-endian | HMAC-SHA256 32
    /// ```
    pub fn mint_invitation_token(&self, invitation: &Invitation) -> Vec<u8> {
        let Terms { expiry_s, password, .. } = &invitation.terms;
        let form = if password.is_some() { INVITATION_PASSWORD } else { INVITATION_NAME };
        let mut token = vec![form];
        token.extend_from_slice(&invitation.id.0);
        token.extend_from_slice(&expiry_s.to_be_bytes());
        self.sign(TOKEN_DOMAIN, token)
    }

    /// The invitation and the expiry of a token that this session minted; takes constant time for
    /// invalid ones.
    fn invitation_of_token(&self, token: &[u8]) -> Option<(InvitationId, u64)> {
        if token.len() != INVITATION_TOKEN_BYTES {
            return None;
        }
        let (id, expiry) = self.body(TOKEN_DOMAIN, token)?.get(1..)?.split_at(ID_BYTES);
        let id = id.try_into().expect("split there");
        Some((InvitationId(id), u64::from_be_bytes(expiry.try_into().ok()?)))
    }

    /// A guest's session credential: it opens the session until the guest's visit ends.
    ///
    /// ```text
    /// invitation 16 | guest 16 | HMAC-SHA256 32
    /// ```
    pub fn mint_guest_credential(&self, grant: Grant) -> Vec<u8> {
        self.sign(KEY_DOMAIN, grant.bytes())
    }

    /// The guest of a session credential that this session minted.
    pub fn grant_of_credential(&self, key: &[u8]) -> Option<Grant> {
        Grant::from_bytes(self.body(KEY_DOMAIN, key)?)
    }

    /// What a guest's browser gets; as [`SessionSecret::mint_browser_login`].
    pub fn mint_guest_login(&self, grant: Grant) -> BrowserLogin {
        BrowserLogin {
            cookie: self.sign(COOKIE_DOMAIN, grant.bytes()),
            origin_secret: self.sign(ORIGIN_DOMAIN, grant.bytes()),
        }
    }

    /// The guest of a cookie.
    pub fn grant_of_cookie(&self, cookie: &[u8]) -> Option<Grant> {
        Grant::from_bytes(self.body(COOKIE_DOMAIN, cookie)?)
    }

    /// The guest of an origin secret.
    pub fn grant_of_origin_secret(&self, secret: &[u8]) -> Option<Grant> {
        Grant::from_bytes(self.body(ORIGIN_DOMAIN, secret)?)
    }

    /// A key for a guest's page: `invitation 16 | guest 16 | expiry u64 big-endian | HMAC 32`.
    pub fn mint_guest_page_key(&self, grant: Grant, now_s: u64) -> Vec<u8> {
        let mut body = grant.bytes();
        body.extend_from_slice(&(now_s + PAGE_KEY_LIFE_S).to_be_bytes());
        self.sign(PAGE_DOMAIN, body)
    }

    /// The guest of a page key that has not expired.
    pub fn grant_of_page_key(&self, key: &[u8], now_s: u64) -> Option<Grant> {
        let (grant, expiry) = self.body(PAGE_DOMAIN, key)?.split_at_checked(GRANT_BYTES)?;
        let expiry = u64::from_be_bytes(expiry.try_into().ok()?);
        Grant::from_bytes(grant).filter(|_| now_s < expiry)
    }

    fn sign(&self, domain: &[u8], mut body: Vec<u8>) -> Vec<u8> {
        let tag = self.mac(domain, &body).finalize().into_bytes();
        body.extend_from_slice(&tag);
        body
    }

    /// What was signed, if this session has signed it in this domain.
    fn body<'a>(&self, domain: &[u8], signed: &'a [u8]) -> Option<&'a [u8]> {
        let (body, tag) = signed.split_at_checked(signed.len().checked_sub(TAG_BYTES)?)?;
        self.mac(domain, body).verify_slice(tag).ok()?;
        Some(body)
    }
}

impl Grant {
    fn bytes(self) -> Vec<u8> {
        [self.invitation.0, self.guest.0].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Grant> {
        let bytes: &[u8; GRANT_BYTES] = bytes.try_into().ok()?;
        let (invitation, guest) = bytes.split_at(ID_BYTES);
        Some(Grant {
            invitation: InvitationId(invitation.try_into().expect("split there")),
            guest: LoginId(guest.try_into().expect("split there")),
        })
    }
}

/// What is recorded, one line each: a tag, and words.
#[derive(Clone, Debug)]
enum Record {
    Invitation(InvitationId, Terms),
    Guest(Grant, String),
    WrongPassword(InvitationId),
    Revoked(InvitationId),
    ThrownOut(LoginId),
    Rights(LoginId, GuestRights),
}

impl Record {
    fn to_line(&self, secret: &SessionSecret) -> String {
        let encode = |bytes: &[u8]| base64url::encode(bytes);
        let words = match self {
            Record::Invitation(id, terms) => format!(
                "invitation {} {} {} {} {} {}",
                encode(&id.0),
                terms.expiry_s,
                terms.uses,
                terms.rights.bits(),
                encode(terms.name.as_bytes()),
                terms.password.as_ref().map_or("-".to_owned(), |hash| encode(hash.as_bytes())),
            ),
            Record::Guest(grant, name) => format!(
                "guest {} {} {}",
                encode(&grant.invitation.0),
                encode(&grant.guest.0),
                encode(name.as_bytes()),
            ),
            Record::WrongPassword(id) => format!("wrong {}", encode(&id.0)),
            Record::Revoked(id) => format!("revoked {}", encode(&id.0)),
            Record::ThrownOut(guest) => format!("out {}", encode(&guest.0)),
            Record::Rights(guest, rights) => {
                format!("rights {} {}", encode(&guest.0), rights.bits())
            }
        };
        let tag = secret.mac(RECORD_DOMAIN, words.as_bytes()).finalize().into_bytes();
        format!("{} {words}", encode(&tag))
    }

    /// None for a line that a full disk has truncated, or that is of another secret: what it
    /// records was revoked with that.
    fn from_line(line: &str, secret: &SessionSecret) -> Option<Record> {
        let (tag, words) = line.split_once(' ')?;
        let tag = base64url::decode(tag)?;
        secret.mac(RECORD_DOMAIN, words.as_bytes()).verify_slice(&tag).ok()?;
        let mut words = words.split(' ');
        let kind = words.next()?;
        let mut word = || words.next();
        let id = |word: Option<&str>| -> Option<[u8; ID_BYTES]> {
            base64url::decode(word?)?.try_into().ok()
        };
        let text = |word: Option<&str>| String::from_utf8(base64url::decode(word?)?).ok();
        Some(match kind {
            "invitation" => Record::Invitation(
                InvitationId(id(word())?),
                Terms {
                    expiry_s: word()?.parse().ok()?,
                    uses: word()?.parse().ok()?,
                    rights: GuestRights::from_bits(word()?.parse().ok()?)?,
                    name: text(word())?,
                    password: match word()? {
                        "-" => None,
                        hash => Some(text(Some(hash))?),
                    },
                },
            ),
            "guest" => {
                let invitation = InvitationId(id(word())?);
                Record::Guest(Grant { invitation, guest: LoginId(id(word())?) }, text(word())?)
            }
            "wrong" => Record::WrongPassword(InvitationId(id(word())?)),
            "revoked" => Record::Revoked(InvitationId(id(word())?)),
            "out" => Record::ThrownOut(LoginId(id(word())?)),
            "rights" => {
                let guest = LoginId(id(word())?);
                Record::Rights(guest, GuestRights::from_bits(word()?.parse().ok()?)?)
            }
            _ => return None,
        })
    }
}

/// All invitations and guests of a session, also across restarts of the session process.
#[derive(Debug)]
pub struct Invitations {
    secret: SessionSecret,
    invitations: Vec<Invitation>,
    guests: Vec<Guest>,
    file: File,
}

impl Invitations {
    /// Opens the record, or creates it with mode 0600.
    pub fn open(secret: SessionSecret, path: &Path) -> io::Result<Invitations> {
        let file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let text = io::read_to_string(&file)?;
        let mut all = Invitations { secret, invitations: Vec::new(), guests: Vec::new(), file };
        for line in text.lines() {
            if let Some(record) = Record::from_line(line, &all.secret) {
                all.apply(record);
            }
        }
        Ok(all)
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Invitation(id, terms) => {
                let number = self.invitations.len() as u32 + 1;
                self.invitations.push(Invitation {
                    id,
                    number,
                    terms,
                    used: 0,
                    wrong_passwords: 0,
                    revoked: false,
                });
            }
            Record::Guest(grant, name) => {
                let number = self.guests.len() as u32 + 1;
                let Some(invitation) = self.invitation_mut(grant.invitation) else { return };
                invitation.used += 1;
                let rights = invitation.terms.rights;
                self.guests.push(Guest { grant, number, name, rights, thrown_out: false });
            }
            Record::WrongPassword(id) => {
                self.invitation_mut(id).into_iter().for_each(|found| found.wrong_passwords += 1);
            }
            Record::Revoked(id) => {
                self.invitation_mut(id).into_iter().for_each(|found| found.revoked = true);
            }
            Record::ThrownOut(guest) => {
                self.guest_mut(guest).into_iter().for_each(|found| found.thrown_out = true);
            }
            Record::Rights(guest, rights) => {
                self.guest_mut(guest).into_iter().for_each(|found| found.rights = rights);
            }
        }
    }

    /// Takes effect only once it is recorded: after a restart the same holds.
    fn record(&mut self, record: Record) -> io::Result<()> {
        if self.file.metadata()?.len() >= RECORD_BYTES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        append_line(&mut self.file, &record.to_line(&self.secret))?;
        self.apply(record);
        Ok(())
    }

    fn invitation_mut(&mut self, id: InvitationId) -> Option<&mut Invitation> {
        self.invitations.iter_mut().find(|invitation| invitation.id == id)
    }

    fn guest_mut(&mut self, guest: LoginId) -> Option<&mut Guest> {
        self.guests.iter_mut().find(|found| found.grant.guest == guest)
    }

    // ---- the owner's side

    /// Creates an invitation.
    ///
    /// # Errors
    /// A limit, or it cannot be recorded.
    pub fn invite(&mut self, terms: Terms, now_s: u64) -> Result<&Invitation, InvitationError> {
        if self.invitations.len() >= INVITATIONS_MAX {
            return Err(InvitationError::Full(INVITATIONS_MAX, "invitations"));
        }
        let life_s = terms.expiry_s.saturating_sub(now_s);
        if !(1..=LIFE_S_MAX).contains(&life_s) {
            return Err(InvitationError::Life(life_s));
        }
        if terms.uses == 0 {
            return Err(InvitationError::Uses);
        }
        self.record(Record::Invitation(InvitationId(random()), terms))?;
        Ok(self.invitations.last().expect("the record has added it"))
    }

    /// The link's token of an invitation.
    pub fn token(&self, invitation: &Invitation) -> Vec<u8> {
        self.secret.mint_invitation_token(invitation)
    }

    /// Ends an invitation, and the visits of all guests that came by it.
    ///
    /// # Errors
    /// There is none of this number, or it cannot be recorded.
    pub fn revoke(&mut self, number: u32) -> Result<(), InvitationError> {
        let found = self.invitations.iter().find(|found| found.number == number);
        let Invitation { id, revoked, .. } = *found.ok_or(InvitationError::NoInvitation(number))?;
        if !revoked {
            self.record(Record::Revoked(id))?;
        }
        Ok(())
    }

    /// Ends a guest's visit. By an invitation with uses left it may come again.
    ///
    /// # Errors
    /// There is none of this number, or it cannot be recorded.
    pub fn throw_out(&mut self, number: u32) -> Result<&Guest, InvitationError> {
        let at = self.position(number)?;
        if !self.guests[at].thrown_out {
            self.record(Record::ThrownOut(self.guests[at].grant.guest))?;
        }
        Ok(&self.guests[at])
    }

    /// Lets a guest type and point, or not any more.
    ///
    /// # Errors
    /// There is none of this number, or it cannot be recorded.
    pub fn set_control(&mut self, number: u32, control: bool) -> Result<&Guest, InvitationError> {
        let at = self.position(number)?;
        let Guest { grant, rights, .. } = self.guests[at];
        if rights.control != control {
            self.record(Record::Rights(grant.guest, GuestRights { control, ..rights }))?;
        }
        Ok(&self.guests[at])
    }

    fn position(&self, number: u32) -> Result<usize, InvitationError> {
        let found = self.guests.iter().position(|guest| guest.number == number);
        found.ok_or(InvitationError::NoGuest(number))
    }

    /// All invitations, the oldest first.
    pub fn all(&self) -> &[Invitation] {
        &self.invitations
    }

    /// Whether an invitation lets anybody in.
    pub fn state(&self, invitation: &Invitation, now_s: u64) -> Result<(), InvitationRefusal> {
        if invitation.revoked {
            Err(InvitationRefusal::Revoked)
        } else if invitation.wrong_passwords >= WRONG_PASSWORDS_MAX {
            Err(InvitationRefusal::Locked)
        } else if now_s >= invitation.terms.expiry_s {
            Err(InvitationRefusal::Expired)
        } else if invitation.used >= invitation.terms.uses {
            Err(InvitationRefusal::Used)
        } else {
            Ok(())
        }
    }

    // ---- the guests' side

    /// The invitation of a link's token, if it lets somebody in.
    ///
    /// # Errors
    /// It does not.
    pub fn open_to(&self, token: &[u8], now_s: u64) -> Result<&Invitation, InvitationRefusal> {
        let (id, expiry_s) =
            self.secret.invitation_of_token(token).ok_or(InvitationRefusal::Invalid)?;
        let found = self.invitations.iter().find(|found| found.id == id);
        let found = found.filter(|found| found.terms.expiry_s == expiry_s);
        let invitation = found.ok_or(InvitationRefusal::Invalid)?;
        self.state(invitation, now_s).map(|()| invitation)
    }

    /// Counts a wrong password, before its answer.
    ///
    /// # Errors
    /// It cannot be recorded: then nobody may try another.
    pub fn count_wrong_password(&mut self, id: InvitationId) -> io::Result<()> {
        self.record(Record::WrongPassword(id))
    }

    /// Lets a guest in who has shown the token and, if there is one, the password. Uses the
    /// invitation once, which is recorded before this returns.
    ///
    /// # Errors
    /// The invitation lets nobody in, any more or at all.
    pub fn admit(
        &mut self,
        token: &[u8],
        name: &str,
        now_s: u64,
    ) -> Result<Grant, InvitationRefusal> {
        let invitation = self.open_to(token, now_s)?.id;
        if self.guests.len() >= GUESTS_MAX {
            return Err(InvitationRefusal::StoreUnavailable);
        }
        let grant = Grant { invitation, guest: LoginId(random()) };
        let name = clean_name(name, "guest");
        self.record(Record::Guest(grant, name)).map_err(|_| InvitationRefusal::StoreUnavailable)?;
        Ok(grant)
    }

    /// The guest that a grant is for.
    ///
    /// # Errors
    /// It may not stay, or come back.
    pub fn guest(&self, grant: Grant, now_s: u64) -> Result<&Guest, GuestEnd> {
        let guest =
            self.guests.iter().find(|guest| guest.grant == grant).ok_or(GuestEnd::Unknown)?;
        let invitation = self.invitations.iter().find(|found| found.id == grant.invitation);
        let invitation = invitation.ok_or(GuestEnd::Unknown)?;
        if guest.thrown_out {
            Err(GuestEnd::ThrownOut)
        } else if invitation.revoked {
            Err(GuestEnd::Revoked)
        } else if now_s >= invitation.terms.expiry_s {
            Err(GuestEnd::Expired)
        } else {
            Ok(guest)
        }
    }

    /// When the next invitation expires, in seconds since 1970.
    pub fn next_expiry(&self, now_s: u64) -> Option<u64> {
        let times = self.invitations.iter().map(|invitation| invitation.terms.expiry_s);
        times.filter(|&expiry_s| expiry_s > now_s).min()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::append::tests::{lift_file_limit, passes_with_file_limit};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let process = std::process::id();
            let path = std::env::temp_dir().join(format!("thinc-invitation-{name}-{process}"));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn open(&self) -> Invitations {
            Invitations::open(SessionSecret([7; 32]), &self.0.join("invitations")).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn terms(uses: u32) -> Terms {
        let rights = GuestRights { control: true, ..GuestRights::default() };
        Terms { name: "the team".into(), expiry_s: 2000, uses, rights, password: None }
    }

    fn invited(all: &mut Invitations, terms: Terms) -> (u32, Vec<u8>) {
        let invitation = all.invite(terms, 1000).unwrap().clone();
        (invitation.number, all.token(&invitation))
    }

    #[test]
    fn an_invitation_is_used_as_often_as_allowed_even_after_a_restart() {
        let folder = Folder::new("uses");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(2));
        let first = all.admit(&token, "Ada", 1001).unwrap();
        let mut all = folder.open();
        let second = all.admit(&token, "Bob", 1002).unwrap();
        assert_ne!(first.guest, second.guest);
        for all in [&mut all, &mut folder.open()] {
            assert_eq!(all.admit(&token, "Eve", 1003), Err(InvitationRefusal::Used));
            let names = [first, second].map(|grant| all.guest(grant, 1003).unwrap().name.clone());
            assert_eq!(names, ["Ada", "Bob"]);
            assert_eq!(all.guest(first, 1003).unwrap().rights, terms(2).rights);
        }
    }

    #[test]
    fn an_expired_invitation_lets_nobody_in_and_nobody_stay() {
        let folder = Folder::new("expired");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(9));
        let grant = all.admit(&token, "Ada", 1999).unwrap();
        assert!(all.guest(grant, 1999).is_ok());
        assert_eq!(all.next_expiry(1999), Some(2000));
        assert_eq!(all.admit(&token, "Bob", 2000), Err(InvitationRefusal::Expired));
        assert_eq!(all.guest(grant, 2000).unwrap_err(), GuestEnd::Expired);
        assert_eq!(all.next_expiry(2000), None);
    }

    #[test]
    fn revocations_expulsions_and_rights_survive_a_restart() {
        let folder = Folder::new("revoked");
        let mut all = folder.open();
        let (number, token) = invited(&mut all, terms(9));
        let (other, other_token) = invited(&mut all, terms(9));
        assert_eq!((number, other), (1, 2));
        let [ada, bob] = ["Ada", "Bob"].map(|name| all.admit(&token, name, 1001).unwrap());
        let eve = all.admit(&other_token, "Eve", 1001).unwrap();
        let numbers = [ada, bob, eve].map(|grant| all.guest(grant, 1001).unwrap().number);
        assert_eq!(numbers, [1, 2, 3]);
        all.throw_out(2).unwrap();
        all.set_control(3, false).unwrap();
        all.revoke(1).unwrap();
        for all in [&mut all, &mut folder.open()] {
            assert_eq!(all.guest(ada, 1002).unwrap_err(), GuestEnd::Revoked);
            assert_eq!(all.guest(bob, 1002).unwrap_err(), GuestEnd::ThrownOut);
            assert_eq!(all.admit(&token, "Ada", 1002), Err(InvitationRefusal::Revoked));
            assert!(!all.guest(eve, 1002).unwrap().rights.control);
        }
        let mut all = folder.open();
        all.set_control(3, true).unwrap();
        assert!(folder.open().guest(eve, 1002).unwrap().rights.control);
        assert!(matches!(all.revoke(3), Err(InvitationError::NoInvitation(3))));
        assert!(matches!(all.throw_out(4), Err(InvitationError::NoGuest(4))));
        assert!(matches!(all.set_control(0, true), Err(InvitationError::NoGuest(0))));
    }

    #[test]
    fn wrong_passwords_end_an_invitation_even_after_a_restart() {
        let folder = Folder::new("wrong");
        let mut all = folder.open();
        let password = Some("$argon2id$…".to_owned());
        let (_, token) = invited(&mut all, Terms { password: password.clone(), ..terms(9) });
        let id = all.open_to(&token, 1001).unwrap().id;
        for _ in 1..WRONG_PASSWORDS_MAX {
            all.count_wrong_password(id).unwrap();
        }
        let mut all = folder.open();
        assert_eq!(all.open_to(&token, 1001).unwrap().terms.password, password);
        all.count_wrong_password(id).unwrap();
        for all in [&all, &folder.open()] {
            assert_eq!(all.open_to(&token, 1001).unwrap_err(), InvitationRefusal::Locked);
        }
    }

    #[test]
    fn expired_changed_and_foreign_tokens_are_refused() {
        let folder = Folder::new("refused");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(1));
        for bit in 0..token.len() * 8 {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(all.admit(&changed, "", 1001), Err(InvitationRefusal::Invalid), "bit {bit}");
        }
        for length in 0..token.len() {
            assert_eq!(all.admit(&token[..length], "", 1001), Err(InvitationRefusal::Invalid));
        }
        let foreign = SessionSecret([8; 32]).mint_invitation_token(&all.invitations[0]);
        assert_eq!(all.admit(&foreign, "", 1001), Err(InvitationRefusal::Invalid));
        assert!(all.admit(&token, "", 1001).is_ok(), "the refusals have not used it");
    }

    #[test]
    fn a_new_secret_ends_all_invitations_of_the_old_one() {
        let folder = Folder::new("secret");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(9));
        let grant = all.admit(&token, "Ada", 1001).unwrap();
        let path = folder.0.join("invitations");
        let mut new = Invitations::open(SessionSecret([8; 32]), &path).unwrap();
        assert!(new.all().is_empty());
        assert_eq!(new.open_to(&token, 1001).unwrap_err(), InvitationRefusal::Invalid);
        assert_eq!(new.guest(grant, 1001).unwrap_err(), GuestEnd::Unknown);
        assert_eq!(invited(&mut new, terms(1)).0, 1, "and their numbers begin again");
    }

    #[test]
    fn a_changed_record_and_a_truncated_one_count_for_nothing() {
        let folder = Folder::new("changed");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(1));
        let path = folder.0.join("invitations");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(" 2000 1 1 "), "{text}");
        std::fs::write(&path, text.replace(" 2000 1 1 ", " 9000 1 1 ")).unwrap();
        assert!(folder.open().all().is_empty());
        // The rest of the line is lost; the next record is whole.
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        let (_, other) = invited(&mut folder.open(), terms(1));
        let all = folder.open();
        assert!(all.open_to(&token, 1001).is_err() && all.open_to(&other, 1001).is_ok());
    }

    #[test]
    fn a_full_disk_lets_nobody_in_and_makes_no_use_available_again() {
        let test = "invitation::tests::a_full_disk_lets_nobody_in_and_makes_no_use_available_again";
        // The invitation, one guest, and a part of the next.
        if passes_with_file_limit(test, 250) {
            return;
        }
        let folder = Folder::new("full");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(2));
        let ada = all.admit(&token, "Ada", 1001).unwrap();
        let refused = all.admit(&token, "Bob", 1001);
        assert_eq!(refused, Err(InvitationRefusal::StoreUnavailable));
        assert!(all.revoke(1).is_err() && all.guest(ada, 1001).is_ok(), "as after a restart");
        lift_file_limit();
        assert!(all.admit(&token, "Eve", 1001).is_ok());
        for all in [&mut all, &mut folder.open()] {
            assert_eq!(all.admit(&token, "Bob", 1001), Err(InvitationRefusal::Used));
            assert!(all.guest(ada, 1001).is_ok());
        }
    }

    #[test]
    fn limits_are_named() {
        let folder = Folder::new("limits");
        let mut all = folder.open();
        for (expiry_s, uses) in [(1000, 1), (999, 1), (1001 + LIFE_S_MAX, 1), (2000, 0)] {
            assert!(all.invite(Terms { expiry_s, ..terms(uses) }, 1000).is_err());
        }
        for _ in 0..INVITATIONS_MAX {
            all.invite(terms(1), 1000).unwrap();
        }
        let error = all.invite(terms(1), 1000).unwrap_err().to_string();
        assert!(error.contains("256 invitations"), "{error}");
    }

    #[test]
    fn no_credential_of_a_guest_is_another_credential_or_one_of_the_owner() {
        let folder = Folder::new("kinds");
        let mut all = folder.open();
        let (_, token) = invited(&mut all, terms(1));
        let grant = all.admit(&token, "Ada", 1001).unwrap();
        let secret = SessionSecret([7; 32]);
        let BrowserLogin { cookie, origin_secret } = secret.mint_guest_login(grant);
        let key = secret.mint_guest_credential(grant);
        let page = secret.mint_guest_page_key(grant, 1000);
        let guests = [&token, &key, &cookie, &origin_secret, &page];
        let read = |bytes: &[u8]| {
            [
                all.open_to(bytes, 1001).is_ok() || secret.invitation_of_token(bytes).is_some(),
                secret.grant_of_credential(bytes) == Some(grant),
                secret.grant_of_cookie(bytes) == Some(grant),
                secret.grant_of_origin_secret(bytes) == Some(grant),
                secret.grant_of_page_key(bytes, 1001) == Some(grant),
            ]
        };
        let owners = |bytes: &[u8]| {
            secret.is_session_credential(bytes)
                || secret.login_of_cookie(bytes).is_some()
                || secret.login_of_origin_secret(bytes).is_some()
                || secret.login_of_page_key(bytes, 1001).is_some()
                || secret.is_token(bytes)
        };
        for (at, bytes) in guests.into_iter().enumerate() {
            let mut expected = [false; 5];
            expected[at] = true;
            assert_eq!(read(bytes), expected, "kind {at}");
            assert!(!owners(bytes), "kind {at}");
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read(&changed), [false; 5], "kind {at}, bit {bit}");
                assert!(!owners(&changed), "kind {at}, bit {bit}");
            }
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), [false; 5]);
            }
        }
        assert_eq!(secret.grant_of_page_key(&page, 1000 + PAGE_KEY_LIFE_S), None);
        let login = secret.mint_browser_login();
        let owner = secret.login_of_cookie(&login.cookie).unwrap();
        for bytes in [
            secret.mint_session_credential(),
            secret.mint_token(1000),
            secret.mint_page_key(owner, 1000),
            login.cookie,
            login.origin_secret,
        ] {
            assert!(owners(&bytes));
            assert_eq!(read(&bytes), [false; 5], "no owner's credential is a guest's");
        }
    }

    #[test]
    fn names_are_bounded_and_cannot_change_what_a_line_shows() {
        assert_eq!(clean_name("  Ada Lovelace ", "guest"), "Ada Lovelace");
        assert_eq!(clean_name("a\u{202e}b\n\u{1b}[2J", "guest"), "a b  [2J");
        assert_eq!(clean_name(" \t", "guest"), "guest");
        let long = clean_name(&"é".repeat(100), "guest");
        assert!(long.len() <= NAME_BYTES_MAX && long.chars().all(|c| c == 'é'), "{long}");
    }

    #[test]
    fn the_record_has_mode_0600() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("mode");
        drop(folder.open());
        let metadata = std::fs::metadata(folder.0.join("invitations")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
}
