//! The key a session must show: pinned by the link, or remembered from the first visit.
//! From link.rs and the file of known hosts, to rustls inside client.rs.
//! Knows public keys; never certificates' names or dates, which may change under a key.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use rustls::DigitallySignedStruct;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use sha2::{Digest as _, Sha256};

use crate::base64url;

/// SHA-256 of a certificate's SubjectPublicKeyInfo (DER), as RFC 7469 pins keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpkiPin(pub [u8; 32]);

impl SpkiPin {
    /// The pin of this certificate's key.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Result<SpkiPin, rustls::Error> {
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

/// The text is no pin.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a pin is 43 letters and digits of base64url")]
pub struct PinParseError;

impl FromStr for SpkiPin {
    type Err = PinParseError;

    fn from_str(text: &str) -> Result<SpkiPin, PinParseError> {
        let bytes = base64url::decode(text).ok_or(PinParseError)?;
        Ok(SpkiPin(bytes.try_into().map_err(|_| PinParseError)?))
    }
}

/// Takes exactly one public key, whatever certificate it comes in.
///
/// What it saw is kept, so that a refusal can be told in words and a first visit can be remembered.
#[derive(Debug)]
pub(crate) struct PinVerifier {
    /// `None`: any key will do (a first visit; the caller remembers it).
    expected: Option<SpkiPin>,
    seen: Mutex<Option<SpkiPin>>,
    provider: Arc<CryptoProvider>,
}

impl PinVerifier {
    pub(crate) fn new(expected: Option<SpkiPin>, provider: Arc<CryptoProvider>) -> PinVerifier {
        PinVerifier { expected, seen: Mutex::new(None), provider }
    }

    /// The key the other side showed, once it has.
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

    /// This is what proves that the other side holds the pinned key.
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

/// Keys seen first and remembered, one `host:port pin` a line, as ssh's known_hosts; for links without a pin.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    path: PathBuf,
}

impl KnownHosts {
    /// The store in this file; it and its folder are made when the first key is remembered.
    pub fn new(path: impl Into<PathBuf>) -> KnownHosts {
        KnownHosts { path: path.into() }
    }

    /// Where it is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key remembered for this `host:port`; lines that are not understood are passed over.
    pub fn pin_of(&self, authority: &str) -> io::Result<Option<SpkiPin>> {
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

    /// Remembers a key; an earlier one for the same place no longer counts.
    pub fn remember(&self, authority: &str, pin: SpkiPin) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        // One write of a short line to a file opened for appending: two viewers at once cannot mix their lines.
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{authority} {pin}\n").as_bytes())
    }
}
