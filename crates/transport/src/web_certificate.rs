//! The certificate that a page is told to trust over UDP: valid for days, known by its hash. Beside
//! identity.rs: from its generation, to the QUIC listener's handshakes with browsers, and to the
//! pages, which are told the hash. Knows its key, which is in no file, and the time as an argument;
//! never the session's permanent key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};

use crate::identity::IdentityError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Browsers accept a certificate by its hash only if it is valid for at most 14 days (W3C
/// WebTransport, 3.3), by their own clocks: from a day before now, for slow clocks, to 12 after it.
const VALID_BEFORE: Duration = DAY;
const VALID_AFTER: Duration = Duration::from_secs(12 * DAY.as_secs());
/// The hash that a page is told stays valid for six days at least, whatever the browser's clock.
const RENEWED_AFTER: Duration = Duration::from_secs(6 * DAY.as_secs());

/// The certificate in use, renewed in time.
#[derive(Debug)]
pub struct WebCertificate {
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    certified: Arc<CertifiedKey>,
    hash: [u8; 32],
    made: Duration,
}

impl WebCertificate {
    /// Generates the first one; `now` is the time since 1970.
    pub fn make(now: Duration) -> Result<WebCertificate, IdentityError> {
        Ok(WebCertificate { current: Mutex::new(Current::make(now)?) })
    }

    /// SHA-256 of the certificate (DER) that browsers are shown from now on; renews it if it is
    /// due.
    pub fn hash(&self, now: Duration) -> [u8; 32] {
        let mut current = self.lock();
        // A clock that was set back makes the certificate one that is not valid yet: renew it too.
        let age = now.checked_sub(current.made);
        if age.is_none_or(|age| age >= RENEWED_AFTER)
            && let Ok(next) = Current::make(now)
        {
            *current = next;
        }
        current.hash
    }

    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        self.lock().certified.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn make(now: Duration) -> Result<Current, IdentityError> {
        let failed = |error: rcgen::Error| IdentityError::Make(error.to_string());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        // Its names are not checked.
        let mut params =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "thinc session");
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + now.saturating_sub(VALID_BEFORE);
        params.not_after = epoch + now + VALID_AFTER;
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key).map_err(failed)?.der().clone();
        let hash = Sha256::digest(&certificate).into();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = any_ecdsa_type(&key).map_err(|error| IdentityError::Make(error.to_string()))?;
        Ok(Current {
            certified: Arc::new(CertifiedKey::new(vec![certificate], key)),
            hash,
            made: now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23.
    const NOW: Duration = Duration::from_secs(1_795_392_000);

    #[test]
    fn the_certificate_is_renewed_in_time_and_its_hash_matches() {
        let certificate = WebCertificate::make(NOW).unwrap();
        let first = certificate.hash(NOW);
        assert_eq!(
            first,
            certificate.hash(NOW + RENEWED_AFTER - Duration::from_secs(1)),
            "a page's hash stays valid"
        );
        assert_eq!(first, <[u8; 32]>::from(Sha256::digest(&certificate.current().cert[0])));
        let second = certificate.hash(NOW + RENEWED_AFTER);
        assert_ne!(first, second);
        assert_eq!(second, <[u8; 32]>::from(Sha256::digest(&certificate.current().cert[0])));
        assert_ne!(
            second,
            certificate.hash(NOW),
            "a certificate that is valid only later is not shown"
        );
    }

    /// The two times of a certificate's validity (RFC 5280, 4.1.2.5), which are the only UTCTimes
    /// (tag 23, 13 bytes) in it.
    fn validity(der: &[u8]) -> Vec<String> {
        let at = |at: usize| String::from_utf8(der[at + 2..at + 15].to_vec()).unwrap();
        (0..der.len() - 15)
            .filter(|&i| der[i] == 23 && der[i + 1] == 13 && der[i + 14] == b'Z')
            .map(at)
            .collect()
    }

    #[test]
    fn the_certificate_is_valid_for_less_than_14_days_and_on_slow_clocks_too() {
        let certificate = WebCertificate::make(NOW).unwrap();
        assert_eq!(validity(&certificate.current().cert[0]), ["261122000000Z", "261205000000Z"]);
        assert!(VALID_BEFORE + VALID_AFTER < 14 * DAY);
    }
}
