//! Secrets that open a session: tokens of links, good once; session keys, good until the session ends; keys of pages, for a day.
//! From the supervisor (which mints) and the network (which presents), to the session process (which decides).
//! Knows bytes and seconds as arguments; the record of used tokens is the only file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::base64url;

/// 256 bits from the system, made when a session starts; every token and key of that session is an HMAC under it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(pub [u8; 32]);

const ID_BYTES: usize = 16;
const EXPIRY_BYTES: usize = 8;
const TAG_BYTES: usize = 32;
const TOKEN_BYTES: usize = ID_BYTES + EXPIRY_BYTES + TAG_BYTES;
const KEY_BYTES: usize = ID_BYTES + TAG_BYTES;

/// 15 minutes: how long a link stays good when nobody opens it; `thinc link` makes another at any time.
pub const TOKEN_LIFE_S: u64 = 15 * 60;

/// A day: how long a page may come by WebTransport before it has to show its cookie again. Scripts can read this key, as they
/// cannot the cookie.
pub const PAGE_KEY_LIFE_S: u64 = 24 * 60 * 60;

/// Most used tokens remembered. Only the session's own minter makes tokens that get this far, and old ones are
/// forgotten when they would no longer be taken anyway; past the limit no token is taken until some have aged.
const USED_MAX: usize = 65_536;

/// What an HMAC is for; keeps one kind of secret from passing as another.
const TOKEN_DOMAIN: &[u8] = b"thinc 1 link token";
const KEY_DOMAIN: &[u8] = b"thinc 1 session key";
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
    /// A fresh one.
    pub fn generate() -> SessionSecret {
        SessionSecret(random())
    }

    pub(crate) fn mac(&self, domain: &[u8], body: &[u8]) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256>>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
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
        self.mint_until(TOKEN_DOMAIN, now_s + TOKEN_LIFE_S)
    }

    /// A key for a page that has shown its cookie: it opens the session until `now_s` + [`PAGE_KEY_LIFE_S`]. Looks like a token.
    pub fn mint_page_key(&self, now_s: u64) -> Vec<u8> {
        self.mint_until(PAGE_DOMAIN, now_s + PAGE_KEY_LIFE_S)
    }

    /// True for keys of pages that this session minted and that are not too old.
    pub fn is_page_key(&self, key: &[u8], now_s: u64) -> bool {
        self.open_until(PAGE_DOMAIN, key).is_some_and(|(_, expiry)| now_s < expiry)
    }

    fn mint_until(&self, domain: &[u8], expiry_s: u64) -> Vec<u8> {
        let mut token = random::<ID_BYTES>().to_vec();
        token.extend_from_slice(&expiry_s.to_be_bytes());
        let tag = self.mac(domain, &token).finalize().into_bytes();
        token.extend_from_slice(&tag);
        token
    }

    /// A key that opens the session until it ends.
    ///
    /// ```text
    /// id 16 | HMAC-SHA256 32
    /// ```
    pub fn mint_session_key(&self) -> Vec<u8> {
        let mut key = random::<ID_BYTES>().to_vec();
        let tag = self.mac(KEY_DOMAIN, &key).finalize().into_bytes();
        key.extend_from_slice(&tag);
        key
    }

    /// True for keys this session minted; takes the same time for every wrong one.
    pub fn is_session_key(&self, key: &[u8]) -> bool {
        let Some((body, tag)) = key.split_at_checked(ID_BYTES).filter(|_| key.len() == KEY_BYTES) else {
            return false;
        };
        self.mac(KEY_DOMAIN, body).verify_slice(tag).is_ok()
    }

    /// A name for the session that says nothing of the secret: 16 hexadecimal digits, the same as long as it lives.
    pub fn session_id(&self) -> String {
        let tag = self.mac(ID_DOMAIN, &[]).finalize().into_bytes();
        tag[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Id and expiry of what this session minted for this use.
    fn open_until(&self, domain: &[u8], token: &[u8]) -> Option<([u8; ID_BYTES], u64)> {
        let (body, tag) = token.split_at_checked(ID_BYTES + EXPIRY_BYTES).filter(|_| token.len() == TOKEN_BYTES)?;
        self.mac(domain, body).verify_slice(tag).ok()?;
        let (id, expiry) = body.split_at(ID_BYTES);
        Some((id.try_into().expect("split there"), u64::from_be_bytes(expiry.try_into().expect("split there"))))
    }
}

/// Takes each token once, also across restarts of the session process.
#[derive(Debug)]
pub struct TokenGate {
    secret: SessionSecret,
    used: HashMap<[u8; ID_BYTES], u64>,
    record: File,
}

/// Why a token was not taken; the one who presented it is told the same in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// Not minted by this session.
    Wrong,
    /// Too old.
    Expired,
    /// Somebody came with it before.
    Used,
    /// The record of used tokens is full or cannot be written.
    Record,
}

impl TokenGate {
    /// Opens (or makes, for its owner alone) the record of used tokens.
    pub fn open(secret: SessionSecret, record: &Path) -> io::Result<TokenGate> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(record)?;
        let mut used = HashMap::new();
        let text = std::io::read_to_string(&file)?;
        for line in text.lines() {
            // A line cut short by a crash belongs to a token that was not yet answered: passing over it is right.
            let Some((id, expiry)) = line.split_once(' ') else { continue };
            if let (Some(Ok(id)), Ok(expiry)) = (base64url::decode(id).map(TryInto::try_into), expiry.parse()) {
                used.insert(id, expiry);
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            // The next token shall not share the line that was cut short, or it would be passed over with it.
            file.write_all(b"\n")?;
        }
        Ok(TokenGate { secret, used, record: file })
    }

    /// Takes a token, or says why not. It is on record before this returns.
    pub fn redeem(&mut self, token: &[u8], now_s: u64) -> Result<(), TokenRefusal> {
        let (id, expiry) = self.secret.open_until(TOKEN_DOMAIN, token).ok_or(TokenRefusal::Wrong)?;
        if now_s >= expiry {
            return Err(TokenRefusal::Expired);
        }
        if self.used.contains_key(&id) {
            return Err(TokenRefusal::Used);
        }
        if self.used.len() >= USED_MAX {
            self.used.retain(|_, expiry| *expiry > now_s);
            if self.used.len() >= USED_MAX {
                return Err(TokenRefusal::Record);
            }
        }
        let line = format!("{} {expiry}\n", base64url::encode(&id));
        self.record.write_all(line.as_bytes()).map_err(|_| TokenRefusal::Record)?;
        self.used.insert(id, expiry);
        Ok(())
    }

    /// The secret tokens and keys are made under.
    pub fn secret(&self) -> &SessionSecret {
        &self.secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(folder: &Path) -> TokenGate {
        TokenGate::open(SessionSecret([7; 32]), &folder.join("used")).unwrap()
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("thinc-token-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_token_is_good_once_even_after_a_restart() {
        let folder = folder("once");
        let mut first = gate(&folder);
        let token = first.secret().mint_token(1000);
        assert_eq!(first.redeem(&token, 1001), Ok(()));
        assert_eq!(first.redeem(&token, 1001), Err(TokenRefusal::Used));
        assert_eq!(gate(&folder).redeem(&token, 1001), Err(TokenRefusal::Used));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_line_cut_short_takes_no_other_token_with_it() {
        let folder = folder("cut");
        std::fs::write(folder.join("used"), "AAAAAAAAAAAAAAA").unwrap();
        let mut first = gate(&folder);
        let token = first.secret().mint_token(1000);
        assert_eq!(first.redeem(&token, 1001), Ok(()));
        assert_eq!(gate(&folder).redeem(&token, 1001), Err(TokenRefusal::Used));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn old_changed_and_foreign_tokens_are_refused() {
        let folder = folder("refused");
        let mut gate = gate(&folder);
        let token = gate.secret().mint_token(1000);
        assert_eq!(gate.redeem(&token, 1000 + TOKEN_LIFE_S), Err(TokenRefusal::Expired));
        for bit in 0..token.len() * 8 {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(gate.redeem(&changed, 1001), Err(TokenRefusal::Wrong), "bit {bit}");
        }
        for length in 0..token.len() {
            assert_eq!(gate.redeem(&token[..length], 1001), Err(TokenRefusal::Wrong));
        }
        let foreign = SessionSecret([8; 32]).mint_token(1000);
        assert_eq!(gate.redeem(&foreign, 1001), Err(TokenRefusal::Wrong));
        assert_eq!(gate.redeem(&token, 1001), Ok(()), "none of that used the true one up");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_key_is_no_token_and_a_token_no_key() {
        let secret = SessionSecret::generate();
        let (key, token) = (secret.mint_session_key(), secret.mint_token(0));
        assert!(secret.is_session_key(&key));
        assert!(!secret.is_session_key(&token));
        assert!(!SessionSecret::generate().is_session_key(&key));
        assert!(secret.open_until(TOKEN_DOMAIN, &key).is_none());
        assert!(secret.open_until(TOKEN_DOMAIN, &token).is_some());
    }

    #[test]
    fn a_pages_key_is_good_for_its_time_and_for_nothing_else() {
        let secret = SessionSecret([7; 32]);
        let key = secret.mint_page_key(1000);
        assert!(secret.is_page_key(&key, 1000) && secret.is_page_key(&key, 999 + PAGE_KEY_LIFE_S));
        assert!(!secret.is_page_key(&key, 1000 + PAGE_KEY_LIFE_S));
        assert!(!SessionSecret([8; 32]).is_page_key(&key, 1001));
        for bit in 0..key.len() * 8 {
            let mut changed = key.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!secret.is_page_key(&changed, 1001), "bit {bit}");
        }
        assert!((0..key.len()).all(|length| !secret.is_page_key(&key[..length], 1001)));
        assert!(secret.open_until(TOKEN_DOMAIN, &key).is_none() && !secret.is_session_key(&key));
        assert!(
            !secret.is_page_key(&secret.mint_token(1000), 1001)
                && !secret.is_page_key(&secret.mint_session_key(), 1001)
        );
    }

    #[test]
    fn the_record_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder("mode");
        drop(gate(&folder));
        assert_eq!(std::fs::metadata(folder.join("used")).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
