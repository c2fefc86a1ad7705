//! The credentials of a session: tokens of links, valid once; session credentials and logins of
//! browsers, valid until the session ends; page keys, valid for a day. invitation.rs has those of
//! guests. The supervisor mints, viewers present, and the session process verifies them. Knows
//! bytes and seconds as arguments; the replay cache of used tokens is the only file.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::append::append_line;
use crate::base64url;

/// 256 random bits, generated when a session starts; every token and key of that session is an HMAC
/// with it as the key.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(pub [u8; 32]);

/// A browser's two credentials. It sends the cookie to every port of the host, which any user may
/// have opened; the secret is kept in the storage of the page's origin, which includes the port.
pub struct BrowserLogin {
    /// Sent by the browser itself.
    pub cookie: Vec<u8>,
    /// Sent by the page where it connects.
    pub origin_secret: Vec<u8>,
}

/// One login of one browser; its cookie, origin secret and page keys end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoginId(pub [u8; ID_BYTES]);

const ID_BYTES: usize = 16;
const EXPIRY_BYTES: usize = 8;
const TAG_BYTES: usize = 32;
const TOKEN_BYTES: usize = ID_BYTES + EXPIRY_BYTES + TAG_BYTES;
const KEY_BYTES: usize = ID_BYTES + TAG_BYTES;

/// 15 minutes: how long an unused link stays valid; `thinc link` makes another at any time.
pub const TOKEN_LIFE_S: u64 = 15 * 60;

/// A minute: how long a token that was sent through ssh stays valid. The viewer uses it at once; a
/// slow login is over by then.
pub const OFFER_LIFE_S: u64 = 60;

/// A day: how long a page may connect with WebTransport before it has to show its login again.
pub const PAGE_KEY_LIFE_S: u64 = 24 * 60 * 60;

/// Most used tokens that are remembered. Only tokens of the session's own minter count, and expired
/// ones are forgotten; past the limit no token is accepted until some have expired.
const USED_TOKENS_MAX: usize = 65_536;

/// Most logins that can be ended before the session does. Each has used up a link.
const ENDED_LOGINS_MAX: usize = 65_536;
/// Begins the line of an ended login in the file of used tokens.
const ENDED_LOGIN: &str = "ended";

/// Domain separation: a credential of one kind is invalid as another.
const TOKEN_DOMAIN: &[u8] = b"thinc 1 link token";
const KEY_DOMAIN: &[u8] = b"thinc 1 session key";
const COOKIE_DOMAIN: &[u8] = b"thinc 1 cookie";
const ORIGIN_DOMAIN: &[u8] = b"thinc 1 origin secret";
const PAGE_DOMAIN: &[u8] = b"thinc 1 page key";
const ID_DOMAIN: &[u8] = b"thinc 1 session id";

/// Secrets stay out of logs.
impl std::fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionSecret")
    }
}

/// Bytes from the system's random source.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    bytes
}

impl SessionSecret {
    /// A new random secret.
    pub fn generate() -> SessionSecret {
        SessionSecret(random())
    }

    pub(crate) fn mac(&self, domain: &[u8], body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            <Hmac<Sha256>>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(&[domain.len() as u8]);
        mac.update(domain);
        mac.update(body);
        mac
    }

    /// A token that opens the session once, before `now_s` + [`TOKEN_LIFE_S`] (seconds since 1970).
    ///
    /// ```text
    /// id 16 | expiry u64 big-endian, seconds since 1970 | HMAC-SHA256 32
    /// ```
    pub fn mint_token(&self, now_s: u64) -> Vec<u8> {
        self.mint(TOKEN_DOMAIN, random(), now_s + TOKEN_LIFE_S)
    }

    /// A token for a viewer that came through ssh: as [`SessionSecret::mint_token`], but valid for
    /// [`OFFER_LIFE_S`] only.
    pub fn mint_offer_token(&self, now_s: u64) -> Vec<u8> {
        self.mint(TOKEN_DOMAIN, random(), now_s + OFFER_LIFE_S)
    }

    /// A key for a page that has shown its login: it opens the session until `now_s` +
    /// [`PAGE_KEY_LIFE_S`], or until that login ends. It has the format of a token.
    pub fn mint_page_key(&self, login: LoginId, now_s: u64) -> Vec<u8> {
        self.mint(PAGE_DOMAIN, login.0, now_s + PAGE_KEY_LIFE_S)
    }

    /// The login of a page key, if this session minted it and it has not expired.
    pub fn login_of_page_key(&self, key: &[u8], now_s: u64) -> Option<LoginId> {
        let (id, expiry) = self.verify(PAGE_DOMAIN, key)?;
        (now_s < expiry).then_some(LoginId(id))
    }

    fn mint(&self, domain: &[u8], id: [u8; ID_BYTES], expiry_s: u64) -> Vec<u8> {
        let mut token = id.to_vec();
        token.extend_from_slice(&expiry_s.to_be_bytes());
        let tag = self.mac(domain, &token).finalize().into_bytes();
        token.extend_from_slice(&tag);
        token
    }

    /// A session credential: it opens the session until the session ends.
    ///
    /// ```text
    /// id 16 | HMAC-SHA256 32
    /// ```
    pub fn mint_session_credential(&self) -> Vec<u8> {
        self.mint_key(KEY_DOMAIN, &random())
    }

    /// True for session credentials that this session minted; takes constant time for invalid ones.
    pub fn is_session_credential(&self, key: &[u8]) -> bool {
        self.id_of_key(KEY_DOMAIN, key).is_some()
    }

    /// What a browser gets for a token. Both have the format of a session credential and are valid
    /// as long, but only together, and for a browser only.
    pub fn mint_browser_login(&self) -> BrowserLogin {
        let id = random();
        BrowserLogin {
            cookie: self.mint_key(COOKIE_DOMAIN, &id),
            origin_secret: self.mint_key(ORIGIN_DOMAIN, &id),
        }
    }

    /// The login of a cookie, if this session minted it. A cookie opens nothing by itself.
    pub fn login_of_cookie(&self, cookie: &[u8]) -> Option<LoginId> {
        self.id_of_key(COOKIE_DOMAIN, cookie).map(LoginId)
    }

    /// The login of an origin secret, if this session minted it. It may be another one than the
    /// cookie's: a browser has one cookie, and its older tabs remember older secrets.
    pub fn login_of_origin_secret(&self, secret: &[u8]) -> Option<LoginId> {
        self.id_of_key(ORIGIN_DOMAIN, secret).map(LoginId)
    }

    fn mint_key(&self, domain: &[u8], id: &[u8; ID_BYTES]) -> Vec<u8> {
        let tag = self.mac(domain, id).finalize().into_bytes();
        [&id[..], &tag[..]].concat()
    }

    /// Takes constant time for keys that this session did not mint.
    fn id_of_key(&self, domain: &[u8], key: &[u8]) -> Option<[u8; ID_BYTES]> {
        let (body, tag) = key.split_at_checked(ID_BYTES).filter(|_| key.len() == KEY_BYTES)?;
        self.mac(domain, body).verify_slice(tag).ok()?;
        Some(body.try_into().expect("split there"))
    }

    /// A public identifier of the session that does not reveal the secret: 16 hexadecimal digits.
    pub fn session_id(&self) -> String {
        let tag = self.mac(ID_DOMAIN, &[]).finalize().into_bytes();
        tag[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The secret's owner has minted this for a link.
    #[cfg(test)]
    pub(crate) fn is_token(&self, token: &[u8]) -> bool {
        self.verify(TOKEN_DOMAIN, token).is_some()
    }

    /// Id and expiry of a token that this session minted in this domain.
    fn verify(&self, domain: &[u8], token: &[u8]) -> Option<([u8; ID_BYTES], u64)> {
        let (body, tag) = token
            .split_at_checked(ID_BYTES + EXPIRY_BYTES)
            .filter(|_| token.len() == TOKEN_BYTES)?;
        self.mac(domain, body).verify_slice(tag).ok()?;
        let (id, expiry) = body.split_at(ID_BYTES);
        Some((
            id.try_into().expect("split there"),
            u64::from_be_bytes(expiry.try_into().expect("split there")),
        ))
    }
}

/// Accepts each token once, also across restarts of the session process.
#[derive(Debug)]
pub struct TokenVerifier {
    secret: SessionSecret,
    used: HashMap<[u8; ID_BYTES], u64>,
    ended: HashSet<LoginId>,
    replay_cache: File,
}

/// Why a token was refused; the peer gets the same message in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// Not minted by this session.
    Invalid,
    /// Expired.
    Expired,
    /// Used before.
    Used,
    /// The replay cache is full or cannot be written.
    StoreUnavailable,
}

impl TokenVerifier {
    /// Opens the replay cache, a file of used tokens, or creates it with mode 0600.
    pub fn open(secret: SessionSecret, replay_cache: &Path) -> io::Result<TokenVerifier> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(replay_cache)?;
        let mut used = HashMap::new();
        let mut ended = HashSet::new();
        let text = std::io::read_to_string(&file)?;
        for line in text.lines() {
            // A line that a crash or a full disk truncated belongs to a token that was not
            // accepted: skipping it is right.
            let Some((id, expiry)) = line.split_once(' ') else { continue };
            if id == ENDED_LOGIN {
                let login = base64url::decode(expiry).and_then(|id| id.try_into().ok());
                ended.extend(login.map(LoginId));
                continue;
            }
            if let (Some(Ok(id)), Ok(expiry)) =
                (base64url::decode(id).map(TryInto::try_into), expiry.parse())
            {
                used.insert(id, expiry);
            }
        }
        Ok(TokenVerifier { secret, used, ended, replay_cache: file })
    }

    /// Accepts a token and records it as used before this returns.
    pub fn redeem(&mut self, token: &[u8], now_s: u64) -> Result<(), TokenRefusal> {
        let (id, expiry) = self.secret.verify(TOKEN_DOMAIN, token).ok_or(TokenRefusal::Invalid)?;
        if now_s >= expiry {
            return Err(TokenRefusal::Expired);
        }
        if self.used.contains_key(&id) {
            return Err(TokenRefusal::Used);
        }
        if self.used.len() >= USED_TOKENS_MAX {
            self.used.retain(|_, expiry| *expiry > now_s);
            if self.used.len() >= USED_TOKENS_MAX {
                return Err(TokenRefusal::StoreUnavailable);
            }
        }
        let line = format!("{} {expiry}", base64url::encode(&id));
        append_line(&mut self.replay_cache, &line).map_err(|_| TokenRefusal::StoreUnavailable)?;
        self.used.insert(id, expiry);
        Ok(())
    }

    /// Ends a login, for later session processes too, before this returns.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn end_login(&mut self, login: LoginId) -> io::Result<()> {
        if self.ended.contains(&login) {
            return Ok(());
        }
        if self.ended.len() >= ENDED_LOGINS_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let line = format!("{ENDED_LOGIN} {}", base64url::encode(&login.0));
        append_line(&mut self.replay_cache, &line)?;
        self.ended.insert(login);
        Ok(())
    }

    /// Whether a login has ended.
    pub fn has_ended(&self, login: LoginId) -> bool {
        self.ended.contains(&login)
    }

    /// The secret from which tokens and keys are minted.
    pub fn secret(&self) -> &SessionSecret {
        &self.secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::append::tests::{lift_file_limit, passes_with_file_limit};

    fn verifier(folder: &Path) -> TokenVerifier {
        TokenVerifier::open(SessionSecret([7; 32]), &folder.join("used")).unwrap()
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("thinc-token-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_token_is_valid_once_even_after_a_restart() {
        let folder = folder("once");
        let mut first = verifier(&folder);
        let token = first.secret().mint_token(1000);
        assert_eq!(first.redeem(&token, 1001), Ok(()));
        assert_eq!(first.redeem(&token, 1001), Err(TokenRefusal::Used));
        assert_eq!(verifier(&folder).redeem(&token, 1001), Err(TokenRefusal::Used));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_truncated_line_does_not_hide_the_next_token() {
        let folder = folder("cut");
        std::fs::write(folder.join("used"), "AAAAAAAAAAAAAAA").unwrap();
        let mut first = verifier(&folder);
        let token = first.secret().mint_token(1000);
        assert_eq!(first.redeem(&token, 1001), Ok(()));
        assert_eq!(verifier(&folder).redeem(&token, 1001), Err(TokenRefusal::Used));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_full_disk_accepts_no_token_and_makes_none_valid_again() {
        // One record, and a part of the next.
        let test = "token::tests::a_full_disk_accepts_no_token_and_makes_none_valid_again";
        if passes_with_file_limit(test, 50) {
            return;
        }
        let folder = folder("full");
        let mut first = verifier(&folder);
        let tokens: Vec<_> = (0..3).map(|_| first.secret().mint_token(1000)).collect();
        assert_eq!(first.redeem(&tokens[0], 1001), Ok(()));
        assert_eq!(first.redeem(&tokens[1], 1001), Err(TokenRefusal::StoreUnavailable));
        assert_eq!(std::fs::metadata(folder.join("used")).unwrap().len(), 50, "a part of a record");
        lift_file_limit();
        assert_eq!(first.redeem(&tokens[2], 1001), Ok(()));
        let mut restarted = verifier(&folder);
        assert_eq!(restarted.redeem(&tokens[0], 1001), Err(TokenRefusal::Used));
        assert_eq!(restarted.redeem(&tokens[2], 1001), Err(TokenRefusal::Used));
        assert_eq!(restarted.redeem(&tokens[1], 1001), Ok(()), "it was refused before");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn expired_changed_and_foreign_tokens_are_refused() {
        let folder = folder("refused");
        let mut verifier = verifier(&folder);
        let token = verifier.secret().mint_token(1000);
        assert_eq!(verifier.redeem(&token, 1000 + TOKEN_LIFE_S), Err(TokenRefusal::Expired));
        for bit in 0..token.len() * 8 {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verifier.redeem(&changed, 1001), Err(TokenRefusal::Invalid), "bit {bit}");
        }
        for length in 0..token.len() {
            assert_eq!(verifier.redeem(&token[..length], 1001), Err(TokenRefusal::Invalid));
        }
        let short = verifier.secret().mint_offer_token(1000);
        assert_eq!(verifier.redeem(&short, 1000 + OFFER_LIFE_S), Err(TokenRefusal::Expired));
        assert_eq!(verifier.redeem(&short, 999 + OFFER_LIFE_S), Ok(()));
        assert_eq!(verifier.redeem(&short, 999 + OFFER_LIFE_S), Err(TokenRefusal::Used));
        let foreign = SessionSecret([8; 32]).mint_token(1000);
        assert_eq!(verifier.redeem(&foreign, 1001), Err(TokenRefusal::Invalid));
        assert_eq!(verifier.redeem(&token, 1001), Ok(()), "the refusals have not used the token");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_session_credential_is_not_a_token_and_a_token_not_a_session_credential() {
        let secret = SessionSecret::generate();
        let (key, token) = (secret.mint_session_credential(), secret.mint_token(0));
        assert!(secret.is_session_credential(&key));
        assert!(!secret.is_session_credential(&token));
        assert!(!SessionSecret::generate().is_session_credential(&key));
        assert!(secret.verify(TOKEN_DOMAIN, &key).is_none());
        assert!(secret.verify(TOKEN_DOMAIN, &token).is_some());
    }

    #[test]
    fn cookies_and_origin_secrets_are_no_other_credential() {
        let secret = SessionSecret::generate();
        let BrowserLogin { cookie, origin_secret } = secret.mint_browser_login();
        let login = secret.login_of_cookie(&cookie);
        assert!(login.is_some() && login == secret.login_of_origin_secret(&origin_secret));
        assert_eq!(secret.login_of_cookie(&origin_secret), None);
        assert_eq!(secret.login_of_origin_secret(&cookie), None);
        let credential = secret.mint_session_credential();
        assert_eq!(secret.login_of_cookie(&credential), None);
        assert_eq!(secret.login_of_origin_secret(&credential), None);
        let others = SessionSecret::generate();
        assert_eq!(others.login_of_cookie(&cookie), None);
        assert_eq!(others.login_of_origin_secret(&origin_secret), None);
        for key in [&cookie, &origin_secret] {
            assert!(!secret.is_session_credential(key), "they open no native connection");
            assert_eq!(secret.verify(TOKEN_DOMAIN, key), None);
            assert_eq!(secret.login_of_page_key(key, 0), None);
            let mut changed = key.clone();
            changed[20] ^= 1;
            assert_eq!(secret.login_of_cookie(&changed), None);
            assert_eq!(secret.login_of_origin_secret(&changed), None);
        }
    }

    #[test]
    fn a_page_key_is_valid_until_it_expires_and_is_no_other_credential() {
        let secret = SessionSecret([7; 32]);
        let login = secret.login_of_cookie(&secret.mint_browser_login().cookie).unwrap();
        let key = secret.mint_page_key(login, 1000);
        let login_at = |key: &[u8], now| secret.login_of_page_key(key, now);
        assert_eq!(login_at(&key, 1000), Some(login));
        assert_eq!(login_at(&key, 999 + PAGE_KEY_LIFE_S), Some(login));
        assert_eq!(login_at(&key, 1000 + PAGE_KEY_LIFE_S), None);
        assert_eq!(SessionSecret([8; 32]).login_of_page_key(&key, 1001), None);
        for bit in 0..key.len() * 8 {
            let mut changed = key.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(login_at(&changed, 1001), None, "bit {bit}");
        }
        assert!((0..key.len()).all(|length| login_at(&key[..length], 1001).is_none()));
        assert!(secret.verify(TOKEN_DOMAIN, &key).is_none() && !secret.is_session_credential(&key));
        assert_eq!(login_at(&secret.mint_token(1000), 1001), None);
        assert_eq!(login_at(&secret.mint_session_credential(), 1001), None);
    }

    #[test]
    fn an_ended_login_stays_ended_and_no_other_does() {
        let folder = folder("ended");
        let mut first = verifier(&folder);
        let [one, other] = [(); 2].map(|()| {
            let login = first.secret().mint_browser_login();
            first.secret().login_of_cookie(&login.cookie).unwrap()
        });
        let token = first.secret().mint_token(1000);
        assert_eq!(first.redeem(&token, 1001), Ok(()));
        first.end_login(one).unwrap();
        first.end_login(one).unwrap();
        let second = verifier(&folder);
        for verifier in [&first, &second] {
            assert!(verifier.has_ended(one) && !verifier.has_ended(other));
        }
        assert_eq!(second.ended.len(), 1);
        assert_eq!(second.used.len(), 1, "tokens are read from the same file");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_replay_cache_has_mode_0600() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder("mode");
        drop(verifier(&folder));
        assert_eq!(
            std::fs::metadata(folder.join("used")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
