//! The key that a session must show: pinned by the link, or remembered from the first visit. From
//! link.rs and the file of known hosts, to rustls inside client.rs. Knows public keys; never the
//! names or dates of certificates, which may change under a key.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use rustls::DigitallySignedStruct;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use sha2::{Digest as _, Sha256};

use crate::append::append_line;
use crate::base64url;

/// SHA-256 of a certificate's SubjectPublicKeyInfo (DER), as RFC 7469 pins keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpkiPin(pub [u8; 32]);

impl SpkiPin {
    /// The pin of this certificate's key.
    pub(crate) fn of_certificate(
        certificate: &CertificateDer<'_>,
    ) -> Result<SpkiPin, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        Ok(SpkiPin(Sha256::digest(parsed.subject_public_key_info().as_ref()).into()))
    }
}

impl fmt::Display for SpkiPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url::encode(&self.0))
    }
}

impl fmt::Debug for SpkiPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpkiPin({self})")
    }
}

/// The text is not a pin.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a pin has 43 base64url characters")]
pub struct PinParseError;

impl FromStr for SpkiPin {
    type Err = PinParseError;

    fn from_str(text: &str) -> Result<SpkiPin, PinParseError> {
        let bytes = base64url::decode(text).ok_or(PinParseError)?;
        Ok(SpkiPin(bytes.try_into().map_err(|_| PinParseError)?))
    }
}

/// Accepts exactly one public key, in any certificate.
///
/// Remembers the key that was shown, for error messages and for a first visit.
#[derive(Debug)]
pub(crate) struct PinVerifier {
    /// `None`: accepts any key (a first visit; the caller remembers it).
    expected: Option<SpkiPin>,
    seen: Mutex<Option<SpkiPin>>,
    provider: Arc<CryptoProvider>,
}

impl PinVerifier {
    pub(crate) fn new(expected: Option<SpkiPin>, provider: Arc<CryptoProvider>) -> PinVerifier {
        PinVerifier { expected, seen: Mutex::new(None), provider }
    }

    /// The key that the peer showed, once it has.
    pub(crate) fn seen(&self) -> Option<SpkiPin> {
        *self.seen.lock().expect("no holder of this lock can panic")
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pin = SpkiPin::of_certificate(end_entity)?;
        *self.seen.lock().expect("no holder of this lock can panic") = Some(pin);
        if self.expected.is_some_and(|expected| expected != pin) {
            return Err(rustls::CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }

    /// Proves that the peer holds the pinned key.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Keys of first visits, one `host:port pin` a line, like ssh's known_hosts; for links without a
/// pin.
#[derive(Clone, Debug)]
pub(crate) struct KnownHosts {
    path: PathBuf,
}

impl KnownHosts {
    /// The store in this file; it and its folder are created when the first key is remembered.
    pub(crate) fn new(path: impl Into<PathBuf>) -> KnownHosts {
        KnownHosts { path: path.into() }
    }

    /// The file, for error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The key remembered for this `host:port`; invalid lines are skipped.
    pub(crate) fn pin_of(&self, authority: &str) -> io::Result<Option<SpkiPin>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // The last line wins, so that a key can be replaced by appending.
        Ok(text.lines().rev().find_map(|line| {
            let (host, pin) = line.split_once(' ')?;
            if host == authority { pin.trim().parse().ok() } else { None }
        }))
    }

    /// Remembers a key; it replaces an earlier one for the same place.
    pub(crate) fn remember(&self, authority: &str, pin: SpkiPin) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file =
            fs::OpenOptions::new().read(true).create(true).append(true).open(&self.path)?;
        append_line(&mut file, &format!("{authority} {pin}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::append::tests::{lift_file_limit, passes_with_file_limit};

    #[test]
    fn a_full_disk_hides_no_key_that_is_remembered_later() {
        // One line, and a part of the next.
        let test = "pin::tests::a_full_disk_hides_no_key_that_is_remembered_later";
        if passes_with_file_limit(test, 70) {
            return;
        }
        let folder = std::env::temp_dir().join(format!("thinc-pins-{}", std::process::id()));
        let hosts = KnownHosts::new(folder.join("known_hosts"));
        hosts.remember("a:8443", SpkiPin([1; 32])).unwrap();
        hosts.remember("b:8443", SpkiPin([2; 32])).unwrap_err();
        lift_file_limit();
        hosts.remember("c:8443", SpkiPin([3; 32])).unwrap();
        assert_eq!(hosts.pin_of("a:8443").unwrap(), Some(SpkiPin([1; 32])));
        assert_eq!(hosts.pin_of("b:8443").unwrap(), None);
        assert_eq!(hosts.pin_of("c:8443").unwrap(), Some(SpkiPin([3; 32])));
        fs::remove_dir_all(&folder).unwrap();
    }
}
