//! What a handshake is shown: the broker's certificate, or to an ACME server that verifies a name,
//! the answer to its challenge (tls-alpn-01, RFC 8737). Beside the path: filled by logins.rs from
//! the helper's packets, used by mod.rs. Knows keys; never people.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thinc_transport::identity::Identity;

use crate::BrokerError;
use crate::acme::NAMES_MAX;
use crate::certificate::IDENTITY_BYTES_MAX;

/// The protocol that an ACME server offers, and nothing else does.
pub(super) const ALPN_ACME: &[u8] = b"acme-tls/1";

/// Chooses by the protocol that a client offers.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// For everybody.
    pub(crate) identity: Identity,
    /// By name.
    challenges: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl Certificates {
    pub(super) fn new(identity: Identity) -> Certificates {
        Certificates { identity, challenges: Mutex::default() }
    }

    /// TLS as the identity has it, and the protocol of ACME.
    pub(super) fn server_config(self: &Arc<Certificates>) -> Result<ServerConfig, BrokerError> {
        let mut config = self.identity.server_config()?.as_ref().clone();
        config.cert_resolver = self.clone();
        config.alpn_protocols.push(ALPN_ACME.to_vec());
        Ok(config)
    }

    /// Answers for this name with key and certificate from a pipe that the helper has filled.
    pub(crate) fn answer(&self, name: &str, pem: OwnedFd) -> Result<(), BrokerError> {
        let failed = |error: &dyn std::fmt::Display| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
            BrokerError::System("receive a challenge from the helper", error)
        };
        let mut text = Vec::new();
        std::fs::File::from(pem)
            .take(IDENTITY_BYTES_MAX as u64)
            .read_to_end(&mut text)
            .map_err(|error| failed(&error))?;
        let certificate = CertificateDer::from_pem_slice(&text).map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| failed(&error))?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
        let mut challenges = self.challenges.lock().expect("no holder of this lock can panic");
        if challenges.len() >= NAMES_MAX {
            challenges.clear();
        }
        // Unchecked: libraries refuse certificates with the critical extension of ACME.
        let certified = Arc::new(CertifiedKey::new(vec![certificate], key));
        challenges.insert(name.to_ascii_lowercase(), certified);
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn().into_iter().flatten();
        if protocols.next() != Some(ALPN_ACME) || protocols.next().is_some() {
            return self.identity.resolve(hello);
        }
        let name = hello.server_name()?.to_ascii_lowercase();
        let challenges = self.challenges.lock().expect("no holder of this lock can panic");
        challenges.get(&name).cloned()
    }
}
