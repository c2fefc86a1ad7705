//! What a page that came over https is told to trust over UDP: a certificate of days, known by its hash.
//! Beside identity.rs: from its making, to the QUIC door's handshakes with browsers, and to the pages, which are told the hash.
//! Knows its key, which is in no file, and the time as an argument; never the session's lasting key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};

use crate::identity::IdentityError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Browsers take no certificate by its hash that is good for more than 14 days (W3C WebTransport, 3.3), by their own clocks:
/// a day before now for those that are slow, 12 after it.
const BEFORE: Duration = DAY;
const AFTER: Duration = Duration::from_secs(12 * DAY.as_secs());
/// A page is told a hash that stays good for six days at least, whatever it makes of its time.
const RENEWED_AFTER: Duration = Duration::from_secs(6 * DAY.as_secs());

/// The certificate in use, made anew in time.
#[derive(Debug)]
pub struct WebCertificate {
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    shown: Arc<CertifiedKey>,
    hash: [u8; 32],
    made: Duration,
}

impl WebCertificate {
    /// A first one; `now` is the time since 1970.
    pub fn make(now: Duration) -> Result<WebCertificate, IdentityError> {
        Ok(WebCertificate { current: Mutex::new(Current::make(now)?) })
    }

    /// SHA-256 of the certificate (DER) that browsers are shown from now on: the newest, or a newer one where it is time.
    pub fn hash(&self, now: Duration) -> [u8; 32] {
        let mut current = self.lock();
        // A clock that was set back makes a certificate that is not good yet; then as well.
        let age = now.checked_sub(current.made);
        if age.is_none_or(|age| age >= RENEWED_AFTER)
            && let Ok(next) = Current::make(now)
        {
            *current = next;
        }
        current.hash
    }

    pub(crate) fn shown(&self) -> Arc<CertifiedKey> {
        self.lock().shown.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn make(now: Duration) -> Result<Current, IdentityError> {
        let failed = |error: rcgen::Error| IdentityError::Make(error.to_string());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        // Nobody looks at its names.
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "thinc session");
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + now.saturating_sub(BEFORE);
        params.not_after = epoch + now + AFTER;
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key).map_err(failed)?.der().clone();
        let hash = Sha256::digest(&certificate).into();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = any_ecdsa_type(&key).map_err(|error| IdentityError::Make(error.to_string()))?;
        Ok(Current { shown: Arc::new(CertifiedKey::new(vec![certificate], key)), hash, made: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23.
    const NOW: Duration = Duration::from_secs(1_795_392_000);

    #[test]
    fn it_is_renewed_in_time_and_its_hash_is_that_of_what_is_shown() {
        let certificate = WebCertificate::make(NOW).unwrap();
        let first = certificate.hash(NOW);
        assert_eq!(first, certificate.hash(NOW + RENEWED_AFTER - Duration::from_secs(1)), "a page's hash stays good");
        assert_eq!(first, <[u8; 32]>::from(Sha256::digest(&certificate.shown().cert[0])));
        let second = certificate.hash(NOW + RENEWED_AFTER);
        assert_ne!(first, second);
        assert_eq!(second, <[u8; 32]>::from(Sha256::digest(&certificate.shown().cert[0])));
        assert_ne!(second, certificate.hash(NOW), "nor is one shown that is good only later");
    }

    /// The two times of a certificate's validity (RFC 5280, 4.1.2.5), which are the only UTCTimes (tag 23, 13 bytes) in it.
    fn validity(der: &[u8]) -> Vec<String> {
        let at = |at: usize| String::from_utf8(der[at + 2..at + 15].to_vec()).unwrap();
        (0..der.len() - 15).filter(|&i| der[i] == 23 && der[i + 1] == 13 && der[i + 14] == b'Z').map(at).collect()
    }

    #[test]
    fn it_is_good_for_less_than_a_browsers_14_days_and_by_slow_clocks_too() {
        let certificate = WebCertificate::make(NOW).unwrap();
        assert_eq!(validity(&certificate.shown().cert[0]), ["261122000000Z", "261205000000Z"]);
        assert!(BEFORE + AFTER < 14 * DAY);
    }
}
